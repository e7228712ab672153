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
 * A file holds raw elements in the machine's byte order, without a header. A call fails with
 * FERRY_ERROR_IO if a file is missing, unreadable, a directory, a pipe, shorter than the range, or
 * resized during the call, or if the disk is full. The message names the path, the offset and the
 * number of bytes that arrived.
 *
 * A system call that a signal interrupts is repeated. A write past the process's limit on file
 * sizes raises SIGXFSZ; if the program ignores or blocks that signal, the call fails with
 * FERRY_ERROR_IO. The calls do not flush to disk; use fsync() for that.
 */

/** One chunk of a streamed file, as its callback receives it. */
typedef struct ferry_file_chunk {
    void *pointer;        /**< device memory of `count` elements; the work that the callback queues
                               may read and write it */
    ferry_buffer *buffer; /**< a buffer over the same memory, for kernels; borrowed until the
                               callback returns */
    ferry_stream *stream; /**< the stream on which the callback queues its work */
    uint64_t offset;      /**< index of the chunk's first element in the processed range of the
                               file */
    size_t count;         /**< elements; the last chunk may be shorter */
    size_t bytes;
    uint64_t reserved[4];
} ferry_file_chunk;

/**
 * A function of the program that queues the work on one chunk, on the stream of the chunk, and
 * returns. ferry_file_pipeline() calls it once per chunk, in order, on the thread that called
 * ferry_file_pipeline().
 *
 * It is a working callback, see "Callbacks" in <ferry/status.h>, and must not destroy the chunk's
 * buffer.
 * @return FERRY_OK; any other status stops ferry_file_pipeline(), which then returns that status.
 *         Use FERRY_ERROR_CANCELLED to stop early.
 */
typedef ferry_status ferry_file_work(const ferry_file_chunk *chunk, void *user);

/**
 * Statistics of one ferry_file_pipeline(). Times are of the monotonic clock. The three stages,
 * reading, work and writing, overlap, so the sum of their times may exceed wall_ns.
 */
typedef struct ferry_file_stats {
    uint64_t chunks;        /**< chunks that were processed, and written if there is an output */
    uint64_t bytes_read, bytes_written;
    uint64_t bytes_direct;  /**< bytes that bypassed the page cache, read and written ones
                                 together */
    uint64_t load_ns;       /**< time to read the file and copy it to the device; if `direct` is
                                 set, only the time to read it */
    uint64_t work_ns;       /**< time that the queued work took on the device; if `direct` is set,
                                 including the copies to the device */
    uint64_t store_ns;      /**< time to copy from the device and write the file */
    uint64_t wall_ns;       /**< time from the start of the first stage to the end of the last */
    uint64_t reserved[4];
} ferry_file_stats;

/**
 * Options of ferry_file_pipeline(). Zero in a field means the default; only `input` and `work` have
 * none.
 *
 * Ferry calls keep_going after each completed chunk, or after several small ones. It is a working
 * callback, see "Callbacks" in <ferry/status.h>.
 */
typedef struct ferry_file_pipeline_options {
    const char *input;            /**< path of the input; required */
    uint64_t input_offset;        /**< in bytes */
    uint64_t bytes;               /**< how many bytes of the input to process; default: all up to
                                       its end */
    const char *output;           /**< path of the output, which is written as ferry_buffer_store()
                                       does; NULL: there is no output. It may be the same file as
                                       the input */
    uint64_t output_offset;       /**< in bytes */
    const ferry_element *element; /**< default: bytes */
    ferry_file_work *work;        /**< required */
    bool (*keep_going)(size_t bytes_done, size_t bytes_total, void *user); /**< false cancels */
    void *user;                   /**< passed to `work` and `keep_going` */
    ferry_stream *stream;         /**< the stream on which `work` queues; default: the default
                                       stream of a context with one device */
    size_t chunk_bytes;           /**< rounded down to whole elements; default 4 MiB */
    size_t chunk_count;           /**< number of chunks on the device, 2 to 16. Default 4: at one
                                       time, one chunk is read, one is queued, one is processed and
                                       one is written */
    bool direct;                  /**< as ferry_copy_options.file_direct, for both files */
    bool keep_rest;               /**< as ferry_copy_options.file_keep_rest, for the output. Ferry
                                       always sets it when the output is the input */
    ferry_file_stats *stats;      /**< receives the statistics, also when the call fails; may be
                                       NULL */
    uint64_t reserved[4];
} ferry_file_pipeline_options;

/**
 * Copies a file of any size to a device chunk by chunk and calls `work` for each chunk. If `output`
 * is set, it writes the chunks to that file.
 *
 * The call reads the next chunk and writes the previous one while the device works on the current
 * one. It allocates chunk_count * chunk_bytes bytes of device memory, whatever the size of the
 * file, and uses the staging ring. If `direct` is set, it allocates the same amount of pinned
 * memory too. If the device uses the host's memory, the call reads the file directly into the
 * chunks. The call starts two helper threads.
 *
 * The call blocks until the work on all chunks has completed and the output is written. After a
 * failure or a cancel, no queued work of the call is still running, and the message says how many
 * chunks the output holds. When the output is the input, the file is changed in place;
 * output_offset must then be at most input_offset.
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
