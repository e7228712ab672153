/* SPDX-License-Identifier: MIT */
/* Tests leases: scopes on the heap that have owners and a label, and whose memory stays valid after
 * they are closed. */
#include "tests/buffer/work.h"
#include "tests/support/copy_slots.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { COUNT = 3000, BYTES = COUNT * (int)sizeof(int) };

#define LABEL "numpy, step.py:12"

static ferry_lease *
lease_with(ferry_buffer *buffer, ferry_lease_options options, void *out_pointer)
{
    ferry_lease *lease;
    void *pointer;
    OK(ferry_lease_open(buffer, INT, &options, &lease, &pointer));
    memcpy(out_pointer, &pointer, sizeof(pointer));
    return lease;
}

static ferry_lease *
lease_host(ferry_buffer *buffer, ferry_access access, int **out)
{
    return lease_with(buffer, (ferry_lease_options){.access = access, .label = LABEL}, out);
}

static void
expect_error(const char *part)
{
    if (!strstr(ferry_last_error(), part))
        fail_msg("\"%s\" is not in \"%s\"", part, ferry_last_error());
}

/* Accesses the host memory after the lease was closed, which the lease's owner may do. The content
 * is unspecified. In checked runs the function does nothing, because the access would fault. */
static void
use_stale(const fixture *f, int *memory)
{
    for (int i = 0; i < COUNT && !f->context->debug; i++)
        memory[i] += 1;
}

/* -- what a lease is --------------------------------------------------------------------------- */

static void
test_read(void **state)
{
    fixture *f = *state;
    ferry_buffer *x = make_counting(f, COUNT, 5);
    for (int i = 0; i < 3; i++) {
        int *memory;
        ferry_lease *lease = lease_host(x, FERRY_READ, &memory);
        assert_true(ferry_lease_is_open(lease));
        assert_int_equal(memory[0], 5);
        assert_int_equal(memory[COUNT - 1], 5 + COUNT - 1);
        assert_int_equal(info_of(x).leases, 1);
        assert_int_equal(info_of(x).scopes, 1);
        assert_int_equal(info_of(x).handles, 1);
        assert_int_equal(info_of(x).places_held, 0);
        OK(ferry_lease_close(lease));
        OK(ferry_lease_close(lease));
        assert_false(ferry_lease_is_open(lease));
        assert_int_equal(info_of(x).leases, 1);
        assert_int_equal(info_of(x).scopes, 0);
        OK(ferry_lease_abandon(lease));
        ferry_lease_destroy(&lease);
        assert_null(lease);
        assert_int_equal(info_of(x).leases, 0);
        /* This lease covers a part of the buffer, and is destroyed without being closed. */
        lease = lease_with(
            x, (ferry_lease_options){.access = FERRY_READ, .offset = 10, .count = 20}, &memory);
        assert_int_equal(memory[19], 5 + 29);
        ferry_lease_destroy(&lease);
        assert_int_equal(info_of(x).scopes, 0);
        touch(f, x, 1, FERRY_UPDATE, 0, COUNT);
    }
    ferry_buffer_destroy(&x);
    ferry_lease_destroy(NULL);
    assert_null(ferry_lease_retain(NULL));
    assert_false(ferry_lease_is_open(NULL));
}

static void
test_writes_count_when_it_is_closed(void **state)
{
    fixture *f = *state;
    ferry_buffer *x = make_counting(f, COUNT, 0);
    touch(f, x, 1, FERRY_READ, 0, COUNT);
    for (int i = 0; i < 2; i++) {
        int *memory;
        ferry_lease *lease = lease_host(x, i ? FERRY_OVERWRITE : FERRY_UPDATE, &memory);
        for (int j = 0; j < COUNT; j++)
            memory[j] = j + 100 + i;
        if (i)
            ferry_lease_destroy(&lease);
        else
            OK(ferry_lease_close(lease));
        expect_counting(f, x, 1, 0, COUNT, 100 + i);
        ferry_lease_destroy(&lease);
    }
    ferry_buffer_destroy(&x);
}

static void
test_an_abandoned_write_does_not_count(void **state)
{
    fixture *f = *state;
    ferry_buffer *x = make_counting(f, COUNT, 0);
    touch(f, x, 1, FERRY_READ, 0, COUNT);
    int *memory;
    ferry_lease *lease = lease_host(x, FERRY_UPDATE, &memory);
    if (!f->coherent)
        memory[0] = 77;
    OK(ferry_lease_abandon(lease));
    OK(ferry_lease_close(lease));
    assert_false(ferry_lease_is_open(lease));
    ferry_lease_destroy(&lease);
    expect_counting(f, x, 0, 0, COUNT, 0);
    ferry_buffer_destroy(&x);
}

