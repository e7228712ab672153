/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <string.h>

#include "src/transfer/run.h"

/* Number of bytes that the host writes at the start of a fill. The device fills the rest of the
 * memory with copies of these bytes. They fit into the first-level cache. */
#define SEED_BYTES 4096

struct pattern {
    const unsigned char *bytes;
    size_t count; /* number of bytes */
};

/* Returns the shortest pattern that fills memory with the same bytes as the given pattern. If the
 * pattern consists of repetitions of its first 1, 2 or 4 bytes, returns these bytes. Otherwise
 * returns the whole pattern. */
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

/* Uploads the first elements of a fill through the staging ring. Statistics count this upload as a
 * part of the fill, not as a separate transfer. */
static ferry_status
write_seed(struct ferryi_run *run, char *target, struct pattern pattern)
{
    char seed[SEED_BYTES];
    const void *source = pattern.bytes;
    /* The upload reports no progress, because the fill reports it. */
    struct ferryi_transfer_job job = {.cancelled = run->job->cancelled};
    struct ferryi_run upload = *run;
    upload.job = &job;
    upload.direction = FERRY_DIRECTION_UPLOAD;
    upload.bytes = ferryi_run_part(&upload, 0, SEED_BYTES, pattern.count);
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

/* How the parts of a fill are written. */
enum method {
    BY_HOST,     /* the host writes the pattern */
    BY_WORD,     /* the device's fill call writes the pattern, which has 1, 2 or 4 bytes */
    BY_DOUBLING, /* the host writes the first elements. The device then copies all filled bytes to
                    the memory behind them, so that each copy doubles the filled part */
};

static enum method
method_of(const struct ferryi_run *run, const char *target, struct pattern pattern)
{
    if (ferryi_engine_is_host(run->engine, run->target_place))
        return BY_HOST;
    bool known = pattern.count == 1 || pattern.count == 2 || pattern.count == 4;
    return known && (uintptr_t)target % pattern.count == 0 ? BY_WORD : BY_DOUBLING;
}

/* Returns the pattern, which must have 1, 2 or 4 bytes, as an unsigned number. */
static uint32_t
word_of(struct pattern pattern)
{
    uint16_t half;
    uint32_t word;
    if (pattern.count == 1)
        return pattern.bytes[0];
    if (pattern.count == 2) {
        memcpy(&half, pattern.bytes, sizeof(half));
        return half;
    }
    memcpy(&word, pattern.bytes, sizeof(word));
    return word;
}

static ferry_status
fill_part(const struct ferryi_run *run, enum method method, char *target, struct pattern pattern,
          size_t bytes)
{
    const ferryi_timeline *timeline = run->timeline;
    char *part = target + run->done;
    if (method == BY_WORD)
        return FERRYI_CALL(timeline->device, fill, part, word_of(pattern), pattern.count,
                           bytes / pattern.count, timeline->native);
    if (method == BY_DOUBLING) {
        const struct ferryi_copy copy = {part, target, bytes, FERRY_DIRECTION_DEVICE, NULL};
        return FERRYI_CALL(timeline->device, copy, &copy, timeline->native);
    }
    repeat(part, pattern, bytes);
    return FERRY_OK;
}

static ferry_status
fill(struct ferryi_run *run, char *target, struct pattern pattern)
{
    const enum method method = method_of(run, target, pattern);
    const size_t most = ferryi_run_is_watched(run) ? run->engine->config.chunk_bytes : run->bytes;
    ferry_status status = FERRY_OK;
    if (method == BY_HOST)
        status = ferryi_run_wait_for_timeline(run);
    else if (method == BY_DOUBLING)
        status = write_seed(run, target, pattern);
    if (status == FERRY_OK && method == BY_DOUBLING)
        status = ferryi_run_progress(run);
    while (status == FERRY_OK && run->done < run->bytes) {
        size_t largest = method == BY_DOUBLING ? ferryi_min_size(most, run->done) : most;
        size_t bytes = ferryi_run_part(run, run->done, largest, pattern.count);
        status = fill_part(run, method, target, pattern, bytes);
        if (status != FERRY_OK)
            break;
        run->queued |= method != BY_HOST;
        ferryi_run_arrived(run, bytes);
        status = ferryi_run_progress(run);
    }
    return status;
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
                             .bytes = bytes,
                             .unit = ferryi_max_size(job->unit, 1)};
    assert(timeline || ferryi_engine_is_host(engine, target.place));
    ferry_status status = ferryi_run_begin(&run);
    if (status == FERRY_OK)
        status = fill(&run, target.pointer, reduce(pattern, element_bytes));
    return ferryi_run_end(&run, status);
}
