/* SPDX-License-Identifier: MIT */
#include "src/transfer/run.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/base/callback.h"
#include "src/base/hold.h"
#include "src/debug/site.h"

/* Minimum size of the parts into which a cancellable transfer is divided if it does not go through
 * a staging ring and has no keep_going callback. */
#define DIRECT_PART ((size_t)4 << 20)

static const char *
direction_name(ferry_direction direction)
{
    static const char *const names[] = {"transfer",  "upload",    "download", "device copy",
                                        "peer copy", "host copy", "fill"};
    return names[direction];
}

/* Writes a description of the transfer for error messages. The description names the device that
 * makes the transfer, and the purpose of the transfer. Example: `to cuda:0 for read_device of
 * buffer "heights"`. */
static void
describe(const struct ferryi_run *run, char *text, size_t bytes)
{
    const char *reason = run->job->reason ? run->job->reason : "",
               *buffer = run->job->buffer ? run->job->buffer : "";
    int place = run->direction == FERRY_DIRECTION_DOWNLOAD ? run->source_place : run->target_place;
    char device[48] = "";
    if (place > 0 && run->engine->devices[place])
        snprintf(device, sizeof(device), "%s %s:%d",
                 run->direction == FERRY_DIRECTION_DOWNLOAD ? "from" : "to",
                 run->engine->devices[place]->kind, run->engine->devices[place]->properties.native);
    else
        snprintf(device, sizeof(device), "%s the host", run->job->foreign_target ? "from" : "to");
    snprintf(text, bytes, "%s%s%s%s%.160s%s", device, *reason ? " for " : "", reason,
             *buffer ? " of buffer \"" : "", buffer, *buffer ? "\"" : "");
}

/* Returns the number of bytes that `bytes` transferred bytes become in the target. The two numbers
 * differ only in a download that converts elements, because the host converts them after the
 * transfer. The progress of a job is counted in target bytes. */
static size_t
in_target(const struct ferryi_run *run, size_t bytes)
{
    const struct ferryi_transform *transform =
        run->direction == FERRY_DIRECTION_DOWNLOAD ? run->transform : NULL;
    return transform ? bytes / transform->source_bytes * transform->target_bytes : bytes;
}

/* Returns the number of bytes that all transfers of the job together write. */
static size_t
total_bytes(const struct ferryi_run *run)
{
    return run->job->total ? run->job->total : in_target(run, run->bytes);
}

/* Progress of a job, as the program sees it. */
struct progress {
    size_t done, total;
};

/* Returns the progress of a job that writes `total` bytes. If the job is only a step of a larger
 * job, returns the progress of the larger job. */
static struct progress
progress_of(const struct ferryi_transfer_job *job, size_t total)
{
    return job->result ? (struct progress){job->result->done, job->result->total}
                       : (struct progress){job->done, total};
}

static void
add_done(struct ferryi_transfer_job *job, size_t bytes)
{
    job->done += bytes;
    if (job->arrived) /* The release order ensures that a thread that reads the count also sees the
                         bytes that the host wrote. */
        atomic_store_explicit(job->arrived, job->done, memory_order_release);
}

static ferry_status
cancelled(const struct ferryi_run *run)
{
    char where[256];
    struct progress progress = progress_of(run->job, total_bytes(run));
    describe(run, where, sizeof(where));
    return ferryi_fail(FERRY_ERROR_CANCELLED, "%s %s: cancelled: %zu of %zu bytes arrived",
                       direction_name(run->direction), where, progress.done, progress.total);
}

static bool
flag_is_set(const struct ferryi_transfer_job *job)
{
    return job->cancelled && atomic_load_explicit(job->cancelled, memory_order_relaxed);
}

ferry_status
ferryi_run_begin(struct ferryi_run *run)
{
    ferryi_hold_begin();
    run->span = ferryi_span_begin(run->engine->config.file_trace, direction_name(run->direction),
                                  run->job->buffer, run->job->reason);
    return flag_is_set(run->job) ? cancelled(run) : FERRY_OK;
}

bool
ferryi_run_is_watched(const struct ferryi_run *run)
{
    return run->job->cancelled || (run->job->options && run->job->options->keep_going);
}

void
ferryi_run_arrived(struct ferryi_run *run, size_t bytes)
{
    run->done += bytes;
    add_done(run->job, in_target(run, bytes));
}

/* Returns the number of bytes between two calls of the program's callback keep_going. These are
 * whole elements, at least one. */
static size_t
interval(const ferryi_engine *engine, const struct ferryi_transfer_job *job)
{
    size_t bytes =
        job->options->chunk_bytes ? job->options->chunk_bytes : engine->config.chunk_bytes;
    return job->unit > 1 ? ferryi_max_size(bytes / job->unit, 1) * job->unit : bytes;
}

