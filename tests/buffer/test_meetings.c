/* SPDX-License-Identifier: MIT */
/*
 * Calls that meet within a few instructions. The second one comes in the middle of the first, in an allocation or a call of the device: the
 * same as another thread that is there at just that moment, on every run.
 */
#include "tests/buffer/work.h"

#include <stdio.h>

#include "src/buffer/bodies.h"
#include "src/buffer/buffer.h"
#include "tests/support/fault.h"
#include "tests/support/lazy.h"
#include "tests/support/short_memory.h"

/* Eight blocks of 256 KiB, red zones included, fill what the device may have. */
enum { COUNT = 1000, BLOCK = 256 << 10, BLOCK_COUNT = (BLOCK - 4096) / 4, FIT = 8, LIMIT = FIT * BLOCK };
/* About so many pieces that are valid elsewhere make a map want its next chunk of memory. */
enum { CROWDED = 31 };

static fixture *
open_over(const ferryi_device_kind *kind, size_t limit)
{
    fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    fault_wrap(kind);
    fixture_open(f, &(ferry_context_options){.devices = "fault", .device_bytes_limit = limit});
    return f;
}

static int
setup(void **state)
{
    *state = open_over(&ferryi_emulated_kind, LIMIT);
    return 0;
}

static int
setup_roomy(void **state)
{
    *state = open_over(&ferryi_emulated_kind, 0);
    return 0;
}

/* Kernels run when they are waited for, in whoever waits. */
static int
setup_lazy(void **state)
{
    *state = open_over(&lazy_kind, 0);
    return 0;
}

static int
teardown(void **state)
{
    fault_hook(NULL, NULL);
    short_memory_disarm();
    fixture_teardown(state);
    assert_int_equal(fault_live(), 0);
    fault_wrap(&ferryi_emulated_kind);
    return 0;
}

/* -- who comes, and where --------------------------------------------------------------------------- */

static struct {
    const char *slot;
    void (*run)(void *user);
    void *user;
    unsigned times;
} visit;

static ferry_status
come_once(const char *slot, void *user)
{
    (void)user;
    if (strcmp(slot, visit.slot) == 0) {
        fault_hook(NULL, NULL);
        visit.times++;
        visit.run(visit.user);
    }
    return FERRY_OK;
}

/* In the middle of the next call of this slot, once. */
static void
meet_in(const char *slot, void (*run)(void *user), void *user)
{
    visit.slot = slot;
    visit.run = run;
    visit.user = user;
    visit.times = 0;
    fault_hook(come_once, NULL);
}

static ferry_status
refuse(const char *slot, void *user)
{
    (void)slot, (void)user;
    return FERRY_ERROR_DEVICE;
}

static void
settle(fixture *f)
{
    fault_hook(NULL, NULL);
    OK(ferryi_device_synchronize(device_of(f, 1)));
}

/* -- kernels ---------------------------------------------------------------------------------------- */

struct kernels {
    work w;
    ferry_kernel *failing;
    ferry_stream *streams[2];
    ferry_buffer *buffer;
};

static ferry_status
failing_body(const ferry_call *call, void *user)
{
    (void)user;
    ferry_call_fail(call, "the body does not like it");
    return FERRY_ERROR_CANCELLED;
}

/* Memory is there already: what a launch allocates then is for the launch. */
static ferry_buffer *
make_everywhere(fixture *f, int first)
{
    ferry_buffer *buffer = make_counting(f, COUNT, first);
    touch(f, buffer, 1, FERRY_READ, 0, COUNT);
    return buffer;
}

static void
kernels_open(fixture *f, struct kernels *k)
{
    ferry_parameter parameter = {INT, FERRY_UPDATE};
    ferry_kernel_source source = {.name = "failing", .host_body = failing_body, .parameters = &parameter, .parameter_count = 1};
    work_open(f, &k->w);
    OK(ferry_kernel_create(f->context, &source, &k->failing));
    for (int i = 0; i < 2; i++)
        k->streams[i] = make_stream(f, 1);
    k->buffer = make_everywhere(f, 0);
}

static void
kernels_close(struct kernels *k)
{
    DESTROY_BUFFERS(&k->buffer);
    DESTROY_STREAMS(&k->streams[0], &k->streams[1]);
    ferry_kernel_destroy(&k->failing);
    work_close(&k->w);
}

