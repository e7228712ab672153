/* SPDX-License-Identifier: MIT */
#include "tests/misuse/misuse.h"

#include <stdlib.h>

/* Misuses of handles: use after destruction, and use with objects of a different context. For each
 * misuse, a call returns a status with a message, or the log has a line about it. */

static ferry_status
add_one(const ferry_call *call, void *user)
{
    size_t count;
    int *numbers = ferry_int_call_array(call, 0, &count);
    (void)user;
    for (size_t i = 0; i < count; i++)
        numbers[i]++;
    return FERRY_OK;
}

static ferry_kernel *
make_kernel(struct scene *scene, bool with_value)
{
    ferry_parameter parameters[] = {{.element = ferry_int_element(), .access = FERRY_UPDATE}, {0}};
    ferry_kernel_source source = {.name = "add_one",
                                  .host_function = add_one,
                                  .parameters = parameters,
                                  .parameter_count = with_value ? 2 : 1};
    ferry_kernel *kernel;
    must(ferry_kernel_create(scene->context, &source, &kernel));
    return kernel;
}

static void
open_after_destroy(struct scene *scene)
{
    ferry_int_buffer copy = scene->height;
    ferry_scope scope;
    const int *p;
    ferry_int_destroy(&scene->height);
    tell(ferry_int_read_host(copy, &scope, &p));
}

static void
fill_after_destroy(struct scene *scene)
{
    ferry_int_buffer copy = scene->height;
    ferry_int_destroy(&scene->height);
    tell(ferry_int_fill(copy, 0, 1, 0, NULL));
}

static void
sync_after_destroy(struct scene *scene)
{
    ferry_int_buffer copy = scene->height;
    ferry_int_destroy(&scene->height);
    tell(ferry_int_sync_to(copy, 1, NULL));
}

static void
use_a_view_after_destroy(struct scene *scene)
{
    ferry_int_buffer view, copy;
    ferry_scope scope;
    int *p;
    must(ferry_int_view(scene->height, 10, 100, &view));
    copy = view;
    ferry_int_destroy(&view);
    tell(ferry_int_update_host(copy, &scope, &p));
}

static void
destroy_twice(struct scene *scene)
{
    ferry_int_buffer copy = scene->height;
    ferry_int_destroy(&scene->height);
    ferry_int_destroy(&copy);
}

static void
retain_after_destroy(struct scene *scene)
{
    ferry_int_buffer copy = scene->height;
    ferry_int_destroy(&scene->height);
    (void)ferry_int_retain(copy);
}

static void
launch_after_destroy(struct scene *scene)
{
    ferry_kernel *kernel = make_kernel(scene, false);
    ferry_argument argument = ferry_int_argument(scene->height);
    ferry_int_destroy(&scene->height);
    tell(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), scene->stream, &argument, 1));
    ferry_kernel_destroy(&kernel);
}

static void
launch_a_destroyed_kernel(struct scene *scene)
{
    ferry_kernel *kernel = make_kernel(scene, false), *copy = kernel;
    ferry_argument argument = ferry_int_argument(scene->height);
    ferry_kernel_destroy(&kernel);
    tell(ferry_kernel_launch(copy, ferry_grid_for(1, 1), scene->stream, &argument, 1));
}

static void
destroy_a_kernel_twice(struct scene *scene)
{
    ferry_kernel *kernel = make_kernel(scene, false), *copy = kernel;
    ferry_kernel_destroy(&kernel);
    ferry_kernel_destroy(&copy);
}

static void
launch_with_a_host_pointer(struct scene *scene)
{
    ferry_kernel *kernel = make_kernel(scene, true);
    ferry_scope scope;
    const int *p;
    ferry_int_buffer other;
    must(ferry_int_create(scene->context, 10, NULL, &other));
    must(ferry_int_read_host(scene->height, &scope, &p));
    ferry_argument arguments[] = {ferry_int_argument(other),
                                  ferry_struct_value(&p, sizeof(p), sizeof(p))};
    tell(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), scene->stream, arguments, 2));
    must(ferry_scope_close(&scope));
    ferry_int_destroy(&other);
    ferry_kernel_destroy(&kernel);
}

