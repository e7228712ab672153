/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SLAB_H
#define FERRYI_SLAB_H

/*
 * Inside the pool: its struct, its slabs and its lists. Only src/pool includes this.
 *
 * A slab is one allocation of the backend, cut into slots of one class; a large block is a slab of one slot, and a block of zero bytes
 * a slab of one slot without memory. Slots are carved in order, when they are first taken: what is not carved yet is room, idle as much as a block that came back.
 * The descriptors of the blocks stand in the slab's record. A record whose memory went back to the backend is retired: kept for the next
 * slab of its class, and freed with the pool.
 *
 * Idle blocks are in a list of their class: `ready` when their work was done as they came back, else `pending`, oldest first. A block that a take has
 * picked and whose order it is still arranging is moving: in no list, and counted by its slab as live.
 *
 * The pool's mutex guards everything here. Backend calls run without it; `backend_calls` counts those in flight, and `settled` is signalled as each ends.
 */

#include <assert.h>

#include "src/pool/pool.h"

#define FERRYI_POOL_CLASSES 160                   /* 8 up to 2 KiB, 8 for each of the 19 doublings up to 1 GiB */
static_assert(FERRYI_POOL_NO_LIST == FERRYI_POOL_CLASSES, "magazines have one list more than there are classes");
#define FERRYI_POOL_LARGEST ((size_t)1 << 30)     /* the largest class */
#define FERRYI_POOL_SLAB_BLOCK ((size_t)1 << 20)  /* the largest block that is carved from a slab */
#define FERRYI_POOL_SLAB ((size_t)2 << 20)        /* slabs are multiples of it */

enum ferryi_block_state {
    FERRYI_BLOCK_VOID = 0, /* describes no memory */
    FERRYI_BLOCK_IDLE = 1,
    FERRYI_BLOCK_LIVE = 2,
    FERRYI_BLOCK_MOVING = 3,
    FERRYI_BLOCK_CACHED = 4 /* in a magazine; only a checked build says so, elsewhere it still looks live */
};

/* What saved a take that found no memory. */
enum ferryi_rung { FERRYI_RUNG_REUSE, FERRYI_RUNG_TRIM, FERRYI_RUNG_WAIT, FERRYI_RUNG_CALLBACK, FERRYI_RUNGS };

struct ferryi_slab {
    struct ferryi_link in_pool;  /* all slabs that have memory or a live block; or the retired ones of the class */
    struct ferryi_link in_room;  /* of the class: slabs with room; oneself when it has none */
    struct ferryi_link in_empty; /* slabs without live blocks, longest so first; oneself when it has some */
    uint64_t idle_since;         /* when the last block came back, of ferryi_now_ns() */
    void *memory;
    size_t bytes;                /* of the allocation */
    size_t block_bytes;
    uint32_t list;               /* index of its class in `classes` */
    uint32_t slots, carved, live;
    ferry_block blocks[];        /* `slots` of them */
};

struct ferryi_pool_class {
    struct ferryi_link ready;   /* idle blocks, stamp 0, newest last */
    struct ferryi_link pending; /* idle blocks with a stamp, newest last */
    struct ferryi_link room;    /* slabs */
    struct ferryi_link retired; /* records of slabs with the class's number of slots */
    uint64_t cached;            /* idle blocks and room, in slots */
    struct ferryi_magazine *depot; /* full magazines that no thread has */
    uint32_t grow_first;        /* so many takes get new memory before other threads' magazines are emptied for them */
};

struct ferry_pool {
    struct ferryi_pool_config config;
    char *name;
    ferryi_mutex mutex;
    ferryi_cond settled;
    struct ferryi_pool_class classes[FERRYI_POOL_CLASSES + 1]; /* the last holds exact sizes */
    struct ferryi_link slabs, empties;
    struct ferryi_link retired_single; /* records of one slot, for large blocks */
    unsigned slot;             /* where threads look for their cache first */
    struct ferryi_link caches; /* of threads */
    struct ferryi_magazine *empty_magazines;
    unsigned backend_calls;
    size_t requesting_bytes; /* being allocated now: counted against the limit, not yet reserved */
    size_t reserved_bytes, peak_reserved_bytes;
    int64_t live_bytes, peak_live_bytes; /* as far as the caches were counted: it may be below zero until they are */
    size_t requested_bytes, cached_bytes;
    uint64_t live_blocks;
    uint64_t failed_takes, hits, misses, gives;
    uint64_t device_allocations, device_frees;
    uint64_t trims, evictions, waits;
    uint64_t shortages, saved[FERRYI_RUNGS];
    ferry_pool_shortage *on_shortage;
    void *on_shortage_user;
    ferry_pool_bin bins[FERRY_POOL_BIN_COUNT]; /* all but the cached counts */
};

/* What one take needs. */
struct ferryi_pool_request {
    size_t bytes;     /* asked for */
    size_t need;      /* of the block */
    uint32_t list;    /* index of its class in `classes` */
    size_t align;
    bool padded;      /* set by plan: the class is larger than the bytes alone would need */
    ferryi_lane *lane;
    bool recycled;    /* set by find: somebody held the block before */
};

#define FERRYI_SLAB_OF(link, member) ((struct ferryi_slab *)((char *)(link) - offsetof(struct ferryi_slab, member)))
#define FERRYI_BLOCK_OF(link) ((ferry_block *)((char *)(link) - offsetof(ferry_block, in_idle)))

