/* SPDX-License-Identifier: MIT */
/* Tests pipelines that process a file on a device in chunks. */
#include "tests/buffer/files.h"
#include "tests/buffer/work.h"
#include "tests/support/copies.h"

#include <stdio.h>
#include <unistd.h>

/* The test file has 10 chunks of 1000 integers and one chunk of 345 integers. */
enum { CHUNK = 1000, COUNT = 10345, CHUNKS = 11 };

/* Settings of a test, and what the callbacks of its pipeline have observed. */
struct job {
    fixture *f;
    work w;
    size_t chunks, elements;
    uint64_t next_offset;
    size_t fail_at; /* number of the chunk whose `work` callback fails, from 1; 0: none fails */
    ferry_status fail_with;
    const char *cut; /* file that the first call of `work` truncates to `cut_to` bytes */
    off_t cut_to;
    /* Whether the `work` callback returns only after the next chunk has been loaded. */
    bool waits_for_next;
    uint64_t loaded_before; /* number of bytes that were loaded before the pipeline began */
    /* The largest numbers of allocated bytes on the device and on the host that a call of `work`
     * has observed. */
    size_t device_most, host_most;
    size_t tells, reported, total, stop_at;
    /* Whether the progress callback checks that the reported work has been done. The check counts
     * the kernels that have ended since the test set `pending_calls_before`. */
    bool expects_work;
    unsigned pending_calls_before;
};

static size_t
live_at(fixture *f, int place)
{
    ferry_memory_info info;
    OK(ferry_context_get_memory_info(f->context, place, &info));
    return info.live + info.cached;
}

static uint64_t
loaded_bytes(fixture *f)
{
    ferry_transfer_stats stats = moved(f);
    return f->coherent ? stats.host.bytes : stats.upload.bytes;
}

static void
wait_for_next(struct job *job, const ferry_file_chunk *chunk)
{
    uint64_t deadline = ferryi_now_ns() + 20000000000u;
    if (chunk->offset + chunk->count == COUNT)
        return;
    while (loaded_bytes(job->f) - job->loaded_before <=
           (chunk->offset + chunk->count) * sizeof(int32_t)) {
        if (ferryi_now_ns() > deadline)
            fail_msg("chunk %zu is worked on, and the next is not loaded meanwhile", job->chunks);
        ferryi_sleep_ns(100000);
    }
}

/* The `work` callback of the pipeline. Launches a kernel that adds one to every integer of the
 * chunk. */
static ferry_status
add_one(const ferry_file_chunk *chunk, void *user)
{
    struct job *job = user;
    assert_int_equal(chunk->offset, job->next_offset);
    assert_int_equal(chunk->bytes, chunk->count * sizeof(int32_t));
    assert_int_equal(chunk->count, ferry_buffer_count(chunk->buffer));
    assert_true(chunk->stream == job->f->stream);
    job->next_offset += chunk->count;
    job->elements += chunk->count;
    job->device_most =
        job->device_most > live_at(job->f, 1) ? job->device_most : live_at(job->f, 1);
    job->host_most = job->host_most > live_at(job->f, 0) ? job->host_most : live_at(job->f, 0);
    if (job->cut && job->chunks == 0)
        assert_int_equal(truncate(job->cut, job->cut_to), 0);
    if (job->waits_for_next)
        wait_for_next(job, chunk);
    job->chunks++;
    if (job->fail_at && job->chunks == job->fail_at)
        return job->fail_with;
    return launch_add(&job->w, chunk->stream, chunk->buffer, 0, chunk->count, 1);
}

/* What `work` may do with a chunk besides launching kernels: read it on the host, copy it to memory
 * and to another buffer, convert it, store it into a file, and write it, on the stream of the chunk
 * or without one. */
