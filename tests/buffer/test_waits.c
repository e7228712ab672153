/* SPDX-License-Identifier: MIT */
/*
 * Plays a late failure into each public call that waits: a kernel was launched, and its host
 * function fails while or before the call waits for it. The table says for each call whether it
 * reports the failure. No call may return lost bytes as good ones, and none may make them current
 * without writing them. The lint `waits` compares the table with the headers.
 *
 * Each call is played with every status that a host function can return. Some statuses have a
 * meaning inside the library too, and a call must not confuse the two.
 */
#include <unistd.h>

#include "src/exchange/exchange.h"

#include "tests/buffer/files.h"
#include "tests/buffer/work.h"

enum { COUNT = 100, HANGS_AFTER_S = 150 };

struct world {
    fixture *f;
    ferry_kernel *kernel; /* overwrites its argument, and then fails */
    ferry_stream *stream;
    ferry_buffer *buffer; /* the bytes that the kernel should have written */
    ferry_buffer *other;
    const char *file;
};

/* What the kernel returns, and how long it takes. */
static atomic_int kernel_status;
static atomic_uint kernel_us;

#define REASON "cell 7 is colder than 0 K"

static ferry_status
fails_late(const ferry_call *call, void *user)
{
    (void)user;
    usleep(atomic_load(&kernel_us));
    ferry_call_fail(call, REASON);
    return (ferry_status)atomic_load(&kernel_status);
}

/* -- calls that read ------------------------------------------------------------------------- */

static ferry_status
sync_to_device(struct world *w)
{
    return ferry_buffer_sync_to(w->buffer, 0, FERRY_REST, 1, NULL);
}

static ferry_status
sync_to_host(struct world *w)
{
    return ferry_buffer_sync_to(w->buffer, 0, FERRY_REST, 0, NULL);
}

/* Waits for the event of an asynchronous call that returned `status`. */
static ferry_status
wait_for(ferry_status status, ferry_event **event)
{
    if (status == FERRY_OK) {
        status = ferry_event_synchronize(*event);
        ferry_event_destroy(event);
    }
    return status;
}

static ferry_status
sync_later(struct world *w)
{
    ferry_event *event;
    return wait_for(ferry_buffer_sync_to_async(w->buffer, 0, FERRY_REST, 1, NULL, &event), &event);
}

static ferry_status
open_at_host(struct world *w, ferry_access access)
{
    ferry_scope scope;
    void *pointer;
    ferry_status status =
        ferry_buffer_open_host(w->buffer, INT, access, 0, FERRY_REST, &scope, &pointer);
    if (status == FERRY_OK)
        OK(ferry_scope_close(&scope));
    return status;
}

static ferry_status
read_at_host(struct world *w)
{
    return open_at_host(w, FERRY_READ);
}

static ferry_status
update_at_host(struct world *w)
{
    return open_at_host(w, FERRY_UPDATE);
}

static ferry_status
open_all_at_host(struct world *w)
{
    ferry_scope scope;
    ferry_argument argument =
        ferry_argument_with(ferry_buffer_argument(w->buffer, INT, 0, FERRY_REST), FERRY_READ);
    ferry_status status = ferry_scope_open_all(&argument, 1, 0, NULL, &scope, NULL);
    if (status == FERRY_OK)
        OK(ferry_scope_close(&scope));
    return status;
}

static ferry_status
lend(struct world *w, int place, ferry_access access)
{
    ferry_lease *lease;
    ferry_lease_options options = {.access = access, .place = place};
    void *pointer;
    ferry_status status = ferry_lease_open(w->buffer, INT, &options, &lease, &pointer);
    if (status == FERRY_OK)
        ferry_lease_destroy(&lease);
    return status;
}

static ferry_status
lend_at_host(struct world *w)
{
    return lend(w, 0, FERRY_READ);
}

static ferry_status
lend_to_read(struct world *w)
{
    return lend(w, 1, FERRY_READ);
}

static ferry_status
lend_to_update(struct world *w)
{
    return lend(w, 1, FERRY_UPDATE);
}

