/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_SCRIPT_H
#define FERRY_CLI_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/log_reader.h"

/*
 * A script: what a log did, ready to be done again. Addresses have become slots of a table of live
 * blocks and streams small numbers, so that nothing needs to be looked up while the clock runs.
 *
 * Operations keep the order of the log's lines, whichever threads wrote them: one thread does them
 * again. What the log does not tell whole is counted and left out: frees of memory that was
 * allocated before the log began, and allocations of no bytes. Where an address is allocated that
 * was never freed, its free was lost, and is put in.
 */

enum operation_kind {
    OPERATION_TAKE,
    OPERATION_GIVE,
    OPERATION_TRY /* failed when the log was written: taken, and given back at once */
};

struct operation {
    uint64_t bytes;   /* also of a give */
    uint64_t time_us; /* since the log's first event */
    size_t line;      /* of the log */
    uint32_t slot;
    uint32_t stream; /* numbered as they come in the log, from 0 */
    enum operation_kind kind;
};

struct script {
    struct operation *operations;
    size_t count;
    uint32_t slots, streams; /* how many of each */
    size_t threads;          /* that the log names */
    size_t takes, gives, tries;
    size_t empty, unknown_frees, lost_frees; /* left out, left out, put in */
    uint64_t peak_bytes;                     /* live at most, as the log's program asked for them */
    size_t peak_blocks, left_blocks;         /* live at most, and at the end */
    uint64_t span_us; /* time between the first and the last event; 0: the log has no times */
};

/* False with a problem when the host has no memory, or the live bytes are more than 64 bits can
 * count. */
bool script_write(const struct log *log, struct script *out, struct log_problem *problem);
void script_free(struct script *script);

#endif
