/* SPDX-License-Identifier: MIT */
#include "cost_matrix.h"

#include <stdio.h>
#include <stdlib.h>

#include <ferry/double.h>
#include <ferry/float.h>

#include "current_context.h"
#include "tests/support/convert_kernels.h"
#include "tests/support/fakecuda.h"
#include "tests/support/folder.h"

enum { WARM_ROUNDS = 6, COUNTED_ROUNDS = 3 };

/* Sizes in elements. The dirty part of the buffer is `rows` stretches of `columns` elements, which
 * begin `pitch` elements apart. */
struct sizes {
    size_t rows, columns, pitch;
};

struct world {
    struct fakecuda fake;
    struct sizes sizes;
    bool by_rows; /* copies get a region with rows instead of one range */
    size_t count; /* number of elements of the buffer */
    ferry_context *context;
    ferry_stream *stream;
    ferry_kernel *kernel;
    struct current_context current;
    ferry_float_buffer buffer, other;
    float *wrapped; /* the memory that `buffer` wraps, or NULL */
    double *memory; /* memory of the caller, with room for `count` elements of any type */
    char folder[FOLDER_PATH_BYTES];
    char path[FOLDER_PATH_BYTES + 8]; /* of a file in the folder */
};

static bool
failed(const char *what)
{
    fprintf(stderr, "cost: %s: %s\n", what, ferry_last_error());
    return false;
}

static bool
done(ferry_status status, const char *what)
{
    return status == FERRY_OK || failed(what);
}

/* -- the operations ---------------------------------------------------------------------------- */

static bool
close_scope(ferry_status opened, ferry_scope *scope)
{
    return done(opened, "open a scope") && done(ferry_scope_close(scope), "close a scope");
}

static bool
read_host(struct world *world)
{
    ferry_scope scope;
    const float *memory;
    return close_scope(ferry_float_read_host(world->buffer, &scope, &memory), &scope);
}

static bool
read_device(struct world *world)
{
    ferry_scope scope;
    const float *memory;
    return close_scope(ferry_float_read_device(world->buffer, world->stream, &scope, &memory),
                       &scope);
}

static bool
update_host(struct world *world)
{
    ferry_scope scope;
    float *memory;
    return close_scope(ferry_float_update_host(world->buffer, &scope, &memory), &scope);
}

static bool
update_device(struct world *world)
{
    ferry_scope scope;
    float *memory;
    return close_scope(ferry_float_update_device(world->buffer, world->stream, &scope, &memory),
                       &scope);
}

/* Copies one region. Its shape is that of the matrix, and its pitch the same on both sides. Buffers
 * are written at the device. */
static bool
copy(struct world *world, ferry_copy_region region)
{
    const struct sizes *sizes = &world->sizes;
    const ferry_copy_options options = {.stream = region.target.buffer ? world->stream : NULL,
                                        .convert = FERRY_CONVERT_SATURATE};
    region.count = world->by_rows ? sizes->columns : world->count;
    if (world->by_rows) {
        region.rows = sizes->rows;
        region.target.row_pitch = region.source.row_pitch = sizes->pitch;
    }
    return done(ferry_copy(&region, 1, &options), "copy");
}

static bool
copy_to(struct world *world)
{
    return copy(world, (ferry_copy_region){.source.buffer = world->buffer.raw,
                                           .target.memory = world->memory});
}

static bool
copy_from(struct world *world)
{
    return copy(world, (ferry_copy_region){.target.buffer = world->buffer.raw,
                                           .source.memory = world->memory});
}

static bool
copy_buffer(struct world *world)
{
    return copy(world, (ferry_copy_region){.source.buffer = world->buffer.raw,
                                           .target.buffer = world->other.raw});
}

static bool
convert_to(struct world *world)
{
    return copy(world, (ferry_copy_region){
                           .source.buffer = world->buffer.raw,
                           .target = {.memory = world->memory, .element = ferry_double_element()}});
}

static bool
convert_from(struct world *world)
{
    return copy(world, (ferry_copy_region){
                           .target.buffer = world->buffer.raw,
                           .source = {.memory = world->memory, .element = ferry_double_element()}});
}

static bool
fill(struct world *world)
{
    static const float value = 1;
    return copy(world, (ferry_copy_region){.target.buffer = world->buffer.raw, .value = &value});
}

static bool
store(struct world *world)
{
    return copy(
        world, (ferry_copy_region){.source.buffer = world->buffer.raw, .target.path = world->path});
}

static bool
load(struct world *world)
{
    return copy(
        world, (ferry_copy_region){.target.buffer = world->buffer.raw, .source.path = world->path});
}

static bool
evict(struct world *world)
{
    return done(ferry_float_evict(world->buffer, 1), "evict");
}

static bool
evict_for_another(struct world *world)
{
    ferry_scope scope;
    float *memory;
    return close_scope(ferry_float_overwrite_device(world->other, world->stream, &scope, &memory),
                       &scope);
}

static bool
invalidate(struct world *world)
{
    return done(ferry_float_invalidate(world->buffer, 1), "invalidate");
}

