/* SPDX-License-Identifier: MIT */
/* Tests properties of the CUDA device, over the fake driver fakecuda, that the tests of all kinds
 * of devices in tests/device cannot observe. */
#include "tests/support/copy_slots.h"
#include "tests/unit/cuda_fixture.h"

/* -- managed memory, with the old and new versions of the prefetch and advice calls -- */

static void
check_generation(int build, const char *prefetch, const char *advise)
{
    struct fakecuda *here = &builds[build].fake;
    ferryi_device *device = open_build(build, 0), *other = open_build(build, 1);
    void *memory, *stream;
    uint64_t prefetches = here->fakecuda_calls_of(prefetch),
             advices = here->fakecuda_calls_of(advise);
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
    close_device(device);
    close_device(other);
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
check_batch(int build, const char *call, void *stream_wanted)
{
    struct fakecuda *here = &builds[build].fake;
    ferryi_device *device = open_build(build, 0);
    struct ferryi_copy *copies = calloc(BATCH + 1, sizeof(*copies));
    char *memory;
    int *pinned, *back;
    void *stream = stream_wanted;
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 2 * BATCH * sizeof(int),
                                 (void **)&memory));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, BATCH * sizeof(int),
                                 (void **)&pinned));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, BATCH * sizeof(int), (void **)&back));
    if (!stream)
        OK(device->ops->stream_create(device, &stream));
    for (int i = 0; i < BATCH; i++) {
        pinned[i] = i + 1;
        /* Skips copies[500], which stays zero, so that the batch contains a copy of 0 bytes. */
        copies[i + (i >= 500)] = (struct ferryi_copy){memory + 8 * i, &pinned[i], sizeof(int),
                                                      FERRY_DIRECTION_UPLOAD, NULL};
    }
    uint64_t calls = here->fakecuda_calls_of(call);
    OK(device->ops->copy_batch(device, copies, BATCH + 1, stream));
    assert_int_equal(here->fakecuda_calls_of(call) - calls, 1);
    OK(device->ops->copy_2d(
        device,
        &(struct ferryi_copy_2d){back, memory, 4, 8, 4, BATCH, FERRY_DIRECTION_DOWNLOAD, NULL},
        stream));
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
    close_device(device);
}

static void
test_batch_is_one_call(void **state)
{
    (void)state;
    check_batch(NEW, "cuMemcpyBatchAsync_v2", NULL);
    check_batch(NEW, "cuMemcpyBatchAsync_v2", (void *)2);
    check_batch(MIDDLE, "cuMemcpyBatchAsync", NULL);
}

/* Checks that the device refuses batches on the legacy stream without calling the driver. A real
 * driver would refuse them as well. */
static void
test_no_batch_on_the_legacy_stream(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    uint64_t calls = fake->fakecuda_calls_of("cuMemcpyBatchAsync_v2");
    (void)state;
    for (uintptr_t stream = 0; stream < 2; stream++) {
        assert_int_equal(
            device->ops->copy_batch(device, &(struct ferryi_copy){0}, 1, (void *)stream),
            FERRY_ERROR_UNSUPPORTED);
        assert_says("on this stream");
    }
    assert_int_equal(fake->fakecuda_calls_of("cuMemcpyBatchAsync_v2"), calls);
    close_device(device);
}

