/* SPDX-License-Identifier: MIT */
/* Tests the compaction of a pool, during which the owner of the pool's blocks moves some of them.
 */
#include "tests/unit/pool_backend.h"

#include <pthread.h>
#include <stdatomic.h>

#include "src/pool/magazine.h"
#include "tests/support/short_memory.h"

enum { HELD = 256 };

struct mover {
    struct fixture *fixture;
    ferry_block *blocks[HELD];
    size_t count;
    /* if not 0, every N-th block is in use and cannot be moved */
    size_t stuck;
    size_t calls, failed;
    size_t asked_for; /* if not 0, the owner of the blocks moves nothing and allocates a block of
                         this many bytes */
    ferry_status answer;
};

static size_t
move_blocks(void *user, ferry_pool *pool)
{
    struct mover *mover = user;
    size_t moved = 0;
    mover->calls++;
    if (mover->asked_for > 0) {
        ferry_block *none = NULL;
        mover->answer = ferry_pool_allocate(pool, mover->asked_for, NULL, &none);
        return 0;
    }
    for (size_t i = 0; i < mover->count; i++) {
        ferry_block *old = mover->blocks[i], *block = NULL;
        if (!ferryi_block_is_draining(old) || (mover->stuck && i % mover->stuck == 0))
            continue;
        if (ferry_pool_allocate(pool, old->requested, NULL, &block) != FERRY_OK) {
            mover->failed++;
            continue;
        }
        assert_false(ferryi_block_is_draining(block));
        memcpy(ferry_block_pointer(block), ferry_block_pointer(old), old->requested);
        moved += old->requested;
        ferryi_pool_give(old, 0);
        mover->blocks[i] = block;
    }
    return moved;
}

/* Opens the fixture and allocates `count` blocks. Then frees all of them, except every `keep`-th
 * block. */
static void
mover_open(struct mover *mover, struct fixture *fixture, size_t limit, size_t bytes, size_t count,
           size_t keep)
{
    *mover = (struct mover){.fixture = fixture};
    fixture_open(fixture, FERRY_MEMORY_DEVICE, limit, NULL);
    fixture->pool->config.holders.relocate = move_blocks;
    fixture->pool->config.holders.user = mover;
    for (size_t i = 0; i < count; i++) {
        mover->blocks[i] = take(fixture, bytes);
        memset(ferry_block_pointer(mover->blocks[i]), (int)i, bytes);
    }
    for (size_t i = 0; i < count; i++)
        if (i % keep == 0)
            mover->blocks[mover->count++] = mover->blocks[i];
        else
            give(mover->blocks[i]);
}

static void
mover_check(const struct mover *mover, size_t bytes, size_t keep)
{
    for (size_t i = 0; i < mover->count; i++) {
        const unsigned char *memory = ferry_block_pointer(mover->blocks[i]);
        assert_int_equal(memory[0], (unsigned char)(i * keep));
        assert_int_equal(memory[bytes - 1], (unsigned char)(i * keep));
    }
}

static void
mover_close(struct mover *mover)
{
    for (size_t i = 0; i < mover->count; i++)
        give(mover->blocks[i]);
    fixture_close(mover->fixture);
}

static void
test_sparse_slabs_become_one(void **state)
{
    (void)state;
    struct fixture fixture;
    struct mover mover;
    ferry_pool_compaction compaction;
    mover_open(&mover, &fixture, 0, 256 * KIB, 64, 8); /* one block in each of eight slabs */
    assert_int_equal(fixture.backend.count, 8);
    assert_int_equal(ferry_pool_compact(fixture.pool, &compaction), FERRY_OK);
    assert_int_equal(fixture.backend.count, 1);
    assert_int_equal(compaction.freed_slabs, 7);
    assert_int_equal(compaction.freed_bytes, 14 * MIB);
    assert_int_equal(compaction.moved_bytes, 7 * 256 * KIB);
    assert_int_equal(mover.failed, 0);
    mover_check(&mover, 256 * KIB, 8);
    for (size_t i = 0; i < mover.count; i++)
        assert_false(ferryi_block_is_draining(mover.blocks[i]));
    assert_agrees(&fixture);
    assert_int_equal(ferry_pool_compact(fixture.pool, NULL),
                     FERRY_OK); /* nothing left to compact */
    assert_int_equal(fixture.backend.count, 1);
    mover_close(&mover);
}

