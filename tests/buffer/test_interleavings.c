/* SPDX-License-Identifier: MIT */
/*
 * Tests pairs of calls that interleave. The test makes the second call inside an allocation or a
 * device call of the first call. So every run has the same order, as if a second thread had made
 * its call at exactly that point.
 */
#include "tests/buffer/meeting.h"

#include <pthread.h>
#include <stdatomic.h>

#include <ferry/share.h>

#include "src/buffer/buffer.h"
#include "src/buffer/scope.h"
#include "src/debug/debug.h"

enum { COUNT = 1000 };

/* -- the end of a wrap ------------------------------------------------------------------------- */

/* A second thread that allocates device memory and so evicts the device replica of a wrapped
 * buffer. A hook delays this thread while it copies the replica back to the host. */
struct evictor {
    ferry_context *context;
    ferry_stream *stream;
    pthread_t thread;
    unsigned countdown; /* number of interleaving points (src/base/interleave.h) of the destroying
                           thread that are left until this thread starts */
    atomic_bool started, moving, over;
};

static void
linger(void *user)
{
    struct evictor *evictor = user;
    atomic_store(&evictor->moving, true);
    ferryi_sleep_ns(20000000); /* long enough to detect a destroy that does not wait for the copy */
}

static void *
want_memory(void *user)
{
    struct evictor *evictor = user;
    ferry_buffer *buffer;
    ferry_scope scope;
    void *memory;
    OK(ferry_buffer_create(evictor->context, BYTE, LIMIT / 2, NULL, &buffer));
    if (ferry_buffer_open_device(buffer, BYTE, FERRY_OVERWRITE, 0, FERRY_REST, evictor->stream,
                                 &scope, &memory) == FERRY_OK)
        OK(ferry_scope_close(&scope));
    ferry_buffer_destroy(&buffer);
    atomic_store(&evictor->over, true);
    return NULL;
}

static void
evict_beside(void *user)
{
    struct evictor *evictor = user;
    if (--evictor->countdown > 0) {
        meet_at_point(evict_beside, evictor);
        return;
    }
    evictor->started = true;
    meet_in("copy_download", linger, evictor);
    assert_int_equal(pthread_create(&evictor->thread, NULL, want_memory, evictor), 0);
    for (int i = 0; i < 500 && !atomic_load(&evictor->moving) && !atomic_load(&evictor->over); i++)
        ferryi_sleep_ns(100000);
}

/* Destroys a wrapped buffer while a second thread evicts the buffer's device replica. When
 * ferry_buffer_destroy() returns, the wrapped host memory must hold the newest bytes. */
static void
test_a_wrap_ends_beside_its_eviction(void **state)
{
    (void)state;
    need_points();
    static int memory[LIMIT / 2 / 4];
    bool started = true;
    for (unsigned at = 1; started && at < 30; at++) {
        struct evictor evictor = {.countdown = at};
        fixture f;
        ferry_buffer *wrap;
        fixture_open(
            &f, &(ferry_context_options){.devices = "fault", .device_bytes_limit = LIMIT * 3 / 4});
        evictor.context = f.context;
        evictor.stream = f.stream;
        memset(memory, 0, sizeof(memory));
        OK(ferry_buffer_wrap_host(f.context, INT, LENGTH(memory), memory, NULL, &wrap));
        write_counting(&f, wrap, 1, 0, LENGTH(memory), 3);
        OK(ferry_buffer_wait_idle(wrap, 1));
        meet_at_point(evict_beside, &evictor);
        ferry_buffer_destroy(&wrap);
        meet_nowhere();
        assert_int_equal(memory[0], 3);
        assert_int_equal(memory[LENGTH(memory) - 1], 3 + (int)LENGTH(memory) - 1);
        started = evictor.started;
        if (started)
            pthread_join(evictor.thread, NULL);
        fault_hook(NULL, NULL);
        fixture_close(&f);
    }
}

/* -- scopes ------------------------------------------------------------------------------------ */

struct reader {
    ferry_buffer *buffer;
    ferry_scope scope;
    const int *memory;
};

