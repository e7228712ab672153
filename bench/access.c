/* SPDX-License-Identifier: MIT */

/*
 * Measures the cost of opening and closing a scope at a place where the data is current. The
 * comparison is a function in a shared library that makes two atomic read-modify-writes and nothing
 * else.
 *
 * The kinds of access and the comparison run in turn, in short rounds of one process. The report
 * compares the medians of the rounds, so a change of the clock rate affects all times alike. A
 * second thread sleeps during the measurement, because the C library skips atomics in a process
 * with one thread. A program that uses a GPU has several threads.
 */

#include "bench.h"
#include "instructions.h"
#include "peer.h"
#include "sleeper.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/float.h>

enum {
    COUNT = 16384,
    OFFSET = 1024,
    PART = 4096
}; /* COUNT: number of elements of the buffer; OFFSET, PART: range of elements that partial accesses
      use */

/* The context, the buffers and the atomic word that the measured loops use. With two threads, each
 * thread uses a different buffer. */
struct subject {
    ferry_context *context;
    ferry_stream *stream; /* borrowed */
    ferry_float_buffer buffers[2], views[2];
    _Atomic uint64_t word;
};

typedef bool pair_loop(struct subject *subject, int buffer, size_t pairs);

/* Defines a loop that opens and closes a scope `pairs` times. The loop returns false if a call
 * failed. */
#define DEFINE_LOOP(name, type, open_call)                                                         \
    static bool name(struct subject *subject, int buffer, size_t pairs)                            \
    {                                                                                              \
        for (size_t i = 0; i < pairs; i++) {                                                       \
            ferry_scope scope;                                                                     \
            type *values;                                                                          \
            if ((open_call) != FERRY_OK || ferry_scope_close(&scope) != FERRY_OK)                  \
                return false;                                                                      \
        }                                                                                          \
        return true;                                                                               \
    }

DEFINE_LOOP(loop_host, const float,
            ferry_float_read_host(subject->buffers[buffer], &scope, &values))
DEFINE_LOOP(loop_host_range, const float,
            ferry_float_read_host_range(subject->buffers[buffer], OFFSET, PART, &scope, &values))
DEFINE_LOOP(loop_host_view, const float,
            ferry_float_read_host(subject->views[buffer], &scope, &values))
DEFINE_LOOP(loop_host_update, float,
            ferry_float_update_host(subject->buffers[buffer], &scope, &values))
DEFINE_LOOP(loop_host_overwrite, float,
            ferry_float_overwrite_host(subject->buffers[buffer], &scope, &values))
DEFINE_LOOP(loop_device, const float,
            ferry_float_read_device(subject->buffers[buffer], subject->stream, &scope, &values))
DEFINE_LOOP(loop_device_range, const float,
            ferry_float_read_device_range(subject->buffers[buffer], OFFSET, PART, subject->stream,
                                          &scope, &values))
DEFINE_LOOP(loop_device_view, const float,
            ferry_float_read_device(subject->views[buffer], subject->stream, &scope, &values))
DEFINE_LOOP(loop_device_update, float,
            ferry_float_update_device(subject->buffers[buffer], subject->stream, &scope, &values))
DEFINE_LOOP(loop_device_overwrite, float,
            ferry_float_overwrite_device(subject->buffers[buffer], subject->stream, &scope,
                                         &values))
DEFINE_LOOP(loop_device_null, const float,
            ferry_float_read_device(subject->buffers[buffer], NULL, &scope, &values))
DEFINE_LOOP(loop_device_update_null, float,
            ferry_float_update_device(subject->buffers[buffer], NULL, &scope, &values))
DEFINE_LOOP(loop_device_overwrite_null, float,
            ferry_float_overwrite_device(subject->buffers[buffer], NULL, &scope, &values))

static bool
loop_peer(struct subject *subject, int buffer, size_t pairs)
{
    (void)buffer;
    for (size_t i = 0; i < pairs; i++) {
        bench_peer_open(&subject->word);
        bench_peer_close(&subject->word);
    }
    return true;
}

#define PEER_NAME "two-atomics"

static const struct {
    const char *name;
    pair_loop *run;
} kinds[] = {
    {"host/whole", loop_host},
    {"host/range", loop_host_range},
    {"host/view", loop_host_view},
    {"device/whole", loop_device},
    {"device/range", loop_device_range},
    {"device/view", loop_device_view},
    {"device/whole/null", loop_device_null},
    /* The writes are last, because they make the bytes at the other place stale. */
    {"host/update", loop_host_update},
    {"host/overwrite", loop_host_overwrite},
    {"device/update", loop_device_update},
    {"device/overwrite", loop_device_overwrite},
    {"device/update/null", loop_device_update_null},
    {"device/overwrite/null", loop_device_overwrite_null},
};

