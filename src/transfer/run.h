/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_RUN_H
#define FERRYI_RUN_H

/*
 * Declares the internals of the transfer engine: the engine's struct, and `struct ferryi_run`,
 * which represents one running transfer and its progress. The bytes of a run are the bytes that
 * cross the link between host and device. If the host converts elements, these are the bytes of the
 * elements on the device's side.
 */

#include "src/trace/span.h"
#include "src/transfer/engine.h"
#include "src/transfer/helpers.h"
#include "src/transfer/ring.h"
#include "src/transfer/throttle.h"
#include "src/transfer/traffic.h"

FERRYI_MUTEX_CLASS(ferryi_port_mutex);

/* Minimum size of a transfer that uses helper threads. Such a transfer starts the helper threads if
 * they are not running. */
#define FERRYI_HELP_FROM ((size_t)1 << 20)

/* The engine's state for one device. */
struct ferryi_port {
    struct ferryi_port_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_port_mutex) struct {
        ferryi_timeline *in, *out, *late; /* opened when first used */
        void *scatter_module;
        bool scatter_asked;
    };
    struct ferryi_ring ring;
    /* The set of places from which the device can copy directly, with one bit for each place. A
     * place is removed if a copy from it fails as unsupported. */
    _Atomic uint32_t reachable;
    void *_Atomic scatter; /* the kernel that copies batches (scatter.h); NULL: not loaded, or the
                              device cannot run it */
};

struct ferryi_engine {
    struct ferryi_engine_config config; /* a chunk size of 0 was replaced by the default */
    uint32_t
        takes_pinned; /* places whose devices copy page-locked memory directly, a bit for each */
    bool fixed_ring;  /* whether the program chose the size of the staging ring */
    ferryi_device *devices[FERRYI_DEVICES_MAX + 1];
    struct ferryi_port ports[FERRYI_DEVICES_MAX + 1]; /* by place; ports[0] is unused */
    _Atomic uint64_t batch_submissions, batch_copies;
    /* first index: the direction; second index: 0 for direct transfers, 1 for staged ones */
    struct ferryi_counter counters[FERRY_DIRECTION_FILL + 1][2];
    /* `chunks` is the number of chunks that carried bytes. `helper_chunks` is the number of those
     * that helper threads filled or drained. */
    _Atomic uint64_t chunks, helper_chunks;
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
};

