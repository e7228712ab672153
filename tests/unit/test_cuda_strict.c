/* SPDX-License-Identifier: MIT */
/* Tests the library under rules that only some CUDA drivers enforce. The fake driver fakecuda
 * enforces them in its strict modes, so a test fails if the library breaks a rule. */
#include "src/stream/shell.h"
#include "src/transfer/engine.h"
#include "src/transfer/run.h"
#include "src/transfer/scatter.h"
#include "tests/support/copies.h"
#include "tests/support/copy_slots.h"
#include "tests/unit/cuda_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* A launch over `grid` with the address of memory as its only argument. */
#define LAUNCH(kernel, memory)                                                                     \
    (struct ferryi_launch)                                                                         \
    {                                                                                              \
        .function = (kernel), .grid = &grid, .arguments = (void *[]){memory},                      \
        .bytes = (size_t[]){FERRYI_LAUNCH_ADDRESS}, .count = 1                                     \
    }

#include <ferry/ferry.h>
#include <ferry/int.h>

enum { COUNT = 4096, BYTES = COUNT * 4, LARGE = 100 * 1024 };

static ferryi_device *
open_strict(const char *rules)
{
    fake->fakecuda_set_strict(rules);
    return open_build(NEW, 0);
}

static int
clear_rules(void **state)
{
    ferryi_gpu_release_kept(&ferryi_cuda_vendor);
    fake->fakecuda_set_strict("");
    return clear_faults(state);
}

/* -- managed memory that host and device must not access at the same time -- */

static sigjmp_buf faulted;

static void
on_fault(int number)
{
    (void)number;
    siglongjmp(faulted, 1);
}

/* Returns whether a write by the host to this memory causes a segmentation fault. */
static bool
faults(volatile int *memory)
{
    struct sigaction action = {.sa_handler = on_fault}, before;
    volatile bool fault = true;
    sigaction(SIGSEGV, &action, &before);
    if (sigsetjmp(faulted, 1) == 0) {
        *memory = 1;
        fault = false;
    }
    sigaction(SIGSEGV, &before, NULL);
    return fault;
}

static _Atomic int gate;

static void
write_late(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)grid, (void)block;
    while (!gate)
        usleep(100);
    **(int **)parameters[0] = 7;
}

static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry "
                          "write_late(.param .u64 a) { ret; }\n";

static void
test_the_host_faults_while_a_kernel_runs(void **state)
{
    ferryi_device *device = open_strict("managed");
    struct ferryi_gpu_device *cuda = ferryi_gpu_of(device);
    ferryi_gpu_context context;
    ferryi_gpu_pointer managed = 0;
    void *module, *function;
    (void)state;
    fake->fakecuda_register_kernel("write_late", write_late, 1, (size_t[]){sizeof(int *)});
    OK(device->ops->code_load(device, ptx, sizeof(ptx), &module));
    OK(device->ops->code_function(device, module, "write_late", &function));
    assert_int_equal(cuda->driver->context_push(cuda->context), 0);
    assert_int_equal(cuda->driver->managed_alloc(&managed, 64, FERRYI_GPU_MEM_ATTACH_GLOBAL), 0);
    int *memory = (int *)(uintptr_t)managed;
    assert_false(faults(memory));
    gate = 0;
    const ferry_grid grid = {.blocks = {1, 1, 1}, .threads = {1, 1, 1}};
    OK(device->ops->launch(device, &LAUNCH(function, &memory), (void *)2));
    assert_true(faults(memory));
    gate = 1;
    OK(device->ops->synchronize(device));
    assert_int_equal(*memory, 7);
    assert_int_equal(cuda->driver->memory_free(managed), 0);
    assert_int_equal(cuda->driver->context_pop(&context), 0);
    OK(device->ops->code_unload(device, module));
    close_device(device);
}

static void
test_such_memory_is_not_offered(void **state)
{
    ferryi_device *device = open_strict("managed");
    void *memory = &memory;
    (void)state;
    assert_int_equal(device->capabilities & (FERRY_CAN_MANAGE | FERRY_CAN_MANAGE_CONCURRENTLY), 0);
    assert_int_equal(device->ops->memory_alloc(device, FERRY_MEMORY_MANAGED, 64, &memory),
                     FERRY_ERROR_UNSUPPORTED);
    assert_ptr_equal(memory, &memory);
    close_device(device);
}

/* Checks that a managed buffer can be created only in a context with a CUDA device, and only if all
 * devices support managed memory. The buffer has the same address at every place. */
static void
test_every_device_must_offer_it(void **state)
{
    static const struct {
        const char *devices, *rules;
        ferry_status expected;
    } worlds[] = {{"host,cuda:0", "", FERRY_OK},
                  {"host,cuda:0", "managed", FERRY_ERROR_UNSUPPORTED},
                  {"host", "", FERRY_ERROR_UNSUPPORTED}};
    ferry_buffer_options managed = {.memory = FERRY_MEMORY_MANAGED};
    (void)state;
    for (size_t i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
        ferry_context_options options = {.devices = worlds[i].devices};
        ferry_context *context;
        ferry_int_buffer buffer = {0};
        fake->fakecuda_set_strict(worlds[i].rules);
        OK(ferry_context_create(&options, &context));
        assert_int_equal(ferry_int_create(context, COUNT, &managed, &buffer), worlds[i].expected);
        ferry_int_destroy(&buffer);
        ferry_context_destroy(&context);
    }
}

/* -- shared memory -- */

static const char shared_ptx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".shared .align 16 .b8 of_module[8192];\n"
    ".extern .shared .align 16 .b8 dynamic[];\n"
    ".visible .entry much() { .shared .align 4 .b32 own[6144]; mov.u32 %r1, of_module; ret; }\n"
    ".visible .entry none() { ret; }\n";

static void
nothing(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)parameters, (void)grid, (void)block;
}

static ferry_status
launch_shared(ferryi_device *device, void *function, uint32_t bytes)
{
    const ferry_grid grid = {.blocks = {1, 1, 1}, .threads = {1, 1, 1}, .shared_bytes = bytes};
    return device->ops->launch(device, &(struct ferryi_launch){.function = function, .grid = &grid},
                               (void *)2);
}

/* Checks that static shared memory of a kernel counts toward the limit of 48 KiB. The kernel has 32
 * KiB of static memory, so a launch with 24 KiB of dynamic memory exceeds the limit. */
