/* SPDX-License-Identifier: MIT */
#include "src/device/device.h"

/* The functions in this file use only their first parameter, so the compiler's warning about unused
 * parameters is disabled. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Called instead of a function that a device does not implement. Fails with a message that names
 * the function and the device. */
static ferry_status
unsupported(const ferryi_device *device, const char *slot)
{
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%s on %s:%d: devices of this kind cannot do it",
                       slot, device->kind, device->properties.native);
}

/* Defines a function that always fails, for one member of the device table. The function has
 * exactly the parameters of the member's type, so that no call goes through a pointer of a
 * different function type. */
#define UNSUPPORTED(slot, ...)                                                                     \
    static ferry_status slot##_unsupported(__VA_ARGS__)                                            \
    {                                                                                              \
        return unsupported(device, #slot);                                                         \
    }

UNSUPPORTED(memory_info, ferryi_device *device, size_t *out_free, size_t *out_total)
UNSUPPORTED(synchronize, ferryi_device *device)
UNSUPPORTED(memory_alloc, ferryi_device *device, ferry_memory_kind kind, size_t bytes, void **out)
UNSUPPORTED(memory_free, ferryi_device *device, ferry_memory_kind kind, void *memory)
UNSUPPORTED(range_reserve, ferryi_device *device, size_t bytes, void **out)
UNSUPPORTED(range_release, ferryi_device *device, void *range, size_t bytes)
UNSUPPORTED(range_map, ferryi_device *device, void *memory, size_t bytes, void **out_handle)
UNSUPPORTED(range_unmap, ferryi_device *device, void *memory, size_t bytes, void *handle)
UNSUPPORTED(shared_alloc, ferryi_device *device, struct ferryi_shared_memory *shared, void **out)
UNSUPPORTED(shared_open, ferryi_device *device, const struct ferryi_shared_memory *shared,
            void **out)
UNSUPPORTED(shared_free, ferryi_device *device, const struct ferryi_shared_memory *shared,
            void *memory)
UNSUPPORTED(shared_event_create, ferryi_device *device, struct ferryi_token *out_token, void **out)
UNSUPPORTED(shared_event_open, ferryi_device *device, const struct ferryi_token *token, void **out)
UNSUPPORTED(memory_users, ferryi_device *device, const void *memory, unsigned *out)
UNSUPPORTED(memory_is_pinned, ferryi_device *device, const void *memory, size_t bytes, bool *out)
UNSUPPORTED(host_register, ferryi_device *device, void *memory, size_t bytes)
UNSUPPORTED(host_unregister, ferryi_device *device, void *memory)
UNSUPPORTED(stream_create, ferryi_device *device, void **out)
UNSUPPORTED(stream_destroy, ferryi_device *device, void *stream)
UNSUPPORTED(stream_synchronize, ferryi_device *device, void *stream)
UNSUPPORTED(stream_is_capturing, ferryi_device *device, void *stream, bool *out)
UNSUPPORTED(stream_check, ferryi_device *device, void *stream, void **out_scope)
UNSUPPORTED(event_create_in, ferryi_device *device, void *scope, bool timed, void **out)
UNSUPPORTED(event_record_in, ferryi_device *device, void *scope, void *event, void *stream)
UNSUPPORTED(stream_id, ferryi_device *device, void *stream, uint64_t *out)
UNSUPPORTED(stream_wait, ferryi_device *device, void *stream, void *event)
UNSUPPORTED(host_call, ferryi_device *device, void *stream, void (*run)(void *user), void *user)
UNSUPPORTED(event_create, ferryi_device *device, bool timed, void **out)
UNSUPPORTED(event_destroy, ferryi_device *device, void *event)
UNSUPPORTED(event_record, ferryi_device *device, void *event, void *stream)
UNSUPPORTED(event_query, ferryi_device *device, void *event, bool *out_done)
UNSUPPORTED(event_synchronize, ferryi_device *device, void *event)
UNSUPPORTED(event_elapsed, ferryi_device *device, void *begin, void *end, double *out_seconds)
UNSUPPORTED(copy, ferryi_device *device, const struct ferryi_copy *copy, void *stream)
UNSUPPORTED(copy_2d, ferryi_device *device, const struct ferryi_copy_2d *copy, void *stream)
UNSUPPORTED(copy_batch, ferryi_device *device, const struct ferryi_copy *copies, size_t count,
            void *stream)
UNSUPPORTED(fill, ferryi_device *device, void *target, uint32_t pattern, size_t pattern_bytes,
            size_t count, void *stream)
UNSUPPORTED(file_open, ferryi_device *device, int fd, void **out)
UNSUPPORTED(file_copy, ferryi_device *device, void *file, const struct ferryi_file_copy *copy,
            size_t *out_bytes)
UNSUPPORTED(file_close, ferryi_device *device, void *file)
UNSUPPORTED(prefetch, ferryi_device *device, void *memory, size_t bytes, ferryi_device *location,
            void *stream)
UNSUPPORTED(advise, ferryi_device *device, void *memory, size_t bytes, int advice,
            ferryi_device *location)
UNSUPPORTED(code_load, ferryi_device *device, const void *image, size_t bytes, void **out_module)
UNSUPPORTED(code_build, ferryi_device *device, const struct ferryi_code_job *job, void **out_module)
UNSUPPORTED(code_unload, ferryi_device *device, void *module)
UNSUPPORTED(code_function, ferryi_device *device, void *module, const char *name,
            void **out_function)
UNSUPPORTED(code_parameters, ferryi_device *device, void *function, size_t most, size_t *out_bytes,
            size_t *out_count)
UNSUPPORTED(launch, ferryi_device *device, const struct ferryi_launch *launch, void *stream)
UNSUPPORTED(capture_begin, ferryi_device *device, void *stream)
UNSUPPORTED(capture_end, ferryi_device *device, void *stream, void **out_graph)
UNSUPPORTED(graph_launch, ferryi_device *device, void *graph, void *stream)
UNSUPPORTED(graph_destroy, ferryi_device *device, void *graph)

#define SLOT(slot) .slot = slot##_unsupported,

const struct ferryi_device_ops ferryi_unsupported_ops = {FERRYI_DEVICE_SLOTS(SLOT)};
