/* SPDX-License-Identifier: MIT */

/*
 * Measures the time of one allocation and one free in the memory pool. The blocks are never
 * accessed. The pool is compared with a free list under a mutex, and with the general-purpose
 * allocators that are installed. The program also measures how much memory the pool needs for
 * allocation traces (traces.h).
 *
 * The pool and the other allocators run the same calls in turn, in short rounds of one process. The
 * report compares the medians of the rounds. A second thread sleeps during the measurement, because
 * the C library skips atomics in a process with one thread. A program that uses a GPU has several
 * threads.
 */

#include "bench.h"
#include "instructions.h"
#include "pool_loop.h"
#include "pool_threads.h"
#include "pool_times.h"
#include "pool_uses.h"
#include "sleeper.h"
#include "traces.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/ferry.h>

enum {
    ROUNDS = 21,
    PAIRS = 20000,
    HEAP_ROUNDS = 5, /* number of rounds of the general-purpose allocators; small, because some of
                        them take microseconds for an allocation and a free */
    HEAP_PAIRS = 2000,
    HOLES = 65536
};

/* -- one thread -------------------------------------------------------------------------------- */

static struct heaps heaps;

/* Runs one round of the pattern with each general-purpose allocator, and stores the times in `out`.
 */
static bool
time_heaps(const struct pattern *pattern, const struct pattern_script *script,
           double out[HEAPS_MAX])
{
    for (size_t i = 0; i < heaps.count; i++)
        if (!heap_loop(&(struct subject){.heap = &heaps.items[i]}, pattern, script, HEAP_PAIRS,
                       &out[i]))
            return false;
    return true;
}

/* Measures one allocation pattern and computes the medians of the rounds. In each round the pool
 * and the other allocators run in turn. The first two rounds only warm up and are ignored. The
 * general-purpose allocators run only in the first HEAP_ROUNDS rounds. */
static bool
time_pattern(const struct subject *subject, const struct pattern *pattern, size_t rounds,
             bool with_heaps, struct times *out)
{
    static struct pattern_script script;
    double pool[ROUNDS], peer[ROUNDS], heap[HEAPS_MAX][HEAP_ROUNDS];
    size_t heap_rounds = with_heaps ? rounds < HEAP_ROUNDS ? rounds : HEAP_ROUNDS : 0;
    pattern_write(&script, pattern, 1);
    for (size_t round = 0; round < rounds + 2; round++) {
        struct times time;
        if (!pool_loop(subject, pattern, &script, PAIRS, &time.pool) ||
            !peer_loop(subject, pattern, &script, PAIRS, &time.peer))
            return bench_failed(pattern->name);
        if (round < heap_rounds + (heap_rounds > 0 ? 2 : 0) &&
            !time_heaps(pattern, &script, time.heap))
            return bench_failed(pattern->name);
        if (round < 2)
            continue;
        pool[round - 2] = time.pool;
        peer[round - 2] = time.peer;
        for (size_t i = 0; round - 2 < heap_rounds && i < heaps.count; i++)
            heap[i][round - 2] = time.heap[i];
    }
    *out = (struct times){.pool = bench_median(pool, rounds), .peer = bench_median(peer, rounds)};
    for (size_t i = 0; heap_rounds > 0 && i < heaps.count; i++)
        out->heap[i] = bench_median(heap[i], heap_rounds);
    return true;
}

/* Adds the logarithms of the times of one allocation pattern, divided by PATTERN_COUNT. After all
 * patterns are added, exp() of the sum is the geometric mean of the times. */
static void
add_logs(struct times *sum, const struct times *time)
{
    sum->pool += log(time->pool) / PATTERN_COUNT;
    sum->peer += log(time->peer) / PATTERN_COUNT;
    for (size_t i = 0; i < heaps.count; i++)
        sum->heap[i] += log(time->heap[i]) / PATTERN_COUNT;
}

static bool
measure_one_thread(const struct subject *subject, struct bench_report *report, bool quick,
                   struct times *times)
{
    struct times mean = {0};
    for (size_t i = 0; i < PATTERN_COUNT; i++) {
        char name[64];
        /* Frees all idle memory of the pool, so that blocks of the previous pattern do not affect
         * this measurement. */
        if (ferry_pool_trim(subject->pool, 0) != FERRY_OK ||
            !time_pattern(subject, &patterns[i], quick ? 1 : ROUNDS, true, &times[i]))
            return false;
        snprintf(name, sizeof(name), "%s/1thread", patterns[i].name);
        times_add(report, name, &times[i], &heaps, 0.65);
        add_logs(&mean, &times[i]);
    }
    mean.pool = exp(mean.pool);
    mean.peer = exp(mean.peer);
    for (size_t i = 0; i < heaps.count; i++)
        mean.heap[i] = exp(mean.heap[i]);
    times_add(report, "geomean", &mean, &heaps, 0.35);
    double mixed = times[pattern_find("mixed/1024/random") - patterns].pool,
           fixed = times[pattern_find("64KiB/1024/random") - patterns].pool;
    times_add_peer(report, "mixed/1024/random/1thread", mixed, "64KiB/1024", fixed, 2.0);
    return true;
}

/* Measures allocations of a size class whose memory has many holes: free blocks between live
 * blocks. */
