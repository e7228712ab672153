/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CONTEXT_H
#define FERRY_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/scope.h>
#include <ferry/status.h>

FERRY_BEGIN_DECLS

/** Direction of a transfer. The meaning of a value never changes. */
typedef enum ferry_direction {
    FERRY_DIRECTION_UPLOAD = 1,   /**< host to device */
    FERRY_DIRECTION_DOWNLOAD = 2, /**< device to host */
    FERRY_DIRECTION_DEVICE = 3,   /**< inside one device */
    FERRY_DIRECTION_PEER = 4,     /**< from one device to another */
    FERRY_DIRECTION_HOST = 5,     /**< inside host memory */
    FERRY_DIRECTION_FILL = 6      /**< a fill: the device or the host writes one value over a range,
                                       without a source */
} ferry_direction;

/**
 * Describes one transfer. Ferry passes it to the trace callback after it has queued the transfer.
 * The strings are valid only during the callback.
 */
typedef struct ferry_trace {
    const char *buffer;        /**< the buffer's name; "" when it has none */
    const char *reason;        /**< the call that needed the transfer, such as "read_device" */
    size_t bytes;
    int source_place;          /**< place from which the bytes come; -1 for a fill and for the
                                    caller's own memory */
    int target_place;          /**< -1 for the caller's own memory */
    ferry_direction direction;
    bool staged;               /**< the bytes were copied through page-locked chunks of the staging
                                    ring */
    const char *site;          /**< the functions of the program that made this call, innermost
                                    first, such as "step+0x41, main+0x20 (./program)"; "" when
                                    unknown. Known only in checked runs (docs/debugging.md) */
} ferry_trace;

/**
 * Receives a description of each transfer, on the thread that queued it. A watching callback, see
 * "Callbacks" in <ferry/status.h>.
 */
typedef void ferry_trace_callback(const ferry_trace *trace, void *user);

/** Value of ferry_context_options.pin_after: Ferry page-locks no replica automatically. */
#define FERRY_PIN_NEVER ((size_t)-1)

/**
 * Options of a new context. NULL, or zero in any field, means the default. Values outside the
 * documented range are clamped to it.
 */
typedef struct ferry_context_options {
    const char *devices;           /**< devices to open, such as "host", "emulated:2", "cuda",
                                        "cuda:0,cuda:1" or "cuda:all"; NULL: those of the
                                        environment variable FERRY_DEVICE, or without it the best
                                        device */
    ferry_log_callback *log;       /**< NULL: no messages */
    void *log_user;
    ferry_trace_callback *trace;   /**< NULL: no trace */
    void *trace_user;
    size_t buffer_bytes_limit;     /**< largest buffer in bytes; default: limited by size_t only */
    size_t device_bytes_limit;     /**< most bytes that the pool of each device holds; default: the
                                        memory of the device. At the limit Ferry evicts unused
                                        replicas to make room. The device "host" is not limited by
                                        it but by host_bytes_limit; a context with only that device
                                        logs a warning */
    size_t host_bytes_limit;       /**< most bytes that the pool of pageable host memory holds;
                                        default: physical memory */
    size_t pinned_bytes_limit;     /**< most bytes that the pool of pinned memory and the
                                        automatically page-locked replicas hold together; default: a
                                        quarter of physical memory */
    const char *tuning;            /**< settings of the staging ring (page-locked chunks through
                                        which pageable memory is copied) and of emulated devices,
                                        such as "staging.chunk=2M emulated.latency=10us";
                                        docs/tuning.md lists them. A key here overrides the same key
                                        in the environment variable FERRY_TUNING. Keys may change
                                        between releases. A wrong key or value fails with
                                        FERRY_ERROR_INVALID_ARGUMENT. Copied; NULL: none */
    const char *allocation_log;    /**< path prefix of allocation logs. Each pool logs its
                                        allocations and frees, in the CSV format of RMM (NVIDIA's
                                        memory manager), to <prefix>.<place>.<kind>.csv, such as
                                        run.cuda-0.device.csv; `ferry replay` reads the file. The
                                        pool empties the file first, and the file is complete when
                                        the context is destroyed. Each allocation and free then also
                                        costs a lock and a line of text. If the file cannot be
                                        created, the first call that needs the pool fails with
                                        FERRY_ERROR_IO. NULL: the value of the environment variable
                                        FERRY_ALLOCATION_LOG, to which later contexts of the process
                                        append .2, .3 and so on; without it, no log. Copied */
    size_t pin_after;              /**< after how many transfers Ferry page-locks a host replica
                                        above 64 KiB. It does so inside the call that makes the next
                                        transfer. A transfer counts when it moves at least an eighth
                                        of the replica, and a batch of transfers counts as one.
                                        Default 10, at most 65535; FERRY_PIN_NEVER: never */
    bool growable_device_memory;   /**< whether device pools build their memory from small chunks,
                                        on devices with FERRY_CAN_GROW. The pool can then map idle
                                        chunks together at a new address without copying, so that no
                                        large allocation fails because free memory is fragmented.
                                        Such memory has no legacy IPC handles, and some network
                                        libraries do not accept it. Default: false */
    const char *trace_file;        /**< path of a trace: transfers, waits, launches, scopes and pool
                                        growth in the Chrome trace event format, which Perfetto and
                                        `ferry trace` read; docs/tracing.md describes it. The file
                                        is emptied first, and is complete when the context is
                                        destroyed. If it cannot be created, the context creation
                                        fails with FERRY_ERROR_IO. NULL: the value of the
                                        environment variable FERRY_TRACE, to which later contexts of
                                        the process append .2, .3 and so on; without it, no trace.
                                        Copied */
    uint64_t reserved[3];
} ferry_context_options;

