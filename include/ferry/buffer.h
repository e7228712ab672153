/* SPDX-License-Identifier: MIT */
#ifndef FERRY_BUFFER_H
#define FERRY_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/element.h>
#include <ferry/kernel.h>
#include <ferry/pool.h>
#include <ferry/scope.h>
#include <ferry/status.h>
#include <ferry/stream.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * The untyped buffer under the typed API that ferry-gen writes. Programs use <ferry/float.h> and its
 * kin; these functions serve generated code, and code that handles elements it learns at run time.
 *
 * Offsets and counts are elements of the handle's own element; FERRY_REST as a count means up to the end.
 * Every function checks its arguments at this edge: NULL or an empty handle is FERRY_ERROR_INVALID_ARGUMENT,
 * a range past the end FERRY_ERROR_OUT_OF_RANGE, an element that differs FERRY_ERROR_WRONG_TYPE, a stream of
 * another context FERRY_ERROR_WRONG_CONTEXT, an open scope that conflicts FERRY_ERROR_BUSY, a destroyed context
 * FERRY_ERROR_INVALID_STATE. Memory and devices add FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_DEVICE and
 * FERRY_ERROR_DEVICE_LOST. "The usual statuses" below means these. Unless it says otherwise a call that fails
 * has changed nothing, and any thread may call.
 *
 * A lost device takes with it what only it had; and where it was bringing bytes to a page-locked host copy, that copy.
 * Reading those fails with FERRY_ERROR_DEVICE_LOST until they are overwritten, in whole or in part.
 */

/**
 * Where the newest bytes of a range are; a snapshot. Values are final.
 *
 * Bytes that were lost, with a kernel that failed late or with a device, were written and are current nowhere: they are MIXED
 * where both sides have a copy, else HOST_ONLY or DEVICE_ONLY, and reading them fails until they are overwritten.
 */
typedef enum ferry_state {
    FERRY_STATE_UNINITIALIZED = 0, /**< never written: reads as zero, and stays so when it is read */
    FERRY_STATE_HOST_ONLY = 1,     /**< no device copy exists */
    FERRY_STATE_DEVICE_ONLY = 2,   /**< no host copy exists */
    FERRY_STATE_SYNCHRONIZED = 3,  /**< host and devices hold the same written bytes */
    FERRY_STATE_HOST_DIRTY = 4,    /**< the host holds everything, devices lack some */
    FERRY_STATE_DEVICE_DIRTY = 5,  /**< devices hold everything, the host lacks some */
    FERRY_STATE_MIXED = 6          /**< each side lacks something */
} ferry_state;

/** The constant's name without its prefix, such as "HOST_DIRTY". Never NULL. */
FERRY_API const char *ferry_state_name(ferry_state state);

/** How to create a buffer. NULL, or zero in any field, means the default. */
typedef struct ferry_buffer_options {
    const char *name;         /**< for messages, traces, reports and ferry_context_find(); copied */
    size_t align;             /**< of every copy, a power of two up to 2 MiB; default 256 */
    ferry_memory_kind memory; /**< DEFAULT, PAGEABLE or PINNED host copies; MANAGED: one copy for all places */
    bool scrub;               /**< bytes that an OVERWRITE scope leaves out read as zero; the range is cleared first, so a device that
                                   then refuses a launch has lost the old value where only its place held it */
    uint64_t reserved[4];
} ferry_buffer_options;

/** How to wrap memory of the caller. NULL, or zero in any field, means the default. */
typedef struct ferry_wrap_options {
    const char *name;                             /**< copied */
    void (*on_release)(void *memory, void *user); /**< runs once, after the last use, on the thread that ended it. A working callback
                                                       that waits for no call, see "Callbacks" in <ferry/status.h> */
    void *user;
    bool read_only;                               /**< writes are FERRY_ERROR_INVALID_ARGUMENT; nothing comes back */
    uint64_t reserved[4];
} ferry_wrap_options;

