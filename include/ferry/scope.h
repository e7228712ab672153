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

/** As a count: every element from the offset to the end of the buffer or view. */
#define FERRY_REST SIZE_MAX

/** The place of the host. Places 1 to N are the devices of the context. */
#define FERRY_PLACE_HOST 0

/** How a scope uses its range of bytes. The meaning of a value never changes. */
typedef enum ferry_access {
    FERRY_READ = 1,     /**< the scope only reads. Afterwards the range is current at the scope's
                             place too */
    FERRY_UPDATE = 2,   /**< the scope reads and writes. Afterwards the range is current only at the
                             scope's place */
    FERRY_OVERWRITE = 3 /**< the scope writes every byte and reads none, so nothing is copied to its
                             place. Afterwards the range is current only there */
} ferry_access;

/**
 * An open access to a range of a buffer. The pointer that the opening call returns may be used
 * until the scope is closed.
 *
 * The program declares the struct, usually on its stack, and opening a scope sets it. A program
 * that may close a scope before it was opened, such as on an error path, initializes the struct
 * with {0}. The calls that close a scope do nothing for {0} and for a closed scope, and return
 * FERRY_OK; while the buffer exists, that holds for a copy of a struct whose scope was closed too.
 * A struct must not be opened again while its scope is open: the first scope would stay open until
 * the buffer is destroyed. The members are private.
 */
typedef struct ferry_scope {
    uint64_t opaque;
    uint64_t opaque_rest[3];
} ferry_scope;

FERRY_STATIC_ASSERT(sizeof(ferry_scope) == 32, "a scope has 32 bytes");

/**
 * Closes a scope. If the scope may write, the newest bytes of the range are now at its place. Does
 * not block.
 *
 * A device scope can be closed as soon as its work is queued. Later accesses to the range are
 * ordered after all work that is queued on the scope's stream when the scope is closed.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_DEVICE or
 *         FERRY_ERROR_DEVICE_LOST (an event could not be recorded; the call has then waited for the
 *         device, and the scope is closed).
 * Threads: any.
 */
FERRY_API ferry_status ferry_scope_close(ferry_scope *scope);

/**
 * Closes a device scope whose last work was queued on `last_use`, another stream of the same place.
 * The caller must have made `last_use` wait for the scope's stream before it queued that work. Does
 * not block.
 * @return the same statuses as ferry_scope_close(); FERRY_ERROR_WRONG_CONTEXT (a stream of another
 *         context); FERRY_ERROR_INVALID_ARGUMENT (NULL, a stream of another place, or a host
 *         scope). After these two the scope is still open.
 * Threads: any.
 */
FERRY_API ferry_status ferry_scope_close_on(ferry_scope *scope, ferry_stream *last_use);

/**
 * Closes a device scope whose work was queued on streams that Ferry does not know: the next access
 * that conflicts with it blocks until the whole device is idle. "Device scopes" in docs/concepts.md
 * says which accesses conflict. A host scope is closed as by ferry_scope_close().
 *
 * The call itself does not block, with one exception: it waits for the device if the context has
 * reached its limit of streams.
 * @return the same statuses as ferry_scope_close(). If the next conflicting access is on a stream
 *         that is being captured, it fails with FERRY_ERROR_UNSUPPORTED.
 * Threads: any.
 */
FERRY_API ferry_status ferry_scope_close_unordered(ferry_scope *scope);

/**
 * Blocks until the bytes of an open device scope are in place, for code that does not order its
 * work on a stream, such as a CUDA-aware MPI. The call waits for the transfers and launches that
 * produce the bytes of the range, and for a write scope also for earlier readers of the replica.
 * @param scope must be open during the whole call. For a host scope, and for {0}, which is the
 *         scope of zero elements, the call returns FERRY_OK at once.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_INVALID_STATE (a copy of a
 *         struct whose scope was closed, or a call inside a watching callback);
 *         FERRY_ERROR_UNSUPPORTED (an earlier write is on a stream that is being captured);
 *         FERRY_ERROR_DEVICE or FERRY_ERROR_DEVICE_LOST (waiting failed); the status of a kernel
 *         that failed, and so lost bytes of the range, unless they were lost before an OVERWRITE
 *         scope was opened. The scope stays open in all cases.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_scope_wait(ferry_scope *scope);

/**
 * Closes a write scope and discards what was written in it: places that held the old values still
 * hold them. Bytes that no other place holds are unspecified afterwards; if they were never written
 * before the scope, they read as zero. A READ scope is closed as by ferry_scope_close().
 *
 * Bytes that a later scope or launch on the same stream uses can no longer be discarded, and keep
 * their new values. If another thread is just opening such a scope or launching, the call blocks
 * until that is done.
 * @return the same statuses as ferry_scope_close(); FERRY_ERROR_BUSY (in a callback of such a call
 *         on this scope's bytes; the scope stays open).
 * Threads: any.
 */
FERRY_API ferry_status ferry_scope_abandon(ferry_scope *scope);

/**
 * Closes each of `count` scopes as ferry_scope_close() does, and logs each failure as an error.
 * `scopes` may be NULL when `count` is 0. Threads: any.
 */
FERRY_API void ferry_scope_close_all(ferry_scope *scopes, size_t count);

FERRY_END_DECLS

#endif
