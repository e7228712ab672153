/* SPDX-License-Identifier: MIT */

/* ferry trace: summarizes a trace of a program. It reads the file whole (trace_reader.h), sums
 * it up (trace_summary.h), and writes that (trace_report.h). */

#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/input.h"
#include "cli/output.h"
#include "cli/trace_report.h"

enum { TOP = 10, ROUND_TRIPS = 3, TOP_MOST = 1000000 };

static const char usage_text[] =
    "usage: ferry trace [-j] [-s FILE] [-n N] [-r N] [-o FILE] TRACE\n\n"
    "Summarises a trace that a program wrote with FERRY_TRACE=TRACE or "
    "ferry_context_options.trace_file: bytes by\n"
    "buffer and by reason, the longest transfers, fetches that an OVERWRITE would have saved, and "
    "ranges that go to\n"
    "and fro between the host and devices. - is standard input. Traces of programs that crashed "
    "are read as far as\n"
    "they go. Perfetto (ui.perfetto.dev) and chrome://tracing show the file itself. "
    "docs/tracing.md explains each figure.\n\n"
    "  -j, --json            as JSON\n"
    "  -s, --svg FILE        also draw a timeline into FILE\n"
    "  -n, --top N           rows of each list that is ordered by cost; default: 10\n"
    "  -r, --round-trips N   list ranges that crossed to a device and back at least N times; "
    "default: 3\n"
    "  -o, --output FILE     write to FILE instead of standard output\n"
    "  -h, --help            this text\n\n"
    "Exit status: 0; 1 for a file that cannot be read or written, or that is no trace.\n";

struct request {
    const char *path, *output, *svg;
    bool json;
    struct summary_options options;
};

static bool
read_trace(const char *path, struct trace *out)
{
    struct trace_problem problem;
    size_t count;
    char *bytes = input_read("trace", path, &count);
    if (!bytes)
        return false;
    bool ok = trace_read(bytes, count, out, &problem);
    if (!ok)
        fprintf(stderr, "%s:%zu: %s\n", path, problem.line, problem.text);
    free(bytes);
    return ok;
}

static bool
no_memory(void)
{
    fputs("ferry trace: no host memory\n", stderr);
    return false;
}

static bool
write_report(const struct request *request, const struct summary *summary)
{
    FILE *file = output_open("trace", request->output);
    if (!file)
        return false;
    (request->json ? trace_report_json : trace_report_text)(file, summary, &request->options);
    return output_close("trace", request->output, file);
}

static bool
write_chart(const struct request *request, const struct summary *summary)
{
    FILE *file = request->svg ? output_open("trace", request->svg) : NULL;
    if (!file)
        return !request->svg;
    bool ok = trace_chart_write(file, summary, request->path) || no_memory();
    return output_close("trace", request->svg, file) && ok;
}

static bool
run(const struct request *request)
{
    struct trace trace;
    struct summary summary;
    if (!read_trace(request->path, &trace))
        return false;
    bool ok = summary_make(&trace, &request->options, &summary);
    if (ok) {
        ok = write_report(request, &summary);
        ok = write_chart(request, &summary) && ok;
        summary_free(&summary);
    } else {
        no_memory();
    }
    trace_free(&trace);
    return ok;
}

static bool
read_count(const char *text, uint64_t least, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || *text < '0' || *text > '9' || value < least || value > TOP_MOST)
        return false;
    *out = value;
    return true;
}

int
command_trace(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},
        {"svg", required_argument, NULL, 's'},
        {"top", required_argument, NULL, 'n'},
        {"round-trips", required_argument, NULL, 'r'},
        {"output", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct request request = {.options = {.top = TOP, .round_trips = ROUND_TRIPS}};
    uint64_t top = TOP;
    bool ok = true;
    for (int option; ok && (option = getopt_long(argc, argv, "js:n:r:o:h", options, NULL)) != -1;) {
        switch (option) {
        case 'j':
            request.json = true;
            break;
        case 's':
            request.svg = optarg;
            break;
        case 'o':
            request.output = optarg;
            break;
        case 'n':
            ok = read_count(optarg, 0, &top);
            break;
        case 'r':
            ok = read_count(optarg, 1, &request.options.round_trips);
            break;
        case 'h':
            fputs(usage_text, stdout);
            return EXIT_WELL;
        default:
            fputs(usage_text, stderr);
            return EXIT_USAGE;
        }
        if (!ok)
            fprintf(stderr, "ferry trace: there is '%s', expected a number\n", optarg);
    }
    if (!ok || optind + 1 != argc) {
        fputs(usage_text, stderr);
        return EXIT_USAGE;
    }
    request.path = argv[optind];
    request.options.top = (size_t)top;
    return run(&request) ? EXIT_WELL : EXIT_FAILED;
}
