/* SPDX-License-Identifier: MIT */
/* Tests progress and cancellation of every call that takes ferry_copy_options. Tests the state of
 * buffers after such a call was cancelled or has failed. */
#include "tests/buffer/support.h"

#include <stdio.h>

#include <ferry/int_convert.h>

#include "tests/support/copies.h"
#include "tests/support/fault.h"

enum { COUNT = 6000, CHUNK = 4096 };

/* The places where each buffer is current when the tested call begins. */
enum start { AT_HOST, AT_DEVICE, AT_BOTH, IN_PARTS, STARTS };

/* The buffers and arrays of one tested operation. An operation may read a buffer or memory, and may
 * write a buffer or memory. The targets have arrays of their old and new values. */
struct world {
    fixture *f;
    const struct operation *operation;
    enum start start;
    ferry_buffer *target, *source, *floats;
    int32_t ints[COUNT], old_target[COUNT], new_target[COUNT];
    int16_t shorts[COUNT];
    double doubles[COUNT];
    unsigned char memory[COUNT * sizeof(double)], old_memory[COUNT * sizeof(double)],
        new_memory[COUNT * sizeof(double)];
};

struct operation {
    const char *name;
    ferry_status (*run)(struct world *world, const ferry_copy_options *options);
    /* Changes new_target and new_memory to the contents that are expected after the operation. When
     * the function is called, they equal the old contents. */
    void (*expect)(struct world *world);
    size_t unit;   /* bytes per element of the target memory; 0: the memory is not a target */
    bool in_order; /* whether elements get their new values in the order of their indices */
};

/* -- the calls --------------------------------------------------------------------------------- */

enum { RANGE = 40, STEP = 50, RANGES = COUNT / STEP };

/* The kinds of copies that a batch may contain: from memory, between buffers, and to memory. */
enum part { INTO = 1, ACROSS = 2, OUT = 4 };

static ferry_status
submit(struct world *w, int parts, const ferry_copy_options *options)
{
    copy_list *batch = NULL;
    ferry_status status;
    FERRY_TRY(status, out, copy_list_create(&batch));
    for (size_t at = 0; at < COUNT; at += STEP) {
        if (parts & INTO)
            FERRY_TRY(status, out, copy_list_from(batch, w->target, INT, at, w->ints + at, RANGE));
        if (parts & ACROSS)
            FERRY_TRY(status, out, copy_list_copy(batch, w->target, INT, at, w->source, at, RANGE));
        if (parts & OUT)
            FERRY_TRY(status, out,
                      copy_list_to(batch, w->target, INT, at, (int32_t *)w->memory + at, RANGE));
    }
    status = copy_list_submit(batch, options);
out:
    copy_list_destroy(&batch);
    return status;
}

static ferry_status
run_batch_into(struct world *w, const ferry_copy_options *options)
{
    return submit(w, INTO, options);
}
static ferry_status
run_batch_across(struct world *w, const ferry_copy_options *options)
{
    return submit(w, ACROSS, options);
}
static ferry_status
run_batch_out(struct world *w, const ferry_copy_options *options)
{
    return submit(w, OUT, options);
}
/* Submits a batch that copies each range to the buffer, and then from the buffer to the memory. The
 * second copy reads what the first one writes, so Ferry runs the copies in two levels, one after
 * the other. */
static ferry_status
run_batch_levels(struct world *w, const ferry_copy_options *options)
{
    return submit(w, ACROSS | OUT, options);
}

static void
expect_into(struct world *w)
{
    for (size_t i = 0; i < COUNT; i++)
        w->new_target[i] = i % STEP < RANGE ? w->ints[i] : w->old_target[i];
}

static void
expect_across(struct world *w)
{
    for (int i = 0; i < COUNT; i++)
        w->new_target[i] = i % STEP < RANGE ? -1 - i : w->old_target[i];
}

static void
expect_out(struct world *w)
{
    for (size_t i = 0; i < COUNT; i++)
        if (i % STEP < RANGE)
            memcpy(w->new_memory + 4 * i, &w->new_target[i], 4);
}

