/* SPDX-License-Identifier: MIT */

/*
 * Allocations, conversions and scopes. Ferry and its peer take turns in short rounds, and medians
 * are compared. A second thread sleeps meanwhile: a C library skips atomic operations in a process
 * with one thread, and a program with a GPU has several.
 */

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/double_convert.h>
#include <ferry/float_convert.h>
#include <ferry/int_convert.h>

#include "bench/bench.h"
#include "bench/peer.h"
#include "bench/sleeper.h"
#include "cli/bench_results.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* -- allocations ------------------------------------------------------------------------------- */

enum {
    LIVE = 16,
    SAMPLES_MAX = 20000,
    SAMPLES_QUICK = 200,
    BATCH = 2000, /* pairs that are timed together */
    BATCHES = 21,
    SLOTS = 1024 /* random numbers, computed before a loop is timed */
};
#define POOL_NS 1.5e9
static const size_t pool_sizes[POOL_SIZES_MAX] = {4 * KIB, 64 * KIB, MIB, 16 * MIB};

static size_t
count_pool_sizes(bool quick)
{
    return quick ? 2 : POOL_SIZES_MAX;
}

int
bench_pool_steps(bool quick)
{
    return (int)count_pool_sizes(quick);
}

/* Where one of them allocates. */
struct allocator {
    const struct by_hand *by_hand;
    ferry_pool *pool; /* NULL: by hand */
};

static bool
allocate(const struct allocator *allocator, size_t bytes, void **out)
{
    ferry_block *block = NULL;

    if (!allocator->pool) {
        *out = by_hand_allocate(allocator->by_hand, bytes);
        return *out != NULL;
    }
    if (ferry_pool_allocate(allocator->pool, bytes, NULL, &block) != FERRY_OK)
        return false;
    *out = block;
    return true;
}

