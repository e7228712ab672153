/* SPDX-License-Identifier: MIT */

/*
 * sharpen: sharpens a grey picture, and says how much it has changed.
 *
 * Pixels are bytes on the host and floats in the kernel. The copies between the two types convert on the device, so that
 * one byte crosses for each pixel in each direction, not four. The last copy rounds, and clamps to 0 and 255. One
 * launch finds the greatest change and the sum of squares, and brings both down together.
 *
 * sharpen [ROWS COLUMNS]
 *
 * The program compares all pixels with those of plain C. FERRY_DEVICE selects the device.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/byte.h>
#include <ferry/ferry.h>
#include <ferry/float.h>

#include "../traffic.h"
#include "sharpen_kernels.h"

#define AMOUNT 1.5f

struct pictures {
    size_t rows, columns;
    unsigned char *before, *expected, *found;
};

/* -- plain C --------------------------------------------------------------------------------------- */

/* The pixel, or outside of the picture the nearest one. */
static float
pixel(const struct pictures *pictures, ptrdiff_t row, ptrdiff_t column)
{
    ptrdiff_t rows = (ptrdiff_t)pictures->rows, columns = (ptrdiff_t)pictures->columns;
    row = row < 0 ? 0 : row >= rows ? rows - 1 : row;
    column = column < 0 ? 0 : column >= columns ? columns - 1 : column;
    return pictures->before[row * columns + column];
}

/* Values of AMOUNT and of bytes are exact in float, and so is every sum here; half a pixel rounds to the even one. */
static unsigned char
sharpened(const struct pictures *pictures, ptrdiff_t row, ptrdiff_t column)
{
    float mean = 0.25f * (pixel(pictures, row - 1, column) + pixel(pictures, row + 1, column) +
                          pixel(pictures, row, column - 1) + pixel(pictures, row, column + 1));
    float value = pixel(pictures, row, column) + AMOUNT * (pixel(pictures, row, column) - mean);
    int whole = (int)(value < 0 ? 0 : value > 255 ? 255 : value);
    float rest = value - (float)whole;
    bool up = rest > 0.5f || (rest == 0.5f && whole % 2 == 1);
    return (unsigned char)(whole + (up && whole < 255));
}

static bool
create_pictures(size_t rows, size_t columns, struct pictures *out)
{
    *out = (struct pictures){.rows = rows, .columns = columns, .before = calloc(rows, columns),
                             .expected = malloc(rows * columns), .found = malloc(rows * columns)};
    if (!out->before || !out->expected || !out->found)
        return false;
    for (size_t i = 0; i < rows * columns; i++)
        out->before[i] = (unsigned char)(i * 7919 % 1009 + i / columns);
    for (size_t i = 0; i < rows * columns; i++)
        out->expected[i] = sharpened(out, (ptrdiff_t)(i / columns), (ptrdiff_t)(i % columns));
    return true;
}

static void
free_pictures(struct pictures *pictures)
{
    free(pictures->before);
    free(pictures->expected);
    free(pictures->found);
}

/* -- with Ferry ------------------------------------------------------------------------------------ */

static ferry_status
sharpen(ferry_context *context, const sharpen_kernels *kernels, struct pictures *pictures, sharpen_compare_results *out)
{
    size_t rows = pictures->rows, columns = pictures->columns, pixels = rows * columns;
    ferry_stream *stream = ferry_context_stream(context, 1);
    const ferry_copy_options on_device = {.stream = stream, .convert = FERRY_CONVERT_SATURATE};
    ferry_byte_buffer before = {0}, after = {0};
    ferry_float_buffer now = {0}, next = {0};
    ferry_status status;
    FERRY_TRY(status, fail, ferry_byte_create(context, pixels, NULL, &before));
    FERRY_TRY(status, fail, ferry_byte_create(context, pixels, NULL, &after));
    FERRY_TRY(status, fail, ferry_float_create(context, pixels, NULL, &now));
    FERRY_TRY(status, fail, ferry_float_create(context, pixels, NULL, &next));
    const ferry_copy_region to_floats = {.target = {.buffer = now.raw}, .source = {.buffer = before.raw}, .count = pixels};
    const ferry_copy_region to_bytes = {.target = {.buffer = after.raw}, .source = {.buffer = next.raw}, .count = pixels};
    /* All copies write where the stream is. So the bytes go up once, for the conversion and for the comparison. */
    FERRY_TRY(status, fail, ferry_byte_copy_from(before, 0, pixels, pictures->before, &on_device));
    FERRY_TRY(status, fail, ferry_copy(&to_floats, 1, &on_device));
    FERRY_TRY(status, fail, sharpen_edges(kernels, rows, columns, NULL, stream, now, AMOUNT, next));
    FERRY_TRY(status, fail, ferry_copy(&to_bytes, 1, &on_device));
    FERRY_TRY(status, fail, sharpen_compare(kernels, stream, before, after, out));
    FERRY_TRY(status, fail, ferry_byte_copy_to(after, 0, pixels, pictures->found, NULL));
fail:
    ferry_float_destroy(&next);
    ferry_float_destroy(&now);
    ferry_byte_destroy(&after);
    ferry_byte_destroy(&before);
    return status;
}

/* -- the program ----------------------------------------------------------------------------------- */

static bool
is_exact(const struct pictures *pictures, const sharpen_compare_results *found)
{
    size_t pixels = pictures->rows * pictures->columns;
    uint64_t squares = 0;
    int most = 0;
    for (size_t i = 0; i < pixels; i++) {
        int change = abs(pictures->expected[i] - pictures->before[i]);
        most = change > most ? change : most;
        squares += (uint64_t)(change * change);
    }
    bool exact = memcmp(pictures->found, pictures->expected, pixels) == 0 && found->most == most && found->squares == squares;
    printf("%zu x %zu pixels, changed by up to %d, %.1f on average of squares: %s\n", pictures->rows, pictures->columns,
           found->most, (double)found->squares / (double)pixels, exact ? "exact" : "WRONG");
    return exact;
}

int
main(int argc, char **argv)
{
    unsigned long rows = argc > 2 ? strtoul(argv[1], NULL, 10) : 300, columns = argc > 2 ? strtoul(argv[2], NULL, 10) : 401;
    struct pictures pictures = {.rows = 0};
    sharpen_compare_results changed = {0};
    ferry_context *context = NULL;
    sharpen_kernels kernels = {0};
    bool good = false;
    ferry_status status;
    if ((argc != 1 && argc != 3) || rows < 1 || rows > 100000 || columns < 1 || columns > 100000) {
        fputs("usage: sharpen [ROWS COLUMNS], each up to 100000\n", stderr);
        return 2;
    }
    if (!create_pictures(rows, columns, &pictures)) {
        free_pictures(&pictures);
        fputs("sharpen: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    FERRY_TRY(status, fail, ferry_context_create(NULL, &context));
    FERRY_TRY(status, fail, sharpen_kernels_create(context, &kernels));
    FERRY_TRY(status, fail, sharpen(context, &kernels, &pictures, &changed));
    good = traffic_is_minimal(context, rows * columns, rows * columns + sizeof(int) + sizeof(uint64_t));
    good = is_exact(&pictures, &changed) && good;
fail:
    if (status != FERRY_OK)
        fprintf(stderr, "sharpen: %s (%s)\n", ferry_last_error(), ferry_status_name(status));
    sharpen_kernels_destroy(&kernels);
    ferry_context_destroy(&context);
    free_pictures(&pictures);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
