/* SPDX-License-Identifier: MIT */
#include "traces.h"

#include <stdlib.h>

#include "best_fit.h"
#include "cli/replay.h"

static const char *const names[] = {"steps", "tails", "fragmenting"};

enum { NAMES = sizeof(names) / sizeof(names[0]), TRACE_BYTES_MAX = 16 << 20 };

static bool
open_pool(const struct allocator_options *options, struct allocator *out)
{
    return pool_open(options, out, NULL, NULL);
}

static bool
read_trace(const char *name, struct script *out)
{
    char path[4096];
    struct log log = {0};
    struct log_problem problem = {0, "it cannot be read"};
    snprintf(path, sizeof(path), "%s/%s.csv", BENCH_TRACES, name);
    FILE *file = fopen(path, "r");
    char *bytes = malloc(TRACE_BYTES_MAX);
    size_t count = file && bytes ? fread(bytes, 1, TRACE_BYTES_MAX, file) : 0;
    bool ok =
        count > 0 && log_read(bytes, count, &log, &problem) && script_write(&log, out, &problem);
    if (!ok)
        fprintf(stderr, "%s:%zu: %s\n", path, problem.line, problem.text);
    log_free(&log);
    free(bytes);
    if (file)
        fclose(file);
    return ok;
}

static void
add(struct bench_report *report, const char *name, const char *metric, const char *unit,
    double value, const char *peer, double peer_value, struct bench_goal goal)
{
    char case_name[64];
    snprintf(case_name, sizeof(case_name), "trace %s", name);
    const struct bench_record record = {case_name, metric, unit, value, peer, peer_value, goal};
    bench_report_add(report, &record);
}

static bool
time_takes(const struct script *script, replay_opener *open,
           const struct allocator_options *options, double *out_ns, double *out_reserved)
{
    struct allocator allocator;
    struct replay_result result;
    bool ok = open(options, &allocator);
    if (ok) {
        ok = replay_run(script, &allocator, &result);
        allocator.close(allocator.user);
        *out_ns = result.take.median_ns - result.clock_ns;
        *out_reserved = (double)result.state.peak_reserved_bytes / 1048576.0;
    }
    return ok;
}

/* Reports the smallest limit of pools that map handles. They are pools of an emulated device,
 * because the host maps none. */
static bool
measure_handles(struct bench_report *report, const char *name, const struct script *script)
{
    static const unsigned sizes[] = {2, 8, 32};
    const struct bench_goal none = {BENCH_NO_GOAL, 0};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct allocator_options options = {.devices = "emulated",
                                            .streams = script->streams,
                                            .handle_bytes = (uint64_t)sizes[i] << 20};
        char metric[64];
        double limit =
            (double)replay_smallest_limit(script, open_pool, &options, 4 * script->peak_bytes);
        if (limit <= 0)
            return bench_failed(name);
        snprintf(metric, sizeof(metric), "smallest_limit_handles_%u_MiB", sizes[i]);
        add(report, name, metric, "MiB", limit / 1048576.0, "live peak",
            (double)script->peak_bytes / 1048576.0, none);
    }
    return true;
}

static bool
measure_trace(struct bench_report *report, const char *name, const struct script *script)
{
    const struct bench_goal none = {BENCH_NO_GOAL, 0}, goal = {BENCH_AT_MOST, 1.10};
    struct allocator_options options = {.devices = "host", .streams = script->streams};
    uint64_t most = 8 * script->peak_bytes;
    double live = (double)script->peak_bytes / 1048576.0, pool_ns, best_fit_ns, pool_reserved,
           unused;
    double pool = (double)replay_smallest_limit(script, open_pool, &options, most) / 1048576.0;
    double best_fit =
        (double)replay_smallest_limit(script, best_fit_open, &options, most) / 1048576.0;
    options.limit_bytes = most;
    if (pool <= 0 || best_fit <= 0 ||
        !time_takes(script, open_pool, &options, &pool_ns, &pool_reserved) ||
        !time_takes(script, best_fit_open, &options, &best_fit_ns, &unused))
        return bench_failed(name);
    add(report, name, "smallest_limit", "MiB", pool, "live peak", live, goal);
    add(report, name, "smallest_limit", "MiB", pool, "best-fit", best_fit, none);
    add(report, name, "best_fit_limit", "MiB", best_fit, "live peak", live, none);
    /* Reports the peak of the memory that the pool reserves when its limit is higher than the trace
     * needs. */
    add(report, name, "most_reserved", "MiB", pool_reserved, "live peak", live,
        (struct bench_goal){BENCH_AT_MOST, 1.75});
    add(report, name, "take_median", "ns", pool_ns, "best-fit", best_fit_ns, none);
    return true;
}

bool
traces_measure(struct bench_report *report, bool quick)
{
    bool ok = true;
    for (size_t i = 0; ok && i < NAMES; i++) {
        struct script script = {0};
        ok = read_trace(names[i], &script) && measure_trace(report, names[i], &script) &&
             (quick || measure_handles(report, names[i], &script));
        script_free(&script);
    }
    return ok;
}