static void
expect_levels(struct world *w)
{
    expect_across(w);
    expect_out(w);
}

static ferry_status
run_rows_into(struct world *w, const ferry_copy_options *options)
{
    return copy_rows_from(w->target, INT, 0, STEP, w->ints, STEP, RANGE, RANGES, options);
}

static ferry_status
run_rows_across(struct world *w, const ferry_copy_options *options)
{
    return copy_rows(w->target, INT, 0, STEP, w->source, 0, STEP, RANGE, RANGES, options);
}

static ferry_status
run_rows_out(struct world *w, const ferry_copy_options *options)
{
    return copy_rows_to(w->target, INT, 0, STEP, w->memory, STEP, RANGE, RANGES, options);
}

/* Overlapping rows are copied through intermediate memory. Copies into the intermediate memory do
 * not count as progress. */
enum { SHIFT = 7 };

static ferry_status
run_rows_over_themselves(struct world *w, const ferry_copy_options *options)
{
    return copy_rows(w->target, INT, SHIFT, STEP, w->target, 0, STEP, RANGE, RANGES, options);
}

static void
expect_rows_over_themselves(struct world *w)
{
    for (int i = 0; i < COUNT; i++)
        if (i % STEP < RANGE)
            w->new_target[i + SHIFT] = w->old_target[i];
}

static ferry_status
run_batch_over_itself(struct world *w, const ferry_copy_options *options)
{
    copy_list *batch = NULL;
    ferry_status status;
    FERRY_TRY(status, out, copy_list_create(&batch));
    const size_t half = COUNT / 2;
    FERRY_TRY(
        status, out,
        copy_list_copy(batch, w->target, INT, SHIFT + half, w->target, half, COUNT - SHIFT - half));
    FERRY_TRY(status, out, copy_list_copy(batch, w->target, INT, SHIFT, w->target, 0, half));
    status = copy_list_submit(batch, options);
out:
    copy_list_destroy(&batch);
    return status;
}

static void
expect_shifted(struct world *w)
{
    memcpy(w->new_target + SHIFT, w->old_target, (COUNT - SHIFT) * sizeof(int32_t));
}

/* run_from_shorts() converts elements on the device if the device can convert. run_from_doubles()
 * converts them at the host. */
static ferry_status
run_from_shorts(struct world *w, const ferry_copy_options *options)
{
    return ferry_int_copy_from_int16((ferry_int_buffer){w->target}, 0, COUNT, w->shorts,
                                     FERRY_CONVERT_SATURATE, options);
}

static void
expect_shorts(struct world *w)
{
    for (int i = 0; i < COUNT; i++)
        w->new_target[i] = w->shorts[i];
}

static ferry_status
run_from_doubles(struct world *w, const ferry_copy_options *options)
{
    return ferry_int_copy_from_double((ferry_int_buffer){w->target}, 0, COUNT, w->doubles,
                                      FERRY_CONVERT_CHECK, options);
}

static void
expect_doubles(struct world *w)
{
    for (int i = 0; i < COUNT; i++)
        w->new_target[i] = (int32_t)w->doubles[i];
}

static ferry_status
run_to_shorts(struct world *w, const ferry_copy_options *options)
{
    return ferry_int_copy_to_int16((ferry_int_buffer){w->target}, 0, COUNT, (int16_t *)w->memory,
                                   FERRY_CONVERT_SATURATE, options);
}

static ferry_status
run_to_shorts_checked(struct world *w, const ferry_copy_options *options)
{
    return ferry_int_copy_to_int16((ferry_int_buffer){w->target}, 0, COUNT, (int16_t *)w->memory,
                                   FERRY_CONVERT_CHECK, options);
}

static void
expect_to_shorts(struct world *w)
{
    for (int i = 0; i < COUNT; i++)
        ((int16_t *)w->new_memory)[i] = (int16_t)w->old_target[i];
}

static ferry_status
run_to_doubles(struct world *w, const ferry_copy_options *options)
{
    return ferry_int_copy_to_double((ferry_int_buffer){w->target}, 0, COUNT, (double *)w->memory,
                                    FERRY_CONVERT_SATURATE, options);
}

