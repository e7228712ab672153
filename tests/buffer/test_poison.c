/* SPDX-License-Identifier: MIT */
/* Tests errors of driver calls after which a CUDA context is unusable. The device is then lost for
 * good, but buffers must still work at the host. */
#include "tests/buffer/work.h"

#include <stdio.h>

#include "src/device/cuda/cuda.h"
#include "src/device/cuda/cuda_abi.h"
#include "src/device/gpu/gpu_device.h"
#include "tests/support/code.h"
#include "tests/support/copies.h"
#include "tests/support/fakecuda.h"

enum { COUNT = 3000 };

static struct fakecuda fake;

static const int codes[] = {FERRYI_GPU_ERROR_ILLEGAL_ADDRESS, FERRYI_GPU_ERROR_LAUNCH_FAILED,
                            FERRYI_GPU_ERROR_ECC_UNCORRECTABLE};
static const char *const symbols[] = {
    "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuLaunchKernel", "cuEventRecord",
    "cuStreamWaitEvent",    "cuEventSynchronize",   "cuMemAlloc_v2",  "cuStreamSynchronize"};

struct world {
    fixture f;
    work w;
    ferry_stream *stream;
    ferry_buffer *at_host, *at_device, *at_both;
    ferry_buffer *wrapped;
    int memory[COUNT];
};

static void
ignore_log(ferry_log_level level, const char *message, void *user)
{
    (void)level, (void)message, (void)user;
}

static ferry_buffer *
make_buffer(struct world *world, int first)
{
    int values[COUNT];
    ferry_buffer *buffer;
    for (int i = 0; i < COUNT; i++)
        values[i] = first + i;
    OK(ferry_buffer_create_from(world->f.context, INT, COUNT, values, NULL, &buffer));
    return buffer;
}

static void
world_open(struct world *world)
{
    ferry_context_options options = {
        .devices = "cuda", .log = ignore_log, .tuning = "staging.chunk=4K"};
    memset(world, 0, sizeof(*world));
    OK(ferry_context_create(&options, &world->f.context));
    world->f.places = 1;
    world->f.stream = ferry_context_stream(world->f.context, 1);
    work_open(&world->f, &world->w);
    OK(ferry_stream_create(world->f.context, 1, &world->stream));
    world->at_host = make_buffer(world, 1000);
    world->at_both = make_buffer(world, 20000);
    world->at_device = make_buffer(world, 300000);
    OK(ferry_buffer_sync_to(world->at_both, 0, FERRY_REST, 1, NULL));
    OK(launch_add(&world->w, world->stream, world->at_device, 0, COUNT, 0));
    OK(ferry_buffer_wrap_host(world->f.context, INT, COUNT, world->memory, NULL, &world->wrapped));
    OK(ferry_stream_synchronize(world->stream));
}

/* Destroys all objects of the test. This must succeed whatever errors the device returns. */
static void
world_close(struct world *world)
{
    ferry_buffer_destroy(&world->at_host);
    ferry_buffer_destroy(&world->at_both);
    ferry_buffer_destroy(&world->at_device);
    ferry_buffer_destroy(&world->wrapped);
    ferry_stream_destroy(&world->stream);
    work_close(&world->w);
    ferry_context_destroy(&world->f.context);
    assert_null(world->f.context);
}

/* Makes several uses of the device and returns the status of the first call that fails. */
static ferry_status
use_device(struct world *world)
{
    int values[COUNT];
    ferry_status status =
        launch_copy(&world->w, world->stream, world->at_both, 0, world->at_host, 0, COUNT / 2);
    if (status == FERRY_OK)
        status = launch_add(&world->w, world->f.stream, world->at_device, 0, COUNT, 0);
    if (status == FERRY_OK)
        status = ferry_stream_synchronize(world->stream);
    if (status == FERRY_OK)
        status = ferry_buffer_copy_to(world->at_device, INT, 0, COUNT, values, NULL);
    return status;
}

