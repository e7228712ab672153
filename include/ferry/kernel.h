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

/**
 * A function that runs on devices. It is CUDA code, a C function for devices without CUDA (a host
 * function), or both.
 */
typedef struct ferry_kernel ferry_kernel;

/**
 * One parameter of a kernel. If `access` is 0, the parameter is a scalar or struct that is passed
 * by value. Any other access means that it is a buffer, which the kernel uses in that way.
 */
typedef struct ferry_parameter {
    const ferry_element *element; /**< the element of the buffer or of the value; NULL for a value:
                                       a struct of any size is accepted */
    ferry_access access;
    uint64_t reserved[2];
} ferry_parameter;

/** Dimensions of a launch: blocks, and threads per block, each as x, y, z. 0 in y or z means 1. */
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
 * One argument of a launch or of ferry_scope_open_all(). Programs make it with the functions below
 * or with typed ones, such as ferry_float_argument().
 */
typedef struct ferry_argument {
    const ferry_element *element;
    ferry_buffer *buffer;     /**< the buffer, borrowed during the call; NULL when the argument is a
                                   value */
    size_t offset, count;     /**< range in elements; FERRY_REST means up to the end */
    const void *pointer;      /**< a value that is larger than FERRY_VALUE_BYTES stays in memory of
                                   the caller, which the call reads here */
    size_t bytes, align;      /**< size and alignment of a value in bytes */
    ferry_access access;      /**< only for ferry_scope_open_all(); a launch uses the access of the
                                   kernel's parameter */
    uint32_t is_value;
    union {
        unsigned char bytes[FERRY_VALUE_BYTES];
        uint64_t words[FERRY_VALUE_BYTES / 8];
    } value;
    uint64_t reserved[2];
} ferry_argument;

/**
 * Returns an argument that passes a range of a buffer. This function checks nothing; the call that
 * receives the argument does.
 * Threads: any.
 */
FERRY_API ferry_argument ferry_buffer_argument(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count);
/** Returns a copy of the argument whose access is set, for ferry_scope_open_all(). Threads: any. */
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
 * Returns an argument that passes a struct by value.
 *
 * The argument holds a copy of a struct of up to FERRY_VALUE_BYTES bytes. A larger struct is not
 * copied, and must stay valid until the call that receives the argument returns. Threads: any.
 */
FERRY_API ferry_argument ferry_struct_value(const void *value, size_t bytes, size_t alignment);

/** The launch for which a host function is running. Valid until the host function returns. */
typedef struct ferry_call ferry_call;

/**
 * The host function of a kernel, for devices without CUDA. Ferry calls it once per launch, in the
 * order of the stream, on any thread. It is a watching callback, see "Callbacks" in
 * <ferry/status.h>; it may also pass `call` to the functions whose names begin with ferry_call_.
 *
 * If it returns a failure, the bytes that the launch writes are lost, unless a later call has
 * overwritten them. The next call that reads lost bytes, or that waits for the stream, returns that
 * failure.
 *
 * - The host function of a queued launch that reads lost bytes is not called; that launch fails in
 *   the same way.
 * - If several launches fail on one buffer, calls that read the buffer may return the status and
 *   message of the newest failure.
 * - A call that copies or converts bytes first waits for queued launches that write them.
 * - Opening a device scope does not wait for such launches. Work that the caller queues in the
 *   scope may therefore read lost bytes; what it writes is valid.
 * - If a later scope or launch of the same stream uses the bytes of a scope that is still open,
 *   that scope counts as older than the failure: what was written in it can be lost.
 */
typedef ferry_status ferry_host_function(const ferry_call *call, void *user);

/**
 * Returns the address of the array that argument `index` passes, and sets `*out_count` to its
 * number of elements.
 * @param out_count may be NULL
 * @return the array; NULL when the argument is not a buffer, or has another element.
 */
FERRY_API void *ferry_call_array(const ferry_call *call, const ferry_element *element, size_t index, size_t *out_count);
/**
 * Returns the address of the value that argument `index` passes, and sets `*out_bytes` to its size.
 * @param element NULL accepts any value
 * @param out_bytes may be NULL
 * @return the address; NULL when the argument is not a value, or has another element.
 */
