/* SPDX-License-Identifier: MIT */
#include "src/copy/file_copy.h"

#include <stdlib.h>

/* Loads and stores: copies whose other side is an open file in place of the caller's memory. */

ferry_status
ferryi_buffer_load(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range,
                   struct ferryi_file_range source, int place)
{
    call->file = source;
    ferry_status status = ferryi_copy_plan_from(call, store, range, NULL, place);
    call->main.reason = "load";
    return status == FERRY_OK ? ferryi_copy_run(call) : status;
}

ferry_status
ferryi_buffer_store(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range,
                    struct ferryi_file_range target)
{
    call->file = target;
    ferryi_copy_plan_to(call, store, range, NULL);
    call->main.reason = "store";
    return ferryi_copy_run(call);
}

void
ferryi_file_note_direct(const ferry_context *context, const struct ferryi_file *file, bool wanted)
{
    if (wanted && file->fd >= 0 && file->direct < 0)
        ferryi_log(&context->log, FERRY_LOG_INFO,
                   "%s: goes through the page cache: its file system takes no direct transfers",
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
