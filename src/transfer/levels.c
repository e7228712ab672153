/* SPDX-License-Identifier: MIT */
#include "src/transfer/levels.h"

#include <stdlib.h>
#include <string.h>

static int
compare_points(const void *space_a, uintptr_t a, const void *space_b, uintptr_t b)
{
    const int order = ferryi_compare((uintptr_t)space_a, (uintptr_t)space_b);
    return order ? order : ferryi_compare(a, b);
}

static int
by_begin(const void *a, const void *b)
{
    const struct ferryi_use *x = a, *y = b;
    return compare_points(x->space, x->begin, y->space, y->begin);
}

/* -- sorting: by radix sort, because comparisons would take longer than all other steps -------- */

/* Minimum length of a list that is sorted with radix sort. Shorter lists are sorted with qsort().
 */
#define DIGITS_FROM 64
#define DIGIT_BITS  11
#define DIGITS      (1u << DIGIT_BITS)

/* The position of a use in the list, and the number by which the list is sorted. */
struct ranked {
    uintptr_t key;
    size_t index;
};

/* Memory that one sort needs: room for all uses, and twice their ranks. */
struct spare {
    struct ferryi_use *uses;
    struct ranked *ranks[2];
};

static uintptr_t
key_of(const struct ferryi_use *use, bool by_space)
{
    return by_space ? (uintptr_t)use->space : use->begin;
}

/* Makes one pass of a radix sort: sorts the ranks by the digit of the key that begins at bit
 * `shift`. Ranks with equal digits keep their order. */
static void
sort_by_digit(const struct ranked *ranks, size_t count, unsigned shift, struct ranked *out)
{
    uint32_t ends[DIGITS + 1] = {0};
    for (size_t i = 0; i < count; i++)
        ends[(ranks[i].key >> shift) % DIGITS + 1]++;
    for (size_t digit = 1; digit < DIGITS; digit++)
        ends[digit] += ends[digit - 1];
    /* ends[digit] is the index in `out` at which the next rank with this digit is stored. */
    for (size_t i = 0; i < count; i++)
        out[ends[(ranks[i].key >> shift) % DIGITS]++] = ranks[i];
}

/* Sorts the uses by memory space if `by_space` is true, and by their first address if it is false.
 */
static void
sort_by_key(struct ferryi_use *uses, size_t count, bool by_space, const struct spare *spare)
{
    struct ranked *from = spare->ranks[0], *to = spare->ranks[1];
    const uintptr_t first = key_of(uses, by_space);
    uintptr_t differing = 0, before = first;
    bool sorted = true;
    for (size_t i = 0; i < count; i++) {
        const uintptr_t key = key_of(&uses[i], by_space);
        from[i] = (struct ranked){key, i};
        differing |= key ^ first;
        sorted &= before <= key;
        before = key;
    }
    if (sorted)
        return;
    for (unsigned shift = 0; shift < 8 * sizeof(differing); shift += DIGIT_BITS) {
        if ((differing >> shift) % DIGITS == 0)
            continue;
        sort_by_digit(from, count, shift, to);
        struct ranked *other = from;
        from = to;
        to = other;
    }
    memcpy(spare->uses, uses, count * sizeof(*uses));
    for (size_t i = 0; i < count; i++)
        uses[i] = spare->uses[from[i].index];
}

static bool
are_sorted(const struct ferryi_use *uses, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (by_begin(&uses[i - 1], &uses[i]) > 0)
            return false;
    return true;
}

static bool
make_spare(struct ferryi_arena *arena, size_t count, struct spare *out)
{
    *out = (struct spare){.uses = ferryi_arena_take(arena, count, sizeof(*out->uses))};
    for (int i = 0; i < 2; i++)
        out->ranks[i] = ferryi_arena_take(arena, count, sizeof(**out->ranks));
    return out->uses && out->ranks[0] && out->ranks[1];
}

