/* SPDX-License-Identifier: MIT */

/*
 * strips: heat spreads over a plate of many materials, of which each rank of MPI has a strip of rows.
 *
 * Above and below the rows of a rank lies one row of its neighbours. While <ferry/mpi.h> exchanges these halos, the device
 * computes the rows that need none: a box of the strip, which reads and writes no row that is under way. The first and the
 * last row follow, as two more boxes. A box of rows leaves the ring of rows alone; a box of columns would not, because an array
 * is used from the first element of a box to the last one.
 *
 * mpiexec -n RANKS strips [ROWS COLUMNS STEPS]    ROWS are those of each rank
 *
 * Each rank compares its cells with those of plain C, bit by bit, and the bytes that crossed with those of the halos.
 * FERRY_DEVICE selects the device. Without it the program uses an emulated one.
 */

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/double.h>
#include <ferry/ferry.h>
#include <ferry/mpi.h>

#include "strips_kernels.h"

#define EXIT_USAGE 2
#define RATE 0.24

enum { MESSAGES = 4, UP = 0, DOWN = 1 };

struct size {
    size_t rows, columns, steps; /* rows of each rank, without the halos */
};

/* All resources of the program. A zeroed struct owns nothing. */
struct program {
    struct size size;
    int rank, ranks;
    ferry_context *context;
    strips_kernels kernels;
    ferry_double_buffer heat[2], conducts; /* now and next, in turn */
    ferry_mpi *mpi;
    ferry_mpi_request *halos[2];           /* of each of the two */
};

static bool
done(ferry_status status, const char *what)
{
    if (status != FERRY_OK)
        fprintf(stderr, "strips: %s: %s (%s)\n", what, ferry_last_error(), ferry_status_name(status));
    return status == FERRY_OK;
}

static bool
mpi_done(ferry_status status, const char *what)
{
    if (status != FERRY_OK)
        fprintf(stderr, "strips: %s: %s (%s)\n", what, ferry_mpi_last_error(), ferry_status_name(status));
    return status == FERRY_OK;
}

/* -- the plate, in plain C ------------------------------------------------------------------------- */

static double
start_heat(size_t row, size_t column)
{
    return (row * 7 + column * 3) % 101 == 0 ? (double)((row * 31 + column) % 1009) : 0.0;
}

static double
start_conducts(size_t row, size_t column)
{
    return 0.1 + 0.9 * (double)((row / 5 * 13 + column / 7 * 29) % 97) / 97.0;
}

static double
flow(const double *heat, const double *conducts, size_t here, size_t there)
{
    return fmin(conducts[here], conducts[there]) * (heat[there] - heat[here]);
}

/* Returns the heat of the whole plate after all steps, which the caller frees; NULL without memory. */
static double *
compute_whole(const struct size *size, size_t rows)
{
    size_t columns = size->columns, cells = rows * columns;
    double *now = malloc(cells * sizeof(double)), *next = malloc(cells * sizeof(double)), *conducts = malloc(cells * sizeof(double));
    if (now && next && conducts) {
        for (size_t i = 0; i < cells; i++) {
            now[i] = next[i] = start_heat(i / columns, i % columns);
            conducts[i] = start_conducts(i / columns, i % columns);
        }
        for (size_t step = 0; step < size->steps; step++) {
            for (size_t row = 1; row + 1 < rows; row++) {
                for (size_t i = row * columns + 1; i + 1 < (row + 1) * columns; i++) {
                    double up = flow(now, conducts, i, i - columns), down = flow(now, conducts, i, i + columns);
                    double left = flow(now, conducts, i, i - 1), right = flow(now, conducts, i, i + 1);
                    next[i] = now[i] + RATE * ((up + down) + (left + right));
                }
            }
            double *before = now;
            now = next;
            next = before;
        }
    } else {
        free(now);
        now = NULL;
    }
    free(next);
    free(conducts);
    return now;
}

/* -- the strip of a rank --------------------------------------------------------------------------- */

/* The first and the last row go to the neighbours, and their rows come to the rows around. */
static bool
prepare_halos(struct program *program, int which)
{
    const struct size *size = &program->size;
    int above = program->rank > 0 ? program->rank - 1 : MPI_PROC_NULL;
    int below = program->rank + 1 < program->ranks ? program->rank + 1 : MPI_PROC_NULL;
    ferry_mpi_message messages[MESSAGES];
    for (int i = 0; i < MESSAGES; i++)
        messages[i] = (ferry_mpi_message){.range = {.buffer = program->heat[which].raw, .element = ferry_double_element(),
                                                    .count = size->columns, .rows = 1}};
    messages[0].direction = messages[1].direction = FERRY_MPI_SEND;
    messages[2].direction = messages[3].direction = FERRY_MPI_RECEIVE;
    messages[0].rank = messages[2].rank = above;
    messages[1].rank = messages[3].rank = below;
    messages[0].tag = messages[3].tag = UP;
    messages[1].tag = messages[2].tag = DOWN;
    messages[0].range.offset = size->columns;
    messages[1].range.offset = size->rows * size->columns;
    messages[2].range.offset = 0;
    messages[3].range.offset = (size->rows + 1) * size->columns;
    return mpi_done(ferry_mpi_request_create(program->mpi, messages, MESSAGES, &program->halos[which]), "preparing the halos");
}

static bool
create_array(struct program *program, double (*start)(size_t, size_t), ferry_double_buffer *out)
{
    const struct size *size = &program->size;
    size_t cells = (size->rows + 2) * size->columns, first = size->rows * (size_t)program->rank;
    const ferry_copy_options to_device = {.stream = ferry_context_stream(program->context, 1)};
    double *values = malloc(cells * sizeof(double));
    for (size_t i = 0; values && i < cells; i++)
        values[i] = start(first + i / size->columns, i % size->columns);
    bool good = values && done(ferry_double_create(program->context, cells, NULL, out), "creating an array") &&
                done(ferry_double_copy_from(*out, 0, cells, values, &to_device), "filling an array");
    free(values);
    return good;
}

