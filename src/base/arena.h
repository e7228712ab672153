/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ARENA_H
#define FERRYI_ARENA_H

/*
 * Temporary memory of one call. All memory of an arena is freed together, when the call ends. Each
 * thread keeps the last block of its last arena for the next one, so that a thread that repeats a
 * call soon allocates nothing. A kept block is freed when its thread ends.
 *
 * An arena has one user at a time. It may be freed by another thread than the one that filled it.
 */

#include <stdbool.h>
#include <stddef.h>

struct ferryi_arena_block;

/* An arena of which all members are zero is empty. */
struct ferryi_arena {
    struct ferryi_arena_block *newest; /* the block from which memory is taken; blocks are linked */
    size_t used;                       /* bytes of this block that were taken */
};

/* Takes memory for `count` items of `item_bytes` bytes. The memory is aligned for any type, and its
 * contents are undefined. Returns NULL if there is no memory. */
void *ferryi_arena_take(struct ferryi_arena *arena, size_t count, size_t item_bytes);
/* Takes memory as ferryi_arena_take() does, and sets it to zero. */
void *ferryi_arena_take_zeroed(struct ferryi_arena *arena, size_t count, size_t item_bytes);
/* Grows a list as ferryi_grow() does. `items_address` is the address of the pointer to the list,
 * whose memory need not be of this arena. The old memory stays taken. */
bool ferryi_arena_grow(struct ferryi_arena *arena, void *items_address, size_t *room, size_t needed,
                       size_t item_bytes);
/* Frees all memory of the arena, which is then empty. */
void ferryi_arena_free(struct ferryi_arena *arena);

#endif
