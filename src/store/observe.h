/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_OBSERVE_H
#define FERRYI_OBSERVE_H

/*
 * Functions that record events of buffers in the trace of a context. A context that records a trace
 * is called a traced context. Only ferryi_observed_store() may be called under a buffer's lock: it
 * copies what a later trace entry needs. All other functions are called without locks.
 *
 * In a traced context, the state word of each buffer contains FERRYI_STORE_TRACED. Because of this
 * bit, a scope first misses the hit path, which is the fast path without driver calls (scope.c).
 * scope.c then tries the hit path a second time, and ignores the bit. So tracing does not change
 * which scopes the hit path opens and closes, not even inside callbacks.
 */

#include "src/store/claim.h"
#include "src/transfer/batch.h"

/* Records in the trace that a buffer of `bytes` bytes was created, and assigns a trace id to the
 * buffer. */
void ferryi_observe_buffer(ferryi_store *store, size_t bytes);
/* Records in the trace that the function named `call` opened a scope. */
void ferryi_observe_open(const ferryi_store *store, struct ferryi_range range, ferry_access kind,
                         int place, const ferryi_timeline *timeline, uint64_t id, const char *call);
/* Records that an access was closed. If the access's member `reason` is NULL, the access is a scope
 * of the program. Otherwise it belongs to a call of the library, which `reason` names. */
void ferryi_observe_close(const struct ferryi_access *access, const struct ferryi_claim *claim,
                          enum ferryi_close how);
/* Records that a call of the library, which `reason` names, used a range of a buffer. */
void ferryi_observe_use(const ferryi_store *store, struct ferryi_range range, uint8_t access,
                        int place, const char *reason);
/* Records that the program called ferry_buffer_hold(), which keeps a replica at its address. */
void ferryi_observe_hold(const ferryi_store *store, int place, size_t begin, size_t end);
/* Records one transfer that consists of several pieces of memory. `done` is the number of bytes
 * that were copied, which is less than the total if the transfer failed. */
void ferryi_observe_pieces(const ferry_context *context, const struct ferryi_piece *pieces,
                           size_t count, size_t done, const char *reason);
void ferryi_observe_launch(const ferry_context *context, const char *kernel,
                           const ferryi_timeline *timeline, uint64_t begun_ns);

struct ferryi_observed_store {
    uint32_t id;
    char name[100];
};

struct ferryi_observed_store ferryi_observed_store(const ferryi_store *store);
/* Records that an eviction freed a block of `bytes` bytes at the place. */
void ferryi_observe_eviction(const ferry_context *context,
                             const struct ferryi_observed_store *store, int place, size_t bytes);

#endif
