/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BUFFER_H
#define FERRYI_BUFFER_H

/*
 * The handle behind ferry_buffer: an element and a window on a store (store.h). A buffer and a view
 * differ in nothing but where their windows lie.
 */

#include <ferry/buffer.h>
#include <ferry/conversion.h>

#include "src/buffer/access.h"
#include "src/buffer/element.h"
#include "src/buffer/store.h"

/* Check handle, element (NULL: any) and range; `what` begins the message. */
ferry_status ferryi_buffer_check(const ferry_buffer *buffer, const ferry_element *element,
                                 size_t offset, size_t count, const char *what,
                                 struct ferryi_range *out);
/* The message and status for what the fast check refused. */
ferry_status ferryi_buffer_refuse(const ferry_buffer *buffer, const ferry_element *element,
                                  size_t offset, size_t count, const char *what);
/* Fails unless `place` is one of the buffer's context, and the context lives. */
ferry_status ferryi_buffer_check_place(const ferry_buffer *buffer, int place, const char *what);

static inline size_t
ferryi_buffer_count(const ferry_buffer *buffer)
{
    size_t count = atomic_load_explicit(&buffer->count, memory_order_relaxed);
    FERRYI_INTERLEAVE();
    return count;
}

/* The bytes of a range of the handle, from one look at its count; false when the handle does not
 * have them. */
static inline bool
ferryi_buffer_range(const ferry_buffer *buffer, size_t offset, size_t count,
                    struct ferryi_range *out)
{
    size_t all = ferryi_buffer_count(buffer);
    if (offset > all || (count != FERRY_REST && count > all - offset))
        return false;
    size_t elements = count == FERRY_REST ? all - offset : count;
    out->begin = buffer->offset + offset * buffer->element_bytes;
    out->end = out->begin + elements * buffer->element_bytes;
    return true;
}

/* A call for the rest of a buffer starts over when a resize moved the end before the call had
 * claimed its range. */
static inline bool
ferryi_buffer_starts_over(ferry_status status, size_t count)
{
    return status == FERRY_ERROR_OUT_OF_RANGE && count == FERRY_REST;
}

/* Walk over the map of a range, as far as the store reaches: which places have which bytes. Without
 * the lock; a snapshot. */
struct ferryi_validity {
    bool written;     /* some byte has a value */
    bool host_only;   /* some written byte is at the host and at no device */
    bool device_only; /* some written byte is at a device and not at the host */
    bool lost;
    ferryi_places all;   /* places that hold every written byte */
    ferryi_places every; /* places that hold every byte of the range */
    uint32_t exists;
};
struct ferryi_validity ferryi_store_validity(ferryi_store *store, struct ferryi_range range);
ferry_state ferryi_validity_state(const struct ferryi_validity *validity);

/*
 * All but the element and the count. `*out_host` is host memory that may be page-locked by other
 * means, which the engine's pins know; NULL: there is nothing to ask.
 */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_store_tell(ferryi_store *store, struct ferryi_range range, ferry_buffer_info *out,
                       const void **out_host);
/* Sets the counters of all buffers to zero. */
void ferryi_stores_reset_traffic(ferry_context *context);
/* The labels of the live leases of all buffers, as ferryi_lease_labels() writes them; "" for none.
 * `text_bytes` is not 0. */
void ferryi_stores_lease_labels(ferry_context *context, char *text, size_t text_bytes);
/* The line of ferry_buffer_describe(). */
void ferryi_info_append(const ferry_context *context, const ferry_buffer_info *info, char *text,
                        size_t bytes, size_t *length);
/* snprintf() onto the end of `text`, counting what it would have taken. */
void ferryi_text_append(char *text, size_t bytes, size_t *length, const char *format, ...)
    FERRY_PRINTF(4, 5);

/* Checks the range and the place; `what` begins the message. */
ferry_status ferryi_place_check(ferry_buffer *buffer, size_t offset, size_t count, int place,
                                const char *what, struct ferryi_range *out);
/* The timeline on which the engine moves bytes of a place; NULL where the host copies them. */
ferry_status ferryi_place_timeline(ferryi_store *store, int place, ferryi_timeline **out);
/* Before the program edits the host's memory itself, nothing may still read it; does nothing for
 * other memory. */
ferry_status ferryi_place_settle(ferryi_store *store, int place);
/* Moves newer bytes into wrapped memory. Where nothing must cross the host, `timeline` waits for
 * the writes instead of the host; NULL: the host waits. */
ferry_status ferryi_buffer_bring_back(ferryi_store *store, struct ferryi_range range,
                                      ferryi_timeline *timeline);
/* Under a claim that keeps everybody else off the range: copies what `place` alone holds of it to
 * the place `to`. */
ferry_status ferryi_buffer_rescue(ferryi_store *store, struct ferryi_range range, int place, int to,
                                  const char *reason);
/* Do some bytes of the range have their value at these places and nowhere else? */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_store_is_only_at(const ferryi_store *store, struct ferryi_range range,
                             ferryi_places places);

#endif
