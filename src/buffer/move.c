/* SPDX-License-Identifier: MIT */
#include "src/buffer/move.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "src/buffer/buffer.h"
#include "src/buffer/observe.h"
#include "src/buffer/pending_calls.h"
#include "src/transfer/engine.h"

/* An access does not merge longer parts of pageable memory than this with others. */
#define MERGED_BYTES ((size_t)256 << 10)

/* Maximum size of an upload that may be queued directly on the program's stream, instead of on an
 * internal stream. */
#define STRAIGHT_BYTES ((size_t)64 << 10)

/* -- a move ------------------------------------------------------------------------------------ */

void
ferryi_move_begin(struct ferryi_move *move, ferry_context *context, const char *reason,
                  struct ferryi_transfer_job *job)
{
    move->context = context;
    move->reason = reason;
    move->subject = NULL;
    move->layout = FERRYI_LAYOUT_ANY;
    move->change = FERRYI_CHANGE_OVERWRITE;
    move->covers = move->seen = false;
    move->written = 0;
    move->stream = NULL;
    move->host_side = (struct ferryi_host_side){0};
    move->value = "";
    move->value_bytes = 1;
    move->job = job;
    move->cut = false;
    move->timelines = 0;
    move->parts = move->few_parts;
    move->stores = move->few_stores;
    move->count = move->store_count = 0;
    move->room = FERRYI_MOVE_FEW;
    move->store_room = sizeof(move->few_stores) / sizeof(move->few_stores[0]);
}

/* Counts bytes that crossed between a host replica and a device, because Ferry page-locks host
 * replicas that are transferred often. */
static void
count_crossed(ferryi_store *store, size_t bytes)
{
    ferryi_store_lock(store);
    struct ferryi_to_pin to_pin = ferryi_store_count(store, bytes);
    ferryi_store_unlock(store);
    if (!to_pin.memory)
        return;
    FERRYI_KEEP_ERROR(why);
    ferryi_store_pin(store, to_pin);
}

void
ferryi_move_end(struct ferryi_move *move)
{
    for (size_t i = 0; i < move->store_count; i++)
        if (move->stores[i].crossed > 0)
            count_crossed(move->stores[i].store, move->stores[i].crossed);
    if (move->parts != move->few_parts)
        free(move->parts);
    if (move->stores != move->few_stores)
        free(move->stores);
}

/* Makes room for one more item in a list, whose first items are in an array of the move. */
static ferry_status
make_room(void **items, size_t *room, size_t count, size_t bytes, const void *few)
{
    if (count < *room)
        return FERRY_OK;
    void *more = realloc(*items == few ? NULL : *items, 2 * *room * bytes);
    if (!more)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for a list of %zu parts",
                           2 * *room);
    if (*items == few)
        memcpy(more, few, count * bytes);
    *items = more;
    *room *= 2;
    return FERRY_OK;
}

/* -- the buffers of a move --------------------------------------------------------------------- */

static ferryi_store *
store_of(const void *owner)
{
    return (ferryi_store *)(uintptr_t)owner;
}

/* Returns the index of the first buffer whose address is not lower. */
static size_t
find_store(const struct ferryi_move *move, const ferryi_store *store)
{
    size_t low = 0, high = move->store_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)move->stores[middle].store < (uintptr_t)store)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds a buffer to the list of those whose bytes are counted, if it is not in the list. */
static ferry_status
add_store(struct ferryi_move *move, const void *owner)
{
    ferryi_store *store = store_of(owner);
    size_t at = store ? find_store(move, store) : 0;
    if (!store || (at < move->store_count && move->stores[at].store == store))
        return FERRY_OK;
    void *stores = move->stores;
    FERRYI_OR_RETURN(make_room(&stores, &move->store_room, move->store_count, sizeof(*move->stores),
                               move->few_stores));
    move->stores = stores;
    memmove(&move->stores[at + 1], &move->stores[at],
            (move->store_count - at) * sizeof(*move->stores));
    move->stores[at] = (struct ferryi_moved_store){.store = store};
    move->store_count++;
    return FERRY_OK;
}

/* Adds the buffers of the part that is added next. A move with a single part needs no list, so
 * those of the first part are added with the second one. */
