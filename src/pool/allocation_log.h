/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ALLOCATION_LOG_H
#define FERRYI_ALLOCATION_LOG_H

/*
 * A pool's allocation log has one line for each allocation and each release. Its CSV format is the
 * one that RMM's logging resource adaptor writes, so RMM's tools can replay Ferry's logs, and
 * Ferry's tools can replay RMM's:
 *
 *     Thread,Time,Action,Pointer,Size,Stream
 *     4711,14:03:59.000125,allocate,0x7f5a3c000000,1048576,0x1
 *
 * Thread is the system's thread id. Time is the local wall clock in microseconds. Action is
 * allocate, free or allocate failure. Pointer is the block's address, or "(nil)" if there is none.
 * Size is the number of bytes requested. Stream is the number that Ferry assigned to a stream
 * (timeline.h). For an allocation, it is the stream for which the block was allocated. For a
 * release, it is the stream of the block's last use. 0 means no stream, or a stream to which Ferry
 * has assigned no number. Sizes are decimal, pointers and streams hexadecimal.
 *
 * A release is logged before other threads can allocate the block. An allocation is logged after it
 * succeeded. So in the file, the release of a block always precedes the next allocation of the
 * block. Lines are buffered. A failed allocation flushes the file, because the program might end
 * soon after the failure.
 *
 * Any thread may call these functions. A mutex of the log guards the file. No other mutex is locked
 * while a thread holds this mutex.
 */

#include "src/base/base.h"

typedef struct ferryi_allocation_log ferryi_allocation_log;

enum ferryi_allocation {
    FERRYI_ALLOCATION_TAKE,
    FERRYI_ALLOCATION_GIVE,
    FERRYI_ALLOCATION_FAILURE
};

/* Creates the log file, or truncates an existing one, and writes the header line. If the file is
 * being written, the log has another name (see ferryi_output_open()). Fails with
 * FERRY_ERROR_IO or FERRY_ERROR_OUT_OF_MEMORY. */
ferry_status ferryi_allocation_log_open(const char *path, ferryi_allocation_log **out);
/* Writes one line to the allocation log. Cannot fail: ferryi_allocation_log_close() reports write
 * errors. */
void ferryi_allocation_log_write(ferryi_allocation_log *log, enum ferryi_allocation action,
                                 const void *pointer, size_t bytes, unsigned stream);
/* Flushes and closes the log file and sets *log to NULL. Does nothing if *log is NULL. Fails with
 * FERRY_ERROR_IO if a line could not be written. */
ferry_status ferryi_allocation_log_close(ferryi_allocation_log **log);

#endif
