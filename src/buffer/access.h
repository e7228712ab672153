/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ACCESS_H
#define FERRYI_ACCESS_H

/*
 * An access is one use of a byte range of a store, which is the storage of a buffer (store.h). The
 * bytes are used at one place, by work on one timeline. All code that uses a buffer's bytes goes
 * through three steps:
 *
 * - "Claim" locks the range. It fails with BUSY if the range conflicts with a user's scope, and
 *   waits for conflicting calls.
 * - "Prepare" allocates memory, copies stale bytes, and orders the timeline after previous uses.
 * - "Close" commits a write to the valid map, records the use, and removes the claim.
 *
 * The function ferryi_access_open() claims and prepares several accesses: all or none. If two
 * ranges of one store overlap and one of them is written, the caller must merge them before the
 * call.
 *
 * An access may overlap an open write of the same stream. The access then relies on that write, and
 * commits the write as soon as the access itself can no longer fail. An access of a user's scope
 * can no longer fail when all accesses that are opened together are prepared. An access of a kernel
 * launch can no longer fail when the launch is closed with FERRYI_CLOSE_COMMIT. Before the commit,
 * the valid map does not contain the write, and the written bytes are not copied. A call that
 * abandons the write waits for the commit.
 *
 * A kernel launch works as follows. Fill one ferryi_access per merged range with access, place, the
 * stream's timeline, and `user` false. Open the accesses, use `pointer`, and queue the work on the
 * timeline. Close each access with FERRYI_CLOSE_COMMIT, or with FERRYI_CLOSE_CANCEL if the launch
 * was refused.
 */

#include "src/buffer/store.h"

struct ferryi_access {
    /* filled in by the caller */
    ferryi_store *store;
    size_t begin, end; /* range in bytes, begin < end */
    uint8_t access;    /* ferry_access, or FERRYI_ACCESS_DROP */
    uint8_t place; /* place of the access. FERRYI_PLACE_NONE means that the range is only locked,
                      and that no memory is prepared */
    bool user;   /* true if a user's scope makes the access; conflicting calls fail with BUSY. false
                    if a call of the library makes the access; conflicting calls wait */
    bool to_end; /* whether the range must end at the end of the buffer; if it does not, the access
                    fails with OUT_OF_RANGE */
    bool whole; /* whether the access locks the whole buffer. Locking then sets `begin` and `end` to
                   the range of all bytes, or of one byte if the buffer is empty */
    bool is_launch;   /* whether the access belongs to a kernel launch, whose reads and writes are
                         tracked in pending_calls.h */
    bool derives;     /* whether the call copies or converts the bytes that it reads */
    ferryi_site site; /* call site in the program that opened the scope; set only in a checked run
                         (FERRY_DEBUG) */
    /* timeline on which the work is queued; NULL if the host does the work */
    ferryi_timeline *timeline;
    const char *reason; /* name of the operation that needs the bytes, such as "read_device"; used
                           in traces and messages */
    /* options, cancel flag and progress of the transfers that the access needs, or NULL. The
     * progress counts bytes of the range */
    const struct ferryi_transfer_job *job;
    uint64_t under; /* 0, or the id of a claim (range lock) on the same buffer. If this access is
                       one step of a longer call, the id is that of the longer call's claim */
    /* list of the parts of [begin, end) that are locked; NULL if the whole range is locked. If the
     * list is not NULL, `place` must be FERRYI_PLACE_NONE */
    const struct ferryi_interval_set *pieces;
    /* filled in by the library */
    void *pointer; /* address of byte `begin` of the replica */
    uint64_t id;
    uint32_t slot;
    bool lacks_memory; /* whether the replica had no memory when the range was locked */
    bool meets_own;    /* whether the range overlapped open writes of the same stream when it was
                          locked. No such write can be added while the range is locked */
    uint32_t relied;   /* number of open writes of the same stream that this access will commit. For
                          each of them, the access owns one reservation in the valid map */
};

/* Initializes an access that a call of the library makes to a range. The access has no timeline, so
 * the host does the work. */
static inline struct ferryi_access
ferryi_access_of(ferryi_store *store, struct ferryi_range range, uint8_t access, int place,
                 const char *reason)
{
    return (struct ferryi_access){.store = store,
                                  .begin = range.begin,
                                  .end = range.end,
                                  .access = access,
                                  .place = (uint8_t)place,
                                  .reason = reason};
}

/*
 * Merges overlapping ranges of one buffer, and sorts the merged ranges into the order in which they
 * will be locked. `merged` has room for `count` entries. `group[i]` is the index in `merged` of the
 * range that contains wanted[i]. READ merged with a write becomes UPDATE. OVERWRITE merged with
 * UPDATE becomes UPDATE, too.
 * @return the number of merged ranges
 */
size_t ferryi_access_merge(const struct ferryi_access *wanted, size_t count,
                           struct ferryi_access *merged, size_t *group);

/* Compares two accesses by store and range, for qsort(). */
int ferryi_access_compare(const void *a, const void *b);

/* Returns the name of the public function that opens a scope with access `access` at place `place`,
 * such as "read_host". */
const char *ferryi_scope_call(int access, int place);

