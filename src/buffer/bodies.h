/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BODIES_H
#define FERRYI_BODIES_H

/*
 * Host bodies of kernels that are still to run on a store. A body may fail after its launch was accepted and what it writes
 * committed, so nothing may be derived from such bytes before it is known how they came out: whoever must move bytes of the
 * store waits for its bodies first. Launches on the same place do not wait; a body whose input was lost fails in its turn.
 *
 * Of each body that writes, the link lists the ranges that are still its own: what others overwrite since leaves the list as it is
 * committed. A failure loses what is left there, so nothing that is newer; and who launches a body that reads such a range
 * learns of the other, and asks it how it came out when its own turn comes, whatever the map says by then.
 *
 * While bodies are pending the store's word says so, and scopes on it take the slow way.
 *
 * The link outlives the store: a body that ends later finds it cut. Its mutex keeps the store alive while it is used, and is
 * taken before the store's lock.
 */

#include "src/buffer/store.h"

struct ferryi_bodies {
    atomic_int references;     /* the store's, and one for each body */
    _Atomic uint32_t pending;  /* bodies that write and have not ended */
    _Atomic uint64_t lanes;    /* that such bodies were ever queued on */
    ferryi_mutex mutex;
    ferryi_store *store;       /* NULL once it is gone */
    struct ferryi_body_write *writes; /* of bodies that have not ended; under the mutex */
};

/* A range that a body writes. */
struct ferryi_body_write {
    struct ferryi_body_write *next;
    size_t begin, end;
    void *body;    /* who */
    bool is_piece; /* split off, and allocated here; else the body's own memory */
};

/* The store's link, made at the first call, with a reference for the caller; a body that writes is pending from now on. */
ferry_status ferryi_bodies_add(ferryi_store *store, bool writes, struct ferryi_bodies **out);
/* The body that writes was queued on the lane, and its use is noted. */
void ferryi_bodies_queued(struct ferryi_bodies *bodies, const ferryi_lane *lane);
/* One body less, and the caller's reference. */
void ferryi_bodies_remove(struct ferryi_bodies *bodies, bool writes);
/* The store is being freed. */
void ferryi_bodies_cut(ferryi_store *store);

/* Block until no body that writes is pending that was queued before this call. Without locks; the caller's claims keep new ones off its range. */
void ferryi_bodies_wait(ferryi_store *store);
static inline bool
ferryi_bodies_are_pending(const ferryi_store *store)
{
    const struct ferryi_store_extra *extra = ferryi_store_extra_of(store);
    struct ferryi_bodies *bodies = extra ? atomic_load_explicit(&extra->bodies, memory_order_acquire) : NULL;
    return bodies && atomic_load_explicit(&bodies->pending, memory_order_acquire) > 0;
}

/* -- what bodies write and read -------------------------------------------------------------------- */

/* List what the body writes, with range and body set. Settle takes it off again. */
void ferryi_bodies_expect(struct ferryi_bodies *bodies, struct ferryi_body_write *write);
/* The range is being overwritten by the body, which is about to be committed: older ones have nothing to lose there any more. */
void ferryi_bodies_take_over(struct ferryi_bodies *bodies, const void *body, size_t begin, size_t end);
/* The same for a write that is no body's. Without the store's lock, before the map says so. */
void ferryi_bodies_overwritten(ferryi_store *store, size_t begin, size_t end);
/* Each body that is still to write some of the range, one by one and perhaps more than once; `visit` runs under the mutex. Fails when bytes are lost. */
ferry_status ferryi_bodies_inputs(struct ferryi_bodies *bodies, size_t begin, size_t end, void (*visit)(void *body, void *user), void *user);
/* The body has ended, at this place. Unless `status` is FERRY_OK, what is still its own is lost. */
void ferryi_bodies_settle(struct ferryi_bodies *bodies, const void *body, int place, ferry_status status, const char *text);

#endif
