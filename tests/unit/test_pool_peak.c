/* SPDX-License-Identifier: MIT */
/* Tests the recorded peak of a pool's live bytes, which are the bytes of its allocated blocks. The
 * pool compares it with the present number when it grows, when its statistics are read, and at
 * intervals in between. */
#include <semaphore.h>

#include "tests/unit/pool_backend.h"

#define CROWD 4
#define LARGE (10 * MIB)

/* A thread that runs functions for the test. It keeps its magazines until the test ends the thread.
 */
struct stayer {
    pthread_t thread;
    struct fixture *fixture;
    void (*act)(struct stayer *stayer);
    /* Block that the test passes to the thread, or that the thread has allocated. */
    ferry_block *block;
    sem_t begin, done;
};

static void *
stay(void *user)
{
    struct stayer *stayer = user;
    for (sem_wait(&stayer->begin); stayer->act; sem_wait(&stayer->begin)) {
        stayer->act(stayer);
        sem_post(&stayer->done);
    }
    return NULL;
}

static void
stayer_start(struct stayer *stayer, struct fixture *fixture)
{
    *stayer = (struct stayer){.fixture = fixture};
    sem_init(&stayer->begin, 0, 0);
    sem_init(&stayer->done, 0, 0);
    assert_int_equal(pthread_create(&stayer->thread, NULL, stay, stayer), 0);
}

static void
stayer_act(struct stayer *stayer, void (*act)(struct stayer *stayer))
{
    stayer->act = act;
    sem_post(&stayer->begin);
    sem_wait(&stayer->done);
}

static void
stayer_end(struct stayer *stayer)
{
    stayer->act = NULL;
    sem_post(&stayer->begin);
    pthread_join(stayer->thread, NULL);
    sem_destroy(&stayer->begin);
    sem_destroy(&stayer->done);
}

static void
take_one(struct stayer *stayer)
{
    stayer->block = take(stayer->fixture, LARGE);
}

static void
give_one(struct stayer *stayer)
{
    give(stayer->block);
    stayer->block = NULL;
}

static void
take_and_give(struct stayer *stayer)
{
    take_one(stayer);
    give_one(stayer);
}

static uint64_t
peak(struct fixture *fixture)
{
    return counters(fixture).peak_live_bytes;
}

static void
test_sizes_that_are_never_held_together(void **state)
{
    (void)state;
    struct fixture fixture;
    void *pointer;
    ferry_block *padded;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    give(take(&fixture, 100 * MIB));
    assert_int_equal(ferryi_pool_take(fixture.pool, 120 * MIB, 2 * MIB, NULL, &padded, &pointer),
                     FERRY_OK);
    give(padded);
    give(take(&fixture, 100 * MIB));
    give(take(&fixture, 1100 * MIB));
    give(take(&fixture, 100 * MIB));
    assert_int_equal(peak(&fixture), 1100 * MIB);
    fixture_close(&fixture);
}

/* Allocates two blocks that the pool finds in its idle memory, and then a block for which the pool
 * grows. The recorded peak of live bytes must include all three blocks. */
static void
test_sizes_that_are_held_together(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    give(take(&fixture, 100 * MIB));
    give(take(&fixture, 1200 * MIB));
    ferry_block *large = take(&fixture, 1200 * MIB),
                *small = take(&fixture, 100 * MIB), /* a hit beside a huge block */
                    *more = take(&fixture, LARGE);
    give(large);
    give(small);
    give(more);
    assert_int_equal(peak(&fixture),
                     1200 * MIB + ferryi_pool_class_bytes(100 * MIB, &(uint32_t){0}) + LARGE);
    fixture_close(&fixture);
}

