/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SLAB_H
#define FERRYI_SLAB_H

/*
 * Private to src/pool: the struct of a pool, its slabs and its lists.
 *
 * A slab is one allocation of the backend. Its blocks form a chain in order of address that covers
 * the whole slab. A small slab is split into blocks of any size class. A large block has a slab to
 * itself, which is never split. A pool whose backend has ranges has one slab for all large
 * blocks, the range (range.c), whose blocks are split.
 *
 * An idle block is in a bin, which is a list of idle blocks of similar size. A small block is in
 * the bin of the largest class that fits into it. So every block in the bin of a class, or in a
 * higher bin of small blocks, is large enough for the class, and an allocation cuts off the bytes
 * that it does not need. Queued work may still use the memory of an idle block. Such a block is not
 * cut. A bitmap marks the bins that have a block without queued work, so finding a larger block
 * takes constant time. A released block that no queued work uses is merged with idle neighbours
 * that no queued work uses either. Other blocks are merged later. Each time the pool has grown by
 * an eighth, an allocation collects all idle memory and merges these blocks (take.c).
 *
 * A block whose state is MOVING has been chosen for an allocation, but its last use is not yet
 * ordered before the allocation's stream. It is in no list, and its slab counts it as live. A spare
 * descriptor is an unused struct ferry_block.
 *
 * The pool's mutex guards everything in this file. Backend calls and allocations run without the
 * mutex. `backend_calls` is the number of backend calls that are running, and the condition
 * variable `settled` is signalled when one of them ends.
 */

#include <assert.h>

#include "src/pool/pool.h"

/* Number of size classes: 8 up to 2 KiB, and 8 for each of the 19 doublings up to 1 GiB. */
#define FERRYI_POOL_CLASSES 160
#define FERRYI_POOL_NO_LIST FERRYI_POOL_CLASSES
#define FERRYI_POOL_LARGEST ((size_t)1 << 30) /* the largest class */
/* Maximum size of the blocks that are carved from slabs. The classes up to this size are called
 * small classes. */
#define FERRYI_POOL_SLAB_BLOCK    ((size_t)1 << 20)
#define FERRYI_POOL_SMALL_CLASSES 80
/* Number of bins for small blocks: one for each size class up to the size of the largest slab. The
 * bins of large blocks follow, one for each class that is not small, and one for all larger sizes.
 * The next bin has the blocks of slabs that a compaction is emptying, and the last one those of the
 * range that are too small for a large block. */
#define FERRYI_POOL_SMALL_BINS 112
#define FERRYI_POOL_DRAINING_BIN                                                                   \
    (FERRYI_POOL_SMALL_BINS + 1 + FERRYI_POOL_CLASSES - FERRYI_POOL_SMALL_CLASSES)
#define FERRYI_POOL_FRAGMENT_BIN (FERRYI_POOL_DRAINING_BIN + 1)
#define FERRYI_POOL_BINS         (FERRYI_POOL_FRAGMENT_BIN + 1)

enum ferryi_block_state {
    FERRYI_BLOCK_VOID = 0, /* describes no memory */
    FERRYI_BLOCK_IDLE = 1, /* in a bin */
    FERRYI_BLOCK_LIVE = 2,
    FERRYI_BLOCK_MOVING = 3,
    FERRYI_BLOCK_HOLE = 5,  /* addresses of a range without memory, in the list `holes` */
    FERRYI_BLOCK_CACHED = 4 /* in a magazine; used only with FERRYI_DEBUG_CHECKS; in other builds, a
                               block in a magazine is LIVE */
};

FERRYI_MUTEX_CLASS(ferryi_pool_mutex);
/* The caller holds the mutex. */
#define FERRYI_POOL_LOCKED FERRYI_REQUIRES(ferryi_pool_mutex)

