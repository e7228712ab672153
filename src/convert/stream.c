/* SPDX-License-Identifier: MIT */
/*
 * Arrays of any length through one loop. Where the target will not stay in the caches anyway, pieces are converted into
 * a scratch area that does, and stored from there past the caches, which saves reading the target before it is written.
 * Pages take turns, so that several rows of memory are open at once.
 */
#include <stdbool.h>
#include <stdint.h>

#include "src/base/copy_loop.h"
#include "src/convert/kernels.h"

#ifdef __SSE2__

enum {
    STREAM_FROM = 24 << 20, /* read and written; measured, as our share of the last cache cannot be asked for */
    LINE = FERRYI_LINE,
    PAGE = FERRYI_PAGE,
    PAGES = 8, /* that take turns */
    PIECE_READ = 256, /* of the source at a time: more prefetches than that at once stall */
};

/* Whole groups of pages of an aligned target; returns the elements done. */
static size_t
convert_groups(ferryi_convert_loop *loop, char *target, size_t target_bytes, const char *source, size_t source_bytes,
               size_t count)
{
    _Alignas(LINE) char scratch[PAGE];
    const size_t in_page = PAGE / target_bytes, in_group = PAGES * in_page, in_line = LINE / target_bytes;
    const size_t in_piece = PIECE_READ / source_bytes > in_line ? PIECE_READ / source_bytes : in_line;
    size_t done = 0;

    for (; done + in_group <= count; done += in_group) {
        for (size_t step = 0; step < in_page; step += in_piece) {
            for (size_t page = 0; page < PAGES; page++) {
                size_t index = done + page * in_page + step;
                ferryi_prefetch(source + (index + in_piece) * source_bytes, in_piece * source_bytes);
                loop(scratch, source + index * source_bytes, in_piece);
                ferryi_store_past_caches(target + index * target_bytes, scratch, in_piece * target_bytes);
            }
        }
    }
    _mm_sfence();
    return done;
}

static bool
is_apart(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    return (uintptr_t)a + a_bytes <= (uintptr_t)b || (uintptr_t)b + b_bytes <= (uintptr_t)a;
}

/* An array converted in place is read anyway. */
static bool
is_worth_streaming(const char *target, size_t target_bytes, const char *source, size_t source_bytes, size_t count)
{
    return count >= STREAM_FROM / (source_bytes + target_bytes) && (uintptr_t)target % target_bytes == 0 &&
           is_apart(target, count * target_bytes, source, count * source_bytes);
}

void
ferryi_convert_array(ferryi_convert_loop *loop, void *target, size_t target_bytes, const void *source,
                     size_t source_bytes, size_t count)
{
    char *out = target;
    const char *in = source;
    if (is_worth_streaming(out, target_bytes, in, source_bytes, count)) {
        size_t head = (0 - (uintptr_t)out) % PAGE / target_bytes;
        loop(out, in, head);
        head += convert_groups(loop, out + head * target_bytes, target_bytes, in + head * source_bytes, source_bytes,
                               count - head);
        out += head * target_bytes;
        in += head * source_bytes;
        count -= head;
    }
    loop(out, in, count);
}

#else

void
ferryi_convert_array(ferryi_convert_loop *loop, void *target, size_t target_bytes, const void *source,
                     size_t source_bytes, size_t count)
{
    (void)target_bytes;
    (void)source_bytes;
    loop(target, source, count);
}

#endif
