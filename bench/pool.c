/* SPDX-License-Identifier: MIT */

/*
 * What a pool hit costs: taking a block and giving it back, never touching its memory, against a free list behind a mutex, and against the
 * general-purpose allocators that are here; and in how little memory it runs traces of programs (traces.h).
 *
 * Pool and peers do the same in turns, in short rounds of one process, and medians are compared. A second thread sleeps meanwhile: a C library
 * skips atomics in a process with one thread, and a program that uses a GPU never has only one.
 *
 * Cases are named size/live/order: "lifo" takes `live` blocks and gives them back in reverse; "random" has `live` blocks, gives eight of
 * them back, and takes eight. "mixed" sizes are log-uniform from 4 KiB, up to 64 MiB with 64 live and to 4 MiB with 1024.
 */

#include "bench.h"
#include "freelist.h"
#include "heaps.h"
#include "instructions.h"
#include "pool_uses.h"
#include "traces.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/ferry.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum {
    LIVE_MAX = 1024,
    TURN = 8,        /* blocks given back and taken at once in random order */
    SCRIPT = 4096,   /* random numbers that repeat */
    ROUNDS = 21,
    PAIRS = 20000,
    HEAP_ROUNDS = 5, /* of allocators that may take microseconds for a pair */
    HEAP_PAIRS = 2000,
    TWO_THREAD_ROUNDS = 11,
    TWO_THREAD_PAIRS = 400000,
    TWO_THREAD_HEAP_ROUNDS = 3,
    TWO_THREAD_HEAP_PAIRS = 20000,
    RING = 256,
    HANDED = 200000,
    HEAP_HANDED = 20000,
    HOLES = 65536
};

struct pattern {
    const char *name;
    size_t bytes; /* 0: mixed */
    size_t mixed_to;
    size_t live;
    bool random;
};

static const struct pattern patterns[] = {
    {"4KiB/1/lifo", 4 * KIB, 0, 1, false},       {"4KiB/64/lifo", 4 * KIB, 0, 64, false},
    {"4KiB/64/random", 4 * KIB, 0, 64, true},    {"4KiB/1024/lifo", 4 * KIB, 0, 1024, false},
    {"4KiB/1024/random", 4 * KIB, 0, 1024, true},
    {"64KiB/1/lifo", 64 * KIB, 0, 1, false},     {"64KiB/64/lifo", 64 * KIB, 0, 64, false},
    {"64KiB/64/random", 64 * KIB, 0, 64, true},  {"64KiB/1024/lifo", 64 * KIB, 0, 1024, false},
    {"64KiB/1024/random", 64 * KIB, 0, 1024, true},
    {"1MiB/1/lifo", MIB, 0, 1, false},           {"1MiB/64/lifo", MIB, 0, 64, false},
    {"1MiB/64/random", MIB, 0, 64, true},        {"1MiB/1024/lifo", MIB, 0, 1024, false},
    {"1MiB/1024/random", MIB, 0, 1024, true},
    {"16MiB/1/lifo", 16 * MIB, 0, 1, false},     {"16MiB/64/lifo", 16 * MIB, 0, 64, false},
    {"16MiB/64/random", 16 * MIB, 0, 64, true},  {"16MiB/1024/lifo", 16 * MIB, 0, 1024, false},
    {"16MiB/1024/random", 16 * MIB, 0, 1024, true},
    {"64MiB/1/lifo", 64 * MIB, 0, 1, false},     {"64MiB/64/lifo", 64 * MIB, 0, 64, false},
    {"64MiB/64/random", 64 * MIB, 0, 64, true},
    {"mixed/64/random", 0, 64 * MIB, 64, true},  {"mixed/1024/random", 0, 4 * MIB, 1024, true},
};

enum { PATTERN_COUNT = sizeof(patterns) / sizeof(patterns[0]) };

static const struct pattern *
find_pattern(const char *name)
{
    for (size_t i = 0; i < PATTERN_COUNT; i++)
        if (strcmp(patterns[i].name, name) == 0)
            return &patterns[i];
    return NULL;
}

/* -- scripts: what is done, worked out before the clock runs ----------------------------------------- */

struct script {
    size_t bytes[SCRIPT], slot[SCRIPT];
};

