/* SPDX-License-Identifier: MIT */
/*
 * Tests copies that convert between element types: their values, what they do on failure, and which
 * bytes cross.
 */
#include "src/convert/converter.h"
#include "tests/buffer/support.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include <ferry/byte_convert.h>
#include <ferry/double_convert.h>
#include <ferry/float_convert.h>
#include <ferry/int16_convert.h>
#include <ferry/int_convert.h>

#include "src/copy/convert_copy.h"
#include "tests/support/copies.h"
#include "tests/support/fault.h"

/* Copies into a buffer convert values in the same way at every place. Conversions from double to
 * float round to nearest even. Conversions to bytes round, and clamp to 0..255. NaN becomes 0 in
 * integers, and infinities saturate. */
static void
test_values_saturate_on_the_way_in(void **state)
{
    fixture *f = *state;
    const float floats[] = {-1.0f,  0.5f,  1.5f,     2.5f,      254.5f,
                            255.5f, 1e30f, INFINITY, -INFINITY, NAN};
    const uint8_t bytes[] = {0, 0, 2, 2, 254, 255, 255, 255, 0, 0};
    const int32_t ints[] = {-5, 0, 255, 256, INT32_MAX, INT32_MIN};
    const uint8_t int_bytes[] = {0, 0, 255, 255, 255, 0};
    const double doubles[] = {1.0 + 0x1p-24, 1.0 + 0x1.8p-23, 1e300, -INFINITY, 0.1};
    const float rounded[] = {1.0f, 1.0f + 0x1p-22f, INFINITY, -INFINITY, 0.1f};
    for (int place = 0; place <= f->places; place++) {
        uint8_t got[16];
        float got_floats[8];
        ferry_byte_buffer b;
        ferry_float_buffer r;
        OK(ferry_byte_create(f->context, 16, NULL, &b));
        touch(f, b.raw, place, FERRY_UPDATE, 0, FERRY_REST);
        OK(ferry_byte_copy_from_float(b, 0, LENGTH(floats), floats, FERRY_CONVERT_SATURATE, NULL));
        OK(ferry_byte_copy_to(b, 0, LENGTH(bytes), got, NULL));
        assert_memory_equal(got, bytes, sizeof(bytes));
        OK(ferry_byte_copy_from_int(b, 3, LENGTH(ints), ints, FERRY_CONVERT_SATURATE, NULL));
        OK(ferry_byte_copy_to(b, 3, LENGTH(int_bytes), got, NULL));
        assert_memory_equal(got, int_bytes, sizeof(int_bytes));
        assert_true(ferry_buffer_is_current(b.raw, place));
        ferry_byte_destroy(&b);
        OK(ferry_float_create(f->context, LENGTH(doubles), NULL, &r));
        touch(f, r.raw, place, FERRY_UPDATE, 0, FERRY_REST);
        ferry_transfer_stats before = moved(f);
        FAILS(
            FERRY_ERROR_INVALID_ARGUMENT,
            ferry_float_copy_from_double(r, 0, LENGTH(doubles), doubles, FERRY_CONVERT_NONE, NULL));
        OK(ferry_float_copy_from_double(r, 0, LENGTH(doubles), doubles, FERRY_CONVERT_SATURATE,
                                        NULL));
        expect_moved(f, &before, place ? sizeof(rounded) : 0,
                     0); /* only bytes of the narrower target type are transferred */
        OK(ferry_float_copy_to(r, 0, LENGTH(doubles), got_floats, NULL));
        assert_memory_equal(got_floats, rounded, sizeof(rounded));
        ferry_float_destroy(&r);
    }
}

/* Copies out of a buffer and between buffers convert by the same rules as copies into a buffer. The
 * copies in this test take one or several chunks. */
