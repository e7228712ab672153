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
 * Untyped buffers: their functions take the element as an argument. Programs normally use the typed
 * functions of generated headers, such as <ferry/float.h>. Those headers call the functions below,
 * and so does code that learns element types at run time.
 *
 * Conventions of this file:
 * - Offsets and counts are numbers of the handle's elements. FERRY_REST as a count means every
 *   element up to the end.
 * - "The usual statuses" are FERRY_OK and those of the next list.
 * - A call that fails changes nothing, unless its comment says otherwise.
 * - Any thread may call any function, unless its comment says otherwise.
 *
 * The usual statuses:
 * - FERRY_ERROR_INVALID_ARGUMENT: NULL or an empty handle.
 * - FERRY_ERROR_OUT_OF_RANGE: the range is past the end.
 * - FERRY_ERROR_WRONG_TYPE: the element that is passed differs from the buffer's.
 * - FERRY_ERROR_WRONG_CONTEXT: the stream belongs to another context.
 * - FERRY_ERROR_BUSY: an open scope conflicts with the call.
 * - FERRY_ERROR_INVALID_STATE: the context was destroyed.
 * - FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_DEVICE, FERRY_ERROR_DEVICE_LOST: there was not enough
 *   memory, a driver call failed, or the device failed.
 *
 * When a device fails (FERRY_ERROR_DEVICE_LOST), the bytes that only it held are lost. Bytes of a
 * page-locked host replica are lost too, if the device was copying into that replica. Reading lost
 * bytes fails with FERRY_ERROR_DEVICE_LOST until they are overwritten.
 */

/**
 * Where the newest bytes of a range are, at the time of the call that returns the state. The
 * meaning of a value never changes.
 *
 * Bytes that were written can be lost: when a device fails, or when a kernel fails after its launch
 * was accepted. Lost bytes are current at no place. A range with lost bytes is MIXED when both the
 * host and a device have a replica, else HOST_ONLY or DEVICE_ONLY. Reading lost bytes fails until
 * they are overwritten.
 */
typedef enum ferry_state {
    FERRY_STATE_UNINITIALIZED = 0, /**< no byte was written yet; the range reads as zero, and
                                        reading it does not change the state */
    FERRY_STATE_HOST_ONLY = 1,     /**< only the host has a replica */
    FERRY_STATE_DEVICE_ONLY = 2,   /**< only devices have a replica */
    FERRY_STATE_SYNCHRONIZED = 3,  /**< host and devices hold the same written bytes */
    FERRY_STATE_HOST_DIRTY = 4,    /**< the host holds all written bytes, devices lack some */
    FERRY_STATE_DEVICE_DIRTY = 5,  /**< devices hold all written bytes, the host lacks some */
    FERRY_STATE_MIXED = 6          /**< the host lacks some written bytes, and so do the devices */
} ferry_state;

/**
 * Returns the constant's name without its prefix, such as "HOST_DIRTY"; never NULL. Threads: any.
 */
FERRY_API const char *ferry_state_name(ferry_state state);

/** Options of a new buffer. NULL, or zero in a field, means the default. */
typedef struct ferry_buffer_options {
    const char *name;         /**< name in messages, traces and reports, and for
                                   ferry_context_find(); copied */
    size_t align;             /**< alignment of each replica in bytes, a power of two up to 2 MiB;
                                   default 256 */
    ferry_memory_kind memory; /**< the kind of memory of the host replica: FERRY_MEMORY_DEFAULT,
                                   _PAGEABLE or _PINNED; or _MANAGED: one replica for all places */
    bool scrub;               /**< clears the range of each OVERWRITE access to zero first, so that
                                   bytes which the access does not write read as zero. If the device
                                   then refuses a launch, or a lease without a stream, old values of
                                   the range that no other place held are lost */
    uint64_t reserved[4];
} ferry_buffer_options;

