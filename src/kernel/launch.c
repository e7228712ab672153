/* SPDX-License-Identifier: MIT */
#include "src/kernel/launch.h"

#include <ferry/generated.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/hold.h"
#include "src/buffer/buffer.h"
#include "src/debug/guard_pages.h"
#include "src/store/watch.h"

/* -- checks of the arguments, in the order of the parameters, before any bytes move ------------ */

static const char *
element_name(const ferry_element *element)
{
    return element && element->name ? element->name : "a struct without an element";
}

static ferry_status
wrong_type(const ferry_argument *argument, const ferry_parameter *parameter)
{
    return ferryi_fail(FERRY_ERROR_WRONG_TYPE, "it is %s, but the parameter is %s%s",
                       element_name(argument->element), element_name(parameter->element),
                       ferryi_element_namesake(argument->element, parameter->element));
}

/* Used with debug checks: fails if the value of a kernel argument is a pointer that the program got
 * from a scope at the host. Called only if the device of the launch cannot access the host's
 * memory. */
static ferry_status
refuse_host_address(const ferry_argument *argument)
{
    char name[64];
    void *value;
    memcpy(&value, argument->value.bytes, sizeof(value));
    if (!ferryi_guard_pages_name(value, name, sizeof(name)))
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                       "it is %p, an address of buffer \"%s\" on the host; pass the buffer", value,
                       name);
}

static ferry_status
check_value(const struct ferryi_launch_request *plan, size_t i)
{
    const ferry_kernel *kernel = plan->kernel;
    const ferry_argument *argument = &plan->arguments[i];
    const ferry_parameter *parameter = &kernel->parameters[i];
    if (!argument->is_value)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "it is a buffer, but the parameter is a value");
    if (argument->bytes == 0 || !ferryi_is_power_of_two(argument->align) ||
        (argument->bytes > FERRY_VALUE_BYTES && !argument->pointer))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "it is a value of %zu bytes, aligned to %zu%s", argument->bytes,
                           argument->align, argument->bytes > FERRY_VALUE_BYTES ? ", at NULL" : "");
    if (kernel->context->debug && !(kernel->context->coherent >> plan->timeline->place & 1) &&
        argument->bytes == sizeof(void *)) {
        FERRYI_OR_RETURN(refuse_host_address(argument));
    }
    if (!parameter->element)
        return FERRY_OK;
    if (!ferryi_same_element(parameter->element, argument->element) ||
        argument->bytes != parameter->element->bytes)
        return wrong_type(argument, parameter);
    return FERRY_OK;
}

static ferry_status
check_result(const struct ferryi_launch_request *plan, size_t i)
{
    const ferry_parameter *parameter = &plan->kernel->parameters[i];
    if (!ferryi_same_element(parameter->element, plan->arguments[i].element))
        return wrong_type(&plan->arguments[i], parameter);
    if (parameter->access == FERRY_READ)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "it is memory for a result, but the kernel only reads it");
    if (!ferryi_launch_is_here(plan))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "it is memory for a result, which only a host function on this thread "
                           "can write; pass a buffer");
    return FERRY_OK;
}

static ferry_status
check_array(struct ferryi_launch_request *plan, size_t i)
{
    const ferry_kernel *kernel = plan->kernel;
    const ferry_argument *argument = &plan->arguments[i];
    const ferry_parameter *parameter = &kernel->parameters[i];
    if (argument->is_value)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "it is a value, but the parameter is an array of %s",
                           element_name(parameter->element));
    if (!argument->buffer && argument->pointer)
        return check_result(plan, i);
    if (!argument->buffer || !argument->element)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "it is an empty handle");
    if (!ferryi_same_element(parameter->element, argument->element))
        return wrong_type(argument, parameter);
    struct ferryi_range range;
    FERRYI_OR_RETURN(ferryi_buffer_check(argument->buffer, parameter->element, parameter->access,
                                         argument->offset, argument->count, NULL, &range));
    ferryi_store *store = argument->buffer->store;
    if (store->context != kernel->context)
        return ferryi_fail(FERRY_ERROR_WRONG_CONTEXT, "buffer \"%s\" belongs to another context",
                           ferryi_store_name(store));
    if (range.begin == range.end)
        return FERRY_OK;
    /* What the kernel leaves unwritten keeps its value. */
    bool keeps = argument->access == FERRY_UPDATE && parameter->access == FERRY_OVERWRITE;
    plan->index[i] = plan->wanted_count;
    plan->wanted[plan->wanted_count++] =
        (struct ferryi_access){.store = store,
                               .begin = range.begin,
                               .end = range.end,
                               .access = (uint8_t)(keeps ? FERRY_UPDATE : parameter->access),
                               .place = (uint8_t)plan->timeline->place,
                               .is_launch = true,
                               .timeline = plan->timeline,
                               .reason = "launch"};
    return FERRY_OK;
}