static void
open_beside(void *user)
{
    struct reader *reader = user;
    void *memory;
    OK(ferry_buffer_open_host(reader->buffer, INT, FERRY_READ, 0, COUNT, &reader->scope, &memory));
    reader->memory = memory;
}

static void
test_two_make_the_first_table_of_scopes(void **state)
{
    fixture *f = *state;
    struct reader first = {.buffer = make_ints(f, COUNT)}, second = {.buffer = first.buffer};
    ferryi_store *store = first.buffer->store;
    assert_int_equal(store->claim_capacity, 0);
    short_memory_meet(4 * sizeof(struct ferryi_claim), open_beside, &second);
    open_beside(&first);
    assert_int_equal(store->claim_capacity, 4);
    assert_int_equal(store->claim_count, 2);
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_invalidate(first.buffer, 0, COUNT, 0));
    OK(ferry_scope_close(&second.scope));
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_invalidate(first.buffer, 0, COUNT, 0));
    OK(ferry_scope_close(&first.scope));
    assert_int_equal(store->claim_count, 0);
    OK(ferry_buffer_invalidate(first.buffer, 0, COUNT, 0));
    DESTROY_BUFFERS(&first.buffer);
}

/* -- copies that go ---------------------------------------------------------------------------- */

struct pinner {
    ferry_buffer *buffer;
    void *memory;
};

static void
pin_beside(void *user)
{
    struct pinner *pinner = user;
    OK(ferry_buffer_hold(pinner->buffer, 1, &pinner->memory));
}

/* Checks that a replica was pinned during a call that would otherwise have freed it. The pinned
 * memory must still be valid and hold the right bytes. */
static void
expect_pinned(fixture *f, struct pinner *pinner)
{
    int values[COUNT];
    assert_true(have_met());
    assert_non_null(strstr(ferry_last_error(), "its copy"));
    device_read(f, 1, values, pinner->memory, sizeof(values));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(values[i], i);
    expect_counting(f, pinner->buffer, 1, 0, COUNT, 0);
    OK(ferry_buffer_release(pinner->buffer, 1));
}

static void
test_a_pin_comes_while_the_copy_is_rescued(void **state)
{
    fixture *f = *state;
    struct pinner pinner = {.buffer = make_ints(f, COUNT)};
    write_counting(f, pinner.buffer, 1, 0, COUNT, 0);
    meet_in("copy_download", pin_beside, &pinner);
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_evict(pinner.buffer, 1));
    expect_pinned(f, &pinner);
    OK(ferry_buffer_evict(pinner.buffer, 1));
    expect_counting(f, pinner.buffer, 0, 0, COUNT, 0);
    DESTROY_BUFFERS(&pinner.buffer);
}

static void
test_a_pin_comes_while_the_buffer_grows(void **state)
{
    fixture *f = *state;
    struct pinner pinner = {.buffer = make_ints(f, COUNT)};
    write_counting(f, pinner.buffer, 1, 0, COUNT, 0);
    meet_in("copy_device", pin_beside, &pinner);
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_resize(pinner.buffer, 2 * COUNT));
    assert_int_equal(ferry_buffer_count(pinner.buffer), COUNT);
    expect_pinned(f, &pinner);
    OK(ferry_buffer_resize(pinner.buffer, 2 * COUNT));
    expect_counting(f, pinner.buffer, 0, 0, COUNT, 0);
    expect_constant(f, pinner.buffer, 0, COUNT, COUNT, 0);
    DESTROY_BUFFERS(&pinner.buffer);
}

struct viewer {
    ferry_buffer *base, *view;
};

static void
view_beside(void *user)
{
    struct viewer *viewer = user;
    OK(ferry_buffer_view(viewer->base, INT, COUNT / 2, COUNT / 2, &viewer->view));
}

/* Creates a view while the base buffer is being resized. The resize must fail, because a buffer
 * with a view cannot be resized. */
