/* SPDX-License-Identifier: MIT */
/*
 * Tests two features of wraps, which are buffers over memory of the program. ferry_buffer_abandon()
 * ends a wrap whose memory is gone. ferry_wrap_options.release_on is for owners that reuse the
 * memory in stream order. Memory that Ferry must not touch is protected, so an access to it crashes
 * the test.
 */
#include "tests/buffer/work.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/copies.h"

#define COUNT         40000
#define BYTES         ((COUNT * sizeof(int32_t) + 4095) / 4096 * 4096)
#define HANGS_AFTER_S 120

struct release {
    atomic_int calls;
    void *memory;
    unsigned done; /* number of kernels that had run when on_release was called */
};

static void
note_release(void *memory, void *user)
{
    struct release *release = user;
    release->memory = memory;
    release->done = work_done();
    atomic_fetch_add(&release->calls, 1);
}

static int32_t *
map_counting(void)
{
    int32_t *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    for (int i = 0; i < COUNT; i++)
        memory[i] = i;
    return memory;
}

static void
lock_out(int32_t *memory)
{
    assert_int_equal(mprotect(memory, BYTES, PROT_NONE), 0);
}

/* -- what becomes of the memory ---------------------------------------------------------------- */

static void
use_nothing(fixture *f, ferry_buffer *b)
{
    (void)f, (void)b;
}

static void
use_at_device(fixture *f, ferry_buffer *b)
{
    add_to(f, b, f->places, 0, FERRY_REST, 10);
}

static void
use_parts_at_device(fixture *f, ferry_buffer *b)
{
    for (size_t at = 0; at + 100 < COUNT; at += 1000)
        add_to(f, b, 1, at, 100, 10);
    add_to(f, b, 0, 500, 10, 1);
}

static void
use_discard(fixture *f, ferry_buffer *b)
{
    (void)f;
    OK(ferry_buffer_discard(b, 0, FERRY_REST));
}

static void
use_host(fixture *f, ferry_buffer *b)
{
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    add_to(f, b, 0, 0, FERRY_REST, 1);
}

/* Makes the wrapped memory stale while the device has a replica. A later use at the host would have
 * to copy bytes into the wrapped memory. */
static void
use_invalidate(fixture *f, ferry_buffer *b)
{
    add_to(f, b, 1, 0, FERRY_REST, 1);
    OK(ferry_buffer_invalidate(b, 0, FERRY_REST, 0));
}

static void (*const uses[])(fixture *, ferry_buffer *) = {
    use_nothing, use_at_device, use_parts_at_device, use_discard, use_host, use_invalidate};

/* Waits for all work on devices that share the host's memory, because that work uses the wrapped
 * memory directly. */
static void
finish(fixture *f)
{
    for (int place = 1; place <= f->places && f->coherent; place++)
        OK(ferry_stream_synchronize(stream_of(f, place)));
}

static void
test_host_memory_may_be_gone(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < 2 * LENGTH(uses); i++) {
        struct release release = {0};
        const ferry_wrap_options options = {
            .name = "gone", .on_release = note_release, .user = &release};
        int32_t *memory = map_counting();
        ferry_buffer *b;
        OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, &options, &b));
        uses[i / 2](f, b);
        finish(f);
        if (i % 2)
            assert_int_equal(munmap(memory, BYTES), 0);
        else
            lock_out(memory);
        ferry_transfer_stats before = moved(f);
        OK(ferry_buffer_abandon(&b));
        assert_null(b);
        assert_int_equal(release.calls, 1);
        assert_ptr_equal(release.memory, memory);
        expect_moved(f, &before, 0, 0);
        if (i % 2 == 0)
            assert_int_equal(munmap(memory, BYTES), 0);
    }
}

/* Checks that wraps of the typed API, read-only wraps and wraps without options can be
 * abandoned. */
static void
test_typed_and_read_only_wraps_are_abandoned(void **state)
{
    fixture *f = *state;
    int32_t *memory = map_counting();
    ferry_int_buffer typed;
    ferry_buffer *b;
    OK(ferry_int_wrap_host(f->context, COUNT, memory, NULL, &typed));
    add_to(f, typed.raw, 1, 0, FERRY_REST, 10);
    OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory,
                              &(ferry_wrap_options){.read_only = true}, &b));
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    finish(f);
    lock_out(memory);
    OK(ferry_int_abandon(&typed));
    assert_null(typed.raw);
    OK(ferry_buffer_abandon(&b));
    assert_null(b);
    assert_int_equal(munmap(memory, BYTES), 0);
    /* A wrap of zero bytes may have the address NULL, and can be abandoned like any other wrap. */
    OK(ferry_buffer_wrap_host(f->context, INT, 0, NULL, NULL, &b));
    OK(ferry_buffer_abandon(&b));
}

