/* SPDX-License-Identifier: MIT */
/* Tests resizes of a buffer while other threads use the buffer. Each call of these threads must see
 * either the old or the new length. */
#include "tests/buffer/work.h"

#include <pthread.h>
#include <stdatomic.h>

#include "src/store/store.h"
#include "tests/support/copies.h"

enum { SHORT = 64, LONG = 50000, BYTES = LONG * 4, ROUND_NS = 60000000 };

struct race {
    fixture *f;
    ferry_buffer *buffer;
    int *memory; /* array of LONG elements */
    atomic_bool stop;
    /* Number of resizes that succeeded; number of resizes that failed with a status other than
     * FERRY_ERROR_INVALID_STATE and FERRY_ERROR_BUSY. */
    atomic_uint resizes, refusals;
};

static void *
resize_until_stopped(void *user)
{
    struct race *race = user;
    for (size_t count = SHORT; !atomic_load(&race->stop); count = count == SHORT ? LONG : SHORT) {
        ferry_status status = ferry_buffer_resize(race->buffer, count);
        atomic_fetch_add(status == FERRY_OK ? &race->resizes : &race->refusals,
                         status == FERRY_OK ||
                             (status != FERRY_ERROR_INVALID_STATE && status != FERRY_ERROR_BUSY));
    }
    return NULL;
}

/* Checks that every replica is at least as long as its buffer. Otherwise a write to the whole
 * buffer would overrun the replica. */
static void
expect_room(ferry_buffer *buffer)
{
    ferryi_store *store = buffer->store;
    bool fits = true;
    ferryi_store_lock(store);
    for (int place = 0; place <= store->context->place_count; place++)
        fits = fits && (!store->copies[place].block ||
                        store->copies[place].block->requested >= store->map.bytes);
    ferryi_store_unlock(store);
    assert_true(fits);
}

/* Checks the status of a call with an explicit range. The range may be too long, because a
 * different thread may have made the buffer shorter. */
static void
expect_done_or_out_of_range(ferry_status status)
{
    if (status != FERRY_OK)
        assert_string_equal(ferry_status_name(status), ferry_status_name(FERRY_ERROR_OUT_OF_RANGE));
}

static void
play(struct race *race, void (*call)(struct race *race))
{
    pthread_t thread;
    race->stop = false;
    race->resizes = race->refusals = 0;
    assert_int_equal(pthread_create(&thread, NULL, resize_until_stopped, race), 0);
    for (uint64_t end = ferryi_now_ns() + ROUND_NS; ferryi_now_ns() < end || race->resizes == 0;) {
        call(race);
        expect_room(race->buffer);
    }
    race->stop = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(race->refusals, 0);
}

static void
play_all(void **state, void (*const *calls)(struct race *race), size_t count)
{
    fixture *f = *state;
    struct race race = {.f = f, .buffer = make_ints(f, LONG), .memory = calloc(LONG, 4)};
    for (size_t i = 0; i < count; i++)
        play(&race, calls[i]);
    free(race.memory);
    DESTROY_BUFFERS(&race.buffer);
}

#define PLAY(...)                                                                                  \
    play_all(state, (void (*const[])(struct race *)){__VA_ARGS__},                                 \
             LENGTH(((void (*const[])(struct race *)){__VA_ARGS__})))

/* -- questions --------------------------------------------------------------------------------- */

static void
ask_state(struct race *race)
{
    (void)ferry_buffer_state(race->buffer);
}
static void
ask_current(struct race *race)
{
    (void)ferry_buffer_is_current(race->buffer, 1);
}
static void
ask_pinned(struct race *race)
{
    (void)ferry_buffer_is_page_locked(race->buffer);
}

static void
ask_info(struct race *race)
{
    ferry_buffer_info info = info_of(race->buffer);
    assert_true(info.count == SHORT || info.count == LONG);
    assert_int_equal(info.bytes, info.count * 4);
}

static void
test_questions(void **state)
{
    PLAY(ask_state, ask_current, ask_pinned, ask_info);
}

/* -- calls on the whole buffer, which must succeed at every length ----------------------------- */

static void
sync_whole(struct race *race)
{
    OK(ferry_buffer_sync_to(race->buffer, 0, FERRY_REST, 1, NULL));
}
static void
discard_whole(struct race *race)
{
    OK(ferry_buffer_discard(race->buffer, 0, FERRY_REST));
}
static void
invalidate_whole(struct race *race)
{
    OK(ferry_buffer_invalidate(race->buffer, 0, FERRY_REST, 0));
}
static void
evict_whole(struct race *race)
{
    OK(ferry_buffer_evict(race->buffer, 1));
}
static void
prefetch_whole(struct race *race)
{
    OK(ferry_buffer_prefetch(race->buffer, 0, FERRY_REST, 1, race->f->stream));
}
static void
reserve_whole(struct race *race)
{
    OK(ferry_buffer_reserve(race->buffer, 0));
}

static void
fill_whole(struct race *race)
{
    int value = 7;
    OK(ferry_buffer_fill(race->buffer, INT, 0, FERRY_REST, &value, NULL));
}

static void
use_whole(struct race *race)
{
    static const ferry_access accesses[] = {FERRY_READ, FERRY_UPDATE, FERRY_OVERWRITE};
    for (size_t i = 0; i < LENGTH(accesses); i++) {
        ferry_scope scope;
        void *memory;
        OK(ferry_buffer_open_host(race->buffer, INT, accesses[i], 0, FERRY_REST, &scope, &memory));
        assert_non_null(memory);
        /* The buffer cannot be resized while this scope is open, so its size does not change here.
         */
        if (accesses[i] == FERRY_OVERWRITE)
            memset(memory, 1, ferry_buffer_bytes(race->buffer));
        OK(ferry_scope_close(&scope));
    }
}