/* Opens a READ scope on the buffer `user` inside a progress callback. Such a callback may do this
 * only if the scope needs no transfer. */
static bool
read_inside(size_t done, size_t total, void *user)
{
    ferry_scope scope;
    void *memory;
    (void)done;
    (void)total;
    if (ferry_buffer_open_host(user, INT, FERRY_READ, 0, FERRY_REST, &scope, &memory) != FERRY_OK)
        return false;
    OK(ferry_scope_close(&scope));
    return true;
}

/* Checks that a READ scope at the host opens without a transfer. The function first makes the bytes
 * current at the host, because an abandoned write may have left them current only elsewhere. */
static void
expect_read_hit(fixture *f, ferry_buffer *buffer, ferry_buffer *other)
{
    static const int values[COUNT];
    touch(f, buffer, 0, FERRY_READ, 0, COUNT);
    OK(ferry_buffer_copy_from(other, INT, 0, COUNT, values,
                              &(ferry_copy_options){.chunk_bytes = BYTES / 2,
                                                    .keep_going = read_inside,
                                                    .user = buffer}));
}

enum end { DESTROY, CLOSE, ABANDON, ENDS };

static void
end_by(ferry_lease *lease, enum end end)
{
    if (end == CLOSE)
        OK(ferry_lease_close(lease));
    if (end == ABANDON)
        OK(ferry_lease_abandon(lease));
    ferry_lease_destroy(&lease);
}

static void
test_reads_are_hits_after_it(void **state)
{
    fixture *f = *state;
    if (f->context->debug)
        skip(); /* a checked run has no hits */
    ferry_buffer *x = make_counting(f, COUNT, 0), *other = make_ints(f, COUNT);
    expect_read_hit(f, x, other);
    for (ferry_access access = FERRY_READ; access <= FERRY_OVERWRITE; access++)
        for (enum end end = DESTROY; end < (access == FERRY_OVERWRITE ? ABANDON : ENDS); end++) {
            int *memory;
            end_by(lease_host(x, access, &memory), end);
            expect_read_hit(f, x, other);

            /* A second lease of the same buffer stays open while the next lease is opened and
             * ended. */
            ferry_lease *beside = lease_with(
                x, (ferry_lease_options){.access = FERRY_READ, .offset = COUNT / 2}, &memory);
            end_by(
                lease_with(x, (ferry_lease_options){.access = access, .count = COUNT / 2}, &memory),
                end);
            expect_read_hit(f, x, other);
            ferry_lease_destroy(&beside);

            ferry_lease *on_stream = lease_with(
                x, (ferry_lease_options){.access = access, .stream = f->stream}, &memory);
            end_by(on_stream, end);
            expect_read_hit(f, x, other);
        }
    DESTROY_BUFFERS(&x, &other);
}

static void
test_owners(void **state)
{
    fixture *f = *state;
    ferry_buffer *x = make_counting(f, COUNT, 1);
    int *memory;
    ferry_lease *lease = lease_host(x, FERRY_READ, &memory), *second = ferry_lease_retain(lease),
                *third = ferry_lease_retain(second);
    assert_ptr_equal(lease, second);
    ferry_lease_destroy(&lease);
    assert_true(ferry_lease_is_open(second));
    OK(ferry_lease_close(third));
    ferry_lease_destroy(&third);
    assert_false(ferry_lease_is_open(second));
    assert_int_equal(info_of(x).leases, 1);
    use_stale(f, memory);
    ferry_lease_destroy(&second);
    assert_int_equal(info_of(x).leases, 0);
    ferry_buffer_destroy(&x);
}

static void
test_no_elements(void **state)
{
    fixture *f = *state;
    ferry_buffer *x = make_ints(f, 0);
    for (int place = 0; place <= f->places; place++) {
        void *memory = f;
        ferry_lease *lease =
            lease_with(x, (ferry_lease_options){.access = FERRY_UPDATE, .place = place}, &memory);
        assert_null(memory);
        assert_true(ferry_lease_is_open(lease));
        assert_int_equal(info_of(x).leases, 1);
        OK(ferry_lease_close(lease));
        assert_false(ferry_lease_is_open(lease));
        ferry_lease_destroy(&lease);
    }
    ferry_buffer_destroy(&x);
}

