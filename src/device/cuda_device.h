/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CUDA_DEVICE_H
#define FERRYI_CUDA_DEVICE_H

/*
 * A CUDA device: implements the functions of struct ferryi_device_ops with the driver's primary
 * context. The device retains this context from open to close, and shares it with code of the
 * process that uses the runtime API. The process keeps the context after the device is closed,
 * because creating a context takes some tenths of a second on a large device. Only the files
 * cuda*.c include this header.
 *
 * Every driver call runs with the device's context current. If a different context is current,
 * Ferry pushes the device's context before the call and pops it afterwards. All calls except those
 * that queue work on a stream also run in relaxed capture mode. In this mode, a call neither fails
 * because of a graph capture in the process nor invalidates the capture. A thread can hold such
 * changes over several calls (src/base/hold.h). The first call that needs a change then makes it,
 * and the end of the hold undoes it.
 *
 * The first driver error that ends the context marks the device as lost. Ferry makes no driver call
 * for a lost device. The resources that a lost device still has are freed with the context.
 */

#include "src/device/cuda_loader.h"
#include "src/device/device.h"

FERRYI_MUTEX_CLASS(ferryi_launch_mutex);

struct ferryi_cuda_device {
    ferryi_device base;
    const struct ferryi_cuda_driver *driver;
    struct ferryi_log log;
    int ordinal;
    ferryi_cu_device device;
    ferryi_cu_context context;
    bool is_open;             /* set once, at the end of opening */
    bool is_kept;             /* whether the process keeps the context */
    bool integrated;          /* whether the device's memory is part of the host's memory */
    bool registers_read_only; /* whether host_register accepts memory that the process cannot write
                               */
    unsigned long long context_id; /* id of the retained context; 0 if the driver has no ids */
    _Atomic unsigned int lost;     /* the error that ended the context; 0 if none */
    /* whether a batch has failed, so that Ferry submits no more batches */
    atomic_bool batch_failed;
    /* bit sets of the ordinals of other devices: those to which peer access was requested, and
     * those to which it is enabled */
    _Atomic uint64_t peers_asked, peers_open;
    struct ferryi_launch_mutex launch_mutex; /* held while a shared memory limit is raised; no other
                                                lock is taken while it is held */
    FERRYI_GUARDED_BY(ferryi_launch_mutex)
    struct ferryi_cuda_function *functions; /* list of the handles that code_function returned and
                                               whose modules are still loaded */
};

static inline struct ferryi_cuda_device *
ferryi_cuda_of(ferryi_device *device)
{
    return (struct ferryi_cuda_device *)device;
}

/* How a driver call relates to graph captures. */
enum ferryi_cuda_mode {
    FERRYI_CUDA_STREAM_WORK, /* work that is queued on a stream; if the stream is being captured,
                                the capture records the work */
    FERRYI_CUDA_ASIDE        /* any other call: never captured */
};

/* The state that ferryi_cuda_leave() restores after a driver call. */
struct ferryi_cuda_entry {
    ferryi_cu_capture_mode previous_mode;
    bool pushed, exchanged;
};

/* Makes the device's context current. Fails with DEVICE_LOST if the device is lost. After a
 * failure, ferryi_cuda_leave() must not be called. */
ferry_status ferryi_cuda_enter(struct ferryi_cuda_device *cuda, enum ferryi_cuda_mode mode,
                               struct ferryi_cuda_entry *out);
void ferryi_cuda_leave(struct ferryi_cuda_device *cuda, const struct ferryi_cuda_entry *entry);

/* Converts the result of a driver call to a status. On failure, sets this thread's message to
 * "call: error". If the error ended the context, marks the device as lost. */
ferry_status ferryi_cuda_check(struct ferryi_cuda_device *cuda, const char *call,
                               ferryi_cu_result result);

/* Opens a CUDA device with the given table of driver functions. A context always passes the table
 * of the process's driver. */
ferry_status ferryi_cuda_open_on(const struct ferryi_cuda_driver *driver, int ordinal,
                                 const struct ferryi_device_config *config, ferryi_device **out);

/* Releases the primary contexts that the process keeps after their devices were closed. Only tests
 * that replace the driver call this function. */
void ferryi_cuda_release_kept(void);

/* Converts the result of a driver call to a status. The call must have been made between
 * ferryi_cuda_enter() and ferryi_cuda_leave(). */
#define FERRYI_CUDA_CHECK(cuda, name, result) ferryi_cuda_check((cuda), #name, (result))
#define FERRYI_CUDA_CALL(cuda, name, ...)                                                          \
    FERRYI_CUDA_CHECK(cuda, name, (cuda)->driver->name(__VA_ARGS__))

/* Makes one driver call between ferryi_cuda_enter() and ferryi_cuda_leave(), and assigns its status
 * to `st`. */
#define FERRYI_CUDA_RUN(st, cuda, mode, name, ...)                                                 \
    do {                                                                                           \
        struct ferryi_cuda_entry entry_;                                                           \
        (st) = ferryi_cuda_enter((cuda), (mode), &entry_);                                         \
        if ((st) == FERRY_OK) {                                                                    \
            (st) = FERRYI_CUDA_CALL((cuda), name, __VA_ARGS__);                                    \
            ferryi_cuda_leave((cuda), &entry_);                                                    \
        }                                                                                          \
    } while (0)

/* If `st` is a failure, puts a description of what was attempted in front of this thread's error
 * message. */
#define FERRYI_CUDA_TELL(st, ...) ((st) == FERRY_OK ? FERRY_OK : ferryi_fail_in((st), __VA_ARGS__))

static inline ferryi_cu_pointer
ferryi_cuda_pointer(const void *memory)
{
    return (ferryi_cu_pointer)(uintptr_t)memory;
}

/* Declares ferryi_cuda_memory_alloc() and the other functions of the device table. */
#define DECLARE(slot) FERRYI_SLOT_TYPE(slot) ferryi_cuda_##slot;
FERRYI_DEVICE_SLOTS(DECLARE)
#undef DECLARE

void ferryi_cuda_functions_close(struct ferryi_cuda_device *cuda);

#endif
