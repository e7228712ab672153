/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_OBSERVE_H
#define FERRYI_OBSERVE_H

/*
 * Records events of buffers in the trace of a traced context. Called without locks, except for
 * ferryi_observed_store(), which may be called under the store's lock and copies what a later entry
 * needs.
 *
 * The stores of a traced context have FERRYI_STORE_TRACED in their word, so that opening and
 * closing a scope misses the hit path. scope.c then tries the same hit with the bit set. A scope
 * that is a hit without the trace therefore remains one, also inside callbacks.
 */

#include "src/buffer/access.h"
#include "src/transfer/batch.h"

/* Records the creation of a store with its size, and assigns its id. */
void ferryi_observe_buffer(ferryi_store *store, size_t bytes);
/* Records that the function `call` opened a scope. */
void ferryi_observe_open(const ferryi_store *store, struct ferryi_range range, ferry_access kind,
                         int place, const ferryi_timeline *timeline, uint64_t id, const char *call);
void ferryi_observe_scope_end(const ferryi_store *store, const struct ferryi_claim *claim,
                              uint64_t id, enum ferryi_close how);
/* Records the close of an access up to `done_end`. The access belongs to a scope if it has no
 * reason, otherwise to a call. */
void ferryi_observe_close(const struct ferryi_access *access, const struct ferryi_claim *claim,
                          size_t done_end, enum ferryi_close how);
/* Records that the program pinned a replica to keep its address. */
void ferryi_observe_hold(const ferryi_store *store, int place, size_t begin, size_t end);
/* Records a transfer of which the first `done` bytes of its pieces were copied. */
void ferryi_observe_pieces(const ferry_context *context, const struct ferryi_piece *pieces,
                           size_t count, size_t done, const char *reason);
void ferryi_observe_launch(const ferry_context *context, const char *kernel,
                           const ferryi_timeline *timeline, uint64_t begun_ns);

struct ferryi_observed_store {
    uint32_t id;
    char name[100];
};

struct ferryi_observed_store ferryi_observed_store(const ferryi_store *store);
/* Records that eviction freed a block of `bytes` bytes at the place. */
void ferryi_observe_eviction(const ferry_context *context,
                             const struct ferryi_observed_store *store, int place, size_t bytes);

#endif
