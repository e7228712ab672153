/* SPDX-License-Identifier: MIT */
#ifndef TEST_POOL_BACKEND_H
#define TEST_POOL_BACKEND_H

/*
 * A memory backend for pools in tests. The backend records live allocations, counts calls, and
 * checks the address and size of freed memory. A test can limit the backend's memory or make the
 * N-th call fail.
 *
 * No memory checker watches these pools, except a tool of NVTX: they do not say that the host
 * reaches their memory. So their blocks and hits are those of a pool without a checker.
 */

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "src/base/sanitizer.h"
#include "src/pool/slab.h"

#define BACKEND_ALLOCATIONS 4096
#define KIB                 ((size_t)1 << 10)
#define MIB                 ((size_t)1 << 20)
#define GIB                 ((size_t)1 << 30)

struct backend {
    pthread_mutex_t mutex;
    struct {
        void *memory;
        size_t bytes;
    } live[BACKEND_ALLOCATIONS];
    size_t count, bytes, peak_bytes;
    size_t capacity;       /* 0: no limit */
    uint64_t free_ns;      /* time in ns that a free takes, while the mutex is not held */
    unsigned long calls;   /* including failing calls */
    unsigned long fail_at; /* number of the call that fails; 0: none */
    ferry_status fail_with;
    unsigned long allocations, frees; /* successful calls */
    unsigned long wrong_frees;
};

static inline bool
backend_trips(struct backend *backend)
{
    return ++backend->calls == backend->fail_at;
}

/* Returns whether the backend allocates with mmap(). It does so for large blocks under sanitizers,
 * whose malloc() writes shadow memory. That is slow for gigabytes. */
static inline bool
backend_maps(size_t bytes)
{
    return FERRYI_SANITIZED_MALLOC && bytes >= 64 * MIB;
}

static inline void *
backend_get_memory(size_t bytes)
{
    if (!backend_maps(bytes))
        return aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static inline void
backend_put_memory(void *memory, size_t bytes)
{
    if (backend_maps(bytes))
        munmap(memory, bytes);
    else
        free(memory);
}

static inline ferry_status
backend_alloc(void *user, size_t bytes, void **out)
{
    struct backend *backend = user;
    ferry_status status = FERRY_OK;
    pthread_mutex_lock(&backend->mutex);
    if (backend_trips(backend)) {
        status = ferryi_fail(backend->fail_with, "backend_alloc %zu bytes: told to fail", bytes);
    } else if (backend->capacity && backend->bytes + bytes > backend->capacity) {
        status = ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "backend_alloc %zu bytes: no more", bytes);
    } else {
        void *memory = backend_get_memory(bytes);
        if (!memory || backend->count == BACKEND_ALLOCATIONS)
            abort();
        backend->live[backend->count].memory = memory;
        backend->live[backend->count++].bytes = bytes;
        backend->bytes += bytes;
        backend->peak_bytes = ferryi_max_size(backend->peak_bytes, backend->bytes);
        backend->allocations++;
        *out = memory;
    }
    pthread_mutex_unlock(&backend->mutex);
    return status;
}

static inline ferry_status
backend_free(void *user, void *memory, size_t bytes)
{
    struct backend *backend = user;
    ferry_status status = FERRY_OK;
    if (backend->free_ns > 0)
        ferryi_sleep_ns(backend->free_ns);
    pthread_mutex_lock(&backend->mutex);
    size_t i = 0;
    while (i < backend->count && backend->live[i].memory != memory)
        i++;
    if (backend_trips(backend)) {
        status = ferryi_fail(FERRY_ERROR_DEVICE, "backend_free %zu bytes: told to fail", bytes);
    } else if (i == backend->count || backend->live[i].bytes != bytes) {
        backend->wrong_frees++;
    } else {
        backend_put_memory(memory, bytes);
        backend->live[i] = backend->live[--backend->count];
        backend->bytes -= bytes;
        backend->frees++;
    }
    pthread_mutex_unlock(&backend->mutex);
    return status;
}

/* -- ranges ------------------------------------------------------------------------------------ */

/* Bytes of the handles of pools that fixture_open() creates; 0: their backends have no ranges. Set
 * by the argument of a test program. */
static size_t backend_handle_bytes;

#define BACKEND_RANGE_BYTES ((size_t)16 << 30)

static inline ferry_status
backend_range_reserve(void *user, size_t bytes, void **out)
{
    (void)user;
    *out = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return *out == MAP_FAILED ? ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no addresses") : FERRY_OK;
}

