/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>

#include "src/pool/magazine.h"

/*
 * The range of a pool whose backend has ranges: one slab for all large blocks. Small blocks have
 * slabs as in every pool, so that they do not keep handles between large ones. The range's
 * addresses are reserved when the pool is created, several times as many as the device has memory,
 * and get memory in handles of one size. Addresses without memory are holes of the chain of blocks.
 * The last hole is the end of the range, where it grows.
 *
 * A handle whose memory is wholly idle can be unmapped wherever it is, and another one mapped where
 * a block needs it. So a request fails only if the idle memory that can be unmapped and the memory
 * that is free are together too little for it.
 *
 * A block that becomes a hole, or a hole that becomes a block, is MOVING while the backend is
 * called, without the mutex.
 */

/* -- holes ------------------------------------------------------------------------------------- */

/* Makes a block that is not in a bin a hole, and merges it with adjacent holes. Returns the hole.
 */
FERRYI_POOL_LOCKED static ferry_block *
add_hole(ferry_pool *pool, ferry_block *block)
{
    struct ferryi_link *link = &pool->holes;
    block->state = FERRYI_BLOCK_HOLE;
    block->point = 0;
    if (block->after && block->after->state == FERRYI_BLOCK_HOLE) {
        ferryi_link_remove(&block->after->in_bin);
        ferryi_block_join(pool, block, block->after);
    }
    if (block->before && block->before->state == FERRYI_BLOCK_HOLE) {
        ferry_block *before = block->before;
        ferryi_block_join(pool, before, block);
        return before;
    }
    while (link->prev != &pool->holes &&
           (char *)FERRYI_BLOCK_OF(link->prev)->pointer > (char *)block->pointer)
        link = link->prev;
    ferryi_link_append(link, &block->in_bin);
    return block;
}

/* Takes the first `bytes` bytes of a hole. Returns them as a block that is MOVING. */
FERRYI_POOL_LOCKED static ferry_block *
take_hole(ferry_pool *pool, ferry_block *hole, size_t bytes)
{
    ferryi_link_remove(&hole->in_bin);
    hole->state = FERRYI_BLOCK_MOVING;
    if (hole->bytes > bytes)
        add_hole(pool, ferryi_block_cut(pool, hole, bytes));
    return hole;
}

/* -- opening and closing ----------------------------------------------------------------------- */

ferry_status
ferryi_range_open(ferry_pool *pool)
{
    const struct ferryi_pool_backend *backend = &pool->config.backend;
    void *memory = NULL;
    if (!backend->range_map)
        return FERRY_OK;
    assert(backend->range_bytes % backend->handle_bytes == 0);
    struct ferryi_slab *slab = ferryi_slab_new(pool, backend->range_bytes, FERRYI_POOL_SLAB_BLOCK);
    void **handles = calloc(backend->range_bytes / backend->handle_bytes, sizeof(*handles));
    ferry_status status = slab && handles
                              ? backend->range_reserve(backend->user, slab->bytes, &memory)
                              : ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory");
    ferryi_mutex_lock(&pool->mutex);
    if (status == FERRY_OK) {
        ferryi_block_join(pool, slab->first, slab->first->after);
        slab->memory = slab->first->pointer = memory;
        add_hole(pool, slab->first);
        ferryi_link_append(&pool->slabs, &slab->in_pool);
        pool->range = slab;
        pool->handles = handles;
        ferryi_memory_checker_add_slab(pool, slab);
    } else {
        if (slab)
            ferryi_slab_drop(pool, slab);
        free(handles);
    }
    ferryi_mutex_unlock(&pool->mutex);
    return status;
}

/* Returns the part of the range at an address, as a pointer to the handle of the part. */
static void **
handle_at(const ferry_pool *pool, const void *memory)
{
    return &pool->handles[(size_t)((const char *)memory - (char *)pool->range->memory) /
                          pool->config.backend.handle_bytes];
}

/* Unmaps the handle at an address. */
static ferry_status
unmap(const ferry_pool *pool, char *memory)
{
    const struct ferryi_pool_backend *backend = &pool->config.backend;
    void **handle = handle_at(pool, memory);
    ferryi_memory_checker_remove_handle(pool, memory, backend->handle_bytes);
    ferry_status status =
        backend->range_unmap(backend->user, memory, backend->handle_bytes, *handle);
    if (status == FERRY_OK)
        *handle = NULL;
    return status;
}

