/* SPDX-License-Identifier: MIT */
#include "src/store/claim.h"

#include <stdlib.h>

/*
 * Claims of many ranges of one buffer at once. A call that opens n ranges takes a time of about
 * n log n: it merges the ranges that overlap, and adds the claims of one buffer in one step. If the
 * ranges were claimed one after another, each would be compared with all those before it.
 */

/* -- merging ----------------------------------------------------------------------------------- */

int
ferryi_access_compare(const void *a, const void *b)
{
    const struct ferryi_access *x = a, *y = b;
    const int order = ferryi_compare((uintptr_t)x->store, (uintptr_t)y->store);
    return order ? order : ferryi_compare(x->begin, y->begin);
}

static uint8_t
merged_access(uint8_t a, uint8_t b)
{
    return a == b ? a : FERRY_UPDATE;
}

/* Fills `order` with the indexes of the accesses in sorted order. This is a Shell sort, because it
 * needs no memory, and is a plain insertion sort for the few arguments of a launch. */
static void
sort_indexes(const struct ferryi_access *wanted, size_t count, size_t *order)
{
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t gap = count; gap > 1;) {
        gap = ferryi_max_size(gap * 5 / 11, 1);
        for (size_t i = gap; i < count; i++) {
            size_t next = order[i], at = i;
            for (; at >= gap && ferryi_access_compare(&wanted[next], &wanted[order[at - gap]]) < 0;
                 at -= gap)
                order[at] = order[at - gap];
            order[at] = next;
        }
    }
}

/* Returns the index of the last merged range that begins at or before the range `own`. */
static size_t
find_merged(const struct ferryi_access *merged, size_t count, const struct ferryi_access *own)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (ferryi_access_compare(&merged[middle], own) <= 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

size_t
ferryi_access_merge(const struct ferryi_access *wanted, size_t count, struct ferryi_access *merged,
                    size_t *group)
{
    /* The array `group` first receives the indexes of the ranges in sorted order, and later the
     * result. This saves a second array. */
    sort_indexes(wanted, count, group);
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        const struct ferryi_access *next = &wanted[group[i]];
        struct ferryi_access *last = left ? &merged[left - 1] : NULL;
        if (last && last->store == next->store && next->begin < last->end) {
            last->end = ferryi_max_size(last->end, next->end);
            last->access = merged_access(last->access, next->access);
            last->to_end |= next->to_end;
        } else {
            merged[left++] = *next;
        }
    }
    for (size_t i = 0; i < count; i++)
        group[i] = find_merged(merged, left, &wanted[i]);
    return left;
}

/* -- claiming many ranges ---------------------------------------------------------------------- */

/* Returns how many accesses at the start of the list are disjoint ranges of one buffer. Accesses
 * that need more than a comparison with the open claims do not count. */
static size_t
count_group(const struct ferryi_access *list, size_t count)
{
    size_t same = 0;
    while (same < count && list[same].store == list->store && !list[same].whole &&
           !list[same].pieces && !list[same].under && !list[same].to_end &&
           (same == 0 || list[same - 1].end <= list[same].begin))
        same++;
    return same;
}

/* Returns the index of the first access of the sorted list that ends after the byte `at`. */
static size_t
first_after(const struct ferryi_access *list, size_t count, size_t at)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Returns whether no access of the group must wait for an open claim or fail because of one. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
may_proceed(struct ferryi_access *list, size_t count)
{
    ferryi_store *store = list->store;
    uint32_t left = store->claim_count;
    for (uint32_t slot = 0; left > 0; slot++) {
        const struct ferryi_claim *claim = &store->claims[slot];
        if (claim->state == FERRYI_CLAIM_FREE)
            continue;
        left--;
        for (size_t at = first_after(list, count, claim->begin);
             at < count && list[at].begin < claim->end; at++) {
            enum ferryi_conflict conflict = ferryi_claim_conflict(store, claim, &list[at], false);
            if (conflict > FERRYI_CONFLICT_OWN)
                return false;
            list[at].meets_own = list[at].meets_own || conflict == FERRYI_CONFLICT_OWN;
        }
    }
    return true;
}

