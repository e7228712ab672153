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
 * One call for every copy: between buffers, host memory and files, of one region or many, of elements, rows or planes, with or
 * without a conversion, synchronous or asynchronous.
 */

/**
 * One side of a region. Exactly one of `buffer`, `memory` and `path` is set; a source that `value` replaces has none of them.
 *
 * Offsets and pitches are elements of this side. Element (x, y, z) of the region is element
 * `offset + z * plane_pitch + y * row_pitch + x` of the buffer, the memory, or the file behind `file_offset`.
 */
typedef struct ferry_copy_side {
    ferry_buffer *buffer;
    void *memory;                 /**< host memory of the caller; only read where it is a source */
    const char *path;             /**< a file; opened when the region's turn comes */
    uint64_t file_offset;         /**< bytes of the file before its element 0 */
    const ferry_element *element; /**< NULL: that of the buffer; for memory and files that of the conversion, else of the other side */
    size_t offset;
    size_t row_pitch;             /**< from one row to the next; 0: `count` */
    size_t plane_pitch;           /**< from one plane to the next; 0: `rows` times the row pitch */
    uint64_t reserved[2];
} ferry_copy_side;

/** One copy: `planes` planes of `rows` rows of `count` elements. */
typedef struct ferry_copy_region {
    ferry_copy_side target, source;
    const void *value; /**< every element of the target buffer becomes this one; its element is source.element, NULL: the target's */
    size_t count;      /**< FERRY_REST: up to the end of the source buffer, or else of the target buffer; only of one row */
    size_t rows;       /**< 0: 1 */
    size_t planes;     /**< 0: 1 */
    const ferry_conversion *conversion; /**< a user's function, from the source's element to the target's; NULL: the library's */
    uint64_t reserved[4];
} ferry_copy_region;

/** How to copy. NULL, or zero in any field, means the default. */
typedef struct ferry_copy_options {
    ferry_stream *stream;   /**< buffers are written at this stream's place; default: where the range is current, the host on a tie */
    ferry_event **event;    /**< asynchronous when set: the caller owns `*event` on success */
    int convert;            /**< 0: unlike elements are FERRY_ERROR_WRONG_TYPE, unless the region has a conversion; else a policy */
    size_t chunk_bytes;     /**< how much is copied between two calls of keep_going; default: a chunk of the staging ring */
    bool file_direct;       /**< files go around the page cache (O_DIRECT) where file system and alignment allow */
    bool file_keep_rest;    /**< a file that is a target keeps what it has behind the region; default: it ends with the region */
    bool (*keep_going)(size_t done, size_t total, void *user); /**< false cancels; bytes are those of the targets of all regions */
    void *user;             /**< of keep_going */
    uint64_t reserved[4];
} ferry_copy_options;

/**
 * Copies `count` regions. They take effect in the order of the array, as if one by one; independent ones may run at once. At least
 * one side of each region is a buffer, and all buffers belong to one context. Where the two sides of a region overlap in one
 * buffer, the region behaves as memmove(), for rows and planes too. Memory of the caller must not overlap so.
 *
 * All arguments are checked, and conflicts with open scopes are found, before anything is moved. A later failure leaves each
 * chunk with its old or its new value; the valid map knows which, and the message says how many bytes arrived. With more than
 * one region, the message of a refused argument names the region, counted from 0.
 *
 * Conversions: a region whose elements differ, or that has a conversion, is converted on the way, by options.convert
 * (0: FERRY_CONVERT_SATURATE). Equal elements without a conversion are copied as they are. FERRY_CONVERT_CHECK holds for each
 * region in its turn: a region with an element that does not fit is unchanged, the regions before it are done, and
 * ferry_error_index() is the element's number in the region, row after row. A CHECK of rows in a device, of overlapping sides, or
 * into a file first fetches the region into host memory. A user's function runs on the host, part by part of a region.
 *
 * Files: a source must hold the whole region, or nothing of it changes. A missing target is created (mode 0666 less the umask);
 * its bytes before the region and in gaps between rows stay, or read as zero. A region without elements does nothing, but of a file
 * that is its target, what lies behind the region is still cut off, unless options.file_keep_rest.
 *
 * Asynchronous calls return when the list has its place in the order of calls; a helper thread copies. Scopes, launches and
 * copies that need the bytes wait for it. What the program queues on a native stream by itself is not ordered: it waits for the
 * event first. The array, the paths and the values may be reused on return. Memory of the caller must stay untouched until
 * the event is done, and a user's conversion function must stay loaded; the buffers are retained. keep_going then runs on the
 * helper thread. It is a watching callback, see "Callbacks" in <ferry/status.h>, as the conversion function is. Failures that come
 * later are reported by the event: also a file that is missing or too short.
 *
 * @param regions may be NULL where `count` is 0; an asynchronous call of no regions needs options.stream
 * @return the usual statuses of <ferry/buffer.h>; FERRY_ERROR_INVALID_ARGUMENT (sides, pitches less than what they contain, an unknown
 *         policy, a write to a read-only wrap), FERRY_ERROR_WRONG_TYPE, FERRY_ERROR_WRONG_CONTEXT, FERRY_ERROR_OVERFLOW,
 *         FERRY_ERROR_UNSUPPORTED (a conversion with CHECK that is asynchronous or comes from a file), FERRY_ERROR_OUT_OF_RANGE (also
 *         by CHECK), FERRY_ERROR_IO, FERRY_ERROR_CANCELLED. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_copy(const ferry_copy_region *regions, size_t count, const ferry_copy_options *options);

/**
 * Copies one region with a conversion, for generated code. `policy` 0 means FERRY_CONVERT_SATURATE;
 * options->convert is 0 or equal to `policy`, else the call fails with FERRY_ERROR_INVALID_ARGUMENT.
 * @return as ferry_copy(). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_copy_converting(const ferry_copy_region *region, ferry_convert_policy policy,
                                                             const ferry_copy_options *options);

/* -- one range: ferry_copy() of one region; an `element` of NULL means the buffer's own --------------- */

