/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/buffer/element.h"
#include "src/kernel/call_check.h"
#include "src/kernel/launch.h"
#include "src/store/pending_calls.h"

/*
 * A queued call of a kernel's host function. The call owns copies of everything that the function
 * uses, so that the kernel, the arguments and their handles may be destroyed before the function
 * runs.
 *
 * The call has two owners. The launching thread releases the call after it has committed the
 * launch's writes to the valid map. The device releases the call after the function has run. The
 * second release ends the call's uses of buffers (pending_calls.h). If the function has failed,
 * this marks the written bytes as lost. So they are never marked before they are committed.
 *
 * The call holds no reference to buffers, streams or other calls. The last release of a buffer or
 * stream may need the driver, which a host function's thread must not call. The call finds its
 * buffers through pending_calls.h, and its stream in the context's list of streams.
 */

#define FAILURE_BYTES FERRYI_HOST_CALL_FAILURE_BYTES
#define INPUT_LOST    "its input was lost: "

/* What a call needs of its kernel. */
struct body {
    /* the context outlives the call, because the end of a context waits for all its work */
    ferry_context *context;
    ferry_host_function *function;
    void *user;
    void (*hold)(void *user, bool holds); /* as in struct ferryi_launch_request */
    const char *name;                     /* name of the kernel */
    /* Whether the host function runs on a thread of the device or of its driver. The end of the
     * context waits for this thread. */
    bool is_apart;
};

struct ferryi_host_call {
    struct ferryi_recorded_call recorded; /* used only if a graph repeats the call */
    atomic_int parties;
    struct body body;
    /* The stream of the launch and its timeline. The program may have destroyed the stream. So
     * these pointers are dereferenced only after a live stream with the same pointers was found. */
    ferry_stream *stream;
    ferryi_timeline *timeline;
    uint32_t generation;
    struct ferryi_body_use *uses;
    size_t use_count;
    ferry_status failure; /* failure of the host function, if it ran before the call was made */
    const char *failure_text;
    struct ferryi_launch_result *result; /* NULL if the host function may run after the launch */
    struct ferry_call call;
};

/* -- making ------------------------------------------------------------------------------------ */

static struct body
body_of(const ferry_kernel *kernel, const ferryi_device *device)
{
    return (struct body){.context = kernel->context,
                         .function = kernel->host_function,
                         .user = kernel->user,
                         .name = kernel->name,
                         .is_apart = device->capabilities & FERRYI_DEVICE_CALLS_APART};
}

/* Offsets of the parts of a queued host function call. All parts are in one allocation. `values` is
 * that of the argument values, which follow one another. */
struct layout {
    size_t arguments, uses, name, names, text, values;
    size_t align, bytes;
};

static bool
place_part(size_t *bytes, size_t align, size_t count, size_t part_bytes, size_t *out)
{
    size_t all;
    if (!ferryi_round_up(*bytes, align, out) || !ferryi_mul_size(count, part_bytes, &all))
        return false;
    return ferryi_add_size(*out, all, bytes);
}

static bool
is_value(const struct ferryi_launch_request *plan, size_t i)
{
    return plan->kernel->parameters[i].access == 0;
}

/* Size of the names of all parameters, which only checked runs need. */
static size_t
names_bytes(const ferry_kernel *kernel)
{
    size_t bytes = 0;
    for (size_t i = 0; kernel->context->debug && i < kernel->parameter_count; i++)
        bytes += kernel->parameters[i].name ? strlen(kernel->parameters[i].name) + 1 : 0;
    return bytes;
}

static bool
lay_out(const struct ferryi_launch_request *plan, const char *text, struct layout *out)
{
    struct layout l = {.align = _Alignof(max_align_t), .bytes = sizeof(struct ferryi_host_call)};
    bool fits = place_part(&l.bytes, l.align, plan->count, sizeof(struct ferryi_call_argument),
                           &l.arguments) &&
                place_part(&l.bytes, l.align, plan->merged_count, sizeof(struct ferryi_body_use),
                           &l.uses) &&
                place_part(&l.bytes, 1, strlen(plan->kernel->name) + 1, 1, &l.name) &&
                place_part(&l.bytes, 1, names_bytes(plan->kernel), 1, &l.names) &&
                place_part(&l.bytes, 1, text ? strlen(text) + 1 : 0, 1, &l.text);
    l.values = l.bytes;
    for (size_t i = 0; fits && i < plan->count; i++) {
        size_t at;
        if (!is_value(plan, i))
            continue;
        l.align = ferryi_max_size(l.align, plan->arguments[i].align);
        fits = place_part(&l.bytes, plan->arguments[i].align, 1, plan->arguments[i].bytes, &at);
    }
    fits = fits && ferryi_round_up(l.bytes, l.align, &l.bytes);
    *out = l;
    return fits;
}

