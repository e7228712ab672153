/* SPDX-License-Identifier: MIT */
#include "src/buffer/store.h"

#include <stdlib.h>
#include <string.h>

ferry_status
ferryi_store_reserve_changes(ferryi_store *store, uint32_t count)
{
    struct ferryi_map_supply supply = {0};
    ferry_status status = FERRY_OK;
    ferryi_store_lock(store);
    while (status == FERRY_OK && !ferryi_valid_map_reserve(&store->map, count, &supply)) {
        ferryi_store_unlock(store);
        status = ferryi_map_supply_make(&supply);
        ferryi_store_lock(store);
    }
    ferryi_store_unlock(store);
    ferryi_map_supply_free(&supply);
    return status;
}

void
ferryi_store_withdraw(ferryi_store *store, int place, enum ferryi_change change, size_t begin,
                      size_t end, bool room)
{
    if (begin < end && room)
        ferryi_valid_map_commit(&store->map, place, change, begin, end);
    else if (begin < end)
        ferryi_valid_map_commit_whole(&store->map, place, change);
    else if (room)
        ferryi_valid_map_unreserve(&store->map, 1);
}

ferryi_places
ferryi_store_common_places(ferryi_store *store, struct ferryi_range range)
{
    ferryi_places places = FERRYI_EVERY_PLACE;
    ferryi_store_lock(store);
    if (range.end > store->map.bytes) /* a resize may have made it shorter */
        places = 0;
    for (size_t at = range.begin; at < range.end && places;) {
        const struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        places &= ferryi_places_written(segment.places) ? segment.places : 0;
        at = segment.end;
    }
    ferryi_store_unlock(store);
    return places;
}

/* Marks the range as lost at `place`. If `everywhere`, the range counts as written at that place
 * first, so that no other place has its value. */
static void
lose(ferryi_store *store, int place, struct ferryi_range range, bool everywhere,
     ferry_status status, const char *text)
{
    char *copy = text ? strdup(text) : NULL;
    struct ferryi_store_cold *cold = ferryi_store_make_cold(store);
    bool room = ferryi_store_reserve_changes(store, everywhere ? 2 : 1) == FERRY_OK;
    ferryi_store_lock(store);
    /* A resize may have shortened the buffer since the range was computed. */
    size_t begin = range.begin, end = ferryi_min_size(range.end, store->map.bytes);
    char *old = copy;
    if (cold && begin < end) {
        old = cold->lost_text;
        cold->lost_status = status;
        cold->lost_text = copy;
    }
    if (everywhere)
        ferryi_store_withdraw(store, place, FERRYI_CHANGE_WRITE, begin, end, room);
    ferryi_store_withdraw(store, place, FERRYI_CHANGE_LOSE, begin, end, room);
    ferryi_store_unlock_waking(store);
    free(old);
}

void
ferryi_store_lose(ferryi_store *store, int place, size_t begin, size_t end, ferry_status status,
                  const char *text)
{
    lose(store, place, (struct ferryi_range){begin, end}, false, status, text);
}

void
ferryi_store_lose_value(ferryi_store *store, struct ferryi_range range, ferry_status status,
                        const char *text)
{
    lose(store, FERRY_PLACE_HOST, range, true, status, text);
}
