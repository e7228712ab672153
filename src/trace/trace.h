/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TRACE_H
#define FERRYI_TRACE_H

/*
 * A trace is one file per context in the Chrome trace event format: a JSON array with one event per
 * line. docs/tracing.md describes the events.
 *
 * A thread formats an entry on its stack. It copies the entry into a chunk of memory under a mutex,
 * which is held only for the copy. A trace has two chunks. A thread that finds one chunk full
 * writes this chunk to the file while other threads fill the second chunk. Each write contains only
 * whole lines, so a truncated file is readable up to its last complete line. If a process exits
 * without destroying its context, the remaining lines are written at exit.
 *
 * The child of a fork writes nothing. ferryi_trace_add() ignores an entry if the fork count has
 * changed. If a write to the file fails, the error is logged once and nothing more is written.
 *
 * Every function accepts NULL for the trace, and then does nothing. Every function may be called on
 * any thread and under any lock except the trace's lock.
 */

#include "src/base/base.h"

typedef struct ferryi_trace ferryi_trace;

/*
 * A text of a trace entry. A text is plain if it has at most FERRYI_TRACE_TEXT_MOST bytes, all of
 * them ASCII characters that need no escape in JSON. `plain_bytes` is the length of a plain text,
 * which is copied without a check. If `plain_bytes` is 0, the text need not be plain: it is
 * escaped, and truncated if it is long.
 */
struct ferryi_trace_text {
    const char *text;
    size_t plain_bytes;
};

#define FERRYI_TRACE_TEXT_MOST 96
#define FERRYI_TRACE_PLAIN(literal)                                                                \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    }
#define FERRYI_TRACE_ANY(value)                                                                    \
    {                                                                                              \
        (value), 0                                                                                 \
    }

/* A member of the object "args" of a trace entry. The value is a text, or a number if the text is
 * NULL. */
struct ferryi_trace_argument {
    const char *key; /* text in front of the value, such as "\"bytes\":"; its length is key_bytes.
                        FERRYI_TRACE_KEY_MOST bytes must be readable, because every key is copied
                        with this fixed size */
    size_t key_bytes;
    struct ferryi_trace_text text;
    uint64_t number;
};

/* Number of bytes that are copied for each key. A key is a string literal of at most 21 characters,
 * to which the macro adds two quotes and a colon. */
#define FERRYI_TRACE_KEY_MOST 24
#define FERRYI_TRACE_KEY(key) "\"" key "\":                        ", sizeof("\"" key "\":") - 1
#define FERRYI_TRACE_TEXT(key, value)                                                              \
    {                                                                                              \
        FERRYI_TRACE_KEY(key), (value), 0                                                          \
    } /* `value` is a struct ferryi_trace_text */
#define FERRYI_TRACE_NUMBER(key, value)                                                            \
    {                                                                                              \
        FERRYI_TRACE_KEY(key), FERRYI_TRACE_ANY(NULL), (value)                                     \
    }

/* A stream in a trace, identified by the place of its device and by its number. All streams of a
 * device that have no number of their own use number 0. */
struct ferryi_trace_stream {
    int place; /* 0: no stream */
    unsigned number;
};

struct ferryi_trace_entry {
    /* phase of the Chrome trace event format. X: an event that lasted from begun_ns until now. i:
     * an instant event now. b, e: a scope opens or closes. C: a counter */
    char phase;
    struct ferryi_trace_text category; /* must be a plain text */
    struct ferryi_trace_text name;
    uint64_t begun_ns;       /* a time of ferryi_now_ns() */
    uint64_t object, number; /* for the phases b and e: both numbers together identify the scope */
    struct ferryi_trace_stream stream; /* an instant event is also added to this stream's track */
    const struct ferryi_trace_argument *arguments;
    size_t argument_count;
};

/* Creates or truncates the trace's file, or one with another name if the file is being written (see
 * ferryi_output_open()). Fails with IO or OUT_OF_MEMORY. The log must outlive the trace. */
ferry_status ferryi_trace_open(const char *path, const struct ferryi_log *log, ferryi_trace **out);
/* Sets the name of a place in the trace; the name is copied. Must be called before the first entry
 * is written. */
void ferryi_trace_name_place(ferryi_trace *trace, int place, const char *name);
struct ferryi_trace_text ferryi_trace_place(const ferryi_trace *trace, int place);
void ferryi_trace_add(ferryi_trace *trace, const struct ferryi_trace_entry *entry);
/* Adds an entry for a wait of this thread, from `begun_ns` until now. `what` says what it waited
 * for, such as "wait for a stream", and `device` is the name of the device, or NULL. */
void ferryi_trace_wait(ferryi_trace *trace, const char *what, const char *device,
                       uint64_t begun_ns);
/* Writes a text in quotes, as a string of JSON, and truncates it if it is long. `at` has room for
 * FERRYI_TRACE_QUOTED_MOST bytes. Returns the end of what it wrote, which is no NUL. */
char *ferryi_trace_put_quoted(char *at, const char *text);
#define FERRYI_TRACE_QUOTED_MOST (6 * FERRYI_TRACE_TEXT_MOST + 2)
/* Writes all entries that the trace has so far to its file, and returns the name of the file.
 * Returns NULL if there is no trace, or in a forked child. */
const char *ferryi_trace_flush(ferryi_trace *trace);
/* Closes the trace. Writes the remaining lines, ends the JSON array and closes the file. Sets
 * *trace to NULL. */
void ferryi_trace_close(ferryi_trace **trace);

#endif
