/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/copy/convert_copy.h"
#include "src/copy/plan.h"
#include "src/copy/region_list.h"
#include "src/transfer/engine.h"

/*
 * Converts the regions of a region list, row by row. The list claims all its ranges at once, and
 * each row is one step under these claims. Elements of files are converted in chunks of host
 * memory.
 */

#define CHUNK_BYTES ((size_t)1 << 20)

struct conversion_work {
    struct ferryi_region_list *list;
    struct ferryi_region region; /* its source may be replaced by fetched memory */
    struct ferryi_convert_call convert;
    struct ferryi_file file;
    void *chunk; /* temporary memory for elements of the file */
    size_t chunk_count;
};

static const void *
address(const struct ferryi_region_side *side, size_t at)
{
    return (const void *)(side->begin + at);
}

static struct ferryi_range
range_at(const struct ferryi_region_side *side, size_t at, size_t bytes)
{
    return (struct ferryi_range){side->begin + at, side->begin + at + bytes};
}

/* -- the source, fetched ----------------------------------------------------------------------- */

/*
 * Returns whether the whole source must be fetched to host memory before the target changes. This
 * is the case if the source and the target overlap. It is also the case if FERRY_CONVERT_CHECK
 * applies and the conversion has more than one step.
 */
static bool
must_fetch(const struct ferryi_region *region, ferry_convert_policy policy)
{
    if (!region->source.store)
        return false;
    bool several = ferryi_region_rows(region) > 1 || region->target.path;
    return (policy == FERRY_CONVERT_CHECK && several) || ferryi_region_overlaps(region);
}

/* Fails because the program cancelled a step, such as a fetch, that moves no bytes of the result.
 */
static ferry_status
fail_cancelled(const struct ferryi_region_list *list)
{
    return ferryi_fail(FERRY_ERROR_CANCELLED,
                       "convert a region: cancelled: %zu of %zu bytes arrived",
                       list->whole.job.done, list->whole.job.total);
}

static ferry_status
fetch(struct conversion_work *work, void **out_memory)
{
    struct ferryi_region_list *list = work->list;
    struct ferryi_region packed = work->region;
    size_t row_bytes = ferryi_region_row_bytes(&packed, &packed.source),
           bytes = row_bytes * ferryi_region_rows(&packed);
    void *memory = malloc(bytes);
    if (!memory)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "convert a region: no memory for its %zu bytes", bytes);
    *out_memory = memory;
    packed.kind = FERRYI_REGION_PLAIN;
    packed.target = (struct ferryi_region_side){.begin = (uintptr_t)memory,
                                                .row_pitch = row_bytes,
                                                .plane_pitch = row_bytes * packed.rows,
                                                .element = packed.source.element};
    struct ferryi_convert_quiet quiet;
    ferryi_convert_be_quiet(&quiet, &list->whole.job, &list->whole);
    const struct ferryi_plan_options options = {
        .reason = "convert", .layout = FERRYI_LAYOUT_ROWS, .whole = &quiet.whole};
    ferry_status status = ferryi_plan_regions(list->setting.context, &packed, 1, -1, &options);
    work->region.source = packed.target;
    return status == FERRY_ERROR_CANCELLED ? fail_cancelled(list) : status;
}

/* Checks the elements of all rows of a region before any byte of the target changes. */
static ferry_status
check_values(const struct conversion_work *work, const struct ferryi_region *region)
{
    const struct ferryi_region_side *side = &work->region.source;
    ferry_status status = FERRY_OK;
    for (size_t row = 0; row < ferryi_region_rows(region) && status == FERRY_OK; row++) {
        const void *source = address(side, ferryi_region_row_at(region, side, row));
        status = ferryi_conversion_apply(work->convert.conversion, NULL, source, region->count,
                                         FERRY_CONVERT_CHECK);
        if (status == FERRY_ERROR_OUT_OF_RANGE && ferry_error_index() < region->count)
            status = ferry_conversion_failed(work->convert.conversion,
                                             row * region->count + ferry_error_index());
    }
    return status;
}

/* -- rows -------------------------------------------------------------------------------------- */

/* Plans one converting copy and runs it under the claims of the longer call `whole`. */
static ferry_status
run_call(const struct conversion_work *work, struct ferryi_whole_call *whole, ferryi_store *target,
         struct ferryi_range to, ferryi_store *source, struct ferryi_range from)
{
    struct ferryi_copy_call call = {.whole = whole};
    ferry_status status = ferryi_convert_plan(&call, &work->convert, target, to, source, from,
                                              work->list->setting.place);
    return status == FERRY_OK ? ferryi_copy_run(&call) : status;
}

/* Converts `count` elements from host memory to the target of a region. */
static ferry_status
convert_from_memory(struct conversion_work *work, const void *source, size_t target_at,
                    size_t count)
{
    struct ferryi_region_list *list = work->list;
    const struct ferryi_region_side *target = &work->region.target;
    struct ferryi_range to = range_at(target, target_at, count * target->element->bytes);
    return target->store
               ? run_call(work, &list->whole, target->store, to, NULL, ferryi_copy_memory(source))
               : ferryi_convert_memory(list->setting.context->engine, (void *)to.begin, source,
                                       count, &work->convert, &list->whole.job);
}

