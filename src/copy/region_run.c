/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>

#include "src/copy/convert_copy.h"
#include "src/copy/plan.h"
#include "src/copy/region_list.h"

/*
 * Runs those regions of a region list that fill a buffer, load a file, store into a file, or
 * convert. Each row of a region is a separate step. All steps run under the range locks of the
 * list. Elements of files are converted in chunks of host memory.
 */

#define CHUNK_BYTES ((size_t)1 << 20)

/* -- rows -------------------------------------------------------------------------------------- */

ferry_status
ferryi_region_plan_row(const struct ferryi_region *region, size_t row,
                       const struct ferryi_convert_call *convert, int place,
                       struct ferryi_copy_call *call)
{
    const struct ferryi_region_side *target = &region->target, *source = &region->source;
    struct ferryi_range to = ferryi_region_row(region, target, row),
                        from = ferryi_region_row(region, source, row);
    call->unit = target->element->bytes;
    if (region->kind == FERRYI_REGION_FILL)
        ferryi_copy_plan_fill(call, target->store, to, region->value, target->element->bytes,
                              place);
    else if (region->kind == FERRYI_REGION_CONVERT)
        return ferryi_convert_plan(call, convert, target->store, to, source->store, from, place);
    else
        ferryi_copy_plan(call, target->store, to, source->store, from, place);
    return FERRY_OK;
}

/* Copies the rows of a region together, as a plan under the locks of the list. The plan's options
 * are `how`, with those members set that are the same for all regions. */
static ferry_status
run_rows(struct ferryi_region_list *list, const struct ferryi_region *region,
         struct ferryi_plan_options how)
{
    how.layout = FERRYI_LAYOUT_ROWS;
    how.whole = &list->whole;
    return region->count > 0
               ? ferryi_plan_regions(list->setting.context, region, 1, list->setting.place, &how)
               : FERRY_OK;
}

/* Reports the rows of a region whose source and target are the same bytes. */
static ferry_status
run_onto_itself(struct ferryi_region_list *list, const struct ferryi_region *region)
{
    ferry_status status = FERRY_OK;
    for (size_t row = 0; row < ferryi_region_rows(region) && status == FERRY_OK; row++) {
        struct ferryi_copy_call call = {.whole = &list->whole};
        status = ferryi_region_plan_row(region, row, NULL, list->setting.place, &call);
        if (status == FERRY_OK)
            status = ferryi_copy_run(&call);
    }
    return status;
}

/* -- fills ------------------------------------------------------------------------------------- */

static ferry_status
fill_with(struct ferryi_region_list *list, const struct ferryi_region *region, const void *value)
{
    const struct ferryi_plan_options how = {
        .reason = "fill", .value = value, .value_bytes = region->target.element->bytes};
    return run_rows(list, region, how);
}

static ferry_status
fill(struct ferryi_region_list *list, const struct ferryi_region *region)
{
    if (!region->converts)
        return fill_with(list, region, region->value);
    void *value = malloc(region->target.element->bytes);
    if (!value)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "fill: no memory for a converted value of %zu bytes",
                           region->target.element->bytes);
    ferry_status status =
        ferryi_conversion_apply(&region->conversion, value, region->value, 1, list->setting.policy);
    if (status == FERRY_OK)
        status = fill_with(list, region, value);
    free(value);
    return status;
}

/* -- files ------------------------------------------------------------------------------------- */

static const struct ferryi_region_side *
file_side(const struct ferryi_region *region)
{
    return region->target.path ? &region->target : &region->source;
}

/* Opens the file of a region and checks its size. */
static ferry_status
open_file(const struct ferryi_region_list *list, const struct ferryi_region *region,
          struct ferryi_file *out)
{
    const struct ferryi_region_side *side = file_side(region);
    bool writes = side == &region->target;
    *out = FERRYI_FILE_CLOSED;
    ferry_status status =
        ferryi_file_open(out, side->path, writes ? FERRYI_FILE_WRITE : FERRYI_FILE_READ,
                         list->whole.options.file_direct);
    if (status == FERRY_OK && !writes)
        status = ferryi_file_expect(out, side->file_offset, ferryi_region_span(region, side));
    return status;
}

/* Closes the file of a region. `before` is the progress of the list when the file was opened, and
 * `status` the status of the copy so far. If the copy failed, the function returns this status.
 * Otherwise it first checks that an input file did not change, or makes an output file end after
 * the region's last byte. */
