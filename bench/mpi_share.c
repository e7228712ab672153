/* SPDX-License-Identifier: MIT */

/*
 * Measures how numbers of one MPI rank reach an array of another rank on this machine: by a buffer
 * whose memory both share, by the same with a shared window of MPI, by messages of <ferry/mpi.h>,
 * by plain MPI, and, as the ceiling, by one memcpy() inside a process. If MPI did not start this
 * program, the program starts itself as two ranks.
 *
 * Rank 1 writes the numbers, and rank 0 gets them. The time begins when the numbers are written,
 * and ends when rank 0 has them in an array that it does not share. The numbers are new each time,
 * so that the caches of the rank that writes them have them, as in a program.
 */

#include "ranks.h"

#include <stdlib.h>
#include <string.h>

#include <ferry/float.h>
#include <ferry/mpi.h>

#define KIB           ((size_t)1 << 10)
#define MIB           ((size_t)1 << 20)
#define ROUNDS_LIMIT  41
#define RANKS         "2"
#define REPEATS_LIMIT 256 /* in each round */
#define ROUND_BYTES   (16 * MIB)

enum { CONSUMER = 0, PRODUCER = 1, TAG = 1 };

/* The state of one rank. */
struct rank {
    ferry_context *context;
    ferry_mpi *mpi;
    ferry_float_buffer shared, buffer; /* `buffer` is this rank's own */
    float *source, *target;            /* plain arrays */
    MPI_Win window;
    float *shared_by_hand; /* memory of the window, which the producer has */
    size_t count;
    int rank;
};

/* A way from one rank to the other. Each function returns false on failure. */
struct way {
    const char *name;
    int producer; /* the rank that writes the numbers */
    /* Both open a scope if the numbers are in a buffer. */
    bool (*open_source)(struct rank *rank, ferry_scope *scope, float **out);
    bool (*open_target)(struct rank *rank, ferry_scope *scope, const float **out);
    bool (*move)(struct rank *rank); /* called by both ranks */
    bool (*give_back)(struct rank *rank);
};

static bool
succeeded(ferry_status status)
{
    if (status != FERRY_OK)
        fprintf(stderr, "bench: %s %s\n", ferry_mpi_last_error(), ferry_last_error());
    return status == FERRY_OK;
}

/* -- ways -------------------------------------------------------------------------------------- */

static bool
open_source_array(struct rank *rank, ferry_scope *scope, float **out)
{
    (void)scope;
    *out = rank->source;
    return true;
}

static bool
open_target_array(struct rank *rank, ferry_scope *scope, const float **out)
{
    (void)scope;
    *out = rank->target;
    return true;
}

static bool
nothing_to_give_back(struct rank *rank)
{
    (void)rank;
    return true;
}

static bool
open_shared(struct rank *rank, ferry_scope *scope, float **out)
{
    return succeeded(ferry_float_overwrite_host(rank->shared, scope, out));
}

/* The consumer acquires the buffer, and copies it once. */
static bool
move_by_sharing(struct rank *rank)
{
    ferry_status status =
        ferry_mpi_hand_over(rank->mpi, NULL, rank->shared.raw, PRODUCER, CONSUMER, TAG);
    if (status == FERRY_OK && rank->rank == CONSUMER)
        status = ferry_float_copy_to(rank->shared, 0, rank->count, rank->target, NULL);
    return succeeded(status);
}

static bool
give_shared_back(struct rank *rank)
{
    return succeeded(
        ferry_mpi_hand_over(rank->mpi, NULL, rank->shared.raw, CONSUMER, PRODUCER, TAG));
}

static bool
open_window(struct rank *rank, ferry_scope *scope, float **out)
{
    (void)scope;
    *out = rank->shared_by_hand;
    return true;
}

/* An empty message says that the numbers are there. */
static bool
move_by_hand(struct rank *rank)
{
    if (rank->rank == PRODUCER)
        return MPI_Win_sync(rank->window) == MPI_SUCCESS &&
               MPI_Send(NULL, 0, MPI_BYTE, CONSUMER, TAG, MPI_COMM_WORLD) == MPI_SUCCESS;
    if (MPI_Recv(NULL, 0, MPI_BYTE, PRODUCER, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE) !=
            MPI_SUCCESS ||
        MPI_Win_sync(rank->window) != MPI_SUCCESS)
        return false;
    memcpy(rank->target, rank->shared_by_hand, rank->count * sizeof(float));
    return true;
}

static bool
open_source_buffer(struct rank *rank, ferry_scope *scope, float **out)
{
    return succeeded(ferry_float_overwrite_host(rank->buffer, scope, out));
}

static bool
open_target_buffer(struct rank *rank, ferry_scope *scope, const float **out)
{
    return succeeded(ferry_float_read_host(rank->buffer, scope, out));
}

