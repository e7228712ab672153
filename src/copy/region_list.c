/* SPDX-License-Identifier: MIT */
#include "src/copy/region_list.h"

#include <stdlib.h>
#include <string.h>

#include "src/copy/plan.h"

#define VALUE_ALIGN 16

static void
list_free(struct ferryi_async *call)
{
    struct ferryi_region_list *list = (struct ferryi_region_list *)call;
    ferryi_arena_free(&list->whole.arena);
    free(list);
}

static ferry_status
fail_memory(size_t count)
{
    return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "copy: no memory for a list of %zu regions",
                       count);
}

/* -- what the list keeps ----------------------------------------------------------------------- */

static size_t
aligned(size_t bytes)
{
    return (bytes + VALUE_ALIGN - 1) / VALUE_ALIGN * VALUE_ALIGN;
}

static size_t
path_bytes(const char *path)
{
    return path ? aligned(strlen(path) + 1) : 0;
}

static size_t
value_bytes(const struct ferryi_region *region)
{
    return region->kind == FERRYI_REGION_FILL ? aligned(region->source.element->bytes) : 0;
}

static const void *
keep(unsigned char **at, const void *from, size_t bytes)
{
    const void *kept = memcpy(*at, from, bytes);
    *at += aligned(bytes);
    return kept;
}

/* Copies the caller's regions, with their file paths and fill values, into the list. If a worker
 * thread runs the list later, the caller may already have freed or changed the originals. */
static ferry_status
keep_regions(struct ferryi_region_list *list, const struct ferryi_region *regions, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += path_bytes(regions[i].target.path) + path_bytes(regions[i].source.path) +
                 value_bytes(&regions[i]);
    list->regions = ferryi_arena_take(&list->whole.arena, count, sizeof(*list->regions));
    list->kept = ferryi_arena_take(&list->whole.arena, bytes, 1);
    if (!list->regions || !list->kept)
        return fail_memory(count);
    memcpy(list->regions, regions, count * sizeof(*regions));
    list->count = count;
    unsigned char *at = list->kept;
    for (size_t i = 0; i < count; i++) {
        struct ferryi_region *region = &list->regions[i];
        if (region->target.path)
            region->target.path = keep(&at, region->target.path, strlen(region->target.path) + 1);
        if (region->source.path)
            region->source.path = keep(&at, region->source.path, strlen(region->source.path) + 1);
        if (region->kind == FERRYI_REGION_FILL)
            region->value = keep(&at, region->value, region->source.element->bytes);
    }
    return FERRY_OK;
}

/* -- claims ------------------------------------------------------------------------------------ */

static size_t
add_uses(const struct ferryi_region *region, const struct ferryi_region_side *side, bool writes,
         struct ferryi_use *uses)
{
    size_t rows = side->store ? ferryi_region_rows(region) : 0;
    if (region->count == 0)
        return 0;
    for (size_t row = 0; row < rows; row++) {
        struct ferryi_range range = ferryi_region_row(region, side, row);
        uses[row] = (struct ferryi_use){
            .space = side->store, .begin = range.begin, .end = range.end, .writes = writes};
    }
    return rows;
}

static ferry_status
make_claims(struct ferryi_region_list *list)
{
    size_t room = 0, count = 0;
    for (size_t i = 0; i < list->count; i++)
        if (!ferryi_add_size(room, ferryi_region_rows(&list->regions[i]), &room) ||
            room > SIZE_MAX / 4 / sizeof(struct ferryi_use))
            return fail_memory(list->count);
    struct ferryi_arena *arena = &list->whole.arena;
    struct ferryi_use *uses = ferryi_arena_take(arena, 2 * room, sizeof(*uses));
    if (!uses)
        return fail_memory(list->count);
    for (size_t i = 0; i < list->count; i++) {
        count += add_uses(&list->regions[i], &list->regions[i].source, false, uses + count);
        count += add_uses(&list->regions[i], &list->regions[i].target, true, uses + count);
    }
    ferryi_levels_sort(arena, uses, count);
    return ferryi_claim_list_make(&list->whole.claims, arena, uses, count, "copy");
}

