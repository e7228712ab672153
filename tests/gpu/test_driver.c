/* SPDX-License-Identifier: MIT */

/*
 * Tests Ferry in a program that also calls the CUDA driver directly, and has streams, graphs and
 * pointers that Ferry did not create. fakecuda can run all these tests, but only a real driver
 * proves the behavior. Exits with status 77 (skipped) if there is no driver.
 */

#include <ferry/ferry.h>
#include <ferry/graph.h>
#include <ferry/int.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "src/base/base.h"
#include "src/debug/debug.h"
#include "tests/support/fakecuda.h"

#define COUNT 4096

/* The CUDA driver functions that this program calls without Ferry. */
static struct {
    int (*ctx_push)(void *);
    int (*ctx_pop)(void **);
    int (*ctx_retain)(void **, int);
    int (*stream_create)(void **, unsigned);
    int (*stream_destroy)(void *);
    int (*stream_synchronize)(void *);
    int (*memset_32)(uint64_t, unsigned, size_t, void *);
    int (*mem_alloc)(uint64_t *, size_t);
    int (*mem_free)(uint64_t);
    int (*begin_capture)(void *, int);
    int (*end_capture)(void *, void **);
    int (*graph_instantiate)(void **, void *, unsigned long long);
    int (*graph_launch)(void *, void *);
    int (*graph_exec_destroy)(void *);
    int (*graph_destroy)(void *);
} cu;

static ferry_context *context;

static bool
load_driver(void)
{
    static const struct {
        const char *name;
        size_t at;
    } symbols[] = {
        {"cuCtxPushCurrent_v2", offsetof(__typeof__(cu), ctx_push)},
        {"cuCtxPopCurrent_v2", offsetof(__typeof__(cu), ctx_pop)},
        {"cuDevicePrimaryCtxRetain", offsetof(__typeof__(cu), ctx_retain)},
        {"cuStreamCreate", offsetof(__typeof__(cu), stream_create)},
        {"cuStreamDestroy_v2", offsetof(__typeof__(cu), stream_destroy)},
        {"cuStreamSynchronize", offsetof(__typeof__(cu), stream_synchronize)},
        {"cuMemsetD32Async", offsetof(__typeof__(cu), memset_32)},
        {"cuMemAlloc_v2", offsetof(__typeof__(cu), mem_alloc)},
        {"cuMemFree_v2", offsetof(__typeof__(cu), mem_free)},
        /* The functions for graphs may be missing. */
        {"cuStreamBeginCapture_v2", offsetof(__typeof__(cu), begin_capture)},
        {"cuStreamEndCapture", offsetof(__typeof__(cu), end_capture)},
        {"cuGraphInstantiateWithFlags", offsetof(__typeof__(cu), graph_instantiate)},
        {"cuGraphLaunch", offsetof(__typeof__(cu), graph_launch)},
        {"cuGraphExecDestroy", offsetof(__typeof__(cu), graph_exec_destroy)},
        {"cuGraphDestroy", offsetof(__typeof__(cu), graph_destroy)},
    };
    const char *name = ferryi_getenv("FERRY_CUDA_LIBRARY");
    void *library = ferryi_library_open(name ? name : "libcuda.so.1", NULL, 0);
    for (size_t i = 0; library && i < sizeof(symbols) / sizeof(symbols[0]); i++)
        *(void **)((char *)&cu + symbols[i].at) = ferryi_library_symbol(library, symbols[i].name);
    return cu.ctx_push && cu.ctx_pop && cu.ctx_retain && cu.stream_create && cu.stream_destroy &&
           cu.stream_synchronize && cu.memset_32 && cu.mem_alloc && cu.mem_free;
}

static uint64_t
device_calls(void)
{
    ferry_transfer_stats stats;
    assert_int_equal(ferry_context_get_transfer_stats(context, &stats), FERRY_OK);
    return stats.device_calls;
}

static void
expect_all(ferry_int_buffer buffer, int32_t value)
{
    ferry_scope scope;
    const int32_t *on_host;
    assert_int_equal(ferry_int_read_host(buffer, &scope, &on_host), FERRY_OK);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(on_host[i], value);
    assert_int_equal(ferry_scope_close(&scope), FERRY_OK);
}