static void
test_static_shared_memory_counts(void **state)
{
    ferryi_device *device = open_strict("");
    void *module, *much, *none;
    (void)state;
    fake->fakecuda_register_kernel("much", nothing, 0, NULL);
    fake->fakecuda_register_kernel("none", nothing, 0, NULL);
    OK(device->ops->code_load(device, shared_ptx, sizeof(shared_ptx), &module));
    OK(device->ops->code_function(device, module, "much", &much));
    OK(device->ops->code_function(device, module, "none", &none));
    uint64_t raised = fake->fakecuda_calls_of("cuFuncSetAttribute");
    OK(launch_shared(device, much, 16 << 10));
    OK(launch_shared(device, none, 48 << 10));
    assert_int_equal(fake->fakecuda_calls_of("cuFuncSetAttribute"), raised);
    OK(launch_shared(device, much, 24 << 10));
    OK(launch_shared(device, much, 24 << 10));
    assert_int_equal(fake->fakecuda_calls_of("cuFuncSetAttribute"), raised + 1);
    OK(launch_shared(device, much, 195 << 10));
    assert_int_equal(launch_shared(device, much, 196 << 10), FERRY_ERROR_DEVICE);
    OK(device->ops->synchronize(device));
    OK(device->ops->code_unload(device, module));
    close_device(device);
}

/* -- pinned memory -- */

static void
test_too_much_pinned_memory_is_out_of_memory(void **state)
{
    ferryi_device *device = open_strict("size");
    void *memory = &memory;
    (void)state;
    assert_int_equal(
        device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, (size_t)1 << 50, &memory),
        FERRY_ERROR_OUT_OF_MEMORY);
    assert_says("cuMemHostAlloc: CUDA_ERROR_INVALID_VALUE");
    assert_ptr_equal(memory, &memory);
    close_device(device);
}

static ferry_context *
open_context(const char *rules)
{
    ferry_context_options options = {.devices = "cuda:0"};
    ferry_context *context;
    fake->fakecuda_set_strict(rules);
    OK(ferry_context_create(&options, &context));
    return context;
}

/* Checks that pinned buffers have the requested alignment, even if the driver aligns pinned memory
 * no better than its documentation promises. */
static void
test_pinned_buffers_need_no_pages(void **state)
{
    static const size_t counts[] = {1, 100, COUNT, 64 * COUNT, 1024 * COUNT};
    ferry_context *context = open_context("align");
    (void)state;
    for (size_t i = 0; i < 2 * (sizeof(counts) / sizeof(counts[0])); i++) {
        ferry_buffer_options options = {.memory = FERRY_MEMORY_PINNED, .align = i % 2 ? 4096 : 0};
        ferry_int_buffer buffer;
        ferry_scope scope;
        int32_t *memory;
        OK(ferry_int_create(context, counts[i / 2], &options, &buffer));
        OK(ferry_int_overwrite_host(buffer, &scope, &memory));
        assert_int_equal((uintptr_t)memory % (i % 2 ? 4096 : 256), 0);
        OK(ferry_scope_close(&scope));
        ferry_int_destroy(&buffer);
    }
    ferry_context_destroy(&context);
}

/* -- batches -- */

/* Copies every second element of the memory into a buffer and back, in batches. */
static void
copy_in_a_batch(ferry_context *context, int32_t *memory)
{
    ferry_int_buffer buffer;
    copy_list *up, *down;
    int32_t *on_device;
    ferry_scope scope;
    OK(ferry_int_create(context, COUNT, NULL, &buffer));
    OK(ferry_int_overwrite_device(buffer, NULL, &scope, &on_device));
    OK(ferry_scope_close(&scope));
    OK(copy_list_create(&up));
    OK(copy_list_create(&down));
    for (size_t i = 0; i < COUNT; i += 2) {
        memory[i] = (int32_t)i;
        OK(copy_list_from(up, buffer.raw, ferry_int_element(), i, &memory[i], 1));
        OK(copy_list_to(down, buffer.raw, ferry_int_element(), i, &memory[COUNT + i], 1));
    }
    for (int round = 0; round < 4; round++) {
        memset(&memory[COUNT], 0, BYTES);
        OK(copy_list_submit(up, NULL));
        OK(copy_list_submit(down, NULL));
        for (size_t i = 0; i < COUNT; i += 2)
            assert_int_equal(memory[COUNT + i], i);
    }
    copy_list_destroy(&up);
    copy_list_destroy(&down);
    ferry_int_destroy(&buffer);
}

static void
test_registered_memory_goes_in_no_batch(void **state)
{
    ferry_context *context = open_context("registered");
    int32_t *memory = aligned_alloc(4096, 2 * BYTES);
    (void)state;
    assert_non_null(memory);
    OK(ferry_context_register_host(context, memory, 2 * BYTES));
    copy_in_a_batch(context, memory);
    OK(ferry_context_unregister_host(context, memory));
    ferry_context_destroy(&context);
    free(memory);
}

/* While one thread prepares a batch, a launch of a second thread finds that the device cannot run
 * the scatter kernel. The first thread must then copy without the kernel. */
static void
test_a_batch_does_without_a_kernel_that_is_gone(void **state)
{
    ferry_context *context = open_context("");
    ferryi_engine *engine = context->engine;
    ferryi_timeline *timeline;
    struct ferryi_scatter_entry entry;
    char bytes[2] = {1, 2};
    const struct ferryi_copy copy = {&bytes[0], &bytes[1], 1, FERRY_DIRECTION_UPLOAD, NULL};
    (void)state;
    OK(ferryi_engine_timeline(engine, 1, 0, &timeline));
    assert_true(ferryi_scatter_is_ready(engine, 1));
    atomic_store(&engine->ports[1].scatter, NULL);
    assert_int_equal(ferryi_scatter_launch(engine, 1, timeline, &copy, 1, &entry),
                     FERRY_ERROR_UNSUPPORTED);
    assert_int_equal(bytes[0], 1);
    ferry_context_destroy(&context);
}

static void
test_refused_batches_go_one_by_one(void **state)
{
    ferry_context *context = open_context("batch");
    int32_t *memory = malloc(2 * BYTES);
    (void)state;
    assert_non_null(memory);
    copy_in_a_batch(context, memory);
    ferry_context_destroy(&context);
    free(memory);
}

