/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ALLOCATION_LOG_H
#define FERRYI_ALLOCATION_LOG_H

/*
 * A pool's allocation log: one line for each take and give, in the CSV that RMM's logging resource
 * adaptor writes, so that either's logs replay in the other's tool:
 *
 *     Thread,Time,Action,Pointer,Size,Stream
 *     4711,14:03:59.000125,allocate,0x7f5a3c000000,1048576,0x1
 *
 * Thread is the system's number of it, Time the local wall clock to the microsecond, Action
 * allocate, free or allocate failure, Pointer the block's address ("(nil)": none), Size the bytes
 * that were asked for, and Stream the number of the timeline (timeline.h) that took the block or
 * used it last: 0 is no stream, or one without its own number. Sizes are decimal, pointers and
 * streams hexadecimal.
 *
 * A give is written before others can take the block, a take after it is ours: in the file's order
 * no block is ever taken twice. Lines are buffered; a failure is written out at once with all
 * before it, because the program may not live long after it.
 *
 * Any thread. The file has its own mutex, a leaf.
 */

#include "src/base/base.h"

typedef struct ferryi_allocation_log ferryi_allocation_log;

enum ferryi_allocation {
    FERRYI_ALLOCATION_TAKE,
    FERRYI_ALLOCATION_GIVE,
    FERRYI_ALLOCATION_FAILURE
};

/* Make the file, or empty it, and write the header. Fails with IO, or OUT_OF_MEMORY. */
ferry_status ferryi_allocation_log_open(const char *path, ferryi_allocation_log **out);
/* Cannot fail; what could not be written is known at the close. */
void ferryi_allocation_log_write(ferryi_allocation_log *log, enum ferryi_allocation action,
                                 const void *pointer, size_t bytes, unsigned stream);
/* Write what is buffered and close the file; sets *log to NULL, which is harmless. Fails with IO
 * when a line was lost. */
ferry_status ferryi_allocation_log_close(ferryi_allocation_log **log);

#endif
