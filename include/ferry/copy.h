/* SPDX-License-Identifier: MIT */
#ifndef FERRY_COPY_H
#define FERRY_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <ferry/conversion.h>
#include <ferry/element.h>
#include <ferry/scope.h>
#include <ferry/status.h>
#include <ferry/stream.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * Copies between buffers, host memory and files. ferry_copy() makes all of them: of one region or
 * many, in one to three dimensions, with or without a conversion, blocking or asynchronous. The
 * other functions are short forms of it.
 */

/**
 * One side of a region: its target or its source. Exactly one of `buffer`, `memory` and `path` is
 * set. All three are NULL in the source of a region that sets `value`.
 *
 * `offset` and the pitches are numbers of elements of this side. Element (x, y, z) of the region is
 * element `offset + z * plane_pitch + y * row_pitch + x` of the buffer, the memory or the file.
 * Element 0 of a file begins at byte `file_offset`.
 */
typedef struct ferry_copy_side {
    ferry_buffer *buffer;
    void *memory;                 /**< host memory of the caller; a copy only reads the memory of a
                                       source */
    const char *path;             /**< path of a file, which is opened when the copy of the region
                                       starts */
    uint64_t file_offset;         /**< byte of the file at which its element 0 begins */
    const ferry_element *element; /**< the element of this side. NULL in a buffer: its own element.
                                       NULL in memory and files: the element that the conversion has
                                       for this side, or without a conversion the element of the
                                       other side */
    size_t offset;
    size_t row_pitch;             /**< elements from the start of a row to the start of the next; 0:
                                       `count` */
    size_t plane_pitch;           /**< elements from the start of a plane to the start of the next;
                                       0: `rows` times the row pitch */
    uint64_t reserved[2];
} ferry_copy_side;

/** One copy: `planes` planes of `rows` rows of `count` elements. */
typedef struct ferry_copy_region {
    ferry_copy_side target, source;
    const void *value; /**< one element; when not NULL, each element of the target is set to this
                            value. Its type is source.element, or when that is NULL the element of
                            the target */
    size_t count;      /**< elements of a row. FERRY_REST is valid only for one row: it means up to
                            the end of the source buffer, or when the source is not a buffer, up to
                            the end of the target buffer */
    size_t rows;       /**< 0 means 1 */
    size_t planes;     /**< 0 means 1 */
    const ferry_conversion *conversion; /**< the program's conversion from the element of the source
                                             to that of the target; NULL: the library's */
    uint64_t reserved[4];
} ferry_copy_region;

/** Options of a copy. NULL, or zero in any field, means the default. */
typedef struct ferry_copy_options {
    ferry_stream *stream;   /**< target buffers are written at the place of this stream; default:
                                 where the range is current, and on the host if the host is one of
                                 several such places */
    ferry_event **event;    /**< when set, the call is asynchronous and sets `*event` on success;
                                 the caller then owns `*event` */
    int convert;            /**< a ferry_convert_policy for regions whose two elements differ. 0:
                                 such a region fails with FERRY_ERROR_WRONG_TYPE, unless its
                                 `conversion` is set */
    size_t chunk_bytes;     /**< how many bytes are copied between two calls of keep_going; default:
                                 the chunk size of the staging ring, through which pageable memory
                                 is copied */
    bool file_direct;       /**< reads and writes of files bypass the page cache (O_DIRECT) where
                                 the file system and the alignment allow it */
    bool file_keep_rest;    /**< a target file keeps the bytes behind the region; default: the file
                                 ends with the region */
    bool (*keep_going)(size_t done, size_t total, void *user); /**< called after each chunk;
                                                                    returning false cancels the
                                                                    copy. `done` and `total` are
                                                                    bytes of all targets */
    void *user;             /**< argument of keep_going */
    uint64_t reserved[4];
} ferry_copy_options;

