/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BUFFER_H
#define FERRYI_BUFFER_H

/*
 * The struct behind ferry_buffer is a handle: an element type, and a range of a store. A store
 * holds the bytes of one buffer (store.h). The handle of a view differs from that of a buffer only
 * in its range.
 */

#include <ferry/buffer.h>
#include <ferry/conversion.h>

#include "src/buffer/access.h"
#include "src/buffer/element.h"
#include "src/store/store.h"

/* Checks a handle, its element type, a range, and whether the call may make `access` through the
 * handle. If `element` is NULL, any type is accepted. Calls that only move copies of the bytes pass
 * FERRY_READ. `what` is the beginning of the error message. A caller that passes NULL puts it there
 * itself, and has checked that a callback may make the call. */
ferry_status ferryi_buffer_check(const ferry_buffer *buffer, const ferry_element *element,
                                 ferry_access access, size_t offset, size_t count, const char *what,
                                 struct ferryi_range *out);
/* Checks the arguments that are common to all calls that create a buffer. Sets `*out_bytes` to the
 * size of the buffer. */
ferry_status ferryi_buffer_check_creation(ferry_context *context, const ferry_element *element,
                                          size_t count, const void *out, const char *what,
                                          const ferry_element **out_interned, size_t *out_bytes);
/* Finds out why a fast check, which sets no message, rejected the arguments of a call. Sets the
 * error message and returns the status of the failure. */
ferry_status ferryi_buffer_refuse(const ferry_buffer *buffer, const ferry_element *element,
                                  ferry_access access, size_t offset, size_t count,
                                  const char *what);
/* Returns whether nothing may be written through the handle: it is a read-only view or a view of
 * one, or its buffer wraps read-only memory. */
static inline bool
ferryi_buffer_is_read_only(const ferry_buffer *buffer)
{
    return atomic_load_explicit(&buffer->owners, memory_order_relaxed) & FERRYI_HANDLE_READ_ONLY;
}

FERRY_STATIC_ASSERT((FERRY_READ & 3) == 1 && (FERRY_UPDATE & 3) == FERRYI_HANDLE_READ_ONLY &&
                        (FERRY_OVERWRITE & 3) == 3 && FERRYI_HANDLE_OWNER == 4,
                    "writes have the bit of a read-only handle, and reads have no bit of `owners`");

/* Returns whether the access exists, and may be made through the handle. */
static inline bool
ferryi_buffer_allows(const ferry_buffer *buffer, ferry_access access)
{
    unsigned kind = (unsigned)access;
    return kind - FERRY_READ <= FERRY_OVERWRITE - FERRY_READ &&
           !(kind & (unsigned)atomic_load_explicit(&buffer->owners, memory_order_relaxed));
}

static inline size_t
ferryi_buffer_count(const ferry_buffer *buffer)
{
    size_t count = atomic_load_explicit(&buffer->count, memory_order_relaxed);
    FERRYI_INTERLEAVE();
    return count;
}

/* Computes the byte range of `count` elements of the buffer, beginning with element `offset`. Reads
 * the buffer's length only once. Returns false if the range exceeds the buffer. */
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

/* Returns whether a call failed with `status` because of a resize and must be repeated. This
 * happens if the call uses the rest of a buffer, and a resize moved the buffer's end before the
 * range was claimed. The status alone does not say so: lost bytes have the status of the callback
 * that lost them. */
static inline bool
ferryi_buffer_starts_over(ferry_status status, size_t count)
{
    return status == FERRY_ERROR_OUT_OF_RANGE && count == FERRY_REST &&
           ferryi_last_error_is_resized();
}

/* Snapshot of which places hold which bytes of a range. If the range exceeds the buffer, only the
 * part inside the buffer counts. ferryi_store_validity() makes the snapshot, and takes and releases
 * the buffer's lock. */
struct ferryi_validity {
    bool written;     /* whether some byte was written */
    bool host_only;   /* whether some written byte is current at the host and at no device */
    bool device_only; /* whether some written byte is current at a device and not at the host */
    bool lost;
    ferryi_places all; /* places that hold every written byte */
    ferryi_places any; /* places that hold some byte of the range */
    uint32_t exists;
};
struct ferryi_validity ferryi_store_validity(ferryi_store *store, struct ferryi_range range);
ferry_state ferryi_validity_state(const struct ferryi_validity *validity);

/* Describes a range of a buffer in two steps. ferryi_store_get_info() sets most members of `*out`
 * under the buffer's lock. ferryi_store_end_info() is called without the lock. It sets the element
 * and the count, and looks up the host memory `host` of `host_bytes` bytes in the engine's list of
 * page-locked memory. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_store_get_info(ferryi_store *store, struct ferryi_range range, ferry_buffer_info *out,
                           const void **out_host);
void ferryi_store_end_info(const ferryi_store *store, const ferry_element *element,
                           const void *host, size_t host_bytes, ferry_buffer_info *info);
/* Sets the counters of all buffers to zero. */
void ferryi_stores_reset_traffic(ferry_context *context);
/* Writes the labels of the live leases of all buffers, in the format of ferryi_lease_labels().
 * Writes "" if there are no leases. `text_bytes` must not be 0. */
void ferryi_stores_lease_labels(ferry_context *context, char *text, size_t text_bytes);
/* Appends to `text` the line that ferry_buffer_describe() returns for a buffer. */
void ferryi_info_append(const ferry_context *context, const ferry_buffer_info *info, char *text,
                        size_t bytes, size_t *length);

/* Checks an access to a range, as ferryi_buffer_check() does, and a place of a buffer. */
ferry_status ferryi_place_check(ferry_buffer *buffer, ferry_access access, size_t offset,
                                size_t count, int place, const char *what,
                                struct ferryi_range *out);
/* Sets `*out` to the timeline on which the engine copies bytes to and from a place. If the host
 * copies these bytes, sets `*out` to NULL. Messages name the call `reason`. */
ferry_status ferryi_place_timeline(ferryi_store *store, int place, const char *reason,
                                   ferryi_timeline **out);
/* Waits until no queued work uses the host memory at `place`, because the program is about to
 * change it. Does nothing if `place` does not use the host's memory. */
ferry_status ferryi_place_wait(ferryi_store *store, int place);
/* Copies newer bytes to the program's memory that the buffer wraps, unless this memory is
 * read-only. If `timeline` belongs to the place of this memory, the copies are queued on
 * `timeline`. If not, the host waits for the copies, and the caller must order later work on
 * `timeline`. */
ferry_status ferryi_buffer_bring_back(ferryi_store *store, ferryi_timeline *timeline);
/* Asks the driver to move the pages of a range of managed memory to a place. The request is queued
 * on `timeline`, whose device moves the pages. Fails with UNSUPPORTED if this device accepts no
 * hints. */
ferry_status ferryi_managed_prefetch(ferryi_store *store, struct ferryi_range range, int place,
                                     ferryi_timeline *timeline);

#endif
