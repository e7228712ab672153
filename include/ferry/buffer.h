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
 * Untyped buffers. Programs normally use the typed functions that ferry-gen writes, such as
 * <ferry/float.h>. Generated code calls the functions below, and so does code that learns element
 * types at run time.
 *
 * Conventions of this file:
 * - Offsets and counts are elements of the handle's own element. FERRY_REST as a count means up to
 *   the end.
 * - "The usual statuses" are FERRY_OK and those of the next list.
 * - A call that fails has changed nothing, unless its comment says otherwise.
 * - Any thread may call any function, unless its comment says otherwise.
 *
 * The usual statuses:
 * - FERRY_ERROR_INVALID_ARGUMENT: NULL or an empty handle.
 * - FERRY_ERROR_OUT_OF_RANGE: the range is past the end.
 * - FERRY_ERROR_WRONG_TYPE: the element differs from the buffer's.
 * - FERRY_ERROR_WRONG_CONTEXT: the stream belongs to another context.
 * - FERRY_ERROR_BUSY: an open scope conflicts.
 * - FERRY_ERROR_INVALID_STATE: the context was destroyed.
 * - FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_DEVICE, FERRY_ERROR_DEVICE_LOST: memory and devices
 *   failed.
 *
 * When a device is lost, the bytes that only it held are lost too. A page-locked host replica into
 * which it was copying is also lost. Reading lost bytes fails with FERRY_ERROR_DEVICE_LOST until
 * they are overwritten.
 */

/**
 * Where the newest bytes of a range are. A snapshot. A value never changes its meaning.
 *
 * A kernel that fails late, or a device that fails, can lose bytes that were written. Lost bytes
 * are current at no place: their range is MIXED when host and devices both have a replica, else
 * HOST_ONLY or DEVICE_ONLY. Reading them fails until they are overwritten.
 */
typedef enum ferry_state {
    FERRY_STATE_UNINITIALIZED = 0, /**< never written: reads as zero, and reading does not change
                                        the state */
    FERRY_STATE_HOST_ONLY = 1,     /**< no device has a replica */
    FERRY_STATE_DEVICE_ONLY = 2,   /**< the host has no replica */
    FERRY_STATE_SYNCHRONIZED = 3,  /**< host and devices hold the same written bytes */
    FERRY_STATE_HOST_DIRTY = 4,    /**< the host holds all written bytes, devices lack some */
    FERRY_STATE_DEVICE_DIRTY = 5,  /**< devices hold all written bytes, the host lacks some */
    FERRY_STATE_MIXED = 6          /**< each side lacks some written bytes */
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
    ferry_memory_kind memory; /**< DEFAULT, PAGEABLE or PINNED: the kind of the host replica;
                                   MANAGED: one replica for all places */
    bool scrub;               /**< bytes that an OVERWRITE scope does not write read as zero. The
                                   range is cleared first: if the device then refuses a launch, an
                                   old value that only its place held is lost */
    uint64_t reserved[4];
} ferry_buffer_options;

/** Options of a wrap of the caller's memory. NULL, or zero in a field, means the default. */
typedef struct ferry_wrap_options {
    const char *name;                             /**< name in messages; copied */
    void (*on_release)(void *memory, void *user); /**< called once after the last use, on the thread
                                                       that ended it. A restricted working callback,
                                                       see "Callbacks" in <ferry/status.h> */
    void *user;
    bool read_only;                               /**< writes fail with
                                                       FERRY_ERROR_INVALID_ARGUMENT, and nothing is
                                                       copied back */
    ferry_stream *release_on;                     /**< what waits for the last use of the memory
                                                       when the wrap ends. NULL: the host waits, and
                                                       then on_release is called. A stream of the
                                                       context, at any place: this stream waits, and
                                                       on_release is called at once. That suits an
                                                       owner whose allocator reuses memory in the
                                                       order of the stream. The stream is retained
                                                       until the wrap ends, and its native stream
                                                       must live as long */
    uint64_t reserved[3];
} ferry_wrap_options;

/**
 * Properties of a buffer. Strings live as long as the handle.
 *
 * The counters start at zero when the buffer is created; ferry_context_reset_stats() resets them.
 * They belong to the base, so a view reports the counters of its base. They cover the same
 * transfers as ferry_context_get_transfer_stats(): uploads, downloads, and transfers between
 * devices. A failed transfer adds only the bytes that arrived. A copy between two buffers is
 * counted for the buffer that is written. A call that copies several ranges of a buffer in one
 * transfer counts as one.
 */