static bool
release(const struct allocator *allocator, void **memory)
{
    ferry_block *block = *memory;
    bool ok = true;

    if (!allocator->pool)
        by_hand_free(allocator->by_hand, *memory);
    else
        ok = ferry_block_free(&block, NULL) == FERRY_OK;
    *memory = NULL;
    return ok;
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void
summarize(double *samples, size_t count, struct latency *out)
{
    qsort(samples, count, sizeof(*samples), compare);
    out->count = count;
    for (size_t i = 0; i < QUANTILES; i++)
        out->quantile[i] = samples[(count - 1) * i / (QUANTILES - 1)];
    out->p999 = samples[(count - 1) * 999 / 1000];
}

/* Numbers of the blocks that are freed and allocated again. */
static void
choose_slots(unsigned char slots[SLOTS])
{
    unsigned random = 1;

    for (size_t i = 0; i < SLOTS; i++) {
        random = random * 1664525u + 1013904223u;
        slots[i] = (unsigned char)((random >> 16) % LIVE);
    }
}

/* The time of each pair, which includes that of reading the clock. */
static bool
time_each(const struct allocator *allocator, size_t bytes, size_t most, void **live,
          double *samples, struct latency *out)
{
    unsigned char slots[SLOTS];
    size_t count = 0;
    bool ok = true;

    choose_slots(slots);
    double until = bench_now_ns() + POOL_NS;
    /* The first tenth warms up and is written over. */
    for (size_t i = 0; i < most + most / 10 && ok; i++) {
        void **slot = &live[slots[i % SLOTS]];
        double begun = bench_now_ns();
        ok = release(allocator, slot) && allocate(allocator, bytes, slot);
        double ended = bench_now_ns();
        count = i < most / 10 ? 1 : i - most / 10 + 1;
        samples[count - 1] = ended - begun;
        if (ended > until)
            break;
    }
    if (ok)
        summarize(samples, count, out);
    return ok;
}

/* The time of a pair among many, without the clock: the median of the batches. A batch is shorter
 * where a pair is slow. */
static bool
time_batches(const struct allocator *allocator, size_t bytes, bool quick, void **live,
             struct latency *out)
{
    unsigned char slots[SLOTS];
    double means[BATCHES];
    size_t batches = quick ? 1 : BATCHES;
    double fitting = POOL_NS / BATCHES / out->quantile[QUANTILES / 2];
    size_t pairs = quick ? 100 : fitting < BATCH ? (size_t)fitting + 1 : BATCH;
    bool ok = true;

    choose_slots(slots);
    for (size_t batch = 0; batch < batches && ok; batch++) {
        double begun = bench_now_ns();
        for (size_t i = 0; i < pairs && ok; i++) {
            void **slot = &live[slots[i % SLOTS]];
            ok = release(allocator, slot) && allocate(allocator, bytes, slot);
        }
        means[batch] = (bench_now_ns() - begun) / (double)pairs;
    }
    if (ok)
        out->batch = bench_median(means, batches);
    return ok;
}

/* LIVE blocks stay allocated; a pair frees one of them and allocates it again. */
static bool
measure_allocator(const struct allocator *allocator, size_t bytes, bool quick, double *samples,
                  struct latency *out)
{
    void *live[LIVE] = {NULL};
    bool ok = true;

    for (size_t i = 0; i < LIVE && ok; i++)
        ok = allocate(allocator, bytes, &live[i]);
    ok = ok &&
         time_each(allocator, bytes, quick ? SAMPLES_QUICK : SAMPLES_MAX, live, samples, out) &&
         time_batches(allocator, bytes, quick, live, out);
    for (size_t i = 0; i < LIVE; i++)
        if (live[i])
            ok = release(allocator, &live[i]) && ok;
    return ok || bench_failed(allocator->pool ? "allocating from the pool" : "allocating by hand");
}

static double
measure_clock(void)
{
    double samples[101];

    for (size_t i = 0; i < 101; i++) {
        double begun = bench_now_ns();
        samples[i] = bench_now_ns() - begun;
    }
    return bench_median(samples, 101);
}

bool
bench_pool(struct bench_run *run)
{
    struct bench_results *results = run->results;
    struct bench_sleeper sleeper;
    struct allocator hand = {.by_hand = &run->by_hand}, ferry = hand;
    /* Too large for a stack; one call at a time uses it. */
    static double samples[SAMPLES_MAX];
    bool ok = ferry_context_pool(run->context, 1, FERRY_MEMORY_DEFAULT, &ferry.pool) == FERRY_OK ||
              bench_failed("asking for the pool");

    if (!ok || !bench_sleeper_start(&sleeper))
        return false;
    results->clock_ns = measure_clock();
    for (size_t i = 0; ok && i < count_pool_sizes(results->quick); i++) {
        struct pool_result *result = &results->pool[results->pool_count++];
        char text[64];
        snprintf(text, sizeof(text), "allocations of %zu KiB", pool_sizes[i] / KIB);
        progress_step(&run->progress, text);
        result->bytes = pool_sizes[i];
        ok = measure_allocator(&hand, pool_sizes[i], results->quick, samples, &result->hand) &&
             measure_allocator(&ferry, pool_sizes[i], results->quick, samples, &result->ferry);
    }
    bench_sleeper_stop(&sleeper);
    return ok;
}

/* -- conversions ------------------------------------------------------------------------------- */

enum { ELEMENTS = 1 << 20, ROUNDS = 21 };

/* The arrays of all conversions. */
struct values {
    double *doubles;
    float *floats;
    int32_t *ints;
};

/* Loops as a program would write them. */
static void
hand_double_to_float(const struct values *v)
{
    for (size_t i = 0; i < ELEMENTS; i++)
        v->floats[i] = (float)v->doubles[i];
}

static void
hand_float_to_double(const struct values *v)
{
    for (size_t i = 0; i < ELEMENTS; i++)
        v->doubles[i] = v->floats[i];
}

/* Rounded to the nearest, clamped, and 0 for what is no number, as FERRY_CONVERT_SATURATE defines
 * it. */
static void
hand_float_to_int(const struct values *v)
{
    for (size_t i = 0; i < ELEMENTS; i++) {
        float x = v->floats[i];
        v->ints[i] = isnan(x)             ? 0
                     : x >= 2147483648.0f ? INT32_MAX
                     : x < -2147483648.0f ? INT32_MIN
                                          : (int32_t)lrintf(x);
    }
}

static bool
ferry_double_to_float(const struct values *v)
{
    return ferry_convert_double_to_float(v->floats, v->doubles, ELEMENTS, FERRY_CONVERT_SATURATE) ==
           FERRY_OK;
}

static bool
ferry_float_to_double(const struct values *v)
{
    return ferry_convert_float_to_double(v->doubles, v->floats, ELEMENTS, FERRY_CONVERT_SATURATE) ==
           FERRY_OK;
}

static bool
ferry_float_to_int(const struct values *v)
{
    return ferry_convert_float_to_int(v->ints, v->floats, ELEMENTS, FERRY_CONVERT_SATURATE) ==
           FERRY_OK;
}

static const struct conversion {
    const char *name;
    void (*hand)(const struct values *v);
    bool (*ferry)(const struct values *v);
    size_t bytes; /* read and written for each element */
} conversions[CONVERSIONS] = {
    {"double to float", hand_double_to_float, ferry_double_to_float, 12},
    {"float to double", hand_float_to_double, ferry_float_to_double, 12},
    {"float to int", hand_float_to_int, ferry_float_to_int, 8},
};

static bool
measure_conversions(struct bench_run *run, const struct values *v)
{
    double hand[ROUNDS], ferry[ROUNDS];
    size_t rounds = run->results->quick ? 1 : ROUNDS;

    for (size_t i = 0; i < CONVERSIONS; i++) {
        const struct conversion *c = &conversions[i];
        for (size_t round = 0; round <= rounds;
             round++) { /* round 0 warms up and is written over */
            size_t index = round == 0 ? 0 : round - 1;
            double begun = bench_now_ns();
            c->hand(v);
            double between = bench_now_ns();
            if (!c->ferry(v))
                return bench_failed(c->name);
            ferry[index] = bench_now_ns() - between;
            hand[index] = between - begun;
        }
        double bytes = (double)(c->bytes * ELEMENTS);
        run->results->conversions[i] = (struct pair_result){
            c->name, bytes / bench_median(hand, rounds), bytes / bench_median(ferry, rounds)};
    }
    return true;
}

static bool
convert(struct bench_run *run)
{
    struct values v = {malloc(ELEMENTS * sizeof(double)), malloc(ELEMENTS * sizeof(float)),
                       malloc(ELEMENTS * sizeof(int32_t))};
    bool ok = v.doubles && v.floats && v.ints;

    if (!ok)
        fputs("ferry bench: no memory for the conversions\n", stderr);
    for (size_t i = 0; ok && i < ELEMENTS; i++) {
        v.doubles[i] = (double)i * 0.37 - 1e5;
        v.floats[i] = (float)v.doubles[i];
        v.ints[i] = 0;
    }
    ok = ok && measure_conversions(run, &v);
    free(v.doubles);
    free(v.floats);
    free(v.ints);
    return ok;
}

/* -- scopes ------------------------------------------------------------------------------------ */

enum { PAIRS = 10000, VALUES = 16384 };

struct subject {
    ferry_float_buffer buffer;
    ferry_stream *stream;
};

static bool
read_host(const struct subject *subject)
{
    ferry_scope scope;
    const float *values;
    return ferry_float_read_host(subject->buffer, &scope, &values) == FERRY_OK &&
           ferry_scope_close(&scope) == FERRY_OK;
}

static bool
read_device(const struct subject *subject)
{
    ferry_scope scope;
    const float *values;
    return ferry_float_read_device(subject->buffer, subject->stream, &scope, &values) == FERRY_OK &&
           ferry_scope_close(&scope) == FERRY_OK;
}

/* Only the first update makes the device's copy stale; nothing reads it in between. */
static bool
update_host(const struct subject *subject)
{
    ferry_scope scope;
    float *values;
    return ferry_float_update_host(subject->buffer, &scope, &values) == FERRY_OK &&
           ferry_scope_close(&scope) == FERRY_OK;
}

static const struct hit {
    const char *name;
    bool (*run)(const struct subject *subject);
} hits[HITS] = {{"read on the host", read_host},
                {"read on the device", read_device},
                {"update on the host", update_host}};

static bool
measure_hit(struct bench_run *run, const struct subject *subject, const struct hit *hit,
            struct pair_result *out)
{
    static _Atomic uint64_t word;
    double hand[ROUNDS], ferry[ROUNDS];
    size_t rounds = run->results->quick ? 1 : ROUNDS, pairs = run->results->quick ? 100 : PAIRS;
    bool ok = true;

    for (size_t round = 0; round <= rounds && ok; round++) {
        size_t index = round == 0 ? 0 : round - 1;
        double begun = bench_now_ns();
        for (size_t i = 0; i < pairs; i++) {
            bench_peer_open(&word);
            bench_peer_close(&word);
        }
        double between = bench_now_ns();
        for (size_t i = 0; i < pairs && ok; i++)
            ok = hit->run(subject);
        ferry[index] = (bench_now_ns() - between) / (double)pairs;
        hand[index] = (between - begun) / (double)pairs;
    }
    if (!ok)
        return bench_failed(hit->name);
    *out = (struct pair_result){hit->name, bench_median(hand, rounds), bench_median(ferry, rounds)};
    return true;
}

static bool
measure_hits(struct bench_run *run)
{
    struct bench_sleeper sleeper;
    struct subject subject = {.stream = ferry_context_stream(run->context, 1)};
    float *values = calloc(VALUES, sizeof(*values));
    bool ok = values && (ferry_float_create_from(run->context, VALUES, values, NULL,
                                                 &subject.buffer) == FERRY_OK ||
                         bench_failed("creating a buffer"));

    free(values);
    if (!ok || !bench_sleeper_start(&sleeper)) {
        ferry_float_destroy(&subject.buffer);
        return false;
    }
    for (size_t i = 0; i < HITS && ok; i++)
        ok = measure_hit(run, &subject, &hits[i], &run->results->hits[i]);
    bench_sleeper_stop(&sleeper);
    ferry_float_destroy(&subject.buffer);
    return ok;
}

int
bench_calls_steps(void)
{
    return 2;
}

bool
bench_calls(struct bench_run *run)
{
    progress_step(&run->progress, "conversions");
    if (!convert(run))
        return false;
    progress_step(&run->progress, "scopes");
    return measure_hits(run);
}
