/* SPDX-License-Identifier: MIT */
/* Tests calls whose own buffers fill a device, while the host has room, and threads that run short
 * of memory together. */
#include "tests/buffer/work.h"

#include <pthread.h>
#include <stdatomic.h>

#include <ferry/byte.h>
#include <ferry/double_convert.h>

#include "tests/support/copies.h"

/* The device has room for one buffer, but not for two. */
enum { COUNT = 64 << 10, LIMIT = 3 * COUNT * 4 / 2 };

static int
setup(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    fixture_open(f, &(ferry_context_options){.device_bytes_limit = LIMIT});
    *state = f;
    return 0;
}

#define SMALL(function) cmocka_unit_test_setup_teardown(function, setup, fixture_teardown)

/* A copy whose place the program did not name is written at the host if its target does not fit
 * beside its source. With a stream of the device, it fails, because the program named the place. */
static void
test_a_copy_goes_where_there_is_room(void **state)
{
    fixture *f = *state;
    ferry_buffer *a = make_ints(f, COUNT), *b = make_ints(f, COUNT);
    write_counting(f, a, 1, 0, COUNT, 3);
    OK(ferry_buffer_copy(b, INT, 0, a, 0, COUNT, NULL));
    expect_counting(f, b, 0, 0, COUNT, 3);
    if (!f->coherent) {
        assert_true(ferry_buffer_is_current(b, 0));
        snapshot before = take_snapshot(b);
        write_counting(f, a, 1, 0, COUNT, 4);
        FAILS(FERRY_ERROR_OUT_OF_MEMORY, ferry_buffer_copy(b, INT, 0, a, 0, COUNT, ON(f->stream)));
        expect_unchanged(b, &before);
        expect_counting(f, a, 1, 0, COUNT, 4);
    }
    DESTROY_BUFFERS(&a, &b);
}

/* An overlapping copy inside a buffer that fills the device needs temporary memory, which the host
 * has. */
static void
test_an_overlapping_copy_finds_memory(void **state)
{
    fixture *f = *state;
    ferry_buffer *a = make_ints(f, COUNT);
    write_counting(f, a, 1, 0, COUNT, 0);
    OK(ferry_buffer_copy(a, INT, 100, a, 0, COUNT - 100, NULL));
    assert_true(ferry_buffer_is_current(a, 1));
    expect_counting(f, a, 1, 100, COUNT - 100, -100);
    expect_counting(f, a, 0, 0, 100, 0);
    ferry_buffer_destroy(&a);
}

/* A resize needs no room for the old and the new replica on the device: the bytes go to the host.
 * It makes no difference whether they are current there already. */
static void
test_a_resize_near_the_limit(void **state)
{
    fixture *f = *state;
    for (int clean = 0; clean <= 1; clean++) {
        ferry_buffer *a = make_ints(f, COUNT);
        write_counting(f, a, 1, 0, COUNT, 5);
        write_counting(f, a, 0, 100, 50, 1000);
        if (clean)
            OK(ferry_buffer_sync_to(a, 0, FERRY_REST, 0, NULL));
        OK(ferry_buffer_resize(a, COUNT + COUNT / 8));
        assert_int_equal(ferry_buffer_count(a), COUNT + COUNT / 8);
        expect_counting(f, a, 1, 0, 100, 5);
        expect_counting(f, a, 1, 100, 50, 1000);
        expect_counting(f, a, 0, 150, COUNT - 150, 5);
        expect_constant(f, a, 1, COUNT, COUNT / 8, 0);
        ferry_buffer_destroy(&a);
    }
}

/* A conversion needs no memory of the pools for what it checks or reads on the way: neither of a
 * device that its source fills, nor of the host, if an element of its source is split between both.
 */
static void
test_a_conversion_of_a_source_that_fills_a_place(void **state)
{
    enum { DOUBLES = COUNT - 8 }; /* a memory checker needs a few bytes behind them */
    static double values[DOUBLES];
    static int32_t got[DOUBLES];
    (void)state;
    for (int i = 0; i < DOUBLES; i++)
        values[i] = i;
    for (int split = 0; split <= 1; split++) {
        fixture f;
        ferry_double_buffer source;
        ferry_byte_buffer bytes;
        fixture_open(
            &f, split ? &(ferry_context_options){.host_bytes_limit = sizeof(values) + 4096}
                      : &(ferry_context_options){.device_bytes_limit = COUNT * sizeof(double)});
        OK(ferry_double_create(f.context, DOUBLES, NULL, &source));
        OK(ferry_double_copy_from(source, 0, DOUBLES, values, split ? NULL : ON(f.stream)));
        OK(ferry_byte_reinterpret(source.raw, 0, FERRY_REST, &bytes));
        if (split)
            OK(ferry_byte_copy_from(bytes, 12, 8, (unsigned char *)values + 12, ON(f.stream)));
        for (int policy = FERRY_CONVERT_SATURATE; policy <= FERRY_CONVERT_TRUNCATE; policy++) {
            memset(got, 0, sizeof(got));
            OK(ferry_double_copy_to_int(source, 0, DOUBLES, got, (ferry_convert_policy)policy,
                                        NULL));
            for (int i = 0; i < DOUBLES; i++)
                assert_int_equal(got[i], i);
        }
        ferry_byte_destroy(&bytes);
        ferry_double_destroy(&source);
        fixture_close(&f);
    }
}

