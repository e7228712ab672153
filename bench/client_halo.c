/* SPDX-License-Identifier: MIT */

/*
 * Compares the heat equation of examples/halo, which uses <ferry/mpi.h>, with the same program
 * written by hand (halo_by_hand.h). Four MPI ranks on this machine share the grid. Both programs
 * run over the fake driver, which counts the driver calls and the copied bytes of each step. Time
 * is not measured, because this machine may have fewer cores than ranks. The benchmark fails if any
 * bit of the results differs. It also fails if Ferry copies more bytes than the program written by
 * hand, or if it makes more driver calls or waits than its goals allow.
 */

#include "ranks.h"

#include <stdlib.h>
#include <string.h>

#include <ferry/float.h>
#include <ferry/mpi.h>

#include "halo_by_hand.h"
#include "halo_kernels.h"
#include "tests/support/fakecuda.h"

#define RANKS "4"
/* Maximum number of waits in a step of Ferry, and of driver calls that cost more than a few
 * nanoseconds. */
#define WAITS_MOST 2
#define CALLS_MOST 15

/* The heat equation that Ferry and the program written by hand both solve, with the results of
 * both. */
struct plate {
    /* `rows` and `columns` do not count the ring of cells around the grid; `cells` counts it */
    size_t rows, columns, pitch, cells, steps;
    struct halo_way ways[HALO_WAYS];
    float *start, *results[2];
};

/* The program over Ferry. */
struct by_ferry {
    ferry_context *context;
    ferry_mpi *mpi;
    heat_kernels kernels;
    ferry_float_buffer plates[2];
    ferry_mpi_request *halos[2];
};

/* Counts bytes and driver calls of Ferry or of the program written by hand. The members are totals
 * until per_step() divides them by the number of steps. */
struct counts {
    double up, down, copies, launches, waits, events, calls;
    double cheap; /* number of calls that the driver answers without a lock of the device */
};

/* -- the plate --------------------------------------------------------------------------------- */

/* Arranges the ranks in two rows if their number is even, and in one row otherwise. */
static void
plan_ways(struct plate *plate, int rank, int ranks)
{
    int grid_rows = ranks % 2 == 0 ? 2 : 1, grid_columns = ranks / grid_rows;
    int row = rank / grid_columns, column = rank % grid_columns;
    size_t rows = plate->rows, columns = plate->columns, pitch = plate->pitch;
    int up = row > 0 ? rank - grid_columns : MPI_PROC_NULL,
        down = row + 1 < grid_rows ? rank + grid_columns : MPI_PROC_NULL;
    int left = column > 0 ? rank - 1 : MPI_PROC_NULL,
        right = column + 1 < grid_columns ? rank + 1 : MPI_PROC_NULL;
    const struct halo_way ways[HALO_WAYS] = {
        {up, down, pitch + 1, (rows + 1) * pitch + 1, columns, 1},
        {down, up, rows * pitch + 1, 1, columns, 1},
        {left, right, pitch + 1, pitch + columns + 1, 1, rows},
        {right, left, pitch + columns, pitch, 1, rows},
    };
    memcpy(plate->ways, ways, sizeof(ways));
}

static bool
make_plate(struct plate *plate, int rank, int ranks, bool quick)
{
    *plate = (struct plate){
        .rows = quick ? 30 : 256, .columns = quick ? 20 : 250, .steps = quick ? 30 : 100};
    plate->pitch = plate->columns + 2;
    plate->cells = (plate->rows + 2) * plate->pitch;
    plan_ways(plate, rank, ranks);
    plate->start = calloc(plate->cells, sizeof(float));
    for (int i = 0; i < 2; i++)
        plate->results[i] = calloc(plate->cells, sizeof(float));
    if (!plate->start || !plate->results[0] || !plate->results[1])
        return false;
    for (size_t i = 0; i < plate->cells; i++)
        plate->start[i] = (float)((i * 31 + (size_t)rank * 17) % 1009);
    return true;
}

/* -- the side of Ferry ------------------------------------------------------------------------- */