FERRY_API const void *ferry_call_value(const ferry_call *call, const ferry_element *element, size_t index, size_t *out_bytes);
/**
 * Returns the number that argument `index` passes by ferry_size_value(); 0 when the argument is not
 * a size.
 */
FERRY_API size_t ferry_call_size(const ferry_call *call, size_t index);
/** Returns the dimensions of the launch. */
FERRY_API ferry_grid ferry_call_grid(const ferry_call *call);
/**
 * Sets the message for the failure that the host function will return. The call copies the string.
 */
FERRY_API void ferry_call_fail(const ferry_call *call, const char *message);

/**
 * Description of a new kernel. ferry_kernel_create() copies the strings, the code and the arrays.
 * `user` and `host_function` must stay valid until the work of the kernel is done.
 */
typedef struct ferry_kernel_source {
    const char *name;                  /**< name of the entry point, which the source declares as
                                            `extern "C" __global__` */
    const char *cuda_source;           /**< CUDA C++ code, or NULL; Ferry compiles it with NVRTC for
                                            the device, and caches the result on disk */
    const void *image;                 /**< compiled code, or NULL: PTX with its terminating NUL, a
                                            cubin or a fatbin. Ferry prefers it to cuda_source */
    size_t image_bytes;
    const char *const *options;        /**< compiler options, such as "-use_fast_math" */
    size_t option_count;
    ferry_host_function *host_function;        /**< or NULL */
    void *user;                        /**< passed to host_function; must stay valid until the work
                                            of the kernel is done */
    const ferry_parameter *parameters; /**< in the order of the signature */
    size_t parameter_count;
    uint64_t reserved[4];
} ferry_kernel_source;

/**
 * Creates a kernel. When the context has a CUDA device and `source` has CUDA source, the call
 * compiles it and blocks meanwhile. The caller owns `*out`.
 *
 * Ferry puts declarations before the source. They declare int8_t to uint64_t, and the structs of
 * <ferry/number.h>: ferry_half, ferry_bfloat16, ferry_complex_float and ferry_complex_double. With
 * the compiler option -DFERRY_NO_CUDA_TYPES these are left out, for a source that declares such
 * names itself. The declarations of the struct elements in the signature follow them.
 *
 * Compiled code is cached on disk, see ferry_kernel_cache_path(). Later calls of any process find
 * it by source, options, architecture and compiler version. Code that depends on other files, by
 * #include or by an option, is not cached. A damaged entry of the cache is removed, and the source
 * compiled again. The call never fails because of the cache.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (no name, no code of any kind, an invalid
 *         element); FERRY_ERROR_COMPILE (the message has the compiler's log);
 *         FERRY_ERROR_UNSUPPORTED (CUDA source must be compiled, but NVRTC is not installed);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE (the image does not load, or lacks the
 *         entry point).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_create(ferry_context *context, const ferry_kernel_source *source,
                                                           ferry_kernel **out);

/**
 * Queues the kernel on a stream. Does not wait for the work of the stream.
 *
 * Bytes of a READ or UPDATE argument that are not current at the place of the stream are copied
 * there first. When the device has accepted the launch, the written ranges are current only there.
 * Ranges of one buffer may overlap, so a kernel may work in place. A call that fails changes
 * nothing.
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
 * Writes the path of the folder in which Ferry caches compiled kernels and conversions.
 *
 * The environment variable FERRY_CACHE_DIR is the absolute path of the folder. If it is empty,
 * there is no cache. If it is not set, the folder is $XDG_CACHE_HOME/ferry, or without that
 * variable $HOME/.cache/ferry. Each call reads the environment again. Ferry creates the folder,
 * accessible only to this user, when it stores the first entry. The folder holds at most 256 MiB
 * and may be removed at any time. Ferry does not use a folder that is a symbolic link, belongs to
 * another user, or is writable by others. A set-uid program has no cache.
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