/** Options of a wrap of the caller's memory. NULL, or zero in a field, means the default. */
typedef struct ferry_wrap_options {
    const char *name;                             /**< name in messages; copied */
    void (*on_release)(void *memory, void *user); /**< called once, after the last use of the
                                                       memory, on the thread that ended that use. A
                                                       restricted working callback, see "Callbacks"
                                                       in <ferry/status.h> */
    void *user;
    bool read_only;                               /**< writes fail with
                                                       FERRY_ERROR_INVALID_ARGUMENT, and nothing is
                                                       copied back */
    ferry_stream *release_on;                     /**< which side waits for the last use of the
                                                       memory when the wrap ends. NULL: the host
                                                       waits, and Ferry calls on_release afterwards.
                                                       A stream of the context, at any place: that
                                                       stream waits, and Ferry calls on_release at
                                                       once. Choose a stream when the allocator of
                                                       the memory reuses it in the order of that
                                                       stream. Ferry keeps the ferry_stream until
                                                       the wrap ends; the native stream must exist
                                                       as long */
    uint64_t reserved[3];
} ferry_wrap_options;

/**
 * Properties of a buffer. Strings live as long as the handle.
 *
 * The counters start at zero when the buffer is created; ferry_context_reset_stats() resets them.
 * The base of a view is the buffer whose memory it shows, and a view reports the counters of its
 * base. The counters cover uploads, downloads and transfers between devices, as those of
 * ferry_context_get_transfer_stats() do. A failed transfer adds only the bytes that arrived. A copy
 * between two buffers is counted for the buffer that is written. A transfer of several ranges of a
 * buffer counts as one.
 */
typedef struct ferry_buffer_info {
    const char *name;             /**< "" when it has none */
    const ferry_element *element;
    size_t count;
    size_t bytes;
    size_t offset_bytes;          /**< bytes from the start of the base to the start of the view */
    ferry_state state;            /**< state of this handle's range; in a view, not of the whole
                                       base */
    uint32_t places_with_copy;    /**< bit p: place p has a replica */
    uint32_t places_current;      /**< bit p: place p holds every written byte */
    uint32_t scopes;              /**< open scopes of the whole base, and its open leases */
    bool borrowed;                /**< the buffer wraps memory of the caller */
    bool read_only;
    bool page_locked;             /**< the host replica exists and is page-locked */
    size_t allocated_bytes;       /**< memory that the replicas of the base take from pools, at all
                                       places together; wrapped memory does not count */
    uint32_t places_held;         /**< bit p: ferry_buffer_hold() holds the replica at place p */
    uint32_t handles;             /**< handles that exist: the base and its views */
    const char *site;             /**< the functions of the program that created the base, innermost
                                       first, such as "load_tile+0x41, main+0x20 (./program)"; ""
                                       when unknown. Known only in checked runs
                                       (docs/debugging.md) */
    const char *lease_labels;     /**< labels of the leases that exist, separated by "; ". Only
                                       ferry_context_for_each_buffer() sets it; elsewhere it is
                                       "" */
    uint32_t leases;              /**< leases of the whole base that exist, open or closed */
    ferry_transfer_count to_device; /**< transfers of the base from the host to a device */
    ferry_transfer_count to_host;   /**< transfers of the base from a device to the host */
    ferry_transfer_count between_devices;
    uint64_t evictions;           /**< evicted replicas of the base, whose memory other buffers or
                                       blocks needed */
    uint64_t last_transfer_ns;    /**< time of CLOCK_MONOTONIC, in nanoseconds, at which the last
                                       transfer of the three counters was counted; 0: none was */
    uint64_t reserved[4];
} ferry_buffer_info;

/**
 * Receives one buffer; ends the iteration by returning false. A working callback, see "Callbacks"
 * in <ferry/status.h>.
 */
typedef bool ferry_buffer_visit(const ferry_buffer_info *info, void *user);

/* -- creation and lifetime ------------------------------------------------------------------------- */

