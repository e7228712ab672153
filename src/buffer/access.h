/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ACCESS_H
#define FERRYI_ACCESS_H

/*
 * One access: a range of a store, at a place, for work on a timeline. All code that uses a buffer's
 * bytes goes through these steps:
 *
 *   claim     claims the range; fails with BUSY on a conflict with a user's scope, and waits for
 *             conflicting calls
 *   prepare   allocates memory, copies stale bytes, orders the timeline after earlier uses
 *   close     commits a write to the map, records the use, removes the claim
 *
 * ferryi_access_open() claims and prepares several accesses: all or none. If two ranges of one
 * store overlap and one of them writes, they must be merged before the call.
 *
 * An access may overlap an open write of the same stream. It then relies on that write, and commits
 * the write as soon as the access can no longer fail. For the user's scopes this is when the whole
 * list is prepared; for a launch, when it is closed with FERRYI_CLOSE_COMMIT. Until then the map
 * does not contain the write, the bytes of the write are not copied, and a call that abandons the
 * write waits.
 *
 * A launch works as follows. Fill one ferryi_access per merged range with access, place, the
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
    uint8_t place; /* the place; if FERRYI_PLACE_NONE, the range is only claimed, and no memory is
                      prepared */
    bool user; /* whether a user's scope makes the access, so that conflicting calls fail with BUSY;
                  if false, a call of the library makes it, and conflicting calls wait */
    bool to_end;     /* whether the access fails with OUT_OF_RANGE unless the store ends at `end` */
    bool whole;      /* whether the claim covers the whole store: claiming sets begin and end to all
                        bytes, or to one byte if the store is empty */
    bool is_launch;  /* whether this is a kernel launch; pending_calls.h tracks the bytes that the
                        kernel reads and writes */
    bool derives;    /* whether the call copies or converts what it reads */
    bool writes_all; /* whether the call itself writes every byte that it commits, so that the range
                        is not zeroed first */
    ferryi_site site;          /* call site of a user's scope; set only in a checked run */
    ferryi_timeline *timeline; /* timeline of the work; NULL for work of the host */
    const char *reason; /* name of the operation for traces and messages, such as "read_device" */
    const ferry_copy_options *options; /* options for the transfers that the access needs, or NULL.
                                          Progress is reported in bytes of the range */
    uint64_t under; /* if this access is one step of a longer call: id of the claim that the longer
                       call has on this store; otherwise 0 */
    /* the pieces of [begin, end) that are claimed, or NULL to claim all of it; allowed only with
     * FERRYI_PLACE_NONE */
    const struct ferryi_interval_set *pieces;
    /* filled in by the library */
    void *pointer; /* address of byte `begin` in the replica */
    uint64_t id;
    uint32_t slot;
    uint32_t relied; /* number of open writes of the same stream that this access will commit; the
                        access owns one promise of the map for each */
};

/*
 * Merges overlapping ranges of one store, and sorts the results into the order in which they are
 * claimed. `merged` has room for `count` entries. `group[i]` is the index in `merged` of the range
 * that contains wanted[i]. READ merged with a write becomes UPDATE, and so does OVERWRITE merged
 * with UPDATE.
 * @return the number of merged ranges
 */
size_t ferryi_access_merge(const struct ferryi_access *wanted, size_t count,
                           struct ferryi_access *merged, size_t *group);

/* Returns the name of the public function that opens a scope with this access at this place, such
 * as "read_host". */
const char *ferryi_scope_call(int access, int place);

enum ferryi_close {
    FERRYI_CLOSE_COMMIT,  /* commits a write, or records a read */
    FERRYI_CLOSE_ABANDON, /* a write may have changed bytes: the place becomes stale if other places
                             hold the value; the use is recorded */
    FERRYI_CLOSE_CANCEL   /* no work was queued: the map and the sync points stay unchanged, unless
                             the range was zeroed when the access was opened */
};

/* Claims and prepares all accesses, or none. Sorts `list` by store and range. */
ferry_status ferryi_access_open(struct ferryi_access *list, size_t count);

/* The two halves of ferryi_access_open(), for calls that continue in a different thread. If the
 * prepare fails, it removes the claims. */
ferry_status ferryi_access_claim(struct ferryi_access *list, size_t count);
ferry_status ferryi_access_prepare(struct ferryi_access *list, size_t count);
/* ferryi_access_queue() is called when the call is queued for a different thread, and
 * ferryi_access_take_over() when that thread starts the call. Both store in the claim which thread
 * runs the call, so that an eviction can tell its own thread's claims from those of other threads.
 */
void ferryi_access_queue(const struct ferryi_access *access);
void ferryi_access_take_over(const struct ferryi_access *access);

/* Records that work on `timeline` uses the claim's replica. The claim is open, and the caller owns
 * it. Calls the driver if the timeline has no number. */
ferry_status ferryi_access_note_use(ferryi_store *store, const struct ferryi_claim *claim,
                                    ferryi_timeline *timeline);

/* Closes one access. `timeline` is the timeline on which the last use was queued, usually the
 * access's own timeline. NULL means that the host made the last use. */
ferry_status ferryi_access_close(struct ferryi_access *access, enum ferryi_close how,
                                 ferryi_timeline *timeline);
/* Closes a write of which only the bytes from its begin to `done_end` were written, and commits
 * these bytes. */
ferry_status ferryi_access_close_part(struct ferryi_access *access, size_t done_end,
                                      ferryi_timeline *timeline);

/* Returns the address of byte `begin` of the replica at `place`, as the transfer engine expects it.
 */
FERRYI_REQUIRES(ferryi_claim_lock)
struct ferryi_memory ferryi_access_memory(ferryi_store *store, int place, size_t begin);
/* Records in both replicas a transfer that the engine has already queued on `timeline`. `target`
 * and `source` may be the same store. */
FERRYI_REQUIRES(ferryi_claim_lock)
void ferryi_access_note_transfer(ferryi_store *target, int target_place, ferryi_store *source,
                                 int source_place, ferryi_timeline *timeline);
/* If `status` is DEVICE_LOST and `place` is a device, marks all bytes of the store as lost at
 * `place`. Returns `status`. */
FERRYI_REQUIRES(ferryi_claim_lock)
ferry_status ferryi_access_note_loss(ferryi_store *store, int place, ferry_status status);
/* Returns which devices are lost after a transfer between two places failed with DEVICE_LOST: each
 * device that reports the loss when it is queried. If none reports it, returns the first of the two
 * places that is a device. Keeps the last error message. */
ferryi_places ferryi_access_lost_places(ferry_context *context, int first, int second);

/* Waits until all calls that use the store at the time of this call have ended, including
 * asynchronous calls. Does not wait for scopes. Fails within a callback that must not wait. */
ferry_status ferryi_access_wait_calls(ferryi_store *store, const char *what);
/* Waits until no call uses the store, including calls that begin during the wait, such as
 * evictions. Called under the lock, which is released while the thread waits. Within a callback
 * that must not wait, returns at once. */
FERRYI_REQUIRES(ferryi_store_spin) void ferryi_access_outlast_calls(ferryi_store *store);
/* Returns whether a call in the given thread uses ranges of the store. `thread` 0 means any thread.
 */
bool ferryi_access_has_call(ferryi_store *store, uint64_t thread);
/* Fails because the access needs bytes whose value was lost. The status and the message give the
 * reason of the loss. */
ferry_status ferryi_access_fail_lost(const struct ferryi_access *access);

#endif
