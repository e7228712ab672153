/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_DEVICE_H
#define FERRYI_DEVICE_H

/*
 * The device table is a struct of all functions that Ferry calls on a device. A member of this
 * struct is called a slot.
 *
 * A device is opened once per context and place, and is closed when the context is destroyed. Any
 * thread may call the device's functions concurrently unless the comment of a slot states
 * otherwise. A device does its own locking. Its only callbacks are the host functions that are
 * passed to host_call. No slot is NULL. The slot of a function that a device does not implement
 * holds a function that always fails with FERRY_ERROR_UNSUPPORTED (unsupported.c).
 *
 * Errors: a function that fails has no effect and writes no output. It calls ferryi_fail() to set
 * this thread's message, which contains the name of the driver call and the driver's name for the
 * error. FERRY_ERROR_DEVICE_LOST means that all later calls on the device will fail, too.
 * FERRY_ERROR_OUT_OF_MEMORY means that there is too little memory. FERRY_ERROR_UNSUPPORTED means
 * that the device does not support the operation. Any other failure is FERRY_ERROR_DEVICE. A device
 * never changes the calling thread's current CUDA device or context.
 *
 * Asynchrony: the work on one stream runs in order. Streams run independently unless events order
 * them. An asynchronous function returns when its work is queued, and may also perform the work
 * before it returns. Every function accepts a size of zero bytes and then does nothing.
 *
 * Slots are called through FERRYI_CALL(device, slot, ...), which counts the calls.
 */

#include <ferry/context.h>
#include <ferry/kernel.h>
#include <ferry/pool.h>

#include "src/base/base.h"

typedef struct ferryi_device ferryi_device;

/* Capability bits that only Ferry itself uses. They share one word with the public FERRY_CAN_...
 * bits. */
enum {
    FERRYI_DEVICE_COHERENT = 1u << 16, /* the device's memory is host memory, so nothing is copied
                                          and memory of kind DEVICE is never allocated */
    /* The host may read and write the device's memory while no work is queued; emulated devices
     * and the host device have this bit. */
    FERRYI_DEVICE_HOST_VISIBLE = 1u << 17,
    /* host functions run on threads of the device or its driver; the device's `synchronize` waits
     * for these threads */
    FERRYI_DEVICE_CALLS_APART = 1u << 19,
    /* Registered memory has a different address on the device; a single copy translates the
     * address, a batch of copies does not. */
    FERRYI_DEVICE_TRANSLATES = 1u << 18,
    /* the device cannot page-lock memory that it did not allocate */
    FERRYI_DEVICE_NO_REGISTER = 1u << 20,
    /* The device function memory_free waits for all work of the device. */
    FERRYI_DEVICE_FREE_WAITS = 1u << 21,
    /* the device's copy engine walks the host's page tables, so copies accept pageable memory
     * without staging */
    FERRYI_DEVICE_TAKES_PAGEABLE = 1u << 22,
    /* kernels cannot access pinned memory; only copies can */
    FERRYI_DEVICE_PINNED_APART = 1u << 23,
    /* host_call calls the host function on the calling thread, and returns after it */
    FERRYI_DEVICE_CALLS_HERE = 1u << 24,
    /* the device has memory_is_pinned */
    FERRYI_DEVICE_FINDS_PINNED = 1u << 25,
    /* the device has file_open, which may succeed */
    FERRYI_DEVICE_TAKES_FILES = 1u << 26,
    /* memory of several processes is a mapped file, which lives as long as one of them maps it;
     * other devices free it with the process that allocated it */
    FERRYI_DEVICE_MAPS_FILES = 1u << 27,
};

struct ferryi_device_properties {
    char name[128];
    int architecture;   /* 10 * major + minor, or 0 */
    int driver_version; /* version of the driver of CUDA or of HIP as 1000 * major + 10 * minor; 0
                           if the device has no driver */
    int native;         /* the driver's ordinal */
    size_t total_bytes;
    ferry_language language; /* language of the code that the device runs */
    char target[160];        /* what that code is compiled for, such as "sm_90"; "" without one */
    void *native_context;    /* the driver's context in which the device's work runs, or NULL */
    size_t handle_bytes;     /* the sizes of handles are multiples of this, which is a power of two
                                (range_map); 0: the device has no ranges */
};

