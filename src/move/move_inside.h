/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_MOVE_INSIDE_H
#define FERRYI_MOVE_INSIDE_H

/*
 * What the files of a move share. move_split.c makes parts of ranges of buffers, move_list.c lists
 * them, move.c transfers them, and move_settle.c records what a transfer did.
 */

#include "src/move/move.h"

/* -- a part ------------------------------------------------------------------------------------ */

/* Returns the buffer's storage that is the owner of one side of a part, or NULL. */
static inline ferryi_store *
ferryi_part_store(const void *owner)
{
    return (ferryi_store *)(uintptr_t)owner;
}

/* Returns whether bytes go from a device to the host. */
static inline bool
ferryi_part_is_download(const struct ferryi_piece *part)
{
    return part->target_place == 0 && part->source_place != 0 && !part->zeros;
}

/* Converts a number of bytes of the target of a part to what its member `bytes` counts, or, if
 * `back` is set, the other way round. Both are the same unless a download converts. */
static inline size_t
ferryi_part_counted(const struct ferryi_move *move, const struct ferryi_piece *part, size_t bytes,
                    bool back)
{
    const struct ferryi_transform *transform = move->host_side.transform;
    if (!transform || !ferryi_part_is_download(part))
        return bytes;
    return back ? bytes / transform->source_bytes * transform->target_bytes
                : bytes / transform->target_bytes * transform->source_bytes;
}

/* Returns whether bytes go between a device and pageable memory. */
static inline bool
ferryi_part_crosses(const struct ferryi_piece *part)
{
    return !part->zeros && !part->pinned && (part->source_place == 0) != (part->target_place == 0);
}

/* Returns the buffer that messages name for a part, and that is counted as having received its
 * bytes, or sent them: the target, or the source if the target is no buffer, or else the subject of
 * the move. Temporary storage stands for a buffer. */
static inline ferryi_store *
ferryi_part_buffer(const struct ferryi_move *move, const struct ferryi_piece *part)
{
    const ferryi_store *store = ferryi_part_store(part->target_owner);
    if (!store)
        store = ferryi_part_store(part->source_owner);
    if (!store)
        store = move->subject;
    return ferryi_part_store(store ? ferryi_store_shown(store) : NULL);
}

/* Returns a number that is the same for parts with the same places and properties, which are moved
 * in one transfer. */
static inline uint32_t
ferryi_part_sort(const struct ferryi_piece *part)
{
    return (uint32_t)part->between << 18 | (uint32_t)part->zeros << 17 |
           (uint32_t)part->target_place << 9 | (uint32_t)part->source_place << 1 | part->pinned;
}

/* Returns the offset of a part's target in its buffer. */
size_t ferryi_part_offset(const struct ferryi_piece *part);
/* Marks the first `bytes` bytes of a part as current in the valid map of its target. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_part_commit(const struct ferryi_move *move, const struct ferryi_piece *part,
                        size_t bytes);
/* Marks the bytes of a part as current at its target, without a transfer. */
ferry_status ferryi_part_mark(struct ferryi_move *move, const struct ferryi_piece *part);

/* Sorts the parts of a move, so that parts of the same sort are adjacent. The order in which they
 * were added is lost. */
void ferryi_move_sort(struct ferryi_move *move);
/* Returns the index in the list of a move of the first buffer whose address is not lower. */
size_t ferryi_move_find_store(const struct ferryi_move *move, const ferryi_store *store);

/* -- a transfer -------------------------------------------------------------------------------- */

/* Parts that are moved in one transfer. */
struct ferryi_group {
    struct ferryi_move *move;
    const struct ferryi_piece *parts;
    size_t count;
    ferryi_timeline *timeline;
    /* The timeline that reads the sources, if it is not `timeline`; NULL if it is. */
    ferryi_timeline *uploads;
    /* Whether the transfer was begun. If it was not, because a wait failed, no use is noted, so
     * that nothing replaces the record of a use that is still pending. */
    bool queued;
    /* Whether the transfer is known to be complete, so that nothing later need wait for it. */
    bool complete;
    /* After a failure, those of the transfer's two places whose device was lost. */
    ferryi_places lost;
};

/* Visits the parts of a transfer. */
#define FERRYI_EACH_PART(group, part)                                                              \
    for (const struct ferryi_piece *part = (group)->parts; part < (group)->parts + (group)->count; \
         part++)

/* Calls `visit` for each source and target buffer of a transfer. A buffer may be visited more than
 * once. */
ferry_status ferryi_group_each_store(const struct ferryi_group *group,
                                     ferry_status (*visit)(const struct ferryi_group *group,
                                                           ferryi_store *store, bool is_target));

static inline int
ferryi_group_place(const struct ferryi_group *group, bool is_target)
{
    return is_target ? group->parts->target_place : group->parts->source_place;
}

/* Returns whether the host itself copies the bytes of one side, because they are pageable, or
 * because no device takes part. */
static inline bool
ferryi_group_is_by_host(const struct ferryi_group *group, bool is_target)
{
    return ferryi_group_place(group, is_target) == 0 && (!group->parts->pinned || !group->timeline);
}

/* Returns whether work on the buffers of one side may still be queued, so that it is recorded. */
static inline bool
ferryi_group_is_noted(const struct ferryi_group *group, bool is_target)
{
    return group->queued && group->timeline && !group->complete &&
           !ferryi_group_is_by_host(group, is_target);
}

/* Records what a transfer did to its buffers. `done` is the number of bytes of the targets that
 * have arrived. */
void ferryi_group_settle(const struct ferryi_group *group, size_t done);
/* Marks those parts of a failed transfer as current that have arrived. If there is no room in the
 * valid map, they stay stale. */
void ferryi_group_commit_arrived(const struct ferryi_group *group, size_t done);
/* Counts the first `done` bytes of a transfer: what crossed between pageable host memory and a
 * device, and, in the traffic counters of each buffer, one transfer. */
void ferryi_group_count(const struct ferryi_group *group, size_t done);
/* Does the same for a move with a single part. */
void ferryi_part_count(const struct ferryi_move *move, const struct ferryi_piece *part,
                       size_t done);

#endif