static void
expect_to_doubles(struct world *w)
{
    for (int i = 0; i < COUNT; i++)
        ((double *)w->new_memory)[i] = w->old_target[i];
}

static ferry_status
double_of_int(void *target, const void *source, size_t count, ferry_convert_policy policy)
{
    (void)policy;
    for (size_t i = 0; i < count && target; i++)
        ((double *)target)[i] = ((const int32_t *)source)[i];
    return FERRY_OK;
}

/* Runs a checked conversion with a C function of the program. Ferry first copies the values from
 * the device to the host. These bytes must not count as progress. */
static ferry_status
run_to_own_checked(struct world *w, const ferry_copy_options *options)
{
    const ferry_conversion own = {.from = INT, .to = DOUBLE, .convert = double_of_int};
    return copy_to_converted(w->target, &own, 0, COUNT, w->memory, FERRY_CONVERT_CHECK, options);
}

static ferry_status
run_convert(struct world *w, const ferry_copy_options *options)
{
    return ferry_int_convert_from_float((ferry_int_buffer){w->target}, 0,
                                        (ferry_float_buffer){w->floats}, 0, COUNT,
                                        FERRY_CONVERT_SATURATE, options);
}

static ferry_status
run_convert_checked(struct world *w, const ferry_copy_options *options)
{
    return ferry_int_convert_from_float((ferry_int_buffer){w->target}, 0,
                                        (ferry_float_buffer){w->floats}, 0, COUNT,
                                        FERRY_CONVERT_CHECK, options);
}

static void
expect_convert(struct world *w)
{
    for (int i = 0; i < COUNT; i++)
        w->new_target[i] = -1 - i;
}

static const struct operation operations[] = {
    {"batch into a buffer", run_batch_into, expect_into, 0, false},
    {"batch between buffers", run_batch_across, expect_across, 0, false},
    {"batch out of a buffer", run_batch_out, expect_out, 4, false},
    {"batch of two levels", run_batch_levels, expect_levels, 4, false},
    {"batch of a copy over itself", run_batch_over_itself, expect_shifted, 0, false},
    {"rows into a buffer", run_rows_into, expect_into, 0, false},
    {"rows between buffers", run_rows_across, expect_across, 0, false},
    {"rows out of a buffer", run_rows_out, expect_out, 4, false},
    {"rows over themselves", run_rows_over_themselves, expect_rows_over_themselves, 0, false},
    {"copy from int16", run_from_shorts, expect_shorts, 0, true},
    {"copy from double, checked", run_from_doubles, expect_doubles, 0, true},
    {"copy to int16", run_to_shorts, expect_to_shorts, 2, false},
    {"copy to int16, checked", run_to_shorts_checked, expect_to_shorts, 2, true},
    {"copy to double", run_to_doubles, expect_to_doubles, 8, false},
    {"copy to own, checked", run_to_own_checked, expect_to_doubles, 8, true},
    {"convert", run_convert, expect_convert, 0, false},
    {"convert, checked", run_convert_checked, expect_convert, 0, true},
};

/* -- the world --------------------------------------------------------------------------------- */

static void
put(struct world *w, ferry_buffer *buffer)
{
    if (w->start == AT_DEVICE)
        touch(w->f, buffer, 1, FERRY_UPDATE, 0, FERRY_REST);
    else if (w->start == AT_BOTH)
        touch(w->f, buffer, 1, FERRY_READ, 0, FERRY_REST);
    else if (w->start == IN_PARTS)
        touch(w->f, buffer, w->f->places, FERRY_UPDATE, COUNT / 3, COUNT / 3);
}

