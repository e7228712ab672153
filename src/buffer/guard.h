/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_GUARD_H
#define FERRYI_GUARD_H

/*
 * Guards: what a checked run keeps on the host copies of buffers, so that a pointer used at the
 * wrong time faults with a message.
 *
 * In a context whose `debug` is set the pageable pool's memory can be mapped twice, and no two host
 * copies share a page. The engine uses the pool's address. The user gets another one, the alias,
 * whose pages are open as far as scopes are: closed outside all scopes, readable in a READ,
 * writable in a write. A pinned copy is open wherever its bytes are not stale. When the copy goes,
 * its alias stays closed for a long while, and its guard remembers the name. What lies between the
 * buffer's last byte and the end of its page is a red zone, looked at when a write ends.
 *
 * Borrowed, page-locked and managed memory have no guards: for them every call here does nothing.
 *
 * A store of such a context has FERRYI_STORE_GUARDED in its word, so that the hit paths, which want
 * an empty word, leave it to the slow path. A run that is not checked pays nothing.
 *
 * One mutex guards all guards. It comes before the locks of stores.
 */

#include "src/buffer/access.h"

/* Names the lease that a range of a host copy was handed out to. The owner keeps the memory; all
 * members are the guards'. */
struct ferryi_guard_note {
    struct ferryi_guard_note *next;
    const char *label;
    size_t begin, end;
};

/* Bytes and alignment to allocate for a host copy, so that it shares no page with another. */
void ferryi_guard_plan(const ferryi_store *store, int place, size_t *bytes, size_t *align);

/* A pointer into the copy at `place`, of a range that a scope or pin of the user's was just opened
 * on by `call`, as the user may have it. */
void *ferryi_guard_hand_out(ferryi_store *store, int place, void *pointer, const char *call,
                            size_t begin, size_t end);
/* A fault in the range names the lease, until the note is removed. Does nothing for memory without
 * a guard. */
void ferryi_guard_add_note(ferryi_store *store, struct ferryi_guard_note *note, const char *label,
                           size_t begin, size_t end);
void ferryi_guard_remove_note(ferryi_store *store, struct ferryi_guard_note *note);
/* Claims, pins or the map have changed: open and close pages. Without the store's lock. */
void ferryi_guard_refresh(ferryi_store *store);
/* The copy that lies at `memory` goes; `why` is a literal such as "was destroyed". Without the
 * store's lock. */
void ferryi_guard_retire(const void *memory, const char *why);

/* Fails when `memory` is what a program hands over by mistake for its own: memory of one of its
 * context's devices. `what` begins the message. */
ferry_status ferryi_guard_check_memory(ferryi_store *store, const void *memory, const char *what);
/* Whether the address is the host memory of a buffer, and of which. */
bool ferryi_guard_names(const void *address, char *name, size_t name_bytes);

#endif