static void
test_values_convert_on_the_way_out_and_between_buffers(void **state)
{
    fixture *f = *state;
    enum { COUNT = 100001 };
    double *doubles = malloc(COUNT * sizeof(double));
    int32_t *got = malloc(COUNT * sizeof(int32_t));
    assert_true(doubles && got);
    for (int i = 0; i < COUNT; i++)
        doubles[i] = i * 0.5 - 1000;
    for (int place = 0; place <= f->places; place++) {
        for (int there = 0; there <= f->places; there++) {
            ferry_double_buffer d;
            ferry_int_buffer n;
            OK(ferry_double_create_from(f->context, COUNT, doubles, NULL, &d));
            touch(f, d.raw, place, FERRY_UPDATE, 0, FERRY_REST);
            OK(ferry_double_copy_to_int(d, 1, COUNT - 1, got, FERRY_CONVERT_SATURATE, NULL));
            for (int i = 1; i < COUNT; i++)
                assert_int_equal(got[i - 1], (int32_t)nearbyint(doubles[i]));
            OK(ferry_int_create(f->context, COUNT, NULL, &n));
            touch(f, n.raw, there, FERRY_UPDATE, 0, FERRY_REST);
            OK(ferry_int_convert_from_double(n, 10, d, 0, COUNT - 10, FERRY_CONVERT_TRUNCATE,
                                             NULL));
            OK(ferry_int_copy_to(n, 0, COUNT, got, NULL));
            for (int i = 0; i < COUNT; i++)
                assert_int_equal(got[i], i < 10 ? 0 : (int32_t)trunc(doubles[i - 10]));
            ferry_double_destroy(&d);
            ferry_int_destroy(&n);
        }
    }
    free(doubles);
    free(got);
}

/* With FERRY_CONVERT_CHECK, a copy with a bad element leaves the target unchanged.
 * ferry_error_index() then returns the index of the first bad element. */
static void
test_checked_conversions_change_nothing_when_they_fail(void **state)
{
    fixture *f = *state;
    enum { COUNT = 1000 };
    for (int place = 0; place <= f->places; place++) {
        static double doubles[COUNT];
        static int32_t got[COUNT];
        ferry_buffer *n = make_ints(f, COUNT);
        ferry_double_buffer d;
        write_counting(f, n, place, 0, FERRY_REST, 5);
        for (int i = 0; i < COUNT; i++)
            doubles[i] = i + 0.25;
        doubles[700] = 1e10;
        doubles[800] = NAN;
        ferry_int_buffer ints = {n};
        snapshot before = take_snapshot(n);
        FAILS(FERRY_ERROR_OUT_OF_RANGE,
              ferry_int_copy_from_double(ints, 0, COUNT, doubles, FERRY_CONVERT_CHECK, NULL));
        assert_int_equal(ferry_error_index(), 700);
        expect_unchanged(n, &before);
        FAILS(FERRY_ERROR_OUT_OF_RANGE,
              ferry_int_copy_from_double(ints, 5, 20, doubles + 690, FERRY_CONVERT_CHECK, NULL));
        assert_int_equal(ferry_error_index(), 10);
        OK(ferry_double_create_from(f->context, COUNT, doubles, NULL, &d));
        touch(f, d.raw, place, FERRY_UPDATE, 0, FERRY_REST);
        memset(got, 0x55, sizeof(got));
        FAILS(FERRY_ERROR_OUT_OF_RANGE,
              ferry_double_copy_to_int(d, 600, 300, got, FERRY_CONVERT_CHECK, NULL));
        assert_int_equal(ferry_error_index(), 100);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(got[i], 0x55555555);
        before = take_snapshot(n);
        FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_int_convert_from_double(ints, 0, d, 701, FERRY_REST,
                                                                      FERRY_CONVERT_CHECK, NULL));
        assert_int_equal(ferry_error_index(), 99);
        assert_int_equal(take_snapshot(n).info.scopes, 0);
        expect_counting(f, n, 0, 0, FERRY_REST, 5);
        FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_int_copy_from(ints, 0, 1, NULL, NULL));
        assert_int_equal(ferry_error_index(), (size_t)-1);
        /* A range whose elements all fit is copied. */
        OK(ferry_int_copy_from_double(ints, 0, 700, doubles, FERRY_CONVERT_CHECK, NULL));
        expect_counting(f, n, 0, 0, 700, 0);
        OK(ferry_double_copy_to_int(d, 0, 700, got, FERRY_CONVERT_CHECK, NULL));
        assert_int_equal(got[699], 699);
        ferry_double_destroy(&d);
        ferry_buffer_destroy(&n);
    }
}

/* -- what crosses ------------------------------------------------------------------------------ */

enum { CROSSING = 1001 };

/* Memory for elements of the widest type. */
static double wide[CROSSING];
static unsigned char narrow[CROSSING], got[CROSSING * sizeof(double)];

/* Number of bytes per element that uploads and downloads should transfer if they convert to a
 * narrower or to a wider type. */
struct crossings {
    size_t up_to_narrow, up_to_wide, down_to_narrow, down_to_wide;
};

