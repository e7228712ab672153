/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_GPU_DEVICE_H
#define FERRYI_GPU_DEVICE_H

/*
 * Implements the functions of struct ferryi_device_ops for a GPU whose driver has the functions of
 * gpu_abi.h. The files here are the same for every vendor of such drivers. What differs is
 * described by struct ferryi_gpu_vendor. Only the files of this folder and of the vendors' folders
 * include this header.
 *
 * The device uses the driver's primary context, which it shares with code of the process that uses
 * the runtime API. The device retains the context when it is opened and releases it when it is
 * closed. The process holds one more reference to the context after the device is closed, because
 * creating a context takes some tenths of a second on a large device.
 *
 * Every driver call runs with the device's context current. If a different context is current,
 * Ferry pushes the device's context before the call and pops it after the call. Calls that do not
 * queue work on a stream also run in relaxed capture mode. In this mode, a call neither fails
 * because of a graph capture in the process nor invalidates the capture.
 *
 * A hold (src/base/hold.h) is a series of device calls of one thread that share these changes. The
 * first call that needs a change makes it, and the end of the hold undoes it.
 *
 * The first driver error that ends the context marks the device as lost. Ferry makes no driver
 * calls for a lost device. The resources of a lost device are freed together with its context.
 */

#include "src/device/device.h"
#include "src/device/gpu/gpu_driver.h"

FERRYI_MUTEX_CLASS(ferryi_launch_mutex);
FERRYI_MUTEX_CLASS(ferryi_files_mutex);

struct ferryi_gpu_device {
    ferryi_device base;
    const struct ferryi_gpu_driver *driver;
    struct ferryi_log log;
    char name[24]; /* such as "cuda:0", for messages */
    int ordinal;
    ferryi_gpu_number device;
    ferryi_gpu_context context;
    ferryi_gpu_context peer; /* what names the device in copies between devices: its context, or its
                                number where the driver takes numbers */
    uint32_t shared_bytes;   /* bytes of shared memory that a thread block may use without an opt-in
                                of its kernel, static and dynamic ones together */
    bool is_open;            /* whether the device has been opened successfully */
    bool is_kept;     /* whether the process holds an additional reference to the context, which
                         outlives the device */
    bool integrated;  /* whether the device's memory is part of the host's memory */
    uint64_t readers; /* set of ordinals of the devices that may access memory of ranges, one bit
                         for each; includes the device itself */
    bool registers_read_only; /* whether the driver can page-lock memory that the process cannot
                                 write */
    unsigned long long
        context_id;            /* id of the retained context; 0 if the driver does not report ids */
    _Atomic unsigned int lost; /* the driver error that ended the context; 0 if there was none */
    /* whether a batched copy has failed; if so, Ferry submits no more batches to this device */
    atomic_bool batch_failed;
    /* sets of device ordinals, one bit for each device: `peers_asked` contains the devices for
     * which peer access was requested, `peers_open` those for which it is enabled, `peers_broken`
     * those whose peer access gives wrong bytes */
    _Atomic uint64_t peers_asked, peers_open, peers_broken;
    /* whether the device uses the vendor's library for files; changed with the mutex of the library
     * held */
    atomic_bool uses_files;
    /* why the device does not use that library; "" if it was not asked yet */
    FERRYI_GUARDED_BY(ferryi_files_mutex) char why_no_files[256];
    /* Protects the list `functions` and the shared memory limits of its kernels. Also held while
     * Ferry makes a green context current. A thread that holds this mutex locks no other mutex. */
    struct ferryi_launch_mutex launch_mutex;
    FERRYI_GUARDED_BY(ferryi_launch_mutex)
    /* List of the kernel handles that `code_function` has returned; a handle is freed when its
     * module is unloaded. */
    struct ferryi_gpu_kernel *functions;
};

static inline struct ferryi_gpu_device *
ferryi_gpu_of(ferryi_device *device)
{
    return (struct ferryi_gpu_device *)device;
}

/* States whether a driver call queues work that a graph capture can record. */
enum ferryi_gpu_mode {
    FERRYI_GPU_STREAM_WORK, /* work that is queued on a stream; if the stream is being captured,
                                the capture records the work */
    FERRYI_GPU_ASIDE        /* any other call: never captured */
};

/* The changes to this thread's driver state that ferryi_gpu_leave() undoes after a driver call. */
struct ferryi_gpu_entry {
    ferryi_gpu_capture_mode previous_mode;
    bool pushed, exchanged;
};

/* ferryi_gpu_enter() prepares this thread for a driver call and makes the device's context
 * current. It fails with DEVICE_LOST if the device is lost. ferryi_gpu_leave() undoes the
 * preparation. It must not be called if ferryi_gpu_enter() has failed. */