static ferry_status
add_stores(struct ferryi_move *move, const struct ferryi_piece *part)
{
    if (move->count == 0)
        return FERRY_OK;
    if (move->count == 1) {
        FERRYI_OR_RETURN(add_store(move, move->parts->source_owner));
        FERRYI_OR_RETURN(add_store(move, move->parts->target_owner));
    }
    FERRYI_OR_RETURN(add_store(move, part->source_owner));
    return add_store(move, part->target_owner);
}

/* -- parts ------------------------------------------------------------------------------------- */

/* Returns whether the part `next` continues the part `last` in both the source and the target, and
 * has the same properties. */
static bool
continues(const struct ferryi_piece *last, const struct ferryi_piece *next)
{
    return last->target_owner == next->target_owner && last->source_owner == next->source_owner &&
           last->target_place == next->target_place && last->source_place == next->source_place &&
           last->note == next->note && last->zeros == next->zeros && last->pinned == next->pinned &&
           last->unit == next->unit && last->between == next->between &&
           (uintptr_t)last->target + last->bytes == (uintptr_t)next->target &&
           (last->zeros || (uintptr_t)last->source + last->bytes == (uintptr_t)next->source);
}

/* Releases the room in the target's valid map that was reserved for the part, because the part is
 * not committed (see valid_map.h). */
static void
release_reservation(const struct ferryi_move *move, const struct ferryi_piece *part)
{
    if (!part->target_owner || move->covers)
        return;
    ferryi_store *store = store_of(part->target_owner);
    ferryi_store_lock(store);
    ferryi_valid_map_unreserve(&store->map, 1);
    ferryi_store_unlock(store);
}

ferry_status
ferryi_move_add(struct ferryi_move *move, const struct ferryi_piece *part)
{
    assert(part->bytes > 0);
    struct ferryi_piece *last = move->count > 0 ? &move->parts[move->count - 1] : NULL;
    if (last && !move->host_side.transform && continues(last, part)) {
        last->bytes += part->bytes;
        return FERRY_OK;
    }
    void *parts = move->parts;
    FERRYI_OR_RETURN(
        make_room(&parts, &move->room, move->count, sizeof(*move->parts), move->few_parts));
    move->parts = parts;
    FERRYI_OR_RETURN(add_stores(move, part));
    if (part->target_owner && !move->covers)
        FERRYI_OR_RETURN(ferryi_store_reserve_changes(store_of(part->target_owner), 1));
    move->parts[move->count++] = *part;
    return FERRY_OK;
}

/* Returns the memory of a buffer's replica at a place, from offset `begin` on. If the place uses
 * host memory, the place in the result is the host. */
static struct ferryi_memory
memory_at(ferryi_store *store, int place, size_t begin)
{
    ferryi_claim_is_held();
    return ferryi_access_memory(store, ferryi_store_home(store, place), begin);
}

void
ferryi_part_set_target(struct ferryi_piece *part, ferryi_store *store, int place, size_t begin)
{
    struct ferryi_memory memory = memory_at(store, place, begin);
    part->target = memory.pointer;
    part->target_owner = store;
    part->target_place = (uint8_t)memory.place;
    part->note = (uint8_t)place;
    part->pinned = memory.place == 0 && memory.pinned;
}

void
ferryi_part_set_source(struct ferryi_piece *part, ferryi_store *store, int place, size_t begin)
{
    struct ferryi_memory memory = memory_at(store, place, begin);
    part->source = memory.pointer;
    part->source_owner = store;
    part->source_place = (uint8_t)memory.place;
    /* `pinned` describes the host's side of a transfer between host and device. It is false if both
     * sides are at the host. */
    if (memory.place == 0)
        part->pinned = memory.pinned && part->target_place != 0;
}

/* Creates the traffic counters of the buffer for which a transfer counts, if it has none because it
 * never had a replica on a device. A transfer between two buffers counts for the target, and a
 * transfer into temporary storage for the source. */
static ferry_status
make_counters(const struct ferryi_piece *part)
{
    const void *owner = part->between ? part->source_owner : part->target_owner;
    bool counts = owner && part->target_place != part->source_place;
    return counts ? ferryi_store_make_counters(store_of(owner), "copy to") : FERRY_OK;
}

/* -- stretches --------------------------------------------------------------------------------- */

static struct ferryi_segment
segment_at(ferryi_store *store, size_t at, size_t end)
{
    ferryi_store_lock(store);
    struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
    ferryi_store_unlock(store);
    segment.begin = at;
    segment.end = ferryi_min_size(segment.end, end);
    return segment;
}