/* Who may access memory that the program allocated. */
enum ferryi_memory_user { FERRYI_USER_HOST = 1, FERRYI_USER_DEVICE = 2 };

/* One two-dimensional copy. Pitches are in bytes and at least row_bytes. */
struct ferryi_copy_2d {
    void *target;
    const void *source;
    size_t target_pitch, source_pitch;
    size_t row_bytes, rows;
    ferry_direction direction; /* direction of the copy: UPLOAD, DOWNLOAD, DEVICE or PEER */
    /* Device that holds the source of a PEER copy; NULL for other directions. The target is
     * always on the device whose function is called. */
    ferryi_device *source_device;
};

/* One copy of consecutive bytes. */
struct ferryi_copy {
    void *target;
    const void *source;
    size_t bytes;
    ferry_direction direction;    /* direction of the copy: UPLOAD, DOWNLOAD, DEVICE or PEER */
    ferryi_device *source_device; /* as in ferryi_copy_2d */
};

/* A copy between an open file and memory of the device. */
struct ferryi_file_copy {
    void *memory;
    uint64_t offset; /* in the file; like `bytes`, a multiple of FERRYI_FILE_ALIGN */
    size_t bytes;
    bool stores; /* whether the file is the target */
};

/* Bytes by which a driver names memory or an event to other processes; those of CUDA and HIP. */
#define FERRYI_TOKEN_BYTES 64

struct ferryi_token {
    unsigned char bytes[FERRYI_TOKEN_BYTES];
};

/* Memory that several processes use. */
struct ferryi_shared_memory {
    size_t bytes;
    /* A device with FERRYI_DEVICE_MAPS_FILES uses `bytes` bytes of the file from `offset` on, which
     * is a multiple of the page size. Other devices use the token. */
    int file;
    size_t offset;
    struct ferryi_token token;
    bool read_only; /* whether the process that opens the memory only reads it */
    bool is_opened; /* whether the memory is that of shared_open() */
};

/* A launch of a kernel in loaded code. Each element of `arguments` is the address of an argument's
 * value. */
struct ferryi_launch {
    void *function;
    const ferry_grid *grid; /* every number of blocks and threads is at least 1; the device has the
                               capability of each attribute (launch_grid.c) */
    void **arguments;
    const size_t *bytes; /* size of each argument's value; FERRYI_LAUNCH_ADDRESS: the value is a
                            pointer into memory that the device accesses, or NULL */
    size_t count;        /* of arguments */
};

#define FERRYI_LAUNCH_ADDRESS ((size_t)0)

/* A code that a compiler must still translate: a text, which ends with a NUL, or SPIR-V. */
struct ferryi_code_job {
    const char *name; /* of the kernel, for messages and as the name of the text's file */
    const ferry_kernel_code *code;
    struct ferryi_image **images; /* list of the images that were made from this code (image.h),
                                     which code_build uses and extends; NULL: none is kept */
};

/* Number of parameters that a compiler does not report. */
#define FERRYI_PARAMETERS_UNKNOWN SIZE_MAX

struct ferryi_device_ops {
    /* -- the device -- */

    /* Closes the device and frees `device`. The caller must have destroyed all streams, events,
     * memory and code of the device, unless the device is lost. */
    void (*close)(ferryi_device *device);
    /* Returns the free and the total bytes of the device. Memory that any process has allocated on
     * the device is not free. The free bytes never exceed the total. */
    ferry_status (*memory_info)(ferryi_device *device, size_t *out_free, size_t *out_total);
    /* Blocks until all work that this process has queued on the device is done. */
    ferry_status (*synchronize)(ferryi_device *device);

    /* -- memory -- */

