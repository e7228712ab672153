/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PLACE_POOL_H
#define FERRYI_PLACE_POOL_H

/* Pools of a context: one for each place and kind of memory. Each pool is created when it is first
 * used. */

#include "src/pool/pool.h"
#include "src/stream/shell.h"
#include "src/transfer/engine.h"

extern const char *const ferryi_memory_kind_names[FERRYI_MEMORY_KINDS];

/* The source of a pool's memory. */
struct ferryi_place_backend {
    ferryi_device *device; /* device that allocates the memory; NULL for system memory */
    ferry_memory_kind kind;
    /* transfer engine; the backend keeps the engine's list of page-locked memory up to date */
    ferryi_engine *engine;
    ferry_context *context;
    int place;
    /* the original functions, which the tracing functions call; set only in a context that records
     * a trace */
    struct ferryi_pool_backend untraced;
    _Atomic uint64_t traced_bytes;
};

/* A pool that the program created. The program's own backend allocates its memory. */
struct ferryi_place_own_pool {
    ferry_pool *pool;
    ferry_pool_backend backend;
    struct ferryi_place_own_pool *next;
};

/* Returns the context's pool for this place and kind of memory. Creates the pool if it does not
 * exist yet. Locks the mutex of the context's pools. */
ferry_status ferryi_place_pool_make(ferry_context *context, int place, ferry_memory_kind kind,
                                    ferry_pool **out);

/* Returns the context's pool for this place and kind of memory. The first call creates it. */
static inline ferry_status
ferryi_place_pool(ferry_context *context, int place, ferry_memory_kind kind, ferry_pool **out)
{
    ferry_pool *pool = __atomic_load_n(&context->pools[place][kind], __ATOMIC_ACQUIRE);
    if (!pool)
        return ferryi_place_pool_make(context, place, kind, out);
    *out = pool;
    return FERRY_OK;
}

/* Fills in the backend and the limit of the context's pool for this place and kind of memory. */
FERRYI_REQUIRES(ferryi_pools_mutex)
ferry_status ferryi_place_backend_choose(ferry_context *context, int place, ferry_memory_kind kind,
                                         struct ferryi_pool_config *config);

/* Names the buffers that hold the most memory of the pool, and says why they keep it: open scopes,
 * a call of this thread, or a hold. */
void ferryi_holders_describe(ferry_context *context, ferry_pool *pool, char *text,
                             size_t text_bytes);

/* Sets memory of one of the context's pools, or of a pool that the program created, to zero; see
 * struct ferryi_pool_config. */
ferry_status ferryi_place_zero(const struct ferryi_pool_config *config, void *memory, size_t bytes,
                               ferryi_sync_point *point);

/* Sums of the memory and the counters of all pools of one place. */
struct ferryi_place_memory {
    /* Numbers of bytes at present. `limited` is the part of `reserved` that counts against the
     * limit of the place. Page-locked and managed memory have separate limits. `limit` is that
     * limit: the one of the pool, or that of the context if there is no pool yet; 0: none. */
    size_t live, cached, reserved, limited, limit;
    /* `hits` and `misses` since the last reset, and the other counts since the pools were created
     */
    uint64_t hits, misses, device_allocations, trims, evictions, waits, shortages;
};
void ferryi_place_pool_memory(ferry_context *context, int place, struct ferryi_place_memory *out);
/* Resets the statistics of all pools of a context, including pools that the program created. */
void ferryi_place_pools_reset_stats(ferry_context *context);
/* Destroys all pools of a context, including those that the program created but did not destroy. */
void ferryi_place_pools_close(ferry_context *context);

#endif
