/* SPDX-License-Identifier: MIT */
#ifndef FERRY_KERNEL_H
#define FERRY_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include <ferry/element.h>
#include <ferry/scope.h>
#include <ferry/status.h>
#include <ferry/stream.h>

FERRY_BEGIN_DECLS

/** A function that runs on devices: CUDA code, a host function, or both. */
typedef struct ferry_kernel ferry_kernel;

/**
 * One parameter of a kernel. Access 0 means a scalar or struct that is passed by value; any other
 * access means a buffer.
 */
typedef struct ferry_parameter {
    const ferry_element *element; /**< for access 0, NULL accepts a struct of any size */
    ferry_access access;
    uint64_t reserved[2];
} ferry_parameter;

/** Launch dimensions: blocks, and threads per block. Zeros in y and z mean 1. */
typedef struct ferry_grid {
    uint32_t blocks[3];
    uint32_t threads[3];
    uint32_t shared_bytes; /**< dynamic shared memory per block, in bytes */
} ferry_grid;

/**
 * Returns a one-dimensional grid with `threads` threads in each block and enough blocks for `items`
 * items.
 *
 * The grid has at least one block and at most 2^31 - 1 blocks.
 * @param threads threads per block; 0: 256
 * Threads: any.
 */
FERRY_API ferry_grid ferry_grid_for(size_t items, uint32_t threads);

/** Size of the value that a ferry_argument can hold, in bytes. */
#define FERRY_VALUE_BYTES 32

/**
 * One argument of a launch or of ferry_scope_open_all(). The functions below and the typed ones
 * create it.
 */
typedef struct ferry_argument {
    const ferry_element *element;
    ferry_buffer *buffer;     /**< NULL for a value; borrowed during the call */
    size_t offset, count;     /**< range in elements; FERRY_REST means up to the end */
    const void *pointer;      /**< a value larger than FERRY_VALUE_BYTES: memory of the caller, read
                                   during the call */
    size_t bytes, align;      /**< size and alignment of a value */
    ferry_access access;      /**< for ferry_scope_open_all(); launches use the signature's */
    uint32_t is_value;
    union {
        unsigned char bytes[FERRY_VALUE_BYTES];
        uint64_t words[FERRY_VALUE_BYTES / 8];
    } value;
    uint64_t reserved[2];
} ferry_argument;

/**
 * Returns an argument for a range of a buffer. The call that receives the argument checks it.
 * Threads: any.
 */
FERRY_API ferry_argument ferry_buffer_argument(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count);
/** Returns the argument with an access set, for ferry_scope_open_all(). Threads: any. */
FERRY_API ferry_argument ferry_argument_with(ferry_argument argument, ferry_access access);
/** Returns an argument that holds a copy of one scalar. Threads: any. */
FERRY_API ferry_argument ferry_element_value(const ferry_element *element, const void *value);
/**
 * Returns an argument that passes `value` as a size_t. The kernel's parameter at this position
 * must have the element ferry_size_element().
 * Threads: any.
 */
FERRY_API ferry_argument ferry_size_value(size_t value);
/**
 * Returns an argument for a struct that is passed by value.
 *
 * A struct of up to FERRY_VALUE_BYTES bytes is copied. A larger one must stay valid until the call
 * that receives the argument returns. Threads: any.
 */
FERRY_API ferry_argument ferry_struct_value(const void *value, size_t bytes, size_t alignment);

/** The launch for which a host function runs. Valid only during that call of the function. */
typedef struct ferry_call ferry_call;

/**
 * The host function of a kernel, for devices without CUDA. It is called once per launch, in stream
 * order, on any thread. It is a watching callback, see "Callbacks" in <ferry/status.h>; it may also
 * call the ferry_call_ functions on `call`.
 *
 * When it returns a failure, the bytes that the launch writes are lost. The next call that depends
 * on them, or that waits for the stream, returns that failure. Bytes that a later call has
 * overwritten are not lost.
 *
 * - A queued launch that reads lost bytes is not called; it fails in the same way.
 * - When several launches fail on one buffer, its readers may get the status and message of the
 *   newest failure.
 * - A call that copies or converts bytes which a queued launch writes waits for that launch first.
 * - Opening a device scope on such bytes does not wait. Work that the caller queues in the scope
 *   may read lost bytes, and its writes are valid.
 * - A scope counts as older than the failure when a later scope or launch of its stream uses its
 *   bytes while it is open.
 */
typedef ferry_status ferry_host_function(const ferry_call *call, void *user);

/**
 * Returns the array of argument `index`, and its length in elements in `*out_count`.
 * @param out_count may be NULL
 * @return the array; NULL when the argument is not an array, or has another element.
 */
FERRY_API void *ferry_call_array(const ferry_call *call, const ferry_element *element, size_t index, size_t *out_count);
/**
 * Returns the value of argument `index`, and its size in `*out_bytes`.
 * @param element NULL accepts any value
 * @param out_bytes may be NULL
 * @return the value; NULL when the argument is not a value, or has another element.
 */
FERRY_API const void *ferry_call_value(const ferry_call *call, const ferry_element *element, size_t index, size_t *out_bytes);
/** Returns the value of a ferry_size_value() argument; 0 when argument `index` is not a size. */
FERRY_API size_t ferry_call_size(const ferry_call *call, size_t index);
/** Returns the grid of the launch. */
FERRY_API ferry_grid ferry_call_grid(const ferry_call *call);
/**
 * Sets the message of the failure that the host function is about to return. The string is copied.
 */
