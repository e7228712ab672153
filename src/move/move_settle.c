/* SPDX-License-Identifier: MIT */
#include "src/move/move_inside.h"

#include "src/store/pending_calls.h"

/* Records what a transfer did: the uses of its buffers, the bytes that arrived, and the traffic. */

size_t
ferryi_part_offset(const struct ferryi_piece *part)
{
    ferryi_claim_is_held();
    const char *base =
        ferryi_claimed_copy(ferryi_part_store(part->target_owner), part->note)->pointer;
    return (size_t)((const char *)part->target - base);
}

void
ferryi_part_commit(const struct ferryi_move *move, const struct ferryi_piece *part, size_t bytes)
{
    size_t begin = ferryi_part_offset(part);
    ferryi_valid_map_commit(&ferryi_part_store(part->target_owner)->map, part->note, move->change,
                            begin, begin + bytes);
}

ferry_status
ferryi_part_mark(struct ferryi_move *move, const struct ferryi_piece *part)
{
    ferryi_store *store = ferryi_part_store(part->target_owner);
    FERRYI_OR_RETURN(ferryi_store_reserve_changes(store, 1));
    ferryi_store_lock(store);
    ferryi_part_commit(move, part, part->bytes);
    ferryi_store_unlock(store);
    return FERRY_OK;
}

static ferry_status
note_source(const struct ferryi_group *group, ferryi_store *store, bool is_target)
{
    if (!is_target)
        ferryi_store_note_read(store, ferryi_group_place(group, false),
                               group->uploads ? group->uploads : group->timeline);
    return FERRY_OK;
}

/* -- what has arrived -------------------------------------------------------------------------- */

/* Largest number of parts that are committed while a lock is held. */
#define COMMITTED_TOGETHER 64

/* Returns the next parts of a transfer, from `first` on, that are for one buffer. They are settled
 * together. */
static struct ferryi_group
parts_of_store(const struct ferryi_group *group, size_t first)
{
    const size_t most = ferryi_min_size(group->count - first, COMMITTED_TOGETHER);
    struct ferryi_group next = *group;
    next.parts += first;
    next.count = 1;
    while (next.count < most && next.parts[next.count].target_owner == next.parts->target_owner)
        next.count++;
    return next;
}

/* Returns how many bytes of the target of a part have arrived, and subtracts them from `*done`. */
static size_t
arrived(const struct ferryi_group *group, const struct ferryi_piece *part, size_t *done)
{
    size_t bytes =
        ferryi_min_size(ferryi_part_counted(group->move, part, part->bytes, true), *done);
    *done -= bytes;
    return bytes;
}

/* Marks what has arrived of parts for one buffer as current, and releases the room that was
 * reserved for the others. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
commit_locked(const struct ferryi_group *group, size_t done)
{
    ferryi_valid_map *map = &ferryi_part_store(group->parts->target_owner)->map;
    FERRYI_EACH_PART (group, part) {
        size_t bytes = arrived(group, part, &done);
        if (bytes > 0)
            ferryi_part_commit(group->move, part, bytes);
        else
            ferryi_valid_map_unreserve(map, 1);
    }
}

/* The parts, which are for one buffer, were overwritten. If a kernel that was queued before fails,
 * their bytes are not lost. */
static void
note_overwritten(const struct ferryi_group *group, size_t done)
{
    ferryi_store *store = ferryi_part_store(group->parts->target_owner);
    if (group->move->change != FERRYI_CHANGE_OVERWRITE || !ferryi_pending_calls_are_pending(store))
        return;
    FERRYI_EACH_PART (group, part) {
        if (done == 0)
            break;
        size_t begin = ferryi_part_offset(part), bytes = arrived(group, part, &done);
        ferryi_pending_calls_overwritten(store, part->note, begin, begin + bytes);
    }
}

/* Records in the buffer of the parts that the transfer writes it, and marks the first `done` bytes
 * of these parts as current. The bytes that a move covers are marked when it ends. */
