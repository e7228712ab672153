/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_COPY_LOOP_H
#define FERRYI_COPY_LOOP_H

/*
 * Loops that copy memory which is not in the processor's caches. They are faster than memcpy(),
 * because the caller chooses the loop that suits its source and target.
 *
 * Two of the loops prefetch the cache lines that they copy next. FERRYI_COPY_PREFETCH uses ordinary
 * stores. It is for targets that stay in the caches, such as a small ring of chunks.
 * FERRYI_COPY_STREAM uses stores that bypass the caches. It is for all other targets, because the
 * processor then need not read a target's cache lines before it writes them.
 *
 * These two loops alternate between four pages, so that several rows of DRAM are open at once. On
 * AMD families 19h and 1Ah the two loops copy one page after the other, because alternating takes
 * up to twice as long there. On processors without AVX2, all loops call memcpy().
 */

#include <stdbool.h>
#include <stddef.h>

enum ferryi_copy_loop {
    FERRYI_COPY_AUTO, /* allowed only in a configuration: the transfer engine chooses one of the
                         loops below (staging.c) */
    FERRYI_COPY_LIBC,
    FERRYI_COPY_PREFETCH,
    FERRYI_COPY_STREAM,
    FERRYI_COPY_LOOPS
};

/* Minimum size in bytes of a copy that uses a copy loop instead of memcpy(). For smaller copies,
 * memcpy() is as fast according to measurements. */
#define FERRYI_COPY_LOOP_FROM ((size_t)64 << 10)
/* Minimum size of a copy whose stores bypass the caches. The value comes from measurements, because
 * a process cannot query its share of the last-level cache. */
#define FERRYI_COPY_STREAM_FROM ((size_t)32 << 20)

/* Families of processors on which the copy loops were measured. ferryi_copy_processor() returns the
 * family of this processor. */
enum ferryi_processor {
    FERRYI_PROCESSOR_OTHER,
    FERRYI_PROCESSOR_INTEL,
    FERRYI_PROCESSOR_AMD_19H, /* Zen 3 and Zen 4 */
    FERRYI_PROCESSOR_AMD_1AH  /* Zen 5 */
};

enum ferryi_processor ferryi_copy_processor(void);
/* Copies `bytes` bytes with the given loop. The function has the memory ordering of memcpy(): a
 * mutex or a release store makes the copied bytes visible to other threads. */
void ferryi_copy_bytes(enum ferryi_copy_loop loop, void *target, const void *source, size_t bytes);

enum { FERRYI_PAGE = 4096 }; /* unit of the loops, and of the parts of a large copy */
enum { FERRYI_LINE = 64 };   /* bytes of a cache line, or of half of one on some processors */

/* -- building blocks of copy loops, for processors with SSE2 ----------------------------------- */

#ifdef __SSE2__
#include <emmintrin.h>

enum { FERRYI_PAGES_IN_TURN = 4 };

/* Prefetches a memory range into the caches. The range may extend past the end of an array, because
 * prefetching an invalid address does nothing. */
static inline void
ferryi_prefetch(const char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += FERRYI_LINE)
        _mm_prefetch(memory + i, _MM_HINT_T0);
}

/* Copies whole cache lines between aligned addresses with stores that bypass the caches. The caller
 * must execute _mm_sfence() before other threads read the target. */
static inline void
ferryi_store_past_caches(void *target, const void *source, size_t bytes)
{
    __m128i *out = (__m128i *)target;
    const __m128i *in = (const __m128i *)source;
    for (size_t i = 0; i < bytes / sizeof(*out); i += 4) {
        __m128i a = _mm_load_si128(in + i), b = _mm_load_si128(in + i + 1);
        __m128i c = _mm_load_si128(in + i + 2), d = _mm_load_si128(in + i + 3);
        _mm_stream_si128(out + i, a);
        _mm_stream_si128(out + i + 1, b);
        _mm_stream_si128(out + i + 2, c);
        _mm_stream_si128(out + i + 3, d);
    }
}
#endif

#endif
