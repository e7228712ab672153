/* SPDX-License-Identifier: MIT */

/*
 * Measures the cost of sharing arrays with a different library. An export consists of a lease, a
 * DLPack tensor and a call of the tensor's deleter. An import creates a buffer over the other
 * library's array and destroys the buffer. For comparison, the benchmark calls malloc() and free()
 * for as many blocks as an export allocates.
 */

#include "bench.h"

#include <stdlib.h>

#include <ferry/exchange.h>
#include <ferry/float.h>

#include "src/exchange/abi.h"

enum { COUNT = 16384, ROUNDS = 101, TURNS = 10000 };

struct subject {
    ferry_float_buffer buffer;
    ferry_lease *lease; /* the lease whose exports are measured; open during the measurement */
    ferry_context *context;
    struct DLManagedTensorVersioned tensor;
    int64_t shape, stride;
};

typedef bool turn_loop(struct subject *subject, size_t turns);

/* -- loops ------------------------------------------------------------------------------------- */

static bool
loop_lease(struct subject *subject, size_t turns)
{
    const ferry_lease_options options = {.access = FERRY_READ};
    for (size_t i = 0; i < turns; i++) {
        ferry_lease *lease;
        void *pointer;
        if (ferry_lease_open(subject->buffer.raw, ferry_float_element(), &options, &lease,
                             &pointer) != FERRY_OK)
            return false;
        ferry_lease_destroy(&lease);
    }
    return true;
}

/* Opens a lease, exports a tensor that becomes the lease's only owner, and calls the tensor's
 * deleter. */
static bool
loop_export(struct subject *subject, size_t turns)
{
    const ferry_lease_options options = {.access = FERRY_READ};
    for (size_t i = 0; i < turns; i++) {
        struct DLManagedTensorVersioned *tensor;
        ferry_lease *lease;
        void *pointer;
        if (ferry_lease_open(subject->buffer.raw, ferry_float_element(), &options, &lease,
                             &pointer) != FERRY_OK)
            return false;
        ferry_status status = ferry_lease_export_dlpack(lease, NULL, &tensor);
        ferry_lease_destroy(&lease);
        if (status != FERRY_OK)
            return false;
        tensor->deleter(tensor);
    }
    return true;
}

/* Exports an open lease as a tensor, and calls the tensor's deleter. */
static bool
loop_tensor(struct subject *subject, size_t turns)
{
    for (size_t i = 0; i < turns; i++) {
        struct DLManagedTensorVersioned *tensor;
        if (ferry_lease_export_dlpack(subject->lease, NULL, &tensor) != FERRY_OK)
            return false;
        tensor->deleter(tensor);
    }
    return true;
}

static bool
loop_import(struct subject *subject, size_t turns)
{
    for (size_t i = 0; i < turns; i++) {
        ferry_buffer *buffer;
        if (ferry_buffer_import_dlpack(subject->context, &subject->tensor, NULL, &buffer) !=
            FERRY_OK)
            return false;
        ferry_buffer_destroy(&buffer);
    }
    return true;
}

static bool
loop_two_blocks(struct subject *subject, size_t turns)
{
    (void)subject;
    for (size_t i = 0; i < turns; i++) {
        void *volatile blocks[2] = {malloc(128), malloc(128)};
        free(blocks[0]);
        free(blocks[1]);
    }
    return true;
}

static const struct {
    const char *name;
    turn_loop *run;
    struct bench_goal goal;
} cases[] = {
    {"host/lease", loop_lease, {BENCH_AT_MOST, 100}},
    {"host/lease-export-deleter", loop_export, {BENCH_AT_MOST, 100}},
    {"host/export-deleter", loop_tensor, {BENCH_NO_GOAL, 0}},
    {"host/import-destroy", loop_import, {BENCH_NO_GOAL, 0}},
    {"two-blocks", loop_two_blocks, {BENCH_NO_GOAL, 0}},
};

/* -- the subject ------------------------------------------------------------------------------- */

static void
keep(struct DLManagedTensorVersioned *self)
{
    (void)self;
}

static bool
open_subject(struct subject *subject, ferry_context *context, const float *values)
{
    const ferry_lease_options options = {.access = FERRY_READ};
    void *pointer;
    subject->context = context;
    subject->shape = COUNT;
    subject->stride = 1;
    subject->tensor = (struct DLManagedTensorVersioned){.version = {1, 0}, .deleter = keep};
    subject->tensor.dl_tensor = (struct ferryi_dl_tensor){.data = (void *)(uintptr_t)values,
                                                          .device = {FERRYI_DL_CPU, 0},
                                                          .rank = 1,
                                                          .dtype = {FERRYI_DL_FLOAT, 32, 1},
                                                          .shape = &subject->shape,
                                                          .strides = &subject->stride};
    return ferry_float_create_from(context, COUNT, values, NULL, &subject->buffer) == FERRY_OK &&
           ferry_lease_open(subject->buffer.raw, ferry_float_element(), &options, &subject->lease,
                            &pointer) == FERRY_OK;
}

static bool
measure(struct bench_report *report, struct subject *subject, bool quick)
{
    size_t rounds = quick ? 3 : ROUNDS, turns = quick ? 10 : TURNS;
    static double times[sizeof(cases) / sizeof(cases[0])][ROUNDS];
    /* The cases run in turn within each round, so that disturbances affect all cases alike. */
    for (size_t round = 0; round <= rounds; round++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            double begun = bench_now_ns();
            if (!cases[i].run(subject, turns))
                return bench_failed(cases[i].name);
            times[i][round == 0 ? 0 : round - 1] =
                (bench_now_ns() - begun) / (double)turns; /* round 0 warms up */
        }
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct bench_record record = {.case_name = cases[i].name,
                                            .metric = "time",
                                            .unit = "ns",
                                            .value = bench_median(times[i], rounds),
                                            .goal = cases[i].goal};
        bench_report_add(report, &record);
    }
    return true;
}

static bool
run(ferry_context *context, struct bench_report *report, bool quick)
{
    static float values[COUNT];
    struct subject subject = {0};
    bool ok = open_subject(&subject, context, values)
                  ? measure(report, &subject, quick)
                  : bench_failed("opening a buffer and a lease");
    ferry_lease_destroy(&subject.lease);
    ferry_float_destroy(&subject.buffer);
    return ok;
}

int
main(int argc, char **argv)
{
    return bench_main(argc, argv, "exchange", 0, run);
}