static void
expect_crossings(fixture *f, int place, const struct crossings *expected)
{
    ferry_float_buffer narrower;
    ferry_double_buffer wider;
    ferry_byte_buffer bytes;
    for (int i = 0; i < CROSSING; i++) {
        wide[i] = i % 200 + 0.5;
        narrow[i] = (unsigned char)i;
    }
    OK(ferry_float_create(f->context, CROSSING, NULL, &narrower));
    OK(ferry_double_create(f->context, CROSSING, NULL, &wider));
    OK(ferry_byte_create_from(f->context, CROSSING, narrow, NULL, &bytes));
    touch(f, narrower.raw, place, FERRY_OVERWRITE, 0, FERRY_REST);
    touch(f, wider.raw, place, FERRY_OVERWRITE, 0, FERRY_REST);
    touch(f, bytes.raw, place, FERRY_UPDATE, 0, FERRY_REST);

    ferry_transfer_stats before = moved(f);
    OK(ferry_float_copy_from_double(narrower, 0, CROSSING, wide, FERRY_CONVERT_SATURATE, NULL));
    expect_moved(f, &before, expected->up_to_narrow * CROSSING, 0);
    before = moved(f);
    OK(ferry_double_copy_from_byte(wider, 0, CROSSING, narrow, FERRY_CONVERT_SATURATE, NULL));
    expect_moved(f, &before, expected->up_to_wide * CROSSING, 0);
    before = moved(f);
    OK(ferry_double_copy_to_byte(wider, 0, CROSSING, got, FERRY_CONVERT_SATURATE, NULL));
    expect_moved(f, &before, 0, expected->down_to_narrow * CROSSING);
    assert_memory_equal(got, narrow, CROSSING);
    before = moved(f);
    OK(ferry_byte_copy_to_double(bytes, 0, CROSSING, (double *)(void *)got, FERRY_CONVERT_SATURATE,
                                 NULL));
    expect_moved(f, &before, 0, expected->down_to_wide * CROSSING);
    for (int i = 0; i < CROSSING; i++)
        assert_true(((double *)(void *)got)[i] == narrow[i]);
    OK(ferry_float_copy_to(narrower, 0, CROSSING, (float *)(void *)got, NULL));
    for (int i = 0; i < CROSSING; i++)
        assert_true(((float *)(void *)got)[i] == (float)wide[i]);
    assert_true(ferry_buffer_is_current(narrower.raw, place));
    assert_true(ferry_buffer_is_current(wider.raw, place));
    ferry_float_destroy(&narrower);
    ferry_double_destroy(&wider);
    ferry_byte_destroy(&bytes);
}

/* Skips the test on a device that cannot convert. A CUDA device needs conversion kernels that were
 * compiled with the CUDA toolkit, or NVRTC. */
static void
need_conversions(fixture *f)
{
    const ferry_conversion widening = {.from = ferry_byte_element(), .to = ferry_double_element()};
    if (f->places > 0 && strcmp(device_of(f, 1)->kind, "cuda") == 0 &&
        !ferryi_device_converts(f->context, 1, &widening))
        skip();
}

/* A converting transfer moves elements of the narrower type. An upload converts into the staging
 * chunk if the target is narrower, and on the device if the source is narrower. A download converts
 * on the device if the target is narrower, and on the host if the source is narrower. */
static void
test_the_fewest_bytes_cross(void **state)
{
    fixture *f = *state;
    need_conversions(f);
    const struct crossings fewest = {4, 1, 1, 1};
    for (int place = 1; place <= f->places; place++)
        expect_crossings(f, place, &fewest);
}

/* A conversion between two buffers counts for the one that is written, also if its elements pass
 * through temporary storage of the device. */
static void
test_traffic_is_that_of_the_written_buffer(void **state)
{
    fixture *f = *state;
    for (int place = 1; place <= f->places; place++) {
        ferry_byte_buffer source;
        ferry_double_buffer target;
        ferry_buffer_info from, to;
        ferry_transfer_stats before = moved(f);
        const ferry_copy_options there = {.stream = stream_of(f, place)};
        OK(ferry_byte_create_from(f->context, CROSSING, narrow, NULL, &source));
        OK(ferry_double_create(f->context, CROSSING, NULL, &target));
        OK(ferry_double_convert_from_byte(target, 0, source, 0, CROSSING, FERRY_CONVERT_SATURATE,
                                          &there));
        OK(ferry_buffer_get_info(source.raw, &from));
        OK(ferry_buffer_get_info(target.raw, &to));
        assert_int_equal(from.to_device.bytes, 0);
        assert_int_equal(to.to_device.bytes, moved(f).upload.bytes - before.upload.bytes);
        ferry_double_destroy(&target);
        ferry_byte_destroy(&source);
    }
}

