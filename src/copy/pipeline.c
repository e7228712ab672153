/* SPDX-License-Identifier: MIT */
#include <ferry/byte.h>
#include <ferry/file.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/copy/copy.h"

/*
 * Streams a file through a device, chunk by chunk. Three threads each run one stage. The loader
 * fills chunk buffers at the device. The caller's thread passes these buffers to the program's
 * callback. The finisher waits for the queued work and writes the chunks to the output. Chunk k
 * uses buffer k modulo the number of buffers. Each stage counts the chunks that it has finished,
 * and only these three counters synchronize the stages. The library orders the loads, scopes and
 * stores on each buffer, just as it orders all calls on one buffer.
 *
 * Waking a thread takes as long as reading a small chunk. So small chunks are passed from stage to
 * stage in groups. There are at least two groups.
 *
 * With buffered I/O, a chunk passes through the staging ring, whose pinned chunks stay in the
 * processor's cache. Direct I/O needs large reads and writes. With direct I/O, each chunk buffer
 * therefore has a pinned replica at the host, and the device copies from and to this replica.
 */

#define BUFFERS_LIMIT 16
#define DEFAULT_CHUNK ((size_t)4 << 20)
#define DEFAULT_COUNT 4
#define GROUP_BYTES   ((size_t)1 << 20)

struct slot {
    ferry_buffer *whole;
    /* shorter view of the buffer `whole`, if the last chunk of the file is shorter and uses this
     * buffer; NULL if not */
    ferry_buffer *last;
    ferry_event *done; /* event that is recorded after the work on the chunk in this buffer;
                          recorded only if the chunk ends a group */
    uint64_t begun_ns;
};

FERRYI_MUTEX_CLASS(ferryi_pipeline_mutex);

struct pipeline {
    const ferry_file_pipeline_options *options;
    ferry_context *context;
    ferry_stream *stream;
    int place;
    const ferry_element *element;
    struct ferryi_file input, output; /* output.fd is -1 if the pipeline writes no output */
    bool in_place;
    uint64_t bytes, chunks;
    size_t chunk_bytes, slot_count;
    size_t group; /* number of chunks that are passed to the next stage together */
    struct slot slots[BUFFERS_LIMIT];
    ferry_file_stats stats; /* statistics of the run; while the threads run, each member is written
                               by only one of them */
    atomic_bool stop;
    /* Condition variables, one for the thread of each stage. */
    ferryi_cond loader, worker, finisher;
    struct ferryi_pipeline_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_pipeline_mutex) struct {
        uint64_t loaded, queued,
            finished;        /* number of chunks that each of the three stages has finished */
        ferry_status status; /* status of the first failure */
        char *text;
    };
};

/* -- the stages' agreement --------------------------------------------------------------------- */

/* Stops all stages of the pipeline. Stores the status and the message of the failure, unless the
 * pipeline has failed before. */
static void
fail(struct pipeline *pipeline, ferry_status status)
{
    ferryi_mutex_lock(&pipeline->mutex);
    if (pipeline->status == FERRY_OK) {
        pipeline->status = status;
        pipeline->text = ferryi_last_error_copy();
    }
    atomic_store(&pipeline->stop, true);
    ferryi_cond_signal(&pipeline->loader);
    ferryi_cond_signal(&pipeline->worker);
    ferryi_cond_signal(&pipeline->finisher);
    ferryi_mutex_unlock(&pipeline->mutex);
}

/* Waits until the counter `*count` reaches `goal`. Returns false if the pipeline was stopped. */
static bool
await(struct pipeline *pipeline, ferryi_cond *stage, const uint64_t *count, uint64_t goal)
{
    ferryi_mutex_lock(&pipeline->mutex);
    while (*count < goal && !atomic_load(&pipeline->stop))
        ferryi_cond_wait(stage, &pipeline->mutex);
    ferryi_mutex_unlock(&pipeline->mutex);
    return !atomic_load(&pipeline->stop);
}

