/* SPDX-License-Identifier: MIT */
#ifndef FERRY_BATCH_H
#define FERRY_BATCH_H

#include <stddef.h>

#include <ferry/buffer.h>
#include <ferry/element.h>
#include <ferry/scope.h>
#include <ferry/status.h>
#include <ferry/stream.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * Many copies submitted as one. A batch comes to what its copies come to one by one in the order they were added, ranges that
 * overlap included; copies that do not depend on each other go to a device in one submission. It pays where
 * copies are small: a thousand ranges of a few kilobytes cost little more than one copy of their sum.
 *
 * "The usual statuses" are those that <ferry/buffer.h> lists. One thread at a time uses a batch; any number of batches may run.
 */

/** A list of copies. */
typedef struct ferry_batch ferry_batch;

/**
 * An empty batch. The caller owns `*out`. Touches no device and does not block.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT (NULL), FERRY_ERROR_INVALID_STATE, FERRY_ERROR_OUT_OF_MEMORY
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_batch_create(ferry_context *context, ferry_batch **out);

/**
 * Add a copy of `count` elements from the caller's memory to the buffer, to where the range is current when its turn comes (the
 * host on a tie). Nothing moves yet: `source` is read by the submission. Zero elements add nothing. The batch keeps the
 * buffer alive until it is cleared, and counts as a view of it.
 * @return the usual statuses; FERRY_ERROR_WRONG_CONTEXT for a buffer of another context. After a failure the batch is as it was.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_batch_copy_from(ferry_batch *batch, ferry_buffer *buffer, const ferry_element *element,
                                                             size_t offset, const void *source, size_t count);
/** Add a copy to the caller's memory, from where the range is current when its turn comes. @return as ferry_batch_copy_from() */
FERRY_API FERRY_NODISCARD ferry_status ferry_batch_copy_to(ferry_batch *batch, ferry_buffer *buffer, const ferry_element *element,
                                                           size_t offset, void *target, size_t count);
/** Add a copy between buffers, or inside one as memmove() does. @return as ferry_batch_copy_from() */
FERRY_API FERRY_NODISCARD ferry_status ferry_batch_copy(ferry_batch *batch, ferry_buffer *target, const ferry_element *element,
                                                        size_t target_offset, ferry_buffer *source, size_t source_offset, size_t count);

/** How many copies were added; 0 for NULL. */
FERRY_API size_t ferry_batch_count(const ferry_batch *batch);

/**
 * Do all copies of the batch, which keeps them: it may be submitted again. Returns when the caller's memory may be reused,
 * as single copies do. The copies are cut into levels of independent ones; one level is one submission for each
 * way between two places, counted by ferry_transfer_stats.batch_submissions. On the host its copies go one after the other. Devices that
 * do not reach each other have theirs packed through the staging ring.
 *
 * Conflicts are found for exactly the ranges of the copies, before anything moved. After a later failure each range holds its
 * old or its new value, the map knows which, and the message says how many bytes arrived.
 * @return the usual statuses; FERRY_ERROR_INVALID_ARGUMENT also for a write to a read-only wrap
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_batch_submit(ferry_batch *batch);

/**
 * As ferry_batch_submit(), with progress over all copies of the batch, and cancel; a copy whose own ranges overlap goes by way of memory in
 * between, of which nothing is told. @return also FERRY_ERROR_CANCELLED; the message says how many bytes arrived
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_batch_submit_with(ferry_batch *batch, const ferry_transfer_options *options);

/**
 * As ferry_batch_submit(), on a helper thread; among Ferry's calls the order is that of submission. Memory of the caller
 * may be touched again when the event is done, not before; the batch itself may be changed, submitted and destroyed at once.
 * @param stream buffers are written at its place; NULL: where they are current
 * @param out    may be NULL; else the caller owns `*out`, which ferry_event_progress() and ferry_event_cancel() take
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_batch_submit_async(ferry_batch *batch, ferry_stream *stream, ferry_event **out);

/**
 * Forget the copies, and let their buffers go; what was submitted asynchronously goes on. NULL is harmless. Inside a callback of its
 * own submission the batch stays as it is, and an error is logged.
 */
FERRY_API void ferry_batch_clear(ferry_batch *batch);

/** Clear the batch, give it back and set `*batch` to NULL. NULL and a pointer to NULL are harmless. */
FERRY_API void ferry_batch_destroy(ferry_batch **batch);

FERRY_END_DECLS

#endif