/* Opens a scope on a wrapped stream. Checks that the program can use the pointer of the scope in
 * driver calls on the native stream. */
static void
test_work_of_the_program_on_a_wrapped_stream(void **state)
{
    (void)state;
    void *native;
    ferry_stream *stream;
    ferry_int_buffer buffer;
    ferry_scope scope;
    int32_t *on_device;
    assert_int_equal(cu.stream_create(&native, 1), 0);
    assert_int_equal(ferry_stream_wrap(context, 1, native, &stream), FERRY_OK);
    assert_int_equal(ferry_int_create(context, COUNT, NULL, &buffer), FERRY_OK);
    for (int32_t round = 1; round < 50; round++) {
        assert_int_equal(ferry_int_overwrite_device(buffer, stream, &scope, &on_device), FERRY_OK);
        assert_int_equal(
            cu.memset_32((uint64_t)(uintptr_t)on_device, (unsigned)round, COUNT, native), 0);
        assert_int_equal(ferry_scope_close(&scope), FERRY_OK);
        expect_all(buffer, round);
    }
    ferry_stream_destroy(&stream);
    assert_int_equal(cu.stream_destroy(native), 0);
    ferry_int_destroy(&buffer);
}

/* Checks that a scope on the NULL stream is ordered with the driver calls that the program makes on
 * the legacy default stream. */
static void
test_the_default_stream_is_the_legacy_one(void **state)
{
    (void)state;
    ferry_int_buffer buffer;
    ferry_scope scope;
    int32_t *on_device;
    assert_int_equal(ferry_int_create(context, COUNT, NULL, &buffer), FERRY_OK);
    for (int32_t round = 1; round < 50; round++) {
        assert_int_equal(ferry_int_overwrite_device(buffer, NULL, &scope, &on_device), FERRY_OK);
        assert_int_equal(
            cu.memset_32((uint64_t)(uintptr_t)on_device, (unsigned)-round, COUNT, NULL), 0);
        assert_int_equal(ferry_scope_close(&scope), FERRY_OK);
        expect_all(buffer, -round);
    }
    ferry_int_destroy(&buffer);
}

/* Ferry must refuse calls that need the driver on a stream that is being captured, and the capture
 * must stay valid. A launch of the captured graph writes through the raw pointer of a replica.
 * After ferry_int_mark_dirty(), the host must read the written values. */
static void
test_graphs(void **state)
{
    (void)state;
    void *native, *graph = NULL, *exec = NULL;
    ferry_stream *stream;
    ferry_int_buffer buffer, other;
    ferry_scope scope;
    int32_t *pinned;
    const int32_t *unused;
    int32_t seed[COUNT] = {1};
    if (!cu.begin_capture || !cu.end_capture || !cu.graph_instantiate || !cu.graph_launch ||
        !cu.graph_exec_destroy || !cu.graph_destroy)
        return;
    assert_int_equal(cu.stream_create(&native, 1), 0);
    assert_int_equal(ferry_stream_wrap(context, 1, native, &stream), FERRY_OK);
    assert_int_equal(ferry_int_create_from(context, COUNT, seed, NULL, &buffer), FERRY_OK);
    assert_int_equal(ferry_int_create_from(context, COUNT, seed, NULL, &other), FERRY_OK);
    assert_int_equal(ferry_int_sync_to(buffer, 1, NULL), FERRY_OK);
    assert_int_equal(ferry_int_hold(buffer, 1, &pinned), FERRY_OK);
    assert_int_equal(ferry_stream_flush(stream), FERRY_OK);

    assert_int_equal(cu.begin_capture(native, 0), 0);
    assert_int_equal(ferry_int_read_device(other, stream, &scope, &unused),
                     FERRY_ERROR_UNSUPPORTED);
    assert_int_equal(ferry_stream_synchronize(stream), FERRY_ERROR_UNSUPPORTED);
    assert_int_equal(cu.memset_32((uint64_t)(uintptr_t)pinned, 77, COUNT, native), 0);
    assert_int_equal(cu.end_capture(native, &graph), 0);
    assert_non_null(graph);
    assert_int_equal(cu.graph_instantiate(&exec, graph, 0), 0);

    assert_int_equal(cu.graph_launch(exec, native), 0);
    assert_int_equal(ferry_int_mark_dirty(buffer, 1, stream), FERRY_OK);
    expect_all(buffer, 77);

    assert_int_equal(ferry_int_release(buffer, 1), FERRY_OK);
    assert_int_equal(cu.graph_exec_destroy(exec), 0);
    assert_int_equal(cu.graph_destroy(graph), 0);
    ferry_stream_destroy(&stream);
    assert_int_equal(cu.stream_destroy(native), 0);
    ferry_int_destroy(&other);
    ferry_int_destroy(&buffer);
}

