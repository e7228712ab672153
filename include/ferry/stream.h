/* SPDX-License-Identifier: MIT */
#ifndef FERRY_STREAM_H
#define FERRY_STREAM_H

#include <stdbool.h>

#include <ferry/scope.h>
#include <ferry/status.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * Streams, which are ordered queues of device work, and events.
 *
 * - FERRY_ERROR_INVALID_ARGUMENT: an argument is NULL, or the place is not a device.
 * - FERRY_ERROR_UNSUPPORTED: the stream is being captured.
 * - FERRY_ERROR_DEVICE: a driver call failed.
 * - FERRY_ERROR_DEVICE_LOST: the device failed.
 * - FERRY_ERROR_WRONG_CONTEXT: the two objects belong to different contexts.
 * - FERRY_ERROR_INVALID_STATE: the context was destroyed or belongs to the parent process, or
 *   the call is inside a watching callback.
 * - An event of an asynchronous call has the status of that call when it has failed.
 */

/** Completes when a stream has reached a certain point, or when an asynchronous call has ended. */
typedef struct ferry_event ferry_event;

/**
 * Handles of the default streams of CUDA and HIP, for ferry_stream_wrap() and
 * ferry_lease_options.native_stream. HIP's legacy default stream is NULL, which
 * FERRY_STREAM_LEGACY names as well, on every release. FERRY_STREAM_DEFAULT is the one of
 * this translation unit's own launches without a stream: the per-thread stream if the unit is
 * compiled with `nvcc --default-stream per-thread` or CUDA_API_PER_THREAD_DEFAULT_STREAM, otherwise
 * the legacy stream. For Ferry NULL always means the legacy stream.
 */
#define FERRY_STREAM_LEGACY     ((void *)0x1)
#define FERRY_STREAM_PER_THREAD ((void *)0x2)
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define FERRY_STREAM_DEFAULT FERRY_STREAM_PER_THREAD
#else
#define FERRY_STREAM_DEFAULT FERRY_STREAM_LEGACY
#endif

/**
 * Creates a stream on the device at `place`, 1 to N. Does not block. The caller owns `*out`, and
 * passes it to ferry_stream_destroy() before it destroys the context. On CUDA the stream is not
 * ordered with the legacy default stream.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE;
 *         FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_create(ferry_context *context, int place,
                                                           ferry_stream **out);

/**
 * Creates a ferry_stream for a native stream of the caller, such as a CUstream. The caller destroys
 * `*out` with ferry_stream_destroy(), and the native stream only after that. If it wraps a native
 * stream twice, both calls return the same ferry_stream, which must be destroyed twice.
 *
 * @param native On CUDA a CUstream or cudaStream_t of the device's primary context, or of a green
 *         context of it, on HIP a hipStream_t. On both, NULL and FERRY_STREAM_LEGACY mean the
 *         legacy default stream, which the context's stream of the place is too, and
 *         FERRY_STREAM_PER_THREAD the per-thread stream of the calling thread. On OpenCL a
 *         cl_command_queue of the device in the place's native_context, whose work runs in order.
 *         For the host and for emulated devices only a result of ferry_stream_native() is valid.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also for an unknown native stream);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE; FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_wrap(ferry_context *context, int place,
                                                         void *native, ferry_stream **out);

/**
 * Records a driver event after all work that is now queued on this stream and uses buffers, by
 * which Ferry orders later uses of them. Does not block.
 *
 * Otherwise a later call records it when it needs it. A program calls this function where that is
 * impossible or too late: before it captures the stream into a graph, queues work that waits for
 * the host, or lets other code destroy a native stream.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_UNSUPPORTED; FERRY_ERROR_DEVICE;
 *         FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_flush(ferry_stream *stream);

/**
 * Blocks until all work that is queued on the stream has completed.
 *
 * @return FERRY_OK; the status of work that Ferry queued on the stream and that failed, such as the
 *         host function of a kernel, once for each failure; FERRY_ERROR_INVALID_ARGUMENT;
 *         FERRY_ERROR_UNSUPPORTED; FERRY_ERROR_DEVICE; FERRY_ERROR_DEVICE_LOST;
 *         FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_synchronize(ferry_stream *stream);

/**
 * Destroys the stream and sets `*stream` to NULL. Work that is already queued still runs, and later
 * uses of buffers are ordered after it. The default stream of a place belongs to the context, and
 * is not destroyed.
 *
 * While the stream is being captured, uses that must be ordered after its work fail with
 * FERRY_ERROR_UNSUPPORTED. The call logs failures. In a watching callback, in on_release and
 * in ferry_pool_shortage it logs an error and leaves `*stream` unchanged.
 *
 * @param stream NULL and a pointer to NULL have no effect
 * Threads: any.
 */
