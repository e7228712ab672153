/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_MISUSE_H
#define FERRY_TEST_MISUSE_H

/*
 * Functions that each contain one typical misuse of the library, as a user might write it. Each
 * function runs in a child process, which writes its log and error messages to standard error.
 * main.c searches this output for a message that names the misuse.
 */

#include <ferry/ferry.h>
#include <ferry/float.h>
#include <ferry/int.h>

#include "src/base/sanitizer.h"

/* The objects that every misuse uses: a context, and a buffer with the name "height" that has 2000
 * ints. The ints were written on the host. */
struct scene {
    ferry_context *context;
    ferry_stream *stream; /* the default stream of place 1 */
    ferry_int_buffer height;
};

#define HEIGHT_COUNT 2000 /* number of ints: a little less than two pages */

enum mistake_needs {
    NEEDS_DEVICE = 1,        /* needs a device with separate memory */
    NEEDS_CHECKED_BUILD = 2, /* found in a checked build; in others the behaviour is undefined */
    NEEDS_SANITIZER = 4,     /* found by AddressSanitizer, and by Valgrind in valgrind.sh */
    /* the misuse needs an unwinder, because the expected message names a calling function */
    NEEDS_UNWINDER = 8,
    NEEDS_HOST_FUNCTIONS = 16 /* needs a device that runs the host functions of kernels */
};

struct misuse {
    const char *name;
    void (*make)(struct scene *scene);
    const char *expected[3]; /* texts that one line of the output must contain; ends with NULL */
    int needs;
    bool faults; /* whether the misuse ends the process */
};

extern const struct misuse pointer_misuses[], handle_misuses[], block_misuses[],
    kernel_misuses[]; /* each array ends with an empty element */

/* make_height() creates the buffer "height". open_height() opens a scope on it that is never
 * closed. Reports of checked runs name these two functions. */
void make_height(struct scene *scene);
void open_height(struct scene *scene, ferry_scope *scope);

/* Prints the message of a failed call. */
void tell(ferry_status status);
/* Ends the process if `status` is an error. Used for calls that are not the misuse and must
 * succeed. */
void must(ferry_status status);

#endif
