/* SPDX-License-Identifier: MIT */

/*
 * Transfers between host and device: how near they come to what the machine can do.
 *
 * Sizes: each copy is of memory that no cache holds, since that is what crosses in life: copies of one size walk over an arena, and
 * so do those of the peer; the time ends when the last byte is there. On the emulated device, whose copy engine is a thread
 * with a loop of its own, the peer is memcpy() of the same bytes in the same round. Floor and prediction for two cores: staging reads and writes every
 * byte twice on two cores at once, each of which may move about as much as memcpy() on one does; so the pipeline tends to 1.0 of memcpy() from below
 * where a chunk's bytes reach the other core through memory, and may pass it where they stay in a cache; 0.95 from 1 MiB up is reachable with the ring
 * that is measured to be best, and up to 1.05 with stores past the caches. A copy of 1 MiB takes two or three wake-ups of 10 to 50 us beside 60 to
 * 120 us of copying, and the first of its four chunks is only filled, the last only drained: it tends to 0.8 unless waits look before they
 * sleep, and the loop beats memcpy(). On a GPU the peer is the driver's own copy of pinned memory, with the work queued behind a
 * host function that holds the stream until all is submitted, as nvbandwidth does; direct copies should reach 0.99 of it, staged ones as much of it as
 * one core and its helpers can stage, at most what memory bears.
 *
 * Null sink: the engine over a device whose copies cost nothing, so that staging is all there is: one thread against memcpy() of the
 * same bytes to another array (prediction 1.0 to 1.35, since a small ring stays in the cache), and two threads against one (1.8 to 2.0; where one thread alone reads memory as
 * fast as a core can, as with 30 GB/s of 33, two come to what both read together, 1.3 to 1.9, less what chunks cost that change hands). What both
 * read together is measured beside it: two threads that copy half of the bytes each into a ring of their own with memcpy() and know nothing of each other, against one.
 *
 * Book-keeping: what a chunk of 4 KiB costs beside its memcpy(): two locks, two calls of the table, a few counters: 0.2 to 0.5 us expected.
 *
 * CPU cost: processor time of the calling thread for a copy of 4 KiB, against nothing but the table's function.
 *
 * Touching 4 KiB of a large buffer on the host must move at most 64 KiB to the device. Bringing n dirty segments over may cost n log n.
 */

#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ferry/byte.h>

#include "src/context.h"
#include "src/transfer/engine.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { ROUNDS_MOST = 9 };

struct arena {
    size_t bytes;
    char *source, *target, *middle; /* middle stands for the device in the peer's copies */
    char *pinned;
    char *device; /* memory of the device */
};

static ferryi_device *
device_of(ferry_context *context)
{
    return context->devices[1];
}

/* Of the calling thread alone, so that others on the machine do not count. */
static double
thread_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* -- where bytes are -------------------------------------------------------------------------------- */

static void
arena_free(ferry_context *context, struct arena *arena)
{
    free(arena->source);
    free(arena->target);
    free(arena->middle);
    if (arena->pinned)
        (void)FERRYI_CALL(device_of(context), memory_free, FERRY_MEMORY_PINNED, arena->pinned);
    if (arena->device)
        (void)FERRYI_CALL(device_of(context), memory_free, FERRY_MEMORY_DEVICE, arena->device);
}

static bool
arena_create(ferry_context *context, size_t bytes, struct arena *arena)
{
    void *pinned = NULL, *device = NULL;
    *arena = (struct arena){.bytes = bytes, .source = malloc(bytes), .target = malloc(bytes), .middle = malloc(bytes)};
    if (!arena->source || !arena->target || !arena->middle ||
        FERRYI_CALL(device_of(context), memory_alloc, FERRY_MEMORY_PINNED, bytes, &pinned) != FERRY_OK ||
        FERRYI_CALL(device_of(context), memory_alloc, FERRY_MEMORY_DEVICE, bytes, &device) != FERRY_OK) {
        fprintf(stderr, "bench: no memory for 5 arrays of %zu bytes\n", bytes);
        return false;
    }
    arena->pinned = pinned;
    arena->device = device;
    for (size_t i = 0; i < bytes; i++)
        arena->source[i] = (char)(i % 251);
    memcpy(arena->pinned, arena->source, bytes);
    memset(arena->target, 0, bytes);
    memset(arena->middle, 0, bytes);
    return true;
}

/* -- copies by size --------------------------------------------------------------------------------- */

