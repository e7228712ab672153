/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CLAIM_H
#define FERRYI_CLAIM_H

/*
 * Internal functions for claims, which lock byte ranges of a store (the storage of a buffer). The
 * functions are used by access.c and by the inlined fast path in scope.c. The store's lock is held
 * during each call unless a comment states otherwise.
 */

#include "src/store/store.h"

struct ferryi_access {
    /* filled in by the caller */
    ferryi_store *store;
    size_t begin, end; /* range in bytes, begin < end */
    uint8_t access;    /* ferry_access, or FERRYI_ACCESS_DROP */
    uint8_t place; /* place of the access. FERRYI_PLACE_NONE means that the range is only locked,
                      and that no memory is prepared */
    bool user;   /* true if a user's scope makes the access; conflicting calls fail with BUSY. false
                    if a call of the library makes the access; conflicting calls wait */
    bool to_end; /* whether the range must end at the end of the buffer; if it does not, the access
                    fails with OUT_OF_RANGE */
    bool whole; /* whether the access locks the whole buffer. Locking then sets `begin` and `end` to
                   the range of all bytes, or of one byte if the buffer is empty */
    bool is_launch;   /* whether the access belongs to a kernel launch, whose reads and writes are
                         tracked in pending_calls.h */
    bool derives;     /* whether the call copies or converts the bytes that it reads */
    ferryi_site site; /* call site in the program that opened the scope; set only in a checked run
                         (FERRY_DEBUG) */
    /* timeline on which the work is queued; NULL if the host does the work */
    ferryi_timeline *timeline;
    const char *reason; /* name of the operation that needs the bytes, such as "read_device"; used
                           in traces and messages */
    /* options, cancel flag and progress of the transfers that the access needs, or NULL. The
     * progress counts bytes of the range */
    const struct ferryi_transfer_job *job;
    uint64_t under; /* 0, or the id of a claim (range lock) on the same buffer. If this access is
                       one step of a longer call, the id is that of the longer call's claim */
    /* list of the parts of [begin, end) that are locked; NULL if the whole range is locked. If the
     * list is not NULL, `place` must be FERRYI_PLACE_NONE */
    const struct ferryi_interval_set *pieces;
    /* filled in by the library */
    void *pointer; /* address of byte `begin` of the replica */
    uint64_t id;
    uint32_t slot;
    bool lacks_memory; /* whether the replica had no memory when the range was locked */
    bool meets_own;    /* whether the range overlapped open writes of the same stream when it was
                          locked. No such write can be added while the range is locked */
    uint32_t relied;   /* number of open writes of the same stream that this access will commit. For
                          each of them, the access owns one reservation in the valid map */
};

/* Initializes an access that a call of the library makes to a range. The access has no timeline, so
 * the host does the work. */
static inline struct ferryi_access
ferryi_access_of(ferryi_store *store, struct ferryi_range range, uint8_t access, int place,
                 const char *reason)
{
    return (struct ferryi_access){.store = store,
                                  .begin = range.begin,
                                  .end = range.end,
                                  .access = access,
                                  .place = (uint8_t)place,
                                  .reason = reason};
}

/*
 * Merges overlapping ranges of one buffer, and sorts the merged ranges into the order in which they
 * will be locked. `merged` has room for `count` entries. `group[i]` is the index in `merged` of the
 * range that contains wanted[i]. READ merged with a write becomes UPDATE. OVERWRITE merged with
 * UPDATE becomes UPDATE, too.
 * @return the number of merged ranges
 */
size_t ferryi_access_merge(const struct ferryi_access *wanted, size_t count,
                           struct ferryi_access *merged, size_t *group);

/* Compares two accesses by store and range, for qsort(). */
int ferryi_access_compare(const void *a, const void *b);

/* Returns the name of the public function that opens a scope with access `access` at place `place`,
 * such as "read_host". */
const char *ferryi_scope_call(int access, int place);

enum ferryi_close {
    FERRYI_CLOSE_COMMIT,  /* commits a write, or records a read */
    FERRYI_CLOSE_ABANDON, /* closes a write that may have changed bytes, and records the use. The
                             written place becomes stale if other places have the old value */
    FERRYI_CLOSE_CANCEL   /* closes an access for which no work was queued. The valid map and the
                             recorded uses stay unchanged, unless the opening zeroed the range */
};

