/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_LONG_DOUBLE_H
#define FERRY_TEST_LONG_DOUBLE_H

#include <stdbool.h>

/* Oracles of conversions compute with long doubles, which have 64 binary digits or more; under
 * Valgrind they have those of a double. */
static inline bool
long_doubles_are_long(void)
{
    volatile long double one = 1.0L, small = 0x1p-60L;
    return one + small != one;
}

#endif