static ferry_status
prepare_requests(struct by_ferry *side, const struct plate *plate, int which)
{
    ferry_mpi_message messages[2 * HALO_WAYS];
    for (int i = 0; i < HALO_WAYS; i++) {
        const struct halo_way *way = &plate->ways[i];
        const ferry_mpi_range range = {.buffer = side->plates[which].raw,
                                       .count = way->count,
                                       .rows = way->rows,
                                       .row_pitch = way->rows > 1 ? plate->pitch : 0};
        messages[2 * i] = (ferry_mpi_message){
            .direction = FERRY_MPI_SEND, .rank = way->to, .tag = i, .range = range};
        messages[2 * i + 1] = (ferry_mpi_message){
            .direction = FERRY_MPI_RECEIVE, .rank = way->from, .tag = i, .range = range};
        messages[2 * i].range.offset = way->send;
        messages[2 * i + 1].range.offset = way->receive;
    }
    return ferry_mpi_request_create(side->mpi, messages, 2 * HALO_WAYS, &side->halos[which]);
}

static bool
open_ferry(struct by_ferry *side, const struct plate *plate)
{
    ferry_status status;
    FERRY_TRY(status, fail, ferry_context_create(NULL, &side->context));
    FERRY_TRY(status, fail, ferry_mpi_create(side->context, MPI_COMM_WORLD, NULL, &side->mpi));
    FERRY_TRY(status, fail, heat_kernels_create(side->context, &side->kernels));
    const ferry_copy_options to_device = {.stream = ferry_context_stream(side->context, 1)};
    for (int i = 0; i < 2; i++) {
        FERRY_TRY(status, fail,
                  ferry_float_create(side->context, plate->cells, NULL, &side->plates[i]));
        FERRY_TRY(
            status, fail,
            ferry_float_copy_from(side->plates[i], 0, plate->cells, plate->start, &to_device));
        FERRY_TRY(status, fail, prepare_requests(side, plate, i));
    }
    return true;
fail:
    fprintf(stderr, "bench: %s %s\n", ferry_last_error(), ferry_mpi_last_error());
    return false;
}

static bool
step_by_ferry(struct by_ferry *side, const struct plate *plate, size_t step)
{
    ferry_mpi_request *halos = side->halos[step % 2];
    return ferry_mpi_request_start(halos) == FERRY_OK &&
           ferry_mpi_request_wait(halos) == FERRY_OK &&
           heat_step(&side->kernels, plate->rows + 2, plate->pitch, NULL,
                     ferry_context_stream(side->context, 1), side->plates[step % 2],
                     side->plates[1 - step % 2]) == FERRY_OK;
}

static void
close_ferry(struct by_ferry *side)
{
    for (int i = 0; i < 2; i++) {
        ferry_mpi_request_destroy(&side->halos[i]);
        ferry_float_destroy(&side->plates[i]);
    }
    heat_kernels_destroy(&side->kernels);
    ferry_mpi_destroy(&side->mpi);
    ferry_context_destroy(&side->context);
}

/* -- counting ---------------------------------------------------------------------------------- */

static double
calls_of(const struct fakecuda *fake, const char *const *names)
{
    double sum = 0;
    for (; *names; names++)
        sum += (double)fake->fakecuda_calls_of(*names);
    return sum;
}

/* Adds the counts of all driver calls since the start to `out` if `sign` is 1. Subtracts these
 * counts from `out` if `sign` is -1. */
static void
count_calls(const struct fakecuda *fake, struct counts *out, double sign)
{
    static const char *const copies[] = {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
                                         "cuMemcpy2DAsync_v2", "cuMemcpyBatchAsync_v2", NULL};
    static const char *const launches[] = {"cuLaunchKernel", NULL}, *const waits[] = {
                                                                        "cuStreamSynchronize",
                                                                        "cuEventSynchronize", NULL};
    static const char *const events[] = {"cuEventRecord", "cuStreamWaitEvent", NULL};
    static const char *const cheap[] = {"cuCtxGetCurrent", "cuThreadExchangeStreamCaptureMode",
                                        NULL};
    out->copies += sign * calls_of(fake, copies);
    out->launches += sign * calls_of(fake, launches);
    out->waits += sign * calls_of(fake, waits);
    out->events += sign * calls_of(fake, events);
    out->cheap += sign * calls_of(fake, cheap);
    out->calls += sign * (double)fake->fakecuda_calls();
}

