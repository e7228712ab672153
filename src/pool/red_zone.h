/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_RED_ZONE_H
#define FERRYI_RED_ZONE_H

/*
 * What finds misuse of the memory of blocks: nothing in a fast build.
 *
 * A guarded build, which is a checked one or one for AddressSanitizer, writes into memory that the
 * host reaches and that no queued work uses. What is handed out is filled with 0xFF up to what was
 * asked for, then comes a red zone to the block's end. What comes back is looked at there, and
 * filled, and is looked at again when it is handed out next. An overrun, or a write after the
 * release, is logged with the block's size, its label and the call that took it. Valgrind and
 * AddressSanitizer learn which bytes may not be used: those of slabs that are in no live block, and
 * a block's red zone. So that there is a red zone always, blocks are of the class that holds some
 * bytes more than were asked for; the statistics count them by that.
 *
 * Of device memory, tools such as compute-sanitizer learn through NVTX's memory API, where its
 * headers were at hand: a slab is a heap whose bytes may not be used, and a held block is a region
 * of it, as large as was asked for. NVTX is headers only: it loads the tool that
 * NVTX_INJECTION64_PATH names, and which makes no callbacks. Without a tool each call ends at once.
 */

#include "src/pool/slab.h"

#ifdef FERRYI_POOL_GUARDED
#define FERRYI_GUARD_ZONE 64 /* bytes, at least, behind what a holder may use */

/* May the host touch the pool's memory? Else it is not guarded. */
bool ferryi_red_zone_reaches(const ferry_pool *pool);

/* What a block must have more than its holder asked for. */
FERRYI_INLINE size_t
ferryi_guard_zone(const ferry_pool *pool)
{
    return ferryi_red_zone_reaches(pool) ? FERRYI_GUARD_ZONE : 0;
}

/* Its holder may use the bytes it asked for. Just before it is handed out, without a lock. `fresh`:
 * the memory has just come from the backend. */
void ferryi_red_zone_out(const ferry_pool *pool, ferry_block *block, bool fresh);
/* Look at a live block that is about to come back, without a lock; as often as one likes. */
void ferryi_red_zone_check(const ferry_pool *pool, ferry_block *block);
/* It may not be used any more. Where a live block becomes idle; `point` is its last use. */
void ferryi_red_zone_in(const ferry_pool *pool, ferry_block *block, ferryi_sync_point point);
/* It is to be one with its neighbours. */
void ferryi_red_zone_join(const ferry_pool *pool, ferry_block *block);
/* A slab's memory came from the backend, and goes back; then nothing of it is in use. */
void ferryi_red_zone_came(const ferry_pool *pool, struct ferryi_slab *slab);
void ferryi_red_zone_goes(const ferry_pool *pool, struct ferryi_slab *slab);

#else
#define ferryi_guard_zone(pool)                 ((void)(pool), (size_t)0)
#define ferryi_red_zone_out(pool, block, fresh) ((void)(pool), (void)(block), (void)(fresh))
#define ferryi_red_zone_check(pool, block)      ((void)(pool), (void)(block))
#define ferryi_red_zone_in(pool, block, point)  ((void)(pool), (void)(block), (void)(point))
#define ferryi_red_zone_join(pool, block)       ((void)(pool), (void)(block))
#define ferryi_red_zone_came(pool, slab)        ((void)(pool), (void)(slab))
#define ferryi_red_zone_goes(pool, slab)        ((void)(pool), (void)(slab))
#endif

#endif
