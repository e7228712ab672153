/* SPDX-License-Identifier: MIT */
#include "src/transfer/file_transfer.h"

#include <assert.h>

#include "src/transfer/run.h"

/* Bytes of one read or write of host memory. It takes a few milliseconds, so that a cancel takes
 * effect soon; direct reads from disks are fast only when they are large. */
#define HOST_PART ((size_t)8 << 20)
#define ZEROS     ((size_t)64 << 10)

/* Limit of chunks in flight while the file is written. With more, a concurrent load would find the
 * ring empty. */
#define FLIGHT_LIMIT 2

/* One running load or store. */
struct passing {
    struct ferryi_run run;
    struct ferryi_ring *ring; /* NULL: the memory is on the host */
    struct ferryi_file_range range;
};

static struct passing
make_passing(ferryi_engine *engine, int place, bool stores, struct ferryi_file_range range,
             size_t bytes, ferryi_timeline *timeline, struct ferryi_transfer_job *job)
{
    struct passing passing = {.range = range};
    bool host = ferryi_engine_is_host(engine, place);
    assert(host || timeline);
    passing.run = (struct ferryi_run){.engine = engine,
                                      .job = job,
                                      .timeline = host ? NULL : timeline,
                                      .bytes = bytes,
                                      .staged = !host};
    passing.run.direction = host     ? FERRY_DIRECTION_HOST
                            : stores ? FERRY_DIRECTION_DOWNLOAD
                                     : FERRY_DIRECTION_UPLOAD;
    *(stores ? &passing.run.source_place : &passing.run.target_place) = place;
    passing.ring = host ? NULL : ferryi_engine_ring(engine, place);
    return passing;
}

/* Returns the bytes of the next part, which begins at byte `begin`. Each part but the last ends at
 * a file offset where direct I/O may begin. */
static size_t
next_part(const struct passing *passing, size_t begin, size_t largest)
{
    size_t part = ferryi_run_part(&passing->run, begin, largest, 1);
    size_t over = (size_t)((passing->range.offset + begin + part) % FERRYI_FILE_ALIGN);
    return begin + part < passing->run.bytes && over < part ? part - over : part;
}

/* -- from a file ------------------------------------------------------------------------------- */

static ferry_status
load_on_host(struct passing *passing, char *target)
{
    struct ferryi_run *run = &passing->run;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && run->done < run->bytes) {
        size_t bytes = next_part(passing, run->done, HOST_PART), arrived;
        status = ferryi_file_read(passing->range.file, passing->range.offset + run->done,
                                  target + run->done, bytes, &arrived);
        if (arrived > 0)
            ferryi_run_arrived(run, arrived);
        if (status == FERRY_OK)
            status = ferryi_run_progress(run);
    }
    return status;
}

static ferry_status
load_on_device(struct passing *passing, char *target)
{
    struct ferryi_run *run = &passing->run;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && run->done < run->bytes) {
        struct ferryi_chunk *chunk;
        size_t arrived;
        status = ferryi_ring_take(passing->ring, true, &chunk);
        if (status != FERRY_OK)
            break;
        chunk->bytes = next_part(passing, run->done, passing->ring->chunk_bytes);
        status = ferryi_file_read(passing->range.file, passing->range.offset + run->done,
                                  chunk->memory, chunk->bytes, &arrived);
        if (status == FERRY_OK)
            status = ferryi_run_send(run, passing->ring, chunk, target);
        else
            ferryi_ring_give(passing->ring, chunk);
        if (status == FERRY_OK)
            status = ferryi_run_progress(run);
    }
    return status;
}

ferry_status
ferryi_engine_load(ferryi_engine *engine, struct ferryi_memory target,
                   struct ferryi_file_range source, size_t bytes, ferryi_timeline *timeline,
                   struct ferryi_transfer_job *job)
{
    struct passing passing =
        make_passing(engine, target.place, false, source, bytes, timeline, job);
    ferry_status status = ferryi_run_begin(&passing.run);
    if (status == FERRY_OK)
        status = passing.ring ? load_on_device(&passing, target.pointer)
                              : load_on_host(&passing, target.pointer);
    return ferryi_run_end(&passing.run, status);
}

