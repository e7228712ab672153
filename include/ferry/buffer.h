/* SPDX-License-Identifier: MIT */
#ifndef FERRY_BUFFER_H
#define FERRY_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/context.h>
#include <ferry/copy.h>
#include <ferry/element.h>
#include <ferry/kernel.h>
#include <ferry/pool.h>
#include <ferry/scope.h>
#include <ferry/status.h>
#include <ferry/stream.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * Untyped buffers, whose functions take the element type as an argument. Programs normally use the
 * typed functions of generated headers, such as <ferry/float.h>, which call the functions below.
 * Code that learns element types only at run time calls them directly.
 *
 * Conventions of this file:
 * - Offsets and counts are numbers of elements of the handle. FERRY_REST as a count means every
 *   element up to the end.
 * - A call that fails changes nothing, unless its comment says otherwise.
 * - Any thread may call any function, unless its comment says otherwise.
 * - "The usual statuses" are FERRY_OK and those of the next list.
 *
 * The usual statuses:
 * - FERRY_ERROR_INVALID_ARGUMENT: an argument is NULL or an empty handle, or the call would write
 *   through a read-only handle, see ferry_buffer_view_read_only().
 * - FERRY_ERROR_OUT_OF_RANGE: the range ends after the end of the buffer.
 * - FERRY_ERROR_WRONG_TYPE: the element type of the call is not that of the buffer.
 * - FERRY_ERROR_WRONG_CONTEXT: the stream belongs to another context.
 * - FERRY_ERROR_BUSY: an open scope conflicts with the call, or a call inside a working callback
 *   would wait for the surrounding call or for one in another callback.
 * - FERRY_ERROR_INVALID_STATE: the context was destroyed, or the call is inside a watching
 *   callback.
 * - FERRY_ERROR_OUT_OF_MEMORY: there is not enough memory.
 * - FERRY_ERROR_DEVICE: a driver call failed.
 * - FERRY_ERROR_DEVICE_LOST: the device failed. The bytes that only it held are lost, and so are
 *   bytes of a page-locked host replica that the device was just copying to. Reading lost bytes
 *   fails with this status until they are overwritten.
 * - The status of a kernel that failed after its launch was accepted, see ferry_host_function. The
 *   bytes that it should have written are lost, and the call needs them, or has waited for them.
 */

/**
 * Where the newest bytes of a range are when the call returns its state. The meaning of a value
 * never changes.
 *
 * Bytes are lost if a device fails, or if a kernel fails after its launch was accepted. Lost bytes
 * are current at no place, and reading them fails until they are overwritten. A range with lost
 * bytes is MIXED if both the host and a device have a replica, DEVICE_ONLY if only devices have
 * one, and otherwise HOST_ONLY, even if no place has a replica.
 */
typedef enum ferry_state {
    FERRY_STATE_UNINITIALIZED = 0, /**< no byte of the range was written yet. It reads as zero, and
                                        reading it does not change the state */
    FERRY_STATE_HOST_ONLY = 1,     /**< only the host has a replica */
    FERRY_STATE_DEVICE_ONLY = 2,   /**< only devices have a replica */
    FERRY_STATE_SYNCHRONIZED = 3,  /**< the host and the devices both hold the newest value of all
                                        written bytes */
    FERRY_STATE_HOST_DIRTY = 4,    /**< the host holds the newest value of all written bytes, and
                                        the devices do not */
    FERRY_STATE_DEVICE_DIRTY = 5,  /**< devices hold the newest value of all written bytes, and the
                                        host does not */
    FERRY_STATE_MIXED = 6          /**< neither the host nor the devices hold the newest value of
                                        all written bytes */
} ferry_state;

/**
 * Returns the name of a state without its prefix, such as "HOST_DIRTY"; never NULL. Threads: any.
 */
FERRY_API const char *ferry_state_name(ferry_state state);

