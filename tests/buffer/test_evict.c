/* SPDX-License-Identifier: MIT */
/* Tests eviction. If memory runs short, unused replicas are evicted: clean ones without transfers,
 * dirty ones with one write-back each. */
#include "src/pool/pool.h"
#include "tests/buffer/work.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/copies.h"
#include "tests/support/fault.h"

/* Each buffer needs a block of 256 KiB: whole pages, and one page to spare, part of which a memory
 * checker needs (SPARE). Eight buffers (FIT) fill the device's limit. A working set (SET) has four
 * times as many buffers. */
enum {
    BLOCK = 256 << 10,
    BYTES = BLOCK - 4096,
    COUNT = BYTES / 4,
    FIT = 8,
    SET = 4 * FIT,
    LIMIT = FIT * BLOCK,
    SPARE = 64
};

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

static uint64_t
evictions(fixture *f, int place)
{
    ferry_pool *pool;
    OK(ferry_context_pool(f->context, place, FERRY_MEMORY_DEFAULT, &pool));
    ferry_pool_stats stats;
    OK(ferry_pool_get_stats(pool, &stats));
    return stats.evictions;
}

/* Checks that `count` replicas were evicted. If the device shares the host's memory, checks that
 * none was evicted. */
static void
expect_evictions(fixture *f, int place, uint64_t before, uint64_t count)
{
    assert_int_equal(evictions(f, place) - before, f->coherent ? 0 : count);
}

static void
make_set(fixture *f, ferry_buffer **set, size_t count, const ferry_buffer_options *options)
{
    for (size_t i = 0; i < count; i++) {
        OK(ferry_buffer_create(f->context, INT, COUNT, options, &set[i]));
        write_counting(f, set[i], 0, 0, COUNT, (int)i);
    }
}

static void
destroy_set(ferry_buffer **set, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ferry_buffer_destroy(&set[i]);
}

static bool
is_at(ferry_buffer *buffer, int place)
{
    return info_of(buffer).places_with_copy >> place & 1;
}

/* -- working sets ------------------------------------------------------------------------------ */

/* A working set of four times the device's memory produces correct results. Clean replicas of the
 * set are evicted without transfers. */
static void
test_clean_copies_go_without_traffic(void **state)
{
    fixture *f = *state;
    ferry_buffer *set[SET];
    make_set(f, set, SET, NULL);
    ferry_transfer_stats before = moved(f);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < SET; i++)
            expect_counting(f, set[i], 1, 0, COUNT, i);
    /* The buffers are used in turn, so each replica is evicted before its next use, and each use
     * uploads it again. Evictions download nothing, because the replicas are clean. */
    expect_moved(f, &before, 2 * SET * (uint64_t)BYTES, 0);
    expect_evictions(f, 1, 0, 2 * SET - FIT);
    for (int i = 0; i < SET; i++)
        expect_counting(f, set[i], 0, 0, COUNT, i);
    expect_moved(f, &before, 2 * SET * (uint64_t)BYTES, 0);
    destroy_set(set, SET);
}

static void
run_dirty_set(fixture *f, const ferry_buffer_options *options)
{
    ferry_buffer *set[SET];
    work w;
    work_open(f, &w);
    make_set(f, set, SET, options);
    uint64_t before_evictions = evictions(f, 1);
    ferry_transfer_stats before = moved(f);
    for (int i = 0; i < SET; i++)
        OK(launch_add(&w, f->stream, set[i], 0, COUNT, 1000));
    expect_moved(f, &before, SET * (uint64_t)BYTES, (SET - FIT) * (uint64_t)BYTES);
    expect_evictions(f, 1, before_evictions, SET - FIT);
    if (!f->coherent)
        assert_string_equal(f->trace_buffer, "");
    for (int i = 0; i < SET; i++)
        expect_counting(f, set[i], 0, 0, COUNT, i + 1000);
    expect_moved(f, &before, SET * (uint64_t)BYTES, SET * (uint64_t)BYTES);
    destroy_set(set, SET);
    work_close(&w);
}

/* A dirty replica is written back once when it is evicted. */
static void
test_dirty_copies_are_written_back_once(void **state)
{
    fixture *f = *state;
    run_dirty_set(f, NULL);
    run_dirty_set(f, &(ferry_buffer_options){.memory = f->coherent ? FERRY_MEMORY_DEFAULT
                                                                   : FERRY_MEMORY_PINNED});
}

/* An eviction writes back only the bytes that no other place holds. */
static void
test_written_back_is_only_what_is_newer(void **state)
{
    enum { PART = 1000 };
    fixture *f = *state;
    ferry_buffer *set[FIT + 1];
    make_set(f, set, FIT + 1, NULL);
    for (int i = 0; i < FIT; i++) {
        touch(f, set[i], 1, FERRY_READ, 0, COUNT);
        add_to(f, set[i], 1, 500, PART, 7);
        add_to(f, set[i], 1, 10000, PART, 7);
    }
    ferry_transfer_stats before = moved(f);
    touch(f, set[FIT], 1, FERRY_READ, 0, COUNT);
    expect_moved(f, &before, BYTES, 2 * PART * 4);
    expect_copies(f, &before, 1, 1);
    expect_evictions(f, 1, 0, 1);
    if (!f->coherent)
        assert_false(is_at(set[0], 1));
    for (int i = 0; i < FIT; i++) {
        expect_counting(f, set[i], 0, 0, 500, i);
        expect_counting(f, set[i], 0, 500, PART, i + 7);
        expect_counting(f, set[i], 0, 500 + PART, 10000 - 500 - PART, i);
        expect_counting(f, set[i], 0, 10000, PART, i + 7);
        expect_counting(f, set[i], 0, 10000 + PART, FERRY_REST, i);
    }
    destroy_set(set, FIT + 1);
}

/* The trace reports eviction as the reason for a write-back. */
static void
test_write_back_is_traced_as_eviction(void **state)
{
    fixture *f = *state;
    ferry_buffer *first, *set[FIT];
    ferry_buffer_options options = {.name = "first"};
    OK(ferry_buffer_create(f->context, INT, COUNT, &options, &first));
    write_counting(f, first, 1, 0, COUNT, 5);
    for (int i = 0; i < FIT; i++)
        set[i] = make_ints(f, COUNT);
    for (int i = 0; i < FIT; i++)
        touch(f, set[i], 1, FERRY_OVERWRITE, 0, COUNT);
    if (!f->coherent) {
        assert_string_equal(f->trace_reason, "evict");
        assert_string_equal(f->trace_buffer, "first");
        STATE(first, HOST_ONLY);
    }
    expect_counting(f, first, 0, 0, COUNT, 5);
    ferry_buffer_destroy(&first);
    destroy_set(set, FIT);
}

