/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_GUARD_PAGES_H
#define FERRYI_GUARD_PAGES_H

/*
 * Guard pages: the page protection of host replicas in a checked run (a run with debug checks). An
 * access through a pointer outside its scope causes a fault, and Ferry prints a message that
 * explains the fault.
 *
 * In a checked run, memory of the pageable pool can be mapped at a second address, the alias. No
 * two replicas share a page. The library uses the pool's address, and the program receives the
 * alias. The page protection of the alias follows the scopes: a page is inaccessible outside all
 * scopes, readable in a READ scope, and writable in a scope that writes.
 *
 * A struct ferryi_guard_pages, the guard, describes the alias of one replica. After the replica is
 * freed, the alias stays protected until many more replicas have been freed. The guard keeps the
 * buffer's name for the message. The bytes between the replica's end and the end of its last page
 * are a red zone, which is checked whenever a scope opens or closes.
 *
 * Memory that cannot be mapped twice (borrowed, page-locked and managed memory) has no guard. For
 * such memory every function here does nothing.
 *
 * One mutex protects all guards. A thread that holds this mutex may take the lock of a buffer's
 * storage.
 */

#include "src/debug/debug.h"
#include "src/debug/site.h"

struct ferryi_guard_pages;

/* Describes a host replica that may be guarded. The caller fills in this struct. */
struct ferryi_guarded {
    char *memory;        /* address of the replica in the pool; NULL: there is no replica */
    size_t bytes, align; /* size; alignment of the alias */
    const char *name;    /* name of the buffer */
    const struct ferryi_log *log;
    /* Reports which ranges of the replica the program may access, by calling
     * ferryi_guard_pages_mark_current() and ferryi_guard_pages_allow(). Called under the mutex of
     * the guards, so that reports are applied in the order in which they are made. Returns false if
     * the replica is no longer at `memory`; the page protection then does not change. */
    bool (*report)(void *owner, const char *memory, struct ferryi_guard_pages *guard);
    void *owner;
};

/* Describes a call of the program that returned a pointer into a replica, and the range that the
 * program passed to this call. */
struct ferryi_guard_call {
    const char *name; /* a literal, such as "read_host" */
    size_t begin, end;
    ferryi_site site;
};

/* Names a lease of a range of a replica, for messages about faults. The caller provides the memory
 * of this struct, but only guard_pages.c uses the members. */
struct ferryi_guard_note {
    struct ferryi_guard_note *next;
    const char *label;
    size_t begin, end;
};

/* Rounds the size and the alignment of an allocation up to whole pages, so that no two allocations
 * share a page. Leaves `*bytes` and `*align` unchanged if the rounded size overflows. */
void ferryi_guard_pages_round(size_t *bytes, size_t *align);

/* Must be called after the program has opened a range of an existing replica with `call`. Creates a
 * guard if the replica has none, and updates the page protection. Returns the alias, which is the
 * replica's second address. Returns the replica's `memory` if the replica cannot be guarded. */
char *ferryi_guard_pages_open(const struct ferryi_guarded *replica,
                              const struct ferryi_guard_call *call);
/* Updates the page protection of a replica after its accessible ranges have changed. */
void ferryi_guard_pages_update(const struct ferryi_guarded *replica);
/* Makes the alias of the replica at `memory`, which is about to be freed, inaccessible. `why` is a
 * literal for messages, such as "was destroyed". */
void ferryi_guard_pages_retire(const void *memory, const char *why);

/* The `report` callback calls this function for each range of the replica that is current. Bytes
 * outside these ranges count as stale: newer bytes are at another place. */
void ferryi_guard_pages_mark_current(struct ferryi_guard_pages *guard, size_t begin, size_t end);
/* The `report` callback calls this function for each range that the program may access with
 * `protection`. */
void ferryi_guard_pages_allow(struct ferryi_guard_pages *guard, size_t begin, size_t end,
                              enum ferryi_protection protection);

/* Adds a note that names a lease of a range. Until the note is removed, a message about a fault in
 * this range names the lease. */
void ferryi_guard_pages_add_note(const void *memory, struct ferryi_guard_note *note,
                                 const char *label, size_t begin, size_t end);
void ferryi_guard_pages_remove_note(const void *memory, struct ferryi_guard_note *note);

/* Returns whether the address lies in the alias of a replica, or in the page before or after it. If
 * so, writes the buffer's name to `name`. */
bool ferryi_guard_pages_name(const void *address, char *name, size_t name_bytes);
/* Describes a fault at the address in one line without a newline. Returns false if the address is
 * not near the alias of any replica. Runs in a signal handler, so it also returns false if it
 * cannot lock the mutex of the guards within a limited time. */
bool ferryi_guard_pages_explain(const char *address, bool writes, char *text, size_t text_bytes);

#endif
