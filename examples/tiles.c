/* SPDX-License-Identifier: MIT */

/*
 * Copies parts of an image that is on the device. The program copies a tile to the host as rows,
 * changes it and copies it back. It then copies a thousand scattered edits as one batch. It checks that
 * only those bytes cross, and prints how many. Without a GPU, run it with FERRY_DEVICE=emulated.
 */

#include <stdio.h>
#include <stdlib.h>

#include <ferry/ferry.h>
#include <ferry/float.h>

enum { WIDTH = 2048, HEIGHT = 1024, TILE = 256, LEFT = 700, TOP = 300, EDITS = 1000, EDIT = 8 };

static float
ground(size_t x, size_t y)
{
    return (float)(x % 97 + y % 89);
}

/* Creates an image that is current only on the device. */
static ferry_status
make_image(ferry_context *context, ferry_float_buffer *out)
{
    ferry_scope scope;
    float *pixels;
    ferry_status status;
    FERRY_TRY(status, fail, ferry_float_create(context, (size_t)WIDTH * HEIGHT, NULL, out));
    FERRY_TRY(status, fail, ferry_float_overwrite_host(*out, &scope, &pixels));
    for (size_t i = 0; i < (size_t)WIDTH * HEIGHT; i++)
        pixels[i] = ground(i % WIDTH, i / WIDTH);
    FERRY_TRY(status, fail, ferry_scope_close(&scope));
    FERRY_TRY(status, fail, ferry_float_sync_to(*out, 1, NULL));
    FERRY_TRY(status, fail, ferry_float_invalidate(*out, FERRY_PLACE_HOST));
fail:
    return status;
}

/* Copies TILE rows of TILE pixels. The pitch of the image is its width; the tile is packed. */
static ferry_status
brighten_tile(ferry_float_buffer image, float *tile)
{
    size_t corner = (size_t)TOP * WIDTH + LEFT;
    ferry_status status;
    ferry_copy_region down = ferry_float_region_to(image, corner, TILE, tile), up = ferry_float_region_from(image, corner, TILE, tile);
    down.rows = up.rows = TILE;
    down.source.row_pitch = up.target.row_pitch = WIDTH;
    FERRY_TRY(status, fail, ferry_copy(&down, 1, NULL));
    for (size_t i = 0; i < (size_t)TILE * TILE; i++)
        tile[i] += 1000;
    FERRY_TRY(status, fail, ferry_copy(&up, 1, NULL));
fail:
    return status;
}

static size_t
place_of(size_t edit)
{
    return edit * 1999 % EDITS * (WIDTH + 17);
}

/* One call copies all edits. */
static ferry_status
edit_in_many_places(ferry_float_buffer image, const float *values)
{
    static ferry_copy_region regions[EDITS];
    for (size_t edit = 0; edit < EDITS; edit++)
        regions[edit] = ferry_float_region_from(image, place_of(edit), EDIT, values + edit * EDIT);
    return ferry_copy(regions, EDITS, NULL);
}

static bool
is_in_tile(size_t x, size_t y)
{
    return x >= LEFT && x < LEFT + TILE && y >= TOP && y < TOP + TILE;
}

/* Checks the result, pixel by pixel. */
static bool
is_right(const float *pixels)
{
    size_t wrong = 0, edited = 0;
    for (size_t i = 0; i < (size_t)WIDTH * HEIGHT; i++) {
        bool is_edit = i % (WIDTH + 17) < EDIT && i / (WIDTH + 17) < EDITS;
        float expected = is_edit ? -1.0f : ground(i % WIDTH, i / WIDTH) + (is_in_tile(i % WIDTH, i / WIDTH) ? 1000.0f : 0.0f);
        edited += is_edit;
        wrong += pixels[i] != expected;
    }
    return wrong == 0 && edited == (size_t)EDITS * EDIT;
}

static ferry_status
run(ferry_context *context, ferry_float_buffer image)
{
    static float tile[TILE * TILE], values[EDITS * EDIT];
    ferry_transfer_stats before, after;
    ferry_scope scope;
    const float *pixels;
    ferry_status status;
    for (size_t i = 0; i < (size_t)EDITS * EDIT; i++)
        values[i] = -1.0f;
    FERRY_TRY(status, fail, brighten_tile(image, tile));
    FERRY_TRY(status, fail, ferry_context_get_transfer_stats(context, &before));
    FERRY_TRY(status, fail, edit_in_many_places(image, values));
    FERRY_TRY(status, fail, ferry_context_get_transfer_stats(context, &after));
    printf("%d edits went over in %llu submission, %llu bytes\n", EDITS,
           (unsigned long long)(after.batch_submissions - before.batch_submissions),
           (unsigned long long)(after.upload.bytes - before.upload.bytes));
    FERRY_TRY(status, fail, ferry_float_read_host(image, &scope, &pixels));
    puts(is_right(pixels) ? "every pixel is right" : "some pixels are wrong");
    status = is_right(pixels) ? FERRY_OK : FERRY_ERROR_DEVICE;
    (void)ferry_scope_close(&scope);
fail:
    return status;
}

int
main(void)
{
    ferry_context *context = NULL;
    ferry_float_buffer image = {0};
    ferry_status status;
    FERRY_TRY(status, fail, ferry_context_create(NULL, &context));
    FERRY_TRY(status, fail, make_image(context, &image));
    FERRY_TRY(status, fail, run(context, image));
fail:
    if (status != FERRY_OK)
        fprintf(stderr, "tiles: %s: %s\n", ferry_status_name(status), ferry_last_error());
    ferry_float_destroy(&image);
    ferry_context_destroy(&context);
    return status == FERRY_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
