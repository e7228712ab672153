/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_RESUME_H
#define FERRY_TEST_RESUME_H

/*
 * Progress of a long run of random histories, stored in a file. The file has a line "NEXT-SEED
 * STEPS DEVICE" for each kind of device. An interrupted run resumes after its last complete batch
 * of histories.
 */

#include <stdbool.h>
#include <stdint.h>

enum { RESUME_DEVICES = 32 };

struct resume {
    const char *path; /* NULL: no file is written */
    unsigned count;
    struct resume_line {
        uint64_t next, steps;
        char device[64];
    } lines[RESUME_DEVICES];
};

/* Reads the progress of a long run from a file. A missing file counts as empty. Returns false if
 * the format of the file is wrong. */
bool resume_open(struct resume *resume, const char *path);
/* Returns the file's line for a device. If the file has no such line, adds a line that starts at
 * seed `first`. */
struct resume_line *resume_line(struct resume *resume, const char *device, uint64_t first);
/* Replaces the file atomically. */
bool resume_save(const struct resume *resume);

#endif