static void
launch_failing(struct kernels *k, ferry_buffer *buffer, size_t offset, size_t count)
{
    ferry_argument argument = ferry_buffer_argument(buffer, INT, offset, count);
    OK(ferry_kernel_launch(k->failing, k->streams[0], ferry_grid_for(1, 0), &argument, 1));
}

static void
expect_reason(ferry_status status)
{
    assert_int_equal(status, FERRY_ERROR_CANCELLED);
    if (!strstr(ferry_last_error(), "the body does not like it"))
        fail_msg("\"%s\" does not say why", ferry_last_error());
}

static void
launch_beside(void *user)
{
    struct kernels *k = user;
    OK(launch_add(&k->w, k->streams[1], k->buffer, COUNT / 2, COUNT / 2, 2));
}

/* Both launches make what a buffer keeps of its kernels; one is kept, and both kernels are on it. */
static void
test_two_launches_share_what_the_first_makes(void **state)
{
    fixture *f = *state;
    static const size_t parts[] = {sizeof(struct ferryi_store_extra), sizeof(struct ferryi_bodies)};
    for (size_t i = 0; i < LENGTH(parts); i++) {
        struct kernels k;
        kernels_open(f, &k);
        short_memory_meet(parts[i], launch_beside, &k);
        OK(launch_add(&k.w, k.streams[0], k.buffer, 0, COUNT / 2, 1));
        struct ferryi_bodies *bodies = atomic_load(&ferryi_store_extra_of(k.buffer->store)->bodies);
        assert_int_equal(atomic_load(&bodies->pending), 2);
        assert_true(atomic_load(&k.buffer->store->word) & FERRYI_STORE_BODIES);
        expect_counting(f, k.buffer, 0, 0, COUNT / 2, 1);
        expect_counting(f, k.buffer, 0, COUNT / 2, COUNT / 2, 2);
        assert_int_equal(atomic_load(&bodies->pending), 0);
        assert_false(atomic_load(&k.buffer->store->word) & FERRYI_STORE_BODIES);
        kernels_close(&k);
    }
}

static void
run_first_stream(void *user)
{
    struct kernels *k = user;
    expect_reason(ferry_stream_synchronize(k->streams[0]));
}

/* The input was there when the launch opened it; the kernel that writes it failed before the launch could take note of it. */
static void
test_an_input_is_lost_during_the_launch(void **state)
{
    fixture *f = *state;
    struct kernels k;
    kernels_open(f, &k);
    ferry_buffer *pair[] = {make_everywhere(f, 5), make_everywhere(f, 5)};
    /* What is kept of the target's kernels is made first: stores come by address. */
    bool sorted = (uintptr_t)pair[0]->store < (uintptr_t)pair[1]->store;
    ferry_buffer *target = pair[!sorted], *input = pair[sorted];
    launch_failing(&k, input, 0, 100);
    short_memory_meet(sizeof(struct ferryi_store_extra), run_first_stream, &k);
    expect_reason(launch_copy(&k.w, k.streams[1], target, 0, input, 50, 100));
    assert_non_null(strstr(ferry_last_error(), "input was lost"));
    expect_counting(f, target, 0, 0, COUNT, 5);
    expect_counting(f, input, 0, 100, COUNT - 100, 5);
    DESTROY_BUFFERS(&pair[0], &pair[1]);
    kernels_close(&k);
}

/* The copy that a kernel writes went when the buffer grew elsewhere: its outcome is still waited for, by its stream. */
static void
test_a_kernel_is_waited_for_without_its_copy(void **state)
{
    fixture *f = *state;
    struct kernels k;
    kernels_open(f, &k);
    unsigned done = work_done();
    OK(launch_add(&k.w, k.streams[0], k.buffer, 0, COUNT, 1));
    write_counting(f, k.buffer, 0, 0, COUNT, 7);
    OK(ferry_buffer_resize(k.buffer, 2 * COUNT));
    assert_int_equal(work_done(), done);
    assert_true(ferryi_bodies_are_pending(k.buffer->store));
    expect_counting(f, k.buffer, 1, 0, COUNT, 7);
    assert_int_equal(work_done(), done + 1);
    assert_false(ferryi_bodies_are_pending(k.buffer->store));
    expect_counting(f, k.buffer, 0, 0, COUNT, 7);
    kernels_close(&k);
}

