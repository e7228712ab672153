/* SPDX-License-Identifier: MIT */
#include "src/buffer/store.h"

#include <stdlib.h>
#include <string.h>

ferry_status
ferryi_store_promise(ferryi_store *store, uint32_t count)
{
    struct ferryi_map_supply supply = {0};
    ferry_status status = FERRY_OK;
    for (uint32_t done = 0; done < count && status == FERRY_OK;) {
        size_t chunks = 0, index = 0;
        ferryi_store_lock(store);
        while (done < count && ferryi_valid_map_promise(&store->map, &supply))
            done++;
        if (done < count)
            ferryi_valid_map_need(&store->map, &chunks, &index);
        ferryi_store_unlock(store);
        if (done == count)
            break;
        status = ferryi_map_supply_make(&supply, chunks, index);
        if (status != FERRY_OK) {
            ferryi_store_lock(store);
            while (done-- > 0)
                ferryi_valid_map_unpromise(&store->map);
            ferryi_store_unlock(store);
        }
    }
    ferryi_map_supply_free(&supply);
    return status;
}

/* Marks the range as lost at the place. Without room to split a segment, it marks the whole
 * replica. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
commit_loss(ferryi_store *store, int place, size_t begin, size_t end, bool room)
{
    if (begin < end && room)
        ferryi_valid_map_commit(&store->map, place, FERRYI_CHANGE_LOSE, begin, end);
    else if (begin < end)
        ferryi_valid_map_commit_whole(&store->map, place, FERRYI_CHANGE_LOSE);
    else if (room)
        ferryi_valid_map_unpromise(&store->map);
}

void
ferryi_store_lose(ferryi_store *store, int place, size_t begin, size_t end, ferry_status status,
                  const char *text)
{
    char *copy = text ? strdup(text) : NULL;
    struct ferryi_store_extra *extra = ferryi_store_make_extra(store);
    bool room = ferryi_store_promise(store, 1) == FERRY_OK;
    ferryi_store_lock(store);
    /* A resize may have shortened the store in the meantime. */
    end = ferryi_min_size(end, store->map.bytes);
    char *old = copy;
    if (extra && begin < end) {
        old = extra->lost_text;
        extra->lost_status = status;
        extra->lost_text = copy;
    }
    commit_loss(store, place, begin, end, room);
    ferryi_store_unlock_waking(store);
    free(old);
}
