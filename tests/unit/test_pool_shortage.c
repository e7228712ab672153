/* SPDX-License-Identifier: MIT */
/* Tests what a pool does when memory is short: the steps that make room, their order, and the
 * message. */
#include "tests/unit/pool_backend.h"

/* -- the steps, counted ------------------------------------------------------------------------ */

static void
test_idle_memory_of_other_sizes_is_given_back(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 12 * MIB, NULL);
    give(take(&fixture, 8 * MIB));
    assert_int_equal(counters(&fixture).shortages, 0);
    give(take(&fixture, 10 * MIB));
    struct ferryi_pool_counters all = counters(&fixture);
    assert_int_equal(all.shortages, 1);
    assert_int_equal(all.trims, 1);
    assert_agrees(&fixture);
    fixture_close(&fixture);
}

static void
test_a_shortage_that_nothing_helps_is_counted(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *none = NULL;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 12 * MIB, NULL);
    assert_int_equal(ferry_pool_allocate(fixture.pool, 13 * MIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    struct ferryi_pool_counters all = counters(&fixture);
    assert_int_equal(all.shortages, 1);
    fixture_close(&fixture);
}

struct program {
    struct fixture *fixture;
    ferry_block *held[4];
    size_t calls, needed,
        helps; /* calls: number of calls of the callback; needed: bytes that the latest call must
                  free; helps: number of calls that free a block */
};

/* Gives one held block back. */
static bool
make_room(ferry_pool *pool, size_t needed_bytes, void *user)
{
    struct program *program = user;
    assert_ptr_equal(pool, program->fixture->pool);
    program->needed = needed_bytes;
    if (program->calls++ >= program->helps)
        return false;
    give(program->held[program->calls - 1]);
    return true;
}

static void
test_the_program_makes_room_until_it_is_enough(void **state)
{
    (void)state;
    struct fixture fixture;
    struct program program = {.fixture = &fixture, .helps = 4};
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 16 * MIB, NULL);
    for (size_t i = 0; i < 4; i++)
        program.held[i] = take(&fixture, 4 * MIB);
    assert_int_equal(ferry_pool_on_shortage(fixture.pool, make_room, &program), FERRY_OK);
    ferry_block *block = take(&fixture, 9 * MIB);
    assert_int_equal(program.calls, 3);
    assert_int_equal(program.needed, 9 * MIB);
    struct ferryi_pool_counters all = counters(&fixture);
    assert_int_equal(all.shortages, 1);
    give(block);
    give(program.held[3]);
    assert_agrees(&fixture);
    fixture_close(&fixture);
}

