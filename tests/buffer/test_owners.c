/* SPDX-License-Identifier: MIT */
/*
 * Tests the owners of contexts. Destroying the last reference to a context waits for all work,
 * reports leaks and frees all memory. This may happen on any thread.
 */
#include "tests/buffer/support.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "src/base/interleave.h"
#include "tests/support/copies.h"
#include "tests/support/fault.h"
#include "tests/support/lazy.h"

#define COUNT         4096
#define THREADS       6
#define HANGS_AFTER_S 120

/* A context under test, what its device supports, the messages that the context logs, and the step
 * that the test has reached. */
struct owned {
    ferry_context *context;
    ferry_stream *stream;
    bool calls; /* whether the device runs host functions */
    bool apart; /* whether host functions run on threads of the device */
    ferryi_mutex mutex;
    /* Number of logged errors; number of contexts that ended on separate threads. */
    atomic_uint errors, ends;
    char error[512];     /* the last error message */
    char remaining[512]; /* the last message about owners that remain */
    atomic_int step;
    atomic_bool stays; /* whether a destroy was refused */
};

static void
note_log(ferry_log_level level, const char *message, void *user)
{
    struct owned *o = user;
    if (level == FERRY_LOG_ERROR) {
        ferryi_mutex_lock(&o->mutex);
        snprintf(o->error, sizeof(o->error), "%s", message);
        ferryi_mutex_unlock(&o->mutex);
        atomic_fetch_add(&o->errors, 1);
    }
    if (level == FERRY_LOG_INFO && strstr(message, "remain")) {
        ferryi_mutex_lock(&o->mutex);
        snprintf(o->remaining, sizeof(o->remaining), "%s", message);
        ferryi_mutex_unlock(&o->mutex);
    }
    if (strstr(message, "a separate thread has ended it"))
        atomic_fetch_add(&o->ends, 1);
}

static void
open_owned(struct owned *o)
{
    ferry_place_info info;
    *o = (struct owned){0};
    ferryi_mutex_init(&o->mutex);
    OK(ferry_context_create(
        &(ferry_context_options){.log = note_log, .log_user = o, .tuning = "staging.chunk=4K"},
        &o->context));
    o->stream = ferry_context_stream(o->context, 1);
    OK(ferry_context_get_place_info(o->context, 1, &info));
    o->calls = info.capabilities & FERRY_CAN_RUN_HOST_FUNCTION;
    o->apart = o->context->devices[1]->capabilities & FERRYI_DEVICE_CALLS_APART;
}

static void
close_owned(struct owned *o)
{
    ferry_context_destroy(&o->context);
    assert_null(o->context);
    if (atomic_load(&o->errors) > 0)
        fail_msg("unexpected: %s", o->error);
    ferryi_mutex_destroy(&o->mutex);
}

static ferry_buffer *
make_named(struct owned *o, const char *name)
{
    ferry_buffer *b;
    OK(ferry_buffer_create(o->context, INT, COUNT, &(ferry_buffer_options){.name = name}, &b));
    return b;
}

static void
expect_error(struct owned *o, const char *part)
{
    assert_true(atomic_load(&o->errors) > 0);
    if (!strstr(o->error, part))
        fail_msg("logged \"%s\", which does not say \"%s\"", o->error, part);
    atomic_store(&o->errors, 0);
}

/* Waits until the context has ended. Checks that it ended exactly once, on a separate thread. */
static void
wait_for_end(struct owned *o)
{
    while (atomic_load(&o->ends) == 0)
        ferryi_sleep_ns(100000);
    assert_int_equal(atomic_load(&o->ends), 1);
    o->context = NULL;
}

static void
await(struct owned *o, int step)
{
    while (atomic_load(&o->step) < step)
        ferryi_sleep_ns(100000);
}

/* -- counts ------------------------------------------------------------------------------------ */

