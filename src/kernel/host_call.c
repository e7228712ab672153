/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/buffer/bodies.h"
#include "src/buffer/element.h"
#include "src/kernel/launch.h"

/*
 * A queued launch of a host body. It owns copies of everything that the body sees, so kernel, arguments and handles may go
 * meanwhile. Two parties hold it: the launching thread until what the launch writes is committed, and the device until the body
 * has run. The second to let go takes the writes back when the body failed, wherever the body runs: in the launch
 * itself, or long after.
 *
 * It holds no reference to buffers or streams, whose last release may need the driver, which a body's thread may not
 * call. Buffers are reached through their links (bodies.h), a stream is looked up: who is gone by then has nothing left to lose.
 *
 * A call knows those whose writes it reads. The device runs them first, so that their status is known when its own turn comes.
 */

/* A range that the launch uses. */
struct use {
    struct ferryi_bodies *bodies; /* with a pending body counted, if it writes */
    size_t begin, end;
    uint8_t access;
    struct ferryi_body_write write;
};

struct ferryi_host_call {
    atomic_int parties;
    atomic_int references; /* of the two parties together, and of each call that waits for what this one writes */
    ferry_context *context; /* waits for all its work before it ends */
    ferry_host_body *body;
    void *user;
    ferry_stream *stream; /* only compared, as its lane is */
    ferryi_lane *lane;
    uint32_t generation;
    int place;
    ferry_status status;
    struct use *uses;
    size_t use_count;
    struct ferryi_host_call **inputs; /* calls that write what this one reads, queued before it; counted */
    size_t input_count, input_room;
    char *name; /* of the kernel */
    struct ferry_call call;
    char text[FERRYI_CALL_TEXT_BYTES];
};

/* -- making ---------------------------------------------------------------------------------------- */

