/* SPDX-License-Identifier: MIT */
#ifndef MYLIB_SAMPLES_H
#define MYLIB_SAMPLES_H

#include "mylib/uint16_buffer.h"

/* The numbers 0, 1, 2 ... written on the device where it can be. The caller owns `*out`. */
ferry_status mylib_samples(ferry_context *context, size_t count, mylib_uint16_buffer *out);

#endif
