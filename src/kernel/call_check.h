/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CALL_CHECK_H
#define FERRYI_CALL_CHECK_H

/* Checked runs find host functions that use their arrays otherwise than the parameters of the
 * kernel say: that change a READ array, or leave a part of an OVERWRITE array unwritten. Generated
 * host functions then also report indices outside of their arrays. */

#include "src/kernel/call.h"

struct ferryi_checked_array {
    void *copy;       /* of a READ array, or NULL */
    bool is_reported; /* whether an index outside of the array was reported */
};

struct ferryi_call_check {
    struct ferryi_checked_array *arrays; /* one for each argument; NULL without memory */
    void *outside;    /* element that stands for those outside of arrays; NULL without memory */
    uint64_t pattern; /* of OVERWRITE arrays; drawn anew for each call */
    const struct ferryi_log *log;
    const char *kernel_name;
};

/* Copies the READ arrays, and fills the OVERWRITE arrays with a pattern. Must be called directly
 * before the host function, with `log` and `kernel_name` set. Arrays that overlap a written one are
 * not checked for what is written. */
void ferryi_call_check_begin(ferry_call *call, struct ferryi_call_check *check);
/* Logs what the host function did wrong. Must be called after a host function that succeeded. */
void ferryi_call_check_end(const ferry_call *call);
void ferryi_call_check_free(ferry_call *call);

#endif
