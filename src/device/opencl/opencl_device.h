/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_OPENCL_DEVICE_H
#define FERRYI_OPENCL_DEVICE_H

/*
 * The OpenCL device. Only the files of this folder include this header.
 *
 * All memory has an address that kernels take as it is, so that pools may cut it: unified shared
 * memory if the device has it, otherwise shared virtual memory, of which the coarse-grained kind is
 * enough. The host never accesses memory of kind DEVICE, so that memory need not be mapped.
 *
 * A stream is an in-order command queue, and its handle is that of the queue. An event is the
 * OpenCL event of a marker, which each record replaces. All devices of a platform share one OpenCL
 * context, so that they wait for each other's events and read each other's memory.
 *
 * Host functions run on threads of Ferry, one for each stream that has called any, and never in a
 * callback of OpenCL: a driver may run a callback in any thread, also in the caller of
 * clSetEventCallback(), and forbids it to block. The queue waits for a user event until the
 * function has returned.
 *
 * A queue is released only after its work is done, because not every driver survives the opposite.
 */

#include "src/device/device.h"
#include "src/device/opencl/opencl_loader.h"

FERRYI_MUTEX_CLASS(ferryi_opencl_mutex);
FERRYI_MUTEX_CLASS(ferryi_opencl_event_mutex);
FERRYI_MUTEX_CLASS(ferryi_opencl_kernel_mutex);
FERRYI_MUTEX_CLASS(ferryi_opencl_stream_mutex);

/* A host function that a stream waits for (opencl_call.c). */
struct ferryi_opencl_call;

/* A queue. The struct outlives the stream until the work of the queue is done. */
struct ferryi_opencl_stream {
    struct ferryi_opencl_stream *next;
    const struct ferryi_opencl_driver *driver;
    ferryi_cl_queue queue;
    bool is_of_program;  /* the program created the queue, and Ferry has a reference to it */
    bool is_retired;     /* destroyed, but its work may not be done */
    ferryi_cl_event end; /* of a retired stream: complete when its work is done */
    struct ferryi_opencl_stream_mutex mutex;
    ferryi_cond given;
    FERRYI_GUARDED_BY(ferryi_opencl_stream_mutex) struct {
        ferryi_cl_queue clock; /* a queue that measures times; NULL until an event needs it */
        struct ferryi_opencl_call *first, *last; /* host functions that have not begun */
        bool has_thread, is_closed;
    };
    ferryi_thread thread;
};

/* Memory that memory_alloc returned. */
struct ferryi_opencl_memory {
    struct ferryi_opencl_memory *next;
    char *base;    /* what the driver returned */
    size_t bytes;  /* of the driver's allocation */
    void *address; /* what memory_alloc returned: the first aligned address */
    ferry_memory_kind kind;
    /* The driver's buffer that `base` is the mapped address of, or that copies of rows use with the
     * memory; NULL: none yet. */
    ferryi_cl_memory buffer;
};

struct ferryi_opencl_device {
    ferryi_device base;
    struct ferryi_device_ops ops;
    const struct ferryi_opencl_driver *driver;
    struct ferryi_opencl_platform *platform;
    ferryi_cl_device device;
    struct ferryi_log log;
    int ordinal;
    enum ferryi_opencl_model model;
    bool rounds_division; /* division and roots of float are exact with a compiler's option */
    bool has_denormals;   /* computes with denormal floats, rather than with 0 in their place */
    bool takes_spirv;
    bool reaches_host; /* kernels access all memory of the host (fine-grained system memory) */
    bool calls_wait;   /* a user event stops the driver's other queues, so host_call waits */
    size_t most_bytes; /* of one allocation */
    ferryi_cl_queue service; /* for work of the device itself, always idle between two calls */
    _Atomic bool is_lost;
    _Atomic size_t used_bytes;
    _Atomic uint64_t memory_version; /* changes whenever the list of allocations does */
    struct ferryi_opencl_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_opencl_mutex) struct {
        struct ferryi_opencl_stream *streams;
        struct ferryi_opencl_memory *memory;
        bool rows_tried;   /* whether the kernel that copies rows was built */
        void *rows_module; /* NULL if it could not be built */
        void *rows_function;
    };
};

static inline struct ferryi_opencl_device *
ferryi_opencl_of(ferryi_device *device)
{
    return (struct ferryi_opencl_device *)device;
}

/* Translates the result of a driver call into a status and a message. Notes that the device is
 * lost. */
ferry_status ferryi_opencl_check(struct ferryi_opencl_device *opencl, const char *call,
                                 ferryi_cl_int result);
