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

/* A thread holds this mutex while its caches are emptied at its end, and while it destroys a pool.
 * So these two never run at the same time. */
FERRYI_MUTEX_CLASS(ferryi_caches_mutex);
static struct ferryi_caches_mutex registry = FERRYI_MUTEX_INITIALIZER;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* thread-specific key: its destructor runs when a thread ends; its value
                             is ferryi_thread_caches */
static bool key_is_made;

struct ferryi_cache *
ferryi_cache_find(const ferry_pool *pool)
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
    const struct ferryi_cache *own = ferryi_cache_find(pool);
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
    for (struct ferryi_link *link = pool->caches.next; link != &pool->caches; link = link->next)
        atomic_store(&FERRYI_CACHE_OF(link)->open, pool);
}

/* -- the end of a thread or of a pool ---------------------------------------------------------- */

static void
leave_pool(ferry_pool *pool, struct ferryi_cache *cache)
{
    ferryi_mutex_lock(&pool->mutex);
    ferryi_cache_empty(pool, cache);
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

/* The caches that the child of a fork gave up. The pointer is never read. It keeps the memory
 * reachable, so that leak checkers do not report the memory. */
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

/* Returns this thread's caches. Returns NULL if host memory is exhausted, or if the destructor that
 * empties the caches at the end of the thread cannot be registered. */
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

/* Returns a cache of this thread whose pool was destroyed, or a new cache. Returns NULL if there is
 * no host memory. */
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

struct ferryi_cache *
ferryi_cache_make(ferry_pool *pool)
{
    struct ferryi_thread_caches *caches = pool->config.allocation_log ? NULL : caches_of_thread();
    if (!caches)
        return NULL;
    struct ferryi_cache *cache = ferryi_cache_find(pool);
    if (!cache && (cache = cache_without_pool(caches))) {
        cache->now = ferryi_now_ns() | 1;
        ferryi_mutex_lock(&pool->mutex);
        atomic_store(&cache->pool, pool);
        ferryi_link_append(&pool->caches, &cache->in_pool);
        atomic_store(&cache->open, pool);
        ferryi_mutex_unlock(&pool->mutex);
    }
    if (cache && ferryi_caches_are_lockless)
        caches->slots[pool->slot] = cache;
    return cache;
}