/* -- to a file --------------------------------------------------------------------------------- */

/* Writes the next bytes of the run to the file, and reports the progress. */
static ferry_status
write_part(struct passing *passing, const void *memory, size_t bytes)
{
    struct ferryi_run *run = &passing->run;
    size_t written;
    ferry_status status = ferryi_file_write(passing->range.file, passing->range.offset + run->done,
                                            memory, bytes, &written);
    if (written > 0)
        ferryi_run_arrived(run, written);
    return status == FERRY_OK ? ferryi_run_progress(run) : status;
}

static ferry_status
store_from_host(struct passing *passing, const char *source)
{
    static const char zeros[ZEROS];
    struct ferryi_run *run = &passing->run;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && run->done < run->bytes) {
        size_t bytes = next_part(passing, run->done, source ? HOST_PART : ZEROS);
        status = write_part(passing, source ? source + run->done : zeros, bytes);
    }
    return status;
}

/* Chunks in flight from the device. */
struct flight {
    struct ferryi_chain chunks;
    size_t submitted; /* bytes whose download was queued */
};

/* Queues the download of one more chunk. Does nothing if other transfers hold all free chunks and
 * some of this one are in flight. */
static ferry_status
submit(struct passing *passing, struct flight *flight, const char *source)
{
    struct ferryi_chunk *chunk;
    ferry_status status = ferryi_ring_take(passing->ring, flight->chunks.count == 0, &chunk);
    if (status != FERRY_OK || !chunk)
        return status;
    chunk->bytes = next_part(passing, flight->submitted, passing->ring->chunk_bytes);
    status =
        ferryi_run_fetch(&passing->run, passing->ring, chunk, source + flight->submitted, false);
    if (status != FERRY_OK)
        return status;
    flight->submitted += chunk->bytes;
    ferryi_chain_push(&flight->chunks, chunk);
    return FERRY_OK;
}

static ferry_status
store_from_device(struct passing *passing, const char *source)
{
    struct ferryi_run *run = &passing->run;
    struct flight flight = {.submitted = 0};
    size_t limit = ferryi_min_size(FLIGHT_LIMIT, passing->ring->chunk_count);
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && run->done < run->bytes) {
        size_t before = flight.chunks.count;
        if (flight.submitted < run->bytes && flight.chunks.count < limit)
            status = submit(passing, &flight, source);
        if (status != FERRY_OK || flight.chunks.count > before)
            continue;
        size_t written = run->done;
        struct ferryi_chunk *chunk = ferryi_chain_pop(&flight.chunks);
        status = ferryi_chunk_wait(passing->ring, chunk);
        if (status == FERRY_OK)
            status = write_part(passing, chunk->memory, chunk->bytes);
        if (run->done > written)
            ferryi_run_count_chunk(run);
        ferryi_ring_give(passing->ring, chunk);
    }
    while (flight.chunks.count > 0)
        ferryi_ring_give(passing->ring, ferryi_chain_pop(&flight.chunks));
    return status;
}

ferry_status
ferryi_engine_store(ferryi_engine *engine, struct ferryi_file_range target,
                    struct ferryi_memory source, size_t bytes, ferryi_timeline *timeline,
                    struct ferryi_transfer_job *job)
{
    struct passing passing = make_passing(engine, source.place, true, target, bytes, timeline, job);
    ferry_status status = ferryi_run_begin(&passing.run);
    if (status == FERRY_OK)
        status = passing.ring ? store_from_device(&passing, source.pointer)
                              : store_from_host(&passing, source.pointer);
    return ferryi_run_end(&passing.run, status);
}