enum way { PAGEABLE_UP, PAGEABLE_DOWN, PINNED_UP, PINNED_DOWN, WAYS };

struct copies {
    ferry_context *context;
    struct arena *arena;
    size_t bytes, count; /* of one copy; how many */
    ferryi_lane *in, *out;
    void *stream; /* for the driver's own copies */
};

static bool
is_up(enum way way)
{
    return way == PAGEABLE_UP || way == PINNED_UP;
}

static bool
is_pinned(enum way way)
{
    return way == PINNED_UP || way == PINNED_DOWN;
}

static bool
copy_by_engine(const struct copies *c, enum way way)
{
    struct arena *a = c->arena;
    for (size_t i = 0; i < c->count; i++) {
        size_t at = i * c->bytes;
        struct ferryi_memory device = {.place = 1, .pointer = a->device + at};
        struct ferryi_memory host = {.place = 0, .pinned = is_pinned(way)};
        host.pointer = is_pinned(way) ? a->pinned + at : is_up(way) ? a->source + at : a->target + at;
        ferry_status status = is_up(way) ? ferryi_engine_copy(c->context->engine, device, host, c->bytes, c->in, NULL)
                                         : ferryi_engine_copy(c->context->engine, host, device, c->bytes, c->out, NULL);
        if (status != FERRY_OK)
            return bench_failed("copying");
    }
    ferryi_lane *lane = is_up(way) ? c->in : c->out;
    return FERRYI_CALL(lane->device, stream_synchronize, lane->native) == FERRY_OK || bench_failed("waiting");
}

static void
copy_by_memcpy(const struct copies *c, enum way way)
{
    struct arena *a = c->arena;
    for (size_t i = 0; i < c->count; i++) {
        size_t at = i * c->bytes;
        if (is_up(way))
            memcpy(a->middle + at, a->source + at, c->bytes);
        else
            memcpy(a->target + at, a->middle + at, c->bytes);
    }
}

static void
hold(void *user)
{
    while (atomic_load((atomic_bool *)user))
        ;
}

/* How many copies a driver surely queues without waiting for room. */
enum { HELD_MOST = 64 };

/* The raw copies of pinned memory, queued while the stream is held if they are few; from its release to the end. */
static double
time_driver(const struct copies *c, enum way way)
{
    ferryi_device *device = device_of(c->context);
    atomic_bool held = c->count <= HELD_MOST;
    bool ok = FERRYI_CALL(device, host_call, c->stream, hold, &held) == FERRY_OK;
    double begun = bench_now_ns();
    for (size_t i = 0; i < c->count && ok; i++) {
        size_t at = i * c->bytes;
        ok = (is_up(way) ? FERRYI_CALL(device, copy_upload, c->arena->device + at, c->arena->pinned + at, c->bytes, c->stream)
                         : FERRYI_CALL(device, copy_download, c->arena->pinned + at, c->arena->device + at, c->bytes, c->stream)) == FERRY_OK;
    }
    if (atomic_exchange(&held, false))
        begun = bench_now_ns();
    ok = FERRYI_CALL(device, stream_synchronize, c->stream) == FERRY_OK && ok;
    return ok ? bench_now_ns() - begun : -1;
}

static void
name_size(char text[64], size_t bytes, const char *rest)
{
    if (bytes >= MIB)
        snprintf(text, 64, "%zuMiB/%s", bytes / MIB, rest);
    else
        snprintf(text, 64, "%zuKiB/%s", bytes / KIB, rest);
}

static struct bench_goal
goal_of(enum way way, size_t bytes, bool emulated)
{
    static const struct bench_goal none = {BENCH_NO_GOAL, 0};
    if (emulated)
        return bytes >= MIB ? (struct bench_goal){BENCH_AT_LEAST, 0.95} : none;
    if (is_pinned(way))
        return bytes >= 16 * MIB ? (struct bench_goal){BENCH_AT_LEAST, 0.99} : none;
    return bytes >= 64 * MIB ? (struct bench_goal){BENCH_AT_LEAST, 0.80} : none;
}