/* Returns whether the first `chunks` chunks end with a complete group of chunks. */
static bool
ends_group(const struct pipeline *pipeline, uint64_t chunks)
{
    return chunks % pipeline->group == 0 || chunks == pipeline->chunks;
}

/* Increments a stage's counter of finished chunks. At the end of a group of chunks, wakes the next
 * stage. */
static void
advance(struct pipeline *pipeline, uint64_t *count, ferryi_cond *stage)
{
    ferryi_mutex_lock(&pipeline->mutex);
    uint64_t chunks = ++*count;
    ferryi_mutex_unlock(&pipeline->mutex);
    if (ends_group(pipeline, chunks))
        ferryi_cond_signal(stage);
}

/* Returns whether the caller's thread must be woken when `finished` chunks are done, for example to
 * report the progress. */
static bool
is_reported(const struct pipeline *pipeline, uint64_t finished)
{
    return pipeline->options->keep_going ? ends_group(pipeline, finished)
                                         : finished == pipeline->chunks;
}

static size_t
bytes_of(const struct pipeline *pipeline, uint64_t chunk)
{
    uint64_t left = pipeline->bytes - chunk * pipeline->chunk_bytes;
    return left < pipeline->chunk_bytes ? (size_t)left : pipeline->chunk_bytes;
}

static uint64_t
bytes_before(const struct pipeline *pipeline, uint64_t chunk)
{
    return chunk == 0 || chunk < pipeline->chunks ? chunk * pipeline->chunk_bytes : pipeline->bytes;
}

static struct slot *
slot_of(struct pipeline *pipeline, uint64_t chunk)
{
    assert(pipeline->slot_count > 0);
    return &pipeline->slots[chunk % pipeline->slot_count];
}

/* -- the stages -------------------------------------------------------------------------------- */

static void
load_all(void *argument)
{
    struct pipeline *pipeline = argument;
    for (uint64_t chunk = 0; chunk < pipeline->chunks; chunk++) {
        uint64_t needed = chunk < pipeline->slot_count ? 0 : chunk + 1 - pipeline->slot_count;
        if (!await(pipeline, &pipeline->loader, &pipeline->finished, needed))
            return;
        size_t bytes = bytes_of(pipeline, chunk);
        uint64_t begun = ferryi_now_ns();
        int place = pipeline->options->direct ? FERRY_PLACE_HOST : pipeline->place;
        struct ferryi_copy_call call = {
            .unit = pipeline->element->bytes,
            .cancelled = &pipeline->stop,
            .file = {&pipeline->input,
                     pipeline->options->input_offset + bytes_before(pipeline, chunk)}};
        ferryi_copy_plan(&call, slot_of(pipeline, chunk)->whole->store,
                         (struct ferryi_range){0, bytes}, NULL, (struct ferryi_range){0}, place);
        ferry_status status = ferryi_copy_run(&call);
        if (status != FERRY_OK) {
            fail(pipeline, status);
            return;
        }
        pipeline->stats.load_ns += ferryi_now_ns() - begun;
        pipeline->stats.bytes_read += bytes;
        advance(pipeline, &pipeline->loaded, &pipeline->worker);
    }
}

static ferry_status
write_out(struct pipeline *pipeline, uint64_t chunk)
{
    struct slot *slot = slot_of(pipeline, chunk);
    size_t bytes = bytes_of(pipeline, chunk);
    uint64_t begun = ferryi_now_ns();
    struct ferryi_copy_call call = {.unit = pipeline->element->bytes,
                                    .cancelled = &pipeline->stop,
                                    .file = {&pipeline->output, pipeline->options->output_offset +
                                                                    bytes_before(pipeline, chunk)}};
    ferry_status status = FERRY_OK;
    if (pipeline->options->direct)
        status = ferry_buffer_sync_to(slot->whole, 0, bytes / pipeline->element->bytes,
                                      FERRY_PLACE_HOST, NULL);
    ferryi_copy_plan(&call, NULL, (struct ferryi_range){0}, slot->whole->store,
                     (struct ferryi_range){0, bytes}, -1);
    if (status == FERRY_OK)
        status = ferryi_copy_run(&call);
    pipeline->stats.store_ns += ferryi_now_ns() - begun;
    pipeline->stats.bytes_written += status == FERRY_OK ? bytes : 0;
    return status;
}

