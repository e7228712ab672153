/* SPDX-License-Identifier: MIT */
/*
 * Host functions that run parts on the host threads of the context. Each test runs with one thread,
 * and with more threads than the machine has processors, on the host device and on an emulated one.
 */
#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <ferry/buffer.h>
#include <ferry/context.h>
#include <ferry/kernel.h>

#include "src/base/machine.h"
#include "src/base/sanitizer.h"
#include "src/kernel/host_threads.h"
#include "src/stream/shell.h"
#include "tests/support/status.h"

#define FAILS(call, status) assert_int_equal((call), (status))

#define COUNT               10007
#define GRAIN               16

static ferry_element double_element = {.name = "double",
                                       .c_type = "double",
                                       .bytes = 8,
                                       .align = 8,
                                       .kind = FERRY_KIND_FLOAT,
                                       .bits = 64};

static const struct setting {
    const char *devices, *tuning;
    unsigned threads;
} settings[] = {{"host", "host.threads=1", 1},
                {"host", "host.threads=4", 4},
                {"emulated", "host.threads=1", 1},
                {"emulated", "host.threads=7", 7}};

#define FOR_EACH_SETTING(s)                                                                        \
    for (const struct setting *s = settings; s < settings + sizeof(settings) / sizeof(*s); s++)

static ferry_context *
open_context(const struct setting *setting)
{
    ferry_context_options options = {.devices = setting->devices, .tuning = setting->tuning};
    ferry_context *context;
    OK(ferry_context_create(&options, &context));
    return context;
}

/* -- one kernel that calls a function of a test ------------------------------------------------ */

struct work {
    ferry_status (*body)(const ferry_call *call, struct work *work);
    const ferry_call *call;
    double *array;
    size_t count, grain, nested;
    size_t fails_at[2]; /* numbers of the items that fail; SIZE_MAX: none */
    atomic_int parts, bad, after;
};

static ferry_status
host_function(const ferry_call *call, void *user)
{
    struct work *work = user;
    work->call = call;
    work->array = ferry_call_array(call, &double_element, 0, &work->count);
    return work->body(call, work);
}

/* Launches the work on a new array of COUNT elements, and waits for it. Sets `values` to the array,
 * if it is not NULL. Returns the status of the wait. */
static ferry_status
launch(ferry_context *context, struct work *work, double *values)
{
    ferry_parameter parameter = {
        .element = &double_element, .access = FERRY_OVERWRITE, .name = "a"};
    ferry_kernel_source source = {.name = "work",
                                  .host_function = host_function,
                                  .user = work,
                                  .parameters = &parameter,
                                  .parameter_count = 1};
    ferry_kernel *kernel;
    ferry_buffer *buffer;
    OK(ferry_kernel_create(context, &source, &kernel));
    OK(ferry_buffer_create(context, &double_element, COUNT, NULL, &buffer));
    ferry_argument argument = ferry_buffer_argument(buffer, &double_element, 0, FERRY_REST);
    OK(ferry_kernel_launch(kernel, ferry_grid_for(COUNT, 0), NULL, &argument, 1));
    ferry_status status = ferry_stream_synchronize(ferry_context_stream(context, 1));
    if (values)
        OK(ferry_buffer_copy_to(buffer, &double_element, 0, COUNT, values, NULL));
    ferry_buffer_destroy(&buffer);
    ferry_kernel_destroy(&kernel);
    return status;
}

static size_t
count_process_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    size_t count = 0;
    if (!folder)
        return 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* -- parts ------------------------------------------------------------------------------------- */

static ferry_status
set_items(size_t first, size_t count, void *user)
{
    struct work *work = user;
    bool is_last = first + count == work->count;
    if (first % work->grain != 0 || first + count > work->count || count == 0 ||
        (count != work->grain && !is_last))
        work->bad++;
    work->parts++;
    for (size_t i = first; i < first + count; i++)
        work->array[i] += 1.0 / (double)(i + 1);
    return FERRY_OK;
}

static ferry_status
set_all(const ferry_call *call, struct work *work)
{
    memset(work->array, 0, work->count * sizeof(double));
    return ferry_call_parallel(call, work->count, work->grain, set_items, work);
}

