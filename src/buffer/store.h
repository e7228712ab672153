/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_STORE_H
#define FERRYI_STORE_H

/*
 * The store: the bytes of one base buffer. It holds the valid map, up to one copy per place, and the claims of those who use
 * ranges of it now. Handles (buffers and views) are windows on a store and keep it alive; so do open scopes.
 *
 * One 64-bit word with a spin bit guards everything in it for a few loads and stores; no driver call, allocation, wait or callback
 * happens under it. When the map has many segments or many claims are open, the word says so, and a mutex of the context is taken
 * before the spin bit, so that nobody spins through long walks. No thread holds two stores' locks at once.
 *
 * A claim is an open scope of a user (HELD), a scope being opened (MOVING), or a call that opens and closes its own (CALL). It is what
 * conflicts are found by. Claims that a user holds make others fail with BUSY; the others are waited for.
 *
 * Every copy remembers its last write as a stamp and its readers since as a set of lanes (lane.h). A new write's stamp is set only
 * when its lane is ordered after the old one, so one stamp is enough.
 */

#include <ferry/buffer.h>

#include "src/base/base.h"
#include "src/context.h"
#include "src/valid_map.h"

/* Bits of the word. Only who holds the spin bit changes the others. */
enum {
    FERRYI_STORE_SPIN = 1,
    FERRYI_STORE_LONG = 2,    /* take the context's mutex first */
    FERRYI_STORE_MUTEXED = 4, /* the holder has that mutex */
    FERRYI_STORE_WAITERS = 8, /* somebody is parked until a claim goes */
    FERRYI_STORE_DEAD = 16,   /* the context was destroyed */
    FERRYI_STORE_DOOMED = 32  /* no handle is left: it goes with the last claim */
};

/* What a claim does beside the public accesses. */
enum { FERRYI_ACCESS_DROP = 4 /* the copy at `place` is given up */ };

#define FERRYI_PLACE_NONE 255 /* a claim that is on bytes, not on a copy */

enum ferryi_claim_state { FERRYI_CLAIM_FREE = 0, FERRYI_CLAIM_MOVING, FERRYI_CLAIM_HELD, FERRYI_CLAIM_CALL };

#define FERRYI_CLAIM_SHARES 32

#define FERRYI_CLAIM_KIND                                                                      \
    {                                                                                          \
        uint8_t access, place, state;                                                          \
        bool same_lane_seen; /* a later scope on the same stream already relies on this write */ \
        uint32_t shares;     /* bit n: share n is open; see scope.c */                         \
    }

union ferryi_claim_kind {
    struct FERRYI_CLAIM_KIND each;
    uint64_t kind;
};

struct ferryi_claim {
    size_t begin, end;
    uint64_t id;
    ferryi_lane *lane;   /* NULL: the host */
    uint64_t thread;     /* who opened it, on per-thread streams */
    union {
        struct FERRYI_CLAIM_KIND;
        uint64_t kind; /* all of these, so that the hit path writes and compares them at once */
    };
    uint32_t generation; /* of the lane */
};

struct ferryi_place_copy {
    void *pointer;
    ferry_block *block;   /* NULL: none, or borrowed */
    ferryi_stamp written; /* 0: nothing pending */
    uint64_t readers;     /* lanes that read since the write */
    uint32_t pins;        /* of this place, also where it shares the memory of another */
    bool pinned;          /* page-locked host memory */
    bool eager;           /* its last use had to be waited for: record at the next close */
};

struct ferryi_bodies;

typedef struct ferryi_store {
    _Atomic uint64_t word;
    uint32_t claim_count, claim_high, claim_capacity; /* open; slots beyond the last open one; room */
    uint32_t write_claims;                            /* open ones that are no READ */
    uint32_t exists;                                  /* places with a copy, logically */
    uint32_t shared;                                  /* places that use copies[0] */
    struct ferryi_claim *claims;
    uint64_t next_id;
    ferryi_valid_map map;
    ferry_context *context;
    uint32_t references; /* handles on it; under the lock */
    ferry_buffer *owner; /* the handle it was created with, while that lives; under the lock */
    uint8_t memory;      /* ferry_memory_kind */
    uint8_t borrowed_place; /* FERRYI_PLACE_NONE */
    bool read_only, scrub, crowded;
    uint32_t align;
    char *name; /* NULL: none */
    void (*on_release)(void *memory, void *user);
    void *on_release_user;
    ferry_status lost_status;
    char *lost_text; /* why bytes were lost; NULL: none were */
    _Atomic(struct ferryi_bodies *) bodies; /* of kernels, still to run (bodies.h); NULL: never any */
    struct ferryi_store *next, *prev; /* the context's list */
    struct ferryi_place_copy copies[];      /* by place; place_count + 1 */
} ferryi_store;