/* Checks that Ferry uses wrapped memory only after the stream that fills this memory has finished.
 * Ferry must never free the program's memory. */
static void
test_device_memory_of_the_program(void **state)
{
    (void)state;
    uint64_t memory;
    void *native;
    ferry_stream *stream;
    ferry_int_buffer buffer;
    assert_int_equal(cu.mem_alloc(&memory, COUNT * sizeof(int32_t)), 0);
    assert_int_equal(cu.stream_create(&native, 1), 0);
    assert_int_equal(ferry_stream_wrap(context, 1, native, &stream), FERRY_OK);
    assert_int_equal(cu.memset_32(memory, 5, COUNT, native), 0);
    assert_int_equal(
        ferry_int_wrap_device(context, COUNT, stream, (int32_t *)(uintptr_t)memory, NULL, &buffer),
        FERRY_OK);
    expect_all(buffer, 5);
    assert_int_equal(ferry_int_unwrap(&buffer, stream), FERRY_OK);
    assert_int_equal(cu.stream_synchronize(native), 0);
    assert_int_equal(cu.mem_free(memory), 0);
    ferry_stream_destroy(&stream);
    assert_int_equal(cu.stream_destroy(native), 0);
}

/* Checks that only the first use of a buffer on a device makes driver calls. Later uses must make
 * none. */
static void
test_hits_make_no_driver_call(void **state)
{
    (void)state;
    ferry_int_buffer buffer;
    ferry_scope scope;
    const int32_t *on_device;
    int32_t seed[COUNT] = {1};
    if (ferryi_is_debug_run())
        skip(); /* a checked run asks the driver more */
    assert_int_equal(ferry_int_create_from(context, COUNT, seed, NULL, &buffer), FERRY_OK);
    assert_int_equal(ferry_int_read_device(buffer, NULL, &scope, &on_device), FERRY_OK);
    assert_int_equal(ferry_scope_close(&scope), FERRY_OK);
    uint64_t before = device_calls();
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(ferry_int_read_device(buffer, NULL, &scope, &on_device), FERRY_OK);
        assert_int_equal(ferry_scope_close(&scope), FERRY_OK);
    }
    assert_int_equal(device_calls(), before);
    ferry_int_destroy(&buffer);
}

/* Fills the buffer on the per-thread default stream, whose handle is 2. Two threads run this
 * function at the same time, so Ferry must order the work of two streams. */
static void *
fill_on_own_stream(void *opaque)
{
    ferry_int_buffer *buffer = opaque;
    void *primary, *before = NULL;
    ferry_stream *stream;
    ferry_scope scope;
    int32_t *on_device;
    if (cu.ctx_retain(&primary, 0) != 0 || cu.ctx_push(primary) != 0 ||
        ferry_stream_wrap(context, 1, (void *)2, &stream) != FERRY_OK)
        return NULL;
    for (int32_t i = 0; i < 100; i++) {
        /* The update is retried, because a scope of the other thread may be open on the buffer. */
        while (ferry_int_update_device(*buffer, stream, &scope, &on_device) != FERRY_OK)
            if (ferry_int_wait_available(*buffer, FERRY_UPDATE, UINT64_C(1000000000)) != FERRY_OK)
                return NULL;
        if (cu.memset_32((uint64_t)(uintptr_t)on_device, (unsigned)i, COUNT, (void *)2) != 0 ||
            ferry_scope_close(&scope) != FERRY_OK)
            return NULL;
    }
    ferry_stream_destroy(&stream);
    /* Checks that the primary context is still the current one, and that the stack of contexts is
     * otherwise empty. */
    return cu.ctx_pop(&before) == 0 && before == primary && cu.ctx_pop(&before) != 0 ? opaque
                                                                                     : NULL;
}

