/* SPDX-License-Identifier: MIT */
#include "src/transfer/file_transfer.h"

#include <assert.h>

#include "src/transfer/flow.h"
#include "src/transfer/host_side.h"

/* Maximum number of staging chunks that one load or store of a file holds at once. A higher number
 * could leave no chunk for a concurrent load or store. */
#define LOAD_CHUNKS  1
#define STORE_CHUNKS 2

/* What is transferred between memory and a file. */
struct request {
    ferryi_engine *engine;
    struct ferryi_memory memory;
    struct ferryi_file_range range;
    bool stores; /* whether the file is written */
    ferryi_timeline *timeline;
    struct ferryi_transfer_job *job;
    void *direct; /* the file as the device has opened it; or NULL */
};

/* A running transfer of a part of the request, or of all of it. */
struct passing {
    struct ferryi_run run;
    struct ferryi_memory memory;
    struct ferryi_file_range range;
    bool stores;
    void *direct;
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
pass_on_host(struct passing *passing)
{
    struct ferryi_run *run = &passing->run;
    char *memory = passing->memory.pointer;
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

/* -- device memory, through the ring ----------------------------------------------------------- */

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
pass_through_ring(struct passing *passing)
{
    const struct ferryi_memory memory = passing->memory;
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

/* -- device memory, directly ------------------------------------------------------------------- */

/* Bytes of a transfer, from `begin` up to `end`. */
struct middle {
    size_t begin, end;
};

/* Returns the smallest number of bytes that is both whole elements and whole blocks of a file. */
static size_t
direct_unit(size_t element)
{
    return element / ferryi_min_size(element & -element, FERRYI_FILE_ALIGN) * FERRYI_FILE_ALIGN;
}

/*
 * Returns which of the `bytes` bytes of a transfer may pass between the file and the device without
 * host memory. They begin and end at blocks of the file, and between two elements, so that no
 * element is cut. The range is empty if there is no such place.
 */
static struct middle
find_middle(const struct request *request, size_t bytes)
{
    const struct ferryi_file *file = request->range.file;
    const size_t element = ferryi_max_size(request->job->unit, 1), unit = direct_unit(element);
    size_t begin = 0;
    if (file->direct < 0 || !(request->timeline->device->capabilities & FERRYI_DEVICE_TAKES_FILES))
        return (struct middle){0, 0};
    while (begin < unit && (request->range.offset + begin) % FERRYI_FILE_ALIGN != 0)
        begin += element;
    if (begin >= unit || begin > bytes)
        return (struct middle){0, 0};
    return (struct middle){begin, begin + (bytes - begin) / unit * unit};
}

/* Logs why bytes of a file go through host memory. This is no failure of the transfer. */
static void
note_refusal(const ferryi_engine *engine, const struct ferryi_file *file)
{
    ferryi_log(engine->config.log, FERRY_LOG_INFO, "%s: goes through host memory: %s", file->path,
               ferry_last_error());
}

static void
open_direct(struct request *request)
{
    const struct ferryi_file *file = request->range.file;
    FERRYI_KEEP_ERROR(before);
    if (FERRYI_CALL(request->timeline->device, file_open, file->direct, &request->direct) !=
        FERRY_OK)
        note_refusal(request->engine, file);
}

static void
close_direct(const struct request *request)
{
    FERRYI_KEEP_ERROR(before);
    (void)FERRYI_CALL(request->timeline->device, file_close, request->direct);
}

/* Copies the next bytes of the transfer. Returns how many of them arrived, in whole elements. */
static size_t
copy_direct(const struct passing *passing, size_t bytes)
{
    const struct ferryi_run *run = &passing->run;
    const struct ferryi_file_copy copy = {.memory = (char *)passing->memory.pointer + run->done,
                                          .offset = passing->range.offset + run->done,
                                          .bytes = bytes,
                                          .stores = passing->stores};
    size_t arrived = 0;
    FERRYI_KEEP_ERROR(before);
    if (FERRYI_CALL(run->timeline->device, file_copy, passing->direct, &copy, &arrived) != FERRY_OK)
        note_refusal(run->engine, passing->range.file);
    return arrived - arrived % run->unit;
}

/* Passes bytes until the device refuses some. The caller passes the rest through the ring, which
 * then reports what is wrong. */
static ferry_status
pass_directly(struct passing *passing)
{
    struct ferryi_run *run = &passing->run;
    const size_t unit = direct_unit(run->unit),
                 largest = ferryi_run_is_watched(run) ? FERRYI_HOST_SIDE_PART : run->bytes;
    ferry_status status = ferryi_run_wait_for_timeline(run);
    bool refused = false;
    while (status == FERRY_OK && !refused && run->done < run->bytes) {
        const size_t part = ferryi_run_part(run, run->done, largest, unit),
                     arrived = copy_direct(passing, part);
        refused = arrived < part;
        ferryi_run_arrived(run, arrived);
        passing->range.file->direct_bytes += arrived;
        if (arrived > 0)
            status = ferryi_run_progress(run);
    }
    return status;
}

/* -- all of it --------------------------------------------------------------------------------- */

/* Passes bytes of the request, from byte `*done` on, as one transfer. Adds to `*done` the number of
 * bytes that passed. */
static ferry_status
pass(const struct request *request, size_t *done, size_t bytes,
     ferry_status (*way)(struct passing *passing))
{
    const bool host = ferryi_engine_is_host(request->engine, request->memory.place);
    struct passing passing = {.memory = request->memory,
                              .range = {request->range.file, request->range.offset + *done},
                              .stores = request->stores,
                              .direct = request->direct};
    struct ferryi_run *run = &passing.run;
    if (*done > 0)
        passing.memory.pointer = (char *)request->memory.pointer + *done;
    *run = (struct ferryi_run){.engine = request->engine,
                               .job = request->job,
                               .timeline = host ? NULL : request->timeline,
                               .bytes = bytes,
                               .unit = ferryi_max_size(request->job->unit, 1),
                               .staged = way == pass_through_ring};
    run->direction = host              ? FERRY_DIRECTION_HOST
                     : request->stores ? FERRY_DIRECTION_DOWNLOAD
                                       : FERRY_DIRECTION_UPLOAD;
    *(request->stores ? &run->source_place : &run->target_place) = request->memory.place;
    ferry_status status = ferryi_run_begin(run);
    if (status == FERRY_OK)
        status = way(&passing);
    *done += run->done;
    return ferryi_run_end(run, status);
}

ferry_status
ferryi_engine_copy_file(ferryi_engine *engine, struct ferryi_memory memory,
                        struct ferryi_file_range range, size_t bytes, bool stores,
                        ferryi_timeline *timeline, struct ferryi_transfer_job *job)
{
    struct request request = {engine, memory, range, stores, timeline, job, NULL};
    ferry_status status = FERRY_OK;
    size_t done = 0;
    if (ferryi_engine_is_host(engine, memory.place))
        return pass(&request, &done, bytes, pass_on_host);
    assert(timeline);
    const struct middle middle = find_middle(&request, bytes);
    assert(job->total > 0 || middle.begin == middle.end);
    if (middle.begin < middle.end)
        open_direct(&request);
    if (request.direct) {
        if (middle.begin > 0)
            status = pass(&request, &done, middle.begin, pass_through_ring);
        if (status == FERRY_OK)
            status = pass(&request, &done, middle.end - middle.begin, pass_directly);
        close_direct(&request);
    }
    if (status == FERRY_OK && done < bytes)
        status = pass(&request, &done, bytes - done, pass_through_ring);
    return status;
}
