/* SPDX-License-Identifier: MIT */
/* Tests pools that get their memory from an allocator of the program. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <ferry/context.h>
#include <ferry/pool.h>
#include <ferry/stream.h>

#include "src/pool/pool.h"
#include "tests/support/kept_log.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* State of an allocator that the test supplies to a pool. The memory is shared with child
 * processes. */
struct shared {
    size_t count, bytes, limit;
    size_t skew; /* number of bytes by which the returned address is misaligned */
    bool empty_handed;
};

static ferry_status
shared_alloc(void *user, size_t bytes, void **out)
{
    struct shared *shared = user;
    if (shared->limit && shared->bytes + bytes > shared->limit)
        return FERRY_ERROR_OUT_OF_MEMORY;
    if (shared->empty_handed) {
        *out = NULL;
        return FERRY_OK;
    }
    void *memory =
        mmap(NULL, bytes + shared->skew, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return FERRY_ERROR_OUT_OF_MEMORY;
    shared->count++;
    shared->bytes += bytes;
    *out = (char *)memory + shared->skew;
    return FERRY_OK;
}

static ferry_status
shared_free(void *user, void *memory, size_t bytes)
{
    struct shared *shared = user;
    if (munmap((char *)memory - shared->skew, bytes + shared->skew) != 0)
        return FERRY_ERROR_DEVICE;
    shared->count--;
    shared->bytes -= bytes;
    return FERRY_OK;
}

static ferry_context *
context_new(const char *devices)
{
    ferry_context *context = NULL;
    const ferry_context_options options = {.devices = devices, .log = keep};
    logged[0] = 0;
    assert_int_equal(ferry_context_create(&options, &context), FERRY_OK);
    return context;
}

static ferry_pool *
pool_new(ferry_context *context, struct shared *shared, const ferry_pool_options *options)
{
    ferry_pool *pool = NULL;
    const ferry_pool_backend backend = {
        .alloc = shared_alloc, .free = shared_free, .user = shared, .align = 4096};
    assert_int_equal(ferry_pool_create(context, FERRY_PLACE_HOST, FERRY_MEMORY_PAGEABLE, &backend,
                                       options, &pool),
                     FERRY_OK);
    return pool;
}

static void
test_a_child_process_sees_what_is_in_a_block(void **state)
{
    (void)state;
    struct shared shared = {0};
    ferry_context *context = context_new("host");
    ferry_pool *pool = pool_new(context, &shared, NULL);
    ferry_block *block = NULL, *other = NULL;
    assert_int_equal(ferry_pool_allocate(pool, 100 * KIB, NULL, &block), FERRY_OK);
    assert_int_equal(ferry_pool_allocate(pool, 200 * KIB, NULL, &other), FERRY_OK);
    assert_int_equal(shared.count, 1);
    char *memory = ferry_block_pointer(block);
    memory[0] = 0;
    memory[99 * KIB] = 1;
    pid_t child = fork();
    if (child == 0) {
        memory[0] = 42;
        _exit(memory[99 * KIB] == 1 ? 0 : 1);
    }
    int ended = 1;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    assert_int_equal(memory[0], 42);
    assert_int_equal(ferry_block_free(&block, NULL), FERRY_OK);
    assert_int_equal(ferry_block_free(&other, NULL), FERRY_OK);
    ferry_pool_destroy(&pool);
    assert_null(pool);
    assert_int_equal(shared.count, 0);
    ferry_context_destroy(&context);
    assert_string_equal(logged, "");
}

/* Lets the program's allocator run out of memory. The pool must then free its idle blocks and try
 * again, and fail only if that is not enough. */
static void
test_the_backend_may_run_short(void **state)
{
    (void)state;
    struct shared shared = {.limit = 8 * MIB};
    ferry_context *context = context_new("host");
    ferry_pool *pool = pool_new(context, &shared, NULL);
    ferry_block *block = NULL;
    assert_int_equal(ferry_pool_allocate(pool, 6 * MIB, NULL, &block), FERRY_OK);
    assert_int_equal(ferry_block_free(&block, NULL), FERRY_OK);
    /* The pool must first free its idle block of 6 MiB. Then the new block fits, even with a red
     * zone. */
    assert_int_equal(ferry_pool_allocate(pool, 8 * MIB - 64, NULL, &block), FERRY_OK);
    ferry_block *none = NULL;
    assert_int_equal(ferry_pool_allocate(pool, 1, NULL, &none), FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(ferry_block_free(&block, NULL), FERRY_OK);
    ferry_pool_destroy(&pool);
    assert_int_equal(shared.count, 0);
    ferry_context_destroy(&context);
}

static void
test_options_are_the_pools_own(void **state)
{
    (void)state;
    struct shared shared = {0};
    ferry_context *context = context_new("host");
    const ferry_pool_options options = {.limit_bytes = 4 * MIB};
    ferry_pool *pool = pool_new(context, &shared, &options);
    ferry_block *none = NULL;
    assert_int_equal(ferry_pool_allocate(pool, 5 * MIB, NULL, &none), FERRY_ERROR_OUT_OF_MEMORY);
    ferry_pool_destroy(&pool);
    ferry_context_destroy(&context);
}

static void
test_a_backend_that_breaks_its_word_is_found_out(void **state)
{
    (void)state;
    struct shared shared = {.skew = 512};
    ferry_context *context = context_new("host");
    ferry_pool *pool = pool_new(context, &shared, NULL);
    ferry_block *none = NULL;
    assert_int_equal(ferry_pool_allocate(pool, 1000, NULL, &none), FERRY_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(ferry_last_error(), "not aligned to 4096"));
    assert_int_equal(shared.count, 0); /* the pool has freed the misaligned memory */
    shared.skew = 0;
    shared.empty_handed = true;
    assert_int_equal(ferry_pool_allocate(pool, 1000, NULL, &none), FERRY_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(ferry_last_error(), "gave NULL"));
    shared.empty_handed = false;
    assert_int_equal(ferry_pool_allocate(pool, 1000, NULL, &none), FERRY_OK);
    assert_int_equal(ferry_block_free(&none, NULL), FERRY_OK);
    ferry_pool_destroy(&pool);
    ferry_context_destroy(&context);
}

static void
test_streams_use_it_in_order(void **state)
{
    (void)state;
    struct shared shared = {0};
    ferry_context *context = context_new("emulated:1");
    ferry_pool *pool = pool_new(context, &shared, NULL);
    ferry_stream *stream = ferry_context_stream(context, 1);
    ferry_block *block = NULL;
    assert_int_equal(ferry_pool_allocate(pool, 100 * KIB, stream, &block), FERRY_OK);
    assert_int_equal(ferry_block_free(&block, stream), FERRY_OK);
    ferry_pool_destroy(&pool); /* waits for the stream */
    assert_int_equal(shared.count, 0);
    ferry_context_destroy(&context);
}

static void
test_a_forgotten_pool_goes_with_its_context(void **state)
{
    (void)state;
    struct shared shared = {0};
    ferry_context *context = context_new("host");
    ferry_pool *pool = pool_new(context, &shared, NULL);
    ferry_block *block = NULL;
    assert_int_equal(ferry_pool_allocate(pool, 1000, NULL, &block), FERRY_OK);
    ferry_context_destroy(&context);
    assert_non_null(strstr(logged, "still alive"));
    assert_non_null(strstr(logged, "still held"));
    assert_int_equal(shared.count, 0);
}

static void
test_arguments_are_checked(void **state)
{
    (void)state;
    struct shared shared = {0};
    ferry_context *context = context_new("emulated:1");
    ferry_pool *pool = NULL, *theirs = NULL;
    ferry_pool_backend good = {.alloc = shared_alloc, .free = shared_free, .user = &shared},
                       bad = good;
    const ferry_memory_kind pageable = FERRY_MEMORY_PAGEABLE;
    assert_int_equal(ferry_pool_create(NULL, 0, pageable, &good, NULL, &pool),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_create(context, 0, pageable, NULL, NULL, &pool),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_create(context, 0, pageable, &good, NULL, NULL),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_create(context, 2, pageable, &good, NULL, &pool),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_create(context, 1, pageable, &good, NULL, &pool),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_create(context, 0, (ferry_memory_kind)9, &good, NULL, &pool),
                     FERRY_ERROR_INVALID_ARGUMENT);
    bad.alloc = NULL;
    assert_int_equal(ferry_pool_create(context, 0, pageable, &bad, NULL, &pool),
                     FERRY_ERROR_INVALID_ARGUMENT);
    bad = good;
    bad.free = NULL;
    assert_int_equal(ferry_pool_create(context, 0, pageable, &bad, NULL, &pool),
                     FERRY_ERROR_INVALID_ARGUMENT);
    bad = good;
    bad.align = 384;
    assert_int_equal(ferry_pool_create(context, 0, pageable, &bad, NULL, &pool),
                     FERRY_ERROR_INVALID_ARGUMENT);
    bad.align = 128;
    assert_int_equal(ferry_pool_create(context, 0, pageable, &bad, NULL, &pool),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_null(pool);
    ferry_pool_destroy(NULL);
    ferry_pool_destroy(&pool);

    assert_int_equal(ferry_context_pool(context, 0, pageable, &theirs), FERRY_OK);
    ferry_pool *kept = theirs;
    ferry_pool_destroy(&theirs); /* the call is refused, because the context owns this pool */
    assert_non_null(strstr(logged, "context's own"));
    ferry_block *block = NULL;
    assert_int_equal(ferry_pool_allocate(kept, 1000, NULL, &block), FERRY_OK);
    assert_int_equal(ferry_block_free(&block, NULL), FERRY_OK);
    ferry_context_destroy(&context);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_process_sees_what_is_in_a_block),
        cmocka_unit_test(test_the_backend_may_run_short),
        cmocka_unit_test(test_options_are_the_pools_own),
        cmocka_unit_test(test_a_backend_that_breaks_its_word_is_found_out),
        cmocka_unit_test(test_streams_use_it_in_order),
        cmocka_unit_test(test_a_forgotten_pool_goes_with_its_context),
        cmocka_unit_test(test_arguments_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
