/* SPDX-License-Identifier: MIT */

/*
 * Compares CVODE over Ferry's vectors on the host device with CVODE over the serial vectors of
 * SUNDIALS. The benchmark measures a step of the heat equation, single operations, and the creation
 * and destruction of a clone. All vectors use the same right-hand side. Ferry launches its
 * generated kernel. For serial vectors the benchmark calls the host function of that kernel. The
 * test tests/clients/test_by_hand.c counts transfers and driver calls.
 */

#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <nvector/nvector_serial.h>

#include "heat_kernels.h"
#include "nvector_ferry.h"
#include "problems.h"

enum { ROUNDS = 5, CLONE_ROUNDS = 101, CLONES = 1000 };

struct subject {
    ferry_context *context;
    nvector_ferry vectors;
    heat_kernels kernels;
    SUNContext sunctx;
    size_t n;
};

static int
by_ferry(sunrealtype t, N_Vector u, N_Vector change, void *user)
{
    const struct subject *subject = user;
    (void)t;
    return heat_laplacian(&subject->kernels, subject->n, subject->n, NULL, subject->vectors.stream,
                          (double)(subject->n * subject->n), N_VGetBuffer_Ferry(u),
                          N_VGetBuffer_Ferry(change)) == FERRY_OK
               ? 0
               : -1;
}

static int
by_pointers(sunrealtype t, N_Vector u, N_Vector change, void *user)
{
    struct subject *subject = user;
    double scale = (double)(subject->n * subject->n);
    double *from = NV_DATA_S(u), *to = NV_DATA_S(change);
    size_t first = 0;
    void *values[] = {&scale, &from,       &to,    &subject->n, &subject->n,
                      &first, &subject->n, &first, &subject->n};
    (void)t;
    heat_laplacian_run(values);
    return 0;
}

/* -- operations of the serial vectors, compiled like Ferry ------------------------------------- */

static void
linear_sum(sunrealtype a, N_Vector x, sunrealtype b, N_Vector y, N_Vector z)
{
    const double *from = NV_DATA_S(x), *other = NV_DATA_S(y);
    double *to = NV_DATA_S(z);
    for (sunindextype i = 0; i < NV_LENGTH_S(x); i++)
        to[i] = a * from[i] + b * other[i];
}

static void
scale(sunrealtype c, N_Vector x, N_Vector z)
{
    const double *from = NV_DATA_S(x);
    double *to = NV_DATA_S(z);
    for (sunindextype i = 0; i < NV_LENGTH_S(x); i++)
        to[i] = c * from[i];
}

static sunrealtype
dot(N_Vector x, N_Vector y)
{
    const double *left = NV_DATA_S(x), *right = NV_DATA_S(y);
    double sum = 0;
    for (sunindextype i = 0; i < NV_LENGTH_S(x); i++)
        sum += left[i] * right[i];
    return sum;
}

static sunrealtype
wrms_norm(N_Vector x, N_Vector w)
{
    const double *left = NV_DATA_S(x), *right = NV_DATA_S(w);
    double sum = 0;
    for (sunindextype i = 0; i < NV_LENGTH_S(x); i++)
        sum += (left[i] * right[i]) * (left[i] * right[i]);
    return sqrt(sum / (double)NV_LENGTH_S(x));
}

/* Replaces four operations of the serial vector `v` with functions that this file defines. The
 * functions are compiled like Ferry, because some distributions compile SUNDIALS without
 * optimization. CVODE and GMRES call these four operations most often. */
static void
set_compiled_here(N_Vector v)
{
    v->ops->nvlinearsum = linear_sum;
    v->ops->nvscale = scale;
    v->ops->nvdotprod = dot;
    v->ops->nvwrmsnorm = wrms_norm;
}

/* -- measuring --------------------------------------------------------------------------------- */

enum side { FERRY, SERIAL, COMPILED_HERE, SIDES };

static const char *const peers[SIDES] = {"", "serial", "serial-compiled-here"};

static N_Vector
new_vector(struct subject *subject, enum side side)
{
    const bool ours = side == FERRY;
    const sunindextype count = (sunindextype)(subject->n * subject->n);
    N_Vector v = ours ? N_VNew_Ferry(&subject->vectors, count, subject->sunctx)
                      : N_VNew_Serial(count, subject->sunctx);
    if (v && side == SERIAL)
        N_VEnableFusedOps_Serial(v, SUNTRUE);
    if (v && side == COMPILED_HERE)
        set_compiled_here(v);
    return v;
}