enum {
    KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]),
    ROUNDS = 101, /* measurements with one thread use many short rounds */
    PAIRS = 10000,
    TWO_THREAD_ROUNDS = 21, /* measurements with two threads use few long rounds, so that thread
                               creation takes little of the time */
    TWO_THREAD_PAIRS = 200000
};

static bool
is_on_device(size_t kind)
{
    return strncmp(kinds[kind].name, "device", 6) == 0;
}

/* -- the subject ------------------------------------------------------------------------------- */

static void
subject_close(struct subject *subject)
{
    for (int i = 0; i < 2; i++) {
        ferry_float_destroy(&subject->views[i]);
        ferry_float_destroy(&subject->buffers[i]);
    }
    ferry_context_destroy(&subject->context);
}

/* Creates buffers whose bytes are current on the host only, so the first device access uploads
 * them. */
static bool
subject_open(struct subject *subject)
{
    float *values = calloc(COUNT, sizeof(*values));
    bool ok = values != NULL;
    subject->context = bench_context(0);
    if (!subject->context) {
        free(values);
        return false;
    }
    for (int i = 0; ok && i < 2; i++) {
        ok = ferry_float_create_from(subject->context, COUNT, values, NULL, &subject->buffers[i]) ==
                 FERRY_OK &&
             ferry_float_view(subject->buffers[i], OFFSET, PART, &subject->views[i]) == FERRY_OK;
    }
    free(values);
    if (!ok)
        return bench_failed("preparing buffers");
    subject->stream = ferry_context_stream(subject->context, 1);
    return true;
}

/* -- one thread -------------------------------------------------------------------------------- */

/* Counts the driver calls of each kind of access. The first access on the device uploads the
 * buffer. All later accesses must make no driver call. */
static bool
count_device_calls(struct subject *subject, struct bench_report *report)
{
    ferry_transfer_stats before, after;
    if (!loop_device(subject, 0, 1) || !loop_device(subject, 1, 1))
        return bench_failed("uploading");
    for (size_t kind = 0; kind < KIND_COUNT; kind++) {
        /* The first access brings what an earlier write made stale. */
        if (!kinds[kind].run(subject, 0, 1) ||
            ferry_context_get_transfer_stats(subject->context, &before) != FERRY_OK ||
            !kinds[kind].run(subject, 0, 1000) ||
            ferry_context_get_transfer_stats(subject->context, &after) != FERRY_OK)
            return bench_failed(kinds[kind].name);
        bench_report_device_calls(report, kinds[kind].name, &before, &after);
    }
    return true;
}

/* Returns the time for opening and closing one scope in nanoseconds, or a negative number if a call
 * failed. */
static double
time_loop(pair_loop *run, struct subject *subject, int buffer, size_t pairs)
{
    double begun = bench_now_ns();
    bool ok = run(subject, buffer, pairs);
    return ok ? (bench_now_ns() - begun) / (double)pairs : -1.0;
}

static bool
measure_one_thread(struct subject *subject, struct bench_report *report, bool quick)
{
    static double samples[KIND_COUNT + 1][ROUNDS]; /* the last row is the peer's */
    size_t rounds = quick ? 3 : ROUNDS;
    for (size_t round = 0; round < rounds + 2; round++) {
        for (size_t turn = 0; turn <= KIND_COUNT; turn++) {
            size_t kind = (turn + round) % (KIND_COUNT + 1);
            bool is_peer = kind == KIND_COUNT;
            pair_loop *run = is_peer ? loop_peer : kinds[kind].run;
            double time = run(subject, 0, 1) ? time_loop(run, subject, 0, PAIRS) : -1.0;
            if (time < 0)
                return bench_failed(is_peer ? PEER_NAME : kinds[kind].name);
            if (round >= 2) /* the first two rounds warm up */
                samples[kind][round - 2] = time;
        }
    }

    double peer = bench_median(samples[KIND_COUNT], rounds);
    for (size_t kind = 0; kind < KIND_COUNT; kind++) {
        char name[64];
        snprintf(name, sizeof(name), "%s/1thread", kinds[kind].name);
        const struct bench_record record = {
            .case_name = name,
            .metric = "open_close",
            .unit = "ns",
            .value = bench_median(samples[kind], rounds),
            .peer = PEER_NAME,
            .peer_value = peer,
            .goal = {BENCH_AT_MOST, 1.60},
        };
        bench_report_add(report, &record);
    }
    return true;
}

/* -- two threads ------------------------------------------------------------------------------- */

struct worker {
    struct subject *subject;
    pair_loop *run;
    int buffer;
    pthread_barrier_t *start;
    double time;
};

static void *
work(void *argument)
{
    struct worker *worker = argument;
    pthread_barrier_wait(worker->start);
    worker->time = time_loop(worker->run, worker->subject, worker->buffer, TWO_THREAD_PAIRS);
    return NULL;
}

