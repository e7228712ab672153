/* SPDX-License-Identifier: MIT */
/* Checks copies and fills through the device table, on each kind of device. */
#include "tests/device/suite.h"
#include "tests/support/copy_slots.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 64 /* number of bytes before and after a target that no copy may change */

/* Allocates `bytes` of device memory between two guard areas that contain 0x5A. */
static char *
take_guarded(ferryi_device *device, size_t bytes)
{
    char *memory = take(device, FERRY_MEMORY_DEVICE, bytes + 2 * GUARD);
    OK(device, fill, memory, 0x5A, 1, bytes + 2 * GUARD, device->default_stream);
    OK(device, stream_synchronize, device->default_stream);
    return memory + GUARD;
}

static void
give_guarded(ferryi_device *device, char *memory, size_t bytes)
{
    assert_device_byte(device, memory - GUARD, GUARD, 0x5A);
    assert_device_byte(device, memory + bytes, GUARD, 0x5A);
    give(device, FERRY_MEMORY_DEVICE, memory - GUARD);
}

static void
check_round_trip(ferryi_device *device, size_t bytes, size_t offset)
{
    void *stream = new_stream(device);
    char *first = take_guarded(device, offset + bytes), *second = take_guarded(device, bytes);
    char *pinned = take(device, FERRY_MEMORY_PINNED, 2 * bytes + 2 * GUARD);
    write_pattern(pinned, bytes, 42);
    memset(pinned + bytes, 0x5A, bytes + 2 * GUARD);
    OK(device, copy_upload, first + offset, pinned, bytes, stream);
    OK(device, copy_device, second, first + offset, bytes, stream);
    OK(device, copy_download, pinned + bytes + GUARD, second, bytes, stream);
    OK(device, stream_synchronize, stream);
    assert_pattern(pinned + bytes + GUARD, bytes, 42);
    assert_int_equal(pinned[bytes + GUARD - 1], 0x5A);
    assert_int_equal(pinned[2 * bytes + GUARD], 0x5A);
    give(device, FERRY_MEMORY_PINNED, pinned);
    give_guarded(device, second, bytes);
    give_guarded(device, first, offset + bytes);
    OK(device, stream_destroy, stream);
}

static void
test_bytes_go_up_across_and_down(void **state)
{
    (void)state;
    for (int i = 0; i < suite.count; i++) {
        check_round_trip(suite.devices[i], 1, 0);
        check_round_trip(suite.devices[i], 255, 1);
        check_round_trip(suite.devices[i], 4096, 7);
        check_round_trip(suite.devices[i], MEBIBYTE + 3, 13);
        check_round_trip(suite.devices[i], 8 * MEBIBYTE, 0);
    }
}

static void
test_work_on_one_stream_runs_in_order(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    void *stream = new_stream(device);
    char *memory = take(device, FERRY_MEMORY_DEVICE, 2 * MEBIBYTE);
    OK(device, host_call, stream, take_a_while, NULL);
    /* Each copy reads what the previous copy has written. If the copies do not run in order, the
     * result is wrong. */
    OK(device, fill, memory, 1, 1, MEBIBYTE, stream);
    for (int i = 0; i < 20; i++) {
        char *source = i % 2 ? memory + MEBIBYTE : memory,
             *target = i % 2 ? memory : memory + MEBIBYTE;
        OK(device, copy_device, target, source, MEBIBYTE, stream);
        OK(device, fill, target, (uint32_t)i + 2, 1, 16, stream);
        OK(device, copy_device, target + 16 * ((size_t)i + 1), target, 16, stream);
    }
    OK(device, stream_synchronize, stream);
    for (int i = 0; i < 20; i++)
        assert_device_byte(device, memory + 16 * ((size_t)i + 1), 16, (unsigned char)(i + 2));
    give(device, FERRY_MEMORY_DEVICE, memory);
    OK(device, stream_destroy, stream);
}

