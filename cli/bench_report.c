/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "cli/bench_results.h"
#include "cli/json.h"
#include "cli/output.h"

/* Rises when a member of the JSON output changes its meaning or goes. */
enum { BENCH_SCHEMA = 1 };

static const char *const direction_names[BENCH_DIRECTIONS] = {"upload", "download"};
static const char *const means_names[BENCH_MEANS] = {"by_hand_pageable", "by_hand_pinned",
                                                     "ferry_pageable", "ferry_pinned"};

const char *
bench_hand_text(const struct bench_results *results)
{
    return !strcmp(results->kind, "cuda") ? "cudaMalloc() and cudaMemcpy(), as calls of the driver"
                                          : "malloc() and memcpy()";
}

/* -- the table --------------------------------------------------------------------------------- */

static const char *
size_text(size_t bytes, char text[32])
{
    if (bytes >= 1048576)
        snprintf(text, 32, "%zu MiB", bytes / 1048576);
    else
        snprintf(text, 32, "%zu KiB", bytes / 1024);
    return text;
}

static void
print_value(FILE *file, double value, int decimals)
{
    if (value > 0)
        fprintf(file, " %10.*f", decimals, value);
    else
        fprintf(file, " %10s", "-");
}

static void
print_link(FILE *file, const struct bench_results *results, enum bench_direction direction,
           const char *title)
{
    char text[32];

    fprintf(file, "\n%-30s %10s %10s %10s %10s\n", title, "by hand", "by hand", "Ferry", "Ferry");
    fprintf(file, "%-30s %10s %10s %10s %10s\n", "", "pageable", "pinned", "pageable", "pinned");
    for (size_t i = 0; i < results->link_count; i++) {
        fprintf(file, "  %-28s", size_text(results->link[i].bytes, text));
        for (int means = 0; means < BENCH_MEANS; means++)
            print_value(file, results->link[i].rate[direction][means], 2);
        fputc('\n', file);
    }
}

static void
print_latency(FILE *file, const struct latency *latency)
{
    print_value(file, latency->quantile[QUANTILES / 2], 0);
    print_value(file, latency->quantile[QUANTILES - 2], 0);
}

static void
print_pool(FILE *file, const struct bench_results *results)
{
    char text[32];

    fprintf(file, "\n%-30s %10s %10s %10s %10s\n", "Freeing and allocating, ns", "by hand",
            "by hand", "Ferry", "Ferry");
    fprintf(file, "%-30s %10s %10s %10s %10s\n", "", "median", "99 %", "median", "99 %");
    for (size_t i = 0; i < results->pool_count; i++) {
        fprintf(file, "  %-28s", size_text(results->pool[i].bytes, text));
        print_latency(file, &results->pool[i].hand);
        print_latency(file, &results->pool[i].ferry);
        fputc('\n', file);
    }
}

static void
print_pairs(FILE *file, const char *title, const struct pair_result *pairs, size_t count,
            int decimals)
{
    fprintf(file, "\n%-30s %10s %10s\n", title, "by hand", "Ferry");
    for (size_t i = 0; i < count; i++) {
        fprintf(file, "  %-28s", pairs[i].name);
        print_value(file, pairs[i].hand, decimals);
        print_value(file, pairs[i].ferry, decimals);
        fputc('\n', file);
    }
}

void
bench_report_text(FILE *file, const struct bench_results *results)
{
    fprintf(file, "ferry bench %s on ", ferry_version());
    output_text(file, results->device);
    fprintf(file, " (%s), %ld cores of ", results->kind, results->cores);
    output_text(file, results->processor);
    fprintf(file, "\nBy hand: %s.\n", bench_hand_text(results));
    if (results->quick)
        fputs("These figures are of a quick run, and mean nothing.\n", file);
    print_link(file, results, BENCH_UP, "Host to device, GB/s");
    print_link(file, results, BENCH_DOWN, "Device to host, GB/s");
    print_pool(file, results);
    fprintf(file, "  Reading the clock costs %.0f ns of each.\n", results->clock_ns);
    print_pairs(file, "Conversions, GB/s", results->conversions, CONVERSIONS, 2);
    fputs("  Bytes read and written. By hand: a loop in C.\n", file);
    print_pairs(file, "Scopes without a copy, ns", results->hits, HITS, 1);
    fprintf(file,
            "  By hand: two atomic operations, the least that is safe between threads.\n\nMeasured "
            "in %.0f s.\n",
            results->seconds);
}

/* -- JSON -------------------------------------------------------------------------------------- */

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
bench_report_json(FILE *file, const struct bench_results *results)
{
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
