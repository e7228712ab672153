/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ENGINE_H
#define FERRYI_ENGINE_H

/*
 * The transfer engine copies bytes between memories of places. It does not depend on buffers or
 * valid maps.
 *
 * The engine opens timelines for each device. A timeline represents one stream of the device. The
 * timeline `in` is for work that writes to the device: uploads, peer copies, copies within the
 * device, and fills. The timeline `out` is for downloads, so that both directions overlap. The
 * timeline `late` is for uploads that wait for work of the program, so that other uploads pass
 * them. The caller passes one of the timelines to each call. Before the call, the caller makes this
 * timeline wait for earlier uses of the source and the target. After the call, the caller records
 * the new uses on that timeline.
 *
 * The copy engine accesses pinned host memory directly. Pageable memory goes through the device's
 * staging ring of pinned chunks (flow.h). An upload returns when the last byte is in the ring. A
 * download returns when the last byte has arrived. The caller and helper threads fill and drain the
 * chunks of long transfers (helpers.h). staging.c chooses the ring and the copy loop by the size of
 * the transfer and the processor family. The calling thread makes copies from host to host.
 *
 * Memory that was page-locked after its allocation (pins.h) is accessed directly as well. But a
 * transfer of such memory returns only when no device uses the memory any more. The same holds for
 * transfers of more than 64 KiB of memory that another library has page-locked, if the driver says
 * so. Long pieces of pageable memory are treated in the same way if the device's copy engine walks
 * the host's page tables (FERRYI_DEVICE_TAKES_PAGEABLE). If such a device refuses a piece, the
 * piece is staged. No other pageable memory is passed to an asynchronous driver call.
 *
 * Every transfer is counted by direction and path, and reported to the trace callback. No lock is
 * held during a copy, a wait or a callback. A transfer owns its chunks in flight, and several
 * transfers share one ring (ring.h). After a failure, a transfer waits for the work that it queued
 * before it returns.
 */

#include <ferry/buffer.h>
#include <ferry/context.h>

#include "src/base/base.h"
#include "src/base/copy_loop.h"
#include "src/stream/timeline.h"
#include "src/trace/trace.h"
#include "src/transfer/pins.h"

typedef struct ferryi_engine ferryi_engine;
struct ferryi_traffic;

/* One side of a transfer. */
struct ferryi_memory {
    int place; /* 0: the host */
    void *pointer;
    /* whether `pointer` is host memory that the copy engine may access directly */
    bool pinned;
};

/* Describes the transfers of one call of the library, and holds their progress. All transfers of
 * the call share one job. The engine uses the job for traces, progress reports and cancellation. */
struct ferryi_transfer_job {
    const char *buffer; /* the buffer's name or "" */
    const char *reason;
    struct ferryi_traffic *traffic; /* the counters of one buffer (traffic.h), to which the engine
                                       adds each transfer of the job; or NULL */
    const ferry_copy_options *options;   /* or NULL */
    const atomic_bool *cancelled;        /* or NULL */
    atomic_size_t *arrived;              /* a copy of `done` for other threads; or NULL */
    bool foreign_source, foreign_target; /* whether the source or the target is memory of the
                                            caller; traces report such memory as place -1 */
    bool moves;    /* whether source and target are replicas of the same buffer */
    uint32_t id;   /* id of the buffer; 0: there are several buffers, or the buffer has no id */
    size_t offset; /* offset of the job's first byte in the buffer; SIZE_MAX: unknown */
    size_t total;  /* number of bytes that all transfers of the job together write; 0: the job is a
                      single transfer */
    size_t done;   /* number of bytes of `total` that were submitted (uploads) or have arrived
                      (downloads) */
    size_t unit; /* size of an element of the target, which no part of a transfer cuts; 0: parts may
                    end anywhere */
    size_t reported; /* value of `done` at the last call of the program's callback keep_going; used
                        only by the engine */
    /* the job whose progress is reported instead of this job's progress; or NULL. It is set if this
     * job is only a step, such as a fetch, whose bytes do not count */
    const struct ferryi_transfer_job *result;
};

/* A conversion of the elements of a transfer. The function `run` converts `count` elements on the
 * host. If the function fails, the transfer stops. */
struct ferryi_transform {
    ferry_status (*run)(void *target, const void *source, size_t count, const void *user);
    /* Whether the device at `place` converts elements in its own memory, and the function that
     * queues this. NULL: no device does. */
    bool (*queues_at)(const void *user, int place);
    ferry_status (*queue)(const void *user, ferryi_timeline *timeline, void *target,
                          const void *source, size_t count);
    size_t source_bytes, target_bytes; /* size of one element */
    /* Whether helper threads may call `run`. It must then not fail, and call nothing of the
     * program. */
    bool by_helpers;
    bool keeps_zeros; /* whether `run` makes zero bytes of zero bytes */
    const void *user;
};

