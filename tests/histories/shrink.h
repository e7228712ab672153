/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_SHRINK_H
#define FERRY_TEST_SHRINK_H

#include "tests/histories/history.h"

/*
 * Histories in processes of their own, so that whatever happens to one (a failed check, a crash, no
 * end) is only its failure; and failing ones made shorter.
 */

/* Does it fail? Its messages go to `messages`, a file descriptor, or nowhere when that is negative.
 */
bool history_fails(const unsigned char *bytes, size_t count, const struct history_setup *setup,
                   int messages);

/*
 * Delta debugging (Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, 2002):
 * leave out steps, then clear their bytes, as long as it still fails. What is left stays in
 * `bytes`; its length is returned.
 */
size_t history_shrink(unsigned char *bytes, size_t count, const struct history_setup *setup);

/* The history as a program over printed.h, with `comment` as its first line. */
void history_print(FILE *out, const unsigned char *bytes, size_t count,
                   const struct history_setup *setup, const char *comment);

#endif
