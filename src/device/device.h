/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_DEVICE_H
#define FERRYI_DEVICE_H

/*
 * The device table: everything Ferry asks of a device, as one struct of functions.
 *
 * A device is opened once per context and place and closed by the context's end. Its functions may
 * be called from any thread at once unless a slot says otherwise; a device does its own locking and
 * makes no callbacks except host functions (host_call). No slot is NULL: what a device lacks points
 * at ferryi_device_unsupported's kin (see FERRYI_UNSUPPORTED_OPS in unsupported.c), which fail with
 * FERRY_ERROR_UNSUPPORTED and a message with the slot's name.
 *
 * Failing: a function that fails has done nothing, has written no output, and has set this thread's
 * message with ferryi_fail(): the driver call's name and the driver's own error name.
 * FERRY_ERROR_DEVICE_LOST means that no later call will work either; FERRY_ERROR_OUT_OF_MEMORY that
 * memory is short; FERRY_ERROR_UNSUPPORTED that it cannot be done here; all else is
 * FERRY_ERROR_DEVICE. A device never changes the calling thread's current CUDA device or context.
 *
 * Asynchrony: work on one stream runs in order; streams run independently unless events order them.
 * Asynchronous functions return when the work is queued and may also do it at once. Zero bytes are
 * legal everywhere and do nothing.
 *
 * Call slots through FERRYI_CALL(device, slot, ...), which counts the call.
 */

#include <ferry/context.h>
#include <ferry/kernel.h>
#include <ferry/pool.h>

#include "src/base/base.h"

typedef struct ferryi_device ferryi_device;

/* What a device can do beside the public FERRY_CAN_... bits. */
enum {
    FERRYI_DEVICE_COHERENT =
        1u << 16, /* its memory is host memory: no copies, kind DEVICE is never allocated */
    FERRYI_DEVICE_HOST_VISIBLE =
        1u << 17, /* the host may read and write its memory when nothing is queued (emulated) */
    FERRYI_DEVICE_CALLS_APART = 1u << 19,    /* host functions run on threads of the device or its
                                                driver, which synchronize() waits for */
    FERRYI_DEVICE_TRANSLATES = 1u << 18,     /* registered memory has another address at the device:
                                                single copies translate, batches do not */
    FERRYI_DEVICE_NO_REGISTER = 1u << 20,    /* page-locks only memory that it allocates itself */
    FERRYI_DEVICE_FREE_WAITS = 1u << 21,     /* memory_free waits for all work of the device */
    FERRYI_DEVICE_TAKES_PAGEABLE = 1u << 22, /* its copy engine walks the host's page tables: copies
                                                take pageable memory, without a copy in between */
};

struct ferryi_device_properties {
    char name[128];
    int architecture;   /* 10 * major + minor, or 0 */
    int driver_version; /* 1000 * major + 10 * minor, or 0 */
    int native;         /* the driver's ordinal */
    size_t total_bytes;
};

/* One copy of rows; pitches in bytes, at least row_bytes. */
struct ferryi_copy_2d {
    void *target;
    const void *source;
    size_t target_pitch, source_pitch;
    size_t row_bytes, rows;
    ferry_direction direction; /* UPLOAD, DOWNLOAD, DEVICE or PEER */
    ferryi_device
        *source_device; /* of a PEER copy, which goes from there into this device; else NULL */
};

/* One copy of a batch. */
struct ferryi_copy {
    void *target;
    const void *source;
    size_t bytes;
    ferry_direction direction;    /* UPLOAD, DOWNLOAD, DEVICE or PEER */
    ferryi_device *source_device; /* as of rows */
};

/* A kernel launch of loaded code. `arguments` are addresses of the values, as cuLaunchKernel takes
 * them. */
struct ferryi_launch {
    void *function;
    ferry_grid grid; /* every dimension at least 1 */
    void **arguments;
};

struct ferryi_device_ops {
    /* -- the device -- */

    /* End the device. All its streams, events, memory and code were given back before, or it is
     * lost. Frees `device`. */
    void (*close)(ferryi_device *device);
    ferry_status (*properties)(ferryi_device *device, struct ferryi_device_properties *out);
    /* Bytes free and in all, of everybody on the device: free <= total. */
    ferry_status (*memory_info)(ferryi_device *device, size_t *out_free, size_t *out_total);
    /* Block until everything queued on the device by this process is done. */
    ferry_status (*synchronize)(ferryi_device *device);

    /* -- memory -- */

