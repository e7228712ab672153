/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_STREAM_H
#define FERRYI_STREAM_H

/*
 * The public stream: a counted handle on a timeline. The context keeps a list of them, so that
 * wrapping one native handle twice finds the first.
 */

#include <ferry/stream.h>

#include "src/stream/timeline.h"

FERRYI_MUTEX_CLASS(ferryi_stream_mutex);
FERRYI_MUTEX_CLASS(ferryi_streams_mutex); /* of a context, around its list */

struct ferry_stream {
    ferryi_timeline *timeline;
    ferry_context *context;
    ferry_context *plain_context; /* the same where the timeline is plain, else NULL: all that the
                                     hit path asks */
    bool borrowed;                /* a default stream: lives with the context */
    FERRYI_GUARDED_BY(ferryi_streams_mutex) struct {
        int references;
        ferry_stream *next, *prev;
    };
    struct ferryi_stream_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_stream_mutex) struct {
        ferry_status failure; /* of asynchronous work queued on it, until a caller waits */
        char *failure_text;
    };
    ferry_context
        *former; /* of a destroyed one that a checked run keeps: then there is no `context` */
};

static inline ferryi_timeline *
ferryi_stream_timeline(ferry_stream *stream)
{
    return stream->timeline;
}

static inline ferry_context *
ferryi_stream_context(const ferry_stream *stream)
{
    return stream->context;
}

/* One more owner, and one less; the last one ends the stream. */
void ferryi_stream_retain(ferry_stream *stream);
void ferryi_stream_release(ferry_stream *stream);

/* Fails for NULL, and for a stream that outlived its context. */
ferry_status ferryi_stream_check(const ferry_stream *stream, const char *what);

/* The message and status for a stream that is not of the context it is used with. */
ferry_status ferryi_stream_refuse(const ferry_stream *stream, const char *what);

/* Note the failure of asynchronous work, with a copy of `text`; the first one is kept. Any thread.
 */
void ferryi_stream_note_failure(ferry_stream *stream, ferry_status status, const char *text);
/* Return and forget it. */
ferry_status ferryi_stream_take_failure(ferry_stream *stream);

/*
 * Sets `*out` to the timeline of a stream argument: NULL means the default stream of a context with
 * one device. Checks the context.
 */
ferry_status ferryi_stream_find_timeline(ferry_context *context, ferry_stream *stream,
                                         const char *what, ferryi_timeline **out);

ferry_status ferryi_stream_open_default(ferry_context *context, int place, ferry_stream **out);
/* The context ends: every stream goes, whoever holds it. */
void ferryi_streams_close(ferry_context *context);

#endif