/* Buffers of different sizes evict each other. A block can be used for a different size only after
 * its whole slab has become free. */
static void
test_sizes_make_room_for_each_other(void **state)
{
    enum { TINY = 4096, WHOLE = (LIMIT - SPARE) / 4 };
    fixture *f = *state;
    ferry_buffer *set[FIT], *tiny[3 * FIT], *large;
    make_set(f, set, FIT, NULL);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < FIT; i++)
            add_to(f, set[i], 1, 0, COUNT, 1);
        for (int i = 0; i < 3 * FIT; i++) {
            tiny[i] = make_counting(f, TINY, i);
            add_to(f, tiny[i], 1, 0, TINY, 100);
        }
        large = make_counting(f, WHOLE, 3);
        add_to(f, large, 1, 0, WHOLE, 1);
        expect_counting(f, large, 0, 0, FERRY_REST, 4);
        ferry_buffer_destroy(&large);
        for (int i = 0; i < 3 * FIT; i++)
            expect_counting(f, tiny[i], 0, 0, TINY, i + 100);
        destroy_set(tiny, 3 * FIT);
    }
    for (int i = 0; i < FIT; i++)
        expect_counting(f, set[i], 0, 0, COUNT, i + 2);
    destroy_set(set, FIT);
}

/* Clean replicas are evicted before dirty ones. It does not matter at which buffer the search for a
 * replica to evict begins. */
static void
test_clean_ones_go_first(void **state)
{
    fixture *f = *state;
    ferry_buffer *set[FIT + 1];
    make_set(f, set, FIT + 1, NULL);
    for (int i = 0; i < FIT; i++)
        add_to(f, set[i], 1, 0, COUNT, 1);
    expect_counting(f, set[FIT / 2], 0, 0, COUNT, FIT / 2 + 1);
    ferry_transfer_stats before = moved(f);
    touch(f, set[FIT], 1, FERRY_READ, 0, COUNT);
    expect_moved(f, &before, BYTES, 0);
    assert_int_equal(is_at(set[FIT / 2], 1), f->coherent);
    destroy_set(set, FIT + 1);
}

/* If the block of one replica has the right size, only that replica is evicted. Smaller replicas
 * stay, even if they were unused for longer. */
static void
test_what_fits_goes_alone(void **state)
{
    enum { TINY = 1000 };
    fixture *f = *state;
    ferry_buffer *tiny[FIT], *set[FIT];
    for (int i = 0; i < FIT; i++) {
        tiny[i] = make_counting(f, TINY, i);
        touch(f, tiny[i], 1, FERRY_READ, 0, TINY);
    }
    make_set(f, set, FIT, NULL);
    for (int i = 0; i < FIT; i++)
        touch(f, set[i], 1, FERRY_READ, 0, COUNT);
    expect_evictions(f, 1, 0, 1);
    for (int i = 0; i < FIT; i++)
        assert_true(is_at(tiny[i], 1));
    destroy_set(tiny, FIT);
    destroy_set(set, FIT);
}

/* If no single replica's block is large enough, replicas in neighbouring blocks are evicted.
 * Together their blocks are large enough. */
static void
test_many_small_ones_go_for_another_size(void **state)
{
    enum { SMALL_ONES = LIMIT / 4096, TINY = 1024 };
    fixture *f = *state;
    static ferry_buffer *small[SMALL_ONES];
    for (int i = 0; i < SMALL_ONES; i++) {
        small[i] = make_counting(f, TINY, i);
        touch(f, small[i], 1, FERRY_READ, 0, TINY);
    }
    ferry_buffer *other = make_counting(f, 2 * TINY, 5);
    expect_counting(f, other, 1, 0, 2 * TINY, 5);
    ferry_buffer_destroy(&other);
    destroy_set(small, SMALL_ONES);
}

/* A replica that is used repeatedly stays at the device while others are evicted. A plain round-
 * robin scan would evict this replica in each round. */
static void
test_what_was_used_lately_is_spared(void **state)
{
    enum { ROUNDS = 20 };
    fixture *f = *state;
    ferry_buffer *set[FIT + 1];
    int misses = 0;
    make_set(f, set, FIT + 1, NULL);
    for (int i = 0; i < ROUNDS * FIT; i++) {
        misses += !is_at(set[0], 1);
        touch(f, set[0], 1, FERRY_READ, 0, COUNT);
        touch(f, set[1 + i % FIT], 1, FERRY_READ, 0, COUNT);
    }
    assert_in_range(misses, 1, ROUNDS / 4);
    destroy_set(set, FIT + 1);
}

/* Allocating a block directly from the pool evicts replicas if memory is short, just as using a
 * buffer does. */
static void
test_blocks_make_copies_go(void **state)
{
    fixture *f = *state;
    ferry_buffer *set[FIT];
    ferry_pool *pool;
    ferry_block *block;
    if (f->coherent)
        skip();
    make_set(f, set, FIT, NULL);
    for (int i = 0; i < FIT; i++)
        add_to(f, set[i], 1, 0, COUNT, i % 2);
    OK(ferry_context_pool(f->context, 1, FERRY_MEMORY_DEVICE, &pool));
    OK(ferry_pool_allocate(pool, LIMIT - SPARE, f->stream, &block));
    for (int i = 0; i < FIT; i++) {
        STATE(set[i], HOST_ONLY);
        expect_counting(f, set[i], 0, 0, COUNT, i + i % 2);
    }
    ferry_pool_stats stats;
    OK(ferry_pool_get_stats(pool, &stats));
    assert_int_equal(stats.evictions, FIT);
    struct ferryi_pool_counters counters;
    ferryi_pool_get_counters(pool, &counters);
    assert_int_equal(counters.shortages, 1);
    OK(ferry_block_free(&block, f->stream));
    destroy_set(set, FIT);
}

/* -- what must stay ---------------------------------------------------------------------------- */