/** Options of a new buffer. NULL, or zero in a field, means the default. */
typedef struct ferry_buffer_options {
    const char *name;         /**< name of the buffer in messages, traces and reports, by which
                                   ferry_context_find() finds it; copied. Control characters, such
                                   as a newline, become spaces, so that a line of text that names
                                   the buffer stays one line */
    size_t align;             /**< alignment of each replica in bytes, which is a power of two up to
                                   2 MiB; default: 256 */
    ferry_memory_kind memory; /**< kind of memory of the host replica: FERRY_MEMORY_DEFAULT,
                                   FERRY_MEMORY_PAGEABLE or FERRY_MEMORY_PINNED. With
                                   FERRY_MEMORY_MANAGED one replica serves all places */
    bool scrub;               /**< each OVERWRITE access first sets its range to zero, so bytes that
                                   it does not write read as zero. If the device then refuses the
                                   launch, or a lease without a stream cannot be opened, old values
                                   are lost that no other place holds */
    bool zero_on_release; /**< the memory of each replica is set to zero when the buffer gives it
                               up, before anyone else can get it: when the buffer is destroyed,
                               and when a replica is evicted, invalidated, resized or moved by a
                               compaction. Temporary device memory of copies and conversions of
                               the buffer is set to zero too. Not covered: the staging ring,
                               through which bytes of pageable host memory cross (with
                               FERRY_MEMORY_PINNED they do not use it), memory of the caller,
                               files, and a device that fails. If the memory cannot be set to
                               zero, it stays allocated until the context ends, and the failure
                               is logged */
    uint64_t reserved[4];
} ferry_buffer_options;

/**
 * Options of a buffer that wraps memory of the caller. NULL, or zero in a field, means the default.
 */
typedef struct ferry_wrap_options {
    const char *name;                             /**< name, as in ferry_buffer_options */
    void (*on_release)(void *memory, void *user); /**< Ferry calls this function once, after the
                                                       last use of the memory, on the thread that
                                                       ended that use. It is a working callback,
                                                       see "Callbacks" in <ferry/status.h> */
    void *user;
    bool read_only;           /**< true: writing to the buffer fails with
                                   FERRY_ERROR_INVALID_ARGUMENT, so Ferry never
                                   writes to the memory */
    ferry_stream *release_on; /**< when the wrap ends, queued work may still use
                                   the memory. NULL: the host waits for that
                                   work, and then Ferry calls on_release. A
                                   stream of the context, at any place: that
                                   stream waits for the work, and Ferry calls
                                   on_release at once. Choose a stream if the
                                   allocator of the memory reuses it in the
                                   order of that stream. Ferry keeps the
                                   ferry_stream until the wrap ends; the program
                                   keeps the native stream as long */
    uint64_t reserved[3];
} ferry_wrap_options;

/**
 * Properties of a buffer. The strings are valid as long as the handle.
 *
 * A view has the counters of its base, which is the buffer whose memory it shows. The counters
 * start at zero when the base is created, and ferry_context_reset_stats() resets them. They count
 * uploads, downloads and transfers between devices, as ferry_context_get_transfer_stats() does. If
 * a transfer fails, only the bytes that arrived are counted. A copy between two buffers is counted
 * for the buffer that is written. A transfer of several ranges of one buffer counts as one.
 */
typedef struct ferry_buffer_info {
    const char *name; /**< "" if the buffer has no name */
    const ferry_element *element;
    size_t count;
    size_t bytes;
    size_t offset_bytes;       /**< offset of the view in its base, in bytes; 0 for a base */
    ferry_state state;         /**< state of this handle's range; for a view that is only its
                                    part of the base */
    uint32_t places_with_copy; /**< bit p: place p has a replica */
    uint32_t places_current;   /**< bit p: place p holds every written byte */
    uint32_t scopes;           /**< number of open scopes and open leases on the whole base */
    bool borrowed;             /**< the buffer wraps memory of the caller */
    /** nothing may be written through this handle, see ferry_buffer_view_read_only() */
    bool read_only;
    bool page_locked;         /**< the host replica exists and is page-locked */
    size_t allocated_bytes;   /**< bytes that all replicas of the base together use from pools,
                                   which excludes wrapped memory */
    uint32_t places_held;     /**< bit p: the program holds the replica at place p, see
                                   ferry_buffer_hold() */
    uint32_t handles;         /**< number of handles: the base, if it was not destroyed, and its
                                   views */
    const char *site;         /**< call stack of the program at the creation of the base,
                                   innermost function first, such as "load_tile+0x41, main+0x20
                                   (./program)". Known only in checked runs (docs/debugging.md);
                                   otherwise "" */
    const char *lease_labels; /**< labels of the base's leases, separated by "; ". Only
                                   ferry_context_for_each_buffer() sets it; otherwise it is
                                   "" */
    uint32_t leases;          /**< number of leases on the whole base, open or closed */
    ferry_transfer_count to_device; /**< transfers of the base from the host to a device */
    ferry_transfer_count to_host;   /**< transfers of the base from a device to the host */
    ferry_transfer_count between_devices;
    uint64_t evictions;        /**< how often Ferry evicted a replica of the base, because
                                    another buffer or block needed the memory */
    uint64_t last_transfer_ns; /**< time at which the newest of the counted transfers was
                                    counted, in nanoseconds of CLOCK_MONOTONIC; 0: none was
                                    counted yet */
    uint64_t reserved[4];
} ferry_buffer_info;

