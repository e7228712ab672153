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
 * A scope on the heap with several owners, which Ferry counts. Language bindings and exports of
 * arrays use leases.
 *
 * A lease keeps the buffer and the context alive. While it is open, it conflicts with other
 * accesses as a scope does. After it is closed, its memory may still be read and written, but the
 * content is unspecified. As long as the lease exists, the replica is not evicted, freed or moved,
 * and resizing or unwrapping the buffer fails with FERRY_ERROR_BUSY. In checked runs
 * (docs/debugging.md) the program stops with the label when it uses the host address of a closed
 * lease.
 */
typedef struct ferry_lease ferry_lease;

/** Options of a lease. Zero in a field means the default. Only `access` has no default. */
typedef struct ferry_lease_options {
    ferry_stream *stream; /**< for a device place: the stream on which the holder of the lease
                               queues its work, or NULL if that may be any stream. With NULL,
                               ferry_lease_open() waits until the bytes are in place, and the lease
                               is closed as by ferry_scope_close_unordered(). For the host: NULL */
    const char *label;    /**< text that says who holds the lease, such as "numpy, step.py:12", for
                               messages, ferry_context_describe() and
                               ferry_context_for_each_buffer(). Control characters become spaces;
                               copied */
    size_t offset;        /**< index of the first element of the range */
    size_t count;         /**< number of elements; 0 and FERRY_REST mean all up to the end */
    ferry_access access;  /**< required */
    int place;            /**< default: the host, or the place of `stream` */
    void *native_stream;  /**< for a device place, instead of `stream`: a native stream, on CUDA a
                               CUstream, of another library that holds the lease, which may destroy
                               it at any time after ferry_lease_open(). HIP's NULL stream is
                               FERRY_STREAM_LEGACY here. "Device scopes" in docs/concepts.md says
                               how such a lease ends */
    uint64_t reserved[3];
} ferry_lease_options;

/**
 * Opens a lease on a range of a buffer, and sets `*out_pointer` to the address of the first element
 * of the range, or to NULL if the range has no elements. The caller owns `*out`.
 *
 * The call copies the bytes that are not current at the place, and blocks as
 * ferry_buffer_open_host() or ferry_buffer_open_device() does; at a device without options->stream,
 * it also blocks until no queued work conflicts with the access.
 * @param options not NULL
 * @return the usual statuses, see the top of <ferry/buffer.h>; FERRY_ERROR_INVALID_ARGUMENT also
 *         for no access, an unknown place, and a stream of another place; FERRY_ERROR_UNSUPPORTED
 *         (the stream is being captured, and a driver call is needed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_lease_open(ferry_buffer *buffer,
                                                        const ferry_element *element,
                                                        const ferry_lease_options *options,
                                                        ferry_lease **out, void **out_pointer);

/**
 * Adds an owner to a lease, and returns it; NULL for NULL. Each owner calls ferry_lease_destroy()
 * once. Threads: any.
 */
FERRY_API ferry_lease *ferry_lease_retain(ferry_lease *lease);

/**
 * Closes the lease for all owners. If the lease may write, the newest bytes of the range are now at
 * its place. Does not block. For a closed lease the call returns FERRY_OK.
 * @return the same statuses as ferry_scope_close(); FERRY_ERROR_INVALID_STATE (the call is inside a
 *         watching callback, and closing the lease would need a driver call; the lease stays open).
 * Threads: any.
 */
FERRY_API ferry_status ferry_lease_close(ferry_lease *lease);

/**
 * Closes the lease for all owners, and discards what was written through it, as
 * ferry_scope_abandon() does for a scope. The call removes no owner.
 * @return the same statuses as ferry_scope_abandon(); FERRY_OK for a closed lease.
 * Threads: any.
 */
FERRY_API ferry_status ferry_lease_abandon(ferry_lease *lease);

/**
 * Removes an owner and sets `*lease` to NULL. The last owner closes the lease if it is still open,
 * and frees it. If closing fails, the call logs an error. The call does not block, with one
 * exception: if the lease was the last owner of a wrapped buffer, the call ends the wrap as
 * ferry_buffer_destroy() does.
 * @param lease NULL and a pointer to NULL have no effect
 * Threads: any, even inside on_release of ferry_wrap_options.
 */
FERRY_API void ferry_lease_destroy(ferry_lease **lease);

/**
 * Returns true if the lease is open; false after it was closed or abandoned, for NULL, and in a
 * forked child. Another thread may close the lease at any time. Threads: any.
 */
FERRY_API bool ferry_lease_is_open(const ferry_lease *lease);

FERRY_END_DECLS

#endif
