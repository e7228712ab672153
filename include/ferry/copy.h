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
 * Copies between buffers, host memory and files. ferry_copy() makes every kind of copy: of one
 * region or many, in one to three dimensions, with or without a conversion. The other functions are
 * short forms of it.
 *
 * Each function blocks until its bytes have arrived, and has a twin whose name ends in `_async`.
 * The twin checks its arguments and returns before the bytes have moved, and a worker thread copies
 * them. Later scopes, launches and copies that need the bytes wait for the copy.
 * - Work that the program queues directly on a native stream does not wait. The program must wait
 *   for the event first.
 * - When the call has returned, the caller may reuse the regions, the paths, the values and the
 *   options.
 * - Until the event completes, the caller must not change source memory, must not use target
 *   memory, and must not unload its conversion functions. The call keeps the buffers alive.
 * - On success the twin sets `*event`, which the caller then owns. The event completes when the
 *   copy has ended, and reports failures that occur after the call has returned, such as a missing
 *   file.
 * - `event` may be NULL, where the program will not wait for the copy. If it fails, the bytes of
 * target buffers are lost, as those of a launch that fails: the next call that reads them returns
 * the failure. A failure without a target buffer is logged.
 * - keep_going is called on the worker thread.
 * - FERRY_CONVERT_CHECK needs the function that blocks: the twin returns FERRY_ERROR_UNSUPPORTED.
 */

/**
 * One side of a copied region: its target or its source. The program sets exactly one of `buffer`,
 * `memory` and `path`. If the region fills its target with one `value`, all three are NULL in its
 * source.
 *
 * `offset` and the two pitches are numbers of elements of this side. Element (x, y, z) of the
 * region is element `offset + z * plane_pitch + y * row_pitch + x` of the buffer, the memory or the
 * file. Element 0 of a file begins at byte `file_offset`.
 */
typedef struct ferry_copy_side {
    ferry_buffer *buffer;
    void *memory;                 /**< host memory of the caller; if this side is the source, the
                                       call only reads it */
    const char *path;             /**< path of a file; Ferry opens it when the copy of this region
                                       starts */
    uint64_t file_offset;         /**< position in the file, in bytes, of its element 0 */
    const ferry_element *element; /**< element type of this side. NULL for a buffer: the buffer's
                                       own type. NULL for memory and files: the type that the
                                       region's `conversion` has for this side, or if that is NULL,
                                       the type of the other side */
    size_t offset;
    size_t row_pitch;   /**< elements from the start of a row to the start of the next; 0:
                             `count` */
    size_t plane_pitch; /**< elements from the start of a plane to the start of the next;
                             0: `rows` times the row pitch */
    uint64_t reserved[2];
} ferry_copy_side;

/** One region of a copy: `planes` planes, each of `rows` rows, each of `count` elements. */
typedef struct ferry_copy_region {
    ferry_copy_side target, source;
    const void *value; /**< if not NULL, the region sets each element of the target to the element
                            at this address. Its type is source.element, or if that is NULL, the
                            element type of the target */
    size_t count;      /**< number of elements in a row. FERRY_REST means all elements up to the end
                            of the source buffer, or if the source is not a buffer, up to the end of
                            the target buffer. It is valid only if the region has one row */
    size_t rows;       /**< 0 means 1 */
    size_t planes;     /**< 0 means 1 */
    const ferry_conversion *conversion; /**< a conversion by a function of the program, from the
                                             type of the source to the type of the target. NULL: the
                                             library converts if the types differ */
    uint64_t reserved[4];
} ferry_copy_region;