/* -- what it keeps ----------------------------------------------------------------------------- */

/* A lease keeps its buffer alive, and destroying the buffer's handle logs no error. The teardown
 * fails if an error was logged. */
static void
test_it_keeps_the_buffer(void **state)
{
    fixture *f = *state;
    for (int how = 0; how < 4; how++) {
        ferry_buffer *x = make_counting(f, COUNT, 3), *view;
        OK(ferry_buffer_view(x, INT, 100, 50, &view));
        touch(f, x, 1, FERRY_READ, 0, COUNT);
        int *memory;
        ferry_lease *lease =
            lease_host(how & 1 ? view : x, how & 2 ? FERRY_UPDATE : FERRY_READ, &memory);
        ferry_buffer_destroy(&view);
        ferry_buffer_destroy(&x);
        assert_int_equal(memory[0], how & 1 ? 103 : 3);
        assert_true(ferry_lease_is_open(lease));
        if (how & 2) {
            OK(ferry_lease_close(lease));
            if (!f->context->debug)
                memory[0] = 1;
        }
        ferry_lease_destroy(&lease);
    }
    assert_int_equal(living_stores(f->context), 0);
}

/* The address of a closed lease stays valid, whatever other calls do to the buffer. The content at
 * the address is unspecified. */
static void
test_memory_outlives_the_end(void **state)
{
    fixture *f = *state;
    ferry_buffer *x = make_counting(f, COUNT, 0);
    int *memory, *again;
    ferry_lease *lease = lease_host(x, FERRY_UPDATE, &memory);
    OK(ferry_lease_close(lease));
    touch(f, x, 1, FERRY_UPDATE, 0, COUNT);
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_evict(x, 0));
    expect_error(LABEL);
    use_stale(f, memory);
    if (!f->coherent)
        expect_counting(f, x, 1, 0, COUNT, 0);
    OK(ferry_buffer_invalidate(x, 0, FERRY_REST, 0));
    use_stale(f, memory);
    OK(ferry_buffer_discard(x, 0, FERRY_REST));
    use_stale(f, memory);
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_resize(x, COUNT + 1));
    expect_error("1 lease keeps its memory, held by " LABEL);
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_resize(x, 1));
    FAILS(FERRY_ERROR_INVALID_STATE,
          ferry_buffer_release(x, 0)); /* a lease does not count as a hold */
    write_counting(f, x, 0, 0, COUNT, 9);
    if (!f->context->debug)
        assert_int_equal(memory[0], 9); /* the same memory */
    ferry_lease *second = lease_host(x, FERRY_READ, &again);
    assert_ptr_equal(again, memory);
    ferry_lease_destroy(&second);
    ferry_lease_destroy(&lease);
    OK(ferry_buffer_evict(x, 1));
    OK(ferry_buffer_resize(x, 1));
    expect_counting(f, x, 0, 0, 1, 9);
    ferry_buffer_destroy(&x);
}

static void
count_release(void *memory, void *user)
{
    (void)memory;
    atomic_fetch_add((atomic_int *)user, 1);
}

static void
test_wraps_end_with_it(void **state)
{
    fixture *f = *state;
    static int values[COUNT];
    atomic_int released = 0;
    ferry_buffer *x;
    int *memory;
    OK(ferry_buffer_wrap_host(f->context, INT, COUNT, values,
                              &(ferry_wrap_options){.on_release = count_release, .user = &released},
                              &x));
    ferry_lease *lease = lease_host(x, FERRY_UPDATE, &memory);
    assert_ptr_equal(memory, values);
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_unwrap(&x, NULL));
    expect_error(LABEL);
    OK(ferry_lease_close(lease));
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_unwrap(&x, NULL));
    write_counting(f, x, 1, 0, COUNT, 4);
    ferry_buffer_destroy(&x);
    assert_int_equal(released, 0);
    ferry_lease_destroy(&lease);
    assert_int_equal(released, 1);
    assert_int_equal(values[7], 11); /* copied back from the device */
    OK(ferry_buffer_wrap_host(f->context, INT, COUNT, values, NULL, &x));
    lease = lease_host(x, FERRY_READ, &memory);
    ferry_lease_destroy(&lease);
    OK(ferry_buffer_unwrap(&x, NULL));
}

/* A replica that a lease uses is not evicted if memory runs short, whether the lease is open or
 * closed. */
