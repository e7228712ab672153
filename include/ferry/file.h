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
 * Raw bytes between files and buffers, and files larger than any memory, chunk by chunk.
 *
 * A file holds the elements as they lie in memory: no header, the byte order of the machine. What a file refuses is
 * FERRY_ERROR_IO, and ferry_last_error() names path, offset and how many bytes arrived: missing, unreadable, a directory, a pipe,
 * shorter than the range, grown or shrunk while it was read, no room left. Interrupted system calls are repeated. Writing
 * past a limit on the size of files raises SIGXFSZ as for every program; where that is ignored or blocked it is FERRY_ERROR_IO.
 * Nothing is flushed to the disk: that is fsync()'s task.
 */

/** How to load and store. NULL, or zero in any field, means the default. */
typedef struct ferry_file_options {
    ferry_stream *stream; /**< a load writes at this stream's device, through pinned chunks, and needs no host memory; default:
                               where the range is current, the host on a tie or when nowhere. A store takes no notice of it */
    const ferry_transfer_options *transfer; /**< progress and cancelling */
    bool direct;          /**< go around the page cache (O_DIRECT) where file system and alignment allow; else through it */
    bool keep_rest;       /**< a store leaves what the file has behind the range; default: the file ends with the range */
    uint64_t reserved[4];
} ferry_file_options;

/**
 * Read `count` elements from the file's byte `file_offset` into the range. Returns when all has been read; what goes to
 * a device may still be on its way there, in order with all later use. A file that is too short changes nothing; after any later
 * failure, or a cancel, each chunk holds its old or its new value. Zero elements do not touch the file.
 * @param path not NULL
 * @return the usual statuses; FERRY_ERROR_IO; FERRY_ERROR_CANCELLED; FERRY_ERROR_OVERFLOW (an offset that no file has)
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_load(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                         size_t count, const char *path, uint64_t file_offset,
                                                         const ferry_file_options *options);

/**
 * Write the range to the file, from its byte `file_offset` on, from wherever it is current; makes no copy at any place and
 * changes no state. A missing file is created (mode 0666 less the umask); the bytes of an existing one before `file_offset` stay, those
 * of the range are replaced, and those behind it are cut off in the end unless options.keep_rest. A gap before the range
 * reads as zero. After a failure or a cancel the file holds the new bytes up to where the message says, and then what it held before.
 * @return as ferry_buffer_load()
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_store(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                          size_t count, const char *path, uint64_t file_offset,
                                                          const ferry_file_options *options);

/* -- larger than memory ---------------------------------------------------------------------------- */

/** One chunk of a streamed file, as its callback gets it. */
typedef struct ferry_file_chunk {
    void *pointer;        /**< device memory of `count` elements, which the callback's work may read and write */
    ferry_buffer *buffer; /**< the same elements, to launch kernels with; borrowed until the callback returns */
    ferry_stream *stream; /**< queue the work here */
    uint64_t offset;      /**< of its first element among those streamed */
    size_t count;         /**< elements; the last chunk may have fewer than the others */
    size_t bytes;
    uint64_t reserved[4];
} ferry_file_chunk;

/**
 * Queues the work on one chunk and returns. Runs on the thread that called ferry_stream_file(), chunk after chunk. A working
 * callback, see "Callbacks" in <ferry/status.h>; the chunk's buffer is not its own to destroy.
 * A status other than FERRY_OK ends the stream with that status; FERRY_ERROR_CANCELLED is the polite one.
 */
typedef ferry_status ferry_file_work(const ferry_file_chunk *chunk, void *user);

/** What a stream did. Measured with the monotonic clock; the three stages overlap, so together they may exceed wall_ns. */
typedef struct ferry_file_stats {
    uint64_t chunks;        /**< whose work, and writing, is done */
    uint64_t bytes_read, bytes_written;
    uint64_t bytes_direct;  /**< of both, those that went around the page cache */
    uint64_t load_ns;       /**< reading the file and sending it to the device; with `direct` only the reading */
    uint64_t work_ns;       /**< the work of the callbacks, from where it could begin until the device had done it; with `direct`
                                 the sending too */
    uint64_t store_ns;      /**< fetching from the device and writing the file */
    uint64_t wall_ns;       /**< from the first to the last of it */
    uint64_t reserved[4];
} ferry_file_stats;

/** What to stream. Zero in any field but `input` and `work` means the default. */
typedef struct ferry_stream_file_options {
    const char *input;            /**< needed */
    uint64_t input_offset;        /**< in bytes */
    uint64_t bytes;               /**< of the input; default: up to its end */
    const char *output;           /**< written chunk by chunk as ferry_buffer_store() does; NULL: none. May be the input */
    uint64_t output_offset;       /**< in bytes */
    const ferry_element *element; /**< default: bytes */
    ferry_file_work *work;        /**< needed */
    bool (*keep_going)(size_t bytes_done, size_t bytes_total, void *user); /**< after each chunk that is done, or several small ones; false cancels. Runs as `work` */
    void *user;                   /**< of `work` and `keep_going` */
    ferry_stream *stream;         /**< of the work; default: the default stream of a context with one device */
    size_t chunk_bytes;           /**< rounded down to whole elements; default 4 MiB */
    size_t chunk_count;           /**< chunks at the device, 2 to 16; default 4: one is read, one waits, one is worked on, one is written */
    bool direct;                  /**< as in ferry_file_options, for both files */
    bool keep_rest;               /**< as in ferry_file_options, of the output; always so where that is the input */
    ferry_file_stats *stats;      /**< written also on failure; may be NULL */
    uint64_t reserved[4];
} ferry_stream_file_options;

/**
 * Bring a file of any size to a device chunk by chunk, let `work` queue its work on each, and write the chunks to another
 * file if one is named. The next chunk is read and uploaded, and the one before written, while the work on this one runs.
 *
 * Takes chunk_count times chunk_bytes of device memory and the staging ring, with `direct` as much pinned memory too, and none
 * that grows with the file. On a device that shares the host's memory the file is read straight into the chunks. Two threads of
 * the library help.
 *
 * Returns when the work on all chunks is done and the output is written; waits for the stream. After a failure or a cancel
 * nothing of it runs any more, and the output holds the chunks that the message counts. An output that is the input is changed
 * in place, which needs an output_offset of at most input_offset.
 *
 * @return FERRY_OK; what `work` returned; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_IO (also an input that holds no whole number
 *         of elements); FERRY_ERROR_CANCELLED; FERRY_ERROR_OVERFLOW; FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_WRONG_CONTEXT;
 *         FERRY_ERROR_UNSUPPORTED (a stream being captured); the device's own, and that of a kernel that failed on the stream.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_stream_file(ferry_context *context, const ferry_stream_file_options *options);

FERRY_END_DECLS

#endif
