/* SPDX-License-Identifier: MIT */
#include "src/kernel/call_check.h"

#include <assert.h>
#include <ferry/generated.h>

#include <stdlib.h>
#include <string.h>

/* An OVERWRITE array is unwritten where at least this number of successive bytes hold the pattern.
 * Fewer may be padding of a struct, or a value that equals the pattern by chance. */
enum { UNWRITTEN_BYTES = 16 };

static size_t
bytes_of(const struct ferryi_call_argument *argument)
{
    assert(argument->element);
    const size_t bytes = argument->count * argument->element->bytes;
    assert(bytes > 0);
    return bytes;
}

static bool
is_array(const struct ferryi_call_argument *argument)
{
    return !argument->is_value && argument->access != 0 && argument->count > 0;
}

/* Returns whether the memory of an array overlaps another one, of which the function writes one.
 * Such a kernel works in place, and sees in one array what it writes to the other. */
static bool
is_shared(const ferry_call *call, size_t i)
{
    const struct ferryi_call_argument *one = &call->arguments[i];
    uintptr_t begin = (uintptr_t)one->pointer, end = begin + bytes_of(one);
    for (size_t j = 0; j < call->count; j++) {
        const struct ferryi_call_argument *other = &call->arguments[j];
        if (j == i || !is_array(other) ||
            (one->access == FERRY_READ && other->access == FERRY_READ))
            continue;
        uintptr_t other_begin = (uintptr_t)other->pointer;
        if (begin < other_begin + bytes_of(other) && other_begin < end)
            return true;
    }
    return false;
}

static bool
is_checked(const ferry_call *call, size_t i, ferry_access access)
{
    const struct ferryi_call_argument *argument = &call->arguments[i];
    return is_array(argument) && argument->access == access && !is_shared(call, i);
}

/* Returns a number that differs from call to call. Its bytes are no values that kernels often
 * write. */
