/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_SHRINK_H
#define FERRY_TEST_SHRINK_H

#include "tests/histories/history.h"

/*
 * Plays random histories, which are random sequences of library calls. Each history runs in a child
 * process, so that a failed check, a crash or an endless loop ends only the child. Also shortens
 * histories that fail.
 */

/* Plays a random history in a child process and returns whether the history fails. The child writes
 * its messages to the file descriptor `messages`. They are discarded if `messages` is negative. */
bool history_fails(const unsigned char *bytes, size_t count, const struct history_setup *setup,
                   int messages);

/*
 * Shortens a failing history by delta debugging (Zeller and Hildebrandt, Simplifying and isolating
 * failure-inducing input, 2002). Removes steps, and then sets bytes of the remaining steps to zero,
 * as long as the history still fails. Stores the result in `bytes` and returns its length.
 */
size_t history_shrink(unsigned char *bytes, size_t count, const struct history_setup *setup);

/* Prints a random history as a C program that includes printed.h. The program's first line is
 * `comment`. */
void history_print(FILE *out, const unsigned char *bytes, size_t count,
                   const struct history_setup *setup, const char *comment);

#endif
