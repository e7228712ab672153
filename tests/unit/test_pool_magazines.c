/* SPDX-License-Identifier: MIT */
/* Tests the magazines of threads, from which a pool serves a hit without a lock. */
#include "tests/unit/pool_backend.h"

#include <sys/wait.h>
#include <unistd.h>

#include "src/pool/magazine.h"

#define LARGE (3 * MIB)

/* -- another thread that does one thing at a time ---------------------------------------------- */

struct other {
    pthread_t thread;
    pthread_barrier_t step;
    void (*run)(void *user); /* NULL: the thread ends */
    void *user;
};

static void *
other_main(void *argument)
{
    struct other *other = argument;
    for (;;) {
        pthread_barrier_wait(&other->step);
        if (!other->run)
            return NULL;
        other->run(other->user);
        pthread_barrier_wait(&other->step);
    }
}

static void
other_start(struct other *other)
{
    pthread_barrier_init(&other->step, NULL, 2);
    assert_int_equal(pthread_create(&other->thread, NULL, other_main, other), 0);
}

static void
other_do(struct other *other, void (*run)(void *user), void *user)
{
    other->run = run;
    other->user = user;
    pthread_barrier_wait(&other->step);
    pthread_barrier_wait(&other->step);
}

static void
other_end(struct other *other)
{
    other->run = NULL;
    pthread_barrier_wait(&other->step);
    pthread_join(other->thread, NULL);
    pthread_barrier_destroy(&other->step);
}

/* Blocks of one size, which take_all() allocates and give_all() frees. */
struct work {
    struct fixture *fixture;
    size_t bytes, count;
    ferry_block *blocks[200];
};

static void
take_all(void *user)
{
    struct work *work = user;
    for (size_t i = 0; i < work->count; i++)
        if (ferry_pool_allocate(work->fixture->pool, work->bytes, NULL, &work->blocks[i]) !=
            FERRY_OK)
            abort();
}

static void
give_all(void *user)
{
    struct work *work = user;
    for (size_t i = 0; i < work->count; i++)
        ferryi_pool_give(work->blocks[i], 0);
}

static void
take_and_give_all(void *user)
{
    take_all(user);
    give_all(user);
}

static size_t
cache_count(const ferry_pool *pool)
{
    size_t count = 0;
    for (const struct ferryi_link *link = pool->caches.next; link != &pool->caches;
         link = link->next)
        count++;
    return count;
}

/* -- the hit ----------------------------------------------------------------------------------- */

/* Checks that an allocation that finds a block in a magazine does not lock the pool's mutex. The
 * test holds this mutex, so an allocation that locks it would deadlock. */
