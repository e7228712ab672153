/* SPDX-License-Identifier: MIT */
#ifndef BENCH_KERNELS_BY_HAND_H
#define BENCH_KERNELS_BY_HAND_H

/*
 * The kernels of kernels.json, written by hand and compiled with the options of the generated
 * kernels. A function named plain_* is the obvious loop. A function named careful_* helps the
 * compiler: it declares that arrays do not overlap, keeps 16 partial results, and computes the
 * edges of a stencil in separate loops.
 *
 * These functions are not in the file that includes the generated header. The header declares the
 * square root of the C library again, as a function that does not set errno. This changes all loops
 * of the file. Without that declaration, gcc does not vectorize loops that contain square roots.
 */

#include <stddef.h>

void plain_linear_sum(double a, const double *x, double b, const double *y, double *z, size_t n);
void careful_linear_sum(double a, const double *x, double b, const double *y, double *z, size_t n);
void plain_roots(const float *x, const float *y, float *z, size_t n);
void careful_roots(const float *x, const float *y, float *z, size_t n);
double plain_dot(const double *x, const double *y, size_t n);
double careful_dot(const double *x, const double *y, size_t n);
/* Returns the largest element. Returns NaN if any element is NaN, or minus infinity if the array is
 * empty. */
float plain_largest(const float *x, size_t n);
float careful_largest(const float *x, size_t n);
/* `rows` and `columns` must be at least 4. */
void plain_blur(const float *now, float weight, float *next, size_t rows, size_t columns);
void careful_blur(const float *now, float weight, float *next, size_t rows, size_t columns);

#endif
