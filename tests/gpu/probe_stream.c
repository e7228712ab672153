/* SPDX-License-Identifier: MIT */
/* Probes streams and events, and the destruction of a context. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/probe.h"

static _Atomic int order[2], moment;

static void
host_function(void *user)
{
    *(_Atomic int *)user = ++moment;
}

/* Counts launches until one launch takes a millisecond. That launch had to wait because the
 * driver's queue was full. */
void
probe_queue(void)
{
    uint64_t ms = 200, none = 0;
    void *wait[] = {&ms}, *go[] = {&none};
    ferryi_gpu_function spin = probe_function_of("probe_spin");
    long long depth = 0;
    probe_start(spin, 1, 1, 1, 1, 0, wait);
    for (; depth < 4096; depth++) {
        uint64_t begun = ferryi_now_ns();
        if (probe_start(spin, 1, 1, 1, 1, 0, go) != 0 || ferryi_now_ns() - begun > 1000000)
            break;
    }
    answer("launches-before-one-blocks", depth);
    settle("queue-settles");
    ASK("host-function", host_call, stream, host_function, (void *)&order[0]);
    ASK("host-function-other", host_call, other, host_function, (void *)&order[1]);
    settle("host-function-settles");
    ASK("host-function-other-settles", stream_synchronize, other);
    answer("host-function-order", order[0] < order[1]);
}

void
probe_fault(void)
{
    ferryi_gpu_pointer pointer;
    answer("fault-launch", probe_start(probe_function_of("probe_fault"), 1, 1, 1, 1, 0, NULL));
    settle("fault-settles");
    ASK("fault-then-query", event_query, event);
    ASK("fault-then-alloc", memory_alloc, &pointer, 256);
    ASK("fault-then-free", memory_free, memory);
    ASK("fault-then-free-host", host_free, pinned);
    ASK("fault-then-destroy", stream_destroy, stream);
    ASK("fault-then-release", context_release, device);
    ASK("fault-then-retain", context_retain, &context, device);
    ASK("fault-then-push", context_push, context);
    ASK("fault-then-alloc-again", memory_alloc, &pointer, 256);
}

void
probe_from_null(void)
{
    ASK("upload-from-null", upload, memory, NULL, 16, stream);
    settle("upload-from-null-settles");
}

void
probe_forked(void)
{
    pid_t child = fork();
    int status = 0;
    if (child == 0)
        _exit((int)cu->context_synchronize() & 127);
    waitpid(child, &status, 0);
    answer("call-in-a-child", WIFEXITED(status) ? WEXITSTATUS(status) : KILLED);
}

void
probe_streams(void)
{
    ferryi_gpu_stream made = NULL;
    ferryi_gpu_context popped = NULL;
    ASK("stream-unknown-flags", stream_create, &made, 1 << 20);
    ASK("stream-blocking", stream_create, &made, 0);
    ASK("stream-legacy-settles", stream_synchronize, NULL);
    ASK("stream-per-thread-settles", stream_synchronize, FERRYI_CU_STREAM_PER_THREAD);
    ASK("host-function-null", host_call, stream, NULL, NULL);
    ASK("wait-with-unknown-flags", stream_wait, stream, event, 1 << 20);
    ASK("wait-for-unrecorded", stream_wait, stream, event, 0);
    ASK("wait-of-legacy", stream_wait, NULL, event, 0);
    ASK("destroy-legacy", stream_destroy, NULL);
    ASK("push-null", context_push, NULL);
    ASK("pop-of-null", context_pop, &popped);
    answer("pop-of-null-is", popped != NULL);
}

/* Asks what the driver knows of the handle of a destroyed stream. The manual says that a query of
 * such a handle is undefined. */
void
probe_stale_stream(void)
{
    ferryi_gpu_stream first = NULL, second = NULL;
    ferryi_gpu_capture_status status = 0;
    unsigned long long ids[2] = {0, 0};
    if (!(cu->groups & FERRYI_GPU_STREAM_ID) || cu->stream_create(&first, 1) ||
        cu->stream_id(first, &ids[0]) || cu->stream_destroy(first)) {
        answer("stale-stream-id", ABSENT);
        return;
    }
    ASK("stale-stream-id", stream_id, first, &ids[1]);
    answer("stale-stream-id-is-the-same", ids[0] == ids[1]);
    ASK("stale-stream-is-capturing", stream_is_capturing, first, &status);
    ASK("stale-stream-create", stream_create, &second, 1);
    answer("stale-stream-handle-is-reused", first == second);
    ASK("stale-stream-new-id", stream_id, second, &ids[1]);
    answer("stale-stream-new-id-is-the-same", ids[0] == ids[1]);
}

void
probe_events(void)
{
    ferryi_gpu_event timed = NULL, later = NULL, odd = NULL;
    float milliseconds = 0;
    ASK("event-unknown-flags", event_create, &odd, 1 << 20);
    ASK("event-interprocess-timed", event_create, &odd, 4);
    ASK("event-blocking", event_create, &odd, 1);
    ASK("event-timed", event_create, &timed, FERRYI_GPU_EVENT_DEFAULT);
    ASK("event-later", event_create, &later, FERRYI_GPU_EVENT_DEFAULT);
    ASK("event-query-unrecorded", event_query, timed);
    ASK("event-wait-unrecorded", event_synchronize, timed);
    ASK("event-elapsed-unrecorded", event_elapsed, &milliseconds, timed, later);
    ASK("event-record", event_record, timed, stream);
    ASK("event-record-again", event_record, timed, stream);
    ASK("event-record-later", event_record, later, other);
    ASK("event-wait", event_synchronize, later);
    settle("events-settle");
    ASK("event-elapsed", event_elapsed, &milliseconds, timed, later);
    ASK("event-elapsed-without-timing", event_elapsed, &milliseconds, timed, event);
    ASK("event-record-legacy", event_record, later, NULL);
    ASK("event-destroy-recorded", event_destroy, later);
}

static _Atomic long long inside[3];

static void
call_the_driver(void *user)
{
    size_t free_bytes, total;
    ferryi_gpu_pointer pointer = 0;
    (void)user;
    inside[0] = (long long)cu->event_query(event);
    inside[1] = (long long)cu->memory_info(&free_bytes, &total);
    inside[2] = (long long)cu->memory_alloc(&pointer, 256);
}

/* Calls the driver in a host function that runs on a stream. The manual forbids this, so the call
 * may be refused or may never return. */
void
probe_driver_in_host_function(void)
{
    ASK("host-function-that-calls", host_call, stream, call_the_driver, NULL);
    settle("host-function-that-calls-settles");
    answer("event-query-in-host-function", inside[0]);
    answer("info-in-host-function", inside[1]);
    answer("alloc-in-host-function", inside[2]);
}
