/* SPDX-License-Identifier: MIT */
#include "src/transfer/ring.h"

#include <assert.h>
#include <stdlib.h>

#include "src/base/node.h"

void
ferryi_ring_init(struct ferryi_ring *ring, ferryi_device *device, ferryi_order *order,
                 size_t chunk_bytes, size_t chunk_count, int node)
{
    assert(chunk_bytes > 0 && chunk_count > 0);
    *ring = (struct ferryi_ring){.device = device,
                                 .order = order,
                                 .chunk_bytes = chunk_bytes,
                                 .chunk_count = chunk_count,
                                 .node = node};
    ferryi_mutex_init(&ring->mutex);
    ferryi_cond_init(&ring->given);
}

static void
chunk_destroy(struct ferryi_ring *ring, struct ferryi_chunk *chunk)
{
    ferryi_set_inherited(chunk->memory, ring->chunk_bytes, true);
    if (FERRYI_CALL(ring->device, memory_free, FERRY_MEMORY_PINNED, chunk->memory) != FERRY_OK)
        ferryi_log(ring->order->log, FERRY_LOG_ERROR, "give back a staging chunk of %zu bytes: %s",
                   ring->chunk_bytes, ferry_last_error());
    free(chunk);
}

void
ferryi_ring_clear(struct ferryi_ring *ring)
{
    ferryi_mutex_is_needless(&ring->mutex);
    while (ring->free.count > 0) {
        struct ferryi_chunk *chunk = ferryi_chain_pop(&ring->free);
        if (ferryi_chunk_wait(ring, chunk) != FERRY_OK)
            ferryi_log(ring->order->log, FERRY_LOG_ERROR,
                       "wait for a staging chunk before it is given back: %s", ferry_last_error());
        chunk_destroy(ring, chunk);
    }
    ferryi_cond_destroy(&ring->given);
    ferryi_mutex_destroy(&ring->mutex);
}

/* Allocates a chunk's memory on the ring's NUMA node, which is nearest to the device. The device's
 * copy engine accesses memory of this node fastest. Bytes of a different node cross between nodes
 * only once, when the host copies them into or out of the chunk. The driver allocates according to
 * the thread's memory policy, so the function sets this policy to the node during the call. */
static ferry_status
allocate_near(struct ferryi_ring *ring, void **out)
{
    bool near = ferryi_node_begin(ring->node);
    ferry_status status =
        FERRYI_CALL(ring->device, memory_alloc, FERRY_MEMORY_PINNED, ring->chunk_bytes, out);
    if (near)
        ferryi_node_end();
    return status;
}

static ferry_status
chunk_create(struct ferryi_ring *ring, struct ferryi_chunk **out)
{
    struct ferryi_chunk *chunk = calloc(1, sizeof(*chunk));
    if (!chunk)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "make a staging chunk: no memory for its description");
    ferry_status status = allocate_near(ring, &chunk->memory);
    if (status != FERRY_OK) {
        free(chunk);
        return ferryi_fail_in(status, "make a staging chunk of %zu bytes", ring->chunk_bytes);
    }
    /* Child processes do not inherit the chunk's memory. If they did, some Linux kernels would move
     * the parent to a new page at its next write (copy-on-write), but the device would still use
     * the old page. */
    ferryi_set_inherited(chunk->memory, ring->chunk_bytes, false);
    *out = chunk;
    return FERRY_OK;
}

/* Removes and returns the first free chunk of the ring that no queued work uses. If queued work
 * uses all free chunks, the result depends on `any`. If `any` is true, removes and returns the
 * chunk that was returned to the ring first. If `any` is false, returns NULL. */
FERRYI_REQUIRES(ferryi_ring_mutex)
static struct ferryi_chunk *
unlink_free(struct ferryi_ring *ring, bool any)
{
    struct ferryi_chunk **link = &ring->free.first;
    while (*link && !ferryi_sync_point_is_done(ring->order, (*link)->used))
        link = &(*link)->next;
    if (!*link && any)
        link = &ring->free.first;
    struct ferryi_chunk *chunk = *link;
    if (!chunk)
        return NULL;
    *link = chunk->next;
    if (!chunk->next)
        ring->free.last = link;
    chunk->next = NULL;
    ring->free.count--;
    return chunk;
}

/* Allocates one more chunk for the ring. The mutex is unlocked during the allocation. */
FERRYI_REQUIRES(ferryi_ring_mutex)
static ferry_status
grow(struct ferryi_ring *ring, struct ferryi_chunk **out)
{
    ring->made++;
    ferryi_mutex_unlock(&ring->mutex);
    ferry_status status = chunk_create(ring, out);
    ferryi_mutex_lock(&ring->mutex);
    if (status != FERRY_OK) {
        ring->made--;
        /* If the ring now has no chunks at all, no chunk will ever be returned. Wakes the threads
         * that wait for one, so that they do not wait forever. */
        ferryi_cond_broadcast(&ring->given);
    }
    return status;
}

