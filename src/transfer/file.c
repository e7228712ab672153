/* SPDX-License-Identifier: MIT */
#include "src/transfer/file.h"

#include <assert.h>

#include "src/transfer/run.h"

/* What the host reads or writes at once: a few milliseconds, so that a cancel is heard. Disks that are read directly want it large. */
#define HOST_PART ((size_t)8 << 20)
#define ZEROS ((size_t)64 << 10)

/* Downloads on their way while the file is written: more would keep the ring from a load that runs beside. */
#define FLIGHT_LIMIT 2

/* One running load or store. */
struct passage {
    struct ferryi_run run;
    struct ferryi_ring *ring; /* NULL: host memory */
    struct ferryi_file_range range;
};

static struct passage
make_passage(ferryi_engine *engine, int place, bool stores, struct ferryi_file_range range, size_t bytes, ferryi_lane *lane,
             struct ferryi_transfer_job *job)
{
    struct passage passage = {.range = range};
    bool host = ferryi_engine_is_host(engine, place);
    assert(host || lane);
    passage.run = (struct ferryi_run){.engine = engine, .job = job, .lane = host ? NULL : lane, .bytes = bytes, .staged = !host};
    passage.run.direction = host ? FERRY_DIRECTION_HOST : stores ? FERRY_DIRECTION_DOWNLOAD : FERRY_DIRECTION_UPLOAD;
    *(stores ? &passage.run.source_place : &passage.run.target_place) = place;
    passage.ring = host ? NULL : ferryi_engine_ring(engine, place);
    return passage;
}

/* The next part, from byte `begin`. All but the last end where a direct transfer may begin. */
static size_t
next_part(const struct passage *passage, size_t begin, size_t largest)
{
    size_t part = ferryi_run_part(&passage->run, begin, largest, 1);
    size_t over = (size_t)((passage->range.offset + begin + part) % FERRYI_FILE_ALIGN);
    return begin + part < passage->run.bytes && over < part ? part - over : part;
}

/* -- from a file ----------------------------------------------------------------------------------- */

static ferry_status
load_on_host(struct passage *passage, char *target)
{
    struct ferryi_run *run = &passage->run;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && run->done < run->bytes) {
        size_t bytes = next_part(passage, run->done, HOST_PART), arrived;
        status = ferryi_file_read(passage->range.file, passage->range.offset + run->done, target + run->done, bytes, &arrived);
        if (arrived > 0)
            ferryi_run_arrived(run, arrived);
        if (status == FERRY_OK)
            status = ferryi_run_progress(run);
    }
    return status;
}

static ferry_status
load_on_device(struct passage *passage, char *target)
{
    struct ferryi_run *run = &passage->run;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && run->done < run->bytes) {
        struct ferryi_chunk *chunk;
        size_t arrived;
        status = ferryi_ring_take(passage->ring, passage->ring->place, true, &chunk);
        if (status != FERRY_OK)
            break;
        chunk->bytes = next_part(passage, run->done, passage->ring->chunk_bytes);
        status = ferryi_file_read(passage->range.file, passage->range.offset + run->done, chunk->memory, chunk->bytes, &arrived);
        if (status == FERRY_OK)
            status = ferryi_run_send(run, passage->ring, chunk, target);
        else
            ferryi_ring_give(passage->ring, chunk);
        if (status == FERRY_OK)
            status = ferryi_run_progress(run);
    }
    return status;
}

ferry_status
ferryi_engine_load(ferryi_engine *engine, struct ferryi_memory target, struct ferryi_file_range source, size_t bytes,
                   ferryi_lane *lane, struct ferryi_transfer_job *job)
{
    struct passage passage = make_passage(engine, target.place, false, source, bytes, lane, job);
    ferry_status status = ferryi_run_begin(&passage.run);
    if (status == FERRY_OK)
        status = passage.ring ? load_on_device(&passage, target.pointer) : load_on_host(&passage, target.pointer);
    return ferryi_run_end(&passage.run, status);
}

/* -- to a file ------------------------------------------------------------------------------------- */

/* Write what comes next of the run, and tell who asked. */
static ferry_status
write_part(struct passage *passage, const void *memory, size_t bytes)
{
    struct ferryi_run *run = &passage->run;
    size_t written;
    ferry_status status = ferryi_file_write(passage->range.file, passage->range.offset + run->done, memory, bytes, &written);
    if (written > 0)
        ferryi_run_arrived(run, written);
    return status == FERRY_OK ? ferryi_run_progress(run) : status;
}

static ferry_status
store_from_host(struct passage *passage, const char *source)
{
    static const char zeros[ZEROS];
    struct ferryi_run *run = &passage->run;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && run->done < run->bytes) {
        size_t bytes = next_part(passage, run->done, source ? HOST_PART : ZEROS);
        status = write_part(passage, source ? source + run->done : zeros, bytes);
    }
    return status;
}

/* Chunks on their way from the device. */
struct flight {
    struct ferryi_chain chunks;
    size_t submitted; /* bytes */
};

/* Queue the download of one more chunk. Where others hold all of them and some are in flight, none is. */
static ferry_status
submit(struct passage *passage, struct flight *flight, const char *source)
{
    struct ferryi_chunk *chunk;
    ferry_status status = ferryi_ring_take(passage->ring, passage->ring->place, flight->chunks.count == 0, &chunk);
    if (status != FERRY_OK || !chunk)
        return status;
    chunk->bytes = next_part(passage, flight->submitted, passage->ring->chunk_bytes);
    status = ferryi_run_fetch(&passage->run, passage->ring, chunk, source + flight->submitted, false);
    if (status != FERRY_OK)
        return status;
    flight->submitted += chunk->bytes;
    ferryi_chain_push(&flight->chunks, chunk);
    return FERRY_OK;
}

static ferry_status
store_from_device(struct passage *passage, const char *source)
{
    struct ferryi_run *run = &passage->run;
    struct flight flight = {.submitted = 0};
    size_t limit = ferryi_min_size(FLIGHT_LIMIT, passage->ring->chunk_count);
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && run->done < run->bytes) {
        size_t before = flight.chunks.count;
        if (flight.submitted < run->bytes && flight.chunks.count < limit)
            status = submit(passage, &flight, source);
        if (status != FERRY_OK || flight.chunks.count > before)
            continue;
        size_t written = run->done;
        struct ferryi_chunk *chunk = ferryi_chain_pop(&flight.chunks);
        status = ferryi_chunk_wait(passage->ring, chunk);
        if (status == FERRY_OK)
            status = write_part(passage, chunk->memory, chunk->bytes);
        if (run->done > written)
            ferryi_run_count_chunk(run);
        ferryi_ring_give(passage->ring, chunk);
    }
    while (flight.chunks.count > 0)
        ferryi_ring_give(passage->ring, ferryi_chain_pop(&flight.chunks));
    return status;
}

ferry_status
ferryi_engine_store(ferryi_engine *engine, struct ferryi_file_range target, struct ferryi_memory source, size_t bytes,
                    ferryi_lane *lane, struct ferryi_transfer_job *job)
{
    struct passage passage = make_passage(engine, source.place, true, target, bytes, lane, job);
    ferry_status status = ferryi_run_begin(&passage.run);
    if (status == FERRY_OK)
        status = passage.ring ? store_from_device(&passage, source.pointer) : store_from_host(&passage, source.pointer);
    return ferryi_run_end(&passage.run, status);
}