static uint64_t
batch_calls(void)
{
    return fake->fakecuda_calls_of("cuMemcpyBatchAsync_v2");
}

/* Checks that copies work if batches are disabled, and after the driver has refused a batch. */
static void
test_no_batches(void **state)
{
    static const ferry_context_options without = {.devices = "cuda:0", .tuning = "cuda.batches=no"};
    int32_t *memory = calloc(2, BYTES);
    ferry_context *context;
    (void)state;
    assert_non_null(memory);
    uint64_t before = batch_calls();
    OK(ferry_context_create(&without, &context));
    copy_in_a_batch(context, memory);
    ferry_context_destroy(&context);
    assert_int_equal(batch_calls(), before);

    context = open_context("");
    copy_in_a_batch(context, memory);
    assert_true(batch_calls() > before);
    ferryi_device *device = context->devices[1];
    void *target[2], *stream;
    OK(device->ops->stream_create(device, &stream));
    for (int i = 0; i < 2; i++)
        OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, &target[i]));
    const struct ferryi_copy copies[] = {
        {target[0], target[1], 32, FERRY_DIRECTION_DEVICE, NULL},
        {(char *)target[0] + 32, (char *)target[1] + 32, 32, FERRY_DIRECTION_DEVICE, NULL}};
    fake->fakecuda_fail_next("cuMemcpyBatchAsync_v2", FERRYI_GPU_ERROR_NOT_FOUND, 1);
    assert_int_equal(device->ops->copy_batch(device, copies, 2, stream), FERRY_ERROR_DEVICE);
    before = batch_calls();
    assert_int_equal(device->ops->copy_batch(device, copies, 2, stream), FERRY_ERROR_UNSUPPORTED);
    assert_says("one of the device has failed");
    copy_in_a_batch(context, memory);
    assert_int_equal(batch_calls(), before);
    for (int i = 0; i < 2; i++)
        OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, target[i]));
    OK(device->ops->stream_destroy(device, stream));
    ferry_context_destroy(&context);
    free(memory);
}

/* -- device memory that the host cannot touch -- */

static void
test_the_host_faults_in_device_memory(void **state)
{
    static int up[16] = {1, 2, 3}, down[16];
    ferryi_device *device = open_strict("private");
    void *memory;
    (void)state;
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, sizeof(up), &memory));
    assert_true(faults(memory));
    OK(device->ops->copy_upload(device, memory, up, sizeof(up), (void *)2));
    OK(device->ops->copy_download(device, down, memory, sizeof(up), (void *)2));
    OK(device->ops->synchronize(device));
    assert_memory_equal(down, up, sizeof(up));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
    close_device(device);
}

/* -- pages that are locked once -- */

static void
test_arrays_that_share_a_page_are_copied_all_the_same(void **state)
{
    ferry_context *context = open_context("pages");
    char *memory = aligned_alloc(4096, 3 * 4096);
    (void)state;
    assert_non_null(memory);
    OK(ferry_context_register_host(context, memory, 4096 + 2048));
    assert_int_equal(ferry_context_register_host(context, memory + 4096 + 2048, 2048),
                     FERRY_ERROR_CONFLICT);
    assert_says("CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED");
    int32_t *other = calloc(2, BYTES);
    assert_non_null(other);
    copy_in_a_batch(context, other);
    free(other);
    OK(ferry_context_unregister_host(context, memory));
    ferry_context_destroy(&context);
    free(memory);
}

/* -- limits -- */

static void
test_grids_have_the_limits_of_devices(void **state)
{
    ferryi_device *device = open_strict("");
    void *module, *none;
    (void)state;
    fake->fakecuda_register_kernel("none", nothing, 0, NULL);
    OK(device->ops->code_load(device, shared_ptx, sizeof(shared_ptx), &module));
    OK(device->ops->code_function(device, module, "none", &none));
    ferry_grid grid = {.blocks = {1, 65535, 65535}, .threads = {1, 1, 64}};
    const struct ferryi_launch launch = {.function = none, .grid = &grid};
    OK(device->ops->launch(device, &launch, (void *)2));
    grid.blocks[1]++;
    assert_int_equal(device->ops->launch(device, &launch, (void *)2), FERRY_ERROR_DEVICE);
    grid.blocks[1]--;
    grid.threads[2]++;
    assert_int_equal(device->ops->launch(device, &launch, (void *)2), FERRY_ERROR_DEVICE);
    OK(device->ops->synchronize(device));
    OK(device->ops->code_unload(device, module));
    close_device(device);
}

/* -- PTX -- */

static void
test_newer_ptx_is_refused_by_name(void **state)
{
    static const char *const heads[] = {".version 99.0\n.target sm_50\n",
                                        ".version 6.0\n.target sm_99\n"};
    static const char *const names[] = {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
                                        "CUDA_ERROR_NO_BINARY_FOR_GPU"};
    ferryi_device *device = open_strict("ptx");
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char text[200];
        void *module = &module;
        snprintf(text, sizeof(text), "%s.address_size 64\n.visible .entry none() { ret; }\n",
                 heads[i]);
        assert_true(device->ops->code_load(device, text, strlen(text) + 1, &module) != FERRY_OK);
        assert_says(names[i]);
        assert_ptr_equal(module, &module);
    }
    close_device(device);
}

/* -- forks -- */