struct ferryi_slab {
    FERRYI_GUARDED_BY(ferryi_pool_mutex) struct {
        struct ferryi_link in_pool;  /* all slabs */
        struct ferryi_link in_empty; /* slabs without live blocks, longest idle first */
        uint64_t idle_since;         /* time of the last release of a block, from ferryi_now_ns() */
        size_t live_bytes;           /* number of bytes in live blocks */
        ferry_block *first;          /* block with the lowest address */
        uint32_t live;               /* number of live blocks */
    };
    void *memory; /* `memory`, `bytes` and `large` are constant while the slab is in the pool's list
                   */
    size_t bytes; /* size of the allocation */
    bool large;   /* whether the slab is one large block, which is never split */
    /* Whether a compaction is emptying the slab. While it does, no block of the slab is allocated.
     */
    atomic_bool draining;
    void *heap; /* the NVTX heap of device memory that a tool watches, or NULL */
};

struct ferry_pool {
    unsigned slot; /* the pool's index into ferryi_thread_caches.slots; constant */
    struct ferryi_pool_config config;
    char *name;
    unsigned forks;   /* value of ferryi_fork_count() in the process that created the pool */
    bool has_checker; /* whether a memory checker watches the pool; constant */
    /* The slab of large blocks of a backend with ranges, and the handles of its parts that have
     * memory. NULL for other backends. The pointers are constant. */
    struct ferryi_slab *range;
    void **handles;
    _Alignas(64) struct ferryi_pool_mutex mutex;
    _Atomic uint64_t wait_ns; /* maximum total time that one allocation may wait */
    /* Id of the thread that is compacting the pool, or 0. The allocations of this thread use only
     * idle memory. */
    _Atomic uint64_t compactor;
    atomic_bool is_maintained; /* whether a high-water mark or a trim period is set */
    ferryi_cond settled;
    atomic_size_t slab_limit; /* `limit_bytes`, for threads that do not hold the mutex */
    atomic_bool zeroes;       /* whether each released block is set to zero */
    atomic_bool has_zeroed;   /* whether a released block was set to zero, perhaps by queued work */
    FERRYI_GUARDED_BY(ferryi_housekeeper_mutex) struct {
        ferry_pool *next_served; /* next in the housekeeper's list */
        bool is_served;
    };
    FERRYI_GUARDED_BY(ferryi_pool_mutex) struct {
        size_t limit_bytes;     /* maximum number of bytes taken from the backend; 0: no limit */
        const char *limit_name; /* the option that sets the limit, for messages */
        bool free_fails;        /* whether the backend's last call of `free` failed */
        size_t high_water_bytes, release_threshold_bytes;
        uint64_t trim_period_ns, trim_age_ns, next_trim_ns;
        /* For each size class, full magazines that no thread owns. */
        struct ferryi_magazine *depots[FERRYI_POOL_CLASSES];
        /* The idle blocks. In each bin, the blocks with pending uses are first, in order from
         * newest to oldest. The blocks without pending uses follow, in order from oldest to
         * newest. */
        struct ferryi_link bins[FERRYI_POOL_BINS];
        /* Bit b is set if bin b has a block without a pending
         * use. */
        uint64_t filled[(FERRYI_POOL_BINS + 63) / 64];
        struct ferryi_link slabs, empties;
        struct ferryi_link holes;    /* of the range, in order of address */
        ferry_block *spares;         /* unused block descriptors, linked by `after` */
        struct ferryi_arena *arenas; /* memory of the descriptors */
        struct ferryi_link caches;   /* caches of all threads */
        struct ferryi_magazine *empty_magazines;
        unsigned backend_calls;
        size_t requesting_bytes; /* number of bytes that running backend calls are allocating; they
                                    count toward the limit, but are not reserved yet */
        size_t reserved_bytes, peak_reserved_bytes; /* peak since the last reset */
        size_t grown_bytes; /* number of bytes by which the pool has grown since an allocation last
                               collected all idle memory (take.c) */
        size_t cached_bytes;
        struct ferryi_pool_counters counters;
        uint64_t evictions_at_reset; /* value of counters.evictions when the statistics were last
                                        reset */
        uint64_t peak_live_bytes;    /* largest number of live bytes since that reset */
        size_t unseen_bytes; /* bytes of the blocks that were committed since the number of live
                                bytes was last compared with its peaks */
        ferry_pool_shortage *on_shortage;
        void *on_shortage_user;
    };
};

