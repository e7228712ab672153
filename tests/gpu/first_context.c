/* SPDX-License-Identifier: MIT */
/* Measures what a process pays once: the first context, and the first upload of 64 MiB of pageable
 * memory, for which the staging ring is allocated. The second of each has no such cost. */
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include <ferry/byte.h>

#define MIB ((size_t)1 << 20)

enum { TIMES = 3 };

static void
add(struct bench_report *report, const char *name, const char *metric, double ns)
{
    bench_report_add(report,
                     &(struct bench_record){
                         .case_name = name, .metric = metric, .unit = "ms", .value = ns / 1e6});
}

/* Uploads the same memory TIMES times to one buffer, and stores the time of each upload. */
static bool
time_uploads(ferry_context *context, const uint8_t *memory, size_t bytes, double out[TIMES])
{
    ferry_byte_buffer buffer = {0};
    ferry_scope scope;
    uint8_t *there;
    bool ok = ferry_byte_create(context, bytes, NULL, &buffer) == FERRY_OK;
    ok = ok && ferry_byte_overwrite_device(buffer, NULL, &scope, &there) == FERRY_OK &&
         ferry_scope_close(&scope) == FERRY_OK;
    for (int time = 0; time < TIMES && ok; time++) {
        double begun = bench_now_ns();
        ok = ferry_byte_copy_from(buffer, 0, bytes, memory, NULL) == FERRY_OK &&
             ferry_stream_synchronize(ferry_context_stream(context, 1)) == FERRY_OK;
        out[time] = bench_now_ns() - begun;
    }
    ferry_byte_destroy(&buffer);
    return ok || bench_failed("copying");
}

int
main(int argc, char **argv)
{
    static const char *const names[TIMES] = {"first", "second", "third"};
    struct bench_options options;
    struct bench_report report;
    ferry_context *contexts[2] = {NULL, NULL};
    double opened[2], uploads[TIMES];
    if (!bench_parse(argc, argv, &options))
        return EXIT_FAILURE;
    size_t bytes = options.quick ? MIB : 64 * MIB;
    uint8_t *memory = malloc(bytes);
    bool ok = memory != NULL;
    if (ok)
        memset(memory, 1, bytes);
    for (int i = 0; i < 2 && ok; i++) {
        double begun = bench_now_ns();
        contexts[i] = bench_context(2 * bytes);
        opened[i] = bench_now_ns() - begun;
        ok = contexts[i] != NULL;
    }
    ok = ok && bench_report_open(&report, "first_context", &options, contexts[0]);
    if (ok) {
        for (int i = 0; i < 2; i++)
            add(&report, names[i], "context", opened[i]);
        ok = time_uploads(contexts[0], memory, bytes, uploads);
        for (int i = 0; i < TIMES && ok; i++)
            add(&report, names[i], options.quick ? "1MiB-upload" : "64MiB-upload", uploads[i]);
        ok = bench_report_close(&report) && ok;
    }
    for (int i = 0; i < 2; i++)
        ferry_context_destroy(&contexts[i]);
    free(memory);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
