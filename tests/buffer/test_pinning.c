/* SPDX-License-Identifier: MIT */
/* Tests host replicas that Ferry pins automatically, and memory that the program has registered. */
#include "src/transfer/engine.h"
#include "tests/buffer/support.h"

#include <unistd.h>

#include "tests/support/copies.h"
#include "tests/support/fault.h"

#define KIB   ((size_t)1024)
#define COUNT (100 * KIB) /* ints: 400 KiB */

enum {
    PIN_AFTER = 10,
    PINS_IN = PIN_AFTER + 1
}; /* PIN_AFTER: default of the option pin_after, a number of transfers of a replica; PINS_IN: the
      next transfer, which pins the replica */

/* Allocates zeroed memory that shares no page with other memory, because a strict driver refuses to
 * lock a page twice. */
static void *
take_pages(size_t bytes)
{
    size_t whole = (bytes + 4095) & ~(size_t)4095;
    void *memory = aligned_alloc(4096, whole);
    return memory ? memset(memory, 0, whole) : NULL;
}

static void
reopen(fixture *f, ferry_context_options options)
{
    fixture_close(f);
    fixture_open(f, &options);
}

/* Writes the buffer at the host and copies it to the device once, just as each round of a typical
 * loop does. */
static void
cross(fixture *f, ferry_buffer *buffer, size_t count, int round)
{
    write_counting(f, buffer, 0, 0, count, round);
    touch(f, buffer, 1, FERRY_READ, 0, count);
}

static void
test_a_copy_turns_pinned_after_its_crossings(void **state)
{
    fixture *f = *state;
    if (!f->registers)
        return;
    ferry_buffer *x = make_ints(f, COUNT);
    for (int round = 1; round <= PINS_IN; round++) {
        assert_false(ferry_buffer_is_page_locked(x));
        ferry_transfer_stats before = moved(f);
        cross(f, x, COUNT, round);
        assert_int_equal(moved(f).staged.copies - before.staged.copies, !f->takes_pageable);
    }
    assert_true(ferry_buffer_is_page_locked(x));
    assert_int_equal(moved(f).auto_pinned, 1);
    ferry_buffer_info info = info_of(x);
    assert_true(info.page_locked);

    ferry_transfer_stats before = moved(f);
    cross(f, x, COUNT, 77);
    expect_counting(f, x, 1, 0, COUNT, 77);
    add_to(f, x, 1, 0, COUNT, 1);
    expect_counting(f, x, 0, 0, COUNT, 78);
    assert_int_equal(moved(f).staged.copies, before.staged.copies);
    assert_int_equal(moved(f).direct.copies - before.direct.copies, 2);
    assert_int_equal(moved(f).direct.bytes - before.direct.bytes, 2 * COUNT * sizeof(int));

    /* After the upload, no transfer reads the host replica. So the next write at the host makes no
     * device call. */
    write_counting(f, x, 0, 0, COUNT, 5);
    touch(f, x, 1, FERRY_READ, 0, COUNT);
    before = moved(f);
    write_counting(f, x, 0, 0, COUNT, 6);
    assert_int_equal(moved(f).device_calls, before.device_calls);
    expect_counting(f, x, 1, 0, COUNT, 6);

    /* The new replica after a resize is not pinned. */
    OK(ferry_buffer_resize(x, 2 * COUNT));
    assert_false(ferry_buffer_is_page_locked(x));
    ferry_buffer_destroy(&x);
}

static void
test_downloads_count_too(void **state)
{
    fixture *f = *state;
    if (!f->registers)
        return;
    ferry_buffer *x = make_ints(f, COUNT);
    write_counting(f, x, 1, 0, COUNT, 0);
    for (int round = 1; round <= PINS_IN; round++) {
        assert_false(ferry_buffer_is_page_locked(x));
        add_to(f, x, 1, 0, COUNT, 1);
        touch(f, x, 0, FERRY_READ, 0, COUNT);
    }
    assert_true(ferry_buffer_is_page_locked(x));
    add_to(f, x, 1, 0, COUNT, 1);
    expect_counting(f, x, 0, 0, COUNT, PINS_IN + 1);
    OK(ferry_buffer_evict(x, 0));
    assert_false(ferry_buffer_is_page_locked(x));
    expect_counting(f, x, 0, 0, COUNT, PINS_IN + 1);
    ferry_buffer_destroy(&x);
}

