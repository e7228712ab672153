/* SPDX-License-Identifier: MIT */
/* Measures the cost of each CUDA driver call that Ferry makes, in one thread and in four threads at
 * once. The cost of a frequent library call is a sum of such costs. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "src/device/gpu/gpu_device.h"
#include "src/stream/shell.h"
#include "tests/gpu/gpu.h"

enum { ROUNDS = 9, THREADS_MOST = 4, KIB = 1 << 10, MIB = 1 << 20 };

/* The driver objects that one thread uses, and the objects that all threads share. */
struct world {
    const struct ferryi_gpu_driver *driver;
    ferryi_gpu_context context;
    ferryi_gpu_number device;
    ferryi_gpu_stream stream;
    ferryi_gpu_event event;
    ferryi_gpu_pointer memory;
    ferryi_gpu_function function;
    void *pinned, *pageable;
    ferryi_gpu_result failed; /* the first failed result; 0: none */
    int (*current)(ferryi_gpu_context *out);
};

#define CALL(name, ...) note(w, w->driver->name(__VA_ARGS__))

static void
note(struct world *w, ferryi_gpu_result result)
{
    if (result && result != FERRYI_GPU_ERROR_NOT_READY && !w->failed)
        w->failed = result;
}

static void
push_pop(struct world *w)
{
    ferryi_gpu_context context;
    CALL(context_push, w->context);
    CALL(context_pop, &context);
}

static void
get_current(struct world *w)
{
    ferryi_gpu_context context;
    if (w->current)
        note(w, (ferryi_gpu_result)w->current(&context));
}

static void
exchange(struct world *w)
{
    ferryi_gpu_capture_mode mode = FERRYI_GPU_STREAM_CAPTURE_MODE_RELAXED;
    if (w->driver->groups & FERRYI_GPU_CAPTURE)
        CALL(capture_mode, &mode);
}

static void
is_capturing(struct world *w)
{
    ferryi_gpu_capture_status status;
    if (w->driver->groups & FERRYI_GPU_CAPTURE)
        CALL(stream_is_capturing, w->stream, &status);
}

static void
record(struct world *w)
{
    CALL(event_record, w->event, w->stream);
}
static void
wait_event(struct world *w)
{
    CALL(stream_wait, w->stream, w->event, 0);
}
static void
query(struct world *w)
{
    CALL(event_query, w->event);
}
static void
synchronize_event(struct world *w)
{
    CALL(event_synchronize, w->event);
}
static void
synchronize(struct world *w)
{
    CALL(stream_synchronize, w->stream);
}
static void
upload_4k(struct world *w)
{
    CALL(upload, w->memory, w->pinned, 4 * KIB, w->stream);
}
static void
download_4k(struct world *w)
{
    CALL(download, w->pinned, w->memory, 4 * KIB, w->stream);
}
static void
upload_pageable_4k(struct world *w)
{
    CALL(upload, w->memory, w->pageable, 4 * KIB, w->stream);
}
static void
fill(struct world *w)
{
    CALL(fill_32, w->memory, 0, KIB, w->stream);
}

static void
upload_1m(struct world *w)
{
    CALL(upload, w->memory, w->pinned, MIB, w->stream);
    synchronize(w);
}

static void
upload_pageable_1m(struct world *w)
{
    CALL(upload, w->memory, w->pageable, MIB, w->stream);
    synchronize(w);
}

static void
launch(struct world *w)
{
    CALL(launch, w->function, 1, 1, 1, 32, 1, 1, 0, w->stream, NULL, NULL);
}

static void
alloc_free(struct world *w, size_t bytes)
{
    ferryi_gpu_pointer memory = 0;
    CALL(memory_alloc, &memory, bytes);
    if (memory)
        CALL(memory_free, memory);
}

static void
alloc_64k(struct world *w)
{
    alloc_free(w, 64 * KIB);
}
static void
alloc_8m(struct world *w)
{
    alloc_free(w, 8 * MIB);
}

static void
alloc_host_2m(struct world *w)
{
    void *memory = NULL;
    CALL(host_alloc, &memory, 2 * MIB, FERRYI_GPU_MEMHOSTALLOC_PORTABLE);
    if (memory)
        CALL(host_free, memory);
}

static void
register_1m(struct world *w)
{
    CALL(host_register, w->pageable, MIB, FERRYI_GPU_MEMHOSTREGISTER_PORTABLE);
    CALL(host_unregister, w->pageable);
}

static void
retain(struct world *w)
{
    ferryi_gpu_context context;
    CALL(context_retain, &context, w->device);
    CALL(context_release, w->device);
}

static const struct call {
    const char *name;
    void (*run)(struct world *w);
    int count; /* number of calls in a round */
} calls[] = {
    {"push+pop", push_pop, 10000},
    {"get-current", get_current, 10000},
    {"exchange-capture-mode", exchange, 10000},
    {"stream-is-capturing", is_capturing, 10000},
    {"event-record", record, 500},
    {"stream-wait-event", wait_event, 500},
    {"event-query", query, 2000},
    {"event-synchronize", synchronize_event, 2000},
    {"stream-synchronize", synchronize, 2000},
    {"upload-4KiB", upload_4k, 500},
    {"download-4KiB", download_4k, 500},
    {"upload-pageable-4KiB", upload_pageable_4k, 500},
    {"upload-1MiB+synchronize", upload_1m, 50},
    {"upload-pageable-1MiB+synchronize", upload_pageable_1m, 50},
    {"fill-4KiB", fill, 500},
    {"launch", launch, 500},
    {"alloc+free-64KiB", alloc_64k, 50},
    {"alloc+free-8MiB", alloc_8m, 20},
    {"host-alloc+free-2MiB", alloc_host_2m, 5},
    {"register+unregister-1MiB", register_1m, 10},
    {"context-retain+release", retain, 200},
};

