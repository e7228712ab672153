/* SPDX-License-Identifier: MIT */
/* Tests what the emulated device guarantees beyond the contract in src/device/device.h. It checks
 * arguments, limits its memory, and makes copies take as long as an emulated link would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/device/device.h"
#include "src/device/emulated/emulated.h"
#include "tests/support/copy_slots.h"
#include "tests/support/lazy.h"

#define MEBIBYTE ((size_t)1 << 20)

static ferryi_device *devices[FERRYI_DEVICES_MAX];
static int count;

static ferryi_device *
open_with(const char *spec, const struct ferryi_device_config *config)
{
    assert_int_equal(ferryi_devices_open(spec, config, devices, &count), FERRY_OK);
    return devices[0];
}

static ferryi_device *
open_spec(const char *spec)
{
    struct ferryi_device_config config = {0};
    return open_with(spec, &config);
}

static void
close_all(void)
{
    for (int i = 0; i < count; i++)
        devices[i]->ops->close(devices[i]);
}

static void *
take(ferryi_device *device, ferry_memory_kind kind, size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(FERRYI_CALL(device, memory_alloc, kind, bytes, &memory), FERRY_OK);
    return memory;
}

static void
give(ferryi_device *device, ferry_memory_kind kind, void *memory)
{
    assert_int_equal(FERRYI_CALL(device, memory_free, kind, memory), FERRY_OK);
}

#define REFUSES(device, slot, ...)                                                                 \
    do {                                                                                           \
        assert_int_equal(FERRYI_CALL(device, slot, __VA_ARGS__), FERRY_ERROR_DEVICE);              \
        assert_non_null(strstr(ferry_last_error(), strtok((char[]){#slot}, "_")));                 \
    } while (0)

static void
test_device_pointers_are_checked(void **state)
{
    (void)state;
    ferryi_device *device = open_spec("emulated:2"), *other = devices[1];
    void *stream = device->default_stream;
    char *memory = take(device, FERRY_MEMORY_DEVICE, 1000),
         *foreign = take(other, FERRY_MEMORY_DEVICE, 1000);
    char *pinned = take(device, FERRY_MEMORY_PINNED, 1000);
    /* Each of these calls has an invalid range. The range is one byte too long, starts too early,
     * or belongs to a different device or to the host. */
    REFUSES(device, copy_upload, memory, pinned, 1001, stream);
    REFUSES(device, copy_upload, memory + 1, pinned, 1000, stream);
    REFUSES(device, copy_upload, memory - 1, pinned, 1, stream);
    REFUSES(device, copy_upload, foreign, pinned, 1, stream);
    REFUSES(device, copy_upload, pinned, pinned, 1, stream);
    REFUSES(device, copy_download, pinned, foreign, 1, stream);
    REFUSES(device, copy_download, pinned, memory + 1000, 1, stream);
    REFUSES(device, copy_device, memory, foreign, 1, stream);
    REFUSES(device, copy_device, foreign, memory, 1, stream);
    REFUSES(device, fill, memory, 0, 1, 1001, stream);
    REFUSES(device, fill, foreign, 0, 1, 1, stream);
    REFUSES(device, copy_peer, memory, other, memory, 1, stream);
    REFUSES(device, copy_peer, foreign, other, foreign, 1, stream);
    REFUSES(device, copy_upload, memory, pinned, SIZE_MAX, stream);
    assert_int_equal(FERRYI_CALL(device, copy_peer, memory, other, foreign, 1000, stream),
                     FERRY_OK);
    assert_int_equal(ferryi_device_synchronize(device), FERRY_OK);
    give(device, FERRY_MEMORY_PINNED, pinned);
    give(other, FERRY_MEMORY_DEVICE, foreign);
    give(device, FERRY_MEMORY_DEVICE, memory);
    pinned = take(device, FERRY_MEMORY_PINNED, 1000);
    REFUSES(device, copy_upload, memory, pinned, 1, stream);
    give(device, FERRY_MEMORY_PINNED, pinned);
    close_all();
}

