/* SPDX-License-Identifier: MIT */
/* Arrays of any length through one loop. */
#include "src/convert/kernels.h"

void
ferryi_convert_array(ferryi_convert_loop *loop, void *target, size_t target_bytes, const void *source, size_t source_bytes,
                     size_t count)
{
    (void)target_bytes;
    (void)source_bytes;
    loop(target, source, count);
}