/* Returns whether the job must stop, because its cancel flag is set or the program's callback
 * keep_going requests it. Calls keep_going if enough bytes have arrived since its last call.
 * Returns false if all bytes of the job have arrived, unless the job is only a step of a larger
 * job. */
static bool
is_stopped(const ferryi_engine *engine, struct ferryi_transfer_job *job, size_t total)
{
    const ferry_copy_options *options = job->options;
    bool stop = flag_is_set(job);
    if (options && options->keep_going &&
        (job->done - job->reported >= interval(engine, job) || job->done == total)) {
        job->reported = job->done;
        struct progress progress = progress_of(job, total);
        struct ferryi_callback running;
        ferryi_callback_enter(&running, FERRYI_CALLBACK_WATCHING, "keep_going");
        stop |= !options->keep_going(progress.done, progress.total, options->user);
        ferryi_callback_leave(&running);
    }
    return stop && (job->result || job->done < total);
}

ferry_status
ferryi_run_progress(struct ferryi_run *run)
{
    if ((run->done - run->unit_begin) % run->unit != 0 && run->done < run->bytes)
        return FERRY_OK;
    return is_stopped(run->engine, run->job, total_bytes(run)) ? cancelled(run) : FERRY_OK;
}

size_t
ferryi_engine_part(const ferryi_engine *engine, const struct ferryi_transfer_job *job)
{
    if (job->options && job->options->keep_going)
        return interval(engine, job);
    return job->cancelled ? ferryi_max_size(engine->config.chunk_bytes, DIRECT_PART) : SIZE_MAX;
}

ferry_status
ferryi_engine_reported(ferryi_engine *engine, struct ferryi_transfer_job *job, size_t bytes)
{
    add_done(job, bytes);
    if (!is_stopped(engine, job, job->total))
        return FERRY_OK;
    struct progress progress = progress_of(job, job->total);
    return ferryi_fail(FERRY_ERROR_CANCELLED, "%s: cancelled: %zu of %zu bytes arrived",
                       job->reason, progress.done, progress.total);
}

/* Shortens a part of `part` bytes at byte `begin` of the transfer to whole elements. If the element
 * at its end is the only one, extends the part to the end of this element, but not beyond `largest`
 * bytes. */
static size_t
whole_elements(const struct ferryi_run *run, size_t begin, size_t part, size_t largest)
{
    size_t first = run->unit - (begin - run->unit_begin) % run->unit;
    return part >= first ? part - (part - first) % run->unit
                         : ferryi_max_size(part, ferryi_min_size(first, largest));
}

size_t
ferryi_run_part(const struct ferryi_run *run, size_t begin, size_t largest, size_t unit)
{
    size_t part = largest;
    if (run->job->options && run->job->options->chunk_bytes)
        part = ferryi_min_size(part, run->job->options->chunk_bytes);
    part = ferryi_max_size(part / unit * unit, unit);
    if (run->unit > 1)
        part = whole_elements(run, begin, part, largest);
    return ferryi_min_size(part, run->bytes - begin);
}

ferry_status
ferryi_run_mark_sent(struct ferryi_run *run, const struct ferryi_ring *ring,
                     struct ferryi_chunk *chunk)
{
    const bool is_last = run->done + chunk->bytes >= run->bytes;
    ferry_status status = ferryi_chunk_mark(chunk, run->timeline);
    if (status != FERRY_OK || ++run->unrecorded < (ring->chunk_count + 1) / 2 || is_last)
        return status;
    run->unrecorded = 0;
    return ferryi_timeline_flush(run->timeline);
}

ferry_status
ferryi_run_order(struct ferryi_run *run, ferryi_timeline *later)
{
    ferryi_sync_point point;
    ferry_status status = ferryi_timeline_note(run->timeline, ferryi_thread_id(), &point);
    return status == FERRY_OK ? ferryi_sync_point_wait(later->order, later, point) : status;
}

void
ferryi_run_count_copied(const struct ferryi_run *run, size_t bytes)
{
    atomic_fetch_add_explicit(&run->engine->copied_bytes, bytes, memory_order_relaxed);
}

/* Returns the name of a transfer's source or target for the trace. This is usually the name of the
 * place. It is "caller" if the memory belongs to the caller. It is "value" if `place` is negative,
 * because the transfer is then a fill, which has no source memory. */
static struct ferryi_trace_text
name_side(const struct ferryi_run *run, int place, bool foreign)
{
    const struct ferryi_trace_text value = FERRYI_TRACE_PLAIN("value"),
                                   caller = FERRYI_TRACE_PLAIN("caller");
    return place < 0 ? value
           : foreign ? caller
                     : ferryi_trace_place(run->engine->config.file_trace, place);
}

/* Returns the offset in the buffer, in bytes, at which the transfer began. Returns SIZE_MAX if the
 * offset is unknown. */