/** What a buffer is, for people and tests. Strings live as long as the handle. */
typedef struct ferry_buffer_info {
    const char *name;             /**< "" when it has none */
    const ferry_element *element;
    size_t count;
    size_t bytes;
    size_t offset_bytes;          /**< of a view in its base */
    ferry_state state;            /**< of exactly this range */
    uint32_t places_with_copy;    /**< bit p: memory is reserved at place p */
    uint32_t places_current;      /**< bit p: place p holds every written byte */
    uint32_t scopes;              /**< open now, over the whole base */
    bool borrowed;                /**< wraps memory of the caller */
    bool read_only;
    bool pinned;                  /**< the host copy exists and is page-locked */
    size_t taken_bytes;           /**< that the base's copies took from the context's pools, over all places; wrapped memory is none of them */
    uint32_t places_held;         /**< bit p: ferry_buffer_pin() holds the copy at place p */
    uint32_t handles;             /**< the base and its views that are not destroyed */
    const char *site;             /**< where the program made the base, such as "load_tile+0x41, main+0x20 (./program)", the innermost function first; "" but in
                                       checked runs (docs/debugging.md), and where it is not known */
    uint64_t reserved[4];
} ferry_buffer_info;

/** Visits one buffer; false ends the walk. A working callback, see "Callbacks" in <ferry/status.h>. */
typedef bool ferry_buffer_visit(const ferry_buffer_info *info, void *user);

/**
 * Options of whatever moves many bytes: the calls whose names end in `_with`, loads and stores. NULL, or zero in any field, means the default.
 *
 * keep_going runs on the calling thread. It is a watching callback, see "Callbacks" in <ferry/status.h>.
 * bytes_done never falls, and is bytes_total in the last call, whose answer is of no meaning any more.
 * Bytes are those of the target, all of them together: of every copy of a batch, of every row. What another thread wants to stop, it tells
 * keep_going; what runs asynchronously is followed by ferry_event_progress() and stopped by ferry_event_cancel(). A cancelled call is
 * FERRY_ERROR_CANCELLED, its message says how many bytes arrived, and each chunk holds its old or its new value, as after a failure: the
 * valid map knows which.
 */
typedef struct ferry_transfer_options {
    size_t chunk_bytes;  /**< how much is copied between two calls of keep_going; default: a chunk of the context's staging ring */
    bool (*keep_going)(size_t bytes_done, size_t bytes_total, void *user); /**< false cancels */
    void *user;
    uint64_t reserved[4];
} ferry_transfer_options;

/* -- creation and lifetime ------------------------------------------------------------------------- */

/**
 * A buffer of `count` elements that reads as zero. Takes no memory at any place until it is used, touches no
 * device, does not block. The caller owns `*out`.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (also a malformed element), FERRY_ERROR_OVERFLOW (count * size, or
 *         above options.buffer_bytes_limit), FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_UNSUPPORTED (managed memory that not every
 *         device of the context has), FERRY_ERROR_INVALID_STATE.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_create(ferry_context *context, const ferry_element *element, size_t count,
                                                           const ferry_buffer_options *options, ferry_buffer **out);

/** As ferry_buffer_create(), with a copy of `source` in the host copy. Later edits of `source` do not show. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_create_from(ferry_context *context, const ferry_element *element,
                                                                const void *source, size_t count,
                                                                const ferry_buffer_options *options, ferry_buffer **out);

/**
 * A buffer over the caller's host memory, which stays the host copy: never freed, moved, resized or registered.
 * Starts HOST_ONLY. The memory must outlive the wrap, which ends with unwrap, or with destroy of the last handle.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wrap_host(ferry_context *context, const ferry_element *element, void *memory,
                                                              size_t count, const ferry_wrap_options *options, ferry_buffer **out);

/**
 * A buffer over the caller's device memory at the place of `ready_on`; its content is what that stream leaves
 * there. Starts DEVICE_ONLY. A NULL stream means the default stream of a context with one device.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wrap_device(ferry_context *context, const ferry_element *element, void *memory,
                                                                size_t count, ferry_stream *ready_on,
                                                                const ferry_wrap_options *options, ferry_buffer **out);

/**
 * Bring newer bytes back into the wrapped memory, make `stream` (NULL: this thread) wait for every use of it, end
 * the wrap, and set `*buffer` to NULL. @return the usual statuses; FERRY_ERROR_INVALID_STATE for a buffer that wraps
 * nothing, and while other handles or views of it live. After a failure the wrap goes on.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_unwrap(ferry_buffer **buffer, ferry_stream *stream);

/**
 * A window of `count` elements at `offset`, with the element of `base`. No copy: base and view see each other's
 * writes at every place. It keeps the base alive; nested views add offsets; zero length is legal, at the end too.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_view(ferry_buffer *base, const ferry_element *element, size_t offset,
                                                         size_t count, ferry_buffer **out);

/**
 * A view that reads the bytes as another element. `count` is in the new element; FERRY_REST needs the remaining bytes
 * to divide. @return the usual statuses; FERRY_ERROR_WRONG_TYPE when size or alignment do not divide.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_view_of(ferry_buffer *base, const ferry_element *element, size_t offset_bytes,
                                                            size_t count, ferry_buffer **out);

/** Checks that the buffer has this element; returns a borrowed handle, not a counted one. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_from_raw(ferry_buffer *raw, const ferry_element *element, ferry_buffer **out);

/** Count one more owner and return the same handle; NULL for NULL. */
FERRY_API ferry_buffer *ferry_buffer_retain(ferry_buffer *buffer);

