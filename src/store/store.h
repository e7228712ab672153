/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_STORE_H
#define FERRYI_STORE_H

/*
 * A store holds the bytes of one base buffer. It has the valid map, up to one replica per place
 * (struct ferryi_place_copy), and claims, which lock the ranges that are in use. Handles (buffers
 * and views) refer to a range of a store's bytes. Handles and open scopes keep the store alive.
 *
 * A 64-bit state word contains the store's lock. This lock is a spin bit, and it protects all
 * members. The spin bit is held only for a few loads and stores. No driver call, allocation, wait
 * or callback happens while it is held. When the map has many segments or many claims are open, the
 * word has FERRYI_STORE_LONG set. A thread then locks a mutex of the context before it takes the
 * spin bit. So the other threads sleep during a long search instead of spinning. No thread holds
 * two stores' locks at once.
 *
 * While the lock is not held, another thread may change the length, the map and the addresses of
 * the replicas. A resize changes all three in one hold of the lock, under a claim on the whole
 * store. A range that was computed from a handle's count may therefore be out of date. Code that
 * claims such a range, keeps it for a view or takes a snapshot must compare it with the length.
 * This check is made under the lock. From then on the range stays valid only as long as the claim,
 * the view or the hold of the lock. The address of a replica is also read under the lock. The
 * address stays valid as long as a claim on its place, or a pin.
 *
 * A claim is HELD while it belongs to an open scope of the user. In its other states it belongs to
 * a running call, an eviction, or a scope that is being opened. Conflicts are detected by comparing
 * claims. A conflict with a HELD claim fails with BUSY. If the conflicting claim is in a different
 * state, the caller waits until the claim is removed.
 *
 * Every replica records its last write as a sync point, and the readers since that write as a set
 * of timelines (timeline.h). The sync point of a new write is stored only when its timeline is
 * ordered after the previous write. So one sync point is enough.
 */

#include <ferry/buffer.h>

#include "src/base/base.h"
#include "src/base/blocked.h"
#include "src/base/interleave.h"
#include "src/debug/site.h"
#include "src/map/valid_map.h"
#include "src/pool/pool.h"
#include "src/stream/shell.h"
#include "src/transfer/engine.h"
#include "src/transfer/traffic.h"

/* Bits of a buffer's state word. Only the thread that holds the spin bit changes the other bits. */
enum {
    FERRYI_STORE_SPIN = 1,
    FERRYI_STORE_LONG = 2,    /* lock the context's mutex before the spin bit */
    FERRYI_STORE_MUTEXED = 4, /* the thread that holds the spin bit has also locked the context's
                                 mutex for long searches */
    FERRYI_STORE_WAITERS = 8, /* a thread sleeps until a claim is removed */
    FERRYI_STORE_DEAD = 16,   /* the context was destroyed */
    FERRYI_STORE_DOOMED = 32, /* no handle is left, so removing the last claim (range lock) frees
                                 the buffer's storage */
    /* Kernels that write the buffer have not run yet (pending_calls.h). */
    FERRYI_STORE_PENDING_CALLS = 64,
    FERRYI_STORE_WATCHED = 128, /* all scopes on the buffer take the slow path, because the context
                                   has a trace or is checked (watch.h); constant */
    /* the memory is shared with other processes, and this process has not acquired it (shared.h) */
    FERRYI_STORE_AWAY = 256,
};

/* Kinds of access that a claim (range lock) can have in addition to those of enum ferry_access. */
enum { FERRYI_ACCESS_DROP = 4 /* the replica at `place` is dropped */ };

/* Thread id in the claim (range lock) of a call that is queued for a worker thread and does not run
 * yet. No thread has this id. */
#define FERRYI_THREAD_QUEUED 0

/* Place of a claim (range lock) that covers bytes but uses no replica. */
#define FERRYI_PLACE_NONE 255

enum ferryi_claim_state {
    FERRYI_CLAIM_FREE = 0,
    FERRYI_CLAIM_HELD, /* claim of an open scope */
    FERRYI_CLAIM_CALL,
    FERRYI_CLAIM_RELYING,  /* claim of a call that relies on an open write of the same stream */
    FERRYI_CLAIM_SCATTERED /* claim (range lock) of a call that uses only some ranges of the buffer;
                              `begin` and `end` enclose all these ranges */
};

/* A range of bytes of a buffer, already checked against the buffer's length. An empty range has
 * begin == end. */
struct ferryi_range {
    size_t begin, end;
};

/* One range of a buffer, as part of a set of ranges. The ranges of a set are sorted and disjoint,
 * and none is empty. */
struct ferryi_interval {
    size_t begin, end;
    bool writes;
};

struct ferryi_interval_set {
    const struct ferryi_interval *items;
    size_t count;
};

/* value of claim_counts when exactly one claim (range lock) is open, in the first slot */
#define FERRYI_CLAIM_ONE (UINT64_C(1) << 32 | 1)

/* Flags of a claim (range lock). One byte holds them, so that the hit path compares both at once.
 */
enum {
    /* a later scope or launch on the same stream committed this write */
    FERRYI_CLAIM_SEEN = 1,
    /* no room in the valid map is reserved for the write, because it was committed, or covers the
     * whole buffer (claim.h) */
    FERRYI_CLAIM_SPENT = 2
};