static void
test_a_view_comes_while_the_buffer_grows(void **state)
{
    fixture *f = *state;
    struct viewer viewer = {.base = make_ints(f, COUNT)};
    write_counting(f, viewer.base, 1, 0, COUNT, 0);
    meet_in("copy_device", view_beside, &viewer);
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_resize(viewer.base, 2 * COUNT));
    assert_true(have_met());
    assert_int_equal(ferry_buffer_count(viewer.base), COUNT);
    expect_counting(f, viewer.view, 1, 0, COUNT / 2, COUNT / 2);
    DESTROY_BUFFERS(&viewer.view);
    OK(ferry_buffer_resize(viewer.base, 2 * COUNT));
    expect_counting(f, viewer.base, 1, 0, COUNT, 0);
    DESTROY_BUFFERS(&viewer.base);
}

static void
reserve_beside(void *user)
{
    ferry_buffer **buffer = user;
    OK(ferry_buffer_reserve(*buffer, 0));
}

/* Allocates a replica of the old length while the buffer is being resized. After the resize, the
 * buffer must not use memory that is too small for the new length. */
static void
test_memory_is_reserved_while_the_buffer_grows(void **state)
{
    fixture *f = *state;
    ferry_buffer *buffer = make_ints(f, COUNT);
    write_counting(f, buffer, 1, 0, COUNT, 0);
    meet_in("copy_device", reserve_beside, &buffer);
    OK(ferry_buffer_resize(buffer, 200 * COUNT));
    assert_true(have_met());
    write_counting(f, buffer, 0, 0, 200 * COUNT, 0);
    assert_true(buffer->store->copies[0].block->requested >= 200 * COUNT * sizeof(int));
    DESTROY_BUFFERS(&buffer);
}

/* -- lengths that change ----------------------------------------------------------------------- */

struct resizer {
    ferry_buffer *buffer;
    size_t count;
};

static void
resize_beside(void *user)
{
    struct resizer *resizer = user;
    OK(ferry_buffer_resize(resizer->buffer, resizer->count));
}

/* A call that a second thread makes while the first thread is inside a different call. The second
 * thread starts when the first thread reaches its interleaving point number `countdown`. At such a
 * point in the library's code, a test can run a function (src/base/interleave.h). */
struct visitor {
    ferry_buffer *buffer;
    ferry_status (*call)(ferry_buffer *buffer, int place); /* called for place 1; may fail */
    unsigned countdown;
    pthread_t thread;
    atomic_bool started, over;
};

static void *
call_beside(void *user)
{
    struct visitor *visitor = user;
    (void)!visitor->call(visitor->buffer, 1);
    atomic_store(&visitor->over, true);
    return NULL;
}

static void
visit(void *user)
{
    struct visitor *visitor = user;
    if (--visitor->countdown > 0) {
        meet_at_point(visit, visitor);
        return;
    }
    atomic_store(&visitor->started, true);
    assert_int_equal(pthread_create(&visitor->thread, NULL, call_beside, visitor), 0);
    for (int i = 0; i < 200 && !atomic_load(&visitor->over); i++)
        ferryi_sleep_ns(100000);
}

/* Returns whether the second thread was started. If it was, waits until it has ended. */
static bool
came(struct visitor *visitor)
{
    meet_nowhere();
    if (atomic_load(&visitor->started))
        pthread_join(visitor->thread, NULL);
    return atomic_load(&visitor->started);
}

/* The host and a device share the memory of a buffer. A second thread evicts the device's replica
 * while the first thread pins the host replica. The pinned memory must stay valid. */
static void
test_a_pin_meets_the_end_of_a_shared_copy(void **state)
{
    (void)state;
    need_points();
    fixture f;
    fixture_open(&f, &(ferry_context_options){.devices = "host,emulated"});
    bool visited = true;
    for (unsigned at = 1; visited; at++) {
        struct visitor visitor = {
            .buffer = make_ints(&f, COUNT), .call = ferry_buffer_evict, .countdown = at};
        void *memory;
        OK(ferry_buffer_reserve(visitor.buffer, 1));
        meet_at_point(visit, &visitor);
        OK(ferry_buffer_hold(visitor.buffer, 0, &memory));
        visited = came(&visitor);
        memset(memory, 1, COUNT * sizeof(int));
        OK(ferry_buffer_release(visitor.buffer, 0));
        DESTROY_BUFFERS(&visitor.buffer);
    }
    fixture_close(&f);
}