typedef struct ferry_buffer_info {
    const char *name;             /**< "" when it has none */
    const ferry_element *element;
    size_t count;
    size_t bytes;
    size_t offset_bytes;          /**< offset of a view in its base */
    ferry_state state;            /**< state of exactly this range */
    uint32_t places_with_copy;    /**< bit p: place p has a replica */
    uint32_t places_current;      /**< bit p: place p holds every written byte */
    uint32_t scopes;              /**< open scopes of the whole base, and its open leases */
    bool borrowed;                /**< wraps memory of the caller */
    bool read_only;
    bool page_locked;             /**< the host replica exists and is page-locked */
    size_t allocated_bytes;       /**< pool memory of the base's replicas, over all places; wrapped
                                       memory does not count */
    uint32_t places_held;         /**< bit p: ferry_buffer_hold() holds the replica at place p */
    uint32_t handles;             /**< live handles: the base and its views */
    const char *site;             /**< call site that created the base, innermost function first,
                                       such as "load_tile+0x41, main+0x20 (./program)". "" when
                                       unknown and outside checked runs (docs/debugging.md) */
    const char *lease_labels;     /**< labels of the live leases, separated by "; ". Set by
                                       ferry_context_for_each_buffer(), elsewhere "" */
    uint32_t leases;              /**< live leases of the whole base, open and closed */
    ferry_transfer_count to_device; /**< transfers of the base from the host to a device, see below */
    ferry_transfer_count to_host;   /**< from a device to the host */
    ferry_transfer_count between_devices;
    uint64_t evictions;           /**< replicas of the base that were released because other
                                       buffers or blocks needed the memory */
    uint64_t last_transfer_ns;    /**< when the last of these transfers was counted, in nanoseconds
                                       of CLOCK_MONOTONIC; 0: there was none */
    uint64_t reserved[4];
} ferry_buffer_info;

/**
 * Visits one buffer; returning false ends the iteration. A working callback, see "Callbacks" in
 * <ferry/status.h>.
 */
typedef bool ferry_buffer_visit(const ferry_buffer_info *info, void *user);

/* -- creation and lifetime ------------------------------------------------------------------------- */

/**
 * Creates a buffer of `count` elements that reads as zero.
 *
 * The call reserves no memory at any place, makes no driver call, and does not block. The caller
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
 * Creates a buffer and copies `count` elements of `source` into its host replica.
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
 * Ferry never frees, moves, resizes or page-locks the memory. The buffer starts HOST_ONLY. The
 * memory must stay valid until ferry_buffer_unwrap(), or until the last handle is destroyed.
 * ferry_buffer_abandon() ends a wrap whose memory is already gone. The caller owns `*out`.
 * @return the usual statuses, FERRY_ERROR_WRONG_CONTEXT also for options.release_on;
 *         FERRY_ERROR_OVERFLOW as ferry_buffer_create().
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wrap_host(ferry_context *context, const ferry_element *element, void *memory,
                                                              size_t count, const ferry_wrap_options *options, ferry_buffer **out);

/**
 * Creates a buffer over `count` elements of the caller's device memory, at the place of `ready_on`.
 *
 * Its content is what the work on `ready_on` leaves in the memory. The buffer starts DEVICE_ONLY.
 * The memory must stay valid as for ferry_buffer_wrap_host(). The caller owns `*out`.
 * @param ready_on NULL: the default stream of a context with one device
 * @return as ferry_buffer_wrap_host().
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wrap_device(ferry_context *context, const ferry_element *element, void *memory,
                                                                size_t count, ferry_stream *ready_on,
                                                                const ferry_wrap_options *options, ferry_buffer **out);

/**
 * Ends a wrap: copies newer bytes back into the wrapped memory and sets `*buffer` to NULL.
 *
 * Bytes that were discarded are written as zeros. The call blocks until the bytes that the host
 * copies have arrived, and until calls of other threads on the buffer have ended. After a failure
 * the buffer stays wrapped.
 * @param stream waits for every use of the memory, beside options.release_on of the wrap. With
 *         on_release and without release_on, the call blocks as for NULL. NULL: the call blocks
 *         until every use has completed, unless the wrap has release_on
 * @return the usual statuses; FERRY_ERROR_INVALID_STATE when the buffer wraps no memory, or when
 *         other handles or views of it exist.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_unwrap(ferry_buffer **buffer, ferry_stream *stream);

/**
 * Ends a wrap without accessing its memory, and sets `*buffer` to NULL. Bytes that are newer at
 * other places are lost.
 *
 * The call itself neither reads, writes nor unregisters the memory, so the memory may already be
 * gone, if nothing else uses it any more:
 * - Calls and queued work that use the memory need it until they finish. The call waits for them,
 *   as ferry_buffer_unwrap() does. A device that fails meanwhile is logged.
 * - Another thread that runs short of memory may write newer bytes back to it until the call
 * begins.
 *
 * Finally the call calls on_release with the address of the memory.
 *
 * `*buffer` may be any handle of the wrap, also a view, but must be the only one that is left.
 * Destroying the other handles first does not touch the memory. Memory that was registered with
 * ferry_context_register_host() stays registered.
 * @return the usual statuses; FERRY_ERROR_INVALID_STATE when the buffer wraps no memory, or when
 *         other handles or views of it exist; FERRY_ERROR_BUSY when a scope is open or a lease
 *         exists. After a failure the buffer stays wrapped.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_abandon(ferry_buffer **buffer);

/**
 * Creates a view: a handle on `count` elements of `base` from `offset`, with the same element.
 *
 * No bytes are copied: base and view see each other's writes at every place. The view keeps the
 * base alive. The offset of a nested view is relative to its parent. A length of zero is legal,
 * also at the end. Does not block. The caller owns `*out`.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_view(ferry_buffer *base, const ferry_element *element, size_t offset,
                                                         size_t count, ferry_buffer **out);

/**
 * Creates a view that reads the bytes of `base` as another element.
 *
 * @param offset_bytes start of the view, in bytes
 * @param count elements of the new type; FERRY_REST requires that they divide the remaining bytes
 * @return the usual statuses; FERRY_ERROR_WRONG_TYPE when size or alignment do not divide.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_reinterpret(ferry_buffer *base, const ferry_element *element, size_t offset_bytes,
                                                            size_t count, ferry_buffer **out);

/**
 * Checks that the buffer has this element and returns the same handle in `*out`. The handle is
 * borrowed: the call does not add an owner.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_from_raw(ferry_buffer *raw, const ferry_element *element, ferry_buffer **out);

/**
 * Adds an owner and returns the same handle; NULL for NULL. Destroy the handle once for each owner.
 */
