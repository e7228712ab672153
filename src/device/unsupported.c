/* SPDX-License-Identifier: MIT */
#include "src/device/device.h"

/* Called instead of a function that a device does not implement. Fails with a message that names
 * the function and the device. */
static ferry_status
unsupported(const ferryi_device *device, const char *slot)
{
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%s on %s:%d: devices of this kind cannot do it",
                       slot, device->kind, device->properties.native);
}

#define UNUSED __attribute__((unused))

/* Defines one failing function for each entry of FERRYI_UNSUPPORTED_OPS. It has the parameters of
 * the function that it replaces, so that no function is called through a pointer of a different
 * type. */
#define UNSUPPORTED(slot, ...)                                                                     \
    static ferry_status slot##_unsupported(__VA_ARGS__)                                            \
    {                                                                                              \
        return unsupported(device, #slot);                                                         \
    }

UNSUPPORTED(memory_info, ferryi_device *device, size_t *out_free UNUSED, size_t *out_total UNUSED)
UNSUPPORTED(synchronize, ferryi_device *device)
UNSUPPORTED(memory_alloc, ferryi_device *device, ferry_memory_kind kind UNUSED, size_t bytes UNUSED,
            void **out UNUSED)
UNSUPPORTED(memory_free, ferryi_device *device, ferry_memory_kind kind UNUSED, void *memory UNUSED)
UNSUPPORTED(memory_is_of_host, ferryi_device *device, const void *memory UNUSED, bool *out UNUSED)
UNSUPPORTED(host_register, ferryi_device *device, void *memory UNUSED, size_t bytes UNUSED)
UNSUPPORTED(host_unregister, ferryi_device *device, void *memory UNUSED)
UNSUPPORTED(stream_create, ferryi_device *device, void **out UNUSED)
UNSUPPORTED(stream_destroy, ferryi_device *device, void *stream UNUSED)
UNSUPPORTED(stream_synchronize, ferryi_device *device, void *stream UNUSED)
UNSUPPORTED(stream_is_capturing, ferryi_device *device, void *stream UNUSED, bool *out UNUSED)
UNSUPPORTED(stream_check, ferryi_device *device, void *stream UNUSED)
UNSUPPORTED(stream_wait, ferryi_device *device, void *stream UNUSED, void *event UNUSED)
UNSUPPORTED(host_call, ferryi_device *device, void *stream UNUSED, void (*run)(void *user) UNUSED,
            void *user UNUSED)
UNSUPPORTED(event_create, ferryi_device *device, bool timed UNUSED, void **out UNUSED)
UNSUPPORTED(event_destroy, ferryi_device *device, void *event UNUSED)
UNSUPPORTED(event_record, ferryi_device *device, void *event UNUSED, void *stream UNUSED)
UNSUPPORTED(event_query, ferryi_device *device, void *event UNUSED, bool *out_done UNUSED)
UNSUPPORTED(event_synchronize, ferryi_device *device, void *event UNUSED)
UNSUPPORTED(event_elapsed, ferryi_device *device, void *begin UNUSED, void *end UNUSED,
            double *out_seconds UNUSED)
UNSUPPORTED(copy_upload, ferryi_device *device, void *target UNUSED, const void *source UNUSED,
            size_t bytes UNUSED, void *stream UNUSED)
UNSUPPORTED(copy_download, ferryi_device *device, void *target UNUSED, const void *source UNUSED,
            size_t bytes UNUSED, void *stream UNUSED)
UNSUPPORTED(copy_device, ferryi_device *device, void *target UNUSED, const void *source UNUSED,
            size_t bytes UNUSED, void *stream UNUSED)
UNSUPPORTED(copy_peer, ferryi_device *device, void *target UNUSED,
            ferryi_device *source_device UNUSED, const void *source UNUSED, size_t bytes UNUSED,
            void *stream UNUSED)
UNSUPPORTED(copy_2d, ferryi_device *device, const struct ferryi_copy_2d *copy UNUSED,
            void *stream UNUSED)
UNSUPPORTED(copy_batch, ferryi_device *device, const struct ferryi_copy *copies UNUSED,
            size_t count UNUSED, void *stream UNUSED)
UNSUPPORTED(fill, ferryi_device *device, void *target UNUSED, uint32_t pattern UNUSED,
            size_t pattern_bytes UNUSED, size_t count UNUSED, void *stream UNUSED)
UNSUPPORTED(prefetch, ferryi_device *device, void *memory UNUSED, size_t bytes UNUSED,
            ferryi_device *location UNUSED, void *stream UNUSED)
UNSUPPORTED(advise, ferryi_device *device, void *memory UNUSED, size_t bytes UNUSED,
            int advice UNUSED, ferryi_device *location UNUSED)
UNSUPPORTED(code_load, ferryi_device *device, const void *image UNUSED, size_t bytes UNUSED,
            void **out_module UNUSED)
UNSUPPORTED(code_unload, ferryi_device *device, void *module UNUSED)
UNSUPPORTED(code_function, ferryi_device *device, void *module UNUSED, const char *name UNUSED,
            void **out_function UNUSED)
UNSUPPORTED(code_parameters, ferryi_device *device, void *function UNUSED, size_t most UNUSED,
            size_t *out_bytes UNUSED, size_t *out_count UNUSED)
UNSUPPORTED(launch, ferryi_device *device, const struct ferryi_launch *launch UNUSED,
            void *stream UNUSED)

#define SLOT(slot) .slot = slot##_unsupported

const struct ferryi_device_ops ferryi_unsupported_ops = {
    SLOT(memory_info),
    SLOT(synchronize),
    SLOT(memory_alloc),
    SLOT(memory_free),
    SLOT(memory_is_of_host),
    SLOT(host_register),
    SLOT(host_unregister),
    SLOT(stream_create),
    SLOT(stream_destroy),
    SLOT(stream_synchronize),
    SLOT(stream_is_capturing),
    SLOT(stream_check),
    SLOT(stream_wait),
    SLOT(host_call),
    SLOT(event_create),
    SLOT(event_destroy),
    SLOT(event_record),
    SLOT(event_query),
    SLOT(event_synchronize),
    SLOT(event_elapsed),
    SLOT(copy_upload),
    SLOT(copy_download),
    SLOT(copy_device),
    SLOT(copy_peer),
    SLOT(copy_2d),
    SLOT(copy_batch),
    SLOT(fill),
    SLOT(prefetch),
    SLOT(advise),
    SLOT(code_load),
    SLOT(code_unload),
    SLOT(code_function),
    SLOT(code_parameters),
    SLOT(launch),
};