static void
expect_at_host(ferry_buffer *buffer, int first)
{
    int values[COUNT];
    OK(ferry_buffer_copy_to(buffer, INT, 0, COUNT, values, NULL));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(values[i], first + i);
}

static void
expect_lost(struct world *world)
{
    int values[COUNT];
    /* Bytes that are current at the host can still be read and written. */
    expect_at_host(world->at_host, 1000);
    ferry_scope scope;
    void *memory;
    OK(ferry_buffer_open_host(world->at_host, INT, FERRY_OVERWRITE, 0, COUNT, &scope, &memory));
    for (int i = 0; i < COUNT; i++)
        ((int *)memory)[i] = 7 + i;
    OK(ferry_scope_close(&scope));
    expect_at_host(world->at_host, 7);
    /* Bytes that only the device had are reported as lost. They are never replaced by older
     * bytes. */
    FAILS(FERRY_ERROR_DEVICE_LOST,
          ferry_buffer_copy_to(world->at_device, INT, 0, COUNT, values, NULL));
    FAILS(FERRY_ERROR_DEVICE_LOST, ferry_buffer_sync_to(world->at_device, 0, FERRY_REST, 0, NULL));
    /* Every later call on the device fails with FERRY_ERROR_DEVICE_LOST, too. */
    for (int i = 0; i < 3; i++) {
        FAILS(FERRY_ERROR_DEVICE_LOST,
              launch_fill(&world->w, world->stream, world->at_host, 0, COUNT, 1));
        FAILS(FERRY_ERROR_DEVICE_LOST,
              ferry_buffer_sync_to(world->at_host, 0, FERRY_REST, 1, NULL));
        FAILS(FERRY_ERROR_DEVICE_LOST,
              ferry_buffer_open_device(world->at_host, INT, FERRY_UPDATE, 0, COUNT, world->stream,
                                       &scope, &memory));
        assert_non_null(strstr(ferry_last_error(), "lost"));
    }
    /* A buffer whose bytes were lost can be used again after it was overwritten at the host. */
    for (int i = 0; i < COUNT; i++)
        values[i] = 5 + i;
    OK(ferry_buffer_open_host(world->at_device, INT, FERRY_OVERWRITE, 0, COUNT, &scope, &memory));
    memcpy(memory, values, sizeof(values));
    OK(ferry_scope_close(&scope));
    expect_at_host(world->at_device, 5);
    OK(ferry_buffer_unwrap(&world->wrapped, NULL));
}

static void
test_poisoned_contexts_are_lost(void **state)
{
    static struct world world;
    unsigned met = 0;
    (void)state;
    for (size_t i = 0; i < LENGTH(codes); i++)
        for (size_t k = 0; k < LENGTH(symbols); k++) {
            world_open(&world);
            fake.fakecuda_fail_next(symbols[k], codes[i], 1);
            ferry_status status = use_device(&world);
            /* If use_device() never calls the driver function `symbols[k]`, it succeeds. The test
             * then skips the checks. */
            if (status != FERRY_OK) {
                met++;
                if (status != FERRY_ERROR_DEVICE_LOST)
                    fail_msg("%s, %d: %s: %s", symbols[k], codes[i], ferry_status_name(status),
                             ferry_last_error());
                expect_lost(&world);
            }
            fake.fakecuda_fail_none();
            world_close(&world);
            assert_int_equal(fake.fakecuda_context_depth(), 0);
        }
    assert_true(met >= LENGTH(codes) * 5);
}

/* The function that fakecuda runs as a kernel that accesses an illegal address. As on a GPU, the
 * next call that waits for the device returns the error. */
static void
fault_code(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)parameters, (void)grid, (void)block;
    fake.fakecuda_fault(FERRYI_GPU_ERROR_ILLEGAL_ADDRESS);
}

