/* SPDX-License-Identifier: MIT */
#include "ring_by_hand.h"

#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "src/base/copy_loop.h"
#include "src/transfer/run.h"

/* The copies that both threads make together. The counters count chunks, except for `begun`. */
struct job {
    const struct bench_ring *ring;
    char *host, *device;
    size_t bytes, count;
    bool up;
    enum ferryi_copy_loop host_loop, device_loop;
    _Alignas(64) _Atomic size_t filled;
    _Alignas(64) _Atomic size_t drained;
    _Alignas(64) _Atomic size_t begun; /* number of copies that the caller has begun */
};

bool
bench_ring_create(const ferryi_engine *engine, struct bench_ring *out)
{
    const struct ferryi_ring *ring = &engine->ports[1].ring;
    *out = (struct bench_ring){.chunk_bytes = ring->chunk_bytes, .chunk_count = ring->chunk_count};
    out->memory = aligned_alloc(FERRYI_PAGE, out->chunk_bytes * out->chunk_count);
    if (out->memory)
        memset(out->memory, 0, out->chunk_bytes * out->chunk_count);
    return out->memory != NULL;
}

void
bench_ring_free(struct bench_ring *ring)
{
    free(ring->memory);
}

/* Waits until a counter of the other thread is at least `least`. */
static void
wait_for(_Atomic size_t *counter, size_t least)
{
    uint64_t end = ferryi_spin_end();
    while (atomic_load_explicit(counter, memory_order_acquire) < least)
        if (!ferryi_spin(end))
            end = ferryi_spin_end();
}

/* Fills the chunks of copy `copy`. `chunk` is the number of the first of them. Returns the number
 * of the chunk after them. */
static size_t
fill(struct job *job, size_t copy, size_t chunk)
{
    const struct bench_ring *ring = job->ring;
    const char *source = (job->up ? job->host : job->device) + copy * job->bytes;
    for (size_t at = 0; at < job->bytes; at += ring->chunk_bytes, chunk++) {
        wait_for(&job->drained, chunk < ring->chunk_count ? 0 : chunk + 1 - ring->chunk_count);
        ferryi_copy_bytes(job->up ? job->host_loop : job->device_loop,
                          ring->memory + chunk % ring->chunk_count * ring->chunk_bytes, source + at,
                          ferryi_min_size(ring->chunk_bytes, job->bytes - at));
        atomic_store_explicit(&job->filled, chunk + 1, memory_order_release);
    }
    return chunk;
}

/* Drains the chunks that fill() fills. */
static size_t
drain(struct job *job, size_t copy, size_t chunk)
{
    const struct bench_ring *ring = job->ring;
    char *target = (job->up ? job->device : job->host) + copy * job->bytes;
    for (size_t at = 0; at < job->bytes; at += ring->chunk_bytes, chunk++) {
        wait_for(&job->filled, chunk + 1);
        ferryi_copy_bytes(job->up ? job->device_loop : job->host_loop, target + at,
                          ring->memory + chunk % ring->chunk_count * ring->chunk_bytes,
                          ferryi_min_size(ring->chunk_bytes, job->bytes - at));
        atomic_store_explicit(&job->drained, chunk + 1, memory_order_release);
    }
    return chunk;
}

/* The part of the device's thread. */
static void
run_device(void *user)
{
    struct job *job = user;
    for (size_t copy = 0, chunk = 0; copy < job->count; copy++) {
        wait_for(&job->begun, copy + 1);
        chunk = job->up ? drain(job, copy, chunk) : fill(job, copy, chunk);
    }
}

double
bench_ring_time(const struct bench_ring *ring, const ferryi_engine *engine,
                ferryi_timeline *timeline, char *host, char *device, size_t bytes, size_t count,
                bool up)
{
    struct job job = {.ring = ring,
                      .host = host,
                      .device = device,
                      .bytes = bytes,
                      .count = count,
                      .up = up,
                      .host_loop = ferryi_staging_loop(engine, 1, up, bytes),
                      /* The emulated device stores into its own memory past the caches. */
                      .device_loop = up ? FERRYI_COPY_STREAM : FERRYI_COPY_LIBC};
    double begun = bench_now_ns();
    if (FERRYI_CALL(timeline->device, host_call, timeline->native, run_device, &job) != FERRY_OK)
        return -1;
    for (size_t copy = 0, chunk = 0; copy < count; copy++) {
        atomic_store_explicit(&job.begun, copy + 1, memory_order_release);
        chunk = up ? fill(&job, copy, chunk) : drain(&job, copy, chunk);
    }
    if (FERRYI_CALL(timeline->device, stream_synchronize, timeline->native) != FERRY_OK)
        return -1;
    return bench_now_ns() - begun;
}
