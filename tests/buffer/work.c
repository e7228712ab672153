/* SPDX-License-Identifier: MIT */
#include "tests/buffer/work.h"

#include <stdatomic.h>
#include <unistd.h>

#include "tests/support/fakecuda.h"

/* -- fills and copies ------------------------------------------------------------------------------ */

void
queue_fill(fixture *f, ferry_stream *stream, void *target, int value, size_t count)
{
    ferryi_device *device = device_of(f, ferry_stream_place(stream));
    OK(device->ops->fill(device, target, (uint32_t)value, sizeof(int), count, ferry_stream_native(stream)));
}

void
queue_copy(fixture *f, ferry_stream *stream, void *target, const void *source, size_t count)
{
    ferryi_device *device = device_of(f, ferry_stream_place(stream));
    OK(device->ops->copy_device(device, target, source, count * sizeof(int), ferry_stream_native(stream)));
}

void *
open_on(ferry_buffer *buffer, ferry_stream *stream, ferry_access access, size_t offset, size_t count, ferry_scope *scope)
{
    void *out = NULL;
    OK(ferry_buffer_open_device(buffer, INT, access, stream, offset, count, scope, &out));
    return out;
}

void
fill_on(fixture *f, ferry_buffer *buffer, ferry_stream *stream, size_t offset, size_t count, int value)
{
    ferry_scope scope;
    queue_fill(f, stream, open_on(buffer, stream, FERRY_OVERWRITE, offset, count, &scope), value, count);
    OK(ferry_scope_close(&scope));
}

void
copy_on(fixture *f, ferry_stream *stream, ferry_buffer *target, size_t to, ferry_buffer *source, size_t from, size_t count)
{
    ferry_scope scopes[2];
    void *in = open_on(source, stream, FERRY_READ, from, count, &scopes[0]);
    queue_copy(f, stream, open_on(target, stream, FERRY_OVERWRITE, to, count, &scopes[1]), in, count);
    ferry_scope_close_all(scopes, 2);
}

/* -- kernels --------------------------------------------------------------------------------------- */

static atomic_uint delay, done;
static ferryi_mutex gate_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_cond = PTHREAD_COND_INITIALIZER;
static bool gate_closed;

void
work_delay(unsigned microseconds)
{
    atomic_store(&delay, microseconds);
}

unsigned
work_done(void)
{
    return atomic_load(&done);
}

void
work_gate(bool open)
{
    ferryi_mutex_lock(&gate_mutex);
    gate_closed = !open;
    pthread_cond_broadcast(&gate_cond);
    ferryi_mutex_unlock(&gate_mutex);
}

static void
pass_gate(void)
{
    ferryi_mutex_lock(&gate_mutex);
    while (gate_closed)
        pthread_cond_wait(&gate_cond, &gate_mutex);
    ferryi_mutex_unlock(&gate_mutex);
    unsigned pause = atomic_load(&delay);
    if (pause)
        usleep(pause);
}

static void
run_fill(int *out, size_t count, int value)
{
    pass_gate();
    for (size_t i = 0; i < count; i++)
        out[i] = value;
    atomic_fetch_add(&done, 1);
}

static void
run_add(int *out, size_t count, int value)
{
    pass_gate();
    for (size_t i = 0; i < count; i++)
        out[i] += value;
    atomic_fetch_add(&done, 1);
}

