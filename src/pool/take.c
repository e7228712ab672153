/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/pool/magazine.h"
#include "src/stream/stream.h"

/* Maximum number of times that an allocation is repeated because another thread has freed memory
 * since it failed. */
#define RETRIES 16
/* An upload that would have to wait for memory gets new memory while fewer idle blocks of its size
 * than this are in use. */
#define SPARES 3

/* -- from idle memory -------------------------------------------------------------------------- */

/* Makes the request's stream wait for the last use of the chosen block, and makes the block live.
 * If the wait fails, the block becomes idle again. If it fails because a stream is being captured,
 * the function succeeds and leaves *out unchanged. */
static ferry_status
order_block(ferry_pool *pool, const struct ferryi_pool_request *request, ferry_block *block,
            ferry_block **out)
{
    ferry_status status =
        ferryi_sync_point_wait(pool->config.order, request->timeline, block->point);

    ferryi_mutex_lock(&pool->mutex);
    if (status == FERRY_OK) {
        pool->counters.waits++;
        ferryi_block_commit(pool, block, request, true);
        *out = block;
    } else {
        ferryi_block_put(pool, block, block->point, ferryi_now_ns());
    }
    ferryi_mutex_unlock(&pool->mutex);
    return status == FERRY_ERROR_UNSUPPORTED ? FERRY_OK : status;
}

ferry_status
ferryi_pool_reuse(ferry_pool *pool, const struct ferryi_pool_request *request, ferry_block **out)
{
    if (!ferryi_pool_lock_stocked(pool))
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory to describe it");
    ferry_block *block = ferryi_pool_find(pool, request);
    bool ordered =
        block && ferryi_sync_point_is_ordered(pool->config.order, request->timeline, block->point);
    if (ordered)
        ferryi_block_commit(pool, block, request, true);
    ferryi_mutex_unlock(&pool->mutex);

    if (block && !ordered)
        return order_block(pool, request, block, out);
    *out = block;
    return FERRY_OK;
}

/* Returns whether this thread is compacting the pool. */
static bool
is_compacting(const ferry_pool *pool)
{
    return atomic_load_explicit(&pool->compactor, memory_order_relaxed) == ferryi_thread_id();
}

/*
 * Returns whether the pool should grow instead of making the request's stream wait for the last use
 * of an idle block. For a spare block it may grow even if there is no such block. A stream of the
 * transfer engine brings bytes of many buffers, and the host may wait for it, so it must not wait
 * for a kernel that has nothing to do with them. SPARES idle blocks of the size are enough for an
 * upload, a kernel and a download at the same time, so that a program that queues work far ahead
 * does not make the pool grow without end. Nothing needs a spare block, so it leaves as large a
 * part of a limit free as of a device's memory.
 */
static bool
rather_grows(ferry_pool *pool, const struct ferryi_pool_request *request)
{
    ferryi_mutex_lock(&pool->mutex);
    unsigned busy = ferryi_pool_count_busy(pool, request);
    size_t left = request->spare ? pool->limit_bytes / FERRYI_POOL_RESERVE_PART : 0;
    bool within =
        ferryi_pool_is_within_limit(pool, ferryi_pool_new_slab_bytes(pool, request->need) + left);
    ferryi_mutex_unlock(&pool->mutex);
    return (busy > 0 || request->spare) && busy < SPARES && within && !is_compacting(pool) &&
           ferryi_pool_has_plenty(pool, request->need);
}

/* Searches the pool's idle memory. A block whose last use may have ended is asked for before the
 * host or a stream of the transfer engine waits for it. */
static ferry_status
reuse_or_ask(ferry_pool *pool, struct ferryi_pool_request *request, ferry_block **out)
{
    request->waits_last = request->timeline && atomic_load(&request->timeline->internal);
    ferry_status status = ferryi_pool_reuse(pool, request, out);
    if (status == FERRY_OK && !*out && (!request->timeline || request->waits_last) &&
        ferryi_pool_ask_oldest(pool, ferryi_pool_bin_of_class(request->list)))
        status = ferryi_pool_reuse(pool, request, out);
    if (status != FERRY_OK || *out || !request->waits_last || request->spare ||
        rather_grows(pool, request))
        return status;
    request->waits_last = false;
    return ferryi_pool_reuse(pool, request, out);
}

