/* SPDX-License-Identifier: MIT */
#ifndef FERRY_STREAM_H
#define FERRY_STREAM_H

#include <stdbool.h>

#include <ferry/scope.h>
#include <ferry/status.h>

FERRY_BEGIN_DECLS

/**
 * An event completes when a stream has reached a certain point, or when an asynchronous call has
 * ended.
 */
typedef struct ferry_event ferry_event;

/**
 * CUDA's handles of default streams, for ferry_stream_wrap(). FERRY_STREAM_DEFAULT is the stream
 * that a translation unit's own launches without a stream use: the per-thread stream if the unit is
 * compiled with `nvcc --default-stream per-thread` or CUDA_API_PER_THREAD_DEFAULT_STREAM, and the
 * legacy stream otherwise. In such a unit NULL still means the legacy stream for Ferry, which
 * cannot know how the caller was compiled.
 */
#define FERRY_STREAM_LEGACY     ((void *)0x1)
#define FERRY_STREAM_PER_THREAD ((void *)0x2)
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define FERRY_STREAM_DEFAULT FERRY_STREAM_PER_THREAD
#else
#define FERRY_STREAM_DEFAULT FERRY_STREAM_LEGACY
#endif

/**
 * Creates a stream on the device at `place`. Does not block.
 *
 * The caller owns `*out`, and passes it to ferry_stream_destroy() before it destroys the context.
 * On CUDA the stream is non-blocking: it is not ordered with the legacy default stream.
 *
 * @param place 1 to N, where N is the number of devices
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, or the place is not a device);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE (a driver call failed);
 *         FERRY_ERROR_INVALID_STATE (in a forked child or a watching callback, or after the context
 *         was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_create(ferry_context *context, int place,
                                                           ferry_stream **out);

/**
 * Creates a ferry_stream for a native stream, such as a CUstream, that the caller created.
 *
 * The caller destroys `*out` with ferry_stream_destroy(), and must not destroy the native stream
 * before that. If the caller wraps a native stream twice, both calls return the same ferry_stream,
 * which must be destroyed twice.
 *
 * @param native On CUDA a CUstream or cudaStream_t. NULL and CUDA's handle 1
 *         (FERRY_STREAM_LEGACY) mean the legacy default stream. CUDA's handle 2
 *         (FERRY_STREAM_PER_THREAD) means the per-thread stream of the calling thread. For the host
 *         and for emulated devices only a result of ferry_stream_native() is valid. The stream
 *         belongs to the primary context of the device, or to a green context of it.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, a place that is not a device, or an unknown
 *         native stream); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE (a driver call failed);
 *         FERRY_ERROR_INVALID_STATE (in a forked child or a watching callback, or after the context
 *         was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_wrap(ferry_context *context, int place,
                                                         void *native, ferry_stream **out);

/**
 * Records a driver event after all work that is now queued on this stream and uses buffers. Does
 * not block.
 *
 * With such events Ferry orders later uses of the buffers after that work. Without this call Ferry
 * records the event only when a later call needs it. A program calls this function when that would
 * be impossible or too late: before it captures the stream into a graph, before it queues work that
 * waits for the host, and before other code destroys a native stream.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_UNSUPPORTED (the stream is
 *         being captured); FERRY_ERROR_DEVICE (a driver call failed); FERRY_ERROR_INVALID_STATE (in
 *         a forked child or a watching callback, or after the context was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_flush(ferry_stream *stream);

/**
 * Blocks until all work that is queued on the stream has completed.
 *
 * If work that Ferry queued on the stream has failed, such as the host function of a kernel, the
 * call returns the status of that failure. It returns each failure only once.
 *
 * @return FERRY_OK; the status of work that failed; FERRY_ERROR_INVALID_ARGUMENT (NULL);
 *         FERRY_ERROR_UNSUPPORTED (the stream is being captured); FERRY_ERROR_DEVICE (a driver call
 *         failed); FERRY_ERROR_DEVICE_LOST (the device failed); FERRY_ERROR_INVALID_STATE (in a
 *         forked child or a watching callback, or after the context was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_synchronize(ferry_stream *stream);

/**
 * Destroys the stream and sets `*stream` to NULL. Work that is already queued still runs.
 *
 * The call records a last driver event on the stream, so that later uses of buffers are ordered
 * after the queued work. If the stream is being captured into a graph, a later call records that
 * event, and until the capture has ended, uses that need it fail with FERRY_ERROR_UNSUPPORTED. The
 * caller may destroy a wrapped native stream only after this call has returned. The default stream
 * of a place belongs to the context, and is not destroyed. The call logs failures. In a
 * watching callback, in on_release and in ferry_pool_shortage it logs an error and leaves `*stream`
 * unchanged.
 *
 * @param stream NULL and a pointer to NULL have no effect
 * Threads: any.
 */
FERRY_API void ferry_stream_destroy(ferry_stream **stream);

/**
 * Returns the native stream of a stream, on CUDA a CUstream; NULL for NULL, in a forked child, and
 * after the context was destroyed. Threads: any.
 */
FERRY_API void *ferry_stream_native(ferry_stream *stream);

/**
 * Returns the place of the stream's device, 1 to N; -1 for NULL, in a forked child, and after the
 * context was destroyed. Threads: any.
 */
FERRY_API int ferry_stream_place(const ferry_stream *stream);

