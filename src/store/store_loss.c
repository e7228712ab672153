/* SPDX-License-Identifier: MIT */
#include "src/store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lost bytes: a device failed that alone had them, or a call that was to write them. */

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
    if (cold) {
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

void
ferryi_store_note_loss(ferryi_store *store, int place)
{
    if (place == FERRY_PLACE_HOST || ferryi_last_error_is_of_program())
        return;
    struct ferryi_kept_error why;
    ferryi_last_error_keep(&why);
    ferryi_store_lose(store, place, 0, ferryi_claimed_bytes(store), FERRY_ERROR_DEVICE_LOST,
                      why.message);
}

ferryi_places
ferryi_lost_places(ferry_context *context, int first, int second)
{
    struct ferryi_kept_error why;
    ferryi_last_error_keep(&why);
    const int both[] = {first, second};
    ferryi_places lost = 0;
    for (size_t i = 0; i < 2; i++) {
        size_t free_bytes, total_bytes;
        ferryi_device *device = context->devices[both[i]];
        if (device &&
            FERRYI_CALL(device, memory_info, &free_bytes, &total_bytes) == FERRY_ERROR_DEVICE_LOST)
            lost |= FERRYI_PLACE_BIT(both[i]);
    }
    ferryi_last_error_restore(&why);
    return lost ? lost : FERRYI_PLACE_BIT(first ? first : second);
}

/* Returns the first lost bytes of the range; an empty range if there are none. */
FERRYI_REQUIRES(ferryi_store_spin)
static struct ferryi_range
first_lost(const ferryi_store *store, struct ferryi_range range)
{
    size_t end = ferryi_min_size(range.end, store->map.bytes);
    struct ferryi_range lost = {0};
    for (size_t at = range.begin; at < end;) {
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        bool is_lost = segment.places & FERRYI_LOST;
        if (is_lost && lost.begin == lost.end)
            lost.begin = at;
        if (is_lost)
            lost.end = ferryi_min_size(segment.end, end);
        else if (lost.begin < lost.end)
            return lost;
        at = segment.end;
    }
    return lost;
}

bool
ferryi_store_has_lost(const ferryi_store *store, struct ferryi_range range)
{
    struct ferryi_range lost = first_lost(store, range);
    return lost.begin < lost.end;
}

ferry_status
ferryi_store_fail_lost(ferryi_store *store, struct ferryi_range range, const char *reason)
{
    char text[512], part[80] = "";
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    ferryi_store_lock(store);
    ferry_status status = ferryi_store_lost_status(cold);
    snprintf(text, sizeof(text), "%s", ferryi_store_lost_text(cold));
    struct ferryi_range lost = first_lost(store, range);
    ferryi_store_unlock(store);
    if (lost.begin > range.begin || lost.end < range.end)
        snprintf(part, sizeof(part), "of which bytes %zu to %zu", lost.begin, lost.end);
    return ferryi_fail(status, "%s bytes %zu to %zu of buffer \"%s\", %s were lost: %s", reason,
                       range.begin, range.end, ferryi_store_name(store), *part ? part : "which",
                       text);
}

ferry_status
ferryi_store_give_host_copy_up(ferryi_store *store)
{
    struct ferryi_kept_error why;
    ferryi_last_error_keep(&why);
    for (int place = 0; place <= store->context->place_count; place++)
        if (ferryi_store_same_memory(store, place, 0))
            ferryi_store_lose(store, place, 0, ferryi_claimed_bytes(store), FERRY_ERROR_DEVICE_LOST,
                              why.message);
    ferryi_store_lock(store);
    ferryi_store_copy(store, 0)->written = 0;
    ferryi_store_unlock(store);
    return ferryi_store_order(store, 0, NULL, true);
}