/* What a pool had when an allocation failed: its limit (0: none), the bytes that it held from the
 * backend, its idle bytes, and the size of the largest idle part that the allocation could use. */
struct ferryi_pool_figures {
    size_t limit, reserved, cached, largest;
};

/* The requirements of one allocation. */
struct ferryi_pool_request {
    size_t bytes;  /* number of bytes that the caller requested */
    size_t least;  /* minimum size of the block */
    size_t need;   /* `least`, rounded up to the size of its size class */
    uint32_t list; /* index of the request's size class; FERRYI_POOL_CLASSES: above all classes */
    size_t align; /* alignment that the owner of the memory requested; 1 if every block of this size
                     has this alignment anyway. If `align` is above 1, the block is larger, so that
                     it contains an aligned address */
    size_t block_align;        /* alignment of the block itself */
    ferryi_timeline *timeline; /* NULL: the host */
    bool any_fit; /* whether a search examines all blocks of a bin and, for a large request, accepts
                     a block that is up to 1/8 too large */
    bool least_fits; /* whether a search accepts a block that has room for the requested bytes, but
                        not for a block of their size class */
    bool waits_last; /* whether the pool rather grows than gives out a block for whose last use the
                        stream must wait */
    bool spare;      /* whether the request fails rather than wait, evict or make the pool grow by
                        more than a few blocks */
    bool internal;   /* whether the caller puts the name of the memory before an error message */
    struct ferryi_pool_figures seen; /* set by ferryi_out_of_memory_is_over() */
};

#define FERRYI_SLAB_OF(link, member)                                                               \
    ((struct ferryi_slab *)((char *)(link)-offsetof(struct ferryi_slab, member)))
/* Visits the slabs of a pool. The loop's code must not remove a slab from the pool's list. */
#define FERRYI_EACH_SLAB(pool, slab)                                                               \
    for (struct ferryi_slab *slab = FERRYI_SLAB_OF((pool)->slabs.next, in_pool);                   \
         &slab->in_pool != &(pool)->slabs; slab = FERRYI_SLAB_OF(slab->in_pool.next, in_pool))
#define FERRYI_BLOCK_OF(link) ((ferry_block *)((char *)(link)-offsetof(ferry_block, in_bin)))

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

/* Removes the link from its list. Does nothing if the link is in no list. */
static inline void
ferryi_link_remove(struct ferryi_link *link)
{
    /* The static analyzer does not see that a neighbour that was freed had been removed from the
     * list. */
    link->prev->next = link->next; /* NOLINT(clang-analyzer-unix.Malloc) */
    link->next->prev = link->prev;
    ferryi_link_init(link);
}

/* Returns the number of bytes that precede the first address in the block that is aligned to
 * `align`. */
static inline size_t
ferryi_block_gap(const ferry_block *block, size_t align)
{
    return (size_t)(-(uintptr_t)block->pointer & (align - 1));
}

/* Returns the first address in the block that the block's owner may use. */
static inline char *
ferryi_block_begin(const ferry_block *block)
{
    return (char *)block->pointer + ferryi_block_gap(block, (size_t)1 << block->align_log2);
}

/* -- size classes (size_class.c): pure -- */

/* Returns the index of the smallest size class whose blocks have room for `bytes` bytes. `bytes`
 * must be from 1 to FERRYI_POOL_LARGEST. */
