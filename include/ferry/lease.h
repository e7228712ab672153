/* SPDX-License-Identifier: MIT */
#ifndef FERRY_LEASE_H
#define FERRY_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/element.h>
#include <ferry/scope.h>
#include <ferry/status.h>

FERRY_BEGIN_DECLS

/**
 * A scope on the heap, with owners that are counted: what language bindings and exports hold.
 *
 * A lease keeps the buffer and the context alive, also after their owners destroyed them. While it
 * is open it has the rights and the conflicts of a scope. After the close its memory stays
 * allocated at its address until the last owner destroys the lease: reading and writing it stays
 * safe, but its content is unspecified. Until then the replica is not evicted, freed or moved, and
 * resizing the buffer or unwrapping it fails with FERRY_ERROR_BUSY. In checked runs
 * (docs/debugging.md) a use of the host address after the close stops the program with a message
 * that has the label.
 *
 * Any thread may call any function on a lease; no function needs the thread that opened it.
 */
typedef struct ferry_lease ferry_lease;

/** Options of a lease. Zero in a field means the default; only the access has none. */
typedef struct ferry_lease_options {
    ferry_stream *stream; /**< of a device place: the stream on which the holder queues its work.
                               NULL at a device place: the holder has no stream that Ferry may
                               know. Then the bytes are in place when the call returns, and the end
                               is that of ferry_scope_close_unordered(). NULL at the host */
    const char *label;    /**< who holds the lease, such as "numpy, step.py:12"; copied. Named by
                               FERRY_ERROR_BUSY, ferry_context_describe(),
                               ferry_context_for_each_buffer() and checked runs */
    size_t offset;        /**< first element of the range */
    size_t count;         /**< elements of the range; 0 and FERRY_REST mean up to the end */
    ferry_access access;  /**< needed: 0 is FERRY_ERROR_INVALID_ARGUMENT */
    int place;            /**< default: the host, or the place of `stream` */
    uint64_t reserved[4];
} ferry_lease_options;

/**
 * Opens a lease on a range of a buffer and sets `*out_pointer` to the address of its first element.
 *
 * The call copies what the place lacks, and blocks, as ferry_buffer_open_host() and
 * ferry_buffer_open_device() do. If the place is a device and the options name no stream, the call
 * also waits for all queued work whose use of the bytes conflicts. The caller owns `*out` and gives
 * it back with ferry_lease_destroy(). For zero elements `*out_pointer` is NULL.
 *
 * @param options not NULL, because the access has no default
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, no access, an unknown place, a stream of
 *         another place, a write to a read-only wrap); FERRY_ERROR_WRONG_TYPE;
 *         FERRY_ERROR_WRONG_CONTEXT; FERRY_ERROR_OUT_OF_RANGE; FERRY_ERROR_BUSY;
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_INVALID_STATE; FERRY_ERROR_UNSUPPORTED (as
 *         ferry_buffer_open_device()); FERRY_ERROR_DEVICE; FERRY_ERROR_DEVICE_LOST.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_lease_open(ferry_buffer *buffer, const ferry_element *element,
                                                        const ferry_lease_options *options, ferry_lease **out,
                                                        void **out_pointer);

/** Adds an owner and returns the same lease; NULL for NULL. Threads: any. */
FERRY_API ferry_lease *ferry_lease_retain(ferry_lease *lease);

/**
 * Ends the use for all owners: a write becomes the newest value of its range. The memory stays
 * allocated at its address until the last owner destroys the lease.
 *
 * Does not block, as ferry_scope_close(). Closing a closed lease returns FERRY_OK.
 * @return as ferry_scope_close(); FERRY_ERROR_INVALID_STATE in a watching callback that cannot close
 *         it, and then the lease stays open.
 * Threads: any.
 */
FERRY_API ferry_status ferry_lease_close(ferry_lease *lease);

/**
 * Closes the access for all owners, and gives up what was written through it: other places keep the
 * values that they had. ferry_scope_abandon() does the same for a scope and states when a write
 * cannot be abandoned.
 *
 * The call removes no owner. As after ferry_lease_close(), the memory may not be accessed any more,
 * and stays allocated until the last owner calls ferry_lease_destroy().
 * @return as ferry_scope_abandon(); FERRY_OK for a closed lease.
 * Threads: any.
 */
FERRY_API ferry_status ferry_lease_abandon(ferry_lease *lease);

/**
 * Removes an owner and sets `*lease` to NULL. The last owner closes a lease that is open, and gives
 * back what it keeps: the buffer, the context and the memory.
 *
 * A failing close is logged as an error. The call does not block, unless it is the last owner of a
 * wrapped buffer: then it ends the wrap, as ferry_buffer_destroy() does. In a callback that must
 * not do this the call logs an error and leaves `*lease` unchanged.
 * @param lease NULL and a pointer to NULL have no effect
 * Threads: any, also those on which on_release of ferry_wrap_options runs.
 */
FERRY_API void ferry_lease_destroy(ferry_lease **lease);

/**
 * Returns true until the lease is closed or abandoned. A snapshot; false for NULL and in a forked
 * child. Threads: any.
 */
FERRY_API bool ferry_lease_is_open(const ferry_lease *lease);

FERRY_END_DECLS

#endif
