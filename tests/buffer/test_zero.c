/* SPDX-License-Identifier: MIT */
/* Tests zero_on_release of buffers and of pools. A secret is written, often by work that is still
 * queued, and its memory is released in each way that there is. The tests then take all idle memory
 * of the pool, as the next user would, and search it for the secret. */
#include "tests/buffer/work.h"

#include "src/buffer/buffer.h"
#include "src/store/store.h"

#define COUNT  20000
#define BYTES  (COUNT * sizeof(int))
#define BLOCKS 64

static const ferry_buffer_options zeroing = {.zero_on_release = true};
static const ferry_pool_options zeroing_pool = {.zero_on_release = true};

/* Each test has its own secret, because fresh memory of the process may hold that of an
 * earlier one. */
static int secret = 0x5ec2e700;

static const int *
secrets(void)
{
    static int values[2 * COUNT];
    for (size_t i = 0; i < LENGTH(values) && values[i] != secret; i++)
        values[i] = secret;
    return values;
}

static int
setup(void **state)
{
    secret++;
    return fixture_setup(state);
}

/* Counts the secrets in memory that may never have been written. */
static size_t
count_secrets(void *memory, size_t bytes)
{
    const char *text = memory;
    size_t found = 0;
    mark_initialized(memory, bytes);
    for (size_t i = 0; i + sizeof(int) <= bytes; i += sizeof(int))
        found += memcmp(text + i, &secret, sizeof(int)) == 0;
    return found;
}

/* Queues a write of the secret to a part of the buffer at the place. */
static void
write_secret(fixture *f, ferry_buffer *buffer, int place, size_t offset, size_t count)
{
    ferry_scope scope;
    void *memory = open_at(f, buffer, place, FERRY_OVERWRITE, offset, count, &scope);
    place_write(f, place, memory, secrets(), count * sizeof(int));
    OK(ferry_scope_close(&scope));
}

static ferry_buffer *
make_secret(fixture *f, const ferry_buffer_options *options, int place)
{
    ferry_buffer *buffer;
    OK(ferry_buffer_create(f->context, INT, COUNT, options, &buffer));
    write_secret(f, buffer, place, 0, COUNT);
    return buffer;
}

static ferry_pool *
pool_of(fixture *f, int place, ferry_memory_kind kind)
{
    ferry_pool *pool;
    OK(ferry_context_pool(f->context, place, kind, &pool));
    return pool;
}

/* Takes all idle blocks of `bytes` bytes of the pool. Returns how often the secret is in them. */
static size_t
search(fixture *f, int place, ferry_memory_kind kind, size_t bytes)
{
    size_t found = 0, taken = 0;
    ferry_pool *pool = pool_of(f, place, kind);
    ferry_block *blocks[BLOCKS];
    ferry_stream *stream = place ? stream_of(f, place) : NULL;
    unsigned char *text = malloc(bytes);
    assert_non_null(text);
    for (bool hit = true; hit && taken < BLOCKS; taken++) {
        ferry_pool_stats before, after;
        OK(ferry_pool_get_stats(pool, &before));
        OK(ferry_pool_allocate(pool, bytes, stream, &blocks[taken]));
        OK(ferry_pool_get_stats(pool, &after));
        hit = after.misses == before.misses;
        place_read(f, place, text, ferry_block_pointer(blocks[taken]), bytes);
        found += hit ? count_secrets(text, bytes) : 0; /* new memory may have anything in it */
    }
    while (taken > 0)
        OK(ferry_block_free(&blocks[--taken], stream));
    free(text);
    return found;
}

static size_t
search_place(fixture *f, int place, size_t bytes)
{
    return search(f, place, FERRY_MEMORY_DEFAULT, bytes);
}

static void
expect_nothing_anywhere(fixture *f, size_t bytes)
{
    for (int place = 0; place <= f->places; place++)
        assert_int_equal(search_place(f, place, bytes), 0);
}

/* -- buffers ----------------------------------------------------------------------------------- */