static void
test_batch_without_the_group(void **state)
{
    ferryi_device *device = open_build(OLD, 0);
    (void)state;
    assert_int_equal(device->ops->copy_batch(device, &(struct ferryi_copy){0}, 1, (void *)2),
                     FERRY_ERROR_UNSUPPORTED);
    assert_says("no batches of copies");
    close_device(device);
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
    /* The call names the wrong source device. It must fail before any bytes are copied. */
    assert_int_equal(device->ops->copy_device(device, target, source, 64, stream),
                     FERRY_ERROR_DEVICE);
    /* A batch of ranges must be one driver call. A copy of rows must also be one driver call. */
    const struct ferryi_copy ranges[] = {{target, source, 8, FERRY_DIRECTION_PEER, peer},
                                         {target + 16, source + 8, 8, FERRY_DIRECTION_PEER, peer}};
    const struct ferryi_copy_2d rows = {target, source, 16, 8, 8, 4, FERRY_DIRECTION_PEER, peer};
    uint64_t batches = fake->fakecuda_calls_of("cuMemcpyBatchAsync_v2"),
             rectangles = fake->fakecuda_calls_of("cuMemcpy3DPeerAsync");
    uint64_t singles = fake->fakecuda_calls_of("cuMemcpyPeerAsync");
    OK(device->ops->copy_batch(device, ranges, 2, stream));
    OK(device->ops->copy_2d(device, &rows, stream));
    assert_int_equal(fake->fakecuda_calls_of("cuMemcpyBatchAsync_v2"), batches + 1);
    assert_int_equal(fake->fakecuda_calls_of("cuMemcpy3DPeerAsync"), rectangles + 1);
    assert_int_equal(fake->fakecuda_calls_of("cuMemcpyPeerAsync"), singles);
    /* If the driver refuses a batch between devices, the device returns UNSUPPORTED. The caller can
     * then copy each range separately. */
    fake->fakecuda_fail_next("cuMemcpyBatchAsync_v2", 801, 1);
    assert_int_equal(device->ops->copy_batch(device, ranges, 2, stream), FERRY_ERROR_UNSUPPORTED);
    assert_says("between devices");
    OK(device->ops->stream_synchronize(device, stream));
    OK(device->ops->stream_destroy(device, stream));
    OK(peer->ops->stream_destroy(peer, peer_stream));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, target));
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));
    OK(peer->ops->memory_free(peer, FERRY_MEMORY_DEVICE, source));
    close_device(device);
    close_device(peer);
}

/* Peer access that is enabled but gives wrong bytes is found by a test of 4 KiB, once. The device
 * then refuses copies from the peer, and the caller copies through the host. */
static void
test_broken_peer_access_is_not_used(void **state)
{
    ferryi_device *device = open_build(NEW, 0), *peer = open_build(NEW, 1);
    char *source, *target;
    void *stream;
    (void)state;
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, (void **)&target));
    OK(peer->ops->memory_alloc(peer, FERRY_MEMORY_DEVICE, 64, (void **)&source));
    OK(device->ops->stream_create(device, &stream));
    const struct ferryi_copy ranges[] = {{target, source, 8, FERRY_DIRECTION_PEER, peer},
                                         {target + 16, source + 8, 8, FERRY_DIRECTION_PEER, peer}};
    const struct ferryi_copy_2d rows = {target, source, 16, 8, 8, 4, FERRY_DIRECTION_PEER, peer};
    struct fakecuda_live before = fake->fakecuda_live();
    fake->fakecuda_break_peers(true);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(device->ops->copy_peer(device, target, peer, source, 64, stream),
                         FERRY_ERROR_UNSUPPORTED);
        assert_says("peer access gives wrong bytes");
        assert_int_equal(device->ops->copy_batch(device, ranges, 2, stream),
                         FERRY_ERROR_UNSUPPORTED);
        assert_int_equal(device->ops->copy_2d(device, &rows, stream), FERRY_ERROR_UNSUPPORTED);
        fake->fakecuda_break_peers(false); /* the answer is remembered */
    }
    struct fakecuda_live after = fake->fakecuda_live();
    assert_int_equal(after.allocations, before.allocations);
    assert_int_equal(after.streams, before.streams);
    OK(device->ops->stream_destroy(device, stream));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, target));
    OK(peer->ops->memory_free(peer, FERRY_MEMORY_DEVICE, source));
    close_device(device);
    close_device(peer);
}

/* -- capture -- */

