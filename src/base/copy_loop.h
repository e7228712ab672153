/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_COPY_LOOP_H
#define FERRYI_COPY_LOOP_H

/*
 * Loops that copy memory the processor does not have in its caches, for those who know more of both
 * sides than memcpy() can.
 *
 * On x86-64 two of them beat the C library's where they fit: four pages take turns, so that several
 * rows of memory are open at once, and the next lines are fetched ahead. One stores as usual and is
 * for targets that stay in the caches, such as a small ring of chunks; the other stores past the
 * caches and is for targets that do not, which saves reading them before they are written.
 * Elsewhere all are memcpy().
 */

#include <stdbool.h>
#include <stddef.h>

enum ferryi_copy_loop {
    FERRYI_COPY_LIBC,
    FERRYI_COPY_PREFETCH,
    FERRYI_COPY_STREAM,
    FERRYI_COPY_LOOPS
};

/* Where memcpy() is all there is, or has proved as good. */
#define FERRYI_COPY_LOOP_FROM ((size_t)64 << 10)
/* From here on no cache of ours holds the target of a plain copy; measured, as our share of the
 * last one cannot be asked for. */
#define FERRYI_COPY_STREAM_FROM ((size_t)32 << 20)

/* Is there more than memcpy()? */
bool ferryi_copy_loops_differ(void);
/* As memcpy(). What other threads see of it they see after a lock or an atomic release, as with
 * memcpy(). */
void ferryi_copy_bytes(enum ferryi_copy_loop loop, void *target, const void *source, size_t bytes);

/* -- the parts of such loops, where the processor has them ------------------------------------- */

#ifdef __SSE2__
#include <emmintrin.h>

enum { FERRYI_LINE = 64, FERRYI_PAGE = 4096, FERRYI_PAGES_IN_TURN = 4 };

/* Past the end of an array only where nothing is read: a prefetch of what is not there does
 * nothing. */
static inline void
ferryi_prefetch(const char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += FERRYI_LINE)
        _mm_prefetch(memory + i, _MM_HINT_T0);
}

/* Whole lines of an aligned target from an aligned source, past the caches. _mm_sfence() before
 * others may look. */
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