size_t
ferryi_range_close(ferry_pool *pool)
{
    const struct ferryi_pool_backend *backend = &pool->config.backend;
    struct ferryi_slab *slab = pool->range;
    size_t lost = 0;
    if (!slab)
        return 0;
    ferryi_memory_checker_remove_slab(pool, slab);
    for (size_t at = 0; at < slab->bytes; at += backend->handle_bytes)
        if (*handle_at(pool, (char *)slab->memory + at) &&
            unmap(pool, (char *)slab->memory + at) != FERRY_OK)
            lost += backend->handle_bytes;
    if (lost == 0 && backend->range_release(backend->user, slab->memory, slab->bytes) != FERRY_OK)
        ferryi_log(pool->config.log, FERRY_LOG_ERROR, "destroy the pool of %s: %s", pool->name,
                   ferry_last_error());
    ferryi_mutex_lock(&pool->mutex);
    ferryi_link_remove(&slab->in_pool);
    ferryi_mutex_unlock(&pool->mutex);
    free(pool->handles);
    free(slab);
    pool->range = NULL;
    return lost;
}

/* -- growing ----------------------------------------------------------------------------------- */

/* Where the range grows: the hole, the bytes that it gets, and the idle bytes before it that become
 * a part of the block. */
struct place {
    ferry_block *hole;
    size_t mapped, head;
};

/* Finds the hole where a block of `bytes` bytes needs the fewest handles, and of several the one at
 * the lowest address. Returns false if there is none. */
FERRYI_POOL_LOCKED static bool
find_place(const ferry_pool *pool, size_t bytes, size_t align, struct place *out)
{
    const size_t step = pool->config.backend.handle_bytes;
    *out = (struct place){.mapped = SIZE_MAX};
    for (struct ferryi_link *link = pool->holes.next; link != &pool->holes; link = link->next) {
        ferry_block *hole = FERRYI_BLOCK_OF(link), *before = hole->before;
        size_t head = 0, mapped;
        if (ferryi_block_is_unused(pool, before) && before->bytes > ferryi_block_gap(before, align))
            head = before->bytes - ferryi_block_gap(before, align);
        size_t missing = bytes > head ? bytes - head : 1;
        mapped = missing <= SIZE_MAX - step ? (missing + step - 1) / step * step : SIZE_MAX;
        if (mapped <= hole->bytes && mapped < out->mapped)
            *out = (struct place){.hole = hole, .mapped = mapped, .head = head};
    }
    return out->hole != NULL;
}

/* Takes the hole's first bytes and the idle bytes before it, which become one block that is
 * MOVING. */
FERRYI_POOL_LOCKED static ferry_block *
take_place(ferry_pool *pool, const struct place *place)
{
    ferry_block *block = take_hole(pool, place->hole, place->mapped), *before = block->before;
    if (place->head == 0)
        return block;
    ferryi_bin_remove(pool, before);
    if (before->bytes > place->head) {
        ferry_block *gap = before;
        before = ferryi_block_cut(pool, gap, gap->bytes - place->head);
        ferryi_bin_add(pool, gap);
    }
    before->state = FERRYI_BLOCK_MOVING;
    before->point = 0;
    ferryi_block_join(pool, before, block);
    return before;
}

/* Maps handles from an address on. Returns the number of bytes that were mapped before one
 * failed. */
static size_t
map_handles(const ferry_pool *pool, char *memory, size_t bytes, ferry_status *out_status)
{
    const struct ferryi_pool_backend *backend = &pool->config.backend;
    size_t mapped = 0;
    *out_status = FERRY_OK;
    while (mapped < bytes) {
        char *at = memory + mapped;
        ferryi_memory_checker_remove_handle(pool, at, backend->handle_bytes);
        *out_status =
            backend->range_map(backend->user, at, backend->handle_bytes, handle_at(pool, at));
        if (*out_status != FERRY_OK)
            break;
        ferryi_memory_checker_add_handle(pool, at, backend->handle_bytes);
        mapped += backend->handle_bytes;
    }
    return mapped;
}

/* Counts the handles that were mapped for the end of a MOVING block. If they are fewer than the
 * place has, the rest becomes a hole again, and the block idle. Returns whether they are all. */
FERRYI_POOL_LOCKED static bool
settle_growth(ferry_pool *pool, ferry_block *block, const struct place *place, size_t mapped)
{
    size_t step = pool->config.backend.handle_bytes;
    block->idle_since = ferryi_now_ns();
    pool->cached_bytes += mapped;
    ferryi_pool_count_growth(pool, mapped, mapped / step);
    if (mapped == place->mapped)
        return true;
    if (place->head + mapped > 0) {
        add_hole(pool, ferryi_block_cut(pool, block, place->head + mapped));
        ferryi_block_merge(pool, block);
    } else {
        add_hole(pool, block);
    }
    return false;
}