/* Every item is in exactly one part, and the parts do not depend on the number of threads. */
static void
test_parts_are_all_items(void **state)
{
    (void)state;
    static double values[COUNT];
    FOR_EACH_SETTING(setting)
    {
        ferry_context *context = open_context(setting);
        const size_t grains[] = {1, GRAIN, COUNT - 1, COUNT, 10 * COUNT, SIZE_MAX};
        for (size_t g = 0; g < sizeof(grains) / sizeof(grains[0]); g++) {
            struct work work = {.body = set_all, .grain = grains[g]};
            OK(launch(context, &work, values));
            assert_int_equal(work.bad, 0);
            assert_int_equal(work.parts, COUNT / grains[g] + (COUNT % grains[g] != 0));
            for (size_t i = 0; i < COUNT; i++)
                assert_true(values[i] == 1.0 / (double)(i + 1));
        }
        ferry_context_destroy(&context);
    }
}

/* The threads start at the first call with two parts, and no later call starts one. */
static void
test_threads_start_once(void **state)
{
    (void)state;
    FOR_EACH_SETTING(setting)
    {
        ferry_context *context = open_context(setting);
        struct work one_part = {.body = set_all, .grain = COUNT},
                    parts = {.body = set_all, .grain = GRAIN};
        OK(launch(context, &one_part, NULL));
        assert_int_equal(ferryi_host_threads_started(context->host_threads), 0);
        OK(launch(context, &parts, NULL));
        assert_int_equal(ferryi_host_threads_started(context->host_threads), setting->threads - 1);
        size_t before = count_process_threads();
        for (int i = 0; i < 200; i++)
            OK(launch(context, &parts, NULL));
        assert_int_equal(ferryi_host_threads_started(context->host_threads), setting->threads - 1);
        assert_int_equal(count_process_threads(), before);
        ferry_context_destroy(&context);
    }
}

/* Waits until another thread runs a part of the same call. */
static ferry_status
meet(size_t first, size_t count, void *user)
{
    struct work *work = user;
    (void)first, (void)count;
    work->parts++;
    for (int i = 0; i < 10000 && work->parts < 3; i++)
        usleep(1000);
    return work->parts >= 3 ? FERRY_OK : FERRY_ERROR_INVALID_STATE;
}

static ferry_status
meet_all(const ferry_call *call, struct work *work)
{
    return ferry_call_parallel(call, 3, 1, meet, work);
}

/* Three parts that wait for each other: they do run at the same time. */
static void
test_parts_run_at_the_same_time(void **state)
{
    (void)state;
    FOR_EACH_SETTING(setting)
    {
        if (setting->threads < 3)
            continue;
        ferry_context *context = open_context(setting);
        for (int i = 0; i < 20; i++) {
            struct work work = {.body = meet_all};
            OK(launch(context, &work, NULL));
        }
        ferry_context_destroy(&context);
    }
}

/* -- nested calls ------------------------------------------------------------------------------ */

static ferry_status
set_inner(size_t first, size_t count, void *user)
{
    struct work *outer = user;
    for (size_t i = first; i < first + count; i++)
        outer->array[outer->nested + i] += 1;
    return FERRY_OK;
}

static ferry_status
set_outer(size_t first, size_t count, void *user)
{
    struct work *work = user, inner = {.array = work->array, .nested = first};
    uint64_t thread = ferryi_thread_id();
    ferry_status status = ferry_call_parallel(work->call, count, 3, set_inner, &inner);
    if (ferryi_thread_id() != thread)
        work->bad++;
    return status;
}

static ferry_status
set_nested(const ferry_call *call, struct work *work)
{
    memset(work->array, 0, work->count * sizeof(double));
    return ferry_call_parallel(call, work->count, GRAIN, set_outer, work);
}

static void
test_nested_calls_run_inside_their_part(void **state)
{
    (void)state;
    static double values[COUNT];
    FOR_EACH_SETTING(setting)
    {
        ferry_context *context = open_context(setting);
        struct work work = {.body = set_nested};
        OK(launch(context, &work, values));
        for (size_t i = 0; i < COUNT; i++)
            assert_true(values[i] == 1);
        assert_int_equal(work.bad, 0);
        ferry_context_destroy(&context);
    }
}

/* -- failures ---------------------------------------------------------------------------------- */