static void
test_zero_bytes_do_nothing(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    void *stream = new_stream(device);
    char *memory = take_guarded(device, 16);
    char *pinned = take(device, FERRY_MEMORY_PINNED, 16);
    write_pattern(pinned, 16, 1);
    OK(device, copy_upload, memory, pinned, 0, stream);
    OK(device, copy_download, pinned, memory, 0, stream);
    OK(device, copy_device, memory, memory + 8, 0, stream);
    OK(device, copy_upload, NULL, NULL, 0, stream);
    OK(device, copy_download, NULL, NULL, 0, stream);
    OK(device, copy_device, NULL, NULL, 0, stream);
    OK(device, fill, memory, 1, 1, 0, stream);
    OK(device, fill, NULL, 1, 4, 0, stream);
    struct ferryi_copy_2d copy = {memory, pinned, 4, 4, 4, 0, FERRY_DIRECTION_UPLOAD, NULL};
    OK(device, copy_2d, &copy, stream);
    copy = (struct ferryi_copy_2d){memory, pinned, 4, 4, 0, 4, FERRY_DIRECTION_UPLOAD, NULL};
    OK(device, copy_2d, &copy, stream);
    OK(device, stream_synchronize, stream);
    assert_device_byte(device, memory, 16, 0x5A);
    assert_pattern(pinned, 16, 1);
    give(device, FERRY_MEMORY_PINNED, pinned);
    give_guarded(device, memory, 16);
    OK(device, stream_destroy, stream);
}

/* Fills device memory with repetitions of an element, downloads the memory, and checks every
 * element. */
static void
check_fill(size_t pattern_bytes, uint32_t pattern, size_t count)
{
    ferryi_device *device = suite_device();
    size_t bytes = pattern_bytes * count;
    void *stream = new_stream(device);
    char *memory = take_guarded(device, bytes);
    char *pinned = take(device, FERRY_MEMORY_PINNED, bytes);
    OK(device, fill, memory, pattern, pattern_bytes, count, stream);
    OK(device, copy_download, pinned, memory, bytes, stream);
    OK(device, stream_synchronize, stream);
    for (size_t i = 0; i < count; i++) {
        if (memcmp(pinned + i * pattern_bytes, &pattern, pattern_bytes) !=
            0) /* all supported devices are little endian */
            fail_msg("pattern %zu of %zu differs", i, count);
    }
    give(device, FERRY_MEMORY_PINNED, pinned);
    give_guarded(device, memory, bytes);
    OK(device, stream_destroy, stream);
}

static void
test_fill_repeats_the_pattern(void **state)
{
    (void)state;
    check_fill(1, 0xFFFFFF17, MEBIBYTE + 5);
    check_fill(2, 0xFFFF1234, MEBIBYTE / 2 + 3);
    check_fill(4, 0xDEADBEEF, MEBIBYTE / 4 + 1);
    check_fill(1, 0, 1);
    check_fill(4, 1, 1);
}

/* -- 2-D -- */

enum { ROWS = 100, ROW = 300, PITCH = 512, HOST_PITCH = 320 };

static void
check_rows(const char *memory, size_t pitch, unsigned seed)
{
    for (size_t row = 0; row < ROWS; row++) {
        assert_pattern(memory + row * pitch, ROW, seed + (unsigned)row);
        for (size_t i = ROW; i < pitch && row + 1 < ROWS; i++)
            assert_int_equal(memory[row * pitch + i], 0x5A);
    }
}

static void
test_rows_are_copied_by_pitch(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    void *stream = new_stream(device);
    char *first = take_guarded(device, ROWS * PITCH), *second = take_guarded(device, ROWS * ROW);
    char *in = take(device, FERRY_MEMORY_PINNED, ROWS * HOST_PITCH);
    char *out = take(device, FERRY_MEMORY_PINNED, ROWS * PITCH);
    memset(in, 0x11, ROWS * HOST_PITCH);
    memset(out, 0x5A, ROWS * PITCH);
    for (size_t row = 0; row < ROWS; row++)
        write_pattern(in + row * HOST_PITCH, ROW, 50 + (unsigned)row);
    struct ferryi_copy_2d up = {first, in, PITCH, HOST_PITCH, ROW, ROWS, FERRY_DIRECTION_UPLOAD,
                                NULL};
    struct ferryi_copy_2d across = {second, first, ROW, PITCH, ROW, ROWS, FERRY_DIRECTION_DEVICE,
                                    NULL};
    struct ferryi_copy_2d down = {out, second, PITCH, ROW, ROW, ROWS, FERRY_DIRECTION_DOWNLOAD,
                                  NULL};
    OK(device, copy_2d, &up, stream);
    OK(device, copy_2d, &across, stream);
    OK(device, copy_2d, &down, stream);
    OK(device, stream_synchronize, stream);
    check_rows(out, PITCH, 50);
    /* The copies must not have changed the padding between the rows of their target. */
    OK(device, copy_download, out, first, ROWS * PITCH, stream);
    OK(device, stream_synchronize, stream);
    check_rows(out, PITCH, 50);
    give(device, FERRY_MEMORY_PINNED, out);
    give(device, FERRY_MEMORY_PINNED, in);
    give_guarded(device, second, ROWS * ROW);
    give_guarded(device, first, ROWS * PITCH);
    OK(device, stream_destroy, stream);
}