#define FERRYI_CLAIM_KIND                                                                          \
    {                                                                                              \
        uint8_t access, place, state, flags;                                                       \
    }

union ferryi_claim_kind {
    struct FERRYI_CLAIM_KIND each;
    uint64_t kind;
};

struct ferryi_claim {
    size_t begin, end;
    uint64_t id;
    ferryi_timeline *timeline; /* NULL means the host */
    uint64_t thread; /* id of the thread that runs the call, or FERRYI_THREAD_QUEUED. For a user's
                        scope it is set only on per-thread streams */
    union {
        struct FERRYI_CLAIM_KIND;
        uint64_t kind; /* all members of the struct above as one word, so that the hit path can
                          write or compare them in one step */
    };
    uint32_t generation; /* generation of the timeline */
    ferryi_site site;    /* call site of the scope; set only in a checked run (FERRY_DEBUG) */
    union {
        /* the claimed ranges; set only in SCATTERED claims, and owned by the caller */
        const struct ferryi_interval_set *pieces;
        /* replica that the scope uses; valid only in HELD claims with a timeline */
        struct ferryi_place_copy *copy;
    };
};

/* Value of a replica's member `transfers` after the driver has refused to page-lock the replica.
 * Ferry does not try again to page-lock this replica. */
#define FERRYI_NEVER_PINNED UINT16_MAX

struct ferryi_place_copy {
    void *pointer;
    ferry_block *block; /* block of the replica's memory; NULL if the replica has no memory or the
                           memory is borrowed */
    /* sync point of the replica's last write; 0 if no write is pending */
    ferryi_sync_point written;
    /* Reads since the replica's last write. If they were on one timeline, the sync point of the
     * newest, times 2, plus FERRYI_ONE_READER; otherwise the set of the timelines, which is 0 if
     * there is none. No timeline has the number 0. One word, so that idle buffers stay small. */
    uint64_t reads;
    uint32_t pins;      /* number of pins, which are holds (ferry_buffer_hold()) and leases at this
                           place, even if the place uses the memory of a different place */
    uint16_t transfers; /* number of transfers of at least 1/8 of the replica, counted while the
                           replica is neither pinned nor borrowed; or FERRYI_NEVER_PINNED; see
                           ferryi_store_count_transfer() */
    /* Two bytes of flags, so that idle buffers stay small. Those of the first never change. */
    bool pinned : 1; /* whether the replica was allocated as page-locked host memory */
    bool zeroes : 1; /* whether its memory is set to zero when it is released */
    bool : 0;
    bool advised : 1; /* whether the driver may have advice about this managed memory (managed.c) */
    /* Whether an access depended on the end of the replica's last use by a stream of the program.
     * If so, the next use is followed by an event at once. The next such access then waits for that
     * use alone, and not for work that was queued on the stream later. */
    bool eager : 1;
    bool reads_follow : 1; /* whether all reads since the last write are ordered after it */
};

struct ferryi_pending_calls;

/* Identities of a handle that was destroyed; no element has these values. A checked run
 * (FERRY_DEBUG) has quarantined the handle and its storage, so messages may name the buffer. In
 * other runs the handle is freed memory, of which nothing else may be read. */
#define FERRYI_BUFFER_GONE  UINT64_C(0xfe44fe44deaddead)
#define FERRYI_BUFFER_FREED UINT64_C(0xfe44fe44deadf4ee)

/* A handle of a buffer or a view, which refers to a range of a store. A store holds the bytes of
 * one buffer. The first handle is a member of the store; handles of views are allocated. */
struct ferry_buffer {
    uint64_t identity; /* identity of the handle's element, compared at every open;
                          FERRYI_BUFFER_GONE or _FREED after the handle was destroyed */
    size_t offset;     /* offset of the handle's first byte in the buffer's storage */
    /* number of elements of the handle; a resize may change it while other threads open scopes */
    _Atomic size_t count;
    struct ferryi_store *store;
    const ferry_element *element; /* interned */
    uint32_t element_bytes;
    /* FERRYI_HANDLE_OWNER for each owner of the handle, none after it was destroyed; and
     * FERRYI_HANDLE_READ_ONLY if nothing may be written through the handle, which is constant. One
     * word holds both, so that idle buffers stay small. */
    atomic_int owners;
};

/* FERRY_UPDATE and FERRY_OVERWRITE have the bit of FERRYI_HANDLE_READ_ONLY, and FERRY_READ has not.
 * Bit 0, which the other accesses have, is always 0. So the fast path tests an access against
 * `owners` in one instruction. */
enum { FERRYI_HANDLE_READ_ONLY = 2, FERRYI_HANDLE_OWNER = 4 };

/* Members that most small buffers do not need. They are allocated together: with the first replica
 * at a device, with the first lease, or when one of them is needed for a different reason. */