/* Fails with DEVICE_LOST. */
ferry_status ferryi_opencl_refuse(const struct ferryi_opencl_device *opencl, const char *call);

/* Calls a function of the driver, unless the device is lost. */
#define FERRYI_OPENCL_CALL(opencl, name, ...)                                                      \
    FERRYI_OPENCL_RUN(opencl, name, (opencl)->driver->name(__VA_ARGS__))
/* Evaluates `call`, which calls the function `name` of a driver, unless the device is lost. */
#define FERRYI_OPENCL_RUN(opencl, name, call)                                                      \
    (atomic_load_explicit(&(opencl)->is_lost, memory_order_relaxed)                                \
         ? ferryi_opencl_refuse((opencl), #name)                                                   \
         : ferryi_opencl_check((opencl), #name, (call)))

#define FERRYI_OPENCL_SLOTS(X)                                                                     \
    X(memory_info)                                                                                 \
    X(synchronize)                                                                                 \
    X(memory_alloc)                                                                                \
    X(memory_free)                                                                                 \
    X(memory_users)                                                                                \
    X(stream_create)                                                                               \
    X(stream_destroy)                                                                              \
    X(stream_synchronize)                                                                          \
    X(stream_is_capturing)                                                                         \
    X(stream_check)                                                                                \
    X(stream_wait)                                                                                 \
    X(host_call)                                                                                   \
    X(event_create)                                                                                \
    X(event_destroy)                                                                               \
    X(event_record)                                                                                \
    X(event_query)                                                                                 \
    X(event_synchronize)                                                                           \
    X(event_elapsed)                                                                               \
    X(copy)                                                                                        \
    X(copy_2d)                                                                                     \
    X(copy_batch)                                                                                  \
    X(fill)                                                                                        \
    X(code_load)                                                                                   \
    X(code_build)                                                                                  \
    X(code_unload)                                                                                 \
    X(code_function)                                                                               \
    X(code_parameters)                                                                             \
    X(launch)
#define DECLARE(slot) FERRYI_SLOT_TYPE(slot) ferryi_opencl_##slot;
FERRYI_OPENCL_SLOTS(DECLARE)
#undef DECLARE

/* -- streams (opencl_stream.c) -- */

ferry_status ferryi_opencl_queue_create(struct ferryi_opencl_device *opencl, bool measures,
                                        ferryi_cl_queue *out);
/* Returns the stream with a handle. Fails if the device has none such. */
ferry_status ferryi_opencl_stream_find(struct ferryi_opencl_device *opencl, const void *handle,
                                       struct ferryi_opencl_stream **out);
/* Waits for the work of all streams and frees them. */
void ferryi_opencl_streams_close(struct ferryi_opencl_device *opencl);
/* Returns whether an event is complete or has failed. Sets `*out_state` to the negative error of a
 * failed one. */
bool ferryi_opencl_is_done(const struct ferryi_opencl_driver *driver, ferryi_cl_event event,
                           ferryi_cl_int *out_state);

/* -- host functions (opencl_call.c) -- */

/* Runs the host functions that are left, and ends the thread of a stream. */
void ferryi_opencl_calls_end(struct ferryi_opencl_stream *stream);
/* Returns whether a queue works while another one waits for a user event. */
bool ferryi_opencl_calls_test(struct ferryi_opencl_device *opencl);

/* -- memory (opencl_memory.c) -- */

/* Sets `*out` to a buffer of the driver on the allocation that contains `address`, and
 * `*out_offset` to the position of the address in it. Returns false if there is none. The buffer
 * stays valid as long as the allocation. */
bool ferryi_opencl_memory_buffer(struct ferryi_opencl_device *opencl, const void *address,
                                 ferryi_cl_memory *out, size_t *out_offset);
/* Returns whether kernels access the memory at an address, as far as is known. */
bool ferryi_opencl_memory_is_reached(struct ferryi_opencl_device *opencl, const void *address);
/* Declares all allocations as memory that a kernel may access by addresses in its data. */
ferry_status ferryi_opencl_memory_declare(struct ferryi_opencl_device *opencl,
                                          ferryi_cl_kernel kernel);
void ferryi_opencl_memory_close(struct ferryi_opencl_device *opencl);

/* -- copies of rows (opencl_rows.c) -- */

/* Copies the rows with a kernel. Both sides must be memory that kernels access.
 * @return FERRY_OK; FERRY_ERROR_UNSUPPORTED if the device cannot build the kernel. */
ferry_status ferryi_opencl_rows_launch(struct ferryi_opencl_device *opencl,
                                       const struct ferryi_copy_2d *copy, void *stream);
void ferryi_opencl_rows_close(struct ferryi_opencl_device *opencl);

#endif
