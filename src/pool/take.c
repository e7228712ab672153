/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <string.h>

#include "src/device/stream.h"
#include "src/pool/magazine.h"

#define PASSES 100 /* up the ladder of a take that finds no memory, while memory comes and goes */

/* -- from idle memory ------------------------------------------------------------------------------ */

/* Let the lane wait for a moving block's last use. A use that cannot be waited for now, on a stream being captured, is no failure: the block stays idle. */
static ferry_status
order_block(ferry_pool *pool, const struct ferryi_pool_request *request, ferry_block *block, ferry_block **out)
{
    ferry_status status = ferryi_stamp_wait(pool->config.order, request->lane, block->stamp);

    ferryi_mutex_lock(&pool->mutex);
    if (status == FERRY_OK) {
        pool->waits++;
        ferryi_block_commit(pool, block, request, true);
        *out = block;
    } else {
        ferryi_block_put(pool, block, block->stamp, ferryi_now_ns());
    }
    ferryi_mutex_unlock(&pool->mutex);
    return status == FERRY_ERROR_UNSUPPORTED ? FERRY_OK : status;
}

/* From idle memory; *out stays NULL when there is none. */
static ferry_status
reuse(ferry_pool *pool, struct ferryi_pool_request *request, ferry_block **out)
{
    bool ordered = true;
    ferryi_mutex_lock(&pool->mutex);
    ferry_block *block = ferryi_pool_find(pool, request, &ordered);
    if (block && ordered)
        ferryi_block_commit(pool, block, request, true);
    ferryi_mutex_unlock(&pool->mutex);

    if (block && !ordered)
        return order_block(pool, request, block, out);
    *out = block;
    return FERRY_OK;
}

static ferry_status
reuse_or_ask(ferry_pool *pool, struct ferryi_pool_request *request, ferry_block **out)
{
    ferry_status status = reuse(pool, request, out);
    if (status == FERRY_OK && !*out && !request->lane && ferryi_pool_ask_oldest(pool, request->list))
        status = reuse(pool, request, out);
    return status;
}

/* -- from the backend ------------------------------------------------------------------------------ */

/* Count `bytes` as being allocated, within the limit. */
static bool
request_begin(ferry_pool *pool, size_t bytes)
{
    size_t limit = pool->config.limit_bytes;
    ferryi_mutex_lock(&pool->mutex);
    bool within = limit == 0 || (bytes <= limit && pool->reserved_bytes + pool->requesting_bytes <= limit - bytes);
    if (within) {
        pool->requesting_bytes += bytes;
        pool->backend_calls++;
    }
    ferryi_mutex_unlock(&pool->mutex);
    return within;
}

static void
request_end(ferry_pool *pool, size_t bytes)
{
    pool->requesting_bytes -= bytes;
    pool->backend_calls--;
    ferryi_cond_broadcast(&pool->settled);
}

/* Memory of the backend becomes a slab, and its first slot the taken block. Under the mutex. */
static ferry_block *
adopt(ferry_pool *pool, struct ferryi_slab *slab, const struct ferryi_pool_request *request)
{
    pool->reserved_bytes += slab->bytes;
    pool->peak_reserved_bytes = ferryi_max_size(pool->peak_reserved_bytes, pool->reserved_bytes);
    pool->device_allocations++;
    ferryi_slab_attach(pool, slab);
    ferry_block *block = ferryi_slab_carve(pool, slab);
    ferryi_block_commit(pool, block, request, false);
    return block;
}

/* From the backend: a whole slab, or with `single` only the block. */
static ferry_status
grow(ferry_pool *pool, struct ferryi_pool_request *request, bool single, ferry_block **out)
{
    const struct ferryi_pool_backend *backend = &pool->config.backend;
    size_t bytes = request->need;
    uint32_t slots = 1;
    if (!single)
        ferryi_pool_slab_layout(request->need, &bytes, &slots);

    struct ferryi_slab *slab = ferryi_slab_record(pool, request->list, request->need, slots);
    if (!slab)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory to describe it");
    bool begun = request_begin(pool, bytes);
    ferry_status status = begun ? backend->alloc(backend->user, bytes, &slab->memory)
                                : ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "the pool's limit is reached");

    ferryi_mutex_lock(&pool->mutex);
    if (begun)
        request_end(pool, bytes);
    if (status == FERRY_OK) {
        assert(((uintptr_t)slab->memory & (backend->align - 1)) == 0);
        slab->bytes = bytes;
        request->recycled = false;
        *out = adopt(pool, slab, request);
    } else {
        ferryi_slab_retire(pool, slab);
    }
    ferryi_mutex_unlock(&pool->mutex);
    return status;
}