/* Without the option the next owner of the memory finds the secret. Otherwise these tests would
 * search in the wrong place. */
static void
test_without_the_option_it_is_found(void **state)
{
    fixture *f = *state;
    if (f->coherent)
        skip();
    ferry_buffer *buffer = make_secret(f, NULL, 1);
    ferry_buffer_destroy(&buffer);
    assert_true(search_place(f, 1, BYTES) > 0);
}

static void
test_destroy(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        ferry_buffer *buffer = make_secret(f, &zeroing, place);
        ferry_buffer_destroy(&buffer);
        expect_nothing_anywhere(f, BYTES);
    }
}

/* The bytes cross to the host and to other devices before the buffer is destroyed. */
static void
test_destroy_of_many_replicas(void **state)
{
    fixture *f = *state;
    ferry_buffer *buffer = make_secret(f, &zeroing, f->places);
    for (int place = 0; place <= f->places; place++)
        touch(f, buffer, place, FERRY_READ, 0, COUNT);
    ferry_buffer_destroy(&buffer);
    expect_nothing_anywhere(f, BYTES);
}

static void
test_evict_and_invalidate(void **state)
{
    fixture *f = *state;
    for (int way = 0; way < 2; way++)
        for (int place = 1; place <= f->places; place++) {
            ferry_buffer *buffer = make_secret(f, &zeroing, place);
            if (way == 0)
                OK(ferry_buffer_evict(buffer, place));
            else
                OK(ferry_buffer_invalidate(buffer, 0, FERRY_REST, place));
            if (!f->coherent)
                assert_int_equal(search_place(f, place, BYTES), 0);
            expect_constant(f, buffer, 0, 0, COUNT, secret);
            ferry_buffer_destroy(&buffer);
            expect_nothing_anywhere(f, BYTES);
        }
}

static void
test_resize(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        ferry_buffer *buffer = make_secret(f, &zeroing, place);
        OK(ferry_buffer_resize(buffer, 2 * COUNT));
        assert_int_equal(search_place(f, place, BYTES), 0);
        expect_constant(f, buffer, place, 0, COUNT, secret);
        ferry_buffer_destroy(&buffer);
        expect_nothing_anywhere(f, 2 * BYTES);
    }
}

/* A shortage evicts replicas, and their memory is given to other buffers. */
static void
test_eviction_for_want_of_memory(void **state)
{
    fixture *f = *state;
    if (f->coherent)
        skip();
    enum { BUFFERS = 12 };
    ferry_buffer *buffers[BUFFERS];
    ferry_pool *pool = pool_of(f, 1, FERRY_MEMORY_DEVICE);
    OK(ferry_pool_configure(pool, &(ferry_pool_options){.limit_bytes = 4 * BYTES}));
    for (size_t i = 0; i < BUFFERS; i++)
        buffers[i] = make_secret(f, &zeroing, 1);
    ferry_pool_stats stats;
    OK(ferry_pool_get_stats(pool, &stats));
    assert_true(stats.evictions > 0);
    for (size_t i = 0; i < BUFFERS; i++)
        OK(ferry_buffer_evict(buffers[i], 1));
    OK(ferry_pool_configure(pool, NULL));
    assert_int_equal(search_place(f, 1, BYTES), 0);
    for (size_t i = 0; i < BUFFERS; i++) {
        expect_constant(f, buffers[i], 0, 0, COUNT, secret);
        ferry_buffer_destroy(&buffers[i]);
    }
    expect_nothing_anywhere(f, BYTES);
}

static void
test_compaction(void **state)
{
    fixture *f = *state;
    enum { BUFFERS = 60 };
    ferry_buffer *buffers[BUFFERS];
    ferry_pool_compaction done;
    for (size_t i = 0; i < BUFFERS; i++)
        buffers[i] = make_secret(f, &zeroing, 1);
    for (size_t i = 0; i < BUFFERS; i++)
        if (i % 3 > 0)
            ferry_buffer_destroy(&buffers[i]);
    OK(ferry_pool_compact(pool_of(f, f->coherent ? 0 : 1, FERRY_MEMORY_DEFAULT), &done));
    assert_int_equal(search_place(f, 1, BYTES), 0);
    for (size_t i = 0; i < BUFFERS; i += 3) {
        expect_constant(f, buffers[i], 1, 0, COUNT, secret);
        ferry_buffer_destroy(&buffers[i]);
    }
    expect_nothing_anywhere(f, BYTES);
}

