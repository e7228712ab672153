/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PRIVATE_FOLDER_H
#define FERRYI_PRIVATE_FOLDER_H

/*
 * A folder whose files only this user can write, such as a cache of code that will run. The folder
 * is used through a descriptor, and its files by names relative to it, so that no other user can
 * replace it between check and use. The folder and each file are refused if they belong to another
 * user, if others may write them, or if they are links. Nothing is opened in a program that runs
 * with the rights of another user.
 *
 * Files appear only when complete: they are written under a temporary name and renamed. Any number
 * of threads and processes may use a folder at once.
 */

#include "src/base/file.h"

/*
 * Opens a folder. If it does not exist, `make` creates it and its parent with the mode 0700;
 * otherwise `*out` is -1.
 * @return FERRY_OK; FERRY_ERROR_IO with the reason why the folder cannot be used.
 */
ferry_status ferryi_private_folder_open(const char *path, bool make, int *out);
void ferryi_private_folder_close(int folder);

/* Opens a file for reading; the caller closes it. Returns FERRY_OK with a closed file when there is
 * none, otherwise FERRY_ERROR_IO on failure. `name` must outlive `out`. */
ferry_status ferryi_private_folder_find(int folder, const char *name, struct ferryi_file *out);
/* Creates or replaces a file. On FERRY_ERROR_IO the old file stays unchanged. */
ferry_status ferryi_private_folder_put(int folder, const char *name, const void *bytes,
                                       size_t count);
void ferryi_private_folder_remove(int folder, const char *name);
/* Marks the file as used now, so that trimming removes it later. */
void ferryi_private_folder_touch(const struct ferryi_file *file);

/* Returns whether trimming counts, and may remove, a file of this name. */
typedef bool ferryi_private_folder_filter(const char *name);
/* Removes the least recently used files until the others fit. Fails with FERRY_ERROR_IO or
 * FERRY_ERROR_OUT_OF_MEMORY. */
ferry_status ferryi_private_folder_trim(int folder, ferryi_private_folder_filter *filter,
                                        uint64_t bytes_max, size_t files_max);

#endif