/**
 * A function of the program that receives the properties of one buffer. It returns true to continue
 * with the next buffer, and false to stop. It is a working callback, see "Callbacks"
 * in <ferry/status.h>.
 */
typedef bool ferry_buffer_visit(const ferry_buffer_info *info, void *user);

/* -- creation and lifetime --------------------------------------------------------------------- */

/**
 * Creates a buffer of `count` elements that reads as zero.
 *
 * The call allocates no memory at any place, makes no driver call, and does not block. The caller
 * owns `*out`.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, or an invalid element type or option);
 *         FERRY_ERROR_OVERFLOW (the size in bytes exceeds size_t or the context's
 *         buffer_bytes_limit); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_UNSUPPORTED (managed memory
 *         was requested, and a device of the context does not have it); FERRY_ERROR_INVALID_STATE
 *         (the context was destroyed, or in a watching callback).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_create(ferry_context *context,
                                                           const ferry_element *element,
                                                           size_t count,
                                                           const ferry_buffer_options *options,
                                                           ferry_buffer **out);

/**
 * Creates a buffer of `count` elements, and copies the elements of `source` into its host replica.
 * The caller owns `*out`.
 *
 * The call keeps no reference to `source`: later changes there do not affect the buffer.
 * @return the same statuses as ferry_buffer_create().
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_create_from(ferry_context *context,
                                                                const ferry_element *element,
                                                                size_t count, const void *source,
                                                                const ferry_buffer_options *options,
                                                                ferry_buffer **out);

/**
 * Creates a buffer over `count` elements of host memory that belongs to the caller. The memory
 * becomes the host replica. The caller owns `*out`.
 *
 * The buffer starts in FERRY_STATE_HOST_ONLY. Ferry never frees, moves, resizes or page-locks the
 * memory. The memory must stay valid until ferry_buffer_unwrap(), or until the last handle is
 * destroyed. If the memory is already gone, ferry_buffer_abandon() ends the wrap.
 *
 * No two buffers may wrap the same bytes for writing, because each has its own record of which
 * bytes are current: a checked run (docs/debugging.md) logs a warning with both names. The program
 * must not change the memory either, unless a scope is open or ferry_buffer_mark_dirty() follows.
 * If `count` is 0, Ferry never uses `memory`, which may be any pointer.
 * @return the usual statuses (see the top of this file); FERRY_ERROR_WRONG_CONTEXT also when
 *         options->release_on belongs to another context; FERRY_ERROR_OVERFLOW when the size in
 *         bytes exceeds size_t or the context's buffer_bytes_limit;
 *         FERRY_ERROR_INVALID_ARGUMENT also when a checked run finds that the memory is a device's.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wrap_host(ferry_context *context,
                                                              const ferry_element *element,
                                                              size_t count, void *memory,
                                                              const ferry_wrap_options *options,
                                                              ferry_buffer **out);

/**
 * Creates a buffer over `count` elements of device memory that belongs to the caller, at the place
 * of the stream `ready_on`. The caller owns `*out`.
 *
 * The buffer starts in FERRY_STATE_DEVICE_ONLY. Its content is what the memory contains after the
 * work that is now queued on `ready_on`. The memory must stay valid until ferry_buffer_unwrap(), or
 * until the last handle is destroyed. As for ferry_buffer_wrap_host(), no two buffers may wrap the
 * same bytes for writing, and an empty wrap takes any pointer.
 * @param ready_on NULL: the default stream, which is allowed only if the context has exactly one
 *         device
 * @return the same statuses as ferry_buffer_wrap_host(); FERRY_ERROR_UNSUPPORTED when the device
 *         uses the host's memory (see ferry_place_info) and the host may not use this memory;
 *         FERRY_ERROR_INVALID_ARGUMENT also when a checked run finds that the device cannot use it.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wrap_device(
    ferry_context *context, const ferry_element *element, size_t count, ferry_stream *ready_on,
    void *memory, const ferry_wrap_options *options, ferry_buffer **out);

/**
 * Ends a wrap. The call copies bytes that are newer at other places back into the wrapped memory,
 * destroys the buffer, and sets `*buffer` to NULL.
 *
 * It writes zeros for bytes that were discarded. It blocks until the copies that the host makes are
 * done, and until calls of other threads on the buffer have returned. After a failure the buffer
 * stays wrapped.
 *
 * Queued work may still use the memory. If the wrap's options set on_release but not release_on,
 * the call blocks until that work has completed. Otherwise the streams `stream` and release_on wait
 * for the work, and the call does not. If both are NULL, the call blocks. A call that has waited
 * for a kernel that failed returns the kernel's status, and the buffer stays wrapped.
 * @param stream a stream that waits for every use of the memory, or NULL
 * @return the usual statuses (see the top of this file); FERRY_ERROR_INVALID_STATE when the buffer
 *         wraps no memory, or when it has other handles or views.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_unwrap(ferry_buffer **buffer,
                                                           ferry_stream *stream);

/**
 * Ends a wrap without accessing the wrapped memory, destroys the buffer, and sets `*buffer` to
 * NULL. Bytes that are newer at other places are lost.
 *
 * The call does not read, write or unregister the memory. The program may therefore free the memory
 * before the call, if nothing else can still use it:
 * - Other calls and queued work that use the memory need it until they finish. This call waits for
 *   them, as ferry_buffer_unwrap() does. If the device fails during that wait, the call logs the
 *   failure.
 * - Until this call begins, Ferry may copy newer bytes back to the wrapped memory, because an
 *   allocation on another thread evicts a replica of the buffer.
 *
 * Finally Ferry calls on_release of the wrap's options with the address of the memory.
 *
 * `*buffer` must be the last handle on the memory. It may be a view, but not a read-only one. The
 * program destroys all other handles first, which does not access the memory. Memory that was
 * registered with ferry_context_register_host() stays registered.
 * @return the usual statuses (see the top of this file); FERRY_ERROR_INVALID_STATE when the buffer
 *         wraps no memory, or when it has other handles or views; FERRY_ERROR_BUSY when a scope is
 *         open or a lease exists. After a failure the buffer stays wrapped.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_abandon(ferry_buffer **buffer);

/**
 * Creates a view of `base`: a handle on `count` of its elements, starting at element `offset`. The
 * view has the same element type. Does not block. The caller owns `*out`.
 *
 * The call copies no bytes: both handles show the same bytes at every place. The view keeps the
 * base alive. If `base` is a view itself, `offset` counts from its first element. A count of 0 is
 * legal, even at the end of the base.
 * @return the usual statuses (see the top of this file).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_view(ferry_buffer *base,
                                                         const ferry_element *element,
                                                         size_t offset, size_t count,
                                                         ferry_buffer **out);

/**
 * Does the same as ferry_buffer_view(), and the new handle is read-only: calls that would write
 * through it fail with FERRY_ERROR_INVALID_ARGUMENT. A library uses it to lend an array to code
 * that must not change it.
 *
 * Refused are UPDATE and OVERWRITE scopes and leases, launches whose parameter writes, copies,
 * conversions, fills and loads into the buffer, ferry_buffer_mark_dirty(), ferry_buffer_discard(),
 * ferry_buffer_resize(), ferry_buffer_unwrap() and ferry_buffer_abandon(). Calls that only move
 * copies of the bytes are allowed, such as ferry_buffer_sync_to() and ferry_buffer_evict(). The
 * program must not write through an address that ferry_buffer_hold() returns.
 *
 * The view shows what is written through other handles later. Views of it are read-only too, in
 * each element type, and so are exported arrays. `read_only` of ferry_buffer_info is true. Every
 * handle of a buffer that wraps memory with `read_only` is read-only in the same way, but its first
 * handle may end the wrap.
 * @return the usual statuses (see the top of this file).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_view_read_only(ferry_buffer *base,
                                                                   const ferry_element *element,
                                                                   size_t offset, size_t count,
                                                                   ferry_buffer **out);

/**
 * Creates a view of `base` that has another element type: it shows the same bytes as elements of
 * type `element`. Does not block. The caller owns `*out`.
 *
 * @param offset_bytes start of the view, in bytes from the start of `base`
 * @param count number of elements of the new type. FERRY_REST means all remaining bytes, which must
 *         be a whole number of such elements
 * @return the usual statuses (see the top of this file); FERRY_ERROR_WRONG_TYPE when the bytes are
 *         not a whole number of elements of the new type, or the start is not aligned for that
 *         type.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_reinterpret(ferry_buffer *base,
                                                                const ferry_element *element,
                                                                size_t offset_bytes, size_t count,
                                                                ferry_buffer **out);

/**
 * Checks that the buffer `raw` has the element type `element`, and sets `*out` to the same handle.
 * The call adds no owner, so the program must not destroy `*out` in addition to `raw`.
 * @return the usual statuses (see the top of this file).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_from_raw(ferry_buffer *raw,
                                                             const ferry_element *element,
                                                             ferry_buffer **out);

/**
 * Adds an owner to a buffer, and returns the buffer; NULL for NULL. Each owner calls
 * ferry_buffer_destroy() once.
 */
