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
 * A kernel: a function that runs on devices. It consists of code for devices, of a C function for
 * devices that take no such code (the host function), or of both.
 */
typedef struct ferry_kernel ferry_kernel;

/**
 * How far an array argument of a launch may overlap another array of the launch in the same buffer,
 * if the kernel writes one of the two. Of the two parameters, the stricter one counts.
 */
typedef enum ferry_overlap {
    FERRY_OVERLAP_ANY = 0,  /**< any overlap is allowed */
    FERRY_OVERLAP_SAME = 1, /**< the two may be the same elements, for a kernel that uses only
                                 element i for element i; no other overlap is allowed */
    FERRY_OVERLAP_NONE = 2  /**< no overlap is allowed, for a kernel that reads other elements */
} ferry_overlap;

/**
 * One parameter of a kernel. If `access` is 0, the kernel takes a value: a scalar or a struct.
 * Otherwise it takes a range of a buffer, and `access` says how it uses that range.
 */
typedef struct ferry_parameter {
    const ferry_element *element; /**< element type of the buffer or of the value. A parameter that
                                       takes a struct by value may leave it NULL: then Ferry does
                                       not check the type or the size of what a launch passes */
    ferry_access access;
    ferry_overlap overlap; /**< a launch with another overlap fails */
    const char *name;      /**< name for messages, or NULL; ferry_kernel_create() copies it */
    uint64_t reserved;
} ferry_parameter;

/**
 * Dimensions of a launch: the number of blocks, and the number of threads in each block, each as x,
 * y, z. 0 in y or z means 1; 0 in x is an error.
 */
typedef struct ferry_grid {
    uint32_t blocks[3];
    uint32_t threads[3];
    uint32_t shared_bytes; /**< dynamic shared memory per block, in bytes */
    uint32_t flags;        /**< 0; there are no flags yet */
    uint32_t cluster[3];   /**< blocks of a cluster, as x, y, z; 0 in all three: no clusters. No
                                device takes clusters yet */
    uint64_t reserved[4];
} ferry_grid;

/**
 * A part of an array of up to three dimensions, for generated launches over several dimensions. The
 * members [0], [1] and [2] are of planes, rows and columns. In an array that has no planes, or no
 * rows, `first` is 0 and `count` is 1 there.
 */
typedef struct ferry_box {
    size_t first[3]; /**< index of the first plane, row and column */
    size_t count[3]; /**< number of planes, rows and columns */
} ferry_box;

/**
 * Returns a one-dimensional grid with `threads` threads in each block, and with enough blocks to
 * have at least one thread for each of `items` items.
 *
 * The grid has at least one block and at most 2^31 - 1 blocks. Its other members are 0.
 * @param threads threads per block; 0 means 256
 * Threads: any.
 */
FERRY_API ferry_grid ferry_grid_for(size_t items, uint32_t threads);

/** Size in bytes of the largest value that a ferry_argument stores in itself. */
#define FERRY_VALUE_BYTES 32

/**
 * One argument of a launch or of ferry_scope_open_all(): a range of a buffer, or a value. Programs
 * create arguments with the functions below, or with typed functions such as
 * ferry_float_argument().
 */
typedef struct ferry_argument {
    const ferry_element *element;
    ferry_buffer *buffer; /**< the buffer, which the caller keeps alive during the call; NULL if
                               the argument is a value */
    size_t offset, count; /**< the range, in elements; FERRY_REST as `count` means up to the end
                               of the buffer */
    const void *pointer;  /**< address of a value that is larger than FERRY_VALUE_BYTES; the
                               call reads it there */
    size_t bytes, align;  /**< size and alignment of a value in bytes */
    ferry_access access;  /**< used only by ferry_scope_open_all(); a launch uses the access
                               that the kernel's parameter declares */
    uint32_t is_value;
    union {
        unsigned char bytes[FERRY_VALUE_BYTES];
        uint64_t words[FERRY_VALUE_BYTES / 8];
    } value;
    uint64_t reserved[2];
} ferry_argument;

/**
 * Returns an argument that passes `count` elements of a buffer, starting at element `offset`. The
 * function checks nothing. The call that receives the argument checks it.
 * Threads: any.
 */
FERRY_API ferry_argument ferry_buffer_argument(ferry_buffer *buffer, const ferry_element *element,
                                               size_t offset, size_t count);
