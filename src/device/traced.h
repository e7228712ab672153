/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TRACED_H
#define FERRYI_TRACED_H

/*
 * Records in the trace how long the host waits for devices. In a context with a trace, each device
 * gets a new table of functions. In this table, the functions that block measure their time, and
 * all other functions are the device's own. In a context without a trace, devices keep their
 * tables.
 */

#include "src/base/trace.h"
#include "src/device/device.h"

struct ferryi_traced_ops;

/* Replaces the function tables of `devices[1]` to `devices[count]` by tables whose blocking
 * functions measure their time. The caller frees `*out` after the devices are closed. Fails with
 * OUT_OF_MEMORY. */
ferry_status ferryi_devices_trace(ferryi_device **devices, int count, ferryi_trace *trace,
                                  struct ferryi_traced_ops **out);

#endif