static void
test_eviction_leaves_it_alone(void **state)
{
    fixture *f = *state;
    if (f->coherent)
        skip();
    fixture small;
    enum { MANY = 100000, BUFFERS = 8 }; /* 400 kB each, in 2 MiB of device memory */
    fixture_open(&small, &(ferry_context_options){.device_bytes_limit = (size_t)2 << 20});
    ferry_buffer *x[BUFFERS];
    ferry_lease *lease[2];
    void *memory[2], *again;
    for (int i = 0; i < BUFFERS; i++) {
        OK(ferry_buffer_create(small.context, INT, MANY, NULL, &x[i]));
        write_counting(&small, x[i], 1, 0, COUNT, i);
        if (i < 2)
            lease[i] = lease_with(
                x[i], (ferry_lease_options){.access = FERRY_READ, .stream = small.stream},
                &memory[i]);
        if (i == 0)
            OK(ferry_lease_close(lease[0]));
    }
    for (int i = 0; i < 2; i++) {
        ferry_lease *second = lease_with(
            x[i], (ferry_lease_options){.access = FERRY_READ, .stream = small.stream}, &again);
        assert_ptr_equal(again, memory[i]);
        ferry_lease_destroy(&second);
        ferry_lease_destroy(&lease[i]);
    }
    for (int i = 0; i < BUFFERS; i++) {
        expect_counting(&small, x[i], 1, 0, COUNT, i);
        ferry_buffer_destroy(&x[i]);
    }
    fixture_close(&small);
}

/* -- who holds it ------------------------------------------------------------------------------ */

struct visit {
    unsigned leases;
    char labels[128];
};

static bool
look(const ferry_buffer_info *info, void *user)
{
    struct visit *visit = user;
    if (strcmp(info->name, "heights") == 0) {
        visit->leases = info->leases;
        snprintf(visit->labels, sizeof(visit->labels), "%s", info->lease_labels);
    }
    return true;
}

static void
test_labels(void **state)
{
    fixture *f = *state;
    ferry_buffer *x;
    ferry_scope scope;
    int *memory;
    void *pointer;
    char text[4096];
    struct visit visit = {0};
    OK(ferry_buffer_create(f->context, INT, 12, &(ferry_buffer_options){.name = "heights"}, &x));
    ferry_lease *lease = lease_host(x, FERRY_READ, &memory),
                *other = lease_with(
                    x, (ferry_lease_options){.access = FERRY_READ, .label = "torch"}, &memory);
    ferry_lease *nameless = lease_with(x, (ferry_lease_options){.access = FERRY_READ}, &memory);
    OK(ferry_lease_close(other));
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_open_host(x, INT, FERRY_UPDATE, 0, 12, &scope, &pointer));
    expect_error("an open scope overlaps and one of the two writes: read_host of bytes 0 to 48");
    expect_error(", held by " LABEL);
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_wait_available(x, FERRY_UPDATE, 0));
    expect_error(", held by " LABEL);
    ferry_context_describe(f->context, text, sizeof(text));
    assert_non_null(strstr(text, "3 leases, held by torch; " LABEL));
    OK(ferry_context_for_each_buffer(f->context, look, &visit));
    assert_int_equal(visit.leases, 3);
    assert_string_equal(visit.labels, "torch; " LABEL);
    assert_string_equal(info_of(x).lease_labels, "");
    ferry_lease_destroy(&lease);
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_open_host(x, INT, FERRY_UPDATE, 0, 12, &scope, &pointer));
    expect_error(", held by a lease");
    ferry_lease_destroy(&nameless);
    OK(ferry_buffer_open_host(x, INT, FERRY_UPDATE, 0, 12, &scope, &pointer));
    OK(ferry_scope_close(&scope));
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_resize(x, 13));
    expect_error("held by torch");
    ferry_lease_destroy(&other);
    OK(ferry_context_for_each_buffer(f->context, look, &visit));
    assert_string_equal(visit.labels, "");
    /* While this lease is open, conflicting calls fail. Their messages contain the label of the
     * lease. */
    lease = lease_host(x, FERRY_UPDATE, &memory);
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_copy_to(x, INT, 0, 1, memory, NULL));
    expect_error("update_host of bytes 0 to 48");
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_invalidate(x, 0, FERRY_REST, 0));
    expect_error(LABEL);
    ferry_lease_destroy(&lease);
    ferry_buffer_destroy(&x);
}

/* -- devices ----------------------------------------------------------------------------------- */