static ferry_status
use_chunk(const ferry_file_chunk *chunk, void *user)
{
    static int32_t values[COUNT];
    static double doubles[COUNT];
    struct job *job = user;
    fixture *f = job->f;
    ferry_buffer *b = chunk->buffer, *other = make_ints(f, chunk->count);
    const ferry_copy_options on_stream = {.stream = chunk->stream,
                                          .convert = FERRY_CONVERT_SATURATE};
    int first = (int)chunk->offset;
    OK(launch_add(&job->w, chunk->stream, b, 0, chunk->count, 1));
    expect_counting(f, b, 0, 0, FERRY_REST, first + 1);
    OK(ferry_buffer_copy(other, INT, 0, b, 0, chunk->count, &on_stream));
    expect_counting(f, other, 1, 0, FERRY_REST, first + 1);
    OK(ferry_buffer_copy_to(b, INT, 0, chunk->count, values, &on_stream));
    assert_int_equal(values[chunk->count - 1], first + (int)chunk->count);
    ferry_copy_region region = {.target = {.memory = doubles, .element = DOUBLE},
                                .source = {.buffer = b},
                                .count = chunk->count};
    OK(ferry_copy(&region, 1, &on_stream));
    assert_true(doubles[0] == first + 1);
    OK(ferry_buffer_store(b, INT, 0, chunk->count, path_of("side"), chunk->offset * sizeof(int32_t),
                          &on_stream));
    if (job->chunks % 2) /* written at the host, and then at the device again */
        add_to(f, b, 0, 0, FERRY_REST, 1);
    else
        QUEUE(ferry_buffer_copy_async(b, INT, 0, other, 0, chunk->count, ON(chunk->stream),
                                      &forgotten));
    if (job->chunks++ % 3 == 0)
        OK(launch_add(&job->w, chunk->stream, b, 0, 1, 100));
    ferry_buffer_destroy(&other);
    return FERRY_OK;
}

static bool
keep_going(size_t done, size_t total, void *user)
{
    struct job *job = user;
    assert_true(done > job->reported && done <= total);
    job->reported = done;
    job->total = total;
    if (job->expects_work)
        assert_true((work_done() - job->pending_calls_before) * (size_t)CHUNK * 4 >= done);
    return ++job->tells != job->stop_at;
}

static void
job_open(fixture *f, struct job *job)
{
    *job = (struct job){.f = f};
    work_open(f, &job->w);
}

static ferry_file_pipeline_options
options_of(struct job *job, const char *input, const char *output)
{
    return (ferry_file_pipeline_options){.input = input,
                                         .output = output,
                                         .element = INT,
                                         .work = add_one,
                                         .keep_going = keep_going,
                                         .user = job,
                                         .stream = job->f->stream,
                                         .chunk_bytes = CHUNK * sizeof(int32_t) + 3};
}

/* Creates a file of `count` integers, and returns the options of a pipeline that reads the file. */
static ferry_file_pipeline_options
job_on_counting(fixture *f, struct job *job, const char *input, size_t count, const char *output)
{
    write_counting_file(input, count);
    job_open(f, job);
    return options_of(job, input, output);
}

static void
test_every_element_passes_once(void **state)
{
    fixture *f = *state;
    struct job job;
    const char *input = path_of("in"), *output = path_of("out");
    ferry_file_stats stats;
    ferry_file_pipeline_options options = job_on_counting(f, &job, input, COUNT, output);
    options.stats = &stats;
    ferry_transfer_stats before = moved(f);
    OK(ferry_file_pipeline(f->context, &options));
    expect_moved(f, &before, COUNT * 4, COUNT * 4);
    assert_true(job.chunks == CHUNKS && job.elements == COUNT);
    assert_true(job.reported == COUNT * 4 && job.total == COUNT * 4);
    expect_integers(output, 0, COUNT, 1);
    expect_counting_file(input, COUNT);
    assert_true(stats.chunks == CHUNKS && stats.bytes_read == COUNT * 4 &&
                stats.bytes_written == COUNT * 4 && stats.bytes_direct == 0);
    assert_true(stats.load_ns > 0 && stats.work_ns > 0 && stats.store_ns > 0);
    assert_true(stats.wall_ns >= stats.load_ns && stats.wall_ns >= stats.work_ns &&
                stats.wall_ns >= stats.store_ns);
    work_close(&job.w);
}