/* Computes some rows of the strip, without the columns at the edges of the plate. */
static bool
compute_rows(struct program *program, size_t now, size_t first, size_t count)
{
    const struct size *size = &program->size;
    const ferry_box box = {.first = {0, first, 1}, .count = {1, count, size->columns - 2}};
    return done(strips_step(&program->kernels, size->rows + 2, size->columns, &box, ferry_context_stream(program->context, 1),
                            program->heat[now], program->conducts, RATE, program->heat[1 - now]), "computing rows");
}

static bool
run_steps(struct program *program)
{
    size_t rows = program->size.rows;
    for (size_t step = 0; step < program->size.steps; step++) {
        size_t now = step % 2;
        if (!mpi_done(ferry_mpi_request_start(program->halos[now]), "sending halos") ||
            !compute_rows(program, now, 2, rows - 2) || /* while the halos are under way */
            !mpi_done(ferry_mpi_request_wait(program->halos[now]), "receiving halos") ||
            !compute_rows(program, now, 1, 1) || !compute_rows(program, now, rows, 1))
            return false;
    }
    return true;
}

/* Returns whether the rows of this rank have the bits of plain C. */
static bool
is_exact(struct program *program)
{
    const struct size *size = &program->size;
    size_t cells = size->rows * size->columns;
    double *whole = compute_whole(size, size->rows * (size_t)program->ranks + 2), *found = malloc(cells * sizeof(double));
    bool exact = whole && found &&
                 done(ferry_double_copy_to(program->heat[size->steps % 2], size->columns, cells, found, NULL), "reading the strip") &&
                 memcmp(found, whole + (size->rows * (size_t)program->rank + 1) * size->columns, cells * sizeof(double)) == 0;
    free(whole);
    free(found);
    return exact;
}

/* -- the program ----------------------------------------------------------------------------------- */

static bool
open_program(struct program *program)
{
    const char *wanted = getenv("FERRY_DEVICE");
    const ferry_context_options options = {.devices = wanted && *wanted ? NULL : "emulated"};
    if (!done(ferry_context_create(&options, &program->context), "opening the device") ||
        !mpi_done(ferry_mpi_create(program->context, MPI_COMM_WORLD, NULL, &program->mpi), "joining the ranks") ||
        !done(strips_kernels_create(program->context, &program->kernels), "compiling the kernel"))
        return false;
    program->rank = ferry_mpi_rank(program->mpi);
    program->ranks = ferry_mpi_size(program->mpi);
    return create_array(program, start_heat, &program->heat[0]) && create_array(program, start_heat, &program->heat[1]) &&
           create_array(program, start_conducts, &program->conducts) && prepare_halos(program, 0) && prepare_halos(program, 1);
}

static void
close_program(struct program *program)
{
    for (int i = 0; i < 2; i++) {
        ferry_mpi_request_destroy(&program->halos[i]);
        ferry_double_destroy(&program->heat[i]);
    }
    ferry_double_destroy(&program->conducts);
    strips_kernels_destroy(&program->kernels);
    ferry_mpi_destroy(&program->mpi);
    ferry_context_destroy(&program->context);
}

static bool
run(struct program *program, bool *good)
{
    const struct size *size = &program->size;
    size_t sides = (size_t)(program->rank > 0) + (size_t)(program->rank + 1 < program->ranks);
    size_t halos = sides * size->columns * sizeof(double) * size->steps;
    ferry_place_info info;
    ferry_transfer_stats stats;
    if (!done(ferry_context_get_place_info(program->context, 1, &info), "asking for the device") ||
        !done(ferry_context_reset_stats(program->context), "counting") || !run_steps(program) ||
        !done(ferry_context_get_transfer_stats(program->context, &stats), "counting"))
        return false;
    bool crosses = !info.coherent && !ferry_mpi_uses_device_pointers(program->mpi, 1);
    bool minimal = stats.upload.bytes == (crosses ? halos : 0) && stats.download.bytes == (crosses ? halos : 0);
    bool exact = is_exact(program);
    printf("rank %d: %llu bytes down, %llu up: %s; %s\n", program->rank, (unsigned long long)stats.download.bytes,
           (unsigned long long)stats.upload.bytes, minimal ? "minimal" : "MORE THAN NEEDED", exact ? "exact" : "WRONG");
    *good = minimal && exact;
    return true;
}

static bool
parse_size(int argc, char **argv, struct size *size)
{
    size_t *fields[] = {&size->rows, &size->columns, &size->steps};
    *size = (struct size){.rows = 250, .columns = 1000, .steps = 20};
    for (int i = 1; i < argc; i++) {
        char *end;
        unsigned long long value = *argv[i] >= '0' && *argv[i] <= '9' ? strtoull(argv[i], &end, 10) : 0;
        if (value == 0 || *end || value > 100000)
            return false;
        *fields[i - 1] = (size_t)value;
    }
    return (argc == 1 || argc == 4) && size->rows >= 3 && size->columns >= 3;
}

int
main(int argc, char **argv)
{
    struct program program = {.context = NULL};
    bool good = false;
    if (argc > 4 || !parse_size(argc, argv, &program.size)) {
        fputs("usage: strips [ROWS COLUMNS STEPS], with at least 3 rows and 3 columns\n", stderr);
        return EXIT_USAGE;
    }
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return EXIT_FAILURE;
    if (!open_program(&program) || !run(&program, &good))
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE); /* the other ranks would wait */
    close_program(&program);
    MPI_Finalize();
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
