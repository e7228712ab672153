/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CONTEXT_H
#define FERRY_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/scope.h>
#include <ferry/status.h>

FERRY_BEGIN_DECLS

/** Direction of a transfer. A value never changes its meaning. */
typedef enum ferry_direction {
    FERRY_DIRECTION_UPLOAD = 1,   /**< host to device */
    FERRY_DIRECTION_DOWNLOAD = 2, /**< device to host */
    FERRY_DIRECTION_DEVICE = 3,   /**< inside one device */
    FERRY_DIRECTION_PEER = 4,     /**< from one device to another */
    FERRY_DIRECTION_HOST = 5,     /**< inside host memory */
    FERRY_DIRECTION_FILL = 6      /**< the device or the host writes a value; the fill has no
                                       source */
} ferry_direction;

/**
 * Describes one transfer. Passed to the trace callback after the transfer was queued; strings are
 * valid only during the callback.
 */
typedef struct ferry_trace {
    const char *buffer;        /**< the buffer's name; "" when it has none */
    const char *reason;        /**< the call that needed it, such as "read_device" */
    size_t bytes;
    int source_place;          /**< -1 for a fill and for the caller's own memory */
    int target_place;          /**< -1 for the caller's own memory */
    ferry_direction direction;
    bool staged;               /**< the bytes went through pinned chunks */
    const char *site;          /**< call site of that call, innermost function first, such as
                                    "step+0x41, main+0x20 (./program)"; "" when unknown and
                                    outside checked runs (docs/debugging.md) */
} ferry_trace;

/**
 * Receives each transfer, on the thread that queued it. A watching callback, see "Callbacks" in
 * <ferry/status.h>.
 */
typedef void ferry_trace_callback(const ferry_trace *trace, void *user);

/** As `pin_after`: no replica is page-locked automatically. */
#define FERRY_PIN_NEVER ((size_t)-1)

/**
 * Options of a new context. NULL, or zero in any field, means the default. Values outside the
 * documented range are clamped to it.
 */
typedef struct ferry_context_options {
    const char *devices;           /**< list such as "host", "emulated:2", "cuda",
                                        "cuda:0,cuda:1", "cuda:all"; NULL: FERRY_DEVICE, else the
                                        best device */
    ferry_log_callback *log;       /**< NULL: no messages */
    void *log_user;
    ferry_trace_callback *trace;   /**< NULL: no trace */
    void *trace_user;
    size_t buffer_bytes_limit;     /**< largest buffer in bytes; default: limited by size_t only */
    size_t device_bytes_limit;     /**< pool limit of each device in bytes; default: the device's
                                        memory. At the limit, unused replicas are evicted to make
                                        room. It has no effect on the device "host", whose memory
                                        host_bytes_limit bounds; a context with only that device
                                        logs a warning */
    size_t host_bytes_limit;       /**< pool limit of pageable host replicas in bytes; default:
                                        physical memory */
    size_t pinned_bytes_limit;     /**< limit in bytes of the pinned pool and of automatically
                                        pinned replicas together; default: a quarter of physical
                                        memory */
    const char *tuning;            /**< settings of the staging ring and of emulated devices,
                                        such as "staging.chunk=2M emulated.latency=10us";
                                        docs/tuning.md lists them. Each key overrides the same
                                        key of FERRY_TUNING. Keys are not part of the ABI. A
                                        wrong key or value fails with
                                        FERRY_ERROR_INVALID_ARGUMENT. Copied; NULL: none */
    const char *allocation_log;    /**< each pool logs its allocations and frees as RMM's CSV to
                                        <this>.<place>.<kind>.csv, such as run.cuda-0.device.csv,
                                        which `ferry replay` reads. The pool empties the file
                                        first; the file is complete when the context is
                                        destroyed. Each allocation and free then costs a lock and
                                        a line. If the file cannot be created, the first call
                                        that needs the pool fails with FERRY_ERROR_IO. NULL:
                                        FERRY_ALLOCATION_LOG, to which later contexts of the
                                        process append .2, .3 and so on; else no log. Copied */
    size_t pin_after;              /**< number of transfers after which a host replica above 64
                                        KiB is page-locked automatically, inside the call that
                                        makes the next one. A transfer counts when it moves at
                                        least an eighth of the replica; a batch counts as one.
                                        Default 10, at most 65535; FERRY_PIN_NEVER: never */
    bool growable_device_memory;   /**< the pool builds device memory from chunks, on devices
                                        with FERRY_CAN_GROW. It maps idle chunks together at a
                                        new address, without a copy, so that fragmentation makes
                                        no large allocation fail. Such memory has no legacy IPC
                                        handles, and some network libraries do not accept it.
                                        Default: false */
    const char *trace_file;        /**< path of a trace: transfers, waits, launches, scopes and pool
                                        growth in the Chrome trace event format, which Perfetto and
                                        `ferry trace` read; docs/tracing.md describes it. The file
                                        is emptied first, and is complete when the context is
                                        destroyed. If it cannot be created, the context creation
                                        fails with FERRY_ERROR_IO. NULL: FERRY_TRACE, to which later
                                        contexts of the process append .2, .3 and so on; else no
                                        trace. Copied */
    uint64_t reserved[3];
} ferry_context_options;