/* What a kernel was to write was cut off: there is nothing to lose any more. */
static void
test_a_kernel_fails_beyond_the_end(void **state)
{
    fixture *f = *state;
    struct kernels k;
    kernels_open(f, &k);
    launch_failing(&k, k.buffer, COUNT / 2, COUNT / 2);
    OK(ferry_buffer_resize(k.buffer, COUNT / 4));
    expect_reason(ferry_stream_synchronize(k.streams[0]));
    expect_counting(f, k.buffer, 0, 0, COUNT / 4, 0);
    OK(ferry_buffer_resize(k.buffer, COUNT));
    expect_constant(f, k.buffer, 0, COUNT / 4, COUNT - COUNT / 4, 0);
    kernels_close(&k);
}

/* Each piece that a kernel lost is noted as such. Where there is no memory for that more is lost than need be, never less. */
static void
test_no_memory_to_tell_what_is_lost(void **state)
{
    fixture *f = *state;
    for (int parts = CROWDED - 8; parts < 2 * CROWDED; parts++) {
        struct kernels k;
        int value;
        kernels_open(f, &k);
        launch_failing(&k, k.buffer, 0, COUNT - 100);
        for (int i = 0; i < parts; i++)
            write_counting(f, k.buffer, 0, 4 * (size_t)i, 1, 7);
        short_memory_arm_for_good(1);
        ferry_status status = ferry_stream_synchronize(k.streams[0]);
        short_memory_disarm();
        assert_int_equal(status, FERRY_ERROR_CANCELLED);
        assert_int_equal(k.buffer->store->map.reserved, 0);
        for (int i = 0; i < COUNT - 100; i++) {
            status = ferry_buffer_copy_to(k.buffer, INT, (size_t)i, &value, 1);
            assert_int_equal(status, i % 4 == 0 && i < 4 * parts ? FERRY_OK : FERRY_ERROR_CANCELLED);
            if (status == FERRY_OK)
                assert_int_equal(value, i + 7);
            else
                assert_non_null(strstr(ferry_last_error(), "no memory to keep the reason"));
        }
        expect_counting(f, k.buffer, 0, COUNT - 100, 100, 0);
        kernels_close(&k);
    }
}

/* A batch hears of lost bytes as every other reader does. */
static void
test_batches_of_lost_bytes(void **state)
{
    fixture *f = *state;
    struct kernels k;
    int values[COUNT];
    ferry_batch *batch;
    kernels_open(f, &k);
    launch_failing(&k, k.buffer, 100, 200);
    expect_reason(ferry_stream_synchronize(k.streams[0]));
    OK(ferry_batch_create(f->context, &batch));
    OK(ferry_batch_copy_to(batch, k.buffer, INT, 0, values, COUNT));
    expect_reason(ferry_batch_submit(batch));
    ferry_batch_destroy(&batch);
    expect_reason(ferry_buffer_copy_to(k.buffer, INT, 0, values, COUNT));
    expect_counting(f, k.buffer, 0, 300, COUNT - 300, 0);
    kernels_close(&k);
}

/* -- scopes ----------------------------------------------------------------------------------------- */

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

enum { WRITERS = 200 };

/* Scopes of one stream that write every second element, and one that reads all of them: it relies on each write. */
static void
open_writers(fixture *f, ferry_buffer *buffer, ferry_scope *scopes)
{
    for (size_t i = 0; i < WRITERS; i++)
        queue_fill(f, f->stream, open_on(buffer, f->stream, FERRY_OVERWRITE, 2 * i, 1, &scopes[i]), -1, 1);
}

static void
expect_written(ferry_buffer *buffer)
{
    int expected[COUNT];
    for (int i = 0; i < COUNT; i++)
        expected[i] = i < 2 * WRITERS && i % 2 == 0 ? -1 : i;
    expect_ints(buffer, expected, 0, COUNT);
}

