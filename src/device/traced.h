/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TRACED_H
#define FERRYI_TRACED_H

/*
 * Records in the trace how long the host waits for devices. In a traced context, each device gets a
 * table of functions whose blocking functions measure their time. All other slots keep the device's
 * own functions. In a context without a trace, devices keep their tables.
 */

#include "src/base/trace.h"
#include "src/device/device.h"

struct ferryi_traced_ops;

/* Replaces the tables of `devices[1]` to `devices[count]` by traced ones. The caller frees `*out`
 * after the devices are closed. Fails with OUT_OF_MEMORY. */
ferry_status ferryi_devices_trace(ferryi_device **devices, int count, ferryi_trace *trace,
                                  struct ferryi_traced_ops **out);

#endif