FERRY_API ferry_buffer *ferry_buffer_retain(ferry_buffer *buffer);

/**
 * Removes an owner and sets `*buffer` to NULL. The last owner destroys the buffer. The call does
 * not block, with one exception: if the last owner destroys a wrapped buffer, the call ends the
 * wrap as ferry_buffer_unwrap() does, and logs failures.
 *
 * Queued work may still use the memory, which is reused only after that work has completed. If a
 * scope is still open, the call logs an error, and the memory is freed when that scope is closed.
 * In a callback whose surrounding call uses the buffer, the call logs an error and leaves `*buffer`
 * unchanged.
 * @param buffer NULL and a pointer to NULL have no effect
 */
FERRY_API void ferry_buffer_destroy(ferry_buffer **buffer);

/** Returns the number of elements; 0 for NULL. */
FERRY_API size_t ferry_buffer_count(const ferry_buffer *buffer);
/** Returns the size in bytes; 0 for NULL. */
FERRY_API size_t ferry_buffer_bytes(const ferry_buffer *buffer);
/** Returns the description of the buffer's element type, which the library owns; NULL for NULL. */
FERRY_API const ferry_element *ferry_buffer_element(const ferry_buffer *buffer);
/** Returns the context of the buffer; NULL for NULL. The call adds no owner to the context. */
FERRY_API ferry_context *ferry_buffer_context(const ferry_buffer *buffer);
/**
 * Returns a constant that says where the newest bytes of this handle's range are;
 * FERRY_STATE_UNINITIALIZED for NULL. Other threads may change the state at any time.
 */
