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
 * Processes files that are larger than memory on a device, chunk by chunk. The rules for files at
 * the top of <ferry/copy.h> hold. That header has the functions that load and store whole ranges of
 * buffers.
 */

/** One chunk of the file that ferry_file_pipeline() processes, as `work` receives it. */
typedef struct ferry_file_chunk {
    ferry_buffer *buffer; /**< a buffer of the chunk's elements, for kernels, copies, conversions
                               and scopes; valid until the callback returns. Its newest bytes are on
                               the device, or with `direct` on the host until the device first needs
                               them */
    ferry_stream *stream; /**< stream for the callback's work */
    uint64_t offset;      /**< index of the chunk's first element, counted from the first processed
                               element of the file */
    size_t count;         /**< number of elements; the last chunk may have fewer */
    size_t bytes;
    uint64_t reserved[4];
} ferry_file_chunk;

/**
 * A function of the program that queues the work for one chunk on the chunk's stream, and returns
 * without waiting for it. It may also open scopes and leases of the chunk, which it closes before
 * it returns, and copy, convert or store the chunk. It must not destroy the chunk's buffer.
 * ferry_file_pipeline() calls it once per chunk, in order, on the thread of its caller.
 *
 * It is a working callback, see "Callbacks" in <ferry/status.h>.
 * @return FERRY_OK; any other status stops ferry_file_pipeline(), which then returns that status.
 *         Use FERRY_ERROR_CANCELLED to stop early.
 */
typedef ferry_status ferry_file_work(const ferry_file_chunk *chunk, void *user);

/**
 * Statistics of one call of ferry_file_pipeline(). Times are in nanoseconds of the monotonic clock.
 * Reading, work and writing run at the same time, so the sum of their times may exceed wall_ns.
 */
typedef struct ferry_file_stats {
    uint64_t chunks; /**< number of chunks that were processed, and written if there is an output */
    uint64_t bytes_read, bytes_written;
    uint64_t bytes_direct; /**< bytes that were read or written without the page cache */
    uint64_t load_ns;      /**< time to read the file and copy it to the device; with `direct` only
                                to read it */
    uint64_t work_ns;      /**< time that the queued work took on the device; with `direct`, this
                                includes the copies to the device */
    uint64_t store_ns;     /**< time to copy from the device and write the file */
    uint64_t wall_ns;      /**< time from the start of the first stage to the end of the last */
    uint64_t reserved[4];
} ferry_file_stats;

/**
 * Options of ferry_file_pipeline(). Zero in a field means the default.
 *
 * Ferry calls keep_going, a working callback, after each completed chunk, or after several small
 * ones.
 */
typedef struct ferry_file_pipeline_options {
    const char *input;            /**< path of the input; required */
    uint64_t input_offset;        /**< in bytes */
    uint64_t bytes;               /**< number of bytes of the input to process; default: all up to
                                       the end of the file */
    const char *output;           /**< path of the output, which may be the input. NULL: there is no
                                       output */
    uint64_t output_offset;       /**< in bytes */
    const ferry_element *element; /**< element type of the file; default: one byte */
    ferry_file_work *work;        /**< required */
    bool (*keep_going)(size_t bytes_done, size_t bytes_total, void *user); /**< returns false to
                                                                                cancel the call */
    void *user;              /**< passed to `work` and `keep_going` */
    ferry_stream *stream;    /**< the stream on which `work` queues its work. NULL: the default
                                  stream, if the context has exactly one device */
    size_t chunk_bytes;      /**< size of a chunk, rounded down to whole elements. Default: 4 MiB */
    size_t chunk_count;      /**< number of chunks in device memory, 2 to 16. Default: 4 */
    bool direct;             /**< both files are read and written without the page cache (O_DIRECT),
                                  where the file system and the alignment allow it */
    bool keep_rest;          /**< true: the bytes of the output after the last chunk are kept.
                                  false: the file is truncated there, unless it is the input */
    ferry_file_stats *stats; /**< receives the statistics, even if the call fails; may be NULL */
    uint64_t reserved[4];
} ferry_file_pipeline_options;

/**
 * Copies a file of any size to a device, chunk by chunk, and calls `work` for each chunk. If
 * `output` is set, the call then writes the chunks to that file. Meanwhile it reads the next chunk
 * and writes the previous one, with two helper threads.
 *
 * The call allocates chunk_count * chunk_bytes bytes of device memory, and with `direct` as much
 * pinned memory, and uses the staging ring. It blocks until the work on all chunks has completed
 * and the output is written. After a failure or a cancel, no work that the call queued is still
 * running, and the message says how many chunks the output holds. If the output is the input file,
 * the file is changed in place, and output_offset must not be larger than input_offset.
 * @return FERRY_OK; the status that `work` returned; FERRY_ERROR_INVALID_ARGUMENT (a required field
 *         is missing, or a field is invalid); FERRY_ERROR_IO (also when the input is not a whole
 *         number of elements); FERRY_ERROR_CANCELLED (keep_going returned false);
 *         FERRY_ERROR_OVERFLOW (a size or an offset is too large); FERRY_ERROR_INVALID_STATE (in a
 *         forked child or a watching callback, or after the context was destroyed);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_WRONG_CONTEXT (of the stream);
 *         FERRY_ERROR_UNSUPPORTED (the stream is being captured); FERRY_ERROR_DEVICE;
 *         FERRY_ERROR_DEVICE_LOST; the status of a kernel that failed on the stream.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status
ferry_file_pipeline(ferry_context *context, const ferry_file_pipeline_options *options);

FERRY_END_DECLS

#endif