static void
test_device_with_a_stream(void **state)
{
    fixture *f = *state;
    ferry_stream *own = make_stream(f, f->places);
    ferry_buffer *x = make_counting(f, COUNT, 1);
    void *memory;
    for (int i = 0; i < 3; i++) {
        ferry_lease *lease =
            lease_with(x,
                       (ferry_lease_options){
                           .access = FERRY_OVERWRITE, .stream = own, .place = i ? f->places : 0},
                       &memory);
        queue_fill(f, own, memory, 40 + i, COUNT);
        if (i == 1)
            OK(ferry_lease_close(lease));
        ferry_lease_destroy(&lease);
        expect_constant(f, x, 0, 0, COUNT, 40 + i);
    }
    ferry_buffer_destroy(&x);
    ferry_stream_destroy(&own);
}

/* The holder of the lease works on a driver stream that Ferry does not know. */
static void
test_device_without_a_stream(void **state)
{
    fixture *f = *state;
    ferryi_device *device = device_of(f, 1);
    void *native, *memory;
    int *pinned;
    OK(device->ops->stream_create(device, &native));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, 2 * BYTES, (void **)&pinned));
    ferry_buffer *x = make_counting(f, COUNT, 1);
    for (int i = 0; i < 6; i++) {
        ferry_access access = i % 2 ? FERRY_UPDATE : FERRY_OVERWRITE;
        ferry_lease *lease = lease_with(
            x, (ferry_lease_options){.access = access, .place = 1, .label = "torch"}, &memory);
        /* While the lease is open for writing, every other scope or lease of the buffer is refused
         * on any stream. Ferry could not order the work of such a scope with the work of the
         * lease's holder. */
        ferry_scope scope;
        void *pointer;
        FAILS(FERRY_ERROR_BUSY,
              ferry_buffer_open_device(x, INT, FERRY_READ, 0, 1, f->stream, &scope, &pointer));
        expect_error("_device of bytes 0 to");
        expect_error("held by torch");
        ferry_lease *second;
        FAILS(FERRY_ERROR_BUSY,
              ferry_lease_open(x, INT, &(ferry_lease_options){.access = FERRY_READ, .place = 1},
                               &second, &pointer));
        for (int j = 0; j < COUNT; j++)
            pinned[j] = 50 + i;
        OK(device->ops->copy_upload(device, memory, pinned, BYTES, native));
        if (i % 3)
            OK(ferry_lease_close(lease));
        ferry_lease_destroy(&lease);
        expect_constant(f, x, 0, 0, COUNT, 50 + i);

        /* The bytes are current when this READ lease is opened. Later writes still wait for the
         * reads that the lease's holder queues. */
        lease = lease_with(x, (ferry_lease_options){.access = FERRY_READ, .place = 1}, &memory);
        memset(pinned + COUNT, 0, BYTES);
        OK(device->ops->copy_download(device, pinned + COUNT, memory, BYTES, native));
        ferry_lease_destroy(&lease);
        write_counting(f, x, 1, 0, COUNT, 0);
        OK(ferryi_device_synchronize(device));
        for (int j = 0; j < COUNT; j++)
            assert_int_equal(pinned[COUNT + j], 50 + i);
        /* Later writes wait for the work of an abandoned lease, just as for the work of a closed
         * lease. */
        touch(f, x, 0, FERRY_READ, 0, COUNT);
        if (!f->coherent) {
            lease =
                lease_with(x, (ferry_lease_options){.access = FERRY_UPDATE, .place = 1}, &memory);
            OK(device->ops->copy_upload(device, memory, pinned, BYTES, native));
            OK(ferry_lease_abandon(lease));
            ferry_lease_destroy(&lease);
        }
        expect_counting(f, x, 1, 0, COUNT, 0);
    }
    ferry_buffer_destroy(&x);
    OK(ferryi_device_synchronize(device));
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));
    OK(device->ops->stream_destroy(device, native));
}

/* -- statuses ---------------------------------------------------------------------------------- */

#define REFUSED(status, ...)                                                                       \
    do {                                                                                           \
        snapshot before_ = take_snapshot(x);                                                       \
        lease = (void *)f;                                                                         \
        pointer = f;                                                                               \
        FAILS(status,                                                                              \
              ferry_lease_open(x, INT, &(ferry_lease_options){__VA_ARGS__}, &lease, &pointer));    \
        assert_ptr_equal(lease, f);                                                                \
        assert_ptr_equal(pointer, f);                                                              \
        expect_unchanged(x, &before_);                                                             \
    } while (0)