/* Returns the place at which a segment of the source is read for the part. */
static int
place_to_read(const struct ferryi_move *move, const ferryi_store *source,
              struct ferryi_segment segment, const struct ferryi_piece *part)
{
    if (!part->target_owner) {
        ferryi_places on_hosts = segment.places & source->shared;
        return __builtin_ctz(on_hosts ? on_hosts : segment.places);
    }
    if (segment.places & FERRYI_PLACE_BIT(part->note))
        return part->note;
    return ferryi_coherence_source(segment.places, part->note,
                                   ferryi_store_sharers(source, part->note),
                                   ferryi_engine_reachable(move->context->engine, part->note));
}

static bool
is_download(const struct ferryi_piece *part)
{
    return part->target_place == 0 && part->source_place != 0 && !part->zeros;
}

/* Converts a number of bytes of the target of a part to what its member `bytes` counts, or, if
 * `back` is set, the other way round. Both are the same unless a download converts. */
static size_t
counted(const struct ferryi_move *move, const struct ferryi_piece *part, size_t bytes, bool back)
{
    const struct ferryi_transform *transform = move->host_side.transform;
    if (!transform || !is_download(part))
        return bytes;
    return back ? bytes / transform->source_bytes * transform->target_bytes
                : bytes / transform->target_bytes * transform->source_bytes;
}

/* Sets the size of a part that reads `bytes` bytes of its source. */
static void
set_size(const struct ferryi_move *move, struct ferryi_piece *part, size_t bytes)
{
    const struct ferryi_transform *transform = move->host_side.transform;
    part->bytes = bytes;
    if (!transform)
        return;
    part->unit = (uint32_t)(is_download(part) ? transform->source_bytes : transform->target_bytes);
    if (!is_download(part))
        part->bytes = bytes / transform->source_bytes * transform->target_bytes;
}

static ferry_status
fail_lost(const struct ferryi_move *move, ferryi_store *store, struct ferryi_segment segment)
{
    struct ferryi_access access = {
        .store = store, .begin = segment.begin, .end = segment.end, .reason = move->reason};
    return ferryi_access_fail_lost(&access);
}

/* Adds a read of one segment of the source. All bytes of a segment are current at the same places.
 */
static ferry_status
add_segment(struct ferryi_move *move, ferryi_store *source, struct ferryi_segment segment,
            struct ferryi_piece part)
{
    if (segment.places & FERRYI_LOST)
        return fail_lost(move, source, segment);
    part.zeros = !ferryi_places_written(segment.places);
    part.source = NULL;
    if (!part.zeros)
        ferryi_part_set_source(&part, source, place_to_read(move, source, segment, &part),
                               segment.begin);
    set_size(move, &part, segment.end - segment.begin);
    if (!part.zeros)
        FERRYI_OR_RETURN(make_counters(&part));
    return ferryi_move_add(move, &part);
}

/* Returns whether a segment, which begins with an element, can be converted by itself. */
static bool
is_convertible(const struct ferryi_transform *transform, struct ferryi_segment segment)
{
    return (segment.end - segment.begin) % transform->source_bytes == 0 &&
           (transform->keeps_zeros || ferryi_places_written(segment.places));
}

/* Another thread may read the range, and so change which bytes are current at which places. The map
 * is therefore read only once for each segment. */
ferry_status
ferryi_move_add_from(struct ferryi_move *move, ferryi_store *source, struct ferryi_range range,
                     struct ferryi_piece part)
{
    const struct ferryi_transform *transform = move->host_side.transform;
    const uintptr_t target = (uintptr_t)part.target;
    ferry_status status = FERRY_OK;
    for (size_t at = range.begin; at < range.end && status == FERRY_OK;) {
        struct ferryi_segment segment = segment_at(source, at, range.end);
        size_t before = at - range.begin;
        move->cut =
            transform && !(segment.places & FERRYI_LOST) && !is_convertible(transform, segment);
        if (move->cut)
            return FERRY_ERROR_UNSUPPORTED;
        if (transform)
            before = before / transform->source_bytes * transform->target_bytes;
        part.target = (void *)(target + before);
        status = add_segment(move, source, segment, part);
        at = segment.end;
    }
    return status;
}