static bool
sync_to_host(struct world *world)
{
    return done(ferry_float_sync_to(world->buffer, 0, NULL), "bring to the host");
}

static bool
sync_to_device(struct world *world)
{
    return done(ferry_float_sync_to(world->buffer, 1, NULL), "bring to the device");
}

static bool
resize(struct world *world)
{
    return done(ferry_float_resize(world->buffer, world->count + 1024), "resize");
}

static bool
unwrap(struct world *world)
{
    return done(ferry_float_unwrap(&world->buffer, NULL), "unwrap");
}

static bool
launch(struct world *world)
{
    const ferry_argument argument = ferry_float_argument(world->buffer);
    return done(
        ferry_kernel_launch(world->kernel, ferry_grid_for(1, 32), world->stream, &argument, 1),
        "launch");
}

/* -- the matrix -------------------------------------------------------------------------------- */

/* Each bound is what a run showed, and 4 more for waits that occur in some runs only. The goal is
 * 60 in every cell. */
const struct cost_operation cost_operations[] = {
    {"read/host", {18, 19, 34}},
    {"read/device", {15, 16, 21}},
    {"update/host", {18, 19, 34}},
    {"update/device", {15, 16, 21}},
    {"copy_to", {16, 19, 34}},
    {"copy_from", {10, 14, 18}},
    {"copy", {9, 9, 9}},
    {"convert_to", {16, 19, 34}},
    {"convert_from", {10, 14, 18}},
    {"fill", {9, 9, 10}},
    {"store", {12, 19, 37}},
    {"load", {9, 12, 22}},
    {"evict", {18, 19, 34}},
    {"evict/automatic", {17, 20, 35}},
    {"invalidate", {18, 19, 34}},
    {"sync_to/host", {18, 19, 34}},
    {"sync_to/device", {15, 16, 21}},
    {"resize", {9, 9, 9}},
    {"unwrap", {18, 19, 34}},
    {"launch", {16, 17, 22}},
};
const size_t cost_operation_count = sizeof(cost_operations) / sizeof(cost_operations[0]);
const char *const cost_shape_names[COST_SHAPES] = {"range", "stretches", "rows"};

static const struct {
    bool (*run)(struct world *world);
    bool on_host; /* the host, not the device, makes the dirty part of the buffer dirty */
    bool spent;   /* the buffer is created anew for each round */
} steps[] = {
    {.run = read_host},
    {.run = read_device, .on_host = true},
    {.run = update_host},
    {.run = update_device, .on_host = true},
    {.run = copy_to},
    {.run = copy_from, .on_host = true},
    {.run = copy_buffer},
    {.run = convert_to},
    {.run = convert_from, .on_host = true},
    {.run = fill, .on_host = true},
    {.run = store},
    {.run = load, .on_host = true},
    {.run = evict},
    {.run = evict_for_another},
    {.run = invalidate},
    {.run = sync_to_host},
    {.run = sync_to_device, .on_host = true},
    {.run = resize, .spent = true},
    {.run = unwrap, .spent = true},
    {.run = launch, .on_host = true},
};
_Static_assert(sizeof(steps) / sizeof(steps[0]) ==
                   sizeof(cost_operations) / sizeof(cost_operations[0]),
               "each operation has its step");

/* -- the world --------------------------------------------------------------------------------- */

static size_t
draw(unsigned *seed, size_t least, size_t most)
{
    *seed = *seed * 1103515245U + 12345U;
    return least + (*seed >> 8) % (most - least + 1);
}

static struct sizes
sizes_of(enum cost_shape shape, unsigned seed)
{
    static const struct sizes all[] = {{1, 65536, 65536}, {1000, 256, 512}, {1000, 1024, 1040}};
    struct sizes sizes = all[shape];
    if (seed == 0)
        return sizes;
    const size_t gap = sizes.pitch - sizes.columns;
    if (shape != COST_RANGE)
        sizes.rows = draw(&seed, sizes.rows / 4, sizes.rows);
    sizes.columns = draw(&seed, sizes.columns / 4, sizes.columns);
    sizes.pitch = sizes.columns + draw(&seed, gap / 2, gap);
    return sizes;
}

static void
run_nothing(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)parameters, (void)grid, (void)block;
}