    /* Allocates uninitialised DEVICE, PINNED or MANAGED memory, aligned to at least 256 bytes.
     * `bytes` must not be 0. PINNED memory is host memory that every device of the context may copy
     * from and to. Fails with FERRY_ERROR_OUT_OF_MEMORY if there is too little memory. */
    ferry_status (*memory_alloc)(ferryi_device *device, ferry_memory_kind kind, size_t bytes,
                                 void **out);
    /* Frees memory that memory_alloc returned for the same `kind`. May wait for the device. Does
     * nothing if `memory` is NULL. */
    ferry_status (*memory_free)(ferryi_device *device, ferry_memory_kind kind, void *memory);

    /* -- ranges: reserved addresses that get DEVICE memory in parts, which are called handles -- */

    /* Reserves `bytes` bytes of addresses, which have no memory yet. `bytes` is a multiple of
     * properties.handle_bytes, and `*out` is aligned to it. */
    ferry_status (*range_reserve)(ferryi_device *device, size_t bytes, void **out);
    /* Frees the addresses of a whole range, of which no part may have memory. */
    ferry_status (*range_release)(ferryi_device *device, void *range, size_t bytes);
    /* Allocates a handle of uninitialised DEVICE memory, and maps it at `memory`, a part of a range
     * that has no memory. `memory` and `bytes` are multiples of properties.handle_bytes. Memory of
     * adjacent handles is used like memory of one allocation. Every device that may copy from and
     * to this one may access it. Fails with FERRY_ERROR_OUT_OF_MEMORY if there is too little
     * memory. */
    ferry_status (*range_map)(ferryi_device *device, void *memory, size_t bytes, void **out_handle);
    /* Unmaps and frees a handle, which range_map() has mapped with these arguments. No queued work
     * may use its memory. May wait for the device. */
    ferry_status (*range_unmap)(ferryi_device *device, void *memory, size_t bytes, void *handle);

    /* -- memory of several processes; a device that has it has FERRY_CAN_SHARE -- */

    /* Allocates uninitialised DEVICE memory that other processes may open, aligned like that of
     * memory_alloc. The caller sets `bytes`, which is not 0, `file` and `offset`; the call sets the
     * token. Fails with FERRY_ERROR_OUT_OF_MEMORY if there is too little memory. */
    ferry_status (*shared_alloc)(ferryi_device *device, struct ferryi_shared_memory *shared,
                                 void **out);
    /* Opens memory that another process allocated with shared_alloc(), and that still exists. */
    ferry_status (*shared_open)(ferryi_device *device, const struct ferryi_shared_memory *shared,
                                void **out);
    /* Ends the use of memory of shared_alloc() or shared_open(). No queued work may use it. If the
     * device does not map files, no other process may have memory of shared_alloc() open. May wait
     * for the device. */
    ferry_status (*shared_free)(ferryi_device *device, const struct ferryi_shared_memory *shared,
                                void *memory);
    /* Creates an event that other processes may open, which is not timed. shared_event_open() opens
     * it. Both processes may record it and wait for it, and each destroys it with event_destroy().
     * They fail with UNSUPPORTED if the driver has no such events. */
    ferry_status (*shared_event_create)(ferryi_device *device, struct ferryi_token *out_token,
                                        void **out);
    ferry_status (*shared_event_open)(ferryi_device *device, const struct ferryi_token *token,
                                      void **out);

    /* -- memory of others -- */

    /* Returns who may access memory that the program allocated: a set of enum ferryi_memory_user.
     * Fails with UNSUPPORTED if the driver does not report it. */
    ferry_status (*memory_users)(ferryi_device *device, const void *memory, unsigned *out);
    /* Returns whether `bytes` bytes of host memory lie in one range that is page-locked for the
     * device, no matter who page-locked it. */
    ferry_status (*memory_is_pinned)(ferryi_device *device, const void *memory, size_t bytes,
                                     bool *out);
    /* host_register page-locks host memory that is not registered yet, and fails with
     * FERRY_ERROR_CONFLICT if a part of it is. host_unregister undoes the registration. The caller
     * still owns the memory. If the process cannot write the memory, the device can only read it.
     */
    ferry_status (*host_register)(ferryi_device *device, void *memory, size_t bytes);
    ferry_status (*host_unregister)(ferryi_device *device, void *memory);

