/* SPDX-License-Identifier: MIT */
/*
 * Plays each public call that takes a buffer through a read-only handle. A call that would write is
 * refused, changes nothing and leaves nothing open. A call that only reads or moves copies works.
 * The lint `writes` compares the tables with the headers, so a new call cannot be forgotten.
 *
 * Handles are read-only in several ways: read-only views, views of them, and all handles of a
 * buffer that wraps read-only memory.
 */
#include <ferry/generated.h>

#include "tests/buffer/files.h"
#include "tests/buffer/work.h"

enum { COUNT = 24, FIRST = 5, PART = 10, AT = 3 };

struct world {
    fixture *f;
    work kernels;
    ferry_buffer *base;   /* the buffer whose bytes must not change */
    ferry_buffer *handle; /* a read-only handle of `PART` of its elements, from `AT` on */
    ferry_buffer *other;  /* a buffer that may be written */
    int memory[COUNT];    /* wrapped by the base of some handles */
    bool is_wrap;         /* the handle is the first one of a read-only wrap */
};

/* -- calls that write -------------------------------------------------------------------------- */

static ferry_status
open_host(struct world *w, ferry_access access)
{
    ferry_scope scope;
    void *pointer;
    ferry_status status = ferry_buffer_open_host(w->handle, INT, access, 1, 4, &scope, &pointer);
    return status == FERRY_OK ? ferry_scope_close(&scope) : status;
}

static ferry_status
update_host(struct world *w)
{
    return open_host(w, FERRY_UPDATE);
}

static ferry_status
overwrite_host(struct world *w)
{
    return open_host(w, FERRY_OVERWRITE);
}

static ferry_status
update_nothing(struct world *w)
{
    ferry_scope scope;
    void *pointer;
    return ferry_buffer_open_host(w->handle, INT, FERRY_UPDATE, 1, 0, &scope, &pointer);
}

static ferry_status
open_device(struct world *w, ferry_access access)
{
    ferry_scope scope;
    void *pointer;
    ferry_status status = ferry_buffer_open_device(w->handle, INT, access, 0, FERRY_REST,
                                                   w->f->stream, &scope, &pointer);
    return status == FERRY_OK ? ferry_scope_close(&scope) : status;
}

static ferry_status
update_device(struct world *w)
{
    return open_device(w, FERRY_UPDATE);
}

static ferry_status
overwrite_device(struct world *w)
{
    return open_device(w, FERRY_OVERWRITE);
}

/* Opens a scope on a buffer that may be written together with one through the handle. */
static ferry_status
open_all(struct world *w, int place, ferry_access access)
{
    ferry_scope scopes[2];
    ferry_argument arguments[2] = {
        ferry_argument_with(ferry_buffer_argument(w->other, INT, 0, 4), FERRY_UPDATE),
        ferry_argument_with(ferry_buffer_argument(w->handle, INT, 0, 4), access)};
    ferry_status status =
        ferry_scope_open_all(arguments, 2, place, place ? w->f->stream : NULL, scopes, NULL);
    if (status == FERRY_OK)
        ferry_scope_close_all(scopes, 2);
    return status;
}

static ferry_status
update_all_at_host(struct world *w)
{
    return open_all(w, 0, FERRY_UPDATE);
}

static ferry_status
overwrite_all_at_device(struct world *w)
{
    return open_all(w, 1, FERRY_OVERWRITE);
}

/* A READ that would be merged with a write is no way around. */
static ferry_status
read_and_update_together(struct world *w)
{
    ferry_scope scopes[2];
    ferry_argument range = ferry_buffer_argument(w->handle, INT, 0, 4);
    ferry_argument arguments[2] = {ferry_argument_with(range, FERRY_READ),
                                   ferry_argument_with(range, FERRY_UPDATE)};
    return ferry_scope_open_all(arguments, 2, 0, NULL, scopes, NULL);
}

static ferry_status
lend(struct world *w, ferry_access access, int place, ferry_stream *stream)
{
    ferry_lease *lease;
    ferry_lease_options options = {.access = access, .place = place, .stream = stream};
    void *pointer;
    ferry_status status = ferry_lease_open(w->handle, INT, &options, &lease, &pointer);
    if (status == FERRY_OK)
        ferry_lease_destroy(&lease);
    return status;
}