FERRY_API void ferry_call_fail(const ferry_call *call, const char *message);

/**
 * Description of a new kernel. The library copies everything except what `user` and `host_function`
 * point to.
 */
typedef struct ferry_kernel_source {
    const char *name;                  /**< entry point; `extern "C" __global__` in the source */
    const char *cuda_source;           /**< CUDA C++, or NULL; compiled with NVRTC for the device
                                            and cached on disk */
    const void *image;                 /**< PTX (with its NUL), cubin or fatbin, or NULL; preferred
                                            over cuda_source */
    size_t image_bytes;
    const char *const *options;        /**< compiler options, such as "-use_fast_math" */
    size_t option_count;
    ferry_host_function *host_function;        /**< or NULL */
    void *user;                        /**< passed to host_function; must outlive the kernel's work */
    const ferry_parameter *parameters; /**< in signature order */
    size_t parameter_count;
    uint64_t reserved[4];
} ferry_kernel_source;

/**
 * Creates a kernel. When the context has a CUDA device and `source` has CUDA source, the call
 * compiles it and blocks meanwhile. The caller owns `*out`.
 *
 * These declarations come before the source: int8_t to uint64_t, ferry_half, ferry_bfloat16,
 * ferry_complex_float and ferry_complex_double, with the layouts of <ferry/number.h>; then that of
 * each struct element in the signature. The option -DFERRY_NO_CUDA_TYPES leaves the first ones out,
 * for a source that declares such names differently.
 *
 * Compiled code is cached on disk, see ferry_kernel_cache_path(). Later calls of any process find
 * it by source, options, architecture and compiler version. A source that includes files, or
 * options that name files, are compiled each time. A damaged entry is removed and compiled again. A
 * failure of the cache never makes the call fail.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (no name, no code of any kind, an invalid
 *         element); FERRY_ERROR_COMPILE (the message has the compiler's log);
 *         FERRY_ERROR_UNSUPPORTED (source for a CUDA device, and no NVRTC);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE (the image does not load, or lacks the
 *         entry point).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_create(ferry_context *context, const ferry_kernel_source *source,
                                                           ferry_kernel **out);

/**
 * Queues the kernel on a stream. Does not block for the stream's work.
 *
 * Bytes that a READ or UPDATE argument lacks are copied to the stream's place first. Written ranges
 * become current there when the device has accepted the launch. Overlapping ranges of one buffer
 * are merged, so in-place calls are legal. A failed call changes nothing.
 *
 * @param stream NULL: the default stream of a context with one device
 * @param arguments `argument_count` arguments in signature order
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, too many or too few arguments, a value for
 *         an array or the reverse); FERRY_ERROR_WRONG_TYPE; FERRY_ERROR_OUT_OF_RANGE;
 *         FERRY_ERROR_WRONG_CONTEXT; FERRY_ERROR_BUSY; FERRY_ERROR_UNSUPPORTED (no code for this
 *         device; a capture that needs copies); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE;
 *         FERRY_ERROR_DEVICE_LOST.
 * Threads: any, also for one kernel at the same time.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_launch(ferry_kernel *kernel, ferry_stream *stream, ferry_grid grid,
                                                           const ferry_argument *arguments, size_t argument_count);

/**
 * Destroys the kernel and sets `*kernel` to NULL. Queued launches still run.
 * @param kernel NULL and a pointer to NULL have no effect.
 * Threads: any.
 */
FERRY_API void ferry_kernel_destroy(ferry_kernel **kernel);

/**
 * Compiles CUDA source to PTX without a device, in order to check it. Blocks while compiling. The
 * result is not cached.
 * @param architecture compute capability, 10 * major + minor; 0: 75
 * @return FERRY_OK; FERRY_ERROR_COMPILE (the message has the log); FERRY_ERROR_UNSUPPORTED (no
 *         NVRTC); FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_OUT_OF_MEMORY.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_check(const ferry_kernel_source *source, int architecture);

/**
 * Writes the path of the folder that caches compiled kernels and conversions.
 *
 * The environment variable FERRY_CACHE_DIR names the folder, with an absolute path; when it is set
 * to the empty string, there is no cache. When it is not set, the folder is ferry/ in
 * XDG_CACHE_HOME, otherwise .cache/ferry/ in HOME. Each call reads the environment again. Ferry
 * creates the folder, accessible only to this user, when it stores the first entry. The folder
 * holds at most 256 MiB and may be removed at any time. A folder that is a link, belongs to another
 * user, or is writable by others is not used. A set-uid program has no cache.
 *
 * @param out receives the path with its NUL
 * @param out_bytes size of `out`; 4096 is always enough
 * @return FERRY_OK, also when the folder does not exist yet; FERRY_ERROR_UNSUPPORTED (there is no
 *         cache; the message says why); FERRY_ERROR_OUT_OF_RANGE (`out` is too small);
 *         FERRY_ERROR_INVALID_ARGUMENT.
 * Threads: any. Makes no driver call.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_cache_path(char *out, size_t out_bytes);

FERRY_END_DECLS

#endif