/* A program may free wrapped device memory before it abandons the wrap. Newer bytes on the host are
 * then lost. Ferry must not copy them into the freed memory: such a copy would fail and be
 * logged. */
static void
test_device_memory_may_be_gone(void **state)
{
    fixture *f = *state;
    for (int place = 1; place <= f->places; place++) {
        struct release release = {0};
        const ferry_wrap_options options = {.on_release = note_release, .user = &release};
        int32_t *memory = device_alloc(f, place, BYTES), values[100], got[100];
        ferry_buffer *b;
        for (int i = 0; i < 100; i++)
            values[i] = i;
        for (int freed = 0; freed < 2; freed++) {
            device_write(f, place, memory, values, sizeof(values));
            OK(ferry_buffer_wrap_device(f->context, INT, 100, stream_of(f, place), memory, &options,
                                        &b));
            add_to(f, b, 0, 0, FERRY_REST, 4);
            if (freed) {
                OK(ferry_stream_synchronize(stream_of(f, place)));
                device_free(f, place, memory);
            }
            OK(ferry_buffer_abandon(&b));
            assert_int_equal(release.calls, freed + 1);
            assert_ptr_equal(release.memory, memory);
            if (freed || f->coherent)
                continue;
            device_read(f, place, got, memory, sizeof(got));
            assert_memory_equal(got, values, sizeof(got));
        }
    }
}

/* The program may unregister wrapped memory before it abandons the wrap, or afterwards. */
static void
test_registered_memory_may_be_gone(void **state)
{
    fixture *f = *state;
    if (!f->registers)
        skip();
    for (int kept = 0; kept < 2; kept++) {
        int32_t *memory = map_counting();
        ferry_buffer *b;
        OK(ferry_context_register_host(f->context, memory, BYTES));
        OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, NULL, &b));
        for (int i = 0; i < 3; i++) {
            add_to(f, b, 1, 0, FERRY_REST, 10);
            expect_counting(f, b, 0, 0, FERRY_REST, 10 * (i + 1));
        }
        add_to(f, b, 1, 0, FERRY_REST, 10);
        OK(ferry_buffer_wait_idle(b, 0));
        if (!kept)
            OK(ferry_context_unregister_host(f->context, memory));
        lock_out(memory);
        OK(ferry_buffer_abandon(&b));
        if (kept)
            OK(ferry_context_unregister_host(f->context, memory));
        assert_int_equal(munmap(memory, BYTES), 0);
    }
}

/* Checks that ferry_buffer_unwrap() and ferry_buffer_destroy() write zeros to the wrapped memory
 * where the buffer's bytes were discarded. */
static void
test_the_end_of_a_wrap_writes_what_was_discarded(void **state)
{
    fixture *f = *state;
    for (int unwraps = 0; unwraps < 2; unwraps++) {
        int32_t *memory = map_counting();
        ferry_buffer *b;
        OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, NULL, &b));
        OK(ferry_buffer_discard(b, 10, 20));
        if (unwraps)
            OK(ferry_buffer_unwrap(&b, NULL));
        else
            ferry_buffer_destroy(&b);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(memory[i], i >= 10 && i < 30 ? 0 : i);
        assert_int_equal(munmap(memory, BYTES), 0);
    }
}

/* -- who may abandon --------------------------------------------------------------------------- */

