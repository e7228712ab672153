/* SPDX-License-Identifier: MIT */
/* Functions for loans: scopes, leases, exports and imports that a test keeps open. Random test
 * histories and their printed programs both use these functions. */
#include "tests/histories/loan.h"

#include <stdlib.h>

#include <ferry/context.h>
#include <ferry/int.h>

ferry_status
loan_open(struct loan *loan, ferry_buffer *buffer, const ferry_lease_options *options)
{
    ferry_status status =
        ferry_lease_open(buffer, ferry_int_element(), options, &loan->lease, &loan->memory);
    if (status == FERRY_OK)
        loan->share = ferry_lease_retain(loan->lease);
    return status;
}

ferry_status
loan_export(struct loan *loan, enum loan_kind kind)
{
    ferry_lease *lease = loan->lease ? loan->lease : loan->share;
    switch (kind) {
    case VERSIONED:
        return ferry_lease_export_dlpack(lease, NULL, &loan->versioned);
    case LEGACY:
        return ferry_lease_export_dlpack_legacy(lease, NULL, &loan->legacy);
    default:
        return ferry_lease_export_arrow(lease, &loan->array, &loan->schema);
    }
}

ferry_status
loan_import(struct loan *loan, ferry_context *context, const ferry_import_options *options)
{
    ferry_status status;
    if (loan->versioned) {
        status = ferry_buffer_import_dlpack(context, loan->versioned, options, &loan->twin);
        loan->versioned = status == FERRY_OK ? NULL : loan->versioned;
    } else if (loan->legacy) {
        status = ferry_buffer_import_dlpack_legacy(context, loan->legacy, options, &loan->twin);
        loan->legacy = status == FERRY_OK ? NULL : loan->legacy;
    } else {
        status =
            ferry_buffer_import_arrow(context, &loan->array, &loan->schema, options, &loan->twin);
        if (status == FERRY_OK)
            loan->schema.release(&loan->schema);
    }
    return status;
}

unsigned
loan_parts(const struct loan *loan)
{
    return (loan->lease ? PART_LEASE : 0) | (loan->share ? PART_SHARE : 0) |
           (loan->versioned ? PART_VERSIONED : 0) | (loan->legacy ? PART_LEGACY : 0) |
           (loan->array.array.release ? PART_ARROW : 0) | (loan->twin ? PART_TWIN : 0);
}

void
loan_drop_part(struct loan *loan, unsigned part)
{
    switch (part) {
    case PART_LEASE:
        ferry_lease_destroy(&loan->lease);
        break;
    case PART_SHARE:
        ferry_lease_destroy(&loan->share);
        break;
    case PART_VERSIONED:
        loan->versioned->deleter(loan->versioned);
        loan->versioned = NULL;
        break;
    case PART_LEGACY:
        loan->legacy->deleter(loan->legacy);
        loan->legacy = NULL;
        break;
    case PART_ARROW:
        if (loan->order & 1)
            loan->schema.release(&loan->schema);
        loan->array.array.release(&loan->array.array);
        if (loan->schema.release)
            loan->schema.release(&loan->schema);
        break;
    default:
        ferry_buffer_destroy(&loan->twin);
        break;
    }
}

static void *
drop_parts(void *argument)
{
    struct loan *loan = argument;
    for (unsigned i = 0; i < PARTS; i++)
        if (loan->dropping & 1u << (i + loan->order) % PARTS)
            loan_drop_part(loan, 1u << (i + loan->order) % PARTS);
    return NULL;
}

void
loan_wait(struct loan *loan)
{
    if (loan->dropping && pthread_join(loan->thread, NULL) != 0)
        abort();
    loan->dropping = 0;
}

void
loan_drop(struct loan *loan, unsigned parts, bool elsewhere)
{
    loan_wait(loan);
    unsigned all = loan_parts(loan);
    loan->dropping = parts & all;
    loan->order++;
    if (!elsewhere || !loan->dropping ||
        pthread_create(&loan->thread, NULL, drop_parts, loan) != 0) {
        drop_parts(loan);
        loan->dropping = 0;
    } else if (loan->dropping == all || loan->dropping & PART_TWIN)
        loan_wait(loan);
}

struct call {
    void (*run)(void *);
    void *argument;
};

static void *
run_call(void *argument)
{
    struct call *call = argument;
    call->run(call->argument);
    return NULL;
}

void
run_elsewhere(void (*run)(void *), void *argument)
{
    pthread_t thread;
    struct call call = {run, argument};
    if (pthread_create(&thread, NULL, run_call, &call) != 0 || pthread_join(thread, NULL) != 0)
        abort();
}

static void
destroy_context(void *context)
{
    ferry_context_destroy(context);
}

void
destroy_elsewhere(ferry_context **context)
{
    run_elsewhere(destroy_context, context);
}

static void
count_one(void *deleted)
{
    atomic_fetch_add((atomic_int *)deleted, 1);
}

ferry_status
import_ints(ferry_context *context, int32_t *memory, size_t count, bool legacy,
            ferry_stream *release_on, atomic_int *deleted, ferry_buffer **out)
{
    ferry_import_options options = {.name = "subject", .release_on = release_on};
    void *made = legacy ? (void *)exchange_legacy(memory, (int64_t)count)
                        : (void *)exchange_versioned(memory, (int64_t)count);
    if (!made)
        abort();
    exchange_around(made)->deleted = count_one;
    exchange_around(made)->user = deleted;
    return legacy ? ferry_buffer_import_dlpack_legacy(context, made, &options, out)
                  : ferry_buffer_import_dlpack(context, made, &options, out);
}