/* Copies two buffers into a third buffer in one batch of many small copies. Consecutive copies have
 * different sources. */
static void
cross_in_pieces(ferry_buffer *target, ferry_buffer *const sources[2], size_t pieces,
                ferry_stream *stream)
{
    copy_list *batch;
    ferry_event *event;
    OK(copy_list_create(&batch));
    for (size_t i = 0; i < pieces; i++)
        for (size_t s = 0; s < 2; s++)
            OK(copy_list_copy(batch, target, INT, (2 * i + s) * (COUNT / 10), sources[s],
                              i * (COUNT / 10), COUNT / 10));
    OK(copy_list_submit_async(batch, ON(stream), &event));
    OK(ferry_event_synchronize(event));
    ferry_event_destroy(&event);
    copy_list_destroy(&batch);
}

/* A batch counts as one transfer for each of its buffers, however many copies it contains. */
static void
test_a_batch_is_one_crossing(void **state)
{
    fixture *f = *state;
    if (!f->registers)
        return;
    ferry_buffer *sources[2] = {make_ints(f, COUNT), make_ints(f, COUNT)},
                 *up = make_ints(f, 2 * COUNT), *down = make_ints(f, 2 * COUNT);
    for (int round = 1; round <= PINS_IN; round++) {
        for (int s = 0; s < 2; s++) {
            assert_false(ferry_buffer_is_page_locked(sources[s]));
            write_counting(f, sources[s], 0, 0, COUNT, round + s);
        }
        cross_in_pieces(up, sources, 10, stream_of(f, 1));
    }
    for (int s = 0; s < 2; s++) {
        assert_true(ferry_buffer_is_page_locked(sources[s]));
        /* Gives each source some newer bytes at the host, so that no place holds all of its bytes.
         * Copies of such a source are assembled at the host. */
        write_counting(f, sources[s], 1, 0, COUNT, 7);
        for (size_t i = 0; i < 10; i++)
            write_counting(f, sources[s], 0, i * (COUNT / 10), 1, 7);
    }
    assert_int_equal(moved(f).auto_pinned, 2);
    for (int round = 1; round <= PINS_IN; round++) {
        assert_false(ferry_buffer_is_page_locked(down));
        cross_in_pieces(down, sources, 10, NULL);
    }
    assert_true(ferry_buffer_is_page_locked(down));
    cross_in_pieces(up, sources, 10, stream_of(f, 1));
    cross_in_pieces(down, sources, 10, NULL);
    assert_int_equal(moved(f).auto_pinned, 3);
    for (size_t i = 0; i < 10; i++) {
        expect_counting(f, down, 0, 2 * i * (COUNT / 10), COUNT / 10, 7 - (int)(i * (COUNT / 10)));
        expect_counting(f, down, 0, (2 * i + 1) * (COUNT / 10), COUNT / 10,
                        7 - (int)((i + 1) * (COUNT / 10)));
    }

    /* A batch that copies only a small part of a replica does not count towards pinning the
     * replica, however many copies it contains. Copies within one place do not count either. */
    ferry_buffer *small = make_ints(f, 20 * COUNT);
    for (int round = 0; round < 2 * PIN_AFTER; round++) {
        cross_in_pieces(small, sources, 10, NULL);
        cross_in_pieces(up, sources, 10, stream_of(f, 1));
    }
    assert_false(ferry_buffer_is_page_locked(small));
    assert_false(ferry_buffer_is_page_locked(up));
    ferry_buffer_destroy(&small);
    for (int s = 0; s < 2; s++)
        ferry_buffer_destroy(&sources[s]);
    ferry_buffer_destroy(&up);
    ferry_buffer_destroy(&down);
}

/* A batch that reads several buffers at the host counts for each of them, wherever it stands in the
 * list. */
