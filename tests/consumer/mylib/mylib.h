/* SPDX-License-Identifier: MIT */
#ifndef MYLIB_H
#define MYLIB_H

#include <stddef.h>

struct mylib_vec3 {
    float x, v[2];
};

/* Each number becomes a vector along x. */
void mylib_vec3_from_float(struct mylib_vec3 *target, const float *source, size_t count);

#endif
