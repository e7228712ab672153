/* SPDX-License-Identifier: MIT */

/*
 * Three accesses of one buffer, of which one copies, and copies only what its place lacks. docs/ranges.py draws the picture
 * of README from the trace of this program: FERRY_DEVICE=emulated FERRY_TRACE=ranges.trace ranges
 */

#include <stdio.h>
#include <stdlib.h>

#include <ferry/ferry.h>
#include <ferry/float.h>

#include "ranges_kernels.h"

enum { COUNT = 4000, FIRST = 1000, CHANGED = 500 };

/* Writes some elements on the host. OVERWRITE promises to write them all, so nothing is copied. */
static ferry_status
change_some(ferry_float_buffer x)
{
    ferry_scope scope;
    float *values;
    ferry_status status = ferry_float_overwrite_host_range(x, FIRST, CHANGED, &scope, &values);
    if (status != FERRY_OK)
        return status;
    for (size_t i = 0; i < CHANGED; i++)
        values[i] = 1.0f;
    return ferry_scope_close(&scope);
}

int
main(void)
{
    static const ferry_buffer_options options = {.name = "x"};
    ferry_context *context = NULL;
    ranges_kernels kernels = {0};
    ferry_float_buffer x = {0};
    ferry_transfer_stats stats;
    ferry_status status;

    FERRY_TRY(status, done, ferry_context_create(NULL, &context));
    ferry_stream *stream = ferry_context_stream(context, 1); /* of the first device, however many there are */
    FERRY_TRY(status, done, ranges_kernels_create(context, &kernels));
    FERRY_TRY(status, done, ferry_float_create(context, COUNT, &options, &x));
    FERRY_TRY(status, done, ranges_seed(&kernels, stream, x));
    FERRY_TRY(status, done, change_some(x));
    FERRY_TRY(status, done, ranges_twice(&kernels, stream, x)); /* copies CHANGED elements to the device */
    FERRY_TRY(status, done, ferry_context_get_transfer_stats(context, &stats));
    printf("%llu bytes up, %llu bytes down\n", (unsigned long long)stats.upload.bytes, (unsigned long long)stats.download.bytes);
done:
    if (status != FERRY_OK)
        fprintf(stderr, "ranges: %s (%s)\n", ferry_last_error(), ferry_status_name(status));
    ferry_float_destroy(&x);
    ranges_kernels_destroy(&kernels);
    ferry_context_destroy(&context);
    return status == FERRY_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
