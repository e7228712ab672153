/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TESTS_KEPT_LOG_H
#define FERRY_TESTS_KEPT_LOG_H

/* A log callback that appends each message to a text of the test program. */

#include <ferry/context.h>

#include <string.h>

static char logged[4096];

static void
keep(ferry_log_level level, const char *message, void *user)
{
    (void)level;
    (void)user;
    strncat(logged, message, sizeof(logged) - strlen(logged) - 1);
}

#endif
