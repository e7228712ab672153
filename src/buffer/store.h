/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_STORE_H
#define FERRYI_STORE_H

/*
 * The store: the bytes of one base buffer. It holds the valid map, up to one copy per place, and
 * the claims of those who use ranges of it now. Handles (buffers and views) are windows on a store
 * and keep it alive; so do open scopes.
 *
 * One 64-bit word with a spin bit guards everything in it for a few loads and stores; no driver
 * call, allocation, wait or callback happens under it. When the map has many segments or many
 * claims are open, the word says so, and a mutex of the context is taken before the spin bit, so
 * that no thread spins through long walks. No thread holds two stores' locks at once.
 *
 * Between two holds of the lock everything that it guards may change: the length, the map and the
 * addresses of the copies. A resize changes all three at once, in one hold of the lock and under a
 * claim on the whole store. So there is one rule. A range that was computed from a handle's count
 * is a request. It is compared with the length under the lock, by whoever claims it, retains it for
 * a view or takes a snapshot, and from then on only the claim, the view or the lock keeps it true.
 * Likewise the address of a copy is read under the lock, and holds as long as a claim on its place,
 * or a pin.
 *
 * A claim is an open scope of a user (HELD), a scope being opened (MOVING), or a call that opens
 * and closes its own (CALL). It is what conflicts are found by. Claims that a user holds make
 * others fail with BUSY; the others are waited for.
 *
 * Every copy remembers its last write as a sync point and its readers since as a set of timelines
 * (timeline.h). A new write's sync point is set only when its timeline is ordered after the old
 * one, so one sync point is enough.
 */

#include <ferry/buffer.h>

#include "src/base/base.h"
#include "src/base/interleave.h"
#include "src/debug/site.h"
#include "src/map/valid_map.h"
#include "src/pool/pool.h"
#include "src/stream/shell.h"
#include "src/transfer/engine.h"
#include "src/transfer/traffic.h"

/* Bits of the word. Only who holds the spin bit changes the others. */
enum {
    FERRYI_STORE_SPIN = 1,
    FERRYI_STORE_LONG = 2,           /* take the context's mutex first */
    FERRYI_STORE_MUTEXED = 4,        /* the holder has that mutex */
    FERRYI_STORE_WAITERS = 8,        /* a thread is parked until a claim goes */
    FERRYI_STORE_DEAD = 16,          /* the context was destroyed */
    FERRYI_STORE_DOOMED = 32,        /* no handle is left: it goes with the last claim */
    FERRYI_STORE_PENDING_CALLS = 64, /* kernels that write it are still to run (pending_calls.h) */
    FERRYI_STORE_GUARDED = 128, /* of a checked run: everything takes the slow path; constant */
    FERRYI_STORE_TRACED = 256 /* its scopes are traced, so that they miss the hit path; constant */
};

/* What a claim does beside the public accesses. */
enum { FERRYI_ACCESS_DROP = 4 /* the copy at `place` is given up */ };

/* No thread has this identity: the call waits in the queue of a helper thread. */
#define FERRYI_THREAD_QUEUED 0

#define FERRYI_PLACE_NONE    255 /* a claim that is on bytes, not on a copy */

enum ferryi_claim_state {
    FERRYI_CLAIM_FREE = 0,
    FERRYI_CLAIM_MOVING,
    FERRYI_CLAIM_HELD,
    FERRYI_CLAIM_CALL,
    FERRYI_CLAIM_RELYING,  /* a call's, that has been prepared on top of an open write of the same
                              stream */
    FERRYI_CLAIM_SCATTERED /* a call's, on the pieces of a list only: begin and end are just their
                              bounds */
};

/* A checked range in bytes of the store. Empty ranges have begin == end. */
struct ferryi_range {
    size_t begin, end;
};

/* Pieces of a store, sorted, not empty, apart. */
struct ferryi_span {
    size_t begin, end;
    bool writes;
};

struct ferryi_spans {
    const struct ferryi_span *items;
    size_t count;
};

#define FERRYI_CLAIM_SHARES 32
#define FERRYI_CLAIM_ONE                                                                           \
    (UINT64_C(1) << 32 | 1) /* one open claim in the first slot, as claim_counts stores it */

