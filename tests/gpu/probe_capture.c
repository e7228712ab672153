/* SPDX-License-Identifier: MIT */
/* Probes what driver calls do while a stream is being captured into a graph. */
#include <pthread.h>
#include <stdio.h>

#include "tests/gpu/probe.h"

/* Makes a driver call while the stream `other` is being captured. Records the result of the call,
 * and whether the capture is still valid. */
static void
in_capture(int mode, const char *question, ferryi_gpu_result (*call)(void))
{
    static const char *const modes[] = {"global", "thread", "relaxed"};
    char text[96];
    ferryi_gpu_capture_status status = 0;
    void *graph = NULL;
    if (begin_capture(other, mode) != 0)
        return;
    snprintf(text, sizeof(text), "%s-in-%s-capture", question, modes[mode]);
    answer(text, (long long)call());
    cu->stream_is_capturing(other, &status);
    snprintf(text, sizeof(text), "%s-in-%s-capture-leaves", question, modes[mode]);
    answer(text, status);
    end_capture(other, &graph);
}

static ferryi_gpu_result
call_alloc(void)
{
    ferryi_gpu_pointer p;
    return cu->memory_alloc(&p, 256);
}
static ferryi_gpu_result
call_host_alloc(void)
{
    void *p;
    return cu->host_alloc(&p, 256, 1);
}
static ferryi_gpu_result
call_query(void)
{
    return cu->event_query(event);
}
static ferryi_gpu_result
call_record(void)
{
    return cu->event_record(event, stream);
}
static ferryi_gpu_result
call_synchronize(void)
{
    return cu->stream_synchronize(stream);
}
static ferryi_gpu_result
call_context(void)
{
    return cu->context_synchronize();
}
static ferryi_gpu_result
call_info(void)
{
    size_t a, b;
    return cu->memory_info(&a, &b);
}
static ferryi_gpu_result
call_upload(void)
{
    return cu->upload(memory, pinned, 256, stream);
}
static ferryi_gpu_result
call_legacy(void)
{
    return cu->fill_8(memory, 0, 256, FERRYI_CU_STREAM_LEGACY);
}
static ferryi_gpu_result
call_captured(void)
{
    return cu->upload(memory, pinned, 256, other);
}
static ferryi_gpu_result
call_stream(void)
{
    ferryi_gpu_stream s;
    return cu->stream_create(&s, 1);
}
static ferryi_gpu_result
call_batch(void)
{
    return probe_submit(memory, pinned, 16, 4, 64, other);
}

/* -- calls that end what an earlier call made. Each object is made before the capture begins,
 * because making it may be forbidden within. -- */