FERRYI_INLINE size_t
ferryi_pool_class_of(size_t bytes)
{
    /* Above 2 KiB, 2^log2 < bytes <= 2^(log2 + 1), and each doubling of the size has eight size
     * classes. Up to 2 KiB, `log2` is 11, so the sizes of the classes have the same distance as
     * those from 2 KiB to 4 KiB. */
    unsigned log2 =
        63u ^ (unsigned)__builtin_clzll((unsigned long long)((bytes - 1) | 8 * FERRYI_POOL_ALIGN));
    return (log2 - 11) * 8 + (unsigned)((bytes - 1) >> (log2 - 3));
}

/* Returns the block size for a request of `bytes`, which must not be 0. Returns 0 if the block size
 * does not fit size_t. Sets *out_class to the index of the size class. A size above the largest
 * class gets the index FERRYI_POOL_CLASSES. */
size_t ferryi_pool_class_bytes(size_t bytes, uint32_t *out_class);
/* Returns the size of the blocks of a size class. `size_class` must be less than
 * FERRYI_POOL_CLASSES. */
size_t ferryi_pool_bytes_of_class(uint32_t size_class);
/* Returns the index of the class of the public statistics to which a size belongs. */
unsigned ferryi_pool_statistics_class(size_t bytes);
/* Returns the size of a new slab for blocks of the given size. When the slab is divided into such
 * blocks, at most 1/16 of the slab remains, unless the slab would be more than a quarter of the
 * pool's limit: large blocks get no memory of such a slab. `limit` is 0 if there is no limit. The
 * slab of a large block has the size of the block. */
size_t ferryi_pool_slab_bytes(size_t block_bytes, size_t limit);
static inline size_t
ferryi_pool_new_slab_bytes(const ferry_pool *pool, size_t block_bytes)
{
    return ferryi_pool_slab_bytes(block_bytes,
                                  atomic_load_explicit(&pool->slab_limit, memory_order_relaxed));
}
/* Returns whether a block that is too large for the request is split. */
static inline bool
ferryi_request_splits(const ferry_pool *pool, const struct ferryi_pool_request *request)
{
    return pool->range || request->list < FERRYI_POOL_SMALL_CLASSES;
}
/* Computes the block size for the members `bytes` and `align` of the request. `unused` is the
 * minimum number of unused bytes behind the requested ones. Returns false if the block size would
 * not fit size_t. */
bool ferryi_pool_request_plan(struct ferryi_pool_request *request, size_t unused,
                              const struct ferryi_pool_backend *backend);

/* -- descriptors, bins and slabs (slab.c) -- */

/* Locks the pool's mutex and guarantees that there are enough unused block descriptors for one
 * allocation, which may need four. If there is no host memory for them, returns false and leaves
 * the mutex unlocked. */
FERRYI_TRY_ACQUIRES(true, ferryi_pool_mutex) bool ferryi_pool_lock_stocked(ferry_pool *pool);
void ferryi_arenas_free(ferry_pool *pool);
/* Returns the bin for blocks of a size class. */
size_t ferryi_pool_bin_of_class(uint32_t size_class);
/* Returns the bin to which the block belongs while it is idle. */
size_t ferryi_block_bin(const ferry_block *block);
/* Makes a block idle and adds it to its bin. The block must not be in a bin. */
FERRYI_POOL_LOCKED void ferryi_bin_add(ferry_pool *pool, ferry_block *block);
/* Removes an idle block from its bin. Its state does not change. */
FERRYI_POOL_LOCKED void ferryi_bin_remove(ferry_pool *pool, ferry_block *block);
/*
 * Splits a block that is not in a bin. The block keeps its first `bytes` bytes.
 * @return a new block with the remaining bytes, which is not in a bin either
 */
FERRYI_POOL_LOCKED ferry_block *ferryi_block_cut(ferry_pool *pool, ferry_block *block,
                                                 size_t bytes);