static void
test_each_buffer_of_a_batch_crosses(void **state)
{
    fixture *f = *state;
    enum { SOME = 4 };
    if (!f->registers)
        return;
    ferry_buffer *hosts[SOME], *whole = make_ints(f, SOME * COUNT);
    copy_list *uploads;
    OK(copy_list_create(&uploads));
    for (size_t i = 0; i < SOME; i++) {
        hosts[i] = make_ints(f, COUNT);
        OK(copy_list_copy(uploads, whole, INT, i * COUNT, hosts[i], 0, COUNT));
    }
    for (int round = 1; round <= PINS_IN; round++) {
        for (size_t i = 0; i < SOME; i++) {
            assert_false(ferry_buffer_is_page_locked(hosts[i]));
            write_counting(f, hosts[i], 0, 0, COUNT, round + (int)i);
        }
        OK(copy_list_submit(uploads, ON(stream_of(f, 1))));
    }
    for (size_t i = 0; i < SOME; i++) {
        assert_true(ferry_buffer_is_page_locked(hosts[i]));
        expect_counting(f, whole, 1, i * COUNT, COUNT, PINS_IN + (int)i - (int)i * COUNT);
        ferry_buffer_destroy(&hosts[i]);
    }
    copy_list_destroy(&uploads);
    ferry_buffer_destroy(&whole);
}

/* Ferry does not pin small replicas, or replicas of which only small parts are copied. In contexts
 * that disable automatic pinning, Ferry pins no replica. */
static void
test_what_does_not_turn_pinned(void **state)
{
    fixture *f = *state;
    if (!f->registers)
        return;
    size_t small = 64 * KIB / sizeof(int);
    ferry_buffer *x = make_ints(f, small), *y = make_ints(f, COUNT);
    cross(f, y, COUNT, 0);
    for (int round = 0; round < 3 * PIN_AFTER; round++) {
        cross(f, x, small, round);
        cross(f, y, COUNT / 9, round);
    }
    assert_false(ferry_buffer_is_page_locked(x));
    assert_false(ferry_buffer_is_page_locked(y));
    ferry_buffer_destroy(&x);
    ferry_buffer_destroy(&y);

    reopen(f, (ferry_context_options){.pin_after = FERRY_PIN_NEVER});
    x = make_ints(f, COUNT);
    for (int round = 0; round < 3 * PIN_AFTER; round++)
        cross(f, x, COUNT, round);
    assert_false(ferry_buffer_is_page_locked(x));
    ferry_buffer_destroy(&x);

    reopen(f, (ferry_context_options){.pin_after = 3});
    x = make_ints(f, COUNT);
    for (int round = 0; round < 3; round++)
        cross(f, x, COUNT, round);
    assert_false(ferry_buffer_is_page_locked(x)); /* only the fourth transfer pins */
    cross(f, x, COUNT, 3);
    assert_true(ferry_buffer_is_page_locked(x));
    ferry_buffer_destroy(&x);
}

/* Automatic pinning and memory that the program asked Ferry to pin share one limit. The program's
 * memory has priority. */
static void
test_the_limit_and_pressure(void **state)
{
    fixture *f = *state;
    if (!f->registers)
        return;
    size_t bytes = COUNT * sizeof(int);
    reopen(f, (ferry_context_options){.pin_after = 2, .pinned_bytes_limit = 8 * bytes});
    ferry_buffer *x[3];
    for (int i = 0; i < 3; i++)
        x[i] = make_ints(f, 4 * COUNT);
    for (int i = 0; i < 3; i++)
        for (int round = 0; round < 4; round++)
            cross(f, x[i], 4 * COUNT, round);
    assert_true(ferry_buffer_is_page_locked(x[0]));
    assert_true(ferry_buffer_is_page_locked(x[1]));
    assert_false(ferry_buffer_is_page_locked(x[2]));

    ferry_pool *pool;
    ferry_block *block;
    OK(ferry_context_pool(f->context, 0, FERRY_MEMORY_PINNED, &pool));
    OK(ferry_pool_allocate(pool, 5 * bytes, NULL, &block));
    assert_false(ferry_buffer_is_page_locked(x[0]));
    assert_false(ferry_buffer_is_page_locked(x[1]));
    for (int i = 0; i < 3; i++) {
        cross(f, x[i], 4 * COUNT, 9 + i);
        expect_counting(f, x[i], 1, 0, 4 * COUNT, 9 + i);
        assert_false(ferry_buffer_is_page_locked(x[i]));
    }
    OK(ferry_block_free(&block, NULL));
    OK(ferry_pool_trim(pool, 0));
    cross(f, x[1], 4 * COUNT, 50);
    cross(f, x[1], 4 * COUNT, 51);
    assert_true(ferry_buffer_is_page_locked(x[1]));
    for (int i = 0; i < 3; i++)
        ferry_buffer_destroy(&x[i]);
}