/* Checks what use_chunk() has left in the file. */
static void
expect_used(const char *path)
{
    static int32_t expected[COUNT];
    for (int i = 0; i < COUNT; i++) {
        int chunk = i / CHUNK;
        bool is_first = i % CHUNK == 0;
        expected[i] = i + 1 + chunk % 2 + (is_first && chunk % 3 == 0 ? 100 : 0);
    }
    expect_file(path, expected, sizeof(expected));
}

/* A chunk is a buffer like any other while `work` has it. */
static void
test_chunks_are_used_like_other_buffers(void **state)
{
    fixture *f = *state;
    for (int direct = 0; direct < 2; direct++) {
        struct job job;
        const char *input = path_of("in"), *output = path_of("out");
        ferry_file_pipeline_options options = job_on_counting(f, &job, input, COUNT, output);
        options.keep_going = NULL;
        options.work = use_chunk;
        options.direct = direct != 0;
        OK(ferry_file_pipeline(f->context, &options));
        expect_integers(path_of("side"), 0, COUNT, 1);
        expect_used(output);
        work_close(&job.w);
        assert_int_equal(unlink(path_of("side")), 0);
    }
}

/* Tests pipelines with and without an output file, with several file lengths and with several
 * numbers of chunks in flight. */
static void
test_shapes(void **state)
{
    fixture *f = *state;
    const size_t counts[] = {1, 999, 1000, 1001, 2000, COUNT};
    for (size_t c = 0; c < LENGTH(counts); c++) {
        for (size_t depth = 2; depth <= 16; depth += 7) {
            struct job job;
            ferry_file_pipeline_options options =
                job_on_counting(f, &job, path_of("in"), counts[c], NULL);
            options.chunk_count = depth;
            OK(ferry_file_pipeline(f->context, &options));
            assert_int_equal(job.elements, counts[c]);
            assert_int_equal(job.chunks, (counts[c] + CHUNK - 1) / CHUNK);
            options.chunk_bytes = 0;
            job.chunks = job.reported = 0;
            job.next_offset = 0;
            OK(ferry_file_pipeline(f->context, &options));
            assert_int_equal(job.chunks, 1);
            /* A chunk size below one element is rounded up to one element. */
            options.chunk_bytes = 1;
            options.bytes = counts[c] > 7 ? 28 : counts[c] * 4;
            job.chunks = job.reported = 0;
            job.next_offset = 0;
            OK(ferry_file_pipeline(f->context, &options));
            assert_int_equal(job.chunks, options.bytes / 4);
            work_close(&job.w);
        }
    }
}

static void
test_parts_of_files(void **state)
{
    fixture *f = *state;
    struct job job;
    const char *input = path_of("in"), *output = path_of("out");
    char old[20] = "twenty bytes of text";
    ferry_file_pipeline_options options = job_on_counting(f, &job, input, COUNT, output);
    write_file(output, old, sizeof(old));
    options.input_offset = 400;
    options.bytes = 4 * 2500;
    options.output_offset = 8;
    OK(ferry_file_pipeline(f->context, &options));
    assert_int_equal(job.elements, 2500);
    expect_integers(output, 8, 2500, 101);

    /* With the option `keep_rest`, the pipeline must keep the bytes of the output file after the
     * written range. Without this option, it must truncate the file there. */
    write_counting_file(output, COUNT);
    job.next_offset = job.reported = 0;
    options.output_offset = 400;
    options.keep_rest = true;
    OK(ferry_file_pipeline(f->context, &options));
    assert_int_equal(file_bytes(output), COUNT * 4);
    job.next_offset = job.reported = 0;
    options.keep_rest = false;
    OK(ferry_file_pipeline(f->context, &options));
    assert_int_equal(file_bytes(output), 400 + 2500 * 4);
    work_close(&job.w);
}

