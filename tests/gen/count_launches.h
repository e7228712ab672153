/* SPDX-License-Identifier: MIT */
#ifndef COUNT_LAUNCHES_H
#define COUNT_LAUNCHES_H

/* Counts how the kernels of a context run at its first device: as code of the device, or as host
 * functions. Needs the internal library. */

#include <ferry/ferry.h>

struct launch_counts {
    unsigned launches, host_functions;
};

/* Begins to count. Must be called before other threads use the context. */
void count_launches_begin(ferry_context *context);
/* Ends counting, and returns the counts. Must be called before the context is destroyed. */
struct launch_counts count_launches_end(void);

#endif
