/* SPDX-License-Identifier: MIT */
#include "call_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/byte.h>
#include <ferry/double_convert.h>

#include "current_context.h"
#include "tests/support/convert_kernels.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Sizes and numbers of rounds of the benchmark cases. The first rounds warm up and are not counted.
 * They create the events that the counted rounds reuse. */
enum {
    WARM_ROUNDS = 40,
    COUNTED_ROUNDS = 12,
    LONG_WARM_ROUNDS = 8,
    LONG_COUNTED_ROUNDS = 4,
    MISSES = WARM_ROUNDS + COUNTED_ROUNDS,
    DIRTY_EXTENTS = 1000,
    GRAPH_LAUNCHES = 20,
    BATCH = 4096
};

struct call_world {
    struct fakecuda fake;
    struct current_context current;
    ferry_context *context;
    ferry_stream *stream, *other;
    ferry_kernel *kernel;
    ferry_graph *graph;
    ferry_byte_buffer buffers[3];
    ferry_double_buffer doubles;
    float *floats;
    unsigned char *bytes;
    ferry_copy_region *regions;
    ferry_pool *pool;
    ferry_block *blocks[MISSES];
    size_t block_count;
};

static bool
failed(const char *what)
{
    fprintf(stderr, "calls: %s: %s\n", what, ferry_last_error());
    return false;
}

/* -- steps of the rounds ----------------------------------------------------------------------- */

static bool
create(struct call_world *world, size_t index, size_t bytes, ferry_memory_kind memory)
{
    const ferry_buffer_options options = {.memory = memory};
    return ferry_byte_create(world->context, bytes, &options, &world->buffers[index]) == FERRY_OK ||
           failed("create a buffer");
}

static bool
write_host(ferry_byte_buffer buffer)
{
    ferry_scope scope;
    unsigned char *memory;
    if (ferry_byte_overwrite_host(buffer, &scope, &memory) != FERRY_OK)
        return failed("write on the host");
    memset(memory, 1, ferry_byte_count(buffer));
    return ferry_scope_close(&scope) == FERRY_OK || failed("close a host scope");
}

static bool
read_host(ferry_byte_buffer buffer)
{
    ferry_scope scope;
    const unsigned char *memory;
    return (ferry_byte_read_host(buffer, &scope, &memory) == FERRY_OK &&
            ferry_scope_close(&scope) == FERRY_OK) ||
           failed("read on the host");
}

static bool
read_device(ferry_byte_buffer buffer, ferry_stream *stream)
{
    ferry_scope scope;
    const unsigned char *memory;
    return (ferry_byte_read_device(buffer, stream, &scope, &memory) == FERRY_OK &&
            ferry_scope_close(&scope) == FERRY_OK) ||
           failed("read on the device");
}

static bool
write_device(ferry_byte_buffer buffer, ferry_stream *stream)
{
    ferry_scope scope;
    unsigned char *memory;
    return (ferry_byte_overwrite_device(buffer, stream, &scope, &memory) == FERRY_OK &&
            ferry_scope_close(&scope) == FERRY_OK) ||
           failed("write on the device");
}

static bool
launch(struct call_world *world, const ferry_byte_buffer *buffers, uint32_t shared_bytes)
{
    ferry_argument arguments[3];
    ferry_grid grid = ferry_grid_for(256, 256);
    for (size_t i = 0; i < 3; i++)
        arguments[i] = ferry_byte_argument(buffers[i]);
    grid.shared_bytes = shared_bytes;
    return ferry_kernel_launch(world->kernel, grid, world->stream, arguments, 3) == FERRY_OK ||
           failed("launch a kernel");
}

/* -- the cases: preparation and one round ------------------------------------------------------ */

static bool
begin_hit(struct call_world *world)
{
    return create(world, 0, 4 * KIB, FERRY_MEMORY_DEFAULT) &&
           write_device(world->buffers[0], world->stream);
}

static bool
hit(struct call_world *world)
{
    return read_device(world->buffers[0], world->stream) &&
           write_device(world->buffers[0], world->stream);
}

static bool
begin_pool(struct call_world *world)
{
    return ferry_context_pool(world->context, 1, FERRY_MEMORY_DEVICE, &world->pool) == FERRY_OK ||
           failed("find the pool");
}