#define FERRYI_CLAIM_KIND                                                                          \
    {                                                                                              \
        uint8_t access, place, state;                                                              \
        bool same_timeline_seen; /* a later scope or launch on the same stream made this write     \
                                    count */                                                       \
        uint32_t shares;         /* bit n: share n is open; see scope.c */                         \
    }

union ferryi_claim_kind {
    struct FERRYI_CLAIM_KIND each;
    uint64_t kind;
};

struct ferryi_claim {
    size_t begin, end;
    uint64_t id;
    ferryi_timeline *timeline; /* NULL: the host */
    uint64_t thread; /* the thread whose call this is, or FERRYI_THREAD_QUEUED; for the user's
                        scopes only on per-thread streams */
    union {
        struct FERRYI_CLAIM_KIND;
        uint64_t kind; /* all of these, so that the hit path writes and compares them at once */
    };
    uint32_t generation; /* of the timeline */
    ferryi_site site;    /* of a scope of a checked run; else nothing */
    union {
        const struct ferryi_spans *pieces; /* of a SCATTERED claim only; the claimer's */
        struct ferryi_place_copy *copy;    /* of a HELD claim of a timeline: what it uses */
    };
};

struct ferryi_place_copy {
    void *pointer;
    ferry_block *block;        /* NULL: none, or borrowed */
    ferryi_sync_point written; /* 0: nothing pending */
    uint64_t readers;          /* timelines that read since the write */
    uint32_t pins; /* holds and leases of this place, also where it shares the memory of another */
    uint16_t crossings; /* of most of it, while it is neither pinned nor borrowed; see
                           ferryi_store_crossed() */
    bool pinned;        /* allocated as page-locked host memory */
    bool eager;         /* its last use had to be waited for: record at the next close */
};

struct ferryi_pending_calls;

#define FERRYI_BUFFER_GONE                                                                         \
    UINT64_C(0xfe44fe44deaddead) /* of what a checked run keeps; no element's identity */

/* A window on a store. The first one lives in the store itself, views are allocated. */
struct ferry_buffer {
    uint64_t identity; /* of the element: compared on every open; FERRYI_BUFFER_GONE when the handle
                          was destroyed */
    size_t offset;     /* bytes in the store */
    _Atomic size_t count; /* elements; a resize may change it while others open */
    struct ferryi_store *store;
    const ferry_element *element; /* interned */
    uint32_t element_bytes;
    atomic_int references; /* owners; 0: the handle was destroyed */
};

/* What idle stores without a name do not have. It is made with the first replica at a device, with
 * the first lease, or when a member is needed. */
struct ferryi_store_extra {
    struct ferryi_traffic traffic;
    FERRYI_GUARDED_BY(ferryi_store_spin)
    struct ferry_lease *leases; /* live ones (lease.h), each among the references and the pins */
    FERRYI_GUARDED_BY(ferryi_store_spin) uint32_t lease_count;
    char *name; /* NULL: none; constant */
    void (*on_release)(void *memory, void *user);
    void *on_release_user;
    atomic_bool
        is_import; /* on_release is a deleter, which may give back the last owner of the context */
    ferry_stream *release_on; /* NULL: the host waits for the last uses of wrapped memory */
    ferry_status lost_status;
    char *lost_text; /* why bytes were lost; NULL: none were */
    _Atomic(struct ferryi_pending_calls *)
        pending_calls; /* of kernels, still to run (pending_calls.h); NULL: never any */
    _Atomic uint32_t
        number; /* the id in the trace of its context, constant; 0: there is no trace */
};

