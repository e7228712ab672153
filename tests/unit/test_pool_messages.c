/* SPDX-License-Identifier: MIT */
/* Tests what a failed allocation says: which callback returned what, which option limits the
 * memory, what holds the memory, and that the figures explain the failure. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/ferry.h>
#include <ferry/generated.h>

#include "src/pool/slab.h"
#include "tests/support/kept_log.h"

#define KIB     ((size_t)1 << 10)
#define MIB     ((size_t)1 << 20)
#define THREADS 4
#define ROUNDS  4000
/* What a memory checker needs behind each block. */
#define SPARE FERRYI_MEMORY_CHECKER_BYTES

static ferry_context *
context_new(size_t device_bytes_limit, const char *tuning)
{
    ferry_context *context = NULL;
    const ferry_context_options options = {.devices = "emulated:1",
                                           .log = keep,
                                           .device_bytes_limit = device_bytes_limit,
                                           .tuning = tuning};
    logged[0] = 0;
    assert_int_equal(ferry_context_create(&options, &context), FERRY_OK);
    return context;
}

static void
assert_says(const char *part)
{
    if (!strstr(ferry_last_error(), part))
        fail_msg("\"%s\" is not in: %s", part, ferry_last_error());
}

/* Makes a call fail whose message must not appear in that of a later failure. */
static void
fail_unrelated(void)
{
    ferry_context *none;
    const ferry_context_options options = {.devices = "UNRELATED"};
    assert_int_not_equal(ferry_context_create(&options, &none), FERRY_OK);
    assert_says("UNRELATED");
}

/* -- the statuses of a backend ----------------------------------------------------------------- */

struct backend {
    ferry_status alloc_status, free_status;
    bool explains; /* whether `alloc` fails because a call of the library inside it fails */
};

static ferry_status
backend_alloc(void *user, size_t bytes, void **out)
{
    const struct backend *backend = user;
    if (backend->explains && ferry_pool_trim(NULL, 0) != FERRY_OK)
        return backend->alloc_status;
    if (backend->alloc_status != FERRY_OK)
        return backend->alloc_status;
    *out = aligned_alloc(256, bytes);
    return *out ? FERRY_OK : FERRY_ERROR_OUT_OF_MEMORY;
}

static ferry_status
backend_free(void *user, void *memory, size_t bytes)
{
    const struct backend *backend = user;
    (void)bytes;
    if (backend->free_status == FERRY_OK)
        free(memory);
    return backend->free_status;
}

static ferry_pool *
pool_new(ferry_context *context, struct backend *backend, size_t limit_bytes)
{
    ferry_pool *pool = NULL;
    const ferry_pool_backend functions = {
        .alloc = backend_alloc, .free = backend_free, .user = backend};
    const ferry_pool_options options = {.limit_bytes = limit_bytes, .wait_ms = 1};
    assert_int_equal(
        ferry_pool_create(context, 0, FERRY_MEMORY_PAGEABLE, &functions, &options, &pool),
        FERRY_OK);
    return pool;
}

/* Lets `alloc` return each status, and two numbers that are none, in a thread that failed before.
 */
static void
test_each_status_of_alloc_is_named(void **state)
{
    (void)state;
    ferry_context *context = context_new(0, NULL);
    struct backend backend = {0};
    ferry_pool *pool = pool_new(context, &backend, 0);
    for (int status = -1; status <= FERRY_ERROR_CANCELLED + 1; status++) {
        char expected[64];
        ferry_block *none = NULL;
        if (status == FERRY_OK)
            continue;
        backend.alloc_status = (ferry_status)status;
        fail_unrelated();
        assert_int_equal((int)ferry_pool_allocate(pool, 100, NULL, &none), status);
        snprintf(expected, sizeof(expected), "alloc of the pool's backend: it returned %d, %s",
                 status, ferry_status_name((ferry_status)status));
        assert_says(expected);
        assert_null(strstr(ferry_last_error(), "UNRELATED"));
        assert_null(strstr(ferry_last_error(), "no memory was left to say"));
    }
    backend.explains = true;
    backend.alloc_status = FERRY_ERROR_BUSY;
    assert_int_not_equal(ferry_pool_allocate(pool, 100, NULL, &(ferry_block *){NULL}), FERRY_OK);
    assert_says("it returned 6, FERRY_ERROR_BUSY: ");
    ferry_pool_destroy(&pool);
    ferry_context_destroy(&context);
}

static size_t
count(const char *text, const char *part)
{
    size_t found = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        found++;
    return found;
}

