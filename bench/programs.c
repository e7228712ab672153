/* SPDX-License-Identifier: MIT */

/*
 * Measures the jobs of seven example programs, with the kernels of the examples.
 *
 * With one thread, the measure is the processor time of the process, and the peer is the job in
 * plain C with the same options. With all threads, the measure is the elapsed time, and the peer is
 * the same C with OpenMP. Both run on the host, in turn in each round. On an emulated device the
 * program counts the bytes that cross, from the arrays of the start to the results. The peer is the
 * fewest that must. Before each measurement, the program checks that both sides compute the same.
 */

#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "programs_jobs.h"

#include <stdlib.h>
#include <time.h>

enum { ROUNDS_MOST = 41, ROUNDS_LEAST = 11 };

/* The time of one side in one round is at least the first, and the time of all rounds is about the
 * second, if that is possible. */
#define SIDE_NS 2e7
#define CASE_NS 3e9

struct setting {
    const char *metric;
    double (*now)(void);
    const char *tuning; /* of the host threads */
    enum job_side peer;
    const char *peer_name;
    double goals[2]; /* for the ratio to the peer with each count */
};

static const size_t counts[2] = {1000, 1000000};

static const struct job_kind *const kinds[] = {&gases_kind,     &gradients_kind, &strips_kind,
                                               &particles_kind, &graph_kind,     &queue_kind,
                                               &qubits_kind,    &sharpen_kind};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

struct repeats {
    size_t rounds, runs; /* runs of each side in each round */
};

/* Waits until threads of OpenMP that have no work have stopped spinning. */
static void
rest(void)
{
    const struct timespec while_they_spin = {.tv_nsec = 10000000};
    nanosleep(&while_they_spin, NULL);
}

/* Returns the time of one run, or a negative value if a run has failed. */
static double
time_side(const struct setting *setting, struct job *job, enum job_side side, size_t runs)
{
    if (setting->peer == JOB_OPENMP)
        rest();
    double begun = setting->now();
    for (size_t i = 0; i < runs; i++)
        if (job_run(job, side) != FERRY_OK)
            return -1;
    return (setting->now() - begun) / (double)runs;
}

static struct repeats
choose_repeats(const struct setting *setting, struct job *job, bool quick)
{
    if (quick)
        return (struct repeats){.rounds = 1, .runs = 1};
    double once = time_side(setting, job, setting->peer, 1);
    size_t runs = once < SIDE_NS ? (size_t)(SIDE_NS / once) : 1;
    double rounds = CASE_NS / (2 * once * (double)runs);
    return (struct repeats){.rounds = rounds > ROUNDS_MOST    ? ROUNDS_MOST
                                      : rounds < ROUNDS_LEAST ? ROUNDS_LEAST
                                                              : (size_t)rounds,
                            .runs = runs};
}

static bool
measure(struct bench_report *report, const struct setting *setting, struct job *job,
        struct bench_record *record, bool quick)
{
    double with_ferry[ROUNDS_MOST], by_hand[ROUNDS_MOST];
    struct repeats repeats = choose_repeats(setting, job, quick);
    for (size_t round = 0; round < repeats.rounds; round++) {
        with_ferry[round] = time_side(setting, job, JOB_FERRY, repeats.runs);
        by_hand[round] = time_side(setting, job, setting->peer, repeats.runs);
        if (with_ferry[round] < 0)
            return bench_failed(record->case_name);
    }
    size_t middle = bench_middle_round(with_ferry, by_hand, repeats.rounds);
    record->metric = setting->metric;
    record->unit = "us";
    record->value = with_ferry[middle] / 1e3;
    record->peer = setting->peer_name;
    record->peer_value = by_hand[middle] / 1e3;
    bench_report_add(report, record);
    return true;
}

/* Runs both sides once. Returns whether they agree. */
static bool
check(struct job *job, enum job_side peer)
{
    if (job_run(job, JOB_FERRY) != FERRY_OK || job_run(job, peer) != FERRY_OK)
        return bench_failed(job->kind->name);
    return job_agrees(job);
}