/* What a scope keeps of its claim. Programs may copy and clear a scope, so the library keeps no
 * pointer to it. */
struct ferryi_scope {
    ferryi_store *store; /* NULL if the scope is closed */
    uint64_t id;         /* id of the scope's claim (range lock) while the scope is open */
    uint32_t slot;       /* slot of the scope's claim in the store's table */
} __attribute__((may_alias));

/* Locks the ranges of all accesses of the list, or none. Sorts `list` by store (storage of a
 * buffer) and range. */
ferry_status ferryi_access_claim(struct ferryi_access *list, size_t count);
/* Stores in the access's claim (range lock) the id of the thread that runs the call. `thread` is
 * FERRYI_THREAD_QUEUED while the call is queued for a different thread. A thread that evicts can
 * then distinguish its own claims from those of other threads. */
void ferryi_access_set_thread(const struct ferryi_access *access, uint64_t thread);
/* Waits until all calls that now use the buffer have ended, including asynchronous calls. Does not
 * wait for open scopes. Fails with BUSY within a callback that must not wait for one of them. */
ferry_status ferryi_access_wait_calls(ferryi_store *store, const char *what);
/* Waits until no call uses the buffer. Includes calls that begin during the wait, such as
 * evictions. Called with the buffer locked; the lock is released while the thread waits. Inside a
 * callback that must not wait for one of them, the function returns at once. */
FERRYI_REQUIRES(ferryi_store_spin) void ferryi_access_outlast_calls(ferryi_store *store);
/* Returns whether a call that runs in the thread `thread` uses ranges of the buffer. If `thread` is
 * 0, checks the calls of all threads. */
bool ferryi_access_has_call(ferryi_store *store, uint64_t thread);
/* Waits until it is known whether the queued kernels fail whose output the claimed accesses read.
 * Does not wait for an access that is merely queued behind these kernels.
 * ferryi_access_prepare() calls it. A call whose claims are never prepared calls it itself, before
 * it reads the valid map. */
void ferryi_access_await_kernels(const struct ferryi_access *list, size_t count);
/* Does the same for one access whose claim is open, and then fails if bytes of its range are lost.
 */
ferry_status ferryi_access_check_kernels(const struct ferryi_access *access);

/* Returns whether an access is work of the same stream as a claim. */
static inline bool
ferryi_claim_same_stream(const struct ferryi_claim *claim, const struct ferryi_access *access)
{
    if (!claim->timeline || claim->timeline != access->timeline ||
        claim->generation != access->timeline->generation)
        return false;
    return !claim->timeline->by_thread || claim->thread == ferryi_thread_id();
}

static inline bool
ferryi_claim_writes(uint8_t access)
{
    return access != FERRY_READ;
}

/*
 * Commits a write to the valid map. The claim (range lock) of a write owns one reservation in the
 * map (see valid_map.h), so the commit cannot fail. If the claim is removed without a commit, its
 * reservation is released. A claim that owns none (FERRYI_CLAIM_SPENT) covers the whole buffer,
 * whose changes need no room.
 */
FERRYI_REQUIRES(ferryi_store_spin)
static inline void
ferryi_claim_commit(ferryi_store *store, struct ferryi_claim *claim, int place,
                    enum ferryi_change change)
{
    if (claim->flags & FERRYI_CLAIM_SPENT)
        ferryi_valid_map_commit_whole(&store->map, place, change);
    else
        ferryi_valid_map_commit(&store->map, place, change, claim->begin, claim->end);
    claim->flags |= FERRYI_CLAIM_SPENT;
}

/*
 * An access relies on the open writes of the same stream that it overlaps.
 *
 * ferryi_claim_rely() is called under the lock when the access is prepared. It counts these writes
 * in `access->relied`. The caller then makes one reservation in the valid map for each write. The
 * access owns these reservations.
 *
 * ferryi_claim_end_relied() commits the writes if `commits` is true. Then it releases the
 * reservations that were not used.
 */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_claim_rely(struct ferryi_access *access);
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_claim_end_relied(struct ferryi_access *access, bool commits);
/* Returns the next part of the access's range, from byte `at` on, that is not covered by an open
 * write on which the access relies. If no such part is left, returns an empty range at the end of
 * the access. */