static void
test_in_place(void **state)
{
    fixture *f = *state;
    struct job job;
    const char *path = path_of("in place");
    ferry_file_pipeline_options options = job_on_counting(f, &job, path, COUNT, path);
    OK(ferry_file_pipeline(f->context, &options));
    expect_integers(path, 0, COUNT, 1);
    /* A pipeline that changes a part of a file in place keeps the rest of the file. */
    job.next_offset = job.reported = 0;
    options.bytes = 40;
    OK(ferry_file_pipeline(f->context, &options));
    assert_int_equal(file_bytes(path), COUNT * 4);
    options.output_offset = 4;
    job.next_offset = job.reported = 0;
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_file_pipeline(f->context, &options));
    assert_int_equal(job.next_offset, 0);
    work_close(&job.w);
}

static void
test_around_the_page_cache(void **state)
{
    fixture *f = *state;
    struct job job;
    const char *input = path_of("in"), *output = path_of("out");
    ferry_file_stats stats;
    write_counting_file(input, 300000);
    job_open(f, &job);
    for (uint64_t offset = 0; offset <= 4; offset += 4) {
        ferry_file_pipeline_options options = options_of(&job, input, output);
        options.direct = true;
        options.input_offset = offset;
        options.chunk_bytes = 65536;
        options.stats = &stats;
        job.next_offset = job.reported = 0;
        ferry_transfer_stats before = moved(f);
        OK(ferry_file_pipeline(f->context, &options));
        expect_moved(f, &before, 1200000 - offset, 1200000 - offset);
        expect_integers(output, 0, 300000 - offset / 4, 1 + (int)offset / 4);
        assert_true(stats.bytes_direct <= stats.bytes_read + stats.bytes_written);
    }
    work_close(&job.w);
}

static void
test_nothing_to_stream(void **state)
{
    fixture *f = *state;
    struct job job;
    const char *input = path_of("empty"), *output = path_of("out");
    write_file(input, "", 0);
    write_file(output, "something", 9);
    job_open(f, &job);
    ferry_file_pipeline_options options = options_of(&job, input, output);
    OK(ferry_file_pipeline(f->context, &options));
    assert_true(job.chunks == 0 && file_bytes(output) == 0);
    work_close(&job.w);
}

struct bytes_seen {
    size_t count;
    unsigned chunks;
};

static ferry_status
see_bytes(const ferry_file_chunk *chunk, void *user)
{
    struct bytes_seen *seen = user;
    assert_true(ferry_element_equal(ferry_buffer_element(chunk->buffer), BYTE));
    assert_true(chunk->count == chunk->bytes && chunk->offset == seen->count);
    seen->count += chunk->count;
    seen->chunks++;
    return FERRY_OK;
}

/* Tests the defaults of a pipeline. Its elements are bytes, and its chunks have 4 MiB. In a context
 * with only one device, it uses the default stream of that device. */
static void
test_defaults(void **state)
{
    fixture *f = *state;
    struct bytes_seen seen = {0};
    const char *input = path_of("in");
    ferry_file_pipeline_options options = {.input = input,
                                           .work = see_bytes,
                                           .user = &seen,
                                           .stream = f->places > 1 ? f->stream : NULL};
    write_file(input, "", 0);
    assert_int_equal(truncate(input, (9 << 20) + 1), 0);
    OK(ferry_file_pipeline(f->context, &options));
    assert_true(seen.count == (9 << 20) + 1 && seen.chunks == 3);
}

/* While the work on one chunk runs, the pipeline reads and uploads the next chunk. The test uses
 * several numbers of chunks in flight. */
static void
test_the_next_chunk_is_loaded_meanwhile(void **state)
{
    fixture *f = *state;
    const size_t depths[] = {2, 3, 4, 5, 16};
    if (is_lazy(f))
        skip();
    for (size_t i = 0; i < LENGTH(depths); i++) {
        struct job job;
        ferry_file_pipeline_options options = job_on_counting(f, &job, path_of("in"), COUNT, NULL);
        options.chunk_count = depths[i];
        job.waits_for_next = true;
        /* The test subtracts the bytes that were transferred before the pipeline began. */
        job.loaded_before = loaded_bytes(f);
        OK(ferry_file_pipeline(f->context, &options));
        assert_int_equal(job.chunks, CHUNKS);
        work_close(&job.w);
    }
}

