/* SPDX-License-Identifier: MIT */
/* Tests that FERRY_SCOPED destroys its variables on every path out of their block. */
#include "support.h"

enum { COUNT = 16 };

static bool
is_busy(ferry_float_buffer buffer)
{
    return ferry_float_wait_available(buffer, FERRY_UPDATE, 0) == FERRY_ERROR_BUSY;
}

/* Fails after a write when `fail` is set. */
static ferry_status
write_first(ferry_float_buffer buffer, float value, bool fail)
{
    FERRY_SCOPED(ferry_scope_abandon) ferry_scope scope = {0};
    float *values;
    ferry_status status = ferry_float_update_host(buffer, &scope, &values);
    if (status != FERRY_OK)
        return status;
    values[0] = value;
    if (fail)
        return FERRY_ERROR_CANCELLED;
    return ferry_scope_close(&scope);
}

static float
first_of(ferry_float_buffer buffer)
{
    float value;
    OK(ferry_float_copy_to(buffer, 0, 1, &value, NULL));
    return value;
}

static void
a_write_that_ends_early_is_abandoned(void **state)
{
    fixture *f = *state;
    ferry_float_buffer buffer;
    OK(ferry_float_create(f->context, COUNT, NULL, &buffer));
    OK(write_first(buffer, 1.0f, false));
    OK(ferry_float_sync_to(buffer, 1, NULL));
    assert_int_equal(write_first(buffer, 2.0f, true), FERRY_ERROR_CANCELLED);
    assert_false(is_busy(buffer));
    if (!f->coherent) /* in shared memory, the abandoned write has overwritten the old value */
        assert_true(first_of(buffer) == 1.0f);
    OK(write_first(buffer, 3.0f, false));
    assert_true(first_of(buffer) == 3.0f);
    ferry_float_destroy(&buffer);
}

static float
read_first(ferry_float_buffer buffer, bool close_first)
{
    FERRY_SCOPED(ferry_scope_close) ferry_scope scope = {0};
    const float *values;
    OK(ferry_float_read_host(buffer, &scope, &values));
    assert_true(is_busy(buffer));
    float first = values[0];
    if (close_first)
        OK(ferry_scope_close(&scope));
    return first;
}

static void
a_read_ends_with_its_block(void **state)
{
    fixture *f = *state;
    ferry_float_buffer buffer;
    OK(ferry_float_create(f->context, COUNT, NULL, &buffer));
    OK(write_first(buffer, 4.0f, false));
    assert_true(read_first(buffer, false) == 4.0f && !is_busy(buffer));
    assert_true(read_first(buffer, true) == 4.0f && !is_busy(buffer));
    ferry_float_destroy(&buffer);
}

/* Makes objects that FERRY_SCOPED destroys: a context, a stream, an event, buffers and a lease.
 * Some objects are empty, some are destroyed early, and the caller keeps one object. */
static ferry_status
make_objects(fixture *f, ferry_float_buffer *out_kept)
{
    FERRY_SCOPED(ferry_context_destroy) ferry_context *context = ferry_context_retain(f->context);
    FERRY_SCOPED(ferry_stream_destroy) ferry_stream *stream = NULL;
    FERRY_SCOPED(ferry_event_destroy) ferry_event *event = NULL;
    FERRY_SCOPED(ferry_float_destroy) ferry_float_buffer first = {0}, kept = {0}, empty = {0};
    FERRY_SCOPED(ferry_buffer_destroy) ferry_buffer *untyped = NULL;
    FERRY_SCOPED(ferry_lease_destroy) ferry_lease *lease = NULL;
    const ferry_lease_options options = {.access = FERRY_UPDATE};
    void *pointer;

    ferry_status status;
    FERRY_TRY(status, fail, ferry_stream_create(context, 1, &stream));
    FERRY_TRY(status, fail, ferry_stream_record(stream, 0, &event));
    FERRY_TRY(status, fail, ferry_float_create(context, COUNT, NULL, &first));
    FERRY_TRY(status, fail, ferry_float_create(context, COUNT, NULL, &kept));
    FERRY_TRY(status, fail,
              ferry_buffer_create(context, ferry_float_element(), COUNT, NULL, &untyped));
    FERRY_TRY(status, fail,
              ferry_lease_open(first.raw, ferry_float_element(), &options, &lease, &pointer));
    assert_true(is_busy(first) && empty.raw == NULL);
    *out_kept = kept;
    kept.raw = NULL;
fail:
    return status;
}

static bool
count_buffer(const ferry_buffer_info *info, void *user)
{
    (void)info;
    ++*(size_t *)user;
    return true;
}

static void
objects_end_with_their_block(void **state)
{
    fixture *f = *state;
    ferry_float_buffer kept = {0};
    size_t alive = 0;
    OK(make_objects(f, &kept));
    assert_int_equal(ferry_float_count(kept), COUNT);
    OK(ferry_context_for_each_buffer(f->context, count_buffer, &alive));
    assert_int_equal(alive, 1);
    ferry_float_destroy(&kept);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_write_that_ends_early_is_abandoned),
        TEST(a_read_ends_with_its_block),
        TEST(objects_end_with_their_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
