/* SPDX-License-Identifier: MIT */
/* Sends many signals to threads that wait and copy. The test's signal handler is installed without
 * SA_RESTART. No library call may fail, return early or hang. */
#include "tests/buffer/support.h"
#include "tests/support/copies.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#define COUNT 300000

static _Atomic unsigned caught, caught_by_the_library;

static void
note(int signal_number)
{
    char name[16] = "";
    (void)signal_number;
    atomic_fetch_add_explicit(&caught, 1, memory_order_relaxed);
    prctl(PR_GET_NAME, name);
    atomic_fetch_add_explicit(&caught_by_the_library, strncmp(name, "ferry", 5) == 0,
                              memory_order_relaxed);
}

static void
start_storm(void)
{
    struct sigaction action = {.sa_handler = note};
    struct itimerval every = {{0, 200}, {0, 200}};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
}

static void
end_storm(void)
{
    struct itimerval never = {{0, 0}, {0, 0}};
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    signal(SIGALRM, SIG_IGN);
}

struct part {
    fixture *f;
    unsigned wrong;
};

static ferry_status
copy_around(fixture *f, int *values, int *back)
{
    ferry_buffer *buffer = NULL;
    ferry_event *event = NULL;
    ferry_status status;
    FERRY_TRY(status, out, ferry_buffer_create_from(f->context, INT, COUNT, values, NULL, &buffer));
    FERRY_TRY(status, out, ferry_buffer_sync_to(buffer, 0, FERRY_REST, 1, NULL));
    FERRY_TRY(status, out,
              ferry_buffer_copy_from_async(buffer, INT, 0, COUNT, values, ON(f->stream), &event));
    FERRY_TRY(status, out, ferry_event_synchronize(event));
    FERRY_TRY(status, out, ferry_buffer_invalidate(buffer, 0, FERRY_REST, 0));
    FERRY_TRY(status, out, ferry_buffer_copy_to(buffer, INT, 0, COUNT, back, NULL));
    FERRY_TRY(status, out, ferry_stream_synchronize(f->stream));
out:
    ferry_event_destroy(&event);
    ferry_buffer_destroy(&buffer);
    return status;
}

static void *
copy_in_the_storm(void *argument)
{
    struct part *part = argument;
    int *values = calloc(COUNT, sizeof(*values)), *back = calloc(COUNT, sizeof(*back));
    for (int round = 0; values && back && round < 12; round++) {
        for (int i = 0; i < COUNT; i++)
            values[i] = i + round;
        part->wrong += copy_around(part->f, values, back) != FERRY_OK ||
                       memcmp(values, back, COUNT * sizeof(*back)) != 0;
    }
    part->wrong += !values || !back;
    free(values);
    free(back);
    return NULL;
}

static void
test_copies_in_a_storm(void **state)
{
    struct part parts[3];
    pthread_t threads[2];
    for (size_t i = 0; i < LENGTH(parts); i++)
        parts[i] = (struct part){.f = *state};
    start_storm();
    for (size_t i = 0; i < LENGTH(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, copy_in_the_storm, &parts[i]), 0);
    copy_in_the_storm(&parts[2]);
    for (size_t i = 0; i < LENGTH(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    end_storm();
    for (size_t i = 0; i < LENGTH(parts); i++)
        assert_int_equal(parts[i].wrong, 0);
    assert_true(atomic_load(&caught) > 0);
}

/* Checks that signals do not make a wait return before its timeout. The buffer is unavailable
 * during the whole wait, because a scope is open. */
static void
test_waits_last_in_a_storm(void **state)
{
    fixture *f = *state;
    ferry_buffer *buffer = make_counting(f, 64, 0);
    ferry_scope scope;
    void *pointer;
    const uint64_t timeout = 100000000;
    OK(ferry_buffer_open_host(buffer, INT, FERRY_UPDATE, 0, 64, &scope, &pointer));
    start_storm();
    uint64_t before = ferryi_now_ns();
    ferry_status status = ferry_buffer_wait_available(buffer, FERRY_READ, timeout);
    uint64_t took = ferryi_now_ns() - before;
    before = ferryi_now_ns();
    ferryi_sleep_ns(timeout);
    uint64_t slept = ferryi_now_ns() - before;
    end_storm();
    assert_int_equal(status, FERRY_ERROR_BUSY);
    assert_true(took >= timeout);
    assert_true(slept >= timeout);
    OK(ferry_scope_close(&scope));
    ferry_buffer_destroy(&buffer);
}

/* Checks that threads that the library creates block signals. Signal handlers must run only on
 * threads of the program. */
static void
test_handlers_run_on_the_programs_threads(void **state)
{
    (void)state;
    assert_true(atomic_load(&caught) > 0);
    assert_int_equal(atomic_load(&caught_by_the_library), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_copies_in_a_storm),
        TEST(test_waits_last_in_a_storm),
        TEST(test_handlers_run_on_the_programs_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
