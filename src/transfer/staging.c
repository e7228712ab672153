/* SPDX-License-Identifier: MIT */
#include "src/transfer/run.h"

/* Chooses the ring, the copy loop and the helpers of a staged transfer. */

/* Bytes that a trial times, or one chunk if that is larger. An upload fills the ring before. */
#define TIMED_BYTES ((size_t)8 << 20)
/* A ring counts as full after this many bytes, or one chunk if that is larger. Only a ring of a
 * requested size is larger, and then all candidates use that ring. */
#define FILLED_BYTES ((size_t)16 << 20)
/* A transfer through large chunks is divided into at least this many parts. */
#define PARTS_LEAST 8
/* Bytes of the first chunk of an upload with helpers, so that the device starts early. Small chunks
 * are not used where each thread fills only one chunk, as all are ready at once; nor without
 * helpers, as the caller fills more slowly than most devices copy. There they would only cost
 * driver calls. */
#define RAMP_BYTES ((size_t)64 << 10)
/* Helpers of a device whose link is unknown or slow, and the largest number for any device. */
#define HELPERS_PLAIN 3
#define HELPERS_MOST  7
/* Assumed bytes per second that one thread copies through a ring. tests/gpu/staging.c measures it.
 */
#define THREAD_BYTES 8000000000u

struct ferryi_staging
ferryi_staging_plain(ferryi_engine *engine, int place)
{
    struct ferryi_ring *ring = ferryi_engine_ring(engine, place);
    return (struct ferryi_staging){.ring = ring,
                                   .loop = FERRYI_COPY_LIBC,
                                   .window = 1,
                                   .part = ring->chunk_bytes,
                                   .until = SIZE_MAX};
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

/* The helpers and the caller together saturate the link. More helpers than HELPERS_PLAIN are used
 * only while they and the caller take at most half of the processors. */
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
 * One thread cannot saturate most links, so helpers may use all processors except the caller's. One
 * more stays free where a processor also makes the device's copies.
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

/* Returns how many helpers take part in a transfer of `bytes` bytes; none if it would end before
 * they wake up. */
static unsigned
helpers_for(ferryi_engine *engine, int place, size_t bytes)
{
    if (bytes < FERRYI_HELP_FROM && engine->config.threads == 0)
        return 0;
    unsigned wanted = ferryi_staging_helpers(engine, place);
    unsigned running = ferryi_helpers_start(&engine->helpers, wanted);
    return running < wanted ? running : wanted;
}

/* Two chunks for each thread keep all threads busy, while half of the ring keeps the copy engine
 * busy. */
static struct ferryi_staging
staging_of(ferryi_engine *engine, int place, struct ferryi_setup setup, size_t bytes)
{
    struct ferryi_port *port = &engine->ports[place];
    struct ferryi_staging how = {
        .ring = &port->ring, .loop = setup.loop, .window = 1, .until = SIZE_MAX};
    if (setup.large && ferryi_ring_is_usable(&port->large))
        how.ring = &port->large;
    how.part = ferryi_staging_part(engine, how.ring, bytes);
    unsigned helpers = bytes > how.ring->chunk_bytes ? helpers_for(engine, place, bytes) : 0;
    if (helpers > 0) {
        how.shared = true;
        if (!engine->fixed_ring && bytes / how.part >= 2 * (helpers + 1))
            how.ramp = RAMP_BYTES;
        how.window =
            ferryi_min_size(ferryi_max_size(how.ring->chunk_count / 2, 1), 2 * (helpers + 1));
    }
    return how;
}

static ferry_status
move(struct ferryi_run *run, const struct ferryi_staging *how, void *target, const void *source)
{
    return run->direction == FERRY_DIRECTION_UPLOAD
               ? ferryi_staged_upload(run, how, target, source)
               : ferryi_staged_download(run, how, target, source);
}

static size_t
fill_bytes(const struct ferryi_ring *ring)
{
    size_t chunks = ferryi_max_size(FILLED_BYTES / ring->chunk_bytes, 1);
    return ferryi_min_size(chunks, ring->chunk_count) * ring->chunk_bytes;
}

size_t
ferryi_staging_trial_bytes(const struct ferryi_ring *ring)
{
    return fill_bytes(ring) + ferryi_max_size(TIMED_BYTES, ring->chunk_bytes);
}

/*
 * Copies one stretch of the transfer with one candidate, and times it. An upload fills the ring
 * before the clock starts, since an empty ring accepts bytes faster than the device does. The clock
 * starts and stops only while no thread is filling or draining a chunk. Otherwise chunks that other
 * threads began before the clock started would make a candidate with large chunks look up to twice
 * as fast as it is.
 */
static ferry_status
try_candidate(struct ferryi_run *run, struct ferryi_tuning *tuning, int candidate, int place,
              void *target, const void *source)
{
    struct ferryi_setup setup = tuning->candidates[candidate];
    struct ferryi_staging how = staging_of(run->engine, place, setup, run->bytes);
    bool usable = !setup.large || how.ring == &run->engine->ports[place].large;
    if (!usable) {
        ferryi_tuning_end(tuning, candidate, 0, false);
        return FERRY_OK;
    }
    how.ramp = 0; /* all stretches must use chunks of one size */
    const size_t filled = run->done + (tuning->download ? 0 : fill_bytes(how.ring));
    const size_t end = run->done + ferryi_staging_trial_bytes(how.ring);
    how.until = filled;
    ferry_status status = move(run, &how, target, source);
    const size_t done = run->done;
    const uint64_t begun = ferryi_now_ns();
    how.until = end;
    if (status == FERRY_OK)
        status = move(run, &how, target, source);
    double ns =
        status == FERRY_OK ? (double)(ferryi_now_ns() - begun) / (double)(run->done - done) : 0;
    ferryi_tuning_end(tuning, candidate, ns, true);
    return status;
}

/* Makes trials while some are due and the rest of the transfer is long enough for one. */
static ferry_status
measure(struct ferryi_run *run, struct ferryi_tuning *tuning, int place, void *target,
        const void *source)
{
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && run->bytes - run->done >= tuning->from) {
        int candidate = ferryi_tuning_begin(tuning);
        if (candidate < 0)
            break;
        status = try_candidate(run, tuning, candidate, place, target, source);
    }
    return status;
}

static bool
is_measurable(const struct ferryi_run *run)
{
    const ferry_copy_options *options = run->job->options;
    return !(options && (options->keep_going || options->chunk_bytes));
}

ferry_status
ferryi_staging_copy(struct ferryi_run *run, void *target, const void *source)
{
    bool up = run->direction == FERRY_DIRECTION_UPLOAD;
    int place = up ? run->target_place : run->source_place;
    struct ferryi_port *port = &run->engine->ports[place];
    struct ferryi_tuning *tuning = up ? &port->uploads : &port->downloads;
    ferry_status status =
        is_measurable(run) ? measure(run, tuning, place, target, source) : FERRY_OK;
    if (status != FERRY_OK || run->done == run->bytes)
        return status;
    struct ferryi_staging how =
        staging_of(run->engine, place, ferryi_tuning_choose(tuning, run->bytes), run->bytes);
    return move(run, &how, target, source);
}