/* A `free` that fails is logged once, with its status, and once more after it has worked again. */
static void
test_a_failing_free_is_logged_once(void **state)
{
    (void)state;
    ferry_context *context = context_new(0, NULL);
    struct backend backend = {.free_status = FERRY_ERROR_CONFLICT};
    ferry_pool *pool = pool_new(context, &backend, 0);
    ferry_block *block = NULL;
    for (size_t round = 1; round <= 2; round++) {
        backend.free_status = FERRY_ERROR_CONFLICT;
        assert_int_equal(ferry_pool_allocate(pool, MIB, NULL, &block), FERRY_OK);
        assert_int_equal(ferry_block_free(&block, NULL), FERRY_OK);
        fail_unrelated();
        for (int i = 0; i < 5; i++)
            assert_int_equal(ferry_pool_trim(pool, 0), FERRY_OK);
        assert_int_equal(count(logged, "it returned 5, FERRY_ERROR_CONFLICT"), round);
        assert_int_equal(count(logged, "give idle memory of"), round);
        assert_int_equal(count(logged, "UNRELATED"), 0);
        backend.free_status = FERRY_OK;
        assert_int_equal(ferry_pool_trim(pool, 0), FERRY_OK);
    }
    ferry_pool_destroy(&pool);
    ferry_context_destroy(&context);
}

static ferry_status
refuse_in_silence(void *target, const void *source, size_t number, ferry_convert_policy policy)
{
    (void)target;
    (void)source;
    (void)number;
    (void)policy;
    return FERRY_ERROR_OUT_OF_RANGE;
}

/* A conversion function that returns OUT_OF_RANGE without a call of ferry_conversion_failed(). */
static void
test_a_conversion_without_a_message_is_named(void **state)
{
    (void)state;
    const int from = 1;
    float to = 0;
    const ferry_conversion conversion = {.from = ferry_element_scalar(FERRY_KIND_INT, 32),
                                         .to = ferry_element_scalar(FERRY_KIND_FLOAT, 32),
                                         .convert = refuse_in_silence};
    fail_unrelated();
    assert_int_equal(ferry_conversion_run(&conversion, &to, &from, 1, FERRY_CONVERT_CHECK),
                     FERRY_ERROR_OUT_OF_RANGE);
    assert_says("refused them: it returned 2, FERRY_ERROR_OUT_OF_RANGE");
    assert_null(strstr(ferry_last_error(), "UNRELATED"));
}

/* -- memory that is short ---------------------------------------------------------------------- */

/* The message names the option that sets the limit. */
static void
test_the_limit_is_named(void **state)
{
    (void)state;
    ferry_block *none = NULL;
    ferry_pool *pool = NULL;
    ferry_context *context = context_new(MIB, NULL);
    assert_int_equal(ferry_context_pool(context, 1, FERRY_MEMORY_DEVICE, &pool), FERRY_OK);
    assert_int_equal(ferry_pool_allocate(pool, 2 * MIB, NULL, &none), FERRY_ERROR_OUT_OF_MEMORY);
    assert_says("total 1048576");
    assert_says("the limit device_bytes_limit is reached");
    const ferry_pool_options options = {.limit_bytes = 256 * KIB};
    assert_int_equal(ferry_pool_configure(pool, &options), FERRY_OK);
    assert_int_equal(ferry_pool_allocate(pool, 2 * MIB, NULL, &none), FERRY_ERROR_OUT_OF_MEMORY);
    assert_says("the limit limit_bytes of ferry_pool_options is reached");
    ferry_context_destroy(&context);

    context = context_new(0, "device.limit=512K");
    assert_int_equal(ferry_context_pool(context, 1, FERRY_MEMORY_DEVICE, &pool), FERRY_OK);
    assert_int_equal(ferry_pool_allocate(pool, MIB, NULL, &none), FERRY_ERROR_OUT_OF_MEMORY);
    assert_says("total 524288");
    ferry_context_destroy(&context);
}

