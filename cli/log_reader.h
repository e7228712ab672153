/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_LOG_READER_H
#define FERRY_CLI_LOG_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Allocation logs: bytes in, events out. No file is opened and nothing is printed here, so that it
 * can be fed with anything.
 *
 * A log is CSV with a header. Its columns are found by name and may come in any order; others are
 * passed over:
 *
 *     Action   allocate, free (or deallocate), allocate failure
 *     Pointer  hexadecimal, with or without 0x; (nil) is 0
 *     Size     decimal, in bytes, below 2^48
 *     Time     H:M:S with or without a fraction behind '.' or ':', or seconds since some beginning;
 *              optional. RMM's logs tell the time of day: where it falls by more than half a day, a
 *              day has passed
 *     Stream   hexadecimal, with or without 0x; optional: 0
 *     Thread   decimal; optional: 0
 *
 * These are the logs that Ferry's pools write, and those of RMM's logging resource adaptor in all
 * its versions. Empty lines are passed over, and lines may end with CR LF.
 */

enum log_action { LOG_ALLOCATE = 1, LOG_FREE, LOG_FAILURE };

struct log_event {
    uint64_t thread, pointer, bytes, stream;
    uint64_t time_us; /* since the first event; 0 without a column Time. May fall a little: it is
                         read before the line is written */
    size_t line;      /* of the file, from 1 */
    enum log_action action;
};

struct log {
    struct log_event *events; /* in the order of the file */
    size_t count;
};

/* What is wrong with a log. */
struct log_problem {
    size_t line;
    char text[256]; /* "what is there, what was expected" */
};

/* Read `count` bytes, of which none needs to be a NUL. On false *out is untouched. */
bool log_read(const char *bytes, size_t count, struct log *out, struct log_problem *problem);
void log_free(struct log *log);

#endif