static void
start_world(struct world *w, fixture *f, const struct operation *operation, enum start start)
{
    static float floats[COUNT];
    *w = (struct world){.f = f, .operation = operation, .start = start};
    for (int i = 0; i < COUNT; i++) {
        w->old_target[i] = 1000 + i;
        w->ints[i] = 100000 + i;
        w->shorts[i] = (int16_t)(i - 20000);
        w->doubles[i] = 70000 + i;
        floats[i] = (float)(-1 - i);
    }
    memset(w->old_memory, 0x7e, sizeof(w->old_memory));
    memcpy(w->memory, w->old_memory, sizeof(w->memory));
    memcpy(w->new_memory, w->old_memory, sizeof(w->memory));
    memcpy(w->new_target, w->old_target, sizeof(w->old_target));
    OK(ferry_buffer_create_from(f->context, INT, COUNT, w->old_target, NULL, &w->target));
    OK(ferry_buffer_create_from(f->context, FLOAT, COUNT, floats, NULL, &w->floats));
    w->source = make_ints(f, COUNT);
    ferry_scope scope;
    int32_t *values = open_at(f, w->source, 0, FERRY_OVERWRITE, 0, FERRY_REST, &scope);
    for (int i = 0; i < COUNT; i++)
        values[i] = -1 - i;
    OK(ferry_scope_close(&scope));
    put(w, w->target);
    put(w, w->source);
    put(w, w->floats);
    if (operation)
        operation->expect(w);
}

static void
end_world(struct world *w)
{
    DESTROY_BUFFERS(&w->target, &w->source, &w->floats);
}

static void
complain(const struct world *w, const char *what, size_t index)
{
    fail_msg("%s, start %d: %s at element %zu: %s", w->operation ? w->operation->name : "sync",
             (int)w->start, what, index, ferry_last_error());
}

/* Returns the number of bytes in elements that have their new value. Fails if an element has
 * neither its old nor its new value. If the operation writes in order, also fails if a new element
 * follows an old one. */
static size_t
count_new(const struct world *w, const void *got, const void *old, const void *new, size_t unit)
{
    size_t arrived = 0;
    bool ended = false;
    for (size_t i = 0; i < COUNT; i++) {
        const char *value = (const char *)got + i * unit, *was = (const char *)old + i * unit,
                   *is = (const char *)new + i *unit;
        bool may_change = memcmp(was, is, unit) != 0, changed = memcmp(value, was, unit) != 0;
        if (changed && memcmp(value, is, unit) != 0)
            complain(w, "neither old nor new", i);
        if (changed && ended && w->operation->in_order)
            complain(w, "new behind an old one", i);
        ended = ended || (may_change && !changed);
        arrived += changed ? unit : 0;
    }
    return arrived;
}

/* Returns the number of new bytes in both targets of the operation, a buffer and memory. Checks
 * that the buffer has the same bytes at all places where it is current. */
static size_t
count_arrived(struct world *w)
{
    static int32_t first[COUNT], got[COUNT];
    char *text = strdup(ferry_last_error());
    OK(ferry_buffer_copy_to(w->target, INT, 0, COUNT, first, NULL));
    size_t arrived = count_new(w, first, w->old_target, w->new_target, sizeof(int32_t));
    if (w->operation->unit)
        arrived += count_new(w, w->memory, w->old_memory, w->new_memory, w->operation->unit);
    for (int place = w->f->places; place >= 0; place--) {
        ferry_scope scope;
        void *memory = open_at(w->f, w->target, place, FERRY_READ, 0, FERRY_REST, &scope);
        place_read(w->f, place, got, memory, sizeof(got));
        OK(ferry_scope_close(&scope));
        if (memcmp(got, first, sizeof(got)) != 0)
            complain(w, "another value at another place", (size_t)place);
    }
    support_clear_error();
    ferryi_explain("%s", text ? text : "");
    free(text);
    return arrived;
}

/* -- watching ---------------------------------------------------------------------------------- */

struct watch {
    size_t calls, last, total, stop_at;
    bool wrong;
};

static bool
keep_going(size_t done, size_t total, void *user)
{
    struct watch *watch = user;
    watch->wrong |= done < watch->last || done > total ||
                    (watch->calls > 0 && (total != watch->total || watch->last == total));
    watch->last = done;
    watch->total = total;
    return ++watch->calls != watch->stop_at;
}

static ferry_copy_options
watched_by(struct watch *watch)
{
    return (ferry_copy_options){.chunk_bytes = CHUNK, .keep_going = keep_going, .user = watch};
}