static void
test_host_pointers_are_pinned(void **state)
{
    (void)state;
    ferryi_device *device = open_spec("emulated");
    void *stream = device->default_stream;
    char *memory = take(device, FERRY_MEMORY_DEVICE, 1000),
         *pinned = take(device, FERRY_MEMORY_PINNED, 1000);
    char pageable[100];
    REFUSES(device, copy_upload, memory, pageable, 100, stream);
    REFUSES(device, copy_download, pageable, memory, 100, stream);
    REFUSES(device, copy_upload, memory, pinned + 500, 501, stream);
    REFUSES(device, copy_upload, memory, memory, 1, stream);
    assert_int_equal(FERRYI_CALL(device, host_register, pageable, sizeof(pageable)), FERRY_OK);
    REFUSES(device, copy_upload, memory, pageable, 101, stream);
    assert_int_equal(FERRYI_CALL(device, host_register, pageable + 50, 10), FERRY_ERROR_CONFLICT);
    assert_int_equal(FERRYI_CALL(device, copy_upload, memory, pageable, 100, stream), FERRY_OK);
    assert_int_equal(ferryi_device_synchronize(device), FERRY_OK);
    assert_int_equal(FERRYI_CALL(device, host_unregister, pageable), FERRY_OK);
    REFUSES(device, copy_upload, memory, pageable, 100, stream);
    give(device, FERRY_MEMORY_PINNED, pinned);
    REFUSES(device, copy_upload, memory, pinned, 1, stream);
    give(device, FERRY_MEMORY_DEVICE, memory);
    close_all();
}

static void
test_every_part_of_a_copy_is_checked(void **state)
{
    (void)state;
    ferryi_device *device = open_spec("emulated");
    void *stream = device->default_stream;
    char *memory = take(device, FERRY_MEMORY_DEVICE, 1000),
         *pinned = take(device, FERRY_MEMORY_PINNED, 1000);
    memset(pinned, 1, 1000);
    struct ferryi_copy_2d rows = {memory, pinned, 100, 100, 10, 10, FERRY_DIRECTION_UPLOAD, NULL};
    assert_int_equal(FERRYI_CALL(device, copy_2d, &rows, stream), FERRY_OK);
    rows.rows = 11;
    REFUSES(device, copy_2d, &rows, stream);
    rows = (struct ferryi_copy_2d){memory, pinned, 9, 100, 10, 10, FERRY_DIRECTION_UPLOAD, NULL};
    REFUSES(device, copy_2d, &rows, stream);
    rows = (struct ferryi_copy_2d){memory, pinned, SIZE_MAX / 4,           100,
                                   10,     10,     FERRY_DIRECTION_UPLOAD, NULL};
    REFUSES(device, copy_2d, &rows, stream);
    rows = (struct ferryi_copy_2d){memory, pinned, 100, 100, 10, 10, FERRY_DIRECTION_HOST, NULL};
    REFUSES(device, copy_2d, &rows, stream);
    /* If one copy of a batch is invalid, the device performs none of its copies. */
    assert_int_equal(FERRYI_CALL(device, fill, memory, 0x22, 1, 1000, stream), FERRY_OK);
    struct ferryi_copy batch[] = {{memory, pinned, 10, FERRY_DIRECTION_UPLOAD, NULL},
                                  {memory + 995, pinned, 10, FERRY_DIRECTION_UPLOAD, NULL}};
    REFUSES(device, copy_batch, batch, 2, stream);
    assert_int_equal(ferryi_device_synchronize(device), FERRY_OK);
    assert_int_equal(memory[0], 0x22);
    REFUSES(device, copy_device, memory, memory + 5, 10, stream);
    REFUSES(device, fill, memory + 1, 0, 2, 1, stream);
    REFUSES(device, fill, memory, 0, 3, 1, stream);
    REFUSES(device, fill, memory, 0, 4, SIZE_MAX / 2, stream);
    give(device, FERRY_MEMORY_PINNED, pinned);
    give(device, FERRY_MEMORY_DEVICE, memory);
    close_all();
}