static void
script_write(struct script *script, const struct pattern *pattern, uint64_t seed)
{
    for (size_t i = 0; i < SCRIPT; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double part = (double)(seed >> 11) / (double)((uint64_t)1 << 53);
        script->bytes[i] = pattern->bytes ? pattern->bytes : (size_t)(4096.0 * pow((double)pattern->mixed_to / 4096.0, part));
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        script->slot[i] = (size_t)(seed >> 33) % pattern->live;
    }
    /* The slots of one turn differ. */
    for (size_t i = 0; pattern->live >= TURN && i < SCRIPT; i++)
        for (size_t k = i - i % TURN; k < i; k++)
            if (script->slot[k] == script->slot[i]) {
                script->slot[i] = (script->slot[i] + 1) % pattern->live;
                k = i - i % TURN - 1;
            }
}

/* -- the loops, once for the pool and once for each kind of peer --------------------------------------- */

/* What a loop takes from. */
struct subject {
    ferry_pool *pool;
    struct freelist *list;
    const struct heap *heap;
};

static inline bool
pool_take(const struct subject *subject, size_t bytes, ferry_block **out)
{
    return ferry_pool_take(subject->pool, bytes, NULL, out) == FERRY_OK;
}

static inline bool
pool_give(const struct subject *subject, ferry_block **block)
{
    (void)subject;
    return ferry_pool_give(block, NULL) == FERRY_OK;
}

static inline bool
peer_take(const struct subject *subject, size_t bytes, struct freelist_block **out)
{
    *out = freelist_take(subject->list, bytes);
    return *out != NULL;
}

static inline bool
peer_give(const struct subject *subject, struct freelist_block **block)
{
    (void)subject;
    freelist_give(*block);
    return true;
}

static inline bool
heap_take(const struct subject *subject, size_t bytes, void **out)
{
    *out = subject->heap->take(bytes);
    return *out != NULL;
}

static inline bool
heap_give(const struct subject *subject, void **memory)
{
    subject->heap->give(*memory);
    return true;
}

typedef bool loop(const struct subject *subject, const struct pattern *pattern, const struct script *script, size_t pairs, double *out_ns);

