/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_LAZY_H
#define FERRY_TEST_LAZY_H

/*
 * The lazy device: work is performed only when a call waits for it, and no earlier than that. So
 * a wait that is missing shows as wrong data, without a GPU and on every run.
 *
 * Memory, checks and capabilities are those of the emulated device. Queued work is performed by the
 * thread that waits: event_synchronize, stream_synchronize and synchronize perform what they wait
 * for and what that waits for, on other streams too, and nothing else. An upload reads its source
 * only then. event_query performs nothing and says false, except that the third query of one record
 * performs it, so that polling ends. Memory that is given back while queued work needs it makes
 * that work fail; the wait for it reports that. A destroyed stream's handle comes back from the
 * next stream_create, while the work queued on the old one still waits to be waited for.
 */

#include "src/device/device.h"

extern const ferryi_device_kind lazy_kind;

/* Put "lazy" and "lazy:N" into the registry; call it before the first context. Any number of times.
 */
void lazy_register(void);

/* From now on copies and fills that are performed do nothing, as on a lost device; and no more. */
void lazy_lose(bool lost);

#endif
