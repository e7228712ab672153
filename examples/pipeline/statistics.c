/* SPDX-License-Identifier: MIT */

/*
 * statistics: count, least, greatest, mean, variance and a histogram of a file of floats that is larger than the
 * memory of the device.
 *
 * The file crosses to the device once, chunk by chunk, while reductions work on the chunks before. Their results stay
 * on the device until the end; then a few numbers for each chunk come back. FERRY_DEVICE selects the device. Without
 * it, the program uses an emulated device of 32 MiB.
 *
 * The variance is that of the values less a pivot, the first value of the file, which keeps the sums small (Chan,
 * Golub and LeVeque, "Algorithms for computing the sample variance", 1983).
 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <ferry/ferry.h>
#include <ferry/double.h>
#include <ferry/float.h>
#include <ferry/uint64.h>

#include "statistics_kernels.h"

enum { BINS = 16, EDGES = BINS + 1 };

#define CHUNK_BYTES  ((size_t)1 << 20)
#define DEVICE_LIMIT ((size_t)32 << 20)

/* What the chunks give: one element for each chunk; `below` has EDGES for each. */
struct results {
    ferry_float_buffer least, most;
    ferry_double_buffer sum, squares;
    ferry_uint64_buffer below;
};

struct program {
    float low, width, pivot;
    uint64_t count; /* floats of the file */
    size_t chunks;
    ferry_context *context;
    statistics_kernels kernels;
    struct results results;
};

struct summary {
    float least, most;
    double mean, variance;
    uint64_t below[EDGES];
};

static float
edge(const struct program *program, size_t number)
{
    return program->low + (float)number * program->width;
}

/* -- the work on one chunk --------------------------------------------------------------------------- */

static ferry_status
queue_extremes(struct program *program, ferry_stream *stream, ferry_float_buffer x, size_t slot)
{
    ferry_float_buffer least = {NULL}, most = {NULL};
    ferry_status status;
    FERRY_TRY(status, fail, ferry_float_view(program->results.least, slot, 1, &least));
    FERRY_TRY(status, fail, ferry_float_view(program->results.most, slot, 1, &most));
    FERRY_TRY(status, fail, statistics_least_into(&program->kernels, stream, x, least));
    status = statistics_most_into(&program->kernels, stream, x, most);
fail:
    ferry_float_destroy(&least);
    ferry_float_destroy(&most);
    return status;
}

static ferry_status
queue_sums(struct program *program, ferry_stream *stream, ferry_float_buffer x, size_t slot)
{
    ferry_double_buffer sum = {NULL}, squares = {NULL};
    ferry_status status;
    FERRY_TRY(status, fail, ferry_double_view(program->results.sum, slot, 1, &sum));
    FERRY_TRY(status, fail, ferry_double_view(program->results.squares, slot, 1, &squares));
    FERRY_TRY(status, fail, statistics_sum_into(&program->kernels, stream, program->pivot, x, sum));
    status = statistics_squares_into(&program->kernels, stream, program->pivot, x, squares);
fail:
    ferry_double_destroy(&sum);
    ferry_double_destroy(&squares);
    return status;
}

static ferry_status
queue_counts(struct program *program, ferry_stream *stream, ferry_float_buffer x, size_t slot)
{
    ferry_status status = FERRY_OK;
    for (size_t i = 0; status == FERRY_OK && i < EDGES; i++) {
        ferry_uint64_buffer below = {NULL};
        status = ferry_uint64_view(program->results.below, slot * EDGES + i, 1, &below);
        if (status == FERRY_OK)
            status = statistics_below_into(&program->kernels, stream, edge(program, i), x, below);
        ferry_uint64_destroy(&below);
    }
    return status;
}

/* Queues the reductions of one chunk, and returns. */
static ferry_status
work_on_chunk(const ferry_file_chunk *chunk, void *user)
{
    struct program *program = user;
    size_t slot = (size_t)(chunk->offset / (CHUNK_BYTES / sizeof(float)));
    ferry_float_buffer x = {NULL};
    ferry_status status;
    FERRY_TRY(status, fail, ferry_float_from_raw(chunk->buffer, &x));
    FERRY_TRY(status, fail, queue_extremes(program, chunk->stream, x, slot));
    FERRY_TRY(status, fail, queue_sums(program, chunk->stream, x, slot));
    status = queue_counts(program, chunk->stream, x, slot);
fail:
    return status;
}

/* -- the whole file ---------------------------------------------------------------------------------- */

