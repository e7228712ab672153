/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BUFFER_SCOPE_H
#define FERRYI_BUFFER_SCOPE_H

#include <ferry/scope.h>

#include "src/buffer/access.h"

/* What the library keeps in the words of a ferry_scope. All zero: closed. Programs may copy and
 * clear it, so nothing points at it. */
struct ferryi_scope {
    ferryi_store *store; /* NULL: closed */
    uint64_t id;         /* of its claim, as long as it has one */
    uint32_t slot;       /* of its claim, in the store's table */
    uint32_t
        share; /* which of the scopes that have the claim together; 0: it has the claim alone */
} __attribute__((may_alias));

FERRY_STATIC_ASSERT(sizeof(struct ferryi_scope) <= sizeof(ferry_scope),
                    "a scope has room for what is kept in it");
FERRY_STATIC_ASSERT(FERRY_ALIGNOF(struct ferryi_scope) <= FERRY_ALIGNOF(ferry_scope),
                    "a scope is aligned for what is kept in it");

static inline struct ferryi_scope *
ferryi_scope_of(ferry_scope *scope)
{
    return (struct ferryi_scope *)scope;
}

/* The scope of an access that is open. */
static inline void
ferryi_scope_set(struct ferryi_scope *scope, const struct ferryi_access *access)
{
    *scope = (struct ferryi_scope){.store = access->store, .id = access->id, .slot = access->slot};
}

/* Whoever asks for the rest of a buffer goes by its count while the scope is open, so that the
 * scope must reach as far. */
FERRYI_INLINE bool
ferryi_scope_goes_to_end(const ferry_buffer *buffer, size_t count)
{
    return count == FERRY_REST && buffer == &buffer->store->first;
}

/*
 * Under the plain lock, and without moving, reserving or waiting for anything: open a write, or a
 * read beside others, of a range that is not empty; and close a scope that has its claim alone.
 * False, and nothing done, when that takes more. The timeline of an open is NULL, the host, or
 * numbered.
 */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_scope_open_locked(ferryi_store *store, struct ferryi_range range, bool to_end,
                              ferry_access kind, int place, ferryi_timeline *timeline,
                              struct ferryi_scope *scope, void **out);
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_scope_close_locked(ferryi_store *store, struct ferryi_claim *claim);

/* Open at a place for a holder without a stream: on return nothing that is queued uses the bytes in
 * a way that conflicts. */
ferry_status ferryi_scope_open_ready(ferry_buffer *buffer, const ferry_element *element,
                                     ferry_access access, int place, size_t offset, size_t count,
                                     struct ferryi_scope *scope, void **out);
/* End a scope whose last work may be on streams that Ferry does not know. A scope that was closed
 * before is FERRY_OK. */
ferry_status ferryi_scope_end_unordered(struct ferryi_scope *scope, enum ferryi_close how);

#endif