/* The page-locked memory of a replica is unlocked before its block returns to the pool. So the next
 * owner of the block gets pageable memory. */
static void
test_memory_is_unlocked_before_it_goes_back(void **state)
{
    fixture *f = *state;
    if (!f->registers)
        return;
    reopen(f, (ferry_context_options){.pin_after = 1});
    for (int round = 0; round < 20; round++) {
        ferry_buffer *x = make_ints(f, COUNT);
        cross(f, x, COUNT, round);
        assert_false(ferry_buffer_is_page_locked(x));
        cross(f, x, COUNT, round + 1);
        assert_true(ferry_buffer_is_page_locked(x));
        assert_int_equal(ferryi_engine_pins(f->context->engine)->count, 1);
        ferry_buffer_destroy(&x);
        assert_int_equal(ferryi_engine_pins(f->context->engine)->count, 0);
    }
    ferry_pool *pool;
    OK(ferry_context_pool(f->context, 0, FERRY_MEMORY_PAGEABLE, &pool));
    OK(ferry_pool_trim(pool, 0));
}

/* -- the program's memory ---------------------------------------------------------------------- */

static void
test_copies_of_registered_memory_go_straight(void **state)
{
    fixture *f = *state;
    size_t bytes = COUNT * sizeof(int);
    int *memory = take_pages(bytes), *back = calloc(COUNT, sizeof(int));
    assert_non_null(memory);
    assert_non_null(back);
    for (size_t i = 0; i < COUNT; i++)
        memory[i] = (int)i + 3;
    if (!f->registers) {
        FAILS(FERRY_ERROR_UNSUPPORTED, ferry_context_register_host(f->context, memory, bytes));
        FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_unregister_host(f->context, memory));
        free(memory);
        free(back);
        return;
    }
    OK(ferry_context_register_host(f->context, memory, bytes));
    FAILS(FERRY_ERROR_CONFLICT, ferry_context_register_host(f->context, memory + 10, 100));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_unregister_host(f->context, memory + 10));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_register_host(f->context, NULL, bytes));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_register_host(f->context, back, 0));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_register_host(NULL, memory, bytes));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_unregister_host(f->context, NULL));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_unregister_host(f->context, back));

    ferry_buffer *x = make_ints(f, COUNT);
    touch(f, x, 1, FERRY_OVERWRITE, 0, COUNT);
    ferry_transfer_stats before = moved(f);
    OK(ferry_buffer_copy_from(x, INT, 5, COUNT - 10, memory + 5, NULL));
    assert_int_equal(moved(f).direct.bytes - before.direct.bytes, (COUNT - 10) * sizeof(int));
    assert_int_equal(moved(f).staged.bytes, before.staged.bytes);
    /* The registered memory may be written as soon as ferry_buffer_copy_from() has returned. */
    memset(memory, 0, bytes);
    OK(ferry_buffer_copy_to(x, INT, 5, COUNT - 10, memory + 5, NULL));
    for (size_t i = 5; i < COUNT - 5; i++)
        assert_int_equal(memory[i], (int)i + 3);
    assert_int_equal(moved(f).direct.copies - before.direct.copies, 2);

    /* A copy to memory that is not registered is staged. */
    OK(ferry_buffer_copy_to(x, INT, 5, COUNT - 10, back + 5, NULL));
    assert_memory_equal(back + 5, memory + 5, (COUNT - 10) * sizeof(int));
    assert_int_equal(moved(f).staged.copies - before.staged.copies, !f->takes_pageable);
    OK(ferry_context_unregister_host(f->context, memory));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_unregister_host(f->context, memory));
    OK(ferry_buffer_copy_to(x, INT, 0, COUNT, memory, NULL));
    assert_int_equal(moved(f).staged.copies - before.staged.copies, 2 * !f->takes_pageable);
    ferry_buffer_destroy(&x);
    free(memory);
    free(back);
}