/* Divides the counts by the number of steps. */
static void
per_step(struct counts *counts, size_t steps)
{
    double *fields[] = {&counts->up,    &counts->down,   &counts->copies, &counts->launches,
                        &counts->waits, &counts->events, &counts->calls,  &counts->cheap};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        *fields[i] /= (double)steps;
}

static bool
run_ferry(struct by_ferry *side, const struct plate *plate, const struct fakecuda *fake,
          size_t first, struct counts *out)
{
    ferry_transfer_stats stats;
    *out = (struct counts){.up = 0};
    MPI_Barrier(MPI_COMM_WORLD);
    if (ferry_context_reset_stats(side->context) != FERRY_OK)
        return false;
    count_calls(fake, out, -1);
    for (size_t step = first; step < first + plate->steps; step++) {
        if (!step_by_ferry(side, plate, step))
            return fprintf(stderr, "bench: %s %s\n", ferry_last_error(), ferry_mpi_last_error()) <
                   0;
    }
    count_calls(fake, out, 1);
    if (ferry_context_get_transfer_stats(side->context, &stats) != FERRY_OK)
        return false;
    out->up = (double)stats.upload.bytes;
    out->down = (double)stats.download.bytes;
    per_step(out, plate->steps);
    return true;
}

static bool
run_by_hand(struct halo_by_hand *side, const struct plate *plate, const struct fakecuda *fake,
            size_t first, struct counts *out)
{
    *out = (struct counts){.up = 0};
    side->up = side->down = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    count_calls(fake, out, -1);
    for (size_t step = first; step < first + plate->steps; step++) {
        if (!halo_by_hand_step(side, step))
            return bench_failed("a step by hand");
    }
    count_calls(fake, out, 1);
    out->up = (double)side->up;
    out->down = (double)side->down;
    per_step(out, plate->steps);
    return true;
}

/* -- the report -------------------------------------------------------------------------------- */

static void
report(struct bench_report *report, const struct plate *plate, const struct counts *ours,
       const struct counts *theirs)
{
    char name[64];
    const struct {
        const char *metric, *unit;
        double ours, theirs;
        struct bench_goal goal;
    } rows[] = {
        {"up", "B/step", ours->up, theirs->up, {BENCH_EXACTLY, 1}},
        {"down", "B/step", ours->down, theirs->down, {BENCH_EXACTLY, 1}},
        {"copies", "calls/step", ours->copies, theirs->copies, {BENCH_NO_GOAL, 0}},
        {"launches", "calls/step", ours->launches, theirs->launches, {BENCH_NO_GOAL, 0}},
        {"waits", "calls/step", ours->waits, theirs->waits, {BENCH_NO_GOAL, 0}},
        {"all_calls", "calls/step", ours->calls, theirs->calls, {BENCH_NO_GOAL, 0}},
        {"all_but_cheap",
         "calls/step",
         ours->calls - ours->cheap,
         theirs->calls - theirs->cheap,
         {BENCH_NO_GOAL, 0}},
    };
    snprintf(name, sizeof(name), "halo/%zux%zu", plate->rows, plate->columns);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        bench_report_add(report, &(struct bench_record){.case_name = name,
                                                        .metric = rows[i].metric,
                                                        .unit = rows[i].unit,
                                                        .value = rows[i].ours,
                                                        .peer = "by hand",
                                                        .peer_value = rows[i].theirs,
                                                        .goal = rows[i].goal});
    /* The record has only Ferry's value. The program written by hand uses one stream, so it makes
     * no event calls. */
    bench_report_add(report, &(struct bench_record){.case_name = name,
                                                    .metric = "events",
                                                    .unit = "calls/step",
                                                    .value = ours->events});
}

/* Measures Ferry and the hand-written program. Each of them first computes some steps that are not
 * counted, because these steps allocate memory that later steps reuse. */
