/* SPDX-License-Identifier: MIT */
/* Tests allocations and device calls that fail in the middle of calls on buffers. */
#include "tests/buffer/meeting.h"

#include "src/buffer/buffer.h"
#include "tests/support/copies.h"

enum { COUNT = 1000 };

static ferry_status
refuse(const char *slot, void *user)
{
    (void)slot, (void)user;
    return FERRY_ERROR_DEVICE;
}

static void
settle(fixture *f)
{
    fault_hook(NULL, NULL);
    OK(ferryi_device_synchronize(device_of(f, 1)));
}

/* -- memory for the map ------------------------------------------------------------------------ */

enum { WRITERS = 200 };

/* Opens OVERWRITE scopes on one stream. Each scope covers a single element, and together they cover
 * every second element. While they are open, a READ scope on the same stream may read their new
 * values. */
static void
open_writers(fixture *f, ferry_buffer *buffer, ferry_scope *scopes)
{
    for (size_t i = 0; i < WRITERS; i++)
        queue_fill(f, f->stream, open_on(buffer, f->stream, FERRY_OVERWRITE, 2 * i, 1, &scopes[i]),
                   -1, 1);
}

static void
expect_written(ferry_buffer *buffer)
{
    int expected[COUNT];
    for (int i = 0; i < COUNT; i++)
        expected[i] = i < 2 * WRITERS && i % 2 == 0 ? -1 : i;
    expect_ints(buffer, expected, 0, COUNT);
}

/* Opens a READ scope that reads the values of many open OVERWRITE scopes. Each of these scopes
 * splits the valid map. So the READ scope needs more map memory than they have reserved. It either
 * allocates this memory or fails with FERRY_ERROR_OUT_OF_MEMORY. A second try must succeed. */
static void
test_a_reader_relies_on_many_writers(void **state)
{
    fixture *f = *state;
    bool tripped = true;
    unsigned failures = 0;
    for (uint64_t nth = 1; tripped; nth++) {
        ferry_scope scopes[WRITERS + 1];
        void *memory;
        ferry_buffer *buffer = make_counting(f, COUNT, 0);
        touch(f, buffer, 1, FERRY_READ, 0, COUNT);
        open_writers(f, buffer, scopes);
        short_memory_arm(nth);
        ferry_status status = ferry_buffer_open_device(buffer, INT, FERRY_READ, 0, COUNT, f->stream,
                                                       &scopes[WRITERS], &memory);
        tripped = short_memory_tripped();
        short_memory_disarm();
        if (status != FERRY_OK) {
            assert_int_equal(status, FERRY_ERROR_OUT_OF_MEMORY);
            failures++;
            OK(ferry_buffer_open_device(buffer, INT, FERRY_READ, 0, COUNT, f->stream,
                                        &scopes[WRITERS], &memory));
        }
        int seen[COUNT];
        device_read(f, 1, seen, memory, sizeof(seen));
        ferry_scope_close_all(scopes, WRITERS + 1);
        expect_written(buffer);
        expect_ints(buffer, seen, 0, COUNT);
        DESTROY_BUFFERS(&buffer);
    }
    assert_true(failures > 0);
}

/* An UPDATE reserves memory for the valid map twice: once for the bytes that it fetches, and once
 * for its write. If the second reservation fails, the first one is undone. A failed resize keeps no
 * reservation either. */
static void
test_half_a_reservation_is_given_back(void **state)
{
    fixture *f = *state;
    unsigned failures = 0;
    for (size_t parts = 0; parts < 5 * CROWDED; parts++) {
        ferry_buffer *buffer = make_counting(f, COUNT, 0);
        ferry_scope scope;
        void *memory;
        touch(f, buffer, 1, FERRY_UPDATE, 0, COUNT);
        for (size_t i = 0; i < parts; i++)
            write_counting(f, buffer, 0, 4 * i, 1, 0);
        uint32_t reserved = buffer->store->map.reserved;
        short_memory_arm_for_good(1);
        ferry_status status =
            ferry_buffer_open_host(buffer, INT, FERRY_UPDATE, 0, COUNT, &scope, &memory);
        short_memory_disarm();
        if (status == FERRY_OK) {
            OK(ferry_scope_close(&scope));
        } else {
            assert_int_equal(status, FERRY_ERROR_OUT_OF_MEMORY);
            failures++;
        }
        assert_int_equal(buffer->store->map.reserved, reserved);
        assert_int_equal(buffer->store->claim_count, 0);
        short_memory_arm_for_good(1);
        status = ferry_buffer_resize(buffer, 2 * COUNT);
        short_memory_disarm();
        assert_int_equal(status, FERRY_ERROR_OUT_OF_MEMORY);
        assert_int_equal(ferry_buffer_count(buffer), COUNT);
        assert_int_equal(buffer->store->map.reserved, reserved);
        expect_counting(f, buffer, 0, 0, COUNT, 0);
        DESTROY_BUFFERS(&buffer);
    }
    assert_true(failures > 0);
}