/* If a device has no code for a conversion, the host converts and produces the same values. */
static void
test_the_host_converts_for_a_device_that_cannot(void **state)
{
    fixture *f = *state;
    const struct crossings all_on_host = {4, 8, 8, 1};
    for (int place = 1; place <= f->places; place++) {
        ferryi_converter *kept = f->context->converters[place];
        f->context->converters[place] = NULL;
        expect_crossings(f, place, &all_on_host);
        f->context->converters[place] = kept;
    }
}

/* If source and target are on the same device, the conversion runs there. Nothing is transferred,
 * except the result of a FERRY_CONVERT_CHECK. */
static void
test_buffers_on_a_device_convert_there(void **state)
{
    fixture *f = *state;
    need_conversions(f);
    static int32_t ints[CROSSING];
    for (int place = 1; place <= f->places; place++) {
        ferry_double_buffer d;
        ferry_int_buffer n;
        for (int i = 0; i < CROSSING; i++)
            wide[i] = i * 0.5 - 100;
        wide[900] = 1e10;
        OK(ferry_double_create_from(f->context, CROSSING, wide, NULL, &d));
        OK(ferry_int_create(f->context, CROSSING, NULL, &n));
        touch(f, d.raw, place, FERRY_UPDATE, 0, FERRY_REST);
        touch(f, n.raw, place, FERRY_OVERWRITE, 0, FERRY_REST);
        ferry_transfer_stats before = moved(f);
        OK(ferry_int_convert_from_double(n, 1, d, 0, CROSSING - 1, FERRY_CONVERT_SATURATE, NULL));
        expect_moved(f, &before, 0, 0);
        assert_true(ferry_buffer_is_current(n.raw, place));
        assert_false(ferry_buffer_is_current(n.raw, 0));

        before = moved(f);
        FAILS(FERRY_ERROR_OUT_OF_RANGE,
              ferry_int_convert_from_double(n, 0, d, 800, FERRY_REST, FERRY_CONVERT_CHECK, NULL));
        assert_int_equal(ferry_error_index(), 100);
        OK(ferry_int_convert_from_double(n, 1, d, 0, 900, FERRY_CONVERT_CHECK, NULL));
        FAILS(FERRY_ERROR_OUT_OF_RANGE,
              ferry_double_copy_to_int(d, 0, CROSSING, ints, FERRY_CONVERT_CHECK, NULL));
        assert_int_equal(ferry_error_index(), 900);
        expect_moved(f, &before, 0, 3 * sizeof(uint64_t));

        OK(ferry_int_copy_to(n, 0, CROSSING, ints, NULL));
        for (int i = 1; i < CROSSING; i++)
            assert_int_equal(ints[i], i == 901 ? INT32_MAX : (int32_t)nearbyint(wide[i - 1]));
        before = moved(f);
        OK(ferry_double_copy_to_int(d, 0, 900, ints, FERRY_CONVERT_CHECK, NULL));
        expect_moved(f, &before, 0, 900 * sizeof(int32_t) + sizeof(uint64_t));
        assert_int_equal(ints[899], (int32_t)nearbyint(wide[899]));
        ferry_double_destroy(&d);
        ferry_int_destroy(&n);
    }
}

/* Arrays that are too large for the scratch memory are converted in several parts. This works even
 * from addresses that are not aligned for vectors. */
static void
test_large_arrays_cross_in_parts(void **state)
{
    fixture *f = *state;
    need_conversions(f);
    enum { LARGE = (9 << 20) + 77 };
    unsigned char *from = malloc(LARGE), *to = malloc(LARGE);
    assert_true(from && to);
    for (size_t i = 0; i < LARGE; i++)
        from[i] = (unsigned char)(i * 31 % 251);
    for (int place = 1; place <= f->places && place < 2; place++) {
        ferry_int16_buffer b;
        OK(ferry_int16_create(f->context, LARGE + 3, NULL, &b));
        touch(f, b.raw, place, FERRY_OVERWRITE, 0, FERRY_REST);
        ferry_transfer_stats before = moved(f);
        OK(ferry_int16_copy_from_byte(b, 3, LARGE, from, FERRY_CONVERT_SATURATE, NULL));
        OK(ferry_int16_copy_to_byte(b, 3, LARGE, to, FERRY_CONVERT_SATURATE, NULL));
        expect_moved(f, &before, LARGE, LARGE);
        assert_memory_equal(from, to, LARGE);
        ferry_int16_destroy(&b);
    }
    free(from);
    free(to);
}

/* A conversion function of the test program. Such functions always run on the host. */
static ferry_status
double_of_byte(void *target, const void *source, size_t count, ferry_convert_policy policy)
{
    (void)policy;
    for (size_t i = 0; i < count; i++)
        ((double *)target)[i] = -(double)((const unsigned char *)source)[i];
    return FERRY_OK;
}