/**
 * Creates a buffer of `count` elements that reads as zero.
 *
 * The call allocates no memory at any place, makes no driver call, and does not block. The caller
 * owns `*out`.
 *
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (also for an invalid element),
 *         FERRY_ERROR_OVERFLOW (the size in bytes exceeds size_t or the context's
 *         buffer_bytes_limit), FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_UNSUPPORTED (managed memory
 *         that some device of the context lacks), FERRY_ERROR_INVALID_STATE.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_create(ferry_context *context, const ferry_element *element, size_t count,
                                                           const ferry_buffer_options *options, ferry_buffer **out);

/**
 * Creates a buffer of `count` elements, and copies the elements of `source` into its host replica.
 *
 * Later changes of `source` do not affect the buffer. The caller owns `*out`.
 * @return as ferry_buffer_create().
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_create_from(ferry_context *context, const ferry_element *element,
                                                                const void *source, size_t count,
                                                                const ferry_buffer_options *options, ferry_buffer **out);

/**
 * Creates a buffer over `count` elements of the caller's host memory, which becomes the host
 * replica.
 *
 * Ferry never frees, moves, resizes or page-locks the memory. The buffer starts in
 * FERRY_STATE_HOST_ONLY. The memory must stay valid until ferry_buffer_unwrap(), or until the last
 * handle is destroyed. ferry_buffer_abandon() ends a wrap whose memory is already gone. The caller
 * owns `*out`.
 * @return the usual statuses; FERRY_ERROR_WRONG_CONTEXT also when options->release_on belongs to
 *         another context; FERRY_ERROR_OVERFLOW as ferry_buffer_create().
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wrap_host(ferry_context *context, const ferry_element *element, void *memory,
                                                              size_t count, const ferry_wrap_options *options, ferry_buffer **out);

/**
 * Creates a buffer over `count` elements of the caller's device memory, at the place of `ready_on`.
 *
 * The buffer holds the values that the work which is queued on `ready_on` now leaves in the memory.
 * It starts in FERRY_STATE_DEVICE_ONLY. The memory must stay valid as for ferry_buffer_wrap_host().
 * The caller owns `*out`.
 * @param ready_on NULL: the default stream of a context with one device
 * @return as ferry_buffer_wrap_host().
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wrap_device(ferry_context *context, const ferry_element *element, void *memory,
                                                                size_t count, ferry_stream *ready_on,
                                                                const ferry_wrap_options *options, ferry_buffer **out);

/**
 * Ends a wrap: copies bytes that are newer at other places back into the wrapped memory, destroys
 * the buffer, and sets `*buffer` to NULL.
 *
 * The call writes zeros for bytes that were discarded. It blocks until copies that the host makes
 * are done, and until calls of other threads on the buffer have returned. After a failure the
 * buffer stays wrapped.
 * @param stream a stream that waits for every use of the memory, in addition to release_on of the
 *         wrap's options; the call then does not wait for queued work. NULL: the call blocks until
 *         every use has completed, unless the wrap has release_on. If the wrap has on_release but
 *         not release_on, the call blocks in every case
 * @return the usual statuses; FERRY_ERROR_INVALID_STATE when the buffer wraps no memory, or when
 *         other handles or views of it exist.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_unwrap(ferry_buffer **buffer, ferry_stream *stream);

/**
 * Ends a wrap without accessing the wrapped memory, destroys the buffer, and sets `*buffer` to
 * NULL. Bytes that are newer at other places are lost.
 *
 * The call itself neither reads, writes nor unregisters the memory. The memory may therefore be
 * freed before the call, if nothing else can still use it:
 * - Calls and queued work that use the memory need it until they finish. This call waits for them,
 *   as ferry_buffer_unwrap() does. If the device fails during that wait, the failure is logged.
 * - Until this call begins, an allocation on another thread that runs short of memory may evict a
 *   replica of the buffer, and copy newer bytes back to the wrapped memory.
 *
 * At its end the call calls on_release with the address of the memory.
 *
 * `*buffer` must be the only handle of the wrap that is left; it may be a view. Destroy the other
 * handles first; that does not access the memory. Memory that was registered with
 * ferry_context_register_host() stays registered.
 * @return the usual statuses; FERRY_ERROR_INVALID_STATE when the buffer wraps no memory, or when
 *         other handles or views of it exist; FERRY_ERROR_BUSY when a scope is open or a lease
 *         exists. After a failure the buffer stays wrapped.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_abandon(ferry_buffer **buffer);

/**
 * Creates a view: a handle on `count` elements of `base` from `offset`, with the same element.
 *
 * No bytes are copied: base and view show the same bytes at every place. The view keeps the base
 * alive. For a view of a view, `offset` counts from the start of the outer view. A count of 0 is
 * legal, also at the end. Does not block. The caller owns `*out`.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_view(ferry_buffer *base, const ferry_element *element, size_t offset,
                                                         size_t count, ferry_buffer **out);

/**
 * Creates a view that reads the bytes of `base` as another element.
 *
 * @param offset_bytes start of the view, in bytes
 * @param count elements of the new type. FERRY_REST takes all remaining bytes, which must be a
 *         whole number of elements
 * @return the usual statuses; FERRY_ERROR_WRONG_TYPE when the bytes are not a whole number of
 *         elements, or the start is not aligned for the new element.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_reinterpret(ferry_buffer *base, const ferry_element *element, size_t offset_bytes,
                                                            size_t count, ferry_buffer **out);

/**
 * Checks that the buffer has this element, and sets `*out` to the same handle. The call does not
 * add an owner: do not destroy `*out` in addition to `raw`.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_from_raw(ferry_buffer *raw, const ferry_element *element, ferry_buffer **out);

/**
 * Adds an owner and returns the same handle; NULL for NULL. Destroy the handle once for each owner.
 */