static ferry_status
close_file(const struct ferryi_region_list *list, const struct ferryi_region *region,
           struct ferryi_file *file, size_t before, ferry_status status)
{
    const struct ferryi_region_side *side = file_side(region);
    bool writes = side == &region->target;
    if (status == FERRY_OK) {
        ferryi_file_note_direct(&list->setting.context->log, file, list->whole.options.file_direct);
        if (!writes)
            status = ferryi_file_check_unchanged(file);
        else if (!list->whole.options.file_keep_rest)
            status = ferryi_file_end_at(file, side->file_offset + ferryi_region_span(region, side));
    }
    status = ferryi_file_end(file, status);
    if (status == FERRY_OK)
        return FERRY_OK;
    size_t index = ferry_error_index();
    ferryi_fail_in(status, "%s %zu bytes at offset %llu, %zu of %zu bytes of which arrived",
                   ferryi_copy_file_reason(writes),
                   ferryi_region_rows(region) * ferryi_region_row_bytes(region, side),
                   (unsigned long long)side->file_offset, list->whole.job.done - before,
                   ferryi_region_bytes(region));
    ferryi_fail_index(index);
    return status;
}

static ferry_status
pass_file(struct ferryi_region_list *list, const struct ferryi_region *region)
{
    struct ferryi_file file;
    const struct ferryi_plan_options how = {.reason = ferryi_copy_file_reason(region->target.path),
                                            .host_side = {.file = &file,
                                                          .offset = file_side(region)->file_offset,
                                                          .stores = region->target.path}};
    const size_t before = list->whole.job.done;
    ferry_status status = open_file(list, region, &file);
    if (status == FERRY_OK)
        status = run_rows(list, region, how);
    return close_file(list, region, &file, before, status);
}

/* -- conversions ------------------------------------------------------------------------------- */

struct conversion_work {
    struct ferryi_region_list *list;
    /* The region to convert; fetch() may have replaced its source by temporary host memory. */
    struct ferryi_region region;
    struct ferryi_convert_call convert;
    struct ferryi_file file;
    bool together; /* whether all rows are converted in one plan */
    bool cut;      /* whether they could not, so that nothing was moved; see struct ferryi_move */
    void *chunk;   /* temporary host memory for elements of the file */
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

/* -- conversions: the source, fetched ---------------------------------------------------------- */

/* Returns whether the rows of a region are converted together. */
static bool
goes_together(const struct ferryi_region *region)
{
    const struct ferryi_region_side *target = &region->target, *source = &region->source;
    return !target->path && !source->path && (target->store || source->store) &&
           ferryi_region_rows(region) > 1;
}

/*
 * Returns whether the whole source must be copied to host memory before the target changes. Only a
 * source buffer is ever copied, for one of two reasons. It may overlap the target. Or the policy
 * FERRY_CONVERT_CHECK may require that all rows are checked before the first one is written.
 */
static bool
must_fetch(const struct conversion_work *work)
{
    const struct ferryi_region *region = &work->region;
    if (!region->source.store)
        return false;
    bool several = ferryi_region_rows(region) > 1 || region->target.path;
    return (work->convert.policy == FERRY_CONVERT_CHECK && several) ||
           ferryi_region_overlaps(region);
}

/* Returns a copy of the list's call for a step that writes `bytes` bytes to temporary memory. These
 * bytes do not count as progress: the step's progress reports contain the progress of the list. */
static struct ferryi_whole_call
quiet_step(const struct ferryi_region_list *list, size_t bytes)
{
    const struct ferryi_transfer_job *job = &list->whole.job;
    struct ferryi_whole_call step = list->whole;
    step.job = (struct ferryi_transfer_job){.reason = job->reason,
                                            .options = job->options,
                                            .cancelled = job->cancelled,
                                            .total = bytes,
                                            .result = job};
    return step;
}

static ferry_status
fetch(struct conversion_work *work, void **out_memory)
{
    struct ferryi_region_list *list = work->list;
    struct ferryi_region packed = work->region;
    size_t row_bytes = ferryi_region_row_bytes(&packed, &packed.source),
           bytes = row_bytes * ferryi_region_rows(&packed);
    assert(bytes > 0);
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
    struct ferryi_whole_call step = quiet_step(list, bytes);
    const struct ferryi_plan_options options = {
        .reason = "convert", .layout = FERRYI_LAYOUT_ROWS, .whole = &step};
    work->region.source = packed.target;
    return ferryi_plan_regions(list->setting.context, &packed, 1, -1, &options);
}

/* Checks the elements of all rows of a region against the policy FERRY_CONVERT_CHECK, before any
 * byte of the target changes. */
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

/* -- conversions: rows ------------------------------------------------------------------------- */

/* Prepares one converting copy and runs it as a step of `whole`, which holds the range locks. */
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
               : ferryi_convert_memory(&work->convert, (void *)to.begin, source, count,
                                       &list->whole.job);
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

/* Converts `count` elements of the source into temporary host memory (`work->chunk`). This step
 * does not add to the copy's progress, because the elements are not in the file yet. */
static ferry_status
convert_chunk(struct conversion_work *work, size_t source_at, size_t count)
{
    struct ferryi_region_list *list = work->list;
    const struct ferryi_region_side *source = &work->region.source;
    struct ferryi_whole_call step = quiet_step(list, count * work->region.target.element->bytes);
    return source->store
               ? run_call(work, &step, NULL, ferryi_copy_memory(work->chunk), source->store,
                          range_at(source, source_at, count * source->element->bytes))
               : ferryi_convert_memory(&work->convert, work->chunk, address(source, source_at),
                                       count, &step.job);
}

/* Converts `count` elements and writes them to the file. Then adds the number of written bytes to
 * the copy's progress. */
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

/* Converts one row of a region whose source or target is a file, chunk by chunk. */
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
convert_together(struct conversion_work *work)
{
    const struct ferryi_transform transform = ferryi_convert_transform(&work->convert);
    const struct ferryi_plan_options how = {
        .reason = "convert", .host_side.transform = &transform, .cut = &work->cut};
    return run_rows(work->list, &work->region, how);
}

static ferry_status
convert_rows(struct conversion_work *work)
{
    const struct ferryi_region *region = &work->region;
    if (work->together)
        return convert_together(work);
    ferry_status status = FERRY_OK;
    for (size_t row = 0; row < ferryi_region_rows(region) && status == FERRY_OK; row++) {
        size_t target_at = ferryi_region_row_at(region, &region->target, row),
               source_at = ferryi_region_row_at(region, &region->source, row);
        status = work->chunk ? pass_row(work, target_at, source_at)
                             : convert_row(work, target_at, source_at);
    }
    return status;
}

/* `count` is the number of elements of the region. It is a parameter, because gcc's analyzer takes
 * the same member of `work` for uninitialized. */
static ferry_status
convert_file(struct conversion_work *work, size_t count)
{
    struct ferryi_region_list *list = work->list;
    const struct ferryi_region *region = &work->region;
    size_t element_bytes = file_side(region)->element->bytes;
    work->chunk_count = ferryi_min_size(ferryi_max_size(CHUNK_BYTES / element_bytes, 1), count);
    work->chunk = malloc(work->chunk_count * element_bytes);
    if (!work->chunk)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "convert a file: no memory for %zu elements",
                           work->chunk_count);
    const size_t before = list->whole.job.done;
    ferry_status status = open_file(list, region, &work->file);
    if (status == FERRY_OK)
        status = convert_rows(work);
    status = close_file(list, region, &work->file, before, status);
    free(work->chunk);
    return status;
}