static inline ferry_status
backend_range_release(void *user, void *range, size_t bytes)
{
    (void)user;
    munmap(range, bytes);
    return FERRY_OK;
}

/* A handle is the address where it is mapped. A use of memory without a handle faults. */
static inline ferry_status
backend_range_map(void *user, void *memory, size_t bytes, void **out)
{
    struct backend *backend = user;
    ferry_status status = FERRY_OK;
    pthread_mutex_lock(&backend->mutex);
    if (backend_trips(backend)) {
        status = ferryi_fail(backend->fail_with, "backend_map %zu bytes: made to fail", bytes);
    } else if (backend->capacity && backend->bytes + bytes > backend->capacity) {
        status = ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "backend_map %zu bytes: no more", bytes);
    } else {
        if (backend->count == BACKEND_ALLOCATIONS ||
            mprotect(memory, bytes, PROT_READ | PROT_WRITE) != 0)
            abort();
        for (size_t i = 0; i < backend->count; i++)
            if ((char *)backend->live[i].memory < (char *)memory + bytes &&
                (char *)memory < (char *)backend->live[i].memory + backend->live[i].bytes)
                abort();
        backend->live[backend->count].memory = memory;
        backend->live[backend->count++].bytes = bytes;
        backend->bytes += bytes;
        backend->peak_bytes = ferryi_max_size(backend->peak_bytes, backend->bytes);
        backend->allocations++;
        *out = memory;
    }
    pthread_mutex_unlock(&backend->mutex);
    return status;
}

static inline ferry_status
backend_range_unmap(void *user, void *memory, size_t bytes, void *handle)
{
    struct backend *backend = user;
    ferry_status status = FERRY_OK;
    pthread_mutex_lock(&backend->mutex);
    size_t i = 0;
    while (i < backend->count && backend->live[i].memory != memory)
        i++;
    if (backend_trips(backend)) {
        status = ferryi_fail(FERRY_ERROR_DEVICE, "backend_unmap %zu bytes: made to fail", bytes);
    } else if (i == backend->count || backend->live[i].bytes != bytes || handle != memory) {
        backend->wrong_frees++;
    } else {
        if (mmap(memory, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                 -1, 0) == MAP_FAILED)
            abort();
        backend->live[i] = backend->live[--backend->count];
        backend->bytes -= bytes;
        backend->frees++;
    }
    pthread_mutex_unlock(&backend->mutex);
    return status;
}

static inline void
backend_add_ranges(struct ferryi_pool_backend *backend, size_t handle_bytes)
{
    backend->range_reserve = backend_range_reserve;
    backend->range_release = backend_range_release;
    backend->range_map = backend_range_map;
    backend->range_unmap = backend_range_unmap;
    backend->handle_bytes = handle_bytes;
    backend->range_bytes = BACKEND_RANGE_BYTES;
}

/* A backend and a pool over it. */
struct fixture {
    struct backend backend;
    ferry_pool *pool;
    struct ferryi_log log;
    char logged[512];
    bool crowded; /* whether many threads use the pool; the pool and the backend may then record
                     different peaks */
};

static inline void
fixture_log(ferry_log_level level, const char *message, void *user)
{
    struct fixture *fixture = user;
    (void)level;
    strncpy(fixture->logged, message, sizeof(fixture->logged) - 1);
}

static inline void
fixture_open(struct fixture *fixture, ferry_memory_kind kind, size_t limit_bytes,
             ferryi_order *order)
{
    memset(fixture, 0, sizeof(*fixture));
    pthread_mutex_init(&fixture->backend.mutex, NULL);
    fixture->backend.fail_with = FERRY_ERROR_OUT_OF_MEMORY;
    fixture->log = (struct ferryi_log){fixture_log, fixture};
    struct ferryi_pool_config config = {
        .backend = {.alloc = backend_alloc,
                    .free = backend_free,
                    .user = &fixture->backend,
                    .align = 4096},
        .order = order,
        .log = &fixture->log,
        .place = kind == FERRY_MEMORY_DEVICE ? 1 : 0,
        .kind = kind,
        .limit_bytes = limit_bytes,
        .name = "test memory",
    };
    if (backend_handle_bytes > 0)
        backend_add_ranges(&config.backend, backend_handle_bytes);
    assert_int_equal(ferryi_pool_create(&config, &fixture->pool), FERRY_OK);
}

