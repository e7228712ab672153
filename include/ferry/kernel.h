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

/** A function that runs on devices: CUDA code, a host body, or both. */
typedef struct ferry_kernel ferry_kernel;

/** One parameter of a signature. Access 0 is a scalar or struct passed by value; else it is a buffer. */
typedef struct ferry_parameter {
    const ferry_element *element; /**< for a value of access 0, NULL takes any struct of any size */
    ferry_access access;
} ferry_parameter;

/** How many blocks of how many threads; zeros in y and z mean 1. */
typedef struct ferry_grid {
    uint32_t blocks[3];
    uint32_t threads[3];
    uint32_t shared_bytes; /**< dynamic shared memory of a block */
} ferry_grid;

/** Enough blocks of `threads` threads (0: 256) for `items`; one block for no items; the x dimension only, at most 2^31 - 1 blocks. */
FERRY_API ferry_grid ferry_grid_for(size_t items, uint32_t threads);

/** Room for a scalar argument inside ferry_argument. */
#define FERRY_VALUE_BYTES 32

/** One argument of a launch or of ferry_scope_open_all(). Make it with the functions below or the typed ones. */
typedef struct ferry_argument {
    const ferry_element *element;
    ferry_buffer *buffer;     /**< NULL for a value; borrowed during the call */
    size_t offset, count;     /**< elements of the buffer; FERRY_REST */
    const void *pointer;      /**< a value larger than FERRY_VALUE_BYTES: the caller's memory, read during the call */
    size_t bytes, align;      /**< of a value */
    ferry_access access;      /**< for ferry_scope_open_all(); launches use the signature's */
    uint32_t is_value;
    union {
        unsigned char bytes[FERRY_VALUE_BYTES];
        uint64_t words[FERRY_VALUE_BYTES / 8];
    } value;
} ferry_argument;

/** A range of a buffer, of this element, as an argument. Nothing is checked here; the call that takes it checks. */
FERRY_API ferry_argument ferry_buffer_argument(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count);
/** The same argument with an access, for ferry_scope_open_all(). */
FERRY_API ferry_argument ferry_argument_with(ferry_argument argument, ferry_access access);
/** A scalar by value; copied. */
FERRY_API ferry_argument ferry_element_value(const ferry_element *element, const void *value);
/** A size by value; its parameter's element is ferry_size_element(). */
FERRY_API ferry_argument ferry_size_value(size_t value);
/** Any struct by value. Up to FERRY_VALUE_BYTES it is copied; a larger one is read when the call takes it. */
FERRY_API ferry_argument ferry_struct_value(const void *value, size_t bytes, size_t alignment);

/** What a host body sees of its launch; valid during the body. */
typedef struct ferry_call ferry_call;

/**
 * A kernel's body in C, for devices without CUDA: called once per launch, in stream order, on any thread. It may
 * fail: what the launch writes is then lost, and the next call that depends on it or waits for the stream returns the
 * failure. A watching callback, see "Callbacks" in <ferry/status.h>; ferry_..._call_... functions on `call` work too.
 *
 * A late failure loses only bytes that no later call has overwritten. A launch queued meanwhile that reads lost bytes is not called;
 * it fails in the same way. When several launches fail on one buffer, its readers may get the status and message of the newest
 * failure. A call that copies or converts bytes which a queued launch writes waits for that launch first. Opening a device scope on such
 * bytes does not wait: work that the caller queues in the scope may read lost bytes, and what it writes counts as written. A scope
 * whose bytes a later scope or launch of its stream uses while it is open counts as older than the failure.
 */
typedef ferry_status ferry_host_body(const ferry_call *call, void *user);

/** The array of argument `index`, or NULL when there is no such array or it has another element; `out_count` may be NULL. */
FERRY_API void *ferry_call_array(const ferry_call *call, const ferry_element *element, size_t index, size_t *out_count);
/** The value of argument `index`, `*out_bytes` long, or NULL; `element` NULL takes any value; `out_bytes` may be NULL. */
FERRY_API const void *ferry_call_value(const ferry_call *call, const ferry_element *element, size_t index, size_t *out_bytes);
/** The value of a ferry_size_value() argument; 0 when there is none. */
FERRY_API size_t ferry_call_size(const ferry_call *call, size_t index);
/** The launch's grid. */
FERRY_API ferry_grid ferry_call_grid(const ferry_call *call);
/** Set the sentence that goes with the failure that the body is about to return; copied. */
FERRY_API void ferry_call_fail(const ferry_call *call, const char *message);

