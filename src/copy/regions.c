/* SPDX-License-Identifier: MIT */
#include "src/copy/regions.h"

#include <stdlib.h>

#include <ferry/generated.h>

#include "src/base/callback.h"
#include "src/copy/async.h"
#include "src/copy/convert_copy.h"
#include "src/copy/plan.h"
#include "src/copy/region_list.h"

/* Implements ferry_copy(): checks all regions of the call and chooses the function that runs them.
 */

static const char what[] = "copy";

bool
ferryi_region_overlaps(const struct ferryi_region *region)
{
    const struct ferryi_region_side *target = &region->target, *source = &region->source;
    size_t rows = ferryi_region_rows(region);
    if (!target->store || target->store != source->store)
        return false;
    /* The rows of the source are in ascending order of their offsets, and so are the rows of the
     * target. So one pass over both finds an overlap. */
    for (size_t i = 0, j = 0; i < rows && j < rows;) {
        struct ferryi_range x = ferryi_region_row(region, target, i),
                            y = ferryi_region_row(region, source, j);
        if (ferryi_overlap(x.begin, x.end, y.begin, y.end))
            return true;
        if (x.begin < y.begin)
            i++;
        else
            j++;
    }
    return false;
}

/* -- one row ----------------------------------------------------------------------------------- */

static ferry_status
copy_row(const struct ferryi_region *region, const struct ferryi_region_setting *setting)
{
    const struct ferryi_convert_call convert = {setting->context, &region->conversion,
                                                setting->policy};
    struct ferryi_copy_call call = {.options = setting->transfer};
    ferry_status status = ferryi_region_plan_row(region, 0, &convert, setting->place, &call);
    return status == FERRY_OK ? ferryi_async_run(&call, setting->caller) : status;
}

/* Returns whether the region can run as a single copy or fill of one contiguous range. */
static bool
is_one_call(const struct ferryi_region *region, struct ferryi_caller caller)
{
    if (ferryi_region_rows(region) > 1)
        return false;
    switch (region->kind) {
    case FERRYI_REGION_SELF:
    case FERRYI_REGION_PLAIN:
        return true;
    case FERRYI_REGION_FILL:
        return !region->converts;
    case FERRYI_REGION_CONVERT:
        return !caller.goes_on && !region->target.path && !region->source.path &&
               !ferryi_region_overlaps(region);
    default:
        return false;
    }
}

static ferry_context *
context_of(const struct ferryi_region *region)
{
    return (region->target.store ? region->target.store : region->source.store)->context;
}

static ferry_status
check_context(const struct ferryi_region *region, const struct ferryi_region_setting *setting)
{
    const ferryi_store *both[] = {region->target.store, region->source.store};
    for (size_t i = 0; i < 2; i++)
        if (both[i] && both[i]->context != setting->context)
            return ferryi_fail(
                FERRY_ERROR_WRONG_CONTEXT,
                "%s: buffer \"%s\" belongs to another context than the first buffer of the call",
                what, ferryi_store_name(both[i]));
    return FERRY_OK;
}

/* Checks region number `index` of a ferry_copy() call, and adds its bytes to `*total`. The first
 * region determines the context of the call. */
static ferry_status
check_region(const ferry_copy_region *from, size_t index, struct ferryi_region_setting *setting,
             size_t *total, struct ferryi_region *out)
{
    *out = (struct ferryi_region){.index = index};
    ferry_status status = ferryi_region_check(&from[index], setting, out);
    if (status == FERRY_OK && !setting->context)
        setting->context = context_of(out);
    if (status == FERRY_OK)
        status = check_context(out, setting);
    if (status == FERRY_OK && !ferryi_add_size(*total, ferryi_region_bytes(out), total))
        status = ferryi_fail(FERRY_ERROR_OVERFLOW,
                             "%s: the bytes of all regions are more than size_t holds", what);
    if (status != FERRY_OK && setting->many)
        return ferryi_fail_in(status, "region %zu", index);
    return status;
}

