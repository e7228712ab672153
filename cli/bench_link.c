/* SPDX-License-Identifier: MIT */

/*
 * Copies between host and device, by size. Copies of one size walk over an arena, so that large
 * ones find nothing in a cache, as in real programs. Ferry and the calls by hand take turns in each
 * round, and medians are compared, so that a change of clock rate affects both. All copies are
 * synchronous: the time ends when the last byte has arrived.
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/byte.h>

#include "bench/bench.h"
#include "cli/bench_results.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { ROUNDS_MAX = 25, ROUNDS_MIN = 3 };
static const size_t sizes[LINK_SIZES_MAX] = {4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB,
                                             4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB};
/* Bytes that the small copies of one round move together, so that no cache holds them all. */
#define ROUND_BYTES (64 * MIB)
/* The copies of one size take about this long at most. */
#define SIZE_NS 4e9

struct arena {
    size_t bytes;
    unsigned char *pageable, *pinned; /* pinned NULL: memory cannot be page-locked here */
    void *device;                     /* the memory of the calls by hand */
    ferry_byte_buffer buffer;         /* Ferry's, current on the device */
};

static size_t
count_sizes(bool quick)
{
    return quick ? 3 : LINK_SIZES_MAX;
}

int
bench_link_steps(bool quick)
{
    return (int)count_sizes(quick);
}

/* The largest size of which five arenas fit into half of the memory and two into half of the
 * device's. */
static size_t
choose_arena(const struct bench_run *run)
{
    size_t bytes = sizes[count_sizes(run->results->quick) - 1];
    size_t physical = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    ferry_memory_info memory;

    if (ferry_context_get_memory_info(run->context, 1, &memory) != FERRY_OK)
        return 0;
    while (bytes > sizes[0] && (bytes > physical / 10 || bytes > memory.free / 4))
        bytes /= 4;
    return bytes;
}

static void
arena_free(struct bench_run *run, struct arena *arena)
{
    if (arena->pinned && ferry_context_unregister_host(run->context, arena->pinned) != FERRY_OK)
        bench_failed("unregistering memory");
    free(arena->pinned);
    free(arena->pageable);
    by_hand_free(&run->by_hand, arena->device);
    ferry_byte_destroy(&arena->buffer);
}

static bool
arena_create(struct bench_run *run, struct arena *arena)
{
    ferry_scope scope;
    uint8_t *unused;
    size_t bytes = choose_arena(run);
    ferry_stream *stream = ferry_context_stream(run->context, 1);

    *arena = (struct arena){.bytes = bytes};
    if (bytes == 0)
        return bench_failed("asking for the memory of the device");
    arena->pageable = malloc(bytes);
    arena->pinned = malloc(bytes);
    arena->device = by_hand_allocate(&run->by_hand, bytes);
    if (!arena->pageable || !arena->pinned || !arena->device) {
        fprintf(stderr, "ferry bench: no memory for 3 arrays of %zu bytes\n", bytes);
        free(arena->pinned);
        arena->pinned = NULL; /* it was not registered */
        return false;
    }
    /* Written once, so that page faults are not measured. */
    memset(arena->pageable, 1, bytes);
    memset(arena->pinned, 1, bytes);
    if (ferry_context_register_host(run->context, arena->pinned, bytes) != FERRY_OK) {
        free(arena->pinned);
        arena->pinned = NULL;
    }
    if (ferry_byte_create(run->context, bytes, NULL, &arena->buffer) != FERRY_OK ||
        ferry_byte_overwrite_device(arena->buffer, stream, &scope, &unused) != FERRY_OK ||
        ferry_scope_close(&scope) != FERRY_OK)
        return bench_failed("creating a buffer on the device");
    return by_hand_upload(&run->by_hand, arena->device, arena->pageable, bytes) ||
           bench_failed("copying by hand");
}

static bool
copy_once(struct bench_run *run, struct arena *arena, enum bench_direction direction,
          enum bench_means means, size_t offset, size_t bytes)
{
    bool pinned = means == HAND_PINNED || means == FERRY_PINNED;
    unsigned char *host = (pinned ? arena->pinned : arena->pageable) + offset;
    char *device = (char *)arena->device + offset;