/* Result of an attempt to claim a group: done, not possible, or possible with a larger table or
 * with more memory for the valid map. */
enum attempt { DONE, IMPOSSIBLE, LACKS_SLOTS, LACKS_MEMORY };

static enum attempt
try_group(struct ferryi_access *list, size_t count, struct ferryi_map_supply *supply,
          uint32_t *out_capacity)
{
    ferryi_store *store = list->store;
    enum attempt attempt = DONE;
    uint32_t writes = 0;
    for (size_t i = 0; i < count; i++) {
        writes += ferryi_claim_writes(list[i].access);
        list[i].meets_own = false;
    }
    ferryi_store_lock(store);
    *out_capacity = store->claim_capacity;
    if (!ferryi_store_is_usable(store) || list[count - 1].end > store->map.bytes ||
        !may_proceed(list, count))
        attempt = IMPOSSIBLE;
    else if (count > store->claim_capacity - store->claim_high)
        attempt = LACKS_SLOTS;
    else if (writes > 0 && !ferryi_valid_map_reserve(&store->map, writes, supply))
        attempt = LACKS_MEMORY;
    for (size_t i = 0; i < count && attempt == DONE; i++)
        ferryi_claim_add(&list[i], store->claim_high);
    ferryi_store_unlock(store);
    return attempt;
}

/*
 * Claims the first accesses of a sorted list in one step, as many as are disjoint ranges of one
 * buffer. Claims none of them if one would have to wait or to fail, and returns 0; the caller then
 * claims them one by one, which also finds out why. Called without the buffer's lock.
 * @return the number of claimed accesses
 */
static size_t
claim_group(struct ferryi_access *list, size_t count)
{
    size_t same = count_group(list, count);
    if (same < 2)
        return 0;
    struct ferryi_map_supply supply = {0};
    ferry_status status = FERRY_OK;
    enum attempt attempt = LACKS_SLOTS;
    while (status == FERRY_OK && (attempt == LACKS_SLOTS || attempt == LACKS_MEMORY)) {
        uint32_t capacity;
        attempt = try_group(list, same, &supply, &capacity);
        if (attempt == LACKS_SLOTS)
            status = ferryi_claim_grow_table(list->store, capacity);
        else if (attempt == LACKS_MEMORY)
            status = ferryi_map_supply_make(&supply);
    }
    ferryi_map_supply_free(&supply);
    return attempt == DONE ? same : 0;
}

ferry_status
ferryi_claim_share_read(const struct ferryi_access *from, struct ferryi_access *part)
{
    ferryi_store *store = from->store;
    for (;;) {
        ferryi_store_lock(store);
        uint32_t slot = store->claim_high, capacity = store->claim_capacity;
        if (slot < capacity) {
            ferryi_claim_add(part, slot);
            store->claims[slot].state = FERRYI_CLAIM_HELD;
            store->claims[slot].copy = ferryi_store_copy(store, part->place);
            part->pointer = (char *)from->pointer + (part->begin - from->begin);
        }
        ferryi_store_unlock(store);
        if (slot < capacity)
            return FERRY_OK;
        FERRYI_OR_RETURN(ferryi_claim_grow_table(store, capacity));
    }
}

ferry_status
ferryi_access_claim(struct ferryi_access *list, size_t count)
{
    /* All calls lock their ranges in the same order. So two calls that use the same buffers cannot
     * deadlock. */
    if (count > 1)
        qsort(list, count, sizeof(*list), ferryi_access_compare);
    for (size_t i = 0; i < count;) {
        size_t claimed = claim_group(list + i, count - i);
        ferry_status status = claimed > 0 ? FERRY_OK : ferryi_claim_one(&list[i]);
        if (status != FERRY_OK) {
            while (i-- > 0)
                ferryi_claim_drop(&list[i]);
            return status;
        }
        i += ferryi_max_size(claimed, 1);
    }
    return FERRY_OK;
}
