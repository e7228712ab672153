/* SPDX-License-Identifier: MIT */
/* Tests snapshots of a context's memory: that they list each block of each pool with its owner,
 * that an allocation that fails makes one, and what happens where none can be written. What `ferry
 * trace` makes of a snapshot is tested in tests/cli. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/buffer/files.h"
#include "tests/support/folder.h"
#include "tests/support/short_memory.h"

enum { COUNT = 1000 };

static char *
text_of(const char *name)
{
    size_t bytes;
    return folder_read_file(path_of(name), &bytes);
}

static char *
snapshot_of(fixture *f)
{
    OK(ferry_context_snapshot(f->context, path_of("snapshot")));
    return text_of("snapshot");
}

static void
expect_part(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not contain \"%s\"", text, part);
}

static ferry_buffer *
make_named(fixture *f, const char *name)
{
    ferry_buffer *buffer;
    OK(ferry_buffer_create(f->context, INT, COUNT, &(ferry_buffer_options){.name = name}, &buffer));
    return buffer;
}

/* The sums of the blocks of a pool, by their states. */
struct sums {
    size_t live, idle, requested, slabs;
};

/* Adds up the blocks from the line `at` on, up to the end of the pool, and checks that they fill
 * their slabs. */
static struct sums
add_up(const char *at)
{
    struct sums sums = {0};
    size_t slab = 0, next = 0, bytes, offset, requested;
    char state[16];
    for (; *at; at = strchr(at, '\n') + 1) {
        if (sscanf(at, " {\"address\":\"0x%*[0-9a-f]\",\"bytes\":%zu,\"blocks\":[", &bytes) == 1) {
            assert_int_equal(next, slab);
            slab = bytes;
            next = 0;
            sums.slabs += bytes;
        } else if (sscanf(at,
                          " {\"offset\":%zu,\"bytes\":%zu,\"state\":\"%15[a-z]\",\"requested\":%zu",
                          &offset, &bytes, state, &requested) == 4) {
            assert_int_equal(offset, next);
            next += bytes;
            *(strcmp(state, "live") == 0 ? &sums.live : &sums.idle) += bytes;
            sums.requested += requested;
        } else {
            break;
        }
    }
    assert_int_equal(next, slab);
    return sums;
}

/* The part of a snapshot that describes the pool of a kind of memory at a place. */
static const char *
find_pool(const char *text, int place, const char *kind)
{
    char part[64];
    snprintf(part, sizeof(part), "{\"place\":%d,", place);
    text = strstr(text, part);
    assert_non_null(text);
    snprintf(part, sizeof(part), "{\"kind\":\"%s\",\"limit\":", kind);
    text = strstr(text, part);
    assert_non_null(text);
    return strchr(text, '\n') + 1;
}

static void
expect_stats(fixture *f, const char *text, int place, ferry_memory_kind kind, const char *name)
{
    ferry_pool *pool;
    ferry_pool_stats stats;
    OK(ferry_context_pool(f->context, place, kind, &pool));
    OK(ferry_pool_get_stats(pool, &stats));
    const struct sums sums = add_up(find_pool(text, place, name));
    assert_int_equal(sums.live, stats.live_bytes);
    assert_int_equal(sums.idle, stats.cached_bytes);
    assert_int_equal(sums.slabs, stats.reserved_bytes);
    assert_int_equal(sums.requested, stats.requested_bytes);
}

static void
test_a_snapshot_lists_all_blocks(void **state)
{
    fixture *f = *state;
    ferry_buffer *heights = make_named(f, "heights"), *odd = make_named(f, "a \"b\" \\ c"),
                 *gone = make_named(f, "gone"), *large = make_ints(f, 1 << 20);
    write_counting(f, large, 0, 0, FERRY_REST, 0); /* it has a slab alone */
    touch(f, large, 1, FERRY_READ, 0, FERRY_REST);
    write_counting(f, heights, 0, 0, FERRY_REST, 0);
    touch(f, heights, 1, FERRY_READ, 0, FERRY_REST);
    write_counting(f, odd, 0, 0, FERRY_REST, 0);
    write_counting(f, gone, 0, 0, FERRY_REST, 0);
    ferry_buffer_destroy(&gone);
    OK(ferry_stream_synchronize(f->stream));
    char *text = snapshot_of(f);
    assert_int_equal(strncmp(text, "{\"ferry\":1,\"version\":\"", 22), 0);
    expect_part(text, "\"trace\":null,\"places\":[");
    expect_part(text, "\"owner\":\"heights\"");
    expect_part(text, "\"owner\":\"a \\\"b\\\" \\\\ c\"");
    if (!f->context->debug) /* which allocates whole pages at the host */
        expect_part(text, "\"state\":\"live\",\"requested\":4000,\"owner\":\"heights\"");
    expect_part(text, "\"state\":\"idle\",\"requested\":0,\"owner\":null,\"site\":null}");
    assert_null(strstr(text, "gone"));
    expect_stats(f, text, 0, FERRY_MEMORY_PAGEABLE, "pageable");
    if (!f->coherent) {
        expect_part(find_pool(text, 1, "device"), "\"owner\":\"heights\"");
        expect_stats(f, text, 1, FERRY_MEMORY_DEVICE, "device");
    }
    free(text);
    DESTROY_BUFFERS(&heights, &odd, &large);
}

