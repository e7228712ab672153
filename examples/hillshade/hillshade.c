/* SPDX-License-Identifier: MIT */

/*
 * hillshade: reads a grid of heights, shades it on the device for a given position of the sun, and
 * writes a picture. The kernel is in hillshade.json; outside the grid the nearest cell is used.
 *
 * The copy to the device converts heights to float, and the copy back converts brightness to bytes.
 * Nothing else crosses. FERRY_DEVICE selects the device. On the host the program copies nothing.
 *
 * With --pen the host then changes a few rows in each of many steps (pen.h), and the device shades the ground again. The program
 * opens the rows that it reads and changes, and copies nothing itself: only these rows cross.
 */

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ferry/ferry.h>
#include <ferry/float.h>
#include <ferry/float_convert.h>
#include <ferry/scoped.h>

#include "hillshade_kernels.h"
#include "npy.h"
#include "pen.h"
#include "write_png.h"

#define EXIT_USAGE   2
#define DEVICE_PLACE 1 /* the context's first device */

static const char usage_text[] =
    "usage: hillshade INPUT.npy OUTPUT.png [--azimuth DEGREES] [--altitude DEGREES]\n"
    "                 [--cell METRES[,METRES]] [--z FACTOR] [--pen STEPS]\n"
    "  INPUT.npy   heights, integers or floats of up to 64 bits, the northern row first\n"
    "  --azimuth   where the sun stands, clockwise from north (315)\n"
    "  --altitude  of the sun above the horizon, 0 to 90 (45)\n"
    "  --cell      width and height of a cell (1)\n"
    "  --z         what heights are multiplied with (1)\n"
    "  --pen       in how many steps a pen draws on the ground, which is shaded again after each (0)\n";

struct options {
    const char *input, *output;
    double azimuth, altitude, cell_width, cell_height, factor, pen_steps;
};

/* All resources of the program. A zeroed struct owns nothing. */
struct program {
    struct options options;
    struct npy_grid grid;
    uint8_t *grey;
    ferry_context *context;
    ferry_stream *stream; /* borrowed */
    hillshade_kernels kernels;
    ferry_float_buffer height, shade;
};

/* -- messages -------------------------------------------------------------------------------------- */

static bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints one line; of a compiler's log only the first line. Returns false. */
static bool
complain(const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    line[strcspn(line, "\r\n")] = 0;
    fprintf(stderr, "hillshade: %s\n", line);
    return false;
}

/* Prints the message of a failure. Returns whether the call succeeded. */
static bool
done(ferry_status status, const char *what)
{
    if (status == FERRY_OK)
        return true;
    return complain("%s: %s (%s)", what, ferry_last_error(), ferry_status_name(status));
}

static double
now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

/* Prints how long a step took and starts the next one. */
static void
lap(double *since, const char *step)
{
    double now = now_ms();
    printf("%-10s %9.3f ms\n", step, now - *since);
    *since = now_ms();
}

/* -- the command line ------------------------------------------------------------------------------ */

static bool
parse_number(const char *text, char **end, double low, double high, double *out)
{
    *out = strtod(text, end);
    return *end != text && *out >= low && *out <= high; /* false for a NaN, too */
}

static bool
parse_option(struct options *options, const char *name, const char *text)
{
    char *end;
    bool ok;
    if (!text)
        return complain("%s needs a value", name);
    if (strcmp(name, "--azimuth") == 0) {
        ok = parse_number(text, &end, -360.0, 360.0, &options->azimuth);
    } else if (strcmp(name, "--altitude") == 0) {
        ok = parse_number(text, &end, 0.0, 90.0, &options->altitude);
    } else if (strcmp(name, "--z") == 0) {
        ok = parse_number(text, &end, 1e-6, 1e6, &options->factor);
    } else if (strcmp(name, "--pen") == 0) {
        ok = parse_number(text, &end, 0, PEN_MOST_STEPS, &options->pen_steps) &&
             options->pen_steps == floor(options->pen_steps);
    } else if (strcmp(name, "--cell") == 0) {
        ok = parse_number(text, &end, 1e-6, 1e6, &options->cell_width);
        options->cell_height = options->cell_width;
        if (ok && *end == ',')
            ok = parse_number(end + 1, &end, 1e-6, 1e6, &options->cell_height);
    } else {
        return complain("unknown option %s; try --help", name);
    }
    if (!ok || *end)
        return complain("%s does not take '%s'", name, text);
    return true;
}

static bool
parse_arguments(int argc, char **argv, struct options *options)
{
    *options =
        (struct options){.azimuth = 315.0, .altitude = 45.0, .cell_width = 1.0, .cell_height = 1.0, .factor = 1.0};
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0) {
            const char *value = i + 1 < argc ? argv[i + 1] : NULL;
            if (!parse_option(options, argv[i++], value))
                return false;
        } else if (!options->input) {
            options->input = argv[i];
        } else if (!options->output) {
            options->output = argv[i];
        } else {
            return complain("one argument too many: '%s'", argv[i]);
        }
    }
    return options->output || complain("INPUT.npy and OUTPUT.png are needed; try --help");
}

