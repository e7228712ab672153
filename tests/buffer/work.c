/* SPDX-License-Identifier: MIT */
#include "tests/buffer/work.h"

#include <stdatomic.h>
#include <unistd.h>

#include "tests/support/code.h"
#include "tests/support/copy_slots.h"
#include "tests/support/fakecuda.h"

/* -- fills and copies -------------------------------------------------------------------------- */

void
queue_fill(fixture *f, ferry_stream *stream, void *target, int value, size_t count)
{
    ferryi_device *device = device_of(f, ferry_stream_place(stream));
    OK(device->ops->fill(device, target, (uint32_t)value, sizeof(int), count,
                         ferry_stream_native(stream)));
}

void
queue_copy(fixture *f, ferry_stream *stream, void *target, const void *source, size_t count)
{
    ferryi_device *device = device_of(f, ferry_stream_place(stream));
    OK(device->ops->copy_device(device, target, source, count * sizeof(int),
                                ferry_stream_native(stream)));
}

void *
open_on(ferry_buffer *buffer, ferry_stream *stream, ferry_access access, size_t offset,
        size_t count, ferry_scope *scope)
{
    void *out = NULL;
    OK(ferry_buffer_open_device(buffer, INT, access, offset, count, stream, scope, &out));
    return out;
}

void
fill_on(fixture *f, ferry_buffer *buffer, ferry_stream *stream, size_t offset, size_t count,
        int value)
{
    ferry_scope scope;
    queue_fill(f, stream, open_on(buffer, stream, FERRY_OVERWRITE, offset, count, &scope), value,
               count);
    OK(ferry_scope_close(&scope));
}

void
copy_on(fixture *f, ferry_stream *stream, ferry_buffer *target, size_t to, ferry_buffer *source,
        size_t from, size_t count)
{
    ferry_scope scopes[2];
    void *in = open_on(source, stream, FERRY_READ, from, count, &scopes[0]);
    queue_copy(f, stream, open_on(target, stream, FERRY_OVERWRITE, to, count, &scopes[1]), in,
               count);
    ferry_scope_close_all(scopes, 2);
}

/* -- kernels ----------------------------------------------------------------------------------- */

/* Settings that the kernels of the tests read, and the number of kernels that have run. On CUDA
 * this struct lies in pinned memory, which a GPU can read. The PTX of the kernels depends on the
 * offsets of the members. */
struct control {
    _Atomic uint32_t closed, delay, done;
};

/* The pointer `control` is atomic. Work on a lost device may read it while a test sets it for a new
 * device. */
static struct control own, *_Atomic control = &own;

void
work_delay(unsigned microseconds)
{
    atomic_store(&control->delay, microseconds);
}

unsigned
work_done(void)
{
    return atomic_load(&control->done);
}

void
work_gate(bool open)
{
    atomic_store(&control->closed, !open);
}

static void *
watch(void *argument)
{
    struct watchdog *dog = argument;
    for (int i = 0; i < 500 && !atomic_load(&dog->finished); i++)
        usleep(10 * 1000);
    atomic_store(&dog->late, !atomic_load(&dog->finished));
    work_gate(true);
    return NULL;
}

void
close_gate(struct watchdog *dog)
{
    work_gate(false);
    atomic_init(&dog->finished, false);
    atomic_init(&dog->late, false);
    assert_int_equal(pthread_create(&dog->thread, NULL, watch, dog), 0);
}

void
open_gate(struct watchdog *dog)
{
    atomic_store(&dog->finished, true);
    assert_int_equal(pthread_join(dog->thread, NULL), 0);
    assert_false(atomic_load(&dog->late));
}

static void
pass_gate(void)
{
    while (atomic_load(&control->closed))
        usleep(20);
    unsigned pause = atomic_load(&control->delay);
    if (pause)
        usleep(pause);
}

static void
run_fill(int *out, size_t count, int value)
{
    pass_gate();
    for (size_t i = 0; i < count; i++)
        out[i] = value;
    atomic_fetch_add(&control->done, 1);
}

static void
run_add(int *out, size_t count, int value)
{
    pass_gate();
    for (size_t i = 0; i < count; i++)
        out[i] += value;
    atomic_fetch_add(&control->done, 1);
}