/** Options of a copy. NULL, or zero in any field, means the default. */
typedef struct ferry_copy_options {
    ferry_stream *stream;         /**< the copy writes target buffers at the place of this stream.
                                       Default: at a place where the range is current; the host is
                                       preferred if there are several */
    ferry_convert_policy convert; /**< for regions whose two sides have different element types.
                               FERRY_CONVERT_NONE: such a region fails with
                               FERRY_ERROR_WRONG_TYPE, unless its `conversion` is set */
    size_t chunk_bytes;  /**< number of bytes that Ferry copies between two calls of keep_going.
                              Ferry keeps elements and the blocks of a file whole, and rows
                              together, so that up to twice as many bytes, or one element, may lie
                              between two calls. Default: the chunk size of the staging ring, which
                              is the page-locked memory through which Ferry copies pageable memory */
    bool file_direct;    /**< Ferry reads and writes files without the page cache (O_DIRECT),
                              where the file system and the alignment allow it */
    bool file_keep_rest; /**< true: the bytes of a target file after the region are kept. false:
                              the call truncates the file at the end of the region */
    bool (*keep_going)(size_t done, size_t total, void *user); /**< called after each chunk; returns
                                                                    false to cancel the copy. `done`
                                                                    and `total` are bytes of all
                                                                    targets together */
    void *user;                                                /**< argument of keep_going */
    uint64_t reserved[4];
} ferry_copy_options;

/**
 * Copies `count` regions. The result is the same as if they were copied one after another, in the
 * order of the array. Ferry may copy regions that do not overlap at the same time.
 *
 * At least one side of each region is a buffer, and all buffers belong to one context. The two
 * sides of a region may overlap in one buffer: the result is then that of memmove(), even for rows
 * and planes. A region whose two sides are the same bytes moves nothing, but is a write as any
 * other. Memory of the caller must not overlap in this way.
 *
 * Errors: before it moves any bytes, the call checks all arguments, and checks that no open scope
 * conflicts. Bytes move in chunks. If the call fails later, each chunk holds either its old or its
 * new values. A chunk ends between two elements, so no element is a mixture, unless it is larger
 * than a chunk of the staging ring. Every buffer records which of its bytes are new, and the
 * message says how many bytes arrived. If there are several regions, the message about an invalid
 * argument names the region by its index in the array.
 *
 * Conversions: if both sides of a region have the same element type and its `conversion` is NULL,
 * the bytes are copied unchanged. Any other region is converted with the policy options->convert.
 * If that policy is FERRY_CONVERT_NONE, a region whose `conversion` is set is converted with
 * FERRY_CONVERT_SATURATE, and any other fails with FERRY_ERROR_WRONG_TYPE. A conversion function of
 * the program runs on the host, and receives one part of a region at a time. FERRY_CONVERT_CHECK
 * applies to each region separately:
 * - If an element of a region does not fit, that region stays unchanged. The regions before it have
 *   been copied.
 * - ferry_error_index() returns the index of that element in the region, counted row by row.
 * - If the region has several rows, or its target is a file, the call first copies the source to
 *   host memory and checks it there. The call also makes such a copy, with any policy, if the two
 *   sides overlap.
 *
 * Source files: if a file is too short for its region, the region changes nothing.
 *
 * Target files: the call creates a missing file with mode 0666 minus the umask. It does not write
 * the bytes before the region and between its rows. They keep their old values, and bytes that the
 * file did not have read as zero. The call then truncates the file at the end of the region, unless
 * options->file_keep_rest is set. A region without elements ends where it begins, at element
 * `offset`: the file gets that length, even if it was shorter, or keeps its own length if
 * options->file_keep_rest is set.
 *
 * keep_going and conversion functions of the program are watching callbacks, see "Callbacks" in
 * <ferry/status.h>.
 *
 * @param regions may be NULL when `count` is 0
 * @param options NULL for defaults. ferry_copy_async() without regions needs options->stream, if it
 *         has an event.
 * @return a status that <ferry/buffer.h> lists at its top; FERRY_ERROR_INVALID_ARGUMENT (a side
 *         with several of `buffer`, `memory` and `path`, a region without a buffer, a pitch smaller
 *         than the row or plane, an unknown policy, a write through a read-only handle);
 *         FERRY_ERROR_WRONG_TYPE (the element types differ, and no policy is set);
 *         FERRY_ERROR_WRONG_CONTEXT (buffers or streams of several contexts); FERRY_ERROR_OVERFLOW
 *         (a size exceeds size_t); FERRY_ERROR_UNSUPPORTED (FERRY_CONVERT_CHECK in an asynchronous
 *         call, or from a file); FERRY_ERROR_OUT_OF_RANGE (a region outside its buffer, or
 *         FERRY_CONVERT_CHECK found a value that does not fit); FERRY_ERROR_IO (a file could not be
 *         read or written); FERRY_ERROR_CANCELLED (keep_going returned false).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_copy(const ferry_copy_region *regions, size_t count,
                                                  const ferry_copy_options *options);
/** The asynchronous twin of ferry_copy(): see the top of this file. */
FERRY_API FERRY_NODISCARD ferry_status ferry_copy_async(const ferry_copy_region *regions,
                                                        size_t count,
                                                        const ferry_copy_options *options,
                                                        ferry_event **event);