/* Temporary memory of overlapping copies and of conversions on the device. */
static void
test_temporary_memory(void **state)
{
    fixture *f = *state;
    ferry_buffer *buffer = make_secret(f, &zeroing, 1), *floats;
    const ferry_copy_options on_device = {.stream = f->stream};
    OK(ferry_buffer_copy(buffer, INT, 5, buffer, 0, COUNT - 5, &on_device));
    const ferry_copy_region rows = {.target = {.buffer = buffer, .offset = 5, .row_pitch = 100},
                                    .source = {.buffer = buffer, .row_pitch = 100},
                                    .count = 90,
                                    .rows = 20};
    OK(ferry_copy(&rows, 1, &on_device));
    OK(ferry_buffer_create(f->context, FLOAT, COUNT, &zeroing, &floats));
    const ferry_copy_region region = {
        .target = {.buffer = floats}, .source = {.buffer = buffer}, .count = COUNT};
    const ferry_copy_options converting = {.stream = f->stream, .convert = FERRY_CONVERT_SATURATE};
    OK(ferry_copy(&region, 1, &converting));
    DESTROY_BUFFERS(&buffer, &floats);
    expect_nothing_anywhere(f, BYTES);
    expect_nothing_anywhere(f, BYTES - 5 * sizeof(int));
    expect_nothing_anywhere(f, rows.rows * rows.count * sizeof(int));
}

/* Page-locked memory that an upload still reads, and managed memory. */
static void
test_pinned_and_managed_memory(void **state)
{
    fixture *f = *state;
    const ferry_memory_kind kinds[] = {FERRY_MEMORY_PINNED, FERRY_MEMORY_MANAGED};
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        ferry_buffer *buffer;
        ferry_pool *pool;
        const ferry_buffer_options options = {.memory = kinds[i], .zero_on_release = true};
        if (ferry_context_pool(f->context, 0, kinds[i], &pool) != FERRY_OK ||
            ferry_buffer_create(f->context, INT, COUNT, &options, &buffer) != FERRY_OK)
            continue;
        write_secret(f, buffer, 0, 0, COUNT);
        touch(f, buffer, 1, FERRY_UPDATE, 0, COUNT);
        ferry_buffer_destroy(&buffer);
        assert_int_equal(search(f, 0, kinds[i], BYTES), 0);
        expect_nothing_anywhere(f, BYTES);
    }
}

/* Page-locked memory is zeroed behind the upload that still reads it, for which no call waits. */
static void
test_the_zeroing_of_host_memory_is_queued(void **state)
{
    fixture *f = *state;
    const ferry_buffer_options options = {.memory = FERRY_MEMORY_PINNED, .zero_on_release = true};
    ferry_buffer *buffer;
    ferry_pool *pool;
    if (!is_lazy(f) || ferry_context_pool(f->context, 0, FERRY_MEMORY_PINNED, &pool) != FERRY_OK)
        skip();
    OK(ferry_buffer_create(f->context, INT, COUNT, &options, &buffer));
    write_secret(f, buffer, 0, 0, COUNT);
    touch(f, buffer, 1, FERRY_READ, 0, COUNT);
    const ferryi_sync_point upload = ferryi_store_uses(buffer->store, 0).read;
    assert_false(ferryi_sync_point_is_done(&f->context->order, upload));
    ferry_buffer_destroy(&buffer);
    assert_false(ferryi_sync_point_is_done(&f->context->order, upload));
    assert_int_equal(search(f, 0, FERRY_MEMORY_PINNED, BYTES), 0);
}

/* -- pools ------------------------------------------------------------------------------------- */