static void
run_copy(int *out, const int *in, size_t count)
{
    pass_gate();
    if (count > 0)
        memmove(out, in, count * sizeof(int));
    atomic_fetch_add(&control->done, 1);
}

static int *
array_of(const ferry_call *call, size_t index, size_t *out_count)
{
    return ferry_call_array(call, INT, index, out_count);
}

static ferry_status
fill_body(const ferry_call *call, void *user)
{
    size_t count;
    int *out = array_of(call, 0, &count);
    (void)user;
    run_fill(out, count, *(const int *)ferry_call_value(call, INT, 1, NULL));
    return FERRY_OK;
}

static ferry_status
add_body(const ferry_call *call, void *user)
{
    size_t count;
    int *out = array_of(call, 0, &count);
    (void)user;
    run_add(out, count, *(const int *)ferry_call_value(call, INT, 1, NULL));
    return FERRY_OK;
}

static ferry_status
copy_body(const ferry_call *call, void *user)
{
    size_t count;
    int *out = array_of(call, 0, &count), *in = array_of(call, 1, NULL);
    (void)user;
    run_copy(out, in, count);
    return FERRY_OK;
}

/* Host functions that fakecuda runs instead of the PTX kernels. The third parameter is the number
 * of elements, and the fourth is not used. */
static void
fill_code(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)grid, (void)block;
    run_fill(*(int **)parameters[0], *(size_t *)parameters[2], *(int *)parameters[1]);
}

static void
add_code(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)grid, (void)block;
    run_add(*(int **)parameters[0], *(size_t *)parameters[2], *(int *)parameters[1]);
}

static void
copy_code(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)grid, (void)block;
    run_copy(*(int **)parameters[0], *(int **)parameters[1], *(size_t *)parameters[2]);
}

/*
 * The kernels of the tests as PTX. Each kernel runs as a single block. Its first thread waits until
 * the test sets `closed` to 0. It waits at most ten seconds, so that a failing test does not block
 * the device. The thread then spins for `delay` microseconds, and the other threads wait for it at
 * a barrier. %i is the index of an element and starts at the thread's index.
 */
#define PTX_BEGIN(name, second)                                                                    \
    ".visible .entry " name "(.param .u64 a, .param ." second                                      \
    " b, .param .u64 n, .param .u64 c)\n{\n"                                                       \
    ".reg .pred %p;\n.reg .u32 %thread, %threads, %state, %v, %w;\n"                               \
    ".reg .u64 %a, %b, %n, %c, %i, %step, %at, %start, %now, %pause;\n"                            \
    "ld.param.u64 %a, [a];\nld.param.u64 %n, [n];\nld.param.u64 %c, [c];\n"                        \
    "cvta.to.global.u64 %a, %a;\ncvta.to.global.u64 %c, %c;\n"                                     \
    "mov.u32 %thread, %tid.x;\nmov.u32 %threads, %ntid.x;\n"                                       \
    "cvt.u64.u32 %i, %thread;\ncvt.u64.u32 %step, %threads;\n"                                     \
    "setp.ne.u32 %p, %thread, 0;\n@%p bra passed;\n"                                               \
    "mov.u64 %start, %globaltimer;\n"                                                              \
    "gate:\nld.volatile.global.u32 %state, [%c];\n"                                                \
    "setp.eq.u32 %p, %state, 0;\n@%p bra open;\n"                                                  \
    "mov.u64 %now, %globaltimer;\nsub.u64 %now, %now, %start;\n"                                   \
    "setp.lt.u64 %p, %now, 10000000000;\n@%p bra gate;\n"                                          \
    "open:\nld.volatile.global.u32 %state, [%c+4];\nmul.wide.u32 %pause, %state, 1000;\n"          \
    "mov.u64 %start, %globaltimer;\n"                                                              \
    "delay:\nmov.u64 %now, %globaltimer;\nsub.u64 %now, %now, %start;\n"                           \
    "setp.lt.u64 %p, %now, %pause;\n@%p bra delay;\n"                                              \
    "passed:\nbar.sync 0;\n"

/* PTX of the loop over the elements. The parameter `step` is the PTX that processes element %i, and
 * %at is the byte offset of this element. */