/* Each write splits the map, which runs out of the room that the writers brought: it is made in between, or there is no memory for it. */
static void
test_a_reader_relies_on_many_writers(void **state)
{
    fixture *f = *state;
    bool tripped = true;
    unsigned failures = 0;
    for (uint64_t nth = 1; tripped; nth++) {
        ferry_scope scopes[WRITERS + 1];
        void *memory;
        ferry_buffer *buffer = make_counting(f, COUNT, 0);
        touch(f, buffer, 1, FERRY_READ, 0, COUNT);
        open_writers(f, buffer, scopes);
        short_memory_arm(nth);
        ferry_status status = ferry_buffer_open_device(buffer, INT, FERRY_READ, f->stream, 0, COUNT, &scopes[WRITERS], &memory);
        tripped = short_memory_tripped();
        short_memory_disarm();
        if (status != FERRY_OK) {
            assert_int_equal(status, FERRY_ERROR_OUT_OF_MEMORY);
            failures++;
            OK(ferry_buffer_open_device(buffer, INT, FERRY_READ, f->stream, 0, COUNT, &scopes[WRITERS], &memory));
        }
        int seen[COUNT];
        device_read(f, 1, seen, memory, sizeof(seen));
        ferry_scope_close_all(scopes, WRITERS + 1);
        expect_written(buffer);
        expect_ints(buffer, seen, 0, COUNT);
        DESTROY_BUFFERS(&buffer);
    }
    assert_true(failures > 0);
}

/* An update needs room in the map twice, a resize beside its own claim. What was promised before memory ran out is given back. */
static void
test_half_a_promise_is_given_back(void **state)
{
    fixture *f = *state;
    unsigned failures = 0;
    for (size_t parts = 0; parts < 5 * CROWDED; parts++) {
        ferry_buffer *buffer = make_counting(f, COUNT, 0);
        ferry_scope scope;
        void *memory;
        touch(f, buffer, 1, FERRY_UPDATE, 0, COUNT);
        for (size_t i = 0; i < parts; i++)
            write_counting(f, buffer, 0, 4 * i, 1, 0);
        uint32_t reserved = buffer->store->map.reserved;
        short_memory_arm_for_good(1);
        ferry_status status = ferry_buffer_open_host(buffer, INT, FERRY_UPDATE, 0, COUNT, &scope, &memory);
        short_memory_disarm();
        if (status == FERRY_OK) {
            OK(ferry_scope_close(&scope));
        } else {
            assert_int_equal(status, FERRY_ERROR_OUT_OF_MEMORY);
            failures++;
        }
        assert_int_equal(buffer->store->map.reserved, reserved);
        assert_int_equal(buffer->store->claim_count, 0);
        short_memory_arm_for_good(1);
        status = ferry_buffer_resize(buffer, 2 * COUNT);
        short_memory_disarm();
        assert_int_equal(status, FERRY_ERROR_OUT_OF_MEMORY);
        assert_int_equal(ferry_buffer_count(buffer), COUNT);
        assert_int_equal(buffer->store->map.reserved, reserved);
        expect_counting(f, buffer, 0, 0, COUNT, 0);
        DESTROY_BUFFERS(&buffer);
    }
    assert_true(failures > 0);
}

/* -- copies that go --------------------------------------------------------------------------------- */

struct pinner {
    ferry_buffer *buffer;
    void *memory;
};

static void
pin_beside(void *user)
{
    struct pinner *pinner = user;
    OK(ferry_buffer_pin(pinner->buffer, 1, &pinner->memory));
}

/* The pin came: the memory stays, and has the bytes. */
static void
expect_pinned(fixture *f, struct pinner *pinner)
{
    int values[COUNT];
    assert_int_equal(visit.times, 1);
    assert_non_null(strstr(ferry_last_error(), "pinned"));
    device_read(f, 1, values, pinner->memory, sizeof(values));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(values[i], i);
    expect_counting(f, pinner->buffer, 1, 0, COUNT, 0);
    OK(ferry_buffer_unpin(pinner->buffer, 1));
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

/* While one half comes to the host the other one is written at the device: in turns, so that there is no end to it. */
static ferry_status
write_other_half(const char *slot, void *user)
{
    struct pinner *writer = user;
    if (strcmp(slot, "copy_download") == 0) {
        ferry_scope scope;
        void *memory;
        bool second = visit.times++ % 2 == 0;
        OK(ferry_buffer_open_device(writer->buffer, INT, FERRY_OVERWRITE, NULL, second ? 600 : 0, 400, &scope, &memory));
        OK(ferry_scope_close(&scope));
    }
    return FERRY_OK;
}

static void
test_writers_that_never_stop(void **state)
{
    fixture *f = *state;
    struct pinner writer = {.buffer = make_counting(f, COUNT, 0)};
    touch(f, writer.buffer, 1, FERRY_READ, 0, COUNT);
    touch(f, writer.buffer, 1, FERRY_UPDATE, 0, 400);
    touch(f, writer.buffer, 1, FERRY_UPDATE, 600, 400);
    visit.times = 0;
    fault_hook(write_other_half, &writer);
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_evict(writer.buffer, 1));
    assert_non_null(strstr(ferry_last_error(), "others keep writing"));
    fault_hook(NULL, NULL);
    expect_counting(f, writer.buffer, 1, 0, COUNT, 0);
    OK(ferry_buffer_evict(writer.buffer, 1));
    expect_counting(f, writer.buffer, 0, 0, COUNT, 0);
    DESTROY_BUFFERS(&writer.buffer);
}

