/* SPDX-License-Identifier: MIT */
/* The loader and the CUDA device over fakecuda: what the contract suite cannot see from outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <ferry/buffer.h>

#include "src/device/cuda_device.h"
#include "tests/support/fakecuda.h"

#define KIBIBYTE ((size_t)1 << 10)

/* Builds of fakecuda that imitate drivers of CUDA 13, of 12.8 and of 9, each with its own devices. */
static const char *const library_names[] = {
    FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda.so",
    FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda_12.so",
    FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda_old.so",
};
enum { NEW, MIDDLE, OLD, BUILDS };

static struct build {
    struct fakecuda fake;
    struct ferryi_cuda_driver driver;
} builds[BUILDS];

static const struct ferryi_device_config config;

static struct fakecuda *const fake = &builds[NEW].fake;

#define OK(call) assert_ok((call), #call)

static void
assert_ok(ferry_status status, const char *call)
{
    if (status != FERRY_OK)
        fail_msg("%s: %s: %s", call, ferry_status_name(status), ferry_last_error());
}

static void
assert_says(const char *part)
{
    if (!strstr(ferry_last_error(), part))
        fail_msg("\"%s\" is not in \"%s\"", part, ferry_last_error());
}

static ferryi_device *
open_build(int build, int ordinal)
{
    ferryi_device *device = NULL;
    OK(ferryi_cuda_open_on(&builds[build].driver, ordinal, &config, &device));
    return device;
}

static void
close(ferryi_device *device)
{
    device->ops->close(device);
}

static int
load_builds(void **state)
{
    (void)state;
    for (int i = 0; i < BUILDS; i++) {
        if (!fakecuda_find(library_names[i], &builds[i].fake))
            return -1;
        if (ferryi_cuda_driver_load(library_names[i], &builds[i].driver) != FERRY_OK)
            return -1;
    }
    return 0;
}

static int
clear_faults(void **state)
{
    (void)state;
    for (int i = 0; i < BUILDS; i++)
        builds[i].fake.fakecuda_fail_none();
    return builds[NEW].fake.fakecuda_context_depth() == 0 ? 0 : -1;
}

/* -- the loader -- */

static void
test_absent_library(void **state)
{
    struct ferryi_cuda_driver driver = {.groups = 77};
    (void)state;
    assert_int_equal(ferryi_cuda_driver_load("/nowhere/libcuda.so.1", &driver), FERRY_ERROR_NO_DEVICE);
    assert_says("/nowhere/libcuda.so.1");
    assert_int_equal(driver.groups, 77);
}

static void
test_missing_symbol_is_named(void **state)
{
    struct ferryi_cuda_driver driver = {.groups = 77};
    (void)state;
    assert_int_equal(ferryi_cuda_driver_load(FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda_missing.so", &driver),
                     FERRY_ERROR_NO_DEVICE);
    assert_says("cuGetErrorName");
    assert_int_equal(driver.groups, 77);
}

static void
test_failing_start_is_named(void **state)
{
    struct ferryi_cuda_driver driver;
    (void)state;
    fake->fakecuda_fail_next("cuInit", FERRYI_CUDA_ERROR_NO_DEVICE, 1);
    assert_int_equal(ferryi_cuda_driver_load(library_names[NEW], &driver), FERRY_ERROR_NO_DEVICE);
    assert_says("cuInit: CUDA_ERROR_NO_DEVICE");
}

static void
test_groups(void **state)
{
    (void)state;
    assert_int_equal(builds[NEW].driver.groups, FERRYI_CUDA_REQUIRED | FERRYI_CUDA_BATCH_12_8 | FERRYI_CUDA_BATCH_13 |
                                                    FERRYI_CUDA_PREFETCH_8 | FERRYI_CUDA_PREFETCH_12_2 | FERRYI_CUDA_CAPTURE);
    assert_int_equal(builds[MIDDLE].driver.groups, FERRYI_CUDA_REQUIRED | FERRYI_CUDA_BATCH_12_8 | FERRYI_CUDA_PREFETCH_8 |
                                                       FERRYI_CUDA_PREFETCH_12_2 | FERRYI_CUDA_CAPTURE);
    assert_int_equal(builds[OLD].driver.groups, FERRYI_CUDA_REQUIRED | FERRYI_CUDA_PREFETCH_8);
}

/* FERRY_CUDA_LIBRARY is set by main() before the first use of the registry's kind. */
static void
test_environment_names_the_library(void **state)
{
    ferryi_device *device = NULL;
    (void)state;
    assert_int_equal(ferryi_cuda_kind.count(), 2);
    OK(ferryi_cuda_kind.open(1, &config, &device));
    assert_string_equal(device->properties.name, "fakecuda 1");
    assert_string_equal(device->kind, "cuda");
    close(device);
    assert_int_equal(ferryi_cuda_kind.open(2, &config, &device), FERRY_ERROR_NO_DEVICE);
    assert_says("open cuda:2: cuDeviceGet: CUDA_ERROR_INVALID_DEVICE");
    fake->fakecuda_fail_next("cuDeviceGetCount", FERRYI_CUDA_ERROR_UNKNOWN, 1);
    assert_int_equal(ferryi_cuda_kind.count(), 0);
    assert_says("cuDeviceGetCount: CUDA_ERROR_UNKNOWN");
}

/* -- opening -- */

static void
test_properties(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    struct ferryi_device_properties properties;
    size_t free_bytes, total_bytes;
    void *memory;
    (void)state;
    OK(device->ops->properties(device, &properties));
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
    close(device);
}

static void
test_capabilities(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    (void)state;
    assert_int_equal(device->capabilities, FERRY_CAN_PIN | FERRY_CAN_MANAGE | FERRY_CAN_MANAGE_CONCURRENTLY |
                                               FERRY_CAN_LOAD_CODE | FERRY_CAN_BATCH | FERRY_CAN_PEER | FERRY_CAN_CAPTURE);
    close(device);
    device = open_build(OLD, 0);
    assert_int_equal(device->capabilities, FERRY_CAN_PIN | FERRY_CAN_MANAGE | FERRY_CAN_MANAGE_CONCURRENTLY |
                                               FERRY_CAN_LOAD_CODE | FERRY_CAN_PEER);
    close(device);
}

/* Only memory that is physically the host's makes copies pointless: a coherent link alone does not. */
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
        close(device);
    }
    fake->fakecuda_set_attribute(integrated, 0);
    fake->fakecuda_set_attribute(host_tables, 0);
}

