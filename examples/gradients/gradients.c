/* SPDX-License-Identifier: MIT */

/*
 * gradients: solves A x = b by conjugate gradients, where A is a sparse matrix in compressed rows.
 *
 * An iteration is three launches. The sums that it needs are results of launches that also change vectors, and stay on
 * the device: the next launch reads them there. So the host queues iterations without waiting, and reads one number
 * every CHECK iterations to decide whether to continue. Only the matrix and b go up, and only x and these numbers
 * come down.
 *
 * gradients [SIDE]    the matrix is the Laplacian on a grid of SIDE x SIDE points
 *
 * The program compares x with that of plain C. FERRY_DEVICE selects the device.
 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <ferry/double.h>
#include <ferry/ferry.h>
#include <ferry/int.h>
#include <ferry/int64.h>

#include "../traffic.h"
#include "gradients_kernels.h"

enum { CHECK = 10, MOST = 10000 };
#define TOLERANCE 1e-8 /* of the residual, relative to b */

/* A matrix in compressed rows. */
struct matrix {
    size_t rows, entries;
    int64_t *starts; /* of each row, and the end of the last one */
    int *columns;
    double *values;
};

/* The system, and what both solvers found. */
struct problem {
    struct matrix matrix;
    double *b, *expected, *found;
    int iterations; /* of Ferry's solver */
};

/* -- the system ------------------------------------------------------------------------------------ */

/* Adds the entry of a neighbour, if it is on the grid. */
static void
add_entry(struct matrix *matrix, size_t side, size_t row, size_t column, double value)
{
    if (row >= side || column >= side)
        return;
    matrix->columns[matrix->entries] = (int)(row * side + column);
    matrix->values[matrix->entries++] = value;
}

static bool
create_problem(size_t side, struct problem *out)
{
    size_t rows = side * side;
    struct matrix *matrix = &out->matrix;
    *out = (struct problem){.matrix = {.rows = rows, .starts = malloc((rows + 1) * sizeof(int64_t)),
                                       .columns = malloc(5 * rows * sizeof(int)), .values = malloc(5 * rows * sizeof(double))},
                            .b = malloc(rows * sizeof(double)), .expected = calloc(rows, sizeof(double)),
                            .found = malloc(rows * sizeof(double))};
    if (!matrix->starts || !matrix->columns || !matrix->values || !out->b || !out->expected || !out->found)
        return false;
    for (size_t i = 0; i < rows; i++) {
        size_t row = i / side, column = i % side;
        matrix->starts[i] = (int64_t)matrix->entries;
        add_entry(matrix, side, row - 1, column, -1); /* above the first row the number wraps, and is off the grid */
        add_entry(matrix, side, row, column - 1, -1);
        add_entry(matrix, side, row, column, 4);
        add_entry(matrix, side, row, column + 1, -1);
        add_entry(matrix, side, row + 1, column, -1);
        out->b[i] = (double)(i * 7919 % 1009) / 1009 - 0.5;
    }
    matrix->starts[rows] = (int64_t)matrix->entries;
    return true;
}

static void
free_problem(struct problem *problem)
{
    free(problem->matrix.starts);
    free(problem->matrix.columns);
    free(problem->matrix.values);
    free(problem->b);
    free(problem->expected);
    free(problem->found);
}

/* -- plain C --------------------------------------------------------------------------------------- */

static double
dot(const double *x, const double *y, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}

static void
multiply(const struct matrix *matrix, const double *x, double *y)
{
    for (size_t i = 0; i < matrix->rows; i++) {
        y[i] = 0;
        for (int64_t k = matrix->starts[i]; k < matrix->starts[i + 1]; k++)
            y[i] += matrix->values[k] * x[matrix->columns[k]];
    }
}

/* Does the given number of iterations. */
static bool
solve_in_plain_c(struct problem *problem, int iterations)
{
    size_t rows = problem->matrix.rows;
    double *r = malloc(rows * sizeof(double)), *p = malloc(rows * sizeof(double)), *w = malloc(rows * sizeof(double));
    bool ok = r && p && w;
    for (size_t i = 0; ok && i < rows; i++)
        r[i] = p[i] = problem->b[i];
    for (int iteration = 0; ok && iteration < iterations; iteration++) {
        multiply(&problem->matrix, p, w);
        double rr = dot(r, r, rows), alpha = rr / dot(p, w, rows);
        for (size_t i = 0; i < rows; i++) {
            problem->expected[i] += alpha * p[i];
            r[i] -= alpha * w[i];
        }
        double beta = dot(r, r, rows) / rr;
        for (size_t i = 0; i < rows; i++)
            p[i] = r[i] + beta * p[i];
    }
    free(r);
    free(p);
    free(w);
    return ok;
}

/* -- with Ferry ------------------------------------------------------------------------------------ */

struct buffers {
    ferry_int64_buffer starts;
    ferry_int_buffer columns;
    ferry_double_buffer values, x, r, p, w, rr, left, pw;
};

