/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_LAZY_H
#define FERRY_TEST_LAZY_H

/*
 * The lazy device performs work only when a call waits for that work. A missing wait in the library
 * therefore leads to wrong data, without a GPU and in every run.
 *
 * Memory, checks and capabilities are those of the emulated device. The thread that waits performs
 * the queued work. event_synchronize, stream_synchronize and synchronize perform the work that they
 * wait for and the work on other streams that it depends on, but nothing else. An upload reads its
 * source only at that time. event_query performs nothing and reports false. Only the third query of
 * a record performs the record's work, so that polling ends.
 *
 * If memory is freed while queued work needs it, that work fails. The wait for the work reports the
 * failure. stream_create returns the handle of the last destroyed stream again, while work queued
 * on the old stream is still pending.
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
