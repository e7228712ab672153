/* SPDX-License-Identifier: MIT */
#include "src/stream/stream.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/debug/debug.h"
#include "src/stream/shell.h"

/* -- failures of asynchronous work ------------------------------------------------------------- */

void
ferryi_stream_note_failure(ferry_stream *stream, ferry_status status, const char *text)
{
    ferryi_mutex_lock(&stream->mutex);
    if (stream->failure == FERRY_OK) {
        stream->failure = status;
        stream->failure_text = text ? strdup(text) : NULL;
    }
    ferryi_mutex_unlock(&stream->mutex);
}

ferry_status
ferryi_stream_take_failure(ferry_stream *stream)
{
    ferryi_mutex_lock(&stream->mutex);
    ferry_status status = stream->failure;
    char *text = stream->failure_text;
    stream->failure = FERRY_OK;
    stream->failure_text = NULL;
    ferryi_mutex_unlock(&stream->mutex);
    if (status != FERRY_OK)
        ferryi_fail(status, "%s", text ? text : "asynchronous work of the stream failed");
    free(text);
    return status;
}

/* -- opening ----------------------------------------------------------------------------------- */

FERRYI_REQUIRES(ferryi_streams_mutex)
static ferry_stream *
find_native(ferry_context *context, int place, void *native)
{
    for (ferry_stream *stream = context->streams; stream; stream = stream->next)
        if (stream->timeline->place == place && stream->timeline->native == native &&
            !ferryi_timeline_is_gone(stream->timeline))
            return stream;
    return NULL;
}

/* Opens a stream for a native stream, or for a new one if `native` is NULL. */
FERRYI_REQUIRES(ferryi_streams_mutex)
static ferry_status
stream_new(ferry_context *context, int place, const struct ferryi_native *native,
           ferry_stream **out)
{
    ferry_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "open a stream at %s: no memory",
                           context->names[place]);
    ferryi_device *device = context->devices[place];
    ferry_status status = FERRY_OK;
    /* A stream whose ferry_stream was destroyed during a capture keeps its timeline. */
    stream->timeline = native ? ferryi_order_adopt(&context->order, device, native->stream) : NULL;
    ferryi_order_retire_ending(&context->order);
    if (!stream->timeline)
        status =
            ferryi_timeline_open(&context->order, device, place, native, false, &stream->timeline);
    if (status != FERRY_OK) {
        free(stream);
        return status;
    }
    stream->generation = stream->timeline->generation;
    stream->context = context;
    stream->plain_context = stream->timeline->is_plain ? context : NULL;
    stream->references = 1;
    ferryi_shell_retain(context);
    ferryi_mutex_init(&stream->mutex);
    FERRYI_LIST_ADD(&context->streams, stream, next, link);
    *out = stream;
    return FERRY_OK;
}

ferry_status
ferryi_stream_open_default(ferry_context *context, int place, ferry_stream **out)
{
    const struct ferryi_native native = {.stream = context->devices[place]->default_stream};
    ferryi_mutex_lock(&context->stream_mutex);
    ferry_status status = stream_new(context, place, &native, out);
    if (status == FERRY_OK)
        (*out)->borrowed = true;
    ferryi_mutex_unlock(&context->stream_mutex);
    return status;
}

static ferry_status
check_stream_place(ferry_context *context, int place, ferry_stream **out, const char *what)
{
    if (!context || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: context or out is NULL", what);
    if (place < 1 || place > context->place_count)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: place %d is no device; devices are places 1 to %d", what, place,
                           context->place_count);
    return ferryi_shell_check_open(context, what);
}

ferry_status
ferry_stream_create(ferry_context *context, int place, ferry_stream **out)
{
    FERRYI_OR_RETURN(check_stream_place(context, place, out, "create a stream"));
    ferryi_mutex_lock(&context->stream_mutex);
    ferry_status status = stream_new(context, place, NULL, out);
    ferryi_mutex_unlock(&context->stream_mutex);
    return status;
}

/*
 * Checks a native stream handle of the program that the context does not list yet. Only a device
 * with a context of its driver can have such handles, because Ferry itself creates all streams of
 * other devices. The function queries the driver, which rejects the handle if it can detect that
 * the handle is invalid.
 */
