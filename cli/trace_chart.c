/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/trace_report.h"

/* A timeline: a row for each thread and stream, time from left to right. In pixels. */
enum { WIDTH = 1200, LEFT = 190, RIGHT = 20, TOP = 70, ROW = 34, BAR = 18, TICKS = 8 };

struct sort {
    const char *category, *colour, *label;
};

/* From the back to the front. */
static const struct sort sorts[] = {
    {"launch", "#7b5ea7", "launch"},
    {"transfer", "#1f6fb2", "transfer"},
    {"wait", "#e08e0b", "wait"},
    {"pool", "#4f9d69", "pool"},
    {"queue", "#b23a48", "queued on a stream"},
};

enum { SORTS = sizeof(sorts) / sizeof(*sorts) };

struct row {
    uint64_t track;
    const char *name;
    double drawn[SORTS]; /* where the last mark of the sort ends */
    bool used;
};

struct timeline {
    FILE *file;
    const struct summary *summary;
    struct row *rows; /* by the order of the file */
    size_t count, room;
};

static struct row *
find_row(struct timeline *timeline, uint64_t track)
{
    for (size_t i = 0; i < timeline->count; i++)
        if (timeline->rows[i].track == track)
            return &timeline->rows[i];
    if (timeline->count == timeline->room) {
        size_t room = timeline->room ? 2 * timeline->room : 16;
        struct row *larger = realloc(timeline->rows, room * sizeof(*larger));
        if (!larger)
            return NULL;
        timeline->rows = larger;
        timeline->room = room;
    }
    timeline->rows[timeline->count] = (struct row){.track = track, .name = ""};
    return &timeline->rows[timeline->count++];
}

static int
sort_of(const struct trace_event *event)
{
    for (int i = 0; i < SORTS; i++)
        if (!strcmp(sorts[i].category, event->category) &&
            (event->phase == 'X' || event->phase == 'i'))
            return i;
    return SORTS;
}

static void
write_text(FILE *file, double x, double y, const char *anchor, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    output_svg_text(file, text);
    fputs("</text>\n", file);
}

static double
x_of(const struct timeline *timeline, uint64_t ns)
{
    const struct summary *summary = timeline->summary;
    double span = (double)(summary->end_ns - summary->begin_ns);
    double at = ns > summary->begin_ns ? (double)(ns - summary->begin_ns) : 0;
    return LEFT + (span > 0 ? at / span : 0) * (WIDTH - LEFT - RIGHT);
}

/* Marks that would lie under the last one of their sort are left out, so that the picture stays
 * small. */
static void
draw(struct timeline *timeline, struct row *row, size_t index, const struct trace_event *event,
     int sort)
{
    double begin = x_of(timeline, event->begin_ns),
           end = x_of(timeline, event->begin_ns + event->ns);
    double inset = sort == 0 ? 0 : sort == 1 ? 3 : 6;
    if (end - begin < 0.5)
        end = begin + 0.5;
    if (end <= row->drawn[sort])
        return;
    row->drawn[sort] = end;
    fprintf(timeline->file,
            "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\"/>\n", begin,
            TOP + (double)index * ROW + inset, end - begin, BAR - 2 * inset, sorts[sort].colour);
}

static bool
collect_rows(struct timeline *timeline)
{
    const struct trace *trace = timeline->summary->trace;
    for (size_t i = 0; i < trace->count; i++) {
        const struct trace_event *event = &trace->events[i];
        bool names = event->phase == 'M' && !strcmp(event->name, "thread_name"),
             draws = sort_of(event) < SORTS;
        if (!names && !draws)
            continue;
        struct row *row = find_row(timeline, event->track);
        if (!row)
            return false;
        if (names)
            row->name = event->text_name;
        if (draws)
            row->used = true;
    }
    size_t kept = 0;
    for (size_t i = 0; i < timeline->count; i++)
        if (timeline->rows[i].used)
            timeline->rows[kept++] = timeline->rows[i];
    timeline->count = kept;
    return true;
}

static void
draw_frame(const struct timeline *timeline, const char *title)
{
    FILE *file = timeline->file;
    const struct summary *summary = timeline->summary;
    double bottom = TOP + (double)timeline->count * ROW;
    char text[96];
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 "
            "%d %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDTH, bottom + 40, WIDTH, bottom + 40);
    write_text(file, LEFT, 22, "start", title);
    for (int i = 0; i < SORTS; i++) {
        double at = LEFT + 130.0 * i;
        fprintf(file, "<rect x=\"%.1f\" y=\"34\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", at,
                sorts[i].colour);
        write_text(file, at + 18, 44, "start", sorts[i].label);
    }
    for (size_t i = 0; i < timeline->count; i++) {
        snprintf(text, sizeof(text), "%.24s (%" PRIu64 ")", timeline->rows[i].name,
                 timeline->rows[i].track);
        write_text(file, LEFT - 10, TOP + (double)i * ROW + BAR - 4, "end", text);
    }
    for (int i = 0; i <= TICKS; i++) {
        uint64_t ns = (summary->end_ns - summary->begin_ns) / TICKS * (uint64_t)i;
        double x = x_of(timeline, summary->begin_ns + ns);
        fprintf(file, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#dddddd\"/>\n",
                x, TOP - 6, x, bottom);
        snprintf(text, sizeof(text), "%.3f ms", (double)ns / 1e6);
        write_text(file, x, bottom + 16, "middle", text);
    }
}

bool
trace_chart_write(FILE *file, const struct summary *summary, const char *title)
{
    struct timeline timeline = {.file = file, .summary = summary};
    bool ok = collect_rows(&timeline);
    if (ok) {
        draw_frame(&timeline, title);
        /* What lies in another mark comes after it. */
        for (int sort = 0; sort < SORTS; sort++)
            for (size_t i = 0; i < summary->trace->count; i++) {
                const struct trace_event *event = &summary->trace->events[i];
                struct row *row = sort_of(event) == sort ? find_row(&timeline, event->track) : NULL;
                if (row)
                    draw(&timeline, row, (size_t)(row - timeline.rows), event, sort);
            }
        fputs("</svg>\n", file);
    }
    free(timeline.rows);
    return ok;
}
