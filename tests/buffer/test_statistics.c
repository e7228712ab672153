/* SPDX-License-Identifier: MIT */
/* Tests the counters of transfers. They must count every use of the staging ring, and each byte
 * only once. */
#include <ferry/int_convert.h>

#include "src/transfer/engine.h"
#include "tests/buffer/files.h"
#include "tests/support/copies.h"

enum { COUNT = 6000, BYTES = COUNT * 4, CHUNK = 4096, CHUNKS = (BYTES + CHUNK - 1) / CHUNK };
/* Sizes of the ranges of a batch, and of the rows of a copy, in elements. A staging chunk holds 25
 * whole ranges. */
enum {
    RANGE = 40,
    STEP = 50,
    RANGES = COUNT / STEP,
    PACKED = RANGES * RANGE * 4,
    PACKED_CHUNKS = (RANGES + 24) / 25
};

/* Numbers by which one call increases the counters. */
struct counts {
    uint64_t chunks, copied, copies, staged;
};

/* The counters at one moment. */
struct seen {
    ferry_transfer_stats moved;
    struct ferryi_staging_stats staging;
};

static struct seen
look(fixture *f)
{
    return (struct seen){moved(f), staging_of(f)};
}

static struct counts
since(fixture *f, const struct seen *before)
{
    struct seen now = look(f);
    return (struct counts){now.staging.staging_chunks - before->staging.staging_chunks,
                           now.staging.copied_bytes - before->staging.copied_bytes,
                           now.moved.staged.copies - before->moved.staged.copies,
                           now.moved.staged.bytes - before->moved.staged.bytes};
}

/* Checks how much the counters have grown since `before`. On a coherent device they must not have
 * grown, because nothing is staged. */
static void
expect_counts(fixture *f, const struct seen *before, const char *what, struct counts expected)
{
    struct counts got = since(f, before);
    if (f->coherent)
        expected = (struct counts){0};
    if (memcmp(&got, &expected, sizeof(got)) != 0)
        fail_msg("%s: %d chunks, %d bytes copied, %d staged copies of %d bytes, not %d, %d, %d, %d",
                 what, (int)got.chunks, (int)got.copied, (int)got.copies, (int)got.staged,
                 (int)expected.chunks, (int)expected.copied, (int)expected.copies,
                 (int)expected.staged);
}

static void
open_small(fixture *f)
{
    fixture_close(f);
    fixture_open(f, &(ferry_context_options){
                        .tuning = "staging.chunk=4K staging.chunks=3 staging.threads=1"});
}

static ferry_buffer *
make_on_device(fixture *f)
{
    ferry_buffer *b = make_ints(f, COUNT);
    write_counting(f, b, 1, 0, FERRY_REST, 0);
    return b;
}

