/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_FAULT_H
#define FERRY_TEST_FAULT_H

/*
 * The fault device: wraps a different device and makes its N-th call fail. All fault devices share
 * one counter.
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

/* Selects the kind of device that fault devices wrap when they are opened later. The default is the
 * emulated kind. */
void fault_wrap(const ferryi_device_kind *kind);
/* Sets the status that injected failures return. The default is FERRY_ERROR_DEVICE. If the status
 * is FERRY_ERROR_DEVICE_LOST, all calls after the injected failure fail, too. */
void fault_status(ferry_status status);
void fault_include_releases(bool include);

/* Resets the count and makes the `nth` call after this one fail. The next call is number 1. */
void fault_arm(uint64_t nth);
/* Stops the injection of failures. The count and the result of fault_tripped() do not change. */
void fault_disarm(void);
/* Returns the number of calls since fault_arm(), or since the program began if fault_arm() was not
 * called. */
uint64_t fault_calls(void);
/* Returns whether a device call has failed since fault_arm() was called. */
bool fault_tripped(void);
/* Returns the name of the device call that failed last, such as "memory_alloc". Returns NULL before
 * the first failure. */
const char *fault_tripped_slot(void);

/*
 * Sets a hook, which each counted device call calls first, with the name of the device call and on
 * the same thread. If the hook returns a status other than FERRY_OK, the device call returns this
 * status. A hook may call Ferry, to simulate a call that a second thread makes at this moment. NULL
 * removes the hook.
 */
void fault_hook(ferry_status (*hook)(const char *slot, void *user), void *user);

/* Returns the number of live allocations, registrations, streams, events and modules of all fault
 * devices. */
int64_t fault_live(void);

#endif
