/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_CHART_H
#define FERRY_CLI_CHART_H

#include <stdio.h>

#include "cli/replay.h"

/*
 * A replay as an SVG picture: live bytes as asked for and as given, and reserved bytes over time,
 * with fragmentation below. Places where a take found no memory are marked. The horizontal axis is
 * the log's own time, or operations where the log has no times. Text is escaped; the file needs
 * nothing else.
 */

struct chart {
    const char *title;
    const struct replay_sample *samples;
    size_t count; /* at least 1 */
    bool by_operations;
    uint64_t limit_bytes; /* drawn where it lies within the picture */
};

/* What could not be written shows in ferror(). */
void chart_write(FILE *file, const struct chart *chart);

#endif