static void
test_managed_follows_attributes(void **state)
{
    void *memory = &memory;
    (void)state;
    fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0);
    ferryi_device *device = open_build(NEW, 0);
    assert_int_equal(device->capabilities & (FERRY_CAN_MANAGE | FERRY_CAN_MANAGE_CONCURRENTLY), 0);
    assert_int_equal(device->ops->memory_alloc(device, FERRY_MEMORY_MANAGED, 64, &memory), FERRY_ERROR_UNSUPPORTED);
    assert_ptr_equal(memory, &memory);
    close(device);
    fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1);
    fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0);
    device = open_build(NEW, 0);
    assert_int_equal(device->capabilities & (FERRY_CAN_MANAGE | FERRY_CAN_MANAGE_CONCURRENTLY), FERRY_CAN_MANAGE);
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_MANAGED, 64, &memory));
    assert_int_equal(device->ops->prefetch(device, memory, 64, device, (void *)2), FERRY_ERROR_UNSUPPORTED);
    assert_says("prefetch 64 bytes on cuda:0");
    assert_int_equal(device->ops->advise(device, memory, 64, FERRY_ADVISE_READ_MOSTLY, NULL), FERRY_ERROR_UNSUPPORTED);
    OK(device->ops->memory_free(device, FERRY_MEMORY_MANAGED, memory));
    close(device);
    fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1);
}

/* Whichever call fails, opening keeps nothing. */
static void
test_open_unwinds(void **state)
{
    static const char *const calls[] = {"cuDeviceGet",        "cuDeviceGetName",      "cuDeviceTotalMem_v2",
                                        "cuDriverGetVersion", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain"};
    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        ferryi_device *device = NULL;
        fake->fakecuda_fail_next(calls[i], FERRYI_CUDA_ERROR_UNKNOWN, 1);
        assert_int_equal(ferryi_cuda_open_on(&builds[NEW].driver, 0, &config, &device), FERRY_ERROR_DEVICE);
        assert_says(calls[i]);
        assert_says("open cuda:0: ");
        assert_null(device);
    }
    assert_true(fake->fakecuda_set_mode("thread")); /* no context is left alive */
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
    if (before->fake->fakecuda_current_context() != before->context || before->fake->fakecuda_context_depth() != before->depth)
        fail_msg("%s changed the current context", call);
}