FERRY_API ferry_buffer *ferry_buffer_retain(ferry_buffer *buffer);

/**
 * Removes an owner and sets `*buffer` to NULL. The last owner destroys the buffer. The call does
 * not block, with one exception: the last owner of a wrapped buffer ends the wrap as
 * ferry_buffer_unwrap() does, and logs a failure.
 *
 * Queued work may still use the memory, which is reused only after that work has completed. If a
 * scope is still open, the call logs an error, and the memory is freed when the scope is closed.
 * Inside a callback that must not destroy the last handle, the call logs an error and leaves
 * `*buffer` unchanged.
 * @param buffer NULL and a pointer to NULL have no effect
 */
FERRY_API void ferry_buffer_destroy(ferry_buffer **buffer);

/** Returns the number of elements; 0 for NULL. */
FERRY_API size_t ferry_buffer_count(const ferry_buffer *buffer);
/** Returns the size in bytes; 0 for NULL. */
FERRY_API size_t ferry_buffer_bytes(const ferry_buffer *buffer);
/** Returns the description of the buffer's element, which the library owns; NULL for NULL. */
FERRY_API const ferry_element *ferry_buffer_element(const ferry_buffer *buffer);
/** Returns the context of the buffer, without adding an owner; NULL for NULL. */
FERRY_API ferry_context *ferry_buffer_context(const ferry_buffer *buffer);
/**
 * Returns where the newest bytes of this handle's range are; FERRY_STATE_UNINITIALIZED for NULL.
 */
FERRY_API ferry_state ferry_buffer_state(ferry_buffer *buffer);
/**
 * Copies the buffer's properties to `*out`. Other threads may change them at any time. Does not
 * wait for queued work.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_get_info(ferry_buffer *buffer, ferry_buffer_info *out);
/**
 * Writes one line that describes the buffer, such as `float[1000] "heights" 4000 bytes HOST_DIRTY
 * copies: host cuda:0`.
 *
 * The line is truncated to `bytes` and ends with NUL when `bytes` > 0.
 * @return the length of the whole line without NUL, as snprintf() does; 0 for NULL.
 */