static const char nothing[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n";

static struct {
    ferryi_gpu_pointer device, managed;
    void *host, *plain, *registered;
    ferryi_gpu_module loaded;
    ferryi_gpu_stream ends;
    ferryi_gpu_event event;
} made;

/* Makes the objects for one call. What is left of those for the call before stays. */
static void
make_objects(void)
{
    memset(&made, 0, sizeof(made));
    made.plain = calloc(1, MIB);
    made.registered = calloc(1, MIB);
    if (cu->memory_alloc(&made.device, MIB) || cu->managed_alloc(&made.managed, MIB, 1) ||
        cu->host_alloc(&made.host, MIB, 1) || cu->stream_create(&made.ends, 1) ||
        cu->event_create(&made.event, 2) || cu->host_register(made.registered, MIB, 1) ||
        cu->module_load(&made.loaded, nothing, 0, NULL, NULL))
        answer("captures-lack-an-object", 1);
}

static ferryi_gpu_result
call_free(void)
{
    return cu->memory_free(made.device);
}
static ferryi_gpu_result
call_host_free(void)
{
    return cu->host_free(made.host);
}
static ferryi_gpu_result
call_managed_alloc(void)
{
    ferryi_gpu_pointer p;
    return cu->managed_alloc(&p, MIB, 1);
}
static ferryi_gpu_result
call_managed_free(void)
{
    return cu->memory_free(made.managed);
}
static ferryi_gpu_result
call_register(void)
{
    return cu->host_register(made.plain, MIB, 1);
}
static ferryi_gpu_result
call_unregister(void)
{
    return cu->host_unregister(made.registered);
}
static ferryi_gpu_result
call_load(void)
{
    ferryi_gpu_module module;
    return cu->module_load(&module, nothing, 0, NULL, NULL);
}
static ferryi_gpu_result
call_unload(void)
{
    return cu->module_unload(made.loaded);
}
static ferryi_gpu_result
call_function_load(void)
{
    ferryi_gpu_function function;
    ferryi_gpu_result result = cu->module_function(&function, made.loaded, "nothing");
    if (result != 0 || !(cu->groups & FERRYI_GPU_FUNCTION))
        return result;
    return cu->function_load(function);
}
static ferryi_gpu_result
call_function_attribute(void)
{
    ferryi_gpu_function function;
    ferryi_gpu_result result = cu->module_function(&function, made.loaded, "nothing");
    return result ? result
                  : cu->function_set_attribute(
                        function, FERRYI_GPU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024);
}
/* A context is no peer of itself, so this asks only whether the capture is checked first. */
static ferryi_gpu_result
call_peer(void)
{
    return cu->peer_enable(context, 0);
}
static ferryi_gpu_result
call_event_create(void)
{
    ferryi_gpu_event e;
    return cu->event_create(&e, 2);
}
static ferryi_gpu_result
call_event_destroy(void)
{
    return cu->event_destroy(made.event);
}
static ferryi_gpu_result
call_stream_destroy(void)
{
    return cu->stream_destroy(made.ends);
}
static ferryi_gpu_result
call_prefetch(void)
{
    const struct ferryi_gpu_location here = {FERRYI_GPU_MEM_LOCATION_TYPE_DEVICE, device};
    if (cu->groups & FERRYI_GPU_PREFETCH_2)
        return cu->prefetch_2(made.managed, MIB, here, 0, stream);
    if (cu->groups & FERRYI_GPU_PREFETCH)
        return cu->prefetch(made.managed, MIB, device, stream);
    return FERRYI_GPU_ERROR_NOT_SUPPORTED;
}
static ferryi_gpu_result
call_retain(void)
{
    ferryi_gpu_context retained;
    return cu->context_retain(&retained, device);
}
static ferryi_gpu_result
call_stream_id(void)
{
    unsigned long long id;
    return cu->groups & FERRYI_GPU_STREAM_ID ? cu->stream_id(other, &id)
                                             : FERRYI_GPU_ERROR_NOT_SUPPORTED;
}

static const struct {
    const char *name;
    ferryi_gpu_result (*call)(void);
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
             {"captured-batch", call_batch},
             {"free", call_free},
             {"host-free", call_host_free},
             {"managed-alloc", call_managed_alloc},
             {"managed-free", call_managed_free},
             {"host-register", call_register},
             {"host-unregister", call_unregister},
             {"module-load", call_load},
             {"module-unload", call_unload},
             {"function-load", call_function_load},
             {"function-attribute", call_function_attribute},
             {"enable-peer", call_peer},
             {"event-create", call_event_create},
             {"event-destroy", call_event_destroy},
             {"stream-destroy", call_stream_destroy},
             {"prefetch", call_prefetch},
             {"context-retain", call_retain},
             {"captured-stream-id", call_stream_id}};
enum { CALLS = sizeof(calls) / sizeof(calls[0]), FIRST_ENDING = 12 };

void
probe_captures(void)
{
    if (!begin_capture || !end_capture) {
        answer("captures", ABSENT);
        return;
    }
    for (int mode = 0; mode <= 2; mode++)
        for (size_t i = 0; i < CALLS; i++) {
            if (i >= FIRST_ENDING)
                make_objects();
            in_capture(mode, calls[i].name, calls[i].call);
        }
}

/* A driver call that one thread makes while a second thread captures a stream. The first thread
 * captures nothing. */
struct elsewhere {
    size_t call;
    ferryi_gpu_result result;
};

static void *
call_elsewhere(void *argument)
{
    struct elsewhere *elsewhere = argument;
    elsewhere->result = cu->context_push(context);
    if (elsewhere->result == 0)
        elsewhere->result = calls[elsewhere->call].call();
    return NULL;
}

static void
ask_elsewhere(int mode, const char *name, size_t call)
{
    struct elsewhere elsewhere = {call, 0};
    ferryi_gpu_capture_status status = 0;
    pthread_t thread;
    void *graph = NULL;
    char text[96];
    if (begin_capture(other, mode) != 0)
        return;
    if (pthread_create(&thread, NULL, call_elsewhere, &elsewhere) == 0)
        pthread_join(thread, NULL);
    snprintf(text, sizeof(text), "%s-elsewhere-in-%s-capture", calls[call].name, name);
    answer(text, (long long)elsewhere.result);
    cu->stream_is_capturing(other, &status);
    snprintf(text, sizeof(text), "%s-elsewhere-in-%s-capture-leaves", calls[call].name, name);
    answer(text, status);
    end_capture(other, &graph);
}

void
probe_captures_elsewhere(void)
{
    static const char *const modes[] = {"global", "thread", "relaxed"};
    for (int mode = 0; mode <= 2 && begin_capture && end_capture; mode++)
        for (size_t i = 0; i < CALLS; i++) {
            if (i >= 3 && i < FIRST_ENDING) /* two allocations and a query */
                continue;
            if (i >= FIRST_ENDING)
                make_objects();
            ask_elsewhere(mode, modes[mode], i);
        }
}
