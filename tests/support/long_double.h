/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_LONG_DOUBLE_H
#define FERRY_TEST_LONG_DOUBLE_H

#include <stdbool.h>

/* Returns whether long doubles have at least 64 binary digits, which the oracles of conversions
 * need. Under Valgrind, long doubles have only the precision of a double. */
static inline bool
long_doubles_are_long(void)
{
    volatile long double one = 1.0L, small = 0x1p-60L;
    return one + small != one;
}

#endif