static void
test_a_kernel_that_faults(void **state)
{
    static struct world world;
    static const size_t sizes[] = {sizeof(void *)};
    static const char image[] = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry "
                                "faulty(.param .u64 a) { ret; }\n";
    ferry_parameter parameter = {.element = INT, .access = FERRY_UPDATE};
    ferry_kernel_source source = {
        .name = "faulty", CUDA_IMAGE(image), .parameters = &parameter, .parameter_count = 1};
    ferry_kernel *kernel;
    (void)state;
    fake.fakecuda_register_kernel("faulty", fault_code, 1, sizes);
    world_open(&world);
    OK(ferry_kernel_create(world.f.context, &source, &kernel));
    ferry_argument argument = ferry_buffer_argument(world.at_device, INT, 0, COUNT);
    OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), world.stream, &argument, 1));
    FAILS(FERRY_ERROR_DEVICE_LOST, ferry_stream_synchronize(world.stream));
    expect_lost(&world);
    ferry_kernel_destroy(&kernel);
    world_close(&world);
}

/* -- on the way to the host -------------------------------------------------------------------- */

static void
overwrite(ferry_buffer *buffer, size_t offset, size_t count, int value)
{
    ferry_scope scope;
    void *memory;
    OK(ferry_buffer_open_host(buffer, INT, FERRY_OVERWRITE, offset, count, &scope, &memory));
    for (size_t i = 0; i < count; i++)
        ((int *)memory)[i] = value;
    OK(ferry_scope_close(&scope));
}

/* If a device is lost while it copies to page-locked memory, the target bytes are lost, too. They
 * stay lost until they are overwritten. */
static void
test_a_loss_on_the_way_to_the_host(void **state)
{
    static struct world world;
    const ferry_buffer_options options = {.memory = FERRY_MEMORY_PINNED};
    ferry_buffer *buffers[3];
    ferry_scope scope;
    void *memory = NULL;
    int values[COUNT];
    (void)state;
    ferryi_gpu_release_kept(&ferryi_cuda_vendor);
    assert_true(fake.fakecuda_set_mode("lazy")); /* copies run only in the wait, which fails */
    world_open(&world);
    for (int i = 0; i < 3; i++) {
        OK(ferry_buffer_create(world.f.context, INT, i == 2 ? COUNT << 10 : COUNT, &options,
                               &buffers[i]));
        OK(launch_fill(&world.w, world.stream, buffers[i], 0, COUNT, 1));
    }
    fake.fakecuda_fail_next("cuStreamSynchronize", FERRYI_GPU_ERROR_ILLEGAL_ADDRESS, 1);
    fake.fakecuda_fail_next("cuEventSynchronize", FERRYI_GPU_ERROR_ILLEGAL_ADDRESS, 1);
    for (int i = 0; i < 2; i++)
        FAILS(FERRY_ERROR_DEVICE_LOST, ferry_buffer_sync_to(buffers[i], 0, FERRY_REST, 0, NULL));
    fake.fakecuda_fail_none();

    overwrite(buffers[0], 100, 50, 7);
    expect_constant(&world.f, buffers[0], 0, 100, 50, 7);
    FAILS(FERRY_ERROR_DEVICE_LOST, ferry_buffer_copy_to(buffers[0], INT, 0, 100, values, NULL));
    FAILS(FERRY_ERROR_DEVICE_LOST,
          ferry_buffer_copy_to(buffers[0], INT, 150, COUNT - 150, values, NULL));
    overwrite(buffers[0], 0, COUNT, 8);
    expect_constant(&world.f, buffers[0], 0, 0, COUNT, 8);
    /* Abandoning a write does not make the lost bytes valid. */
    if (ferry_buffer_open_host(buffers[1], INT, FERRY_OVERWRITE, 0, COUNT, &scope, &memory) ==
        FERRY_OK)
        ferry_scope_abandon(&scope);
    FAILS(FERRY_ERROR_DEVICE_LOST, ferry_buffer_copy_to(buffers[1], INT, 0, COUNT, values, NULL));
    /* The lost device may be unable to allocate page-locked memory. ferry_buffer_open_host() then
     * returns an error. */
    memory = NULL;
    if (ferry_buffer_open_host(buffers[2], INT, FERRY_OVERWRITE, 0, FERRY_REST, &scope, &memory) ==
        FERRY_OK) {
        assert_non_null(memory);
        ferry_scope_abandon(&scope);
    }
    for (int i = 0; i < 3; i++)
        ferry_buffer_destroy(&buffers[i]);
    world_close(&world);
    ferryi_gpu_release_kept(&ferryi_cuda_vendor);
    assert_true(fake.fakecuda_set_mode("thread"));
}

