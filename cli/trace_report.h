/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_TRACE_REPORT_H
#define FERRY_CLI_TRACE_REPORT_H

#include <stdio.h>

#include "cli/trace_summary.h"

/* A summary as text, as JSON, and as an SVG timeline with one row for each thread and stream. What
 * could not be written shows in ferror(). */

void trace_report_text(FILE *file, const struct summary *summary,
                       const struct summary_options *options);
void trace_report_json(FILE *file, const struct summary *summary,
                       const struct summary_options *options);
/* False: no memory. */
bool trace_chart_write(FILE *file, const struct summary *summary, const char *title);

#endif
