/* SPDX-License-Identifier: MIT */
#include "pool_times.h"

void
times_add_peer(struct bench_report *report, const char *case_name, double value, const char *peer,
               double peer_value, double limit)
{
    const struct bench_record record = {
        .case_name = case_name,
        .metric = "take_give",
        .unit = "ns",
        .value = value,
        .peer = peer,
        .peer_value = peer_value,
        .goal = {limit > 0 ? BENCH_AT_MOST : BENCH_NO_GOAL, limit},
    };
    bench_report_add(report, &record);
}

void
times_add(struct bench_report *report, const char *case_name, const struct times *time,
          const struct heaps *heaps, double limit)
{
    times_add_peer(report, case_name, time->pool, "mutex-freelist", time->peer, limit);
    for (size_t i = 0; i < heaps->count; i++)
        if (time->heap[i] > 0)
            times_add_peer(report, case_name, time->pool, heaps->items[i].name, time->heap[i], 0);
}
