/* SPDX-License-Identifier: MIT */
#include "src/device/device.h"

#include <stdio.h>

#include "src/base/trace.h"

/* Calls the device functions that block. Records in the device's trace how long the host waits for
 * the device. */

/* Counts a device call that blocks, and returns the time at which the wait begins. Returns 0 if the
 * device has no trace. */
static uint64_t
begin_wait(ferryi_device *device)
{
    atomic_fetch_add_explicit(&device->calls, 1, memory_order_relaxed);
    return device->trace ? ferryi_now_ns() : 0;
}

/* Adds an entry for a finished wait to the device's trace, if the device has a trace. Returns the
 * parameter `status` unchanged. */
static ferry_status
add_wait(const ferryi_device *device, const char *name, uint64_t begun_ns, ferry_status status)
{
    char place[48];
    if (!device->trace)
        return status;
    snprintf(place, sizeof(place), "%s:%d", device->kind, device->properties.native);
    const struct ferryi_trace_text text = FERRYI_TRACE_ANY(place);
    const struct ferryi_trace_argument argument = FERRYI_TRACE_TEXT("device", text);
    ferryi_trace_add(device->trace,
                     &(struct ferryi_trace_entry){.phase = 'X',
                                                  .category = FERRYI_TRACE_PLAIN("wait"),
                                                  .name = FERRYI_TRACE_ANY(name),
                                                  .begun_ns = begun_ns,
                                                  .arguments = &argument,
                                                  .argument_count = 1});
    return status;
}

ferry_status
ferryi_device_synchronize(ferryi_device *device)
{
    uint64_t begun = begin_wait(device);
    return add_wait(device, "wait for a device", begun, device->ops->synchronize(device));
}

ferry_status
ferryi_device_wait_stream(ferryi_device *device, void *stream)
{
    uint64_t begun = begin_wait(device);
    return add_wait(device, "wait for a stream", begun,
                    device->ops->stream_synchronize(device, stream));
}

ferry_status
ferryi_device_wait_event(ferryi_device *device, void *event)
{
    uint64_t begun = begin_wait(device);
    return add_wait(device, "wait for an event", begun,
                    device->ops->event_synchronize(device, event));
}