static void
test_a_wrap_of_registered_memory(void **state)
{
    fixture *f = *state;
    if (!f->registers)
        return;
    size_t bytes = COUNT * sizeof(int);
    int *memory = take_pages(bytes);
    assert_non_null(memory);
    ferry_buffer *x;
    OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, NULL, &x));
    assert_false(ferry_buffer_is_page_locked(x));
    OK(ferry_context_register_host(f->context, memory, bytes));
    assert_true(ferry_buffer_is_page_locked(x));
    ferry_transfer_stats before = moved(f);
    cross(f, x, COUNT, 8);
    add_to(f, x, 1, 0, COUNT, 1);
    expect_counting(f, x, 0, 0, COUNT, 9);
    assert_int_equal(moved(f).staged.copies, before.staged.copies);
    assert_int_equal(moved(f).direct.copies - before.direct.copies, 2);
    OK(ferry_context_unregister_host(f->context, memory));
    assert_false(ferry_buffer_is_page_locked(x));
    /* Ferry never pins memory of the program automatically. */
    for (int round = 0; round < 2 * PIN_AFTER; round++)
        cross(f, x, COUNT, round);
    assert_false(ferry_buffer_is_page_locked(x));
    ferry_buffer_destroy(&x);
    free(memory);
}

struct inside {
    ferry_context *context;
    void *memory;
    ferry_status status;
};

static void
unregister(void *user)
{
    struct inside *inside = user;
    inside->status = ferry_context_unregister_host(inside->context, inside->memory);
}

/* Calls ferry_context_unregister_host() on a separate thread, because callbacks must not make this
 * call. */
static bool
unregister_meanwhile(size_t done, size_t total, void *user)
{
    ferryi_thread thread;
    (void)done, (void)total;
    if (ferryi_thread_start(&thread, "unregister", unregister, user) == FERRY_OK)
        ferryi_thread_join(thread);
    return true;
}

static void
test_memory_in_use_stays_registered(void **state)
{
    fixture *f = *state;
    if (!f->registers)
        return;
    size_t count = 3 << 20; /* 12 MiB, which are copied in several parts */
    int *memory = take_pages(count * sizeof(int));
    assert_non_null(memory);
    memset(memory, 0, count * sizeof(int));
    OK(ferry_context_register_host(f->context, memory, count * sizeof(int)));
    ferry_buffer *x = make_ints(f, count);
    touch(f, x, 1, FERRY_OVERWRITE, 0, count);
    struct inside inside = {.context = f->context, .memory = memory};
    ferry_copy_options options = {.keep_going = unregister_meanwhile, .user = &inside};
    OK(ferry_buffer_copy_from(x, INT, 0, count, memory, &options));
    assert_int_equal(inside.status, FERRY_ERROR_BUSY);
    OK(ferry_context_unregister_host(f->context, memory));
    ferry_buffer_destroy(&x);
    free(memory);
}

/* -- failing ----------------------------------------------------------------------------------- */

static void
ignore(ferry_log_level level, const char *message, void *user)
{
    (void)level, (void)message, (void)user;
}

static ferry_status
pin_and_register(ferry_context *context, int *memory, ferry_buffer *x)
{
    ferry_status status = FERRY_OK;
    ferry_scope scope;
    void *pointer;
    for (int round = 0; round < 3 && status == FERRY_OK; round++) {
        status = ferry_buffer_fill(x, INT, 0, COUNT, &round, NULL);
        if (status == FERRY_OK)
            status = ferry_buffer_invalidate(x, 0, FERRY_REST, 1);
        if (status == FERRY_OK)
            status = ferry_buffer_open_device(x, INT, FERRY_READ, 0, COUNT, NULL, &scope, &pointer);
        if (status == FERRY_OK)
            status = ferry_scope_close(&scope);
    }
    if (status == FERRY_OK)
        status = ferry_context_register_host(context, memory, COUNT * sizeof(int));
    if (status != FERRY_OK)
        return status;
    status = ferry_buffer_copy_to(x, INT, 0, COUNT, memory, NULL);
    ferry_status undone = ferry_context_unregister_host(context, memory);
    return status != FERRY_OK ? status : undone;
}

