/* SPDX-License-Identifier: MIT */
#include "kernels_by_hand.h"

#include <math.h>

enum { PARTS = 16, RADIUS = 2 };

/* -- maps -------------------------------------------------------------------------------------- */

void
plain_linear_sum(double a, const double *x, double b, const double *y, double *z, size_t n)
{
    for (size_t i = 0; i < n; i++)
        z[i] = a * x[i] + b * y[i];
}

void
careful_linear_sum(double a, const double *restrict x, double b, const double *restrict y,
                   double *restrict z, size_t n)
{
    for (size_t i = 0; i < n; i++)
        z[i] = a * x[i] + b * y[i];
}

void
plain_roots(const float *x, const float *y, float *z, size_t n)
{
    for (size_t i = 0; i < n; i++)
        z[i] = sqrtf(x[i] * x[i] + y[i] * y[i]) / (x[i] + 2.0f * y[i]);
}

void
careful_roots(const float *restrict x, const float *restrict y, float *restrict z, size_t n)
{
    for (size_t i = 0; i < n; i++)
        z[i] = sqrtf(x[i] * x[i] + y[i] * y[i]) / (x[i] + 2.0f * y[i]);
}

/* -- reductions -------------------------------------------------------------------------------- */

double
plain_dot(const double *x, const double *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

double
careful_dot(const double *x, const double *y, size_t n)
{
    double sums[PARTS] = {0}, sum = 0;
    size_t i = 0;
    for (; i + PARTS <= n; i += PARTS)
        for (size_t k = 0; k < PARTS; k++)
            sums[k] += x[i + k] * y[i + k];
    for (size_t k = 0; i + k < n; k++)
        sums[k] += x[i + k] * y[i + k];
    for (size_t k = 0; k < PARTS; k++)
        sum += sums[k];
    return sum;
}

float
plain_largest(const float *x, size_t n)
{
    float largest = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (!(x[i] <= largest) && !isnan(largest))
            largest = x[i];
    return largest;
}

float
careful_largest(const float *x, size_t n)
{
    float parts[PARTS], largest = -INFINITY;
    size_t i = 0;
    for (size_t k = 0; k < PARTS; k++)
        parts[k] = -INFINITY;
    for (; i + PARTS <= n; i += PARTS)
        for (size_t k = 0; k < PARTS; k++)
            parts[k] = parts[k] >= x[i + k] || parts[k] != parts[k] ? parts[k] : x[i + k];
    for (size_t k = 0; k < PARTS; k++)
        largest = largest >= parts[k] || largest != largest ? largest : parts[k];
    for (; i < n; i++)
        largest = largest >= x[i] || largest != largest ? largest : x[i];
    return largest;
}

/* -- a stencil --------------------------------------------------------------------------------- */

static inline size_t
near(size_t at, int step, size_t end)
{
    if (step < 0)
        return at < (size_t)-step ? 0 : at - (size_t)-step;
    return at + (size_t)step < end ? at + (size_t)step : end - 1;
}

void
plain_blur(const float *now, float weight, float *next, size_t rows, size_t columns)
{
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < columns; column++)
            next[row * columns + column] = weight * now[row * columns + column] +
                                           (now[near(row, -2, rows) * columns + column] +
                                            now[near(row, 2, rows) * columns + column]) +
                                           (now[row * columns + near(column, -2, columns)] +
                                            now[row * columns + near(column, 2, columns)]);
}

void
careful_blur(const float *restrict now, float weight, float *restrict next, size_t rows,
             size_t columns)
{
    for (size_t row = 0; row < rows; row++) {
        const float *here = now + row * columns, *above = now + near(row, -RADIUS, rows) * columns,
                    *below = now + near(row, RADIUS, rows) * columns;
        float *out = next + row * columns;
        for (size_t column = 0; column < columns; column++) {
            if (column == RADIUS)
                column = columns - RADIUS;
            out[column] = weight * here[column] + (above[column] + below[column]) +
                          (here[near(column, -2, columns)] + here[near(column, 2, columns)]);
        }
        for (size_t column = RADIUS; column + RADIUS < columns; column++)
            out[column] = weight * here[column] + (above[column] + below[column]) +
                          (here[column - RADIUS] + here[column + RADIUS]);
    }
}