    /* `bytes` > 0 of DEVICE, PINNED or MANAGED memory, aligned to 256 bytes at least,
     * uninitialised. PINNED memory is host memory that every device of the context may copy from
     * and to. FERRY_ERROR_OUT_OF_MEMORY when short. */
    ferry_status (*memory_alloc)(ferryi_device *device, ferry_memory_kind kind, size_t bytes,
                                 void **out);
    /* Give back what memory_alloc gave, of the same kind. May wait for the device. NULL does
     * nothing. */
    ferry_status (*memory_free)(ferryi_device *device, ferry_memory_kind kind, void *memory);
    /* May the host use memory that the program has? Only coherent devices are asked. */
    ferry_status (*memory_is_of_host)(ferryi_device *device, const void *memory, bool *out);
    /* Page-lock memory of the host that is not registered yet, and undo it. The memory stays the
     * caller's. Memory that the process may not write is only read by the device. */
    ferry_status (*host_register)(ferryi_device *device, void *memory, size_t bytes);
    ferry_status (*host_unregister)(ferryi_device *device, void *memory);

    /* -- streams; a stream is the driver's handle -- */

    /* A new stream that is ordered with no other, not even the default stream. */
    ferry_status (*stream_create)(ferryi_device *device, void **out);
    /* Queued work still runs. The handle may come back from a later stream_create. */
    ferry_status (*stream_destroy)(ferryi_device *device, void *stream);
    /* Block until all work of the stream is done; failures of that work show here or at any later
     * call. */
    ferry_status (*stream_synchronize)(ferryi_device *device, void *stream);
    /* Is work on the stream being captured into a graph instead of run? Legal at any time. */
    ferry_status (*stream_is_capturing)(ferryi_device *device, void *stream, bool *out);
    /* Fails where the handle, which the program made, is no stream that takes work and events of
     * this device. */
    ferry_status (*stream_check)(ferryi_device *device, void *stream);
    /* Later work of the stream waits for the event's last record at this moment; an event never
     * recorded is complete. The event may belong to another device of the same kind. */
    ferry_status (*stream_wait)(ferryi_device *device, void *stream, void *event);
    /* Call `run(user)` on some thread in the order of the stream; later work of the stream waits
     * for its return. `run` calls no device function. */
    ferry_status (*host_call)(ferryi_device *device, void *stream, void (*run)(void *user),
                              void *user);

    /* -- events -- */

    ferry_status (*event_create)(ferryi_device *device, void **out);
    /* As event_create. A record of such an event also keeps the time at which the stream reaches
     * it. */
    ferry_status (*event_create_timed)(ferryi_device *device, void **out);
    /* An event with waiters may be destroyed; they are not disturbed. */
    ferry_status (*event_destroy)(ferryi_device *device, void *event);
    /* The event now stands for all work on the stream so far; a second record replaces the first.
     */
    ferry_status (*event_record)(ferryi_device *device, void *event, void *stream);
    /* `*out_done` without blocking; an event never recorded is done. */
    ferry_status (*event_query)(ferryi_device *device, void *event, bool *out_done);
    ferry_status (*event_synchronize)(ferryi_device *device, void *event);
    /* Seconds from the time at which a stream reached `begin` to the time at which one reached
     * `end`; negative where `end` was reached first. Both are events of this device.
     * FERRY_ERROR_DEVICE where one was not created by event_create_timed, was never recorded, or is
     * not done. Does not block. */
    ferry_status (*event_elapsed)(ferryi_device *device, void *begin, void *end,
                                  double *out_seconds);

    /* -- copies, asynchronous on `stream` -- */

    /* Host memory is PINNED, MANAGED or registered, and stays untouched until the copy is done.
     * With FERRYI_DEVICE_TAKES_PAGEABLE it may be any, as long as it; UNSUPPORTED then means that
     * the device does not take this range, such as one that is registered in part. Ranges do not
     * overlap. */
    ferry_status (*copy_upload)(ferryi_device *device, void *target, const void *source,
                                size_t bytes, void *stream);
    ferry_status (*copy_download)(ferryi_device *device, void *target, const void *source,
                                  size_t bytes, void *stream);
    ferry_status (*copy_device)(ferryi_device *device, void *target, const void *source,
                                size_t bytes, void *stream);
    /* From another device of the same kind into this one, on a stream of this one. UNSUPPORTED when
     * it cannot reach it. */
    ferry_status (*copy_peer)(ferryi_device *device, void *target, ferryi_device *source_device,
                              const void *source, size_t bytes, void *stream);
    /* Of a PEER copy UNSUPPORTED as from copy_peer. */
    ferry_status (*copy_2d)(ferryi_device *device, const struct ferryi_copy_2d *copy, void *stream);
    /*
     * Disjoint copies in any order, as one submission; those of PEER direction have one source
     * device. All are queued or none. UNSUPPORTED: these, or any, have to go one by one. Registered
     * memory is not legal in a batch where there is FERRYI_DEVICE_TRANSLATES.
     */
    ferry_status (*copy_batch)(ferryi_device *device, const struct ferryi_copy *copies,
                               size_t count, void *stream);
    /* Repeat a pattern of 1, 2 or 4 bytes `count` times; `target` is aligned to the pattern. */
    ferry_status (*fill)(ferryi_device *device, void *target, uint32_t pattern,
                         size_t pattern_bytes, size_t count, void *stream);