static ferry_status
byte_of_double(void *target, const void *source, size_t count, ferry_convert_policy policy)
{
    const double *from = source;
    for (size_t i = 0; i < count && policy == FERRY_CONVERT_CHECK; i++)
        if (!(from[i] >= -255 && from[i] <= 0))
            return ferry_conversion_failed(&(ferry_conversion){.from = DOUBLE, .to = BYTE}, i);
    for (size_t i = 0; i < count && target; i++)
        ((unsigned char *)target)[i] = (unsigned char)-from[i];
    return FERRY_OK;
}

/* If the program supplies the conversion function, values on a device are transferred once and
 * checked on the host. If one value is bad, none is stored. */
static void
test_own_functions_check_what_comes_from_a_device(void **state)
{
    fixture *f = *state;
    const ferry_conversion own = {.from = DOUBLE, .to = BYTE, .convert = byte_of_double};
    for (int place = 0; place <= f->places; place++) {
        static double values[CROSSING];
        ferry_double_buffer d;
        for (int i = 0; i < CROSSING; i++)
            values[i] = -(i % 200);
        OK(ferry_double_create_from(f->context, CROSSING, values, NULL, &d));
        touch(f, d.raw, place, FERRY_UPDATE, 0, FERRY_REST);
        ferry_transfer_stats before = moved(f);
        memset(narrow, 7, CROSSING);
        OK(copy_to_converted(d.raw, &own, 1, CROSSING - 1, narrow, FERRY_CONVERT_CHECK, NULL));
        expect_moved(f, &before, 0,
                     place > 0 && !f->coherent ? sizeof(double) * (CROSSING - 1) : 0);
        const unsigned char *bytes = (const unsigned char *)narrow;
        for (int i = 1; i < CROSSING; i++)
            assert_int_equal(bytes[i - 1], i % 200);
        values[900] = 3;
        OK(ferry_double_copy_from(d, 0, CROSSING, values, NULL));
        touch(f, d.raw, place, FERRY_UPDATE, 0, FERRY_REST);
        memset(narrow, 7, CROSSING);
        FAILS(FERRY_ERROR_OUT_OF_RANGE,
              copy_to_converted(d.raw, &own, 0, CROSSING, narrow, FERRY_CONVERT_CHECK, NULL));
        assert_int_equal(ferry_error_index(), 900);
        for (int i = 0; i < CROSSING; i++)
            assert_int_equal(bytes[i], 7);
        ferry_double_destroy(&d);
    }
}

static void
test_own_functions_run_on_the_host(void **state)
{
    fixture *f = *state;
    const ferry_conversion own = {.from = BYTE, .to = DOUBLE, .convert = double_of_byte};
    for (int place = 1; place <= f->places; place++) {
        ferry_double_buffer d;
        OK(ferry_double_create(f->context, CROSSING, NULL, &d));
        touch(f, d.raw, place, FERRY_OVERWRITE, 0, FERRY_REST);
        memset(narrow, 7, sizeof(narrow));
        ferry_transfer_stats before = moved(f);
        OK(copy_from_converted(d.raw, &own, 0, CROSSING, narrow, FERRY_CONVERT_SATURATE, NULL));
        expect_moved(f, &before, sizeof(double) * CROSSING, 0);
        OK(ferry_double_copy_to(d, 0, CROSSING, (double *)(void *)got, NULL));
        assert_true(((double *)(void *)got)[CROSSING - 1] == -7);
        ferry_double_destroy(&d);
    }
}

static ferry_status
negative_double_of_int(void *target, const void *source, size_t count, ferry_convert_policy policy)
{
    (void)policy;
    for (size_t i = 0; i < count; i++) {
        int32_t value;
        memcpy(&value, (const char *)source + i * sizeof(value), sizeof(value));
        ((double *)target)[i] = -(double)value - 1;
    }
    return FERRY_OK;
}

enum { PATCHED = 4096, PATCHED_ROWS = 8, PATCHED_COLUMNS = 400, PATCHED_PITCH = 512 };

/* Makes a buffer whose stretches are current at different places. Some were never written. Some
 * begin and end within an element. `expected` receives the values. */
