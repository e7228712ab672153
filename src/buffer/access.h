/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ACCESS_H
#define FERRYI_ACCESS_H

/*
 * An access is one use of a range of a store, at a place, by work on a timeline. All code that uses
 * a buffer's bytes goes through these steps:
 *
 *   claim     claims the range; fails with BUSY on a conflict with a user's scope, and waits for
 *             conflicting calls
 *   prepare   allocates memory, copies stale bytes, orders the timeline after earlier uses
 *   close     commits a write to the map, records the use, removes the claim
 *
 * ferryi_access_open() claims and prepares several accesses: all or none. If two ranges of one
 * store overlap and one of them is written, the caller must merge them before the call.
 *
 * An access may overlap an open write of the same stream. The access then relies on that write, and
 * commits the write as soon as the access itself can no longer fail. For the user's scopes this is
 * when the whole list is prepared. For a launch it is when the launch is closed with
 * FERRYI_CLOSE_COMMIT. Until then the map does not contain the write, and the written bytes are not
 * copied. A call that abandons the write waits until then.
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
    uint8_t place; /* place of the access. FERRYI_PLACE_NONE means that the range is only claimed,
                      and that no memory is prepared */
    bool user; /* whether a user's scope makes the access: conflicting calls then fail with BUSY. If
                  false, a call of the library makes the access: conflicting calls then wait */
    bool to_end; /* whether `end` must be the end of the store; if it is not, the access fails with
                    OUT_OF_RANGE */
    bool whole; /* whether the claim covers the whole store. Claiming then sets `begin` and `end` to
                   all bytes, or to one byte if the store is empty */
    bool is_launch;   /* whether the access belongs to a kernel launch, whose reads and writes are
                         tracked in pending_calls.h */
    bool derives;     /* whether the call copies or converts the bytes that it reads */
    bool writes_all;  /* whether the call writes every byte that it commits, so that the range need
                         not be zeroed first */
    ferryi_site site; /* call site of a user's scope; set only in a checked run */
    /* timeline on which the work is queued; NULL if the host does the work */
    ferryi_timeline *timeline;
    const char *reason; /* name of the operation for traces and messages, such as "read_device" */
    const ferry_copy_options *options; /* options for the transfers that the access needs, or NULL.
                                          Progress is counted in bytes of the range */
    uint64_t under; /* id of the longer call's claim on this store, if this access is one step of a
                       longer call; otherwise 0 */
    /* the pieces of [begin, end) that are claimed; NULL if the whole range is claimed. Pieces are
     * allowed only if the place is FERRYI_PLACE_NONE */
    const struct ferryi_interval_set *pieces;
    /* filled in by the library */
    void *pointer; /* address of byte `begin` of the replica */
    uint64_t id;
    uint32_t slot;
    uint32_t relied; /* number of open writes of the same stream that this access will commit. For
                        each write, the access owns one reservation in the map */
};

/*
 * Merges overlapping ranges of one store, and sorts the merged ranges into the order in which they
 * are claimed. `merged` has room for `count` entries. `group[i]` is the index in `merged` of the
 * range that contains wanted[i]. READ merged with a write becomes UPDATE. OVERWRITE merged with
 * UPDATE becomes UPDATE, too.
 * @return the number of merged ranges
 */
size_t ferryi_access_merge(const struct ferryi_access *wanted, size_t count,
                           struct ferryi_access *merged, size_t *group);

/* Returns the name of the public function that opens a scope with access `access` at place `place`,
 * such as "read_host". */
const char *ferryi_scope_call(int access, int place);

enum ferryi_close {
    FERRYI_CLOSE_COMMIT,  /* commits a write, or records a read */
    FERRYI_CLOSE_ABANDON, /* closes a write that may have changed bytes, and records the use. The
                             place becomes stale if other places hold the value */
    FERRYI_CLOSE_CANCEL   /* closes an access for which no work was queued. The map and the sync
                             points stay unchanged, unless the range was zeroed when the access was
                             opened */
};