/* -- measuring --------------------------------------------------------------------------------- */

struct task {
    struct world *world;
    const struct call *call;
    int count, rounds;
    double ns; /* duration of one call */
};

static void *
time_calls(void *argument)
{
    struct task *task = argument;
    struct world *w = task->world;
    ferryi_gpu_context context;
    double rounds[ROUNDS];
    CALL(context_push, w->context);
    for (int round = 0; round < task->rounds; round++) {
        double begun = bench_now_ns();
        for (int i = 0; i < task->count; i++)
            task->call->run(w);
        rounds[round] = (bench_now_ns() - begun) / task->count;
        CALL(stream_synchronize, w->stream);
    }
    CALL(context_pop, &context);
    task->ns = bench_median(rounds, (size_t)task->rounds);
    return NULL;
}

static void
measure(struct bench_report *report, struct world *worlds, const struct call *call, int threads,
        bool quick)
{
    struct task tasks[THREADS_MOST];
    pthread_t handles[THREADS_MOST];
    double sum = 0;
    for (int i = 0; i < threads; i++) {
        tasks[i] = (struct task){&worlds[i], call, quick ? 1 : call->count, quick ? 1 : ROUNDS, 0};
        worlds[i].failed = 0;
        if (pthread_create(&handles[i], NULL, time_calls, &tasks[i]) != 0)
            abort();
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(handles[i], NULL);
        sum += tasks[i].ns;
        if (worlds[i].failed)
            printf("# %s fails with %u\n", call->name, worlds[i].failed);
    }
    bench_report_add(report, &(struct bench_record){.case_name = call->name,
                                                    .metric = threads > 1 ? "4-threads" : "alone",
                                                    .unit = "ns/call",
                                                    .value = sum / threads});
}

static const char nothing[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n";

static void
run_nothing(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)parameters, (void)grid, (void)block;
}

static bool
world_open(struct world *w, const struct ferryi_gpu_device *cuda, ferryi_gpu_function function)
{
    const char *name = ferryi_getenv("FERRY_CUDA_LIBRARY");
    void *library = ferryi_library_open(name ? name : "libcuda.so.1", NULL, 0);
    *w = (struct world){.driver = cuda->driver,
                        .context = cuda->context,
                        .device = cuda->device,
                        .function = function};
    *(void **)&w->current = library ? ferryi_library_symbol(library, "cuCtxGetCurrent") : NULL;
    w->pageable = aligned_alloc(4 * KIB, MIB);
    if (!w->pageable)
        return false;
    memset(w->pageable, 1, MIB);
    CALL(stream_create, &w->stream, FERRYI_GPU_STREAM_NON_BLOCKING);
    CALL(event_create, &w->event, FERRYI_GPU_EVENT_DISABLE_TIMING);
    CALL(memory_alloc, &w->memory, MIB);
    CALL(host_alloc, &w->pinned, MIB, FERRYI_GPU_MEMHOSTALLOC_PORTABLE);
    return w->failed == 0;
}

static void
world_close(struct world *w)
{
    CALL(stream_synchronize, w->stream);
    CALL(stream_destroy, w->stream);
    CALL(event_destroy, w->event);
    CALL(memory_free, w->memory);
    CALL(host_free, w->pinned);
    free(w->pageable);
}

static bool
measure_calls(ferry_context *context, struct bench_report *report, bool quick)
{
    static struct world worlds[THREADS_MOST];
    ferryi_device *device = context->devices[1];
    const struct ferryi_gpu_device *cuda = ferryi_gpu_of(device);
    struct world *w = &worlds[0];
    ferryi_gpu_module module;
    ferryi_gpu_function function;
    ferryi_gpu_context popped;
    if (strcmp(device->kind, "cuda") != 0) {
        fprintf(stderr, "calls: the device is no CUDA device\n");
        return false;
    }
    *w = (struct world){.driver = cuda->driver};
    CALL(context_push, cuda->context);
    CALL(module_load, &module, nothing, 0, NULL, NULL);
    if (!w->failed)
        CALL(module_function, &function, module, "nothing");
    bool ok = !w->failed;
    for (int i = 0; i < THREADS_MOST && ok; i++)
        ok = world_open(&worlds[i], cuda, function);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]) && ok; i++)
        for (int threads = 1; threads <= THREADS_MOST; threads += THREADS_MOST - 1)
            measure(report, worlds, &calls[i], threads, quick);
    for (int i = 0; i < THREADS_MOST && ok; i++)
        world_close(&worlds[i]);
    CALL(context_pop, &popped);
    return ok;
}

int
main(int argc, char **argv)
{
    gpu_give_kernel("nothing", run_nothing, 0, NULL);
    return bench_main(argc, argv, "calls", 0, measure_calls);
}
