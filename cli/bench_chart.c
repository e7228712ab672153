/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "cli/bench_results.h"
#include "cli/svg.h"

/* Three panels: both directions side by side above, allocations below. In pixels. */
enum { WIDTH = 960, HEIGHT = 760, TOP = 84, PANEL_HEIGHT = 240, POOL_TOP = 430 };

struct panel {
    double left, top, width, height;
    double x_least, x_most; /* logarithms to the base 10 */
    double y_most, y_step;
};

static const struct {
    const char *name, *colour, *dash;
} means_styles[BENCH_MEANS] = {
    {"by hand, pageable", "#9aa5b1", "5 4"},
    {"by hand, pinned", "#555555", "5 4"},
    {"Ferry, pageable", "#1f6fb2", "none"},
    {"Ferry, pinned", "#e08e0b", "none"},
};
static const char *const pool_colours[POOL_SIZES_MAX] = {"#1f6fb2", "#4f9d69", "#e08e0b",
                                                         "#b23a48"};

static double
x_of(const struct panel *panel, double value)
{
    double share = (log10(value) - panel->x_least) / (panel->x_most - panel->x_least);
    return panel->left + panel->width * fmin(fmax(share, 0), 1);
}

static double
y_of(const struct panel *panel, double value)
{
    return panel->top + panel->height * (1 - fmin(value / panel->y_most, 1));
}

static void
write_frame(FILE *file, const struct panel *panel, const char *title, const char *y_label)
{
    char text[32];

    svg_text(file, panel->left, panel->top - 10, "start", "label", title);
    for (unsigned i = 0; i * panel->y_step <= panel->y_most * 1.0001; i++) {
        double y = y_of(panel, i * panel->y_step);
        svg_line(file, panel->left, y, panel->left + panel->width, y, "grid");
        snprintf(text, sizeof(text), "%g", i * panel->y_step);
        svg_text(file, panel->left - 8, y + 4, "end", "tick", text);
    }
    svg_upward_text(file, panel->left - 46, panel->top + panel->height / 2, "label", y_label);
    svg_line(file, panel->left, panel->top + panel->height, panel->left + panel->width,
             panel->top + panel->height, "axis");
    svg_line(file, panel->left, panel->top, panel->left, panel->top + panel->height, "axis");
}

static void
write_tick(FILE *file, const struct panel *panel, double value, const char *text)
{
    double x = x_of(panel, value), y = panel->top + panel->height;
    svg_line(file, x, y, x, y + 5, "axis");
    svg_text(file, x, y + 19, "middle", "tick", text);
}

static void
begin_path(FILE *file, const char *colour, const char *dash)
{
    fprintf(file,
            "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" stroke-dasharray=\"%s\" d=\"",
            colour, dash);
}

static void
write_legend(FILE *file, double x, double y, const char *colour, const char *dash, const char *text)
{
    begin_path(file, colour, dash);
    fprintf(file, "M%.1f %.1fH%.1f\"/>\n", x, y, x + 24);
    svg_text(file, x + 30, y + 4, "start", "tick", text);
}

/* -- the link ---------------------------------------------------------------------------------- */

static double
greatest_rate(const struct bench_results *results)
{
    double most = 1e-3;
    for (size_t i = 0; i < results->link_count; i++)
        for (int direction = 0; direction < BENCH_DIRECTIONS; direction++)
            for (int means = 0; means < BENCH_MEANS; means++)
                most = fmax(most, results->link[i].rate[direction][means]);
    return most;
}