/* Opens a scope on the kernel's stream, waits for its bytes, and abandons it. */
static ferry_status
wait_in(struct world *w, ferry_access access)
{
    ferry_scope scope;
    void *pointer;
    ferry_status status = ferry_buffer_open_device(w->buffer, INT, access, 0, FERRY_REST, w->stream,
                                                   &scope, &pointer);
    if (status != FERRY_OK)
        return status;
    status = ferry_scope_wait(&scope);
    OK(ferry_scope_abandon(&scope));
    return status;
}

static ferry_status
wait_in_read(struct world *w)
{
    return wait_in(w, FERRY_READ);
}

static ferry_status
wait_in_update(struct world *w)
{
    return wait_in(w, FERRY_UPDATE);
}

/* The kernel that fails uses the bytes of a scope that is still open. */
static ferry_status
wait_in_overwrite(struct world *w)
{
    ferry_scope scope;
    void *pointer;
    ferry_argument argument = ferry_buffer_argument(w->buffer, INT, 0, COUNT);
    OK(ferry_buffer_open_device(w->buffer, INT, FERRY_OVERWRITE, 0, FERRY_REST, w->stream, &scope,
                                &pointer));
    OK(ferry_kernel_launch(w->kernel, ferry_grid_for(1, 0), w->stream, &argument, 1));
    ferry_status status = ferry_scope_wait(&scope);
    OK(ferry_scope_abandon(&scope));
    return status;
}

static ferry_status
export_arrow(struct world *w)
{
    ferry_lease *lease;
    ferry_lease_options options = {.access = FERRY_READ, .stream = w->stream};
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    void *pointer;
    ferry_status status = ferry_lease_open(w->buffer, INT, &options, &lease, &pointer);
    if (status != FERRY_OK)
        return status;
    status = ferry_lease_export_arrow(lease, &array, &schema);
    if (status == FERRY_OK) {
        array.array.release(&array.array);
        schema.release(&schema);
    }
    ferry_lease_destroy(&lease);
    return status;
}

static ferry_status
copy_to_memory(struct world *w)
{
    int values[COUNT];
    return ferry_buffer_copy_to(w->buffer, INT, 0, FERRY_REST, values, NULL);
}

static ferry_status
copy_to_memory_later(struct world *w)
{
    static int values[COUNT];
    ferry_event *event;
    return wait_for(ferry_buffer_copy_to_async(w->buffer, INT, 0, FERRY_REST, values, NULL, &event),
                    &event);
}

static ferry_status
copy_to_buffer(struct world *w)
{
    return ferry_buffer_copy(w->other, INT, 0, w->buffer, 0, FERRY_REST, NULL);
}

static ferry_status
copy_to_buffer_later(struct world *w)
{
    ferry_event *event;
    return wait_for(
        ferry_buffer_copy_async(w->other, INT, 0, w->buffer, 0, FERRY_REST, NULL, &event), &event);
}

static ferry_status
copy_rows_to_memory(struct world *w)
{
    int values[COUNT];
    ferry_copy_region region = {
        .target = {.memory = values, .element = INT, .row_pitch = COUNT / 2},
        .source = {.buffer = w->buffer, .element = INT, .row_pitch = 20},
        .count = 10,
        .rows = 2};
    return ferry_copy(&region, 1, NULL);
}

static ferry_status
store_to_file(struct world *w)
{
    return ferry_buffer_store(w->buffer, INT, 0, FERRY_REST, w->file, 0, NULL);
}

static ferry_status
store_to_file_later(struct world *w)
{
    ferry_event *event;
    return wait_for(
        ferry_buffer_store_async(w->buffer, INT, 0, FERRY_REST, w->file, 0, NULL, &event), &event);
}

static ferry_status
synchronize_stream(struct world *w)
{
    return ferry_stream_synchronize(w->stream);
}

/* -- wraps ------------------------------------------------------------------------------------- */