/* Checks that the error message says how many bytes arrived. */
static void
check_message(const struct world *w, size_t arrived, size_t total)
{
    char text[64];
    snprintf(text, sizeof(text), "cancelled: %zu of %zu bytes arrived", arrived, total);
    if (!strstr(ferry_last_error(), text))
        complain(w, text, arrived);
}

static void
open_small(fixture *f, const char *devices)
{
    fixture_open(f, &(ferry_context_options){.devices = devices,
                                             .tuning = "staging.chunk=4K staging.chunks=2"});
}

static void
for_each_start(fixture *f,
               void (*check)(fixture *f, const struct operation *operation, enum start start))
{
    fixture_close(f);
    open_small(f, NULL);
    for (size_t i = 0; i < LENGTH(operations); i++)
        for (enum start start = 0; start < STARTS; start++)
            check(f, &operations[i], start);
}

/* -- progress ---------------------------------------------------------------------------------- */

static size_t
bytes_of(const struct world *w)
{
    size_t bytes = count_new(w, w->new_target, w->old_target, w->new_target, sizeof(int32_t));
    return bytes + (w->operation->unit ? count_new(w, w->new_memory, w->old_memory, w->new_memory,
                                                   w->operation->unit)
                                       : 0);
}

/* Checks the arguments of keep_going(). bytes_done never decreases, and equals bytes_total in the
 * last call. Both numbers count the bytes of all targets. */
static void
check_progress(fixture *f, const struct operation *operation, enum start start)
{
    static struct world w;
    start_world(&w, f, operation, start);
    struct watch watch = {0};
    const ferry_copy_options options = watched_by(&watch);
    OK(operation->run(&w, &options));
    if (watch.wrong || watch.last != watch.total)
        complain(&w, "progress is wrong", watch.last);
    assert_int_equal(watch.total, bytes_of(&w));
    assert_in_range(watch.calls, watch.total / CHUNK / 2, 4 * watch.total / CHUNK + 8);
    assert_int_equal(count_arrived(&w), watch.total);
    end_world(&w);
}

static void
test_progress_rises_to_the_total(void **state)
{
    for_each_start(*state, check_progress);
}

/* -- cancelling -------------------------------------------------------------------------------- */

/* Checks the targets of a call that has succeeded or was cancelled. Each element must have its old
 * or its new value. The number of new bytes must equal the reported progress. */
static void
check_cancelled(struct world *w, ferry_status status, const struct watch *watch)
{
    size_t arrived = count_arrived(w);
    if (status != FERRY_OK && status != FERRY_ERROR_CANCELLED)
        complain(w, ferry_status_name(status), 0);
    if (watch->wrong)
        complain(w, "progress is wrong", watch->last);
    if (status == FERRY_ERROR_CANCELLED)
        check_message(w, arrived, watch->total);
    assert_int_equal(arrived, status == FERRY_OK ? watch->total : watch->last);
    assert_int_equal(status == FERRY_OK, watch->last == watch->total);
}

static void
cancel_at_each_chunk(fixture *f, const struct operation *operation, enum start start)
{
    static struct world w;
    ferry_status status;
    size_t stop = 1;
    do {
        start_world(&w, f, operation, start);
        struct watch watch = {.stop_at = stop++};
        const ferry_copy_options options = watched_by(&watch);
        status = operation->run(&w, &options);
        check_cancelled(&w, status, &watch);
        /* A cancelled call leaves no state behind, so a repetition of the call succeeds. */
        if (status != FERRY_OK) {
            OK(operation->run(&w, NULL));
            if (operation->run != run_batch_over_itself &&
                operation->run != run_rows_over_themselves)
                assert_int_equal(count_arrived(&w), bytes_of(&w));
        }
        end_world(&w);
    } while (status != FERRY_OK);
    assert_true(stop > 2);
}

static void
test_cancel_at_each_chunk(void **state)
{
    for_each_start(*state, cancel_at_each_chunk);
}

