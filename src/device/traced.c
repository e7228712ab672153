/* SPDX-License-Identifier: MIT */
#include "src/device/traced.h"

#include <stdio.h>
#include <stdlib.h>

struct ferryi_traced_ops {
    struct ferryi_device_ops ops; /* the devices' table; must be the first member */
    const struct ferryi_device_ops *real;
    ferryi_trace *trace;
};

static const struct ferryi_traced_ops *
traced_of(const ferryi_device *device)
{
    return (const struct ferryi_traced_ops *)device->ops;
}

/* Adds an entry to the trace for a wait that has just ended. Returns the wait's `status` unchanged.
 */
static ferry_status
add_wait(const ferryi_device *device, const char *name, uint64_t begun_ns, ferry_status status)
{
    char place[48];
    snprintf(place, sizeof(place), "%s:%d", device->kind, device->properties.native);
    const struct ferryi_trace_text text = FERRYI_TRACE_ANY(place);
    const struct ferryi_trace_argument argument = FERRYI_TRACE_TEXT("device", text);
    ferryi_trace_add(traced_of(device)->trace,
                     &(struct ferryi_trace_entry){.phase = 'X',
                                                  .category = FERRYI_TRACE_PLAIN("wait"),
                                                  .name = FERRYI_TRACE_ANY(name),
                                                  .begun_ns = begun_ns,
                                                  .arguments = &argument,
                                                  .argument_count = 1});
    return status;
}

static ferry_status
synchronize(ferryi_device *device)
{
    uint64_t begun = ferryi_now_ns();
    return add_wait(device, "wait for a device", begun,
                    traced_of(device)->real->synchronize(device));
}

static ferry_status
stream_synchronize(ferryi_device *device, void *stream)
{
    uint64_t begun = ferryi_now_ns();
    return add_wait(device, "wait for a stream", begun,
                    traced_of(device)->real->stream_synchronize(device, stream));
}

static ferry_status
event_synchronize(ferryi_device *device, void *event)
{
    uint64_t begun = ferryi_now_ns();
    return add_wait(device, "wait for an event", begun,
                    traced_of(device)->real->event_synchronize(device, event));
}

ferry_status
ferryi_devices_trace(ferryi_device **devices, int count, ferryi_trace *trace,
                     struct ferryi_traced_ops **out)
{
    struct ferryi_traced_ops *all = calloc((size_t)count + 1, sizeof(*all));
    if (!all)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "trace %d devices: no host memory", count);
    for (int place = 1; place <= count; place++) {
        const struct ferryi_device_ops *real = devices[place]->ops;
        /* Devices with the same table of functions also share one traced table. */
        int same = 1;
        while (same < place && all[same].real != real)
            same++;
        all[same].ops = *real;
        all[same].ops.synchronize = synchronize;
        all[same].ops.stream_synchronize = stream_synchronize;
        all[same].ops.event_synchronize = event_synchronize;
        all[same].real = real;
        all[same].trace = trace;
        devices[place]->ops = &all[same].ops;
    }
    *out = all;
    return FERRY_OK;
}
