/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CAPTURES_H
#define FERRYI_CAPTURES_H

#include "src/device/device.h"

/*
 * A wait for all work of a device invalidates a capture in the same process, and so does freeing
 * memory where the driver waits before it frees. So the captures that record graphs and such calls
 * exclude each other: a capture begins when no thread holds captures off, and a thread that finds a
 * capture does without the call or waits.
 */

/* Begin and end the driver's capture of a stream, as the functions of the device table do. The
 * first waits while captures are held off. */
ferry_status ferryi_capture_begin(ferryi_device *device, void *stream);
ferry_status ferryi_capture_end(ferryi_device *device, void *stream, void **out_graph);

/* Holds captures off until ferryi_captures_release(). Returns false, and does not, if there is a
 * capture. */
bool ferryi_captures_try_hold_off(void);
/* Same, but waits until there is no capture. When the process exits, does not wait: the program may
 * have forgotten a capture. For threads on which no program can end a capture. */
void ferryi_captures_hold_off(void);
void ferryi_captures_release(void);
/* Says that the process exits. */
void ferryi_captures_exit(void);

#endif
