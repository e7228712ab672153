/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BRING_H
#define FERRYI_BRING_H

/*
 * Internal functions that make the bytes of an access current at its place; access.c calls them.
 * The access has a claim that excludes other users of its range, and its place has memory. The
 * copies of stale bytes are planned under the store's lock, and a move (move.h) makes them.
 */

#include "src/store/claim.h"

/* Capacities of a list of copies. They are planned while the buffer's spin lock is held, so their
 * number is limited. If a list of FERRYI_COPIES is too short, a list of FERRYI_COPIES_LONG is
 * allocated. */
#define FERRYI_COPIES      16
#define FERRYI_COPIES_LONG 1024

/* Copies that were planned together, and other data that was read under the same lock. */
struct ferryi_bringing {
    struct ferryi_access *access;
    ferryi_places same, reachable; /* see ferryi_coherence_source() */
    /* The copies make the bytes from part.begin to `next` current at the place of the access. */
    struct ferryi_range part;
    size_t next, count, room;
    struct ferryi_map_move few[FERRYI_COPIES];
    struct ferryi_map_move *many; /* allocated list of copies; NULL if the list is `few` */
    bool lost;                    /* whether some of the bytes up to `next` are lost */
    bool any;                     /* whether anything was copied or zeroed */
    bool reserved; /* whether the access owns a reservation in the valid map for these bytes */
    /* uses of the replica at the place of the access, and of the replica at the place `source`. If
     * `source` is FERRYI_ZERO, there is no second replica */
    struct ferryi_uses target_uses, source_uses;
    int source;
};

void ferryi_bring_begin(struct ferryi_bringing *bringing, struct ferryi_access *access);
void ferryi_bring_end(struct ferryi_bringing *bringing);

/* Finds the first part of [at, end of the access) that the access must make current, makes a
 * reservation in the valid map for it, and plans its copies. If there is no such part,
 * bringing->part is empty. Returns false if no reservation is free; `supply` then states what the
 * map needs. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_bring_plan(struct ferryi_bringing *bringing, size_t at,
                       struct ferryi_map_supply *supply);
/* Reads the uses of the replica at the place of the access. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_bring_see_uses(struct ferryi_bringing *bringing);
/* Makes the planned copies, and plans and makes further copies until the range of the access is
 * current at its place. Skips bytes that an open write of the same stream covers, because they need
 * no copy. */
ferry_status ferryi_bring_run(struct ferryi_bringing *bringing);
/* Orders the access after all earlier uses of the replica at its place, and after what the access
 * has moved there. If the host makes the access, it waits for them. */
ferry_status ferryi_bring_order(struct ferryi_bringing *bringing);

/* Zeroes the range of an access whose claim is held. This changes nothing in the valid map. */
ferry_status ferryi_bring_zeros(struct ferryi_access *access);

#endif