static bool
pool_hit(struct call_world *world)
{
    ferry_block *block;
    return (ferry_pool_allocate(world->pool, 8 * MIB, world->stream, &block) == FERRY_OK &&
            ferry_block_free(&block, world->stream) == FERRY_OK) ||
           failed("allocate and free");
}

/* Allocates a block and does not free it, so that the next allocation also finds no free block in
 * the pool. */
static bool
pool_miss(struct call_world *world)
{
    return ferry_pool_allocate(world->pool, 8 * MIB, world->stream,
                               &world->blocks[world->block_count++]) == FERRY_OK ||
           failed("allocate");
}

static bool
begin_launch(struct call_world *world)
{
    bool ok = true;
    for (size_t i = 0; i < 3 && ok; i++)
        ok = create(world, i, 4 * KIB, FERRY_MEMORY_DEFAULT);
    return ok;
}

static bool
launch_hits(struct call_world *world)
{
    return launch(world, world->buffers, 0);
}

static bool
launch_shared(struct call_world *world)
{
    return launch(world, world->buffers, 100 << 10);
}

static bool
launch_many(struct call_world *world)
{
    bool ok = true;
    for (int i = 0; i < GRAPH_LAUNCHES && ok; i++)
        ok = launch_hits(world);
    return ok;
}

/* Records the launches of launch_many(). */
static bool
begin_graph(struct call_world *world)
{
    return (begin_launch(world) &&
            ferry_graph_begin(world->stream, NULL, &world->graph) == FERRY_OK &&
            launch_many(world) && ferry_graph_end(world->graph) == FERRY_OK) ||
           failed("record a graph");
}

static bool
replay(struct call_world *world)
{
    return ferry_graph_launch(world->graph, world->stream) == FERRY_OK || failed("launch a graph");
}

static bool
begin_pinned(struct call_world *world)
{
    return create(world, 0, 4 * KIB, FERRY_MEMORY_PINNED);
}

static bool
begin_pageable(struct call_world *world)
{
    return create(world, 0, MIB, FERRY_MEMORY_PAGEABLE);
}

static bool
begin_large(struct call_world *world)
{
    return create(world, 0, 64 * MIB, FERRY_MEMORY_PAGEABLE);
}

static bool
upload(struct call_world *world)
{
    return write_host(world->buffers[0]) && read_device(world->buffers[0], world->stream);
}

static bool
download(struct call_world *world)
{
    return write_device(world->buffers[0], world->stream) && read_host(world->buffers[0]);
}

static bool
cycle(struct call_world *world)
{
    const ferry_byte_buffer all[] = {world->buffers[0], world->buffers[0], world->buffers[0]};
    return write_host(world->buffers[0]) && launch(world, all, 0) && read_host(world->buffers[0]);
}

static bool
temporary(struct call_world *world)
{
    bool ok = create(world, 0, 64 * KIB, FERRY_MEMORY_DEFAULT) &&
              write_device(world->buffers[0], world->stream);
    ferry_byte_destroy(&world->buffers[0]);
    return ok;
}

/* Writes the buffer on the device. Uses two streams alternately, so each write must be ordered
 * after a write on the other stream. */
static bool
hand_over(struct call_world *world)
{
    ferry_stream *stream = world->stream;
    world->stream = world->other;
    world->other = stream;
    return write_device(world->buffers[0], stream);
}

static bool
hand_over_and_back(struct call_world *world)
{
    return hand_over(world) && hand_over(world);
}

/* Prepares a batch of copies. The ranges of the copies are not adjacent, so the library cannot join
 * two copies. */
static bool
begin_batch(struct call_world *world)
{
    const size_t stride = 4 * KIB + 64;
    world->bytes = calloc(BATCH, stride);
    world->regions = calloc(BATCH, sizeof(*world->regions));
    if (!world->bytes || !world->regions)
        return failed("no memory");
    if (!create(world, 0, BATCH * stride, FERRY_MEMORY_DEFAULT) ||
        !write_device(world->buffers[0], world->stream))
        return false;
    for (size_t i = 0; i < BATCH; i++) {
        size_t at = i * 1021 % BATCH * stride;
        world->regions[i] =
            ferry_byte_region_from(world->buffers[0], at, 4 * KIB, world->bytes + at);
    }
    return true;
}

static bool
batch(struct call_world *world)
{
    return ferry_copy(world->regions, BATCH, NULL) == FERRY_OK || failed("copy a batch");
}

