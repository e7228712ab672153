/* SPDX-License-Identifier: MIT */
#include "cli/trace_report.h"

#include <inttypes.h>
#include <string.h>

#include "cli/json.h"
#include "cli/output.h"

/* -- as text ----------------------------------------------------------------------------------- */

/* Such as "4.00 KiB"; `text` has room for 24 bytes. */
static const char *
in_units(uint64_t bytes, char *text)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(*units)) {
        value /= 1024;
        unit++;
    }
    snprintf(text, 24, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
    return text;
}

/* Texts of the trace, which need not be Ferry's, between those of the report. */
static void
print_texts(FILE *file, const char *before, const char *text, const char *after)
{
    fputs(before, file);
    output_text(file, text);
    fputs(after, file);
}

static void
print_name(FILE *file, const char *name, uint64_t id)
{
    fprintf(file, "#%" PRIu64, id);
    if (*name)
        print_texts(file, " \"", name, "\"");
}

static void
print_moved(FILE *file, const struct summary_count moved[SUMMARY_DIRECTIONS])
{
    char text[24];
    const char *separator = "  ";
    for (int i = 0; i < SUMMARY_DIRECTIONS; i++) {
        if (moved[i].count == 0)
            continue;
        fprintf(file, "%s%s %s in %" PRIu64, separator, summary_directions[i],
                in_units(moved[i].bytes, text), moved[i].count);
        separator = ", ";
    }
    fputc('\n', file);
}

static void
print_buffers(FILE *file, const struct summary *summary)
{
    char text[24];
    fputs("\nBy buffer\n", file);
    for (size_t i = 0; i < summary->buffer_count; i++) {
        const struct summary_buffer *buffer = &summary->buffers[i];
        uint64_t count = buffer->evicted.count;
        for (int k = 0; k < SUMMARY_DIRECTIONS; k++)
            count += buffer->moved[k].count;
        if (count == 0)
            continue;
        fputs("  ", file);
        print_name(file, buffer->name, buffer->id);
        if (buffer->bytes)
            fprintf(file, " of %s", in_units(buffer->bytes, text));
        fputc(':', file);
        print_moved(file, buffer->moved);
        if (buffer->evicted.count)
            fprintf(file, "      evicted %" PRIu64 " times\n", buffer->evicted.count);
    }
}

static void
print_reasons(FILE *file, const struct summary *summary)
{
    fputs("\nBy reason\n", file);
    for (size_t i = 0; i < summary->reason_count; i++) {
        print_texts(file, "  ", *summary->reasons[i].name ? summary->reasons[i].name : "(none)",
                    ":");
        print_moved(file, summary->reasons[i].moved);
    }
}

static void
print_dearest(FILE *file, const struct summary *summary)
{
    char text[24];
    fputs("\nLongest transfers, as the calling thread saw them\n", file);
    for (size_t i = 0; i < summary->dearest_count; i++) {
        const struct trace_event *event = summary->dearest[i];
        fprintf(file, "  %10.1f us  %s", (double)event->ns / 1e3, in_units(event->bytes, text));
        print_texts(file, "  ", event->name, " from ");
        print_texts(file, "", event->from, " to ");
        print_texts(file, "", event->to, " for ");
        print_texts(file, "", event->reason, "");
        if (event->has_id) {
            fputs(" of ", file);
            print_name(file, event->buffer, event->id);
        }
        fprintf(file, ", at %.3f ms (line %zu)\n", (double)event->begin_ns / 1e6, event->line);
    }
}

static void
print_fetches(FILE *file, const char *title, const struct summary_fetch *rows, size_t count)
{
    char text[24];
    if (count > 0)
        fprintf(file, "\n%s\n", title);
    for (size_t i = 0; i < count; i++) {
        fputs("  ", file);
        print_name(file, rows[i].name, rows[i].id);
        print_texts(file, " for ", rows[i].reason, ":");
        fprintf(file, " %s in %" PRIu64 " fetches, %.1f us\n",
                in_units(rows[i].fetched.bytes, text), rows[i].fetched.count,
                (double)rows[i].fetched.ns / 1e3);
    }
}

static void
print_rounds(FILE *file, const struct summary *summary, const struct summary_options *options)
{
    char text[24];
    if (summary->round_count > 0)
        fprintf(file, "\nRanges that crossed to a device and back at least %" PRIu64 " times\n",
                options->round_trips);
    for (size_t i = 0; i < summary->round_count; i++) {
        const struct summary_round *round = &summary->rounds[i];
        fputs("  ", file);
        print_name(file, round->name, round->id);
        fprintf(file, ", %s at byte %" PRIu64 ": %" PRIu64 " round trips\n",
                in_units(round->bytes, text), round->offset, round->crossings / 2);
    }
}

void
trace_report_text(FILE *file, const struct summary *summary, const struct summary_options *options)
{
    char text[24];
    fprintf(file, "%zu events in %.3f ms%s\n", summary->trace->count,
            (double)(summary->end_ns - summary->begin_ns) / 1e6,
            summary->trace->is_cut ? "; the trace ends early, as after a crash" : "");
    fputs("Transfers:", file);
    print_moved(file, summary->moved);
    fprintf(file,
            "Launches: %" PRIu64 "   Evictions: %" PRIu64 "   Pools grew %" PRIu64 " times by %s",
            summary->launches, summary->evictions, summary->grown.count,
            in_units(summary->grown.bytes, text));
    fprintf(file, " and shrank %" PRIu64 " times by %s\n", summary->shrunk.count,
            in_units(summary->shrunk.bytes, text));
    for (size_t i = 0; i < summary->wait_count; i++) {
        print_texts(file, "", summary->waits[i].name, ":");
        fprintf(file, " %" PRIu64 " times, %.1f us\n", summary->waits[i].waited.count,
                (double)summary->waits[i].waited.ns / 1e3);
    }
    print_buffers(file, summary);
    print_reasons(file, summary);
    print_dearest(file, summary);
    print_fetches(file,
                  "Fetched, then wholly overwritten before anything read it (FERRY_OVERWRITE would "
                  "not have fetched)",
                  summary->overwritten, summary->overwritten_count);
    print_fetches(
        file, "Fetched for scopes that update (needed only where the program reads the old bytes)",
        summary->updates, summary->update_count);
    print_rounds(file, summary, options);
}

