/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_LAUNCH_H
#define FERRYI_LAUNCH_H

/*
 * One kernel launch: its checked arguments and the buffer accesses that they need. The struct lives
 * on the launching thread's stack. Data that a queued host function needs is copied (host_call.c).
 */

#include "src/buffer/access.h"
#include "src/buffer/recording.h"
#include "src/kernel/call.h"
#include "src/kernel/kernel.h"
#include "src/trace/span.h"

/* Maximum number of kernel arguments for which a launch allocates no memory. */
#define FERRYI_FEW_ARGUMENTS 16

/* Maximum size in bytes of the message of a failed host function, including the name of the kernel.
 */
#define FERRYI_HOST_CALL_FAILURE_BYTES (FERRYI_CALL_TEXT_BYTES + 256)

/* Failure of a host function that runs on the launching thread. */
struct ferryi_launch_result {
    ferry_status failure;
    char text[FERRYI_HOST_CALL_FAILURE_BYTES];
};

struct ferryi_launch_request {
    ferry_kernel *kernel;
    struct ferryi_launch_result *result; /* set if the host function runs on the launching thread,
                                            and fails */
    /* Called with the kernel's `user`: with true when a call of the host function was made, and
     * with false when it has ended, on any thread. It must not call device functions. May be NULL.
     */
    void (*hold)(void *user, bool holds);
    ferry_stream *stream;
    ferryi_timeline *timeline; /* timeline of the stream */
    struct ferryi_span span;
    const ferry_grid *grid; /* that of ferryi_launch_complete_grid() */
    const ferry_argument *arguments;
    size_t count; /* number of arguments, which equals the number of the kernel's parameters */
    /* Arrays of `count` elements each. `wanted` contains one access for each argument that is an
     * array with elements. index[i] is the position in `wanted` of the access of argument i, or
     * SIZE_MAX if there is none. group[j] is the position in `merged` of the access that includes
     * wanted[j]. bytes[i] is the size of argument i for the device (struct ferryi_launch). */
    struct ferryi_access *wanted, *merged;
    size_t *index, *group, *bytes;
    void **addresses; /* memory for 2 * `count` addresses: first those of the code's arguments, then
                         those of the argument arrays */
    size_t wanted_count, merged_count;
};

/* Returns the address of the first element of the array that is argument `i`. Returns NULL if the
 * array is empty. The launch's accesses must be open. */
void *ferryi_launch_array(const struct ferryi_launch_request *plan, size_t i);
/* Returns the address of the value that is argument `i`. The value is in the caller's memory. */
const void *ferryi_launch_value(const struct ferryi_launch_request *plan, size_t i);

/* Returns the failure of a launch whose kernel is NULL. */
ferry_status ferryi_kernel_is_null(void);

/* Queues the host function of a launch whose accesses are open, and closes them: it commits their
 * writes if the call was queued, and cancels them otherwise. */
ferry_status ferryi_launch_queue_call(const struct ferryi_launch_request *plan);

/* -- launch_grid.c ----------------------------------------------------------------------------- */

/* Checks the grid of a launch on a timeline, and replaces each 0 that means 1. Afterwards all
 * members of `cluster` are 0, or none is. */
ferry_status ferryi_launch_complete_grid(const ferry_kernel *kernel,
                                         const ferryi_timeline *timeline, ferry_grid *grid);

/* -- launch_here.c ----------------------------------------------------------------------------- */

/* Returns whether the host function runs on the launching thread, before the launch returns. The
 * kernel must run its host function at the place. */
bool ferryi_launch_is_here(const struct ferryi_launch_request *plan);
/* Opens the accesses of a launch that is here on the hit path, without merging them. Returns false,
 * and opens none, if a copy, an allocation or a wait is needed, or if accesses overlap. */
bool ferryi_launch_open_here(struct ferryi_launch_request *plan);
/* Commits and closes the accesses of ferryi_launch_open_here(). */
void ferryi_launch_close_here(const struct ferryi_launch_request *plan);

/* -- launch_ranges.c --------------------------------------------------------------------------- */

/* Fails if two arguments overlap as a parameter of the kernel forbids. The accesses must have been
 * merged; if no two of them overlap, the call is not needed. */
ferry_status ferryi_launch_check_overlaps(const struct ferryi_launch_request *plan);

/* -- launch_recorded.c --------------------------------------------------------------------------
 */

/* Records a launch on a stream from which a graph is being recorded, in place of running it.
 * `queue_code` queues the kernel's code, which the driver then captures. It is NULL if the kernel
 * has a host function there. */
ferry_status
ferryi_launch_record(struct ferryi_launch_request *plan, struct ferryi_loaded_code *code,
                     ferry_status (*queue_code)(const struct ferryi_launch_request *plan,
                                                struct ferryi_loaded_code *code));

/* -- host_call.c ------------------------------------------------------------------------------- */

struct ferryi_host_call;

/* Runs the host function of a launch on this thread, with the arguments where they are. The
 * accesses must be open. If the function fails, writes its message to `text`. */
ferry_status ferryi_host_call_run(const struct ferryi_launch_request *plan,
                                  char text[FERRYI_HOST_CALL_FAILURE_BYTES]);
/* Creates the call of a launch's host function, with copies of everything that the function needs.
 * If `failure` is not FERRY_OK, ferryi_host_call_run() has returned it with the message `text`, and
 * the call only reports it. */
ferry_status ferryi_host_call_make(const struct ferryi_launch_request *plan, ferry_status failure,
                                   const char *text, struct ferryi_host_call **out);
/* Queues the call of a host function on the launch's timeline. On failure, frees the call. */
ferry_status ferryi_host_call_queue(struct ferryi_host_call *call, ferryi_timeline *timeline);
/* Marks the launch's writes as committed in the log of pending calls (pending_calls.h). If an
 * earlier launch fails later, its failure then does not mark the bytes of these writes as lost.
 * Must be called just before the writes are committed to the valid map. */
void ferryi_host_call_commit(struct ferryi_host_call *call);
/* Makes the call of a launch's host function that a graph repeats. */
ferry_status ferryi_host_call_record(const struct ferryi_launch_request *plan,
                                     struct ferryi_recorded_call **out);
/* Releases the launching thread's reference to a queued host function call; the device holds the
 * other reference. Must be called after the launch's writes were committed. If the host function
 * fails, these writes are marked as lost. */
void ferryi_host_call_committed(struct ferryi_host_call *call);

#endif
