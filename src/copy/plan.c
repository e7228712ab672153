/* SPDX-License-Identifier: MIT */
#include "src/copy/plan.h"

#include <stdlib.h>
#include <string.h>

#include "src/copy/copy.h"
#include "src/transfer/levels.h"

/* Makes plans, which are lists of copies (plan.h). Divides the copies of a plan into levels, which
 * run one after another, and locks the ranges of each buffer. */

#define COPIES_MAX (UINT32_MAX / 4)

static void
free_plan(struct ferryi_async *call)
{
    ferryi_plan *plan = (ferryi_plan *)call;
    for (size_t i = 0; i < plan->middle_count; i++)
        ferryi_store_release(plan->middles[i]);
    ferryi_arena_free(&plan->call.arena);
    free(plan);
}

static ferry_status
fail_memory(size_t count)
{
    return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "plan %zu copies: no memory", count);
}

/* -- the copies -------------------------------------------------------------------------------- */

static ferry_status
add_rows(ferryi_plan *plan, const struct ferryi_region *region, bool between)
{
    size_t rows = ferryi_region_rows(region), bytes, count;
    size_t row_bytes = ferryi_region_row_bytes(region, &region->target);
    size_t source_bytes =
        plan->options.value ? 0 : ferryi_region_row_bytes(region, &region->source);
    if (!ferryi_add_size(plan->count, rows, &count) || count >= COPIES_MAX ||
        !ferryi_mul_size(rows, between ? 0 : row_bytes, &bytes) ||
        !ferryi_add_size(plan->call.job.total, bytes, &plan->call.job.total))
        return ferryi_fail(FERRY_ERROR_OVERFLOW,
                           "copy: more rows or bytes in all regions than can be counted");
    if (!ferryi_arena_grow(&plan->call.arena, &plan->copies, &plan->copy_room, count,
                           sizeof(*plan->copies)))
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "copy: no memory to list %zu rows", count);
    for (size_t row = 0; row < rows; row++)
        plan->copies[plan->count++] =
            (struct ferryi_row){region->target.store,
                                region->source.store,
                                ferryi_region_row(region, &region->target, row).begin,
                                ferryi_region_row(region, &region->source, row).begin,
                                row_bytes,
                                source_bytes,
                                (uint32_t)region->target.element->bytes,
                                between};
    return FERRY_OK;
}

/* Adds the two copies of a region whose source and target overlap: one into temporary storage, and
 * one from there to the target. */
static ferry_status
add_through_temporary(ferryi_plan *plan, const struct ferryi_region *region)
{
    size_t row_bytes = ferryi_region_row_bytes(region, &region->target);
    struct ferryi_region_side middle = {.row_pitch = row_bytes,
                                        .plane_pitch = row_bytes * region->rows,
                                        .element = region->target.element};
    if (!ferryi_arena_grow(&plan->call.arena, &plan->middles, &plan->middle_room,
                           plan->middle_count + 1, sizeof(*plan->middles)))
        return fail_memory(plan->count);
    FERRYI_OR_RETURN(ferryi_copy_make_middle(region->target.store, region->source.store,
                                             ferryi_region_bytes(region), &middle.store));
    plan->middles[plan->middle_count++] = middle.store;
    struct ferryi_region in = *region, out = *region;
    in.target = out.source = middle;
    ferry_status status = add_rows(plan, &in, true);
    return status == FERRY_OK ? add_rows(plan, &out, false) : status;
}

/* -- levels ------------------------------------------------------------------------------------ */

static struct ferryi_use
use_of(const struct ferryi_row *copies, size_t index, bool writes)
{
    const struct ferryi_row *copy = &copies[index];
    uintptr_t begin = writes ? copy->target : copy->source;
    return (struct ferryi_use){.space = writes ? copy->target_store : copy->source_store,
                               .begin = begin,
                               .end = begin + (writes ? copy->bytes : copy->source_bytes),
                               .copy = (uint32_t)index & INT32_MAX,
                               .writes = writes};
}

/* The byte ranges that the copies of a plan read and write. */
struct uses {
    struct ferryi_use *items;
    size_t count;
};

/* Returns whether no copy writes memory of the caller. Then what the copies read of such memory
 * cannot conflict, and is not listed. */
static bool
writes_buffers_only(const ferryi_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        if (!plan->copies[i].target_store)
            return false;
    return true;
}

/* Lists the byte ranges that the copies read and write. All reads are in one half of the list, and
 * all writes are in the other half. Each half is sorted. The half whose first buffer has the lower
 * address comes first, so that the list is sorted if each half is of one buffer. The reads are
 * listed in the order of the writes, which usually sorts them, too. */
static ferry_status
list_uses(ferryi_plan *plan, struct uses *out)
{
    struct ferryi_arena *arena = &plan->call.arena;
    const bool skips_memory = writes_buffers_only(plan);
    struct ferryi_use *both = ferryi_arena_take(arena, 3 * plan->count, sizeof(*both)), *reads;
    if (!both)
        return fail_memory(plan->count);
    const bool targets_last =
        (uintptr_t)plan->copies->source_store <= (uintptr_t)plan->copies->target_store;
    struct ferryi_use *writes = both + plan->count;
    for (size_t i = 0; i < plan->count; i++)
        writes[i] = use_of(plan->copies, i, true);
    ferryi_levels_sort(arena, writes, plan->count);
    reads = targets_last ? both : writes + plan->count;
    size_t read_count = 0;
    for (size_t i = 0; i < plan->count; i++)
        if (!skips_memory || plan->copies[writes[i].copy].source_store)
            reads[read_count++] = use_of(plan->copies, writes[i].copy, false);
    ferryi_levels_sort(arena, reads, read_count);
    if (targets_last && read_count < plan->count)
        memmove(writes - read_count, reads, read_count * sizeof(*reads));
    out->items = targets_last ? writes - read_count : writes;
    out->count = plan->count + read_count;
    return FERRY_OK;
}