#define INVALID FERRY_ERROR_INVALID_ARGUMENT

static void
test_statuses(void **state)
{
    fixture *f = *state, foreign;
    ferry_buffer *x = make_counting(f, COUNT, 0), *constant;
    ferry_lease *lease;
    ferry_scope scope;
    void *pointer;
    static const int values[4];
    const ferry_lease_options reads = {.access = FERRY_READ};
    fixture_open(&foreign, NULL);
    REFUSED(INVALID, .label = "no access");
    expect_error("options.access is needed");
    REFUSED(INVALID, .access = (ferry_access)4);
    REFUSED(INVALID, .access = FERRY_READ, .place = -1);
    REFUSED(INVALID, .access = FERRY_READ, .place = f->places + 1);
    REFUSED(FERRY_ERROR_OUT_OF_RANGE, .access = FERRY_READ, .offset = COUNT + 1);
    REFUSED(FERRY_ERROR_OUT_OF_RANGE, .access = FERRY_READ, .offset = 1, .count = COUNT);
    REFUSED(FERRY_ERROR_OUT_OF_RANGE, .access = FERRY_UPDATE, .place = 1, .offset = 1,
            .count = SIZE_MAX - 1);
    REFUSED(FERRY_ERROR_WRONG_CONTEXT, .access = FERRY_READ, .stream = foreign.stream);
    if (f->places > 1)
        REFUSED(INVALID, .access = FERRY_READ, .stream = f->stream, .place = 2);
    FAILS(INVALID, ferry_lease_open(NULL, INT, &reads, &lease, &pointer));
    FAILS(INVALID, ferry_lease_open(x, NULL, &reads, &lease, &pointer));
    FAILS(INVALID, ferry_lease_open(x, INT, NULL, &lease, &pointer));
    FAILS(INVALID, ferry_lease_open(x, INT, &reads, NULL, &pointer));
    FAILS(INVALID, ferry_lease_open(x, INT, &reads, &lease, NULL));
    FAILS(FERRY_ERROR_WRONG_TYPE, ferry_lease_open(x, FLOAT, &reads, &lease, &pointer));
    FAILS(INVALID, ferry_lease_close(NULL));
    FAILS(INVALID, ferry_lease_abandon(NULL));
    open_at(f, x, 0, FERRY_UPDATE, 0, COUNT, &scope);
    REFUSED(FERRY_ERROR_BUSY, .access = FERRY_READ);
    REFUSED(FERRY_ERROR_BUSY, .access = FERRY_UPDATE, .place = 1);
    REFUSED(FERRY_ERROR_BUSY, .access = FERRY_OVERWRITE, .stream = f->stream);
    OK(ferry_scope_close(&scope));
    OK(ferry_buffer_wrap_host(f->context, INT, 4, (void *)(uintptr_t)values,
                              &(ferry_wrap_options){.read_only = true}, &constant));
    FAILS(INVALID, ferry_lease_open(constant, INT, &(ferry_lease_options){.access = FERRY_UPDATE},
                                    &lease, &pointer));
    assert_int_equal(info_of(constant).leases, 0);
    DESTROY_BUFFERS(&constant, &x);
    fixture_close(&foreign);
}

static void
test_typed(void **state)
{
    fixture *f = *state;
    ferry_float_buffer x;
    float *values;
    ferry_lease *lease;
    OK(ferry_float_create(f->context, COUNT, NULL, &x));
    OK(ferry_float_lease(x, &(ferry_lease_options){.access = FERRY_OVERWRITE, .label = LABEL},
                         &lease, &values));
    for (int i = 0; i < COUNT; i++)
        values[i] = 0.5f * (float)i;
    ferry_lease_destroy(&lease);
    float last;
    OK(ferry_float_copy_to(x, COUNT - 1, 1, &last, NULL));
    assert_true(last == 0.5f * (COUNT - 1));
    FAILS(INVALID, ferry_float_lease(x, NULL, &lease, &values));
    FAILS(INVALID,
          ferry_float_lease(x, &(ferry_lease_options){.access = FERRY_READ}, &lease, NULL));
    ferry_float_destroy(&x);
}