/* Checks that a device that reports FERRYI_DEVICE_TAKES_PAGEABLE copies pageable memory correctly,
 * both in plain copies and in copies of rows. */
static void
test_pageable_memory_is_taken_where_that_is_said(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    if (!suite_can(FERRYI_DEVICE_TAKES_PAGEABLE))
        skip();
    void *stream = new_stream(device);
    char *memory = take_guarded(device, MEBIBYTE), *host = malloc(MEBIBYTE);
    char *rows = malloc(ROWS * PITCH);
    assert_non_null(host);
    assert_non_null(rows);
    write_pattern(host, MEBIBYTE, 71);
    OK(device, copy_upload, memory, host, MEBIBYTE, stream);
    OK(device, stream_synchronize, stream);
    memset(host, 0, MEBIBYTE);
    OK(device, copy_download, host, memory, MEBIBYTE, stream);
    OK(device, stream_synchronize, stream);
    assert_pattern(host, MEBIBYTE, 71);
    for (size_t row = 0; row < ROWS; row++)
        write_pattern(host + row * HOST_PITCH, ROW, 50 + (unsigned)row);
    struct ferryi_copy_2d up = {memory, host, ROW, HOST_PITCH, ROW, ROWS, FERRY_DIRECTION_UPLOAD,
                                NULL};
    struct ferryi_copy_2d down = {rows, memory, PITCH, ROW, ROW, ROWS, FERRY_DIRECTION_DOWNLOAD,
                                  NULL};
    memset(rows, 0x5A, ROWS * PITCH);
    OK(device, copy_2d, &up, stream);
    OK(device, copy_2d, &down, stream);
    OK(device, stream_synchronize, stream);
    check_rows(rows, PITCH, 50);
    free(rows);
    free(host);
    give_guarded(device, memory, MEBIBYTE);
    OK(device, stream_destroy, stream);
}

/* -- batches -- */

enum { PIECES = 1000, PIECE = 96, STEP = 128 };

/* Submits a batch of copies. If the device does not support this batch, submits the copies one by
 * one, as src/device/device.h requires of callers. */
static ferry_status
send_batch(ferryi_device *device, const struct ferryi_copy *copies, size_t count, void *stream)
{
    ferry_status status = FERRYI_CALL(device, copy_batch, copies, count, stream);
    if (status != FERRY_ERROR_UNSUPPORTED)
        return status;
    status = FERRY_OK;
    for (size_t i = 0; i < count && status == FERRY_OK; i++) {
        const struct ferryi_copy *copy = &copies[i];
        status =
            copy->direction == FERRY_DIRECTION_PEER
                ? FERRYI_CALL(device, copy_peer, copy->target, copy->source_device, copy->source,
                              copy->bytes, stream)
            : copy->direction == FERRY_DIRECTION_UPLOAD
                ? FERRYI_CALL(device, copy_upload, copy->target, copy->source, copy->bytes, stream)
            : copy->direction == FERRY_DIRECTION_DOWNLOAD
                ? FERRYI_CALL(device, copy_download, copy->target, copy->source, copy->bytes,
                              stream)
                : FERRYI_CALL(device, copy_device, copy->target, copy->source, copy->bytes, stream);
    }
    return status;
}

static void
check_batch(ferryi_device *device, void *stream)
{
    char *memory = take(device, FERRY_MEMORY_DEVICE, PIECES * STEP);
    char *in = take(device, FERRY_MEMORY_PINNED, PIECES * STEP),
         *out = take(device, FERRY_MEMORY_PINNED, PIECES * STEP);
    struct ferryi_copy *copies = calloc(PIECES, sizeof(*copies));
    assert_non_null(copies);
    OK(device, fill, memory, 0x5A, 1, PIECES * STEP, stream);
    memset(out, 0, PIECES * STEP);
    for (size_t i = 0; i < PIECES; i++) {
        write_pattern(in + i * STEP, PIECE, (unsigned)i);
        copies[i] = (struct ferryi_copy){memory + i * STEP, in + i * STEP, i == 500 ? 0 : PIECE,
                                         FERRY_DIRECTION_UPLOAD, NULL};
    }
    assert_ok(send_batch(device, copies, PIECES, stream), "copy_batch");
    OK(device, copy_download, out, memory, PIECES * STEP, stream);
    OK(device, stream_synchronize, stream);
    for (size_t i = 0; i < PIECES; i++) {
        if (i == 500)
            assert_int_equal(out[i * STEP], 0x5A);
        else
            assert_pattern(out + i * STEP, PIECE, (unsigned)i);
        assert_int_equal(out[i * STEP + PIECE], 0x5A);
    }
    free(copies);
    give(device, FERRY_MEMORY_PINNED, out);
    give(device, FERRY_MEMORY_PINNED, in);
    give(device, FERRY_MEMORY_DEVICE, memory);
}

