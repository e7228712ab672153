/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BUFFER_FILE_H
#define FERRYI_BUFFER_FILE_H

/* What loads, stores and pipelines say about their files, and how they close them. */

#include <ferry/file.h>

#include "src/copy/copy.h"

/* Say in the log that the page cache could not be avoided after all. */
void ferryi_file_note_direct(const ferry_context *context, const struct ferryi_file *file,
                             bool wanted);
/* Close, in such a way that the first failure and its message win. */
ferry_status ferryi_file_end(struct ferryi_file *file, ferry_status status);

#endif