/* Sets `setting->place` to the place of the stream in the call's options. Must be called after the
 * check of the first region, because that check sets `setting->context`. */
static ferry_status
find_place(struct ferryi_region_setting *setting)
{
    return ferryi_async_place(setting->context, setting->transfer, what, &setting->place);
}

/* -- a list of any regions --------------------------------------------------------------------- */

/* Checks all regions of a call. Stores the regions that have something to copy in the array
 * `regions`. */
static ferry_status
check_all(const ferry_copy_region *from, size_t count, struct ferryi_region_setting *setting,
          struct ferryi_region *regions, size_t *out_count)
{
    size_t total = 0, kept = 0;
    for (size_t i = 0; i < count; i++) {
        FERRYI_OR_RETURN(check_region(from, i, setting, &total, &regions[kept]));
        kept += regions[kept].kind != FERRYI_REGION_NOTHING;
    }
    *out_count = kept;
    return FERRY_OK;
}

static ferry_status
copy_list(const ferry_copy_region *from, size_t count, struct ferryi_region_setting *setting)
{
    size_t kept = 0;
    struct ferryi_region *regions = calloc(count, sizeof(*regions));
    if (!regions)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "%s: no memory for a list of %zu regions",
                           what, count);
    ferry_status status = check_all(from, count, setting, regions, &kept);
    if (status == FERRY_OK)
        status = find_place(setting);
    if (status == FERRY_OK)
        status = kept > 0 ? ferryi_region_list_do(setting, regions, kept)
                          : ferryi_async_finished(setting->context, setting->caller);
    free(regions);
    return status;
}

/* -- a plan of plain regions ------------------------------------------------------------------- */

/* Adds a checked region without fill, conversion or file to the plan. Creates the plan if `*plan`
 * is NULL. */
static ferry_status
add_to_plan(const struct ferryi_region *region, size_t count,
            const struct ferryi_region_setting *setting, ferryi_plan **plan)
{
    const struct ferryi_plan_options options = {.reason = what,
                                                .layout = setting->many ? FERRYI_LAYOUT_ANY
                                                                        : FERRYI_LAYOUT_ROWS,
                                                .transfer = setting->transfer};
    ferry_status status =
        *plan ? FERRY_OK : ferryi_plan_begin(setting->context, count, &options, plan);
    return status == FERRY_OK ? ferryi_plan_add(*plan, region) : status;
}

/* Checks the regions and adds them to a plan, which is a list of copies. Stops at the first region
 * that fills, converts or uses a file. The checked regions are not stored in an array: for many
 * small regions, the array would cost more than the copies. */
static ferry_status
plan_plain(const ferry_copy_region *from, size_t count, struct ferryi_region_setting *setting,
           ferryi_plan **plan, bool *out_plain)
{
    struct ferryi_region region;
    const ferry_copy_region *before = NULL; /* the region that was checked last, if it is plain */
    ferry_status status = FERRY_OK;
    size_t total = 0;
    *out_plain = true;
    for (size_t i = 0; i < count && *out_plain && status == FERRY_OK; i++) {
        if (!before || !ferryi_region_check_alike(&from[i], before, &region))
            status = check_region(from, i, setting, &total, &region);
        before = NULL;
        if (status == FERRY_OK && region.kind == FERRYI_REGION_PLAIN) {
            before = &from[i];
            status = add_to_plan(&region, count, setting, plan);
        } else if (status == FERRY_OK) {
            *out_plain = region.kind == FERRYI_REGION_NOTHING;
        }
    }
    return status;
}

/* -- all of them ------------------------------------------------------------------------------- */