/** Returns a copy of `argument` with this access, for ferry_scope_open_all(). Threads: any. */
FERRY_API ferry_argument ferry_argument_with(ferry_argument argument, ferry_access access);
/** Returns an argument that passes a copy of the scalar `*value`. Threads: any. */
FERRY_API ferry_argument ferry_element_value(const ferry_element *element, const void *value);
/**
 * Returns an argument that passes `value` as a size_t. The kernel's parameter at this position must
 * have the element type that ferry_size_element() describes.
 * Threads: any.
 */
FERRY_API ferry_argument ferry_size_value(size_t value);
/**
 * Returns an argument that passes a struct of `bytes` bytes by value.
 *
 * The argument holds a copy of a struct of up to FERRY_VALUE_BYTES bytes. It does not copy a larger
 * struct, which must stay valid until the call that receives the argument returns.
 * Threads: any.
 */
FERRY_API ferry_argument ferry_struct_value(const void *value, size_t bytes, size_t alignment);

/** A launch, as its host function sees it. It is valid until the host function returns. */
typedef struct ferry_call ferry_call;

/**
 * The host function of a kernel: a C function that runs the kernel on devices that take no code.
 * Ferry calls it once per launch, in the order of the stream, on any thread. It is a watching
 * callback, see "Callbacks" in <ferry/status.h>. It may also pass `call` to the functions whose
 * names begin with ferry_call_.
 *
 * If the host function returns a failure, the bytes that the launch writes are lost, unless a later
 * call has already overwritten them. The next call that reads lost bytes, or that waits for the
 * stream, returns that failure.
 *
 * - A queued launch that reads lost bytes fails with the same status, and its host function is not
 *   called.
 * - If several launches on one buffer fail, calls that read the buffer may return the status and
 *   message of the newest failure.
 * - A call that copies or converts bytes first waits for the queued launches that write them.
 * - A call that waits for launches on the host looks at their outcome afterwards. Such calls are
 *   ferry_scope_wait(), ferry_buffer_sync_to(), ferry_lease_open() without a stream,
 *   ferry_lease_export_arrow() and ferry_buffer_unwrap(). ferry_buffer_wait_idle() and events
 *   report no such failure.
 * - Opening a device scope does not wait for such launches. Work that the caller queues in the
 *   scope may therefore read lost bytes. What that work writes in an OVERWRITE scope is valid. The
 *   range of an UPDATE scope is lost too, if the scope is closed before the launch has failed:
 *   call ferry_scope_wait() before the work to know.
 * - If a later scope or launch on the same stream uses the bytes of a scope that is still open, a
 *   failure may also lose what was written in the open scope.
 */
typedef ferry_status ferry_host_function(const ferry_call *call, void *user);

/**
 * Returns the address of the array that argument `index` passes, and sets `*out_count` to its
 * number of elements.
 * @param out_count may be NULL
 * @return the array; NULL when the argument is a value, or when the element type differs.
 */
FERRY_API void *ferry_call_array(const ferry_call *call, const ferry_element *element, size_t index,
                                 size_t *out_count);
/**
 * Returns the address of the value that argument `index` passes, and sets `*out_bytes` to its size
 * in bytes.
 * @param element NULL: any type is accepted
 * @param out_bytes may be NULL
 * @return the address; NULL when the argument is not a value, or when the element type differs.
 */
FERRY_API const void *ferry_call_value(const ferry_call *call, const ferry_element *element,
                                       size_t index, size_t *out_bytes);
/**
 * Returns the value of argument `index`, which ferry_size_value() created; 0 when the argument is
 * not a size.
 */
FERRY_API size_t ferry_call_size(const ferry_call *call, size_t index);
/** Returns the dimensions of the launch. */
FERRY_API ferry_grid ferry_call_grid(const ferry_call *call);
/**
 * Sets the error message of the failure that the host function is about to return. Copies the
 * string.
 */
FERRY_API void ferry_call_fail(const ferry_call *call, const char *message);

/**
 * Kind of a kernel's code: a language, or the result of a compiler. Only CUDA devices run code yet.
 * The other kinds are checked and otherwise ignored. The meaning of a value never changes.
 */
typedef enum ferry_code_kind {
    FERRY_CODE_CUDA = 1,         /**< CUDA C++ text. Ferry compiles it for the device with NVRTC
                                      (CUDA's run-time compiler), and caches the result on disk */
    FERRY_CODE_HIP = 2,          /**< HIP C++ text */
    FERRY_CODE_OPENCL = 3,       /**< OpenCL C text */
    FERRY_CODE_SPIRV = 4,        /**< SPIR-V module for OpenCL */
    FERRY_CODE_CUDA_IMAGE = 5,   /**< PTX with its terminating NUL, a cubin or a fatbin */
    FERRY_CODE_HIP_IMAGE = 6,    /**< code object or bundle of the HIP compiler */
    FERRY_CODE_OPENCL_BINARY = 7 /**< binary of one OpenCL device and driver */
} ferry_code_kind;