/* -- memory that runs short -------------------------------------------------------------------- */

/* To evict a replica, Ferry locks its buffer with an entry in the buffer's table of claims. Four
 * open scopes fill this table. Eviction never enlarges it, so it must skip the buffer. */
static void
test_full_tables_are_passed_over(void **state)
{
    fixture *f = *state;
    ferry_buffer *dirty = make_dirty(f, FIT), *other = make_ints(f, BLOCK_COUNT);
    ferry_scope scopes[4], scope;
    void *memory;
    for (size_t i = 0; i < 4; i++)
        OK(ferry_buffer_open_host(dirty, INT, FERRY_READ, i, 1, &scopes[i], &memory));
    assert_int_equal(dirty->store->claim_count, dirty->store->claim_capacity);
    FAILS(FERRY_ERROR_OUT_OF_MEMORY,
          ferry_buffer_open_device(other, INT, FERRY_UPDATE, 0, FERRY_REST, f->stream, &scope,
                                   &memory));
    OK(ferry_scope_close(&scopes[0]));
    touch(f, other, 1, FERRY_UPDATE, 0, FERRY_REST);
    ferry_scope_close_all(scopes, 4);
    expect_counting(f, dirty, 0, 0, FERRY_REST, 3);
    DESTROY_BUFFERS(&dirty, &other);
}

/* Checks that eviction skips a buffer that has no handle left and is kept alive only by its open
 * scopes. */
static void
test_ended_buffers_are_passed_over(void **state)
{
    fixture *f = *state;
    ferry_buffer *ended = make_dirty(f, FIT), *other = make_ints(f, BLOCK_COUNT);
    ferry_scope scope, second;
    void *memory, *unused;
    OK(ferry_buffer_open_host(ended, INT, FERRY_READ, 0, COUNT, &scope, &memory));
    DESTROY_BUFFERS(&ended);
    fixture_expect_log(f, "1 scopes are open");
    FAILS(FERRY_ERROR_OUT_OF_MEMORY,
          ferry_buffer_open_device(other, INT, FERRY_UPDATE, 0, FERRY_REST, f->stream, &second,
                                   &unused));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(((int *)memory)[i], i + 3);
    OK(ferry_scope_close(&scope));
    touch(f, other, 1, FERRY_UPDATE, 0, FERRY_REST);
    DESTROY_BUFFERS(&other);
}

/* Makes allocation number `nth` fail while a dirty replica of `parts` segments is evicted. Returns
 * false if fewer than `nth` allocations were made. */
static bool
fail_to_write_back(fixture *f, size_t parts, uint64_t nth)
{
    ferry_buffer *dirty = make_dirty(f, FIT);
    ferry_block *block = NULL;
    for (size_t i = 0; i < parts; i++)
        write_counting(f, dirty, 0, 3 * i, 1, 3);
    short_memory_arm(nth);
    ferry_status status = ferry_pool_allocate(device_pool(f), BLOCK, NULL, &block);
    bool tripped = short_memory_tripped();
    short_memory_disarm();
    if (status != FERRY_OK)
        assert_int_equal(status, FERRY_ERROR_OUT_OF_MEMORY);
    if (block)
        OK(ferry_block_free(&block, NULL));
    assert_int_equal(dirty->store->claim_count, 0);
    assert_int_equal(dirty->store->map.reserved, 0);
    expect_counting(f, dirty, 0, 0, FERRY_REST, 3);
    DESTROY_BUFFERS(&dirty);
    return tripped;
}

