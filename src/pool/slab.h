/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SLAB_H
#define FERRYI_SLAB_H

/*
 * Inside the pool: its struct, its slabs and its lists. Only src/pool includes this.
 *
 * A slab is one allocation of the backend. Its blocks are a chain in order of address that covers
 * it whole. A small slab is split as blocks are carved from it, of any class; a large block has a
 * slab for itself that is never split.
 *
 * A small block that comes back stays whole at first, in the list of its class, where the next take
 * of the class finds it: `ready` when its work was done, else `pending`, oldest first. Only a merge
 * makes it free: one with its free neighbours, and in a bin by size. A take looks into its class,
 * then into the bins; and before the pool has grown by another eighth it coalesces what is idle:
 * small blocks are merged, and a large one of the next class will do.
 *
 * The bins are the size classes: a free piece is in that of the largest class it holds, so that
 * every piece of a block's own bin, or of one above it, is large enough. Two words say which bins
 * have pieces: finding one takes the same few steps however many there are.
 *
 * A block that a take has picked and whose order it is still arranging is moving: in no list, and
 * counted by its slab as live. A descriptor that describes nothing is spare.
 *
 * The pool's mutex guards everything here. Backend calls and allocations run without it;
 * `backend_calls` counts those in flight, and `settled` is signalled as each ends.
 */

#include <assert.h>

#include "src/pool/pool.h"

#define FERRYI_POOL_CLASSES 160 /* 8 up to 2 KiB, 8 for each of the 19 doublings up to 1 GiB */
#define FERRYI_POOL_NO_LIST FERRYI_POOL_CLASSES
#define FERRYI_POOL_LARGEST ((size_t)1 << 30) /* the largest class */
/* Blocks of up to this size, which are those of the small classes, are carved from slabs. */
#define FERRYI_POOL_SLAB_BLOCK    ((size_t)1 << 20)
#define FERRYI_POOL_SMALL_CLASSES 80
#define FERRYI_POOL_PIECE_BINS    112 /* of free pieces: as many classes as the largest slab has */

enum ferryi_block_state {
    FERRYI_BLOCK_VOID = 0, /* describes no memory */
    FERRYI_BLOCK_IDLE = 1, /* whole, for its class */
    FERRYI_BLOCK_LIVE = 2,
    FERRYI_BLOCK_MOVING = 3,
    FERRYI_BLOCK_CACHED = 4, /* in a magazine; live, where the build is not guarded */
    FERRYI_BLOCK_FREE = 5    /* for any class */
};

FERRYI_MUTEX_CLASS(ferryi_pool_mutex);
/* The caller holds the mutex. */
#define FERRYI_POOL_LOCKED FERRYI_REQUIRES(ferryi_pool_mutex)

struct ferryi_slab {
    FERRYI_GUARDED_BY(ferryi_pool_mutex) struct {
        struct ferryi_link in_pool; /* all slabs */
        struct ferryi_link
            in_empty; /* slabs without live blocks, longest so first; oneself when it has some */
        uint64_t idle_since; /* when the last block came back, of ferryi_now_ns() */
        size_t live_bytes;   /* of its live blocks */
        ferry_block *first;  /* of its blocks, by address */
        uint32_t live;       /* blocks */
    };
    void *memory;        /* this and the next two are constant while it is in the pool's list */
    size_t bytes;        /* of the allocation */
    bool large;          /* never split */
    atomic_bool leaving; /* a compaction wants it empty: takes pass it by */
#ifdef FERRYI_POOL_GUARDED
    void *heap; /* a tool's; NULL: none listens */
#endif
};

struct ferryi_pool_class {
    FERRYI_GUARDED_BY(ferryi_pool_mutex) struct {
        struct ferryi_link ready;      /* idle blocks, sync point 0, newest last */
        struct ferryi_link pending;    /* idle blocks with a sync point, newest last */
        struct ferryi_magazine *depot; /* full magazines that no thread has */
        uint32_t grow_first; /* takes that get new memory before other threads' magazines are
 emptied for them */
    };
};