/* Reads the first value, and how many there are. */
static bool
look_at(const char *path, struct program *program)
{
    FILE *file = fopen(path, "rb");
    bool ok = file && fread(&program->pivot, sizeof(float), 1, file) == 1 && fseek(file, 0, SEEK_END) == 0;
    long bytes = ok ? ftell(file) : -1;
    if (file)
        fclose(file);
    if (bytes < 0) {
        fprintf(stderr, "statistics: %s cannot be read, or has no value\n", path);
        return false;
    }
    if (!isfinite(program->pivot))
        program->pivot = 0.0f;
    program->count = (uint64_t)bytes / sizeof(float);
    program->chunks = ((size_t)bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    return true;
}

static ferry_status
open_device(struct program *program)
{
    const char *wanted = getenv("FERRY_DEVICE");
    const ferry_context_options options = {.devices = wanted && *wanted ? NULL : "emulated", .device_bytes_limit = DEVICE_LIMIT};
    struct results *results = &program->results;
    ferry_status status;
    FERRY_TRY(status, fail, ferry_context_create(&options, &program->context));
    FERRY_TRY(status, fail, statistics_kernels_create(program->context, &program->kernels));
    FERRY_TRY(status, fail, ferry_float_create(program->context, program->chunks, NULL, &results->least));
    FERRY_TRY(status, fail, ferry_float_create(program->context, program->chunks, NULL, &results->most));
    FERRY_TRY(status, fail, ferry_double_create(program->context, program->chunks, NULL, &results->sum));
    FERRY_TRY(status, fail, ferry_double_create(program->context, program->chunks, NULL, &results->squares));
    status = ferry_uint64_create(program->context, program->chunks * EDGES, NULL, &results->below);
fail:
    return status;
}

static void
close_device(struct program *program)
{
    ferry_uint64_destroy(&program->results.below);
    ferry_double_destroy(&program->results.squares);
    ferry_double_destroy(&program->results.sum);
    ferry_float_destroy(&program->results.most);
    ferry_float_destroy(&program->results.least);
    statistics_kernels_destroy(&program->kernels);
    ferry_context_destroy(&program->context);
}

/* Combines the results of the chunks. Each array crosses to the host once. */
static ferry_status
summarize(const struct program *program, struct summary *out)
{
    ferry_scope least_scope = {0}, most_scope = {0}, sum_scope = {0}, squares_scope = {0}, below_scope = {0};
    const float *least, *most;
    const double *sums, *squares;
    const uint64_t *below;
    double sum = 0, square = 0, count = (double)program->count;
    ferry_status status;
    FERRY_TRY(status, fail, ferry_float_read_host(program->results.least, &least_scope, &least));
    FERRY_TRY(status, fail, ferry_float_read_host(program->results.most, &most_scope, &most));
    FERRY_TRY(status, fail, ferry_double_read_host(program->results.sum, &sum_scope, &sums));
    FERRY_TRY(status, fail, ferry_double_read_host(program->results.squares, &squares_scope, &squares));
    FERRY_TRY(status, fail, ferry_uint64_read_host(program->results.below, &below_scope, &below));
    *out = (struct summary){.least = least[0], .most = most[0]};
    for (size_t chunk = 0; chunk < program->chunks; chunk++) {
        /* A NaN is kept, as in the kernels. */
        out->least = least[chunk] < out->least || isnan(least[chunk]) ? least[chunk] : out->least;
        out->most = most[chunk] > out->most || isnan(most[chunk]) ? most[chunk] : out->most;
        sum += sums[chunk];
        square += squares[chunk];
        for (size_t i = 0; i < EDGES; i++)
            out->below[i] += below[chunk * EDGES + i];
    }
    out->mean = program->pivot + sum / count;
    out->variance = (square - sum * sum / count) / count;
fail:
    ferry_scope_close(&below_scope);
    ferry_scope_close(&squares_scope);
    ferry_scope_close(&sum_scope);
    ferry_scope_close(&most_scope);
    ferry_scope_close(&least_scope);
    return status;
}

static void
report(const struct program *program, const struct summary *summary)
{
    printf("count %llu\nleast %.9g\nmost %.9g\n", (unsigned long long)program->count, summary->least, summary->most);
    printf("mean %.17g\nvariance %.17g\n", summary->mean, summary->variance);
    for (size_t i = 0; i < BINS; i++)
        printf("bin %.9g %.9g %llu\n", edge(program, i), edge(program, i + 1),
               (unsigned long long)(summary->below[i + 1] - summary->below[i]));
}

static ferry_status
run(const char *path, struct program *program)
{
    struct summary summary = {.least = 0};
    ferry_file_stats stats;
    ferry_transfer_stats moved;
    ferry_file_pipeline_options pipeline = {.input = path,
                                                  .element = ferry_float_element(),
                                                  .work = work_on_chunk,
                                                  .user = program,
                                                  .chunk_bytes = CHUNK_BYTES,
                                                  .stats = &stats};
    ferry_status status;
    FERRY_TRY(status, fail, open_device(program));
    pipeline.stream = ferry_context_stream(program->context, 1); /* of the first device, however many there are */
    FERRY_TRY(status, fail, ferry_file_pipeline(program->context, &pipeline));
    FERRY_TRY(status, fail, summarize(program, &summary));
    FERRY_TRY(status, fail, ferry_context_get_transfer_stats(program->context, &moved));
    report(program, &summary);
    fprintf(stderr, "%llu bytes in %llu chunks, %.2f GB/s; %llu bytes came back\n", (unsigned long long)stats.bytes_read,
            (unsigned long long)stats.chunks, (double)stats.bytes_read / (double)stats.wall_ns,
            (unsigned long long)moved.download.bytes);
fail:
    return status;
}

int
main(int argc, char **argv)
{
    struct program program = {.count = 0};
    float high = 0;
    if (argc == 4) {
        program.low = strtof(argv[2], NULL);
        high = strtof(argv[3], NULL);
    }
    program.width = (high - program.low) / BINS;
    if (!(program.width > 0)) {
        fprintf(stderr, "usage: statistics FILE LOW HIGH\n"
                        "  FILE       floats of this machine, any number of them\n"
                        "  LOW HIGH   where the first of the 16 bins of the histogram begins, and the last one ends\n");
        return 2;
    }
    if (!look_at(argv[1], &program))
        return EXIT_FAILURE;
    ferry_status status = run(argv[1], &program);
    if (status != FERRY_OK)
        fprintf(stderr, "statistics: %s (%s)\n", ferry_last_error(), ferry_status_name(status));
    close_device(&program);
    return status == FERRY_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