static bool
measure_all(struct bench_report *report, const struct setting *setting, bool quick)
{
    const ferry_context_options options = {.devices = "host", .tuning = setting->tuning};
    ferry_context *context = NULL;
    bool ok = ferry_context_create(&options, &context) == FERRY_OK ||
              bench_failed("opening the host device");
    for (size_t i = 0; ok && i < (quick ? 1 : 2) * (size_t)KINDS; i++) {
        const struct job_kind *kind = kinds[i % KINDS];
        char name[64];
        struct bench_record record = {.case_name = name,
                                      .goal = {BENCH_AT_MOST, setting->goals[i / KINDS]}};
        if (!kind->loops[setting->peer])
            continue;
        snprintf(name, sizeof(name), "%zu/%s", counts[i / KINDS], kind->name);
        struct job *job = job_create(context, kind, counts[i / KINDS]);
        ok = job && check(job, setting->peer) && measure(report, setting, job, &record, quick);
        job_destroy(&job);
    }
    ferry_context_destroy(&context);
    return ok;
}

/* -- bytes ------------------------------------------------------------------------------------- */

static void
report_bytes(struct bench_report *report, struct bench_record *record, const char *metric,
             uint64_t bytes, uint64_t fewest)
{
    record->metric = metric;
    record->unit = "bytes";
    record->value = (double)bytes;
    record->peer = fewest > 0 ? "fewest" : NULL;
    record->peer_value = (double)fewest;
    record->goal = (struct bench_goal){BENCH_EXACTLY, fewest > 0 ? 1 : 0};
    bench_report_add(report, record);
}

static bool
count_bytes(struct bench_report *report, ferry_context *context, const struct job_kind *kind,
            size_t count)
{
    char name[64];
    struct bench_record record = {.case_name = name};
    ferry_transfer_stats moved;
    struct job *job = NULL;
    snprintf(name, sizeof(name), "%zu/%s", count, kind->name);
    bool ok = ferry_context_reset_stats(context) == FERRY_OK || bench_failed("counting bytes");
    ok = ok && (job = job_create(context, kind, count)) && check(job, JOB_PLAIN) &&
         (ferry_context_get_transfer_stats(context, &moved) == FERRY_OK ||
          bench_failed("counting bytes"));
    if (ok) {
        report_bytes(report, &record, "upload", moved.upload.bytes, job->fewest_up);
        report_bytes(report, &record, "download", moved.download.bytes, job->fewest_down);
    }
    job_destroy(&job);
    return ok;
}

static bool
count_all_bytes(struct bench_report *report, bool quick)
{
    const ferry_context_options options = {.devices = "emulated"};
    ferry_context *context = NULL;
    bool ok = ferry_context_create(&options, &context) == FERRY_OK ||
              bench_failed("opening an emulated device");
    for (size_t i = 0; ok && i < (quick ? 1 : 2) * (size_t)KINDS; i++)
        if (kinds[i % KINDS] != &queue_kind) /* the buffers of graph_kind */
            ok = count_bytes(report, context, kinds[i % KINDS], counts[i / KINDS]);
    ferry_context_destroy(&context);
    return ok;
}

static bool
run(ferry_context *context, struct bench_report *report, bool quick)
{
    const struct setting one_thread = {"processor", bench_processor_ns, "host.threads=1",
                                       JOB_PLAIN,   "plain C",          {2.5, 1.1}};
    (void)context;
    if (!count_all_bytes(report, quick) || !measure_all(report, &one_thread, quick))
        return false;
#ifdef _OPENMP
    /* The last, because the threads of OpenMP stay. */
    const struct setting all_threads = {"elapsed",  bench_now_ns, NULL,
                                        JOB_OPENMP, "OpenMP",     {1.1, 1.1}};
    return measure_all(report, &all_threads, quick);
#else
    puts("no peer OpenMP: the compiler does not have it");
    return true;
#endif
}

int
main(int argc, char **argv)
{
    /* The report names the device whose times it has. */
    setenv("FERRY_DEVICE", "host", 0);
    return bench_main(argc, argv, "programs", 0, run);
}
