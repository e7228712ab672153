/* SPDX-License-Identifier: MIT */
/*
 * Checks programs that fork. In the child, calls on objects of the parent must fail at once with a
 * message. The child may destroy these objects, and may create new contexts. Nothing that the child
 * does may affect the parent.
 */
#include "tests/buffer/support.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/sanitizer.h"
#include "tests/support/copies.h"
#include "tests/support/exchange.h"

#define COUNT         4096
#define HANGS_AFTER_S 20

/* Changes an option of the thread sanitizer. By default, the sanitizer ends a forked child that
 * starts threads. */
const char *__tsan_default_options(void);
const char *
__tsan_default_options(void)
{
    return "die_after_fork=0";
}

/* Whether this is a build with the thread sanitizer, which does not support threads that a forked
 * child starts. */
#define THREADS_ARE_WATCHED FERRYI_THREAD_SANITIZER
/* Whether this is a build with the address sanitizer. Its allocator may hang in a forked child if
 * other threads of the parent allocated during the fork. */
#define ALLOCATOR_MAY_HANG FERRYI_ADDRESS_SANITIZER

/* Objects of the library that exist in the parent when it forks. */
struct things {
    ferry_buffer *buffer, *view, *other;
    ferry_stream *stream;
    ferry_event *event;
    ferry_kernel *kernel;
    ferry_pool *pool;
    ferry_block *block;
    ferry_scope scope; /* an open READ scope */
    /* three leases: open on the host, open on the device, and closed */
    ferry_lease *leases[3];
};

/* -- in the child: no checks of the test framework, which would jump into the parent's tests --- */

static void
complain(const char *call, ferry_status status)
{
    fprintf(stderr, "in the child: %s gave %s: %s\n", call, ferry_status_name(status),
            ferry_last_error());
    _exit(1);
}

static void
must_refuse(const char *call, ferry_status status)
{
    if (status != FERRY_ERROR_INVALID_STATE || !strstr(ferry_last_error(), "forked"))
        complain(call, status);
}

static void
must_work(const char *call, ferry_status status)
{
    if (status != FERRY_OK)
        complain(call, status);
}

#define REFUSED(call)   (support_clear_error(), must_refuse(#call, (call)))
#define WORKS(call)     must_work(#call, (call))
#define TRUE(condition) ((condition) ? (void)0 : complain(#condition, FERRY_OK))

static ferry_status
nothing(const ferry_call *call, void *user)
{
    (void)call;
    (void)user;
    return FERRY_OK;
}

static const ferry_parameter one_array[1] = {{.element = NULL, .access = FERRY_UPDATE}};

static ferry_kernel_source
kernel_source(ferry_parameter *parameter)
{
    *parameter = one_array[0];
    parameter->element = INT;
    return (ferry_kernel_source){
        .name = "nothing", .host_function = nothing, .parameters = parameter, .parameter_count = 1};
}