/* Evicting a dirty replica may have to allocate memory for the valid map. If this allocation fails,
 * the eviction must change nothing. */
static void
test_no_memory_to_write_back(void **state)
{
    for (size_t parts = CROWDED - 4; parts < CROWDED + 4; parts++)
        for (uint64_t nth = 1; fail_to_write_back(*state, parts, nth);)
            nth++;
}

/* Makes allocation number `nth` fail while a scope is opened that first sets its range to zero. A
 * stream without a number has to wait for the zeros, and the old values are gone by then. */
static bool
fail_to_scrub(fixture *f, ferry_stream *stream, uint64_t nth, unsigned *failures)
{
    ferry_buffer *buffer;
    ferry_scope scope;
    void *memory;
    OK(ferry_buffer_create(f->context, INT, COUNT, &(ferry_buffer_options){.scrub = true},
                           &buffer));
    write_counting(f, buffer, 1, 0, COUNT, 3);
    touch(f, buffer, 1, FERRY_READ, 0, COUNT);
    short_memory_arm(nth);
    ferry_status status =
        ferry_buffer_open_device(buffer, INT, FERRY_OVERWRITE, 0, COUNT, stream, &scope, &memory);
    bool tripped = short_memory_tripped();
    short_memory_disarm();
    if (status == FERRY_OK) {
        OK(ferry_scope_close(&scope));
        fill_on(f, buffer, stream, 0, COUNT, 0);
    } else {
        ++*failures;
        expect_counting(f, buffer, 0, 0, COUNT, 3);
    }
    DESTROY_BUFFERS(&buffer);
    return tripped;
}

static void
test_no_memory_to_scrub(void **state)
{
    fixture *f = *state;
    ferry_stream *streams[STREAM_CROWD];
    make_crowd(f, streams);
    unsigned failures = 0;
    for (int i = 0; i < 2; i++)
        for (uint64_t nth = 1; fail_to_scrub(f, streams[i ? STREAM_CROWD - 1 : 0], nth, &failures);)
            nth++;
    assert_true(failures > 0);
    destroy_crowd(streams);
}

/* Makes allocation number `nth` fail while a list of `count` copies to `stores` buffers runs. */
static bool
fail_to_list(fixture *f, size_t count, size_t stores, uint64_t nth)
{
    enum { MOST = 500 };
    static const int seven = 7;
    ferry_buffer *buffers[MOST];
    copy_list *list;
    assert_in_range(stores, 1, MOST);
    OK(copy_list_create(&list));
    for (size_t i = 0; i < stores; i++)
        buffers[i] = make_counting(f, 2 * count, 3);
    for (size_t i = 0; i < count; i++)
        OK(copy_list_from(list, buffers[i % stores], INT, 2 * i, &seven, 1));
    short_memory_arm(nth);
    ferry_status status = copy_list_submit(list, NULL);
    bool tripped = short_memory_tripped();
    short_memory_disarm();
    copy_list_destroy(&list);
    if (status != FERRY_OK)
        assert_int_equal(status, FERRY_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < stores; i++) {
        assert_int_equal(buffers[i]->store->claim_count, 0);
        assert_int_equal(buffers[i]->store->map.reserved, 0);
        expect_constant(f, buffers[i], 0, 2 * i, 1, status == FERRY_OK ? seven : 3 + 2 * (int)i);
        ferry_buffer_destroy(&buffers[i]);
    }
    return tripped;
}

/* A list of copies needs memory for its ranges, their order and their parts, and changes nothing if
 * it gets none. Each size of a list has its arrays in other blocks of the arena. */
static void
test_no_memory_for_a_list(void **state)
{
    for (size_t count = 2; count < 4000; count = 3 * count / 2 + 1)
        for (uint64_t nth = 1; fail_to_list(*state, count, 2, nth);)
            nth++;
    for (size_t count = 20; count < 500; count += 40)
        for (uint64_t nth = 1; fail_to_list(*state, count, count, nth);)
            nth++;
}

static bool
see(const ferry_buffer_info *info, void *user)
{
    size_t *count = user;
    (void)info;
    ++*count;
    return true;
}

