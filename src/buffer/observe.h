/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_OBSERVE_H
#define FERRYI_OBSERVE_H

/*
 * What happens to buffers, as a traced context writes it down. Called without locks, except for
 * ferryi_observed_store(), which keeps what a later entry needs.
 *
 * The stores of a traced context have a bit in their word, so that opening and closing a scope
 * misses the hit path. scope.c then tries the same hit with the bit set: a scope that is a hit
 * without the trace remains one, also inside callbacks.
 */

#include "src/buffer/access.h"
#include "src/transfer/batch.h"

/* A store was created with a size. It gets its id. */
void ferryi_observe_buffer(ferryi_store *store, size_t bytes);
/* A scope is open; `call` is what opened it. */
void ferryi_observe_open(const ferryi_store *store, struct ferryi_range range, ferry_access kind,
                         int place, const ferryi_timeline *timeline, uint64_t id, const char *call);
void ferryi_observe_scope_end(const ferryi_store *store, const struct ferryi_claim *claim,
                              uint64_t id, enum ferryi_close how);
/* An access is being closed, up to `done_end`: of a scope where it has no reason, else of a call.
 */
void ferryi_observe_close(const struct ferryi_access *access, const struct ferryi_claim *claim,
                          size_t done_end, enum ferryi_close how);
/* The program keeps the address of a copy. */
void ferryi_observe_hold(const ferryi_store *store, int place, size_t begin, size_t end);
/* The first `done` bytes of the pieces of one transfer were copied. */
void ferryi_observe_pieces(const ferry_context *context, const struct ferryi_piece *pieces,
                           size_t count, size_t done, const char *reason);
void ferryi_observe_launch(const ferry_context *context, const char *kernel,
                           const ferryi_timeline *timeline, uint64_t begun_ns);

struct ferryi_observed_store {
    uint32_t id;
    char name[100];
};

struct ferryi_observed_store ferryi_observed_store(const ferryi_store *store);
/* A copy at the place lost its memory, a block of the given bytes. */
void ferryi_observe_eviction(const ferry_context *context,
                             const struct ferryi_observed_store *store, int place, size_t bytes);

#endif
