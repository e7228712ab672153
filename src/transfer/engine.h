/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ENGINE_H
#define FERRYI_ENGINE_H

/*
 * The transfer engine: moves bytes between memories of places. It knows no buffers, no maps and no
 * conflicts.
 *
 * Each device has two timelines of the engine's own: `in` for what is written into it (uploads,
 * peer copies, copies inside, fills) and `out` for what leaves it, so that both directions overlap.
 * The caller orders the timeline it passes after earlier uses of both memories, calls the engine,
 * and afterwards notes the uses on that timeline.
 *
 * Pinned host memory goes straight to the copy engine. Pageable memory goes through the device's
 * staging ring of pinned chunks: an upload returns when the last byte has been staged; a download
 * returns when the last byte has arrived. Chunks of long transfers are filled and drained by the
 * helpers (helpers.h) beside the caller; which ring and which loop they take is measured
 * (tuning.h). Host to host is memcpy. Ordinary memory that was page-locked later (pins.h) goes
 * straight too, but a transfer of it ends as one of pageable memory does: nothing uses the memory
 * any more when it returns. So does pageable memory in long pieces where the device's copy engine
 * walks the host's page tables (FERRYI_DEVICE_TAKES_PAGEABLE); what such a device refuses is
 * staged. No other pageable memory is handed to an asynchronous driver call.
 *
 * Every transfer is counted by direction and path, and reported to the trace callback. No lock is
 * held during a copy, a wait or a callback: a transfer owns the chunks of a ring that it has in
 * flight, and several transfers share one (ring.h). When a transfer fails, what it had queued has
 * been waited for.
 */

#include <ferry/buffer.h>
#include <ferry/context.h>

#include "src/base/base.h"
#include "src/base/trace.h"
#include "src/stream/timeline.h"
#include "src/transfer/pins.h"

typedef struct ferryi_engine ferryi_engine;
struct ferryi_traffic;

/* One side of a transfer. */
struct ferryi_memory {
    int place; /* 0 host */
    void *pointer;
    bool pinned; /* host memory that the copy engine may use directly */
};

/* Who asks, for traces, progress and cancelling, and how far what was asked for has come: one job
 * for all transfers of a call. */
struct ferryi_transfer_job {
    const char *buffer; /* its name or "" */
    const char *reason;
    struct ferryi_traffic
        *traffic; /* what else counts the transfers (traffic.h): the buffer's counters; or NULL */
    const ferry_copy_options *options;   /* or NULL */
    const atomic_bool *cancelled;        /* or NULL */
    atomic_size_t *arrived;              /* follows `done`, for another thread; or NULL */
    bool foreign_source, foreign_target; /* the caller's own memory: place -1 in traces */
    bool moves;                          /* from one copy of the buffer to another */
    uint32_t id;                         /* of the buffer; 0: several, or none that has an id */
    size_t offset; /* in the buffer, where the job's first byte lies; SIZE_MAX: unknown */
    size_t total;  /* bytes of all transfers, as their targets count them; 0: there is one */
    size_t done; /* of them, those that were submitted (an upload), or have arrived (a download), so
                    far */
    size_t reported; /* the engine's: `done` when keep_going was last asked */
};

/* A function that makes target bytes out of source bytes on the host, chunk by chunk: conversions.
 * Where it fails, the transfer stops. */
struct ferryi_transform {
    ferry_status (*run)(void *target, const void *source, size_t count, const void *user);
    size_t source_bytes, target_bytes; /* of one element */
    const void *user;
};

/* Which loop copies pageable memory into and out of the staging ring. */
enum ferryi_staging_loop {
    FERRYI_STAGING_LOOP_AUTO, /* measured by the first long transfers of each device */
    FERRYI_STAGING_LOOP_LIBC,
    FERRYI_STAGING_LOOP_PREFETCH,
    FERRYI_STAGING_LOOP_STREAM
};

