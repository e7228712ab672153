/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_FAULT_H
#define FERRY_TEST_FAULT_H

/*
 * The fault device: wraps a different device and makes its N-th call fail. All devices of the kind
 * share one counter.
 *
 *     for (uint64_t nth = 1;; nth++) {
 *         fault_arm(nth);
 *         ... the code under test; it must not lose or leak anything, whatever it returns ...
 *         bool tripped = fault_tripped();
 *         fault_disarm();
 *         if (!tripped)
 *             break; // every device call has failed once
 *     }
 *
 * An injected failure does not reach the wrapped device, writes nothing and sets the message "SLOT:
 * fault injected at call N". Calls that release something (close, memory_free, stream_destroy,
 * event_destroy, host_unregister, code_unload) are not counted and do not fail, unless
 * fault_include_releases(true) was called. Even then, close never fails.
 */

#include "src/device/device.h"

extern const ferryi_device_kind fault_kind;

/* Registers the kinds "fault" and "fault:N". Must be called before the first context is created;
 * may be called repeatedly. */
void fault_register(void);

/* Makes devices that are opened from now on wrap devices of this kind. The default is the emulated
 * kind. */
void fault_wrap(const ferryi_device_kind *kind);
/* Sets the status with which injected failures return; the default is FERRY_ERROR_DEVICE. After
 * FERRY_ERROR_DEVICE_LOST all later calls fail too. */
void fault_status(ferry_status status);
void fault_include_releases(bool include);

/* Resets the count and makes the `nth` call from now on fail. The next call is number 1. */
void fault_arm(uint64_t nth);
/* Makes no further call fail. The count and fault_tripped() keep their values. */
void fault_disarm(void);
/* Returns the number of calls counted since fault_arm(), or since the program began. */
uint64_t fault_calls(void);
/* Whether a call has failed since fault_arm(). */
bool fault_tripped(void);
/* Returns the name of the slot that failed last, such as "memory_alloc". Returns NULL before the
 * first failure. */
const char *fault_tripped_slot(void);

/*
 * Sets a hook that is called before each counted call, on the thread of the call, with the name of
 * the slot. If the hook returns a status other than FERRY_OK, the call returns that status. The
 * hook may call the library, as if a different thread interfered in the middle of the call. NULL
 * removes the hook.
 */
void fault_hook(ferry_status (*hook)(const char *slot, void *user), void *user);

/* Returns the number of live allocations, registrations, streams, events and modules of all
 * devices. */
int64_t fault_live(void);

#endif