/* -- the steps ------------------------------------------------------------------------------------- */

static bool
read_input(struct program *program)
{
    char message[256];
    const struct options *options = &program->options;
    struct npy_grid *grid = &program->grid;
    if (!npy_read(options->input, grid, message, sizeof(message)))
        return complain("%s: %s", options->input, message);
    if (!write_png_check(grid->rows, grid->columns, message, sizeof(message)))
        return complain("%s: %s", options->output, message);

    program->grey = malloc(grid->rows * grid->columns);
    if (!program->grey)
        return complain("%s: no memory for a picture of %zu x %zu", options->output, grid->columns, grid->rows);
    printf("grid       %zu x %zu %s\n", grid->rows, grid->columns, npy_type_name(grid->type));
    return true;
}

static bool
open_device(struct program *program)
{
    static const ferry_buffer_options height_options = {.name = "height"}, shade_options = {.name = "shade"};
    ferry_place_info info;
    size_t count = program->grid.rows * program->grid.columns;

    if (!done(ferry_context_create(NULL, &program->context), "opening the device") ||
        !done(ferry_context_get_place_info(program->context, DEVICE_PLACE, &info), "asking for the device"))
        return false;
    program->stream = ferry_context_stream(program->context, DEVICE_PLACE);
    printf("device     %s (%s)\n", info.name, info.kind);

    return done(hillshade_kernels_create(program->context, &program->kernels), "compiling the kernel") &&
           done(ferry_float_create(program->context, count, &height_options, &program->height),
                "creating the heights") &&
           done(ferry_float_create(program->context, count, &shade_options, &program->shade), "creating the shades");
}

/*
 * A copy into a buffer writes at the place where the range is current, and a new buffer is current
 * nowhere. An overwrite scope makes the device current, so that the heights need no replica on the host.
 */
static ferry_status
claim_on_device(ferry_float_buffer buffer, ferry_stream *stream)
{
    ferry_scope scope;
    float *unused;
    ferry_status status = ferry_float_overwrite_device(buffer, stream, &scope, &unused);
    return status == FERRY_OK ? ferry_scope_close(&scope) : status;
}

/* Copies heights of any type to the device, converted to float. Rounds a height that a float cannot hold. */
static ferry_status
copy_heights(ferry_float_buffer height, enum npy_type type, const void *values, size_t count)
{
    const ferry_convert_policy policy = FERRY_CONVERT_SATURATE;
    switch (type) {
    case NPY_INT8: return ferry_float_copy_from_int8(height, 0, count, values, policy, NULL);
    case NPY_UINT8: return ferry_float_copy_from_byte(height, 0, count, values, policy, NULL);
    case NPY_INT16: return ferry_float_copy_from_int16(height, 0, count, values, policy, NULL);
    case NPY_UINT16: return ferry_float_copy_from_uint16(height, 0, count, values, policy, NULL);
    case NPY_INT32: return ferry_float_copy_from_int(height, 0, count, values, policy, NULL);
    case NPY_UINT32: return ferry_float_copy_from_uint32(height, 0, count, values, policy, NULL);
    case NPY_INT64: return ferry_float_copy_from_int64(height, 0, count, values, policy, NULL);
    case NPY_UINT64: return ferry_float_copy_from_uint64(height, 0, count, values, policy, NULL);
    case NPY_FLOAT16: return ferry_float_copy_from_half(height, 0, count, values, policy, NULL);
    case NPY_FLOAT32: return ferry_float_copy_from(height, 0, count, values, NULL);
    case NPY_FLOAT64: return ferry_float_copy_from_double(height, 0, count, values, policy, NULL);
    }
    return FERRY_ERROR_INVALID_ARGUMENT;
}

static bool
upload(struct program *program)
{
    const struct npy_grid *grid = &program->grid;
    if (!done(claim_on_device(program->height, program->stream), "taking memory for the heights"))
        return false;
    return done(copy_heights(program->height, grid->type, grid->values, grid->rows * grid->columns),
                "uploading the heights");
}

static bool
shade(struct program *program)
{
    const double radians = acos(-1.0) / 180.0;
    const struct options *options = &program->options;
    float azimuth = (float)(options->azimuth * radians), altitude = (float)(options->altitude * radians);
    /* Heights to slope. */
    float scale_east = (float)(options->factor / (8.0 * options->cell_width));
    float scale_north = (float)(options->factor / (8.0 * options->cell_height));
    /* The next step also waits. Waiting here separates the kernel's time from the download's. */
    return done(hillshade_shade(&program->kernels, program->grid.rows, program->grid.columns, NULL, program->stream,
                                program->height, program->shade, scale_east, scale_north,
                                cosf(altitude) * sinf(azimuth), cosf(altitude) * cosf(azimuth), sinf(altitude)),
                "launching the kernel") &&
           done(ferry_stream_synchronize(program->stream), "running the kernel");
}

