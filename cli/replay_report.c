/* SPDX-License-Identifier: MIT */
#include "cli/replay_report.h"

#include <inttypes.h>
#include <string.h>

#include <ferry/version.h>

#include "cli/chart.h"
#include "cli/json.h"

/* Rises when a member of the JSON output changes its meaning or goes. */
enum { REPLAY_SCHEMA = 1 };

/* -- text -------------------------------------------------------------------------------------- */

static double
mib(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static double
waste_of(const struct replay_result *result)
{
    return result->given_total > 0 ? 1.0 - result->requested_total / result->given_total : 0.0;
}

static double
most_fragmentation(const struct report *report)
{
    double most = 0;
    for (size_t i = 0; i < report->sample_count; i++)
        most = report->samples[i].fragmentation > most ? report->samples[i].fragmentation : most;
    return most;
}

static void
print_log(FILE *file, const struct report *report)
{
    const struct script *script = &report->script;
    fprintf(file, "Log: %s\n", report->request->log);
    fprintf(file, "  %-28s%zu allocations, %zu frees, %zu failures\n", "Operations:", script->takes,
            script->gives, script->tries);
    fprintf(file, "  %-28s%zu, %" PRIu32 "\n", "Threads, streams:", script->threads,
            script->streams);
    if (script->empty + script->unknown_frees + script->lost_frees > 0)
        fprintf(file,
                "  %-28s%zu of no bytes or address, %zu frees of what the log does not allocate; "
                "%zu lost frees put in\n",
                "Left out:", script->empty, script->unknown_frees, script->lost_frees);
    fprintf(file, "  %-28s%.1f MiB in %zu blocks; %zu blocks at the end\n",
            "Live at most:", mib(script->peak_bytes), script->peak_blocks, script->left_blocks);
    fprintf(file, "Device: %s, limit %.1f MiB\n", report->device, mib(report->limit_bytes));
    fprintf(file, "  One thread, in the order of the lines; times include the clock's %.0f ns.\n",
            report->result.clock_ns);
}

static void
print_failure(FILE *file, const struct replay_result *result)
{
    if (result->failed_takes == 0) {
        fprintf(file, "  %-28snever\n", "Out of memory:");
        return;
    }
    fprintf(file, "  %-28s%zu times, %.1f MiB in all\n", "Out of memory:", result->failed_takes,
            mib(result->failed_bytes));
    fprintf(
        file,
        "    first at line %zu (operation %zu): %" PRIu64 " bytes with %" PRIu64 " bytes live\n",
        result->first.line, result->first.operation, result->first.bytes, result->first.live_bytes);
    fprintf(file, "    %s\n", result->first.why);
}

static void
print_result(FILE *file, const struct report *report)
{
    const struct replay_result *result = &report->result;
    const struct allocator_state *state = &result->state;
    fputs("\nPool\n", file);
    fprintf(file, "  %-28smedian %.0f ns, p99 %.0f ns\n", "Take:", result->take.median_ns,
            result->take.p99_ns);
    fprintf(file, "  %-28smedian %.0f ns, p99 %.0f ns\n", "Give:", result->give.median_ns,
            result->give.p99_ns);
    fprintf(file,
            "  %-28s%" PRIu64 " hits, %" PRIu64 " misses; %" PRIu64 " waits between streams\n",
            "Takes:", state->hits, state->misses, state->waits);
    fprintf(file, "  %-28s%.1f MiB\n", "Live at most, as given:", mib(state->peak_given_bytes));
    fprintf(file, "  %-28s%.1f MiB\n", "Reserved at most:", mib(state->peak_reserved_bytes));
    fprintf(file, "  %-28s%.2f %% of the bytes given were not asked for\n",
            "Waste:", 100 * waste_of(result));
    fprintf(file, "  %-28s%.3f at the end, %.3f at most\n", "Fragmentation:", state->fragmentation,
            most_fragmentation(report));
    if (report->script.tries > 0)
        fprintf(file, "  %-28s%zu of %zu work here\n", "Failures in the log:", result->saved_tries,
                report->script.tries);
    print_failure(file, result);
    if (report->smallest_limit > 0)
        fprintf(file, "  %-28s%.1f MiB, %.3f x the most that is live\n",
                "Smallest limit:", mib(report->smallest_limit),
                (double)report->smallest_limit / (double)report->script.peak_bytes);
    else if (report->request->smallest_limit)
        fprintf(file, "  %-28snone up to %.1f MiB\n", "Smallest limit:", mib(report->most_bytes));
}

void
replay_report_text(FILE *file, const struct report *report)
{
    print_log(file, report);
    print_result(file, report);
}

/* -- JSON -------------------------------------------------------------------------------------- */

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
        json_close(json, '}');
    }
    json_close(json, ']');
}

void
replay_report_json(FILE *file, const struct report *report)
{
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

/* -- a picture --------------------------------------------------------------------------------- */

void
replay_report_draw(FILE *file, const struct report *report)
{
    static const struct replay_sample nothing;
    const char *slash = strrchr(report->request->log, '/');
    char title[256];
    snprintf(title, sizeof(title), "%s on %s", slash ? slash + 1 : report->request->log,
             report->device);
    const struct chart chart = {
        .title = title,
        .samples = report->sample_count ? report->samples : &nothing,
        .count = report->sample_count ? report->sample_count : 1,
        .by_operations = report->script.span_us == 0,
        .limit_bytes = report->limit_bytes,
    };
    chart_write(file, &chart);
}
