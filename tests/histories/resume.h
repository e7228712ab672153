/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_RESUME_H
#define FERRY_TEST_RESUME_H

/*
 * How far a long run has come, in a file: a line for each kind of device, "NEXT-SEED STEPS DEVICE".
 * A run that is stopped goes on where its last batch of histories ended.
 */

#include <stdbool.h>
#include <stdint.h>

enum { RESUME_DEVICES = 32 };

struct resume {
    const char *path; /* NULL: nothing is kept */
    unsigned count;
    struct resume_line {
        uint64_t next, steps;
        char device[64];
    } lines[RESUME_DEVICES];
};

/* Reads the file; one that is missing is empty. False: it holds something else. */
bool resume_open(struct resume *resume, const char *path);
/* The line of a device, which begins at `first` when it is new. */
struct resume_line *resume_line(struct resume *resume, const char *device, uint64_t first);
/* Writes the file anew, as a whole or not at all. */
bool resume_save(const struct resume *resume);

#endif