    /* -- streams; a stream is the driver's handle -- */

    /* Creates a stream that is not ordered with any other stream, including the default stream. */
    ferry_status (*stream_create)(ferryi_device *device, void **out);
    /* Destroys a stream. Work that is already queued on the stream still runs. A later
     * stream_create may return the same handle. */
    ferry_status (*stream_destroy)(ferryi_device *device, void *stream);
    /* Blocks until all work of the stream is done. If work of the stream fails, this call or a
     * later call reports the failure. */
    ferry_status (*stream_synchronize)(ferryi_device *device, void *stream);
    /* Returns whether the stream is being captured, so that its work is recorded into a graph
     * instead of run. May be called at any time. */
    ferry_status (*stream_is_capturing)(ferryi_device *device, void *stream, bool *out);
    /* Returns the driver's id of a stream, which no other stream of the process ever has. Fails if
     * the driver has no ids. Also fails for the handle of a destroyed stream, if it was not reused;
     * the driver's manual does not promise that, but drivers compare the handle. */
    ferry_status (*stream_id)(ferryi_device *device, void *stream, uint64_t *out);
    /* Checks a handle that the program passed. Fails if the handle is not a stream that accepts
     * work of this device. Sets `*out_scope` to NULL if the stream accepts events of event_create.
     * Otherwise sets it to the driver's handle of the stream's own context. The stream then accepts
     * only events of event_create_in. */
    ferry_status (*stream_check)(ferryi_device *device, void *stream, void **out_scope);
    /* Makes later work of the stream wait until the event is complete. Only the event's latest
     * record before this call counts. An event that was never recorded counts as complete. The
     * event may belong to a peer. */
    ferry_status (*stream_wait)(ferryi_device *device, void *stream, void *event);
    /* Calls `run(user)` in the order of the stream, on a thread that the device chooses. Later work
     * of the stream waits until `run` returns. `run` must not call device functions. */
    ferry_status (*host_call)(ferryi_device *device, void *stream, void (*run)(void *user),
                              void *user);

    /* -- events -- */

    /* Creates an event. If `timed` is true, the event stores the time at which a stream reaches the
     * event's record. */
    ferry_status (*event_create)(ferryi_device *device, bool timed, void **out);
    /* Destroys an event. A stream that waits for the event is not affected: it still waits until
     * the work that the event recorded is done. */
    ferry_status (*event_destroy)(ferryi_device *device, void *event);
    /* Records the event on the stream. The event is complete when all work that is queued on the
     * stream so far is done. A second record of the event replaces the first record. */
    ferry_status (*event_record)(ferryi_device *device, void *event, void *stream);
    /* Create and record an event in the context of a stream (stream_check). */
    ferry_status (*event_create_in)(ferryi_device *device, void *scope, bool timed, void **out);
    ferry_status (*event_record_in)(ferryi_device *device, void *scope, void *event, void *stream);
    /* Sets `*out_done` to whether the event is complete. Does not block. An event that was never
     * recorded counts as complete. */
    ferry_status (*event_query)(ferryi_device *device, void *event, bool *out_done);
    ferry_status (*event_synchronize)(ferryi_device *device, void *event);
    /* Returns the seconds from the time at which a stream reached `begin` to the time at which a
     * stream reached `end`. The result is negative if a stream reached `end` before `begin`.
     * `begin` and `end` must be events of this device. Fails with FERRY_ERROR_DEVICE if one of
     * these events is not timed, was never recorded, or is not complete. Does not block. */
    ferry_status (*event_elapsed)(ferryi_device *device, void *begin, void *end,
                                  double *out_seconds);

    /* -- copies, asynchronous on `stream` -- */

