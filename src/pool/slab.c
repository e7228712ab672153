/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>

#include "src/pool/slab.h"

static struct ferryi_link *
retired_list(ferry_pool *pool, uint32_t list, uint32_t slots)
{
    return slots == 1 ? &pool->retired_single : &pool->classes[list].retired;
}

static struct ferryi_slab *
record_new(uint32_t slots)
{
    size_t bytes;
    if (!ferryi_mul_size(slots, sizeof(ferry_block), &bytes) || !ferryi_add_size(bytes, sizeof(struct ferryi_slab), &bytes))
        return NULL;
    struct ferryi_slab *slab = calloc(1, bytes);
    if (!slab)
        return NULL;
    ferryi_link_init(&slab->in_pool);
    ferryi_link_init(&slab->in_room);
    ferryi_link_init(&slab->in_empty);
    return slab;
}

struct ferryi_slab *
ferryi_slab_record(ferry_pool *pool, uint32_t list, size_t block_bytes, uint32_t slots)
{
    struct ferryi_slab *slab = NULL;

    ferryi_mutex_lock(&pool->mutex);
    struct ferryi_link *retired = retired_list(pool, list, slots);
    if (!ferryi_link_is_alone(retired)) {
        slab = FERRYI_SLAB_OF(retired->next, in_pool);
        ferryi_link_remove(&slab->in_pool);
    }
    ferryi_mutex_unlock(&pool->mutex);

    if (!slab)
        slab = record_new(slots);
    if (!slab)
        return NULL;
    slab->memory = NULL;
    slab->bytes = 0;
    slab->block_bytes = block_bytes;
    slab->list = list;
    slab->slots = slots;
    slab->carved = slab->live = 0;
    return slab;
}

static void
list_free(struct ferryi_link *list)
{
    while (!ferryi_link_is_alone(list)) {
        struct ferryi_slab *slab = FERRYI_SLAB_OF(list->next, in_pool);
        ferryi_link_remove(&slab->in_pool);
        free(slab);
    }
}

void
ferryi_slab_records_free(ferry_pool *pool)
{
    list_free(&pool->slabs);
    list_free(&pool->retired_single);
    for (size_t i = 0; i <= FERRYI_POOL_CLASSES; i++)
        list_free(&pool->classes[i].retired);
}

void
ferryi_slab_retire(ferry_pool *pool, struct ferryi_slab *slab)
{
    ferryi_link_remove(&slab->in_pool);
    ferryi_link_append(retired_list(pool, slab->list, slab->slots), &slab->in_pool);
}

void
ferryi_slab_attach(ferry_pool *pool, struct ferryi_slab *slab)
{
    struct ferryi_pool_class *class = &pool->classes[slab->list];

    slab->carved = slab->live = 0;
    slab->idle_since = ferryi_now_ns();
    ferryi_link_append(&pool->slabs, &slab->in_pool);
    ferryi_link_append(&pool->empties, &slab->in_empty);
    ferryi_link_append(&class->room, &slab->in_room);
    class->cached += slab->slots;
    pool->cached_bytes += slab->slots * slab->block_bytes;
}

void
ferryi_slab_detach(ferry_pool *pool, struct ferryi_slab *slab)
{
    assert(slab->live == 0);
    for (uint32_t i = 0; i < slab->carved; i++) {
        ferryi_link_remove(&slab->blocks[i].in_idle);
        slab->blocks[i].state = FERRYI_BLOCK_VOID;
    }
    slab->carved = 0;
    ferryi_link_remove(&slab->in_pool);
    ferryi_link_remove(&slab->in_room);
    ferryi_link_remove(&slab->in_empty);
    pool->classes[slab->list].cached -= slab->slots;
    pool->cached_bytes -= slab->slots * slab->block_bytes;
}

void
ferryi_slab_begin_use(struct ferryi_slab *slab)
{
    ferryi_link_remove(&slab->in_empty);
    slab->idle_since = 0;
}

ferry_block *
ferryi_slab_carve(ferry_pool *pool, struct ferryi_slab *slab)
{
    assert(slab->carved < slab->slots);
    size_t slot = slab->carved++;
    ferry_block *block = &slab->blocks[slot];

    *block = (ferry_block){
        .pointer = slab->memory ? (char *)slab->memory + slot * slab->block_bytes : NULL,
        .bytes = slab->block_bytes,
        .pool = pool,
        .list = FERRYI_POOL_NO_LIST,
        .slab = slab,
        .state = FERRYI_BLOCK_MOVING,
    };
    ferryi_link_init(&block->in_idle);
    if (slab->carved == slab->slots)
        ferryi_link_remove(&slab->in_room);
    if (slab->live++ == 0)
        ferryi_slab_begin_use(slab);
    pool->classes[slab->list].cached--;
    pool->cached_bytes -= block->bytes;
    return block;
}

bool
ferryi_slab_is_done(const ferry_pool *pool, const struct ferryi_slab *slab)
{
    if (slab->live > 0)
        return false;
    for (uint32_t i = 0; i < slab->carved; i++)
        if (!ferryi_stamp_is_done(pool->config.order, slab->blocks[i].stamp))
            return false;
    return true;
}