/* Both ferry_context_for_each_buffer() and ferry_context_describe() allocate memory. If an
 * allocation fails, the call must fail and report no buffer. */
static void
test_no_memory_to_walk_over_buffers(void **state)
{
    fixture *f = *state;
    ferry_buffer *buffer = make_ints(f, COUNT);
    size_t seen = 0, length = ferry_context_describe(f->context, NULL, 0);
    char text[8] = "before";
    for (uint64_t nth = 1; nth <= 2; nth++) {
        short_memory_arm(nth);
        FAILS(FERRY_ERROR_OUT_OF_MEMORY, ferry_context_for_each_buffer(f->context, see, &seen));
        assert_int_equal(seen, 0);
        short_memory_arm(nth);
        assert_int_equal(ferry_context_describe(f->context, text, sizeof(text)), 0);
        assert_string_equal(text, "");
    }
    short_memory_disarm();
    OK(ferry_context_for_each_buffer(f->context, see, &seen));
    assert_int_equal(seen, 1);
    assert_int_equal(ferry_context_describe(f->context, NULL, 0), length);
    DESTROY_BUFFERS(&buffer);
}

static ferry_status
refuse_memory(const char *slot, void *user)
{
    unsigned *refused = user;
    if (strcmp(slot, "memory_alloc") != 0)
        return FERRY_OK;
    ++*refused;
    return FERRY_ERROR_OUT_OF_MEMORY;
}

/* Managed memory is never evicted to make room for other buffers, because the driver migrates
 * it. */
static void
test_managed_memory_is_not_evicted(void **state)
{
    fixture *f = *state;
    const ferry_buffer_options managed = {.memory = FERRY_MEMORY_MANAGED};
    ferry_buffer *first, *second;
    ferry_scope scope;
    void *memory, *before, *after;
    unsigned refused = 0;
    OK(ferry_buffer_create(f->context, INT, 4 << 20, &managed, &first));
    OK(ferry_buffer_create(f->context, INT, 4 << 20, &managed, &second));
    write_counting(f, first, 1, 0, FERRY_REST, 3);
    OK(ferry_buffer_hold(first, 0, &before));
    OK(ferry_buffer_release(first, 0));
    fault_hook(refuse_memory, &refused);
    FAILS(FERRY_ERROR_OUT_OF_MEMORY,
          ferry_buffer_open_host(second, INT, FERRY_OVERWRITE, 0, FERRY_REST, &scope, &memory));
    assert_true(refused > 0);
    fault_hook(NULL, NULL);
    OK(ferry_buffer_hold(first, 0, &after));
    assert_ptr_equal(before, after);
    OK(ferry_buffer_release(first, 0));
    expect_counting(f, first, 0, 0, FERRY_REST, 3);
    DESTROY_BUFFERS(&first, &second);
}

/* -- devices that refuse ----------------------------------------------------------------------- */

/* Two streams write one buffer, so Ferry makes one of the streams wait for the other one. The test
 * makes this wait fail. Closing the two scopes must then log the error and succeed. */
static void
test_writes_that_cannot_be_ordered(void **state)
{
    fixture *f = *state;
    ferry_buffer *buffer = make_ints(f, COUNT);
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, 1);
    ferry_scope scopes[2];
    queue_fill(f, a, open_on(buffer, a, FERRY_OVERWRITE, 0, COUNT / 2, &scopes[0]), 1, COUNT / 2);
    queue_fill(f, b, open_on(buffer, b, FERRY_OVERWRITE, COUNT / 2, COUNT / 2, &scopes[1]), 2,
               COUNT / 2);
    fault_hook(refuse, NULL);
    OK(ferry_scope_close(&scopes[0]));
    OK(ferry_scope_close(&scopes[1]));
    settle(f);
    fixture_expect_log(f, "order writes of buffer");
    expect_constant(f, buffer, 0, 0, COUNT / 2, 1);
    expect_constant(f, buffer, 0, COUNT / 2, COUNT / 2, 2);
    DESTROY_STREAMS(&a, &b);
    DESTROY_BUFFERS(&buffer);
}

/* Ferry returns wrapped device memory to its owner even if the driver cannot report whether all
 * uses of the memory have ended. The driver's error is logged. */