static inline void
ferryi_link_init(struct ferryi_link *link)
{
    link->next = link->prev = link;
}

static inline bool
ferryi_link_is_alone(const struct ferryi_link *link)
{
    return link->next == link;
}

static inline void
ferryi_link_append(struct ferryi_link *head, struct ferryi_link *link)
{
    link->next = head;
    link->prev = head->prev;
    head->prev->next = link;
    head->prev = link;
}

/* Leaves the link alone; harmless when it was. */
static inline void
ferryi_link_remove(struct ferryi_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    ferryi_link_init(link);
}

/* -- size classes (size_class.c): pure -- */

/* Index of the smallest class that holds 1 to FERRYI_POOL_LARGEST bytes. */
FERRYI_INLINE size_t
ferryi_pool_class_of(size_t bytes)
{
    if (bytes <= 8 * FERRYI_POOL_ALIGN)
        return (bytes - 1) / FERRYI_POOL_ALIGN;
    /* 2^log2 < bytes <= 2^(log2 + 1), in steps of an eighth. */
    size_t log2 = (size_t)63 ^ (size_t)__builtin_clzll((unsigned long long)(bytes - 1));
    return (log2 - 11) * 8 + ((bytes - 1) >> (log2 - 3));
}

/* The inverse of ferryi_pool_class_bytes, for a class that is not exact. */
size_t ferryi_pool_bytes_of_class(uint32_t size_class);
/* The bin of the statistics for a size. */
unsigned ferryi_pool_bin_of(size_t bytes);
/* How blocks of a size are allocated: bytes of the slab and its slots; 1 slot above FERRYI_POOL_SLAB_BLOCK. At most 1/16 of a slab is not carved. */
void ferryi_pool_slab_layout(size_t block_bytes, size_t *out_bytes, uint32_t *out_slots);
/* Fill in `need` and `list`; false when the size does not fit size_t. `backend_align` is what the backend's memory is aligned to. */
bool ferryi_pool_request_plan(struct ferryi_pool_request *request, size_t backend_align);

/* -- slabs (slab.c): under the mutex, but for the first two -- */

/* A retired or new record for slabs of this shape, in no list; NULL when the host has no memory. Takes the mutex. */
struct ferryi_slab *ferryi_slab_record(ferry_pool *pool, uint32_t list, size_t block_bytes, uint32_t slots);
/* Free all records; the memory has gone back. For destroy. */
void ferryi_slab_records_free(ferry_pool *pool);
void ferryi_slab_retire(ferry_pool *pool, struct ferryi_slab *slab);
/* Put a slab into the pool's lists, all of it room. */
void ferryi_slab_attach(ferry_pool *pool, struct ferryi_slab *slab);
/* Take a slab without live blocks out of all lists; its memory and record stay. */
void ferryi_slab_detach(ferry_pool *pool, struct ferryi_slab *slab);
/* Its first block is about to be counted as live. */
void ferryi_slab_begin_use(struct ferryi_slab *slab);
/* The next slot of the slab's room, as a moving block. */
ferry_block *ferryi_slab_carve(ferry_pool *pool, struct ferryi_slab *slab);
/* All its blocks are idle and their work is known to be done. */
bool ferryi_slab_is_done(const ferry_pool *pool, const struct ferryi_slab *slab);

/* -- blocks (idle.c): under the mutex -- */

/*
 * Pick idle memory for the request and make it a moving block. *out_ordered false (lanes only): the lane must first wait for the block's stamp. NULL when there is
 * none, or for the host none known to be done.
 */
ferry_block *ferryi_pool_find(ferry_pool *pool, struct ferryi_pool_request *request, bool *out_ordered);
/* A moving block becomes live, or idle. */
void ferryi_block_commit(ferry_pool *pool, ferry_block *block, const struct ferryi_pool_request *request, bool hit);
void ferryi_block_put(ferry_pool *pool, ferry_block *block, ferryi_stamp stamp, uint64_t since);
/* A live block becomes moving. */
void ferryi_block_uncommit(ferry_pool *pool, ferry_block *block);

/* -- reclaiming (reclaim.c): without the mutex -- */

/* As ferryi_pool_trim, but stops when `want_bytes` were given back. Only what came back at `until_ns` or before. */
size_t ferryi_pool_give_back(ferry_pool *pool, size_t keep_bytes, size_t want_bytes, uint64_t until_ns);
/* Ask the driver about the oldest pending blocks of a list; true when one is done. */
bool ferryi_pool_ask_oldest(ferry_pool *pool, uint32_t list);
/* Ask the driver about all pending blocks. */
void ferryi_pool_ask_pending(ferry_pool *pool);
/* Wait on the host for all pending blocks; false when there were none. */
bool ferryi_pool_wait_pending(ferry_pool *pool);
/* Wait until no other thread is inside the backend, or for a while. */
void ferryi_pool_settle(ferry_pool *pool);

/* -- pool.c -- */

/* Fails when the stream is of another context than the pool; NULL is of every. `what` is done, as in "take memory from". */
ferry_status ferryi_pool_check_stream(const ferry_pool *pool, const ferry_stream *stream, const char *what);

/* -- walk.c -- */

/* Name the blocks that are held, in the log. */
void ferryi_pool_report_leaks(ferry_pool *pool);

/* -- statistics.c -- */

/* The largest piece that the idle memory could give as a whole: a block, a slab's room, or an empty slab. Under the mutex. */
size_t ferryi_pool_largest_free(const ferry_pool *pool);

#endif