/**
 * Capabilities of a device: bits of ferry_place_info.capabilities. The meaning of a bit never
 * changes.
 */
typedef enum ferry_capability {
    FERRY_CAN_PIN = 1 << 0,             /**< the device can page-lock host memory */
    FERRY_CAN_MANAGE = 1 << 1,          /**< the device has managed memory: one pointer for host and
                                             device, which may both use it at the same time */
    FERRY_CAN_MANAGE_CONCURRENTLY = 1 << 2, /**< the device prefetches managed memory, and its
                                                 driver takes the advice of ferry_buffer_advise() */
    FERRY_CAN_LOAD_CODE = 1 << 3,       /**< the device runs compiled kernel code (PTX, cubin or
                                             fatbin) */
    FERRY_CAN_COMPILE = 1 << 4,         /**< the device runs CUDA source, which Ferry compiles at
                                             run time */
    FERRY_CAN_RUN_HOST_FUNCTION = 1 << 5,   /**< the device runs kernels as C functions of the
                                                 host */
    FERRY_CAN_BATCH = 1 << 6,           /**< the device makes many copies in one driver call */
    FERRY_CAN_PEER = 1 << 7,            /**< the device copies from another device of the context
                                             without the host */
    FERRY_CAN_CAPTURE = 1 << 8,         /**< the device can capture streams into CUDA graphs */
    FERRY_CAN_GROW = 1 << 9             /**< the device maps chunks of its memory to a new address
                                             without copying them */
} ferry_capability;

/** Properties of a place. The context owns the strings. */
typedef struct ferry_place_info {
    const char *kind;         /**< "host", "emulated" or "cuda" */
    const char *name;         /**< such as "NVIDIA H200" */
    int native;               /**< number of the device in its driver; 0 for the host */
    bool coherent;            /**< the device uses the host's memory, so that nothing is ever
                                   copied */
    uint64_t capabilities;    /**< ferry_capability bits */
    int architecture;         /**< on CUDA the compute capability, 10 * major + minor; else 0 */
    int driver_version;       /**< on CUDA the version that the driver supports, 1000 * major + 10 *
                                   minor; else 0 */
    uint64_t reserved[4];
} ferry_place_info;

/** Memory at a place, in bytes: free + used = total. */
typedef struct ferry_memory_info {
    size_t total; /**< memory of the place, or the context's limit when that is less */
    size_t free;  /**< memory that can still be allocated: what the limit permits and the place
                       still has */
    size_t used;  /**< total - free. Without a limit this is the memory of this context and, on a
                       device, of all other users of the device. With a limit it is only the memory
                       of this context, and on the host only its pageable memory */
    size_t live;  /**< memory of this context's buffers and blocks, including pinned and managed
                       memory, but not pools of ferry_pool_create() */
    size_t cached; /**< memory that this context's pools keep for later allocations */
    uint64_t reserved[4];
} ferry_memory_info;

/** How many copies were made, and how many bytes they moved. */
typedef struct ferry_transfer_count {
    uint64_t copies;
    uint64_t bytes;
} ferry_transfer_count;

