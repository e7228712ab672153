/* SPDX-License-Identifier: MIT */
/* Tests the CUDA device over the fake driver fakecuda: loading the driver, opening devices, the
 * current context, and errors. */
#include "src/base/machine.h"
#include "tests/support/copy_slots.h"
#include "tests/unit/cuda_fixture.h"

/* -- the loader -- */

static void
test_absent_library(void **state)
{
    struct ferryi_gpu_driver driver = {.groups = 77};
    (void)state;
    assert_int_equal(ferryi_gpu_driver_load(&ferryi_cuda_vendor, "/nowhere/libcuda.so.1", &driver),
                     FERRY_ERROR_NO_DEVICE);
    assert_says("/nowhere/libcuda.so.1");
    assert_int_equal(driver.groups, 77);
}

static void
test_missing_symbol_is_named(void **state)
{
    struct ferryi_gpu_driver driver = {.groups = 77};
    (void)state;
    assert_int_equal(ferryi_gpu_driver_load(&ferryi_cuda_vendor,
                                            FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda_missing.so",
                                            &driver),
                     FERRY_ERROR_NO_DEVICE);
    assert_says("cuGetErrorName");
    assert_int_equal(driver.groups, 77);
}

static void
test_failing_start_is_named(void **state)
{
    struct ferryi_gpu_driver driver;
    (void)state;
    fake->fakecuda_fail_next("cuInit", FERRYI_GPU_ERROR_NO_DEVICE, 1);
    assert_int_equal(ferryi_gpu_driver_load(&ferryi_cuda_vendor, library_names[NEW], &driver),
                     FERRY_ERROR_NO_DEVICE);
    assert_says("cuInit: CUDA_ERROR_NO_DEVICE");
}

static void
test_groups(void **state)
{
    (void)state;
    assert_int_equal(builds[NEW].driver.groups,
                     FERRYI_GPU_REQUIRED | FERRYI_GPU_BATCH | FERRYI_GPU_BATCH_2 |
                         FERRYI_GPU_PREFETCH | FERRYI_GPU_PREFETCH_2 | FERRYI_GPU_CAPTURE |
                         FERRYI_GPU_STREAM_CONTEXT | FERRYI_GPU_CONTEXT_ID | FERRYI_GPU_FUNCTION |
                         FERRYI_GPU_STREAM_ID | FERRYI_GPU_GREEN_CONTEXT | FERRYI_GPU_GRAPH |
                         FERRYI_GPU_LAUNCH | FERRYI_GPU_RANGE | FERRYI_GPU_SHARE);
    assert_int_equal(builds[MIDDLE].driver.groups,
                     FERRYI_GPU_REQUIRED | FERRYI_GPU_BATCH | FERRYI_GPU_PREFETCH |
                         FERRYI_GPU_PREFETCH_2 | FERRYI_GPU_CAPTURE | FERRYI_GPU_STREAM_CONTEXT |
                         FERRYI_GPU_CONTEXT_ID | FERRYI_GPU_FUNCTION | FERRYI_GPU_STREAM_ID |
                         FERRYI_GPU_GREEN_CONTEXT | FERRYI_GPU_GRAPH | FERRYI_GPU_LAUNCH |
                         FERRYI_GPU_RANGE | FERRYI_GPU_SHARE);
    assert_int_equal(builds[OLD].driver.groups, FERRYI_GPU_REQUIRED | FERRYI_GPU_PREFETCH);
}

/* Checks that the library loads the driver that FERRY_CUDA_LIBRARY names. main() sets this variable
 * to fakecuda before it opens a device. */
static void
test_environment_names_the_library(void **state)
{
    ferryi_device *device = NULL;
    (void)state;
    assert_int_equal(ferryi_cuda_kind.count(), 2);
    OK(ferryi_cuda_kind.open(1, &config, &device));
    assert_string_equal(device->properties.name, "fakecuda 1");
    assert_string_equal(device->kind, "cuda");
    close_device(device);
    ferryi_gpu_release_kept(&ferryi_cuda_vendor);
    assert_int_equal(ferryi_cuda_kind.open(2, &config, &device), FERRY_ERROR_NO_DEVICE);
    assert_says("open cuda:2: cuDeviceGet: CUDA_ERROR_INVALID_DEVICE");
    fake->fakecuda_fail_next("cuDeviceGetCount", FERRYI_GPU_ERROR_UNKNOWN, 1);
    assert_int_equal(ferryi_cuda_kind.count(), 0);
    assert_says("cuDeviceGetCount: CUDA_ERROR_UNKNOWN");
}

