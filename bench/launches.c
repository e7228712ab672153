/* SPDX-License-Identifier: MIT */

/*
 * Measures launches of generated kernels on the host device: a map, a reduction, and both in one.
 * Each is called as a program calls it, so the cost of the launch is included.
 *
 * With one thread, the measure is the processor time of the process, and the peer is the plain loop
 * with the same options. With all threads, the measure is the elapsed time, and the peer is the
 * loop that OpenMP shares. Both sides run in turn in each round. Before the measurement, the
 * program checks that both compute the same.
 */

#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "launches_by_hand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/double.h>
#include <ferry/ferry.h>

#include "launches_kernels.h"

enum { ROUNDS_MOST = 41 };

/* Adding and subtracting in turn keeps the values where they are. */
static const double factors[2] = {0.25, -0.25};

/* One kernel's arrays, as buffers and as plain memory. */
struct arrays {
    size_t count;
    bench_kernels kernels;
    ferry_stream *stream;
    ferry_double_buffer x_buffer, y_buffer;
    double *x, *y;
};

/* -- both sides -------------------------------------------------------------------------------- */

/* The loops by hand. Generated kernels have none. */
struct loops {
    void (*add)(double a, const double *x, double *y, size_t n);
    double (*dot)(const double *x, const double *y, size_t n);
    double (*add_dot)(double a, const double *x, double *y, size_t n);
};
static const struct loops plain_loops = {plain_add, plain_dot, plain_add_dot};
#ifdef _OPENMP
static const struct loops openmp_loops = {openmp_add, openmp_dot, openmp_add_dot};
#endif

/* Each function below runs a loop, or the generated kernel if `loops` is NULL. It sets `*sum` to
 * the sum, if its kernel has one. */
static ferry_status
add(const struct loops *loops, struct arrays *arrays, double factor, double *sum)
{
    (void)sum;
    if (!loops)
        return bench_add(&arrays->kernels, arrays->stream, factor, arrays->x_buffer,
                         arrays->y_buffer);
    loops->add(factor, arrays->x, arrays->y, arrays->count);
    return FERRY_OK;
}

static ferry_status
dot(const struct loops *loops, struct arrays *arrays, double factor, double *sum)
{
    (void)factor;
    if (!loops)
        return bench_dot(&arrays->kernels, arrays->stream, arrays->x_buffer, arrays->y_buffer, sum);
    *sum = loops->dot(arrays->x, arrays->y, arrays->count);
    return FERRY_OK;
}

static ferry_status
add_dot(const struct loops *loops, struct arrays *arrays, double factor, double *sum)
{
    if (loops) {
        *sum = loops->add_dot(factor, arrays->x, arrays->y, arrays->count);
        return FERRY_OK;
    }
    bench_add_dot_results results = {0};
    ferry_status status = bench_add_dot(&arrays->kernels, arrays->stream, factor, arrays->x_buffer,
                                        arrays->y_buffer, &results);
    *sum = results.yy;
    return status;
}

static const struct kernel {
    const char *name;
    ferry_status (*run)(const struct loops *loops, struct arrays *arrays, double factor,
                        double *sum);
} kernels[] = {{"map", add}, {"sum", dot}, {"map and sum", add_dot}};

/* -- arrays ------------------------------------------------------------------------------------ */

static void
arrays_destroy(struct arrays *arrays)
{
    ferry_double_destroy(&arrays->y_buffer);
    ferry_double_destroy(&arrays->x_buffer);
    bench_kernels_destroy(&arrays->kernels);
    free(arrays->x);
    free(arrays->y);
}

static bool
arrays_create(struct arrays *arrays, ferry_context *context, size_t count)
{
    *arrays = (struct arrays){.count = count,
                              .stream = ferry_context_stream(context, 1),
                              .x = malloc(count * sizeof(double)),
                              .y = malloc(count * sizeof(double))};
    if (!arrays->x || !arrays->y) {
        fprintf(stderr, "bench: no memory for 2 arrays of %zu doubles\n", count);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        arrays->x[i] = 1.0 + (double)(i * 7919 % 65521) / 65521;
        arrays->y[i] = 2.0 - (double)(i * 31 % 257) / 257;
    }
    return (bench_kernels_create(context, &arrays->kernels) == FERRY_OK &&
            ferry_double_create_from(context, count, arrays->x, NULL, &arrays->x_buffer) ==
                FERRY_OK &&
            ferry_double_create_from(context, count, arrays->y, NULL, &arrays->y_buffer) ==
                FERRY_OK) ||
           bench_failed("creating the arrays");
}