/* Launches the kernel on a wrap, and unwraps it. The wrap stays after a failure. */
static ferry_status
unwrap(struct world *w, ferry_buffer *wrap)
{
    ferry_argument argument = ferry_buffer_argument(wrap, INT, 0, FERRY_REST);
    OK(ferry_kernel_launch(w->kernel, ferry_grid_for(1, 0), w->stream, &argument, 1));
    ferry_status status = ferry_buffer_unwrap(&wrap, NULL);
    if (wrap)
        OK(ferry_buffer_abandon(&wrap));
    return status;
}

static ferry_status
unwrap_host(struct world *w)
{
    int values[COUNT] = {0};
    ferry_buffer *wrap;
    OK(ferry_buffer_wrap_host(w->f->context, INT, COUNT, values, NULL, &wrap));
    return unwrap(w, wrap);
}

static ferry_status
unwrap_device(struct world *w)
{
    void *memory = device_alloc(w->f, 1, COUNT * sizeof(int));
    ferry_buffer *wrap;
    OK(ferry_buffer_wrap_device(w->f->context, INT, COUNT, w->stream, memory, NULL, &wrap));
    ferry_status status = unwrap(w, wrap);
    device_free(w->f, 1, memory);
    return status;
}

/* -- shared memory ----------------------------------------------------------------------------- */

/* Launches the kernel on a shared buffer, and releases it. It is still acquired after a failure. */
static ferry_status
release_shared(struct world *w, int place)
{
    const ferry_buffer_options options = {.memory = FERRY_MEMORY_SHARED, .place = place};
    ferry_buffer *shared;
    OK(ferry_buffer_create(w->f->context, INT, COUNT, &options, &shared));
    ferry_argument argument = ferry_buffer_argument(shared, INT, 0, FERRY_REST);
    OK(ferry_kernel_launch(w->kernel, ferry_grid_for(1, 0), w->stream, &argument, 1));
    ferry_status status = ferry_buffer_release_shared(shared, NULL);
    assert_int_equal(info_of(shared).away, status == FERRY_OK);
    if (status != FERRY_OK)
        OK(ferry_buffer_discard(shared, 0, FERRY_REST));
    ferry_buffer_destroy(&shared);
    return status;
}

static ferry_status
release_shared_host(struct world *w)
{
    return release_shared(w, 0);
}

static ferry_status
release_shared_device(struct world *w)
{
    const bool shares = device_of(w->f, 1)->capabilities & FERRY_CAN_SHARE;
    return release_shared(w, shares ? 1 : 0);
}

/* -- calls that do not need the bytes ---------------------------------------------------------- */

/* The device has the only replica, so that afterwards no place has one. */
static ferry_status
evict_device(struct world *w)
{
    ferry_status status = ferry_buffer_evict(w->buffer, 1);
    if (!w->f->coherent) {
        assert_int_equal(info_of(w->buffer).places_with_copy, 0);
        STATE(w->buffer, HOST_ONLY);
    }
    return status;
}

static ferry_status
invalidate_device(struct world *w)
{
    return ferry_buffer_invalidate(w->buffer, 0, FERRY_REST, 1);
}

static ferry_status
wait_idle(struct world *w)
{
    return ferry_buffer_wait_idle(w->buffer, 1);
}

static ferry_status
wait_for_scopes(struct world *w)
{
    return ferry_buffer_wait_available(w->buffer, FERRY_UPDATE, 0);
}

/* A prefetch only logs its failure, on the worker thread that also runs the call after it. */
static ferry_status
prefetch_to_device(struct world *w)
{
    ferry_event *event;
    ferry_status status = ferry_buffer_prefetch(w->buffer, 0, FERRY_REST, 1, w->stream);
    OK(wait_for(ferry_buffer_sync_to_async(w->other, 0, FERRY_REST, 1, NULL, &event), &event));
    w->f->errors = 0;
    return status;
}

static ferry_status
reserve_host(struct world *w)
{
    return ferry_buffer_reserve(w->buffer, 0);
}

static ferry_status
lengthen(struct world *w)
{
    return ferry_buffer_resize(w->buffer, COUNT + 1);
}

static ferry_status
wait_for_recorded_event(struct world *w)
{
    ferry_event *event;
    return wait_for(ferry_stream_record(w->stream, 0, &event), &event);
}