static void
ask_buffers(ferry_context *context, struct things *t)
{
    int values[4] = {0};
    void *pointer;
    ferry_scope scope;
    ferry_buffer *made;
    ferry_lease *lease;
    ferry_event *event;
    ferry_argument argument =
        ferry_argument_with(ferry_buffer_argument(t->buffer, INT, 0, 4), FERRY_READ);
    REFUSED(ferry_buffer_create(context, INT, 4, NULL, &made));
    REFUSED(ferry_lease_open(t->buffer, INT, &(ferry_lease_options){.access = FERRY_READ}, &lease,
                             &pointer));
    REFUSED(ferry_lease_open(t->buffer, INT,
                             &(ferry_lease_options){.access = FERRY_UPDATE, .place = 1}, &lease,
                             &pointer));
    REFUSED(ferry_buffer_create_from(context, INT, 4, values, NULL, &made));
    REFUSED(ferry_buffer_wrap_host(context, INT, 4, values, NULL, &made));
    REFUSED(ferry_buffer_view(t->buffer, INT, 0, 4, &made));
    REFUSED(ferry_buffer_view_read_only(t->buffer, INT, 0, 4, &made));
    REFUSED(ferry_buffer_reinterpret(t->buffer, FLOAT, 0, 4, &made));
    REFUSED(ferry_buffer_resize(t->buffer, 8));
    for (int access = FERRY_READ; access <= FERRY_OVERWRITE; access++) {
        REFUSED(
            ferry_buffer_open_host(t->buffer, INT, (ferry_access)access, 0, 4, &scope, &pointer));
        REFUSED(ferry_buffer_open_device(t->buffer, INT, (ferry_access)access, 0, 4, t->stream,
                                         &scope, &pointer));
        REFUSED(ferry_buffer_open_host(t->view, INT, (ferry_access)access, 0, 4, &scope, &pointer));
        REFUSED(ferry_buffer_wait_available(t->buffer, (ferry_access)access, 1000));
    }
    REFUSED(ferry_scope_open_all(&argument, 1, 0, NULL, &scope, &pointer));
    REFUSED(ferry_scope_open_all(&argument, 1, 1, t->stream, &scope, &pointer));
    REFUSED(ferry_buffer_copy_from(t->buffer, INT, 0, 4, values, NULL));
    REFUSED(ferry_buffer_copy_to(t->buffer, INT, 0, 4, values, NULL));
    REFUSED(ferry_buffer_copy(t->buffer, INT, 0, t->other, 0, 4, NULL));
    REFUSED(ferry_buffer_fill(t->buffer, INT, 0, 4, values, NULL));
    REFUSED(ferry_buffer_copy_from_async(t->buffer, INT, 0, 4, values, ON(t->stream), &event));
    REFUSED(ferry_buffer_copy_to_async(t->buffer, INT, 0, 4, values, ON(t->stream), &event));
    REFUSED(ferry_buffer_copy_async(t->buffer, INT, 0, t->other, 0, 4, ON(t->stream), &event));
    REFUSED(ferry_buffer_fill_async(t->buffer, INT, 0, 4, values, ON(t->stream), &event));
    REFUSED(ferry_buffer_prefetch(t->buffer, 0, FERRY_REST, 1, t->stream));
    REFUSED(ferry_buffer_sync_to(t->buffer, 0, 4, 0, NULL));
    REFUSED(ferry_buffer_mark_dirty(t->buffer, 0, 4, 0, NULL));
    REFUSED(ferry_buffer_invalidate(t->buffer, 0, 4, 0));
    REFUSED(ferry_buffer_discard(t->buffer, 0, 4));
    REFUSED(ferry_buffer_evict(t->buffer, 0));
    REFUSED(ferry_buffer_reserve(t->buffer, 1));
    REFUSED(ferry_buffer_wait_idle(t->buffer, 1));
    REFUSED(ferry_buffer_hold(t->buffer, 0, &pointer));
    REFUSED(ferry_buffer_release(t->buffer, 0));
    REFUSED(ferry_buffer_advise(t->buffer, 0, FERRY_REST, 0, (ferry_advice)1));
    TRUE(ferry_buffer_state(t->buffer) == FERRY_STATE_UNINITIALIZED);
    TRUE(!ferry_buffer_is_current(t->buffer, 0));
    TRUE(!ferry_buffer_is_page_locked(t->buffer));
    TRUE(ferry_buffer_count(t->buffer) == COUNT);
}