static void
test_wrong_frees_are_refused(void **state)
{
    (void)state;
    ferryi_device *device = open_spec("emulated:2");
    char *memory = take(device, FERRY_MEMORY_DEVICE, 1000);
    REFUSES(device, memory_free, FERRY_MEMORY_DEVICE, memory + 256);
    REFUSES(device, memory_free, FERRY_MEMORY_PINNED, memory);
    REFUSES(devices[1], memory_free, FERRY_MEMORY_DEVICE, memory);
    give(device, FERRY_MEMORY_DEVICE, memory);
    REFUSES(device, memory_free, FERRY_MEMORY_DEVICE, memory);
    void *out = NULL;
    REFUSES(device, memory_alloc, FERRY_MEMORY_PAGEABLE, 1, &out);
    assert_null(out);
    close_all();
}

static void
test_foreign_and_dead_streams_are_refused(void **state)
{
    (void)state;
    ferryi_device *device = open_spec("emulated:2");
    char *memory = take(device, FERRY_MEMORY_DEVICE, 1000);
    REFUSES(device, fill, memory, 0, 1, 1000, devices[1]->default_stream);
    REFUSES(device, fill, memory, 0, 1, 1000, NULL);
    void *stream = NULL;
    assert_int_equal(FERRYI_CALL(device, stream_create, &stream), FERRY_OK);
    assert_int_equal(FERRYI_CALL(device, stream_destroy, stream), FERRY_OK);
    REFUSES(device, fill, memory, 0, 1, 1000, stream);
    REFUSES(device, stream_destroy, stream);
    give(device, FERRY_MEMORY_DEVICE, memory);
    close_all();
}

static void
test_handles_of_destroyed_streams_come_back(void **state)
{
    (void)state;
    static const char *const specs[] = {"emulated", "lazy"};
    for (int i = 0; i < 2; i++) {
        ferryi_device *device = open_spec(specs[i]);
        char *memory = take(device, FERRY_MEMORY_DEVICE, 1000);
        void *first = NULL, *second = NULL;
        assert_int_equal(FERRYI_CALL(device, stream_create, &first), FERRY_OK);
        assert_int_equal(FERRYI_CALL(device, fill, memory, 1, 1, 1000, first), FERRY_OK);
        assert_int_equal(FERRYI_CALL(device, stream_destroy, first), FERRY_OK);
        assert_int_equal(FERRYI_CALL(device, stream_create, &second), FERRY_OK);
        assert_ptr_equal(first, second);
        assert_int_equal(FERRYI_CALL(device, stream_destroy, second), FERRY_OK);
        assert_int_equal(ferryi_device_synchronize(device), FERRY_OK);
        assert_int_equal(memory[999], 1);
        give(device, FERRY_MEMORY_DEVICE, memory);
        close_all();
    }
}

static size_t
free_bytes(ferryi_device *device)
{
    size_t free_now, total;
    assert_int_equal(FERRYI_CALL(device, memory_info, &free_now, &total), FERRY_OK);
    assert_int_equal(total, device->properties.total_bytes);
    return free_now;
}

static void
test_memory_is_limited(void **state)
{
    (void)state;
    struct ferryi_device_config config = {.emulated_memory_bytes = 4 * MEBIBYTE};
    ferryi_device *device = open_with("emulated:2", &config);
    assert_int_equal(free_bytes(device), 4 * MEBIBYTE);
    void *memory = take(device, FERRY_MEMORY_DEVICE, 3 * MEBIBYTE), *more = NULL;
    assert_int_equal(free_bytes(device), MEBIBYTE);
    assert_int_equal(FERRYI_CALL(device, memory_alloc, FERRY_MEMORY_DEVICE, MEBIBYTE + 1, &more),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(ferry_last_error(), "1048577"));
    assert_null(more);
    /* The memory limit of one device must not apply to the other device or to pinned memory of the
     * host. */
    give(devices[1], FERRY_MEMORY_DEVICE, take(devices[1], FERRY_MEMORY_DEVICE, 4 * MEBIBYTE));
    give(device, FERRY_MEMORY_PINNED, take(device, FERRY_MEMORY_PINNED, 8 * MEBIBYTE));
    more = take(device, FERRY_MEMORY_DEVICE, MEBIBYTE);
    assert_int_equal(free_bytes(device), 0);
    give(device, FERRY_MEMORY_DEVICE, more);
    give(device, FERRY_MEMORY_DEVICE, memory);
    assert_int_equal(free_bytes(device), 4 * MEBIBYTE);
    close_all();
    assert_int_equal(open_spec("emulated")->properties.total_bytes, 256 * MEBIBYTE);
    close_all();
}

