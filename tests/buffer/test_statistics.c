/* SPDX-License-Identifier: MIT */
/* What the counters of transfers count: every way through the staging ring, and each byte once. */
#include "tests/buffer/files.h"

enum { COUNT = 6000, BYTES = COUNT * 4, CHUNK = 4096, CHUNKS = (BYTES + CHUNK - 1) / CHUNK };
/* Of batches and rows: as many ranges as go into a chunk whole. */
enum { RANGE = 40, STEP = 50, RANGES = COUNT / STEP, PACKED = RANGES * RANGE * 4, PACKED_CHUNKS = (RANGES + 24) / 25 };

/* What one call adds. */
struct counts {
    uint64_t chunks, copied, copies, staged;
};

static struct counts
since(fixture *f, const ferry_transfer_stats *before)
{
    ferry_transfer_stats now = moved(f);
    return (struct counts){now.staging_chunks - before->staging_chunks,
                           now.libc_bytes + now.prefetch_bytes + now.stream_bytes - before->libc_bytes - before->prefetch_bytes -
                               before->stream_bytes,
                           now.staged.copies - before->staged.copies, now.staged.bytes - before->staged.bytes};
}

/* On a device that shares the host's memory nothing is staged. */
static void
expect_counts(fixture *f, const ferry_transfer_stats *before, const char *what, struct counts expected)
{
    struct counts got = since(f, before);
    if (f->coherent)
        expected = (struct counts){0};
    if (memcmp(&got, &expected, sizeof(got)) != 0)
        fail_msg("%s: %d chunks, %d bytes copied, %d staged copies of %d bytes, not %d, %d, %d, %d", what, (int)got.chunks, (int)got.copied,
                 (int)got.copies, (int)got.staged, (int)expected.chunks, (int)expected.copied, (int)expected.copies, (int)expected.staged);
}

static void
open_small(fixture *f)
{
    fixture_close(f);
    fixture_open(f, &(ferry_context_options){.staging_chunk_bytes = CHUNK, .staging_chunk_count = 3, .staging_threads = 1});
}

static ferry_buffer *
make_on_device(fixture *f)
{
    ferry_buffer *b = make_ints(f, COUNT);
    write_counting(f, b, 1, 0, FERRY_REST, 0);
    return b;
}