#define PTX_LOOP(step)                                                                             \
    "loop:\nsetp.ge.u64 %p, %i, %n;\n@%p bra finished;\nshl.b64 %at, %i, 2;\n" step                \
    "add.u64 %i, %i, %step;\nbra loop;\n"                                                          \
    "finished:\nmembar.sys;\nbar.sync 0;\n"                                                        \
    "setp.ne.u32 %p, %thread, 0;\n@%p bra end;\nred.global.add.u32 [%c+8], 1;\nend:\nret;\n}\n"

static const char image[] = ".version 6.0\n.target sm_50\n.address_size 64\n" PTX_BEGIN(
    "work_fill",
    "u32") "ld.param.u32 %v, [b];\n" PTX_LOOP("add.u64 %at, %a, %at;\nst.global.u32 [%at], %v;\n")
    PTX_BEGIN("work_add", "u32") "ld.param.u32 %v, [b];\n" PTX_LOOP(
        "add.u64 %at, %a, %at;\nld.global.u32 %w, [%at];\nadd.u32 %w, %w, %v;\nst.global.u32 "
        "[%at], %w;\n")
        PTX_BEGIN("work_copy", "u64") "ld.param.u64 %b, [b];\ncvta.to.global.u64 %b, "
                                      "%b;\n" PTX_LOOP("add.u64 %now, %b, %at;\nld.global.u32 %v, "
                                                       "[%now];\nadd.u64 %at, %a, "
                                                       "%at;\nst.global.u32 [%at], %v;\n");

const char *
work_image(void)
{
    return image;
}

static ferry_kernel *
make_kernel(fixture *f, const char *name, ferry_host_function *body, ferry_access first,
            ferry_access second)
{
    ferry_parameter parameters[] = {{.element = INT, .access = first},
                                    {.element = INT, .access = second},
                                    {.element = ferry_size_element()},
                                    {.element = ferry_size_element()}};
    ferry_kernel_source source = {.name = name,
                                  CUDA_IMAGE(image),
                                  .host_function = body,
                                  .parameters = parameters,
                                  .parameter_count = LENGTH(parameters)};
    ferry_kernel *kernel;
    OK(ferry_kernel_create(f->context, &source, &kernel));
    return kernel;
}

static bool
is_kind(fixture *f, const char *kind)
{
    return strcmp(device_of(f, 1)->kind, kind) == 0;
}

/* Allocates the struct `control` in pinned memory if the device is a CUDA device, because a GPU
 * reads it. */
static void
place_control(fixture *f, work *w)
{
    void *memory;
    w->device = is_kind(f, "cuda") ? device_of(f, 1) : NULL;
    if (!w->device)
        return;
    OK(w->device->ops->memory_alloc(w->device, FERRY_MEMORY_PINNED, sizeof(*control), &memory));
    control = memset(memory, 0, sizeof(*control));
}

void
work_open(fixture *f, work *w)
{
    struct fakecuda fake;
    if (is_kind(f, "cuda") && fakecuda_find_driver(&fake)) {
        static const size_t value_sizes[] = {sizeof(void *), sizeof(int), sizeof(size_t),
                                             sizeof(size_t)};
        static const size_t array_sizes[] = {sizeof(void *), sizeof(void *), sizeof(size_t),
                                             sizeof(size_t)};
        fake.fakecuda_register_kernel("work_fill", fill_code, 4, value_sizes);
        fake.fakecuda_register_kernel("work_add", add_code, 4, value_sizes);
        fake.fakecuda_register_kernel("work_copy", copy_code, 4, array_sizes);
    }
    place_control(f, w);
    w->fill = make_kernel(f, "work_fill", fill_body, FERRY_OVERWRITE, 0);
    w->add = make_kernel(f, "work_add", add_body, FERRY_UPDATE, 0);
    w->copy = make_kernel(f, "work_copy", copy_body, FERRY_OVERWRITE, FERRY_READ);
    work_delay(0);
    work_gate(true);
}