/* -- out of memory: a ladder of what may win some; each step says whether another try is worth it -- */

static bool
step_settle(ferry_pool *pool, const struct ferryi_pool_request *request)
{
    (void)request;
    ferryi_magazines_empty(pool);
    ferryi_pool_settle(pool);
    return true;
}

static bool
step_trim_enough(ferry_pool *pool, const struct ferryi_pool_request *request)
{
    size_t bytes;
    uint32_t slots;
    ferryi_pool_slab_layout(request->need, &bytes, &slots);
    ferryi_pool_ask_pending(pool);
    return ferryi_pool_give_back(pool, 0, bytes, UINT64_MAX) > 0;
}

static bool
step_trim_all(ferry_pool *pool, const struct ferryi_pool_request *request)
{
    (void)request;
    ferryi_magazines_empty(pool);
    return ferryi_pool_give_back(pool, 0, SIZE_MAX, UINT64_MAX) > 0;
}

static bool
step_wait(ferry_pool *pool, const struct ferryi_pool_request *request)
{
    (void)request;
    return ferryi_pool_wait_pending(pool);
}

static bool
step_single(ferry_pool *pool, const struct ferryi_pool_request *request)
{
    (void)pool;
    return request->need <= FERRYI_POOL_SLAB_BLOCK;
}

static const struct {
    bool (*step)(ferry_pool *pool, const struct ferryi_pool_request *request);
    bool single;
    enum ferryi_rung rung;
} ladder[] = {
    {step_settle, false, FERRYI_RUNG_REUSE},  {step_trim_enough, false, FERRYI_RUNG_TRIM}, {step_trim_all, false, FERRYI_RUNG_TRIM},
    {step_single, true, FERRYI_RUNG_TRIM},    {step_wait, false, FERRYI_RUNG_WAIT},        {step_trim_all, false, FERRYI_RUNG_WAIT},
    {step_single, true, FERRYI_RUNG_WAIT},
};

/* *out_rung is the one that helped, when one did. */
static ferry_status
climb(ferry_pool *pool, struct ferryi_pool_request *request, ferry_block **out, enum ferryi_rung *out_rung)
{
    ferry_status status = FERRY_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; status == FERRY_ERROR_OUT_OF_MEMORY && i < sizeof(ladder) / sizeof(ladder[0]); i++) {
        if (!ladder[i].step(pool, request))
            continue;
        *out_rung = ladder[i].rung;
        status = reuse(pool, request, out);
        if (status == FERRY_OK && !*out)
            status = grow(pool, request, ladder[i].single, out);
    }
    return status;
}

/* Has memory come or gone since `*seen`, or is it on its way? */
static bool
has_moved(ferry_pool *pool, uint64_t *seen)
{
    ferryi_mutex_lock(&pool->mutex);
    uint64_t now = pool->device_allocations + pool->device_frees;
    bool moved = now != *seen || pool->backend_calls > 0;
    ferryi_mutex_unlock(&pool->mutex);
    *seen = now;
    return moved;
}

/* While other threads give back and take, a failed try proves nothing. */
static ferry_status
climb_again(ferry_pool *pool, struct ferryi_pool_request *request, ferry_block **out, enum ferryi_rung *out_rung)
{
    uint64_t seen = 0;
    ferry_status status = FERRY_ERROR_OUT_OF_MEMORY;
    has_moved(pool, &seen);
    for (int pass = 0; status == FERRY_ERROR_OUT_OF_MEMORY && pass < PASSES; pass++) {
        status = climb(pool, request, out, out_rung);
        if (!has_moved(pool, &seen))
            break;
    }
    return status;
}

/* The last rung: the program makes room itself. */
static bool
ask_program(ferry_pool *pool, const struct ferryi_pool_request *request)
{
    ferryi_mutex_lock(&pool->mutex);
    ferry_pool_shortage *callback = pool->on_shortage;
    void *user = pool->on_shortage_user;
    ferryi_mutex_unlock(&pool->mutex);
    return callback && callback(pool, request->need, user);
}