FERRY_API ferry_buffer *ferry_buffer_retain(ferry_buffer *buffer);

/**
 * Removes an owner and sets `*buffer` to NULL. The last owner destroys the buffer. Does not block,
 * except that the last owner of a wrap copies newer bytes back as ferry_buffer_unwrap() does. A
 * failure of that is logged.
 *
 * Queued work stays safe: its memory is reused only after it completed. When a scope is still open,
 * the call logs an error, and closing the scope frees the memory. In a callback that must not
 * destroy the last handle, the call logs an error and leaves `*buffer` unchanged.
 * @param buffer NULL and a pointer to NULL have no effect
 */
FERRY_API void ferry_buffer_destroy(ferry_buffer **buffer);

/** Returns the number of elements; 0 for NULL. */
FERRY_API size_t ferry_buffer_count(const ferry_buffer *buffer);
/** Returns the size in bytes; 0 for NULL. */
FERRY_API size_t ferry_buffer_bytes(const ferry_buffer *buffer);
/** Returns the library's own copy of the element's description; NULL for NULL. */
FERRY_API const ferry_element *ferry_buffer_element(const ferry_buffer *buffer);
/** Returns the context; NULL for NULL. */
FERRY_API ferry_context *ferry_buffer_context(const ferry_buffer *buffer);
/** Returns the state of exactly this handle's range; FERRY_STATE_UNINITIALIZED for NULL. */
FERRY_API ferry_state ferry_buffer_state(ferry_buffer *buffer);
/**
 * Fills `*out` with the buffer's properties. A snapshot. Does not block for queued work.
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
 * Visits every live buffer of the context, newest first. The list is a consistent snapshot; use it
 * to find out what holds memory.
 *
 * Views are not visited, but `handles` counts them. A destroyed buffer is visited while views or
 * scopes keep it. Other threads may create and destroy buffers during the call; they wait only
 * while the list is copied.
 *
 * @param visit a working callback, see "Callbacks" in <ferry/status.h>; its info and the strings in
 *         it are valid until it returns
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL), FERRY_ERROR_OUT_OF_MEMORY,
 *         FERRY_ERROR_INVALID_STATE (the context was destroyed, or this is a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_for_each_buffer(ferry_context *context, ferry_buffer_visit *visit, void *user);

/**
 * Writes text that shows what holds the context's memory.
 *
 * One line for each place lists the live and idle bytes of its pools. Blocks that the program
 * allocated itself are live; ferry_pool_for_each_block() lists them. One line for each buffer
 * follows, largest first. It has the line of ferry_buffer_describe(), the allocated bytes, open
 * scopes and held replicas. In checked runs it also has the call site that created the buffer.
 * Lines end with a newline, and the text ends with NUL when `bytes` > 0.
 *
 * @return the length of the whole text without NUL, as snprintf() does; 0 for NULL, for a destroyed
 *         context, and when memory is exhausted. The length may grow between two calls.
 * Threads: any.
 */
