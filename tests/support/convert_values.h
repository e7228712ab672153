/* SPDX-License-Identifier: MIT */
#ifndef CONVERT_VALUES_H
#define CONVERT_VALUES_H

/* Values for tests of conversions, and a function that compares two results. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/convert/kernels.h"

extern const struct convert_number {
    const char *name; /* name of the type in the names of kernels */
    const ferry_element *(*element)(void);
} convert_numbers[ferryi_number_count];

/*
 * Fills memory with values for tests of conversions. The memory has room for `capacity` elements,
 * which must be at least 65536. Types of 8 and 16 bits get all their values. Other types get values
 * near special values, and random bits. A bool may contain any byte.
 * @return number of elements
 */
size_t convert_values_fill(const ferry_element *element, void *memory, size_t capacity);

/* Returns whether two elements have the same bits. All NaNs of a float type count as equal. */
bool convert_values_same(const ferry_element *element, const unsigned char *a,
                         const unsigned char *b);

#endif
