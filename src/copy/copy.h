/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_COPY_H
#define FERRYI_COPY_H

/*
 * The struct of a call that copies or fills. The caller's thread prepares the call and locks its
 * ranges, so that later conflicting calls wait for it. Then this thread or a worker thread runs the
 * call.
 */

#include "src/buffer/buffer.h"
#include "src/copy/async.h"
#include "src/transfer/file_transfer.h"

struct ferryi_copy_call {
    union {
        struct ferryi_access accesses[3];
        struct {
            /* The access to the target buffer, or to the source if the target is not a buffer. For
             * a copy between overlapping ranges of one buffer, this is one of the two accesses that
             * write (overlap.c). */
            struct ferryi_access main;
            struct ferryi_access other; /* access to the source buffer */
            /* A third access, used only if source and target overlap (overlap.c). */
            struct ferryi_access rest;
        };
    };
    size_t access_count;
    /* Offset of the range of `main`; if source and target overlap, offset of the target. */
    size_t begin;
    size_t bytes;       /* bytes of the target */
    size_t unit;        /* bytes of an element of the target */
    size_t from;        /* offset of the source in its store */
    const void *source; /* source in the caller's memory */
    /* Moves the bytes after all accesses were prepared. The argument `main` is the memory of the
     * main access. */
    ferry_status (*move)(struct ferryi_copy_call *call, struct ferryi_memory main,
                         struct ferryi_transfer_job *job);
    const void *user; /* argument of `move` */
    void *target;
    /* If file.file is not NULL, the file that is used instead of the caller's memory. */
    struct ferryi_file_range file;
    const void *value; /* value of a fill */
    size_t value_bytes;
    const ferry_copy_options *options;
    const atomic_bool *cancelled;
    atomic_size_t *arrived;
    /* The longer call of which this call is one step. The options of the longer call apply. NULL if
     * there is none. */
    struct ferryi_whole_call *whole;
    bool is_hint; /* whether the call is a prefetch, which does not fail if memory cannot be
                     allocated */
    ferry_status (*run)(struct ferryi_copy_call *call); /* runs the claimed call */
};

/* Adds an access to a call. The ranges of all accesses of a call are locked together. */
void ferryi_copy_add_access(struct ferryi_copy_call *call, ferryi_store *store,
                            struct ferryi_range range, uint8_t access, int place,
                            ferryi_timeline *timeline, const char *reason);
/* Returns the transfer job of a call. If the call is one step of a longer call, returns the job of
 * the longer call. */
struct ferryi_transfer_job ferryi_copy_job(const struct ferryi_copy_call *call);
/* Returns a transfer job for an additional copy of the bytes of `job`, such as a copy to temporary
 * memory. The returned job reports no progress, so that these bytes do not count twice. */
struct ferryi_transfer_job ferryi_copy_quiet_job(const struct ferryi_transfer_job *job);
/* The `run` function of all calls that have a `move` function. Prepares the accesses, moves the
 * bytes and closes the accesses. */
ferry_status ferryi_copy_run_move(struct ferryi_copy_call *call);
/* The `run` function of a copy out of a buffer. Copies each segment from a place where the segment
 * is current. */
ferry_status ferryi_copy_run_to(struct ferryi_copy_call *call);

/*
 * The ferryi_copy_plan functions prepare a call. If `place` is -1, they choose a place where the
 * bytes are current. At most one of the two stores may be NULL. That side is then `call->file`, if
 * that is set, and otherwise the caller's memory, whose range ferryi_copy_memory() returns.
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
/* Prepares a copy between ranges of one buffer that overlap but are not equal. The result is that
 * of memmove(). */
ferry_status ferryi_copy_plan_overlapping(struct ferryi_copy_call *call, ferryi_store *store,
                                          struct ferryi_range to, struct ferryi_range from,
                                          int place);
/* Locks the ranges of a prepared call and runs it on this thread. */
ferry_status ferryi_copy_run(struct ferryi_copy_call *call);
/* Runs a prepared call on this thread. The ranges of the call must be locked. */
ferry_status ferryi_copy_run_claimed(struct ferryi_copy_call *call);

/* Returns a place where the whole range is current, preferably the host. If there is no such place,
 * returns the host. */
int ferryi_copy_home(ferryi_store *store, struct ferryi_range range);
int ferryi_copy_meeting_place(ferryi_store *target, struct ferryi_range to, ferryi_store *source,
                              struct ferryi_range from);

#endif