/* Copies the source to host memory, and converts the copy. */
static ferry_status
convert_fetched(struct conversion_work *work)
{
    const struct ferryi_region *region = &work->region;
    const struct ferryi_region given = *region;
    void *fetched = NULL;
    ferry_status status = fetch(work, &fetched);
    work->together = goes_together(region);
    if (status == FERRY_OK && work->convert.policy == FERRY_CONVERT_CHECK)
        status = check_values(work, &given);
    if (status == FERRY_OK)
        status = region->target.path ? convert_file(work, given.count) : convert_rows(work);
    ferryi_copy_free_fetched(
        fetched, ferryi_region_rows(&given) * ferryi_region_row_bytes(&given, &given.source),
        given.source.store);
    return status;
}

static ferry_status
convert(struct ferryi_region_list *list, const struct ferryi_region *region)
{
    struct conversion_work work = {
        .list = list,
        .region = *region,
        .convert = {list->setting.context, &region->conversion, list->setting.policy},
        .together = goes_together(region)};
    ferry_status status = FERRY_OK;
    if (must_fetch(&work))
        return convert_fetched(&work);
    if (list->setting.policy == FERRY_CONVERT_CHECK && !region->source.store)
        status = check_values(&work, region);
    if (status == FERRY_OK)
        status = region->target.path || region->source.path ? convert_file(&work, region->count)
                                                            : convert_rows(&work);
    return work.cut ? convert_fetched(&work) : status;
}

/* -- any region -------------------------------------------------------------------------------- */

ferry_status
ferryi_region_run(struct ferryi_region_list *list, const struct ferryi_region *region)
{
    switch (region->kind) {
    case FERRYI_REGION_SELF:
        return run_onto_itself(list, region);
    case FERRYI_REGION_FILL:
        return fill(list, region);
    case FERRYI_REGION_CONVERT:
        return convert(list, region);
    default:
        return pass_file(list, region);
    }
}