/**
 * Give one ownership back and set `*buffer` to NULL; NULL and a pointer to NULL are harmless. Work in flight is
 * safe: memory is reused only after it. With a scope still open it logs an error and the last close frees.
 * Inside callbacks the last handle may have to stay: then it logs an error, and `*buffer` keeps its value.
 */
FERRY_API void ferry_buffer_destroy(ferry_buffer **buffer);

/** Elements; 0 for NULL. */
FERRY_API size_t ferry_buffer_count(const ferry_buffer *buffer);
/** Bytes; 0 for NULL. */
FERRY_API size_t ferry_buffer_bytes(const ferry_buffer *buffer);
/** The library's own copy of the element's description; NULL for NULL. */
FERRY_API const ferry_element *ferry_buffer_element(const ferry_buffer *buffer);
/** The context; NULL for NULL. */
FERRY_API ferry_context *ferry_buffer_context(const ferry_buffer *buffer);
/** The state of exactly this handle's range; UNINITIALIZED for NULL. */
FERRY_API ferry_state ferry_buffer_state(ferry_buffer *buffer);
/** @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_info_get(ferry_buffer *buffer, ferry_buffer_info *out);
/**
 * One line such as `float[1000] "heights" 4000 bytes HOST_DIRTY copies: host cuda:0`, always ended with NUL when
 * `bytes` > 0. @return the length the whole line needs without NUL, as snprintf() does; 0 for NULL.
 */
FERRY_API size_t ferry_buffer_describe(ferry_buffer *buffer, char *text, size_t bytes);

/**
 * Visit every buffer of the context, the youngest first, as all were at one moment: what holds the memory. Views are not visited but counted, in
 * `handles`; a buffer that was destroyed is there while views or scopes keep it. Buffers may come and go meanwhile; nothing waits but for as long as
 * the list takes to be copied.
 *
 * @param visit a working callback, see "Callbacks" in <ferry/status.h>; the info, its strings too, is valid until it returns
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL), FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_INVALID_STATE (the context was destroyed, or this is the
 *         child of a fork). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_walk(ferry_context *context, ferry_buffer_visit *visit, void *user);

/**
 * What holds a context's memory, as text for people: a line for each place with the bytes that its pools have live and idle, then one for each
 * buffer, those that took most first, as ferry_buffer_describe() writes them and with what they took, open scopes, pins and, in checked runs, where they
 * were made. Lines end with a newline, the text with NUL when `bytes` > 0. Blocks that the program took itself are live too: ferry_pool_walk() tells them.
 *
 * @return the length that all of it needs without NUL, as snprintf() does; 0 when nothing can be told: NULL, a context that was destroyed, want of memory
 * Threads: any. Two calls may differ: what is asked first for a length may grow.
 */
FERRY_API size_t ferry_context_describe(ferry_context *context, char *text, size_t bytes);

/**
 * Change the count. The prefix is kept wherever it is current, a new tail reads as zero, the same count does
 * nothing. Calls of other threads see the old length or the new one: what named a range that is gone by then fails with
 * FERRY_ERROR_OUT_OF_RANGE, what asked for FERRY_REST takes what there is. @return the usual statuses; FERRY_ERROR_INVALID_STATE for views, viewed, pinned and wrapped buffers.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_resize(ferry_buffer *buffer, size_t count);

/* -- scopes ---------------------------------------------------------------------------------------- */

