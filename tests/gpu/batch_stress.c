/* SPDX-License-Identifier: MIT */
/* Submits thousands of large batches of all sizes in both directions and checks each one, because
 * some drivers crash or hang in such batches. */
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "src/stream/shell.h"

enum { COPIES = 1024, SMALLEST_LOG2 = 4, LARGEST_LOG2 = 22 };

struct stress {
    ferryi_device *device;
    void *stream;
    unsigned char *source, *target, *memory; /* pinned, pinned, device memory */
    size_t bytes;
    uint64_t seed;
    struct ferryi_copy copies[COPIES];
};

static uint64_t
next_random(struct stress *s)
{
    s->seed = s->seed * 6364136223846793005u + 1442695040888963407u;
    return s->seed >> 33;
}

/* Divides the first `bytes` bytes of the memory into copies of random sizes. Returns the number of
 * copies. */
static size_t
cut(struct stress *s, size_t bytes, bool up)
{
    size_t count = 0, kinds = 4 + next_random(s) % (LARGEST_LOG2 - SMALLEST_LOG2 - 3);
    for (size_t at = 0; at < bytes; count++) {
        size_t length = (size_t)1 << (SMALLEST_LOG2 + next_random(s) % kinds);
        length = length / 2 + next_random(s) % length;
        if (count == COPIES - 1 || length > bytes - at)
            length = bytes - at;
        s->copies[count] = (struct ferryi_copy){.target = (up ? s->memory : s->target) + at,
                                                .source = (up ? s->source : s->memory) + at,
                                                .bytes = length,
                                                .direction = up ? FERRY_DIRECTION_UPLOAD
                                                                : FERRY_DIRECTION_DOWNLOAD};
        at += length;
    }
    for (size_t i = count; i > 1; i--) {
        size_t other = next_random(s) % i;
        struct ferryi_copy copy = s->copies[i - 1];
        s->copies[i - 1] = s->copies[other];
        s->copies[other] = copy;
    }
    return count;
}

/* Uploads bytes with one batch, and downloads them with a second batch that is divided into copies
 * differently. Returns whether the downloaded bytes equal the uploaded bytes. */
static bool
go_round(struct stress *s, size_t bytes, double *out_copies)
{
    for (size_t i = 0; i < bytes; i += 64)
        s->source[i] = (unsigned char)next_random(s);
    memset(s->target, 0, bytes);
    for (int up = 1; up >= 0; up--) {
        size_t count = cut(s, bytes, up);
        if (FERRYI_CALL(s->device, copy_batch, s->copies, count, s->stream) != FERRY_OK)
            return bench_failed("a batch");
        *out_copies += (double)count;
    }
    if (FERRYI_CALL(s->device, stream_synchronize, s->stream) != FERRY_OK)
        return bench_failed("waiting for batches");
    if (memcmp(s->source, s->target, bytes) == 0)
        return true;
    fprintf(stderr, "batch_stress: other bytes came back\n");
    return false;
}

static bool
stress(ferry_context *context, struct bench_report *report, bool quick)
{
    static struct stress s = {.seed = 1};
    size_t rounds = quick ? 40 : 5000, done = 0;
    double copies = 0;
    s.device = context->devices[1];
    if (!(s.device->capabilities & FERRY_CAN_BATCH)) {
        printf("# the driver has no batches\n");
        return true;
    }
    s.bytes = (size_t)(quick ? 8 : 256) << 20;
    bool ok = FERRYI_CALL(s.device, stream_create, &s.stream) == FERRY_OK &&
              FERRYI_CALL(s.device, memory_alloc, FERRY_MEMORY_PINNED, s.bytes,
                          (void **)&s.source) == FERRY_OK &&
              FERRYI_CALL(s.device, memory_alloc, FERRY_MEMORY_PINNED, s.bytes,
                          (void **)&s.target) == FERRY_OK &&
              FERRYI_CALL(s.device, memory_alloc, FERRY_MEMORY_DEVICE, s.bytes,
                          (void **)&s.memory) == FERRY_OK;
    if (!ok)
        return bench_failed("allocating");
    double begun = bench_now_ns();
    /* Every 64th round uses all the memory, and the other rounds use a 64th of it. */
    for (; done < rounds && ok; done++)
        ok = go_round(&s, done % 64 == 63 ? s.bytes : s.bytes / 64, &copies);
    bench_report_add(report, &(struct bench_record){.case_name = "batches",
                                                    .metric = "checked",
                                                    .unit = "batches",
                                                    .value = 2 * (double)done});
    bench_report_add(report,
                     &(struct bench_record){.case_name = "copies",
                                            .metric = "rate",
                                            .unit = "copies/s",
                                            .value = copies / (bench_now_ns() - begun) * 1e9});
    FERRYI_CALL(s.device, stream_destroy, s.stream);
    FERRYI_CALL(s.device, memory_free, FERRY_MEMORY_PINNED, s.source);
    FERRYI_CALL(s.device, memory_free, FERRY_MEMORY_PINNED, s.target);
    FERRYI_CALL(s.device, memory_free, FERRY_MEMORY_DEVICE, s.memory);
    return ok;
}

int
main(int argc, char **argv)
{
    return bench_main(argc, argv, "batch_stress", (size_t)512 << 20, stress);
}