#define SLOT(slot, ...)                                          \
    do {                                                         \
        OK(device->ops->slot(device, __VA_ARGS__));              \
        assert_undisturbed(&before, #slot);                      \
    } while (0)

static void
do_nothing(void *user)
{
    (void)user;
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
    SLOT(copy_2d, &(struct ferryi_copy_2d){target, host, 64, 128, 32, 4, FERRY_DIRECTION_UPLOAD}, stream);
    SLOT(copy_batch, &(struct ferryi_copy){target, host, 64, FERRY_DIRECTION_UPLOAD}, 1, stream);
    SLOT(prefetch, managed, KIBIBYTE, NULL, stream);
    SLOT(advise, managed, KIBIBYTE, FERRY_ADVISE_READ_MOSTLY, device);
    SLOT(host_call, stream, do_nothing, NULL);
    SLOT(stream_synchronize, stream);
    SLOT(stream_destroy, stream);
    SLOT(host_unregister, host);
    SLOT(memory_free, FERRY_MEMORY_DEVICE, target);
    SLOT(memory_free, FERRY_MEMORY_PINNED, pinned);
    SLOT(memory_free, FERRY_MEMORY_MANAGED, managed);
    OK(peer->ops->memory_free(peer, FERRY_MEMORY_DEVICE, source));
    free(host);
}

static void
use_order(ferryi_device *device, struct surroundings before)
{
    static const char image[] = ".version 8.0\n.visible .entry nothing()\n{\n}\n";
    void *event, *module, *function;
    bool answer;
    SLOT(event_create, &event);
    SLOT(event_record, event, NULL);
    SLOT(stream_wait, (void *)2, event);
    SLOT(event_query, event, &answer);
    SLOT(event_synchronize, event);
    SLOT(stream_is_capturing, (void *)2, &answer);
    SLOT(event_destroy, event);
    fake->fakecuda_register_kernel("nothing", (fakecuda_kernel *)(void (*)(void))do_nothing, 0, NULL);
    SLOT(code_load, image, sizeof(image), &module);
    SLOT(code_function, module, "nothing", &function);
    SLOT(code_unload, module);
    OK(device->ops->synchronize(device));
    assert_undisturbed(&before, "synchronize");
}

static void
test_current_context_stays(void **state)
{
    const struct ferryi_cuda_driver *driver = &builds[NEW].driver;
    ferryi_device *device = open_build(NEW, 0), *peer = open_build(NEW, 1);
    ferryi_cu_context other, popped;
    (void)state;
    use_memory(device, peer, (struct surroundings){fake, NULL, 0});
    use_order(device, (struct surroundings){fake, NULL, 0});

    /* A thread that works on the other device. */
    assert_int_equal(driver->cuDevicePrimaryCtxRetain(&other, 1), FERRYI_CUDA_SUCCESS);
    assert_int_equal(driver->cuCtxPushCurrent_v2(other), FERRYI_CUDA_SUCCESS);
    use_memory(device, peer, (struct surroundings){fake, other, 1});
    use_order(device, (struct surroundings){fake, other, 1});
    assert_int_equal(driver->cuCtxPopCurrent_v2(&popped), FERRYI_CUDA_SUCCESS);
    assert_int_equal(driver->cuDevicePrimaryCtxRelease_v2(1), FERRYI_CUDA_SUCCESS);
    close(device);
    close(peer);
}

/* Also when the driver refuses. */
static void
test_current_context_stays_after_failures(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    void *memory;
    bool done;
    (void)state;
    fake->fakecuda_fail_next("cuMemAlloc_v2", FERRYI_CUDA_ERROR_OUT_OF_MEMORY, 1);
    assert_int_equal(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, &memory), FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake->fakecuda_context_depth(), 0);
    assert_int_not_equal(device->ops->event_query(device, (void *)64, &done), FERRY_OK);
    assert_int_equal(fake->fakecuda_context_depth(), 0);
    assert_int_not_equal(device->ops->stream_is_capturing(device, (void *)64, &done), FERRY_OK);
    assert_int_equal(fake->fakecuda_context_depth(), 0);
    close(device);
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
        {FERRYI_CUDA_ERROR_OUT_OF_MEMORY, FERRY_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {FERRYI_CUDA_ERROR_INVALID_VALUE, FERRY_ERROR_DEVICE, "CUDA_ERROR_INVALID_VALUE"},
        {FERRYI_CUDA_ERROR_NOT_SUPPORTED, FERRY_ERROR_UNSUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
        {FERRYI_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, FERRY_ERROR_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
        {FERRYI_CUDA_ERROR_CAPTURED_EVENT, FERRY_ERROR_UNSUPPORTED, "CUDA_ERROR_CAPTURED_EVENT"},
        {FERRYI_CUDA_ERROR_NO_BINARY_FOR_GPU, FERRY_ERROR_UNSUPPORTED, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
        {FERRYI_CUDA_ERROR_INVALID_HANDLE, FERRY_ERROR_DEVICE, "CUDA_ERROR_INVALID_HANDLE"},
        {12345, FERRY_ERROR_DEVICE, "CUDA error 12345"},
    };
    ferryi_device *device = open_build(NEW, 0);
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        void *memory = NULL;
        char sentence[128];
        fake->fakecuda_fail_next("cuMemAlloc_v2", cases[i].code, 1);
        assert_int_equal(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 4096, &memory), cases[i].status);
        snprintf(sentence, sizeof(sentence), "allocate 4096 bytes of device memory on cuda:0: cuMemAlloc_v2: %s", cases[i].name);
        assert_string_equal(ferry_last_error(), sentence);
        assert_null(memory);
        /* None of these ends the device. */
        OK(device->ops->synchronize(device));
    }
    close(device);
}

static void
test_lost_is_final(void **state)
{
    static const int codes[] = {FERRYI_CUDA_ERROR_ILLEGAL_ADDRESS,    FERRYI_CUDA_ERROR_LAUNCH_FAILED,
                                FERRYI_CUDA_ERROR_ASSERT,             FERRYI_CUDA_ERROR_ECC_UNCORRECTABLE,
                                FERRYI_CUDA_ERROR_MISALIGNED_ADDRESS, FERRYI_CUDA_ERROR_INVALID_PC,
                                FERRYI_CUDA_ERROR_LAUNCH_TIMEOUT,     FERRYI_CUDA_ERROR_CONTEXT_IS_DESTROYED,
                                FERRYI_CUDA_ERROR_DEINITIALIZED,      FERRYI_CUDA_ERROR_HARDWARE_STACK_ERROR};
    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        ferryi_device *device = open_build(NEW, 0);
        void *memory = NULL;
        fake->fakecuda_fail_next("cuMemcpyHtoDAsync_v2", codes[i], 1);
        assert_int_equal(device->ops->copy_upload(device, (void *)512, &memory, 8, NULL), FERRY_ERROR_DEVICE_LOST);
        assert_says("upload 8 bytes to cuda:0: cuMemcpyHtoDAsync_v2: CUDA_ERROR_");
        /* From now on no driver call is made. */
        uint64_t calls = fake->fakecuda_calls();
        assert_int_equal(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, &memory), FERRY_ERROR_DEVICE_LOST);
        assert_says("the device was lost to CUDA_ERROR_");
        assert_int_equal(device->ops->synchronize(device), FERRY_ERROR_DEVICE_LOST);
        assert_int_equal(device->ops->stream_create(device, &memory), FERRY_ERROR_DEVICE_LOST);
        assert_int_equal(fake->fakecuda_calls(), calls);
        assert_null(memory);
        close(device);
    }
    assert_true(fake->fakecuda_set_mode("thread"));
}

