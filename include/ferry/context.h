/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CONTEXT_H
#define FERRY_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/scope.h>
#include <ferry/status.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * Contexts: their devices, options, memory and statistics.
 *
 * - The meaning of a value of an enumeration never changes.
 * - FERRY_ERROR_INVALID_ARGUMENT: an argument is NULL, or there is no such place.
 * - FERRY_ERROR_DEVICE: a driver call failed.
 * - FERRY_ERROR_INVALID_STATE: the context was destroyed or belongs to the parent process, or
 *   the call is inside a watching callback.
 */

/** Direction of a transfer. */
typedef enum ferry_direction {
    FERRY_DIRECTION_UPLOAD = 1,   /**< host to device */
    FERRY_DIRECTION_DOWNLOAD = 2, /**< device to host */
    FERRY_DIRECTION_DEVICE = 3,   /**< inside one device */
    FERRY_DIRECTION_PEER = 4,     /**< from one device to another */
    FERRY_DIRECTION_HOST = 5,     /**< inside host memory */
    FERRY_DIRECTION_FILL = 6      /**< none: a range is set to one value, without a source */
} ferry_direction;

/** Describes one transfer that was queued. The strings are valid only during the callback. */
typedef struct ferry_trace {
    const char *buffer; /**< "" if it has no name */
    const char *reason; /**< the call that needed the transfer, such as "read_device" */
    size_t bytes;
    int source_place; /**< -1 for a fill, and for memory of the caller */
    int target_place; /**< -1 for memory of the caller */
    ferry_direction direction;
    bool staged;      /**< true: the bytes went through the staging ring */
    const char *site; /**< call stack of the program at that call, innermost function first, such as
                           "step+0x41, main+0x20 (./program)"; "" unless the run is checked
                           (docs/debugging.md) */
} ferry_trace;

/**
 * Receives a description of each transfer, on the thread that queued it. It is a watching callback,
 * see "Callbacks" in <ferry/status.h>.
 */
typedef void ferry_trace_callback(const ferry_trace *trace, void *user);

/** Value of pin_after with which Ferry page-locks no replica automatically. */
#define FERRY_PIN_NEVER ((size_t)-1)

/**
 * Options of a new context. NULL, or zero in any field, means the default. Values outside the
 * documented range are clamped to it. Strings are copied.
 */
typedef struct ferry_context_options {
    const char *devices;     /**< devices to open, such as "host", "emulated:2" (two of them),
                                  "cuda", "cuda:0,cuda:1" (by their numbers) or "opencl:all". NULL:
                                  those of the environment variable FERRY_DEVICE, or if it is not
                                  set, the best device */
    ferry_log_callback *log; /**< receives log messages; NULL: only a checked run (FERRY_DEBUG)
                                  writes errors and warnings, to stderr */
    void *log_user;
    ferry_trace_callback *trace; /**< receives each transfer, or NULL */
    void *trace_user;
    size_t buffer_bytes_limit;  /**< largest size in bytes of a buffer; default: that of size_t */
    size_t device_bytes_limit;  /**< most bytes that the pool of each device may hold; default: the
                                     memory of the device. At the limit Ferry evicts unused
                                     replicas. For the device "host", host_bytes_limit applies
                                     instead. The tuning may lower the three limits */
    size_t host_bytes_limit;    /**< most bytes that the pool of pageable host memory may hold;
                                     default: the physical memory */
    size_t pinned_bytes_limit;  /**< most bytes that the pool of pinned memory and the automatically
                                     page-locked replicas may hold together; default: a quarter of
                                     the physical memory */
    const char *tuning;         /**< settings of emulated devices and of the staging ring, such as
                                     "staging.chunk=2M emulated.latency=10us". docs/tuning.md lists
                                     the keys, which may change between releases. A key here
                                     overrides that of the environment variable FERRY_TUNING. A
                                     wrong key or value fails the creation with
                                     FERRY_ERROR_INVALID_ARGUMENT */
    const char *allocation_log; /**< path prefix of allocation logs in the CSV format of RMM
                                     (NVIDIA's memory manager), which `ferry replay` reads. Each
                                     pool logs to <prefix>.<place>.<kind>.csv, such as
                                     run.cuda-0.device.csv. The file is emptied first, and is
                                     complete when the context is destroyed. If it cannot be
                                     created, the first call that needs the pool fails with
                                     FERRY_ERROR_IO. NULL: the value of the environment variable
                                     FERRY_ALLOCATION_LOG, or no log */
    size_t pin_after;           /**< number of transfers after which the next one page-locks a host
                                     replica of more than 64 KiB; at most 65534. A batch counts as
                                     one, and transfers of less than an eighth of the replica do not
                                     count. Default: 10. FERRY_PIN_NEVER: never */
    const char
        *trace_file; /**< path of a trace, which Perfetto and `ferry trace` read. The file is
                          emptied first, and is complete when the context is destroyed. If it cannot
                          be created, the creation of the context fails with FERRY_ERROR_IO.
                          docs/tracing.md describes the trace, the patterns "%p", "%r" and "%%" of
                          this path and of allocation_log, and what is appended if several contexts
                          or processes write. NULL: the value of FERRY_TRACE, or none */
    uint64_t reserved[4];
} ferry_context_options;

