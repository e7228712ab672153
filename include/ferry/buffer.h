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
 * Untyped buffers, for code that learns element types only at run time. Other programs use the
 * typed functions of generated headers, such as <ferry/float.h>, which call the functions below.
 *
 * Conventions of this file:
 * - Offsets and counts are numbers of elements of the handle. A range is `count` elements from
 *   element `offset` on. FERRY_REST as a count means every element up to the end.
 * - The caller owns a handle that a call creates.
 * - A call that fails changes nothing, and any thread may call any function, unless the comment
 *   says otherwise. Other threads may change at any time what a query returns.
 *
 * "The usual statuses" are FERRY_OK and:
 * - FERRY_ERROR_INVALID_ARGUMENT: an argument is NULL or an empty handle, or the call would write
 *   through a read-only handle, see ferry_buffer_view_read_only().
 * - FERRY_ERROR_OUT_OF_RANGE: the range ends after the end of the buffer.
 * - FERRY_ERROR_WRONG_TYPE: the element type of the call is not that of the buffer.
 * - FERRY_ERROR_WRONG_CONTEXT: a stream belongs to another context.
 * - FERRY_ERROR_BUSY: an open scope conflicts with the call, or a call inside a working callback
 *   would wait for the surrounding call or for one in another callback.
 * - FERRY_ERROR_INVALID_STATE: the context was destroyed, or the call is inside a watching
 *   callback.
 * - FERRY_ERROR_OUT_OF_MEMORY: there is not enough memory.
 * - FERRY_ERROR_DEVICE: a driver call failed.
 * - FERRY_ERROR_DEVICE_LOST: the device failed, or bytes that the call needs were lost with it, see
 *   "Lost bytes" in docs/concepts.md.
 * - The status of a kernel that failed after its launch was accepted, see ferry_host_function. The
 *   bytes that it should have written are lost, and the call needs them, or has waited for them.
 *
 * Calls that set a size also return FERRY_ERROR_OVERFLOW, if the size in bytes exceeds size_t or
 * the context's buffer_bytes_limit.
 */

/**
 * Where the newest bytes of a range are when the call returns its state. The meaning of a value
 * never changes. "Lost bytes" in docs/concepts.md says which state a range with lost bytes has.
 */
typedef enum ferry_state {
    FERRY_STATE_UNINITIALIZED = 0, /**< no byte of the range was written yet. It reads as zero;
                                        reading does not change the state */
    FERRY_STATE_HOST_ONLY = 1,     /**< only the host has a replica */
    FERRY_STATE_DEVICE_ONLY = 2,   /**< only devices have a replica */
    FERRY_STATE_SYNCHRONIZED = 3,  /**< both the host and the devices hold the newest value of all
                                        written bytes */
    FERRY_STATE_HOST_DIRTY = 4,    /**< only the host holds the newest value of all written bytes;
                                        devices have a replica */
    FERRY_STATE_DEVICE_DIRTY = 5,  /**< only devices hold the newest value of all written bytes; the
                                        host has a replica */
    FERRY_STATE_MIXED = 6          /**< neither the host nor the devices hold the newest value of
                                        all written bytes */
} ferry_state;

/**
 * Returns the name of a state without its prefix, such as "HOST_DIRTY"; never NULL. Threads: any.
 */
FERRY_API const char *ferry_state_name(ferry_state state);