static ferry_status
view_all(struct world *w)
{
    ferry_buffer *view = NULL;
    ferry_status status = ferry_buffer_view(w->buffer, INT, 0, FERRY_REST, &view);
    ferry_buffer_destroy(&view);
    return status;
}

static ferry_status
view_all_read_only(struct world *w)
{
    ferry_buffer *view = NULL;
    ferry_status status = ferry_buffer_view_read_only(w->buffer, INT, 0, FERRY_REST, &view);
    ferry_buffer_destroy(&view);
    return status;
}

/* -- calls that replace the bytes -------------------------------------------------------------- */

static ferry_status
copy_from_memory(struct world *w)
{
    int values[COUNT] = {0};
    return ferry_buffer_copy_from(w->buffer, INT, 0, FERRY_REST, values, NULL);
}

static ferry_status
fill(struct world *w)
{
    int value = 7;
    return ferry_buffer_fill(w->buffer, INT, 0, FERRY_REST, &value, NULL);
}

static ferry_status
copy_from_memory_later(struct world *w)
{
    static const int values[COUNT] = {0};
    ferry_event *event;
    return wait_for(
        ferry_buffer_copy_from_async(w->buffer, INT, 0, FERRY_REST, values, NULL, &event), &event);
}

static ferry_status
fill_later(struct world *w)
{
    int value = 7;
    ferry_event *event;
    return wait_for(ferry_buffer_fill_async(w->buffer, INT, 0, FERRY_REST, &value, NULL, &event),
                    &event);
}

static ferry_status
discard(struct world *w)
{
    return ferry_buffer_discard(w->buffer, 0, FERRY_REST);
}

static ferry_status
overwrite_at_host(struct world *w)
{
    return open_at_host(w, FERRY_OVERWRITE);
}

static ferry_status
lend_to_overwrite(struct world *w)
{
    return lend(w, 1, FERRY_OVERWRITE);
}

static ferry_status
load_from_file(struct world *w)
{
    int values[COUNT] = {0};
    write_file(w->file, values, sizeof(values));
    return ferry_buffer_load(w->buffer, INT, 0, FERRY_REST, w->file, 0, NULL);
}

static ferry_status
load_from_file_later(struct world *w)
{
    int values[COUNT] = {0};
    ferry_event *event;
    write_file(w->file, values, sizeof(values));
    return wait_for(
        ferry_buffer_load_async(w->buffer, INT, 0, FERRY_REST, w->file, 0, NULL, &event), &event);
}

static ferry_status
mark_rewritten(struct world *w)
{
    return ferry_buffer_mark_dirty(w->buffer, 0, FERRY_REST, 1, NULL);
}

/* -- the table --------------------------------------------------------------------------------- */

enum effect {
    REPORTS, /* the call returns the failure, and the bytes stay lost */
    KEEPS,   /* the call promises nothing about the bytes: it succeeds, and they stay lost */
    REPLACES /* the call succeeds, and the bytes have a value again */
};

