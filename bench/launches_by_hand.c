/* SPDX-License-Identifier: MIT */
#include "launches_by_hand.h"

#ifdef BENCH_OPENMP
#define NAME(name) openmp_##name
#define SHARED     _Pragma("omp parallel for")
#define SHARED_SUM _Pragma("omp parallel for reduction(+ : sum)")
#else
#define NAME(name) plain_##name
#define SHARED
#define SHARED_SUM
#endif

void
NAME(add)(double a, const double *x, double *y, size_t n)
{
    SHARED
    for (size_t i = 0; i < n; i++)
        y[i] = a * x[i] + y[i];
}

double
NAME(dot)(const double *x, const double *y, size_t n)
{
    double sum = 0;
    SHARED_SUM
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

double
NAME(add_dot)(double a, const double *x, double *y, size_t n)
{
    double sum = 0;
    SHARED_SUM
    for (size_t i = 0; i < n; i++) {
        y[i] = a * x[i] + y[i];
        sum += y[i] * y[i];
    }
    return sum;
}
