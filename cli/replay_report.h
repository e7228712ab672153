/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_REPLAY_REPORT_H
#define FERRY_CLI_REPLAY_REPORT_H

#include <stdio.h>

#include "cli/replay.h"

/* What `ferry replay` found out. */

enum { REPLAY_SAMPLES = 1000 };

struct request {
    const char *log, *devices, *output, *picture; /* NULL: not asked for */
    uint64_t limit_bytes;
    bool smallest_limit, json;
};

struct report {
    const struct request *request;
    struct script script;
    char device[128];
    uint64_t limit_bytes;
    uint64_t most_bytes; /* up to which the smallest limit was looked for */
    struct replay_result result;
    uint64_t smallest_limit; /* 0: unknown */
    struct replay_sample samples[REPLAY_SAMPLES];
    size_t sample_count;
};

/* Writes a `struct report` as JSON, which cli/report reads. A failed write shows in ferror(). */
void replay_report(FILE *file, const void *what);

#endif
