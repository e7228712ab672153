/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_HOST_THREADS_H
#define FERRYI_HOST_THREADS_H

/*
 * The host threads of a context run parts of host functions, beside the thread that runs the host
 * function itself. They start at the first call that needs them, and end with the context.
 *
 * The helpers of the staging ring (src/transfer/helpers.h) are other threads. A transfer that waits
 * for its helpers must not wait for code of the program, and a thread that waits for a transfer
 * makes queued copies meanwhile, while it may hold locks of the library.
 *
 * One call is one list of parts. Every thread that works on a call takes parts in increasing order
 * from one counter. The caller takes parts as well, so no call depends on a free thread. A thread
 * that takes parts and leaves some wakes one sleeping thread. So a short call wakes few threads,
 * and a long one soon has all of them.
 */

#include "src/base/base.h"
#include "src/kernel/call.h"

struct ferryi_host_threads;

/* Creates the host threads of a context. No thread is started yet.
 * @param wanted number of threads that work on a call, including its caller; 0: the default
 * @param context the context, for the rules of callbacks
 * @return NULL if memory is short */
struct ferryi_host_threads *ferryi_host_threads_new(size_t wanted, const void *context);
/* Ends the threads. No call may be running. `*threads` may be NULL. */
void ferryi_host_threads_free(struct ferryi_host_threads **threads);
/* Returns the number of threads that have been started. For tests. */
unsigned ferryi_host_threads_started(struct ferryi_host_threads *threads);

/* The parts of one call. */
struct ferryi_parts {
    size_t count, grain; /* part k has the items from k * grain on; all but the last have `grain` */
    ferry_part_function *run;
    void *user;
};

/*
 * Runs all parts and returns when they are done. If parts fail, returns the status of the first one
 * in their order, and writes the message that it has set to `text`, a buffer of
 * FERRYI_CALL_TEXT_BYTES bytes. Parts after the first failure may not run. Inside a part, and in
 * the child of a fork, the caller runs all parts.
 */
ferry_status ferryi_host_threads_run(struct ferryi_host_threads *threads,
                                     const struct ferryi_parts *parts, char *text);

/* The buffer for the message of the part that this thread runs; NULL outside of parts. */
extern _Thread_local char *ferryi_host_threads_text FERRYI_FAST_TLS;

#endif