static void
test_per_thread_streams(void **state)
{
    (void)state;
    ferry_int_buffer buffer;
    pthread_t threads[2];
    assert_int_equal(ferry_int_create(context, COUNT, NULL, &buffer), FERRY_OK);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fill_on_own_stream, &buffer), 0);
    for (size_t i = 0; i < 2; i++) {
        void *came_to;
        assert_int_equal(pthread_join(threads[i], &came_to), 0);
        assert_ptr_equal(came_to, &buffer);
    }
    expect_all(buffer, 99);
    ferry_int_destroy(&buffer);
}

/* Checks that no library call changes the calling thread's current CUDA context, not even the first
 * call. */
static void
test_the_current_context_stays(void **state)
{
    (void)state;
    void *primary, *now;
    ferry_int_buffer buffer;
    assert_int_equal(cu.ctx_pop(&primary), 0);
    assert_int_equal(ferry_int_create(context, COUNT, NULL, &buffer), FERRY_OK);
    assert_int_equal(ferry_int_fill(buffer, 0, FERRY_REST, 3, NULL), FERRY_OK);
    assert_int_equal(ferry_int_sync_to(buffer, 1, NULL), FERRY_OK);
    assert_int_not_equal(cu.ctx_pop(&now), 0);
    ferry_int_destroy(&buffer);
    assert_int_equal(cu.ctx_push(primary), 0);
}

/* -- launches with attributes ------------------------------------------------------------------ */

/* A kernel that adds 1 to each element, one thread for each. In the second text it waits for the
 * kernel before it, and lets the one after it begin. */
#define ADD_ONE(version, target, overlap)                                                          \
    ".version " version "\n.target " target "\n.address_size 64\n"                                 \
    ".visible .entry add_one(.param .u64 x, .param .u64 n) {\n"                                    \
    ".reg .pred %p<1>;\n.reg .b32 %r<5>;\n.reg .b64 %d<5>;\n" overlap                              \
    "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\n"                        \
    "mad.lo.u32 %r3, %r0, %r1, %r2;\ncvt.u64.u32 %d0, %r3;\nld.param.u64 %d1, [n];\n"              \
    "setp.ge.u64 %p0, %d0, %d1;\n@%p0 bra done;\nld.param.u64 %d2, [x];\n"                         \
    "cvta.to.global.u64 %d2, %d2;\nshl.b64 %d3, %d0, 2;\nadd.u64 %d4, %d2, %d3;\n"                 \
    "ld.global.u32 %r4, [%d4];\nadd.u32 %r4, %r4, 1;\nst.global.u32 [%d4], %r4;\ndone:\nret;\n}\n"
static const char add_one_text[] = ADD_ONE("6.0", "sm_50", ""),
                  add_one_overlap_text[] = ADD_ONE(
                      "7.8", "sm_90", "griddepcontrol.wait;\ngriddepcontrol.launch_dependents;\n");

/* Runs in place of the kernel on fakecuda. */
static void
add_one(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    int32_t *x = *(int32_t **)parameters[0];
    (void)grid;
    (void)block;
    for (size_t i = 0; i < *(size_t *)parameters[1]; i++)
        x[i]++;
}

static ferry_kernel *
make_add_one(bool overlaps)
{
    static const size_t bytes[] = {sizeof(int32_t *), sizeof(size_t)};
    const ferry_parameter parameters[] = {{ferry_int_element(), FERRY_UPDATE, .name = "x"},
                                          {ferry_size_element(), .name = "n"}};
    const ferry_kernel_code code = {.kind = FERRY_CODE_CUDA_IMAGE,
                                    .code = overlaps ? add_one_overlap_text : add_one_text,
                                    .bytes = overlaps ? sizeof(add_one_overlap_text)
                                                      : sizeof(add_one_text)};
    const ferry_kernel_source source = {.name = "add_one",
                                        .codes = &code,
                                        .code_count = 1,
                                        .parameters = parameters,
                                        .parameter_count = 2};
    struct fakecuda fake;
    ferry_kernel *kernel;
    if (fakecuda_find_driver(&fake))
        fake.fakecuda_register_kernel("add_one", add_one, 2, bytes);
    assert_int_equal(ferry_kernel_create(context, &source, &kernel), FERRY_OK);
    return kernel;
}