/** Options of a new buffer. NULL, or zero in a field, means the default. */
typedef struct ferry_buffer_options {
    const char *name;         /**< name in messages, traces and reports, and for
                                   ferry_context_find(); copied. Control characters, such as a
                                   newline, become spaces */
    size_t align;             /**< alignment of each replica in bytes: a power of two up to 2 MiB;
                                   default: 256 */
    ferry_memory_kind memory; /**< kind of memory of the host replica: FERRY_MEMORY_DEFAULT,
                                   FERRY_MEMORY_PAGEABLE or FERRY_MEMORY_PINNED. With
                                   FERRY_MEMORY_MANAGED one replica serves all places.
                                   FERRY_MEMORY_SHARED: see <ferry/share.h> */
    bool scrub;               /**< each OVERWRITE access first sets its range to zero, so bytes that
                                   it does not write read as zero. "Accesses" in docs/concepts.md
                                   says when that loses old values */
    bool zero_on_release; /**< the memory of each replica, and temporary device memory of copies and
                               conversions of the buffer, is set to zero before anyone else can get
                               it. If that fails, the memory stays allocated until the context ends,
                               and the failure is logged. Not covered: the staging ring, which
                               buffers with FERRY_MEMORY_PINNED do not use, memory of the caller,
                               shared memory, files, and a device that fails */
    int place; /**< with FERRY_MEMORY_SHARED: the place whose memory is shared; default: the host */
    uint64_t reserved[3];
} ferry_buffer_options;

/**
 * Options of a buffer that wraps memory of the caller. NULL, or zero in a field, means the default.
 */
typedef struct ferry_wrap_options {
    const char *name;                             /**< name, as in ferry_buffer_options */
    void (*on_release)(void *memory, void *user); /**< called once, after the last use of the
                                                       memory, on the thread that ended that use. No
                                                       handle of the buffer is valid any more, so it
                                                       must use none. A working callback, see
                                                       "Callbacks" in <ferry/status.h> */
    void *user;
    bool read_only;           /**< true: writing to the buffer fails with
                                   FERRY_ERROR_INVALID_ARGUMENT */
    ferry_stream *release_on; /**< when the wrap ends, queued work may still use the memory. NULL:
                                   the host waits for that work, and then Ferry calls on_release. A
                                   stream of the context, at any place: that stream waits for the
                                   work, and Ferry calls on_release at once. Ferry keeps the
                                   ferry_stream until the wrap ends; the program keeps the native
                                   stream as long */
    uint64_t reserved[3];
} ferry_wrap_options;

/**
 * Properties of a buffer. The strings are valid as long as the handle.
 *
 * A view has the counters of its base, which is the buffer whose memory it shows. They begin at
 * zero with the base, and ferry_context_reset_stats() resets them. A failed transfer counts with
 * the bytes that arrived, a copy between two buffers counts for the one that is written, and a
 * transfer of several ranges of one buffer counts as one.
 */
typedef struct ferry_buffer_info {
    const char *name; /**< "" if the buffer has no name */
    const ferry_element *element;
    size_t count;
    size_t bytes;
    size_t offset_bytes;       /**< offset of the view in its base, in bytes; 0 for a base */
    ferry_state state;         /**< state of this handle's range */
    uint32_t places_with_copy; /**< bit p: place p has a replica */
    uint32_t places_current;   /**< bit p: place p holds every written byte */
    uint32_t scopes;           /**< number of open scopes and open leases on the whole base */
    bool borrowed;             /**< the buffer wraps memory of the caller, or shares memory with
                                    other processes */
    /** nothing may be written through this handle */
    bool read_only;
    bool away;                /**< other processes share the memory, and this one has not acquired
                                   it */
    bool page_locked;         /**< the host replica exists and is page-locked */
    size_t allocated_bytes;   /**< bytes that all replicas of the base use from pools; wrapped
                                   memory does not count */
    uint32_t places_held;     /**< bit p: the program holds the replica at place p */
    uint32_t handles;         /**< number of handles: views, and the base if it was not destroyed */
    const char *site;         /**< in checked runs (docs/debugging.md) the call stack at the
                                   creation of the base, innermost function first, such as
                                   "load_tile+0x41, main+0x20 (./program)"; otherwise "" */
    const char *lease_labels; /**< labels of the base's leases, separated by "; ", from
                                   ferry_context_for_each_buffer(); otherwise "" */
    uint32_t leases;          /**< number of leases on the whole base, open or closed */
    ferry_transfer_count to_device; /**< from the host to a device */
    ferry_transfer_count to_host;   /**< from a device to the host */
    ferry_transfer_count between_devices;
    uint64_t evictions;        /**< how often Ferry evicted a replica of the base because memory was
                                    short */
    uint64_t last_transfer_ns; /**< when the newest counted transfer was counted, in nanoseconds of
                                    CLOCK_MONOTONIC; 0: none was */
    uint64_t reserved[4];
} ferry_buffer_info;

