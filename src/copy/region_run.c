/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/copy/convert_copy.h"
#include "src/copy/file_copy.h"
#include "src/copy/region_list.h"

/* Fills, loads and stores of a region list: row by row, each row a step under the list's claims. */

/* -- fills ------------------------------------------------------------------------------------- */

static ferry_status
fill_rows(struct ferryi_region_list *list, const struct ferryi_region *region, const void *value)
{
    const struct ferryi_region_side *target = &region->target;
    ferry_status status = FERRY_OK;
    for (size_t row = 0; row < ferryi_region_rows(region) && status == FERRY_OK; row++) {
        struct ferryi_copy_call call = {.whole = &list->whole};
        status = ferryi_copy_plan_fill(&call, target->store, ferryi_region_row(region, target, row),
                                       value, target->element->bytes, list->setting.place);
        if (status == FERRY_OK)
            status = ferryi_copy_run(&call);
    }
    return status;
}

static ferry_status
fill(struct ferryi_region_list *list, const struct ferryi_region *region)
{
    if (!region->converts)
        return fill_rows(list, region, region->value);
    void *value = malloc(region->target.element->bytes);
    if (!value)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "fill: no memory for a converted value of %zu bytes",
                           region->target.element->bytes);
    ferry_status status =
        ferryi_conversion_apply(&region->conversion, value, region->value, 1, list->setting.policy);
    if (status == FERRY_OK)
        status = fill_rows(list, region, value);
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
        ferryi_file_note_direct(list->setting.context, file, list->setting.file_direct);
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
load_rows(struct ferryi_region_list *list, const struct ferryi_region *region,
          struct ferryi_file *file)
{
    ferry_status status = FERRY_OK;
    for (size_t row = 0; row < ferryi_region_rows(region) && status == FERRY_OK; row++) {
        uint64_t at =
            region->source.file_offset + ferryi_region_row_at(region, &region->source, row);
        struct ferryi_copy_call call = {.whole = &list->whole};
        status = ferryi_buffer_load(&call, region->target.store,
                                    ferryi_region_row(region, &region->target, row),
                                    (struct ferryi_file_range){file, at}, list->setting.place);
    }
    return status;
}

static ferry_status
store_rows(struct ferryi_region_list *list, const struct ferryi_region *region,
           struct ferryi_file *file)
{
    ferry_status status = FERRY_OK;
    size_t rows = region->count > 0 ? ferryi_region_rows(region) : 0;
    for (size_t row = 0; row < rows && status == FERRY_OK; row++) {
        uint64_t at =
            region->target.file_offset + ferryi_region_row_at(region, &region->target, row);
        struct ferryi_copy_call call = {.whole = &list->whole};
        status = ferryi_buffer_store(&call, region->source.store,
                                     ferryi_region_row(region, &region->source, row),
                                     (struct ferryi_file_range){file, at});
    }
    return status;
}

static ferry_status
pass_file(struct ferryi_region_list *list, const struct ferryi_region *region)
{
    struct ferryi_file file;
    ferry_status status = ferryi_region_open_file(list, region, &file);
    if (status == FERRY_OK)
        status = region->kind == FERRYI_REGION_LOAD ? load_rows(list, region, &file)
                                                    : store_rows(list, region, &file);
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