/* The message names the buffers that hold the memory, and says why they keep it. */
static void
test_the_holders_are_named(void **state)
{
    (void)state;
    enum { BUFFERS = 5 };
    const ferry_element *element = ferry_element_scalar(FERRY_KIND_INT, 8);
    ferry_context *context = context_new(MIB, NULL);
    ferry_buffer *buffers[BUFFERS];
    ferry_scope scopes[BUFFERS];
    void *pointer;
    for (size_t i = 0; i < BUFFERS; i++) {
        const char name[2] = {(char)('a' + i), 0};
        const ferry_buffer_options options = {.name = name};
        size_t bytes = (i == BUFFERS - 1 ? 512 * KIB : (4 - i) * 64 * KIB) - SPARE;
        assert_int_equal(ferry_buffer_create(context, element, bytes, &options, &buffers[i]),
                         FERRY_OK);
        assert_int_equal(ferry_buffer_open_device(buffers[i], element, FERRY_OVERWRITE, 0,
                                                  FERRY_REST, NULL, &scopes[i], &pointer),
                         i < BUFFERS - 1 ? FERRY_OK : FERRY_ERROR_OUT_OF_MEMORY);
    }
    assert_says(
        "reserve 524224 bytes of buffer \"e\" in emulated:0 device memory: requested 524224");
    assert_says("held by buffer \"a\" with 262144 bytes (1 open scope), buffer \"b\" with 196608 "
                "bytes (1 open scope), buffer \"c\" with 131072 bytes (1 open scope) and 1 more "
                "with 65536 bytes");
    for (size_t i = 0; i < BUFFERS; i++) {
        if (i < BUFFERS - 1)
            assert_int_equal(ferry_scope_close(&scopes[i]), FERRY_OK);
        ferry_buffer_destroy(&buffers[i]);
    }
    ferry_context_destroy(&context);
}

/* A buffer that the failing call uses itself is named with that reason, and one beside it is not.
 */