static void
use_whole_at_the_device(struct race *race)
{
    ferry_scope scope;
    void *memory;
    OK(ferry_buffer_open_device(race->buffer, INT, FERRY_UPDATE, 0, FERRY_REST, race->f->stream,
                                &scope, &memory));
    assert_non_null(memory);
    OK(ferry_scope_close(&scope));
}

static void
mark_whole(struct race *race)
{
    ferry_status status = ferry_buffer_mark_dirty(race->buffer, 0, FERRY_REST, 0, NULL);
    if (status != FERRY_OK)
        assert_string_equal(ferry_status_name(status), "FERRY_ERROR_CONFLICT");
}

static void
test_whole_buffers(void **state)
{
    PLAY(sync_whole, discard_whole, invalidate_whole, evict_whole, prefetch_whole, reserve_whole,
         fill_whole, use_whole, use_whole_at_the_device, mark_whole);
}

/* -- calls that name a range ------------------------------------------------------------------- */

static void
copy_from_range(struct race *race)
{
    expect_done_or_out_of_range(
        ferry_buffer_copy_from(race->buffer, INT, 0, LONG, race->memory, NULL));
}
static void
copy_to_range(struct race *race)
{
    expect_done_or_out_of_range(
        ferry_buffer_copy_to(race->buffer, INT, 0, LONG, race->memory, NULL));
}

static void
copy_within(struct race *race)
{
    expect_done_or_out_of_range(
        ferry_buffer_copy(race->buffer, INT, 0, race->buffer, SHORT, LONG - SHORT, NULL));
}

static void
copy_in_the_background(struct race *race)
{
    ferry_event *event;
    ferry_status status =
        ferry_buffer_copy_from_async(race->buffer, INT, 0, LONG, race->memory, ON(NULL), &event);
    expect_done_or_out_of_range(status);
    if (status != FERRY_OK)
        return;
    OK(ferry_event_synchronize(event));
    ferry_event_destroy(&event);
}

static void
convert_range(struct race *race)
{
    const ferry_conversion conversion = {.from = FLOAT, .to = INT};
    expect_done_or_out_of_range(copy_from_converted(race->buffer, &conversion, 0, LONG,
                                                    race->memory, FERRY_CONVERT_SATURATE, NULL));
}

/* Opens a scope while other threads resize the buffer. Either the open fails, or its pointer is
 * valid for the whole range. */
static void
open_the_tail(struct race *race)
{
    ferry_scope scope;
    void *memory = NULL;
    ferry_status status = ferry_buffer_open_host(race->buffer, INT, FERRY_OVERWRITE, LONG / 2,
                                                 FERRY_REST, &scope, &memory);
    expect_done_or_out_of_range(status);
    if (status != FERRY_OK)
        return;
    assert_non_null(memory);
    assert_int_equal(ferry_buffer_count(race->buffer), LONG);
    OK(ferry_scope_close(&scope));
}

static void
open_several(struct race *race)
{
    ferry_scope scope;
    void *memory = NULL;
    ferry_argument argument = ferry_argument_with(
        ferry_buffer_argument(race->buffer, INT, LONG / 2, LONG / 2), FERRY_UPDATE);
    ferry_status status = ferry_scope_open_all(&argument, 1, 0, NULL, &scope, &memory);
    expect_done_or_out_of_range(status);
    if (status != FERRY_OK)
        return;
    assert_non_null(memory);
    OK(ferry_scope_close(&scope));
}

static void
test_ranges(void **state)
{
    PLAY(copy_from_range, copy_to_range, copy_within, copy_in_the_background, convert_range,
         open_the_tail, open_several);
}

/* -- what keeps the length --------------------------------------------------------------------- */

/* Checks the result of creating a view of the last elements, and destroys the view. While such a
 * view exists, the buffer must have its full length, because it cannot become shorter. */
static void
expect_view(struct race *race, ferry_status status, ferry_buffer **view)
{
    expect_done_or_out_of_range(status);
    if (status != FERRY_OK)
        return;
    assert_int_equal(ferry_buffer_count(race->buffer), LONG);
    (void)ferry_buffer_state(*view);
    ferry_buffer_destroy(view);
}

static void
view_the_end(struct race *race)
{
    ferry_buffer *view;
    expect_view(race, ferry_buffer_view(race->buffer, INT, LONG - 1, 1, &view), &view);
}

static void
view_the_end_as_bytes(struct race *race)
{
    ferry_buffer *view;
    expect_view(race, ferry_buffer_reinterpret(race->buffer, BYTE, BYTES - 1, 1, &view), &view);
}

static void
pin_whole(struct race *race)
{
    void *memory;
    OK(ferry_buffer_hold(race->buffer, 0, &memory));
    size_t bytes = ferry_buffer_bytes(race->buffer);
    assert_true(ferry_block_bytes(race->buffer->store->copies[0].block) >= bytes);
    OK(ferry_buffer_release(race->buffer, 0));
}

static void
list_the_end(struct race *race)
{
    copy_list *batch;
    OK(copy_list_create(&batch));
    OK(copy_list_to(batch, race->buffer, INT, 0, race->memory, 1));
    OK(copy_list_to(batch, race->buffer, INT, LONG - 1, race->memory, 1));
    expect_done_or_out_of_range(copy_list_submit(batch, NULL));
    copy_list_destroy(&batch);
}

static void
test_what_keeps_the_length(void **state)
{
    PLAY(view_the_end, view_the_end_as_bytes, pin_whole, list_the_end);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_questions),
        TEST(test_whole_buffers),
        TEST(test_ranges),
        TEST(test_what_keeps_the_length),
    };
    return cmocka_run_group_tests_name("resize", tests, NULL, NULL);
}
