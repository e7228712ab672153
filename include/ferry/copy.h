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
 * short forms of it for one range: `count` elements from element `offset` of the buffer on. Their
 * `element` must be the element type of the buffer, which NULL means. NULL as `options` means the
 * defaults.
 *
 * Each function blocks until its bytes have arrived, and has a twin whose name ends in `_async`.
 * The twin checks its arguments and returns; a worker thread makes the copy, and calls keep_going.
 * Later scopes, launches and copies that need the bytes wait for the copy.
 * - Work that the program queues directly on a native stream does not wait, even on that of
 *   options->stream. The program calls ferry_stream_wait_event() first.
 * - When the call has returned, the caller may reuse the regions, the paths, the values and the
 *   options.
 * - Until the event completes, the caller must not change source memory, must not use target
 *   memory, and must not unload its conversion functions. The call keeps the buffers alive.
 * - On success the twin sets `*event`, which the caller then owns. The event completes when the
 *   copy has ended, and reports failures that occur after the call has returned, such as a missing
 *   file. Target buffers then keep what did not arrive. A failure whose event was never asked is
 *   logged. Waiting for options->stream does not wait for the copy.
 * - `event` may be NULL. If such a copy fails, the bytes of target buffers are lost, as those of a
 *   launch that fails: the next call that reads them returns the failure, which is also logged.
 *   ferry_buffer_wait_idle() on a buffer of the copy returns when the copy has ended.
 * - FERRY_CONVERT_CHECK needs the function that blocks.
 *
 * Files hold raw elements in the machine's byte order, without a header. A call fails with
 * FERRY_ERROR_IO if a file is a directory or a pipe, if a source file is missing, unreadable or
 * shorter than the range, or changes its size during the call, or if a target file cannot be
 * written, as on a full disk. The message contains the path, the offset and the number of bytes
 * that arrived.
 * - If a source file is too short, its target is unchanged.
 * - A missing target file is created with mode 0666 minus the umask. Bytes before the range, and
 *   between the rows of a region, keep their values; those that the file did not have read as zero.
 *   The call then truncates the file at the end of the range, unless options->file_keep_rest is
 *   set. It does not flush the file to disk; use fsync() for that.
 */

/**
 * One side of a copied region: its target or its source. The program sets exactly one of `buffer`,
 * `memory` and `path`. In the source of a region that fills its target with one `value`, all three
 * are NULL.
 *
 * Element (x, y, z) of the region is element `offset + z * plane_pitch + y * row_pitch + x` of the
 * buffer, the memory or the file. All of these are numbers of elements of this side.
 */
typedef struct ferry_copy_side {
    ferry_buffer *buffer;
    void *memory;                 /**< host memory of the caller, which the call only reads if this
                                       side is the source */
    const char *path;             /**< path of a file, which is opened when the copy of this region
                                       starts */
    uint64_t file_offset;         /**< position of element 0 in the file, in bytes */
    const ferry_element *element; /**< element type of this side. NULL for a buffer: the buffer's
                                       type. NULL for memory and files: the type that the region's
                                       `conversion` has for this side, or without one the type of
                                       the other side */
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
    const void *value; /**< if not NULL, each element of the target becomes the element at this
                            address, whose type is source.element, or if that is NULL, the element
                            type of the target */
    size_t count;      /**< number of elements in a row. FERRY_REST, only for a region of one row:
                            all elements up to the end of the source buffer, or if the source is not
                            a buffer, of the target buffer */
    size_t rows;       /**< 0 means 1 */
    size_t planes;     /**< 0 means 1 */
    const ferry_conversion *conversion; /**< a conversion by a function of the program, from the
                                             type of the source to that of the target. NULL: the
                                             library converts if the types differ */
    uint64_t reserved[4];
} ferry_copy_region;