static bool
measure_holes(const struct subject *subject, struct bench_report *report, bool quick)
{
    size_t count = quick ? 256 : 2 * HOLES;
    struct times without, with;
    ferry_block **blocks = calloc(count, sizeof(*blocks));
    const struct pattern *pattern = pattern_find("4KiB/64/random");
    bool ok = blocks && time_pattern(subject, pattern, quick ? 1 : ROUNDS, false, &without);
    for (size_t i = 0; ok && i < count; i++)
        ok = pool_take(subject, 4 * KIB, &blocks[i]);
    for (size_t i = 0; ok && i < count; i += 2)
        ok = pool_give(subject, &blocks[i]);
    ok = ok && time_pattern(subject, pattern, quick ? 1 : ROUNDS, false, &with);
    for (size_t i = 1; ok && i < count; i += 2)
        ok = pool_give(subject, &blocks[i]);
    free(blocks);
    if (!ok)
        return bench_failed("making holes");
    times_add_peer(report, "65536holes/64/random/1thread", with.pool, "without holes", without.pool,
                   1.2);
    return true;
}

/* -- instructions ------------------------------------------------------------------------------ */

static const char *const counted[] = {"1MiB/pair", "1MiB/64/random"};

/* Allocates and frees a block of `bytes` bytes, `pairs` times. */
static bool
take_and_give(ferry_pool *pool, size_t bytes, size_t pairs)
{
    ferry_block *block;
    for (size_t i = 0; i < pairs; i++)
        if (ferry_pool_allocate(pool, bytes, NULL, &block) != FERRY_OK ||
            ferry_block_free(&block, NULL) != FERRY_OK)
            return false;
    return true;
}

/* Runs the loop of only one allocation pattern, so that callgrind can count the instructions of the
 * loop. */
static int
run_loop_only(const struct subject *subject, const char *name, const char *count)
{
    static struct pattern_script script;
    double unused;
    size_t pairs = strtoul(count, NULL, 10);
    const struct pattern *pattern = pattern_find(name);
    if (strcmp(name, counted[0]) == 0)
        return take_and_give(subject->pool, MIB, pairs) ? EXIT_SUCCESS : EXIT_FAILURE;
    if (!pattern) {
        fprintf(stderr, "bench: there is no loop '%s'\n", name);
        return EXIT_FAILURE;
    }
    pattern_write(&script, pattern, 1);
    return pool_loop(subject, pattern, &script, pairs, &unused) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void
count_instructions(struct bench_report *report, const char *name, const char *metric,
                   const char *const *functions)
{
    double instructions;
    if (!bench_count_instructions(name, functions, &instructions))
        return;
    const struct bench_record record = {
        .case_name = name,
        .metric = metric,
        .unit = "instructions",
        .value = instructions,
        .goal = {BENCH_AT_MOST, 110},
    };
    bench_report_add(report, &record);
}

/* Counts instructions with callgrind. Reports the count of the whole loop, and the count inside the
 * pool's allocate and free functions. */
static void
measure_instructions(struct bench_report *report)
{
    static const char *const calls[] = {"ferry_pool_allocate", "ferry_block_free", NULL};
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
        count_instructions(report, counted[i], "instructions", NULL);
        count_instructions(report, counted[i], "call_instructions", calls);
    }
}

/* -- the program ------------------------------------------------------------------------------- */

static bool
measure(ferry_context *context, const struct subject *subject, const struct bench_options *options)
{
    static struct times times[PATTERN_COUNT];
    struct bench_report report;
    bool ok = bench_report_open(&report, "pool", options, context) &&
              pool_uses_count_calls(context, &report) &&
              measure_one_thread(subject, &report, options->quick, times) &&
              measure_holes(subject, &report, options->quick) &&
              threads_measure_patterns(subject, &heaps, &report, options->quick, times) &&
              threads_measure_hand_over(subject, &heaps, &report, options->quick) &&
              pool_uses_measure_temporary(context, &report, options->quick,
                                          times[pattern_find("64KiB/1/lifo") - patterns].pool) &&
              traces_measure(&report, options->quick);
    if (ok && !options->quick)
        measure_instructions(&report);
    return bench_report_close(&report) && ok;
}

/* Opens the context whose pool is timed. Uses a pool of host memory, because a machine can reserve
 * 16 GiB of host memory that the benchmark never touches. */
static ferry_context *
open_host(struct subject *subject)
{
    const ferry_context_options options = {.devices = "host", .host_bytes_limit = (size_t)1 << 40};
    ferry_context *host = NULL;
    if (ferry_context_create(&options, &host) == FERRY_OK &&
        ferry_context_pool(host, FERRY_PLACE_HOST, FERRY_MEMORY_PAGEABLE, &subject->pool) ==
            FERRY_OK)
        return host;
    bench_failed("opening the host");
    ferry_context_destroy(&host);
    return NULL;
}

int
main(int argc, char **argv)
{
    struct bench_options options = {0};
    struct subject subject = {0};
    struct bench_sleeper sleeper;
    bool only = argc == 4 && strcmp(argv[1], "--loop") == 0;
    if (!only && !bench_parse(argc, argv, &options))
        return EXIT_FAILURE;
    if (!only)
        heaps_prepare(argv);
    if (!bench_sleeper_start(&sleeper))
        return EXIT_FAILURE;
    ferry_context *context = bench_context(0), *host = open_host(&subject);
    int status = EXIT_FAILURE;
    subject.list = freelist_open();
    heaps.count = only ? 0 : heaps_open(heaps.items);
    if (context && host && subject.list) {
        if (only)
            status = run_loop_only(&subject, argv[2], argv[3]);
        else
            status = measure(context, &subject, &options) ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    freelist_close(subject.list);
    ferry_context_destroy(&host);
    ferry_context_destroy(&context);
    bench_sleeper_stop(&sleeper);
    return status;
}