/* Measures the time of one integration step in nanoseconds. The time includes all work of the
 * device. The integration ends early enough that the solution still changes in each step. */
static bool
time_step(struct subject *subject, enum side side, double *out, struct solver_counts *counts)
{
    N_Vector u = new_vector(subject, side);
    bool ok = u != NULL;
    if (ok) {
        heat_start(subject->n, N_VGetArrayPointer(u));
        double begun = bench_now_ns();
        ok = heat_solve(u, side == FERRY ? by_ferry : by_pointers, subject, 2e-4, counts) == 0 &&
             N_VGetArrayPointer(u) && subject->vectors.failure == FERRY_OK;
        *out = (bench_now_ns() - begun) / (double)counts->steps;
        N_VDestroy(u);
    }
    return ok;
}

/* Runs one of the measured vector operations on three vectors. `operation` is the index of the
 * operation. */
static double
run_operation(int operation, N_Vector *v)
{
    switch (operation) {
    case 0:
        N_VLinearSum(0.3, v[0], -0.7, v[1], v[2]);
        return 0;
    case 1:
        return N_VDotProd(v[0], v[1]);
    default:
        return N_VWrmsNorm(v[0], v[1]);
    }
}

static const char *const operations[] = {"linear_sum", "dot", "wrms_norm"};

static bool
measure_operations(struct subject *subject, struct bench_report *report, const char *size,
                   bool quick)
{
    static double samples[SIDES][CLONE_ROUNDS];
    const size_t rounds = quick ? 3 : CLONE_ROUNDS;
    N_Vector v[SIDES][3];
    bool ok = true;
    for (int side = 0; side < SIDES; side++)
        for (int i = 0; i < 3; i++) {
            v[side][i] = i == 0 ? new_vector(subject, (enum side)side) : N_VClone(v[side][0]);
            if (!v[side][i])
                return bench_failed("a vector");
            N_VConst(1.0 + i, v[side][i]);
        }
    for (int operation = 0; operation < 3 && ok; operation++) {
        double sink = 0;
        for (size_t round = 0; round < rounds; round++)
            for (int side = 0; side < SIDES; side++) {
                double begun = bench_now_ns();
                sink += run_operation(operation, v[side]);
                sink +=
                    side == 0 ? N_VGetArrayPointer(v[side][2])[0] : 0; /* waits for the kernel */
                samples[side][round] = bench_now_ns() - begun;
            }
        char name[64];
        snprintf(name, sizeof(name), "%s/%s", operations[operation], size);
        for (int side = SERIAL; side < SIDES; side++) {
            size_t middle = bench_middle_round(samples[FERRY], samples[side], rounds);
            bench_report_add(report,
                             &(struct bench_record){.case_name = name,
                                                    .metric = "time",
                                                    .unit = "us",
                                                    .value = samples[FERRY][middle] / 1e3,
                                                    .peer = peers[side],
                                                    .peer_value = samples[side][middle] / 1e3});
        }
        ok = sink != 0.125; /* never false; the comparison keeps the compiler from removing the
                               computations */
    }
    for (int side = 0; side < SIDES; side++)
        for (int i = 0; i < 3; i++)
            N_VDestroy(v[side][i]);
    return ok && subject->vectors.failure == FERRY_OK;
}

static void
add_count(struct bench_report *report, const char *name, const char *metric, long ours, long theirs)
{
    bench_report_add(report, &(struct bench_record){.case_name = name,
                                                    .metric = metric,
                                                    .unit = "count",
                                                    .value = (double)ours,
                                                    .peer = "serial",
                                                    .peer_value = (double)theirs});
}

/* Measures integration steps of the heat equation. The goal is at least 95 % of the speed with the
 * serial vectors of SUNDIALS. */
