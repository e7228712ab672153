/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CALL_CHECK_H
#define FERRYI_CALL_CHECK_H

/* Checked runs find host functions that use their arrays otherwise than the parameters of the
 * kernel say: that change a READ array, or leave a part of an OVERWRITE array unwritten. */

#include "src/kernel/call.h"

struct ferryi_call_check {
    void **copies; /* one for each argument: a copy of a READ array, or NULL; NULL without memory */
    uint64_t pattern; /* of OVERWRITE arrays; drawn anew for each call */
};

/* Copies the READ arrays, and fills the OVERWRITE arrays with a pattern. Must be called directly
 * before the host function. Arrays that overlap a written one are not checked. */
void ferryi_call_check_begin(const ferry_call *call, struct ferryi_call_check *check);
/* Logs what the host function did wrong. Must be called after a host function that succeeded. */
void ferryi_call_check_end(const ferry_call *call, const struct ferryi_call_check *check,
                           const struct ferryi_log *log, const char *kernel_name);
void ferryi_call_check_free(const ferry_call *call, struct ferryi_call_check *check);

#endif