/**
 * Copies `count` regions. The result is as if they were copied one after another, in the order of
 * the array. Ferry may copy regions that do not overlap at the same time.
 *
 * At least one side of each region is a buffer, and all buffers belong to one context. When the two
 * sides of a region overlap in one buffer, the region behaves as memmove(), also for rows and
 * planes. Memory of the caller must not overlap like this.
 *
 * Errors: before the call moves anything, it checks all arguments and looks for conflicts with open
 * scopes. Bytes move in chunks. After a later failure each chunk holds either its old or its new
 * values. Every buffer records which bytes are new, and the message reports how many bytes arrived.
 * With more than one region, the message about an invalid argument names the region by its index in
 * the array.
 *
 * Conversions: a region whose two elements are equal, and whose `conversion` is not set, is copied
 * unchanged. Every other region is converted with the policy options->convert. If that policy is 0,
 * a region whose `conversion` is set is converted with FERRY_CONVERT_SATURATE, and any other fails
 * with FERRY_ERROR_WRONG_TYPE. A conversion function of the program runs on the host, on one part
 * of a region at a time. FERRY_CONVERT_CHECK applies to each region separately:
 * - A region with an element that does not fit stays unchanged; the regions before it are done.
 * - ferry_error_index() returns the index of that element in the region, counted row by row.
 * - If the region has several rows or its target is a file, the call first copies the source to
 *   host memory and checks it there. With any policy, the call also does so when the two sides
 *   overlap.
 *
 * Source files: a file must hold the whole region. When it is shorter, the region changes nothing.
 *
 * Target files: the call creates a missing file with mode 0666 less the umask. It does not write
 * the bytes before the region and between its rows: they keep what the file had there, and read as
 * zero where the file had nothing. The call then makes the file end with the region, unless
 * options->file_keep_rest is set. For a region without elements the call only creates the file and
 * sets its end.
 *
 * Asynchronous calls: with options->event set, the call returns before the bytes have moved, and a
 * helper thread copies them. Later scopes, launches and copies that need the bytes wait for the
 * copy.
 * - Work that the program queues directly on a native stream is not ordered after the copy: wait
 *   for the event first.
 * - After the call the caller may reuse the array, the paths and the values.
 * - Until the event is done, the caller must not change a source in its own memory, must not use a
 *   target in its own memory, and must not unload its conversion functions. The call keeps the
 *   buffers alive.
 * - Failures after the return are reported by the event. A missing or short file is one of them.
 *
 * keep_going and a program's conversion function are watching callbacks, see "Callbacks" in
 * <ferry/status.h>. keep_going of an asynchronous call runs on the helper thread.
 *
 * @param regions may be NULL when `count` is 0
 * @param options NULL for defaults: the call blocks. An asynchronous call without regions needs
 *         options->stream.
 * @return the usual statuses of <ferry/buffer.h>; FERRY_ERROR_INVALID_ARGUMENT (wrong sides, a
 *         pitch smaller than its content, an unknown policy, a write to a read-only wrap);
 *         FERRY_ERROR_WRONG_TYPE; FERRY_ERROR_WRONG_CONTEXT; FERRY_ERROR_OVERFLOW;
 *         FERRY_ERROR_UNSUPPORTED (a conversion with FERRY_CONVERT_CHECK, asynchronous or from a
 *         file); FERRY_ERROR_OUT_OF_RANGE (also from FERRY_CONVERT_CHECK); FERRY_ERROR_IO;
 *         FERRY_ERROR_CANCELLED.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_copy(const ferry_copy_region *regions, size_t count, const ferry_copy_options *options);

/**
 * For generated code: copies one region, and converts it with `policy`. Blocks unless
 * options->event is set.
 * @param policy 0 means FERRY_CONVERT_SATURATE
 * @param options NULL for defaults; its `convert` is 0 or equal to `policy`
 * @return as ferry_copy(); FERRY_ERROR_INVALID_ARGUMENT also when the two policies differ.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_copy_converting(const ferry_copy_region *region, ferry_convert_policy policy,
                                                             const ferry_copy_options *options);

/* -- copies of one region; a NULL `element` means the buffer's --------------------------------- */