FERRY_API size_t ferry_context_describe(ferry_context *context, char *text, size_t bytes);

/**
 * Changes the number of elements to `count`.
 *
 * Elements below the smaller of the two counts keep their values at every place where they are
 * current. New elements read as zero. If `count` is the present length, nothing changes.
 *
 * A call on another thread at the same time sees either the old length or the new one. That call
 * fails with FERRY_ERROR_OUT_OF_RANGE if the range that it was given no longer exists. If it was
 * given FERRY_REST, it uses the length that it sees.
 * @return the usual statuses; FERRY_ERROR_OVERFLOW; FERRY_ERROR_INVALID_STATE for views, for
 *         buffers with views, and for held and wrapped buffers.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_resize(ferry_buffer *buffer, size_t count);

/* -- scopes ---------------------------------------------------------------------------------------- */

/**
 * Opens a scope on `count` elements from `offset` of host memory and sets `*out` to the address of
 * the first one.
 *
 * The call copies the bytes that the host lacks, none for FERRY_OVERWRITE. It blocks until queued
 * work no longer uses these host bytes. The replica is contiguous. The address is stable until the
 * host replica is invalidated, resized or evicted. For zero elements the scope is a closed one and
 * `*out` is NULL.
 * @return the usual statuses; FERRY_ERROR_INVALID_ARGUMENT also for a write to a read-only wrap.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_open_host(ferry_buffer *buffer, const ferry_element *element,
                                                              ferry_access access, size_t offset, size_t count,
                                                              ferry_scope *scope, void **out);

/**
 * Opens a scope on device memory at the place of `stream`, for work that the caller queues on that
 * stream. Sets `*out` to the device address of element `offset`.
 *
 * The call copies the bytes that the place lacks. It makes the stream wait for every earlier
 * conflicting use. The calling thread never waits for the stream's own work. The call returns at
 * once when the bytes come from page-locked memory. When they come from pageable memory, it returns
 * when the last byte has been copied to page-locked memory.
 * @param stream NULL: the default stream of a context with exactly one device
 * @return the usual statuses; FERRY_ERROR_INVALID_ARGUMENT also for a write to a read-only wrap;
 *         FERRY_ERROR_UNSUPPORTED when the stream is being captured and a driver call is needed.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_open_device(ferry_buffer *buffer, const ferry_element *element,
                                                                ferry_access access, ferry_stream *stream, size_t offset,
                                                                size_t count, ferry_scope *scope, void **out);

/**
 * Opens scopes on the ranges of all arguments at one place, or opens none.
 *
 * Each argument needs an access, see ferry_argument_with(). Overlapping ranges of one buffer are
 * merged; a READ merged with a write becomes an UPDATE. The call blocks as ferry_buffer_open_host()
 * and ferry_buffer_open_device() do.
 *
 * @param scopes array of `count` scopes, all written on success
 * @param out_pointers array of `count` pointers; may be NULL
 * @param stream a stream of `place`; must be NULL for the host
 * @return as ferry_buffer_open_device().
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_scope_open_all(ferry_scope *scopes, void **out_pointers,
                                                            const ferry_argument *arguments, size_t count, int place,
                                                            ferry_stream *stream);

/**
 * Blocks until no open scope prevents a scope with `access` on the handle's range.
 *
 * @param timeout_ns longest wait in nanoseconds; 0 checks once
 * @return the usual statuses; FERRY_ERROR_BUSY when the time has passed.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wait_available(ferry_buffer *buffer, ferry_access access, uint64_t timeout_ns);

/* -- places: for code that keeps raw pointers ------------------------------------------------------ */

