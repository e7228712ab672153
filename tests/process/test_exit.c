/* SPDX-License-Identifier: MIT */
/*
 * Checks what happens to the library when a process, one of its threads, or the CUDA driver ends.
 * Each test case runs this program again as a child process that really calls exit().
 */
#include "tests/buffer/support.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/copies.h"
#include "tests/support/fakecuda.h"

#define COUNT         100000
#define HANGS_AFTER_S 20

static void
must(const char *call, bool well)
{
    if (well)
        return;
    fprintf(stderr, "%s: %s\n", call, ferry_last_error());
    _exit(2);
}

#define WORKS(call)     must(#call, (call) == FERRY_OK)
#define TRUE(condition) must(#condition, (condition))

/* -- cases ------------------------------------------------------------------------------------- */

static ferry_context *context;
static int source[COUNT];

/* Starts work that uses the library's worker threads, the threads of the device, and the magazines
 * of a pool. */
static ferry_buffer *
start_work(void)
{
    ferry_buffer *buffer;
    ferry_pool *pool;
    ferry_block *block;
    WORKS(ferry_context_create(NULL, &context));
    WORKS(ferry_buffer_create_from(context, INT, COUNT, source, NULL, &buffer));
    WORKS(ferry_buffer_sync_to(buffer, 0, FERRY_REST, 1, NULL));
    for (int i = 0; i < 8; i++) {
        ferry_event *event;
        WORKS(ferry_buffer_copy_from_async(buffer, INT, 0, COUNT, source,
                                           ON(ferry_context_stream(context, 1)), &event));
        ferry_event_destroy(&event);
    }
    WORKS(ferry_context_pool(context, 0, FERRY_MEMORY_DEFAULT, &pool));
    WORKS(ferry_pool_allocate(pool, 4096, NULL, &block));
    WORKS(ferry_block_free(&block, NULL));
    return buffer;
}

static void
exit_without_destroy(void)
{
    (void)start_work();
    exit(0);
}

static void *
exit_from_here(void *argument)
{
    (void)argument;
    exit(0);
}

static void
exit_from_another_thread(void)
{
    pthread_t thread;
    (void)start_work();
    TRUE(pthread_create(&thread, NULL, exit_from_here, NULL) == 0);
    pthread_join(thread, NULL);
}

static void
destroy_at_exit(void)
{
    ferry_context_destroy(&context);
}

static void
destroy_in_an_exit_handler(void)
{
    atexit(destroy_at_exit);
    ferry_buffer *buffer = start_work();
    ferry_buffer_destroy(&buffer);
    exit(0);
}

/* A test destroys a context in a callback, which runs on a thread of the library. The library then
 * ends the context on a separate thread, and exit() must wait for this thread. */
static int target[COUNT];
static atomic_bool given_back, may_go_on, has_ended;

static void
note_end(ferry_log_level level, const char *message, void *user)
{
    (void)level, (void)user;
    if (strstr(message, "a separate thread has ended it"))
        atomic_store(&has_ended, true);
}

static bool
destroy_and_go_on(size_t done, size_t total, void *user)
{
    (void)done, (void)total, (void)user;
    ferry_context_destroy(&context);
    atomic_store(&given_back, true);
    while (!atomic_load(&may_go_on))
        ferryi_sleep_ns(100000);
    ferryi_sleep_ns(50000000);
    return true;
}

/* Starts a copy whose callback destroys the context, and waits until the callback has done so.
 * After the callback returns, a separate thread of the library ends the context. */
