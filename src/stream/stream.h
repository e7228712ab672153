/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_STREAM_H
#define FERRYI_STREAM_H

/*
 * The public stream: a reference-counted handle to a timeline. The context lists its streams, so
 * wrapping a native handle twice returns the same stream.
 */

#include <ferry/stream.h>

#include "src/stream/timeline.h"

FERRYI_MUTEX_CLASS(ferryi_stream_mutex);
FERRYI_MUTEX_CLASS(ferryi_streams_mutex); /* protects a context's list */

struct ferry_stream {
    ferryi_timeline *timeline;
    ferry_context *context;
    ferry_context *plain_context; /* `context` if timeline->is_plain is true, otherwise NULL; so the
                                     fast path checks only this member */
    bool borrowed; /* whether this is a default stream of the context, which frees it */
    FERRYI_GUARDED_BY(ferryi_streams_mutex) struct {
        int references;
        ferry_stream *next, **link; /* in the list of the context */
    };
    struct ferryi_stream_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_stream_mutex) struct {
        ferry_status failure; /* first failure of asynchronous work on the stream that no call has
                                 returned yet */
        char *failure_text;
    };
    ferry_context *former; /* in a context with debug checks: the context to which a destroyed
                              stream belonged; its `context` is then NULL */
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

/* ferryi_stream_retain() adds an owner to a stream. ferryi_stream_release() drops an owner; when
 * the last one is dropped, the stream is destroyed. */
void ferryi_stream_retain(ferry_stream *stream);
void ferryi_stream_release(ferry_stream *stream);

/* Fails if the stream is NULL, if its context was destroyed, or inside a callback that must not
 * make such calls. */
ferry_status ferryi_stream_check(const ferry_stream *stream, const char *what);

/* Fails and explains in the error message why the stream cannot be used. Returns INVALID_STATE if
 * the stream was destroyed. Otherwise returns WRONG_CONTEXT, because the stream belongs to a
 * different context. */
ferry_status ferryi_stream_refuse(const ferry_stream *stream, const char *what);

/* Stores a failure of asynchronous work in the stream, with a copy of `text`. Does nothing if an
 * earlier failure is still stored. Any thread may call it. */
void ferryi_stream_note_failure(ferry_stream *stream, ferry_status status, const char *text);
/* Returns the stored failure and clears it. */
ferry_status ferryi_stream_take_failure(ferry_stream *stream);

/*
 * Sets `*out` to the timeline of the stream that was passed to a public call. NULL means the
 * default stream of the context's only device, and is an error if the context has no device or
 * several. Fails if the context was destroyed, or if the stream belongs to a different context.
 */
ferry_status ferryi_stream_find_timeline(ferry_context *context, ferry_stream *stream,
                                         const char *what, ferryi_timeline **out);

ferry_status ferryi_stream_open_default(ferry_context *context, int place, ferry_stream **out);
/* Closes every stream, including those that the program still owns. Called when the context ends.
 */
void ferryi_streams_close(ferry_context *context);

#endif
