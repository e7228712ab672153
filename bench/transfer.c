/* SPDX-License-Identifier: MIT */

/*
 * Compares transfers between host and device with the fastest copy of the machine, which is called
 * the peer.
 *
 * Sizes: no copied memory is in a cache, just as in typical programs. Therefore copies of one size
 * use successive parts of an arena, both for Ferry and for the peer. The time ends when the last
 * byte is copied.
 *
 * On an emulated device the peer is memcpy() of the same bytes between the same memories. It runs
 * in the same round and in the same threads as Ferry's copy. For pinned memory this is the device's
 * thread. For pageable memory the peer's time is the mean of the times in the device's thread and
 * in the calling thread. The threads must be the same, because the processors of a virtual machine
 * differ: other machines can slow one processor by a fifth for seconds.
 *
 * A staged copy copies every byte twice, in two threads. How fast that is compared with one
 * memcpy() depends on the processor: on how fast it copies what another core has just written. So
 * the goal of pageable memory is 0.95 of a second peer: two bare threads that make the same two
 * copies through a ring of the same chunks (ring_by_hand.h). The difference is what Ferry does
 * besides copying: it takes and returns chunks, queues commands, and wakes threads.
 *
 * On a GPU the peer is the driver's copy of pinned memory, and for pageable memory also the
 * driver's copy of the same pageable memory, which must never be faster. For pinned memory, a host
 * function blocks the stream until all copies are submitted, as in nvbandwidth. Direct copies
 * should reach 0.99 of this peer. Staged copies are limited by the speed at which one core and its
 * helpers stage, and by the memory bandwidth.
 *
 * CPU cost: the processor time that the calling thread needs for a copy of 4 KiB. The peer is a
 * direct call of the device's copy function.
 *
 * Dirty segments: after the host writes 4 KiB of a large buffer, at most 64 KiB may cross to the
 * device. The time to copy n dirty segments may grow like n log n, relative to 1000 segments in the
 * same round.
 */

#include "transfer.h"

#include "ring_by_hand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ferry/byte.h>

#include "src/stream/shell.h"
#include "tests/support/copy_slots.h"

static ferryi_device *
device_of(ferry_context *context)
{
    return context->devices[1];
}

/* Returns the processor time that the calling thread has used. Work of other threads is not
 * counted. */
static double
thread_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* -- the memory of the copies ------------------------------------------------------------------ */

static void
arena_free(ferry_context *context, struct arena *arena)
{
    free(arena->source);
    free(arena->target);
    if (arena->pinned)
        (void)FERRYI_CALL(device_of(context), memory_free, FERRY_MEMORY_PINNED, arena->pinned);
    if (arena->device)
        (void)FERRYI_CALL(device_of(context), memory_free, FERRY_MEMORY_DEVICE, arena->device);
}

static bool
arena_create(ferry_context *context, size_t bytes, struct arena *arena)
{
    void *pinned = NULL, *device = NULL;
    *arena = (struct arena){.bytes = bytes, .source = malloc(bytes), .target = malloc(bytes)};
    if (!arena->source || !arena->target ||
        FERRYI_CALL(device_of(context), memory_alloc, FERRY_MEMORY_PINNED, bytes, &pinned) !=
            FERRY_OK ||
        FERRYI_CALL(device_of(context), memory_alloc, FERRY_MEMORY_DEVICE, bytes, &device) !=
            FERRY_OK) {
        fprintf(stderr, "bench: no memory for 4 arrays of %zu bytes\n", bytes);
        return false;
    }
    arena->pinned = pinned;
    arena->device = device;
    for (size_t i = 0; i < bytes; i++)
        arena->source[i] = (char)(i % 251);
    memcpy(arena->pinned, arena->source, bytes);
    memset(arena->target, 0, bytes);
    return true;
}

/* -- copies by size ---------------------------------------------------------------------------- */

enum way { PAGEABLE_UP, PAGEABLE_DOWN, PINNED_UP, PINNED_DOWN, WAYS };