/**
 * Open a scope on host memory: brings what the range lacks to the host (none for OVERWRITE), waits for work that
 * still uses those host bytes, and gives the address of element `offset` of one contiguous copy. The address is
 * stable until invalidate, resize or eviction of the host copy. A range of zero elements opens a closed scope
 * and sets `*out` to NULL.
 * @return the usual statuses; FERRY_ERROR_INVALID_ARGUMENT also for writes to a read-only wrap.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_open_host(ferry_buffer *buffer, const ferry_element *element,
                                                              ferry_access access, size_t offset, size_t count,
                                                              ferry_scope *scope, void **out);

/**
 * Open a scope on device memory at the place of `stream`, for work queued on that stream. Brings what the range
 * lacks, orders the stream after every earlier use that matters, and never waits for the stream's own work. From
 * pinned memory it returns at once; from pageable memory when the last byte has been staged.
 * @param stream NULL: the default stream of a context with exactly one device
 * @return the usual statuses; FERRY_ERROR_UNSUPPORTED when the stream is being captured and a driver call is needed.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_open_device(ferry_buffer *buffer, const ferry_element *element,
                                                                ferry_access access, ferry_stream *stream, size_t offset,
                                                                size_t count, ferry_scope *scope, void **out);

/**
 * Open all of the arguments' ranges, or none, at one place. Each argument's access must be set, see
 * ferry_argument_with(). Overlapping ranges of one buffer are merged, READ with a write being UPDATE.
 *
 * @param scopes        `count` scopes, all written on success
 * @param out_pointers  `count` pointers; may be NULL
 * @param stream        the stream of `place`; must be NULL for the host
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_scope_open_all(ferry_scope *scopes, void **out_pointers,
                                                            const ferry_argument *arguments, size_t count, int place,
                                                            ferry_stream *stream);

/**
 * Block until the range could be opened with `access`, as far as scopes of users go.
 * @return FERRY_OK; FERRY_ERROR_BUSY when `timeout_ns` passed first (0: ask once); the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wait_free(ferry_buffer *buffer, ferry_access access, uint64_t timeout_ns);

/* -- copies ---------------------------------------------------------------------------------------- */

/**
 * Copy from the caller's memory. Writes where the range is current, the host on a tie or when nowhere; fetches
 * nothing. Returns when `source` may be reused. Commits chunk by chunk: after a failure each chunk holds its old or
 * its new value. @return the usual statuses; FERRY_ERROR_INVALID_ARGUMENT for NULL with count > 0.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                              const void *source, size_t count);
/**
 * Copy to the caller's memory, from the host where it is current, else straight from a device, creating no copy
 * and changing no state. Blocks until the bytes are there.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                            void *target, size_t count);
/**
 * Copy between buffers of one context and equal elements, where the source is current: on one device it is one
 * device copy. Overlapping ranges of one buffer behave as memmove(), also in the eyes of other threads: by way of
 * memory of their size on a device, in place at the host.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy(ferry_buffer *target, const ferry_element *element, size_t target_offset,
                                                         ferry_buffer *source, size_t source_offset, size_t count);
/** Set each element of the range to `*value`, on the side where it is current; on the host on a tie. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_fill(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                         size_t count, const void *value);

/**
 * Two-dimensional copies: `height` rows of `width` elements, each row's first element a pitch of elements behind that of the
 * row before, on either side. Exactly the rows are written, claimed and current afterwards, nothing between them. A device takes
 * the rows as one copy, also from another device that it reaches; pageable memory, and what devices pass on by way of the host, is packed on the way.
 * Otherwise as the copies above. @return the usual statuses; FERRY_ERROR_INVALID_ARGUMENT for a pitch less than the
 *         width; FERRY_ERROR_OUT_OF_RANGE when the last row ends behind the buffer; FERRY_ERROR_OVERFLOW
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from_2d(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                                 size_t pitch, const void *source, size_t source_pitch,
                                                                 size_t width, size_t height);
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to_2d(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                               size_t pitch, void *target, size_t target_pitch, size_t width,
                                                               size_t height);
/** Between buffers, of any places; overlapping rectangles of one buffer behave as memmove(). */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_2d(ferry_buffer *target, const ferry_element *element,
                                                            size_t target_offset, size_t target_pitch, ferry_buffer *source,
                                                            size_t source_offset, size_t source_pitch, size_t width,
                                                            size_t height);