/* One step of the pen: it reads the shades of its rows and raises their heights, and the ground is shaded again. */
static ferry_status
draw_step(struct program *program, size_t step, size_t steps)
{
    FERRY_SCOPED(ferry_scope_close) ferry_scope shades_scope = {0};
    FERRY_SCOPED(ferry_scope_close) ferry_scope heights_scope = {0};
    const struct npy_grid *grid = &program->grid;
    struct pen_cells cells = pen_at(grid->rows, grid->columns, step, steps);
    const float *shades;
    float *heights;
    FERRY_CHECK(ferry_float_read_host_range(program->shade, cells.first, cells.count, &shades_scope, &shades));
    FERRY_CHECK(ferry_float_update_host_range(program->height, cells.first, cells.count, &heights_scope, &heights));
    pen_draw(cells, grid->columns, step, steps, shades, heights);
    return FERRY_OK;
}

static bool
draw(struct program *program)
{
    size_t steps = (size_t)program->options.pen_steps;
    for (size_t step = 0; step < steps; step++)
        if (!done(draw_step(program, step, steps), "drawing") || !shade(program))
            return false;
    return true;
}

static bool
download(struct program *program)
{
    return done(ferry_float_copy_to_byte(program->shade, 0, program->grid.rows * program->grid.columns, program->grey, FERRY_CONVERT_SATURATE, NULL),
                "downloading the shades");
}

static bool
write_output(struct program *program)
{
    char message[256];
    if (write_png(program->options.output, program->grey, program->grid.rows, program->grid.columns, message,
                  sizeof(message)))
        return true;
    return complain("%s: %s", program->options.output, message);
}

/* -- transfers ------------------------------------------------------------------------------------- */

/*
 * Prints the transfers beside the least that must cross: each height once up, as a float or as the
 * file's type if that is narrower, and each shade once down as a byte. Nothing crosses when the device
 * shares the host's memory.
 */
static bool
report_bytes(struct program *program, bool coherent)
{
    ferry_transfer_stats stats;
    if (!done(ferry_context_get_transfer_stats(program->context, &stats), "asking for transfers"))
        return false;
    uint64_t count = coherent ? 0 : ferry_float_count(program->height);
    size_t height_bytes = npy_type_bytes(program->grid.type);
    if (height_bytes > sizeof(float))
        height_bytes = sizeof(float);
    if (program->options.pen_steps > 0) {
        printf("uploaded   %llu bytes\ndownloaded %llu bytes\n", (unsigned long long)stats.upload.bytes,
               (unsigned long long)stats.download.bytes);
        return true;
    }
    printf("uploaded   %llu bytes, at least %llu needed\n", (unsigned long long)stats.upload.bytes,
           (unsigned long long)count * height_bytes);
    printf("downloaded %llu bytes, at least %llu needed\n", (unsigned long long)stats.download.bytes,
           (unsigned long long)count * sizeof(uint8_t));
    return true;
}

static bool
report(struct program *program)
{
    ferry_place_info info;
    ferry_pool *pool;
    ferry_pool_stats stats;
    if (!done(ferry_context_get_place_info(program->context, DEVICE_PLACE, &info), "asking for the device") ||
        !report_bytes(program, info.coherent))
        return false;

    int place = info.coherent ? FERRY_PLACE_HOST : DEVICE_PLACE;
    if (!done(ferry_context_pool(program->context, place, FERRY_MEMORY_DEFAULT, &pool), "asking for the pool") ||
        !done(ferry_pool_get_stats(pool, &stats), "asking for the pool's statistics"))
        return false;
    printf("pool       %llu allocations, %llu hits, %llu bytes live, %llu bytes reserved at most\n",
           (unsigned long long)stats.allocations, (unsigned long long)stats.hits, (unsigned long long)stats.live_bytes,
           (unsigned long long)stats.peak_reserved_bytes);
    return fflush(stdout) == 0 || complain("cannot write the report: %s", strerror(errno));
}

static bool
run(struct program *program)
{
    static const struct {
        bool (*run)(struct program *);
        const char *name;
    } steps[] = {
        {read_input, "read"}, {open_device, "open"},  {upload, "upload"},
        {shade, "kernel"},    {draw, "pen"},          {download, "download"},
        {write_output, "write"},
    };
    double since = now_ms();
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (!steps[i].run(program))
            return false;
        lap(&since, steps[i].name);
    }
    return report(program);
}

int
main(int argc, char **argv)
{
    struct program program = {0};
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return fputs(usage_text, stdout) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
    if (!parse_arguments(argc, argv, &program.options))
        return EXIT_USAGE;

    bool ok = run(&program);
    ferry_float_destroy(&program.shade);
    ferry_float_destroy(&program.height);
    hillshade_kernels_destroy(&program.kernels);
    ferry_context_destroy(&program.context);
    free(program.grey);
    npy_free(&program.grid);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