static void
test_the_driver_is_dead_in_the_child_of_a_fork(void **state)
{
    ferryi_device *device = open_strict("");
    const struct ferryi_gpu_driver *driver = ferryi_gpu_of(device)->driver;
    int count, status;
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(driver->device_count(&count) == FERRYI_GPU_ERROR_NOT_INITIALIZED ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(driver->device_count(&count), 0);
    close_device(device);
}

/* -- host functions -- */

static _Atomic int inside, most_inside;

static void
stay_a_while(void *user)
{
    (void)user;
    int now = atomic_fetch_add(&inside, 1) + 1;
    if (now > most_inside)
        most_inside = now;
    usleep(2000);
    atomic_fetch_sub(&inside, 1);
}

/* Returns how many host functions of two streams ran at the same time. */
static int
run_on_two_streams(const char *rules)
{
    ferryi_device *device = open_strict(rules);
    void *streams[2];
    most_inside = 0;
    for (int i = 0; i < 2; i++)
        OK(device->ops->stream_create(device, &streams[i]));
    for (int i = 0; i < 16; i++)
        OK(device->ops->host_call(device, streams[i % 2], stay_a_while, NULL));
    OK(device->ops->synchronize(device));
    for (int i = 0; i < 2; i++)
        OK(device->ops->stream_destroy(device, streams[i]));
    close_device(device);
    return most_inside;
}

static void
test_one_thread_runs_all_host_functions(void **state)
{
    (void)state;
    assert_int_equal(run_on_two_streams("host"), 1);
    assert_in_range(run_on_two_streams(""), 1, 2);
}

/* -- rules that the driver itself is asked about -- */

static ferryi_device *
enter_strict(const char *rules)
{
    ferryi_device *device = open_strict(rules);
    struct ferryi_gpu_device *cuda = ferryi_gpu_of(device);
    assert_int_equal(cuda->driver->context_push(cuda->context), 0);
    return device;
}

static void
leave_and_close(ferryi_device *device)
{
    ferryi_gpu_context context;
    assert_int_equal(ferryi_gpu_of(device)->driver->context_pop(&context), 0);
    close_device(device);
}

static void
test_memory_registered_in_part_is_refused(void **state)
{
    ferryi_device *device = enter_strict("parts");
    const struct ferryi_gpu_driver *driver = ferryi_gpu_of(device)->driver;
    char *host = aligned_alloc(4096, 8192);
    ferryi_gpu_pointer memory = 0;
    (void)state;
    assert_non_null(host);
    memset(host, 1, 8192);
    assert_int_equal(driver->memory_alloc(&memory, 8192), 0);
    assert_int_equal(driver->host_register(host, 4096, FERRYI_GPU_MEMHOSTREGISTER_PORTABLE), 0);
    assert_int_equal(driver->upload(memory, host, 8192, NULL), FERRYI_GPU_ERROR_INVALID_VALUE);
    assert_int_equal(driver->upload(memory, host, 4096, NULL), 0);
    assert_int_equal(driver->upload(memory, host + 4096, 4096, NULL), 0);
    assert_int_equal(driver->host_unregister(host), 0);
    assert_int_equal(driver->memory_free(memory), 0);
    leave_and_close(device);
    free(host);
}

/* Checks that an array of which a different library has page-locked a part is staged as a whole.
 * The driver refuses a direct copy of such an array. */
static void
test_arrays_registered_in_part_are_copied(void **state)
{
    ferryi_device *device = enter_strict("parts");
    const struct ferryi_gpu_driver *driver = ferryi_gpu_of(device)->driver;
    ferry_context *context = open_context("parts");
    int32_t *memory = aligned_alloc(4096, 2 * BYTES);
    ferry_int_buffer buffer;
    (void)state;
    assert_non_null(memory);
    for (int i = 0; i < 2 * COUNT; i++)
        memory[i] = i;
    uint64_t pageable = fake->fakecuda_pageable_copies();
    OK(ferry_int_create(context, COUNT, NULL, &buffer));
    assert_int_equal(driver->host_register(memory, 4096, FERRYI_GPU_MEMHOSTREGISTER_PORTABLE), 0);
    OK(ferry_int_copy_from(buffer, 0, COUNT, memory + COUNT, NULL));
    OK(ferry_buffer_sync_to(buffer.raw, 0, FERRY_REST, 1, NULL));
    OK(ferry_int_copy_from(buffer, 0, COUNT, memory, NULL));
    OK(ferry_int_copy_to(buffer, 0, COUNT, memory + COUNT / 2, NULL));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(memory[COUNT / 2 + i], i);
    copy_in_a_batch(context, memory);
    assert_int_equal(fake->fakecuda_pageable_copies(), pageable);
    assert_int_equal(driver->host_unregister(memory), 0);
    ferry_int_destroy(&buffer);
    ferry_context_destroy(&context);
    free(memory);
    leave_and_close(device);
}

static void
test_the_legacy_stream_joins_no_capture(void **state)
{
    ferryi_device *device = enter_strict("capture");
    const struct ferryi_gpu_driver *driver = ferryi_gpu_of(device)->driver;
    ferryi_gpu_stream stream;
    ferryi_gpu_event event;
    int nodes = 0;
    (void)state;
    assert_int_equal(driver->stream_create(&stream, FERRYI_GPU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(driver->event_create(&event, FERRYI_GPU_EVENT_DISABLE_TIMING), 0);
    assert_int_equal(fake->fakecuda_begin_capture(stream, FERRYI_GPU_STREAM_CAPTURE_MODE_RELAXED),
                     0);
    assert_int_equal(driver->event_record(event, stream), 0);
    assert_int_equal(driver->stream_wait(NULL, event, 0), FERRYI_GPU_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(fake->fakecuda_end_capture(stream, &nodes), 0);
    assert_int_equal(driver->event_destroy(event), 0);
    assert_int_equal(driver->stream_destroy(stream), 0);
    leave_and_close(device);
}

/* -- streams of other contexts -- */

static void
test_streams_of_other_contexts_are_refused(void **state)
{
    ferryi_device *other = open_build(NEW, 1);
    ferry_context *context = open_context("");
    ferry_stream *stream = NULL;
    void *native;
    bool capturing;
    (void)state;
    OK(other->ops->stream_create(other, &native));
    /* Any device can query whether a stream is being captured, even if the stream belongs to a
     * different CUDA context. */
    ferryi_device *device = open_build(NEW, 0);
    OK(device->ops->stream_is_capturing(device, native, &capturing));
    close_device(device);
    assert_int_equal(ferry_stream_wrap(context, 1, native, &stream), FERRY_ERROR_INVALID_ARGUMENT);
    assert_says("it belongs to another context");
    assert_null(stream);
    for (uintptr_t special = 1; special <= 2; special++) {
        OK(ferry_stream_wrap(context, 1, (void *)special, &stream));
        ferry_stream_destroy(&stream);
    }
    ferry_context_destroy(&context);
    OK(other->ops->stream_destroy(other, native));
    close_device(other);
}

/* -- a reset of the device by another library -- */

/* Checks that a device is lost after a different library has reset it. The context's handle is then
 * valid, but names a different context. */
static void
test_a_reset_device_is_lost(void **state)
{
    ferryi_device *device = open_strict("");
    const struct ferryi_gpu_driver *driver = ferryi_gpu_of(device)->driver;
    void *stream, *later;
    bool capturing;
    (void)state;
    OK(device->ops->stream_create(device, &stream));
    assert_int_equal(device->ops->stream_is_capturing(device, NULL, &capturing), FERRY_OK);
    /* A call with an invalid argument must not make the device lost. */
    assert_int_equal(device->ops->stream_synchronize(device, (void *)64), FERRY_ERROR_DEVICE);
    fake->fakecuda_reset(0);
    assert_int_equal(driver->context_push(ferryi_gpu_of(device)->context), 0);
    assert_int_equal(driver->context_pop(&(ferryi_gpu_context){NULL}), 0);
    assert_int_equal(device->ops->stream_synchronize(device, stream), FERRY_ERROR_DEVICE_LOST);
    assert_says("cuStreamSynchronize: CUDA_ERROR_CONTEXT_IS_DESTROYED");
    assert_int_equal(device->ops->stream_create(device, &later), FERRY_ERROR_DEVICE_LOST);
    close_device(device);
    device = open_build(NEW, 0);
    OK(device->ops->stream_create(device, &stream));
    OK(device->ops->stream_destroy(device, stream));
    close_device(device);
}

/* -- devices whose memory is the host's -- */

static void
set_integrated(int value)
{
    fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_INTEGRATED, value);
    fake->fakecuda_set_attribute(
        FERRYI_CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, value);
}

static int
clear_integrated(void **state)
{
    set_integrated(0);
    return clear_rules(state);
}

/* Checks that a coherent device refuses to wrap memory that the host cannot access. The wrapped
 * memory would be the buffer's only replica, so a use on the host would fault. */
static void
test_coherent_devices_wrap_what_the_host_may_use(void **state)
{
    static const ferry_memory_kind kinds[] = {FERRY_MEMORY_DEVICE, FERRY_MEMORY_PINNED,
                                              FERRY_MEMORY_MANAGED};
    static int32_t pageable[COUNT];
    set_integrated(1);
    ferry_context *context = open_context("private");
    ferryi_device *device = open_build(NEW, 0);
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        void *memory = pageable;
        ferry_int_buffer buffer = {0};
        ferry_scope scope;
        int32_t *host;
        if (i < 3)
            OK(device->ops->memory_alloc(device, kinds[i], BYTES, &memory));
        ferry_status status = ferry_int_wrap_device(context, COUNT, NULL, memory, NULL, &buffer);
        assert_int_equal(status, i == 0 ? FERRY_ERROR_UNSUPPORTED : FERRY_OK);
        if (i == 0) {
            assert_says("wrap device memory: the host may not use it");
        } else {
            OK(ferry_int_update_host(buffer, &scope, &host));
            assert_ptr_equal(host, memory);
            host[COUNT - 1] = 1;
            OK(ferry_scope_close(&scope));
            OK(ferry_int_unwrap(&buffer, NULL));
        }
        if (i < 3)
            OK(device->ops->memory_free(device, kinds[i], memory));
    }
    close_device(device);
    ferry_context_destroy(&context);
}

/* Checks that the reported free memory of an integrated device includes the page cache. The driver
 * counts the page cache as used. */
static void
test_free_memory_of_integrated_devices(void **state)
{
    (void)state;
    for (int integrated = 0; integrated < 2; integrated++) {
        void *memory;
        size_t before, free_bytes, total_bytes;
        set_integrated(integrated);
        ferryi_device *device = open_strict("");
        OK(device->ops->memory_info(device, &before, &total_bytes));
        OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, total_bytes - 4096, &memory));
        OK(device->ops->memory_info(device, &free_bytes, &total_bytes));
        /* The fake device has less memory than this machine has available. An integrated device
         * must therefore report all of its memory as free. */
        assert_int_equal(free_bytes, integrated ? total_bytes : before - (total_bytes - 4096));
        OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
        close_device(device);
    }
}