/* -- from the backend -------------------------------------------------------------------------- */

/* Allocates memory from the backend. Checks the result, because a backend that the program supplies
 * may return NULL or unaligned memory. */
static ferry_status
ask_backend(const ferry_pool *pool, size_t bytes, void **out)
{
    const struct ferryi_pool_backend *backend = &pool->config.backend;
    ferry_status status = backend->alloc(backend->user, bytes, out);
    if (status != FERRY_OK || (*out && ((uintptr_t)*out & (backend->align - 1)) == 0))
        return status;
    void *memory = *out;
    if (!memory)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "allocate %zu bytes: alloc of the pool's backend returned FERRY_OK and "
                           "gave NULL",
                           bytes);
    if (backend->free(backend->user, memory, bytes) != FERRY_OK)
        ferryi_log(pool->config.log, FERRY_LOG_ERROR, "give %zu bytes of %s back: %s", bytes,
                   pool->name, ferry_last_error());
    return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                       "allocate %zu bytes: the backend gave %p, which is not aligned to %zu bytes",
                       bytes, memory, backend->align);
}

ferry_status
ferryi_pool_grow(ferry_pool *pool, struct ferryi_pool_request *request, size_t bytes,
                 ferry_block **out)
{
    void *memory = NULL;
    if (pool->range && request->need > FERRYI_POOL_SLAB_BLOCK)
        return ferryi_range_grow(pool, request, bytes, out);
    struct ferryi_slab *slab = ferryi_slab_new(pool, bytes, ferryi_min_size(request->need, bytes));
    if (!slab)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory to describe it");
    ferry_status status = FERRY_ERROR_OUT_OF_MEMORY;
    ferryi_mutex_lock(&pool->mutex);
    bool within = ferryi_pool_is_within_limit(pool, bytes);
    const char *limit_name = pool->limit_name;
    if (within) {
        pool->requesting_bytes += bytes;
        pool->backend_calls++;
        ferryi_mutex_unlock(&pool->mutex);
        status = ask_backend(pool, bytes, &memory);
        ferryi_mutex_lock(&pool->mutex);
        pool->requesting_bytes -= bytes;
        pool->backend_calls--;
        ferryi_cond_broadcast(&pool->settled);
    }
    if (status == FERRY_OK) {
        *out = ferryi_slab_adopt(pool, slab, memory);
        ferryi_block_commit(pool, *out, request, false);
        ferryi_pool_raise_peak(pool);
    } else {
        ferryi_slab_drop(pool, slab);
    }
    ferryi_mutex_unlock(&pool->mutex);
    return within ? status
                  : ferryi_fail(status, "the limit %s is reached",
                                limit_name ? limit_name : "of the pool");
}

/* -- from idle memory or the backend ----------------------------------------------------------- */

/* Collects idle memory before the pool grows. Empties the magazines of all threads, merges small
 * idle blocks, and lets a large request use a block of the next larger class. Does nothing and
 * returns false if the pool has grown by less than an eighth since the last collection. The pool
 * does not collect at every growth, because a collection takes blocks from threads that soon need
 * them again. */
static bool
collect(ferry_pool *pool, struct ferryi_pool_request *request)
{
    ferryi_mutex_lock(&pool->mutex);
    bool due = pool->grown_bytes >= pool->reserved_bytes / 8;
    if (due) {
        pool->grown_bytes = 0;
        request->any_fit = true;
        ferryi_magazines_empty(pool);
        ferryi_pool_merge(pool);
    }
    ferryi_mutex_unlock(&pool->mutex);
    return due;
}

static ferry_status
obtain_spare(ferry_pool *pool, struct ferryi_pool_request *request, ferry_block **out)
{
    ferry_status status = reuse_or_ask(pool, request, out);
    if (status != FERRY_OK || *out)
        return status;
    return rather_grows(pool, request) &&
                   ferryi_pool_grow(pool, request, ferryi_pool_new_slab_bytes(pool, request->need),
                                    out) == FERRY_OK
               ? FERRY_OK
               : FERRY_ERROR_BUSY;
}

