/* SPDX-License-Identifier: MIT */

/*
 * Checks that SUNDIALS integrators take the same steps with Ferry's vectors and with serial vectors
 * that add in the same order. All counts and all bits of the solutions must be equal. The original
 * serial vector of SUNDIALS adds in a different order, so it may take different steps. A GPU also
 * adds in a different order, so its counts and solutions must only be close. During an integration,
 * only the results of reductions may be transferred.
 */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <nvector/nvector_serial.h>

#include "brusselator_kernels.h"
#include "fake_kernels.h"
#include "heat_kernels.h"
#include "nvector_ferry.h"
#include "problems.h"
#include "tree_vector.h"

/* relative tolerances that problems.c sets */
#define HEAT_TOLERANCE        1e-6
#define BRUSSELATOR_TOLERANCE 1e-5

enum {
    HEAT_N = 32,
    HEAT_COUNT = HEAT_N * HEAT_N,
    BRUSSELATOR_N = 64,
    BRUSSELATOR_COUNT = 2 * BRUSSELATOR_N
};

struct fixture {
    ferry_context *context;
    nvector_ferry vectors;
    heat_kernels heat;
    brusselator_kernels brusselator;
    SUNContext sunctx;
};

#define MUST(call)                                                                                 \
    do {                                                                                           \
        const ferry_status status_ = (call);                                                       \
        if (status_ != FERRY_OK)                                                                   \
            fail_msg("%s: %s: %s", #call, ferry_status_name(status_), ferry_last_error());         \
    } while (0)

static int
set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    MUST(ferry_context_create(NULL, &f->context));
    MUST(nvector_ferry_create(f->context, NULL, &f->vectors));
    MUST(heat_kernels_create(f->context, &f->heat));
    MUST(brusselator_kernels_create(f->context, &f->brusselator));
    assert_int_equal(SUNContext_Create(NULL, &f->sunctx), 0);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;
    SUNContext_Free(&f->sunctx);
    brusselator_kernels_destroy(&f->brusselator);
    heat_kernels_destroy(&f->heat);
    nvector_ferry_destroy(&f->vectors);
    ferry_context_destroy(&f->context);
    free(f);
    return 0;
}

/* -- right-hand sides of the equations: by kernels on Ferry's vectors, and by host code -------- */

static int
heat_by_kernel(sunrealtype t, N_Vector u, N_Vector change, void *user)
{
    const struct fixture *f = user;
    (void)t;
    return heat_laplacian(&f->heat, HEAT_N, HEAT_N, NULL, f->vectors.stream, (double)HEAT_COUNT,
                          N_VGetBuffer_Ferry(u), N_VGetBuffer_Ferry(change)) == FERRY_OK
               ? 0
               : -1;
}

/* Calls the host function `run` of a stencil kernel for a whole array. The kernel reads the array
 * `from` and writes the array `to`. It has one scalar argument, or two if `extra` is not NULL. */
static void
run_stencil(void (*run)(void **values), double *scale, double *extra, double *from, double *to,
            size_t rows, size_t columns)
{
    size_t first = 0;
    void *values[10];
    size_t at = 0;
    values[at++] = scale;
    if (extra)
        values[at++] = extra;
    values[at++] = &from;
    values[at++] = &to;
    values[at++] = &rows;
    values[at++] = &columns;
    values[at++] = &first;
    values[at++] = &rows;
    values[at++] = &first;
    values[at++] = &columns;
    run(values);
}

static int
heat_by_pointers(sunrealtype t, N_Vector u, N_Vector change, void *user)
{
    double scale = HEAT_COUNT;
    double *from = N_VGetArrayPointer(u), *to = N_VGetArrayPointer(change);
    (void)t;
    (void)user;
    if (!from || !to)
        return -1;
    run_stencil(heat_laplacian_run, &scale, NULL, from, to, HEAT_N, HEAT_N);
    return 0;
}

static int
reaction_by_kernel(sunrealtype t, N_Vector w, N_Vector change, void *user)
{
    const struct fixture *f = user;
    (void)t;
    return brusselator_reaction(&f->brusselator, 2, BRUSSELATOR_N, NULL, f->vectors.stream,
                                BRUSSELATOR_A, BRUSSELATOR_B, N_VGetBuffer_Ferry(w),
                                N_VGetBuffer_Ferry(change)) == FERRY_OK
               ? 0
               : -1;
}

