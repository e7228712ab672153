/* SPDX-License-Identifier: MIT */
#ifndef FERRY_EXCHANGE_H
#define FERRY_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/element.h>
#include <ferry/lease.h>
#include <ferry/scope.h>
#include <ferry/status.h>
#include <ferry/stream.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * Exchange of arrays with other libraries: DLPack, the Arrow C device data interface, and the
 * languages in which Python and Arrow name the elements of an array.
 *
 * The structs of DLPack and Arrow are only declared here. A program that fills or reads them
 * includes the header of that project. Ferry neither ships nor needs it.
 */

struct DLManagedTensorVersioned; /**< DLPack 1.x */
struct DLManagedTensor;          /**< DLPack before 1.0 */
struct ArrowDeviceArray;
struct ArrowSchema;

/* -- elements -------------------------------------------------------------------------------------- */

/**
 * Returns the library's own element of a kind and width: one of the built-in types.
 *
 * @return the element, which lives as long as the process; NULL when the library has none, as for
 *         FERRY_KIND_STRUCT and for complex numbers of two halves.
 * Threads: any.
 */
FERRY_API const ferry_element *ferry_element_scalar(ferry_kind kind, uint32_t bits);

/**
 * Returns a copy of an element's description in `*out` that lives as long as the process.
 *
 * For elements that a program makes at run time. Two descriptions whose content, name, C type, CUDA
 * declaration and field names are the same give the same copy. Copies are never freed, so a program
 * that accepts descriptions from others limits their number.
 *
 * @param element its `identity` may be 0; the copy then has the right one
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL, no name, an invalid description, or an
 *         identity that is not that of the content), FERRY_ERROR_OUT_OF_MEMORY.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_element_intern(const ferry_element *element, const ferry_element **out);

/** Languages that name elements. A value never changes its meaning. */
typedef enum ferry_text {
    FERRY_TEXT_BUFFER = 1,  /**< the format of Python's buffer protocol (PEP 3118): "f",
                                 "T{f:x:(2)f:v:}" */
    FERRY_TEXT_TYPESTR = 2, /**< the `typestr` of NumPy's array interface and of the CUDA array
                                 interface: "<f4", "|V12" */
    FERRY_TEXT_ARROW = 3    /**< the format of an ArrowSchema: "f" */
} ferry_text;

/**
 * Writes the element's name in a language.
 *
 * FERRY_TEXT_BUFFER names each field of a struct and writes padding as such. FERRY_TEXT_TYPESTR
 * names a struct by its size alone. FERRY_TEXT_ARROW has numbers only. No language has a name for
 * bfloat16, only FERRY_TEXT_BUFFER and FERRY_TEXT_TYPESTR have one for complex numbers, and
 * FERRY_TEXT_ARROW has none for bool, which is one bit there.
 *
 * @param text truncated to `bytes`, ends with NUL when `bytes` > 0; written only when the language
 *        has a name
 * @return the length of the whole name without NUL, as snprintf() does; 0 when the language has no
 *         name for the element, and for NULL, an invalid element and an unknown language.
 * Threads: any.
 */
FERRY_API size_t ferry_element_text(const ferry_element *element, ferry_text language, char *text, size_t bytes);

/**
 * Finds or makes the element that a text names.
 *
 * A name of a number gives the element of ferry_element_scalar(). A format of several items is a
 * struct. Nested structs become fields with names such as "inner.x", unnamed fields become f0, f1
 * and so on, and text becomes an array of bytes. The struct's alignment is the largest one that
 * its fields have and that the layout keeps. "|V12" and "12x" give a struct of 12 bytes without
 * further structure. An element made here is kept by ferry_element_intern().
 *
 * A format of the buffer protocol may leave padding at the end out, and then says less than the
 * exporter's `itemsize`: compare it with `bytes` of the element.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, an unknown language, a text that is
 *         malformed there); FERRY_ERROR_UNSUPPORTED (a text that names something else than an
 *         element: another byte order, long double, pointers, objects, text of variable length;
 *         names of fields longer than 255 bytes, more than 4096 fields, structs nested more than 16
 *         deep);
 *         FERRY_ERROR_OVERFLOW (a size exceeds size_t); FERRY_ERROR_OUT_OF_MEMORY.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_element_parse(ferry_text language, const char *text, const ferry_element **out);

/* -- devices --------------------------------------------------------------------------------------- */

