/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ACCESS_H
#define FERRYI_ACCESS_H

/*
 * One access: a range of a store, at a place, for work on a timeline. All code that uses a buffer's
 * bytes goes through these steps:
 *
 *   claim     takes the range; conflicts with user scopes fail with BUSY, others are waited for
 *   prepare   allocates memory, copies stale bytes, orders the timeline after earlier uses
 *   close     commits a write to the map, notes the use, drops the claim
 *
 * ferryi_access_open() does the first two for several accesses: all or none. Ranges of one store in
 * one list must not overlap if one of them writes: merge them first.
 *
 * An access may overlap an open write of the same stream. It then relies on that write, and commits
 * it as soon as the access can no longer fail: for scopes of the user when the whole list is
 * prepared, for a launch when it is closed with FERRYI_CLOSE_COMMIT. Until then the map does not
 * contain the write, its bytes are not copied, and an abandon of the write waits.
 *
 * A launch works as follows. Fill one ferryi_access per merged range with access, place and
 * timeline of the stream, and `user` false. Open them, use `pointer`, and queue the work on the
 * timeline. Close each with FERRYI_CLOSE_COMMIT, or with FERRYI_CLOSE_CANCEL if the launch was
 * refused.
 */

#include "src/buffer/store.h"

struct ferryi_access {
    /* filled in by the caller */
    ferryi_store *store;
    size_t begin, end; /* bytes, begin < end */
    uint8_t access;    /* ferry_access, or FERRYI_ACCESS_DROP */
    uint8_t place; /* the place, or FERRYI_PLACE_NONE: the range is only claimed, and no memory is
                      prepared */
    bool user;   /* true: a scope of the user, so conflicting calls fail with BUSY; false: a call of
                    the library, so conflicting calls wait */
    bool to_end; /* whether the access fails with OUT_OF_RANGE unless the store ends at `end` */
    bool whole;  /* whether the claim sets begin and end: to all bytes of the store, or to one byte
                    when the store is empty */
    bool is_launch; /* whether this is a kernel launch; pending_calls.h tracks what the kernel reads
                       and writes */
    bool derives;   /* the call copies or converts what it reads */
    bool writes_all;  /* whether the call itself writes every byte that it commits, so that nothing
                         is zeroed before */
    ferryi_site site; /* call site of a user's scope; only in a checked run */
    ferryi_timeline *timeline; /* NULL: work of the host */
    const char *reason; /* name of the operation for traces and messages, such as "read_device" */
    const ferry_copy_options *options; /* options for the transfers that the access needs; or NULL.
                                          Progress is counted over the range */
    uint64_t under; /* id of the claim that the whole call holds on this store, if this access is
                       one step of the call; otherwise 0 */
    const struct ferryi_interval_set
        *pieces; /* the pieces of [begin, end) that are claimed, or NULL; used
             only with FERRYI_PLACE_NONE, and never prepared */
    /* filled in by the library */
    void *pointer; /* address of byte `begin` in the replica */
    uint64_t id;
    uint32_t slot;
    uint32_t relied; /* number of open writes on the same stream that this access commits; the
                        access owns a promise of the map for each */
};

/*
 * Merges overlapping ranges of one store, and sorts the results in the order of claims. `merged`
 * has room for `count` entries. `group[i]` is the index in `merged` of wanted[i]. READ merged with
 * a write becomes UPDATE, and so does OVERWRITE merged with UPDATE. @return the number of merged
 * ranges
 */
size_t ferryi_access_merge(const struct ferryi_access *wanted, size_t count,
                           struct ferryi_access *merged, size_t *group);

/* Returns the name of the public function that opens such a scope, such as "read_host". */
const char *ferryi_scope_call(int access, int place);

enum ferryi_close {
    FERRYI_CLOSE_COMMIT,  /* commits a write, or notes a read */
    FERRYI_CLOSE_ABANDON, /* a write may have changed bytes: the place becomes stale if other places
                             hold the value; the use is noted */
    FERRYI_CLOSE_CANCEL   /* no work was queued: the map and the sync points stay unchanged */
};

/* Claims and prepares all accesses, or none. Sorts `list` by store and range. */
ferry_status ferryi_access_open(struct ferryi_access *list, size_t count);

/* The two halves of ferryi_access_open(), for calls that continue in another thread. A prepare that
 * fails releases the claims. */
ferry_status ferryi_access_claim(struct ferryi_access *list, size_t count);
ferry_status ferryi_access_prepare(struct ferryi_access *list, size_t count);
/* The first is called when the call is queued for another thread, and the second when that thread
 * starts it. They store the thread in the claim, so that an eviction can tell the claims of this
 * thread from those of other threads. */
void ferryi_access_queue(const struct ferryi_access *access);
void ferryi_access_take_over(const struct ferryi_access *access);

/* Notes a use on `timeline`, under an open claim of the caller. Calls the driver if the timeline
 * has no number. */
ferry_status ferryi_access_note_use(ferryi_store *store, const struct ferryi_claim *claim,
                                    ferryi_timeline *timeline);

/* Closes one access. `timeline` is the timeline on which the last use was queued, usually that of
 * the access; NULL: the host. */
ferry_status ferryi_access_close(struct ferryi_access *access, enum ferryi_close how,
                                 ferryi_timeline *timeline);
/* Closes a write of which only [begin, done_end) was written, and commits that part. */
ferry_status ferryi_access_close_part(struct ferryi_access *access, size_t done_end,
                                      ferryi_timeline *timeline);

/* Describes the replica at `place` from byte `begin` on, for the transfer engine. */
FERRYI_REQUIRES(ferryi_claim_lock)
struct ferryi_memory ferryi_access_memory(ferryi_store *store, int place, size_t begin);
/* Notes a transfer of the engine between replicas of two stores, or of one store. The transfer is
 * already queued on `timeline`. */
FERRYI_REQUIRES(ferryi_claim_lock)
void ferryi_access_note_transfer(ferryi_store *target, int target_place, ferryi_store *source,
                                 int source_place, ferryi_timeline *timeline);
/* Marks bytes as lost when a transfer that involves `place` failed with DEVICE_LOST. Returns
 * `status`. */
FERRYI_REQUIRES(ferryi_claim_lock)
ferry_status ferryi_access_note_loss(ferryi_store *store, int place, ferry_status status);
/* Returns which devices are lost after a transfer between two places failed with DEVICE_LOST: those
 * that report the loss when they are queried. If neither does, returns the first device. Keeps the
 * last error message. */
ferryi_places ferryi_access_lost_places(ferry_context *context, int first, int second);

/* Waits until all calls that run on the store now have ended, including asynchronous calls. Does
 * not wait for scopes. */
ferry_status ferryi_access_wait_calls(ferryi_store *store, const char *what);
/* Waits until no call runs on the store, because an eviction can start one at any time. Called
 * under the lock, which is released while the thread waits. Must not be called within a callback.
 */
FERRYI_REQUIRES(ferryi_store_spin) void ferryi_access_outlast_calls(ferryi_store *store);
/* Whether a call of this thread uses ranges of the store. `thread` 0 means any thread. */
bool ferryi_access_has_call(ferryi_store *store, uint64_t thread);
/* Reports that an access needs bytes whose value was lost. */
ferry_status ferryi_access_fail_lost(const struct ferryi_access *access);

#endif
