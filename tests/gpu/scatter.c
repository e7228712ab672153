/* SPDX-License-Identifier: MIT */
/* Tests the scatter kernel alone, so that tools such as compute-sanitizer can check it. One launch
 * of this kernel makes many small copies. The test varies their lengths and alignments. */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "src/stream/shell.h"
#include "src/transfer/scatter.h"
#include "src/transfer/scatter_cuda.h"
#include "tests/gpu/gpu.h"
#include "tests/support/copy_slots.h"

enum { PIECES = 4096, STEP = 8192, BYTES = PIECES * STEP };

struct scattered {
    ferryi_device *device;
    void *stream, *function;
    struct ferryi_scatter_entry *table;    /* pinned */
    unsigned char *source, *target, *back; /* `back` is pinned, the others are device memory */
};

/* offset_of(i) and length_of(i) describe extent i: it has length_of(i) bytes and begins
 * offset_of(i) bytes after byte i * STEP. */
static size_t
offset_of(size_t i)
{
    return i % 5 == 0 ? 0 : i % 5 == 1 ? 16 : i % 37;
}
static size_t
length_of(size_t i)
{
    return i % 3 == 0 ? STEP - offset_of(i) : i * 131 % (STEP - 64);
}

static ferry_status
scatter(const struct scattered *s, size_t pieces)
{
    for (size_t i = 0; i < pieces; i++)
        s->table[i] = (struct ferryi_scatter_entry){
            (uintptr_t)s->target + i * STEP + offset_of(i),
            (uintptr_t)s->source + (pieces - 1 - i) * STEP + offset_of(i), length_of(i)};
    void *arguments[] = {(void *)&s->table};
    const ferry_grid grid = {.blocks = {(uint32_t)pieces, 1, 1}, .threads = {128, 1, 1}};
    const size_t bytes[] = {FERRYI_LAUNCH_ADDRESS};
    const struct ferryi_launch launch = {
        .function = s->function, .grid = &grid, .arguments = arguments, .bytes = bytes, .count = 1};
    return FERRYI_CALL(s->device, launch, &launch, s->stream);
}

static bool
is_right(const struct scattered *s, const unsigned char *source, size_t pieces)
{
    for (size_t i = 0; i < pieces; i++)
        for (size_t k = 0; k < STEP; k++) {
            bool inside = k >= offset_of(i) && k < offset_of(i) + length_of(i);
            if (s->back[i * STEP + k] != (inside ? source[(pieces - 1 - i) * STEP + k] : 0x5a))
                return false;
        }
    return true;
}

static bool
run(const struct scattered *s, size_t pieces)
{
    unsigned char *source = malloc(BYTES);
    size_t bytes = pieces * STEP;
    if (!source)
        return false;
    for (size_t i = 0; i < bytes; i++)
        source[i] = (unsigned char)(i * 2654435761u >> 13);
    memcpy(s->back, source, bytes);
    bool ok =
        FERRYI_CALL(s->device, copy_upload, s->source, s->back, bytes, s->stream) == FERRY_OK &&
        FERRYI_CALL(s->device, fill, s->target, 0x5a, 1, bytes, s->stream) == FERRY_OK &&
        scatter(s, pieces) == FERRY_OK &&
        FERRYI_CALL(s->device, copy_download, s->back, s->target, bytes, s->stream) == FERRY_OK &&
        FERRYI_CALL(s->device, stream_synchronize, s->stream) == FERRY_OK;
    if (!ok)
        bench_failed("scattering");
    else if (!(ok = is_right(s, source, pieces)))
        fprintf(stderr, "scatter: wrong bytes\n");
    free(source);
    return ok;
}

static void
scatter_body(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    const struct ferryi_scatter_entry *entries =
        *(const struct ferryi_scatter_entry **)parameters[0];
    (void)block;
    for (unsigned i = 0; i < grid[0]; i++)
        memcpy((void *)(uintptr_t)entries[i].target, (const void *)(uintptr_t)entries[i].source,
               entries[i].bytes);
}

int
main(void)
{
    static struct scattered s;
    void *module;
    gpu_give_kernel("ferry_scatter", scatter_body, 1, (size_t[]){sizeof(void *)});
    ferry_context *context = bench_context(3 * (size_t)BYTES);
    if (!context)
        return EXIT_FAILURE;
    s.device = context->devices[1];
    if (s.device->properties.language != FERRY_LANGUAGE_CUDA) {
        ferry_context_destroy(&context);
        return 77;
    }
    bool ok =
        FERRYI_CALL(s.device, stream_create, &s.stream) == FERRY_OK &&
        FERRYI_CALL(s.device, code_load, ferryi_scatter_cuda, sizeof(ferryi_scatter_cuda),
                    &module) == FERRY_OK &&
        FERRYI_CALL(s.device, code_function, module, "ferry_scatter", &s.function) == FERRY_OK &&
        FERRYI_CALL(s.device, memory_alloc, FERRY_MEMORY_PINNED, PIECES * sizeof(*s.table),
                    (void **)&s.table) == FERRY_OK &&
        FERRYI_CALL(s.device, memory_alloc, FERRY_MEMORY_PINNED, BYTES, (void **)&s.back) ==
            FERRY_OK &&
        FERRYI_CALL(s.device, memory_alloc, FERRY_MEMORY_DEVICE, BYTES, (void **)&s.source) ==
            FERRY_OK &&
        FERRYI_CALL(s.device, memory_alloc, FERRY_MEMORY_DEVICE, BYTES, (void **)&s.target) ==
            FERRY_OK;
    if (!ok)
        bench_failed("preparing");
    for (size_t pieces = 1; pieces <= PIECES && ok; pieces *= 8)
        ok = run(&s, pieces);
    FERRYI_CALL(s.device, memory_free, FERRY_MEMORY_DEVICE, s.source);
    FERRYI_CALL(s.device, memory_free, FERRY_MEMORY_DEVICE, s.target);
    FERRYI_CALL(s.device, memory_free, FERRY_MEMORY_PINNED, s.back);
    FERRYI_CALL(s.device, memory_free, FERRY_MEMORY_PINNED, s.table);
    ferry_context_destroy(&context);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