/* -- opening -- */

static void
test_properties(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    const struct ferryi_device_properties properties = device->properties;
    size_t free_bytes, total_bytes;
    void *memory;
    (void)state;
    assert_int_equal(properties.architecture, 90);
    assert_int_equal(properties.driver_version, 13000);
    assert_int_equal(properties.native, 0);
    assert_int_equal(properties.total_bytes, (size_t)256 << 20);
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 4 * KIBIBYTE, &memory));
    OK(device->ops->memory_info(device, &free_bytes, &total_bytes));
    assert_int_equal(total_bytes, properties.total_bytes);
    assert_int_equal(free_bytes, total_bytes - 4 * KIBIBYTE);
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
    assert_true(device->default_is_null);
    assert_ptr_equal(device->default_stream, (void *)1);
    assert_ptr_equal(device->per_thread_stream, (void *)2);
    close_device(device);
}

static void
test_capabilities(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    (void)state;
    assert_int_equal(
        device->capabilities,
        FERRY_CAN_PIN | FERRY_CAN_MANAGE | FERRY_CAN_MANAGE_CONCURRENTLY | FERRY_CAN_LOAD_CODE |
            FERRY_CAN_COMPILE | FERRY_CAN_BATCH | FERRY_CAN_PEER | FERRY_CAN_CAPTURE |
            FERRY_CAN_COOPERATE | FERRY_CAN_CLUSTER | FERRY_CAN_OVERLAP | FERRY_CAN_SHARE |
            FERRYI_DEVICE_FREE_WAITS | FERRYI_DEVICE_FINDS_PINNED | FERRYI_DEVICE_TAKES_FILES);
    close_device(device);
    device = open_build(OLD, 0);
    assert_int_equal(device->capabilities,
                     FERRY_CAN_PIN | FERRY_CAN_MANAGE | FERRY_CAN_MANAGE_CONCURRENTLY |
                         FERRY_CAN_LOAD_CODE | FERRY_CAN_COMPILE | FERRY_CAN_PEER |
                         FERRYI_DEVICE_FREE_WAITS | FERRYI_DEVICE_FINDS_PINNED |
                         FERRYI_DEVICE_TAKES_FILES);
    close_device(device);
}

/* Checks that a device is coherent only if it is integrated and also uses the host's page tables.
 */
static void
test_coherent_needs_both(void **state)
{
    int integrated = FERRYI_CU_DEVICE_ATTRIBUTE_INTEGRATED;
    int host_tables = FERRYI_CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    (void)state;
    for (int i = 0; i < 4; i++) {
        fake->fakecuda_set_attribute(integrated, i & 1);
        fake->fakecuda_set_attribute(host_tables, i >> 1);
        ferryi_device *device = open_build(NEW, 0);
        assert_int_equal((device->capabilities & FERRYI_DEVICE_COHERENT) != 0, i == 3);
        assert_int_equal((device->capabilities & FERRYI_DEVICE_TAKES_PAGEABLE) != 0, i == 2);
        close_device(device);
    }
    fake->fakecuda_set_attribute(integrated, 0);
    fake->fakecuda_set_attribute(host_tables, 0);
}

/* Checks that the library uses the nearest NUMA node that the driver reports. If the driver reports
 * none, the library must use the node that the operating system reports. */
static void
test_the_nearest_node(void **state)
{
    const int node = FERRYI_CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
    const unsigned by_system = (unsigned)(ferryi_machine_node("", "0000:00:00.0") + 1);
    (void)state;
    for (int i = -1; i < 3; i++) {
        fake->fakecuda_set_attribute(node, i);
        ferryi_device *device = open_build(NEW, 0);
        assert_int_equal(device->host_node, i < 0 ? by_system : (unsigned)i + 1);
        close_device(device);
    }
    fake->fakecuda_set_attribute(node, -1);
    builds[OLD].fake.fakecuda_set_attribute(node, 5);
    ferryi_device *device = open_build(OLD, 0);
    assert_int_equal(device->host_node, by_system);
    close_device(device);
}