FERRY_API ferry_state ferry_buffer_state(ferry_buffer *buffer);
/**
 * Writes the buffer's properties to `*out`. Other threads may change them at any time. The call
 * does not wait for queued work.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_get_info(ferry_buffer *buffer,
                                                             ferry_buffer_info *out);
/**
 * Writes one line of text that describes the buffer, such as `float[1000] "heights" 4000 bytes
 * HOST_DIRTY copies: host cuda:0`.
 *
 * If the text is too long for `bytes` bytes, it is truncated. It ends with NUL if `bytes` > 0.
 * @return the length of the whole text without its NUL, as from snprintf(); 0 for NULL.
 */
FERRY_API size_t ferry_buffer_describe(ferry_buffer *buffer, char *text, size_t bytes);

/**
 * Calls `visit` for each live buffer of the context, newest first. A program uses it to find out
 * what holds memory.
 *
 * The call first makes a list of the buffers and their properties, as they are at that moment, and
 * then works on the list. Other threads wait only while it makes the list. They may create and
 * destroy buffers while `visit` runs.
 *
 * Views are not listed themselves. The member `handles` of ferry_buffer_info counts a buffer
 * together with its views. A buffer whose own handle was destroyed is listed as long as a view or a
 * scope keeps it alive.
 *
 * @param visit the struct that it receives, and the strings in it, are valid until it returns
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_OUT_OF_MEMORY;
 *         FERRY_ERROR_INVALID_STATE (in a forked child or a watching callback, or after the context
 *         was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_for_each_buffer(ferry_context *context,
                                                                     ferry_buffer_visit *visit,
                                                                     void *user);

/**
 * Writes text that shows what uses the context's memory.
 *
 * It has one line for each place, with the live and idle bytes of the pools there. Blocks that the
 * program allocated count as live; ferry_pool_for_each_block() lists them. One line for each buffer
 * follows, largest buffer first. Each consists of the text of ferry_buffer_describe(), the
 * allocated bytes, the open scopes and the held replicas. In checked runs it also says where the
 * program created the buffer.
 *
 * Lines end with a newline. If the text is too long for `bytes` bytes, it is truncated. It ends
 * with NUL if `bytes` > 0.
 *
 * @return the length of the whole text without its NUL, as from snprintf(); 0 for NULL, for a
 *         destroyed context, and if there is not enough memory. The next call may return a larger
 *         length.
 * Threads: any.
 */
