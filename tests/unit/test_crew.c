/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/transfer/crew.h"

enum { TASKS = 64, BYTES = 20000 };

struct load {
    struct ferryi_task tasks[TASKS];
    unsigned char *source, *target;
};

static void
load_open(struct load *load, unsigned seed)
{
    load->source = malloc((size_t)TASKS * BYTES);
    load->target = calloc(TASKS, BYTES);
    assert_non_null(load->source);
    assert_non_null(load->target);
    for (size_t i = 0; i < (size_t)TASKS * BYTES; i++)
        load->source[i] = (unsigned char)(i * 31 + i / 251 + seed);
    for (size_t i = 0; i < TASKS; i++)
        load->tasks[i] = (struct ferryi_task){.loop = FERRYI_COPY_LIBC, .target = load->target + i * BYTES,
                                              .source = load->source + i * BYTES, .bytes = BYTES};
}

static bool
load_is_done(const struct load *load)
{
    return memcmp(load->source, load->target, (size_t)TASKS * BYTES) == 0;
}

static void
load_close(struct load *load)
{
    free(load->source);
    free(load->target);
}

static void
run_all(struct ferryi_crew *crew, struct load *load, bool shared)
{
    for (size_t i = 0; i < TASKS; i++)
        ferryi_crew_give(crew, &load->tasks[i], shared);
    for (size_t i = 0; i < TASKS; i++)
        ferryi_crew_finish(crew, &load->tasks[i]);
}

static void
test_all_tasks_are_done_by_any_number_of_threads(void **state)
{
    (void)state;
    for (unsigned wanted = 0; wanted <= 4; wanted++) {
        struct ferryi_crew crew;
        struct load load;
        ferryi_crew_init(&crew);
        assert_int_equal(ferryi_crew_start(&crew, wanted), wanted);
        for (unsigned round = 0; round < 20; round++) {
            load_open(&load, round);
            run_all(&crew, &load, true);
            assert_true(load_is_done(&load));
            load_close(&load);
        }
        ferryi_crew_clear(&crew);
    }
}

static void
test_without_sharing_it_is_done_at_once(void **state)
{
    (void)state;
    struct ferryi_crew crew;
    struct load load;
    ferryi_crew_init(&crew);
    load_open(&load, 1);
    for (size_t i = 0; i < TASKS; i++) {
        ferryi_crew_give(&crew, &load.tasks[i], false);
        assert_memory_equal(load.tasks[i].target, load.tasks[i].source, BYTES);
        assert_int_equal(load.tasks[i].doer, FERRYI_CREW_GIVER);
    }
    load_close(&load);
    ferryi_crew_clear(&crew);
}

/* What a helper's caches hold is left to the helper, as long as there is other work. */
static void
test_own_tasks_come_first(void **state)
{
    (void)state;
    struct ferryi_crew crew;
    struct load load;
    enum { HELPER = FERRYI_CREW_GIVER + 1 };
    static const unsigned doers[] = {HELPER, FERRYI_CREW_NOBODY, FERRYI_CREW_GIVER, HELPER};
    ferryi_crew_init(&crew);
    load_open(&load, 2);
    for (size_t i = 0; i < 4; i++) {
        load.tasks[i].doer = doers[i];
        ferryi_crew_give(&crew, &load.tasks[i], true);
    }
    ferryi_crew_finish(&crew, &load.tasks[2]);
    assert_true(load.tasks[2].done);
    assert_false(load.tasks[0].done);
    ferryi_crew_finish(&crew, &load.tasks[0]);
    assert_int_equal(load.tasks[0].doer, FERRYI_CREW_GIVER);
    assert_false(load.tasks[1].done);
    ferryi_crew_finish(&crew, &load.tasks[3]);
    ferryi_crew_finish(&crew, &load.tasks[1]);
    for (size_t i = 0; i < 4; i++)
        assert_memory_equal(load.tasks[i].target, load.tasks[i].source, BYTES);
    load_close(&load);
    ferryi_crew_clear(&crew);
}

/* They start once; a later wish for more is not heard. */
static void
test_threads_start_once(void **state)
{
    (void)state;
    struct ferryi_crew crew;
    ferryi_crew_init(&crew);
    assert_int_equal(ferryi_crew_start(&crew, 0), 0);
    assert_int_equal(crew.process, 0);
    assert_int_equal(ferryi_crew_start(&crew, 2), 2);
    assert_int_equal(ferryi_crew_start(&crew, 4), 2);
    ferryi_crew_clear(&crew);
}

struct giver {
    struct ferryi_crew *crew;
    struct load load;
};

static void
give_and_finish(void *opaque)
{
    struct giver *giver = opaque;
    run_all(giver->crew, &giver->load, true);
}

static void
test_several_givers(void **state)
{
    (void)state;
    struct ferryi_crew crew;
    struct giver givers[4];
    ferryi_thread threads[4];
    ferryi_crew_init(&crew);
    assert_int_equal(ferryi_crew_start(&crew, 2), 2);
    for (unsigned i = 0; i < 4; i++) {
        givers[i].crew = &crew;
        load_open(&givers[i].load, i);
        assert_int_equal(ferryi_thread_start(&threads[i], "giver", give_and_finish, &givers[i]), FERRY_OK);
    }
    for (unsigned i = 0; i < 4; i++) {
        ferryi_thread_join(threads[i]);
        assert_true(load_is_done(&givers[i].load));
        load_close(&givers[i].load);
    }
    ferryi_crew_clear(&crew);
}

/* The child has no helpers, asks for none, and waits for none. */
static void
test_the_child_of_a_fork_works_alone(void **state)
{
    (void)state;
    struct ferryi_crew crew;
    ferryi_crew_init(&crew);
    assert_int_equal(ferryi_crew_start(&crew, 2), 2);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct load load;
        alarm(20);
        unsigned helpers = ferryi_crew_start(&crew, 2);
        load_open(&load, 3);
        run_all(&crew, &load, helpers > 0);
        bool ok = helpers == 0 && load_is_done(&load);
        ferryi_crew_clear(&crew);
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct load load;
    load_open(&load, 4);
    run_all(&crew, &load, true);
    assert_true(load_is_done(&load));
    load_close(&load);
    ferryi_crew_clear(&crew);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_tasks_are_done_by_any_number_of_threads),
        cmocka_unit_test(test_without_sharing_it_is_done_at_once),
        cmocka_unit_test(test_own_tasks_come_first),
        cmocka_unit_test(test_threads_start_once),
        cmocka_unit_test(test_several_givers),
        cmocka_unit_test(test_the_child_of_a_fork_works_alone),
    };
    return cmocka_run_group_tests_name("crew", tests, NULL, NULL);
}