/* A replica is never evicted while it is pinned or in an open scope. */
static void
test_scopes_and_pins_survive(void **state)
{
    fixture *f = *state;
    ferry_buffer *kept[4], *set[SET];
    ferry_scope scopes[2], again;
    void *open[2], *pinned[2], *pointer;
    make_set(f, kept, 4, NULL);
    make_set(f, set, SET, NULL);
    add_to(f, kept[0], 1, 0, COUNT, 0); /* dirty */
    open[0] = open_at(f, kept[0], 1, FERRY_READ, 0, 10, &scopes[0]);
    open[1] = open_at(f, kept[1], 1, FERRY_UPDATE, 100, 10, &scopes[1]);
    for (int i = 0; i < 2; i++) {
        OK(ferry_buffer_hold(kept[2 + i], 1, &pinned[i]));
        touch(f, kept[2 + i], 1, i ? FERRY_UPDATE : FERRY_READ, 0, COUNT);
    }
    for (int i = 0; i < SET; i++)
        add_to(f, set[i], 1, 0, COUNT, 10);
    for (int i = 0; i < 4; i++)
        assert_true(is_at(kept[i], 1));
    for (int i = 0; i < 2; i++) {
        OK(ferry_scope_close(&scopes[i]));
        pointer = open_at(f, kept[i], 1, FERRY_READ, i * 100, 10, &again);
        assert_ptr_equal(pointer, open[i]);
        OK(ferry_scope_close(&again));
        OK(ferry_buffer_hold(kept[2 + i], 1, &pointer));
        assert_ptr_equal(pointer, pinned[i]);
        OK(ferry_buffer_release(kept[2 + i], 1));
        OK(ferry_buffer_release(kept[2 + i], 1));
    }
    /* The scopes are closed and the pins released, so these replicas can now be evicted. The search
     * for replicas to evict reaches every replica within two rounds. */
    for (int i = 0; i < 2 * SET; i++)
        add_to(f, set[i % SET], 1, 0, COUNT, 5);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(is_at(kept[i], 1), f->coherent);
        expect_counting(f, kept[i], 0, 0, COUNT, i);
    }
    destroy_set(kept, 4);
    for (int i = 0; i < SET; i++)
        expect_counting(f, set[i], 0, 0, COUNT, i + 20);
    destroy_set(set, SET);
}

/* While a scope writes the host's replica, the device's replica is not evicted. The device's
 * replica holds the old value, which must be restored if the write is abandoned. */
static void
test_the_old_value_of_an_abandoned_write_stays(void **state)
{
    fixture *f = *state;
    ferry_buffer *half, *clean, *set[SET];
    ferry_scope scopes[2];
    half = make_counting(f, COUNT, 40);
    clean = make_counting(f, COUNT, 60);
    add_to(f, half, 1, 0, COUNT, 1);
    touch(f, clean, 1, FERRY_READ, 0, COUNT);
    open_at(f, half, 0, FERRY_OVERWRITE, 0, 10, &scopes[0]);
    int32_t *values = open_at(f, clean, 0, FERRY_OVERWRITE, 0, 10, &scopes[1]);
    make_set(f, set, SET, NULL);
    for (int i = 0; i < SET; i++)
        touch(f, set[i], 1, FERRY_READ, 0, COUNT);
    assert_true(is_at(half, 1));
    assert_true(is_at(clean, 1));
    if (!f->coherent)
        values[0] = -1;
    OK(ferry_scope_abandon(&scopes[0]));
    OK(ferry_scope_abandon(&scopes[1]));
    expect_counting(f, half, 0, 0, COUNT, 41);
    expect_counting(f, clean, 0, 0, COUNT, 60);
    ferry_buffer_destroy(&half);
    ferry_buffer_destroy(&clean);
    destroy_set(set, SET);
}

static ferry_status
fail_late(const ferry_call *call, void *user)
{
    (void)user;
    ferryi_sleep_ns(20000000);
    ferry_call_fail(call, "it fails late");
    return FERRY_ERROR_IO;
}

/* An eviction waits for a kernel that still writes the replica. If the kernel fails, the bytes are
 * lost. The buffer then has neither the kernel's output nor the host's old bytes. */
static void
test_kernels_that_fail_late(void **state)
{
    fixture *f = *state;
    ferry_parameter parameter = {.element = INT, .access = FERRY_UPDATE};
    ferry_kernel_source source = {
        .name = "late", .host_function = fail_late, .parameters = &parameter, .parameter_count = 1};
    ferry_place_info info;
    OK(ferry_context_get_place_info(f->context, 1, &info));
    if (f->coherent || !(info.capabilities & FERRY_CAN_RUN_HOST_FUNCTION))
        skip();
    ferry_kernel *kernel;
    ferry_buffer *victims[FIT], *next;
    int32_t values[4];
    OK(ferry_kernel_create(f->context, &source, &kernel));
    make_set(f, victims, FIT, &(ferry_buffer_options){.memory = FERRY_MEMORY_PINNED});
    for (int i = 0; i < FIT; i++) {
        ferry_argument argument = ferry_buffer_argument(victims[i], INT, 0, FERRY_REST);
        OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), f->stream, &argument, 1));
    }
    next = make_counting(f, COUNT, 9);
    expect_counting(f, next, 1, 0, COUNT, 9);
    for (int i = 0; i < FIT; i++)
        FAILS(FERRY_ERROR_IO, ferry_buffer_copy_to(victims[i], INT, 0, 4, values, NULL));
    ferry_buffer_destroy(&next);
    destroy_set(victims, FIT);
    ferry_kernel_destroy(&kernel);
}

/* If asynchronous calls are using the replicas, a request for memory waits until those calls have
 * ended. It does not fail. */
static void
test_calls_under_way_are_given_a_moment(void **state)
{
    (void)state;
    fixture f;
    ferry_buffer *set[FIT + 1];
    static int32_t values[COUNT];
    fixture_open(&f, &(ferry_context_options){.device_bytes_limit = LIMIT,
                                              .tuning = "emulated.latency=300us"});
    make_set(&f, set, FIT + 1, NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < FIT; i++)
            touch(&f, set[i], 1, FERRY_READ, 0, COUNT);
        for (int i = 0; i < FIT; i++)
            QUEUE(ferry_buffer_copy_from_async(set[i], INT, 0, COUNT, values, ON(f.stream),
                                               &forgotten));
        touch(&f, set[FIT], 1, FERRY_READ, 0, COUNT);
    }
    for (int i = 0; i < FIT; i++)
        expect_constant(&f, set[i], 0, 0, COUNT, 0);
    destroy_set(set, FIT + 1);
    fixture_close(&f);
}