/** Flags of ferry_stream_record(). */
enum {
    FERRY_EVENT_TIMED = 1 << 0 /**< the event stores the time at which the stream reaches it;
                                    ferry_event_elapsed() needs that time */
};

/**
 * Creates an event, which completes when all work that is now queued on the stream has completed.
 * Does not block.
 *
 * The caller owns `*out`, and destroys it with ferry_event_destroy(). A timed event costs more,
 * because it uses one more driver event.
 *
 * @param flags 0 or FERRY_EVENT_TIMED
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, or an unknown flag);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_UNSUPPORTED (the stream is being captured);
 *         FERRY_ERROR_DEVICE (a driver call failed); FERRY_ERROR_INVALID_STATE (in a forked child
 *         or a watching callback, or after the context was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_record(ferry_stream *stream, uint32_t flags,
                                                           ferry_event **out);

/**
 * Makes work that is queued on the stream after this call wait for the event. The event may belong
 * to another device of the same context.
 *
 * For an event of ferry_stream_record() the call does not block. For the event of an asynchronous
 * copy it may block until Ferry has queued the last part of the copy on the device.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_WRONG_CONTEXT (the event
 *         belongs to another context); FERRY_ERROR_UNSUPPORTED (the stream is being captured);
 *         FERRY_ERROR_DEVICE (a driver call failed); FERRY_ERROR_INVALID_STATE (in a forked child
 *         or a watching callback, or after the context was destroyed); FERRY_ERROR_BUSY (in a
 *         callback that runs on a thread of the context, or while such a thread is inside a working
 *         callback; only for an asynchronous call that has not ended); if the asynchronous call
 *         that the event belongs to has failed, the status of that call.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_wait_event(ferry_stream *stream,
                                                               ferry_event *event);

/**
 * Blocks until the event has completed.
 *
 * An event of ferry_stream_record() says only that the stream has come so far. It does not report
 * kernels that failed; ferry_stream_synchronize() and calls that read the bytes do.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_INVALID_STATE (in a forked
 *         child or a watching callback, or after the context was destroyed); FERRY_ERROR_BUSY (as
 *         for ferry_stream_wait_event());
 *         FERRY_ERROR_DEVICE (a driver call failed); if the asynchronous call of the event has
 *         failed, the status of that call, such as FERRY_ERROR_CANCELLED.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_synchronize(ferry_event *event);

/**
 * Sets `*out_done` to true if the event has completed, else to false. Does not block.
 * @return FERRY_OK while the event has not completed, and if it completed without a failure; the
 *         status of the event's asynchronous call if that has failed; FERRY_ERROR_INVALID_ARGUMENT
 *         (NULL); FERRY_ERROR_INVALID_STATE (in a forked child or a watching callback, or after the
 *         context was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_query(ferry_event *event, bool *out_done);

/**
 * Requests that an asynchronous copy stops before its next chunk. Does not block.
 *
 * Chunks that have arrived stay in the target, and the buffer records that they are current. The
 * event still completes. If the call stopped the copy, the status of the event is
 * FERRY_ERROR_CANCELLED. The call has no effect on a copy that has completed, nor on an event of
 * ferry_stream_record().
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_cancel(ferry_event *event);

/**
 * Reports the progress of an asynchronous call. Sets `*out_total` to the number of bytes that the
 * call copies to its targets, and `*out_done` to how many of them are done. Does not block.
 *
 * `*out_done` never decreases. After success it is equal to `*out_total`. After a failure or a
 * cancel it is the number of bytes that arrived. Bytes that a device copies without the help of the
 * host count as done when their copy is queued; ferry_event_query() reports whether they have
 * arrived. Both values are 0 for an event of ferry_stream_record(), and for a call that copies
 * nothing.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_INVALID_STATE (in a forked
 *         child, or after the context was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_progress(ferry_event *event, size_t *out_done,
                                                            size_t *out_total);

/**
 * Sets `*out_seconds` to the time between two timed events of one device, as that device measured
 * it.
 *
 * The call blocks until both events have completed. The events may belong to different streams. The
 * result is negative if `end` completed before `begin`.
 *
 * How the time is measured depends on the device:
 * - On CUDA the device measures it, with a resolution of about half a microsecond. The CUDA driver
 *   API manual describes this under cuEventElapsedTime().
 * - On an emulated device the thread that runs the stream reads the host's monotonic clock when it
 *   reaches the event.
 * - On the host device ferry_stream_record() reads that clock. The work is already done then,
 *   because on this device a call returns only when its work is done.
 *
 * The event of an asynchronous copy stores no time. To time a copy, record `begin` on a stream,
 * start the copy, let the stream wait for the copy's event, and record `end`.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, an event that is not timed, events of
 *         different devices); FERRY_ERROR_WRONG_CONTEXT (events of different contexts);
 *         FERRY_ERROR_INVALID_STATE (in a watching callback, or after the context was
 *         destroyed); FERRY_ERROR_DEVICE (a driver call failed); FERRY_ERROR_DEVICE_LOST (the
 *         device failed). `*out_seconds` changes only on FERRY_OK.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_elapsed(ferry_event *begin, ferry_event *end,
                                                           double *out_seconds);

/**
 * Destroys the event and sets `*event` to NULL. If the event belongs to an asynchronous call, that
 * call continues. Does not block.
 * @param event NULL and a pointer to NULL have no effect
 * Threads: any.
 */
FERRY_API void ferry_event_destroy(ferry_event **event);

FERRY_END_DECLS

#endif