/* -- memory that runs short ------------------------------------------------------------------------- */

/* It has a name: what such a buffer had is not kept for the next one. */
static ferry_buffer *
make_dirty(fixture *f, size_t blocks)
{
    ferry_buffer *buffer;
    OK(ferry_buffer_create(f->context, INT, blocks * (BLOCK / 4) - 1024, &(ferry_buffer_options){.name = "dirty"}, &buffer));
    write_counting(f, buffer, 1, 0, FERRY_REST, 3);
    return buffer;
}

static void
destroy_beside(void *user)
{
    ferry_buffer **buffers = user;
    for (int i = 0; i < FIT; i++)
        ferry_buffer_destroy(&buffers[i]);
}

static ferry_pool *
device_pool(fixture *f)
{
    ferry_pool *pool;
    OK(ferry_context_pool(f->context, 1, FERRY_MEMORY_DEVICE, &pool));
    return pool;
}

/* The last handle goes while the copy is written back: the buffer ends with it, and so does the search for more. */
static void
test_a_buffer_ends_while_it_is_written_back(void **state)
{
    fixture *f = *state;
    ferry_buffer *buffers[FIT] = {make_dirty(f, 4)};
    ferry_block *block;
    meet_in("copy_download", destroy_beside, buffers);
    OK(ferry_pool_take(device_pool(f), LIMIT - 4096, NULL, &block));
    assert_int_equal(visit.times, 1);
    assert_null(f->context->stores);
    OK(ferry_pool_give(&block, NULL));
}

/* The same while a copy moves to denser memory. */
static void
test_buffers_end_while_memory_is_compacted(void **state)
{
    fixture *f = *state;
    ferry_buffer *set[3 * FIT], *left[FIT];
    ferry_scope scope;
    for (int i = 0; i < 3 * FIT; i++) {
        set[i] = make_ints(f, BLOCK_COUNT);
        write_counting(f, set[i], 1, 0, FERRY_REST, i);
    }
    for (int i = 0; i < 3 * FIT; i++)
        if (i % 3 == 0)
            left[i / 3] = set[i];
        else
            ferry_buffer_destroy(&set[i]);
    OK(ferry_stream_synchronize(f->stream));
    /* The last handle of one went before. */
    const void *memory = open_on(left[FIT - 1], f->stream, FERRY_READ, 0, COUNT, &scope);
    ferry_buffer_destroy(&left[FIT - 1]);
    fixture_expect_log(f, "1 scopes are open");
    meet_in("copy_device", destroy_beside, left);
    OK(ferry_pool_compact(device_pool(f), NULL));
    assert_int_equal(visit.times, 1);
    int values[COUNT];
    device_read(f, 1, values, memory, sizeof(values));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(values[i], i + 3 * (FIT - 1));
    OK(ferry_scope_close(&scope));
    assert_null(f->context->stores);
}

/* Four scopes fill the table of a buffer: eviction, which has no memory to ask for, passes it over. */
static void
test_full_tables_are_passed_over(void **state)
{
    fixture *f = *state;
    ferry_buffer *dirty = make_dirty(f, FIT), *other = make_ints(f, BLOCK_COUNT);
    ferry_scope scopes[4], scope;
    void *memory;
    for (size_t i = 0; i < 4; i++)
        OK(ferry_buffer_open_host(dirty, INT, FERRY_READ, i, 1, &scopes[i], &memory));
    assert_int_equal(dirty->store->claim_count, dirty->store->claim_capacity);
    FAILS(FERRY_ERROR_OUT_OF_MEMORY, ferry_buffer_open_device(other, INT, FERRY_UPDATE, f->stream, 0, FERRY_REST, &scope, &memory));
    OK(ferry_scope_close(&scopes[0]));
    touch(f, other, 1, FERRY_UPDATE, 0, FERRY_REST);
    ferry_scope_close_all(scopes, 4);
    expect_counting(f, dirty, 0, 0, FERRY_REST, 3);
    DESTROY_BUFFERS(&dirty, &other);
}