static atomic_uint pauses;

void __real_ferryi_sleep_ns(uint64_t ns);
void __wrap_ferryi_sleep_ns(uint64_t ns);

void
__wrap_ferryi_sleep_ns(uint64_t ns)
{
    atomic_fetch_add(&pauses, 1);
    __real_ferryi_sleep_ns(ns);
}

/* A worker thread that needs memory waits neither for the call that it runs nor for calls queued
 * behind it. */
static void
test_asynchronous_calls_do_not_wait_for_themselves(void **state)
{
    fixture *f = *state;
    enum { CALLS = 2 * FIT };
    ferry_buffer *from[CALLS], *to[CALLS];
    ferry_event *events[CALLS];
    make_set(f, from, CALLS, NULL);
    for (int i = 0; i < CALLS; i++)
        to[i] = make_ints(f, COUNT);
    atomic_store(&pauses, 0);
    for (int i = 0; i < CALLS; i++)
        OK(ferry_buffer_copy_async(to[i], INT, 0, from[i], 0, COUNT, ON(f->stream), &events[i]));
    for (int i = 0; i < CALLS; i++) {
        OK(ferry_event_synchronize(events[i]));
        ferry_event_destroy(&events[i]);
    }
    /* If a worker waited for its own calls, one wait would take all 500 pauses of an eviction. */
    assert_in_range(atomic_load(&pauses), 0, 250);
    destroy_set(from, CALLS);
    destroy_set(to, CALLS);
}

static bool
go_on_when_set(size_t done, size_t total, void *user)
{
    (void)done, (void)total;
    wait_until(user);
    return true;
}

/* A worker needs memory while queued calls use all large replicas of the device. It must not wait
 * for these calls, because they begin only after the call that it runs. */
static void
test_asynchronous_calls_do_not_wait_for_queued_ones(void **state)
{
    fixture *f = *state;
    enum { PAIRS = 3, LARGE = 4 * COUNT };
    ferry_buffer *from[PAIRS], *to[PAIRS],
        *small_from = make_counting(f, 1, 1), *small_to = make_ints(f, 1),
        *large_from = make_counting(f, LARGE, 1), *large_to = make_ints(f, LARGE);
    ferry_event *copied;
    atomic_bool queued = false;
    ferry_copy_options held = {.stream = f->stream, .keep_going = go_on_when_set, .user = &queued};
    make_set(f, from, PAIRS, NULL);
    make_set(f, to, PAIRS, NULL);
    for (int i = 0; i < PAIRS; i++) {
        touch(f, from[i], 1, FERRY_READ, 0, COUNT);
        touch(f, to[i], 1, FERRY_READ, 0, COUNT);
    }
    atomic_store(&pauses, 0);
    QUEUE(ferry_buffer_copy_async(small_to, INT, 0, small_from, 0, 1, &held, &forgotten));
    OK(ferry_buffer_copy_async(large_to, INT, 0, large_from, 0, LARGE, ON(f->stream), &copied));
    for (int i = 0; i < PAIRS; i++)
        QUEUE(ferry_buffer_copy_async(to[i], INT, 0, from[i], 0, COUNT, ON(f->stream), &forgotten));
    atomic_store(&queued, true);
    assert_int_equal(ferry_event_synchronize(copied),
                     f->coherent ? FERRY_OK : FERRY_ERROR_OUT_OF_MEMORY);
    assert_in_range(atomic_load(&pauses), 0, 250);
    ferry_event_destroy(&copied);
    for (int i = 0; i < PAIRS; i++)
        expect_counting(f, to[i], 0, 0, COUNT, i);
    destroy_set(from, PAIRS);
    destroy_set(to, PAIRS);
    DESTROY_BUFFERS(&small_from, &small_to, &large_from, &large_to);
}

/* A launch whose arguments just fit into the device's memory succeeds. All other replicas are
 * evicted if necessary. */
static void
test_launches_that_just_fit(void **state)
{
    enum { HALF = (LIMIT / 2 - SPARE) / 4, PAIRS = 4 };
    fixture *f = *state;
    ferry_buffer *from[PAIRS], *to[PAIRS];
    work w;
    work_open(f, &w);
    for (int i = 0; i < PAIRS; i++) {
        from[i] = make_counting(f, HALF, i);
        to[i] = make_counting(f, HALF, 100);
    }
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < PAIRS; i++) {
            OK(launch_add(&w, f->stream, from[i], 0, HALF, 1));
            OK(launch_copy(&w, f->stream, to[i], 0, from[i], 0, HALF));
        }
    for (int i = 0; i < PAIRS; i++) {
        expect_counting(f, to[i], 0, 0, HALF, i + 2);
        expect_counting(f, from[i], 0, 0, HALF, i + 2);
    }
    destroy_set(from, PAIRS);
    destroy_set(to, PAIRS);
    work_close(&w);
}

/* If open scopes and pins use all memory, a request for memory fails and changes nothing. The
 * message says that all memory is in use. */
static void
test_out_of_memory_when_all_is_in_use(void **state)
{
    fixture *f = *state;
    ferry_buffer *set[FIT + 1];
    ferry_scope scopes[FIT], one;
    snapshot before[FIT + 1];
    void *pointer;
    if (f->coherent)
        skip();
    make_set(f, set, FIT + 1, NULL);
    for (int i = 0; i < FIT; i++)
        open_at(f, set[i], 1, i % 2 ? FERRY_READ : FERRY_UPDATE, 0, COUNT, &scopes[i]);
    for (int i = 0; i <= FIT; i++)
        before[i] = take_snapshot(set[i]);
    FAILS(FERRY_ERROR_OUT_OF_MEMORY,
          ferry_buffer_open_device(set[FIT], INT, FERRY_READ, 0, COUNT, f->stream, &one, &pointer));
    const char *parts[] = {"requested", "free", "total", "cached", "largest free"};
    for (size_t i = 0; i < LENGTH(parts); i++)
        assert_non_null(strstr(ferry_last_error(), parts[i]));
    for (int i = 0; i <= FIT; i++)
        expect_unchanged(set[i], &before[i]);
    assert_int_equal(evictions(f, 1), 0);

    OK(ferry_scope_close(&scopes[0]));
    touch(f, set[FIT], 1, FERRY_READ, 0, COUNT);
    assert_int_equal(evictions(f, 1), 1);
    assert_false(is_at(set[0], 1));
    for (int i = 1; i < FIT; i++)
        OK(ferry_scope_close(&scopes[i]));
    for (int i = 0; i <= FIT; i++)
        expect_counting(f, set[i], 0, 0, COUNT, i);
    destroy_set(set, FIT + 1);
}

