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
 * Exchange of arrays with other libraries, by DLPack and by the Arrow C device data interface. This
 * file also has functions for the texts by which Python, NumPy and Arrow name an element type, such
 * as "<f4".
 *
 * The structs of DLPack and Arrow are only declared here. Ferry neither contains nor needs the
 * headers of these projects. A program that fills or reads the structs includes those headers
 * itself.
 */

struct DLManagedTensorVersioned; /**< DLPack 1.x */
struct DLManagedTensor;          /**< DLPack before 1.0 */
struct ArrowDeviceArray;
struct ArrowSchema;

/* -- elements ---------------------------------------------------------------------------------- */

/**
 * Returns the library's own description of a built-in element type. For example, FERRY_KIND_FLOAT
 * and 32 bits mean float.
 *
 * @return the description, which exists as long as the process; NULL when there is no built-in type
 *         of this kind and width. That includes FERRY_KIND_STRUCT, and complex numbers of two
 *         halves.
 * Threads: any.
 */
FERRY_API const ferry_element *ferry_element_scalar(ferry_kind kind, uint32_t bits);

/**
 * Sets `*out` to a permanent copy of the description of an element type, which exists as long as
 * the process.
 *
 * The function is for element types that a program learns at run time. Two calls return the same
 * copy if the descriptions are equal in every member, including names and declarations. Copies are
 * never freed, so a program that accepts descriptions from outside should limit their number.
 *
 * @param element its `identity` may be 0; the copy then has the right value
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, no name, an invalid description, or an
 *         identity that is neither 0 nor the right value); FERRY_ERROR_OUT_OF_MEMORY.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_element_intern(const ferry_element *element,
                                                            const ferry_element **out);

/** Formats of the texts that name element types. The meaning of a value never changes. */
typedef enum ferry_text {
    FERRY_TEXT_BUFFER = 1,  /**< the format of Python's buffer protocol (PEP 3118), such as "f" or
                                 "T{f:x:(2)f:v:}" */
    FERRY_TEXT_TYPESTR = 2, /**< `typestr` of NumPy's array interface and of the CUDA array
                                 interface, such as "<f4" or "|V12" */
    FERRY_TEXT_ARROW = 3    /**< `format` of an ArrowSchema, such as "f" */
} ferry_text;

/**
 * Writes the text that names an element type in the format `language`.
 *
 * For a struct, FERRY_TEXT_BUFFER lists every field, and the padding between fields.
 * FERRY_TEXT_TYPESTR states only the size of a struct. FERRY_TEXT_ARROW names integers and
 * floating-point numbers, but not structs, complex numbers and bool, which has one bit in Arrow. No
 * format has a name for bfloat16.
 *
 * @param text receives the text. It is truncated if it is longer than `bytes` bytes, and ends with
 *         NUL if `bytes` > 0. It is unchanged if the format has no name for the element type
 * @return the length of the whole text without its NUL, as from snprintf(); 0 when the format is
 *         unknown, when it has no name for the element type, and when the description is NULL or
 *         invalid.
 * Threads: any.
 */
FERRY_API size_t ferry_element_text(const ferry_element *element, ferry_text language, char *text,
                                    size_t bytes);

/**
 * Sets `*out` to a description of the element type that `text` names. It exists as long as the
 * process.
 *
 * A text that names a number has the same result as ferry_element_scalar(). A text with several
 * items names a struct:
 * - Fields of a nested struct have names such as "inner.x". Fields without a name are called f0, f1
 *   and so on. A string of fixed length becomes an array of bytes.
 * - The alignment of the struct is the largest alignment of its fields that agrees with the offsets
 *   and the size in the text.
 * - "|V12" and "12x" name a struct of 12 bytes without known fields.
 *
 * The call keeps new descriptions as ferry_element_intern() does. A text of Python's buffer
 * protocol may omit the padding at the end of a struct. `bytes` of the description is then smaller
 * than the exporter's `itemsize`, so the caller should compare the two.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, an unknown format, or a text that is
 *         malformed in this format); FERRY_ERROR_UNSUPPORTED (the text is valid, but Ferry has no
 *         such element type: another byte order, long double, pointers, objects, text of variable
 *         length, field names longer than 255 bytes, more than 4096 fields, or structs that are
 *         nested more than 16 deep); FERRY_ERROR_OVERFLOW (a size exceeds size_t);
 *         FERRY_ERROR_OUT_OF_MEMORY.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_element_parse(ferry_text language, const char *text,
                                                           const ferry_element **out);

/* -- devices ----------------------------------------------------------------------------------- */