static ferry_status
check_arguments(struct ferryi_launch_request *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        plan->index[i] = SIZE_MAX;
        bool is_array = plan->kernel->parameters[i].access != 0;
        ferry_status status = is_array ? check_array(plan, i) : check_value(plan, i);
        if (status != FERRY_OK) {
            char name[FERRYI_PARAMETER_NAME_BYTES];
            ferryi_parameter_name(&plan->kernel->parameters[i], name);
            return ferryi_fail_in(status, "argument %zu%s", i, name);
        }
    }
    return FERRY_OK;
}

/* -- what the host functions see --------------------------------------------------------------- */

void *
ferryi_launch_array(const struct ferryi_launch_request *plan, size_t i)
{
    /* The pointer is NULL for an empty array. */
    if (plan->index[i] == SIZE_MAX)
        return (void *)(uintptr_t)plan->arguments[i].pointer;
    const struct ferryi_access *access = &plan->merged[plan->group[plan->index[i]]];
    return (char *)access->pointer + (plan->wanted[plan->index[i]].begin - access->begin);
}

const void *
ferryi_launch_value(const struct ferryi_launch_request *plan, size_t i)
{
    const ferry_argument *argument = &plan->arguments[i];
    return argument->bytes > FERRY_VALUE_BYTES ? argument->pointer : argument->value.bytes;
}

/* -- queueing ---------------------------------------------------------------------------------- */

static ferry_status
queue_code(const struct ferryi_launch_request *plan, struct ferryi_loaded_code *code)
{
    void **addresses = plan->addresses, **arrays = addresses + plan->count;
    for (size_t i = 0; i < plan->count; i++) {
        arrays[i] = ferryi_launch_array(plan, i);
        bool is_array = plan->kernel->parameters[i].access != 0;
        addresses[i] =
            is_array ? (void *)&arrays[i] : (void *)(uintptr_t)ferryi_launch_value(plan, i);
        plan->bytes[i] = is_array ? FERRYI_LAUNCH_ADDRESS : plan->arguments[i].bytes;
    }
    struct ferryi_launch launch = {.function = code->function,
                                   .grid = plan->grid,
                                   .arguments = addresses,
                                   .bytes = plan->bytes,
                                   .count = plan->count};
    ferry_status status =
        FERRYI_CALL(plan->timeline->device, launch, &launch, plan->timeline->native);
    if (status == FERRY_OK)
        ferryi_kernel_note_use(code, plan->timeline);
    return status;
}

/* Closes the buffer accesses of a launch. The commit itself cannot fail, but recording the launch's
 * use of the memory can. Such a failure is only logged, because the driver has accepted the launch.
 * ferryi_timeline_join() has then already waited for the launch's work. */
static void
close_accesses(const struct ferryi_launch_request *plan, enum ferryi_close how)
{
    if (ferryi_access_close_all(plan->merged, plan->merged_count, how, plan->timeline) !=
            FERRY_OK &&
        how == FERRYI_CLOSE_COMMIT)
        ferryi_log(&plan->kernel->context->log, FERRY_LOG_WARNING, "launch kernel \"%s\": %s",
                   plan->kernel->name, ferry_last_error());
}

/* Queues the device code or the host function of a launch. Then commits the writes of the launch's
 * accesses, which must be open. If queueing fails, cancels the accesses. If `failure` is not
 * FERRY_OK, the host function has failed before with the message `text`, and the launch only
 * reports it. */