/* Checks that one batch can contain copies of all directions. */
static void
check_mixed_batch(ferryi_device *device, void *stream)
{
    char *memory = take(device, FERRY_MEMORY_DEVICE, 4 * MEBIBYTE);
    char *pinned = take(device, FERRY_MEMORY_PINNED, 2 * MEBIBYTE);
    write_device(device, memory, MEBIBYTE, 1);
    write_device(device, memory + MEBIBYTE, MEBIBYTE, 2);
    write_pattern(pinned, MEBIBYTE, 3);
    struct ferryi_copy copies[] = {
        {pinned + MEBIBYTE, memory, MEBIBYTE, FERRY_DIRECTION_DOWNLOAD, NULL},
        {memory + 2 * MEBIBYTE, memory + MEBIBYTE, MEBIBYTE, FERRY_DIRECTION_DEVICE, NULL},
        {memory + 3 * MEBIBYTE, pinned, MEBIBYTE, FERRY_DIRECTION_UPLOAD, NULL},
    };
    assert_ok(send_batch(device, copies, 3, stream), "copy_batch");
    OK(device, stream_synchronize, stream);
    assert_pattern(pinned + MEBIBYTE, MEBIBYTE, 1);
    assert_device(device, memory + 2 * MEBIBYTE, MEBIBYTE, 2);
    assert_device(device, memory + 3 * MEBIBYTE, MEBIBYTE, 3);
    give(device, FERRY_MEMORY_PINNED, pinned);
    give(device, FERRY_MEMORY_DEVICE, memory);
}

static void
test_a_batch_is_many_copies(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    char bytes[2] = {1, 2};
    struct ferryi_copy copy = {bytes, bytes + 1, 1, FERRY_DIRECTION_UPLOAD, NULL};
    if (!suite_can(FERRY_CAN_BATCH)) {
        LACKS(device, copy_batch, &copy, 1, device->default_stream);
        assert_int_equal(bytes[0], 1);
        return;
    }
    void *stream = new_stream(device);
    check_batch(device, stream);
    check_mixed_batch(device, stream);
    OK(device, copy_batch, NULL, 0, stream);
    copy.bytes = 0;
    OK(device, copy_batch, &copy, 1, stream);
    OK(device, stream_synchronize, stream);
    OK(device, stream_destroy, stream);
}

/* -- several devices -- */

static void
check_peer(ferryi_device *target_device, ferryi_device *source_device, unsigned seed)
{
    void *source = take(source_device, FERRY_MEMORY_DEVICE, MEBIBYTE);
    char *target = take_guarded(target_device, MEBIBYTE - 5);
    void *stream = new_stream(target_device);
    write_device(source_device, source, MEBIBYTE, seed);
    ferry_status status =
        FERRYI_CALL(target_device, copy_peer, target, source_device, source, MEBIBYTE - 5, stream);
    OK(target_device, stream_synchronize, stream);
    if (target_device->capabilities & FERRY_CAN_PEER) {
        assert_ok(status, "copy_peer");
        OK(target_device, copy_peer, target, source_device, source, 0, stream);
        assert_device(target_device, target, MEBIBYTE - 5, seed);
    } else if (status != FERRY_OK) {
        assert_int_equal(status, FERRY_ERROR_UNSUPPORTED);
    }
    OK(target_device, stream_destroy, stream);
    give_guarded(target_device, target, MEBIBYTE - 5);
    give(source_device, FERRY_MEMORY_DEVICE, source);
}

/* Copies rows and ranges from a second device. The bytes between the rows and ranges must not
 * change. If the device does not support copy_peer, these copies must fail with
 * FERRY_ERROR_UNSUPPORTED. */