/* Returns the offset of a part's target in its buffer. */
static size_t
target_offset(const struct ferryi_piece *part)
{
    ferryi_claim_is_held();
    const char *base = ferryi_claimed_copy(store_of(part->target_owner), part->note)->pointer;
    return (size_t)((const char *)part->target - base);
}

/* Marks the first `bytes` bytes of a part as current in the valid map of its target. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
commit_part(const struct ferryi_move *move, const struct ferryi_piece *part, size_t bytes)
{
    size_t begin = target_offset(part);
    ferryi_valid_map_commit(&store_of(part->target_owner)->map, part->note, move->change, begin,
                            begin + bytes);
}

/* Marks the bytes of a part as current at its target, whose memory is that of its source. */
static ferry_status
mark_part(struct ferryi_move *move, const struct ferryi_piece *part)
{
    ferryi_store *store = store_of(part->target_owner);
    FERRYI_OR_RETURN(ferryi_store_reserve_changes(store, 1));
    ferryi_store_lock(store);
    commit_part(move, part, part->bytes);
    ferryi_store_unlock(store);
    return FERRY_OK;
}

ferry_status
ferryi_move_add_only_at(struct ferryi_move *move, ferryi_store *store, struct ferryi_range range,
                        int place, int to)
{
    ferryi_claim_is_held();
    const ferryi_places only = FERRYI_PLACE_BIT(place);
    struct ferryi_range found = {range.begin, range.begin};
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK) {
        struct ferryi_piece part = {0};
        ferryi_store_lock(store);
        bool any = ferryi_store_find_only_at(store, (struct ferryi_range){found.end, range.end},
                                             only, &found);
        ferryi_store_unlock(store);
        if (!any)
            break;
        ferryi_part_set_target(&part, store, to, found.begin);
        ferryi_part_set_source(&part, store, place, found.begin);
        part.bytes = found.end - found.begin;
        status = part.target == part.source ? mark_part(move, &part) : ferryi_move_add(move, &part);
    }
    return status;
}

/* -- parts that are alike ---------------------------------------------------------------------- */

static uint32_t
sort_of(const struct ferryi_piece *part)
{
    return (uint32_t)part->between << 18 | (uint32_t)part->zeros << 17 |
           (uint32_t)part->target_place << 9 | (uint32_t)part->source_place << 1 | part->pinned;
}

static int
by_sort_and_target(const void *a, const void *b)
{
    const struct ferryi_piece *x = a, *y = b;
    uint32_t sort_x = sort_of(x), sort_y = sort_of(y);
    if (sort_x != sort_y)
        return sort_x < sort_y ? -1 : 1;
    if (x->target_owner != y->target_owner)
        return (uintptr_t)x->target_owner < (uintptr_t)y->target_owner ? -1 : 1;
    return (uintptr_t)x->target < (uintptr_t)y->target ? -1 : x->target != y->target;
}

/* Sorts the parts, so that parts with the same places and properties are adjacent. */
static void
sort_parts(struct ferryi_move *move)
{
    size_t sorted = 1;
    while (sorted < move->count &&
           by_sort_and_target(&move->parts[sorted - 1], &move->parts[sorted]) <= 0)
        sorted++;
    if (sorted < move->count)
        qsort(move->parts, move->count, sizeof(*move->parts), by_sort_and_target);
}

/* Parts that are moved in one transfer. */
struct group {
    struct ferryi_move *move;
    const struct ferryi_piece *parts;
    size_t count;
    ferryi_timeline *timeline;
    /* The timeline that reads the sources, if it is not `timeline`; NULL if it is. */
    ferryi_timeline *uploads;
    /* Whether the transfer is known to be complete, so that nothing later need wait for it. */
    bool complete;
    /* After a failure, those of the transfer's two places whose device was lost. */
    ferryi_places lost;
};

/* Calls `visit` for each source and target buffer of a transfer. A buffer may be visited more than
 * once. */
static ferry_status
each_store(const struct group *group,
           ferry_status (*visit)(const struct group *group, ferryi_store *store, bool is_target))
{
    const void *source = NULL, *target = NULL;
    ferry_status status = FERRY_OK;
    for (size_t i = 0; i < group->count && status == FERRY_OK; i++) {
        const struct ferryi_piece *part = &group->parts[i];
        if (part->source_owner && part->source_owner != source)
            status = visit(group, store_of(part->source_owner), false);
        if (status == FERRY_OK && part->target_owner && part->target_owner != target)
            status = visit(group, store_of(part->target_owner), true);
        source = part->source_owner;
        target = part->target_owner;
    }
    return status;
}