/* Returns the time for opening and closing one scope while two threads do so. The time is that of
 * the slower thread, in nanoseconds. Returns a negative number if a call failed. */
static double
time_two_threads(struct subject *subject, pair_loop *run, int second_buffer)
{
    pthread_t thread;
    pthread_barrier_t start;
    struct worker workers[2] = {{subject, run, 0, &start, 0},
                                {subject, run, second_buffer, &start, 0}};
    if (pthread_barrier_init(&start, NULL, 2) != 0)
        return -1.0;
    bool started = pthread_create(&thread, NULL, work, &workers[1]) == 0;
    if (started) {
        work(&workers[0]);
        pthread_join(thread, NULL);
    }
    pthread_barrier_destroy(&start);
    if (!started || workers[0].time < 0 || workers[1].time < 0)
        return -1.0;
    return workers[0].time > workers[1].time ? workers[0].time : workers[1].time;
}

static bool
measure_two_threads(struct subject *subject, struct bench_report *report, bool quick)
{
    static const struct {
        const char *name;
        pair_loop *run;
        int second_buffer;
    } cases[] = {
        {"host/whole/2threads/same", loop_host, 0},
        {"host/whole/2threads/own", loop_host, 1},
        {"device/whole/2threads/same", loop_device, 0},
        {"device/whole/2threads/own", loop_device, 1},
    };
    enum { CASE_COUNT = sizeof(cases) / sizeof(cases[0]) };
    static double samples[CASE_COUNT][TWO_THREAD_ROUNDS];
    size_t rounds = quick ? 1 : TWO_THREAD_ROUNDS;
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < CASE_COUNT; i++) {
            samples[i][round] = time_two_threads(subject, cases[i].run, cases[i].second_buffer);
            if (samples[i][round] < 0)
                return bench_failed(cases[i].name);
        }
    }
    for (size_t i = 0; i < CASE_COUNT; i++) {
        const struct bench_record record = {
            .case_name = cases[i].name,
            .metric = "open_close",
            .unit = "ns",
            .value = bench_median(samples[i], rounds),
        };
        bench_report_add(report, &record);
    }
    return true;
}

/* -- instructions ------------------------------------------------------------------------------ */

/* Runs the loop for only one kind of access, so that callgrind can count its instructions. */
static int
run_loop_only(const char *name, const char *count)
{
    struct subject subject = {0};
    bool known = false, ok = false;
    for (size_t kind = 0; kind < KIND_COUNT; kind++) {
        if (strcmp(name, kinds[kind].name) == 0) {
            known = true;
            ok = subject_open(&subject) &&
                 (loop_device(&subject, 0, 2) || bench_failed("uploading")) &&
                 (kinds[kind].run(&subject, 0, strtoul(count, NULL, 10)) || bench_failed(name));
        }
    }
    if (!known)
        fprintf(stderr, "bench: there is no loop '%s'\n", name);
    subject_close(&subject);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Reports the number of instructions for opening and closing one scope. Unlike a time, this number
 * does not depend on other work of the machine. Reports nothing if valgrind is not installed. */
static void
measure_instructions(struct bench_report *report)
{
    for (size_t kind = 0; kind < KIND_COUNT; kind++) {
        double instructions;
        if (!bench_count_instructions(kinds[kind].name, NULL, &instructions))
            continue;
        const struct bench_record record = {
            .case_name = kinds[kind].name,
            .metric = "instructions",
            .unit = "instructions",
            .value = instructions,
            .goal = {BENCH_AT_MOST, is_on_device(kind) ? 190 : 150},
        };
        bench_report_add(report, &record);
    }
}

/* -- the program ------------------------------------------------------------------------------- */

static bool
measure(struct subject *subject, const struct bench_options *options)
{
    struct bench_report report;
    bool ok = bench_report_open(&report, "access", options, subject->context) &&
              count_device_calls(subject, &report) &&
              measure_one_thread(subject, &report, options->quick) &&
              measure_two_threads(subject, &report, options->quick);
    if (ok && !options->quick)
        measure_instructions(&report);
    return bench_report_close(&report) && ok;
}

int
main(int argc, char **argv)
{
    struct bench_options options;
    struct subject subject = {0};
    struct bench_sleeper sleeper;
    if (argc == 4 && strcmp(argv[1], "--loop") == 0)
        return run_loop_only(argv[2], argv[3]);
    if (!bench_parse(argc, argv, &options))
        return EXIT_FAILURE;
    if (!bench_sleeper_start(&sleeper))
        return EXIT_FAILURE;
    bool ok = subject_open(&subject) && measure(&subject, &options);
    subject_close(&subject);
    bench_sleeper_stop(&sleeper);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