/* Waits for the device work on a group of chunks. The stream runs in order, so the event of the
 * group's last chunk covers the whole group. */
static ferry_status
await_work(struct pipeline *pipeline, uint64_t begin, uint64_t end, uint64_t *last_ns)
{
    struct slot *first = slot_of(pipeline, begin), *last = slot_of(pipeline, end - 1);
    ferry_status status = ferry_event_synchronize(last->done);
    uint64_t now = ferryi_now_ns();
    ferry_event_destroy(&last->done);
    pipeline->stats.work_ns += now - (first->begun_ns > *last_ns ? first->begun_ns : *last_ns);
    *last_ns = now;
    return status;
}

static void
finish_all(void *argument)
{
    struct pipeline *pipeline = argument;
    uint64_t last_ns = 0;
    for (uint64_t begin = 0, end; begin < pipeline->chunks; begin = end) {
        end =
            begin + pipeline->group < pipeline->chunks ? begin + pipeline->group : pipeline->chunks;
        if (!await(pipeline, &pipeline->finisher, &pipeline->queued, end))
            return;
        ferry_status status = await_work(pipeline, begin, end, &last_ns);
        for (uint64_t chunk = begin; chunk < end && status == FERRY_OK; chunk++) {
            if (pipeline->output.fd >= 0)
                status = write_out(pipeline, chunk);
            if (status == FERRY_OK)
                advance(pipeline, &pipeline->finished, &pipeline->loader);
        }
        if (status != FERRY_OK) {
            fail(pipeline, status);
            return;
        }
        if (is_reported(pipeline, end))
            ferryi_cond_signal(&pipeline->worker);
    }
}

static ferry_status
call_back(struct pipeline *pipeline, const ferry_file_chunk *chunk)
{
    ferryi_explain("%s", "");
    struct ferryi_callback running;
    ferryi_callback_enter(&running, FERRYI_CALLBACK_WORKING, "work");
    running.lent = chunk->buffer;
    running.context = pipeline->context;
    ferry_status status = pipeline->options->work(chunk, pipeline->options->user);
    ferryi_callback_leave(&running);
    if (status != FERRY_OK && !*ferry_last_error())
        ferryi_explain("the callback returned %s for element %llu and the %zu after it",
                       ferry_status_name(status), (unsigned long long)chunk->offset,
                       chunk->count - 1);
    return status;
}

static ferry_status
work_on(struct pipeline *pipeline, uint64_t index)
{
    struct slot *slot = slot_of(pipeline, index);
    size_t bytes = bytes_of(pipeline, index);
    ferry_file_chunk chunk = {.buffer = bytes == pipeline->chunk_bytes ? slot->whole : slot->last,
                              .stream = pipeline->stream,
                              .offset = bytes_before(pipeline, index) / pipeline->element->bytes,
                              .count = bytes / pipeline->element->bytes,
                              .bytes = bytes};
    slot->begun_ns = ferryi_now_ns();
    FERRYI_OR_RETURN(call_back(pipeline, &chunk));
    return ends_group(pipeline, index + 1) ? ferry_stream_record(pipeline->stream, 0, &slot->done)
                                           : FERRY_OK;
}

/* Calls the program's callback keep_going with the number of bytes in the first `chunks` chunks,
 * which are done. Returns false if the callback cancels the pipeline. */
static bool
tell(const struct pipeline *pipeline, uint64_t chunks)
{
    const ferry_file_pipeline_options *options = pipeline->options;
    uint64_t done = bytes_before(pipeline, chunks);
    if (!options->keep_going)
        return true;
    struct ferryi_callback running;
    ferryi_callback_enter(&running, FERRYI_CALLBACK_WORKING, "keep_going");
    running.context = pipeline->context;
    bool goes_on = options->keep_going((size_t)done, (size_t)pipeline->bytes, options->user);
    ferryi_callback_leave(&running);
    if (goes_on || done == pipeline->bytes)
        return true;
    ferryi_explain("%s", "cancelled");
    return false;
}