/* A thread that cancels the tested call after a given number of chunks. */
struct stopper {
    struct watch watch;
    ferryi_mutex mutex;
    ferryi_cond changed;
    size_t seen, stop_at;
    bool stopped, over;
};

static void
say_stop(void *user)
{
    struct stopper *stopper = user;
    ferryi_mutex_lock(&stopper->mutex);
    while (stopper->seen < stopper->stop_at && !stopper->over)
        ferryi_cond_wait(&stopper->changed, &stopper->mutex);
    stopper->stopped = true;
    ferryi_cond_broadcast(&stopper->changed);
    ferryi_mutex_unlock(&stopper->mutex);
}

static bool
ask_stopper(size_t done, size_t total, void *user)
{
    struct stopper *stopper = user;
    (void)keep_going(done, total, &stopper->watch);
    ferryi_mutex_lock(&stopper->mutex);
    stopper->seen++;
    ferryi_cond_broadcast(&stopper->changed);
    while (stopper->seen >= stopper->stop_at && !stopper->stopped)
        ferryi_cond_wait(&stopper->changed, &stopper->mutex);
    bool stopped = stopper->stopped;
    ferryi_mutex_unlock(&stopper->mutex);
    return !stopped;
}

static void
stop_from_another_thread(fixture *f, const struct operation *operation, enum start start)
{
    static struct world w;
    ferry_status status;
    for (size_t stop = 1;; stop += 2) {
        struct stopper stopper = {.stop_at = stop};
        ferryi_thread thread;
        ferryi_mutex_init(&stopper.mutex);
        ferryi_cond_init(&stopper.changed);
        start_world(&w, f, operation, start);
        const ferry_copy_options options = {
            .chunk_bytes = CHUNK, .keep_going = ask_stopper, .user = &stopper};
        OK(ferryi_thread_start(&thread, "stopper", say_stop, &stopper));
        status = operation->run(&w, &options);
        ferryi_mutex_lock(&stopper.mutex);
        stopper.over = true;
        ferryi_cond_broadcast(&stopper.changed);
        ferryi_mutex_unlock(&stopper.mutex);
        ferryi_thread_join(thread);
        check_cancelled(&w, status, &stopper.watch);
        end_world(&w);
        ferryi_cond_destroy(&stopper.changed);
        ferryi_mutex_destroy(&stopper.mutex);
        if (status == FERRY_OK)
            return;
    }
}

static void
test_another_thread_cancels(void **state)
{
    for_each_start(*state, stop_from_another_thread);
}

/* -- failing ----------------------------------------------------------------------------------- */

/* Makes device call number `nth` fail. The valid map must stay correct. The error message must
 * count only bytes that arrived. Returns false if fewer than `nth` device calls were made. */
static bool
fail_call(fixture *f, const struct operation *operation, enum start start, uint64_t nth)
{
    static struct world w;
    size_t bytes;
    start_world(&w, f, operation, start);
    struct watch watch = {0};
    const ferry_copy_options options = watched_by(&watch);
    fault_arm(nth);
    ferry_status status = operation->run(&w, &options);
    bool tripped = fault_tripped();
    fault_disarm();
    size_t arrived = count_arrived(&w);
    if (watch.wrong)
        complain(&w, "progress is wrong", watch.last);
    if (status == FERRY_OK)
        assert_int_equal(arrived, watch.total);
    else if (status != FERRY_ERROR_DEVICE || !strstr(ferry_last_error(), "fault injected"))
        complain(&w, ferry_status_name(status), nth);
    /* Checks that all bytes that were reported as progress have arrived. */
    assert_true(arrived >= watch.last);
    const char *message = strstr(ferry_last_error(), " bytes of which arrived");
    if (status != FERRY_OK && message) {
        while (message > ferry_last_error() && !strchr(",:", message[-1]))
            message--;
        assert_int_equal(sscanf(message, " %zu of", &bytes), 1);
        if (arrived < bytes || bytes < watch.last)
            complain(&w, ferry_last_error(), arrived);
    }
    OK(operation->run(&w, NULL));
    end_world(&w);
    OK(ferryi_device_synchronize(device_of(f, 1)));
    return tripped;
}

