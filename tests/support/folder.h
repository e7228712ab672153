/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_FOLDER_H
#define FERRY_TEST_FOLDER_H

/* A temporary folder for tests, and functions that read and write whole files. A function that
 * fails ends the program. */

#include <stddef.h>

enum { FOLDER_PATH_BYTES = 256 };

/* Creates a folder that other users can enter, in TMPDIR or in /tmp. */
void folder_make(char path[FOLDER_PATH_BYTES]);
/* Removes the folder with everything in it. */
void folder_remove(const char *path);

/* Returns the number of files and folders directly in the folder. Returns 0 if the folder does not
 * exist. */
int folder_count(const char *path);
/* Copies the name of the only file in the folder to `name`. */
void folder_only_file(const char *path, char name[FOLDER_PATH_BYTES]);

void folder_write_file(const char *path, const void *bytes, size_t count);
/* Returns the contents of the file, and a zero after them. The caller must free them. */
void *folder_read_file(const char *path, size_t *out_count);

#endif
