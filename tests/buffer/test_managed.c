/* SPDX-License-Identifier: MIT */
/* Tests managed buffers: prefetch and advice on ranges, for the host and any device. Ferry passes
 * prefetches and advice to the driver only if the program asks for them. */
#include "tests/buffer/support.h"

#include "src/device/emulated/emulated.h"
#include "tests/support/copies.h"
#include "tests/support/fakecuda.h"

enum { COUNT = 4096 };

static ferry_buffer *
make_managed(fixture *f)
{
    ferry_buffer *buffer;
    ferry_buffer_options options = {.name = "managed", .memory = FERRY_MEMORY_MANAGED};
    OK(ferry_buffer_create(f->context, INT, COUNT, &options, &buffer));
    return buffer;
}

static bool
takes_hints(fixture *f)
{
    ferry_place_info info;
    OK(ferry_context_get_place_info(f->context, 1, &info));
    return info.capabilities & FERRY_CAN_MANAGE_CONCURRENTLY;
}

/* Counts the calls for prefetch and advice that the emulated device received for the buffer's
 * memory. Returns false if the device is of a different kind. */
static bool
count_hints(fixture *f, ferry_buffer *buffer, uint64_t *out_prefetches, uint64_t *out_advices)
{
    if (!(device_of(f, 1)->capabilities & FERRYI_DEVICE_HOST_VISIBLE) || f->coherent)
        return false;
    void *memory;
    OK(ferry_buffer_hold(buffer, 0, &memory));
    struct ferryi_emulated_range *range =
        ferryi_emulated_host_range(memory, ferry_buffer_bytes(buffer), FERRYI_RANGE_MANAGED);
    OK(ferry_buffer_release(buffer, 0));
    assert_non_null(range);
    *out_prefetches = atomic_load(&range->prefetches);
    *out_advices = atomic_load(&range->advices);
    ferryi_range_release(range);
    return true;
}

/* Uses a managed buffer without asking for a prefetch or an advice. Ferry must not pass any such
 * hint to the driver. */
static void
test_no_hint_is_given_unasked(void **state)
{
    fixture *f = *state;
    uint64_t prefetches, advices;
    if (!takes_hints(f))
        return;
    ferry_buffer *b = make_managed(f);
    for (int place = 0; place <= f->places; place++) {
        write_counting(f, b, place, 0, FERRY_REST, place);
        OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 0, NULL));
        add_to(f, b, place, 10, 20, 1);
        int32_t value = 5;
        OK(ferry_buffer_copy_from(b, INT, 1, 1, &value, NULL));
        OK(copy_rows_from(b, INT, 0, 8, &value, 1, 1, 1, NULL));
        expect_counting(f, b, place, 100, FERRY_REST, place);
    }
    if (count_hints(f, b, &prefetches, &advices)) {
        assert_int_equal(prefetches, 0);
        assert_int_equal(advices, 0);
    }
    ferry_buffer_destroy(&b);
}

/* Prefetches the whole buffer and parts of it, to the host and to each device. Each prefetch must
 * pass one hint to the driver and change no value. */
static void
test_prefetches_are_counted(void **state)
{
    fixture *f = *state;
    uint64_t prefetches = 0, advices = 0;
    if (!takes_hints(f))
        return;
    ferry_buffer *b = make_managed(f), *view;
    write_counting(f, b, 0, 0, FERRY_REST, 3);
    OK(ferry_buffer_view(b, INT, 100, 50, &view));
    for (int place = 0; place <= f->places; place++) {
        OK(ferry_buffer_prefetch(b, 0, FERRY_REST, place, NULL));
        OK(ferry_buffer_prefetch(b, 1000, 24, place, NULL));
        OK(ferry_buffer_prefetch(view, 10, FERRY_REST, place, NULL));
        OK(ferry_buffer_prefetch(b, COUNT, 0, place, NULL)); /* an empty range */
        FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_buffer_prefetch(view, 10, 41, place, NULL));
        expect_counting(f, b, place, 0, FERRY_REST, 3);
    }
    OK(ferry_buffer_wait_idle(b, 0));
    if (count_hints(f, b, &prefetches, &advices)) {
        assert_int_equal(prefetches, 3 * (f->places + 1));
        assert_int_equal(advices, 0);
    }
    ferry_transfer_stats now = moved(f);
    assert_int_equal(crossing(&now), 0); /* Ferry copies nothing: the driver migrates pages */
    ferry_buffer_destroy(&view);
    ferry_buffer_destroy(&b);
}

