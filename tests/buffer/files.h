/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_BUFFER_FILES_H
#define FERRY_TEST_BUFFER_FILES_H

/* Helpers for tests with files. The files lie in a folder that is removed when the group of tests
 * ends. */

#include "tests/buffer/support.h"

/* These functions create and remove the folder of a group of tests. */
int files_setup(void **state);
int files_teardown(void **state);

/* Returns the path of the file `name` in the folder of the tests. The name "" means the folder
 * itself. The string stays valid until path_of() has been called 16 more times. */
const char *path_of(const char *name);

void write_file(const char *path, const void *bytes, size_t count);
/* Writes `count` integers: 0, 1, 2, ... */
void write_counting_file(const char *path, size_t count);

/* Checks that the file has exactly these bytes. */
void expect_file(const char *path, const void *bytes, size_t count);
/* Checks that the file holds, from byte `offset` to its end, the `count` integers `first`, `first`
 * + 1, and so on. */
void expect_integers(const char *path, size_t offset, size_t count, int first);
void expect_counting_file(const char *path, size_t count);
size_t file_bytes(const char *path);

/* Checks that this thread's error message contains both `path` and `more`. */
void expect_said(const char *path, const char *more);

#endif