/* A block of the program has its label. */
static void
test_blocks_of_the_program(void **state)
{
    fixture *f = *state;
    ferry_pool *pool;
    ferry_block *block;
    OK(ferry_context_pool(f->context, 0, FERRY_MEMORY_PAGEABLE, &pool));
    OK(ferry_pool_allocate(pool, 5000, NULL, &block));
    OK(ferry_block_label(block, "mesh"));
    char *text = snapshot_of(f);
    expect_part(text, "\"requested\":5000,\"owner\":\"mesh\",\"site\":null}");
    free(text);
    OK(ferry_block_free(&block, NULL));
}

static ferry_status
alloc_own(void *user, size_t bytes, void **out)
{
    (void)user;
    *out = aligned_alloc(256, bytes);
    return *out ? FERRY_OK : FERRY_ERROR_OUT_OF_MEMORY;
}

static ferry_status
free_own(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
    return FERRY_OK;
}

/* A pool over memory of the program is listed at its place. */
static void
test_pools_of_the_program(void **state)
{
    fixture *f = *state;
    const ferry_pool_backend backend = {.alloc = alloc_own, .free = free_own};
    ferry_pool *pool;
    ferry_block *block;
    OK(ferry_pool_create(f->context, 0, FERRY_MEMORY_PAGEABLE, &backend, NULL, &pool));
    OK(ferry_pool_allocate(pool, 3000, NULL, &block));
    char *text = snapshot_of(f);
    expect_part(find_pool(text, 0, "own"), "\"requested\":3000,\"owner\":null");
    free(text);
    OK(ferry_block_free(&block, NULL));
    ferry_pool_destroy(&pool);
}

/* Memory of a destroyed buffer is pending while queued work may use it. A lazy device does nothing
 * before it must. */
static void
test_memory_that_queued_work_uses(void **state)
{
    fixture *f = *state;
    ferry_buffer *queued = make_named(f, "queued");
    ferry_scope scope;
    void *pointer = open_at(f, queued, 1, FERRY_OVERWRITE, 0, FERRY_REST, &scope);
    device_write(f, 1, pointer, "used", 4);
    OK(ferry_scope_close(&scope));
    ferry_buffer_destroy(&queued);
    char *text = snapshot_of(f);
    if (strcmp(device_of(f, 1)->kind, "lazy") == 0)
        expect_part(text, "\"state\":\"pending\",\"requested\":0,\"owner\":null");
    free(text);
    OK(ferry_stream_synchronize(f->stream));
    text = snapshot_of(f);
    assert_null(strstr(text, "pending"));
    free(text);
}

static atomic_bool finished;

static void *
come_and_go(void *user)
{
    fixture *f = user;
    while (!atomic_load(&finished)) {
        ferry_buffer *buffer;
        OK(ferry_buffer_create(f->context, INT, COUNT, &(ferry_buffer_options){.name = "brief"},
                               &buffer));
        touch(f, buffer, 0, FERRY_OVERWRITE, 0, FERRY_REST);
        touch(f, buffer, 1, FERRY_READ, 0, FERRY_REST);
        ferry_buffer_destroy(&buffer);
    }
    return NULL;
}

/* Each pool is described as it is at one moment, while another thread makes and destroys buffers.
 */
