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
    FERRY_DIRECTION_DEVICE = 3,   /**< from one address to another inside one device */
    FERRY_DIRECTION_PEER = 4,     /**< from one device to another */
    FERRY_DIRECTION_HOST = 5,     /**< from one address to another in host memory */
    FERRY_DIRECTION_FILL = 6      /**< none: the device or the host sets a range to one value, and
                                       there is no source */
} ferry_direction;

/**
 * Describes one transfer. Ferry passes this struct to the trace callback after it has queued the
 * transfer. The strings are valid only during the callback.
 */
typedef struct ferry_trace {
    const char *buffer; /**< name of the buffer; "" if it has none */
    const char *reason; /**< name of the call that needed the transfer, such as
                             "read_device" */
    size_t bytes;
    int source_place; /**< place that the bytes come from; -1 for a fill, and for memory of
                           the caller */
    int target_place; /**< place that the bytes go to; -1 for memory of the caller */
    ferry_direction direction;
    bool staged;      /**< true: the bytes were copied through the page-locked chunks of
                           the staging ring */
    const char *site; /**< call stack of the program at the call that needed the transfer,
                           innermost function first, such as "step+0x41, main+0x20
                           (./program)". Known only in checked runs (docs/debugging.md);
                           otherwise "" */
} ferry_trace;

/**
 * A function of the program that receives a description of each transfer, on the thread that queued
 * the transfer. It is a watching callback, see "Callbacks" in <ferry/status.h>.
 */
typedef void ferry_trace_callback(const ferry_trace *trace, void *user);

/**
 * Value of ferry_context_options.pin_after with which Ferry page-locks no replica automatically.
 */
#define FERRY_PIN_NEVER ((size_t)-1)

/**
 * Options of a new context. NULL, or zero in any field, means the default. Values outside the
 * documented range are clamped to it.
 */
typedef struct ferry_context_options {
    const char *devices;     /**< devices to open, such as "host", "emulated:2", "cuda",
                                  "cuda:0,cuda:1" or "cuda:all". NULL: the devices that the
                                  environment variable FERRY_DEVICE lists, or if it is not
                                  set, the best device */
    ferry_log_callback *log; /**< receives log messages; NULL: there are none, except that a
                                 checked run (FERRY_DEBUG) writes errors and warnings to stderr */
    void *log_user;
    ferry_trace_callback *trace; /**< receives a description of each transfer; NULL: nothing is
                                      reported */
    void *trace_user;
    size_t buffer_bytes_limit;  /**< largest size in bytes that a buffer may have; default: no
                                     limit below that of size_t */
    size_t device_bytes_limit;  /**< most bytes that the pool of each device may hold; default:
                                     the memory of the device. When a pool reaches the limit,
                                     Ferry evicts unused replicas to make room. For the device
                                     "host", host_bytes_limit applies instead; a context with
                                     only that device logs a warning. The keys device.limit,
                                     host.limit and pinned.limit of the tuning lower the three
                                     limits */
    size_t host_bytes_limit;    /**< most bytes that the pool of pageable host memory may hold;
                                     default: the physical memory */
    size_t pinned_bytes_limit;  /**< most bytes that the pool of pinned memory and the replicas
                                     that Ferry page-locked automatically may hold together;
                                     default: a quarter of the physical memory */
    const char *tuning;         /**< settings of emulated devices and of the staging ring, which
                                     is the page-locked memory through which Ferry copies
                                     pageable memory. An example is "staging.chunk=2M
                                     emulated.latency=10us"; docs/tuning.md lists all keys, which
                                     may change between releases. A key here overrides the same
                                     key in the environment variable FERRY_TUNING. With a wrong
                                     key or value the creation of the context fails with
                                     FERRY_ERROR_INVALID_ARGUMENT. Copied; NULL: no settings */
    const char *allocation_log; /**< path prefix of allocation logs. Each pool logs its
                                     allocations and frees to a file <prefix>.<place>.<kind>.csv,
                                     such as run.cuda-0.device.csv, in the CSV format of RMM
                                     (NVIDIA's memory manager). `ferry replay` reads such a file.
                                     The pool first empties the file. The file is complete when
                                     the context is destroyed. Logging costs each allocation and
                                     free a lock and a line of text. If the file cannot be
                                     created, the first call that needs the pool fails with
                                     FERRY_ERROR_IO. The prefix may have the patterns of
                                     trace_file. Copied. NULL: the value of the environment
                                     variable FERRY_ALLOCATION_LOG, or no log if that is not set
                                     either; the second context of a process appends .2 to that
                                     value, the third .3 and so on */
    size_t pin_after;           /**< number of transfers after which Ferry page-locks a host
                                     replica that is larger than 64 KiB, at most 65534. The call
                                     that makes the next transfer page-locks it. Only transfers
                                     of at least an eighth of the replica count, and a batch of
                                     transfers counts as one. Default: 10. FERRY_PIN_NEVER: Ferry
                                     page-locks no replica automatically */
    const char
        *trace_file; /**< path of a file to which Ferry writes a trace of transfers,
                          waits, launches, scopes and the growth of pools. It has the
                          Chrome trace event format, which Perfetto and `ferry trace`
                          read; docs/tracing.md describes it. Ferry first empties the
                          file. The file is complete when the context is destroyed. If
                          it cannot be created, the creation of the context fails with
                          FERRY_ERROR_IO. "%p" in the path becomes the process id, "%r"
                          the rank of the process in its MPI or Slurm job, and "%%" a
                          percent sign. Without "%p" and "%r", other ranks than 0
                          append .rank and their rank. A forked child, and a context
                          whose file is being written, append .pid and the process id.
                          Copied. NULL: the value of the environment variable
                          FERRY_TRACE, or no trace if that is not set either; the second context of
                        a process appends .2 to that value, the third .3 and so on */
    uint64_t reserved[4];
} ferry_context_options;