FERRY_API size_t ferry_buffer_describe(ferry_buffer *buffer, char *text, size_t bytes);

/**
 * Visits every live buffer of the context, newest first. It shows all buffers as they were at one
 * moment. Use it to find out what holds memory.
 *
 * Views are not visited, but `handles` of the info counts them. A buffer whose handle was destroyed
 * is visited as long as views or scopes keep it alive. Other threads may create and destroy buffers
 * during the call; they wait only while the call copies its list.
 *
 * @param visit a working callback, see "Callbacks" in <ferry/status.h>; the info that it receives,
 *         and the strings in that info, are valid until it returns
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL), FERRY_ERROR_OUT_OF_MEMORY,
 *         FERRY_ERROR_INVALID_STATE (the context was destroyed, or this is a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_for_each_buffer(ferry_context *context, ferry_buffer_visit *visit, void *user);

/**
 * Writes text that shows what holds the context's memory.
 *
 * One line for each place lists the live and idle bytes of its pools. Blocks that the program
 * allocated count as live; ferry_pool_for_each_block() lists them. One line for each buffer
 * follows, largest first. It consists of the text of ferry_buffer_describe(), the allocated bytes,
 * the open scopes and the held replicas. In checked runs it also shows where the program created
 * the buffer. Lines end with a newline, and the text ends with NUL when `bytes` > 0.
 *
 * @return the length of the whole text without NUL, as snprintf() does; 0 for NULL, for a destroyed
 *         context, and when memory is exhausted. The next call may return a larger length.
 * Threads: any.
 */
FERRY_API size_t ferry_context_describe(ferry_context *context, char *text, size_t bytes);

/**
 * Changes the number of elements to `count`.
 *
 * Elements below the smaller of the two counts keep their values at every place where they are
 * current. New elements read as zero. If `count` is the present length, nothing changes.
 *
 * A call on another thread at the same time uses either the old length or the new one. It fails
 * with FERRY_ERROR_OUT_OF_RANGE if its range is past the end of the new length. With FERRY_REST it
 * uses the length that it finds.
 * @return the usual statuses; FERRY_ERROR_OVERFLOW; FERRY_ERROR_INVALID_STATE for views, for
 *         buffers with views, and for held and wrapped buffers.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_resize(ferry_buffer *buffer, size_t count);

/* -- scopes ---------------------------------------------------------------------------------------- */

