/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TRACED_H
#define FERRYI_TRACED_H

/*
 * Records the host's waits for devices in a traced context. Each device is given a table whose
 * blocking functions measure their time. All other slots keep the device's own functions. Contexts
 * without a trace keep their tables.
 */

#include "src/base/trace.h"
#include "src/device/device.h"

struct ferryi_traced_ops;

/* Traces `devices[1]` to `devices[count]`. The caller frees `*out` after the devices are closed.
 * Fails with OUT_OF_MEMORY. */
ferry_status ferryi_devices_trace(ferryi_device **devices, int count, ferryi_trace *trace,
                                  struct ferryi_traced_ops **out);

#endif