/**
 * Capabilities of a device, which are the bits of ferry_place_info.capabilities. The meaning of a
 * bit never changes.
 */
typedef enum ferry_capability {
    FERRY_CAN_PIN = 1 << 0,    /**< the device can page-lock host memory */
    FERRY_CAN_MANAGE = 1 << 1, /**< the device has managed memory, which host and device
                                    access by the same pointer, even at the same time */
    FERRY_CAN_MANAGE_CONCURRENTLY = 1 << 2, /**< the device can prefetch managed memory, and its
                                                 driver takes the advice of ferry_buffer_advise() */
    FERRY_CAN_LOAD_CODE = 1 << 3, /**< the device can run compiled kernel code of its language
                                       (for CUDA: PTX, cubin or fatbin) */
    FERRY_CAN_COMPILE = 1 << 4,   /**< the device can run source of its language, which is compiled
                                       at run time */
    FERRY_CAN_RUN_HOST_FUNCTION = 1 << 5, /**< the device runs the host functions of kernels,
                                               which are C functions */
    FERRY_CAN_BATCH = 1 << 6,  /**< the device can make many copies with one driver call */
    FERRY_CAN_PEER = 1 << 7,   /**< the device can copy directly from another device of the
                                    context, without the host's memory */
    FERRY_CAN_CAPTURE = 1 << 8 /**< the device can capture streams into CUDA graphs */
} ferry_capability;

/** Language of the kernel code that a device runs. The meaning of a value never changes. */
typedef enum ferry_language {
    FERRY_LANGUAGE_NONE = 0, /**< no code: the device runs host functions */
    FERRY_LANGUAGE_CUDA = 1,
    FERRY_LANGUAGE_HIP = 2,   /**< no device has it yet */
    FERRY_LANGUAGE_OPENCL = 3 /**< no device has it yet */
} ferry_language;

/** Properties of a place. The context owns the strings. */
typedef struct ferry_place_info {
    const char *kind;        /**< "host", "emulated" or "cuda" */
    const char *name;        /**< name of the device, such as "NVIDIA H200" */
    int native;              /**< number of the device in its driver; 0 for the host */
    bool coherent;           /**< true: the device uses the host's memory, so buffers are never
                                  copied */
    uint64_t capabilities;   /**< ferry_capability bits */
    int architecture;        /**< on CUDA the compute capability as 10 * major + minor; otherwise
                                  0 */
    int driver_version;      /**< on CUDA the CUDA version that the driver supports, as 1000 *
                                  major + 10 * minor; otherwise 0 */
    ferry_language language; /**< language of the code that the place runs */
    const char *target;      /**< what code for the place is compiled for, such as "sm_90" on
                                  CUDA; "" where the language is FERRY_LANGUAGE_NONE */
    void *native_context;    /**< on CUDA the CUcontext in which Ferry works: the primary
                                  context of the device. Ferry owns it, until the context is
                                  destroyed. NULL elsewhere */
    uint64_t reserved[4];
} ferry_place_info;