ferry_status ferryi_gpu_enter(struct ferryi_gpu_device *gpu, enum ferryi_gpu_mode mode,
                              struct ferryi_gpu_entry *out);
void ferryi_gpu_leave(struct ferryi_gpu_device *gpu, const struct ferryi_gpu_entry *entry);

/* Converts the result of a driver call to a ferry_status. On failure, sets this thread's error
 * message to the name of the call and the name of the error. If the error ended the context, marks
 * the device as lost. */
ferry_status ferryi_gpu_check(struct ferryi_gpu_device *gpu, enum ferryi_gpu_call call,
                              ferryi_gpu_result result);

/* Logs a driver call that failed while the calls before it were undone. What it should have freed
 * stays with the driver. */
void ferryi_gpu_log_undo(const struct ferryi_gpu_device *gpu, const char *what,
                         ferry_status status);

/* Opens a GPU with the given table of driver functions. Except in tests, this is the table that
 * ferryi_gpu_driver_get() returns. */
ferry_status ferryi_gpu_open_on(const struct ferryi_gpu_driver *driver, int ordinal,
                                const struct ferryi_device_config *config, ferryi_device **out);

/* Releases the references to primary contexts that the process still holds after their devices were
 * closed. Only tests that replace the driver call this function. */
void ferryi_gpu_release_kept(const struct ferryi_gpu_vendor *vendor);

/* Open and count the devices of a vendor, as the functions of ferryi_device_kind do. */
ferry_status ferryi_gpu_open(const struct ferryi_gpu_vendor *vendor, int ordinal,
                             const struct ferryi_device_config *config, ferryi_device **out);
int ferryi_gpu_count(const struct ferryi_gpu_vendor *vendor);

/* Converts the result of a driver call to a status. The call must have been made between
 * ferryi_gpu_enter() and ferryi_gpu_leave(). */
#define FERRYI_GPU_CHECK(gpu, name, result)                                                        \
    ferryi_gpu_check((gpu), FERRYI_GPU_CALL_##name, (result))
#define FERRYI_GPU_CALL(gpu, name, ...)                                                            \
    FERRYI_GPU_CHECK(gpu, name, (gpu)->driver->name(__VA_ARGS__))

/* Makes one driver call between ferryi_gpu_enter() and ferryi_gpu_leave(), and assigns its status
 * to `st`. */
#define FERRYI_GPU_RUN(st, gpu, mode, name, ...)                                                   \
    do {                                                                                           \
        struct ferryi_gpu_entry entry_;                                                            \
        (st) = ferryi_gpu_enter((gpu), (mode), &entry_);                                           \
        if ((st) == FERRY_OK) {                                                                    \
            (st) = FERRYI_GPU_CALL((gpu), name, __VA_ARGS__);                                      \
            ferryi_gpu_leave((gpu), &entry_);                                                      \
        }                                                                                          \
    } while (0)

/* If `st` is a failure, prefixes this thread's error message with a description of the attempted
 * operation. The other arguments are the format and the values of this description. */
#define FERRYI_GPU_TELL(st, ...) ((st) == FERRY_OK ? FERRY_OK : ferryi_fail_in((st), __VA_ARGS__))

static inline ferryi_gpu_pointer
ferryi_gpu_address(const void *memory)
{
    return (ferryi_gpu_pointer)(uintptr_t)memory;
}

/* Declares ferryi_gpu_memory_alloc() and the other functions of the device table. */
#define DECLARE(slot) FERRYI_SLOT_TYPE(slot) ferryi_gpu_##slot;
FERRYI_DEVICE_SLOTS(DECLARE)
#undef DECLARE

/*
 * Enables access from the device `gpu` to the memory of the device `source`, and returns whether
 * the access is enabled and gives the right bytes. Ferry requests and tests the access once for
 * each pair of devices.
 */
bool ferryi_gpu_open_peer(struct ferryi_gpu_device *gpu, struct ferryi_gpu_device *source);
/* Fails with UNSUPPORTED if a test has shown that peer access to `source` gives wrong bytes. The
 * caller then copies through the host. */
ferry_status ferryi_gpu_check_peer(struct ferryi_gpu_device *gpu,
                                   const struct ferryi_gpu_device *source);

/* Determines whether the device has ranges, and which devices may access their memory. Called when
 * the device is opened, with its context current. */
void ferryi_gpu_ranges_begin(struct ferryi_gpu_device *gpu);
void ferryi_gpu_functions_close(struct ferryi_gpu_device *gpu);
/* Ends the device's use of the vendor's library for files. Called before the context is released.
 */
void ferryi_gpu_files_end(struct ferryi_gpu_device *gpu);

#endif