typedef struct ferryi_store {
    _Atomic uint64_t word;
    union {
        struct {
            FERRYI_GUARDED_BY(ferryi_store_spin)
            uint32_t claim_count, claim_high; /* open; slots up to the last open one */
        };
        FERRYI_GUARDED_BY(ferryi_store_spin)
        uint64_t claim_counts; /* both, for the hit path: FERRYI_CLAIM_ONE each time */
    };
    FERRYI_GUARDED_BY(ferryi_store_spin)
    uint32_t claim_capacity, write_claims;                /* room; open ones that are no READ */
    FERRYI_GUARDED_BY(ferryi_store_spin) uint32_t exists; /* places with a copy, logically */
    uint32_t shared;                                      /* places that use copies[0] */
    FERRYI_GUARDED_BY(ferryi_store_spin) struct ferryi_claim *claims;
    FERRYI_GUARDED_BY(ferryi_store_spin) uint64_t next_id;
    FERRYI_GUARDED_BY(ferryi_store_spin) ferryi_valid_map map;
    ferry_context *context;
    struct ferry_buffer first;                                /* the handle it was created with */
    FERRYI_GUARDED_BY(ferryi_store_spin) uint32_t references; /* handles on it, and leases */
    FERRYI_GUARDED_BY(ferryi_store_spin)
    uint32_t visited;       /* next_id when eviction last came by (evict.c) */
    uint8_t memory;         /* ferry_memory_kind */
    uint8_t borrowed_place; /* FERRYI_PLACE_NONE */
    uint8_t align_shift;    /* copies are aligned to 1 << this */
    bool read_only, scrub;
    FERRYI_GUARDED_BY(ferryi_store_spin) bool crowded;
    _Atomic ferryi_site
        site; /* NONE until it has its first handle; who made it, in a checked run */
    _Atomic(struct ferryi_store_extra *) extra; /* NULL: none */
    FERRYI_GUARDED_BY(ferryi_stores_mutex)
    struct ferryi_store *next, *prev; /* the context's list, youngest first */
    FERRYI_GUARDED_BY(ferryi_store_spin)
    struct ferryi_place_copy copies[]; /* by place; place_count + 1 */
} ferryi_store;

/* -- life -------------------------------------------------------------------------------------- */

/* A listed store is found by its name, evicted from, and reported when it outlives the context. */
ferry_status ferryi_store_create(ferry_context *context, size_t bytes,
                                 const ferry_buffer_options *options, bool listed,
                                 ferryi_store **out);
/* Its first handle, which takes over the reference. */
ferry_buffer *ferryi_store_open(ferryi_store *store, const ferry_element *interned, size_t count);
/* Out of the list, if it is in it. */
FERRYI_REQUIRES(ferryi_stores_mutex) void ferryi_store_unlist(ferryi_store *store);
/* Stores that wait to be used again go, once the context is closed; the caller holds it. */
void ferryi_stores_clear(ferry_context *context);
/* Count a view or a batch that covers bytes up to `end`. From then on the store cannot be resized.
 * False, and not counted, when it has fewer bytes by now. */
bool ferryi_store_retain(ferryi_store *store, size_t end);
/* Drops a reference; the last one frees the store, or leaves that to the last open scope. */
void ferryi_store_release(ferryi_store *store);
/* In a callback: may the last reference go, which ends the store? */
bool ferryi_store_may_end(ferryi_store *store);
/* An open scope of the user's, such as "update_host of bytes 0 to 40", also who holds it when it is
 * a lease, and in a checked run the call site. @return as snprintf() */
FERRYI_REQUIRES(ferryi_store_spin)
int ferryi_store_describe_scope(const ferryi_store *store, const struct ferryi_claim *claim,
                                char *text, size_t text_bytes);
/* Likewise all of them; "" for none. Without the lock. */
#define FERRYI_SCOPES_TEXT 800
void ferryi_store_describe_scopes(ferryi_store *store, char *text, size_t text_bytes);
/* Called when a claim went and ferryi_store_is_over(), without the lock. Its memory may be kept for
 * the next store. */
void ferryi_store_free(ferryi_store *store);
/*
 * A reference on a listed store, also on one that only open scopes keep. False: another thread is
 * freeing it, or about to, and takes it out of the list in the end. The caller holds the mutex of
 * the list, which keeps it until then.
 */
FERRYI_REQUIRES(ferryi_stores_mutex) bool ferryi_store_retain_living(ferryi_store *store);
/* The context is being destroyed: memory goes, the shell stays. All work is done. */
void ferryi_store_kill(ferryi_store *store);
/* This is the child of a fork: as kill, without touching the memory of the parent. No other thread
 * runs. */
void ferryi_store_inherit(ferryi_store *store);

/* NULL: none. */
static inline struct ferryi_store_extra *
ferryi_store_extra_of(const ferryi_store *store)
{
    return atomic_load_explicit(&store->extra, memory_order_acquire);
}