/** Capabilities of a device; bits of ferry_place_info.capabilities. A value never changes its meaning. */
typedef enum ferry_capability {
    FERRY_CAN_PIN = 1 << 0,             /**< page-locks host memory */
    FERRY_CAN_MANAGE = 1 << 1,          /**< managed memory: one pointer for host and device,
                                             which may access it at the same time */
    FERRY_CAN_MANAGE_CONCURRENTLY = 1 << 2, /**< prefetches managed memory and accepts advice
                                                 about it */
    FERRY_CAN_LOAD_CODE = 1 << 3,       /**< runs precompiled images */
    FERRY_CAN_COMPILE = 1 << 4,         /**< compiles CUDA source at run time */
    FERRY_CAN_RUN_HOST_FUNCTION = 1 << 5,   /**< runs kernels as C functions */
    FERRY_CAN_BATCH = 1 << 6,           /**< makes many copies in one driver call */
    FERRY_CAN_PEER = 1 << 7,            /**< copies from another device of the context without
                                             the host */
    FERRY_CAN_CAPTURE = 1 << 8,         /**< captures streams into graphs */
    FERRY_CAN_GROW = 1 << 9             /**< remaps chunks of device memory to a new address
                                             without copies */
} ferry_capability;

/** Properties of a place. The context owns the strings. */
typedef struct ferry_place_info {
    const char *kind;         /**< "host", "emulated" or "cuda" */
    const char *name;         /**< such as "NVIDIA H200" */
    int native;               /**< the driver's ordinal; 0 for the host */
    bool coherent;            /**< shares the host's memory: nothing is ever copied */
    uint64_t capabilities;    /**< ferry_capability bits */
    int architecture;         /**< compute capability, 10 * major + minor, on CUDA; else 0 */
    int driver_version;       /**< 1000 * major + 10 * minor on CUDA; else 0 */
    uint64_t reserved[4];
} ferry_place_info;

/** Memory at a place, in bytes: free + used = total. */
typedef struct ferry_memory_info {
    size_t total; /**< memory of the place, or the context's limit when that is less */
    size_t free;  /**< memory that can still be allocated, under the limit and from what the
                       place has left */
    size_t used;  /**< total - free. Without a limit, it is the memory of this context and, on a
                       device, of all other users. With a limit, only this context's memory
                       counts, and on the host only its pageable memory */
    size_t live;  /**< memory of this context's buffers and blocks, also pinned and managed ones;
                       without pools of ferry_pool_create() */
    size_t cached; /**< idle memory of this context's pools */
    uint64_t reserved[4];
} ferry_memory_info;

/** A number of copies, and their bytes. */
typedef struct ferry_transfer_count {
    uint64_t copies;
    uint64_t bytes;
} ferry_transfer_count;

/** Transfers of a context since it was created, or since ferry_context_reset_stats(). */
typedef struct ferry_transfer_stats {
    ferry_transfer_count upload, download, device, peer, host, fill; /**< by direction */
    ferry_transfer_count direct; /**< uploads and downloads straight from or to pinned memory */
    ferry_transfer_count staged; /**< uploads and downloads through the staging ring: of pageable
                                      memory, of files, and of bytes that the host converts */
    ferry_transfer_count peer_staged; /**< transfers between devices through the staging ring of
                                           the target's device; also counted in `peer` */
    uint64_t device_calls;       /**< device calls of every kind; an access that finds its bytes
                                      current makes none */
    uint64_t batch_submissions;  /**< transfers of many copies at once: batches and rows; they
                                      count by direction too */
    uint64_t batch_copies;       /**< copies in these transfers; adjacent ranges count as one */
    uint64_t auto_pinned;        /**< host replicas that the library page-locked after repeated
                                      transfers */
    uint64_t reserved[4];
} ferry_transfer_stats;

/**
 * Opens devices and creates a context over them. The caller owns `*out`.
 *
 * `options->devices` names the devices, else the environment variable FERRY_DEVICE. Without both,
 * the context uses the best CUDA device, else the host device, and logs that. The devices of a
 * context are of one kind, except that the list may also name the host. A context does not share
 * its memory pools, streams and staging rings with other contexts. The call blocks while drivers
 * start.
 *
 * A context is counted: its creator is the first owner, and ferry_context_retain() adds others.
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
 * Returns the context that the process shares in `*out`, and adds an owner. Libraries that do not
 * know each other use it to exchange buffers.
 *
 * The first call creates it with default options, and blocks as ferry_context_create(). So does a
 * call after the last owner has destroyed it. A call at the same time as that destroy returns
 * either the old context with a new owner, or a new context. Balance each success with one
 * ferry_context_destroy().
 * @return as ferry_context_create().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_shared(ferry_context **out);

/**
 * Adds an owner to a context, and returns it. Each owner is given back with
 * ferry_context_destroy(), and the last one ends the context. Does not block, and works in every
 * callback.
 *
 * Whoever calls this is an owner, or knows that another one remains during the call. Buffers,
 * streams and other objects do not own their context. In a forked child the call changes nothing.
 * @return `context`; NULL for NULL. NULL also for a context that its last owner has destroyed,
 *         while callbacks of its end run; that is logged as an error.
 * Threads: any.
 */
