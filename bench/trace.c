/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of tracing. Two operations are timed: opening and closing a scope on current
 * data, and a copy of 4 KiB on the host. Each operation runs in a context with a trace and in a
 * context without a trace. An operation writes two entries to the trace, so an entry costs half of
 * the difference of the times. This cost includes writing the file, and the slower path of a scope
 * in a traced context.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/float.h>

#include "bench.h"

enum {
    COUNT = 1024,
    ENTRIES = 2,
    ROUNDS = 501,
    QUICK_ROUNDS = 3,
    REPEATS = 200,
    QUICK_REPEATS = 50,
    THREADS_MOST = 2,
    LONGER = 20
};

struct side {
    ferry_context *context;
    ferry_float_buffer buffers[THREADS_MOST];
};

static float memory[THREADS_MOST][COUNT];

static bool
read_hit(struct side *side, size_t which)
{
    ferry_scope scope;
    const float *values;
    return ferry_float_read_host(side->buffers[which], &scope, &values) == FERRY_OK &&
           ferry_scope_close(&scope) == FERRY_OK;
}

static bool
copy_in(struct side *side, size_t which)
{
    return ferry_float_copy_from(side->buffers[which], 0, COUNT, memory[which], NULL) == FERRY_OK;
}

static const struct kind {
    const char *name;
    bool (*run)(struct side *side, size_t which);
    size_t threads;
} kinds[] = {{"read_host", read_hit, 1},
             {"copy_from/4KiB", copy_in, 1},
             {"read_host/2threads", read_hit, 2}};

/* -- one round --------------------------------------------------------------------------------- */

struct loop {
    const struct kind *kind;
    struct side *side;
    size_t which, repeats;
    bool ok;
};

static void *
run_loop(void *argument)
{
    struct loop *loop = argument;
    loop->ok = true;
    for (size_t i = 0; i < loop->repeats && loop->ok; i++)
        loop->ok = loop->kind->run(loop->side, loop->which);
    return NULL;
}

/* Measures the time of one call in nanoseconds. All threads of the measurement make calls at the
 * same time. */
static bool
measure_side(const struct kind *kind, struct side *side, size_t repeats, double *out)
{
    struct loop loops[THREADS_MOST];
    pthread_t threads[THREADS_MOST];
    size_t started = 1;
    for (size_t i = 0; i < kind->threads; i++)
        loops[i] = (struct loop){.kind = kind, .side = side, .which = i, .repeats = repeats};
    double begin = bench_now_ns();
    while (started < kind->threads &&
           pthread_create(&threads[started], NULL, run_loop, &loops[started]) == 0)
        started++;
    run_loop(&loops[0]);
    bool ok = loops[0].ok && started == kind->threads;
    for (size_t i = 1; i < started; i++) {
        pthread_join(threads[i], NULL);
        ok = ok && loops[i].ok;
    }
    *out = (bench_now_ns() - begin) / (double)repeats;
    return ok || bench_failed(kind->name);
}

static bool
measure_kind(const struct kind *kind, struct side *off, struct side *on,
             struct bench_report *report, bool quick)
{
    double plain[ROUNDS], traced[ROUNDS], entry[ROUNDS];
    size_t rounds = quick ? QUICK_ROUNDS : ROUNDS, repeats = quick ? QUICK_REPEATS : REPEATS;
    /* Rounds with several threads are longer, so that thread creation takes little of their time.
     */
    if (kind->threads > 1 && !quick) {
        rounds /= LONGER;
        repeats *= LONGER;
    }
    for (size_t i = 0; i < rounds; i++) {
        if (!measure_side(kind, off, repeats, &plain[i]) ||
            !measure_side(kind, on, repeats, &traced[i]))
            return false;
        entry[i] = (traced[i] - plain[i]) / ENTRIES;
    }
    struct bench_record record = {.case_name = kind->name,
                                  .metric = "call_traced",
                                  .unit = "ns",
                                  .value = bench_median(traced, rounds),
                                  .peer = "untraced",
                                  .peer_value = bench_median(plain, rounds)};
    bench_report_add(report, &record);
    record = (struct bench_record){.case_name = kind->name,
                                   .metric = "entry",
                                   .unit = "ns",
                                   .value = bench_median(entry, rounds)};
    if (kind->threads == 1)
        record.goal = (struct bench_goal){BENCH_AT_MOST, 300};
    bench_report_add(report, &record);
    return true;
}

/* -- the program ------------------------------------------------------------------------------- */

static bool
open_side(struct side *side, const char *path)
{
    const ferry_context_options options = {.devices = "emulated", .trace_file = path};
    if (ferry_context_create(&options, &side->context) != FERRY_OK)
        return bench_failed("opening a context");
    for (size_t i = 0; i < THREADS_MOST; i++)
        if (ferry_float_create_from(side->context, COUNT, memory[i], NULL, &side->buffers[i]) !=
            FERRY_OK)
            return bench_failed("creating a buffer");
    return true;
}

static void
close_side(struct side *side)
{
    for (size_t i = 0; i < THREADS_MOST; i++)
        ferry_float_destroy(&side->buffers[i]);
    ferry_context_destroy(&side->context);
}

static bool
run(ferry_context *context, struct bench_report *report, bool quick)
{
    struct side off = {0}, on = {0};
    const char *folder = getenv("TMPDIR");
    char path[4096];
    (void)context;
    snprintf(path, sizeof(path), "%s/ferry-bench-trace-XXXXXX", folder ? folder : "/tmp");
    int file = mkstemp(path);
    if (file < 0) {
        fprintf(stderr, "bench: cannot create %s\n", path);
        return false;
    }
    close(file);
    bool ok = open_side(&off, NULL) && open_side(&on, path);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && ok; i++)
        ok = measure_kind(&kinds[i], &off, &on, report, quick);
    close_side(&off);
    close_side(&on);
    unlink(path);
    return ok;
}

int
main(int argc, char **argv)
{
    return bench_main(argc, argv, "trace", (size_t)16 << 20, run);
}