    /*
     * Copies bytes. Source and target must not overlap.
     *
     * In an UPLOAD or a DOWNLOAD, the host memory must be PINNED, MANAGED or registered, and must
     * stay unchanged until the copy is done. A device with FERRYI_DEVICE_TAKES_PAGEABLE accepts any
     * host memory. Such a device fails with UNSUPPORTED if it cannot copy the range of host memory,
     * for example because the range is partly registered.
     *
     * In a PEER copy, the source device must be a peer. The copy fails with UNSUPPORTED if this
     * device cannot access the source device.
     */
    ferry_status (*copy)(ferryi_device *device, const struct ferryi_copy *copy, void *stream);
    /* Copies rows of bytes. Consecutive rows are one pitch apart. A PEER copy fails with
     * UNSUPPORTED in the same cases as a PEER copy with the device function `copy`. */
    ferry_status (*copy_2d)(ferryi_device *device, const struct ferryi_copy_2d *copy, void *stream);
    /*
     * Submits disjoint copies as one operation, which may perform them in any order. All PEER
     * copies must have the same source device. Either all copies are queued or none. If the call
     * fails with UNSUPPORTED, the caller must submit the copies one by one. On a device with
     * FERRYI_DEVICE_TRANSLATES, a batch must not contain registered memory.
     */
    ferry_status (*copy_batch)(ferryi_device *device, const struct ferryi_copy *copies,
                               size_t count, void *stream);
    /* Writes `count` repetitions of a pattern of 1, 2 or 4 bytes. `target` must be aligned to the
     * pattern's size. */
    ferry_status (*fill)(ferryi_device *device, void *target, uint32_t pattern,
                         size_t pattern_bytes, size_t count, void *stream);

    /* -- files -- */

    /* Prepares a file for copies by file_copy. `fd` is open with O_DIRECT, and stays open until
     * file_close. Fails if bytes of the file would pass through host memory. */
    ferry_status (*file_open)(ferryi_device *device, int fd, void **out);
    /*
     * Copies bytes between a file and device memory, and blocks until they have arrived. No stream
     * is ordered with the copy: no queued work may use the memory. Fails if not all bytes arrived.
     * Even then it sets `*out_bytes` to the number of bytes that arrived, from the first byte on,
     * and the bytes behind them may have changed.
     */
    ferry_status (*file_copy)(ferryi_device *device, void *file,
                              const struct ferryi_file_copy *copy, size_t *out_bytes);
    /* Ends the use of a file. Also works if the device is lost. */
    ferry_status (*file_close)(ferryi_device *device, void *file);

    /* -- managed memory; `location` is a device of the context or NULL for the host -- */

    ferry_status (*prefetch)(ferryi_device *device, void *memory, size_t bytes,
                             ferryi_device *location, void *stream);
    /* Advises the driver how a range of managed memory is used. `advice` is a value of the
     * enumeration ferry_advice. */
    ferry_status (*advise)(ferryi_device *device, void *memory, size_t bytes, int advice,
                           ferryi_device *location);

    /* -- code -- */

    /* Loads an image in a form that the device's driver takes. If the image is a text, `bytes`
     * includes its final NUL. */
    ferry_status (*code_load)(ferryi_device *device, const void *image, size_t bytes,
                              void **out_module);
    /* Compiles a code of the device's language and loads the result. If `out_module` is NULL, only
     * compiles it, and keeps the image in the job's list if the compiler makes one. Fails with
     * COMPILE and the compiler's log in the message, and with UNSUPPORTED if the device has no
     * compiler. */
    ferry_status (*code_build)(ferryi_device *device, const struct ferryi_code_job *job,
                               void **out_module);
    ferry_status (*code_unload)(ferryi_device *device, void *module);
    ferry_status (*code_function)(ferryi_device *device, void *module, const char *name,
                                  void **out_function);
    /* Returns the sizes in bytes of a kernel's first parameters, at most `most` sizes, and the
     * number of sizes returned. Fails with UNSUPPORTED if the driver does not report parameter
     * sizes. */
    ferry_status (*code_parameters)(ferryi_device *device, void *function, size_t most,
                                    size_t *out_bytes, size_t *out_count);
    ferry_status (*launch)(ferryi_device *device, const struct ferryi_launch *launch, void *stream);

    /* -- graphs, which the driver records from a stream -- */