static uint64_t
draw_pattern(void)
{
    static _Atomic uint64_t calls;
    uint64_t x = (atomic_fetch_add(&calls, 1) + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (x ^ x >> 27) | UINT64_C(0x8040201008040201);
}

static void
fill(void *bytes, size_t count, uint64_t pattern)
{
    size_t words = count / sizeof(pattern);
    for (size_t i = 0; i < words; i++)
        memcpy((char *)bytes + i * sizeof(pattern), &pattern, sizeof(pattern));
    memcpy((char *)bytes + words * sizeof(pattern), &pattern, count % sizeof(pattern));
}

void
ferryi_call_check_begin(ferry_call *call, struct ferryi_call_check *check)
{
    size_t largest = 1, align = sizeof(void *);
    call->check = check;
    check->pattern = draw_pattern();
    check->arrays = calloc(call->count, sizeof(*check->arrays));
    for (size_t i = 0; i < call->count; i++) {
        const struct ferryi_call_argument *argument = &call->arguments[i];
        if (!argument->is_value && argument->element) {
            largest = ferryi_max_size(largest, argument->element->bytes);
            align = ferryi_max_size(align, argument->element->align);
        }
        if (is_checked(call, i, FERRY_OVERWRITE))
            fill(argument->pointer, bytes_of(argument), check->pattern);
        if (!check->arrays || !is_checked(call, i, FERRY_READ))
            continue;
        check->arrays[i].copy = malloc(bytes_of(argument));
        if (check->arrays[i].copy)
            memcpy(check->arrays[i].copy, argument->pointer, bytes_of(argument));
    }
    if (ferryi_round_up(largest, align, &largest))
        check->outside = aligned_alloc(align, largest);
}

/* Returns the offset of the first of at least UNWRITTEN_BYTES successive bytes that hold the
 * pattern; SIZE_MAX if there are none. */
static size_t
find_unwritten(const unsigned char *bytes, size_t count, uint64_t pattern)
{
    unsigned char expected[sizeof(pattern)];
    memcpy(expected, &pattern, sizeof(pattern));
    size_t run = 0;
    for (size_t i = 0; i < count; i++) {
        run = bytes[i] == expected[i % sizeof(pattern)] ? run + 1 : 0;
        if (run == UNWRITTEN_BYTES)
            return i + 1 - UNWRITTEN_BYTES;
    }
    return SIZE_MAX;
}

static size_t
find_difference(const unsigned char *bytes, const unsigned char *before, size_t count)
{
    if (memcmp(bytes, before, count) == 0)
        return SIZE_MAX;
    size_t i = 0;
    while (bytes[i] == before[i])
        i++;
    return i;
}

/* Returns the first whole element that begins at byte `at` or later. */
static size_t
element_from(const struct ferryi_call_argument *argument, size_t at)
{
    size_t bytes = argument->element->bytes;
    return at / bytes + (at % bytes > 0 && at / bytes + 1 < argument->count);
}

void
ferryi_call_check_end(const ferry_call *call)
{
    const struct ferryi_call_check *check = call->check;
    for (size_t i = 0; i < call->count; i++) {
        const struct ferryi_call_argument *argument = &call->arguments[i];
        const char *name = argument->name ? argument->name : "";
        const void *copy = check->arrays ? check->arrays[i].copy : NULL;
        size_t at;
        if (copy && (at = find_difference(argument->pointer, copy, bytes_of(argument))) != SIZE_MAX)
            ferryi_log(check->log, FERRY_LOG_ERROR,
                       "run the host function of kernel \"%s\": it changed element %zu of argument "
                       "%zu \"%s\", %zu elements that its parameter only reads; declare the "
                       "parameter FERRY_UPDATE",
                       check->kernel_name, at / argument->element->bytes, i, name, argument->count);
        if (is_checked(call, i, FERRY_OVERWRITE) &&
            (at = find_unwritten(argument->pointer, bytes_of(argument), check->pattern)) !=
                SIZE_MAX)
            ferryi_log(check->log, FERRY_LOG_ERROR,
                       "run the host function of kernel \"%s\": it left element %zu of argument "
                       "%zu \"%s\" unwritten, of %zu elements that its parameter overwrites; "
                       "declare the parameter FERRY_UPDATE, or write every element",
                       check->kernel_name, element_from(argument, at), i, name, argument->count);
    }
}

void
ferryi_call_check_free(ferry_call *call)
{
    struct ferryi_call_check *check = call->check;
    for (size_t i = 0; check->arrays && i < call->count; i++)
        free(check->arrays[i].copy);
    free(check->arrays);
    free(check->outside);
    call->check = NULL;
}

/* -- indices ----------------------------------------------------------------------------------- */

int
ferry_call_is_checked(const ferry_call *call)
{
    return call && call->check && call->check->arrays && call->check->outside;
}

/* Only the first index outside of an array is reported, because one mistake makes many. */
static void
report_outside(const ferry_call *call, size_t index, int64_t at)
{
    const struct ferryi_call_argument *argument = &call->arguments[index];
    struct ferryi_checked_array *array = &call->check->arrays[index];
    if (!array->is_reported)
        ferryi_log(call->check->log, FERRY_LOG_ERROR,
                   "run the host function of kernel \"%s\": it used index %lld of argument %zu "
                   "\"%s\", which has %zu elements; it read zeros there, and what it wrote there "
                   "is lost",
                   call->check->kernel_name, (long long)at, index,
                   argument->name ? argument->name : "", argument->count);
    array->is_reported = true;
}

void *
ferry_call_element(const ferry_call *call, size_t index, int64_t at)
{
    if (!ferry_call_is_checked(call) || index >= call->count || call->arguments[index].is_value)
        return NULL;
    const struct ferryi_call_argument *argument = &call->arguments[index];
    size_t bytes = argument->element->bytes;
    if (at >= 0 && (uint64_t)at < argument->count)
        return (char *)argument->pointer + (size_t)at * bytes;
    report_outside(call, index, at);
    return memset(call->check->outside, 0, bytes);
}