/* An eviction only queues the copy to page-locked memory. If the device is lost then, the host may
 * write over these bytes, but it may not read them. */
static void
lose_after_an_eviction(bool reads_back)
{
    static struct world world;
    const ferry_buffer_options options = {.memory = FERRY_MEMORY_PINNED};
    ferry_buffer *read, *written, *other;
    int sevens[50], values[COUNT];
    for (int i = 0; i < 50; i++)
        sevens[i] = 7;
    ferryi_gpu_release_kept(&ferryi_cuda_vendor);
    assert_true(fake.fakecuda_set_mode("lazy"));
    world_open(&world);
    OK(ferry_buffer_create(world.f.context, INT, COUNT, &options, &read));
    OK(ferry_buffer_create(world.f.context, INT, COUNT, &options, &written));
    OK(ferry_buffer_create(world.f.context, INT, COUNT, NULL, &other));
    overwrite(other, 0, COUNT, 3);
    OK(launch_fill(&world.w, world.stream, read, 0, COUNT, 1));
    OK(launch_fill(&world.w, world.stream, written, 0, COUNT, 1));
    OK(ferry_buffer_evict(read, 1));
    OK(ferry_buffer_evict(written, 1));
    if (reads_back)
        OK(launch_copy(&world.w, world.stream, world.at_device, 0, written, 0, COUNT));
    fake.fakecuda_fail_next("cuStreamSynchronize", FERRYI_GPU_ERROR_ILLEGAL_ADDRESS, 1);
    fake.fakecuda_fail_next("cuEventSynchronize", FERRYI_GPU_ERROR_ILLEGAL_ADDRESS, 1);
    FAILS(FERRY_ERROR_DEVICE_LOST, ferry_buffer_copy(other, INT, 0, read, 0, COUNT, NULL));
    fake.fakecuda_fail_none();
    FAILS(FERRY_ERROR_DEVICE_LOST, ferry_buffer_copy(other, INT, 0, read, 0, COUNT, NULL));
    expect_constant(&world.f, other, 0, 0, COUNT, 3);
    OK(ferry_buffer_copy_from(written, INT, 100, 50, sevens, NULL));
    expect_constant(&world.f, written, 0, 100, 50, 7);
    FAILS(FERRY_ERROR_DEVICE_LOST, ferry_buffer_copy_to(written, INT, 0, COUNT, values, NULL));
    DESTROY_BUFFERS(&read, &written, &other);
    world_close(&world);
    ferryi_gpu_release_kept(&ferryi_cuda_vendor);
    assert_true(fake.fakecuda_set_mode("thread"));
}

static void
test_a_loss_after_an_eviction(void **state)
{
    (void)state;
    lose_after_an_eviction(false);
    lose_after_an_eviction(true);
}

/* -- one of two devices ------------------------------------------------------------------------ */

enum { HALF = COUNT / 2 };

/* Makes a driver call outside Ferry fail, which ends the CUDA context. Ferry does not know of this
 * loss yet. */
static void
poison_quietly(fixture *f, int place)
{
    struct ferryi_gpu_device *cuda = ferryi_gpu_of(device_of(f, place));
    ferryi_gpu_context none;
    size_t free_bytes, total_bytes;
    assert_int_equal(cuda->driver->context_push(cuda->context), 0);
    fake.fakecuda_fail_next("cuMemGetInfo_v2", FERRYI_GPU_ERROR_ILLEGAL_ADDRESS, 1);
    assert_int_equal(cuda->driver->memory_info(&free_bytes, &total_bytes),
                     FERRYI_GPU_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuda->driver->context_pop(&none), 0);
}