static void
test_managed_follows_attributes(void **state)
{
    void *memory = &memory;
    (void)state;
    fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0);
    ferryi_device *device = open_build(NEW, 0);
    assert_int_equal(device->capabilities & (FERRY_CAN_MANAGE | FERRY_CAN_MANAGE_CONCURRENTLY), 0);
    assert_int_equal(device->ops->memory_alloc(device, FERRY_MEMORY_MANAGED, 64, &memory),
                     FERRY_ERROR_UNSUPPORTED);
    assert_ptr_equal(memory, &memory);
    close_device(device);
    fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1);
    fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0);
    device = open_build(NEW, 0);
    assert_int_equal(device->capabilities & (FERRY_CAN_MANAGE | FERRY_CAN_MANAGE_CONCURRENTLY), 0);
    assert_int_equal(device->ops->memory_alloc(device, FERRY_MEMORY_MANAGED, 64, &memory),
                     FERRY_ERROR_UNSUPPORTED);
    assert_int_equal(device->ops->prefetch(device, memory, 64, device, (void *)2),
                     FERRY_ERROR_UNSUPPORTED);
    assert_says("prefetch 64 bytes on cuda:0");
    assert_int_equal(device->ops->advise(device, memory, 64, FERRY_ADVISE_READ_MOSTLY, NULL),
                     FERRY_ERROR_UNSUPPORTED);
    close_device(device);
    fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1);
}

/* Opens a device, and makes the n-th driver call fail, for every n. Checks that a failed open
 * releases everything that it acquired. */
static void
test_open_unwinds(void **state)
{
    static const char *const calls[] = {"cuDeviceGet",          "cuDeviceGetName",
                                        "cuDeviceTotalMem_v2",  "cuDriverGetVersion",
                                        "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain"};
    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        ferryi_device *device = NULL;
        fake->fakecuda_fail_next(calls[i], FERRYI_GPU_ERROR_UNKNOWN, 1);
        assert_int_equal(ferryi_gpu_open_on(&builds[NEW].driver, 0, &config, &device),
                         FERRY_ERROR_DEVICE);
        assert_says(calls[i]);
        assert_says("open cuda:0: ");
        assert_null(device);
    }
    assert_true(fake->fakecuda_set_mode("thread")); /* no context exists any more */
}

/* -- every slot leaves the thread's current context alone -- */

struct surroundings {
    struct fakecuda *fake;
    void *context;
    int depth;
};

static void
assert_undisturbed(const struct surroundings *before, const char *call)
{
    if (before->fake->fakecuda_current_context() != before->context ||
        before->fake->fakecuda_context_depth() != before->depth)
        fail_msg("%s changed the current context", call);
}

#define SLOT(slot, ...)                                                                            \
    do {                                                                                           \
        OK(device->ops->slot(device, __VA_ARGS__));                                                \
        assert_undisturbed(&before, #slot);                                                        \
    } while (0)

static void
do_nothing(void *user)
{
    (void)user;
}

static void
empty_kernel(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)parameters, (void)grid, (void)block;
}

static void
use_memory(ferryi_device *device, ferryi_device *peer, struct surroundings before)
{
    void *target, *source, *pinned, *managed, *stream;
    char *host = calloc(1, 4 * KIBIBYTE);
    size_t free_bytes, total_bytes;
    SLOT(memory_info, &free_bytes, &total_bytes);
    SLOT(memory_alloc, FERRY_MEMORY_DEVICE, KIBIBYTE, &target);
    SLOT(memory_alloc, FERRY_MEMORY_PINNED, KIBIBYTE, &pinned);
    SLOT(memory_alloc, FERRY_MEMORY_MANAGED, KIBIBYTE, &managed);
    SLOT(host_register, host, 4 * KIBIBYTE);
    OK(peer->ops->memory_alloc(peer, FERRY_MEMORY_DEVICE, KIBIBYTE, &source));
    SLOT(stream_create, &stream);
    SLOT(fill, target, 7, 4, 16, stream);
    SLOT(fill, target, 7, 2, 16, stream);
    SLOT(fill, target, 7, 1, 16, stream);
    SLOT(copy_upload, target, pinned, KIBIBYTE, stream);
    SLOT(copy_download, pinned, target, KIBIBYTE, stream);
    SLOT(copy_device, managed, target, KIBIBYTE, stream);
    SLOT(copy_peer, target, peer, source, KIBIBYTE, stream);
    SLOT(copy_2d,
         &(struct ferryi_copy_2d){target, host, 64, 128, 32, 4, FERRY_DIRECTION_UPLOAD, NULL},
         stream);
    SLOT(copy_batch, &(struct ferryi_copy){target, host, 64, FERRY_DIRECTION_UPLOAD, NULL}, 1,
         stream);
    SLOT(prefetch, managed, KIBIBYTE, NULL, stream);
    SLOT(advise, managed, KIBIBYTE, FERRY_ADVISE_READ_MOSTLY, device);
    SLOT(host_call, stream, do_nothing, NULL);
    SLOT(stream_synchronize, stream);
    void *graph;
    SLOT(capture_begin, stream);
    SLOT(fill, target, 7, 4, 16, stream);
    SLOT(capture_end, stream, &graph);
    SLOT(graph_launch, graph, stream);
    SLOT(stream_synchronize, stream);
    SLOT(graph_destroy, graph);
    SLOT(stream_destroy, stream);
    SLOT(host_unregister, host);
    SLOT(memory_free, FERRY_MEMORY_DEVICE, target);
    SLOT(memory_free, FERRY_MEMORY_PINNED, pinned);
    SLOT(memory_free, FERRY_MEMORY_MANAGED, managed);
    OK(peer->ops->memory_free(peer, FERRY_MEMORY_DEVICE, source));
    free(host);
}