static void
ask_others(ferry_context *context, struct things *t)
{
    ferry_place_info place;
    ferry_memory_info memory;
    ferry_transfer_stats transfers;
    ferry_pool_stats stats;
    ferry_pool_class_stats class_stats;
    ferry_stream *stream;
    ferry_event *event;
    ferry_pool *pool;
    ferry_block *block;
    ferry_buffer *found;
    ferry_kernel *kernel;
    ferry_parameter parameter;
    ferry_kernel_source source = kernel_source(&parameter);
    ferry_argument argument = ferry_buffer_argument(t->buffer, INT, 0, 4);
    bool done;
    REFUSED(ferry_context_get_place_info(context, 1, &place));
    REFUSED(ferry_context_get_memory_info(context, 1, &memory));
    REFUSED(ferry_context_get_transfer_stats(context, &transfers));
    REFUSED(ferry_context_snapshot(context, "/dev/null"));
    REFUSED(ferry_context_reset_stats(context));
    REFUSED(ferry_context_register_host(context, t, sizeof(*t)));
    REFUSED(ferry_context_unregister_host(context, t));
    REFUSED(ferry_context_find(context, "kept", &found));
    REFUSED(ferry_context_pool(context, 0, FERRY_MEMORY_DEFAULT, &pool));
    for (int at = 0; at <= ferry_context_place_count(context); at++)
        TRUE(!ferry_context_stream(context, at));
    TRUE(!ferry_stream_native(t->stream) && ferry_stream_place(t->stream) == -1);
    REFUSED(ferry_stream_create(context, 1, &stream));
    REFUSED(ferry_stream_wrap(context, 1, t, &stream));
    REFUSED(ferry_stream_flush(t->stream));
    REFUSED(ferry_stream_synchronize(t->stream));
    REFUSED(ferry_stream_record(t->stream, 0, &event));
    REFUSED(ferry_stream_wait_event(t->stream, t->event));
    REFUSED(ferry_event_synchronize(t->event));
    REFUSED(ferry_event_query(t->event, &done));
    double seconds;
    REFUSED(ferry_event_elapsed(t->event, t->event, &seconds));
    REFUSED(ferry_kernel_create(context, &source, &kernel));
    REFUSED(ferry_kernel_launch(t->kernel, ferry_grid_for(1, 1), t->stream, &argument, 1));
    REFUSED(copy_rows(t->buffer, INT, 0, 4, t->other, 0, 4, 2, 2, NULL));
    REFUSED(copy_rows_async(t->buffer, INT, 0, 4, t->other, 0, 4, 2, 2, ON(t->stream), &event));
    REFUSED(ferry_pool_allocate(t->pool, 4096, NULL, &block));
    REFUSED(ferry_pool_allocate(t->pool, 4096, t->stream, &block));
    REFUSED(ferry_block_free(&t->block, NULL));
    REFUSED(ferry_pool_get_stats(t->pool, &stats));
    REFUSED(ferry_pool_get_class_stats(t->pool, 0, &class_stats));
    REFUSED(ferry_pool_trim(t->pool, 0));
    REFUSED(ferry_pool_trim_older(t->pool, 0));
    REFUSED(ferry_pool_compact(t->pool, NULL));
    REFUSED(ferry_pool_configure(t->pool, NULL));
    REFUSED(ferry_pool_on_shortage(t->pool, NULL, NULL));
    REFUSED(ferry_block_label(t->block, "label"));
}

static void
destroy_handles(struct things *t)
{
    ferry_kernel_destroy(&t->kernel);
    ferry_event_destroy(&t->event);
    ferry_stream_destroy(&t->stream);
    ferry_buffer_destroy(&t->view);
    ferry_buffer_destroy(&t->buffer);
    ferry_buffer_destroy(&t->other);
}

static void
let_go(ferry_context **context, struct things *t)
{
    WORKS(ferry_scope_close(&t->scope));
    for (int i = 0; i < 3; i++) {
        TRUE(!ferry_lease_is_open(t->leases[i]));
        WORKS(ferry_lease_close(t->leases[i]));
        WORKS(ferry_lease_abandon(t->leases[i]));
        ferry_lease *again = ferry_lease_retain(t->leases[i]);
        ferry_lease_destroy(&again);
        ferry_lease_destroy(&t->leases[i]);
        TRUE(!t->leases[i]);
    }
    destroy_handles(t);
    ferry_context_destroy(context);
    TRUE(!*context && !t->buffer && !t->stream && !t->event && !t->kernel);
}

/* Creates a context on `devices` in the forked child, and uses a buffer and a pool of the context.
 */
static void
begin_anew(const char *devices)
{
    ferry_context_options options = {.devices = devices};
    ferry_context *context;
    ferry_buffer *buffer;
    ferry_pool *pool;
    ferry_block *block;
    int values[64], back[64] = {0};
    for (int i = 0; i < 64; i++)
        values[i] = 3 * i;
    WORKS(ferry_context_create(&options, &context));
    WORKS(ferry_buffer_create_from(context, INT, 64, values, NULL, &buffer));
    WORKS(ferry_buffer_sync_to(buffer, 0, FERRY_REST, 1, NULL));
    WORKS(ferry_buffer_invalidate(buffer, 0, FERRY_REST, 0));
    WORKS(ferry_buffer_copy_to(buffer, INT, 0, 64, back, NULL));
    TRUE(memcmp(values, back, sizeof(back)) == 0);
    WORKS(ferry_context_pool(context, 0, FERRY_MEMORY_DEFAULT, &pool));
    WORKS(ferry_pool_allocate(pool, 4096, NULL, &block));
    WORKS(ferry_block_free(&block, NULL));
    WORKS(ferry_pool_trim(pool, 0));
    ferry_buffer_destroy(&buffer);
    ferry_context_destroy(&context);
}