/* Merges `block` with `after`, the next block of its slab. Neither may be in a bin. */
FERRYI_POOL_LOCKED void ferryi_block_join(ferry_pool *pool, ferry_block *block, ferry_block *after);
/* Returns whether the block, which may be NULL, is idle and no queued work uses it. */
bool ferryi_block_is_unused(const ferry_pool *pool, const ferry_block *block);
/* Merges a block that no queued work uses with its unused neighbours, and adds the result to its
 * bin. The block must not be in a bin. */
FERRYI_POOL_LOCKED ferry_block *ferryi_block_merge(ferry_pool *pool, ferry_block *block);
/* Changes the state of a block that is in no bin to MOVING, and counts the block as live in its
 * slab. */
FERRYI_POOL_LOCKED void ferryi_block_begin_use(ferry_pool *pool, ferry_block *block);
/* Counts memory that calls of the backend have added to the pool. */
FERRYI_POOL_LOCKED void ferryi_pool_count_growth(ferry_pool *pool, size_t bytes,
                                                 uint64_t allocations);
/* Merges adjacent blocks that are idle and that no queued work uses. */
FERRYI_POOL_LOCKED void ferryi_pool_merge(ferry_pool *pool);

/* Returns a new slab that has no memory yet and is not in a list. Its first block has `block_bytes`
 * bytes, and a second block has the remaining bytes. Returns NULL if there is no host memory. */
struct ferryi_slab *ferryi_slab_new(ferry_pool *pool, size_t bytes, size_t block_bytes);
/*
 * Adds a new slab to the pool's lists. `memory` is the memory that the backend has allocated for
 * the slab.
 * @return the slab's first block, whose state the caller must change to LIVE
 */
FERRYI_POOL_LOCKED ferry_block *ferryi_slab_adopt(ferry_pool *pool, struct ferryi_slab *slab,
                                                  void *memory);
/* Frees the memory of a slab that is not in a list. If the backend fails to free the memory, the
 * memory stays valid. */
ferry_status ferryi_slab_free_memory(const ferry_pool *pool, struct ferryi_slab *slab);
/* Frees the struct of a slab that has no memory. The descriptors of its blocks can be used for
 * other blocks. */
FERRYI_POOL_LOCKED void ferryi_slab_drop(ferry_pool *pool, struct ferryi_slab *slab);
/* Removes a slab without live blocks from all lists, and merges its blocks into one. The slab keeps
 * its memory and its struct. */
FERRYI_POOL_LOCKED void ferryi_slab_detach(ferry_pool *pool, struct ferryi_slab *slab);
/* Adds a slab that ferryi_slab_detach() removed to the pool's lists again. */
FERRYI_POOL_LOCKED void ferryi_slab_attach(ferry_pool *pool, struct ferryi_slab *slab);
/* Marks a slab as one that a compaction is emptying, or clears the mark. The mark determines the
 * bins of the slab's idle blocks, so the function moves the blocks to these bins. */
FERRYI_POOL_LOCKED void ferryi_slab_set_draining(ferry_pool *pool, struct ferryi_slab *slab,
                                                 bool draining);
/* Returns whether the slab has no live block, and no queued work uses its memory. */
FERRYI_POOL_LOCKED bool ferryi_slab_is_done(const ferry_pool *pool, const struct ferryi_slab *slab);

/* -- blocks (slab.c): under the mutex -- */

/*
 * Finds idle memory for the request and returns it as a block. The caller must change the state of
 * the block to LIVE. The last use of the block may be pending and not yet ordered before the later
 * work of the request's stream. Returns NULL if no idle memory is suitable. A request for the host
 * gets only memory whose work is known to be done.
 */
FERRYI_POOL_LOCKED ferry_block *ferryi_pool_find(ferry_pool *pool,
                                                 const struct ferryi_pool_request *request);
/* Returns how many idle blocks have the size of the request, but are in use by work for which the
 * request's stream would have to wait. Counts at most as many blocks as a search examines. */
FERRYI_POOL_LOCKED unsigned ferryi_pool_count_busy(const ferry_pool *pool,
                                                   const struct ferryi_pool_request *request);
