/* SPDX-License-Identifier: MIT */
#include "cli/chart.h"

#include <math.h>

#include "cli/svg.h"

/* Two panels one above the other, in pixels. */
enum {
    WIDTH = 960,
    HEIGHT = 560,
    LEFT = 90,
    RIGHT = 24,
    MEMORY_TOP = 64,
    MEMORY_HEIGHT = 300,
    FRAGMENTATION_TOP = 420,
    FRAGMENTATION_HEIGHT = 80
};

struct series {
    const char *name, *colour;
    uint64_t (*value)(const struct replay_sample *sample);
};

static uint64_t
requested_of(const struct replay_sample *sample)
{
    return sample->requested_bytes;
}

static uint64_t
given_of(const struct replay_sample *sample)
{
    return sample->given_bytes;
}

static uint64_t
reserved_of(const struct replay_sample *sample)
{
    return sample->reserved_bytes;
}

/* From the back to the front. */
static const struct series series[] = {
    {"reserved", "#9aa5b1", reserved_of},
    {"live, given", "#e08e0b", given_of},
    {"live, requested", "#1f6fb2", requested_of},
};

enum { SERIES_COUNT = sizeof(series) / sizeof(series[0]) };

/* A value axis or the time axis: what a unit is, and how far it goes. */
struct axis {
    double scale;     /* of one unit */
    double top, step; /* in units */
    const char *unit;
};

static double
time_of(const struct chart *chart, const struct replay_sample *sample)
{
    return chart->by_operations ? (double)sample->operation : (double)sample->time_us / 1e6;
}

static struct axis
memory_axis(const struct chart *chart)
{
    static const struct {
        double scale;
        const char *unit;
    } units[] = {{1, "bytes"}, {1024, "KiB"}, {1048576, "MiB"}, {1073741824, "GiB"}};
    double most = 1;
    size_t unit = 0;
    for (size_t i = 0; i < chart->count; i++)
        for (size_t k = 0; k < SERIES_COUNT; k++)
            most = fmax(most, (double)series[k].value(&chart->samples[i]));
    while (unit + 1 < sizeof(units) / sizeof(units[0]) && most >= 4 * units[unit + 1].scale)
        unit++;
    struct axis axis = {.scale = units[unit].scale, .unit = units[unit].unit};
    axis.step = svg_round_step(most / axis.scale);
    axis.top = ceil(most / axis.scale / axis.step) * axis.step;
    return axis;
}

static struct axis
time_axis(const struct chart *chart)
{
    double span = time_of(chart, &chart->samples[chart->count - 1]);
    struct axis axis = {.scale = 1, .unit = chart->by_operations ? "operations" : "s"};
    if (!chart->by_operations && span < 2)
        axis = (struct axis){.scale = 1e-3, .unit = "ms"};
    axis.top = fmax(span / axis.scale, 1e-3);
    axis.step = svg_round_step(axis.top);
    return axis;
}

static double
x_of(const struct axis *time, double value)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * value / time->scale / time->top;
}

/* -- pieces ------------------------------------------------------------------------------------ */

static void
write_value_axis(FILE *file, const struct axis *axis, double top, double height, const char *title)
{
    char text[64];
    for (unsigned i = 0; i * axis->step <= axis->top * 1.0001; i++) {
        double value = i * axis->step;
        double y = top + height * (1 - value / axis->top);
        svg_line(file, LEFT, y, WIDTH - RIGHT, y, "grid");
        snprintf(text, sizeof(text), "%g", value);
        svg_text(file, LEFT - 8, y + 4, "end", "tick", text);
    }
    svg_upward_text(file, 22, top + height / 2, "label", title);
}

static void
write_time_axis(FILE *file, const struct axis *axis, double top, double height, bool labels)
{
    char text[64];
    for (unsigned i = 0; i * axis->step <= axis->top * 1.0001; i++) {
        double value = i * axis->step;
        double x = x_of(axis, value * axis->scale);
        svg_line(file, x, top + height, x, top + height + 5, "axis");
        snprintf(text, sizeof(text), "%g", value);
        if (labels)
            svg_text(file, x, top + height + 19, "middle", "tick", text);
    }
    svg_line(file, LEFT, top + height, WIDTH - RIGHT, top + height, "axis");
    svg_line(file, LEFT, top, LEFT, top + height, "axis");
}

