/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_LOAN_H
#define FERRY_TEST_LOAN_H

/*
 * A loan is a lease, or a scope that reads on the host. A lease may have a second handle, exports,
 * and a buffer that was imported from an export. Each of these objects is a part of the loan and
 * keeps the lease open. Steps of random histories and printed histories use the functions here.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/exchange.h"

enum loan_kind { VERSIONED, LEGACY, ARROW, EXPORT_KINDS };

enum {
    PART_LEASE = 1,
    PART_SHARE = 2,
    PART_VERSIONED = 4,
    PART_LEGACY = 8,
    PART_ARROW = 16,
    PART_TWIN = 32,
    PARTS = 6,
    ALL_PARTS = 63
};

struct loan {
    ferry_scope scope;
    ferry_lease *lease, *share;
    void *memory;
    struct DLManagedTensorVersioned *versioned;
    struct DLManagedTensor *legacy;
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    ferry_buffer *twin;
    unsigned dropping; /* the parts that a second thread is dropping */
    unsigned order;    /* selects the order in which parts are dropped */
    pthread_t thread;
};

/* Opens a lease and creates a share of it. */
ferry_status loan_open(struct loan *loan, ferry_buffer *buffer, const ferry_lease_options *options);
ferry_status loan_export(struct loan *loan, enum loan_kind kind);
/* Imports one of the exports of a lease as a buffer, and stores this buffer in `twin`. The buffer
 * uses the memory of the lease. */
ferry_status loan_import(struct loan *loan, ferry_context *context,
                         const ferry_import_options *options);
unsigned loan_parts(const struct loan *loan);
void loan_drop_part(struct loan *loan, unsigned part);
/* Destroys those parts of a loan, such as the lease and its exports, whose bits are set in `parts`.
 * If `elsewhere` is true, a second thread destroys them. The call waits for that thread if it
 * destroys the last part or the imported buffer. */
void loan_drop(struct loan *loan, unsigned parts, bool elsewhere);
void loan_wait(struct loan *loan);

/* Calls `run` on a second thread and waits until `run` has returned. */
void run_elsewhere(void (*run)(void *), void *argument);
/* Destroys one of the handles of a context on a second thread. The context ends when its last
 * handle is destroyed. */
void destroy_elsewhere(ferry_context **context);

/* Imports `memory` as a buffer of ints through a DLPack tensor, which is either legacy or
 * versioned. The deleter of the tensor increments `deleted`. */
ferry_status import_ints(ferry_context *context, int32_t *memory, size_t count, bool legacy,
                         ferry_stream *release_on, atomic_int *deleted, ferry_buffer **out);

#endif
