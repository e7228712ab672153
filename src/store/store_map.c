/* SPDX-License-Identifier: MIT */
#include "src/store/store.h"

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

bool
ferryi_store_find_only_at(const ferryi_store *store, struct ferryi_range range,
                          ferryi_places places, struct ferryi_range *out)
{
    size_t end = ferryi_min_size(range.end, store->map.bytes);
    for (size_t at = range.begin; at < end; at = out->end) {
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        *out = (struct ferryi_range){at, ferryi_min_size(segment.end, end)};
        if ((segment.places & places) && !(segment.places & ~places))
            return true;
    }
    return false;
}