/* The arguments of one call never evict each other. If they do not all fit, the whole call
 * fails. */
static void
test_arguments_that_do_not_fit(void **state)
{
    fixture *f = *state;
    ferry_buffer *set[FIT + 1];
    ferry_scope scopes[FIT + 1];
    ferry_argument arguments[FIT + 1];
    if (f->coherent)
        skip();
    make_set(f, set, FIT + 1, NULL);
    for (int i = 0; i <= FIT; i++)
        arguments[i] =
            ferry_argument_with(ferry_buffer_argument(set[i], INT, 0, FERRY_REST), FERRY_UPDATE);
    for (int round = 0; round < 2; round++) {
        FAILS(FERRY_ERROR_OUT_OF_MEMORY,
              ferry_scope_open_all(arguments, FIT + 1, 1, f->stream, scopes, NULL));
        OK(ferry_scope_open_all(arguments + round, FIT, 1, f->stream, scopes, NULL));
        ferry_scope_close_all(scopes, FIT);
    }
    for (int i = 0; i <= FIT; i++)
        expect_counting(f, set[i], 0, 0, COUNT, i);
    destroy_set(set, FIT + 1);
}

/* A wrap's dirty replica is evicted by writing it back to the wrapped memory. Unwrapping then
 * succeeds, and the memory holds the newest bytes. */
static void
test_wrapped_memory_takes_what_is_evicted(void **state)
{
    fixture *f = *state;
    ferry_buffer *wrapped[2], *set[SET];
    static int32_t memory[2][COUNT];
    make_set(f, set, SET, NULL);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < COUNT; k++)
            memory[i][k] = k;
        OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory[i], NULL, &wrapped[i]));
        add_to(f, wrapped[i], 1, 0, COUNT, 3);
    }
    for (int i = 0; i < 2 * SET; i++)
        add_to(f, set[i % SET], 1, 0, COUNT, 1);
    for (int i = 0; i < 2; i++) {
        if (!f->coherent)
            assert_false(is_at(wrapped[i], 1));
        assert_int_equal(memory[i][COUNT - 1], COUNT + 2);
        OK(ferry_buffer_unwrap(&wrapped[i], NULL));
        assert_int_equal(memory[i][7], 10);
    }
    destroy_set(set, SET);
}

/* -- the host's memory ------------------------------------------------------------------------- */

/* Clean replicas on the host can be evicted, but dirty ones cannot. If only dirty replicas are
 * left, a request for host memory fails as out of memory. */
static void
test_host_memory_runs_short(void **state)
{
    (void)state;
    fixture f;
    ferry_buffer *set[SET];
    ferry_scope scope;
    void *pointer;
    fixture_open(&f, &(ferry_context_options){.host_bytes_limit = LIMIT});
    if (f.coherent) {
        fixture_close(&f);
        skip();
    }
    for (int i = 0; i < SET; i++) {
        set[i] = make_ints(&f, COUNT);
        write_counting(&f, set[i], 0, 0, COUNT, i);
        touch(&f, set[i], 1, FERRY_READ, 0, COUNT);
    }
    assert_int_equal(evictions(&f, 0), SET - FIT);
    STATE(set[0], DEVICE_ONLY);
    STATE(set[SET - 1], SYNCHRONIZED);
    for (int i = 0; i < SET; i++)
        expect_counting(&f, set[i], 0, 0, COUNT, i);
    for (int i = 0; i < FIT; i++)
        add_to(&f, set[i], 0, 0, COUNT, 1);
    snapshot before = take_snapshot(set[FIT]);
    FAILS(FERRY_ERROR_OUT_OF_MEMORY,
          ferry_buffer_open_host(set[FIT], INT, FERRY_READ, 0, COUNT, &scope, &pointer));
    expect_unchanged(set[FIT], &before);
    for (int i = 0; i < SET; i++) {
        if (i < FIT)
            touch(&f, set[i], 1, FERRY_READ, 0, COUNT);
        expect_counting(&f, set[i], 0, 0, COUNT, i < FIT ? i + 1 : i);
    }
    destroy_set(set, SET);
    fixture_close(&f);
}

/* Host memory that was reserved but never written is evicted before all other memory. It is evicted
 * from all places that share it. */
static void
test_reserved_host_memory_goes(void **state)
{
    (void)state;
    fixture f;
    ferry_buffer *reserved[FIT], *next;
    int left = 0;
    fixture_open(&f, &(ferry_context_options){.host_bytes_limit = LIMIT});
    for (int i = 0; i < FIT; i++) {
        reserved[i] = make_ints(&f, COUNT);
        OK(ferry_buffer_reserve(reserved[i], 0));
        assert_true(is_at(reserved[i], 0));
    }
    next = make_counting(&f, COUNT, 5);
    for (int i = 0; i < FIT; i++) {
        left += is_at(reserved[i], 0);
        STATE(reserved[i], UNINITIALIZED);
        if (f.coherent)
            assert_int_equal(is_at(reserved[i], 1) && !is_at(reserved[i], 0), false);
    }
    assert_int_equal(left, FIT - 1);
    expect_counting(&f, next, 0, 0, COUNT, 5);
    ferry_buffer_destroy(&next);
    expect_constant(&f, reserved[0], 0, 0, COUNT, 0);
    destroy_set(reserved, FIT);
    fixture_close(&f);
}