static void
test_snapshots_beside_another_thread(void **state)
{
    fixture *f = *state;
    pthread_t thread;
    ferry_buffer *stays = make_counting(f, COUNT, 0);
    atomic_store(&finished, false);
    assert_int_equal(pthread_create(&thread, NULL, come_and_go, f), 0);
    for (int i = 0; i < 30; i++) {
        char *text = snapshot_of(f);
        assert_true(add_up(find_pool(text, 0, "pageable")).live > 0);
        if (!f->coherent && strstr(text, "\"device\""))
            (void)add_up(find_pool(text, 1, "device"));
        free(text);
    }
    atomic_store(&finished, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    ferry_buffer_destroy(&stays);
}

static void
test_a_snapshot_names_the_trace(void **state)
{
    fixture f;
    (void)state;
    fixture_open(&f,
                 &(ferry_context_options){.devices = "emulated", .trace_file = path_of("trace")});
    ferry_buffer *x = make_named(&f, "traced");
    write_counting(&f, x, 0, 0, FERRY_REST, 0);
    char *text = snapshot_of(&f), *trace = text_of("trace");
    expect_part(text, "\"trace\":\"");
    expect_part(text, path_of("trace"));
    expect_part(trace, "traced"); /* it was in memory only */
    free(text);
    free(trace);
    ferry_buffer_destroy(&x);
    fixture_close(&f);
}

static void
test_refusals(void **state)
{
    fixture *f = *state;
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_snapshot(NULL, path_of("snapshot")));
    expect_said("write a snapshot of a context: context is NULL", "");
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_snapshot(f->context, NULL));
    expect_said("path is NULL", "");
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_snapshot(f->context, ""));
    expect_said("path is empty", "");
    FAILS(FERRY_ERROR_IO, ferry_context_snapshot(f->context, path_of("missing/snapshot")));
    expect_said(path_of("missing/snapshot"), "No such file or directory");
    FAILS(FERRY_ERROR_IO, ferry_context_snapshot(f->context, "/dev/full"));
    expect_said("write a snapshot of a context to /dev/full", "No space left on device");
    char *text = snapshot_of(f);
    expect_part(text, "\"places\":[");
    free(text);
}

/* Each allocation of host memory fails once. */
static void
test_little_host_memory(void **state)
{
    fixture *f = *state;
    ferry_buffer *x = make_counting(f, COUNT, 0);
    ferry_status status;
    uint64_t nth = 0;
    do {
        short_memory_arm(++nth);
        status = ferry_context_snapshot(f->context, path_of("snapshot"));
        short_memory_disarm();
        assert_int_equal(status, short_memory_tripped() ? FERRY_ERROR_OUT_OF_MEMORY : FERRY_OK);
    } while (status != FERRY_OK);
    assert_true(nth > 3);
    ferry_buffer_destroy(&x);
}

/* -- by itself --------------------------------------------------------------------------------- */

static char logged[1024];

static void
keep_log(ferry_log_level level, const char *message, void *user)
{
    (void)user;
    if (level <= FERRY_LOG_WARNING && strstr(message, "snapshot"))
        snprintf(logged, sizeof(logged), "%s", message);
}

/* Creates a context with little device memory that makes a snapshot in `path`. */
static ferry_context *
open_short(const char *path, size_t device_bytes)
{
    ferry_context *context;
    setenv("FERRY_SNAPSHOT", path, 1);
    OK(ferry_context_create(&(ferry_context_options){.devices = "emulated",
                                                     .device_bytes_limit = device_bytes,
                                                     .log = keep_log},
                            &context));
    unsetenv("FERRY_SNAPSHOT");
    *logged = 0;
    return context;
}

/* Fails for lack of device memory, with the message that says so. */
static void
run_out(ferry_context *context)
{
    ferry_buffer *large;
    ferry_scope scope;
    void *pointer;
    OK(ferry_buffer_create(context, INT, 1 << 20, &(ferry_buffer_options){.name = "large"},
                           &large));
    FAILS(FERRY_ERROR_OUT_OF_MEMORY, ferry_buffer_open_device(large, INT, FERRY_OVERWRITE, 0,
                                                              FERRY_REST, NULL, &scope, &pointer));
    expect_said("large", "requested 4194304, free ");
    ferry_buffer_destroy(&large);
}

