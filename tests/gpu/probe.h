/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_GPU_PROBE_H
#define FERRY_TEST_GPU_PROBE_H

/* Declarations that the files of the driver probe share: a device whose primary context is current,
 * objects to probe, and functions that record answers. */

#include <stdlib.h>
#include <string.h>

#include "src/device/cuda/cuda.h"
#include "src/device/cuda/cuda_abi.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
/* Values that are recorded if there is no result code. ABSENT: the driver lacks the entry point.
 * KILLED: the process that made the call was killed. */
enum { ABSENT = -1, KILLED = -2 };

extern const struct ferryi_gpu_driver *cu;
extern ferryi_gpu_context context;
extern ferryi_gpu_number device;
extern ferryi_gpu_stream stream, other;
extern ferryi_gpu_event event;
extern ferryi_gpu_pointer memory; /* a MiB of device memory */
extern char *pinned;              /* a MiB of pinned memory */
/* These pointers are NULL if the driver lacks the functions. */
extern int (*begin_capture)(ferryi_gpu_stream, int), (*end_capture)(ferryi_gpu_stream, void **);

void answer(const char *question, long long value);
void answer_at(const char *question, size_t at, long long value);
/* Records the result of a wait for `stream`. */
void settle(const char *question);

/* Records the result of a driver call. */
#define ASK(question, call, ...) answer((question), (long long)cu->call(__VA_ARGS__))
/* Makes a driver call that some drivers lack, and records its result or ABSENT. The parameter
 * `group` is the group of entry points that contains the call. */
#define ASK_IN(group, question, call, ...)                                                         \
    answer((question), (cu->groups & (group)) ? (long long)cu->call(__VA_ARGS__) : ABSENT)

/* Submits one batch of `count` copies. Each copy has `bytes` bytes and begins `step` bytes after
 * the previous copy. */
ferryi_gpu_result probe_submit(ferryi_gpu_pointer target, const void *source, size_t bytes,
                               size_t count, size_t step, ferryi_gpu_stream on);
#define ASK_BATCH(question, ...)                                                                   \
    answer((question), (cu->groups & (FERRYI_GPU_BATCH | FERRYI_GPU_BATCH_2))                      \
                           ? (long long)probe_submit(__VA_ARGS__)                                  \
                           : ABSENT)

/* probe_function_of() returns the kernel `name` of the driver probe. probe_start() launches a
 * kernel on `stream`. */
ferryi_gpu_function probe_function_of(const char *name);
long long probe_start(ferryi_gpu_function function, unsigned blocks_x, unsigned blocks_y,
                      unsigned threads_x, unsigned threads_z, unsigned shared, void **arguments);

/* Calls the macro X(name) for each group of questions about the driver. The function probe_<name>()
 * asks the questions of a group, in a process that has not used the driver before. */
/* clang-format off */
#define PROBE_GROUPS(X)                                                                            \
    X(attributes)                                                                                  \
    X(basics)                                                                                      \
    X(alignment)                                                                                   \
    X(allocation) X(managed) X(registration) X(batches) X(captures)                      \
        X(captures_elsewhere) X(launches) X(modules) X(copies) X(behind_a_kernel) X(rows) X(fills) X(streams)         \
            X(events) X(queue) X(forked) /* These may end the process or the device. */            \
        X(upload_beyond) X(upload_to_nowhere) X(batch_to_nowhere) X(fill_of_null) X(fill_beyond)   \
            X(batch_registered) X(batch_huge) X(from_null) X(stale_stream) X(driver_in_host_function) X(fault)
/* clang-format on */

#define PROBE_GROUP(name) void probe_##name(void);
PROBE_GROUPS(PROBE_GROUP)
#undef PROBE_GROUP

#endif