struct ferryi_run {
    ferryi_engine *engine;
    struct ferryi_transfer_job *job;
    struct ferryi_span span;
    /* conversion of the elements between source and target; or NULL */
    const struct ferryi_transform *transform;
    ferry_direction direction;
    int target_place, source_place; /* source_place is -1 if this is a fill */
    ferryi_timeline *timeline;      /* NULL: no device takes part */
    /* for a staged peer copy: the timeline for reading the source device */
    ferryi_timeline *second;
    bool staged;
    bool queued;  /* whether work was queued on a timeline since the last wait for that timeline */
    size_t bytes; /* number of bytes of this transfer */
    size_t done; /* number of bytes that have arrived if the transfer waits for its bytes; otherwise
                    the number of bytes that were submitted */
    /* Size of the elements that the parts of the transfer must not cut, and the byte of the
     * transfer at which the first of them begins. It is 1 if a transform or a list of pieces keeps
     * the elements whole. */
    size_t unit, unit_begin;
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

/* Returns whether the device at the place makes its copies itself. Each submitted copy then costs a
 * driver call. On all other devices, a processor of the host makes the copies. */
bool ferryi_engine_is_driven(const ferryi_engine *engine, int place);

/* Returns the host's NUMA node that is nearest to each of the devices at places 1 to `count`.
 * Returns -1 if their nearest nodes differ or a node is unknown. */
int ferryi_engine_common_node(ferryi_device *const devices[], int count);

/* Returns a run, which represents one transfer between two places. Sets the run's direction. The
 * caller must then call ferryi_run_begin() on the run. */
struct ferryi_run ferryi_run_make(ferryi_engine *engine, int target_place, int source_place,
                                  size_t bytes, ferryi_timeline *timeline,
                                  struct ferryi_transfer_job *job);
/* Begins the transfer. Returns CANCELLED if the job's cancel flag is already set. */
ferry_status ferryi_run_begin(struct ferryi_run *run);
/* Records that `bytes` more bytes of the transfer were submitted or have arrived. */
void ferryi_run_arrived(struct ferryi_run *run, size_t bytes);
/* Reports the transfer's progress to the program's callback keep_going. Returns CANCELLED if
 * keep_going or the job's cancel flag stops the transfer. Does nothing while only a part of an
 * element has arrived, so that no cancelled transfer leaves half an element. A transfer that is
 * made in parts must call this function after each part, right after it has returned the part's
 * chunk to the staging ring. */
ferry_status ferryi_run_progress(struct ferryi_run *run);
/* Adds `bytes` to the number of bytes that the host copied into and out of chunks. */
void ferryi_run_count_copied(const struct ferryi_run *run, size_t bytes);
/* Ends the transfer. If `status` is a failure, first waits for the work that is still queued. Then
 * counts the transfer and calls the trace callback. Returns `status`. After a failure, the error
 * message contains the number of bytes that arrived. */
ferry_status ferryi_run_end(struct ferryi_run *run, ferry_status status);

/* Waits for the queued work of a transfer that has failed. Does not change the calling thread's
 * error message. */
void ferryi_run_settle(struct ferryi_run *run);

/* Returns the size in bytes of the transfer's next part, which begins at byte `begin`. The size is
 * a multiple of `unit`, except for the last part. The part ends between two elements of run->unit
 * bytes, unless one element is larger than `largest`. The size does not exceed `largest`, the
 * number of bytes that are left, or, unless one element is larger, the chunk size in the copy
 * options. */
size_t ferryi_run_part(const struct ferryi_run *run, size_t begin, size_t largest, size_t unit);
/* Returns whether the transfer can be cancelled or reports progress. If so, it must be made part by
 * part. */
bool ferryi_run_is_watched(const struct ferryi_run *run);

/* Copies the next `bytes` bytes of the transfer within host memory, like memmove(). If the transfer
 * can be cancelled or reports progress, copies part by part. */
ferry_status ferryi_run_copy_on_host(struct ferryi_run *run, char *target, const char *source,
                                     size_t bytes);
/* Waits for the work on the transfer's timeline. Must be called before the host accesses the source
 * or the target of the transfer. */
ferry_status ferryi_run_wait_for_timeline(const struct ferryi_run *run);

/* A piece of pageable memory of at most this size is always copied through the staging ring. A
 * direct copy of a small piece would be slower, because it waits for the device. An upload through
 * the ring does not wait. */
#define FERRYI_STAGED_MOST ((size_t)64 << 10)

/*
 * Records that the work queued on the transfer's timeline uses the chunk until this work has ended.
 * Must be called before the chunk's bytes are counted as arrived.
 *
 * Records an event only after as many chunks as half of the ring has. So a thread that waits for
 * one half leaves the other half in flight. Records no event after the last chunk, because later
 * work that waits for the whole transfer records that event.
 */
ferry_status ferryi_run_mark_sent(struct ferryi_run *run, const struct ferryi_ring *ring,
                                  struct ferryi_chunk *chunk);

/* Transfers one memory range through a staging ring (staged.c). The transfer is an upload or a
 * download of pageable memory, or a copy to a different device through the ring of that device. The
 * transfer begins at byte run->done. `target` and `source` are the addresses of byte 0 of the
 * transfer. For a copy between devices, `run->second`
 * must be a timeline of the source device that is ordered after `run->timeline`. */
ferry_status ferryi_staged_copy(struct ferryi_run *run, const struct ferryi_staging *how,
                                void *target, const void *source);

/* Returns the parameters of a simple staged transfer at a place. Such a transfer uses whole
 * chunks and no helper threads. */
struct ferryi_staging ferryi_staging_plain(ferryi_engine *engine, int place);
/* Returns the number of helper threads that take part in a device's long transfers. */
unsigned ferryi_staging_helpers(const ferryi_engine *engine, int place);
/* Returns the maximum useful number of helper threads for a device. `processors` is the number of
 * processors of the machine. `link_bytes` is the number of bytes per second that the device's link
 * carries; 0 means unknown. */
unsigned ferryi_staging_helpers_of(uint64_t link_bytes, unsigned processors);
/* Returns the loop that copies between pageable memory and chunks of the staging ring in a transfer
 * of `bytes` bytes at the place. The transfer is an upload if `up` is true, and a download if it is
 * false. */
enum ferryi_copy_loop ferryi_staging_loop(const ferryi_engine *engine, int place, bool up,
                                          size_t bytes);
/* Returns the parameters of a staged transfer without a conversion of elements. The size of the
 * transfer determines the ring, the copy loop and the number of helper threads. A copy between two
 * devices has no helper threads. */
struct ferryi_staging ferryi_staging_choose(const struct ferryi_run *run);

/* Makes later work on the timeline `later` wait for all work that is queued on the run's timeline
 * now. `later` belongs to a different device. */
ferry_status ferryi_run_order(struct ferryi_run *run, ferryi_timeline *later);

/* Sets `*out` to the place's timeline for copies out of its memory if `out_of` is true, and for
 * copies into its memory if it is false. The first call for each of the two timelines opens it. */
ferry_status ferryi_engine_open_timeline(ferryi_engine *engine, int place, bool out_of,
                                         ferryi_timeline **out);

#endif