/* During a stream capture, makes calls that queue no work, both in the capturing thread and in a
 * second thread. Checks that the calls succeed and that the capture stays valid. */
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
    OK(device->ops->event_create(device, false, &event));
    assert_int_equal(fake->fakecuda_begin_capture(captured, FERRYI_GPU_STREAM_CAPTURE_MODE_GLOBAL),
                     0);
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

    /* The device must refuse to wait for a stream that is being captured. */
    assert_int_equal(fake->fakecuda_begin_capture(captured, FERRYI_GPU_STREAM_CAPTURE_MODE_RELAXED),
                     0);
    assert_int_equal(device->ops->stream_synchronize(device, captured), FERRY_ERROR_UNSUPPORTED);
    OK(device->ops->stream_is_capturing(device, captured, &answer));
    assert_true(answer);
    assert_int_not_equal(fake->fakecuda_end_capture(captured, &nodes), 0);
    OK(device->ops->event_destroy(device, event));
    OK(device->ops->stream_destroy(device, stream));
    OK(device->ops->stream_destroy(device, captured));
    close_device(device);
}

/* Checks that the legacy stream counts as captured while a blocking stream is being captured. A use
 * of the legacy stream would invalidate that capture. */
static void
test_legacy_stream_beside_a_capture(void **state)
{
    const struct ferryi_gpu_driver *driver = &builds[NEW].driver;
    ferryi_device *device = open_build(NEW, 0);
    struct ferryi_gpu_device *cuda = ferryi_gpu_of(device);
    struct ferryi_gpu_entry entry;
    ferryi_gpu_stream blocking;
    bool answer = false;
    int nodes;
    (void)state;
    OK(ferryi_gpu_enter(cuda, FERRYI_GPU_ASIDE, &entry));
    assert_int_equal(driver->stream_create(&blocking, 0), FERRYI_GPU_SUCCESS);
    ferryi_gpu_leave(cuda, &entry);
    assert_int_equal(fake->fakecuda_begin_capture(blocking, FERRYI_GPU_STREAM_CAPTURE_MODE_RELAXED),
                     0);
    OK(device->ops->stream_is_capturing(device, NULL, &answer));
    assert_true(answer);
    assert_int_equal(fake->fakecuda_end_capture(blocking, &nodes), 0);
    OK(device->ops->stream_is_capturing(device, NULL, &answer));
    assert_false(answer);
    OK(device->ops->stream_destroy(device, blocking));
    close_device(device);
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
    fake->fakecuda_fault(FERRYI_GPU_ERROR_LAUNCH_FAILED);
}

static const char ptx[] =
    ".version 8.0\n.visible .entry add_all(\n.param .u64 a, .param .u32 b)\n{}\n.entry crash() {}\n"
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
    ferry_grid grid = {.blocks = {2, 1, 1}, .threads = {32, 1, 1}};
    const struct ferryi_launch launch = {.function = function,
                                         .grid = &grid,
                                         .arguments = (void *[]){&memory, &increment},
                                         .bytes =
                                             (size_t[]){FERRYI_LAUNCH_ADDRESS, sizeof(increment)},
                                         .count = 2};
    OK(device->ops->launch(device, &launch, stream));
    increment = 100; /* must have no effect, because the launch has copied its arguments */
    OK(device->ops->copy_download(device, pinned, memory, 256, stream));
    OK(device->ops->stream_synchronize(device, stream));
    for (int i = 0; i < 64; i++)
        assert_int_equal(pinned[i], 6);

    /* If a launch needs more shared memory than the function's limit, the device raises the limit.
     * It must never lower the limit. */
    uint64_t raised = fake->fakecuda_calls_of("cuFuncSetAttribute");
    grid.shared_bytes = 48 << 10;
    OK(device->ops->launch(device, &launch, stream));
    assert_int_equal(fake->fakecuda_calls_of("cuFuncSetAttribute"), raised);
    grid.shared_bytes = 96 << 10;
    OK(device->ops->launch(device, &launch, stream));
    grid.shared_bytes = 64 << 10;
    OK(device->ops->launch(device, &launch, stream));
    assert_int_equal(fake->fakecuda_calls_of("cuFuncSetAttribute"), raised + 1);
    grid.shared_bytes = 300 << 10;
    assert_int_equal(device->ops->launch(device, &launch, stream), FERRY_ERROR_DEVICE);
    assert_says("allow 307200 bytes of shared memory on cuda:0: cuFuncSetAttribute: "
                "CUDA_ERROR_INVALID_VALUE");
    grid.shared_bytes = 0;
    grid.threads[0] = 2048;
    assert_int_equal(device->ops->launch(device, &launch, stream), FERRY_ERROR_DEVICE);
    assert_says("launch 2x1x1 blocks of 2048x1x1 threads on cuda:0: cuLaunchKernel: "
                "CUDA_ERROR_INVALID_VALUE");

    OK(device->ops->code_function(device, module, "unknown", &function));
    assert_int_equal(device->ops->code_function(device, module, "absent", &function),
                     FERRY_ERROR_DEVICE);
    assert_says(
        "find the kernel absent in code on cuda:0: cuModuleGetFunction: CUDA_ERROR_NOT_FOUND");
    OK(device->ops->stream_synchronize(device, stream));
    OK(device->ops->stream_destroy(device, stream));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));
    OK(device->ops->code_unload(device, module));
    close_device(device);
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
    const ferry_grid grid = {.blocks = {1, 1, 1}, .threads = {1, 1, 1}};
    OK(device->ops->launch(device, &(struct ferryi_launch){.function = function, .grid = &grid},
                           (void *)2));
    assert_int_equal(device->ops->synchronize(device), FERRY_ERROR_DEVICE_LOST);
    assert_says("wait for all work of cuda:0: cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED");
    close_device(device);
}

