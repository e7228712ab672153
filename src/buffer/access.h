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

#include "src/store/claim.h"

/* Locks the ranges of all accesses of the list and prepares the accesses. If one access fails, none
 * stays open. Sorts `list` by store (storage of a buffer) and range. */
ferry_status ferryi_access_open(struct ferryi_access *list, size_t count);

/* The second half of ferryi_access_open(), for calls that continue in a different thread after
 * ferryi_access_claim(). If it fails, it removes the claims. */
ferry_status ferryi_access_prepare(struct ferryi_access *list, size_t count);

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

/* Closes the accesses of one piece of work that was queued on `timeline`, and returns the first
 * failure. If an event is recorded at once, it follows all uses, so that whoever waits for one of
 * the buffers does not wait for later work. */
ferry_status ferryi_access_close_all(struct ferryi_access *list, size_t count,
                                     enum ferryi_close how, ferryi_timeline *timeline);

#endif
