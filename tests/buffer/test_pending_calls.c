/* SPDX-License-Identifier: MIT */
/* Tests kernels whose success or failure is known only after a wait. Each buffer keeps a list of
 * such kernels. If a kernel fails, the bytes that it writes are lost. */
#include "tests/buffer/meeting.h"

#include "src/buffer/buffer.h"
#include "src/store/pending_calls.h"
#include "tests/support/copies.h"

enum { COUNT = 1000 };

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

/* Creates a buffer with replicas at the host and at place 1, so that a launch need not allocate a
 * replica. */
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
    ferry_parameter parameter = {.element = INT, .access = FERRY_UPDATE};
    ferry_kernel_source source = {.name = "failing",
                                  .host_function = failing_body,
                                  .parameters = &parameter,
                                  .parameter_count = 1};
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
    OK(ferry_kernel_launch(k->failing, ferry_grid_for(1, 0), k->streams[0], &argument, 1));
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

/* Two launches on one buffer allocate its list of pending kernels at the same time. Ferry must keep
 * only one list, and both kernels must be on it. */
static void
test_two_launches_share_what_the_first_makes(void **state)
{
    fixture *f = *state;
    struct kernels k;
    kernels_open(f, &k);
    short_memory_meet(sizeof(struct ferryi_pending_calls), launch_beside, &k);
    OK(launch_add(&k.w, k.streams[0], k.buffer, 0, COUNT / 2, 1));
    struct ferryi_pending_calls *pending_calls =
        atomic_load(&ferryi_store_cold_of(k.buffer->store)->pending_calls);
    assert_int_equal(atomic_load(&pending_calls->pending), 2);
    assert_true(atomic_load(&k.buffer->store->word) & FERRYI_STORE_PENDING_CALLS);
    expect_counting(f, k.buffer, 0, 0, COUNT / 2, 1);
    expect_counting(f, k.buffer, 0, COUNT / 2, COUNT / 2, 2);
    assert_int_equal(atomic_load(&pending_calls->pending), 0);
    assert_false(atomic_load(&k.buffer->store->word) & FERRYI_STORE_PENDING_CALLS);
    kernels_close(&k);
}

static void
run_first_stream(void *user)
{
    struct kernels *k = user;
    expect_reason(ferry_stream_synchronize(k->streams[0]));
}

/* A launch first opens its input and later registers as a reader of it. In between, the kernel that
 * writes the input fails. The launch must then fail, too. */
static void
test_an_input_is_lost_during_the_launch(void **state)
{
    fixture *f = *state;
    struct kernels k;
    kernels_open(f, &k);
    ferry_buffer *pair[] = {make_everywhere(f, 5), make_everywhere(f, 5)};
    /* The input is lost while the launch allocates the list of pending kernels of its target. At
     * that time, the launch must not have registered as a reader of its input yet. A launch handles
     * its buffers in the order of their stores' addresses, so the target has the lower address. */
    bool sorted = (uintptr_t)pair[0]->store < (uintptr_t)pair[1]->store;
    ferry_buffer *target = pair[!sorted], *input = pair[sorted];
    launch_failing(&k, input, 0, 100);
    short_memory_meet(sizeof(struct ferryi_pending_calls), run_first_stream, &k);
    expect_reason(launch_copy(&k.w, k.streams[1], target, 0, input, 50, 100));
    assert_non_null(strstr(ferry_last_error(), "input was lost"));
    expect_counting(f, target, 0, 0, COUNT, 5);
    expect_counting(f, input, 0, 100, COUNT - 100, 5);
    DESTROY_BUFFERS(&pair[0], &pair[1]);
    kernels_close(&k);
}

/* A resize may free the replica that a queued kernel writes. The kernel still counts as pending,
 * until a later use of the buffer waits for it. */
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
    assert_true(ferryi_pending_calls_are_pending(k.buffer->store));
    expect_counting(f, k.buffer, 1, 0, COUNT, 7);
    assert_int_equal(work_done(), done + 1);
    assert_false(ferryi_pending_calls_are_pending(k.buffer->store));
    expect_counting(f, k.buffer, 0, 0, COUNT, 7);
    kernels_close(&k);
}

/* A resize may cut off the bytes that a kernel writes. If that kernel fails later, the remaining
 * buffer loses no bytes. */
static void
test_a_kernel_fails_beyond_the_end(void **state)
{
    fixture *f = *state;
    for (size_t begin = COUNT / 4; begin <= COUNT / 2; begin += COUNT / 4) {
        struct kernels k;
        kernels_open(f, &k);
        launch_failing(&k, k.buffer, begin, COUNT / 2);
        OK(ferry_buffer_resize(k.buffer, COUNT / 4));
        expect_reason(ferry_stream_synchronize(k.streams[0]));
        expect_counting(f, k.buffer, 0, 0, COUNT / 4, 0);
        OK(ferry_buffer_resize(k.buffer, COUNT));
        expect_constant(f, k.buffer, 0, COUNT / 4, COUNT - COUNT / 4, 0);
        kernels_close(&k);
    }
}

