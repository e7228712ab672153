/* SPDX-License-Identifier: MIT */
#include "src/transfer/run.h"

/* Chooses the ring, the copy loop and the number of helpers of a staged transfer. */

/* Minimum number of parts into which a transfer through large chunks is divided. */
#define PARTS_LEAST 8
/*
 * Number of bytes in the first chunk of an upload with helpers. It is small, so that the device
 * starts early.
 *
 * In two cases all chunks have the same size, because a small first chunk would only cost driver
 * calls:
 * - Each thread fills only one chunk. All chunks are then ready at the same time.
 * - There are no helpers. The caller then fills chunks more slowly than most devices copy them.
 */
#define RAMP_BYTES ((size_t)64 << 10)
/* HELPERS_PLAIN is the number of helper threads for a device whose link is slow or has an unknown
 * speed. HELPERS_MOST is the maximum number for any device. */
#define HELPERS_PLAIN 3
#define HELPERS_MOST  7
/* Number of bytes per second that one thread is assumed to copy through a ring. tests/gpu/staging.c
 * measures this number. */
#define THREAD_BYTES 8000000000u

/* Minimum size of a transfer whose copy loop is chosen by processor family. A shorter transfer uses
 * memcpy(), so a download leaves its bytes in the caches. A longer download would fill most of the
 * caches. Writing its bytes into the caches costs more than reading them from memory later. */
#define BRIEF_BYTES ((size_t)1 << 20)

/*
 * The copy loops for transfers of at least BRIEF_BYTES, by processor family. `upload` and
 * `download` apply to a staging ring that fits into the processor's caches. `large` applies to
 * uploads and downloads through a ring of large chunks.
 */
static const struct {
    enum ferryi_copy_loop upload, download, large;
} choices[] = {
    /* Not measured. */
    [FERRYI_PROCESSOR_OTHER] = {FERRYI_COPY_LIBC, FERRYI_COPY_LIBC, FERRYI_COPY_LIBC},
    /*
     * Measured on a Xeon: the speed of copying 512 MiB into a staging ring with each copy loop,
     * divided by the speed of memcpy() of the same bytes.
     * - 4 chunks of 256 KiB: prefetch 1.27, libc 0.96
     * - 4 chunks of 2 MiB: stream 1.10, libc 0.85, prefetch 1.00
     */
    [FERRYI_PROCESSOR_INTEL] = {FERRYI_COPY_PREFETCH, FERRYI_COPY_STREAM, FERRYI_COPY_STREAM},
    /*
     * Measured on an EPYC 7003 with `bench transfer`: the speed of transfers of 4 to 64 MiB with
     * each copy loop, divided by the speed of memcpy().
     * - Uploads: prefetch 1.39, libc 0.93, stream 1.09
     * - Downloads: stream 1.55, libc 0.77, prefetch 1.19
     * - Filling 16 chunks of 2 MiB: stream 1.44, libc 1.06, prefetch 1.05
     */
    [FERRYI_PROCESSOR_AMD_19H] = {FERRYI_COPY_PREFETCH, FERRYI_COPY_STREAM, FERRYI_COPY_STREAM},
};

enum ferryi_copy_loop
ferryi_staging_loop(const ferryi_engine *engine, const struct ferryi_ring *ring, bool up,
                    size_t bytes)
{
    if (engine->config.copy != FERRYI_COPY_AUTO)
        return engine->config.copy;
    if (bytes < BRIEF_BYTES)
        return FERRYI_COPY_LIBC;
    enum ferryi_processor processor = ferryi_copy_processor();
    if (ring->chunk_bytes >= FERRYI_LARGE_CHUNK_BYTES)
        return choices[processor].large;
    return up ? choices[processor].upload : choices[processor].download;
}

struct ferryi_staging
ferryi_staging_plain(ferryi_engine *engine, int place)
{
    struct ferryi_ring *ring = &engine->ports[place].ring;
    return (struct ferryi_staging){
        .ring = ring, .loop = FERRYI_COPY_LIBC, .window = 1, .part = ring->chunk_bytes};
}

