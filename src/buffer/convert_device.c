/* SPDX-License-Identifier: MIT */
#include "src/buffer/convert_device.h"

/* So large that filling and draining the staging ring between parts does not show. */
#define SCRATCH_BYTES ((size_t)8 << 20)

bool
ferryi_device_converts(ferry_context *context, int place, const ferry_conversion *conversion)
{
    return !conversion->convert && ferryi_converter_can(context->converters[place], conversion->from, conversion->to);
}

static ferryi_converter *
converter_of(const struct ferryi_device_conversion *work)
{
    return work->store->context->converters[work->place];
}

ferry_status
ferryi_device_convert(const struct ferryi_device_conversion *work, void *target, const void *source, size_t count)
{
    return ferryi_converter_run(converter_of(work), work->conversion, work->policy, target, source, count, work->lane->native);
}

/* -- scratch --------------------------------------------------------------------------------------- */

struct scratch {
    ferry_block *block;
    void *memory;
};

static ferry_status
take_scratch(const struct ferryi_device_conversion *work, size_t bytes, struct scratch *out)
{
    ferry_pool *pool;
    ferry_status status = ferryi_context_pool(work->store->context, work->place, FERRY_MEMORY_DEVICE, &pool);
    return status == FERRY_OK ? ferryi_pool_take(pool, bytes, FERRYI_POOL_ALIGN, work->lane, &out->block, &out->memory) : status;
}

static void
give_scratch(const struct ferryi_device_conversion *work, struct scratch *scratch)
{
    ferryi_pool_give(scratch->block, ferryi_lane_stamp(work->lane));
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

/* -- across ---------------------------------------------------------------------------------------- */

ferry_status
ferryi_device_convert_check(const struct ferryi_device_conversion *work, const void *source, size_t count)
{
    ferryi_engine *engine = work->store->context->engine;
    const struct ferryi_transfer_job job = {.buffer = ferryi_store_name(work->store), .reason = "convert"};
    uint64_t first = UINT64_MAX;
    struct scratch scratch;
    ferry_status status = take_scratch(work, sizeof(first), &scratch);
    if (status != FERRY_OK)
        return status;
    status = ferryi_engine_fill(engine, on_device(work, scratch.memory), sizeof(first), "\xff", 1, work->lane, &job);
    if (status == FERRY_OK)
        status = ferryi_converter_search(converter_of(work), work->conversion, source, count, scratch.memory, work->lane->native);
    if (status == FERRY_OK)
        status = ferryi_engine_copy(engine, on_host(&first), on_device(work, scratch.memory), sizeof(first), work->lane, &job);
    give_scratch(work, &scratch);
    if (status == FERRY_OK && first != UINT64_MAX)
        status = ferry_conversion_failed(work->conversion, (size_t)first);
    return status;
}

/* What is said of one part: progress is told of the whole, in elements converted. */
static struct ferryi_transfer_job
part_of(const struct ferryi_transfer_job *job)
{
    return (struct ferryi_transfer_job){.buffer = job->buffer, .reason = job->reason, .foreign_source = job->foreign_source,
                                        .foreign_target = job->foreign_target};
}

ferry_status
ferryi_device_convert_upload(const struct ferryi_device_conversion *work, void *target, const void *source, size_t count,
                             const struct ferryi_transfer_job *job)
{
    const size_t source_bytes = work->conversion->from->bytes, target_bytes = work->conversion->to->bytes;
    const size_t part = ferryi_min_size(count, SCRATCH_BYTES / source_bytes);
    const struct ferryi_transfer_job part_job = part_of(job);
    struct scratch scratch;
    ferry_status status = take_scratch(work, part * source_bytes, &scratch);
    if (status == FERRY_ERROR_OUT_OF_MEMORY)
        return ferryi_engine_copy_transformed(work->store->context->engine, on_device(work, target), on_host(source), count,
                                              work->transform, work->lane, job);
    if (status != FERRY_OK)
        return status;
    for (size_t done = 0; status == FERRY_OK && done < count;) {
        size_t now = ferryi_min_size(part, count - done);
        status = ferryi_engine_copy(work->store->context->engine, on_device(work, scratch.memory),
                                    on_host((const char *)source + done * source_bytes), now * source_bytes, work->lane, &part_job);
        if (status == FERRY_OK)
            status = ferryi_device_convert(work, (char *)target + done * target_bytes, scratch.memory, now);
        done += now;
        if (status == FERRY_OK && job->part_done)
            job->part_done(done * target_bytes, job->user);
    }
    give_scratch(work, &scratch);
    return status;
}

ferry_status
ferryi_device_convert_download(const struct ferryi_device_conversion *work, void *target, const void *source, size_t count,
                               const struct ferryi_transfer_job *job)
{
    const size_t source_bytes = work->conversion->from->bytes, target_bytes = work->conversion->to->bytes;
    const size_t part = ferryi_min_size(count, SCRATCH_BYTES / target_bytes);
    const struct ferryi_transfer_job part_job = part_of(job);
    struct scratch scratch;
    ferry_status status = take_scratch(work, part * target_bytes, &scratch);
    if (status == FERRY_ERROR_OUT_OF_MEMORY)
        return ferryi_engine_copy_transformed(work->store->context->engine, on_host(target), on_device(work, (void *)(uintptr_t)source),
                                              count, work->transform, work->lane, job);
    if (status != FERRY_OK)
        return status;
    for (size_t done = 0; status == FERRY_OK && done < count; done += part) {
        size_t now = ferryi_min_size(part, count - done);
        status = ferryi_device_convert(work, scratch.memory, (const char *)source + done * source_bytes, now);
        if (status == FERRY_OK)
            status = ferryi_engine_copy(work->store->context->engine, on_host((const char *)target + done * target_bytes),
                                        on_device(work, scratch.memory), now * target_bytes, work->lane, &part_job);
    }
    give_scratch(work, &scratch);
    return status;
}
