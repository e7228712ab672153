/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_RECORDING_H
#define FERRYI_RECORDING_H

/*
 * What a graph records from a stream: the buffers that its work uses, at which addresses, what a
 * launch of the graph reads and writes in all, and the work itself if Ferry records it.
 *
 * A graph runs again and again with the addresses that were recorded. So each replica that it uses
 * has a lease without a scope (ferryi_lease_hold()), until the graph is destroyed. The replica is
 * then not evicted, moved, resized or given up, and messages name the graph. Its bytes may become
 * stale meanwhile, and a launch of the graph brings them to the same address.
 *
 * The uses of all recorded work are one list of disjoint ranges, the net accesses. The first use of
 * a byte decides whether a launch needs its old value. A launch opens these accesses as a launch of
 * a kernel opens those of its arguments.
 *
 * Work is recorded by the driver, while it captures the stream, or else as a list of functions that
 * a launch calls in order.
 *
 * One call at a time records. It is between ferryi_recording_prepare() and
 * ferryi_recording_finish(), and a second call fails there.
 */

#include <ferry/lease.h>

#include "src/buffer/buffer.h"
#include "src/store/claim.h"

/* A piece of work that a launch of the graph does again. */
struct ferryi_recorded_call {
    struct ferryi_recorded_call *next;
    /* Does the work. On failure, writes a message to `text`. */
    ferry_status (*run)(struct ferryi_recorded_call *call, char *text, size_t text_bytes);
    void (*free)(struct ferryi_recorded_call *call);
};

struct ferryi_recording {
    struct ferryi_recording_head head; /* first, so that a timeline leads here */
    ferry_context *context;
    ferryi_timeline *timeline; /* of the recorded stream */
    bool is_captured;          /* whether the driver records */
    atomic_bool busy;          /* whether a call is being recorded */
    ferry_lease **leases;      /* one for each buffer */
    size_t lease_count, lease_room;
    struct ferryi_access *net, *next_net; /* disjoint, sorted by store and range */
    size_t net_count, next_net_count;
    struct ferryi_recorded_call *first, *last;
};

/* Returns the recording of a stream, or NULL. */
static inline struct ferryi_recording *
ferryi_recording_of(const ferryi_timeline *timeline)
{
    return (struct ferryi_recording *)ferryi_timeline_recording(timeline);
}

/*
 * Begins to record work that uses the ranges of `list`. Holds the replicas at the place of the
 * recorded stream, and sets `pointer` of each access. Computes the net accesses, which count when
 * the work is recorded.
 * @return FERRY_OK; FERRY_ERROR_INVALID_STATE (another call is being recorded);
 * FERRY_ERROR_OUT_OF_MEMORY; a failure of the device. After a failure the recording is as before.
 */
ferry_status ferryi_recording_prepare(struct ferryi_recording *recording,
                                      struct ferryi_access *list, size_t count);
/* Ends what ferryi_recording_prepare() began. `status` says whether the work was recorded. Returns
 * it. */
ferry_status ferryi_recording_finish(struct ferryi_recording *recording, ferry_status status);
/* Adds work to a recording that the driver does not make. Between the two functions above. */
void ferryi_recording_add(struct ferryi_recording *recording, struct ferryi_recorded_call *call);
/* Releases the buffers. */
void ferryi_recording_release(struct ferryi_recording *recording);
/* Frees the recorded work, which no launch does any more. Makes no call of the device. */
void ferryi_recording_free(struct ferryi_recording *recording);

/*
 * Adds a use to a sorted list of `count` disjoint net accesses, and writes the new list to `out`,
 * which has room for 2 * count + 3 accesses. Bytes that were overwritten first stay so. Bytes that
 * were read first and are then written are updated.
 * @return the number of accesses in `out`
 */
size_t ferryi_net_add(const struct ferryi_access *net, size_t count,
                      const struct ferryi_access *use, struct ferryi_access *out);

/* Records that work which other code queues on the captured stream uses a range of a buffer. */
ferry_status ferryi_recording_use(struct ferryi_recording *recording, struct ferryi_access *access);
/* Record a fill of a range with copies of a value, and a copy of a range of the same length. */
ferry_status ferryi_recording_fill(struct ferryi_recording *recording, ferryi_store *store,
                                   struct ferryi_range range, const void *value,
                                   size_t value_bytes);
ferry_status ferryi_recording_copy(struct ferryi_recording *recording, ferryi_store *target,
                                   struct ferryi_range to, ferryi_store *source,
                                   struct ferryi_range from);

#endif