/**
 * As the calls above, asynchronously, on a helper thread. Among Ferry's calls the order is that of submission: scopes and
 * launches that need the bytes wait for them. What the program queues on `stream` by itself is not ordered: it waits for the
 * event first. Memory of the caller may be touched again when the event is done, not before; a fill's value is copied.
 * @param stream at its place the call writes; NULL: as the call above would choose
 * @param out    may be NULL; else the caller owns `*out`. A failure is told by the event; when nobody asked it before it was destroyed,
 *               or `out` was NULL, by the context's log, as an error
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from_async(ferry_buffer *buffer, const ferry_element *element,
                                                                    size_t offset, const void *source, size_t count,
                                                                    ferry_stream *stream, ferry_event **out);
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to_async(ferry_buffer *buffer, const ferry_element *element,
                                                                  size_t offset, void *target, size_t count,
                                                                  ferry_stream *stream, ferry_event **out);
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_async(ferry_buffer *target, const ferry_element *element,
                                                               size_t target_offset, ferry_buffer *source, size_t source_offset,
                                                               size_t count, ferry_stream *stream, ferry_event **out);
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_fill_async(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                               size_t count, const void *value, ferry_stream *stream,
                                                               ferry_event **out);

/** Rows, asynchronously. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from_2d_async(ferry_buffer *buffer, const ferry_element *element,
                                                                       size_t offset, size_t pitch, const void *source,
                                                                       size_t source_pitch, size_t width, size_t height,
                                                                       ferry_stream *stream, ferry_event **out);
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to_2d_async(ferry_buffer *buffer, const ferry_element *element,
                                                                     size_t offset, size_t pitch, void *target,
                                                                     size_t target_pitch, size_t width, size_t height,
                                                                     ferry_stream *stream, ferry_event **out);
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_2d_async(ferry_buffer *target, const ferry_element *element,
                                                                  size_t target_offset, size_t target_pitch,
                                                                  ferry_buffer *source, size_t source_offset,
                                                                  size_t source_pitch, size_t width, size_t height,
                                                                  ferry_stream *stream, ferry_event **out);

/**
 * As the copies and fills above, with progress and cancel; a copy between overlapping ranges on the host is told of once, at its end.
 * @return also FERRY_ERROR_CANCELLED; the message says how many bytes arrived.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from_with(ferry_buffer *buffer, const ferry_element *element,
                                                                   size_t offset, const void *source, size_t count,
                                                                   const ferry_transfer_options *options);
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to_with(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                                 void *target, size_t count,
                                                                 const ferry_transfer_options *options);
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_with(ferry_buffer *target, const ferry_element *element,
                                                              size_t target_offset, ferry_buffer *source, size_t source_offset,
                                                              size_t count, const ferry_transfer_options *options);
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_fill_with(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                              size_t count, const void *value,
                                                              const ferry_transfer_options *options);

/** Rows, with progress and cancel. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from_2d_with(ferry_buffer *buffer, const ferry_element *element,
                                                                      size_t offset, size_t pitch, const void *source,
                                                                      size_t source_pitch, size_t width, size_t height,
                                                                      const ferry_transfer_options *options);
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to_2d_with(ferry_buffer *buffer, const ferry_element *element,
                                                                    size_t offset, size_t pitch, void *target,
                                                                    size_t target_pitch, size_t width, size_t height,
                                                                    const ferry_transfer_options *options);
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_2d_with(ferry_buffer *target, const ferry_element *element,
                                                                 size_t target_offset, size_t target_pitch, ferry_buffer *source,
                                                                 size_t source_offset, size_t source_pitch, size_t width,
                                                                 size_t height, const ferry_transfer_options *options);

/* -- places: for code that keeps raw pointers ------------------------------------------------------ */

