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
    ferryi_cu_function spin = probe_function_of("probe_spin");
    long long depth = 0;
    probe_start(spin, 1, 1, 1, 1, 0, wait);
    for (; depth < 4096; depth++) {
        uint64_t begun = ferryi_now_ns();
        if (probe_start(spin, 1, 1, 1, 1, 0, go) != 0 || ferryi_now_ns() - begun > 1000000)
            break;
    }
    answer("launches-before-one-blocks", depth);
    settle("queue-settles");
    ASK("host-function", cuLaunchHostFunc, stream, host_function, (void *)&order[0]);
    ASK("host-function-other", cuLaunchHostFunc, other, host_function, (void *)&order[1]);
    settle("host-function-settles");
    ASK("host-function-other-settles", cuStreamSynchronize, other);
    answer("host-function-order", order[0] < order[1]);
}

void
probe_fault(void)
{
    ferryi_cu_pointer pointer;
    answer("fault-launch", probe_start(probe_function_of("probe_fault"), 1, 1, 1, 1, 0, NULL));
    settle("fault-settles");
    ASK("fault-then-query", cuEventQuery, event);
    ASK("fault-then-alloc", cuMemAlloc_v2, &pointer, 256);
    ASK("fault-then-free", cuMemFree_v2, memory);
    ASK("fault-then-free-host", cuMemFreeHost, pinned);
    ASK("fault-then-destroy", cuStreamDestroy_v2, stream);
    ASK("fault-then-release", cuDevicePrimaryCtxRelease_v2, device);
    ASK("fault-then-retain", cuDevicePrimaryCtxRetain, &context, device);
    ASK("fault-then-push", cuCtxPushCurrent_v2, context);
    ASK("fault-then-alloc-again", cuMemAlloc_v2, &pointer, 256);
}

void
probe_from_null(void)
{
    ASK("upload-from-null", cuMemcpyHtoDAsync_v2, memory, NULL, 16, stream);
    settle("upload-from-null-settles");
}

void
probe_forked(void)
{
    pid_t child = fork();
    int status = 0;
    if (child == 0)
        _exit((int)cu->cuCtxSynchronize() & 127);
    waitpid(child, &status, 0);
    answer("call-in-a-child", WIFEXITED(status) ? WEXITSTATUS(status) : KILLED);
}

void
probe_streams(void)
{
    ferryi_cu_stream made = NULL;
    ferryi_cu_context popped = NULL;
    ASK("stream-unknown-flags", cuStreamCreate, &made, 1 << 20);
    ASK("stream-blocking", cuStreamCreate, &made, 0);
    ASK("stream-legacy-settles", cuStreamSynchronize, NULL);
    ASK("stream-per-thread-settles", cuStreamSynchronize, FERRYI_CU_STREAM_PER_THREAD);
    ASK("host-function-null", cuLaunchHostFunc, stream, NULL, NULL);
    ASK("wait-with-unknown-flags", cuStreamWaitEvent, stream, event, 1 << 20);
    ASK("wait-for-unrecorded", cuStreamWaitEvent, stream, event, 0);
    ASK("wait-of-legacy", cuStreamWaitEvent, NULL, event, 0);
    ASK("destroy-legacy", cuStreamDestroy_v2, NULL);
    ASK("push-null", cuCtxPushCurrent_v2, NULL);
    ASK("pop-of-null", cuCtxPopCurrent_v2, &popped);
    answer("pop-of-null-is", popped != NULL);
}

/* Asks what the driver knows of the handle of a destroyed stream. The manual says that a query of
 * such a handle is undefined. */
void
probe_stale_stream(void)
{
    ferryi_cu_stream first = NULL, second = NULL;
    ferryi_cu_capture_status status = 0;
    unsigned long long ids[2] = {0, 0};
    if (!(cu->groups & FERRYI_CUDA_STREAM_ID) || cu->cuStreamCreate(&first, 1) ||
        cu->cuStreamGetId(first, &ids[0]) || cu->cuStreamDestroy_v2(first)) {
        answer("stale-stream-id", ABSENT);
        return;
    }
    ASK("stale-stream-id", cuStreamGetId, first, &ids[1]);
    answer("stale-stream-id-is-the-same", ids[0] == ids[1]);
    ASK("stale-stream-is-capturing", cuStreamIsCapturing, first, &status);
    ASK("stale-stream-create", cuStreamCreate, &second, 1);
    answer("stale-stream-handle-is-reused", first == second);
    ASK("stale-stream-new-id", cuStreamGetId, second, &ids[1]);
    answer("stale-stream-new-id-is-the-same", ids[0] == ids[1]);
}

void
probe_events(void)
{
    ferryi_cu_event timed = NULL, later = NULL, odd = NULL;
    float milliseconds = 0;
    ASK("event-unknown-flags", cuEventCreate, &odd, 1 << 20);
    ASK("event-interprocess-timed", cuEventCreate, &odd, 4);
    ASK("event-blocking", cuEventCreate, &odd, 1);
    ASK("event-timed", cuEventCreate, &timed, FERRYI_CU_EVENT_DEFAULT);
    ASK("event-later", cuEventCreate, &later, FERRYI_CU_EVENT_DEFAULT);
    ASK("event-query-unrecorded", cuEventQuery, timed);
    ASK("event-wait-unrecorded", cuEventSynchronize, timed);
    ASK("event-elapsed-unrecorded", cuEventElapsedTime, &milliseconds, timed, later);
    ASK("event-record", cuEventRecord, timed, stream);
    ASK("event-record-again", cuEventRecord, timed, stream);
    ASK("event-record-later", cuEventRecord, later, other);
    ASK("event-wait", cuEventSynchronize, later);
    settle("events-settle");
    ASK("event-elapsed", cuEventElapsedTime, &milliseconds, timed, later);
    ASK("event-elapsed-without-timing", cuEventElapsedTime, &milliseconds, timed, event);
    ASK("event-record-legacy", cuEventRecord, later, NULL);
    ASK("event-destroy-recorded", cuEventDestroy_v2, later);
}

static _Atomic long long inside[3];

static void
call_the_driver(void *user)
{
    size_t free_bytes, total;
    ferryi_cu_pointer pointer = 0;
    (void)user;
    inside[0] = (long long)cu->cuEventQuery(event);
    inside[1] = (long long)cu->cuMemGetInfo_v2(&free_bytes, &total);
    inside[2] = (long long)cu->cuMemAlloc_v2(&pointer, 256);
}

/* Calls the driver in a host function that runs on a stream. The manual forbids this, so the call
 * may be refused or may never return. */
void
probe_driver_in_host_function(void)
{
    ASK("host-function-that-calls", cuLaunchHostFunc, stream, call_the_driver, NULL);
    settle("host-function-that-calls-settles");
    answer("event-query-in-host-function", inside[0]);
    answer("info-in-host-function", inside[1]);
    answer("alloc-in-host-function", inside[2]);
}
