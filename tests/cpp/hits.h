/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_HITS_H
#define FERRY_TEST_HITS_H

#include <ferry/float.h>

FERRY_BEGIN_DECLS

/* Each function opens and closes a scope `rounds` times. It returns false if a call failed. */
bool hits_c_read(ferry_float_buffer buffer, size_t rounds);
bool hits_c_read_range(ferry_float_buffer buffer, size_t rounds);
bool hits_c_read_device(ferry_float_buffer buffer, size_t rounds);
bool hits_c_update(ferry_float_buffer buffer, size_t rounds);

FERRY_END_DECLS

#endif