static void
use_shared(ferryi_device *device, struct surroundings before)
{
    struct ferryi_shared_memory shared = {.bytes = KIBIBYTE};
    struct ferryi_token token;
    void *memory, *event, *none = NULL;
    SLOT(shared_alloc, &shared, &memory);
    SLOT(shared_event_create, &token, &event);
    assert_int_equal(device->ops->shared_open(device, &shared, &none), FERRY_ERROR_DEVICE);
    assert_undisturbed(&before, "shared_open");
    assert_int_equal(device->ops->shared_event_open(device, &token, &none), FERRY_ERROR_DEVICE);
    assert_undisturbed(&before, "shared_event_open");
    assert_null(none);
    SLOT(event_destroy, event);
    SLOT(shared_free, &shared, memory);
}

static void
use_order(ferryi_device *device, struct surroundings before)
{
    static const char image[] = ".version 8.0\n.visible .entry nothing()\n{\n}\n";
    void *event, *module, *function;
    bool answer;
    unsigned users;
    uint64_t id;
    void *scope;
    SLOT(event_create, false, &event);
    SLOT(event_record, event, NULL);
    SLOT(stream_wait, (void *)2, event);
    SLOT(event_query, event, &answer);
    SLOT(event_synchronize, event);
    SLOT(stream_is_capturing, (void *)2, &answer);
    SLOT(stream_check, (void *)2, &scope);
    SLOT(stream_id, (void *)2, &id);
    SLOT(memory_users, &answer, &users);
    SLOT(memory_is_pinned, &answer, sizeof(answer), &answer);
    SLOT(event_destroy, event);
    double seconds;
    SLOT(event_create, true, &event);
    SLOT(event_record, event, NULL);
    SLOT(event_synchronize, event);
    SLOT(event_elapsed, event, event, &seconds);
    SLOT(event_destroy, event);
    fake->fakecuda_register_kernel("nothing", empty_kernel, 0, NULL);
    SLOT(code_load, image, sizeof(image), &module);
    SLOT(code_function, module, "nothing", &function);
    size_t bytes, count;
    SLOT(code_parameters, function, 1, &bytes, &count);
    const ferry_grid grid = {.blocks = {1, 1, 1}, .threads = {1, 1, 1}, .shared_bytes = 96 << 10};
    SLOT(launch, &(struct ferryi_launch){.function = function, .grid = &grid}, NULL);
    SLOT(code_unload, module);
    OK(device->ops->synchronize(device));
    assert_undisturbed(&before, "synchronize");
}