    /* Begins to record the work that is queued on a stream, by any thread, instead of running it.
     * Fails with UNSUPPORTED if the device records nothing, or not this stream. */
    ferry_status (*capture_begin)(ferryi_device *device, void *stream);
    /* Ends the recording, and makes a graph of it that graph_launch() runs. If `out_graph` is NULL,
     * discards what was recorded. After a failure the stream records no longer, either. */
    ferry_status (*capture_end)(ferryi_device *device, void *stream, void **out_graph);
    /* Queues all recorded work on a stream as one piece of work. The stream must record nothing. */
    ferry_status (*graph_launch)(ferryi_device *device, void *graph, void *stream);
    /* Destroys a graph whose launches are done. */
    ferry_status (*graph_destroy)(ferryi_device *device, void *graph);
};

/* These macros list the names of all functions in the device table except `close`. The emulated
 * device implements `close` and the functions in FERRYI_EMULATED_SLOTS only. */
/* clang-format off */
#define FERRYI_EMULATED_SLOTS(X) \
    X(memory_info) X(synchronize) X(memory_alloc) X(memory_free) \
    X(range_reserve) X(range_release) X(range_map) X(range_unmap) \
    X(shared_alloc) X(shared_open) X(shared_free) \
    X(memory_users) X(host_register) X(host_unregister) X(host_call) \
    X(stream_create) X(stream_destroy) X(stream_synchronize) X(stream_is_capturing) X(stream_wait) \
    X(event_create) X(event_destroy) X(event_record) X(event_query) X(event_synchronize) \
    X(event_elapsed) X(copy) X(copy_2d) X(copy_batch) X(fill) \
    X(prefetch) X(advise)
#define FERRYI_DEVICE_SLOTS(X) \
    FERRYI_EMULATED_SLOTS(X) X(shared_event_create) X(shared_event_open) X(memory_is_pinned) X(stream_check) X(stream_id) \
    X(event_create_in) X(event_record_in) X(file_open) X(file_copy) X(file_close) \
    X(code_load) X(code_build) X(code_unload) X(code_function) X(code_parameters) X(launch) \
    X(capture_begin) X(capture_end) X(graph_launch) X(graph_destroy)
/* clang-format on */

/* Expands to the type of the function that a slot points to. A slot is a member of struct
 * ferryi_device_ops. */
#define FERRYI_SLOT_TYPE(slot) __typeof__(*((struct ferryi_device_ops *)0)->slot)

/* The base of every device. An implementation embeds this struct as the first member of the struct
 * that describes its device. Opening a device sets all members except `on_wait` and `watcher`,
 * which the context sets. While the device is in use, only the counter `calls` changes. */
struct ferryi_device {
    const struct ferryi_device_ops *ops;
    const char *kind;        /* name of the device's kind, such as "host", "emulated" or "cuda" */
    uint64_t capabilities;   /* set of FERRY_CAN_... and FERRYI_DEVICE_... bits */
    void *default_stream;    /* handle of the default stream, which exists as long as the device and
                                must not be destroyed */
    void *per_thread_stream; /* handle of the per-thread default stream, which is a different stream
                                in each thread; NULL if the device has no such stream */
    struct ferryi_device_properties properties; /* filled at open */
    uint64_t link_bytes; /* bandwidth of the link to host memory, in bytes per second for each
                            direction; 0 if unknown */
    unsigned host_node;  /* number of the host's NUMA node that is nearest to the device, plus 1; 0
                            if unknown */
    _Atomic uint64_t calls; /* number of device functions that were called so far */
    const void *group;      /* devices of one kind work together only if they have the same value
                               (ferryi_device_is_peer()); OpenCL's platform, NULL on other kinds */
    bool default_is_null;   /* whether a NULL stream handle means `default_stream`, as in CUDA */
    /* Called after each call of this device that blocked, with what the thread waited for and the
     * time at which it began to wait. NULL if the waits are not recorded. */
    void (*on_wait)(const struct ferryi_device *device, const char *what, uint64_t begun_ns);
    void *watcher; /* for on_wait; the context sets both */
};

