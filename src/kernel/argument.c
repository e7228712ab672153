/* SPDX-License-Identifier: MIT */
#include <ferry/generated.h>

#include <string.h>

#define DEFAULT_THREADS 256
#define BLOCKS_MAX      INT32_MAX

ferry_grid
ferry_grid_for(size_t items, uint32_t threads)
{
    if (threads == 0)
        threads = DEFAULT_THREADS;
    size_t blocks = items / threads + (items % threads != 0);
    if (blocks == 0)
        blocks = 1;
    if (blocks > BLOCKS_MAX)
        blocks = BLOCKS_MAX;
    return (ferry_grid){.blocks = {(uint32_t)blocks, 1, 1}, .threads = {threads, 1, 1}};
}

ferry_argument
ferry_buffer_argument(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                      size_t count)
{
    return (ferry_argument){.element = element, .buffer = buffer, .offset = offset, .count = count};
}

ferry_argument
ferry_argument_with(ferry_argument argument, ferry_access access)
{
    argument.access = access;
    return argument;
}

/* Makes a kernel argument from a value. If the value is larger than FERRY_VALUE_BYTES, it is not
 * copied: the argument points to it, and the launch reads it. A value of zero bytes makes the
 * launch fail. */
static ferry_argument
make_value(const ferry_element *element, const void *value, size_t bytes, size_t align)
{
    ferry_argument argument = {
        .element = element, .bytes = value ? bytes : 0, .align = align, .is_value = 1};
    if (argument.bytes > FERRY_VALUE_BYTES)
        argument.pointer = value;
    else if (argument.bytes > 0)
        memcpy(argument.value.bytes, value, bytes);
    return argument;
}

ferry_argument
ferry_element_value(const ferry_element *element, const void *value)
{
    return make_value(element, value, element ? element->bytes : 0, element ? element->align : 0);
}

ferry_argument
ferry_size_value(size_t value)
{
    return make_value(ferry_size_element(), &value, sizeof(value), _Alignof(size_t));
}

ferry_argument
ferry_struct_value(const void *value, size_t bytes, size_t alignment)
{
    return make_value(NULL, value, bytes, alignment);
}

ferry_argument
ferry_result_argument(const ferry_element *element, void *result)
{
    return (ferry_argument){.element = element, .pointer = result, .count = 1};
}