/* Returns whether the copies are sorted by target. The writes in the list `uses` must be sorted by
 * target. */
static bool
is_sorted(const struct uses *uses)
{
    uint32_t next = 0;
    for (size_t i = 0; i < uses->count; i++)
        if (uses->items[i].writes && uses->items[i].copy != next++)
            return false;
    return true;
}

/* Sorts the copies by level, and by target within each level. The list `uses` must be sorted by
 * target. */
static ferry_status
sort_by_level(ferryi_plan *plan, const uint32_t *levels, const struct uses *uses)
{
    struct ferryi_arena *arena = &plan->call.arena;
    plan->level_ends =
        ferryi_arena_take_zeroed(arena, plan->level_count + 1, sizeof(*plan->level_ends));
    if (!plan->level_ends)
        return fail_memory(plan->count);
    if (plan->level_count == 1 && is_sorted(uses)) {
        plan->level_ends[0] = plan->count;
        return FERRY_OK;
    }
    struct ferryi_row *sorted = ferryi_arena_take(arena, plan->count, sizeof(*sorted));
    if (!sorted)
        return fail_memory(plan->count);
    for (size_t i = 0; i < plan->count; i++)
        plan->level_ends[levels[i] + 1]++;
    for (uint32_t level = 1; level <= plan->level_count; level++)
        plan->level_ends[level] += plan->level_ends[level - 1];
    /* Here, level_ends[i] is the index of the first copy of level i. The loop below increments it
     * once for each copy of the level. After the loop, level_ends[i] is the index after the level's
     * last copy. */
    for (size_t i = 0; i < uses->count; i++) {
        const struct ferryi_use *use = &uses->items[i];
        if (use->writes)
            sorted[plan->level_ends[levels[use->copy]]++] = plan->copies[use->copy];
    }
    plan->copies = sorted;
    return FERRY_OK;
}

/* Makes one range lock for each buffer of a plan. If the plan is one step of a longer call, its
 * locks are nested in the locks of that call. The longer call has locks on all buffers except
 * temporary storage. */
static ferry_status
make_claims(ferryi_plan *plan, const struct uses *uses)
{
    ferry_status status = ferryi_claim_list_make(&plan->call.claims, &plan->call.arena, uses->items,
                                                 uses->count, plan->options.reason);
    if (status == FERRY_OK && plan->options.whole)
        for (size_t i = 0; i < plan->call.claims.count; i++)
            plan->call.claims.items[i].under =
                ferryi_whole_call_claim(plan->options.whole, plan->call.claims.items[i].store);
    return status;
}

/* -- all of it --------------------------------------------------------------------------------- */

static ferry_status
make_levels(ferryi_plan *plan)
{
    struct ferryi_arena *arena = &plan->call.arena;
    struct uses uses;
    FERRYI_OR_RETURN(list_uses(plan, &uses));
    uint32_t *levels = ferryi_arena_take(arena, plan->count, sizeof(*levels));
    if (!levels)
        return fail_memory(plan->count);
    FERRYI_OR_RETURN(
        ferryi_levels_cut(arena, uses.items, uses.count, levels, plan->count, &plan->level_count));
    FERRYI_OR_RETURN(sort_by_level(plan, levels, &uses));
    return make_claims(plan, &uses);
}

ferry_status
ferryi_plan_begin(ferry_context *context, size_t count, const struct ferryi_plan_options *options,
                  ferryi_plan **out)
{
    ferryi_plan *plan = calloc(1, sizeof(*plan));
    if (!plan)
        return fail_memory(count);
    ferryi_whole_call_init(&plan->call, context, options->reason, options->transfer);
    plan->options = *options;
    plan->call.run = ferryi_plan_run;
    plan->call.async.free = free_plan;
    if (!ferryi_arena_grow(&plan->call.arena, &plan->copies, &plan->copy_room, count,
                           sizeof(*plan->copies))) {
        free_plan(&plan->call.async);
        return fail_memory(count);
    }
    *out = plan;
    return FERRY_OK;
}

ferry_status
ferryi_plan_add(ferryi_plan *plan, const struct ferryi_region *region)
{
    return ferryi_region_overlaps(region) ? add_through_temporary(plan, region)
                                          : add_rows(plan, region, false);
}

void
ferryi_plan_drop(ferryi_plan *plan)
{
    if (plan)
        free_plan(&plan->call.async);
}

ferry_status
ferryi_plan_do(ferryi_plan *plan, int place, struct ferryi_caller caller)
{
    plan->place = place;
    ferry_status status = plan->count > 0 ? make_levels(plan) : FERRY_OK;
    if (status == FERRY_OK)
        return ferryi_whole_call_do(&plan->call, caller);
    free_plan(&plan->call.async);
    return status;
}

ferry_status
ferryi_plan_regions(ferry_context *context, const struct ferryi_region *regions, size_t count,
                    int place, const struct ferryi_plan_options *options)
{
    ferryi_plan *plan;
    ferry_status status = ferryi_plan_begin(context, count, options, &plan);
    if (status != FERRY_OK)
        return status;
    for (size_t i = 0; i < count && status == FERRY_OK; i++)
        status = ferryi_plan_add(plan, &regions[i]);
    if (status == FERRY_OK)
        return ferryi_plan_do(plan, place, (struct ferryi_caller){0});
    ferryi_plan_drop(plan);
    return status;
}