/* Launches the kernel many times, each of which needs the values of the one before, also as a
 * graph.
 */
static void
repeat(ferry_kernel *kernel, const ferry_grid *grid)
{
    enum { LAUNCHES = 50, RECORDED = 10 };
    ferry_int_buffer x;
    ferry_stream *stream;
    ferry_graph *graph = NULL;
    assert_int_equal(ferry_int_create(context, COUNT, NULL, &x), FERRY_OK);
    const ferry_argument arguments[] = {ferry_int_argument(x), ferry_size_value(COUNT)};
    assert_int_equal(ferry_int_fill(x, 0, COUNT, 0, NULL), FERRY_OK);
    assert_int_equal(ferry_stream_create(context, 1, &stream), FERRY_OK);
    for (int i = 0; i < LAUNCHES; i++)
        assert_int_equal(ferry_kernel_launch(kernel, *grid, stream, arguments, 2), FERRY_OK);
    expect_all(x, LAUNCHES);
    if (ferry_graph_begin(stream, NULL, &graph) == FERRY_OK) {
        for (int i = 0; i < RECORDED; i++)
            assert_int_equal(ferry_kernel_launch(kernel, *grid, stream, arguments, 2), FERRY_OK);
        assert_int_equal(ferry_graph_end(graph), FERRY_OK);
        assert_int_equal(ferry_graph_launch(graph, stream), FERRY_OK);
        assert_int_equal(ferry_graph_launch(graph, stream), FERRY_OK);
        expect_all(x, LAUNCHES + 2 * RECORDED);
        ferry_graph_destroy(&graph);
    }
    ferry_stream_destroy(&stream);
    ferry_int_destroy(&x);
}

/* The driver takes each attribute that the device claims to have, alone and with the others. */
static void
test_launches_with_attributes(void **state)
{
    static const struct {
        uint64_t needs;
        uint32_t flags, cluster;
    } cases[] = {
        {FERRY_CAN_COOPERATE, FERRY_LAUNCH_COOPERATIVE, 0},
        {FERRY_CAN_CLUSTER, 0, 4},
        {FERRY_CAN_OVERLAP, FERRY_LAUNCH_OVERLAP, 0},
        {FERRY_CAN_CLUSTER | FERRY_CAN_COOPERATE, FERRY_LAUNCH_COOPERATIVE, 2},
        {FERRY_CAN_CLUSTER | FERRY_CAN_OVERLAP, FERRY_LAUNCH_OVERLAP, 2},
    };
    ferry_place_info place;
    (void)state;
    assert_int_equal(ferry_context_get_place_info(context, 1, &place), FERRY_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const ferry_grid grid = {.blocks = {COUNT / 256},
                                 .threads = {256},
                                 .flags = cases[i].flags,
                                 .cluster = {cases[i].cluster}};
        if (cases[i].needs & ~place.capabilities)
            continue;
        ferry_kernel *kernel = make_add_one(cases[i].flags & FERRY_LAUNCH_OVERLAP);
        repeat(kernel, &grid);
        ferry_kernel_destroy(&kernel);
    }
}

int
main(void)
{
    if (!load_driver() ||
        ferry_context_create(&(ferry_context_options){.devices = "cuda"}, &context) != FERRY_OK) {
        print_message("no CUDA device: %s\n", ferry_last_error());
        return 77;
    }
    void *primary;
    if (cu.ctx_retain(&primary, 0) != 0 || cu.ctx_push(primary) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_of_the_program_on_a_wrapped_stream),
        cmocka_unit_test(test_the_default_stream_is_the_legacy_one),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_device_memory_of_the_program),
        cmocka_unit_test(test_hits_make_no_driver_call),
        cmocka_unit_test(test_per_thread_streams),
        cmocka_unit_test(test_launches_with_attributes),
        cmocka_unit_test(test_the_current_context_stays),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ferry_context_destroy(&context);
    return failed;
}
