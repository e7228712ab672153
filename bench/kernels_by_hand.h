/* SPDX-License-Identifier: MIT */
#ifndef BENCH_KERNELS_BY_HAND_H
#define BENCH_KERNELS_BY_HAND_H

/*
 * The kernels of kernels.json by hand, compiled with the same options. plain_ is the loop that one
 * writes first. careful_ is written for the compiler: it says that arrays do not overlap, keeps 16
 * partial results, and treats the edges of a stencil apart. In a file of their own, because gcc
 * treats the square roots of a whole file as the header of the kernels says; here they may set
 * errno, and gcc takes them one by one.
 */

#include <stddef.h>

void plain_linear_sum(double a, const double *x, double b, const double *y, double *z, size_t n);
void careful_linear_sum(double a, const double *x, double b, const double *y, double *z, size_t n);
void plain_roots(const float *x, const float *y, float *z, size_t n);
void careful_roots(const float *x, const float *y, float *z, size_t n);
double plain_dot(const double *x, const double *y, size_t n);
double careful_dot(const double *x, const double *y, size_t n);
/* NaN is the largest; of no elements it is minus infinity. */
float plain_largest(const float *x, size_t n);
float careful_largest(const float *x, size_t n);
/* `rows` and `columns` are at least 4. */
void plain_blur(const float *now, float weight, float *next, size_t rows, size_t columns);
void careful_blur(const float *now, float weight, float *next, size_t rows, size_t columns);

#endif