/* At least `pairs` pairs, timed without what comes before and after; false when a call failed. */
#define DEFINE_LOOPS(who, type)                                                                                        \
    static bool who##_lifo(const struct subject *subject, const struct pattern *pattern, size_t pairs)                 \
    {                                                                                                                  \
        type *blocks[LIVE_MAX];                                                                                        \
        size_t live = pattern->live, bytes = pattern->bytes;                                                           \
        for (size_t done = 0; done < pairs; done += live) {                                                            \
            for (size_t i = 0; i < live; i++)                                                                          \
                if (!who##_take(subject, bytes, &blocks[i]))                                                           \
                    return false;                                                                                      \
            for (size_t i = live; i-- > 0;)                                                                            \
                if (!who##_give(subject, &blocks[i]))                                                                  \
                    return false;                                                                                      \
        }                                                                                                              \
        return true;                                                                                                   \
    }                                                                                                                  \
                                                                                                                       \
    static bool who##_random(const struct subject *subject, type **blocks, const struct script *script, size_t pairs)  \
    {                                                                                                                  \
        for (size_t done = 0; done < pairs; done += TURN) {                                                            \
            const size_t *slot = &script->slot[done % SCRIPT], *bytes = &script->bytes[done % SCRIPT];                 \
            for (size_t i = 0; i < TURN; i++)                                                                          \
                if (!who##_give(subject, &blocks[slot[i]]))                                                            \
                    return false;                                                                                      \
            for (size_t i = 0; i < TURN; i++)                                                                          \
                if (!who##_take(subject, bytes[i], &blocks[slot[i]]))                                                  \
                    return false;                                                                                      \
        }                                                                                                              \
        return true;                                                                                                   \
    }                                                                                                                  \
                                                                                                                       \
    static bool who##_loop(const struct subject *subject, const struct pattern *pattern, const struct script *script,  \
                           size_t pairs, double *out_ns)                                                               \
    {                                                                                                                  \
        type *blocks[LIVE_MAX];                                                                                        \
        bool ok = true;                                                                                                \
        size_t held = pattern->random ? pattern->live : 0;                                                             \
        for (size_t i = 0; i < held; i++)                                                                              \
            if (!who##_take(subject, script->bytes[i], &blocks[i]))                                                    \
                return false;                                                                                          \
        if (pattern->random) /* what the script needs is there before the clock runs */                                \
            ok = who##_random(subject, blocks, script, pattern->bytes ? 64 : 4 * SCRIPT);                              \
        double begun = bench_now_ns();                                                                                 \
        ok = ok && (pattern->random ? who##_random(subject, blocks, script, pairs) : who##_lifo(subject, pattern, pairs)); \
        size_t step = pattern->random ? TURN : pattern->live;                                                          \
        *out_ns = (bench_now_ns() - begun) / (double)((pairs + step - 1) / step * step);                               \
        for (size_t i = 0; i < held; i++)                                                                              \
            ok = who##_give(subject, &blocks[i]) && ok;                                                                \
        return ok;                                                                                                     \
    }

DEFINE_LOOPS(pool, ferry_block)
DEFINE_LOOPS(peer, struct freelist_block)
DEFINE_LOOPS(heap, void)

#define PEER_NAME "mutex-freelist"

/* -- one thread ------------------------------------------------------------------------------------- */

/* Nanoseconds of a pair. */
struct times {
    double pool, peer, heap[HEAPS_MAX];
};

static struct heap heaps[HEAPS_MAX];
static size_t heap_count;

/* One turn of each heap. */
static bool
time_heaps(const struct pattern *pattern, const struct script *script, double out[HEAPS_MAX])
{
    for (size_t i = 0; i < heap_count; i++)
        if (!heap_loop(&(struct subject){.heap = &heaps[i]}, pattern, script, HEAP_PAIRS, &out[i]))
            return false;
    return true;
}

/* Medians of interleaved rounds; the first two warm up. The heaps take part in the first of them. */
static bool
time_pattern(const struct subject *subject, const struct pattern *pattern, size_t rounds, bool with_heaps, struct times *out)
{
    static struct script script;
    double pool[ROUNDS], peer[ROUNDS], heap[HEAPS_MAX][HEAP_ROUNDS];
    size_t heap_rounds = with_heaps ? rounds < HEAP_ROUNDS ? rounds : HEAP_ROUNDS : 0;
    script_write(&script, pattern, 1);
    for (size_t round = 0; round < rounds + 2; round++) {
        struct times time;
        if (!pool_loop(subject, pattern, &script, PAIRS, &time.pool) || !peer_loop(subject, pattern, &script, PAIRS, &time.peer))
            return bench_failed(pattern->name);
        if (round < heap_rounds + (heap_rounds > 0 ? 2 : 0) && !time_heaps(pattern, &script, time.heap))
            return bench_failed(pattern->name);
        if (round < 2)
            continue;
        pool[round - 2] = time.pool;
        peer[round - 2] = time.peer;
        for (size_t i = 0; round - 2 < heap_rounds && i < heap_count; i++)
            heap[i][round - 2] = time.heap[i];
    }
    *out = (struct times){.pool = bench_median(pool, rounds), .peer = bench_median(peer, rounds)};
    for (size_t i = 0; heap_rounds > 0 && i < heap_count; i++)
        out->heap[i] = bench_median(heap[i], heap_rounds);
    return true;
}

static void
add_peer(struct bench_report *report, const char *case_name, double value, const char *peer, double peer_value, double limit)
{
    const struct bench_record record = {
        .case_name = case_name,
        .metric = "take_give",
        .unit = "ns",
        .value = value,
        .peer = peer,
        .peer_value = peer_value,
        .goal = {limit > 0 ? BENCH_AT_MOST : BENCH_NO_GOAL, limit},
    };
    bench_report_add(report, &record);
}

/* Against every peer that was timed; the goal (0: none) is against the free list. */
static void
add_times(struct bench_report *report, const char *case_name, const struct times *time, double limit)
{
    add_peer(report, case_name, time->pool, PEER_NAME, time->peer, limit);
    for (size_t i = 0; i < heap_count; i++)
        if (time->heap[i] > 0)
            add_peer(report, case_name, time->pool, heaps[i].name, time->heap[i], 0);
}

/* Sums of logarithms become geometric means. */
static void
add_logs(struct times *sum, const struct times *time)
{
    sum->pool += log(time->pool) / PATTERN_COUNT;
    sum->peer += log(time->peer) / PATTERN_COUNT;
    for (size_t i = 0; i < heap_count; i++)
        sum->heap[i] += log(time->heap[i]) / PATTERN_COUNT;
}

static bool
measure_one_thread(const struct subject *subject, struct bench_report *report, bool quick, struct times *times)
{
    struct times mean = {0};
    for (size_t i = 0; i < PATTERN_COUNT; i++) {
        char name[64];
        /* What other sizes left behind is no part of this case. */
        if (ferry_pool_trim(subject->pool, 0) != FERRY_OK || !time_pattern(subject, &patterns[i], quick ? 1 : ROUNDS, true, &times[i]))
            return false;
        snprintf(name, sizeof(name), "%s/1thread", patterns[i].name);
        add_times(report, name, &times[i], 0.65);
        add_logs(&mean, &times[i]);
    }
    mean.pool = exp(mean.pool);
    mean.peer = exp(mean.peer);
    for (size_t i = 0; i < heap_count; i++)
        mean.heap[i] = exp(mean.heap[i]);
    add_times(report, "geomean", &mean, 0.65);
    double mixed = times[find_pattern("mixed/1024/random") - patterns].pool, fixed = times[find_pattern("64KiB/1024/random") - patterns].pool;
    add_peer(report, "mixed/1024/random/1thread", mixed, "64KiB/1024", fixed, 2.0);
    return true;
}

/* With free holes between blocks that stay live, in the class that is measured. */
static bool
measure_holes(const struct subject *subject, struct bench_report *report, bool quick)
{
    size_t count = quick ? 256 : 2 * HOLES;
    struct times without, with;
    ferry_block **blocks = calloc(count, sizeof(*blocks));
    const struct pattern *pattern = find_pattern("4KiB/64/random");
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
    add_peer(report, "65536holes/64/random/1thread", with.pool, "without holes", without.pool, 2.0);
    return true;
}

/* -- two threads ------------------------------------------------------------------------------------ */

struct worker {
    const struct subject *subject;
    const struct pattern *pattern;
    loop *run;
    size_t pairs;
    pthread_barrier_t *start;
    uint64_t seed;
    double time;
    bool ok;
};

static void *
work(void *argument)
{
    struct worker *worker = argument;
    struct script *script = malloc(sizeof(*script));
    double unused;
    worker->ok = script != NULL;
    if (script) {
        script_write(script, worker->pattern, worker->seed);
        worker->ok = worker->run(worker->subject, worker->pattern, script, 4 * LIVE_MAX, &unused);
    }
    pthread_barrier_wait(worker->start);
    worker->ok = worker->ok && worker->run(worker->subject, worker->pattern, script, worker->pairs, &worker->time);
    free(script);
    return NULL;
}

/* The slower thread's nanoseconds a pair. */
static bool
time_two_threads(const struct subject *subject, const struct pattern *pattern, loop *run, size_t pairs, double *out)
{
    pthread_t thread;
    pthread_barrier_t start;
    struct worker workers[2] = {{subject, pattern, run, pairs, &start, 1, 0, false}, {subject, pattern, run, pairs, &start, 2, 0, false}};
    if (pthread_barrier_init(&start, NULL, 2) != 0)
        return false;
    bool started = pthread_create(&thread, NULL, work, &workers[1]) == 0;
    if (started) {
        work(&workers[0]);
        pthread_join(thread, NULL);
    }
    pthread_barrier_destroy(&start);
    *out = workers[0].time > workers[1].time ? workers[0].time : workers[1].time;
    return started && workers[0].ok && workers[1].ok;
}

/* Heaps are slow with two threads: fewer pairs and rounds. */
static bool
time_heaps_with_two_threads(const struct pattern *pattern, size_t rounds, struct times *out)
{
    rounds = rounds < TWO_THREAD_HEAP_ROUNDS ? rounds : TWO_THREAD_HEAP_ROUNDS;
    for (size_t i = 0; i < heap_count; i++) {
        const struct subject subject = {.heap = &heaps[i]};
        double heap[TWO_THREAD_HEAP_ROUNDS];
        for (size_t round = 0; round < rounds; round++)
            if (!time_two_threads(&subject, pattern, heap_loop, TWO_THREAD_HEAP_PAIRS, &heap[round]))
                return false;
        out->heap[i] = bench_median(heap, rounds);
    }
    return true;
}

static bool
measure_two_threads(const struct subject *subject, struct bench_report *report, bool quick, const struct times *one)
{
    static const char *const names[] = {"64KiB/1/lifo", "64KiB/64/random", "1MiB/64/random", "64KiB/1024/lifo", "mixed/64/random"};
    size_t rounds = quick ? 1 : TWO_THREAD_ROUNDS, pairs = TWO_THREAD_PAIRS;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct pattern *pattern = find_pattern(names[i]);
        double pool[TWO_THREAD_ROUNDS], peer[TWO_THREAD_ROUNDS];
        struct times time = {0};
        for (size_t round = 0; round < rounds; round++)
            if (!time_two_threads(subject, pattern, pool_loop, pairs, &pool[round]) ||
                !time_two_threads(subject, pattern, peer_loop, pairs, &peer[round]))
                return bench_failed(names[i]);
        if (!time_heaps_with_two_threads(pattern, rounds, &time))
            return bench_failed(names[i]);
        time.pool = bench_median(pool, rounds);
        time.peer = bench_median(peer, rounds);
        char name[64];
        snprintf(name, sizeof(name), "%s/2threads", names[i]);
        add_times(report, name, &time, 0);
        if (pattern->live <= 64 && pattern->bytes)
            add_peer(report, name, time.pool, "1thread", one[pattern - patterns].pool, 2.0);
    }
    return true;
}

/* -- hand-over: one thread takes, another gives back -------------------------------------------------- */

struct ring {
    _Alignas(64) _Atomic size_t filled;
    _Alignas(64) _Atomic size_t emptied;
    _Alignas(64) void *blocks[RING];
    const struct subject *subject; /* with one of pool, list and heap */
    bool ok;
    size_t count;
};

static bool
take_any(const struct subject *subject, size_t bytes, void **out)
{
    ferry_block *block = NULL;
    struct freelist_block *listed = NULL;
    if (subject->heap)
        return heap_take(subject, bytes, out);
    bool ok = subject->pool ? pool_take(subject, bytes, &block) : peer_take(subject, bytes, &listed);
    *out = subject->pool ? (void *)block : (void *)listed;
    return ok;
}

static bool
give_any(const struct subject *subject, void *memory)
{
    ferry_block *block = memory;
    struct freelist_block *listed = memory;
    if (subject->heap)
        return heap_give(subject, &memory);
    return subject->pool ? pool_give(subject, &block) : peer_give(subject, &listed);
}

/* The other side is about to come, if it runs at all. */
static void
wait_a_little(unsigned *spins)
{
    if (++*spins % 256 == 0)
        sched_yield();
}

static void *
give_handed(void *argument)
{
    struct ring *ring = argument;
    unsigned spins = 0;
    for (size_t i = 0; i < ring->count; i++) {
        while (atomic_load_explicit(&ring->filled, memory_order_acquire) == i)
            wait_a_little(&spins);
        void *block = ring->blocks[i % RING];
        atomic_store_explicit(&ring->emptied, i + 1, memory_order_release);
        ring->ok = give_any(ring->subject, block) && ring->ok;
    }
    return NULL;
}

static bool
time_hand_over(const struct subject *subject, size_t bytes, size_t count, double *out)
{
    struct ring *ring = aligned_alloc(64, sizeof(*ring));
    pthread_t thread;
    bool ok = true;
    if (!ring)
        return false;
    memset(ring, 0, sizeof(*ring));
    ring->subject = subject;
    ring->ok = true;
    ring->count = count;
    if (pthread_create(&thread, NULL, give_handed, ring) != 0) {
        free(ring);
        return false;
    }
    unsigned spins = 0;
    double begun = bench_now_ns();
    for (size_t i = 0; i < count; i++) {
        while (i - atomic_load_explicit(&ring->emptied, memory_order_acquire) == RING)
            wait_a_little(&spins);
        void *block;
        if (!take_any(subject, bytes, &block))
            abort();
        ring->blocks[i % RING] = block;
        atomic_store_explicit(&ring->filled, i + 1, memory_order_release);
    }
    pthread_join(thread, NULL);
    *out = (bench_now_ns() - begun) / (double)count;
    ok = ring->ok;
    free(ring);
    return ok;
}

static bool
measure_hand_over(const struct subject *subject, struct bench_report *report, bool quick)
{
    const struct subject only_pool = {.pool = subject->pool}, only_list = {.list = subject->list};
    size_t rounds = quick ? 1 : TWO_THREAD_ROUNDS, count = quick ? 1000 : HANDED, heap_handed = quick ? 1000 : HEAP_HANDED;
    double pool[TWO_THREAD_ROUNDS], peer[TWO_THREAD_ROUNDS], heap[HEAPS_MAX][TWO_THREAD_ROUNDS];
    struct times time = {0};
    for (size_t round = 0; round < rounds; round++) {
        bool ok = time_hand_over(&only_pool, 64 * KIB, count, &pool[round]) && time_hand_over(&only_list, 64 * KIB, count, &peer[round]);
        for (size_t i = 0; ok && i < heap_count; i++)
            ok = time_hand_over(&(struct subject){.heap = &heaps[i]}, 64 * KIB, heap_handed, &heap[i][round]);
        if (!ok)
            return bench_failed("handing over");
    }
    time.pool = bench_median(pool, rounds);
    time.peer = bench_median(peer, rounds);
    for (size_t i = 0; i < heap_count; i++)
        time.heap[i] = bench_median(heap[i], rounds);
    add_times(report, "64KiB/handover/2threads", &time, 0.4);
    return true;
}

/* -- instructions -------------------------------------------------------------------------------------- */

static const char *const counted[] = {"1MiB/pair", "1MiB/64/random"};

/* Little but the calls. */
static bool
take_and_give(ferry_pool *pool, size_t bytes, size_t pairs)
{
    ferry_block *block;
    for (size_t i = 0; i < pairs; i++)
        if (ferry_pool_take(pool, bytes, NULL, &block) != FERRY_OK || ferry_pool_give(&block, NULL) != FERRY_OK)
            return false;
    return true;
}

/* One pattern alone, for a program that counts instructions. */
static int
run_loop_only(const struct subject *subject, const char *name, const char *count)
{
    static struct script script;
    double unused;
    size_t pairs = strtoul(count, NULL, 10);
    const struct pattern *pattern = find_pattern(name);
    if (strcmp(name, counted[0]) == 0)
        return take_and_give(subject->pool, MIB, pairs) ? EXIT_SUCCESS : EXIT_FAILURE;
    if (!pattern) {
        fprintf(stderr, "bench: there is no loop '%s'\n", name);
        return EXIT_FAILURE;
    }
    script_write(&script, pattern, 1);
    return pool_loop(subject, pattern, &script, pairs, &unused) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void
measure_instructions(struct bench_report *report)
{
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
        double instructions;
        if (!bench_count_instructions(counted[i], &instructions))
            continue;
        const struct bench_record record = {
            .case_name = counted[i],
            .metric = "instructions",
            .unit = "instructions",
            .value = instructions,
            .goal = {BENCH_AT_MOST, 120},
        };
        bench_report_add(report, &record);
    }
}

/* -- all of it ------------------------------------------------------------------------------------------- */

static void *
sleep_for_ever(void *argument)
{
    for (;;)
        pause();
    return argument;
}

static bool
measure(ferry_context *context, const struct subject *subject, const struct bench_options *options)
{
    static struct times times[PATTERN_COUNT];
    struct bench_report report;
    bool ok = bench_report_open(&report, "pool", options, context) && pool_uses_count_calls(context, &report) &&
              measure_one_thread(subject, &report, options->quick, times) && measure_holes(subject, &report, options->quick) &&
              measure_two_threads(subject, &report, options->quick, times) && measure_hand_over(subject, &report, options->quick) &&
              pool_uses_measure_temporary(context, &report, options->quick, times[find_pattern("64KiB/1/lifo") - patterns].pool) &&
              traces_measure(&report);
    if (ok && !options->quick)
        measure_instructions(&report);
    return bench_report_close(&report) && ok;
}

/* The pool whose hits are timed: host memory, which no limit of this machine's keeps from 16 GiB that nobody touches. */
static ferry_context *
open_host(struct subject *subject)
{
    const ferry_context_options options = {.devices = "host", .host_bytes_limit = (size_t)1 << 40};
    ferry_context *host = NULL;
    if (ferry_context_create(&options, &host) == FERRY_OK &&
        ferry_context_pool(host, FERRY_PLACE_HOST, FERRY_MEMORY_PAGEABLE, &subject->pool) == FERRY_OK)
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
    pthread_t sleeper;
    bool only = argc == 4 && strcmp(argv[1], "--loop") == 0;
    if (!only && !bench_parse(argc, argv, &options))
        return EXIT_FAILURE;
    if (!only)
        heaps_prepare(argv);
    if (pthread_create(&sleeper, NULL, sleep_for_ever, NULL) != 0) {
        fputs("bench: cannot start a thread\n", stderr);
        return EXIT_FAILURE;
    }
    ferry_context *context = bench_context(0), *host = open_host(&subject);
    int status = EXIT_FAILURE;
    subject.list = freelist_open();
    heap_count = only ? 0 : heaps_open(heaps);
    if (context && host && subject.list) {
        if (only)
            status = run_loop_only(&subject, argv[2], argv[3]);
        else
            status = measure(context, &subject, &options) ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    freelist_close(subject.list);
    ferry_context_destroy(&host);
    ferry_context_destroy(&context);
    pthread_cancel(sleeper);
    pthread_join(sleeper, NULL);
    return status;
}
