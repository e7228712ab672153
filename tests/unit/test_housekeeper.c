/* SPDX-License-Identifier: MIT */
/* Tests the thread that trims pools while the program makes no call. The tests wait for what the
 * thread does, and never for a time. A thread that does nothing makes them run into the limit of
 * the test program. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <ferry/context.h>
#include <ferry/pool.h>

#include "src/base/base.h"
#include "src/base/sanitizer.h"

#define OK(call) assert_int_equal(call, FERRY_OK)
#define MIB      ((size_t)1 << 20)
#define POOLS    3

/* The allocator behind a pool. */
struct backend {
    atomic_int live, frees;
    ferry_context *context; /* what the first `free` destroys; NULL: nothing */
    ferry_pool *pool;       /* what each `free` tries to destroy, which is refused; or NULL */
    atomic_bool *hold;      /* on other threads than `program`, `free` does not return while this is
                               true; may be NULL */
    pthread_t program;
    atomic_bool is_inside;
};

static ferry_status
backend_alloc(void *user, size_t bytes, void **out)
{
    struct backend *backend = user;
    *out = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    atomic_fetch_add(&backend->live, *out != NULL);
    return *out ? FERRY_OK : FERRY_ERROR_OUT_OF_MEMORY;
}

static ferry_status
backend_free(void *user, void *memory, size_t bytes)
{
    struct backend *backend = user;
    (void)bytes;
    atomic_store(&backend->is_inside, true);
    bool may_hold = backend->hold && !pthread_equal(backend->program, pthread_self());
    while (may_hold && atomic_load(backend->hold))
        ferryi_yield();
    ferry_pool *pool = backend->pool;
    ferry_pool_destroy(&pool);
    ferry_context_destroy(&backend->context);
    free(memory);
    atomic_store(&backend->is_inside, false);
    atomic_fetch_sub(&backend->live, 1);
    atomic_fetch_add(&backend->frees, 1);
    return FERRY_OK;
}

static atomic_int contexts_ended; /* by separate threads */

static void
watch_log(ferry_log_level level, const char *message, void *user)
{
    (void)level;
    (void)user;
    atomic_fetch_add(&contexts_ended, strstr(message, "a separate thread has ended it") != NULL);
}

static ferry_context *
context_new(void)
{
    ferry_context *context;
    const ferry_context_options options = {.devices = "emulated:1", .log = watch_log};
    OK(ferry_context_create(&options, &context));
    return context;
}

static ferry_pool *
pool_new(ferry_context *context, struct backend *backend, uint64_t trim_period_ms)
{
    ferry_pool *pool;
    const ferry_pool_backend functions = {
        .alloc = backend_alloc, .free = backend_free, .user = backend, .align = 4096};
    const ferry_pool_options options = {.trim_period_ms = trim_period_ms};
    OK(ferry_pool_create(context, 0, FERRY_MEMORY_PAGEABLE, &functions, &options, &pool));
    return pool;
}

static void
take_and_give(ferry_pool *pool, size_t bytes)
{
    ferry_block *block;
    OK(ferry_pool_allocate(pool, bytes, NULL, &block));
    OK(ferry_block_free(&block, NULL));
}

static void
wait_for(const atomic_int *value, int expected)
{
    while (atomic_load(value) != expected)
        ferryi_sleep_ns(100000);
}

/* Returns the number of threads of this process that are housekeepers. */
static int
housekeepers(void)
{
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        found += fgets(name, sizeof(name), file) && strcmp(name, "ferry-house\n") == 0;
        fclose(file);
    }
    closedir(tasks);
    return found;
}

/* Waits until the process has this number of housekeepers. A thread gets its name only after it has
 * started, and is listed for a moment after it was joined. */
static void
wait_for_housekeepers(int expected)
{
    while (housekeepers() != expected)
        ferryi_sleep_ns(100000);
}

/* The memory of a pool that no call touches any more goes back to its backend, small blocks as well
 * as large ones. */
static void
test_idle_memory_goes_back_without_a_call(void **state)
{
    (void)state;
    struct backend backend = {0};
    ferry_context *context = context_new();
    ferry_pool *pool = pool_new(context, &backend, 1);
    for (int round = 1; round <= 3; round++) {
        ferry_block *live;
        OK(ferry_pool_allocate(pool, 8 * MIB, NULL, &live));
        take_and_give(pool, 1000);
        take_and_give(pool, 3 * MIB);
        wait_for(&backend.live, 1); /* the live block stays */
        OK(ferry_block_free(&live, NULL));
        wait_for(&backend.live, 0);
    }
    ferry_pool_destroy(&pool);
    ferry_context_destroy(&context);
}

/* The context's own pools are served too, and by the same thread. The thread starts with the option
 * and ends with the context. */
