/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CONTEXT_H
#define FERRY_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/scope.h>
#include <ferry/status.h>

FERRY_BEGIN_DECLS

/** Which way bytes went. Values are final. */
typedef enum ferry_direction {
    FERRY_DIRECTION_UPLOAD = 1,   /**< host to device */
    FERRY_DIRECTION_DOWNLOAD = 2, /**< device to host */
    FERRY_DIRECTION_DEVICE = 3,   /**< inside one device */
    FERRY_DIRECTION_PEER = 4,     /**< from device to device */
    FERRY_DIRECTION_HOST = 5,     /**< inside host memory */
    FERRY_DIRECTION_FILL = 6      /**< written by the device or the host, from nowhere */
} ferry_direction;

/** One transfer, told to the trace callback after it was queued. Strings are good during the call. */
typedef struct ferry_trace {
    const char *buffer;        /**< the buffer's name; "" when it has none */
    const char *reason;        /**< the call that needed it, such as "read_device" */
    size_t bytes;
    int source_place;          /**< -1 for a fill and for the caller's own memory */
    int target_place;          /**< -1 for the caller's own memory */
    ferry_direction direction;
    bool staged;               /**< went through pinned chunks */
    const char *site;          /**< where the program made that call, such as "step+0x41, main+0x20 (./program)", the innermost function first; "" but
                                    in checked runs (docs/debugging.md), and where it is not known */
} ferry_trace;

/** Receives each transfer. Runs on the thread that queued it. A watching callback, see "Callbacks" in <ferry/status.h>. */
typedef void ferry_trace_callback(const ferry_trace *trace, void *user);

/** As `pin_after`: never. */
#define FERRY_PIN_NEVER ((size_t)-1)

/** How to create a context. NULL, or zero in any field, means the default. A number outside the bounds that are told counts as the nearest. */
typedef struct ferry_context_options {
    const char *devices;           /**< list such as "host", "emulated:2", "cuda", "cuda:0,cuda:1", "cuda:all"; NULL: FERRY_DEVICE, else best */
    ferry_log_callback *log;       /**< NULL: silent */
    void *log_user;
    ferry_trace_callback *trace;   /**< NULL: none */
    void *trace_user;
    size_t buffer_bytes_limit;     /**< largest buffer; default: no limit but size_t */
    size_t device_bytes_limit;     /**< pool limit of each device; default: what the device has. When it is reached, copies of buffers that nobody uses make
                                        room. It does not bound the device "host", whose memory is the host's: there the next one does. A context
                                        with no other device logs a warning */
    size_t host_bytes_limit;       /**< pool limit of pageable host copies; default: physical memory */
    size_t pinned_bytes_limit;     /**< of the pinned pool and of what turned pinned by itself, together; default: a quarter of physical memory */
    const char *tuning;            /**< knobs of the staging ring and of emulated devices, such as "staging.chunk=2M emulated.latency=10us"; docs/tuning.md
                                        lists them. It goes before FERRY_TUNING, key by key. Keys are no part of the ABI. A key or a value that is
                                        wrong fails with FERRY_ERROR_INVALID_ARGUMENT. Copied; NULL: none */
    const char *allocation_log;    /**< each pool writes its takes and gives, in RMM's CSV, to the file <this>.<place>.<kind>.csv, such as
                                    *   run.cuda-0.device.csv, which `ferry replay` reads; emptied first, complete when the context is
                                    *   destroyed. Takes and gives cost a lock and a line then. A file that cannot be made fails the call that
                                    *   first needs the pool, with FERRY_ERROR_IO. NULL: FERRY_ALLOCATION_LOG, where contexts after the
                                    *   first of the process put .2, .3 ... behind the name; else none. Copied */
    size_t pin_after;              /**< transfers of at least an eighth of a host copy above 64 KiB after which it turns pinned by itself, inside
                                        the call that makes the next, a batch being one transfer; default 10, at most 65535, FERRY_PIN_NEVER: never */
    bool growable_device_memory;   /**< device memory is made of granules, where the device has FERRY_CAN_GROW: idle ones are put together anew, at another
                                        address and without a copy, so that holes make no large take fail. Such memory has no legacy IPC handles, and
                                        some network libraries do not take it: default no */
    uint64_t reserved[4];
} ferry_context_options;