/* Runs the stage of the caller's thread. It calls the program's callback for each chunk, and
 * reports the progress. */
static void
work_all(struct pipeline *pipeline)
{
    uint64_t reported = 0;
    while (reported < pipeline->chunks) {
        ferryi_mutex_lock(&pipeline->mutex);
        while (pipeline->queued == pipeline->loaded &&
               (pipeline->finished == reported || !is_reported(pipeline, pipeline->finished)) &&
               !atomic_load(&pipeline->stop))
            ferryi_cond_wait(&pipeline->worker, &pipeline->mutex);
        uint64_t queued = pipeline->queued, finished = pipeline->finished;
        bool ready = queued < pipeline->loaded;
        ferryi_mutex_unlock(&pipeline->mutex);
        if (atomic_load(&pipeline->stop))
            return;
        ferry_status status = FERRY_OK;
        if (finished > reported) {
            status = tell(pipeline, finished) ? FERRY_OK : FERRY_ERROR_CANCELLED;
            reported = finished;
        }
        if (status == FERRY_OK && ready)
            status = work_on(pipeline, queued);
        if (status != FERRY_OK) {
            fail(pipeline, status);
            return;
        }
        if (ready)
            advance(pipeline, &pipeline->queued, &pipeline->finisher);
    }
}

/* -- beginning and end ------------------------------------------------------------------------- */

static ferry_status
check_options(ferry_context *context, const ferry_file_pipeline_options *options)
{
    if (!context || !options || !options->input || !options->work)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "stream a file: %s is NULL",
                           !context          ? "the context"
                           : !options        ? "options"
                           : !options->input ? "options.input"
                                             : "options.work");
    if (options->chunk_count == 1 || options->chunk_count > BUFFERS_LIMIT)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "stream %s: %zu chunks at a time; 2 to %d are possible", options->input,
                           options->chunk_count, BUFFERS_LIMIT);
    if (options->element && !ferry_element_identity(options->element))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "stream %s: its element is malformed",
                           options->input);
    return FERRY_OK;
}

static ferry_status
open_input(struct pipeline *pipeline)
{
    const ferry_file_pipeline_options *options = pipeline->options;
    struct ferryi_file *file = &pipeline->input;
    FERRYI_OR_RETURN(ferryi_file_open(file, options->input, FERRYI_FILE_READ, options->direct));
    pipeline->bytes = options->bytes;
    if (pipeline->bytes == 0 && !file->sized)
        return ferryi_fail(FERRY_ERROR_IO,
                           "read %s to its end: it is not a regular file; set the number of bytes",
                           options->input);
    if (pipeline->bytes == 0 && options->input_offset < file->bytes)
        pipeline->bytes = file->bytes - options->input_offset;
    if (pipeline->bytes % pipeline->element->bytes != 0)
        return ferryi_fail(
            FERRY_ERROR_IO,
            "read %llu bytes at offset %llu of %s: no whole number of elements of %zu bytes",
            (unsigned long long)pipeline->bytes, (unsigned long long)options->input_offset,
            options->input, pipeline->element->bytes);
    return ferryi_file_expect(file, options->input_offset, pipeline->bytes);
}

static ferry_status
open_output(struct pipeline *pipeline)
{
    const ferry_file_pipeline_options *options = pipeline->options;
    struct ferryi_file *file = &pipeline->output;
    if (!options->output)
        return FERRY_OK;
    FERRYI_OR_RETURN(
        ferryi_file_check_range(options->output, options->output_offset, pipeline->bytes));
    FERRYI_OR_RETURN(ferryi_file_open(file, options->output, FERRYI_FILE_WRITE, options->direct));
    pipeline->in_place =
        file->sized && file->device == pipeline->input.device && file->node == pipeline->input.node;
    if (pipeline->in_place && options->output_offset > options->input_offset)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "stream %s into itself: output offset %llu is larger than input offset "
                           "%llu, so output would be read again",
                           options->input, (unsigned long long)options->output_offset,
                           (unsigned long long)options->input_offset);
    return FERRY_OK;
}

