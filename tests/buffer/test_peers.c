/* SPDX-License-Identifier: MIT */
/* Tests transfers between three devices, with and without peer access. A buffer may be current on
 * any set of the devices, and Ferry must choose the cheapest source for each transfer. */
#include "tests/buffer/support.h"

#include <stdio.h>

#include "tests/support/copies.h"
#include "tests/support/fakecuda.h"
#include "tests/support/fault.h"

enum { COUNT = 3000, BYTES = COUNT * 4 };

/* Opens a fixture with three devices of one kind. The staging chunks are small, so that a staged
 * copy takes several chunks. */
static void
open_three(fixture *f, const char *devices, bool without_peers)
{
    ferry_context_options options = {
        .devices = devices,
        .tuning = without_peers ? "staging.chunk=4K staging.chunks=2 emulated.peers=no"
                                : "staging.chunk=4K staging.chunks=2"};
    fixture_open(f, &options);
    assert_int_equal(f->places, 3);
    for (int place = 1; place <= 3; place++) {
        ferry_place_info info;
        OK(ferry_context_get_place_info(f->context, place, &info));
        assert_int_equal(!(info.capabilities & FERRY_CAN_PEER), without_peers);
    }
}

struct counts {
    uint64_t upload, download, peer, device;
};

static struct counts
since(fixture *f, const ferry_transfer_stats *before)
{
    ferry_transfer_stats now = moved(f);
    return (struct counts){
        now.upload.bytes - before->upload.bytes, now.download.bytes - before->download.bytes,
        now.peer.bytes - before->peer.bytes, now.device.bytes - before->device.bytes};
}

#define EXPECT_COUNTS(f, before, up, down, between)                                                \
    do {                                                                                           \
        struct counts counts_ = since((f), (before));                                              \
        assert_int_equal(counts_.upload, (up));                                                    \
        assert_int_equal(counts_.download, (down));                                                \
        assert_int_equal(counts_.peer, (between));                                                 \
    } while (0)

static const struct {
    const char *devices;
    bool without_peers;
} worlds[] = {{"emulated:3", false},
              {"emulated:3", true},
              {"lazy:3", false},
              {"lazy:3", true},
              {"cuda:0,cuda:1,cuda:2", false}};

/* Returns whether the CUDA driver is fakecuda, and fakecuda is set up with at least three devices.
 */
static bool
has_three_cuda_devices(struct fakecuda *out)
{
    const char *devices = getenv("FAKECUDA_DEVICES");
    bool has = devices && atoi(devices) >= 3 && fakecuda_find_driver(out);
    if (!has)
        print_message("# not over three CUDA devices: the driver is no fakecuda that has them\n");
    return has;
}

static void
for_each_world(void (*test)(fixture *f, bool without_peers))
{
    for (size_t i = 0; i < LENGTH(worlds); i++) {
        fixture f;
        struct fakecuda fake;
        if (strncmp(worlds[i].devices, "cuda", 4) == 0 && !has_three_cuda_devices(&fake))
            continue;
        open_three(&f, worlds[i].devices, worlds[i].without_peers);
        test(&f, worlds[i].without_peers);
        fixture_close(&f);
    }
}

/* Tests a copy between each pair of devices. With peer access the copy must be direct, and without
 * peer access it must pass through a staging ring of the host. */
static void
check_ways(fixture *f, bool without_peers)
{
    for (int from = 1; from <= 3; from++) {
        for (int to = 1; to <= 3; to++) {
            if (from == to)
                continue;
            ferry_buffer *b = make_ints(f, COUNT);
            write_counting(f, b, from, 0, FERRY_REST, from);
            ferry_transfer_stats before = moved(f);
            touch(f, b, to, FERRY_READ, 0, FERRY_REST);
            EXPECT_COUNTS(f, &before, 0, 0, BYTES);
            assert_int_equal(f->trace.direction, FERRY_DIRECTION_PEER);
            assert_int_equal(f->trace.staged, without_peers);
            assert_int_equal(f->trace.source_place, from);
            assert_int_equal(f->trace.target_place, to);
            expect_counting(f, b, to, 0, FERRY_REST, from);
            assert_false(
                ferry_buffer_is_current(b, 0)); /* the bytes did not become current at the host */
            ferry_buffer_destroy(&b);
        }
    }
}

