/* SPDX-License-Identifier: MIT */
#include <ferry/graph.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/base/hold.h"
#include "src/kernel/launch.h"
#include "src/store/watch.h"
#include "src/stream/captures.h"

/*
 * A graph is recorded work (src/buffer/recording.h) and what launches it: the driver's graph, or a
 * kernel whose host function does the recorded work in order. So a graph that Ferry records is
 * launched, fails and loses bytes as that kernel.
 *
 * The program's handle and each queued call of that host function own the struct.
 * ferry_graph_destroy() waits for these calls, and one that is still queued then, on a lost device,
 * frees the struct.
 */

FERRYI_MUTEX_CLASS(ferryi_graph_mutex);

enum state { RECORDING, READY, FAILED };

struct ferry_graph {
    atomic_int owners;
    struct ferryi_recording recording;
    ferry_context *context; /* the graph owns it, so that it does not end first */
    char *name;
    int place;
    _Atomic enum state state;
    ferry_stream *stream; /* the recorded stream; NULL after the recording */
    void *native;         /* the driver's graph, or NULL */
    ferry_kernel *kernel; /* does the recorded work, if the driver does not; or NULL */
    /* Held while the kernel does the work, which uses the memory of the recorded calls. */
    struct ferryi_graph_mutex mutex;
    /* Sync point of the last launch on each timeline. The index is the number of the timeline. */
    _Atomic uint64_t uses[FERRYI_TIMELINES];
};

/* -- the work ---------------------------------------------------------------------------------- */

/* Does the recorded work of a graph. It is the host function of its kernel. */
static ferry_status
do_work(const ferry_call *call, void *user)
{
    struct ferry_graph *graph = user;
    char text[FERRYI_HOST_CALL_FAILURE_BYTES] = "";
    ferry_status status = FERRY_OK;
    ferryi_mutex_lock(&graph->mutex);
    for (struct ferryi_recorded_call *each = graph->recording.first; each && status == FERRY_OK;
         each = each->next)
        status = each->run(each, text, sizeof(text));
    ferryi_mutex_unlock(&graph->mutex);
    if (status != FERRY_OK)
        ferry_call_fail(call, text);
    return status;
}

/* Removes an owner of the struct. The last one frees it, and what only the work needs. */
static void
let_go(ferry_graph *graph)
{
    if (atomic_fetch_sub(&graph->owners, 1) != 1)
        return;
    ferryi_recording_free(&graph->recording);
    ferryi_mutex_destroy(&graph->mutex);
    free(graph->name);
    free(graph);
}

static void
hold(void *user, bool holds)
{
    struct ferry_graph *graph = user;
    if (holds)
        atomic_fetch_add(&graph->owners, 1);
    else
        let_go(graph);
}

static ferry_status
make_kernel(ferry_graph *graph)
{
    char name[128];
    snprintf(name, sizeof(name), "graph %.100s", graph->name);
    const ferry_kernel_source source = {.name = name, .host_function = do_work, .user = graph};
    return ferry_kernel_create(graph->context, &source, &graph->kernel);
}

/* -- recording --------------------------------------------------------------------------------- */

/* Returns whether the device runs host functions on its memory, so that Ferry records the work. */
static bool
records_itself(const ferryi_device *device)
{
    return device->properties.language == FERRY_LANGUAGE_NONE &&
           (device->capabilities & FERRY_CAN_RUN_HOST_FUNCTION) &&
           (device->capabilities & FERRYI_DEVICE_HOST_VISIBLE);
}

static ferry_status
check_stream(ferry_stream *stream)
{
    FERRYI_OR_RETURN(ferryi_stream_check(stream, "begin a graph"));
    FERRYI_OR_RETURN(ferryi_callback_check("begin a graph"));
    const struct ferryi_recording_head *other = ferryi_timeline_recording(stream->timeline);
    if (other)
        return ferryi_fail(FERRY_ERROR_INVALID_STATE,
                           "begin a graph: the stream records graph \"%s\" already", other->name);
    const ferryi_device *device = stream->timeline->device;
    if (stream->timeline->native == device->default_stream || stream->timeline->per_thread)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "begin a graph: a default stream cannot be recorded; use one of "
                           "ferry_stream_create()");
    return ferryi_timeline_check_capture(stream->timeline);
}

static void
graph_free(ferry_graph *graph)
{
    ferry_context *context = graph->context;
    if (graph->kernel)
        ferry_kernel_destroy(&graph->kernel);
    ferryi_recording_release(&graph->recording);
    let_go(graph);
    if (context)
        ferryi_shell_disown(&context);
}

static ferry_status
graph_new(ferry_stream *stream, const ferry_graph_options *options, ferry_graph **out)
{
    const char *name = options && options->name ? options->name : "graph";
    ferry_graph *graph = calloc(1, sizeof(*graph));
    if (!graph)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for it");
    atomic_init(&graph->owners, 1);
    ferryi_mutex_init(&graph->mutex);
    ferry_status status = FERRY_OK;
    graph->name = strdup(name);
    if (!graph->name)
        status = ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for its name");
    else if (!ferryi_shell_try_own(stream->context))
        status = ferryi_fail(FERRY_ERROR_INVALID_STATE, "its context is being destroyed");
    else
        graph->context = stream->context;
    if (status != FERRY_OK) {
        graph_free(graph);
        return status;
    }
    ferryi_text_make_line(graph->name);
    graph->place = stream->timeline->place;
    graph->recording =
        (struct ferryi_recording){.head = {.name = graph->name},
                                  .context = graph->context,
                                  .timeline = stream->timeline,
                                  .is_captured = !records_itself(stream->timeline->device)};
    *out = graph;
    return FERRY_OK;
}