/* Creates a buffer whose first half is current at place 1 and whose second half is current at place
 * 2. Also copies one element from place 1 to place 2, which orders the streams of the two places.
 * So the next transfer calls the driver only for its copy. */
static ferry_buffer *
make_halves(fixture *f, work *w)
{
    ferry_buffer *b = make_ints(f, COUNT);
    OK(launch_fill(w, stream_of(f, 1), b, 0, HALF, 1));
    OK(launch_fill(w, stream_of(f, 2), b, HALF, HALF, 2));
    OK(ferry_stream_synchronize(stream_of(f, 1)));
    OK(ferry_stream_synchronize(stream_of(f, 2)));
    OK(ferry_buffer_sync_to(b, 0, 1, 2, NULL));
    return b;
}

static ferry_status
move_over(fixture *f, ferry_buffer *b)
{
    (void)f;
    return ferry_buffer_sync_to(b, 0, HALF, 2, NULL);
}

/* Copies the first half of the buffer over its second half at place 2, as rows. */
static ferry_status
copy_over(fixture *f, ferry_buffer *b)
{
    ferry_event *event = NULL;
    ferry_status status =
        copy_rows_async(b, INT, HALF, 100, b, 0, 100, 50, 10, ON(stream_of(f, 2)), &event);
    if (status == FERRY_OK)
        status = ferry_event_synchronize(event);
    ferry_event_destroy(&event);
    return status;
}

/* If a copy between two devices fails because one of them is lost, only that device counts as lost.
 * The other device keeps its bytes and still works. */
static void
test_only_the_lost_one_of_two_is_lost(void **state)
{
    ferry_status (*const ways[])(fixture * f, ferry_buffer * b) = {move_over, copy_over};
    (void)state;
    for (int known = 0; known < 2; known++)
        for (size_t i = 0; i < LENGTH(ways); i++) {
            ferry_context_options options = {.devices = "cuda:0,cuda:1", .log = ignore_log};
            int values[COUNT];
            fixture f;
            work w;
            fixture_open(&f, &options);
            work_open(&f, &w);
            ferry_buffer *b = make_halves(&f, &w), *unmoved = make_halves(&f, &w);
            poison_quietly(&f, 1);
            if (known)
                FAILS(FERRY_ERROR_DEVICE_LOST, ferryi_device_synchronize(device_of(&f, 1)));
            FAILS(FERRY_ERROR_DEVICE_LOST, ways[i](&f, b));
            FAILS(FERRY_ERROR_DEVICE_LOST, ferry_buffer_copy_to(b, INT, 0, HALF, values, NULL));
            expect_constant(&f, b, 0, HALF, HALF, 2);
            expect_constant(&f, unmoved, 0, HALF, HALF, 2);
            OK(launch_fill(&w, stream_of(&f, 2), b, 0, HALF, 3));
            expect_constant(&f, b, 0, 0, HALF, 3);
            OK(ferryi_device_synchronize(device_of(&f, 2)));
            ferry_buffer_destroy(&b);
            ferry_buffer_destroy(&unmoved);
            work_close(&w);
            ferry_context_destroy(&f.context);
        }
}

static int
find_driver(void **state)
{
    static const char library[] = FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda.so";
    (void)state;
    setenv("FERRY_CUDA_LIBRARY", library, 1);
    setenv("FAKECUDA_DEVICES", "2", 1);
    return fakecuda_find(library, &fake) ? 0 : -1;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_poisoned_contexts_are_lost),
        cmocka_unit_test(test_a_kernel_that_faults),
        cmocka_unit_test(test_a_loss_on_the_way_to_the_host),
        cmocka_unit_test(test_a_loss_after_an_eviction),
        cmocka_unit_test(test_only_the_lost_one_of_two_is_lost),
    };
    return cmocka_run_group_tests(tests, find_driver, NULL);
}