/* The remaining buffer loses no bytes either if its valid map needs memory to note a loss, and gets
 * none. */
static void
test_no_memory_beyond_the_end(void **state)
{
    fixture *f = *state;
    for (int parts = CROWDED - 8; parts < 2 * CROWDED; parts++) {
        struct kernels k;
        int values[COUNT / 4];
        kernels_open(f, &k);
        OK(launch_add(&k.w, k.streams[0], k.buffer, 0, COUNT / 4, 1));
        OK(ferry_stream_synchronize(k.streams[0]));
        launch_failing(&k, k.buffer, COUNT / 4, COUNT / 4);
        for (int i = 0; i < parts; i++)
            write_counting(f, k.buffer, 0, 4 * (size_t)i, 1, 7);
        OK(ferry_buffer_resize(k.buffer, COUNT / 4));
        short_memory_arm_for_good(1);
        ferry_status status = ferry_stream_synchronize(k.streams[0]);
        short_memory_disarm();
        assert_int_equal(status, FERRY_ERROR_CANCELLED);
        assert_int_equal(k.buffer->store->map.reserved, 0);
        OK(ferry_buffer_copy_to(k.buffer, INT, 0, COUNT / 4, values, NULL));
        for (int i = 0; i < COUNT / 4; i++)
            assert_int_equal(values[i], i % 4 == 0 && i < 4 * parts ? i + 7 : i + 1);
        kernels_close(&k);
    }
}

/* If a kernel fails, all bytes that it wrote are marked as lost, except those that a later write
 * replaced. This must work if no memory can be allocated. Only the error message of the kernel is
 * missing then. */
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
            status = ferry_buffer_copy_to(k.buffer, INT, (size_t)i, 1, &value, NULL);
            assert_int_equal(status,
                             i % 4 == 0 && i < 4 * parts ? FERRY_OK : FERRY_ERROR_CANCELLED);
            if (status == FERRY_OK)
                assert_int_equal(value, i + 7);
            else
                assert_non_null(strstr(ferry_last_error(), "no memory to keep the reason"));
        }
        expect_counting(f, k.buffer, 0, COUNT - 100, 100, 0);
        kernels_close(&k);
    }
}

/* Checks the state of bytes that a failed kernel has lost. They must be current at no place.
 * Ferry must not treat them as bytes that were never written, which would read as zeros. */
static void
expect_lost_state(struct kernels *k, size_t offset, size_t count)
{
    ferry_buffer *view;
    OK(ferry_buffer_view(k->buffer, INT, offset, count, &view));
    STATE(view, MIXED);
    assert_int_equal(take_snapshot(view).info.places_current, 0);
    assert_false(ferry_buffer_is_current(view, 0));
    assert_false(ferry_buffer_is_current(view, 1));
    ferry_buffer_destroy(&view);
}

/* A batch of copies that reads lost bytes fails with the error of the kernel that lost them, just
 * as any other read does. */
static void
test_batches_of_lost_bytes(void **state)
{
    fixture *f = *state;
    struct kernels k;
    int values[COUNT];
    copy_list *batch;
    kernels_open(f, &k);
    launch_failing(&k, k.buffer, 100, 200);
    expect_reason(ferry_stream_synchronize(k.streams[0]));
    expect_lost_state(&k, 100, 200);
    OK(copy_list_create(&batch));
    OK(copy_list_to(batch, k.buffer, INT, 0, values, COUNT));
    expect_reason(copy_list_submit(batch, NULL));
    copy_list_destroy(&batch);
    expect_reason(ferry_buffer_copy_to(k.buffer, INT, 0, COUNT, values, NULL));
    expect_counting(f, k.buffer, 0, 300, COUNT - 300, 0);
    kernels_close(&k);
}

enum derivation { COPY, COPY_ROWS, COPY_BESIDE, CONVERT, CONVERT_OUT, DERIVATIONS };

static ferry_status
derive(struct kernels *k, ferry_buffer *target, enum derivation how)
{
    double values[COUNT];
    const ferry_conversion widening = {.from = INT, .to = DOUBLE};
    switch (how) {
    case COPY:
        return ferry_buffer_copy(target, INT, 0, k->buffer, 0, COUNT, NULL);
    case COPY_ROWS:
        return copy_rows(target, INT, 0, 20, k->buffer, 0, 20, 10, COUNT / 20, NULL);
    case COPY_BESIDE:
        return ferry_buffer_copy(k->buffer, INT, COUNT / 2, k->buffer, COUNT / 4, COUNT / 2, NULL);
    case CONVERT:
        return convert_buffer(target, &widening, 0, k->buffer, 0, COUNT / 2, FERRY_CONVERT_SATURATE,
                              NULL);
    default:
        return copy_to_converted(k->buffer, &widening, 0, COUNT, values, FERRY_CONVERT_SATURATE,
                                 NULL);
    }
}