static void
test_a_program_that_cannot_help_gets_the_error(void **state)
{
    (void)state;
    struct fixture fixture;
    struct program program = {.fixture = &fixture, .helps = 1};
    ferry_block *none = NULL;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 16 * MIB, NULL);
    for (size_t i = 0; i < 4; i++)
        program.held[i] = take(&fixture, 4 * MIB);
    assert_int_equal(ferry_pool_on_shortage(fixture.pool, make_room, &program), FERRY_OK);
    assert_int_equal(ferry_pool_allocate(fixture.pool, 9 * MIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(program.calls, 2);
    assert_non_null(strstr(ferry_last_error(), "requested 9437184"));

    /* The callback must not be called after it is removed. The idle block that it freed must be
     * available. */
    assert_int_equal(ferry_pool_on_shortage(fixture.pool, NULL, NULL), FERRY_OK);
    assert_int_equal(ferry_pool_allocate(fixture.pool, 9 * MIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(program.calls, 2);
    give(take(&fixture, 4 * MIB));
    for (size_t i = 1; i < 4; i++)
        give(program.held[i]);
    fixture_close(&fixture);
}

/* -- holders ----------------------------------------------------------------------------------- */

/* An owner of clean and dirty blocks, which it can evict when the pool is short of memory. */
struct keeper {
    struct fixture *fixture;
    ferry_block *clean[2], *dirty[2];
    size_t clean_count, dirty_count, calls, dirty_calls;
};

static size_t
give_up(void *user, ferry_pool *pool, size_t needed, bool dirty_too, uint64_t *wait_ns)
{
    struct keeper *keeper = user;
    (void)wait_ns;
    size_t given = 0;
    assert_ptr_equal(pool, keeper->fixture->pool);
    assert_true(needed > 0);
    keeper->calls++;
    keeper->dirty_calls += dirty_too;
    ferry_block *block = keeper->clean_count > 0 ? keeper->clean[--keeper->clean_count]
                         : dirty_too && keeper->dirty_count > 0
                             ? keeper->dirty[--keeper->dirty_count]
                             : NULL;
    if (block) {
        given = block->bytes;
        give(block);
    }
    return given;
}

static void
keeper_open(struct keeper *keeper, struct fixture *fixture)
{
    *keeper = (struct keeper){.fixture = fixture, .clean_count = 2, .dirty_count = 2};
    fixture_open(fixture, FERRY_MEMORY_DEVICE, 16 * MIB, NULL);
    fixture->pool->config.holders.evict = give_up;
    fixture->pool->config.holders.user = keeper;
    for (size_t i = 0; i < 2; i++) {
        keeper->clean[i] = take(fixture, 4 * MIB);
        keeper->dirty[i] = take(fixture, 4 * MIB);
    }
}

static void
keeper_close(struct keeper *keeper)
{
    while (keeper->clean_count > 0)
        give(keeper->clean[--keeper->clean_count]);
    while (keeper->dirty_count > 0)
        give(keeper->dirty[--keeper->dirty_count]);
    fixture_close(keeper->fixture);
}

static void
test_clean_holders_go_first(void **state)
{
    (void)state;
    struct fixture fixture;
    struct keeper keeper;
    keeper_open(&keeper, &fixture);
    /* This allocation must evict both clean blocks and no dirty block. */
    ferry_block *block = take(&fixture, 8 * MIB);
    assert_int_equal(keeper.clean_count, 0);
    assert_int_equal(keeper.dirty_count, 2);
    assert_int_equal(keeper.dirty_calls, 0);
    give(block);
    keeper_close(&keeper);
}

static void
test_dirty_holders_go_last(void **state)
{
    (void)state;
    struct fixture fixture;
    struct keeper keeper;
    keeper_open(&keeper, &fixture);
    ferry_block *block = take(&fixture, 12 * MIB);
    assert_int_equal(keeper.clean_count, 0);
    assert_int_equal(keeper.dirty_count, 1);
    struct ferryi_pool_counters all = counters(&fixture);
    assert_int_equal(all.shortages, 1);
    give(block);
    keeper_close(&keeper);
}

/* Checks that the pool first lets the owners of its blocks evict all that they can evict. Only then
 * may it call the program's callback. */
static void
test_the_program_is_asked_after_the_holders(void **state)
{
    (void)state;
    struct fixture fixture;
    struct keeper keeper;
    keeper_open(&keeper, &fixture);
    struct program program = {.fixture = &fixture, .helps = 1, .held = {keeper.dirty[0]}};
    keeper.dirty[0] = keeper.dirty[1];
    keeper.dirty_count = 0; /* the holder's blocks are in use */
    assert_int_equal(ferry_pool_on_shortage(fixture.pool, make_room, &program), FERRY_OK);
    ferry_block *block = take(&fixture, 12 * MIB);
    assert_int_equal(program.calls, 1);
    assert_true(keeper.dirty_calls > 0);
    give(block);
    give(keeper.dirty[0]);
    keeper_close(&keeper);
}

static size_t
promise_more(void *user, ferry_pool *pool, size_t needed, bool dirty_too, uint64_t *wait_ns)
{
    (void)pool, (void)dirty_too, (void)wait_ns;
    ++*(size_t *)user;
    return needed;
}

static bool
promise_room(ferry_pool *pool, size_t needed_bytes, void *user)
{
    (void)pool, (void)needed_bytes;
    ++*(size_t *)user;
    return true;
}

/* Lets the owners of blocks and the program's callback report that they freed memory, although they
 * freed none. Checks that the allocation fails after a limited number of attempts. */
static void
test_attempts_are_bounded(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *none = NULL;
    size_t evictions = 0, calls = 0;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 16 * MIB, NULL);
    ferry_block *held = take(&fixture, 12 * MIB);
    assert_int_equal(ferry_pool_on_shortage(fixture.pool, promise_room, &calls), FERRY_OK);
    assert_int_equal(ferry_pool_allocate(fixture.pool, 8 * MIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(calls, 100);
    fixture.pool->config.holders.evict = promise_more;
    fixture.pool->config.holders.user = &evictions;
    assert_int_equal(ferry_pool_allocate(fixture.pool, 8 * MIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(evictions, 100);
    assert_int_equal(calls, 100);
    fixture.pool->config.holders.evict = NULL;
    give(held);
    fixture_close(&fixture);
}

/* -- what is said ------------------------------------------------------------------------------ */

static ferry_status
know(void *user, size_t *out_free, size_t *out_total)
{
    (void)user;
    *out_free = 5 * MIB;
    *out_total = 100 * MIB;
    return FERRY_OK;
}

static ferry_status
know_nothing(void *user, size_t *out_free, size_t *out_total)
{
    (void)user;
    (void)out_free;
    (void)out_total;
    return ferryi_fail(FERRY_ERROR_DEVICE, "this must not be shown");
}

static void
test_the_message_has_the_backends_figures(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *none = NULL;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    fixture.backend.capacity = 8 * MIB;
    ferry_block *held = take(&fixture, 4 * MIB);
    assert_int_equal(ferry_pool_allocate(fixture.pool, 6 * MIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(ferry_last_error(), "requested 6291456, free and total unknown, 4194304 "
                                               "taken, cached 0, largest free 0 bytes"));
    fixture.pool->config.backend.info = know;
    assert_int_equal(ferry_pool_allocate(fixture.pool, 6 * MIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_non_null(
        strstr(ferry_last_error(), "requested 6291456, free 5242880, total 104857600, cached 0"));
    assert_non_null(strstr(ferry_last_error(), "no more")); /* the message of the backend */
    fixture.pool->config.backend.info = know_nothing;
    assert_int_equal(ferry_pool_allocate(fixture.pool, 6 * MIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(ferry_last_error(), "free and total unknown"));
    assert_null(strstr(ferry_last_error(), "must not"));
    give(held);
    fixture_close(&fixture);
}

/* -- by age ------------------------------------------------------------------------------------ */

static void
test_trim_by_age_takes_what_is_old_enough(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    ferry_block *old = take(&fixture, 2 * MIB), *young = take(&fixture, 3 * MIB),
                *held = take(&fixture, 4 * MIB);
    give(old);
    ferryi_sleep_ns(60 * 1000 * 1000);
    give(young);
    assert_int_equal(ferry_pool_trim_older(fixture.pool, 10000), FERRY_OK);
    assert_int_equal(fixture.backend.count, 3);
    assert_int_equal(ferry_pool_trim_older(fixture.pool, UINT64_MAX), FERRY_OK);
    assert_int_equal(fixture.backend.count, 3);
    assert_int_equal(ferry_pool_trim_older(fixture.pool, 50), FERRY_OK);
    assert_int_equal(fixture.backend.count, 2);
    uint64_t misses = statistics(&fixture).misses;
    give(take(&fixture, 3 * MIB));
    assert_int_equal(statistics(&fixture).misses, misses);
    assert_int_equal(ferry_pool_trim_older(fixture.pool, 0), FERRY_OK);
    assert_int_equal(fixture.backend.count, 1); /* the held block */
    give(held);
    assert_agrees(&fixture);
    fixture_close(&fixture);
}

/* -- walks, labels and leaks ------------------------------------------------------------------- */

struct seen {
    size_t held, idle, held_bytes, idle_bytes, requested, labelled, stop_after;
};

static bool
see(const ferry_block_info *block, void *user)
{
    struct seen *seen = user;
    seen->held += block->is_held;
    seen->idle += !block->is_held;
    *(block->is_held ? &seen->held_bytes : &seen->idle_bytes) += block->bytes;
    seen->requested += block->requested_bytes;
    seen->labelled += block->label && strcmp(block->label, "weights") == 0;
    assert_non_null(block->pointer);
    return seen->held + seen->idle != seen->stop_after;
}

static void
test_a_walk_sees_every_block_once(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *blocks[100];
    struct seen seen = {0};
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    for (size_t i = 0; i < 100; i++)
        blocks[i] = take(&fixture, 1000 + i * 20000);
    for (size_t i = 0; i < 100; i += 2)
        give(blocks[i]);
    assert_int_equal(ferry_block_label(blocks[1], "weights"), FERRY_OK);
    assert_int_equal(ferry_pool_for_each_block(fixture.pool, see, &seen), FERRY_OK);
    ferry_pool_stats stats = statistics(&fixture);
    assert_int_equal(seen.held, 50);
    assert_true(seen.idle >= 50);
    assert_int_equal(seen.held_bytes, stats.live_bytes);
    assert_int_equal(seen.idle_bytes, stats.cached_bytes);
    assert_int_equal(seen.requested, stats.requested_bytes);
    assert_int_equal(seen.labelled, 1);

    seen = (struct seen){.stop_after = 7};
    assert_int_equal(ferry_pool_for_each_block(fixture.pool, see, &seen), FERRY_OK);
    assert_int_equal(seen.held + seen.idle, 7);
    for (size_t i = 1; i < 100; i += 2)
        give(blocks[i]);
    fixture_close(&fixture);
}

static void
test_a_label_goes_with_its_holder(void **state)
{
    (void)state;
    struct fixture fixture;
    struct seen seen = {0};
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    ferry_block *block = take(&fixture, 3 * MIB);
    assert_int_equal(ferry_block_label(block, "weights"), FERRY_OK);
    give(block);
    assert_ptr_equal(take(&fixture, 3 * MIB), block);
    assert_int_equal(ferry_pool_for_each_block(fixture.pool, see, &seen), FERRY_OK);
    assert_int_equal(seen.labelled, 0);
    assert_int_equal(seen.held, 1);
    give(block);
    assert_ptr_equal(take(&fixture, 3 * MIB),
                     block); /* without its label, the block must be reusable on the fast path */
    assert_int_not_equal(block->list, FERRYI_POOL_NO_LIST);
    give(block);
    assert_agrees(&fixture);
    fixture_close(&fixture);
}

static void
keep_first(ferry_log_level level, const char *message, void *user)
{
    struct fixture *fixture = user;
    if (level == FERRY_LOG_ERROR && !fixture->logged[0])
        strncpy(fixture->logged, message, sizeof(fixture->logged) - 1);
}

static void
test_leaks_are_reported_with_label_and_size(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    fixture.log.callback = keep_first;
    give(take(&fixture, 2 * MIB));
    assert_int_equal(ferry_block_label(take(&fixture, 3 * MIB - 5), "weights"), FERRY_OK);
    ferryi_pool_destroy(&fixture.pool);
    assert_non_null(
        strstr(fixture.logged, "\"weights\" of 3145728 bytes, 3145723 requested, is still held"));
#ifdef FERRYI_DEBUG_CHECKS
    assert_non_null(strstr(fixture.logged, "; taken by "));
    assert_non_null(strstr(fixture.logged, "test_pool_shortage")); /* the name of this program */
#endif
    assert_int_equal(fixture.backend.count, 0);
}

static void
test_arguments_are_checked(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    assert_int_equal(ferry_pool_for_each_block(NULL, see, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_for_each_block(fixture.pool, NULL, NULL),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_block_label(NULL, "x"), FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_on_shortage(NULL, make_room, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_trim_older(NULL, 1), FERRY_ERROR_INVALID_ARGUMENT);
    fixture_close(&fixture);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_memory_of_other_sizes_is_given_back),
        cmocka_unit_test(test_a_shortage_that_nothing_helps_is_counted),
        cmocka_unit_test(test_the_program_makes_room_until_it_is_enough),
        cmocka_unit_test(test_a_program_that_cannot_help_gets_the_error),
        cmocka_unit_test(test_clean_holders_go_first),
        cmocka_unit_test(test_dirty_holders_go_last),
        cmocka_unit_test(test_the_program_is_asked_after_the_holders),
        cmocka_unit_test(test_attempts_are_bounded),
        cmocka_unit_test(test_the_message_has_the_backends_figures),
        cmocka_unit_test(test_trim_by_age_takes_what_is_old_enough),
        cmocka_unit_test(test_a_walk_sees_every_block_once),
        cmocka_unit_test(test_a_label_goes_with_its_holder),
        cmocka_unit_test(test_leaks_are_reported_with_label_and_size),
        cmocka_unit_test(test_arguments_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