/* Blocks that the program allocated from a pool are never evicted. */
static void
test_nothing_to_evict(void **state)
{
    fixture *f = *state;
    ferry_pool *pool;
    ferry_block *block, *more = NULL;
    if (f->coherent)
        skip();
    OK(ferry_context_pool(f->context, 1, FERRY_MEMORY_DEVICE, &pool));
    OK(ferry_pool_allocate(pool, LIMIT - SPARE, f->stream, &block));
    FAILS(FERRY_ERROR_OUT_OF_MEMORY, ferry_pool_allocate(pool, BYTES, f->stream, &more));
    assert_null(more);
    OK(ferry_block_free(&block, f->stream));
    OK(ferry_pool_allocate(pool, BYTES, f->stream, &more));
    OK(ferry_block_free(&more, f->stream));
}

/* A dirty replica is not evicted if the host has no memory for its bytes. Clean replicas on the
 * host are evicted to make room for these bytes. */
static void
test_both_run_short(void **state)
{
    (void)state;
    fixture f;
    ferry_buffer *at_host[FIT], *at_device[FIT + 1];
    ferry_scope scope;
    void *pointer;
    fixture_open(&f,
                 &(ferry_context_options){.host_bytes_limit = LIMIT, .device_bytes_limit = LIMIT});
    if (f.coherent) {
        fixture_close(&f);
        skip();
    }
    for (int i = 0; i <= FIT; i++)
        at_device[i] = make_ints(&f, COUNT);
    for (int i = 0; i < FIT; i++)
        write_counting(&f, at_device[i], 1, 0, COUNT, i);
    make_set(&f, at_host, FIT, NULL);

    snapshot before = take_snapshot(at_device[0]);
    FAILS(FERRY_ERROR_OUT_OF_MEMORY,
          ferry_buffer_open_device(at_device[FIT], INT, FERRY_OVERWRITE, 0, COUNT, f.stream, &scope,
                                   &pointer));
    expect_unchanged(at_device[0], &before);
    assert_int_equal(evictions(&f, 0) + evictions(&f, 1), 0);

    ferry_buffer_destroy(&at_host[0]);
    write_counting(&f, at_device[FIT], 1, 0, COUNT, FIT);
    STATE(at_device[0], HOST_ONLY);
    /* This read makes at_device[0] current on the device, too. Its host replica can then be evicted
     * to make room on the host for the next write-back. */
    ferry_buffer_destroy(&at_device[1]);
    touch(&f, at_device[0], 1, FERRY_READ, 0, COUNT);
    write_counting(&f, at_host[1], 1, 0, COUNT, 77);
    for (int i = 0; i <= FIT; i++)
        if (i != 1)
            expect_counting(&f, at_device[i], 1, 0, COUNT, i);
    expect_counting(&f, at_host[1], 1, 0, COUNT, 77);
    destroy_set(at_host, FIT);
    destroy_set(at_device, FIT + 1);
    fixture_close(&f);
}

/* -- compaction -------------------------------------------------------------------------------- */

static ferry_pool_stats
device_pool(fixture *f, ferry_pool **out)
{
    ferry_pool_stats stats;
    OK(ferry_context_pool(f->context, 1, FERRY_MEMORY_DEVICE, out));
    OK(ferry_pool_get_stats(*out, &stats));
    return stats;
}

/* Compaction lowers the fragmentation and keeps every byte. */
static void
test_compaction_keeps_every_byte(void **state)
{
    fixture *f = *state;
    ferry_buffer *left[FIT];
    ferry_pool *pool;
    ferry_pool_compaction done;
    if (f->coherent)
        skip();
    make_sparse(f, COUNT, left, FIT);
    ferry_transfer_stats before = moved(f);
    ferry_pool_stats sparse = device_pool(f, &pool);
    OK(ferry_pool_compact(pool, &done));
    ferry_pool_stats dense = device_pool(f, &pool);
    assert_int_equal(done.freed_slabs, 2);
    assert_true(done.moved_bytes > 0 && done.moved_bytes % BYTES == 0);
    assert_int_equal(moved(f).device.bytes - before.device.bytes, done.moved_bytes);
    assert_true(sparse.fragmentation > 0 && dense.fragmentation < sparse.fragmentation);
    assert_int_equal(dense.live_bytes, sparse.live_bytes);
    for (int i = 0; i < FIT; i++) {
        STATE(left[i], DEVICE_ONLY);
        expect_counting(f, left[i], 1, 0, COUNT, 3 * i);
    }
    expect_moved(f, &before, 0, 0);
    for (int i = 0; i < FIT; i++)
        expect_counting(f, left[i], 0, 0, COUNT, 3 * i);
    destroy_set(left, FIT);
}

/* Compaction never moves a block that is pinned or in an open scope. */
static void
test_compaction_moves_nothing_in_use(void **state)
{
    fixture *f = *state;
    ferry_buffer *left[FIT];
    ferry_scope scopes[FIT];
    ferry_pool *pool;
    ferry_pool_compaction done;
    void *pointers[FIT], *again;
    if (f->coherent)
        skip();
    make_sparse(f, COUNT, left, FIT);
    for (int i = 0; i < FIT; i++)
        if (i % 2)
            OK(ferry_buffer_hold(left[i], 1, &pointers[i]));
        else
            pointers[i] =
                open_at(f, left[i], 1, i % 4 ? FERRY_READ : FERRY_UPDATE, 0, COUNT, &scopes[i]);
    OK(ferry_pool_compact((device_pool(f, &pool), pool), &done));
    assert_int_equal(done.moved_bytes, 0);
    for (int i = 0; i < FIT; i++) {
        if (i % 2 == 0)
            OK(ferry_scope_close(&scopes[i]));
        OK(ferry_buffer_hold(left[i], 1, &again));
        assert_ptr_equal(again, pointers[i]);
        OK(ferry_buffer_release(left[i], 1));
        if (i % 2)
            OK(ferry_buffer_release(left[i], 1));
    }
    OK(ferry_pool_compact(pool, &done));
    assert_int_equal(done.freed_slabs, 2);
    for (int i = 0; i < FIT; i++)
        expect_counting(f, left[i], 0, 0, COUNT, 3 * i);
    destroy_set(left, FIT);
}

/* Compaction does not copy a whole replica. It copies the bytes from the first to the last byte
 * that is current at the device. */
