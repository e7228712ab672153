/* SPDX-License-Identifier: MIT */

/*
 * halo: heat spreads over a plate that many ranks of MPI share.
 *
 * The ranks form a grid, and each one computes ROWS x COLUMNS cells on its device. Around them lies a ring of cells that
 * belong to the neighbours. Before each step <ferry/mpi.h> exchanges these halos: two rows and two columns, by persistent
 * requests. No other byte crosses between host and device, which the program checks. It also compares its cells with
 * those of plain C, bit by bit.
 *
 * mpiexec -n RANKS halo [ROWS COLUMNS STEPS]    computes, and prints one line for each rank
 * halo --plan RANKS ROWS COLUMNS STEPS          prints what any number of ranks would send, without MPI
 *
 * FERRY_DEVICE selects the device. Without it the program uses an emulated one.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/ferry.h>
#include <ferry/float.h>
#include <ferry/mpi.h>

#include "halo_kernels.h"

#define EXIT_USAGE 2
#define MESSAGES 8
#define MOST_RANKS 1000000
#define PLAN_CHUNK_BYTES ((size_t)512 << 10) /* the default of ferry-mpi */

struct size {
    size_t rows, columns, steps; /* rows and columns of each rank, without the ring */
};

/* Ranks side by side, and where one of them is. */
struct grid {
    int rows, columns, row, column;
};

/* All resources of the program. A zeroed struct owns nothing. */
struct program {
    struct size size;
    struct grid grid;
    float *cells, *whole, *spare;   /* of this rank with its ring; of all ranks with the ring around them */
    ferry_context *context;
    ferry_float_buffer plates[2];   /* now and next, in turn */
    heat_kernels kernels;
    ferry_mpi *mpi;
    ferry_mpi_request *halos[2];    /* of each plate */
};

/* What one rank reports. */
struct report {
    unsigned long long neighbours, messages, sent, received, up, down;
    int minimal, exact;
};

/* -- messages -------------------------------------------------------------------------------------- */

static bool
done(ferry_status status, const char *what)
{
    if (status != FERRY_OK)
        fprintf(stderr, "halo: %s: %s (%s)\n", what, ferry_last_error(), ferry_status_name(status));
    return status == FERRY_OK;
}

static bool
mpi_done(ferry_status status, const char *what)
{
    if (status != FERRY_OK)
        fprintf(stderr, "halo: %s: %s (%s)\n", what, ferry_mpi_last_error(), ferry_status_name(status));
    return status == FERRY_OK;
}

/* -- the plan -------------------------------------------------------------------------------------- */

/* The grid that is nearest to a square. */
static struct grid
place_in_grid(int rank, int ranks)
{
    struct grid grid = {.rows = 1};
    for (int rows = 1; rows * rows <= ranks; rows++)
        grid.rows = ranks % rows == 0 ? rows : grid.rows;
    grid.columns = ranks / grid.rows;
    grid.row = rank / grid.columns;
    grid.column = rank % grid.columns;
    return grid;
}

static int
neighbour(const struct grid *grid, int down, int right)
{
    int row = grid->row + down, column = grid->column + right;
    bool is_there = row >= 0 && row < grid->rows && column >= 0 && column < grid->columns;
    return is_there ? row * grid->columns + column : MPI_PROC_NULL;
}