static bool
begin_conversion(struct call_world *world)
{
    ferry_scope scope;
    double *memory;
    const size_t count = 8 * MIB / sizeof(float);
    world->floats = calloc(count, sizeof(float));
    if (!world->floats ||
        ferry_double_create(world->context, count, NULL, &world->doubles) != FERRY_OK ||
        ferry_double_overwrite_device(world->doubles, world->stream, &scope, &memory) != FERRY_OK ||
        ferry_scope_close(&scope) != FERRY_OK)
        return failed("create a buffer of double");
    return true;
}

static bool
convert(struct call_world *world)
{
    return ferry_double_copy_from_float(world->doubles, 0, 8 * MIB / sizeof(float), world->floats,
                                        FERRY_CONVERT_SATURATE, NULL) == FERRY_OK ||
           failed("convert");
}

static bool
begin_extents(struct call_world *world)
{
    return create(world, 0, DIRTY_EXTENTS * 8 * KIB, FERRY_MEMORY_PAGEABLE) &&
           write_device(world->buffers[0], world->stream);
}

/* Writes many separate extents, then reads the buffer on the device. The gaps between the extents
 * are so large that the library does not join two extents into one transfer. */
static bool
extents(struct call_world *world)
{
    bool ok = true;
    for (size_t i = 0; i < DIRTY_EXTENTS && ok; i++) {
        ferry_scope scope;
        unsigned char *memory;
        ok = ferry_byte_overwrite_host_range(world->buffers[0], i * 8 * KIB, 64, &scope, &memory) ==
                 FERRY_OK &&
             ferry_scope_close(&scope) == FERRY_OK;
    }
    return ok ? read_device(world->buffers[0], world->stream) : failed("write extents");
}

const struct call_case call_cases[] = {
    {"hit", 0, 0},
    {"pool/hit", 0, 0},
    {"pool/miss", 2, 3},     /* Two of the driver calls set and restore the relaxed capture mode.
                                Without this mode, an allocation fails while another thread captures a
                                stream, and the allocation invalidates that capture. */
    {"launch/3_hits", 2, 2}, /* One of the driver calls asks whether the stream is being captured:
                                a kernel in a graph must stay loaded. */
    {"launch/3_hits/100KiB_shared", 2, 2},
    {"graph/20_launches", 1, 2}, /* One by one, these launches make 40 calls. The second call asks
                                    whether the stream is being captured. */
    {"upload/4KiB/pinned", 6, 6},
    {"upload/1MiB/pageable", 13, 14}, /* 9.5 to 10 calls, and four more for waits, which occur if
                                         the thread that copies for the fake driver is slower than
                                         the threads that fill the staging ring. */
    /* Long transfers have parts of 256 KiB, each of which costs a copy, and in a download an event
     * and a wait. Larger parts cost fewer calls and more time: the device has nothing to copy until
     * the first part is filled, and the threads have nothing to do while it copies the last one. */
    {"upload/64MiB/pageable", 360, 400},
    {"download/1MiB/pageable", -1, 18},
    {"cycle/1MiB/pageable", 24, 26},
    {"temporary/64KiB", 3, 3},
    {"hand_over", 4, 4},
    {"hand_over/and_back", -1, 8},
    /* Batches fill chunks of 512 KiB, because a ring of larger ones would page-lock more than
     * 16 MiB. */
    {"batch/4096x4KiB/pageable", 50, 54},
    {"convert/8MiB", 48, 50},
    {"upload/1000x64B/pageable", 16, 16},
};
const size_t call_case_count = sizeof(call_cases) / sizeof(call_cases[0]);

static const struct {
    bool (*begin)(struct call_world *world); /* NULL if the case needs no preparation */
    bool (*round)(struct call_world *world);
} steps[] = {
    {begin_hit, hit},
    {begin_pool, pool_hit},
    {begin_pool, pool_miss},
    {begin_launch, launch_hits},
    {begin_launch, launch_shared},
    {begin_graph, replay},
    {begin_pinned, upload},
    {begin_pageable, upload},
    {begin_large, upload},
    {begin_pageable, download},
    {begin_pageable, cycle},
    {NULL, temporary},
    {begin_hit, hand_over},
    {begin_hit, hand_over_and_back},
    {begin_batch, batch},
    {begin_conversion, convert},
    {begin_extents, extents},
};
_Static_assert(sizeof(steps) / sizeof(steps[0]) == sizeof(call_cases) / sizeof(call_cases[0]),
               "each case has its steps");

