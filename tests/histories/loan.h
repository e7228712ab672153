/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_LOAN_H
#define FERRY_TEST_LOAN_H

/*
 * Loans: a scope that reads at the host, or a lease with a second share of it, what it is exported
 * as, and a buffer that one of the exports was imported as. Steps and printed histories use the
 * same calls on them. Whatever is left of a lease keeps it open.
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
    unsigned dropping; /* parts, by a thread that was not waited for */
    unsigned order;    /* in which parts go */
    pthread_t thread;
};

/* Opens a lease and a share of it. */
ferry_status loan_open(struct loan *loan, ferry_buffer *buffer, const ferry_lease_options *options);
ferry_status loan_export(struct loan *loan, enum loan_kind kind);
/* An export that there is becomes a buffer: the twin. */
ferry_status loan_import(struct loan *loan, ferry_context *context,
                         const ferry_import_options *options);
unsigned loan_parts(const struct loan *loan);
void loan_drop_part(struct loan *loan, unsigned part);
/* Gives these parts back, here or on a thread. Who drops the last part, or a twin, waits for that
 * thread. */
void loan_drop(struct loan *loan, unsigned parts, bool elsewhere);
void loan_wait(struct loan *loan);

/* Runs it on a thread, to its end. */
void run_elsewhere(void (*run)(void *), void *argument);
/* Gives one owner back on another thread. */
void destroy_elsewhere(ferry_context **context);

/* A buffer over the memory of a tensor of ints, DLPack's or a legacy one, whose deleter adds to
 * `deleted`. */
ferry_status import_ints(ferry_context *context, int32_t *memory, size_t count, bool legacy,
                         ferry_stream *release_on, atomic_int *deleted, ferry_buffer **out);

#endif
