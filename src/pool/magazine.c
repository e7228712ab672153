/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/fork.h"
#include "src/pool/magazine.h"

struct ferryi_cache ferryi_no_cache;
struct ferryi_magazine ferryi_no_magazine = {.top = ferryi_no_magazine.entries,
                                             .end = ferryi_no_magazine.entries,
                                             .entries = {{.point = FERRYI_MAGAZINE_BOTTOM}}};
bool ferryi_caches_are_lockless;

#define NO_CACHE   &ferryi_no_cache
#define FOUR(what) what, what, what, what
static struct ferryi_thread_caches no_caches = {
    .slots = {FOUR(NO_CACHE), FOUR(NO_CACHE), FOUR(NO_CACHE), FOUR(NO_CACHE)}};
static_assert(FERRYI_CACHE_SLOTS == 16, "no_caches has 16 slots");

_Thread_local struct ferryi_thread_caches *ferryi_thread_caches = &no_caches;

/* A thread holds this mutex while it destroys a pool, and while it empties its caches before it
 * ends. So a cache cannot be freed by its thread and detached from a destroyed pool at the same
 * time. */
FERRYI_MUTEX_CLASS(ferryi_caches_mutex);
static struct ferryi_caches_mutex registry = FERRYI_MUTEX_INITIALIZER;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* thread-specific key whose value is ferryi_thread_caches; its destructor
                             runs when a thread ends */
static bool key_is_made;

/* Returns this thread's cache of the pool's blocks, or NULL. */
static struct ferryi_cache *
cache_find(const ferry_pool *pool)
{
    struct ferryi_cache *cache = ferryi_cache_of(pool);
    if (atomic_load(&cache->pool) == pool)
        return cache;
    for (cache = ferryi_thread_caches->first; cache; cache = cache->next)
        if (atomic_load(&cache->pool) == pool)
            return cache;
    return NULL;
}

/* -- locking out ------------------------------------------------------------------------------- */

void
ferryi_caches_lock_out(ferry_pool *pool)
{
    bool others = false;
    const struct ferryi_cache *own = cache_find(pool);
    for (struct ferryi_link *link = pool->caches.next; link != &pool->caches; link = link->next) {
        struct ferryi_cache *cache = FERRYI_CACHE_OF(link);
        atomic_exchange(&cache->open, NULL);
        others |= cache != own;
    }
    if (others && ferryi_caches_are_lockless)
        ferryi_fence_all();
    for (struct ferryi_link *link = pool->caches.next; link != &pool->caches; link = link->next)
        while (atomic_load(&FERRYI_CACHE_OF(link)->busy))
            ferryi_yield();
}

void
ferryi_caches_let_in(ferry_pool *pool)
{
    ferry_pool *open = atomic_load(&pool->zeroes) ? NULL : pool;
    for (struct ferryi_link *link = pool->caches.next; link != &pool->caches; link = link->next)
        atomic_store(&FERRYI_CACHE_OF(link)->open, open);
}

/* -- emptying caches: each belongs to the calling thread, or its thread is locked out ---------- */

/* Moves the blocks of a magazine to the pool's bins, oldest first. */
FERRYI_POOL_LOCKED static void
empty_magazine(ferry_pool *pool, struct ferryi_magazine *magazine)
{
    if (ferryi_magazine_is_empty(magazine))
        return; /* `magazine` may be the shared dummy ferryi_no_magazine, which must not be written
                 */
    for (const struct ferryi_magazine_entry *at = magazine->entries + 1; at <= magazine->top;
         at++) {
        at->block->state = FERRYI_BLOCK_MOVING;
        ferryi_block_put(pool, at->block, at->point, at->since);
    }
    magazine->top = magazine->entries;
}

/* Adds an empty magazine to the pool's list of empty magazines. All size classes share this list.
 */
FERRYI_POOL_LOCKED static void
store_empty(ferry_pool *pool, struct ferryi_magazine *magazine)
{
    if (!magazine || magazine == &ferryi_no_magazine)
        return;
    magazine->next = pool->empty_magazines;
    pool->empty_magazines = magazine;
}

FERRYI_POOL_LOCKED static void
empty_depot(ferry_pool *pool, uint32_t list)
{
    while (pool->depots[list]) {
        struct ferryi_magazine *magazine = pool->depots[list];
        pool->depots[list] = magazine->next;
        empty_magazine(pool, magazine);
        store_empty(pool, magazine);
    }
}

FERRYI_POOL_LOCKED static void
empty_class(ferry_pool *pool, struct ferryi_cache *cache, uint32_t list)
{
    empty_magazine(pool, cache->spare[list]);
    empty_magazine(pool, cache->loaded[list]);
}