static void
test_wraps_that_cannot_be_waited_for(void **state)
{
    fixture *f = *state;
    work w;
    ferry_buffer *lent;
    ferry_stream *stream = make_stream(f, 1);
    work_open(f, &w);
    void *memory = device_alloc(f, 1, COUNT * sizeof(int));
    OK(ferry_buffer_wrap_device(f->context, INT, COUNT, NULL, memory,
                                &(ferry_wrap_options){.name = "lent"}, &lent));
    OK(launch_fill(&w, stream, lent, 0, COUNT, 4));
    fault_hook(refuse, NULL);
    ferry_buffer_destroy(&lent);
    settle(f);
    fixture_expect_log(f, "end the wrap of buffer \"lent\": synchronize");
    int values[COUNT];
    device_read(f, 1, values, memory, sizeof(values));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(values[i], 4);
    device_free(f, 1, memory);
    DESTROY_STREAMS(&stream);
    work_close(&w);
}

static ferry_status
refuse_more_memory(const char *slot, void *user)
{
    (void)user;
    return strcmp(slot, "memory_alloc") == 0 ? FERRY_ERROR_DEVICE : FERRY_OK;
}

/* A device copies overlapping ranges of a buffer through intermediate memory. If that memory cannot
 * be allocated, the call fails and changes nothing. */
static void
test_no_way_between(void **state)
{
    fixture *f = *state;
    enum { LARGE = 3 << 20 };
    ferry_buffer *buffer = make_ints(f, LARGE);
    write_counting(f, buffer, 1, 0, LARGE, 0);
    fault_hook(refuse_more_memory, NULL);
    FAILS(FERRY_ERROR_DEVICE, ferry_buffer_copy(buffer, INT, 1, buffer, 0, LARGE - 1, NULL));
    fault_hook(NULL, NULL);
    expect_counting(f, buffer, 1, 0, LARGE, 0);
    OK(ferry_buffer_copy(buffer, INT, 1, buffer, 0, LARGE - 1, NULL));
    expect_counting(f, buffer, 0, 1, LARGE - 1, -1);
    DESTROY_BUFFERS(&buffer);
}

/* Ferry tracks uses of memory by stream numbers, and a context has only 62 of them. Closing a scope
 * on a stream without a number calls the driver. If this driver call fails, the error must be
 * logged. */
static void
test_a_refused_close_is_logged(void **state)
{
    fixture *f = *state;
    ferry_buffer *buffer = make_ints(f, COUNT);
    ferry_stream *streams[STREAM_CROWD];
    ferry_scope scope;
    make_crowd(f, streams);
    queue_fill(f, streams[STREAM_CROWD - 1],
               open_on(buffer, streams[STREAM_CROWD - 1], FERRY_OVERWRITE, 0, COUNT, &scope), 6,
               COUNT);
    fault_hook(refuse, NULL);
    ferry_scope_close_all(&scope, 1);
    settle(f);
    fixture_expect_log(f, "close scope 0 of 1");
    assert_int_equal(buffer->store->claim_count, 0);
    expect_constant(f, buffer, 0, 0, COUNT, 6);
    destroy_crowd(streams);
    DESTROY_BUFFERS(&buffer);
}

static ferry_status
refuse_events(const char *slot, void *user)
{
    (void)user;
    return strncmp(slot, "event_", 6) == 0 ? FERRY_ERROR_DEVICE : FERRY_OK;
}

/* A context has only 62 stream numbers, so some streams have none. The test destroys a stream
 * without a number while a scope on it is open. Ferry then records an event on the stream. If no
 * event can be created, Ferry waits for the stream's work instead. The host must read the right
 * bytes in both cases. */