/**
 * A function of the program that receives the properties of one buffer, and returns false to stop.
 * `info` and its strings are valid until it returns. It is a working callback, see "Callbacks" in
 * <ferry/status.h>.
 */
typedef bool ferry_buffer_visit(const ferry_buffer_info *info, void *user);

/* -- creation and lifetime --------------------------------------------------------------------- */

/**
 * Creates a buffer of `count` elements that reads as zero.
 *
 * The call allocates no memory at any place, makes no driver call, and does not block.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also for an invalid element type or option);
 *         FERRY_ERROR_OVERFLOW; FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_INVALID_STATE;
 *         FERRY_ERROR_UNSUPPORTED (managed memory, which a device of the context does not have).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_create(ferry_context *context,
                                                           const ferry_element *element,
                                                           size_t count,
                                                           const ferry_buffer_options *options,
                                                           ferry_buffer **out);

/**
 * Creates a buffer of `count` elements, and copies the elements of `source` into its host replica.
 * @return the same statuses as ferry_buffer_create().
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_create_from(ferry_context *context,
                                                                const ferry_element *element,
                                                                size_t count, const void *source,
                                                                const ferry_buffer_options *options,
                                                                ferry_buffer **out);

/**
 * Creates a buffer over `count` elements of host memory that belongs to the caller. The memory
 * becomes the host replica.
 *
 * The buffer starts in FERRY_STATE_HOST_ONLY. Ferry never frees, moves, resizes or page-locks the
 * memory. The memory must stay valid until ferry_buffer_unwrap(), or until the last handle is
 * destroyed. If it is already gone, ferry_buffer_abandon() ends the wrap.
 *
 * No two buffers may wrap the same bytes for writing: a checked run (docs/debugging.md) logs a
 * warning with both names. The program may change the memory only while a scope is open, or before
 * ferry_buffer_mark_dirty(). If `count` is 0, `memory` may be any pointer.
 * @return the usual statuses; FERRY_ERROR_OVERFLOW; FERRY_ERROR_INVALID_ARGUMENT also when a
 *         checked run finds that the memory is a device's.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wrap_host(ferry_context *context,
                                                              const ferry_element *element,
                                                              size_t count, void *memory,
                                                              const ferry_wrap_options *options,
                                                              ferry_buffer **out);

/**
 * Creates a buffer over `count` elements of device memory that belongs to the caller, at the place
 * of the stream `ready_on`.
 *
 * The buffer starts in FERRY_STATE_DEVICE_ONLY. Its content is what the memory contains after the
 * work that is now queued on `ready_on`. Otherwise the rules of ferry_buffer_wrap_host() hold.
 * @param ready_on NULL: the default stream, if the context has exactly one device
 * @return the same statuses as ferry_buffer_wrap_host(); FERRY_ERROR_UNSUPPORTED when the device
 *         uses the host's memory (see ferry_place_info) and the host may not use this memory;
 *         FERRY_ERROR_INVALID_ARGUMENT also when a checked run finds that the device cannot use it.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wrap_device(
    ferry_context *context, const ferry_element *element, size_t count, ferry_stream *ready_on,
    void *memory, const ferry_wrap_options *options, ferry_buffer **out);

/**
 * Ends a wrap. The call copies bytes that are newer at other places back into the wrapped memory,
 * destroys the buffer, and sets `*buffer` to NULL. Discarded bytes become zeros.
 *
 * The call blocks until the copies that the host makes are done, and until calls of other threads
 * on the buffer have returned. Queued work may still use the memory: `stream`, which may be NULL,
 * and release_on of the wrap's options wait for it. If both are NULL, or if the options set
 * on_release without release_on, the call blocks until that work has completed, and returns the
 * status of a kernel that failed. After a failure the buffer stays wrapped.
 * @return the usual statuses; FERRY_ERROR_INVALID_STATE when the buffer wraps no memory, or has
 *         other handles or views.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_unwrap(ferry_buffer **buffer,
                                                           ferry_stream *stream);

/**
 * Ends a wrap without reading, writing or unregistering the wrapped memory, destroys the buffer,
 * and sets `*buffer` to NULL. Bytes that are newer at other places are lost. Finally Ferry calls
 * on_release of the wrap's options.
 *
 * The call waits for other calls and queued work that use the memory, as ferry_buffer_unwrap()
 * does, and logs a failure of the device. "Wrapped memory" in docs/concepts.md says when the memory
 * may be freed before the call.
 * @param buffer the last handle on the memory; it may be a view, but not a read-only one
 * @return the same statuses as ferry_buffer_unwrap(); FERRY_ERROR_BUSY also when a lease exists.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_abandon(ferry_buffer **buffer);

/**
 * Creates a view of `base`, which is a handle on the range. Does not block.
 *
 * Both handles show the same bytes at every place. The view keeps the base alive. If `base` is a
 * view itself, `offset` counts from its first element. A count of 0 is legal, even at the end.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_view(ferry_buffer *base,
                                                         const ferry_element *element,
                                                         size_t offset, size_t count,
                                                         ferry_buffer **out);

/**
 * Does the same as ferry_buffer_view(), and the new handle is read-only: calls that would write
 * through it or end a wrap fail with FERRY_ERROR_INVALID_ARGUMENT. "Views" in docs/concepts.md
 * lists them. The program must not write through an address that ferry_buffer_hold() returns.
 *
 * The view shows what is written through other handles later. Views of it are read-only too, in
 * each element type, and so are exported arrays.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_view_read_only(ferry_buffer *base,
                                                                   const ferry_element *element,
                                                                   size_t offset, size_t count,
                                                                   ferry_buffer **out);

/**
 * Creates a view of `base` that shows the same bytes as elements of type `element`. Does not block.
 * @param offset_bytes start of the view, in bytes from the start of `base`
 * @param count number of elements of the new type. FERRY_REST means all remaining bytes
 * @return the usual statuses; FERRY_ERROR_WRONG_TYPE when the bytes are not a whole number of
 *         elements of the new type, or the start is not aligned for it.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_reinterpret(ferry_buffer *base,
                                                                const ferry_element *element,
                                                                size_t offset_bytes, size_t count,
                                                                ferry_buffer **out);

/**
 * Sets `*out` to the handle `raw` if its element type is `element`. The call adds no owner, so the
 * program must not destroy `*out` in addition to `raw`.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_from_raw(ferry_buffer *raw,
                                                             const ferry_element *element,
                                                             ferry_buffer **out);

/**
 * Adds an owner to a buffer, and returns it; NULL for NULL. Each owner calls ferry_buffer_destroy()
 * once.
 */