FERRYI_POOL_LOCKED static void
count_class(ferry_pool *pool, struct ferryi_cache *cache, uint32_t list)
{
    uint64_t takes = cache->takes[list], gives = cache->gives[list];
    if ((takes | gives) == 0)
        return;
    size_t bytes = ferryi_pool_bytes_of_class(list);
    ferry_pool_class_stats *class = &pool->counters.classes[ferryi_pool_statistics_class(bytes)];
    class->allocations += takes;
    class->hits += takes;
    class->live_blocks += takes - gives;
    class->live_bytes += (takes - gives) * bytes;
    class->requested_bytes += cache->requested[list];
    pool->counters.frees += gives;
    cache->takes[list] = cache->gives[list] = cache->requested[list] = 0;
}

void
ferryi_caches_count(ferry_pool *pool)
{
    ferryi_caches_lock_out(pool);
    for (struct ferryi_link *link = pool->caches.next; link != &pool->caches; link = link->next)
        for (uint32_t list = 0; list < FERRYI_POOL_CLASSES; list++)
            count_class(pool, FERRYI_CACHE_OF(link), list);
    ferryi_caches_let_in(pool);
    ferryi_pool_raise_peak(pool);
}

/* Adds the counters of a thread's cache to the pool's counters, and moves the cache's blocks to the
 * pool's bins. The cache must belong to the calling thread, or its thread must be locked out.
 */
FERRYI_POOL_LOCKED static void
cache_empty(ferry_pool *pool, struct ferryi_cache *cache)
{
    for (uint32_t i = 0; i < FERRYI_POOL_CLASSES; i++) {
        count_class(pool, cache, i);
        empty_class(pool, cache, i);
        store_empty(pool, cache->loaded[i]);
        store_empty(pool, cache->spare[i]);
        cache->loaded[i] = cache->spare[i] = &ferryi_no_magazine;
    }
}

void
ferryi_magazines_empty(ferry_pool *pool)
{
    for (uint32_t i = 0; i < FERRYI_POOL_CLASSES; i++)
        empty_depot(pool, i);
    ferryi_caches_lock_out(pool);
    for (struct ferryi_link *link = pool->caches.next; link != &pool->caches; link = link->next)
        cache_empty(pool, FERRYI_CACHE_OF(link));
    ferryi_caches_let_in(pool);
    ferryi_pool_raise_peak(pool);
}

void
ferryi_magazines_free(ferry_pool *pool)
{
    ferryi_mutex_is_needless(&pool->mutex);
    while (pool->empty_magazines) {
        struct ferryi_magazine *magazine = pool->empty_magazines;
        pool->empty_magazines = magazine->next;
        free(magazine);
    }
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
    struct ferryi_cache *cache = cache_find(pool);
    if (!cache || cache->now % FERRYI_CACHE_TIME_EVERY != 0)
        return false;
    set_clock(cache);
    return true;
}

/* -- the end of a thread or of a pool ---------------------------------------------------------- */

static void
leave_pool(ferry_pool *pool, struct ferryi_cache *cache)
{
    ferryi_mutex_lock(&pool->mutex);
    cache_empty(pool, cache);
    ferryi_link_remove(&cache->in_pool);
    ferryi_mutex_unlock(&pool->mutex);
}

static void
thread_ends(void *value)
{
    struct ferryi_thread_caches *caches = value;
    ferryi_thread_caches = &no_caches;
    ferryi_mutex_lock(&registry);
    for (struct ferryi_cache *next, *cache = caches->first; cache; cache = next) {
        ferry_pool *pool = atomic_load(&cache->pool);
        next = cache->next;
        if (pool)
            leave_pool(pool, cache);
        free(cache);
    }
    ferryi_mutex_unlock(&registry);
    free(caches);
}

void
ferryi_caches_detach(ferry_pool *pool)
{
    ferryi_mutex_lock(&registry);
    ferryi_mutex_lock(&pool->mutex);
    ferryi_magazines_empty(pool);
    while (!ferryi_link_is_alone(&pool->caches)) {
        struct ferryi_cache *cache = FERRYI_CACHE_OF(pool->caches.next);
        ferryi_link_remove(&cache->in_pool);
        atomic_store(&cache->open, NULL);
        atomic_store(&cache->pool, NULL);
    }
    ferryi_mutex_unlock(&pool->mutex);
    ferryi_mutex_unlock(&registry);
}

/* -- a fork ------------------------------------------------------------------------------------ */

