/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_MISUSE_H
#define FERRY_TEST_MISUSE_H

/*
 * Typical misuse by programs, one function each, as a user would write it. Each runs in a separate
 * process whose log and failing statuses go to standard error; main.c looks there for the message
 * that must name the misuse.
 */

#include <ferry/ferry.h>
#include <ferry/float.h>
#include <ferry/int.h>

#include "src/base/sanitizer.h"

/* What a misuse finds: a context, and a buffer "height" of 2000 ints that was written on the host.
 */
struct scene {
    ferry_context *context;
    ferry_stream *stream; /* the default one of place 1 */
    ferry_int_buffer height;
};

#define HEIGHT_COUNT 2000 /* ints: not quite two pages */

enum mistake_needs {
    NEEDS_DEVICE = 1,        /* with separate memory */
    NEEDS_CHECKED_BUILD = 2, /* the pool's blocks are looked at there only */
    NOT_POISONED = 4,        /* AddressSanitizer stops it first */
    NEEDS_UNWINDER = 8       /* its message names a caller */
};

struct misuse {
    const char *name;
    void (*make)(struct scene *scene);
    const char *expected[3]; /* all in one line; up to three, NULL: no more */
    int needs;
    bool faults; /* the process does not survive it */
};

extern const struct misuse pointer_misuses[], handle_misuses[],
    block_misuses[]; /* each ends with an empty one */

/* What reports of checked runs name as the function that made the buffer "height", and that opened
 * a scope of it and forgot it. */
void make_height(struct scene *scene);
void open_height(struct scene *scene, ferry_scope *scope);

/* Prints the message of a call that failed. */
void tell(ferry_status status);
/* The call must work: it is not the misuse. */
void must(ferry_status status);

#endif
