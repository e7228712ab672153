/* SPDX-License-Identifier: MIT */
/*
 * Makes random calls on a pool and compares the pool with a model, which is a list of the allocated
 * blocks. Allocated blocks must not overlap, and must be aligned and large enough. The pool's
 * statistics, its lists and the counts of the memory backend must agree with the model.
 */
#include "tests/unit/pool_backend.h"

#include "src/pool/slab.h"

enum { HELD = 128 };

struct held {
    ferry_block *block;
    unsigned char *pointer; /* has the requested alignment */
    size_t bytes;
    unsigned char mark;
};

struct model {
    struct fixture *fixture;
    struct held held[HELD];
    size_t count;
    uint64_t seed;
    bool alone; /* whether only this thread uses the pool, so that its counts are predictable */
};

static uint64_t
draw(struct model *model, uint64_t below)
{
    model->seed = model->seed * 6364136223846793005u + 1442695040888963407u;
    return (model->seed >> 33) % below;
}

/* Returns a random size. Most sizes are small, but large sizes are not rare. */
static size_t
draw_bytes(struct model *model)
{
    size_t bytes = (size_t)1 << draw(model, draw(model, 4) == 0 ? 23 : 17);
    return draw(model, 50) == 0 ? 0 : bytes + (size_t)draw(model, bytes);
}

static void
mark(struct held *held, unsigned char with)
{
    held->mark = with;
    if (held->bytes == 0)
        return;
    held->pointer[0] = held->pointer[held->bytes / 2] = held->pointer[held->bytes - 1] = with;
}

static void
check_mark(const struct held *held)
{
    if (held->bytes > 0 &&
        (held->pointer[0] != held->mark || held->pointer[held->bytes / 2] != held->mark ||
         held->pointer[held->bytes - 1] != held->mark))
        abort();
}

static void
take_one(struct model *model)
{
    struct held *held = &model->held[model->count];
    size_t bytes = draw_bytes(model),
           align = (size_t)256 << (draw(model, 4) == 0 ? draw(model, 9) : 0);
    void *pointer = NULL;
    ferry_status status =
        ferryi_pool_take(model->fixture->pool, bytes, align, NULL, &held->block, &pointer);
    if (status == FERRY_ERROR_OUT_OF_MEMORY)
        return;
    if (status != FERRY_OK || held->block->bytes < bytes || (uintptr_t)pointer % align != 0)
        abort();
    if (bytes > 0 && ((char *)pointer < (char *)held->block->pointer ||
                      (char *)pointer + bytes > (char *)held->block->pointer + held->block->bytes))
        abort();
    /* The rounding to a size class may waste an eighth of the bytes. */
    if (align <= 256 && bytes >= 2048 && held->block->bytes - bytes > bytes / 8)
        abort();
    held->pointer = pointer;
    held->bytes = bytes;
    mark(held, (unsigned char)draw(model, 256));
    model->count++;
}

static void
give_one(struct model *model)
{
    struct held *held = &model->held[draw(model, model->count)];
    check_mark(held);
    ferryi_pool_give(held->block, 0);
    *held = model->held[--model->count];
}

/* Makes a block longer, if the memory behind it is free. Slabs of pools without a range have none.
 */
static void
extend_one(struct model *model)
{
    struct held *held = &model->held[draw(model, model->count)];
    size_t bytes = held->bytes + 1 + (size_t)draw(model, held->bytes + 1);
    ferry_block *longer = held->bytes > 0 ? ferryi_block_extend(held->block, bytes) : NULL;
    if (!longer)
        return;
    if (longer == held->block || ferry_block_pointer(longer) != (void *)held->pointer ||
        longer->bytes < bytes)
        abort();
    check_mark(held);
    ferryi_block_retire(held->block);
    held->block = longer;
    held->bytes = bytes;
    mark(held, held->mark);
}

static int
by_address(const void *a, const void *b)
{
    const ferry_block *const *x = a, *const *y = b;
    return ((char *)(*x)->pointer > (char *)(*y)->pointer) -
           ((char *)(*x)->pointer < (char *)(*y)->pointer);
}

static void
check_no_overlap(const struct model *model)
{
    ferry_block *blocks[HELD];
    for (size_t i = 0; i < model->count; i++)
        blocks[i] = model->held[i].block;
    qsort(blocks, model->count, sizeof(blocks[0]), by_address);
    for (size_t i = 1; i < model->count; i++)
        assert_true((uintptr_t)blocks[i - 1]->pointer + blocks[i - 1]->bytes <=
                    (uintptr_t)blocks[i]->pointer);
}