FERRY_API ferry_buffer *ferry_buffer_retain(ferry_buffer *buffer);

/**
 * Removes an owner and sets `*buffer` to NULL. The last owner destroys the buffer. The call does
 * not block, with one exception: the last owner of a wrapped buffer ends the wrap as
 * ferry_buffer_unwrap() does, and failures are logged.
 *
 * The memory is reused only after queued work that uses it has completed. If a scope is still open,
 * the call logs an error, and the memory is freed when that scope is closed. In a callback whose
 * surrounding call uses the buffer, the call logs an error and leaves `*buffer` unchanged.
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
 * Returns where the newest bytes of this handle's range are; FERRY_STATE_UNINITIALIZED for NULL.
 */
FERRY_API ferry_state ferry_buffer_state(ferry_buffer *buffer);
/**
 * Writes the buffer's properties to `*out`, without waiting for queued work.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_get_info(ferry_buffer *buffer,
                                                             ferry_buffer_info *out);
/**
 * Writes one line of text that describes the buffer, such as `float[1000] "heights" 4000 bytes
 * HOST_DIRTY copies: host cuda:0`. The text is truncated to `bytes` bytes, and ends with NUL if
 * `bytes` > 0.
 * @return the length of the whole text without its NUL, as from snprintf(); 0 for NULL.
 */