static void
test_current_context_stays(void **state)
{
    const struct ferryi_gpu_driver *driver = &builds[NEW].driver;
    ferryi_device *device = open_build(NEW, 0), *peer = open_build(NEW, 1);
    ferryi_gpu_context other, popped;
    (void)state;
    use_memory(device, peer, (struct surroundings){fake, NULL, 0});
    use_shared(device, (struct surroundings){fake, NULL, 0});
    use_order(device, (struct surroundings){fake, NULL, 0});

    /* Makes the CUDA context of device 1 current in the calling thread. Calls on device 0 must not
     * change this. */
    assert_int_equal(driver->context_retain(&other, 1), FERRYI_GPU_SUCCESS);
    assert_int_equal(driver->context_push(other), FERRYI_GPU_SUCCESS);
    use_memory(device, peer, (struct surroundings){fake, other, 1});
    use_shared(device, (struct surroundings){fake, other, 1});
    use_order(device, (struct surroundings){fake, other, 1});
    assert_int_equal(driver->context_pop(&popped), FERRYI_GPU_SUCCESS);
    assert_int_equal(driver->context_release(1), FERRYI_GPU_SUCCESS);
    close_device(device);
    close_device(peer);
}

/* Checks that a device call restores the thread's current context, even if the driver's call fails.
 */
static void
test_current_context_stays_after_failures(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    void *memory;
    bool done;
    (void)state;
    fake->fakecuda_fail_next("cuMemAlloc_v2", FERRYI_GPU_ERROR_OUT_OF_MEMORY, 1);
    assert_int_equal(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, &memory),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake->fakecuda_context_depth(), 0);
    assert_int_not_equal(device->ops->event_query(device, (void *)64, &done), FERRY_OK);
    assert_int_equal(fake->fakecuda_context_depth(), 0);
    assert_int_not_equal(device->ops->stream_is_capturing(device, (void *)64, &done), FERRY_OK);
    assert_int_equal(fake->fakecuda_context_depth(), 0);
    close_device(device);
}

/* -- errors -- */

static void
test_statuses(void **state)
{
    static const struct {
        int code;
        ferry_status status;
        const char *name;
    } cases[] = {
        {FERRYI_GPU_ERROR_OUT_OF_MEMORY, FERRY_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {FERRYI_GPU_ERROR_INVALID_VALUE, FERRY_ERROR_DEVICE, "CUDA_ERROR_INVALID_VALUE"},
        {FERRYI_GPU_ERROR_NOT_SUPPORTED, FERRY_ERROR_UNSUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
        {FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED, FERRY_ERROR_UNSUPPORTED,
         "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
        {FERRYI_GPU_ERROR_CAPTURED_EVENT, FERRY_ERROR_UNSUPPORTED, "CUDA_ERROR_CAPTURED_EVENT"},
        {FERRYI_GPU_ERROR_NO_BINARY_FOR_GPU, FERRY_ERROR_UNSUPPORTED,
         "CUDA_ERROR_NO_BINARY_FOR_GPU"},
        {FERRYI_GPU_ERROR_INVALID_HANDLE, FERRY_ERROR_DEVICE, "CUDA_ERROR_INVALID_HANDLE"},
        {12345, FERRY_ERROR_DEVICE, "CUDA error 12345"},
    };
    ferryi_device *device = open_build(NEW, 0);
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        void *memory = NULL;
        char message[128];
        fake->fakecuda_fail_next("cuMemAlloc_v2", cases[i].code, 1);
        assert_int_equal(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 4096, &memory),
                         cases[i].status);
        snprintf(message, sizeof(message),
                 "allocate 4096 bytes of device memory on cuda:0: cuMemAlloc_v2: %s",
                 cases[i].name);
        assert_string_equal(ferry_last_error(), message);
        assert_null(memory);
        /* None of these errors may make the device unusable. */
        OK(device->ops->synchronize(device));
    }
    close_device(device);
}

static void
test_lost_is_final(void **state)
{
    static const int codes[] = {FERRYI_GPU_ERROR_ILLEGAL_ADDRESS,
                                FERRYI_GPU_ERROR_LAUNCH_FAILED,
                                FERRYI_GPU_ERROR_ASSERT,
                                FERRYI_GPU_ERROR_ECC_UNCORRECTABLE,
                                FERRYI_GPU_ERROR_MISALIGNED_ADDRESS,
                                FERRYI_GPU_ERROR_INVALID_PC,
                                FERRYI_GPU_ERROR_LAUNCH_TIMEOUT,
                                FERRYI_GPU_ERROR_CONTEXT_IS_DESTROYED,
                                FERRYI_GPU_ERROR_DEINITIALIZED,
                                FERRYI_GPU_ERROR_HARDWARE_STACK_ERROR};
    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        ferryi_device *device = open_build(NEW, 0);
        void *memory = NULL;
        fake->fakecuda_fail_next("cuMemcpyHtoDAsync_v2", codes[i], 1);
        assert_int_equal(device->ops->copy_upload(device, (void *)512, &memory, 8, NULL),
                         FERRY_ERROR_DEVICE_LOST);
        assert_says("upload 8 bytes to cuda:0: cuMemcpyHtoDAsync_v2: CUDA_ERROR_");
        /* After the device is lost, calls fail without a driver call. */
        uint64_t calls = fake->fakecuda_calls();
        assert_int_equal(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, &memory),
                         FERRY_ERROR_DEVICE_LOST);
        assert_says("the device was lost to CUDA_ERROR_");
        assert_int_equal(device->ops->synchronize(device), FERRY_ERROR_DEVICE_LOST);
        assert_int_equal(device->ops->stream_create(device, &memory), FERRY_ERROR_DEVICE_LOST);
        assert_int_equal(fake->fakecuda_calls(), calls);
        assert_null(memory);
        close_device(device);
    }
    assert_true(fake->fakecuda_set_mode("thread"));
}

