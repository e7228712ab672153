/* SPDX-License-Identifier: MIT */
/* Tests buffers whose device memory is in a pool that maps handles: a resize copies nothing where
 * the memory behind the replica is free. */
#include "tests/buffer/support.h"

#include <stdlib.h>

#include "src/pool/slab.h"
#include "src/store/store.h"

enum { COUNT = 1 << 20, MORE = 3 << 20 };

static int
setup(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    fixture_open(f, &(ferry_context_options){.tuning = "device.handle=1M"});
    *state = f;
    return 0;
}

/* Under a memory checker and in a checked run, no block becomes longer in place. */
static bool
grows(const fixture *f)
{
    ferry_pool *pool;
    OK(ferry_context_pool(f->context, 1, FERRY_MEMORY_DEFAULT, &pool));
    return !f->coherent && pool->range && !pool->has_checker && !f->context->debug;
}

static const void *
device_address(ferry_buffer *buffer)
{
    ferryi_store *store = buffer->store;
    ferryi_store_lock(store);
    const void *address = store->copies[1].pointer;
    ferryi_store_unlock(store);
    return address;
}

/* Makes a buffer whose bytes are current at the device alone. */
static ferry_buffer *
make_there(fixture *f, size_t count)
{
    ferry_buffer *buffer = make_ints(f, count);
    write_counting(f, buffer, 1, 0, count, 5);
    return buffer;
}

static void
test_a_resize_copies_nothing(void **state)
{
    fixture *f = *state;
    if (!grows(f))
        skip();
    ferry_buffer *buffer = make_there(f, COUNT);
    const void *address = device_address(buffer);
    ferry_transfer_stats before = moved(f);
    OK(ferry_buffer_resize(buffer, MORE));
    assert_int_equal(moved(f).device.bytes, before.device.bytes);
    expect_moved(f, &before, 0, 0);
    assert_ptr_equal(device_address(buffer), address);
    expect_counting(f, buffer, 1, 0, COUNT, 5);
    write_counting(f, buffer, 1, COUNT, MORE - COUNT, 9);
    expect_counting(f, buffer, 0, 0, COUNT, 5);
    expect_counting(f, buffer, 0, COUNT, MORE - COUNT, 9);
    /* Shrinking keeps the memory, so growing again finds it. */
    OK(ferry_buffer_resize(buffer, 16));
    OK(ferry_buffer_resize(buffer, MORE));
    assert_ptr_equal(device_address(buffer), address);
    expect_counting(f, buffer, 1, 0, 16, 5);
    ferry_buffer_destroy(&buffer);
}

/* Another buffer is behind the replica, which is copied as in any other pool. */
static void
test_a_buffer_in_the_way(void **state)
{
    fixture *f = *state;
    if (!grows(f))
        skip();
    ferry_buffer *buffer = make_there(f, COUNT), *behind = make_there(f, COUNT);
    const void *address = device_address(buffer);
    OK(ferry_buffer_resize(buffer, MORE));
    assert_ptr_not_equal(device_address(buffer), address);
    expect_counting(f, buffer, 1, 0, COUNT, 5);
    expect_counting(f, behind, 1, 0, COUNT, 5);
    ferry_buffer_destroy(&behind);
    ferry_buffer_destroy(&buffer);
}

/* A replica that is also current at the host is copied there, and stays in place at the device. */
static void
test_the_host_has_a_replica_too(void **state)
{
    fixture *f = *state;
    if (!grows(f))
        skip();
    ferry_buffer *buffer = make_there(f, COUNT);
    expect_counting(f, buffer, 0, 0, COUNT, 5);
    const void *address = device_address(buffer);
    ferry_transfer_stats before = moved(f);
    OK(ferry_buffer_resize(buffer, MORE));
    expect_moved(f, &before, 0, 0);
    assert_ptr_equal(device_address(buffer), address);
    before = moved(f);
    expect_counting(f, buffer, 0, 0, COUNT, 5);
    expect_counting(f, buffer, 1, 0, COUNT, 5);
    expect_moved(f, &before, 0, 0);
    ferry_buffer_destroy(&buffer);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_resize_copies_nothing, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_buffer_in_the_way, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_the_host_has_a_replica_too, setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
