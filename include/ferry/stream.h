/* SPDX-License-Identifier: MIT */
#ifndef FERRY_STREAM_H
#define FERRY_STREAM_H

#include <stdbool.h>

#include <ferry/scope.h>
#include <ferry/status.h>

FERRY_BEGIN_DECLS

/** A point in a stream, or the completion of an asynchronous call. */
typedef struct ferry_event ferry_event;

/**
 * Creates a stream at a device place.
 *
 * The caller owns `*out` and passes it to ferry_stream_destroy() before it destroys the context.
 * On CUDA the stream is non-blocking: it is not ordered with the legacy default stream. Does not
 * block.
 *
 * @param place  1..N
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_DEVICE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_create(ferry_context *context, int place, ferry_stream **out);

/**
 * Creates a ferry_stream for a native stream that the caller created.
 *
 * The caller destroys `*out` with ferry_stream_destroy(). The native stream must exist until then.
 * Wrapping a native stream twice returns the same ferry_stream, which must then be destroyed twice.
 *
 * @param native On CUDA a CUstream or cudaStream_t. NULL and CUDA's handle 1 mean the legacy
 *         default stream. Handle 2 means the per-thread stream of the calling thread. On the host
 *         and on emulated devices only a result of ferry_stream_native() is valid.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (also for an unknown native handle),
 *         FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_DEVICE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_wrap(ferry_context *context, int place, void *native, ferry_stream **out);

/**
 * Records an event of the driver after all work that used buffers on this stream until now.
 *
 * By such events Ferry orders later uses of the buffers after that work. Without this call Ferry
 * records the event only when a later call needs it. Call this function when recording would be
 * impossible or too late by then: before graph capture begins, before you queue work that waits for
 * the host, and before other code destroys a native stream. Does not block.
 *
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL), FERRY_ERROR_UNSUPPORTED (the stream is
 *         being captured), FERRY_ERROR_DEVICE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_flush(ferry_stream *stream);

/**
 * Blocks until all work of the stream has completed.
 *
 * If work that Ferry queued on the stream has failed, such as the host function of a kernel, the
 * call returns the status of that failure. It returns each failure only once.
 *
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_UNSUPPORTED (the stream is being
 *         captured), FERRY_ERROR_DEVICE, FERRY_ERROR_DEVICE_LOST, or the status of that failure.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_synchronize(ferry_stream *stream);

/**
 * Destroys the stream and sets `*stream` to NULL. Queued work still runs.
 *
 * The call records a last event, so that later uses of the buffers remain ordered after the queued
 * work of the stream. The caller may destroy a wrapped native stream only after the call has
 * returned. The default stream of a place belongs to the context and is not destroyed. Failures are
 * logged.
 *
 * @param stream NULL and a pointer to NULL have no effect. Threads: any.
 */
FERRY_API void ferry_stream_destroy(ferry_stream **stream);

/** Returns the native handle, a CUstream on CUDA; NULL for NULL. Threads: any. */
FERRY_API void *ferry_stream_native(ferry_stream *stream);

/** Returns the stream's place, 1..N; -1 for NULL. Threads: any. */
FERRY_API int ferry_stream_place(const ferry_stream *stream);

/** Flags of ferry_stream_record(). */
enum {
    FERRY_EVENT_TIMED = 1 << 0 /**< the event stores the time at which the stream reaches it, for
                                    ferry_event_elapsed() */
};

/**
 * Records an event after all work that is queued on the stream now. Does not block.
 *
 * The caller owns `*out` and destroys it with ferry_event_destroy(). A timed event costs more: it
 * uses one more event of the driver.
 *
 * @param flags 0 or FERRY_EVENT_TIMED
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (also for an unknown flag),
 *         FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_UNSUPPORTED (the stream is being captured),
 *         FERRY_ERROR_DEVICE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_record(ferry_stream *stream, uint32_t flags, ferry_event **out);

/**
 * Makes all later work of the stream wait for the event, which may belong to another place of the
 * same context.
 *
 * For an event of ferry_stream_record() the call does not block. For the event of an asynchronous
 * copy it may block until Ferry has queued the last part of the copy on the device.
 *
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_WRONG_CONTEXT,
 *         FERRY_ERROR_UNSUPPORTED (the stream is being captured), FERRY_ERROR_DEVICE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_wait_event(ferry_stream *stream, ferry_event *event);

/**
 * Blocks until the event has completed.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, or the status of the event's asynchronous call,
 *         such as FERRY_ERROR_CANCELLED or FERRY_ERROR_DEVICE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_synchronize(ferry_event *event);

/**
 * Sets `*out_done` to true if the event has completed, else to false. Does not block.
 * @return FERRY_OK while the event has not completed; after that as ferry_event_synchronize().
 *         Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_query(ferry_event *event, bool *out_done);

/**
 * Requests that an asynchronous copy stops at its next chunk. Does not block.
 *
 * Chunks that have arrived stay in the target, and the buffer records that they are current. The
 * event still completes. The call has no effect on a copy that is complete, and on an event of
 * ferry_stream_record().
 *
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_cancel(ferry_event *event);

/**
 * Sets `*out_total` to the bytes that an asynchronous call copies to its targets, and `*out_done`
 * to how many of them are done.
 *
 * `*out_done` never decreases. After success it is equal to `*out_total`; after a failure or a
 * cancel it is the number of bytes that arrived. Bytes that a device copies by itself count as done
 * when the copy is queued; use ferry_event_query() to find out whether they have arrived. Both
 * values are 0 for an event of ferry_stream_record() and for a call that copies nothing. Does not
 * block.
 *
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_progress(ferry_event *event, size_t *out_done, size_t *out_total);

/**
 * Sets `*out_seconds` to the time that passed on the device between two timed events of one place.
 *
 * Blocks until both events have completed. The events may belong to different streams. The result
 * is negative if `end` completed before `begin`.
 *
 * On CUDA the device measures the time, with a resolution of about half a microsecond
 * (cuEventElapsedTime() in the CUDA driver API manual). On an emulated device the thread of the
 * stream reads the host's monotonic clock when it reaches the event. On the host device
 * ferry_stream_record() reads that clock, because there a call returns only when its work is done.
 *
 * The event of an asynchronous copy stores no time. To time a copy, record `begin` on a stream,
 * start the copy, let the stream wait for the copy's event, and record `end`.
 *
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL, an event that is not timed, events of
 *         different places), FERRY_ERROR_WRONG_CONTEXT (events of different contexts),
 *         FERRY_ERROR_INVALID_STATE (a callback that may not wait, a destroyed context),
 *         FERRY_ERROR_DEVICE, FERRY_ERROR_DEVICE_LOST. `*out_seconds` changes only on FERRY_OK.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_elapsed(ferry_event *begin, ferry_event *end, double *out_seconds);

/**
 * Destroys the event and sets `*event` to NULL. If the event belongs to an asynchronous call, that
 * call continues.
 * @param event NULL and a pointer to NULL have no effect. Threads: any.
 */
FERRY_API void ferry_event_destroy(ferry_event **event);

FERRY_END_DECLS

#endif