void
ferryi_levels_sort(struct ferryi_arena *arena, struct ferryi_use *uses, size_t count)
{
    struct spare spare;
    if (are_sorted(uses, count))
        return;
    if (count < DIGITS_FROM || count > UINT32_MAX || !make_spare(arena, count, &spare)) {
        qsort(uses, count, sizeof(*uses), by_begin);
        return;
    }
    sort_by_key(uses, count, true, &spare);
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count && uses[end].space == uses[begin].space;)
            end++;
        if (end - begin < DIGITS_FROM)
            qsort(uses + begin, end - begin, sizeof(*uses), by_begin);
        else
            sort_by_key(uses + begin, end - begin, false, &spare);
    }
}

/* Returns whether every range that is written is disjoint from all other ranges in the list. */
static bool
are_independent(const struct ferryi_use *uses, size_t count)
{
    uintptr_t any_end = 0, write_end = 0;
    for (size_t i = 0; i < count; i++) {
        const struct ferryi_use *use = &uses[i];
        if (i == 0 || use->space != uses[i - 1].space)
            any_end = write_end = 0;
        if (use->begin < write_end || (use->writes && use->begin < any_end))
            return false;
        any_end = use->end > any_end ? use->end : any_end;
        if (use->writes)
            write_end = use->end > write_end ? use->end : write_end;
    }
    return true;
}

/* -- the tree: for each range between two neighbouring points, it stores 1 + the highest level of a
 * copy that reads the range, and 1 + the highest level of a copy that writes it -- */

struct point {
    const void *space;
    uintptr_t at;
};

struct node {
    /* highest value (1 + the level of a copy) that was noted for the whole range of this tree node:
     * [0] for reads, [1] for writes */
    uint32_t all[2];
    uint32_t most[2]; /* highest value that was noted for this tree node or any node below it */
};

struct tree {
    struct point *points; /* sorted, without duplicates */
    size_t count;
    struct node *nodes; /* array of tree nodes; nodes[count + i] is the leaf for the bytes between
                           points i and i + 1 */
};

static int
by_place(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    return compare_points(x->space, x->at, y->space, y->at);
}

static ferry_status
make_tree(struct ferryi_arena *arena, struct tree *tree, const struct ferryi_use *uses,
          size_t use_count)
{
    *tree = (struct tree){.points = ferryi_arena_take(arena, 2 * use_count, sizeof(*tree->points))};
    if (!tree->points)
        return FERRY_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < use_count; i++) {
        tree->points[2 * i] = (struct point){uses[i].space, uses[i].begin};
        tree->points[2 * i + 1] = (struct point){uses[i].space, uses[i].end};
    }
    qsort(tree->points, 2 * use_count, sizeof(*tree->points), by_place);
    for (size_t i = 0; i < 2 * use_count; i++) {
        if (i == 0 || by_place(&tree->points[tree->count - 1], &tree->points[i]) != 0)
            tree->points[tree->count++] = tree->points[i];
    }
    tree->nodes = ferryi_arena_take_zeroed(arena, 2 * tree->count, sizeof(*tree->nodes));
    return tree->nodes ? FERRY_OK : FERRY_ERROR_OUT_OF_MEMORY;
}

static size_t
leaf_of(const struct tree *tree, const void *space, uintptr_t at)
{
    struct point key = {space, at};
    const struct point *found = bsearch(&key, tree->points, tree->count, sizeof(key), by_place);
    return tree->count + (size_t)(found - tree->points);
}

