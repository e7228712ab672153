/* SPDX-License-Identifier: MIT */
#include "src/base/copy_loop.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>

/* Number of bytes copied from one page before the loop continues with the next page. The prefetch
 * distance is the same. */
#define STEP ((size_t)256)

/* Copies whole groups of pages to a page-aligned target. Returns the number of bytes copied. */
typedef size_t copy_groups(char *target, const char *source, size_t bytes);

/* Defines one loop for each register width and kind of store. */
#define DEFINE_GROUPS(name, attribute, vector, load, store)                                        \
    attribute static size_t name(char *target, const char *source, size_t bytes)                   \
    {                                                                                              \
        const size_t group = (size_t)FERRYI_PAGES_IN_TURN * FERRYI_PAGE;                           \
        size_t done = 0;                                                                           \
        for (; done + group <= bytes; done += group) {                                             \
            for (size_t step = 0; step < FERRYI_PAGE; step += STEP) {                              \
                for (size_t page = 0; page < group; page += FERRYI_PAGE) {                         \
                    const char *in = source + done + page + step;                                  \
                    char *out = target + done + page + step;                                       \
                    ferryi_prefetch(in + STEP, STEP);                                              \
                    for (size_t i = 0; i < STEP; i += sizeof(vector))                              \
                        store((vector *)(void *)(out + i),                                         \
                              load((const vector *)(const void *)(in + i)));                       \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        _mm_sfence();                                                                              \
        return done;                                                                               \
    }

#define AVX2 __attribute__((target("avx2")))
DEFINE_GROUPS(prefetch_sse2, , __m128i, _mm_loadu_si128, _mm_store_si128)
DEFINE_GROUPS(stream_sse2, , __m128i, _mm_loadu_si128, _mm_stream_si128)
DEFINE_GROUPS(prefetch_avx2, AVX2, __m256i, _mm256_loadu_si256, _mm256_store_si256)
DEFINE_GROUPS(stream_avx2, AVX2, __m256i, _mm256_loadu_si256, _mm256_stream_si256)

bool
ferryi_copy_loops_differ(void)
{
    return true;
}

void
ferryi_copy_bytes(enum ferryi_copy_loop loop, void *target, const void *source, size_t bytes)
{
    if (loop != FERRYI_COPY_LIBC && bytes >= FERRYI_COPY_LOOP_FROM) {
        bool wide = __builtin_cpu_supports("avx2");
        copy_groups *groups = loop == FERRYI_COPY_STREAM ? (wide ? stream_avx2 : stream_sse2)
                                                         : (wide ? prefetch_avx2 : prefetch_sse2);
        size_t head = (0 - (uintptr_t)target) % FERRYI_PAGE;
        memcpy(target, source, head);
        head += groups((char *)target + head, (const char *)source + head, bytes - head);
        target = (char *)target + head;
        source = (const char *)source + head;
        bytes -= head;
    }
    memcpy(target, source, bytes);
}

#else

bool
ferryi_copy_loops_differ(void)
{
    return false;
}

void
ferryi_copy_bytes(enum ferryi_copy_loop loop, void *target, const void *source, size_t bytes)
{
    (void)loop;
    memcpy(target, source, bytes);
}

#endif