enum ferryi_close {
    FERRYI_CLOSE_COMMIT,  /* commits a write, or records a read */
    FERRYI_CLOSE_ABANDON, /* closes a write that may have changed bytes, and records the use. The
                             written place becomes stale if other places have the old value */
    FERRYI_CLOSE_CANCEL   /* closes an access for which no work was queued. The valid map and the
                             recorded uses stay unchanged, unless the opening zeroed the range */
};

/* Locks the ranges of all accesses of the list and prepares the accesses. If one access fails, none
 * stays open. Sorts `list` by store (storage of a buffer) and range. */
ferry_status ferryi_access_open(struct ferryi_access *list, size_t count);

/* The two halves of ferryi_access_open(), for calls that continue in a different thread.
 * ferryi_access_claim() claims the ranges, and ferryi_access_prepare() prepares the accesses. If
 * ferryi_access_prepare() fails, it removes the claims. */
ferry_status ferryi_access_claim(struct ferryi_access *list, size_t count);
ferry_status ferryi_access_prepare(struct ferryi_access *list, size_t count);
/* Waits until it is known whether the queued kernels fail whose output the claimed accesses read.
 * Does not wait for an access that is merely queued behind these kernels.
 * ferryi_access_prepare() calls it. A call whose claims are never prepared calls it itself, before
 * it reads the valid map. */
void ferryi_access_await_kernels(const struct ferryi_access *list, size_t count);
/* Does the same for one access whose claim is open, and then fails if bytes of its range are lost.
 */
ferry_status ferryi_access_check_kernels(const struct ferryi_access *access);
/* Stores in the access's claim (range lock) the id of the thread that runs the call. `thread` is
 * FERRYI_THREAD_QUEUED while the call is queued for a different thread. A thread that evicts can
 * then distinguish its own claims from those of other threads. */
void ferryi_access_set_thread(const struct ferryi_access *access, uint64_t thread);

/* Records that work on `timeline` uses the replica at the place of the claim (range lock). The
 * claim must be open, and the caller must own it. If `timeline` has no number in the context's
 * table of timelines, the use is recorded on a different timeline. That timeline must then wait for
 * the use, which takes a driver call. */
ferry_status ferryi_access_note_use(ferryi_store *store, const struct ferryi_claim *claim,
                                    ferryi_timeline *timeline);

/* Closes one access. `timeline` is the timeline on which the last use was queued, usually the
 * access's own timeline. If the host made the last use, `timeline` is NULL. */
ferry_status ferryi_access_close(struct ferryi_access *access, enum ferryi_close how,
                                 ferryi_timeline *timeline);

/* Returns the job (options, cancel flag and progress) of the transfers that the access needs. */
struct ferryi_transfer_job ferryi_access_job(const struct ferryi_access *access);
/* Describes the replica at `place`, from byte `begin` on, as memory for the transfer engine. */
FERRYI_REQUIRES(ferryi_claim_lock)
struct ferryi_memory ferryi_access_memory(ferryi_store *store, int place, size_t begin);
/* Marks all bytes of the buffer as lost at `place`, if `status` is DEVICE_LOST and `place` is a
 * device, unless a callback of the program returned this status. If not, changes nothing. Returns
 * `status`. */
FERRYI_REQUIRES(ferryi_claim_lock)
ferry_status ferryi_access_note_loss(ferryi_store *store, int place, ferry_status status);
/* Marks the whole host replica as lost. Called before the host overwrites a range, if a device was
 * lost while its work on the host replica was still queued. It is unknown how much of that work was
 * done. Bytes become valid again when they are overwritten. */
FERRYI_REQUIRES(ferryi_claim_lock)
ferry_status ferryi_access_give_host_copy_up(ferryi_store *store);
/* Returns which devices are lost, after a transfer between two places failed with DEVICE_LOST.
 * Queries the devices at both places, and returns each one that reports the loss. If no device
 * reports it, returns the first of the two places that is a device. Preserves the last error
 * message. */
ferryi_places ferryi_access_lost_places(ferry_context *context, int first, int second);

/* Waits until all calls that now use the buffer have ended, including asynchronous calls. Does not
 * wait for open scopes. Fails with BUSY within a callback that must not wait for one of them. */
ferry_status ferryi_access_wait_calls(ferryi_store *store, const char *what);
/* Waits until no call uses the buffer. Includes calls that begin during the wait, such as
 * evictions. Called with the buffer locked; the lock is released while the thread waits. Inside a
 * callback that must not wait for one of them, the function returns at once. */
FERRYI_REQUIRES(ferryi_store_spin) void ferryi_access_outlast_calls(ferryi_store *store);
/* Returns whether a call that runs in the thread `thread` uses ranges of the buffer. If `thread` is
 * 0, checks the calls of all threads. */
bool ferryi_access_has_call(ferryi_store *store, uint64_t thread);
/* Returns whether bytes of the range are lost. The range may end after the end of the buffer. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_store_has_lost(const ferryi_store *store, struct ferryi_range range);
/* Fails because the access needs bytes whose value was lost. The returned status and the message
 * were stored in the buffer when the bytes were lost. */
ferry_status ferryi_access_fail_lost(const struct ferryi_access *access);

#endif
