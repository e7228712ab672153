/* SPDX-License-Identifier: MIT */

/*
 * Counts the driver calls of common operations. This benchmark always uses the fake driver of the
 * tests. The goals apply to threads in which the CUDA context is already current, as in programs
 * that use the CUDA runtime. In other threads each Ferry call pushes and pops the context. The
 * counts for such threads have no goal.
 */

#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "call_cases.h"
#include "cost_matrix.h"

static void
add(struct bench_report *report, const char *name, const char *metric, double value, double goal)
{
    const struct bench_record record = {.case_name = name,
                                        .metric = metric,
                                        .unit = "calls",
                                        .value = value,
                                        .goal = {goal < 0 ? BENCH_NO_GOAL : BENCH_AT_MOST, goal}};
    bench_report_add(report, &record);
}

static bool
count_all(struct bench_report *report, bool current)
{
    struct call_world *world = call_world_open(current);
    bool ok = world;
    for (size_t i = 0; i < call_case_count && ok; i++) {
        struct call_counts counts;
        ok = call_case_count_calls(world, i, &counts);
        if (ok)
            add(report, call_cases[i].name, current ? "calls" : "uncurrent", counts.calls,
                current ? call_cases[i].goal : -1);
        if (ok && current)
            add(report, call_cases[i].name, "get_current", counts.get_current, -1);
    }
    if (world)
        call_world_close(world);
    return ok;
}

static bool
count_matrix(struct bench_report *report)
{
    for (size_t i = 0; i < cost_operation_count; i++)
        for (int shape = 0; shape < COST_SHAPES; shape++) {
            char name[64];
            struct cost cost;
            snprintf(name, sizeof(name), "cost/%s/%s", cost_operations[i].name,
                     cost_shape_names[shape]);
            if (!cost_count(i, (enum cost_shape)shape, 0, &cost))
                return false;
            add(report, name, "calls", cost.calls, COST_GOAL);
            add(report, name, "transfers", cost.transfers, -1);
        }
    return true;
}

int
main(int argc, char **argv)
{
    struct bench_options options;
    struct bench_report report;
    const ferry_context_options fake = {.devices = "cuda:0"};
    ferry_context *context = NULL;
    if (!bench_parse(argc, argv, &options))
        return EXIT_FAILURE;
    setenv("FERRY_CUDA_LIBRARY", BENCH_FAKECUDA, 1);
    setenv("FAKECUDA_MEMORY_BYTES", "1073741824", 1);
    bool ok = ferry_context_create(&fake, &context) == FERRY_OK ||
              bench_failed("opening the fake device");
    ok = ok && bench_report_open(&report, "calls", &options, context);
    ferry_context_destroy(&context);
    if (!ok)
        return EXIT_FAILURE;
    ok = count_all(&report, true) &&
         (options.quick || (count_all(&report, false) && count_matrix(&report)));
    return bench_report_close(&report) && ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