/* Lists what a rank exchanges before each step: its outer cells for the neighbours, and the ring for itself. */
static void
plan_halos(const struct grid *grid, const struct size *size, ferry_buffer *plate, ferry_mpi_message messages[MESSAGES])
{
    size_t rows = size->rows, columns = size->columns, pitch = columns + 2;
    const struct {
        int down, right;      /* where the cells go */
        size_t send, receive; /* first cell of this rank, and first cell of the ring on the opposite side */
    } ways[MESSAGES / 2] = {
        {-1, 0, pitch + 1, (rows + 1) * pitch + 1},
        {1, 0, rows * pitch + 1, 1},
        {0, -1, pitch + 1, pitch + columns + 1},
        {0, 1, pitch + columns, pitch},
    };
    for (int i = 0; i < MESSAGES / 2; i++) {
        bool is_row = ways[i].right == 0;
        const ferry_mpi_range range = {.buffer = plate, .element = ferry_float_element(), .count = is_row ? columns : 1,
                                       .rows = is_row ? 1 : rows, .row_pitch = is_row ? 0 : pitch};
        messages[2 * i] = (ferry_mpi_message){.direction = FERRY_MPI_SEND, .tag = i, .range = range,
                                              .rank = neighbour(grid, ways[i].down, ways[i].right)};
        messages[2 * i].range.offset = ways[i].send;
        messages[2 * i + 1] = (ferry_mpi_message){.direction = FERRY_MPI_RECEIVE, .tag = i, .range = range,
                                                  .rank = neighbour(grid, -ways[i].down, -ways[i].right)};
        messages[2 * i + 1].range.offset = ways[i].receive;
    }
}

static ferry_status
plan_traffic(const struct grid *grid, const struct size *size, size_t chunk_bytes, struct report *out)
{
    ferry_mpi_message messages[MESSAGES];
    ferry_mpi_traffic traffic;
    plan_halos(grid, size, NULL, messages);
    ferry_status status = ferry_mpi_plan(messages, MESSAGES, chunk_bytes, &traffic);
    if (status != FERRY_OK)
        return status;
    *out = (struct report){.messages = traffic.sent_messages * size->steps, .sent = traffic.sent_bytes * size->steps,
                           .received = traffic.received_bytes * size->steps};
    for (int i = 0; i < MESSAGES; i += 2)
        out->neighbours += messages[i].rank != MPI_PROC_NULL;
    return FERRY_OK;
}

/* One line for each rank, and the sum. */
static bool
print_plan(int ranks, const struct size *size)
{
    struct grid grid = place_in_grid(0, ranks);
    unsigned long long messages = 0, sent = 0;
    printf("grid       %d x %d ranks of %zu x %zu cells, %zu steps\n", grid.rows, grid.columns, size->rows, size->columns,
           size->steps);
    printf("%-11s%5s %11s %14s %14s\n", "rank", "sides", "messages", "bytes sent", "bytes received");
    for (int rank = 0; rank < ranks; rank++) {
        struct report report;
        grid = place_in_grid(rank, ranks);
        if (!mpi_done(plan_traffic(&grid, size, PLAN_CHUNK_BYTES, &report), "planning"))
            return false;
        printf("%-11d%5llu %11llu %14llu %14llu\n", rank, report.neighbours, report.messages, report.sent, report.received);
        messages += report.messages;
        sent += report.sent;
    }
    printf("%-11s%5s %11llu %14llu %14llu\n", "all", "", messages, sent, sent);
    return true;
}

/* -- plain C --------------------------------------------------------------------------------------- */

/* The start: hot stripes. The coordinates are those of the whole plate, and its ring is cold. */
static float
start_value(size_t row, size_t column, size_t rows, size_t columns)
{
    bool ring = row == 0 || column == 0 || row + 1 == rows || column + 1 == columns;
    return !ring && (row + 2 * column) % 17 == 0 ? (float)((row * 31 + column) % 1009) : 0.0f;
}

/* Computes the whole plate, of which each rank then compares its part. */
static bool
compute_whole(struct program *program)
{
    const struct size *size = &program->size;
    size_t rows = size->rows * (size_t)program->grid.rows + 2, columns = size->columns * (size_t)program->grid.columns + 2;
    program->whole = calloc(rows * columns, sizeof(float));
    program->spare = calloc(rows * columns, sizeof(float));
    if (!program->whole || !program->spare)
        return false;
    for (size_t i = 0; i < rows * columns; i++)
        program->whole[i] = start_value(i / columns, i % columns, rows, columns);
    for (size_t step = 0; step < size->steps; step++) {
        float *now = program->whole, *next = program->spare;
        for (size_t row = 1; row + 1 < rows; row++) {
            for (size_t i = row * columns + 1; i + 1 < (row + 1) * columns; i++)
                next[i] = 0.25f * ((now[i - columns] + now[i + columns]) + (now[i - 1] + now[i + 1]));
        }
        program->whole = next;
        program->spare = now;
    }
    return true;
}

