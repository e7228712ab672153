/* SPDX-License-Identifier: MIT */
#include "tests/misuse/misuse.h"

#include <string.h>

/* Misuses of host pointers: accesses at the wrong time, or beyond the range of a scope. Such an
 * access faults on a protected page, or changes the red zone after the last byte. */

static volatile int sink;

static int *
kept_pointer(struct scene *scene)
{
    ferry_scope scope;
    int *p;
    must(ferry_int_update_host(scene->height, &scope, &p));
    must(ferry_scope_close(&scope));
    return p;
}

static void
write_on_device(struct scene *scene)
{
    ferry_scope scope;
    int *p;
    must(ferry_int_overwrite_device(scene->height, scene->stream, &scope, &p));
    must(ferry_scope_close(&scope));
}

static void
read_after_close(struct scene *scene)
{
    sink = kept_pointer(scene)[100];
}

static void
write_after_close(struct scene *scene)
{
    kept_pointer(scene)[100] = 1;
}

static void
write_in_a_read(struct scene *scene)
{
    ferry_scope scope;
    const int *p;
    must(ferry_int_read_host(scene->height, &scope, &p));
    ((int *)(uintptr_t)p)[3] = 1;
}

static int *
leased_pointer(struct scene *scene, ferry_access access)
{
    ferry_lease *lease; /* never destroyed, so its memory stays mapped */
    int *p;
    must(ferry_int_lease(scene->height,
                         &(ferry_lease_options){.access = access, .label = "numpy, step.py:12"},
                         &lease, &p));
    sink = p[100];
    must(ferry_lease_close(lease));
    return p;
}

static void
read_after_the_lease_closed(struct scene *scene)
{
    sink = leased_pointer(scene, FERRY_READ)[100];
}

static void
write_after_the_lease_closed(struct scene *scene)
{
    int *p = leased_pointer(scene, FERRY_UPDATE);
    ferry_scope scope;
    open_height(scene, &scope);
    p[1500] = 1;
}

static void
write_after_abandon(struct scene *scene)
{
    ferry_scope scope;
    int *p;
    must(ferry_int_overwrite_host(scene->height, &scope, &p));
    must(ferry_scope_abandon(&scope));
    p[0] = 1;
}

static void
read_what_the_device_wrote(struct scene *scene)
{
    const int *p = kept_pointer(scene);
    write_on_device(scene);
    sink = p[0];
}

static void
read_a_stale_pin(struct scene *scene)
{
    int *p;
    must(ferry_int_hold(scene->height, FERRY_PLACE_HOST, &p));
    p[0] = 1;
    must(ferry_int_mark_dirty(scene->height, FERRY_PLACE_HOST, NULL));
    write_on_device(scene);
    sink = p[0];
}

static void
write_after_unpin(struct scene *scene)
{
    int *p;
    must(ferry_int_hold(scene->height, FERRY_PLACE_HOST, &p));
    p[0] = 1;
    must(ferry_int_release(scene->height, FERRY_PLACE_HOST));
    p[0] = 2;
}

static void
edit_after_sync(struct scene *scene)
{
    int *p = kept_pointer(scene);
    write_on_device(scene);
    must(ferry_int_sync_to(scene->height, FERRY_PLACE_HOST, NULL));
    p[5] = 1; /* the misuse: mark_dirty is not called */
}

static void
read_after_destroy(struct scene *scene)
{
    const int *p = kept_pointer(scene);
    ferry_int_destroy(&scene->height);
    sink = p[0];
}

static void
read_after_context_destroy(struct scene *scene)
{
    const int *p = kept_pointer(scene);
    ferry_int_destroy(&scene->height);
    ferry_context_destroy(&scene->context);
    sink = p[0];
}

static void
write_after_resize(struct scene *scene)
{
    int *p = kept_pointer(scene);
    must(ferry_int_resize(scene->height, 3 * HEIGHT_COUNT));
    p[0] = 1;
}

static void
read_after_invalidate(struct scene *scene)
{
    const int *p = kept_pointer(scene);
    write_on_device(scene);
    must(ferry_int_invalidate(scene->height, FERRY_PLACE_HOST));
    sink = p[0];
}

static void
underrun(struct scene *scene)
{
    ferry_scope scope;
    int *p;
    must(ferry_int_update_host(scene->height, &scope, &p));
    p[-1] = 1;
}

static void
overrun_by_one(struct scene *scene)
{
    ferry_scope scope;
    int *p;
    must(ferry_int_update_host(scene->height, &scope, &p));
    for (int i = 0; i <= HEIGHT_COUNT; i++)
        p[i] = i;
    must(ferry_scope_close(&scope));
}