/** Make the range current at a place, as a READ scope would, and wait until it is there. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_sync_to(ferry_buffer *buffer, size_t offset, size_t count, int place);
/**
 * The same with progress and cancel. Bytes of the range that are there already count as done; where none is to be brought, keep_going is not asked.
 * After a cancel the bytes that arrived are current at the place, from the first of the range on. A failure leaves the place as it was.
 * @return also FERRY_ERROR_CANCELLED; the message says how many bytes of the range are there.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_sync_to_with(ferry_buffer *buffer, size_t offset, size_t count, int place,
                                                                 const ferry_transfer_options *options);
/**
 * Say that the copy at `place` was written behind Ferry's back, on `written_on` (NULL: on the host, or for a device
 * before this call). @return the usual statuses; FERRY_ERROR_CONFLICT without a copy there, or when bytes of the range are newer elsewhere.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_mark_dirty(ferry_buffer *buffer, size_t offset, size_t count, int place,
                                                               ferry_stream *written_on);
/**
 * Forget the copy at `place`; where it was the only current one its bytes move first. A whole buffer's memory is given back.
 * @return the usual statuses; FERRY_ERROR_BUSY under a scope at that place, and where a write scope at another place would find the value from
 *         before it nowhere else when it is abandoned; FERRY_ERROR_INVALID_ARGUMENT also for the wrapped memory of a read-only wrap.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_invalidate(ferry_buffer *buffer, size_t offset, size_t count, int place);
/** The content of the range is not needed any more: it reads as zero. Moves nothing. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_discard(ferry_buffer *buffer, size_t offset, size_t count);
/** Take the memory of the whole base at a place now. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_reserve(ferry_buffer *buffer, int place);
/**
 * Give the memory of the whole base at a place back, moving what is only there. FERRY_ERROR_INVALID_STATE for pinned and wrapped copies,
 * FERRY_ERROR_BUSY as ferry_buffer_invalidate().
 *
 * Memory that runs short does the same by itself, with copies that no scope, call or pin uses and that were not used lately: first with those whose
 * bytes other places hold too, which moves nothing, then with those of devices, whose bytes are written back to the host.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_evict(ferry_buffer *buffer, int place);
/** Block until no queued work uses the copy at `place` any more. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_wait_idle(ferry_buffer *buffer, int place);
/** True when every written byte of the range is current at `place`; false for NULL and unknown places. A snapshot. */
FERRY_API bool ferry_buffer_is_current(ferry_buffer *buffer, int place);
/**
 * Reserve the copy at `place` and keep its address until unpin: it is not evicted, freed, resized or moved by a compaction. Counted.
 * Brings nothing up to date: sync_to does. `*out` is the address of this handle's first element.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_pin(ferry_buffer *buffer, int place, void **out);
/** @return the usual statuses; FERRY_ERROR_INVALID_STATE when it is not pinned there. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_unpin(ferry_buffer *buffer, int place);
/** True when the host copy exists and is page-locked. */
FERRY_API bool ferry_buffer_is_pinned(ferry_buffer *buffer);
/**
 * Starts bringing the whole handle's range to a place, and returns. A helper thread brings it, and does not touch `stream` (NULL:
 * the place's default stream), which may be destroyed at once. Scopes and launches that need the bytes wait for them. What the
 * program queues on `stream` by itself is not ordered after the prefetch: it needs a scope at the place. Place 0 prefetches to
 * the host. A prefetch is a hint: it has no event, and one that finds no memory brings nothing and is logged as FERRY_LOG_INFO.
 * The driver moves the pages of managed memory, by work on `stream`: FERRY_ERROR_UNSUPPORTED where it cannot
 * (FERRY_CAN_MANAGE_CONCURRENTLY).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_prefetch(ferry_buffer *buffer, int place, ferry_stream *stream);
/** The same for `count` elements from `offset`. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_prefetch_range(ferry_buffer *buffer, size_t offset, size_t count, int place,
                                                                   ferry_stream *stream);

/** Advice about managed memory. Values are final. */
typedef enum ferry_advice {
    FERRY_ADVISE_READ_MOSTLY = 1,       /**< read far more than written: places keep copies of the pages; the place is of no meaning */
    FERRY_ADVISE_UNSET_READ_MOSTLY = 2,
    FERRY_ADVISE_PREFERRED_LOCATION = 3, /**< the pages live at the place while they can */
    FERRY_ADVISE_UNSET_PREFERRED_LOCATION = 4,
    FERRY_ADVISE_ACCESSED_BY = 5,       /**< the place keeps the pages mapped, wherever they live */
    FERRY_ADVISE_UNSET_ACCESSED_BY = 6
} ferry_advice;

/**
 * Advise the driver on the handle's range, for a place: 0, the host, or a device. Nothing is ever advised unasked.
 * @return the usual statuses, FERRY_ERROR_BUSY under a write scope; FERRY_ERROR_UNSUPPORTED for memory that is not managed, or a device that takes no advice.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_advise(ferry_buffer *buffer, ferry_advice advice, int place);
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_advise_range(ferry_buffer *buffer, size_t offset, size_t count,
                                                                 ferry_advice advice, int place);

FERRY_END_DECLS

#endif