static ferry_status
lend_to_update(struct world *w)
{
    return lend(w, FERRY_UPDATE, 0, NULL);
}

static ferry_status
lend_to_overwrite(struct world *w)
{
    return lend(w, FERRY_OVERWRITE, 0, NULL);
}

static ferry_status
lend_on_a_stream(struct world *w)
{
    return lend(w, FERRY_UPDATE, 1, w->f->stream);
}

static ferry_status
lend_at_a_device(struct world *w)
{
    return lend(w, FERRY_OVERWRITE, 1, NULL);
}

static ferry_status
launch_update(struct world *w)
{
    return launch_add(&w->kernels, w->f->stream, w->handle, 0, 4, 1);
}

static ferry_status
launch_overwrite(struct world *w)
{
    return launch_fill(&w->kernels, w->f->stream, w->handle, 0, 4, 1);
}

static const int sevens[COUNT] = {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};

static ferry_status
copy_from(struct world *w)
{
    return ferry_buffer_copy_from(w->handle, INT, 0, 4, sevens, NULL);
}

static ferry_status
copy_from_later(struct world *w)
{
    ferry_event *event;
    return ferry_buffer_copy_from_async(w->handle, INT, 0, 4, sevens, NULL, &event);
}

static ferry_status
copy_from_buffer_later(struct world *w)
{
    return ferry_buffer_copy_async(w->handle, INT, 0, w->other, 0, 4, NULL, NULL);
}

static ferry_status
fill_later(struct world *w)
{
    return ferry_buffer_fill_async(w->handle, INT, 0, FERRY_REST, sevens, NULL, NULL);
}

static ferry_status
load_later(struct world *w)
{
    return ferry_buffer_load_async(w->handle, INT, 0, 4, path_of("sevens"), 0, NULL, NULL);
}

static ferry_status
copy_a_value_later(struct world *w)
{
    ferry_copy_region region = {
        .target = {.buffer = w->handle, .row_pitch = 4}, .value = sevens, .count = 2, .rows = 2};
    return ferry_copy_async(&region, 1, NULL, NULL);
}

static ferry_status
convert_from_later(struct world *w)
{
    static const float values[4];
    ferry_copy_region region = {.target = {.buffer = w->handle},
                                .source = {.memory = (void *)(uintptr_t)values, .element = FLOAT},
                                .count = 4};
    return ferry_copy_converting_async(&region, FERRY_CONVERT_SATURATE, NULL, NULL);
}

static ferry_status
copy_from_buffer(struct world *w)
{
    return ferry_buffer_copy(w->handle, INT, 0, w->other, 0, 4, NULL);
}

/* A copy from itself to itself would change nothing, but its target is a target. */
static ferry_status
copy_to_itself(struct world *w)
{
    return ferry_buffer_copy(w->handle, INT, 0, w->handle, 0, 4, NULL);
}

static ferry_status
copy_rows(struct world *w)
{
    ferry_copy_region regions[2] = {
        ferry_buffer_region(w->other, INT, 0, w->base, 0, 2),
        {.target = {.buffer = w->handle, .row_pitch = 4},
         .source = {.memory = (void *)(uintptr_t)sevens, .element = INT},
         .count = 2,
         .rows = 2}};
    return ferry_copy(regions, 2, NULL);
}

static ferry_status
copy_a_value(struct world *w)
{
    ferry_copy_region region = {
        .target = {.buffer = w->handle, .row_pitch = 4}, .value = sevens, .count = 2, .rows = 2};
    return ferry_copy(&region, 1, NULL);
}

static ferry_status
convert_from(struct world *w)
{
    static const float values[4];
    ferry_copy_region region = {.target = {.buffer = w->handle},
                                .source = {.memory = (void *)(uintptr_t)values, .element = FLOAT},
                                .count = 4};
    return ferry_copy_converting(&region, FERRY_CONVERT_SATURATE, NULL);
}

static ferry_status
fill(struct world *w)
{
    return ferry_buffer_fill(w->handle, INT, 0, FERRY_REST, sevens, NULL);
}

static ferry_status
load(struct world *w)
{
    return ferry_buffer_load(w->handle, INT, 0, 4, path_of("sevens"), 0, NULL);
}