static ferry_status
copy_one(const ferry_copy_region *from, struct ferryi_region_setting *setting)
{
    struct ferryi_region region;
    size_t total = 0;
    ferryi_plan *plan = NULL;
    FERRYI_OR_RETURN(check_region(from, 0, setting, &total, &region));
    FERRYI_OR_RETURN(find_place(setting));
    if (region.kind == FERRYI_REGION_NOTHING)
        return ferryi_async_finished(setting->context, setting->caller);
    if (is_one_call(&region, setting->caller))
        return copy_row(&region, setting);
    if (region.kind != FERRYI_REGION_PLAIN)
        return ferryi_region_list_do(setting, &region, 1);
    ferry_status status = add_to_plan(&region, 1, setting, &plan);
    if (status == FERRY_OK)
        return ferryi_plan_do(plan, setting->place, setting->caller);
    ferryi_plan_drop(plan);
    return status;
}

static ferry_status
copy_many(const ferry_copy_region *from, size_t count, struct ferryi_region_setting *setting)
{
    ferryi_plan *plan = NULL;
    bool plain;
    ferry_status status = plan_plain(from, count, setting, &plan, &plain);
    if (status == FERRY_OK && plain)
        status = find_place(setting);
    if (status == FERRY_OK && plain && plan)
        return ferryi_plan_do(plan, setting->place, setting->caller);
    ferryi_plan_drop(plan);
    if (status != FERRY_OK)
        return status;
    if (!plain)
        return copy_list(from, count, setting);
    return ferryi_async_finished(setting->context, setting->caller);
}

/* Runs a copy call without regions. Such a call has no buffer, so its event is created in the
 * context of the stream. */
static ferry_status
copy_no_regions(const ferry_copy_options *options, struct ferryi_caller caller)
{
    if (!caller.event)
        return FERRY_OK;
    if (!options || !options->stream)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: an asynchronous call of no regions needs a stream, for its context",
                           what);
    ferry_status status = ferryi_stream_check(options->stream, what);
    return status == FERRY_OK ? ferryi_async_finished(options->stream->context, caller) : status;
}

/* Returns whether the rest of a buffer determines the count of a region. */
static bool
has_rest(const ferry_copy_region *regions, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (regions[i].count == FERRY_REST)
            return true;
    return false;
}

static ferry_status
try_copy(const ferry_copy_region *regions, size_t count, const ferry_copy_options *options,
         struct ferryi_caller caller)
{
    struct ferryi_region_setting setting = {.place = -1,
                                            .policy = FERRY_CONVERT_SATURATE,
                                            .many = count > 1,
                                            .transfer = options,
                                            .caller = caller};
    if (count > 0 && !regions)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the array of %zu regions is NULL",
                           what, count);
    FERRYI_OR_RETURN(ferryi_async_check_policy(options, what));
    if (count == 0)
        return copy_no_regions(options, caller);
    if (options && options->convert)
        setting.policy = options->convert;
    /* The list alone knows its targets after a failure, which it marks as lost then. */
    if (ferryi_caller_never_waits(caller))
        return copy_list(regions, count, &setting);
    return count == 1 ? copy_one(regions, &setting) : copy_many(regions, count, &setting);
}

ferry_status
ferryi_regions_copy(const ferry_copy_region *regions, size_t count,
                    const ferry_copy_options *options, struct ferryi_caller caller)
{
    ferry_status status = ferryi_callback_check("copy");
    if (status != FERRY_OK)
        return status;
    do
        status = try_copy(regions, count, options, caller);
    while (ferryi_buffer_starts_over(status, FERRY_REST) && has_rest(regions, count));
    return status;
}

/* Returns whether one side of a copy is plain memory with the buffer's element type. A side whose
 * element type is NULL has the buffer's type. */
static bool
is_plain(const ferry_copy_side *memory, const ferry_buffer *buffer)
{
    return !memory->buffer && !memory->path && memory->memory &&
           (!memory->element || memory->element->identity == buffer->identity);
}

/* Runs a simple region with one of the functions in shortcuts.c. A simple region is a fill, or one
 * row without pitches between a buffer and memory, or between two buffers with the same element
 * type. Returns false for all other regions. */
