/* SPDX-License-Identifier: MIT */
/* Tests the counters in ferry_buffer_info. They must agree with the transfers that were made, and
 * with the counters of the context. */
#include <ferry/int_convert.h>

#include <pthread.h>

#include "tests/buffer/files.h"
#include "tests/support/copies.h"

enum { COUNT = 6000, BYTES = COUNT * 4 };

static void
expect_count(ferry_transfer_count got, uint64_t copies, uint64_t bytes)
{
    assert_int_equal(got.copies, copies);
    assert_int_equal(got.bytes, bytes);
}

/* Checks the buffer's counters: copies and bytes to the device, and copies and bytes to the host.
 * On coherent devices all counters must be 0. */
static void
expect_traffic(fixture *f, ferry_buffer *buffer, uint64_t up, uint64_t up_bytes, uint64_t down,
               uint64_t down_bytes)
{
    ferry_buffer_info info = info_of(buffer);
    expect_count(info.to_device, f->coherent ? 0 : up, f->coherent ? 0 : up_bytes);
    expect_count(info.to_host, f->coherent ? 0 : down, f->coherent ? 0 : down_bytes);
    assert_true((info.last_transfer_ns == 0) ==
                (info.to_device.copies + info.to_host.copies + info.between_devices.copies == 0));
}

static void
test_each_way_is_counted(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    expect_traffic(f, b, 0, 0, 0, 0);
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    expect_traffic(f, b, 1, BYTES, 0, 0);
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST); /* a hit */
    touch(f, b, 1, FERRY_UPDATE, 0, 100);
    expect_traffic(f, b, 1, BYTES, 0, 0);
    touch(f, b, 0, FERRY_READ, 0, FERRY_REST); /* downloads the newer bytes */
    expect_traffic(f, b, 1, BYTES, 1, 400);
    touch(f, b, 0, FERRY_OVERWRITE, 0, 50);
    touch(f, b, 1, FERRY_OVERWRITE, 0, 50);
    expect_traffic(f, b, 1, BYTES, 1, 400);
    ferry_buffer_destroy(&b);
    /* A new buffer may reuse the memory of the destroyed one, but its counters start at zero. */
    b = make_ints(f, COUNT);
    expect_traffic(f, b, 0, 0, 0, 0);
    ferry_buffer_destroy(&b);
}

static void
test_the_last_transfer_has_a_time(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    uint64_t before = ferryi_now_ns();
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    uint64_t after = ferryi_now_ns(), last = info_of(b).last_transfer_ns;
    assert_true(f->coherent ? last == 0 : last >= before && last <= after);
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    assert_int_equal(info_of(b).last_transfer_ns, last);
    ferry_buffer_destroy(&b);
}

static void
test_a_view_reports_its_base(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0), *view;
    OK(ferry_buffer_view(b, INT, 100, 50, &view));
    touch(f, view, 1, FERRY_READ, 0, FERRY_REST);
    ferry_buffer_info of_view = info_of(view), of_base = info_of(b);
    assert_memory_equal(&of_view.to_device, &of_base.to_device, sizeof(of_base.to_device));
    assert_int_equal(of_view.last_transfer_ns, of_base.last_transfer_ns);
    assert_int_equal(of_base.to_device.copies, f->coherent ? 0 : 1);
    ferry_buffer_destroy(&view);
    ferry_buffer_destroy(&b);
}

/* A copy between two buffers counts for the buffer that it writes. If one transfer copies several
 * ranges of a buffer, it counts once for that buffer. */
