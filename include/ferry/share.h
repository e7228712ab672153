/* SPDX-License-Identifier: MIT */
#ifndef FERRY_SHARE_H
#define FERRY_SHARE_H

#include <ferry/buffer.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * Buffers whose memory several processes of one machine use without copies.
 *
 * One process creates the buffer with FERRY_MEMORY_SHARED, and exports it: it gets a handle of
 * plain bytes, which it sends to other processes by any means. They import the handle. Each process
 * then has a buffer with the same memory at one place, the host or a device. Its replicas at other
 * places are not shared.
 *
 * At any time one process may use the buffer, or several that only read. A process acquires it,
 * uses it like every buffer, and releases it for the others. Between the two, they fail to acquire
 * it. The one that creates the buffer has acquired it.
 *
 * - To acquire a buffer, the call makes the shared memory current, and the replicas at other places
 *   stale.
 * - To release it, the call first copies bytes that are newer at other places to the shared memory.
 * - In between, scopes, copies and launches of a process that has not acquired the buffer fail with
 *   FERRY_ERROR_INVALID_STATE.
 *
 * If a process ends, or its device fails, before it has released a buffer that it may write, the
 * bytes count as lost: the next process that acquires it fails to read them, see "Lost bytes" in
 * docs/concepts.md. It may overwrite them, or accept what is there with ferry_buffer_mark_dirty().
 *
 * Shared memory of the host, and of emulated devices, lives until the last process has ended its
 * use. That of other devices ends with the process that created it; if the program destroys the
 * buffer earlier, the memory stays as long as another process uses it.
 *
 * Conventions and "the usual statuses" are those of <ferry/buffer.h>. The calls need Linux with
 * /proc. A device can share its memory if it has FERRY_CAN_SHARE.
 */

/**
 * Names shared memory in other processes of the machine, which belong to the same user. The bytes
 * have no meaning for the program, which may copy and send them. The handle finds the memory as
 * long as the process that created the buffer has it.
 */
typedef struct ferry_share {
    unsigned char bytes[64];
} ferry_share;

/** Options of an import. NULL, or zero in a field, means the default. */
typedef struct ferry_share_options {
    const char *name; /**< name, as in ferry_buffer_options */
    bool read_only;   /**< this process only reads: writing to the buffer fails with
                           FERRY_ERROR_INVALID_ARGUMENT, and other processes that only read may
                           acquire it at the same time */
    int place;        /**< place of the memory in this process. Default: the host for memory of the
                           host, otherwise the first device of the same kind. On a machine with
                           several devices, the device that has the memory, or one that can access
                           it */
    uint64_t reserved[4];
} ferry_share_options;

/**
 * Sets `*out` to a handle, by which other processes import the buffer. Does not block.
 * @param buffer a buffer with FERRY_MEMORY_SHARED, or an import; no view
 * @return the usual statuses; FERRY_ERROR_INVALID_STATE when the memory is not shared, or `buffer`
 *         is a view.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_export(ferry_buffer *buffer, ferry_share *out);

/**
 * Creates a buffer with the memory that another process exports, which also may be another context
 * of this process if the memory is the host's. It has as many elements as that of the exporter. It
 * is not acquired. The caller owns `*out`, whose end leaves the memory to the other processes.
 * @param element must have the content of the exporter's element, see ferry_element
 * @param options NULL for defaults
 * @return the usual statuses; FERRY_ERROR_INVALID_ARGUMENT when the handle finds no memory, because
 *         it is forged or the exporter has ended; FERRY_ERROR_UNSUPPORTED when the memory is on
 *         another machine, in another container, of another kind than the place, or the system lets
 *         this process not open it.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_import(ferry_context *context,
                                                           const ferry_element *element,
                                                           const ferry_share *share,
                                                           const ferry_share_options *options,
                                                           ferry_buffer **out);

/**
 * Acquires a shared buffer for this process. Does not wait until another process releases it.
 *
 * With a stream, later work on the stream waits for the work of the process that had it before.
 * This needs shared events, which CUDA and HIP have; on other devices that process has waited.
 * @param stream NULL: the host waits. A stream of the place of the shared memory; NULL for the host
 * @return the usual statuses; FERRY_ERROR_BUSY when another process has acquired the buffer;
 *         FERRY_ERROR_INVALID_STATE also when the memory is not shared, or this process has
 * acquired it; FERRY_ERROR_DEVICE_LOST when the memory is gone, because the process that created it
 *         has ended.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_acquire_shared(ferry_buffer *buffer,
                                                                   ferry_stream *stream);

/**
 * Releases a shared buffer for other processes, after bytes that are newer at other places were
 * copied to the shared memory. Discarded bytes become zeros.
 *
 * Without a stream, the call blocks until queued work that uses the memory has completed. With one,
 * and if the device has shared events, the processes that acquire the buffer wait for that work
 * instead; they do not learn if it fails later, or if this process is killed before it is done, and
 * then find older bytes. A read-only import always waits. After a failure the buffer is still
 * acquired. To release a buffer with lost bytes, overwrite, discard or mark them first; or destroy
 * it, which leaves them lost for the next process.
 * @param stream as in ferry_buffer_acquire_shared()
 * @return the usual statuses; FERRY_ERROR_INVALID_STATE also when the memory is not shared, or this
 *         process has not acquired it; FERRY_ERROR_UNSUPPORTED when the stream is being captured.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_release_shared(ferry_buffer *buffer,
                                                                   ferry_stream *stream);

FERRY_END_DECLS

#endif
