/* SPDX-License-Identifier: MIT */

/*
 * Measures copying pageable memory to the device and back. The result is compared with two calls of
 * memcpy() for the same bytes in the same run. They copy to a second array and from there to a
 * third array, because an emulated device also copies twice.
 */

#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include <ferry/float.h>

#define MIB         ((size_t)1 << 20)
#define LARGE_BYTES (256 * MIB)

enum { ROUNDS_LIMIT = 9 };

struct arrays {
    size_t bytes;
    float *source, *middle, *target; /* memcpy() uses `middle` in place of device memory */
};

struct times {
    double up[ROUNDS_LIMIT], down[ROUNDS_LIMIT], both[ROUNDS_LIMIT];
};

static void
arrays_free(struct arrays *arrays)
{
    free(arrays->source);
    free(arrays->middle);
    free(arrays->target);
}

/* Allocates the arrays and writes each array once, so that page faults are not measured. */
static bool
arrays_create(struct arrays *arrays, size_t bytes)
{
    arrays->bytes = bytes;
    arrays->source = malloc(bytes);
    arrays->middle = malloc(bytes);
    arrays->target = malloc(bytes);
    if (!arrays->source || !arrays->middle || !arrays->target) {
        fprintf(stderr, "bench: no memory for 3 arrays of %zu bytes\n", bytes);
        return false;
    }
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        arrays->source[i] = (float)(i % 65521);
    memset(arrays->middle, 0, bytes);
    memset(arrays->target, 0, bytes);
    return true;
}

static void
note(struct times *times, size_t round, double begun, double turned, double ended)
{
    times->up[round] = turned - begun;
    times->down[round] = ended - turned;
    times->both[round] = ended - begun;
}

static void
copy_with_memcpy(struct arrays *arrays, struct times *times, size_t round)
{
    double begun = bench_now_ns();
    memcpy(arrays->middle, arrays->source, arrays->bytes);
    double turned = bench_now_ns();
    memcpy(arrays->target, arrays->middle, arrays->bytes);
    note(times, round, begun, turned, bench_now_ns());
}

/* Copies an array to the device and back with Ferry, and stores the times. The buffer is current on
 * the device and has no host replica, so both copies cross the link. */
static bool
copy_with_ferry(struct arrays *arrays, ferry_float_buffer buffer, struct times *times, size_t round)
{
    size_t count = arrays->bytes / sizeof(float);
    double begun = bench_now_ns();
    if (ferry_float_copy_from(buffer, 0, count, arrays->source, NULL) != FERRY_OK)
        return bench_failed("copying to the device");
    double turned = bench_now_ns();
    if (ferry_float_copy_to(buffer, 0, count, arrays->target, NULL) != FERRY_OK)
        return bench_failed("copying from the device");
    note(times, round, begun, turned, bench_now_ns());

    if (memcmp(arrays->source, arrays->target, arrays->bytes) == 0)
        return true;
    fputs("bench: what came back differs from what was sent\n", stderr);
    return false;
}

static void
add_rate(struct bench_report *report, const char *name, const char *metric, size_t bytes,
         double *times, double *peer_times, size_t rounds)
{
    const struct bench_record record = {
        .case_name = name,
        .metric = metric,
        .unit = "GB/s",
        .value = (double)bytes / bench_median(times, rounds),
        .peer = "memcpy",
        .peer_value = (double)bytes / bench_median(peer_times, rounds),
    };
    bench_report_add(report, &record);
}

static bool
measure(struct bench_report *report, struct arrays *arrays, ferry_float_buffer buffer,
        size_t rounds)
{
    static struct times ferry, peer;
    char name[64];
    snprintf(name, sizeof(name), "%zuMiB/pageable", arrays->bytes / MIB);
    for (size_t round = 0; round <= rounds; round++) {
        /* Round 0 only warms up: round 1 overwrites the result of round 0. */
        size_t index = round == 0 ? 0 : round - 1;
        if (!copy_with_ferry(arrays, buffer, &ferry, index))
            return false;
        memset(arrays->target, 0, arrays->bytes);
        copy_with_memcpy(arrays, &peer, index);
        memset(arrays->target, 0, arrays->bytes);
    }
    add_rate(report, name, "roundtrip", 2 * arrays->bytes, ferry.both, peer.both, rounds);
    add_rate(report, name, "upload", arrays->bytes, ferry.up, peer.up, rounds);
    add_rate(report, name, "download", arrays->bytes, ferry.down, peer.down, rounds);
    return true;
}

/* Creates a buffer that is current on the device, so that copies into it write device memory. */
static bool
create_on_device(ferry_context *context, size_t bytes, ferry_float_buffer *out)
{
    ferry_scope scope;
    float *unused;
    if (ferry_float_create(context, bytes / sizeof(float), NULL, out) != FERRY_OK ||
        ferry_float_overwrite_device(*out, ferry_context_stream(context, 1), &scope, &unused) !=
            FERRY_OK ||
        ferry_scope_close(&scope) != FERRY_OK)
        return bench_failed("creating the buffer");
    return true;
}

static bool
run(ferry_context *context, struct bench_report *report, bool quick)
{
    struct arrays arrays = {0};
    ferry_float_buffer buffer = {0};
    size_t bytes = quick ? 4 * MIB : LARGE_BYTES;
    bool ok = arrays_create(&arrays, bytes) && create_on_device(context, bytes, &buffer) &&
              measure(report, &arrays, buffer, quick ? 1 : ROUNDS_LIMIT);
    ferry_float_destroy(&buffer);
    arrays_free(&arrays);
    return ok;
}

int
main(int argc, char **argv)
{
    return bench_main(argc, argv, "roundtrip", 2 * LARGE_BYTES, run);
}