static void
test_lists_count_for_each_buffer(void **state)
{
    fixture *f = *state;
    static int32_t values[COUNT];
    copy_list *list = NULL;
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT), *z = make_ints(f, COUNT);
    touch(f, x, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    touch(f, y, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    OK(copy_list_create(&list));
    OK(copy_list_from(list, x, INT, 0, values, 10));
    OK(copy_list_from(list, y, INT, 20, values + 100, 30));
    OK(copy_list_from(list, x, INT, 50, values + 200, 10));
    OK(copy_list_submit(list, NULL));
    expect_traffic(f, x, 1, 80, 0, 0);
    expect_traffic(f, y, 1, 120, 0, 0);

    copy_list_clear(list);
    OK(copy_list_to(list, x, INT, 0, values, 10));
    OK(copy_list_to(list, y, INT, 0, values + 100, 5));
    OK(copy_list_to(list, x, INT, 100, values + 200, 20));
    OK(copy_list_submit(list, NULL));
    expect_traffic(f, x, 1, 80, 1, 120);
    expect_traffic(f, y, 1, 120, 1, 20);
    copy_list_destroy(&list);

    OK(ferry_buffer_copy(z, INT, 0, x, 0, FERRY_REST,
                         NULL)); /* the copy runs within the device where the source is current */
    OK(ferry_buffer_copy(x, INT, 0, z, 0, 100, &(ferry_copy_options){0}));
    expect_traffic(f, x, 1, 80, 1, 120);
    expect_traffic(f, z, 0, 0, 0, 0);
    DESTROY_BUFFERS(&x, &y, &z);
}

/* Copies from a buffer that is current partly at the host and partly at a device. The target buffer
 * is current only at the host, so the copies run there. A part of the source is downloaded, and
 * this download must count for the target buffer. */
static void
test_a_target_at_the_host_alone_counts(void **state)
{
    fixture *f = *state;
    copy_list *list = NULL;
    ferry_buffer *mixed = make_counting(f, COUNT, 5), *target = make_ints(f, COUNT);
    touch(f, mixed, 1, FERRY_OVERWRITE, 0, COUNT / 2);
    OK(copy_list_create(&list));
    OK(copy_list_copy(list, target, INT, 0, mixed, 0, COUNT - 100));
    OK(copy_list_copy(list, target, INT, COUNT - 100, mixed, COUNT - 100, 100));
    OK(copy_list_submit(list, NULL));
    copy_list_destroy(&list);
    expect_traffic(f, target, 0, 0, 1, BYTES / 2);
    expect_traffic(f, mixed, 0, 0, 0, 0);
    DESTROY_BUFFERS(&mixed, &target);
}

/* A conversion for the caller reads at the host what is current there, and downloads only the rest.
 */
static void
test_a_conversion_downloads_only_the_rest(void **state)
{
    fixture *f = *state;
    static double doubles[COUNT];
    ferry_buffer *b = make_counting(f, COUNT, 5);
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    touch(f, b, 1, FERRY_UPDATE, COUNT / 2, FERRY_REST);
    OK(ferry_int_copy_to_double((ferry_int_buffer){b}, 0, COUNT, doubles, FERRY_CONVERT_SATURATE,
                                NULL));
    assert_int_equal(info_of(b).to_host.bytes, f->coherent ? 0 : BYTES / 2);
    ferry_buffer_destroy(&b);
}

/* A read on the stream of open writes relies on them, and uploads only the bytes beside them. So do
 * several reads that are opened at once. */
static void
read_beside_open_writes(fixture *f, size_t reads)
{
    enum { MOST = 40, STRIPE = COUNT / (2 * MOST) };
    static const size_t writes[] = {1, 2, 3, 7, MOST};
    ferry_scope scopes[MOST], read[2];
    /* Each write is at the begin or at the end of an equal part of the buffer. */
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
        for (size_t at_end = 0; at_end < 2; at_end++) {
            ferry_buffer *b = make_counting(f, COUNT, 5);
            const size_t part = COUNT / writes[i];
            for (size_t w = 0; w < writes[i]; w++)
                (void)open_at(f, b, 1, FERRY_OVERWRITE, w * part + at_end * (part - STRIPE), STRIPE,
                              &scopes[w]);
            ferry_argument arguments[2];
            for (size_t r = 0; r < reads; r++)
                arguments[r] = ferry_argument_with(
                    ferry_buffer_argument(b, INT, r * (COUNT / reads), COUNT / reads), FERRY_READ);
            OK(ferry_scope_open_all(arguments, reads, 1, stream_of(f, 1), read, NULL));
            assert_int_equal(info_of(b).to_device.bytes,
                             f->coherent ? 0 : (COUNT - writes[i] * STRIPE) * 4);
            ferry_scope_close_all(read, reads);
            for (size_t w = 0; w < writes[i]; w++)
                OK(ferry_scope_close(&scopes[w]));
            ferry_buffer_destroy(&b);
        }
}

static void
test_a_read_beside_open_writes_brings_the_rest(void **state)
{
    read_beside_open_writes(*state, 1);
    read_beside_open_writes(*state, 2);
}

struct sums {
    uint64_t up, down, between, up_copies, down_copies, between_copies;
};

static bool
add_info(const ferry_buffer_info *info, void *user)
{
    struct sums *sums = user;
    sums->up += info->to_device.bytes;
    sums->down += info->to_host.bytes;
    sums->between += info->between_devices.bytes;
    sums->up_copies += info->to_device.copies;
    sums->down_copies += info->to_host.copies;
    sums->between_copies += info->between_devices.copies;
    return true;
}

/* Checks that the counters of all buffers add up to those of the context. If `shared` is true, some
 * transfers were made for several buffers. Such a transfer counts once for each buffer, so the
 * numbers of transfers are not compared. */
static void
expect_sums(fixture *f, bool shared)
{
    struct sums sums = {0};
    ferry_transfer_stats stats = moved(f);
    OK(ferry_context_for_each_buffer(f->context, add_info, &sums));
    assert_int_equal(sums.up, stats.upload.bytes);
    assert_int_equal(sums.down, stats.download.bytes);
    assert_int_equal(sums.between, stats.peer.bytes);
    if (shared)
        return;
    assert_int_equal(sums.up_copies, stats.upload.copies);
    assert_int_equal(sums.down_copies, stats.download.copies);
    assert_int_equal(sums.between_copies, stats.peer.copies);
}

/* Makes one random call, such as a scope, copy, conversion, fill or file transfer. */
static void
use(fixture *f, ferry_buffer *b, ferry_buffer *other, uint64_t *seed)
{
    static int32_t values[COUNT];
    static double doubles[COUNT];
    size_t offset = random_below(seed, COUNT - 100), count = 1 + random_below(seed, COUNT - offset);
    int place = (int)random_below(seed, (size_t)f->places + 1);
    ferry_event *event = NULL;
    switch (random_below(seed, 13)) {
    case 0:
        touch(f, b, place, FERRY_READ, offset, count);
        break;
    case 1:
        touch(f, b, place, FERRY_UPDATE, offset, count);
        break;
    case 2:
        write_counting(f, b, place, offset, count, 1);
        break;
    case 3:
        OK(ferry_buffer_copy_from(b, INT, offset, count, values, NULL));
        break;
    case 4:
        OK(ferry_buffer_copy_to(b, INT, offset, count, values, NULL));
        break;
    case 5:
        OK(ferry_buffer_copy(b, INT, offset / 2, other, 0, count / 2, NULL));
        break;
    case 6:
        OK(copy_rows_from(b, INT, 0, 100, values, 100, 20, 50, NULL));
        break;
    case 7:
        OK(ferry_int_copy_from_double((ferry_int_buffer){b}, offset, count, doubles,
                                      FERRY_CONVERT_SATURATE, NULL));
        break;
    case 8:
        OK(ferry_int_copy_to_double((ferry_int_buffer){b}, offset, count, doubles,
                                    FERRY_CONVERT_SATURATE, NULL));
        break;
    case 9:
        OK(ferry_buffer_store(b, INT, offset, count, path_of("traffic"), 0, NULL));
        OK(ferry_buffer_load(b, INT, offset, count, path_of("traffic"), 0, NULL));
        break;
    case 10:
        OK(ferry_buffer_copy_from_async(b, INT, offset, count, values, NULL, &event));
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
        break;
    case 11: /* rows that overlap rows of the same buffer */
        OK(copy_rows(b, INT, offset % 50, 60, b, 0, 50, 40, 50,
                     &(ferry_copy_options){.stream = place ? stream_of(f, place) : NULL}));
        break;
    default:
        OK(ferry_buffer_copy(b, INT, 1, b, 0, count - 1, NULL));
        break; /* onto itself */
    }
}

/* Every tenth call is followed by a new buffer in place of an old one. A new buffer has no replica,
 * and so nothing in which its transfers are counted. */
static void
test_the_sum_is_that_of_the_context(void **state)
{
    fixture *f = *state;
    uint64_t seed = 0x7aff1c, uploads = 0;
    ferry_buffer *buffers[3] = {make_counting(f, COUNT, 0), make_counting(f, COUNT, 1),
                                make_counting(f, COUNT, 2)};
    for (int i = 0; i < 300; i++) {
        size_t a = random_below(&seed, 3);
        use(f, buffers[a], buffers[(a + 1) % 3], &seed);
        if (i % 10 != 0)
            continue;
        expect_sums(f, false);
        uploads += moved(f).upload.copies;
        ferry_buffer_destroy(&buffers[a]);
        buffers[a] = make_ints(f, COUNT);
        OK(ferry_context_reset_stats(f->context));
    }
    expect_sums(f, false);
    assert_true(f->coherent || uploads > 5);
    for (int i = 0; i < 3; i++)
        ferry_buffer_destroy(&buffers[i]);
}

static void
test_a_reset_begins_again(void **state)
{
    fixture *f = *state;
    uint64_t seed = 0x5e7;
    ferry_buffer *buffers[3] = {make_counting(f, COUNT, 0), make_counting(f, COUNT, 1),
                                make_counting(f, COUNT, 2)},
                 *view;
    OK(ferry_buffer_view(buffers[0], INT, 0, 10, &view));
    for (int i = 0; i < 40; i++)
        use(f, buffers[0], buffers[1], &seed);
    assert_true(f->coherent || info_of(view).to_device.bytes > 0);
    OK(ferry_context_reset_stats(f->context));
    for (int i = 0; i < 3; i++) {
        expect_traffic(f, buffers[i], 0, 0, 0, 0);
        assert_int_equal(info_of(buffers[i]).evictions, 0);
    }
    expect_traffic(f, view, 0, 0, 0, 0);
    for (int i = 0; i < 40; i++)
        use(f, buffers[0], buffers[1], &seed);
    expect_sums(f, false);
    ferry_buffer_destroy(&view);
    for (int i = 0; i < 3; i++)
        ferry_buffer_destroy(&buffers[i]);
}

static void
test_between_devices(void **state)
{
    (void)state;
    for (int without = 0; without < 2; without++) {
        fixture f;
        fixture_open(&f, &(ferry_context_options){.devices = "emulated:2",
                                                  .tuning = without ? "emulated.peers=no" : NULL});
        ferry_buffer *b = make_ints(&f, COUNT);
        touch(&f, b, 1, FERRY_OVERWRITE, 0, FERRY_REST);
        touch(&f, b, 2, FERRY_READ, 0, FERRY_REST);
        expect_count(info_of(b).between_devices, 1, BYTES);
        expect_traffic(&f, b, 0, 0, 0, 0);
        expect_sums(&f, false);
        /* Half of a source is current at either device, so a copy of it goes to the host. It counts
         * for its target, also if that had no replica before. */
        ferry_buffer *target = make_ints(&f, COUNT);
        OK(ferry_context_reset_stats(f.context));
        touch(&f, b, 1, FERRY_OVERWRITE, 0, COUNT / 2);
        touch(&f, b, 2, FERRY_OVERWRITE, COUNT / 2, FERRY_REST);
        OK(ferry_buffer_copy(target, INT, 0, b, 0, FERRY_REST, NULL));
        expect_traffic(&f, b, 0, 0, 0, 0);
        expect_traffic(&f, target, 0, 0, 2, BYTES);
        ferry_buffer_destroy(&target);
        ferry_buffer_destroy(&b);
        fixture_close(&f);
    }
}

static bool
stop_at_half(size_t done, size_t total, void *user)
{
    (void)user;
    return done < total / 2;
}

static void
test_a_cancelled_copy_counts_what_arrived(void **state)
{
    fixture *f = *state;
    static int32_t values[COUNT];
    fixture_close(f);
    fixture_open(f, &(ferry_context_options){
                        .tuning = "staging.chunk=4K staging.chunks=3 staging.threads=1"});
    ferry_buffer *b = make_ints(f, COUNT);
    touch(f, b, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    FAILS(FERRY_ERROR_CANCELLED,
          ferry_buffer_copy_from(
              b, INT, 0, COUNT, values,
              &(ferry_copy_options){.chunk_bytes = 4096, .keep_going = stop_at_half}));
    expect_sums(f, false);
    expect_traffic(f, b, 1, 3 * 4096, 0, 0);
    ferry_buffer_destroy(&b);
}

/* The device has memory for four of twelve buffers. The eviction counter of a buffer must grow by
 * one whenever the buffer's replica is evicted. */
static void
test_evictions_are_counted(void **state)
{
    fixture *f = *state;
    enum { SET = 12, LARGE = 63 << 10 };
    ferry_buffer *set[SET];
    uint64_t expected[SET] = {0}, sum = 0;
    bool there[SET] = {false};
    fixture_close(f);
    fixture_open(f, &(ferry_context_options){.device_bytes_limit = 4 * (256 << 10)});
    for (int i = 0; i < SET; i++)
        set[i] = make_counting(f, LARGE, i);
    for (int round = 0; round < 5 * SET; round++) {
        int used = (7 * round + round / SET) % SET;
        /* Half of the rounds only read, so that some evicted replicas are clean and others are
         * dirty. */
        touch(f, set[used], 1, round % 2 ? FERRY_READ : FERRY_UPDATE, 0, FERRY_REST);
        for (int i = 0; i < SET; i++) {
            ferry_buffer_info info = info_of(set[i]);
            bool is_there = info.places_with_copy >> 1 & 1;
            expected[i] += there[i] && !is_there;
            there[i] = is_there;
            assert_int_equal(info.evictions, expected[i]);
        }
    }
    for (int i = 0; i < SET; i++)
        sum += expected[i];
    assert_true(f->coherent ? sum == 0 : sum >= 2 * SET);
    OK(ferry_context_reset_stats(f->context));
    for (int i = 0; i < SET; i++) {
        assert_int_equal(info_of(set[i]).evictions, 0);
        ferry_buffer_destroy(&set[i]);
    }
}

struct half {
    fixture *f;
    ferry_buffer *buffer;
    pthread_barrier_t *begin;
    size_t offset;
};

static void *
read_half(void *argument)
{
    struct half *half = argument;
    (void)pthread_barrier_wait(half->begin);
    touch(half->f, half->buffer, 1, FERRY_READ, half->offset, COUNT / 2);
    return NULL;
}

/* The first transfer of a buffer allocates its counters. If a second thread makes a transfer at the
 * same time, that transfer must be counted, too. */
static void
test_threads_make_the_counters_at_once(void **state)
{
    fixture *f = *state;
    pthread_barrier_t begin;
    assert_int_equal(pthread_barrier_init(&begin, NULL, 2), 0);
    for (int round = 0; round < 100; round++) {
        ferry_buffer *b = make_counting(f, COUNT, round);
        struct half halves[2] = {{f, b, &begin, 0}, {f, b, &begin, COUNT / 2}};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, read_half, &halves[0]), 0);
        read_half(&halves[1]);
        pthread_join(thread, NULL);
        expect_traffic(f, b, 2, BYTES, 0, 0);
        expect_counting(f, b, 1, 0, FERRY_REST, round);
        ferry_buffer_destroy(&b);
    }
    pthread_barrier_destroy(&begin);
}

