/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_INCLUDES_H
#define FERRYI_INCLUDES_H

/*
 * Finds the files that a source includes, so that code can be cached although it depends on
 * them. All includes are followed, also those in branches that the compiler skips. A file that does
 * not exist counts as such. So the result changes whenever a change of the files could change the
 * code. The opposite does not hold, and then the source is only compiled once more.
 *
 * A run-time compiler brings no headers. It searches the folder of the including file for names in
 * quotes, which is the working folder for the source itself, and then the folders of the options.
 */

#include "src/base/base.h"
#include "src/base/sha256.h"

struct ferryi_includes {
    const char *text; /* the source */
    /* The folders of the options --include-path, in their order. */
    const char *const *folders;
    size_t folder_count;
};

/*
 * Adds the names and contents of all files that the source includes to `state`. Adds nothing for a
 * source without includes.
 * @return false if the files are not determined by the text: a macro names one, a directive is
 * unknown to Ferry, a file cannot be read, or there are too many files
 */
bool ferryi_includes_hash(const struct ferryi_includes *includes, struct ferryi_sha256 *state);

#endif