/* Made at the first call; NULL, without a message, when there is no memory. Any thread. */
struct ferryi_store_extra *ferryi_store_make_extra(ferryi_store *store);
/* The same for what counts transfers. Without memory fails as `what`, such as "copy to", of this
 * buffer. */
ferry_status ferryi_store_make_counters(ferryi_store *store, const char *what);

static inline const char *
ferryi_store_name(const ferryi_store *store)
{
    const struct ferryi_store_extra *extra = ferryi_store_extra_of(store);
    return extra && extra->name ? extra->name : "";
}

/* The id in traces; 0 outside of them. */
static inline uint32_t
ferryi_store_number(const ferryi_store *store)
{
    const struct ferryi_store_extra *extra = ferryi_store_extra_of(store);
    return extra ? atomic_load_explicit(&extra->number, memory_order_relaxed) : 0;
}

/* NULL: the store has never had a replica at a device, nor taken part in a transfer, so nothing was
 * counted. */
static inline struct ferryi_traffic *
ferryi_store_traffic(const ferryi_store *store)
{
    struct ferryi_store_extra *extra = ferryi_store_extra_of(store);
    return extra ? &extra->traffic : NULL;
}

/* Whose bytes a job moves, and why: for messages, traces and counters. The replicas that the job
 * uses exist. `offset` is where its first byte lies in the store; SIZE_MAX: unknown. */
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

