/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_LONG_DOUBLE_H
#define FERRY_TEST_LONG_DOUBLE_H

#include <stdbool.h>

/* Whether long doubles have 64 binary digits or more, as the oracles of conversions need. Under
 * Valgrind they have the precision of a double. */
static inline bool
long_doubles_are_long(void)
{
    volatile long double one = 1.0L, small = 0x1p-60L;
    return one + small != one;
}

#endif