/* All six kinds of advice reach the driver. The location of the advice may be the host or a
 * device. */
static void
test_the_six_advices(void **state)
{
    fixture *f = *state;
    uint64_t prefetches = 0, advices = 0;
    if (!takes_hints(f))
        return;
    ferry_buffer *b = make_managed(f);
    for (int place = 0; place <= f->places; place++) {
        for (int advice = FERRY_ADVISE_READ_MOSTLY; advice <= FERRY_ADVISE_UNSET_ACCESSED_BY;
             advice++) {
            OK(ferry_buffer_advise(b, 0, FERRY_REST, place, (ferry_advice)advice));
            OK(ferry_buffer_advise(b, 256, 512, place, (ferry_advice)advice));
            OK(ferry_buffer_advise(b, 256, 0, place, (ferry_advice)advice));
            FAILS(FERRY_ERROR_OUT_OF_RANGE,
                  ferry_buffer_advise(b, 256, COUNT, place, (ferry_advice)advice));
        }
    }
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_advise(b, 0, 1, 1, (ferry_advice)0));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT,
          ferry_buffer_advise(b, 0, 1, f->places + 1, FERRY_ADVISE_READ_MOSTLY));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT,
          ferry_buffer_advise(NULL, 0, 1, 1, FERRY_ADVISE_READ_MOSTLY));
    if (count_hints(f, b, &prefetches, &advices)) {
        assert_int_equal(prefetches, 0);
        assert_int_equal(advices, 12 * (f->places + 1));
    }
    ferry_buffer_destroy(&b);
}

/* Advice about memory that is not managed fails with FERRY_ERROR_UNSUPPORTED. */
static void
test_hints_where_nobody_takes_them(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_ints(f, COUNT);
    for (int place = 0; place <= f->places; place++) {
        FAILS(FERRY_ERROR_UNSUPPORTED,
              ferry_buffer_advise(b, 0, FERRY_REST, place, FERRY_ADVISE_PREFERRED_LOCATION));
        FAILS(FERRY_ERROR_UNSUPPORTED,
              ferry_buffer_advise(b, 0, 1, place, FERRY_ADVISE_ACCESSED_BY));
        OK(ferry_buffer_prefetch(b, 0, 100, place, NULL)); /* a prefetch copies unmanaged memory */
    }
    ferry_buffer_destroy(&b);
}

/* Ferry must pass the location of an advice or a prefetch to the driver unchanged. An old driver
 * has the functions cuMemAdvise() and cuMemPrefetchAsync(), and a new driver their _v2 versions. */
static void
test_the_driver_is_reported_the_location(void **state)
{
    fixture *f = *state;
    const char *library = getenv("FERRY_CUDA_LIBRARY");
    struct fakecuda fake;
    if (!library || !takes_hints(f) || !fakecuda_find(library, &fake))
        return;
    const bool is_old = strstr(library, "_old") != NULL;
    const char *advise = is_old ? "cuMemAdvise" : "cuMemAdvise_v2",
               *prefetch = is_old ? "cuMemPrefetchAsync" : "cuMemPrefetchAsync_v2";
    uint64_t advices = fake.fakecuda_calls_of(advise),
             prefetches = fake.fakecuda_calls_of(prefetch);
    ferry_buffer *b = make_managed(f);
    OK(ferry_buffer_advise(b, 0, 100, 1, FERRY_ADVISE_PREFERRED_LOCATION));
    assert_int_equal(fake.fakecuda_last_location(), 0);
    OK(ferry_buffer_advise(b, 0, FERRY_REST, 0, FERRY_ADVISE_ACCESSED_BY));
    assert_int_equal(fake.fakecuda_last_location(), -1);
    OK(ferry_buffer_prefetch(b, 0, 100, 1, NULL));
    assert_int_equal(fake.fakecuda_last_location(), 0);
    OK(ferry_buffer_prefetch(b, 0, FERRY_REST, 0, NULL));
    assert_int_equal(fake.fakecuda_last_location(), -1);
    assert_int_equal(fake.fakecuda_calls_of(advise), advices + 2);
    assert_int_equal(fake.fakecuda_calls_of(prefetch), prefetches + 2);
    OK(ferry_buffer_wait_idle(b, 0));
    ferry_buffer_destroy(&b);
}

/* Advice ends with the buffer: its memory is used again, and the next buffer gave none. Without
 * advice, no call is made at the end. Two buffers never share a page, because the driver keeps
 * advice for whole pages. */
