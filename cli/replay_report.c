/* SPDX-License-Identifier: MIT */
#include "cli/replay_report.h"

#include <ferry/version.h>

#include "cli/json.h"

/* Rises when a member of the JSON output changes its meaning or goes. */
enum { REPLAY_SCHEMA = 1 };

static double
waste_of(const struct replay_result *result)
{
    return result->given_total > 0 ? 1.0 - result->requested_total / result->given_total : 0.0;
}

static void
write_log(struct json *json, const struct report *report)
{
    const struct script *script = &report->script;
    json_string(json, "log", report->request->log);
    json_string(json, "device", report->device);
    json_number(json, "limit_bytes", report->limit_bytes);
    json_number(json, "allocations", script->takes);
    json_number(json, "frees", script->gives);
    json_number(json, "failures", script->tries);
    json_number(json, "left_out", script->empty + script->unknown_frees);
    json_number(json, "lost_frees", script->lost_frees);
    json_number(json, "threads", script->threads);
    json_number(json, "streams", script->streams);
    json_number(json, "peak_live_bytes", script->peak_bytes);
    json_number(json, "peak_live_blocks", script->peak_blocks);
    json_number(json, "left_blocks", script->left_blocks);
    json_real(json, "seconds", (double)script->span_us / 1e6);
    json_real(json, "clock_ns", report->result.clock_ns);
}

static void
write_times(struct json *json, const char *name, const struct replay_times *times)
{
    json_open(json, name, '{');
    json_number(json, "count", times->count);
    json_real(json, "median_ns", times->median_ns);
    json_real(json, "p99_ns", times->p99_ns);
    json_close(json, '}');
}

static void
write_failure(struct json *json, const struct replay_result *result)
{
    json_number(json, "out_of_memory", result->failed_takes);
    json_number(json, "out_of_memory_bytes", result->failed_bytes);
    if (result->failed_takes == 0) {
        json_null(json, "first_out_of_memory");
        return;
    }
    json_open(json, "first_out_of_memory", '{');
    json_number(json, "line", result->first.line);
    json_number(json, "operation", result->first.operation);
    json_number(json, "bytes", result->first.bytes);
    json_number(json, "live_bytes", result->first.live_bytes);
    json_string(json, "why", result->first.why);
    json_close(json, '}');
}

static void
write_result(struct json *json, const struct report *report)
{
    const struct replay_result *result = &report->result;
    json_open(json, "pool", '{');
    write_times(json, "take", &result->take);
    write_times(json, "give", &result->give);
    json_number(json, "hits", result->state.hits);
    json_number(json, "misses", result->state.misses);
    json_number(json, "waits", result->state.waits);
    json_number(json, "peak_given_bytes", result->state.peak_given_bytes);
    json_number(json, "peak_reserved_bytes", result->state.peak_reserved_bytes);
    json_real(json, "waste", waste_of(result));
    json_real(json, "fragmentation", result->state.fragmentation);
    json_number(json, "failures_saved", result->saved_tries);
    write_failure(json, result);
    if (report->smallest_limit > 0)
        json_number(json, "smallest_limit_bytes", report->smallest_limit);
    else if (report->request->smallest_limit)
        json_null(json, "smallest_limit_bytes");
    if (report->request->smallest_limit)
        json_number(json, "largest_limit_tried_bytes", report->most_bytes);
    json_close(json, '}');
}

static void
write_samples(struct json *json, const struct report *report)
{
    json_open(json, "over_time", '[');
    for (size_t i = 0; i < report->sample_count; i++) {
        const struct replay_sample *sample = &report->samples[i];
        json_open(json, NULL, '{');
        json_number(json, "operation", sample->operation);
        json_real(json, "seconds", (double)sample->time_us / 1e6);
        json_number(json, "requested_bytes", sample->requested_bytes);
        json_number(json, "given_bytes", sample->given_bytes);
        json_number(json, "reserved_bytes", sample->reserved_bytes);
        json_real(json, "fragmentation", sample->fragmentation);
        json_bool(json, "failed", sample->failed);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void
replay_report(FILE *file, const void *what)
{
    const struct report *report = what;
    struct json json = {.file = file};
    json_open(&json, NULL, '{');
    json_string(&json, "command", "replay");
    json_number(&json, "schema", REPLAY_SCHEMA);
    json_string(&json, "version", ferry_version());
    write_log(&json, report);
    write_result(&json, report);
    write_samples(&json, report);
    json_close(&json, '}');
}