static ferry_status
fail_items(size_t first, size_t count, void *user)
{
    struct work *work = user;
    work->parts++;
    for (size_t k = 0; k < 2; k++) {
        if (work->fails_at[k] < first || work->fails_at[k] >= first + count)
            continue;
        char text[64];
        snprintf(text, sizeof(text), "item %zu is singular", work->fails_at[k]);
        /* The first failure is later in time, if there is another thread. */
        for (int i = 0; k == 0 && work->nested > 1 && i < 2000 && !work->after; i++)
            usleep(1000);
        work->after += k == 1;
        ferry_call_fail(work->call, text);
        return k == 0 ? FERRY_ERROR_OUT_OF_RANGE : FERRY_ERROR_OVERFLOW;
    }
    return FERRY_OK;
}

static ferry_status
fail_some(const ferry_call *call, struct work *work)
{
    return ferry_call_parallel(call, work->count, GRAIN, fail_items, work);
}

/* The first failure in the order of the items is returned, whichever part fails earlier in time. No
 * part is taken after a failure. */
static void
test_the_first_failure_is_returned(void **state)
{
    (void)state;
    FOR_EACH_SETTING(setting)
    {
        ferry_context *context = open_context(setting);
        for (size_t at = 0; at < 300; at += 37) {
            struct work work = {
                .body = fail_some, .nested = setting->threads, .fails_at = {at, COUNT - 1}};
            FAILS(launch(context, &work, NULL), FERRY_ERROR_OUT_OF_RANGE);
            char expected[64];
            snprintf(expected, sizeof(expected), "\"work\": item %zu is singular", at);
            assert_non_null(strstr(ferry_last_error(), expected));
            if (setting->threads == 1)
                assert_int_equal(work.parts, at / GRAIN + 1);
            struct work fine = {.body = fail_some, .fails_at = {SIZE_MAX, SIZE_MAX}};
            OK(launch(context, &fine, NULL));
            assert_int_equal(fine.parts, COUNT / GRAIN + 1);
        }
        ferry_context_destroy(&context);
    }
}

static ferry_status
pass_nonsense(const ferry_call *call, struct work *work)
{
    FAILS(ferry_call_parallel(NULL, 1, 1, set_items, work), FERRY_ERROR_INVALID_ARGUMENT);
    FAILS(ferry_call_parallel(call, 1, 1, NULL, work), FERRY_ERROR_INVALID_ARGUMENT);
    FAILS(ferry_call_parallel(call, 1, 0, set_items, work), FERRY_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(ferry_last_error(), "grain is 0"));
    return ferry_call_parallel(call, 0, 1, set_items, work);
}

static void
test_arguments_are_checked(void **state)
{
    (void)state;
    ferry_context *context = open_context(&settings[1]);
    struct work work = {.body = pass_nonsense};
    OK(launch(context, &work, NULL));
    assert_int_equal(work.parts, 0);
    ferry_context_destroy(&context);
}

/* -- callbacks --------------------------------------------------------------------------------- */

static ferry_context *part_context;

static ferry_status
call_library(size_t first, size_t count, void *user)
{
    struct work *work = user;
    ferry_buffer *buffer;
    (void)first, (void)count;
    if (ferry_buffer_create(part_context, &double_element, 1, NULL, &buffer) !=
            FERRY_ERROR_INVALID_STATE ||
        !strstr(ferry_last_error(), "host_function"))
        work->bad++;
    return FERRY_OK;
}

static ferry_status
call_library_in_parts(const ferry_call *call, struct work *work)
{
    return ferry_call_parallel(call, work->count, GRAIN, call_library, work);
}

/* A part is a watching callback on every thread. */
static void
test_parts_are_watching_callbacks(void **state)
{
    (void)state;
    FOR_EACH_SETTING(setting)
    {
        part_context = open_context(setting);
        struct work work = {.body = call_library_in_parts};
        OK(launch(part_context, &work, NULL));
        assert_int_equal(work.bad, 0);
        ferry_context_destroy(&part_context);
    }
}

/* -- processes --------------------------------------------------------------------------------- */