struct ferryi_store_cold {
    /* The buffer that messages and counters name for temporary storage through which a copy passes,
     * and which outlives the copy; NULL: it is no such storage. */
    const struct ferryi_store *stands_for;
    struct ferryi_traffic traffic;
    FERRYI_GUARDED_BY(ferryi_store_spin)
    struct ferry_lease *leases; /* list of the live leases (lease.h). Each lease counts in
                                   `references` and in the pins of a replica */
    FERRYI_GUARDED_BY(ferryi_store_spin) uint32_t lease_count;
    char *name; /* name of the buffer, or NULL; constant */
    void (*on_release)(void *memory, void *user);
    void *on_release_user;
    atomic_bool is_import; /* whether on_release is the deleter of imported memory, which may drop
                              the last reference to the context */
    struct ferryi_shared *shared; /* memory that other processes use, too; NULL: they do not, or the
                                     context was destroyed */
    ferry_stream *release_on; /* stream that waits for the last uses of wrapped memory; if NULL, the
                                 host waits */
    ferry_status lost_status;
    char *lost_text; /* reason why bytes were lost; NULL if no reason is stored */
    /* kernels whose host functions have not run yet (pending_calls.h); NULL until the first such
     * kernel */
    _Atomic(struct ferryi_pending_calls *) pending_calls;
    /* id of the buffer in the context's trace; constant; 0 if the buffer is not traced */
    _Atomic uint32_t number;
    FERRYI_GUARDED_BY(ferryi_store_spin) struct ferryi_waste *waste; /* of a checked run; or NULL */
};

typedef struct ferryi_store {
    _Atomic uint64_t word;
    union {
        struct {
            FERRYI_GUARDED_BY(ferryi_store_spin)
            /* number of open claims (range locks); index after the last slot with an open claim */
            uint32_t claim_count, claim_high;
        };
        /* claim_count and claim_high as one word; to open a claim, the fast path adds
         * FERRYI_CLAIM_ONE to this word. */
        FERRYI_GUARDED_BY(ferryi_store_spin) uint64_t claim_counts;
    };
    FERRYI_GUARDED_BY(ferryi_store_spin)
    /* number of slots in the table of claims (range locks); number of open claims that are not READ
     */
    uint32_t claim_capacity, write_claims;
    FERRYI_GUARDED_BY(ferryi_store_spin) uint32_t exists; /* set of places that have a replica */
    uint32_t shared;                                      /* set of places that use copies[0] */
    FERRYI_GUARDED_BY(ferryi_store_spin) struct ferryi_claim *claims;
    FERRYI_GUARDED_BY(ferryi_store_spin) uint64_t next_id;
    FERRYI_GUARDED_BY(ferryi_store_spin) ferryi_valid_map map;
    ferry_context *context;
    struct ferry_buffer first; /* the handle that was created with the store */
    FERRYI_GUARDED_BY(ferryi_store_spin) uint32_t references; /* number of handles and leases */
    FERRYI_GUARDED_BY(ferryi_store_spin)
    uint32_t visited;       /* value of next_id at the last visit by an eviction (evict.c) */
    uint8_t memory;         /* a ferry_memory_kind */
    uint8_t borrowed_place; /* place of the wrapped memory, or FERRYI_PLACE_NONE */
    uint8_t align_shift;    /* replicas are aligned to 1 << align_shift */
    /* Constant. `read_only`: nothing may write the wrapped memory, and every handle is read-only.
     */
    bool read_only : 1, scrub : 1, zero_on_release : 1;
    bool is_listed : 1; /* whether it was created for the context's list */
    FERRYI_GUARDED_BY(ferryi_store_spin) bool crowded;
    _Atomic ferryi_site site; /* call site that created the buffer, in a checked run (FERRY_DEBUG);
                                 FERRYI_SITE_NONE until the first handle exists */
    _Atomic(struct ferryi_store_cold *) cold; /* NULL if not allocated */
    FERRYI_GUARDED_BY(ferryi_stores_mutex)
    struct ferryi_store *next, *prev; /* the context's list, newest first */
    FERRYI_GUARDED_BY(ferryi_store_spin)
    struct ferryi_place_copy copies[]; /* indexed by place; place_count + 1 elements */
} ferryi_store;

/* What the layers above do for stores and their memory. A context has these functions from its
 * creation on; they are the only calls that go up. */
struct ferryi_store_calls {
    size_t (*evict)(void *user, ferry_pool *pool, size_t needed, bool dirty_too, uint64_t *wait_ns);
    size_t (*relocate)(void *user, ferry_pool *pool);
    /* Copies newer bytes to the memory of the program that the buffer wraps. */
    ferry_status (*bring_back)(ferryi_store *store, ferryi_timeline *timeline);
    /* Called when an allocation from a pool of the context has failed for lack of memory. Preserves
     * the thread's error message. */
    void (*out_of_memory)(ferry_context *context);
};

/* -- life -------------------------------------------------------------------------------------- */

/* Creates a store (the storage of a buffer). If `listed` is true, the store is in the context's
 * list. A listed store can be found by its name, its replicas can be evicted, and it is reported if
 * it outlives the context. */
ferry_status ferryi_store_create(ferry_context *context, size_t bytes,
                                 const ferry_buffer_options *options, bool listed,
                                 ferryi_store **out);