static void
test_the_way_between_devices(void **state)
{
    (void)state;
    for_each_world(check_ways);
}

/* A device that has the bytes and can reach the target is preferred as the source of a transfer. If
 * there is no such device, the host is the source. */
static void
check_sources(fixture *f, bool without_peers)
{
    ferry_buffer *b = make_ints(f, COUNT);
    write_counting(f, b, 3, 0, FERRY_REST, 0);
    touch(f, b, 0, FERRY_READ, 0, FERRY_REST); /* the host and device 3 have it */
    ferry_transfer_stats before = moved(f);
    touch(f, b, 2, FERRY_READ, 0, FERRY_REST);
    EXPECT_COUNTS(f, &before, without_peers ? BYTES : 0, 0, without_peers ? 0 : BYTES);
    assert_int_equal(f->trace.source_place, without_peers ? 0 : 3);
    before = moved(f);
    /* Places 0, 2 and 3 hold the bytes. With peer access, the transfer to place 1 must use the
     * device with the lowest number, which is place 2. */
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    EXPECT_COUNTS(f, &before, without_peers ? BYTES : 0, 0, without_peers ? 0 : BYTES);
    assert_int_equal(f->trace.source_place, without_peers ? 0 : 2);
    /* All four places have the bytes, so a read at any place copies nothing. */
    before = moved(f);
    for (int place = 0; place <= 3; place++) {
        assert_true(ferry_buffer_is_current(b, place));
        expect_counting(f, b, place, 0, FERRY_REST, 0);
    }
    EXPECT_COUNTS(f, &before, 0, 0, 0);
    /* After a write at one place, the other places fetch only the range that was written. */
    write_counting(f, b, 2, 100, 50, 7);
    before = moved(f);
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    EXPECT_COUNTS(f, &before, 0, 0, 200);
    touch(f, b, 0, FERRY_READ, 0, FERRY_REST);
    EXPECT_COUNTS(f, &before, 0, 200, 200);
    expect_counting(f, b, 3, 100, 50, 7);
    expect_counting(f, b, 3, 0, 100, 0);
    ferry_buffer_destroy(&b);
}

static void
test_the_source_is_the_nearest(void **state)
{
    (void)state;
    for_each_world(check_sources);
}

/* Makes random reads and writes at random places. After each of them, the buffer must be current at
 * exactly the places that a simple model predicts. */
static void
check_subsets(fixture *f, bool without_peers)
{
    enum { PARTS = 12, PART = COUNT / PARTS };
    uint64_t seed = support_seed = 17 + without_peers;
    unsigned sets[PARTS];
    int firsts[PARTS];
    ferry_buffer *b = make_counting(f, COUNT, 0), *views[PARTS];
    for (size_t part = 0; part < PARTS; part++) {
        sets[part] = 1;
        firsts[part] = (int)(part * PART);
        OK(ferry_buffer_view(b, INT, part * PART, PART, &views[part]));
    }
    for (int step = 0; step < 400; step++) {
        size_t part = random_below(&seed, PARTS), parts = 1 + random_below(&seed, PARTS - part);
        int place = (int)random_below(&seed, 4);
        bool writes = random_below(&seed, 3) == 0;
        if (writes) {
            write_counting(f, b, place, part * PART, parts * PART, step);
        } else {
            ferry_transfer_stats before = moved(f);
            uint64_t lacks = 0;
            touch(f, b, place, FERRY_READ, part * PART, parts * PART);
            for (size_t i = part; i < part + parts; i++)
                lacks += sets[i] >> place & 1 ? 0 : PART * 4;
            struct counts counts = since(f, &before);
            assert_int_equal(counts.upload + counts.download + counts.peer, lacks);
        }
        for (size_t i = part; i < part + parts; i++) {
            sets[i] = writes ? 1u << place : sets[i] | 1u << place;
            firsts[i] = writes ? (int)(i * PART) + step : firsts[i];
        }
        for (size_t i = 0; i < PARTS; i++)
            for (int at = 0; at <= 3; at++)
                assert_int_equal(ferry_buffer_is_current(views[i], at), sets[i] >> at & 1);
    }
    for (size_t part = 0; part < PARTS; part++) {
        expect_counting(f, views[part], 0, 0, FERRY_REST, firsts[part]);
        expect_counting(f, views[part], (int)(part % 3) + 1, 0, FERRY_REST, firsts[part]);
        ferry_buffer_destroy(&views[part]);
    }
    ferry_buffer_destroy(&b);
    support_seed = 0;
}

