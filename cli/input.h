/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_INPUT_H
#define FERRY_CLI_INPUT_H

#include <stddef.h>

/* The bytes of the file at `path`, or of standard input for "-"; the caller frees them. NULL after
 * a message on standard error, after the command's name. */
char *input_read(const char *command, const char *path, size_t *out_count);

#endif