static void
run_copy(int *out, const int *in, size_t count)
{
    pass_gate();
    if (count > 0)
        memmove(out, in, count * sizeof(int));
    atomic_fetch_add(&done, 1);
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

/* fakecuda's bodies: the last parameter is the count. */
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

static const char image[] = ".version 8.0\n.target sm_80\n"
                            ".visible .entry work_fill(.param .u64 a, .param .u32 v, .param .u64 n) { ret; }\n"
                            ".visible .entry work_add(.param .u64 a, .param .u32 v, .param .u64 n) { ret; }\n"
                            ".visible .entry work_copy(.param .u64 a, .param .u64 b, .param .u64 n) { ret; }\n";

static ferry_kernel *
make_kernel(fixture *f, const char *name, ferry_host_body *body, ferry_access first, ferry_access second)
{
    ferry_parameter parameters[] = {{INT, first}, {INT, second}, {ferry_size_element(), 0}};
    ferry_kernel_source source = {.name = name, .image = image, .image_bytes = sizeof(image), .host_body = body,
                                  .parameters = parameters, .parameter_count = LENGTH(parameters)};
    ferry_kernel *kernel;
    OK(ferry_kernel_create(f->context, &source, &kernel));
    return kernel;
}

void
work_open(fixture *f, work *w)
{
    const char *library = getenv("FERRY_CUDA_LIBRARY");
    struct fakecuda fake;
    if (library && fakecuda_find(library, &fake)) {
        static const size_t value_sizes[] = {sizeof(void *), sizeof(int), sizeof(size_t)};
        static const size_t array_sizes[] = {sizeof(void *), sizeof(void *), sizeof(size_t)};
        fake.fakecuda_register_kernel("work_fill", fill_code, 3, value_sizes);
        fake.fakecuda_register_kernel("work_add", add_code, 3, value_sizes);
        fake.fakecuda_register_kernel("work_copy", copy_code, 3, array_sizes);
    }
    w->fill = make_kernel(f, "work_fill", fill_body, FERRY_OVERWRITE, 0);
    w->add = make_kernel(f, "work_add", add_body, FERRY_UPDATE, 0);
    w->copy = make_kernel(f, "work_copy", copy_body, FERRY_OVERWRITE, FERRY_READ);
    work_delay(0);
    work_gate(true);
}

void
work_close(work *w)
{
    ferry_kernel_destroy(&w->fill);
    ferry_kernel_destroy(&w->add);
    ferry_kernel_destroy(&w->copy);
    work_delay(0);
    work_gate(true);
}

static ferry_status
launch_value(ferry_kernel *kernel, ferry_stream *stream, ferry_buffer *buffer, size_t offset, size_t count, int value)
{
    ferry_argument arguments[] = {ferry_buffer_argument(buffer, INT, offset, count), ferry_element_value(INT, &value),
                                  ferry_size_value(count)};
    return ferry_kernel_launch(kernel, stream, ferry_grid_for(count, 0), arguments, LENGTH(arguments));
}

ferry_status
launch_fill(work *w, ferry_stream *stream, ferry_buffer *out, size_t offset, size_t count, int value)
{
    return launch_value(w->fill, stream, out, offset, count, value);
}

ferry_status
launch_add(work *w, ferry_stream *stream, ferry_buffer *inout, size_t offset, size_t count, int value)
{
    return launch_value(w->add, stream, inout, offset, count, value);
}

ferry_status
launch_copy(work *w, ferry_stream *stream, ferry_buffer *out, size_t to, ferry_buffer *in, size_t from, size_t count)
{
    ferry_argument arguments[] = {ferry_buffer_argument(out, INT, to, count), ferry_buffer_argument(in, INT, from, count),
                                  ferry_size_value(count)};
    return ferry_kernel_launch(w->copy, stream, ferry_grid_for(count, 0), arguments, LENGTH(arguments));
}

/* -- what is there --------------------------------------------------------------------------------- */

static bool
is_kind(fixture *f, const char *kind)
{
    return strcmp(device_of(f, 1)->kind, kind) == 0;
}

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
    return is_kind(f, "emulated") || (is_kind(f, "cuda") && !fakecuda_is_lazy());
}

ferry_stream *
make_stream(fixture *f, int place)
{
    ferry_stream *stream;
    OK(ferry_stream_create(f->context, place, &stream));
    return stream;
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
    OK(ferry_buffer_copy_to(buffer, INT, offset, values, count));
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
