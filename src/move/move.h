/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_MOVE_H
#define FERRYI_MOVE_H

/*
 * A move: a list of parts whose bytes are copied together, between buffers, memory and files. The
 * caller adds the parts, and then runs the move, which combines parts that are alike into one
 * transfer. A move orders its transfers after the earlier uses of the buffers, records the uses
 * that the transfers make, marks the bytes that have arrived as current, and counts them. The
 * caller has locked all ranges of the buffers.
 *
 * The parts of one move must be disjoint, and no part may read what another one writes. The move
 * sorts them, so they are moved in any order: also those of a file, which is not written from its
 * begin to its end.
 */

#include "src/base/arena.h"
#include "src/store/store.h"
#include "src/transfer/batch.h"
#include "src/transfer/host_side.h"

#define FERRYI_MOVE_FEW 4

/* Bytes of one buffer that a move has copied. */
struct ferryi_moved_store {
    ferryi_store *store;
    size_t crossed; /* number of bytes that were copied between pageable host memory and a device */
    size_t carried; /* number of bytes of the running transfer; used while they are counted */
};

struct ferryi_move {
    ferry_context *context;
    const char *reason; /* name of the operation in traces and messages, such as "copy" */
    /* The buffer that messages and traces name if a part has none; NULL: they name no buffer. A
     * trace names one buffer for the whole move only if this is set. */
    const ferryi_store *subject;
    enum ferryi_layout layout;
    /* How the bytes of a target buffer are marked: as overwritten, or as read if the source is
     * another replica of the same buffer. */
    enum ferryi_change change;
    /* Set by an access that brings bytes to its place (bring.c). The parts then are copies between
     * replicas of the buffer `subject`, and together they make the range `covered` current at the
     * place `covered_place`. This is one change of the valid map, for which the caller has reserved
     * room. */
    bool covers;
    int covered_place;
    struct ferryi_range covered;
    /* The uses that the first transfer of such a move waits for, which the caller has read; a
     * transfer that copies within the buffer reads the replica at `seen_source`. */
    bool seen;
    int seen_source;
    struct ferryi_uses target_uses, source_uses;
    /* The stream of the program on which the bytes are used next, or NULL. Zeros and a short upload
     * from pinned memory are queued on it. */
    ferryi_timeline *stream;
    struct ferryi_host_side host_side; /* how the side of a part that is no buffer is reached; all
                                      zero: it is memory */
    const void *value;                 /* the value with which parts without a source are filled */
    size_t value_bytes;
    struct ferryi_transfer_job *job; /* receives the progress of the call */
    bool cut; /* whether a part could not be added because it cannot be converted by itself */
    /* the sync point of the last write to a target that was recorded, or 0 */
    ferryi_sync_point written;
    uint64_t timelines; /* set of the numbers of the timelines on which work was queued */
    /* The memory of the lists below. The caller may set it to an arena that it frees after the
     * move; otherwise it is `own`. */
    struct ferryi_arena *arena, own;
    struct ferryi_piece *parts;
    size_t count, room;
    bool sorted; /* whether the parts were added in the order in which they are moved */
    struct ferryi_moved_store *stores; /* sorted by address */
    size_t store_count, store_room;
    struct ferryi_piece few_parts[FERRYI_MOVE_FEW];
    struct ferryi_moved_store few_stores[2];
};

/* Initialises a move without parts. */
void ferryi_move_begin(struct ferryi_move *move, ferry_context *context, const char *reason,
                       struct ferryi_transfer_job *job);
/* Counts the bytes that crossed between pageable memory and devices, as one transfer of each
 * buffer, and frees the lists of the move. Preserves the thread's error message. */
void ferryi_move_end(struct ferryi_move *move);
/* Makes room for `count` parts at once. */
ferry_status ferryi_move_expect(struct ferryi_move *move, size_t count);

/* Sets the target of a part to a buffer's replica at `place`, from offset `begin` on. The replica
 * must have memory. */
void ferryi_part_set_target(struct ferryi_piece *part, ferryi_store *store, int place,
                            size_t begin);
/* Sets the source of a part, whose target is set, to a buffer's replica. */
void ferryi_part_set_source(struct ferryi_piece *part, ferryi_store *store, int place,
                            size_t begin);
/* Adds a part whose source is memory or a file, or the value of the move if `part->zeros` is set.
 * Joins it with the last part if it continues that part. */
ferry_status ferryi_move_add(struct ferryi_move *move, const struct ferryi_piece *part);
/* Adds the copy of a buffer's range to the target of `part`, whose `bytes` need not be set. Splits
 * the range into stretches that are current at the same places, and reads each of them at one of
 * these. Fails if bytes of the range are lost.
 *
 * Only whole elements that were written can be converted, by the host or within a device. If a
 * stretch is none, fails with UNSUPPORTED and no message, and sets move->cut: the caller must
 * convert a copy of the range. */
ferry_status ferryi_move_add_from(struct ferryi_move *move, ferryi_store *source,
                                  struct ferryi_range range, struct ferryi_piece part);
/* Adds the copy of those bytes of a range that are current only at `place`, to the same buffer's
 * replica at `to`, which must have memory. */
ferry_status ferryi_move_add_only_at(struct ferryi_move *move, ferryi_store *store,
                                     struct ferryi_range range, int place, int to);

/* Runs the move and removes its parts. `status` is the status of adding them: after a failure,
 * nothing is moved. Returns the first failure. */
ferry_status ferryi_move_run(struct ferryi_move *move, ferry_status status);

/* Copies the bytes that are current only at `place` to the place `to`. The caller has locked the
 * range with a claim, so no other access to the range can be open. */
ferry_status ferryi_move_only_at(ferryi_store *store, struct ferryi_range range, int place, int to,
                                 const char *reason);
/* Copies a range of the replica at `place` to the new block `fresh`. Records that the copy reads
 * the replica and writes `fresh`. */
FERRYI_REQUIRES(ferryi_claim_lock)
ferry_status ferryi_move_to_block(ferryi_store *store, int place, struct ferryi_range range,
                                  const char *reason, struct ferryi_place_copy *fresh);

#endif