/**
 * Copies `count` elements from the caller's memory into the buffer: ferry_copy() of one region.
 *
 * Writes where the range is current, the host on a tie or when nowhere, or at the place of
 * options->stream. Copies nothing else. A blocking call returns when `source` may be reused.
 * @param options NULL: the call blocks and reports no progress
 * @return as ferry_copy(); FERRY_ERROR_INVALID_ARGUMENT also for NULL with count > 0. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                              const void *source, size_t count, const ferry_copy_options *options);
/**
 * Copies `count` elements to the caller's memory, from the host where it is current, else from a
 * device. Creates no replica and changes no state. @return as ferry_copy(). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                            void *target, size_t count, const ferry_copy_options *options);
/**
 * Copies between buffers of one context, at the place where the source is current. Overlapping
 * ranges of one buffer behave as with memmove(), also for other threads.
 * @return as ferry_copy(). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy(ferry_buffer *target, const ferry_element *element, size_t target_offset,
                                                         ferry_buffer *source, size_t source_offset, size_t count,
                                                         const ferry_copy_options *options);
/**
 * Sets each element of the range to `*value`, where the range is current, the host on a tie. The
 * value is copied. @return as ferry_copy(). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_fill(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                         size_t count, const void *value, const ferry_copy_options *options);
/**
 * Reads `count` elements from byte `file_offset` of the file into the range: ferry_copy() with a
 * file as its source.
 *
 * A file holds raw elements in the machine's byte order, without a header. A file that cannot be
 * used is FERRY_ERROR_IO: missing, unreadable, a directory, a pipe, shorter than the range, or
 * resized during the call. The message names path, offset and the bytes that arrived. A file that is
 * too short changes nothing. After any later failure or a cancel, each chunk holds its old or its
 * new value. Zero elements do not open the file.
 * @param path not NULL
 * @return as ferry_copy(); FERRY_ERROR_OVERFLOW for an offset larger than any file. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_load(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                         size_t count, const char *path, uint64_t file_offset,
                                                         const ferry_copy_options *options);
/**
 * Writes the range to the file, starting at byte `file_offset`, from the place where it is current.
 *
 * Creates a missing file with mode 0666 less the umask. Bytes before `file_offset` are kept, and a
 * gap before the range reads as zero. Bytes behind the range are cut off at the end of the call
 * unless options->file_keep_rest is set. After a failure or a cancel, the message says how many bytes
 * are new; the rest of the file is unchanged. Nothing is flushed to the disk: use fsync() for that.
 * @return as ferry_buffer_load(). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_store(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                                          size_t count, const char *path, uint64_t file_offset,
                                                          const ferry_copy_options *options);

/* -- makers of regions, which check nothing: ferry_copy() does ---------------------------------------- */

/** Returns a region that copies `count` elements from host memory into a buffer. A NULL element means the buffer's. */
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