static void
be_the_child(ferry_context *context, struct things *t)
{
    alarm(HANGS_AFTER_S);
    ask_buffers(context, t);
    ask_others(context, t);
    let_go(&context, t);
    begin_anew("host");
    if (!THREADS_ARE_WATCHED)
        begin_anew("emulated");
    _exit(0);
}

/* -- in the parent ----------------------------------------------------------------------------- */

static void
make_things(fixture *f, struct things *t)
{
    ferry_buffer_options named = {.name = "kept"};
    ferry_parameter parameter;
    ferry_kernel_source source = kernel_source(&parameter);
    void *pointer;
    memset(t, 0, sizeof(*t));
    OK(ferry_buffer_create(f->context, INT, COUNT, &named, &t->buffer));
    write_counting(f, t->buffer, 1, 0, COUNT, 7);
    t->other = make_counting(f, COUNT, 1);
    OK(ferry_buffer_view(t->buffer, INT, 0, 16, &t->view));
    OK(ferry_stream_create(f->context, 1, &t->stream));
    OK(ferry_kernel_create(f->context, &source, &t->kernel));
    OK(ferry_context_pool(f->context, 0, FERRY_MEMORY_DEFAULT, &t->pool));
    OK(ferry_pool_allocate(t->pool, 4096, NULL, &t->block));
    OK(ferry_buffer_open_host(t->other, INT, FERRY_READ, 0, 8, &t->scope, &pointer));
    for (int i = 0; i < 3; i++)
        OK(ferry_lease_open(t->other, INT,
                            &(ferry_lease_options){.access = FERRY_READ,
                                                   .place = i == 1,
                                                   .offset = (size_t)i * 8 + 8,
                                                   .count = 8,
                                                   .label = "parent"},
                            &t->leases[i], &pointer));
    OK(ferry_lease_close(t->leases[2]));
    OK(ferry_stream_record(t->stream, 0, &t->event));
}

static void
let_things_go(struct things *t)
{
    OK(ferry_scope_close(&t->scope));
    for (int i = 0; i < 3; i++) {
        assert_true(ferry_lease_is_open(t->leases[i]) == (i < 2));
        ferry_lease_destroy(&t->leases[i]);
    }
    OK(ferry_block_free(&t->block, NULL));
    destroy_handles(t);
}

static void
fork_once(ferry_context *context, struct things *t)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        be_the_child(context, t);
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

static void
test_child_is_refused_everything_and_parent_goes_on(void **state)
{
    fixture *f = *state;
    struct things t;
    if (ALLOCATOR_MAY_HANG)
        skip();
    make_things(f, &t);
    for (int i = 0; i < 3; i++) {
        fork_once(f->context, &t);
        expect_counting(f, t.buffer, 0, 0, COUNT, 7 + i);
        add_to(f, t.buffer, 1, 0, COUNT, 1);
        expect_counting(f, t.other, 0, 0, COUNT, 1);
    }
    let_things_go(&t);
}

/* -- exchange ---------------------------------------------------------------------------------- */

/* Objects that the parent has exported or imported when it forks: a buffer and its leases, exports
 * of each kind, and an imported buffer. */
struct exchanged {
    ferry_buffer *buffer, *imported;
    ferry_lease *leases[3];
    struct DLManagedTensorVersioned *tensors[2];
    struct DLManagedTensor *legacy;
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
};

static int imported_memory[16];