static void
start_end(bool goes_on)
{
    static ferry_buffer
        *buffer; /* static, so that a leak checker finds the pointer to the buffer */
    static ferry_event *event;
    const ferry_context_options options = {.log = note_end};
    WORKS(ferry_context_create(&options, &context));
    WORKS(ferry_buffer_create_from(context, INT, COUNT, source, NULL, &buffer));
    WORKS(
        ferry_buffer_copy_to_async(buffer, INT, 0, COUNT, target,
                                   &(ferry_copy_options){.stream = ferry_context_stream(context, 1),
                                                         .keep_going = destroy_and_go_on},
                                   &event));
    while (!atomic_load(&given_back))
        ferryi_sleep_ns(100000);
    TRUE(!context);
    TRUE(!atomic_load(&has_ended));
    atomic_store(&may_go_on, goes_on);
}

static void
check_end(void)
{
    TRUE(atomic_load(&has_ended));
}

static void
exit_waits_for_an_end(void)
{
    (void)atexit(check_end); /* registered first, so it runs after all other exit handlers,
                                including that of the library */
    start_end(true);
    exit(0);
}

static bool
destroy_and_exit(size_t done, size_t total, void *user)
{
    (void)done, (void)total, (void)user;
    ferry_context_destroy(&context);
    exit(context ? 1 : 0);
}

/* Destroys the context and calls exit() in a callback of the library. The library can end the
 * context only after the callback has returned, which it never does. So exit() must not wait for
 * the end of the context. */
static void
exit_in_the_callback_that_ends(void)
{
    static ferry_buffer
        *buffer; /* static, so that a leak checker finds the pointer to the buffer */
    static ferry_event *event;
    WORKS(ferry_context_create(NULL, &context));
    WORKS(ferry_buffer_create_from(context, INT, COUNT, source, NULL, &buffer));
    WORKS(
        ferry_buffer_copy_to_async(buffer, INT, 0, COUNT, target,
                                   &(ferry_copy_options){.stream = ferry_context_stream(context, 1),
                                                         .keep_going = destroy_and_exit},
                                   &event));
    for (;;)
        pause();
}

/* Switches the leak checker off. It would report leaks in a forked child, because the child has
 * memory of threads that exist only in the parent. */
const char *__asan_default_options(void);
const char *
__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* Forks while a thread of the library ends a context. That thread does not exist in the child, so
 * exit() in the child must not wait for it. */
static void
child_exits_during_an_end(void)
{
    start_end(false);
    pid_t child = fork();
    TRUE(child >= 0);
    if (child == 0)
        exit(0);
    int how = 0;
    TRUE(waitpid(child, &how, 0) == child);
    TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    atomic_store(&may_go_on, true);
    while (!atomic_load(&has_ended))
        ferryi_sleep_ns(100000);
}

/* Data of a thread that ends while its magazines hold free blocks of a pool. The test destroys the
 * pool either before or after the thread ends. */
struct holder {
    ferry_pool *pool;
    atomic_int step; /* set to 1 when the thread has filled its magazines, and to 2 when the thread
                        may end */
};

static void *
hold_magazines(void *argument)
{
    struct holder *holder = argument;
    ferry_block *blocks[20];
    for (int i = 0; i < 20; i++)
        WORKS(ferry_pool_allocate(holder->pool, 3000, NULL, &blocks[i]));
    for (int i = 0; i < 20; i++)
        WORKS(ferry_block_free(&blocks[i], NULL));
    atomic_store(&holder->step, 1);
    while (atomic_load(&holder->step) != 2)
        ferryi_sleep_ns(100000);
    return NULL;
}

static void
run_holder(bool pool_goes_first)
{
    struct holder holder = {0};
    pthread_t thread;
    ferry_pool_stats stats;
    WORKS(ferry_context_create(NULL, &context));
    WORKS(ferry_context_pool(context, 0, FERRY_MEMORY_DEFAULT, &holder.pool));
    TRUE(pthread_create(&thread, NULL, hold_magazines, &holder) == 0);
    while (atomic_load(&holder.step) != 1)
        ferryi_sleep_ns(100000);
    if (pool_goes_first)
        ferry_context_destroy(&context);
    atomic_store(&holder.step, 2);
    TRUE(pthread_join(thread, NULL) == 0);
    if (pool_goes_first)
        return;
    WORKS(ferry_pool_trim(holder.pool, 0));
    WORKS(ferry_pool_get_stats(holder.pool, &stats));
    TRUE(stats.cached_bytes == 0 && stats.live_bytes == 0);
    ferry_context_destroy(&context);
}