static ferry_buffer *
make_patched(fixture *f, int32_t *expected)
{
    ferry_buffer *buffer = make_ints(f, PATCHED);
    ferry_byte_buffer bytes;
    memset(expected, 0, PATCHED * sizeof(*expected));
    for (size_t at = 0; at < PATCHED; at += 64) {
        int place = (int)(at / 64) % (f->places + 2);
        if (place > f->places)
            continue;
        write_counting(f, buffer, place, at, 64, 0);
        for (size_t i = at; i < at + 64; i++)
            expected[i] = (int32_t)i;
    }
    OK(ferry_byte_reinterpret(buffer, 0, FERRY_REST, &bytes));
    for (size_t at = 1001; at < sizeof(int32_t) * PATCHED; at += 1003) {
        unsigned char *memory;
        ferry_scope scope;
        OK(ferry_byte_update_host_range(bytes, at, 5, &scope, &memory));
        memset(memory, 1, 5);
        OK(ferry_scope_close(&scope));
        memset((char *)expected + at, 1, 5);
    }
    ferry_byte_destroy(&bytes);
    return buffer;
}

/* Writes a line for each stretch of a patched buffer: the places where it is current. */
static void
describe_patched(fixture *f, ferry_buffer *buffer, char *text)
{
    for (size_t at = 0; at < PATCHED; at += 64) {
        ferry_buffer *view;
        OK(ferry_buffer_view(buffer, INT, at, 64, &view));
        for (int place = 0; place <= f->places; place++)
            *text++ = ferry_buffer_is_current(view, place) ? '1' : '0';
        *text++ = '\n';
        ferry_buffer_destroy(&view);
    }
    *text = '\0';
}

/* Copies the rows out, as double by one of the ways. */
static ferry_status
copy_out_patched(ferry_buffer *buffer, int way, size_t rows, double *target)
{
    const ferry_conversion own = {.from = INT, .to = DOUBLE, .convert = negative_double_of_int};
    const ferry_copy_options options = {.convert = way == 1 ? FERRY_CONVERT_CHECK
                                                            : FERRY_CONVERT_SATURATE};
    const ferry_copy_region region = {
        .source = {.buffer = buffer, .row_pitch = rows > 1 ? PATCHED_PITCH : 0},
        .target = {.memory = target, .element = DOUBLE},
        .count = rows > 1 ? PATCHED_COLUMNS : PATCHED,
        .rows = rows,
        .conversion = way == 2 ? &own : NULL};
    return ferry_copy(&region, 1, &options);
}

/* A converting copy out of a buffer leaves every byte where it is, as a plain copy does. */
static void
test_converting_out_moves_nothing(void **state)
{
    fixture *f = *state;
    static int32_t expected[PATCHED];
    static double target[PATCHED];
    for (int way = 0; way < 3; way++)
        for (size_t rows = 1; rows <= PATCHED_ROWS; rows += PATCHED_ROWS - 1) {
            char before[2000], after[2000];
            ferry_buffer *buffer = make_patched(f, expected);
            describe_patched(f, buffer, before);
            OK(copy_out_patched(buffer, way, rows, target));
            describe_patched(f, buffer, after);
            assert_string_equal(before, after);
            const size_t columns = rows > 1 ? PATCHED_COLUMNS : PATCHED;
            for (size_t i = 0; i < rows * columns; i++) {
                const double value = expected[i / columns * PATCHED_PITCH + i % columns];
                if (target[i] != (way == 2 ? -value - 1 : value))
                    fail_msg("way %d, %zu rows: element %zu is %g", way, rows, i, target[i]);
            }
            ferry_buffer_destroy(&buffer);
        }
}

/* What another thread does while this one converts. */
struct neighbour {
    fixture *f;
    ferry_buffer *buffer;
    atomic_bool stops;
};

/* Reads single bytes at the host, so that they become current there, within elements that are not.
 */
static void *
read_bytes(void *user)
{
    struct neighbour *neighbour = user;
    ferry_byte_buffer bytes;
    OK(ferry_byte_reinterpret(neighbour->buffer, 0, FERRY_REST, &bytes));
    for (size_t at = 1; at < sizeof(int32_t) * PATCHED && !neighbour->stops; at += 37) {
        const unsigned char *memory;
        ferry_scope scope;
        OK(ferry_byte_read_host_range(bytes, at, 1, &scope, &memory));
        OK(ferry_scope_close(&scope));
    }
    ferry_byte_destroy(&bytes);
    return NULL;
}