static ferry_status
mark_dirty(struct world *w)
{
    return ferry_buffer_mark_dirty(w->handle, 0, FERRY_REST, 0, NULL);
}

static ferry_status
discard(struct world *w)
{
    return ferry_buffer_discard(w->handle, 0, 4);
}

static ferry_status
resize(struct world *w)
{
    return ferry_buffer_resize(w->handle, PART + 1);
}

static ferry_status
resize_to_the_same(struct world *w)
{
    return ferry_buffer_resize(w->handle, ferry_buffer_count(w->handle));
}

/* The first handle of a read-only wrap may end the wrap, which writes nothing. */
static ferry_status
end_wrap(struct world *w, ferry_status status)
{
    assert_non_null(w->handle);
    return status;
}

static ferry_status
unwrap(struct world *w)
{
    return w->is_wrap ? discard(w) : end_wrap(w, ferry_buffer_unwrap(&w->handle, NULL));
}

static ferry_status
abandon(struct world *w)
{
    return w->is_wrap ? discard(w) : end_wrap(w, ferry_buffer_abandon(&w->handle));
}

struct row {
    const char *call, *how;
    ferry_status (*play)(struct world *w);
};

static const struct row writes[] = {
    {"ferry_buffer_open_host", "UPDATE", update_host},
    {"ferry_buffer_open_host", "OVERWRITE", overwrite_host},
    {"ferry_buffer_open_host", "no elements", update_nothing},
    {"ferry_buffer_open_device", "UPDATE", update_device},
    {"ferry_buffer_open_device", "OVERWRITE", overwrite_device},
    {"ferry_scope_open_all", "UPDATE at the host", update_all_at_host},
    {"ferry_scope_open_all", "OVERWRITE at a device", overwrite_all_at_device},
    {"ferry_scope_open_all", "READ and UPDATE of one range", read_and_update_together},
    {"ferry_lease_open", "UPDATE", lend_to_update},
    {"ferry_lease_open", "OVERWRITE", lend_to_overwrite},
    {"ferry_lease_open", "UPDATE on a stream", lend_on_a_stream},
    {"ferry_lease_open", "OVERWRITE at a device", lend_at_a_device},
    {"ferry_kernel_launch", "UPDATE", launch_update},
    {"ferry_kernel_launch", "OVERWRITE", launch_overwrite},
    {"ferry_buffer_copy_from", "", copy_from},
    {"ferry_buffer_copy_from_async", "", copy_from_later},
    {"ferry_buffer_copy_async", "as the target", copy_from_buffer_later},
    {"ferry_buffer_fill_async", "", fill_later},
    {"ferry_buffer_load_async", "", load_later},
    {"ferry_copy_async", "a value", copy_a_value_later},
    {"ferry_copy_converting_async", "as the target", convert_from_later},
    {"ferry_buffer_copy", "as the target", copy_from_buffer},
    {"ferry_buffer_copy", "to itself", copy_to_itself},
    {"ferry_copy", "rows, as the second of two regions", copy_rows},
    {"ferry_copy", "a value", copy_a_value},
    {"ferry_copy_converting", "as the target", convert_from},
    {"ferry_buffer_fill", "", fill},
    {"ferry_buffer_load", "", load},
    {"ferry_buffer_mark_dirty", "", mark_dirty},
    {"ferry_buffer_discard", "", discard},
    {"ferry_buffer_resize", "", resize},
    {"ferry_buffer_resize", "to the same count", resize_to_the_same},
    {"ferry_buffer_unwrap", "", unwrap},
    {"ferry_buffer_abandon", "", abandon},
};

/* -- calls that read, or move copies ----------------------------------------------------------- */

static ferry_status
sync_to(struct world *w)
{
    return ferry_buffer_sync_to(w->handle, 0, FERRY_REST, 1, NULL);
}

static ferry_status
prefetch(struct world *w)
{
    ferry_status status = ferry_buffer_prefetch(w->handle, 0, 4, 1, w->f->stream);
    return status == FERRY_OK ? ferry_buffer_wait_idle(w->handle, 1) : status;
}

static ferry_status
invalidate(struct world *w)
{
    return ferry_buffer_invalidate(w->handle, 0, FERRY_REST, 1);
}

static ferry_status
evict(struct world *w)
{
    return ferry_buffer_evict(w->handle, 1);
}

