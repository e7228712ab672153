/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_BUFFER_FILES_H
#define FERRY_TEST_BUFFER_FILES_H

/* Files for tests, in a folder that goes away with the group of tests. */

#include "tests/buffer/support.h"

/* Setup and teardown of a group. */
int files_setup(void **state);
int files_teardown(void **state);

/* A path in the folder; "" is the folder itself. Good until as many more were asked for as a test
 * needs. */
const char *path_of(const char *name);

void write_file(const char *path, const void *bytes, size_t count);
/* Integers 0, 1, 2, ... */
void write_counting_file(const char *path, size_t count);

/* The file has exactly these bytes. */
void expect_file(const char *path, const void *bytes, size_t count);
/* Integers i + `first`, `count` of them from byte `offset` on, and nothing behind them. */
void expect_integers(const char *path, size_t offset, size_t count, int first);
void expect_counting_file(const char *path, size_t count);
size_t file_bytes(const char *path);

/* This thread's message names both. */
void expect_said(const char *path, const char *more);

#endif