FERRY_API size_t ferry_context_describe(ferry_context *context, char *text, size_t bytes);

/**
 * Changes the number of elements of the buffer to `count`.
 *
 * Elements that exist before and after the call keep their values, at every place where they are
 * current. New elements read as zero. If the buffer already has `count` elements, nothing changes.
 *
 * A call of another thread at the same time uses either the old length or the new one. It fails
 * with FERRY_ERROR_OUT_OF_RANGE if its range is past the end of the new length. FERRY_REST then
 * means the length that the call finds.
 * @return the usual statuses (see the top of this file); FERRY_ERROR_OVERFLOW when the size in
 *         bytes exceeds size_t or the context's buffer_bytes_limit; FERRY_ERROR_INVALID_STATE for a
 *         view, for a buffer with views, and for a held or wrapped buffer.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_resize(ferry_buffer *buffer, size_t count);

/* -- scopes ------------------------------------------------------------------------------------ */

/**
 * Opens a scope on host memory, for `count` elements that start at element `offset`. Sets `*out` to
 * the address of the first of them.
 *
 * The call first copies those bytes to the host that are not current there; with FERRY_OVERWRITE it
 * copies nothing. It blocks until these copies are done, and until no queued work conflicts with
 * the access.
 *
 * The elements are contiguous in memory. Later scopes get the same address until the host replica
 * is invalidated, resized or evicted. If `count` is 0, `*out` becomes NULL, and nothing is open.
 * @return the usual statuses (see the top of this file); FERRY_ERROR_INVALID_ARGUMENT also when the
 *         access would write through a read-only handle.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_open_host(ferry_buffer *buffer,
                                                              const ferry_element *element,
                                                              ferry_access access, size_t offset,
                                                              size_t count, ferry_scope *scope,
                                                              void **out);

/**
 * Opens a scope on device memory at the place of `stream`, for `count` elements that start at
 * element `offset`. Sets `*out` to the device address of the first of them. The caller uses the
 * address in work that it queues on `stream`.
 *
 * The call queues copies of those bytes that are not current at the place, and makes the stream
 * wait for every earlier use that conflicts. The calling thread does not wait for work on the
 * stream. If the bytes come from page-locked memory, the call returns at once. If they come from
 * pageable memory, it returns when it has copied them to page-locked memory.
 * @param stream NULL: the default stream, which is allowed only if the context has exactly one
 *         device
 * @return the usual statuses (see the top of this file); FERRY_ERROR_INVALID_ARGUMENT also when the
 *         access would write through a read-only handle; FERRY_ERROR_UNSUPPORTED when the stream is
 * being captured and a driver call is needed.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_open_device(ferry_buffer *buffer,
                                                                const ferry_element *element,
                                                                ferry_access access, size_t offset,
                                                                size_t count, ferry_stream *stream,
                                                                ferry_scope *scope, void **out);

/**
 * Opens several scopes at `place` together, one for each argument. If one of them cannot be opened,
 * the call opens none.
 *
 * Each argument is a range of a buffer with an access, which ferry_argument_with() sets. Ranges of
 * one buffer that overlap do not conflict: their scopes are merged. A READ scope that is merged
 * with a write becomes an UPDATE scope. At most 31 ranges that overlap are merged if one of them is
 * written. The number of ranges has no other limit. The call blocks as ferry_buffer_open_host() and
 * ferry_buffer_open_device() do.
 *
 * @param scopes array of `count` scopes, which the call sets if it succeeds
 * @param out_pointers array of `count` pointers, which receives the address of each range; or NULL
 * @param stream a stream of `place`; must be NULL for the host
 * @return the same statuses as ferry_buffer_open_device(); FERRY_ERROR_INVALID_ARGUMENT also for a
 *         value, an argument without an element or an access, an unknown place, and a stream of
 *         another place; FERRY_ERROR_UNSUPPORTED also when more than 31 ranges would be merged with
 *         a write.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_scope_open_all(const ferry_argument *arguments,
                                                            size_t count, int place,
                                                            ferry_stream *stream,
                                                            ferry_scope *scopes,
                                                            void **out_pointers);

/**
 * Blocks until no open scope conflicts with an access of this kind to the handle's range. The call
 * itself opens no scope.
 *
 * @param timeout_ns longest wait in nanoseconds; 0: the call checks once and returns
 * @return the usual statuses (see the top of this file); FERRY_ERROR_BUSY when a scope still
 *         conflicts after that time.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wait_available(ferry_buffer *buffer,
                                                                   ferry_access access,
                                                                   uint64_t timeout_ns);

/* -- places: for code that keeps raw pointers -------------------------------------------------- */

