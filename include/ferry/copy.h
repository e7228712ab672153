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
 * The copies of Ferry. One call makes them all: between buffers, host memory and files, of one
 * region or many, in one to three dimensions. It converts on request, and blocks or runs
 * asynchronously.
 */

/**
 * One side of a region. Exactly one of `buffer`, `memory` and `path` is set; all three are NULL in
 * a source that `value` replaces.
 *
 * Offsets and pitches are in elements of this side. Element (x, y, z) of the region is element
 * `offset + z * plane_pitch + y * row_pitch + x` of the buffer, of the memory, or of the file from
 * byte `file_offset`.
 */
typedef struct ferry_copy_side {
    ferry_buffer *buffer;
    void *memory;                 /**< host memory of the caller; only read in a source */
    const char *path;             /**< a file; opened when the copy of the region starts */
    uint64_t file_offset;         /**< bytes of the file before its element 0 */
    const ferry_element *element; /**< NULL: the buffer's element. For memory and files NULL
                                       means the conversion's element, else that of the other
                                       side */
    size_t offset;
    size_t row_pitch;             /**< distance of two rows; 0: `count` */
    size_t plane_pitch;           /**< distance of two planes; 0: `rows` times the row pitch */
    uint64_t reserved[2];
} ferry_copy_side;

/** One copy: `planes` planes of `rows` rows of `count` elements. */
typedef struct ferry_copy_region {
    ferry_copy_side target, source;
    const void *value; /**< when not NULL, the target buffer is filled with this value. The value
                            has the element source.element, or that of the target when this is
                            NULL */
    size_t count;      /**< elements of a row. FERRY_REST means up to the end of the source buffer,
                            or of the target buffer when the source is no buffer; valid only for
                            one row */
    size_t rows;       /**< 0 means 1 */
    size_t planes;     /**< 0 means 1 */
    const ferry_conversion *conversion; /**< the user's function from the source's element to the
                                             target's; NULL: the library's */
    uint64_t reserved[4];
} ferry_copy_region;

/** Options of a copy. NULL, or zero in any field, means the default. */
typedef struct ferry_copy_options {
    ferry_stream *stream;   /**< buffers are written at this stream's place; default: where the
                                 range is current, the host on a tie */
    ferry_event **event;    /**< the call is asynchronous when set, and the caller owns `*event`
                                 on success */
    int convert;            /**< a ferry_convert_policy for regions whose elements differ. 0:
                                 such a region fails with FERRY_ERROR_WRONG_TYPE unless it has a
                                 conversion */
    size_t chunk_bytes;     /**< bytes between two calls of keep_going; default: a chunk of the
                                 staging ring */
    bool file_direct;       /**< files bypass the page cache (O_DIRECT) where file system and
                                 alignment allow it */
    bool file_keep_rest;    /**< a target file keeps its bytes behind the region; default: it
                                 ends with the region */
    bool (*keep_going)(size_t done, size_t total, void *user); /**< false cancels; the arguments
                                                                    are bytes of all targets */
    void *user;             /**< argument of keep_going */
    uint64_t reserved[4];
} ferry_copy_options;

/**
 * Copies `count` regions. The result is as if they were copied one after another, in the order of
 * the array. Independent regions may run at the same time.
 *
 * At least one side of each region is a buffer, and all buffers belong to one context. When the two
 * sides of a region overlap in one buffer, the region behaves as memmove(), also for rows and
 * planes. Memory of the caller must not overlap like this.
 *
 * Errors: before the call moves anything, it checks all arguments and looks for conflicts with open
 * scopes. Bytes move in chunks. After a later failure each chunk has its old or its new values,
 * every buffer records which, and the message reports how many bytes arrived. With more than one
 * region, the message about an invalid argument has the index of the region, counted from 0.
 *
 * Conversions: a region whose two elements are equal, and whose `conversion` is not set, is copied
 * unchanged. Every other region is converted by the policy options.convert. Policy 0 means
 * FERRY_CONVERT_SATURATE where the region's `conversion` is set; where it is not, the region fails
 * with FERRY_ERROR_WRONG_TYPE. A user's function runs on the host, on one part of a region at a
 * time. FERRY_CONVERT_CHECK applies to each region separately:
 * - A region with an element that does not fit stays unchanged; the regions before it are done.
 * - ferry_error_index() returns the index of that element in the region, counted row by row.
 * - To check before it writes, the call copies the source of a region to host memory first when the
 *   region has several rows or goes into a file. Any policy does so when the two sides overlap.
 *
 * Source files: a file must hold the whole region. When it is shorter, the region changes nothing.
 *
 * Target files: the call creates a missing file with mode 0666 less the umask. It does not write
 * the bytes before the region and between its rows: they keep what the file had there, and read as
 * zero where the file had nothing. The file ends with the region unless options.file_keep_rest is
 * set. A region without elements does only this.
 *
 * Asynchronous calls, with options.event: the call returns when its place in the order of calls is
 * fixed, and a helper thread copies. Scopes, launches and copies that need the bytes wait for it.
 * - Before the program queues work on a native stream that needs the bytes, it must wait for the
 *   event itself.
 * - After the call the caller may reuse the array, the paths and the values.
 * - Until the event is done, the caller must not change a source in its own memory, must not use a
 *   target in its own memory, and must keep a user's function loaded. The call retains the buffers.
 * - The event returns every later failure, also that a file is missing or too short.
 *
 * keep_going and the user's function are watching callbacks, see "Callbacks" in <ferry/status.h>.
 * keep_going of an asynchronous call runs on the helper thread.
 *
 * @param regions may be NULL when `count` is 0
 * @param options NULL for defaults: the call blocks. An asynchronous call without regions needs
 *         options->stream.
 * @return the usual statuses of <ferry/buffer.h>; FERRY_ERROR_INVALID_ARGUMENT (wrong sides, a
 *         pitch smaller than its content, an unknown policy, a write to a read-only wrap);
 *         FERRY_ERROR_WRONG_TYPE; FERRY_ERROR_WRONG_CONTEXT; FERRY_ERROR_OVERFLOW;
 *         FERRY_ERROR_UNSUPPORTED (a conversion with FERRY_CONVERT_CHECK,
 *         asynchronous or from a file); FERRY_ERROR_OUT_OF_RANGE (also from FERRY_CONVERT_CHECK);
 *         FERRY_ERROR_IO; FERRY_ERROR_CANCELLED.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_copy(const ferry_copy_region *regions, size_t count, const ferry_copy_options *options);

/**
 * Copies one region with a conversion, for generated code. Blocks unless options->event is set.
 * @param policy 0 means FERRY_CONVERT_SATURATE
 * @param options NULL for defaults; `convert` is 0 or equal to `policy`
 * @return as ferry_copy(); FERRY_ERROR_INVALID_ARGUMENT also when the two policies differ.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_copy_converting(const ferry_copy_region *region, ferry_convert_policy policy,
                                                             const ferry_copy_options *options);

/* -- copies of one region; a NULL `element` means the buffer's --------------------------------- */