static int
place_of(const struct group *group, bool is_target)
{
    return is_target ? group->parts->target_place : group->parts->source_place;
}

/* Returns whether the host itself copies the bytes of one side, because they are pageable. */
static bool
is_by_host(const struct group *group, bool is_target)
{
    return place_of(group, is_target) == 0 && !group->parts->pinned;
}

/* Returns the uses of a buffer that the caller of the move has read, or NULL. They hold until the
 * first transfer has changed them. */
static const struct ferryi_uses *
seen_uses(const struct ferryi_move *move, const struct ferryi_piece *first, bool is_target)
{
    if (!move->seen || (!first->zeros && first->source_place != move->seen_source))
        return NULL;
    return is_target ? &move->target_uses : &move->source_uses;
}

/* Orders a transfer after earlier uses of a buffer. Pageable memory is copied by the host itself,
 * so the host waits for earlier uses of such memory. */
static ferry_status
order_store(const struct group *group, ferryi_store *store, bool is_target)
{
    ferryi_claim_is_held();
    const bool by_host = is_by_host(group, is_target);
    ferry_status status =
        ferryi_store_order_seen(store, place_of(group, is_target), by_host ? NULL : group->timeline,
                                is_target, seen_uses(group->move, group->parts, is_target));
    bool replaces = by_host && is_target && group->move->change == FERRYI_CHANGE_OVERWRITE;
    return status == FERRY_ERROR_DEVICE_LOST && replaces ? ferryi_access_give_host_copy_up(store)
                                                         : status;
}

/* Returns whether work on the buffers of one side may still be queued, so that it is recorded. */
static bool
is_noted(const struct group *group, bool is_target)
{
    return group->timeline && !group->complete && !is_by_host(group, is_target);
}

static ferry_status
note_source(const struct group *group, ferryi_store *store, bool is_target)
{
    if (!is_target)
        ferryi_store_note_read(store, place_of(group, false),
                               group->uploads ? group->uploads : group->timeline);
    return FERRY_OK;
}

static ferry_status
lose_store(const struct group *group, ferryi_store *store, bool is_target)
{
    ferryi_claim_is_held();
    int place = is_target ? group->parts->target_place : group->parts->source_place;
    if (group->lost & FERRYI_PLACE_BIT(place))
        (void)ferryi_access_note_loss(store, place, FERRY_ERROR_DEVICE_LOST);
    return FERRY_OK;
}

/* -- what has arrived -------------------------------------------------------------------------- */

/* Largest number of parts that are committed while a lock is held. */
#define COMMITTED_TOGETHER 64

/* Returns how many of the parts from `first` on are for one buffer, which are settled together. */
static size_t
count_of_store(const struct group *group, size_t first)
{
    size_t count = 1;
    while (first + count < group->count && count < COMMITTED_TOGETHER &&
           group->parts[first + count].target_owner == group->parts[first].target_owner)
        count++;
    return count;
}

/* Returns how many bytes of the target of a part have arrived, and subtracts them from `*done`. */
static size_t
arrived(const struct group *group, const struct ferryi_piece *part, size_t *done)
{
    size_t bytes = ferryi_min_size(counted(group->move, part, part->bytes, true), *done);
    *done -= bytes;
    return bytes;
}

/* Marks what has arrived of `count` parts for one buffer as current, and releases the room that was
 * reserved for the others. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
commit_locked(const struct group *group, size_t first, size_t count, size_t done)
{
    ferryi_valid_map *map = &store_of(group->parts[first].target_owner)->map;
    for (size_t i = first; i < first + count; i++) {
        size_t bytes = arrived(group, &group->parts[i], &done);
        if (bytes > 0)
            commit_part(group->move, &group->parts[i], bytes);
        else
            ferryi_valid_map_unreserve(map, 1);
    }
}

/* The parts from `first` on were overwritten. If a kernel that was queued before fails, their bytes
 * are not lost. */
