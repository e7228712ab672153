/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TRACE_H
#define FERRYI_TRACE_H

/*
 * A trace: one file of a context in the Chrome trace event format, an array of events with one
 * event in each line. docs/tracing.md describes the events.
 *
 * An entry is formatted on the stack of its thread and copied into a chunk under a mutex, which is
 * held for that copy only. The thread that fills a chunk writes it to the file while others fill
 * the second one. Lines are never split between the threads, so a file that ends early is readable
 * up to its last whole line. At the exit of a process that did not destroy its context, the rest is
 * written as well.
 *
 * A child of a fork writes nothing: each entry compares the count of forks. When the file cannot be
 * written, the error is logged once and the trace ends.
 *
 * Every function accepts NULL, which means that nothing is traced, and may be called on any thread
 * and under any lock but the trace's own.
 */

#include "src/base/base.h"

typedef struct ferryi_trace ferryi_trace;

/*
 * A text of an entry. A plain text has only ASCII characters that JSON takes as they are, and at
 * most FERRYI_TRACE_TEXT_MOST bytes. It states its length, and is copied without being examined. 0
 * bytes: any text; it is escaped, and a long one is cut.
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

/* A member of "args": a text, or a number where the text is NULL. */
struct ferryi_trace_argument {
    const char *key; /* as it stands before the value, of key_bytes; FERRYI_TRACE_KEY_MOST bytes are
                        there, so that all keys are copied alike */
    size_t key_bytes;
    struct ferryi_trace_text text;
    uint64_t number;
};

/* The key is a literal of at most 21 characters. */
#define FERRYI_TRACE_KEY_MOST 24
#define FERRYI_TRACE_KEY(key) "\"" key "\":                        ", sizeof("\"" key "\":") - 1
#define FERRYI_TRACE_TEXT(key, value)                                                              \
    {                                                                                              \
        FERRYI_TRACE_KEY(key), (value), 0                                                          \
    } /* of a struct ferryi_trace_text */
#define FERRYI_TRACE_NUMBER(key, value)                                                            \
    {                                                                                              \
        FERRYI_TRACE_KEY(key), FERRYI_TRACE_ANY(NULL), (value)                                     \
    }

/* A place of a context and the number of one of its streams, for the stream's own track. Number 0
 * stands for all streams that have no number. */
struct ferryi_trace_stream {
    int place; /* 0: no stream */
    unsigned number;
};

struct ferryi_trace_entry {
    char
        phase; /* X: from begun_ns until now; i: now; b, e: a scope opens or closes; C: a counter */
    struct ferryi_trace_text category; /* plain */
    struct ferryi_trace_text name;
    uint64_t begun_ns;                 /* of ferryi_now_ns() */
    uint64_t object, number;           /* of b and e: both together identify the scope */
    struct ferryi_trace_stream stream; /* an instant on its track goes with the entry */
    const struct ferryi_trace_argument *arguments;
    size_t argument_count;
};

/* Creates or empties the file. Fails with IO or OUT_OF_MEMORY. The log must live as long as the
 * trace. */
ferry_status ferryi_trace_open(const char *path, const struct ferryi_log *log, ferryi_trace **out);
/* How the trace names a place; copied. Before the first entry. */
void ferryi_trace_name_place(ferryi_trace *trace, int place, const char *name);
struct ferryi_trace_text ferryi_trace_place(const ferryi_trace *trace, int place);
void ferryi_trace_add(ferryi_trace *trace, const struct ferryi_trace_entry *entry);
/* Writes what is left and ends the array. Sets *trace to NULL. */
void ferryi_trace_close(ferryi_trace **trace);

#endif
