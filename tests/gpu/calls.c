/* SPDX-License-Identifier: MIT */
/* Measures the cost of each CUDA driver call that Ferry makes, in one thread and in four threads at
 * once. The cost of a frequent library call is a sum of such costs. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "src/device/cuda/cuda_device.h"
#include "src/stream/shell.h"
#include "tests/gpu/gpu.h"

enum { ROUNDS = 9, THREADS_MOST = 4, KIB = 1 << 10, MIB = 1 << 20 };

/* The driver objects that one thread uses, and the objects that all threads share. */
struct world {
    const struct ferryi_cuda_driver *driver;
    ferryi_cu_context context;
    ferryi_cu_device device;
    ferryi_cu_stream stream;
    ferryi_cu_event event;
    ferryi_cu_pointer memory;
    ferryi_cu_function function;
    void *pinned, *pageable;
    ferryi_cu_result failed; /* the first failed result; 0: none */
    int (*current)(ferryi_cu_context *out);
};

#define CALL(name, ...) note(w, w->driver->name(__VA_ARGS__))

static void
note(struct world *w, ferryi_cu_result result)
{
    if (result && result != FERRYI_CUDA_ERROR_NOT_READY && !w->failed)
        w->failed = result;
}

static void
push_pop(struct world *w)
{
    ferryi_cu_context context;
    CALL(cuCtxPushCurrent_v2, w->context);
    CALL(cuCtxPopCurrent_v2, &context);
}

static void
get_current(struct world *w)
{
    ferryi_cu_context context;
    if (w->current)
        note(w, (ferryi_cu_result)w->current(&context));
}

static void
exchange(struct world *w)
{
    ferryi_cu_capture_mode mode = FERRYI_CU_STREAM_CAPTURE_MODE_RELAXED;
    if (w->driver->groups & FERRYI_CUDA_CAPTURE)
        CALL(cuThreadExchangeStreamCaptureMode, &mode);
}

static void
is_capturing(struct world *w)
{
    ferryi_cu_capture_status status;
    if (w->driver->groups & FERRYI_CUDA_CAPTURE)
        CALL(cuStreamIsCapturing, w->stream, &status);
}

static void
record(struct world *w)
{
    CALL(cuEventRecord, w->event, w->stream);
}
static void
wait_event(struct world *w)
{
    CALL(cuStreamWaitEvent, w->stream, w->event, 0);
}
static void
query(struct world *w)
{
    CALL(cuEventQuery, w->event);
}
static void
synchronize_event(struct world *w)
{
    CALL(cuEventSynchronize, w->event);
}
static void
synchronize(struct world *w)
{
    CALL(cuStreamSynchronize, w->stream);
}
static void
upload_4k(struct world *w)
{
    CALL(cuMemcpyHtoDAsync_v2, w->memory, w->pinned, 4 * KIB, w->stream);
}
static void
download_4k(struct world *w)
{
    CALL(cuMemcpyDtoHAsync_v2, w->pinned, w->memory, 4 * KIB, w->stream);
}
static void
upload_pageable_4k(struct world *w)
{
    CALL(cuMemcpyHtoDAsync_v2, w->memory, w->pageable, 4 * KIB, w->stream);
}
static void
fill(struct world *w)
{
    CALL(cuMemsetD32Async, w->memory, 0, KIB, w->stream);
}

static void
upload_1m(struct world *w)
{
    CALL(cuMemcpyHtoDAsync_v2, w->memory, w->pinned, MIB, w->stream);
    synchronize(w);
}

static void
upload_pageable_1m(struct world *w)
{
    CALL(cuMemcpyHtoDAsync_v2, w->memory, w->pageable, MIB, w->stream);
    synchronize(w);
}

static void
launch(struct world *w)
{
    CALL(cuLaunchKernel, w->function, 1, 1, 1, 32, 1, 1, 0, w->stream, NULL, NULL);
}

static void
alloc_free(struct world *w, size_t bytes)
{
    ferryi_cu_pointer memory = 0;
    CALL(cuMemAlloc_v2, &memory, bytes);
    if (memory)
        CALL(cuMemFree_v2, memory);
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
    CALL(cuMemHostAlloc, &memory, 2 * MIB, FERRYI_CU_MEMHOSTALLOC_PORTABLE);
    if (memory)
        CALL(cuMemFreeHost, memory);
}

static void
register_1m(struct world *w)
{
    CALL(cuMemHostRegister_v2, w->pageable, MIB, FERRYI_CU_MEMHOSTREGISTER_PORTABLE);
    CALL(cuMemHostUnregister, w->pageable);
}

static void
retain(struct world *w)
{
    ferryi_cu_context context;
    CALL(cuDevicePrimaryCtxRetain, &context, w->device);
    CALL(cuDevicePrimaryCtxRelease_v2, w->device);
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
    ferryi_cu_context context;
    double rounds[ROUNDS];
    CALL(cuCtxPushCurrent_v2, w->context);
    for (int round = 0; round < task->rounds; round++) {
        double begun = bench_now_ns();
        for (int i = 0; i < task->count; i++)
            task->call->run(w);
        rounds[round] = (bench_now_ns() - begun) / task->count;
        CALL(cuStreamSynchronize, w->stream);
    }
    CALL(cuCtxPopCurrent_v2, &context);
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
world_open(struct world *w, const struct ferryi_cuda_device *cuda, ferryi_cu_function function)
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
    CALL(cuStreamCreate, &w->stream, FERRYI_CU_STREAM_NON_BLOCKING);
    CALL(cuEventCreate, &w->event, FERRYI_CU_EVENT_DISABLE_TIMING);
    CALL(cuMemAlloc_v2, &w->memory, MIB);
    CALL(cuMemHostAlloc, &w->pinned, MIB, FERRYI_CU_MEMHOSTALLOC_PORTABLE);
    return w->failed == 0;
}

static void
world_close(struct world *w)
{
    CALL(cuStreamSynchronize, w->stream);
    CALL(cuStreamDestroy_v2, w->stream);
    CALL(cuEventDestroy_v2, w->event);
    CALL(cuMemFree_v2, w->memory);
    CALL(cuMemFreeHost, w->pinned);
    free(w->pageable);
}

static bool
measure_calls(ferry_context *context, struct bench_report *report, bool quick)
{
    static struct world worlds[THREADS_MOST];
    ferryi_device *device = context->devices[1];
    const struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    struct world *w = &worlds[0];
    ferryi_cu_module module;
    ferryi_cu_function function;
    ferryi_cu_context popped;
    if (strcmp(device->kind, "cuda") != 0) {
        fprintf(stderr, "calls: the device is no CUDA device\n");
        return false;
    }
    *w = (struct world){.driver = cuda->driver};
    CALL(cuCtxPushCurrent_v2, cuda->context);
    CALL(cuModuleLoadDataEx, &module, nothing, 0, NULL, NULL);
    if (!w->failed)
        CALL(cuModuleGetFunction, &function, module, "nothing");
    bool ok = !w->failed;
    for (int i = 0; i < THREADS_MOST && ok; i++)
        ok = world_open(&worlds[i], cuda, function);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]) && ok; i++)
        for (int threads = 1; threads <= THREADS_MOST; threads += THREADS_MOST - 1)
            measure(report, worlds, &calls[i], threads, quick);
    for (int i = 0; i < THREADS_MOST && ok; i++)
        world_close(&worlds[i]);
    CALL(cuCtxPopCurrent_v2, &popped);
    return ok;
}

int
main(int argc, char **argv)
{
    gpu_give_kernel("nothing", run_nothing, 0, NULL);
    return bench_main(argc, argv, "calls", 0, measure_calls);
}
