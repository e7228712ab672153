/* SPDX-License-Identifier: MIT */
#include "src/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/version.h>

/*
 * The last failure of one thread. The struct is on the heap, and is allocated when the thread fails
 * for the first time.
 *
 * A thread-local struct would be too large for a library that dlopen() loads. The library has
 * variables of the initial-exec TLS model, and dlopen() can refuse such a library if its
 * thread-local area is large.
 */
struct failure {
    size_t index;
    char message[FERRYI_MESSAGE_BYTES]; /* long enough for most compiler logs; a longer message is
                                           truncated here, but the log callback receives it
                                           completely */
};

static _Thread_local struct failure *failure;
static _Thread_local uint64_t error_count;

/* Whether the thread's last failure says that a resize moved the end of a range; see
 * ferryi_fail_resized(). Not a member of the struct above, so that it needs no memory. */
static _Thread_local bool failed_resized;
/* The same for ferryi_fail_of_program(). */
static _Thread_local bool failed_of_program;

/* The failure that a thread reports if its own failure struct cannot be allocated. Every allocated
 * failure struct starts as a copy of this object. The object is never written. */
static struct failure unspoken = {.index = (size_t)-1,
                                  .message = "no memory was left to say what went wrong"};

static struct {
    pthread_once_t once;
    pthread_key_t key; /* key of the thread-specific value, which is the thread's failure struct;
                          the key's destructor frees the struct */
    bool usable;
} owner = {.once = PTHREAD_ONCE_INIT};

static void
forget_failure(void *opaque)
{
    failure = NULL;
    free(opaque);
}

static void
make_owner(void)
{
    owner.usable = pthread_key_create(&owner.key, forget_failure) == 0;
}

/* Returns this thread's failure struct, and allocates it if necessary. Returns NULL if the struct
 * cannot be allocated. In this case the thread reports `unspoken`, a constant failure that all such
 * threads share. */
static struct failure *
this_failure(void)
{
    if (failure && failure != &unspoken)
        return failure;
    pthread_once(&owner.once, make_owner);
    struct failure *made = owner.usable ? malloc(sizeof(*made)) : NULL;
    if (made && pthread_setspecific(owner.key, made) != 0) {
        free(made);
        made = NULL;
    }
    if (made)
        *made = unspoken;
    failure = made ? made : &unspoken;
    return made;
}

const char *
ferry_version(void)
{
    return FERRY_VERSION;
}

const char *
ferry_status_name(ferry_status status)
{
#define NAME(status) [status] = #status
    static const char *const names[] = {
        NAME(FERRY_OK),
        NAME(FERRY_ERROR_INVALID_ARGUMENT),
        NAME(FERRY_ERROR_OUT_OF_RANGE),
        NAME(FERRY_ERROR_OVERFLOW),
        NAME(FERRY_ERROR_OUT_OF_MEMORY),
        NAME(FERRY_ERROR_CONFLICT),
        NAME(FERRY_ERROR_BUSY),
        NAME(FERRY_ERROR_WRONG_TYPE),
        NAME(FERRY_ERROR_WRONG_CONTEXT),
        NAME(FERRY_ERROR_INVALID_STATE),
        NAME(FERRY_ERROR_UNSUPPORTED),
        NAME(FERRY_ERROR_NO_DEVICE),
        NAME(FERRY_ERROR_DEVICE),
        NAME(FERRY_ERROR_DEVICE_LOST),
        NAME(FERRY_ERROR_COMPILE),
        NAME(FERRY_ERROR_IO),
        NAME(FERRY_ERROR_CANCELLED),
    };
    bool known = (size_t)status < sizeof(names) / sizeof(names[0]);
    return known ? names[status] : "unknown status";
}

const char *
ferry_last_error(void)
{
    return failure ? failure->message : "";
}

size_t
ferry_error_index(void)
{
    return failure ? failure->index : (size_t)-1;
}

void
ferryi_explainv(const char *format, va_list arguments)
{
    failed_resized = failed_of_program = false;
    struct failure *mine = this_failure();
    error_count++;
    if (!mine)
        return;
    vsnprintf(mine->message, sizeof(mine->message), format, arguments);
    mine->index = (size_t)-1;
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

    struct failure *mine = this_failure();
    error_count++;
    if (!mine)
        return;
    char *message = mine->message;
    size_t length = strlen(prefix);
    size_t room = sizeof(mine->message) - length - 3;
    size_t kept = strlen(message);
    if (kept > room)
        kept = room;
    memmove(message + length + 2, message, kept);
    message[length + 2 + kept] = 0;
    memcpy(message, prefix, length);
    memcpy(message + length, ": ", 2);
}

uint64_t
ferryi_error_count(void)
{
    return error_count;
}

void
ferryi_fail_index(size_t index)
{
    struct failure *mine = this_failure();
    if (mine)
        mine->index = index;
}

ferry_status
ferryi_fail_resized(void)
{
    failed_resized = true;
    return FERRY_ERROR_OUT_OF_RANGE;
}

bool
ferryi_last_error_is_resized(void)
{
    return failed_resized;
}

void
ferryi_fail_of_program(void)
{
    failed_of_program = true;
}

bool
ferryi_last_error_is_of_program(void)
{
    return failed_of_program;
}

char *
ferryi_last_error_copy(void)
{
    return strdup(ferry_last_error());
}

void
ferryi_last_error_keep(struct ferryi_kept_error *out)
{
    out->index = ferry_error_index();
    snprintf(out->message, sizeof(out->message), "%s", ferry_last_error());
}

void
ferryi_last_error_restore(const struct ferryi_kept_error *kept)
{
    if (strcmp(kept->message, ferry_last_error()) == 0)
        return;
    ferryi_explain("%s", kept->message);
    ferryi_fail_index(kept->index);
}