/**
 * Opens a scope on `count` elements from `offset` of host memory and sets `*out` to the address of
 * the first one.
 *
 * The call copies the bytes that are not current on the host; with FERRY_OVERWRITE it copies
 * nothing. It blocks until these copies are done, and until no queued work conflicts with the
 * access. The elements are contiguous in memory. For zero elements the scope is a closed one and
 * `*out` is NULL. Later scopes get the same address until the host replica is invalidated, resized
 * or evicted.
 * @return the usual statuses; FERRY_ERROR_INVALID_ARGUMENT also for a write to a read-only wrap.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_open_host(ferry_buffer *buffer, const ferry_element *element,
                                                              ferry_access access, size_t offset, size_t count,
                                                              ferry_scope *scope, void **out);

/**
 * Opens a scope on device memory at the place of `stream`, for work that the caller queues on that
 * stream. Sets `*out` to the device address of element `offset`.
 *
 * The call queues copies of the bytes that are not current at the place, and makes the stream wait
 * for every earlier use that conflicts. The calling thread does not wait for the work on the
 * stream. When the bytes come from page-locked memory, the call returns at once. When they come
 * from pageable memory, it returns after it has copied them to page-locked memory.
 * @param stream NULL: the default stream of a context with exactly one device
 * @return the usual statuses; FERRY_ERROR_INVALID_ARGUMENT also for a write to a read-only wrap;
 *         FERRY_ERROR_UNSUPPORTED when the stream is being captured and a driver call is needed.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_open_device(ferry_buffer *buffer, const ferry_element *element,
                                                                ferry_access access, ferry_stream *stream, size_t offset,
                                                                size_t count, ferry_scope *scope, void **out);

/**
 * Opens one scope at `place` for each argument, or opens none when one of them fails.
 *
 * Each argument is a range of a buffer, and has an access, see ferry_argument_with(). Overlapping
 * ranges of one buffer do not conflict: their scopes are merged, and a READ that is merged with a
 * write becomes an UPDATE. The call blocks as ferry_buffer_open_host() and
 * ferry_buffer_open_device() do.
 *
 * @param scopes array of `count` scopes, all written on success
 * @param out_pointers receives the address of each range; an array of `count` pointers, or NULL
 * @param stream a stream of `place`; must be NULL for the host
 * @return as ferry_buffer_open_device().
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_scope_open_all(ferry_scope *scopes, void **out_pointers,
                                                            const ferry_argument *arguments, size_t count, int place,
                                                            ferry_stream *stream);

/**
 * Blocks until no open scope conflicts with `access` to the handle's range. The call opens nothing
 * itself.
 *
 * @param timeout_ns longest wait in nanoseconds; 0: the call checks once and returns
 * @return the usual statuses; FERRY_ERROR_BUSY when a scope still conflicts after that time.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wait_available(ferry_buffer *buffer, ferry_access access, uint64_t timeout_ns);

/* -- places: for code that keeps raw pointers ------------------------------------------------------ */

/**
 * Makes the range current at `place`, as a READ scope does, and blocks until the bytes have
 * arrived.
 *
 * With options->event set the call returns at once, and the event completes when the bytes have
 * arrived. Progress counts bytes that were current at the place before as done. After a cancel, the
 * first bytes of the range, which have arrived, are current at the place. A failure changes
 * nothing.
 * @param options progress, cancel and the event; NULL for defaults. `convert` must be 0, and
 *         `stream` is ignored.
 * @return the usual statuses, and FERRY_ERROR_CANCELLED; the message says how many bytes of the
 *         range are current.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_sync_to(ferry_buffer *buffer, size_t offset, size_t count, int place,
                                                            const ferry_copy_options *options);
/**
 * Declares that the program wrote the range of the replica at `place` through a raw pointer. The
 * range is then current only at that place.
 *
 * @param written_on the stream whose work writes the bytes; NULL: the host wrote them, or device
 *         work that completed before this call
 * @return the usual statuses; FERRY_ERROR_CONFLICT when the place has no replica, or when bytes of
 *         the range are newer at another place.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_mark_dirty(ferry_buffer *buffer, size_t offset, size_t count, int place,
                                                               ferry_stream *written_on);
/**
 * Marks the range of the replica at `place` as stale. Bytes that were current only there are copied
 * to another place first.
 *
 * When the range is the whole buffer, the replica's memory is freed.
 * @return the usual statuses; FERRY_ERROR_BUSY when a scope is open at that place. It is also
 *         returned when a write scope is open at another place, because abandoning that scope would
 *         need these bytes. FERRY_ERROR_INVALID_ARGUMENT also for the memory of a read-only wrap.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_invalidate(ferry_buffer *buffer, size_t offset, size_t count, int place);
/**
 * Declares that the values of the range are no longer needed. The range then reads as zero. Copies
 * nothing.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_discard(ferry_buffer *buffer, size_t offset, size_t count);
/**
 * Allocates the replica at `place` now instead of at its first use. For a view, that is the replica
 * of its whole base. Copies nothing.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_reserve(ferry_buffer *buffer, int place);
/**
 * Frees the replica at `place`; for a view, the replica of its whole base. Bytes that were current
 * only there are copied to another place first.
 *
 * When memory runs short, Ferry also evicts replicas without being asked. It chooses replicas that
 * no scope, call or hold uses and that were not used lately. It starts with replicas whose bytes
 * another place also holds. Then it evicts others from devices, and copies their bytes to the host.
 * @return the usual statuses; FERRY_ERROR_INVALID_STATE for held and wrapped replicas;
 *         FERRY_ERROR_BUSY as ferry_buffer_invalidate().
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_evict(ferry_buffer *buffer, int place);
/**
 * Blocks until all queued work that uses the replica at `place` has completed.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wait_idle(ferry_buffer *buffer, int place);
/**
 * Returns true when every written byte of the handle's range is current at `place`, and false for
 * NULL and for an unknown place. Other threads may change that at any time.
 */
