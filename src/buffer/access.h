/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ACCESS_H
#define FERRYI_ACCESS_H

/*
 * One access: a range of a store, at a place, for work on a timeline. Everything that touches a
 * buffer's bytes goes through these steps:
 *
 *   claim     conflicts are found, the range is taken; BUSY at once, internal work is waited for
 *   prepare   memory is reserved, what the range lacks is moved, the timeline is ordered after
 *             earlier uses
 *   close     a write is committed to the map, the use is noted, the claim goes
 *
 * ferryi_access_open() does the first two for several accesses: all or none. Ranges of one store in
 * one list must not overlap if one writes: merge them first.
 *
 * An access may overlap an open write of the same stream. It relies on that write, which counts as
 * soon as nothing can fail any more: for scopes of the user when the whole list is prepared, for a
 * launch when it is closed with FERRYI_CLOSE_COMMIT. Until then the map does not say so, the bytes
 * that the write covers are not moved, and an abandon of the write waits.
 *
 * A launch: fill one ferryi_access per merged range with access, place and timeline of the stream,
 * `user` false; open; use `pointer`; queue the work on the timeline; close each with
 * FERRYI_CLOSE_COMMIT, or FERRYI_CLOSE_CANCEL when the launch was refused.
 */

#include "src/buffer/store.h"

struct ferryi_access {
    /* in */
    ferryi_store *store;
    size_t begin, end; /* bytes, begin < end */
    uint8_t access;    /* ferry_access, or FERRYI_ACCESS_DROP */
    uint8_t place;     /* or FERRYI_PLACE_NONE: claim only, nothing is prepared */
    bool user;         /* a scope of the user: others fail with BUSY; else they wait */
    bool to_end;       /* refused as OUT_OF_RANGE unless the store ends where it does */
    bool whole; /* begin and end are set as it is claimed: all bytes that there are then, and one
                   where there are none */
    bool is_launch;  /* pending_calls.h follows what the kernel reads and writes */
    bool derives;    /* the call copies or converts what it reads */
    bool writes_all; /* the call itself writes every byte that it commits: there is nothing to scrub
                      */
    ferryi_site site;          /* of a scope of the user's, in a checked run */
    ferryi_timeline *timeline; /* NULL: the host's own use */
    const char *reason;        /* for traces and messages, such as "read_device" */
    const ferry_copy_options
        *options; /* of what it moves; or NULL. Progress is of its range, wherever the bytes are */
    uint64_t under; /* the claim on this store that the whole call holds, of which this is a step;
                       or 0 */
    const struct ferryi_spans *pieces; /* NULL, or all that is claimed of [begin, end): with
                                          FERRYI_PLACE_NONE, and never prepared */
    /* out */
    void *pointer; /* of byte `begin` in the copy */
    uint64_t id;
    uint32_t slot;
    uint32_t relied; /* open writes of the same stream that count as soon as this access does; the
                        map has promised room for each */
};

/*
 * Merge overlapping ranges of one store, sorted as claims are taken: `merged` has room for `count`,
 * `group[i]` is the index in `merged` of wanted[i]. READ with a write, and OVERWRITE with UPDATE,
 * is UPDATE.
 * @return how many are left
 */
size_t ferryi_access_merge(const struct ferryi_access *wanted, size_t count,
                           struct ferryi_access *merged, size_t *group);

/* The call of the user's that opens such a scope, such as "read_host". */
const char *ferryi_scope_call(int access, int place);

enum ferryi_close {
    FERRYI_CLOSE_COMMIT,  /* a write counts now; a read is noted */
    FERRYI_CLOSE_ABANDON, /* a write may have scribbled: the place leaves where others hold the
                             value; the use is noted */
    FERRYI_CLOSE_CANCEL   /* nothing was queued: the map and the sync points stay as they are */
};

/* Sorts `list` by store and range. */
ferry_status ferryi_access_open(struct ferryi_access *list, size_t count);

/* The two halves, for calls that go on in another thread. After a failing prepare the claims are
 * gone. */
ferry_status ferryi_access_claim(struct ferryi_access *list, size_t count);
ferry_status ferryi_access_prepare(struct ferryi_access *list, size_t count);
/* Between the two: the call is queued for another thread, or this thread has taken it over. Whoever
 * waits for memory must know whose call it is. */
void ferryi_access_queue(const struct ferryi_access *access);
void ferryi_access_take_over(const struct ferryi_access *access);

/* Note the last use under an open claim of the caller's, on `timeline`. May make driver calls on
 * streams without a number. */
ferry_status ferryi_access_note_use(ferryi_store *store, const struct ferryi_claim *claim,
                                    ferryi_timeline *timeline);

/* Close one. `timeline` is where the last use was queued (usually the access's own; NULL for the
 * host). */
ferry_status ferryi_access_close(struct ferryi_access *access, enum ferryi_close how,
                                 ferryi_timeline *timeline);
/* Close a write of which only [begin, done_end) arrived: that part is committed. */
ferry_status ferryi_access_close_part(struct ferryi_access *access, size_t done_end,
                                      ferryi_timeline *timeline);

/* The copy at `place` from byte `begin`, as the engine takes it. */
FERRYI_REQUIRES(ferryi_claim_lock)
struct ferryi_memory ferryi_access_memory(ferryi_store *store, int place, size_t begin);
/* Note a transfer of the engine, queued on `timeline` until now, between copies of two stores (or
 * of one). */
FERRYI_REQUIRES(ferryi_claim_lock)
void ferryi_access_note_transfer(ferryi_store *target, int target_place, ferryi_store *source,
                                 int source_place, ferryi_timeline *timeline);
/* Note the loss when a transfer that involves `place` failed with DEVICE_LOST; returns `status`. */
FERRYI_REQUIRES(ferryi_claim_lock)
ferry_status ferryi_access_note_loss(ferryi_store *store, int place, ferry_status status);
/* Which devices a transfer between two places that failed with DEVICE_LOST has to do without: those
 * that say so themselves, or the first where neither does. Keeps the message. */
ferryi_places ferryi_access_lost_places(ferry_context *context, int first, int second);

/* Block until the calls that are under way on the store now, asynchronous ones too, have ended.
 * Scopes are not waited for. */
ferry_status ferryi_access_wait_calls(ferryi_store *store, const char *what);
/* The same under the lock, which is let go meanwhile, until there is none: evictions begin without
 * being asked. Not within a callback. */
FERRYI_REQUIRES(ferryi_store_spin) void ferryi_access_outlast_calls(ferryi_store *store);
/* Does a call of this thread, of any where it is 0, use ranges of the store? */
bool ferryi_access_has_call(ferryi_store *store, uint64_t thread);
/* The failure of reading bytes whose value was lost. */
ferry_status ferryi_access_fail_lost(const struct ferryi_access *access);

#endif
