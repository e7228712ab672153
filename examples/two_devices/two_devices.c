/* SPDX-License-Identifier: MIT */

/*
 * two_devices: heat spreads over a plate. Each of two devices computes one half.
 *
 * There is one buffer for the current plate and one for the next, not one for each device. A launch names
 * the rows that it reads and those that it writes, so the program contains no halo exchange. The row
 * across the border is the only one that a device reads and lacks, and Ferry copies only that row. The
 * program checks this: it compares the bytes that crossed with the minimum. It also compares the plate
 * with the results of one device and of plain C, bit by bit.
 *
 * FERRY_DEVICE selects the devices, such as cuda:0,cuda:1. Without it the program uses two emulated ones.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/ferry.h>
#include <ferry/float.h>

#include "spread_kernels.h"

#define EXIT_USAGE 2

struct size {
    size_t rows, columns, steps;
};

/* All resources of the program. A zeroed struct owns nothing. */
struct program {
    struct size size;
    float *start, *expected, *spare, *result; /* plates on the host */
    ferry_context *context;
    heat_kernels kernels;
};

/* Bytes that crossed. */
struct traffic {
    uint64_t up, across, down;
};

/* -- messages -------------------------------------------------------------------------------------- */

static bool
complain(const char *what, const char *why)
{
    fprintf(stderr, "two_devices: %s: %s\n", what, why);
    return false;
}

static bool
done(ferry_status status, const char *what)
{
    if (status == FERRY_OK)
        return true;
    fprintf(stderr, "two_devices: %s: %s (%s)\n", what, ferry_last_error(), ferry_status_name(status));
    return false;
}

/* -- the steps ------------------------------------------------------------------------------------- */

/* Queues all steps over `parts` devices, from program->start to program->result. The last copy waits. */
static ferry_status
run_parts(struct program *program, int parts)
{
    const struct size *size = &program->size;
    size_t cells = size->rows * size->columns;
    ferry_float_buffer now = {0}, next = {0};
    ferry_status status;
    FERRY_TRY(status, fail, ferry_float_create_from(program->context, cells, program->start, NULL, &now));
    FERRY_TRY(status, fail, ferry_float_create(program->context, cells, NULL, &next));
    for (size_t step = 0; step < size->steps; step++) {
        for (int part = 0; part < parts; part++) {
            size_t first = size->rows * (size_t)part / (size_t)parts, end = size->rows * (size_t)(part + 1) / (size_t)parts;
            const ferry_box box = {.first = {0, first, 0}, .count = {1, end - first, FERRY_REST}};
            FERRY_TRY(status, fail, heat_spread(&program->kernels, size->rows, size->columns, &box,
                                                ferry_context_stream(program->context, part + 1), now, next));
        }
        ferry_float_buffer spare = now;
        now = next;
        next = spare;
    }
    status = ferry_float_copy_to(now, 0, cells, program->result, NULL);
fail:
    ferry_float_destroy(&next);
    ferry_float_destroy(&now);
    return status;
}

/* -- transfers ------------------------------------------------------------------------------------- */

static bool
count_traffic(struct program *program, int parts, struct traffic *out)
{
    ferry_transfer_stats before, after;
    if (!done(ferry_context_get_transfer_stats(program->context, &before), "counting") ||
        !done(run_parts(program, parts), parts > 1 ? "computing on two devices" : "computing on one device") ||
        !done(ferry_context_get_transfer_stats(program->context, &after), "counting"))
        return false;
    *out = (struct traffic){.up = after.upload.bytes - before.upload.bytes, .across = after.peer.bytes - before.peer.bytes,
                            .down = after.download.bytes - before.download.bytes};
    return true;
}

/*
 * Checks the transfers. Every row goes once to the device that computes it, and once back. In every step
 * each device needs one row from across the border: 2 rows a step, from the host in the first step and
 * from the other device in the others.
 */