static void
test_a_buffer_is_valid_on_any_subset(void **state)
{
    (void)state;
    for_each_world(check_subsets);
}

/* Checks that one transfer copied `pieces` ranges between two devices. */
static void
expect_one_submission(fixture *f, const ferry_transfer_stats *before, uint64_t pieces, bool staged)
{
    ferry_transfer_stats now = moved(f);
    assert_int_equal(now.peer.copies - before->peer.copies, 1);
    assert_int_equal(now.batch_submissions - before->batch_submissions, 1);
    assert_int_equal(now.batch_copies - before->batch_copies, pieces);
    assert_int_equal(now.peer_staged.copies - before->peer_staged.copies, staged);
    assert_int_equal(now.peer_staged.bytes - before->peer_staged.bytes,
                     staged ? now.peer.bytes - before->peer.bytes : 0);
    assert_int_equal(f->trace.staged, staged);
    assert_int_equal(f->trace.direction, FERRY_DIRECTION_PEER);
}

/* Submits the batch of copies on the default stream of `place`, and waits until the copies are
 * done. */
static ferry_status
submit_at(fixture *f, copy_list *batch, int place)
{
    ferry_event *event = NULL;
    ferry_status status = copy_list_submit_async(batch, ON(stream_of(f, place)), &event);
    if (status == FERRY_OK)
        status = ferry_event_synchronize(event);
    ferry_event_destroy(&event);
    return status;
}

/* Copies 500 ranges, and then 499 rows, from one device to a different one. Each of these calls
 * must need only one submission, not one for each range or row. */
static void
check_submissions(fixture *f, bool without_peers)
{
    enum { RANGES = 500, STEP = 6 };
    ferry_buffer *a = make_ints(f, COUNT), *b = make_ints(f, COUNT);
    copy_list *batch;
    write_counting(f, a, 1, 0, FERRY_REST, 1);
    write_counting(f, b, 2, 0, FERRY_REST, 50000);
    OK(copy_list_create(&batch));
    for (size_t i = 0; i < RANGES; i++)
        OK(copy_list_copy(batch, b, INT, STEP * (i * 389 % RANGES), a, STEP * (i * 389 % RANGES),
                          4));
    for (int round = 0; round < 2; round++) { /* the first round enables peer access */
        ferry_transfer_stats before = moved(f);
        OK(submit_at(f, batch, 2));
        expect_one_submission(f, &before, RANGES, without_peers);
        uint64_t calls = moved(f).device_calls - before.device_calls;
        assert_true(calls < (without_peers ? 40 : 20));
    }
    ferry_transfer_stats before = moved(f);
    ferry_event *event;
    OK(copy_rows_async(b, INT, 4, STEP, a, 4, STEP, 1, RANGES - 1, ON(stream_of(f, 2)), &event));
    OK(ferry_event_synchronize(event));
    ferry_event_destroy(&event);
    expect_one_submission(f, &before, RANGES - 1, without_peers);
    uint64_t calls = moved(f).device_calls - before.device_calls;
    assert_true(calls < (without_peers ? 40 : 20));
    for (int place = 0; place <= 2; place += 2) {
        for (size_t i = 0; i < RANGES - 1; i++) {
            expect_counting(f, b, place, STEP * i, 5, 1);
            expect_counting(f, b, place, STEP * i + 5, 1, 50000);
        }
    }
    copy_list_destroy(&batch);
    ferry_buffer_destroy(&a);
    ferry_buffer_destroy(&b);
}

static void
test_many_ranges_and_rows_are_one_submission(void **state)
{
    (void)state;
    for_each_world(check_submissions);
}

/* Copies ranges of random lengths between two devices, and compares the result with plain arrays.
 * Some ranges exceed a staging chunk. Some are adjacent in the source or in the target. */