struct ferry_pool {
    unsigned slot; /* where threads look for their cache first; hits read it and `config`, which
 are constant */
    struct ferryi_pool_config config;
    char *name;
    unsigned forks; /* ferryi_fork_count() of the process that made it */
    _Alignas(64) struct ferryi_pool_mutex mutex;
    _Atomic uint64_t wait_ns;   /* the waits of one allocation together last at most this long */
    _Atomic uint64_t compactor; /* the thread that compacts; 0: none */
    atomic_bool is_maintained;  /* there is a mark or a period */
    ferryi_cond settled;
    FERRYI_GUARDED_BY(ferryi_pool_mutex) struct {
        size_t limit_bytes; /* of memory taken from the backend; 0: none */
        size_t high_water_bytes, release_threshold_bytes;
        uint64_t trim_period_ns, trim_age_ns, next_trim_ns;
        struct ferryi_pool_class classes[FERRYI_POOL_CLASSES + 1]; /* the last holds exact sizes */
        struct ferryi_link pieces[FERRYI_POOL_PIECE_BINS];         /* free ones, in bins */
        uint64_t filled[(FERRYI_POOL_PIECE_BINS + 63) / 64];       /* bit b: bin b has some */
        struct ferryi_link slabs, empties;
        ferry_block *spares; /* descriptors, by `after` */
        size_t spare_count;
        struct ferryi_arena *arenas; /* where descriptors come from */
        struct ferryi_link caches;   /* of threads */
        struct ferryi_magazine *empty_magazines;
        unsigned backend_calls;
        size_t
            requesting_bytes; /* being allocated now: counted against the limit, not yet reserved */
        size_t reserved_bytes, peak_reserved_bytes; /* the peak since the last reset */
        size_t grown_bytes; /* reserved since idle memory was last coalesced */
        size_t cached_bytes;
        struct ferryi_pool_counters counters;
        struct ferryi_pool_counters baseline; /* at the last reset of the public statistics */
        ferry_pool_shortage *on_shortage;
        void *on_shortage_user;
    };
};

/* What one take needs. */
struct ferryi_pool_request {
    size_t bytes;       /* asked for */
    size_t zone;        /* behind them, not to be used (red_zone.h) */
    size_t least;       /* of the block */
    size_t need;        /* the same, rounded up to its class */
    uint32_t list;      /* index of its class in `classes` */
    size_t align;       /* of the holder's memory */
    size_t carve_align; /* of the block, in a slab */
    bool padded;        /* set by plan: the class is larger than the bytes alone would need */
    ferryi_timeline *timeline;
    bool any_fit;  /* a larger block will do, within the waste that a class may have */
    bool recycled; /* the block may have had a holder before */
};

#define FERRYI_SLAB_OF(link, member)                                                               \
    ((struct ferryi_slab *)((char *)(link)-offsetof(struct ferryi_slab, member)))
#define FERRYI_BLOCK_OF(link) ((ferry_block *)((char *)(link)-offsetof(ferry_block, in_idle)))

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
    /* The analyzer does not follow that a freed neighbour was taken from the ring first. */
    link->prev->next = link->next; /* NOLINT(clang-analyzer-unix.Malloc) */
    link->next->prev = link->prev;
    ferryi_link_init(link);
}

/* Bytes of the block before the first address that is aligned to `align`. */
static inline size_t
ferryi_block_gap(const ferry_block *block, size_t align)
{
    return (size_t)(-(uintptr_t)block->pointer & (align - 1));
}

/* What the holder may use begins here. */
static inline char *
ferryi_block_begin(const ferry_block *block)
{
    return (char *)block->pointer + ferryi_block_gap(block, (size_t)1 << block->align_log2);
}

/* -- size classes (size_class.c): pure -- */

/* Index of the smallest class that holds 1 to FERRYI_POOL_LARGEST bytes. */
FERRYI_INLINE size_t
ferryi_pool_class_of(size_t bytes)
{
    /* 2^log2 < bytes <= 2^(log2 + 1), in steps of an eighth, and below 2 KiB in the steps of the
     * first doubling above. */
    unsigned log2 =
        63u ^ (unsigned)__builtin_clzll((unsigned long long)((bytes - 1) | 8 * FERRYI_POOL_ALIGN));
    return (log2 - 11) * 8 + (unsigned)((bytes - 1) >> (log2 - 3));
}

/* The bytes of the class that holds `bytes` (> 0), or 0 when they do not fit size_t. *out_class is
 * its index, or FERRYI_POOL_CLASSES for an exact size. */