/* A pipeline needs little memory for a large file. For 64 MiB it uses at most 2 MiB each of device
 * and host memory. */
static void
test_memory_is_bounded(void **state)
{
    fixture *f = *state;
    enum { LIMIT = 2 << 20, FILE_BYTES = 64 << 20 };
    const ferry_context_options small = {.device_bytes_limit = LIMIT,
                                         .host_bytes_limit = LIMIT,
                                         .tuning = "emulated.memory=24M staging.chunk=64K"};
    struct job job;
    const char *input = path_of("large"), *output = path_of("large out");
    fixture_close(f);
    fixture_open(f, &small);
    write_file(input, "", 0);
    assert_int_equal(truncate(input, FILE_BYTES), 0);
    job_open(f, &job);
    ferry_file_pipeline_options options = options_of(&job, input, output);
    options.chunk_bytes = 256 << 10;
    options.chunk_count = 4;
    OK(ferry_file_pipeline(f->context, &options));
    assert_int_equal(job.elements, FILE_BYTES / 4);
    assert_true(job.device_most >= (1 << 20) || f->coherent);
    assert_true(job.device_most <= LIMIT && job.host_most <= LIMIT);
    assert_int_equal(file_bytes(output), FILE_BYTES);
    unlink(input);
    unlink(output);

    /* If the device has no memory for the chunks, the pipeline fails before it processes any
     * chunk. */
    write_counting_file(input, FILE_BYTES / 16);
    job.chunks = 0;
    options.chunk_bytes = 1 << 20;
    options.output = NULL;
    FAILS(FERRY_ERROR_OUT_OF_MEMORY, ferry_file_pipeline(f->context, &options));
    assert_int_equal(job.chunks, 0);
    work_close(&job.w);
}

/* -- what goes wrong --------------------------------------------------------------------------- */

static void
expect_failure(struct job *job, ferry_status expected, const ferry_file_pipeline_options *options,
               const char *why)
{
    job->next_offset = job->chunks = job->reported = job->tells = 0;
    FAILS(expected, ferry_file_pipeline(job->f->context, options));
    if (*why)
        expect_said(options->input, why);
    if (expected == FERRY_ERROR_IO)
        expect_said(options->input, "offset");
}

static void
test_callbacks_that_fail(void **state)
{
    fixture *f = *state;
    struct job job;
    const char *input = path_of("in"), *output = path_of("out");
    ferry_file_stats stats;
    ferry_file_pipeline_options options = job_on_counting(f, &job, input, COUNT, output);
    options.stats = &stats;
    job.fail_at = 4;
    job.fail_with = FERRY_ERROR_CONFLICT;
    expect_failure(&job, FERRY_ERROR_CONFLICT, &options, "CONFLICT");
    assert_int_equal(job.chunks, 4);
    assert_true(stats.chunks <= 3 && stats.bytes_written == stats.chunks * CHUNK * 4);
    /* Checks that the file holds at least as many bytes as the error message reports. */
    char done[64];
    snprintf(done, sizeof(done), "%llu of %d bytes done", (unsigned long long)stats.bytes_written,
             COUNT * 4);
    expect_said(input, done);
    size_t there = file_bytes(output);
    assert_true(there >= stats.bytes_written && there % 4 == 0);
    expect_integers(output, 0, there / 4, 1);

    job.fail_with = FERRY_ERROR_CANCELLED;
    expect_failure(&job, FERRY_ERROR_CANCELLED, &options, "CANCELLED");
    job.fail_at = 1;
    expect_failure(&job, FERRY_ERROR_CANCELLED, &options, "0 of");
    /* The next call succeeds. */
    job.fail_at = job.next_offset = job.reported = 0;
    OK(ferry_file_pipeline(f->context, &options));
    expect_integers(output, 0, COUNT, 1);
    work_close(&job.w);
}

