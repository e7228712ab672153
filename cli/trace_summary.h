/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_TRACE_SUMMARY_H
#define FERRY_CLI_TRACE_SUMMARY_H

#include "cli/trace_reader.h"

/*
 * Summary of a trace: bytes by buffer and by reason, the movements that took longest, fetches
 * that were not needed, and ranges that went to and fro. The definitions are in docs/tracing.md.
 */

enum summary_direction {
    SUMMARY_UPLOAD,
    SUMMARY_DOWNLOAD,
    SUMMARY_PEER,
    SUMMARY_DEVICE,
    SUMMARY_HOST,
    SUMMARY_FILL,
    SUMMARY_DIRECTIONS
};

extern const char *const summary_directions[SUMMARY_DIRECTIONS]; /* as events name them */

struct summary_count {
    uint64_t count, bytes, ns;
};

struct summary_buffer {
    uint64_t id;
    const char *name;
    uint64_t bytes; /* its size; 0: the trace does not have it */
    bool is_held;   /* the program had the address of a copy */
    struct summary_count moved[SUMMARY_DIRECTIONS];
    struct summary_count evicted;
    struct stretches *stretches; /* the summary's own */
};

struct summary_reason {
    const char *name;
    struct summary_count moved[SUMMARY_DIRECTIONS];
};

/* Fetches of one buffer for one reason. */
struct summary_fetch {
    uint64_t id;
    const char *name, *reason;
    struct summary_count fetched;
};

struct summary_round {
    uint64_t id;
    const char *name;
    uint64_t offset, bytes;
    uint64_t crossings; /* each of all those bytes, one way and the other in turn */
};

struct summary_wait {
    const char *name;
    struct summary_count waited;
};

struct summary {
    const struct trace *trace;
    uint64_t begin_ns, end_ns;
    struct summary_count moved[SUMMARY_DIRECTIONS];
    struct summary_buffer *buffers; /* by id */
    size_t buffer_count, buffer_room;
    struct summary_reason *reasons; /* most bytes first */
    size_t reason_count, reason_room;
    const struct trace_event **dearest; /* the longest first */
    size_t dearest_count;
    struct summary_fetch
        *overwritten; /* fetched and wholly overwritten before they were read; most bytes first */
    size_t overwritten_count, overwritten_room;
    struct summary_fetch *updates; /* fetched for scopes that update; most bytes first */
    size_t update_count, update_room;
    struct summary_round *rounds; /* most bytes first */
    size_t round_count, round_room;
    struct summary_wait *waits;
    size_t wait_count, wait_room;
    uint64_t launches, evictions;
    struct summary_count grown, shrunk;
    struct summary_lists *lists; /* its own */
};

struct summary_options {
    size_t top;           /* rows of each list */
    uint64_t round_trips; /* ranges with at least as many are listed; at least 1 */
};

/* False: no memory. The trace must outlive the summary. */
bool summary_make(const struct trace *trace, const struct summary_options *options,
                  struct summary *out);
void summary_free(struct summary *summary);

#endif