/* Creates the chunk buffers, and calls ferry_buffer_hold() for each of them. So their memory cannot
 * be evicted, and a lack of device memory is reported before any stage runs. */
static ferry_status
make_slots(struct pipeline *pipeline)
{
    const ferry_file_pipeline_options *options = pipeline->options;
    const ferry_buffer_options buffer = {.name = "chunk of a file",
                                         .align = options->direct ? FERRYI_FILE_ALIGN : 0,
                                         .memory = options->direct ? FERRY_MEMORY_PINNED
                                                                   : FERRY_MEMORY_DEFAULT};
    size_t element_bytes = pipeline->element->bytes,
           chunk = options->chunk_bytes ? options->chunk_bytes : DEFAULT_CHUNK;
    if (chunk > pipeline->bytes)
        chunk = (size_t)pipeline->bytes;
    pipeline->chunk_bytes = ferryi_max_size(chunk / element_bytes, 1) * element_bytes;
    pipeline->chunks =
        pipeline->bytes / pipeline->chunk_bytes + (pipeline->bytes % pipeline->chunk_bytes != 0);
    pipeline->slot_count = options->chunk_count ? options->chunk_count : DEFAULT_COUNT;
    if (pipeline->slot_count > pipeline->chunks)
        pipeline->slot_count = (size_t)pipeline->chunks;
    size_t group = ferryi_min_size(GROUP_BYTES / ferryi_max_size(pipeline->chunk_bytes, 1),
                                   pipeline->slot_count / 2);
    pipeline->group = ferryi_max_size(group, 1);
    ferry_status status = FERRY_OK;
    void *memory;
    for (size_t i = 0; status == FERRY_OK && i < pipeline->slot_count; i++) {
        status = ferry_buffer_create(pipeline->context, pipeline->element,
                                     pipeline->chunk_bytes / element_bytes, &buffer,
                                     &pipeline->slots[i].whole);
        if (status == FERRY_OK)
            status = ferry_buffer_hold(pipeline->slots[i].whole, pipeline->place, &memory);
        if (status == FERRY_OK && options->direct)
            status = ferry_buffer_hold(pipeline->slots[i].whole, FERRY_PLACE_HOST, &memory);
    }
    size_t last = pipeline->chunks ? bytes_of(pipeline, pipeline->chunks - 1) : 0;
    if (status != FERRY_OK || last == 0 || last == pipeline->chunk_bytes)
        return status;
    struct slot *slot = slot_of(pipeline, pipeline->chunks - 1);
    return ferry_buffer_view(slot->whole, pipeline->element, 0, last / element_bytes, &slot->last);
}

static ferry_status
open_pipeline(struct pipeline *pipeline)
{
    const ferry_file_pipeline_options *options = pipeline->options;
    ferryi_timeline *timeline;
    FERRYI_OR_RETURN(ferryi_stream_find_timeline(pipeline->context, options->stream,
                                                 "stream a file", &timeline));
    pipeline->place = timeline->place;
    pipeline->stream =
        options->stream ? options->stream : pipeline->context->defaults[timeline->place];
    ferryi_stream_retain(pipeline->stream);
    pipeline->element = options->element ? options->element : ferry_byte_element();
    FERRYI_OR_RETURN(open_input(pipeline));
    FERRYI_OR_RETURN(open_output(pipeline));
    return make_slots(pipeline);
}

static void
run_stages(struct pipeline *pipeline)
{
    ferryi_thread loader, finisher;
    ferry_status status = ferryi_thread_start(&loader, "ferry-load", load_all, pipeline);
    if (status != FERRY_OK) {
        fail(pipeline, status);
        return;
    }
    status = ferryi_thread_start(&finisher, "ferry-store", finish_all, pipeline);
    if (status != FERRY_OK) {
        fail(pipeline, status);
    } else {
        work_all(pipeline);
        ferryi_thread_join(finisher);
    }
    ferryi_thread_join(loader);
    /* Waits until all queued work is done, and reports a failure of the stream. */
    status = ferry_stream_synchronize(pipeline->stream);
    if (status != FERRY_OK)
        fail(pipeline, status);
}