static void
test_abandon_is_refused(void **state)
{
    fixture *f = *state;
    const ferry_status wrong = FERRY_ERROR_INVALID_ARGUMENT, refused = FERRY_ERROR_INVALID_STATE;
    struct release release = {0};
    const ferry_wrap_options options = {
        .name = "mine", .on_release = note_release, .user = &release};
    int32_t *memory = map_counting();
    ferry_buffer *b, *view, *again, *plain = make_ints(f, 10), *none = NULL;
    ferry_int_buffer empty = {0};
    ferry_scope scope;
    FAILS(wrong, ferry_buffer_abandon(NULL));
    FAILS(wrong, ferry_buffer_abandon(&none));
    FAILS(wrong, ferry_int_abandon(&empty));
    FAILS(refused, ferry_buffer_abandon(&plain));
    assert_non_null(plain);

    OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, &options, &b));
    add_to(f, b, 1, 0, FERRY_REST, 10);
    OK(ferry_buffer_view(b, INT, 10, 20, &view));
    snapshot before = take_snapshot(b);
    FAILS(refused, ferry_buffer_abandon(&b));
    FAILS(refused, ferry_buffer_abandon(&view));
    expect_unchanged(b, &before);
    ferry_buffer_destroy(&view);
    again = ferry_buffer_retain(b);
    FAILS(refused, ferry_buffer_abandon(&b));
    ferry_buffer_destroy(&again);
    for (int place = 0; place < 2; place++) {
        (void)open_at(f, b, place, FERRY_READ, 0, 10, &scope);
        FAILS(FERRY_ERROR_BUSY, ferry_buffer_abandon(&b));
        OK(ferry_scope_close(&scope));
    }
    ferry_lease *lease;
    void *leased;
    OK(ferry_lease_open(b, INT, &(ferry_lease_options){.access = FERRY_READ, .label = "the test"},
                        &lease, &leased));
    OK(ferry_lease_close(lease));
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_abandon(&b));
    assert_non_null(strstr(ferry_last_error(), "the test"));
    ferry_lease_destroy(&lease);
    assert_int_equal(release.calls, 0);
    /* The calls of ferry_buffer_abandon() above were refused, so the buffer is still a wrap.
     * ferry_buffer_unwrap() copies its newer bytes back. */
    OK(ferry_buffer_view(b, INT, 10, 20, &view));
    OK(ferry_buffer_unwrap((ferry_buffer_destroy(&view), &b), NULL));
    assert_int_equal(release.calls, 1);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(memory[i], i + 10);

    /* A wrap may be abandoned through a view if that view is its last handle. Destroying the other
     * handles does not touch the memory. */
    OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, &options, &b));
    add_to(f, b, 1, 0, FERRY_REST, 10);
    OK(ferry_buffer_view(b, INT, 10, 20, &view));
    finish(f);
    lock_out(memory);
    ferry_buffer_destroy(&b);
    assert_int_equal(release.calls, 1);
    OK(ferry_buffer_abandon(&view));
    assert_null(view);
    assert_int_equal(release.calls, 2);
    DESTROY_BUFFERS(&plain);
    assert_int_equal(munmap(memory, BYTES), 0);
}

static void
test_abandon_comes_too_late_after_the_context(void **state)
{
    fixture *f = *state;
    int32_t *memory = map_counting();
    ferry_context *context;
    ferry_buffer *b;
    OK(ferry_context_create(NULL, &context));
    OK(ferry_buffer_wrap_host(context, INT, COUNT, memory, NULL, &b));
    ferry_context_destroy(&context); /* copies newer bytes back, and ends the wrap */
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_abandon(&b));
    assert_int_equal(munmap(memory, BYTES), 0);
    ferry_buffer_destroy(&b);
    (void)f;
}

/* -- work that still uses the memory ----------------------------------------------------------- */

struct helper {
    atomic_bool may_go_on, has_begun;
};

static bool
go_on_later(size_t done, size_t total, void *user)
{
    struct helper *helper = user;
    (void)done, (void)total;
    atomic_store(&helper->has_begun, true);
    while (!atomic_load(&helper->may_go_on))
        ferryi_sleep_ns(100000);
    return true;
}

static void *
let_go_on(void *user)
{
    struct helper *helper = user;
    ferryi_sleep_ns(20000000);
    atomic_store(&helper->may_go_on, true);
    return NULL;
}

/* An asynchronous copy reads the wrapped memory on a worker thread. ferry_buffer_abandon() must
 * wait until that copy has ended. */
static void
test_abandon_waits_for_calls(void **state)
{
    fixture *f = *state;
    struct helper helper = {0};
    static int32_t to[COUNT];
    pthread_t thread;
    ferry_event *event;
    ferry_buffer *b;
    int32_t *memory = map_counting();
    memset(to, 0, sizeof(to));
    OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, NULL, &b));
    OK(ferry_buffer_copy_to_async(
        b, INT, 0, COUNT, to,
        &(ferry_copy_options){
            .stream = f->stream, .chunk_bytes = 4096, .keep_going = go_on_later, .user = &helper},
        &event));
    while (!atomic_load(&helper.has_begun))
        ferryi_sleep_ns(100000);
    assert_int_equal(pthread_create(&thread, NULL, let_go_on, &helper), 0);
    OK(ferry_buffer_abandon(&b));
    lock_out(memory);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(to[i], i);
    OK(ferry_event_synchronize(
        event)); /* the event is reached shortly after the copy's last use of the memory */
    ferry_event_destroy(&event);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(munmap(memory, BYTES), 0);
}

