/* SPDX-License-Identifier: MIT */
#ifndef FERRY_GRAPH_H
#define FERRY_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include <ferry/status.h>
#include <ferry/stream.h>

FERRY_BEGIN_DECLS

/**
 * Work that was recorded once and is launched many times, each time by one call and as one piece of
 * work. On CUDA and HIP it is a graph of the driver. "Graphs" in docs/patterns.md has an example.
 *
 * A graph contains the kernels that were launched on its stream between ferry_graph_begin() and
 * ferry_graph_end(), and the calls of ferry_buffer_fill() and ferry_buffer_copy() whose
 * options.stream was that stream. The value of a fill must repeat 1, 2 or 4 bytes. On CUDA and HIP
 * it also contains what other libraries queue on the stream. Device scopes that are opened on the
 * stream say what that work reads and writes; they are closed at once, and their addresses are good
 * for the work of the graph.
 *
 * Grids, counts, addresses and values are fixed when they are recorded. What is to change from
 * launch to launch stands in a buffer, such as a `read one` parameter of a generated kernel.
 *
 * Until it is destroyed, a graph holds the memory of its buffers at its place, as a lease does: the
 * replicas are not evicted or moved, and to resize or unwrap a buffer fails with FERRY_ERROR_BUSY
 * and the names of both. A buffer may be destroyed, and its memory stays as long as the graph. The
 * graph keeps the context alive.
 *
 * A launch is like the launch of one kernel. It brings the bytes that the graph reads and that are
 * not current at its place, conflicts with scopes and waits for calls as that does, and fails if
 * bytes that it reads are lost. A byte whose first use in the graph overwrites it is not read. If
 * recorded work fails later, all bytes that the graph writes are lost.
 */
typedef struct ferry_graph ferry_graph;

/** Options of a graph. Zero in a field means the default. */
typedef struct ferry_graph_options {
    const char *name; /**< for messages and traces; copied. Default: "graph" */
    uint64_t reserved[3];
} ferry_graph_options;

/**
 * Begins to record what is queued on a stream, by any thread, instead of running it. The caller
 * owns `*out`. Waits until no other thread waits for all work of a device, gives idle memory back
 * to the driver, or ends a context for a lease, a graph or a callback. Until ferry_graph_end(), a
 * call on the stream that a graph cannot contain fails with FERRY_ERROR_UNSUPPORTED and the reason,
 * and the recording goes on. So does a kernel that cannot run there. No two threads may use the
 * stream at the same time.
 *
 * On CUDA and HIP, calls that must wait for all work of a device fail with FERRY_ERROR_UNSUPPORTED
 * meanwhile, in all threads, and so do asynchronous calls that are not complete: those that are
 * ordered after work that Ferry does not know, as ferry_scope_close_unordered() leaves it. The
 * driver would invalidate the recording otherwise.
 *
 * @param stream a stream of ferry_stream_create() or ferry_stream_wrap(). The default stream and
 * the per-thread stream cannot be recorded
 * @param options or NULL
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (`stream` or `out` is NULL);
 *         FERRY_ERROR_UNSUPPORTED (the device has no graphs, as one of OpenCL; a default stream;
 * the stream is being captured); FERRY_ERROR_INVALID_STATE (the stream records a graph already; the
 * context was destroyed; inside a watching callback); FERRY_ERROR_OUT_OF_MEMORY;
 *         FERRY_ERROR_DEVICE; FERRY_ERROR_DEVICE_LOST.
 * Threads: any; no other thread may use the stream meanwhile.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_graph_begin(ferry_stream *stream,
                                                         const ferry_graph_options *options,
                                                         ferry_graph **out);

/**
 * Ends the recording. The graph can be launched now, and the stream runs its work again. May block
 * while the driver makes the graph. If the call fails, the stream runs its work again, too, and the
 * graph can only be destroyed.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (`graph` is NULL); FERRY_ERROR_INVALID_STATE (the
 *         graph is not being recorded; another thread records a call; the context was destroyed;
 *         inside a watching callback); FERRY_ERROR_UNSUPPORTED (other code invalidated the driver's
 *         capture); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE; FERRY_ERROR_DEVICE_LOST.
 * Threads: any; no other thread may use the stream meanwhile.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_graph_end(ferry_graph *graph);

/**
 * Queues all work of the graph on a stream, and returns without waiting for it. A call that fails
 * changes nothing.
 *
 * @param stream a stream of the place at which the graph was recorded; NULL: the default stream, if
 *        the context has exactly one device
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (`graph` is NULL, or the stream is of another
 *         place); FERRY_ERROR_INVALID_STATE (the recording has not ended, or has failed; the
 * context was destroyed; inside a watching callback); FERRY_ERROR_UNSUPPORTED (the stream is being
 *         captured, or records a graph); FERRY_ERROR_WRONG_CONTEXT, FERRY_ERROR_BUSY,
 *         FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_DEVICE or FERRY_ERROR_DEVICE_LOST, for the reasons
 *         at the top of <ferry/buffer.h>; the failure that lost bytes which the graph reads.
 * Threads: any. Launches of one graph that writes run one after another.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_graph_launch(ferry_graph *graph, ferry_stream *stream);

/**
 * Destroys the graph and sets `*graph` to NULL. Waits until its launches are done, then releases
 * its buffers. If the graph is being recorded, ends the recording first. In a watching callback, in
 * on_release and in ferry_pool_shortage the call logs an error and leaves `*graph` unchanged.
 * @param graph NULL and a pointer to NULL have no effect
 * Threads: any, while no other thread uses the graph.
 */
FERRY_API void ferry_graph_destroy(ferry_graph **graph);

FERRY_END_DECLS

#endif