static void
use_a_destroyed_stream(struct scene *scene)
{
    ferry_stream *stream, *copy;
    must(ferry_stream_create(scene->context, 1, &stream));
    copy = stream;
    ferry_stream_destroy(&stream);
    tell(ferry_stream_synchronize(copy));
}

static void
open_on_a_destroyed_stream(struct scene *scene)
{
    ferry_stream *stream, *copy;
    ferry_scope scope;
    const int *p;
    must(ferry_stream_create(scene->context, 1, &stream));
    copy = stream;
    ferry_stream_destroy(&stream);
    tell(ferry_int_read_device(scene->height, copy, &scope, &p));
}

static void
destroy_a_stream_twice(struct scene *scene)
{
    ferry_stream *stream, *copy;
    must(ferry_stream_create(scene->context, 1, &stream));
    copy = stream;
    ferry_stream_destroy(&stream);
    ferry_stream_destroy(&copy);
}

static void
wait_for_a_destroyed_event(struct scene *scene)
{
    ferry_event *event, *copy;
    must(ferry_stream_record(scene->stream, 0, &event));
    copy = event;
    ferry_event_destroy(&event);
    tell(ferry_event_synchronize(copy));
}

static void
destroy_an_event_twice(struct scene *scene)
{
    ferry_event *event, *copy;
    must(ferry_stream_record(scene->stream, 0, &event));
    copy = event;
    ferry_event_destroy(&event);
    ferry_event_destroy(&copy);
}

__attribute__((noinline)) void
open_height(struct scene *scene, ferry_scope *scope)
{
    int *p;
    must(ferry_int_update_host_range(scene->height, 0, 10, scope, &p));
}

static void
forget_to_close(struct scene *scene)
{
    ferry_scope scope;
    open_height(scene, &scope);
    ferry_int_destroy(&scene->height);
    must(ferry_scope_close(&scope));
}

static void
forget_to_destroy(struct scene *scene)
{
    ferry_context_destroy(&scene->context);
}

static void
forget_to_close_and_destroy(struct scene *scene)
{
    static ferry_scope scope;
    const int *p;
    must(ferry_int_read_host(scene->height, &scope, &p));
    ferry_context_destroy(&scene->context);
}

/* Opens two scopes, closes one, and destroys the buffer while the other scope is still open. */
static void
forget_one_of_several(struct scene *scene)
{
    static ferry_scope scopes[2];
    ferry_argument arguments[] = {
        ferry_argument_with(ferry_int_argument_range(scene->height, 0, 10), FERRY_READ),
        ferry_argument_with(ferry_int_argument_range(scene->height, 20, 10), FERRY_UPDATE)};
    must(ferry_scope_open_all(arguments, 2, FERRY_PLACE_HOST, NULL, scopes, NULL));
    must(ferry_scope_close(&scopes[0]));
    ferry_int_destroy(&scene->height);
    must(ferry_scope_close(&scopes[1]));
}

static void
write_twice_at_once(struct scene *scene)
{
    ferry_scope first, second;
    int *p;
    must(ferry_int_update_host(scene->height, &first, &p));
    tell(ferry_int_overwrite_host(scene->height, &second, &p));
    must(ferry_scope_close(&first));
}

static void
mark_what_is_newer_elsewhere(struct scene *scene)
{
    ferry_scope scope;
    int *p;
    must(ferry_int_overwrite_device(scene->height, scene->stream, &scope, &p));
    must(ferry_scope_close(&scope));
    tell(ferry_int_mark_dirty(scene->height, FERRY_PLACE_HOST, NULL));
}

static void
mix_contexts(struct scene *scene)
{
    ferry_context *other;
    ferry_stream *stream;
    ferry_scope scope;
    const int *p;
    must(ferry_context_create(NULL, &other));
    stream = ferry_context_stream(other, 1);
    tell(ferry_int_read_device(scene->height, stream, &scope, &p));
    ferry_context_destroy(&other);
}

static void
take_for_another_type(struct scene *scene)
{
    ferry_float_buffer numbers;
    tell(ferry_float_from_raw(scene->height.raw, &numbers));
}

