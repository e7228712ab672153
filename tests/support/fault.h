/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_FAULT_H
#define FERRY_TEST_FAULT_H

/*
 * The fault device: another device whose N-th call fails. One counter serves all devices of the
 * kind.
 *
 *     for (uint64_t nth = 1;; nth++) {
 *         fault_arm(nth);
 *         ... what is tested; nothing may be lost or leaked, whatever it returns ...
 *         bool tripped = fault_tripped();
 *         fault_disarm();
 *         if (!tripped)
 *             break; // every call of it has failed once
 *     }
 *
 * A call that fails this way reaches no device, writes nothing and sets the message "SLOT: fault
 * injected at call N". Calls that give something back (close, memory_free, stream_destroy,
 * event_destroy, host_unregister, code_unload) are neither counted nor failed unless
 * fault_include_releases(true); close never is.
 */

#include "src/device/device.h"

extern const ferryi_device_kind fault_kind;

/* Put "fault" and "fault:N" into the registry; call it before the first context. Any number of
 * times. */
void fault_register(void);

/* Devices opened from now on wrap devices of this kind; at first it is the emulated one. */
void fault_wrap(const ferryi_device_kind *kind);
/* What armed calls fail with; at first FERRY_ERROR_DEVICE. After FERRY_ERROR_DEVICE_LOST all later
 * calls fail too. */
void fault_status(ferry_status status);
void fault_include_releases(bool include);

/* Forget earlier counts and make the `nth` call from now on fail, counted from 1. */
void fault_arm(uint64_t nth);
/* Let all calls through again; the count and fault_tripped() stay. */
void fault_disarm(void);
/* Calls counted since fault_arm(), or since the program began. */
uint64_t fault_calls(void);
/* Did a call fail since fault_arm()? */
bool fault_tripped(void);
/* The slot that failed last, such as "memory_alloc"; NULL before the first. */
const char *fault_tripped_slot(void);

/*
 * Called before each call that is counted, on its thread, with its slot: what is not FERRY_OK is
 * what the call fails with. It may call the library: that happens then in the middle of whatever
 * made the call, as if another thread had come. NULL: none.
 */
void fault_hook(ferry_status (*hook)(const char *slot, void *user), void *user);

/* What the devices have given out and not got back: allocations, registrations, streams, events and
 * modules. */
int64_t fault_live(void);

#endif