struct refusal {
    ferry_status status;
    unsigned count;
};

static ferry_status
refuse_to_register(const char *slot, void *user)
{
    struct refusal *refusal = user;
    if (strcmp(slot, "host_register") != 0)
        return FERRY_OK;
    refusal->count++;
    return refusal->status;
}

/* If the driver has no memory to page-lock a replica, it is asked again after some more transfers.
 * After any other refusal it is not. */
static void
test_a_refusal_to_lock_pages(void **state)
{
    (void)state;
    static const ferry_status refusals[] = {FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_CONFLICT,
                                            FERRY_ERROR_UNSUPPORTED};
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        fixture f;
        struct refusal refusal = {.status = refusals[i]};
        fixture_open(&f,
                     &(ferry_context_options){.devices = "fault", .log = ignore, .pin_after = 2});
        ferry_buffer *x = make_ints(&f, COUNT);
        fault_hook(refuse_to_register, &refusal);
        for (int round = 0; round < 3; round++)
            cross(&f, x, COUNT, round);
        assert_int_equal(refusal.count, 1);
        refusal.status = FERRY_OK;
        for (int round = 0; round < 3; round++)
            cross(&f, x, COUNT, round);
        fault_hook(NULL, NULL);
        const bool again = refusals[i] == FERRY_ERROR_OUT_OF_MEMORY;
        assert_int_equal(refusal.count, again ? 2 : 1);
        assert_int_equal(ferry_buffer_is_page_locked(x), again);
        ferry_buffer_destroy(&x);
        fixture_close(&f);
    }
}

/* Makes each device call fail once. No memory may stay page-locked, and no bytes may be lost. A
 * replica that cannot be pinned must still be copied. */
static void
test_whatever_call_fails(void **state)
{
    (void)state;
    fault_include_releases(true);
    for (uint64_t nth = 1;; nth++) {
        ferry_context *context;
        ferry_context_options options = {
            .devices = "fault", .log = ignore, .pin_after = 2, .tuning = "staging.threads=2"};
        int *memory = take_pages(COUNT * sizeof(int));
        ferry_buffer *x;
        assert_non_null(memory);
        OK(ferry_context_create(&options, &context));
        OK(ferry_buffer_create(context, INT, COUNT, NULL, &x));
        fault_arm(nth);
        ferry_status status = pin_and_register(context, memory, x);
        bool tripped = fault_tripped();
        const char *slot = fault_tripped_slot();
        fault_disarm();
        if (!tripped)
            assert_int_equal(status, FERRY_OK);
        else if (strcmp(slot, "host_unregister") == 0)
            assert_int_equal(status, FERRY_OK); /* the library tried again */
        if (status == FERRY_OK)
            for (size_t i = 0; i < COUNT; i++)
                assert_int_equal(memory[i], 2);
        ferry_buffer_destroy(&x);
        assert_int_equal(ferryi_engine_pins(context->engine)->count, 0);
        ferry_context_destroy(&context);
        assert_int_equal(fault_live(), 0);
        free(memory);
        if (!tripped)
            break;
    }
    fault_include_releases(false);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_copy_turns_pinned_after_its_crossings),
        TEST(test_downloads_count_too),
        TEST(test_a_batch_is_one_crossing),
        TEST(test_each_buffer_of_a_batch_crosses),
        TEST(test_what_does_not_turn_pinned),
        TEST(test_the_limit_and_pressure),
        TEST(test_memory_is_unlocked_before_it_goes_back),
        TEST(test_copies_of_registered_memory_go_straight),
        TEST(test_a_wrap_of_registered_memory),
        TEST(test_memory_in_use_stays_registered),
        cmocka_unit_test(test_a_refusal_to_lock_pages),
        TEST(test_whatever_call_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
