/* SPDX-License-Identifier: MIT */
#include "cli/bench_results.h"
#include "cli/json.h"

/* Rises when a member of the JSON output changes its meaning or goes. */
enum { BENCH_SCHEMA = 1 };

static const char *const direction_names[BENCH_DIRECTIONS] = {"upload", "download"};
static const char *const means_names[BENCH_MEANS] = {"by_hand_pageable", "by_hand_pinned",
                                                     "ferry_pageable", "ferry_pinned"};

static void
json_positive(struct json *json, const char *name, double value)
{
    if (value > 0)
        json_real(json, name, value);
    else
        json_null(json, name);
}

static void
write_link(struct json *json, const struct bench_results *results)
{
    json_open(json, "transfers", '[');
    for (int direction = 0; direction < BENCH_DIRECTIONS; direction++) {
        for (size_t i = 0; i < results->link_count; i++) {
            json_open(json, NULL, '{');
            json_string(json, "direction", direction_names[direction]);
            json_number(json, "bytes", results->link[i].bytes);
            for (int means = 0; means < BENCH_MEANS; means++)
                json_positive(json, means_names[means], results->link[i].rate[direction][means]);
            json_close(json, '}');
        }
    }
    json_close(json, ']');
}

static void
write_latency(struct json *json, const char *name, const struct latency *latency)
{
    json_open(json, name, '{');
    json_real(json, "batch", latency->batch);
    json_number(json, "samples", latency->count);
    json_real(json, "p50", latency->quantile[QUANTILES / 2]);
    json_real(json, "p99", latency->quantile[QUANTILES - 2]);
    json_real(json, "p999", latency->p999);
    json_real(json, "max", latency->quantile[QUANTILES - 1]);
    json_open(json, "quantiles", '[');
    for (size_t i = 0; i < QUANTILES; i++)
        json_real(json, NULL, latency->quantile[i]);
    json_close(json, ']');
    json_close(json, '}');
}

static void
write_pool(struct json *json, const struct bench_results *results)
{
    json_open(json, "allocations", '[');
    for (size_t i = 0; i < results->pool_count; i++) {
        json_open(json, NULL, '{');
        json_number(json, "bytes", results->pool[i].bytes);
        write_latency(json, "by_hand", &results->pool[i].hand);
        write_latency(json, "ferry", &results->pool[i].ferry);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void
write_pairs(struct json *json, const char *name, const struct pair_result *pairs, size_t count)
{
    json_open(json, name, '[');
    for (size_t i = 0; i < count; i++) {
        json_open(json, NULL, '{');
        json_string(json, "name", pairs[i].name);
        json_real(json, "by_hand", pairs[i].hand);
        json_real(json, "ferry", pairs[i].ferry);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void
bench_report(FILE *file, const void *what)
{
    const struct bench_results *results = what;
    struct json json = {.file = file};

    json_open(&json, NULL, '{');
    json_string(&json, "command", "bench");
    json_number(&json, "schema", BENCH_SCHEMA);
    json_string(&json, "version", ferry_version());
    json_string(&json, "kind", results->kind);
    json_string(&json, "device", results->device);
    json_string(&json, "cpu", results->processor);
    json_number(&json, "cores", (uint64_t)results->cores);
    json_bool(&json, "quick", results->quick);
#ifdef NDEBUG
    json_bool(&json, "assertions", false);
#else
    json_bool(&json, "assertions", true);
#endif
    json_real(&json, "seconds", results->seconds);
    json_open(&json, "units", '{');
    json_string(&json, "transfers", "GB/s");
    json_string(&json, "allocations", "ns");
    json_string(&json, "conversions", "GB/s");
    json_string(&json, "scopes", "ns");
    json_close(&json, '}');
    write_link(&json, results);
    json_real(&json, "clock_ns", results->clock_ns);
    write_pool(&json, results);
    write_pairs(&json, "conversions", results->conversions, CONVERSIONS);
    write_pairs(&json, "scopes", results->hits, HITS);
    json_close(&json, '}');
}