struct ferryi_engine_config {
    ferryi_device **devices; /* [1..count] by place; index 0 unused */
    int count;
    ferryi_order *order;
    const struct ferryi_log *log;
    size_t chunk_bytes, chunk_count; /* of a ring; 0: as suits the transfer */
    enum ferryi_staging_loop copy;
    unsigned threads;          /* that fill and drain, the caller among them; 0: as many as help */
    size_t pinned_bytes_limit; /* of the pinned pool and of own memory that is page-locked */
    size_t pin_piece_bytes;    /* 0: the default */
    ferry_trace_callback *trace;
    void *trace_user;
    bool trace_sites;         /* traces tell where the program called */
    ferryi_trace *file_trace; /* or NULL */
};

ferry_status ferryi_engine_create(const struct ferryi_engine_config *config, ferryi_engine **out);
void ferryi_engine_destroy(ferryi_engine **engine);

/* The timeline that a transfer between these places should use: the target device's `in`, or for
 * downloads the source device's `out`. NULL for host to host. */
ferry_status ferryi_engine_timeline(ferryi_engine *engine, int target_place, int source_place,
                                    ferryi_timeline **out);

/*
 * Copy. `timeline` belongs to the target's place, or for a download to the source's; NULL for host
 * to host. Source and target do not overlap, except on the host, where it is memmove. Places that
 * cannot reach each other go through the host's ring.
 * @return FERRY_OK, FERRY_ERROR_CANCELLED (by options or flag; the message says how many bytes
 * arrived), or the device's status
 */
ferry_status ferryi_engine_copy(ferryi_engine *engine, struct ferryi_memory target,
                                struct ferryi_memory source, size_t bytes,
                                ferryi_timeline *timeline, struct ferryi_transfer_job *job);

/* As copy, with `count` elements transformed on the host between the two; at least one side is the
 * host. Bytes in counts are those that cross: the target's, or for a download the source's. The
 * job's are the target's. UNSUPPORTED for one element larger than a staging chunk. */
ferry_status ferryi_engine_copy_transformed(ferryi_engine *engine, struct ferryi_memory target,
                                            struct ferryi_memory source, size_t count,
                                            const struct ferryi_transform *transform,
                                            ferryi_timeline *timeline,
                                            struct ferryi_transfer_job *job);

/* Repeat `element_bytes` of pattern over `bytes`, a multiple. On a device any element size works:
 * patterns of 1, 2 and 4 bytes are filled, others written once and doubled. */
ferry_status ferryi_engine_fill(ferryi_engine *engine, struct ferryi_memory target, size_t bytes,
                                const void *pattern, size_t element_bytes,
                                ferryi_timeline *timeline, struct ferryi_transfer_job *job);

/*
 * A job that is done by other means than a transfer, a part at a time: how many bytes the next part
 * may have at most, and that `bytes` more are done. @return FERRY_OK, FERRY_ERROR_CANCELLED (the
 * message says how many bytes arrived)
 */
size_t ferryi_engine_part(const ferryi_engine *engine, const struct ferryi_transfer_job *job);
ferry_status ferryi_engine_reported(ferryi_engine *engine, struct ferryi_transfer_job *job,
                                    size_t bytes);

/* True when `target_place` can copy from `source_place` directly. The set of such places for one
 * target. */
uint32_t ferryi_engine_reachable(const ferryi_engine *engine, int target_place);

/* Host memory that was page-locked after it was allocated. */
struct ferryi_pins *ferryi_engine_pins(ferryi_engine *engine);

/* How staged transfers went, which is no part of the public statistics. */
struct ferryi_staging_stats {
    uint64_t
        staging_chunks;     /* chunks that carried bytes: of single copies, batches, rows, files,
                               conversions, copies between devices and the     beginning of fills. A
                               transfer that failed or was cancelled counts the chunks that arrived */
    uint64_t helper_chunks; /* of them, filled or drained by helper threads, which only single
                               copies use */
    uint64_t libc_bytes, prefetch_bytes,
        stream_bytes; /* copied into and out of those chunks, by loop; batches and rows use
memcpy(). Files and conversions work in the chunks themselves and are not counted here */
};

/* Everything but device_calls, which the devices count. */
void ferryi_engine_stats(ferryi_engine *engine, ferry_transfer_stats *out);
void ferryi_engine_staging_stats(ferryi_engine *engine, struct ferryi_staging_stats *out);
/* Sets all counters to zero. Any thread; exact when no transfer runs. */
void ferryi_engine_reset_stats(ferryi_engine *engine);

#endif