static ferry_status
reserve(struct world *w)
{
    return ferry_buffer_reserve(w->handle, 1);
}

static ferry_status
wait_idle(struct world *w)
{
    return ferry_buffer_wait_idle(w->handle, 0);
}

static ferry_status
wait_available(struct world *w)
{
    return ferry_buffer_wait_available(w->handle, FERRY_UPDATE, 0);
}

static ferry_status
hold(struct world *w)
{
    void *pointer;
    ferry_status status = ferry_buffer_hold(w->handle, 1, &pointer);
    return status == FERRY_OK ? ferry_buffer_release(w->handle, 1) : status;
}

/* Only managed memory takes advice. */
static ferry_status
advise(struct world *w)
{
    ferry_status status =
        ferry_buffer_advise(w->handle, 0, FERRY_REST, 1, FERRY_ADVISE_READ_MOSTLY);
    return status == FERRY_ERROR_UNSUPPORTED ? FERRY_OK : status;
}

static ferry_status
read_host(struct world *w)
{
    return open_host(w, FERRY_READ);
}

static ferry_status
read_device(struct world *w)
{
    return open_device(w, FERRY_READ);
}

static ferry_status
read_all(struct world *w)
{
    return open_all(w, 0, FERRY_READ);
}

static ferry_status
lend_to_read(struct world *w)
{
    return lend(w, FERRY_READ, 0, NULL);
}

static ferry_status
launch_read(struct world *w)
{
    return launch_copy(&w->kernels, w->f->stream, w->other, 0, w->handle, 0, 4);
}

static ferry_status
copy_to(struct world *w)
{
    int values[4];
    OK(ferry_buffer_copy_to(w->handle, INT, 0, 4, values, NULL));
    assert_int_equal(values[3] - values[0], 3);
    return FERRY_OK;
}

static ferry_status
wait_for(ferry_status status, ferry_event **event)
{
    if (status == FERRY_OK)
        status = ferry_event_synchronize(*event);
    ferry_event_destroy(event);
    return status;
}

static ferry_status
copy_to_later(struct world *w)
{
    int values[4];
    ferry_event *event = NULL;
    return wait_for(ferry_buffer_copy_to_async(w->handle, INT, 0, 4, values, NULL, &event), &event);
}

static ferry_status
sync_later(struct world *w)
{
    ferry_event *event = NULL;
    return wait_for(ferry_buffer_sync_to_async(w->handle, 0, FERRY_REST, 1, NULL, &event), &event);
}

static ferry_status
store_later(struct world *w)
{
    ferry_event *event = NULL;
    return wait_for(ferry_buffer_store_async(w->handle, INT, 0, 4, path_of("out"), 0, NULL, &event),
                    &event);
}

static ferry_status
copy_to_buffer(struct world *w)
{
    return ferry_buffer_copy(w->other, INT, 0, w->handle, 0, 4, NULL);
}

static ferry_status
copy_region_to_buffer(struct world *w)
{
    ferry_copy_region region = {.target = {.buffer = w->other},
                                .source = {.buffer = w->handle, .row_pitch = 4},
                                .count = 2,
                                .rows = 2};
    return ferry_copy(&region, 1, NULL);
}

static ferry_status
convert_to(struct world *w)
{
    float values[4];
    ferry_copy_region region = {.target = {.memory = values, .element = FLOAT},
                                .source = {.buffer = w->handle},
                                .count = 4};
    return ferry_copy_converting(&region, FERRY_CONVERT_SATURATE, NULL);
}

static ferry_status
store(struct world *w)
{
    return ferry_buffer_store(w->handle, INT, 0, 4, path_of("out"), 0, NULL);
}

