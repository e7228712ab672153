/* SPDX-License-Identifier: MIT */
#include "src/base/arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/base.h"
#include "src/base/sanitizer.h"

#ifdef FERRYI_HAVE_MEMCHECK
#include <valgrind/memcheck.h>
#define FORBID(memory, bytes) (void)VALGRIND_MAKE_MEM_NOACCESS(memory, bytes)
#define ALLOW(memory, bytes)  (void)VALGRIND_MAKE_MEM_UNDEFINED(memory, bytes)
#else
#define FORBID(memory, bytes) ((void)(memory), (void)(bytes))
#define ALLOW(memory, bytes)  ((void)(memory), (void)(bytes))
#endif

/* Size of the first block of a thread. Each further block of an arena has twice the size of the one
 * before, or more. */
#define FIRST_BYTES ((size_t)16 << 10)
/* Maximum size of a block that a thread keeps. A list of some 10000 small copies fits. With a
 * sanitizer, each piece of memory is a block and no block is kept, so that the sanitizer finds
 * accesses beyond a piece, and tests can make each allocation fail. */
#define KEPT_MOST (FERRYI_SANITIZED_MALLOC ? 0 : (size_t)4 << 20)

struct ferryi_arena_block {
    struct ferryi_arena_block *older;
    size_t room;
    alignas(max_align_t) char memory[];
};

static _Thread_local struct ferryi_arena_block *kept;

static struct {
    pthread_once_t once;
    pthread_key_t key; /* its value is not NULL in a thread that keeps a block */
    bool usable;
} owner = {.once = PTHREAD_ONCE_INIT};

static void
free_kept(void *unused)
{
    (void)unused;
    free(kept);
    kept = NULL;
}

static void
make_owner(void)
{
    owner.usable = pthread_key_create(&owner.key, free_kept) == 0;
}

/* Keeps a block for the next arena of this thread, or frees it. */
static void
keep(struct ferryi_arena_block *block)
{
    if (block->room <= KEPT_MOST && (!kept || kept->room < block->room)) {
        pthread_once(&owner.once, make_owner);
        if (owner.usable && pthread_setspecific(owner.key, block) == 0) {
            FORBID(block->memory, block->room);
            struct ferryi_arena_block *smaller = kept;
            kept = block;
            block = smaller;
        }
    }
    free(block);
}

/* Makes a block with at least `bytes` bytes the newest block of the arena. */
static bool
add_block(struct ferryi_arena *arena, size_t bytes)
{
    struct ferryi_arena_block *block = kept;
    if (block && block->room >= bytes && !arena->newest) {
        kept = NULL;
    } else {
        size_t room = bytes;
        if (!FERRYI_SANITIZED_MALLOC)
            room = ferryi_max_size(arena->newest ? 2 * arena->newest->room : FIRST_BYTES, bytes);
        block = malloc(sizeof(*block) + room);
        if (!block)
            return false;
        block->room = room;
        FORBID(block->memory, room);
    }
    block->older = arena->newest;
    arena->newest = block;
    arena->used = 0;
    return true;
}

void *
ferryi_arena_take(struct ferryi_arena *arena, size_t count, size_t item_bytes)
{
    const size_t unit = alignof(max_align_t), most = SIZE_MAX / 4;
    size_t bytes;
    if (!ferryi_mul_size(count, item_bytes, &bytes) || bytes > most)
        return NULL;
    const size_t whole = bytes / unit * unit + unit;
    if ((!arena->newest || arena->newest->room - arena->used < whole) && !add_block(arena, whole))
        return NULL;
    void *memory = arena->newest->memory + arena->used;
    ALLOW(memory, bytes);
    arena->used += whole;
    return memory;
}

void *
ferryi_arena_take_zeroed(struct ferryi_arena *arena, size_t count, size_t item_bytes)
{
    void *memory = ferryi_arena_take(arena, count, item_bytes);
    return memory ? memset(memory, 0, count * item_bytes) : NULL;
}

bool
ferryi_arena_grow(struct ferryi_arena *arena, void *items_address, size_t *room, size_t needed,
                  size_t item_bytes)
{
    const size_t target = ferryi_max_size(needed, 2 * *room);
    void *old, *items;
    if (needed <= *room)
        return true;
    items = ferryi_arena_take(arena, target, item_bytes);
    if (!items)
        return false;
    memcpy(&old, items_address, sizeof(old));
    if (*room > 0)
        memcpy(items, old, *room * item_bytes);
    memcpy(items_address, &items, sizeof(items));
    *room = target;
    return true;
}

void
ferryi_arena_free(struct ferryi_arena *arena)
{
    struct ferryi_arena_block *block = arena->newest;
    *arena = (struct ferryi_arena){0};
    for (struct ferryi_arena_block *older; block; block = older) {
        older = block->older;
        keep(block);
    }
}
