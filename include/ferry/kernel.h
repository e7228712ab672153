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
 * @file
 * Kernels, their arguments and launches.
 *
 * - FERRY_ERROR_INVALID_ARGUMENT: an argument is NULL.
 * - FERRY_ERROR_COMPILE: the source does not compile; the message contains the compiler's log.
 * - FERRY_ERROR_WRONG_TYPE: a parameter of the code has another size than its description.
 * - FERRY_ERROR_INVALID_STATE: the context was destroyed or belongs to the parent process, or
 *   the call is inside a watching callback.
 */

/**
 * A function that runs on devices. It has code for devices, a C function for devices that take no
 * such code (the host function), or both.
 */
typedef struct ferry_kernel ferry_kernel;

/**
 * How far an array argument of a launch may overlap another one in the same buffer, if the kernel
 * writes one of the two. The stricter one of their parameters counts.
 */
typedef enum ferry_overlap {
    FERRY_OVERLAP_ANY = 0,  /**< any overlap is allowed */
    FERRY_OVERLAP_SAME = 1, /**< the two may only be the same elements, for a kernel that uses only
                                 element i for element i */
    FERRY_OVERLAP_NONE = 2  /**< no overlap is allowed, for a kernel that reads other elements */
} ferry_overlap;

/**
 * One parameter of a kernel. If `access` is 0, it is a value: a scalar or a struct. Otherwise it is
 * a range of a buffer, and `access` says how the kernel uses it.
 */
typedef struct ferry_parameter {
    const ferry_element *element; /**< element type of the buffer or of the value. It may be NULL
                                       for a struct by value, whose type and size are then not
                                       checked */
    ferry_access access;
    ferry_overlap overlap; /**< a launch with another overlap fails */
    const char *name;      /**< name for messages, or NULL. Control characters become spaces */
    uint64_t reserved;
} ferry_parameter;

/**
 * Attributes of a launch: bits of ferry_grid.flags. ferry_place_info.capabilities says which ones a
 * device takes; a launch with another one fails. The meaning of a bit never changes.
 */
typedef enum ferry_launch_flag {
    /** All blocks of the grid run at the same time, so that they can wait for each other, as
     * `this_grid().sync()` of cooperative groups does. The launch fails if the device does not hold
     * all of them at once. Needs FERRY_CAN_COOPERATE. */
    FERRY_LAUNCH_COOPERATIVE = 1 << 0,
    /** The kernel may begin before the kernel that was queued on the stream just before it has
     * ended ("programmatic dependent launch" of CUDA). It begins when all blocks of that kernel
     * have called `cudaTriggerProgrammaticLaunchCompletion()` or have ended, and before their
     * writes are visible. Therefore each thread must call `cudaGridDependencySynchronize()`, or
     * execute the PTX instruction `griddepcontrol.wait`, before it uses memory of a buffer, and
     * before it ends. All work that is queued later still begins after the kernel has ended,
     * except a kernel with this flag. Needs FERRY_CAN_OVERLAP. */
    FERRY_LAUNCH_OVERLAP = 1 << 1
} ferry_launch_flag;

/**
 * Dimensions of a launch: the numbers of blocks, and of threads in each block, as x, y, z. 0 in y
 * or z means 1; 0 in x is an error.
 */
typedef struct ferry_grid {
    uint32_t blocks[3];
    uint32_t threads[3];
    uint32_t shared_bytes; /**< dynamic shared memory of each block */
    uint32_t flags;        /**< ferry_launch_flag bits */
    uint32_t cluster[3];   /**< blocks of a thread block cluster, at most 8 in all, which divide
                                `blocks`. If all are 0 there are no clusters but those of the
                                kernel's own `__cluster_dims__`; otherwise 0 means 1. Needs
                                FERRY_CAN_CLUSTER */
    uint64_t reserved[4];
} ferry_grid;

/**
 * A part of an array of up to three dimensions, for generated launches: [0] of planes, [1] of rows,
 * [2] of columns. Where there are no planes, or no rows, `first` is 0 and `count` is 1.
 */
typedef struct ferry_box {
    size_t first[3];
    size_t count[3];
} ferry_box;

/**
 * Returns a one-dimensional grid with at least one thread for each of `items` items. It has at
 * least one block and at most 2^31 - 1 blocks, and its other members are 0.
 * @param threads threads per block; 0 means 256
 * Threads: any.
 */
