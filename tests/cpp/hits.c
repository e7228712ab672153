/* SPDX-License-Identifier: MIT */
/* The loops of hits.cpp in C. */
#include "hits.h"

#define DEFINE_LOOP(name, type, open_call)                                                         \
    bool name(ferry_float_buffer buffer, size_t rounds)                                            \
    {                                                                                              \
        for (size_t i = 0; i < rounds; i++) {                                                      \
            ferry_scope scope;                                                                     \
            type *values;                                                                          \
            if ((open_call) != FERRY_OK || ferry_scope_close(&scope) != FERRY_OK)                  \
                return false;                                                                      \
        }                                                                                          \
        return true;                                                                               \
    }

DEFINE_LOOP(hits_c_read, const float, ferry_float_read_host(buffer, &scope, &values))
DEFINE_LOOP(hits_c_read_range, const float,
            ferry_float_read_host_range(buffer, 2, 5, &scope, &values))
DEFINE_LOOP(hits_c_read_device, const float, ferry_float_read_device(buffer, NULL, &scope, &values))
DEFINE_LOOP(hits_c_update, float, ferry_float_update_host(buffer, &scope, &values))
