/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_LOAN_H
#define FERRY_TEST_LOAN_H

/*
 * A loan is a scope that reads on the host, or a lease. A lease may have a second share, exports,
 * and a buffer that was imported from one of the exports. Each of these parts keeps the lease open.
 * Steps and printed histories use the same calls on loans.
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
/* Imports one of the existing exports as a buffer, which is called the twin. */
ferry_status loan_import(struct loan *loan, ferry_context *context,
                         const ferry_import_options *options);
unsigned loan_parts(const struct loan *loan);
void loan_drop_part(struct loan *loan, unsigned part);
/* Drops these parts, on this thread or on a second one. If the call drops the last part, or a twin,
 * it waits for the second thread. */
void loan_drop(struct loan *loan, unsigned parts, bool elsewhere);
void loan_wait(struct loan *loan);

/* Runs the function on a second thread and waits for its end. */
void run_elsewhere(void (*run)(void *), void *argument);
/* Destroys one owner of the context on a second thread. */
void destroy_elsewhere(ferry_context **context);

/* Imports a tensor of ints over `memory` as a buffer. The tensor is versioned or legacy. Its
 * deleter increments `deleted`. */
ferry_status import_ints(ferry_context *context, int32_t *memory, size_t count, bool legacy,
                         ferry_stream *release_on, atomic_int *deleted, ferry_buffer **out);

#endif
