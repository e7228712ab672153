/* SPDX-License-Identifier: MIT */
#include "src/transfer/file_transfer.h"

#include <assert.h>

#include "src/transfer/flow.h"

/* Number of bytes that one call reads or writes, if the memory is on the host. Such a call takes a
 * few milliseconds, so a cancellation takes effect soon. Smaller parts would make direct reads from
 * disks slow. */
#define HOST_PART ((size_t)8 << 20)
#define ZEROS     ((size_t)64 << 10)

/* Maximum number of staging chunks that one load or store of a file holds at once. A higher number
 * could leave no chunk for a concurrent load or store. */
#define LOAD_CHUNKS  1
#define STORE_CHUNKS 2

/* One running load or store. */
struct passing {
    struct ferryi_run run;
    bool host; /* whether the memory is on the host */
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
    passing.host = host;
    return passing;
}

/* Returns the number of bytes in the part of the file transfer that begins at byte `begin`. Each
 * part except the last ends at a file offset at which direct I/O may begin. */
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
fill_from_file(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    const struct passing *passing = flow->user;
    size_t arrived;
    chunk->bytes = next_part(passing, flow->filled, flow->ring->chunk_bytes);
    return ferryi_file_read(passing->range.file, passing->range.offset + flow->filled,
                            chunk->memory, chunk->bytes, &arrived);
}

static ferry_status
load_on_device(struct passing *passing, char *target)
{
    struct ferryi_run *run = &passing->run;
    struct ferryi_flow flow = {.run = run,
                               .ring = ferryi_engine_ring(run->engine, run->target_place),
                               .fill = fill_from_file,
                               .drain = ferryi_flow_send,
                               .limit = LOAD_CHUNKS,
                               .target = target,
                               .user = passing};
    return ferryi_flow_run(&flow);
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
        status = passing.host ? load_on_host(&passing, target.pointer)
                              : load_on_device(&passing, target.pointer);
    return ferryi_run_end(&passing.run, status);
}

/* -- to a file --------------------------------------------------------------------------------- */

static ferry_status
store_from_host(struct passing *passing, const char *source)
{
    static const char zeros[ZEROS];
    struct ferryi_run *run = &passing->run;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && run->done < run->bytes) {
        size_t bytes = next_part(passing, run->done, source ? HOST_PART : ZEROS), written;
        status = ferryi_file_write(passing->range.file, passing->range.offset + run->done,
                                   source ? source + run->done : zeros, bytes, &written);
        if (written > 0)
            ferryi_run_arrived(run, written);
        if (status == FERRY_OK)
            status = ferryi_run_progress(run);
    }
    return status;
}

static ferry_status
fill_from_device(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    chunk->bytes = next_part(flow->user, flow->filled, flow->ring->chunk_bytes);
    return ferryi_flow_fetch(flow, chunk);
}

static ferry_status
drain_to_file(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    const struct passing *passing = flow->user;
    return ferryi_file_write(passing->range.file, passing->range.offset + flow->drained,
                             chunk->memory, chunk->bytes, &chunk->bytes);
}

static ferry_status
store_from_device(struct passing *passing, const char *source)
{
    struct ferryi_run *run = &passing->run;
    struct ferryi_flow flow = {.run = run,
                               .ring = ferryi_engine_ring(run->engine, run->source_place),
                               .fill = fill_from_device,
                               .drain = drain_to_file,
                               .limit = STORE_CHUNKS,
                               .source = source,
                               .user = passing};
    return ferryi_flow_run(&flow);
}

ferry_status
ferryi_engine_store(ferryi_engine *engine, struct ferryi_file_range target,
                    struct ferryi_memory source, size_t bytes, ferryi_timeline *timeline,
                    struct ferryi_transfer_job *job)
{
    struct passing passing = make_passing(engine, source.place, true, target, bytes, timeline, job);
    ferry_status status = ferryi_run_begin(&passing.run);
    if (status == FERRY_OK)
        status = passing.host ? store_from_host(&passing, source.pointer)
                              : store_from_device(&passing, source.pointer);
    return ferryi_run_end(&passing.run, status);
}