struct ferryi_engine_config {
    ferryi_device **devices; /* [1..count] by place; devices[0] is unused */
    int count;
    ferryi_order *order;
    const struct ferryi_log *log;
    /* size and number of the chunks in each staging ring; 0: the engine chooses */
    size_t chunk_bytes, chunk_count;
    /* Size of the parts into which a long transfer of one range is divided. It is rounded up to
     * whole pages, and at most the size of a chunk. 0: the engine chooses. */
    size_t part_bytes;
    /* The loop that copies pageable memory into and out of staging chunks. */
    enum ferryi_copy_loop copy;
    unsigned threads; /* number of threads that fill and drain staging chunks, including the calling
                         thread; 0: the engine chooses */
    size_t pinned_bytes_limit; /* limit on the sum of two numbers of bytes: the size of the pinned
                                  pool, and the size of Ferry's memory that was page-locked after
                                  its allocation */
    size_t pin_piece_bytes;    /* 0: the default */
    ferry_trace_callback *trace;
    void *trace_user;
    bool trace_sites;         /* whether traces include the program's call sites */
    ferryi_trace *file_trace; /* or NULL */
};

ferry_status ferryi_engine_create(const struct ferryi_engine_config *config, ferryi_engine **out);
void ferryi_engine_destroy(ferryi_engine **engine);

/* Sets `*out` to the timeline that a transfer from `source_place` to `target_place` should use. For
 * a download, this is the timeline `out` of the source device. For all other transfers, this is the
 * timeline `in` of the target device. Sets `*out` to NULL if both places are the host. */
ferry_status ferryi_engine_timeline(ferryi_engine *engine, int target_place, int source_place,
                                    ferryi_timeline **out);
/* Returns the timeline that an upload should use instead of `timeline`, the timeline `in` of its
 * device, if it must wait for work of the program, which may take long: the timeline `late`.
 * Returns `timeline` if that cannot be opened. */
ferryi_timeline *ferryi_engine_late_timeline(ferryi_engine *engine, ferryi_timeline *timeline);

/*
 * Copies `bytes` bytes from `source` to `target`. For a download, `timeline` belongs to the
 * source's place, and otherwise to the target's place. It is NULL if both places are the host.
 * Source and target must not overlap, except on the host, where the copy works like memmove().
 * Copies between devices that cannot access each other go through the target's staging ring.
 * @return FERRY_OK, FERRY_ERROR_CANCELLED (the callback keep_going or the job's cancel flag
 * requested it; the message says how many bytes arrived), or the device's status
 */
ferry_status ferryi_engine_copy(ferryi_engine *engine, struct ferryi_memory target,
                                struct ferryi_memory source, size_t bytes,
                                ferryi_timeline *timeline, struct ferryi_transfer_job *job);

/* Fills `bytes` bytes, a multiple of `element_bytes`, with copies of the pattern. A device fills
 * patterns of 1, 2 and 4 bytes in one call. For other patterns, the host writes the first copies of
 * the pattern. The device then appends a copy of all filled bytes, again and again, until the
 * memory is full. */
ferry_status ferryi_engine_fill(ferryi_engine *engine, struct ferryi_memory target, size_t bytes,
                                const void *pattern, size_t element_bytes,
                                ferryi_timeline *timeline, struct ferryi_transfer_job *job);

/*
 * These functions are for jobs whose caller copies the bytes itself, part by part.
 * ferryi_engine_part() returns the maximum number of bytes in the next part. The caller reports to
 * ferryi_engine_reported() that `bytes` more bytes are copied.
 * @return ferryi_engine_reported(): FERRY_OK, FERRY_ERROR_CANCELLED (the message says how many
 * bytes arrived)
 */
size_t ferryi_engine_part(const ferryi_engine *engine, const struct ferryi_transfer_job *job);
ferry_status ferryi_engine_reported(ferryi_engine *engine, struct ferryi_transfer_job *job,
                                    size_t bytes);

/* Returns the set of places whose memory the device at `target_place` can copy from directly, with
 * one bit for each place. */
uint32_t ferryi_engine_reachable(const ferryi_engine *engine, int target_place);

/* Returns whether the device at a place copies page-locked memory directly. The first device of the
 * context that can page-lock memory does so for itself and its peers. False for the host's place.
 */
bool ferryi_engine_takes_pinned(const ferryi_engine *engine, int place);

/* Returns the engine's list of host memory that was page-locked after its allocation. */
struct ferryi_pins *ferryi_engine_pins(ferryi_engine *engine);

/* Statistics of staged transfers, which are not part of the public statistics. */
struct ferryi_staging_stats {
    uint64_t staging_chunks; /* number of chunks that carried bytes, in all kinds of transfers. For
                                a transfer that failed or was cancelled, only the chunks that
                                arrived are counted */
    uint64_t helper_chunks;  /* number of chunks that helper threads filled or drained; helpers take
                                part only in copies of a single range */
    uint64_t copied_bytes; /* number of bytes that the host copied into and out of chunks. File data
                              and converted elements are not counted, because they are read into
                              chunks and written from chunks without a separate copy */
};

/* Reads all statistics of transfers, except those that the devices themselves count. */
void ferryi_engine_stats(ferryi_engine *engine, ferry_transfer_stats *out);
void ferryi_engine_staging_stats(ferryi_engine *engine, struct ferryi_staging_stats *out);
/* Sets all counters of the engine to zero. Any thread may call it. The counters are exact
 * afterwards only if no transfer is running during the call. */
void ferryi_engine_reset_stats(ferryi_engine *engine);

#endif