static void
test_scopes_outlive_a_stream_without_a_number(void **state)
{
    fixture *f = *state;
    for (int refused = 0; refused < 2; refused++) {
        ferry_buffer *buffer = make_counting(f, COUNT, 0);
        ferry_stream *streams[STREAM_CROWD];
        ferry_scope scope;
        touch(f, buffer, 1, FERRY_READ, 0, COUNT);
        make_crowd(f, streams);
        queue_fill(f, streams[STREAM_CROWD - 1],
                   open_on(buffer, streams[STREAM_CROWD - 1], FERRY_OVERWRITE, 0, COUNT, &scope), 6,
                   COUNT);
        fault_hook(refused ? refuse_events : NULL, NULL);
        ferry_stream_destroy(&streams[STREAM_CROWD - 1]);
        fault_hook(NULL, NULL);
        OK(ferry_scope_close(&scope));
        expect_constant(f, buffer, 0, 0, COUNT, 6);
        destroy_crowd(streams);
        DESTROY_BUFFERS(&buffer);
    }
}

/* A context has only 62 stream numbers. If a stream without a number is destroyed, a new stream may
 * reuse its timeline at once. Ferry must still treat the two as different streams. While a scope of
 * the destroyed stream is open, a conflicting scope on the new stream must fail with
 * FERRY_ERROR_BUSY. */
static void
test_a_reused_timeline_belongs_to_a_new_stream(void **state)
{
    fixture *f = *state;
    ferry_buffer *buffer = make_counting(f, COUNT, 0);
    ferry_stream *streams[STREAM_CROWD];
    ferry_scope scope, other;
    void *memory;
    make_crowd(f, streams);
    ferry_stream **last = &streams[STREAM_CROWD - 1];
    const ferryi_timeline *timeline = ferryi_stream_timeline(*last);
    queue_fill(f, *last, open_on(buffer, *last, FERRY_OVERWRITE, 0, COUNT, &scope), 6, COUNT);
    ferry_stream_destroy(last);
    *last = make_stream(f, 1);
    assert_ptr_equal(ferryi_stream_timeline(*last), timeline);
    FAILS(FERRY_ERROR_BUSY,
          ferry_buffer_open_device(buffer, INT, FERRY_UPDATE, 0, COUNT, *last, &other, &memory));
    OK(ferry_scope_close(&scope));
    queue_fill(f, *last, open_on(buffer, *last, FERRY_OVERWRITE, 0, COUNT / 2, &scope), 7,
               COUNT / 2);
    OK(ferry_scope_close(&scope));
    expect_constant(f, buffer, 0, 0, COUNT / 2, 7);
    expect_constant(f, buffer, 0, COUNT / 2, COUNT - COUNT / 2, 6);
    destroy_crowd(streams);
    DESTROY_BUFFERS(&buffer);
}

/* If the last use of a block cannot be recorded as an event, freeing the block waits for that use.
 * So the use has ended when the block is reused. */
static void
test_blocks_whose_use_cannot_be_noted(void **state)
{
    fixture *f = *state;
    ferry_stream *streams[STREAM_CROWD];
    ferry_block *block;
    int value = 3;
    make_crowd(f, streams);
    OK(ferry_pool_allocate(device_pool(f), 4096, streams[STREAM_CROWD - 1], &block));
    void *memory = ferry_block_pointer(block);
    device_write(f, 1, memory, &value, sizeof(value));
    OK(ferry_stream_synchronize(f->stream));
    queue_fill(f, streams[STREAM_CROWD - 1], memory, 6, 1);
    fault_hook(refuse_events, NULL);
    OK(ferry_block_free(&block, streams[STREAM_CROWD - 1]));
    fault_hook(NULL, NULL);
    assert_null(block);
    OK(ferry_pool_allocate(device_pool(f), 4096, NULL, &block));
    assert_ptr_equal(ferry_block_pointer(block), memory);
    device_read(f, 1, &value, memory, sizeof(value));
    assert_int_equal(value, 6);
    OK(ferry_block_free(&block, NULL));
    destroy_crowd(streams);
}

static void
test_streams_outlive_their_context(void **state)
{
    fixture f;
    ferry_stream *streams[STREAM_CROWD];
    (void)state;
    fixture_open(&f, &(ferry_context_options){.devices = "fault"});
    make_crowd(&f, streams);
    fixture_close(&f);
    for (int i = 0; i < STREAM_CROWD; i++) {
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_stream_synchronize(streams[i]));
        assert_int_equal(ferry_stream_place(streams[i]), -1);
        ferry_stream_destroy(&streams[i]);
    }
}

