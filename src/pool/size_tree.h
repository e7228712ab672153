/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SIZE_TREE_H
#define FERRYI_SIZE_TREE_H

/*
 * A tree of blocks by size, and among equals by rank: a treap (Seidel and Aragon, Randomized Search
 * Trees, 1996). A block's place in the heap is its rank, scrambled, so that every step takes O(log
 * n) however the blocks came and went. It allocates nothing.
 */

#include "src/pool/pool.h"

/* `block->bytes` and `block->in_sizes.rank` are set, and no other member has both. */
void ferryi_size_tree_insert(ferry_block **root, ferry_block *block);
void ferryi_size_tree_remove(ferry_block **root, ferry_block *block);
/* The first of at least `bytes`: the best fit; NULL when there is none. */
ferry_block *ferryi_size_tree_find(ferry_block *root, size_t bytes);
/* The one after; NULL after the last. With NULL: the first. */
ferry_block *ferryi_size_tree_next(ferry_block *root, const ferry_block *block);

#endif
