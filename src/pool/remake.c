/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/pool/red_zone.h"

/*
 * Remaking: what is idle in pieces of other sizes becomes one slab, without copies. A backend with
 * granules makes every slab and large block that is a multiple of one of them, and puts the
 * granules of idle ones together anew at other addresses. So a request finds memory as long as
 * enough granules are idle, however they are scattered, and the driver is asked only for what they
 * lack.
 */

struct remaking {
    ferry_pool *pool;
    struct ferryi_slab *made;
    struct ferryi_slab **slabs;      /* whose granules it gets; out of all lists */
    struct ferryi_range_part *parts; /* the same, for the backend */
    size_t count, bytes;             /* of them */
    size_t missing;                  /* bytes that they lack */
};

FERRYI_REQUIRES(ferryi_pool_mutex)
static bool
is_part(const ferry_pool *pool, const struct ferryi_slab *slab)
{
    return slab->bytes % pool->config.backend.granule == 0 && !atomic_load(&slab->leaving) &&
           ferryi_slab_is_done(pool, slab);
}

/* Slabs longest empty whose work is done, until there are granules enough. */
FERRYI_REQUIRES(ferryi_pool_mutex)
static void
find_parts(struct remaking *remaking)
{
    ferry_pool *pool = remaking->pool;
    for (struct ferryi_link *link = pool->empties.next;
         link != &pool->empties && remaking->bytes < remaking->made->bytes; link = link->next) {
        struct ferryi_slab *slab = FERRYI_SLAB_OF(link, in_empty);
        if (!is_part(pool, slab))
            continue;
        remaking->parts[remaking->count] = (struct ferryi_range_part){slab->memory, slab->bytes};
        remaking->slabs[remaking->count++] = slab;
        remaking->bytes += slab->bytes;
    }
    remaking->missing =
        remaking->made->bytes > remaking->bytes ? remaking->made->bytes - remaking->bytes : 0;
}

/* False, and nothing changed: there is no idle slab, or the limit forbids what is missing. */
static bool
begin(struct remaking *remaking)
{
    ferry_pool *pool = remaking->pool;
    ferryi_mutex_lock(&pool->mutex);
    find_parts(remaking);
    bool begun = remaking->count > 0 && ferryi_pool_request_begin(pool, remaking->missing);
    for (size_t i = 0; begun && i < remaking->count; i++)
        ferryi_slab_detach(pool, remaking->slabs[i]);
    ferryi_mutex_unlock(&pool->mutex);
    return begun;
}

/* The parts are gone, or where they were. */
static void
end(struct remaking *remaking, bool made, void *memory, struct ferryi_pool_request *request,
    ferry_block **out)
{
    ferry_pool *pool = remaking->pool;
    ferryi_mutex_lock(&pool->mutex);
    ferryi_pool_request_end(pool, remaking->missing);
    for (size_t i = 0; i < remaking->count; i++) {
        if (!made) {
            ferryi_slab_attach(pool, remaking->slabs[i]);
            continue;
        }
        pool->reserved_bytes -= remaking->slabs[i]->bytes;
        pool->device_frees++;
        ferryi_slab_drop(pool, remaking->slabs[i]);
    }
    if (made) {
        *out = ferryi_pool_adopt(pool, remaking->made, memory, request);
        request->recycled = true;
    }
    ferryi_mutex_unlock(&pool->mutex);
    for (size_t i = 0; made && i < remaking->count; i++)
        free(remaking->slabs[i]);
}

static ferry_status
remake(struct remaking *remaking, struct ferryi_pool_request *request, ferry_block **out)
{
    const struct ferryi_pool_backend *backend = &remaking->pool->config.backend;
    void *memory;
    if (!begin(remaking))
        return FERRY_ERROR_OUT_OF_MEMORY; /* the reason was said when memory was asked for */
    for (size_t i = 0; i < remaking->count; i++)
        ferryi_red_zone_goes(remaking->pool, remaking->slabs[i]);
    ferry_status status = backend->remake(backend->user, remaking->parts, remaking->count,
                                          remaking->made->bytes, &memory);
    for (size_t i = 0; status != FERRY_OK && i < remaking->count; i++)
        ferryi_red_zone_came(remaking->pool, remaking->slabs[i]);
    end(remaking, status == FERRY_OK, memory, request, out);
    return status;
}

ferry_status
ferryi_pool_remake(ferry_pool *pool, struct ferryi_pool_request *request, ferry_block **out)
{
    size_t granule = pool->config.backend.granule, bytes = ferryi_pool_slab_bytes(request->need);
    if (granule == 0 || bytes % granule != 0)
        return FERRY_ERROR_OUT_OF_MEMORY;
    struct remaking remaking = {.pool = pool, .made = ferryi_slab_new(pool, bytes, request->need)};
    remaking.slabs = calloc(bytes / granule, sizeof(remaking.slabs[0]));
    remaking.parts = calloc(bytes / granule, sizeof(remaking.parts[0]));
    ferry_status status =
        remaking.made && remaking.slabs && remaking.parts
            ? remake(&remaking, request, out)
            : ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory to describe it");
    free(remaking.slabs);
    free(remaking.parts);
    if (status != FERRY_OK && remaking.made) {
        ferryi_mutex_lock(&pool->mutex);
        ferryi_slab_drop(pool, remaking.made);
        ferryi_mutex_unlock(&pool->mutex);
        free(remaking.made);
    }
    return status;
}
