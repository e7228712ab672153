/* SPDX-License-Identifier: MIT */
#ifndef FERRY_SCOPE_H
#define FERRY_SCOPE_H

#include <stddef.h>
#include <stdint.h>

#include <ferry/status.h>

FERRY_BEGIN_DECLS

typedef struct ferry_buffer ferry_buffer;
typedef struct ferry_stream ferry_stream;
typedef struct ferry_context ferry_context;

/** As a count: every element up to the end of the buffer or view. */
#define FERRY_REST SIZE_MAX

/** The place of host memory. Places 1..N are the devices of the context. */
#define FERRY_PLACE_HOST 0

/** How the owner of a scope uses its range. A value never changes its meaning. */
typedef enum ferry_access {
    FERRY_READ = 1,     /**< reads only; the place then holds the current bytes, as do the places
                             that held them before */
    FERRY_UPDATE = 2,   /**< reads and writes; afterwards only this place is current */
    FERRY_OVERWRITE = 3 /**< writes every byte and reads none; nothing is copied to the place */
} ferry_access;

/**
 * An open use of a raw pointer, from the call that opens it to ferry_scope_close().
 *
 * A scope lives on the caller's stack and allocates no memory. Opening sets all of it. A scope that
 * may be closed without having been opened, as on an error path, starts as {0}: closing that has no
 * effect. Any thread may close a scope, not only the one that
 * opened it. Its content is private. Reusing a scope that is still open leaks the first one: it
 * stays open until the buffer is destroyed.
 */
typedef struct ferry_scope {
    uint64_t opaque;
    uint64_t opaque_rest[3];
} ferry_scope;

FERRY_STATIC_ASSERT(sizeof(ferry_scope) == 32, "a scope has 32 bytes");

/**
 * Closes a scope: its pointer must not be used any more. The close of a write scope makes its bytes
 * the newest of the range.
 *
 * A device scope can be closed as soon as its work is queued. Later users of the range run after
 * the work that the scope's stream holds now. The call does not block, and normally makes no driver
 * call. It makes driver calls on a stream handle that means another stream in each thread, as
 * CUDA's per-thread stream does. It also makes them when it had to wait for an earlier use of this
 * replica.
 *
 * @param scope {0} and a closed scope return FERRY_OK and close nothing. The same holds for a copy
 *         of the struct of a closed scope, while the buffer exists.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_DEVICE or
 *         FERRY_ERROR_DEVICE_LOST when an event could not be recorded. After a device error the
 *         call has waited for the device, and the scope is closed.
 * Threads: any. Only the thread that opened a scope on a per-thread stream closes it cheaply.
 */
FERRY_API ferry_status ferry_scope_close(ferry_scope *scope);

/**
 * Closes a scope whose last use was queued on `last_use`, another stream of the same place. The
 * caller must have ordered `last_use` after the stream on which the scope was opened.
 *
 * When ferry_scope_open_all() merged several scopes, each of them keeps its own last use. Does not
 * block, as ferry_scope_close().
 *
 * @param last_use not NULL
 * @return as ferry_scope_close(). FERRY_ERROR_WRONG_CONTEXT (a stream of another context) and
 *         FERRY_ERROR_INVALID_ARGUMENT (NULL, a stream of another place, or a host scope) leave the
 *         scope open.
 * Threads: any.
 */
FERRY_API ferry_status ferry_scope_close_on(ferry_scope *scope, ferry_stream *last_use);

/**
 * Closes a device scope whose last work may be on streams that Ferry does not know.
 *
 * The next use that conflicts with the scope blocks its calling thread until the whole device is
 * idle. One such wait serves all scopes that were closed this way at the place until then. After a
 * READ scope only later writes wait, and the reuse of the replica's memory; after a write scope
 * later reads wait as well. The call itself does not block, except in a context that has no stream
 * number left: then it waits for the device. A host scope is closed as by ferry_scope_close().
 *
 * @param scope {0} and a closed scope as for ferry_scope_close()
 * @return as ferry_scope_close(). A later use on a stream that is being captured, which would have
 *         to wait, fails with FERRY_ERROR_UNSUPPORTED.
 * Threads: any.
 */
FERRY_API ferry_status ferry_scope_close_unordered(ferry_scope *scope);

/**
 * Blocks until the bytes of an open device scope are in place, for callers that pass its pointer to
 * code without a stream, such as a CUDA-aware MPI.
 *
 * Waits for the transfers and launches that the range needs, not for the scope's stream. When
 * earlier work on the same stream wrote the replica, that includes what the stream was given until
 * now. In a write scope the call also waits for earlier readers of the replica. Work that the
 * caller queued inside the scope is not waited for.
 *
 * @param scope open during the whole call. A host scope and the scope of zero elements, {0}, return
 *         FERRY_OK at once.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_INVALID_STATE (a copy of a
 *         scope that was closed; a watching callback); FERRY_ERROR_UNSUPPORTED (an earlier write is
 *         on a stream that is being captured); FERRY_ERROR_DEVICE or FERRY_ERROR_DEVICE_LOST. The
 *         scope stays open.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_scope_wait(ferry_scope *scope);

/**
 * Closes a write scope without publishing its bytes: other places keep the values that they had.
 *
 * Bytes that no other memory holds are unspecified afterwards. Bytes that were never written still
 * read as zero. A READ scope is closed as by ferry_scope_close().
 *
 * A write cannot be abandoned once a later scope or launch on the same stream relies on it. Other
 * places lost their values when that scope opened or that launch was accepted. A call that fails
 * does not rely on the write. The call blocks while other threads open or launch on top of the
 * write. When ferry_scope_open_all() merged several scopes, the last one that is closed decides.
 *
 * @return as ferry_scope_close(); FERRY_ERROR_INVALID_STATE in a callback of a call that relies on
 *         the write, and then the scope stays open.
 * Threads: any.
 */
FERRY_API ferry_status ferry_scope_abandon(ferry_scope *scope);

/**
 * Closes an array of `count` scopes, each as ferry_scope_close(). NULL is legal when `count` is 0.
 * A failure is logged as an error. Threads: any.
 */
FERRY_API void ferry_scope_close_all(ferry_scope *scopes, size_t count);

FERRY_END_DECLS

#endif