/* A buffer whose last handle went belongs to its open scopes. */
static void
test_ended_buffers_are_passed_over(void **state)
{
    fixture *f = *state;
    ferry_buffer *ended = make_dirty(f, FIT), *other = make_ints(f, BLOCK_COUNT);
    ferry_scope scope, second;
    void *memory, *unused;
    OK(ferry_buffer_open_host(ended, INT, FERRY_READ, 0, COUNT, &scope, &memory));
    DESTROY_BUFFERS(&ended);
    fixture_expect_log(f, "1 scopes are open");
    FAILS(FERRY_ERROR_OUT_OF_MEMORY, ferry_buffer_open_device(other, INT, FERRY_UPDATE, f->stream, 0, FERRY_REST, &second, &unused));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(((int *)memory)[i], i + 3);
    OK(ferry_scope_close(&scope));
    touch(f, other, 1, FERRY_UPDATE, 0, FERRY_REST);
    DESTROY_BUFFERS(&other);
}

/* The N-th allocation fails while a dirty copy of so many pieces makes room; false when there are fewer. */
static bool
fail_to_write_back(fixture *f, size_t parts, uint64_t nth)
{
    ferry_buffer *dirty = make_dirty(f, FIT);
    ferry_block *block = NULL;
    for (size_t i = 0; i < parts; i++)
        write_counting(f, dirty, 0, 3 * i, 1, 3);
    short_memory_arm(nth);
    ferry_status status = ferry_pool_take(device_pool(f), BLOCK, NULL, &block);
    bool tripped = short_memory_tripped();
    short_memory_disarm();
    if (status != FERRY_OK)
        assert_int_equal(status, FERRY_ERROR_OUT_OF_MEMORY);
    if (block)
        OK(ferry_pool_give(&block, NULL));
    assert_int_equal(dirty->store->claim_count, 0);
    assert_int_equal(dirty->store->map.reserved, 0);
    expect_counting(f, dirty, 0, 0, FERRY_REST, 3);
    DESTROY_BUFFERS(&dirty);
    return tripped;
}

/* What is written back needs room in the map, for which there may be no memory: then all is as before. */
static void
test_no_memory_to_write_back(void **state)
{
    for (size_t parts = CROWDED - 4; parts < CROWDED + 4; parts++)
        for (uint64_t nth = 1; fail_to_write_back(*state, parts, nth);)
            nth++;
}

static ferry_status
refuse_memory(const char *slot, void *user)
{
    (void)user;
    if (strcmp(slot, "memory_alloc") != 0)
        return FERRY_OK;
    visit.times++;
    return FERRY_ERROR_OUT_OF_MEMORY;
}

/* Managed memory is the driver's to move: what others have of it never makes room. */
static void
test_managed_memory_is_not_evicted(void **state)
{
    fixture *f = *state;
    const ferry_buffer_options managed = {.memory = FERRY_MEMORY_MANAGED};
    ferry_buffer *first, *second;
    ferry_scope scope;
    void *memory, *before, *after;
    OK(ferry_buffer_create(f->context, INT, 4 << 20, &managed, &first));
    OK(ferry_buffer_create(f->context, INT, 4 << 20, &managed, &second));
    write_counting(f, first, 1, 0, FERRY_REST, 3);
    OK(ferry_buffer_pin(first, 0, &before));
    OK(ferry_buffer_unpin(first, 0));
    visit.times = 0;
    fault_hook(refuse_memory, NULL);
    FAILS(FERRY_ERROR_OUT_OF_MEMORY, ferry_buffer_open_host(second, INT, FERRY_OVERWRITE, 0, FERRY_REST, &scope, &memory));
    assert_true(visit.times > 0);
    fault_hook(NULL, NULL);
    OK(ferry_buffer_pin(first, 0, &after));
    assert_ptr_equal(before, after);
    OK(ferry_buffer_unpin(first, 0));
    expect_counting(f, first, 0, 0, FERRY_REST, 3);
    DESTROY_BUFFERS(&first, &second);
}