static ferry_status
queue_body(const struct ferryi_launch_request *plan, struct ferryi_loaded_code *code,
           ferry_status failure, const char *text)
{
    struct ferryi_host_call *call = NULL;
    ferry_status status =
        code ? queue_code(plan, code) : ferryi_host_call_make(plan, failure, text, &call);
    if (status == FERRY_OK && call)
        status = ferryi_host_call_queue(call, plan->timeline);
    if (status == FERRY_OK) {
        if (call)
            ferryi_host_call_commit(call);
        close_accesses(plan, FERRYI_CLOSE_COMMIT);
        if (call)
            ferryi_host_call_committed(call);
        return FERRY_OK;
    }
    FERRYI_KEEP_ERROR(why);
    close_accesses(plan, FERRYI_CLOSE_CANCEL);
    return status;
}

ferry_status
ferryi_launch_queue_call(const struct ferryi_launch_request *plan)
{
    return queue_body(plan, NULL, FERRY_OK, NULL);
}

static ferry_status
find_body(const struct ferryi_launch_request *plan, struct ferryi_loaded_code **out_code)
{
    int place = plan->timeline->place;
    *out_code = NULL;
    switch (ferryi_kernel_body_at(plan->kernel, place)) {
    case FERRYI_BODY_HOST:
        return FERRY_OK;
    case FERRYI_BODY_CODE:
        return ferryi_kernel_code_at(plan->kernel, place, out_code);
    case FERRYI_BODY_NONE:
        break;
    }
    return ferryi_codes_refuse(&plan->kernel->codes, plan->kernel->host_function,
                               plan->kernel->context->devices[place],
                               plan->kernel->context->names[place]);
}

/* Returns the failure of the host function if an argument is memory for a result. */
static ferry_status
result_of(const struct ferryi_launch_request *plan)
{
    if (plan->result->failure == FERRY_OK)
        return FERRY_OK;
    for (size_t i = 0; i < plan->count; i++)
        if (!plan->arguments[i].is_value && !plan->arguments[i].buffer)
            return ferryi_fail(plan->result->failure, "%s", plan->result->text);
    return FERRY_OK;
}

/* Runs the host function on this thread. The accesses are those of ferryi_launch_open_here(). */
static ferry_status
run_here(const struct ferryi_launch_request *plan)
{
    char text[FERRYI_HOST_CALL_FAILURE_BYTES];
    ferry_status failure = ferryi_host_call_run(plan, text);
    if (failure != FERRY_OK) {
        FERRYI_OR_RETURN(queue_body(plan, NULL, failure, text));
        return result_of(plan);
    }
    ferryi_launch_close_here(plan);
    return FERRY_OK;
}

static ferry_status
launch(struct ferryi_launch_request *plan)
{
    struct ferryi_loaded_code *code;
    FERRYI_OR_RETURN(check_arguments(plan));
    FERRYI_OR_RETURN(find_body(plan, &code));
    if (ferryi_timeline_recording(plan->timeline))
        return ferryi_launch_record(plan, code, queue_code);
    if (!code && plan->count <= FERRYI_FEW_ARGUMENTS && ferryi_launch_open_here(plan))
        return run_here(plan);
    plan->merged_count =
        ferryi_access_merge(plan->wanted, plan->wanted_count, plan->merged, plan->group);
    if (plan->merged_count < plan->wanted_count)
        FERRYI_OR_RETURN(ferryi_launch_check_overlaps(plan));
    ferryi_hold_begin();
    ferry_status status = ferryi_access_open(plan->merged, plan->merged_count);
    if (status == FERRY_OK)
        status = queue_body(plan, code, FERRY_OK, NULL);
    ferryi_hold_end();
    if (status == FERRY_OK)
        status = result_of(plan);
    if (status == FERRY_OK)
        ferryi_watch_launch(plan->kernel->context, plan->kernel->name, plan->timeline,
                            plan->span.begun_ns);
    return status;
}

static bool
has_rest(const ferry_argument *arguments, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!arguments[i].is_value && arguments[i].count == FERRY_REST)
            return true;
    return false;
}

/* Launches the kernel. Repeats the launch if an argument is the rest of a buffer that another
 * thread resized before the range was locked. */