static void
test_compaction_of_parts(void **state)
{
    enum { FIRST = 500, GAP = 1000, SECOND = 3000 };
    fixture *f = *state;
    ferry_buffer *left[FIT];
    ferry_pool *pool;
    ferry_pool_compaction done;
    if (f->coherent)
        skip();
    make_sparse(f, COUNT, left, FIT);
    for (int i = 0; i < FIT; i++) {
        write_counting(f, left[i], 0, 0, FIRST, 77);
        write_counting(f, left[i], 0, GAP, SECOND - GAP, 77);
    }
    /* No byte of this buffer is current at the device. */
    write_counting(f, left[FIT - 1], 0, 0, COUNT, 77);
    OK(ferry_pool_compact((device_pool(f, &pool), pool), &done));
    assert_true(done.moved_bytes > 0 && done.moved_bytes % (BYTES - FIRST * sizeof(int32_t)) == 0);
    ferry_transfer_stats before = moved(f);
    for (int i = 0; i < FIT - 1; i++) {
        expect_counting(f, left[i], 1, FIRST, GAP - FIRST, 3 * i);
        expect_counting(f, left[i], 1, SECOND, COUNT - SECOND, 3 * i);
    }
    expect_moved(f, &before, 0, 0);
    expect_counting(f, left[FIT - 1], 1, 0, COUNT, 77);
    destroy_set(left, FIT);
}

/* Compaction queues copies that move replicas out of a slab. If it cannot free the slab, because a
 * pinned replica stays in it, compaction does not wait for these copies. Later uses of the moved
 * replicas must wait for the copies. */
static void
test_uses_of_moved_copies_wait(void **state)
{
    fixture *f = *state;
    ferry_buffer *left[FIT];
    ferry_pool *pool;
    ferry_pool_compaction done;
    void *pointer;
    if (f->coherent)
        skip();
    make_sparse(f, COUNT, left, FIT);
    for (int i = 0; i < FIT; i += 3)
        OK(ferry_buffer_hold(left[i], 1, &pointer));
    OK(ferry_pool_compact((device_pool(f, &pool), pool), &done));
    assert_int_equal(done.freed_slabs, 0);
    assert_true(done.moved_bytes > 0);
    for (int i = 0; i < FIT; i++)
        expect_counting(f, left[i], 1, 0, COUNT, 3 * i);
    for (int i = 0; i < FIT; i += 3)
        OK(ferry_buffer_release(left[i], 1));
    destroy_set(left, FIT);
}

/* Compaction keeps the results of kernels that still run, and of kernels that are launched
 * later. */
static void
test_compaction_beside_work(void **state)
{
    fixture *f = *state;
    ferry_buffer *left[FIT];
    ferry_pool *pool;
    work w;
    if (f->coherent)
        skip();
    work_open(f, &w);
    make_sparse(f, COUNT, left, FIT);
    (void)device_pool(f, &pool);
    work_delay(2000);
    for (int i = 0; i < FIT; i++)
        OK(launch_add(&w, f->stream, left[i], 0, COUNT, 1));
    OK(ferry_pool_compact(pool, NULL));
    for (int i = 0; i < FIT; i++)
        OK(launch_add(&w, f->stream, left[i], 0, COUNT, 1));
    work_delay(0);
    for (int i = 0; i < FIT; i++)
        expect_counting(f, left[i], 0, 0, COUNT, 3 * i + 2);
    destroy_set(left, FIT);
    work_close(&w);
}

static void
test_failing_compactions_lose_nothing(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        fixture f;
        ferry_buffer *left[FIT];
        ferry_pool *pool;
        fixture_open(&f, &(ferry_context_options){.devices = "fault"});
        make_sparse(&f, COUNT, left, FIT);
        (void)device_pool(&f, &pool);
        fault_arm(nth);
        ferry_status status = ferry_pool_compact(pool, NULL);
        bool tripped = fault_tripped();
        fault_disarm();
        assert_true(status == FERRY_OK || tripped);
        OK(ferryi_device_synchronize(device_of(&f, 1)));
        for (int i = 0; i < FIT; i++)
            expect_counting(&f, left[i], 1 - i % 2, 0, COUNT, 3 * i);
        destroy_set(left, FIT);
        fixture_close(&f);
        assert_int_equal(fault_live(), 0);
        if (!tripped)
            break;
    }
}

/* -- several devices, threads, failures -------------------------------------------------------- */

/* A replica whose bytes are current on a different device counts as clean. It is evicted without
 * transfers. */
static void
test_two_devices(void **state)
{
    fixture *f = *state;
    ferry_buffer *set[SET];
    if (f->coherent || f->places < 2)
        skip();
    for (int i = 0; i < SET; i++)
        set[i] = make_ints(f, COUNT);
    for (int i = 0; i < FIT; i++) {
        write_counting(f, set[i], 1, 0, COUNT, i);
        touch(f, set[i], 2, FERRY_READ, 0, COUNT);
    }
    ferry_transfer_stats before = moved(f);
    for (int i = FIT; i < 2 * FIT; i++)
        write_counting(f, set[i], 1, 0, COUNT, i);
    expect_moved(f, &before, 0, 0);
    assert_int_equal(evictions(f, 1), FIT);
    for (int i = 0; i < FIT; i++)
        STATE(set[i], DEVICE_ONLY);
    for (int i = 2 * FIT; i < SET; i++)
        write_counting(f, set[i], 1 + i % 2, 0, COUNT, i);
    for (int i = 0; i < SET; i++)
        expect_counting(f, set[i], 1 + i % 2, 0, COUNT, i);
    for (int i = 0; i < SET; i++)
        expect_counting(f, set[i], 0, 0, COUNT, i);
    destroy_set(set, SET);
}

enum { THREADS = 4, STEPS = 150 };

struct crowd {
    fixture f;
    work w;
    ferry_buffer *set[SET];
    _Atomic int added[SET];
    atomic_int failed;
};

struct member {
    struct crowd *crowd;
    uint64_t seed;
    pthread_t thread;
};

