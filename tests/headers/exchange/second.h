/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_SECOND_H
#define FERRY_TEST_SECOND_H

#include <ferry/double_convert.h>
#include <ferry/float.h>

const ferry_element *second_number(void);
/* Converts all elements of `numbers` to double and writes them to `out`. */
ferry_status second_double(ferry_float_buffer numbers, ferry_double_buffer out);

#endif