struct copies {
    ferry_context *context;
    struct arena *arena;
    struct bench_ring ring; /* of the peer on an emulated device */
    size_t bytes, count;    /* `bytes`: size of one copy; `count`: number of copies */
    ferryi_timeline *in, *out;
    void *stream; /* stream for copies that call the device directly, without the engine */
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

/* Returns the host memory that this kind of copy uses: pinned or pageable. */
static char *
host_memory(const struct arena *a, enum way way)
{
    return is_pinned(way) ? a->pinned : is_up(way) ? a->source : a->target;
}

static bool
copy_by_engine(const struct copies *c, enum way way)
{
    char *there = host_memory(c->arena, way);
    for (size_t i = 0; i < c->count; i++) {
        size_t at = i * c->bytes;
        struct ferryi_memory device = {.place = 1, .pointer = c->arena->device + at};
        struct ferryi_memory host = {.place = 0, .pointer = there + at, .pinned = is_pinned(way)};
        ferry_status status = is_up(way)
                                  ? ferryi_engine_copy(c->context->engine, device, host, c->bytes,
                                                       c->in, &(struct ferryi_transfer_job){0})
                                  : ferryi_engine_copy(c->context->engine, host, device, c->bytes,
                                                       c->out, &(struct ferryi_transfer_job){0});
        if (status != FERRY_OK)
            return bench_failed("copying");
    }
    ferryi_timeline *timeline = is_up(way) ? c->in : c->out;
    return FERRYI_CALL(timeline->device, stream_synchronize, timeline->native) == FERRY_OK ||
           bench_failed("waiting");
}

struct plain {
    const struct copies *copies;
    enum way way;
    double ns;
};

static void
copy_by_memcpy(void *user)
{
    struct plain *plain = user;
    const struct copies *c = plain->copies;
    char *host = host_memory(c->arena, plain->way), *device = c->arena->device;
    double begun = bench_now_ns();
    for (size_t i = 0; i < c->count; i++) {
        size_t at = i * c->bytes;
        if (is_up(plain->way))
            memcpy(device + at, host + at, c->bytes);
        else
            memcpy(host + at, device + at, c->bytes);
    }
    plain->ns = bench_now_ns() - begun;
}

/* Returns the time of memcpy() in the threads that a copy of the engine uses. For pinned memory
 * this is the emulated device's thread. For pageable memory the result is the mean of the times in
 * that thread and in the calling thread. */
static double
time_memcpy(const struct copies *c, enum way way)
{
    ferryi_timeline *timeline = is_up(way) ? c->in : c->out;
    struct plain device = {.copies = c, .way = way}, caller = device;
    if (FERRYI_CALL(timeline->device, host_call, timeline->native, copy_by_memcpy, &device) !=
            FERRY_OK ||
        FERRYI_CALL(timeline->device, stream_synchronize, timeline->native) != FERRY_OK)
        return -1;
    if (is_pinned(way))
        return device.ns;
    copy_by_memcpy(&caller);
    return (device.ns + caller.ns) / 2;
}

/* Times the driver's copies of host memory, which is pinned or pageable, from the first submission
 * to the end of the last copy, as time_engine() does. */
static double
time_driver(const struct copies *c, bool up, char *memory)
{
    ferryi_device *device = device_of(c->context);
    bool ok = true;
    double begun = bench_now_ns();
    for (size_t i = 0; i < c->count && ok; i++) {
        char *there = c->arena->device + i * c->bytes, *here = memory + i * c->bytes;
        ok =
            (up ? FERRYI_CALL(device, copy_upload, there, here, c->bytes, c->stream)
                : FERRYI_CALL(device, copy_download, here, there, c->bytes, c->stream)) == FERRY_OK;
    }
    ok = FERRYI_CALL(device, stream_synchronize, c->stream) == FERRY_OK && ok;
    return ok ? bench_now_ns() - begun : -1;
}

void
bench_name_size(char text[64], size_t bytes, const char *rest)
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
        return bytes >= MIB && is_pinned(way) ? (struct bench_goal){BENCH_AT_LEAST, 0.95} : none;
    if (is_pinned(way))
        return bytes >= 16 * MIB ? (struct bench_goal){BENCH_AT_LEAST, 0.99} : none;
    return bytes >= 64 * MIB ? (struct bench_goal){BENCH_AT_LEAST, 0.80} : none;
}

