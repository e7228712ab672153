/* SPDX-License-Identifier: MIT */
#ifndef HILLSHADE_WRITE_PNG_H
#define HILLSHADE_WRITE_PNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Checks that write_png() accepts a picture of this size. If not, `message` is one line. */
bool write_png_check(size_t rows, size_t columns, char *message, size_t message_bytes);

/**
 * Writes rows * columns grey values, row after row, as an 8-bit PNG. On failure `message` is one line
 * without the path, and an incomplete regular file is removed.
 */
bool write_png(const char *path, const uint8_t *grey, size_t rows, size_t columns, char *message, size_t message_bytes);

#endif
