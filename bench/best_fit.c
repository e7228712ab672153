/* SPDX-License-Identifier: MIT */
#include "best_fit.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 256

struct hole {
    uint64_t offset, bytes;
};

struct holes {
    struct hole *items; /* sorted by offset; no two are adjacent */
    size_t count, room;
};

struct block {
    uint64_t offset, bytes;
    struct block *next; /* next unused struct; only in the list `idle` */
};

struct best_fit {
    uint64_t arena_bytes, live_bytes, peak_live_bytes;
    uint64_t takes, waits;
    struct holes *lists; /* by stream */
    uint32_t streams;
    struct block *idle;
    char why[200];
};

/* -- one list ---------------------------------------------------------------------------------- */

static void
insert_at(struct holes *holes, size_t at, struct hole hole)
{
    if (holes->count == holes->room) {
        holes->room = holes->room ? 2 * holes->room : 64;
        holes->items = realloc(holes->items, holes->room * sizeof(*holes->items));
        if (!holes->items)
            abort();
    }
    assert(holes->items);
    memmove(&holes->items[at + 1], &holes->items[at],
            (holes->count++ - at) * sizeof(*holes->items));
    holes->items[at] = hole;
}

static void
erase_at(struct holes *holes, size_t at)
{
    memmove(&holes->items[at], &holes->items[at + 1],
            (--holes->count - at) * sizeof(*holes->items));
}