static ferry_status
check_native(ferry_context *context, int place, void *native, void **out_scope)
{
    ferryi_device *device = context->devices[place];
    bool capturing;
    if (!device->properties.native_context)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "wrap a stream of %s: %p is no stream of this context",
                           context->names[place], native);
    ferry_status status = FERRYI_CALL(device, stream_check, native, out_scope);
    if (status == FERRY_OK)
        status = FERRYI_CALL(device, stream_is_capturing, native, &capturing);
    if (status == FERRY_ERROR_DEVICE)
        return ferryi_fail_in(FERRY_ERROR_INVALID_ARGUMENT, "wrap a stream of %s: %p",
                              context->names[place], native);
    return status;
}

ferry_status
ferry_stream_wrap(ferry_context *context, int place, void *native, ferry_stream **out)
{
    ferry_status status = check_stream_place(context, place, out, "wrap a stream");
    if (status != FERRY_OK)
        return status;
    if (!native && !context->devices[place]->default_is_null)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "wrap a stream of %s: the native handle is NULL", context->names[place]);
    /* HIP's default stream is NULL, and older releases have no other handle of it. */
    if (!native || (native == FERRY_STREAM_LEGACY && context->devices[place]->default_is_null))
        native = context->devices[place]->default_stream;
    ferryi_mutex_lock(&context->stream_mutex);
    ferry_stream *known = find_native(context, place, native);
    if (known) {
        known->references++;
        *out = known;
    } else {
        struct ferryi_native checked = {.stream = native};
        status = check_native(context, place, native, &checked.scope);
        if (status == FERRY_OK)
            status = stream_new(context, place, &checked, out);
    }
    ferryi_mutex_unlock(&context->stream_mutex);
    return status;
}

ferry_status
ferryi_stream_open_guest(ferry_context *context, int place, void *native, ferry_stream **out)
{
    ferry_stream *stream;
    FERRYI_OR_RETURN(ferry_stream_wrap(context, place, native, &stream));
    ferry_status status =
        stream->timeline->per_thread
            ? ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                          "order the work of another library on a per-thread stream")
            : ferryi_timeline_make_guest(stream->timeline);
    if (status != FERRY_OK) {
        ferryi_stream_release(stream);
        return status;
    }
    *out = stream;
    return FERRY_OK;
}

/* -- closing ----------------------------------------------------------------------------------- */

static void
stream_release(void *header)
{
    ferry_stream *stream = header;
    ferry_context *context = stream->context ? stream->context : stream->former;
    ferryi_mutex_is_needless(&stream->mutex);
    ferryi_mutex_destroy(&stream->mutex);
    free(stream->failure_text);
    free(stream);
    ferryi_shell_release(context);
}

/* Streams that have outlived their contexts, and destroyed streams in quarantine, point to this
 * static timeline. It belongs to no place. */
static ferryi_timeline dead_timeline = {.place = -1};

static void
stream_free(ferry_stream *stream)
{
    if (!stream->context->debug) {
        stream_release(stream);
        return;
    }
    stream->former = stream->context;
    stream->context = stream->plain_context = NULL;
    stream->timeline = &dead_timeline;
    ferryi_quarantine_add(stream, stream_release);
}

void
ferryi_stream_retain(ferry_stream *stream)
{
    ferryi_mutex_lock(&stream->context->stream_mutex);
    stream->references++;
    ferryi_mutex_unlock(&stream->context->stream_mutex);
}

void
ferryi_stream_release(ferry_stream *closing)
{
    ferry_context *context = closing->context;
    ferryi_mutex_lock(&context->stream_mutex);
    bool last = (!closing->borrowed || closing->references > 1) && --closing->references == 0;
    bool alive = !atomic_load(&context->closed);
    if (last && alive)
        FERRYI_LIST_REMOVE(closing, next, link);
    ferryi_mutex_unlock(&context->stream_mutex);
    if (!last)
        return;
    /* If the owner of a guest destroyed its native stream, another stream may have the timeline. */
    if (alive && closing->timeline->generation == closing->generation)
        ferryi_timeline_retire(closing->timeline);
    stream_free(closing);
}