/* ferry_buffer_abandon() first waits for queued work that still uses the memory, and then calls
 * on_release. */
static void
test_abandon_waits_for_queued_work(void **state)
{
    fixture *f = *state;
    struct release release = {0};
    const ferry_wrap_options options = {.on_release = note_release, .user = &release};
    work w;
    work_open(f, &w);
    int32_t *memory = device_alloc(f, 1, BYTES), got[4];
    ferry_buffer *b;
    OK(ferry_buffer_wrap_device(f->context, INT, COUNT, f->stream, memory, &options, &b));
    unsigned before = work_done();
    work_delay(20000);
    OK(launch_fill(&w, f->stream, b, 0, COUNT, 3));
    OK(launch_add(&w, f->stream, b, 0, COUNT, 4));
    OK(ferry_buffer_abandon(&b));
    assert_int_equal(release.calls, 1);
    if (runs_apart(f) || is_lazy(f) || f->coherent)
        assert_int_equal(release.done - before, 2);
    work_delay(0);
    device_read(f, 1, got, memory, sizeof(got));
    for (size_t i = 0; i < LENGTH(got); i++)
        assert_int_equal(got[i], 7);
    device_free(f, 1, memory);
    work_close(&w);
}

/* -- release_on -------------------------------------------------------------------------------- */

enum end { DESTROY, UNWRAP, UNWRAP_ON, ABANDON, ENDS };

static void
end_wrap(ferry_buffer **b, enum end end, ferry_stream *stream)
{
    if (end == DESTROY)
        ferry_buffer_destroy(b);
    else if (end == ABANDON)
        OK(ferry_buffer_abandon(b));
    else
        OK(ferry_buffer_unwrap(b, end == UNWRAP_ON ? stream : NULL));
    assert_null(*b);
}

/* If the option `release_on` names a stream, on_release is called without waiting for queued
 * kernels that use the memory. Work that the memory's owner then queues on this stream runs after
 * those kernels. */
static void
test_a_stream_waits_instead_of_the_host(void **state)
{
    fixture *f = *state;
    work w;
    work_open(f, &w);
    for (int i = 0; i < 2 * ENDS; i++) {
        bool writes = i % 2;
        struct release release = {0};
        ferry_stream *release_on = make_stream(f, 1), *other = make_stream(f, 1);
        const ferry_wrap_options options = {
            .on_release = note_release, .user = &release, .release_on = release_on};
        int32_t *memory = device_alloc(f, 1, BYTES), got[4];
        ferry_buffer *b, *copy = make_ints(f, COUNT);
        OK(ferry_buffer_wrap_device(f->context, INT, COUNT, f->stream, memory, &options, &b));
        fill_on(f, b, f->stream, 0, COUNT, 3);
        OK(ferry_stream_synchronize(f->stream));
        unsigned before = work_done();
        if (runs_apart(f))
            work_gate(false);
        if (writes)
            OK(launch_add(&w, f->stream, b, 0, COUNT, 4));
        else
            OK(launch_copy(&w, f->stream, copy, 0, b, 0, COUNT));
        end_wrap(&b, (enum end)(i / 2), other);
        assert_int_equal(release.calls, 1);
        assert_ptr_equal(release.memory, memory);
        if (runs_apart(f) || is_lazy(f))
            assert_int_equal(release.done, before);
        /* Imitates the owner's allocator, which reuses the memory for work on the stream of the
         * option `release_on`. */
        queue_fill(f, release_on, memory, 9, COUNT);
        if (runs_apart(f))
            work_gate(true);
        OK(ferry_stream_synchronize(release_on));
        OK(ferry_stream_synchronize(other));
        device_read(f, 1, got, memory, sizeof(got));
        for (size_t k = 0; k < LENGTH(got); k++)
            assert_int_equal(got[k], 9);
        if (!writes)
            expect_constant(f, copy, 0, 0, FERRY_REST, 3);
        DESTROY_BUFFERS(&copy);
        DESTROY_STREAMS(&release_on, &other);
        device_free(f, 1, memory);
    }
    work_close(&w);
}

/* Newer bytes are copied back into the wrapped memory before on_release is called. If the option
 * `release_on` names a stream, work that is queued on this stream later runs after that copy. */