/**
 * Copies `count` elements from the caller's memory into the buffer, starting at element `offset`.
 *
 * The call writes to the replica at the place of options->stream. Without a stream it writes to the
 * place where the range is current. It writes to the host if the host is one of several such
 * places, or if there is none. It copies no other bytes. When a blocking call returns, the caller
 * may reuse `source`.
 * @param options NULL: the call blocks and reports no progress
 * @return as ferry_copy(); FERRY_ERROR_INVALID_ARGUMENT also for NULL with count > 0.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                              const void *source, size_t count, const ferry_copy_options *options);
/**
 * Copies `count` elements, starting at element `offset`, to the caller's memory. Bytes that are
 * current on the host come from there, others from a device. The call creates no replica, and does
 * not change where bytes are current. When a blocking call returns, `target` holds the values.
 * @param options NULL: the call blocks and reports no progress
 * @return as ferry_copy(); FERRY_ERROR_INVALID_ARGUMENT also for NULL with count > 0.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                            void *target, size_t count, const ferry_copy_options *options);
/**
 * Copies `count` elements between buffers of one context, at the place where the source is current.
 * Two ranges of one buffer may overlap: the result is that of memmove(), and other threads never
 * see a partial result.
 * @param options NULL: the call blocks and reports no progress
 * @return as ferry_copy().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy(ferry_buffer *target, const ferry_element *element, size_t target_offset,
                                                         ferry_buffer *source, size_t source_offset, size_t count,
                                                         const ferry_copy_options *options);
/**
 * Sets each element of the range to `*value`, at the place where the range is current. That is the
 * host if the host is one of several such places. The caller may reuse `*value` when the call
 * returns.
 * @param options NULL: the call blocks and reports no progress
 * @return as ferry_copy().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_fill(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                         size_t count, const void *value, const ferry_copy_options *options);
/**
 * Reads `count` elements from a file into the buffer, starting at byte `file_offset` of the file
 * and at element `offset` of the buffer.
 *
 * A file holds raw elements in the machine's byte order, without a header. The call fails with
 * FERRY_ERROR_IO if the file is missing, unreadable, a directory, a pipe, shorter than the range,
 * or resized during the call. The message names the path, the offset and the number of bytes that
 * arrived. If the file is too short, the buffer is unchanged. After another failure or a cancel,
 * each chunk of the range holds either its old or its new values. A call with zero elements does
 * not open the file.
 * @param path not NULL
 * @param options NULL: the call blocks and reports no progress
 * @return as ferry_copy(); FERRY_ERROR_OVERFLOW for an offset larger than any file.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_load(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                         size_t count, const char *path, uint64_t file_offset,
                                                         const ferry_copy_options *options);
/**
 * Writes `count` elements to the file, starting at byte `file_offset`. The bytes come from the
 * place where the range is current.
 *
 * The call creates a missing file with mode 0666 less the umask. Bytes of the file before
 * `file_offset` are kept; if the file was shorter, the gap reads as zero. At its end the call
 * removes the bytes behind the range, unless options->file_keep_rest is set. After a failure or a
 * cancel, the message reports how many bytes were written, and the rest of the file is unchanged.
 * The call does not flush the file to disk: use fsync() for that.
 * @param path not NULL
 * @param options NULL: the call blocks and reports no progress
 * @return as ferry_buffer_load().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_store(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                          size_t count, const char *path, uint64_t file_offset,
                                                          const ferry_copy_options *options);

/* -- regions: these functions check nothing, ferry_copy() checks its regions ------------------- */

/**
 * Returns a region for ferry_copy(): `count` elements from host memory to the buffer, starting at
 * its element `offset`. NULL for `element` means the element of the buffer.
 */
FERRY_INLINE ferry_copy_region
ferry_buffer_region_from(ferry_buffer *buffer, const ferry_element *element, size_t offset, const void *source, size_t count)
{
    ferry_copy_region region;
    memset(&region, 0, sizeof(region));
    region.target.buffer = buffer;
    region.target.element = element;
    region.target.offset = offset;
    region.source.memory = (void *)(uintptr_t)source;
    region.source.element = element;
    region.count = count;
    return region;
}

/**
 * Returns a region for ferry_copy(): `count` elements of the buffer, starting at element `offset`,
 * to host memory. NULL for `element` means the element of the buffer.
 */
FERRY_INLINE ferry_copy_region
ferry_buffer_region_to(ferry_buffer *buffer, const ferry_element *element, size_t offset, void *target, size_t count)
{
    ferry_copy_region region;
    memset(&region, 0, sizeof(region));
    region.source.buffer = buffer;
    region.source.element = element;
    region.source.offset = offset;
    region.target.memory = target;
    region.target.element = element;
    region.count = count;
    return region;
}

/**
 * Returns a region for ferry_copy(): `count` elements from one buffer to another. Both buffers have
 * this element.
 */
FERRY_INLINE ferry_copy_region
ferry_buffer_region(ferry_buffer *target, const ferry_element *element, size_t target_offset, ferry_buffer *source,
                    size_t source_offset, size_t count)
{
    ferry_copy_region region;
    memset(&region, 0, sizeof(region));
    region.target.buffer = target;
    region.target.element = element;
    region.target.offset = target_offset;
    region.source.buffer = source;
    region.source.element = element;
    region.source.offset = source_offset;
    region.count = count;
    return region;
}

FERRY_END_DECLS

#endif
