/* SPDX-License-Identifier: MIT */

/*
 * Parts of an image that lives on the device: a tile is fetched, changed and put back as rows, and a thousand scattered edits go
 * over as one batch. Only those bytes cross; the program checks that and says how many. Run it with FERRY_DEVICE=emulated
 * where there is no GPU.
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

/* An image that only the device has. */
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
    FERRY_TRY(status, fail, ferry_float_sync_to(*out, 1));
    FERRY_TRY(status, fail, ferry_float_invalidate_host(*out));
fail:
    return status;
}

/* TILE rows of TILE pixels: the image's pitch is its width, the tile has no gaps. */
static ferry_status
brighten_tile(ferry_float_buffer image, float *tile)
{
    size_t corner = (size_t)TOP * WIDTH + LEFT;
    ferry_status status;
    FERRY_TRY(status, fail, ferry_float_copy_to_2d(image, corner, WIDTH, tile, TILE, TILE, TILE));
    for (size_t i = 0; i < (size_t)TILE * TILE; i++)
        tile[i] += 1000;
    FERRY_TRY(status, fail, ferry_float_copy_from_2d(image, corner, WIDTH, tile, TILE, TILE, TILE));
fail:
    return status;
}

static size_t
place_of(size_t edit)
{
    return edit * 1999 % EDITS * (WIDTH + 17);
}

/* Nothing moves before the submission, which sends all edits at once. */
static ferry_status
edit_in_many_places(ferry_context *context, ferry_float_buffer image, const float *values)
{
    ferry_batch *batch = NULL;
    ferry_status status;
    FERRY_TRY(status, fail, ferry_batch_create(context, &batch));
    for (size_t edit = 0; edit < EDITS; edit++)
        FERRY_TRY(status, fail, ferry_float_batch_copy_from(batch, image, place_of(edit), values + edit * EDIT, EDIT));
    FERRY_TRY(status, fail, ferry_batch_submit(batch));
fail:
    ferry_batch_destroy(&batch);
    return status;
}

static bool
is_in_tile(size_t x, size_t y)
{
    return x >= LEFT && x < LEFT + TILE && y >= TOP && y < TOP + TILE;
}

/* What must have come of it, pixel by pixel. */
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
    FERRY_TRY(status, fail, ferry_context_transfer_stats(context, &before));
    FERRY_TRY(status, fail, edit_in_many_places(context, image, values));
    FERRY_TRY(status, fail, ferry_context_transfer_stats(context, &after));
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