/* -- copies of one region; a NULL `element` means the buffer's --------------------------------- */

/**
 * Copies `count` elements from the caller's memory into the buffer, starting at element `offset` of
 * the buffer.
 *
 * The call writes to the replica at the place of options->stream. Without a stream it writes to the
 * host if the range is current there or nowhere, and otherwise to a device where the range is
 * current. It copies no other bytes. When the call returns, the caller may reuse `source`.
 * @param element element type of `source`, which must be that of the buffer; NULL: the buffer's
 * @param options NULL: the call reports no progress
 * @return the same statuses as ferry_copy(); FERRY_ERROR_INVALID_ARGUMENT also when `source` is
 *         NULL and count > 0.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from(ferry_buffer *buffer,
                                                              const ferry_element *element,
                                                              size_t offset, size_t count,
                                                              const void *source,
                                                              const ferry_copy_options *options);
/** The asynchronous twin of ferry_buffer_copy_from(): see the top of this file. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from_async(
    ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
    const void *source, const ferry_copy_options *options, ferry_event **event);
/**
 * Copies `count` elements, starting at element `offset` of the buffer, to the caller's memory.
 *
 * Bytes that are current on the host are read there, and others are read from a device. The call
 * allocates no replica, and does not change which bytes are current where. When the call returns,
 * `target` holds the values.
 * @param element element type of `target`, which must be that of the buffer; NULL: the buffer's
 * @param options NULL: the call reports no progress
 * @return the same statuses as ferry_copy(); FERRY_ERROR_INVALID_ARGUMENT also when `target` is
 *         NULL and count > 0.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to(ferry_buffer *buffer,
                                                            const ferry_element *element,
                                                            size_t offset, size_t count,
                                                            void *target,
                                                            const ferry_copy_options *options);
/** The asynchronous twin of ferry_buffer_copy_to(): see the top of this file. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to_async(
    ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count, void *target,
    const ferry_copy_options *options, ferry_event **event);
/**
 * Copies `count` elements from one buffer to another of the same context. Without options->stream
 * the call writes the target at the place where the source is current.
 *
 * Both buffers may be the same, and the two ranges may overlap. The result is then that of
 * memmove(), and other threads never see a partial result.
 * @param element element type of both buffers; NULL: that of the buffers
 * @param options NULL: the call reports no progress
 * @return the same statuses as ferry_copy().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy(ferry_buffer *target,
                                                         const ferry_element *element,
                                                         size_t target_offset, ferry_buffer *source,
                                                         size_t source_offset, size_t count,
                                                         const ferry_copy_options *options);
/** The asynchronous twin of ferry_buffer_copy(): see the top of this file. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_async(
    ferry_buffer *target, const ferry_element *element, size_t target_offset, ferry_buffer *source,
    size_t source_offset, size_t count, const ferry_copy_options *options, ferry_event **event);
/**
 * Sets each element of the range to `*value`. Without options->stream the call writes to the host
 * if the range is current there or nowhere, and otherwise to a device where the range is current.
 * The caller may reuse `*value` when the call has returned.
 * @param element type of `*value`, which must be that of the buffer; NULL: the buffer's
 * @param options NULL: the call reports no progress
 * @return the same statuses as ferry_copy().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_fill(ferry_buffer *buffer,
                                                         const ferry_element *element,
                                                         size_t offset, size_t count,
                                                         const void *value,
                                                         const ferry_copy_options *options);
/** The asynchronous twin of ferry_buffer_fill(): see the top of this file. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_fill_async(
    ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
    const void *value, const ferry_copy_options *options, ferry_event **event);
/**
 * Reads `count` elements from a file into the buffer, starting at byte `file_offset` of the file
 * and at element `offset` of the buffer.
 *
 * The file holds raw elements in the machine's byte order, without a header. The call fails with
 * FERRY_ERROR_IO if the file is missing, unreadable, a directory or a pipe, if it is shorter than
 * the range, or if its size changes during the call. The message contains the path, the offset and
 * the number of bytes that arrived. If the file is too short, the buffer is unchanged. After
 * another failure or a cancel, each chunk of the range holds either its old or its new values. If
 * `count` is 0, the call does not open the file.
 * @param path not NULL
 * @param options NULL: the call reports no progress
 * @return the same statuses as ferry_copy(); FERRY_ERROR_OVERFLOW when `file_offset` is larger than
 *         any file can be.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_load(ferry_buffer *buffer,
                                                         const ferry_element *element,
                                                         size_t offset, size_t count,
                                                         const char *path, uint64_t file_offset,
                                                         const ferry_copy_options *options);
/** The asynchronous twin of ferry_buffer_load(): see the top of this file. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_load_async(
    ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
    const char *path, uint64_t file_offset, const ferry_copy_options *options, ferry_event **event);
/**
 * Writes `count` elements, starting at element `offset` of the buffer, to a file, starting at byte
 * `file_offset` of the file. The call reads the bytes at a place where they are current.
 *
 * The call creates a missing file with mode 0666 minus the umask. Bytes of the file before
 * `file_offset` are kept. If the file was shorter, the gap reads as zero. The call then truncates
 * the file at the end of the range, unless options->file_keep_rest is set. After a failure or a
 * cancel, the message says how many bytes were written, and the rest of the file is unchanged. The
 * call does not flush the file to disk; use fsync() for that.
 * @param path not NULL
 * @param options NULL: the call reports no progress
 * @return the same statuses as ferry_buffer_load().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_store(ferry_buffer *buffer,
                                                          const ferry_element *element,
                                                          size_t offset, size_t count,
                                                          const char *path, uint64_t file_offset,
                                                          const ferry_copy_options *options);
/** The asynchronous twin of ferry_buffer_store(): see the top of this file. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_store_async(
    ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
    const char *path, uint64_t file_offset, const ferry_copy_options *options, ferry_event **event);

/* -- regions: these functions check nothing, ferry_copy() checks its regions ------------------- */

/**
 * Returns a region for ferry_copy(), which copies `count` elements from host memory to the buffer,
 * starting at element `offset` of the buffer.
 * @param element element type of both sides; NULL: that of the buffer
 */
FERRY_INLINE ferry_copy_region
ferry_buffer_region_from(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                         size_t count, const void *source)
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
 * Returns a region for ferry_copy(), which copies `count` elements, starting at element `offset` of
 * the buffer, to host memory.
 * @param element element type of both sides; NULL: that of the buffer
 */
FERRY_INLINE ferry_copy_region
ferry_buffer_region_to(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                       size_t count, void *target)
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
 * Returns a region for ferry_copy(), which copies `count` elements from one buffer to another. They
 * start at element `source_offset` of `source` and at element `target_offset` of `target`.
 * @param element element type of both buffers; NULL: that of the buffers
 */
FERRY_INLINE ferry_copy_region
ferry_buffer_region(ferry_buffer *target, const ferry_element *element, size_t target_offset,
                    ferry_buffer *source, size_t source_offset, size_t count)
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
