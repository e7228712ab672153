/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_POOL_NVTX_H
#define FERRYI_POOL_NVTX_H

/*
 * What a pool tells tools of device memory, such as compute-sanitizer, through NVTX's memory API: a
 * slab is a heap whose bytes nobody may use, and a block that somebody holds is a region of it, as
 * large as was asked for. Without a tool each call ends at once.
 *
 * In checked builds where NVTX's headers were at hand (FERRYI_HAVE_NVTX). NVTX is headers only: it
 * loads the tool that NVTX_INJECTION64_PATH names. Any thread; also under the pool's mutex, because
 * tools call nobody back.
 */

#include "src/pool/slab.h"

/* The slab has memory, and is about to lose it; its blocks' regions end with it. */
void ferryi_nvtx_heap_begin(struct ferryi_slab *slab);
void ferryi_nvtx_heap_end(struct ferryi_slab *slab);
/* The first `bytes` of a block may be used, instead of what was before; and nothing of it. Harmless
 * when it has no region. */
void ferryi_nvtx_region_begin(ferry_block *block, size_t bytes);
void ferryi_nvtx_region_end(ferry_block *block);

#endif
