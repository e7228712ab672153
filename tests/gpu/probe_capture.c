/* SPDX-License-Identifier: MIT */
/* Probes what driver calls do while a stream is being captured into a graph. */
#include <pthread.h>
#include <stdio.h>

#include "tests/gpu/probe.h"

/* Makes a driver call while the stream `other` is being captured. Records the result of the call,
 * and whether the capture is still valid. */
static void
in_capture(int mode, const char *question, ferryi_cu_result (*call)(void))
{
    static const char *const modes[] = {"global", "thread", "relaxed"};
    char text[96];
    ferryi_cu_capture_status status = 0;
    void *graph = NULL;
    if (begin_capture(other, mode) != 0)
        return;
    snprintf(text, sizeof(text), "%s-in-%s-capture", question, modes[mode]);
    answer(text, (long long)call());
    cu->cuStreamIsCapturing(other, &status);
    snprintf(text, sizeof(text), "%s-in-%s-capture-leaves", question, modes[mode]);
    answer(text, status);
    end_capture(other, &graph);
}

static ferryi_cu_result
call_alloc(void)
{
    ferryi_cu_pointer p;
    return cu->cuMemAlloc_v2(&p, 256);
}
static ferryi_cu_result
call_host_alloc(void)
{
    void *p;
    return cu->cuMemHostAlloc(&p, 256, 1);
}
static ferryi_cu_result
call_query(void)
{
    return cu->cuEventQuery(event);
}
static ferryi_cu_result
call_record(void)
{
    return cu->cuEventRecord(event, stream);
}
static ferryi_cu_result
call_synchronize(void)
{
    return cu->cuStreamSynchronize(stream);
}
static ferryi_cu_result
call_context(void)
{
    return cu->cuCtxSynchronize();
}
static ferryi_cu_result
call_info(void)
{
    size_t a, b;
    return cu->cuMemGetInfo_v2(&a, &b);
}
static ferryi_cu_result
call_upload(void)
{
    return cu->cuMemcpyHtoDAsync_v2(memory, pinned, 256, stream);
}
static ferryi_cu_result
call_legacy(void)
{
    return cu->cuMemsetD8Async(memory, 0, 256, FERRYI_CU_STREAM_LEGACY);
}
static ferryi_cu_result
call_captured(void)
{
    return cu->cuMemcpyHtoDAsync_v2(memory, pinned, 256, other);
}
static ferryi_cu_result
call_stream(void)
{
    ferryi_cu_stream s;
    return cu->cuStreamCreate(&s, 1);
}
static ferryi_cu_result
call_batch(void)
{
    return probe_submit(memory, pinned, 16, 4, 64, other);
}

static const struct {
    const char *name;
    ferryi_cu_result (*call)(void);
} calls[] = {{"alloc", call_alloc},
             {"host-alloc", call_host_alloc},
             {"event-query", call_query},
             {"event-record", call_record},
             {"synchronize", call_synchronize},
             {"context-synchronize", call_context},
             {"info", call_info},
             {"upload", call_upload},
             {"legacy-fill", call_legacy},
             {"captured-upload", call_captured},
             {"stream-create", call_stream},
             {"captured-batch", call_batch}};

void
probe_captures(void)
{
    if (!begin_capture || !end_capture) {
        answer("captures", ABSENT);
        return;
    }
    for (int mode = 0; mode <= 2; mode++)
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
            in_capture(mode, calls[i].name, calls[i].call);
}

/* A driver call that one thread makes while a second thread captures a stream. The first thread
 * captures nothing. */
struct elsewhere {
    size_t call;
    ferryi_cu_result result;
};

static void *
call_elsewhere(void *argument)
{
    struct elsewhere *elsewhere = argument;
    elsewhere->result = cu->cuCtxPushCurrent_v2(context);
    if (elsewhere->result == 0)
        elsewhere->result = calls[elsewhere->call].call();
    return NULL;
}

static void
ask_elsewhere(int mode, const char *name, size_t call)
{
    struct elsewhere elsewhere = {call, 0};
    ferryi_cu_capture_status status = 0;
    pthread_t thread;
    void *graph = NULL;
    char text[96];
    if (begin_capture(other, mode) != 0)
        return;
    if (pthread_create(&thread, NULL, call_elsewhere, &elsewhere) == 0)
        pthread_join(thread, NULL);
    snprintf(text, sizeof(text), "%s-elsewhere-in-%s-capture", calls[call].name, name);
    answer(text, (long long)elsewhere.result);
    cu->cuStreamIsCapturing(other, &status);
    snprintf(text, sizeof(text), "%s-elsewhere-in-%s-capture-leaves", calls[call].name, name);
    answer(text, status);
    end_capture(other, &graph);
}

void
probe_captures_elsewhere(void)
{
    static const char *const modes[] = {"global", "thread"};
    for (int mode = 0; mode < 2 && begin_capture && end_capture; mode++)
        for (size_t i = 0; i < 3; i++) /* two allocations and a query */
            ask_elsewhere(mode, modes[mode], i);
}
