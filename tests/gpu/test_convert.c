/* SPDX-License-Identifier: MIT */
/*
 * Compares conversions on a device with conversions on the host, for every pair of types and every
 * rounding. Also compares the searches for the first value that does not fit the target type. Only
 * a run on a real GPU, or with OpenCL, shows that the kernels are correct, because fakecuda runs
 * their source as C code on the host.
 *
 * Usage: test_gpu_convert [DEVICE [PAIRS]]. The device is "cuda" if it is missing. With PAIRS,
 * about that many pairs are drawn from the clock, and the seed is printed; SEED draws the same ones
 * again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/ferry.h>

#include "src/convert/converter.h"
#include "src/convert/kernels.h"
#include "src/stream/shell.h"
#include "tests/support/code.h"
#include "tests/support/convert_kernels.h"
#include "tests/support/convert_values.h"
#include "tests/support/copy_slots.h"
#include "tests/support/status.h"

enum { COUNT = 1 << 18, WIDEST = 16 };

static const char *wanted_device = "cuda";
static unsigned pairs, seed; /* about how many pairs are checked; 0: all */
static ferry_context *context;
static ferryi_device *device;
static void *stream;
static unsigned char *source, *wanted, *got; /* pinned memory, except `wanted` */
static unsigned char *device_source, *device_target;

static void
upload(void *target, const void *from, size_t bytes)
{
    OK(device->ops->copy_upload(device, target, from, bytes, stream));
}

static void
download(void *target, const void *from, size_t bytes)
{
    OK(device->ops->copy_download(device, target, from, bytes, stream));
    OK(device->ops->stream_synchronize(device, stream));
}

static void
check_run(const ferry_conversion *conversion, ferry_convert_policy policy,
          ferryi_convert_loop *loop, size_t first, size_t count)
{
    const ferry_element *from = conversion->from, *to = conversion->to;
    loop(wanted, source + first * from->bytes, count);
    memset(got, 0x55, (count + 1) * to->bytes);
    upload(device_target, got, (count + 1) * to->bytes);
    OK(ferryi_converter_run(context->converters[1], conversion, policy, device_target,
                            device_source + first * from->bytes, count, stream));
    download(got, device_target, (count + 1) * to->bytes);
    for (size_t i = 0; i < count; i++)
        if (!convert_values_same(to, wanted + i * to->bytes, got + i * to->bytes))
            fail_msg("%s to %s, policy %d: element %zu of %zu differs", from->name, to->name,
                     (int)policy, i, count);
    for (size_t i = 0; i < to->bytes; i++)
        assert_int_equal(got[count * to->bytes + i], 0x55);
}

static void
check_search(const ferry_conversion *conversion, ferryi_convert_search *search, size_t begin,
             size_t count)
{
    const size_t bytes = conversion->from->bytes;
    size_t expected = search(source + begin * bytes, count);
    uint64_t first = UINT64_MAX;
    memcpy(got, &first, sizeof(first));
    upload(device_target, got, sizeof(first));
    OK(ferryi_converter_search(context->converters[1], conversion, device_source + begin * bytes,
                               count, (uint64_t *)(void *)device_target, stream));
    download(got, device_target, sizeof(first));
    memcpy(&first, got, sizeof(first));
    assert_int_equal(first, expected == count ? UINT64_MAX : expected);
}

static void
check_pair(const ferry_conversion *conversion, const struct ferryi_convert_kernel *kernel,
           size_t count)
{
    check_run(conversion, FERRY_CONVERT_SATURATE, kernel->nearest, 0, count);
    check_run(conversion, FERRY_CONVERT_TRUNCATE, kernel->toward_zero, 0, count);
    check_run(conversion, FERRY_CONVERT_SATURATE, kernel->nearest, 1,
              count < 301 ? count - 1 : 301); /* element 1 is not aligned to a vector of elements */
    for (size_t begin = 0; kernel->first_unfit && begin < count; begin += 1 + count / 5)
        check_search(conversion, kernel->first_unfit, begin, count - begin);
}

