/* SPDX-License-Identifier: MIT */

/*
 * Measures a graph of short launches against the same launches one by one, from the first call
 * until the device has done all of them, and what a launch of the graph costs for each buffer more.
 *
 * The graph and its peer run in turn, in short rounds of one process. The report compares the
 * medians of the rounds. The kernel adds 1 to 16 elements, so that the launches are what costs.
 */

#include "bench.h"

#include <ferry/float.h>

enum { LAUNCHES = 20, BUFFERS = 16, ELEMENTS = 16, ROUNDS = 101, STEPS = 200 };

struct subject {
    ferry_context *context; /* borrowed */
    ferry_kernel *kernel;
    ferry_stream *stream;
    ferry_float_buffer buffers[BUFFERS];
    ferry_graph *few, *many; /* LAUNCHES launches on one buffer, and on BUFFERS buffers in turn */
};

static const char add_cuda[] =
    "extern \"C\" __global__ void add(float *x) { x[threadIdx.x] += 1.0f; }\n";

static ferry_status
add_host(const ferry_call *call, void *user)
{
    size_t count;
    float *x = ferry_float_call_array(call, 0, &count);
    (void)user;
    for (size_t i = 0; i < count; i++)
        x[i] += 1.0f;
    return FERRY_OK;
}

/* Launches the kernel LAUNCHES times, on the first `count` buffers in turn. */
static ferry_status
launch_all(const struct subject *subject, size_t count)
{
    for (size_t i = 0; i < LAUNCHES; i++) {
        const ferry_argument argument = ferry_float_argument(subject->buffers[i % count]);
        FERRY_CHECK(ferry_kernel_launch(subject->kernel, ferry_grid_for(ELEMENTS, ELEMENTS),
                                        subject->stream, &argument, 1));
    }
    return FERRY_OK;
}

static ferry_status
record(const struct subject *subject, size_t count, ferry_graph **graph)
{
    FERRY_CHECK(ferry_graph_begin(subject->stream, NULL, graph));
    FERRY_CHECK(launch_all(subject, count));
    return ferry_graph_end(*graph);
}

static ferry_status
subject_open(struct subject *subject)
{
    const ferry_parameter parameter = {.element = ferry_float_element(), .access = FERRY_UPDATE};
    const ferry_kernel_code code = {.kind = FERRY_CODE_CUDA, .code = add_cuda};
    const ferry_kernel_source source = {.name = "add",
                                        .codes = &code,
                                        .code_count = 1,
                                        .host_function = add_host,
                                        .parameters = &parameter,
                                        .parameter_count = 1};
    FERRY_CHECK(ferry_kernel_create(subject->context, &source, &subject->kernel));
    FERRY_CHECK(ferry_stream_create(subject->context, 1, &subject->stream));
    for (size_t i = 0; i < BUFFERS; i++) {
        FERRY_CHECK(ferry_float_create(subject->context, ELEMENTS, NULL, &subject->buffers[i]));
        FERRY_CHECK(ferry_float_fill(subject->buffers[i], 0, ELEMENTS, 0, NULL));
    }
    FERRY_CHECK(record(subject, 1, &subject->few));
    return record(subject, BUFFERS, &subject->many);
}

static void
subject_close(struct subject *subject)
{
    ferry_graph_destroy(&subject->few);
    ferry_graph_destroy(&subject->many);
    for (size_t i = 0; i < BUFFERS; i++)
        ferry_float_destroy(&subject->buffers[i]);
    ferry_stream_destroy(&subject->stream);
    ferry_kernel_destroy(&subject->kernel);
}

/* -- what is measured -------------------------------------------------------------------------- */

static ferry_status
run_graph(const struct subject *subject, ferry_graph *graph)
{
    FERRY_CHECK(ferry_graph_launch(graph, subject->stream));
    return ferry_stream_synchronize(subject->stream);
}

static ferry_status
replay_few(const struct subject *subject)
{
    return run_graph(subject, subject->few);
}

static ferry_status
replay_many(const struct subject *subject)
{
    return run_graph(subject, subject->many);
}

static ferry_status
launch_few(const struct subject *subject)
{
    FERRY_CHECK(launch_all(subject, 1));
    return ferry_stream_synchronize(subject->stream);
}

static ferry_status
launch_many(const struct subject *subject)
{
    FERRY_CHECK(launch_all(subject, BUFFERS));
    return ferry_stream_synchronize(subject->stream);
}

enum { KINDS = 4 };
static ferry_status (*const kinds[KINDS])(const struct subject *subject) = {
    replay_few, launch_few, replay_many, launch_many};

static bool
measure(const struct subject *subject, struct bench_report *report, bool quick)
{
    static double samples[KINDS][ROUNDS];
    double median[KINDS];
    const size_t rounds = quick ? 3 : ROUNDS;
    for (size_t round = 0; round < rounds + 2; round++) {
        for (size_t turn = 0; turn < KINDS; turn++) {
            size_t kind = (turn + round) % KINDS;
            double begun = bench_now_ns();
            for (size_t i = 0; i < STEPS; i++)
                if (kinds[kind](subject) != FERRY_OK)
                    return bench_failed("a graph");
            if (round >= 2) /* the first two rounds warm up */
                samples[kind][round - 2] = (bench_now_ns() - begun) / STEPS;
        }
    }
    for (size_t kind = 0; kind < KINDS; kind++)
        median[kind] = bench_median(samples[kind], rounds);
    for (size_t kind = 0; kind < KINDS; kind += 2) {
        const struct bench_record record = {.case_name = kind ? "20_launches/16_buffers"
                                                              : "20_launches/1_buffer",
                                            .metric = "step",
                                            .unit = "ns",
                                            .value = median[kind],
                                            .peer = "launches",
                                            .peer_value = median[kind + 1]};
        bench_report_add(report, &record);
    }
    const struct bench_record more = {.case_name = "buffer",
                                      .metric = "step",
                                      .unit = "ns",
                                      .value = (median[2] - median[0]) / (BUFFERS - 1)};
    bench_report_add(report, &more);
    return true;
}

static bool
run(ferry_context *context, struct bench_report *report, bool quick)
{
    struct subject subject = {.context = context};
    bool ok = (subject_open(&subject) == FERRY_OK || bench_failed("opening")) &&
              measure(&subject, report, quick);
    subject_close(&subject);
    return ok;
}

int
main(int argc, char **argv)
{
    return bench_main(argc, argv, "graph", 0, run);
}