static void
thread_ends_with_magazines(void)
{
    for (int i = 0; i < 50; i++) {
        run_holder(false);
        run_holder(true);
    }
}

/* Checks library calls after the CUDA driver has ended, which happens in its exit handler. From
 * then on, every driver call returns CUDA_ERROR_DEINITIALIZED, which is 4. */
static void
driver_is_gone(void)
{
    static const char *const calls[] = {"cuMemFree_v2",         "cuMemFreeHost",
                                        "cuStreamDestroy_v2",   "cuStreamSynchronize",
                                        "cuEventDestroy_v2",    "cuEventSynchronize",
                                        "cuEventRecord",        "cuEventQuery",
                                        "cuCtxSynchronize",     "cuDevicePrimaryCtxRelease_v2",
                                        "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
                                        "cuCtxPushCurrent_v2"};
    const char *library = getenv("FERRY_CUDA_LIBRARY");
    struct fakecuda fake = {0};
    int back[4];
    if (strcmp(getenv("FERRY_DEVICE"), "cuda") != 0)
        exit(77);
    TRUE(library && fakecuda_find(library, &fake));
    for (size_t i = 0; i < LENGTH(calls); i++) {
        ferry_buffer *buffer = start_work();
        WORKS(ferry_buffer_wait_idle(buffer, 1));
        /* One injected failure is enough, because Ferry treats a context as lost after
         * CUDA_ERROR_DEINITIALIZED. */
        fake.fakecuda_fail_next(calls[i], 4, 1);
        ferry_status status = ferry_buffer_copy_to(buffer, INT, 0, 4, back, NULL);
        TRUE(status == FERRY_OK || status == FERRY_ERROR_DEVICE_LOST ||
             status == FERRY_ERROR_DEVICE);
        ferry_buffer_destroy(&buffer);
        ferry_context_destroy(&context);
        fake.fakecuda_fail_none();
    }
}

static const struct ending {
    const char *name;
    void (*run)(void);
} endings[] = {
    {"exit_without_destroy", exit_without_destroy},
    {"exit_from_another_thread", exit_from_another_thread},
    {"destroy_in_an_exit_handler", destroy_in_an_exit_handler},
    {"exit_waits_for_an_end", exit_waits_for_an_end},
    {"exit_in_the_callback_that_ends", exit_in_the_callback_that_ends},
    {"child_exits_during_an_end", child_exits_during_an_end},
    {"thread_ends_with_magazines", thread_ends_with_magazines},
    {"driver_is_gone", driver_is_gone},
};

/* -- as tests ---------------------------------------------------------------------------------- */

static void
test_ending(void **state)
{
    const struct ending *ending = *state;
    char program[4096]; /* by its name: under Valgrind the link leads to Valgrind, unless it is read
                         */
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    assert_true(length > 0);
    program[length] = 0;
    for (int round = 0; round < 4; round++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(HANGS_AFTER_S); /* the alarm stays set after exec */
            execl(program, program, ending->name, (char *)NULL);
            _exit(3);
        }
        int how = 0;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFEXITED(how));
        if (WEXITSTATUS(how) == 77)
            skip();
        assert_int_equal(WEXITSTATUS(how), 0);
    }
}

int
main(int count, char **arguments)
{
    struct CMUnitTest tests[LENGTH(endings)];
    for (size_t i = 0; i < LENGTH(endings); i++) {
        if (count == 2 && strcmp(arguments[1], endings[i].name) == 0) {
            endings[i].run();
            return 0;
        }
        tests[i] = (struct CMUnitTest){endings[i].name, test_ending, NULL, NULL,
                                       (void *)(uintptr_t)&endings[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