/* Checks that both sides compute the same y, and sums within the documented error. */
static bool
compare(const struct kernel *kernel, struct arrays *arrays, const struct loops *peer)
{
    double sum = 0, expected = 0, *found = malloc(arrays->count * sizeof(double));
    if (!found || kernel->run(NULL, arrays, factors[0], &sum) != FERRY_OK ||
        kernel->run(peer, arrays, factors[0], &expected) != FERRY_OK ||
        ferry_double_copy_to(arrays->y_buffer, 0, arrays->count, found, NULL) != FERRY_OK) {
        free(found);
        return bench_failed("comparing");
    }
    bool same = memcmp(found, arrays->y, arrays->count * sizeof(double)) == 0 &&
                fabs(sum - expected) <= (double)arrays->count * 0x1p-52 * fabs(expected);
    free(found);
    if (!same)
        fprintf(stderr, "bench: the loop by hand has another result than the kernel \"%s\"\n",
                kernel->name);
    return same;
}

/* -- measuring --------------------------------------------------------------------------------- */

struct setting {
    const char *metric;
    double (*now)(void);
    const char *tuning; /* of the host threads */
    const struct loops *peer;
    const char *peer_name;
    double goal; /* for the ratio to the peer; 0: that of the size */
};

struct size {
    const char *name;
    size_t count, rounds, repeats;
    double goal; /* for the ratio to the plain loop */
};

/* Returns the time of one call, or a negative value if a call has failed. */
static double
time_side(const struct setting *setting, const struct kernel *kernel, struct arrays *arrays,
          const struct loops *loops, size_t repeats)
{
    double sum = 0, begun = setting->now();
    for (size_t i = 0; i < repeats; i++)
        if (kernel->run(loops, arrays, factors[i % 2], &sum) != FERRY_OK)
            return -1;
    if (!loops && ferry_stream_synchronize(arrays->stream) != FERRY_OK)
        return -1;
    return (setting->now() - begun) / (double)repeats;
}

static bool
measure(struct bench_report *report, const struct setting *setting, const struct kernel *kernel,
        const struct size *size, struct arrays *arrays)
{
    static double generated[ROUNDS_MOST], peer[ROUNDS_MOST];
    for (size_t round = 0; round <= size->rounds; round++) {
        /* Round 0 only warms up: round 1 overwrites the result of round 0. */
        size_t index = round == 0 ? 0 : round - 1;
        generated[index] = time_side(setting, kernel, arrays, NULL, size->repeats);
        peer[index] = time_side(setting, kernel, arrays, setting->peer, size->repeats);
        if (generated[index] < 0)
            return bench_failed("launching");
    }
    char name[64];
    size_t middle = bench_middle_round(generated, peer, size->rounds);
    snprintf(name, sizeof(name), "%s/%s", size->name, kernel->name);
    const struct bench_record record = {
        .case_name = name,
        .metric = setting->metric,
        .unit = "ns",
        .value = generated[middle],
        .peer = setting->peer_name,
        .peer_value = peer[middle],
        .goal = {BENCH_AT_MOST, setting->goal > 0 ? setting->goal : size->goal}};
    bench_report_add(report, &record);
    return true;
}

/* Runs all kernels with one setting and size, on a host device of their own. */
static bool
measure_all(struct bench_report *report, const struct setting *setting, const struct size *size)
{
    const ferry_context_options options = {.devices = "host", .tuning = setting->tuning};
    ferry_context *context = NULL;
    if (ferry_context_create(&options, &context) != FERRY_OK)
        return bench_failed("opening the host device");
    bool ok = true;
    for (size_t k = 0; ok && k < sizeof(kernels) / sizeof(*kernels); k++) {
        struct arrays arrays;
        ok = arrays_create(&arrays, context, size->count) &&
             compare(&kernels[k], &arrays, setting->peer) &&
             measure(report, setting, &kernels[k], size, &arrays);
        arrays_destroy(&arrays);
    }
    ferry_context_destroy(&context);
    return ok;
}

static bool
run(ferry_context *context, struct bench_report *report, bool quick)
{
    const struct size sizes[] = {
        {"1000", 1000, quick ? 1 : ROUNDS_MOST, quick ? 2 : 20000, 2.5},
        {"1000000", 1000000, quick ? 1 : ROUNDS_MOST, quick ? 2 : 20, 1.1}};
    const struct setting one_thread = {"processor",  bench_processor_ns, "host.threads=1",
                                       &plain_loops, "plain loop",       0};
    (void)context;
    for (size_t i = 0; i < 2; i++)
        if (!measure_all(report, &one_thread, &sizes[i]))
            return false;
#ifdef _OPENMP
    const struct setting all_threads = {"elapsed",     bench_now_ns, NULL,
                                        &openmp_loops, "OpenMP",     1.1};
    return measure_all(report, &all_threads, &sizes[1]);
#else
    puts("no peer OpenMP: the compiler does not have it");
    return true;
#endif
}

int
main(int argc, char **argv)
{
    /* The peers run on the host, and so does Ferry. */
    setenv("FERRY_DEVICE", "host", 0);
    return bench_main(argc, argv, "launches", 0, run);
}