/* -- devices that refuse ---------------------------------------------------------------------------- */

/* One stamp stands for writes of two streams. When neither can be made to wait for the other, that is told, and goes on. */
static void
test_writes_that_cannot_be_ordered(void **state)
{
    fixture *f = *state;
    ferry_buffer *buffer = make_ints(f, COUNT);
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, 1);
    ferry_scope scopes[2];
    queue_fill(f, a, open_on(buffer, a, FERRY_OVERWRITE, 0, COUNT / 2, &scopes[0]), 1, COUNT / 2);
    queue_fill(f, b, open_on(buffer, b, FERRY_OVERWRITE, COUNT / 2, COUNT / 2, &scopes[1]), 2, COUNT / 2);
    fault_hook(refuse, NULL);
    OK(ferry_scope_close(&scopes[0]));
    OK(ferry_scope_close(&scopes[1]));
    settle(f);
    fixture_expect_log(f, "order writes of buffer");
    expect_constant(f, buffer, 0, 0, COUNT / 2, 1);
    expect_constant(f, buffer, 0, COUNT / 2, COUNT / 2, 2);
    DESTROY_STREAMS(&a, &b);
    DESTROY_BUFFERS(&buffer);
}

/* Who lent device memory gets it back although nobody can say whether its uses are over, which is told. */
static void
test_wraps_that_cannot_be_waited_for(void **state)
{
    fixture *f = *state;
    struct kernels k;
    ferry_buffer *lent;
    kernels_open(f, &k);
    void *memory = device_alloc(f, 1, COUNT * sizeof(int));
    OK(ferry_buffer_wrap_device(f->context, INT, memory, COUNT, NULL, &(ferry_wrap_options){.name = "lent"}, &lent));
    OK(launch_fill(&k.w, k.streams[0], lent, 0, COUNT, 4));
    fault_hook(refuse, NULL);
    ferry_buffer_destroy(&lent);
    settle(f);
    fixture_expect_log(f, "end the wrap of buffer \"lent\": event_");
    int values[COUNT];
    device_read(f, 1, values, memory, sizeof(values));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(values[i], 4);
    device_free(f, 1, memory);
    kernels_close(&k);
}

static ferry_status
refuse_more_memory(const char *slot, void *user)
{
    (void)user;
    return strcmp(slot, "memory_alloc") == 0 ? FERRY_ERROR_DEVICE : FERRY_OK;
}

/* A device copies within a buffer by way of memory beside it. Where there is none nothing has changed. */
static void
test_no_way_between(void **state)
{
    fixture *f = *state;
    enum { LARGE = 3 << 20 };
    ferry_buffer *buffer = make_ints(f, LARGE);
    write_counting(f, buffer, 1, 0, LARGE, 0);
    fault_hook(refuse_more_memory, NULL);
    FAILS(FERRY_ERROR_DEVICE, ferry_buffer_copy(buffer, INT, 1, buffer, 0, LARGE - 1));
    fault_hook(NULL, NULL);
    expect_counting(f, buffer, 1, 0, LARGE, 0);
    OK(ferry_buffer_copy(buffer, INT, 1, buffer, 0, LARGE - 1));
    expect_counting(f, buffer, 0, 1, LARGE - 1, -1);
    DESTROY_BUFFERS(&buffer);
}

enum { STREAMS = 70 };

/* Streams beyond those that have numbers are asked at each close, and may refuse. */
static void
test_a_refused_close_is_logged(void **state)
{
    fixture *f = *state;
    ferry_buffer *buffer = make_ints(f, COUNT);
    ferry_stream *streams[STREAMS];
    ferry_scope scope;
    for (int i = 0; i < STREAMS; i++)
        streams[i] = make_stream(f, 1);
    queue_fill(f, streams[STREAMS - 1], open_on(buffer, streams[STREAMS - 1], FERRY_OVERWRITE, 0, COUNT, &scope), 6, COUNT);
    fault_hook(refuse, NULL);
    ferry_scope_close_all(&scope, 1);
    settle(f);
    fixture_expect_log(f, "close scope 0 of 1");
    assert_int_equal(buffer->store->claim_count, 0);
    expect_constant(f, buffer, 0, 0, COUNT, 6);
    for (int i = 0; i < STREAMS; i++)
        ferry_stream_destroy(&streams[i]);
    DESTROY_BUFFERS(&buffer);
}

