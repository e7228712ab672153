/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PRIVATE_FOLDER_H
#define FERRYI_PRIVATE_FOLDER_H

/*
 * A folder whose files only this user can write, such as a cache of code that will run. The folder
 * is accessed through a descriptor, and its files by names relative to the descriptor. So no other
 * user can replace the folder after it was checked. A folder or file is refused if it belongs to
 * another user, if others may write it, or if it is a link. In a set-uid or set-gid program,
 * opening a folder fails.
 *
 * A file is written under a temporary name and then renamed, so other processes see only complete
 * files. Any number of threads and processes may use a folder at once.
 */

#include "src/base/file.h"

/*
 * Opens a folder. If the folder does not exist and `make` is true, creates the folder and its
 * parent with mode 0700. If the folder does not exist and `make` is false, sets `*out` to -1.
 * @return FERRY_OK; FERRY_ERROR_IO with the reason why the folder cannot be used.
 */
ferry_status ferryi_private_folder_open(const char *path, bool make, int *out);
void ferryi_private_folder_close(int folder);

/* Opens a file of the folder for reading. The caller closes the file with ferryi_file_close(). If
 * the file does not exist, returns FERRY_OK and sets `*out` to FERRYI_FILE_CLOSED. Returns
 * FERRY_ERROR_IO on failure. The string `name` must outlive `out`. */
ferry_status ferryi_private_folder_find(int folder, const char *name, struct ferryi_file *out);
/* Creates or replaces a file of the folder. If the function fails with FERRY_ERROR_IO, an existing
 * file is unchanged. */
ferry_status ferryi_private_folder_put(int folder, const char *name, const void *bytes,
                                       size_t count);
void ferryi_private_folder_remove(int folder, const char *name);
/* Sets the file's time of last use to now. When the folder is trimmed, the least recently used
 * files are removed first. */
void ferryi_private_folder_touch(const struct ferryi_file *file);

/* A filter for ferryi_private_folder_trim(). It returns whether a file with this name may be
 * removed. Files for which it returns false are neither counted nor removed. */
typedef bool ferryi_private_folder_filter(const char *name);
/* Removes the least recently used files until at most `files_max` files remain, with at most
 * `bytes_max` bytes in total. Fails with FERRY_ERROR_IO or FERRY_ERROR_OUT_OF_MEMORY. */
ferry_status ferryi_private_folder_trim(int folder, ferryi_private_folder_filter *filter,
                                        uint64_t bytes_max, size_t files_max);

#endif
