/* SPDX-License-Identifier: MIT */
/* Measures the throughput of copies of pageable memory through the staging ring. Varies the number
 * of threads, the chunk size, the copy loop and the direction. The results show which defaults to
 * choose. */
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include <ferry/byte.h>

static const struct {
    const char *name;
} loops[] = {{"libc"}, {"prefetch"}, {"stream"}};

static const uint32_t thread_counts[] = {1, 2, 4, 8};

enum { TURNS = 3 };

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define MIB           ((size_t)1 << 20)

/* Measures the throughput of uploads and downloads. Stores the speed of the fastest upload in
 * out[0] and that of the fastest download in out[1], in GB/s. Returns false if a copy failed. */
static bool
time_transfers(ferry_context *context, uint8_t *memory, size_t bytes, double out[2])
{
    ferry_byte_buffer buffer = {0};
    ferry_scope scope;
    uint8_t *there;
    double best[2] = {0, 0};
    bool ok = ferry_byte_create(context, bytes, NULL, &buffer) == FERRY_OK;
    ok = ok && ferry_byte_overwrite_device(buffer, NULL, &scope, &there) == FERRY_OK &&
         ferry_scope_close(&scope) == FERRY_OK;
    for (int turn = 0; turn < 2 * TURNS && ok; turn++) {
        double begun = bench_now_ns();
        ok = (turn % 2 ? ferry_byte_copy_to(buffer, 0, bytes, memory, NULL)
                       : ferry_byte_copy_from(buffer, 0, bytes, memory, NULL)) == FERRY_OK;
        ok = ok && ferry_stream_synchronize(ferry_context_stream(context, 1)) == FERRY_OK;
        double speed = (double)bytes / (bench_now_ns() - begun);
        best[turn % 2] = speed > best[turn % 2] ? speed : best[turn % 2];
    }
    ferry_byte_destroy(&buffer);
    memcpy(out, best, sizeof(best));
    return ok || bench_failed("copying");
}

static bool
measure(struct bench_report *report, uint8_t *memory, size_t bytes, uint32_t threads, size_t chunk,
        size_t loop)
{
    char tuning[160];
    snprintf(tuning, sizeof(tuning),
             "staging.threads=%u staging.chunk=%zu staging.chunks=%u staging.copy=%s "
             "emulated.memory=%zu",
             threads, chunk, 2 * threads + 2, loops[loop].name, 2 * bytes);
    ferry_context_options options = {.tuning = tuning, .pin_after = FERRY_PIN_NEVER};
    ferry_context *context;
    double speed[2];
    char name[64];
    if (ferry_context_create(&options, &context) != FERRY_OK)
        return bench_failed("opening the device");
    bool ok = time_transfers(context, memory, bytes, speed);
    ferry_context_destroy(&context);
    snprintf(name, sizeof(name), "%u-threads-%zuKiB-%s", threads, chunk >> 10, loops[loop].name);
    for (int down = 0; down < 2 && ok; down++)
        bench_report_add(report, &(struct bench_record){.case_name = name,
                                                        .metric = down ? "download" : "upload",
                                                        .unit = "GB/s",
                                                        .value = speed[down]});
    return ok;
}

/* Measures all combinations of settings. The caller keeps a context open, so that the driver's
 * context is created only once. */
static bool
measure_all(ferry_context *context, struct bench_report *report, bool quick)
{
    size_t bytes = quick ? 4 * MIB : 256 * MIB, step = quick ? 64 : 2;
    uint8_t *memory = malloc(bytes);
    bool ok = memory != NULL;
    (void)context;
    if (memory)
        memset(memory, 1, bytes);
    for (size_t threads = 0; threads < LENGTH(thread_counts); threads++)
        for (size_t chunk = 64 << 10; chunk <= 4 * MIB; chunk *= step)
            for (size_t loop = 0; loop < LENGTH(loops) && ok; loop++)
                ok = measure(report, memory, bytes, thread_counts[threads], chunk, loop);
    free(memory);
    return ok;
}

int
main(int argc, char **argv)
{
    return bench_main(argc, argv, "staging", 64 * MIB, measure_all);
}
