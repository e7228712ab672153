/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "cli/bench_results.h"
#include "cli/cli.h"
#include "cli/report.h"

static const char usage_text[] =
    "usage: ferry bench [-d DEVICE] [-q] [-j FILE] [-s FILE] [-o FILE]\n\n"
    "Measures what Ferry's calls cost on this machine beside what a program would call without "
    "Ferry: copies by size from\n"
    "pageable and pinned memory, allocations, conversions, and scopes that copy nothing. It takes "
    "about a minute.\n\n"
    "  -d, --device DEVICE  as ferry info; the first one is measured.\n"
    "                       default: FERRY_DEVICE, else the first CUDA device, else an emulated "
    "one\n"
    "  -q, --quick          one second, to see that it works; the figures mean nothing\n"
    "  -j, --json FILE      also write the figures into FILE, as JSON\n"
    "  -s, --svg FILE       also draw copies by size and the times of allocations into FILE\n"
    "  -o, --output FILE    write the table to FILE instead of standard output\n"
    "  -h, --help           this text\n\n"
    "Exit status: 0; 1 when a device cannot be opened, a call failed or a file cannot be "
    "written.\n";

enum { BAR = 30 };
/* Memory of an emulated device, of which half is measured. */
#define EMULATED_BYTES ((size_t)1 << 30)

struct request {
    const char *devices, *json, *svg, *output; /* NULL: none */
    bool quick;
};

/* -- progress ---------------------------------------------------------------------------------- */

void
progress_step(struct progress *progress, const char *what)
{
    int filled = progress->total ? BAR * progress->done / progress->total : 0;

    if (progress->shown)
        fprintf(stderr, "\r[%.*s%*s] %3d %%  %-26s", filled, "##############################",
                BAR - filled, "", progress->total ? 100 * progress->done / progress->total : 0,
                what);
    progress->done++;
}

static void
progress_end(struct progress *progress)
{
    if (progress->shown)
        fprintf(stderr, "\r%*s\r", BAR + 38, "");
}

/* -- the run ----------------------------------------------------------------------------------- */

static bool
open_context(const struct request *request, ferry_context **out)
{
    char tuning[64];
    ferry_context_options options = {.devices = request->devices, .tuning = tuning};

    snprintf(tuning, sizeof(tuning), "emulated.memory=%zu", EMULATED_BYTES);
    if (!request->devices) {
        *out = bench_context(EMULATED_BYTES);
        return *out != NULL;
    }
    if (ferry_context_create(&options, out) == FERRY_OK)
        return true;
    fprintf(stderr, "ferry bench: %s: %s\n", request->devices, ferry_last_error());
    return false;
}

static bool
measure(const struct request *request, struct bench_run *run)
{
    ferry_place_info info;
    double begun = bench_now_ns();
    struct bench_results *results = run->results;

    if (ferry_context_get_place_info(run->context, 1, &info) != FERRY_OK)
        return bench_failed("asking for the device");
    results->kind = info.kind;
    results->device = info.name;
    results->quick = request->quick;
    results->cores = sysconf(_SC_NPROCESSORS_ONLN);
    bench_processor(results->processor, sizeof(results->processor));
    run->progress.shown = isatty(STDERR_FILENO);
    run->progress.total =
        bench_link_steps(request->quick) + bench_pool_steps(request->quick) + bench_calls_steps();
    bool ok = by_hand_open(&run->by_hand, &info) && bench_link(run) && bench_pool(run) &&
              bench_calls(run);
    by_hand_close(&run->by_hand);
    progress_end(&run->progress);
    results->seconds = (bench_now_ns() - begun) / 1e9;
    return ok;
}

/* Returns only when there is no report. */
static int
write_report(const struct request *request, FILE *input)
{
    const char *words[8] = {"bench", "--text", request->output ? request->output : "-"};
    size_t count = 3;
    if (request->json) {
        words[count++] = "--json";
        words[count++] = request->json;
    }
    if (request->svg) {
        words[count++] = "--svg";
        words[count++] = request->svg;
    }
    return report_become(words, input);
}

/* EXIT_WELL to go on; -1 when the help was printed. */
static int
read_arguments(int argc, char **argv, struct request *out)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},
        {"quick", no_argument, NULL, 'q'},
        {"json", required_argument, NULL, 'j'},
        {"svg", required_argument, NULL, 's'},
        {"output", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };

    for (int option; (option = getopt_long(argc, argv, "d:qj:s:o:h", options, NULL)) != -1;) {
        switch (option) {
        case 'd':
            out->devices = optarg;
            break;
        case 'q':
            out->quick = true;
            break;
        case 'j':
            out->json = optarg;
            break;
        case 's':
            out->svg = optarg;
            break;
        case 'o':
            out->output = optarg;
            break;
        case 'h':
            fputs(usage_text, stdout);
            return -1;
        default:
            fputs(usage_text, stderr);
            return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "ferry bench: unexpected argument '%s'\n%s", argv[optind], usage_text);
        return EXIT_USAGE;
    }
    return EXIT_WELL;
}

int
command_bench(int argc, char **argv)
{
    struct request request = {0};
    static struct bench_results results;
    struct bench_run run = {.results = &results};
    int result = read_arguments(argc, argv, &request);

    if (result != EXIT_WELL)
        return result < 0 ? EXIT_WELL : result;
    if (!open_context(&request, &run.context))
        return EXIT_FAILED;
    bool ok = measure(&request, &run);
    FILE *input = ok ? report_input("bench", bench_report, &results) : NULL;
    ferry_context_destroy(&run.context);
    return input ? write_report(&request, input) : EXIT_FAILED;
}