/** What a device can do: the bits of ferry_place_info.capabilities. */
typedef enum ferry_capability {
    FERRY_CAN_PIN = 1 << 0,    /**< page-lock host memory */
    FERRY_CAN_MANAGE = 1 << 1, /**< use managed memory, by the same pointer as the host, even at the
                                    same time */
    FERRY_CAN_MANAGE_CONCURRENTLY = 1 << 2, /**< prefetch managed memory, and take the advice of
                                                 ferry_buffer_advise() */
    FERRY_CAN_LOAD_CODE = 1 << 3, /**< run compiled kernel code of its language (for CUDA: PTX,
                                       cubin or fatbin) */
    FERRY_CAN_COMPILE = 1 << 4,   /**< run source of its language, compiled at run time */
    FERRY_CAN_RUN_HOST_FUNCTION = 1 << 5, /**< run the host functions of kernels */
    FERRY_CAN_BATCH = 1 << 6,             /**< make many copies with one driver call */
    FERRY_CAN_PEER = 1 << 7,              /**< copy directly from another device of the context */
    FERRY_CAN_CAPTURE = 1 << 8,           /**< capture streams into CUDA graphs */
    FERRY_CAN_COOPERATE = 1 << 9,         /**< take launches with FERRY_LAUNCH_COOPERATIVE */
    FERRY_CAN_CLUSTER = 1 << 10,          /**< take launches with ferry_grid.cluster */
    FERRY_CAN_OVERLAP = 1 << 11,          /**< take launches with FERRY_LAUNCH_OVERLAP */
    FERRY_CAN_SHARE = 1 << 12             /**< share memory with other processes, see
                                               <ferry/share.h> */
} ferry_capability;

/** Language of the kernel code that a device runs. */
typedef enum ferry_language {
    FERRY_LANGUAGE_NONE = 0, /**< no code: the device runs host functions */
    FERRY_LANGUAGE_CUDA = 1,
    FERRY_LANGUAGE_HIP = 2, /**< HIP C++, or CUDA C++ */
    FERRY_LANGUAGE_OPENCL = 3
} ferry_language;

/** Properties of a place. The context owns the strings. */
typedef struct ferry_place_info {
    const char *kind;        /**< "host", "emulated", "cuda", "hip" or "opencl" */
    const char *name;        /**< name of the device, such as "NVIDIA H200" */
    int native;              /**< number of the device in its driver; 0 for the host */
    bool coherent;           /**< true: the device uses the host's memory, so nothing is copied */
    uint64_t capabilities;   /**< ferry_capability bits */
    int architecture;        /**< on CUDA the compute capability as 10 * major + minor; otherwise
                                  0 */
    int driver_version;      /**< on CUDA the CUDA version of the driver, on HIP the version of HIP,
                                  as 1000 * major + 10 * minor; otherwise 0 */
    ferry_language language; /**< language of the code that the place runs */
    const char *target;      /**< what its code is compiled for, such as "sm_90" on CUDA, and on
                                  OpenCL the names of the device and of its driver's version; "" for
                                  FERRY_LANGUAGE_NONE */
    void *native_context;    /**< the driver's context in which Ferry works, and which it owns
                                  until the context is destroyed: on CUDA the device's primary
                                  CUcontext, on OpenCL a cl_context of all devices of the platform,
                                  which the process keeps; NULL elsewhere */
    uint64_t reserved[4];
} ferry_place_info;