static void
test_newer_bytes_come_back_before_the_release(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 2 * (ENDS - 1); i++) {
        bool on_device = i % 2;
        struct release release = {0};
        ferry_stream *release_on = make_stream(f, f->places);
        const ferry_wrap_options options = {
            .on_release = note_release, .user = &release, .release_on = release_on};
        int32_t *memory = on_device ? device_alloc(f, f->places, BYTES) : map_counting(),
                *got = calloc(1, BYTES);
        ferry_buffer *b;
        if (on_device)
            OK(ferry_buffer_wrap_device(f->context, INT, COUNT, stream_of(f, f->places), memory,
                                        &options, &b));
        else
            OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, &options, &b));
        write_counting(f, b, on_device ? 0 : 1, 0, COUNT, 100);
        add_to(f, b, on_device ? 0 : 1, 0, COUNT, 5);
        end_wrap(&b, (enum end)(i / 2), f->stream);
        assert_int_equal(release.calls, 1);
        OK(ferry_stream_synchronize(release_on));
        place_read(f, on_device ? f->places : 0, got, memory, COUNT * sizeof(int32_t));
        for (int k = 0; k < COUNT; k++)
            assert_int_equal(got[k], k + 105);
        ferry_stream_destroy(&release_on);
        free(got);
        if (on_device)
            device_free(f, f->places, memory);
        else
            assert_int_equal(munmap(memory, BYTES), 0);
    }
}

/* A wrap keeps the stream of its option `release_on` alive, even without an on_release callback. A
 * stream of a different context is refused. */
static void
test_the_wrap_keeps_the_stream(void **state)
{
    fixture *f = *state;
    static int32_t memory[COUNT];
    ferry_context *other;
    ferry_buffer *b;
    OK(ferry_context_create(NULL, &other));
    FAILS(FERRY_ERROR_WRONG_CONTEXT,
          ferry_buffer_wrap_host(
              f->context, INT, COUNT, memory,
              &(ferry_wrap_options){.release_on = ferry_context_stream(other, 1)}, &b));
    FAILS(FERRY_ERROR_WRONG_CONTEXT,
          ferry_buffer_wrap_device(
              f->context, INT, COUNT, f->stream, memory,
              &(ferry_wrap_options){.release_on = ferry_context_stream(other, 1)}, &b));
    ferry_context_destroy(&other);
    for (int i = 0; i < ENDS; i++) {
        ferry_stream *release_on = make_stream(f, 1);
        OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory,
                                  &(ferry_wrap_options){.release_on = release_on}, &b));
        ferry_stream_destroy(&release_on);
        write_counting(f, b, 1, 0, COUNT, i);
        end_wrap(&b, (enum end)i, f->stream);
        if (i != ABANDON)
            assert_int_equal(memory[7], 7 + i);
    }
    /* A wrap that outlives its context still keeps the stream of its option `release_on` alive. */
    struct release release = {0};
    OK(ferry_context_create(NULL, &other));
    ferry_stream *release_on;
    OK(ferry_stream_create(other, 1, &release_on));
    OK(ferry_buffer_wrap_host(other, INT, COUNT, memory,
                              &(ferry_wrap_options){.release_on = release_on,
                                                    .on_release = note_release,
                                                    .user = &release},
                              &b));
    touch(f, b, 0, FERRY_READ, 0, FERRY_REST);
    ferry_stream_destroy(&release_on);
    ferry_context_destroy(&other);
    assert_int_equal(release.calls, 1);
    ferry_buffer_destroy(&b);
}

/* -- each in a plain and in a checked run ------------------------------------------------------ */

static int
setup_checked(void **state)
{
    setenv("FERRY_DEBUG", "1", 1);
    return fixture_setup(state);
}

static int
setup_plain(void **state)
{
    setenv("FERRY_DEBUG", "0", 1);
    return fixture_setup(state);
}

#define BOTH(function)                                                                             \
    cmocka_unit_test_setup_teardown(function, setup_plain, fixture_teardown),                      \
    {                                                                                              \
#function " in a checked run", function, setup_checked, fixture_teardown, NULL             \
    }

int
main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_host_memory_may_be_gone),
        BOTH(test_typed_and_read_only_wraps_are_abandoned),
        BOTH(test_device_memory_may_be_gone),
        BOTH(test_registered_memory_may_be_gone),
        BOTH(test_the_end_of_a_wrap_writes_what_was_discarded),
        BOTH(test_abandon_is_refused),
        BOTH(test_abandon_comes_too_late_after_the_context),
        BOTH(test_abandon_waits_for_calls),
        BOTH(test_abandon_waits_for_queued_work),
        BOTH(test_a_stream_waits_instead_of_the_host),
        BOTH(test_newer_bytes_come_back_before_the_release),
        BOTH(test_the_wrap_keeps_the_stream),
    };
    alarm(HANGS_AFTER_S);
    return cmocka_run_group_tests_name("abandon", tests, NULL, NULL);
}
