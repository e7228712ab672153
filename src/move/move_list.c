/* SPDX-License-Identifier: MIT */
#include "src/move/move_inside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The parts of a move, and its buffers. */

void
ferryi_move_begin(struct ferryi_move *move, ferry_context *context, const char *reason,
                  struct ferryi_transfer_job *job)
{
    move->context = context;
    move->reason = reason;
    move->subject = NULL;
    move->layout = FERRYI_LAYOUT_ANY;
    move->change = FERRYI_CHANGE_OVERWRITE;
    move->covers = move->seen = false;
    move->written = 0;
    move->stream = NULL;
    move->host_side = (struct ferryi_host_side){0};
    move->value = "";
    move->value_bytes = 1;
    move->job = job;
    move->cut = false;
    move->timelines = 0;
    move->own = (struct ferryi_arena){0};
    move->arena = &move->own;
    move->parts = move->few_parts;
    move->stores = move->few_stores;
    move->count = move->store_count = 0;
    move->sorted = true;
    move->room = FERRYI_MOVE_FEW;
    move->store_room = sizeof(move->few_stores) / sizeof(move->few_stores[0]);
}

void
ferryi_move_end(struct ferryi_move *move)
{
    for (size_t i = 0; i < move->store_count; i++)
        if (move->stores[i].crossed > 0)
            ferryi_store_count_transfer(move->stores[i].store, move->stores[i].crossed);
    ferryi_arena_free(&move->own);
}

ferry_status
ferryi_move_expect(struct ferryi_move *move, size_t count)
{
    return ferryi_arena_grow(move->arena, &move->parts, &move->room, count, sizeof(*move->parts))
               ? FERRY_OK
               : ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for a list of %zu parts", count);
}

size_t
ferryi_move_find_store(const struct ferryi_move *move, const ferryi_store *store)
{
    size_t low = 0, high = move->store_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)move->stores[middle].store < (uintptr_t)store)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds a buffer to the list of those whose bytes are counted, if it is not in the list. */
static ferry_status
add_store(struct ferryi_move *move, const void *owner)
{
    ferryi_store *store = ferryi_part_store(owner);
    size_t at = store ? ferryi_move_find_store(move, store) : 0;
    if (!store || (at < move->store_count && move->stores[at].store == store))
        return FERRY_OK;
    if (!ferryi_arena_grow(move->arena, &move->stores, &move->store_room, move->store_count + 1,
                           sizeof(*move->stores)))
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for a list of %zu buffers",
                           move->store_count + 1);
    memmove(&move->stores[at + 1], &move->stores[at],
            (move->store_count - at) * sizeof(*move->stores));
    move->stores[at] = (struct ferryi_moved_store){.store = store};
    move->store_count++;
    return FERRY_OK;
}

static ferry_status
add_stores_of(struct ferryi_move *move, const struct ferryi_piece *part)
{
    FERRYI_OR_RETURN(add_store(move, part->source_owner));
    FERRYI_OR_RETURN(add_store(move, part->target_owner));
    return add_store(move, ferryi_part_buffer(move, part));
}

/* Adds the buffers of the part that is added next. A move with a single part needs no list, so
 * those of the first part are added with the second one. `last` is the last part, or NULL. */
static ferry_status
add_stores(struct ferryi_move *move, const struct ferryi_piece *last,
           const struct ferryi_piece *part)
{
    if (!last || (move->count > 1 && part->source_owner == last->source_owner &&
                  part->target_owner == last->target_owner))
        return FERRY_OK;
    if (move->count == 1)
        FERRYI_OR_RETURN(add_stores_of(move, move->parts));
    return add_stores_of(move, part);
}

/* Returns whether the part `next` continues the part `last` in both the source and the target, and
 * has the same properties. */
static bool
continues(const struct ferryi_piece *last, const struct ferryi_piece *next)
{
    return ferryi_part_sort(last) == ferryi_part_sort(next) &&
           last->target_owner == next->target_owner && last->source_owner == next->source_owner &&
           last->note == next->note && last->unit == next->unit &&
           (uintptr_t)last->target + last->bytes == (uintptr_t)next->target &&
           (last->zeros || (uintptr_t)last->source + last->bytes == (uintptr_t)next->source);
}

/* The replica of a buffer is one block of memory, so parts of the same sort that write the same
 * buffer are adjacent, too. */
static int
by_sort_and_target(const void *a, const void *b)
{
    const struct ferryi_piece *x = a, *y = b;
    const int order = ferryi_compare(ferryi_part_sort(x), ferryi_part_sort(y));
    return order ? order : ferryi_compare((uintptr_t)x->target, (uintptr_t)y->target);
}

ferry_status
ferryi_move_add(struct ferryi_move *move, const struct ferryi_piece *part)
{
    assert(part->bytes > 0);
    FERRYI_OR_RETURN(ferryi_move_expect(move, move->count + 1));
    struct ferryi_piece *last = move->count > 0 ? &move->parts[move->count - 1] : NULL;
    if (last && !move->host_side.transform && continues(last, part)) {
        last->bytes += part->bytes;
        return FERRY_OK;
    }
    FERRYI_OR_RETURN(add_stores(move, last, part));
    if (part->target_owner && !move->covers)
        FERRYI_OR_RETURN(ferryi_store_reserve_changes(ferryi_part_store(part->target_owner), 1));
    move->sorted = !last || (move->sorted && by_sort_and_target(last, part) <= 0);
    assert(move->parts);
    move->parts[move->count++] = *part;
    return FERRY_OK;
}

void
ferryi_move_sort(struct ferryi_move *move)
{
    if (!move->sorted)
        qsort(move->parts, move->count, sizeof(*move->parts), by_sort_and_target);
}

ferry_status
ferryi_group_each_store(const struct ferryi_group *group,
                        ferry_status (*visit)(const struct ferryi_group *group, ferryi_store *store,
                                              bool is_target))
{
    const void *source = NULL, *target = NULL;
    FERRYI_EACH_PART (group, part) {
        if (part->source_owner && part->source_owner != source)
            FERRYI_OR_RETURN(visit(group, ferryi_part_store(part->source_owner), false));
        if (part->target_owner && part->target_owner != target)
            FERRYI_OR_RETURN(visit(group, ferryi_part_store(part->target_owner), true));
        source = part->source_owner;
        target = part->target_owner;
    }
    return FERRY_OK;
}