static const struct row {
    const char *call, *how;
    ferry_status (*play)(struct world *w);
    enum effect effect;
} rows[] = {
    {"ferry_buffer_sync_to", "to the device", sync_to_device, REPORTS},
    {"ferry_buffer_sync_to", "to the host", sync_to_host, REPORTS},
    {"ferry_buffer_sync_to_async", "", sync_later, REPORTS},
    {"ferry_buffer_copy_to_async", "", copy_to_memory_later, REPORTS},
    {"ferry_event_synchronize", "of a copy", copy_to_buffer_later, REPORTS},
    {"ferry_buffer_copy_async", "", copy_to_buffer_later, REPORTS},
    {"ferry_buffer_store_async", "", store_to_file_later, REPORTS},
    {"ferry_buffer_open_host", "READ", read_at_host, REPORTS},
    {"ferry_buffer_open_host", "UPDATE", update_at_host, REPORTS},
    {"ferry_scope_open_all", "at the host", open_all_at_host, REPORTS},
    {"ferry_lease_open", "at the host", lend_at_host, REPORTS},
    {"ferry_lease_open", "READ without a stream", lend_to_read, REPORTS},
    {"ferry_lease_open", "UPDATE without a stream", lend_to_update, REPORTS},
    {"ferry_scope_wait", "in a READ scope", wait_in_read, REPORTS},
    {"ferry_scope_wait", "in an UPDATE scope", wait_in_update, REPORTS},
    {"ferry_scope_wait", "in an OVERWRITE scope that a kernel uses", wait_in_overwrite, REPORTS},
    {"ferry_buffer_open_device", "and waiting", wait_in_read, REPORTS},
    {"ferry_lease_export_arrow", "on a stream", export_arrow, REPORTS},
    {"ferry_buffer_unwrap", "host memory", unwrap_host, REPORTS},
    {"ferry_buffer_unwrap", "device memory", unwrap_device, REPORTS},
    {"ferry_buffer_release_shared", "host memory", release_shared_host, REPORTS},
    {"ferry_buffer_release_shared", "device memory", release_shared_device, REPORTS},
    {"ferry_buffer_copy_to", "", copy_to_memory, REPORTS},
    {"ferry_buffer_copy", "", copy_to_buffer, REPORTS},
    {"ferry_copy", "rows", copy_rows_to_memory, REPORTS},
    {"ferry_buffer_store", "", store_to_file, REPORTS},
    {"ferry_stream_synchronize", "", synchronize_stream, REPORTS},
    {"ferry_buffer_evict", "", evict_device, KEEPS},
    {"ferry_buffer_invalidate", "", invalidate_device, KEEPS},
    {"ferry_buffer_wait_idle", "", wait_idle, KEEPS},
    {"ferry_buffer_wait_available", "", wait_for_scopes, KEEPS},
    {"ferry_buffer_prefetch", "to the device", prefetch_to_device, KEEPS},
    {"ferry_buffer_reserve", "", reserve_host, KEEPS},
    {"ferry_buffer_resize", "", lengthen, KEEPS},
    {"ferry_event_synchronize", "of a stream", wait_for_recorded_event, KEEPS},
    {"ferry_buffer_view", "", view_all, KEEPS},
    {"ferry_buffer_view_read_only", "", view_all_read_only, KEEPS},
    {"ferry_buffer_copy_from", "", copy_from_memory, REPLACES},
    {"ferry_buffer_copy_from_async", "", copy_from_memory_later, REPLACES},
    {"ferry_buffer_fill", "", fill, REPLACES},
    {"ferry_buffer_fill_async", "", fill_later, REPLACES},
    {"ferry_buffer_discard", "", discard, REPLACES},
    {"ferry_buffer_open_host", "OVERWRITE", overwrite_at_host, REPLACES},
    {"ferry_lease_open", "OVERWRITE without a stream", lend_to_overwrite, REPLACES},
    {"ferry_buffer_load", "", load_from_file, REPLACES},
    {"ferry_buffer_load_async", "", load_from_file_later, REPLACES},
    {"ferry_buffer_mark_dirty", "", mark_rewritten, REPLACES},
};

static void
expect_status(const struct row *row, ferry_status expected, ferry_status got)
{
    if (got != expected)
        fail_msg("%s %s, after a kernel failed with %d: %d instead of %d: %s", row->call, row->how,
                 atomic_load(&kernel_status), (int)got, (int)expected, ferry_last_error());
    if (got != FERRY_OK && !strstr(ferry_last_error(), REASON))
        fail_msg("%s %s: the message does not say why: %s", row->call, row->how,
                 ferry_last_error());
}

/* Checks that no later call takes the lost bytes for good ones. */
static void
expect_lost(struct world *w, const struct row *row)
{
    int values[COUNT];
    OK(ferry_buffer_wait_idle(w->buffer, 1));
    ferry_status status = ferry_buffer_copy_to(w->buffer, INT, 0, COUNT, values, NULL);
    expect_status(row, (ferry_status)atomic_load(&kernel_status), status);
    for (int place = 0; place <= w->f->places; place++)
        assert_false(ferry_buffer_is_current(w->buffer, place));
}