/* Returns the number of elements of the array that is argument `i`; 0 if it is a value. */
static size_t
count_elements(const struct ferryi_launch_request *plan, size_t i)
{
    const ferry_argument *argument = &plan->arguments[i];
    if (plan->index[i] == SIZE_MAX)
        return !argument->is_value && argument->pointer ? argument->count : 0;
    const struct ferryi_access *wanted = &plan->wanted[plan->index[i]];
    return (wanted->end - wanted->begin) / plan->kernel->parameters[i].element->bytes;
}

/* Sets what checked runs need of the array that is argument `i`. Copies its name to `names`, and
 * moves `names` behind it. */
static void
note_use(const struct ferryi_launch_request *plan, size_t i, struct ferryi_call_argument *argument,
         char **names)
{
    const char *name = plan->kernel->parameters[i].name;
    if (!plan->kernel->context->debug)
        return;
    if (plan->index[i] != SIZE_MAX)
        argument->access = (ferry_access)plan->wanted[plan->index[i]].access;
    if (name) {
        argument->name = memcpy(*names, name, strlen(name) + 1);
        *names += strlen(name) + 1;
    }
}

static ferry_status
copy_arguments(const struct ferryi_launch_request *plan, char *block, const struct layout *l)
{
    struct ferryi_call_argument *arguments =
        (struct ferryi_call_argument *)(void *)(block + l->arguments);
    size_t end = l->values, at = 0;
    char *names = block + l->names;
    for (size_t i = 0; i < plan->count; i++) {
        const ferry_argument *argument = &plan->arguments[i];
        arguments[i] = (struct ferryi_call_argument){.element = plan->kernel->parameters[i].element,
                                                     .is_value = is_value(plan, i)};
        if (!arguments[i].is_value) {
            arguments[i].pointer = ferryi_launch_array(plan, i);
            arguments[i].count = count_elements(plan, i);
            note_use(plan, i, &arguments[i], &names);
            continue;
        }
        /* A kernel parameter that accepts any struct has no element type. In this case the host
         * function sees the element type of the argument. */
        if (!arguments[i].element && argument->element) {
            ferry_status status = ferryi_element_intern(argument->element, &arguments[i].element);
            if (status != FERRY_OK)
                return ferryi_fail_in(status, "argument %zu", i);
        }
        (void)place_part(&end, argument->align, 1, argument->bytes, &at);
        arguments[i].bytes = argument->bytes;
        arguments[i].pointer = memcpy(block + at, ferryi_launch_value(plan, i), argument->bytes);
    }
    return FERRY_OK;
}

static ferry_status
begin_uses(const struct ferryi_launch_request *plan, struct ferryi_host_call *call)
{
    ferry_status status = FERRY_OK;
    for (size_t i = 0; i < plan->merged_count && status == FERRY_OK; i++)
        status = ferryi_pending_calls_begin(&plan->merged[i], &call->uses[call->use_count++]);
    return status;
}

static void
call_end(struct ferryi_host_call *call)
{
    for (size_t i = 0; i < call->use_count; i++)
        ferryi_pending_calls_end(&call->uses[i]);
    if (call->body.hold)
        call->body.hold(call->body.user, false);
    free(call);
}