static ferry_status
refuse_to_unlock(const char *slot, void *user)
{
    (void)user;
    return strcmp(slot, "host_unregister") == 0 ? FERRY_ERROR_DEVICE : FERRY_OK;
}

/* If the driver fails to unregister host memory, ferry_context_unregister_host() must return the
 * error. A second call for the same memory must fail, because Ferry no longer lists the memory as
 * registered. */
static void
test_memory_that_stays_locked(void **state)
{
    fixture *f = *state;
    ferryi_device *device = device_of(f, 1);
    size_t bytes = ferryi_page_bytes();
    void *memory = aligned_alloc(bytes, bytes);
    assert_non_null(memory);
    OK(ferry_context_register_host(f->context, memory, bytes));
    fault_include_releases(true);
    fault_hook(refuse_to_unlock, NULL);
    FAILS(FERRY_ERROR_DEVICE, ferry_context_unregister_host(f->context, memory));
    assert_non_null(strstr(ferry_last_error(), "unregister host memory at"));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_unregister_host(f->context, memory));
    fault_hook(NULL, NULL);
    fault_include_releases(false);
    OK(device->ops->host_unregister(device, memory));
    OK(ferry_context_register_host(f->context, memory, bytes));
    OK(ferry_context_unregister_host(f->context, memory));
    free(memory);
}

/* Makes one copy report that the device is lost. All other calls to the device work normally. */
static ferry_status
lose_one_copy(const char *slot, void *user)
{
    (void)user;
    if (strncmp(slot, "copy_", 5) != 0)
        return FERRY_OK;
    fault_hook(NULL, NULL);
    return FERRY_ERROR_DEVICE_LOST;
}

static void
submit_lost(copy_list *batch)
{
    fault_hook(lose_one_copy, NULL);
    FAILS(FERRY_ERROR_DEVICE_LOST, copy_list_submit(batch, NULL));
    fault_hook(NULL, NULL);
}

/* If a transfer reports that the device is lost, all bytes of the device's replica count as lost.
 * The replica may be the source or the target of the transfer. */
static void
test_a_loss_is_believed(void **state)
{
    fixture *f = *state;
    static int values[BLOCK_COUNT];
    for (int up = 0; up < 2; up++) {
        ferry_buffer *buffer = make_dirty(f, 1);
        copy_list *batch;
        OK(copy_list_create(&batch));
        if (up)
            OK(copy_list_from(batch, buffer, INT, 0, values, BLOCK_COUNT / 2));
        else
            OK(copy_list_to(batch, buffer, INT, 0, values, BLOCK_COUNT / 2));
        submit_lost(batch);
        copy_list_destroy(&batch);
        FAILS(FERRY_ERROR_DEVICE_LOST,
              ferry_buffer_copy_to(buffer, INT, BLOCK_COUNT / 2, 1, values, NULL));
        write_counting(f, buffer, 0, 0, FERRY_REST, 9);
        expect_counting(f, buffer, 1, 0, FERRY_REST, 9);
        DESTROY_BUFFERS(&buffer);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TIGHT(test_a_reader_relies_on_many_writers),
        TIGHT(test_half_a_reservation_is_given_back),
        TIGHT(test_full_tables_are_passed_over),
        TIGHT(test_ended_buffers_are_passed_over),
        TIGHT(test_no_memory_to_write_back),
        ROOMY(test_no_memory_to_scrub),
        ROOMY(test_no_memory_for_a_list),
        TIGHT(test_no_memory_to_walk_over_buffers),
        ROOMY(test_managed_memory_is_not_evicted),
        TIGHT(test_writes_that_cannot_be_ordered),
        TIGHT(test_wraps_that_cannot_be_waited_for),
        ROOMY(test_no_way_between),
        TIGHT(test_a_refused_close_is_logged),
        LAZY(test_scopes_outlive_a_stream_without_a_number),
        LAZY(test_a_reused_timeline_belongs_to_a_new_stream),
        LAZY(test_blocks_whose_use_cannot_be_noted),
        TIGHT(test_streams_outlive_their_context),
        ROOMY(test_memory_that_stays_locked),
        ROOMY(test_a_loss_is_believed),
    };
    return cmocka_run_group_tests_name("refusals", tests, NULL, NULL);
}
