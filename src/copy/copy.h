/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_COPY_H
#define FERRYI_COPY_H

/*
 * A copy or fill as a value: planned and claimed on the caller's thread, run there or on the helper
 * thread. The claim fixes its place in the order of calls.
 */

#include "src/buffer/buffer.h"
#include "src/buffer/claim_list.h"
#include "src/transfer/file_transfer.h"

/*
 * A call of many steps: lists of regions, rows that are converted or come from files. It holds
 * claims on all that it uses, so that its place in the order of calls is one; its steps claim under
 * those, one after the other, and share one job, in which progress is counted.
 */
struct ferryi_copy_whole {
    struct ferryi_transfer_job job;
    struct ferryi_claim_list claims;
    uint64_t timelines; /* that its steps queued work on */
};

/* The whole call's claim on a store; 0: it has none. */
uint64_t ferryi_copy_under(const struct ferryi_copy_whole *whole, const ferryi_store *store);
/* A step has ended: how far the job came, and the timelines that it used. */
void ferryi_copy_note_whole(struct ferryi_copy_whole *whole, const struct ferryi_transfer_job *job,
                            uint64_t timelines);

struct ferryi_copy_call {
    struct ferryi_access main;  /* the target, or for copy_to the source */
    struct ferryi_access other; /* the source buffer of a copy; else its store is NULL */
    struct ferryi_access
        rest; /* of a copy between overlapping ranges (overlap.c); else its store is NULL */
    const void *source; /* the caller's memory */
    /* Moves the bytes of the copy from the source, of whatever kind; NULL: as they are. */
    ferry_status (*move)(struct ferryi_copy_call *call, struct ferryi_memory target, size_t bytes,
                         struct ferryi_transfer_job *job);
    const void *user; /* of `move` */
    void *target;
    struct ferryi_file_range file; /* in place of the caller's memory; its `file` NULL: none */
    const void *value;             /* of a fill */
    size_t value_bytes;
    const ferry_copy_options *options;
    const atomic_bool *cancelled;
    atomic_size_t *arrived;
    struct ferryi_copy_whole
        *whole;   /* the call that this is a step of, which then has the options; or NULL */
    bool is_hint; /* a prefetch: without memory for it nothing is lost */
    ferry_status (*run)(struct ferryi_copy_call *call); /* after the claim; closes it */
};

/* Plans: they fill in `call`; `place` -1 means where the range is current. */
ferry_status ferryi_copy_plan_from(struct ferryi_copy_call *call, ferryi_store *store,
                                   struct ferryi_range range, const void *source, int place);
void ferryi_copy_plan_to(struct ferryi_copy_call *call, ferryi_store *store,
                         struct ferryi_range range, void *target);
ferry_status ferryi_copy_plan_fill(struct ferryi_copy_call *call, ferryi_store *store,
                                   struct ferryi_range range, const void *value, size_t value_bytes,
                                   int place);
ferry_status ferryi_copy_plan(struct ferryi_copy_call *call, ferryi_store *target,
                              struct ferryi_range to, ferryi_store *source,
                              struct ferryi_range from, int place);
/* The same where they overlap, and are not equal: as memmove(). */
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
/* Claim what was planned. */
ferry_status ferryi_copy_claim(struct ferryi_copy_call *call);
/* Claim and run it on this thread. */
ferry_status ferryi_copy_run(struct ferryi_copy_call *call);
/* Close `call->main`, of which `done` bytes arrived; keeps the message of `status`. */
ferry_status ferryi_copy_finish(struct ferryi_copy_call *call, ferry_status status, size_t done);

/* Where the range is current: the host on a tie or when nowhere. */
int ferryi_copy_home(ferryi_store *store, struct ferryi_range range);
int ferryi_copy_meeting_place(ferryi_store *target, struct ferryi_range to, ferryi_store *source,
                              struct ferryi_range from);
/* The engine's timeline for work at a place; NULL where the copy is host memory. */
int ferryi_lowest_place(ferryi_places places);

/* A NULL element means the buffer's own. */
ferry_status ferryi_copy_check(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                               size_t count, const void *memory, const char *what,
                               struct ferryi_range *out);

#endif
