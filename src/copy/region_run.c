/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/copy/convert_copy.h"
#include "src/copy/region_list.h"

/* Runs those regions of a region list that fill a buffer, load a file or store into a file. Each
 * row of a region is a separate step. All steps run under the claims that the list holds. */

/* -- rows -------------------------------------------------------------------------------------- */

ferry_status
ferryi_region_plan_row(const struct ferryi_region *region, size_t row,
                       const struct ferryi_convert_call *convert, int place,
                       struct ferryi_copy_call *call)
{
    const struct ferryi_region_side *target = &region->target, *source = &region->source;
    struct ferryi_range to = ferryi_region_row(region, target, row),
                        from = ferryi_region_row(region, source, row);
    if (region->kind == FERRYI_REGION_FILL)
        return ferryi_copy_plan_fill(call, target->store, to, region->value, target->element->bytes,
                                     place);
    if (region->kind == FERRYI_REGION_CONVERT)
        return ferryi_convert_plan(call, convert, target->store, to, source->store, from, place);
    if (target->path)
        call->file.offset = target->file_offset + to.begin;
    else if (source->path)
        call->file.offset = source->file_offset + from.begin;
    return ferryi_copy_plan(call, target->store, to, source->store, from, place);
}

static ferry_status
run_rows(struct ferryi_region_list *list, const struct ferryi_region *region,
         struct ferryi_file *file)
{
    ferry_status status = FERRY_OK;
    size_t rows = region->count > 0 ? ferryi_region_rows(region) : 0;
    for (size_t row = 0; row < rows && status == FERRY_OK; row++) {
        struct ferryi_copy_call call = {.whole = &list->whole, .file.file = file};
        status = ferryi_region_plan_row(region, row, NULL, list->setting.place, &call);
        if (status == FERRY_OK)
            status = ferryi_copy_run(&call);
    }
    return status;
}

/* -- fills ------------------------------------------------------------------------------------- */

static ferry_status
fill(struct ferryi_region_list *list, const struct ferryi_region *region)
{
    if (!region->converts)
        return run_rows(list, region, NULL);
    struct ferryi_region converted = *region;
    void *value = malloc(region->target.element->bytes);
    if (!value)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "fill: no memory for a converted value of %zu bytes",
                           region->target.element->bytes);
    converted.value = value;
    ferry_status status =
        ferryi_conversion_apply(&region->conversion, value, region->value, 1, list->setting.policy);
    if (status == FERRY_OK)
        status = run_rows(list, &converted, NULL);
    free(value);
    return status;
}

/* -- files ------------------------------------------------------------------------------------- */

static const struct ferryi_region_side *
file_side(const struct ferryi_region *region)
{
    return region->target.path ? &region->target : &region->source;
}

ferry_status
ferryi_region_open_file(const struct ferryi_region_list *list, const struct ferryi_region *region,
                        struct ferryi_file *out)
{
    const struct ferryi_region_side *side = file_side(region);
    bool writes = side == &region->target;
    *out = FERRYI_FILE_CLOSED;
    ferry_status status = ferryi_file_open(
        out, side->path, writes ? FERRYI_FILE_WRITE : FERRYI_FILE_READ, list->setting.file_direct);
    if (status == FERRY_OK && !writes)
        status = ferryi_file_expect(out, side->file_offset, ferryi_region_span(region, side));
    return status;
}

ferry_status
ferryi_region_close_file(const struct ferryi_region_list *list, const struct ferryi_region *region,
                         struct ferryi_file *file, ferry_status status)
{
    const struct ferryi_region_side *side = file_side(region);
    bool writes = side == &region->target;
    if (status == FERRY_OK) {
        ferryi_file_note_direct(&list->setting.context->log, file, list->setting.file_direct);
        if (!writes)
            status = ferryi_file_check_unchanged(file);
        else if (!list->setting.file_keep_rest)
            status = ferryi_file_cut(file, side->file_offset + ferryi_region_span(region, side));
    }
    status = ferryi_file_end(file, status);
    if (status == FERRY_OK)
        return FERRY_OK;
    size_t index = ferry_error_index();
    ferryi_fail_in(status, "%s %zu bytes at offset %llu", writes ? "store" : "load",
                   ferryi_region_rows(region) * ferryi_region_row_bytes(region, side),
                   (unsigned long long)side->file_offset);
    ferryi_fail_index(index);
    return status;
}

static ferry_status
pass_file(struct ferryi_region_list *list, const struct ferryi_region *region)
{
    struct ferryi_file file;
    ferry_status status = ferryi_region_open_file(list, region, &file);
    if (status == FERRY_OK)
        status = run_rows(list, region, &file);
    return ferryi_region_close_file(list, region, &file, status);
}

ferry_status
ferryi_region_run(struct ferryi_region_list *list, const struct ferryi_region *region)
{
    switch (region->kind) {
    case FERRYI_REGION_FILL:
        return fill(list, region);
    case FERRYI_REGION_CONVERT:
        return ferryi_region_convert(list, region);
    default:
        return pass_file(list, region);
    }
}
