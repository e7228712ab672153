/* SPDX-License-Identifier: MIT */
#ifndef HILLSHADE_WRITE_PNG_H
#define HILLSHADE_WRITE_PNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Is a picture of this size one that write_png() takes? If not, `message` holds one sentence. */
bool write_png_check(size_t rows, size_t columns, char *message, size_t message_bytes);

/**
 * Write rows * columns grey values, row after row, as an 8-bit PNG. On failure `message` holds one sentence, without
 * the path, and a regular file that was begun is removed.
 */
bool write_png(const char *path, const uint8_t *grey, size_t rows, size_t columns, char *message, size_t message_bytes);

#endif
