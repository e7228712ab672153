/* SPDX-License-Identifier: MIT */

/*
 * Measures sending a device buffer from one MPI rank to another with <ferry/mpi.h>. The result is
 * compared with programs written by hand, and with plain MPI between host arrays. If MPI did not
 * start this program, the program starts itself as two ranks on this machine.
 */

#include "ranks.h"

#include <stdlib.h>
#include <string.h>

#include <ferry/float.h>
#include <ferry/mpi.h>

#define MIB          ((size_t)1 << 20)
#define ROUNDS_LIMIT 41
#define RANKS        "2"

/* The state of one rank, with two chunks of host memory. A chunk has the size that ferry-mpi uses.
 */
struct rank {
    ferry_context *context;
    ferry_mpi *mpi;
    ferry_mpi_request *rows; /* a request that sends one row and receives one row */
    ferry_float_buffer buffer;
    float *host, *chunks[2];
    size_t count, chunk_count, row_count;
    int rank;
};

/* Sends rank->count elements to the other rank if `sends` is true. Otherwise receives rank->count
 * elements from the other rank. */
typedef bool move(struct rank *rank, bool sends);

/* -- ways -------------------------------------------------------------------------------------- */

static bool
move_by_ferry(struct rank *rank, bool sends)
{
    const ferry_mpi_range range = {.buffer = rank->buffer.raw, .count = FERRY_REST};
    return (sends ? ferry_mpi_send(rank->mpi, &range, 1 - rank->rank, 1)
                  : ferry_mpi_receive(rank->mpi, &range, 1 - rank->rank, 1)) == FERRY_OK;
}

/* Moves the elements without ferry-mpi, through one chunk of host memory. A sender downloads each
 * chunk and then sends it. A receiver receives each chunk and then uploads it. */
static bool
move_by_hand(struct rank *rank, bool sends)
{
    for (size_t begin = 0; begin < rank->count; begin += rank->chunk_count) {
        size_t count =
            rank->count - begin < rank->chunk_count ? rank->count - begin : rank->chunk_count;
        float *chunk = rank->chunks[0];
        if (sends && ferry_float_copy_to(rank->buffer, begin, count, chunk, NULL) != FERRY_OK)
            return false;
        if (sends)
            MPI_Send(chunk, (int)count, MPI_FLOAT, 1 - rank->rank, 2, MPI_COMM_WORLD);
        else
            MPI_Recv(chunk, (int)count, MPI_FLOAT, 1 - rank->rank, 2, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        if (!sends && ferry_float_copy_from(rank->buffer, begin, count, chunk, NULL) != FERRY_OK)
            return false;
    }
    return true;
}

/* Moves the elements without ferry-mpi, through two chunks of host memory in turn. One chunk is
 * copied while MPI sends or receives the other chunk. */
static bool
move_by_hand_overlapped(struct rank *rank, bool sends)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    size_t chunks = (rank->count + rank->chunk_count - 1) / rank->chunk_count;
    for (size_t chunk = 0; chunk < chunks + 2; chunk++) {
        size_t at = chunk % 2, begin = chunk * rank->chunk_count;
        MPI_Wait(&requests[at], MPI_STATUS_IGNORE);
        if (!sends && chunk >= 2) {
            size_t arrived = begin - 2 * rank->chunk_count, left = rank->count - arrived;
            if (ferry_float_copy_from(rank->buffer, arrived,
                                      left < rank->chunk_count ? left : rank->chunk_count,
                                      rank->chunks[at], NULL) != FERRY_OK)
                return false;
        }
        if (chunk >= chunks)
            continue;
        size_t count =
            rank->count - begin < rank->chunk_count ? rank->count - begin : rank->chunk_count;
        if (sends &&
            ferry_float_copy_to(rank->buffer, begin, count, rank->chunks[at], NULL) != FERRY_OK)
            return false;
        if (sends)
            MPI_Isend(rank->chunks[at], (int)count, MPI_FLOAT, 1 - rank->rank, 2, MPI_COMM_WORLD,
                      &requests[at]);
        else
            MPI_Irecv(rank->chunks[at], (int)count, MPI_FLOAT, 1 - rank->rank, 2, MPI_COMM_WORLD,
                      &requests[at]);
    }
    return true;
}