static void
check_peer_pieces(ferryi_device *target_device, ferryi_device *source_device, unsigned seed)
{
    enum { PEER_PITCH = 100, PEER_ROW = 60, PEER_ROWS = 50, PEER_BYTES = PEER_PITCH * PEER_ROWS };
    char *source = take(source_device, FERRY_MEMORY_DEVICE, PEER_BYTES),
         *target = take(target_device, FERRY_MEMORY_DEVICE, PEER_BYTES);
    char *pinned = take(target_device, FERRY_MEMORY_PINNED, PEER_BYTES),
         *expected = malloc(PEER_BYTES);
    void *stream = new_stream(target_device);
    struct ferryi_copy ranges[PEER_ROWS];
    const struct ferryi_copy_2d rows = {target,   source,    PEER_PITCH,           PEER_PITCH,
                                        PEER_ROW, PEER_ROWS, FERRY_DIRECTION_PEER, source_device};
    bool can = target_device->capabilities & FERRY_CAN_PEER,
         can_batch = target_device->capabilities & FERRY_CAN_BATCH;
    assert_non_null(expected);
    for (size_t i = 0; i < PEER_ROWS; i++)
        ranges[i] = (struct ferryi_copy){target + i * PEER_PITCH, source + i * PEER_PITCH, PEER_ROW,
                                         FERRY_DIRECTION_PEER, source_device};
    write_device(source_device, source, PEER_BYTES, seed);
    write_pattern(expected, PEER_BYTES, seed);
    for (size_t i = 0; i < PEER_BYTES; i++)
        expected[i] = i % PEER_PITCH < PEER_ROW ? expected[i] : 0x5A;
    for (int batched = 0; batched < 1 + can_batch; batched++) {
        OK(target_device, fill, target, 0x5A, 1, PEER_BYTES, stream);
        ferry_status status = batched ? send_batch(target_device, ranges, PEER_ROWS, stream)
                                      : FERRYI_CALL(target_device, copy_2d, &rows, stream);
        if (can) {
            assert_ok(status, batched ? "copy_batch" : "copy_2d");
            OK(target_device, copy_download, pinned, target, PEER_BYTES, stream);
            OK(target_device, stream_synchronize, stream);
            assert_memory_equal(pinned, expected, PEER_BYTES);
        } else {
            assert_int_equal(status, FERRY_ERROR_UNSUPPORTED);
        }
    }
    OK(target_device, stream_synchronize, stream);
    OK(target_device, stream_destroy, stream);
    give(target_device, FERRY_MEMORY_PINNED, pinned);
    give(target_device, FERRY_MEMORY_DEVICE, target);
    give(source_device, FERRY_MEMORY_DEVICE, source);
    free(expected);
}

static void
test_devices_copy_from_their_peers(void **state)
{
    (void)state;
    if (suite.count < 2)
        skip();
    for (int i = 0; i < suite.count; i++) {
        for (int k = 0; k < suite.count; k++) {
            if (i == k || !ferryi_device_is_peer(suite.devices[i], suite.devices[k]))
                continue;
            check_peer(suite.devices[i], suite.devices[k], (unsigned)(10 * i + k));
            check_peer_pieces(suite.devices[i], suite.devices[k], (unsigned)(20 * i + k));
        }
    }
}

static void
test_devices_have_memory_of_their_own(void **state)
{
    (void)state;
    if (suite.count < 2)
        skip();
    void *memory[FERRYI_DEVICES_MAX];
    for (int i = 0; i < suite.count; i++) {
        memory[i] = take(suite.devices[i], FERRY_MEMORY_DEVICE, MEBIBYTE);
        write_device(suite.devices[i], memory[i], MEBIBYTE, (unsigned)i);
    }
    for (int i = 0; i < suite.count; i++) {
        assert_device(suite.devices[i], memory[i], MEBIBYTE, (unsigned)i);
        give(suite.devices[i], FERRY_MEMORY_DEVICE, memory[i]);
    }
}

const struct CMUnitTest copy_tests[] = {
    cmocka_unit_test(test_bytes_go_up_across_and_down),
    cmocka_unit_test(test_work_on_one_stream_runs_in_order),
    cmocka_unit_test(test_zero_bytes_do_nothing),
    cmocka_unit_test(test_fill_repeats_the_pattern),
    cmocka_unit_test(test_rows_are_copied_by_pitch),
    cmocka_unit_test(test_pageable_memory_is_taken_where_that_is_said),
    cmocka_unit_test(test_a_batch_is_many_copies),
    cmocka_unit_test(test_devices_copy_from_their_peers),
    cmocka_unit_test(test_devices_have_memory_of_their_own),
};
const size_t copy_test_count = sizeof(copy_tests) / sizeof(copy_tests[0]);