FERRY_API void ferry_stream_destroy(ferry_stream **stream);

/**
 * Returns the native stream, on CUDA a CUstream, on HIP a hipStream_t, on OpenCL a
 * cl_command_queue; NULL for HIP's default stream, for NULL, in a forked child, and after the
 * context was destroyed. Threads: any.
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
 * The caller owns `*out`, and destroys it with ferry_event_destroy(). Does not block.
 *
 * @param flags 0 or FERRY_EVENT_TIMED, which costs one more driver event
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also for an unknown flag);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_UNSUPPORTED; FERRY_ERROR_DEVICE;
 *         FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_record(ferry_stream *stream, uint32_t flags,
                                                           ferry_event **out);

/**
 * Makes work that is queued on the stream after this call wait for the event, which may belong to
 * another device of the same context. For an event of ferry_stream_record() the call does not
 * block. For the event of an asynchronous copy it may block until Ferry has queued the last part of
 * the copy on the device.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_WRONG_CONTEXT;
 *         FERRY_ERROR_UNSUPPORTED; FERRY_ERROR_DEVICE; FERRY_ERROR_INVALID_STATE; FERRY_ERROR_BUSY
 *         (in a callback that runs on a thread of the context, or while such a thread is inside a
 *         working callback; only for an asynchronous call that has not ended); the status of the
 *         event.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_wait_event(ferry_stream *stream,
                                                               ferry_event *event);

/**
 * Blocks until the event has completed. An event of ferry_stream_record() does not report kernels
 * that failed; ferry_stream_synchronize() and calls that read the bytes do.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_INVALID_STATE; FERRY_ERROR_DEVICE;
 *         FERRY_ERROR_BUSY as for ferry_stream_wait_event(); the status of the event, such as
 *         FERRY_ERROR_CANCELLED.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_synchronize(ferry_event *event);

/**
 * Sets `*out_done` to true if the event has completed, else to false. Does not block. `*out_done`
 * changes only on FERRY_OK.
 * @return FERRY_OK, also while the event has not completed; the status of the event;
 *         FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_query(ferry_event *event, bool *out_done);

/**
 * Requests that an asynchronous copy stops before its next chunk. Does not block.
 *
 * Chunks that have arrived stay in the target, where the buffer records them as current. The event
 * still completes; its status is FERRY_ERROR_CANCELLED if the call stopped the copy. The call has
 * no effect on a copy that has completed, nor on an event of ferry_stream_record().
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_cancel(ferry_event *event);

/**
 * Sets `*out_total` to the number of bytes that an asynchronous call copies to its targets, and
 * `*out_done` to how many of them are done. Does not block.
 *
 * `*out_done` never decreases. After success it is equal to `*out_total`, and after a failure or a
 * cancel it is the number of bytes that arrived. Bytes that a device copies without the help of the
 * host count as done when their copy is queued. Both values are 0 for an event of
 * ferry_stream_record(), and for a call that copies nothing.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_event_progress(ferry_event *event, size_t *out_done,
                                                            size_t *out_total);

/**
 * Sets `*out_seconds` to the time between two timed events of one device, also of different
 * streams. The result is negative if `end` completed before `begin`. The call blocks until both
 * have completed.
 *
 * On CUDA the device measures the time, with a resolution of about half a microsecond
 * (cuEventElapsedTime() of the CUDA driver API). "Streams" in docs/concepts.md describes the other
 * devices, and how to time a copy.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also for an event that is not timed, and events
 *         of different devices); FERRY_ERROR_WRONG_CONTEXT; FERRY_ERROR_INVALID_STATE;
 *         FERRY_ERROR_DEVICE; FERRY_ERROR_DEVICE_LOST. `*out_seconds` changes only on FERRY_OK.
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