static void
make_exchanged(fixture *f, struct exchanged *e)
{
    static const struct {
        ferry_access access;
        bool at_device;
    } leases[3] = {{FERRY_READ, false}, {FERRY_READ, true}, {FERRY_UPDATE, false}};
    void *pointer;
    memset(e, 0, sizeof(*e));
    e->buffer = make_counting(f, COUNT, 5);
    for (int i = 0; i < 3; i++)
        OK(ferry_lease_open(
            e->buffer, INT,
            &(ferry_lease_options){.access = leases[i].access,
                                   .place = leases[i].at_device,
                                   .offset = (size_t)i * 64,
                                   .count = 64,
                                   .stream = leases[i].at_device ? f->stream : NULL},
            &e->leases[i], &pointer));
    OK(ferry_lease_export_dlpack(e->leases[0], NULL, &e->tensors[0]));
    OK(ferry_lease_export_arrow(e->leases[0], &e->array, &e->schema));
    OK(ferry_lease_export_dlpack(e->leases[1], NULL, &e->tensors[1]));
    OK(ferry_lease_export_dlpack_legacy(e->leases[2], NULL, &e->legacy));
    struct DLManagedTensorVersioned *producer =
        exchange_versioned(imported_memory, LENGTH(imported_memory));
    assert_non_null(producer);
    OK(ferry_buffer_import_dlpack(f->context, producer, NULL, &e->imported));
}

static void
delete_exports(struct exchanged *e)
{
    for (int i = 0; i < 2; i++)
        e->tensors[i]->deleter(e->tensors[i]);
    e->legacy->deleter(e->legacy);
    e->array.array.release(&e->array.array);
    e->schema.release(&e->schema);
}

static void
destroy_leases(struct exchanged *e)
{
    for (int i = 0; i < 3; i++)
        ferry_lease_destroy(&e->leases[i]);
}

static void
ask_exchange(ferry_context *context, struct exchanged *e)
{
    struct DLManagedTensorVersioned *tensor = exchange_versioned(imported_memory, 4);
    struct DLManagedTensor *legacy = exchange_legacy(imported_memory, 4);
    struct ArrowDeviceArray *arrow = exchange_arrow(imported_memory, 4), array;
    struct ArrowSchema schema;
    ferry_buffer *made;
    int32_t type, id;
    TRUE(tensor && legacy && arrow);
    REFUSED(ferry_buffer_import_dlpack(context, tensor, NULL, &made));
    REFUSED(ferry_buffer_import_dlpack_legacy(context, legacy, NULL, &made));
    REFUSED(ferry_buffer_import_arrow(context, arrow, &exchange_int_schema, NULL, &made));
    TRUE(exchange_deleted() == 0);
    exchange_free(tensor);
    exchange_free(legacy);
    exchange_free(arrow);
    REFUSED(ferry_lease_export_dlpack(e->leases[0], NULL, &tensor));
    REFUSED(ferry_lease_export_dlpack_legacy(e->leases[2], NULL, &legacy));
    REFUSED(ferry_lease_export_arrow(e->leases[0], &array, &schema));
    REFUSED(ferry_context_exchange_device(context, 1, &type, &id));
}

/* Runs in the forked child. Deletes the child's copies of the parent's objects, which must not
 * affect the parent. `how & 1` deletes the exports, and `how & 2` the leases, the buffers and the
 * context. If `how` is 2, the exports are deleted last. `how & 4` ends the child with _exit()
 * instead of exit(). */
static void
be_the_exchanging_child(ferry_context *context, struct exchanged *e, int how)
{
    alarm(HANGS_AFTER_S);
    ask_exchange(context, e);
    if (how & 1)
        delete_exports(e);
    if (how & 2) {
        destroy_leases(e);
        ferry_buffer_destroy(&e->imported);
        ferry_buffer_destroy(&e->buffer);
        ferry_context_destroy(&context);
        TRUE(!e->buffer && !e->imported && !context);
    }
    if (how == 2)
        delete_exports(e);
    if (how & 4)
        _exit(0);
    exit(0);
}