static const struct row others[] = {
    {"ferry_buffer_sync_to", "", sync_to},
    {"ferry_buffer_prefetch", "", prefetch},
    {"ferry_buffer_reserve", "", reserve},
    {"ferry_buffer_hold", "", hold},
    {"ferry_buffer_release", "", hold},
    {"ferry_buffer_advise", "", advise},
    {"ferry_buffer_wait_idle", "", wait_idle},
    {"ferry_buffer_wait_available", "", wait_available},
    {"ferry_buffer_open_host", "READ", read_host},
    {"ferry_buffer_open_device", "READ", read_device},
    {"ferry_scope_open_all", "READ", read_all},
    {"ferry_lease_open", "READ", lend_to_read},
    {"ferry_kernel_launch", "READ", launch_read},
    {"ferry_buffer_copy_to", "", copy_to},
    {"ferry_buffer_copy_to_async", "", copy_to_later},
    {"ferry_buffer_sync_to_async", "", sync_later},
    {"ferry_buffer_store_async", "", store_later},
    {"ferry_buffer_copy", "as the source", copy_to_buffer},
    {"ferry_copy", "as the source", copy_region_to_buffer},
    {"ferry_copy_converting", "as the source", convert_to},
    {"ferry_buffer_store", "", store},
    {"ferry_buffer_invalidate", "", invalidate},
    {"ferry_buffer_evict", "", evict},
};

/* -- read-only handles ------------------------------------------------------------------------- */

static void
view_part(struct world *w)
{
    OK(ferry_buffer_view_read_only(w->base, INT, AT, PART, &w->handle));
}

static void
view_of_a_view(struct world *w)
{
    ferry_buffer *whole;
    OK(ferry_buffer_view_read_only(w->base, INT, 0, FERRY_REST, &whole));
    OK(ferry_buffer_view(whole, INT, AT, PART, &w->handle));
    ferry_buffer_destroy(&whole);
}

static void
view_read_only_of_a_view(struct world *w)
{
    ferry_buffer *part;
    OK(ferry_buffer_view(w->base, INT, AT, FERRY_REST, &part));
    OK(ferry_buffer_view_read_only(part, INT, 0, PART, &w->handle));
    ferry_buffer_destroy(&part);
}

/* The bytes are viewed as another element, and that view as the first element again. */
static void
view_as_another_element(struct world *w)
{
    ferry_buffer *whole, *bytes;
    OK(ferry_buffer_view_read_only(w->base, INT, 0, FERRY_REST, &whole));
    OK(ferry_buffer_reinterpret(whole, BYTE, 0, FERRY_REST, &bytes));
    assert_true(info_of(bytes).read_only);
    OK(ferry_buffer_reinterpret(bytes, INT, AT * sizeof(int), PART, &w->handle));
    DESTROY_BUFFERS(&whole, &bytes);
}

/* A second owner of the handle keeps it, also as a typed handle. */
static void
retain(struct world *w)
{
    ferry_buffer *first;
    ferry_int_buffer typed;
    OK(ferry_buffer_view_read_only(w->base, INT, AT, PART, &first));
    w->handle = ferry_buffer_retain(first);
    ferry_buffer_destroy(&first);
    OK(ferry_int_from_raw(w->handle, &typed));
    w->handle = typed.raw;
}

static void
wrap(struct world *w, bool read_only)
{
    ferry_wrap_options options = {.name = "lent", .read_only = read_only};
    ferry_buffer_destroy(&w->base);
    for (int i = 0; i < COUNT; i++)
        w->memory[i] = FIRST + i;
    OK(ferry_buffer_wrap_host(w->f->context, INT, COUNT, w->memory, &options, &w->base));
}

static void
view_of_a_wrap(struct world *w)
{
    wrap(w, false);
    view_part(w);
}

static void
wrap_read_only(struct world *w)
{
    wrap(w, true);
    w->handle = ferry_buffer_retain(w->base);
    w->is_wrap = true;
}

static void
view_of_a_read_only_wrap(struct world *w)
{
    wrap(w, true);
    OK(ferry_buffer_view(w->base, INT, AT, PART, &w->handle));
}

static const struct kind {
    const char *name;
    void (*make)(struct world *w);
} kinds[] = {{"a read-only view", view_part},
             {"a view of a read-only view", view_of_a_view},
             {"a read-only view of a view", view_read_only_of_a_view},
             {"a reinterpreted read-only view", view_as_another_element},
             {"a retained read-only view", retain},
             {"a read-only view of a wrap", view_of_a_wrap},
             {"a read-only wrap", wrap_read_only},
             {"a view of a read-only wrap", view_of_a_read_only_wrap}};

/* -- the tables -------------------------------------------------------------------------------- */

static void
world_open(fixture *f, struct world *w)
{
    *w = (struct world){.f = f};
    work_open(f, &w->kernels);
    w->other = make_counting(f, COUNT, 0);
    write_file(path_of("sevens"), sevens, sizeof(sevens));
}

