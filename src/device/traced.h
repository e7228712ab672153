/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TRACED_H
#define FERRYI_TRACED_H

/*
 * The host's waits for devices, in a traced context: its devices get a table of functions in which
 * those that block measure themselves. All other slots are the device's own. Nothing changes for
 * contexts without a trace.
 */

#include "src/base/trace.h"
#include "src/device/device.h"

struct ferryi_traced_ops;

/* `devices` by place, from 1 to `count`. The caller frees `*out` when the devices are closed.
 * OUT_OF_MEMORY. */
ferry_status ferryi_devices_trace(ferryi_device **devices, int count, ferryi_trace *trace,
                                  struct ferryi_traced_ops **out);

#endif