static inline ferry_pool_stats
statistics(struct fixture *fixture)
{
    ferry_pool_stats stats;
    assert_int_equal(ferry_pool_get_stats(fixture->pool, &stats), FERRY_OK);
    assert_int_equal(stats.allocations, stats.hits + stats.misses);
    assert_true(stats.largest_free_bytes <= stats.cached_bytes);
    return stats;
}

static inline ferry_pool_class_stats
class_stats(struct fixture *fixture, int class_index)
{
    ferry_pool_class_stats stats;
    assert_int_equal(ferry_pool_get_class_stats(fixture->pool, class_index, &stats), FERRY_OK);
    return stats;
}

/* Returns the internal counters of the pool. */
static inline struct ferryi_pool_counters
counters(struct fixture *fixture)
{
    struct ferryi_pool_counters all;
    ferryi_pool_get_counters(fixture->pool, &all);
    return all;
}

/* Number of idle blocks, and number of idle blocks that queued work still uses. */
struct idle_blocks {
    size_t all, pending;
};

static inline struct idle_blocks
idle_blocks(struct fixture *fixture)
{
    struct idle_blocks idle = {0};
    ferry_pool *pool = fixture->pool;
    (void)statistics(
        fixture); /* reading the statistics empties the magazines and queries the device */
    ferryi_mutex_lock(&pool->mutex);
    for (struct ferryi_link *link = pool->slabs.next; link != &pool->slabs; link = link->next)
        for (ferry_block *block = FERRYI_SLAB_OF(link, in_pool)->first; block; block = block->after)
            if (block->state == FERRYI_BLOCK_IDLE) {
                idle.all++;
                idle.pending += !ferryi_sync_point_is_done(pool->config.order, block->point);
            }
    ferryi_mutex_unlock(&pool->mutex);
    return idle;
}

/* Checks that the statistics of the pool agree with the lists of the pool and with the counts of
 * the memory backend. */
static inline void
assert_agrees(struct fixture *fixture)
{
    ferry_pool_stats stats = statistics(fixture);
    struct ferryi_pool_counters all = counters(fixture);
    assert_true(ferryi_pool_check(fixture->pool));
    assert_int_equal(stats.reserved_bytes, fixture->backend.bytes);
    if (!fixture->crowded)
        assert_int_equal(stats.peak_reserved_bytes, fixture->backend.peak_bytes);
    assert_int_equal(all.device_allocations, fixture->backend.allocations);
    assert_int_equal(all.device_frees, fixture->backend.frees);
    assert_int_equal(all.device_allocations - all.device_frees, fixture->backend.count);
    assert_true(stats.reserved_bytes >= stats.live_bytes + stats.cached_bytes);
    assert_int_equal(fixture->backend.wrong_frees, 0);

    ferry_pool_class_stats sum = {0};
    for (int i = 0; i < FERRY_POOL_CLASS_COUNT; i++) {
        ferry_pool_class_stats one = class_stats(fixture, i);
        sum.live_blocks += one.live_blocks;
        sum.live_bytes += one.live_bytes;
        sum.cached_bytes += one.cached_bytes;
        sum.allocations += one.allocations;
        sum.hits += one.hits;
        sum.requested_bytes += one.requested_bytes;
        assert_true(one.requested_bytes <= one.live_bytes);
    }
    assert_int_equal(sum.live_blocks, stats.live_blocks);
    assert_int_equal(sum.live_bytes, stats.live_bytes);
    assert_int_equal(sum.cached_bytes, stats.cached_bytes);
    assert_int_equal(sum.allocations, stats.allocations);
    assert_int_equal(sum.hits, stats.hits);
    assert_int_equal(sum.requested_bytes, stats.requested_bytes);
}

/* Destroys the pool, and checks that the pool has returned all memory to the backend. */
static inline void
fixture_close(struct fixture *fixture)
{
    assert_agrees(fixture);
    ferryi_pool_destroy(&fixture->pool);
    assert_null(fixture->pool);
    assert_int_equal(fixture->backend.count, 0);
    pthread_mutex_destroy(&fixture->backend.mutex);
}

static inline ferry_block *
take(struct fixture *fixture, size_t bytes)
{
    ferry_block *block = NULL;
    assert_int_equal(ferry_pool_allocate(fixture->pool, bytes, NULL, &block), FERRY_OK);
    assert_non_null(block);
    assert_true(ferry_block_bytes(block) >= bytes);
    return block;
}

static inline void
give(ferry_block *block)
{
    assert_int_equal(ferry_block_free(&block, NULL), FERRY_OK);
    assert_null(block);
}

#endif
