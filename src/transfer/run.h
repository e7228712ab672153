/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_RUN_H
#define FERRYI_RUN_H

/*
 * The inside of the engine: its struct, and one running transfer with its progress. Bytes of a run
 * are the bytes that cross, on the device's side when elements are transformed on the way.
 */

#include "src/transfer/engine.h"
#include "src/transfer/helpers.h"
#include "src/transfer/ring.h"
#include "src/transfer/throttle.h"
#include "src/transfer/traffic.h"
#include "src/transfer/tuning.h"

/* What the engine keeps of one device. */
FERRYI_MUTEX_CLASS(ferryi_port_mutex);

struct ferryi_port {
    struct ferryi_port_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_port_mutex) struct {
        ferryi_timeline *in, *out; /* opened at first need */
        void *scatter_module;
        bool scatter_asked;
    };
    struct ferryi_ring ring;
    struct ferryi_ring large; /* the same with large chunks, for long transfers; none are made until
                                 one takes them */
    struct ferryi_tuning uploads, downloads;
    _Atomic uint32_t reachable; /* places it can copy from; loses those that turn out not to be */
    void *_Atomic
        scatter; /* the kernel of batches (scatter.h); NULL: not loaded, or not to be had */
};

struct ferryi_engine {
    struct ferryi_engine_config config; /* with the size of chunks filled in */
    bool fixed_ring;                    /* it was asked for */
    ferryi_device *devices[FERRYI_DEVICES_MAX + 1];
    struct ferryi_port ports[FERRYI_DEVICES_MAX + 1]; /* by place; 0 unused */
    _Atomic uint64_t batch_submissions, batch_copies;
    struct ferryi_counter counters[FERRY_DIRECTION_FILL + 1][2]; /* by direction: direct, staged */
    _Atomic uint64_t chunks, helper_chunks;         /* that carried bytes; of them, by helpers */
    _Atomic uint64_t loop_bytes[FERRYI_COPY_LOOPS]; /* copied into and out of them */
    struct ferryi_helpers helpers;
    struct ferryi_pins pins;
};

/* How a staged transfer goes. */
struct ferryi_staging {
    struct ferryi_ring *ring;
    enum ferryi_copy_loop loop;
    bool shared;   /* the helpers fills and drains too */
    size_t window; /* chunks that may be filled, or drained, at once */
    size_t part;   /* bytes of a chunk that are used */
    size_t ramp;   /* bytes of an upload's first chunk; each further one is four times as large
                      until there are `part`. 0: all have `part` */
    size_t until;  /* stop when this many bytes of the run are done; SIZE_MAX: go to the end */
};

struct ferryi_run {
    ferryi_engine *engine;
    struct ferryi_transfer_job *job;
    uint64_t begun_ns;                        /* where a file traces transfers */
    const struct ferryi_transform *transform; /* of what crosses; or NULL */
    ferry_direction direction;
    int target_place, source_place; /* source -1: a fill */
    ferryi_timeline *timeline;      /* NULL: the host itself */
    ferryi_timeline *second;        /* the timeline that reads, of a staged peer copy */
    bool staged;
    bool profiled;     /* a range of a profiler is open for it */
    bool queued;       /* work was handed to a timeline, and not waited for since */
    size_t bytes;      /* of this transfer */
    size_t done;       /* submitted, or arrived where the transfer waits for that */
    size_t unrecorded; /* chunks that were sent since an event was recorded */
};

/* True for host memory, and for devices whose memory is host memory. */
bool ferryi_engine_is_host(const ferryi_engine *engine, int place);

/* True where each submission is a call of a driver, and no processor of the host makes the copies.
 */
bool ferryi_engine_is_driven(const ferryi_engine *engine, int place);

/* The NUMA node of the host that `count` devices, from place 1 on, all are nearest to; -1: they
 * differ, or one is unknown. */
int ferryi_engine_common_node(ferryi_device *const devices[], int count);

/* Devices of one kind know each other as peers and take each other's events. */
bool ferryi_engine_same_kind(const ferryi_device *a, const ferryi_device *b);

/* A transfer between two places, its direction found out. Nothing but beginning it comes before its
 * beginning. */
struct ferryi_run ferryi_run_make(ferryi_engine *engine, int target_place, int source_place,
                                  size_t bytes, ferryi_timeline *timeline,
                                  struct ferryi_transfer_job *job);
/* CANCELLED when the job was cancelled before anything moved. */
ferry_status ferryi_run_begin(struct ferryi_run *run);
/* `bytes` more were submitted, or have arrived. */
void ferryi_run_arrived(struct ferryi_run *run, size_t bytes);
/* Between parts, right after the chunk of one was given back: asks keep_going and the flag. */
ferry_status ferryi_run_progress(struct ferryi_run *run);
/* A chunk has carried its bytes: an upload's when it is on its way, a download's when it was
 * drained. */
void ferryi_run_count_chunk(const struct ferryi_run *run);
/* Bytes that the host copied into or out of chunks. */
void ferryi_run_count_copied(const struct ferryi_run *run, enum ferryi_copy_loop loop,
                             size_t bytes);