FERRYI_REQUIRES(ferryi_store_spin)
struct ferryi_range ferryi_claim_uncovered(const ferryi_store *store,
                                           const struct ferryi_access *access, size_t at);
/* Returns the claim (range lock) of a running call that relies on the write of the open scope
 * `scope`. Returns NULL if there is no such call, or if the scope only reads. */
FERRYI_REQUIRES(ferryi_store_spin)
const struct ferryi_claim *ferryi_claim_relying(const ferryi_store *store,
                                                const struct ferryi_claim *scope);

/* Removes the claim (range lock) of an access without a commit. If nothing else uses the buffer's
 * storage, frees the storage. Called without the buffer's lock. */
void ferryi_claim_drop(struct ferryi_access *access);

/* Result of comparing an access with the open claims (range locks). The access may proceed, may
 * proceed because it relies on an open write of the same stream, must wait for a claim, or must
 * fail with BUSY. */
enum ferryi_conflict {
    FERRYI_CONFLICT_NONE,
    FERRYI_CONFLICT_OWN,
    FERRYI_CONFLICT_WAIT,
    FERRYI_CONFLICT_BUSY
};
/* Compares an access with one claim, and with all claims of the buffer. */
FERRYI_REQUIRES(ferryi_store_spin)
enum ferryi_conflict ferryi_claim_conflict(ferryi_store *store, const struct ferryi_claim *claim,
                                           const struct ferryi_access *access, bool is_hit);
FERRYI_REQUIRES(ferryi_store_spin)
enum ferryi_conflict ferryi_access_conflict(ferryi_store *store, const struct ferryi_access *access,
                                            bool is_hit);

/* Waits for the call that made `claim`, until a claim (range lock) of the buffer is removed or a
 * moment has passed. Returns false at once if this thread must not wait for that call (blocked.h).
 * Called with the buffer's lock, and releases it. */
FERRYI_RELEASES(ferryi_store_spin)
bool ferryi_claim_outlast(ferryi_store *store, const struct ferryi_claim *claim);

/* Adds a claim (range lock) for the access to the free entry `slot` of the table of claims. If the
 * access writes, the claim takes over one of the reservations that the caller made in the valid
 * map. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_claim_add(struct ferryi_access *access, uint32_t slot);
/* Doubles the size of the table of claims (range locks). Does nothing if another thread has
 * enlarged the table since the caller read `seen_capacity`. Called without the buffer's lock. */
ferry_status ferryi_claim_grow_table(ferryi_store *store, uint32_t seen_capacity);
/* Locks the range of an access with a claim. If the access writes, first makes a reservation in the
 * valid map, which the claim then takes over. */
ferry_status ferryi_claim_one(struct ferryi_access *access);
/* Adds an open claim for a part of the range of `from`, which is an open READ of a user. Fails with
 * OUT_OF_MEMORY. Called without the buffer's lock. */
ferry_status ferryi_claim_share_read(const struct ferryi_access *from, struct ferryi_access *part);

/* Writes a description of the open scope because of which the access fails with BUSY. The format is
 * that of ferryi_store_describe_scope(). */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_access_describe_busy(const struct ferryi_access *access, char *text, size_t text_bytes);

