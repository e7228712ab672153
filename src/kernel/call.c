/* SPDX-License-Identifier: MIT */
#include "src/kernel/call.h"

#include "src/kernel/host_threads.h"

#include <stdio.h>
#include <string.h>

static const struct ferryi_call_argument *
find(const ferry_call *call, const ferry_element *element, size_t index, bool is_value)
{
    if (!call || index >= call->count)
        return NULL;
    const struct ferryi_call_argument *argument = &call->arguments[index];
    if (argument->is_value != is_value ||
        (element && !ferryi_same_element(argument->element, element)))
        return NULL;
    return argument;
}

void *
ferry_call_array(const ferry_call *call, const ferry_element *element, size_t index,
                 size_t *out_count)
{
    const struct ferryi_call_argument *argument = find(call, element, index, false);
    if (out_count)
        *out_count = argument ? argument->count : 0;
    return argument ? argument->pointer : NULL;
}

const void *
ferry_call_value(const ferry_call *call, const ferry_element *element, size_t index,
                 size_t *out_bytes)
{
    const struct ferryi_call_argument *argument = find(call, element, index, true);
    if (out_bytes)
        *out_bytes = argument ? argument->bytes : 0;
    return argument ? argument->pointer : NULL;
}

size_t
ferry_call_size(const ferry_call *call, size_t index)
{
    const struct ferryi_call_argument *argument = find(call, ferry_size_element(), index, true);
    size_t value = 0;
    if (argument)
        memcpy(&value, argument->pointer, sizeof(value));
    return value;
}

ferry_grid
ferry_call_grid(const ferry_call *call)
{
    return call ? call->grid : (ferry_grid){.shared_bytes = 0};
}

void
ferry_call_fail(const ferry_call *call, const char *message)
{
    char *part = ferryi_host_threads_text;
    if (call && message)
        snprintf(part ? part : call->text, FERRYI_CALL_TEXT_BYTES, "%s", message);
}

ferry_status
ferry_call_parallel(const ferry_call *call, size_t count, size_t grain, ferry_part_function *run,
                    void *user)
{
    if (!call || !run || grain == 0)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "run parts of a host function: %s",
                           !call  ? "the call is NULL"
                           : !run ? "run is NULL"
                                  : "grain is 0; pass the number of items of a part");
    struct ferryi_parts parts = {.count = count, .grain = grain, .run = run, .user = user};
    char *part = ferryi_host_threads_text;
    return ferryi_host_threads_run(call->threads, &parts, part ? part : call->text);
}