static ferry_status
launch_until_fits(struct ferryi_launch_request *plan)
{
    ferry_status status;
    do {
        plan->wanted_count = 0;
        status = launch(plan);
    } while (ferryi_buffer_starts_over(status, FERRY_REST) &&
             has_rest(plan->arguments, plan->count));
    return status;
}

/* Provides memory for the arrays of a launch request, and launches the kernel. */
static ferry_status
launch_with_arrays(struct ferryi_launch_request *plan)
{
    struct {
        struct ferryi_access accesses[2 * FERRYI_FEW_ARGUMENTS];
        size_t numbers[3 * FERRYI_FEW_ARGUMENTS];
        void *addresses[2 * FERRYI_FEW_ARGUMENTS];
    } few;
    void *many = NULL;
    plan->wanted = few.accesses;
    plan->index = few.numbers;
    plan->addresses = few.addresses;
    if (plan->count > FERRYI_FEW_ARGUMENTS) {
        many = calloc(plan->count, sizeof(few) / FERRYI_FEW_ARGUMENTS);
        if (!many)
            return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu arguments",
                               plan->count);
        plan->wanted = many;
        plan->index = (size_t *)(void *)(plan->wanted + 2 * plan->count);
        plan->addresses = (void **)(void *)(plan->index + 3 * plan->count);
    }
    plan->merged = plan->wanted + plan->count;
    plan->group = plan->index + plan->count;
    plan->bytes = plan->group + plan->count;
    ferry_status status = launch_until_fits(plan);
    free(many);
    return status;
}

ferry_status
ferryi_kernel_is_null(void)
{
    return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                       "launch a kernel: it is NULL; generated kernels exist once "
                       "PREFIX_kernels_create() has succeeded");
}

ferry_status
ferry_kernel_launch(ferry_kernel *kernel, ferry_grid grid, ferry_stream *stream,
                    const ferry_argument *arguments, size_t argument_count)
{
    if (!kernel)
        return ferryi_kernel_is_null();
    if (atomic_load_explicit(&kernel->dead, memory_order_relaxed))
        return ferryi_fail(FERRY_ERROR_INVALID_STATE, "launch kernel \"%s\": it was destroyed",
                           kernel->name);
    ferryi_timeline *timeline;
    FERRYI_OR_RETURN(ferryi_shell_check_open(kernel->context, "launch a kernel"));
    FERRYI_OR_RETURN(
        ferryi_stream_find_timeline(kernel->context, stream, "launch a kernel", &timeline));
    if (argument_count != kernel->parameter_count || (argument_count > 0 && !arguments))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "launch kernel \"%s\": it takes %zu arguments, but there %s %zu%s",
                           kernel->name, kernel->parameter_count,
                           argument_count == 1 ? "is" : "are", argument_count,
                           argument_count > 0 && !arguments ? " at NULL" : "");
    FERRYI_OR_RETURN(ferryi_launch_complete_grid(kernel, timeline, &grid));
    struct ferryi_launch_result result;
    result.failure = FERRY_OK;
    struct ferryi_launch_request plan = {
        .kernel = kernel,
        .result = &result,
        .stream = stream ? stream : kernel->context->defaults[timeline->place],
        .timeline = timeline,
        .grid = &grid,
        .arguments = arguments,
        .count = argument_count};
    plan.span = ferryi_span_begin(kernel->context->trace, "launch", kernel->name, NULL);
    ferry_status status = launch_with_arrays(&plan);
    ferryi_span_end(plan.span);
    return status == FERRY_OK ? status
                              : ferryi_fail_in(status, "launch kernel \"%s\"", kernel->name);
}

int
ferry_kernel_runs_here(const ferry_kernel *kernel, ferry_stream *stream)
{
    if (!kernel || atomic_load_explicit(&kernel->dead, memory_order_relaxed) ||
        atomic_load_explicit(&kernel->context->closed, memory_order_relaxed))
        return 0;
    const ferry_context *context = kernel->context;
    if (!stream && context->place_count == 1)
        stream = context->defaults[1];
    if (!stream || stream->context != context)
        return 0;
    return (stream->timeline->device->capabilities & FERRYI_DEVICE_CALLS_HERE) != 0;
}