static ferry_status
overcome_shortage(ferry_pool *pool, struct ferryi_pool_request *request, ferry_block **out)
{
    enum ferryi_rung rung = FERRYI_RUNG_REUSE, last;
    ferry_status status = climb_again(pool, request, out, &rung);
    for (int pass = 0; status == FERRY_ERROR_OUT_OF_MEMORY && pass < PASSES && ask_program(pool, request); pass++) {
        rung = FERRYI_RUNG_CALLBACK;
        status = climb_again(pool, request, out, &last);
    }

    ferryi_mutex_lock(&pool->mutex);
    pool->shortages++;
    pool->saved[rung] += status == FERRY_OK;
    ferryi_mutex_unlock(&pool->mutex);
    return status;
}

static ferry_status
obtain(ferry_pool *pool, struct ferryi_pool_request *request, ferry_block **out)
{
    ferry_status status = reuse_or_ask(pool, request, out);
    if (status == FERRY_OK && !*out && ferryi_magazines_gather(pool, request->list))
        status = reuse_or_ask(pool, request, out);
    if (status == FERRY_OK && !*out)
        status = grow(pool, request, false, out);
    return status == FERRY_ERROR_OUT_OF_MEMORY ? overcome_shortage(pool, request, out) : status;
}

ferry_status
ferry_pool_on_shortage(ferry_pool *pool, ferry_pool_shortage *callback, void *user)
{
    if (!pool)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "set what a pool calls when it runs short: pool is NULL");
    ferryi_mutex_lock(&pool->mutex);
    pool->on_shortage = callback;
    pool->on_shortage_user = user;
    ferryi_mutex_unlock(&pool->mutex);
    return FERRY_OK;
}

/* -- the take -------------------------------------------------------------------------------------- */

/* A block of zero bytes: a descriptor and no memory. */
static ferry_status
take_nothing(ferry_pool *pool, struct ferryi_pool_request *request, ferry_block **out)
{
    struct ferryi_slab *slab = ferryi_slab_record(pool, FERRYI_POOL_CLASSES, 0, 1);
    if (!slab)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory to describe it");
    ferryi_mutex_lock(&pool->mutex);
    ferryi_slab_attach(pool, slab);
    *out = ferryi_slab_carve(pool, slab);
    ferryi_block_commit(pool, *out, request, true);
    ferryi_mutex_unlock(&pool->mutex);
    return FERRY_OK;
}

/* Count a take that failed, and put what it was for and what there is before the reason. */
static ferry_status
take_failed(ferry_pool *pool, const struct ferryi_pool_request *request, ferry_status status)
{
    ferryi_mutex_lock(&pool->mutex);
    pool->failed_takes++;
    size_t limit = pool->config.limit_bytes, reserved = pool->reserved_bytes;
    size_t cached = pool->cached_bytes, largest = ferryi_pool_largest_free(pool);
    ferryi_mutex_unlock(&pool->mutex);

    if (status != FERRY_ERROR_OUT_OF_MEMORY)
        return ferryi_fail_in(status, "take %zu bytes from %s", request->bytes, pool->name);
    return ferryi_fail_in(status, "take %zu bytes from %s: requested %zu, free %zu, total %zu, cached %zu, largest free %zu bytes",
                          request->bytes, pool->name, request->bytes, limit > reserved ? limit - reserved : 0, limit, cached, largest);
}

#ifdef FERRYI_DEBUG_CHECKS
/* What the last holder left must not look like zeros or like data. Memory that queued work still uses is left alone. */
static void
scribble(const ferry_pool *pool, const ferry_block *block)
{
    ferry_memory_kind kind = pool->config.kind;
    bool reachable = kind == FERRY_MEMORY_DEFAULT ? pool->config.place == FERRY_PLACE_HOST : kind != FERRY_MEMORY_DEVICE;
    if (reachable && ferryi_stamp_is_done(pool->config.order, block->stamp))
        memset(block->pointer, 0xFF, block->bytes);
}
#endif

/* A planned request: from the depot or the thread's magazines, else from wherever there is memory. */
static ferry_status
take_planned(ferry_pool *pool, struct ferryi_pool_request *request, ferry_block **out)
{
    if (request->list < FERRYI_POOL_CLASSES && !request->padded) {
        *out = ferryi_cache_take_slowly(pool, request);
        request->recycled = true;
    }
    return *out ? FERRY_OK : obtain(pool, request, out);
}