/* -- captures of other libraries in the same context -- */

/* Creates, uses and destroys a Ferry context during a capture by a different library. Checks that
 * the capture stays valid, even if an event of the context cannot be recorded. */
static void
test_captures_outlive_contexts(void **state)
{
    ferryi_device *device = enter_strict("");
    const struct ferryi_gpu_driver *driver = ferryi_gpu_of(device)->driver;
    ferryi_gpu_stream captured;
    int nodes = 0;
    (void)state;
    assert_int_equal(driver->stream_create(&captured, FERRYI_GPU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(fake->fakecuda_begin_capture(captured, FERRYI_GPU_STREAM_CAPTURE_MODE_GLOBAL),
                     0);
    ferry_context *context = open_context("");
    ferry_stream *streams[2];
    ferry_int_buffer buffer;
    ferry_scope scope;
    int32_t *on_device;
    OK(ferry_int_create(context, COUNT, NULL, &buffer));
    for (int i = 0; i < 2; i++) {
        OK(ferry_stream_create(context, 1, &streams[i]));
        OK(ferry_int_overwrite_device(buffer, streams[i], &scope, &on_device));
        OK(ferry_scope_close(&scope));
    }
    /* The destruction of a stream records an event, which fails here. The library must then wait
     * for that stream only. */
    fake->fakecuda_fail_next("cuEventRecord", FERRYI_GPU_ERROR_OUT_OF_MEMORY, 1);
    ferry_stream_destroy(&streams[0]);
    ferry_int_destroy(&buffer);
    ferry_context_destroy(&context);
    ferry_stream_destroy(&streams[1]);
    assert_int_equal(fake->fakecuda_end_capture(captured, &nodes), 0);
    assert_int_equal(nodes, 0);
    assert_int_equal(driver->stream_destroy(captured), 0);
    leave_and_close(device);
}

/* -- staging memory and forks -- */

/* Returns the number of memory mappings of this process that a forked child does not inherit.
 * Returns 0 if the kernel does not report this. */
static int
count_uninherited(void)
{
    char line[512];
    int count = 0;
    FILE *file = fopen("/proc/self/smaps", "re");
    while (file && fgets(line, sizeof(line), file))
        count += strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dc") != NULL;
    if (file)
        fclose(file);
    return count;
}

static bool
child_has(void *page)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(msync(page, 4096, MS_ASYNC) == 0 ? 1 : 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status) == 1;
}

static void
test_children_have_no_staging_memory(void **state)
{
    struct ferryi_chunk *chunk;
    int before = count_uninherited();
    ferry_context *context = open_context("align");
    struct ferryi_ring *ring = &context->engine->ports[1].ring;
    (void)state;
    OK(ferryi_ring_take(ring, true, &chunk));
    uintptr_t first = ((uintptr_t)chunk->memory + 4095) & ~(uintptr_t)4095,
              last = (((uintptr_t)chunk->memory + ring->chunk_bytes) & ~(uintptr_t)4095) - 4096;
    assert_true(first < last);
    assert_false(child_has((void *)first));
    assert_false(child_has((void *)last));
    assert_true(child_has((void *)(first - 4096)));
    ferryi_ring_give(ring, chunk);
    ferry_context_destroy(&context);
    assert_int_equal(count_uninherited(), before);
}

/* -- memory that cannot be registered -- */

/* Transfers a pageable buffer to the device and back until the library tries to page-lock its
 * memory. */
static void
cross_often(ferry_int_buffer buffer)
{
    for (int round = 0; round < 40; round++) {
        ferry_scope scope;
        int32_t *memory;
        OK(ferry_int_overwrite_host(buffer, &scope, &memory));
        memory[LARGE - 1] = round;
        OK(ferry_scope_close(&scope));
        OK(ferry_int_update_device(buffer, NULL, &scope, &memory));
        OK(ferry_scope_close(&scope));
        OK(ferry_int_update_host(buffer, &scope, &memory));
        assert_int_equal(memory[LARGE - 1], round);
        OK(ferry_scope_close(&scope));
    }
}

static int
allow_registration(void **state)
{
    fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1);
    return clear_rules(state);
}

