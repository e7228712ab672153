/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BODIES_H
#define FERRYI_BODIES_H

/*
 * Host bodies of kernels that are still to run on a store. A body may fail after its launch was accepted and what it writes
 * committed, so nothing may be derived from such bytes before it is known how they came out: whoever must move bytes of the
 * store waits for its bodies first. Launches on the same place do not wait; a body whose input was lost fails in its turn.
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
    struct ferryi_bodies *bodies = atomic_load_explicit(&store->bodies, memory_order_acquire);
    return bodies && atomic_load_explicit(&bodies->pending, memory_order_acquire) > 0;
}

/* What a body finds and leaves; nothing happens once the store is gone. */

/* Is some byte of the range lost? Then the status is the loss's, and `text` its sentence. */
ferry_status ferryi_bodies_input(struct ferryi_bodies *bodies, size_t begin, size_t end, char *text, size_t text_bytes);
/* The range was overwritten at `place` and is good there, whatever an earlier failure lost. */
void ferryi_bodies_regain(struct ferryi_bodies *bodies, int place, size_t begin, size_t end);
/* ferryi_store_lose(). */
void ferryi_bodies_lose(struct ferryi_bodies *bodies, int place, size_t begin, size_t end, ferry_status status, const char *text);

#endif