/** Transfers of a context since it was created, or since ferry_context_reset_stats(). */
typedef struct ferry_transfer_stats {
    ferry_transfer_count upload, download, device, peer, host, fill; /**< by direction */
    ferry_transfer_count direct; /**< uploads from pinned memory and downloads to it, made without
                                      the staging ring */
    ferry_transfer_count staged; /**< uploads and downloads through the staging ring: those of
                                      pageable memory, of files, and of bytes that the host
                                      converts */
    ferry_transfer_count peer_staged; /**< transfers between devices through the staging ring of the
                                           target device; `peer` counts them too */
    uint64_t device_calls;       /**< calls to the driver, of every kind; an access whose place is
                                      current makes none */
    uint64_t batch_submissions;  /**< transfers that made many copies at once, such as the rows of a
                                      region; each direction counts them too */
    uint64_t batch_copies;       /**< copies in the transfers of batch_submissions; copies of
                                      adjacent ranges count as one */
    uint64_t auto_pinned;        /**< host replicas that the library page-locked after repeated
                                      transfers */
    uint64_t reserved[4];
} ferry_transfer_stats;

/**
 * Opens devices and creates a context over them. The caller owns `*out`.
 *
 * `options->devices` names the devices. If it is NULL, the environment variable FERRY_DEVICE names
 * them. Without both, the context uses the best CUDA device, or the host device where there is no
 * CUDA device, and logs its choice. All devices of a context are of one kind; the list may name the
 * host beside them. A context does not share its memory pools, streams and staging rings with other
 * contexts. The call blocks while drivers start.
 *
 * The owners of a context are counted. Its creator is the first owner, and ferry_context_retain()
 * adds others.
 *
 * @return FERRY_OK; FERRY_ERROR_NO_DEVICE (a requested device is absent);
 *         FERRY_ERROR_INVALID_ARGUMENT (a malformed list, more than 15 devices, wrong tuning, `out`
 *         NULL); FERRY_ERROR_UNSUPPORTED (devices of two kinds, such as "cuda,emulated");
 *         FERRY_ERROR_IO (the trace file cannot be created); FERRY_ERROR_OUT_OF_MEMORY;
 *         FERRY_ERROR_DEVICE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_create(const ferry_context_options *options, ferry_context **out);

/**
 * Sets `*out` to the one context that the whole process shares, and adds an owner to it. Libraries
 * that do not know each other use it to exchange buffers.
 *
 * The first call creates it with default options, and blocks as ferry_context_create(). If the last
 * owner has destroyed that context, the next call creates a new one. If another thread is just
 * destroying it, the call returns either the old context with a new owner, or a new context. Call
 * ferry_context_destroy() once for each successful call.
 * @return as ferry_context_create().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_shared(ferry_context **out);

/**
 * Adds an owner to a context, and returns the context. Each owner calls ferry_context_destroy()
 * once, and the last such call ends the context. Does not block, and works in every callback.
 *
 * The caller must be an owner, or must know that another owner remains during the call. Buffers,
 * streams and other objects do not own their context. In a forked child the call changes nothing.
 * @return `context`; NULL for NULL. Inside a callback that runs while the context is being
 *         destroyed, the call returns NULL and logs an error.
 * Threads: any.
 */
FERRY_API ferry_context *ferry_context_retain(ferry_context *context);

/**
 * Removes an owner of a context and sets `*context` to NULL. The last owner destroys the context.
 *
 * While other owners remain, the call only logs how many remain, and the labels of leases, with the
 * level FERRY_LOG_INFO. Such a call does not block, and works in every callback. The call of the
 * last owner blocks until all work of the context is done, logs which objects are still alive, and
 * frees all memory of the context.
 *
 * Buffers that are still alive are logged by name and bytes. Afterwards only the functions that
 * destroy a buffer, count its elements or get its info work on their handles. Streams, events and
 * kernels that outlive the context can only be destroyed. Every other call on an object of the
 * context fails with FERRY_ERROR_INVALID_STATE.
 *
 * After fork() the same applies in the child to every object of the parent. Destroying a handle or
 * closing a scope there does nothing, and buffers report FERRY_STATE_UNINITIALIZED. Default streams
 * no longer exist in the child. The parent is not affected. The child may create contexts, but no
 * CUDA context when the parent had created one; CUDA does not allow that.
 *
 * The last owner may also be a callback. A separate thread then destroys the context, and the call
 * returns at once. Where the callback runs decides whether that is allowed:
 * - It is allowed on the context's own threads. They run asynchronous calls, and the host functions
 *   of an asynchronous device. The separate thread waits for the callback to return.
 * - It is allowed on other threads if all calls that the thread is inside are on other contexts,
 *   and each callback that it is inside is on_release, ferry_buffer_visit, ferry_host_function,
 *   ferry_file_work or keep_going of ferry_file_pipeline_options.
 * - It is allowed in the deleter of a tensor or array that this context imported, when the import
 *   is destroyed, unwrapped or abandoned outside of a callback. The context ends after that call.
 * - Elsewhere it is not allowed, because the callback may be inside a call on this context. The
 *   call then logs an error, and the context and `*context` stay as they are. The same happens when
 *   the thread cannot be started.
 *
 * The separate thread calls the callbacks log, trace and on_release as the call itself would. Its
 * last log message has the level FERRY_LOG_INFO and says that the context has ended. exit() waits
 * for such threads, unless a callback calls exit(). _exit() does not wait.
 *
 * While a context is being destroyed, callbacks cannot create objects in it or retain it.
 * @param context NULL and a pointer to NULL have no effect
 * Threads: any, also while other owners use the context on other threads. During the call of the
 * last owner no other thread may be inside a call on the context.
 */
