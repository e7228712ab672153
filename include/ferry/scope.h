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

/** Passed as a count, it means every element from the offset to the end of the buffer or view. */
#define FERRY_REST SIZE_MAX

/** The number of the host's place. Places 1 to N are the devices of the context. */
#define FERRY_PLACE_HOST 0

/** How a scope uses its range of bytes. The meaning of a value never changes. */
typedef enum ferry_access {
    FERRY_READ = 1,     /**< the scope only reads. Afterwards the range is current at the scope's
                             place, and stays current at other places */
    FERRY_UPDATE = 2,   /**< the scope reads and writes. Afterwards the range is current only at the
                             scope's place */
    FERRY_OVERWRITE = 3 /**< the scope writes every byte and reads none, so nothing is copied to its
                             place. Afterwards the range is current only at the scope's place */
} ferry_access;

/**
 * An open access to a range of a buffer. The pointer that the opening call returns may be used
 * until ferry_scope_close().
 *
 * The program declares the struct, usually on its stack. Opening a scope allocates no memory for
 * it, and sets the whole struct. A program that may close a scope before it was opened, such as on
 * an error path, initializes the struct with {0}. Closing such a scope has no effect. Any thread
 * may close a scope, not only the thread that opened it. The members are private.
 *
 * A program must not open a struct again while its scope is open: the first scope would then stay
 * open until the buffer is destroyed.
 */
typedef struct ferry_scope {
    uint64_t opaque;
    uint64_t opaque_rest[3];
} ferry_scope;

FERRY_STATIC_ASSERT(sizeof(ferry_scope) == 32, "a scope has 32 bytes");

/**
 * Closes a scope. Its pointer must not be used after the call. If the scope may write, the newest
 * bytes of the range are now at its place.
 *
 * A device scope can be closed as soon as its work is queued. Later accesses to the range are
 * ordered after all work that is queued on the scope's stream when the scope is closed. The call
 * does not block.
 *
 * The call normally makes no driver call, with two exceptions. One is a scope on CUDA's per-thread
 * stream, whose handle means another stream in each thread. The other is a scope whose stream had
 * to wait for an earlier use of the same replica.
 *
 * @param scope for {0} and for a closed scope the call does nothing and returns FERRY_OK. While the
 *         buffer exists, this applies to a copy of the struct too, after the original was closed.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_DEVICE or
 *         FERRY_ERROR_DEVICE_LOST (an event could not be recorded; the call has then waited for the
 *         device, and the scope is closed).
 * Threads: any. A scope on a per-thread stream is closed fastest by the thread that opened it.
 */
FERRY_API ferry_status ferry_scope_close(ferry_scope *scope);

/**
 * Closes a device scope whose last work was queued on the stream `last_use`. That is a stream of
 * the same place, but not the stream of the scope. The caller must have made `last_use` wait for
 * the scope's stream before it queued that work. Does not block.
 *
 * If ferry_scope_open_all() merged several scopes, each of them may be closed on a different
 * stream.
 *
 * @param last_use not NULL
 * @return the same statuses as ferry_scope_close(); FERRY_ERROR_WRONG_CONTEXT (a stream of another
 *         context) and FERRY_ERROR_INVALID_ARGUMENT (NULL, a stream of another place, or a host
 *         scope). After these two the scope is still open.
 * Threads: any.
 */
FERRY_API ferry_status ferry_scope_close_on(ferry_scope *scope, ferry_stream *last_use);

/**
 * Closes a device scope whose work was queued on streams that Ferry does not know.
 *
 * The next access that conflicts with the scope blocks until the whole device is idle. One such
 * wait also covers all scopes that were closed in this way before it. After a READ scope, later
 * writes conflict, and so does reusing the replica's memory. After a write scope, later reads
 * conflict as well.
 *
 * The call itself does not block, with one exception: it waits for the device if the context has
 * reached its limit of streams. A host scope is closed as by ferry_scope_close().
 *
 * @param scope for {0} and for a closed scope the call does nothing and returns FERRY_OK
 * @return the same statuses as ferry_scope_close(). If the next conflicting access is on a stream
 *         that is being captured, that access cannot wait, and fails with FERRY_ERROR_UNSUPPORTED.
 * Threads: any.
 */
FERRY_API ferry_status ferry_scope_close_unordered(ferry_scope *scope);

/**
 * Blocks until the bytes of an open device scope are in place. A program calls it before it passes
 * the pointer to code that does not order its work on a stream, such as a CUDA-aware MPI.
 *
 * The call waits for the transfers and launches that produce the bytes of the range. For a write
 * scope it also waits for earlier readers of the replica. It does not wait for other work on the
 * scope's stream, with one exception: if earlier work on that stream wrote the replica, the call
 * waits for everything that is now queued on the stream.
 *
 * @param scope must be open during the whole call. For a host scope, and for {0}, which is the
 *         scope of zero elements, the call returns FERRY_OK at once.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_INVALID_STATE (a copy of a
 *         struct whose scope was closed, or a call inside a watching callback);
 *         FERRY_ERROR_UNSUPPORTED (an earlier write is on a stream that is being captured);
 *         FERRY_ERROR_DEVICE or FERRY_ERROR_DEVICE_LOST (waiting failed); the status of a kernel
 *         that failed, and so lost bytes of the range. Bytes that were lost before an OVERWRITE
 *         scope was opened do not count. The scope stays open in all cases.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_scope_wait(ferry_scope *scope);

/**
 * Closes a write scope and discards what was written in it. Places that held the old values before
 * the scope still hold them.
 *
 * Bytes of the range that no other place holds are unspecified afterwards. Bytes that were never
 * written before the scope still read as zero. A READ scope is closed as by ferry_scope_close().
 *
 * While the scope is open, Ferry lets later scopes and launches on the same stream use the bytes
 * that it writes. Once such a scope is open, or such a launch was accepted, the bytes that it uses
 * can no longer be discarded, and keep their new values. A scope or launch that failed does not
 * count. If another thread is just opening such a scope or launching, this call blocks until that
 * other call has returned.
 *
 * If ferry_scope_open_all() merged several scopes, the one that is closed last decides whether the
 * bytes are kept or discarded.
 *
 * @return the same statuses as ferry_scope_close(); FERRY_ERROR_BUSY (in a callback of
 *         such a call on this scope's bytes; the scope then stays open).
 * Threads: any.
 */
FERRY_API ferry_status ferry_scope_abandon(ferry_scope *scope);

/**
 * Closes each scope of an array of `count` scopes, as ferry_scope_close() does, and logs each
 * failure as an error. `scopes` may be NULL when `count` is 0. Threads: any.
 */
FERRY_API void ferry_scope_close_all(ferry_scope *scopes, size_t count);

FERRY_END_DECLS

#endif