/** Options of a copy. NULL, or zero in any field, means the default. */
typedef struct ferry_copy_options {
    ferry_stream *stream;         /**< target buffers are written at the place of this stream.
                                       Default: at a place where the range is current, preferably
                                       the host; the host if there is none */
    ferry_convert_policy convert; /**< for regions whose sides have different element types.
                                       FERRY_CONVERT_NONE: such a region fails with
                                       FERRY_ERROR_WRONG_TYPE, unless its `conversion` is set */
    size_t chunk_bytes;  /**< number of bytes between two calls of keep_going; up to twice as many,
                              or one element, because elements, rows and the blocks of a file are
                              kept whole. Default: the chunk size of the staging ring */
    bool file_direct;    /**< files are read and written without the page cache (O_DIRECT), where
                              the file system and the alignment allow it, and between a file and
                              device memory also without host memory, where the device can */
    bool file_keep_rest; /**< true: the bytes of a target file after the region are kept. false: the
                              file is truncated there */
    bool (*keep_going)(size_t done, size_t total, void *user); /**< called after each chunk; returns
                                                                    false to cancel the copy. `done`
                                                                    and `total` are bytes of all
                                                                    targets together */
    void *user;                                                /**< argument of keep_going */
    uint64_t reserved[4];
} ferry_copy_options;

/**
 * Copies `count` regions. The result is the same as if they were copied one after another, in the
 * order of the array.
 *
 * At least one side of each region is a buffer, and all buffers belong to one context. The two
 * sides of a region may overlap in one buffer: the result is then that of memmove(), even for rows
 * and planes. Memory of the caller must not overlap in this way.
 *
 * Errors: before it moves any bytes, the call checks all arguments, and checks that no open scope
 * conflicts. If it fails later, or is cancelled, each chunk holds either its old or its new values,
 * and no element is a mixture, unless it is larger than a chunk of the staging ring or its bytes
 * were current at different places. Every buffer records which of its bytes are new, and the
 * message says how many bytes arrived. If a device that reads a file itself (file_direct) fails,
 * and the host cannot read the file either, elements behind the bytes that arrived may be mixtures.
 *
 * Conversions: if both sides of a region have the same element type and its `conversion` is NULL,
 * the bytes are copied unchanged. Any other region is converted with the policy options->convert,
 * or with FERRY_CONVERT_SATURATE if that is FERRY_CONVERT_NONE and the region's `conversion` is
 * set. If FERRY_CONVERT_CHECK finds an element that does not fit, its region stays unchanged, the
 * regions before it have been copied, and ferry_error_index() returns the index of the element in
 * the region, counted row by row.
 *
 * keep_going and conversion functions, which run on the host, are watching callbacks, see
 * "Callbacks" in <ferry/status.h>.
 * @param regions may be NULL when `count` is 0
 * @param options NULL for defaults. ferry_copy_async() with an event and without regions needs
 *         options->stream.
 * @return the usual statuses, see the top of <ferry/buffer.h>; FERRY_ERROR_INVALID_ARGUMENT also
 *         for a side with several of `buffer`, `memory` and `path`, a region without a buffer, a
 *         pitch smaller than the row or plane, and an unknown policy; FERRY_ERROR_WRONG_TYPE also
 *         when the element types differ and no policy is set; FERRY_ERROR_WRONG_CONTEXT also for
 *         buffers of several contexts; FERRY_ERROR_OVERFLOW (a size exceeds size_t);
 *         FERRY_ERROR_UNSUPPORTED (FERRY_CONVERT_CHECK in an asynchronous call, or from a file);
 *         FERRY_ERROR_OUT_OF_RANGE also when FERRY_CONVERT_CHECK found a value that does not fit;
 *         FERRY_ERROR_IO; FERRY_ERROR_CANCELLED (keep_going returned false).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_copy(const ferry_copy_region *regions, size_t count,
                                                  const ferry_copy_options *options);
/** The asynchronous twin of ferry_copy(). */
FERRY_API FERRY_NODISCARD ferry_status ferry_copy_async(const ferry_copy_region *regions,
                                                        size_t count,
                                                        const ferry_copy_options *options,
                                                        ferry_event **event);

/* -- copies of one region; a NULL `element` means the buffer's --------------------------------- */