static int
diffusion_by_kernel(sunrealtype t, N_Vector w, N_Vector change, void *user)
{
    const struct fixture *f = user;
    (void)t;
    return brusselator_diffusion(&f->brusselator, 2, BRUSSELATOR_N, NULL, f->vectors.stream,
                                 BRUSSELATOR_D * BRUSSELATOR_N * BRUSSELATOR_N,
                                 N_VGetBuffer_Ferry(w), N_VGetBuffer_Ferry(change)) == FERRY_OK
               ? 0
               : -1;
}

static int
reaction_by_pointers(sunrealtype t, N_Vector w, N_Vector change, void *user)
{
    double a = BRUSSELATOR_A, b = BRUSSELATOR_B;
    (void)t;
    (void)user;
    run_stencil(brusselator_reaction_run, &a, &b, N_VGetArrayPointer(w), N_VGetArrayPointer(change),
                2, BRUSSELATOR_N);
    return 0;
}

static int
diffusion_by_pointers(sunrealtype t, N_Vector w, N_Vector change, void *user)
{
    double scale = BRUSSELATOR_D * BRUSSELATOR_N * BRUSSELATOR_N;
    (void)t;
    (void)user;
    run_stencil(brusselator_diffusion_run, &scale, NULL, N_VGetArrayPointer(w),
                N_VGetArrayPointer(change), 2, BRUSSELATOR_N);
    return 0;
}

/* -- runs -------------------------------------------------------------------------------------- */

struct run {
    struct solver_counts counts;
    double solution[HEAT_COUNT];
    uint64_t up, down, scalars; /* bytes uploaded, bytes downloaded, results of reductions */
};

static void
read_values(N_Vector v, double *out, size_t count)
{
    memcpy(out, N_VGetArrayPointer(v), count * sizeof(double));
}

static void
solve_heat(struct fixture *f, N_Vector u, problem_rhs *rhs, double end, struct run *out)
{
    ferry_transfer_stats moved;
    const uint64_t scalars = f->vectors.scalars;
    heat_start(HEAT_N, N_VGetArrayPointer(u));
    MUST(ferry_context_reset_stats(f->context));
    assert_int_equal(heat_solve(u, rhs, f, end, &out->counts), 0);
    MUST(f->vectors.failure);
    MUST(ferry_context_get_transfer_stats(f->context, &moved));
    out->up = moved.upload.bytes;
    out->down = moved.download.bytes;
    out->scalars = f->vectors.scalars - scalars;
    read_values(u, out->solution, HEAT_COUNT);
    N_VDestroy(u);
    assert_true(heat_error(HEAT_N, out->solution, end) < 1e-4);
}

static void
solve_brusselator(struct fixture *f, N_Vector w, problem_rhs *reaction, problem_rhs *diffusion,
                  struct run *out)
{
    brusselator_start(BRUSSELATOR_N, N_VGetArrayPointer(w));
    /* Ends the integration at time 2.0, before the steady state. Near the steady state, few
     * bits of the solution still change, so a comparison of solutions would prove little. */
    assert_int_equal(brusselator_solve(w, reaction, diffusion, f, 2.0, &out->counts), 0);
    MUST(f->vectors.failure);
    memset(out->solution, 0, sizeof(out->solution));
    read_values(w, out->solution, BRUSSELATOR_COUNT);
    N_VDestroy(w);
}

static N_Vector
new_vector(struct fixture *f, sunindextype count, sunbooleantype fused)
{
    N_Vector v = N_VNew_Ferry(&f->vectors, count, f->sunctx);
    assert_non_null(v);
    assert_int_equal(N_VEnableFusedOps_Ferry(v, fused), 0);
    return v;
}

/* Checks that two runs took the same steps to the same solution. */
static void
assert_equal_runs(const struct run *left, const struct run *right, size_t count)
{
    assert_memory_equal(&left->counts, &right->counts, sizeof(left->counts));
    assert_memory_equal(left->solution, right->solution, count * sizeof(double));
}