/* A fault on the device shows where somebody waits. */
static void
test_fault_shows_when_waited_for(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    void *stream, *pinned;
    (void)state;
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, 64, &pinned));
    OK(device->ops->stream_create(device, &stream));
    OK(device->ops->copy_upload(device, (void *)0x10000, pinned, 64, stream));
    assert_int_equal(device->ops->stream_synchronize(device, stream), FERRY_ERROR_DEVICE_LOST);
    assert_string_equal(ferry_last_error(), "wait for a stream of cuda:0: cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned), FERRY_ERROR_DEVICE_LOST);
    close(device);
}

/* Somebody in the process reset the device under us. */
static void
test_destroyed_context_is_lost(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    void *memory;
    (void)state;
    fake->fakecuda_fail_next("cuCtxPushCurrent_v2", FERRYI_CUDA_ERROR_INVALID_CONTEXT, 1);
    assert_int_equal(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, &memory), FERRY_ERROR_DEVICE_LOST);
    assert_int_equal(device->ops->synchronize(device), FERRY_ERROR_DEVICE_LOST);
    assert_int_equal(fake->fakecuda_context_depth(), 0);
    close(device);
}

/* -- managed memory through both generations of calls -- */

static void
check_generation(int build, const char *prefetch, const char *advise)
{
    struct fakecuda *here = &builds[build].fake;
    ferryi_device *device = open_build(build, 0), *other = open_build(build, 1);
    void *memory, *stream;
    uint64_t prefetches = here->fakecuda_calls_of(prefetch), advices = here->fakecuda_calls_of(advise);
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_MANAGED, 4096, &memory));
    OK(device->ops->stream_create(device, &stream));

    OK(device->ops->prefetch(device, memory, 4096, other, stream));
    assert_int_equal(here->fakecuda_last_location(), 1);
    OK(device->ops->prefetch(device, memory, 4096, NULL, stream));
    assert_int_equal(here->fakecuda_last_location(), -1);
    OK(device->ops->prefetch(device, memory, 4096, device, stream));
    assert_int_equal(here->fakecuda_last_location(), 0);
    OK(device->ops->advise(device, memory, 4096, FERRY_ADVISE_PREFERRED_LOCATION, other));
    assert_int_equal(here->fakecuda_last_location(), 1);
    OK(device->ops->advise(device, memory, 4096, FERRY_ADVISE_ACCESSED_BY, NULL));
    assert_int_equal(here->fakecuda_last_location(), -1);
    OK(device->ops->prefetch(device, memory, 0, other, stream));
    OK(device->ops->advise(device, memory, 0, FERRY_ADVISE_ACCESSED_BY, other));
    assert_int_equal(here->fakecuda_last_location(), -1);
    assert_int_equal(here->fakecuda_calls_of(prefetch), prefetches + 3);
    assert_int_equal(here->fakecuda_calls_of(advise), advices + 2);

    OK(device->ops->stream_destroy(device, stream));
    OK(device->ops->memory_free(device, FERRY_MEMORY_MANAGED, memory));
    close(device);
    close(other);
}