/* Checks that a device is lost after a driver result that only a restart of the process can clear.
 */
static void
test_results_that_end_a_context(void **state)
{
    (void)state;
    static const int results[] = {FERRYI_GPU_ERROR_ECC_UNCORRECTABLE,
                                  FERRYI_GPU_ERROR_NVLINK_UNCORRECTABLE,
                                  FERRYI_GPU_ERROR_CONTAINED,
                                  FERRYI_GPU_ERROR_ILLEGAL_ADDRESS,
                                  FERRYI_GPU_ERROR_LAUNCH_TIMEOUT,
                                  FERRYI_GPU_ERROR_ASSERT,
                                  FERRYI_GPU_ERROR_HARDWARE_STACK_ERROR,
                                  FERRYI_GPU_ERROR_ILLEGAL_INSTRUCTION,
                                  FERRYI_GPU_ERROR_MISALIGNED_ADDRESS,
                                  FERRYI_GPU_ERROR_INVALID_ADDRESS_SPACE,
                                  FERRYI_GPU_ERROR_INVALID_PC,
                                  FERRYI_GPU_ERROR_LAUNCH_FAILED,
                                  FERRYI_GPU_ERROR_TENSOR_MEMORY_LEAK,
                                  FERRYI_GPU_ERROR_MPS_CLIENT_TERMINATED,
                                  FERRYI_GPU_ERROR_EXTERNAL_DEVICE};
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        ferryi_device *device = open_build(NEW, 0);
        size_t free_bytes, total_bytes;
        fake->fakecuda_fail_next("cuCtxSynchronize", results[i], 1);
        assert_int_equal(device->ops->synchronize(device), FERRY_ERROR_DEVICE_LOST);
        assert_int_equal(device->ops->memory_info(device, &free_bytes, &total_bytes),
                         FERRY_ERROR_DEVICE_LOST);
        assert_says("the device was lost to CUDA_ERROR_");
        close_device(device);
    }
}

/* Checks that a disconnected device, on which every call fails, counts as lost. If only one call
 * returns the same error, the device must not count as lost. */