/** What a kernel is made from. Everything is copied at creation, except that `user` and code pointers stay. */
typedef struct ferry_kernel_source {
    const char *name;                  /**< the entry point; `extern "C" __global__` in the source */
    const char *cuda_source;           /**< CUDA C++, or NULL; compiled with NVRTC for the device, and kept on disk */
    const void *image;                 /**< PTX (with its NUL), cubin or fatbin, or NULL; goes before cuda_source */
    size_t image_bytes;
    const char *const *options;        /**< of the compiler, such as "-use_fast_math" */
    size_t option_count;
    ferry_host_body *host_body;        /**< or NULL */
    void *user;                        /**< for host_body; must outlive the kernel's work */
    const ferry_parameter *parameters; /**< in signature order */
    size_t parameter_count;
    uint64_t reserved[4];
} ferry_kernel_source;

/**
 * Describe a kernel. Where the context has a CUDA device and there is source, it is compiled now. The declaration of
 * each struct element in the signature is put before the source. The caller owns `*out`.
 *
 * What was compiled is kept on disk, see ferry_kernel_cache_path(), and found there by later calls of this and other
 * processes with the same source, options, architecture and compiler. A source that includes files, and options that name
 * files, are compiled each time. An entry that is damaged is removed, and the source compiled; nothing that is wrong with the cache fails the call.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (no name, no body of any kind, a malformed element); FERRY_ERROR_COMPILE with the
 *         compiler's log; FERRY_ERROR_UNSUPPORTED (source, a CUDA device, and no NVRTC to load); FERRY_ERROR_OUT_OF_MEMORY;
 *         FERRY_ERROR_DEVICE (the image does not load, or has no such entry point).
 * Threads: any. Blocks while compiling.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_create(ferry_context *context, const ferry_kernel_source *source,
                                                           ferry_kernel **out);

/**
 * Queue the kernel on a stream (NULL: the default stream of a context with one device).
 *
 * Arguments come in signature order. What a READ or UPDATE argument lacks is moved before; what is written counts as
 * written when the device has accepted the launch; nothing is waited for. Overlapping ranges of one buffer are merged, so
 * in-place calls are legal. A failure changes nothing.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, too many or too few arguments, a value for an array or the reverse);
 *         FERRY_ERROR_WRONG_TYPE; FERRY_ERROR_OUT_OF_RANGE; FERRY_ERROR_WRONG_CONTEXT; FERRY_ERROR_BUSY; FERRY_ERROR_UNSUPPORTED (no body for this
 *         device; a capture that would need moves); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE; FERRY_ERROR_DEVICE_LOST.
 * Threads: any, also for one kernel at once.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_launch(ferry_kernel *kernel, ferry_stream *stream, ferry_grid grid,
                                                           const ferry_argument *arguments, size_t argument_count);

/** Give the kernel back and set `*kernel` to NULL; work in flight goes on. NULL is harmless. Threads: any. */
FERRY_API void ferry_kernel_destroy(ferry_kernel **kernel);

/**
 * Compile CUDA source to PTX without a device, to check it: what ferry_kernel_create() does before loading. It is compiled each time, and not kept.
 * @param architecture compute capability, 10 * major + minor; 0: 75
 * @return FERRY_OK; FERRY_ERROR_COMPILE with the log; FERRY_ERROR_UNSUPPORTED (no NVRTC); FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_OUT_OF_MEMORY.
 * Threads: any. Blocks while compiling.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_check(const ferry_kernel_source *source, int architecture);

/**
 * Tell the folder in which compiled kernels and conversions are kept: FERRY_CACHE_DIR, an absolute path (empty: none), else
 * ferry/ in XDG_CACHE_HOME, else .cache/ferry/ in HOME. It is made when the first one is kept, for this user alone, and may be removed
 * at any time. It holds at most 256 MiB. A folder that is a link, another user's, or writable by others is not used; nor is any
 * in a set-uid program. The environment is read by each call.
 *
 * @param out       takes the path with its NUL
 * @param out_bytes its room; 4096 is always enough
 * @return FERRY_OK, also when the folder is not there yet; FERRY_ERROR_UNSUPPORTED (nothing is kept, and why); FERRY_ERROR_OUT_OF_RANGE (too little
 *         room); FERRY_ERROR_INVALID_ARGUMENT.
 * Threads: any. Looks at the file system; touches no device.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_cache_path(char *out, size_t out_bytes);

FERRY_END_DECLS

#endif