/* A call that reads the output of a kernel waits until the kernel has ended, even if the call runs
 * at the same place as the kernel. If the kernel fails, the call must fail and change nothing. */
static void
test_calls_do_not_read_what_may_fail(void **state)
{
    fixture *f = *state;
    for (int how = 0; how < DERIVATIONS; how++) {
        struct kernels k;
        kernels_open(f, &k);
        ferry_buffer *ints = make_everywhere(f, 5), *doubles;
        OK(ferry_buffer_create(f->context, DOUBLE, COUNT, NULL, &doubles));
        launch_failing(&k, k.buffer, 0, COUNT / 2);
        expect_reason(derive(&k, how == CONVERT ? doubles : ints, how));
        expect_counting(f, ints, 0, 0, COUNT, 5);
        expect_counting(f, k.buffer, 0, COUNT / 2, COUNT / 2, 0);
        DESTROY_BUFFERS(&ints, &doubles);
        kernels_close(&k);
    }
}

static struct ferryi_body_use
begin_use(ferry_buffer *buffer, size_t begin, size_t end, ferry_access access, int place)
{
    struct ferryi_body_use use;
    const struct ferryi_access range = {.store = buffer->store,
                                        .begin = begin * sizeof(int),
                                        .end = end * sizeof(int),
                                        .access = (uint8_t)access,
                                        .place = (uint8_t)place};
    OK(ferryi_pending_calls_begin(&range, &use));
    ferryi_pending_calls_commit(&use);
    return use;
}

static void
expect_input(const struct ferryi_body_use *use, ferry_status status)
{
    char text[64] = "";
    assert_int_equal(ferryi_pending_calls_input(use, text, sizeof(text)), status);
    assert_string_equal(text, status == FERRY_OK ? "" : "it broke");
}

/* Several kernels run after an earlier kernel has failed, but before Ferry has ended the launch of
 * the failed kernel. A kernel must fail if it reads output of the failed kernel. It must not fail
 * if a kernel in between has overwritten that output. */
static void
test_kernels_run_before_a_failed_launch_ends(void **state)
{
    fixture *f = *state;
    ferry_buffer *buffer = make_everywhere(f, 5);
    touch(f, buffer, 1, FERRY_UPDATE, 0, COUNT);
    struct ferryi_body_use uses[] = {begin_use(buffer, 0, 500, FERRY_OVERWRITE, 1),
                                     begin_use(buffer, 100, 200, FERRY_OVERWRITE, 1),
                                     begin_use(buffer, 100, 200, FERRY_READ, 1),
                                     begin_use(buffer, 150, 201, FERRY_READ, 1),
                                     begin_use(buffer, 0, 10, FERRY_UPDATE, 1),
                                     begin_use(buffer, 0, 100, FERRY_READ, 2),
                                     begin_use(buffer, 500, COUNT, FERRY_READ, 1),
                                     begin_use(buffer, 400, 401, FERRY_READ, 1)};
    static const bool poisoned[] = {false, false, false, true, true, false, false, true};
    ferryi_pending_calls_fail(&uses[0], FERRY_ERROR_CANCELLED, "it broke");
    for (size_t i = 1; i < LENGTH(uses); i++)
        expect_input(&uses[i], poisoned[i] ? FERRY_ERROR_CANCELLED : FERRY_OK);
    assert_true(ferryi_pending_calls_are_pending(buffer->store));
    /* A launch that begins after the failure and reads lost bytes must fail, too. */
    struct ferryi_body_use late = begin_use(buffer, 300, 301, FERRY_READ, 1);
    expect_input(&late, FERRY_ERROR_CANCELLED);
    ferryi_pending_calls_end(&late);
    for (size_t i = 0; i < LENGTH(uses); i++)
        ferryi_pending_calls_end(&uses[i]);
    assert_false(ferryi_pending_calls_are_pending(buffer->store));
    expect_counting(f, buffer, 0, 100, 100, 5);
    expect_counting(f, buffer, 0, 500, COUNT - 500, 5);
    /* Elements 0 to 9 are not lost, because the test has ended a later write of them without
     * reporting a failure. */
    expect_counting(f, buffer, 0, 0, 10, 5);
    int value;
    assert_int_equal(ferry_buffer_copy_to(buffer, INT, 10, 1, &value, NULL), FERRY_ERROR_CANCELLED);
    assert_int_equal(ferry_buffer_copy_to(buffer, INT, 200, 1, &value, NULL),
                     FERRY_ERROR_CANCELLED);
    assert_int_equal(ferry_buffer_copy_to(buffer, INT, 499, 1, &value, NULL),
                     FERRY_ERROR_CANCELLED);
    DESTROY_BUFFERS(&buffer);
}

