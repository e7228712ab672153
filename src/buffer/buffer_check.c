/* SPDX-License-Identifier: MIT */
#include "src/buffer/buffer.h"

#include "src/base/callback.h"

/* Checks of a handle, and of what a call wants of it. */

/* Does what ferryi_buffer_refuse() does, but the message does not name the call. */
static ferry_status
refuse(const ferry_buffer *buffer, const ferry_element *element, ferry_access access, size_t offset,
       size_t count)
{
    if (!buffer)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "the buffer is empty or NULL");
    if (buffer->identity == FERRYI_BUFFER_FREED)
        return ferryi_fail(FERRY_ERROR_INVALID_STATE,
                           "the buffer was destroyed; FERRY_DEBUG=1 keeps its name");
    if (buffer->identity == FERRYI_BUFFER_GONE)
        return ferryi_fail(FERRY_ERROR_INVALID_STATE, "buffer \"%s\" was destroyed",
                           ferryi_store_name(buffer->store));
    if (element && element->identity != buffer->identity)
        return ferryi_fail(FERRY_ERROR_WRONG_TYPE, "buffer \"%s\" holds %s, not %s%s",
                           ferryi_store_name(buffer->store), buffer->element->name,
                           element->name ? element->name : "an unnamed element",
                           ferryi_element_namesake(buffer->element, element));
    if (access != FERRY_READ && ferryi_buffer_is_read_only(buffer))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "this handle of buffer \"%s\" is read-only%s",
                           ferryi_store_name(buffer->store),
                           buffer->store->read_only ? ", because it wraps read-only memory" : "");
    /* What a caller computed as less than 0 is shown so, and not as a huge number. */
    if (count == FERRY_REST)
        return ferryi_fail(FERRY_ERROR_OUT_OF_RANGE,
                           "offset %td is past the end of buffer \"%s\" with %zu elements",
                           (ptrdiff_t)offset, ferryi_store_name(buffer->store),
                           ferryi_buffer_count(buffer));
    return ferryi_fail(
        FERRY_ERROR_OUT_OF_RANGE,
        "%td elements at offset %td reach past the end of buffer \"%s\" with %zu elements",
        (ptrdiff_t)count, (ptrdiff_t)offset, ferryi_store_name(buffer->store),
        ferryi_buffer_count(buffer));
}

/* Puts the call in front of the message, unless its caller does. */
static ferry_status
name_call(ferry_status status, const char *what)
{
    return what ? ferryi_fail_in(status, "%s", what) : status;
}

ferry_status
ferryi_buffer_refuse(const ferry_buffer *buffer, const ferry_element *element, ferry_access access,
                     size_t offset, size_t count, const char *what)
{
    return name_call(refuse(buffer, element, access, offset, count), what);
}

static bool
is_gone(const ferry_buffer *buffer)
{
    return buffer->identity == FERRYI_BUFFER_GONE || buffer->identity == FERRYI_BUFFER_FREED;
}

ferry_status
ferryi_buffer_check(const ferry_buffer *buffer, const ferry_element *element, ferry_access access,
                    size_t offset, size_t count, const char *what, struct ferryi_range *out)
{
    if (!buffer || is_gone(buffer) || (element && element->identity != buffer->identity) ||
        (access != FERRY_READ && ferryi_buffer_is_read_only(buffer)) ||
        !ferryi_buffer_range(buffer, offset, count, out))
        return ferryi_buffer_refuse(buffer, element, access, offset, count, what);
    if (ferryi_store_is_dead(buffer->store))
        return name_call(ferryi_fail(FERRY_ERROR_INVALID_STATE, "the context of buffer \"%s\" %s",
                                     ferryi_store_name(buffer->store),
                                     ferryi_shell_why_closed(buffer->store->context)),
                         what);
    return what ? ferryi_callback_check(what) : FERRY_OK;
}

ferry_status
ferryi_buffer_check_creation(ferry_context *context, const ferry_element *element, size_t count,
                             const void *out, const char *what, const ferry_element **out_interned,
                             size_t *out_bytes)
{
    if (!context || !element || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: context, element or out is NULL",
                           what);
    FERRYI_OR_RETURN(ferryi_shell_check_open(context, what));
    ferry_status status = ferryi_element_intern(element, out_interned);
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "%s", what);
    if (!ferryi_mul_size(count, element->bytes, out_bytes) || *out_bytes > PTRDIFF_MAX)
        return ferryi_fail(FERRY_ERROR_OVERFLOW, "%s: %zu elements of %zu bytes overflow a size",
                           what, count, element->bytes);
    if (element->bytes > UINT32_MAX)
        return ferryi_fail(FERRY_ERROR_OVERFLOW, "%s: elements of %zu bytes are larger than 4 GiB",
                           what, element->bytes);
    if (*out_bytes > context->buffer_bytes_limit)
        return ferryi_fail(FERRY_ERROR_OVERFLOW,
                           "%s: %zu bytes are above the context's limit of %zu bytes for a buffer",
                           what, *out_bytes, context->buffer_bytes_limit);
    return FERRY_OK;
}
