/* SPDX-License-Identifier: MIT */
#include "src/device/device.h"

/* Calls the device functions that block, and reports how long the host waits for the device. */

/* Counts a device call that blocks, and returns the time at which the wait begins. Returns 0 if
 * waits are not reported. */
static uint64_t
begin_wait(ferryi_device *device)
{
    atomic_fetch_add_explicit(&device->calls, 1, memory_order_relaxed);
    return device->on_wait ? ferryi_now_ns() : 0;
}

/* Reports a finished wait. Returns the parameter `status` unchanged. */
static ferry_status
end_wait(const ferryi_device *device, const char *what, uint64_t begun_ns, ferry_status status)
{
    if (device->on_wait)
        device->on_wait(device, what, begun_ns);
    return status;
}

ferry_status
ferryi_device_synchronize(ferryi_device *device)
{
    uint64_t begun = begin_wait(device);
    return end_wait(device, "wait for a device", begun, device->ops->synchronize(device));
}

ferry_status
ferryi_device_wait_stream(ferryi_device *device, void *stream)
{
    uint64_t begun = begin_wait(device);
    return end_wait(device, "wait for a stream", begun,
                    device->ops->stream_synchronize(device, stream));
}

ferry_status
ferryi_device_wait_event(ferryi_device *device, void *event)
{
    uint64_t begun = begin_wait(device);
    return end_wait(device, "wait for an event", begun,
                    device->ops->event_synchronize(device, event));
}