FERRY_API void ferry_context_destroy(ferry_context **context);

/**
 * Returns the number of devices. Their places are 1 to that number. Returns 0 for NULL. Threads:
 * any.
 */
FERRY_API int ferry_context_place_count(const ferry_context *context);

/**
 * Copies the properties of a place to `*out`. Place 0 is the host. Does not block.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL, an unknown place),
 *         FERRY_ERROR_INVALID_STATE (a destroyed context, or a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_get_place_info(ferry_context *context, int place, ferry_place_info *out);

/**
 * Copies the memory figures of a place to `*out`. They may change as soon as the call has returned.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL, an unknown place), FERRY_ERROR_DEVICE,
 *         FERRY_ERROR_INVALID_STATE (a destroyed context, or a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_get_memory_info(ferry_context *context, int place, ferry_memory_info *out);

/**
 * Copies the transfer statistics to `*out`. They are exact when no call is running. Does not block.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL), FERRY_ERROR_INVALID_STATE (a destroyed
 *         context, or a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_get_transfer_stats(ferry_context *context, ferry_transfer_stats *out);

/**
 * Resets the statistics of a context.
 *
 * The call sets every member of ferry_transfer_stats to zero, and the counters of each buffer in
 * ferry_buffer_info. In all pools of the context, including those of ferry_pool_create(), it sets
 * allocations, frees, hits, misses and evictions to zero, also those of each size class.
 * peak_reserved_bytes becomes reserved_bytes. The figures of memory that is held now do not change,
 * and neither does the behaviour of the pools.
 *
 * The call does not block. Calls that run on other threads at the same time may be counted, not
 * counted, or counted in part. The reset is exact when no other call is running.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL), FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_reset_stats(ferry_context *context);

/**
 * Page-locks `bytes` bytes of the program's memory at `memory`, for all devices of the context.
 *
 * Copies from and to this memory, and buffers that wrap it, then use the device's copy engine
 * directly instead of the staging ring. A call that copies still returns only when the copy is
 * done; an asynchronous one completes its event then. Ferry registers the memory with the driver in
 * several parts. The program owns the memory, and must unregister it before it frees it. The memory
 * does not count against pinned_bytes_limit of ferry_context_options. The call blocks until the
 * memory is page-locked.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, or a size of 0); FERRY_ERROR_UNSUPPORTED
 *         (no device of the context page-locks memory); FERRY_ERROR_CONFLICT (a part of the memory
 *         is already registered); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE;
 *         FERRY_ERROR_INVALID_STATE. After a failure nothing is registered.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_register_host(ferry_context *context, void *memory, size_t bytes);
/**
 * Unregisters the range of ferry_context_register_host() that begins at `memory`.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, or no registered range begins there);
 *         FERRY_ERROR_BUSY (a copy is using the memory); FERRY_ERROR_DEVICE;
 *         FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_unregister_host(ferry_context *context, void *memory);

/**
 * Returns the default stream of the device at `place`; on CUDA that is the legacy default stream.
 * The context owns the stream. Returns NULL for the host and for an unknown place. Threads: any.
 */
FERRY_API ferry_stream *ferry_context_stream(ferry_context *context, int place);

/**
 * Finds the live buffer that was created with this name, and sets `*out` to it. If several buffers
 * have the name, it finds the newest. The call adds an owner, so the caller must destroy the
 * handle. Does not block.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL, or an unknown name),
 *         FERRY_ERROR_INVALID_STATE (a destroyed context, or a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_find(ferry_context *context, const char *name, ferry_buffer **out);

FERRY_END_DECLS

#endif