static void
test_whatever_call_fails(void **state)
{
    (void)state;
    fixture f;
    open_small(&f, "fault");
    for (size_t i = 0; i < LENGTH(operations); i++)
        for (enum start start = 0; start < STARTS; start++)
            for (uint64_t nth = 1; fail_call(&f, &operations[i], start, nth);)
                nth++;
    f.errors = 0; /* errors about events that could not be destroyed are expected */
    fixture_close(&f);
}

/* -- sync_to ----------------------------------------------------------------------------------- */

static size_t
first_stale(struct world *w, int place)
{
    size_t low = 0, high = COUNT;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        ferry_buffer *view;
        OK(ferry_buffer_view(w->target, INT, 0, middle, &view));
        bool current = ferry_buffer_is_current(view, place);
        ferry_buffer_destroy(&view);
        if (current)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void
sync_and_cancel(fixture *f, int place, enum start start)
{
    static struct world w;
    ferry_status status;
    size_t stop = 1;
    do {
        start_world(&w, f, NULL, start);
        bool current = ferry_buffer_is_current(w.target, place);
        struct watch watch = {.stop_at = stop++};
        const ferry_copy_options options = watched_by(&watch);
        status = ferry_int_sync_to((ferry_int_buffer){w.target}, place, &options);
        assert_false(watch.wrong);
        if (current || f->coherent) {
            assert_int_equal(watch.calls,
                             0); /* keep_going is not called if no byte is transferred */
        } else if (status == FERRY_OK) {
            assert_int_equal(watch.last, sizeof(w.old_target));
            assert_int_equal(watch.total, sizeof(w.old_target));
        } else {
            /* The bytes that arrived before the sync was cancelled are the first bytes of the
             * range. They are current at the target place. */
            assert_int_equal(status, FERRY_ERROR_CANCELLED);
            check_message(&w, watch.last, sizeof(w.old_target));
            assert_in_range(first_stale(&w, place) * 4, watch.last, sizeof(w.old_target) - 1);
            /* A second call of ferry_buffer_sync_to() does not copy the bytes again that are
             * already current at the place. */
            ferry_transfer_stats before = moved(f), after;
            OK(ferry_buffer_sync_to(w.target, 0, FERRY_REST, place, NULL));
            after = moved(f);
            assert_true(crossing(&after) - crossing(&before) <= sizeof(w.old_target) - watch.last);
        }
        assert_true(status != FERRY_OK || ferry_buffer_is_current(w.target, place));
        for (int other = f->places; other >= 0; other--)
            expect_counting(f, w.target, other, 0, FERRY_REST, 1000);
        end_world(&w);
    } while (status != FERRY_OK);
    /* A sync that copies all bytes takes several chunks. So it must have been cancelled at several
     * points. */
    if (!f->coherent && (place == 0 ? start == AT_DEVICE : start == AT_HOST))
        assert_true(stop > 5);
}

static void
test_sync_to_tells_and_can_be_cancelled(void **state)
{
    fixture *f = *state;
    fixture_close(f);
    open_small(f, NULL);
    for (int place = 0; place <= f->places; place++)
        for (enum start start = 0; start < STARTS; start++)
            sync_and_cancel(f, place, start);
    /* The progress of a copy to a range inside the buffer counts bytes from the beginning of that
     * range. */
    ferry_buffer *b = make_counting(f, COUNT, 0);
    struct watch watch = {0};
    const ferry_copy_options options = watched_by(&watch);
    OK(ferry_buffer_sync_to(((ferry_int_buffer){b}).raw, 100, 4000, 1, &options));
    assert_int_equal(watch.total, f->coherent ? 0 : 16000);
    assert_int_equal(watch.last, watch.total);
    assert_true(f->coherent || !ferry_buffer_is_current(b, 1));
    ferry_buffer_destroy(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_progress_rises_to_the_total),
        TEST(test_cancel_at_each_chunk),
        TEST(test_another_thread_cancels),
        cmocka_unit_test(test_whatever_call_fails),
        TEST(test_sync_to_tells_and_can_be_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