void
work_close(work *w)
{
    work_delay(0);
    work_gate(true);
    ferry_kernel_destroy(&w->fill);
    ferry_kernel_destroy(&w->add);
    ferry_kernel_destroy(&w->copy);
    if (!w->device)
        return;
    /* If the device is lost, its pinned memory is lost, too, and is not freed here. */
    ferry_status status = ferryi_device_synchronize(w->device);
    if (status == FERRY_OK)
        status = w->device->ops->memory_free(w->device, FERRY_MEMORY_PINNED, control);
    assert_true(status == FERRY_OK || status == FERRY_ERROR_DEVICE_LOST);
    control = &own;
}

/* Returns a grid of one block, because the PTX kernels run in one block. */
static ferry_grid
grid_of_work(void)
{
    return ferry_grid_for(256, 256);
}

static ferry_status
launch_value(ferry_kernel *kernel, ferry_stream *stream, ferry_buffer *buffer, size_t offset,
             size_t count, int value)
{
    ferry_argument arguments[] = {ferry_buffer_argument(buffer, INT, offset, count),
                                  ferry_element_value(INT, &value), ferry_size_value(count),
                                  ferry_size_value((uintptr_t)control)};
    return ferry_kernel_launch(kernel, grid_of_work(), stream, arguments, LENGTH(arguments));
}

ferry_status
launch_fill(work *w, ferry_stream *stream, ferry_buffer *out, size_t offset, size_t count,
            int value)
{
    return launch_value(w->fill, stream, out, offset, count, value);
}

ferry_status
launch_add(work *w, ferry_stream *stream, ferry_buffer *inout, size_t offset, size_t count,
           int value)
{
    return launch_value(w->add, stream, inout, offset, count, value);
}

ferry_status
launch_copy(work *w, ferry_stream *stream, ferry_buffer *out, size_t to, ferry_buffer *in,
            size_t from, size_t count)
{
    ferry_argument arguments[] = {ferry_buffer_argument(out, INT, to, count),
                                  ferry_buffer_argument(in, INT, from, count),
                                  ferry_size_value(count), ferry_size_value((uintptr_t)control)};
    return ferry_kernel_launch(w->copy, grid_of_work(), stream, arguments, LENGTH(arguments));
}

/* -- what is there ----------------------------------------------------------------------------- */

static bool
fakecuda_is_lazy(void)
{
    const char *mode = getenv("FAKECUDA_MODE");
    return mode && strcmp(mode, "lazy") == 0;
}

bool
is_lazy(fixture *f)
{
    return is_kind(f, "lazy") || (is_kind(f, "cuda") && fakecuda_is_lazy());
}

bool
runs_apart(fixture *f)
{
    return is_kind(f, "emulated") || (is_kind(f, "cuda") && !fakecuda_is_lazy()) ||
           (is_kind(f, "opencl") && (device_of(f, 1)->capabilities & FERRYI_DEVICE_CALLS_APART));
}

ferry_stream *
make_stream(fixture *f, int place)
{
    ferry_stream *stream;
    OK(ferry_stream_create(f->context, place, &stream));
    return stream;
}

void
make_crowd(fixture *f, ferry_stream **streams)
{
    for (size_t i = 0; i < STREAM_CROWD; i++)
        streams[i] = make_stream(f, 1);
}

void
destroy_crowd(ferry_stream **streams)
{
    for (size_t i = 0; i < STREAM_CROWD; i++)
        ferry_stream_destroy(&streams[i]);
}

void
destroy_streams(ferry_stream **const *streams)
{
    for (; *streams; streams++)
        ferry_stream_destroy(*streams);
}

uint64_t
device_calls(fixture *f)
{
    return moved(f).device_calls;
}

void
expect_ints(ferry_buffer *buffer, const int *expected, size_t offset, size_t count)
{
    int *values = malloc(count * sizeof(*values) + 1);
    assert_non_null(values);
    OK(ferry_buffer_copy_to(buffer, INT, offset, count, values, NULL));
    for (size_t i = 0; i < count; i++) {
        if (values[i] == expected[i])
            continue;
        print_error("seed %llu\n", (unsigned long long)support_seed);
        fail_msg("element %zu is %d instead of %d", offset + i, values[i], expected[i]);
    }
    free(values);
}

uint64_t
start_random(uint64_t seed)
{
    const char *wanted = getenv("FERRY_TEST_SEED");
    support_seed = wanted ? strtoull(wanted, NULL, 0) : seed;
    return support_seed;
}
