/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PENDING_CALLS_H
#define FERRYI_PENDING_CALLS_H

/*
 * Host functions of kernels that have not run yet on a store.
 *
 * A launch commits its writes when the device accepts it, but its host function may fail later. A
 * failure marks the bytes that the launch wrote as lost, as a lost device does. Three rules keep
 * that sound:
 *
 * - A thread that must move bytes of the store first waits until every pending launch that writes
 *   the store has ended.
 * - The struct below keeps a log of the writes at the places of the pending launches, in the order
 *   of their commits. The log begins with the oldest launch that has not ended. A launch adds one
 *   entry for each range that it uses.
 * - When a launch fails, the log is read from the launch's entry to the end. A later launch that
 *   reads bytes of the failed write is poisoned: its host function is not called, and it fails in
 *   the same way. Bytes that a later write replaced are removed from the failed range. The
 *   remaining bytes are lost.
 *
 * A write at another place needs no entry, because the failure loses only the replica at the
 * launch's place. A resize needs none either: the lost range is cut to the length of the store, and
 * bytes added later have no replica to lose. A write of a scope that was still open when a later
 * scope of its stream relied on it has no entry, and is lost with the bytes below it. Handling a
 * failure takes time proportional to the number of entries after the launch's entry, up to the
 * first ones that replace all of its range.
 *
 * While launches that write are pending, the store's word has FERRYI_STORE_PENDING_CALLS set, and
 * scopes on it take the slow path.
 *
 * The struct outlives the store. Its mutex keeps the store alive while it is used, and is locked
 * before the store's lock.
 */

#include "src/buffer/access.h"

struct ferryi_pending_call;

FERRYI_MUTEX_CLASS(ferryi_pending_calls_mutex);

struct ferryi_pending_calls {
    atomic_int references;      /* one of the store, and one for each use by a launch */
    _Atomic uint32_t pending;   /* entries of launches that write and have not ended */
    _Atomic uint64_t timelines; /* bits of all timelines on which such launches were ever queued */
    struct ferryi_pending_calls_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_pending_calls_mutex) struct {
        ferryi_store *store;  /* NULL after the store is freed */
        ferryi_places places; /* where launches in the log write */
        struct ferryi_pending_call *log;
        size_t first, count,
            room; /* index of the first entry, number of entries, capacity of the log */
        uint64_t first_number; /* number of the first entry; entries are numbered consecutively */
        uint32_t failing;      /* entries of launches that failed and have not ended */
        ferry_status status;   /* of the newest failure */
        char *text;            /* its message; NULL: out of memory */
    };
};

/* One range that a launch uses. */
struct ferryi_body_use {
    struct ferryi_pending_calls *pending_calls;
    uint64_t number; /* number of its log entry; 0: none */
    bool is_write;
};

/*
 * Registers the use of a range by a launch, whose claim is open. The first call creates the store's
 * struct. A write counts as pending from now on. Fails when bytes that the launch reads are lost,
 * and when memory is short. ferryi_pending_calls_end() ends the use, also after a failure.
 */
ferry_status ferryi_pending_calls_begin(const struct ferryi_access *access,
                                        struct ferryi_body_use *out);
/* Logs the write of an accepted launch, which replaces earlier writes. Called just before the map
 * is changed. */
void ferryi_pending_calls_commit(const struct ferryi_body_use *use);
/* Notes that the use was queued on the timeline and recorded in the replica. */
void ferryi_pending_calls_queued(const struct ferryi_body_use *use,
                                 const ferryi_timeline *timeline);
/* Called when the launch is about to run. Returns the failure that poisoned its input, with the
 * message in `text`; FERRY_OK otherwise. */
ferry_status ferryi_pending_calls_input(const struct ferryi_body_use *use, char *text,
                                        size_t text_bytes);
/* Handles the failure of a launch. Called before work that is queued behind the launch runs. */
void ferryi_pending_calls_fail(const struct ferryi_body_use *use, ferry_status status,
                               const char *text);
/* Ends the use, after the launch has ended and its write was committed or withdrawn. After a
 * failure the remaining bytes of the write are lost. */
void ferryi_pending_calls_end(struct ferryi_body_use *use);
/* Notes that something other than a host function overwrites the range at the place. Called without
 * the store's lock, before the map is changed. */
void ferryi_pending_calls_overwritten(ferryi_store *store, int place, size_t begin, size_t end);
/* Detaches the struct from the store, which is being freed. */
void ferryi_pending_calls_cut(ferryi_store *store);

/* Waits until every launch that writes the store and was queued before this call has ended. Called
 * without locks; the caller's claims exclude new launches from its range. */
void ferryi_pending_calls_wait(ferryi_store *store);
static inline bool
ferryi_pending_calls_are_pending(const ferryi_store *store)
{
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    struct ferryi_pending_calls *pending_calls =
        cold ? atomic_load_explicit(&cold->pending_calls, memory_order_acquire) : NULL;
    return pending_calls && atomic_load_explicit(&pending_calls->pending, memory_order_acquire) > 0;
}

#endif
