/* SPDX-License-Identifier: MIT */
#ifndef FERRY_SCOPE_H
#define FERRY_SCOPE_H

#include <stddef.h>
#include <stdint.h>

#include <ferry/status.h>

FERRY_BEGIN_DECLS

/** Elements of one type that live on the host and on devices, see <ferry/buffer.h>. */
typedef struct ferry_buffer ferry_buffer;
/** An ordered queue of device work, see <ferry/stream.h>. */
typedef struct ferry_stream ferry_stream;
/** The devices of a program with their pools and buffers, see <ferry/context.h>. */
typedef struct ferry_context ferry_context;

/** A count that means every element up to the end of the buffer or view. */
#define FERRY_REST SIZE_MAX

/** The place of host memory. Places 1..N are the devices of the context. */
#define FERRY_PLACE_HOST 0

/** How a scope uses its range of bytes. The meaning of a value never changes. */
typedef enum ferry_access {
    FERRY_READ = 1,     /**< only reads; afterwards this place is current, and places that were
                             current before stay current */
    FERRY_UPDATE = 2,   /**< reads and writes; afterwards only this place is current */
    FERRY_OVERWRITE = 3 /**< writes every byte and reads none, so nothing is copied to the place;
                             afterwards only this place is current */
} ferry_access;

/**
 * The right to use a raw pointer into a buffer, from the call that opens the scope to
 * ferry_scope_close().
 *
 * The program declares the struct, usually on its stack; opening it allocates no memory. The call
 * that opens a scope sets the whole struct. Where a program may close a scope that was never
 * opened, as on an error path, it initializes the struct with {0}; closing such a scope has no
 * effect. Any thread may close a scope, not only the one that opened it. The members are private.
 * Reusing a scope that is still open leaks the first one: it stays open until the buffer is
 * destroyed.
 */
typedef struct ferry_scope {
    uint64_t opaque;
    uint64_t opaque_rest[3];
} ferry_scope;

FERRY_STATIC_ASSERT(sizeof(ferry_scope) == 32, "a scope has 32 bytes");

/**
 * Closes a scope, after which its pointer must not be used. If the scope may write, its place then
 * holds the newest bytes of the range.
 *
 * A device scope can be closed as soon as its work is queued. Later accesses to the range are
 * ordered after all work that is queued on the scope's stream at the time of the close. The call
 * does not block, and normally makes no driver call. It makes driver calls for a scope on CUDA's
 * per-thread stream, whose handle means another stream in each thread. It also makes them when the
 * scope's stream had to wait for an earlier use of this replica.
 *
 * @param scope for {0} and for a closed scope the call does nothing and returns FERRY_OK. While the
 *         buffer exists, that is also safe for a copy of the struct whose original was closed.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_DEVICE or
 *         FERRY_ERROR_DEVICE_LOST when an event could not be recorded. After a device error the
 *         call has waited for the device, and the scope is closed.
 * Threads: any. A scope on a per-thread stream is closed fastest by the thread that opened it.
 */
FERRY_API ferry_status ferry_scope_close(ferry_scope *scope);

/**
 * Closes a device scope whose last work was queued on `last_use`, a stream of the same place other
 * than the stream of the scope. The caller must have made `last_use` wait for the stream of the
 * scope.
 *
 * Scopes that ferry_scope_open_all() merged may each be closed on a different stream. Does not
 * block.
 *
 * @param last_use not NULL
 * @return as ferry_scope_close(). FERRY_ERROR_WRONG_CONTEXT (a stream of another context) and
 *         FERRY_ERROR_INVALID_ARGUMENT (NULL, a stream of another place, or a host scope) leave the
 *         scope open.
 * Threads: any.
 */
FERRY_API ferry_status ferry_scope_close_on(ferry_scope *scope, ferry_stream *last_use);

/**
 * Closes a device scope when Ferry cannot know on which streams its work was queued.
 *
 * The next access that conflicts with the scope blocks until the whole device is idle. One such
 * wait is enough for all scopes that were closed this way before it. After a READ scope, only later
 * writes and the reuse of the replica's memory conflict; after a write scope, later reads conflict
 * as well. The call itself does not block, except when the context has reached its limit of
 * streams: then it waits for the device. A host scope is closed as by ferry_scope_close().
 *
 * @param scope {0} and a closed scope as for ferry_scope_close()
 * @return as ferry_scope_close(). If the later access is on a stream that is being captured, it
 *         cannot wait, and fails with FERRY_ERROR_UNSUPPORTED.
 * Threads: any.
 */
FERRY_API ferry_status ferry_scope_close_unordered(ferry_scope *scope);

/**
 * Blocks until the bytes of an open device scope are in place. Use it before you pass the pointer
 * to code that does not order its work on a stream, such as a CUDA-aware MPI.
 *
 * The call waits for the transfers and launches that produce the bytes of the range. In a write
 * scope it also waits for earlier readers of the replica. It does not wait for other work on the
 * scope's stream, with one exception: when earlier work on that stream wrote the replica, it waits
 * for everything that is queued on the stream now.
 *
 * @param scope open during the whole call. A host scope and the scope of zero elements, {0}, return
 *         FERRY_OK at once.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_INVALID_STATE (a copy of the
 *         struct of a scope that was closed; a watching callback); FERRY_ERROR_UNSUPPORTED (an
 *         earlier write is on a stream that is being captured); FERRY_ERROR_DEVICE or
 *         FERRY_ERROR_DEVICE_LOST. The scope stays open.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_scope_wait(ferry_scope *scope);

/**
 * Closes a write scope and gives up what was written in it: places that held the values from before
 * the scope still hold them.
 *
 * Bytes of the range that no other place holds are unspecified afterwards. Bytes that were never
 * written before the scope still read as zero. A READ scope is closed as by ferry_scope_close().
 *
 * Ferry lets later scopes and launches on the same stream use the written bytes while the scope is
 * still open. After such a scope was opened, or such a launch was accepted, abandoning has no
 * effect on the bytes that it uses: what was written stays the newest value. A scope or launch that
 * failed does not count. While another thread is inside such a call, abandoning blocks until that
 * call has returned. When ferry_scope_open_all() merged several scopes, the way in which the last
 * of them is closed decides.
 *
 * @return as ferry_scope_close(); FERRY_ERROR_INVALID_STATE inside a callback of such a call, and
 *         then the scope stays open.
 * Threads: any.
 */
FERRY_API ferry_status ferry_scope_abandon(ferry_scope *scope);

/**
 * Closes each scope of an array of `count` scopes with ferry_scope_close(). A failure is logged as
 * an error. `scopes` may be NULL when `count` is 0. Threads: any.
 */
FERRY_API void ferry_scope_close_all(ferry_scope *scopes, size_t count);

FERRY_END_DECLS

#endif