/** Memory at a place, in bytes. `total` is the sum of `free` and `used`. */
typedef struct ferry_memory_info {
    size_t total;  /**< memory of the place, or the limit if that is smaller. The limit is that of
                        the pool: limit_bytes of ferry_pool_configure(), or else that of the
                        context */
    size_t free;   /**< memory that can still be allocated: the smaller of what the limit still
                        permits and what is free at the place */
    size_t used;   /**< total - free. Without a limit this is the memory of this context, and on a
                        device also that of all other users of the device. With a limit it is only
                        the memory of this context, and on the host only its pageable memory */
    size_t live;   /**< memory of this context's buffers and blocks, including pinned and managed
                        memory, but without pools that ferry_pool_create() created */
    size_t cached; /**< memory that this context's pools keep for later allocations */
    uint64_t reserved[4];
} ferry_memory_info;

/** A number of copies, and the number of bytes that they moved. */
typedef struct ferry_transfer_count {
    uint64_t copies;
    uint64_t bytes;
} ferry_transfer_count;

/**
 * Counts of the transfers of a context since its creation, or since the last
 * ferry_context_reset_stats().
 */
typedef struct ferry_transfer_stats {
    ferry_transfer_count upload, download, device, peer, host, fill; /**< transfers of each
                                                                          direction */
    ferry_transfer_count direct; /**< uploads and downloads without the staging ring, because the
                                      host memory is pinned */
    ferry_transfer_count staged; /**< uploads and downloads through the staging ring, because the
                                      host memory is pageable, or bytes are read from a file,
                                      written to a file or converted by the host */
    ferry_transfer_count peer_staged; /**< transfers from one device to another through the staging
                                           ring of the target device; `peer` includes them */
    uint64_t device_calls;      /**< number of driver calls of every kind; an access to bytes that
                                     are already current at its place makes none */
    uint64_t batch_submissions; /**< number of transfers that made many copies at once, such as all
                                     rows of a region; the counts of each direction include them */
    uint64_t batch_copies;      /**< number of copies that the transfers of batch_submissions made;
                                     copies of adjacent ranges count as one */
    uint64_t auto_pinned;       /**< number of host replicas that Ferry page-locked automatically,
                                     see pin_after of ferry_context_options */
    uint64_t reserved[4];
} ferry_transfer_stats;

/**
 * Opens devices and creates a context over them. The caller owns `*out`.
 *
 * `options->devices` names the devices. If it is NULL, the environment variable FERRY_DEVICE names
 * them. Without both, the context uses the best CUDA device, or the host device where there is no
 * CUDA device, and logs its choice. All devices of a context are of one kind, such as CUDA. The
 * list may also contain the host. A context does not share its memory pools, streams and staging
 * rings with other contexts. The call blocks while drivers start.
 *
 * The owners of a context are counted. Its creator is the first owner, and ferry_context_retain()
 * adds others.
 *
 * @return FERRY_OK; FERRY_ERROR_NO_DEVICE (a requested device is absent);
 *         FERRY_ERROR_INVALID_ARGUMENT (the list of devices is malformed or has more than 15
 *         devices, the tuning is wrong, or `out` is NULL); FERRY_ERROR_UNSUPPORTED (devices of two
 *         kinds, such as "cuda,emulated"); FERRY_ERROR_IO (the trace file cannot be created);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE (a driver call failed);
 *         FERRY_ERROR_INVALID_STATE (in a watching callback).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_create(const ferry_context_options *options,
                                                            ferry_context **out);

/**
 * Sets `*out` to the context that the whole process shares, and adds an owner to it. Through this
 * context, libraries that know nothing of each other can exchange buffers.
 *
 * The first call creates the context with default options, and blocks as ferry_context_create()
 * does. If the last owner has destroyed that context, the next call creates a new one. If another
 * thread is just destroying it, the call returns either the old context with a new owner, or a new
 * context. The caller calls ferry_context_destroy() once for each successful call.
 * @return the same statuses as ferry_context_create().
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_shared(ferry_context **out);

/**
 * Adds an owner to a context, and returns the context. Each owner calls ferry_context_destroy()
 * once, and the last such call destroys the context. Does not block. Every callback may call this
 * function.
 *
 * The caller must be an owner, or must know that another owner remains during the call. Buffers,
 * streams and other objects are not owners of their context. In a forked child the call changes
 * nothing.
 * @return `context`; NULL for NULL. Inside a callback that runs while the context is being
 *         destroyed, the call returns NULL and logs an error.
 * Threads: any.
 */
FERRY_API ferry_context *ferry_context_retain(ferry_context *context);