static void
test_an_allocation_that_fails_makes_one(void **state)
{
    ferry_context *context = open_short(path_of("first"), 2 << 20);
    ferry_buffer *small;
    ferry_scope scope;
    void *pointer;
    char name[FOLDER_PATH_BYTES];
    (void)state;
    OK(ferry_buffer_create(context, INT, COUNT, &(ferry_buffer_options){.name = "small"}, &small));
    OK(ferry_buffer_open_device(small, INT, FERRY_OVERWRITE, 0, FERRY_REST, NULL, &scope,
                                &pointer));
    assert_int_equal(access(path_of("first"), F_OK), -1);
    run_out(context);
    char *text = text_of("first");
    expect_part(find_pool(text, 1, "device"), "\"requested\":4000,\"owner\":\"small\"");
    free(text);
    snprintf(name, sizeof(name), "%s", path_of("first"));
    expect_part(logged, name);
    /* Once for a context. */
    *logged = 0;
    unlink(name);
    run_out(context);
    assert_int_equal(access(name, F_OK), -1);
    assert_string_equal(logged, "");
    OK(ferry_scope_close(&scope));
    ferry_buffer_destroy(&small);
    ferry_context_destroy(&context);
    /* The variable is of the process: the second context has a file of its number. */
    context = open_short(path_of("first"), 2 << 20);
    run_out(context);
    expect_part(logged, "first.2");
    assert_int_equal(access(path_of("first.2"), F_OK), 0);
    ferry_context_destroy(&context);
}

/* A compaction that finds no room for a block goes on, and no program sees a failure. */
static void
test_compactions_make_none(void **state)
{
    enum { BUFFERS = 120 };
    ferry_context *context = open_short(path_of("compaction"), 16 << 20);
    ferry_buffer *buffers[BUFFERS];
    ferry_pool *pool;
    ferry_pool_compaction done;
    uint64_t seed = 5, rounds = 0;
    ferry_scope scope;
    void *pointer;
    (void)state;
    OK(ferry_context_pool(context, 1, FERRY_MEMORY_DEVICE, &pool));
    do {
        for (size_t i = 0; i < BUFFERS; i++) {
            OK(ferry_buffer_create(context, INT, 1 + random_below(&seed, 50000), NULL,
                                   &buffers[i]));
            OK(ferry_buffer_open_device(buffers[i], INT, FERRY_OVERWRITE, 0, FERRY_REST, NULL,
                                        &scope, &pointer));
            OK(ferry_scope_close(&scope));
        }
        for (size_t i = 0; i < BUFFERS; i++)
            if (i % 3)
                ferry_buffer_destroy(&buffers[i]);
        OK(ferry_pool_compact(pool, &done));
        for (size_t i = 0; i < BUFFERS; i += 3)
            ferry_buffer_destroy(&buffers[i]);
    } while (++rounds < 20);
    assert_string_equal(logged, "");
    ferry_context_destroy(&context);
}

static bool
run_out_once(const ferry_block_info *block, void *user)
{
    (void)block;
    run_out(user);
    return false;
}

/* A callback may hold what a snapshot needs, so that it makes none. The next failure does. */
static void
test_callbacks_make_none(void **state)
{
    ferry_context *context = open_short(path_of("callback"), 2 << 20);
    ferry_pool *pool;
    ferry_block *block;
    (void)state;
    OK(ferry_context_pool(context, 0, FERRY_MEMORY_PAGEABLE, &pool));
    OK(ferry_pool_allocate(pool, 1000, NULL, &block));
    OK(ferry_pool_for_each_block(pool, run_out_once, context));
    assert_string_equal(logged, "");
    OK(ferry_block_free(&block, NULL));
    run_out(context);
    expect_part(logged, "callback");
    ferry_context_destroy(&context);
}

/* What fails in between is logged, and the allocation fails with its own message. */
static void
test_a_snapshot_that_cannot_be_written(void **state)
{
    ferry_context *context = open_short(path_of("missing/snapshot"), 2 << 20);
    (void)state;
    run_out(context);
    expect_part(logged, "write the snapshot ");
    expect_part(logged, "missing/snapshot");
    expect_part(logged, "No such file or directory");
    ferry_context_destroy(&context);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_snapshot_lists_all_blocks),
        TEST(test_blocks_of_the_program),
        TEST(test_pools_of_the_program),
        TEST(test_memory_that_queued_work_uses),
        TEST(test_snapshots_beside_another_thread),
        cmocka_unit_test(test_a_snapshot_names_the_trace),
        TEST(test_refusals),
        TEST(test_little_host_memory),
        cmocka_unit_test(test_an_allocation_that_fails_makes_one),
        cmocka_unit_test(test_compactions_make_none),
        cmocka_unit_test(test_callbacks_make_none),
        cmocka_unit_test(test_a_snapshot_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
