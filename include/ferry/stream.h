/* SPDX-License-Identifier: MIT */
#ifndef FERRY_STREAM_H
#define FERRY_STREAM_H

#include <stdbool.h>

#include <ferry/scope.h>
#include <ferry/status.h>

FERRY_BEGIN_DECLS

/** A point in a stream, or the end of an asynchronous copy. */
typedef struct ferry_event ferry_event;

/**
 * Create a stream of work at a device place.
 *
 * The caller owns `*out` and ends it with ferry_stream_destroy(), before the context. On CUDA the stream is
 * non-blocking: not ordered with the legacy default stream.
 *
 * @param place  1..N
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_DEVICE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_create(ferry_context *context, int place, ferry_stream **out);

/**
 * Use a stream that the caller made: a CUstream or cudaStream_t on CUDA. NULL and CUDA's handle 1 are the
 * legacy default stream, handle 2 is the per-thread stream of whichever thread uses it. The host and emulated devices have
 * no streams but those of ferry_stream_native(); another handle is FERRY_ERROR_INVALID_ARGUMENT there, and on CUDA
 * where the driver does not know it.
 *
 * Wrapping the same handle twice gives the same stream, counted: destroy it as often. The native stream must
 * outlive the ferry_stream. @return as ferry_stream_create(). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_wrap(ferry_context *context, int place, void *native, ferry_stream **out);

/**
 * Record an event for everything used on this stream so far, now instead of when somebody needs it.
 *
 * Call it before graph capture begins, before queueing work that itself waits for the host, and before a
 * native stream is destroyed by other means. @param stream NULL is an error. Does not wait.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_UNSUPPORTED (being captured), FERRY_ERROR_DEVICE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_flush(ferry_stream *stream);

/**
 * Wait until all work of the stream is done. Returns, once, the failure of any asynchronous work queued on it
 * through Ferry, such as a failing host body. @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT,
 * FERRY_ERROR_UNSUPPORTED (being captured), FERRY_ERROR_DEVICE, FERRY_ERROR_DEVICE_LOST, or that failure's status.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_synchronize(ferry_stream *stream);

/**
 * Give the stream back and set `*stream` to NULL. Work in flight on it stays ordered: a closing event is
 * recorded, so a wrapped native stream may be destroyed right afterwards, not before. NULL and a pointer to NULL
 * are harmless. Borrowed default streams are left alone. Failures are logged. Threads: any.
 */
FERRY_API void ferry_stream_destroy(ferry_stream **stream);

/** The native handle (CUstream on CUDA); NULL for NULL. Threads: any. */
FERRY_API void *ferry_stream_native(ferry_stream *stream);

/** The stream's place, 1..N; -1 for NULL. Threads: any. */
FERRY_API int ferry_stream_place(const ferry_stream *stream);

/**
 * Record a point in the stream. The caller owns `*out`. @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT,
 * FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_UNSUPPORTED (being captured), FERRY_ERROR_DEVICE. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_record(ferry_stream *stream, ferry_event **out);

/**
 * Order all later work of the stream after the event. Returns at once for a recorded point; for an asynchronous
 * copy it may block until the copy's last piece was handed to the device. Events of another place of the same
 * context are legal. @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_WRONG_CONTEXT,
 * FERRY_ERROR_UNSUPPORTED (being captured), FERRY_ERROR_DEVICE. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_wait_event(ferry_stream *stream, ferry_event *event);

/**
 * Block until the event has happened. @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, or what its asynchronous
 * copy came to: FERRY_ERROR_CANCELLED, FERRY_ERROR_DEVICE, ... Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_synchronize(ferry_event *event);

/** Has it happened? Does not block. @return as ferry_event_synchronize() once `*out_done` is true. Threads: any. */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_query(ferry_event *event, bool *out_done);

/**
 * Ask an asynchronous copy to stop at its next chunk. Chunks that arrived stay: the map knows which.
 * No effect on one that is done, or on a recorded point. The event still finishes.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_cancel(ferry_event *event);

/**
 * How far an asynchronous call has come: `*out_done` of `*out_total` bytes, those of its targets. Never falls; it is the total once the call
 * has ended well, and what had arrived where it failed or was cancelled. What a device does by itself counts when it was handed over:
 * that it has arrived, ferry_event_query() tells. 0 of 0 for a recorded point, and for a call with nothing to move. Does not block.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_progress(ferry_event *event, size_t *out_done, size_t *out_total);

/** Give the event back and set `*event` to NULL; what it stands for goes on. NULL is harmless. Threads: any. */
FERRY_API void ferry_event_destroy(ferry_event **event);

FERRY_END_DECLS

#endif
