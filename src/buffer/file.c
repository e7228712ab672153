/* SPDX-License-Identifier: MIT */
#include "src/buffer/file.h"

#include <stdlib.h>

#include "src/buffer/copy.h"

/* Loads and stores: copies whose other side is an open file in place of the caller's memory. */

static const ferry_file_options no_options;

ferry_status
ferryi_buffer_load(ferry_buffer *buffer, struct ferryi_range range, struct ferryi_file_range source, int place,
                   const ferry_transfer_options *options, const atomic_bool *cancelled)
{
    struct ferryi_copy_call call = {.file = source, .options = options, .cancelled = cancelled};
    ferry_status status = ferryi_copy_plan_from(&call, buffer->store, range, NULL, place);
    call.main.reason = "load";
    return status == FERRY_OK ? ferryi_copy_run(&call) : status;
}

ferry_status
ferryi_buffer_store(ferry_buffer *buffer, struct ferryi_range range, struct ferryi_file_range target,
                    const ferry_transfer_options *options, const atomic_bool *cancelled)
{
    struct ferryi_copy_call call = {.file = target, .options = options, .cancelled = cancelled};
    ferryi_copy_plan_to(&call, buffer->store, range, NULL);
    call.main.reason = "store";
    return ferryi_copy_run(&call);
}

void
ferryi_file_note_direct(const ferry_context *context, const struct ferryi_file *file, bool wanted)
{
    if (wanted && file->fd >= 0 && file->direct < 0)
        ferryi_log(&context->log, FERRY_LOG_INFO, "%s: goes through the page cache: its file system takes no direct transfers",
                   file->path);
}

ferry_status
ferryi_file_end(struct ferryi_file *file, ferry_status status)
{
    char *text = status == FERRY_OK ? NULL : ferryi_last_error_copy();
    ferry_status closed = ferryi_file_close(file);
    if (text)
        ferryi_fail(status, "%s", text);
    free(text);
    return status != FERRY_OK ? status : closed;
}

static ferry_status
check(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count, const char *path, const char *what,
      struct ferryi_range *out)
{
    /* The path stands for the caller's memory. */
    ferry_status status = ferryi_copy_check(buffer, element, offset, count, "", what, out);
    if (status == FERRY_OK && !path)
        status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the path is NULL", what);
    return status;
}

/* What was being done, before whatever went wrong in it. */
static ferry_status
fail_in(ferry_status status, const char *what, size_t bytes, uint64_t file_offset)
{
    return ferryi_fail_in(status, "%s %zu bytes at offset %llu", what, bytes, (unsigned long long)file_offset);
}

ferry_status
ferry_buffer_load(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count, const char *path,
                  uint64_t file_offset, const ferry_file_options *options)
{
    struct ferryi_range range;
    struct ferryi_file file = FERRYI_FILE_CLOSED;
    int place = -1;
    options = options ? options : &no_options;
    ferry_status status = check(buffer, element, offset, count, path, "load from a file", &range);
    if (status == FERRY_OK && options->stream) {
        ferryi_lane *lane;
        status = ferryi_context_lane(buffer->store->context, options->stream, "load from a file", &lane);
        if (status == FERRY_OK)
            place = lane->place;
    }
    if (status != FERRY_OK || range.begin == range.end)
        return status;
    FERRY_TRY(status, out, ferryi_file_open(&file, path, FERRYI_FILE_READ, options->direct));
    FERRY_TRY(status, out, ferryi_file_expect(&file, file_offset, range.end - range.begin));
    FERRY_TRY(status, out, ferryi_buffer_load(buffer, range, (struct ferryi_file_range){&file, file_offset}, place, options->transfer, NULL));
    ferryi_file_note_direct(buffer->store->context, &file, options->direct);
    FERRY_TRY(status, out, ferryi_file_check_unchanged(&file));
out:
    status = ferryi_file_end(&file, status);
    return status == FERRY_OK ? FERRY_OK : fail_in(status, "load", range.end - range.begin, file_offset);
}

ferry_status
ferry_buffer_store(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count, const char *path,
                   uint64_t file_offset, const ferry_file_options *options)
{
    struct ferryi_range range;
    struct ferryi_file file = FERRYI_FILE_CLOSED;
    options = options ? options : &no_options;
    ferry_status status = check(buffer, element, offset, count, path, "store to a file", &range);
    if (status != FERRY_OK)
        return status;
    size_t bytes = range.end - range.begin;
    FERRY_TRY(status, out, ferryi_file_check_range(path, file_offset, bytes));
    FERRY_TRY(status, out, ferryi_file_open(&file, path, FERRYI_FILE_WRITE, options->direct));
    if (bytes > 0)
        FERRY_TRY(status, out, ferryi_buffer_store(buffer, range, (struct ferryi_file_range){&file, file_offset}, options->transfer, NULL));
    ferryi_file_note_direct(buffer->store->context, &file, options->direct);
    if (!options->keep_rest)
        FERRY_TRY(status, out, ferryi_file_cut(&file, file_offset + bytes));
out:
    status = ferryi_file_end(&file, status);
    return status == FERRY_OK ? FERRY_OK : fail_in(status, "store", bytes, file_offset);
}