/* Copies pageable memory as time_engine() does: by the driver alone, or, on an emulated device, by
 * two bare threads. */
static double
time_plain(const struct copies *c, enum way way, bool emulated)
{
    const bool up = is_up(way);
    char *host = host_memory(c->arena, way);
    if (!emulated)
        return time_driver(c, up, host);
    return bench_ring_time(&c->ring, c->context->engine, up ? c->in : c->out, host,
                           c->arena->device, c->bytes, c->count, up);
}

/* Returns the second peer of pageable memory, with its goal. */
static struct bench_record
plain_peer(size_t bytes, bool emulated)
{
    if (!emulated)
        return (struct bench_record){.peer = "driver, pageable", .goal = {BENCH_AT_LEAST, 1}};
    return (struct bench_record){.peer = "two threads",
                                 .goal = {bytes >= MIB ? BENCH_AT_LEAST : BENCH_NO_GOAL, 0.95}};
}

static double
time_engine(const struct copies *c, enum way way)
{
    double begun = bench_now_ns();
    return copy_by_engine(c, way) ? bench_now_ns() - begun : -1;
}

/* Reports the throughput of the round with the median ratio. The caller has set the peer's name and
 * the goal. */
static void
report_copies(struct bench_report *report, const struct copies *c, enum way way, const double *ours,
              const double *peers, size_t rounds, struct bench_record record)
{
    const double total = (double)c->bytes * (double)c->count;
    const size_t middle = bench_middle_round(ours, peers, rounds);
    char name[64];
    bench_name_size(name, c->bytes, is_pinned(way) ? "pinned" : "pageable");
    record.case_name = name;
    record.metric = is_up(way) ? "upload" : "download";
    record.unit = "GB/s";
    record.value = total / ours[middle];
    record.peer_value = total / peers[middle];
    bench_report_add(report, &record);
}

static bool
measure_size(struct bench_report *report, struct copies *c, size_t rounds, bool emulated)
{
    static double ours[WAYS][ROUNDS_MOST], peers[WAYS][ROUNDS_MOST], plain[WAYS][ROUNDS_MOST];
    for (size_t round = 0; round <= rounds; round++) {
        /* Round 0 only warms up: round 1 overwrites the result of round 0. */
        size_t index = round == 0 ? 0 : round - 1;
        for (enum way way = 0; way < WAYS; way++) {
            /* Ferry and the driver's copy (or memcpy()) take turns to run first, so that caches do
             * not always favour one of them. */
            if (round % 2 == 0)
                ours[way][index] = time_engine(c, way);
            peers[way][index] =
                emulated ? time_memcpy(c, way) : time_driver(c, is_up(way), c->arena->pinned);
            plain[way][index] = is_pinned(way) ? 0 : time_plain(c, way, emulated);
            if (round % 2 == 1)
                ours[way][index] = time_engine(c, way);
            if (ours[way][index] < 0)
                return false;
            if (peers[way][index] < 0 || plain[way][index] < 0)
                return bench_failed("copying without the engine");
        }
    }
    if (memcmp(c->arena->source, c->arena->target, c->bytes * c->count) != 0) {
        fputs("bench: what came back differs from what was sent\n", stderr);
        return false;
    }
    for (enum way way = 0; way < WAYS; way++) {
        report_copies(report, c, way, ours[way], peers[way], rounds,
                      (struct bench_record){.peer = emulated ? "memcpy" : "driver",
                                            .goal = goal_of(way, c->bytes, emulated)});
        if (!is_pinned(way))
            report_copies(report, c, way, ours[way], plain[way], rounds,
                          plain_peer(c->bytes, emulated));
    }
    return true;
}

