/* SPDX-License-Identifier: MIT */
/* Devices of two OpenCL platforms in one context: bytes between them go through the host, and a
 * stream waits for the other platform's events. The arguments are the two devices; the default is
 * those of fakeopencl, whose second device has another platform. Skipped, with exit status 77,
 * where there are no two platforms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <ferry/ferry.h>
#include <ferry/int.h>

#include "src/stream/shell.h"
#include "tests/support/status.h"

enum { COUNT = 100000, BYTES = COUNT * 4 };

static ferry_context *context;
static ferry_kernel *doubles;

static const char text[] = "__kernel void twice(__global int *x, ulong count)\n"
                           "{\n"
                           "    for (ulong i = get_global_id(0); i < count; i += "
                           "get_global_size(0))\n"
                           "        x[i] *= 2;\n"
                           "}\n";

static ferry_transfer_stats
moved(void)
{
    ferry_transfer_stats stats;
    OK(ferry_context_get_transfer_stats(context, &stats));
    return stats;
}

static void
double_at(ferry_int_buffer x, int place)
{
    const size_t count = COUNT;
    const ferry_argument arguments[] = {ferry_int_argument(x),
                                        ferry_element_value(ferry_size_element(), &count)};
    OK(ferry_kernel_launch(doubles, ferry_grid_for(COUNT, 64), ferry_context_stream(context, place),
                           arguments, 2));
}

static void
expect(ferry_int_buffer x, int factor)
{
    static int out[COUNT];
    OK(ferry_int_copy_to(x, 0, COUNT, out, NULL));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(out[i], factor * i);
}

static ferry_int_buffer
new_buffer(const ferry_buffer_options *options)
{
    static int in[COUNT];
    ferry_int_buffer x = {0};
    for (int i = 0; i < COUNT; i++)
        in[i] = i;
    OK(ferry_int_create(context, COUNT, options, &x));
    OK(ferry_int_copy_from(x, 0, COUNT, in, NULL));
    return x;
}

static void
test_each_platform_has_a_context(void **state)
{
    (void)state;
    ferry_place_info first, second;
    OK(ferry_context_get_place_info(context, 1, &first));
    OK(ferry_context_get_place_info(context, 2, &second));
    assert_ptr_not_equal(first.native_context, second.native_context);
    assert_false(ferryi_device_is_peer(context->devices[1], context->devices[2]));
}

/* Kernels of both devices change a buffer in turn. */
static void
test_bytes_go_through_the_host(void **state)
{
    (void)state;
    ferry_int_buffer x = new_buffer(NULL);
    double_at(x, 1);
    const ferry_transfer_stats before = moved();
    double_at(x, 2);
    double_at(x, 1);
    const ferry_transfer_stats after = moved();
    assert_int_equal(after.peer_staged.bytes - before.peer_staged.bytes, 2 * BYTES);
    assert_int_equal(after.peer.bytes - before.peer.bytes, 2 * BYTES);
    expect(x, 8);
    ferry_int_destroy(&x);
}

static void
hold_up(void *user)
{
    ferryi_sleep_ns(20000000);
    *(volatile int *)user = 1;
}

static void
test_a_stream_waits_for_the_other_platform(void **state)
{
    (void)state;
    ferry_stream *first, *second;
    ferry_event *event;
    static volatile int done;
    OK(ferry_stream_create(context, 1, &first));
    OK(ferry_stream_create(context, 2, &second));
    done = 0;
    OK(FERRYI_CALL(context->devices[1], host_call, ferry_stream_native(first), hold_up,
                   (void *)&done));
    OK(ferry_stream_record(first, 0, &event));
    OK(ferry_stream_wait_event(second, event));
    OK(ferry_stream_synchronize(second));
    assert_int_equal(done, 1);
    ferry_event_destroy(&event);
    ferry_stream_destroy(&second);
    ferry_stream_destroy(&first);
}

/* One platform page-locks the memory. The device of the other one takes it for ordinary memory,
 * which is staged unless the device shares the host's memory. */
static void
test_page_locked_memory_is_of_one_platform(void **state)
{
    (void)state;
    const ferry_buffer_options pinned = {.memory = FERRY_MEMORY_PINNED};
    for (int place = 1; place <= 2; place++) {
        ferry_int_buffer x = new_buffer(&pinned);
        const ferry_transfer_stats before = moved();
        double_at(x, place);
        OK(ferry_int_sync_to(x, FERRY_PLACE_HOST, NULL));
        const ferry_transfer_stats after = moved();
        const bool is_staged =
            place == 2 && !(context->devices[place]->capabilities & FERRYI_DEVICE_TAKES_PAGEABLE);
        assert_int_equal(after.direct.bytes - before.direct.bytes, is_staged ? 0 : 2 * BYTES);
        assert_int_equal(after.staged.bytes - before.staged.bytes, is_staged ? 2 * BYTES : 0);
        expect(x, 2);
        ferry_int_destroy(&x);
    }
}

static void
test_managed_memory_needs_one_platform(void **state)
{
    (void)state;
    const ferry_buffer_options managed = {.memory = FERRY_MEMORY_MANAGED};
    ferry_int_buffer x = {0};
    assert_int_equal(ferry_int_create(context, COUNT, &managed, &x), FERRY_ERROR_UNSUPPORTED);
    assert_says("the other devices");
}

static int
start(void **state)
{
    (void)state;
    const ferry_parameter parameters[] = {
        {.name = "x", .access = FERRY_UPDATE, .element = ferry_int_element()},
        {.name = "count", .element = ferry_size_element()}};
    const ferry_kernel_code code = {.kind = FERRY_CODE_OPENCL, .code = text};
    const ferry_kernel_source source = {.name = "twice",
                                        .codes = &code,
                                        .code_count = 1,
                                        .parameters = parameters,
                                        .parameter_count = 2};
    return ferry_kernel_create(context, &source, &doubles) == FERRY_OK ? 0 : 1;
}

static int
finish(void **state)
{
    (void)state;
    ferry_kernel_destroy(&doubles);
    ferry_context_destroy(&context);
    return 0;
}

int
main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_platform_has_a_context),
        cmocka_unit_test(test_bytes_go_through_the_host),
        cmocka_unit_test(test_a_stream_waits_for_the_other_platform),
        cmocka_unit_test(test_page_locked_memory_is_of_one_platform),
        cmocka_unit_test(test_managed_memory_needs_one_platform),
    };
    const ferry_context_options options = {.devices =
                                               count > 1 ? arguments[1] : "opencl:0,opencl:1"};
    if (ferry_context_create(&options, &context) != FERRY_OK) {
        printf("1..0 # SKIP %s\n", ferry_last_error());
        return 77;
    }
    if (context->devices[1]->group == context->devices[2]->group) {
        printf("1..0 # SKIP %s has one platform\n", options.devices);
        return 77;
    }
    return cmocka_run_group_tests(tests, start, finish);
}