static void
test_fresh_memory_is_garbage(void **state)
{
    (void)state;
    ferryi_device *device = open_spec("emulated");
    unsigned char *memory = take(device, FERRY_MEMORY_DEVICE, 1000),
                  *pinned = take(device, FERRY_MEMORY_PINNED, 1000);
    for (int i = 0; i < 1000; i++)
        assert_true(memory[i] == 0xCD && pinned[i] == 0xCD);
    give(device, FERRY_MEMORY_PINNED, pinned);
    give(device, FERRY_MEMORY_DEVICE, memory);
    close_all();
}

static void
test_memory_freed_under_queued_work_lasts_until_its_end(void **state)
{
    (void)state;
    ferryi_device *device = open_spec("emulated");
    for (int i = 0; i < 50; i++) {
        char *memory = take(device, FERRY_MEMORY_DEVICE, MEBIBYTE),
             *pinned = take(device, FERRY_MEMORY_PINNED, MEBIBYTE);
        assert_int_equal(
            FERRYI_CALL(device, copy_upload, memory, pinned, MEBIBYTE, device->default_stream),
            FERRY_OK);
        give(device, FERRY_MEMORY_PINNED, pinned);
        give(device, FERRY_MEMORY_DEVICE, memory);
        assert_int_equal(free_bytes(device), device->properties.total_bytes);
    }
    assert_int_equal(ferryi_device_synchronize(device), FERRY_OK);
    close_all();
}

static void
wait_until_set(void *flag)
{
    while (!atomic_load((atomic_bool *)flag))
        ferryi_sleep_ns(100000);
}

static void
test_memory_in_use_is_not_unregistered(void **state)
{
    (void)state;
    ferryi_device *device = open_spec("emulated");
    atomic_bool flag = false;
    char mine[100] = {0}, *memory = take(device, FERRY_MEMORY_DEVICE, 100);
    assert_int_equal(FERRYI_CALL(device, host_register, mine, sizeof(mine)), FERRY_OK);
    assert_int_equal(FERRYI_CALL(device, host_call, device->default_stream, wait_until_set, &flag),
                     FERRY_OK);
    assert_int_equal(FERRYI_CALL(device, copy_upload, memory, mine, 100, device->default_stream),
                     FERRY_OK);
    REFUSES(device, host_unregister, mine);
    atomic_store(&flag, true);
    assert_int_equal(ferryi_device_synchronize(device), FERRY_OK);
    assert_int_equal(FERRYI_CALL(device, host_unregister, mine), FERRY_OK);
    give(device, FERRY_MEMORY_DEVICE, memory);
    close_all();
}

/* Returns how long four uploads, four downloads, or both together take, in nanoseconds. Each copy
 * has 256 KiB, and uploads and downloads use different streams. */