static void
test_a_device_that_is_gone_is_lost(void **state)
{
    (void)state;
    static const int results[] = {FERRYI_GPU_ERROR_NO_DEVICE,
                                  FERRYI_GPU_ERROR_OPERATING_SYSTEM,
                                  FERRYI_GPU_ERROR_ILLEGAL_STATE,
                                  FERRYI_GPU_ERROR_SYSTEM_NOT_READY,
                                  FERRYI_GPU_ERROR_MPS_RPC_FAILURE,
                                  FERRYI_GPU_ERROR_SYSTEM_DRIVER_MISMATCH,
                                  FERRYI_GPU_ERROR_MPS_CONNECTION_FAILED,
                                  FERRYI_GPU_ERROR_UNKNOWN};
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        ferryi_device *device = open_build(NEW, 0);
        fake->fakecuda_fail_next("cuCtxSynchronize", results[i], 1);
        assert_int_equal(device->ops->synchronize(device), results[i] == FERRYI_GPU_ERROR_NO_DEVICE
                                                               ? FERRY_ERROR_NO_DEVICE
                                                               : FERRY_ERROR_DEVICE);
        OK(device->ops->synchronize(device));

        fake->fakecuda_lose(results[i]);
        assert_int_equal(device->ops->stream_synchronize(device, (void *)2),
                         FERRY_ERROR_DEVICE_LOST);
        assert_says("cuStreamSynchronize: CUDA_ERROR_");
        uint64_t calls = fake->fakecuda_calls_of("cuCtxSynchronize");
        assert_int_equal(device->ops->synchronize(device), FERRY_ERROR_DEVICE_LOST);
        assert_says("the device was lost to CUDA_ERROR_");
        assert_int_equal(fake->fakecuda_calls_of("cuCtxSynchronize"), calls);
        fake->fakecuda_fail_none();
        close_device(device);
    }
}

/* Makes one driver call fail with an error that may mean a lost device, and then checks that the
 * device still works. */
#define FAILS_ONCE(call, ...)                                                                      \
    do {                                                                                           \
        fake->fakecuda_fail_next((call), FERRYI_GPU_ERROR_UNKNOWN, 1);                             \
        assert_int_equal((__VA_ARGS__), FERRY_ERROR_DEVICE);                                       \
        OK(device->ops->synchronize(device));                                                      \
    } while (0)

/* Checks that one ambiguous error of a copy or an allocation does not make a working device count
 * as lost, although no context is current in the calling thread. */
static void
test_one_failed_copy_loses_no_device(void **state)
{
    ferryi_device *device = open_build(NEW, 0), *peer = open_build(NEW, 1);
    void *target, *source, *pinned, *stream;
    static char host[512];
    (void)state;
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 512, &target));
    OK(peer->ops->memory_alloc(peer, FERRY_MEMORY_DEVICE, 512, &source));
    OK(device->ops->stream_create(device, &stream));
    const struct ferryi_copy up = {target, host, 64, FERRY_DIRECTION_UPLOAD, NULL};
    const struct ferryi_copy between = {target, source, 64, FERRY_DIRECTION_PEER, peer};
    const struct ferryi_copy_2d rows = {target, host, 64, 128, 32, 4, FERRY_DIRECTION_UPLOAD, NULL};
    const struct ferryi_copy_2d rows_between = {
        target, source, 64, 128, 32, 4, FERRY_DIRECTION_PEER, peer};
    OK(device->ops->copy(device, &between, stream)); /* which tests the peer access */
    FAILS_ONCE("cuMemHostAlloc",
               device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, 512, &pinned));
    FAILS_ONCE("cuMemcpyHtoDAsync_v2", device->ops->copy(device, &up, stream));
    FAILS_ONCE("cuMemcpyPeerAsync", device->ops->copy(device, &between, stream));
    FAILS_ONCE("cuMemcpy2DAsync_v2", device->ops->copy_2d(device, &rows, stream));
    FAILS_ONCE("cuMemcpy3DPeerAsync", device->ops->copy_2d(device, &rows_between, stream));
    FAILS_ONCE("cuMemcpyBatchAsync_v2", device->ops->copy_batch(device, &up, 1, stream));
    OK(device->ops->stream_destroy(device, stream));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, target));
    OK(peer->ops->memory_free(peer, FERRY_MEMORY_DEVICE, source));
    close_device(peer);
    close_device(device);
}

/* Checks that a device is lost if its context cannot be made current. */
static void
test_a_context_that_cannot_be_current_is_lost(void **state)
{
    (void)state;
    ferryi_device *device = open_build(NEW, 0);
    fake->fakecuda_fail_next("cuCtxPushCurrent_v2", FERRYI_GPU_ERROR_UNKNOWN, 1);
    assert_int_equal(device->ops->synchronize(device), FERRY_ERROR_DEVICE_LOST);
    assert_says("cuCtxPushCurrent_v2: CUDA_ERROR_UNKNOWN");
    close_device(device);
}