/**
 * Sets `*out_type` and `*out_id` to the device type and the device number by which DLPack and Arrow
 * identify a place.
 *
 * Host memory and the device "host" have type 1 (kDLCPU) and number 0. A CUDA device has type 2
 * (kDLCUDA) and the driver's ordinal. An emulated device has type 12 (kDLExtDev) and its own
 * number.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, or an unknown place);
 *         FERRY_ERROR_INVALID_STATE (in a forked child, or after the context was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_exchange_device(ferry_context *context,
                                                                     int place, int32_t *out_type,
                                                                     int32_t *out_id);

/**
 * Returns the place that DLPack and Arrow identify by this device type and device number.
 *
 * Types 1 (kDLCPU) and 3 (kDLCUDAHost, pinned memory) mean the host, with the number 0 or -1. Types
 * 2 (kDLCUDA) and 13 (kDLCUDAManaged) mean the CUDA device whose ordinal in the driver is `id`.
 * Type 12 (kDLExtDev) means the emulated device with the number `id`; only the context of that
 * device can use its memory.
 * @return the place; -1 when the context has no such place, for NULL, and for a destroyed context.
 * Threads: any.
 */
FERRY_API int ferry_context_exchange_place(ferry_context *context, int32_t type, int32_t id);

/* -- imports ----------------------------------------------------------------------------------- */

/** Options of an import. NULL, or zero in a field, means the default. */
typedef struct ferry_import_options {
    const char *name;         /**< name of the buffer in messages; copied */
    ferry_stream *ready_on;   /**< the memory is ready for use when the work that is now queued on
                                   this stream is done. The caller has already made the stream wait
                                   for the producer of the memory. NULL: the default stream of the
                                   memory's place */
    ferry_stream *release_on; /**< when the buffer is destroyed, this stream waits for every use of
                                   the memory, and Ferry calls the deleter at once, as with
                                   release_on of ferry_wrap_options. NULL: the host waits for every
                                   use, and then Ferry calls the deleter */
    bool read_only;           /**< true: writing to the buffer fails, even if the producer of the
                                   memory allows it */
    uint64_t reserved[4];
} ferry_import_options;

/**
 * Creates a buffer over the memory of a DLPack tensor, without copying it.
 *
 * The elements of the buffer are those of the tensor, in the order of their addresses. There must
 * be no gaps between them; the dimensions may be in any order. The buffer does not keep shape and
 * strides; a caller that needs them stores them. A tensor without dimensions has one element. If
 * the tensor has the flag READ_ONLY, the buffer is read-only.
 *
 * On FERRY_OK the buffer owns the tensor. Ferry calls the tensor's deleter once, after the last use
 * of the memory, on the thread that ended that use. The deleter is a working callback, like
 * on_release of ferry_wrap_options: see "Callbacks" in <ferry/status.h>. If the call fails, the
 * caller still owns the tensor. If the major version of the tensor is not 1, the call reads none of
 * its other members.
 *
 * If the memory is on a device, later uses of the buffer wait for the work that is now queued on
 * options->ready_on, as with ferry_buffer_wrap_device(). If the memory is on the host, the call
 * blocks until that work is done.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL; an invalid tensor with negative sizes,
 *         without a shape, or with missing or unaligned memory; or `ready_on` belongs to another
 *         place); FERRY_ERROR_OVERFLOW (the size exceeds size_t or the context's limit);
 *         FERRY_ERROR_UNSUPPORTED (there are gaps between the elements; the context does not have
 *         the device; Ferry has no such element type; the elements are vectors; the major version
 *         is not 1; there are more than 64 dimensions; or the memory is on the host and `ready_on`
 *         is being captured); FERRY_ERROR_WRONG_CONTEXT (a stream belongs to another context);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE (a driver call failed);
 *         FERRY_ERROR_INVALID_STATE (in a forked child or a watching callback, or after the context
 *         was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status
ferry_buffer_import_dlpack(ferry_context *context, struct DLManagedTensorVersioned *tensor,
                           const ferry_import_options *options, ferry_buffer **out);

/**
 * Does the same as ferry_buffer_import_dlpack() for a tensor of DLPack before 1.0. Such a tensor
 * has no version and no flags, so the buffer is read-only only if options->read_only is set.
 * @return the same statuses as ferry_buffer_import_dlpack().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status
ferry_buffer_import_dlpack_legacy(ferry_context *context, struct DLManagedTensor *tensor,
                                  const ferry_import_options *options, ferry_buffer **out);

/**
 * Creates a read-only buffer over an Arrow array of numbers, without copying it.
 *
 * The buffer starts at the array's `offset`. The array must not contain nulls. Arrow's bool is not
 * supported, because it uses one bit for each value.
 *
 * Ownership: on FERRY_OK the buffer owns the array. The call sets `release` in the caller's struct
 * to NULL, and Ferry calls that function once after the last use of the memory, as
 * ferry_buffer_import_dlpack() does with a deleter. If the call fails, the caller still owns the
 * array. The caller keeps the schema in both cases.
 *
 * Waiting: for an array on a device, the call makes the stream options->ready_on wait for the
 * array's `sync_event`. If ready_on is NULL, the default stream of the array's place waits instead.
 * Later uses of the buffer are ordered after that. An array in host memory has no such event.
 *
 * @return the same statuses as ferry_buffer_import_dlpack(); FERRY_ERROR_INVALID_ARGUMENT also for
 *         a released array; FERRY_ERROR_UNSUPPORTED also for an array that contains nulls, is
 *         nested or dictionary-encoded, has a format other than numbers, or has a `sync_event`
 *         while the stream that would wait for it is being captured.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_import_arrow(
    ferry_context *context, struct ArrowDeviceArray *array, const struct ArrowSchema *schema,
    const ferry_import_options *options, ferry_buffer **out);

/* -- exports ----------------------------------------------------------------------------------- */

