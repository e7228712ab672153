/* SPDX-License-Identifier: MIT */
#include "src/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/version.h>

/* One thread's last failure. Compiler logs are long; what does not fit here goes to the log callback whole. */
#define MESSAGE_BYTES 4096

static _Thread_local char message[MESSAGE_BYTES];
static _Thread_local size_t bad_index = (size_t)-1;

const char *
ferry_version(void)
{
    return FERRY_VERSION;
}

const char *
ferry_status_name(ferry_status status)
{
    switch (status) {
    case FERRY_OK: return "FERRY_OK";
    case FERRY_ERROR_INVALID_ARGUMENT: return "FERRY_ERROR_INVALID_ARGUMENT";
    case FERRY_ERROR_OUT_OF_RANGE: return "FERRY_ERROR_OUT_OF_RANGE";
    case FERRY_ERROR_OVERFLOW: return "FERRY_ERROR_OVERFLOW";
    case FERRY_ERROR_OUT_OF_MEMORY: return "FERRY_ERROR_OUT_OF_MEMORY";
    case FERRY_ERROR_CONFLICT: return "FERRY_ERROR_CONFLICT";
    case FERRY_ERROR_BUSY: return "FERRY_ERROR_BUSY";
    case FERRY_ERROR_WRONG_TYPE: return "FERRY_ERROR_WRONG_TYPE";
    case FERRY_ERROR_WRONG_CONTEXT: return "FERRY_ERROR_WRONG_CONTEXT";
    case FERRY_ERROR_INVALID_STATE: return "FERRY_ERROR_INVALID_STATE";
    case FERRY_ERROR_UNSUPPORTED: return "FERRY_ERROR_UNSUPPORTED";
    case FERRY_ERROR_NO_DEVICE: return "FERRY_ERROR_NO_DEVICE";
    case FERRY_ERROR_DEVICE: return "FERRY_ERROR_DEVICE";
    case FERRY_ERROR_DEVICE_LOST: return "FERRY_ERROR_DEVICE_LOST";
    case FERRY_ERROR_COMPILE: return "FERRY_ERROR_COMPILE";
    case FERRY_ERROR_IO: return "FERRY_ERROR_IO";
    case FERRY_ERROR_CANCELLED: return "FERRY_ERROR_CANCELLED";
    }
    return "unknown status";
}

const char *
ferry_last_error(void)
{
    return message;
}

size_t
ferry_error_index(void)
{
    return bad_index;
}

void
ferryi_explainv(const char *format, va_list arguments)
{
    vsnprintf(message, sizeof(message), format, arguments);
    bad_index = (size_t)-1;
}

void
ferryi_explain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    ferryi_explainv(format, arguments);
    va_end(arguments);
}

void
ferryi_explain_in(const char *format, ...)
{
    char prefix[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(prefix, sizeof(prefix), format, arguments);
    va_end(arguments);

    size_t length = strlen(prefix);
    size_t room = sizeof(message) - length - 3;
    size_t kept = strlen(message);
    if (kept > room)
        kept = room;
    memmove(message + length + 2, message, kept);
    message[length + 2 + kept] = 0;
    memcpy(message, prefix, length);
    memcpy(message + length, ": ", 2);
}

void
ferryi_fail_index(size_t index)
{
    bad_index = index;
}

char *
ferryi_last_error_copy(void)
{
    return strdup(message);
}
