/* SPDX-License-Identifier: MIT */
#include "src/base/base.h"

#include <stdio.h>
#include <stdlib.h>

void
ferryi_log(const struct ferryi_log *log, ferry_log_level level, const char *format, ...)
{
    if (!log || !log->callback)
        return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if ((size_t)length < sizeof(line)) {
        log->callback(level, line, log->user);
        return;
    }
    /* Long messages, such as a compiler's log, are told whole where memory allows. */
    char *whole = malloc((size_t)length + 1);
    if (whole) {
        va_start(arguments, format);
        vsnprintf(whole, (size_t)length + 1, format, arguments);
        va_end(arguments);
    }
    log->callback(level, whole ? whole : line, log->user);
    free(whole);
}