/* A message about memory for a copy names the buffer of the program, not the temporary storage. */
static void
test_messages_name_the_buffer(void **state)
{
    fixture f;
    ferry_buffer *a;
    const size_t count = COUNT;
    (void)state;
    fixture_open(&f,
                 &(ferry_context_options){.device_bytes_limit = LIMIT, .host_bytes_limit = 4096});
    OK(ferry_buffer_create(f.context, INT, count, &(ferry_buffer_options){.name = "mine"}, &a));
    if (!f.coherent) {
        OK(ferry_buffer_fill(a, INT, 0, count, &(int32_t){1}, ON(f.stream)));
        FAILS(FERRY_ERROR_OUT_OF_MEMORY, ferry_buffer_copy(a, INT, 100, a, 0, count - 100, NULL));
        assert_non_null(strstr(ferry_last_error(), "bytes for a copy of buffer \"mine\" in "));
    }
    ferry_buffer_destroy(&a);
    fixture_close(&f);
}

/* -- threads that run short together ----------------------------------------------------------- */

static atomic_uint pauses;

void __real_ferryi_sleep_ns(uint64_t ns);
void __wrap_ferryi_sleep_ns(uint64_t ns);

void
__wrap_ferryi_sleep_ns(uint64_t ns)
{
    atomic_fetch_add(&pauses, 1);
    __real_ferryi_sleep_ns(ns);
}

enum { THREADS = 3, BUFFERS = 4, STEPS = 400 };

struct crowd {
    fixture f;
    atomic_int failed;
};

struct member {
    struct crowd *crowd;
    uint64_t seed;
    pthread_t thread;
};

static ferry_status
write_somewhere(struct member *m, ferry_buffer *buffer)
{
    const int value = 5;
    ferry_scope scope;
    void *pointer;
    if (random_below(&m->seed, 2))
        return ferry_buffer_fill(buffer, INT, 0, COUNT, &value, ON(m->crowd->f.stream));
    ferry_status status =
        ferry_buffer_open_host(buffer, INT, FERRY_UPDATE, 0, FERRY_REST, &scope, &pointer);
    return status == FERRY_OK ? ferry_scope_close(&scope) : status;
}

static void *
run_short(void *argument)
{
    struct member *m = argument;
    ferry_buffer *own[BUFFERS];
    for (int i = 0; i < BUFFERS; i++)
        own[i] = make_ints(&m->crowd->f, COUNT);
    for (int step = 0; step < STEPS; step++) {
        ferry_status status = write_somewhere(m, own[random_below(&m->seed, BUFFERS)]);
        if (status != FERRY_OK && status != FERRY_ERROR_OUT_OF_MEMORY)
            atomic_store(&m->crowd->failed, (int)status);
    }
    for (int i = 0; i < BUFFERS; i++)
        ferry_buffer_destroy(&own[i]);
    return NULL;
}

/* Runs threads that are short of memory at both places. Returns how often they paused. */
static unsigned
pauses_of(uint64_t wait_ms)
{
    static struct crowd c;
    struct member members[THREADS];
    fixture_open(&c.f, &(ferry_context_options){.device_bytes_limit = LIMIT,
                                                .host_bytes_limit = 5 * (size_t)LIMIT});
    for (int place = 0; place <= 1; place++) {
        ferry_pool *pool;
        OK(ferry_context_pool(c.f.context, place, FERRY_MEMORY_DEFAULT, &pool));
        OK(ferry_pool_configure(pool, &(ferry_pool_options){.wait_ms = wait_ms}));
    }
    atomic_store(&pauses, 0);
    atomic_store(&c.failed, 0);
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){.crowd = &c, .seed = (uint64_t)i + 1};
        assert_int_equal(pthread_create(&members[i].thread, NULL, run_short, &members[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(members[i].thread, NULL), 0);
    assert_int_equal(atomic_load(&c.failed), FERRY_OK);
    fixture_close(&c.f);
    return atomic_load(&pauses);
}

/* With FERRY_WAIT_NEVER, no call sleeps. With a budget, an eviction may wait for the calls of other
 * threads, but two evictions do not wait for each other: without that rule, nearly each of these
 * calls takes all 500 pauses of an eviction. */
static void
test_threads_that_run_short_together(void **state)
{
    (void)state;
    assert_int_equal(pauses_of(FERRY_WAIT_NEVER), 0);
    assert_in_range(pauses_of(1000), 0, THREADS * STEPS * 50);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        SMALL(test_a_copy_goes_where_there_is_room),
        SMALL(test_an_overlapping_copy_finds_memory),
        SMALL(test_a_resize_near_the_limit),
        cmocka_unit_test(test_a_conversion_of_a_source_that_fills_a_place),
        cmocka_unit_test(test_messages_name_the_buffer),
        cmocka_unit_test(test_threads_that_run_short_together),
    };
    return cmocka_run_group_tests_name("near_limit", tests, NULL, NULL);
}