static void
check_counts(const struct model *model)
{
    size_t bytes = 0, requested = 0;
    ferry_pool_stats stats = statistics(model->fixture);
    for (size_t i = 0; i < model->count; i++) {
        bytes += model->held[i].block->bytes;
        requested += model->held[i].bytes;
    }
    assert_int_equal(stats.live_blocks, model->count);
    assert_int_equal(stats.live_bytes, bytes);
    assert_int_equal(stats.requested_bytes, requested);
    assert_int_equal(stats.reserved_bytes, stats.live_bytes + stats.cached_bytes);
    assert_agrees(model->fixture);
    check_no_overlap(model);
}

static void
step(struct model *model)
{
    uint64_t what = draw(model, 1000);
    if (what < 4)
        ferry_pool_trim(model->fixture->pool, (size_t)draw(model, 64 * MIB));
    else if (what < 5)
        ferry_pool_trim_older(model->fixture->pool, 0);
    else if (what < 10 && model->alone)
        check_counts(model);
    else if (what < 100 && model->count > 0)
        extend_one(model);
    else if (model->count == HELD || (model->count > 0 && draw(model, 2) == 0))
        give_one(model);
    else
        take_one(model);
}

static void
run(struct model *model, int steps)
{
    for (int n = 0; n < steps; n++)
        step(model);
}

static void
end(struct model *model)
{
    while (model->count > 0)
        give_one(model);
}

static void
test_any_use_agrees_with_the_model(void **state)
{
    (void)state;
    const size_t limits[] = {0, 64 * MIB, 16 * MIB, 3 * MIB};
    for (size_t i = 0; i < 8; i++) {
        struct fixture fixture;
        struct model model = {.fixture = &fixture, .seed = i + 1, .alone = true};
        fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, limits[i / 2], NULL);
        run(&model, 20000);
        check_counts(&model);
        end(&model);
        check_counts(&model);
        fixture_close(&fixture);
    }
}

static void
test_any_use_agrees_with_the_model_whatever_fails(void **state)
{
    (void)state;
    for (unsigned long nth = 1; nth < 60; nth += 3) {
        struct fixture fixture;
        struct model model = {.fixture = &fixture, .seed = nth, .alone = true};
        fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 24 * MIB, NULL);
        fixture.backend.fail_at = nth;
        run(&model, 500);
        check_counts(&model);
        fixture.backend.fail_at = 0;
        end(&model);
        fixture_close(&fixture);
    }
}

/* -- under threads ----------------------------------------------------------------------------- */

enum { THREADS = 4 };

static void *
run_thread(void *argument)
{
    run(argument, 10000);
    return NULL;
}

static void
test_threads_never_hold_the_same_byte(void **state)
{
    (void)state;
    const size_t limits[] = {0, 48 * MIB};
    for (size_t i = 0; i < 2; i++) {
        struct fixture fixture;
        pthread_t threads[THREADS];
        static struct model models[THREADS];
        struct model all = {.fixture = &fixture};
        fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, limits[i], NULL);
        fixture.crowded = true;
        for (size_t t = 0; t < THREADS; t++) {
            models[t] = (struct model){.fixture = &fixture, .seed = 100 * i + t + 1};
            assert_int_equal(pthread_create(&threads[t], NULL, run_thread, &models[t]), 0);
        }
        for (size_t t = 0; t < THREADS; t++)
            pthread_join(threads[t], NULL);
        for (size_t t = 0; t < THREADS; t++) {
            for (size_t k = 0; k < models[t].count; k++)
                check_mark(&models[t].held[k]);
            for (size_t k = 0; k < models[t].count / 4; k++)
                all.held[all.count++] = models[t].held[k];
        }
        check_no_overlap(&all);
        assert_agrees(&fixture);
        for (size_t t = 0; t < THREADS; t++)
            end(&models[t]);
        fixture_close(&fixture);
    }
}

/* Usage: test_pool_model [HANDLE-BYTES]. With an argument, the pools map handles of that size. */
int
main(int argc, char **argv)
{
    backend_handle_bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_use_agrees_with_the_model),
        cmocka_unit_test(test_any_use_agrees_with_the_model_whatever_fails),
        cmocka_unit_test(test_threads_never_hold_the_same_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