static void
test_devices_that_cannot_register_are_not_asked(void **state)
{
    static const ferry_buffer_options pinned = {.memory = FERRY_MEMORY_PINNED};
    (void)state;
    for (int can = 0; can < 2; can++) {
        fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, can);
        ferry_context *context = open_context("");
        ferry_int_buffer buffer, locked;
        ferry_scope scope;
        int32_t *memory;
        uint64_t before = fake->fakecuda_calls_of("cuMemHostRegister_v2");
        OK(ferry_int_create(context, LARGE, NULL, &buffer));
        cross_often(buffer);
        assert_int_equal(fake->fakecuda_calls_of("cuMemHostRegister_v2") - before, can);
        if (!can)
            assert_int_equal(ferry_context_register_host(context, &scope, sizeof(scope)),
                             FERRY_ERROR_UNSUPPORTED);
        /* Even a device that cannot register memory can allocate pinned memory. */
        OK(ferry_int_create(context, COUNT, &pinned, &locked));
        OK(ferry_int_overwrite_host(locked, &scope, &memory));
        OK(ferry_scope_close(&scope));
        assert_true(ferry_buffer_is_page_locked(locked.raw));
        ferry_int_destroy(&locked);
        ferry_int_destroy(&buffer);
        ferry_context_destroy(&context);
    }
}

/* Lets a different library register a buffer's memory. Ferry must try only once to register this
 * memory. For the memory of a second buffer it must try again. */
static void
test_refusals_are_remembered(void **state)
{
    /* With FERRY_DEBUG=1, scopes return addresses in a second mapping of the buffer. Ferry does not
     * register the pages of this mapping, so the test needs FERRY_DEBUG=0. */
    const char *checked = getenv("FERRY_DEBUG");
    char *before_debug = checked ? strdup(checked) : NULL;
    setenv("FERRY_DEBUG", "0", 1);
    ferryi_device *device = enter_strict("pages");
    const struct ferryi_gpu_driver *driver = ferryi_gpu_of(device)->driver;
    ferry_context *context = open_context("pages");
    uint64_t before = fake->fakecuda_calls_of("cuMemHostRegister_v2");
    (void)state;
    for (uint64_t round = 1; round <= 2; round++) {
        ferry_int_buffer buffer;
        ferry_scope scope;
        int32_t *memory;
        OK(ferry_int_create(context, LARGE, NULL, &buffer));
        OK(ferry_int_overwrite_host(buffer, &scope, &memory));
        OK(ferry_scope_close(&scope));
        assert_int_equal(driver->host_register(memory, 4096, FERRYI_GPU_MEMHOSTREGISTER_PORTABLE),
                         0);
        cross_often(buffer);
        assert_false(ferry_buffer_is_page_locked(buffer.raw));
        assert_int_equal(fake->fakecuda_calls_of("cuMemHostRegister_v2") - before, 2 * round);
        assert_int_equal(driver->host_unregister(memory), 0);
        ferry_int_destroy(&buffer);
    }
    ferry_context_destroy(&context);
    if (before_debug)
        setenv("FERRY_DEBUG", before_debug, 1);
    else
        unsetenv("FERRY_DEBUG");
    free(before_debug);
    leave_and_close(device);
}

/* Checks that read-only memory, such as a mapped file, is registered if the device supports that.
 */
static void
test_constant_memory_is_registered_where_the_device_can(void **state)
{
    static int32_t back[COUNT];
    int32_t *memory = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_false(ferryi_is_writable(memory, BYTES));
    assert_true(ferryi_is_writable(back, BYTES));
    for (int can = 0; can < 2; can++) {
        fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
                                     can);
        ferry_context *context = open_context("constant");
        ferry_int_buffer buffer;
        ferry_status status = ferry_context_register_host(context, memory, BYTES);
        assert_int_equal(status, can ? FERRY_OK : FERRY_ERROR_DEVICE);
        OK(ferry_int_create(context, COUNT, NULL, &buffer));
        back[0] = 1;
        OK(ferry_int_copy_from(buffer, 0, COUNT, memory, NULL));
        OK(ferry_int_copy_to(buffer, 0, COUNT, back, NULL));
        assert_int_equal(back[0], 0);
        if (can)
            OK(ferry_context_unregister_host(context, memory));
        ferry_int_destroy(&buffer);
        ferry_context_destroy(&context);
    }
    fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 0);
    munmap(memory, BYTES);
}

/* -- primary contexts -- */

static unsigned long long
id_of_context(void)
{
    ferryi_device *device = open_build(NEW, 0);
    unsigned long long id = ferryi_gpu_of(device)->context_id;
    close_device(device);
    return id;
}

/* Checks that Ferry keeps the primary context of a device after its last user is gone, because
 * creating a context is slow. If the device is lost, its context must not be kept. */