static void
check_ranges(fixture *f, bool without_peers)
{
    static int32_t expected[COUNT], got[COUNT];
    uint64_t seed = 5 + without_peers;
    for (int round = 0; round < 12; round++) {
        support_seed = seed;
        ferry_buffer *a = make_ints(f, COUNT), *b = make_ints(f, COUNT);
        copy_list *batch;
        int from = 1 + (int)random_below(&seed, 3), to = from % 3 + 1;
        size_t gap = random_below(&seed, 3), most = round % 3 ? 40 : 2500, source = 0;
        write_counting(f, a, from, 0, FERRY_REST, 1);
        write_counting(f, b, to, 0, FERRY_REST, 50000);
        OK(copy_list_create(&batch));
        for (int i = 0; i < COUNT; i++)
            expected[i] = i + 50000;
        for (size_t at = 0; at < COUNT;) {
            size_t count = 1 + random_below(&seed, most);
            count = ferryi_min_size(count, COUNT - at);
            OK(copy_list_copy(batch, b, INT, at, a, source, count));
            for (size_t i = 0; i < count; i++)
                expected[at + i] = (int32_t)(source + i) + 1;
            at += count + gap;
            source += count;
        }
        OK(submit_at(f, batch, to));
        assert_true(ferry_buffer_is_current(b, to));
        OK(ferry_buffer_copy_to(b, INT, 0, COUNT, got, NULL));
        assert_memory_equal(got, expected, sizeof(got));
        copy_list_destroy(&batch);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
    }
    support_seed = 0;
}

static void
test_ranges_of_every_length(void **state)
{
    (void)state;
    for_each_world(check_ranges);
}

/* If the CUDA driver does not support peer access, Ferry copies the ranges of a batch one by one.
 * The copy of the second range fails here. The first range must have its new values at every place,
 * and all other elements their old values. */
static void
test_part_of_the_ranges_goes(void **state)
{
    enum { INVALID_VALUE = 1, NOT_SUPPORTED = 801, RANGES = 3 };
    fixture f;
    struct fakecuda fake = {0};
    copy_list *batch;
    (void)state;
    if (!has_three_cuda_devices(&fake))
        skip();
    open_three(&f, "cuda:0,cuda:1,cuda:2", false);
    ferry_buffer *a = make_ints(&f, COUNT), *b = make_ints(&f, COUNT);
    write_counting(&f, a, 1, 0, FERRY_REST, 1);
    write_counting(&f, b, 2, 0, FERRY_REST, 50000);
    touch(&f, b, 0, FERRY_READ, 0, FERRY_REST);
    OK(copy_list_create(&batch));
    for (size_t i = 0; i < RANGES; i++)
        OK(copy_list_copy(batch, b, INT, 1000 * i, a, 1000 * i, 10 + i));
    fake.fakecuda_fail_next("cuDeviceCanAccessPeer", NOT_SUPPORTED, 1);
    fake.fakecuda_fail_next("cuMemcpyPeerAsync", INVALID_VALUE, 2);
    ferry_transfer_stats before = moved(&f);
    FAILS(FERRY_ERROR_DEVICE, submit_at(&f, batch, 2));
    struct counts counts = since(&f, &before);
    for (int place = 2; place >= 0; place -= 2) {
        expect_counting(&f, b, place, 0, 10, 1);
        expect_counting(&f, b, place, 10, COUNT - 10, 50000);
    }
    assert_int_equal(counts.peer, 10 * sizeof(int));
    OK(submit_at(&f, batch, 2));
    for (size_t i = 0; i < RANGES; i++)
        expect_counting(&f, b, 0, 1000 * i, 10 + i, 1);
    copy_list_destroy(&batch);
    DESTROY_BUFFERS(&a, &b);
    fixture_close(&f);
}

/* Makes device call number `nth` fail while a batch is submitted. Each element must then hold its
 * old or its new value, the same at every place. A second try must succeed. Returns false if fewer
 * than `nth` device calls were made. */