static void
test_exports_in_the_child(void **state)
{
    fixture *f = *state;
    struct exchanged e;
    if (ALLOCATOR_MAY_HANG)
        skip();
    make_exchanged(f, &e);
    for (int how = 0; how < 8; how++) {
        int ended = 0;
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            be_the_exchanging_child(f->context, &e, how);
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_true(WIFEXITED(ended));
        assert_int_equal(WEXITSTATUS(ended), 0);
    }
    /* After the children have ended, the leases and exports must still exist in the parent. */
    assert_int_equal(info_of(e.buffer).leases, 3);
    assert_int_equal(exchange_deleted(), 0);
    destroy_leases(&e);
    assert_int_equal(info_of(e.buffer).leases, 3);
    delete_exports(&e);
    assert_int_equal(info_of(e.buffer).leases, 0);
    expect_counting(f, e.buffer, 0, 0, COUNT, 5);
    ferry_buffer_destroy(&e.buffer);
    ferry_buffer_destroy(&e.imported);
    assert_int_equal(exchange_deleted(), 1);
}

struct busy {
    ferry_context *context;
    int places;
    atomic_bool stop;
    _Atomic unsigned rounds, wrong;
};

static ferry_status
one_round(struct busy *busy, int *values, size_t count)
{
    ferry_buffer *buffer = NULL;
    ferry_event *event = NULL;
    ferry_status status;
    FERRY_TRY(status, out,
              ferry_buffer_create_from(busy->context, INT, count, values, NULL, &buffer));
    FERRY_TRY(status, out, ferry_buffer_sync_to(buffer, 0, FERRY_REST, busy->places, NULL));
    FERRY_TRY(status, out,
              ferry_buffer_copy_from_async(buffer, INT, 0, count, values,
                                           ON(ferry_context_stream(busy->context, 1)), &event));
    FERRY_TRY(status, out, ferry_event_synchronize(event));
    FERRY_TRY(status, out, ferry_buffer_copy_to(buffer, INT, 0, count, values, NULL));
out:
    ferry_event_destroy(&event);
    ferry_buffer_destroy(&buffer);
    return status;
}

static void *
keep_busy(void *argument)
{
    struct busy *busy = argument;
    enum { VALUES = 200000 };
    int *values = calloc(VALUES, sizeof(*values));
    unsigned round = 0;
    for (; values && !atomic_load(&busy->stop); round++) {
        if (one_round(busy, values, round % 4 ? 100 : VALUES) != FERRY_OK || values[7] != 0)
            atomic_fetch_add(&busy->wrong, 1);
        atomic_fetch_add(&busy->rounds, 1);
    }
    free(values);
    return NULL;
}

static void
test_forks_in_the_midst_of_work(void **state)
{
    fixture *f = *state;
    struct things t;
    struct busy busy = {.context = f->context, .places = f->places};
    pthread_t threads[2];
    if (THREADS_ARE_WATCHED || ALLOCATOR_MAY_HANG)
        skip();
    make_things(f, &t);
    for (size_t i = 0; i < LENGTH(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_busy, &busy), 0);
    for (int i = 0; i < (getenv("FERRY_LONG") ? 500 : 15); i++)
        fork_once(f->context, &t);
    unsigned rounds = atomic_load(&busy.rounds);
    for (int i = 0; i < 2000 && atomic_load(&busy.rounds) < rounds + 4; i++)
        ferryi_sleep_ns(5000000);
    assert_true(atomic_load(&busy.rounds) >= rounds + 4);
    atomic_store(&busy.stop, true);
    for (size_t i = 0; i < LENGTH(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&busy.wrong), 0);
    expect_counting(f, t.buffer, 0, 0, COUNT, 7);
    let_things_go(&t);
}

static void
test_shared_context_of_the_parent_is_not_the_childs(void **state)
{
    fixture *f = *state;
    ferry_context *shared, *again;
    (void)f;
    if (THREADS_ARE_WATCHED || ALLOCATOR_MAY_HANG)
        skip();
    OK(ferry_context_shared(&shared));
    bool cuda = strncmp(getenv("FERRY_DEVICE"), "cuda", 4) == 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(HANGS_AFTER_S);
        ferry_place_info info;
        REFUSED(ferry_context_get_place_info(shared, 1, &info));
        ferry_status status = ferry_context_shared(&again);
        if (cuda) /* CUDA cannot be used in a forked child */
            TRUE(status == FERRY_ERROR_NO_DEVICE && strstr(ferry_last_error(), "forked"));
        else
            WORKS(status);
        ferry_context_destroy(&shared);
        if (!cuda)
            ferry_context_destroy(&again);
        _exit(0);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    OK(ferry_context_shared(&again));
    assert_ptr_equal(again, shared);
    ferry_context_destroy(&again);
    ferry_context_destroy(&shared);
}

