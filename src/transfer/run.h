/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_RUN_H
#define FERRYI_RUN_H

/*
 * The inside of the engine: its struct, and one running transfer with its progress. Bytes of a run are the bytes that
 * cross, on the device's side when elements are transformed on the way.
 */

#include "src/transfer/engine.h"
#include "src/transfer/ring.h"

/* What the engine keeps of one device. */
struct ferryi_port {
    ferryi_lane *in, *out;      /* opened at first need, under the mutex */
    ferryi_mutex mutex;
    struct ferryi_ring ring;
    _Atomic uint32_t reachable; /* places it can copy from; loses those that turn out not to be */
};

struct ferryi_counter {
    _Atomic uint64_t copies, bytes;
};

struct ferryi_engine {
    struct ferryi_engine_config config;
    ferryi_device *devices[FERRYI_DEVICES_MAX + 1];
    struct ferryi_port ports[FERRYI_DEVICES_MAX + 1]; /* by place; 0 unused */
    struct ferryi_counter directions[FERRY_DIRECTION_FILL + 1];
    struct ferryi_counter direct, staged;
};

struct ferryi_run {
    ferryi_engine *engine;
    const struct ferryi_transfer_job *job;
    ferry_direction direction;
    int target_place, source_place; /* source -1: a fill */
    ferryi_lane *lane;              /* NULL: the host itself */
    ferryi_lane *second;            /* the lane that reads, of a staged peer copy */
    bool staged;
    bool queued;                    /* work was handed to a lane */
    size_t bytes;                   /* of this transfer */
    size_t done;                    /* submitted, or arrived where the transfer waits for that */
    size_t told;                    /* done at the last call of keep_going */
};

/* True for host memory, and for devices whose memory is host memory. */
bool ferryi_engine_is_host(const ferryi_engine *engine, int place);

/* Devices of one kind know each other as peers and take each other's events. */
bool ferryi_engine_same_kind(const ferryi_device *a, const ferryi_device *b);

/* CANCELLED when the job was cancelled before anything moved. */
ferry_status ferryi_run_begin(struct ferryi_run *run);
/* `bytes` more were submitted, or have arrived: tells part_done. */
void ferryi_run_arrived(struct ferryi_run *run, size_t bytes);
/* Between parts, with no chunk of an upload held: asks keep_going and the flag. */
ferry_status ferryi_run_progress(struct ferryi_run *run);
/* Count, settle a failure, tell the trace. Returns the status, with what arrived in the sentence. */
ferry_status ferryi_run_end(struct ferryi_run *run, ferry_status status);

/* Destroy an event; a failure is logged and leaves this thread's sentence alone. */
void ferryi_run_drop_event(struct ferryi_run *run, ferryi_device *device, void *event);

/* How many bytes the next part has: at most `largest`, what the options allow, and what is left; a multiple of `unit`. */
size_t ferryi_run_part(const struct ferryi_run *run, size_t begin, size_t largest, size_t unit);
/* True when somebody may stop the transfer, so that it must go part by part. */
bool ferryi_run_is_watched(const struct ferryi_run *run);

/* Transfers of pageable memory through a ring (staged.c). `transform` may be NULL. Host pointers advance by host elements. */
ferry_status ferryi_staged_upload(struct ferryi_run *run, struct ferryi_ring *ring, void *target, const void *source,
                                  const struct ferryi_transform *transform);
ferry_status ferryi_staged_download(struct ferryi_run *run, struct ferryi_ring *ring, void *target, const void *source,
                                    const struct ferryi_transform *transform);
/* From the source device's memory through `ring`, the target device's; `run->second` is the source device's lane. */
ferry_status ferryi_staged_peer(struct ferryi_run *run, struct ferryi_ring *ring, void *target, const void *source);

/* The ring of a place, and its lanes: NULL in *out after a failure. */
struct ferryi_ring *ferryi_engine_ring(ferryi_engine *engine, int place);
ferry_status ferryi_engine_open_lane(ferryi_engine *engine, int place, bool out_of, ferryi_lane **out);

#endif