/* A replica that is created at any point during a resize has room for the new length. */
static void
test_a_copy_comes_within_a_resize(void **state)
{
    (void)state;
    need_points();
    fixture f;
    fixture_open(&f, &(ferry_context_options){.devices = "emulated"});
    bool visited = true;
    for (unsigned at = 1; visited; at++) {
        struct visitor visitor = {
            .buffer = make_counting(&f, COUNT, 0), .call = ferry_buffer_reserve, .countdown = at};
        meet_at_point(visit, &visitor);
        OK(ferry_buffer_resize(visitor.buffer, 4 * COUNT));
        visited = came(&visitor);
        ferryi_store *store = visitor.buffer->store;
        for (int place = 0; place <= 1; place++)
            assert_true(!store->copies[place].block ||
                        store->copies[place].block->requested >= store->map.bytes);
        DESTROY_BUFFERS(&visitor.buffer);
    }
    fixture_close(&f);
}

/* -- the end of the context -------------------------------------------------------------------- */

static ferry_status
destroy_it(ferry_buffer *buffer, int place)
{
    (void)place;
    ferry_buffer_destroy(&buffer);
    return FERRY_OK;
}

static ferry_scope left_open;

static ferry_status
close_it(ferry_buffer *buffer, int place)
{
    (void)buffer;
    (void)place;
    return ferry_scope_close(&left_open);
}

/* The last handle or the last scope of a buffer may end at any point while a second thread destroys
 * the context. Exactly one of the two threads must free the buffer. */
static void
test_a_buffer_goes_while_its_context_ends(void **state)
{
    (void)state;
    need_points();
    for (int by_scope = 0; by_scope <= 1; by_scope++) {
        bool visited = true;
        for (unsigned at = 1; visited; at++) {
            struct visitor visitor = {.call = by_scope ? close_it : destroy_it, .countdown = at};
            ferry_context *context;
            void *memory;
            OK(ferry_context_create(&(ferry_context_options){.devices = "emulated"}, &context));
            OK(ferry_buffer_create(context, INT, COUNT, &(ferry_buffer_options){.name = "goes"},
                                   &visitor.buffer));
            if (by_scope) {
                ferry_buffer *handle = visitor.buffer;
                OK(ferry_buffer_open_host(handle, INT, FERRY_OVERWRITE, 0, COUNT, &left_open,
                                          &memory));
                ferry_buffer_destroy(&handle);
            }
            meet_at_point(visit, &visitor);
            ferry_context_destroy(&context);
            visited = came(&visitor);
            if (!visited)
                (void)!visitor.call(visitor.buffer, 0);
        }
    }
}

/* Makes a buffer of COUNT elements. The next call on this buffer is interrupted just after it has
 * read the length. The buffer is then resized to `count` elements. */
static struct resizer
resize_at_the_look(fixture *f, size_t count)
{
    static struct resizer resizer;
    need_points();
    resizer = (struct resizer){make_counting(f, COUNT, 0), count};
    meet_at_point(resize_beside, &resizer);
    return resizer;
}

static void
test_the_state_of_what_was_cut(void **state)
{
    struct resizer resizer = resize_at_the_look(*state, COUNT / 4);
    assert_int_equal(ferry_buffer_state(resizer.buffer), FERRY_STATE_HOST_ONLY);
    assert_true(have_met());
    DESTROY_BUFFERS(&resizer.buffer);
}

static void
test_a_view_of_what_was_cut(void **state)
{
    struct resizer resizer = resize_at_the_look(*state, COUNT / 4);
    ferry_buffer *view = NULL;
    FAILS(FERRY_ERROR_OUT_OF_RANGE,
          ferry_buffer_view(resizer.buffer, INT, COUNT / 2, COUNT / 2, &view));
    assert_true(have_met());
    assert_null(view);
    DESTROY_BUFFERS(&resizer.buffer);
}