/** Bits of ferry_kernel_code.flags. The meaning of a bit never changes. */
typedef enum ferry_code_flag {
    FERRY_CODE_EXACT = 1 << 0 /**< the compiler fuses no operations, such as a multiplication and an
                                   addition, so that each is rounded by itself. NVRTC gets
                                   -fmad=false after the other options */
} ferry_code_flag;

/** Code of a kernel in one language, or for one target. */
typedef struct ferry_kernel_code {
    ferry_code_kind kind;
    uint32_t flags;   /**< ferry_code_flag bits; 0 for an image or a binary */
    const void *code; /**< the text, module, image or binary */
    size_t bytes; /**< size of `code`. Of a text, 0 means up to its NUL; otherwise the text needs
                       no NUL, and has none but perhaps as its last byte */
    const char *const *options; /**< options of this language's compiler, such as "-use_fast_math";
                                     NULL for an image or a binary */
    size_t option_count;
    const char *target; /**< what an image or a binary was compiled for. Of a CUDA image, "sm_90"
                             (a cubin), "compute_90" (PTX), or either with the letter of its
                             compiler, such as "sm_90a". Of a HIP image, a name such as "gfx90a".
                             NULL: Ferry tries to load the image. NULL for a text and SPIR-V */
    uint64_t reserved[2];
} ferry_kernel_code;

/**
 * Describes a new kernel. ferry_kernel_create() copies the strings, the code and the arrays. `user`
 * and the code of `host_function` must stay valid until all launches of the kernel are done.
 */
typedef struct ferry_kernel_source {
    const char *name;               /**< name of the kernel's function, which CUDA source declares
                                         as `extern "C" __global__` */
    const ferry_kernel_code *codes; /**< code for devices, in any order; at most one of each text,
                                         and any number of images */
    size_t code_count;
    ferry_host_function *host_function; /**< the host function, or NULL */
    void *user;                         /**< passed to host_function */
    const ferry_parameter *parameters;  /**< the parameters, in the order of the kernel's
                                             signature */
    size_t parameter_count;
    uint64_t reserved[4];
} ferry_kernel_source;

