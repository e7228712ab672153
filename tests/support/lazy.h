/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_LAZY_H
#define FERRY_TEST_LAZY_H

/*
 * The lazy device: an emulated device that runs queued work only when a call waits for that work.
 * So a wait that is missing in Ferry leads to wrong data, without a GPU and in every run.
 *
 * Memory, checks and capabilities are those of the emulated device. The thread that waits runs the
 * queued work. event_synchronize, stream_synchronize and synchronize run only the work that they
 * wait for, and the work of other streams on which that work depends. An upload reads its source
 * only at that time. event_query runs nothing and reports false. Only the third query of a recorded
 * event runs the work before the event, so that polling ends.
 *
 * If memory is freed while queued work needs it, that work fails, and the wait for this work
 * returns the error. stream_create returns the handle of the stream that was destroyed last, even
 * if the old stream has pending work.
 */

#include "src/device/device.h"

extern const ferryi_device_kind lazy_kind;

/* Registers the kinds "lazy" and "lazy:N". Must be called before the first context is created; may
 * be called repeatedly. */
void lazy_register(void);

/* While `lost` is true, copies and fills do nothing when they are performed, as on a lost device.
 */
void lazy_lose(bool lost);

#endif