/* Frees the spare stores of the context (spare_stores.h). Returns whether there were any. */
bool ferryi_stores_free_spare(ferry_context *context);
/* Creates the first handle of a buffer's storage. The handle takes over the caller's reference. */
ferry_buffer *ferryi_store_open(ferryi_store *store, const ferry_element *interned, size_t count);
/* Removes the buffer's storage from the context's list, if it is listed. */
FERRYI_REQUIRES(ferryi_stores_mutex) void ferryi_store_unlist(ferryi_store *store);
/* Adds a reference to a buffer's storage, for a view or a batch that covers bytes up to `end`. The
 * buffer cannot be resized while the reference exists. If the buffer is now shorter than `end`,
 * adds no reference and returns false. */
bool ferryi_store_retain(ferryi_store *store, size_t end);
/* Drops a reference to the buffer's storage. If it was the last reference, frees the storage. If
 * claims (range locks) are still open, the removal of the last claim frees the storage instead. */
void ferryi_store_release(ferryi_store *store);
/* Returns whether the running callback may drop the last reference to the buffer's storage, and so
 * free the storage. */
bool ferryi_store_may_end(ferryi_store *store);
/* Describes an open scope of the user, such as "update_host of bytes 0 to 40". If the scope belongs
 * to a lease, adds the lease's label. In a checked run (FERRY_DEBUG) adds the call site.
 * @return the length of the text, as snprintf() returns it */
FERRYI_REQUIRES(ferryi_store_spin)
int ferryi_store_describe_scope(const ferryi_store *store, const struct ferryi_claim *claim,
                                char *text, size_t text_bytes);
/* Writes descriptions of all open scopes of a buffer, or "" if none is open. Called without the
 * buffer's lock. */
#define FERRYI_SCOPES_TEXT 800
void ferryi_store_describe_scopes(ferryi_store *store, char *text, size_t text_bytes);
/* Frees the storage of a buffer, or caches it for reuse. Called without the buffer's lock, after
 * the last reference and the last claim (range lock) were removed. */
void ferryi_store_free(ferryi_store *store);
/*
 * Adds a reference to a buffer's storage, even if only open scopes keep the storage alive. Returns
 * false if a different thread is already freeing the storage. The caller holds the mutex of the
 * context's list of buffers. The storage stays valid until this mutex is unlocked.
 */
FERRYI_REQUIRES(ferryi_stores_mutex) bool ferryi_store_retain_living(ferryi_store *store);
/* Frees the memory of the buffer's replicas but keeps the struct of the buffer's storage. Called
 * when the context is destroyed and all work is complete. */
void ferryi_store_kill(ferryi_store *store);
/* Same as ferryi_store_kill(), but does not touch the parent's memory. Called in the child of a
 * fork, where no other thread runs. */
void ferryi_store_after_fork(ferryi_store *store);
/* ferryi_after_fork_add() adds a context to the list of contexts that a fork closes in the child.
 * ferryi_after_fork_remove() removes it. */
void ferryi_after_fork_add(ferry_context *context);
void ferryi_after_fork_remove(ferry_context *context);

/* Returns the struct of the buffer's rarely used members, or NULL if it is not allocated. */
static inline struct ferryi_store_cold *
ferryi_store_cold_of(const ferryi_store *store)
{
    return atomic_load_explicit(&store->cold, memory_order_acquire);
}

/* Returns the struct of the buffer's rarely used members. The first call allocates this struct. If
 * the allocation fails, returns NULL and sets no message. Threads: any. */
struct ferryi_store_cold *ferryi_store_make_cold(ferryi_store *store);
/* Allocates the struct that contains the buffer's transfer counters. If no memory can be allocated,
 * fails with a message that begins with `what`, such as "copy to". */
ferry_status ferryi_store_make_counters(ferryi_store *store, const char *what);

static inline const char *
ferryi_store_name(const ferryi_store *store)
{
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    return cold && cold->name ? cold->name : "";
}

/* Returns the buffer that messages and counters name: the store itself, or the buffer for which
 * temporary storage stands. */
static inline const ferryi_store *
ferryi_store_shown(const ferryi_store *store)
{
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    return cold && cold->stands_for ? cold->stands_for : store;
}

/* Returns the id in traces; 0 without a trace. */
static inline uint32_t
ferryi_store_number(const ferryi_store *store)
{
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    return cold ? atomic_load_explicit(&cold->number, memory_order_relaxed) : 0;
}

/* Returns the buffer's transfer counters. Returns NULL if nothing was counted, because the buffer
 * never had a replica at a device and took part in no transfer. */
static inline struct ferryi_traffic *
ferryi_store_traffic(const ferryi_store *store)
{
    struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    return cold ? &cold->traffic : NULL;
}

/* Records in a transfer job the buffer whose bytes the job moves, and the reason for the transfer.
 * Messages, traces and counters use these members of the job. The replicas that the job uses must
 * already exist. `offset` is the position of the job's first byte in the buffer, or SIZE_MAX if the
 * position is unknown. */
static inline void
ferryi_store_name_job(ferryi_store *store, struct ferryi_transfer_job *job, const char *reason,
                      size_t offset)
{
    job->buffer = ferryi_store_name(store);
    job->reason = reason;
    job->traffic = ferryi_store_traffic(store);
    job->id = ferryi_store_number(store);
    job->offset = offset;
}

static inline size_t
ferryi_store_align(const ferryi_store *store)
{
    return (size_t)1 << store->align_shift;
}