/** What a device can do; bits of ferry_place_info.capabilities. Values are final. */
typedef enum ferry_capability {
    FERRY_CAN_PIN = 1 << 0,             /**< page-locks host memory */
    FERRY_CAN_MANAGE = 1 << 1,          /**< managed memory, one pointer for host and device, which may touch it at once */
    FERRY_CAN_MANAGE_CONCURRENTLY = 1 << 2, /**< prefetch of managed memory, and advice about it */
    FERRY_CAN_LOAD_CODE = 1 << 3,       /**< runs precompiled images */
    FERRY_CAN_COMPILE = 1 << 4,         /**< compiles CUDA source at run time */
    FERRY_CAN_RUN_HOST_FUNCTION = 1 << 5,   /**< kernels run as C functions */
    FERRY_CAN_BATCH = 1 << 6,           /**< many copies in one driver call */
    FERRY_CAN_PEER = 1 << 7,            /**< copies from another device of the context without the host */
    FERRY_CAN_CAPTURE = 1 << 8,         /**< streams can be captured into graphs */
    FERRY_CAN_GROW = 1 << 9             /**< device memory is made of granules, which are put together anew without copies */
} ferry_capability;

/** What a place is. Strings are owned by the context. */
typedef struct ferry_place_info {
    const char *kind;         /**< "host", "emulated", "cuda" */
    const char *name;         /**< such as "NVIDIA H200" */
    int native;               /**< the driver's ordinal; 0 for the host */
    bool coherent;            /**< shares the host's memory: no copies at all */
    uint64_t capabilities;    /**< ferry_capability bits */
    int architecture;         /**< compute capability, 10 * major + minor, on CUDA; else 0 */
    int driver_version;       /**< 1000 * major + 10 * minor on CUDA; else 0 */
    uint64_t reserved[4];
} ferry_place_info;

/** Memory at a place, in bytes: free + used = total. */
typedef struct ferry_memory_info {
    size_t total; /**< what the place has, or the context's limit when that is less */
    size_t free;  /**< what can still be taken: of the limit, and of what the place has left */
    size_t used;  /**< the rest. Without a limit, what this context and, on a device, everybody else took; a limit counts this context's alone,
                       and on the host its pageable memory */
    size_t live;  /**< held by this context's buffers and blocks, pinned and managed ones too; not those of ferry_pool_create() */
    size_t cached; /**< held idle by this context's pools */
    uint64_t reserved[4];
} ferry_memory_info;

/** A count of copies and their bytes. */
typedef struct ferry_transfer_count {
    uint64_t copies;
    uint64_t bytes;
} ferry_transfer_count;

/** What a context moved since it was created, or since ferry_context_reset_stats(). */
typedef struct ferry_transfer_stats {
    ferry_transfer_count upload, download, device, peer, host, fill; /**< by direction */
    ferry_transfer_count direct; /**< uploads and downloads straight from or to pinned memory */
    ferry_transfer_count staged; /**< uploads and downloads through the staging ring: of pageable memory, of files, and of what the host converts */
    ferry_transfer_count peer_staged; /**< of `peer`, through the staging ring of the target's device */
    uint64_t device_calls;       /**< calls made to the devices, of every kind; a hit makes none */
    uint64_t batch_submissions;  /**< transfers that were many copies at once: batches and rows; counted by direction too */
    uint64_t batch_copies;       /**< the copies in them; adjacent ranges count as one */
    uint64_t auto_pinned;        /**< host copies that the library page-locked after repeated transfers */
    uint64_t reserved[4];
} ferry_transfer_stats;

