/* SPDX-License-Identifier: MIT */

/*
 * ferry replay: what an allocation log costs.
 *
 * It reads a log (log_reader.h), makes a script of it (script.h) and runs that twice with fresh
 * pools on the chosen device: once with a clock around each operation, once to look at memory over
 * time, because looking disturbs what is timed. On the host nothing is ever touched, so that logs
 * of large GPUs replay anywhere; an emulated device fills what it allocates.
 *
 * It reports: nanoseconds of takes and gives (median and 99th percentile, the clock's own cost
 * included and reported), hits and misses, the most that was live as asked for and as given, the
 * most that was reserved, waste (bytes given but not asked for, of all takes together),
 * fragmentation (1
 * - largest free / free), and every take that found no memory: how often, and where and why first.
 * Takes that failed when the log was written are tried, and given back at once.
 */

#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/ferry.h>

#include "cli/input.h"
#include "cli/output.h"
#include "cli/replay_report.h"
#include "cli/report.h"

static const char usage_text[] =
    "usage: ferry replay [-d DEVICES] [-l BYTES] [-s] [-j] [-o FILE] LOG\n\n"
    "Replays an allocation log with Ferry's pool, and reports what it costs: time, memory, "
    "fragmentation, and\n"
    "where memory runs out. LOG is written by Ferry (FERRY_ALLOCATION_LOG, "
    "ferry_context_options.allocation_log) or by\n"
    "RMM's logging resource adaptor; - is standard input. One thread replays all lines in their "
    "order, whichever\n"
    "threads wrote them. Streams of the log become streams of the device, at most 32. Memory is "
    "never touched.\n\n"
    "  -d, --device DEVICES      as ferry info; the first one is used. default: FERRY_DEVICE, else "
    "host\n"
    "  -l, --limit BYTES         of the pool, such as 512MiB; default: what the device has\n"
    "  -s, --smallest-limit      also look for the smallest limit in which the log runs\n"
    "  -j, --json                as JSON\n"
    "  -o, --output FILE         write to FILE; into one named .svg the pool's memory over time is "
    "drawn, and the rest\n"
    "                            goes to standard output\n"
    "  -h, --help                this text\n\n"
    "Exit status: 0, also where memory ran out; 1 for a log that cannot be read, or a device that "
    "cannot be opened.\n";

static bool
failed(const char *what)
{
    fprintf(stderr, "ferry replay: %s: %s\n", what, ferry_last_error());
    return false;
}

static bool
no_memory(void)
{
    fputs("ferry replay: no host memory\n", stderr);
    return false;
}

/* -- the log ----------------------------------------------------------------------------------- */

static bool
read_script(const char *path, struct script *out)
{
    struct log log = {0};
    struct log_problem problem;
    size_t count;
    char *bytes = input_read("replay", path, &count);
    if (!bytes)
        return false;
    bool ok = log_read(bytes, count, &log, &problem) && script_write(&log, out, &problem);
    if (!ok)
        fprintf(stderr, "%s:%zu: %s\n", path, problem.line, problem.text);
    log_free(&log);
    free(bytes);
    return ok;
}

/* -- the replay -------------------------------------------------------------------------------- */

static bool
open_plain_pool(const struct allocator_options *options, struct allocator *out)
{
    return pool_open(options, out, NULL, NULL);
}

static bool
run(struct report *report, const struct allocator_options *options)
{
    struct allocator pool;
    if (!open_plain_pool(options, &pool))
        return failed("opening the device");
    bool ok = replay_run(&report->script, &pool, &report->result);
    pool.close(pool.user);
    if (!ok)
        return no_memory();
    if (report->request->smallest_limit)
        report->smallest_limit =
            replay_smallest_limit(&report->script, open_plain_pool, options, report->most_bytes);
    return true;
}

/* Replays over a second pool to observe memory, because observing disturbs the times. */
static bool
watch(struct report *report, const struct allocator_options *options)
{
    struct allocator pool;
    if (!open_plain_pool(options, &pool))
        return failed("opening the device");
    report->sample_count = replay_watch(&report->script, &pool, report->samples, REPLAY_SAMPLES);
    pool.close(pool.user);
    return report->sample_count > 0 || report->script.count == 0 || no_memory();
}

/* What the device is called, and what it has. */
static bool
describe(struct report *report, const struct allocator_options *options)
{
    struct allocator pool;
    const char *device;
    if (!pool_open(options, &pool, &device, &report->limit_bytes))
        return failed("opening the device");
    snprintf(report->device, sizeof(report->device), "%s", device);
    pool.close(pool.user);
    return true;
}