/* Changes a block's state from MOVING to LIVE, and counts the allocation. `hit` is whether the
 * block comes from idle memory. */
FERRYI_POOL_LOCKED void ferryi_block_commit(ferry_pool *pool, ferry_block *block,
                                            const struct ferryi_pool_request *request, bool hit);
/* Changes a block's state from MOVING to IDLE. `point` is the last use of the block, and `since`
 * the time of its release. */
FERRYI_POOL_LOCKED void ferryi_block_put(ferry_pool *pool, ferry_block *block,
                                         ferryi_sync_point point, uint64_t since);
/* Changes a block's state from LIVE to MOVING, and counts its release. */
FERRYI_POOL_LOCKED void ferryi_block_uncommit(ferry_pool *pool, ferry_block *block);

/* Replaces a live block in its slab by one with another descriptor, that has the memory of the
 * block and that of `extra`, the MOVING block behind it, which may be NULL. Uses a spare
 * descriptor. The old one is in no slab then, but can be read until ferryi_block_retire(). */
FERRYI_POOL_LOCKED ferry_block *ferryi_block_replace(ferry_pool *pool, ferry_block *block,
                                                     ferry_block *extra, size_t requested);

/* -- the range (range.c) -- */

/* Reserves the addresses of the range. Does nothing if the backend has no ranges. Fails with the
 * backend's status, or with OUT_OF_MEMORY if there is no host memory. */
ferry_status ferryi_range_open(ferry_pool *pool);
/* Frees the range with its memory. Returns the number of bytes that the backend failed to free. */
size_t ferryi_range_close(ferry_pool *pool);
/* Does what ferryi_pool_grow() does for a large block, by mapping handles at the lowest addresses
 * where the fewest are needed. Idle memory before them becomes a part of the block. */
ferry_status ferryi_range_grow(ferry_pool *pool, struct ferryi_pool_request *request, size_t bytes,
                               ferry_block **out);
/* Does what ferryi_pool_give_back() does to the range, by unmapping handles that are wholly idle,
 * from the range's end. Counts each as a slab. Sets `*out_status` to the backend's failure, or to
 * OK. */
size_t ferryi_range_give_back(ferry_pool *pool, size_t keep_bytes, size_t want_bytes,
                              uint64_t until_ns, uint64_t *out_slabs, ferry_status *out_status);

/* -- reclaiming (reclaim.c): without the mutex -- */

/* Begin and end to return memory to the backend that is not needed elsewhere. The first function
 * returns false, and the second must not be called, while a stream is captured into a graph, if the
 * backend's `free` waits for the device: such a wait may invalidate the capture. Between the two,
 * Ferry begins no capture. */
bool ferryi_pool_begin_frees(const ferry_pool *pool);
void ferryi_pool_end_frees(const ferry_pool *pool);
/* Returns idle memory to the backend, starting with the memory that has been idle for longest.
 * Stops when at most `keep_bytes` bytes are cached, or when `want_bytes` bytes were returned. Keeps
 * slabs that queued work uses, and slabs whose last block was released after `until_ns`. Adds the
 * number of returned slabs to *out_slabs, which may be NULL. @return the number of bytes returned
 * to the backend */
size_t ferryi_pool_give_back(ferry_pool *pool, size_t keep_bytes, size_t want_bytes,
                             uint64_t until_ns, uint64_t *out_slabs);
/* Queries the driver about the last uses of the oldest pending blocks of a bin. Returns whether at
 * least one of these uses is done. */
bool ferryi_pool_ask_oldest(ferry_pool *pool, size_t bin);
/* Queries the driver about the last uses of all pending blocks. */
void ferryi_pool_ask_pending(ferry_pool *pool);
/* Blocks for at most `*wait_ns` until the queued work on at least one pending block is done.
 * Subtracts the time that it waited from `*wait_ns`. Returns false if no block was pending, or if
 * no block's work ended in time. */