/* Bytes change in steps: each sample holds until the next. */
static void
write_series(FILE *file, const struct chart *chart, const struct series *which,
             const struct axis *time, const struct axis *memory)
{
    fprintf(file, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" d=\"M%d %d",
            which->colour, LEFT, MEMORY_TOP + MEMORY_HEIGHT);
    for (size_t i = 0; i < chart->count; i++) {
        double share = (double)which->value(&chart->samples[i]) / memory->scale / memory->top;
        fprintf(file, "V%.1fH%.1f", MEMORY_TOP + MEMORY_HEIGHT * (1 - share),
                x_of(time, time_of(chart, &chart->samples[i])));
    }
    fputs("\"/>\n", file);
}

static void
write_fragmentation(FILE *file, const struct chart *chart, const struct axis *time)
{
    fprintf(file, "<path fill=\"none\" stroke=\"#7b3294\" stroke-width=\"1.4\" d=\"");
    for (size_t i = 0; i < chart->count; i++)
        fprintf(file, "%s%.1f %.1f", i ? "L" : "M", x_of(time, time_of(chart, &chart->samples[i])),
                FRAGMENTATION_TOP + FRAGMENTATION_HEIGHT * (1 - chart->samples[i].fragmentation));
    fputs("\"/>\n", file);
}

static void
write_legend(FILE *file, bool failures, bool limit)
{
    double x = LEFT;
    for (size_t i = SERIES_COUNT; i-- > 0;) {
        fprintf(file, "<rect x=\"%.1f\" y=\"40\" width=\"18\" height=\"4\" fill=\"%s\"/>\n", x,
                series[i].colour);
        svg_text(file, x + 24, 46, "start", "tick", series[i].name);
        x += 150;
    }
    if (failures) {
        svg_line(file, x + 9, 35, x + 9, 49, "failed");
        svg_text(file, x + 24, 46, "start", "tick", "out of memory");
        x += 150;
    }
    if (limit) {
        svg_line(file, x, 42, x + 18, 42, "limit");
        svg_text(file, x + 24, 46, "start", "tick", "limit");
    }
}

/* -- the picture ------------------------------------------------------------------------------- */

static bool
write_failures(FILE *file, const struct chart *chart, const struct axis *time)
{
    bool any = false;
    for (size_t i = 0; i < chart->count; i++) {
        if (!chart->samples[i].failed)
            continue;
        double x = x_of(time, time_of(chart, &chart->samples[i]));
        svg_line(file, x, MEMORY_TOP, x, MEMORY_TOP + MEMORY_HEIGHT, "failed");
        any = true;
    }
    return any;
}

void
chart_write(FILE *file, const struct chart *chart)
{
    char text[64];
    struct axis time = time_axis(chart), memory = memory_axis(chart),
                share = {.scale = 1, .top = 1, .step = 0.5};
    double limit = (double)chart->limit_bytes / memory.scale;
    bool limited = limit > 0 && limit <= memory.top;

    svg_begin(file, WIDTH, HEIGHT);
    svg_text(file, LEFT, 24, "start", "title", chart->title);
    snprintf(text, sizeof(text), "memory (%s)", memory.unit);
    write_value_axis(file, &memory, MEMORY_TOP, MEMORY_HEIGHT, text);
    write_value_axis(file, &share, FRAGMENTATION_TOP, FRAGMENTATION_HEIGHT, "fragmentation");
    bool failures = write_failures(file, chart, &time);
    if (limited)
        svg_line(file, LEFT, MEMORY_TOP + MEMORY_HEIGHT * (1 - limit / memory.top), WIDTH - RIGHT,
                 MEMORY_TOP + MEMORY_HEIGHT * (1 - limit / memory.top), "limit");
    for (size_t i = 0; i < SERIES_COUNT; i++)
        write_series(file, chart, &series[i], &time, &memory);
    write_fragmentation(file, chart, &time);
    write_time_axis(file, &time, MEMORY_TOP, MEMORY_HEIGHT, true);
    write_time_axis(file, &time, FRAGMENTATION_TOP, FRAGMENTATION_HEIGHT, true);
    snprintf(text, sizeof(text), chart->by_operations ? "%s of the log" : "time in the log (%s)",
             time.unit);
    svg_text(file, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16, "middle", "label", text);
    write_legend(file, failures, limited);
    svg_end(file);
}