static void
test_only_the_last_owner_ends_a_context(void **state)
{
    (void)state;
    struct owned o;
    int value = 7, back = 0;
    open_owned(&o);
    ferry_buffer *b = make_named(&o, "left");
    ferry_context *others[3];
    for (size_t i = 0; i < LENGTH(others); i++) {
        others[i] = ferry_context_retain(o.context);
        assert_ptr_equal(others[i], o.context);
    }
    ferry_context *last = o.context;
    ferry_context_destroy(&others[0]);
    assert_null(others[0]);
    ferry_context_destroy(&others[0]); /* the handle is NULL now: no effect */
    ferry_context_destroy(&o.context);
    ferry_context_destroy(&others[1]);
    OK(ferry_buffer_fill(b, INT, 0, COUNT, &value, NULL));
    OK(ferry_buffer_copy_to(b, INT, COUNT - 1, 1, &back, NULL));
    assert_int_equal(back, 7);
    assert_int_equal(atomic_load(&o.errors), 0);
    assert_ptr_equal(last, others[2]);

    /* A buffer does not own its context. So destroying the last reference to the context logs the
     * remaining buffer as an error. */
    ferry_context_destroy(&others[2]);
    assert_null(others[2]);
    expect_error(&o, "buffer \"left\" of 16384 bytes is still alive");
    assert_int_equal(atomic_load(&o.ends), 0); /* the context ended inside the call */
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_fill(b, INT, 0, COUNT, &value, NULL));
    ferry_buffer_destroy(&b);
    close_owned(&o);
}

static void
test_null_has_no_owners(void **state)
{
    (void)state;
    ferry_context *none = NULL;
    assert_null(ferry_context_retain(NULL));
    ferry_context_destroy(NULL);
    ferry_context_destroy(&none);
}

static void
test_owners_of_the_shared_context_are_the_same(void **state)
{
    (void)state;
    ferry_context *first, *second, *third, *next;
    OK(ferry_context_shared(&first));
    second = ferry_context_retain(first);
    assert_ptr_equal(second, first);
    ferry_context_destroy(&first);
    OK(ferry_context_shared(&third));
    assert_ptr_equal(third, second);
    ferry_context_destroy(&third);
    ferry_buffer *b;
    OK(ferry_buffer_create(second, INT, COUNT, NULL, &b));
    OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 1, NULL));
    ferry_buffer_destroy(&b);
    OK(ferry_buffer_create(second, INT, COUNT, NULL, &b));
    ferry_context_destroy(&second);
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_sync_to(b, 0, FERRY_REST, 1, NULL));
    OK(ferry_context_shared(
        &next)); /* a new context: the old one has ended, but `b` still uses its struct */
    assert_ptr_not_equal(next, ferry_buffer_context(b));
    ferry_buffer_destroy(&b);
    ferry_context_destroy(&next);
}

/* -- threads ----------------------------------------------------------------------------------- */

static void *
destroy_here(void *argument)
{
    struct owned *o = argument;
    await(o, 1);
    ferry_context_destroy(&o->context);
    return NULL;
}

static void
test_the_last_owner_may_be_another_thread(void **state)
{
    (void)state;
    struct owned o;
    pthread_t thread;
    open_owned(&o);
    ferry_buffer *b = make_named(&o, "left");
    ferry_context *mine = ferry_context_retain(o.context);
    assert_int_equal(pthread_create(&thread, NULL, destroy_here, &o), 0);
    OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 1, NULL));
    ferry_context_destroy(&mine);
    atomic_store(&o.step, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect_error(&o, "buffer \"left\"");
    ferry_buffer_destroy(&b);
    close_owned(&o);
}

static void *
retain_and_destroy(void *argument)
{
    ferry_context *mine = argument;
    for (int i = 0; i < 2000; i++) {
        ferry_context *more[3];
        for (size_t k = 0; k < LENGTH(more); k++)
            more[k] = ferry_context_retain(mine);
        for (size_t k = 0; k < LENGTH(more); k++)
            ferry_context_destroy(&more[k]);
        if (i % 500 == 0) {
            ferry_buffer *b;
            OK(ferry_buffer_create(mine, INT, COUNT, NULL, &b));
            OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 1, NULL));
            ferry_buffer_destroy(&b);
        }
    }
    ferry_context_destroy(&mine);
    return NULL;
}

static void
test_threads_count_at_once(void **state)
{
    (void)state;
    struct owned o;
    pthread_t threads[THREADS];
    open_owned(&o);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, retain_and_destroy, ferry_context_retain(o.context)),
            0);
    /* The thread that destroys the last reference ends the context. */
    ferry_context_destroy(&o.context);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    close_owned(&o);
}

#ifdef FERRYI_INTERLEAVES
static _Thread_local bool destroys;

/* Delays ferry_context_destroy() just before it takes its first lock, when the number of owners may
 * already be zero. A second thread can then call ferry_context_shared() in this state. */
static void
delay_destroy(const void *site)
{
    (void)site;
    if (destroys)
        ferryi_sleep_ns(200000);
    destroys = false;
}
#endif