FERRY_API size_t ferry_buffer_describe(ferry_buffer *buffer, char *text, size_t bytes);

/**
 * Calls `visit` for each live buffer of the context, newest first, with its properties as they were
 * at one moment during the call. While `visit` runs, other threads may create and destroy buffers.
 *
 * Views are not listed, but counted in `handles` of ferry_buffer_info. A buffer whose own handle
 * was destroyed is listed as long as a view or a scope keeps it alive.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_OUT_OF_MEMORY;
 *         FERRY_ERROR_INVALID_STATE (also in a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_for_each_buffer(ferry_context *context,
                                                                     ferry_buffer_visit *visit,
                                                                     void *user);

/**
 * Writes text that shows what uses the context's memory, truncated as by ferry_buffer_describe().
 * Each line ends with a newline:
 * - one line for each place, with the live and idle bytes of its pools, where blocks of the program
 *   count as live;
 * - one line for each buffer, largest first, with the text of ferry_buffer_describe(), the
 *   allocated bytes, the open scopes, the held replicas, and in checked runs where the program
 *   created it.
 * @return the length of the whole text without its NUL, which may be larger in the next call; 0 for
 *         NULL, for a destroyed context, and if there is not enough memory.
 * Threads: any.
 */
FERRY_API size_t ferry_context_describe(ferry_context *context, char *text, size_t bytes);

/**
 * Changes the number of elements of the buffer to `count`. Elements that exist before and after the
 * call keep their values, at every place where they are current. New elements read as zero. If
 * `count` is the present number, nothing changes. A call of another thread at the same time uses
 * either the old length or the new one, also for FERRY_REST.
 * @return the usual statuses; FERRY_ERROR_OVERFLOW; FERRY_ERROR_INVALID_STATE for a view, for a
 *         buffer with views, and for a held or wrapped buffer.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_resize(ferry_buffer *buffer, size_t count);

/* -- scopes ------------------------------------------------------------------------------------ */

