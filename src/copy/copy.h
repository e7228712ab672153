/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_COPY_H
#define FERRYI_COPY_H

/*
 * A copy or fill as a value: planned and claimed on the caller's thread, run there or on the helper
 * thread. The claim fixes its place in the order of calls.
 */

#include "src/buffer/buffer.h"
#include "src/copy/whole_call.h"
#include "src/transfer/file_transfer.h"

struct ferryi_copy_call {
    union {
        struct ferryi_access accesses[3];
        struct {
            struct ferryi_access main;  /* the target, or for copy_to the source */
            struct ferryi_access other; /* the source buffer, or what is written and read */
            struct ferryi_access rest;  /* of a copy between overlapping ranges (overlap.c) */
        };
    };
    size_t access_count;
    size_t begin;       /* of the main access; of overlapping ranges, of all that is written */
    size_t bytes;       /* of the target */
    size_t from;        /* where the source begins in its store */
    const void *source; /* the caller's memory */
    /* Moves the bytes; the accesses are prepared, and `main` is the memory of the first. */
    ferry_status (*move)(struct ferryi_copy_call *call, struct ferryi_memory main,
                         struct ferryi_transfer_job *job);
    const void *user; /* of `move` */
    void *target;
    struct ferryi_file_range file; /* in place of the caller's memory; its `file` NULL: none */
    const void *value;             /* of a fill */
    size_t value_bytes;
    const ferry_copy_options *options;
    const atomic_bool *cancelled;
    atomic_size_t *arrived;
    struct ferryi_whole_call
        *whole;   /* the call that this is a step of, which then has the options; or NULL */
    bool is_hint; /* a prefetch: without memory for it nothing is lost */
    ferry_status (*run)(struct ferryi_copy_call *call); /* after the claim; closes it */
};

/* Adds an access to what the call claims. */
void ferryi_copy_add_access(struct ferryi_copy_call *call, ferryi_store *store,
                            struct ferryi_range range, uint8_t access, int place,
                            ferryi_timeline *timeline, const char *reason);
/* The job of the call, or the whole call's, which the step goes on with. */
struct ferryi_transfer_job ferryi_copy_job(const struct ferryi_copy_call *call);
/* The job of a step of the same bytes that reports no progress. */
struct ferryi_transfer_job ferryi_copy_quiet_job(const struct ferryi_transfer_job *job);
/* The `run` of a call that moves: prepares the accesses, moves the bytes and closes them. */
ferry_status ferryi_copy_run_move(struct ferryi_copy_call *call);
/* The `run` of a copy out of a buffer, from wherever each stretch of it is current. */
ferry_status ferryi_copy_run_to(struct ferryi_copy_call *call);

/*
 * Plans fill in `call`; `place` -1 means where the target is current. A NULL store means the
 * caller's memory, whose range begins at an address, or `call->file` where that is set; not both
 * are NULL.
 */
static inline struct ferryi_range
ferryi_copy_memory(const void *memory)
{
    return (struct ferryi_range){(uintptr_t)memory, (uintptr_t)memory};
}
ferry_status ferryi_copy_plan(struct ferryi_copy_call *call, ferryi_store *target,
                              struct ferryi_range to, ferryi_store *source,
                              struct ferryi_range from, int place);
ferry_status ferryi_copy_plan_fill(struct ferryi_copy_call *call, ferryi_store *store,
                                   struct ferryi_range range, const void *value, size_t value_bytes,
                                   int place);
/* A copy between ranges that overlap, and are not equal: as memmove(). */
ferry_status ferryi_copy_plan_overlapping(struct ferryi_copy_call *call, ferryi_store *store,
                                          struct ferryi_range to, struct ferryi_range from,
                                          int place);
/* No byte, or onto itself. */
static inline bool
ferryi_copy_is_nothing(const ferryi_store *target, struct ferryi_range to,
                       const ferryi_store *source, struct ferryi_range from)
{
    return to.begin == to.end || (target == source && to.begin == from.begin);
}
/* Claims what was planned and runs it on this thread. */
ferry_status ferryi_copy_run(struct ferryi_copy_call *call);
/* Runs it after its accesses were claimed. */
ferry_status ferryi_copy_run_claimed(struct ferryi_copy_call *call);

/* Where the range is current: the host on a tie or when nowhere. */
int ferryi_copy_home(ferryi_store *store, struct ferryi_range range);
int ferryi_copy_meeting_place(ferryi_store *target, struct ferryi_range to, ferryi_store *source,
                              struct ferryi_range from);
int ferryi_lowest_place(ferryi_places places);

/* A NULL element means the buffer's own. */
ferry_status ferryi_copy_check(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                               size_t count, const void *memory, const char *what,
                               struct ferryi_range *out);

#endif