/**
 * Gets the device type and the device number by which DLPack and Arrow identify a place.
 *
 * Host memory and the device "host" have type 1 (kDLCPU) and number 0. A CUDA device has type 2
 * (kDLCUDA) and the driver's ordinal. An emulated device has type 12 (kDLExtDev) and its own
 * number.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL, an unknown place),
 *         FERRY_ERROR_INVALID_STATE (a destroyed context, or a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_exchange_device(ferry_context *context, int place, int32_t *out_type, int32_t *out_id);

/**
 * Returns the place of a device type and number of DLPack and Arrow.
 *
 * 1 (kDLCPU) and 3 (kDLCUDAHost, pinned) are the host; their number is 0 or -1. 2 (kDLCUDA) and 13
 * (kDLCUDAManaged) are the CUDA device with that ordinal. 12 (kDLExtDev) is the emulated device
 * with that number, whose memory only its own context can use.
 * @return the place; -1 when the context has no such place, for NULL, and for a destroyed context.
 * Threads: any.
 */
FERRY_API int ferry_context_exchange_place(ferry_context *context, int32_t type, int32_t id);

/* -- imports --------------------------------------------------------------------------------------- */

/** Options of an import. NULL, or zero in a field, means the default. */
typedef struct ferry_import_options {
    const char *name;         /**< name of the buffer in messages; copied */
    ferry_stream *ready_on;   /**< the producer's work on the memory is ordered before later work
                                   of this stream. NULL: the default stream of the memory's place */
    ferry_stream *release_on; /**< waits for every use of the memory instead of the host, and the
                                   deleter is called at once; as in ferry_wrap_options */
    bool read_only;           /**< writes to the buffer fail, also where the producer allows them */
    uint64_t reserved[4];
} ferry_import_options;

/**
 * Creates a buffer over the memory of a DLPack tensor, without a copy.
 *
 * The buffer has the elements in the order of memory, from the lowest address. The order of the
 * dimensions may be any one in which the elements are packed; a caller keeps shape and strides
 * itself. A tensor without dimensions has one element. Its flag READ_ONLY makes the buffer
 * read-only.
 *
 * On FERRY_OK the buffer owns the tensor. It calls the tensor's deleter once, after the last use of
 * the memory, on the thread that ends it, as a restricted working callback (see "Callbacks" in
 * <ferry/status.h>). On failure the tensor stays the caller's. The call reads nothing of a tensor
 * whose major version is not 1.
 *
 * Memory on a device is ready when the work on `options->ready_on` is done, as for
 * ferry_buffer_wrap_device(). For memory of the host the call blocks until that work has completed.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL; a tensor that contradicts itself: negative
 *         sizes, a missing shape, missing or unaligned memory; `ready_on` is of another place);
 *         FERRY_ERROR_OVERFLOW (the size exceeds size_t or the context's limit);
 *         FERRY_ERROR_UNSUPPORTED (the elements are not packed; the context lacks the device; no
 *         element has this type; elements that are vectors; another major version; more than 64
 *         dimensions; memory of the host while `ready_on` is being captured);
 *         FERRY_ERROR_WRONG_CONTEXT (a stream of another context);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE; FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_import_dlpack(ferry_context *context, struct DLManagedTensorVersioned *tensor,
                                                                  const ferry_import_options *options, ferry_buffer **out);

/**
 * As ferry_buffer_import_dlpack(), for a tensor of DLPack before 1.0, which has neither a version
 * nor flags: only options->read_only makes the buffer read-only.
 * @return as ferry_buffer_import_dlpack().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_import_dlpack_legacy(ferry_context *context, struct DLManagedTensor *tensor,
                                                                         const ferry_import_options *options, ferry_buffer **out);

/**
 * Creates a read-only buffer over an Arrow array of numbers, without a copy.
 *
 * The buffer starts at the array's `offset`. The array must have no nulls. Arrow's bool has one bit
 * for each value and is not supported.
 *
 * Ownership: on FERRY_OK the array is moved into the buffer. Its `release` becomes NULL in the
 * caller's struct, and the buffer calls the function once after the last use, as
 * ferry_buffer_import_dlpack() calls the deleter. On failure the array stays the caller's. The
 * schema always stays the caller's.
 *
 * Waiting: for an array on a device, the stream `options->ready_on` waits for the array's
 * `sync_event`, and the buffer's later work is ordered behind that. NULL is the default stream of
 * the array's place. An array in host memory has no event.
 *
 * @return as ferry_buffer_import_dlpack(); FERRY_ERROR_INVALID_ARGUMENT also for a released array;
 *         FERRY_ERROR_UNSUPPORTED also for nulls, for nested and dictionary-encoded arrays, for
 *         formats that are not numbers, and for an array with a `sync_event` while the stream that
 *         would wait is being captured.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_import_arrow(ferry_context *context, struct ArrowDeviceArray *array,
                                                                 const struct ArrowSchema *schema,
                                                                 const ferry_import_options *options, ferry_buffer **out);

/* -- exports --------------------------------------------------------------------------------------- */