/* Where the parts lie in the one block of memory. */
struct layout {
    size_t arguments, uses, name, values; /* offsets; values one by one from there */
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
is_value(const struct ferryi_launch_plan *plan, size_t i)
{
    return plan->kernel->parameters[i].access == 0;
}

static bool
lay_out(const struct ferryi_launch_plan *plan, struct layout *out)
{
    struct layout l = {.align = _Alignof(max_align_t), .bytes = sizeof(struct ferryi_host_call)};
    bool fits = place_part(&l.bytes, l.align, plan->count, sizeof(struct ferryi_call_argument), &l.arguments) &&
                place_part(&l.bytes, l.align, plan->merged_count, sizeof(struct use), &l.uses) &&
                place_part(&l.bytes, 1, strlen(plan->kernel->name) + 1, 1, &l.name);
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

static ferry_status
copy_arguments(const struct ferryi_launch_plan *plan, char *block, const struct layout *l)
{
    struct ferryi_call_argument *arguments = (struct ferryi_call_argument *)(void *)(block + l->arguments);
    size_t end = l->values, at = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const ferry_argument *argument = &plan->arguments[i];
        arguments[i] = (struct ferryi_call_argument){.element = plan->kernel->parameters[i].element, .is_value = is_value(plan, i)};
        if (!arguments[i].is_value) {
            arguments[i].pointer = ferryi_launch_array(plan, i);
            arguments[i].count = 0;
            if (plan->index[i] != SIZE_MAX) {
                const struct ferryi_access *wanted = &plan->wanted[plan->index[i]];
                arguments[i].count = (wanted->end - wanted->begin) / arguments[i].element->bytes;
            }
            continue;
        }
        /* A parameter that takes any struct still tells the body which element came. */
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

static void
note_input(void *body, void *user)
{
    struct ferryi_host_call *call = user, *input = body;
    if (call->input_count == call->input_room) {
        size_t room = call->input_room ? 2 * call->input_room : 4;
        struct ferryi_host_call **grown = realloc(call->inputs, room * sizeof(*grown));
        if (!grown) {
            call->status = FERRY_ERROR_OUT_OF_MEMORY;
            return;
        }
        call->inputs = grown;
        call->input_room = room;
    }
    atomic_fetch_add(&input->references, 1);
    call->inputs[call->input_count++] = input;
}

static ferry_status
follow_inputs(struct ferryi_host_call *call, const struct use *use)
{
    if (use->access == FERRY_OVERWRITE)
        return FERRY_OK;
    ferry_status status = ferryi_bodies_inputs(use->bodies, use->begin, use->end, note_input, call);
    if (call->status != FERRY_OK)
        return ferryi_fail(call->status, "no memory to follow the kernels that write its input");
    return status;
}

static ferry_status
follow_stores(const struct ferryi_launch_plan *plan, struct ferryi_host_call *call)
{
    for (size_t i = 0; i < plan->merged_count; i++) {
        const struct ferryi_access *access = &plan->merged[i];
        struct use *use = &call->uses[i];
        *use = (struct use){.begin = access->begin, .end = access->end, .access = access->access};
        ferry_status status = ferryi_bodies_add(access->store, use->access != FERRY_READ, &use->bodies);
        if (status != FERRY_OK)
            return status;
        call->use_count++;
        status = follow_inputs(call, use);
        if (status != FERRY_OK)
            return status;
        use->write = (struct ferryi_body_write){.begin = use->begin, .end = use->end, .body = call};
        if (use->access != FERRY_READ)
            ferryi_bodies_expect(use->bodies, &use->write);
    }
    return FERRY_OK;
}

static void
release(struct ferryi_host_call *call)
{
    if (atomic_fetch_sub(&call->references, 1) == 1)
        free(call);
}

/* What it writes comes to be lost when its status says so, with the text; then nothing follows it any more. */
static void
call_end(struct ferryi_host_call *call, const char *text)
{
    for (size_t i = 0; i < call->use_count; i++) {
        struct use *use = &call->uses[i];
        if (use->access != FERRY_READ)
            ferryi_bodies_settle(use->bodies, call, call->place, text ? call->status : FERRY_OK, text);
        ferryi_bodies_remove(use->bodies, use->access != FERRY_READ);
    }
    for (size_t i = 0; i < call->input_count; i++)
        release(call->inputs[i]);
    free(call->inputs);
    call->inputs = NULL;
    call->input_count = 0;
    release(call);
}

ferry_status
ferryi_host_call_make(const struct ferryi_launch_plan *plan, struct ferryi_host_call **out)
{
    struct layout l;
    char *block = lay_out(plan, &l) ? aligned_alloc(l.align, l.bytes) : NULL;
    if (!block)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for a copy of %zu arguments", plan->count);
    struct ferryi_host_call *call = (struct ferryi_host_call *)(void *)block;
    *call = (struct ferryi_host_call){.context = plan->kernel->context, .body = plan->kernel->host_body,
                                      .user = plan->kernel->user, .stream = plan->stream, .lane = plan->lane,
                                      .generation = plan->lane->generation, .place = plan->lane->place};
    atomic_init(&call->parties, 2);
    atomic_init(&call->references, 1);
    call->uses = (struct use *)(void *)(block + l.uses);
    call->name = memcpy(block + l.name, plan->kernel->name, strlen(plan->kernel->name) + 1);
    call->call = (struct ferry_call){.grid = plan->grid, .count = plan->count, .text = call->text,
                                     .arguments = (struct ferryi_call_argument *)(void *)(block + l.arguments)};
    ferry_status status = copy_arguments(plan, block, &l);
    if (status == FERRY_OK)
        status = follow_stores(plan, call);
    if (status != FERRY_OK) {
        call_end(call, NULL);
        return status;
    }
    *out = call;
    return FERRY_OK;
}

/* -- the end --------------------------------------------------------------------------------------- */

/* What an earlier failure took from the input. */
static ferry_status
check_inputs(struct ferryi_host_call *call)
{
    for (size_t i = 0; i < call->input_count; i++) {
        const struct ferryi_host_call *input = call->inputs[i];
        if (input->status == FERRY_OK)
            continue;
        /* A long chain is told as far as there is room. */
        snprintf(call->text, sizeof(call->text), "its input was lost: run the host body of kernel \"%.60s\": %.380s", input->name, input->text);
        return input->status;
    }
    return FERRY_OK;
}

static void
tell_stream(struct ferryi_host_call *call, const char *text)
{
    ferry_context *context = call->context;
    ferryi_mutex_lock(&context->stream_mutex);
    ferry_stream *stream = context->streams;
    while (stream && !(stream == call->stream && stream->lane == call->lane && call->lane->generation == call->generation))
        stream = stream->next;
    if (stream)
        ferryi_stream_note_failure(stream, call->status, text);
    ferryi_mutex_unlock(&context->stream_mutex);
}

static void
let_go(struct ferryi_host_call *call)
{
    if (atomic_fetch_sub(&call->parties, 1) != 1)
        return;
    if (call->status == FERRY_OK) {
        call_end(call, NULL);
        return;
    }
    char text[FERRYI_CALL_TEXT_BYTES + 256];
    snprintf(text, sizeof(text), "run the host body of kernel \"%s\": %s", call->name, call->text);
    tell_stream(call, text);
    call_end(call, text);
}

/* A failure without a sentence has its number: it may be none of ours. */
static ferry_status
call_body(struct ferryi_host_call *call)
{
    ferry_status status = call->body(&call->call, call->user);
    if (status != FERRY_OK && !call->text[0])
        snprintf(call->text, sizeof(call->text), "it returned %d, %s", (int)status, ferry_status_name(status));
    return status;
}

static void
run_body(void *user)
{
    struct ferryi_host_call *call = user;
    call->status = check_inputs(call);
    if (call->status == FERRY_OK)
        call->status = call_body(call);
    let_go(call);
}

ferry_status
ferryi_host_call_queue(struct ferryi_host_call *call, ferryi_lane *lane)
{
    ferry_status status = FERRYI_CALL(lane->device, host_call, lane->native, run_body, call);
    if (status != FERRY_OK)
        call_end(call, NULL);
    return status;
}

void
ferryi_host_call_commit(struct ferryi_host_call *call)
{
    for (size_t i = 0; i < call->use_count; i++)
        if (call->uses[i].access == FERRY_OVERWRITE)
            ferryi_bodies_take_over(call->uses[i].bodies, call, call->uses[i].begin, call->uses[i].end);
}

void
ferryi_host_call_committed(struct ferryi_host_call *call)
{
    for (size_t i = 0; i < call->use_count; i++)
        if (call->uses[i].access != FERRY_READ)
            ferryi_bodies_queued(call->uses[i].bodies, call->lane);
    let_go(call);
}