static void
test_blocks_in_use_stay_and_their_slabs_serve_again(void **state)
{
    (void)state;
    struct fixture fixture;
    struct mover mover;
    ferry_pool_compaction compaction;
    mover_open(&mover, &fixture, 0, 256 * KIB, 64, 8);
    mover.stuck = 2;
    assert_int_equal(ferry_pool_compact(fixture.pool, &compaction), FERRY_OK);
    assert_int_equal(compaction.freed_slabs, 64 / 8 - fixture.backend.count);
    assert_true(compaction.freed_slabs >= 3);
    mover_check(&mover, 256 * KIB, 8);
    assert_agrees(&fixture);
    /* The pool must reuse the free blocks of the remaining slabs before it allocates a slab. */
    unsigned long allocations = fixture.backend.allocations;
    for (size_t left = fixture.backend.count * 8 - mover.count; left > 0; left--)
        mover.blocks[mover.count++] = take(&fixture, 256 * KIB);
    assert_int_equal(fixture.backend.allocations, allocations);
    mover_close(&mover);
}

/* Checks that a compaction frees an empty slab and leaves a nearly full one alone. If it emptied
 * the nearly full slab too, no slab would be left for the blocks of that slab. */
static void
test_full_slabs_are_not_emptied(void **state)
{
    (void)state;
    enum { BLOCKS = 64, FULL = 57 }; /* a slab with FULL of its BLOCKS blocks counts as full */
    struct fixture fixture;
    struct mover mover;
    ferry_pool_compaction compaction;
    mover_open(&mover, &fixture, 0, 32 * KIB, 2 * BLOCKS, 1);
    assert_int_equal(fixture.backend.count, 2);
    while (mover.count > FULL)
        give(mover.blocks[--mover.count]);
    assert_int_equal(ferry_pool_compact(fixture.pool, &compaction), FERRY_OK);
    assert_int_equal(compaction.freed_slabs, 1);
    assert_int_equal(compaction.moved_bytes, 0);
    assert_int_equal(mover.failed, 0);
    mover_check(&mover, 32 * KIB, 1);

    /* The room of the full slab does not count. So only one of two slabs with a few blocks is
     * emptied: its blocks go to the other one. */
    for (size_t i = FULL; i < 3 * BLOCKS; i++)
        mover.blocks[i] = take(&fixture, 32 * KIB);
    for (size_t i = FULL; i < 3 * BLOCKS; i++)
        if (i >= BLOCKS && i % BLOCKS < 3)
            mover.blocks[mover.count++] = mover.blocks[i];
        else
            give(mover.blocks[i]);
    assert_int_equal(mover.count, FULL + 6);
    assert_int_equal(fixture.backend.count, 3);
    assert_int_equal(ferry_pool_compact(fixture.pool, &compaction), FERRY_OK);
    assert_int_equal(compaction.freed_slabs, 1);
    assert_int_equal(compaction.moved_bytes, 3 * 32 * KIB);
    mover_close(&mover);
}

static void
test_without_holders_only_empty_slabs_go(void **state)
{
    (void)state;
    struct fixture fixture;
    struct mover mover;
    ferry_pool_compaction compaction;
    mover_open(&mover, &fixture, 0, 256 * KIB, 32, 16); /* every other slab is empty */
    fixture.pool->config.holders.relocate = NULL;
    assert_int_equal(ferry_pool_compact(fixture.pool, &compaction), FERRY_OK);
    assert_int_equal(compaction.freed_slabs, 2);
    assert_int_equal(compaction.moved_bytes, 0);
    mover_close(&mover);
}

