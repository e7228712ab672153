/* SPDX-License-Identifier: MIT */
#ifndef BENCH_LAUNCHES_BY_HAND_H
#define BENCH_LAUNCHES_BY_HAND_H

/*
 * The kernels of launches.json as loops in plain C, compiled with the options of the generated
 * kernels. The same file is compiled twice: with BENCH_OPENMP, each loop is shared by the threads
 * of OpenMP, and each name begins with openmp_ instead of plain_.
 */

#include <stddef.h>

/* y = a x + y. */
void plain_add(double a, const double *x, double *y, size_t n);
void openmp_add(double a, const double *x, double *y, size_t n);
double plain_dot(const double *x, const double *y, size_t n);
double openmp_dot(const double *x, const double *y, size_t n);
/* y = a x + y. Returns the sum of the squares of y. */
double plain_add_dot(double a, const double *x, double *y, size_t n);
double openmp_add_dot(double a, const double *x, double *y, size_t n);

#endif