/** Memory at a place, in bytes. `total` is the sum of `free` and `used`. */
typedef struct ferry_memory_info {
    size_t total;  /**< memory of the place, or the limit of its pool if that is smaller, see
                        limit_bytes of ferry_pool_options */
    size_t free;   /**< what can still be allocated: the smaller of what the limit permits and what
                        is free at the place */
    size_t used;   /**< total - free. Without a limit this is the memory of this context, and on a
                        device also that of its other users. With a limit it is only the memory of
                        this context, and on the host only its pageable memory */
    size_t live;   /**< memory of this context's buffers and blocks, also pinned and managed,
                        without pools of ferry_pool_create() */
    size_t cached; /**< idle memory of this context's pools */
    uint64_t reserved[4];
} ferry_memory_info;

/** A number of copies, and the number of bytes that they moved. */
typedef struct ferry_transfer_count {
    uint64_t copies;
    uint64_t bytes;
} ferry_transfer_count;

/** Counts of a context's transfers since its creation or the last ferry_context_reset_stats(). */
typedef struct ferry_transfer_stats {
    ferry_transfer_count upload, download, device, peer, host, fill; /**< by direction */
    ferry_transfer_count direct; /**< uploads and downloads without the staging ring: of pinned
                                      host memory, or between a device and a file (file_direct) */
    ferry_transfer_count staged; /**< uploads and downloads through the staging ring, of pageable
                                      host memory, or of bytes of a file or of a conversion by the
                                      host */
    ferry_transfer_count peer_staged; /**< transfers between devices through the staging ring of the
                                           target device; `peer` includes them */
    uint64_t device_calls;      /**< driver calls of every kind; an access to bytes that are current
                                     at its place makes none */
    uint64_t batch_submissions; /**< transfers that made many copies at once, such as all rows of a
                                     region; the counts by direction include them */
    uint64_t batch_copies;      /**< copies of these; copies of adjacent ranges count as one */
    uint64_t auto_pinned;       /**< host replicas that Ferry page-locked automatically, see
                                     pin_after */
    uint64_t reserved[4];
} ferry_transfer_stats;

/**
 * Opens devices and creates a context over them. The caller owns `*out`, as its first owner. The
 * call blocks while drivers start.
 *
 * If no devices are named, the context uses the best CUDA device, or else the first HIP device, or
 * the host device where there is none, and logs its choice. Named devices are of one kind, such as
 * CUDA, and perhaps the host. Contexts share no pools, streams and staging rings.
 *
 * @return FERRY_OK; FERRY_ERROR_NO_DEVICE (a requested device is absent);
 *         FERRY_ERROR_INVALID_ARGUMENT (also if the list of devices is malformed or has more than
 *         15, or the tuning is wrong); FERRY_ERROR_UNSUPPORTED (devices of two kinds, such as
 *         "cuda,emulated"); FERRY_ERROR_IO (the trace file cannot be created);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_create(const ferry_context_options *options,
                                                            ferry_context **out);

/**
 * Sets `*out` to the context that the whole process shares, and adds an owner to it, who calls
 * ferry_context_destroy(). Libraries that know nothing of each other can exchange buffers through
 * it.
 *
 * The first call, and the next one after the last owner destroyed the context, creates it with
 * default options, and blocks as ferry_context_create() does. While another thread is destroying
 * it, the call returns the old context with a new owner, or a new one.
 * @return the same statuses as ferry_context_create().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_shared(ferry_context **out);

/**
 * Adds an owner to a context, who calls ferry_context_destroy() once, and returns the context. Does
 * not block. In a forked child the call changes nothing. The caller must be an owner, or must know
 * that another owner remains during the call.
 * @return `context`; NULL for NULL. In a callback that runs while the context is being destroyed,
 *         the call returns NULL and logs an error.
 * Threads: any.
 */
FERRY_API ferry_context *ferry_context_retain(ferry_context *context);

/**
 * Removes an owner of a context and sets `*context` to NULL. The last owner destroys the context:
 * this call blocks until all work of the context is done, and logs what is still alive. Then
 * handles of the context can only be destroyed, counted and asked for their info; all else on them
 * fails with FERRY_ERROR_INVALID_STATE.
 *
 * In a callback the call does not block: a separate thread destroys the context, or the call logs
 * an error and changes nothing. "How a context ends" in docs/concepts.md has the details, also of
 * forked children.
 * @param context NULL and a pointer to NULL have no effect
 * Threads: any. During the call of the last owner no other thread may be in a call on the context.
 */