/**
 * Copies `count` elements from the caller's memory into the buffer.
 * @return the same statuses as ferry_copy(); FERRY_ERROR_INVALID_ARGUMENT also when `source` is
 *         NULL and count > 0.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from(ferry_buffer *buffer,
                                                              const ferry_element *element,
                                                              size_t offset, size_t count,
                                                              const void *source,
                                                              const ferry_copy_options *options);
/** The asynchronous twin of ferry_buffer_copy_from(). */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from_async(
    ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
    const void *source, const ferry_copy_options *options, ferry_event **event);
/**
 * Copies `count` elements of the buffer to the caller's memory. The call allocates no replica, and
 * does not change which bytes are current where.
 * @return the same statuses as ferry_copy(); FERRY_ERROR_INVALID_ARGUMENT also when `target` is
 *         NULL and count > 0.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to(ferry_buffer *buffer,
                                                            const ferry_element *element,
                                                            size_t offset, size_t count,
                                                            void *target,
                                                            const ferry_copy_options *options);
/** The asynchronous twin of ferry_buffer_copy_to(). */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to_async(
    ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count, void *target,
    const ferry_copy_options *options, ferry_event **event);
/**
 * Copies `count` elements from one buffer to another of the same context and type. Without
 * options->stream the call writes the target at the place where the source is current.
 *
 * Both buffers may be the same, and the two ranges may overlap. The result is then that of
 * memmove(), and other threads never see a partial result.
 * @return the same statuses as ferry_copy().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy(ferry_buffer *target,
                                                         const ferry_element *element,
                                                         size_t target_offset, ferry_buffer *source,
                                                         size_t source_offset, size_t count,
                                                         const ferry_copy_options *options);
/** The asynchronous twin of ferry_buffer_copy(). */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_async(
    ferry_buffer *target, const ferry_element *element, size_t target_offset, ferry_buffer *source,
    size_t source_offset, size_t count, const ferry_copy_options *options, ferry_event **event);
/**
 * Sets each element of the range to `*value`.
 * @return the same statuses as ferry_copy().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_fill(ferry_buffer *buffer,
                                                         const ferry_element *element,
                                                         size_t offset, size_t count,
                                                         const void *value,
                                                         const ferry_copy_options *options);
/** The asynchronous twin of ferry_buffer_fill(). */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_fill_async(
    ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
    const void *value, const ferry_copy_options *options, ferry_event **event);
/**
 * Reads `count` elements from a file into the buffer, starting at byte `file_offset` of the file.
 * If `count` is 0, the call does not open the file.
 * @return the same statuses as ferry_copy(); FERRY_ERROR_OVERFLOW also when `file_offset` is larger
 *         than any file can be.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_load(ferry_buffer *buffer,
                                                         const ferry_element *element,
                                                         size_t offset, size_t count,
                                                         const char *path, uint64_t file_offset,
                                                         const ferry_copy_options *options);
/** The asynchronous twin of ferry_buffer_load(). */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_load_async(
    ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
    const char *path, uint64_t file_offset, const ferry_copy_options *options, ferry_event **event);
/**
 * Writes `count` elements of the buffer to a file, starting at byte `file_offset` of the file.
 * After a failure or a cancel, the message says how many bytes were written, and the rest of the
 * file is unchanged.
 * @return the same statuses as ferry_buffer_load().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_store(ferry_buffer *buffer,
                                                          const ferry_element *element,
                                                          size_t offset, size_t count,
                                                          const char *path, uint64_t file_offset,
                                                          const ferry_copy_options *options);
/** The asynchronous twin of ferry_buffer_store(). */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_store_async(
    ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
    const char *path, uint64_t file_offset, const ferry_copy_options *options, ferry_event **event);

/* -- regions: these functions check nothing, ferry_copy() checks its regions ------------------- */

/**
 * Returns a region that copies `count` elements from host memory to the buffer, from its element
 * `offset` on.
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
 * Returns a region that copies as that of ferry_buffer_region_from(), but from the buffer to host
 * memory.
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
 * Returns a region that copies `count` elements from one buffer to another, from elements
 * `source_offset` and `target_offset` on.
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