FERRY_API ferry_context *ferry_context_retain(ferry_context *context);

/**
 * Gives one ownership of a context back and sets `*context` to NULL.
 *
 * While other owners remain, the call only logs how many, and the labels of leases, with the level
 * FERRY_LOG_INFO. It does not block, and works in every callback. The last owner ends the context.
 * Its call blocks until all work of the context is done, reports what is still alive, and frees all
 * memory of the context. Any thread may do that.
 *
 * Buffers that are still alive are logged by name and bytes. Only destroy, count and info still
 * work on their handles. Streams, events and kernels that outlive the context can only be
 * destroyed. Every other call on its objects fails with FERRY_ERROR_INVALID_STATE.
 *
 * The same applies to every object of the parent in a forked child. Destroying a handle or closing
 * a scope there does nothing, and buffers report FERRY_STATE_UNINITIALIZED. Default streams no
 * longer exist in the child. The parent is not affected. The child may create contexts, but no CUDA
 * context when the parent had created one; CUDA does not allow that.
 *
 * The last owner may also be a callback. A separate thread then ends the context, and the call
 * returns at once:
 * - That is allowed on threads of the context itself, which run asynchronous calls, and host
 *   functions where the device is asynchronous. The end waits for the callback to return.
 * - It is allowed on other threads when the calls around the callback are on other contexts, and
 *   each of the callbacks is on_release, ferry_buffer_visit, ferry_host_function, ferry_file_work
 *   or keep_going of ferry_file_pipeline_options.
 * - It is allowed in the deleter of a tensor or array that this context imported, when the import is
 *   destroyed, unwrapped or abandoned outside of a callback. The context ends after that call.
 * - Elsewhere a call of the program on this context may be around the callback. The call logs an
 *   error, and the context and `*context` stay. The same applies when the thread cannot be started.
 *
 * The separate thread calls log, trace and on_release like the call itself. Its last call of log
 * has the level FERRY_LOG_INFO and says that the context has ended. exit() waits for such threads,
 * but not when a callback calls it. _exit() does not wait.
 *
 * While a context ends, callbacks cannot create objects in it or retain it.
 * @param context NULL and a pointer to NULL have no effect
 * Threads: any, also while owners on other threads use the context. When the last owner calls, no
 * other thread may be inside a call on it.
 */
FERRY_API void ferry_context_destroy(ferry_context **context);

/** Returns the number of devices, whose places are 1..count; 0 for NULL. Threads: any. */
FERRY_API int ferry_context_place_count(const ferry_context *context);

/**
 * Copies the properties of a place to `*out`. Place 0 is the host. Does not block.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL, an unknown place),
 *         FERRY_ERROR_INVALID_STATE (a destroyed context, or a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_get_place_info(ferry_context *context, int place, ferry_place_info *out);

/**
 * Copies the memory figures of a place to `*out`. A snapshot.
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
 * The call sets every member of ferry_transfer_stats to zero. In all pools of the context, also
 * those of ferry_pool_create(), it resets the cumulative counters, in total and of each size class.
 * These are allocations, frees, hits, misses and evictions. peak_reserved_bytes becomes
 * reserved_bytes. Figures of memory that is held now stay. Pools behave as before. The counters of
 * each buffer in ferry_buffer_info become zero as well.
 *
 * The call does not block. A call that runs at the same time may count before the reset, after it,
 * or in part. The reset is exact when no other call is running.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL), FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_reset_stats(ferry_context *context);

/**
 * Page-locks `bytes` bytes of the program's memory at `memory`, for all devices of the context.
 *
 * Copies from and to it, and buffers that wrap it, then use the copy engine directly instead of the
 * staging ring. Such copies still complete before they return, or before their event does, as those
 * of pageable memory do. The program keeps the memory, and must unregister it before it frees it.
 * The memory is registered in pieces, and does not count against options.pinned_bytes_limit. The
 * call blocks until the memory is page-locked.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, or a size of 0); FERRY_ERROR_UNSUPPORTED
 *         (no device of the context page-locks memory); FERRY_ERROR_CONFLICT (part of it is already
 *         registered); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE; FERRY_ERROR_INVALID_STATE.
 *         After a failure nothing is registered.
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
 * Returns the default stream of a device, on CUDA the legacy default stream. The context owns it.
 * Returns NULL for the host and for an unknown place. Threads: any.
 */
FERRY_API ferry_stream *ferry_context_stream(ferry_context *context, int place);

/**
 * Returns the live buffer that was created with this name in `*out`, the newest one when several
 * share it. The call adds an owner: destroy the handle. Does not block.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL, or an unknown name),
 *         FERRY_ERROR_INVALID_STATE (a destroyed context, or a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_find(ferry_context *context, const char *name, ferry_buffer **out);

FERRY_END_DECLS

#endif