/* Returns whether a pair is one of those that are checked. */
static bool
is_drawn(void)
{
    const unsigned all = ferryi_number_count * (ferryi_number_count - 1);
    return pairs == 0 || (unsigned)rand_r(&seed) % all < pairs;
}

/* Checks that a conversion on the device gives the same bits as on the host, for every pair of
 * types.
 */
static void
test_same_as_host(void **state)
{
    (void)state;
    if (!context->converters[1] ||
        !ferryi_converter_can(context->converters[1], convert_numbers[0].element(),
                              convert_numbers[1].element())) {
        print_message("# neither precompiled conversions nor NVRTC are here: %s\n",
                      ferry_last_error());
        skip();
    }
    for (size_t from = 0; from < ferryi_number_count; from++) {
        const ferry_element *element = convert_numbers[from].element();
        size_t count = convert_values_fill(element, source, COUNT);
        upload(device_source, source, count * element->bytes);
        for (size_t to = 0; to < ferryi_number_count; to++) {
            const ferry_conversion conversion = {.from = element,
                                                 .to = convert_numbers[to].element()};
            const struct ferryi_convert_kernel *kernel =
                ferryi_convert_kernel(conversion.from, conversion.to);
            if (!kernel || !is_drawn())
                continue;
            assert_true(
                ferryi_converter_can(context->converters[1], conversion.from, conversion.to));
            check_pair(&conversion, kernel, count);
        }
    }
}

static int
start(void **state)
{
    const ferry_context_options options = {.devices = wanted_device};
    const size_t bytes = ((size_t)COUNT + 1) * WIDEST;
    (void)state;
    convert_kernels_register();
    OK(ferry_context_create(&options, &context));
    device = context->devices[1];
    wanted = malloc(bytes);
    assert_non_null(wanted);
    OK(device->ops->stream_create(device, &stream));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, bytes, (void **)&source));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, bytes, (void **)&got));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, bytes, (void **)&device_source));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, bytes, (void **)&device_target));
    return 0;
}

static int
finish(void **state)
{
    (void)state;
    OK(device->ops->stream_synchronize(device,
                                       stream)); /* no pair of the last upload may be drawn */
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, device_target));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, device_source));
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, got));
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, source));
    OK(device->ops->stream_destroy(device, stream));
    free(wanted);
    ferry_context_destroy(&context);
    return 0;
}

/* Returns whether this build lacks conversion kernels: nvcc did not compile them and NVRTC is not
 * available. ferry_last_error() then names the missing component. */
static bool
lacks_code(void)
{
    const ferry_kernel_source probe = {.name = "probe",
                                       CUDA_SOURCE("extern \"C\" __global__ void probe() {}")};
    return ferryi_convert_image_bytes == 0 &&
           ferry_kernel_check(&probe, NULL) == FERRY_ERROR_UNSUPPORTED;
}

/* Reads how many pairs are drawn, and chooses the seed. */
static void
draw(const char *count)
{
    const char *given = getenv("SEED");
    pairs = count ? (unsigned)atoi(count) : 0;
    seed = given ? (unsigned)atoi(given) : (unsigned)ferryi_now_ns();
    if (pairs > 0)
        print_message("# SEED=%u\n", seed);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_as_host)};
    ferry_context *probe = NULL;
    wanted_device = argc > 1 ? argv[1] : wanted_device;
    const ferry_context_options options = {.devices = wanted_device};
    draw(argc > 2 ? argv[2] : NULL);
    if (ferry_context_create(&options, &probe) != FERRY_OK) {
        printf("1..0 # SKIP %s\n", ferry_last_error());
        return 77;
    }
    ferry_context_destroy(&probe);
    if (strcmp(wanted_device, "cuda") == 0 && lacks_code()) {
        printf("1..0 # SKIP %s\n", ferry_last_error());
        return 77;
    }
    return cmocka_run_group_tests(tests, start, finish);
}