static void
destroy_slowly(ferry_context **context)
{
#ifdef FERRYI_INTERLEAVES
    destroys = true;
    ferry_context_destroy(context);
    destroys = false;
#else
    ferry_context_destroy(context);
#endif
}

/* ferry_context_shared() never returns a context whose last owner is gone, even while other threads
 * destroy their references to the context. */
static void *
share_and_destroy(void *argument)
{
    struct owned *o = argument;
    for (int i = 0; i < 100; i++) {
        ferry_context *context;
        ferry_buffer *b;
        OK(ferry_context_shared(&context));
        if (ferry_buffer_create(context, INT, 10, NULL, &b) == FERRY_OK)
            ferry_buffer_destroy(&b);
        else
            atomic_fetch_add(&o->errors, 1);
        if (i % 3 == 0)
            ferryi_yield();
        destroy_slowly(&context);
    }
    return NULL;
}

static void
test_the_last_destroy_races_with_shared(void **state)
{
    (void)state;
    struct owned o = {0};
    pthread_t threads[2]; /* only two threads, so that the number of owners is often zero */
#ifdef FERRYI_INTERLEAVES
    atomic_store(&ferryi_interleave, delay_destroy);
#endif
    for (size_t i = 0; i < LENGTH(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, share_and_destroy, &o), 0);
    for (size_t i = 0; i < LENGTH(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
#ifdef FERRYI_INTERLEAVES
    atomic_store(&ferryi_interleave, NULL);
#endif
    assert_int_equal(atomic_load(&o.errors), 0);
}

/* -- callbacks on threads of the context ------------------------------------------------------- */

static void
give_back(struct owned *o)
{
    ferry_context *mine = o->context;
    ferry_context_destroy(&mine);
    atomic_store(&o->stays, mine != NULL);
    atomic_store(&o->step, 2);
}

static ferry_status
destroy_in_host_function(const ferry_call *call, void *user)
{
    struct owned *o = user;
    int *values;
    size_t count;
    await(o, 1);
    give_back(o);
    ferryi_sleep_ns(20000000); /* the end of the context must wait for this callback */
    if (ferry_call_array(call, INT, 0, &count))
        for (values = ferry_call_array(call, INT, 0, &count); count > 0; count--)
            values[count - 1] = 5;
    atomic_store(&o->step, 3);
    return FERRY_OK;
}

static void
test_the_last_owner_may_be_a_host_function(void **state)
{
    (void)state;
    struct owned o;
    ferry_kernel *kernel;
    const ferry_parameter parameter = {.element = INT, .access = FERRY_UPDATE};
    const ferry_kernel_source source = {.name = "ends",
                                        .host_function = destroy_in_host_function,
                                        .user = &o,
                                        .parameters = &parameter,
                                        .parameter_count = 1};
    open_owned(&o);
    if (!o.calls) {
        close_owned(&o);
        skip();
    }
    ferry_buffer *b = make_named(&o, "left");
    const ferry_argument argument = ferry_buffer_argument(b, INT, 0, COUNT);
    OK(ferry_kernel_create(o.context, &source, &kernel));
    /* A device without separate threads runs the host function inside the launch or inside a wait.
     * The host function blocks until `step` is 1. So `step` must already be 1 on such a device. */
    atomic_store(&o.step, !o.apart);
    OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), o.stream, &argument, 1));
    if (!o.apart)
        OK(ferry_stream_synchronize(o.stream));
    atomic_store(&o.step, o.apart ? 1 : atomic_load(&o.step));
    await(&o, 2);
    if (o.apart) {
        wait_for_end(&o);
        assert_false(atomic_load(&o.stays));
        assert_int_equal(atomic_load(&o.step), 3);
        expect_error(&o, "buffer \"left\"");
        assert_int_equal(ferry_buffer_count(b), COUNT);
    } else {
        /* ferry_context_destroy() was refused, because the host function ran inside a call of the
         * program. */
        assert_true(atomic_load(&o.stays));
        expect_error(&o, "the callback host_function may not do this");
        OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 0, NULL));
    }
    ferry_kernel_destroy(&kernel);
    ferry_buffer_destroy(&b);
    close_owned(&o);
}

static bool
destroy_in_keep_going(size_t done, size_t total, void *user)
{
    struct owned *o = user;
    (void)total;
    if (done > 0 && atomic_load(&o->step) < 2) {
        await(o, 1);
        give_back(o);
    }
    return true;
}

/* A keep_going callback that runs on a worker thread may destroy the last reference to the context.
 */