static void
copy_from_device_memory(struct scene *scene)
{
    ferry_scope scope;
    const int *p;
    ferry_int_buffer other;
    ferry_buffer_options named = {.name = "target"};
    must(ferry_int_create(scene->context, HEIGHT_COUNT, &named, &other));
    must(ferry_int_read_device(scene->height, scene->stream, &scope, &p));
    tell(ferry_int_copy_from(other, 0, HEIGHT_COUNT, p, NULL));
    must(ferry_scope_close(&scope));
    ferry_int_destroy(&other);
}

static void
wrap_device_memory_as_the_hosts(struct scene *scene)
{
    ferry_wrap_options options = {.name = "given"};
    ferry_int_buffer given;
    ferry_scope scope;
    const int *p;
    must(ferry_int_read_device(scene->height, scene->stream, &scope, &p));
    tell(ferry_int_wrap_host(scene->context, 16, (int *)(uintptr_t)p, &options, &given));
    must(ferry_scope_close(&scope));
}

static void
wrap_host_memory_as_a_devices(struct scene *scene)
{
    static int numbers[16];
    ferry_wrap_options options = {.name = "given"};
    ferry_int_buffer given;
    tell(ferry_int_wrap_device(scene->context, 16, scene->stream, numbers, &options, &given));
}

static void
wrap_the_same_bytes_twice(struct scene *scene)
{
    static int numbers[16];
    ferry_wrap_options options = {.name = "whole"}, other = {.name = "part", .read_only = true};
    ferry_int_buffer whole, part;
    must(ferry_int_wrap_host(scene->context, 16, numbers, &options, &whole));
    must(ferry_int_wrap_host(scene->context, 4, numbers + 8, &other, &part));
    ferry_int_destroy(&part);
    ferry_int_destroy(&whole);
}

static void
reach_past_the_end(struct scene *scene)
{
    int one = 1;
    tell(ferry_int_copy_from(scene->height, HEIGHT_COUNT, 1, &one, NULL));
}

static void
use_after_the_context(struct scene *scene)
{
    ferry_scope scope;
    int *p;
    ferry_context_destroy(&scene->context);
    tell(ferry_int_update_host(scene->height, &scope, &p));
}

static void
write_what_is_wrapped_read_only(struct scene *scene)
{
    static int numbers[16];
    ferry_wrap_options options = {.name = "given", .read_only = true};
    ferry_int_buffer given;
    ferry_scope scope;
    int *p;
    must(ferry_int_wrap_host(scene->context, 16, numbers, &options, &given));
    tell(ferry_int_update_host(given, &scope, &p));
    ferry_int_destroy(&given);
}

static void
unwrap_under_a_scope(struct scene *scene)
{
    static int numbers[16];
    ferry_wrap_options options = {.name = "given"};
    ferry_int_buffer given;
    ferry_scope scope;
    const int *p;
    must(ferry_int_wrap_host(scene->context, 16, numbers, &options, &given));
    must(ferry_int_read_host(given, &scope, &p));
    tell(ferry_int_unwrap(&given, NULL));
    must(ferry_scope_close(&scope));
    ferry_int_destroy(&given);
}

