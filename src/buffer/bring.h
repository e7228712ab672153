/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BRING_H
#define FERRYI_BRING_H

/*
 * Internal functions that make the bytes of an access current at its place; access.c calls them.
 * The access has a claim that excludes other users of its range, and its place has memory. The
 * steps are:
 *
 * - "Plan" computes, under the store's lock, the moves (copies of stale bytes) of a part of the
 *   range. It also reads the uses that the moves must wait for.
 * - "Run" makes the moves of all parts, without the lock.
 * - "Settle" records the uses of the transfers in the store, and commits the moved bytes to the
 *   valid map.
 */

#include "src/buffer/access.h"

/* Capacities of a list of moves. The moves are planned while the buffer's spin lock is held, so
 * their number is limited. If a list of FERRYI_MOVES moves is too short, a list of
 * FERRYI_MOVES_LONG moves is allocated. */
#define FERRYI_MOVES      16
#define FERRYI_MOVES_LONG 1024

/* Moves that were planned together, and other data that was read under the same lock. */
struct ferryi_bringing {
    struct ferryi_access *access;
    struct ferryi_transfer_job job;
    ferryi_places same, reachable; /* see ferryi_coherence_source() */
    /* The moves make the bytes from part.begin to `next` current at the place of the access. */
    struct ferryi_range part;
    size_t next, count, room;
    struct ferryi_map_move few[FERRYI_MOVES];
    struct ferryi_map_move *many; /* allocated list of moves; NULL if the list is `few` */
    bool lost;                    /* whether some of the bytes up to `next` are lost */
    /* uses of the replica at the place of the access, and of the replica at the place `source`. If
     * `source` is FERRYI_ZERO, there is no second replica */
    struct ferryi_uses target_uses, source_uses;
    int source;
    size_t transferred; /* number of bytes that crossed between the host replica and a device */
    bool any;           /* whether any bytes were copied or zeroed */
};

void ferryi_bring_begin(struct ferryi_bringing *bringing, struct ferryi_access *access);
void ferryi_bring_end(struct ferryi_bringing *bringing);

/* Reads the uses of the replica at the place of the access, and of the replica at `source` unless
 * this is FERRYI_ZERO. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_bring_see_uses(struct ferryi_bringing *bringing, int source);
/* Finds the first part of [at, end of the access) that the access must make current, makes a
 * reservation in the valid map for it, and plans its moves. If there is no such part,
 * bringing->part is empty. Returns false if no reservation is free; `supply` then states what the
 * map needs. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_bring_plan(struct ferryi_bringing *bringing, size_t at,
                       struct ferryi_map_supply *supply);
/* Makes the planned moves, and plans and makes further moves until the range of the access is
 * current at its place. Skips bytes that an open write of the same stream covers, because they need
 * no copy. The caller must then call ferryi_bring_settle(), even if this call fails. */
ferry_status ferryi_bring_run(struct ferryi_bringing *bringing);
/* Orders the access after all earlier uses of the replica at its place. If the host makes the
 * access, the function also waits until the last transfer has ended. If a stream makes the access,
 * the caller must order the stream after the sync point that ferryi_bring_settle() returns. */
ferry_status ferryi_bring_order(struct ferryi_bringing *bringing);
/* Records in the store what the access has moved, and then marks its claim as open if `opens` is
 * true. Takes the store's lock once. Takes it again only if a different stream has written another
 * range of the replica at the same time. Returns the sync point of the last transfer that wrote the
 * replica at the place of the access, or 0 if there is none. */
ferryi_sync_point ferryi_bring_settle(struct ferryi_access *access, bool opens);

/* Makes the range of a claimed access current at its place, and records the moves in the store. */
ferry_status ferryi_bring_claimed(struct ferryi_access *access);
/* Zeroes the range of an access, and records this write in the store. */
ferry_status ferryi_bring_zeros(struct ferryi_access *access);

#endif