static void
test_prefetch_by_location(void **state)
{
    (void)state;
    check_generation(NEW, "cuMemPrefetchAsync_v2", "cuMemAdvise_v2");
}

static void
test_prefetch_by_ordinal(void **state)
{
    (void)state;
    check_generation(OLD, "cuMemPrefetchAsync", "cuMemAdvise");
}

/* -- batches -- */

enum { BATCH = 1000 };

static void
check_batch(int build, const char *call, uint64_t expected_calls, void *stream_wanted)
{
    struct fakecuda *here = &builds[build].fake;
    ferryi_device *device = open_build(build, 0);
    struct ferryi_copy *copies = calloc(BATCH + 1, sizeof(*copies));
    char *memory;
    int *pinned, *back;
    void *stream = stream_wanted;
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 2 * BATCH * sizeof(int), (void **)&memory));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, BATCH * sizeof(int), (void **)&pinned));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, BATCH * sizeof(int), (void **)&back));
    if (!stream)
        OK(device->ops->stream_create(device, &stream));
    for (int i = 0; i < BATCH; i++) {
        pinned[i] = i + 1;
        /* One of no bytes in the middle. */
        copies[i + (i >= 500)] = (struct ferryi_copy){memory + 8 * i, &pinned[i], sizeof(int), FERRY_DIRECTION_UPLOAD};
    }
    uint64_t calls = here->fakecuda_calls_of(call);
    OK(device->ops->copy_batch(device, copies, BATCH + 1, stream));
    assert_int_equal(here->fakecuda_calls_of(call) - calls, expected_calls);
    OK(device->ops->copy_2d(device, &(struct ferryi_copy_2d){back, memory, 4, 8, 4, BATCH, FERRY_DIRECTION_DOWNLOAD}, stream));
    OK(device->ops->stream_synchronize(device, stream));
    assert_memory_equal(pinned, back, BATCH * sizeof(int));
    OK(device->ops->copy_batch(device, copies, 0, stream));
    OK(device->ops->copy_batch(device, &copies[500], 1, stream));

    if (!stream_wanted)
        OK(device->ops->stream_destroy(device, stream));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, back));
    free(copies);
    close(device);
}

static void
test_batch_is_one_call(void **state)
{
    (void)state;
    check_batch(NEW, "cuMemcpyBatchAsync_v2", 1, NULL);
    check_batch(NEW, "cuMemcpyBatchAsync_v2", 1, (void *)2);
    check_batch(MIDDLE, "cuMemcpyBatchAsync", 1, NULL);
}

/* The driver takes none on the legacy stream; it works all the same. */
static void
test_batch_on_the_legacy_stream(void **state)
{
    (void)state;
    check_batch(NEW, "cuMemcpyBatchAsync_v2", 0, (void *)1);
    check_batch(NEW, "cuMemcpyHtoDAsync_v2", BATCH, (void *)1);
}

static void
test_batch_without_the_group(void **state)
{
    ferryi_device *device = open_build(OLD, 0);
    (void)state;
    assert_int_equal(device->ops->copy_batch(device, &(struct ferryi_copy){0}, 1, (void *)2), FERRY_ERROR_UNSUPPORTED);
    assert_says("cuMemcpyBatchAsync");
    close(device);
}

/* -- peers -- */

static void
test_peer_access_is_asked_for_once(void **state)
{
    ferryi_device *device = open_build(NEW, 0), *peer = open_build(NEW, 1);
    char *source, *target, *pinned;
    void *stream, *peer_stream;
    (void)state;
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, (void **)&target));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, 64, (void **)&pinned));
    OK(peer->ops->memory_alloc(peer, FERRY_MEMORY_DEVICE, 64, (void **)&source));
    OK(device->ops->stream_create(device, &stream));
    OK(peer->ops->stream_create(peer, &peer_stream));
    OK(peer->ops->fill(peer, source, 0x5a, 1, 64, peer_stream));
    OK(peer->ops->stream_synchronize(peer, peer_stream));
    assert_int_equal(fake->fakecuda_peers(0), 0);
    uint64_t asked = fake->fakecuda_calls_of("cuCtxEnablePeerAccess");
    OK(device->ops->copy_peer(device, target, peer, source, 64, stream));
    OK(device->ops->copy_peer(device, target, peer, source, 64, stream));
    assert_int_equal(fake->fakecuda_calls_of("cuCtxEnablePeerAccess"), asked + 1);
    assert_int_equal(fake->fakecuda_peers(0), 1 << 1);
    OK(device->ops->copy_download(device, pinned, target, 64, stream));
    OK(device->ops->stream_synchronize(device, stream));
    assert_int_equal(pinned[63], 0x5a);
    /* Memory of the wrong device is refused before anything moves. */
    assert_int_equal(device->ops->copy_device(device, target, source, 64, stream), FERRY_ERROR_DEVICE);
    OK(device->ops->stream_destroy(device, stream));
    OK(peer->ops->stream_destroy(peer, peer_stream));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, target));
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));
    OK(peer->ops->memory_free(peer, FERRY_MEMORY_DEVICE, source));
    close(device);
    close(peer);
}

