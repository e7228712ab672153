/* SPDX-License-Identifier: MIT */

/*
 * Measures the host functions that ferry-gen writes from kernels.json. Each function is compared
 * with two loops written by hand: the obvious loop, and a loop that helps the compiler to optimize
 * it. The generated function and both loops run in turn in each round. The arrays are in the
 * first-level cache, in the second-level cache, or in memory. Before the measurement, the program
 * checks that all three compute the same results.
 *
 * The report includes the smallest ratio to each of the two loops. The kernel with this ratio would
 * gain most from being written by hand.
 */

#include "bench.h"
#include "kernels_by_hand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/ferry.h>

#include "kernels_kernels.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { ROUNDS_MOST = 101, ROW_BYTES = 1024, GAP = 256 };

enum side { GENERATED, PLAIN, CAREFUL, SIDES };

/* Input and output arrays of equal size, and the memory for the result of a reduction. */
struct arrays {
    void *in[2], *out;
    double result;
};

/* -- the kernels ------------------------------------------------------------------------------- */

static double a = 1.25, b = -0.75;
static float weight = 0.5f;

static void
linear_sum(enum side side, struct arrays *arrays, size_t n)
{
    double *x = arrays->in[0], *y = arrays->in[1], *z = arrays->out;
    if (side == GENERATED)
        bench_linear_sum_run((void *[]){&a, &x, &b, &y, &z, &n});
    else
        (side == PLAIN ? plain_linear_sum : careful_linear_sum)(a, x, b, y, z, n);
}

static void
roots(enum side side, struct arrays *arrays, size_t n)
{
    float *x = arrays->in[0], *y = arrays->in[1], *z = arrays->out;
    if (side == GENERATED)
        bench_roots_run((void *[]){&x, &y, &z, &n});
    else
        (side == PLAIN ? plain_roots : careful_roots)(x, y, z, n);
}

static void
dot(enum side side, struct arrays *arrays, size_t n)
{
    double *x = arrays->in[0], *y = arrays->in[1], *partial = &arrays->result;
    if (side == GENERATED)
        bench_dot_run((void *[]){&x, &y, &partial, &n});
    else
        arrays->result = (side == PLAIN ? plain_dot : careful_dot)(x, y, n);
}

static void
largest(enum side side, struct arrays *arrays, size_t n)
{
    float *x = arrays->in[0], result, *partial = &result;
    if (side == GENERATED)
        bench_largest_run((void *[]){&x, &partial, &n});
    else
        result = (side == PLAIN ? plain_largest : careful_largest)(x, n);
    arrays->result = result;
}

static void
blur(enum side side, struct arrays *arrays, size_t n)
{
    float *now = arrays->in[0], *next = arrays->out;
    size_t columns = ROW_BYTES / sizeof(float), rows = n / columns, first = 0;
    if (side == GENERATED)
        bench_blur_run(
            (void *[]){&now, &weight, &next, &rows, &columns, &first, &rows, &first, &columns});
    else
        (side == PLAIN ? plain_blur : careful_blur)(now, weight, next, rows, columns);
}

static const struct kernel {
    const char *name;
    void (*run)(enum side side, struct arrays *arrays, size_t n);
    size_t element_bytes, inputs, outputs;
} kernels[] = {
    {"linear_sum", linear_sum, sizeof(double), 2, 1},
    {"roots", roots, sizeof(float), 2, 1},
    {"dot", dot, sizeof(double), 2, 0},
    {"largest", largest, sizeof(float), 1, 0},
    {"blur", blur, sizeof(float), 1, 1},
};

/* -- arrays ------------------------------------------------------------------------------------ */

/* Creates arrays of positive values in which adjacent elements differ. Writes all arrays once, so
 * that page faults are not measured. Gaps between the arrays make them use different sets of a
 * cache. */
static bool
arrays_create(struct arrays *arrays, const struct kernel *kernel, size_t bytes)
{
    *arrays = (struct arrays){
        .in = {aligned_alloc(GAP, bytes + GAP), aligned_alloc(GAP, bytes + 3 * GAP)},
        .out = aligned_alloc(GAP, bytes + 5 * GAP)};
    if (!arrays->in[0] || !arrays->in[1] || !arrays->out) {
        fprintf(stderr, "bench: no memory for 3 arrays of %zu bytes\n", bytes);
        return false;
    }
    for (size_t side = 0; side < 2; side++)
        for (size_t i = 0; i < bytes / kernel->element_bytes; i++) {
            double value = 1.0 + (double)((i * 7919 + side * 31) % 65521) / 65521;
            if (kernel->element_bytes == sizeof(double))
                ((double *)arrays->in[side])[i] = value;
            else
                ((float *)arrays->in[side])[i] = (float)value;
        }
    memset(arrays->out, 0, bytes);
    return true;
}