#define COUNTED(call, ...)                                                                         \
    do {                                                                                           \
        struct seen before_ = look(f);                                                             \
        OK(call);                                                                                  \
        expect_counts(f, &before_, #call, (struct counts){__VA_ARGS__});                           \
    } while (0)

static void
test_single_copies_batches_and_rows_are_counted(void **state)
{
    fixture *f = *state;
    static int32_t values[COUNT];
    open_small(f);
    ferry_buffer *b = make_on_device(f);
    copy_list *in, *out;
    OK(copy_list_create(&in));
    OK(copy_list_create(&out));
    for (size_t at = 0; at < COUNT; at += STEP) {
        OK(copy_list_from(in, b, INT, at, values + at, RANGE));
        OK(copy_list_to(out, b, INT, at, values + at, RANGE));
    }
    COUNTED(ferry_buffer_copy_from(b, INT, 0, COUNT, values, NULL), CHUNKS, BYTES, 1, BYTES);
    COUNTED(ferry_buffer_copy_to(b, INT, 0, COUNT, values, NULL), CHUNKS, BYTES, 1, BYTES);
    COUNTED(copy_list_submit(in, NULL), PACKED_CHUNKS, PACKED, 1, PACKED);
    COUNTED(copy_list_submit(out, NULL), PACKED_CHUNKS, PACKED, 1, PACKED);
    COUNTED(copy_rows_from(b, INT, 0, STEP, values, STEP, RANGE, RANGES, NULL), PACKED_CHUNKS,
            PACKED, 1, PACKED);
    COUNTED(copy_rows_to(b, INT, 0, STEP, values, STEP, RANGE, RANGES, NULL), PACKED_CHUNKS, PACKED,
            1, PACKED);
    assert_int_equal(staging_of(f).helper_chunks, 0);
    copy_list_destroy(&in);
    copy_list_destroy(&out);
    ferry_buffer_destroy(&b);
}

/* Loads, stores and conversions count the chunks of the staging ring that they use. */
static void
test_files_and_conversions_are_counted(void **state)
{
    fixture *f = *state;
    static double doubles[COUNT];
    open_small(f);
    ferry_int_buffer b = {make_on_device(f)};
    COUNTED(ferry_int_store(b, 0, COUNT, path_of("counted"), 0, NULL), CHUNKS, 0, 1, BYTES);
    COUNTED(ferry_int_load(b, 0, COUNT, path_of("counted"), 0, NULL), CHUNKS, 0, 1, BYTES);
    COUNTED(ferry_int_copy_from_double(b, 0, COUNT, doubles, FERRY_CONVERT_SATURATE, NULL), CHUNKS,
            0, 1, BYTES);
    COUNTED(ferry_int_copy_to_double(b, 0, COUNT, doubles, FERRY_CONVERT_SATURATE, NULL), CHUNKS, 0,
            1, BYTES);
    ferry_int_destroy(&b);
}

/* Fills a buffer with an element that is too large for the device's fill function. Ferry then
 * stages a few copies of the element from the host. They must count as one chunk of the staging
 * ring, but not as a staged copy. */
static void
test_the_beginning_of_a_fill_is_counted(void **state)
{
    fixture *f = *state;
    open_small(f);
    ferry_complex_double_buffer b;
    OK(ferry_complex_double_create(f->context, COUNT, NULL, &b));
    touch(f, b.raw, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    const double value[2] = {1.25, 2.5};
    COUNTED(ferry_buffer_fill(b.raw, ferry_complex_double_element(), 0, COUNT, value, NULL), 1,
            4096, 0, 0);
    ferry_complex_double_destroy(&b);
}

static bool
stop_at_second(size_t done, size_t total, void *user)
{
    (void)total, (void)user;
    return done < 2 * CHUNK;
}

/* A call that failed or was cancelled counts only the bytes that arrived. */
static void
test_what_was_cancelled_counts_what_arrived(void **state)
{
    fixture *f = *state;
    static int32_t values[COUNT];
    const ferry_copy_options stopped = {.chunk_bytes = CHUNK, .keep_going = stop_at_second};
    open_small(f);
    ferry_buffer *b = make_on_device(f);
    const struct counts copied = {2, 2 * CHUNK, 1, 2 * CHUNK}, written = {2, 0, 1, 2 * CHUNK};
    struct seen before = look(f);
    FAILS(FERRY_ERROR_CANCELLED, ferry_buffer_copy_from(b, INT, 0, COUNT, values, &stopped));
    expect_counts(f, &before, "copy_from", copied);
    before = look(f);
    FAILS(FERRY_ERROR_CANCELLED, ferry_buffer_copy_to(b, INT, 0, COUNT, values, &stopped));
    expect_counts(f, &before, "copy_to", copied);
    before = look(f);
    FAILS(FERRY_ERROR_CANCELLED,
          ferry_buffer_store(b, INT, 0, COUNT, path_of("stopped"), 0, &stopped));
    expect_counts(f, &before, "store", written);
    ferry_buffer_destroy(&b);
}

/* Copies a buffer between two devices, with and without peer access. Bytes that are staged must
 * count as `peer` and as `peer_staged`, but not as upload or download. */
static void
test_staged_copies_between_devices_are_counted(void **state)
{
    (void)state;
    for (int without = 0; without < 2; without++) {
        fixture f;
        fixture_open(&f,
                     &(ferry_context_options){
                         .devices = "emulated:2",
                         .tuning = without ? "staging.chunk=4K staging.chunks=2 emulated.peers=no"
                                           : "staging.chunk=4K staging.chunks=2"});
        ferry_buffer *b = make_on_device(&f);
        ferry_transfer_stats before = moved(&f), after;
        struct ferryi_staging_stats staging_before = staging_of(&f), staging_after;
        touch(&f, b, 2, FERRY_READ, 0, FERRY_REST);
        after = moved(&f);
        staging_after = staging_of(&f);
        assert_int_equal(after.peer.bytes - before.peer.bytes, BYTES);
        assert_int_equal(after.peer_staged.copies - before.peer_staged.copies, without);
        assert_int_equal(after.peer_staged.bytes - before.peer_staged.bytes, without ? BYTES : 0);
        assert_int_equal(staging_after.staging_chunks - staging_before.staging_chunks,
                         without ? CHUNKS : 0);
        assert_int_equal(staging_after.copied_bytes, staging_before.copied_bytes);
        assert_int_equal(after.staged.bytes, before.staged.bytes);
        assert_int_equal(after.upload.bytes + after.download.bytes,
                         before.upload.bytes + before.download.bytes);
        ferry_buffer_destroy(&b);
        fixture_close(&f);
    }
}

static void
test_a_reset_sets_every_transfer_counter_to_zero(void **state)
{
    fixture *f = *state;
    static int32_t values[COUNT];
    static const struct ferryi_staging_stats no_staging;
    static const ferry_transfer_stats none;
    open_small(f);
    ferry_buffer *b = make_on_device(f);
    OK(copy_rows_from(b, INT, 0, STEP, values, STEP, RANGE, RANGES, NULL));
    OK(ferry_buffer_copy_to(b, INT, 0, COUNT, values, NULL));
    OK(ferry_stream_synchronize(ferry_context_stream(f->context, 1)));
    ferry_transfer_stats before = moved(f);
    assert_true(f->coherent ? before.host.bytes > 0
                            : before.upload.bytes > 0 && before.staged.copies > 0);
    OK(ferry_context_reset_stats(f->context));
    ferry_transfer_stats after = moved(f);
    struct ferryi_staging_stats staging = staging_of(f);
    assert_memory_equal(&after, &none, sizeof(none));
    assert_memory_equal(&staging, &no_staging, sizeof(no_staging));

    OK(ferry_buffer_copy_from(b, INT, 0, COUNT, values, NULL));
    after = moved(f);
    assert_int_equal(after.upload.bytes + after.host.bytes, BYTES);

    ferry_pool *pool;
    ferry_pool_stats stats;
    OK(ferry_context_reset_stats(f->context));
    OK(ferry_context_pool(f->context, 1, FERRY_MEMORY_DEVICE, &pool));
    OK(ferry_pool_get_stats(pool, &stats));
    assert_int_equal(stats.allocations + stats.frees, 0);
    assert_true(stats.live_bytes >= BYTES);
    ferry_buffer_destroy(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_single_copies_batches_and_rows_are_counted),
        TEST(test_files_and_conversions_are_counted),
        TEST(test_the_beginning_of_a_fill_is_counted),
        TEST(test_what_was_cancelled_counts_what_arrived),
        TEST(test_a_reset_sets_every_transfer_counter_to_zero),
        cmocka_unit_test(test_staged_copies_between_devices_are_counted),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