/**
 * Open devices and make a context over them.
 *
 * The list of devices comes from `options->devices`, else from the environment's FERRY_DEVICE, else it is the
 * best CUDA device, else the host device (logged). The devices of a context are of one kind, beside which the list
 * may name the host: "cuda,emulated" is FERRY_ERROR_UNSUPPORTED. One context uses its devices' memory pools, streams and
 * staging rings alone. The caller owns `*out`.
 *
 * @return FERRY_OK; FERRY_ERROR_NO_DEVICE (a device that was asked for is absent); FERRY_ERROR_INVALID_ARGUMENT (a
 *         malformed list, more than 15 devices, `out` NULL); FERRY_ERROR_UNSUPPORTED (devices of two kinds);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE.
 * Threads: any. Blocks while drivers start.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_create(const ferry_context_options *options, ferry_context **out);

/**
 * The counted process-wide context, created with default options by the first caller, so that libraries that do
 * not know each other exchange buffers. Balance each success with ferry_context_destroy().
 * @return as ferry_context_create(). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_shared(ferry_context **out);

/**
 * Wait for all work, give all memory back, and set `*context` to NULL. NULL is harmless.
 *
 * Buffers still alive are reported to the log by name and bytes; their handles then answer only destroy, count
 * and info. Streams, events and kernels that outlive it can only be destroyed; everything else is
 * FERRY_ERROR_INVALID_STATE. So it is, too, in the child of a fork, for all that the parent made: there destroying a handle, and
 * closing a scope, is harmless and does nothing, and buffers say that they are uninitialized. The parent goes on as before. The child may
 * make contexts of its own, though none of CUDA where the parent made one, which is CUDA's rule. Default streams are gone.
 * A callback of the library must not call it: it logs an error there, and the context stays. Once it has begun, callbacks find
 * that nothing can be made in this context any more.
 * Threads: no other thread may be inside a call of this context.
 */
FERRY_API void ferry_context_destroy(ferry_context **context);

/** The number of device places; places are 1..count. 0 for NULL. Threads: any. */
FERRY_API int ferry_context_place_count(const ferry_context *context);

/** @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL, no such place). Place 0 is the host. Threads: any. */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_get_place_info(ferry_context *context, int place, ferry_place_info *out);

/** Memory at a place, now. @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_DEVICE. Threads: any. */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_get_memory_info(ferry_context *context, int place, ferry_memory_info *out);

/** What moved so far. Exact when no call is running. @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT. Threads: any. */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_get_transfer_stats(ferry_context *context, ferry_transfer_stats *out);

/**
 * Starts the statistics of a context anew.
 *
 * It sets every member of ferry_transfer_stats to zero. In the pools of the context, those of ferry_pool_create() included, it
 * sets the cumulative counters to zero: allocations, frees, hits, misses and evictions, also of each size class.
 * peak_reserved_bytes becomes reserved_bytes. Figures of what is held now stay. Pools behave as before.
 *
 * The call does not wait. A call that runs at the same time may be counted before the reset, after it, or in part; the
 * reset is exact when no other call is running.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL), FERRY_ERROR_INVALID_STATE. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_reset_stats(ferry_context *context);

/**
 * Page-lock memory of the program, so that copies from and to it, and buffers that wrap it, go straight to the copy engine
 * instead of through the staging ring. Such copies still end before they return, or before their event does, as those of
 * pageable memory do. The memory stays the program's: unregister it before it is freed. It is registered for all devices of
 * the context, in pieces, and does not count against options.pinned_bytes_limit.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_UNSUPPORTED (no device of the context page-locks memory);
 *         FERRY_ERROR_CONFLICT (part of it is registered already); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE;
 *         FERRY_ERROR_INVALID_STATE. After a failure nothing is registered. Threads: any. Blocks for as long as page-locking takes.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_register_host(ferry_context *context, void *memory, size_t bytes);
/**
 * Undo ferry_context_register_host() of the range that begins at `memory`.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also when no registered range begins there); FERRY_ERROR_BUSY (a copy is using it
 *         now); FERRY_ERROR_DEVICE; FERRY_ERROR_INVALID_STATE. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_unregister_host(ferry_context *context, void *memory);

/** The borrowed default stream of a place: the legacy default stream on CUDA. NULL when there is no such place. Threads: any. */
FERRY_API ferry_stream *ferry_context_stream(ferry_context *context, int place);

/**
 * The live buffer that was created with this name, as a counted handle: destroy it. The youngest where several
 * share a name. @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL, or no such buffer). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_find(ferry_context *context, const char *name, ferry_buffer **out);

FERRY_END_DECLS

#endif
