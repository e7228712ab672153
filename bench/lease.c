/* SPDX-License-Identifier: MIT */

/*
 * Measures opening and destroying a lease at a place where the data is current. The comparison does
 * the least work that a lease needs: it allocates a block of the same size with malloc(), and opens
 * a scope.
 *
 * The kinds of lease and the comparison run in turn, in short rounds of one process. The report
 * compares the medians of the rounds. A second thread sleeps during the measurement, because the C
 * library skips atomics in a process with one thread.
 */

#include "bench.h"
#include "instructions.h"
#include "sleeper.h"

#include <stdlib.h>
#include <string.h>

#include <ferry/float.h>

enum { COUNT = 16384, LEASE_BYTES = 128, KINDS = 6, ROUNDS = 101, PAIRS = 10000 };

struct subject {
    ferry_context *context;
    ferry_stream *stream; /* borrowed */
    ferry_float_buffer buffer;
};

typedef bool pair_loop(struct subject *subject, size_t pairs);

static bool
open_and_destroy(struct subject *subject, const ferry_lease_options *options, size_t pairs)
{
    for (size_t i = 0; i < pairs; i++) {
        ferry_lease *lease;
        float *values;
        if (ferry_float_lease(subject->buffer, options, &lease, &values) != FERRY_OK)
            return false;
        ferry_lease_destroy(&lease);
    }
    return true;
}

static bool
loop_host_read(struct subject *subject, size_t pairs)
{
    return open_and_destroy(subject, &(ferry_lease_options){.access = FERRY_READ}, pairs);
}

static bool
loop_host_label(struct subject *subject, size_t pairs)
{
    return open_and_destroy(
        subject, &(ferry_lease_options){.access = FERRY_READ, .label = "numpy, step.py:12"}, pairs);
}

static bool
loop_host_close(struct subject *subject, size_t pairs)
{
    const ferry_lease_options options = {.access = FERRY_READ};
    for (size_t i = 0; i < pairs; i++) {
        ferry_lease *lease;
        float *values;
        if (ferry_float_lease(subject->buffer, &options, &lease, &values) != FERRY_OK ||
            ferry_lease_close(lease) != FERRY_OK)
            return false;
        ferry_lease_destroy(&lease);
    }
    return true;
}

static bool
loop_host_update(struct subject *subject, size_t pairs)
{
    return open_and_destroy(subject, &(ferry_lease_options){.access = FERRY_UPDATE}, pairs);
}

static bool
loop_device_read(struct subject *subject, size_t pairs)
{
    return open_and_destroy(
        subject, &(ferry_lease_options){.access = FERRY_READ, .stream = subject->stream}, pairs);
}

/* Runs the loop that leases are compared with: malloc(), then a scope. The loop writes into the
 * allocated block, so that the compiler cannot remove the malloc(). */
static bool
loop_peer(struct subject *subject, size_t pairs)
{
    for (size_t i = 0; i < pairs; i++) {
        ferry_scope *scope = malloc(LEASE_BYTES);
        const float *values;
        if (!scope || ferry_float_read_host(subject->buffer, scope, &values) != FERRY_OK ||
            ferry_scope_close(scope) != FERRY_OK)
            return false;
        free(scope);
    }
    return true;
}

static const struct {
    const char *name;
    pair_loop *run;
} kinds[KINDS] = {
    {"host/update", loop_host_update},    {"device/read", loop_device_read},
    {"host/read", loop_host_read},        {"host/read_label", loop_host_label},
    {"host/read_close", loop_host_close}, {"peer", loop_peer},
};

static void
subject_close(struct subject *subject)
{
    ferry_float_destroy(&subject->buffer);
    ferry_context_destroy(&subject->context);
}

/* Creates a buffer whose bytes are current on the host only, so the first round uploads them. */
static bool
subject_open(struct subject *subject)
{
    float *values = calloc(COUNT, sizeof(*values));
    bool ok = values != NULL;
    memset(subject, 0, sizeof(*subject));
    subject->context = bench_context(0);
    ok = ok && subject->context &&
         ferry_float_create_from(subject->context, COUNT, values, NULL, &subject->buffer) ==
             FERRY_OK;
    free(values);
    if (ok)
        subject->stream = ferry_context_stream(subject->context, 1);
    return ok;
}

static bool
measure(struct subject *subject, struct bench_report *report, bool quick)
{
    static double samples[KINDS][ROUNDS];
    size_t rounds = quick ? 3 : ROUNDS;
    for (size_t round = 0; round < rounds + 2; round++) {
        for (size_t turn = 0; turn < KINDS; turn++) {
            size_t kind = (turn + round) % KINDS;
            double begun = bench_now_ns();
            if (!kinds[kind].run(subject, PAIRS))
                return bench_failed(kinds[kind].name);
            if (round >= 2) /* the first two rounds warm up */
                samples[kind][round - 2] = (bench_now_ns() - begun) / PAIRS;
        }
    }
    double peer = bench_median(samples[KINDS - 1], rounds);
    for (size_t kind = 0; kind + 1 < KINDS; kind++) {
        struct bench_record record = {.case_name = kinds[kind].name,
                                      .metric = "open_destroy",
                                      .unit = "ns",
                                      .value = bench_median(samples[kind], rounds),
                                      .peer = "malloc-and-scope",
                                      .peer_value = peer};
        bench_report_add(report, &record);
    }
    return true;
}

/* -- instructions ------------------------------------------------------------------------------ */

/* Runs the loop for only one kind of lease, so that callgrind can count its instructions. */
static int
run_loop_only(const char *name, const char *count)
{
    struct subject subject;
    bool known = false, ok = subject_open(&subject);
    for (size_t kind = 0; ok && kind < KINDS; kind++)
        if (strcmp(name, kinds[kind].name) == 0) {
            known = true;
            ok =
                kinds[kind].run(&subject, 2) && kinds[kind].run(&subject, strtoul(count, NULL, 10));
        }
    if (!known)
        fprintf(stderr, "bench: there is no loop '%s'\n", name);
    subject_close(&subject);
    return known && ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Reports the number of instructions for each kind of lease. Reports nothing if valgrind is not
 * installed. */
static void
measure_instructions(struct bench_report *report)
{
    for (size_t kind = 0; kind < KINDS; kind++) {
        double instructions;
        if (!bench_count_instructions(kinds[kind].name, NULL, &instructions))
            continue;
        const struct bench_record record = {.case_name = kinds[kind].name,
                                            .metric = "instructions",
                                            .unit = "instructions",
                                            .value = instructions};
        bench_report_add(report, &record);
    }
}

/* -- the program ------------------------------------------------------------------------------- */

static bool
report_all(struct subject *subject, const struct bench_options *options)
{
    struct bench_report report;
    bool ok = bench_report_open(&report, "lease", options, subject->context) &&
              measure(subject, &report, options->quick);
    if (ok && !options->quick)
        measure_instructions(&report);
    return bench_report_close(&report) && ok;
}

int
main(int argc, char **argv)
{
    struct bench_options options;
    struct subject subject;
    struct bench_sleeper sleeper;
    if (argc == 4 && strcmp(argv[1], "--loop") == 0)
        return run_loop_only(argv[2], argv[3]);
    if (!bench_parse(argc, argv, &options))
        return EXIT_FAILURE;
    if (!bench_sleeper_start(&sleeper))
        return EXIT_FAILURE;
    bool ok = subject_open(&subject) && report_all(&subject, &options);
    subject_close(&subject);
    bench_sleeper_stop(&sleeper);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