static void
test_streams_outlive_their_context(void **state)
{
    fixture f;
    ferry_stream *streams[STREAMS];
    (void)state;
    fixture_open(&f, &(ferry_context_options){.devices = "fault"});
    for (int i = 0; i < STREAMS; i++)
        streams[i] = make_stream(&f, 1);
    fixture_close(&f);
    for (int i = 0; i < STREAMS; i++) {
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_stream_synchronize(streams[i]));
        assert_int_equal(ferry_stream_place(streams[i]), -1);
        ferry_stream_destroy(&streams[i]);
    }
}

/* A device that says once that it is lost and knows nothing of it later. */
static ferry_status
lose_one_copy(const char *slot, void *user)
{
    (void)user;
    if (strncmp(slot, "copy_", 5) != 0)
        return FERRY_OK;
    fault_hook(NULL, NULL);
    return FERRY_ERROR_DEVICE_LOST;
}

static void
submit_lost(ferry_batch *batch)
{
    fault_hook(lose_one_copy, NULL);
    FAILS(FERRY_ERROR_DEVICE_LOST, ferry_batch_submit(batch));
    fault_hook(NULL, NULL);
}

/* What its copy is worth nobody knows: it counts as lost, on whichever side of the transfer it was. */
static void
test_a_loss_is_believed(void **state)
{
    fixture *f = *state;
    static int values[BLOCK_COUNT];
    for (int up = 0; up < 2; up++) {
        ferry_buffer *buffer = make_dirty(f, 1);
        ferry_batch *batch;
        OK(ferry_batch_create(f->context, &batch));
        if (up)
            OK(ferry_batch_copy_from(batch, buffer, INT, 0, values, BLOCK_COUNT / 2));
        else
            OK(ferry_batch_copy_to(batch, buffer, INT, 0, values, BLOCK_COUNT / 2));
        submit_lost(batch);
        ferry_batch_destroy(&batch);
        FAILS(FERRY_ERROR_DEVICE_LOST, ferry_buffer_copy_to(buffer, INT, BLOCK_COUNT / 2, values, 1));
        write_counting(f, buffer, 0, 0, FERRY_REST, 9);
        expect_counting(f, buffer, 1, 0, FERRY_REST, 9);
        DESTROY_BUFFERS(&buffer);
    }
}

#define MEETING(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
#define ROOMY_MEETING(function) cmocka_unit_test_setup_teardown(function, setup_roomy, teardown)
#define LAZY_MEETING(function) cmocka_unit_test_setup_teardown(function, setup_lazy, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        LAZY_MEETING(test_two_launches_share_what_the_first_makes),
        LAZY_MEETING(test_an_input_is_lost_during_the_launch),
        LAZY_MEETING(test_a_kernel_is_waited_for_without_its_copy),
        LAZY_MEETING(test_a_kernel_fails_beyond_the_end),
        LAZY_MEETING(test_no_memory_to_tell_what_is_lost),
        LAZY_MEETING(test_batches_of_lost_bytes),
        MEETING(test_two_make_the_first_table_of_scopes),
        MEETING(test_a_reader_relies_on_many_writers),
        MEETING(test_half_a_promise_is_given_back),
        MEETING(test_a_pin_comes_while_the_copy_is_rescued),
        MEETING(test_a_pin_comes_while_the_buffer_grows),
        MEETING(test_writers_that_never_stop),
        MEETING(test_a_buffer_ends_while_it_is_written_back),
        ROOMY_MEETING(test_buffers_end_while_memory_is_compacted),
        MEETING(test_full_tables_are_passed_over),
        MEETING(test_ended_buffers_are_passed_over),
        MEETING(test_no_memory_to_write_back),
        ROOMY_MEETING(test_managed_memory_is_not_evicted),
        MEETING(test_writes_that_cannot_be_ordered),
        MEETING(test_wraps_that_cannot_be_waited_for),
        ROOMY_MEETING(test_no_way_between),
        MEETING(test_a_refused_close_is_logged),
        MEETING(test_streams_outlive_their_context),
        ROOMY_MEETING(test_a_loss_is_believed),
    };
    return cmocka_run_group_tests_name("meetings", tests, NULL, NULL);
}
