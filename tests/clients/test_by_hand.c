/* SPDX-License-Identifier: MIT */

/*
 * Checks that CVODE over Ferry's vectors behaves like the same program written by hand over the
 * CUDA driver (bench/by_hand.c). Both programs must take the same steps, and their solutions must
 * have the same bits. Both must transfer the same number of bytes with the same number of launches
 * and copies. Ferry must not wait more often. The test needs the fake driver, which counts calls.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/by_hand.h"
#include "heat_kernels.h"
#include "nvector_ferry.h"
#include "problems.h"
#include "tests/support/fakecuda.h"

enum { N = 32, COUNT = N * N };

#define MUST(call)                                                                                 \
    do {                                                                                           \
        const ferry_status status_ = (call);                                                       \
        if (status_ != FERRY_OK)                                                                   \
            fail_msg("%s: %s: %s", #call, ferry_status_name(status_), ferry_last_error());         \
    } while (0)

struct result {
    struct solver_counts counts;
    double solution[COUNT];
    uint64_t up, down;
    uint64_t launches, copies, waits, events, calls; /* numbers of driver calls */
};

struct user {
    nvector_ferry vectors;
    heat_kernels kernels;
    struct by_hand by_hand;
    double start[COUNT];
};

static uint64_t
calls_of(const struct fakecuda *fake, const char *first, const char *second)
{
    return fake->fakecuda_calls_of(first) + fake->fakecuda_calls_of(second);
}

/* Adds the numbers of all driver calls of this process to the counts, multiplied by `sign`. A call
 * with -1 before a program and a call with 1 after it yield the calls of that program. */
static void
count_calls(const struct fakecuda *fake, struct result *out, uint64_t sign)
{
    out->launches += sign * fake->fakecuda_calls_of("cuLaunchKernel");
    out->copies += sign * calls_of(fake, "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2");
    out->waits += sign * calls_of(fake, "cuStreamSynchronize", "cuEventSynchronize");
    out->events += sign * calls_of(fake, "cuEventRecord", "cuStreamWaitEvent");
    out->calls += sign * fake->fakecuda_calls();
}

static void
begin_counting(const struct fakecuda *fake, struct result *out)
{
    memset(out, 0, sizeof(*out));
    count_calls(fake, out, (uint64_t)-1);
}

static int
by_ferry(sunrealtype t, N_Vector u, N_Vector change, void *data)
{
    const struct user *user = data;
    (void)t;
    return heat_laplacian(&user->kernels, N, N, NULL, user->vectors.stream, COUNT,
                          N_VGetBuffer_Ferry(u), N_VGetBuffer_Ferry(change)) == FERRY_OK
               ? 0
               : -1;
}

static int
launched_by_hand(sunrealtype t, N_Vector u, N_Vector change, void *data)
{
    struct user *user = data;
    double scale = COUNT;
    uint64_t from = by_hand_address(u), to = by_hand_address(change);
    size_t rows = N, columns = N, first = 0;
    void *arguments[] = {&scale, &from, &to, &rows, &columns, &first, &rows, &first, &columns};
    (void)t;
    by_hand_launch(&user->by_hand, "heat_laplacian", COUNT, arguments);
    return user->by_hand.failure;
}

static void
solve_by_ferry(struct user *user, const struct fakecuda *fake, SUNContext sunctx,
               sunbooleantype fused, struct result *out)
{
    ferry_transfer_stats moved;
    N_Vector u = N_VNew_Ferry(&user->vectors, COUNT, sunctx);
    assert_non_null(u);
    assert_int_equal(N_VEnableFusedOps_Ferry(u, fused), 0);
    heat_start(N, user->start);
    MUST(ferry_context_reset_stats(user->vectors.context));
    begin_counting(fake, out);
    MUST(ferry_double_copy_from(N_VGetBuffer_Ferry(u), 0, COUNT, user->start, NULL));
    assert_int_equal(heat_solve(u, by_ferry, user, HEAT_END, &out->counts), 0);
    MUST(ferry_double_copy_to(N_VGetBuffer_Ferry(u), 0, COUNT, out->solution, NULL));
    count_calls(fake, out, 1);
    MUST(user->vectors.failure);
    MUST(ferry_context_get_transfer_stats(user->vectors.context, &moved));
    out->up = moved.upload.bytes;
    out->down = moved.download.bytes;
    N_VDestroy(u);
}