static void
test_the_last_owner_may_be_a_helper_thread(void **state)
{
    (void)state;
    struct owned o;
    static int from[COUNT], to[COUNT];
    ferry_event *event;
    open_owned(&o);
    ferry_buffer *b = make_named(&o, "left");
    for (int i = 0; i < COUNT; i++)
        from[i] = i + 1;
    memset(to, 0, sizeof(to));
    OK(ferry_buffer_copy_from(b, INT, 0, COUNT, from, NULL));
    OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 1, NULL));
    OK(ferry_buffer_invalidate(b, 0, FERRY_REST, 0));
    OK(ferry_buffer_copy_to_async(b, INT, 0, COUNT, to,
                                  &(ferry_copy_options){.stream = o.stream,
                                                        .chunk_bytes = 1024,
                                                        .keep_going = destroy_in_keep_going,
                                                        .user = &o},
                                  &event));
    atomic_store(&o.step, 1);
    wait_for_end(&o);
    assert_false(atomic_load(&o.stays));
    assert_memory_equal(to, from, sizeof(to)); /* the context's end waited for the call */
    expect_error(&o, "buffer \"left\"");
    ferry_event_destroy(&event);
    ferry_buffer_destroy(&b);
    close_owned(&o);
}

/* -- callbacks on threads of the program ------------------------------------------------------- */

static void
destroy_in_release(void *memory, void *user)
{
    (void)memory;
    give_back(user);
}

/* The on_release callback of a wrap may destroy the last reference to a different context. This
 * happens if an array was exported from that context and imported into the context of the wrap. */
static void
test_the_last_owner_may_be_the_release_in_another_context(void **state)
{
    (void)state;
    struct owned outer, inner;
    static int memory[COUNT];
    open_owned(&outer);
    open_owned(&inner);
    ferry_buffer *b = make_named(&inner, "left"), *wrap;
    OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 1, NULL));
    OK(ferry_buffer_wrap_host(
        outer.context, INT, COUNT, memory,
        &(ferry_wrap_options){.on_release = destroy_in_release, .user = &inner}, &wrap));
    OK(ferry_buffer_unwrap(&wrap, NULL));
    wait_for_end(&inner);
    assert_false(atomic_load(&inner.stays));
    expect_error(&inner, "buffer \"left\"");
    ferry_buffer_destroy(&b);
    close_owned(&inner);
    close_owned(&outer);
}

/* A callback that runs inside a call on the context cannot end the context, because the call still
 * uses it. */
static void
test_a_context_does_not_end_inside_a_call_on_it(void **state)
{
    (void)state;
    struct owned o;
    static int memory[COUNT];
    ferry_buffer *wrap;
    open_owned(&o);
    OK(ferry_buffer_wrap_host(o.context, INT, COUNT, memory,
                              &(ferry_wrap_options){.on_release = destroy_in_release, .user = &o},
                              &wrap));
    ferry_buffer_destroy(&wrap);
    assert_true(atomic_load(&o.stays));
    expect_error(&o, "destroy a context: the call around the callback on_release, or");
    ferry_buffer *b = make_named(&o, "works");
    ferry_buffer_destroy(&b);

    /* A callback may destroy its reference to the context if the context has a second owner. */
    ferry_context *other = ferry_context_retain(o.context);
    OK(ferry_buffer_wrap_host(o.context, INT, COUNT, memory,
                              &(ferry_wrap_options){.on_release = destroy_in_release, .user = &o},
                              &wrap));
    ferry_buffer_destroy(&wrap);
    assert_false(atomic_load(&o.stays));
    b = make_named(&o, "works");
    ferry_buffer_destroy(&b);
    o.context = other;
    close_owned(&o);
}

struct nested {
    struct owned *inner;
    ferry_buffer **wrap;
};

static bool
unwrap_in_visit(const ferry_buffer_info *info, void *user)
{
    struct nested *nested = user;
    (void)info;
    if (*nested->wrap)
        ferry_buffer_destroy(nested->wrap);
    return true;
}

/* While ferry_context_for_each_buffer() visits the buffers of one context, an on_release callback
 * of a second context runs. The callback cannot end the first context. */
