/* SPDX-License-Identifier: MIT */
#include "pool_uses.h"

#include <ferry/float.h>

enum { BYTES = 65536, ROUNDS = 21, USES = 5000 };

bool
pool_uses_count_calls(ferry_context *context, struct bench_report *report)
{
    ferry_pool *pool;
    ferry_transfer_stats before, after;
    ferry_stream *stream = ferry_context_stream(context, 1);
    bool ok = ferry_context_pool(context, 1, FERRY_MEMORY_DEVICE, &pool) == FERRY_OK;
    for (size_t i = 0; ok && i < 1001; i++) {
        ferry_block *block;
        ok = (i != 1 || ferry_context_get_transfer_stats(context, &before) == FERRY_OK) &&
             ferry_pool_allocate(pool, BYTES, stream, &block) == FERRY_OK &&
             ferry_block_free(&block, stream) == FERRY_OK;
    }
    if (!ok || ferry_context_get_transfer_stats(context, &after) != FERRY_OK)
        return bench_failed("taking on a stream");
    bench_report_device_calls(report, "64KiB/1/same stream", &before, &after);
    return true;
}

static bool
use_temporary(ferry_context *context)
{
    ferry_float_buffer buffer = {0};
    ferry_scope scope;
    float *values;
    bool ok = ferry_float_create(context, 16384, NULL, &buffer) == FERRY_OK &&
              ferry_float_overwrite_host(buffer, &scope, &values) == FERRY_OK &&
              ferry_scope_close(&scope) == FERRY_OK;
    ferry_float_destroy(&buffer);
    return ok;
}

bool
pool_uses_measure_temporary(ferry_context *context, struct bench_report *report, bool quick,
                            double pool_pair)
{
    double times[ROUNDS];
    size_t rounds = quick ? 1 : ROUNDS;
    for (size_t round = 0; round < rounds; round++) {
        double begun = bench_now_ns();
        for (size_t i = 0; i < USES; i++)
            if (!use_temporary(context))
                return bench_failed("using a temporary buffer");
        times[round] = (bench_now_ns() - begun) / USES;
    }
    const struct bench_record record = {
        .case_name = "64KiB/temporary buffer",
        .metric = "create_destroy",
        .unit = "ns",
        .value = bench_median(times, rounds),
        .peer = "pool pair",
        .peer_value = pool_pair,
        .goal = {BENCH_AT_MOST, 10},
    };
    bench_report_add(report, &record);
    return true;
}
