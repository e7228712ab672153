/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_MISUSE_H
#define FERRY_TEST_MISUSE_H

/*
 * Typical misuse by programs, one function for each, written as a user would write it. Each runs in
 * a separate process whose log and error messages go to standard error. main.c searches this output
 * for the message that must name the misuse.
 */

#include <ferry/ferry.h>
#include <ferry/float.h>
#include <ferry/int.h>

#include "src/base/sanitizer.h"

/* The objects that each misuse uses: a context, and a buffer "height" of 2000 ints that was written
 * on the host. */
struct scene {
    ferry_context *context;
    ferry_stream *stream; /* the default stream of place 1 */
    ferry_int_buffer height;
};

#define HEIGHT_COUNT 2000 /* number of ints: a little less than two pages */

enum mistake_needs {
    NEEDS_DEVICE = 1, /* needs a device with separate memory */
    NEEDS_CHECKED_BUILD =
        2, /* the misuse is found only by a checked build, which checks the pool's blocks */
    NOT_POISONED =
        4, /* the misuse must not run with AddressSanitizer, which would stop the process first */
    NEEDS_UNWINDER = 8 /* needs an unwinder, because the expected message names a caller */
};

struct misuse {
    const char *name;
    void (*make)(struct scene *scene);
    const char *expected[3]; /* up to three texts that one line of the output must contain; NULL
                                ends the list */
    int needs;
    bool faults; /* whether the misuse ends the process */
};

extern const struct misuse pointer_misuses[], handle_misuses[],
    block_misuses[]; /* each array ends with an empty element */

/* These functions create the buffer "height", and open a scope on it that is never closed. Reports
 * of checked runs name these functions. */
void make_height(struct scene *scene);
void open_height(struct scene *scene, ferry_scope *scope);

/* Prints the message of a failed call. */
void tell(ferry_status status);
/* Checks that a call that is not part of the misuse succeeds. */
void must(ferry_status status);

#endif