/* Blocks of several sizes and alignments, freed after queued writes and after none. */
static void
test_blocks(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        ferry_pool *pool = pool_of(f, place, FERRY_MEMORY_DEFAULT);
        ferry_stream *stream = place ? stream_of(f, place) : NULL;
        ferry_block *before, *block;
        OK(ferry_pool_allocate(pool, BYTES, stream, &before));
        place_write(f, place, ferry_block_pointer(before), secrets(), BYTES);
        OK(ferry_pool_configure(pool, &zeroing_pool));
        OK(ferry_block_free(&before, stream)); /* it was allocated before the option was set */
        assert_int_equal(search_place(f, place, BYTES), 0);
        for (size_t bytes = 4; bytes <= 2 * BYTES; bytes = 3 * bytes)
            for (size_t align = 256; align <= 65536; align *= 16) {
                OK(ferry_pool_allocate_aligned(pool, bytes, align, stream, &block));
                place_write(f, place, ferry_block_pointer(block), secrets(), bytes);
                OK(ferry_block_free(&block, stream));
                assert_int_equal(search_place(f, place, bytes), 0);
            }
        OK(ferry_pool_configure(pool, NULL));
        OK(ferry_pool_allocate(pool, BYTES, stream, &block));
        OK(ferry_block_free(&block, stream));
    }
}

/* The memory of a pool, with a check of what is freed. */
struct backend {
    size_t secrets, frees;
};

static ferry_status
backend_alloc(void *user, size_t bytes, void **out)
{
    (void)user;
    *out = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    return *out ? FERRY_OK : FERRY_ERROR_OUT_OF_MEMORY;
}

static ferry_status
backend_free(void *user, void *memory, size_t bytes)
{
    struct backend *backend = user;
    backend->secrets += count_secrets(memory, bytes);
    backend->frees++;
    free(memory);
    return FERRY_OK;
}

/* Memory goes back to the allocator: idle blocks, and blocks that the program forgot. */
static void
test_memory_that_goes_back(void **state)
{
    fixture *f = *state;
    for (int forgets = 0; forgets < 2; forgets++) {
        struct backend backend = {0};
        const ferry_pool_backend functions = {
            .alloc = backend_alloc, .free = backend_free, .user = &backend, .align = 4096};
        ferry_pool *pool;
        ferry_block *block, *large;
        OK(ferry_pool_create(f->context, 0, FERRY_MEMORY_PAGEABLE, &functions, &zeroing_pool,
                             &pool));
        OK(ferry_pool_allocate(pool, BYTES, NULL, &block));
        OK(ferry_pool_allocate(pool, (size_t)2 << 20, NULL, &large));
        memcpy(ferry_block_pointer(block), secrets(), BYTES);
        memcpy(ferry_block_pointer(large), secrets(), BYTES);
        if (!forgets) {
            OK(ferry_block_free(&block, NULL));
            OK(ferry_block_free(&large, NULL));
            OK(ferry_pool_trim(pool, 0));
            assert_int_equal(backend.frees, 2);
        }
        ferry_pool_destroy(&pool);
        if (forgets) {
            fixture_expect_log(f, "still held");
            f->errors = 0;
        }
        assert_int_equal(backend.frees, 2);
        assert_int_equal(backend.secrets, 0);
    }
}

#define SECRET_TEST(function) cmocka_unit_test_setup_teardown(function, setup, fixture_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        SECRET_TEST(test_without_the_option_it_is_found),
        SECRET_TEST(test_destroy),
        SECRET_TEST(test_destroy_of_many_replicas),
        SECRET_TEST(test_evict_and_invalidate),
        SECRET_TEST(test_resize),
        SECRET_TEST(test_eviction_for_want_of_memory),
        SECRET_TEST(test_compaction),
        SECRET_TEST(test_temporary_memory),
        SECRET_TEST(test_pinned_and_managed_memory),
        SECRET_TEST(test_the_zeroing_of_host_memory_is_queued),
        SECRET_TEST(test_blocks),
        SECRET_TEST(test_memory_that_goes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