FERRY_API ferry_grid ferry_grid_for(size_t items, uint32_t threads);

/** Size in bytes of the largest value that a ferry_argument stores in itself. */
#define FERRY_VALUE_BYTES 32

/**
 * One argument of a launch or of ferry_scope_open_all(): a range of a buffer, or a value. The
 * functions below create it, and typed functions such as ferry_float_argument().
 */
typedef struct ferry_argument {
    const ferry_element *element;
    ferry_buffer *buffer; /**< the buffer, which the caller keeps alive during the call; NULL for a
                               value */
    size_t offset, count; /**< the range, in elements; FERRY_REST as `count` means up to the end */
    const void *pointer;  /**< address of a value that is larger than FERRY_VALUE_BYTES, which the
                               call reads */
    size_t bytes, align;  /**< size and alignment of a value */
    ferry_access access;  /**< for ferry_scope_open_all(). A launch uses that of the kernel's
                               parameter. FERRY_UPDATE here replaces FERRY_OVERWRITE there:
                               elements that the kernel does not write then keep their values */
    uint32_t is_value;
    union {
        unsigned char bytes[FERRY_VALUE_BYTES];
        uint64_t words[FERRY_VALUE_BYTES / 8];
    } value;
    uint64_t reserved[2];
} ferry_argument;

/**
 * Returns an argument that passes `count` elements of a buffer from element `offset` on. Checks
 * nothing; the call that receives the argument does. Threads: any.
 */
FERRY_API ferry_argument ferry_buffer_argument(ferry_buffer *buffer, const ferry_element *element,
                                               size_t offset, size_t count);
/** Returns a copy of `argument` with this access, see ferry_argument.access. Threads: any. */
FERRY_API ferry_argument ferry_argument_with(ferry_argument argument, ferry_access access);
/** Returns an argument that passes a copy of the scalar `*value`. Threads: any. */
FERRY_API ferry_argument ferry_element_value(const ferry_element *element, const void *value);
/**
 * Returns an argument that passes `value` as a size_t, to a parameter with the element type of
 * ferry_size_element(). Threads: any.
 */
FERRY_API ferry_argument ferry_size_value(size_t value);
/**
 * Returns an argument that passes a struct of `bytes` bytes by value. A struct of up to
 * FERRY_VALUE_BYTES bytes is copied; a larger one must stay valid until the call that receives the
 * argument returns. Threads: any.
 */
FERRY_API ferry_argument ferry_struct_value(const void *value, size_t bytes, size_t alignment);

/** A launch, as its host function sees it. It is valid until the host function returns. */
typedef struct ferry_call ferry_call;

/**
 * The host function of a kernel. Ferry calls it once per launch, in the order of the stream, on any
 * thread. It is a watching callback, see "Callbacks" in <ferry/status.h>, which may also call the
 * functions whose names begin with ferry_call_.
 *
 * If it returns a failure, the bytes that the launch writes are lost, unless a later call has
 * already overwritten them. The next call that reads lost bytes, or that waits for the stream,
 * returns that failure. "Failure" in docs/concepts.md says what else is lost, and which calls
 * report it.
 */
typedef ferry_status ferry_host_function(const ferry_call *call, void *user);

/**
 * Returns the address of the array that argument `index` passes, and sets `*out_count`, which may
 * be NULL, to its number of elements.
 * @return NULL when the array is empty, when the argument is a value, or when the element type
 *         differs.
 */
FERRY_API void *ferry_call_array(const ferry_call *call, const ferry_element *element, size_t index,
                                 size_t *out_count);
/**
 * Returns the address of the value that argument `index` passes, and sets `*out_bytes`, which may
 * be NULL, to its size in bytes.
 * @param element NULL: any type is accepted
 * @return NULL when the argument is not a value, or when the element type differs.
 */
FERRY_API const void *ferry_call_value(const ferry_call *call, const ferry_element *element,
                                       size_t index, size_t *out_bytes);
/** Returns the value of argument `index`, which ferry_size_value() created; 0 if it is no size. */
FERRY_API size_t ferry_call_size(const ferry_call *call, size_t index);
/** Returns the dimensions of the launch. */
FERRY_API ferry_grid ferry_call_grid(const ferry_call *call);
/** Sets the error message of the failure that the host function is about to return. Copies it. */
FERRY_API void ferry_call_fail(const ferry_call *call, const char *message);