static bool
measure_sizes(struct bench_report *report, ferry_context *context, struct arena *arena, bool quick)
{
    bool emulated = strcmp(device_of(context)->kind, "emulated") == 0;
    struct copies c = {.context = context, .arena = arena};
    ferryi_device *device = device_of(context);
    if (ferryi_engine_timeline(context->engine, 1, 0, &c.in) != FERRY_OK ||
        ferryi_engine_timeline(context->engine, 0, 1, &c.out) != FERRY_OK ||
        FERRYI_CALL(device, stream_create, &c.stream) != FERRY_OK)
        return bench_failed("making streams");
    if (emulated && !bench_ring_create(context->engine, &c.ring))
        return bench_failed("making the ring of the peer");
    bool ok = true;
    for (size_t bytes = 4 * KIB; bytes <= arena->bytes && ok; bytes *= bytes < MIB ? 16 : 4) {
        bytes = bytes == 64 * 16 * KIB ? MIB : bytes;
        c.bytes = bytes;
        /* All copies together have at least 64 MiB, so that no cache contains all of their memory.
         */
        c.count = ferryi_max_size(ferryi_min_size(64 * MIB, arena->bytes) / bytes, 1);
        ok = measure_size(report, &c, quick ? 1 : bytes >= 256 * MIB ? 5 : ROUNDS_MOST, emulated);
    }
    (void)FERRYI_CALL(device, stream_destroy, c.stream);
    bench_ring_free(&c.ring);
    return ok;
}

/* -- processor time of a copy of 4 KiB --------------------------------------------------------- */

static bool
measure_small(struct bench_report *report, ferry_context *context, const struct arena *arena,
              size_t rounds)
{
    enum { COPIES = 64, TURNS = 50, SMALL = 4096 };
    static const char *const names[] = {"4KiB/pinned", "4KiB/pageable"};
    ferryi_timeline *timeline;
    double bare[TURNS * ROUNDS_MOST], ours[2][TURNS * ROUNDS_MOST];
    size_t turns = rounds * TURNS;
    if (ferryi_engine_timeline(context->engine, 1, 0, &timeline) != FERRY_OK)
        return bench_failed("making streams");
    ferryi_device *device = timeline->device;
    bool ok = true;
    for (size_t turn = 0; turn < turns && ok; turn++) {
        double begun = thread_ns();
        for (size_t i = 0; i < COPIES; i++)
            ok = FERRYI_CALL(device, copy_upload, arena->device + i * SMALL,
                             arena->pinned + i * SMALL, SMALL, timeline->native) == FERRY_OK &&
                 ok;
        bare[turn] = thread_ns() - begun;
        ok = FERRYI_CALL(device, stream_synchronize, timeline->native) == FERRY_OK && ok;
        for (size_t kind = 0; kind < 2; kind++) {
            char *host = kind == 0 ? arena->pinned : arena->source;
            begun = thread_ns();
            for (size_t i = 0; i < COPIES; i++) {
                struct ferryi_memory to = {.place = 1, .pointer = arena->device + i * SMALL};
                struct ferryi_memory from = {
                    .place = 0, .pointer = host + i * SMALL, .pinned = kind == 0};
                ok = ferryi_engine_copy(context->engine, to, from, SMALL, timeline,
                                        &(struct ferryi_transfer_job){0}) == FERRY_OK &&
                     ok;
            }
            ours[kind][turn] = thread_ns() - begun;
            ok = FERRYI_CALL(device, stream_synchronize, timeline->native) == FERRY_OK && ok;
        }
    }
    if (!ok)
        return bench_failed("copying 4 KiB");
    double floor = bench_median(bare, turns) / COPIES;
    for (size_t kind = 0; kind < 2; kind++)
        bench_report_add(report, &(struct bench_record){
                                     .case_name = names[kind],
                                     .metric = "cpu-cost",
                                     .unit = "ns",
                                     .peer = "submission",
                                     .value = bench_median(ours[kind], turns) / COPIES,
                                     .peer_value = floor,
                                     .goal = {kind == 0 ? BENCH_AT_MOST : BENCH_NO_GOAL, 1.1}});
    return true;
}