static void
arrays_free(struct arrays *arrays)
{
    free(arrays->in[0]);
    free(arrays->in[1]);
    free(arrays->out);
}

/* Checks that Ferry's maps and stencils compute the same bits as the loops written by hand. Sums of
 * positive numbers may differ by the documented error. */
static bool
compare(const struct kernel *kernel, struct arrays *arrays, size_t n)
{
    size_t bytes = n * kernel->element_bytes;
    unsigned char *expected = malloc(bytes);
    bool same = expected != NULL;
    for (enum side side = GENERATED; side < SIDES && same; side++) {
        double before = arrays->result;
        memset(arrays->out, 0, bytes);
        kernel->run(side, arrays, n);
        if (side == GENERATED)
            memcpy(expected, arrays->out, bytes);
        else
            same = memcmp(expected, arrays->out, bytes) == 0 &&
                   fabs(arrays->result - before) <= (double)n * 0x1p-52 * fabs(before);
    }
    free(expected);
    if (!same)
        fprintf(stderr, "bench: %s by hand has another result than the generated function\n",
                kernel->name);
    return same;
}

/* -- measuring --------------------------------------------------------------------------------- */

struct size {
    const char *name;
    size_t bytes; /* total size of all arrays that a kernel uses */
    size_t rounds, repeats;
};

static const char *const peers[SIDES] = {[PLAIN] = "plain loop", [CAREFUL] = "careful loop"};

static bool
measure(struct bench_report *report, const struct kernel *kernel, const struct size *size,
        double *least)
{
    static double times[SIDES][ROUNDS_MOST];
    size_t used = kernel->inputs + kernel->outputs, row = ROW_BYTES / kernel->element_bytes;
    size_t n = size->bytes / used / kernel->element_bytes / row * row;
    struct arrays arrays;
    bool ok =
        arrays_create(&arrays, kernel, n * kernel->element_bytes) && compare(kernel, &arrays, n);
    for (size_t round = 0; ok && round <= size->rounds; round++) {
        /* Round 0 only warms up: round 1 overwrites the result of round 0. */
        size_t index = round == 0 ? 0 : round - 1;
        for (enum side side = GENERATED; side < SIDES; side++) {
            double begun = bench_now_ns();
            for (size_t i = 0; i < size->repeats; i++)
                kernel->run(side, &arrays, n);
            times[side][index] = (bench_now_ns() - begun) / (double)size->repeats;
        }
    }
    arrays_free(&arrays);
    for (enum side side = PLAIN; ok && side < SIDES; side++) {
        char name[64];
        size_t middle = bench_middle_round(times[GENERATED], times[side], size->rounds);
        double bytes = (double)(n * kernel->element_bytes * used);
        snprintf(name, sizeof(name), "%s/%s", size->name, kernel->name);
        const struct bench_record record = {.case_name = name,
                                            .metric = "read+written",
                                            .unit = "GB/s",
                                            .value = bytes / times[GENERATED][middle],
                                            .peer = peers[side],
                                            .peer_value = bytes / times[side][middle]};
        bench_report_add(report, &record);
        least[side] = fmin(least[side], record.value / record.peer_value);
    }
    return ok;
}

static bool
run(ferry_context *context, struct bench_report *report, bool quick)
{
    const struct size sizes[] = {{"L1", 24 * KIB, quick ? 1 : ROUNDS_MOST, quick ? 1 : 100},
                                 {"L2", 256 * KIB, quick ? 1 : ROUNDS_MOST, quick ? 1 : 10},
                                 {"memory", (quick ? 1 : 256) * MIB, quick ? 1 : 11, 1}};
    double least[SIDES] = {[PLAIN] = INFINITY, [CAREFUL] = INFINITY};
    (void)context;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (size_t k = 0; k < sizeof(kernels) / sizeof(*kernels); k++)
            if (!measure(report, &kernels[k], &sizes[i], least))
                return false;
    for (enum side side = PLAIN; side < SIDES; side++) {
        char unit[32];
        snprintf(unit, sizeof(unit), "x %s", peers[side]);
        struct bench_record record = {
            .case_name = "all", .metric = "worst", .unit = unit, .value = least[side]};
        if (side == PLAIN)
            record.goal = (struct bench_goal){BENCH_AT_LEAST, 0.9};
        bench_report_add(report, &record);
    }
    return true;
}

int
main(int argc, char **argv)
{
    return bench_main(argc, argv, "kernels", MIB, run);
}
