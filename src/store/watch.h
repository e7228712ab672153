/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_WATCH_H
#define FERRYI_WATCH_H

/*
 * Reports of what happens to buffers, for a context that records a trace, and for a checked run (a
 * run with debug checks). Each function returns after a branch if the context does neither. The
 * trace writes an entry (watch.c). A checked run protects the pages of host replicas
 * (watch_pages.c) and looks for needless copies (watch_waste.c).
 *
 * In such a context, the state word of each buffer contains FERRYI_STORE_WATCHED. The hit path,
 * which is the fast path without driver calls (scope.c), requires a state word of 0, so it needs no
 * branch for watchers. All scopes take the slow path. With a trace, this path first tries what the
 * hit path does, so that a trace does not change which scopes make no driver calls, not even in
 * callbacks.
 *
 * Only ferryi_watched_store() may be called under a buffer's lock: it copies what a later entry
 * needs. All other functions are called without locks.
 */

#include "src/debug/guard_pages.h"
#include "src/map/valid_map.h"
#include "src/store/claim.h"
#include "src/transfer/batch.h"

/* A buffer of `bytes` bytes was created. A trace assigns an id to it. */
void ferryi_watch_created(ferryi_store *store, size_t bytes);

/* The program opened a scope. */
void ferryi_watch_opened(const struct ferryi_access *access);
/* The program receives `pointer`, which points into the replica at `place`, from a scope or from
 * ferry_buffer_hold(). Returns the address to pass to the program: that of protected pages in a
 * checked run. */
void *ferryi_watch_pointer(ferryi_store *store, int place, void *pointer, const char *call,
                           ferryi_site site, struct ferryi_range range);
/* An access is closed, but its range is still locked. If the access's member `reason` is NULL, the
 * access is a scope of the program. Otherwise it belongs to a call of the library, which `reason`
 * names. */
void ferryi_watch_closed(const struct ferryi_access *access, const struct ferryi_claim *claim,
                         enum ferryi_close how);
/* A call of the library, which `reason` names, used a range of a buffer. */
void ferryi_watch_used(ferryi_store *store, struct ferryi_range range, uint8_t access, int place,
                       const char *reason);
/* The program called ferry_buffer_hold(), which keeps a replica at its address. Returns the address
 * to pass to the program. */
void *ferryi_watch_held(ferryi_store *store, int place, void *pointer, struct ferryi_range range);
/* Scopes, pins or the valid map have changed, and with them what the program may touch. */
void ferryi_watch_pages(ferryi_store *store);
/* A lease at `place` was opened, or is about to be destroyed. */
void ferryi_watch_leased(ferryi_store *store, int place, struct ferryi_guard_note *note,
                         const char *label, struct ferryi_range range);
void ferryi_watch_unleased(ferryi_store *store, struct ferryi_guard_note *note);

/* The access copied stale bytes to its place. */
void ferryi_watch_fetched(const struct ferryi_access *access, const struct ferryi_map_move *copy);
/* Parts of other functions of this file: a call used bytes, or the program may use them from now on
 * without the library. */
void ferryi_watch_waste(ferryi_store *store, struct ferryi_range range, uint8_t access,
                        const char *call);
void ferryi_watch_no_waste(ferryi_store *store);

/* One transfer has copied several pieces of memory. `done` is the number of bytes that were copied,
 * which is less than that of all pieces if the transfer failed. */
void ferryi_watch_pieces(const ferry_context *context, const struct ferryi_piece *pieces,
                         size_t done, const char *reason);
void ferryi_watch_launch(const ferry_context *context, const char *kernel,
                         const ferryi_timeline *timeline, uint64_t begun_ns);

struct ferryi_watched_store {
    uint32_t id;
    char name[100];
};

struct ferryi_watched_store ferryi_watched_store(const ferryi_store *store);
/* An eviction freed a block of `bytes` bytes at the place. */
void ferryi_watch_eviction(const ferry_context *context, const struct ferryi_watched_store *store,
                           int place, size_t bytes);

/* The memory of a replica is about to be freed. Called without the buffer's lock. `why` is a string
 * literal that completes messages, such as "was destroyed". */
static inline void
ferryi_watch_gone(const ferry_context *context, const void *memory, const char *why)
{
    if (context->debug)
        ferryi_guard_pages_retire(memory, why);
}

#endif