static bool
is_exact(const struct program *program)
{
    const struct size *size = &program->size;
    size_t pitch = size->columns + 2, whole_pitch = size->columns * (size_t)program->grid.columns + 2;
    for (size_t row = 1; row <= size->rows; row++) {
        const float *expected = program->whole + (size->rows * (size_t)program->grid.row + row) * whole_pitch +
                                size->columns * (size_t)program->grid.column;
        if (memcmp(program->cells + row * pitch + 1, expected + 1, size->columns * sizeof(float)) != 0)
            return false;
    }
    return true;
}

/* -- the steps ------------------------------------------------------------------------------------- */

/* The cells of this rank, at the device: both plates, so that the ring of the whole plate is in both. */
static bool
create_plates(struct program *program)
{
    const struct size *size = &program->size;
    size_t pitch = size->columns + 2, cells = (size->rows + 2) * pitch;
    size_t rows = size->rows * (size_t)program->grid.rows + 2, columns = size->columns * (size_t)program->grid.columns + 2;
    const ferry_copy_options to_device = {.stream = ferry_context_stream(program->context, 1)};
    program->cells = malloc(cells * sizeof(float));
    if (!program->cells)
        return false;
    for (size_t i = 0; i < cells; i++)
        program->cells[i] = start_value(size->rows * (size_t)program->grid.row + i / pitch,
                                        size->columns * (size_t)program->grid.column + i % pitch, rows, columns);
    for (int i = 0; i < 2; i++) {
        ferry_mpi_message messages[MESSAGES];
        if (!done(ferry_float_create(program->context, cells, NULL, &program->plates[i]), "creating the plate") ||
            !done(ferry_float_copy_from(program->plates[i], 0, cells, program->cells, &to_device), "filling the plate"))
            return false;
        plan_halos(&program->grid, size, program->plates[i].raw, messages);
        if (!mpi_done(ferry_mpi_request_create(program->mpi, messages, MESSAGES, &program->halos[i]), "preparing the halos"))
            return false;
    }
    return true;
}

static bool
run_steps(struct program *program)
{
    const struct size *size = &program->size;
    ferry_stream *stream = ferry_context_stream(program->context, 1);
    for (size_t step = 0; step < size->steps; step++) {
        size_t now = step % 2;
        if (!mpi_done(ferry_mpi_request_start(program->halos[now]), "exchanging halos") ||
            !mpi_done(ferry_mpi_request_wait(program->halos[now]), "exchanging halos") ||
            !done(heat_step(&program->kernels, size->rows + 2, size->columns + 2, NULL,
                            stream, program->plates[now], program->plates[1 - now]), "computing a step"))
            return false;
    }
    return true;
}

/* Counts the bytes of all steps, and compares the cells afterwards. */
static bool
run(struct program *program, struct report *report)
{
    const struct size *size = &program->size;
    ferry_place_info info;
    ferry_transfer_stats stats;
    size_t cells = (size->rows + 2) * (size->columns + 2);
    if (!done(ferry_context_get_place_info(program->context, 1, &info), "asking for the device") ||
        !mpi_done(plan_traffic(&program->grid, size, ferry_mpi_chunk_bytes(program->mpi), report), "planning") ||
        !done(ferry_context_reset_stats(program->context), "counting") || !run_steps(program) ||
        !done(ferry_context_get_transfer_stats(program->context, &stats), "counting") ||
        !done(ferry_float_copy_to(program->plates[size->steps % 2], 0, cells, program->cells, NULL), "reading the plate"))
        return false;
    bool free_of_copies = info.coherent || ferry_mpi_uses_device_pointers(program->mpi, 1);
    report->up = stats.upload.bytes;
    report->down = stats.download.bytes;
    /* Columns are packed on the host where MPI cannot take them: only there may a device pointer cost bytes. */
    report->minimal = free_of_copies ? report->up <= report->received && report->down <= report->sent
                                     : report->up == report->received && report->down == report->sent;
    report->exact = is_exact(program);
    return true;
}