/* Makes a call without its uses of buffers. */
static ferry_status
make_call(const struct ferryi_launch_request *plan, ferry_status failure, const char *text,
          struct ferryi_host_call **out)
{
    struct layout l;
    char *block = lay_out(plan, text, &l) ? aligned_alloc(l.align, l.bytes) : NULL;
    if (!block)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for a copy of %zu arguments",
                           plan->count);
    struct ferryi_host_call *call = (struct ferryi_host_call *)(void *)block;
    *call = (struct ferryi_host_call){.body = body_of(plan->kernel, plan->timeline->device),
                                      .stream = plan->stream,
                                      .timeline = plan->timeline,
                                      .generation = plan->timeline->generation,
                                      .failure = failure,
                                      .result = ferryi_launch_is_here(plan) ? plan->result : NULL};
    atomic_init(&call->parties, 2);
    call->uses = (struct ferryi_body_use *)(void *)(block + l.uses);
    call->body.name = memcpy(block + l.name, plan->kernel->name, strlen(plan->kernel->name) + 1);
    if (text)
        call->failure_text = memcpy(block + l.text, text, strlen(text) + 1);
    call->call.grid = *plan->grid;
    call->call.threads = plan->kernel->context->host_threads;
    call->call.count = plan->count;
    call->call.arguments = (struct ferryi_call_argument *)(void *)(block + l.arguments);
    call->body.hold = plan->hold;
    if (plan->hold)
        plan->hold(call->body.user, true);
    ferry_status status = copy_arguments(plan, block, &l);
    if (status == FERRY_OK)
        *out = call;
    else
        call_end(call);
    return status;
}

ferry_status
ferryi_host_call_make(const struct ferryi_launch_request *plan, ferry_status failure,
                      const char *text, struct ferryi_host_call **out)
{
    FERRYI_OR_RETURN(make_call(plan, failure, text, out));
    ferry_status status = begin_uses(plan, *out);
    if (status != FERRY_OK)
        call_end(*out);
    return status;
}

/* -- the device's part ------------------------------------------------------------------------- */

/* Fails if an earlier host function failed, so that bytes that this one reads are lost. In a chain
 * of such failures, the message names only the first kernel whose input was lost. Otherwise each
 * launch of the chain would make the message longer. */
static ferry_status
check_inputs(const struct ferryi_host_call *call, char *text, size_t text_bytes)
{
    char cause[FAILURE_BYTES];
    for (size_t i = 0; i < call->use_count; i++) {
        ferry_status status = ferryi_pending_calls_input(&call->uses[i], cause, sizeof(cause));
        if (status == FERRY_OK)
            continue;
        if (strstr(cause, INPUT_LOST))
            snprintf(text, text_bytes, "%s", cause);
        else
            snprintf(text, text_bytes,
                     "run the host function of kernel \"%.100s\": " INPUT_LOST "%.600s",
                     call->body.name, cause);
        return status;
    }
    return FERRY_OK;
}

/* Calls the host function of a kernel. If the function fails without setting a message, the message
 * contains the returned number. This number need not be a valid ferry_status. */
static ferry_status
call_body(const struct body *body, struct ferry_call *call, char *text, size_t text_bytes)
{
    char own[FERRYI_CALL_TEXT_BYTES];
    own[0] = 0;
    call->text = own;
    struct ferryi_callback running;
    const void *outer = ferryi_callback_thread.context;
    if (body->is_apart)
        ferryi_callback_thread.context = body->context;
    ferryi_callback_enter(&running, FERRYI_CALLBACK_WATCHING, "host_function");
    running.context = body->context;
    ferry_status status = body->function(call, body->user);
    ferryi_callback_leave(&running);
    ferryi_callback_thread.context = outer;
    if (status == FERRY_OK)
        return FERRY_OK;
    if (!own[0])
        snprintf(own, sizeof(own), "it returned %d, %s", (int)status, ferry_status_name(status));
    snprintf(text, text_bytes, "run the host function of kernel \"%s\": %s", body->name, own);
    return status;
}

ferry_status
ferryi_host_call_run(const struct ferryi_launch_request *plan,
                     char text[FERRYI_HOST_CALL_FAILURE_BYTES])
{
    struct ferryi_call_argument arguments[FERRYI_FEW_ARGUMENTS];
    for (size_t i = 0; i < plan->count; i++) {
        struct ferryi_call_argument *argument = &arguments[i];
        argument->element = plan->kernel->parameters[i].element;
        argument->is_value = is_value(plan, i);
        argument->pointer = argument->is_value ? (void *)(uintptr_t)ferryi_launch_value(plan, i)
                                               : ferryi_launch_array(plan, i);
        argument->count = count_elements(plan, i);
        argument->bytes = plan->arguments[i].bytes;
    }
    const struct body body = body_of(plan->kernel, plan->timeline->device);
    struct ferry_call call;
    call.grid = *plan->grid;
    call.threads = body.context->host_threads;
    call.arguments = arguments;
    call.count = plan->count;
    call.check = NULL;
    return call_body(&body, &call, text, FAILURE_BYTES);
}

