/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_RUN_H
#define FERRYI_RUN_H

/*
 * The internals of the transfer engine: the engine's struct, and `struct ferryi_run`, which is one
 * running transfer with its progress. The bytes of a run are the bytes that cross the link between
 * host and device. If the host converts elements, these are the bytes of the elements on the
 * device's side.
 */

#include "src/transfer/engine.h"
#include "src/transfer/helpers.h"
#include "src/transfer/ring.h"
#include "src/transfer/throttle.h"
#include "src/transfer/traffic.h"

FERRYI_MUTEX_CLASS(ferryi_port_mutex);

/* Minimum size of a transfer that uses helper threads and starts them if necessary. Such a transfer
 * uses large chunks on devices where each chunk costs driver calls. */
#define FERRYI_HELP_FROM ((size_t)4 << 20)

/* The engine's state for one device. */
struct ferryi_port {
    struct ferryi_port_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_port_mutex) struct {
        ferryi_timeline *in, *out; /* opened when first used */
        void *scatter_module;
        bool scatter_asked;
    };
    struct ferryi_ring ring;
    struct ferryi_ring large; /* a ring of large chunks for long transfers; each chunk is allocated
                                 when it is first used */
    _Atomic uint32_t reachable; /* the set of places from which the device can copy directly. A
                                   place is removed if a copy from it fails as unsupported */
    void *_Atomic scatter; /* the kernel that copies batches (scatter.h); NULL: not loaded, or the
                              device cannot run it */
};

struct ferryi_engine {
    struct ferryi_engine_config config; /* the defaults of chunk sizes are filled in */
    bool fixed_ring;                    /* whether the program chose the size of the ring */
    ferryi_device *devices[FERRYI_DEVICES_MAX + 1];
    struct ferryi_port ports[FERRYI_DEVICES_MAX + 1]; /* by place; ports[0] is unused */
    _Atomic uint64_t batch_submissions, batch_copies;
    /* by direction, and [0] direct, [1] staged */
    struct ferryi_counter counters[FERRY_DIRECTION_FILL + 1][2];
    _Atomic uint64_t chunks, helper_chunks; /* number of chunks that carried bytes, and number of
                                               those chunks that helpers filled or drained */
    _Atomic uint64_t copied_bytes; /* number of bytes that the host copied into and out of chunks */
    struct ferryi_helpers helpers;
    struct ferryi_pins pins;
};

/* Parameters of a staged transfer. */
struct ferryi_staging {
    struct ferryi_ring *ring;
    enum ferryi_copy_loop loop;
    bool shared; /* whether helpers fill and drain chunks too */
    /* maximum number of chunks that are filled at the same time, or drained at the same time */
    size_t window;
    size_t part; /* number of bytes of each chunk that are used */
    size_t ramp; /* number of bytes in an upload's first chunk. Each further chunk has four times as
                    many, up to `part` bytes. 0: every chunk has `part` bytes */
};

struct ferryi_run {
    ferryi_engine *engine;
    struct ferryi_transfer_job *job;
    uint64_t begun_ns; /* start time; set only if transfers are traced to a file */
    /* conversion of the elements between source and target; or NULL */
    const struct ferryi_transform *transform;
    ferry_direction direction;
    int target_place, source_place; /* source_place is -1 if this is a fill */
    ferryi_timeline *timeline;      /* NULL: no device takes part */
    /* for a staged peer copy: the timeline for reading the source device */
    ferryi_timeline *second;
    bool staged;
    bool profiled; /* whether a profiler range is open for the run */
    bool queued;   /* whether work was queued on a timeline since the last wait for that timeline */
    size_t bytes;  /* number of bytes of this transfer */
    size_t done; /* number of bytes that were submitted. If the transfer waits for its bytes: number
                    of bytes that have arrived */
    size_t unrecorded; /* number of chunks that were sent since the last event was recorded */
};

/* Returns the timeline on which the source device is read in a staged peer copy or a download. */
static inline ferryi_timeline *
ferryi_run_source_timeline(const struct ferryi_run *run)
{
    return run->second ? run->second : run->timeline;
}

/* Returns whether the place is the host, or a device whose memory is host memory. */
bool ferryi_engine_is_host(const ferryi_engine *engine, int place);

/* Returns whether the device at the place makes its copies itself, so that submitting one costs a
 * driver call. On other devices, a processor of the host makes the copies. */
bool ferryi_engine_is_driven(const ferryi_engine *engine, int place);

/* Returns the host's NUMA node that is nearest to each of the devices at places 1 to `count`.
 * Returns -1 if their nearest nodes differ or a node is unknown. */
int ferryi_engine_common_node(ferryi_device *const devices[], int count);

/* Returns whether two devices are of the same kind, for example both are CUDA devices. Such devices
 * can wait for each other's events and may be able to copy from each other. */
bool ferryi_engine_same_kind(const ferryi_device *a, const ferryi_device *b);

/* Returns a run for a transfer between two places, and sets its direction. The caller must then
 * call ferryi_run_begin() on it. */
struct ferryi_run ferryi_run_make(ferryi_engine *engine, int target_place, int source_place,
                                  size_t bytes, ferryi_timeline *timeline,
                                  struct ferryi_transfer_job *job);