size_t ferryi_pool_class_bytes(size_t bytes, uint32_t *out_class);
/* The inverse, for a class that is not exact. */
size_t ferryi_pool_bytes_of_class(uint32_t size_class);
/* The bin of the statistics for a size. */
unsigned ferryi_pool_bin_of(size_t bytes);
/* The bytes of a new slab for a block: were all its blocks of this size, at most 1/16 of it would
 * be left. Large blocks have slabs of their size. */
size_t ferryi_pool_slab_bytes(size_t block_bytes);
/* Fill in what follows from `bytes` and `align`; false when the size does not fit size_t. */
bool ferryi_pool_request_plan(struct ferryi_pool_request *request,
                              const struct ferryi_pool_backend *backend);
/* What blocks of a class are aligned to. */
size_t ferryi_pool_natural_align(size_t block_bytes, size_t backend_align);

/* -- descriptors, free pieces and slabs (slab.c): mostly under the mutex -- */

/* Take the mutex, with as many spare descriptors as one step needs; false, and no mutex: the host
 * has no memory. */
FERRYI_TRY_ACQUIRES(true, ferryi_pool_mutex) bool ferryi_pool_lock_stocked(ferry_pool *pool);
void ferryi_arenas_free(ferry_pool *pool);
/* A block in no list becomes free, and one piece with its free neighbours. */
FERRYI_POOL_LOCKED void ferryi_piece_free(ferry_pool *pool, ferry_block *block);
/* Put a free piece into its bin, unless its slab leaves. And out of it. */
FERRYI_POOL_LOCKED void ferryi_piece_list(ferry_pool *pool, ferry_block *piece);
FERRYI_POOL_LOCKED void ferryi_piece_remove(ferry_pool *pool, ferry_block *piece);
/* A block of `need` bytes, moving, out of the best free piece; NULL when none is large enough. */
FERRYI_POOL_LOCKED ferry_block *ferryi_piece_carve(ferry_pool *pool, size_t need, size_t align);
/* Make one piece of all neighbours that are idle and done. */
FERRYI_POOL_LOCKED void ferryi_pool_merge(ferry_pool *pool);

/* A slab whose memory is to come, with one block of `block_bytes` and the rest; in no list. NULL:
 * the host has no memory. */
struct ferryi_slab *ferryi_slab_new(ferry_pool *pool, size_t bytes, size_t block_bytes);
/* The memory came from the backend: put the slab into the pool's lists. @return the block, moving
 */
FERRYI_POOL_LOCKED ferry_block *ferryi_slab_adopt(ferry_pool *pool, struct ferryi_slab *slab,
                                                  void *memory);
/* It did not come, or went: the slab ends, and its descriptors become spare. */
FERRYI_POOL_LOCKED void ferryi_slab_drop(ferry_pool *pool, struct ferryi_slab *slab);
/* Take a slab without live blocks out of all lists, as one block; its memory and record stay. And
 * put it there again. */
FERRYI_POOL_LOCKED void ferryi_slab_detach(ferry_pool *pool, struct ferryi_slab *slab);
FERRYI_POOL_LOCKED void ferryi_slab_attach(ferry_pool *pool, struct ferryi_slab *slab);
/* An idle or free block, out of its list, becomes moving, and its slab counts it as live. */
FERRYI_POOL_LOCKED void ferryi_block_begin_use(ferry_pool *pool, ferry_block *block);
/* All its blocks are idle and their work is known to be done. */
FERRYI_POOL_LOCKED bool ferryi_slab_is_done(const ferry_pool *pool, const struct ferryi_slab *slab);

/* -- blocks (idle.c): under the mutex -- */

/*
 * Pick idle memory for the request and make it a moving block. *out_ordered false (timelines only):
 * the timeline must first wait for the block's sync point. NULL when there is none, or for the host
 * none known to be done.
 */
FERRYI_POOL_LOCKED ferry_block *
ferryi_pool_find(ferry_pool *pool, struct ferryi_pool_request *request, bool *out_ordered);
/* A block in no list becomes idle, and goes into the one it belongs to. */
FERRYI_POOL_LOCKED void ferryi_block_list(ferry_pool *pool, ferry_block *block);
/* Idle blocks of the class that are known to be done by now become ready. */
FERRYI_POOL_LOCKED void ferryi_class_promote(ferry_pool *pool, struct ferryi_pool_class *class);
/* A moving block becomes live, or idle. */
FERRYI_POOL_LOCKED void ferryi_block_commit(ferry_pool *pool, ferry_block *block,
                                            const struct ferryi_pool_request *request, bool hit);