#define FERRYI_CALL(device, slot, ...)                                                             \
    (atomic_fetch_add_explicit(&(device)->calls, 1, memory_order_relaxed),                         \
     (device)->ops->slot((device), __VA_ARGS__))

/* Returns whether two devices wait for each other's events, may copy from each other, and access
 * each other's page-locked and managed memory. The bytes of other pairs go through the host. */
bool ferryi_device_is_peer(const ferryi_device *device, const ferryi_device *other);

/* The library calls the device functions that block only through the functions below. They report
 * the wait to the device's function on_wait() (wait.c). */
ferry_status ferryi_device_synchronize(ferryi_device *device);
ferry_status ferryi_device_wait_stream(ferryi_device *device, void *stream);
ferry_status ferryi_device_wait_event(ferryi_device *device, void *event);

/* The settings for opening a device, taken from the context's options. */
struct ferryi_device_config {
    struct ferryi_log log;
    size_t emulated_memory_bytes; /* 0: the default */
    uint64_t emulated_latency_ns;
    uint64_t emulated_bytes_per_second; /* 0: unlimited */
    bool emulated_without_peers, cuda_without_batches;
};

/*
 * A kind of device. The registry (devices.c) lists all kinds.
 *
 * `count` returns the number of devices of this kind on this machine. If the driver is absent,
 * `count` returns 0 and sets this thread's message to the reason. `open` accepts the ordinals 0 to
 * count - 1.
 *
 * The emulated kind creates devices on request. For such a kind, `open` accepts any ordinal, and
 * `count` returns 1.
 */
typedef struct ferryi_device_kind {
    const char *name;
    int (*count)(void);
    ferry_status (*open)(int ordinal, const struct ferryi_device_config *config,
                         ferryi_device **out);
    bool made_up; /* whether devices of this kind are created on request. If so, "name:N" creates N
                     devices. If not, "name:K" selects device K, and "name:all" selects all devices
                   */
    ferry_language language; /* of the code that all devices of this kind run */
    /* Compiles a text of the language for a target, NULL for the usual one, only to check it.
     * Reports the parameters of its kernel as code_parameters does; `*out_count` may be
     * FERRYI_PARAMETERS_UNKNOWN. The function is NULL if only a device compiles. */
    ferry_status (*code_check)(const struct ferryi_code_job *job, const char *target, size_t most,
                               size_t *out_bytes, size_t *out_count);
} ferryi_device_kind;

extern const ferryi_device_kind ferryi_host_kind, ferryi_emulated_kind, ferryi_cuda_kind,
    ferryi_hip_kind, ferryi_opencl_kind;

/* Adds a kind of device to the registry (devices.c). The registry has no lock, so only tests call
 * this function, and only before they create their first context. The built-in kinds are always
 * registered. */
void ferryi_device_register(const ferryi_device_kind *kind);

/* Returns the kind of device that compiles texts of a language without a device, or NULL. */
const ferryi_device_kind *ferryi_device_compiler(ferry_language language);

/* Parses a list such as "emulated:2" or "cuda:0,cuda:1" and opens its devices. If `spec` is NULL,
 * opens the first device of the first kind that has one, in the order cuda, hip, host, and logs the
 * choice.
 * On failure, no device stays open. */
#define FERRYI_DEVICES_MAX 15
ferry_status ferryi_devices_open(const char *spec, const struct ferryi_device_config *config,
                                 ferryi_device *out[FERRYI_DEVICES_MAX], int *out_count);

/* Returns whether the whole range of `bytes` bytes at `memory` is allocated on the emulated device;
 * `bytes` must not be 0. Returns false if the device is not an emulated device. The result is no
 * longer valid once another thread frees the memory. */
bool ferryi_emulated_has(ferryi_device *device, const void *memory, size_t bytes);

/* A table in which every function fails with FERRY_ERROR_UNSUPPORTED. A device copies the table and
 * replaces the functions that it implements. It must at least set `close`. */
extern const struct ferryi_device_ops ferryi_unsupported_ops;

#endif
