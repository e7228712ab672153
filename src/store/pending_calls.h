/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PENDING_CALLS_H
#define FERRYI_PENDING_CALLS_H

/*
 * Tracks pending launches. These are launches of kernels that use a store (the storage of a buffer)
 * and whose host functions have not run yet.
 *
 * The writes of a launch are committed when the device accepts the launch, but its host function
 * may fail later. If it fails, the bytes that the launch writes are marked as lost, in the same way
 * as after the loss of a device. Three rules keep this correct:
 *
 * - A thread that must move bytes of the store first waits until every pending launch that writes
 *   the store has ended.
 * - The struct ferryi_pending_calls keeps a log of the uses of the store at the places of the
 *   pending launches, in order. The log begins with the oldest launch that has not ended. A launch
 *   adds one entry for each range that it uses.
 * - When a launch fails, the log is read from the launch's entry to the end. A later launch that
 *   reads bytes of the failed write is poisoned: its host function is not called, and the launch
 *   fails in the same way. Bytes that a later write replaced are removed from the failed range. The
 *   remaining bytes are lost.
 *
 * Three kinds of changes have no entry in the log:
 *
 * - A write at a different place. The failure loses only the replica at the launch's place.
 * - A resize. The lost range is cut to the length of the store, and bytes that are added later have
 *   no replica that could be lost.
 * - A scope's write that a later scope of the same stream relied on while the first scope was still
 *   open. If an older launch fails, these bytes are marked as lost although the scope wrote them.
 *
 * Handling a failure takes time proportional to the number of entries after the launch's entry. It
 * ends early once later writes have replaced all of the launch's range.
 *
 * While launches that write are pending, the store's state word contains
 * FERRYI_STORE_PENDING_CALLS, and scopes on the store take the slow path.
 *
 * The struct may outlive the store. Code that uses the store through the struct holds the struct's
 * mutex, and the store is not freed while this mutex is held. The mutex is locked before the
 * store's lock.
 */

#include "src/store/claim.h"

struct ferryi_pending_call;

FERRYI_MUTEX_CLASS(ferryi_pending_calls_mutex);

struct ferryi_pending_calls {
    /* number of references: one by the buffer's storage, and one by each use of a range by a launch
     */
    atomic_int references;
    /* number of log entries of launches that write and have not ended */
    _Atomic uint32_t pending;
    /* bit set of all timelines on which launches that write were ever queued */
    _Atomic uint64_t timelines;
    struct ferryi_pending_calls_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_pending_calls_mutex) struct {
        ferryi_store *store;  /* NULL after the store is freed */
        ferryi_places places; /* places at which launches in the log write */
        struct ferryi_pending_call *log;
        /* index of the first log entry; number of log entries; capacity of the log */
        size_t first, count, room;
        /* number of the first log entry; entries are numbered consecutively */
        uint64_t first_number;
        uint32_t failing;    /* number of log entries whose launches failed and have not ended */
        ferry_status status; /* status of the newest failure */
        char *text; /* message of the newest failure; NULL if no memory could be allocated for it */
    };
};

/* One range that a launch uses. */
struct ferryi_body_use {
    struct ferryi_pending_calls *pending_calls;
    uint64_t number; /* number of the log entry of this use; 0 if this use has no entry */
    bool is_write;
};

/*
 * Registers a launch's use of a range, which the caller has already locked. The first call for a
 * buffer creates its struct ferryi_pending_calls. After this call, a write counts as pending. Fails
 * if bytes that the launch reads are lost, or if no memory can be allocated. The caller must end
 * the use with ferryi_pending_calls_end(), even after a failure.
 */
ferry_status ferryi_pending_calls_begin(const struct ferryi_access *access,
                                        struct ferryi_body_use *out);
/* Marks the write of an accepted launch as committed in the log of pending launches. If an older
 * launch fails later, the bytes of this write are then not lost. Called just before the write is
 * committed to the valid map. */
void ferryi_pending_calls_commit(const struct ferryi_body_use *use);
/* Records the timeline on which the launch was queued, so that ferryi_pending_calls_wait() can wait
 * for this timeline. */
void ferryi_pending_calls_queued(const struct ferryi_body_use *use,
                                 const ferryi_timeline *timeline);
/* Checks the input of a launch that is about to run. If an earlier failure poisoned the input,
 * returns the status of that failure and writes its message to `text`. Otherwise returns FERRY_OK.
 */
ferry_status ferryi_pending_calls_input(const struct ferryi_body_use *use, char *text,
                                        size_t text_bytes);
/* Marks a launch as failed. Must be called before the work that is queued behind the launch runs.
 */
void ferryi_pending_calls_fail(const struct ferryi_body_use *use, ferry_status status,
                               const char *text);
/* Ends a launch's use of a range, after the launch has ended and its write was committed or
 * withdrawn. If the launch failed, the bytes that it wrote are marked as lost, except those that a
 * later write replaced. */
void ferryi_pending_calls_end(struct ferryi_body_use *use);
/* Records a write of the range at the place that no host function makes, such as a copy. The log of
 * pending launches gets an entry, so that the failure of an older launch does not lose the new
 * bytes. Called without the buffer's lock, before the valid map is changed. */
void ferryi_pending_calls_overwritten(ferryi_store *store, int place, size_t begin, size_t end);
/* Returns whether launches that write the buffer at one of `places` may be pending. Called without
 * the buffer's lock. */
bool ferryi_pending_calls_are_at(ferryi_store *store, ferryi_places places);
/* Detaches the struct of pending launches from a buffer whose storage is being freed. */
void ferryi_pending_calls_cut(ferryi_store *store);

/* Waits until all launches that write the buffer and were queued before this call have ended.
 * Called without locks. The caller has locked its range with a claim, which prevents new launches
 * on this range. */
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