static void
test_a_context_does_not_end_inside_an_outer_call_on_it(void **state)
{
    (void)state;
    struct owned outer, inner;
    static int memory[COUNT];
    ferry_buffer *wrap;
    open_owned(&outer);
    open_owned(&inner);
    ferry_buffer *b = make_named(&inner, "visited");
    OK(ferry_buffer_wrap_host(
        outer.context, INT, COUNT, memory,
        &(ferry_wrap_options){.on_release = destroy_in_release, .user = &inner}, &wrap));
    struct nested nested = {&inner, &wrap};
    OK(ferry_context_for_each_buffer(inner.context, unwrap_in_visit, &nested));
    assert_null(wrap);
    assert_true(atomic_load(&inner.stays));
    expect_error(&inner, "the call around the callback on_release, or");
    ferry_buffer_destroy(&b);
    close_owned(&inner);
    close_owned(&outer);
}

static void
retain_in_release(void *memory, void *user)
{
    struct owned *o = user;
    (void)memory;
    o->context = ferry_context_retain(o->context);
    atomic_store(&o->step, 2);
}

/* A callback that is called while a context ends cannot add an owner to the context. */
static void
test_a_context_that_ends_is_not_retained(void **state)
{
    (void)state;
    struct owned o;
    static int memory[COUNT];
    ferry_buffer *wrap;
    open_owned(&o);
    OK(ferry_buffer_wrap_host(o.context, INT, COUNT, memory,
                              &(ferry_wrap_options){.on_release = retain_in_release, .user = &o},
                              &wrap));
    ferry_context *last = o.context;
    ferry_context_destroy(&last);
    assert_int_equal(atomic_load(&o.step), 2);
    assert_null(o.context);
    expect_error(&o, "retain a context: its last owner has destroyed it");
    ferry_buffer_destroy(&wrap);
    close_owned(&o);
}

static int
group_setup(void **state)
{
    (void)state;
    alarm(HANGS_AFTER_S);
    lazy_register();
    fault_register();
    return 0;
}

/* If a context has other owners, destroying one reference only logs the number of these owners and
 * the labels of leases. */
static void
test_a_destroy_names_who_remains(void **state)
{
    struct owned o;
    ferry_buffer *buffers[2];
    ferry_lease *leases[3];
    void *pointer;
    static const char *const labels[3] = {"numpy, step.py:12", NULL, "torch"};
    (void)state;
    open_owned(&o);
    ferry_context *second = ferry_context_retain(o.context);
    ferry_context_destroy(&second);
    assert_non_null(strstr(o.remaining, "1 other owner remains"));
    assert_null(strstr(o.remaining, "lease"));
    for (int i = 0; i < 2; i++)
        OK(ferry_buffer_create(o.context, INT, COUNT, NULL, &buffers[i]));
    for (int i = 0; i < 3; i++)
        OK(ferry_lease_open(buffers[i / 2], INT,
                            &(ferry_lease_options){.access = FERRY_READ, .label = labels[i]},
                            &leases[i], &pointer));
    ferry_context_destroy(&o.context);
    assert_non_null(strstr(o.remaining, "3 other owners remain"));
    assert_non_null(strstr(o.remaining, labels[0]));
    assert_non_null(strstr(o.remaining, labels[2]));
    *o.remaining = 0;
    for (int i = 0; i < 2; i++)
        ferry_buffer_destroy(&buffers[i]);
    for (int i = 0; i < 3; i++)
        ferry_lease_destroy(&leases[i]);
    /* Destroying a lease logs no message about the remaining owners, because there may be many
     * leases. */
    assert_string_equal(o.remaining, "");
    for (int i = 0; i < 5000 && atomic_load(&o.ends) == 0; i++)
        ferryi_sleep_ns(1000000);
    assert_int_equal(atomic_load(&o.ends), 1);
    assert_int_equal(atomic_load(&o.errors), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_destroy_names_who_remains),
        cmocka_unit_test(test_only_the_last_owner_ends_a_context),
        cmocka_unit_test(test_null_has_no_owners),
        cmocka_unit_test(test_owners_of_the_shared_context_are_the_same),
        cmocka_unit_test(test_the_last_owner_may_be_another_thread),
        cmocka_unit_test(test_threads_count_at_once),
        cmocka_unit_test(test_the_last_destroy_races_with_shared),
        cmocka_unit_test(test_the_last_owner_may_be_a_host_function),
        cmocka_unit_test(test_the_last_owner_may_be_a_helper_thread),
        cmocka_unit_test(test_the_last_owner_may_be_the_release_in_another_context),
        cmocka_unit_test(test_a_context_does_not_end_inside_a_call_on_it),
        cmocka_unit_test(test_a_context_does_not_end_inside_an_outer_call_on_it),
        cmocka_unit_test(test_a_context_that_ends_is_not_retained),
    };
    return cmocka_run_group_tests_name("owners", tests, group_setup, NULL);
}