static bool
replay(struct report *report)
{
    const struct request *request = report->request;
    struct allocator_options options = {.devices = request->devices,
                                        .limit_bytes = request->limit_bytes,
                                        .streams = report->script.streams};
    /* More than rounding and holes could need: where failing ends lies below. */
    uint64_t most = 4 * report->script.peak_bytes + (UINT64_C(256) << 20);
    report->most_bytes = request->limit_bytes > most ? request->limit_bytes : most;
    return describe(report, &options) && run(report, &options) && watch(report, &options);
}

/* -- writing ----------------------------------------------------------------------------------- */

/* JSON alone needs no other program. */
static int
write_json(const struct report *report)
{
    FILE *file = output_open("replay", report->request->output);
    if (!file)
        return EXIT_FAILED;
    replay_report(file, report);
    return output_close("replay", report->request->output, file) ? EXIT_WELL : EXIT_FAILED;
}

static int
write_report(const struct request *request, FILE *input)
{
    const char *words[6] = {"replay", request->json ? "--json" : "--text",
                            request->output ? request->output : "-"};
    if (request->picture) {
        words[3] = "--svg";
        words[4] = request->picture;
    }
    return report_become(words, input);
}

/* -- the command line -------------------------------------------------------------------------- */

/* "4096", "512KiB", "2GiB"; more than 0 and less than 2^48. */
static bool
read_bytes(const char *text, uint64_t *out)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB"};
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *text == '-' || value == 0)
        return false;
    for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (!strcmp(end, units[i]) && value < (UINT64_C(1) << 48) >> 10 * i) {
            *out = (uint64_t)value << 10 * i;
            return true;
        }
    }
    return false;
}

static bool
ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length > end_length && !strcmp(text + length - end_length, end);
}

static int
wrong_use(const char *what, const char *word)
{
    fprintf(stderr, "ferry replay: %s '%s'\n%s", what, word, usage_text);
    return EXIT_USAGE;
}

/* EXIT_WELL to go on; -1 when the help was printed. */
static int
read_option(int option, struct request *out)
{
    switch (option) {
    case 'd':
        out->devices = optarg;
        return EXIT_WELL;
    case 'l':
        return read_bytes(optarg, &out->limit_bytes)
                   ? EXIT_WELL
                   : wrong_use("expected a limit such as 512MiB, not", optarg);
    case 's':
        out->smallest_limit = true;
        return EXIT_WELL;
    case 'j':
        out->json = true;
        return EXIT_WELL;
    case 'o':
        *(ends_in(optarg, ".svg") ? &out->picture : &out->output) = optarg;
        return EXIT_WELL;
    case 'h':
        fputs(usage_text, stdout);
        return -1;
    default:
        fputs(usage_text, stderr);
        return EXIT_USAGE;
    }
}

static int
read_arguments(int argc, char **argv, struct request *out)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},
        {"limit", required_argument, NULL, 'l'},
        {"smallest-limit", no_argument, NULL, 's'},
        {"json", no_argument, NULL, 'j'},
        {"output", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int result = EXIT_WELL;
    for (int option; result == EXIT_WELL &&
                     (option = getopt_long(argc, argv, "d:l:sjo:h", options, NULL)) != -1;)
        result = read_option(option, out);
    if (result != EXIT_WELL)
        return result;
    if (optind + 1 != argc)
        return optind == argc ? wrong_use("there is no log in", argv[0])
                              : wrong_use("unexpected argument", argv[optind + 1]);
    out->log = argv[optind];
    return EXIT_WELL;
}

int
command_replay(int argc, char **argv)
{
    struct request request = {0};
    int result = read_arguments(argc, argv, &request);
    if (result != EXIT_WELL)
        return result < 0 ? EXIT_WELL : result;

    struct report *report = calloc(1, sizeof(*report));
    if (!report) {
        no_memory();
        return EXIT_FAILED;
    }
    report->request = &request;
    bool ok = read_script(request.log, &report->script) && replay(report);
    bool is_json_alone = request.json && !request.picture;
    FILE *input = ok && !is_json_alone ? report_input("replay", replay_report, report) : NULL;
    if (ok && is_json_alone)
        result = write_json(report);
    else
        result = EXIT_FAILED;
    script_free(&report->script);
    free(report);
    return input ? write_report(&request, input) : result;
}