static size_t
find_offset(const struct ferryi_run *run)
{
    const struct ferryi_transfer_job *job = run->job;
    return job->offset == SIZE_MAX ? SIZE_MAX : job->offset + job->done - in_target(run, run->done);
}

static void
write_trace(const struct ferryi_run *run)
{
    const struct ferryi_transfer_job *job = run->job;
    const struct ferryi_trace_text reason = FERRYI_TRACE_ANY(job->reason ? job->reason : ""),
                                   buffer = FERRYI_TRACE_ANY(job->buffer);
    struct ferryi_trace_argument arguments[10] = {
        FERRYI_TRACE_TEXT("reason", reason),
        FERRYI_TRACE_NUMBER("bytes", run->done),
        FERRYI_TRACE_TEXT("from", name_side(run, run->source_place, job->foreign_source)),
        FERRYI_TRACE_TEXT("to", name_side(run, run->target_place, job->foreign_target)),
        FERRYI_TRACE_NUMBER("staged", run->staged),
        FERRYI_TRACE_NUMBER("move", job->moves && run->source_place >= 0),
    };
    size_t count = 6, offset = find_offset(run);
    if (job->buffer && *job->buffer)
        arguments[count++] = (struct ferryi_trace_argument)FERRYI_TRACE_TEXT("buffer", buffer);
    if (job->id)
        arguments[count++] = (struct ferryi_trace_argument)FERRYI_TRACE_NUMBER("id", job->id);
    if (job->id && offset != SIZE_MAX)
        arguments[count++] = (struct ferryi_trace_argument)FERRYI_TRACE_NUMBER("offset", offset);
    struct ferryi_trace_entry entry = {.phase = 'X',
                                       .category = FERRYI_TRACE_PLAIN("transfer"),
                                       .name = FERRYI_TRACE_ANY(direction_name(run->direction)),
                                       .begun_ns = run->span.begun_ns,
                                       .arguments = arguments,
                                       .argument_count = count};
    if (run->timeline)
        entry.stream = (struct ferryi_trace_stream){run->timeline->place, run->timeline->number};
    ferryi_trace_add(run->engine->config.file_trace, &entry);
}

static void
call_trace(const struct ferryi_run *run)
{
    const struct ferryi_engine_config *config = &run->engine->config;
    const struct ferryi_transfer_job *job = run->job;
    ferry_trace trace = {
        .buffer = job->buffer ? job->buffer : "",
        .reason = job->reason ? job->reason : "",
        .bytes = run->done,
        .source_place = job->foreign_source ? -1 : run->source_place,
        .target_place = job->foreign_target ? -1 : run->target_place,
        .direction = run->direction,
        .staged = run->staged,
        .site = ferryi_site_text(config->trace_sites ? ferryi_site_here() : FERRYI_SITE_NONE),
    };
    struct ferryi_callback running;
    FERRYI_KEEP_ERROR(kept);
    ferryi_callback_enter(&running, FERRYI_CALLBACK_WATCHING, "trace");
    config->trace(&trace, config->trace_user);
    ferryi_callback_leave(&running);
}

static void
tell(const struct ferryi_run *run)
{
    if (run->engine->config.file_trace)
        write_trace(run);
    if (run->engine->config.trace)
        call_trace(run);
}

/* Waits for the queued work of a transfer that failed or was cancelled. The transfer must not
 * return while that work is still running. */
void
ferryi_run_settle(struct ferryi_run *run)
{
    if (!run->queued)
        return;
    FERRYI_KEEP_ERROR(before);
    ferryi_timeline *timelines[] = {run->second, run->timeline};
    for (size_t i = 0; i < 2; i++) {
        if (timelines[i] && ferryi_timeline_synchronize(timelines[i]) != FERRY_OK)
            ferryi_log(run->engine->config.log, FERRY_LOG_WARNING,
                       "wait for what a failed transfer had queued: %s", ferry_last_error());
    }
    run->queued = false;
}

static void
explain(const struct ferryi_run *run, ferry_status status)
{
    char where[256];
    describe(run, where, sizeof(where));
    ferryi_fail_in(status, "%s of %zu bytes %s, %zu of which arrived",
                   direction_name(run->direction), run->bytes, where, run->done);
}

ferry_status
ferryi_run_end(struct ferryi_run *run, ferry_status status)
{
    if (status != FERRY_OK && status != FERRY_ERROR_CANCELLED)
        explain(run, status);
    if (status != FERRY_OK)
        ferryi_run_settle(run);
    ferryi_span_end(run->span);
    ferryi_hold_end();
    if (run->done == 0)
        return status;
    ferryi_counter_add(&run->engine->counters[run->direction][run->staged], run->done);
    ferryi_traffic_count(run->job->traffic, run->direction, run->done);
    tell(run);
    return status;
}