static void
test_bad_images(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    void *module = NULL;
    static const char no_entry[] = ".version 8.0\n", cubin[] = "\x7f"
                                                               "ELFxxxx";
    (void)state;
    assert_int_equal(device->ops->code_load(device, no_entry, sizeof(no_entry), &module),
                     FERRY_ERROR_DEVICE);
    assert_says(
        "cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX: fakecuda: there is no .entry in the text");
    assert_int_equal(device->ops->code_load(device, cubin, sizeof(cubin), &module),
                     FERRY_ERROR_UNSUPPORTED);
    /* The device must refuse PTX without a terminating NUL, because the driver would read past the
     * end of the text. */
    uint64_t loads = fake->fakecuda_calls_of("cuModuleLoadDataEx");
    assert_int_equal(device->ops->code_load(device, ptx, sizeof(ptx) - 1, &module),
                     FERRY_ERROR_DEVICE);
    assert_int_equal(fake->fakecuda_calls_of("cuModuleLoadDataEx"), loads);
    assert_null(module);
    close_device(device);
}

/* -- host memory that is registered in part -- */

static ferry_status
copy_rows(ferryi_device *device, void *target, const void *source, ferry_direction direction)
{
    const struct ferryi_copy_2d rows = {.target = target,
                                        .source = source,
                                        .target_pitch = 4096,
                                        .source_pitch = 4096,
                                        .row_bytes = 64,
                                        .rows = 2,
                                        .direction = direction};
    return device->ops->copy_2d(device, &rows, device->per_thread_stream);
}

/* Copies host memory of which only a part is registered, which the driver refuses. The device must
 * return a device error. If it accepts pageable memory, it must return UNSUPPORTED instead, so that
 * the transfer engine stages the copy. */
static void
test_memory_registered_in_part_is_unsupported_where_pageable_is_taken(void **state)
{
    const int host_tables = FERRYI_CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    char *host = aligned_alloc(4096, 8192);
    (void)state;
    assert_non_null(host);
    memset(host, 1, 8192);
    fake->fakecuda_set_strict("parts");
    for (int taken = 0; taken < 2; taken++) {
        const ferry_status expected = taken ? FERRY_ERROR_UNSUPPORTED : FERRY_ERROR_DEVICE;
        void *memory;
        fake->fakecuda_set_attribute(host_tables, taken);
        ferryi_device *device = open_build(NEW, 0);
        void *stream = device->per_thread_stream;
        OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 8192, &memory));
        OK(device->ops->host_register(device, host, 4096));
        assert_int_equal(device->ops->copy_upload(device, memory, host, 8192, stream), expected);
        assert_says("upload 8192 bytes to cuda:0: cuMemcpyHtoDAsync_v2: CUDA_ERROR_INVALID_VALUE");
        assert_int_equal(device->ops->copy_download(device, host, memory, 8192, stream), expected);
        assert_says("cuMemcpyDtoHAsync_v2: CUDA_ERROR_INVALID_VALUE");
        assert_int_equal(copy_rows(device, memory, host, FERRY_DIRECTION_UPLOAD), expected);
        assert_says("cuMemcpy2DAsync_v2: CUDA_ERROR_INVALID_VALUE");
        /* The error of a copy within device memory must be returned unchanged, because unregistered
         * host memory cannot be its cause. */
        fake->fakecuda_fail_next("cuMemcpy2DAsync_v2", FERRYI_GPU_ERROR_INVALID_VALUE, 1);
        assert_int_equal(copy_rows(device, memory, (char *)memory + 128, FERRY_DIRECTION_DEVICE),
                         FERRY_ERROR_DEVICE);
        OK(device->ops->copy_upload(device, memory, host, 4096, stream));
        OK(device->ops->stream_synchronize(device, stream));
        OK(device->ops->host_unregister(device, host));
        OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
        close_device(device);
    }
    fake->fakecuda_set_attribute(host_tables, 0);
    fake->fakecuda_set_strict("");
    free(host);
}