static ferry_status
obtain(ferry_pool *pool, struct ferryi_pool_request *request, ferry_block **out)
{
    if (request->spare)
        return obtain_spare(pool, request, out);
    ferry_status status = reuse_or_ask(pool, request, out);
    if (status == FERRY_OK && !*out && collect(pool, request))
        status = reuse_or_ask(pool, request, out);
    if (status == FERRY_OK && !*out && is_compacting(pool))
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "a compaction moves blocks into idle memory only");
    if (status == FERRY_OK && !*out) {
        ferryi_pool_make_room(pool, request->need);
        status =
            ferryi_pool_grow(pool, request, ferryi_pool_new_slab_bytes(pool, request->need), out);
        request->waits_last = false;
        if (status == FERRY_ERROR_OUT_OF_MEMORY)
            status = ferryi_pool_overcome_shortage(pool, request, out);
        ferryi_pool_maintain(pool, true);
    }
    return status;
}

/* -- the take ---------------------------------------------------------------------------------- */

/* Completes the error message of a failed allocation. A compaction that finds no room for a block
 * leaves it where it is, and no call fails. */
static ferry_status
take_failed(ferry_pool *pool, const struct ferryi_pool_request *request, ferry_status status)
{
    if (status == FERRY_ERROR_OUT_OF_MEMORY && request->need > 0 && !is_compacting(pool))
        status = ferryi_out_of_memory_fail(pool, request);
    return request->internal
               ? status
               : ferryi_fail_in(status, "take %zu bytes from %s", request->bytes, pool->name);
}

static void
log_take(const ferry_pool *pool, const struct ferryi_pool_request *request,
         const ferry_block *block)
{
    if (pool->config.allocation_log)
        ferryi_allocation_log_write(pool->config.allocation_log,
                                    block ? FERRYI_ALLOCATION_TAKE : FERRYI_ALLOCATION_FAILURE,
                                    ferry_block_pointer(block), request->bytes,
                                    request->timeline ? request->timeline->number : 0);
}

FERRYI_COLD static ferry_status
take_slowly(ferry_pool *pool, struct ferryi_pool_request *request, ferry_block **out)
{
    ferry_block *block = NULL;
    ferry_status status;

    size_t unused =
        pool->has_checker && pool->config.host_reaches ? FERRYI_MEMORY_CHECKER_BYTES : 0;
    if (!ferryi_pool_request_plan(request, unused, &pool->config.backend)) {
        request->need = 0;
        status = ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "the size does not fit size_t");
    } else {
        if (request->list < FERRYI_POOL_CLASSES && request->align == 1)
            block = ferryi_cache_take_slowly(pool, request);
        status = block ? FERRY_OK : obtain(pool, request, &block);
        for (int i = 0; i < RETRIES && status == FERRY_ERROR_OUT_OF_MEMORY &&
                        ferryi_out_of_memory_is_over(pool, request);
             i++)
            status = obtain(pool, request, &block);
    }
    if (status == FERRY_OK || !request->spare)
        log_take(pool, request, block);
    if (status != FERRY_OK)
        return take_failed(pool, request, status);

    ferryi_memory_checker_allow(block);
    *out = block;
    return FERRY_OK;
}

/* Checks the arguments and allocates a block on the slow path. */
FERRYI_COLD static ferry_status
take_public(ferry_pool *pool, size_t bytes, size_t align, ferry_stream *stream, ferry_block **out)
{
    if (!pool || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "take %zu bytes from a pool: %s is NULL",
                           bytes, pool ? "out" : "pool");
    FERRYI_OR_RETURN(ferryi_pool_check_stream(pool, stream, "take memory from"));
    struct ferryi_pool_request request = {
        .bytes = bytes, .align = align, .timeline = stream ? ferryi_stream_timeline(stream) : NULL};
    return take_slowly(pool, &request, out);
}

/* With FERRYI_DEBUG_CHECKS, stores the address of the call that allocated the block in the block's
 * descriptor. */
static inline ferry_status
note_site(ferry_status status, ferry_block *const *out, const void *site)
{
    (void)out;
    (void)site;
#ifdef FERRYI_DEBUG_CHECKS
    if (status == FERRY_OK)
        (*out)->site = site;
#endif
    return status;
}