/* -- capture -- */

/* Calls that are no stream work neither fail nor spoil a capture that goes on in this thread or another. */
static void
test_calls_aside_leave_captures_alone(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    void *captured, *stream, *event, *memory, *module;
    static const char image[] = ".version 8.0\n.entry nothing() {}\n";
    bool answer = false;
    int nodes = 0;
    (void)state;
    OK(device->ops->stream_create(device, &captured));
    OK(device->ops->stream_create(device, &stream));
    OK(device->ops->event_create(device, &event));
    assert_int_equal(fake->fakecuda_begin_capture(captured, FERRYI_CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    OK(device->ops->stream_is_capturing(device, captured, &answer));
    assert_true(answer);
    OK(device->ops->stream_is_capturing(device, stream, &answer));
    assert_false(answer);
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, &memory));
    OK(device->ops->fill(device, memory, 0, 1, 64, stream));
    OK(device->ops->event_record(device, event, stream));
    OK(device->ops->event_synchronize(device, event));
    OK(device->ops->event_query(device, event, &answer));
    assert_true(answer);
    OK(device->ops->stream_synchronize(device, stream));
    OK(device->ops->code_load(device, image, sizeof(image), &module));
    OK(device->ops->code_unload(device, module));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
    assert_int_equal(fake->fakecuda_end_capture(captured, &nodes), 0);
    assert_int_equal(nodes, 0);

    /* What waits for a captured stream is refused. */
    assert_int_equal(fake->fakecuda_begin_capture(captured, FERRYI_CU_STREAM_CAPTURE_MODE_RELAXED), 0);
    assert_int_equal(device->ops->stream_synchronize(device, captured), FERRY_ERROR_UNSUPPORTED);
    OK(device->ops->stream_is_capturing(device, captured, &answer));
    assert_true(answer);
    assert_int_not_equal(fake->fakecuda_end_capture(captured, &nodes), 0);
    OK(device->ops->event_destroy(device, event));
    OK(device->ops->stream_destroy(device, stream));
    OK(device->ops->stream_destroy(device, captured));
    close(device);
}

/* While a blocking stream is captured, any use of the legacy stream would spoil it: it answers as if captured too. */
static void
test_legacy_stream_beside_a_capture(void **state)
{
    const struct ferryi_cuda_driver *driver = &builds[NEW].driver;
    ferryi_device *device = open_build(NEW, 0);
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    struct ferryi_cuda_entry entry;
    ferryi_cu_stream blocking;
    bool answer = false;
    int nodes;
    (void)state;
    OK(ferryi_cuda_enter(cuda, FERRYI_CUDA_ASIDE, &entry));
    assert_int_equal(driver->cuStreamCreate(&blocking, 0), FERRYI_CUDA_SUCCESS);
    ferryi_cuda_leave(cuda, &entry);
    assert_int_equal(fake->fakecuda_begin_capture(blocking, FERRYI_CU_STREAM_CAPTURE_MODE_RELAXED), 0);
    OK(device->ops->stream_is_capturing(device, NULL, &answer));
    assert_true(answer);
    assert_int_equal(fake->fakecuda_end_capture(blocking, &nodes), 0);
    OK(device->ops->stream_is_capturing(device, NULL, &answer));
    assert_false(answer);
    OK(device->ops->stream_destroy(device, blocking));
    close(device);
}

/* -- code -- */

static void
add_all(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    int *target = *(int **)parameters[0];
    int increment = *(int *)parameters[1];
    for (unsigned i = 0; i < grid[0] * block[0]; i++)
        target[i] += increment;
}

static void
crash(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)parameters, (void)grid, (void)block;
    fake->fakecuda_fault(FERRYI_CUDA_ERROR_LAUNCH_FAILED);
}

static const char ptx[] = ".version 8.0\n.visible .entry add_all(\n.param .u64 a, .param .u32 b)\n{}\n.entry crash() {}\n"
                          ".entry unknown(){}\n";