/* -- running ----------------------------------------------------------------------------------- */

/* Runs `count` consecutive plain regions as one plan (plan.c), which submits their copies together.
 * A plain region copies between memory and buffers without converting. */
static ferry_status
run_plain(struct ferryi_region_list *list, const struct ferryi_region *regions, size_t count)
{
    const struct ferryi_plan_options options = {
        .reason = "copy",
        .layout =
            count == 1 && ferryi_region_rows(regions) > 1 ? FERRYI_LAYOUT_ROWS : FERRYI_LAYOUT_ANY,
        .whole = &list->whole};
    return ferryi_plan_regions(list->setting.context, regions, count, list->setting.place,
                               &options);
}

/* Marks the targets of a failed call as lost, as the failure of a launch does with what it writes.
 * The next call that reads them returns the failure. */
static void
lose_targets(const struct ferryi_region_list *list, ferry_status status)
{
    FERRYI_KEEP_ERROR(why);
    for (size_t i = 0; i < list->count; i++) {
        const struct ferryi_region *region = &list->regions[i];
        size_t rows = region->target.store && region->count > 0 ? ferryi_region_rows(region) : 0;
        for (size_t row = 0; row < rows; row++) {
            struct ferryi_range range = ferryi_region_row(region, &region->target, row);
            ferryi_store_lose_value(region->target.store, range, status, ferry_last_error());
        }
    }
}

static ferry_status
run_regions(struct ferryi_whole_call *whole)
{
    struct ferryi_region_list *list = (struct ferryi_region_list *)whole;
    ferry_status status = FERRY_OK;
    for (size_t i = 0, next; i < list->count && status == FERRY_OK; i = next) {
        const struct ferryi_region *region = &list->regions[i];
        for (next = i + 1; region->kind == FERRYI_REGION_PLAIN && next < list->count &&
                           list->regions[next].kind == FERRYI_REGION_PLAIN;)
            next++;
        status = region->kind == FERRYI_REGION_PLAIN ? run_plain(list, region, next - i)
                                                     : ferryi_region_run(list, region);
        if (status != FERRY_OK && list->setting.many && next == i + 1)
            ferryi_fail_in(status, "region %zu", region->index);
        else if (status != FERRY_OK && list->setting.many)
            ferryi_fail_in(status, "regions %zu to %zu", region->index,
                           list->regions[next - 1].index);
    }
    if (status != FERRY_OK && list->setting.many)
        ferryi_fail_in(status, "%zu of %zu bytes arrived", list->whole.job.done,
                       list->whole.job.total);
    if (status != FERRY_OK && ferryi_caller_never_waits(list->setting.caller))
        lose_targets(list, status);
    return status;
}

static ferry_status
list_make(const struct ferryi_region_setting *setting, const struct ferryi_region *regions,
          size_t count, struct ferryi_region_list **out)
{
    struct ferryi_region_list *list = calloc(1, sizeof(*list));
    if (!list)
        return fail_memory(count);
    list->setting = *setting;
    list->setting.transfer = NULL; /* list->whole has its own copy of the options */
    ferryi_whole_call_init(&list->whole, setting->context, "copy", setting->transfer);
    list->whole.run = run_regions;
    list->whole.async.free = list_free;
    for (size_t i = 0; i < count; i++)
        list->whole.job.total += ferryi_region_bytes(&regions[i]);
    ferry_status status = keep_regions(list, regions, count);
    if (status == FERRY_OK)
        status = make_claims(list);
    if (status != FERRY_OK)
        list_free(&list->whole.async);
    else
        *out = list;
    return status;
}

ferry_status
ferryi_region_list_do(const struct ferryi_region_setting *setting,
                      const struct ferryi_region *regions, size_t count)
{
    struct ferryi_region_list *list;
    ferry_status status = list_make(setting, regions, count, &list);
    return status == FERRY_OK ? ferryi_whole_call_do(&list->whole, setting->caller) : status;
}