static void
test_a_scope_on_what_was_cut(void **state)
{
    struct resizer resizer = resize_at_the_look(*state, COUNT / 4);
    ferry_scope scope;
    void *memory;
    FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_buffer_open_host(resizer.buffer, INT, FERRY_OVERWRITE,
                                                           COUNT / 2, FERRY_REST, &scope, &memory));
    assert_true(have_met());
    DESTROY_BUFFERS(&resizer.buffer);
}

/* Resizes a buffer while a scope with the count FERRY_REST is being opened on it. The scope must
 * end at the new length. The test uses every access mode, at the host and at a device. */
static void
test_a_scope_on_a_rest_that_moves(void **state)
{
    const size_t counts[] = {COUNT / 4, 2 * COUNT};
    for (size_t i = 0; i < 2 * LENGTH(counts); i++)
        for (int access = FERRY_READ; access <= FERRY_OVERWRITE; access++) {
            struct resizer resizer = resize_at_the_look(*state, counts[i / 2]);
            ferryi_store *store = resizer.buffer->store;
            ferry_scope scope;
            void *memory;
            ferry_status status =
                i % 2 ? ferry_buffer_open_device(resizer.buffer, INT, (ferry_access)access, 0,
                                                 FERRY_REST, NULL, &scope, &memory)
                      : ferry_buffer_open_host(resizer.buffer, INT, (ferry_access)access, 0,
                                               FERRY_REST, &scope, &memory);
            OK(status);
            assert_true(have_met());
            assert_int_equal(store->claims[ferryi_scope_of(&scope)->slot].end,
                             counts[i / 2] * sizeof(int));
            OK(ferry_scope_close(&scope));
            DESTROY_BUFFERS(&resizer.buffer);
        }
}

/* A call for the rest of a buffer, while a second thread resizes the buffer. */
struct rest {
    fixture *f;
    ferry_buffer *buffer, *other; /* `other` has COUNT elements, and `buffer` at most as many */
    ferry_kernel *kernel;
    size_t count;       /* the new length of `buffer` */
    unsigned countdown; /* number of interleaving points until the resize */
    bool locks;         /* whether the call has reached the point where it has locked
                           ranges, and where a resize would wait for it */
    int memory[COUNT];
};

static ferry_status
rest_sync(struct rest *r)
{
    return ferry_buffer_sync_to(r->buffer, 0, FERRY_REST, 1, NULL);
}

static ferry_status
rest_from(struct rest *r)
{
    return ferry_buffer_copy_from(r->buffer, INT, 0, FERRY_REST, r->memory, NULL);
}

static ferry_status
rest_to(struct rest *r)
{
    return ferry_buffer_copy_to(r->buffer, INT, 0, FERRY_REST, r->memory, NULL);
}

static ferry_status
rest_fill(struct rest *r)
{
    return ferry_buffer_fill(r->buffer, INT, 0, FERRY_REST, r->memory, NULL);
}

static ferry_status
rest_into_other(struct rest *r)
{
    return ferry_buffer_copy(r->other, INT, 0, r->buffer, 0, FERRY_REST, NULL);
}

static ferry_status
rest_onto_itself(struct rest *r)
{
    return ferry_buffer_copy(r->buffer, INT, 0, r->buffer, 0, FERRY_REST, NULL);
}

static ferry_status
rest_of_region(struct rest *r)
{
    ferry_event *event;
    const ferry_copy_options options = {.convert = FERRY_CONVERT_SATURATE};
    const ferry_copy_region region = {.target = {.memory = r->memory, .element = FLOAT},
                                      .source = {.buffer = r->buffer},
                                      .count = FERRY_REST};
    FERRYI_OR_RETURN(ferry_copy_async(&region, 1, &options, &event));
    ferry_status status = ferry_event_synchronize(event);
    ferry_event_destroy(&event);
    return status;
}

