/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double
read_clock(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

double
bench_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double
bench_processor_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double
bench_median(double *samples, size_t count)
{
    qsort(samples, count, sizeof(*samples), compare);
    return count % 2 ? samples[count / 2] : (samples[count / 2 - 1] + samples[count / 2]) / 2.0;
}

size_t
bench_middle_round(const double *ours, const double *theirs, size_t count)
{
    for (size_t round = 0; round < count; round++) {
        double ratio = ours[round] / theirs[round];
        size_t below = 0;
        for (size_t i = 0; i < count; i++) {
            double other = ours[i] / theirs[i];
            below += other < ratio || (other == ratio && i < round);
        }
        if (below == count / 2)
            return round;
    }
    return 0;
}

bool
bench_parse(int argc, char **argv, struct bench_options *out)
{
    *out = (struct bench_options){0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            out->quick = true;
        } else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
            out->json = argv[++i];
        } else {
            fprintf(stderr, "usage: %s [--quick] [--json FILE]\n", argv[0]);
            return false;
        }
    }
    return true;
}

bool
bench_failed(const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", what, ferry_last_error());
    return false;
}

ferry_context *
bench_context(size_t emulated_bytes)
{
    char tuning[64];
    snprintf(tuning, sizeof(tuning), "emulated.memory=%zu", emulated_bytes);
    ferry_context_options options = {.tuning = tuning};
    ferry_context *context = NULL;
    if (!getenv("FERRY_DEVICE")) {
        options.devices = "cuda";
        if (ferry_context_create(&options, &context) == FERRY_OK)
            return context;
        options.devices = "emulated";
    }
    if (ferry_context_create(&options, &context) != FERRY_OK) {
        bench_failed("opening the device");
        return NULL;
    }
    return context;
}

/* -- the report -------------------------------------------------------------------------------- */