static bool
fail_call(fixture *f, uint64_t nth)
{
    static int32_t first[COUNT], again[COUNT];
    ferry_buffer *a = make_ints(f, COUNT), *b = make_ints(f, COUNT);
    copy_list *batch;
    write_counting(f, a, 1, 0, FERRY_REST, 1);
    write_counting(f, b, 2, 0, FERRY_REST, 50000);
    touch(f, b, 0, FERRY_READ, 0, FERRY_REST);
    OK(copy_list_create(&batch));
    for (size_t i = 0; i < COUNT / 10; i++)
        OK(copy_list_copy(batch, b, INT, 10 * i, a, 10 * i, 7));
    fault_arm(nth);
    ferry_status status = submit_at(f, batch, 2);
    bool tripped = fault_tripped();
    fault_disarm();
    if (status != FERRY_OK)
        assert_non_null(strstr(ferry_last_error(), "fault injected"));
    OK(ferry_buffer_copy_to(b, INT, 0, COUNT, first, NULL));
    for (int i = 0; i < COUNT; i++)
        assert_true((first[i] == i + 50000 && (status != FERRY_OK || i % 10 >= 7)) ||
                    (first[i] == i + 1 && i % 10 < 7));
    for (int place = 2; place >= 0; place--) {
        ferry_scope scope;
        void *memory = open_at(f, b, place, FERRY_READ, 0, FERRY_REST, &scope);
        place_read(f, place, again, memory, sizeof(again));
        OK(ferry_scope_close(&scope));
        assert_memory_equal(again, first, sizeof(again));
    }
    OK(submit_at(f, batch, 2));
    expect_counting(f, b, 0, 0, 7, 1);
    copy_list_destroy(&batch);
    ferry_buffer_destroy(&a);
    ferry_buffer_destroy(&b);
    for (int place = 1; place <= 2; place++)
        OK(ferryi_device_synchronize(device_of(f, place)));
    return tripped;
}

static void
test_whatever_call_fails(void **state)
{
    (void)state;
    for (int without = 0; without < 2; without++) {
        fixture f;
        fixture_open(&f,
                     &(ferry_context_options){
                         .devices = "fault:2",
                         .tuning = without ? "staging.chunk=4K staging.chunks=2 emulated.peers=no"
                                           : "staging.chunk=4K staging.chunks=2"});
        uint64_t nth = 1;
        while (fail_call(&f, nth))
            nth++;
        assert_true(nth > 5);
        f.errors = 0; /* errors about events that could not be destroyed are expected */
        fixture_close(&f);
    }
}

/* Checks copies between buffers on different devices: single copies, batches and rows. */
static void
check_copies(fixture *f, bool without_peers)
{
    static int32_t got[COUNT];
    copy_list *batch;
    for (int to = 1; to <= 3; to++) {
        int from = to % 3 + 1;
        ferry_buffer *a = make_ints(f, COUNT), *b = make_ints(f, COUNT);
        write_counting(f, a, from, 0, FERRY_REST, 1);
        write_counting(f, b, to, 0, FERRY_REST, 50000);
        ferry_transfer_stats before = moved(f);
        ferry_event *event;
        OK(copy_list_create(&batch));
        for (size_t i = 0; i < 10; i++)
            OK(copy_list_copy(batch, b, INT, 100 * i, a, 100 * i, 60));
        OK(copy_list_submit_async(batch, ON(stream_of(f, to)), &event));
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
        EXPECT_COUNTS(f, &before, 0, 0, 2400);
        expect_one_submission(f, &before, 10, without_peers);
        before = moved(f);
        OK(copy_rows_async(b, INT, 1000, 100, a, 1000, 100, 60, 10, ON(stream_of(f, to)), &event));
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
        EXPECT_COUNTS(f, &before, 0, 0, 2400);
        expect_one_submission(f, &before, 10, without_peers);
        assert_true(ferry_buffer_is_current(b, to));
        OK(ferry_buffer_copy_to(b, INT, 0, COUNT, got, NULL));
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(got[i], i < 2000 && i % 100 < 60 ? i + 1 : i + 50000);
        copy_list_destroy(&batch);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
    }
}

static void
test_copies_across_devices(void **state)
{
    (void)state;
    for_each_world(check_copies);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_way_between_devices),
        cmocka_unit_test(test_the_source_is_the_nearest),
        cmocka_unit_test(test_a_buffer_is_valid_on_any_subset),
        cmocka_unit_test(test_copies_across_devices),
        cmocka_unit_test(test_many_ranges_and_rows_are_one_submission),
        cmocka_unit_test(test_ranges_of_every_length),
        cmocka_unit_test(test_part_of_the_ranges_goes),
        cmocka_unit_test(test_whatever_call_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
