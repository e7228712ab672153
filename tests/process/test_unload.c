/* SPDX-License-Identifier: MIT */
/* Checks a program that loads the library, uses it in a thread, and closes it while this thread is
 * running. The thread must then end without a fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <ferry/context.h>
#include <ferry/pool.h>

static const char *library_name;

#define FUNCTIONS(X)                                                                               \
    X(ferry_status, ferry_context_create, (const ferry_context_options *, ferry_context **))       \
    X(void, ferry_context_destroy, (ferry_context **))                                             \
    X(ferry_status, ferry_context_pool, (ferry_context *, int, ferry_memory_kind, ferry_pool **))  \
    X(ferry_status, ferry_pool_allocate, (ferry_pool *, size_t, ferry_stream *, ferry_block **))   \
    X(ferry_status, ferry_block_free, (ferry_block **, ferry_stream *))

struct library {
    void *handle;
#define MEMBER(type, name, parameters) type(*name) parameters;
    FUNCTIONS(MEMBER)
#undef MEMBER
    const char *devices;
    bool destroys;
    pthread_barrier_t used, closed;
};

static void
open_library(struct library *l)
{
    l->handle = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(l->handle);
#define FIND(type, name, parameters)                                                               \
    do {                                                                                           \
        void *address = dlsym(l->handle, #name);                                                   \
        assert_non_null(address);                                                                  \
        memcpy(&l->name, &address, sizeof(address));                                               \
    } while (0);
    FUNCTIONS(FIND)
#undef FIND
}

static void *
use(void *argument)
{
    struct library *l = argument;
    ferry_context_options options = {.devices = l->devices};
    ferry_context *context = NULL;
    ferry_pool *pool = NULL;
    ferry_block *block = NULL;
    bool well = l->ferry_context_create(&options, &context) == FERRY_OK &&
                l->ferry_context_pool(context, 0, FERRY_MEMORY_DEFAULT, &pool) == FERRY_OK &&
                l->ferry_pool_allocate(pool, 4096, NULL, &block) == FERRY_OK &&
                l->ferry_block_free(&block, NULL) == FERRY_OK;
    if (l->destroys)
        l->ferry_context_destroy(&context);
    pthread_barrier_wait(&l->used);
    pthread_barrier_wait(&l->closed);
    return well ? l : NULL;
}

static void
close_while_a_thread_lives(const char *devices, bool destroys)
{
    struct library l = {.devices = devices, .destroys = destroys};
    pthread_t thread;
    void *result;
    open_library(&l);
    assert_int_equal(pthread_barrier_init(&l.used, NULL, 2), 0);
    assert_int_equal(pthread_barrier_init(&l.closed, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, use, &l), 0);
    pthread_barrier_wait(&l.used);
    assert_int_equal(dlclose(l.handle), 0);
    pthread_barrier_wait(&l.closed);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &l);
    pthread_barrier_destroy(&l.used);
    pthread_barrier_destroy(&l.closed);
}

static void
test_thread_with_magazines_ends_after_dlclose(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        close_while_a_thread_lives("host", true);
}

static void
test_helpers_run_on_after_dlclose_without_destroy(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        close_while_a_thread_lives("emulated:2", false);
}

int
main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thread_with_magazines_ends_after_dlclose),
        cmocka_unit_test(test_helpers_run_on_after_dlclose_without_destroy),
    };
    library_name = count == 2 ? arguments[1] : "libferry.so.0";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