/* Calls the host function of a queued call, and checks in a checked run what it did. */
static ferry_status
call_checked(struct ferryi_host_call *call, char *text, size_t text_bytes)
{
    struct ferryi_call_check check = {.log = &call->body.context->log,
                                      .kernel_name = call->body.name};
    if (!call->body.context->debug)
        return call_body(&call->body, &call->call, text, text_bytes);
    ferryi_call_check_begin(&call->call, &check);
    ferry_status status = call_body(&call->body, &call->call, text, text_bytes);
    if (status == FERRY_OK)
        ferryi_call_check_end(&call->call);
    ferryi_call_check_free(&call->call);
    return status;
}

/* -- calls that a graph repeats ---------------------------------------------------------------- */

static ferry_status
repeat(struct ferryi_recorded_call *recorded, char *text, size_t text_bytes)
{
    return call_checked((struct ferryi_host_call *)recorded, text, text_bytes);
}

static void
free_recorded(struct ferryi_recorded_call *recorded)
{
    call_end((struct ferryi_host_call *)recorded);
}

ferry_status
ferryi_host_call_record(const struct ferryi_launch_request *plan, struct ferryi_recorded_call **out)
{
    struct ferryi_host_call *call;
    FERRYI_OR_RETURN(make_call(plan, FERRY_OK, NULL, &call));
    call->recorded = (struct ferryi_recorded_call){.run = repeat, .free = free_recorded};
    *out = &call->recorded;
    return FERRY_OK;
}

/* -- the end of a call ------------------------------------------------------------------------- */

static void
report_to_stream(const struct ferryi_host_call *call, ferry_status status, const char *text)
{
    ferry_context *context = call->body.context;
    ferryi_mutex_lock(&context->stream_mutex);
    ferry_stream *stream = context->streams;
    while (stream && !(stream == call->stream && stream->timeline == call->timeline &&
                       call->timeline->generation == call->generation))
        stream = stream->next;
    if (stream)
        ferryi_stream_note_failure(stream, status, text);
    ferryi_mutex_unlock(&context->stream_mutex);
}

static void
let_go(struct ferryi_host_call *call)
{
    if (atomic_fetch_sub(&call->parties, 1) == 1)
        call_end(call);
}

static void
run_body(void *user)
{
    struct ferryi_host_call *call = user;
    char text[FAILURE_BYTES];
    ferry_status status = call->failure;
    if (status != FERRY_OK)
        snprintf(text, sizeof(text), "%s", call->failure_text);
    else
        status = check_inputs(call, text, sizeof(text));
    if (status == FERRY_OK)
        status = call_checked(call, text, sizeof(text));
    if (status != FERRY_OK) {
        for (size_t i = 0; i < call->use_count; i++)
            ferryi_pending_calls_fail(&call->uses[i], status, text);
        report_to_stream(call, status, text);
        if (call->result) {
            call->result->failure = status;
            memcpy(call->result->text, text, sizeof(text));
        }
    }
    let_go(call);
}

/* -- the launching thread's part --------------------------------------------------------------- */

ferry_status
ferryi_host_call_queue(struct ferryi_host_call *call, ferryi_timeline *timeline)
{
    ferry_status status =
        FERRYI_CALL(timeline->device, host_call, timeline->native, run_body, call);
    if (status != FERRY_OK)
        call_end(call);
    return status;
}

void
ferryi_host_call_commit(struct ferryi_host_call *call)
{
    for (size_t i = 0; i < call->use_count; i++)
        ferryi_pending_calls_commit(&call->uses[i]);
}

void
ferryi_host_call_committed(struct ferryi_host_call *call)
{
    for (size_t i = 0; i < call->use_count; i++)
        ferryi_pending_calls_queued(&call->uses[i], call->timeline);
    let_go(call);
}
