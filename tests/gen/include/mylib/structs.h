/* SPDX-License-Identifier: MIT */
#ifndef MYLIB_STRUCTS_H
#define MYLIB_STRUCTS_H

#include <stdint.h>

struct mylib_label {
    uint8_t tag;
    double weight;
};

struct mylib_vec3 {
    float x, v[2];
    struct mylib_label label;
};

typedef struct mylib_large {
    int32_t cells[4][4];
} mylib_large;

#endif