/* Allocates a block whose last use is done or is ordered before later work of the stream. The
 * function is not inlined, so that allocations without a stream need not save registers. */
static __attribute__((noinline)) ferry_status
take_ordered(ferry_pool *pool, size_t bytes, ferry_stream *stream, ferry_block **out)
{
    bool good = pool && out && (!stream || ferryi_stream_context(stream) == pool->config.context);
    const ferryi_timeline *timeline = good && stream ? ferryi_stream_timeline(stream) : NULL;
    ferry_block *block = good ? ferryi_cache_take(pool, bytes, timeline, pool->config.order) : NULL;
    if (__builtin_expect(!block, 0))
        return take_public(pool, bytes, FERRYI_POOL_ALIGN, stream, out);
    *out = block;
    return FERRY_OK;
}

static inline ferry_status
take_any(ferry_pool *pool, size_t bytes, ferry_stream *stream, ferry_block **out)
{
    if (stream)
        return take_ordered(pool, bytes, stream, out);
    ferry_block *block =
        __builtin_expect(pool && out, 1) ? ferryi_cache_take(pool, bytes, NULL, NULL) : NULL;
    if (__builtin_expect(!block, 0))
        return take_ordered(pool, bytes, NULL, out);
    *out = block;
    return FERRY_OK;
}

ferry_status
ferry_pool_allocate(ferry_pool *pool, size_t bytes, ferry_stream *stream, ferry_block **out)
{
    return note_site(take_any(pool, bytes, stream, out), out, __builtin_return_address(0));
}

ferry_status
ferry_pool_allocate_aligned(ferry_pool *pool, size_t bytes, size_t alignment, ferry_stream *stream,
                            ferry_block **out)
{
    if (alignment != 0 && !ferryi_is_power_of_two(alignment))
        return ferryi_fail(
            FERRY_ERROR_INVALID_ARGUMENT,
            "take %zu bytes aligned to %zu from %s: the alignment is no power of two", bytes,
            alignment, pool ? pool->name : "a pool");
    ferry_status status = alignment <= FERRYI_POOL_ALIGN
                              ? take_any(pool, bytes, stream, out)
                              : take_public(pool, bytes, alignment, stream, out);
    return note_site(status, out, __builtin_return_address(0));
}

ferry_status
ferryi_pool_take(ferry_pool *pool, size_t bytes, size_t align, ferryi_timeline *timeline,
                 ferry_block **out, void **out_pointer)
{
    assert(pool && out && out_pointer);
    assert(ferryi_is_power_of_two(align));
    ferry_block *block = __builtin_expect(align <= FERRYI_POOL_ALIGN, 1)
                             ? ferryi_cache_take(pool, bytes, timeline, pool->config.order)
                             : NULL;
    if (__builtin_expect(!block, 0)) {
        struct ferryi_pool_request request = {
            .bytes = bytes, .align = align, .timeline = timeline, .internal = true};
        ferry_status status = take_slowly(pool, &request, out);
        if (status == FERRY_OK)
            *out_pointer = ferry_block_pointer(*out);
        return note_site(status, out, __builtin_return_address(0));
    }
    *out_pointer = block->pointer;
    *out = block;
    return note_site(FERRY_OK, out, __builtin_return_address(0));
}

ferry_block *
ferryi_pool_take_cached(ferry_pool *pool, size_t bytes)
{
    ferry_block *block = ferryi_cache_take(pool, bytes, NULL, pool->config.order);
    if (block)
        (void)note_site(FERRY_OK, &block, __builtin_return_address(0));
    return block;
}

ferry_status
ferryi_pool_take_spare(ferry_pool *pool, size_t bytes, size_t align, ferryi_timeline *timeline,
                       ferry_block **out, void **out_pointer)
{
    struct ferryi_pool_request request = {
        .bytes = bytes, .align = align, .timeline = timeline, .internal = true, .spare = true};
    ferry_status status = take_slowly(pool, &request, out);
    if (status == FERRY_OK)
        *out_pointer = ferry_block_pointer(*out);
    return note_site(status, out, __builtin_return_address(0));
}