static bool
measure_size(struct bench_report *report, struct copies *c, size_t rounds, bool emulated)
{
    static double ours[WAYS][ROUNDS_MOST], peers[WAYS][ROUNDS_MOST];
    for (size_t round = 0; round <= rounds; round++) {
        size_t index = round == 0 ? 0 : round - 1; /* round 0 warms up and is written over */
        for (enum way way = 0; way < WAYS; way++) {
            double begun = bench_now_ns();
            if (!copy_by_engine(c, way))
                return false;
            ours[way][index] = bench_now_ns() - begun;
            begun = bench_now_ns();
            if (emulated)
                copy_by_memcpy(c, way);
            peers[way][index] = emulated ? bench_now_ns() - begun : time_driver(c, way);
            if (peers[way][index] < 0)
                return bench_failed("copying by the driver");
        }
    }
    if (memcmp(c->arena->source, c->arena->target, c->bytes * c->count) != 0) {
        fputs("bench: what came back differs from what was sent\n", stderr);
        return false;
    }
    double total = (double)c->bytes * (double)c->count;
    for (enum way way = 0; way < WAYS; way++) {
        char name[64];
        name_size(name, c->bytes, is_pinned(way) ? "pinned" : "pageable");
        bench_report_add(report, &(struct bench_record){
            .case_name = name, .metric = is_up(way) ? "upload" : "download", .unit = "GB/s",
            .value = total / bench_median(ours[way], rounds), .peer = emulated ? "memcpy" : "driver",
            .peer_value = total / bench_median(peers[way], rounds), .goal = goal_of(way, c->bytes, emulated)});
    }
    return true;
}

static bool
measure_sizes(struct bench_report *report, ferry_context *context, struct arena *arena, bool quick)
{
    bool emulated = strcmp(device_of(context)->kind, "emulated") == 0;
    struct copies c = {.context = context, .arena = arena};
    ferryi_device *device = device_of(context);
    if (ferryi_engine_lane(context->engine, 1, 0, &c.in) != FERRY_OK || ferryi_engine_lane(context->engine, 0, 1, &c.out) != FERRY_OK ||
        FERRYI_CALL(device, stream_create, &c.stream) != FERRY_OK)
        return bench_failed("making streams");
    bool ok = true;
    for (size_t bytes = 4 * KIB; bytes <= arena->bytes && ok; bytes *= bytes < MIB ? 16 : 4) {
        bytes = bytes == 64 * 16 * KIB ? MIB : bytes;
        c.bytes = bytes;
        /* At least 64 MiB together, so that no cache holds them. */
        c.count = ferryi_max_size(ferryi_min_size(64 * MIB, arena->bytes) / bytes, 1);
        ok = measure_size(report, &c, quick ? 1 : bytes >= 256 * MIB ? 5 : ROUNDS_MOST, emulated);
    }
    (void)FERRYI_CALL(device, stream_destroy, c.stream);
    return ok;
}

/* -- an engine over a device whose copies cost nothing ---------------------------------------------- */

struct null_sink {
    ferryi_device *device, *devices[2];
    struct ferryi_device_ops ops;
    struct ferryi_log log;
    ferryi_order order;
    ferryi_engine *engine;
    ferryi_lane *in;
};

static ferry_status
copy_nothing(ferryi_device *device, void *target, const void *source, size_t bytes, void *stream)
{
    (void)device, (void)target, (void)source, (void)bytes, (void)stream;
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
    sink->ops.copy_upload = copy_nothing;
    sink->device->ops = &sink->ops;
    sink->devices[1] = sink->device;
    config.devices = sink->devices;
    config.count = 1;
    config.order = &sink->order;
    config.log = &sink->log;
    if (ferryi_order_init(&sink->order, &sink->log) == FERRY_OK && ferryi_engine_create(&config, &sink->engine) == FERRY_OK &&
        ferryi_engine_lane(sink->engine, 1, 0, &sink->in) == FERRY_OK)
        return true;
    return bench_failed("making an engine");
}

static double
time_staging(struct null_sink *sink, const struct arena *arena, size_t bytes)
{
    struct ferryi_memory device = {.place = 1, .pointer = arena->middle}, host = {.place = 0, .pointer = arena->source};
    double begun = bench_now_ns();
    ferry_status status = ferryi_engine_copy(sink->engine, device, host, bytes, sink->in, NULL);
    return status == FERRY_OK ? bench_now_ns() - begun : -1;
}

static double
time_memcpy(const struct arena *arena, size_t bytes)
{
    double begun = bench_now_ns();
    memcpy(arena->middle, arena->source, bytes);
    return bench_now_ns() - begun;
}

/* A thread with a ring of its own, in the caches. */
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
        memcpy(loner->ring + at % (LONER_CHUNKS * LONER_CHUNK), loner->source + at, ferryi_min_size(LONER_CHUNK, loner->bytes - at));
}

