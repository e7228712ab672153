/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_GUARD_H
#define FERRYI_GUARD_H

/*
 * Guards: page protection of the host replicas of buffers in a checked run, so that a pointer used
 * at the wrong time faults with a message.
 *
 * In a context whose `debug` is set the pageable pool can map its memory twice, and no two host
 * replicas share a page. The engine uses the pool's address. The user gets the second address, the
 * alias, whose page protection follows the scopes: no access outside all scopes, readable in a
 * READ, writable in a write. A pinned replica is accessible wherever its bytes are current. When
 * the replica is freed, its alias stays protected for a long while, and its guard keeps the
 * buffer's name for the message. The bytes between the buffer's end and the end of its page are a
 * red zone, which is checked when a write ends.
 *
 * Borrowed, page-locked and managed memory have no guards: for them every function here does
 * nothing.
 *
 * A store of such a context has FERRYI_STORE_GUARDED set in its word. The hit paths require a word
 * of 0, so all its scopes take the slow path. A run that is not checked has no extra cost.
 *
 * One mutex protects all guards. It is locked before the locks of stores.
 */

#include "src/buffer/access.h"

/* Names the lease that owns a range of a host replica. The caller owns this memory; only guard.c
 * uses the members. */
struct ferryi_guard_note {
    struct ferryi_guard_note *next;
    const char *label;
    size_t begin, end;
};

/* Computes the bytes and alignment of a host replica's allocation, so that it shares no page with
 * another. */
void ferryi_guard_plan(const ferryi_store *store, int place, size_t *bytes, size_t *align);

/* Returns the address that the user gets for `pointer`, which points into the replica at `place`.
 * `call` has just opened a scope or pin of the user on the range. */
void *ferryi_guard_hand_out(ferryi_store *store, int place, void *pointer, const char *call,
                            size_t begin, size_t end);
/* Until the note is removed, a fault in the range names the lease. Does nothing for memory without
 * a guard. */
void ferryi_guard_add_note(ferryi_store *store, struct ferryi_guard_note *note, const char *label,
                           size_t begin, size_t end);
void ferryi_guard_remove_note(ferryi_store *store, struct ferryi_guard_note *note);
/* Updates the page protection after a change of claims, pins or the map. Called without the store's
 * lock. */
void ferryi_guard_refresh(ferryi_store *store);
/* Protects the alias of the replica at `memory`, which is being freed. `why` is a literal for
 * messages, such as "was destroyed". Called without the store's lock. */
void ferryi_guard_retire(const void *memory, const char *why);

/* Fails when `memory`, which a program passes as its own, is memory of a device of the store's
 * context. `what` is the first part of the message. */
ferry_status ferryi_guard_check_memory(ferryi_store *store, const void *memory, const char *what);
/* Whether the address lies in the host memory of a buffer; writes the buffer's name to `name`. */
bool ferryi_guard_names(const void *address, char *name, size_t name_bytes);

#endif