/* Begins the run. Returns CANCELLED if the job was already cancelled. */
ferry_status ferryi_run_begin(struct ferryi_run *run);
/* Records that `bytes` more bytes of the run were submitted or have arrived. */
void ferryi_run_arrived(struct ferryi_run *run, size_t bytes);
/* Reports the run's progress to keep_going. Returns CANCELLED if keep_going or the job's cancel
 * flag stops the transfer. Must be called between two parts, right after the chunk of the finished
 * part was returned to its ring. */
ferry_status ferryi_run_progress(struct ferryi_run *run);
/* Adds `bytes` to the number of bytes that the host copied into and out of chunks. */
void ferryi_run_count_copied(const struct ferryi_run *run, size_t bytes);
/* Ends the run. After a failure, first waits for the work that is still queued. Then counts the
 * transfer and calls the trace callback. Returns `status`. If that is a failure, the error message
 * contains the number of bytes that arrived. */
ferry_status ferryi_run_end(struct ferryi_run *run, ferry_status status);

/* After a failed transfer, waits for its work that is still queued. Keeps this thread's error
 * message. */
void ferryi_run_settle(struct ferryi_run *run);

/* Returns the size in bytes of the run's next part, which begins at byte `begin`. The size is a
 * multiple of `unit`, except for the last part. It does not exceed `largest`, the chunk size in the
 * options, or the number of bytes that are left. */
size_t ferryi_run_part(const struct ferryi_run *run, size_t begin, size_t largest, size_t unit);
/* Returns whether the transfer can be cancelled or reports progress. If so, it must be made part by
 * part. */
bool ferryi_run_is_watched(const struct ferryi_run *run);

/* Copies the run's next `bytes` bytes within host memory, like memmove(). If the run can be
 * cancelled or reports progress, copies part by part. */
ferry_status ferryi_run_copy_on_host(struct ferryi_run *run, char *target, const char *source,
                                     size_t bytes);
/* Waits for the work on the run's timeline. Must be called before the host accesses the memory. */
ferry_status ferryi_run_wait_for_timeline(const struct ferryi_run *run);

/* Maximum size of a piece of pageable memory that is always copied through the staging ring. For
 * small pieces this is better than a direct copy, because an upload through the ring does not wait
 * for the device. */
#define FERRYI_STAGED_MOST ((size_t)64 << 10)

/*
 * Marks a chunk as used until the work that is now queued on the run's timeline has ended. Must be
 * called before the chunk's bytes are counted as arrived. Records one event for each half of the
 * ring. So one half is in flight while a thread waits for the other half. Records no event after
 * the last chunk. Later work that must wait for the whole transfer records that event.
 */
ferry_status ferryi_run_mark_sent(struct ferryi_run *run, const struct ferryi_ring *ring,
                                  struct ferryi_chunk *chunk);

/* Transfers one range through a ring (staged.c), in the run's direction: an upload or a download of
 * pageable memory, or a copy to a different device through the ring of that device. The transfer
 * begins at byte run->done and applies the run's transform. `target` and `source` are the addresses
 * of the transfer's byte 0. For a copy between devices, `run->second` must be a timeline of the
 * source device that is ordered after `run->timeline`. */
ferry_status ferryi_staged_copy(struct ferryi_run *run, const struct ferryi_staging *how,
                                void *target, const void *source);

/* Returns the default parameters of staged transfers at a place: the small ring and no helpers. */
struct ferryi_staging ferryi_staging_plain(ferryi_engine *engine, int place);
/* Returns the number of helpers that take part in a device's long transfers. */
unsigned ferryi_staging_helpers(const ferryi_engine *engine, int place);
/* Returns the maximum useful number of helpers for a device. `processors` is the number of
 * processors of the machine. The device's link carries `link_bytes` bytes per second; 0 means
 * unknown. */
unsigned ferryi_staging_helpers_of(uint64_t link_bytes, unsigned processors);
/* Returns the copy loop for an upload or a download of `bytes` bytes. The loop copies between
 * pageable memory and chunks of the ring. */
enum ferryi_copy_loop ferryi_staging_loop(const ferryi_engine *engine,
                                          const struct ferryi_ring *ring, bool up, size_t bytes);
/* Makes a staged upload or download of plain bytes. The size of the transfer determines the ring,
 * the loop and the number of helpers (staging.c). */
ferry_status ferryi_staging_copy(struct ferryi_run *run, void *target, const void *source);

/* Makes later work on the timeline `later` wait for all work that is queued on the run's timeline
 * now. `later` belongs to a different device. */
ferry_status ferryi_run_order(struct ferryi_run *run, ferryi_timeline *later);

/* Returns the ring that a transfer of `bytes` bytes at the place uses. */
struct ferryi_ring *ferryi_staging_ring(ferryi_engine *engine, int place, size_t bytes);
/* Returns how many bytes of each chunk a transfer of `bytes` bytes uses. The number is chosen so
 * that even a short transfer has several chunks in flight. */
size_t ferryi_staging_part(const ferryi_engine *engine, const struct ferryi_ring *ring,
                           size_t bytes);
/* Returns the place's timeline for copies into its memory, or for copies out of it if `out_of` is
 * true. The first call for each of them opens the timeline. */
ferry_status ferryi_engine_open_timeline(ferryi_engine *engine, int place, bool out_of,
                                         ferryi_timeline **out);

#endif