/* Lets the owner of the blocks allocate a block during a compaction, as it does to move a block.
 * The pool may use only idle memory for this, because new memory would undo the gain of the
 * compaction. */
static void
test_moves_get_idle_memory_only(void **state)
{
    (void)state;
    struct fixture fixture;
    struct mover mover;
    mover_open(&mover, &fixture, 0, 256 * KIB, 16, 4);
    mover.asked_for = 3 * MIB;
    unsigned long allocations = fixture.backend.allocations;
    assert_int_equal(ferry_pool_compact(fixture.pool, NULL), FERRY_OK);
    assert_int_equal(mover.answer, FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(mover.calls, 1);
    assert_int_equal(fixture.backend.allocations, allocations);
    mover.asked_for = 0;
    mover_close(&mover);
}

static void
test_a_shortage_compacts_where_holes_are_the_reason(void **state)
{
    (void)state;
    struct fixture fixture;
    struct mover mover;
    mover_open(&mover, &fixture, 8 * MIB, 256 * KIB, 32,
               2); /* leaves 4 MiB of idle memory, in holes of 256 KiB */
    ferry_block *block = take(&fixture, 3 * MIB);
    struct ferryi_pool_counters all = counters(&fixture);
    assert_int_equal(all.shortages, 1);
    mover_check(&mover, 256 * KIB, 2);
    ferry_block *none = NULL;
    size_t calls = mover.calls;
    assert_int_equal(ferry_pool_allocate(fixture.pool, 3 * MIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    /* The idle memory is not enough for the request, so the pool must not attempt a compaction. */
    assert_int_equal(mover.calls, calls);
    give(block);
    mover_close(&mover);
}

static void
test_memory_that_cannot_be_freed_stays_usable(void **state)
{
    (void)state;
    struct fixture fixture;
    struct mover mover;
    ferry_pool_compaction compaction;
    mover_open(&mover, &fixture, 0, 256 * KIB, 16, 8);
    fixture.backend.fail_at = fixture.backend.calls + 1;
    fixture.backend.fail_with = FERRY_ERROR_DEVICE;
    assert_int_equal(ferry_pool_compact(fixture.pool, &compaction), FERRY_OK);
    assert_int_equal(compaction.freed_slabs, 0);
    assert_int_equal(fixture.backend.count, 2);
    assert_agrees(&fixture);
    unsigned long allocations = fixture.backend.allocations;
    for (size_t i = 0; i < 14; i++)
        mover.blocks[mover.count++] = take(&fixture, 256 * KIB);
    assert_int_equal(fixture.backend.allocations, allocations);
    mover_close(&mover);
}

static void
test_arguments_are_checked(void **state)
{
    (void)state;
    assert_int_equal(ferry_pool_compact(NULL, NULL), FERRY_ERROR_INVALID_ARGUMENT);
}

/* -- under threads ----------------------------------------------------------------------------- */

enum { THREADS = 3, SLOTS = 40 };

struct worker {
    struct fixture *fixture;
    uint64_t seed;
    atomic_bool *stop;
};

/* Thread function that allocates random blocks, marks each block, and checks the mark before it
 * frees the block. */
static void *
work(void *argument)
{
    struct worker *worker = argument;
    ferry_block *held[SLOTS] = {0};
    size_t bytes[SLOTS] = {0};
    for (int n = 0; n < 4000 || !atomic_load(worker->stop); n++) {
        worker->seed = worker->seed * 6364136223846793005u + 1442695040888963407u;
        size_t slot = (size_t)(worker->seed >> 40) % SLOTS;
        unsigned char *memory = ferry_block_pointer(held[slot]);
        if (held[slot]) {
            if (memory[0] != slot || memory[bytes[slot] - 1] != slot)
                abort();
            ferryi_pool_give(held[slot], 0);
            held[slot] = NULL;
            continue;
        }
        bytes[slot] = 256 + (size_t)(worker->seed >> 20) % (200 * KIB);
        if (ferry_pool_allocate(worker->fixture->pool, bytes[slot], NULL, &held[slot]) != FERRY_OK)
            abort();
        memory = ferry_block_pointer(held[slot]);
        memory[0] = memory[bytes[slot] - 1] = (unsigned char)slot;
    }
    for (size_t i = 0; i < SLOTS; i++)
        ferryi_pool_give(held[i], 0);
    return NULL;
}

static void
test_other_threads_go_on(void **state)
{
    (void)state;
    struct fixture fixture;
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    atomic_bool stop = false;
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    fixture.crowded = true;
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){&fixture, i + 1, &stop};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int n = 0; n < 100; n++)
        assert_int_equal(ferry_pool_compact(fixture.pool, NULL), FERRY_OK);
    atomic_store(&stop, true);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    fixture_close(&fixture);
}

/* -- beside other threads ---------------------------------------------------------------------- */

struct meeting {
    struct mover mover;
    pthread_t compacting;
    atomic_bool moving, given;
    ferry_block *block;
};

static void
wait_for(const atomic_bool *flag)
{
    while (!atomic_load(flag))
        ferryi_yield();
}

static size_t
move_nothing_until_given(void *user, ferry_pool *pool)
{
    struct meeting *meeting = user;
    (void)pool;
    atomic_store(&meeting->moving, true);
    wait_for(&meeting->given);
    return 0;
}

static void *
compact(void *pool)
{
    assert_int_equal(ferry_pool_compact(pool, NULL), FERRY_OK);
    return NULL;
}

static void
begin_to_compact(void *user)
{
    struct meeting *meeting = user;
    assert_int_equal(
        pthread_create(&meeting->compacting, NULL, compact, meeting->mover.fixture->pool), 0);
    wait_for(&meeting->moving);
    assert_true(ferryi_block_is_draining(meeting->block));
}

/* Frees a block in a thread that has no magazine for its size class. The pool must allocate a
 * magazine, and a compaction begins during this allocation. */
static void *
give_the_block(void *user)
{
    struct meeting *meeting = user;
    short_memory_meet(sizeof(struct ferryi_magazine), begin_to_compact, meeting);
    ferryi_pool_give(meeting->block, 0);
    return NULL;
}

/* Begins a compaction while a thread is freeing a block. Checks that the pool does not lose the
 * block. */
static void
test_a_compaction_begins_within_a_give(void **state)
{
    (void)state;
    struct fixture fixture;
    static struct meeting meeting;
    pthread_t giving;
    mover_open(&meeting.mover, &fixture, 0, 256 * KIB, 64, 8);
    fixture.pool->config.holders.relocate = move_nothing_until_given;
    fixture.pool->config.holders.user = &meeting;
    meeting.block = meeting.mover.blocks[0];
    meeting.mover.blocks[0] = meeting.mover.blocks[--meeting.mover.count];
    assert_int_equal(pthread_create(&giving, NULL, give_the_block, &meeting), 0);
    pthread_join(giving, NULL);
    atomic_store(&meeting.given, true);
    pthread_join(meeting.compacting, NULL);
    assert_agrees(&fixture);
    mover_close(&meeting.mover);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sparse_slabs_become_one),
        cmocka_unit_test(test_blocks_in_use_stay_and_their_slabs_serve_again),
        cmocka_unit_test(test_full_slabs_are_not_emptied),
        cmocka_unit_test(test_without_holders_only_empty_slabs_go),
        cmocka_unit_test(test_moves_get_idle_memory_only),
        cmocka_unit_test(test_a_shortage_compacts_where_holes_are_the_reason),
        cmocka_unit_test(test_memory_that_cannot_be_freed_stays_usable),
        cmocka_unit_test(test_arguments_are_checked),
        cmocka_unit_test(test_other_threads_go_on),
        cmocka_unit_test(test_a_compaction_begins_within_a_give),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
