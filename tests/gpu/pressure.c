/* SPDX-License-Identifier: MIT */
/* Fills the device's memory, then works on buffers that together need twice of what is left. The
 * library evicts buffers all the time. Checks their bytes, and measures the throughput. */
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "src/stream/shell.h"
#include <ferry/byte.h>

#define MIB ((size_t)1 << 20)

enum { BUFFERS = 16, FILLERS_MOST = 1024, ROUNDS = 4 };

/* Memory of the device that the library does not know about. */
struct fillers {
    void *blocks[FILLERS_MOST];
    size_t count;
};

/* Allocates memory of the device until at most `left` bytes are free, in blocks that become
 * smaller. */
static bool
fill_device(ferryi_device *device, size_t left, struct fillers *fillers)
{
    size_t free_bytes, total, most = 16384 * MIB;
    while (fillers->count < FILLERS_MOST) {
        if (FERRYI_CALL(device, memory_info, &free_bytes, &total) != FERRY_OK)
            return bench_failed("asking for free memory");
        if (free_bytes < left + MIB)
            return true;
        size_t bytes = free_bytes - left < most ? free_bytes - left : most;
        void **block = &fillers->blocks[fillers->count];
        if (FERRYI_CALL(device, memory_alloc, FERRY_MEMORY_DEVICE, bytes, block) == FERRY_OK)
            fillers->count++;
        else if ((most = bytes / 2) < MIB)
            return true;
    }
    return true;
}

/* Writes one byte value to each buffer on the host, and reads each buffer on the device. */
static bool
use_all(ferry_context *context, ferry_byte_buffer *buffers, size_t bytes, uint8_t value)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    ferry_scope scope;
    uint8_t *there;
    bool ok = true;
    for (int i = 0; i < BUFFERS && ok; i++)
        ok = ferry_byte_fill(buffers[i], 0, bytes, (uint8_t)(value + i), NULL) == FERRY_OK &&
             ferry_byte_update_device(buffers[i], stream, &scope, &there) == FERRY_OK &&
             ferry_scope_close(&scope) == FERRY_OK;
    return ok && ferry_stream_synchronize(stream) == FERRY_OK;
}

static bool
are_right(ferry_byte_buffer *buffers, size_t bytes, uint8_t value)
{
    const uint8_t *host;
    ferry_scope scope;
    for (int i = 0; i < BUFFERS; i++) {
        uint8_t wanted = (uint8_t)(value + i);
        if (ferry_byte_read_host(buffers[i], &scope, &host) != FERRY_OK)
            return bench_failed("reading a buffer");
        bool right = host[0] == wanted && memcmp(host, host + 1, bytes - 1) == 0;
        if (ferry_scope_close(&scope) != FERRY_OK || !right) {
            fprintf(stderr, "bench: buffer %d has other bytes than %d\n", i, wanted);
            return false;
        }
    }
    return true;
}

static bool
measure_rounds(ferry_context *context, struct bench_report *report, ferry_byte_buffer *buffers,
               size_t bytes)
{
    ferry_transfer_stats before, after;
    if (ferry_context_get_transfer_stats(context, &before) != FERRY_OK)
        return bench_failed("reading statistics");
    double begun = bench_now_ns();
    for (uint8_t round = 0; round < ROUNDS; round++)
        if (!use_all(context, buffers, bytes, round))
            return bench_failed("using buffers");
    double ns = bench_now_ns() - begun;
    if (ferry_context_get_transfer_stats(context, &after) != FERRY_OK)
        return bench_failed("reading statistics");
    const double total = (double)ROUNDS * BUFFERS * (double)bytes;
    bench_report_add(report, &(struct bench_record){.case_name = "full-device",
                                                    .metric = "use",
                                                    .unit = "GB/s",
                                                    .value = total / ns});
    bench_report_add(report,
                     &(struct bench_record){
                         .case_name = "full-device",
                         .metric = "evicted",
                         .unit = "of used",
                         .value = (double)(after.download.bytes - before.download.bytes) / total});
    return are_right(buffers, bytes, ROUNDS - 1);
}

static bool
measure(ferry_context *context, struct bench_report *report, bool quick)
{
    const size_t left = quick ? 16 * MIB : 2048 * MIB, bytes = 2 * left / BUFFERS;
    static struct fillers fillers;
    ferry_byte_buffer buffers[BUFFERS] = {0};
    ferryi_device *device = context->devices[1];
    bool ok = fill_device(device, left, &fillers);
    for (int i = 0; i < BUFFERS && ok; i++)
        ok = ferry_byte_create(context, bytes, NULL, &buffers[i]) == FERRY_OK ||
             bench_failed("creating a buffer");
    ok = ok && measure_rounds(context, report, buffers, bytes);
    for (int i = 0; i < BUFFERS; i++)
        ferry_byte_destroy(&buffers[i]);
    while (fillers.count > 0)
        (void)FERRYI_CALL(device, memory_free, FERRY_MEMORY_DEVICE,
                          fillers.blocks[--fillers.count]);
    return ok;
}

int
main(int argc, char **argv)
{
    return bench_main(argc, argv, "pressure", 256 * MIB, measure);
}
