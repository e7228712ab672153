/* SPDX-License-Identifier: MIT */
/*
 * A part of fakecuda, the library that imitates the CUDA driver: the capture of graphs. During a
 * capture, some driver calls are refused, and some invalidate the capture. A graph is a list of the
 * work that a capture has recorded. A launch of the graph runs this work in the order of the list.
 */
#include "tests/support/fakecuda_internal.h"

#include <stdlib.h>

/* List of all graph captures that ever began. A capture stays in the list after its end, because
 * events may still refer to it. */
static struct fake_capture *captures;
static _Thread_local ferryi_gpu_capture_mode thread_mode = FERRYI_GPU_STREAM_CAPTURE_MODE_GLOBAL;

static bool
forbids(const struct fake_capture *capture)
{
    bool mine =
        capture->thread == fake_thread() && capture->mode != FERRYI_GPU_STREAM_CAPTURE_MODE_RELAXED;
    if (!capture->origin || thread_mode == FERRYI_GPU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (thread_mode == FERRYI_GPU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        return mine;
    return mine || capture->mode == FERRYI_GPU_STREAM_CAPTURE_MODE_GLOBAL;
}

/* Returns whether a capture forbids unsafe driver calls on this thread, such as loading a module.
 * Invalidates each capture that does so. */
bool
fake_capture_forbids(void)
{
    bool forbidden = false;
    for (struct fake_capture *capture = captures; capture; capture = capture->next) {
        if (!forbids(capture))
            continue;
        capture->status = FERRYI_GPU_STREAM_CAPTURE_STATUS_INVALIDATED;
        forbidden = true;
    }
    return forbidden;
}

/* Returns a queue of the context whose stream is being captured, or NULL if there is none. If
 * `blocking_only` is true, ignores the queues of non-blocking streams. */
static struct fake_queue *
captured_queue(fake_context *context, bool blocking_only)
{
    for (struct fake_queue *queue = context->queues; queue; queue = queue->next)
        if (queue->capture && (queue->blocking || !blocking_only))
            return queue;
    return NULL;
}

bool
fake_capture_of_context(fake_context *context, bool invalidate)
{
    struct fake_queue *queue = captured_queue(context, false);
    if (queue && invalidate)
        queue->capture->status = FERRYI_GPU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return queue != NULL;
}

/* Returns an error if work cannot be queued on the stream because of a capture. If the stream is
 * being captured, counts one more node of the graph. */
fake_result
fake_capture_check(struct fake_queue *queue)
{
    struct fake_queue *captured;
    if (queue->capture) {
        if (queue->capture->status == FERRYI_GPU_STREAM_CAPTURE_STATUS_INVALIDATED)
            return FERRYI_GPU_ERROR_STREAM_CAPTURE_INVALIDATED;
        queue->capture->nodes++;
        return FERRYI_GPU_SUCCESS;
    }
    if (queue == queue->context->legacy &&
        (captured = captured_queue(queue->context, true)) != NULL) {
        captured->capture->status = FERRYI_GPU_STREAM_CAPTURE_STATUS_INVALIDATED;
        return FERRYI_GPU_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return FERRYI_GPU_SUCCESS;
}

void
fake_capture_keep(struct fake_capture *capture, struct fake_work *work)
{
    if (capture->last)
        capture->last->next = work;
    else
        capture->first = work;
    capture->last = work;
}

#if FAKECUDA_GENERATION >= 12
ferryi_gpu_result
cuStreamIsCapturing(ferryi_gpu_stream stream, ferryi_gpu_capture_status *out_status)
{
    fake_context *context = NULL;
    struct fake_queue *queue;
    FAKE_BEGIN(cuStreamIsCapturing, FAKE_NEEDS_CONTEXT, &context);
    fake_result result = fake_any_queue_of(context, stream, &queue);
    if (result != FERRYI_GPU_SUCCESS)
        return fake_end(result);
    if (queue == context->legacy && captured_queue(context, true))
        return fake_end(FERRYI_GPU_ERROR_STREAM_CAPTURE_IMPLICIT);
    *out_status = queue->capture ? queue->capture->status : FERRYI_GPU_STREAM_CAPTURE_STATUS_NONE;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuThreadExchangeStreamCaptureMode(ferryi_gpu_capture_mode *mode)
{
    FAKE_BEGIN(cuThreadExchangeStreamCaptureMode, 0, NULL);
    ferryi_gpu_capture_mode before = thread_mode;
    if (*mode > FERRYI_GPU_STREAM_CAPTURE_MODE_RELAXED)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    thread_mode = *mode;
    *mode = before;
    return fake_end(FERRYI_GPU_SUCCESS);
}
#endif

/* -- controls -- */

FAKE_EXPORT int fakecuda_begin_capture(void *stream, int mode);
FAKE_EXPORT int fakecuda_end_capture(void *stream, int *out_nodes);

int
fakecuda_begin_capture(void *stream, int mode)
{
    fake_result result = FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct fake_capture *capture = calloc(1, sizeof(*capture));
    pthread_mutex_lock(&fake_lock);
    struct ferryi_gpu_stream *handle = stream;
    if (capture && fake_stream_is_live(handle) && !handle->queue->capture) {
        *capture = (struct fake_capture){.next = captures,
                                         .status = FERRYI_GPU_STREAM_CAPTURE_STATUS_ACTIVE,
                                         .mode = (ferryi_gpu_capture_mode)mode,
                                         .thread = fake_thread(),
                                         .origin = handle->queue};
        captures = handle->queue->capture = capture;
        capture = NULL;
        result = FERRYI_GPU_SUCCESS;
    }
    free(capture);
    return (int)fake_end(result);
}

int
fakecuda_end_capture(void *stream, int *out_nodes)
{
    pthread_mutex_lock(&fake_lock);
    struct ferryi_gpu_stream *handle = stream;
    struct fake_capture *capture = fake_stream_is_live(handle) ? handle->queue->capture : NULL;
    if (!capture || capture->origin != handle->queue)
        return (int)fake_end(FERRYI_GPU_ERROR_STREAM_CAPTURE_UNMATCHED);
    for (struct fake_queue *queue = handle->queue->context->queues; queue; queue = queue->next)
        if (queue->capture == capture)
            queue->capture = NULL;
    capture->origin = NULL;
    *out_nodes = capture->nodes;
    return (int)fake_end(capture->status == FERRYI_GPU_STREAM_CAPTURE_STATUS_ACTIVE
                             ? FERRYI_GPU_SUCCESS
                             : FERRYI_GPU_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* -- graphs ------------------------------------------------------------------------------------ */

#if FAKECUDA_GENERATION >= 12
/* Returns the capture that created the graph, or NULL if the handle is not such a graph. */
static struct fake_capture *
graph_of(const void *graph)
{
    struct fake_capture *capture = captures;
    while (capture && capture != graph)
        capture = capture->next;
    return capture && capture->status == FERRYI_GPU_STREAM_CAPTURE_STATUS_NONE ? capture : NULL;
}

ferryi_gpu_result
cuStreamBeginCapture_v2(ferryi_gpu_stream stream, ferryi_gpu_capture_mode mode)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuStreamBeginCapture_v2, FAKE_NEEDS_CONTEXT, &context);
    fake_result result = fake_end(stream == NULL || stream == FERRYI_CU_STREAM_LEGACY
                                      ? FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                      : FERRYI_GPU_SUCCESS);
    return result == FERRYI_GPU_SUCCESS ? (fake_result)fakecuda_begin_capture(stream, (int)mode)
                                        : result;
}

ferryi_gpu_result
cuStreamEndCapture(ferryi_gpu_stream stream, ferryi_gpu_graph *out_graph)
{
    int nodes = 0;
    FAKE_BEGIN(cuStreamEndCapture, 0, NULL);
    struct fake_capture *capture = fake_stream_is_live(stream) ? stream->queue->capture : NULL;
    (void)fake_end(FERRYI_GPU_SUCCESS);
    fake_result result = (fake_result)fakecuda_end_capture(stream, &nodes);
    *out_graph = NULL;
    if (result == FERRYI_GPU_SUCCESS) {
        capture->status = FERRYI_GPU_STREAM_CAPTURE_STATUS_NONE;
        *out_graph = (ferryi_gpu_graph)(void *)capture;
    }
    return result;
}

ferryi_gpu_result
cuGraphInstantiateWithFlags(ferryi_gpu_graph_exec *out_exec, ferryi_gpu_graph graph,
                            unsigned long long flags)
{
    FAKE_BEGIN(cuGraphInstantiateWithFlags, 0, NULL);
    *out_exec = (ferryi_gpu_graph_exec)(void *)graph;
    return fake_end(graph_of(graph) && flags == 0 ? FERRYI_GPU_SUCCESS
                                                  : FERRYI_GPU_ERROR_INVALID_VALUE);
}

static fake_result
run_node(void *payload)
{
    const struct fake_work *node = *(struct fake_work **)payload;
    return node->run ? node->run(node->payload) : FERRYI_GPU_SUCCESS;
}

ferryi_gpu_result
cuGraphLaunch(ferryi_gpu_graph_exec exec, ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    struct fake_queue *queue = NULL;
    FAKE_BEGIN(cuGraphLaunch, FAKE_NEEDS_CONTEXT, &context);
    const struct fake_capture *graph = graph_of(exec);
    fake_result result =
        graph ? fake_queue_of(context, stream, &queue) : FERRYI_GPU_ERROR_INVALID_VALUE;
    for (struct fake_work *node = graph ? graph->first : NULL; node && result == FERRYI_GPU_SUCCESS;
         node = node->next) {
        struct fake_work **payload = malloc(sizeof(node));
        if (!payload)
            return fake_end(FERRYI_GPU_ERROR_OUT_OF_MEMORY);
        *payload = node;
        result = fake_enqueue(queue, run_node, NULL, payload, NULL);
    }
    return fake_end(result);
}

/* The graph stays allocated here, because queued work may still refer to it. */
ferryi_gpu_result
cuGraphExecDestroy(ferryi_gpu_graph_exec exec)
{
    FAKE_BEGIN(cuGraphExecDestroy, 0, NULL);
    return fake_end(graph_of(exec) ? FERRYI_GPU_SUCCESS : FERRYI_GPU_ERROR_INVALID_VALUE);
}

ferryi_gpu_result
cuGraphDestroy(ferryi_gpu_graph graph)
{
    FAKE_BEGIN(cuGraphDestroy, 0, NULL);
    return fake_end(graph_of(graph) ? FERRYI_GPU_SUCCESS : FERRYI_GPU_ERROR_INVALID_VALUE);
}
#endif
