/* SPDX-License-Identifier: MIT */
#include "write_png.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <png.h>

#define SIDE_LIMIT    1000000u    /* the default limit of libpng */
#define PICTURE_LIMIT 0xffffffffu /* bytes that libpng takes in one call */

bool
write_png_check(size_t rows, size_t columns, char *message, size_t message_bytes)
{
    if (rows <= SIDE_LIMIT && columns <= SIDE_LIMIT && rows <= PICTURE_LIMIT / columns)
        return true;
    snprintf(message, message_bytes, "%zu x %zu is too large for a PNG (%u a side, %u in all)", columns, rows,
             SIDE_LIMIT, PICTURE_LIMIT);
    return false;
}

/* Closes the file and removes an incomplete picture. Devices and pipes are not removed. */
static void
discard(FILE *file, const char *path)
{
    struct stat info;
    if (fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode))
        unlink(path);
    fclose(file);
}

bool
write_png(const char *path, const uint8_t *grey, size_t rows, size_t columns, char *message, size_t message_bytes)
{
    png_image image = {.version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_GRAY};
    if (!write_png_check(rows, columns, message, message_bytes))
        return false;
    image.width = (png_uint_32)columns;
    image.height = (png_uint_32)rows;

    FILE *file = fopen(path, "wb");
    if (!file) {
        snprintf(message, message_bytes, "%s", strerror(errno));
        return false;
    }
    if (!png_image_write_to_stdio(&image, file, 0, grey, (png_int_32)columns, NULL)) {
        snprintf(message, message_bytes, "cannot write the picture: %s", image.message);
        discard(file, path);
        return false;
    }
    if (fflush(file) != 0) {
        snprintf(message, message_bytes, "cannot write the picture: %s", strerror(errno));
        discard(file, path);
        return false;
    }
    if (fclose(file) != 0) {
        snprintf(message, message_bytes, "cannot write the picture: %s", strerror(errno));
        return false;
    }
    return true;
}