bool ferryi_pool_wait_pending(ferry_pool *pool, uint64_t *wait_ns);

/* -- allocating (take.c, shortage.c): without the mutex -- */

/* Allocates a block from idle memory. Sets *out to NULL if no idle memory is suitable. */
ferry_status ferryi_pool_reuse(ferry_pool *pool, const struct ferryi_pool_request *request,
                               ferry_block **out);
/* Allocates a block from `bytes` bytes of new memory of the backend, which are at least as many as
 * the request's minimum. If they are more than the size class needs, the rest is idle. */
ferry_status ferryi_pool_grow(ferry_pool *pool, struct ferryi_pool_request *request, size_t bytes,
                              ferry_block **out);
/* Runs the steps of shortage.c to make memory available for an allocation. Must be called after
 * ferryi_pool_reuse() and ferryi_pool_grow() found no memory. */
ferry_status ferryi_pool_overcome_shortage(ferry_pool *pool, struct ferryi_pool_request *request,
                                           ferry_block **out);

/* -- failed allocations (out_of_memory.c): without the mutex -- */

/* Returns whether an allocation that found no memory would find some now, because another thread
 * has freed it since. Stores what the pool has in `request->seen`. */
bool ferryi_out_of_memory_is_over(ferry_pool *pool, struct ferryi_pool_request *request);
/* Completes the error message of an allocation that found no memory: puts how much memory was
 * requested and how much there was before the reason, and the largest holders behind it. Must be
 * called after ferryi_out_of_memory_is_over(). Returns FERRY_ERROR_OUT_OF_MEMORY. */
ferry_status ferryi_out_of_memory_fail(ferry_pool *pool, const struct ferryi_pool_request *request);

/* -- compaction (compact.c): without the mutex -- */

/* Compacts the pool. Waits for at most `*wait_ns`, and subtracts the time that it waited from
 * `*wait_ns`. Fails with FERRY_ERROR_BUSY if a compaction of the pool is running. */
ferry_status ferryi_pool_compact(ferry_pool *pool, uint64_t *wait_ns, ferry_pool_compaction *out);

/* -- what may be kept (policy.c) -- */

/* Sets the pool's limits to those of the options. The limits take effect at the next call on the
 * pool. */
void ferryi_pool_set_policy(ferry_pool *pool, const ferry_pool_options *options);
/* Returns whether the pool's limit allows the pool to allocate `bytes` more bytes from the backend.
 */
FERRYI_POOL_LOCKED bool ferryi_pool_is_within_limit(const ferry_pool *pool, size_t bytes);
/* A device counts as short of memory if less than this part of its memory is free. */
#define FERRYI_POOL_RESERVE_PART 8
/* Returns whether the backend says that its memory is still plentiful after the pool has grown by a
 * block of `need` bytes. */
bool ferryi_pool_has_plenty(const ferry_pool *pool, size_t need);
/* Frees idle memory if the pool would have too much of it after growing by a block of `need` bytes.
 * Must be called before the pool grows. The caller must not hold the pool's mutex. */
void ferryi_pool_make_room(ferry_pool *pool, size_t need);
/* Returns by how many bytes the pool's reserved memory exceeds the high-water mark. Returns 0 if no
 * high-water mark is set. */
FERRYI_POOL_LOCKED size_t ferryi_pool_excess(const ferry_pool *pool);
/* Returns the time at which the trim period ends; UINT64_MAX if the pool has no trim period. */
uint64_t ferryi_pool_next_trim(ferry_pool *pool);
/* Returns memory above the high-water mark to the backend. At the end of a trim period, also
 * returns memory that has been idle for long. Called on slow paths. The caller must not hold the
 * pool's mutex. `grown` is whether the pool has just grown or was just configured. */
void ferryi_pool_maintain(ferry_pool *pool, bool grown);

/* -- pool.c -- */

