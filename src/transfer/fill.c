/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <string.h>

#include "src/transfer/run.h"

/* Number of bytes that the host writes before the device copies the filled part again and again.
 * They fit into the first-level cache. */
#define SEED_BYTES 4096

struct pattern {
    const unsigned char *bytes;
    size_t count; /* number of bytes */
};

/* Returns the shortest pattern that gives the same fill. If the pattern consists of repetitions of
 * its first 1, 2 or 4 bytes, returns these bytes. Otherwise returns the whole pattern. */
static struct pattern
reduce(const void *bytes, size_t count)
{
    for (size_t shorter = 1; shorter <= 4 && shorter < count; shorter *= 2) {
        if (count % shorter == 0 &&
            memcmp(bytes, (const char *)bytes + shorter, count - shorter) == 0)
            return (struct pattern){bytes, shorter};
    }
    return (struct pattern){bytes, count};
}

/* Fills `bytes` bytes of host memory, a multiple of the pattern's size, with copies of the pattern.
 */
static void
repeat(char *target, struct pattern pattern, size_t bytes)
{
    if (pattern.count == 1) {
        memset(target, pattern.bytes[0], bytes);
        return;
    }
    memcpy(target, pattern.bytes, pattern.count);
    for (size_t done = pattern.count; done < bytes;) {
        size_t part = ferryi_min_size(done, bytes - done);
        memcpy(target + done, target, part);
        done += part;
    }
}

static size_t
whole_patterns(size_t bytes, struct pattern pattern)
{
    return ferryi_max_size(bytes / pattern.count * pattern.count, pattern.count);
}

static ferry_status
fill_host(struct ferryi_run *run, char *target, struct pattern pattern)
{
    ferry_status status = FERRY_OK;
    if (run->timeline)
        status = ferryi_device_wait_stream(run->timeline->device, run->timeline->native);
    size_t largest = ferryi_run_is_watched(run) ? run->engine->config.chunk_bytes : run->bytes;
    while (status == FERRY_OK && run->done < run->bytes) {
        size_t bytes = ferryi_run_part(run, run->done, largest, pattern.count);
        repeat(target + run->done, pattern, bytes);
        ferryi_run_arrived(run, bytes);
        status = ferryi_run_progress(run);
    }
    return status;
}

/* Fills the memory with one fill call of the device. The pattern must have 1, 2 or 4 bytes. */
static ferry_status
fill_pattern(struct ferryi_run *run, char *target, struct pattern pattern)
{
    ferryi_timeline *timeline = run->timeline;
    uint32_t word = pattern.bytes[0];
    uint16_t half;
    if (pattern.count == 2) {
        memcpy(&half, pattern.bytes, sizeof(half));
        word = half;
    } else if (pattern.count == 4) {
        memcpy(&word, pattern.bytes, sizeof(word));
    }
    size_t largest = ferryi_run_is_watched(run) ? run->engine->config.chunk_bytes : run->bytes;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && run->done < run->bytes) {
        size_t bytes = ferryi_run_part(run, run->done, largest, pattern.count);
        status = FERRYI_CALL(timeline->device, fill, target + run->done, word, pattern.count,
                             bytes / pattern.count, timeline->native);
        if (status != FERRY_OK)
            break;
        run->queued = true;
        ferryi_run_arrived(run, bytes);
        status = ferryi_run_progress(run);
    }
    return status;
}

/* Uploads the first elements of a fill through the ring. The upload counts as a part of the fill,
 * not as a separate transfer. */
static ferry_status
write_seed(struct ferryi_run *run, char *target, struct pattern pattern)
{
    char seed[SEED_BYTES];
    const void *source = pattern.bytes;
    struct ferryi_transfer_job job = {
        .cancelled = run->job->cancelled}; /* the fill reports the progress, not this upload */
    struct ferryi_run upload = *run;
    upload.job = &job;
    upload.direction = FERRY_DIRECTION_UPLOAD;
    upload.bytes = ferryi_min_size(whole_patterns(SEED_BYTES, pattern), run->bytes);
    if (upload.bytes <= sizeof(seed)) {
        repeat(seed, pattern, upload.bytes);
        source = seed;
    }
    struct ferryi_staging how = ferryi_staging_plain(run->engine, run->target_place);
    ferry_status status = ferryi_staged_copy(&upload, &how, target, source);
    run->queued |= upload.queued;
    if (upload.done > 0)
        ferryi_run_arrived(run, upload.done);
    return status;
}

/* Fills the memory with a pattern that the device's fill call does not support. Uploads the first
 * elements. The device then copies all filled bytes to the memory behind them, again and again, so
 * that each copy doubles the filled part. */
static ferry_status
fill_doubling(struct ferryi_run *run, char *target, struct pattern pattern)
{
    ferryi_timeline *timeline = run->timeline;
    ferry_status status = write_seed(run, target, pattern);
    if (status == FERRY_OK)
        status = ferryi_run_progress(run);
    while (status == FERRY_OK && run->done < run->bytes) {
        size_t largest = run->done;
        if (ferryi_run_is_watched(run))
            largest =
                ferryi_min_size(largest, whole_patterns(run->engine->config.chunk_bytes, pattern));
        size_t bytes = ferryi_run_part(run, run->done, largest, pattern.count);
        const struct ferryi_copy copy = {target + run->done, target, bytes, FERRY_DIRECTION_DEVICE,
                                         NULL};
        status = FERRYI_CALL(timeline->device, copy, &copy, timeline->native);
        if (status != FERRY_OK)
            break;
        run->queued = true;
        ferryi_run_arrived(run, bytes);
        status = ferryi_run_progress(run);
    }
    return status;
}

static ferry_status
fill(struct ferryi_run *run, char *target, struct pattern pattern)
{
    if (ferryi_engine_is_host(run->engine, run->target_place))
        return fill_host(run, target, pattern);
    bool known = pattern.count == 1 || pattern.count == 2 || pattern.count == 4;
    if (known && (uintptr_t)target % pattern.count == 0)
        return fill_pattern(run, target, pattern);
    return fill_doubling(run, target, pattern);
}

ferry_status
ferryi_engine_fill(ferryi_engine *engine, struct ferryi_memory target, size_t bytes,
                   const void *pattern, size_t element_bytes, ferryi_timeline *timeline,
                   struct ferryi_transfer_job *job)
{
    assert(element_bytes > 0 && bytes % element_bytes == 0);
    if (bytes == 0)
        return FERRY_OK;
    struct ferryi_run run = {.engine = engine,
                             .job = job,
                             .direction = FERRY_DIRECTION_FILL,
                             .target_place = target.place,
                             .source_place = -1,
                             .timeline = timeline,
                             .bytes = bytes};
    assert(timeline || ferryi_engine_is_host(engine, target.place));
    ferry_status status = ferryi_run_begin(&run);
    if (status == FERRY_OK)
        status = fill(&run, target.pointer, reduce(pattern, element_bytes));
    return ferryi_run_end(&run, status);
}