/* Halves by two, or all by one; the rings lie in the arena. */
static double
time_loners(const struct arena *arena, size_t count)
{
    struct loner loners[2];
    ferryi_thread other;
    size_t ring = (size_t)LONER_CHUNKS * LONER_CHUNK;
    for (size_t i = 0; i < count; i++)
        loners[i] = (struct loner){arena->source + i * (arena->bytes / count), arena->bytes / count, arena->middle + i * ring};
    double begun = bench_now_ns();
    if (count == 2 && ferryi_thread_start(&other, "loner", stage_alone, &loners[1]) != FERRY_OK)
        return -1;
    stage_alone(&loners[0]);
    if (count == 2)
        ferryi_thread_join(other);
    return bench_now_ns() - begun;
}

static bool
measure_loners(struct bench_report *report, const struct arena *arena, size_t rounds)
{
    double one[ROUNDS_MOST], two[ROUNDS_MOST], total = (double)arena->bytes;
    for (size_t round = 0; round <= rounds; round++) {
        size_t index = round == 0 ? 0 : round - 1;
        one[index] = time_loners(arena, 1);
        two[index] = time_loners(arena, 2);
        if (two[index] < 0)
            return bench_failed("starting a thread");
    }
    char name[64];
    name_size(name, arena->bytes, "own-rings/2threads");
    bench_report_add(report, &(struct bench_record){.case_name = name, .metric = "memcpy", .unit = "GB/s", .value = total / bench_median(two, rounds),
                                                    .peer = "1thread", .peer_value = total / bench_median(one, rounds)});
    return true;
}

static bool
measure_null(struct bench_report *report, const struct arena *arena, size_t rounds)
{
    struct null_sink one, two;
    double plain[ROUNDS_MOST], single[ROUNDS_MOST], both[ROUNDS_MOST];
    if (!null_open(&one, (struct ferryi_engine_config){.threads = 1}) || !null_open(&two, (struct ferryi_engine_config){.threads = 2}))
        return false;
    for (size_t round = 0; round < rounds + 2; round++) {
        size_t index = round < 2 ? 0 : round - 2; /* the first two measure the loops and warm up */
        single[index] = time_staging(&one, arena, arena->bytes);
        plain[index] = time_memcpy(arena, arena->bytes);
        both[index] = time_staging(&two, arena, arena->bytes);
        if (single[index] < 0 || both[index] < 0)
            return bench_failed("staging into nothing");
    }
    double total = (double)arena->bytes, alone = total / bench_median(single, rounds);
    char name[64];
    name_size(name, arena->bytes, "null-sink/1thread");
    bench_report_add(report, &(struct bench_record){.case_name = name, .metric = "staging", .unit = "GB/s", .value = alone, .peer = "memcpy",
                                                    .peer_value = total / bench_median(plain, rounds), .goal = {BENCH_AT_LEAST, 0.95}});
    name_size(name, arena->bytes, "null-sink/2threads");
    bench_report_add(report, &(struct bench_record){.case_name = name, .metric = "staging", .unit = "GB/s",
                                                    .value = total / bench_median(both, rounds), .peer = "1thread", .peer_value = alone,
                                                    .goal = {BENCH_AT_LEAST, 1.8}});
    null_close(&one);
    null_close(&two);
    return true;
}

static bool
measure_chunks(struct bench_report *report, const struct arena *arena, size_t rounds)
{
    enum { CHUNK = 4096 };
    struct null_sink sink;
    double times[ROUNDS_MOST];
    size_t bytes = ferryi_min_size(arena->bytes, 4 * MIB), chunks = bytes / CHUNK;
    if (!null_open(&sink, (struct ferryi_engine_config){.chunk_bytes = CHUNK, .chunk_count = 4, .threads = 1}))
        return false;
    for (size_t round = 0; round <= rounds; round++) {
        size_t index = round == 0 ? 0 : round - 1;
        double staged = time_staging(&sink, arena, bytes), begun = bench_now_ns();
        if (staged < 0)
            return bench_failed("staging into nothing");
        for (size_t i = 0; i < chunks; i++)
            memcpy(arena->middle + i % 4 * CHUNK, arena->source + i * CHUNK, CHUNK);
        times[index] = (staged - (bench_now_ns() - begun)) / (double)chunks;
    }
    bench_report_add(report, &(struct bench_record){.case_name = "4KiB-chunks", .metric = "book-keeping", .unit = "ns/chunk",
                                                    .value = bench_median(times, rounds), .goal = {BENCH_AT_MOST, 1000}});
    null_close(&sink);
    return true;
}