static void
test_a_failed_growth_is_no_peak(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *none = NULL;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 16 * MIB, NULL);
    give(take(&fixture, LARGE));
    assert_int_equal(ferry_pool_allocate(fixture.pool, 100 * MIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(peak(&fixture), LARGE);
    fixture_close(&fixture);
}

static void
test_threads_in_turn(void **state)
{
    (void)state;
    struct fixture fixture;
    /* `stayers` is static, because its threads use it even after the test function has failed. */
    static struct stayer stayers[CROWD];
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    for (size_t round = 0; round < 3; round++)
        for (size_t i = 0; i < CROWD; i++) {
            if (round == 0)
                stayer_start(&stayers[i], &fixture);
            stayer_act(&stayers[i], take_and_give);
        }
    assert_int_equal(peak(&fixture), LARGE);
    for (size_t i = 0; i < CROWD; i++)
        stayer_end(&stayers[i]);
    assert_int_equal(peak(&fixture), LARGE);
    fixture_close(&fixture);
}

static void
test_threads_that_hold_at_once(void **state)
{
    (void)state;
    struct fixture fixture;
    /* `stayers` is static, because its threads use it even after the test function has failed. */
    static struct stayer stayers[CROWD];
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    for (size_t i = 0; i < CROWD; i++) {
        stayer_start(&stayers[i], &fixture);
        stayer_act(&stayers[i], take_one);
    }
    for (size_t i = 0; i < CROWD; i++) {
        stayer_act(&stayers[i], give_one);
        stayer_end(&stayers[i]);
    }
    assert_int_equal(peak(&fixture), CROWD * LARGE);
    fixture_close(&fixture);
}

/* Lets one thread allocate blocks, each of which a second thread frees immediately. The recorded
 * peak of live bytes must be the size of one block. */
static void
test_blocks_that_change_hands(void **state)
{
    (void)state;
    struct fixture fixture;
    static struct stayer taker, giver;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    stayer_start(&taker, &fixture);
    stayer_start(&giver, &fixture);
    for (int n = 0; n < 300; n++) {
        stayer_act(&taker, take_one);
        giver.block = taker.block;
        stayer_act(&giver, give_one);
    }
    assert_int_equal(peak(&fixture), LARGE);
    stayer_end(&taker);
    stayer_end(&giver);
    fixture_close(&fixture);
}

/* Allocates and frees blocks in several threads. The recorded peak of live bytes must be at least
 * each number that the test has read. It must be at most the peak of the reserved bytes. */
static void
test_the_peak_stays_within_what_is_known(void **state)
{
    (void)state;
    struct fixture fixture;
    /* `stayers` is static, because its threads use it even after the test function has failed. */
    static struct stayer stayers[CROWD];
    uint64_t seen = 0, seed = 7;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    for (size_t i = 0; i < CROWD; i++)
        stayer_start(&stayers[i], &fixture);
    for (int n = 0; n < 2000; n++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        struct stayer *stayer = &stayers[(seed >> 33) % CROWD];
        stayer_act(stayer, stayer->block ? give_one : take_one);
        if (n % 37 == 0) {
            ferry_pool_stats stats = statistics(&fixture);
            struct ferryi_pool_counters all = counters(&fixture);
            seen = stats.live_bytes > seen ? stats.live_bytes : seen;
            assert_true(all.peak_live_bytes >= seen &&
                        all.peak_live_bytes <= stats.peak_reserved_bytes);
            assert_int_equal(class_stats(&fixture, 14).live_bytes, stats.live_bytes);
        }
    }
    for (size_t i = 0; i < CROWD; i++) {
        if (stayers[i].block)
            stayer_act(&stayers[i], give_one);
        stayer_end(&stayers[i]);
    }
    fixture_close(&fixture);
}

/* Small blocks from one slab, for which the pool does not grow again. The peak in the public
 * statistics must be close to the number of bytes that were live at once, and a reset begins a new
 * peak. */
static void
test_the_public_peak(void **state)
{
    (void)state;
    enum { BLOCKS = 2000 };
    static ferry_block *blocks[BLOCKS];
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 64 * MIB, NULL);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = take(&fixture, 512);
    for (size_t i = 0; i < BLOCKS; i++)
        give(blocks[i]);
    ferry_pool_stats stats = statistics(&fixture);
    assert_int_equal(stats.limit_bytes, 64 * MIB);
    assert_int_equal(stats.live_bytes, 0);
    assert_true(stats.peak_live_bytes <= BLOCKS * 512);
    assert_true(stats.peak_live_bytes + stats.reserved_bytes / 8 >= BLOCKS * 512);
    ferryi_pool_reset_stats(fixture.pool);
    assert_int_equal(statistics(&fixture).peak_live_bytes, 0);
    ferry_block *one = take(&fixture, MIB);
    ferryi_pool_reset_stats(fixture.pool);
    assert_int_equal(statistics(&fixture).peak_live_bytes, MIB);
    give(one);
    assert_int_equal(statistics(&fixture).peak_live_bytes, MIB);
    fixture_close(&fixture);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_that_are_never_held_together),
        cmocka_unit_test(test_sizes_that_are_held_together),
        cmocka_unit_test(test_a_failed_growth_is_no_peak),
        cmocka_unit_test(test_threads_in_turn),
        cmocka_unit_test(test_threads_that_hold_at_once),
        cmocka_unit_test(test_blocks_that_change_hands),
        cmocka_unit_test(test_the_peak_stays_within_what_is_known),
        cmocka_unit_test(test_the_public_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
