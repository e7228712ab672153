/* SPDX-License-Identifier: MIT */
#include "src/store/claim_list.h"

/* Stores the union of the written ranges of `uses` in `out` if `writes` is true, or the union of
 * the read ranges if it is false. All `uses` belong to one buffer and are sorted by begin. Returns
 * the number of ranges in the union. */
static size_t
unite(const struct ferryi_use *uses, size_t count, bool writes, struct ferryi_interval *out)
{
    size_t made = 0;
    for (size_t i = 0; i < count; i++) {
        if (uses[i].writes != writes)
            continue;
        if (made > 0 && uses[i].begin <= out[made - 1].end)
            out[made - 1].end = ferryi_max_size(out[made - 1].end, uses[i].end);
        else
            out[made++] = (struct ferryi_interval){uses[i].begin, uses[i].end, writes};
    }
    return made;
}

/* Merges the sorted lists `reads` and `writes` into one sorted list. Bytes that are in both lists
 * become written bytes, and `*out_both` is set to true. */
static size_t
lay_over(const struct ferryi_interval *reads, size_t read_count,
         const struct ferryi_interval *writes, size_t write_count, struct ferryi_interval *out,
         bool *out_both)
{
    size_t made = 0, w = 0;
    for (size_t r = 0; r < read_count; r++) {
        size_t at = reads[r].begin;
        while (at < reads[r].end) {
            for (; w < write_count && writes[w].end <= at; w++)
                out[made++] = writes[w];
            if (w < write_count && writes[w].begin < reads[r].end) {
                *out_both = true;
                if (writes[w].begin > at)
                    out[made++] = (struct ferryi_interval){at, writes[w].begin, false};
                at = writes[w].end;
            } else {
                out[made++] = (struct ferryi_interval){at, reads[r].end, false};
                at = reads[r].end;
            }
        }
    }
    for (; w < write_count; w++)
        out[made++] = writes[w];
    return made;
}

/* Adds to the list one access that locks the ranges of all `uses`, which belong to one buffer.
 * `spans` has space for 2 * count ranges, and `work` for `count` ranges. Returns the number of
 * ranges that the access locks. */
static size_t
make_claim(struct ferryi_claim_list *list, const struct ferryi_use *uses, size_t count,
           const char *reason, struct ferryi_interval *spans, struct ferryi_interval *work)
{
    bool both = false;
    size_t reads = unite(uses, count, false, work), writes = unite(uses, count, true, work + reads);
    size_t made = lay_over(work, reads, work + reads, writes, spans, &both);
    struct ferryi_interval_set *interval_set = &list->interval_sets[list->count];
    *interval_set = (struct ferryi_interval_set){spans, made};
    list->items[list->count++] =
        (struct ferryi_access){.store = (ferryi_store *)(uintptr_t)uses->space,
                               .begin = spans[0].begin,
                               .end = spans[made - 1].end,
                               .access = writes == 0 ? FERRY_READ
                                         : both      ? FERRY_UPDATE
                                                     : FERRY_OVERWRITE,
                               .place = FERRYI_PLACE_NONE,
                               .reason = reason,
                               .pieces = interval_set};
    return made;
}

static size_t
same_space(const struct ferryi_use *uses, size_t count)
{
    size_t same = 1;
    while (same < count && uses[same].space == uses->space)
        same++;
    return same;
}

ferry_status
ferryi_claim_list_make(struct ferryi_claim_list *list, struct ferryi_arena *arena,
                       const struct ferryi_use *uses, size_t count, const char *reason)
{
    size_t stores = 0, made = 0;
    *list = (struct ferryi_claim_list){0};
    for (size_t i = 0; i < count; i += same_space(uses + i, count - i))
        stores += uses[i].space != NULL;
    list->items = ferryi_arena_take(arena, stores, sizeof(*list->items));
    list->interval_sets = ferryi_arena_take(arena, stores, sizeof(*list->interval_sets));
    list->spans = ferryi_arena_take(arena, 2 * count, sizeof(*list->spans));
    struct ferryi_interval *work = ferryi_arena_take(arena, count, sizeof(*work));
    if (!list->items || !list->interval_sets || !list->spans || !work)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "%s: no memory to list %zu ranges", reason,
                           count);
    for (size_t i = 0; i < count;) {
        size_t same = same_space(uses + i, count - i);
        if (uses[i].space)
            made += make_claim(list, uses + i, same, reason, list->spans + made, work);
        i += same;
    }
    return FERRY_OK;
}

size_t
ferryi_claim_list_find(const struct ferryi_claim_list *list, const ferryi_store *store)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)list->items[middle].store < (uintptr_t)store)
            low = middle + 1;
        else
            high = middle;
    }
    return low < list->count && list->items[low].store == store ? low : list->count;
}