static ferry_status
convert_row(struct conversion_work *work, size_t target_at, size_t source_at)
{
    const struct ferryi_region *region = &work->region;
    const struct ferryi_region_side *target = &region->target, *source = &region->source;
    return source->store
               ? run_call(work, &work->list->whole, target->store,
                          range_at(target, target_at, ferryi_region_row_bytes(region, target)),
                          source->store,
                          range_at(source, source_at, ferryi_region_row_bytes(region, source)))
               : convert_from_memory(work, address(source, source_at), target_at, region->count);
}

static ferry_status
load_chunk(struct conversion_work *work, size_t target_at, size_t source_at, size_t count)
{
    const struct ferryi_region_side *source = &work->region.source;
    size_t read;
    ferry_status status = ferryi_file_read(&work->file, source->file_offset + source_at,
                                           work->chunk, count * source->element->bytes, &read);
    return status == FERRY_OK ? convert_from_memory(work, work->chunk, target_at, count) : status;
}

/* Converts elements into the chunk, which is temporary host memory. The elements are not in the
 * file yet, so their bytes do not count as arrived. */
static ferry_status
convert_chunk(struct conversion_work *work, size_t source_at, size_t count)
{
    struct ferryi_region_list *list = work->list;
    const struct ferryi_region_side *source = &work->region.source;
    struct ferryi_convert_quiet quiet;
    ferry_status status;
    ferryi_convert_be_quiet(&quiet, &list->whole.job, &list->whole);
    if (source->store)
        status = run_call(work, &quiet.whole, NULL, ferryi_copy_memory(work->chunk), source->store,
                          range_at(source, source_at, count * source->element->bytes));
    else
        status = ferryi_convert_memory(list->setting.context->engine, work->chunk,
                                       address(source, source_at), count, &work->convert,
                                       &quiet.whole.job);
    return status == FERRY_ERROR_CANCELLED ? fail_cancelled(list) : status;
}

/* Converts elements and writes them to the file. Their bytes count as arrived when they are
 * written. */
static ferry_status
store_chunk(struct conversion_work *work, size_t target_at, size_t source_at, size_t count)
{
    struct ferryi_region_list *list = work->list;
    const struct ferryi_region_side *target = &work->region.target;
    size_t written = 0;
    ferry_status status = convert_chunk(work, source_at, count);
    if (status == FERRY_OK)
        status = ferryi_file_write(&work->file, target->file_offset + target_at, work->chunk,
                                   count * target->element->bytes, &written);
    return status == FERRY_OK
               ? ferryi_engine_reported(list->setting.context->engine, &list->whole.job, written)
               : status;
}

/* Converts a row whose source or target is a file, chunk by chunk. */
static ferry_status
pass_row(struct conversion_work *work, size_t target_at, size_t source_at)
{
    const struct ferryi_region *region = &work->region;
    ferry_status status = FERRY_OK;
    for (size_t done = 0, now; done < region->count && status == FERRY_OK; done += now) {
        size_t to = target_at + done * region->target.element->bytes,
               from = source_at + done * region->source.element->bytes;
        now = ferryi_min_size(work->chunk_count, region->count - done);
        status = region->target.path ? store_chunk(work, to, from, now)
                                     : load_chunk(work, to, from, now);
    }
    return status;
}

static ferry_status
convert_rows(struct conversion_work *work)
{
    const struct ferryi_region *region = &work->region;
    ferry_status status = FERRY_OK;
    for (size_t row = 0; row < ferryi_region_rows(region) && status == FERRY_OK; row++) {
        size_t target_at = ferryi_region_row_at(region, &region->target, row),
               source_at = ferryi_region_row_at(region, &region->source, row);
        status = work->chunk ? pass_row(work, target_at, source_at)
                             : convert_row(work, target_at, source_at);
    }
    return status;
}

static ferry_status
convert_file(struct conversion_work *work)
{
    struct ferryi_region_list *list = work->list;
    const struct ferryi_region *region = &work->region;
    size_t element_bytes =
        (region->target.path ? &region->target : &region->source)->element->bytes;
    work->chunk_count =
        ferryi_min_size(ferryi_max_size(CHUNK_BYTES / element_bytes, 1), work->region.count);
    work->chunk = malloc(work->chunk_count * element_bytes);
    if (!work->chunk)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "convert a file: no memory for %zu elements",
                           work->chunk_count);
    ferry_status status = ferryi_region_open_file(list, region, &work->file);
    if (status == FERRY_OK)
        status = convert_rows(work);
    status = ferryi_region_close_file(list, region, &work->file, status);
    free(work->chunk);
    return status;
}

ferry_status
ferryi_region_convert(struct ferryi_region_list *list, const struct ferryi_region *region)
{
    struct conversion_work work = {
        .list = list, .region = *region, .convert = {&region->conversion, list->setting.policy}};
    const bool checks = list->setting.policy == FERRY_CONVERT_CHECK;
    void *fetched = NULL;
    ferry_status status =
        must_fetch(region, list->setting.policy) ? fetch(&work, &fetched) : FERRY_OK;
    if (status == FERRY_OK && checks && !work.region.source.store)
        status = check_values(&work, region);
    if (status == FERRY_OK)
        status =
            region->target.path || region->source.path ? convert_file(&work) : convert_rows(&work);
    free(fetched);
    return status;
}