struct ferryi_ring *
ferryi_staging_ring(ferryi_engine *engine, int place, size_t bytes)
{
    struct ferryi_port *port = &engine->ports[place];
    bool large =
        bytes >= FERRYI_HELP_FROM && !engine->fixed_ring && ferryi_engine_is_driven(engine, place);
    return large && ferryi_ring_is_usable(&port->large) ? &port->large : &port->ring;
}

size_t
ferryi_staging_part(const ferryi_engine *engine, const struct ferryi_ring *ring, size_t bytes)
{
    if (engine->fixed_ring || ring->chunk_bytes < FERRYI_LARGE_CHUNK_BYTES)
        return ring->chunk_bytes;
    return ferryi_min_size(ferryi_max_size(bytes / PARTS_LEAST, ring->chunk_bytes / PARTS_LEAST),
                           ring->chunk_bytes);
}

/* Returns the number of helper threads that saturate a device's link together with the calling
 * thread. The number is at least HELPERS_PLAIN and at most HELPERS_MOST. It exceeds HELPERS_PLAIN
 * only if the helper threads and the calling thread take at most half of the processors. */
unsigned
ferryi_staging_helpers_of(uint64_t link_bytes, unsigned processors)
{
    uint64_t threads = (link_bytes + THREAD_BYTES - 1) / THREAD_BYTES;
    unsigned helpers = threads > HELPERS_MOST ? HELPERS_MOST
                       : threads > 0          ? (unsigned)threads - 1
                                              : 0;
    unsigned half = processors / 2 > 0 ? processors / 2 - 1 : 0;
    helpers = helpers < half ? helpers : half;
    return helpers > HELPERS_PLAIN ? helpers : HELPERS_PLAIN;
}

/*
 * One thread cannot saturate most links. So helper threads may use all processors except the
 * processor of the calling thread. If a processor also makes the device's copies, one more
 * processor stays free.
 */
unsigned
ferryi_staging_helpers(const ferryi_engine *engine, int place)
{
    if (engine->config.threads > 0)
        return engine->config.threads - 1;
    unsigned busy = 1 + ((engine->devices[place]->capabilities & FERRYI_DEVICE_HOST_VISIBLE) != 0);
    unsigned processors = ferryi_processors(), spare = processors > busy ? processors - busy : 0;
    unsigned most = ferryi_staging_helpers_of(engine->devices[place]->link_bytes, processors);
    return spare < most ? spare : most;
}

/* Returns the number of helper threads for a transfer of `bytes` bytes. Returns 0 if the transfer
 * would end before the helper threads wake up. */
static unsigned
helpers_for(ferryi_engine *engine, int place, size_t bytes)
{
    if (bytes < FERRYI_HELP_FROM && engine->config.threads == 0)
        return 0;
    unsigned wanted = ferryi_staging_helpers(engine, place);
    unsigned running = ferryi_helpers_start(&engine->helpers, wanted);
    return running < wanted ? running : wanted;
}

/* Chooses the parameters of a staged transfer. The ring has two chunks for each thread, so that all
 * threads stay busy. The threads work on one half of the ring while the copy engine works on the
 * other half. */
static struct ferryi_staging
staging_of(ferryi_engine *engine, int place, bool up, size_t bytes)
{
    struct ferryi_ring *ring = ferryi_staging_ring(engine, place, bytes);
    struct ferryi_staging how = {.ring = ring,
                                 .loop = ferryi_staging_loop(engine, ring, up, bytes),
                                 .window = 1,
                                 .part = ferryi_staging_part(engine, ring, bytes)};
    unsigned helpers = bytes > ring->chunk_bytes ? helpers_for(engine, place, bytes) : 0;
    if (helpers > 0) {
        how.shared = true;
        if (!engine->fixed_ring && bytes / how.part >= 2 * (helpers + 1))
            how.ramp = RAMP_BYTES;
        how.window = ferryi_min_size(ferryi_max_size(ring->chunk_count / 2, 1), 2 * (helpers + 1));
    }
    return how;
}

ferry_status
ferryi_staging_copy(struct ferryi_run *run, void *target, const void *source)
{
    bool up = run->direction == FERRY_DIRECTION_UPLOAD;
    struct ferryi_staging how =
        staging_of(run->engine, up ? run->target_place : run->source_place, up, run->bytes);
    return ferryi_staged_copy(run, &how, target, source);
}