static void *
add_at_random(void *argument)
{
    struct member *m = argument;
    struct crowd *c = m->crowd;
    for (int step = 0; step < STEPS; step++) {
        size_t at = random_below(&m->seed, SET);
        /* Writes a new buffer on the device and destroys it, which frees a dirty replica. */
        ferry_pool *pool;
        ferry_buffer *passing;
        ferry_status status = ferry_buffer_create(c->f.context, INT, COUNT, NULL, &passing);
        if (status == FERRY_OK) {
            status = launch_fill(&c->w, c->f.stream, passing, 0, COUNT, step);
            ferry_buffer_destroy(&passing);
        }
        if (status == FERRY_OK)
            status = launch_add(&c->w, c->f.stream, c->set[at], 0, COUNT, 1);
        if (status == FERRY_OK && random_below(&m->seed, 8) == 0)
            status = ferry_buffer_sync_to(
                c->set[at], 0, COUNT, (int)random_below(&m->seed, (size_t)c->f.places + 1), NULL);
        if (status != FERRY_OK) {
            print_error("step %d: %s: %s\n", step, ferry_status_name(status), ferry_last_error());
            atomic_store(&c->failed, 1);
            break;
        }
        /* ferry_pool_compact() fails if another thread is compacting the pool, so its status is
         * ignored. */
        if (random_below(&m->seed, 16) == 0 &&
            ferry_context_pool(c->f.context, 1, FERRY_MEMORY_DEFAULT, &pool) == FERRY_OK)
            (void)!ferry_pool_compact(pool, NULL);
        atomic_fetch_add(&c->added[at], 1);
    }
    return NULL;
}

static void
test_four_threads_on_a_small_device(void **state)
{
    static struct crowd c;
    struct member members[THREADS];
    (void)state;
    memset(&c, 0, sizeof(c));
    fixture_open(&c.f, &(ferry_context_options){.device_bytes_limit = LIMIT});
    work_open(&c.f, &c.w);
    make_set(&c.f, c.set, SET, NULL);
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){.crowd = &c, .seed = 77 + (uint64_t)i};
        assert_int_equal(pthread_create(&members[i].thread, NULL, add_at_random, &members[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(members[i].thread, NULL);
    assert_int_equal(c.failed, 0);
    for (int i = 0; i < SET; i++)
        expect_counting(&c.f, c.set[i], 0, 0, COUNT, i + c.added[i]);
    destroy_set(c.set, SET);
    work_close(&c.w);
    fixture_close(&c.f);
}

/* Makes each device call of an eviction fail once. The call that needs the memory must return the
 * right status, no byte may be lost, and a second attempt must succeed. */
static void
test_failing_evictions_lose_nothing(void **state)
{
    (void)state;
    enum { CLEAN, DIRTY, NEVER_AT_HOST, STARTS };
    for (int start = CLEAN; start < STARTS; start++)
        for (uint64_t nth = 1;; nth++) {
            fixture f;
            ferry_buffer *set[FIT + 1];
            ferry_scope scope;
            void *pointer;
            fixture_open(
                &f, &(ferry_context_options){.devices = "fault",
                                             .device_bytes_limit = LIMIT,
                                             .tuning = "staging.chunk=129024" /* half a buffer */});
            for (int i = 0; i <= FIT; i++) {
                set[i] = make_ints(&f, COUNT);
                write_counting(&f, set[i], start == NEVER_AT_HOST && i < FIT, 0, COUNT, i);
            }
            for (int i = 0; i < FIT; i++)
                add_to(&f, set[i], 1, 0, COUNT, 1);
            for (int i = 0; i < FIT && start == CLEAN; i++)
                touch(&f, set[i], 0, FERRY_READ, 0, COUNT);
            fault_arm(nth);
            ferry_status status = ferry_buffer_open_device(set[FIT], INT, FERRY_UPDATE, 0, COUNT,
                                                           f.stream, &scope, &pointer);
            if (status == FERRY_OK)
                (void)ferry_scope_close(&scope);
            bool tripped = fault_tripped();
            fault_disarm();
            if (status != FERRY_OK) {
                assert_true(tripped);
                assert_true(status == FERRY_ERROR_DEVICE || status == FERRY_ERROR_OUT_OF_MEMORY);
            }
            assert_int_equal(ferry_buffer_is_current(set[FIT], 0), status != FERRY_OK);
            /* Checks that the buffer has a replica at the host if and only if its bytes are current
             * there. */
            for (int i = 0; i < FIT && start == NEVER_AT_HOST; i++)
                assert_int_equal(is_at(set[i], 0), ferry_buffer_is_current(set[i], 0));
            OK(ferryi_device_synchronize(device_of(&f, 1)));
            touch(&f, set[FIT], 1, FERRY_UPDATE, 0, COUNT);
            for (int i = 0; i <= FIT; i++)
                expect_counting(&f, set[i], 0, 0, COUNT, i < FIT ? i + 1 : i);
            destroy_set(set, FIT + 1);
            fixture_close(&f);
            assert_int_equal(fault_live(), 0);
            if (!tripped)
                break;
        }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        SMALL(test_clean_copies_go_without_traffic),
        SMALL(test_dirty_copies_are_written_back_once),
        SMALL(test_written_back_is_only_what_is_newer),
        SMALL(test_write_back_is_traced_as_eviction),
        SMALL(test_sizes_make_room_for_each_other),
        SMALL(test_clean_ones_go_first),
        SMALL(test_what_fits_goes_alone),
        SMALL(test_many_small_ones_go_for_another_size),
        SMALL(test_what_was_used_lately_is_spared),
        SMALL(test_blocks_make_copies_go),
        SMALL(test_scopes_and_pins_survive),
        SMALL(test_the_old_value_of_an_abandoned_write_stays),
        SMALL(test_kernels_that_fail_late),
        cmocka_unit_test(test_calls_under_way_are_given_a_moment),
        SMALL(test_asynchronous_calls_do_not_wait_for_themselves),
        SMALL(test_asynchronous_calls_do_not_wait_for_queued_ones),
        SMALL(test_launches_that_just_fit),
        SMALL(test_out_of_memory_when_all_is_in_use),
        SMALL(test_arguments_that_do_not_fit),
        SMALL(test_wrapped_memory_takes_what_is_evicted),
        cmocka_unit_test(test_host_memory_runs_short),
        cmocka_unit_test(test_both_run_short),
        cmocka_unit_test(test_reserved_host_memory_goes),
        SMALL(test_nothing_to_evict),
        TEST(test_compaction_keeps_every_byte),
        TEST(test_compaction_moves_nothing_in_use),
        TEST(test_compaction_of_parts),
        TEST(test_uses_of_moved_copies_wait),
        TEST(test_compaction_beside_work),
        cmocka_unit_test(test_failing_compactions_lose_nothing),
        SMALL(test_two_devices),
        cmocka_unit_test(test_four_threads_on_a_small_device),
        cmocka_unit_test(test_failing_evictions_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