/* The thread caches that the child of a fork has abandoned. No code reads this pointer. It keeps
 * the memory reachable, so that leak checkers do not report the memory. */
static struct ferryi_thread_caches *volatile given_up;

/* Gives up this thread's caches in the child of a fork, because their pools belong to the parent.
 * The memory of the caches is not freed. */
static void
forget_caches(bool in_child)
{
    if (!in_child || ferryi_thread_caches == &no_caches)
        return;
    given_up = ferryi_thread_caches;
    ferryi_thread_caches = &no_caches;
    (void)pthread_setspecific(key, NULL);
}

static struct ferryi_fork_part caching = {.mutex = FERRYI_SYSTEM_MUTEX(&registry),
                                          .after = forget_caches};
FERRYI_AT_FORK(caching)

/* -- making ------------------------------------------------------------------------------------ */

static void
set_up(void)
{
    key_is_made = pthread_key_create(&key, thread_ends) == 0;
    ferryi_caches_are_lockless = ferryi_fence_all_prepare();
}

/* Returns this thread's caches. Returns NULL if there is no host memory. Also returns NULL if
 * pthread_key_create() or pthread_setspecific() failed, because then nothing would empty the caches
 * when the thread ends. */
static struct ferryi_thread_caches *
caches_of_thread(void)
{
    pthread_once(&once, set_up);
    if (ferryi_thread_caches != &no_caches)
        return ferryi_thread_caches;
    if (!key_is_made)
        return NULL;
    struct ferryi_thread_caches *caches = calloc(1, sizeof(*caches));
    if (!caches || pthread_setspecific(key, caches) != 0) {
        free(caches);
        return NULL;
    }
    for (size_t i = 0; i < FERRYI_CACHE_SLOTS; i++)
        caches->slots[i] = NO_CACHE;
    ferryi_thread_caches = caches;
    return caches;
}

/* Returns a cache of this thread that belongs to no pool. Reuses a cache whose pool was destroyed.
 * If there is none, allocates a cache. Returns NULL if there is no host memory. */
static struct ferryi_cache *
cache_without_pool(struct ferryi_thread_caches *caches)
{
    struct ferryi_cache *cache = caches->first;
    while (cache && atomic_load(&cache->pool))
        cache = cache->next;
    if (cache)
        return cache;
    cache = aligned_alloc(FERRYI_CACHE_LINE, sizeof(*cache));
    if (!cache)
        return NULL;
    memset(cache, 0, sizeof(*cache));
    for (uint32_t i = 0; i < FERRYI_CACHE_LISTS; i++)
        cache->loaded[i] = cache->spare[i] = &ferryi_no_magazine;
    ferryi_link_init(&cache->in_pool);
    cache->next = caches->first;
    caches->first = cache;
    return cache;
}

/* Returns this thread's cache for the pool, and creates it if needed. Returns NULL if there is no
 * host memory. The caller must not hold the pool's mutex. */
static struct ferryi_cache *
cache_make(ferry_pool *pool)
{
    bool allowed =
        !pool->has_checker && !pool->config.allocation_log && !atomic_load(&pool->zeroes);
    struct ferryi_thread_caches *caches = allowed ? caches_of_thread() : NULL;
    if (!caches)
        return NULL;
    struct ferryi_cache *cache = cache_find(pool);
    if (!cache && (cache = cache_without_pool(caches))) {
        cache->now = ferryi_now_ns() | 1;
        ferryi_mutex_lock(&pool->mutex);
        atomic_store(&cache->pool, pool);
        ferryi_link_append(&pool->caches, &cache->in_pool);
        atomic_store(&cache->open, atomic_load(&pool->zeroes) ? NULL : pool);
        ferryi_mutex_unlock(&pool->mutex);
    }
    if (cache && ferryi_caches_are_lockless)
        caches->slots[pool->slot] = cache;
    return cache;
}

/* -- taking ------------------------------------------------------------------------------------ */

/* Searches one magazine for a block that the request can use at once, because the block's last use
 * is ordered before later work of the request's stream. Removes and returns the newest such block.
 * Returns NULL if there is none. */
static ferry_block *
take_entry(const ferry_pool *pool, struct ferryi_cache *cache, bool spare,
           const struct ferryi_pool_request *request)
{
    const ferryi_order *order = pool->config.order;
    struct ferryi_magazine *magazine =
        spare ? cache->spare[request->list] : cache->loaded[request->list];
    for (struct ferryi_magazine_entry *at = magazine->top; at > magazine->entries; at--) {
        struct ferryi_magazine_entry entry = *at;
        if (!ferryi_sync_point_is_ordered(order, request->timeline, entry.point))
            continue;
        memmove(at, at + 1, (size_t)((char *)magazine->top-- - (char *)at));
        ferryi_cache_hand_out(cache, request->list, entry.block,
                              ferryi_sync_point_is_done(order, entry.point) ? 0 : entry.point,
                              request->bytes, request->timeline);
        return entry.block;
    }
    return NULL;
}