/* -- the program ----------------------------------------------------------------------------------- */

static bool
parse_size(int argc, char **argv, struct size *size)
{
    size_t *fields[] = {&size->rows, &size->columns, &size->steps};
    *size = (struct size){.rows = 256, .columns = 250, .steps = 20};
    for (int i = 0; i < argc; i++) {
        char *end;
        unsigned long long value = i < 3 && *argv[i] >= '0' && *argv[i] <= '9' ? strtoull(argv[i], &end, 10) : 0;
        if (value == 0 || *end || value > 100000)
            return false;
        *fields[i] = (size_t)value;
    }
    return true;
}

static bool
print_reports(const struct program *program, const struct report *mine)
{
    int ranks = ferry_mpi_size(program->mpi);
    bool is_first = ferry_mpi_rank(program->mpi) == 0, good = true;
    struct report *all = is_first ? calloc((size_t)ranks, sizeof(*all)) : NULL;
    if (is_first && !all)
        return false;
    MPI_Gather(mine, sizeof(*mine), MPI_BYTE, all, sizeof(*mine), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (is_first)
        printf("grid       %d x %d ranks of %zu x %zu cells, %zu steps\n", program->grid.rows, program->grid.columns,
               program->size.rows, program->size.columns, program->size.steps);
    for (int rank = 0; is_first && rank < ranks; rank++) {
        const struct report *report = &all[rank];
        good = good && report->minimal && report->exact;
        printf("rank %-5d %llu sides, %llu messages, %llu bytes sent, %llu received; %llu bytes down, %llu up: %s; %s\n", rank,
               report->neighbours, report->messages, report->sent, report->received, report->down, report->up,
               report->minimal ? "minimal" : "MORE THAN NEEDED", report->exact ? "exact" : "WRONG");
    }
    free(all);
    return good;
}

static bool
open_program(struct program *program)
{
    const char *wanted = getenv("FERRY_DEVICE");
    const ferry_context_options options = {.devices = wanted && *wanted ? NULL : "emulated"};
    if (!done(ferry_context_create(&options, &program->context), "opening the device") ||
        !mpi_done(ferry_mpi_create(program->context, MPI_COMM_WORLD, NULL, &program->mpi), "joining the ranks") ||
        !done(heat_kernels_create(program->context, &program->kernels), "compiling the kernel"))
        return false;
    program->grid = place_in_grid(ferry_mpi_rank(program->mpi), ferry_mpi_size(program->mpi));
    if (compute_whole(program) && create_plates(program))
        return true;
    fputs("halo: the plate could not be prepared\n", stderr);
    return false;
}

static void
close_program(struct program *program)
{
    free(program->cells);
    free(program->whole);
    free(program->spare);
    for (int i = 0; i < 2; i++) {
        ferry_mpi_request_destroy(&program->halos[i]);
        ferry_float_destroy(&program->plates[i]);
    }
    heat_kernels_destroy(&program->kernels);
    ferry_mpi_destroy(&program->mpi);
    ferry_context_destroy(&program->context);
}

int
main(int argc, char **argv)
{
    struct program program = {.cells = NULL};
    struct report report = {.neighbours = 0};
    bool plans = argc == 6 && strcmp(argv[1], "--plan") == 0;
    long ranks = plans ? strtol(argv[2], NULL, 10) : 1;
    int skipped = plans ? 3 : 1;
    if ((!plans && argc != 1 && argc != 4) || ranks < 1 || ranks > MOST_RANKS || !parse_size(argc - skipped, argv + skipped, &program.size)) {
        fputs("usage: halo [ROWS COLUMNS STEPS] | --plan RANKS ROWS COLUMNS STEPS\n", stderr);
        return EXIT_USAGE;
    }
    if (plans)
        return print_plan((int)ranks, &program.size) ? EXIT_SUCCESS : EXIT_FAILURE;
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return EXIT_FAILURE;
    if (!open_program(&program) || !run(&program, &report))
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE); /* the other ranks would wait */
    bool good = print_reports(&program, &report);
    close_program(&program);
    MPI_Finalize();
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