static void
settle_store(const struct ferryi_group *group, size_t done)
{
    ferryi_store *store = ferryi_part_store(group->parts->target_owner);
    struct ferryi_move *move = group->move;
    const bool noted = ferryi_group_is_noted(group, true);
    note_overwritten(group, done);
    for (bool settled = move->covers && !noted; !settled;) {
        ferryi_sync_point other = 0;
        ferryi_store_lock(store);
        if (noted)
            move->written = ferryi_store_try_note_write(store, ferryi_group_place(group, true),
                                                        group->timeline, &other);
        settled = !noted || move->written;
        if (settled && !move->covers)
            commit_locked(group, done);
        ferryi_store_unlock(store);
        if (!settled)
            ferryi_store_await_write(store, ferryi_group_place(group, true), group->timeline,
                                     other);
    }
}

void
ferryi_group_settle(const struct ferryi_group *group, size_t done)
{
    if (ferryi_group_is_noted(group, false) && !group->parts->zeros)
        (void)ferryi_group_each_store(group, note_source);
    if (group->uploads)
        ferryi_timeline_record_upload(group->uploads);
    for (size_t settled = 0; settled < group->count;) {
        const struct ferryi_group next = parts_of_store(group, settled);
        if (next.parts->target_owner)
            settle_store(&next, done);
        FERRYI_EACH_PART (&next, part)
            (void)arrived(group, part, &done);
        settled += next.count;
    }
}

void
ferryi_group_commit_arrived(const struct ferryi_group *group, size_t done)
{
    FERRYI_KEEP_ERROR(why);
    FERRYI_EACH_PART (group, part) {
        if (done == 0)
            break;
        struct ferryi_piece moved = *part;
        moved.bytes = arrived(group, part, &done);
        (void)ferryi_part_mark(group->move, &moved);
    }
}

/* Returns the buffer whose replica at the host is the host's side of a part, or NULL. */
static const void *
host_owner_of(const struct ferryi_piece *part)
{
    return part->source_place == 0 ? part->source_owner : part->target_owner;
}

/* Adds the first `done` bytes of a transfer to a sum of each buffer: to those that crossed of the
 * buffer at the host, or to those that were carried. */
static void
add_bytes(const struct ferryi_group *group, size_t done, bool crossed)
{
    struct ferryi_move *move = group->move;
    const void *last = NULL;
    struct ferryi_moved_store *sums = NULL;
    FERRYI_EACH_PART (group, part) {
        const void *owner = crossed ? host_owner_of(part) : ferryi_part_buffer(move, part);
        size_t bytes = ferryi_min_size(part->bytes, done);
        if (owner && owner != last)
            sums = &move->stores[ferryi_move_find_store(move, ferryi_part_store(last = owner))];
        if (owner)
            *(crossed ? &sums->crossed : &sums->carried) += bytes;
        done -= bytes;
    }
}

static ferry_direction
direction_of(const struct ferryi_piece *part)
{
    return part->target_place == 0   ? FERRY_DIRECTION_DOWNLOAD
           : part->source_place == 0 ? FERRY_DIRECTION_UPLOAD
                                     : FERRY_DIRECTION_PEER;
}

void
ferryi_group_count(const struct ferryi_group *group, size_t done)
{
    struct ferryi_move *move = group->move;
    const struct ferryi_piece *first = group->parts;
    if (first->zeros || first->target_place == first->source_place)
        return;
    if (ferryi_part_crosses(first))
        add_bytes(group, done, true);
    add_bytes(group, done, false);
    for (size_t i = 0; i < move->store_count; i++) {
        if (move->stores[i].carried > 0)
            ferryi_traffic_count(ferryi_store_traffic(move->stores[i].store), direction_of(first),
                                 move->stores[i].carried);
        move->stores[i].carried = 0;
    }
}

void
ferryi_part_count(const struct ferryi_move *move, const struct ferryi_piece *part, size_t done)
{
    if (part->zeros || done == 0 || part->target_place == part->source_place)
        return;
    const void *crossing = host_owner_of(part);
    ferryi_store *carrier = ferryi_part_buffer(move, part);
    if (carrier)
        ferryi_traffic_count(ferryi_store_traffic(carrier), direction_of(part), done);
    if (crossing && ferryi_part_crosses(part))
        ferryi_store_count_transfer(ferryi_part_store(crossing), done);
}
