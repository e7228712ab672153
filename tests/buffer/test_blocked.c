/* SPDX-License-Identifier: MIT */
/*
 * Calls that a thread makes inside a working callback, while a call of another thread holds the
 * bytes that it wants. The thread must wait for a call that proceeds by itself. It must get BUSY at
 * once if the other call is blocked: inside a callback, or behind a call that is. The model
 * tests/model/shortages.pml explores the same rule in all orders of two threads. A test that waits
 * forever is killed.
 */
#include "tests/buffer/support.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/blocked.h"

#define COUNT      4096
#define HUGE_COUNT ((size_t)16 << 20)
#define HOST_BYTES ((size_t)16 << 20) /* less than a buffer of HUGE_COUNT elements needs */
#define MOMENT_NS  5000000

/* What a thread does in the on_shortage callback of its call. */
struct player {
    fixture *f;
    ferry_buffer *held, *wanted; /* held: has no memory, and its call runs short */
    void (*inside)(struct player *player);
    ferry_event *event;
    atomic_int *step;
    struct player *other;
    uint64_t thread;
    ferry_status status; /* of what it called inside the callback */
    char message[512];
    ferry_status call; /* of the call that runs short */
};

static _Thread_local struct player *me;
static struct player *worker; /* for the threads of the context */
static int memory[COUNT];

static bool
on_shortage(ferry_pool *pool, size_t needed_bytes, void *user)
{
    (void)pool, (void)needed_bytes, (void)user;
    struct player *player = me ? me : worker;
    if (player && player->inside)
        player->inside(player);
    return false;
}

static void
await(atomic_int *step, int value)
{
    while (atomic_load(step) < value)
        ferryi_sleep_ns(100000);
}

static void
note(struct player *player, ferry_status status)
{
    player->status = status;
    snprintf(player->message, sizeof(player->message), "%s", ferry_last_error());
}

static void
expect_in_the_way(const struct player *player)
{
    assert_int_equal(player->status, FERRY_ERROR_BUSY);
    assert_non_null(strstr(player->message, "the call around the callback on_shortage, or"));
}

static void
run_short(void *user)
{
    struct player *player = user;
    me = player;
    player->call = ferry_buffer_copy_from(player->held, INT, 0, COUNT, memory, NULL);
    me = NULL;
}

static ferry_buffer *
make(fixture *f, size_t count)
{
    ferry_buffer *buffer;
    OK(ferry_buffer_create(f->context, INT, count, NULL, &buffer));
    if (count == COUNT)
        OK(ferry_buffer_copy_from(buffer, INT, 0, count, memory, NULL));
    return buffer;
}

/* Makes two buffers, of which a call that uses both takes the small one first, because its address
 * is smaller. */
static void
make_pair(fixture *f, ferry_buffer **small, ferry_buffer **huge)
{
    ferry_buffer *one = make(f, 1), *two = make(f, 1);
    *small = one < two ? one : two;
    *huge = one < two ? two : one;
    OK(ferry_buffer_resize(*small, COUNT));
    OK(ferry_buffer_copy_from(*small, INT, 0, COUNT, memory, NULL));
    OK(ferry_buffer_resize(*huge, HUGE_COUNT));
}

static void
limit_host(fixture *f)
{
    ferry_pool *pool;
    OK(ferry_context_pool(f->context, 0, FERRY_MEMORY_DEFAULT, &pool));
    OK(ferry_pool_configure(
        pool, &(ferry_pool_options){.limit_bytes = HOST_BYTES, .wait_ms = FERRY_WAIT_NEVER}));
    OK(ferry_pool_on_shortage(pool, on_shortage, NULL));
}

static int
setup(void **state)
{
    int status = fixture_setup(state);
    worker = NULL;
    limit_host(*state);
    return status;
}

/* -- two shortages ----------------------------------------------------------------------------- */

/* Both threads are inside their callbacks until both calls have returned. */
static void
want_the_others(struct player *player)
{
    int values[4];
    atomic_fetch_add(player->step, 1);
    await(player->step, 2);
    note(player, ferry_buffer_copy_to(player->wanted, INT, 0, 4, values, NULL));
    if (player->status == FERRY_ERROR_BUSY)
        note(player, ferry_buffer_wait_idle(player->wanted, 0));
    if (player->status == FERRY_ERROR_BUSY)
        note(player, ferry_buffer_fill(player->wanted, INT, 0, 4, &(int){1}, NULL));
    atomic_fetch_add(player->step, 1);
    await(player->step, 4);
}

