/* SPDX-License-Identifier: MIT */

/*
 * Measures how fast the transfer engine stages pageable memory. The engine runs over a null sink: a
 * device whose copies do nothing.
 *
 * Staging with one thread is compared with a memcpy() of the same bytes between two arrays. The
 * expected ratio is 1.0 to 1.35, because a small staging ring stays in the cache.
 *
 * Staging with two threads is compared with staging with one. The expected ratio is 1.8 to 2.0. If
 * the memory bandwidth limits both threads, the expected ratio is 1.0 to 1.9.
 *
 * The benchmark also measures the largest possible speed-up from one to two threads, without the
 * engine. First one thread copies all bytes into a ring with memcpy(). Then two independent threads
 * copy half of the bytes each into separate rings. Staging should reach nine tenths of this
 * speed-up. It cannot reach all of it, because the engine waits for the last chunk, and sometimes
 * passes a chunk to the other thread.
 *
 * The overhead is the time for a chunk of 4 KiB without its memcpy(): two locks, two calls of
 * device functions and a few counters. The expected time is 0.2 to 0.5 us.
 */

#include "transfer.h"

#include <string.h>

struct null_sink {
    ferryi_device *device, *devices[2];
    struct ferryi_device_ops ops;
    struct ferryi_log log;
    ferryi_order order;
    ferryi_engine *engine;
    ferryi_timeline *in;
};

static ferry_status
copy_nothing(ferryi_device *device, const struct ferryi_copy *copy, void *stream)
{
    (void)device, (void)copy, (void)stream;
    return FERRY_OK;
}

static void
null_close(struct null_sink *sink)
{
    ferryi_engine_destroy(&sink->engine);
    ferryi_order_clear(&sink->order);
    sink->device->ops->close(sink->device);
}

static bool
null_open(struct null_sink *sink, struct ferryi_engine_config config)
{
    const struct ferryi_device_config device = {0};
    memset(sink, 0, sizeof(*sink));
    if (ferryi_emulated_kind.open(0, &device, &sink->device) != FERRY_OK)
        return bench_failed("opening a device");
    sink->ops = *sink->device->ops;
    sink->ops.copy = copy_nothing;
    sink->device->ops = &sink->ops;
    sink->devices[1] = sink->device;
    config.devices = sink->devices;
    config.count = 1;
    config.order = &sink->order;
    config.log = &sink->log;
    if (ferryi_order_init(&sink->order, &sink->log) == FERRY_OK &&
        ferryi_engine_create(&config, &sink->engine) == FERRY_OK &&
        ferryi_engine_timeline(sink->engine, 1, 0, &sink->in) == FERRY_OK)
        return true;
    return bench_failed("making an engine");
}

static double
time_staging(struct null_sink *sink, const struct arena *arena, size_t bytes)
{
    struct ferryi_memory device = {.place = 1, .pointer = arena->target},
                         host = {.place = 0, .pointer = arena->source};
    double begun = bench_now_ns();
    ferry_status status = ferryi_engine_copy(sink->engine, device, host, bytes, sink->in,
                                             &(struct ferryi_transfer_job){0});
    return status == FERRY_OK ? bench_now_ns() - begun : -1;
}

static double
time_memcpy(const struct arena *arena, size_t bytes)
{
    double begun = bench_now_ns();
    memcpy(arena->target, arena->source, bytes);
    return bench_now_ns() - begun;
}

/* Work of a thread that copies bytes into a ring with memcpy(), without the transfer engine. No
 * other thread uses the ring, which stays in the thread's caches. */
struct loner {
    const char *source;
    size_t bytes;
    char *ring;
};

enum { LONER_CHUNK = 256 * 1024, LONER_CHUNKS = 2 };

static void
stage_alone(void *argument)
{
    const struct loner *loner = argument;
    for (size_t at = 0; at < loner->bytes; at += LONER_CHUNK)
        memcpy(loner->ring + at % (LONER_CHUNKS * LONER_CHUNK), loner->source + at,
               ferryi_min_size(LONER_CHUNK, loner->bytes - at));
}

/* Measures memcpy() into rings without the transfer engine, as an upper bound of the speed of
 * staging. If `count` is 1, one thread copies all bytes. If `count` is 2, two threads copy half of
 * the bytes each. Returns the time in nanoseconds. */