static ferry_status
rest_of_regions(struct rest *r)
{
    const ferry_copy_region regions[] = {
        {.target = {.buffer = r->other}, .source = {.memory = r->memory}, .count = 10},
        {.target = {.buffer = r->other}, .source = {.buffer = r->buffer}, .count = FERRY_REST}};
    return ferry_copy(regions, 2, NULL);
}

static ferry_status
rest_of_scopes(struct rest *r)
{
    ferry_scope scopes[2];
    const ferry_argument arguments[] = {
        ferry_argument_with(ferry_buffer_argument(r->other, INT, 0, 10), FERRY_UPDATE),
        ferry_argument_with(ferry_buffer_argument(r->buffer, INT, 0, FERRY_REST), FERRY_UPDATE)};
    FERRYI_OR_RETURN(ferry_scope_open_all(arguments, 2, 0, NULL, scopes, NULL));
    /* The open scope keeps the length, so the caller may rely on it. */
    assert_int_equal(r->buffer->store->claims[ferryi_scope_of(&scopes[1])->slot].end,
                     ferry_buffer_count(r->buffer) * sizeof(int));
    ferry_scope_close_all(scopes, 2);
    return FERRY_OK;
}

static ferry_status
rest_of_launch(struct rest *r)
{
    const ferry_argument arguments[] = {ferry_buffer_argument(r->other, INT, 0, 10),
                                        ferry_buffer_argument(r->buffer, INT, 0, FERRY_REST)};
    return ferry_kernel_launch(r->kernel, ferry_grid_for(1, 1), r->f->stream, arguments, 2);
}

static ferry_status
do_nothing(const ferry_call *call, void *user)
{
    (void)call, (void)user;
    return FERRY_OK;
}

static void
resize_the_rest(void *user)
{
    struct rest *r = user;
    if (--r->countdown > 0) {
        meet_at_point(resize_the_rest, r);
        return;
    }
    r->locks = r->buffer->store->claim_count > 0 || r->other->store->claim_count > 0 ||
               r->buffer->store->word || r->other->store->word;
    if (!r->locks)
        OK(ferry_buffer_resize(r->buffer, r->count));
}

/* Makes each call that accepts FERRY_REST while another thread resizes the buffer, at each point of
 * the call before it locks the range. The call must succeed, with the old length or the new one. */
static void
test_calls_for_a_rest_that_moves(void **state)
{
    fixture *f = *state;
    ferry_status (*const calls[])(struct rest *) = {
        rest_sync,        rest_from,      rest_to,         rest_fill,      rest_into_other,
        rest_onto_itself, rest_of_region, rest_of_regions, rest_of_scopes, rest_of_launch};
    static const size_t counts[] = {COUNT / 4, COUNT};
    static struct rest r;
    need_points();
    const ferry_parameter parameters[] = {{.element = INT, .access = FERRY_UPDATE},
                                          {.element = INT, .access = FERRY_UPDATE}};
    const ferry_kernel_source source = {.name = "nothing",
                                        .host_function = do_nothing,
                                        .parameters = parameters,
                                        .parameter_count = 2};
    r = (struct rest){.f = f, .other = make_counting(f, COUNT, 0)};
    OK(ferry_kernel_create(f->context, &source, &r.kernel));
    for (size_t i = 0; i < 2 * LENGTH(calls); i++) {
        unsigned met = 0;
        r.locks = false;
        for (unsigned at = 1; !r.locks && at < 100; at++) {
            r.buffer = make_counting(f, COUNT / 2, 0);
            r.count = counts[i % 2];
            r.countdown = at;
            meet_at_point(resize_the_rest, &r);
            ferry_status status = calls[i / 2](&r);
            meet_nowhere();
            if (status != FERRY_OK)
                fail_msg("call %zu, resized to %zu at point %u: %s: %s", i / 2, r.count, at,
                         ferry_status_name(status), ferry_last_error());
            met += r.countdown == 0 && !r.locks;
            r.locks |= r.countdown > 0;
            OK(ferry_stream_synchronize(f->stream));
            DESTROY_BUFFERS(&r.buffer);
        }
        assert_true(met > 0);
    }
    ferry_kernel_destroy(&r.kernel);
    DESTROY_BUFFERS(&r.other);
}

