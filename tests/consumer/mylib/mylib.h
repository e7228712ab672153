/* SPDX-License-Identifier: MIT */
#ifndef MYLIB_H
#define MYLIB_H

#include <stddef.h>

/* The index of the last component in mylib_vec3.v. */
enum { MYLIB_LAST = 1 };

struct mylib_vec3 {
    float x, v[2];
};

/* Converts each number x to the vector (x, 0, 0). */
void mylib_vec3_from_float(struct mylib_vec3 *target, const float *source, size_t count);
/* Computes the sum of the squared components of each source vector. */
void mylib_vec3_squares(double *target, const struct mylib_vec3 *source, size_t count);

#endif