/* -- the world --------------------------------------------------------------------------------- */

static void
run_nothing(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)parameters, (void)grid, (void)block;
}

static bool
create_kernel(struct call_world *world)
{
    static const char image[] =
        ".version 6.0\n.target sm_50\n.address_size 64\n"
        ".visible .entry calls(.param .u64 a, .param .u64 b, .param .u64 c)\n{\nret;\n}\n";
    static const size_t bytes[] = {sizeof(void *), sizeof(void *), sizeof(void *)};
    const ferry_parameter parameters[] = {
        {.element = ferry_byte_element(), .access = FERRY_UPDATE},
        {.element = ferry_byte_element(), .access = FERRY_UPDATE},
        {.element = ferry_byte_element(), .access = FERRY_UPDATE}};
    const ferry_kernel_code code = {
        .kind = FERRY_CODE_CUDA_IMAGE, .code = image, .bytes = sizeof(image)};
    const ferry_kernel_source source = {.name = "calls",
                                        .codes = &code,
                                        .code_count = 1,
                                        .parameters = parameters,
                                        .parameter_count = 3};
    world->fake.fakecuda_register_kernel("calls", run_nothing, 3, bytes);
    return ferry_kernel_create(world->context, &source, &world->kernel) == FERRY_OK ||
           failed("create a kernel");
}

struct call_world *
call_world_open(bool current)
{
    const ferry_context_options options = {.devices = "cuda:0", .pin_after = FERRY_PIN_NEVER};
    struct call_world *world = calloc(1, sizeof(*world));
    if (!world)
        return NULL;
    bool ok = fakecuda_find_driver(&world->fake) || failed("FERRY_CUDA_LIBRARY names no fakecuda");
    convert_kernels_register();
    ok = ok &&
         (ferry_context_create(&options, &world->context) == FERRY_OK || failed("open the device"));
    ok = ok && (ferry_stream_create(world->context, 1, &world->stream) == FERRY_OK ||
                failed("create a stream"));
    ok = ok && (ferry_stream_create(world->context, 1, &world->other) == FERRY_OK ||
                failed("create a stream"));
    ok = ok && create_kernel(world) && (!current || current_context_push(&world->current));
    if (ok)
        return world;
    call_world_close(world);
    return NULL;
}

void
call_world_close(struct call_world *world)
{
    ferry_kernel_destroy(&world->kernel);
    ferry_stream_destroy(&world->stream);
    ferry_stream_destroy(&world->other);
    ferry_context_destroy(&world->context);
    current_context_pop(&world->current);
    free(world);
}

/* -- counting ---------------------------------------------------------------------------------- */

static void
end_case(struct call_world *world)
{
    ferry_graph_destroy(&world->graph);
    while (world->block_count > 0)
        if (ferry_block_free(&world->blocks[--world->block_count], world->stream) != FERRY_OK)
            failed("free a block");
    for (size_t i = 0; i < 3; i++)
        ferry_byte_destroy(&world->buffers[i]);
    ferry_double_destroy(&world->doubles);
    free(world->floats);
    free(world->bytes);
    free(world->regions);
    world->floats = NULL;
    world->bytes = NULL;
    world->regions = NULL;
}

static bool
run_rounds(struct call_world *world, bool (*round)(struct call_world *world), int count)
{
    bool ok = true;
    for (int i = 0; i < count && ok; i++)
        ok = round(world);
    return ok;
}

bool
call_case_count_calls(struct call_world *world, size_t index, struct call_counts *out)
{
    const struct fakecuda *fake = &world->fake;
    const bool is_long = steps[index].begin == begin_large;
    const int warm = is_long ? LONG_WARM_ROUNDS : WARM_ROUNDS,
              counted = is_long ? LONG_COUNTED_ROUNDS : COUNTED_ROUNDS;
    bool ok = (!steps[index].begin || steps[index].begin(world)) &&
              run_rounds(world, steps[index].round, warm);
    uint64_t calls = fake->fakecuda_calls(),
             get_current = fake->fakecuda_calls_of("cuCtxGetCurrent");
    ok = ok && run_rounds(world, steps[index].round, counted);
    get_current = fake->fakecuda_calls_of("cuCtxGetCurrent") - get_current;
    calls = fake->fakecuda_calls() - calls - get_current;
    *out = (struct call_counts){(double)calls / counted, (double)get_current / counted};
    end_case(world);
    return ok;
}