/* Resizes a buffer while a different call allocates a block of the old length for it. The block of
 * the old length must not become the replica. */
static void
test_a_buffer_grows_while_memory_is_taken(void **state)
{
    fixture *f = *state;
    struct resizer resizer = {make_ints(f, COUNT), 200 * COUNT};
    meet_in("memory_alloc", resize_beside, &resizer);
    OK(ferry_buffer_reserve(resizer.buffer, 1));
    assert_true(have_met());
    assert_true(resizer.buffer->store->copies[1].block->requested >= 200 * COUNT * sizeof(int));
    DESTROY_BUFFERS(&resizer.buffer);
}

/* -- buffers that end -------------------------------------------------------------------------- */

static void
destroy_beside(void *user)
{
    ferry_buffer **buffers = user;
    for (int i = 0; i < FIT; i++)
        ferry_buffer_destroy(&buffers[i]);
}

/* Destroys the only handle of a buffer while an eviction copies the buffer's bytes back to the
 * host. The allocation that caused the eviction must succeed, and the buffer must be freed. */
static void
test_a_buffer_ends_while_it_is_written_back(void **state)
{
    fixture *f = *state;
    ferry_buffer *buffers[FIT] = {make_dirty(f, 4)};
    ferry_block *block;
    meet_in("copy_download", destroy_beside, buffers);
    OK(ferry_pool_allocate(device_pool(f), LIMIT - 4096, NULL, &block));
    assert_true(have_met());
    assert_int_equal(living_stores(f->context), 0);
    OK(ferry_block_free(&block, NULL));
}

/* Destroys buffers while a compaction of the pool moves their replicas. */
static void
test_buffers_end_while_memory_is_compacted(void **state)
{
    fixture *f = *state;
    ferry_buffer *left[FIT];
    ferry_scope scope;
    make_sparse(f, BLOCK_COUNT, left, FIT);
    /* When compaction runs, this buffer no longer has a handle. Only its open scope keeps it
     * alive. */
    const void *memory = open_on(left[FIT - 1], f->stream, FERRY_READ, 0, COUNT, &scope);
    ferry_buffer_destroy(&left[FIT - 1]);
    fixture_expect_log(f, "1 scopes are open");
    meet_in("copy_device", destroy_beside, left);
    OK(ferry_pool_compact(device_pool(f), NULL));
    assert_true(have_met());
    int values[COUNT];
    device_read(f, 1, values, memory, sizeof(values));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(values[i], i + 3 * (FIT - 1));
    OK(ferry_scope_close(&scope));
    assert_int_equal(living_stores(f->context), 0);
}

/* -- buffers that come ------------------------------------------------------------------------- */

enum { MANY = 20 };

struct crowd {
    fixture *f;
    ferry_buffer *buffers[MANY];
};

static void
create_beside(void *user)
{
    struct crowd *crowd = user;
    for (size_t i = 1; i < MANY; i++)
        crowd->buffers[i] = make_ints(crowd->f, i);
}

static bool
count_one(const ferry_buffer_info *info, void *user)
{
    size_t *count = user;
    assert_int_equal(info->count, MANY - 1 - *count);
    return ++*count < MANY;
}

/* ferry_context_for_each_buffer() visits all buffers, even those that are created while it
 * allocates memory for its list. */
static void
test_buffers_come_before_they_are_walked_over(void **state)
{
    struct crowd crowd = {.f = *state, .buffers = {make_ints(*state, 0)}};
    size_t seen = 0;
    short_memory_meet(sizeof(ferry_buffer_info), create_beside, &crowd);
    OK(ferry_context_for_each_buffer(crowd.f->context, count_one, &seen));
    assert_int_equal(seen, MANY);
    for (size_t i = 0; i < MANY; i++)
        ferry_buffer_destroy(&crowd.buffers[i]);
}

/* -- memory that processes share --------------------------------------------------------------- */

