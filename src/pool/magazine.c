/* SPDX-License-Identifier: MIT */
#include "src/pool/magazine.h"

#include <stdlib.h>
#include <string.h>

/* -- emptying: under the mutex, with the cache locked out or one's own ------------------------------ */

static void
put_entry(ferry_pool *pool, const struct ferryi_magazine_entry *entry)
{
    entry->block->state = FERRYI_BLOCK_MOVING;
    ferryi_block_put(pool, entry->block, entry->stamp, entry->since);
}

/* The magazine's blocks become idle, oldest first; it stays, empty. */
static uint32_t
empty_magazine(ferry_pool *pool, struct ferryi_magazine *magazine)
{
    size_t count = magazine->count;
    for (size_t i = 0; i < count; i++)
        put_entry(pool, &magazine->entries[i]);
    if (count > 0)
        magazine->count = 0;
    return (uint32_t)count;
}

/* An empty magazine waits for another class. */
static void
store_empty(ferry_pool *pool, struct ferryi_magazine *magazine)
{
    if (!magazine || magazine == &ferryi_no_magazine)
        return;
    magazine->next = pool->empty_magazines;
    pool->empty_magazines = magazine;
}

static uint32_t
empty_depot(ferry_pool *pool, struct ferryi_pool_class *class)
{
    uint32_t count = 0;
    while (class->depot) {
        struct ferryi_magazine *magazine = class->depot;
        class->depot = magazine->next;
        count += empty_magazine(pool, magazine);
        store_empty(pool, magazine);
    }
    return count;
}

static uint32_t
empty_class(ferry_pool *pool, struct ferryi_cache_class *class)
{
    return empty_magazine(pool, class->spare) + empty_magazine(pool, class->loaded);
}

/* The pool's peak counts what the cache's thread held at most since it last was here. */
static void
count_live(ferry_pool *pool, struct ferryi_cache *cache)
{
    pool->peak_live_bytes = pool->peak_live_bytes > pool->live_bytes + cache->live_peak ? pool->peak_live_bytes
                                                                                        : pool->live_bytes + cache->live_peak;
    pool->live_bytes += cache->live;
    cache->live = cache->live_peak = 0;
}

static void
set_clock(struct ferryi_cache *cache)
{
    uint64_t now = ferryi_now_ns();
    cache->now = (now > cache->now ? now : cache->now) | 1;
}

bool
ferryi_cache_look_at_clock(const ferry_pool *pool)
{
    struct ferryi_cache *cache = ferryi_cache_find(pool);
    if (!cache || cache->now % FERRYI_CACHE_TIME_EVERY != 0)
        return false;
    set_clock(cache);
    return true;
}

/* Its thread is here anyway. */
static void
visit(ferry_pool *pool, struct ferryi_cache *cache)
{
    count_live(pool, cache);
    set_clock(cache);
}

static void
count_class(ferry_pool *pool, struct ferryi_cache_class *class, uint32_t list)
{
    size_t bytes = ferryi_pool_bytes_of_class(list);
    ferry_pool_bin *bin = &pool->bins[ferryi_pool_bin_of(bytes)];
    pool->hits += class->takes;
    pool->gives += class->gives;
    pool->live_blocks += class->takes - class->gives;
    bin->takes += class->takes;
    bin->hits += class->takes;
    bin->live_blocks += class->takes - class->gives;
    bin->live_bytes += (class->takes - class->gives) * bytes;
    class->takes = class->gives = 0;
}

static void
count_cache(ferry_pool *pool, struct ferryi_cache *cache)
{
    count_live(pool, cache);
    pool->requested_bytes += cache->requested;
    cache->requested = 0;
    for (uint32_t i = 0; i < FERRYI_POOL_CLASSES; i++)
        if (cache->classes[i].takes | cache->classes[i].gives)
            count_class(pool, &cache->classes[i], i);
}

void
ferryi_cache_empty(ferry_pool *pool, struct ferryi_cache *cache)
{
    count_cache(pool, cache);
    for (uint32_t i = 0; i < FERRYI_POOL_CLASSES; i++) {
        struct ferryi_cache_class *class = &cache->classes[i];
        empty_class(pool, class);
        store_empty(pool, class->loaded);
        store_empty(pool, class->spare);
        class->loaded = class->spare = &ferryi_no_magazine;
    }
}

void
ferryi_magazines_empty_locked(ferry_pool *pool)
{
    for (uint32_t i = 0; i < FERRYI_POOL_CLASSES; i++)
        empty_depot(pool, &pool->classes[i]);
    ferryi_caches_lock_out(pool);
    for (struct ferryi_link *link = pool->caches.next; link != &pool->caches; link = link->next)
        ferryi_cache_empty(pool, FERRYI_CACHE_OF(link));
    ferryi_caches_let_in(pool);
}

void
ferryi_magazines_empty(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    ferryi_magazines_empty_locked(pool);
    ferryi_mutex_unlock(&pool->mutex);
}