static void
solve_by_hand(struct user *user, const struct fakecuda *fake, SUNContext sunctx, struct result *out)
{
    N_Vector u;
    assert_true(by_hand_open(&user->by_hand));
    u = by_hand_vector(&user->by_hand, COUNT, sunctx);
    assert_non_null(u);
    heat_start(N, user->start);
    begin_counting(fake, out);
    by_hand_upload(u, user->start);
    assert_int_equal(heat_solve(u, launched_by_hand, user, HEAT_END, &out->counts), 0);
    by_hand_download(u, out->solution);
    count_calls(fake, out, 1);
    assert_int_equal(user->by_hand.failure, 0);
    out->up = user->by_hand.up;
    out->down = user->by_hand.down;
    N_VDestroy(u);
    by_hand_close(&user->by_hand);
}

static void
show(const char *what, const struct result *result)
{
    const double steps = (double)result->counts.steps;
    print_message("# %s, per step of %ld: %.1f bytes up, %.1f down; %.1f launches, %.1f copies, "
                  "%.1f waits, %.1f events; "
                  "%.1f driver calls in all\n",
                  what, result->counts.steps, (double)(result->up - COUNT * sizeof(double)) / steps,
                  (double)(result->down - COUNT * sizeof(double)) / steps,
                  (double)result->launches / steps, (double)result->copies / steps,
                  (double)result->waits / steps, (double)result->events / steps,
                  (double)result->calls / steps);
}

static void
test_as_by_hand(void **state)
{
    static struct user user;
    static struct result ferry, fused, by_hand;
    struct fakecuda fake;
    ferry_context *context = NULL;
    SUNContext sunctx = NULL;
    (void)state;
    if (!fakecuda_find_driver(&fake))
        skip();
    assert_int_equal(SUNContext_Create(NULL, &sunctx), 0);
    MUST(ferry_context_create(NULL, &context));
    MUST(nvector_ferry_create(context, NULL, &user.vectors));
    MUST(heat_kernels_create(context, &user.kernels));

    solve_by_hand(&user, &fake, sunctx, &by_hand);
    solve_by_ferry(&user, &fake, sunctx, SUNFALSE, &ferry);
    solve_by_ferry(&user, &fake, sunctx, SUNTRUE, &fused);
    show("by hand", &by_hand);
    show("Ferry", &ferry);
    show("Ferry, fused operations", &fused);

    assert_memory_equal(&ferry.counts, &by_hand.counts, sizeof(ferry.counts));
    assert_memory_equal(ferry.solution, by_hand.solution, sizeof(ferry.solution));
    assert_true(heat_error(N, ferry.solution, HEAT_END) < 1e-4);
    assert_int_equal(by_hand.up, COUNT * sizeof(double));
    assert_int_equal(ferry.up, by_hand.up);
    assert_int_equal(ferry.down, by_hand.down);
    assert_int_equal(ferry.launches, by_hand.launches);
    assert_int_equal(ferry.copies, by_hand.copies);
    assert_true(ferry.waits <= by_hand.waits);
    assert_int_equal(fused.up, by_hand.up);
    assert_true(fused.launches < by_hand.launches);
    assert_true(fused.down <= by_hand.down);

    heat_kernels_destroy(&user.kernels);
    nvector_ferry_destroy(&user.vectors);
    ferry_context_destroy(&context);
    SUNContext_Free(&sunctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