static uint32_t
higher(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Returns the highest value (1 + the level of a copy) that was noted for this leaf of the tree or
 * for any of its ancestors. */
static uint32_t
highest_above(const struct tree *tree, size_t leaf, bool writes)
{
    uint32_t highest = 0;
    for (size_t node = leaf; node > 0; node /= 2)
        highest = higher(highest, tree->nodes[node].all[writes]);
    return highest;
}

/* Returns the highest value that was noted for any leaf from `left` to `right` - 1. A noted value
 * is 1 + the level of a copy. Considers only the copies' writes if `writes` is true, and only their
 * reads if it is false. */
static uint32_t
find_highest(const struct tree *tree, size_t left, size_t right, bool writes)
{
    uint32_t highest =
        higher(highest_above(tree, left, writes), highest_above(tree, right - 1, writes));
    for (; left < right; left /= 2, right /= 2) {
        if (left & 1)
            highest = higher(highest, tree->nodes[left++].most[writes]);
        if (right & 1)
            highest = higher(highest, tree->nodes[--right].most[writes]);
    }
    return highest;
}

static void
note_node(struct node *node, uint32_t value, bool writes)
{
    node->all[writes] = higher(node->all[writes], value);
    node->most[writes] = higher(node->most[writes], value);
}

static void
note(struct tree *tree, size_t left, size_t right, uint32_t value, bool writes)
{
    size_t ends[2] = {left, right - 1};
    for (; left < right; left /= 2, right /= 2) {
        if (left & 1)
            note_node(&tree->nodes[left++], value, writes);
        if (right & 1)
            note_node(&tree->nodes[--right], value, writes);
    }
    for (int i = 0; i < 2; i++) {
        for (size_t node = ends[i] / 2; node > 0; node /= 2)
            tree->nodes[node].most[writes] = higher(tree->nodes[node].most[writes], value);
    }
}

/* Groups the uses by copy, in the order of the copies. A use is a memory range that a copy reads or
 * writes. The uses of copy i are the elements index[i] to index[i + 1] - 1 of `*out_by_copy`, where
 * `index` is the array `*out_index`. */
static ferry_status
index_uses(struct ferryi_arena *arena, const struct ferryi_use *uses, size_t use_count,
           size_t copy_count, const struct ferryi_use ***out_by_copy, size_t **out_index)
{
    const struct ferryi_use **by_copy = ferryi_arena_take(arena, use_count, sizeof(*by_copy));
    size_t *index = ferryi_arena_take_zeroed(arena, copy_count + 2, sizeof(*index));
    *out_by_copy = by_copy;
    *out_index = index;
    if (!by_copy || !index)
        return FERRY_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < use_count; i++)
        index[uses[i].copy + 2]++;
    for (size_t copy = 2; copy < copy_count + 2; copy++)
        index[copy] += index[copy - 1];
    for (size_t i = 0; i < use_count; i++)
        by_copy[index[uses[i].copy + 1]++] = &uses[i];
    return FERRY_OK;
}

static uint32_t
place_copy(struct tree *tree, const struct ferryi_use *const *uses, size_t count)
{
    uint32_t level = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < count; i++) {
            size_t left = leaf_of(tree, uses[i]->space, uses[i]->begin),
                   right = leaf_of(tree, uses[i]->space, uses[i]->end);
            if (pass == 1) {
                note(tree, left, right, level + 1, uses[i]->writes);
                continue;
            }
            level = higher(level, find_highest(tree, left, right, true));
            if (uses[i]->writes)
                level = higher(level, find_highest(tree, left, right, false));
        }
    }
    return level;
}

ferry_status
ferryi_levels_cut(struct ferryi_arena *arena, struct ferryi_use *uses, size_t use_count,
                  uint32_t *levels, size_t copy_count, uint32_t *out_count)
{
    ferryi_levels_sort(arena, uses, use_count);
    memset(levels, 0, copy_count * sizeof(*levels));
    *out_count = copy_count > 0;
    if (are_independent(uses, use_count))
        return FERRY_OK;

    struct tree tree;
    const struct ferryi_use **by_copy;
    size_t *index;
    ferry_status status;
    FERRY_TRY(status, fail, make_tree(arena, &tree, uses, use_count));
    FERRY_TRY(status, fail, index_uses(arena, uses, use_count, copy_count, &by_copy, &index));
    for (size_t copy = 0; copy < copy_count; copy++) {
        levels[copy] = place_copy(&tree, by_copy + index[copy], index[copy + 1] - index[copy]);
        *out_count = higher(*out_count, levels[copy] + 1);
    }
    return FERRY_OK;
fail:
    return ferryi_fail(status, "cut a batch of %zu copies into levels: no memory", copy_count);
}