static void
test_advice_ends_with_the_buffer(void **state)
{
    fixture *f = *state;
    const char *library = getenv("FERRY_CUDA_LIBRARY");
    struct fakecuda fake;
    if (!library || !takes_hints(f) || !fakecuda_find(library, &fake))
        return;
    const char *advise = strstr(library, "_old") ? "cuMemAdvise" : "cuMemAdvise_v2";
    ferry_buffer *neighbours[2] = {make_managed(f), make_managed(f)};
    uintptr_t pages[2];
    for (size_t i = 0; i < 2; i++) {
        void *memory;
        OK(ferry_buffer_hold(neighbours[i], 0, &memory));
        pages[i] = (uintptr_t)memory / ferryi_page_bytes();
        assert_int_equal((uintptr_t)memory % ferryi_page_bytes(), 0);
        OK(ferry_buffer_release(neighbours[i], 0));
    }
    assert_int_not_equal(pages[0], pages[1]);
    uint64_t before = fake.fakecuda_calls_of(advise);
    OK(ferry_buffer_advise(neighbours[0], 0, 10, 1, FERRY_ADVISE_READ_MOSTLY));
    assert_int_equal(fake.fakecuda_calls_of(advise), before + 1);
    ferry_buffer_destroy(&neighbours[0]);
    /* read-mostly, preferred location, and accessed-by of each place */
    assert_int_equal(fake.fakecuda_calls_of(advise), before + 3 + (unsigned)f->places + 1);
    before = fake.fakecuda_calls_of(advise);
    ferry_buffer_destroy(&neighbours[1]);
    assert_int_equal(fake.fakecuda_calls_of(advise), before);
}

/* Managed memory is unsupported on devices without concurrent access, for example on Windows or on
 * devices before Pascal. Only the fake driver can imitate such a device. */
static void
test_managed_memory_without_concurrent_access(void **state)
{
    (void)state;
    const char *library = getenv("FERRY_CUDA_LIBRARY");
    const ferry_buffer_options options = {.memory = FERRY_MEMORY_MANAGED};
    struct fakecuda fake;
    fixture without;
    ferry_buffer *b = NULL;
    if (!library || !fakecuda_find(library, &fake))
        return;
    fake.fakecuda_set_strict("managed");
    fixture_open(&without, NULL);
    assert_false(takes_hints(&without));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_buffer_create(without.context, INT, COUNT, &options, &b));
    assert_null(b);
    fixture_close(&without);
    fake.fakecuda_set_strict(getenv("FAKECUDA_STRICT"));
}

/* Managed buffers are the source and the target of batches and of copies of rows. The host and the
 * device must read the right values. */
static void
test_batches_of_managed_buffers(void **state)
{
    fixture *f = *state;
    if (!takes_hints(f))
        return;
    static int32_t memory[COUNT];
    ferry_buffer *m = make_managed(f), *b = make_ints(f, COUNT);
    copy_list *batch;
    write_counting(f, m, 1, 0, FERRY_REST, 1);
    write_counting(f, b, 1, 0, FERRY_REST, 2);
    OK(copy_list_create(&batch));
    for (size_t i = 0; i < 64; i++) {
        OK(copy_list_copy(batch, m, INT, 64 * i, b, 64 * i, 16));
        OK(copy_list_copy(batch, b, INT, 64 * i + 16, m, 64 * i + 16, 16));
        OK(copy_list_to(batch, m, INT, 64 * i, memory + 64 * i, 64));
    }
    OK(copy_list_submit(batch, NULL));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(memory[i], i + (i % 64 < 16 ? 2 : 1));
    expect_counting(f, b, 1, 16, 16, 1);
    expect_counting(f, m, 0, 0, 16, 2);
    expect_counting(f, m, 0, 32, 32, 1);
    OK(copy_rows(m, INT, 0, 64, b, 16, 64, 16, 60, NULL));
    expect_counting(f, m, 1, 64, 16, 1 + 16);
    copy_list_destroy(&batch);
    ferry_buffer_destroy(&m);
    ferry_buffer_destroy(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_hint_is_given_unasked),
        TEST(test_prefetches_are_counted),
        TEST(test_the_six_advices),
        TEST(test_hints_where_nobody_takes_them),
        TEST(test_the_driver_is_reported_the_location),
        TEST(test_advice_ends_with_the_buffer),
        cmocka_unit_test(test_managed_memory_without_concurrent_access),
        TEST(test_batches_of_managed_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