/**
 * Removes an owner of a context and sets `*context` to NULL. The last owner destroys the context:
 * this call blocks until all work of the context is done, and logs what is still alive. "How a
 * context ends" in docs/concepts.md has the details, also of callbacks and forked children.
 *
 * Afterwards, handles of the context can only be destroyed, counted and asked for their info; all
 * else on them fails with FERRY_ERROR_INVALID_STATE. In a callback the call does not block: a
 * separate thread destroys the context, or the call logs an error and changes nothing.
 * @param context NULL and a pointer to NULL have no effect
 * Threads: any. During the call of the last owner no other thread may be in a call on the context.
 */
FERRY_API void ferry_context_destroy(ferry_context **context);

/** Returns the number of devices, whose places are 1 to that number; 0 for NULL. Threads: any. */
FERRY_API int ferry_context_place_count(const ferry_context *context);

/**
 * Writes the properties of a place to `*out`. Place 0 is the host. Does not block.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, or an unknown place);
 *         FERRY_ERROR_INVALID_STATE (in a forked child, or after the context was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_get_place_info(ferry_context *context,
                                                                    int place,
                                                                    ferry_place_info *out);

/**
 * Writes to `*out` how much memory a place has, and how much of it is free and used. The values may
 * change as soon as the call has returned.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, or an unknown place); FERRY_ERROR_DEVICE (a
 *         driver call failed); FERRY_ERROR_INVALID_STATE (in a forked child or a watching callback,
 *         or after the context was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_get_memory_info(ferry_context *context,
                                                                     int place,
                                                                     ferry_memory_info *out);

/**
 * Writes the transfer statistics of a context to `*out`. They are exact if no other call is
 * running. Does not block.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_INVALID_STATE (in a forked
 *         child, or after the context was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_get_transfer_stats(ferry_context *context,
                                                                        ferry_transfer_stats *out);

/**
 * Resets the statistics of a context.
 *
 * The call sets every member of ferry_transfer_stats to zero, and also the counters of each buffer
 * in ferry_buffer_info. For every pool of the context, including those that ferry_pool_create()
 * created, it sets allocations, frees, hits, misses and evictions to zero, both in ferry_pool_stats
 * and in ferry_pool_class_stats. It sets peak_reserved_bytes to reserved_bytes. Values that
 * describe memory which is held now do not change, and neither does the behaviour of the pools.
 *
 * The call does not block. Calls that run on other threads at the same time may be counted, not
 * counted, or counted in part. The reset is exact if no other call is running.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_INVALID_STATE (in a forked
 *         child or a watching callback, or after the context was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_reset_stats(ferry_context *context);

/**
 * Page-locks `bytes` bytes of the program's memory at `memory`, for all devices of the context.
 *
 * From then on, copies from and to this memory, and buffers that wrap it, use the device's copy
 * engine directly instead of the staging ring. A blocking copy still returns only when the copy is
 * done. Ferry registers the memory with the driver in several parts. The program owns the memory,
 * and must unregister it before freeing it. The memory does not count against pinned_bytes_limit of
 * ferry_context_options. The call blocks until the memory is page-locked.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, or a size of 0); FERRY_ERROR_UNSUPPORTED
 *         (no device of the context page-locks memory); FERRY_ERROR_CONFLICT (a part of the memory
 *         is already registered); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE (a driver call
 *         failed); FERRY_ERROR_INVALID_STATE (in a forked child or a watching callback, or after
 *         the context was destroyed). After a failure nothing is registered.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_register_host(ferry_context *context,
                                                                   void *memory, size_t bytes);
/**
 * Ends what ferry_context_register_host() did: unregisters the memory that begins at `memory`.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, or no registered range begins there);
 *         FERRY_ERROR_BUSY (a copy is using the memory); FERRY_ERROR_DEVICE (a driver call failed);
 *         FERRY_ERROR_INVALID_STATE (in a forked child or a watching callback, or after the context
 *         was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_unregister_host(ferry_context *context,
                                                                     void *memory);

/**
 * Returns the default stream of the device at `place`, which the context owns. On CUDA that is the
 * legacy default stream. Returns NULL for the host, for an unknown place, in a forked child, and
 * after the context was destroyed. Threads: any.
 */
FERRY_API ferry_stream *ferry_context_stream(ferry_context *context, int place);

/**
 * Finds the live buffer that was created with this name, and sets `*out` to it. If several buffers
 * have the name, the call finds the newest. The call adds an owner to the buffer, so the caller
 * must destroy the handle. Does not block.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, or no live buffer has the name);
 *         FERRY_ERROR_INVALID_STATE (in a forked child or a watching callback, or after the context
 *         was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_find(ferry_context *context, const char *name,
                                                          ferry_buffer **out);

FERRY_END_DECLS

#endif