static bool
copy_simple(const ferry_copy_region *region, const ferry_copy_options *options, ferry_status *out)
{
    const ferry_copy_side *to = &region->target, *from = &region->source;
    if (region->rows > 1 || region->planes > 1 || region->conversion || to->path || from->path ||
        (to->row_pitch | to->plane_pitch | from->row_pitch | from->plane_pitch) != 0 ||
        (options && (unsigned)options->convert > FERRY_CONVERT_TRUNCATE))
        return false;
    if (to->buffer && from->buffer) {
        if (to->memory || from->memory || region->value ||
            to->buffer->identity != from->buffer->identity ||
            (to->element && to->element->identity != to->buffer->identity))
            return false;
        *out = ferry_buffer_copy(to->buffer, from->element, to->offset, from->buffer, from->offset,
                                 region->count, options);
    } else if (to->buffer && region->value) {
        if (to->memory || from->memory ||
            (from->element && from->element->identity != to->buffer->identity))
            return false;
        *out = ferry_buffer_fill(to->buffer, to->element, to->offset, region->count, region->value,
                                 options);
    } else if (to->buffer) {
        if (to->memory || !is_plain(from, to->buffer) || from->offset)
            return false;
        *out = ferry_buffer_copy_from(to->buffer, to->element, to->offset, region->count,
                                      from->memory, options);
    } else {
        if (!from->buffer || from->memory || region->value || !is_plain(to, from->buffer) ||
            to->offset)
            return false;
        *out = ferry_buffer_copy_to(from->buffer, from->element, from->offset, region->count,
                                    to->memory, options);
    }
    return true;
}

ferry_status
ferry_copy(const ferry_copy_region *regions, size_t count, const ferry_copy_options *options)
{
    ferry_status status;
    if (count == 1 && regions && copy_simple(regions, options, &status))
        return status;
    status = ferryi_regions_copy(regions, count, options, (struct ferryi_caller){0});
    /* The asm statement prevents a tail call, which would remove this function's frame. With debug
     * checks, Ferry finds the program's call site through this frame. */
    __asm__ volatile("" : "+r"(status));
    return status;
}

ferry_status
ferry_copy_async(const ferry_copy_region *regions, size_t count, const ferry_copy_options *options,
                 ferry_event **event)
{
    ferry_status status =
        ferryi_regions_copy(regions, count, options, (struct ferryi_caller){true, event});
    __asm__ volatile("" : "+r"(status)); /* no tail call, as in ferry_copy() */
    return status;
}

/* Sets *out to the options with the policy of a function of a generated header. */
static ferry_status
set_policy(const ferry_copy_options *options, ferry_convert_policy policy, ferry_copy_options *out)
{
    *out = options ? *options : (ferry_copy_options){0};
    if (policy == FERRY_CONVERT_NONE)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: a conversion needs a policy, and FERRY_CONVERT_NONE is none", what);
    if (out->convert && out->convert != policy)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: the policy is %d, but options.convert is %d; leave that "
                           "FERRY_CONVERT_NONE",
                           what, (int)policy, (int)out->convert);
    out->convert = policy;
    return FERRY_OK;
}

ferry_status
ferry_copy_converting(const ferry_copy_region *region, ferry_convert_policy policy,
                      const ferry_copy_options *options)
{
    ferry_copy_options converting;
    ferry_status status = set_policy(options, policy, &converting);
    return status == FERRY_OK ? ferry_copy(region, 1, &converting) : status;
}

ferry_status
ferry_copy_converting_async(const ferry_copy_region *region, ferry_convert_policy policy,
                            const ferry_copy_options *options, ferry_event **event)
{
    ferry_copy_options converting;
    ferry_status status = set_policy(options, policy, &converting);
    return status == FERRY_OK ? ferry_copy_async(region, 1, &converting, event) : status;
}