FERRY_API void ferry_context_destroy(ferry_context **context);

/** Returns the number of devices, whose places are 1 to that number; 0 for NULL. Threads: any. */
FERRY_API int ferry_context_place_count(const ferry_context *context);

/**
 * Writes the properties of a place to `*out`. Does not block.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_get_place_info(ferry_context *context,
                                                                    int place,
                                                                    ferry_place_info *out);

/**
 * Writes the memory of a place to `*out`.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_DEVICE; FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_get_memory_info(ferry_context *context,
                                                                     int place,
                                                                     ferry_memory_info *out);

/**
 * Writes the transfer statistics of a context to `*out`. They are exact if no other call is
 * running. Does not block.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_get_transfer_stats(ferry_context *context,
                                                                        ferry_transfer_stats *out);

/**
 * Writes what memory the context holds to a file, as JSON: for each pool its slabs and blocks, with
 * the names of the buffers that own them and, in a checked run, the calls that made these buffers.
 * `ferry trace` sums it up and draws it. "What holds memory" in docs/debugging.md describes the
 * file. If the context has a trace, what it has so far is written to its file, too, which the
 * snapshot names.
 *
 * Each pool is described as it is at one moment. Idle blocks that threads keep for themselves go
 * back to their pool. Blocks until the file is written.
 *
 * With the environment variable FERRY_SNAPSHOT, a context writes a snapshot by itself when an
 * allocation from one of its pools fails for lack of memory for the first time.
 * @param path file to create or replace. If another snapshot or trace is being written there,
 *         ".pid" and the process id are appended to the name
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also for an empty path); FERRY_ERROR_IO (the file
 *         cannot be written, such as on a full disk; it may contain a part of the text);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_snapshot(ferry_context *context,
                                                              const char *path);

/**
 * Sets statistics of a context to zero: all of ferry_transfer_stats, the counters of each buffer in
 * ferry_buffer_info, and for every pool, also of ferry_pool_create(), the allocations, frees, hits,
 * misses and evictions of ferry_pool_stats and ferry_pool_class_stats. The peaks of the pools
 * become the present values, and values of memory that is held now stay. The reset is exact if no
 * other call is running. Does not block.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_reset_stats(ferry_context *context);

/**
 * Page-locks `bytes` bytes of the program's memory at `memory`, for all devices of the context. The
 * call blocks until that is done.
 *
 * Copies from and to this memory, and buffers that wrap it, then do not use the staging ring,
 * except uploads of at most 64 KiB, which need not wait for the device then. The program owns the
 * memory, and must unregister it before freeing it. It does not count against pinned_bytes_limit.
 *
 * Memory that another library has page-locked for CUDA needs no registration, which fails with
 * FERRY_ERROR_CONFLICT: the driver knows it, and copies of more than 64 KiB of it do not use the
 * staging ring. Its owner may free it when the copies are complete. Such memory is staged while
 * another context of the process has registered memory.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also if `bytes` is 0); FERRY_ERROR_UNSUPPORTED
 *         (no device of the context page-locks memory); FERRY_ERROR_CONFLICT (a part of the memory
 *         is already registered); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE;
 *         FERRY_ERROR_INVALID_STATE. After a failure nothing is registered.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_register_host(ferry_context *context,
                                                                   void *memory, size_t bytes);
/**
 * Ends what ferry_context_register_host() did with the memory that begins at `memory`.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also if no registered range begins there);
 *         FERRY_ERROR_BUSY (a copy is using the memory); FERRY_ERROR_DEVICE;
 *         FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_unregister_host(ferry_context *context,
                                                                     void *memory);

/**
 * Returns the default stream of the device at `place`, which the context owns; on CUDA the legacy
 * default stream. Returns NULL for the host, for an unknown place, in a forked child, and after the
 * context was destroyed. Threads: any.
 */
FERRY_API ferry_stream *ferry_context_stream(ferry_context *context, int place);

/**
 * Sets `*out` to a new handle of the newest live buffer that was created with this name, which the
 * caller destroys. Does not block.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also if no live buffer has the name);
 *         FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_find(ferry_context *context, const char *name,
                                                          ferry_buffer **out);

FERRY_END_DECLS

#endif
