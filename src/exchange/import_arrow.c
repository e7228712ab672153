/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/exchange/exchange.h"

/* Imports Arrow arrays of numbers as read-only buffers. */

static ferry_status
check_schema(const struct ArrowSchema *schema, const ferry_element **out)
{
    if (!schema->release || !schema->format)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "the schema was released, or has no format");
    if (schema->dictionary)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "it is dictionary-encoded");
    if (schema->n_children < 0)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "the schema has %lld children",
                           (long long)schema->n_children);
    return ferry_element_parse(FERRY_TEXT_ARROW, schema->format, out);
}

/* Checks an Arrow array of numbers. It must have two buffers: a validity bitmap, which is absent if
 * there are no nulls, and the values. */
static ferry_status
check_array(const struct ArrowArray *array)
{
    if (!array->release)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "the array was released");
    if (array->dictionary)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "it is dictionary-encoded");
    if (array->n_buffers != 2 || array->n_children != 0 || !array->buffers)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "numbers have 2 buffers and no children, not %lld and %lld",
                           (long long)array->n_buffers, (long long)array->n_children);
    if ((uintptr_t)array->buffers % _Alignof(void *))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "its list of buffers at %p is not aligned",
                           (void *)array->buffers);
    if (array->length < 0 || array->offset < 0 || array->null_count < -1)
        return ferryi_fail(
            FERRY_ERROR_INVALID_ARGUMENT, "%lld elements at offset %lld, %lld of them null",
            (long long)array->length, (long long)array->offset, (long long)array->null_count);
    if (array->null_count > 0)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%lld of its elements are null",
                           (long long)array->null_count);
    return FERRY_OK;
}

/* A producer need not count the nulls, as of a slice. The bitmap has a bit for each element that is
 * valid, from the lowest one of the first byte on. */
static ferry_status
check_bitmap(const struct ArrowDeviceArray *array)
{
    const unsigned char *bits = array->array.buffers[0];
    if (array->array.null_count == 0 || !bits)
        return FERRY_OK;
    if (!ferryi_dl_is_host(array->device_type))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "it may have nulls, because its producer did not count them");
    for (size_t i = 0; i < (size_t)array->array.length; i++) {
        size_t at = (size_t)array->array.offset + i;
        if (!(bits[at / 8] >> at % 8 & 1))
            return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "element %zu is null", i);
    }
    return FERRY_OK;
}

static ferry_status
read_array(const struct ArrowDeviceArray *array, struct ferryi_import *out)
{
    size_t end, end_bytes;
    FERRYI_OR_RETURN(check_array(&array->array));
    if (array->device_id < INT32_MIN || array->device_id > INT32_MAX)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "the context has no device of type %d with number %lld",
                           (int)array->device_type, (long long)array->device_id);
    out->count = (size_t)array->array.length;
    out->device_type = array->device_type;
    out->device_id = (int32_t)array->device_id;
    if (!ferryi_add_size((size_t)array->array.offset, out->count, &end) ||
        !ferryi_mul_size(end, out->element->bytes, &end_bytes) || end_bytes > PTRDIFF_MAX)
        return ferryi_fail(FERRY_ERROR_OVERFLOW, "%zu elements at offset %lld overflow a size",
                           out->count, (long long)array->array.offset);
    uintptr_t address = (uintptr_t)array->array.buffers[1], first;
    if (out->count > 0 &&
        (!address ||
         !ferryi_add_size(address, (size_t)array->array.offset * out->element->bytes, &first)))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%zu elements at address %p plus %lld elements", out->count,
                           array->array.buffers[1], (long long)array->array.offset);
    out->memory = out->count > 0 ? (void *)first : NULL;
    return check_bitmap(array);
}

/* Reads the native event to which array->sync_event points. An array in host memory has no event,
 * because its values must be ready when it is imported. */
static ferry_status
read_event(const struct ArrowDeviceArray *array, struct ferryi_import *out)
{
    if (!array->sync_event)
        return FERRY_OK;
    if (ferryi_dl_is_host(array->device_type))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "memory of the host with an event");
    if ((uintptr_t)array->sync_event % _Alignof(void *))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "its event at %p is not aligned",
                           array->sync_event);
    out->event = *(void *const *)array->sync_event;
    return FERRY_OK;
}

static void
release_array(void *memory, void *user)
{
    struct ArrowArray *array = user;
    (void)memory;
    array->release(array);
    free(array);
}

ferry_status
ferry_buffer_import_arrow(ferry_context *context, struct ArrowDeviceArray *array,
                          const struct ArrowSchema *schema, const ferry_import_options *options,
                          ferry_buffer **out)
{
    static const char what[] = "import an Arrow array";
    if (!context || !array || !schema || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: context, array, schema or out is NULL", what);
    struct ferryi_import import = {.read_only = true, .on_release = release_array};
    ferry_status status = check_schema(schema, &import.element);
    if (status == FERRY_OK)
        status = read_array(array, &import);
    if (status == FERRY_OK)
        status = read_event(array, &import);
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "%s", what);
    /* The producer's struct is moved to a copy, because the program may free the struct before the
     * buffer is destroyed. */
    struct ArrowArray *moved = malloc(sizeof(*moved));
    if (!moved)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "%s: no memory for %zu bytes", what,
                           sizeof(*moved));
    *moved = array->array;
    import.user = moved;
    status = ferryi_import_open(context, &import, options, what, out);
    if (status == FERRY_OK)
        array->array.release = NULL;
    else
        free(moved);
    return status;
}