static void
write_string(FILE *file, const char *text)
{
    if (!text) {
        fputs("null", file);
        return;
    }
    fputc('"', file);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

static void
write_member(FILE *file, const char *key, const char *text)
{
    fprintf(file, "\"%s\": ", key);
    write_string(file, text);
    fputs(", ", file);
}

/* Copies the value from a line of /proc/cpuinfo. Returns false if the line is not that of `key`. */
static bool
read_value(const char *line, const char *key, char *value, size_t value_bytes)
{
    size_t length = strlen(key);
    const char *colon = strchr(line, ':');
    if (!colon || strncmp(line, key, length) != 0 ||
        line[length + strspn(line + length, " \t")] != ':')
        return false;
    colon += 1 + strspn(colon + 1, " ");
    snprintf(value, value_bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
    return true;
}

/* The name of a virtual machine's processor is often short. Processors of several generations then
 * share one name, and only the family and the model distinguish them. */
void
bench_processor(char *name, size_t name_bytes)
{
    char line[256], kind[96] = "", family[16] = "", model[16] = "";
    FILE *file = fopen("/proc/cpuinfo", "r");
    /* An empty line ends the description of the first processor. */
    while (file && fgets(line, sizeof(line), file) && line[0] != '\n')
        if (!read_value(line, "model name", kind, sizeof(kind)) &&
            !read_value(line, "cpu family", family, sizeof(family)))
            read_value(line, "model", model, sizeof(model));
    if (file)
        fclose(file);
    if (kind[0] && family[0] && model[0])
        snprintf(name, name_bytes, "%s (family %s, model %s)", kind, family, model);
    else
        snprintf(name, name_bytes, "%s", kind[0] ? kind : "unknown");
}

static bool
write_environment(FILE *file, ferry_context *context)
{
#ifdef __clang__
    const char *compiler = __VERSION__;
#else
    const char *compiler = "GCC " __VERSION__;
#endif
    char processor[128];
    ferry_place_info info;
    if (ferry_context_get_place_info(context, 1, &info) != FERRY_OK)
        return bench_failed("asking for the device");
    bench_processor(processor, sizeof(processor));

    fputs("[\n {\"bench\": \"environment\", ", file);
    write_member(file, "cpu", processor);
    fprintf(file, "\"cores\": %ld, ", sysconf(_SC_NPROCESSORS_ONLN));
    write_member(file, "compiler", compiler);
    write_member(file, "device", info.name);
    if (info.driver_version)
        fprintf(file, "\"driver\": \"%d.%d\", ", info.driver_version / 1000,
                info.driver_version % 1000 / 10);
    else
        fputs("\"driver\": null, ", file);
    fputs("\"version\": ", file);
    write_string(file, ferry_version());
    fputc('}', file);
    return true;
}

bool
bench_report_open(struct bench_report *report, const char *bench,
                  const struct bench_options *options, ferry_context *context)
{
    *report = (struct bench_report){.bench = bench};
    printf("%-28s %-13s %10s %-12s %-13s %10s %7s  %s\n", bench, "metric", "value", "unit", "peer",
           "value", "ratio", "goal");
    if (!options->json)
        return true;
    report->json = fopen(options->json, "w");
    if (!report->json) {
        fprintf(stderr, "bench: %s: %s\n", options->json, strerror(errno));
        return false;
    }
    return write_environment(report->json, context);
}

/* Returns a goal as text, or "" if there is no goal. */
static const char *
goal_text(struct bench_goal goal, char text[32])
{
    const char *relation = goal.kind == BENCH_EXACTLY    ? "=="
                           : goal.kind == BENCH_AT_LEAST ? ">="
                                                         : "<=";
    snprintf(text, 32, "%s %g", relation, goal.limit);
    return goal.kind == BENCH_NO_GOAL ? "" : text;
}

static bool
is_met(struct bench_goal goal, double judged)
{
    if (goal.kind == BENCH_EXACTLY)
        return judged == goal.limit;
    return goal.kind == BENCH_AT_LEAST ? judged >= goal.limit : judged <= goal.limit;
}

static void
write_record(FILE *file, const char *bench, const struct bench_record *record, const char *goal,
             bool met)
{
    fputs(",\n {", file);
    write_member(file, "bench", bench);
    write_member(file, "case", record->case_name);
    write_member(file, "metric", record->metric);
    write_member(file, "unit", record->unit);
    fprintf(file, "\"value\": %.6g, ", record->value);
    write_member(file, "peer", record->peer);
    if (record->peer)
        fprintf(file, "\"peer_value\": %.6g, \"ratio\": %.4g, ", record->peer_value,
                record->value / record->peer_value);
    else
        fputs("\"peer_value\": null, \"ratio\": null, ", file);
    write_member(file, "goal", *goal ? goal : NULL);
    fprintf(file, "\"met\": %s}", !*goal ? "null" : met ? "true" : "false");
}

void
bench_report_add(struct bench_report *report, const struct bench_record *record)
{
    char text[32];
    const char *goal = goal_text(record->goal, text);
    double judged = record->peer ? record->value / record->peer_value : record->value;
    bool met = is_met(record->goal, judged);

    printf("%-28s %-13s %10.4g %-12s ", record->case_name, record->metric, record->value,
           record->unit);
    if (record->peer)
        printf("%-13s %10.4g %7.3f  ", record->peer, record->peer_value, judged);
    else
        printf("%-13s %10s %7s  ", "", "", "");
    printf("%s%s\n", goal, !*goal ? "" : met ? ", met" : ", MISSED");
    fflush(stdout);
    if (report->json) {
        write_record(report->json, report->bench, record, goal, met);
        fflush(report->json); /* so that the results so far are kept if the program is killed */
    }
}

void
bench_report_device_calls(struct bench_report *report, const char *case_name,
                          const ferry_transfer_stats *before, const ferry_transfer_stats *after)
{
    const struct bench_record record = {
        .case_name = case_name,
        .metric = "device_calls",
        .unit = "calls",
        .value = (double)(after->device_calls - before->device_calls),
        .goal = {BENCH_EXACTLY, 0},
    };
    bench_report_add(report, &record);
}

bool
bench_report_close(struct bench_report *report)
{
    if (!report->json)
        return true;
    fputs("\n]\n", report->json);
    bool ok = !ferror(report->json);
    ok = fclose(report->json) == 0 && ok;
    report->json = NULL;
    if (!ok)
        fprintf(stderr, "bench: cannot write the records: %s\n", strerror(errno));
    return ok;
}

int
bench_main(int argc, char **argv, const char *name, size_t emulated_bytes, bench_run *run)
{
    struct bench_options options;
    struct bench_report report;
    if (!bench_parse(argc, argv, &options))
        return EXIT_FAILURE;
    ferry_context *context = bench_context(emulated_bytes);
    bool ok = context && bench_report_open(&report, name, &options, context);
    if (ok) {
        ok = run(context, &report, options.quick);
        ok = bench_report_close(&report) && ok;
    }
    ferry_context_destroy(&context);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
