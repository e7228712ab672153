/* SPDX-License-Identifier: MIT */
/* Tests the threads that fill and drain chunks of the staging ring beside the caller. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/base/node.h"
#include "src/transfer/helpers.h"

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
        load->tasks[i] = (struct ferryi_task){.loop = FERRYI_COPY_LIBC,
                                              .target = load->target + i * BYTES,
                                              .source = load->source + i * BYTES,
                                              .bytes = BYTES};
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
run_all(struct ferryi_helpers *helpers, struct load *load, bool shared)
{
    for (size_t i = 0; i < TASKS; i++)
        ferryi_helpers_submit(helpers, &load->tasks[i], shared);
    for (size_t i = 0; i < TASKS; i++)
        ferryi_helpers_finish(helpers, &load->tasks[i]);
}

static void
test_all_tasks_are_done_by_any_number_of_threads(void **state)
{
    (void)state;
    for (unsigned wanted = 0; wanted <= 4; wanted++) {
        struct ferryi_helpers helpers;
        struct load load;
        ferryi_helpers_init(&helpers, NULL);
        assert_int_equal(ferryi_helpers_start(&helpers, wanted), wanted);
        for (unsigned round = 0; round < 20; round++) {
            load_open(&load, round);
            run_all(&helpers, &load, true);
            assert_true(load_is_done(&load));
            load_close(&load);
        }
        ferryi_helpers_clear(&helpers);
    }
}

static void
test_without_sharing_it_is_done_at_once(void **state)
{
    (void)state;
    struct ferryi_helpers helpers;
    struct load load;
    ferryi_helpers_init(&helpers, NULL);
    load_open(&load, 1);
    for (size_t i = 0; i < TASKS; i++) {
        ferryi_helpers_submit(&helpers, &load.tasks[i], false);
        assert_memory_equal(load.tasks[i].target, load.tasks[i].source, BYTES);
        assert_int_equal(load.tasks[i].helper, FERRYI_HELPERS_SUBMITTER);
    }
    load_close(&load);
    ferryi_helpers_clear(&helpers);
}

/* A thread that submits tasks also runs queued tasks while it waits. Checks that it first runs the
 * tasks whose data may be in its own caches. It runs the other tasks later, in their order. */
static void
test_own_tasks_come_first(void **state)
{
    (void)state;
    struct ferryi_helpers helpers;
    struct load load;
    enum { HELPER = FERRYI_HELPERS_SUBMITTER + 1 };
    static const unsigned doers[] = {HELPER, FERRYI_HELPERS_NONE, FERRYI_HELPERS_SUBMITTER, HELPER};
    ferryi_helpers_init(&helpers, NULL);
    load_open(&load, 2);
    for (size_t i = 0; i < 4; i++) {
        load.tasks[i].helper = doers[i];
        ferryi_helpers_submit(&helpers, &load.tasks[i], true);
    }
    ferryi_helpers_finish(&helpers, &load.tasks[2]);
    assert_true(load.tasks[2].done);
    assert_false(load.tasks[0].done);
    ferryi_helpers_finish(&helpers, &load.tasks[0]);
    assert_int_equal(load.tasks[0].helper, FERRYI_HELPERS_SUBMITTER);
    assert_false(load.tasks[1].done);
    ferryi_helpers_finish(&helpers, &load.tasks[3]);
    ferryi_helpers_finish(&helpers, &load.tasks[1]);
    for (size_t i = 0; i < 4; i++)
        assert_memory_equal(load.tasks[i].target, load.tasks[i].source, BYTES);
    load_close(&load);
    ferryi_helpers_clear(&helpers);
}

/* Checks that helper threads are started only once. A second request, for more threads, must have
 * no effect. */
static void
test_threads_start_once(void **state)
{
    (void)state;
    struct ferryi_helpers helpers;
    ferryi_helpers_init(&helpers, NULL);
    assert_int_equal(ferryi_helpers_start(&helpers, 0), 0);
    assert_int_equal(helpers.process, 0);
    assert_int_equal(ferryi_helpers_start(&helpers, 2), 2);
    assert_int_equal(ferryi_helpers_start(&helpers, 4), 2);
    ferryi_helpers_clear(&helpers);
}

struct submitter {
    struct ferryi_helpers *helpers;
    struct load load;
};

static void
give_and_finish(void *opaque)
{
    struct submitter *submitter = opaque;
    run_all(submitter->helpers, &submitter->load, true);
}

