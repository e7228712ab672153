/* SPDX-License-Identifier: MIT */
#include "src/pool/size_tree.h"

static bool
is_before(const ferry_block *a, const ferry_block *b)
{
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->in_sizes.rank < b->in_sizes.rank;
}

/* The finalizer of splitmix64: a bijection, so that no two ranks are at one height. */
static uint64_t
height(const ferry_block *block)
{
    uint64_t z = block->in_sizes.rank + UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

void
ferryi_size_tree_insert(ferry_block **at, ferry_block *block)
{
    while (*at && height(*at) > height(block))
        at = is_before(block, *at) ? &(*at)->in_sizes.left : &(*at)->in_sizes.right;

    /* What is below goes to its two sides. */
    ferry_block *rest = *at, **left = &block->in_sizes.left, **right = &block->in_sizes.right;
    *at = block;
    while (rest) {
        if (is_before(rest, block)) {
            *left = rest;
            left = &rest->in_sizes.right;
            rest = *left;
        } else {
            *right = rest;
            right = &rest->in_sizes.left;
            rest = *right;
        }
    }
    *left = *right = NULL;
}

void
ferryi_size_tree_remove(ferry_block **at, ferry_block *block)
{
    while (*at != block)
        at = is_before(block, *at) ? &(*at)->in_sizes.left : &(*at)->in_sizes.right;

    ferry_block *left = block->in_sizes.left, *right = block->in_sizes.right;
    while (left && right) {
        if (height(left) > height(right)) {
            *at = left;
            at = &left->in_sizes.right;
            left = *at;
        } else {
            *at = right;
            at = &right->in_sizes.left;
            right = *at;
        }
    }
    *at = left ? left : right;
}

ferry_block *
ferryi_size_tree_find(ferry_block *root, size_t bytes)
{
    ferry_block *best = NULL;
    for (ferry_block *at = root; at;
         at = at->bytes >= bytes ? at->in_sizes.left : at->in_sizes.right)
        if (at->bytes >= bytes)
            best = at;
    return best;
}

ferry_block *
ferryi_size_tree_next(ferry_block *root, const ferry_block *block)
{
    ferry_block *best = NULL;
    for (ferry_block *at = root; at;) {
        bool after = !block || is_before(block, at);
        if (after)
            best = at;
        at = after ? at->in_sizes.left : at->in_sizes.right;
    }
    return best;
}
