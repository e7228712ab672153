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
 * Exchange of arrays with other libraries by DLPack and by the Arrow C device data interface. This
 * file also has the texts by which Python, NumPy and Arrow name an element type, such as "<f4".
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
 * Returns the library's own description of a built-in element type, such as float for
 * FERRY_KIND_FLOAT and 32 bits.
 *
 * @return the element, which lives as long as the process; NULL when no built-in type has this kind
 *         and width, as for FERRY_KIND_STRUCT and for complex numbers of two halves.
 * Threads: any.
 */
FERRY_API const ferry_element *ferry_element_scalar(ferry_kind kind, uint32_t bits);

/**
 * Sets `*out` to a copy of an element's description. The copy exists as long as the process.
 *
 * Use it for elements that the program describes at run time. Descriptions that are equal in every
 * member, including names and declarations, give the same copy. Copies are never freed, so a
 * program that accepts descriptions from other programs should limit their number.
 *
 * @param element its `identity` may be 0; the copy then has the right one
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL, no name, an invalid description, or an
 *         identity that is neither 0 nor the right one), FERRY_ERROR_OUT_OF_MEMORY.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_element_intern(const ferry_element *element, const ferry_element **out);

/** Formats of texts that name an element type. The meaning of a value never changes. */
typedef enum ferry_text {
    FERRY_TEXT_BUFFER = 1,  /**< the format of Python's buffer protocol (PEP 3118): "f",
                                 "T{f:x:(2)f:v:}" */
    FERRY_TEXT_TYPESTR = 2, /**< the `typestr` of NumPy's array interface and of the CUDA array
                                 interface: "<f4", "|V12" */
    FERRY_TEXT_ARROW = 3    /**< the format of an ArrowSchema: "f" */
} ferry_text;

/**
 * Writes the text that names the element in the format `language`.
 *
 * For a struct, FERRY_TEXT_BUFFER lists every field and the padding between fields, and
 * FERRY_TEXT_TYPESTR states only the size. FERRY_TEXT_ARROW names only numbers: neither structs,
 * nor complex numbers, nor bool, which has one bit in Arrow. No format names bfloat16.
 *
 * @param text receives the text, truncated to `bytes` and ended with NUL when `bytes` > 0;
 *         unchanged when the format has no name for the element
 * @return the length of the whole name without NUL, as snprintf() does; 0 when the format has no
 *         name for the element, when the element is NULL or invalid, and when the format is
 *         unknown.
 * Threads: any.
 */
FERRY_API size_t ferry_element_text(const ferry_element *element, ferry_text language, char *text, size_t bytes);

/**
 * Sets `*out` to the element that a text names. The element exists as long as the process.
 *
 * A text that names a number gives the element of ferry_element_scalar(). A text with several items
 * gives a struct. In it the fields of a nested struct have names such as "inner.x", fields without
 * a name are called f0, f1 and so on, and a string of fixed length is an array of bytes. The
 * alignment of the struct is the largest alignment of its fields with which the offsets and the
 * size of the text agree. "|V12" and "12x" give a struct of 12 bytes without known fields. The call
 * keeps new elements as ferry_element_intern() does.
 *
 * A text of Python's buffer protocol may leave out the padding at the end. The element is then
 * smaller than the exporter's `itemsize`: compare that with `bytes` of the element.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, an unknown format, a text that is malformed
 *         in this format); FERRY_ERROR_UNSUPPORTED (a text that names what Ferry has no element
 *         for: another byte order, long double, pointers, objects, text of variable length; field
 *         names longer than 255 bytes; more than 4096 fields; structs nested more than 16 deep);
 *         FERRY_ERROR_OVERFLOW (a size exceeds size_t); FERRY_ERROR_OUT_OF_MEMORY.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_element_parse(ferry_text language, const char *text, const ferry_element **out);

/* -- devices --------------------------------------------------------------------------------------- */

/**
 * Sets `*out_type` and `*out_id` to the device type and the device number by which DLPack and Arrow
 * identify a place.
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
 * Returns the place that DLPack and Arrow identify by this device type and device number.
 *
 * Types 1 (kDLCPU) and 3 (kDLCUDAHost, pinned) mean the host, and their number is 0 or -1. Types 2
 * (kDLCUDA) and 13 (kDLCUDAManaged) mean the CUDA device whose ordinal in the driver is the number.
 * Type 12 (kDLExtDev) means the emulated device with that number; only its own context can use its
 * memory.
 * @return the place; -1 when the context has no such place, for NULL, and for a destroyed context.
 * Threads: any.
 */
FERRY_API int ferry_context_exchange_place(ferry_context *context, int32_t type, int32_t id);

/* -- imports --------------------------------------------------------------------------------------- */

/** Options of an import. NULL, or zero in a field, means the default. */
typedef struct ferry_import_options {
    const char *name;         /**< name of the buffer in messages; copied */
    ferry_stream *ready_on;   /**< the stream on which the memory becomes ready: the caller has
                                   ordered the producer's work on the memory before later work of
                                   this stream. NULL: the default stream of the memory's place */
    ferry_stream *release_on; /**< the stream that waits for every use of the memory, as in
                                   ferry_wrap_options; Ferry then calls the deleter at once. NULL:
                                   the host waits, and Ferry calls the deleter afterwards */
    bool read_only;           /**< writes to the buffer fail, even if the producer allows them */
    uint64_t reserved[4];
} ferry_import_options;