    /* -- managed memory; `location` is a device of the context or NULL for the host -- */

    ferry_status (*prefetch)(ferryi_device *device, void *memory, size_t bytes,
                             ferryi_device *location, void *stream);
    /* `advice` is a ferry_advice value. */
    ferry_status (*advise)(ferryi_device *device, void *memory, size_t bytes, int advice,
                           ferryi_device *location);

    /* -- code -- */

    /* Load PTX, a cubin or a fatbin. `bytes` counts a PTX text's NUL. */
    ferry_status (*code_load)(ferryi_device *device, const void *image, size_t bytes,
                              void **out_module);
    ferry_status (*code_unload)(ferryi_device *device, void *module);
    ferry_status (*code_function)(ferryi_device *device, void *module, const char *name,
                                  void **out_function);
    /* The bytes of the first `most` parameters that the function's code takes, and how many of
     * these there are. UNSUPPORTED where the driver does not report them. */
    ferry_status (*code_parameters)(ferryi_device *device, void *function, size_t most,
                                    size_t *out_bytes, size_t *out_count);
    ferry_status (*launch)(ferryi_device *device, const struct ferryi_launch *launch, void *stream);
};

/* The head of every device; implementations embed it as their first member. Set by open, then
 * constant but `calls`. */
struct ferryi_device {
    const struct ferryi_device_ops *ops;
    const char *kind;        /* "host", "emulated", "cuda", ... */
    uint64_t capabilities;   /* FERRY_CAN_... and FERRYI_DEVICE_... bits */
    void *default_stream;    /* handle of the default stream: lives as long as the device, is not
                                destroyed */
    void *per_thread_stream; /* handle that means another stream in each thread, or NULL when there
                                is none */
    struct ferryi_device_properties properties; /* filled at open */
    uint64_t link_bytes; /* of the link to the host's memory per second and direction; 0: unknown */
    unsigned host_node;  /* one more than the number of the host's NUMA node that is nearest; 0:
                            unknown */
    _Atomic uint64_t calls; /* made through FERRYI_CALL */
    bool default_is_null;   /* a NULL handle means default_stream (CUDA) */
};

#define FERRYI_CALL(device, slot, ...)                                                             \
    (atomic_fetch_add_explicit(&(device)->calls, 1, memory_order_relaxed),                         \
     (device)->ops->slot((device), __VA_ARGS__))

/* The one slot without further arguments. */
static inline ferry_status
ferryi_device_synchronize(ferryi_device *device)
{
    atomic_fetch_add_explicit(&device->calls, 1, memory_order_relaxed);
    return device->ops->synchronize(device);
}

/* What opening needs to know, from the context's options. */
struct ferryi_device_config {
    struct ferryi_log log;
    size_t emulated_memory_bytes; /* 0: the default */
    uint64_t emulated_latency_ns;
    uint64_t emulated_bytes_per_second; /* 0: unlimited */
    bool emulated_without_peers, cuda_without_batches;
};

/*
 * A kind of device, in the registry. `count` says how many this machine has (0 when the driver is
 * absent, with this thread's message saying why). `open` opens ordinal 0..count-1; devices of one
 * kind opened by one context know each other as peers. For kinds that make devices up (emulated),
 * any ordinal can be opened and count is 1.
 */
typedef struct ferryi_device_kind {
    const char *name;
    int (*count)(void);
    ferry_status (*open)(int ordinal, const struct ferryi_device_config *config,
                         ferryi_device **out);
    bool made_up; /* "name:N" means N devices; else "name:K" means device K, and "name:all" each */
} ferryi_device_kind;

extern const ferryi_device_kind ferryi_host_kind, ferryi_emulated_kind, ferryi_cuda_kind;

/* The registry (registry.c): the built-in kinds, and those that tests add before their first
 * context. */
void ferryi_device_register(const ferryi_device_kind *kind);

/* Parse a list such as "emulated:2" or "cuda:0,cuda:1" and open its devices. `spec` NULL: the best
 * CUDA device, else the host device, which is logged. On failure nothing stays open. */
#define FERRYI_DEVICES_MAX 15
ferry_status ferryi_devices_open(const char *spec, const struct ferryi_device_config *config,
                                 ferryi_device *out[FERRYI_DEVICES_MAX], int *out_count);

/* Does an emulated device have all of `bytes` > 0 at `memory`? False for devices of other kinds.
 * The answer is old when the memory is freed meanwhile. */
bool ferryi_emulated_has(ferryi_device *device, const void *memory, size_t bytes);

/* A table in which every slot fails with FERRY_ERROR_UNSUPPORTED, except close, which the device
 * must set. Devices copy it and set what they have. */
extern const struct ferryi_device_ops ferryi_unsupported_ops;

#endif
