/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BUFFER_H
#define FERRYI_BUFFER_H

/*
 * The handle behind ferry_buffer: an element and a window on a store (store.h). A buffer and a view
 * differ only in the range of their windows.
 */

#include <ferry/buffer.h>
#include <ferry/conversion.h>

#include "src/buffer/access.h"
#include "src/buffer/element.h"
#include "src/buffer/store.h"

/* Checks handle, element (NULL: any) and range. `what` is the first part of the message. */
ferry_status ferryi_buffer_check(const ferry_buffer *buffer, const ferry_element *element,
                                 size_t offset, size_t count, const char *what,
                                 struct ferryi_range *out);
/* Returns the status, and sets the message, for arguments that the fast check rejected. */
ferry_status ferryi_buffer_refuse(const ferry_buffer *buffer, const ferry_element *element,
                                  size_t offset, size_t count, const char *what);
/* Fails unless `place` is one of the buffer's context and the context is still open. */
ferry_status ferryi_buffer_check_place(const ferry_buffer *buffer, int place, const char *what);

static inline size_t
ferryi_buffer_count(const ferry_buffer *buffer)
{
    size_t count = atomic_load_explicit(&buffer->count, memory_order_relaxed);
    FERRYI_INTERLEAVE();
    return count;
}

/* Computes the bytes of a range of the handle. Reads the count once. Returns false when the range
 * is outside the handle. */
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

/* Whether a call must be repeated: it asked for the rest of a buffer, and a resize moved the end
 * before the call had claimed its range. */
static inline bool
ferryi_buffer_starts_over(ferry_status status, size_t count)
{
    return status == FERRY_ERROR_OUT_OF_RANGE && count == FERRY_REST;
}

/* Which places hold which bytes of a range, up to the end of the store. Takes no lock and returns a
 * snapshot. */
struct ferryi_validity {
    bool written;     /* some byte was written */
    bool host_only;   /* some written byte is current at the host and at no device */
    bool device_only; /* some written byte is current at a device and not at the host */
    bool lost;
    ferryi_places all;   /* places that hold every written byte */
    ferryi_places every; /* places that hold every byte of the range */
    uint32_t exists;
};
struct ferryi_validity ferryi_store_validity(ferryi_store *store, struct ferryi_range range);
ferry_state ferryi_validity_state(const struct ferryi_validity *validity);

/*
 * Fills in everything except the element and the count. `*out_host` is host memory that the caller
 * looks up in the engine's list of page-locked memory; NULL: no lookup is needed.
 */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_store_get_info(ferryi_store *store, struct ferryi_range range, ferry_buffer_info *out,
                           const void **out_host);
/* Sets the counters of all buffers to zero. */
void ferryi_stores_reset_traffic(ferry_context *context);
/* Writes the labels of the live leases of all buffers, in the format of ferryi_lease_labels(); ""
 * when there are none. `text_bytes` is not 0. */
void ferryi_stores_lease_labels(ferry_context *context, char *text, size_t text_bytes);
/* Appends the line of ferry_buffer_describe(). */
void ferryi_info_append(const ferry_context *context, const ferry_buffer_info *info, char *text,
                        size_t bytes, size_t *length);
/* Appends with snprintf() to `text` and adds the untruncated length to `*length`. */
void ferryi_text_append(char *text, size_t bytes, size_t *length, const char *format, ...)
    FERRY_PRINTF(4, 5);

/* Checks the range and the place. `what` is the first part of the message. */
ferry_status ferryi_place_check(ferry_buffer *buffer, size_t offset, size_t count, int place,
                                const char *what, struct ferryi_range *out);
/* Returns the timeline on which the engine moves bytes of a place; NULL where the host copies
 * them. */
ferry_status ferryi_place_timeline(ferryi_store *store, int place, ferryi_timeline **out);
/* Waits until no queued work reads host memory that the program is about to edit. Does nothing for
 * other places. */
ferry_status ferryi_place_wait(ferryi_store *store, int place);
/* Moves newer bytes into wrapped memory. If no bytes pass through the host, `timeline` waits for
 * the writes; otherwise, or if it is NULL, the host waits. */
ferry_status ferryi_buffer_bring_back(ferryi_store *store, struct ferryi_range range,
                                      ferryi_timeline *timeline);
/* Copies the bytes that are current at `place` alone to the place `to`. The caller holds a claim
 * that excludes all others from the range. */
ferry_status ferryi_buffer_migrate(ferryi_store *store, struct ferryi_range range, int place,
                                   int to, const char *reason);
/* Whether some bytes of the range are current at these places and nowhere else. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_store_is_only_at(const ferryi_store *store, struct ferryi_range range,
                             ferryi_places places);

#endif