/**
 * Shape of an export. The numbers are elements of the lease.
 *
 * Each index that the shape allows must lie inside the lease's range, from its first element on.
 */
typedef struct ferry_layout {
    int rank;               /**< dimensions; 0 is one element */
    const int64_t *shape;   /**< of length `rank` */
    const int64_t *strides; /**< of length `rank`; NULL: packed, the last index fastest */
    uint64_t reserved[2];
} ferry_layout;

/**
 * Exports a lease as a DLPack tensor (1.0), without a copy, and sets `*out` to it.
 *
 * The tensor is one more owner of the lease, which its deleter gives back: the memory stays, and an
 * open lease stays open, until the consumer calls it. It may do so on any thread, also after the
 * buffer and the context were destroyed. A READ lease sets the flag READ_ONLY. Not every consumer
 * honours that flag: lend an UPDATE lease to one that does not.
 *
 * A lease at a device place is for work on the lease's stream, or for any work when it has none.
 * Elements that are structs go out as bytes with one more dimension, the last one. `strides` is
 * always set, `byte_offset` is 0, and `data` is NULL when there are no elements.
 *
 * @param lease open, and stays the caller's
 * @param layout NULL: one dimension, all elements of the lease
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, a layout with negative sizes or without a
 *         shape); FERRY_ERROR_OUT_OF_RANGE (the layout reaches outside of the lease);
 *         FERRY_ERROR_UNSUPPORTED (more than 64 dimensions); FERRY_ERROR_OVERFLOW (a stride
 *         overflows in bytes); FERRY_ERROR_INVALID_STATE (the lease is closed, or the context was
 *         destroyed); FERRY_ERROR_OUT_OF_MEMORY.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_lease_export_dlpack(ferry_lease *lease, const ferry_layout *layout,
                                                                 struct DLManagedTensorVersioned **out);

/**
 * As ferry_lease_export_dlpack(), for consumers of DLPack before 1.0, which has no flags.
 * @return as ferry_lease_export_dlpack(); FERRY_ERROR_UNSUPPORTED also for READ leases.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_lease_export_dlpack_legacy(ferry_lease *lease, const ferry_layout *layout,
                                                                        struct DLManagedTensor **out);

/**
 * Exports a READ lease of numbers as an Arrow array, without a copy, and fills `*out` and
 * `*out_schema`.
 *
 * Both are released by the caller or by whoever it moves them to, in any order and on any thread.
 * The array is one more owner of the lease, as the tensor of ferry_lease_export_dlpack() is. At a
 * device place the call blocks until the bytes are in place, so that `sync_event` is NULL.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_UNSUPPORTED (a lease that may
 *         write; an element without a name in FERRY_TEXT_ARROW); FERRY_ERROR_INVALID_STATE (the
 *         lease is closed, or the context was destroyed); FERRY_ERROR_OUT_OF_MEMORY; as
 *         ferry_scope_wait().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_lease_export_arrow(ferry_lease *lease, struct ArrowDeviceArray *out,
                                                                struct ArrowSchema *out_schema);

FERRY_END_DECLS

#endif
