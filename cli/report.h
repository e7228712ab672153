/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_REPORT_H
#define FERRY_CLI_REPORT_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Reports are written by a program in Python, cli/report, which is installed in share/ferry/report.
 * It reads what was measured as JSON.
 */

/* Calls `write` with a new temporary file. NULL after a message, which names the command. */
FILE *report_input(const char *command, void (*write)(FILE *file, const void *what),
                   const void *what);

/* Turns this process into that program, with `words`, which end with NULL, as its arguments and
 * `input` as its standard input; NULL leaves that as it is. Returns EXIT_FAILED after a message. */
int report_become(const char *const *words, FILE *input);

#endif