/**
 * Copies `count` elements from the caller's memory into the buffer: ferry_copy() of one region.
 *
 * The call writes to the place of options->stream. Without a stream it writes where the range is
 * current, to the host on a tie or when the range is current nowhere. It copies no other bytes. A
 * blocking call returns when `source` may be reused.
 * @param options NULL: the call blocks and reports no progress
 * @return as ferry_copy(); FERRY_ERROR_INVALID_ARGUMENT also for NULL with count > 0.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                              const void *source, size_t count, const ferry_copy_options *options);
/**
 * Copies `count` elements to the caller's memory, from the host where it is current, else from a
 * device. The call creates no replica and changes no state. A blocking call returns when `target`
 * holds the values.
 * @param options NULL: the call blocks and reports no progress
 * @return as ferry_copy(); FERRY_ERROR_INVALID_ARGUMENT also for NULL with count > 0.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                            void *target, size_t count, const ferry_copy_options *options);
/**
 * Copies `count` elements between buffers of one context, at the place where the source is current.
 * Overlapping ranges of one buffer behave as with memmove(), also for other threads.
 * @param options NULL: the call blocks and reports no progress
 * @return as ferry_copy().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy(ferry_buffer *target, const ferry_element *element, size_t target_offset,
                                                         ferry_buffer *source, size_t source_offset, size_t count,
                                                         const ferry_copy_options *options);
/**
 * Sets each element of the range to `*value`, where the range is current, on the host on a tie. The
 * call copies the value.
 * @param options NULL: the call blocks and reports no progress
 * @return as ferry_copy().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_fill(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                         size_t count, const void *value, const ferry_copy_options *options);
/**
 * Reads `count` elements from byte `file_offset` of the file into the range: ferry_copy() with a
 * file as its source.
 *
 * A file holds raw elements in the machine's byte order, without a header. A file that cannot be
 * used fails with FERRY_ERROR_IO: missing, unreadable, a directory, a pipe, shorter than the range,
 * or resized during the call. The message names path, offset and the bytes that arrived. A file
 * that is too short changes nothing. After any later failure or a cancel, each chunk holds its old
 * or its new value. A call with zero elements does not open the file.
 * @param path not NULL
 * @param options NULL: the call blocks and reports no progress
 * @return as ferry_copy(); FERRY_ERROR_OVERFLOW for an offset larger than any file.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_load(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                         size_t count, const char *path, uint64_t file_offset,
                                                         const ferry_copy_options *options);
/**
 * Writes the range to the file from byte `file_offset` on, from the place where the range is
 * current.
 *
 * The call creates a missing file with mode 0666 less the umask. Bytes before `file_offset` are
 * kept, and a gap before the range reads as zero. At its end the call cuts off the bytes behind the
 * range, unless options->file_keep_rest is set. After a failure or a cancel, the message reports
 * how many bytes are new; the rest of the file is unchanged. Nothing is flushed to the disk: use
 * fsync() for that.
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
 * Returns a region that describes a copy of `count` elements from host memory into a buffer, from
 * element `offset` on. A NULL element means the element of the buffer.
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

/** Returns a region that copies `count` elements of a buffer to host memory. */
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

/** Returns a region that copies `count` elements between buffers that both have this element. */
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
