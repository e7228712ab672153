/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PRIVATE_FOLDER_H
#define FERRYI_PRIVATE_FOLDER_H

/*
 * A folder whose files only this user writes, such as a cache of code that will run. It is used
 * through a descriptor, and its files by name below that, so that no other user can replace it
 * between check and use. The folder and each file are refused if they belong to another user, if
 * others may write them, or if they are links. A program that runs with the rights of another user
 * is refused everything.
 *
 * Files appear whole: they are written under a temporary name and renamed. Any number of threads
 * and processes may use a folder at once.
 */

#include "src/base/file.h"

/*
 * `*out` is -1 when there is no such folder. With `make` it is made then, with the mode 0700, and
 * so is the folder around it.
 * @return FERRY_OK; FERRY_ERROR_IO with why it cannot be used.
 */
ferry_status ferryi_private_folder_open(const char *path, bool make, int *out);
void ferryi_private_folder_close(int folder);

/* To read; the caller closes it. FERRY_OK with a closed file when there is none; else
 * FERRY_ERROR_IO. `name` is kept. */
ferry_status ferryi_private_folder_find(int folder, const char *name, struct ferryi_file *out);
/* Replaces what has the name. FERRY_ERROR_IO leaves that as it is. */
ferry_status ferryi_private_folder_put(int folder, const char *name, const void *bytes,
                                       size_t count);
void ferryi_private_folder_remove(int folder, const char *name);
/* The file was of use: trimming takes it later. */
void ferryi_private_folder_touch(const struct ferryi_file *file);

/* Whether a name is one of those that trimming counts and may remove. */
typedef bool ferryi_private_folder_filter(const char *name);
/* Remove the files that were put or touched longest ago, until the others fit. FERRY_ERROR_IO,
 * FERRY_ERROR_OUT_OF_MEMORY. */
ferry_status ferryi_private_folder_trim(int folder, ferryi_private_folder_filter *filter,
                                        uint64_t bytes_max, size_t files_max);

#endif