#define COUNTED(call, ...)                                                   \
    do {                                                                     \
        ferry_transfer_stats before_ = moved(f);                             \
        OK(call);                                                            \
        expect_counts(f, &before_, #call, (struct counts){__VA_ARGS__});     \
    } while (0)

static void
test_single_copies_batches_and_rows_are_counted(void **state)
{
    fixture *f = *state;
    static int32_t values[COUNT];
    open_small(f);
    ferry_buffer *b = make_on_device(f);
    ferry_batch *in, *out;
    OK(ferry_batch_create(f->context, &in));
    OK(ferry_batch_create(f->context, &out));
    for (size_t at = 0; at < COUNT; at += STEP) {
        OK(ferry_batch_copy_from(in, b, INT, at, values + at, RANGE));
        OK(ferry_batch_copy_to(out, b, INT, at, values + at, RANGE));
    }
    COUNTED(ferry_buffer_copy_from(b, INT, 0, values, COUNT), CHUNKS, BYTES, 1, BYTES);
    COUNTED(ferry_buffer_copy_to(b, INT, 0, values, COUNT), CHUNKS, BYTES, 1, BYTES);
    COUNTED(ferry_batch_submit(in), PACKED_CHUNKS, PACKED, 1, PACKED);
    COUNTED(ferry_batch_submit(out), PACKED_CHUNKS, PACKED, 1, PACKED);
    COUNTED(ferry_buffer_copy_from_2d(b, INT, 0, STEP, values, STEP, RANGE, RANGES), PACKED_CHUNKS, PACKED, 1, PACKED);
    COUNTED(ferry_buffer_copy_to_2d(b, INT, 0, STEP, values, STEP, RANGE, RANGES), PACKED_CHUNKS, PACKED, 1, PACKED);
    assert_int_equal(moved(f).helper_chunks, 0);
    ferry_batch_destroy(&in);
    ferry_batch_destroy(&out);
    ferry_buffer_destroy(&b);
}

/* "Files are read and written, and conversions made, in the chunks themselves" */
static void
test_files_and_conversions_are_counted(void **state)
{
    fixture *f = *state;
    static double doubles[COUNT];
    open_small(f);
    ferry_int_buffer b = {make_on_device(f)};
    COUNTED(ferry_int_store(b, 0, COUNT, path_of("counted"), 0, NULL), CHUNKS, 0, 1, BYTES);
    COUNTED(ferry_int_load(b, 0, COUNT, path_of("counted"), 0, NULL), CHUNKS, 0, 1, BYTES);
    COUNTED(ferry_int_copy_from_double(b, 0, doubles, COUNT, FERRY_CONVERT_SATURATE), CHUNKS, 0, 1, BYTES);
    COUNTED(ferry_int_copy_to_double(b, 0, doubles, COUNT, FERRY_CONVERT_SATURATE), CHUNKS, 0, 1, BYTES);
    ferry_int_destroy(&b);
}

/* Where patterns are too long for the device the first of them go through a chunk; the whole is one fill and no upload. */
static void
test_the_beginning_of_a_fill_is_counted(void **state)
{
    fixture *f = *state;
    open_small(f);
    ferry_complex_double_buffer b;
    OK(ferry_complex_double_create(f->context, COUNT, NULL, &b));
    touch(f, b.raw, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    const double value[2] = {1.25, 2.5};
    COUNTED(ferry_buffer_fill(b.raw, ferry_complex_double_element(), 0, COUNT, value), 1, 4096, 0, 0);
    ferry_complex_double_destroy(&b);
}

static bool
stop_at_second(size_t done, size_t total, void *user)
{
    (void)total, (void)user;
    return done < 2 * CHUNK;
}

/* "one that failed or was cancelled counts those that arrived" */
static void
test_what_was_cancelled_counts_what_arrived(void **state)
{
    fixture *f = *state;
    static int32_t values[COUNT];
    const ferry_transfer_options stopped = {.chunk_bytes = CHUNK, .keep_going = stop_at_second};
    open_small(f);
    ferry_buffer *b = make_on_device(f);
    const ferry_file_options file = {.transfer = &stopped};
    const struct counts copied = {2, 2 * CHUNK, 1, 2 * CHUNK}, written = {2, 0, 1, 2 * CHUNK};
    ferry_transfer_stats before = moved(f);
    FAILS(FERRY_ERROR_CANCELLED, ferry_buffer_copy_from_with(b, INT, 0, values, COUNT, &stopped));
    expect_counts(f, &before, "copy_from", copied);
    before = moved(f);
    FAILS(FERRY_ERROR_CANCELLED, ferry_buffer_copy_to_with(b, INT, 0, values, COUNT, &stopped));
    expect_counts(f, &before, "copy_to", copied);
    before = moved(f);
    FAILS(FERRY_ERROR_CANCELLED, ferry_buffer_store(b, INT, 0, COUNT, path_of("stopped"), 0, &file));
    expect_counts(f, &before, "store", written);
    ferry_buffer_destroy(&b);
}

/* Each byte between devices without a way of their own is in `peer`, in `peer_staged`, and in no other direction. */
static void
test_staged_copies_between_devices_are_counted(void **state)
{
    (void)state;
    for (int without = 0; without < 2; without++) {
        fixture f;
        fixture_open(&f, &(ferry_context_options){.devices = "emulated:2", .emulated_without_peers = without, .staging_chunk_bytes = CHUNK,
                                                  .staging_chunk_count = 2});
        ferry_buffer *b = make_on_device(&f);
        ferry_transfer_stats before = moved(&f), after;
        touch(&f, b, 2, FERRY_READ, 0, FERRY_REST);
        after = moved(&f);
        assert_int_equal(after.peer.bytes - before.peer.bytes, BYTES);
        assert_int_equal(after.peer_staged.copies - before.peer_staged.copies, without);
        assert_int_equal(after.peer_staged.bytes - before.peer_staged.bytes, without ? BYTES : 0);
        assert_int_equal(after.staging_chunks - before.staging_chunks, without ? CHUNKS : 0);
        assert_int_equal(after.libc_bytes, before.libc_bytes);
        assert_int_equal(after.staged.bytes, before.staged.bytes);
        assert_int_equal(after.upload.bytes + after.download.bytes, before.upload.bytes + before.download.bytes);
        ferry_buffer_destroy(&b);
        fixture_close(&f);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_single_copies_batches_and_rows_are_counted),
        TEST(test_files_and_conversions_are_counted),
        TEST(test_the_beginning_of_a_fill_is_counted),
        TEST(test_what_was_cancelled_counts_what_arrived),
        cmocka_unit_test(test_staged_copies_between_devices_are_counted),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