static void
test_a_hit_takes_no_lock_and_calls_nobody(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    const size_t sizes[] = {1, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        give(take(&fixture, sizes[i]));
    unsigned long calls = fixture.backend.calls;
    uint64_t hits = statistics(&fixture).hits;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        give(take(
            &fixture,
            sizes[i])); /* fills the magazines, because reading the statistics has emptied them */
    ferryi_mutex_lock(&fixture.pool->mutex);
    for (int n = 0; n < 1000; n++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            give(take(&fixture, sizes[i]));
    ferryi_mutex_unlock(&fixture.pool->mutex);
    assert_int_equal(fixture.backend.calls, calls);
    assert_int_equal(statistics(&fixture).hits, hits + 6006);
    fixture_close(&fixture);
}

#ifndef FERRYI_DEBUG_CHECKS
static void
test_a_hit_writes_nothing_of_the_block(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    ferry_block *block = take(&fixture, 5000);
    ferry_block before = *block;
    memset(ferry_block_pointer(block), 7, 5000);
    for (int n = 0; n < 10; n++) {
        give(block);
        assert_memory_equal(block, &before, sizeof(before));
        assert_ptr_equal(take(&fixture, 5000), block);
        assert_memory_equal(block, &before, sizeof(before));
    }
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(((unsigned char *)ferry_block_pointer(block))[i], 7);
    give(block);
    fixture_close(&fixture);
}
#endif

static void
test_the_newest_block_comes_first(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *blocks[100];
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    for (size_t i = 0; i < 100; i++)
        blocks[i] = take(&fixture, 300);
    for (size_t i = 0; i < 100; i++)
        give(blocks[i]);
    for (size_t i = 100; i-- > 0;)
        assert_ptr_equal(take(&fixture, 300), blocks[i]);
    for (size_t i = 0; i < 100; i++)
        give(blocks[i]);
    assert_int_equal(fixture.backend.allocations, 1);
    assert_agrees(&fixture);
    fixture_close(&fixture);
}

static void
test_requested_bytes_follow_every_holder(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    give(take(&fixture, 1000));
    ferry_block *block = take(&fixture, 900); /* in the same class */
    assert_int_equal(statistics(&fixture).requested_bytes, 900);
    give(block);
    block = take(&fixture, 1001);
    assert_int_equal(statistics(&fixture).requested_bytes, 1001);
    assert_int_equal(statistics(&fixture).live_bytes, 1024);
    give(block);
    assert_int_equal(statistics(&fixture).requested_bytes, 0);
    assert_agrees(&fixture);
    fixture_close(&fixture);
}

/* -- between threads --------------------------------------------------------------------------- */

static void
test_the_end_of_a_thread_hands_its_magazines_back(void **state)
{
    (void)state;
    struct fixture fixture;
    struct other other;
    struct work work = {.fixture = &fixture, .bytes = LARGE, .count = 5};
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    other_start(&other);
    other_do(&other, take_and_give_all, &work);
    assert_int_equal(cache_count(fixture.pool), 1);
    other_end(&other);
    assert_int_equal(cache_count(fixture.pool), 0);
    assert_int_equal(statistics(&fixture).frees, 5); /* the thread's counts are kept */
    take_and_give_all(&work);
    assert_int_equal(fixture.backend.allocations, 5);
    assert_agrees(&fixture);
    fixture_close(&fixture);
}

/* Lets a second thread allocate and free blocks, which stay in its magazines. The first thread must
 * reuse them. The pool may grow by at most an eighth before it empties the magazines of the second
 * thread. */
static void
test_a_take_finds_blocks_that_another_thread_gave(void **state)
{
    (void)state;
    const size_t sizes[] = {100 * KIB, LARGE};
    for (size_t i = 0; i < 2; i++) {
        struct fixture fixture;
        struct other other;
        struct work work = {.fixture = &fixture, .bytes = sizes[i], .count = 20};
        fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
        other_start(&other);
        other_do(&other, take_and_give_all, &work);
        unsigned long allocations = fixture.backend.allocations;
        take_and_give_all(&work);
        assert_true(fixture.backend.allocations <= allocations + allocations / 8);
        assert_agrees(&fixture);
        other_end(&other);
        fixture_close(&fixture);
    }
}

/* Lets one thread allocate blocks and a second thread free them. Checks that the depot passes the
 * blocks back to the first thread, so that the pool allocates no memory. */
static void
test_blocks_that_are_handed_over_come_back(void **state)
{
    (void)state;
    struct fixture fixture;
    struct other other;
    struct work work = {.fixture = &fixture, .bytes = 64 * KIB, .count = 100};
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    other_start(&other);
    for (int n = 0; n < 20; n++) {
        take_all(&work);
        other_do(&other, give_all, &work);
    }
    unsigned long allocations = fixture.backend.allocations;
    for (int n = 0; n < 50; n++) {
        take_all(&work);
        other_do(&other, give_all, &work);
    }
    assert_int_equal(fixture.backend.allocations, allocations);
    assert_true(statistics(&fixture).peak_reserved_bytes <= 4 * work.count * work.bytes);
    ferry_pool_stats stats = statistics(&fixture);
    assert_int_equal(stats.allocations, 7000);
    assert_int_equal(stats.frees, 7000);
    assert_int_equal(stats.live_blocks, 0);
    assert_agrees(&fixture);
    other_end(&other);
    fixture_close(&fixture);
}

static void
test_trim_reaches_the_magazines_of_other_threads(void **state)
{
    (void)state;
    struct fixture fixture;
    struct other other;
    struct work large = {.fixture = &fixture, .bytes = LARGE, .count = 20},
                small = {.fixture = &fixture, .bytes = 4 * KIB, .count = 200};
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    other_start(&other);
    other_do(&other, take_and_give_all, &large);
    other_do(&other, take_and_give_all, &small);
    assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
    assert_int_equal(fixture.backend.count, 0);
    other_do(&other, take_and_give_all,
             &small); /* the thread can still use its magazines after the trim */
    assert_int_equal(statistics(&fixture).frees, 420);
    assert_agrees(&fixture);
    other_end(&other);
    fixture_close(&fixture);
}

static void
test_shortage_reaches_the_magazines_of_other_threads(void **state)
{
    (void)state;
    struct fixture fixture;
    struct other other;
    struct work work = {.fixture = &fixture, .bytes = LARGE, .count = 4};
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 12 * MIB, NULL);
    other_start(&other);
    other_do(&other, take_and_give_all, &work);
    ferry_block *block = take(&fixture, 12 * MIB);
    assert_int_equal(fixture.backend.count, 1);
    give(block);
    other_end(&other);
    fixture_close(&fixture);
}

/* -- the end of pools -------------------------------------------------------------------------- */

static void
test_destroy_empties_the_magazines_of_other_threads(void **state)
{
    (void)state;
    struct fixture fixture;
    struct other other;
    struct work work = {.fixture = &fixture, .bytes = LARGE, .count = 3};
    other_start(&other);
    /* A new pool can have the same address as a destroyed pool. A thread must not use its magazines
     * of the destroyed pool for the new pool. */
    for (int n = 0; n < 10; n++) {
        fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
        other_do(&other, take_and_give_all, &work);
        assert_int_equal(statistics(&fixture).allocations, 3);
        fixture_close(&fixture); /* also checks that the pool has freed all memory and has logged no
                                    message */
    }
    other_end(&other);
}

static void
count_own_caches(void *user)
{
    *(size_t *)user = 0;
    for (struct ferryi_cache *cache = ferryi_thread_caches->first; cache; cache = cache->next)
        ++*(size_t *)user;
}

static void
test_a_thread_forgets_the_pools_that_are_gone(void **state)
{
    (void)state;
    struct other other;
    size_t count = 0;
    other_start(&other);
    for (int n = 0; n < 40; n++) {
        struct fixture fixture;
        struct work work = {.fixture = &fixture, .bytes = 100, .count = 1};
        fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
        other_do(&other, take_and_give_all, &work);
        fixture_close(&fixture);
    }
    other_do(&other, count_own_caches, &count);
    assert_int_equal(count, 1);
    other_end(&other);
}

/* Checks that the parent's thread keeps its caches after a fork, and that the child has none. */
static void
test_the_caches_stay_with_the_parent_of_a_fork(void **state)
{
    (void)state;
    struct fixture fixture;
    size_t count = 0;
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    give(take(&fixture, 100));
    pid_t child = fork();
    if (child == 0) {
        count_own_caches(&count);
        _exit((int)count);
    }
    int ended = 1;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    count_own_caches(&count);
    assert_int_equal(count, 1);
    fixture_close(&fixture);
}

static void
test_more_pools_than_a_thread_finds_at_once(void **state)
{
    (void)state;
    enum { POOLS = 2 * FERRYI_CACHE_SLOTS + 1 };
    struct fixture *fixtures = calloc(POOLS, sizeof(*fixtures));
    assert_non_null(fixtures);
    for (size_t i = 0; i < POOLS; i++)
        fixture_open(&fixtures[i], FERRY_MEMORY_PAGEABLE, 0, NULL);
    for (int n = 0; n < 10; n++)
        for (size_t i = 0; i < POOLS; i++)
            give(take(&fixtures[i], 5000));
    for (size_t i = 0; i < POOLS; i++) {
        assert_int_equal(cache_count(fixtures[i].pool), 1);
        assert_int_equal(statistics(&fixtures[i]).hits, 9);
        fixture_close(&fixtures[i]);
    }
    free(fixtures);
}

/* -- hits while others look at the pool -------------------------------------------------------- */

#define HIT_THREADS 3
#define HITS        20000

struct rush {
    struct fixture fixture;
    atomic_uint running;
    atomic_ulong wrong;
};

/* Allocates three blocks, writes a mark to each block, checks the marks and frees the blocks. A
 * changed mark shows that a second thread has the same block. */
static void
rush_once(struct rush *rush, int i)
{
    size_t bytes = i % 3 == 0 ? 300 : 200;
    ferry_block *blocks[3];
    for (size_t n = 0; n < 3; n++) {
        if (ferry_pool_allocate(rush->fixture.pool, bytes, NULL, &blocks[n]) != FERRY_OK)
            abort();
        *(_Atomic(ferry_block *) *)ferry_block_pointer(blocks[n]) = blocks[n];
    }
    for (size_t n = 0; n < 3; n++) {
        if (*(_Atomic(ferry_block *) *)ferry_block_pointer(blocks[n]) != blocks[n])
            atomic_fetch_add(&rush->wrong, 1);
        ferryi_pool_give(blocks[n], 0);
    }
}

static void *
rush_run(void *user)
{
    struct rush *rush = user;
    rush_once(rush, 0);
    for (int i = 1; i < HITS; i++)
        rush_once(rush, i);
    atomic_fetch_sub(&rush->running, 1);
    return NULL;
}

static void
rush_test(void)
{
    pthread_t threads[HIT_THREADS];
    struct rush *rush = calloc(1, sizeof(*rush));
    assert_non_null(rush);
    fixture_open(&rush->fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    rush->fixture.crowded = true;
    rush->running = HIT_THREADS;
    for (size_t i = 0; i < HIT_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, rush_run, rush), 0);
    while (atomic_load(&rush->running) > 0) {
        ferry_pool_stats stats = statistics(&rush->fixture);
        assert_int_equal(stats.hits + stats.misses, stats.frees + stats.live_blocks);
        assert_true(stats.live_blocks <= 3 * HIT_THREADS);
        assert_int_equal(ferry_pool_trim(rush->fixture.pool, 0), FERRY_OK);
    }
    for (size_t i = 0; i < HIT_THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(rush->wrong, 0);
    assert_int_equal(statistics(&rush->fixture).allocations, 3 * HIT_THREADS * HITS);
    assert_int_equal(statistics(&rush->fixture).frees, 3 * HIT_THREADS * HITS);
    assert_agrees(&rush->fixture);
    fixture_close(&rush->fixture);
    free(rush);
}

static void
test_hits_go_on_while_the_pool_is_looked_at(void **state)
{
    (void)state;
    rush_test();
}

static void
test_the_same_without_a_fence_for_all_threads(void **state)
{
    (void)state;
    bool lockless = ferryi_caches_are_lockless;
    ferryi_caches_are_lockless = false;
    rush_test();
    ferryi_caches_are_lockless = lockless;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_hit_takes_no_lock_and_calls_nobody),
#ifndef FERRYI_DEBUG_CHECKS
        cmocka_unit_test(test_a_hit_writes_nothing_of_the_block),
#endif
        cmocka_unit_test(test_the_newest_block_comes_first),
        cmocka_unit_test(test_requested_bytes_follow_every_holder),
        cmocka_unit_test(test_the_end_of_a_thread_hands_its_magazines_back),
        cmocka_unit_test(test_a_take_finds_blocks_that_another_thread_gave),
        cmocka_unit_test(test_blocks_that_are_handed_over_come_back),
        cmocka_unit_test(test_trim_reaches_the_magazines_of_other_threads),
        cmocka_unit_test(test_shortage_reaches_the_magazines_of_other_threads),
        cmocka_unit_test(test_destroy_empties_the_magazines_of_other_threads),
        cmocka_unit_test(test_a_thread_forgets_the_pools_that_are_gone),
        cmocka_unit_test(test_the_caches_stay_with_the_parent_of_a_fork),
        cmocka_unit_test(test_more_pools_than_a_thread_finds_at_once),
        cmocka_unit_test(test_hits_go_on_while_the_pool_is_looked_at),
        cmocka_unit_test(test_the_same_without_a_fence_for_all_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