/* -- threads ----------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 300 };

static void *
share_and_drop(void *argument)
{
    ferry_lease *lease = argument;
    for (int i = 0; i < ROUNDS; i++) {
        ferry_lease *mine = ferry_lease_retain(lease);
        if (i == ROUNDS / 2)
            (void)ferry_lease_close(mine);
        (void)ferry_lease_is_open(mine);
        ferry_lease_destroy(&mine);
    }
    ferry_lease_destroy(&lease);
    return NULL;
}

/* Any of several threads may release the last reference to the lease, while the buffer is
 * destroyed. */
static void
test_owners_on_threads(void **state)
{
    fixture *f = *state;
    for (int round = 0; round < 20; round++) {
        ferry_buffer *x = make_counting(f, COUNT, 0);
        int *memory;
        ferry_lease *lease = lease_host(x, round % 2 ? FERRY_UPDATE : FERRY_READ, &memory);
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            ferry_lease *given = ferry_lease_retain(lease);
            assert_int_equal(pthread_create(&threads[i], NULL, share_and_drop, given), 0);
        }
        ferry_buffer_destroy(&x);
        ferry_lease_destroy(&lease);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(living_stores(f->context), 0);
}

struct many {
    fixture *f;
    ferry_buffer *buffer;
    atomic_int wrong;
};

static void *
open_and_drop(void *argument)
{
    struct many *many = argument;
    for (int i = 0; i < ROUNDS; i++) {
        ferry_lease *lease;
        void *memory;
        ferry_lease_options options = {
            .access = FERRY_READ, .label = i % 3 ? LABEL : NULL, .place = i % 5 == 0};
        bool good = ferry_lease_open(many->buffer, INT, &options, &lease, &memory) == FERRY_OK;
        if (good && i % 2)
            good = ferry_lease_close(lease) == FERRY_OK;
        if (good)
            ferry_lease_destroy(&lease);
        atomic_fetch_add(&many->wrong, !good);
    }
    return NULL;
}

static void
test_many_at_once(void **state)
{
    fixture *f = *state;
    struct many many = {f, make_counting(f, COUNT, 0), 0};
    pthread_t threads[THREADS];
    char text[4096];
    touch(f, many.buffer, 1, FERRY_READ, 0, COUNT);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_drop, &many), 0);
    for (int i = 0; i < 50; i++)
        ferry_context_describe(f->context, text, sizeof(text));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(many.wrong, 0);
    assert_int_equal(info_of(many.buffer).leases, 0);
    expect_counting(f, many.buffer, 0, 0, COUNT, 0);
    ferry_buffer_destroy(&many.buffer);
}

/* -- who goes last ----------------------------------------------------------------------------- */

/* The objects that are destroyed in every order, by different threads and callbacks. */
enum what { CONTEXT, BUFFER, VIEW, LEASE, WHATS };
enum where { HERE, ON_A_THREAD, IN_ON_RELEASE, WHERES };

struct scene {
    ferry_context *context;
    ferry_buffer *buffer, *view;
    ferry_lease *lease;
    int order[WHATS];
    atomic_int ended; /* whether the context ended on a separate thread */
    atomic_int alive; /* number of buffers that outlived the context */
    atomic_int errors;
};

static void
note_end(ferry_log_level level, const char *message, void *user)
{
    struct scene *scene = user;
    if (level == FERRY_LOG_ERROR)
        atomic_fetch_add(strstr(message, "is still alive") ? &scene->alive : &scene->errors, 1);
    if (strstr(message, "has ended it"))
        atomic_store(&scene->ended, 1);
}

static void
destroy_in_order(struct scene *scene)
{
    for (int i = 0; i < WHATS; i++) {
        switch (scene->order[i]) {
        case CONTEXT:
            ferry_context_destroy(&scene->context);
            break;
        case BUFFER:
            ferry_buffer_destroy(&scene->buffer);
            break;
        case VIEW:
            ferry_buffer_destroy(&scene->view);
            break;
        default:
            ferry_lease_destroy(&scene->lease);
            break;
        }
    }
}

static void *
destroy_on_thread(void *scene)
{
    destroy_in_order(scene);
    return NULL;
}

static void
destroy_in_on_release(void *memory, void *scene)
{
    (void)memory;
    destroy_in_order(scene);
}

static int
position(const struct scene *scene, int what)
{
    int i = 0;
    while (scene->order[i] != what)
        i++;
    return i;
}

/* A log callback that runs while the context is destroyed. The callback opens a lease on a
 * different buffer of the context. That call must fail and leak nothing. */
struct late {
    ferry_buffer *other;
    ferry_status status;
    int calls;
};

