/* SPDX-License-Identifier: MIT */
#include "src/transfer/file_transfer.h"

#include <assert.h>

#include "src/transfer/flow.h"
#include "src/transfer/host_side.h"

/* Maximum number of staging chunks that one load or store of a file holds at once. A higher number
 * could leave no chunk for a concurrent load or store. */
#define LOAD_CHUNKS  1
#define STORE_CHUNKS 2

/* A running transfer between memory and a file. */
struct passing {
    struct ferryi_run run;
    struct ferryi_file_range range;
    bool stores; /* whether the file is written */
};

/* Returns the number of bytes in the part of the file transfer that begins at byte `begin`. Each
 * part except the last ends at a file offset at which direct I/O may begin, and between two
 * elements. If no end of the part is both, the part ends at such an offset if the file is open for
 * direct I/O, and otherwise between two elements. */
static size_t
next_part(const struct passing *passing, size_t begin, size_t largest)
{
    const struct ferryi_run *run = &passing->run;
    size_t part = ferryi_run_part(run, begin, largest, 1);
    size_t over = (size_t)((passing->range.offset + begin + part) % FERRYI_FILE_ALIGN);
    if (begin + part == run->bytes || over >= part)
        return part;
    for (size_t less = over; less < part; less += FERRYI_FILE_ALIGN)
        if ((begin + part - less) % run->unit == 0)
            return part - less;
    return passing->range.file->direct >= 0 ? part - over : part;
}

/* -- host memory ------------------------------------------------------------------------------- */

/* Reads or writes the part of the file that begins at byte run->done of the transfer. Sets
 * `*out_bytes` to the number of bytes that were read or written, even if the call fails. */
static ferry_status
pass_part(const struct passing *passing, char *memory, size_t *out_bytes)
{
    const struct ferryi_file_range *range = &passing->range;
    const size_t done = passing->run.done, bytes = next_part(passing, done, FERRYI_HOST_SIDE_PART);
    const uint64_t offset = range->offset + done;
    if (!passing->stores)
        return ferryi_file_read(range->file, offset, memory + done, bytes, out_bytes);
    return memory ? ferryi_file_write(range->file, offset, memory + done, bytes, out_bytes)
                  : ferryi_file_write_zeros(range->file, offset, bytes, out_bytes);
}

static ferry_status
pass_on_host(struct passing *passing, char *memory)
{
    struct ferryi_run *run = &passing->run;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && run->done < run->bytes) {
        size_t bytes;
        status = pass_part(passing, memory, &bytes);
        if (bytes > 0)
            ferryi_run_arrived(run, bytes);
        if (status == FERRY_OK)
            status = ferryi_run_progress(run);
    }
    return status;
}

/* -- device memory ----------------------------------------------------------------------------- */

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
pass_through_ring(struct passing *passing, struct ferryi_memory memory)
{
    const bool stores = passing->stores;
    struct ferryi_flow flow = {.run = &passing->run,
                               .ring = &passing->run.engine->ports[memory.place].ring,
                               .fill = stores ? fill_from_device : fill_from_file,
                               .drain = stores ? drain_to_file : ferryi_flow_send,
                               .limit = stores ? STORE_CHUNKS : LOAD_CHUNKS,
                               .target = stores ? NULL : memory.pointer,
                               .source = stores ? memory.pointer : NULL,
                               .user = passing};
    return ferryi_flow_run(&flow);
}

ferry_status
ferryi_engine_copy_file(ferryi_engine *engine, struct ferryi_memory memory,
                        struct ferryi_file_range range, size_t bytes, bool stores,
                        ferryi_timeline *timeline, struct ferryi_transfer_job *job)
{
    const bool host = ferryi_engine_is_host(engine, memory.place);
    assert(host || timeline);
    struct passing passing = {.range = range, .stores = stores};
    struct ferryi_run *run = &passing.run;
    *run = (struct ferryi_run){.engine = engine,
                               .job = job,
                               .timeline = host ? NULL : timeline,
                               .bytes = bytes,
                               .unit = ferryi_max_size(job->unit, 1),
                               .staged = !host};
    run->direction = host     ? FERRY_DIRECTION_HOST
                     : stores ? FERRY_DIRECTION_DOWNLOAD
                              : FERRY_DIRECTION_UPLOAD;
    *(stores ? &run->source_place : &run->target_place) = memory.place;
    ferry_status status = ferryi_run_begin(run);
    if (status == FERRY_OK)
        status =
            host ? pass_on_host(&passing, memory.pointer) : pass_through_ring(&passing, memory);
    return ferryi_run_end(run, status);
}