/* If a kernel that writes a wrapped buffer fails, ferry_buffer_unwrap() fails until the lost bytes
 * are overwritten. The wrapped memory keeps its old bytes. */
static void
test_a_wrap_ends_under_a_kernel_that_fails(void **state)
{
    fixture *f = *state;
    struct kernels k;
    int memory[COUNT] = {7};
    ferry_buffer *wrap;
    kernels_open(f, &k);
    OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, NULL, &wrap));
    launch_failing(&k, wrap, 0, COUNT);
    expect_reason(ferry_buffer_unwrap(&wrap, NULL));
    assert_int_equal(memory[0], 7);
    fill_on(f, wrap, k.streams[1], 0, COUNT, 3);
    launch_failing(&k, wrap, 10, 10);
    fill_on(f, wrap, k.streams[1], 10, 10, 3);
    OK(ferry_buffer_unwrap(&wrap, NULL));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(memory[i], 3);
    OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, NULL, &wrap));
    launch_failing(&k, wrap, 0, COUNT);
    ferry_buffer_destroy(&wrap);
    fixture_expect_log(f, "newer bytes did not reach the wrapped memory");
    kernels_close(&k);
}

/* The message of a read of lost bytes names those of its bytes that were lost, unless all were. */
static void
test_messages_name_what_was_lost(void **state)
{
    fixture *f = *state;
    static const struct {
        size_t offset, count;
        const char *message;
    } reads[] = {{200, 100, "bytes 800 to 1200 of buffer \"\", which were lost: "},
                 {200, 50, "bytes 800 to 1000 of buffer \"\", which were lost: "},
                 {200, 101, "bytes 800 to 1204 of buffer \"\", of which bytes 800 to 1200 were"},
                 {199, 101, "bytes 796 to 1200 of buffer \"\", of which bytes 800 to 1200 were"},
                 {0, COUNT, "bytes 0 to 4000 of buffer \"\", of which bytes 800 to 1200 were"}};
    struct kernels k;
    ferry_scope scope;
    void *memory;
    kernels_open(f, &k);
    launch_failing(&k, k.buffer, 200, 100);
    expect_reason(ferry_stream_synchronize(k.streams[0]));
    for (size_t i = 0; i < LENGTH(reads); i++) {
        expect_reason(ferry_buffer_open_host(k.buffer, INT, FERRY_READ, reads[i].offset,
                                             reads[i].count, &scope, &memory));
        if (!strstr(ferry_last_error(), reads[i].message))
            fail_msg("\"%s\" does not contain \"%s\"", ferry_last_error(), reads[i].message);
    }
    kernels_close(&k);
}

/* A buffer that is destroyed while a host function is queued leaves no mark of it in its storage.
 */
static void
test_queued_work_leaves_no_mark(void **state)
{
    fixture *f = *state;
    work w;
    if (f->context->debug)
        skip(); /* a checked run marks all buffers */
    work_open(f, &w);
    work_gate(false);
    ferry_buffer *b = make_counting(f, COUNT, 0);
    OK(launch_add(&w, f->stream, b, 0, COUNT, 1));
    ferry_buffer_destroy(&b);
    work_gate(true);
    OK(ferry_stream_synchronize(f->stream));
    b = make_ints(f, COUNT);
    assert_int_equal(atomic_load(&b->store->word), 0);
    ferry_buffer_destroy(&b);
    work_close(&w);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        LAZY(test_two_launches_share_what_the_first_makes),
        LAZY(test_an_input_is_lost_during_the_launch),
        LAZY(test_a_kernel_is_waited_for_without_its_copy),
        LAZY(test_a_kernel_fails_beyond_the_end),
        LAZY(test_no_memory_beyond_the_end),
        LAZY(test_no_memory_to_tell_what_is_lost),
        LAZY(test_batches_of_lost_bytes),
        LAZY(test_calls_do_not_read_what_may_fail),
        ROOMY(test_kernels_run_before_a_failed_launch_ends),
        LAZY(test_a_wrap_ends_under_a_kernel_that_fails),
        LAZY(test_messages_name_what_was_lost),
        LAZY(test_queued_work_leaves_no_mark),
    };
    return cmocka_run_group_tests_name("pending calls", tests, NULL, NULL);
}
