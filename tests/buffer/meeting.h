/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_BUFFER_MEETING_H
#define FERRY_TEST_BUFFER_MEETING_H

/*
 * A fixture for tests in which a call of the library is interrupted by a second call, or in which
 * one of its device calls fails. The fixture uses the fault device of tests/support/fault.h, which
 * runs a hook in each device call. Programs that link this file must also link short_memory_dep,
 * which runs hooks in allocations.
 */

#include "tests/buffer/work.h"

#include "tests/support/fault.h"
#include "tests/support/short_memory.h"

/* Sizes for tests with little device memory, whose limit is eight blocks of 256 KiB. Each
 * block has 4 KiB to spare, for what a memory checker needs. */
enum { BLOCK = 256 << 10, BLOCK_COUNT = (BLOCK - 4096) / 4, FIT = 8, LIMIT = FIT * BLOCK };
/* A valid map that has this number of segments must allocate memory when a few segments are added.
 */
enum { CROWDED = 31 };

/* Each setup function opens a fixture over an emulated device. tight_setup() limits the device's
 * memory to LIMIT bytes, and roomy_setup() sets no limit. On the device of lazy_setup(), kernels
 * run only when the host waits for them. */
int tight_setup(void **state);
int roomy_setup(void **state);
int lazy_setup(void **state);
int meeting_teardown(void **state);

#define TIGHT(function) cmocka_unit_test_setup_teardown(function, tight_setup, meeting_teardown)
#define ROOMY(function) cmocka_unit_test_setup_teardown(function, roomy_setup, meeting_teardown)
#define LAZY(function)  cmocka_unit_test_setup_teardown(function, lazy_setup, meeting_teardown)

/* Calls `run(user)` once, at the start of the next call to the device function named `slot`. */
void meet_in(const char *slot, void (*run)(void *user), void *user);
/* Calls `run(user)` once, when this thread reaches its next interleaving point
 * (src/base/interleave.h). Builds without FERRYI_INTERLEAVES have no such points, so `run` is never
 * called there. */
void meet_at_point(void (*run)(void *user), void *user);
/* Cancels the last meet_at_point(), so that its `run` is no longer called. */
void meet_nowhere(void);
/* Skips the test in builds without interleaving points. */
void need_points(void);
/* Returns whether the `run` of the last meet_in() or meet_at_point() was called. */
bool have_met(void);

/* Creates a buffer of `blocks` blocks whose bytes are current only at the device. The buffer has a
 * name, because Ferry may keep the memory of a destroyed unnamed buffer for the next buffer. */
ferry_buffer *make_dirty(fixture *f, size_t blocks);
ferry_pool *device_pool(fixture *f);

#endif