static void
end_files(struct pipeline *pipeline)
{
    const ferry_file_pipeline_options *options = pipeline->options;
    ferryi_file_note_direct(&pipeline->context->log, &pipeline->input, options->direct);
    ferryi_file_note_direct(&pipeline->context->log, &pipeline->output,
                            options->direct && pipeline->output.fd >= 0);
    /* No lock is needed, because the threads of all stages have ended. */
    ferryi_mutex_is_needless(&pipeline->mutex);
    ferry_status status = pipeline->status;
    if (status == FERRY_OK)
        status = ferryi_file_check_unchanged(&pipeline->input);
    if (status == FERRY_OK && pipeline->output.fd >= 0 && !options->keep_rest &&
        !pipeline->in_place)
        status = ferryi_file_end_at(&pipeline->output, options->output_offset + pipeline->bytes);
    status = ferryi_file_end(&pipeline->input, status);
    status = ferryi_file_end(&pipeline->output, status);
    if (status != FERRY_OK)
        fail(pipeline, status);
}

static void
close_pipeline(struct pipeline *pipeline)
{
    end_files(pipeline);
    for (size_t i = 0; i < BUFFERS_LIMIT; i++) {
        ferry_event_destroy(&pipeline->slots[i].done);
        ferry_buffer_destroy(&pipeline->slots[i].last);
        ferry_buffer_destroy(&pipeline->slots[i].whole);
    }
    if (pipeline->stream)
        ferryi_stream_release(pipeline->stream);
    ferryi_cond_destroy(&pipeline->finisher);
    ferryi_cond_destroy(&pipeline->worker);
    ferryi_cond_destroy(&pipeline->loader);
    ferryi_mutex_destroy(&pipeline->mutex);
}

/* Sets the thread's error message to the message of the first failure and the number of bytes that
 * were done. */
static void
explain(const struct pipeline *pipeline)
{
    ferryi_mutex_is_needless(&pipeline->mutex);
    uint64_t done = bytes_before(pipeline, pipeline->finished);
    ferryi_explain("stream %s from offset %llu: %llu of %llu bytes done: %s",
                   pipeline->options->input, (unsigned long long)pipeline->options->input_offset,
                   (unsigned long long)done, (unsigned long long)pipeline->bytes,
                   pipeline->text ? pipeline->text : "no memory to say why");
}

ferry_status
ferry_file_pipeline(ferry_context *context, const ferry_file_pipeline_options *options)
{
    FERRYI_OR_RETURN(check_options(context, options));
    FERRYI_OR_RETURN(ferryi_shell_check_open(context, "stream a file"));
    struct pipeline pipeline = {.options = options,
                                .context = context,
                                .input = FERRYI_FILE_CLOSED,
                                .output = FERRYI_FILE_CLOSED};
    ferryi_mutex_init(&pipeline.mutex);
    ferryi_cond_init(&pipeline.loader);
    ferryi_cond_init(&pipeline.worker);
    ferryi_cond_init(&pipeline.finisher);
    uint64_t begun = ferryi_now_ns();
    ferry_status status = open_pipeline(&pipeline);
    if (status != FERRY_OK)
        fail(&pipeline, status);
    else if (pipeline.chunks > 0)
        run_stages(&pipeline);
    close_pipeline(&pipeline);

    ferryi_mutex_is_needless(&pipeline.mutex);
    pipeline.stats.wall_ns = ferryi_now_ns() - begun;
    pipeline.stats.chunks = pipeline.finished;
    pipeline.stats.bytes_direct = pipeline.input.direct_bytes + pipeline.output.direct_bytes;
    if (options->stats)
        *options->stats = pipeline.stats;
    if (pipeline.status != FERRY_OK)
        explain(&pipeline);
    free(pipeline.text);
    return pipeline.status;
}
