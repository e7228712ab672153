/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_BUFFER_MEETING_H
#define FERRY_TEST_BUFFER_MEETING_H

/*
 * What a test needs that has a second call come in the middle of the first, or the device refuse
 * there: a fixture over the fault device, whose hooks run within its calls. Programs that link it
 * link short_memory_dep, in whose allocations others may come as well.
 */

#include "tests/buffer/work.h"

#include "tests/support/fault.h"
#include "tests/support/short_memory.h"

/* Eight blocks of 256 KiB, red zones included, fill what a tight device may have. */
enum { BLOCK = 256 << 10, BLOCK_COUNT = (BLOCK - 4096) / 4, FIT = 8, LIMIT = FIT * BLOCK };
/* About as many segments as make a map need its next chunk of memory. */
enum { CROWDED = 31 };

/* Over an emulated device with little memory, with all it wants, and over one whose kernels run
 * when they are waited for. */
int tight_setup(void **state);
int roomy_setup(void **state);
int lazy_setup(void **state);
int meeting_teardown(void **state);

#define TIGHT(function) cmocka_unit_test_setup_teardown(function, tight_setup, meeting_teardown)
#define ROOMY(function) cmocka_unit_test_setup_teardown(function, roomy_setup, meeting_teardown)
#define LAZY(function)  cmocka_unit_test_setup_teardown(function, lazy_setup, meeting_teardown)

/* In the middle of the next call of this slot of the device `run(user)` is called, once. */
void meet_in(const char *slot, void (*run)(void *user), void *user);
/* The same at the next point where this thread hands something to another, in builds that have such
 * points (src/base/interleave.h): a call that takes a buffer's count looks at it there. */
void meet_at_point(void (*run)(void *user), void *user);
/* Where it has not come yet, it does not come any more. */
void meet_nowhere(void);
/* Skips the test in builds without points. */
void need_points(void);
/* Whether it was. */
bool have_met(void);

/* Buffer of `blocks` blocks, all at the device. It has a name, because a named buffer's memory is
 * not kept for the next one. */
ferry_buffer *make_dirty(fixture *f, size_t blocks);
ferry_pool *device_pool(fixture *f);

#endif
