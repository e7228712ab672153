/* SPDX-License-Identifier: MIT */
#include "src/copy/device_convert.h"
#include "src/buffer/place_pool.h"
#include "src/convert/converter.h"
#include "src/copy/copy.h"

#include "src/transfer/engine.h"
#include "src/transfer/throttle.h"

/* Size of the scratch block. It is so large that the time to fill and drain the staging ring
 * between two parts is negligible. */
#define SCRATCH_BYTES ((size_t)8 << 20)

bool
ferryi_device_converts(ferry_context *context, int place, const ferry_conversion *conversion)
{
    return !conversion->convert &&
           ferryi_converter_can(context->converters[place], conversion->from, conversion->to);
}

static ferryi_converter *
converter_of(const struct ferryi_device_conversion *work)
{
    return work->store->context->converters[work->place];
}

static ferry_status
queue(const struct ferryi_device_conversion *work, void *target, const void *source, size_t count)
{
    return ferryi_converter_run(converter_of(work), work->conversion, work->policy, target, source,
                                count, work->timeline->native);
}

/* Returns the number of elements of the next part, up to `most`. The job limits the size of a part,
 * so that it can be cancelled between two parts. */
static size_t
elements_of_part(const struct ferryi_device_conversion *work, const struct ferryi_transfer_job *job,
                 size_t most)
{
    size_t bytes = ferryi_engine_part(work->store->context->engine, job);
    return ferryi_min_size(most, ferryi_max_size(bytes / work->conversion->to->bytes, 1));
}

ferry_status
ferryi_device_convert(const struct ferryi_device_conversion *work, void *target, const void *source,
                      size_t count, struct ferryi_transfer_job *job)
{
    const size_t source_bytes = work->conversion->from->bytes,
                 target_bytes = work->conversion->to->bytes;
    const size_t part = elements_of_part(work, job, count);
    struct ferryi_throttle throttle = {.timeline = work->timeline,
                                       .log = &work->store->context->log};
    ferry_status status = FERRY_OK;
    for (size_t done = 0, now; status == FERRY_OK && done < count; done += now) {
        now = ferryi_min_size(part, count - done);
        if (part < count)
            status = ferryi_throttle_begin(&throttle);
        if (status == FERRY_OK)
            status = queue(work, (char *)target + done * target_bytes,
                           (const char *)source + done * source_bytes, now);
        if (status == FERRY_OK)
            status = ferryi_engine_reported(work->store->context->engine, job, now * target_bytes);
        if (status == FERRY_OK && part < count)
            status = ferryi_throttle_end(&throttle);
    }
    ferryi_throttle_clear(&throttle);
    return status;
}

/* -- scratch ----------------------------------------------------------------------------------- */

struct scratch {
    ferry_block *block;
    void *memory;
};

static ferry_status
take_scratch(const struct ferryi_device_conversion *work, size_t bytes, struct scratch *out)
{
    ferry_pool *pool;
    ferry_status status =
        ferryi_place_pool(work->store->context, work->place, FERRY_MEMORY_DEVICE, &pool);
    return status == FERRY_OK ? ferryi_pool_take(pool, bytes, FERRYI_POOL_ALIGN, work->timeline,
                                                 &out->block, &out->memory)
                              : status;
}

static void
give_scratch(const struct ferryi_device_conversion *work, struct scratch *scratch)
{
    ferryi_pool_give(scratch->block, ferryi_timeline_sync_point(work->timeline));
}

static struct ferryi_memory
on_device(const struct ferryi_device_conversion *work, void *memory)
{
    return (struct ferryi_memory){.place = work->place, .pointer = memory};
}

static struct ferryi_memory
on_host(const void *memory)
{
    return (struct ferryi_memory){.place = 0, .pointer = (void *)(uintptr_t)memory};
}

/* -- across ------------------------------------------------------------------------------------ */

ferry_status
ferryi_device_convert_check(const struct ferryi_device_conversion *work, const void *source,
                            size_t count)
{
    ferryi_engine *engine = work->store->context->engine;
    struct ferryi_transfer_job job = {.buffer = ferryi_store_name(work->store),
                                      .reason = "convert",
                                      .traffic = ferryi_store_traffic(work->store)};
    uint64_t first = UINT64_MAX;
    struct scratch scratch;
    ferry_status status = take_scratch(work, sizeof(first), &scratch);
    if (status != FERRY_OK)
        return status;
    status = ferryi_engine_fill(engine, on_device(work, scratch.memory), sizeof(first), "\xff", 1,
                                work->timeline, &job);
    if (status == FERRY_OK)
        status = ferryi_converter_search(converter_of(work), work->conversion, source, count,
                                         scratch.memory, work->timeline->native);
    if (status == FERRY_OK)
        status = ferryi_engine_copy(engine, on_host(&first), on_device(work, scratch.memory),
                                    sizeof(first), work->timeline, &job);
    give_scratch(work, &scratch);
    if (status == FERRY_OK && first != UINT64_MAX)
        status = ferry_conversion_failed(work->conversion, (size_t)first);
    return status;
}

static struct ferryi_memory
further(struct ferryi_memory memory, size_t bytes)
{
    memory.pointer = (char *)memory.pointer + bytes;
    return memory;
}

/* Converts one part of an upload or a download through a scratch block on the device. During an
 * upload, the source elements are copied to `scratch` and then converted. During a download, the
 * elements are converted into `scratch` and then copied to the host. */
static ferry_status
convert_part(const struct ferryi_device_conversion *work, struct ferryi_memory target,
             struct ferryi_memory source, struct ferryi_memory scratch, size_t count,
             struct ferryi_transfer_job *job)
{
    ferryi_engine *engine = work->store->context->engine;
    ferry_status status;
    if (target.place) {
        status = ferryi_engine_copy(engine, scratch, source, count * work->conversion->from->bytes,
                                    work->timeline, job);
        return status == FERRY_OK ? queue(work, target.pointer, scratch.pointer, count) : status;
    }
    status = queue(work, scratch.pointer, source.pointer, count);
    return status == FERRY_OK
               ? ferryi_engine_copy(engine, target, scratch, count * work->conversion->to->bytes,
                                    work->timeline, job)
               : status;
}

ferry_status
ferryi_device_convert_across(const struct ferryi_device_conversion *work,
                             struct ferryi_memory target, struct ferryi_memory source, size_t count,
                             struct ferryi_transfer_job *job)
{
    ferryi_engine *engine = work->store->context->engine;
    const size_t source_bytes = work->conversion->from->bytes,
                 target_bytes = work->conversion->to->bytes,
                 transferred_bytes = target.place ? source_bytes : target_bytes;
    const size_t part =
        elements_of_part(work, job, ferryi_min_size(count, SCRATCH_BYTES / transferred_bytes));
    struct ferryi_transfer_job part_job = ferryi_copy_quiet_job(job);
    struct scratch scratch;
    ferry_status status = take_scratch(work, part * transferred_bytes, &scratch);
    if (status == FERRY_ERROR_OUT_OF_MEMORY)
        return ferryi_engine_copy_transformed(engine, target, source, count, work->transform,
                                              work->timeline, job);
    if (status != FERRY_OK)
        return status;
    for (size_t done = 0, now; status == FERRY_OK && done < count; done += now) {
        now = ferryi_min_size(part, count - done);
        status = convert_part(work, further(target, done * target_bytes),
                              further(source, done * source_bytes), on_device(work, scratch.memory),
                              now, &part_job);
        if (status == FERRY_OK)
            status = ferryi_engine_reported(engine, job, now * target_bytes);
    }
    give_scratch(work, &scratch);
    return status;
}