static uint64_t
time_copies(const struct ferryi_device_config *config, bool up, bool down)
{
    ferryi_device *device = open_with("emulated", config);
    size_t bytes = 262144;
    char *memory = take(device, FERRY_MEMORY_DEVICE, 2 * bytes),
         *pinned = take(device, FERRY_MEMORY_PINNED, 2 * bytes);
    void *stream = NULL;
    assert_int_equal(FERRYI_CALL(device, stream_create, &stream), FERRY_OK);
    uint64_t begin = ferryi_now_ns();
    for (int i = 0; i < 4; i++) {
        if (up)
            assert_int_equal(FERRYI_CALL(device, copy_upload, memory, pinned, bytes, stream),
                             FERRY_OK);
        if (down)
            assert_int_equal(FERRYI_CALL(device, copy_download, pinned + bytes, memory + bytes,
                                         bytes, device->default_stream),
                             FERRY_OK);
    }
    assert_int_equal(ferryi_device_synchronize(device), FERRY_OK);
    uint64_t took = ferryi_now_ns() - begin;
    assert_int_equal(FERRYI_CALL(device, stream_destroy, stream), FERRY_OK);
    give(device, FERRY_MEMORY_PINNED, pinned);
    give(device, FERRY_MEMORY_DEVICE, memory);
    close_all();
    return took;
}

static void
test_the_link_takes_its_time(void **state)
{
    (void)state;
    /* At 16 MiB/s, copying one mebibyte takes 62.5 ms in each direction. The test checks only lower
     * bounds, because a busy machine may take longer. */
    struct ferryi_device_config config = {.emulated_bytes_per_second = 16 * MEBIBYTE};
    assert_true(time_copies(&config, true, false) >= 62000000);
    assert_true(time_copies(&config, false, true) >= 62000000);
    /* Copies in both directions at once take less time than first in one and then in the other
     * direction. The measurement is repeated because a busy machine may delay it. */
    uint64_t took = UINT64_MAX;
    for (int i = 0; i < 10 && took >= 120000000; i++) {
        took = time_copies(&config, true, true);
        assert_true(took >= 62000000);
    }
    assert_true(took < 120000000);
    config = (struct ferryi_device_config){.emulated_latency_ns = 5000000};
    assert_true(time_copies(&config, true, false) >= 20000000);
}

/* Checks that the emulated link starts each copy at the time when the previous copy ends. This
 * holds even if the thread that performs the copies wakes up late. */
static void
test_the_link_loses_no_time_between_copies(void **state)
{
    (void)state;
    enum { COPIES = 32 };
    const struct ferryi_device_config config = {.emulated_bytes_per_second = 64 * MEBIBYTE};
    const uint64_t whole = COPIES * UINT64_C(16384) * 1000000000 / config.emulated_bytes_per_second;
    ferryi_device *device = open_with("emulated", &config);
    char *memory = take(device, FERRY_MEMORY_DEVICE, 16384),
         *pinned = take(device, FERRY_MEMORY_PINNED, 16384);
    uint64_t begin = ferryi_now_ns();
    for (int i = 0; i < COPIES; i++)
        assert_int_equal(
            FERRYI_CALL(device, copy_upload, memory, pinned, 16384, device->default_stream),
            FERRY_OK);
    uint64_t queued = ferryi_now_ns();
    assert_int_equal(ferryi_device_synchronize(device), FERRY_OK);
    uint64_t end = ferryi_emulated_of(device)->link_free_ns[0];
    assert_in_range(end, begin + whole - COPIES, queued + whole);
    assert_true(ferryi_now_ns() >= end);
    give(device, FERRY_MEMORY_PINNED, pinned);
    give(device, FERRY_MEMORY_DEVICE, memory);
    close_all();
}

/* Copies 100 bytes to the device. Returns whether the copy was still queued after the call. */
static bool
leaves_a_short_copy_queued(const struct ferryi_device_config *config)
{
    ferryi_device *device = open_with("emulated", config);
    char *memory = take(device, FERRY_MEMORY_DEVICE, 100),
         *pinned = take(device, FERRY_MEMORY_PINNED, 100);
    void *event;
    bool done;
    assert_int_equal(FERRYI_CALL(device, event_create, false, &event), FERRY_OK);
    assert_int_equal(FERRYI_CALL(device, copy_upload, memory, pinned, 100, device->default_stream),
                     FERRY_OK);
    assert_int_equal(FERRYI_CALL(device, event_record, event, device->default_stream), FERRY_OK);
    assert_int_equal(FERRYI_CALL(device, event_query, event, &done), FERRY_OK);
    assert_int_equal(ferryi_device_synchronize(device), FERRY_OK);
    assert_int_equal(FERRYI_CALL(device, event_destroy, event), FERRY_OK);
    give(device, FERRY_MEMORY_PINNED, pinned);
    give(device, FERRY_MEMORY_DEVICE, memory);
    close_all();
    return !done;
}