/* -- dirty segments ---------------------------------------------------------------------------- */

static bool
measure_touch(struct bench_report *report, ferry_context *context, size_t bytes)
{
    ferry_byte_buffer buffer = {0};
    ferry_scope scope;
    ferry_transfer_stats before, after;
    uint8_t *host;
    const uint8_t *there;
    ferry_stream *stream = ferry_context_stream(context, 1);
    bool ok = ferry_byte_create(context, bytes, NULL, &buffer) == FERRY_OK &&
              ferry_byte_fill(buffer, 0, bytes, 1, NULL) == FERRY_OK;
    ok = ok && ferry_byte_read_device(buffer, stream, &scope, &there) == FERRY_OK &&
         ferry_scope_close(&scope) == FERRY_OK;
    ok = ok && ferry_context_get_transfer_stats(context, &before) == FERRY_OK;
    ok =
        ok && ferry_byte_update_host_range(buffer, bytes / 2 + 77, 4096, &scope, &host) == FERRY_OK;
    if (ok) {
        memset(host, 2, 4096);
        ok = ferry_scope_close(&scope) == FERRY_OK &&
             ferry_byte_read_device(buffer, stream, &scope, &there) == FERRY_OK &&
             ferry_scope_close(&scope) == FERRY_OK &&
             ferry_context_get_transfer_stats(context, &after) == FERRY_OK;
    }
    ferry_byte_destroy(&buffer);
    if (!ok)
        return bench_failed("touching a buffer");
    char name[64];
    bench_name_size(name, bytes, "touch-4KiB");
    bench_report_add(
        report, &(struct bench_record){.case_name = name,
                                       .metric = "moved",
                                       .unit = "bytes",
                                       .value = (double)(after.upload.bytes - before.upload.bytes),
                                       .goal = {BENCH_AT_MOST, 65536}});
    return true;
}

enum { WRITE, BRING, STEPS };

/* Writes every second extent of 64 bytes of a buffer on the host, then reads the whole buffer on
 * the device. Stores the processor time of each of these two steps in `out`, in nanoseconds. */
static bool
time_segments(ferry_context *context, size_t count, double out[STEPS])
{
    enum { PIECE = 64 };
    ferry_byte_buffer buffer = {0};
    ferry_scope scope;
    const uint8_t *there;
    size_t bytes = 2 * PIECE * count;
    ferry_stream *stream = ferry_context_stream(context, 1);
    bool ok = ferry_byte_create(context, bytes, NULL, &buffer) == FERRY_OK &&
              ferry_byte_fill(buffer, 0, bytes, 1, NULL) == FERRY_OK;
    ok = ok && ferry_byte_read_device(buffer, stream, &scope, &there) == FERRY_OK &&
         ferry_scope_close(&scope) == FERRY_OK;
    double begun = thread_ns();
    for (size_t i = 0; i < count && ok; i++) {
        uint8_t *host;
        /* The loop writes the extents in an irregular order. */
        size_t piece = i * 7919 % count;
        ok = ferry_byte_overwrite_host_range(buffer, 2 * PIECE * piece, PIECE, &scope, &host) ==
             FERRY_OK;
        /* The scope marks its bytes as dirty even if nothing is written. Only the cost of this
         * bookkeeping is measured. */
        ok = ok && ferry_scope_close(&scope) == FERRY_OK;
    }
    double written = thread_ns();
    ok = ok && ferry_byte_read_device(buffer, stream, &scope, &there) == FERRY_OK &&
         ferry_scope_close(&scope) == FERRY_OK;
    out[WRITE] = written - begun;
    out[BRING] = thread_ns() - written;
    ferry_byte_destroy(&buffer);
    return ok || bench_failed("bringing segments over");
}