/* Returns the index of the first hole (free block) whose offset is at least `offset`. */
static size_t
behind(const struct holes *holes, uint64_t offset)
{
    size_t low = 0, high = holes->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (holes->items[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Inserts a hole (a free block) into the list, and merges it with adjacent holes. */
static void
insert(struct holes *holes, struct hole hole)
{
    size_t at = behind(holes, hole.offset);
    struct hole *before = at > 0 ? &holes->items[at - 1] : NULL,
                *after = at < holes->count ? &holes->items[at] : NULL;
    bool joins_before = before && before->offset + before->bytes == hole.offset;
    bool joins_after = after && hole.offset + hole.bytes == after->offset;
    if (joins_before && joins_after) {
        before->bytes += hole.bytes + after->bytes;
        erase_at(holes, at);
    } else if (joins_before) {
        before->bytes += hole.bytes;
    } else if (joins_after) {
        *after = (struct hole){hole.offset, hole.bytes + after->bytes};
    } else {
        insert_at(holes, at, hole);
    }
}

/* Takes `bytes` bytes from the front of the smallest hole (free block) that is large enough. If
 * several holes have this size, takes the bytes from the first one. Returns false if no hole is
 * large enough. */
static bool
take_from(struct holes *holes, uint64_t bytes, uint64_t *out_offset)
{
    size_t best = SIZE_MAX;
    uint64_t best_bytes = UINT64_MAX;
    for (size_t i = 0; i < holes->count; i++) {
        if (holes->items[i].bytes >= bytes && holes->items[i].bytes < best_bytes) {
            best = i;
            best_bytes = holes->items[i].bytes;
        }
    }
    if (best == SIZE_MAX)
        return false;
    *out_offset = holes->items[best].offset;
    holes->items[best].offset += bytes;
    holes->items[best].bytes -= bytes;
    if (holes->items[best].bytes == 0)
        erase_at(holes, best);
    return true;
}

/* -- all lists --------------------------------------------------------------------------------- */

static bool
take_from_others(struct best_fit *fit, uint32_t stream, uint64_t bytes, uint64_t *out_offset)
{
    for (uint32_t i = 0; i < fit->streams; i++) {
        if (i != stream && take_from(&fit->lists[i], bytes, out_offset)) {
            fit->waits++;
            return true;
        }
    }
    return false;
}

static bool
merge_and_take(struct best_fit *fit, uint32_t stream, uint64_t bytes, uint64_t *out_offset)
{
    struct holes *own = &fit->lists[stream];
    for (uint32_t i = 0; i < fit->streams; i++) {
        struct holes *other = &fit->lists[i];
        if (i == stream || other->count == 0)
            continue;
        for (size_t k = 0; k < other->count; k++)
            insert(own, other->items[k]);
        other->count = 0;
        fit->waits++;
        if (take_from(own, bytes, out_offset))
            return true;
    }
    return false;
}

static void
count_free(const struct best_fit *fit, uint64_t *out_free, uint64_t *out_largest)
{
    *out_free = *out_largest = 0;
    for (uint32_t i = 0; i < fit->streams; i++) {
        for (size_t k = 0; k < fit->lists[i].count; k++) {
            uint64_t bytes = fit->lists[i].items[k].bytes;
            *out_free += bytes;
            *out_largest = bytes > *out_largest ? bytes : *out_largest;
        }
    }
}

static struct block *
describe(struct best_fit *fit, uint64_t offset, uint64_t bytes)
{
    struct block *block = fit->idle;
    if (block)
        fit->idle = block->next;
    else if (!(block = malloc(sizeof(*block))))
        abort();
    *block = (struct block){offset, bytes, NULL};
    return block;
}

static void *
take(void *user, uint64_t bytes, uint32_t stream, uint64_t *out_given)
{
    struct best_fit *fit = user;
    uint64_t offset, need = (bytes + ALIGN - 1) / ALIGN * ALIGN, free_bytes, largest;
    stream %= fit->streams;
    if (!take_from(&fit->lists[stream], need, &offset) &&
        !take_from_others(fit, stream, need, &offset) &&
        !merge_and_take(fit, stream, need, &offset)) {
        count_free(fit, &free_bytes, &largest);
        snprintf(fit->why, sizeof(fit->why),
                 "take %" PRIu64 " bytes: free %" PRIu64 ", total %" PRIu64
                 ", largest free %" PRIu64 " bytes",
                 bytes, free_bytes, fit->arena_bytes, largest);
        return NULL;
    }
    fit->takes++;
    fit->live_bytes += need;
    fit->peak_live_bytes =
        fit->live_bytes > fit->peak_live_bytes ? fit->live_bytes : fit->peak_live_bytes;
    *out_given = need;
    return describe(fit, offset, need);
}

static void
give(void *user, void *given, uint32_t stream)
{
    struct best_fit *fit = user;
    struct block *block = given;
    insert(&fit->lists[stream % fit->streams], (struct hole){block->offset, block->bytes});
    fit->live_bytes -= block->bytes;
    block->next = fit->idle;
    fit->idle = block;
}

static void
look(void *user, struct allocator_state *out)
{
    const struct best_fit *fit = user;
    *out = (struct allocator_state){.reserved_bytes = fit->arena_bytes,
                                    .peak_reserved_bytes = fit->arena_bytes,
                                    .peak_given_bytes = fit->peak_live_bytes,
                                    .hits = fit->takes,
                                    .waits = fit->waits};
    count_free(fit, &out->free_bytes, &out->largest_free_bytes);
    if (out->free_bytes > 0)
        out->fragmentation = 1.0 - (double)out->largest_free_bytes / (double)out->free_bytes;
}

static const char *
why(void *user)
{
    return ((const struct best_fit *)user)->why;
}

static void
best_fit_close(void *user)
{
    struct best_fit *fit = user;
    for (struct block *next, *block = fit->idle; block; block = next) {
        next = block->next;
        free(block);
    }
    for (uint32_t i = 0; fit->lists && i < fit->streams; i++)
        free(fit->lists[i].items);
    free(fit->lists);
    free(fit);
}

bool
best_fit_open(const struct allocator_options *options, struct allocator *out)
{
    struct best_fit *fit = calloc(1, sizeof(*fit));
    if (!fit)
        return false;
    fit->arena_bytes = options->limit_bytes / ALIGN * ALIGN;
    fit->streams = options->streams == 0                      ? 1
                   : options->streams < ALLOCATOR_STREAMS_MAX ? options->streams
                                                              : ALLOCATOR_STREAMS_MAX;
    fit->lists = calloc(fit->streams, sizeof(*fit->lists));
    if (!fit->lists) {
        best_fit_close(fit);
        return false;
    }
    if (fit->arena_bytes > 0)
        insert(&fit->lists[0], (struct hole){0, fit->arena_bytes});
    *out = (struct allocator){"best-fit", fit, take, give, look, why, best_fit_close};
    return true;
}