/* Claims and prepares all accesses of the list, or none. Sorts `list` by store and range. */
ferry_status ferryi_access_open(struct ferryi_access *list, size_t count);

/* ferryi_access_claim() and ferryi_access_prepare() are the two halves of ferryi_access_open().
 * They serve calls that continue in a different thread. If ferryi_access_prepare() fails, it
 * removes the claims. */
ferry_status ferryi_access_claim(struct ferryi_access *list, size_t count);
ferry_status ferryi_access_prepare(struct ferryi_access *list, size_t count);
/* ferryi_access_queue() is called when a call is queued for a different thread.
 * ferryi_access_take_over() is called when that thread starts the call. Both store in the claim
 * which thread runs the call. An eviction can then distinguish
 * its thread's claims from claims of other threads. */
void ferryi_access_queue(const struct ferryi_access *access);
void ferryi_access_take_over(const struct ferryi_access *access);

/* Records that work on `timeline` uses the claim's replica. The claim is open, and the caller owns
 * the claim. Makes a driver call if the timeline has no number. */
ferry_status ferryi_access_note_use(ferryi_store *store, const struct ferryi_claim *claim,
                                    ferryi_timeline *timeline);

/* Closes one access. `timeline` is the timeline on which the last use was queued, usually the
 * access's own timeline. NULL means that the host made the last use. */
ferry_status ferryi_access_close(struct ferryi_access *access, enum ferryi_close how,
                                 ferryi_timeline *timeline);
/* Closes a write that was only partly done. Commits the bytes from the access's begin to
 * `done_end`. */
ferry_status ferryi_access_close_part(struct ferryi_access *access, size_t done_end,
                                      ferryi_timeline *timeline);

/* Describes the replica at `place`, from byte `begin` on, as memory for the transfer engine. */
FERRYI_REQUIRES(ferryi_claim_lock)
struct ferryi_memory ferryi_access_memory(ferryi_store *store, int place, size_t begin);
/* Records a transfer in the target replica and in the source replica. The engine has already queued
 * the transfer on `timeline`. `target` and `source` may be the same store. */
FERRYI_REQUIRES(ferryi_claim_lock)
void ferryi_access_note_transfer(ferryi_store *target, int target_place, ferryi_store *source,
                                 int source_place, ferryi_timeline *timeline);
/* Marks all bytes of the store as lost at `place`, if `status` is DEVICE_LOST and `place` is a
 * device. Otherwise changes nothing. Returns `status`. */
FERRYI_REQUIRES(ferryi_claim_lock)
ferry_status ferryi_access_note_loss(ferryi_store *store, int place, ferry_status status);
/* Returns which devices are lost, after a transfer between two places failed with DEVICE_LOST.
 * Queries both devices, and returns each one that reports the loss. If neither reports it, returns
 * the first of the two places that is a device. Preserves the last error message. */
ferryi_places ferryi_access_lost_places(ferry_context *context, int first, int second);

/* Waits for all calls that use the store when the wait begins, including asynchronous calls. Does
 * not wait for scopes. Fails within a callback that must not wait. */
ferry_status ferryi_access_wait_calls(ferryi_store *store, const char *what);
/* Waits until no call uses the store. Includes calls that begin during the wait, such as evictions.
 * Called with the store locked; the lock is released while the thread waits. Within a callback that
 * must not wait, returns at once. */
FERRYI_REQUIRES(ferryi_store_spin) void ferryi_access_outlast_calls(ferryi_store *store);
/* Returns whether a call in thread `thread` uses ranges of the store. If `thread` is 0, checks for
 * calls in all threads. */
bool ferryi_access_has_call(ferryi_store *store, uint64_t thread);
/* Fails because the access needs bytes whose value was lost. The status and the message were stored
 * in the store when the bytes were lost. */
ferry_status ferryi_access_fail_lost(const struct ferryi_access *access);

#endif
