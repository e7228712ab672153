/* SPDX-License-Identifier: MIT */
#include "tests/gen/count_launches.h"

#include "src/stream/shell.h"

static ferryi_device *device;
static const struct ferryi_device_ops *original;
static struct ferryi_device_ops counting;
static _Atomic unsigned launches, host_functions;

static ferry_status
count_launch(ferryi_device *self, const struct ferryi_launch *launch, void *stream)
{
    atomic_fetch_add(&launches, 1);
    return original->launch(self, launch, stream);
}

static ferry_status
count_host_call(ferryi_device *self, void *stream, void (*run)(void *user), void *user)
{
    atomic_fetch_add(&host_functions, 1);
    return original->host_call(self, stream, run, user);
}

void
count_launches_begin(ferry_context *context)
{
    device = context->devices[1];
    original = device->ops;
    counting = *original;
    counting.launch = count_launch;
    counting.host_call = count_host_call;
    device->ops = &counting;
}

struct launch_counts
count_launches_end(void)
{
    device->ops = original;
    return (struct launch_counts){atomic_load(&launches), atomic_load(&host_functions)};
}