static bool
measure(struct by_ferry *ferry, struct halo_by_hand *by_hand, const struct plate *plate,
        struct counts counts[2])
{
    enum { ROUNDS = 2 };
    struct fakecuda fake;
    if (!fakecuda_find_driver(&fake))
        return bench_failed("the driver that counts");
    for (size_t round = 0; round < ROUNDS; round++) {
        if (!run_ferry(ferry, plate, &fake, round * plate->steps, &counts[0]) ||
            !run_by_hand(by_hand, plate, &fake, round * plate->steps, &counts[1]))
            return false;
    }
    size_t last = ROUNDS * plate->steps % 2;
    if (ferry_float_copy_to(ferry->plates[last], 0, plate->cells, plate->results[0], NULL) !=
            FERRY_OK ||
        !halo_by_hand_read(by_hand, last, plate->results[1]))
        return bench_failed("reading the plates");
    return true;
}

/* Returns whether Ferry and the program written by hand computed the same cells on this rank. Ferry
 * must also have copied no more bytes than that program, and met its goals. */
static bool
agrees(const struct plate *plate, const struct counts counts[2])
{
    bool changed = memcmp(plate->start, plate->results[0], plate->cells * sizeof(float)) != 0;
    if (!changed || memcmp(plate->results[0], plate->results[1], plate->cells * sizeof(float)) != 0)
        return fputs("bench: the cells differ from those of the program by hand\n", stderr) < 0;
    if (counts[0].up > counts[1].up || counts[0].down > counts[1].down)
        return fprintf(stderr,
                       "bench: %g bytes up and %g down in each step, and %g and %g by hand\n",
                       counts[0].up, counts[0].down, counts[1].up, counts[1].down) < 0;
    if (counts[0].waits > WAITS_MOST || counts[0].calls - counts[0].cheap > CALLS_MOST)
        return fprintf(stderr,
                       "bench: %g waits and %g calls in each step; at most %d and %d are allowed\n",
                       counts[0].waits, counts[0].calls - counts[0].cheap, WAITS_MOST,
                       CALLS_MOST) < 0;
    return true;
}

static bool
run_rank(const struct bench_options *options)
{
    struct plate plate;
    struct by_ferry ferry = {.context = NULL};
    struct halo_by_hand by_hand = {.context = NULL};
    struct bench_report out;
    struct counts counts[2];
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bool ok = make_plate(&plate, rank, ranks, options->quick) && open_ferry(&ferry, &plate) &&
              halo_by_hand_open(&by_hand, plate.ways, plate.rows + 2, plate.pitch, plate.start) &&
              (rank != 0 || bench_report_open(&out, "client_halo", options, ferry.context)) &&
              measure(&ferry, &by_hand, &plate, counts) && agrees(&plate, counts);
    if (!ok)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    if (rank == 0) {
        report(&out, &plate, &counts[0], &counts[1]);
        ok = bench_report_close(&out);
    }
    halo_by_hand_close(&by_hand);
    close_ferry(&ferry);
    free(plate.start);
    free(plate.results[0]);
    free(plate.results[1]);
    return ok;
}

/* -- the program ------------------------------------------------------------------------------- */

static void
run_kernel(void **values, const unsigned *grid, const unsigned *block)
{
    (void)grid;
    (void)block;
    heat_step_run(values);
}

/* Registers the host function of the kernel heat_step() with the fake driver. */
static bool
register_kernel(void)
{
    struct fakecuda fake;
    ferry_parameter parameters[8];
    size_t bytes[8];
    const ferry_kernel_source source = heat_step_source(parameters);
    if (!fakecuda_find_driver(&fake))
        return bench_failed("finding the driver that counts");
    for (size_t i = 0; i < source.parameter_count; i++)
        bytes[i] = parameters[i].access ? sizeof(void *) : parameters[i].element->bytes;
    fake.fakecuda_register_kernel(source.name, run_kernel, (int)source.parameter_count, bytes);
    return true;
}

int
main(int argc, char **argv)
{
    struct bench_options options;
    if (!bench_parse(argc, argv, &options))
        return EXIT_FAILURE;
    setenv("FERRY_CUDA_LIBRARY", BENCH_DRIVER, 1);
    setenv("FERRY_NVRTC_LIBRARY", BENCH_NVRTC, 1);
    setenv("FERRY_DEVICE", "cuda", 1);
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    if (!bench_is_rank())
        return bench_start_ranks(argv, &options, RANKS);
    if (!register_kernel() || MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return EXIT_FAILURE;
    bool ok = run_rank(&options);
    MPI_Finalize();
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