/* Reads of other threads may split the stretches of the source while they are listed. */
static void
test_converting_out_beside_readers(void **state)
{
    fixture *f = *state;
    static double target[PATCHED];
    for (int repetition = 0; repetition < 60; repetition++) {
        ferry_buffer *buffer = make_ints(f, PATCHED);
        struct neighbour neighbour = {.f = f, .buffer = buffer};
        pthread_t thread;
        write_counting(f, buffer, 1, 0, PATCHED, 5);
        pthread_create(&thread, NULL, read_bytes, &neighbour);
        for (int way = 0; way < 3; way++) {
            const size_t rows = repetition % 2 ? 1 : PATCHED_ROWS;
            const size_t columns = rows > 1 ? PATCHED_COLUMNS : PATCHED;
            OK(copy_out_patched(buffer, way, rows, target));
            for (size_t i = 0; i < rows * columns; i++) {
                const double value = (double)(i / columns * PATCHED_PITCH + i % columns + 5);
                assert_true(target[i] == (way == 2 ? -value - 1 : value));
            }
        }
        neighbour.stops = true;
        pthread_join(thread, NULL);
        ferry_buffer_destroy(&buffer);
    }
}

static void *
resize_often(void *user)
{
    struct neighbour *neighbour = user;
    for (size_t i = 0; !neighbour->stops; i++) {
        ferry_status status = ferry_buffer_resize(neighbour->buffer, i % 2 ? PATCHED : 16);
        assert_true(status == FERRY_OK || status == FERRY_ERROR_BUSY);
    }
    return NULL;
}

static void
test_converting_out_beside_a_resize(void **state)
{
    fixture *f = *state;
    static double target[PATCHED];
    ferry_buffer *buffer = make_ints(f, PATCHED);
    struct neighbour neighbour = {.f = f, .buffer = buffer};
    pthread_t thread;
    pthread_create(&thread, NULL, resize_often, &neighbour);
    for (int i = 0; i < 3000; i++) {
        ferry_status status = copy_out_patched(buffer, 0, 1, target);
        assert_true(status == FERRY_OK || status == FERRY_ERROR_OUT_OF_RANGE);
    }
    neighbour.stops = true;
    pthread_join(thread, NULL);
    ferry_buffer_destroy(&buffer);
}

/* Number of calls for which refuse_at_last() succeeds. All later calls fail. */
static int calls_until_refusal;

static ferry_status
refuse_at_last(void *target, const void *source, size_t count, ferry_convert_policy policy)
{
    if (calls_until_refusal-- <= 0)
        return FERRY_ERROR_INVALID_ARGUMENT;
    return double_of_byte(target, source, count, policy);
}

/* A copy converts its elements in parts. If the program's conversion function fails for a part, the
 * copy stops and returns the function's status. The elements of this part and of all later parts
 * keep their values. */
static void
test_own_functions_may_refuse(void **state)
{
    fixture *f = *state;
    const ferry_conversion own = {.from = BYTE, .to = DOUBLE, .convert = refuse_at_last};
    double *values = malloc(CROSSING * sizeof(double));
    assert_non_null(values);
    memset(narrow, 7, sizeof(narrow));
    for (int place = 0; place <= f->places; place++) {
        ferry_double_buffer d;
        ferry_byte_buffer n;
        OK(ferry_double_create(f->context, CROSSING, NULL, &d));
        OK(ferry_byte_create_from(f->context, CROSSING, (const uint8_t *)narrow, NULL, &n));
        for (int before = 0; before < 3; before++) {
            touch(f, d.raw, place, FERRY_OVERWRITE, 0, FERRY_REST);
            double one = 1;
            OK(ferry_buffer_fill(d.raw, DOUBLE, 0, FERRY_REST, &one, NULL));
            calls_until_refusal = before;
            ferry_status status =
                copy_from_converted(d.raw, &own, 0, CROSSING, narrow, FERRY_CONVERT_TRUNCATE, NULL);
            if (status == FERRY_OK) /* the copy had at most `before` parts, so no call failed */
                assert_true(calls_until_refusal >= 0);
            else
                assert_int_equal(status, FERRY_ERROR_INVALID_ARGUMENT);
            OK(ferry_double_copy_to(d, 0, CROSSING, values, NULL));
            for (int i = 0; i < CROSSING; i++) {
                if (values[i] != (status == FERRY_OK ? -7 : 1) && !(before > 0 && values[i] == -7))
                    fail_msg("place %d, after %d parts: element %d is %g", place, before, i,
                             values[i]);
            }
        }
        touch(f, n.raw, place, FERRY_UPDATE, 0, FERRY_REST);
        calls_until_refusal = 0;
        FAILS(FERRY_ERROR_INVALID_ARGUMENT,
              copy_to_converted(n.raw, &own, 0, CROSSING, values, FERRY_CONVERT_SATURATE, NULL));
        assert_non_null(strstr(ferry_last_error(), "the program's function refused"));
        calls_until_refusal = 0;
        FAILS(FERRY_ERROR_INVALID_ARGUMENT,
              convert_buffer(d.raw, &own, 0, n.raw, 0, CROSSING, FERRY_CONVERT_SATURATE, NULL));
        ferry_double_destroy(&d);
        ferry_byte_destroy(&n);
    }
    free(values);
}

