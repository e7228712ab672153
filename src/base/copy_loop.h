/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_COPY_LOOP_H
#define FERRYI_COPY_LOOP_H

/*
 * Loops that copy memory which is not in the processor's caches. They are for callers that know
 * more about source and target than memcpy() can.
 *
 * On x86-64 two of the loops are faster than the C library's memcpy() in some cases. They copy four
 * pages in turn, so that several rows of DRAM are open at once, and prefetch the next lines.
 * FERRYI_COPY_PREFETCH uses normal stores; it is for targets that stay in the caches, such as a
 * small ring of chunks. FERRYI_COPY_STREAM uses stores that bypass the caches; it is for all other
 * targets, because the target's lines need not be read before they are written. On other processors
 * all loops are memcpy().
 */

#include <stdbool.h>
#include <stddef.h>

enum ferryi_copy_loop {
    FERRYI_COPY_LIBC,
    FERRYI_COPY_PREFETCH,
    FERRYI_COPY_STREAM,
    FERRYI_COPY_LOOPS
};

/* Smallest size for which a loop is used. For smaller copies memcpy() was measured to be as fast.
 */
#define FERRYI_COPY_LOOP_FROM ((size_t)64 << 10)
/* Copies of at least this size use stores that bypass the caches. The value was measured, because
 * the process cannot query its share of the last-level cache. */
#define FERRYI_COPY_STREAM_FROM ((size_t)32 << 20)

/* Returns whether the loops differ from memcpy(). */
bool ferryi_copy_loops_differ(void);
/* Copies like memcpy(). As with memcpy(), other threads see the bytes once this thread has released
 * a lock or made an atomic release. */
void ferryi_copy_bytes(enum ferryi_copy_loop loop, void *target, const void *source, size_t bytes);

/* -- the parts of such loops, where the processor has them ------------------------------------- */

#ifdef __SSE2__
#include <emmintrin.h>

enum { FERRYI_LINE = 64, FERRYI_PAGE = 4096, FERRYI_PAGES_IN_TURN = 4 };

/* Prefetches a range. The range may extend past the end of an array, because prefetching an invalid
 * address does nothing. */
static inline void
ferryi_prefetch(const char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += FERRYI_LINE)
        _mm_prefetch(memory + i, _MM_HINT_T0);
}

/* Copies whole cache lines between aligned addresses, with stores that bypass the caches. The
 * caller must execute _mm_sfence() before other threads read the target. */
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
