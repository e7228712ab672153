/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_LONG_DOUBLE_H
#define FERRY_TEST_LONG_DOUBLE_H

#include <stdbool.h>

/* Returns whether long double has at least 64 binary digits. The tests of conversions compute their
 * expected results with it. Under Valgrind, long double has only the precision of a double. */
static inline bool
long_doubles_are_long(void)
{
    volatile long double one = 1.0L, small = 0x1p-60L;
    return one + small != one;
}

#endif