/* Checks the arguments of a public call. Fails with INVALID_ARGUMENT if the pool is NULL, or if
 * `has_other` is false, which means that a further argument is NULL. `other` is the name of that
 * argument. Fails with INVALID_STATE in the child of a fork, and in a callback that must not make
 * this call. `what` names the operation in messages, for example "take memory from". */
ferry_status ferryi_pool_check_call(const ferry_pool *pool, const char *what, bool has_other,
                                    const char *other);
/* Checks the pool like ferryi_pool_check_call(). Also checks the stream, which may be NULL. Fails
 * with WRONG_CONTEXT if the stream does not belong to the pool's context, and with INVALID_STATE if
 * it was destroyed. */
ferry_status ferryi_pool_check_stream(const ferry_pool *pool, const ferry_stream *stream,
                                      const char *what);

/* -- zero.c: without the mutex -- */

/* Sets the memory of a live block to zero after its last uses. `*point` is the last use of the
 * block's owner, and becomes a use that ends when the memory is zero. After a failure the block
 * stays live. A lost device keeps its memory from everyone, so its failure counts as success. */
FERRYI_COLD ferry_status ferryi_zero_block(ferry_block *block, ferryi_sync_point *point);
/* Called when the pool is destroyed, before its slabs are freed. Sets the blocks to zero that were
 * not released, if the pool's options say so, and waits until queued work has set released blocks
 * to zero. A device that is lost does not do that, so the host does it for host memory. */
void ferryi_zero_rest(ferry_pool *pool);

/* -- memory checkers (memory_checker.c) --
 *
 * A memory checker finds accesses to bytes that the program must not use: to idle blocks, and
 * behind the requested bytes of live ones. AddressSanitizer and Valgrind's memcheck watch memory
 * that the host can access. Tools that listen to NVTX's memory API, such as compute-sanitizer,
 * watch device memory: a slab is a heap there, and a live block a region of its requested size.
 *
 * A pool decides once, at its creation, whether a checker watches it. The threads then have no
 * caches of its blocks, so that only slow paths report blocks. A pool without a checker tests that
 * on its slow paths, and its hits cost nothing.
 */

/* Minimum number of unused bytes behind each block that the host can access. */
#define FERRYI_MEMORY_CHECKER_BYTES 64

/* Returns whether a memory checker watches the memory of pools. */
bool ferryi_memory_checker_is_attached(bool host_reaches);
/* Forbids the use of a new slab until its blocks are handed out. */
void ferryi_memory_checker_add_slab(const ferry_pool *pool, struct ferryi_slab *slab);
/* Forbids the use of a handle's memory, which was mapped, until its blocks are handed out. */
void ferryi_memory_checker_add_handle(const ferry_pool *pool, void *memory, size_t bytes);
/* Allows the use of a handle's memory, which the device is about to map or to unmap. */
void ferryi_memory_checker_remove_handle(const ferry_pool *pool, void *memory, size_t bytes);
/* Allows the use of a slab's memory, which is about to be freed. */
void ferryi_memory_checker_remove_slab(const ferry_pool *pool, struct ferryi_slab *slab);
/* Allows the use of the requested bytes of a live block, and forbids that of its other bytes. While
 * queued work of the previous owner uses the block, all of it stays accessible. */
void ferryi_memory_checker_allow(ferry_block *block);
/* Forbids the use of an idle block, whose last use is `point`. While queued work uses the block,
 * its memory stays accessible until it is handed out, merged or freed. */
void ferryi_memory_checker_forbid(ferry_block *block, ferryi_sync_point point);

/* -- block_list.c -- */

/* Logs the blocks that were not released when the pool is destroyed. */
void ferryi_pool_report_leaks(const ferry_pool *pool);

/* -- statistics.c -- */

/* Returns the total size of the longest run of adjacent idle blocks. When all queued work on these
 * blocks is done, they can be merged into one free block. */
FERRYI_POOL_LOCKED size_t ferryi_pool_largest_free(const ferry_pool *pool);

#endif