/* Maps the handles of a place. Called with the mutex, which is unlocked meanwhile; two descriptors
 * are kept for the cuts that follow. Returns the place's memory as a block that is MOVING, or NULL
 * if the backend failed. Handles that were mapped before stay in the pool as idle memory then. */
FERRYI_POOL_LOCKED static ferry_block *
map_place(ferry_pool *pool, const struct place *place, ferry_status *out_status)
{
    ferry_block *block = take_place(pool, place), *kept = pool->spares;
    char *memory = (char *)block->pointer + place->head;
    pool->spares = kept->after->after;
    pool->requesting_bytes += place->mapped;
    pool->backend_calls++;
    ferryi_mutex_unlock(&pool->mutex);
    size_t mapped = map_handles(pool, memory, place->mapped, out_status);
    ferryi_mutex_lock(&pool->mutex);
    kept->after->after = pool->spares;
    pool->spares = kept;
    pool->requesting_bytes -= place->mapped;
    pool->backend_calls--;
    ferryi_cond_broadcast(&pool->settled);
    return settle_growth(pool, block, place, mapped) ? block : NULL;
}

ferry_status
ferryi_range_grow(ferry_pool *pool, struct ferryi_pool_request *request, size_t bytes,
                  ferry_block **out)
{
    struct place place;
    ferry_status status = FERRY_ERROR_OUT_OF_MEMORY;
    size_t wanted = ferryi_min_size(request->need, bytes);
    if (!ferryi_pool_lock_stocked(pool))
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory to describe it");
    bool found = find_place(pool, wanted, request->block_align, &place);
    bool within = found && ferryi_pool_is_within_limit(pool, place.mapped);
    const char *limit_name = pool->limit_name;
    ferry_block *block = within ? map_place(pool, &place, &status) : NULL;
    if (block) {
        if (block->bytes > wanted)
            ferryi_block_merge(pool, ferryi_block_cut(pool, block, wanted));
        ferryi_block_begin_use(pool, block);
        ferryi_block_commit(pool, block, request, false);
        ferryi_pool_raise_peak(pool);
        *out = block;
    }
    ferryi_mutex_unlock(&pool->mutex);
    if (!found)
        return ferryi_fail(status, "its range of %zu bytes of addresses has no room for it",
                           pool->range->bytes);
    return within ? status
                  : ferryi_fail(status, "the limit %s is reached",
                                limit_name ? limit_name : "of the pool");
}

/* -- growing in place -------------------------------------------------------------------------- */

/* Finds out what is behind a live block. Returns whether `missing` bytes can be added to it: idle
 * bytes, of which the place's head are all, and handles for the rest. */
FERRYI_POOL_LOCKED static bool
find_extra(const ferry_pool *pool, const ferry_block *block, size_t missing, struct place *out)
{
    const size_t step = pool->config.backend.handle_bytes;
    ferry_block *after = block->after;
    *out = (struct place){.hole = after};
    if (ferryi_block_is_unused(pool, after))
        *out = (struct place){.hole = after->after, .head = after->bytes};
    if (missing <= out->head)
        return true;
    if (!out->hole || out->hole->state != FERRYI_BLOCK_HOLE ||
        missing - out->head > out->hole->bytes)
        return false;
    out->mapped = (missing - out->head + step - 1) / step * step; /* at most the whole hole */
    return ferryi_pool_is_within_limit(pool, out->mapped);
}

/* Returns the block's new descriptor after `missing` bytes behind it became a part of it, or NULL.
 */
FERRYI_POOL_LOCKED static ferry_block *
lengthen(ferry_pool *pool, ferry_block *block, size_t missing, size_t requested)
{
    struct place place = {0};
    ferry_status status;
    ferry_block *extra = NULL;
    if (missing > 0 && !find_extra(pool, block, missing, &place))
        return NULL;
    if (place.mapped > 0) {
        extra = map_place(pool, &place, &status);
    } else if (missing > 0) {
        extra = block->after;
        ferryi_bin_remove(pool, extra);
        extra->state = FERRYI_BLOCK_MOVING;
    }
    if (missing > 0 && !extra)
        return NULL;
    if (extra && extra->bytes > missing)
        ferryi_block_merge(pool, ferryi_block_cut(pool, extra, missing));
    return ferryi_block_replace(pool, block, extra, requested);
}

