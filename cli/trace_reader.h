/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_TRACE_READER_H
#define FERRY_CLI_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Traces: bytes in, events out. No file is opened and nothing is printed here, so that it can be
 * fed with anything.
 *
 * It reads what Ferry writes (docs/tracing.md): a JSON array of objects, whose members are strings,
 * numbers and one object "args" of strings and numbers. The array may end early, also inside an
 * event, as it does when the program crashed: what is whole is read, and `is_cut` says so.
 * Everything else that is no such JSON is a problem. Members with other names are passed over.
 */

struct trace_event {
    char phase;                  /* X, i, b, e, C or M */
    const char *category, *name; /* "" where the event has none, as all texts below */
    const char *scope;           /* of b and e: what identifies the scope */
    uint64_t track;              /* "tid" */
    uint64_t begin_ns, ns;       /* when it begins, and how long it takes */
    /* out of "args" */
    const char *buffer, *reason, *from, *to, *access, *place, *end;
    const char *text_name; /* "name" */
    uint64_t id, offset, bytes, source_id, source_offset;
    bool has_id, has_offset, is_move, is_staged;
    size_t line; /* of the file, from 1 */
};

struct trace {
    struct trace_event *events; /* in the order of the file */
    size_t count;
    bool is_cut;
    char *text; /* that the strings lie in */
};

/* What is wrong with a trace. */
struct trace_problem {
    size_t line;
    char text[256]; /* "what is there, what was expected" */
};

/* Reads `count` bytes, of which none needs to be a NUL. On false *out is untouched. */
bool trace_read(const char *bytes, size_t count, struct trace *out, struct trace_problem *problem);
void trace_free(struct trace *trace);

#endif