static void
overrun_by_much(struct scene *scene)
{
    ferry_scope scope;
    int *p;
    must(ferry_int_update_host(scene->height, &scope, &p));
    p[HEIGHT_COUNT + 1000] = 1;
}

static void
outside_what_was_opened(struct scene *scene)
{
    ferry_scope scope;
    int *p;
    must(ferry_int_hold(scene->height, FERRY_PLACE_HOST, &p));
    must(ferry_int_release(scene->height, FERRY_PLACE_HOST));
    open_height(scene, &scope);
    p[1500] = 1;
}

static void
outside_the_range(struct scene *scene)
{
    ferry_scope scope;
    int *p;
    must(ferry_int_update_host_range(scene->height, 0, 100, &scope, &p));
    p[1500] = 1;
}

static void
copy_from_a_kept_pointer(struct scene *scene)
{
    const int *p = kept_pointer(scene);
    ferry_int_buffer other;
    must(ferry_int_create(scene->context, HEIGHT_COUNT, NULL, &other));
    must(ferry_int_copy_from(other, 0, HEIGHT_COUNT, p, NULL));
}

const struct misuse pointer_misuses[] = {
    {"a pointer is read after its scope was closed",
     read_after_close,
     {"read of byte 400 of buffer \"height\"", "in no open scope", "update_host"},
     0,
     true},
    {"a pointer is written after its scope was closed",
     write_after_close,
     {"write to byte 400 of buffer \"height\"", "in no open scope", "update_host"},
     0,
     true},
    {"a write through the pointer of a READ",
     write_in_a_read,
     {"write to byte 12 of buffer \"height\"", "read_host of bytes 0 to 8000", "may only be read"},
     0,
     true},
    {"memory of a closed lease is read",
     read_after_the_lease_closed,
     {"read of byte 400 of buffer \"height\"",
      "used after its access ended: the lease of bytes 0 to 8000, held by numpy, step.py:12"},
     0,
     true},
    {"memory of a closed lease is written",
     write_after_the_lease_closed,
     {"write to byte 6000 of buffer \"height\"", "used after its access ended",
      "held by numpy, step.py:12"},
     0,
     true},
    {"a write after the scope was abandoned",
     write_after_abandon,
     {"write to byte 0 of buffer \"height\"", "overwrite_host"},
     0,
     true},
    {"a kept pointer is read when the device wrote",
     read_what_the_device_wrote,
     {"read of byte 0 of buffer \"height\"", "newer bytes are at another place"},
     NEEDS_DEVICE,
     true},
    {"a pinned copy is read when the device wrote",
     read_a_stale_pin,
     {"read of byte 0 of buffer \"height\"", "newer bytes are at another place", "hold"},
     NEEDS_DEVICE,
     true},
    {"a write after unpin",
     write_after_unpin,
     {"write to byte 0 of buffer \"height\"", "hold"},
     0,
     true},
    {"an edit after sync without a scope or a mark",
     edit_after_sync,
     {"write to byte 20 of buffer \"height\"", "in no open scope"},
     0,
     true},
    {"a pointer is read after destroy",
     read_after_destroy,
     {"buffer \"height\"", "was destroyed", "update_host"},
     0,
     true},
    {"a pointer is read after its context was destroyed",
     read_after_context_destroy,
     {"buffer \"height\"", "was destroyed"},
     0,
     true},
    {"a pointer is written after resize",
     write_after_resize,
     {"write to byte 0 of buffer \"height\"", "resize"},
     0,
     true},
    {"a pointer is read after invalidate",
     read_after_invalidate,
     {"read of byte 0 of buffer \"height\"", "invalidate"},
     NEEDS_DEVICE,
     true},
    {"an underrun",
     underrun,
     {"write to memory 4 bytes before the start of buffer \"height\""},
     0,
     true},
    {"an overrun by one element",
     overrun_by_one,
     {"overrun of buffer \"height\"", "0 bytes past its end of 8000 bytes",
      "update_host of bytes 0 to 8000"},
     0,
     false},
    {"an overrun by a thousand elements",
     overrun_by_much,
     {"write to memory 4000 bytes past the end of buffer \"height\""},
     0,
     true},
    {"a write outside the range of the scope",
     outside_the_range,
     {"write to byte 6000 of buffer \"height\"", "update_host of bytes 0 to 400"},
     0,
     true},
    {"a write outside what another function opened",
     outside_what_was_opened,
     {"write to byte 6000 of buffer \"height\"", "update_host of bytes 0 to 40, by open_height+0x"},
     NEEDS_UNWINDER,
     true},
    {"a copy from a pointer whose scope was closed",
     copy_from_a_kept_pointer,
     {"read of byte 0 of buffer \"height\"", "in no open scope"},
     0,
     true},
    {0},
};