/* Uses of memory that were noted on the stream get their event first, because none can be recorded
 * on it later. */
static ferry_status
begin(ferry_graph *graph, ferry_stream *stream)
{
    ferryi_timeline *timeline = stream->timeline;
    FERRYI_OR_RETURN(ferryi_timeline_flush(timeline));
    FERRYI_OR_RETURN(graph->recording.is_captured
                         ? ferryi_capture_begin(timeline->device, timeline->native)
                         : make_kernel(graph));
    ferryi_stream_retain(stream);
    graph->stream = stream;
    ferryi_stream_begin_recording(stream, &graph->recording.head);
    return FERRY_OK;
}

ferry_status
ferry_graph_begin(ferry_stream *stream, const ferry_graph_options *options, ferry_graph **out)
{
    ferry_graph *graph = NULL;
    if (!stream || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "begin a graph: %s is NULL",
                           stream ? "out" : "the stream");
    FERRYI_OR_RETURN(check_stream(stream));
    ferry_status status = graph_new(stream, options, &graph);
    if (status == FERRY_OK)
        status = begin(graph, stream);
    if (status == FERRY_OK) {
        *out = graph;
        return FERRY_OK;
    }
    status = ferryi_fail_in(status, "begin graph \"%s\"",
                            options && options->name ? options->name : "graph");
    FERRYI_KEEP_ERROR(why);
    if (graph)
        graph_free(graph);
    return status;
}

/* Ends the recording. If `out` is NULL, discards what the driver has recorded. */
static ferry_status
end(ferry_graph *graph, void **out)
{
    ferry_stream *stream = graph->stream;
    ferryi_timeline *timeline = stream->timeline;
    ferry_status status = FERRY_OK;
    graph->stream = NULL;
    ferryi_stream_end_recording(stream);
    if (graph->recording.is_captured)
        status = ferryi_capture_end(timeline->device, timeline->native, out);
    atomic_store(&graph->state, status == FERRY_OK ? READY : FAILED);
    FERRYI_KEEP_ERROR(kept);
    ferryi_stream_release(stream);
    return status;
}

static ferry_status
check_graph(const ferry_graph *graph, const char *what)
{
    if (!graph)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: it is NULL", what);
    return ferryi_shell_check_open(graph->context, what);
}

ferry_status
ferry_graph_end(ferry_graph *graph)
{
    FERRYI_OR_RETURN(check_graph(graph, "end a graph"));
    if (atomic_load(&graph->state) != RECORDING)
        return ferryi_fail(FERRY_ERROR_INVALID_STATE, "end graph \"%s\": its recording has ended",
                           graph->name);
    if (atomic_load(&graph->recording.busy))
        return ferryi_fail(FERRY_ERROR_INVALID_STATE,
                           "end graph \"%s\": another thread uses its stream now", graph->name);
    ferry_status status = end(graph, &graph->native);
    return status == FERRY_OK ? status : ferryi_fail_in(status, "end graph \"%s\"", graph->name);
}

/* -- launching --------------------------------------------------------------------------------- */

/* Remembers that the graph runs on the timeline until its work there is done. */
static void
note_use(ferry_graph *graph, ferryi_timeline *timeline)
{
    ferryi_sync_point point = 0;
    if (ferryi_timeline_note(timeline, ferryi_thread_id(), &point) != FERRY_OK)
        ferryi_log(&graph->context->log, FERRY_LOG_WARNING, "launch graph \"%s\": %s", graph->name,
                   ferry_last_error());
    _Atomic uint64_t *last = &graph->uses[ferryi_sync_point_number(point)];
    uint64_t before = atomic_load(last);
    while (before < point && !atomic_compare_exchange_weak(last, &before, point))
        ;
}

static ferry_status
queue(ferry_graph *graph, const struct ferryi_launch_request *plan)
{
    ferryi_timeline *timeline = plan->timeline;
    if (graph->kernel)
        return ferryi_launch_queue_call(plan);
    ferry_status status =
        FERRYI_CALL(timeline->device, graph_launch, graph->native, timeline->native);
    const bool queued = status == FERRY_OK;
    FERRYI_KEEP_ERROR(why);
    if (ferryi_access_close_all(plan->merged, plan->merged_count,
                                queued ? FERRYI_CLOSE_COMMIT : FERRYI_CLOSE_CANCEL,
                                timeline) != FERRY_OK &&
        queued)
        ferryi_log(&graph->context->log, FERRY_LOG_WARNING, "launch graph \"%s\": %s", graph->name,
                   ferry_last_error());
    return status;
}

