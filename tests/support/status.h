/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TESTS_STATUS_H
#define FERRY_TESTS_STATUS_H

/* Macros that check the status of a library call, for tests without a fixture. Must be included
 * after <cmocka.h>. */

#include <string.h>

#include <ferry/status.h>

#define OK(call) assert_ok((call), #call)

static inline void
assert_ok(ferry_status status, const char *call)
{
    if (status != FERRY_OK)
        fail_msg("%s: %s: %s", call, ferry_status_name(status), ferry_last_error());
}

static inline void
assert_says(const char *part)
{
    if (!strstr(ferry_last_error(), part))
        fail_msg("\"%s\" is not in \"%s\"", part, ferry_last_error());
}

#endif