static bool
create_kernel(struct world *world)
{
    static const char image[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                                ".visible .entry cost(.param .u64 a)\n{\nret;\n}\n";
    static const size_t bytes[] = {sizeof(void *)};
    const ferry_parameter parameter = {.element = ferry_float_element(), .access = FERRY_READ};
    const ferry_kernel_code code = {
        .kind = FERRY_CODE_CUDA_IMAGE, .code = image, .bytes = sizeof(image)};
    const ferry_kernel_source source = {.name = "cost",
                                        .codes = &code,
                                        .code_count = 1,
                                        .parameters = &parameter,
                                        .parameter_count = 1};
    world->fake.fakecuda_register_kernel("cost", run_nothing, 1, bytes);
    return done(ferry_kernel_create(world->context, &source, &world->kernel), "create a kernel");
}

static bool
create_buffer(struct world *world, bool wrapped)
{
    if (!wrapped)
        return done(ferry_float_create(world->context, world->count, NULL, &world->buffer),
                    "create a buffer");
    if (!world->wrapped)
        world->wrapped = calloc(world->count, sizeof(float));
    return world->wrapped && done(ferry_float_wrap_host(world->context, world->count,
                                                        world->wrapped, NULL, &world->buffer),
                                  "wrap memory");
}

/* Creates a file with a zero for each element of the buffer. */
static void
create_file(struct world *world)
{
    folder_make(world->folder);
    snprintf(world->path, sizeof(world->path), "%s/cost", world->folder);
    folder_write_file(world->path, world->memory, world->count * sizeof(float));
}

static bool
open_world(struct world *world, size_t operation)
{
    /* If the operation evicts, the device has room for one of the two buffers. */
    const bool evicts = steps[operation].run == evict_for_another;
    const size_t limit = evicts ? world->count * sizeof(float) * 3 / 2 : 0;
    const ferry_context_options options = {
        .devices = "cuda:0", .pin_after = FERRY_PIN_NEVER, .device_bytes_limit = limit};
    world->memory = calloc(world->count, sizeof(double));
    if (!world->memory || !fakecuda_find_driver(&world->fake))
        return failed("no memory, or FERRY_CUDA_LIBRARY names no fakecuda");
    convert_kernels_register();
    create_file(world);
    if (!done(ferry_context_create(&options, &world->context), "open the device") ||
        !current_context_push(&world->current))
        return false;
    world->stream = ferry_context_stream(world->context, 1);
    return done(ferry_float_create(world->context, world->count, NULL, &world->other),
                "create a buffer") &&
           (steps[operation].run != launch || create_kernel(world)) &&
           (steps[operation].spent || create_buffer(world, false));
}

static void
close_world(struct world *world)
{
    ferry_float_destroy(&world->buffer);
    ferry_float_destroy(&world->other);
    ferry_kernel_destroy(&world->kernel);
    ferry_context_destroy(&world->context);
    current_context_pop(&world->current);
    free(world->wrapped);
    free(world->memory);
    if (world->folder[0])
        folder_remove(world->folder);
}

/* -- counting ---------------------------------------------------------------------------------- */

/* Makes the whole buffer current at both places, then its dirty part at one place only. */
static bool
make_dirty(struct world *world, bool on_host)
{
    const struct sizes *sizes = &world->sizes;
    bool ok = update_host(world) && read_device(world);
    for (size_t row = 0; row < sizes->rows && ok; row++) {
        ferry_scope scope;
        float *memory;
        const size_t first = row * sizes->pitch;
        ok = close_scope(on_host ? ferry_float_overwrite_host_range(world->buffer, first,
                                                                    sizes->columns, &scope, &memory)
                                 : ferry_float_overwrite_device_range(world->buffer, first,
                                                                      sizes->columns, world->stream,
                                                                      &scope, &memory),
                         &scope);
    }
    return ok && done(ferry_stream_synchronize(world->stream), "wait for the stream");
}

static uint64_t
count_transfers(struct world *world)
{
    ferry_transfer_stats stats;
    if (ferry_context_get_transfer_stats(world->context, &stats) != FERRY_OK)
        return 0;
    return stats.upload.copies + stats.download.copies + stats.device.copies + stats.host.copies +
           stats.fill.copies;
}

static uint64_t
count_calls(const struct world *world)
{
    return world->fake.fakecuda_calls() - world->fake.fakecuda_calls_of("cuCtxGetCurrent");
}

/* Runs one round, and adds what it counts to `*out`. */
static bool
run_round(struct world *world, size_t operation, struct cost *out)
{
    const bool spent = steps[operation].spent;
    if ((spent && !create_buffer(world, steps[operation].run == unwrap)) ||
        !make_dirty(world, steps[operation].on_host))
        return false;
    const uint64_t calls = count_calls(world), transfers = count_transfers(world);
    const bool ok = steps[operation].run(world) &&
                    done(ferry_stream_synchronize(world->stream), "wait for the stream");
    out->calls += (double)(count_calls(world) - calls) / COUNTED_ROUNDS;
    out->transfers += (double)(count_transfers(world) - transfers) / COUNTED_ROUNDS;
    if (spent)
        ferry_float_destroy(&world->buffer);
    return ok;
}

bool
cost_count(size_t operation, enum cost_shape shape, unsigned seed, struct cost *out)
{
    const struct sizes sizes = sizes_of(shape, seed);
    struct world world = {.sizes = sizes,
                          .by_rows = shape == COST_ROWS,
                          .count = (sizes.rows - 1) * sizes.pitch + sizes.columns};
    struct cost warm = {0};
    bool ok = open_world(&world, operation);
    *out = (struct cost){0};
    for (int i = 0; i < WARM_ROUNDS && ok; i++)
        ok = run_round(&world, operation, &warm);
    for (int i = 0; i < COUNTED_ROUNDS && ok; i++)
        ok = run_round(&world, operation, out);
    close_world(&world);
    return ok;
}