static void
test_the_process_keeps_a_primary_context(void **state)
{
    ferry_context *contexts[2];
    (void)state;
    ferryi_gpu_release_kept(&ferryi_cuda_vendor);
    unsigned long long first = id_of_context();
    assert_int_not_equal(id_of_context(), first);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++)
            contexts[k] = open_context("");
        unsigned long long id = id_of_context();
        for (int k = 0; k < 2; k++)
            ferry_context_destroy(&contexts[k]);
        assert_int_equal(id_of_context(), id);
        contexts[0] = open_context("");
        assert_int_equal(id_of_context(), id);
        size_t free_bytes, total_bytes;
        ferryi_device *device = contexts[0]->devices[1];
        fake->fakecuda_fail_next("cuMemGetInfo_v2", FERRYI_GPU_ERROR_ILLEGAL_ADDRESS, 1);
        assert_int_equal(device->ops->memory_info(device, &free_bytes, &total_bytes),
                         FERRY_ERROR_DEVICE_LOST);
        ferry_context_destroy(&contexts[0]);
        assert_int_not_equal(id_of_context(), id);
    }
}

/* -- pools on a CUDA device, where each free waits for the device -- */

static void
test_pools_free_when_the_device_is_short(void **state)
{
    static const size_t mebibytes[] = {30, 40, 50, 60, 72};
    ferry_context *context = open_context("");
    ferry_pool *pool;
    (void)state;
    OK(ferry_context_pool(context, 1, FERRY_MEMORY_DEVICE, &pool));
    uint64_t frees = fake->fakecuda_calls_of("cuMemFree_v2");
    /* Each block is larger than the previous one, so the pool cannot reuse idle memory. It must
     * free this memory only when the device has none left, because cuMemFree() waits for the
     * device. */
    for (size_t i = 0; i < 5; i++) {
        ferry_block *block;
        OK(ferry_pool_allocate(pool, mebibytes[i] << 20, NULL, &block));
        OK(ferry_block_free(&block, NULL));
        if (i < 4)
            assert_int_equal(fake->fakecuda_calls_of("cuMemFree_v2"), frees);
    }
    assert_true(fake->fakecuda_calls_of("cuMemFree_v2") > frees);
    ferry_context_destroy(&context);
}

/* -- code that is loaded when it is first needed -- */

static void
write_now(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)grid, (void)block;
    **(int **)parameters[0] = 5;
}

static const char lazy_ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry write_late(.param .u64 a) { ret; }\n"
                               ".visible .entry write_now(.param .u64 a) { ret; }\n";

/* Checks that fakecuda, like some drivers, loads a kernel at its first launch, and that this
 * invalidates a capture. */