/* -- as JSON ----------------------------------------------------------------------------------- */

static void
write_moved(struct json *json, const struct summary_count moved[SUMMARY_DIRECTIONS])
{
    json_open(json, "moved", '{');
    for (int i = 0; i < SUMMARY_DIRECTIONS; i++) {
        if (moved[i].count == 0)
            continue;
        json_open(json, summary_directions[i], '{');
        json_number(json, "count", moved[i].count);
        json_number(json, "bytes", moved[i].bytes);
        json_close(json, '}');
    }
    json_close(json, '}');
}

static void
write_buffers(struct json *json, const struct summary *summary)
{
    json_open(json, "buffers", '[');
    for (size_t i = 0; i < summary->buffer_count; i++) {
        const struct summary_buffer *buffer = &summary->buffers[i];
        json_open(json, NULL, '{');
        json_number(json, "id", buffer->id);
        json_string(json, "name", buffer->name);
        json_number(json, "bytes", buffer->bytes);
        write_moved(json, buffer->moved);
        json_number(json, "evictions", buffer->evicted.count);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void
write_dearest(struct json *json, const struct summary *summary)
{
    json_open(json, "longest", '[');
    for (size_t i = 0; i < summary->dearest_count; i++) {
        const struct trace_event *event = summary->dearest[i];
        json_open(json, NULL, '{');
        json_string(json, "direction", event->name);
        json_string(json, "reason", event->reason);
        if (event->has_id)
            json_number(json, "id", event->id);
        json_string(json, "buffer", event->buffer);
        if (event->has_offset)
            json_number(json, "offset", event->offset);
        json_number(json, "bytes", event->bytes);
        json_string(json, "from", event->from);
        json_string(json, "to", event->to);
        json_bool(json, "staged", event->is_staged);
        json_number(json, "begin_ns", event->begin_ns);
        json_number(json, "ns", event->ns);
        json_number(json, "line", event->line);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void
write_fetches(struct json *json, const char *name, const struct summary_fetch *rows, size_t count)
{
    json_open(json, name, '[');
    for (size_t i = 0; i < count; i++) {
        json_open(json, NULL, '{');
        json_number(json, "id", rows[i].id);
        json_string(json, "buffer", rows[i].name);
        json_string(json, "reason", rows[i].reason);
        json_number(json, "count", rows[i].fetched.count);
        json_number(json, "bytes", rows[i].fetched.bytes);
        json_number(json, "ns", rows[i].fetched.ns);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void
write_rounds(struct json *json, const struct summary *summary)
{
    json_open(json, "round_trips", '[');
    for (size_t i = 0; i < summary->round_count; i++) {
        const struct summary_round *round = &summary->rounds[i];
        json_open(json, NULL, '{');
        json_number(json, "id", round->id);
        json_string(json, "buffer", round->name);
        json_number(json, "offset", round->offset);
        json_number(json, "bytes", round->bytes);
        json_number(json, "round_trips", round->crossings / 2);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void
write_pool(struct json *json, const char *name, const struct summary_count *count)
{
    json_open(json, name, '{');
    json_number(json, "count", count->count);
    json_number(json, "bytes", count->bytes);
    json_number(json, "ns", count->ns);
    json_close(json, '}');
}

void
trace_report_json(FILE *file, const struct summary *summary, const struct summary_options *options)
{
    struct json json = {.file = file};
    json_open(&json, NULL, '{');
    json_number(&json, "events", summary->trace->count);
    json_bool(&json, "complete", !summary->trace->is_cut);
    json_number(&json, "begin_ns", summary->begin_ns);
    json_number(&json, "end_ns", summary->end_ns);
    write_moved(&json, summary->moved);
    json_number(&json, "launches", summary->launches);
    json_number(&json, "evictions", summary->evictions);
    write_pool(&json, "pool_growth", &summary->grown);
    write_pool(&json, "pool_shrinkage", &summary->shrunk);
    json_open(&json, "waits", '[');
    for (size_t i = 0; i < summary->wait_count; i++) {
        json_open(&json, NULL, '{');
        json_string(&json, "name", summary->waits[i].name);
        json_number(&json, "count", summary->waits[i].waited.count);
        json_number(&json, "ns", summary->waits[i].waited.ns);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    write_buffers(&json, summary);
    json_open(&json, "reasons", '[');
    for (size_t i = 0; i < summary->reason_count; i++) {
        json_open(&json, NULL, '{');
        json_string(&json, "reason", summary->reasons[i].name);
        write_moved(&json, summary->reasons[i].moved);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    write_dearest(&json, summary);
    write_fetches(&json, "overwritten_unread", summary->overwritten, summary->overwritten_count);
    write_fetches(&json, "fetched_for_update", summary->updates, summary->update_count);
    json_number(&json, "least_round_trips", options->round_trips);
    write_rounds(&json, summary);
    json_close(&json, '}');
}