/* -- fakecuda itself: what other tests count on -- */

/* Checks that copies of pageable memory are asynchronous if the device uses the host's page tables.
 */
static void
test_pageable_copies_are_asynchronous_where_they_are_taken(void **state)
{
    const int host_tables = FERRYI_CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    int source = 7, target = 0;
    void *memory, *stream;
    (void)state;
    assert_true(fake->fakecuda_set_mode("lazy"));
    fake->fakecuda_set_attribute(host_tables, 1);
    ferryi_device *device = open_build(NEW, 0);
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, &memory));
    OK(device->ops->stream_create(device, &stream));
    OK(device->ops->copy_upload(device, memory, &source, sizeof(source), stream));
    OK(device->ops->copy_download(device, &target, memory, sizeof(target), stream));
    source = 8;
    assert_int_equal(target, 0);
    OK(device->ops->stream_synchronize(device, stream));
    assert_int_equal(target, 8);
    OK(device->ops->stream_destroy(device, stream));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
    close_device(device);
    fake->fakecuda_set_attribute(host_tables, 0);
    assert_true(fake->fakecuda_set_mode("thread"));
}

/* Checks that the device counts copies of host memory that is not page-locked. The driver reads the
 * source of such an upload during the call, so the program may change the source after the call. */
static void
test_pageable_copies_are_counted(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    int source = 7, target = 0, *pinned;
    void *memory, *stream;
    (void)state;
    uint64_t before = fake->fakecuda_pageable_copies();
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, &memory));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, 64, (void **)&pinned));
    OK(device->ops->stream_create(device, &stream));
    OK(device->ops->copy_upload(device, memory, &source, sizeof(source), stream));
    source = 8;
    OK(device->ops->copy_download(device, &target, memory, sizeof(target), stream));
    assert_int_equal(target, 7);
    assert_int_equal(fake->fakecuda_pageable_copies(), before + 2);
    OK(device->ops->host_register(device, &source, sizeof(source)));
    OK(device->ops->copy_upload(device, memory, &source, sizeof(source), stream));
    OK(device->ops->copy_download(device, pinned, memory, sizeof(*pinned), stream));
    OK(device->ops->stream_synchronize(device, stream));
    assert_int_equal(*pinned, 8);
    assert_int_equal(fake->fakecuda_pageable_copies(), before + 2);
    OK(device->ops->host_unregister(device, &source));
    OK(device->ops->stream_destroy(device, stream));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));
    close_device(device);
}

static void
test_live_things_are_counted(void **state)
{
    ferryi_device *device = open_build(NEW, 0);
    struct fakecuda_live before = fake->fakecuda_live();
    void *memory, *stream, *again, *event, *module;
    (void)state;
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, 64, &memory));
    OK(device->ops->stream_create(device, &stream));
    OK(device->ops->event_create(device, false, &event));
    OK(device->ops->code_load(device, ptx, sizeof(ptx), &module));
    struct fakecuda_live now = fake->fakecuda_live();
    assert_int_equal(now.allocations, before.allocations + 1);
    assert_int_equal(now.streams, before.streams + 1);
    assert_int_equal(now.events, before.events + 1);
    assert_int_equal(now.modules, before.modules + 1);
    OK(device->ops->stream_destroy(device, stream));
    /* fakecuda gives the next stream the address of the destroyed stream. */
    OK(device->ops->stream_create(device, &again));
    assert_ptr_equal(again, stream);
    OK(device->ops->stream_destroy(device, again));
    assert_int_equal(device->ops->stream_synchronize(device, again), FERRY_ERROR_DEVICE);
    OK(device->ops->event_destroy(device, event));
    OK(device->ops->code_unload(device, module));
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, memory));
    now = fake->fakecuda_live();
    assert_memory_equal(&now, &before, sizeof(now));
    close_device(device);
}