/* Launches the graph. `list` has room for its net accesses, which a launch changes. */
static ferry_status
launch(ferry_graph *graph, struct ferryi_launch_request *plan, struct ferryi_access *list)
{
    const struct ferryi_recording *recording = &graph->recording;
    plan->merged = list;
    plan->merged_count = recording->net_count;
    for (size_t i = 0; i < recording->net_count; i++) {
        list[i] = recording->net[i];
        list[i].timeline = plan->timeline;
        list[i].reason = "launch";
        list[i].to_end = false;
    }
    ferryi_hold_begin();
    ferry_status status = ferryi_timeline_check_own(plan->timeline);
    if (status == FERRY_OK)
        status = ferryi_access_open(list, recording->net_count);
    for (size_t i = 0; i < recording->net_count && status == FERRY_OK; i++)
        assert(list[i].pointer == recording->net[i].pointer);
    if (status == FERRY_OK)
        status = queue(graph, plan);
    ferryi_hold_end();
    if (status == FERRY_OK)
        note_use(graph, plan->timeline);
    return status;
}

static ferry_status
launch_with_list(ferry_graph *graph, struct ferryi_launch_request *plan)
{
    struct ferryi_access few[FERRYI_FEW_ARGUMENTS], *list = few;
    const size_t count = graph->recording.net_count;
    if (count > FERRYI_FEW_ARGUMENTS && !(list = malloc(count * sizeof(*list))))
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu ranges", count);
    ferry_status status = launch(graph, plan, list);
    if (list != few)
        free(list);
    return status;
}

static ferry_status
check_launch(const ferry_graph *graph, const ferryi_timeline *timeline)
{
    if (atomic_load(&graph->state) != READY)
        return ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s",
                           graph->stream ? "it is still being recorded; call ferry_graph_end()"
                                         : "its recording has failed");
    if (timeline->place != graph->place)
        return ferryi_fail(
            FERRY_ERROR_INVALID_ARGUMENT, "it was recorded at %s, and the stream is one of %s",
            graph->context->names[graph->place], graph->context->names[timeline->place]);
    return FERRY_OK;
}

ferry_status
ferry_graph_launch(ferry_graph *graph, ferry_stream *stream)
{
    ferryi_timeline *timeline;
    FERRYI_OR_RETURN(check_graph(graph, "launch a graph"));
    FERRYI_OR_RETURN(
        ferryi_stream_find_timeline(graph->context, stream, "launch a graph", &timeline));
    static const ferry_grid grid = {.blocks = {1, 1, 1}, .threads = {1, 1, 1}};
    struct ferryi_launch_result result = {.failure = FERRY_OK};
    struct ferryi_launch_request plan = {
        .kernel = graph->kernel,
        .result = &result,
        .hold = hold,
        .stream = stream ? stream : graph->context->defaults[timeline->place],
        .timeline = timeline,
        .grid = &grid};
    ferry_status status = check_launch(graph, timeline);
    if (status == FERRY_OK) {
        plan.span = ferryi_span_begin(graph->context->trace, "launch", graph->name, NULL);
        status = launch_with_list(graph, &plan);
        ferryi_span_end(plan.span);
    }
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "launch graph \"%s\"", graph->name);
    ferryi_watch_launch(graph->context, graph->name, timeline, plan.span.begun_ns);
    return FERRY_OK;
}

/* -- the end ----------------------------------------------------------------------------------- */

/* Waits until all launches of the graph are done. If an event cannot say so, the device is
 * synchronized. If that fails as well, the device is lost, and its work is over. */
static void
wait_for_launches(ferry_graph *graph)
{
    for (unsigned number = 1; number < FERRYI_TIMELINES; number++) {
        ferryi_sync_point point = atomic_load(&graph->uses[number]);
        if (ferryi_sync_point_wait(&graph->context->order, NULL, point) != FERRY_OK &&
            ferryi_sync_point_wait_for_device(&graph->context->order, point) != FERRY_OK)
            ferryi_log(&graph->context->log, FERRY_LOG_ERROR, "destroy graph \"%s\": %s",
                       graph->name, ferry_last_error());
    }
}

void
ferry_graph_destroy(ferry_graph **graph)
{
    if (!graph || !*graph)
        return;
    ferry_graph *gone = *graph;
    ferry_context *context = gone->context;
    if (ferryi_callback_refuses_end(&context->log, ferryi_callback_in_any_call(),
                                    "destroy a graph"))
        return;
    *graph = NULL;
    if (context->inherited)
        return; /* the driver and the threads of the parent are not there */
    FERRYI_KEEP_ERROR(kept);
    if (gone->stream && end(gone, NULL) != FERRY_OK)
        ferryi_log(&context->log, FERRY_LOG_WARNING, "destroy graph \"%s\": %s", gone->name,
                   ferry_last_error());
    wait_for_launches(gone);
    ferryi_device *device = context->devices[gone->place];
    if (gone->native && FERRYI_CALL(device, graph_destroy, gone->native) != FERRY_OK)
        ferryi_log(&context->log, FERRY_LOG_ERROR, "destroy graph \"%s\": %s", gone->name,
                   ferry_last_error());
    graph_free(gone);
}