/* Why bytes were lost, under the lock; `extra` may be NULL. */
static inline const char *
ferryi_store_lost_text(const struct ferryi_store_extra *extra)
{
    if (extra && extra->lost_text)
        return extra->lost_text;
    bool of_device = !extra || !extra->lost_status || extra->lost_status == FERRY_ERROR_DEVICE_LOST;
    return of_device ? "the device that had it is lost" : "there was no memory to keep the reason";
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

/* Unlock, and wake those who wait for a claim to go. */
FERRYI_RELEASES(ferryi_store_spin) void ferryi_store_unlock_waking(ferryi_store *store);

/* The context was destroyed; the lock is free afterwards. */
void ferryi_store_mark_dead(ferryi_store *store);

/* Unlock, and sleep until some claim has gone, or the deadline (0: none) has passed: false. */
FERRYI_RELEASES(ferryi_store_spin)
bool ferryi_store_unlock_and_park(ferryi_store *store, uint64_t deadline_ns);

static inline bool
ferryi_store_is_dead(const ferryi_store *store)
{
    return atomic_load_explicit(&store->word, memory_order_relaxed) & FERRYI_STORE_DEAD;
}

/* How many scopes of the user are open. Claims of running calls are none of his business. */
FERRYI_REQUIRES(ferryi_store_spin)
static inline uint32_t
ferryi_store_scopes(const ferryi_store *store)
{
    uint32_t scopes = 0;
    for (uint32_t slot = 0; slot < store->claim_high; slot++)
        scopes += store->claims[slot].state == FERRYI_CLAIM_HELD;
    return scopes;
}

/* Whether no handle and no claim is left. */
FERRYI_REQUIRES(ferryi_store_spin)
static inline bool
ferryi_store_is_over(const ferryi_store *store)
{
    return store->claim_count == 0 &&
           (atomic_load_explicit(&store->word, memory_order_relaxed) & FERRYI_STORE_DOOMED);
}

/* The hit path's lock: taken only when the word is empty, so that there is no thread to wake,
 * nothing to free, and no long walk. */
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

/* The same for a traced store: nothing but the two bits may be in the word. */
FERRYI_TRY_ACQUIRES(true, ferryi_store_spin)
static inline bool
ferryi_store_lock_traced(ferryi_store *store)
{
    uint64_t idle = FERRYI_STORE_TRACED;
    FERRYI_INTERLEAVE();
    return atomic_compare_exchange_strong_explicit(&store->word, &idle,
                                                   FERRYI_STORE_TRACED | FERRYI_STORE_SPIN,
                                                   memory_order_acquire, memory_order_relaxed);
}

FERRYI_RELEASES(ferryi_store_spin)
static inline void
ferryi_store_unlock_traced(ferryi_store *store)
{
    ferryi_lock_is_released(FERRYI_CLASS(ferryi_store_spin));
    atomic_store_explicit(&store->word, FERRYI_STORE_TRACED, memory_order_release);
    FERRYI_INTERLEAVE();
}

static inline bool
ferryi_store_is_traced(const ferryi_store *store)
{
    return atomic_load_explicit(&store->word, memory_order_relaxed) & FERRYI_STORE_TRACED;
}

/* -- copies ------------------------------------------------------------------------------------ */

/*
 * What an open claim keeps as it is: the length of the store, and the address of the copy that the
 * claim is on. Functions that count on a claim of their caller's say so to the analysis of locks,
 * which cannot see it, as they begin: ferryi_claim_is_held().
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

FERRYI_REQUIRES(ferryi_claim_lock)
static inline const struct ferryi_place_copy *
ferryi_claimed_copy(const ferryi_store *store, int place)
{
    ferryi_lock_is_held(FERRYI_CLASS(ferryi_store_spin));
    return &store->copies[(store->shared >> place & 1) ? 0 : place];
}

FERRYI_REQUIRES(ferryi_store_spin)
static inline struct ferryi_place_copy *
ferryi_store_copy(ferryi_store *store, int place)
{
    return &store->copies[(store->shared >> place & 1) ? 0 : place];
}

static inline bool
ferryi_store_same_memory(const ferryi_store *store, int a, int b)
{
    return a == b || ((store->shared >> a & 1) && (store->shared >> b & 1));
}

/* The places that use the memory of the copy at `place`, itself too. */
static inline ferryi_places
ferryi_store_sharers(const ferryi_store *store, int place)
{
    return (store->shared >> place & 1) ? store->shared : FERRYI_PLACE_BIT(place);
}

/* Memory for the copy at `place`, if it has none; marks the copy as existing. Called without the
 * lock. */
ferry_status ferryi_store_reserve(ferryi_store *store, int place);
/* The same where the first use of new memory will be on `timeline`: only that is made to wait for
 * the last use of its former life. */
ferry_status ferryi_store_reserve_for(ferryi_store *store, int place, ferryi_timeline *timeline);
/* Give a copy memory in two steps: take a block of `bytes` without the lock; then, under it, make
 * it the copy's unless another thread was first. False when the copy has none. */
ferry_status ferryi_store_take(ferryi_store *store, int place, size_t bytes,
                               ferryi_timeline *timeline, struct ferryi_place_copy *out);
/* A block that is too small, because of a resize meanwhile, is not taken. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_store_install(ferryi_store *store, int place, struct ferryi_place_copy *fresh);
/* Take the copy's memory out; give it back without the lock, when its uses are done. */
FERRYI_REQUIRES(ferryi_store_spin)
struct ferryi_place_copy ferryi_store_detach(ferryi_store *store, int place);
void ferryi_store_give_back(ferry_context *context, struct ferryi_place_copy *copy);

/*
 * `bytes` of the host copy went to or came from a device, through the staging ring as far as it is
 * pageable. A copy that crosses again and again turns pinned. Without the lock.
 */
void ferryi_store_crossed(ferryi_store *store, size_t bytes);
/* Is the host copy there, and page-locked by whatever means? */
bool ferryi_store_is_pinned(ferryi_store *store);

/* Wait until later work of `timeline` (NULL: this thread) may read, or write, the copy. Without the
 * lock. */
ferry_status ferryi_store_order(ferryi_store *store, int place, ferryi_timeline *timeline,
                                bool writes);
/* Note that `timeline` read the copy, or wrote it, with work queued until now. Without the lock.
 * `timeline` is numbered. */
void ferryi_store_note_read(ferryi_store *store, int place, ferryi_timeline *timeline);
void ferryi_store_note_write(ferryi_store *store, int place, ferryi_timeline *timeline);

/* The value at `place` is gone on the range, as far as the store still has it: where it was the
 * only one, reads fail with `status` and `text` (NULL: there was no memory for it) until it is
 * overwritten. Without the lock; may be called from a device's thread. */
void ferryi_store_lose(ferryi_store *store, int place, size_t begin, size_t end,
                       ferry_status status, const char *text);

/* Promise room in the map for `count` more commits. Without the lock. */
ferry_status ferryi_store_promise(ferryi_store *store, uint32_t count);

#endif