/**
 * Opens a scope on host memory for the range, and sets `*out` to the address of its first element.
 *
 * The call copies those bytes to the host that are not current there, or with FERRY_OVERWRITE none.
 * It blocks until these copies are done, and until no queued work conflicts with the access.
 *
 * Later scopes get the same address until the host replica is invalidated, resized or evicted. If
 * `count` is 0, `*out` becomes NULL, and nothing is open.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_open_host(ferry_buffer *buffer,
                                                              const ferry_element *element,
                                                              ferry_access access, size_t offset,
                                                              size_t count, ferry_scope *scope,
                                                              void **out);

/**
 * Opens a scope on device memory for the range, at the place of `stream`. Sets `*out` to the device
 * address of the first element, for work that the caller queues on `stream`.
 *
 * The call queues copies of those bytes that are not current at the place, and makes the stream
 * wait for every earlier use that conflicts. The calling thread does not wait for work on the
 * stream; it waits only while bytes of pageable memory are copied to page-locked memory.
 * @param stream NULL: the default stream, if the context has exactly one device
 * @return the usual statuses; FERRY_ERROR_UNSUPPORTED when the stream is being captured and a
 *         driver call is needed.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_open_device(ferry_buffer *buffer,
                                                                const ferry_element *element,
                                                                ferry_access access, size_t offset,
                                                                size_t count, ferry_stream *stream,
                                                                ferry_scope *scope, void **out);

/**
 * Opens several scopes at `place` together, one for each argument, or none if one of them cannot be
 * opened. The call blocks as ferry_buffer_open_host() and ferry_buffer_open_device() do.
 *
 * Each argument is a range of a buffer with an access, which ferry_argument_with() sets. Ranges of
 * one buffer may overlap if they are only read.
 * @param stream a stream of `place`; must be NULL for the host
 * @param scopes array of `count` scopes, set if the call succeeds
 * @param out_pointers array for the address of each range, or NULL
 * @return the same statuses as ferry_buffer_open_device(); FERRY_ERROR_INVALID_ARGUMENT also for a
 *         value, an argument without an element or an access, an unknown place, and a stream of
 *         another place; FERRY_ERROR_BUSY also if two ranges of the call overlap and one of them is
 *         written: open these bytes once, with FERRY_UPDATE.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_scope_open_all(const ferry_argument *arguments,
                                                            size_t count, int place,
                                                            ferry_stream *stream,
                                                            ferry_scope *scopes,
                                                            void **out_pointers);

/**
 * Blocks until no open scope conflicts with an access of this kind to the handle's range. The call
 * opens no scope, and asks about writes through a read-only handle, too.
 * @param timeout_ns longest wait in nanoseconds; 0: the call checks once and returns
 * @return the usual statuses; FERRY_ERROR_BUSY when a scope still conflicts after that time.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wait_available(ferry_buffer *buffer,
                                                                   ferry_access access,
                                                                   uint64_t timeout_ns);

/* -- places: for code that keeps raw pointers -------------------------------------------------- */

/**
 * Copies bytes of the range that are stale at `place` there. Blocks until they have arrived. Other
 * places stay current.
 *
 * In the progress, bytes that were already current count as done. After a cancel, the bytes that
 * have arrived, which are the first ones of the range, are current at the place.
 * @param options progress and cancel; NULL for defaults. `convert` must be FERRY_CONVERT_NONE, and
 *         `stream` is ignored
 * @return the usual statuses; FERRY_ERROR_CANCELLED when keep_going returned false; the message
 *         says how many bytes of the range are current.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_sync_to(ferry_buffer *buffer, size_t offset,
                                                            size_t count, int place,
                                                            const ferry_copy_options *options);
/**
 * The asynchronous twin of ferry_buffer_sync_to(), see <ferry/copy.h>. A failure without an event
 * is logged.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_sync_to_async(ferry_buffer *buffer,
                                                                  size_t offset, size_t count,
                                                                  int place,
                                                                  const ferry_copy_options *options,
                                                                  ferry_event **event);
/**
 * Declares that the program wrote the range at `place` through a raw pointer. From then on the
 * range is current only at that place, even if bytes of it were lost.
 * @param written_on the stream whose work writes the bytes. NULL: the bytes are already written
 * @return the usual statuses; FERRY_ERROR_CONFLICT when the place has no replica, or when bytes of
 *         the range are newer at another place.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_mark_dirty(ferry_buffer *buffer, size_t offset,
                                                               size_t count, int place,
                                                               ferry_stream *written_on);
/**
 * Marks the range as stale at `place`. Bytes that are current only there are first copied to
 * another place. If the range is the whole buffer, the call also frees the replica's memory. Lost
 * bytes stay lost, which is no failure.
 * @return the usual statuses; FERRY_ERROR_BUSY when a scope is open at that place, or a write scope
 *         at another place; FERRY_ERROR_INVALID_ARGUMENT also for the memory of a read-only wrap.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_invalidate(ferry_buffer *buffer, size_t offset,
                                                               size_t count, int place);
/**
 * Declares that the program no longer needs the values of the range, which reads as zero from then
 * on. The call copies nothing.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_discard(ferry_buffer *buffer, size_t offset,
                                                            size_t count);
/**
 * Allocates the memory of the replica at `place` now, for a view that of the whole base. Copies
 * nothing.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_reserve(ferry_buffer *buffer, int place);
/**
 * Frees the memory of the replica at `place`, for a view that of the whole base, after the copies
 * that ferry_buffer_invalidate() makes.
 * @return the usual statuses; FERRY_ERROR_INVALID_STATE for held and wrapped replicas;
 *         FERRY_ERROR_BUSY for the same reasons as ferry_buffer_invalidate().
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_evict(ferry_buffer *buffer, int place);
/**
 * Blocks until all queued work that uses the replica at `place` has completed. The call succeeds
 * even if that work failed and the bytes are lost. It does not wait for work that uses memory which
 * the replica no longer has: after an eviction, or an upload that took other memory ("Memory" in
 * docs/concepts.md).
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wait_idle(ferry_buffer *buffer, int place);
/**
 * Returns true if the newest value of every written byte in the handle's range is at `place`, and
 * false otherwise, for NULL, and for an unknown place.
 */