/* Checks that two solutions differ less than ten times the relative tolerance of the integration.
 * Their elements are of the order of 1. */
static void
assert_close_solutions(const struct run *left, const struct run *right, size_t count,
                       double tolerance)
{
    for (size_t i = 0; i < count; i++)
        assert_true(fabs(left->solution[i] - right->solution[i]) < 10 * tolerance);
}

static void
assert_close_counts(long left, long right, long percent)
{
    assert_true(100 * labs(left - right) <= 100 + percent * right);
}

/*
 * Checks a run with Ferry's vectors against a run with serial vectors that have 16 partial sums. If
 * the kernels are host functions, the runs must be equal. A GPU adds in a different order, so its
 * run must only be close. The limits follow from a comparison of serial vectors with 1 to 15
 * partial sums to those with 16. The numbers of steps, calls and iterations differ by up to 4 %,
 * 5 % and 7 %. The solutions differ by up to 2.3 times the relative tolerance.
 */
static void
assert_same_run(struct fixture *f, const struct run *ferry, const struct run *tree, size_t count,
                double tolerance)
{
    if (kernels_are_host_functions(f->context)) {
        assert_equal_runs(ferry, tree, count);
        return;
    }
    assert_close_solutions(ferry, tree, count, tolerance);
    assert_close_counts(ferry->counts.steps, tree->counts.steps, 5);
    assert_close_counts(ferry->counts.rhs_calls, tree->counts.rhs_calls, 10);
    assert_close_counts(ferry->counts.linear_iterations, tree->counts.linear_iterations, 10);
}

static void
show(const char *what, const struct run *run)
{
    print_message("# %s: %ld steps, %ld calls of the right-hand side, %ld iterations of GMRES\n",
                  what, run->counts.steps, run->counts.rhs_calls, run->counts.linear_iterations);
}

static void
test_heat_takes_the_steps_of_equal_sums(void **state)
{
    struct fixture *f = *state;
    static struct run ferry, tree, serial;
    for (int fused = 0; fused < 2; fused++) {
        N_Vector plain = N_VNew_Serial(HEAT_COUNT, f->sunctx);
        assert_int_equal(N_VEnableFusedOps_Serial(plain, fused), 0);
        solve_heat(f, new_vector(f, HEAT_COUNT, fused), heat_by_kernel, HEAT_END, &ferry);
        solve_heat(f, tree_vector_create(HEAT_COUNT, fused, 16, f->sunctx), heat_by_pointers,
                   HEAT_END, &tree);
        solve_heat(f, plain, heat_by_pointers, HEAT_END, &serial);
        show(fused ? "heat, fused operations" : "heat", &ferry);
        show("its serial vector with these sums", &tree);
        show("its serial vector as it is", &serial);
        assert_same_run(f, &ferry, &tree, HEAT_COUNT, HEAT_TOLERANCE);
    }
}

/*
 * Checks that the order of addition matters. Near the steady state, the integrator's error estimate
 * consists of rounding errors. So serial vectors that differ only in their order of addition lead
 * to very different numbers of steps.
 */
static void
test_steps_depend_on_the_order_of_sums(void **state)
{
    struct fixture *f = *state;
    static struct run ferry, tree, other;
    const double end = 5.0;
    long least, most;
    solve_heat(f, new_vector(f, HEAT_COUNT, SUNTRUE), heat_by_kernel, end, &ferry);
    solve_heat(f, tree_vector_create(HEAT_COUNT, SUNTRUE, 16, f->sunctx), heat_by_pointers, end,
               &tree);
    /* A GPU adds in a different order, so its number of steps may differ. There, solve_heat() only
     * checks that the error of the solution is small. */
    if (kernels_are_host_functions(f->context))
        assert_equal_runs(&ferry, &tree, HEAT_COUNT);
    show("heat, settled", &ferry);
    least = most = ferry.counts.steps;
    for (int sums = 1; sums <= 4; sums++) {
        solve_heat(f, tree_vector_create(HEAT_COUNT, SUNTRUE, sums, f->sunctx), heat_by_pointers,
                   end, &other);
        print_message("# its serial vector with %d partial sums: %ld steps\n", sums,
                      other.counts.steps);
        least = other.counts.steps < least ? other.counts.steps : least;
        most = other.counts.steps > most ? other.counts.steps : most;
    }
    assert_true(most > least);
}

