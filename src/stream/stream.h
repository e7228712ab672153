/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_STREAM_H
#define FERRYI_STREAM_H

/*
 * The struct of a public stream. A stream is a reference-counted handle to a timeline, which
 * records the order of the work on one native stream (see timeline.h). The context lists its
 * streams, so wrapping a native handle twice returns the same stream.
 */

#include <ferry/stream.h>

#include "src/stream/timeline.h"

FERRYI_MUTEX_CLASS(ferryi_stream_mutex);
FERRYI_MUTEX_CLASS(ferryi_streams_mutex); /* protects a context's list of streams */

struct ferry_stream {
    ferryi_timeline *timeline;
    uint32_t generation; /* generation of the timeline that belongs to this stream */
    ferry_context *context;
    ferry_context *plain_context; /* equal to `context` if timeline->is_plain is true, otherwise
                                     NULL, so that a fast path checks only this member */
    bool borrowed;                /* whether this is a default stream, which the context frees */
    FERRYI_GUARDED_BY(ferryi_streams_mutex) struct {
        int references;
        ferry_stream *next, **link; /* in the list of the context */
    };
    struct ferryi_stream_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_stream_mutex) struct {
        ferry_status failure; /* first failure of asynchronous work on this stream that was not yet
                                 returned to the program */
        char *failure_text;
    };
    ferry_context *former; /* former context of a destroyed stream, whose member `context` is NULL;
                              used only if the context makes debug checks */
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

/* Fails if the stream is NULL or was destroyed, or if its context was destroyed. Also fails inside
 * a callback in which only queries are allowed. */
ferry_status ferryi_stream_check(const ferry_stream *stream, const char *what);

/* Always fails, with an error message that explains why the stream cannot be used. Returns
 * INVALID_STATE if the stream was destroyed. Otherwise the stream belongs to a different context,
 * and the function returns WRONG_CONTEXT. */
ferry_status ferryi_stream_refuse(const ferry_stream *stream, const char *what);

/* Stores a failure of asynchronous work in the stream, with a copy of the message `text`. Does
 * nothing if the stream already stores a failure. Any thread may call this function. */
void ferryi_stream_note_failure(ferry_stream *stream, ferry_status status, const char *text);
/* Returns the stored failure and clears it. */
ferry_status ferryi_stream_take_failure(ferry_stream *stream);

/*
 * Sets `*out` to the timeline of the stream that the program passed to a public call. If the
 * program passed NULL, uses the default stream of the context's only device. NULL is an error if
 * the context has no device or several devices. Fails if the context was destroyed, or if the
 * stream belongs to a different context.
 */
ferry_status ferryi_stream_find_timeline(ferry_context *context, ferry_stream *stream,
                                         const char *what, ferryi_timeline **out);

/* Begin and end the recording of a graph from a stream. The hit path does not know recordings, so
 * it does not apply to the stream meanwhile. No other thread may use the stream during these calls.
 */
void ferryi_stream_begin_recording(ferry_stream *stream, struct ferryi_recording_head *recording);
void ferryi_stream_end_recording(ferry_stream *stream);

ferry_status ferryi_stream_open_default(ferry_context *context, int place, ferry_stream **out);
/* Works like ferry_stream_wrap() for the native stream of another library, which may destroy it at
 * any time after this call. Released with ferryi_stream_release(). Fails with UNSUPPORTED if Ferry
 * could not notice that, because the driver has no ids of streams or the stream is CUDA's
 * per-thread stream. */
ferry_status ferryi_stream_open_guest(ferry_context *context, int place, void *native,
                                      ferry_stream **out);
/* Closes every stream of the context, including the streams that the program still owns. Called
 * when the context ends. */
void ferryi_streams_close(ferry_context *context);

#endif