FERRY_API bool ferry_buffer_is_current(ferry_buffer *buffer, int place);
/**
 * Allocates the replica at `place`, and keeps it at its address until ferry_buffer_release(). Sets
 * `*out` to the address of this handle's first element.
 *
 * Until then Ferry does not evict, free, resize or move the replica. Each hold needs one release.
 * The call copies nothing; ferry_buffer_sync_to() makes the replica current.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_hold(ferry_buffer *buffer, int place,
                                                         void **out);
/**
 * Ends one hold that ferry_buffer_hold() began on the replica at `place`.
 * @return the usual statuses; FERRY_ERROR_INVALID_STATE when the program does not hold the replica.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_release(ferry_buffer *buffer, int place);
/** Returns true if the host replica exists and is page-locked, and false otherwise and for NULL. */
FERRY_API bool ferry_buffer_is_page_locked(ferry_buffer *buffer);
/**
 * Starts to make the range current at `place`, and returns; a worker thread makes the copy.
 *
 * Scopes and launches that need the bytes wait for the copy. Work that the program queues directly
 * on a native stream does not; open a scope at the place for that. If there is no memory for the
 * copy, nothing is copied, and a message with the level FERRY_LOG_INFO is logged. Other failures
 * are logged as errors.
 * @param stream used only for managed memory, whose pages the driver moves in the order of this
 *         stream; may be destroyed after the call. NULL: the default stream of the place
 * @return the usual statuses; FERRY_ERROR_UNSUPPORTED for managed memory on a device without
 *         FERRY_CAN_MANAGE_CONCURRENTLY.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_prefetch(ferry_buffer *buffer, size_t offset,
                                                             size_t count, int place,
                                                             ferry_stream *stream);

/** Advice to the driver about managed memory. The meaning of a value never changes. */
typedef enum ferry_advice {
    FERRY_ADVISE_READ_MOSTLY = 1, /**< the pages are mostly read, so each place may keep a copy of
                                       them; `place` is ignored */
    FERRY_ADVISE_UNSET_READ_MOSTLY = 2,
    FERRY_ADVISE_PREFERRED_LOCATION = 3, /**< the driver keeps the pages at the place if it can */
    FERRY_ADVISE_UNSET_PREFERRED_LOCATION = 4,
    FERRY_ADVISE_ACCESSED_BY = 5, /**< the driver keeps the pages mapped for the place, wherever
                                       they are, so that it accesses them without page faults */
    FERRY_ADVISE_UNSET_ACCESSED_BY = 6
} ferry_advice;

/**
 * Passes advice about managed memory to the driver, for the whole pages of the range. No two
 * buffers share a page. Ferry withdraws the advice when the buffer gives its memory up, as in a
 * resize or at its end.
 * @return the usual statuses; FERRY_ERROR_BUSY when a write scope is open; FERRY_ERROR_UNSUPPORTED
 *         for memory that is not managed, and for a device that takes no advice.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_advise(ferry_buffer *buffer, size_t offset,
                                                           size_t count, int place,
                                                           ferry_advice advice);

FERRY_END_DECLS

#endif