/* In a pool that a memory checker watches, no block becomes longer: the checker would forget which
 * of its bytes were written. */
ferry_block *
ferryi_block_extend(ferry_block *block, size_t bytes)
{
    ferry_pool *pool = block->pool;
    size_t gap = ferryi_block_gap(block, (size_t)1 << block->align_log2), end;
    uint32_t list;
    if (!pool->range || block->slab != pool->range)
        return NULL;
    if (block->requested >= bytes)
        return block;
    if (pool->has_checker || !ferryi_add_size(gap, ferryi_pool_class_bytes(bytes, &list), &end) ||
        end - gap < bytes || !ferryi_pool_lock_stocked(pool))
        return NULL;
    ferry_block *longer = lengthen(pool, block, end > block->bytes ? end - block->bytes : 0, bytes);
    ferryi_mutex_unlock(&pool->mutex);
    ferryi_allocation_log *log = pool->config.allocation_log;
    if (longer && log) {
        ferryi_allocation_log_write(log, FERRYI_ALLOCATION_GIVE, ferry_block_pointer(block),
                                    block->requested, 0);
        ferryi_allocation_log_write(log, FERRYI_ALLOCATION_TAKE, ferry_block_pointer(longer), bytes,
                                    0);
    }
    return longer;
}

/* -- giving back ------------------------------------------------------------------------------- */

/* Cuts the last whole handle of an idle block out of it. Returns it as a block that is MOVING, or
 * NULL if the block has none. */
FERRYI_POOL_LOCKED static ferry_block *
take_handle(ferry_pool *pool, ferry_block *block)
{
    const size_t step = pool->config.backend.handle_bytes;
    size_t begin = (size_t)((char *)block->pointer - (char *)pool->range->memory),
           end = begin + block->bytes, last = end / step * step;
    if (last < begin + step)
        return NULL;
    ferryi_bin_remove(pool, block);
    if (end > last)
        ferryi_bin_add(pool, ferryi_block_cut(pool, block, last - begin));
    ferry_block *handle = block;
    if (last - begin > step) {
        handle = ferryi_block_cut(pool, block, last - begin - step);
        ferryi_bin_add(pool, block);
    }
    handle->state = FERRYI_BLOCK_MOVING;
    return handle;
}

/* Unmaps a MOVING block of one handle, which becomes a hole. If the backend fails, the block
 * becomes idle again. Called with the mutex, which is unlocked meanwhile. Returns the block or the
 * larger one of which it became a part. */
FERRYI_POOL_LOCKED static ferry_block *
unmap_block(ferry_pool *pool, ferry_block *block, ferry_status *out_status)
{
    const size_t bytes = block->bytes;
    pool->backend_calls++;
    ferryi_mutex_unlock(&pool->mutex);
    *out_status = unmap(pool, block->pointer);
    ferryi_mutex_lock(&pool->mutex);
    pool->backend_calls--;
    ferryi_cond_broadcast(&pool->settled);
    if (*out_status != FERRY_OK)
        return ferryi_block_merge(pool, block);
    pool->reserved_bytes -= bytes;
    pool->cached_bytes -= bytes;
    pool->counters.device_frees++;
    return add_hole(pool, block);
}

size_t
ferryi_range_give_back(ferry_pool *pool, size_t keep_bytes, size_t want_bytes, uint64_t until_ns,
                       uint64_t *out_slabs, ferry_status *out_status)
{
    const size_t step = pool->config.backend.handle_bytes;
    size_t given = 0;
    *out_status = FERRY_OK;
    if (!ferryi_pool_lock_stocked(pool))
        return 0;
    ferryi_pool_merge(pool); /* two idle blocks may share a handle */
    ferry_block *block = pool->range->first;
    while (block->after)
        block = block->after;
    /* A handle in the middle of a block needs two descriptors. */
    for (; block && given < want_bytes && pool->cached_bytes > keep_bytes && pool->spares &&
           pool->spares->after;
         block = block->before) {
        bool may = ferryi_block_is_unused(pool, block) && block->idle_since <= until_ns;
        ferry_block *handle = may ? take_handle(pool, block) : NULL;
        if (!handle)
            continue;
        block = unmap_block(pool, handle, out_status);
        if (*out_status != FERRY_OK)
            break;
        given += step;
        if (out_slabs)
            ++*out_slabs;
    }
    ferryi_mutex_unlock(&pool->mutex);
    return given;
}