/* Return the status and the reason with which bytes of a buffer were lost. Called under the
 * buffer's lock; `cold` may be NULL. */
static inline ferry_status
ferryi_store_lost_status(const struct ferryi_store_cold *cold)
{
    return cold && cold->lost_status ? cold->lost_status : FERRY_ERROR_DEVICE_LOST;
}

static inline const char *
ferryi_store_lost_text(const struct ferryi_store_cold *cold)
{
    if (cold && cold->lost_text)
        return cold->lost_text;
    return ferryi_store_lost_status(cold) == FERRY_ERROR_DEVICE_LOST
               ? "the device that had it is lost"
               : "there was no memory to keep the reason";
}

/* -- the lock ---------------------------------------------------------------------------------- */

void ferryi_store_lock_slow(ferryi_store *store);
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_store_unlock_slow(ferryi_store *store, uint64_t word);

FERRYI_ACQUIRES(ferryi_store_spin)
static inline void
ferryi_store_lock(ferryi_store *store)
{
    uint64_t idle = 0;
    FERRYI_INTERLEAVE();
    if (!atomic_compare_exchange_strong_explicit(&store->word, &idle, FERRYI_STORE_SPIN,
                                                 memory_order_acquire, memory_order_relaxed))
        ferryi_store_lock_slow(store);
    ferryi_lock_is_taken(FERRYI_CLASS(ferryi_store_spin));
}

FERRYI_RELEASES(ferryi_store_spin)
static inline void
ferryi_store_unlock(ferryi_store *store)
{
    uint64_t word = atomic_load_explicit(&store->word, memory_order_relaxed);
    if (word == FERRYI_STORE_SPIN && !store->crowded)
        atomic_store_explicit(&store->word, 0, memory_order_release);
    else
        ferryi_store_unlock_slow(store, word);
    ferryi_lock_is_released(FERRYI_CLASS(ferryi_store_spin));
    FERRYI_INTERLEAVE();
}

/* Unlocks the buffer, and wakes the threads that wait for the removal of a claim (range lock). */
FERRYI_RELEASES(ferryi_store_spin) void ferryi_store_unlock_waking(ferryi_store *store);

/* Unlocks the buffer, and sleeps until a claim (range lock) is removed. `behind` is the thread that
 * runs the call for which this thread waits; NULL if it waits for a scope. Returns false if the
 * deadline passes before a claim is removed. A deadline of 0 means no deadline. */
FERRYI_RELEASES(ferryi_store_spin)
bool ferryi_store_unlock_and_park(ferryi_store *store, const struct ferryi_runner *behind,
                                  uint64_t deadline_ns);

static inline bool
ferryi_store_is_dead(const ferryi_store *store)
{
    return atomic_load_explicit(&store->word, memory_order_relaxed) & FERRYI_STORE_DEAD;
}

/* Returns whether the memory is that of other processes at the moment. */
static inline bool
ferryi_store_is_away(const ferryi_store *store)
{
    return atomic_load_explicit(&store->word, memory_order_relaxed) & FERRYI_STORE_AWAY;
}

/* Returns whether ranges of the buffer can be claimed: its context lives, and no other process has
 * its memory. */
static inline bool
ferryi_store_is_usable(const ferryi_store *store)
{
    return !(atomic_load_explicit(&store->word, memory_order_relaxed) &
             (FERRYI_STORE_DEAD | FERRYI_STORE_AWAY));
}

/* Fails because the buffer is not usable. `reason` is the call. */
ferry_status ferryi_store_fail_unusable(const ferryi_store *store, const char *reason);

/* Returns the open claim (range lock) that follows `claim` in the table, or the first one if
 * `claim` is NULL. Returns NULL if there is none. */
FERRYI_REQUIRES(ferryi_store_spin)
static inline struct ferryi_claim *
ferryi_claim_next(const ferryi_store *store, struct ferryi_claim *claim)
{
    if (store->claim_high == 0)
        return NULL; /* there may be no table */
    struct ferryi_claim *next = claim ? claim + 1 : store->claims;
    const struct ferryi_claim *end = store->claims + store->claim_high;
    while (next < end && next->state == FERRYI_CLAIM_FREE)
        next++;
    return next < end ? next : NULL;
}

/* Visits the open claims of a buffer, which is locked. */
#define FERRYI_EACH_CLAIM(store, claim)                                                            \
    for (struct ferryi_claim *claim = ferryi_claim_next(store, NULL); claim;                       \
         claim = ferryi_claim_next(store, claim))

/* Returns the number of the user's open scopes on the buffer. The range locks of running calls do
 * not count. */
FERRYI_REQUIRES(ferryi_store_spin)
static inline uint32_t
ferryi_store_scopes(const ferryi_store *store)
{
    uint32_t scopes = 0;
    FERRYI_EACH_CLAIM (store, claim)
        scopes += claim->state == FERRYI_CLAIM_HELD;
    return scopes;
}

/* Returns whether the buffer's storage has neither a reference nor a claim (range lock). */
FERRYI_REQUIRES(ferryi_store_spin)
static inline bool
ferryi_store_is_over(const ferryi_store *store)
{
    return store->claim_count == 0 &&
           (atomic_load_explicit(&store->word, memory_order_relaxed) & FERRYI_STORE_DOOMED);
}

