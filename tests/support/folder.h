/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_FOLDER_H
#define FERRY_TEST_FOLDER_H

/* A temporary folder for a test, and functions that read and write whole files. Each function ends
 * the program if it fails. */

#include <stddef.h>

enum { FOLDER_PATH_BYTES = 256 };

/* Creates a folder below TMPDIR or /tmp that other users can enter. */
void folder_make(char path[FOLDER_PATH_BYTES]);
/* Removes the folder with everything in it. */
void folder_remove(const char *path);

/* Returns the number of files and folders directly in the folder. Returns 0 if the folder does not
 * exist. */
int folder_count(const char *path);
/* Copies the name of the only file in the folder to `name`. */
void folder_only_file(const char *path, char name[FOLDER_PATH_BYTES]);

void folder_write_file(const char *path, const void *bytes, size_t count);
/* Returns the contents of the file, which the caller frees. */
void *folder_read_file(const char *path, size_t *out_count);

#endif