const struct misuse handle_misuses[] = {
    {"a destroyed buffer is opened",
     open_after_destroy,
     {"read_host: buffer \"height\" was destroyed"},
     0,
     false},
    {"a destroyed buffer is filled",
     fill_after_destroy,
     {"fill: buffer \"height\" was destroyed"},
     0,
     false},
    {"a destroyed buffer is synced",
     sync_after_destroy,
     {"sync_to: buffer \"height\" was destroyed"},
     0,
     false},
    {"a destroyed view is opened",
     use_a_view_after_destroy,
     {"update_host: buffer \"height\" was destroyed"},
     0,
     false},
    {"a buffer is destroyed twice",
     destroy_twice,
     {"destroy buffer \"height\": it was destroyed before"},
     0,
     false},
    {"a destroyed buffer is retained",
     retain_after_destroy,
     {"retain buffer \"height\": it was destroyed"},
     0,
     false},
    {"a destroyed buffer is an argument",
     launch_after_destroy,
     {"launch kernel \"add_one\": argument 0", "buffer \"height\" was destroyed"},
     0,
     false},
    {"a destroyed kernel is launched",
     launch_a_destroyed_kernel,
     {"launch kernel \"add_one\": it was destroyed"},
     0,
     false},
    {"a kernel is destroyed twice",
     destroy_a_kernel_twice,
     {"destroy kernel \"add_one\": it was destroyed before"},
     0,
     false},
    {"a host pointer is an argument",
     launch_with_a_host_pointer,
     {"launch kernel \"add_one\": argument 1", "an address of buffer \"height\" on the host"},
     NEEDS_DEVICE,
     false},
    {"a destroyed stream is waited for",
     use_a_destroyed_stream,
     {"synchronize a stream: the stream was destroyed"},
     0,
     false},
    {"a buffer is opened on a destroyed stream",
     open_on_a_destroyed_stream,
     {"read_device: the stream was destroyed"},
     0,
     false},
    {"a stream is destroyed twice",
     destroy_a_stream_twice,
     {"destroy a stream: it was destroyed before"},
     0,
     false},
    {"a destroyed event is waited for",
     wait_for_a_destroyed_event,
     {"synchronize an event: the event was destroyed"},
     0,
     false},
    {"an event is destroyed twice",
     destroy_an_event_twice,
     {"destroy an event: it was destroyed before"},
     0,
     false},
    {"a scope is not closed before destroy",
     forget_to_close,
     {"destroy buffer \"height\": 1 scopes are open",
      "update_host of bytes 0 to 40 by open_height+0x"},
     NEEDS_UNWINDER,
     false},
    {"one of several scopes is not closed before destroy",
     forget_one_of_several,
     {"destroy buffer \"height\": 1 scopes are open", "update_host of bytes 80 to 120 by "},
     NEEDS_UNWINDER,
     false},
    {"a buffer is not destroyed before its context",
     forget_to_destroy,
     {"buffer \"height\" of 8000 bytes is still alive", "made by make_height+0x", "test_misuse"},
     NEEDS_UNWINDER,
     false},
    {"a scope is not closed before the context goes",
     forget_to_close_and_destroy,
     {"buffer \"height\" of 8000 bytes is still alive", "open: read_host of bytes 0 to 8000"},
     0,
     false},
    {"two writes at once",
     write_twice_at_once,
     {"overwrite_host bytes 0 to 8000 of buffer \"height\"", "an open scope overlaps"},
     0,
     false},
    {"a mark where the device is newer",
     mark_what_is_newer_elsewhere,
     {"mark bytes 0 to 8000 of buffer \"height\"", "newer elsewhere"},
     NEEDS_DEVICE,
     false},
    {"a stream of another context",
     mix_contexts,
     {"read_device: the stream belongs to another context"},
     0,
     false},
    {"a raw buffer is taken for another type",
     take_for_another_type,
     {"buffer \"height\" holds int, not float"},
     0,
     false},
    {"device memory is copied from as the host's",
     copy_from_device_memory,
     {"copy_from: buffer \"target\"", "is memory of", "not of the host"},
     NEEDS_DEVICE,
     false},
    {"device memory is wrapped as the host's",
     wrap_device_memory_as_the_hosts,
     {"wrap host memory: buffer \"given\"", "is memory of", "not of the host"},
     NEEDS_DEVICE,
     false},
    {"host memory is wrapped as a device's",
     wrap_host_memory_as_a_devices,
     {"wrap device memory: buffer \"given\"", "is memory of the host", "cannot use"},
     NEEDS_DEVICE,
     false},
    {"two buffers wrap the same bytes",
     wrap_the_same_bytes_twice,
     {"buffers \"part\" and \"whole\" wrap the same bytes"},
     0,
     false},
    {"a copy past the end",
     reach_past_the_end,
     {"reach past the end of buffer \"height\""},
     0,
     false},
    {"a buffer is used after its context",
     use_after_the_context,
     {"buffer \"height\"", "context was destroyed"},
     0,
     false},
    {"wrapped memory that is read-only is written",
     write_what_is_wrapped_read_only,
     {"update_host: this handle of buffer \"given\" is read-only", "it wraps read-only memory"},
     0,
     false},
    {"memory is unwrapped under a scope",
     unwrap_under_a_scope,
     {"unwrap buffer \"given\": a scope is open"},
     0,
     false},
    {0},
};