/* Takes the buffer's lock only if the buffer's state word is 0, and returns whether it did. A word
 * of 0 means that no thread waits to be woken, and that the buffer has few segments and range
 * locks. It also means that removing a range lock does not free the buffer's storage. The fast path
 * of scopes uses this function. */
FERRYI_TRY_ACQUIRES(true, ferryi_store_spin)
FERRYI_INLINE bool
ferryi_store_lock_plain(ferryi_store *store)
{
    uint64_t idle = 0;
    FERRYI_INTERLEAVE();
    return atomic_compare_exchange_strong_explicit(&store->word, &idle, FERRYI_STORE_SPIN,
                                                   memory_order_acquire, memory_order_relaxed);
}

FERRYI_RELEASES(ferryi_store_spin)
FERRYI_INLINE void
ferryi_store_unlock_plain(ferryi_store *store)
{
    ferryi_lock_is_released(FERRYI_CLASS(ferryi_store_spin));
    atomic_store_explicit(&store->word, 0, memory_order_release);
    FERRYI_INTERLEAVE();
}

static inline bool
ferryi_store_is_watched(const ferryi_store *store)
{
    return atomic_load_explicit(&store->word, memory_order_relaxed) & FERRYI_STORE_WATCHED;
}

/* -- copies ------------------------------------------------------------------------------------ */

/*
 * Lock class for what an open claim (range lock) keeps constant: the length of the buffer, and the
 * address of the claimed replica. The static analysis of locks cannot see claims. Therefore
 * functions that rely on their caller's claim begin with ferryi_claim_is_held().
 */
FERRYI_LOCK_CLASS(ferryi_claim_lock);
#define ferryi_claim_is_held() ferryi_lock_is_held(FERRYI_CLASS(ferryi_claim_lock))

FERRYI_REQUIRES(ferryi_claim_lock)
static inline size_t
ferryi_claimed_bytes(const ferryi_store *store)
{
    ferryi_lock_is_held(FERRYI_CLASS(ferryi_store_spin));
    return store->map.bytes;
}

/* Returns the place whose memory the replica at `place` uses: 0 if it shares the host's memory,
 * otherwise `place`. */
static inline int
ferryi_store_home(const ferryi_store *store, int place)
{
    return (store->shared >> place & 1) ? 0 : place;
}

FERRYI_REQUIRES(ferryi_claim_lock)
static inline const struct ferryi_place_copy *
ferryi_claimed_copy(const ferryi_store *store, int place)
{
    ferryi_lock_is_held(FERRYI_CLASS(ferryi_store_spin));
    return &store->copies[ferryi_store_home(store, place)];
}

FERRYI_REQUIRES(ferryi_store_spin)
static inline struct ferryi_place_copy *
ferryi_store_copy(ferryi_store *store, int place)
{
    return &store->copies[ferryi_store_home(store, place)];
}

static inline bool
ferryi_store_same_memory(const ferryi_store *store, int a, int b)
{
    return a == b || ((store->shared >> a & 1) && (store->shared >> b & 1));
}

/* Returns the places that use the same memory as the replica at `place`, including `place`. */
static inline ferryi_places
ferryi_store_sharers(const ferryi_store *store, int place)
{
    return (store->shared >> place & 1) ? store->shared : FERRYI_PLACE_BIT(place);
}

/* Makes memory that the pools do not own the replica at `place`, which exists from then on.
 * `written` is its last write. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_store_borrow(ferryi_store *store, int place, void *memory, ferryi_sync_point written,
                         bool read_only);
/* Allocates memory for the replica at `place` if it has none. Marks the replica as existing.
 * Earlier work may still use the new block. If `timeline` is not NULL, the first use of the block
 * will be on `timeline`, so only `timeline` waits for this work. Called without the buffer's lock.
 */
ferry_status ferryi_store_reserve(ferryi_store *store, int place, ferryi_timeline *timeline);
/* ferryi_store_take() and ferryi_store_install() allocate memory for a replica in two steps.
 * ferryi_store_take() allocates a block of `bytes` without the buffer's lock.
 * ferryi_store_install() is called under the lock, and stores the block in the replica. If a
 * different thread has already installed a block, the replica keeps the installed block.
 * ferryi_store_install() returns whether the replica now has memory. */
ferry_status ferryi_store_take(ferryi_store *store, int place, size_t bytes,
                               ferryi_timeline *timeline, struct ferryi_place_copy *out);
/* Like ferryi_store_take() for an upload, but fails rather than wait, evict or make the pool grow
 * by more than a few blocks. */
ferry_status ferryi_store_take_spare(ferryi_store *store, int place, size_t bytes,
                                     struct ferryi_place_copy *out);
/* Stores a new block in a replica, unless a resize has made the block too small or the replica
 * already has memory. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_store_install(ferryi_store *store, int place, struct ferryi_place_copy *fresh);
/* Installs in the replica at `place`, which has no memory, a block of host memory that this
 * thread's cache of the pool holds. Returns false and changes nothing if there is none, or if the
 * replica needs other memory. Takes no lock and makes no driver call. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_store_install_cached(ferryi_store *store, int place);
/* Removes the memory from a replica and returns it. The caller then passes the memory to
 * ferryi_store_give_back() without the buffer's lock. The memory is reused only after its uses are
 * complete. */
