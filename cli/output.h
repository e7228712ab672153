/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_OUTPUT_H
#define FERRY_CLI_OUTPUT_H

/* Where a command writes: the file at `path`, or standard output for NULL. Failures are reported on
 * standard error, after the command's name. */

#include <stdbool.h>
#include <stdio.h>

/* NULL: it cannot be written. */
FILE *output_open(const char *command, const char *path);
/* False: not everything could be written, at whatever time. */
bool output_close(const char *command, const char *path, FILE *file);
/* Bytes of the UTF-8 character that `text` begins with; 0: it begins with none, or with NUL. */
size_t output_character_bytes(const char *text);
/* Text of a file, for a terminal: control characters, which would disturb it, and what is not UTF-8
 * become question marks. */
void output_text(FILE *file, const char *text);

#endif