static void
note_overwritten(const struct group *group, size_t first, size_t count, size_t done)
{
    ferryi_store *store = store_of(group->parts[first].target_owner);
    if (group->move->change != FERRYI_CHANGE_OVERWRITE || !ferryi_pending_calls_are_pending(store))
        return;
    for (size_t i = first; i < first + count && done > 0; i++) {
        size_t begin = target_offset(&group->parts[i]),
               bytes = arrived(group, &group->parts[i], &done);
        ferryi_pending_calls_overwritten(store, group->parts[i].note, begin, begin + bytes);
    }
}

/* Records in the buffer of `count` parts that the transfer writes it, and marks the first `done`
 * bytes of these parts as current. The bytes that a move covers are marked when it ends. */
static void
settle_store(const struct group *group, size_t first, size_t count, size_t done)
{
    ferryi_store *store = store_of(group->parts[first].target_owner);
    struct ferryi_move *move = group->move;
    const bool noted = is_noted(group, true);
    note_overwritten(group, first, count, done);
    for (bool settled = move->covers && !noted; !settled;) {
        ferryi_sync_point other = 0;
        ferryi_store_lock(store);
        if (noted)
            move->written =
                ferryi_store_try_note_write(store, place_of(group, true), group->timeline, &other);
        settled = !noted || move->written;
        if (settled && !move->covers)
            commit_locked(group, first, count, done);
        ferryi_store_unlock(store);
        if (!settled)
            ferryi_store_await_write(store, place_of(group, true), group->timeline, other);
    }
}

/* Records what a transfer did to its buffers. `done` is the number of bytes of the targets that
 * have arrived. A use is recorded even after a failure, because parts of the transfer may be
 * queued. */
static void
settle(const struct group *group, size_t done)
{
    if (is_noted(group, false) && !group->parts->zeros)
        (void)each_store(group, note_source);
    if (group->uploads)
        ferryi_timeline_record_upload(group->uploads);
    for (size_t i = 0, count; i < group->count; i += count) {
        count = count_of_store(group, i);
        if (group->parts[i].target_owner)
            settle_store(group, i, count, done);
        for (size_t j = i; j < i + count; j++)
            (void)arrived(group, &group->parts[j], &done);
    }
}

/* Marks those parts of a failed transfer as current that have arrived. If there is no room in the
 * valid map, they stay stale. */
static void
commit_arrived(const struct group *group, size_t done)
{
    FERRYI_KEEP_ERROR(why);
    for (size_t i = 0; i < group->count && done > 0; i++) {
        struct ferryi_piece part = group->parts[i];
        part.bytes = arrived(group, &part, &done);
        (void)mark_part(group->move, &part);
    }
}

/* Returns the buffer that is counted as having received the bytes of a part, or sent them: the
 * target, unless it is no buffer or only temporary storage. Returns NULL if neither is a buffer. */