FERRYI_REQUIRES(ferryi_store_spin)
struct ferryi_place_copy ferryi_store_detach(ferryi_store *store, int place);
void ferryi_store_give_back(ferry_context *context, struct ferryi_place_copy *copy);

/* Describes the replica at `place`, from byte `begin` on, as memory for the transfer engine. */
FERRYI_REQUIRES(ferryi_claim_lock)
struct ferryi_memory ferryi_store_memory(ferryi_store *store, int place, size_t begin);

/* Returns the device to which Ferry passes hints about the host's use of managed memory: the first
 * device that accepts hints. Returns NULL if no device does. */
ferryi_device *ferryi_store_managing_device(const ferry_context *context);
/* Counts `bytes` transferred between the host replica and a device. A host replica that is
 * transferred often is page-locked, because transfers of pageable memory must pass through the
 * staging ring. Called without the buffer's lock, by a caller that has a claim. Preserves the last
 * error message. */
void ferryi_store_count_transfer(ferryi_store *store, size_t bytes);

#define FERRYI_ONE_READER UINT64_C(1)

/* Uses of a replica that later work may have to wait for: the sync point of the last write; that of
 * the newest read if all reads were on one timeline, otherwise the set of the readers' timelines.
 */
struct ferryi_uses {
    ferryi_sync_point written, read;
    uint64_t readers;
};

static inline struct ferryi_uses
ferryi_copy_uses(const struct ferryi_place_copy *copy)
{
    const bool one = copy->reads & FERRYI_ONE_READER;
    return (struct ferryi_uses){copy->written, one ? copy->reads >> 1 : 0, one ? 0 : copy->reads};
}

FERRYI_REQUIRES(ferryi_store_spin)
static inline struct ferryi_uses
ferryi_store_uses(ferryi_store *store, int place)
{
    return ferryi_copy_uses(ferryi_store_copy(store, place));
}

/* Returns whether later work on `timeline` is ordered after all reads of the replica. */
static inline bool
ferryi_copy_reads_are_ordered(const ferryi_order *order, const ferryi_timeline *timeline,
                              const struct ferryi_place_copy *copy)
{
    const struct ferryi_uses uses = ferryi_copy_uses(copy);
    return copy->reads == 0 ||
           (uses.read ? ferryi_sync_point_is_ordered(order, timeline, uses.read)
                      : ferryi_timelines_are_ordered(order, timeline, uses.readers));
}

/* Records a write of the replica. `timeline`, whose sync point is `point`, is ordered after the
 * write before. A claim (range lock) that is open besides that of the writer may be that of a read
 * of other bytes, which is not ordered after this write. */
FERRYI_REQUIRES(ferryi_store_spin)
static inline void
ferryi_store_set_written(ferryi_store *store, struct ferryi_place_copy *copy,
                         const ferryi_timeline *timeline, ferryi_sync_point point)
{
    copy->written = point;
    if (ferryi_copy_reads_are_ordered(&store->context->order, timeline, copy))
        copy->reads = 0;
    copy->reads_follow = copy->reads == 0 && store->claim_count <= 1;
}

/* Records a read of the replica. While all reads are on one timeline, the point of the newest is
 * known, so that a write need not wait for later work of that stream. */
FERRYI_REQUIRES(ferryi_store_spin)
static inline void
ferryi_copy_add_read(struct ferryi_place_copy *copy, ferryi_sync_point point)
{
    const uint64_t one = point << 1 | FERRYI_ONE_READER;
    if (copy->reads == one)
        return;
    const struct ferryi_uses uses = ferryi_copy_uses(copy);
    const unsigned number = ferryi_sync_point_number(point),
                   before = ferryi_sync_point_number(uses.read);
    /* The greater point is the later one: another thread may have closed a later scope first. */
    if (copy->reads == 0 || (uses.read && before == number))
        copy->reads = copy->reads > one ? copy->reads : one;
    else
        copy->reads =
            uses.readers | (uses.read ? UINT64_C(1) << before : 0) | UINT64_C(1) << number;
}

/* Returns whether work on `timeline` runs after these uses. NULL means work of the host. */
bool ferryi_uses_are_ordered(const ferryi_order *order, const ferryi_timeline *timeline,
                             const struct ferryi_uses *uses);
/* Returns whether a use on a stream of the program may still be running, as far as Ferry knows
 * without asking the driver. */
bool ferryi_uses_of_users_are_pending(const ferryi_order *order, const struct ferryi_uses *uses);
/* Orders later work on `timeline` after the uses. If `timeline` is NULL, this thread waits for the
 * uses; unless `out_lost` is NULL, it skips readers on lost devices, and adds them to `*out_lost`.
 * Called without the buffer's lock. */
ferry_status ferryi_uses_wait(ferryi_order *order, ferryi_timeline *timeline,
                              const struct ferryi_uses *uses, uint64_t *out_lost);

/* Orders later work on `timeline` after the last write of the replica and, if `writes` is true,
 * also after the replica's readers. If `timeline` is NULL, this thread waits for the same uses
 * instead. Called without the buffer's lock. */