static void
test_the_thread_is_one_and_only_by_the_option(void **state)
{
    (void)state;
    struct backend backends[POOLS] = {0};
    ferry_context *context = context_new();
    ferry_pool *pools[POOLS], *device;
    OK(ferry_context_pool(context, 1, FERRY_MEMORY_DEVICE, &device));
    OK(ferry_pool_configure(device, &(ferry_pool_options){.high_water_bytes = MIB}));
    ferry_pool *plain = pool_new(context, &backends[0], 0);
    take_and_give(plain, MIB);
    wait_for_housekeepers(0); /* that of the test before may still be listed */
    ferry_pool_destroy(&plain);

    OK(ferry_pool_configure(device, &(ferry_pool_options){.trim_period_ms = 1}));
    for (size_t i = 0; i < POOLS; i++)
        pools[i] = pool_new(context, &backends[i], i + 1);
    wait_for_housekeepers(1);
    take_and_give(device, 3 * MIB);
    for (ferry_pool_stats stats = {.reserved_bytes = 1}; stats.reserved_bytes > 0;)
        OK(ferry_pool_get_stats(device, &stats));
    for (size_t i = 0; i < POOLS; i++) {
        take_and_give(pools[i], (i + 1) * MIB);
        wait_for(&backends[i].live, 0);
    }
    OK(ferry_pool_configure(device, NULL));
    for (size_t i = 0; i < POOLS; i++)
        ferry_pool_destroy(&pools[i]);
    ferry_context_destroy(&context);
    wait_for_housekeepers(0);
}

static void *
destroy_pool(void *user)
{
    ferry_pool_destroy(user);
    return NULL;
}

/* A pool is destroyed while the thread is inside its backend. The destruction must wait for it. */
static void
test_a_pool_ends_while_it_is_trimmed(void **state)
{
    (void)state;
    atomic_bool hold = true;
    struct backend backend = {.hold = &hold, .program = pthread_self()};
    ferry_context *context = context_new();
    ferry_pool *pool = pool_new(context, &backend, 1);
    pthread_t thread;
    take_and_give(pool, 2 * MIB);
    while (!atomic_load(&backend.is_inside)) {
        /* On a slow machine, a free of this thread finds that a trim is due, and makes it. */
        if (atomic_load(&backend.live) == 0)
            take_and_give(pool, 2 * MIB);
        ferryi_yield();
    }
    assert_int_equal(pthread_create(&thread, NULL, destroy_pool, &pool), 0);
    ferryi_sleep_ns(20000000);
    assert_int_equal(atomic_load(&backend.live), 1);
    atomic_store(&hold, false);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&backend.live), 0);
    ferry_context_destroy(&context);
}

/* The backend's `free` runs on the thread. It cannot destroy the pool. If it drops the last owner
 * of the context, a separate thread ends the context, and with it the thread and the pool. */
static void
test_the_backend_ends_the_context(void **state)
{
    (void)state;
    atomic_bool hold = false;
    struct backend backend = {.hold = &hold, .program = pthread_self()};
    ferry_context *context = context_new();
    backend.pool = pool_new(context, &backend, 1);
    take_and_give(backend.pool, 2 * MIB);
    wait_for(&backend.frees, 1);
    /* The context may end only when this thread's call on the pool has returned. On a slow machine,
     * that call may trim the pool itself. */
    atomic_store(&hold, true);
    do
        take_and_give(backend.pool, 2 * MIB);
    while (atomic_load(&backend.live) == 0);
    backend.context = context;
    atomic_store(&hold, false);
    wait_for(&contexts_ended, 1);
    assert_int_equal(atomic_load(&backend.live), 0);
    wait_for_housekeepers(0);
}

static void *
hammer(void *user)
{
    for (int i = 0; i < 3000; i++)
        take_and_give(user, (size_t)1000 << i % 12);
    return NULL;
}

/* Threads allocate and free while the thread trims, and the period changes. */
static void
test_it_runs_beside_calls(void **state)
{
    (void)state;
    struct backend backend = {0};
    ferry_context *context = context_new();
    ferry_pool *pool = pool_new(context, &backend, 1);
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, pool), 0);
    for (uint64_t i = 0; i < 200; i++)
        OK(ferry_pool_configure(pool, &(ferry_pool_options){.trim_period_ms = i % 3}));
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    OK(ferry_pool_configure(pool, &(ferry_pool_options){.trim_period_ms = 1}));
    wait_for(&backend.live, 0);
    ferry_pool_destroy(&pool);
    ferry_context_destroy(&context);
}

/* The child of a fork has no such thread of its parent. It must be able to end the parent's
 * objects and to use the thread of a new context. */
static void
test_a_child_does_not_hang(void **state)
{
    (void)state;
    struct backend backend = {0};
    ferry_context *context = context_new();
    ferry_pool *pool = pool_new(context, &backend, 1);
    for (int round = 0; round < 20; round++) {
        take_and_give(pool, 2 * MIB);
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            ferry_pool_destroy(&pool);
            ferry_context_destroy(&context);
            if (FERRYI_THREAD_SANITIZER) /* it does not support threads of such a child */
                _exit(0);
            struct backend own = {0};
            ferry_context *other = context_new();
            ferry_pool *fresh = pool_new(other, &own, 1);
            take_and_give(fresh, 2 * MIB);
            wait_for(&own.live, 0);
            ferry_pool_destroy(&fresh);
            ferry_context_destroy(&other);
            _exit(0);
        }
        int ended = 1;
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_int_equal(ended, 0);
    }
    wait_for(&backend.live, 0);
    ferry_pool_destroy(&pool);
    ferry_context_destroy(&context);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_memory_goes_back_without_a_call),
        cmocka_unit_test(test_the_thread_is_one_and_only_by_the_option),
        cmocka_unit_test(test_a_pool_ends_while_it_is_trimmed),
        cmocka_unit_test(test_the_backend_ends_the_context),
        cmocka_unit_test(test_it_runs_beside_calls),
        cmocka_unit_test(test_a_child_does_not_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