/* The progress callback of a pipeline cancels the pipeline in its second call. The pipeline must
 * stop at once, and the reported progress must be smaller than the total. */
static void
test_progress_that_cancels(void **state)
{
    fixture *f = *state;
    struct job job;
    ferry_file_pipeline_options options =
        job_on_counting(f, &job, path_of("in"), COUNT, path_of("out"));
    job.stop_at = 2;
    expect_failure(&job, FERRY_ERROR_CANCELLED, &options, "cancelled");
    assert_true(job.tells == 2 && job.reported < COUNT * 4);
    work_close(&job.w);
}

/* When a pipeline reports the work on a chunk as progress, that work is done, not only queued. */
static void
test_progress_waits_for_the_work(void **state)
{
    fixture *f = *state;
    struct job job;
    if (!runs_apart(f))
        skip();
    ferry_file_pipeline_options options = job_on_counting(f, &job, path_of("in"), COUNT, NULL);
    job.expects_work = true;
    job.pending_calls_before = work_done();
    work_delay(5000);
    OK(ferry_file_pipeline(f->context, &options));
    work_delay(0);
    assert_int_equal(job.reported, COUNT * 4);
    work_close(&job.w);
}

/* A pipeline fails with FERRY_ERROR_IO if its file is missing, short, unreadable or a folder. It
 * fails, too, if the file grows or shrinks while it is read. The message contains the path and the
 * offset. */
static void
test_files_that_cannot_be_streamed(void **state)
{
    fixture *f = *state;
    struct job job;
    const char *input = path_of("in");
    ferry_file_pipeline_options options = job_on_counting(f, &job, input, COUNT, NULL);
    options.input = path_of("missing");
    expect_failure(&job, FERRY_ERROR_IO, &options, "No such file");
    options.input = path_of("");
    expect_failure(&job, FERRY_ERROR_IO, &options, "directory");
    options.input = "/dev/zero";
    expect_failure(&job, FERRY_ERROR_IO, &options, "not a regular file");
    options.input = input;
    options.bytes = COUNT * 4 + 4;
    expect_failure(&job, FERRY_ERROR_IO, &options, "offset 0");
    options.bytes = 0;
    options.input_offset = COUNT * 4 + 4;
    expect_failure(&job, FERRY_ERROR_IO, &options, "offset 41384");
    options.input_offset = 2;
    expect_failure(&job, FERRY_ERROR_IO, &options, "offset 2");
    expect_said(input, "no whole number");
    options.input_offset = UINT64_MAX - 3;
    options.bytes = 8;
    expect_failure(&job, FERRY_ERROR_OVERFLOW, &options, "offset");
    options.input_offset = options.bytes = 0;
    assert_int_equal(job.chunks, 0);

    options.output = "/dev/full";
    expect_failure(&job, FERRY_ERROR_IO, &options, "/dev/full");
    options.output = path_of("no/such/file");
    expect_failure(&job, FERRY_ERROR_IO, &options, "no/such/file");
    assert_int_equal(job.chunks, 0);

    options.output = path_of("out");
    job.cut = input;
    job.cut_to = 8 * CHUNK * 4 + 2;
    expect_failure(&job, FERRY_ERROR_IO, &options, "the file ends there");
    expect_said(input, "offset 32002");
    write_counting_file(input, COUNT);
    job.cut_to = COUNT * 4 + 4;
    expect_failure(&job, FERRY_ERROR_IO, &options, "grew");
    expect_said(input, "offset 41380");
    work_close(&job.w);
}

