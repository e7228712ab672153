/* SPDX-License-Identifier: MIT */
#include "pool_threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 11,
    PAIRS = 400000,
    HEAP_ROUNDS = 3,
    HEAP_PAIRS = 20000,
    RING = 256,
    HANDED = 200000,
    HEAP_HANDED = 20000
};

/* -- two threads that use different blocks ----------------------------------------------------- */

struct worker {
    const struct subject *subject;
    const struct pattern *pattern;
    pattern_loop *run;
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
    struct pattern_script *script = malloc(sizeof(*script));
    double unused;
    worker->ok = script != NULL;
    if (script) {
        pattern_write(script, worker->pattern, worker->seed);
        worker->ok = worker->run(worker->subject, worker->pattern, script, 4 * LIVE_MAX, &unused);
    }
    pthread_barrier_wait(worker->start);
    worker->ok = worker->ok && worker->run(worker->subject, worker->pattern, script, worker->pairs,
                                           &worker->time);
    free(script);
    return NULL;
}

/* Measures the time of one allocation and one free in nanoseconds while two threads make such
 * calls. Sets `*out` to the time of the slower thread. */
static bool
time_two_threads(const struct subject *subject, const struct pattern *pattern, pattern_loop *run,
                 size_t pairs, double *out)
{
    pthread_t thread;
    pthread_barrier_t start;
    struct worker workers[2] = {{subject, pattern, run, pairs, &start, 1, 0, false},
                                {subject, pattern, run, pairs, &start, 2, 0, false}};
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

/* Measures the general-purpose allocators with two threads. They run fewer pairs of calls and fewer
 * rounds than the pool, because some of them are slow with two threads. */
static bool
time_heaps(const struct heaps *heaps, const struct pattern *pattern, size_t rounds,
           struct times *out)
{
    rounds = rounds < HEAP_ROUNDS ? rounds : HEAP_ROUNDS;
    for (size_t i = 0; i < heaps->count; i++) {
        const struct subject subject = {.heap = &heaps->items[i]};
        double heap[HEAP_ROUNDS];
        for (size_t round = 0; round < rounds; round++)
            if (!time_two_threads(&subject, pattern, heap_loop, HEAP_PAIRS, &heap[round]))
                return false;
        out->heap[i] = bench_median(heap, rounds);
    }
    return true;
}

bool
threads_measure_patterns(const struct subject *subject, const struct heaps *heaps,
                         struct bench_report *report, bool quick, const struct times *one)
{
    static const char *const names[] = {"64KiB/1/lifo", "64KiB/64/random", "1MiB/64/random",
                                        "64KiB/1024/lifo", "mixed/64/random"};
    size_t rounds = quick ? 1 : ROUNDS, pairs = quick ? PAIRS / 100 : PAIRS;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct pattern *pattern = pattern_find(names[i]);
        double pool[ROUNDS], peer[ROUNDS];
        struct times time = {0};
        for (size_t round = 0; round < rounds; round++)
            if (!time_two_threads(subject, pattern, pool_loop, pairs, &pool[round]) ||
                !time_two_threads(subject, pattern, peer_loop, pairs, &peer[round]))
                return bench_failed(names[i]);
        if (!time_heaps(heaps, pattern, rounds, &time))
            return bench_failed(names[i]);
        time.pool = bench_median(pool, rounds);
        time.peer = bench_median(peer, rounds);
        char name[64];
        snprintf(name, sizeof(name), "%s/2threads", names[i]);
        times_add(report, name, &time, heaps, 0);
        if (pattern->live <= 64 && pattern->bytes)
            times_add_peer(report, name, time.pool, "1thread", one[pattern - patterns].pool, 1.5);
    }
    return true;
}

/* -- hand-over: one thread allocates the blocks, another thread frees them --------------------- */

struct ring {
    _Alignas(64) _Atomic size_t filled;
    _Alignas(64) _Atomic size_t emptied;
    _Alignas(64) void *blocks[RING];
    const struct subject *subject; /* has every allocator; the threads use only the measured one */
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
    bool ok =
        subject->pool ? pool_take(subject, bytes, &block) : peer_take(subject, bytes, &listed);
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

/* A thread calls this function repeatedly while it waits for a second thread. The function
 * sometimes yields the processor, because the second thread may need it. */
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

bool
threads_measure_hand_over(const struct subject *subject, const struct heaps *heaps,
                          struct bench_report *report, bool quick)
{
    const struct subject only_pool = {.pool = subject->pool}, only_list = {.list = subject->list};
    size_t rounds = quick ? 1 : ROUNDS, count = quick ? 1000 : HANDED,
           heap_handed = quick ? 1000 : HEAP_HANDED;
    double pool[ROUNDS], peer[ROUNDS], heap[HEAPS_MAX][ROUNDS];
    struct times time = {0};
    for (size_t round = 0; round < rounds; round++) {
        bool ok = time_hand_over(&only_pool, 64 * KIB, count, &pool[round]) &&
                  time_hand_over(&only_list, 64 * KIB, count, &peer[round]);
        for (size_t i = 0; ok && i < heaps->count; i++)
            ok = time_hand_over(&(struct subject){.heap = &heaps->items[i]}, 64 * KIB, heap_handed,
                                &heap[i][round]);
        if (!ok)
            return bench_failed("handing over");
    }
    time.pool = bench_median(pool, rounds);
    time.peer = bench_median(peer, rounds);
    for (size_t i = 0; i < heaps->count; i++)
        time.heap[i] = bench_median(heap[i], rounds);
    times_add(report, "64KiB/handover/2threads", &time, heaps, 0.2);
    return true;
}
