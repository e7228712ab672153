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

/** Counts up to the end of the buffer or view. */
#define FERRY_REST SIZE_MAX

/** The place of host memory. Places 1..N are the context's devices. */
#define FERRY_PLACE_HOST 0

/** What the holder of a scope is going to do with its range. Values are final. */
typedef enum ferry_access {
    FERRY_READ = 1,     /**< read only; the place joins those that hold the current bytes */
    FERRY_UPDATE = 2,   /**< read and write; afterwards only this place is current */
    FERRY_OVERWRITE = 3 /**< write every byte and read none; nothing is fetched */
} ferry_access;

/**
 * The proof that a raw pointer may be used, from the call that opened it to ferry_scope_close().
 *
 * It lives on the caller's stack, needs no initialisation before opening, and holds no memory. {0} is a
 * valid closed scope. A scope belongs to nobody's thread: any thread may close it. Its members are private. To open one that is
 * still open forgets the earlier opening, which then stays open as long as the buffer.
 */
typedef struct ferry_scope {
    void *store;
    uint64_t id;
    uint32_t slot;
    uint32_t flags;
} ferry_scope;

/**
 * End the use of the pointer. A write becomes the newest value of its range at this moment.
 *
 * A device scope is closed as soon as its work is queued: later users are ordered after what the scope's
 * stream holds now. Does not wait. Makes no driver call, except on a stream handle that means another stream
 * in each thread (CUDA's per-thread stream) and where an earlier use of this copy had to be waited for.
 *
 * @param scope  {0} and a scope already closed are FERRY_OK and touch nobody else's scope; so is a copy of a scope that was closed, as
 *               long as the buffer exists
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_DEVICE or FERRY_ERROR_DEVICE_LOST when an
 *         event could not be recorded (the scope is closed all the same, after waiting for the device).
 * Threads: any; a scope on a per-thread stream is closed cheaply only by the thread that opened it.
 */
FERRY_API ferry_status ferry_scope_close(ferry_scope *scope);

/**
 * As ferry_scope_close(), for a range whose last use was queued on `last_use`, another stream of the same
 * place than the one the scope was opened on. The caller has ordered the two streams. Of several scopes that
 * ferry_scope_open_all() merged, each keeps its own last use.
 *
 * @return as ferry_scope_close(); FERRY_ERROR_WRONG_CONTEXT or FERRY_ERROR_INVALID_ARGUMENT (another place, a
 *         host scope), and then the scope stays open. Threads: any.
 */
FERRY_API ferry_status ferry_scope_close_on(ferry_scope *scope, ferry_stream *last_use);

/**
 * Close a write without claiming it: other places keep the value they had. Where no other memory has a value,
 * the bytes are now unspecified; bytes that were never written still read as zero.
 * A write that a later scope or launch on the same stream relied on cannot be taken back: other places lost their value when that
 * scope opened, or the launch was accepted. A call that fails relies on nothing. An abandon waits for calls of other threads that are
 * opening or launching on top of the write.
 * Of several scopes that ferry_scope_open_all() merged, the last to be closed decides. A READ scope is closed.
 * @return as ferry_scope_close(); FERRY_ERROR_INVALID_STATE in a callback of a call that relies on the write (the scope stays open).
 * Threads: any.
 */
FERRY_API ferry_status ferry_scope_abandon(ferry_scope *scope);

/** Close `count` scopes, as ferry_scope_close() each; NULL with count 0 is legal. Threads: any. */
FERRY_API void ferry_scope_close_all(ferry_scope *scopes, size_t count);

FERRY_END_DECLS

#endif