/* Returns whether the access can be opened at once, without a transfer, an allocation or a wait. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_access_is_hit(ferryi_store *store, size_t begin, size_t end, uint8_t access, int place,
                     const ferryi_timeline *timeline)
{
    const ferryi_order *order = &store->context->order;
    const struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    if (!copy->pointer || !(store->exists & FERRYI_PLACE_BIT(place)))
        return false;
    if (access == FERRY_OVERWRITE) {
        if (store->scrub)
            return false;
    } else if (!ferryi_valid_map_holds_fast(&store->map, place) &&
               !ferryi_valid_map_holds(&store->map, place, begin, end)) {
        return false;
    }
    if (copy->written && !ferryi_sync_point_is_ordered(order, timeline, copy->written))
        return false;
    return access == FERRY_READ || ferryi_copy_reads_are_ordered(order, timeline, copy);
}

/* Returns the index of a free entry in the table of claims (range locks). Returns the table's
 * capacity if the table is full. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE uint32_t
ferryi_access_free_slot(const ferryi_store *store)
{
    if (store->claim_count == store->claim_high)
        return store->claim_high;
    uint32_t slot = 0;
    while (store->claims[slot].state != FERRYI_CLAIM_FREE)
        slot++;
    return slot;
}

/* Returns the members of a claim (range lock) that one word holds. */
FERRYI_INLINE uint64_t
ferryi_claim_kind(unsigned access, int place, enum ferryi_claim_state state, uint8_t flags)
{
    const union ferryi_claim_kind all = {.each = {.state = (uint8_t)state, .flags = flags}},
                                  place_one = {.each = {.place = 1}},
                                  access_one = {.each = {.access = 1}};
    /* `access` and `place` fit into their bytes, so each product changes only one byte of the word.
     */
    return all.kind + access * access_one.kind + (unsigned)place * place_one.kind;
}

/* Adds a claim (range lock) in the free entry `slot` of the table and returns the claim's id. If
 * the access writes, the claim takes over one of the caller's reservations in the valid map. A
 * caller that made no reservation must set FERRYI_CLAIM_SPENT in the claim after this call. On a
 * per-thread stream, the claim also stores the calling thread. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE uint64_t
ferryi_access_fill_claim(ferryi_store *store, uint32_t slot, size_t begin, size_t end,
                         uint8_t access, int place, ferryi_timeline *timeline,
                         enum ferryi_claim_state state)
{
    struct ferryi_claim *claim = &store->claims[slot];
    if (slot == store->claim_high)
        store->claim_high++;
    store->claim_count++;
    if (access != FERRY_READ)
        store->write_claims++;
    claim->begin = begin;
    claim->end = end;
    claim->timeline = timeline;
    claim->kind = ferryi_claim_kind(access, place, state, 0);
    if (timeline) {
        claim->generation = timeline->generation;
        claim->thread = timeline->by_thread ? ferryi_thread_id() : 0;
    }
    return claim->id = ++store->next_id;
}

/*
 * Frees a claim's entry in the table of claims. Entries after the last open claim are never read,
 * so they count as free whatever they contain. Free entries before the last open claim are marked,
 * and a search finds them. When no claim is left, all entries count as free.
 */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE void
ferryi_access_free_claim(ferryi_store *store, struct ferryi_claim *claim, uint32_t slot)
{
    if (__builtin_expect(store->claim_counts == FERRYI_CLAIM_ONE, 1)) {
        store->claim_counts = 0;
        return;
    }
    claim->kind = 0;
    claim->id = 0;
    if (--store->claim_count == 0)
        store->claim_high = 0;
    else if (slot + 1 == store->claim_high)
        store->claim_high = slot;
}

/* Removes a claim (range lock) that owns no reservation in the valid map. Such a claim is for a
 * READ, or for a write that has already used its reservation. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE void
ferryi_access_remove_spent(ferryi_store *store, uint32_t slot)
{
    struct ferryi_claim *claim = &store->claims[slot];
    if (claim->access != FERRY_READ)
        store->write_claims--;
    ferryi_access_free_claim(store, claim, slot);
}

FERRYI_REQUIRES(ferryi_store_spin)
static inline void
ferryi_access_remove_claim(ferryi_store *store, uint32_t slot)
{
    const struct ferryi_claim *claim = &store->claims[slot];
    if (claim->access != FERRY_READ && !(claim->flags & FERRYI_CLAIM_SPENT))
        ferryi_valid_map_unreserve(&store->map, 1);
    ferryi_access_remove_spent(store, slot);
}

FERRYI_REQUIRES(ferryi_store_spin)
static inline bool
ferryi_claim_is_hit(ferryi_store *store, const struct ferryi_access *access)
{
    return access->place == FERRYI_PLACE_NONE || access->access == FERRYI_ACCESS_DROP ||
           ferryi_access_is_hit(store, access->begin, access->end, access->access, access->place,
                                access->timeline);
}

#endif
