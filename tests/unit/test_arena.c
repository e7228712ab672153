/* SPDX-License-Identifier: MIT */
/* Tests arenas, the temporary memory of one call: what is taken, what a thread keeps, and
 * allocations that fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/base/arena.h"
#include "src/base/base.h"
#include "src/base/sanitizer.h"
#include "tests/support/short_memory.h"

enum { PIECES = 300 };

/* Takes pieces of many sizes and fills each with its number. Returns whether all were taken, are
 * aligned, and kept their contents. */
static bool
fill(struct ferryi_arena *arena)
{
    unsigned char *pieces[PIECES];
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = ferryi_arena_take(arena, i % 37 * i, 3);
        if (!pieces[i] || (uintptr_t)pieces[i] % _Alignof(max_align_t) != 0)
            return false;
        memset(pieces[i], (int)i, i % 37 * i * 3);
    }
    for (size_t i = 0; i < PIECES; i++)
        for (size_t at = 0; at < i % 37 * i * 3; at++)
            if (pieces[i][at] != (unsigned char)i)
                return false;
    return true;
}

static void
test_pieces_are_apart(void **state)
{
    (void)state;
    struct ferryi_arena arena = {0};
    for (int round = 0; round < 3; round++) {
        assert_true(fill(&arena));
        ferryi_arena_free(&arena);
        assert_null(arena.newest);
        ferryi_arena_free(&arena); /* an empty arena may be freed */
    }
}

static void
test_lists_grow_and_zeroes_are_zero(void **state)
{
    (void)state;
    struct ferryi_arena arena = {0};
    uint32_t few[4] = {0, 1, 2, 3}, *items = few;
    size_t room = 4;
    for (uint32_t i = 4; i < 5000; i++) {
        assert_true(ferryi_arena_grow(&arena, &items, &room, i + 1, sizeof(*items)));
        items[i] = i;
    }
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(items[i], i);
    ferryi_arena_free(&arena);
    const char *zeros = ferryi_arena_take_zeroed(&arena, 1000, 7);
    for (size_t i = 0; i < 7000; i++)
        assert_int_equal(zeros[i], 0);
    ferryi_arena_free(&arena);
}

static void
test_impossible_sizes_are_refused(void **state)
{
    (void)state;
    struct ferryi_arena arena = {0};
    assert_null(ferryi_arena_take(&arena, SIZE_MAX / 2, 3));
    assert_null(ferryi_arena_take(&arena, SIZE_MAX, 1));
    assert_null(ferryi_arena_take_zeroed(&arena, SIZE_MAX - 20, 1));
    uint32_t *items = NULL;
    size_t room = 0;
    assert_false(ferryi_arena_grow(&arena, &items, &room, SIZE_MAX / 2, sizeof(*items)));
    assert_null(items);
    assert_int_equal(room, 0);
    ferryi_arena_free(&arena);
}

/* Makes each allocation of an arena fail in turn. The arena must stay usable, and must free all. */
static void
test_allocations_that_fail_lose_nothing(void **state)
{
    (void)state;
    struct ferryi_arena arena = {0};
    bool tripped = true;
    for (uint64_t nth = 1; tripped; nth++) {
        const int64_t live = short_memory_live();
        short_memory_arm(nth);
        bool filled = fill(&arena);
        short_memory_disarm();
        tripped = short_memory_tripped();
        assert_true(filled != tripped);
        assert_non_null(ferryi_arena_take(&arena, 100, 100));
        ferryi_arena_free(&arena);
        /* The thread may have kept a block now, or a larger one. */
        assert_true(short_memory_live() - live <= 1);
    }
}

/* A thread that fills an arena again and again soon allocates nothing. */
static void
test_a_thread_keeps_a_block(void **state)
{
    (void)state;
    if (FERRYI_SANITIZED_MALLOC)
        skip();
    struct ferryi_arena arena = {0};
    for (int round = 0; round < 4; round++) {
        assert_true(fill(&arena));
        ferryi_arena_free(&arena);
    }
    const int64_t live = short_memory_live();
    short_memory_arm_for_good(1);
    bool filled = fill(&arena);
    ferryi_arena_free(&arena);
    short_memory_disarm();
    assert_true(filled);
    assert_false(short_memory_tripped());
    assert_int_equal(short_memory_live(), live);
    /* A block of a very long list is not kept. */
    assert_non_null(ferryi_arena_take(&arena, (size_t)8 << 20, 1));
    ferryi_arena_free(&arena);
    assert_int_equal(short_memory_live(), live);
}

struct work {
    struct ferryi_arena arena;
    bool filled;
};

static void
fill_once(void *opaque)
{
    struct work *work = opaque;
    work->filled = fill(&work->arena);
    ferryi_arena_free(&work->arena);
}

static void
fill_only(void *opaque)
{
    struct work *work = opaque;
    work->filled = fill(&work->arena);
}

static void
in_thread(void (*run)(void *opaque), struct work *work)
{
    ferryi_thread thread;
    assert_int_equal(ferryi_thread_start(&thread, "arena", run, work), FERRY_OK);
    ferryi_thread_join(thread);
    assert_true(work->filled);
}

/* What a thread keeps is freed when it ends, and an arena may be freed by another thread. */
static void
test_threads_end(void **state)
{
    (void)state;
    struct work work = {{0}, false};
    in_thread(fill_once, &work);
    const int64_t live = short_memory_live();
    in_thread(fill_once, &work);
    assert_int_equal(short_memory_live(), live);
    in_thread(fill_only, &work);
    ferryi_arena_free(&work.arena);
    assert_true(short_memory_live() - live <= 1); /* this thread may have kept a block */
}

/* The child of a fork goes on with the arena and the kept block of its only thread. */
static void
test_a_child_process_uses_arenas(void **state)
{
    (void)state;
    struct ferryi_arena arena = {0};
    char *before = ferryi_arena_take(&arena, 100, 1);
    assert_non_null(before);
    memset(before, 7, 100);
    pid_t child = fork();
    if (child == 0) {
        bool right = before[99] == 7 && fill(&arena);
        ferryi_arena_free(&arena);
        _exit(right && fill(&arena) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(before[99], 7);
    ferryi_arena_free(&arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_apart),
        cmocka_unit_test(test_lists_grow_and_zeroes_are_zero),
        cmocka_unit_test(test_impossible_sizes_are_refused),
        cmocka_unit_test(test_allocations_that_fail_lose_nothing),
        cmocka_unit_test(test_a_thread_keeps_a_block),
        cmocka_unit_test(test_threads_end),
        cmocka_unit_test(test_a_child_process_uses_arenas),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