static void
test_two_shortages_do_not_wait_for_each_other(void **state)
{
    fixture *f = *state;
    atomic_int step = 0;
    ferry_buffer *first = make(f, HUGE_COUNT), *second = make(f, HUGE_COUNT);
    struct player a = {.held = first, .wanted = second, .inside = want_the_others, .step = &step},
                  b = {.held = second, .wanted = first, .inside = want_the_others, .step = &step};
    ferryi_thread thread;
    OK(ferryi_thread_start(&thread, "second", run_short, &b));
    run_short(&a);
    ferryi_thread_join(thread);
    expect_in_the_way(&a);
    expect_in_the_way(&b);
    assert_int_equal(a.call, FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(b.call, FERRY_ERROR_OUT_OF_MEMORY);
    ferry_buffer_destroy(&first);
    ferry_buffer_destroy(&second);
}

/* -- a call that goes on ----------------------------------------------------------------------- */

/* The progress callback of a copy: goes on a moment after the other thread wants the bytes. */
static bool
go_on_later(size_t done, size_t total, void *user)
{
    atomic_int *step = user;
    (void)done, (void)total;
    if (atomic_load(step) == 0) {
        atomic_store(step, 1);
        await(step, 2);
        ferryi_sleep_ns(MOMENT_NS);
    }
    return true;
}

static void
run_copy(void *user)
{
    struct player *player = user;
    player->call = ferry_buffer_copy_from(player->held, INT, 0, COUNT, memory,
                                          &(ferry_copy_options){.chunk_bytes = 4096,
                                                                .keep_going = go_on_later,
                                                                .user = player->step});
}

static void
want_when_held(struct player *player)
{
    int values[4];
    await(player->step, 1);
    atomic_store(player->step, 2);
    note(player, ferry_buffer_copy_to(player->wanted, INT, 0, 4, values, NULL));
}

static void
test_a_callback_waits_for_a_call_that_goes_on(void **state)
{
    fixture *f = *state;
    atomic_int step = 0;
    ferry_buffer *huge = make(f, HUGE_COUNT), *small = make(f, COUNT);
    struct player a = {.held = huge, .wanted = small, .inside = want_when_held, .step = &step},
                  b = {.held = small, .step = &step};
    ferryi_thread thread;
    OK(ferryi_thread_start(&thread, "copy", run_copy, &b));
    run_short(&a);
    ferryi_thread_join(thread);
    OK(a.status);
    OK(b.call);
    ferry_buffer_destroy(&huge);
    ferry_buffer_destroy(&small);
}

/* -- a call that stands behind another one ----------------------------------------------------- */

static void
run_both(void *user)
{
    struct player *player = user;
    await(player->step, 1);
    const ferry_copy_region regions[2] = {
        ferry_buffer_region_from(player->held, INT, 0, COUNT, memory),
        ferry_buffer_region_from(player->wanted, INT, 0, COUNT, memory)};
    player->call = ferry_copy(regions, 2, NULL);
}

/* Reads the bytes until the other thread holds them. */
static void
want_until_held(struct player *player)
{
    int values[4];
    atomic_store(player->step, 1);
    do
        note(player, ferry_buffer_copy_to(player->wanted, INT, 0, 4, values, NULL));
    while (player->status == FERRY_OK);
}

/* The other thread holds the small buffer, and waits for the huge one. It takes the small one
 * first.
 */
static void
test_a_callback_does_not_wait_for_who_waits_for_it(void **state)
{
    fixture *f = *state;
    atomic_int step = 0;
    ferry_buffer *small, *huge;
    make_pair(f, &small, &huge);
    struct player a = {.held = huge, .wanted = small, .inside = want_until_held, .step = &step},
                  b = {.held = small, .wanted = huge, .step = &step};
    ferryi_thread thread;
    OK(ferryi_thread_start(&thread, "both", run_both, &b));
    run_short(&a);
    ferryi_thread_join(thread);
    expect_in_the_way(&a);
    assert_int_equal(b.call, FERRY_ERROR_OUT_OF_MEMORY);
    ferry_buffer_destroy(&huge);
    ferry_buffer_destroy(&small);
}

/* -- a call that enters a callback later ------------------------------------------------------- */

/* The callback of a call that opens two scopes. It is blocked until the other thread has an
 * answer. */
static void
await_answer(struct player *player)
{
    await(player->step, 3);
}

/* That call holds the small buffer. While it copies this buffer to the device, the trace callback
 * waits until the other thread wants it. Then there is no memory for the huge buffer. */
static void
note_trace(const ferry_trace *trace, void *user)
{
    (void)user;
    if (me && me->inside == await_answer && trace->target_place == 1 &&
        atomic_load(me->step) == 0) {
        atomic_store(me->step, 1);
        await(me->step, 2);
        ferryi_sleep_ns(MOMENT_NS);
    }
}

static void
want_and_answer(struct player *player)
{
    await(player->step, 1);
    atomic_store(player->step, 2);
    note(player, ferry_buffer_copy_from(player->wanted, INT, 0, 4, memory, NULL));
    atomic_store(player->step, 3);
}

static void
run_scopes(void *user)
{
    struct player *player = user;
    ferry_scope scopes[2];
    const ferry_argument arguments[2] = {
        ferry_argument_with(ferry_buffer_argument(player->held, INT, 0, FERRY_REST), FERRY_UPDATE),
        ferry_argument_with(ferry_buffer_argument(player->wanted, INT, 0, FERRY_REST),
                            FERRY_UPDATE)};
    me = player;
    player->call = ferry_scope_open_all(arguments, 2, 1, player->f->stream, scopes, NULL);
    me = NULL;
}

static void
test_a_callback_stops_waiting_when_the_call_is_blocked(void **state)
{
    fixture own = {0}, *f = &own;
    atomic_int step = 0;
    ferry_pool *pool, *host_pool;
    (void)state;
    fixture_open(f, &(ferry_context_options){.trace = note_trace});
    limit_host(f);
    OK(ferry_context_pool(f->context, 0, FERRY_MEMORY_DEFAULT, &host_pool));
    OK(ferry_context_pool(f->context, 1, FERRY_MEMORY_DEVICE, &pool));
    if (pool == host_pool || f->coherent) {
        fixture_close(f);
        skip();
    }
    OK(ferry_pool_configure(
        pool, &(ferry_pool_options){.limit_bytes = HOST_BYTES, .wait_ms = FERRY_WAIT_NEVER}));
    OK(ferry_pool_on_shortage(pool, on_shortage, NULL));
    ferry_buffer *small, *huge;
    make_pair(f, &small, &huge);
    ferry_buffer *other = make(f, HUGE_COUNT);
    struct player a = {.held = other, .wanted = small, .inside = want_and_answer, .step = &step},
                  b = {
                      .f = f, .held = small, .wanted = huge, .inside = await_answer, .step = &step};
    ferryi_thread thread;
    OK(ferryi_thread_start(&thread, "scopes", run_scopes, &b));
    run_short(&a);
    ferryi_thread_join(thread);
    expect_in_the_way(&a);
    assert_int_equal(b.call, FERRY_ERROR_OUT_OF_MEMORY);
    ferry_buffer_destroy(&other);
    ferry_buffer_destroy(&huge);
    ferry_buffer_destroy(&small);
    fixture_close(f);
}

/* -- asynchronous calls ------------------------------------------------------------------------ */

/* On a thread of the context, which then runs no queued call. */
static void
stay_blocked(struct player *player)
{
    atomic_store(player->step, 1);
    await(player->step, 2);
}

/* Wants what a queued copy holds, and the end of that copy. */
static void
want_what_is_queued(struct player *player)
{
    await(player->step, 1);
    note(player, ferry_buffer_copy_to(player->wanted, INT, 0, COUNT, memory, NULL));
    if (player->status == FERRY_ERROR_BUSY)
        note(player, ferry_event_synchronize(player->event));
    if (player->status == FERRY_ERROR_BUSY)
        note(player, ferry_stream_wait_event(player->f->stream, player->event));
    atomic_store(player->step, 2);
}

static void
test_a_callback_does_not_wait_for_a_thread_that_is_blocked(void **state)
{
    fixture *f = *state;
    atomic_int step = 0;
    ferry_event *first;
    ferry_buffer *one = make(f, HUGE_COUNT), *two = make(f, HUGE_COUNT), *small = make(f, COUNT);
    struct player a = {.f = f,
                       .held = one,
                       .wanted = small,
                       .inside = want_what_is_queued,
                       .step = &step},
                  b = {.held = two, .inside = stay_blocked, .step = &step};
    worker = &b;
    OK(ferry_buffer_copy_from_async(two, INT, 0, COUNT, memory, NULL, &first));
    OK(ferry_buffer_copy_from_async(small, INT, 0, COUNT, memory, NULL, &a.event));
    run_short(&a);
    expect_in_the_way(&a);
    assert_int_equal(ferry_event_synchronize(first), FERRY_ERROR_OUT_OF_MEMORY);
    OK(ferry_event_synchronize(a.event));
    ferry_event_destroy(&first);
    ferry_event_destroy(&a.event);
    ferry_buffer_destroy(&one);
    ferry_buffer_destroy(&two);
    ferry_buffer_destroy(&small);
}

static void
copy_in_release(void *released, void *user)
{
    struct player *player = user;
    (void)released;
    OK(ferry_buffer_copy_from_async(player->wanted, INT, 0, COUNT, memory, NULL, &player->event));
    note(player, ferry_event_synchronize(player->event));
}

static void
test_a_callback_waits_for_an_asynchronous_call(void **state)
{
    fixture *f = *state;
    static int wrapped[COUNT];
    ferry_buffer *wrap;
    struct player a = {.f = f, .wanted = make(f, COUNT)};
    OK(ferry_buffer_wrap_host(f->context, INT, COUNT, wrapped,
                              &(ferry_wrap_options){.on_release = copy_in_release, .user = &a},
                              &wrap));
    ferry_buffer_destroy(&wrap);
    OK(a.status);
    ferry_event_destroy(&a.event);
    ferry_buffer_destroy(&a.wanted);
}

/* -- after a fork ------------------------------------------------------------------------------ */

static void
be_blocked(struct player *player)
{
    player->thread = ferryi_thread_id();
    stay_blocked(player);
}

/* In the child, this thread still runs its callback, and the other thread does not exist. */
static void
fork_inside(struct player *player)
{
    int result = -1;
    await(player->step, 1);
    pid_t child = fork();
    if (child == 0) {
        const struct ferryi_runner self = {.thread = ferryi_thread_id()},
                                   other = {.thread = player->other->thread};
        _exit(ferryi_blocked_includes(self) && !ferryi_blocked_includes(other) ? 0 : 1);
    }
    if (waitpid(child, &result, 0) == child && result == 0)
        player->status = FERRY_OK;
    atomic_store(player->step, 2);
}

static void
test_a_child_forgets_the_threads_of_its_parent(void **state)
{
    fixture *f = *state;
    atomic_int step = 0;
    ferry_buffer *first = make(f, HUGE_COUNT), *second = make(f, HUGE_COUNT);
    struct player b = {.held = second, .inside = be_blocked, .step = &step},
                  a = {.held = first,
                       .inside = fork_inside,
                       .step = &step,
                       .other = &b,
                       .status = FERRY_ERROR_INVALID_STATE};
    ferryi_thread thread;
    OK(ferryi_thread_start(&thread, "second", run_short, &b));
    run_short(&a);
    ferryi_thread_join(thread);
    OK(a.status);
    ferry_buffer_destroy(&first);
    ferry_buffer_destroy(&second);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, fixture_teardown)

int
main(void)
{
    alarm(100);
    const struct CMUnitTest tests[] = {
        CASE(test_two_shortages_do_not_wait_for_each_other),
        CASE(test_a_callback_waits_for_a_call_that_goes_on),
        CASE(test_a_callback_does_not_wait_for_who_waits_for_it),
        cmocka_unit_test(test_a_callback_stops_waiting_when_the_call_is_blocked),
        CASE(test_a_callback_does_not_wait_for_a_thread_that_is_blocked),
        CASE(test_a_callback_waits_for_an_asynchronous_call),
        CASE(test_a_child_forgets_the_threads_of_its_parent),
    };
    return cmocka_run_group_tests_name("blocked", tests, NULL, NULL);
}