static void
fault(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)parameters, (void)grid, (void)block;
    fake->fakecuda_fault(FERRYI_GPU_ERROR_ILLEGAL_ADDRESS);
}

/* Checks that a wrong address in a copy does no harm. A kernel that accesses a wrong address
 * faults: the next wait must report the fault, and the device is then lost. */
static void
test_fault_shows_when_waited_for(void **state)
{
    static const char image[] = ".version 8.0\n.visible .entry fault()\n{\n}\n";
    ferryi_device *device = open_build(NEW, 0);
    void *stream, *pinned, *module, *function;
    (void)state;
    fake->fakecuda_register_kernel("fault", fault, 0, NULL);
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, 64, &pinned));
    OK(device->ops->stream_create(device, &stream));
    OK(device->ops->code_load(device, image, sizeof(image), &module));
    OK(device->ops->code_function(device, module, "fault", &function));
    /* The driver refuses an address that it does not know, and the device stays as it was. */
    assert_int_equal(device->ops->copy_upload(device, (void *)0x10000, pinned, 64, stream),
                     FERRY_ERROR_DEVICE);
    OK(device->ops->stream_synchronize(device, stream));
    const ferry_grid grid = {.blocks = {1, 1, 1}, .threads = {1, 1, 1}};
    OK(device->ops->launch(device, &(struct ferryi_launch){.function = function, .grid = &grid},
                           stream));
    assert_int_equal(device->ops->stream_synchronize(device, stream), FERRY_ERROR_DEVICE_LOST);
    assert_string_equal(
        ferry_last_error(),
        "wait for a stream of cuda:0: cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned),
                     FERRY_ERROR_DEVICE_LOST);
    close_device(device);
}

/* Checks that a device is lost if other code in the process has destroyed its primary context. */
static void
test_destroyed_context_is_lost(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    void *memory;
    (void)state;
    fake->fakecuda_fail_next("cuCtxPushCurrent_v2", FERRYI_GPU_ERROR_INVALID_CONTEXT, 1);
    assert_int_equal(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, &memory),
                     FERRY_ERROR_DEVICE_LOST);
    assert_int_equal(device->ops->synchronize(device), FERRY_ERROR_DEVICE_LOST);
    assert_int_equal(fake->fakecuda_context_depth(), 0);
    close_device(device);
}

int
main(void)
{
    name_fakecuda();
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_absent_library),
        CUDA_TEST(test_missing_symbol_is_named),
        CUDA_TEST(test_failing_start_is_named),
        CUDA_TEST(test_groups),
        CUDA_TEST(test_environment_names_the_library),
        CUDA_TEST(test_properties),
        CUDA_TEST(test_capabilities),
        CUDA_TEST(test_coherent_needs_both),
        CUDA_TEST(test_the_nearest_node),
        CUDA_TEST(test_managed_follows_attributes),
        CUDA_TEST(test_open_unwinds),
        CUDA_TEST(test_current_context_stays),
        CUDA_TEST(test_current_context_stays_after_failures),
        CUDA_TEST(test_statuses),
        CUDA_TEST(test_lost_is_final),
        CUDA_TEST(test_fault_shows_when_waited_for),
        CUDA_TEST(test_destroyed_context_is_lost),
    };
    return cmocka_run_group_tests(tests, load_builds, NULL);
}