static void
world_close(struct world *w)
{
    ferry_buffer_destroy(&w->other);
    work_close(&w->kernels);
}

static void
buffers_open(struct world *w, const struct kind *kind)
{
    ferry_buffer_options options = {.name = "lent"};
    w->is_wrap = false;
    OK(ferry_buffer_create(w->f->context, INT, COUNT, &options, &w->base));
    write_counting(w->f, w->base, 0, 0, FERRY_REST, FIRST);
    kind->make(w);
    assert_true(info_of(w->handle).read_only);
}

static void
buffers_close(struct world *w)
{
    expect_counting(w->f, w->base, 0, 0, FERRY_REST, FIRST);
    DESTROY_BUFFERS(&w->handle, &w->base);
}

static void
expect_same(const ferry_buffer_info *before, ferry_buffer *buffer)
{
    ferry_buffer_info now = info_of(buffer);
    assert_int_equal(now.state, before->state);
    assert_int_equal(now.places_with_copy, before->places_with_copy);
    assert_int_equal(now.places_current, before->places_current);
    assert_int_equal(now.allocated_bytes, before->allocated_bytes);
    assert_int_equal(now.count, before->count);
    assert_int_equal(now.scopes, 0);
    assert_int_equal(now.leases, 0);
    assert_int_equal(now.places_held, 0);
    assert_int_equal(now.handles, before->handles);
    assert_int_equal(now.to_device.copies, before->to_device.copies);
    assert_int_equal(now.to_host.copies, before->to_host.copies);
}

static void
expect_refused(struct world *w, const struct kind *kind, const struct row *row)
{
    ferry_buffer_info before = info_of(w->base), other = info_of(w->other);
    support_clear_error();
    ferry_status status = row->play(w);
    if (status != FERRY_ERROR_INVALID_ARGUMENT ||
        !strstr(ferry_last_error(), "this handle of buffer \"lent\" is read-only"))
        fail_msg("%s %s, through %s: %d: %s", row->call, row->how, kind->name, (int)status,
                 ferry_last_error());
    if (strstr(row->call, "_load") && strncmp(ferry_last_error(), "load: ", 6) != 0)
        fail_msg("%s: the message names another call: %s", row->call, ferry_last_error());
    bool wraps = info_of(w->base).read_only;
    assert_true(!strstr(ferry_last_error(), "wraps read-only memory") == !wraps);
    expect_same(&before, w->base);
    expect_same(&other, w->other);
}

/* The bytes are current at the host, at both places, and at the device alone. */
static void
test_writes_are_refused(void **state)
{
    struct world w;
    world_open(*state, &w);
    for (size_t k = 0; k < LENGTH(kinds); k++) {
        buffers_open(&w, &kinds[k]);
        for (int round = 0; round < 3; round++) {
            if (round == 1)
                touch(w.f, w.handle, 1, FERRY_READ, 0, FERRY_REST);
            else if (round == 2 && !info_of(w.base).borrowed)
                OK(ferry_buffer_evict(w.handle, 0));
            for (size_t i = 0; i < LENGTH(writes); i++)
                expect_refused(&w, &kinds[k], &writes[i]);
        }
        buffers_close(&w);
    }
    world_close(&w);
}

static void
test_other_calls_work(void **state)
{
    struct world w;
    world_open(*state, &w);
    for (size_t k = 0; k < LENGTH(kinds); k++) {
        for (size_t i = 0; i < LENGTH(others); i++) {
            buffers_open(&w, &kinds[k]);
            bool takes_wrap = others[i].play == evict || others[i].play == invalidate;
            ferry_status status = takes_wrap && w.f->coherent && info_of(w.base).borrowed
                                      ? FERRY_OK
                                      : others[i].play(&w);
            if (status != FERRY_OK)
                fail_msg("%s %s, through %s: %s", others[i].call, others[i].how, kinds[k].name,
                         ferry_last_error());
            assert_int_equal(info_of(w.base).scopes, 0);
            OK(ferry_stream_synchronize(w.f->stream));
            buffers_close(&w);
        }
    }
    world_close(&w);
}

/* -- what a read-only view is ------------------------------------------------------------------ */