/**
 * A part of a host function, see ferry_call_parallel(): the items [first, first + count). It is a
 * watching callback, which may also call the functions whose names begin with ferry_call_.
 */
typedef ferry_status ferry_part_function(size_t first, size_t count, void *user);

/**
 * Runs parts of a host function on the host threads of the context, and returns when all are done.
 * The calling thread runs parts as well.
 *
 * Part k has the items from k * grain on. Every part has `grain` items, except that the last one
 * may have fewer. So the parts do not depend on the number of threads. They run in any order and at
 * the same time, each in one call of `run`.
 *
 * The threads start at the first call with two parts or more, and stay until the context ends. The
 * key host.threads of docs/tuning.md sets their number. With one thread, inside a part, and in the
 * child of a fork, the calling thread runs the parts in order.
 *
 * If parts fail, the call returns the status of the first one in their order, with the message that
 * it set, and parts after it may not run.
 * @param call the call that the host function received, in that function or in a part
 * @param count number of items; 0 is allowed, and then `run` is not called
 * @param grain number of items of a part. A part should take ten microseconds or more
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (`call` or `run` is NULL, or `grain` is 0); the
 *         status of a part; FERRY_ERROR_INVALID_STATE (a part forked, and this is the child).
 * Threads: that of the host function, or of a part.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_call_parallel(const ferry_call *call, size_t count,
                                                           size_t grain, ferry_part_function *run,
                                                           void *user);

/**
 * Kind of a kernel's code: a language, or the result of a compiler. A device runs code of its
 * language; codes of other kinds are not compiled. The meaning of a value never changes.
 */
typedef enum ferry_code_kind {
    FERRY_CODE_CUDA = 1,         /**< CUDA C++ text, which Ferry compiles with NVRTC (CUDA's
                                      run-time compiler) and caches on disk */
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
                                   addition. NVRTC gets -fmad=false after the other options. OpenCL
                                   C also divides floats, and takes their roots, exactly, where the
                                   device can; elsewhere with an error of at most 2.5 or 3 units in
                                   the last place */
} ferry_code_flag;

/** Code of a kernel in one language, or for one target. */
typedef struct ferry_kernel_code {
    ferry_code_kind kind;
    uint32_t flags;   /**< ferry_code_flag bits; 0 for an image or a binary */
    const void *code; /**< the text, module, image or binary */
    size_t bytes; /**< size of `code`; 0 for a text that ends with its NUL. A text of a given size
                       needs no NUL, and has none but perhaps as its last byte */
    const char *const *options; /**< options of this language's compiler, such as "-use_fast_math";
                                     NULL for an image or a binary */
    size_t option_count;
    const char *target; /**< what an image or a binary was compiled for, such as "sm_90" (a cubin),
                             "compute_90" (PTX), either with the letter of its compiler, such as
                             "sm_90a", or "gfx90a" (HIP). NULL: Ferry tries to load the image. NULL
                             for a text and SPIR-V */
    uint64_t reserved[2];
} ferry_kernel_code;

/**
 * Describes a new kernel. ferry_kernel_create() copies the strings, the code and the arrays. `user`
 * and the code of `host_function` must stay valid until all launches of the kernel are done, and
 * until the graphs that contain such launches are destroyed.
 */
typedef struct ferry_kernel_source {
    const char *name;               /**< name of the kernel's function: in CUDA and HIP source an
                                         `extern "C" __global__` function, and in OpenCL C a
                                         `__kernel` function, whose arrays are `__global` pointers
                                         and whose size_t parameters have the type `ferry_size` */
    const ferry_kernel_code *codes; /**< code for devices, in any order; at most one of each text */
    size_t code_count;
    ferry_host_function *host_function; /**< or NULL */
    void *user;                         /**< passed to host_function */
    const ferry_parameter *parameters;  /**< in the order of the kernel's signature */
    size_t parameter_count;
    uint64_t reserved[4];
} ferry_kernel_source;