/* Checks that a forked child that retains or destroys the parent's context does not affect the
 * parent. The child may destroy the context more often than it has owners. In the parent, the
 * number of owners must not change. */
static void
test_owners_of_the_parent_stay_its_own(void **state)
{
    fixture *f = *state;
    ferry_context *mine = ferry_context_retain(f->context);
    pid_t child = fork();
    if (child == 0) {
        alarm(HANGS_AFTER_S);
        ferry_place_info info;
        ferry_context *more = ferry_context_retain(mine);
        TRUE(more == mine);
        for (int i = 0; i < 4; i++) {
            ferry_context *gone = mine;
            ferry_context_destroy(&gone);
            TRUE(!gone);
        }
        REFUSED(ferry_context_get_place_info(mine, 1, &info));
        TRUE(ferry_context_retain(mine) == mine);
        _exit(0);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    ferry_context_destroy(&mine);
    ferry_buffer *b;
    OK(ferry_buffer_create(f->context, INT, COUNT, NULL, &b));
    OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 1, NULL));
    ferry_buffer_destroy(&b);
}

/* Creates a buffer in a new context, and fills the buffer with `value`. */
static void
create_filled(int value, ferry_context **out_context, ferry_buffer **out)
{
    const ferry_context_options options = {.devices = "host"};
    WORKS(ferry_context_create(&options, out_context));
    WORKS(ferry_buffer_create(*out_context, INT, COUNT, NULL, out));
    WORKS(ferry_buffer_fill(*out, INT, 0, COUNT, &value, NULL));
}

/* Runs in a child process. Creates and fills a buffer, waits until the parent writes a byte to the
 * pipe `go`, and then checks the values. */
static void
fill_wait_and_look(int value, int ready, int go)
{
    ferry_context *context;
    ferry_buffer *buffer;
    int found[COUNT];
    char byte = 0;
    create_filled(value, &context, &buffer);
    TRUE(write(ready, &byte, 1) == 1 && read(go, &byte, 1) == 1);
    WORKS(ferry_buffer_copy_to(buffer, INT, 0, COUNT, found, NULL));
    for (int i = 0; i < COUNT; i++)
        TRUE(found[i] == value);
    ferry_buffer_destroy(&buffer);
    ferry_context_destroy(&context);
}

/* Checks that FERRY_DEBUG=1 does not make processes share the memory of buffers. A parent and two
 * children fill their buffers with different values, and each must keep its own values. */
static void
test_checked_memory_is_not_shared_with_relatives(void **state)
{
    (void)state;
    if (THREADS_ARE_WATCHED || ALLOCATOR_MAY_HANG)
        skip();
    ferry_context *context;
    ferry_buffer *buffer;
    int ready[2], go[2], how = 0;
    char byte = 0;
    pid_t children[2];
    setenv("FERRY_DEBUG", "1", 1);
    create_filled(7, &context, &buffer);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe(ready), 0);
        if (i == 0)
            assert_int_equal(pipe(go), 0);
        children[i] = fork();
        if (children[i] == 0) {
            alarm(HANGS_AFTER_S);
            fill_wait_and_look(i + 1, ready[1], go[0]);
            _exit(0);
        }
        assert_int_equal(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        close(ready[1]);
    }
    assert_int_equal(write(go[1], "ok", 2), 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(children[i], &how, 0), children[i]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    int found[COUNT];
    OK(ferry_buffer_copy_to(buffer, INT, 0, COUNT, found, NULL));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(found[i], 7);
    close(go[0]);
    close(go[1]);
    ferry_buffer_destroy(&buffer);
    ferry_context_destroy(&context);
    setenv("FERRY_DEBUG", "0", 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_exports_in_the_child),
        TEST(test_child_is_refused_everything_and_parent_goes_on),
        TEST(test_forks_in_the_midst_of_work),
        TEST(test_shared_context_of_the_parent_is_not_the_childs),
        TEST(test_owners_of_the_parent_stay_its_own),
        TEST(test_checked_memory_is_not_shared_with_relatives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