/* Checks that a copy on the lazy fake driver runs only when a caller waits for it. */
static void
test_lazy_mode_waits_to_be_waited_for(void **state)
{
    (void)state;
    assert_true(fake->fakecuda_set_mode("lazy"));
    ferryi_device *device = open_build(NEW, 0);
    int *pinned;
    void *memory, *first, *second, *event;
    assert_false(fake->fakecuda_set_mode("thread"));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, &memory));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, 64, (void **)&pinned));
    OK(device->ops->stream_create(device, &first));
    OK(device->ops->stream_create(device, &second));
    OK(device->ops->event_create(device, false, &event));
    *pinned = 0;
    OK(device->ops->fill(device, memory, 3, 4, 16, first));
    OK(device->ops->event_record(device, event, first));
    OK(device->ops->stream_wait(device, second, event));
    OK(device->ops->copy_download(device, pinned, memory, 4, second));
    OK(device->ops->event_synchronize(device, event));
    ferryi_sleep_ns(2000000);
    assert_int_equal(*pinned, 0);
    OK(device->ops->stream_synchronize(device, second));
    assert_int_equal(*pinned, 3);
    /* Work on the legacy stream and on the per-thread stream must run in the order in which it was
     * queued. */
    OK(device->ops->fill(device, memory, 4, 4, 16, (void *)2));
    OK(device->ops->copy_download(device, pinned, memory, 4, NULL));
    OK(device->ops->fill(device, memory, 5, 4, 16, (void *)2));
    OK(device->ops->stream_synchronize(device, (void *)2));
    assert_int_equal(*pinned, 4);
    OK(device->ops->stream_destroy(device, first));
    OK(device->ops->stream_destroy(device, second));
    OK(device->ops->event_destroy(device, event));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));
    close_device(device);
    assert_true(fake->fakecuda_set_mode("thread"));
}

/* -- odds and ends -- */

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
    close_device(device);
}

static void *
work_alone(void *argument)
{
    ferryi_device *device = argument;
    ferry_status st = FERRY_OK;
    int *pinned = NULL, *memory = NULL;
    bool wrong =
        device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, 64, (void **)&pinned) != FERRY_OK ||
        device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, (void **)&memory) != FERRY_OK;
    for (int round = 0; round < 50 && !wrong; round++) {
        void *stream = (void *)2, *event;
        FERRY_TRY(st, fail, device->ops->event_create(device, false, &event));
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

static void
test_many_threads(void **state)
{
    (void)state;
    ferryi_device *device = open_build(NEW, 0);
    /* Several threads use streams of one device. Checks that the work of each thread is ordered,
     * and that the per-thread streams of different threads are independent. */
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work_alone, device), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    close_device(device);
}

int
main(void)
{
    name_fakecuda();
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_prefetch_by_location),
        CUDA_TEST(test_prefetch_by_ordinal),
        CUDA_TEST(test_batch_is_one_call),
        CUDA_TEST(test_no_batch_on_the_legacy_stream),
        CUDA_TEST(test_batch_without_the_group),
        CUDA_TEST(test_peer_access_is_asked_for_once),
        CUDA_TEST(test_broken_peer_access_is_not_used),
        CUDA_TEST(test_calls_aside_leave_captures_alone),
        CUDA_TEST(test_legacy_stream_beside_a_capture),
        CUDA_TEST(test_launch),
        CUDA_TEST(test_crashing_kernel_loses_the_device),
        CUDA_TEST(test_results_that_end_a_context),
        CUDA_TEST(test_a_device_that_is_gone_is_lost),
        CUDA_TEST(test_one_failed_copy_loses_no_device),
        CUDA_TEST(test_a_context_that_cannot_be_current_is_lost),
        CUDA_TEST(test_bad_images),
        CUDA_TEST(test_memory_registered_in_part_is_unsupported_where_pageable_is_taken),
        CUDA_TEST(test_pageable_copies_are_asynchronous_where_they_are_taken),
        CUDA_TEST(test_pageable_copies_are_counted),
        CUDA_TEST(test_live_things_are_counted),
        CUDA_TEST(test_lazy_mode_waits_to_be_waited_for),
        CUDA_TEST(test_no_bytes_make_no_call),
        CUDA_TEST(test_many_threads),
    };
    return cmocka_run_group_tests(tests, load_builds, NULL);
}