/**
 * Creates a kernel. The caller owns `*out`. If a device of the context runs source of `source`, the
 * call compiles it, and blocks until that is done.
 *
 * A CUDA or HIP device runs the first image whose target suits it and which the driver accepts, or
 * else source; a HIP device takes CUDA source where there is no HIP source. An OpenCL device takes
 * a binary, SPIR-V or OpenCL C source, in this order. A device that runs none of the code runs the
 * host function if it can, see FERRY_CAN_RUN_HOST_FUNCTION; otherwise launches on it fail.
 * "Kernels" in docs/concepts.md says which target suits, what Ferry declares before the source, and
 * how it caches code.
 *
 * The parameters of the code must have the number and sizes of `parameters`. Drivers before CUDA
 * 12.4 do not report them: a launch of code that differs is then undefined.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also without a name, for a name with a control
 *         character, such as a newline, without code and host function, for a malformed code, of
 *         which the message says the number, an invalid element type, and code with another number
 *         of parameters); FERRY_ERROR_WRONG_TYPE;
 *         FERRY_ERROR_COMPILE; FERRY_ERROR_UNSUPPORTED (NVRTC, which must compile the source, is
 *         not installed, or the driver refuses an image as one for another device or a newer
 *         driver); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE (the driver does not load the
 *         code for another reason, or the code lacks the named function);
 *         FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_create(ferry_context *context,
                                                           const ferry_kernel_source *source,
                                                           ferry_kernel **out);

/**
 * Queues the kernel on a stream, and returns without waiting for the kernel to run. A call that
 * fails changes nothing.
 *
 * Bytes of a READ or UPDATE argument that are not current at the stream's place are copied there
 * first. When the device has accepted the launch, the ranges that the kernel writes are current
 * only at that place. Arguments may be overlapping ranges of one buffer, unless a parameter's
 * `overlap` forbids it.
 *
 * @param stream NULL: the default stream, if the context has exactly one device
 * @param arguments in the order of the kernel's parameters
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also for a grid without blocks or threads in x,
 *         clusters that are too large or do not divide the grid, a wrong number or kind of
 *         arguments, and a forbidden overlap); FERRY_ERROR_UNSUPPORTED (the kernel has no code for
 *         this device; the device does not take a flag of the grid, or clusters; a cooperative
 *         grid has more blocks than it holds at once; or the stream is being captured and bytes
 *         must be copied); FERRY_ERROR_WRONG_TYPE,
 *         FERRY_ERROR_OUT_OF_RANGE, FERRY_ERROR_WRONG_CONTEXT, FERRY_ERROR_BUSY,
 *         FERRY_ERROR_INVALID_STATE, FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_DEVICE or
 *         FERRY_ERROR_DEVICE_LOST, for the reasons at the top of <ferry/buffer.h>.
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
 * Compiles CUDA source to PTX, and compares its entry point with the description. For a target of
 * HIP, compiles HIP source, or CUDA source if there is none, in a child of the process, and
 * compares only the name. Needs no device and no context, and caches nothing. Blocks until the
 * compiler is done.
 * @param target compute capability to compile for, such as "sm_90" or "compute_90", or a target of
 *         HIP, such as "gfx90a"; NULL means "sm_75". For a compute capability that is newer than
 *         NVRTC knows, it compiles for the newest that it does. An architecture in the options of
 *         CUDA source overrides it
 * @return FERRY_OK; FERRY_ERROR_COMPILE; FERRY_ERROR_UNSUPPORTED (the compiler is not installed, or
 *         does not know the target; or `target` has a letter, such as "sm_90a", which belongs into
 *         the options); FERRY_ERROR_INVALID_ARGUMENT (also for a malformed code or target, no such
 *         source, no entry point of the kernel's name, or another number of parameters);
 *         FERRY_ERROR_WRONG_TYPE; FERRY_ERROR_OUT_OF_MEMORY. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_check(const ferry_kernel_source *source,
                                                          const char *target);

/**
 * Writes the path of the folder in which Ferry caches compiled kernels and conversions to `out`.
 * FERRY_CACHE_DIR, XDG_CACHE_HOME or HOME of the environment determine it at each call, see
 * docs/environment.md.
 *
 * @param out receives the path with its NUL
 * @param out_bytes size of `out`; 4096 is always enough
 * @return FERRY_OK, even if the folder does not exist yet; FERRY_ERROR_UNSUPPORTED (there is no
 *         cache; the message says why); FERRY_ERROR_OUT_OF_RANGE (`out` is too small);
 *         FERRY_ERROR_INVALID_ARGUMENT.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_cache_path(char *out, size_t out_bytes);

FERRY_END_DECLS

#endif
