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
 * Exchange of arrays with other libraries, by DLPack and by the Arrow C device data interface, and
 * the texts by which Python, NumPy and Arrow name an element type, such as "<f4". docs/exchange.md
 * has examples.
 *
 * The structs of DLPack and Arrow are only declared here. A program that fills or reads them
 * includes the headers of these projects.
 *
 * - FERRY_ERROR_INVALID_ARGUMENT: an argument is NULL, or an unknown place or format.
 * - FERRY_ERROR_INVALID_STATE: the context was destroyed or belongs to the parent process, or
 *   the call is inside a watching callback.
 * - Descriptions of element types that functions return exist as long as the process.
 */

struct DLManagedTensorVersioned; /**< DLPack 1.x */
struct DLManagedTensor;          /**< DLPack before 1.0 */
struct ArrowDeviceArray;
struct ArrowSchema;

/* -- elements ---------------------------------------------------------------------------------- */

/**
 * Returns the library's own description of a built-in element type; for example, FERRY_KIND_FLOAT
 * and 32 bits mean float.
 * @return NULL when there is no built-in type of this kind and width, as for a struct and for
 *         complex numbers of two halves.
 * Threads: any.
 */
FERRY_API const ferry_element *ferry_element_scalar(ferry_kind kind, uint32_t bits);

/**
 * Sets `*out` to a permanent copy of the description of an element type that a program learned at
 * run time.
 *
 * Two calls return the same copy if the descriptions are equal in every member, including names and
 * declarations. Copies are never freed, so limit the number of descriptions from outside.
 *
 * @param element its `identity` may be 0; the copy then has the right value
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also without a name, for an invalid description,
 *         and for an identity that is neither 0 nor right); FERRY_ERROR_OUT_OF_MEMORY.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_element_intern(const ferry_element *element,
                                                            const ferry_element **out);

/**
 * Formats of the texts that name element types, and what they lack. No format has bfloat16. The
 * meaning of a value never changes.
 */
typedef enum ferry_text {
    FERRY_TEXT_BUFFER = 1,  /**< the format of Python's buffer protocol (PEP 3118), such as "f" or
                                 "T{f:x:(2)f:v:}", with every field and padding */
    FERRY_TEXT_TYPESTR = 2, /**< `typestr` of NumPy's and the CUDA array interface, such as "<f4",
                                 or "|V12" for a struct of that size */
    FERRY_TEXT_ARROW = 3    /**< `format` of an ArrowSchema, such as "f"; no structs, complex
                                 numbers and bool, which has one bit in Arrow */
} ferry_text;

/**
 * Writes the text that names an element type in the format `language`.
 * @param text receives the text, truncated to `bytes` bytes with its NUL; unchanged if the result
 *         is 0
 * @return the length of the whole text without its NUL, as from snprintf(); 0 when the format is
 *         unknown or has no name for the element type, and when the description is NULL or invalid.
 * Threads: any.
 */
FERRY_API size_t ferry_element_text(const ferry_element *element, ferry_text language, char *text,
                                    size_t bytes);

/**
 * Sets `*out` to a description of the element type that `text` names: that of
 * ferry_element_scalar() for a number, and for a text with several items a struct, kept as by
 * ferry_element_intern(). "Exchange" in docs/concepts.md says which fields and alignment the struct
 * has. A text of Python's buffer protocol may omit the padding at the end of a struct: compare
 * `bytes` of the description with the exporter's `itemsize`.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also for a malformed text);
 *         FERRY_ERROR_UNSUPPORTED (no such element type in Ferry: another byte order, long double,
 *         pointers, objects, text of variable length, field names longer than 255 bytes, more than
 *         4096 fields, or structs nested more than 16 deep); FERRY_ERROR_OVERFLOW (a size exceeds
 *         size_t); FERRY_ERROR_OUT_OF_MEMORY.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_element_parse(ferry_text language, const char *text,
                                                           const ferry_element **out);

/* -- devices ----------------------------------------------------------------------------------- */

/**
 * Sets `*out_type` and `*out_id` to the type and number by which DLPack and Arrow identify a
 * device: 1 (kDLCPU) and 0 for host memory and the device "host"; 2 (kDLCUDA) and the driver's
 * ordinal for CUDA; 4 (kDLOpenCL) for OpenCL; 10 (kDLROCM) for HIP; 12 (kDLExtDev) and its own
 * number for an emulated device.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_exchange_device(ferry_context *context,
                                                                     int place, int32_t *out_type,
                                                                     int32_t *out_id);

/**
 * Returns the place that this device type and number identify. Types 1, 3 (kDLCUDAHost, pinned
 * memory) and 11 (kDLROCMHost) mean the host, with the number 0 or -1. Types 2 and 13
 * (kDLCUDAManaged) mean the CUDA device with the ordinal `id`, and type 10 means the HIP device.
 * Type 12 means the emulated device with the number `id`, whose
 * memory only its own context can use.
 * @return the place; -1 when the context has no such place, for NULL, and for a destroyed context.
 * Threads: any.
 */
FERRY_API int ferry_context_exchange_place(ferry_context *context, int32_t type, int32_t id);

/* -- imports ----------------------------------------------------------------------------------- */

/** Options of an import. NULL, or zero in a field, means the default. */
typedef struct ferry_import_options {
    const char *name;         /**< name of the buffer; copied */
    ferry_stream *ready_on;   /**< the memory is ready after the work that is now queued on this
                                   stream, which the caller has made wait for the producer of the
                                   memory. NULL: the default stream of the memory's place */
    ferry_stream *release_on; /**< when the buffer is destroyed, this stream waits for every use of
                                   the memory, and Ferry calls the deleter at once. NULL: the host
                                   waits, and then Ferry calls the deleter */
    bool read_only;           /**< true: writing to the buffer fails */
    uint64_t reserved[4];
} ferry_import_options;

