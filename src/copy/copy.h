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
#include "src/move/move.h"
#include "src/transfer/file_transfer.h"

/* A row: a stretch of bytes that is copied, converted or filled. */
struct ferryi_row {
    /* The storage of the target buffer and of the source buffer. A side without a buffer is memory
     * of the caller or a file, and the source of a fill is nothing. At most one is NULL. */
    ferryi_store *target_store, *source_store;
    /* Offsets in the buffers, addresses in the caller's memory, or offsets in a file from the
     * offset that the host side of the move has. */
    uintptr_t target, source;
    size_t bytes, source_bytes; /* of the target and of the source; more than 0. They differ only if
                                   the row is converted */
    uint32_t unit;              /* bytes of an element of the target */
    bool between; /* whether the target is temporary storage; such a row reports no progress */
};

/* Reserves memory for the target buffer of a row at `*place`. If the library chose this place and
 * there is no memory there, the target is written at the host, and `*place` changes. */
ferry_status ferryi_row_reserve(const struct ferryi_row *row, int *place, bool is_any_place);
/* Reserves memory for the target of a row in the same way, and adds the row to a move. */
ferry_status ferryi_row_add(struct ferryi_move *move, const struct ferryi_row *row, int *place,
                            bool is_any_place);
/* Adds a row to a move that has no others, and runs the move. */
ferry_status ferryi_row_move(struct ferryi_move *move, const struct ferryi_row *row, int *place,
                             bool is_any_place);
/* Makes temporary storage through which bytes pass from one buffer to another, of which one may be
 * NULL. It stands for the target, or else for the source. It is set to zero when it is released if
 * one of the two buffers is. */
ferry_status ferryi_copy_make_middle(const ferryi_store *target, const ferryi_store *source,
                                     size_t bytes, ferryi_store **out);
/* Frees host memory that has a copy of a buffer's bytes, or is NULL. Sets it to zero first if the
 * buffer's memory is. `store` may be NULL if `memory` is. */
void ferryi_copy_free_fetched(void *memory, size_t bytes, const ferryi_store *store);
struct ferryi_copy_call;
/* Makes temporary storage that is released when the call ends. */
ferry_status ferryi_copy_add_middle(struct ferryi_copy_call *call, size_t bytes,
                                    ferryi_store **out);

struct ferryi_convert_call;

struct ferryi_copy_call {
    struct ferryi_row row; /* what the call copies */
    int place;             /* the place where the target is written */
    bool is_any_place;     /* whether the library chose the place */
    /* the conversion of the row's elements (convert_copy.h), or NULL */
    const struct ferryi_convert_call *convert;
    /* Temporary storage through which the bytes pass. The move has it in its lists until it ends.
     */
    ferryi_store *middles[2];
    size_t middle_count;
    void *fetched; /* a copy of the row's source in host memory, or NULL */
    union {
        struct ferryi_access accesses[3];
        struct {
            /* The access to the target buffer, or to the source if the target is not a buffer. */
            struct ferryi_access main;
            struct ferryi_access other; /* access to the source buffer */
        };
    };
    size_t access_count;
    size_t begin; /* offset of the range of `main` */
    size_t bytes; /* bytes of the target */
    size_t unit;  /* bytes of an element of the target */
    /* If file.file is not NULL, the file that is used instead of the caller's memory. */
    struct ferryi_file_range file;
    const void *value; /* value of a fill, or NULL */
    size_t value_bytes;
    const ferry_copy_options *options;
    const atomic_bool *cancelled;
    atomic_size_t *arrived;
    uint64_t timelines; /* set of the numbers of the timelines on which the call queued work */
    /* The longer call of which this call is one step. The options of the longer call apply. NULL if
     * there is none. */
    struct ferryi_whole_call *whole;
    bool is_hint; /* whether the call is a hint, such as a prefetch, which does not fail if memory
                     cannot be allocated */
    ferry_status (*run)(struct ferryi_copy_call *call); /* runs the claimed call */
};

/* Returns the transfer job of a call. If the call is one step of a longer call, returns the job of
 * the longer call. */
struct ferryi_transfer_job ferryi_copy_job(const struct ferryi_copy_call *call);

/* Returns the name in traces and messages of a call between a buffer and a file. */
static inline const char *
ferryi_copy_file_reason(bool stores)
{
    return stores ? "store" : "load";
}

/*
 * The ferryi_copy_plan functions prepare a call. If `place` is -1, they choose a place where the
 * bytes are current. At most one of the two stores may be NULL. That side is then `call->file`, if
 * that is set, and otherwise the caller's memory, whose range ferryi_copy_memory() returns. If
 * `call->convert` is set, both ranges have their lengths, and they must not overlap.
 */
static inline struct ferryi_range
ferryi_copy_memory(const void *memory)
{
    return (struct ferryi_range){(uintptr_t)memory, (uintptr_t)memory};
}
void ferryi_copy_plan(struct ferryi_copy_call *call, ferryi_store *target, struct ferryi_range to,
                      ferryi_store *source, struct ferryi_range from, int place);
void ferryi_copy_plan_fill(struct ferryi_copy_call *call, ferryi_store *store,
                           struct ferryi_range range, const void *value, size_t value_bytes,
                           int place);
/* The `run` function of calls that copy, convert or fill one row. `move_row` moves the row. */
ferry_status ferryi_copy_run_row(struct ferryi_copy_call *call,
                                 ferry_status (*move_row)(struct ferryi_copy_call *call,
                                                          struct ferryi_move *move));
/* Locks the ranges of a prepared call and runs it on this thread. */
ferry_status ferryi_copy_run(struct ferryi_copy_call *call);

/* Returns a place where the whole range is current, preferably the host. If there is no such place,
 * returns the host. */
int ferryi_copy_home(ferryi_store *store, struct ferryi_range range);
int ferryi_copy_meeting_place(ferryi_store *target, struct ferryi_range to, ferryi_store *source,
                              struct ferryi_range from);

#endif
