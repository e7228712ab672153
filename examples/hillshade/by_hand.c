/* SPDX-License-Identifier: MIT */

/*
 * hillshade_by_hand: the work of hillshade without Ferry, as a program with two pointers for each array does it. It is what
 * `./dev demo` compares Ferry with, and runs on every machine: its device is emulated by memory of the host, which a
 * memcpy() reaches, and which counts what is copied. The calls are those that a program makes of the CUDA runtime: whole arrays
 * go up before a launch and come down after it, because the program has no record of what changed. One that kept the record
 * for its rows would copy what Ferry copies.
 *
 * usage: hillshade_by_hand INPUT.npy OUTPUT.png CELL-WIDTH CELL-HEIGHT [PEN-STEPS]
 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ferry/ferry.h> /* for the kernel's text alone: both programs run the same one */
#include <ferry/float.h>

#include "hillshade_kernels.h"
#include "npy.h"
#include "pen.h"
#include "write_png.h"

enum direction { TO_DEVICE, TO_HOST };

struct program {
    const char *input, *output;
    double cell_width, cell_height;
    size_t pen_steps;
    struct npy_grid grid;
    uint8_t *grey;
    float *host_height, *host_shade;
    float *device_height, *device_shade;
    unsigned long long copied[2];
};

/* -- the device: memory of the host ---------------------------------------------------------------- */

/* Stands for cudaMalloc(). */
static void *
device_malloc(size_t bytes)
{
    return malloc(bytes);
}

/* Stands for cudaMemcpy(). */
static void
device_memcpy(struct program *program, void *to, const void *from, size_t bytes, enum direction direction)
{
    memcpy(to, from, bytes);
    program->copied[direction] += bytes;
}

/* -- the steps ------------------------------------------------------------------------------------- */

static bool
fail(const char *what, const char *why)
{
    fprintf(stderr, "hillshade_by_hand: %s: %s\n", what, why);
    return false;
}

static size_t
count_of(const struct program *program)
{
    return program->grid.rows * program->grid.columns;
}

static bool
read_input(struct program *program)
{
    char message[256];
    if (!npy_read(program->input, &program->grid, message, sizeof(message)))
        return fail(program->input, message);
    if (program->grid.type == NPY_FLOAT16)
        return fail(program->input, "C has no float16");
    if (!write_png_check(program->grid.rows, program->grid.columns, message, sizeof(message)))
        return fail(program->output, message);
    return true;
}

static bool
open_device(struct program *program)
{
    size_t count = count_of(program);
    program->grey = malloc(count);
    program->host_height = malloc(count * sizeof(float));
    program->host_shade = malloc(count * sizeof(float));
    program->device_height = device_malloc(count * sizeof(float));
    program->device_shade = device_malloc(count * sizeof(float));
    if (!program->grey || !program->host_height || !program->host_shade || !program->device_height || !program->device_shade)
        return fail(program->input, "no memory");
    return true;
}

static float
height_at(const struct npy_grid *grid, size_t i)
{
    switch (grid->type) {
    case NPY_INT8: return ((const int8_t *)grid->values)[i];
    case NPY_UINT8: return ((const uint8_t *)grid->values)[i];
    case NPY_INT16: return ((const int16_t *)grid->values)[i];
    case NPY_UINT16: return ((const uint16_t *)grid->values)[i];
    case NPY_INT32: return (float)((const int32_t *)grid->values)[i];
    case NPY_UINT32: return (float)((const uint32_t *)grid->values)[i];
    case NPY_INT64: return (float)((const int64_t *)grid->values)[i];
    case NPY_UINT64: return (float)((const uint64_t *)grid->values)[i];
    case NPY_FLOAT16: break; /* refused before */
    case NPY_FLOAT32: return ((const float *)grid->values)[i];
    case NPY_FLOAT64: return (float)((const double *)grid->values)[i];
    }
    return 0;
}