/* -- what 4 KiB cost the processor ------------------------------------------------------------------ */

static bool
measure_small(struct bench_report *report, ferry_context *context, const struct arena *arena, size_t rounds)
{
    enum { COPIES = 64, TURNS = 50, SMALL = 4096 };
    static const char *const names[] = {"4KiB/pinned", "4KiB/pageable"};
    ferryi_lane *lane;
    double bare[TURNS * ROUNDS_MOST], ours[2][TURNS * ROUNDS_MOST];
    size_t turns = rounds * TURNS;
    if (ferryi_engine_lane(context->engine, 1, 0, &lane) != FERRY_OK)
        return bench_failed("making streams");
    ferryi_device *device = lane->device;
    bool ok = true;
    for (size_t turn = 0; turn < turns && ok; turn++) {
        double begun = thread_ns();
        for (size_t i = 0; i < COPIES; i++)
            ok = FERRYI_CALL(device, copy_upload, arena->device + i * SMALL, arena->pinned + i * SMALL, SMALL, lane->native) == FERRY_OK && ok;
        bare[turn] = thread_ns() - begun;
        ok = FERRYI_CALL(device, stream_synchronize, lane->native) == FERRY_OK && ok;
        for (size_t kind = 0; kind < 2; kind++) {
            char *host = kind == 0 ? arena->pinned : arena->source;
            begun = thread_ns();
            for (size_t i = 0; i < COPIES; i++) {
                struct ferryi_memory to = {.place = 1, .pointer = arena->device + i * SMALL};
                struct ferryi_memory from = {.place = 0, .pointer = host + i * SMALL, .pinned = kind == 0};
                ok = ferryi_engine_copy(context->engine, to, from, SMALL, lane, NULL) == FERRY_OK && ok;
            }
            ours[kind][turn] = thread_ns() - begun;
            ok = FERRYI_CALL(device, stream_synchronize, lane->native) == FERRY_OK && ok;
        }
    }
    if (!ok)
        return bench_failed("copying 4 KiB");
    double floor = bench_median(bare, turns) / COPIES;
    for (size_t kind = 0; kind < 2; kind++)
        bench_report_add(report, &(struct bench_record){.case_name = names[kind], .metric = "cpu-cost", .unit = "ns", .peer = "submission",
                                                        .value = bench_median(ours[kind], turns) / COPIES, .peer_value = floor,
                                                        .goal = {kind == 0 ? BENCH_AT_MOST : BENCH_NO_GOAL, 1.1}});
    return true;
}

/* -- what need not move ----------------------------------------------------------------------------- */

static bool
measure_touch(struct bench_report *report, ferry_context *context, size_t bytes)
{
    ferry_byte_buffer buffer = {0};
    ferry_scope scope;
    ferry_transfer_stats before, after;
    uint8_t *host;
    const uint8_t *there;
    ferry_stream *stream = ferry_context_stream(context, 1);
    bool ok = ferry_byte_create(context, bytes, NULL, &buffer) == FERRY_OK && ferry_byte_fill(buffer, 0, bytes, 1) == FERRY_OK;
    ok = ok && ferry_byte_read_device(buffer, stream, &scope, &there) == FERRY_OK && ferry_scope_close(&scope) == FERRY_OK;
    ok = ok && ferry_context_transfer_stats(context, &before) == FERRY_OK;
    ok = ok && ferry_byte_update_host_range(buffer, bytes / 2 + 77, 4096, &scope, &host) == FERRY_OK;
    if (ok) {
        memset(host, 2, 4096);
        ok = ferry_scope_close(&scope) == FERRY_OK && ferry_byte_read_device(buffer, stream, &scope, &there) == FERRY_OK &&
             ferry_scope_close(&scope) == FERRY_OK && ferry_context_transfer_stats(context, &after) == FERRY_OK;
    }
    ferry_byte_destroy(&buffer);
    if (!ok)
        return bench_failed("touching a buffer");
    char name[64];
    name_size(name, bytes, "touch-4KiB");
    bench_report_add(report, &(struct bench_record){.case_name = name, .metric = "moved", .unit = "bytes",
                                                    .value = (double)(after.upload.bytes - before.upload.bytes),
                                                    .goal = {BENCH_AT_MOST, 65536}});
    return true;
}

