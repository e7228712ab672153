/* SPDX-License-Identifier: MIT */
#include "src/base/callback.h"

#include <stdio.h>
#include <stdlib.h>

void
ferryi_text_make_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = ' ';
}

/* Calls the log callback with a message, whose control characters become spaces. Preserves this
 * thread's last error, which the callback may replace. */
static void
call_back(const struct ferryi_log *log, ferry_log_level level, char *line)
{
    struct ferryi_callback callback;
    FERRYI_KEEP_ERROR(kept);
    ferryi_text_make_line(line);
    ferryi_callback_enter(&callback, FERRYI_CALLBACK_LOG, "log");
    log->callback(level, line, log->user);
    ferryi_callback_leave(&callback);
}

void
ferryi_log(const struct ferryi_log *log, ferry_log_level level, const char *format, ...)
{
    if (!log || !log->callback || ferryi_callback_kind() == FERRYI_CALLBACK_LOG)
        return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if ((size_t)length < sizeof(line)) {
        call_back(log, level, line);
        return;
    }
    /* A message that is too long for the buffer on the stack, such as a compiler's log, is logged
     * completely if memory can be allocated. */
    char *whole = malloc((size_t)length + 1);
    if (whole) {
        va_start(arguments, format);
        vsnprintf(whole, (size_t)length + 1, format, arguments);
        va_end(arguments);
    }
    call_back(log, level, whole ? whole : line);
    free(whole);
}
