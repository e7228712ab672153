/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PENDING_CALLS_H
#define FERRYI_PENDING_CALLS_H

/*
 * Host functions of kernels that are still to run on a store.
 *
 * A launch commits what it writes when the device accepts it, but its host function may fail later.
 * A failure marks as lost what the launch wrote, as a lost device does. Three rules keep that
 * sound:
 *
 * - Whoever must move bytes of the store first waits until every pending launch that writes the
 *   store has ended.
 * - The link keeps a log of the writes at the places of the pending launches, in the order in which
 *   they were committed. It begins with the oldest launch that has not ended. A launch takes one
 *   entry for each range, whatever was queued before it.
 * - A launch that fails follows the log from its own entry to the end. A later launch that reads
 *   what is left of the range is poisoned: its host function is not called, and it fails in the
 *   same way. What a later write replaced is taken out. The rest is lost.
 *
 * A write at another place needs no entry: the failure loses only the copy at the launch's place. A
 * resize needs none either: the lost range is cut to the length of the store, and bytes that came
 * after a cut have no copy to lose. A write of a scope that was still open when a later scope of
 * its stream relied on it has no entry, and is lost with the bytes below it. A failure takes time
 * in proportion to the entries after its own, up to the first ones that replace all of its range.
 *
 * While launches that write are pending, the store's word says so, and scopes on it take the slow
 * path.
 *
 * The link outlives the store. Its mutex keeps the store alive while it is used, and is locked
 * before the store's lock.
 */

#include "src/buffer/access.h"

struct ferryi_body_entry;

FERRYI_MUTEX_CLASS(ferryi_pending_calls_mutex);

struct ferryi_pending_calls {
    atomic_int references;      /* the store's, and one for each use by a launch */
    _Atomic uint32_t pending;   /* entries of launches that write and have not ended */
    _Atomic uint64_t timelines; /* that such launches were ever queued on */
    struct ferryi_pending_calls_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_pending_calls_mutex) struct {
        ferryi_store *store;  /* NULL after the store is freed */
        ferryi_places places; /* where launches of the log write */
        struct ferryi_body_entry *log;
        size_t first, count, room; /* entries from log[first] on, and how many fit in all */
        uint64_t first_number;     /* number of the first entry; they are numbered in order */
        uint32_t failing;          /* entries of launches that failed and have not ended */
        ferry_status status;       /* of the newest failure */
        char *text;                /* its message; NULL: there was no memory for it */
    };
};

/* One range that a launch uses. */
struct ferryi_body_use {
    struct ferryi_pending_calls *pending_calls;
    uint64_t number; /* of its entry; 0: none */
    bool is_write;
};

/*
 * Note the use of a launch, whose claim is open. Makes the store's link at the first call. A write
 * is pending from now on. Fails when bytes that the launch reads are lost, and without memory.
 * ferryi_pending_calls_end() ends the use, also after a failure.
 */
ferry_status ferryi_pending_calls_begin(const struct ferryi_access *access,
                                        struct ferryi_body_use *out);
/* The launch was accepted: what it writes replaces what was there before. Called just before the
 * map is changed. */
void ferryi_pending_calls_commit(const struct ferryi_body_use *use);
/* The use was queued on the timeline, and is noted in the copy. */
void ferryi_pending_calls_queued(const struct ferryi_body_use *use,
                                 const ferryi_timeline *timeline);
/* The launch's turn has come. Returns the failure that took what it reads, with its message in
 * `text`. */
ferry_status ferryi_pending_calls_input(const struct ferryi_body_use *use, char *text,
                                        size_t text_bytes);
/* The launch failed; called before work that is queued behind it runs. */
void ferryi_pending_calls_fail(const struct ferryi_body_use *use, ferry_status status,
                               const char *text);
/* The launch has ended, and its write was committed or withdrawn. After a failure what is left of
 * the write is lost. Gives the use back. */
void ferryi_pending_calls_end(struct ferryi_body_use *use);
/* The range is being overwritten at the place by something that is no host function. Without the
 * store's lock, before the map is changed. */
void ferryi_pending_calls_overwritten(ferryi_store *store, int place, size_t begin, size_t end);
/* The store is being freed. */
void ferryi_pending_calls_cut(ferryi_store *store);

/* Block until every launch that writes the store and was queued before this call has ended. Without
 * locks; the caller's claims keep new ones off its range. */
void ferryi_pending_calls_wait(ferryi_store *store);
static inline bool
ferryi_pending_calls_are_pending(const ferryi_store *store)
{
    const struct ferryi_store_extra *extra = ferryi_store_extra_of(store);
    struct ferryi_pending_calls *pending_calls =
        extra ? atomic_load_explicit(&extra->pending_calls, memory_order_acquire) : NULL;
    return pending_calls && atomic_load_explicit(&pending_calls->pending, memory_order_acquire) > 0;
}

#endif
