/* SPDX-License-Identifier: MIT */

/*
 * The first program: computes c = a + b on the best device. The kernel is in vector_add.json.
 *
 * The program contains no copy. The launch copies a and b to the device because the kernel reads them. Opening
 * the scope at the end copies c back. c is not copied to the device because the kernel overwrites it.
 * FERRY_DEVICE=host runs the program without a GPU.
 */

#include <stdio.h>
#include <stdlib.h>

#include <ferry/ferry.h>
#include <ferry/float.h>

#include "vector_add_kernels.h"

enum { COUNT = 1 << 20 };

/* Fills a buffer on the host with 0, factor, 2 * factor, ... Copies nothing. */
static ferry_status
fill_with_multiples(ferry_float_buffer buffer, float factor)
{
    ferry_scope scope;
    float *values;
    ferry_status status = ferry_float_overwrite_host(buffer, &scope, &values);
    if (status != FERRY_OK)
        return status;
    for (size_t i = 0; i < COUNT; i++)
        values[i] = factor * (float)i;
    return ferry_scope_close(&scope);
}

/* Counts the wrong elements of c. Opening the scope waits for the kernel and copies c to the host. */
static ferry_status
count_wrong(ferry_float_buffer c, size_t *out)
{
    ferry_scope scope;
    const float *values;
    size_t wrong = 0;
    ferry_status status = ferry_float_read_host(c, &scope, &values);
    if (status != FERRY_OK)
        return status;
    for (size_t i = 0; i < COUNT; i++)
        wrong += values[i] != 3.0f * (float)i;
    *out = wrong;
    return ferry_scope_close(&scope);
}

/* Checks that only a and b went up and only c came down. A device that shares the host's memory copies nothing. */
static ferry_status
check_transfers(ferry_context *context, bool *out_ok)
{
    ferry_place_info device;
    ferry_transfer_stats moved;
    ferry_status status;
    FERRY_TRY(status, fail, ferry_context_get_place_info(context, 1, &device));
    FERRY_TRY(status, fail, ferry_context_get_transfer_stats(context, &moved));

    uint64_t bytes = device.coherent ? 0 : COUNT * sizeof(float);
    printf("%s: %llu bytes up, %llu bytes down\n", device.name, (unsigned long long)moved.upload.bytes,
           (unsigned long long)moved.download.bytes);
    *out_ok = moved.upload.bytes == 2 * bytes && moved.download.bytes == bytes;
fail:
    return status;
}

int
main(void)
{
    ferry_status status;
    ferry_context *context = NULL;
    vector_kernels kernels = {0};
    ferry_event *begin = NULL, *end = NULL;
    ferry_float_buffer a = {0}, b = {0}, c = {0};
    size_t wrong = COUNT;
    bool moved_the_least = false;

    FERRY_TRY(status, fail, ferry_context_create(NULL, &context));
    FERRY_TRY(status, fail, vector_kernels_create(context, &kernels));
    FERRY_TRY(status, fail, ferry_float_create(context, COUNT, NULL, &a));
    FERRY_TRY(status, fail, ferry_float_create(context, COUNT, NULL, &b));
    FERRY_TRY(status, fail, ferry_float_create(context, COUNT, NULL, &c));
    FERRY_TRY(status, fail, fill_with_multiples(a, 1.0f));
    FERRY_TRY(status, fail, fill_with_multiples(b, 2.0f));

    /* The time between two events of the stream is the kernel's, and that of a and b on their way to the device. */
    ferry_stream *stream = ferry_context_stream(context, 1);
    double seconds;
    FERRY_TRY(status, fail, ferry_stream_record(stream, FERRY_EVENT_TIMED, &begin));
    FERRY_TRY(status, fail, vector_add(&kernels, stream, a, b, c));
    FERRY_TRY(status, fail, ferry_stream_record(stream, FERRY_EVENT_TIMED, &end));
    FERRY_TRY(status, fail, ferry_event_elapsed(begin, end, &seconds));
    printf("the kernel and its transfers took %.3f ms\n", seconds * 1e3);

    FERRY_TRY(status, fail, count_wrong(c, &wrong));
    FERRY_TRY(status, fail, check_transfers(context, &moved_the_least));
    printf("%zu of %d sums are wrong; %s\n", wrong, COUNT,
           moved_the_least ? "nothing crossed twice" : "more crossed than needed");

fail:
    if (status != FERRY_OK)
        fprintf(stderr, "vector_add: %s (%s)\n", ferry_last_error(), ferry_status_name(status));
    ferry_event_destroy(&end);
    ferry_event_destroy(&begin);
    ferry_float_destroy(&c);
    ferry_float_destroy(&b);
    ferry_float_destroy(&a);
    vector_kernels_destroy(&kernels);
    ferry_context_destroy(&context);
    return status == FERRY_OK && wrong == 0 && moved_the_least ? EXIT_SUCCESS : EXIT_FAILURE;
}