static void
open_late(ferry_log_level level, const char *message, void *user)
{
    struct late *late = user;
    ferry_lease *lease;
    void *memory;
    (void)level;
    if (late->calls++ > 0 || !strstr(message, "is still alive"))
        return;
    late->status = ferry_lease_open(late->other, INT, &(ferry_lease_options){.access = FERRY_READ},
                                    &lease, &memory);
}

static void
test_no_lease_begins_when_the_context_ends(void **state)
{
    (void)state;
    struct late late = {0};
    ferry_context *context;
    ferry_buffer *first, *x;
    OK(ferry_context_create(&(ferry_context_options){.log = open_late, .log_user = &late},
                            &context));
    late.calls = 0;
    OK(ferry_buffer_create(context, INT, COUNT, NULL, &late.other));
    OK(ferry_buffer_fill(late.other, INT, 0, COUNT, &(int){5}, NULL));
    OK(ferry_buffer_create(context, INT, COUNT, NULL, &first));
    x = late.other;
    ferry_context_destroy(&context);
    assert_true(late.calls > 0);
    assert_int_equal(late.status, FERRY_ERROR_INVALID_STATE);
    ferry_buffer_destroy(&first);
    ferry_buffer_destroy(&x);
}

static void
drop_once(fixture *f, const int *order, enum where where, bool closed)
{
    static int outer[4];
    struct scene scene = {0};
    int *memory;
    pthread_t thread;
    memcpy(scene.order, order, sizeof(scene.order));
    OK(ferry_context_create(&(ferry_context_options){.log = note_end, .log_user = &scene},
                            &scene.context));
    OK(ferry_buffer_create(scene.context, INT, COUNT, NULL, &scene.buffer));
    OK(ferry_buffer_fill(scene.buffer, INT, 0, COUNT, &(int){5}, NULL));
    OK(ferry_buffer_view(scene.buffer, INT, 0, COUNT, &scene.view));
    scene.lease = lease_host(scene.view, FERRY_UPDATE, &memory);
    if (closed)
        OK(ferry_lease_close(scene.lease));
    use_stale(f, memory);
    if (where == HERE) {
        destroy_in_order(&scene);
    } else if (where == ON_A_THREAD) {
        assert_int_equal(pthread_create(&thread, NULL, destroy_on_thread, &scene), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    } else {
        ferry_buffer *wrap;
        OK(ferry_buffer_wrap_host(
            f->context, INT, 4, outer,
            &(ferry_wrap_options){.on_release = destroy_in_on_release, .user = &scene}, &wrap));
        ferry_buffer_destroy(&wrap);
    }
    assert_true(!scene.context && !scene.buffer && !scene.view && !scene.lease);
    bool apart = where == IN_ON_RELEASE || position(&scene, LEASE) > position(&scene, CONTEXT);
    for (int i = 0; apart && !atomic_load(&scene.ended) && i < 20000; i++)
        usleep(1000);
    assert_int_equal(scene.ended, apart);
    assert_int_equal(scene.errors, 0);
    int end = position(&scene, LEASE) > position(&scene, CONTEXT) ? position(&scene, LEASE)
                                                                  : position(&scene, CONTEXT);
    bool late = position(&scene, BUFFER) > end || position(&scene, VIEW) > end;
    if (!apart || !late)
        assert_int_equal(scene.alive, late);
}

static void
test_any_of_them_may_go_last(void **state)
{
    fixture *f = *state;
    for (int code = 0; code < 256; code++) {
        int order[WHATS] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6 & 3};
        if (((1 << order[0]) | (1 << order[1]) | (1 << order[2]) | (1 << order[3])) != 15)
            continue;
        for (int where = 0; where < WHERES; where++)
            drop_once(f, order, (enum where)where, code & 1);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_read),
        TEST(test_writes_count_when_it_is_closed),
        TEST(test_an_abandoned_write_does_not_count),
        TEST(test_reads_are_hits_after_it),
        TEST(test_owners),
        TEST(test_no_elements),
        TEST(test_it_keeps_the_buffer),
        TEST(test_memory_outlives_the_end),
        TEST(test_wraps_end_with_it),
        TEST(test_eviction_leaves_it_alone),
        TEST(test_labels),
        TEST(test_device_with_a_stream),
        TEST(test_device_without_a_stream),
        TEST(test_statuses),
        TEST(test_typed),
        TEST(test_owners_on_threads),
        TEST(test_many_at_once),
        TEST(test_no_lease_begins_when_the_context_ends),
        TEST(test_any_of_them_may_go_last),
    };
    return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