static void
test_a_view_shows_later_writes(void **state)
{
    fixture *f = *state;
    ferry_buffer *base = make_counting(f, COUNT, 0), *part;
    OK(ferry_buffer_view_read_only(base, INT, AT, PART, &part));
    for (int place = 0; place <= f->places; place++) {
        write_counting(f, base, place, 0, FERRY_REST, 100 * place);
        for (int reader = 0; reader <= f->places; reader++)
            expect_counting(f, part, reader, 0, FERRY_REST, 100 * place + AT);
    }
    assert_false(info_of(base).read_only);
    /* The view keeps the bytes when its owner is gone. */
    ferry_buffer_destroy(&base);
    expect_counting(f, part, 0, 0, FERRY_REST, 100 * f->places + AT);
    ferry_buffer_destroy(&part);
}

/* A typed view through the generated header, and the text that describes it. */
static void
test_typed_views(void **state)
{
    fixture *f = *state;
    ferry_int_buffer base = {make_counting(f, COUNT, 0)}, part, behind = {(void *)f};
    ferry_scope scope;
    const int *values;
    int *out;
    char text[200];
    OK(ferry_int_view_read_only(base, AT, FERRY_REST, &part));
    assert_int_equal(ferry_int_count(part), COUNT - AT);
    OK(ferry_int_read_host(part, &scope, &values));
    assert_int_equal(values[0], AT);
    OK(ferry_scope_close(&scope));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_int_update_host(part, &scope, &out));
    (void)ferry_buffer_describe(part.raw, text, sizeof(text));
    assert_non_null(strstr(text, "copies: host read-only"));
    FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_int_view_read_only(base, 1, COUNT, &behind));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_int_view_read_only(base, 1, 1, NULL));
    FAILS(FERRY_ERROR_WRONG_TYPE, ferry_buffer_view_read_only(base.raw, FLOAT, 0, 1, &behind.raw));
    assert_ptr_equal(behind.raw, f);
    ferry_int_destroy(&part);
    ferry_int_destroy(&base);
}

/* A read-only view opens no scope, so it holds no owner up; an open write of the owner is BUSY. */
static void
test_a_view_conflicts_as_others_do(void **state)
{
    fixture *f = *state;
    ferry_buffer *base = make_counting(f, COUNT, 0), *part;
    ferry_scope write, read;
    void *out;
    OK(ferry_buffer_view_read_only(base, INT, AT, PART, &part));
    OK(ferry_buffer_open_host(base, INT, FERRY_UPDATE, 0, FERRY_REST, &write, &out));
    FAILS(FERRY_ERROR_BUSY,
          ferry_buffer_open_host(part, INT, FERRY_READ, 0, FERRY_REST, &read, &out));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT,
          ferry_buffer_open_host(part, INT, FERRY_UPDATE, 0, FERRY_REST, &read, &out));
    OK(ferry_scope_close(&write));
    OK(ferry_buffer_open_host(part, INT, FERRY_READ, 0, FERRY_REST, &read, &out));
    FAILS(FERRY_ERROR_BUSY,
          ferry_buffer_open_host(base, INT, FERRY_UPDATE, 0, FERRY_REST, &write, &out));
    OK(ferry_scope_close(&read));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_resize(base, COUNT + 1));
    DESTROY_BUFFERS(&part, &base);
}

/* The last handle of a wrap is a read-only view. Its end ends the wrap, as that of any handle. */
static void
test_the_last_view_of_a_wrap(void **state)
{
    fixture *f = *state;
    int memory[COUNT] = {0};
    ferry_buffer *base, *part;
    OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, NULL, &base));
    OK(ferry_buffer_view_read_only(base, INT, AT, PART, &part));
    write_counting(f, base, 1, 0, FERRY_REST, FIRST);
    ferry_buffer_destroy(&base);
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_unwrap(&part, NULL));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_abandon(&part));
    ferry_buffer_destroy(&part);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(memory[i], FIRST + i);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_writes_are_refused),
        TEST(test_other_calls_work),
        TEST(test_a_view_shows_later_writes),
        TEST(test_typed_views),
        TEST(test_a_view_conflicts_as_others_do),
        TEST(test_the_last_view_of_a_wrap),
    };
    return cmocka_run_group_tests_name("read-only", tests, files_setup, files_teardown);
}
