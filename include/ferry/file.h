/* SPDX-License-Identifier: MIT */
#ifndef FERRY_FILE_H
#define FERRY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/buffer.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * Streams files that are larger than memory through a device. Loads and stores are in
 * <ferry/copy.h>.
 *
 * A file holds raw elements in the machine's byte order, without a header. A file that cannot be
 * used is FERRY_ERROR_IO: missing, unreadable, a directory, a pipe, shorter than the range, resized
 * during the call, or on a full disk. The message names path, offset and the bytes that arrived.
 *
 * Interrupted system calls are repeated. A write past the limit on file sizes raises SIGXFSZ; when
 * the program ignores or blocks that signal, the call returns FERRY_ERROR_IO. The calls do not
 * flush to disk; use fsync() for that.
 */

/** One chunk of a streamed file, as its callback receives it. */
typedef struct ferry_file_chunk {
    void *pointer;        /**< device memory of `count` elements, which the queued work may read and
                               write */
    ferry_buffer *buffer; /**< the same elements as a buffer for kernels; borrowed until the
                               callback returns */
    ferry_stream *stream; /**< queue the work on this stream */
    uint64_t offset;      /**< index of the chunk's first element in the streamed range */
    size_t count;         /**< elements; the last chunk may be shorter */
    size_t bytes;
    uint64_t reserved[4];
} ferry_file_chunk;

/**
 * A function of the program, which queues the work on one chunk on the chunk's stream and returns.
 * ferry_file_pipeline() calls it on its caller's thread, once per chunk, in order.
 *
 * It is a working callback, see "Callbacks" in <ferry/status.h>, and must not destroy the chunk's
 * buffer.
 * @return FERRY_OK; any other status ends the stream, and ferry_file_pipeline() returns it. Use
 *         FERRY_ERROR_CANCELLED to stop early.
 */
typedef ferry_status ferry_file_work(const ferry_file_chunk *chunk, void *user);

/**
 * Statistics of one ferry_file_pipeline(), measured with the monotonic clock. The three stages,
 * reading, work and writing, overlap, so their sum may exceed wall_ns.
 */
typedef struct ferry_file_stats {
    uint64_t chunks;        /**< chunks that were processed, and written where there is an output */
    uint64_t bytes_read, bytes_written;
    uint64_t bytes_direct;  /**< of both together: bytes that bypassed the page cache */
    uint64_t load_ns;       /**< time to read the file and copy it to the device; with `direct` only
                                 the reading */
    uint64_t work_ns;       /**< time of the callbacks' work on the device; with `direct` also the
                                 copying to the device */
    uint64_t store_ns;      /**< time to copy from the device and write the file */
    uint64_t wall_ns;       /**< from the start of the first stage to the end of the last */
    uint64_t reserved[4];
} ferry_file_stats;

/**
 * Options of ferry_file_pipeline(). Zero in a field other than `input` and `work` means the default.
 *
 * keep_going is called after each completed chunk, or after several small ones. It is a working
 * callback, see "Callbacks" in <ferry/status.h>.
 */
typedef struct ferry_file_pipeline_options {
    const char *input;            /**< path of the input; required */
    uint64_t input_offset;        /**< in bytes */
    uint64_t bytes;               /**< bytes of the input to stream; default: up to its end */
    const char *output;           /**< path of the output, written as by ferry_buffer_store(); NULL:
                                       none. May be the input */
    uint64_t output_offset;       /**< in bytes */
    const ferry_element *element; /**< default: bytes */
    ferry_file_work *work;        /**< required */
    bool (*keep_going)(size_t bytes_done, size_t bytes_total, void *user); /**< false cancels */
    void *user;                   /**< passed to `work` and `keep_going` */
    ferry_stream *stream;         /**< stream of the work; default: the default stream of a context
                                       with one device */
    size_t chunk_bytes;           /**< rounded down to whole elements; default 4 MiB */
    size_t chunk_count;           /**< chunks on the device, 2 to 16; default 4: one each is read,
                                       queued, processed and written */
    bool direct;                  /**< as ferry_copy_options.file_direct, for both files */
    bool keep_rest;               /**< as ferry_copy_options.file_keep_rest, for the output; always set when the
                                       output is the input */
    ferry_file_stats *stats;      /**< written also on failure; may be NULL */
    uint64_t reserved[4];
} ferry_file_pipeline_options;

/**
 * Copies a file of any size to a device chunk by chunk and calls `work` for each chunk. If `output`
 * is set, it writes the chunks to that file.
 *
 * Reading the next chunk and writing the previous one overlap with the work on the current one. The
 * call allocates chunk_count * chunk_bytes bytes of device memory and uses the staging ring. With
 * `direct` it also allocates as much pinned memory. Memory use does not grow with the file. A
 * device that shares the host's memory reads the file directly into the chunks. The library starts
 * two helper threads.
 *
 * The call blocks until the work on all chunks has completed and the output is written. After a
 * failure or a cancel, none of its work is running, and the message says how many chunks the output
 * holds. When the output is the input, the file is changed in place; output_offset must then be at
 * most input_offset.
 *
 * @return FERRY_OK; the status that `work` returned; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_IO
 *         (also for an input that is not a whole number of elements); FERRY_ERROR_CANCELLED;
 *         FERRY_ERROR_OVERFLOW; FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_WRONG_CONTEXT;
 *         FERRY_ERROR_UNSUPPORTED (the stream is being captured); FERRY_ERROR_DEVICE;
 *         FERRY_ERROR_DEVICE_LOST; the failure of a kernel on the stream.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_file_pipeline(ferry_context *context, const ferry_file_pipeline_options *options);

FERRY_END_DECLS

#endif