static void
write_link(FILE *file, const struct bench_results *results, enum bench_direction direction,
           const char *title, double left)
{
    double most = greatest_rate(results), step = svg_round_step(most);
    struct panel panel = {.left = left,
                          .top = TOP,
                          .width = 380,
                          .height = PANEL_HEIGHT,
                          .y_step = step,
                          .y_most = ceil(most / step) * step};

    panel.x_least = log10((double)results->link[0].bytes);
    panel.x_most = log10((double)results->link[results->link_count - 1].bytes);
    write_frame(file, &panel, title, "GB/s");
    for (size_t i = 0; i < results->link_count; i += 2) {
        char text[32];
        size_t bytes = results->link[i].bytes;
        snprintf(text, sizeof(text), "%zu %s", bytes / (bytes < 1048576 ? 1024 : 1048576),
                 bytes < 1048576 ? "KiB" : "MiB");
        write_tick(file, &panel, (double)bytes, text);
    }
    for (int means = 0; means < BENCH_MEANS; means++) {
        if (results->link[0].rate[direction][means] <= 0)
            continue;
        begin_path(file, means_styles[means].colour, means_styles[means].dash);
        for (size_t i = 0; i < results->link_count; i++)
            fprintf(file, "%s%.1f %.1f", i ? "L" : "M",
                    x_of(&panel, (double)results->link[i].bytes),
                    y_of(&panel, results->link[i].rate[direction][means]));
        fputs("\"/>\n", file);
    }
}

/* -- the pool ---------------------------------------------------------------------------------- */

/* The last hundredth is left out: it is what the system did meanwhile. */
static void
write_distribution(FILE *file, const struct panel *panel, const struct latency *latency,
                   const char *colour, const char *dash)
{
    begin_path(file, colour, dash);
    for (size_t i = 0; i + 1 < QUANTILES; i++)
        fprintf(file, "%s%.1f %.1f", i ? "L" : "M", x_of(panel, fmax(latency->quantile[i], 1)),
                y_of(panel, (double)i));
    fputs("\"/>\n", file);
}

static void
write_pool(FILE *file, const struct bench_results *results)
{
    struct panel panel = {.left = 90,
                          .top = POOL_TOP,
                          .width = 700,
                          .height = PANEL_HEIGHT,
                          .y_step = 25,
                          .y_most = 100};
    double least = 1e9, most = 1;
    char text[64];

    for (size_t i = 0; i < results->pool_count; i++) {
        const struct latency *both[] = {&results->pool[i].hand, &results->pool[i].ferry};
        for (size_t k = 0; k < 2; k++) {
            least = fmin(least, both[k]->quantile[0]);
            most = fmax(most, both[k]->quantile[QUANTILES - 2]);
        }
    }
    panel.x_least = floor(log10(fmax(least, 1)));
    panel.x_most = fmax(ceil(log10(most)), panel.x_least + 1);
    write_frame(file, &panel, "Time of freeing a block and allocating it again", "% of all pairs");
    for (int power = (int)panel.x_least; power <= (int)panel.x_most; power++) {
        snprintf(text, sizeof(text), "%g ns", pow(10, power));
        write_tick(file, &panel, pow(10, power), text);
    }
    for (size_t i = 0; i < results->pool_count; i++) {
        const struct pool_result *result = &results->pool[i];
        write_distribution(file, &panel, &result->hand, pool_colours[i], "5 4");
        write_distribution(file, &panel, &result->ferry, pool_colours[i], "none");
        snprintf(text, sizeof(text), "%zu KiB", result->bytes / 1024);
        write_legend(file, 810, POOL_TOP + 20 + 22 * (double)i, pool_colours[i], "none", text);
    }
    write_legend(file, 810, POOL_TOP + 130, "#555555", "none", "Ferry's pool");
    write_legend(file, 810, POOL_TOP + 152, "#555555", "5 4", "by hand");
}

void
bench_chart(FILE *file, const struct bench_results *results)
{
    char text[512];

    svg_begin(file, WIDTH, HEIGHT);
    snprintf(text, sizeof(text), "ferry bench %s on %s, %s%s", ferry_version(), results->device,
             results->processor,
             results->quick ? " (a quick run, whose figures mean nothing)" : "");
    svg_text(file, 90, 24, "start", "title", text);
    for (int means = 0; means < BENCH_MEANS; means++)
        write_legend(file, 90 + 170 * means, 46, means_styles[means].colour,
                     means_styles[means].dash, means_styles[means].name);
    write_link(file, results, BENCH_UP, "Host to device, by the size of a copy", 90);
    write_link(file, results, BENCH_DOWN, "Device to host, by the size of a copy", 550);
    write_pool(file, results);
    snprintf(text, sizeof(text), "By hand: %s.", bench_hand_text(results));
    svg_text(file, 90, HEIGHT - 20, "start", "tick", text);
    svg_end(file);
}