/* Count, settle a failure, tell the trace. Returns the status, with what arrived in the message. */
ferry_status ferryi_run_end(struct ferryi_run *run, ferry_status status);

/* Wait for what a failed transfer has queued and not waited for yet; keeps this thread's message.
 */
void ferryi_run_settle(struct ferryi_run *run);

/* How many bytes the next part has: at most `largest`, what the options allow, and what is left; a
 * multiple of `unit`. */
size_t ferryi_run_part(const struct ferryi_run *run, size_t begin, size_t largest, size_t unit);
/* True when the transfer can be cancelled, so that it must go part by part. */
bool ferryi_run_is_watched(const struct ferryi_run *run);

/* Copy `bytes` of host memory as the next of the run, as memmove() does; part by part where it is
 * watched. */
ferry_status ferryi_run_copy_on_host(struct ferryi_run *run, char *target, const char *source,
                                     size_t bytes);
/* The host reads and writes the memory now: what the timeline was ordered after must be over. */
ferry_status ferryi_run_wait_for_timeline(const struct ferryi_run *run);

/* Pageable memory in pieces of at most this size is staged everywhere: an upload through the ring
 * does not wait for the device. */
#define FERRYI_STAGED_MOST ((size_t)64 << 10)
/* True where pageable memory in pieces of `bytes` goes straight to the run's device. The copy is
 * waited for: on such devices it is asynchronous. */
bool ferryi_run_takes_pageable(const struct ferryi_run *run, size_t bytes);

/* Queue one copy on the timeline, by the call that its direction has. */
ferry_status ferryi_run_submit(ferryi_timeline *timeline, const struct ferryi_copy *copy);
/* The chunk of `ring` is on its way to the device: its use is marked on the run's timeline, and the
 * chunk is given back. */
ferry_status ferryi_run_mark_sent(struct ferryi_run *run, struct ferryi_ring *ring,
                                  struct ferryi_chunk *chunk);
/* Queue the copy of a filled chunk of `ring` to the run's next bytes in `target`, and give the
 * chunk back. */
ferry_status ferryi_run_send(struct ferryi_run *run, struct ferryi_ring *ring,
                             struct ferryi_chunk *chunk, char *target);
/*
 * Queue the copy of `chunk->bytes` from `source`, in the source device's memory, into the chunk;
 * with `wait` they have arrived on return. A chunk that could not be filled was given back.
 */
ferry_status ferryi_run_fetch(struct ferryi_run *run, struct ferryi_ring *ring,
                              struct ferryi_chunk *chunk, const char *source, bool wait);

/* Transfers of pageable memory through a ring (staged.c), from where the run is, by its transform.
 * Host pointers advance by host elements. */
ferry_status ferryi_staged_upload(struct ferryi_run *run, const struct ferryi_staging *how,
                                  void *target, const void *source);
ferry_status ferryi_staged_download(struct ferryi_run *run, const struct ferryi_staging *how,
                                    void *target, const void *source);
/* From the source device's memory through the ring, the target device's; `run->second` is the
 * source device's timeline. */
ferry_status ferryi_staged_peer(struct ferryi_run *run, const struct ferryi_staging *how,
                                void *target, const void *source);

/* The plain way through the small ring of a place, by the caller alone. */
struct ferryi_staging ferryi_staging_plain(ferryi_engine *engine, int place);
/* How many helpers a device's long transfers have. */
unsigned ferryi_staging_helpers(const ferryi_engine *engine, int place);
/* The most helpers that a device with this link, 0 where it is unknown, has use for on a machine
 * with this many processors. */
unsigned ferryi_staging_helpers_of(uint64_t link_bytes, unsigned processors);
/* What a trial of this ring takes: to fill it, and to time it. */
size_t ferryi_staging_trial_bytes(const struct ferryi_ring *ring);
/* A staged upload or download of plain bytes by the ring, loop and helpers that suit it best
 * (staging.c). */
ferry_status ferryi_staging_copy(struct ferryi_run *run, void *target, const void *source);

/* What the caller ordered the run's timeline after comes before what `later`, of another device,
 * does next. */
ferry_status ferryi_run_order(struct ferryi_run *run, ferryi_timeline *later);
/* False when it was found that the device cannot copy from that place; the way there is then
 * forgotten. */
bool ferryi_engine_reaches(const ferryi_engine *engine, int target_place, int source_place);
void ferryi_engine_forget_peer(ferryi_engine *engine, int target_place, int source_place);

/* The small ring of a place. */
struct ferryi_ring *ferryi_engine_ring(ferryi_engine *engine, int place);
/* The ring for a batch of `bytes` bytes. */
struct ferryi_ring *ferryi_staging_ring(ferryi_engine *engine, int place, size_t bytes);
/* Bytes of each chunk that a transfer of `bytes` bytes uses, so that several chunks are on their
 * way even if it is short. */
size_t ferryi_staging_part(const ferryi_engine *engine, const struct ferryi_ring *ring,
                           size_t bytes);
/* One of the engine's own timelines. */
ferry_status ferryi_engine_open_timeline(ferryi_engine *engine, int place, bool out_of,
                                         ferryi_timeline **out);

#endif