/* Takes a free chunk of the ring, or allocates one. Queued work may still be using the chunk. */
static ferry_status
find(struct ferryi_ring *ring, bool block, struct ferryi_chunk **out)
{
    ferry_status status = FERRY_OK;
    bool may_grow = true;
    *out = NULL;
    ferryi_mutex_lock(&ring->mutex);
    for (;;) {
        may_grow = may_grow && ring->made < ring->chunk_count;
        *out = unlink_free(ring, !may_grow);
        if (!*out && may_grow) {
            status = grow(ring, out);
            may_grow = false;
            if (status == FERRY_OK)
                break;
            continue;
        }
        if (*out || !block)
            break;
        if (ring->made == 0)
            break;
        ferryi_cond_wait(&ring->given, &ring->mutex);
    }
    bool none_made = ring->made == 0;
    ferryi_mutex_unlock(&ring->mutex);
    if (*out || !none_made)
        return FERRY_OK;
    if (status != FERRY_OK)
        return status;
    return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                       "make a staging chunk of %zu bytes: no pinned memory", ring->chunk_bytes);
}

/* Returns the sync point of the last use of the middle chunk of a list. The list consists of
 * `taken`, followed by the ring's free chunks. */
static ferryi_sync_point
find_middle(struct ferryi_ring *ring, const struct ferryi_chunk *taken)
{
    ferryi_sync_point used = taken->used;
    ferryi_mutex_lock(&ring->mutex);
    const struct ferryi_chunk *chunk = ring->free.first;
    for (size_t left = (ring->free.count + 1) / 2; left > 1; left--, chunk = chunk->next)
        used = chunk->used;
    ferryi_mutex_unlock(&ring->mutex);
    return used;
}

/* Returns whether a wait for the sync point `later` also waits for the sync point `earlier`. This
 * is so if both are on the same timeline and `earlier` is not the newer one. */
static bool
covers(ferryi_sync_point later, ferryi_sync_point earlier)
{
    return ferryi_sync_point_number(later) == ferryi_sync_point_number(earlier) &&
           ferryi_sync_point_tick(later) >= ferryi_sync_point_tick(earlier);
}

/*
 * Waits until no queued work uses the chunk, which the caller has taken from the ring.
 *
 * The function first considers the last use of the chunk in the middle of the free list, which is
 * usually later than the last use of `chunk`. If `alone` is true (the caller holds no other chunk),
 * the function waits for this later use. Half of the free chunks are then unused, and the other
 * half keeps the device busy.
 *
 * In all other cases, the function only queries whether the later use is complete. If it is, half
 * of the free chunks are known to be unused, and no wait is needed. Otherwise, the function waits
 * for the last use of `chunk`.
 */
static ferry_status
wait_for_use(struct ferryi_ring *ring, struct ferryi_chunk *chunk, bool alone)
{
    ferryi_sync_point middle = find_middle(ring, chunk);
    if (alone && covers(middle, chunk->used))
        FERRYI_OR_RETURN(ferryi_sync_point_wait(ring->order, NULL, middle));
    else
        ferryi_sync_point_poll(ring->order, middle);
    return ferryi_chunk_wait(ring, chunk);
}

ferry_status
ferryi_ring_take(struct ferryi_ring *ring, bool block, struct ferryi_chunk **out)
{
    struct ferryi_chunk *chunk;
    ferry_status status = find(ring, block, &chunk);
    if (status == FERRY_OK && chunk && ferryi_sync_point_is_done(ring->order, chunk->used))
        chunk->used = 0;
    else if (status == FERRY_OK && chunk)
        status = wait_for_use(ring, chunk, block);
    if (status == FERRY_OK)
        *out = chunk;
    else if (chunk)
        ferryi_ring_give(ring, chunk);
    return status;
}

void
ferryi_ring_give(struct ferryi_ring *ring, struct ferryi_chunk *chunk)
{
    ferryi_mutex_lock(&ring->mutex);
    ferryi_chain_push(&ring->free, chunk);
    ferryi_cond_signal(&ring->given);
    ferryi_mutex_unlock(&ring->mutex);
}

ferry_status
ferryi_chunk_mark(struct ferryi_chunk *chunk, ferryi_timeline *timeline)
{
    if (!ferryi_timeline_is_numbered(timeline))
        return ferryi_timeline_note(timeline, ferryi_thread_id(), &chunk->used);
    chunk->used = ferryi_timeline_sync_point(timeline);
    ferry_status status =
        atomic_load(&timeline->internal) ? FERRY_OK : ferryi_timeline_flush(timeline);
    if (status == FERRY_OK)
        return FERRY_OK;
    FERRYI_KEEP_ERROR(why);
    (void)ferryi_chunk_settle(chunk, timeline);
    return status;
}

ferry_status
ferryi_chunk_settle(struct ferryi_chunk *chunk, ferryi_timeline *timeline)
{
    chunk->used = ferryi_timeline_is_numbered(timeline) ? ferryi_timeline_sync_point(timeline) : 0;
    ferry_status status = ferryi_timeline_synchronize(timeline);
    if (status == FERRY_OK)
        chunk->used = 0;
    return status;
}

ferry_status
ferryi_chunk_wait(struct ferryi_ring *ring, struct ferryi_chunk *chunk)
{
    ferry_status status = ferryi_sync_point_wait(ring->order, NULL, chunk->used);
    if (status == FERRY_OK)
        chunk->used = 0;
    return status;
}

void
ferryi_chain_push(struct ferryi_chain *chain, struct ferryi_chunk *chunk)
{
    if (chain->count++ == 0)
        chain->last = &chain->first;
    chunk->next = NULL;
    *chain->last = chunk;
    chain->last = &chunk->next;
}

struct ferryi_chunk *
ferryi_chain_pop(struct ferryi_chain *chain)
{
    struct ferryi_chunk *chunk = chain->first;
    assert(chunk);
    chain->first = chunk->next;
    chunk->next = NULL;
    chain->count--;
    return chunk;
}
