/* SPDX-License-Identifier: MIT */
#include "src/move/move.h"

/* Moves within one buffer, before a replica is given up or gets another block. */

/* Returns whether bytes of the range are current only at `place`. */
static bool
has_only_at(ferryi_store *store, struct ferryi_range range, int place)
{
    struct ferryi_range part;
    ferryi_store_lock(store);
    bool found = ferryi_store_find_only_at(store, range, FERRYI_PLACE_BIT(place), &part);
    ferryi_store_unlock(store);
    return found;
}

ferry_status
ferryi_move_only_at(ferryi_store *store, struct ferryi_range range, int place, int to,
                    const char *reason)
{
    struct ferryi_transfer_job job = {.moves = true};
    struct ferryi_move move;
    if (!has_only_at(store, range, place))
        return FERRY_OK;
    FERRYI_OR_RETURN(ferryi_store_reserve(store, to, NULL));
    ferryi_store_name_job(store, &job, reason, SIZE_MAX);
    ferryi_move_begin(&move, store->context, reason, &job);
    move.subject = store;
    move.change = FERRYI_CHANGE_READ;
    ferry_status status = ferryi_move_add_only_at(&move, store, range, place, to);
    status = ferryi_move_run(&move, status);
    ferryi_move_end(&move);
    return status;
}

ferry_status
ferryi_move_to_block(ferryi_store *store, int place, struct ferryi_range range, const char *reason,
                     struct ferryi_place_copy *fresh)
{
    const int home = ferryi_store_home(store, place);
    struct ferryi_piece part = {.target = (char *)fresh->pointer + range.begin,
                                .bytes = range.end - range.begin,
                                .target_place = (uint8_t)home,
                                .between = true};
    ferryi_timeline *timeline;
    struct ferryi_move move;
    FERRYI_OR_RETURN(ferryi_store_timeline(store, home, home, reason, &timeline));
    /* Work of the block's previous owner may still use the new block. The sync point in
     * fresh->written covers all such work, so the copy waits for this sync point. */
    FERRYI_OR_RETURN(ferryi_sync_point_wait(&store->context->order, timeline, fresh->written));
    if (part.bytes == 0)
        return FERRY_OK;
    ferryi_part_set_source(&part, store, home, range.begin);
    ferryi_move_begin(&move, store->context, reason, NULL);
    move.subject = store;
    ferry_status status = ferryi_move_run(&move, ferryi_move_add(&move, &part));
    ferryi_move_end(&move);
    if (timeline)
        fresh->written = ferryi_timeline_sync_point(timeline);
    return status;
}
