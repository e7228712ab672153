/* SPDX-License-Identifier: MIT */
/* Fuzz target. The input is a trace of transfers. The target parses the trace, and writes the
 * report that `ferry trace` would print. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace_report.h"
#include "tests/fuzz/fuzz.h"

static void
report(const struct trace *trace)
{
    static FILE *nowhere;
    const struct summary_options options = {.top = 5, .round_trips = 1};
    struct summary summary;
    if (!nowhere)
        nowhere = fopen("/dev/null", "w");
    if (!nowhere || !summary_make(trace, &options, &summary))
        return;
    if (summary.dearest_count > 5 || summary.round_count > 5 || summary.end_ns < summary.begin_ns)
        abort();
    trace_report_text(nowhere, &summary, &options);
    trace_report_json(nowhere, &summary, &options);
    if (!trace_chart_write(nowhere, &summary, "trace"))
        abort();
    summary_free(&summary);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct trace trace = {0};
    struct trace_problem problem = {0};
    if (!trace_read((const char *)bytes, count, &trace, &problem)) {
        if (strlen(problem.text) < 5 || trace.events)
            abort();
        return 0;
    }
    for (size_t i = 0; i < trace.count; i++)
        if (!strchr("XibeCM", trace.events[i].phase) || !trace.events[i].name ||
            !trace.events[i].buffer)
            abort();
    report(&trace);
    trace_free(&trace);
    return 0;
}