static bool
measure_steps(struct subject *subject, struct bench_report *report, const char *size, bool quick)
{
    static double samples[SIDES][ROUNDS];
    const size_t rounds = quick ? 1 : ROUNDS;
    struct solver_counts counts[SIDES];
    char name[64];
    for (size_t round = 0; round < rounds; round++)
        for (size_t turn = 0; turn < SIDES; turn++) {
            enum side side = (enum side)((round + turn) % SIDES);
            if (!time_step(subject, side, &samples[side][round], &counts[side]))
                return bench_failed("the heat equation");
        }
    snprintf(name, sizeof(name), "heat/%s", size);
    for (int side = SERIAL; side < SIDES; side++) {
        size_t middle = bench_middle_round(samples[FERRY], samples[side], rounds);
        bench_report_add(report, &(struct bench_record){.case_name = name,
                                                        .metric = "speed",
                                                        .unit = "steps/s",
                                                        .value = 1e9 / samples[FERRY][middle],
                                                        .peer = peers[side],
                                                        .peer_value = 1e9 / samples[side][middle],
                                                        .goal = {BENCH_AT_LEAST, 0.95}});
    }
    add_count(report, name, "steps", counts[FERRY].steps, counts[SERIAL].steps);
    add_count(report, name, "linear_iterations", counts[FERRY].linear_iterations,
              counts[SERIAL].linear_iterations);
    return true;
}

/* Measures the creation and destruction of a clone of a vector. Neither library accesses the values
 * of the clone. Ferry allocates no memory for these values, but the serial vector of SUNDIALS does.
 */
static bool
measure_clones(struct subject *subject, struct bench_report *report, bool quick)
{
    static double samples[2][CLONE_ROUNDS];
    const size_t rounds = quick ? 3 : CLONE_ROUNDS;
    N_Vector v[2] = {new_vector(subject, FERRY), new_vector(subject, SERIAL)};
    if (!v[0] || !v[1])
        return bench_failed("a vector");
    for (size_t round = 0; round < rounds; round++)
        for (int side = 0; side < 2; side++) {
            double begun = bench_now_ns();
            for (int i = 0; i < CLONES; i++) {
                N_Vector clone = N_VClone(v[side]);
                if (!clone)
                    return bench_failed("a clone");
                N_VDestroy(clone);
            }
            samples[side][round] = (bench_now_ns() - begun) / CLONES;
        }
    size_t middle = bench_middle_round(samples[0], samples[1], rounds);
    bench_report_add(report, &(struct bench_record){.case_name = "clone/1024",
                                                    .metric = "clone_destroy",
                                                    .unit = "ns",
                                                    .value = samples[0][middle],
                                                    .peer = "serial",
                                                    .peer_value = samples[1][middle]});
    N_VDestroy(v[1]);
    N_VDestroy(v[0]);
    return true;
}

static bool
measure(struct subject *subject, struct bench_report *report, bool quick)
{
    static const struct {
        size_t n;
        const char *name;
    } sizes[] = {{317, "100489"}, {1000, "1000000"}};
    subject->n = 32;
    if (!measure_clones(subject, report, quick))
        return false;
    for (size_t i = 0; i < (quick ? 1 : sizeof(sizes) / sizeof(*sizes)); i++) {
        subject->n = quick ? 32 : sizes[i].n;
        if (!measure_operations(subject, report, sizes[i].name, quick) ||
            !measure_steps(subject, report, sizes[i].name, quick))
            return false;
    }
    return true;
}

static bool
run(ferry_context *context, struct bench_report *report, bool quick)
{
    struct subject subject;
    memset(&subject, 0, sizeof(subject));
    subject.context = context;
    bool ok = nvector_ferry_create(context, NULL, &subject.vectors) == FERRY_OK &&
              heat_kernels_create(context, &subject.kernels) == FERRY_OK &&
              SUNContext_Create(NULL, &subject.sunctx) == 0;
    ok = ok ? measure(&subject, report, quick) : bench_failed("the kernels");
    if (subject.sunctx)
        SUNContext_Free(&subject.sunctx);
    heat_kernels_destroy(&subject.kernels);
    nvector_ferry_destroy(&subject.vectors);
    return ok;
}

int
main(int argc, char **argv)
{
    /* The serial vectors of SUNDIALS are on the host, so Ferry uses the host device as well. */
    setenv("FERRY_DEVICE", "host", 0);
    return bench_main(argc, argv, "client_sundials", 0, run);
}