static void
test_a_launch_that_loads_ends_a_capture(void **state)
{
    ferryi_device *device = enter_strict("load");
    const struct ferryi_gpu_driver *driver = ferryi_gpu_of(device)->driver;
    ferryi_gpu_stream captured;
    ferryi_gpu_module module;
    ferryi_gpu_function function;
    ferryi_gpu_pointer memory;
    void *arguments[] = {&memory};
    int nodes = 0;
    (void)state;
    fake->fakecuda_register_kernel("write_now", write_now, 1, &(size_t){sizeof(void *)});
    assert_int_equal(driver->memory_alloc(&memory, 64), 0);
    assert_int_equal(driver->stream_create(&captured, FERRYI_GPU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(driver->module_load(&module, lazy_ptx, 0, NULL, NULL), 0);
    assert_int_equal(driver->module_function(&function, module, "write_now"), 0);
    assert_int_equal(fake->fakecuda_begin_capture(captured, FERRYI_GPU_STREAM_CAPTURE_MODE_GLOBAL),
                     0);
    assert_int_equal(driver->launch(function, 1, 1, 1, 1, 1, 1, 0, (void *)2, arguments, NULL),
                     FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(fake->fakecuda_end_capture(captured, &nodes),
                     FERRYI_GPU_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(driver->module_unload(module), 0);
    assert_int_equal(driver->stream_destroy(captured), 0);
    assert_int_equal(driver->memory_free(memory), 0);
    leave_and_close(device);
}

/* Checks that Ferry loads a function before it first launches the function. The launch must then
 * neither invalidate a capture nor wait for work of a different stream. */
static void
test_functions_are_loaded_before_launches(void **state)
{
    ferryi_device *device = open_strict("load");
    void *captured, *streams[2], *module, *late, *now;
    int *memory;
    int nodes = 0;
    (void)state;
    fake->fakecuda_register_kernel("write_late", write_late, 1, &(size_t){sizeof(void *)});
    fake->fakecuda_register_kernel("write_now", write_now, 1, &(size_t){sizeof(void *)});
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, (void **)&memory));
    int *second = memory + 1;
    OK(device->ops->stream_create(device, &captured));
    OK(device->ops->stream_create(device, &streams[0]));
    OK(device->ops->stream_create(device, &streams[1]));
    assert_int_equal(fake->fakecuda_begin_capture(captured, FERRYI_GPU_STREAM_CAPTURE_MODE_GLOBAL),
                     0);
    OK(device->ops->code_load(device, lazy_ptx, sizeof(lazy_ptx), &module));
    OK(device->ops->code_function(device, module, "write_late", &late));
    OK(device->ops->code_function(device, module, "write_now", &now));
    gate = 0;
    const ferry_grid grid = {.blocks = {1, 1, 1}, .threads = {1, 1, 1}};
    OK(device->ops->launch(device, &LAUNCH(late, &memory), streams[0]));
    OK(device->ops->launch(device, &LAUNCH(now, &second), streams[1]));
    OK(device->ops->stream_synchronize(device, streams[1]));
    assert_int_equal(*second, 5);
    gate = 1;
    OK(device->ops->stream_synchronize(device, streams[0]));
    assert_int_equal(fake->fakecuda_end_capture(captured, &nodes), 0);
    assert_int_equal(nodes, 0);
    OK(device->ops->code_unload(device, module));
    for (int i = 0; i < 2; i++)
        OK(device->ops->stream_destroy(device, streams[i]));
    OK(device->ops->stream_destroy(device, captured));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
    close_device(device);
}

/* The first batch of a context loads a kernel. Checks that this does not invalidate a capture on a
 * different stream. */
static void
test_a_batch_ends_no_capture(void **state)
{
    ferryi_device *device = open_strict("load");
    ferry_context *context = open_context("load");
    int32_t *memory = calloc(2, BYTES);
    uint64_t loads = fake->fakecuda_calls_of("cuFuncLoad");
    void *captured;
    int nodes = 0;
    (void)state;
    assert_non_null(memory);
    OK(device->ops->stream_create(device, &captured));
    assert_int_equal(fake->fakecuda_begin_capture(captured, FERRYI_GPU_STREAM_CAPTURE_MODE_GLOBAL),
                     0);
    copy_in_a_batch(context, memory);
    assert_int_equal(fake->fakecuda_end_capture(captured, &nodes), 0);
    assert_int_equal(nodes, 0);
    assert_int_equal(fake->fakecuda_calls_of("cuFuncLoad"), loads + 1);
    OK(device->ops->stream_destroy(device, captured));
    ferry_context_destroy(&context);
    close_device(device);
    free(memory);
}

/* In the strict mode "sticky" a lost device stays lost until the process ends. Checks that the
 * device is still lost after the process opens it again. */
static void
test_a_new_context_does_not_heal(void **state)
{
    ferryi_device *device = open_strict("sticky");
    size_t free_bytes, total_bytes;
    (void)state;
    fake->fakecuda_fail_next("cuMemGetInfo_v2", FERRYI_GPU_ERROR_ILLEGAL_ADDRESS, 1);
    assert_int_equal(device->ops->memory_info(device, &free_bytes, &total_bytes),
                     FERRY_ERROR_DEVICE_LOST);
    close_device(device);
    device = open_build(NEW, 0);
    assert_int_equal(device->ops->memory_info(device, &free_bytes, &total_bytes),
                     FERRY_ERROR_DEVICE_LOST);
    close_device(device);
    fake->fakecuda_set_strict("");
    device = open_build(NEW, 0);
    OK(device->ops->memory_info(device, &free_bytes, &total_bytes));
    close_device(device);
}

static const struct ferryi_gpu_driver *late_driver;

/* Calls the driver in a destructor, while the process exits. Checks that the driver has already
 * been deinitialized. */
__attribute__((destructor)) static void
call_late(void)
{
    int version;
    if (late_driver)
        _exit(late_driver->version(&version) == FERRYI_GPU_ERROR_DEINITIALIZED ? 0 : 1);
}

static int
exit_code_of(pid_t child)
{
    int code = -1;
    assert_int_equal(waitpid(child, &code, 0), child);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

static void
test_the_driver_ends_with_the_process(void **state)
{
    ferryi_device *device = open_strict("");
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        late_driver = ferryi_gpu_of(device)->driver;
        exit(2);
    }
    assert_int_equal(exit_code_of(child), 0);
    close_device(device);
}

static void
call_inside(void *user)
{
    const struct ferryi_gpu_driver **driver = user;
    int version;
    if ((*driver)->version(&version) == 800)
        *driver = NULL;
}

static void
test_host_functions_may_not_call_the_driver(void **state)
{
    ferryi_device *device = enter_strict("host");
    const struct ferryi_gpu_driver *driver = ferryi_gpu_of(device)->driver, *seen = driver;
    (void)state;
    assert_int_equal(driver->host_call(NULL, call_inside, &seen), 0);
    assert_int_equal(driver->context_synchronize(), 0);
    assert_null(seen);
    leave_and_close(device);
}

int
main(void)
{
#define STRICT_TEST(name) cmocka_unit_test_teardown(name, clear_rules)
    const struct CMUnitTest tests[] = {
        STRICT_TEST(test_the_host_faults_while_a_kernel_runs),
        STRICT_TEST(test_such_memory_is_not_offered),
        STRICT_TEST(test_every_device_must_offer_it),
        STRICT_TEST(test_static_shared_memory_counts),
        STRICT_TEST(test_too_much_pinned_memory_is_out_of_memory),
        STRICT_TEST(test_pinned_buffers_need_no_pages),
        STRICT_TEST(test_registered_memory_goes_in_no_batch),
        STRICT_TEST(test_a_batch_does_without_a_kernel_that_is_gone),
        STRICT_TEST(test_refused_batches_go_one_by_one),
        STRICT_TEST(test_no_batches),
        STRICT_TEST(test_the_host_faults_in_device_memory),
        STRICT_TEST(test_arrays_that_share_a_page_are_copied_all_the_same),
        STRICT_TEST(test_grids_have_the_limits_of_devices),
        STRICT_TEST(test_newer_ptx_is_refused_by_name),
        STRICT_TEST(test_the_driver_is_dead_in_the_child_of_a_fork),
        STRICT_TEST(test_one_thread_runs_all_host_functions),
        STRICT_TEST(test_memory_registered_in_part_is_refused),
        STRICT_TEST(test_arrays_registered_in_part_are_copied),
        STRICT_TEST(test_the_legacy_stream_joins_no_capture),
        STRICT_TEST(test_streams_of_other_contexts_are_refused),
        STRICT_TEST(test_a_reset_device_is_lost),
        cmocka_unit_test_teardown(test_coherent_devices_wrap_what_the_host_may_use,
                                  clear_integrated),
        cmocka_unit_test_teardown(test_free_memory_of_integrated_devices, clear_integrated),
        STRICT_TEST(test_captures_outlive_contexts),
        STRICT_TEST(test_children_have_no_staging_memory),
        cmocka_unit_test_teardown(test_devices_that_cannot_register_are_not_asked,
                                  allow_registration),
        STRICT_TEST(test_refusals_are_remembered),
        STRICT_TEST(test_constant_memory_is_registered_where_the_device_can),
        STRICT_TEST(test_the_process_keeps_a_primary_context),
        STRICT_TEST(test_pools_free_when_the_device_is_short),
        STRICT_TEST(test_a_launch_that_loads_ends_a_capture),
        STRICT_TEST(test_functions_are_loaded_before_launches),
        STRICT_TEST(test_a_batch_ends_no_capture),
        STRICT_TEST(test_a_new_context_does_not_heal),
        STRICT_TEST(test_the_driver_ends_with_the_process),
        STRICT_TEST(test_host_functions_may_not_call_the_driver),
    };
    name_fakecuda();
    return cmocka_run_group_tests(tests, load_builds, NULL);
}