/**
 * Shape of an exported array. Sizes and strides are numbers of elements.
 *
 * The element with index 0 in every dimension is the first element of the lease's range. Every
 * element of the array must be inside that range.
 */
typedef struct ferry_layout {
    int rank;               /**< number of dimensions; 0 means one element */
    const int64_t *shape;   /**< sizes of the dimensions; an array of `rank` items */
    const int64_t *strides; /**< distances between neighbours in each dimension; an array of `rank`
                                 items. NULL: the elements have no gaps, and the last index changes
                                 fastest */
    uint64_t reserved[2];
} ferry_layout;

/**
 * Exports a lease as a DLPack 1.0 tensor, without copying its memory. Sets `*out` to the tensor,
 * which the consumer frees by calling its deleter.
 *
 * The tensor is one more owner of the lease. Until the consumer calls the deleter, the memory
 * exists, and the lease stays open unless the program closes it. The consumer may call the deleter
 * on any thread, even after the buffer and the context were destroyed. The tensor of a READ lease
 * has the flag READ_ONLY. If a consumer might ignore the flag and write, export an UPDATE lease.
 *
 * On a device the consumer must order its work after the lease's stream. If the lease has no
 * stream, the memory is ready for any work. Structs are exported as bytes, which form an
 * extra last dimension. `strides` of the tensor is always set, `byte_offset` is 0, and `data` is
 * NULL if there are no elements.
 *
 * @param lease an open lease; the caller remains an owner
 * @param layout NULL: one dimension with all elements of the lease
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, or a layout with negative sizes or without
 *         a shape); FERRY_ERROR_OUT_OF_RANGE (an element of the layout is outside of the lease's
 *         range); FERRY_ERROR_UNSUPPORTED (more than 64 dimensions); FERRY_ERROR_OVERFLOW (a stride
 *         in bytes exceeds int64_t); FERRY_ERROR_INVALID_STATE (the lease is closed, or the
 *         context was destroyed); FERRY_ERROR_OUT_OF_MEMORY.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_lease_export_dlpack(
    ferry_lease *lease, const ferry_layout *layout, struct DLManagedTensorVersioned **out);

/**
 * Does the same as ferry_lease_export_dlpack() for consumers of DLPack before 1.0. Their tensors
 * have no flags, so a READ lease cannot be exported.
 * @return the same statuses as ferry_lease_export_dlpack(); FERRY_ERROR_UNSUPPORTED also for a READ
 *         lease.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_lease_export_dlpack_legacy(
    ferry_lease *lease, const ferry_layout *layout, struct DLManagedTensor **out);

/**
 * Exports a READ lease of numbers as an Arrow array, without copying its memory. Fills `*out` and
 * `*out_schema`.
 *
 * The caller owns both structs and must release them, or move them to a consumer that does. They
 * may be released in any order and on any thread. The array is one more owner of the lease until it
 * is released. On a device the call blocks until the bytes are in place, and `sync_event` of the
 * array is therefore NULL.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_UNSUPPORTED (a lease that may
 *         write, or an element type that has no name in FERRY_TEXT_ARROW);
 *         FERRY_ERROR_INVALID_STATE (the lease is closed, or the context was destroyed);
 *         FERRY_ERROR_OUT_OF_MEMORY; on a device also the statuses of ferry_scope_wait().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_lease_export_arrow(ferry_lease *lease,
                                                                struct ArrowDeviceArray *out,
                                                                struct ArrowSchema *out_schema);

FERRY_END_DECLS

#endif