/**
 * Creates a kernel. The caller owns `*out`. If the context has a CUDA device, and no image for it,
 * the call compiles the CUDA source of `source`, and blocks until that is done.
 *
 * A CUDA device runs the first CUDA image whose target suits it: an image without a target,
 * "sm_XY" on a device with the same X and at least this Y, "compute_XY" on every device from XY,
 * and with the letter a only on just this device. If the driver refuses an image, the next one
 * that suits is tried, and then the CUDA source. A device that runs none of the kernel's code runs
 * its host function if it can, see FERRY_CAN_RUN_HOST_FUNCTION; otherwise launches on it fail.
 *
 * Ferry adds declarations before the source: the types int8_t to uint64_t, and the structs
 * ferry_half, ferry_bfloat16, ferry_complex_float and ferry_complex_double of <ferry/number.h>. The
 * compiler option -DFERRY_NO_CUDA_TYPES omits these, for a source that declares the names itself.
 * Declarations of the structs that the parameters use follow.
 *
 * Ferry caches compiled code on disk, see ferry_kernel_cache_path(). Later calls of any process
 * find it by source, options, architecture and compiler version. Code that depends on other files,
 * by #include or by an option, is not cached. If a cache entry is damaged, Ferry removes it and
 * compiles the source again. The call never fails because of the cache.
 *
 * Drivers since CUDA 12.4 report the parameters of loaded code. Ferry compares their number and
 * sizes with `parameters`, and refuses code that differs. With older drivers nothing is compared: a
 * launch of code that differs is undefined.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, no name, no code and no host function, a
 *         malformed code, of which the message says the number, an invalid element type, or the
 *         code has another number of parameters); FERRY_ERROR_WRONG_TYPE (a parameter of the code
 * has another size); FERRY_ERROR_COMPILE (the source does not compile; the message contains the
 * compiler's log); FERRY_ERROR_UNSUPPORTED (CUDA source must be compiled, but NVRTC is not
 * installed); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE (the driver does not load the code, or
 * the code lacks the named function); FERRY_ERROR_INVALID_STATE (in a forked child or a watching
 * callback, or after the context was destroyed). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_create(ferry_context *context,
                                                           const ferry_kernel_source *source,
                                                           ferry_kernel **out);

/**
 * Queues the kernel on a stream, and returns without waiting for the kernel to run.
 *
 * Bytes of a READ or UPDATE argument that are not current at the stream's place are copied there
 * first. When the device has accepted the launch, the ranges that the kernel writes are current
 * only at that place. Arguments may be overlapping ranges of one buffer, so a kernel may work in
 * place, unless a parameter's `overlap` forbids it. A call that fails changes nothing.
 *
 * @param stream NULL: the default stream, which is allowed only if the context has exactly one
 *         device
 * @param arguments `argument_count` arguments, in the order of the kernel's parameters
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, a grid without blocks or threads in x, a
 *         wrong number of arguments, a value for a buffer or a buffer for a value, an overlap that
 *         a parameter forbids);
 *         FERRY_ERROR_UNSUPPORTED (the kernel has no code for this device; the grid has clusters or
 *         flags; or the stream is being captured and bytes must be copied);
 *         FERRY_ERROR_WRONG_TYPE, FERRY_ERROR_OUT_OF_RANGE, FERRY_ERROR_WRONG_CONTEXT,
 *         FERRY_ERROR_BUSY, FERRY_ERROR_INVALID_STATE, FERRY_ERROR_OUT_OF_MEMORY,
 *         FERRY_ERROR_DEVICE or FERRY_ERROR_DEVICE_LOST, for the reasons at the top of
 *         <ferry/buffer.h>.
 * Threads: any; several threads may launch one kernel at the same time.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_launch(ferry_kernel *kernel, ferry_grid grid,
                                                           ferry_stream *stream,
                                                           const ferry_argument *arguments,
                                                           size_t argument_count);

/**
 * Destroys the kernel and sets `*kernel` to NULL. Launches that are already queued still run. In a
 * watching callback, in on_release and in ferry_pool_shortage the call logs an error and leaves
 * `*kernel` unchanged.
 * @param kernel NULL and a pointer to NULL have no effect
 * Threads: any.
 */
FERRY_API void ferry_kernel_destroy(ferry_kernel **kernel);

/**
 * Compiles CUDA source to PTX, only to check it, and compares its entry point with the description.
 * Needs no device and no context. Blocks until the compiler is done. The result is not cached.
 * @param target compute capability to compile for, such as "sm_90" or "compute_90"; NULL means
 *        "sm_75". If the options of the source name an architecture, that one counts
 * @return FERRY_OK; FERRY_ERROR_COMPILE (the source does not compile; the message contains the
 *         compiler's log); FERRY_ERROR_UNSUPPORTED (NVRTC is not installed, or `target` is not of
 *         CUDA, such as "gfx90a"); FERRY_ERROR_INVALID_ARGUMENT (NULL, a malformed code or target,
 *         no CUDA source, no entry point of the kernel's name, or another number of parameters than
 *         are declared); FERRY_ERROR_WRONG_TYPE (a parameter has another size than its
 *         declaration); FERRY_ERROR_OUT_OF_MEMORY;
 *         FERRY_ERROR_INVALID_STATE (in a watching callback).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_check(const ferry_kernel_source *source,
                                                          const char *target);

/**
 * Writes the path of the folder in which Ferry caches compiled kernels and conversions to `out`.
 * Makes no driver call.
 *
 * The environment variable FERRY_CACHE_DIR sets the folder, as an absolute path. If it is empty,
 * there is no cache. If it is not set, the folder is $XDG_CACHE_HOME/ferry, or if that variable is
 * not set either, $HOME/.cache/ferry. Each call reads the environment again.
 *
 * Ferry creates the folder, accessible only to this user, when it stores the first entry. The
 * folder holds at most 256 MiB, and may be removed at any time. Ferry does not use a folder that is
 * a symbolic link, that belongs to another user, or that other users may write to. A set-uid
 * program has no cache.
 *
 * @param out receives the path with its NUL
 * @param out_bytes size of `out`; 4096 is always enough
 * @return FERRY_OK, even if the folder does not exist yet; FERRY_ERROR_UNSUPPORTED (there is no
 *         cache; the message says why); FERRY_ERROR_OUT_OF_RANGE (`out` is too small);
 *         FERRY_ERROR_INVALID_ARGUMENT (`out` is NULL).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_cache_path(char *out, size_t out_bytes);

FERRY_END_DECLS

#endif
