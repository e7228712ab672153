/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_SHRINK_H
#define FERRY_TEST_SHRINK_H

#include "tests/histories/history.h"

/*
 * Plays each history in a separate process, so that a failed check, a crash or an endless loop ends
 * only this process. Also shortens histories that fail.
 */

/* Returns whether the history fails. Its messages are written to the file descriptor `messages`, or
 * are discarded if that is negative. */
bool history_fails(const unsigned char *bytes, size_t count, const struct history_setup *setup,
                   int messages);

/*
 * Shortens a failing history by delta debugging (Zeller and Hildebrandt, Simplifying and isolating
 * failure-inducing input, 2002). Removes steps, then clears bytes of the remaining steps, as long
 * as the history still fails. The result is stored in `bytes`. Returns its length.
 */
size_t history_shrink(unsigned char *bytes, size_t count, const struct history_setup *setup);

/* Prints the history as a program over printed.h, with `comment` as its first line. */
void history_print(FILE *out, const unsigned char *bytes, size_t count,
                   const struct history_setup *setup, const char *comment);

#endif
