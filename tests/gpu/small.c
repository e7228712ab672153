/* SPDX-License-Identifier: MIT */
/* Measures the latency of small copies of pageable memory, beside the driver's own copy of the same
 * memory. The time of a copy ends when its target has the bytes. Needs a driver: emulated devices
 * refuse to copy pageable memory. */
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "src/stream/shell.h"
#include "tests/support/copy_slots.h"
#include <ferry/byte.h>

enum { TURNS = 200, MOST = 64 << 10 };

static const size_t sizes[] = {64, 1 << 10, 4 << 10, 16 << 10, 64 << 10};

struct pair {
    ferry_context *context;
    ferry_byte_buffer buffer;
    ferryi_device *device;
    void *stream, *there; /* what the driver's own copies use */
    uint8_t *host;
};

/* Returns the time of one copy by Ferry, or -1. */
static double
time_ferry(const struct pair *pair, size_t bytes, bool up)
{
    double begun = bench_now_ns();
    bool ok = up ? ferry_byte_copy_from(pair->buffer, 0, bytes, pair->host, NULL) == FERRY_OK &&
                       ferry_byte_wait_idle(pair->buffer, 1) == FERRY_OK
                 : ferry_byte_copy_to(pair->buffer, 0, bytes, pair->host, NULL) == FERRY_OK;
    return ok ? bench_now_ns() - begun : -1;
}

/* Returns the time of one copy by the driver, or -1. */
static double
time_driver(const struct pair *pair, size_t bytes, bool up)
{
    double begun = bench_now_ns();
    bool ok =
        (up ? FERRYI_CALL(pair->device, copy_upload, pair->there, pair->host, bytes, pair->stream)
            : FERRYI_CALL(pair->device, copy_download, pair->host, pair->there, bytes,
                          pair->stream)) == FERRY_OK &&
        FERRYI_CALL(pair->device, stream_synchronize, pair->stream) == FERRY_OK;
    return ok ? bench_now_ns() - begun : -1;
}

static bool
measure_size(struct bench_report *report, const struct pair *pair, size_t bytes, bool up,
             size_t turns)
{
    double ours[TURNS], theirs[TURNS];
    char name[64];
    for (size_t turn = 0; turn <= turns; turn++) {
        size_t index = turn == 0 ? 0 : turn - 1; /* turn 0 only warms up */
        ours[index] = time_ferry(pair, bytes, up);
        theirs[index] = time_driver(pair, bytes, up);
        if (ours[index] < 0 || theirs[index] < 0)
            return bench_failed("copying");
    }
    size_t middle = bench_middle_round(ours, theirs, turns);
    snprintf(name, sizeof(name), "%zuB/pageable", bytes);
    bench_report_add(report, &(struct bench_record){.case_name = name,
                                                    .metric = up ? "upload" : "download",
                                                    .unit = "us",
                                                    .value = ours[middle] / 1e3,
                                                    .peer = "driver",
                                                    .peer_value = theirs[middle] / 1e3});
    return true;
}

/* Creates a buffer whose newest bytes are on the device, and memory and a stream for the driver. */
static bool
open_pair(struct pair *pair)
{
    ferry_scope scope;
    uint8_t *there;
    return ferry_byte_create(pair->context, MOST, NULL, &pair->buffer) == FERRY_OK &&
           ferry_byte_overwrite_device(pair->buffer, NULL, &scope, &there) == FERRY_OK &&
           ferry_scope_close(&scope) == FERRY_OK &&
           FERRYI_CALL(pair->device, memory_alloc, FERRY_MEMORY_DEVICE, MOST, &pair->there) ==
               FERRY_OK &&
           FERRYI_CALL(pair->device, stream_create, &pair->stream) == FERRY_OK;
}

static bool
measure(ferry_context *context, struct bench_report *report, bool quick)
{
    struct pair pair = {.context = context, .device = context->devices[1], .host = calloc(MOST, 1)};
    bool ok = pair.host && (open_pair(&pair) || bench_failed("allocating"));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (int down = 0; down < 2 && ok; down++)
            ok = measure_size(report, &pair, sizes[i], !down, quick ? 5 : TURNS);
    ferry_byte_destroy(&pair.buffer);
    if (pair.stream)
        (void)FERRYI_CALL(pair.device, stream_destroy, pair.stream);
    if (pair.there)
        (void)FERRYI_CALL(pair.device, memory_free, FERRY_MEMORY_DEVICE, pair.there);
    free(pair.host);
    return ok;
}

int
main(int argc, char **argv)
{
    return bench_main(argc, argv, "small", 2 * MOST, measure);
}
