/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_FOLDER_H
#define FERRY_TEST_FOLDER_H

/* A folder for the files of a test, and files in it whole. What fails ends the program. */

#include <stddef.h>

enum { FOLDER_PATH_BYTES = 256 };

/* A new one, below TMPDIR or /tmp, that other users may enter. */
void folder_make(char path[FOLDER_PATH_BYTES]);
/* With all that is in it. */
void folder_remove(const char *path);

/* How many files and folders are directly in it; 0 where there is none. */
int folder_count(const char *path);
/* The name of its only file. */
void folder_only_file(const char *path, char name[FOLDER_PATH_BYTES]);

void folder_write_file(const char *path, const void *bytes, size_t count);
/* The caller frees it. */
void *folder_read_file(const char *path, size_t *out_count);

#endif