/**
 * Creates a buffer over the memory of a DLPack tensor, without copying it.
 *
 * The elements of the buffer are those of the tensor, in the order of their addresses, without
 * gaps; the dimensions may be in any order. The buffer does not keep shape and strides. The flag
 * READ_ONLY makes it read-only.
 *
 * On FERRY_OK the buffer owns the tensor, and Ferry calls its deleter once, after the last use of
 * the memory, on the thread that ended that use. The deleter is a working callback, see
 * "Callbacks" in <ferry/status.h>. If the call fails, the caller still owns the tensor.
 *
 * If the memory is on a device, later uses of the buffer wait for the work that is now queued on
 * options->ready_on. If it is on the host, the call blocks until that work is done.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also for negative sizes, no shape, missing or
 *         unaligned memory, and `ready_on` of another place); FERRY_ERROR_OVERFLOW (the size
 *         exceeds size_t or the context's limit); FERRY_ERROR_UNSUPPORTED (gaps between the
 *         elements; a device that the context does not have; no such element type; vectors; a major
 *         version other than 1, of which nothing else is read; more than 64 dimensions; or memory
 *         on the host while `ready_on` is being captured); FERRY_ERROR_WRONG_CONTEXT (a stream
 *         belongs to another context); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE (a driver call
 *         failed); FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status
ferry_buffer_import_dlpack(ferry_context *context, struct DLManagedTensorVersioned *tensor,
                           const ferry_import_options *options, ferry_buffer **out);

/**
 * Does the same as ferry_buffer_import_dlpack() for a tensor of DLPack before 1.0, which has no
 * version and no flags: the buffer is read-only only if options->read_only is set.
 * @return the same statuses as ferry_buffer_import_dlpack().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status
ferry_buffer_import_dlpack_legacy(ferry_context *context, struct DLManagedTensor *tensor,
                                  const ferry_import_options *options, ferry_buffer **out);

/**
 * Creates a read-only buffer over an Arrow array of numbers, from its `offset` on, as
 * ferry_buffer_import_dlpack() does over a tensor.
 *
 * On FERRY_OK the call sets `release` in the caller's struct to NULL, and Ferry calls that function
 * as the deleter. The caller keeps the schema. For an array on a device, options->ready_on, or if
 * that is NULL the default stream of the array's place, waits for the array's `sync_event`.
 *
 * @return the same statuses as ferry_buffer_import_dlpack(); FERRY_ERROR_INVALID_ARGUMENT also for
 *         a released array; FERRY_ERROR_UNSUPPORTED also for an array that contains nulls, is on a
 *         device and has a bitmap but no count of nulls, is nested or dictionary-encoded, has a
 *         format other than numbers, such as Arrow's bool of one bit, or has a `sync_event` while
 *         the stream that would wait for it is being captured.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_import_arrow(
    ferry_context *context, struct ArrowDeviceArray *array, const struct ArrowSchema *schema,
    const ferry_import_options *options, ferry_buffer **out);

/* -- exports ----------------------------------------------------------------------------------- */

/**
 * Shape of an exported array, in elements. The element with index 0 in every dimension is the first
 * one of the lease's range, and all must be inside that range.
 */
typedef struct ferry_layout {
    int rank;               /**< number of dimensions and of items of the arrays; 0 means one
                                 element */
    const int64_t *shape;   /**< sizes of the dimensions */
    const int64_t *strides; /**< distances between neighbours in each dimension. NULL: the elements
                                 have no gaps, and the last index changes fastest */
    uint64_t reserved[2];
} ferry_layout;

/**
 * Exports a lease as a DLPack 1.0 tensor, without copying its memory. The tensor is one more owner
 * of the lease until the consumer calls its deleter, on any thread, even after the buffer and the
 * context were destroyed. Until then the memory exists, and the lease stays open unless the program
 * closes it.
 *
 * The tensor of a READ lease has the flag READ_ONLY, which some consumers ignore. On a device the
 * consumer must order its work after the lease's stream; without a stream the memory is ready for
 * any work. Structs are exported as bytes, which form an extra last dimension.
 *
 * @param lease an open lease; the caller remains an owner
 * @param layout NULL: one dimension with all elements of the lease
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also for negative sizes, and no shape);
 *         FERRY_ERROR_OUT_OF_RANGE (an element is outside of the lease's range);
 *         FERRY_ERROR_UNSUPPORTED (more than 64 dimensions); FERRY_ERROR_OVERFLOW (a stride in
 *         bytes exceeds int64_t); FERRY_ERROR_INVALID_STATE (also for a closed lease);
 *         FERRY_ERROR_OUT_OF_MEMORY.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_lease_export_dlpack(
    ferry_lease *lease, const ferry_layout *layout, struct DLManagedTensorVersioned **out);

/**
 * Does the same as ferry_lease_export_dlpack() for DLPack before 1.0, whose tensors have no flags.
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
 * The caller owns both structs and must release them, or move them to a consumer that does, in any
 * order and on any thread. The array is one more owner of the lease until it is released. On a
 * device the call blocks until the bytes are in place, so `sync_event` is NULL.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_UNSUPPORTED (a lease that may write,
 *         or an element type that has no name in FERRY_TEXT_ARROW); FERRY_ERROR_INVALID_STATE (also
 *         for a closed lease); FERRY_ERROR_OUT_OF_MEMORY; on a device also the statuses of
 *         ferry_scope_wait().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_lease_export_arrow(ferry_lease *lease,
                                                                struct ArrowDeviceArray *out,
                                                                struct ArrowSchema *out_schema);

FERRY_END_DECLS

#endif
