/* SPDX-License-Identifier: MIT */
#include "src/copy/file_copy.h"

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
    struct ferryi_kept_error why;
    if (status == FERRY_OK)
        return ferryi_file_close(file);
    ferryi_last_error_keep(&why);
    (void)ferryi_file_close(file);
    ferryi_last_error_restore(&why);
    return status;
}
