/* SPDX-License-Identifier: MIT */
/* Implements the graph functions of a GPU, by the capture of a stream. The capture is relaxed: no
 * call of another thread is forbidden meanwhile, and any thread may end it. */
#include "src/device/gpu/gpu_device.h"

static ferry_status
check_driver(const struct ferryi_gpu_device *gpu)
{
    return gpu->driver->groups & FERRYI_GPU_GRAPH
               ? FERRY_OK
               : ferryi_fail(FERRY_ERROR_UNSUPPORTED, "the driver of %s has no graphs", gpu->name);
}

ferry_status
ferryi_gpu_capture_begin(ferryi_device *device, void *stream)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    FERRYI_OR_RETURN(check_driver(gpu));
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, capture_begin, stream,
                   FERRYI_GPU_STREAM_CAPTURE_MODE_RELAXED);
    return FERRYI_GPU_TELL(st, "begin to capture a stream of %s", gpu->name);
}

/* Makes a graph that can be launched of one that was captured. The driver then no longer needs the
 * captured one. */
static ferry_status
instantiate(struct ferryi_gpu_device *gpu, ferryi_gpu_graph graph, void **out_graph)
{
    ferryi_gpu_graph_exec exec = NULL;
    ferry_status st = FERRY_OK;
    if (out_graph)
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, graph_instantiate, &exec, graph, 0);
    FERRYI_KEEP_ERROR(kept);
    ferry_status gone;
    FERRYI_GPU_RUN(gone, gpu, FERRYI_GPU_ASIDE, graph_destroy, graph);
    if (gone != FERRY_OK)
        ferryi_log(&gpu->log, FERRY_LOG_WARNING, "destroy a captured graph of %s: %s", gpu->name,
                   ferry_last_error());
    if (out_graph)
        *out_graph = exec;
    return st;
}

ferry_status
ferryi_gpu_capture_end(ferryi_device *device, void *stream, void **out_graph)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferryi_gpu_graph graph = NULL;
    ferry_status st;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, capture_end, stream, &graph);
    if (st == FERRY_OK)
        st = instantiate(gpu, graph, out_graph);
    return FERRYI_GPU_TELL(st, "end the capture of a stream of %s", gpu->name);
}

ferry_status
ferryi_gpu_graph_launch(ferryi_device *device, void *graph, void *stream)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_STREAM_WORK, graph_launch, graph, stream);
    return FERRYI_GPU_TELL(st, "launch a graph on %s", gpu->name);
}

ferry_status
ferryi_gpu_graph_destroy(ferryi_device *device, void *graph)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, graph_exec_destroy, graph);
    return FERRYI_GPU_TELL(st, "destroy a graph of %s", gpu->name);
}