static void
test_several_submitters(void **state)
{
    (void)state;
    struct ferryi_helpers helpers;
    struct submitter submitters[4];
    ferryi_thread threads[4];
    ferryi_helpers_init(&helpers, NULL);
    assert_int_equal(ferryi_helpers_start(&helpers, 2), 2);
    for (unsigned i = 0; i < 4; i++) {
        submitters[i].helpers = &helpers;
        load_open(&submitters[i].load, i);
        assert_int_equal(
            ferryi_thread_start(&threads[i], "submitter", give_and_finish, &submitters[i]),
            FERRY_OK);
    }
    for (unsigned i = 0; i < 4; i++) {
        ferryi_thread_join(threads[i]);
        assert_true(load_is_done(&submitters[i].load));
        load_close(&submitters[i].load);
    }
    ferryi_helpers_clear(&helpers);
}

/* Checks that the child of a fork has no helpers, starts none, and does not wait for any. */
static void
test_the_child_of_a_fork_works_alone(void **state)
{
    (void)state;
    struct ferryi_helpers helpers;
    ferryi_helpers_init(&helpers, NULL);
    assert_int_equal(ferryi_helpers_start(&helpers, 2), 2);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct load load;
        alarm(20);
        unsigned started = ferryi_helpers_start(&helpers, 2);
        load_open(&load, 3);
        run_all(&helpers, &load, started > 0);
        bool ok = started == 0 && load_is_done(&load);
        ferryi_helpers_clear(&helpers);
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct load load;
    load_open(&load, 4);
    run_all(&helpers, &load, true);
    assert_true(load_is_done(&load));
    load_close(&load);
    ferryi_helpers_clear(&helpers);
}

/* -- processors near the devices --------------------------------------------------------------- */

static cpu_set_t
processors(const char *digits)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (; *digits; digits++)
        CPU_SET((size_t)(*digits - '0'), &set);
    return set;
}

/* Checks which processors are selected for the helper threads of a device. Each digit stands for a
 * processor, and "-" for no selection. */
static void
assert_choice(const char *allowed, const char *near, unsigned threads, const char *expected)
{
    cpu_set_t may = processors(allowed), are = processors(near), chosen;
    bool found = ferryi_node_choose(&may, &are, threads, &chosen);
    assert_int_equal(found, strcmp(expected, "-") != 0);
    if (found) {
        cpu_set_t wanted = processors(expected);
        assert_true(CPU_EQUAL(&chosen, &wanted));
    }
}

static void
test_processors_are_chosen_where_there_are_enough(void **state)
{
    (void)state;
    assert_choice("01234567", "4567", 3, "4567");
    assert_choice("01234567", "4567", 4, "4567");
    assert_choice("01234567", "4567", 5, "-");
    assert_choice("234", "34567", 2, "34");
    assert_choice("0123", "4567", 1, "-");
    /* Nothing is selected if the process may use only processors near the device, because no choice
     * is left. */
    assert_choice("456", "4567", 2, "-");
}

/* Returns the number of threads of this process that may run only on `processor`. */
static unsigned
count_bound(size_t processor)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        cpu_set_t set;
        pid_t thread = (pid_t)atoi(entry->d_name);
        if (thread > 0 && sched_getaffinity(thread, sizeof(set), &set) == 0)
            count += CPU_COUNT(&set) == 1 && CPU_ISSET(processor, &set);
    }
    closedir(folder);
    return count;
}

static void
test_threads_run_near_the_devices(void **state)
{
    struct ferryi_helpers helpers;
    struct load load;
    cpu_set_t allowed, near;
    size_t last = CPU_SETSIZE;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    if (CPU_COUNT(&allowed) < 2)
        skip();
    while (!CPU_ISSET(last - 1, &allowed))
        last--;
    CPU_ZERO(&near);
    CPU_SET(last - 1, &near);
    for (unsigned threads = 1; threads <= 2; threads++) {
        ferryi_helpers_init(&helpers, &near);
        assert_int_equal(ferryi_helpers_start(&helpers, threads), threads);
        load_open(&load, threads);
        run_all(&helpers, &load, true);
        assert_true(load_is_done(&load));
        load_close(&load);
        /* A helper thread binds itself to its processor after it has started, so the test waits for
         * up to ten seconds. */
        uint64_t end = ferryi_now_ns() + 10000000000u;
        while (count_bound(last - 1) < (threads == 1) && ferryi_now_ns() < end)
            ferryi_sleep_ns(100000);
        assert_int_equal(count_bound(last - 1), threads == 1);
        ferryi_helpers_clear(&helpers);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_tasks_are_done_by_any_number_of_threads),
        cmocka_unit_test(test_without_sharing_it_is_done_at_once),
        cmocka_unit_test(test_own_tasks_come_first),
        cmocka_unit_test(test_threads_start_once),
        cmocka_unit_test(test_several_submitters),
        cmocka_unit_test(test_the_child_of_a_fork_works_alone),
        cmocka_unit_test(test_processors_are_chosen_where_there_are_enough),
        cmocka_unit_test(test_threads_run_near_the_devices),
    };
    return cmocka_run_group_tests_name("helpers", tests, NULL, NULL);
}