/**
 * Makes the range current at `place`, as a READ scope does, and blocks until the bytes have
 * arrived.
 *
 * With options->event set the call returns at once, and the event reports the end: a prefetch that
 * can be waited for. Bytes that are already current at the place count as done. After a cancel, the
 * bytes that arrived are current at the place, from the start of the range. A failure leaves the
 * place unchanged.
 * @param options progress, cancel and the event; NULL for defaults. `convert` must be 0, and
 *                `stream` is not used.
 * @return the usual statuses, and FERRY_ERROR_CANCELLED; the message says how many bytes of the
 *         range are current.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_sync_to(ferry_buffer *buffer, size_t offset, size_t count, int place,
                                                            const ferry_copy_options *options);
/**
 * Reports that the program wrote the range of the replica at `place` through a raw pointer. The
 * range is then current only there.
 *
 * @param written_on the stream that writes; NULL: the host, or device work that completed before
 *         this call
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
 * @return the usual statuses; FERRY_ERROR_BUSY when a scope is open at that place, or when a write
 *         scope at another place can be abandoned and then needs these bytes;
 *         FERRY_ERROR_INVALID_ARGUMENT also for the memory of a read-only wrap.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_invalidate(ferry_buffer *buffer, size_t offset, size_t count, int place);
/**
 * Discards the content of the range, which then reads as zero. Copies nothing.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_discard(ferry_buffer *buffer, size_t offset, size_t count);
/**
 * Allocates the replica of the whole base at `place` now instead of at its first use. Copies
 * nothing.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_reserve(ferry_buffer *buffer, int place);
/**
 * Frees the replica of the whole base at `place`. Bytes that were current only there are copied to
 * another place first.
 *
 * When memory runs short, Ferry evicts replicas by itself: those that no scope, call or hold uses
 * and that were not used lately. It starts with replicas whose bytes another place also holds. It
 * then writes replicas of devices back to the host.
 * @return the usual statuses; FERRY_ERROR_INVALID_STATE for held and wrapped replicas;
 *         FERRY_ERROR_BUSY as ferry_buffer_invalidate().
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_evict(ferry_buffer *buffer, int place);
/**
 * Blocks until no queued work uses the replica at `place`.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wait_idle(ferry_buffer *buffer, int place);
/**
 * Returns true when every written byte of the range is current at `place`. A snapshot. Returns
 * false for NULL and for an unknown place.
 */
FERRY_API bool ferry_buffer_is_current(ferry_buffer *buffer, int place);
/**
 * Allocates the replica at `place`, keeps its address until ferry_buffer_release(), and sets `*out`
 * to the address of this handle's first element.
 *
 * A held replica is not evicted, freed, resized or moved by a compaction. Holds are counted. The
 * call copies nothing; use ferry_buffer_sync_to() to make the replica current.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_hold(ferry_buffer *buffer, int place, void **out);
/**
 * Removes one hold of ferry_buffer_hold() on the replica at `place`.
 * @return the usual statuses; FERRY_ERROR_INVALID_STATE when the replica is not held.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_release(ferry_buffer *buffer, int place);
/** Returns true when the host replica exists and is page-locked; false for NULL. */
FERRY_API bool ferry_buffer_is_page_locked(ferry_buffer *buffer);
/**
 * Starts to copy `count` elements from `offset` to `place` on a helper thread, and returns. Place 0
 * is the host.
 *
 * Scopes and launches that need the bytes wait for them. Work that the program queues on `stream`
 * by itself is not ordered after the prefetch; open a scope at the place for that. A prefetch is a
 * hint and has no event. If it finds no memory, it copies nothing and logs a FERRY_LOG_INFO
 * message.
 *
 * @param stream used only for managed memory, whose pages the driver moves by work on it; NULL: the
 *         place's default stream. It may be destroyed when the call has returned.
 * @return the usual statuses; FERRY_ERROR_UNSUPPORTED for managed memory on a device without
 *         FERRY_CAN_MANAGE_CONCURRENTLY.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_prefetch(ferry_buffer *buffer, size_t offset, size_t count, int place,
                                                             ferry_stream *stream);

/** Advice to the driver about managed memory. A value never changes its meaning. */
typedef enum ferry_advice {
    FERRY_ADVISE_READ_MOSTLY = 1,       /**< reads are far more frequent than writes: places keep
                                             copies of the pages; the place is ignored */
    FERRY_ADVISE_UNSET_READ_MOSTLY = 2,
    FERRY_ADVISE_PREFERRED_LOCATION = 3, /**< the pages stay at the place while they can */
    FERRY_ADVISE_UNSET_PREFERRED_LOCATION = 4,
    FERRY_ADVISE_ACCESSED_BY = 5,       /**< the place keeps the pages mapped, wherever they are */
    FERRY_ADVISE_UNSET_ACCESSED_BY = 6
} ferry_advice;

/**
 * Passes advice about `count` elements from `offset` at `place`, the host or a device, to the
 * driver. Ferry
 * never gives advice by itself.
 * @return the usual statuses; FERRY_ERROR_BUSY when a write scope is open; FERRY_ERROR_UNSUPPORTED
 *         for memory that is not managed, or a device that takes no advice.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_advise(ferry_buffer *buffer, size_t offset, size_t count,
                                                           ferry_advice advice, int place);

FERRY_END_DECLS

#endif
