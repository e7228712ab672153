/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BUFFER_FILE_H
#define FERRYI_BUFFER_FILE_H

/* Ranges of buffers to and from open files: what loads, stores and streams share. */

#include <ferry/file.h>

#include "src/copy/copy.h"

/* Into the copy at `place`, or with -1 to where the range is current. `call` has who follows and
 * stops it, and nothing else. */
ferry_status ferryi_buffer_load(struct ferryi_copy_call *call, ferryi_store *store,
                                struct ferryi_range range, struct ferryi_file_range source,
                                int place);
ferry_status ferryi_buffer_store(struct ferryi_copy_call *call, ferryi_store *store,
                                 struct ferryi_range range, struct ferryi_file_range target);

/* Say in the log that the page cache could not be avoided after all. */
void ferryi_file_note_direct(const ferry_context *context, const struct ferryi_file *file,
                             bool wanted);
/* Close, in such a way that the first failure and its message win. */
ferry_status ferryi_file_end(struct ferryi_file *file, ferry_status status);

#endif
