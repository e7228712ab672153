/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BUFFER_SCOPE_H
#define FERRYI_BUFFER_SCOPE_H

#include <ferry/scope.h>

#include "src/buffer/access.h"

FERRY_STATIC_ASSERT(sizeof(struct ferryi_scope) <= sizeof(ferry_scope),
                    "a scope has room for what is kept in it");
FERRY_STATIC_ASSERT(FERRY_ALIGNOF(struct ferryi_scope) <= FERRY_ALIGNOF(ferry_scope),
                    "a scope is aligned for what is kept in it");

static inline struct ferryi_scope *
ferryi_scope_of(ferry_scope *scope)
{
    return (struct ferryi_scope *)scope;
}

/* Fills in the scope for an open access. */
static inline void
ferryi_scope_set(struct ferryi_scope *scope, const struct ferryi_access *access)
{
    *scope = (struct ferryi_scope){.store = access->store, .id = access->id, .slot = access->slot};
}

/* Returns whether the scope must end at the end of the buffer. This is the case if the program
 * asked for the rest of the buffer with FERRY_REST. The program then relies on the buffer's length
 * until the scope is closed. */
FERRYI_INLINE bool
ferryi_scope_goes_to_end(const ferry_buffer *buffer, size_t count)
{
    return count == FERRY_REST && buffer == &buffer->store->first;
}

/* Opens a scope at a place, but on no stream. Before the function returns, it waits for all queued
 * work that conflicts with the scope's access. */
ferry_status ferryi_scope_open_ready(ferry_buffer *buffer, const ferry_element *element,
                                     ferry_access access, int place, size_t offset, size_t count,
                                     struct ferryi_scope *scope, void **out);
/* Closes a scope whose last work may be on streams that Ferry does not know. Returns FERRY_OK if
 * the scope is already closed. */
ferry_status ferryi_scope_end_unordered(struct ferryi_scope *scope, enum ferryi_close how);

#endif