static void
test_brusselator_takes_the_steps_of_equal_sums(void **state)
{
    struct fixture *f = *state;
    static struct run ferry, tree, serial;
    for (int fused = 0; fused < 2; fused++) {
        N_Vector plain = N_VNew_Serial(BRUSSELATOR_COUNT, f->sunctx);
        assert_int_equal(N_VEnableFusedOps_Serial(plain, fused), 0);
        solve_brusselator(f, new_vector(f, BRUSSELATOR_COUNT, fused), reaction_by_kernel,
                          diffusion_by_kernel, &ferry);
        solve_brusselator(f, tree_vector_create(BRUSSELATOR_COUNT, fused, 16, f->sunctx),
                          reaction_by_pointers, diffusion_by_pointers, &tree);
        solve_brusselator(f, plain, reaction_by_pointers, diffusion_by_pointers, &serial);
        show(fused ? "Brusselator, fused operations" : "Brusselator", &ferry);
        show("its serial vector with these sums", &tree);
        show("its serial vector as it is", &serial);
        assert_same_run(f, &ferry, &tree, BRUSSELATOR_COUNT, BRUSSELATOR_TOLERANCE);
    }
}

/* -- what crosses ------------------------------------------------------------------------------ */

static bool
is_coherent(struct fixture *f)
{
    ferry_place_info place;
    MUST(ferry_context_get_place_info(f->context, 1, &place));
    return place.coherent;
}

static void
test_only_scalars_cross(void **state)
{
    struct fixture *f = *state;
    static struct run run;
    solve_heat(f, new_vector(f, HEAT_COUNT, SUNTRUE), heat_by_kernel, HEAT_END, &run);
    if (is_coherent(f)) {
        assert_int_equal(run.up + run.down, 0);
        return;
    }
    /* The initial state is uploaded once, however many steps there are. */
    assert_int_equal(run.up, HEAT_COUNT * sizeof(double));
    assert_int_equal(run.down, run.scalars * sizeof(double));
    assert_true(run.scalars > 3 * (uint64_t)run.counts.steps);
    print_message("# %.1f bytes down per step\n", (double)run.down / (double)run.counts.steps);
}

/* The right-hand side accesses the vectors through host pointers. Ferry cannot know whether the
 * host reads or writes through a pointer. So each call downloads at most two vectors, and uploads
 * them again later. */
static void
test_pointers_of_the_host_cross(void **state)
{
    struct fixture *f = *state;
    static struct run by_kernel, by_pointers;
    const uint64_t vector = HEAT_COUNT * sizeof(double);
    solve_heat(f, new_vector(f, HEAT_COUNT, SUNTRUE), heat_by_kernel, HEAT_END, &by_kernel);
    solve_heat(f, new_vector(f, HEAT_COUNT, SUNTRUE), heat_by_pointers, HEAT_END, &by_pointers);
    assert_equal_runs(&by_kernel, &by_pointers, HEAT_COUNT);
    if (is_coherent(f)) {
        assert_int_equal(by_pointers.up + by_pointers.down, 0);
        return;
    }
    assert_true(by_pointers.up >= (uint64_t)by_pointers.counts.rhs_calls * vector);
    assert_true(by_pointers.up <= 2 * (uint64_t)by_pointers.counts.rhs_calls * vector + vector);
    assert_true(by_pointers.down <= 2 * (uint64_t)by_pointers.counts.rhs_calls * vector +
                                        by_pointers.scalars * sizeof(double));
    print_message("# by host pointers %.1f vectors up and %.1f down per call\n",
                  (double)by_pointers.up / (double)vector / (double)by_pointers.counts.rhs_calls,
                  (double)by_pointers.down / (double)vector / (double)by_pointers.counts.rhs_calls);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_heat_takes_the_steps_of_equal_sums, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_steps_depend_on_the_order_of_sums, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_brusselator_takes_the_steps_of_equal_sums, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_only_scalars_cross, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pointers_of_the_host_cross, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