static ferry_status
create_buffers(ferry_context *context, const struct problem *problem, struct buffers *out)
{
    const struct matrix *matrix = &problem->matrix;
    ferry_double_buffer *vectors[] = {&out->x, &out->p, &out->w}, *scalars[] = {&out->rr, &out->left, &out->pw};
    ferry_status status;
    FERRY_TRY(status, fail, ferry_int64_create_from(context, matrix->rows + 1, matrix->starts, NULL, &out->starts));
    FERRY_TRY(status, fail, ferry_int_create_from(context, matrix->entries, matrix->columns, NULL, &out->columns));
    FERRY_TRY(status, fail, ferry_double_create_from(context, matrix->entries, matrix->values, NULL, &out->values));
    FERRY_TRY(status, fail, ferry_double_create_from(context, matrix->rows, problem->b, NULL, &out->r));
    for (int i = 0; i < 3; i++) { /* x begins with zeros, as new buffers do */
        FERRY_TRY(status, fail, ferry_double_create(context, matrix->rows, NULL, vectors[i]));
        FERRY_TRY(status, fail, ferry_double_create(context, 1, NULL, scalars[i]));
    }
fail:
    return status;
}

static void
destroy_buffers(struct buffers *buffers)
{
    ferry_double_buffer *all[] = {&buffers->values, &buffers->x, &buffers->r, &buffers->p,
                                  &buffers->w, &buffers->rr, &buffers->left, &buffers->pw};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        ferry_double_destroy(all[i]);
    ferry_int_destroy(&buffers->columns);
    ferry_int64_destroy(&buffers->starts);
}

/* Queues one iteration, and waits for nothing. Afterwards rr is the square of the residual. */
static ferry_status
queue_iteration(const gradients_kernels *kernels, ferry_stream *stream, struct buffers *b)
{
    ferry_status status;
    FERRY_TRY(status, fail, gradients_multiply_into(kernels, stream, b->starts, b->columns, b->values, b->p, b->w, b->pw));
    FERRY_TRY(status, fail, gradients_advance_into(kernels, stream, b->rr, b->pw, b->p, b->w, b->x, b->r, b->left));
    FERRY_TRY(status, fail, gradients_turn(kernels, stream, b->left, b->rr, b->r, b->p));
    ferry_double_buffer spare = b->rr;
    b->rr = b->left;
    b->left = spare;
fail:
    return status;
}

static ferry_status
solve(ferry_context *context, const gradients_kernels *kernels, struct problem *problem)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    size_t rows = problem->matrix.rows;
    double rr = INFINITY, limit = TOLERANCE * TOLERANCE * dot(problem->b, problem->b, rows);
    struct buffers buffers = {.x = {0}};
    ferry_status status;
    FERRY_TRY(status, fail, create_buffers(context, problem, &buffers));
    FERRY_TRY(status, fail, gradients_start_into(kernels, stream, buffers.r, buffers.p, buffers.rr));
    while (rr > limit && problem->iterations < MOST) {
        for (int i = 0; i < CHECK; i++)
            FERRY_TRY(status, fail, queue_iteration(kernels, stream, &buffers));
        problem->iterations += CHECK;
        FERRY_TRY(status, fail, ferry_double_copy_to(buffers.rr, 0, 1, &rr, NULL));
    }
    FERRY_TRY(status, fail, ferry_double_copy_to(buffers.x, 0, rows, problem->found, NULL));
fail:
    destroy_buffers(&buffers);
    return status;
}

/* -- the program ----------------------------------------------------------------------------------- */

/* Both solvers add in other orders, so they agree as far as they have converged. */
static bool
agrees(const struct problem *problem)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < problem->matrix.rows; i++) {
        difference = fmax(difference, fabs(problem->found[i] - problem->expected[i]));
        size = fmax(size, fabs(problem->expected[i]));
    }
    printf("%d iterations, and a difference of %.1e: %s\n", problem->iterations, difference / size,
           difference <= 10 * TOLERANCE * size ? "as in plain C" : "WRONG");
    return difference <= 10 * TOLERANCE * size;
}

static bool
crossed_the_least(ferry_context *context, const struct problem *problem)
{
    const struct matrix *matrix = &problem->matrix;
    uint64_t vector = matrix->rows * sizeof(double);
    uint64_t up = (matrix->rows + 1) * sizeof(int64_t) + matrix->entries * (sizeof(int) + sizeof(double)) + vector;
    uint64_t down = vector + (uint64_t)(problem->iterations / CHECK) * sizeof(double);
    return traffic_is_minimal(context, up, down);
}

int
main(int argc, char **argv)
{
    unsigned long side = argc > 1 ? strtoul(argv[1], NULL, 10) : 64;
    struct problem problem = {.b = NULL};
    ferry_context *context = NULL;
    gradients_kernels kernels = {0};
    bool good = false;
    ferry_status status;
    if (side < 2 || side > 10000 || argc > 2) {
        fputs("usage: gradients [SIDE], from 2 to 10000\n", stderr);
        return 2;
    }
    if (!create_problem(side, &problem)) {
        free_problem(&problem);
        fputs("gradients: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    FERRY_TRY(status, fail, ferry_context_create(NULL, &context));
    FERRY_TRY(status, fail, gradients_kernels_create(context, &kernels));
    FERRY_TRY(status, fail, solve(context, &kernels, &problem));
    good = crossed_the_least(context, &problem);
    good = solve_in_plain_c(&problem, problem.iterations) && agrees(&problem) && good;
fail:
    if (status != FERRY_OK)
        fprintf(stderr, "gradients: %s (%s)\n", ferry_last_error(), ferry_status_name(status));
    gradients_kernels_destroy(&kernels);
    ferry_context_destroy(&context);
    free_problem(&problem);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
