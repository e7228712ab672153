/* SPDX-License-Identifier: MIT */
#ifndef MYLIB_STRUCTS_H
#define MYLIB_STRUCTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/number.h>

struct mylib_label {
    uint8_t tag;
    double weight;
};

struct mylib_vec3 {
    float x, v[2];
    struct mylib_label label;
};

enum mylib_colour { MYLIB_RED, MYLIB_GREEN };

struct mylib_cell {
    enum mylib_colour colour;
    short level;
    ferry_half height;
    size_t count;
    float flux[2][3][4];
    bool truth[3];
    ferry_bfloat16 weight;
    struct mylib_label labels[1][2];
    ferry_complex_float phase;
    long stamp;
    char letter;
    uint8_t shade[3];
    ferry_half depth;
};

typedef struct mylib_large {
    int32_t cells[4][4];
} mylib_large;

#endif