FERRY_API bool ferry_buffer_is_current(ferry_buffer *buffer, int place);
/**
 * Allocates the replica at `place`, keeps its address until ferry_buffer_release(), and sets `*out`
 * to the address of this handle's first element.
 *
 * While it is held, the replica is not evicted, freed, resized or moved by a compaction. Each hold
 * needs one release. The call copies nothing; use ferry_buffer_sync_to() to make the replica
 * current.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_hold(ferry_buffer *buffer, int place, void **out);
/**
 * Ends one hold that ferry_buffer_hold() placed on the replica at `place`.
 * @return the usual statuses; FERRY_ERROR_INVALID_STATE when the replica is not held.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_release(ferry_buffer *buffer, int place);
/** Returns true when the host replica exists and is page-locked; false for NULL. */
FERRY_API bool ferry_buffer_is_page_locked(ferry_buffer *buffer);
/**
 * Starts to make `count` elements from `offset` current at `place`, and returns. A helper thread
 * copies them. Place 0 is the host.
 *
 * Scopes and launches that need the bytes wait for the copy. Work that the program queues on
 * `stream` directly does not wait; open a scope at the place for that. A prefetch is a hint, and no
 * event reports its end. If there is no memory for it, it copies nothing and logs a message with
 * the level FERRY_LOG_INFO.
 *
 * @param stream used only for managed memory: the driver moves its pages in the order of this
 *         stream. NULL: the place's default stream. The caller may destroy it when the call has
 *         returned.
 * @return the usual statuses; FERRY_ERROR_UNSUPPORTED for managed memory on a device without
 *         FERRY_CAN_MANAGE_CONCURRENTLY.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_prefetch(ferry_buffer *buffer, size_t offset, size_t count, int place,
                                                             ferry_stream *stream);

/** Advice to the driver about managed memory. The meaning of a value never changes. */
typedef enum ferry_advice {
    FERRY_ADVISE_READ_MOSTLY = 1,       /**< reads are far more frequent than writes, so each place
                                             may keep a copy of the pages; `place` is ignored */
    FERRY_ADVISE_UNSET_READ_MOSTLY = 2,
    FERRY_ADVISE_PREFERRED_LOCATION = 3, /**< the pages stay at the place as long as possible */
    FERRY_ADVISE_UNSET_PREFERRED_LOCATION = 4,
    FERRY_ADVISE_ACCESSED_BY = 5,       /**< the place keeps the pages mapped, wherever they are,
                                             and so accesses them without page faults */
    FERRY_ADVISE_UNSET_ACCESSED_BY = 6
} ferry_advice;

/**
 * Passes advice about `count` elements from `offset` to the driver. `place` is the place that the
 * advice names: the host or a device. Ferry never gives advice by itself.
 * @return the usual statuses; FERRY_ERROR_BUSY when a write scope is open; FERRY_ERROR_UNSUPPORTED
 *         for memory that is not managed, or a device that takes no advice.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_advise(ferry_buffer *buffer, size_t offset, size_t count,
                                                           ferry_advice advice, int place);

FERRY_END_DECLS

#endif
