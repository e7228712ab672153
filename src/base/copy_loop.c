/* SPDX-License-Identifier: MIT */
#include "src/base/copy_loop.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>

/* Number of bytes that a copy loop copies from one page before it continues with the next page. The
 * loop also prefetches this many bytes ahead. */
#define STEP ((size_t)256)

/* Number of bytes that copy_by_libc() copies with one call of memcpy() when it divides a copy. For
 * larger sizes, glibc may use the instruction `rep movsb`, which is slow at some offsets. */
#define PIECE ((size_t)2 << 10)

/* Type of a function that copies memory to a page-aligned target. The function copies groups of a
 * fixed number of pages, and only whole groups. It returns the number of bytes copied, which may be
 * less than `bytes`. */
typedef size_t copy_groups(char *target, const char *source, size_t bytes);

/* Defines a function that copies memory in groups of `pages` pages. The function copies a small
 * part of each page of a group in turn, until the group is complete. */
#define DEFINE_GROUPS(name, pages, store)                                                          \
    __attribute__((target("avx2"))) static size_t name(char *target, const char *source,           \
                                                       size_t bytes)                               \
    {                                                                                              \
        const size_t group = (size_t)(pages)*FERRYI_PAGE;                                          \
        size_t done = 0;                                                                           \
        for (; done + group <= bytes; done += group) {                                             \
            for (size_t step = 0; step < FERRYI_PAGE; step += STEP) {                              \
                for (size_t page = 0; page < group; page += FERRYI_PAGE) {                         \
                    const char *in = source + done + page + step;                                  \
                    char *out = target + done + page + step;                                       \
                    ferryi_prefetch(in + STEP, STEP);                                              \
                    for (size_t i = 0; i < STEP; i += sizeof(__m256i))                             \
                        store((__m256i *)(void *)(out + i),                                        \
                              _mm256_loadu_si256((const __m256i *)(const void *)(in + i)));        \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        _mm_sfence();                                                                              \
        return done;                                                                               \
    }

DEFINE_GROUPS(prefetch_pages, FERRYI_PAGES_IN_TURN, _mm256_store_si256)
DEFINE_GROUPS(stream_pages, FERRYI_PAGES_IN_TURN, _mm256_stream_si256)
DEFINE_GROUPS(prefetch_page, 1, _mm256_store_si256)
DEFINE_GROUPS(stream_page, 1, _mm256_stream_si256)

enum ferryi_processor
ferryi_copy_processor(void)
{
    if (__builtin_cpu_is("amdfam19h"))
        return FERRYI_PROCESSOR_AMD_19H;
    /* Some compilers have no name for family 1Ah. Of AMD's families, only 19h and this one have
     * AVX-512. */
    if (__builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f"))
        return FERRYI_PROCESSOR_AMD_1AH;
    return __builtin_cpu_is("intel") ? FERRYI_PROCESSOR_INTEL : FERRYI_PROCESSOR_OTHER;
}

/* Returns the function that implements `loop` on this processor. Returns NULL if memcpy() must be
 * used instead. */
static copy_groups *
groups_of(enum ferryi_copy_loop loop)
{
    if (loop == FERRYI_COPY_LIBC || !__builtin_cpu_supports("avx2"))
        return NULL;
    enum ferryi_processor processor = ferryi_copy_processor();
    if (processor == FERRYI_PROCESSOR_AMD_19H || processor == FERRYI_PROCESSOR_AMD_1AH)
        return loop == FERRYI_COPY_STREAM ? stream_page : prefetch_page;
    return loop == FERRYI_COPY_STREAM ? stream_pages : prefetch_pages;
}

/*
 * Copies with memcpy(). Some offsets are slow: the target's offset within its page exceeds the
 * source's offset by less than a cache line. With such offsets, the instruction `rep movsb` copies
 * only 2 GB/s on AMD family 19h. The function then copies small pieces, for which memcpy() uses
 * other instructions and reaches 7 GB/s.
 *
 * Such offsets are common, because malloc() places a large array 16 bytes after a page boundary. So
 * every download from a page-aligned chunk of memory to such an array is affected.
 */
static void
copy_by_libc(char *target, const char *source, size_t bytes)
{
    const size_t behind = ((uintptr_t)target - (uintptr_t)source) % FERRYI_PAGE;
    if (behind > 0 && behind < FERRYI_LINE)
        for (; bytes > PIECE; bytes -= PIECE, target += PIECE, source += PIECE)
            memcpy(target, source, PIECE);
    memcpy(target, source, bytes);
}

void
ferryi_copy_bytes(enum ferryi_copy_loop loop, void *target, const void *source, size_t bytes)
{
    copy_groups *groups = bytes >= FERRYI_COPY_LOOP_FROM ? groups_of(loop) : NULL;
    size_t done = 0;
    if (groups) {
        done = (0 - (uintptr_t)target) % FERRYI_PAGE;
        copy_by_libc(target, source, done);
        done += groups((char *)target + done, (const char *)source + done, bytes - done);
    }
    copy_by_libc((char *)target + done, (const char *)source + done, bytes - done);
}

#else

enum ferryi_processor
ferryi_copy_processor(void)
{
    return FERRYI_PROCESSOR_OTHER;
}

void
ferryi_copy_bytes(enum ferryi_copy_loop loop, void *target, const void *source, size_t bytes)
{
    (void)loop;
    memcpy(target, source, bytes);
}

#endif