static ferry_status
run_in_child(const ferry_call *call, struct work *work)
{
    FERRY_CHECK(ferry_call_parallel(call, work->count, GRAIN, set_items, work));
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        work->parts = 0;
        bool worked = ferry_call_parallel(call, work->count, GRAIN, set_items, work) == FERRY_OK;
        _exit(worked && work->parts == COUNT / GRAIN + 1 ? 0 : 1);
    }
    int status = -1;
    work->bad += waitpid(child, &status, 0) != child || status != 0;
    return FERRY_OK;
}

/* Forks in the first part that the calling thread runs. */
static ferry_status
fork_in_part(size_t first, size_t count, void *user)
{
    static _Thread_local bool is_child;
    struct work *work = user;
    (void)first, (void)count;
    if (is_child || ferryi_thread_id() != work->nested || work->after++)
        return FERRY_OK;
    pid_t child = fork();
    is_child = child == 0;
    if (is_child)
        alarm(20);
    int status = -1;
    if (!is_child)
        work->bad += waitpid(child, &status, 0) != child || status != 0;
    return FERRY_OK;
}

static ferry_status
fork_in_parts(const ferry_call *call, struct work *work)
{
    pid_t parent = getpid();
    work->nested = (size_t)ferryi_thread_id();
    ferry_status status = ferry_call_parallel(call, work->count, GRAIN, fork_in_part, work);
    if (getpid() != parent)
        _exit(status == FERRY_ERROR_INVALID_STATE || status == FERRY_OK ? 0 : 1);
    return status;
}

/* In the child of a fork, the thread that forked runs all parts. If it forked inside a part, the
 * call ends with a failure instead of a wait for threads that do not exist. */
static void
test_a_child_runs_its_parts(void **state)
{
    (void)state;
    if (FERRYI_THREAD_SANITIZER)
        skip();
    FOR_EACH_SETTING(setting)
    {
        ferry_context *context = open_context(setting);
        struct work work = {.body = run_in_child, .grain = GRAIN}, inside = {.body = fork_in_parts};
        OK(launch(context, &work, NULL));
        assert_int_equal(work.bad, 0);
        OK(launch(context, &inside, NULL));
        assert_int_equal(inside.bad, 0);
        ferry_context_destroy(&context);
    }
}

/* Returns the number of threads of a call in a new context with the default. */
static unsigned
default_threads(void)
{
    ferry_context *context = open_context(&(struct setting){.devices = "host"});
    struct work work = {.body = set_all, .grain = GRAIN};
    OK(launch(context, &work, NULL));
    unsigned started = ferryi_host_threads_started(context->host_threads);
    ferry_context_destroy(&context);
    return started + 1;
}

/* By default there is a thread for each processor that the process may use. A rank of an MPI job
 * has one thread, unless it is bound to fewer processors than the machine has. */
static void
test_the_default(void **state)
{
    (void)state;
    unsetenv("FERRY_TUNING");
    if (ferryi_machine_rank(true))
        skip();
    assert_int_equal(default_threads(), ferryi_processors());
    bool is_unbound = ferryi_machine_is_unbound();
    setenv("PMI_RANK", "3", 1);
    assert_int_equal(default_threads(), is_unbound ? 1 : ferryi_processors());
    unsetenv("PMI_RANK");
    setenv("SLURM_PROCID", "0", 1);
    assert_int_equal(default_threads(), ferryi_processors());
    unsetenv("SLURM_PROCID");

    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(default_threads(), 1);
    FOR_EACH_SETTING(setting)
    {
        ferry_context *context = open_context(setting);
        struct work work = {.body = set_all, .grain = GRAIN};
        OK(launch(context, &work, NULL));
        assert_int_equal(work.parts, COUNT / GRAIN + 1);
        ferry_context_destroy(&context);
    }
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_are_all_items),
        cmocka_unit_test(test_threads_start_once),
        cmocka_unit_test(test_parts_run_at_the_same_time),
        cmocka_unit_test(test_nested_calls_run_inside_their_part),
        cmocka_unit_test(test_the_first_failure_is_returned),
        cmocka_unit_test(test_arguments_are_checked),
        cmocka_unit_test(test_parts_are_watching_callbacks),
        cmocka_unit_test(test_a_child_runs_its_parts),
        cmocka_unit_test(test_the_default),
    };
    double_element.identity = ferry_element_identity(&double_element);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