static bool
move_by_message(struct rank *rank)
{
    const ferry_mpi_range range = {.buffer = rank->buffer.raw, .count = FERRY_REST};
    return succeeded(rank->rank == PRODUCER ? ferry_mpi_send(rank->mpi, &range, CONSUMER, TAG)
                                            : ferry_mpi_receive(rank->mpi, &range, PRODUCER, TAG));
}

static bool
move_by_mpi(struct rank *rank)
{
    int code = rank->rank == PRODUCER ? MPI_Send(rank->source, (int)rank->count, MPI_FLOAT,
                                                 CONSUMER, TAG, MPI_COMM_WORLD)
                                      : MPI_Recv(rank->target, (int)rank->count, MPI_FLOAT,
                                                 PRODUCER, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return code == MPI_SUCCESS;
}

static bool
move_by_memcpy(struct rank *rank)
{
    if (rank->rank == CONSUMER)
        memcpy(rank->target, rank->source, rank->count * sizeof(float));
    return true;
}

static const struct way by_sharing = {"shared",          PRODUCER,        open_shared,
                                      open_target_array, move_by_sharing, give_shared_back};
static const struct way by_hand = {"by hand",         PRODUCER,     open_window,
                                   open_target_array, move_by_hand, nothing_to_give_back};
static const struct way by_message = {"message",          PRODUCER,        open_source_buffer,
                                      open_target_buffer, move_by_message, nothing_to_give_back};
static const struct way by_mpi = {"MPI between host arrays", PRODUCER,    open_source_array,
                                  open_target_array,         move_by_mpi, nothing_to_give_back};
static const struct way by_memcpy = {"memcpy",          CONSUMER,       open_source_array,
                                     open_target_array, move_by_memcpy, nothing_to_give_back};

/* -- measuring --------------------------------------------------------------------------------- */

static bool
write_numbers(struct rank *rank, const struct way *way, float value)
{
    ferry_scope scope = {0};
    float *numbers;
    if (!way->open_source(rank, &scope, &numbers))
        return false;
    for (size_t i = 0; i < rank->count; i++)
        numbers[i] = value;
    return succeeded(ferry_scope_close(&scope));
}

static bool
has_arrived(struct rank *rank, const struct way *way, float value)
{
    ferry_scope scope = {0};
    const float *numbers;
    if (!way->open_target(rank, &scope, &numbers))
        return false;
    bool arrived = numbers[0] == value && numbers[rank->count / 2] == value &&
                   numbers[rank->count - 1] == value;
    if (!arrived)
        fprintf(stderr, "bench: %s: other numbers have arrived\n", way->name);
    return succeeded(ferry_scope_close(&scope)) && arrived;
}

/* Moves the numbers once. Sets `*out` on the consumer to the time in nanoseconds. The clock is that
 * of the machine, so both ranks can read it. */
static bool
time_once(struct rank *rank, const struct way *way, float value, double *out)
{
    double begun = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank->rank == way->producer) {
        if (!write_numbers(rank, way, value))
            return false;
        begun = bench_now_ns();
    }
    if (!way->move(rank))
        return false;
    double ended = bench_now_ns();
    if (way->producer == PRODUCER && rank->rank == PRODUCER)
        MPI_Send(&begun, 1, MPI_DOUBLE, CONSUMER, TAG, MPI_COMM_WORLD);
    else if (way->producer == PRODUCER)
        MPI_Recv(&begun, 1, MPI_DOUBLE, PRODUCER, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    *out = ended - begun;
    return (rank->rank != CONSUMER || has_arrived(rank, way, value)) && way->give_back(rank);
}

/* Sets `*out` on the consumer to the median time of `repeats` moves. */
static bool
time_way(struct rank *rank, const struct way *way, size_t repeats, double *out)
{
    static double times[REPEATS_LIMIT];
    for (size_t i = 0; i < repeats; i++)
        if (!time_once(rank, way, (float)i, &times[i]))
            return false;
    *out = bench_median(times, repeats);
    return true;
}

/* Measures two ways in turn, and reports the rate of the first and the ratio to that of the second.
 */
static bool
compare(struct rank *rank, struct bench_report *report, const struct way *way,
        const struct way *peer, struct bench_goal goal, size_t rounds)
{
    static double ours[ROUNDS_LIMIT], theirs[ROUNDS_LIMIT];
    const double bytes = (double)(rank->count * sizeof(float));
    size_t repeats = ROUND_BYTES / (rank->count * sizeof(float));
    char name[32];
    double unused;
    repeats = rounds == 1 || repeats == 0 ? 1 : repeats;
    if (!time_way(rank, way, 1, &unused) || !time_way(rank, peer, 1, &unused)) /* warms up */
        return false;
    for (size_t round = 0; round < rounds; round++)
        if (!time_way(rank, way, repeats, &ours[round]) ||
            !time_way(rank, peer, repeats, &theirs[round]))
            return false;
    if (rank->rank != CONSUMER)
        return true;
    size_t middle = bench_middle_round(ours, theirs, rounds);
    snprintf(name, sizeof(name), bytes < (double)MIB ? "%.0fKiB/host" : "%.0fMiB/host",
             bytes / (double)(bytes < (double)MIB ? KIB : MIB));
    const struct bench_record record = {
        .case_name = name,
        .metric = way->name,
        .unit = "GB/s",
        .value = bytes / ours[middle],
        .peer = peer->name,
        .peer_value = bytes / theirs[middle],
        .goal = goal,
    };
    bench_report_add(report, &record);
    return true;
}

/* -- the program ------------------------------------------------------------------------------- */

static bool
open_windows(struct rank *rank, size_t bytes)
{
    const MPI_Aint mine = rank->rank == PRODUCER ? (MPI_Aint)bytes : 0;
    MPI_Aint theirs;
    int unit;
    return MPI_Win_allocate_shared(mine, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &rank->shared_by_hand,
                                   &rank->window) == MPI_SUCCESS &&
           MPI_Win_shared_query(rank->window, PRODUCER, &theirs, &unit, &rank->shared_by_hand) ==
               MPI_SUCCESS &&
           MPI_Win_lock_all(MPI_MODE_NOCHECK, rank->window) == MPI_SUCCESS;
}

static bool
prepare(struct rank *rank, size_t bytes)
{
    const ferry_buffer_options in_shared_memory = {.memory = FERRY_MEMORY_SHARED};
    ferry_status status = FERRY_OK;
    rank->count = bytes / sizeof(float);
    rank->source = calloc(rank->count, sizeof(float));
    rank->target = calloc(rank->count, sizeof(float));
    if (!rank->source || !rank->target || !open_windows(rank, bytes))
        return false;
    if (rank->rank == PRODUCER)
        status = ferry_float_create(rank->context, rank->count, &in_shared_memory, &rank->shared);
    if (status == FERRY_OK)
        status = ferry_mpi_share(rank->mpi, ferry_float_element(), rank->shared.raw, PRODUCER, NULL,
                                 &rank->shared.raw);
    if (status == FERRY_OK)
        status = ferry_float_create(rank->context, rank->count, NULL, &rank->buffer);
    return succeeded(status);
}

static void
release(struct rank *rank)
{
    ferry_float_destroy(&rank->shared);
    ferry_float_destroy(&rank->buffer);
    MPI_Win_unlock_all(rank->window);
    MPI_Win_free(&rank->window);
    free(rank->source);
    free(rank->target);
}

static bool
run_size(struct rank *rank, struct bench_report *report, size_t bytes, size_t rounds)
{
    const struct bench_goal goal = {BENCH_AT_LEAST, 0.9}, none = {BENCH_NO_GOAL, 0};
    bool ok = prepare(rank, bytes) &&
              compare(rank, report, &by_sharing, &by_memcpy, goal, rounds) &&
              compare(rank, report, &by_sharing, &by_hand, goal, rounds) &&
              compare(rank, report, &by_sharing, &by_mpi, none, rounds) &&
              compare(rank, report, &by_sharing, &by_message, none, rounds) &&
              compare(rank, report, &by_mpi, &by_memcpy, none, rounds);
    if (ok)
        release(rank);
    return ok;
}

static bool
run(struct rank *rank, struct bench_report *report, bool quick)
{
    static const size_t sizes[] = {64 * KIB, MIB, 16 * MIB, 64 * MIB};
    bool ok = true;
    for (size_t i = 0; ok && i < (quick ? 2 : sizeof(sizes) / sizeof(sizes[0])); i++)
        ok = run_size(rank, report, sizes[i], quick ? 1 : ROUNDS_LIMIT);
    return ok;
}

int
main(int argc, char **argv)
{
    const ferry_context_options on_host = {.devices = "host"};
    struct bench_options options;
    struct bench_report report;
    struct rank rank = {.rank = -1};
    if (!bench_parse(argc, argv, &options))
        return EXIT_FAILURE;
    if (!bench_is_rank())
        return bench_start_ranks(argv, &options, RANKS);
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return EXIT_FAILURE;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank.rank);
    bool ok = succeeded(ferry_context_create(&on_host, &rank.context)) &&
              succeeded(ferry_mpi_create(rank.context, MPI_COMM_WORLD, NULL, &rank.mpi)) &&
              (rank.rank != CONSUMER ||
               bench_report_open(&report, "mpi_share", &options, rank.context)) &&
              run(&rank, &report, options.quick);
    if (!ok)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    ok = rank.rank != CONSUMER || bench_report_close(&report);
    ferry_mpi_destroy(&rank.mpi);
    ferry_context_destroy(&rank.context);
    MPI_Finalize();
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