/**
 * Copies bytes of the range that are stale at `place` there, so that the whole range is current at
 * that place. Blocks until the bytes have arrived. Other places stay current.
 *
 * In the progress, bytes that were already current count as done. If the copy is cancelled, the
 * bytes that have arrived, which are the first ones of the range, are current at the place. A
 * failure changes nothing.
 * @param options progress and cancel; NULL for defaults. `convert` must be FERRY_CONVERT_NONE, and
 *         `stream` is ignored
 * @return the usual statuses (see the top of this file); FERRY_ERROR_CANCELLED when keep_going
 *         returned false; the message says how many bytes of the range are current.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_sync_to(ferry_buffer *buffer, size_t offset,
                                                            size_t count, int place,
                                                            const ferry_copy_options *options);
/**
 * The asynchronous twin of ferry_buffer_sync_to(): see the top of <ferry/copy.h>. A failure without
 * an event is logged.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_sync_to_async(ferry_buffer *buffer,
                                                                  size_t offset, size_t count,
                                                                  int place,
                                                                  const ferry_copy_options *options,
                                                                  ferry_event **event);
/**
 * Declares that the program wrote the range at `place` through a raw pointer. From then on the
 * range is current only at that place.
 *
 * @param written_on the stream whose work writes the bytes. NULL: the bytes are already written, by
 *         the host or by device work that has completed
 * The range may contain lost bytes: the program has rewritten them.
 *
 * @return the usual statuses (see the top of this file); FERRY_ERROR_CONFLICT when the place has no
 *         replica, or when bytes of the range are newer at another place.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_mark_dirty(ferry_buffer *buffer, size_t offset,
                                                               size_t count, int place,
                                                               ferry_stream *written_on);
/**
 * Marks the range as stale at `place`. Bytes that are current only there are first copied to
 * another place.
 *
 * If the range is the whole buffer, the call also frees the replica's memory. Lost bytes stay lost,
 * which is no failure of this call.
 * @return the usual statuses (see the top of this file); FERRY_ERROR_BUSY when a scope is open at
 *         that place, or when a write scope is open at another place, because abandoning that scope
 *         would need these bytes; FERRY_ERROR_INVALID_ARGUMENT also for the memory of a read-only
 *         wrap.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_invalidate(ferry_buffer *buffer, size_t offset,
                                                               size_t count, int place);
/**
 * Declares that the program no longer needs the values of the range. From then on the range reads
 * as zero. The call copies nothing.
 * @return the usual statuses (see the top of this file).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_discard(ferry_buffer *buffer, size_t offset,
                                                            size_t count);
/**
 * Allocates the memory of the replica at `place` now, instead of at its first use. For a view the
 * call allocates the replica of the whole base. It copies nothing.
 * @return the usual statuses (see the top of this file).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_reserve(ferry_buffer *buffer, int place);
/**
 * Frees the memory of the replica at `place`. For a view the call frees the replica of the whole
 * base. Bytes that are current only there are first copied to another place. Lost bytes stay lost,
 * which is no failure of this call.
 *
 * When memory runs short, Ferry also evicts replicas on its own. It chooses replicas that no scope,
 * call or hold uses, and that were not used recently. It first evicts replicas whose bytes are
 * current at another place too. Then it evicts others from devices, after it has copied their bytes
 * to the host.
 * @return the usual statuses (see the top of this file); FERRY_ERROR_INVALID_STATE for held and
 *         wrapped replicas; FERRY_ERROR_BUSY for the same reasons as ferry_buffer_invalidate().
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_evict(ferry_buffer *buffer, int place);
/**
 * Blocks until all queued work that uses the replica at `place` has completed.
 *
 * The call promises nothing about the bytes: it succeeds even if that work failed and the bytes are
 * lost.
 * @return the usual statuses (see the top of this file).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wait_idle(ferry_buffer *buffer, int place);
/**
 * Returns true if the newest value of every written byte in the handle's range is at `place`.
 * Returns false otherwise, for NULL, and for an unknown place. Other threads may change that at any
 * time.
 */
