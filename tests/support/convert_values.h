/* SPDX-License-Identifier: MIT */
#ifndef CONVERT_VALUES_H
#define CONVERT_VALUES_H

/* Values to try conversions on, and when two results are the same. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/convert/kernels.h"

extern const struct convert_number {
    const char *name; /* in entry points */
    const ferry_element *(*element)(void);
} convert_numbers[ferryi_number_count];

/*
 * Fill memory for `capacity` elements (65536 at least). All values of 8 and 16 bits; of the others,
 * bits near edges and bits of every kind. A bool may hold any byte. @return how many there are
 */
size_t convert_values_fill(const ferry_element *element, void *memory, size_t capacity);

/* Two elements are the same to the bit; between floats NaNs count as equal. */
bool convert_values_same(const ferry_element *element, const unsigned char *a,
                         const unsigned char *b);

#endif
