/* SPDX-License-Identifier: MIT */
/*
 * Runs one conversion loop on an array of any length. A large target does not remain in the caches.
 * Therefore parts of the array are converted into a cached scratch area, and copied to the target
 * with stores that bypass the caches. The target's cache lines then need not be read before they
 * are written.
 *
 * The fastest strategy depends on the processor. Some processors are faster when stores alternate
 * between pages, because several rows of memory are then open at once. Other processors are slower
 * then, because their hardware already prefetches. If the target is narrower than the source, most
 * of the traffic is reading, and ordinary stores may be fastest. So parts of the first large array
 * are converted with two strategies alternately, and the time of each strategy is measured.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/base/base.h"
#include "src/base/copy_loop.h"
#include "src/convert/kernels.h"

#ifdef __SSE2__

enum {
    STREAM_FROM = 24 << 20, /* minimum total size of source and target for which stores bypass the
                               caches; measured, because a process cannot query a thread's share of
                               the last-level cache */
    LINE = FERRYI_LINE,
    PAGE = FERRYI_PAGE,
    PAGES = 8,        /* number of pages between which the strategy IN_TURN alternates */
    PIECE_READ = 256, /* number of source bytes that IN_TURN converts before it switches to the next
                         page; more bytes would need more prefetches, which stall */
    PIECE_LEAST = 64, /* minimum number of elements that are converted at once: one group of the
                         conversion loop */
    PARTS = 16, /* number of parts of an array that are measured; each of two strategies converts
                   half of them, and their fastest times are compared */
    PART_PAGES = 256, /* maximum number of target pages in a measured part; small enough that other
                         work on the machine does not disturb every part */
};

enum way { IN_TURN, PAGE_BY_PAGE, PLAIN, UNKNOWN };

/* The rest of an array, which has not been converted yet. */
struct stretch {
    ferryi_convert_loop *loop;
    char *target;
    const char *source;
    size_t target_bytes, source_bytes; /* size of one element */
    size_t count;
};

static void
advance(struct stretch *stretch, size_t count)
{
    stretch->target += count * stretch->target_bytes;
    stretch->source += count * stretch->source_bytes;
    stretch->count -= count;
}

static void
convert_plain(struct stretch *stretch, size_t count)
{
    stretch->loop(stretch->target, stretch->source, count);
    advance(stretch, count);
}

/* Converts `pages` pages, `in_piece` elements at a time, and switches to the next page each time.
 * The target must start at a page boundary. */
static void
convert_group(const struct stretch *group, size_t pages, size_t in_page, size_t in_piece)
{
    _Alignas(LINE) char scratch[PAGE];
    for (size_t step = 0; step < in_page; step += in_piece) {
        for (size_t page = 0; page < pages; page++) {
            size_t index = page * in_page + step;
            ferryi_prefetch(group->source + (index + in_piece) * group->source_bytes,
                            in_piece * group->source_bytes);
            group->loop(scratch, group->source + index * group->source_bytes, in_piece);
            ferryi_store_past_caches(group->target + index * group->target_bytes, scratch,
                                     in_piece * group->target_bytes);
        }
    }
}

/* Converts the next `count` elements with the strategy `way`. Unless the strategy is PLAIN, `count`
 * is rounded down to a multiple of the pages that the strategy converts together. */
static void
convert_by(enum way way, struct stretch *stretch, size_t count)
{
    const size_t in_page = PAGE / stretch->target_bytes, pages = way == IN_TURN ? PAGES : 1;
    size_t in_piece = ferryi_max_size(PIECE_READ / stretch->source_bytes, PIECE_LEAST);
    if (way == PLAIN) {
        convert_plain(stretch, count);
        return;
    }
    if (way == PAGE_BY_PAGE)
        in_piece = in_page;
    for (; count >= pages * in_page; count -= pages * in_page) {
        convert_group(stretch, pages, in_page, in_piece);
        advance(stretch, pages * in_page);
    }
    _mm_sfence();
}

/* The strategies that were measured to be the fastest on this machine. chosen[1] is for targets
 * whose elements are narrower than those of the source, chosen[0] for all other targets. */
static atomic_int chosen[2] = {UNKNOWN, UNKNOWN};

/* Converts the first parts of the array with two strategies, and returns the faster strategy. The
 * result is stored in `chosen` only if no page faults occurred, because page faults distort the
 * measurement. */
static enum way
find_way(struct stretch *stretch, bool narrower)
{
    const enum way ways[2] = {IN_TURN, narrower ? PLAIN : PAGE_BY_PAGE};
    const size_t in_group = (size_t)PAGES * PAGE / stretch->target_bytes;
    size_t groups = ferryi_min_size(stretch->count / in_group / PARTS, PART_PAGES / PAGES);
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX}, faults = ferryi_page_faults();

    for (size_t part = 0; part < PARTS; part++) {
        uint64_t begun = ferryi_now_ns();
        convert_by(ways[part % 2], stretch, groups * in_group);
        uint64_t taken = ferryi_now_ns() - begun;
        if (taken < best[part % 2])
            best[part % 2] = taken;
    }
    /* IN_TURN must be clearly faster than PAGE_BY_PAGE to be chosen, because on some machines
     * IN_TURN can be much slower. No such margin applies between IN_TURN and PLAIN, because the
     * measurement already favours PLAIN. */
    enum way way = ways[narrower ? best[1] < best[0] : best[1] < best[0] + best[0] / 8];
    if (ferryi_page_faults() == faults)
        atomic_store_explicit(&chosen[narrower], way, memory_order_relaxed);
    return way;
}

static bool
is_apart(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    return (uintptr_t)a + a_bytes <= (uintptr_t)b || (uintptr_t)b + b_bytes <= (uintptr_t)a;
}

/* Returns whether stores to this target should bypass the caches. They should if the target is
 * large and separate from the source. An in-place conversion reads the target anyway. */
static bool
is_worth_streaming(const char *target, size_t target_bytes, const char *source, size_t source_bytes,
                   size_t count)
{
    return count >= STREAM_FROM / (source_bytes + target_bytes) &&
           (uintptr_t)target % target_bytes == 0 &&
           is_apart(target, count * target_bytes, source, count * source_bytes);
}

void
ferryi_convert_array(ferryi_convert_loop *loop, void *target, size_t target_bytes,
                     const void *source, size_t source_bytes, size_t count)
{
    struct stretch stretch = {loop, target, source, target_bytes, source_bytes, count};
    if (is_worth_streaming(stretch.target, target_bytes, stretch.source, source_bytes, count)) {
        bool narrower = target_bytes < source_bytes;
        convert_plain(&stretch, (0 - (uintptr_t)target) % PAGE / target_bytes);
        enum way way = (enum way)atomic_load_explicit(&chosen[narrower], memory_order_relaxed);
        if (way == UNKNOWN)
            way = find_way(&stretch, narrower);
        convert_by(way, &stretch, stretch.count);
    }
    convert_plain(&stretch, stretch.count);
}

#else

void
ferryi_convert_array(ferryi_convert_loop *loop, void *target, size_t target_bytes,
                     const void *source, size_t source_bytes, size_t count)
{
    (void)target_bytes;
    (void)source_bytes;
    loop(target, source, count);
}

#endif
