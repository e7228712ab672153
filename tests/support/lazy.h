/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_LAZY_H
#define FERRY_TEST_LAZY_H

/*
 * The lazy device: work is performed only when a call waits for it, and no earlier. A missing wait
 * therefore shows as wrong data, without a GPU and in every run.
 *
 * Memory, checks and capabilities are those of the emulated device. Queued work is performed by the
 * thread that waits: event_synchronize, stream_synchronize and synchronize perform the work that
 * they wait for, and the work on other streams that it depends on, and nothing else. An upload
 * reads its source only then. event_query performs nothing and reports false, except that the third
 * query of one record performs its work, so that polling ends. Freeing memory that queued work
 * needs makes that work fail; the wait for the work reports the failure. The handle of a destroyed
 * stream is returned again by the next stream_create, while the work queued on the old stream is
 * still pending.
 */

#include "src/device/device.h"

extern const ferryi_device_kind lazy_kind;

/* Registers the kinds "lazy" and "lazy:N". Must be called before the first context is created; may
 * be called repeatedly. */
void lazy_register(void);

/* While `lost` is true, copies and fills that are performed do nothing, as on a lost device. */
void lazy_lose(bool lost);

#endif
