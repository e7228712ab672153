/* SPDX-License-Identifier: MIT */
#include "src/move/move_inside.h"

/* Makes parts of ranges of buffers (move.h): one for each stretch that is current at the same
 * places. */

/* Returns the memory of a buffer's replica at a place, from offset `begin` on. If the place uses
 * host memory, the place in the result is the host. */
static struct ferryi_memory
memory_at(ferryi_store *store, int place, size_t begin)
{
    ferryi_claim_is_held();
    return ferryi_store_memory(store, ferryi_store_home(store, place), begin);
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
     * sides are at the host, and if the device is no peer of the one that page-locked the memory.
     */
    if (memory.place == 0)
        part->pinned = memory.pinned;
    const int device = memory.place == 0 ? part->target_place : memory.place;
    part->pinned = part->pinned && ferryi_engine_takes_pinned(store->context->engine, device);
}

/* Creates the traffic counters of the buffer for which a transfer counts, if it has none because it
 * never had a replica on a device. A transfer between two buffers counts for the target, and a
 * transfer into temporary storage for the source. */
static ferry_status
make_counters(const struct ferryi_move *move, const struct ferryi_piece *part)
{
    ferryi_store *store = ferryi_part_buffer(move, part);
    bool counts = store && part->target_place != part->source_place;
    return counts ? ferryi_store_make_counters(store, "copy to") : FERRY_OK;
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

/* Returns whether the elements of a part can be converted if it reads its source at `place`: the
 * host converts if one side is host memory, and otherwise the device of both sides may. */
static bool
converts_from(const struct ferryi_transform *transform, const ferryi_store *source, int place,
              const struct ferryi_piece *part)
{
    const int home = ferryi_store_home(source, place);
    return home == 0 || part->target_place == 0 ||
           (home == part->target_place && transform->queues_at &&
            transform->queues_at(transform->user, home));
}

/* Removes the places from a segment at which a part cannot read elements that it converts. */
static void
keep_convertible(const struct ferryi_transform *transform, const ferryi_store *source,
                 struct ferryi_segment *segment, const struct ferryi_piece *part)
{
    for (ferryi_places left = segment->places; left; left &= left - 1)
        if (!converts_from(transform, source, __builtin_ctz(left), part))
            segment->places &= ~(left & -left);
}

/* Extends a segment, which begins with an element, until it ends with one, as long as the next
 * bytes are current at one of its places, too. Then removes the places at which they are not. A
 * read of another thread may have split the segment within an element. */
static void
extend_to_element(const struct ferryi_transform *transform, ferryi_store *source, size_t end,
                  struct ferryi_segment *segment)
{
    while (segment->end < end && (segment->end - segment->begin) % transform->source_bytes != 0) {
        const struct ferryi_segment next = segment_at(source, segment->end, end);
        if (!ferryi_places_written(next.places) || !(segment->places & next.places))
            return;
        segment->places &= next.places;
        segment->end = next.end;
    }
}

/* Prepares a segment, which begins with an element and ends before `end`, for a conversion. Returns
 * false if it cannot be converted by itself. Lost bytes are another failure. */
static bool
prepare_to_convert(const struct ferryi_transform *transform, ferryi_store *source, size_t end,
                   struct ferryi_segment *segment, const struct ferryi_piece *part)
{
    const bool is_written = ferryi_places_written(segment->places);
    if (segment->places & FERRYI_LOST)
        return true;
    if (is_written) {
        keep_convertible(transform, source, segment, part);
        extend_to_element(transform, source, end, segment);
    }
    return (segment->end - segment->begin) % transform->source_bytes == 0 &&
           (is_written ? segment->places != 0 : transform->keeps_zeros);
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

/* Sets the size of a part that reads `bytes` bytes of its source. */
static void
set_size(const struct ferryi_move *move, struct ferryi_piece *part, size_t bytes)
{
    const struct ferryi_transform *transform = move->host_side.transform;
    part->bytes = bytes;
    if (!transform)
        return;
    part->pinned = false; /* the host itself reads or writes its side */
    part->unit = (uint32_t)(ferryi_part_is_download(part) ? transform->source_bytes
                                                          : transform->target_bytes);
    if (!ferryi_part_is_download(part))
        part->bytes = bytes / transform->source_bytes * transform->target_bytes;
}

/* Adds a read of one segment of the source. All bytes of a segment are current at the same places.
 */
static ferry_status
add_segment(struct ferryi_move *move, ferryi_store *source, struct ferryi_segment segment,
            struct ferryi_piece part)
{
    if (segment.places & FERRYI_LOST)
        return ferryi_store_fail_lost(source, (struct ferryi_range){segment.begin, segment.end},
                                      move->reason);
    part.zeros = !ferryi_places_written(segment.places);
    part.source = NULL;
    if (!part.zeros)
        ferryi_part_set_source(&part, source, place_to_read(move, source, segment, &part),
                               segment.begin);
    set_size(move, &part, segment.end - segment.begin);
    if (!part.zeros)
        FERRYI_OR_RETURN(make_counters(move, &part));
    return ferryi_move_add(move, &part);
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
        move->cut = transform && !prepare_to_convert(transform, source, range.end, &segment, &part);
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
        status = part.target == part.source ? ferryi_part_mark(move, &part)
                                            : ferryi_move_add(move, &part);
    }
    return status;
}