FERRY_API bool ferry_buffer_is_current(ferry_buffer *buffer, int place);
/**
 * Allocates the replica at `place`, and keeps it at its address until ferry_buffer_release(). Sets
 * `*out` to the address of this handle's first element.
 *
 * While the program holds the replica, Ferry does not evict, free, resize or move it. Each hold
 * needs one release. The call copies nothing; ferry_buffer_sync_to() makes the replica current.
 * @return the usual statuses (see the top of this file).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_hold(ferry_buffer *buffer, int place,
                                                         void **out);
/**
 * Ends one hold that ferry_buffer_hold() began on the replica at `place`.
 * @return the usual statuses (see the top of this file); FERRY_ERROR_INVALID_STATE when the program
 *         does not hold the replica.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_release(ferry_buffer *buffer, int place);
/** Returns true if the host replica exists and is page-locked, and false otherwise and for NULL. */
FERRY_API bool ferry_buffer_is_page_locked(ferry_buffer *buffer);
/**
 * Starts to copy `count` elements, from element `offset` on, to `place`, so that they become
 * current there, and returns. A worker thread makes the copy.
 *
 * Scopes and launches that need the bytes wait for the copy. Work that the program queues directly
 * on a native stream does not wait; open a scope at the place for that. A prefetch is only a hint,
 * and no event reports its end. If there is no memory for it, it copies nothing, and logs a message
 * with the level FERRY_LOG_INFO. Other failures are logged as errors.
 *
 * @param place 0 is the host
 * @param stream used only for managed memory, whose pages the driver moves in the order of this
 *         stream. NULL: the default stream of the place. The caller may destroy the stream when the
 *         call has returned
 * @return the usual statuses (see the top of this file); FERRY_ERROR_UNSUPPORTED for managed memory
 *         on a device without FERRY_CAN_MANAGE_CONCURRENTLY.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_prefetch(ferry_buffer *buffer, size_t offset,
                                                             size_t count, int place,
                                                             ferry_stream *stream);

/** Advice to the driver about managed memory. The meaning of a value never changes. */
typedef enum ferry_advice {
    FERRY_ADVISE_READ_MOSTLY = 1, /**< the pages are mostly read, so each place may keep a
                                       copy of them; `place` is ignored */
    FERRY_ADVISE_UNSET_READ_MOSTLY = 2,
    FERRY_ADVISE_PREFERRED_LOCATION = 3, /**< the driver keeps the pages at the place if it can */
    FERRY_ADVISE_UNSET_PREFERRED_LOCATION = 4,
    FERRY_ADVISE_ACCESSED_BY = 5, /**< the driver keeps the pages mapped for the place,
                                       wherever they are, so that it accesses them without
                                       page faults */
    FERRY_ADVISE_UNSET_ACCESSED_BY = 6
} ferry_advice;

/**
 * Passes advice about managed memory to the driver, for `count` elements from element `offset` on.
 * Ferry itself gives no advice. The driver keeps advice for whole pages, which no two buffers
 * share. Ferry withdraws the advice when the buffer gives its memory up, as in a resize or at its
 * end.
 * @param place the place that the advice is about: the host or a device
 * @return the usual statuses (see the top of this file); FERRY_ERROR_BUSY when a write scope is
 *         open; FERRY_ERROR_UNSUPPORTED for memory that is not managed, and for a device that takes
 *         no advice.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_advise(ferry_buffer *buffer, size_t offset,
                                                           size_t count, int place,
                                                           ferry_advice advice);

FERRY_END_DECLS

#endif