static void
play(struct world *w, const struct row *row, int status)
{
    atomic_store(&kernel_status, status);
    w->buffer = make_ints(w->f, COUNT);
    ferry_argument argument = ferry_buffer_argument(w->buffer, INT, 0, COUNT);
    OK(ferry_kernel_launch(w->kernel, ferry_grid_for(1, 0), w->stream, &argument, 1));
    bool reports = row->effect == REPORTS;
    expect_status(row, reports ? (ferry_status)status : FERRY_OK, row->play(w));
    if (row->effect == REPLACES)
        touch(w->f, w->buffer, 0, FERRY_READ, 0, COUNT);
    else
        expect_lost(w, row);
    (void)!ferry_stream_synchronize(w->stream);
    ferry_buffer_destroy(&w->buffer);
}

/* -- tests ------------------------------------------------------------------------------------- */

static bool
world_open(fixture *f, struct world *w)
{
    ferry_parameter parameter = {.element = INT, .access = FERRY_OVERWRITE};
    ferry_kernel_source source = {.name = "fails_late",
                                  .host_function = fails_late,
                                  .parameters = &parameter,
                                  .parameter_count = 1};
    *w = (struct world){.f = f};
    if (!(device_of(f, 1)->capabilities & FERRY_CAN_RUN_HOST_FUNCTION))
        return false;
    alarm(HANGS_AFTER_S);
    w->file = path_of("waits");
    OK(ferry_kernel_create(f->context, &source, &w->kernel));
    w->stream = make_stream(f, 1);
    w->other = make_ints(f, COUNT);
    return true;
}

static void
world_close(struct world *w)
{
    ferry_buffer_destroy(&w->other);
    ferry_stream_destroy(&w->stream);
    ferry_kernel_destroy(&w->kernel);
    alarm(0);
}

static void
test_a_call_that_waits_asks_afterwards(void **state)
{
    struct world w;
    if (!world_open(*state, &w))
        skip();
    for (size_t i = 0; i < LENGTH(rows); i++) {
        /* Long enough that the call waits, then so short that the kernel may have failed before. */
        for (unsigned us = 20000; us > 0; us = us == 20000 ? 50 : 0) {
            atomic_store(&kernel_us, us);
            play(&w, &rows[i], FERRY_ERROR_COMPILE);
        }
    }
    world_close(&w);
}

/* The thread of an asynchronous call's caller does not wait for kernels. */
static void
test_an_asynchronous_call_returns_before_the_kernel(void **state)
{
    fixture *f = *state;
    work k;
    ferry_event *event;
    int values[COUNT];
    if (!runs_apart(f))
        skip();
    alarm(HANGS_AFTER_S);
    work_open(f, &k);
    ferry_buffer *buffer = make_ints(f, COUNT);
    work_gate(false);
    OK(launch_fill(&k, f->stream, buffer, 0, COUNT, 7));
    OK(ferry_buffer_copy_to_async(buffer, INT, 0, FERRY_REST, values, NULL, &event));
    work_gate(true);
    OK(wait_for(FERRY_OK, &event));
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(values[i], 7);
    ferry_buffer_destroy(&buffer);
    work_close(&k);
    alarm(0);
}

static void
test_no_status_of_a_callback_has_a_meaning_inside(void **state)
{
    static const int nonsense[] = {-1, 1000, INT32_MIN};
    struct world w;
    if (!world_open(*state, &w))
        skip();
    atomic_store(&kernel_us, 0);
    for (size_t i = 0; i < LENGTH(rows); i++) {
        for (int status = 1; status <= FERRY_ERROR_CANCELLED + 1; status++)
            play(&w, &rows[i], status);
        for (size_t j = 0; j < LENGTH(nonsense); j++)
            play(&w, &rows[i], nonsense[j]);
    }
    world_close(&w);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_call_that_waits_asks_afterwards),
        TEST(test_an_asynchronous_call_returns_before_the_kernel),
        TEST(test_no_status_of_a_callback_has_a_meaning_inside),
    };
    return cmocka_run_group_tests_name("waits", tests, files_setup, files_teardown);
}
