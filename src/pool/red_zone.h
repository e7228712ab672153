/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_RED_ZONE_H
#define FERRYI_RED_ZONE_H

/*
 * Red zones detect misuse of the memory of blocks. In a fast build these functions do nothing.
 *
 * A guarded build is a checked build, or one with AddressSanitizer. It writes patterns into memory
 * that the host can access and that no queued work uses. The requested bytes of a recycled block
 * are set to 0xFF before it is handed out; the rest, to the block's end, is the red zone. At
 * release the red zone is checked and the block is filled with a pattern, which is checked when the
 * block is handed out again. An overrun, or a write after the release, is logged with the block's
 * size, its label and the call that took it. Valgrind and AddressSanitizer are notified of the
 * bytes that must not be used: those of slabs that are in no live block, and a block's red zone.
 * The class of a block has room for FERRYI_GUARD_ZONE bytes more than were requested; the
 * statistics count the block in that class.
 *
 * For device memory, NVTX's memory API notifies tools such as compute-sanitizer, if its headers
 * were found at build time. A slab is a heap whose bytes must not be used, and a held block is a
 * region of that heap with the requested size. NVTX is headers only: it loads the tool that
 * NVTX_INJECTION64_PATH names, which makes no callbacks. Without a tool each call returns at once.
 */

#include "src/pool/slab.h"

#ifdef FERRYI_POOL_GUARDED
#define FERRYI_GUARD_ZONE 64 /* minimum bytes after the part that a holder may use */

/* Whether the host can access the pool's memory. If not, the memory has no red zones. */
bool ferryi_red_zone_reaches(const ferry_pool *pool);

/* Returns the bytes that a block needs in addition to the requested ones. */
FERRYI_INLINE size_t
ferryi_guard_zone(const ferry_pool *pool)
{
    return ferryi_red_zone_reaches(pool) ? FERRYI_GUARD_ZONE : 0;
}

/* Allows the use of the requested bytes. Called without a lock just before the block is handed out.
 * `fresh`: the backend has just allocated the memory. */
void ferryi_red_zone_out(const ferry_pool *pool, ferry_block *block, bool fresh);
/* Checks the red zone of a live block before its release. Called without a lock; may be repeated.
 */
void ferryi_red_zone_check(const ferry_pool *pool, ferry_block *block);
/* Forbids the use of a block. Called when a live block becomes idle; `point` is its last use. */
void ferryi_red_zone_in(const ferry_pool *pool, ferry_block *block, ferryi_sync_point point);
/* Called before an idle block is merged with its neighbours. */
void ferryi_red_zone_join(const ferry_pool *pool, ferry_block *block);
/* Called after a slab's memory was allocated, and before it is freed, when none of it is in use. */
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