static bool
check_parts(struct program *program, int parts)
{
    const struct size *size = &program->size;
    uint64_t row_bytes = size->columns * sizeof(float);
    uint64_t in = (size->rows + (parts > 1 ? 2 * size->steps : 0)) * row_bytes, out = size->rows * row_bytes;
    struct traffic moved;
    memset(program->result, 0xff, (size_t)out);
    if (!count_traffic(program, parts, &moved))
        return false;
    bool exact = memcmp(program->result, program->expected, (size_t)out) == 0;
    bool minimal = moved.up + moved.across == in && moved.down == out;
    printf("%d device%s  %llu bytes up, %llu across, %llu down; at least %llu in and %llu down: %s; %s\n", parts, parts > 1 ? "s" : " ",
           (unsigned long long)moved.up, (unsigned long long)moved.across, (unsigned long long)moved.down, (unsigned long long)in,
           (unsigned long long)out, minimal ? "minimal" : "MORE THAN NEEDED", exact ? "exact" : "WRONG");
    return exact && minimal;
}

/* -- the program ----------------------------------------------------------------------------------- */

static bool
parse_arguments(int argc, char **argv, struct size *size)
{
    *size = (struct size){.rows = 1024, .columns = 1000, .steps = 50};
    size_t *fields[] = {&size->rows, &size->columns, &size->steps};
    const unsigned long long least[] = {4, 2, 1};
    for (int i = 1; i < argc; i++) {
        char *end;
        unsigned long long value = i <= 3 && *argv[i] >= '0' && *argv[i] <= '9' ? strtoull(argv[i], &end, 10) : 0;
        if (value == 0 || *end || value < least[i - 1] || value > 1000000)
            return complain(argv[i], "usage: two_devices [ROWS [COLUMNS [STEPS]]], at least 4, 2 and 1");
        *fields[i - 1] = (size_t)value;
    }
    return true;
}

/* One step in plain C, with the operations of spread.json. */
static void
spread(const float *now, float *next, size_t rows, size_t columns)
{
    for (size_t cell = 0; cell < rows * columns; cell++) {
        size_t row = cell / columns, column = cell % columns;
        const float *here = now + cell;
        next[cell] = *here;
        if (row > 0 && row + 1 < rows && column > 0 && column + 1 < columns)
            next[cell] = 0.25f * ((here[-(ptrdiff_t)columns] + here[columns]) + (here[-1] + here[1]));
    }
}

/* Fills the plate with hot stripes, and computes the expected result in plain C. */
static bool
prepare(struct program *program)
{
    const struct size *size = &program->size;
    size_t cells = size->rows * size->columns;
    float **plates[] = {&program->start, &program->expected, &program->spare, &program->result};
    for (int i = 0; i < 4; i++) {
        *plates[i] = malloc(cells * sizeof(float));
        if (!*plates[i])
            return complain("preparing the plates", "out of memory");
    }
    for (size_t i = 0; i < cells; i++)
        program->start[i] = i % size->columns % 17 == 0 ? (float)(i % 1009) : 0.0f;
    memcpy(program->expected, program->start, cells * sizeof(float));
    for (size_t step = 0; step < size->steps; step++) {
        float *now = program->expected;
        spread(now, program->spare, size->rows, size->columns);
        program->expected = program->spare;
        program->spare = now;
    }
    return true;
}

static bool
open_devices(struct program *program)
{
    const char *wanted = getenv("FERRY_DEVICE");
    const ferry_context_options options = {.devices = wanted && *wanted ? NULL : "emulated:2"};
    if (!done(ferry_context_create(&options, &program->context), "opening the devices"))
        return false;
    if (ferry_context_place_count(program->context) < 2)
        return complain("opening the devices", "two are needed, as in FERRY_DEVICE=cuda:0,cuda:1");
    for (int place = 1; place <= 2; place++) {
        ferry_place_info info;
        if (!done(ferry_context_get_place_info(program->context, place, &info), "asking for a device"))
            return false;
        printf("device     %s (%s)\n", info.name, info.kind);
    }
    return done(heat_kernels_create(program->context, &program->kernels), "compiling the kernel");
}

int
main(int argc, char **argv)
{
    struct program program = {.start = NULL};
    if (!parse_arguments(argc, argv, &program.size))
        return EXIT_USAGE;
    bool ok = open_devices(&program) && prepare(&program);
    if (ok) {
        printf("plate      %zu x %zu, %zu steps\n", program.size.rows, program.size.columns, program.size.steps);
        ok = check_parts(&program, 1);
        ok = check_parts(&program, 2) && ok;
    }
    free(program.start);
    free(program.expected);
    free(program.spare);
    free(program.result);
    heat_kernels_destroy(&program.kernels);
    ferry_context_destroy(&program.context);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