    if (means == HAND_PAGEABLE || means == HAND_PINNED)
        return direction == BENCH_UP ? by_hand_upload(&run->by_hand, device, host, bytes)
                                     : by_hand_download(&run->by_hand, host, device, bytes);
    return (direction == BENCH_UP
                ? ferry_byte_copy_from(arena->buffer, offset, bytes, host, NULL)
                : ferry_byte_copy_to(arena->buffer, offset, bytes, host, NULL)) == FERRY_OK;
}

static bool
is_measured(const struct arena *arena, enum bench_means means)
{
    return arena->pinned || (means != HAND_PINNED && means != FERRY_PINNED);
}

/* Nanoseconds of `count` copies; negative when one failed. */
static double
time_copies(struct bench_run *run, struct arena *arena, enum bench_direction direction,
            enum bench_means means, size_t bytes, size_t count)
{
    bool ok = true;
    double begun = bench_now_ns();

    for (size_t i = 0; i < count && ok; i++)
        ok = copy_once(run, arena, direction, means, i * bytes, bytes);
    return ok ? bench_now_ns() - begun : -1;
}

static bool
measure_size(struct bench_run *run, struct arena *arena, size_t bytes, struct link_result *out)
{
    static double times[BENCH_DIRECTIONS][BENCH_MEANS][ROUNDS_MAX];
    size_t count = bytes < ROUND_BYTES
                       ? (ROUND_BYTES < arena->bytes ? ROUND_BYTES : arena->bytes) / bytes
                       : arena->bytes / bytes;
    size_t rounds = 0, most = run->results->quick ? 1 : ROUNDS_MAX;
    double until = bench_now_ns() + SIZE_NS;

    out->bytes = bytes;
    /* Round 0 warms up and is written over. */
    for (size_t round = 0; round <= most && (round <= ROUNDS_MIN || bench_now_ns() < until);
         round++) {
        size_t index = round == 0 ? 0 : round - 1;
        for (int direction = 0; direction < BENCH_DIRECTIONS; direction++) {
            for (int i = 0; i < BENCH_MEANS; i++) {
                /* In both orders, so that neither always finds what the other left in the caches.
                 */
                int means = round % 2 ? BENCH_MEANS - 1 - i : i;
                if (!is_measured(arena, means))
                    continue;
                times[direction][means][index] =
                    time_copies(run, arena, direction, means, bytes, count);
                if (times[direction][means][index] < 0)
                    return bench_failed("copying");
            }
        }
        rounds = index + 1;
    }
    for (int direction = 0; direction < BENCH_DIRECTIONS; direction++)
        for (int means = 0; means < BENCH_MEANS; means++)
            if (is_measured(arena, means))
                out->rate[direction][means] =
                    (double)(bytes * count) / bench_median(times[direction][means], rounds);
    return true;
}

/* Every kind of copy brings the bytes there and back. */
static bool
verify(struct bench_run *run, struct arena *arena)
{
    size_t bytes = arena->bytes < MIB ? arena->bytes : MIB;

    for (int means = 0; means < BENCH_MEANS; means++) {
        if (!is_measured(arena, means))
            continue;
        unsigned char *host =
            means == HAND_PINNED || means == FERRY_PINNED ? arena->pinned : arena->pageable;
        bool same = true;
        for (size_t i = 0; i < bytes; i++)
            host[i] = (unsigned char)((i + (size_t)means) % 251);
        if (!copy_once(run, arena, BENCH_UP, means, 0, bytes))
            return bench_failed("copying");
        memset(host, 0, bytes);
        if (!copy_once(run, arena, BENCH_DOWN, means, 0, bytes))
            return bench_failed("copying");
        for (size_t i = 0; i < bytes; i++)
            same &= host[i] == (unsigned char)((i + (size_t)means) % 251);
        if (!same) {
            fputs("ferry bench: the bytes that came back differ from those that were sent\n",
                  stderr);
            return false;
        }
    }
    return true;
}

bool
bench_link(struct bench_run *run)
{
    struct bench_results *results = run->results;
    struct arena arena;
    bool ok = arena_create(run, &arena);

    for (size_t i = 0; ok && i < count_sizes(results->quick); i++) {
        char text[64];
        snprintf(text, sizeof(text), "copies of %zu KiB", sizes[i] / KIB);
        progress_step(&run->progress, text);
        if (sizes[i] <= arena.bytes)
            ok = measure_size(run, &arena, sizes[i], &results->link[results->link_count++]);
    }
    ok = ok && verify(run, &arena);
    arena_free(run, &arena);
    return ok;
}