/* -- life ------------------------------------------------------------------------------------------ */

ferry_status ferryi_store_create(ferry_context *context, size_t bytes, const ferry_buffer_options *options, ferryi_store **out);
void ferryi_store_retain(ferryi_store *store);
/* Drops a reference; the last one frees the store, or leaves that to the last open scope. */
void ferryi_store_release(ferryi_store *store);
/* Called when a claim went and ferryi_store_is_over(), without the lock. */
void ferryi_store_free(ferryi_store *store);
/* The context is being destroyed: memory goes, the shell stays. All work is done. */
void ferryi_store_kill(ferryi_store *store);

static inline const char *
ferryi_store_name(const ferryi_store *store)
{
    return store->name ? store->name : "";
}

/* -- the lock -------------------------------------------------------------------------------------- */

void ferryi_store_lock_slow(ferryi_store *store);
void ferryi_store_unlock_slow(ferryi_store *store, uint64_t word);

static inline void
ferryi_store_lock(ferryi_store *store)
{
    uint64_t idle = 0;
    if (!atomic_compare_exchange_strong_explicit(&store->word, &idle, FERRYI_STORE_SPIN, memory_order_acquire,
                                                 memory_order_relaxed))
        ferryi_store_lock_slow(store);
}

static inline void
ferryi_store_unlock(ferryi_store *store)
{
    uint64_t word = atomic_load_explicit(&store->word, memory_order_relaxed);
    if (word == FERRYI_STORE_SPIN && !store->crowded)
        atomic_store_explicit(&store->word, 0, memory_order_release);
    else
        ferryi_store_unlock_slow(store, word);
}

/* Unlock, and wake those who wait for a claim to go. */
void ferryi_store_unlock_waking(ferryi_store *store);

/* Unlock, and sleep until some claim has gone, or the deadline (0: none) has passed: false. */
bool ferryi_store_unlock_and_park(ferryi_store *store, uint64_t deadline_ns);

static inline bool
ferryi_store_is_dead(const ferryi_store *store)
{
    return atomic_load_explicit(&store->word, memory_order_relaxed) & FERRYI_STORE_DEAD;
}

/* Under the lock: nobody has a handle, and the last claim went. */
static inline bool
ferryi_store_is_over(const ferryi_store *store)
{
    return store->claim_count == 0 && (atomic_load_explicit(&store->word, memory_order_relaxed) & FERRYI_STORE_DOOMED);
}

/* The hit path's lock: taken only when the word is empty, so that there is nobody to wake, nothing to free, and no long walk. */
FERRYI_INLINE bool
ferryi_store_lock_plain(ferryi_store *store)
{
    uint64_t idle = 0;
    return atomic_compare_exchange_strong_explicit(&store->word, &idle, FERRYI_STORE_SPIN, memory_order_acquire, memory_order_relaxed);
}

FERRYI_INLINE void
ferryi_store_unlock_plain(ferryi_store *store)
{
    atomic_store_explicit(&store->word, 0, memory_order_release);
}

/* -- copies ---------------------------------------------------------------------------------------- */

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

/* Memory for the copy at `place`, if it has none; marks the copy as existing. Called without the lock. */
ferry_status ferryi_store_reserve(ferryi_store *store, int place);
/* Take the copy's memory out, under the lock; give it back without the lock, when its uses are done. */
struct ferryi_place_copy ferryi_store_detach(ferryi_store *store, int place);
void ferryi_store_give_back(ferryi_store *store, struct ferryi_place_copy *copy);

/* Wait until later work of `lane` (NULL: this thread) may read, or write, the copy. Without the lock. */
ferry_status ferryi_store_order(ferryi_store *store, int place, ferryi_lane *lane, bool writes);
/* Note that `lane` read the copy, or wrote it, with work queued until now. Without the lock. `lane` is numbered. */
void ferryi_store_note_read(ferryi_store *store, int place, ferryi_lane *lane);
void ferryi_store_note_write(ferryi_store *store, int place, ferryi_lane *lane);

/* The value at `place` is gone on the range: where it was the only one, reads fail with `status` and `text` until it is
 * overwritten. Without the lock; may be called from a device's thread. */
void ferryi_store_lose(ferryi_store *store, int place, size_t begin, size_t end, ferry_status status, const char *text);

/* Promise room in the map for `count` more commits. Without the lock. */
ferry_status ferryi_store_promise(ferryi_store *store, uint32_t count);

#endif