ferry_status ferryi_store_order(ferryi_store *store, int place, ferryi_timeline *timeline,
                                bool writes);
/* Does the same with uses that the caller has read, or reads them itself if `seen` is NULL. */
ferry_status ferryi_store_order_seen(ferryi_store *store, int place, ferryi_timeline *timeline,
                                     bool writes, const struct ferryi_uses *seen);
/* Sets `*out` to the timeline of a transfer of the buffer, as ferryi_engine_timeline() does. If the
 * stream cannot be opened, the message names the buffer and the call, whose name is `what`. */
ferry_status ferryi_store_timeline(const ferryi_store *store, int target_place, int source_place,
                                   const char *what, ferryi_timeline **out);
/* Removes the completed uses from the replica's record of uses, and also the readers in the set
 * `lost`. Called after the host has waited for the uses. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_store_forget_done(ferryi_store *store, int place, uint64_t lost);
/* ferryi_store_note_read() records that the work queued on `timeline` so far reads the replica.
 * ferryi_store_note_write() records that this work writes the replica. `timeline` has a number in
 * the context's table of timelines. Called without the buffer's lock. */
void ferryi_store_note_read(ferryi_store *store, int place, ferryi_timeline *timeline);
void ferryi_store_note_write(ferryi_store *store, int place, ferryi_timeline *timeline);
/* Same as ferryi_store_note_write(), but is called under the buffer's lock, and returns the sync
 * point of the write. If `timeline` does not wait for the replica's last write, changes nothing,
 * stores the sync point of that last write in `*out_other` and returns 0. The caller must then
 * unlock the buffer, call ferryi_store_await_write() and try again. */
FERRYI_REQUIRES(ferryi_store_spin)
ferryi_sync_point ferryi_store_try_note_write(ferryi_store *store, int place,
                                              ferryi_timeline *timeline,
                                              ferryi_sync_point *out_other);
void ferryi_store_await_write(ferryi_store *store, int place, ferryi_timeline *timeline,
                              ferryi_sync_point other);
/* Same as ferryi_store_note_read(), under the buffer's lock. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_store_add_reader(ferryi_store *store, int place, ferryi_timeline *timeline);

/* Finds the first part of the range whose bytes are current at one of `places` and nowhere else.
 * Returns false if there is no such part. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_store_find_only_at(const ferryi_store *store, struct ferryi_range range,
                               ferryi_places places, struct ferryi_range *out);
/* Returns the places at which all bytes of a range are current. Returns none if bytes of the range
 * were never written or are lost, or if the buffer ends before them. */
ferryi_places ferryi_store_common_places(ferryi_store *store, struct ferryi_range range);
/* Marks the range as lost at `place`. Reads of bytes that were current only at `place` then fail
 * with `status` and `text`, until the bytes are overwritten. `text` may be NULL. Called without the
 * buffer's lock, and possibly on a device's thread. */
void ferryi_store_lose(ferryi_store *store, int place, size_t begin, size_t end,
                       ferry_status status, const char *text);
/* Does the same for the bytes at all places: the value of the range is lost. */
void ferryi_store_lose_value(ferryi_store *store, struct ferryi_range range, ferry_status status,
                             const char *text);

/* Marks all bytes of the buffer as lost at `place`, after a call failed with DEVICE_LOST. Changes
 * nothing if `place` is the host, or if a callback of the program returned this status. */
FERRYI_REQUIRES(ferryi_claim_lock) void ferryi_store_note_loss(ferryi_store *store, int place);
/* Marks the whole host replica as lost. Called before the host overwrites a range, if a device was
 * lost while its work on the host replica was still queued. It is unknown how much of that work was
 * done. Bytes become valid again when they are overwritten. */
FERRYI_REQUIRES(ferryi_claim_lock)
ferry_status ferryi_store_give_host_copy_up(ferryi_store *store);
/* Returns which devices are lost, after a transfer between two places failed with DEVICE_LOST.
 * Queries the devices at both places, and returns each one that reports the loss. If no device
 * reports it, returns the first of the two places that is a device, or the host if none is.
 * Preserves the last error message. */
ferryi_places ferryi_lost_places(ferry_context *context, int first, int second);
/* Returns whether bytes of the range are lost. The range may end after the end of the buffer. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_store_has_lost(const ferryi_store *store, struct ferryi_range range);
/* Fails because the operation `reason` needs bytes whose value was lost. The returned status and
 * the message were stored in the buffer when the bytes were lost. */
ferry_status ferryi_store_fail_lost(ferryi_store *store, struct ferryi_range range,
                                    const char *reason);

/* Reserves room in the valid map for `count` changes that will follow (see valid_map.h). If the
 * function fails, it reserves no room. Called without the buffer's lock. */
ferry_status ferryi_store_reserve_changes(ferryi_store *store, uint32_t count);
/* Applies a change, which is either FORGET or LOSE, to the valid map. If `room` is true, the caller
 * has reserved room in the map for one change of the range, and this function uses or releases this
 * room. If `room` is false, the change applies to the whole map, which needs no room. Changes
 * nothing if the range is empty. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_store_withdraw(ferryi_store *store, int place, enum ferryi_change change, size_t begin,
                           size_t end, bool room);

#endif