/**
 * Creates a buffer over the memory of a DLPack tensor, without a copy.
 *
 * The buffer has the elements in the order in which they are in memory, from the lowest address.
 * The elements must be packed, in any order of the dimensions. The buffer does not keep shape and
 * strides; a caller that needs them stores them. A tensor without dimensions has one element. A
 * tensor with the flag READ_ONLY makes a read-only buffer.
 *
 * On FERRY_OK the buffer owns the tensor. Ferry calls the tensor's deleter once, after the last use
 * of the memory, on the thread that ended that use. The deleter is a restricted working callback,
 * see "Callbacks" in <ferry/status.h>. On failure the caller still owns the tensor. If the major
 * version of the tensor is not 1, the call reads none of its other members.
 *
 * Device memory becomes ready when the work on options->ready_on is done, as for
 * ferry_buffer_wrap_device(). If the memory is on the host, the call blocks until that work is
 * done.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL; a tensor that contradicts itself: negative
 *         sizes, a missing shape, missing or unaligned memory; `ready_on` is of another place);
 *         FERRY_ERROR_OVERFLOW (the size exceeds size_t or the context's limit);
 *         FERRY_ERROR_UNSUPPORTED (the elements are not packed; the context lacks the device; Ferry
 *         has no element of this type; elements that are vectors; another major version; more than
 *         64 dimensions; host memory while `ready_on` is being captured); FERRY_ERROR_WRONG_CONTEXT
 *         (a stream of another context); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE;
 *         FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_import_dlpack(ferry_context *context, struct DLManagedTensorVersioned *tensor,
                                                                  const ferry_import_options *options, ferry_buffer **out);

/**
 * Creates a buffer as ferry_buffer_import_dlpack() does, from a tensor of DLPack before 1.0. Such a
 * tensor has no version and no flags, so only options->read_only makes the buffer read-only.
 * @return as ferry_buffer_import_dlpack().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_import_dlpack_legacy(ferry_context *context, struct DLManagedTensor *tensor,
                                                                         const ferry_import_options *options, ferry_buffer **out);

/**
 * Creates a read-only buffer over an Arrow array of numbers, without a copy.
 *
 * The buffer starts at the array's `offset`. The array must not contain nulls. Arrow's bool is not
 * supported, because it has one bit for each value.
 *
 * Ownership: on FERRY_OK the array is moved into the buffer. Its `release` becomes NULL in the
 * caller's struct, and the buffer calls the function once after the last use, as
 * ferry_buffer_import_dlpack() calls the deleter. On failure the caller still owns the array. The
 * caller always owns the schema.
 *
 * Waiting: for an array on a device, the call makes the stream options->ready_on wait for the
 * array's `sync_event`. Later work on the buffer is ordered after that. If ready_on is NULL, the
 * default stream of the array's place waits. An array in host memory has no event.
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
 * Shape of an exported array. Sizes and strides are numbers of elements.
 *
 * The first element of the lease's range has the index 0 in every dimension. Every element that an
 * index can reach must be inside the range.
 */
typedef struct ferry_layout {
    int rank;               /**< number of dimensions; 0 means one element */
    const int64_t *shape;   /**< of length `rank` */
    const int64_t *strides; /**< of length `rank`; NULL: the elements are packed, and the last index
                                 changes fastest */
    uint64_t reserved[2];
} ferry_layout;

/**
 * Exports a lease as a DLPack tensor (1.0), without a copy, and sets `*out` to it.
 *
 * The tensor is one more owner of the lease. Until the consumer calls the deleter of the tensor,
 * the memory exists, and an open lease stays open unless the program closes it. The consumer may
 * call the deleter on any thread, also after the buffer and the context were destroyed. For a READ
 * lease the tensor has the flag READ_ONLY. For a consumer that ignores the flag and may write,
 * export an UPDATE lease.
 *
 * At a device place the consumer must order its work after the lease's stream; if the lease has no
 * stream, the memory is ready for any work. Structs are exported as bytes, with one more dimension
 * at the end. `strides` of the tensor is always set, `byte_offset` is 0, and `data` is NULL when
 * there are no elements.
 *
 * @param lease an open lease; the caller remains an owner
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
 * Exports a lease as ferry_lease_export_dlpack() does, for consumers of DLPack before 1.0. Tensors
 * of that version have no flags.
 * @return as ferry_lease_export_dlpack(); FERRY_ERROR_UNSUPPORTED also for READ leases.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_lease_export_dlpack_legacy(ferry_lease *lease, const ferry_layout *layout,
                                                                        struct DLManagedTensor **out);

/**
 * Exports a READ lease of numbers as an Arrow array, without a copy, and fills `*out` and
 * `*out_schema`.
 *
 * The caller, or the consumer to which it moves them, releases both, in any order and on any
 * thread. The array is one more owner of the lease, like the tensor of ferry_lease_export_dlpack().
 * At a device place the call blocks until the bytes are in place, and `sync_event` of the array is
 * therefore NULL.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_UNSUPPORTED (a lease that may
 *         write; an element without a name in FERRY_TEXT_ARROW); FERRY_ERROR_INVALID_STATE (the
 *         lease is closed, or the context was destroyed); FERRY_ERROR_OUT_OF_MEMORY; at a device
 *         place also the statuses of ferry_scope_wait().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_lease_export_arrow(ferry_lease *lease, struct ArrowDeviceArray *out,
                                                                struct ArrowSchema *out_schema);

FERRY_END_DECLS

#endif