enum { WRITE, BRING, STEPS };

/* Every other piece of 64 bytes written on the host, then all read on the device: processor time of both steps, in ns. */
static bool
time_segments(ferry_context *context, size_t count, double out[STEPS])
{
    enum { PIECE = 64 };
    ferry_byte_buffer buffer = {0};
    ferry_scope scope;
    const uint8_t *there;
    size_t bytes = 2 * PIECE * count;
    ferry_stream *stream = ferry_context_stream(context, 1);
    bool ok = ferry_byte_create(context, bytes, NULL, &buffer) == FERRY_OK && ferry_byte_fill(buffer, 0, bytes, 1) == FERRY_OK;
    ok = ok && ferry_byte_read_device(buffer, stream, &scope, &there) == FERRY_OK && ferry_scope_close(&scope) == FERRY_OK;
    double begun = thread_ns();
    for (size_t i = 0; i < count && ok; i++) {
        uint8_t *host;
        /* In an order that is none. */
        size_t piece = i * 7919 % count;
        ok = ferry_byte_overwrite_host_range(buffer, 2 * PIECE * piece, PIECE, &scope, &host) == FERRY_OK;
        /* The bytes themselves are left alone: what is measured is the map. */
        ok = ok && ferry_scope_close(&scope) == FERRY_OK;
    }
    double written = thread_ns();
    ok = ok && ferry_byte_read_device(buffer, stream, &scope, &there) == FERRY_OK && ferry_scope_close(&scope) == FERRY_OK;
    out[WRITE] = written - begun;
    out[BRING] = thread_ns() - written;
    ferry_byte_destroy(&buffer);
    return ok || bench_failed("bringing segments over");
}

static bool
measure_segments(struct bench_report *report, ferry_context *context, bool quick)
{
    static const char *const steps[STEPS] = {"write", "bring"};
    double base[STEPS] = {0};
    for (size_t count = 1; count <= (quick ? 100 : 100000); count *= 10) {
        double times[STEPS][3];
        for (size_t round = 0; round < 3; round++) {
            double both[STEPS];
            if (!time_segments(context, count, both))
                return false;
            for (int step = 0; step < STEPS; step++)
                times[step][round] = both[step];
        }
        char name[64];
        snprintf(name, sizeof(name), "%zu-segments", count);
        for (int step = 0; step < STEPS; step++) {
            double each = bench_median(times[step], 3) / (double)count;
            struct bench_record record = {.case_name = name, .metric = steps[step], .unit = "ns/segment", .value = each};
            /* Against n log n from a thousand on, where fixed costs have vanished. */
            if (count == 1000)
                base[step] = each / log((double)count);
            if (count > 1000) {
                record.peer = "n-log-n";
                record.peer_value = base[step] * log((double)count);
                record.goal = (struct bench_goal){BENCH_AT_MOST, 1.1};
            }
            bench_report_add(report, &record);
        }
    }
    return true;
}

/* -------------------------------------------------------------------------------------------------- */

/* As large as fits five times into half of the memory, at most 1 GiB. */
static size_t
arena_bytes(bool quick)
{
    size_t bytes = quick ? 4 * MIB : 1024 * MIB;
    while (bytes > ferryi_physical_memory() / 10)
        bytes /= 4;
    return bytes;
}

int
main(int argc, char **argv)
{
    struct bench_options options;
    struct bench_report report;
    struct arena arena = {0};
    if (!bench_parse(argc, argv, &options))
        return EXIT_FAILURE;
    size_t bytes = arena_bytes(options.quick), rounds = options.quick ? 1 : ROUNDS_MOST;
    ferry_context *context = bench_context(2 * bytes + 64 * MIB);
    if (!context)
        return EXIT_FAILURE;
    bool ok = arena_create(context, bytes, &arena) && bench_report_open(&report, "transfer", &options, context);
    if (ok) {
        ok = measure_sizes(&report, context, &arena, options.quick) && measure_null(&report, &arena, rounds > 5 ? 5 : rounds) &&
             measure_loners(&report, &arena, rounds > 5 ? 5 : rounds) &&
             measure_chunks(&report, &arena, rounds) && measure_small(&report, context, &arena, rounds) &&
             measure_touch(&report, context, bytes) && measure_segments(&report, context, options.quick);
        ok = bench_report_close(&report) && ok;
    }
    arena_free(context, &arena);
    ferry_context_destroy(&context);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
