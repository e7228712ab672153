/* SPDX-License-Identifier: MIT */
#ifndef MYLIB_SAMPLES_H
#define MYLIB_SAMPLES_H

#include "mylib/uint16_buffer.h"

/* Creates a buffer with the elements 0, 1, 2 ..., which are written on the host. The caller owns
 * `*out`. */
ferry_status mylib_samples(ferry_context *context, size_t count, mylib_uint16_buffer *out);

#endif