#define SEGMENTS_NS 20e9
enum { TENS = 6, THOUSAND = 3, TURNS_MOST = 100, SEGMENTS = 10000 };

/* Measures the processor time per dirty segment for a buffer with `count` such segments. Stores the
 * medians of several runs in `out`. Together the runs process about SEGMENTS segments. */
static bool
time_each(ferry_context *context, size_t count, double out[STEPS])
{
    double times[STEPS][TURNS_MOST], both[STEPS];
    size_t turns = ferryi_min_size(ferryi_max_size(SEGMENTS / count, 1), TURNS_MOST);
    for (size_t turn = 0; turn < turns; turn++) {
        if (!time_segments(context, count, both))
            return false;
        for (int step = 0; step < STEPS; step++)
            times[step][turn] = both[step] / (double)count;
    }
    for (int step = 0; step < STEPS; step++)
        out[step] = bench_median(times[step], turns);
    return true;
}

/* Reports the time per segment for 10^`ten` segments. For more than 1000 segments there is a goal:
 * the total time may grow like n log n, relative to 1000 segments. From 1000 segments up, fixed
 * costs do not matter. */
static void
add_segments(struct bench_report *report, const char *step, int ten, const double *each,
             const double *each_of_thousand, size_t rounds)
{
    char name[64];
    double allowed[ROUNDS_MOST];
    for (size_t round = 0; round < rounds; round++)
        allowed[round] = ten > THOUSAND ? each_of_thousand[round] * ten / THOUSAND : 1;
    size_t middle = bench_middle_round(each, allowed, rounds);
    snprintf(name, sizeof(name), "%.0f-segments", pow(10, ten));
    struct bench_record record = {
        .case_name = name, .metric = step, .unit = "ns/segment", .value = each[middle]};
    if (ten > THOUSAND) {
        record.peer = "n-log-n";
        record.peer_value = allowed[middle];
        record.goal = (struct bench_goal){BENCH_AT_MOST, 1.1};
    }
    bench_report_add(report, &record);
}

static bool
measure_segments(struct bench_report *report, ferry_context *context, bool quick)
{
    static const char *const names[STEPS] = {"write", "bring"};
    double times[STEPS][TENS][ROUNDS_MOST], each[STEPS];
    int tens = quick ? 3 : TENS;
    size_t rounds = 0, rounds_most = quick ? 1 : ROUNDS_MOST;
    const double until = bench_now_ns() + SEGMENTS_NS;
    /* Ends the rounds after a time limit, because on some devices each segment is a driver call. */
    for (size_t round = 0; round < rounds_most && (round == 0 || bench_now_ns() < until);
         round++, rounds++) {
        size_t count = 1;
        for (int ten = 0; ten < tens; ten++, count *= 10) {
            if (!time_each(context, count, each))
                return false;
            for (int step = 0; step < STEPS; step++)
                times[step][ten][round] = each[step];
        }
    }
    for (int ten = 0; ten < tens; ten++)
        for (int step = 0; step < STEPS; step++)
            add_segments(report, names[step], ten, times[step][ten], times[step][THOUSAND], rounds);
    return true;
}

/* -- the program ------------------------------------------------------------------------------- */

/* Returns a size for the arrays. It is at most 1 GiB, and five arrays of this size fit into half of
 * the machine's memory. */
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
    bool ok = arena_create(context, bytes, &arena) &&
              bench_report_open(&report, "transfer", &options, context);
    if (ok) {
        ok = measure_sizes(&report, context, &arena, options.quick) &&
             bench_null_sink(&report, &arena, rounds) && bench_chunks(&report, &arena, rounds) &&
             measure_small(&report, context, &arena, rounds) &&
             measure_touch(&report, context, bytes) &&
             measure_segments(&report, context, options.quick);
        ok = bench_report_close(&report) && ok;
    }
    arena_free(context, &arena);
    ferry_context_destroy(&context);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