static void
test_launch(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    void *module, *function, *stream;
    int *memory, *pinned, increment = 5;
    (void)state;
    fake->fakecuda_register_kernel("add_all", add_all, 2, (size_t[]){sizeof(int *), sizeof(int)});
    OK(device->ops->code_load(device, ptx, sizeof(ptx), &module));
    OK(device->ops->code_function(device, module, "add_all", &function));
    OK(device->ops->stream_create(device, &stream));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 256, (void **)&memory));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, 256, (void **)&pinned));
    OK(device->ops->fill(device, memory, 1, 4, 64, stream));
    struct ferryi_launch launch = {function, {{2, 1, 1}, {32, 1, 1}, 0}, (void *[]){&memory, &increment}};
    OK(device->ops->launch(device, &launch, stream));
    increment = 100; /* the values are those of the launch */
    OK(device->ops->copy_download(device, pinned, memory, 256, stream));
    OK(device->ops->stream_synchronize(device, stream));
    for (int i = 0; i < 64; i++)
        assert_int_equal(pinned[i], 6);

    /* More shared memory is opted into, and the limit never falls. */
    uint64_t raised = fake->fakecuda_calls_of("cuFuncSetAttribute");
    launch.grid.shared_bytes = 48 << 10;
    OK(device->ops->launch(device, &launch, stream));
    assert_int_equal(fake->fakecuda_calls_of("cuFuncSetAttribute"), raised);
    launch.grid.shared_bytes = 96 << 10;
    OK(device->ops->launch(device, &launch, stream));
    launch.grid.shared_bytes = 64 << 10;
    OK(device->ops->launch(device, &launch, stream));
    assert_int_equal(fake->fakecuda_calls_of("cuFuncSetAttribute"), raised + 1);
    launch.grid.shared_bytes = 300 << 10;
    assert_int_equal(device->ops->launch(device, &launch, stream), FERRY_ERROR_DEVICE);
    assert_says("allow 307200 bytes of shared memory on cuda:0: cuFuncSetAttribute: CUDA_ERROR_INVALID_VALUE");
    launch.grid.shared_bytes = 0;
    launch.grid.threads[0] = 2048;
    assert_int_equal(device->ops->launch(device, &launch, stream), FERRY_ERROR_DEVICE);
    assert_says("launch 2x1x1 blocks of 2048x1x1 threads on cuda:0: cuLaunchKernel: CUDA_ERROR_INVALID_VALUE");

    OK(device->ops->code_function(device, module, "unknown", &function));
    assert_int_equal(device->ops->code_function(device, module, "absent", &function), FERRY_ERROR_DEVICE);
    assert_says("find the kernel absent in code on cuda:0: cuModuleGetFunction: CUDA_ERROR_NOT_FOUND");
    OK(device->ops->stream_synchronize(device, stream));
    OK(device->ops->stream_destroy(device, stream));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));
    OK(device->ops->code_unload(device, module));
    close(device);
}

static void
test_crashing_kernel_loses_the_device(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    void *module, *function;
    (void)state;
    fake->fakecuda_register_kernel("crash", crash, 0, NULL);
    OK(device->ops->code_load(device, ptx, sizeof(ptx), &module));
    OK(device->ops->code_function(device, module, "crash", &function));
    OK(device->ops->launch(device, &(struct ferryi_launch){function, {{1, 1, 1}, {1, 1, 1}, 0}, NULL}, (void *)2));
    assert_int_equal(device->ops->synchronize(device), FERRY_ERROR_DEVICE_LOST);
    assert_says("wait for all work of cuda:0: cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED");
    close(device);
}

static void
test_bad_images(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    void *module = NULL;
    static const char no_entry[] = ".version 8.0\n", cubin[] = "\x7f" "ELFxxxx";
    (void)state;
    assert_int_equal(device->ops->code_load(device, no_entry, sizeof(no_entry), &module), FERRY_ERROR_DEVICE);
    assert_says("cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX: fakecuda: there is no .entry in the text");
    assert_int_equal(device->ops->code_load(device, cubin, sizeof(cubin), &module), FERRY_ERROR_UNSUPPORTED);
    /* The text without its NUL is not shown to the driver, which would read on. */
    uint64_t loads = fake->fakecuda_calls_of("cuModuleLoadDataEx");
    assert_int_equal(device->ops->code_load(device, ptx, sizeof(ptx) - 1, &module), FERRY_ERROR_DEVICE);
    assert_int_equal(fake->fakecuda_calls_of("cuModuleLoadDataEx"), loads);
    assert_null(module);
    close(device);
}

/* -- nothing stays -- */