/* Threads that give what others take would be robbed again and again: what was too little for a magazine is made up for with new memory first. */
bool
ferryi_magazines_gather(ferry_pool *pool, uint32_t list)
{
    uint32_t count = 0;
    if (list >= FERRYI_POOL_CLASSES)
        return false;

    ferryi_mutex_lock(&pool->mutex);
    struct ferryi_pool_class *class = &pool->classes[list];
    bool alone = pool->caches.next->next == &pool->caches && ferryi_cache_find(pool);
    if (class->grow_first > 0) {
        class->grow_first--;
    } else if (!alone) {
        ferryi_caches_lock_out(pool);
        for (struct ferryi_link *link = pool->caches.next; link != &pool->caches; link = link->next)
            count += empty_class(pool, &FERRYI_CACHE_OF(link)->classes[list]);
        ferryi_caches_let_in(pool);
        uint32_t enough = list < FERRYI_POOL_SMALL_CLASSES ? FERRYI_MAGAZINE_ENTRIES : FERRYI_MAGAZINE_LARGE;
        class->grow_first = count < enough ? enough - count : 0;
    }
    ferryi_mutex_unlock(&pool->mutex);
    return count > 0;
}

void
ferryi_magazines_free(ferry_pool *pool)
{
    while (pool->empty_magazines) {
        struct ferryi_magazine *magazine = pool->empty_magazines;
        pool->empty_magazines = magazine->next;
        free(magazine);
    }
}

/* -- taking ----------------------------------------------------------------------------------------- */

/* The newest entry that the lane may use at once, out of the magazine; false when there is none. */
static bool
find_entry(const ferry_pool *pool, struct ferryi_magazine *magazine, const ferryi_lane *lane, struct ferryi_magazine_entry *out)
{
    for (size_t i = magazine->count; i-- > 0;) {
        if (!ferryi_stamp_is_ordered(pool->config.order, lane, magazine->entries[i].stamp))
            continue;
        *out = magazine->entries[i];
        memmove(&magazine->entries[i], &magazine->entries[i + 1], (--magazine->count - i) * sizeof(magazine->entries[0]));
        return true;
    }
    return false;
}

/* A full magazine of the depot for an empty one. */
static void
fetch(ferry_pool *pool, struct ferryi_cache_class *class, struct ferryi_pool_class *centre)
{
    if (class->loaded->count + class->spare->count > 0 || !centre->depot)
        return;
    store_empty(pool, class->loaded);
    class->loaded = centre->depot;
    centre->depot = class->loaded->next;
}

ferry_block *
ferryi_cache_take_slowly(ferry_pool *pool, const struct ferryi_pool_request *request)
{
    struct ferryi_magazine_entry entry = {0};
    struct ferryi_cache *cache = ferryi_cache_make(pool);
    if (!cache)
        return NULL;

    ferryi_mutex_lock(&pool->mutex);
    struct ferryi_cache_class *class = &cache->classes[request->list];
    struct ferryi_pool_class *centre = &pool->classes[request->list];
    visit(pool, cache);
    fetch(pool, class, centre);
    if (find_entry(pool, class->loaded, request->lane, &entry) || find_entry(pool, class->spare, request->lane, &entry)) {
        ferryi_stamp stamp = ferryi_stamp_is_done(pool->config.order, entry.stamp) ? 0 : entry.stamp;
        ferryi_cache_hand_out(cache, class, entry.block, stamp, request->bytes, request->lane);
    } else {
        /* Other work than the lane's: in the lists they are found with what the lane must wait for. */
        empty_depot(pool, centre);
        empty_class(pool, class);
    }
    ferryi_mutex_unlock(&pool->mutex);
    return entry.block;
}

/* -- giving ----------------------------------------------------------------------------------------- */

/* An empty magazine becomes the loaded one, for a class whose others are full. Under the mutex. */
static void
load_empty(ferry_pool *pool, struct ferryi_cache_class *class, struct ferryi_magazine *empty, uint32_t list)
{
    struct ferryi_pool_class *centre = &pool->classes[list];
    empty->count = 0;
    empty->capacity = list < FERRYI_POOL_SMALL_CLASSES ? FERRYI_MAGAZINE_ENTRIES : FERRYI_MAGAZINE_LARGE;
    if (class->spare != &ferryi_no_magazine) {
        class->spare->next = centre->depot;
        centre->depot = class->spare;
    }
    class->spare = class->loaded;
    class->loaded = empty;
}

/* Make room in the loaded magazine. */
static bool
make_room(ferry_pool *pool, struct ferryi_cache_class *class, uint32_t list)
{
    if (class->loaded->count < class->loaded->capacity)
        return true;
    if (class->spare->count < class->spare->capacity) {
        ferryi_cache_swap(class);
        return true;
    }
    struct ferryi_magazine *empty = pool->empty_magazines;
    if (!empty)
        return false;
    pool->empty_magazines = empty->next;
    load_empty(pool, class, empty, list);
    return true;
}

bool
ferryi_cache_give_slowly(ferry_block *block, ferryi_stamp stamp)
{
    ferry_pool *pool = block->pool;
    struct ferryi_cache *cache = ferryi_cache_make(pool);
    struct ferryi_magazine *fresh = NULL;
    if (!cache)
        return false;

    ferryi_mutex_lock(&pool->mutex);
    struct ferryi_cache_class *class = &cache->classes[block->list];
    visit(pool, cache);
    bool given = make_room(pool, class, block->list);
    if (!given) {
        ferryi_mutex_unlock(&pool->mutex);
        fresh = malloc(sizeof(*fresh));
        ferryi_mutex_lock(&pool->mutex);
        store_empty(pool, fresh);
        given = make_room(pool, class, block->list);
    }
    if (given)
        ferryi_cache_push(cache, class, block, stamp);
    ferryi_mutex_unlock(&pool->mutex);
    return given;
}