static bool
convert(struct program *program)
{
    size_t count = count_of(program);
    for (size_t i = 0; i < count; i++)
        program->host_height[i] = height_at(&program->grid, i);
    return true;
}

static bool
upload(struct program *program)
{
    size_t count = count_of(program);
    device_memcpy(program, program->device_height, program->host_height, count * sizeof(float), TO_DEVICE);
    return true;
}

/* Stands for a launch, with the sun where hillshade has it if no option says otherwise. */
static bool
shade(struct program *program)
{
    const double radians = acos(-1.0) / 180.0;
    float azimuth = (float)(315.0 * radians), altitude = (float)(45.0 * radians);
    float scale_east = (float)(1.0 / (8.0 * program->cell_width)), scale_north = (float)(1.0 / (8.0 * program->cell_height));
    float east = cosf(altitude) * sinf(azimuth), north = cosf(altitude) * cosf(azimuth), up = sinf(altitude);
    size_t first = 0;
    void *values[] = {&program->device_height, &program->device_shade, &scale_east, &scale_north, &east, &north, &up,
                      &program->grid.rows,     &program->grid.columns, &first,      &program->grid.rows, &first, &program->grid.columns};
    hillshade_shade_run(values);
    return true;
}

static bool
download(struct program *program)
{
    size_t count = count_of(program);
    device_memcpy(program, program->host_shade, program->device_shade, count * sizeof(float), TO_HOST);
    return true;
}

static bool
draw(struct program *program)
{
    const struct npy_grid *grid = &program->grid;
    for (size_t step = 0; step < program->pen_steps; step++) {
        struct pen_cells cells = pen_at(grid->rows, grid->columns, step, program->pen_steps);
        pen_draw(cells, grid->columns, step, program->pen_steps, program->host_shade + cells.first,
                 program->host_height + cells.first);
        if (!upload(program) || !shade(program) || !download(program))
            return false;
    }
    return true;
}

static bool
make_grey(struct program *program)
{
    size_t count = count_of(program);
    for (size_t i = 0; i < count; i++)
        program->grey[i] = (uint8_t)(program->host_shade[i] >= 255.0f ? 255.0f : rintf(program->host_shade[i]));
    return true;
}

static bool
write_output(struct program *program)
{
    char message[256];
    return write_png(program->output, program->grey, program->grid.rows, program->grid.columns, message, sizeof(message)) ||
           fail(program->output, message);
}

/* -- the program ----------------------------------------------------------------------------------- */

static double
now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static bool
run(struct program *program)
{
    static const struct {
        bool (*run)(struct program *);
        const char *name;
    } steps[] = {
        {read_input, "read"}, {open_device, "open"},  {convert, "convert"}, {upload, "upload"},       {shade, "kernel"},
        {download, "download"}, {draw, "pen"},        {make_grey, "grey"},  {write_output, "write"},
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        double since = now_ms();
        if (!steps[i].run(program))
            return false;
        printf("%-10s %9.3f ms\n", steps[i].name, now_ms() - since);
    }
    printf("uploaded   %llu bytes\ndownloaded %llu bytes\n", program->copied[TO_DEVICE], program->copied[TO_HOST]);
    return true;
}

int
main(int argc, char **argv)
{
    struct program program = {0};
    if (argc < 5 || argc > 6 || (program.cell_width = strtod(argv[3], NULL)) <= 0 || (program.cell_height = strtod(argv[4], NULL)) <= 0) {
        fputs("usage: hillshade_by_hand INPUT.npy OUTPUT.png CELL-WIDTH CELL-HEIGHT [PEN-STEPS]\n", stderr);
        return 2;
    }
    program.input = argv[1];
    program.output = argv[2];
    program.pen_steps = argc > 5 ? strtoul(argv[5], NULL, 10) : 0;
    bool ok = run(&program);
    free(program.device_shade);
    free(program.device_height);
    free(program.host_shade);
    free(program.host_height);
    free(program.grey);
    npy_free(&program.grid);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