/* If both magazines of this thread for the size class are empty, replaces one of them by a full
 * magazine from the pool's depot. Does nothing if the depot is empty. */
FERRYI_POOL_LOCKED static void
fetch(ferry_pool *pool, struct ferryi_cache *cache, uint32_t list)
{
    struct ferryi_magazine *full = pool->depots[list];
    if (!ferryi_magazine_is_empty(cache->loaded[list]) ||
        !ferryi_magazine_is_empty(cache->spare[list]) || !full)
        return;
    store_empty(pool, cache->loaded[list]);
    cache->loaded[list] = full;
    pool->depots[list] = full->next;
}

ferry_block *
ferryi_cache_take_slowly(ferry_pool *pool, const struct ferryi_pool_request *request)
{
    struct ferryi_cache *cache = cache_make(pool);
    if (!cache)
        return NULL;

    ferryi_mutex_lock(&pool->mutex);
    fetch(pool, cache, request->list);
    ferry_block *block = take_entry(pool, cache, false, request);
    if (!block)
        block = take_entry(pool, cache, true, request);
    if (!block) {
        /* The request cannot use the cached blocks at once, because their last uses are on other
         * streams. So the blocks move to the bins. The caller can pick an idle block and make
         * the request's stream wait for the block's last use. */
        empty_depot(pool, request->list);
        empty_class(pool, cache, request->list);
    }
    ferryi_mutex_unlock(&pool->mutex);
    return block;
}

/* -- giving ------------------------------------------------------------------------------------ */

/* Locks the pool's mutex and guarantees that the pool has an empty magazine. If there is no host
 * memory for a magazine, returns false and leaves the mutex unlocked. */
FERRYI_TRY_ACQUIRES(true, ferryi_pool_mutex)
static bool
lock_with_empty(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    while (!pool->empty_magazines) {
        ferryi_mutex_unlock(&pool->mutex);
        struct ferryi_magazine *magazine = aligned_alloc(FERRYI_CACHE_LINE, sizeof(*magazine));
        if (!magazine)
            return false;
        ferryi_mutex_lock(&pool->mutex);
        store_empty(pool, magazine);
    }
    return true;
}

/* Ensures that the loaded magazine of this size class, into which blocks are released, has room for
 * one block. If both the loaded and the spare magazine are full, the spare one moves to the depot.
 * An empty magazine of the pool replaces it. */
FERRYI_POOL_LOCKED static void
make_room(ferry_pool *pool, struct ferryi_cache *cache, uint32_t list)
{
    struct ferryi_magazine *spare = cache->spare[list], *empty = pool->empty_magazines;
    if (!ferryi_magazine_is_full(cache->loaded[list]))
        return;
    if (ferryi_magazine_is_full(spare)) {
        pool->empty_magazines = empty->next;
        empty->top = empty->entries;
        empty->entries[0].point = FERRYI_MAGAZINE_BOTTOM;
        empty->end = empty->entries + (list < FERRYI_POOL_SMALL_CLASSES ? FERRYI_MAGAZINE_ENTRIES
                                                                        : FERRYI_MAGAZINE_LARGE);
        if (spare != &ferryi_no_magazine) {
            spare->next = pool->depots[list];
            pool->depots[list] = spare;
        }
        cache->spare[list] = empty;
    }
    ferryi_cache_swap(cache, list);
}

bool
ferryi_cache_give_slowly(ferry_block *block, ferryi_sync_point point)
{
    ferry_pool *pool = block->pool;
    struct ferryi_cache *cache = cache_make(pool);
    if (!cache || !lock_with_empty(pool))
        return false;
    /* A compaction may have set block->list to FERRYI_POOL_NO_LIST. Then the block enters no
     * magazine. */
    bool listed = block->list < FERRYI_POOL_CLASSES;
    if (listed) {
        block->point = 0; /* the magazine entry's `point` also covers the previous owner's use */
        atomic_store_explicit(&block->label, NULL, memory_order_relaxed);
        set_clock(cache);
        make_room(pool, cache, block->list);
        ferryi_cache_push(cache, block->list, block, point);
    }
    ferryi_mutex_unlock(&pool->mutex);
    return listed;
}