/* The thread that submits a short copy performs it, but does not sleep for a latency. */
static void
test_a_submission_does_not_sleep(void **state)
{
    (void)state;
    struct ferryi_device_config config = {0};
    assert_false(leaves_a_short_copy_queued(&config));
    config.emulated_latency_ns = 20000000;
    bool queued = false;
    /* The check is repeated because a busy machine may delay the query. */
    for (int i = 0; i < 20 && !queued; i++)
        queued = leaves_a_short_copy_queued(&config);
    assert_true(queued);
}

static void
test_other_kinds_are_no_peers(void **state)
{
    (void)state;
    /* A device list cannot name both an emulated and a lazy device, so this test opens the lazy
     * device separately. */
    struct ferryi_device_config config = {0};
    ferryi_device *lazy[FERRYI_DEVICES_MAX], *device = open_spec("emulated");
    int lazy_count;
    assert_int_equal(ferryi_devices_open("lazy", &config, lazy, &lazy_count), FERRY_OK);
    char *memory = take(device, FERRY_MEMORY_DEVICE, 100),
         *foreign = take(lazy[0], FERRY_MEMORY_DEVICE, 100);
    assert_int_equal(
        FERRYI_CALL(device, copy_peer, memory, lazy[0], foreign, 100, device->default_stream),
        FERRY_ERROR_UNSUPPORTED);
    give(lazy[0], FERRY_MEMORY_DEVICE, foreign);
    give(device, FERRY_MEMORY_DEVICE, memory);
    lazy[0]->ops->close(lazy[0]);
    close_all();
}

static void
test_hints_need_managed_memory(void **state)
{
    (void)state;
    ferryi_device *device = open_spec("emulated,host");
    char *memory = take(device, FERRY_MEMORY_DEVICE, 100),
         *managed = take(device, FERRY_MEMORY_MANAGED, 100);
    REFUSES(device, prefetch, memory, 100, device, device->default_stream);
    REFUSES(device, prefetch, managed, 101, device, device->default_stream);
    REFUSES(device, prefetch, managed, 100, devices[1], device->default_stream);
    REFUSES(device, advise, memory, 100, 1, device);
    REFUSES(device, advise, managed, 100, 0, device);
    REFUSES(device, advise, managed, 100, 7, device);
    give(device, FERRY_MEMORY_MANAGED, managed);
    give(device, FERRY_MEMORY_DEVICE, memory);
    close_all();
}

int
main(void)
{
    lazy_register();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_pointers_are_checked),
        cmocka_unit_test(test_host_pointers_are_pinned),
        cmocka_unit_test(test_every_part_of_a_copy_is_checked),
        cmocka_unit_test(test_wrong_frees_are_refused),
        cmocka_unit_test(test_foreign_and_dead_streams_are_refused),
        cmocka_unit_test(test_handles_of_destroyed_streams_come_back),
        cmocka_unit_test(test_memory_is_limited),
        cmocka_unit_test(test_fresh_memory_is_garbage),
        cmocka_unit_test(test_memory_freed_under_queued_work_lasts_until_its_end),
        cmocka_unit_test(test_memory_in_use_is_not_unregistered),
        cmocka_unit_test(test_the_link_takes_its_time),
        cmocka_unit_test(test_the_link_loses_no_time_between_copies),
        cmocka_unit_test(test_a_submission_does_not_sleep),
        cmocka_unit_test(test_other_kinds_are_no_peers),
        cmocka_unit_test(test_hints_need_managed_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