static double
time_loners(const struct arena *arena, size_t count)
{
    struct loner loners[2];
    ferryi_thread other;
    size_t ring = (size_t)LONER_CHUNKS * LONER_CHUNK;
    for (size_t i = 0; i < count; i++)
        loners[i] = (struct loner){arena->source + i * (arena->bytes / count), arena->bytes / count,
                                   arena->target + i * ring};
    double begun = bench_now_ns();
    if (count == 2 && ferryi_thread_start(&other, "loner", stage_alone, &loners[1]) != FERRY_OK)
        return -1;
    stage_alone(&loners[0]);
    if (count == 2)
        ferryi_thread_join(other);
    return bench_now_ns() - begun;
}

enum { ONE, TWO, MEMCPY, LONER, LONERS, CASES };

static bool
time_all(struct null_sink *one, struct null_sink *two, const struct arena *arena, double out[CASES])
{
    out[ONE] = time_staging(one, arena, arena->bytes);
    out[MEMCPY] = time_memcpy(arena, arena->bytes);
    out[TWO] = time_staging(two, arena, arena->bytes);
    out[LONER] = time_loners(arena, 1);
    out[LONERS] = time_loners(arena, 2);
    return out[ONE] >= 0 && out[TWO] >= 0 && out[LONERS] >= 0;
}

bool
bench_null_sink(struct bench_report *report, const struct arena *arena, size_t rounds)
{
    static const struct {
        const char *name, *metric, *peer;
        int ours, theirs;
        struct bench_goal goal;
    } rows[] = {
        {"null-sink/1thread", "staging", "memcpy", ONE, MEMCPY, {BENCH_AT_LEAST, 0.95}},
        {"null-sink/2threads", "staging", "1thread", TWO, ONE, {BENCH_AT_LEAST, 1.8}},
        {"null-sink/2threads", "staging", "own-rings", TWO, LONERS, {BENCH_AT_LEAST, 0.9}},
        {"own-rings/2threads", "memcpy", "1thread", LONERS, LONER, {BENCH_NO_GOAL, 0}},
    };
    struct null_sink one, two;
    double times[CASES][ROUNDS_MOST], all[CASES], total = (double)arena->bytes;
    if (!null_open(&one, (struct ferryi_engine_config){.threads = 1}) ||
        !null_open(&two, (struct ferryi_engine_config){.threads = 2}))
        return false;
    for (size_t round = 0; round < rounds + 2; round++) {
        size_t index = round < 2 ? 0 : round - 2; /* the first two rounds warm up */
        if (!time_all(&one, &two, arena, all))
            return bench_failed("staging into nothing");
        for (int i = 0; i < CASES; i++)
            times[i][index] = all[i];
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const double *ours = times[rows[i].ours], *theirs = times[rows[i].theirs];
        size_t middle = bench_middle_round(ours, theirs, rounds);
        char name[64];
        bench_name_size(name, arena->bytes, rows[i].name);
        bench_report_add(report, &(struct bench_record){.case_name = name,
                                                        .metric = rows[i].metric,
                                                        .unit = "GB/s",
                                                        .value = total / ours[middle],
                                                        .peer = rows[i].peer,
                                                        .peer_value = total / theirs[middle],
                                                        .goal = rows[i].goal});
    }
    null_close(&one);
    null_close(&two);
    return true;
}

bool
bench_chunks(struct bench_report *report, const struct arena *arena, size_t rounds)
{
    enum { CHUNK = 4096 };
    struct null_sink sink;
    double times[ROUNDS_MOST];
    size_t bytes = ferryi_min_size(arena->bytes, 4 * MIB), chunks = bytes / CHUNK;
    if (!null_open(&sink, (struct ferryi_engine_config){
                              .chunk_bytes = CHUNK, .chunk_count = 4, .threads = 1}))
        return false;
    for (size_t round = 0; round <= rounds; round++) {
        size_t index = round == 0 ? 0 : round - 1;
        double staged = time_staging(&sink, arena, bytes), begun = bench_now_ns();
        if (staged < 0)
            return bench_failed("staging into nothing");
        for (size_t i = 0; i < chunks; i++)
            memcpy(arena->target + i % 4 * CHUNK, arena->source + i * CHUNK, CHUNK);
        times[index] = (staged - (bench_now_ns() - begun)) / (double)chunks;
    }
    bench_report_add(report, &(struct bench_record){.case_name = "4KiB-chunks",
                                                    .metric = "book-keeping",
                                                    .unit = "ns/chunk",
                                                    .value = bench_median(times, rounds),
                                                    .goal = {BENCH_AT_MOST, 1000}});
    null_close(&sink);
    return true;
}