static void
test_no_bytes_make_no_call(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    (void)state;
    uint64_t calls = fake->fakecuda_calls();
    OK(device->ops->copy_upload(device, NULL, NULL, 0, NULL));
    OK(device->ops->copy_download(device, NULL, NULL, 0, NULL));
    OK(device->ops->copy_device(device, NULL, NULL, 0, NULL));
    OK(device->ops->copy_peer(device, NULL, device, NULL, 0, NULL));
    OK(device->ops->copy_2d(device, &(struct ferryi_copy_2d){.rows = 4}, NULL));
    OK(device->ops->fill(device, NULL, 0, 4, 0, NULL));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, NULL));
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, NULL));
    assert_int_equal(fake->fakecuda_calls(), calls);
    close(device);
}

static void
test_many_threads(void **state)
{
    (void)state;
    ferryi_device *device = open_build(NEW, 0);
    /* Streams of one device from several threads: each sees its own order, and per-thread streams are apart. */
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    extern void *work_alone(void *);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work_alone, device), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    close(device);
}

void *work_alone(void *argument);

void *
work_alone(void *argument)
{
    ferryi_device *device = argument;
    ferry_status st = FERRY_OK;
    int *pinned = NULL, *memory = NULL;
    bool wrong = device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, 64, (void **)&pinned) != FERRY_OK ||
                 device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, (void **)&memory) != FERRY_OK;
    for (int round = 0; round < 50 && !wrong; round++) {
        void *stream = (void *)2, *event;
        FERRY_TRY(st, fail, device->ops->event_create(device, &event));
        if (round % 2)
            FERRY_TRY(st, fail, device->ops->stream_create(device, &stream));
        FERRY_TRY(st, fail, device->ops->fill(device, memory, (uint32_t)round, 4, 16, stream));
        FERRY_TRY(st, fail, device->ops->copy_download(device, pinned, memory, 64, stream));
        FERRY_TRY(st, fail, device->ops->event_record(device, event, stream));
        FERRY_TRY(st, fail, device->ops->event_synchronize(device, event));
        wrong = pinned[15] != round;
        FERRY_TRY(st, fail, device->ops->event_destroy(device, event));
        if (round % 2)
            FERRY_TRY(st, fail, device->ops->stream_destroy(device, stream));
    }
    FERRY_TRY(st, fail, device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));
    FERRY_TRY(st, fail, device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
fail:
    return st == FERRY_OK && !wrong ? NULL : argument;
}

int
main(void)
{
    setenv("FERRY_CUDA_LIBRARY", library_names[NEW], 1);
    setenv("FAKECUDA_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_absent_library, clear_faults),
        cmocka_unit_test_teardown(test_missing_symbol_is_named, clear_faults),
        cmocka_unit_test_teardown(test_failing_start_is_named, clear_faults),
        cmocka_unit_test_teardown(test_groups, clear_faults),
        cmocka_unit_test_teardown(test_environment_names_the_library, clear_faults),
        cmocka_unit_test_teardown(test_properties, clear_faults),
        cmocka_unit_test_teardown(test_capabilities, clear_faults),
        cmocka_unit_test_teardown(test_coherent_needs_both, clear_faults),
        cmocka_unit_test_teardown(test_managed_follows_attributes, clear_faults),
        cmocka_unit_test_teardown(test_open_unwinds, clear_faults),
        cmocka_unit_test_teardown(test_current_context_stays, clear_faults),
        cmocka_unit_test_teardown(test_current_context_stays_after_failures, clear_faults),
        cmocka_unit_test_teardown(test_statuses, clear_faults),
        cmocka_unit_test_teardown(test_lost_is_final, clear_faults),
        cmocka_unit_test_teardown(test_fault_shows_when_waited_for, clear_faults),
        cmocka_unit_test_teardown(test_destroyed_context_is_lost, clear_faults),
        cmocka_unit_test_teardown(test_prefetch_by_location, clear_faults),
        cmocka_unit_test_teardown(test_prefetch_by_ordinal, clear_faults),
        cmocka_unit_test_teardown(test_batch_is_one_call, clear_faults),
        cmocka_unit_test_teardown(test_batch_on_the_legacy_stream, clear_faults),
        cmocka_unit_test_teardown(test_batch_without_the_group, clear_faults),
        cmocka_unit_test_teardown(test_peer_access_is_asked_for_once, clear_faults),
        cmocka_unit_test_teardown(test_calls_aside_leave_captures_alone, clear_faults),
        cmocka_unit_test_teardown(test_legacy_stream_beside_a_capture, clear_faults),
        cmocka_unit_test_teardown(test_launch, clear_faults),
        cmocka_unit_test_teardown(test_crashing_kernel_loses_the_device, clear_faults),
        cmocka_unit_test_teardown(test_bad_images, clear_faults),
        cmocka_unit_test_teardown(test_no_bytes_make_no_call, clear_faults),
        cmocka_unit_test_teardown(test_many_threads, clear_faults),
    };
    return cmocka_run_group_tests(tests, load_builds, NULL);
}