/* If the device has no scratch memory left, the host converts instead. */
static void
test_no_room_for_scratch(void **state)
{
    fixture *f = *state;
    enum { COUNT = 1 << 20 };
    unsigned char *bytes = calloc(COUNT, 1);
    assert_non_null(bytes);
    fixture_close(f);
    const ferry_context_options options = {.device_bytes_limit =
                                               COUNT * sizeof(double) + (64 << 10)};
    fixture_open(f, &options);
    ferry_double_buffer d;
    OK(ferry_double_create(f->context, COUNT, NULL, &d));
    touch(f, d.raw, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    memset(bytes, 3, COUNT);
    ferry_transfer_stats before = moved(f);
    OK(ferry_double_copy_from_byte(d, 0, COUNT, bytes, FERRY_CONVERT_SATURATE, NULL));
    expect_moved(f, &before, COUNT * sizeof(double), 0);
    memset(bytes, 0, COUNT);
    before = moved(f);
    OK(ferry_double_copy_to_byte(d, 0, COUNT, bytes, FERRY_CONVERT_SATURATE, NULL));
    expect_moved(f, &before, 0, COUNT * sizeof(double));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(bytes[i], 3);
    ferry_double_destroy(&d);
    free(bytes);
}

static ferry_status
refuse_memory(const char *slot, void *user)
{
    (void)user;
    return strcmp(slot, "memory_alloc") == 0 ? FERRY_ERROR_DEVICE : FERRY_OK;
}

enum way { UP, DOWN, CHECKED, WAYS };

static ferry_status
convert_by(enum way way, ferry_double_buffer d, unsigned char *bytes, size_t count)
{
    if (way == UP)
        return ferry_double_copy_from_byte(d, 0, count, bytes, FERRY_CONVERT_SATURATE, NULL);
    return ferry_double_copy_to_byte(
        d, 0, count, bytes, way == DOWN ? FERRY_CONVERT_SATURATE : FERRY_CONVERT_CHECK, NULL);
}

/* If allocating scratch memory fails for a reason other than a lack of memory, the conversion
 * fails. */
static void
test_scratch_that_fails(void **state)
{
    enum { COUNT = 1 << 20 };
    (void)state;
    unsigned char *bytes = calloc(COUNT, 1);
    assert_non_null(bytes);
    for (enum way way = UP; way < WAYS; way++) {
        fixture f;
        ferry_double_buffer d;
        fixture_open(&f, &(ferry_context_options){.devices = "fault"});
        OK(ferry_double_create(f.context, COUNT, NULL, &d));
        OK(ferry_double_fill(d, 0, COUNT, 3, NULL));
        touch(&f, d.raw, 1, FERRY_UPDATE, 0, FERRY_REST);
        memset(bytes, 3, COUNT);
        fault_hook(refuse_memory, NULL);
        FAILS(FERRY_ERROR_DEVICE, convert_by(way, d, bytes, COUNT));
        assert_non_null(strstr(ferry_last_error(), "memory_alloc"));
        fault_hook(NULL, NULL);
        OK(convert_by(way, d, bytes, COUNT));
        OK(ferry_double_copy_to_byte(d, 0, COUNT, bytes, FERRY_CONVERT_SATURATE, NULL));
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(bytes[i], 3);
        ferry_double_destroy(&d);
        fixture_close(&f);
    }
    free(bytes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_values_saturate_on_the_way_in),
        TEST(test_values_convert_on_the_way_out_and_between_buffers),
        TEST(test_checked_conversions_change_nothing_when_they_fail),
        TEST(test_the_fewest_bytes_cross),
        TEST(test_traffic_is_that_of_the_written_buffer),
        TEST(test_the_host_converts_for_a_device_that_cannot),
        TEST(test_buffers_on_a_device_convert_there),
        TEST(test_large_arrays_cross_in_parts),
        TEST(test_own_functions_run_on_the_host),
        TEST(test_own_functions_check_what_comes_from_a_device),
        TEST(test_converting_out_moves_nothing),
        TEST(test_converting_out_beside_readers),
        TEST(test_converting_out_beside_a_resize),
        TEST(test_own_functions_may_refuse),
        TEST(test_no_room_for_scratch),
        TEST(test_scratch_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
