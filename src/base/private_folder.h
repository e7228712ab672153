/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PRIVATE_FOLDER_H
#define FERRYI_PRIVATE_FOLDER_H

/*
 * A folder whose files only this user can write, such as a cache of code that will run. The folder
 * is accessed through a descriptor, and its files by names relative to it, so that no other user
 * can replace the folder between check and use. The folder and each file are refused if they belong
 * to another user, if others may write them, or if they are links. In a program that runs with
 * another user's rights, nothing is opened.
 *
 * A file appears only when it is complete: it is written under a temporary name and then renamed.
 * Any number of threads and processes may use a folder at once.
 */

#include "src/base/file.h"

/*
 * Opens a folder. If the folder does not exist and `make` is true, creates it and its parent with
 * mode 0700. If it does not exist and `make` is false, sets `*out` to -1.
 * @return FERRY_OK; FERRY_ERROR_IO with the reason why the folder cannot be used.
 */
ferry_status ferryi_private_folder_open(const char *path, bool make, int *out);
void ferryi_private_folder_close(int folder);

/* Opens a file for reading; the caller closes it. If the file does not exist, returns FERRY_OK and
 * leaves `out` closed. Fails with FERRY_ERROR_IO. `name` must outlive `out`. */
ferry_status ferryi_private_folder_find(int folder, const char *name, struct ferryi_file *out);
/* Creates or replaces a file. If it fails with FERRY_ERROR_IO, the old file is unchanged. */
ferry_status ferryi_private_folder_put(int folder, const char *name, const void *bytes,
                                       size_t count);
void ferryi_private_folder_remove(int folder, const char *name);
/* Marks the file as used now, so that trimming removes less recently used files first. */
void ferryi_private_folder_touch(const struct ferryi_file *file);

/* Returns whether trimming considers a file of this name. Trimming neither counts nor removes other
 * files. */
typedef bool ferryi_private_folder_filter(const char *name);
/* Removes the least recently used files until the remaining ones fit into the limit. Fails with
 * FERRY_ERROR_IO or FERRY_ERROR_OUT_OF_MEMORY. */
ferry_status ferryi_private_folder_trim(int folder, ferryi_private_folder_filter *filter,
                                        uint64_t bytes_max, size_t files_max);

#endif