static void
test_wrong_arguments(void **state)
{
    fixture *f = *state;
    struct job job;
    ferry_file_pipeline_options options = job_on_counting(f, &job, path_of("in"), COUNT, NULL),
                                wrong = options;
    ferry_element malformed = {.name = "nothing"};
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_file_pipeline(NULL, &options));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_file_pipeline(f->context, NULL));
    wrong.input = NULL;
    expect_failure(&job, FERRY_ERROR_INVALID_ARGUMENT, &wrong, "");
    wrong = options, wrong.work = NULL;
    expect_failure(&job, FERRY_ERROR_INVALID_ARGUMENT, &wrong, "");
    wrong = options, wrong.chunk_count = 1;
    expect_failure(&job, FERRY_ERROR_INVALID_ARGUMENT, &wrong, "2 to 16");
    wrong = options, wrong.chunk_count = 17;
    expect_failure(&job, FERRY_ERROR_INVALID_ARGUMENT, &wrong, "2 to 16");
    wrong = options, wrong.element = &malformed;
    expect_failure(&job, FERRY_ERROR_INVALID_ARGUMENT, &wrong, "malformed");
    wrong = options, wrong.stream = NULL;
    if (f->places > 1)
        expect_failure(&job, FERRY_ERROR_INVALID_ARGUMENT, &wrong, "a stream is needed");
    ferry_context *other;
    OK(ferry_context_create(&(ferry_context_options){.devices = "host"}, &other));
    wrong = options, wrong.stream = ferry_context_stream(other, 1);
    expect_failure(&job, FERRY_ERROR_WRONG_CONTEXT, &wrong, "");
    ferry_context_destroy(&other);
    assert_int_equal(job.chunks, 0);
    work_close(&job.w);
}

static ferry_status
failing_body(const ferry_call *call, void *user)
{
    (void)user;
    return ferry_call_fail(call, "the body does not like it"), FERRY_ERROR_DEVICE;
}

static ferry_status
launch_failing(const ferry_file_chunk *chunk, void *user)
{
    ferry_argument argument = ferry_buffer_argument(chunk->buffer, INT, 0, FERRY_REST);
    return ferry_kernel_launch(user, ferry_grid_for(chunk->count, 64), chunk->stream, &argument, 1);
}

/* Work that a `work` callback has queued may fail after the callback has returned. The pipeline
 * then fails with the message of that work. This is tested with and without an output file. */
static void
test_work_that_fails(void **state)
{
    fixture *f = *state;
    const char *input = path_of("in"), *outputs[] = {NULL, path_of("out")};
    ferry_parameter parameter = {.element = INT, .access = FERRY_UPDATE};
    ferry_kernel_source source = {.name = "failing",
                                  .host_function = failing_body,
                                  .parameters = &parameter,
                                  .parameter_count = 1};
    ferry_place_info info;
    ferry_kernel *kernel;
    OK(ferry_context_get_place_info(f->context, 1, &info));
    if (!(info.capabilities & FERRY_CAN_RUN_HOST_FUNCTION))
        skip();
    write_counting_file(input, COUNT);
    OK(ferry_kernel_create(f->context, &source, &kernel));
    for (size_t i = 0; i < 2; i++) {
        ferry_file_pipeline_options options = {.input = input,
                                               .output = outputs[i],
                                               .element = INT,
                                               .work = launch_failing,
                                               .user = kernel,
                                               .stream = f->stream,
                                               .chunk_bytes = CHUNK * 4};
        FAILS(FERRY_ERROR_DEVICE, ferry_file_pipeline(f->context, &options));
        expect_said(input, "the body does not like it");
        /* The stream can be used again. */
        OK(ferry_stream_synchronize(f->stream));
    }
    ferry_kernel_destroy(&kernel);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_every_element_passes_once),
        TEST(test_chunks_are_used_like_other_buffers),
        TEST(test_shapes),
        TEST(test_parts_of_files),
        TEST(test_in_place),
        TEST(test_around_the_page_cache),
        TEST(test_nothing_to_stream),
        TEST(test_defaults),
        TEST(test_the_next_chunk_is_loaded_meanwhile),
        TEST(test_memory_is_bounded),
        TEST(test_callbacks_that_fail),
        TEST(test_progress_that_cancels),
        TEST(test_progress_waits_for_the_work),
        TEST(test_files_that_cannot_be_streamed),
        TEST(test_wrong_arguments),
        TEST(test_work_that_fails),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
