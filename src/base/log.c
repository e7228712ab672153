/* SPDX-License-Identifier: MIT */
#include "src/base/callback.h"

#include <stdio.h>
#include <stdlib.h>

static bool
is_control(char character)
{
    return (unsigned char)character < ' ' || character == 0x7f;
}

bool
ferryi_text_has_control(const char *text)
{
    while (*text && !is_control(*text))
        text++;
    return *text != 0;
}

void
ferryi_text_make_line(char *text)
{
    for (; *text; text++)
        if (is_control(*text))
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
    ferryi_callback_enter(&callback, FERRYI_CALLBACK_WATCHING, "log");
    ferryi_callback_thread.logs = true;
    log->callback(level, line, log->user);
    ferryi_callback_thread.logs = false;
    ferryi_callback_leave(&callback);
}

static void
log_text(const struct ferryi_log *log, ferry_log_level level, const char *format,
         va_list *arguments)
{
    char line[512];
    va_list again;
    va_copy(again, *arguments);
    int length = vsnprintf(line, sizeof(line), format, *arguments);
    if (length >= 0 && (size_t)length < sizeof(line)) {
        call_back(log, level, line);
    } else if (length >= 0) {
        /* A message that is too long for the buffer on the stack, such as a compiler's log, is
         * logged completely if memory can be allocated. */
        char *whole = malloc((size_t)length + 1);
        if (whole)
            vsnprintf(whole, (size_t)length + 1, format, again);
        call_back(log, level, whole ? whole : line);
        free(whole);
    }
    va_end(again);
}

static bool
is_silent(const struct ferryi_log *log)
{
    return !log || !log->callback || ferryi_callback_thread.logs;
}

void
ferryi_log(const struct ferryi_log *log, ferry_log_level level, const char *format, ...)
{
    if (is_silent(log))
        return;
    va_list arguments;
    va_start(arguments, format);
    log_text(log, level, format, &arguments);
    va_end(arguments);
}

static void
write_to_standard_error(ferry_log_level level, const char *line, void *user)
{
    (void)level, (void)user;
    fprintf(stderr, "ferry: %s\n", line);
}

void
ferryi_log_setting(const struct ferryi_log *log, ferry_log_level level, const char *format, ...)
{
    static const struct ferryi_log fallback = {.callback = write_to_standard_error};
    va_list arguments;
    if (ferryi_callback_thread.logs)
        return;
    va_start(arguments, format);
    log_text(log && log->callback ? log : &fallback, level, format, &arguments);
    va_end(arguments);
}

void
ferryi_text_append(char *text, size_t bytes, size_t *length, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t at = *length < bytes ? *length : bytes;
    int more = vsnprintf(text ? text + at : NULL, bytes - at, format, arguments);
    va_end(arguments);
    *length += more > 0 ? (size_t)more : 0;
}