/* A thread that locks the buffer on the short path, in the midst of a call of the test's thread. */
struct locker {
    ferryi_store *store;
    pthread_t thread;
    unsigned countdown; /* number of interleaving points that are left until the thread starts */
    bool started;
    atomic_bool ready, over;
};

static void *
lock_a_while(void *user)
{
    struct locker *locker = user;
    if (!ferryi_store_lock_plain(locker->store)) {
        atomic_store(&locker->ready, true);
        return NULL;
    }
    atomic_store(&locker->ready, true);
    for (int i = 0; i < 50 && !atomic_load(&locker->over); i++)
        ferryi_sleep_ns(100000);
    ferryi_store_unlock_plain(locker->store);
    return NULL;
}

static void
lock_beside(void *user)
{
    struct locker *locker = user;
    if (--locker->countdown > 0) {
        meet_at_point(lock_beside, locker);
        return;
    }
    locker->started = true;
    assert_int_equal(pthread_create(&locker->thread, NULL, lock_a_while, locker), 0);
    while (!atomic_load(&locker->ready))
        ferryi_sleep_ns(10000);
}

/* A release says in the buffer's word that the memory is away. A thread that has the buffer locked
 * stores the whole word when it unlocks it, and must not undo that. */
static void
test_a_scope_meets_a_release(void **state)
{
    fixture *f = *state;
    need_points();
    const ferry_buffer_options options = {.memory = FERRY_MEMORY_SHARED, .name = "shared"};
    struct locker locker = {.started = true};
    ferry_buffer *buffer;
    ferry_scope scope;
    void *memory;
    OK(ferry_buffer_create(f->context, INT, COUNT, &options, &buffer));
    for (unsigned at = 1; locker.started && at < 50; at++) {
        locker = (struct locker){.store = buffer->store, .countdown = at};
        meet_at_point(lock_beside, &locker);
        OK(ferry_buffer_release_shared(buffer, NULL));
        meet_nowhere();
        atomic_store(&locker.over, true);
        if (locker.started)
            pthread_join(locker.thread, NULL);
        FAILS(FERRY_ERROR_INVALID_STATE,
              ferry_buffer_open_host(buffer, INT, FERRY_READ, 0, COUNT, &scope, &memory));
        OK(ferry_buffer_acquire_shared(buffer, NULL));
    }
    assert_false(locker.started);
    DESTROY_BUFFERS(&buffer);
}

int
main(void)
{
    /* A checked run keeps what is destroyed. */
    if (ferryi_is_debug_run())
        return 77;
    const struct CMUnitTest tests[] = {
        TIGHT(test_two_make_the_first_table_of_scopes),
        ROOMY(test_a_scope_meets_a_release),
        TIGHT(test_a_pin_comes_while_the_copy_is_rescued),
        TIGHT(test_a_pin_comes_while_the_buffer_grows),
        ROOMY(test_a_view_comes_while_the_buffer_grows),
        ROOMY(test_memory_is_reserved_while_the_buffer_grows),
        ROOMY(test_the_state_of_what_was_cut),
        ROOMY(test_a_view_of_what_was_cut),
        ROOMY(test_a_scope_on_what_was_cut),
        ROOMY(test_a_scope_on_a_rest_that_moves),
        ROOMY(test_calls_for_a_rest_that_moves),
        ROOMY(test_a_buffer_grows_while_memory_is_taken),
        TIGHT(test_a_buffer_ends_while_it_is_written_back),
        ROOMY(test_buffers_end_while_memory_is_compacted),
        ROOMY(test_buffers_come_before_they_are_walked_over),
        cmocka_unit_test(test_a_wrap_ends_beside_its_eviction),
        cmocka_unit_test(test_a_pin_meets_the_end_of_a_shared_copy),
        cmocka_unit_test(test_a_copy_comes_within_a_resize),
        cmocka_unit_test(test_a_buffer_goes_while_its_context_ends),
    };
    return cmocka_run_group_tests_name("meetings", tests, NULL, NULL);
}
