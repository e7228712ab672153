/* SPDX-License-Identifier: MIT */
#include "pool_loop.h"

#include <math.h>
#include <string.h>

#include "bench.h"

const struct pattern patterns[PATTERN_COUNT] = {
    {"4KiB/1/lifo", 4 * KIB, 0, 1, false},
    {"4KiB/64/lifo", 4 * KIB, 0, 64, false},
    {"4KiB/64/random", 4 * KIB, 0, 64, true},
    {"4KiB/1024/lifo", 4 * KIB, 0, 1024, false},
    {"4KiB/1024/random", 4 * KIB, 0, 1024, true},
    {"64KiB/1/lifo", 64 * KIB, 0, 1, false},
    {"64KiB/64/lifo", 64 * KIB, 0, 64, false},
    {"64KiB/64/random", 64 * KIB, 0, 64, true},
    {"64KiB/1024/lifo", 64 * KIB, 0, 1024, false},
    {"64KiB/1024/random", 64 * KIB, 0, 1024, true},
    {"1MiB/1/lifo", MIB, 0, 1, false},
    {"1MiB/64/lifo", MIB, 0, 64, false},
    {"1MiB/64/random", MIB, 0, 64, true},
    {"1MiB/1024/lifo", MIB, 0, 1024, false},
    {"1MiB/1024/random", MIB, 0, 1024, true},
    {"16MiB/1/lifo", 16 * MIB, 0, 1, false},
    {"16MiB/64/lifo", 16 * MIB, 0, 64, false},
    {"16MiB/64/random", 16 * MIB, 0, 64, true},
    {"16MiB/1024/lifo", 16 * MIB, 0, 1024, false},
    {"16MiB/1024/random", 16 * MIB, 0, 1024, true},
    {"64MiB/1/lifo", 64 * MIB, 0, 1, false},
    {"64MiB/64/lifo", 64 * MIB, 0, 64, false},
    {"64MiB/64/random", 64 * MIB, 0, 64, true},
    {"mixed/64/random", 0, 64 * MIB, 64, true},
    {"mixed/1024/random", 0, 4 * MIB, 1024, true},
};

const struct pattern *
pattern_find(const char *name)
{
    for (size_t i = 0; i < PATTERN_COUNT; i++)
        if (strcmp(patterns[i].name, name) == 0)
            return &patterns[i];
    return NULL;
}

void
pattern_write(struct pattern_script *script, const struct pattern *pattern, uint64_t seed)
{
    for (size_t i = 0; i < SCRIPT; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double part = (double)(seed >> 11) / (double)((uint64_t)1 << 53);
        script->bytes[i] = pattern->bytes
                               ? pattern->bytes
                               : (size_t)(4096.0 * pow((double)pattern->mixed_to / 4096.0, part));
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        script->slot[i] = (size_t)(seed >> 33) % pattern->live;
    }
    /* The loop frees the blocks of TURN consecutive slots at once, so these slots must differ. A
     * slot that repeats an earlier slot of its group is replaced by the next number. */
    for (size_t i = 0; pattern->live >= TURN && i < SCRIPT; i++)
        for (size_t k = i - i % TURN; k < i; k++)
            if (script->slot[k] == script->slot[i]) {
                script->slot[i] = (script->slot[i] + 1) % pattern->live;
                k = i - i % TURN - 1;
            }
}

/* -- the loops --------------------------------------------------------------------------------- */

/* Defines the loops for one allocator. Each allocator has separate loops, so that the compiler can
 * inline the calls. */
#define DEFINE_LOOPS(who, type)                                                                    \
    static bool who##_lifo(const struct subject *subject, const struct pattern *pattern,           \
                           size_t pairs)                                                           \
    {                                                                                              \
        type *blocks[LIVE_MAX];                                                                    \
        size_t live = pattern->live, bytes = pattern->bytes;                                       \
        for (size_t done = 0; done < pairs; done += live) {                                        \
            for (size_t i = 0; i < live; i++)                                                      \
                if (!who##_take(subject, bytes, &blocks[i]))                                       \
                    return false;                                                                  \
            for (size_t i = live; i-- > 0;)                                                        \
                if (!who##_give(subject, &blocks[i]))                                              \
                    return false;                                                                  \
        }                                                                                          \
        return true;                                                                               \
    }                                                                                              \
                                                                                                   \
    static bool who##_random(const struct subject *subject, type **blocks,                         \
                             const struct pattern_script *script, size_t pairs)                    \
    {                                                                                              \
        for (size_t done = 0; done < pairs; done += TURN) {                                        \
            const size_t *slot = &script->slot[done % SCRIPT],                                     \
                         *bytes = &script->bytes[done % SCRIPT];                                   \
            for (size_t i = 0; i < TURN; i++)                                                      \
                if (!who##_give(subject, &blocks[slot[i]]))                                        \
                    return false;                                                                  \
            for (size_t i = 0; i < TURN; i++)                                                      \
                if (!who##_take(subject, bytes[i], &blocks[slot[i]]))                              \
                    return false;                                                                  \
        }                                                                                          \
        return true;                                                                               \
    }                                                                                              \
                                                                                                   \
    bool who##_loop(const struct subject *subject, const struct pattern *pattern,                  \
                    const struct pattern_script *script, size_t pairs, double *out_ns)             \
    {                                                                                              \
        type *blocks[LIVE_MAX];                                                                    \
        bool ok = true;                                                                            \
        size_t held = pattern->random ? pattern->live : 0;                                         \
        for (size_t i = 0; i < held; i++)                                                          \
            if (!who##_take(subject, script->bytes[i], &blocks[i]))                                \
                return false;                                                                      \
        if (pattern->random) /* an untimed run warms up the allocator */                           \
            ok = who##_random(subject, blocks, script, pattern->bytes ? 64 : 4 * SCRIPT);          \
        double begun = bench_now_ns();                                                             \
        ok = ok && (pattern->random ? who##_random(subject, blocks, script, pairs)                 \
                                    : who##_lifo(subject, pattern, pairs));                        \
        size_t step = pattern->random ? TURN : pattern->live;                                      \
        *out_ns = (bench_now_ns() - begun) / (double)((pairs + step - 1) / step * step);           \
        for (size_t i = 0; i < held; i++)                                                          \
            ok = who##_give(subject, &blocks[i]) && ok;                                            \
        return ok;                                                                                 \
    }

DEFINE_LOOPS(pool, ferry_block)
DEFINE_LOOPS(peer, struct freelist_block)
DEFINE_LOOPS(heap, void)
