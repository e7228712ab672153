/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BUFFER_FILE_H
#define FERRYI_BUFFER_FILE_H

/* Ranges of buffers to and from open files: what loads, stores and streams share. */

#include <ferry/file.h>

#include "src/buffer/buffer.h"
#include "src/transfer/file.h"

/* Into the copy at `place`, or with -1 to where the range is current. */
ferry_status ferryi_buffer_load(ferry_buffer *buffer, struct ferryi_range range, struct ferryi_file_range source, int place,
                                const ferry_copy_options *options, const atomic_bool *cancelled);
ferry_status ferryi_buffer_store(ferry_buffer *buffer, struct ferryi_range range, struct ferryi_file_range target,
                                 const ferry_copy_options *options, const atomic_bool *cancelled);

/* Say in the log that the page cache could not be avoided after all. */
void ferryi_file_note_direct(const ferry_context *context, const struct ferryi_file *file, bool wanted);
/* Close, in such a way that the first failure and its sentence win. */
ferry_status ferryi_file_end(struct ferryi_file *file, ferry_status status);

#endif