FERRYI_COLD static ferry_status
take_slowly(ferry_pool *pool, size_t bytes, size_t align, ferryi_lane *lane, ferry_block **out, void **out_pointer)
{
    struct ferryi_pool_request request = {.bytes = bytes, .align = align, .lane = lane};
    ferry_block *block = NULL;
    ferry_status status;

    if (bytes == 0)
        status = take_nothing(pool, &request, &block);
    else if (!ferryi_pool_request_plan(&request, pool->config.backend.align))
        status = ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "the size does not fit size_t");
    else
        status = take_planned(pool, &request, &block);
    if (status != FERRY_OK)
        return take_failed(pool, &request, status);

#ifdef FERRYI_DEBUG_CHECKS
    if (request.recycled)
        scribble(pool, block);
#endif
    *out = block;
    *out_pointer = (void *)(((uintptr_t)block->pointer + align - 1) & ~(uintptr_t)(align - 1));
    return FERRY_OK;
}

/* Where the thread has no block at hand, or the arguments are wrong. */
FERRYI_COLD static ferry_status
take_public(ferry_pool *pool, size_t bytes, ferry_stream *stream, ferry_block **out)
{
    void *pointer;
    if (!pool || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "take %zu bytes from a pool: %s is NULL", bytes, pool ? "out" : "pool");
    ferry_status status = ferryi_pool_check_stream(pool, stream, "take memory from");
    if (status != FERRY_OK)
        return status;
    return take_slowly(pool, bytes, FERRYI_POOL_ALIGN, stream ? ferryi_stream_lane(stream) : NULL, out, &pointer);
}

static inline ferry_status
hand_over(const ferry_pool *pool, ferry_block *block, ferry_block **out)
{
    (void)pool;
#ifdef FERRYI_DEBUG_CHECKS
    scribble(pool, block);
#endif
    *out = block;
    return FERRY_OK;
}

/* Apart, so that the host's hits need not make room for what only streams do. */
static __attribute__((noinline)) ferry_status
take_on_stream(ferry_pool *pool, size_t bytes, ferry_stream *stream, ferry_block **out)
{
    bool good = pool && out && ferryi_stream_context(stream) == pool->config.context;
    ferry_block *block = good ? ferryi_cache_take(pool, bytes, ferryi_stream_lane(stream), pool->config.order) : NULL;
    if (__builtin_expect(!block, 0))
        return take_public(pool, bytes, stream, out);
    return hand_over(pool, block, out);
}

/* A block whose last use is perhaps done by now. */
static __attribute__((noinline)) ferry_status
take_without_stream(ferry_pool *pool, size_t bytes, ferry_block **out)
{
    ferry_block *block = pool && out && pool->config.order ? ferryi_cache_take(pool, bytes, NULL, pool->config.order) : NULL;
    if (!block)
        return take_public(pool, bytes, NULL, out);
    return hand_over(pool, block, out);
}

ferry_status
ferry_pool_take(ferry_pool *pool, size_t bytes, ferry_stream *stream, ferry_block **out)
{
    if (stream)
        return take_on_stream(pool, bytes, stream, out);
    ferry_block *block = __builtin_expect(pool && out, 1) ? ferryi_cache_take(pool, bytes, NULL, NULL) : NULL;
    if (__builtin_expect(!block, 0))
        return take_without_stream(pool, bytes, out);
    return hand_over(pool, block, out);
}

ferry_status
ferryi_pool_take(ferry_pool *pool, size_t bytes, size_t align, ferryi_lane *lane, ferry_block **out, void **out_pointer)
{
    assert(pool && out && out_pointer);
    assert(ferryi_is_power_of_two(align) && align <= FERRYI_POOL_SLAB);
    ferry_block *block = __builtin_expect(align <= FERRYI_POOL_ALIGN, 1) ? ferryi_cache_take(pool, bytes, lane, pool->config.order) : NULL;
    if (__builtin_expect(!block, 0))
        return take_slowly(pool, bytes, align, lane, out, out_pointer);
    *out_pointer = block->pointer;
    return hand_over(pool, block, out);
}