/* An access brings each long stretch of pageable memory in a transfer alone, and short stretches
 * together. */
static void
test_long_stretches_are_brought_alone(void **state)
{
    fixture *f = *state;
    enum { SHORT = 65536, LONG = SHORT + 1, MANY = 3 * LONG }; /* SHORT numbers are 256 KiB */
    const size_t first[] = {SHORT, LONG, 100}, second[] = {SHORT, 100, LONG};
    for (int i = 0; i < 3; i++) {
        ferry_buffer *b = make_counting(f, MANY, 0);
        touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
        touch(f, b, 1, FERRY_UPDATE, 0, first[i]);
        touch(f, b, 1, FERRY_UPDATE, LONG + 100, second[i]);
        touch(f, b, 0, FERRY_READ, 0, FERRY_REST);
        expect_traffic(f, b, 1, MANY * 4, i == 0 ? 1 : 2, 4 * (first[i] + second[i]));
        ferry_buffer_destroy(&b);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_way_is_counted),
        TEST(test_the_last_transfer_has_a_time),
        TEST(test_a_view_reports_its_base),
        TEST(test_lists_count_for_each_buffer),
        TEST(test_a_target_at_the_host_alone_counts),
        TEST(test_a_conversion_downloads_only_the_rest),
        TEST(test_a_read_beside_open_writes_brings_the_rest),
        TEST(test_long_stretches_are_brought_alone),
        TEST(test_the_sum_is_that_of_the_context),
        TEST(test_a_reset_begins_again),
        cmocka_unit_test(test_between_devices),
        TEST(test_a_cancelled_copy_counts_what_arrived),
        TEST(test_evictions_are_counted),
        TEST(test_threads_make_the_counters_at_once),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