static bool
move_on_host(struct rank *rank, bool sends)
{
    if (sends)
        MPI_Send(rank->host, (int)rank->count, MPI_FLOAT, 1 - rank->rank, 3, MPI_COMM_WORLD);
    else
        MPI_Recv(rank->host, (int)rank->count, MPI_FLOAT, 1 - rank->rank, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    return true;
}

static bool
exchange_by_ferry(struct rank *rank, bool sends)
{
    (void)sends;
    return ferry_mpi_request_start(rank->rows) == FERRY_OK &&
           ferry_mpi_request_wait(rank->rows) == FERRY_OK;
}

static bool
exchange_by_hand(struct rank *rank, bool sends)
{
    size_t count = rank->row_count;
    (void)sends;
    if (ferry_float_copy_to(rank->buffer, count, count, rank->chunks[0], NULL) != FERRY_OK)
        return false;
    MPI_Sendrecv(rank->chunks[0], (int)count, MPI_FLOAT, 1 - rank->rank, 4, rank->chunks[1],
                 (int)count, MPI_FLOAT, 1 - rank->rank, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return ferry_float_copy_from(rank->buffer, 0, count, rank->chunks[1], NULL) == FERRY_OK;
}

/* -- measuring --------------------------------------------------------------------------------- */

/* Moves the elements to the other rank and back, `repeats` times. Sets `*out` to the time for one
 * direction in nanoseconds. */
static bool
time_way(struct rank *rank, move *way, size_t repeats, double *out)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = bench_now_ns();
    for (size_t i = 0; i < 2 * repeats; i++) {
        if (!way(rank, (i + (size_t)rank->rank) % 2 == 0)) {
            fprintf(stderr, "bench: %s %s\n", ferry_mpi_last_error(), ferry_last_error());
            return false;
        }
    }
    *out = (bench_now_ns() - begun) / (double)(2 * repeats);
    return true;
}

struct comparison {
    const char *case_name, *metric, *unit, *peer;
    move *ours, *theirs;
    size_t repeats;
    struct bench_goal goal;
};

/* Measures Ferry and one alternative in turn. Reports Ferry's rate or time, and the ratio to that
 * of the alternative. */
static bool
compare(struct rank *rank, struct bench_report *report, const struct comparison *comparison,
        size_t rounds)
{
    static double ours[ROUNDS_LIMIT], theirs[ROUNDS_LIMIT];
    double unused;
    if (!time_way(rank, comparison->ours, 1, &unused) ||
        !time_way(rank, comparison->theirs, 1, &unused)) /* warms up */
        return false;
    for (size_t round = 0; round < rounds; round++) {
        if (!time_way(rank, comparison->ours, comparison->repeats, &ours[round]) ||
            !time_way(rank, comparison->theirs, comparison->repeats, &theirs[round]))
            return false;
    }
    if (rank->rank != 0)
        return true;
    size_t middle = bench_middle_round(ours, theirs, rounds);
    bool is_rate = strcmp(comparison->unit, "GB/s") == 0;
    double bytes = (double)(rank->count * sizeof(float));
    const struct bench_record record = {
        .case_name = comparison->case_name,
        .metric = comparison->metric,
        .unit = comparison->unit,
        .value = is_rate ? bytes / ours[middle] : ours[middle] / 1e3,
        .peer = comparison->peer,
        .peer_value = is_rate ? bytes / theirs[middle] : theirs[middle] / 1e3,
        .goal = comparison->goal,
    };
    bench_report_add(report, &record);
    return true;
}

static bool
run(struct rank *rank, struct bench_report *report, bool quick)
{
    static const struct comparison comparisons[] = {
        {"16MiB/device",
         "send",
         "GB/s",
         "by hand",
         move_by_ferry,
         move_by_hand,
         4,
         {BENCH_AT_LEAST, 0.9}},
        {"16MiB/device",
         "send",
         "GB/s",
         "by hand, overlapped",
         move_by_ferry,
         move_by_hand_overlapped,
         4,
         {BENCH_AT_LEAST, 0.9}},
        {"16MiB/device",
         "send",
         "GB/s",
         "MPI between host arrays",
         move_by_ferry,
         move_on_host,
         4,
         {BENCH_NO_GOAL, 0}},
        {"4KiB/device",
         "exchange",
         "us",
         "by hand",
         exchange_by_ferry,
         exchange_by_hand,
         200,
         {BENCH_NO_GOAL, 0}},
    };
    for (size_t i = 0; i < sizeof(comparisons) / sizeof(comparisons[0]); i++) {
        if (!compare(rank, report, &comparisons[i], quick ? 1 : ROUNDS_LIMIT))
            return false;
    }
    return true;
}

/* -- the program ------------------------------------------------------------------------------- */

static bool
prepare(struct rank *rank, bool quick)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank->rank);
    rank->context = bench_context(64 * MIB);
    if (!rank->context)
        return false;
    if (ferry_mpi_create(rank->context, MPI_COMM_WORLD, NULL, &rank->mpi) != FERRY_OK) {
        fprintf(stderr, "bench: %s\n", ferry_mpi_last_error());
        return false;
    }
    size_t chunk_bytes = ferry_mpi_chunk_bytes(rank->mpi), bytes = quick ? 2 * MIB : 16 * MIB;
    const ferry_copy_options to_device = {.stream = ferry_context_stream(rank->context, 1)};
    rank->count = bytes / sizeof(float);
    rank->chunk_count = chunk_bytes / sizeof(float);
    rank->row_count = 1024;
    rank->host = calloc(rank->count, sizeof(float));
    for (int i = 0; i < 2; i++) {
        rank->chunks[i] = aligned_alloc(4096, chunk_bytes);
        if (!rank->chunks[i] || !rank->host)
            return false;
        memset(rank->chunks[i], 0, chunk_bytes);
        if (ferry_context_register_host(rank->context, rank->chunks[i], chunk_bytes) != FERRY_OK)
            fputs("bench: chunks are not page-locked here\n", stderr);
    }
    if (ferry_float_create(rank->context, rank->count, NULL, &rank->buffer) != FERRY_OK ||
        ferry_float_copy_from(rank->buffer, 0, rank->count, rank->host, &to_device) != FERRY_OK)
        return bench_failed("filling the buffer");
    const ferry_mpi_range out = {
        .buffer = rank->buffer.raw, .offset = rank->row_count, .count = rank->row_count};
    const ferry_mpi_range in = {.buffer = rank->buffer.raw, .count = rank->row_count};
    const ferry_mpi_message messages[] = {
        {.direction = FERRY_MPI_SEND, .rank = 1 - rank->rank, .range = out},
        {.direction = FERRY_MPI_RECEIVE, .rank = 1 - rank->rank, .range = in}};
    return ferry_mpi_request_create(rank->mpi, messages, 2, &rank->rows) == FERRY_OK;
}

static void
release(struct rank *rank)
{
    ferry_mpi_request_destroy(&rank->rows);
    ferry_float_destroy(&rank->buffer);
    for (int i = 0; i < 2; i++) {
        if (rank->chunks[i] && rank->context &&
            ferry_context_unregister_host(rank->context, rank->chunks[i]) != FERRY_OK)
            fputs("bench: a chunk stays page-locked\n", stderr);
        free(rank->chunks[i]);
    }
    free(rank->host);
    ferry_mpi_destroy(&rank->mpi);
    ferry_context_destroy(&rank->context);
}

int
main(int argc, char **argv)
{
    struct bench_options options;
    struct bench_report report;
    struct rank rank = {.rank = -1};
    if (!bench_parse(argc, argv, &options))
        return EXIT_FAILURE;
    if (!bench_is_rank())
        return bench_start_ranks(argv, &options, RANKS);
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return EXIT_FAILURE;
    bool ok = prepare(&rank, options.quick) &&
              (rank.rank != 0 || bench_report_open(&report, "mpi", &options, rank.context)) &&
              run(&rank, &report, options.quick);
    if (!ok)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    ok = rank.rank != 0 || bench_report_close(&report);
    release(&rank);
    MPI_Finalize();
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