static const void *
carrier_of(const struct ferryi_piece *part)
{
    return part->between || !part->target_owner ? part->source_owner : part->target_owner;
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
add_bytes(const struct group *group, size_t done, bool crossed)
{
    struct ferryi_move *move = group->move;
    const void *last = NULL;
    struct ferryi_moved_store *sums = NULL;
    for (size_t i = 0; i < group->count && done > 0; i++) {
        const struct ferryi_piece *part = &group->parts[i];
        const void *owner = crossed ? host_owner_of(part) : carrier_of(part);
        size_t bytes = ferryi_min_size(part->bytes, done);
        if (owner && owner != last)
            sums = &move->stores[find_store(move, store_of(last = owner))];
        if (owner)
            *(crossed ? &sums->crossed : &sums->carried) += bytes;
        done -= bytes;
    }
}

static bool
crosses_pageable(const struct ferryi_piece *part)
{
    return !part->zeros && !part->pinned && (part->source_place == 0) != (part->target_place == 0);
}

static ferry_direction
direction_of(const struct ferryi_piece *part)
{
    return part->target_place == 0   ? FERRY_DIRECTION_DOWNLOAD
           : part->source_place == 0 ? FERRY_DIRECTION_UPLOAD
                                     : FERRY_DIRECTION_PEER;
}

/* Counts the first `done` bytes of a transfer: what crossed between pageable host memory and a
 * device, and, in the traffic counters of each buffer, one transfer. If both sides are buffers,
 * only the target's counters change, unless the target is temporary storage. Bytes that stay at
 * their place are not counted. */
static void
count_group(const struct group *group, size_t done)
{
    struct ferryi_move *move = group->move;
    const struct ferryi_piece *first = group->parts;
    if (first->zeros || first->target_place == first->source_place)
        return;
    if (crosses_pageable(first))
        add_bytes(group, done, true);
    add_bytes(group, done, false);
    for (size_t i = 0; i < move->store_count; i++) {
        if (move->stores[i].carried > 0)
            ferryi_traffic_count(ferryi_store_traffic(move->stores[i].store), direction_of(first),
                                 move->stores[i].carried);
        move->stores[i].carried = 0;
    }
}

/* Does the same as count_group() for a move with a single part. */
static void
count_alone(const struct ferryi_piece *part, size_t done)
{
    if (part->zeros || done == 0 || part->target_place == part->source_place)
        return;
    const void *crossing = host_owner_of(part), *carrying = carrier_of(part);
    if (carrying)
        ferryi_traffic_count(ferryi_store_traffic(store_of(carrying)), direction_of(part), done);
    if (crossing && crosses_pageable(part))
        count_crossed(store_of(crossing), done);
}

/* -- one transfer ------------------------------------------------------------------------------ */

/* Returns the buffer that messages about a transfer name, or NULL. */
static const ferryi_store *
find_named(const struct group *group)
{
    const struct ferryi_piece *first = group->parts;
    bool of_source = !first->target_owner || (first->between && first->source_owner);
    const void *owner = of_source ? first->source_owner : first->target_owner;
    return owner ? store_of(owner) : group->move->subject;
}

/* Returns whether the trace names the buffer and the range of a transfer with the transfer itself,
 * and not with each of its pieces. */
static bool
names_itself(const struct group *group)
{
    return group->move->subject && group->count == 1;
}

/* Returns the offset of a part in the buffer that is the subject of its move. */
static size_t
offset_of(const ferryi_store *subject, const struct ferryi_piece *part)
{
    ferryi_claim_is_held();
    const bool of_target = part->target_owner == subject;
    const void *owner = of_target ? part->target_owner : part->source_owner;
    const char *memory = of_target ? part->target : part->source;
    int place = of_target ? part->note : part->source_place;
    return owner == subject
               ? (size_t)(memory - (const char *)ferryi_claimed_copy(subject, place)->pointer)
               : SIZE_MAX;
}

/* Prepares the job of a transfer. `named` is the buffer that messages name, or NULL. */
static void
describe_job(const struct group *group, struct ferryi_transfer_job *job, const ferryi_store *named)
{
    const struct ferryi_move *move = group->move;
    const struct ferryi_piece *first = group->parts;
    job->buffer = named ? ferryi_store_name(named) : "";
    job->offset = SIZE_MAX;
    job->id = 0;
    if (names_itself(group)) {
        const size_t offset = offset_of(move->subject, first);
        job->id = ferryi_store_number(move->subject);
        job->offset = offset == SIZE_MAX ? SIZE_MAX : offset - job->done;
    }
    /* The engine must not count the traffic, because it is counted for each buffer. */
    job->traffic = NULL;
    job->foreign_source = !first->source_owner && !first->zeros;
    job->foreign_target = !first->target_owner;
}

/*
 * Returns whether a transfer can be queued on the stream of the access that needs its bytes. This
 * costs less than ordering an internal stream before and after it. The result is true only for
 * short uploads from pinned memory. The caller has checked that the stream is not being captured.
 * Sets `group->uploads` to the timeline on which the read of the host replica is recorded. The next
 * write to the host replica then waits for the upload, but not for later work on the stream.
 */
static bool
goes_straight(struct group *group)
{
    const struct ferryi_piece *part = group->parts;
    ferryi_timeline *stream = group->move->stream;
    return stream && stream->is_plain && !stream->internal && stream->place == part->target_place &&
           group->count == 1 && !part->zeros && part->source_place == 0 && part->pinned &&
           part->bytes <= STRAIGHT_BYTES && ferryi_timeline_of_uploads(stream, &group->uploads);
}

static ferry_status
open_timeline(struct group *group, const ferryi_store *named)
{
    const struct ferryi_move *move = group->move;
    const struct ferryi_piece *first = group->parts;
    int source_place = first->zeros ? first->target_place : first->source_place;
    if (goes_straight(group)) {
        group->timeline = move->stream;
        return FERRY_OK;
    }
    return named ? ferryi_store_timeline(named, first->target_place, source_place, move->reason,
                                         &group->timeline)
                 : ferryi_engine_timeline(move->context->engine, first->target_place, source_place,
                                          &group->timeline);
}

static ferry_status
transfer(struct group *group, struct ferryi_transfer_job *job)
{
    struct ferryi_move *move = group->move;
    ferryi_engine *engine = move->context->engine;
    const bool passes = move->host_side.file || move->host_side.transform;
    ferry_status status =
        group->parts->zeros && !move->host_side.file
            ? ferryi_engine_fill_pieces(engine, group->parts, group->count, move->value,
                                        move->value_bytes, group->timeline, job)
            : ferryi_engine_copy_pieces(engine, group->parts, group->count, move->layout,
                                        passes ? &move->host_side : NULL, group->timeline, job);
    /* A transfer into pageable memory is complete when it returns. */
    group->complete = status == FERRY_OK && is_download(group->parts) && !group->parts->pinned;
    if (group->timeline)
        move->timelines |= UINT64_C(1) << group->timeline->number;
    return status;
}

static ferry_status
run_group(struct group *group)
{
    struct ferryi_move *move = group->move;
    const struct ferryi_piece *first = group->parts;
    const ferryi_store *named = find_named(group);
    struct ferryi_transfer_job quiet = {.reason = move->reason},
                               *job = first->between ? &quiet : move->job;
    describe_job(group, job, named);
    size_t before = job->done;
    ferry_status status = open_timeline(group, named);
    if (status == FERRY_OK)
        status = each_store(group, order_store);
    if (status == FERRY_OK)
        status = transfer(group, job);
    const size_t done = job->done - before;
    if (move->context->trace && job != &quiet && !names_itself(group))
        ferryi_observe_pieces(move->context, group->parts, group->count,
                              counted(move, first, done, false), move->reason);
    settle(group, done);
    if (move->covers && status != FERRY_OK)
        commit_arrived(group, done);
    move->seen = false;
    if (move->count == 1)
        count_alone(first, counted(move, first, done, false));
    else
        count_group(group, counted(move, first, done, false));
    if (status == FERRY_ERROR_DEVICE_LOST) {
        group->lost =
            ferryi_access_lost_places(move->context, first->target_place, first->source_place);
        (void)each_store(group, lose_store);
    }
    return status;
}

/* Releases the room that was reserved for parts that are not moved. */
static void
commit_nothing(const struct group *group)
{
    for (size_t i = 0; i < group->count; i++)
        release_reservation(group->move, &group->parts[i]);
}

/* Returns how many parts from `first` on, which are alike, are moved in one transfer. An access
 * brings each long part of pageable memory by itself, because helper threads stage only single
 * parts. */
static size_t
count_alike(const struct ferryi_move *move, size_t first)
{
    const struct ferryi_piece *parts = &move->parts[first];
    size_t count = 1;
    while (first + count < move->count && sort_of(&parts[count]) == sort_of(parts) &&
           !(move->covers && crosses_pageable(parts) &&
             (parts[0].bytes > MERGED_BYTES || parts[count].bytes > MERGED_BYTES)))
        count++;
    return count;
}

/* Marks the range that a move covers as current, or releases the room that was reserved for it. */
static void
end_covered(const struct ferryi_move *move, bool arrived_all)
{
    ferryi_store *store = store_of(move->subject);
    ferryi_store_lock(store);
    if (arrived_all)
        ferryi_valid_map_commit(&store->map, move->covered_place, move->change, move->covered.begin,
                                move->covered.end);
    else
        ferryi_valid_map_unreserve(&store->map, 1);
    ferryi_store_unlock(store);
}

ferry_status
ferryi_move_run(struct ferryi_move *move, ferry_status status)
{
    if (status == FERRY_OK)
        sort_parts(move);
    for (size_t i = 0; i < move->count;) {
        struct group group = {
            .move = move, .parts = &move->parts[i], .count = count_alike(move, i)};
        if (status == FERRY_OK)
            status = run_group(&group);
        else
            commit_nothing(&group);
        i += group.count;
    }
    move->count = 0;
    if (move->covers && move->covered.begin < move->covered.end)
        end_covered(move, status == FERRY_OK);
    return status;
}
