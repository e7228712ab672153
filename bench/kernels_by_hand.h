/* SPDX-License-Identifier: MIT */
#ifndef BENCH_KERNELS_BY_HAND_H
#define BENCH_KERNELS_BY_HAND_H

/*
 * The kernels of kernels.json, written by hand and compiled with the same options. plain_ is the
 * obvious loop. careful_ is optimized for the compiler: it declares that arrays do not overlap,
 * keeps 16 partial results, and computes the edges of a stencil in separate loops. They are in a
 * separate file, because the generated header has a pragma that changes square roots in the whole
 * file. Without it they can set errno, and gcc does not vectorize them.
 */

#include <stddef.h>

void plain_linear_sum(double a, const double *x, double b, const double *y, double *z, size_t n);
void careful_linear_sum(double a, const double *x, double b, const double *y, double *z, size_t n);
void plain_roots(const float *x, const float *y, float *z, size_t n);
void careful_roots(const float *x, const float *y, float *z, size_t n);
double plain_dot(const double *x, const double *y, size_t n);
double careful_dot(const double *x, const double *y, size_t n);
/* Returns the largest element: NaN if there is one, minus infinity for an empty array. */
float plain_largest(const float *x, size_t n);
float careful_largest(const float *x, size_t n);
/* `rows` and `columns` are at least 4. */
void plain_blur(const float *now, float weight, float *next, size_t rows, size_t columns);
void careful_blur(const float *now, float weight, float *next, size_t rows, size_t columns);

#endif