static void
test_holders_of_the_same_call_are_named(void **state)
{
    (void)state;
    enum { BUFFERS = 3 };
    static const size_t sizes[BUFFERS] = {256 * KIB, 128 * KIB, 768 * KIB};
    const ferry_element *element = ferry_element_scalar(FERRY_KIND_INT, 8);
    ferry_context *context = context_new(MIB, NULL);
    ferry_buffer *buffers[BUFFERS];
    ferry_scope scopes[2];
    void *pointers[2];
    for (size_t i = 0; i < BUFFERS; i++) {
        const char name[2] = {(char)('a' + i), 0};
        const ferry_buffer_options options = {.name = name};
        assert_int_equal(
            ferry_buffer_create(context, element, sizes[i] - SPARE, &options, &buffers[i]),
            FERRY_OK);
        if (i < 2)
            assert_int_equal(ferry_buffer_reserve(buffers[i], 1), FERRY_OK);
    }
    assert_int_equal(ferry_buffer_hold(buffers[1], 1, &pointers[0]), FERRY_OK);
    const ferry_argument arguments[] = {
        ferry_argument_with(ferry_buffer_argument(buffers[0], element, 0, FERRY_REST),
                            FERRY_OVERWRITE),
        ferry_argument_with(ferry_buffer_argument(buffers[2], element, 0, FERRY_REST),
                            FERRY_OVERWRITE)};
    assert_int_equal(ferry_scope_open_all(arguments, 2, 1, NULL, scopes, pointers),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_says("held by buffer \"a\" with 262144 bytes (used by the same call), buffer \"b\" with "
                "131072 bytes (held at its address)");
    assert_int_equal(ferry_buffer_release(buffers[1], 1), FERRY_OK);
    for (size_t i = 0; i < BUFFERS; i++)
        ferry_buffer_destroy(&buffers[i]);
    ferry_context_destroy(&context);
}

/* An idle buffer that cannot be evicted, because the host has no memory for it, is named without a
 * reason. A buffer that is held at its address is named with it. */
static void
test_idle_holders_are_named(void **state)
{
    (void)state;
    const ferry_element *element = ferry_element_scalar(FERRY_KIND_INT, 8);
    for (int held = 0; held < 2; held++) {
        const ferry_context_options options = {
            .devices = "emulated:1", .device_bytes_limit = MIB, .host_bytes_limit = 64 * KIB};
        const ferry_buffer_options names[] = {{.name = "idle"}, {.name = "large"}};
        ferry_context *context = NULL;
        ferry_buffer *idle, *large;
        ferry_scope scope;
        void *pointer;
        assert_int_equal(ferry_context_create(&options, &context), FERRY_OK);
        assert_int_equal(ferry_buffer_create(context, element, 512 * KIB - SPARE, &names[0], &idle),
                         FERRY_OK);
        assert_int_equal(
            ferry_buffer_create(context, element, 768 * KIB - SPARE, &names[1], &large), FERRY_OK);
        assert_int_equal(ferry_buffer_open_device(idle, element, FERRY_OVERWRITE, 0, FERRY_REST,
                                                  NULL, &scope, &pointer),
                         FERRY_OK);
        assert_int_equal(ferry_scope_close(&scope), FERRY_OK);
        if (held)
            assert_int_equal(ferry_buffer_hold(idle, 1, &pointer), FERRY_OK);
        assert_int_equal(ferry_buffer_open_device(large, element, FERRY_OVERWRITE, 0, FERRY_REST,
                                                  NULL, &scope, &pointer),
                         FERRY_ERROR_OUT_OF_MEMORY);
        assert_says("held by buffer \"idle\" with 524288 bytes");
        assert_true(!strstr(ferry_last_error(), "(held at its address)") == !held);
        assert_null(strstr(ferry_last_error(), " more with"));
        assert_null(strstr(ferry_last_error(), "buffer \"\""));
        if (held)
            assert_int_equal(ferry_buffer_release(idle, 1), FERRY_OK);
        ferry_buffer_destroy(&idle);
        ferry_buffer_destroy(&large);
        ferry_context_destroy(&context);
    }
}

/* Requests as many bytes as the limit leaves, or as are idle beside live blocks. They are fewer
 * than a block of the request's size class has. */
static void
test_what_is_left_is_enough(void **state)
{
    (void)state;
    const size_t sizes[][3] = {{128 * KIB, 49 * KIB, 256}, {208 * KIB, 2304, 48 * KIB - 2304}};
    const size_t limits[] = {178 * KIB, 256 * KIB};
    for (size_t i = 0; i < 2; i++) {
        ferry_context *context = context_new(limits[i], NULL);
        ferry_pool *pool = NULL;
        ferry_block *blocks[3] = {0};
        assert_int_equal(ferry_context_pool(context, 1, FERRY_MEMORY_DEVICE, &pool), FERRY_OK);
        if (i == 1) {
            assert_int_equal(ferry_pool_allocate(pool, 256 * KIB - SPARE, NULL, &blocks[0]),
                             FERRY_OK);
            assert_int_equal(ferry_block_free(&blocks[0], NULL), FERRY_OK);
        }
        for (size_t j = 0; j < 3; j++)
            assert_int_equal(ferry_pool_allocate(pool, sizes[i][j] - SPARE, NULL, &blocks[j]),
                             FERRY_OK);
        for (size_t j = 0; j < 3; j++)
            assert_int_equal(ferry_block_free(&blocks[j], NULL), FERRY_OK);
        ferry_context_destroy(&context);
    }
}

/* -- figures that explain ---------------------------------------------------------------------- */

struct crowd {
    ferry_pool *pool;
    size_t spare; /* what a memory checker needs beside the requested bytes */
    atomic_uint next, short_of_memory, contradictions;
};

static void
judge(struct crowd *crowd)
{
    const char *message = ferry_last_error(), *requested = strstr(message, "requested "),
               *largest = strstr(message, "largest free ");
    atomic_fetch_add(&crowd->short_of_memory, 1);
    if (!requested || !largest ||
        strtoul(largest + 13, NULL, 10) >= strtoul(requested + 10, NULL, 10) + crowd->spare) {
        atomic_fetch_add(&crowd->contradictions, 1);
        print_message("%s\n", message);
    }
}

static void *
run(void *user)
{
    struct crowd *crowd = user;
    uint64_t seed = 7919u * (1 + atomic_fetch_add(&crowd->next, 1));
    for (int round = 0; round < ROUNDS; round++) {
        ferry_block *blocks[3] = {0};
        for (int i = 0; i < 3; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if (ferry_pool_allocate(crowd->pool, 20000 + (seed >> 33) % 60000, NULL, &blocks[i]) ==
                FERRY_ERROR_OUT_OF_MEMORY)
                judge(crowd);
        }
        for (int i = 0; i < 3; i++)
            (void)!ferry_block_free(&blocks[i], NULL);
    }
    return NULL;
}

/* Several threads allocate and free under one tight limit. No message may state a free block that
 * has room for the request. */
static void
test_no_message_contradicts_itself(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    struct crowd crowd = {.spare = ferryi_memory_checker_is_attached(true) ? SPARE : 0};
    ferry_context *context = context_new(300000, NULL);
    const ferry_pool_options options = {.wait_ms = FERRY_WAIT_NEVER};
    assert_int_equal(ferry_context_pool(context, 1, FERRY_MEMORY_DEVICE, &crowd.pool), FERRY_OK);
    assert_int_equal(ferry_pool_configure(crowd.pool, &options), FERRY_OK);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, &crowd), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(crowd.short_of_memory > 0);
    assert_int_equal(crowd.contradictions, 0);
    ferry_context_destroy(&context);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_status_of_alloc_is_named),
        cmocka_unit_test(test_a_failing_free_is_logged_once),
        cmocka_unit_test(test_a_conversion_without_a_message_is_named),
        cmocka_unit_test(test_the_limit_is_named),
        cmocka_unit_test(test_the_holders_are_named),
        cmocka_unit_test(test_holders_of_the_same_call_are_named),
        cmocka_unit_test(test_idle_holders_are_named),
        cmocka_unit_test(test_what_is_left_is_enough),
        cmocka_unit_test(test_no_message_contradicts_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