void
ferry_stream_destroy(ferry_stream **stream)
{
    if (!stream || !*stream)
        return;
    ferry_stream *closing = *stream;
    ferry_context *context = closing->context;
    if (ferryi_callback_refuses_end(context ? &context->log : NULL, ferryi_callback_in_any_call(),
                                    "destroy a stream"))
        return;
    *stream = NULL;
    if (!context)
        ferryi_log(&closing->former->log, FERRY_LOG_ERROR,
                   "destroy a stream: it was destroyed before");
    else if (!context->inherited)
        ferryi_stream_release(closing);
}

void
ferryi_streams_close(ferry_context *context)
{
    ferryi_mutex_is_needless(&context->stream_mutex);
    while (context->streams) {
        ferry_stream *stream = context->streams;
        context->streams = stream->next;
        /* The caller frees the timelines of all streams after this call. So the stream must not
         * keep a pointer to its timeline. */
        stream->timeline = &dead_timeline;
        stream->plain_context = NULL;
        /* Only the context's default streams are freed here. The program frees all other streams.
         */
        if (stream->borrowed)
            stream_free(stream);
    }
}

/* -- use --------------------------------------------------------------------------------------- */

ferry_status
ferryi_stream_refuse(const ferry_stream *stream, const char *what)
{
    if (!stream->context)
        return ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s: the stream was destroyed", what);
    return ferryi_fail(FERRY_ERROR_WRONG_CONTEXT, "%s: the stream belongs to another context",
                       what);
}

ferry_status
ferryi_stream_check(const ferry_stream *stream, const char *what)
{
    if (!stream)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the stream is NULL", what);
    if (!stream->context)
        return ferryi_stream_refuse(stream, what);
    return ferryi_shell_check_open(stream->context, what);
}

/* Returns the timeline of a stream. In the child of a fork this is the timeline that streams have
 * after their context was destroyed, so that a query there finds nothing of the parent. */
static const ferryi_timeline *
living_timeline(const ferry_stream *stream)
{
    return stream->context && stream->context->inherited ? &dead_timeline : stream->timeline;
}

void *
ferry_stream_native(ferry_stream *stream)
{
    return stream ? living_timeline(stream)->native : NULL;
}

int
ferry_stream_place(const ferry_stream *stream)
{
    return stream ? living_timeline(stream)->place : -1;
}

ferry_status
ferry_stream_flush(ferry_stream *stream)
{
    ferry_status status = ferryi_stream_check(stream, "flush a stream");
    if (status == FERRY_OK)
        status = ferryi_timeline_check_capture(stream->timeline);
    return status == FERRY_OK ? ferryi_timeline_flush(stream->timeline) : status;
}

ferry_status
ferry_stream_synchronize(ferry_stream *stream)
{
    FERRYI_OR_RETURN(ferryi_stream_check(stream, "synchronize a stream"));
    ferryi_timeline *timeline = stream->timeline;
    ferry_status status = ferryi_timeline_check_capture(timeline);
    if (status == FERRY_OK)
        status = ferryi_timeline_synchronize(timeline);
    ferry_status failure = ferryi_stream_take_failure(stream);
    return failure != FERRY_OK ? failure : status;
}

/* -- graphs ------------------------------------------------------------------------------------ */

void
ferryi_stream_begin_recording(ferry_stream *stream, struct ferryi_recording_head *recording)
{
    ferryi_timeline_set_recording(stream->timeline, recording);
    stream->plain_context = NULL;
}

void
ferryi_stream_end_recording(ferry_stream *stream)
{
    ferryi_timeline_set_recording(stream->timeline, NULL);
    stream->plain_context = stream->timeline->is_plain ? stream->context : NULL;
}

/* -- stream arguments --- */

ferry_status
ferryi_stream_find_timeline(ferry_context *context, ferry_stream *stream, const char *what,
                            ferryi_timeline **out)
{
    FERRYI_OR_RETURN(ferryi_shell_check_alive(context, what));
    if (!stream && context->place_count != 1)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: a stream is needed in a context with %d devices, such as that of "
                           "ferry_context_stream()",
                           what, context->place_count);
    if (!stream)
        stream = context->defaults[1];
    if (stream->context != context)
        return ferryi_stream_refuse(stream, what);
    *out = stream->timeline;
    return FERRY_OK;
}

ferry_stream *
ferry_context_stream(ferry_context *context, int place)
{
    bool exists = context && place >= 1 && place <= context->place_count &&
                  !atomic_load_explicit(&context->closed, memory_order_relaxed);
    return exists ? context->defaults[place] : NULL;
}