FERRYI_POOL_LOCKED void ferryi_block_put(ferry_pool *pool, ferry_block *block,
                                         ferryi_sync_point point, uint64_t since);
/* A live block becomes moving. */
FERRYI_POOL_LOCKED void ferryi_block_uncommit(ferry_pool *pool, ferry_block *block);

/* -- reclaiming (reclaim.c): without the mutex -- */

/* Gives idle, done memory that came back at `until_ns` or before back to the backend, longest idle
 * first, until at most `keep_bytes` stay cached or `want_bytes` were given back. @return the bytes
 * given back */
size_t ferryi_pool_give_back(ferry_pool *pool, size_t keep_bytes, size_t want_bytes,
                             uint64_t until_ns);
/* The same, whatever else: slabs that a compaction emptied. */
size_t ferryi_pool_give_back_leaving(ferry_pool *pool, uint64_t *out_slabs);
/* Ask the driver about the oldest pending blocks of a list; true when one is done. */
bool ferryi_pool_ask_oldest(ferry_pool *pool, uint32_t list);
/* Ask the driver about all pending blocks. */
void ferryi_pool_ask_pending(ferry_pool *pool);
/* Waits on the host, for at most `*wait_ns`, for the work of some pending blocks. `*wait_ns`
 * shrinks by the time that it took. Returns false when none was done by then, or none was pending.
 */
bool ferryi_pool_wait_pending(ferry_pool *pool, uint64_t *wait_ns);
/* Wait until no other thread is inside the backend, or for a while. */
void ferryi_pool_settle(ferry_pool *pool);

/* -- taking (take.c, shortage.c): mostly without the mutex -- */

/* From idle memory; *out stays NULL when there is none. */
ferry_status ferryi_pool_reuse(ferry_pool *pool, struct ferryi_pool_request *request,
                               ferry_block **out);
/* From the backend: a whole slab, or with `single` only the block. */
ferry_status ferryi_pool_grow(ferry_pool *pool, struct ferryi_pool_request *request, bool single,
                              ferry_block **out);
/* When both found none: runs the table of steps. */
ferry_status ferryi_pool_overcome_shortage(ferry_pool *pool, struct ferryi_pool_request *request,
                                           ferry_block **out);

/* -- compaction (compact.c): without the mutex -- */

/* Waits for at most `*wait_ns`, which shrinks by that time. BUSY when another thread compacts. */
ferry_status ferryi_pool_compact(ferry_pool *pool, uint64_t *wait_ns, ferry_pool_compaction *out);
/* This thread is at it: its takes get idle memory only. */
bool ferryi_pool_is_compactor(const ferry_pool *pool);

/* -- what may be kept (policy.c) -- */

void ferryi_pool_set_policy(ferry_pool *pool, const ferry_pool_options *options);
/* Without the mutex, before memory for a block of `need` bytes comes from the backend: frees idle
 * memory of other sizes where too much of it would be kept. */
void ferryi_pool_make_room(ferry_pool *pool, size_t need);
FERRYI_POOL_LOCKED bool ferryi_pool_is_above_high_water(const ferry_pool *pool);
/* Without the mutex, on slow paths: give back what is above the high-water mark,
 * or old when the period is over. `grown`: memory came from the backend just now. */
void ferryi_pool_maintain(ferry_pool *pool, bool grown);

/* -- pool.c -- */

/* Fails with INVALID_ARGUMENT when the pool is NULL, or when the call has not got its other
 * argument, and with INVALID_STATE in the child of a fork. `what` is done, as in "take memory
 * from". */
ferry_status ferryi_pool_check_call(const ferry_pool *pool, const char *what, bool has_other,
                                    const char *other);
/* The same, and WRONG_CONTEXT where the stream, which may be NULL, is of another context. */
ferry_status ferryi_pool_check_stream(const ferry_pool *pool, const ferry_stream *stream,
                                      const char *what);

/* -- block_list.c -- */

/* Logs the blocks that are held, for destroy. */
void ferryi_pool_report_leaks(const ferry_pool *pool);

/* -- statistics.c -- */

/* The largest piece that the idle memory could give as a whole: a block, a slab's room, or an empty
 * slab. */
FERRYI_POOL_LOCKED size_t ferryi_pool_largest_free(const ferry_pool *pool);

#endif
