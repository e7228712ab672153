/* SPDX-License-Identifier: MIT */
#include "programs_jobs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* -- arrays and buffers ------------------------------------------------------------------------ */

void *
job_new_array(struct job *job, size_t count, size_t bytes)
{
    void *array = calloc(count, bytes);
    if (!array) {
        fprintf(stderr, "bench: no memory for an array of %zu bytes\n", count * bytes);
        exit(EXIT_FAILURE);
    }
    job->arrays[job->array_count++] = array;
    return array;
}

ferry_status
job_new_buffer(struct job *job, const ferry_element *element, size_t count, const void *values,
               ferry_buffer **out)
{
    const ferry_copy_options on_device = {.stream = job->stream};
    ferry_status status = ferry_buffer_create(job->context, element, count, NULL, out);
    if (status != FERRY_OK)
        return status;
    job->buffers[job->buffer_count++] = *out;
    if (!values)
        return FERRY_OK;
    job->fewest_up += count * element->bytes;
    return ferry_buffer_copy_from(*out, element, 0, count, values, &on_device);
}

ferry_status
job_compare_bits(struct job *job, const ferry_element *element, ferry_buffer *buffer, size_t count,
                 const void *expected, bool *out_same)
{
    void *found = job_new_array(job, count, element->bytes);
    ferry_status status = ferry_buffer_copy_to(buffer, element, 0, count, found, NULL);
    job->fewest_down += count * element->bytes;
    *out_same = status == FERRY_OK && memcmp(found, expected, count * element->bytes) == 0;
    return status;
}

bool
job_is_near(double found, double expected, double error)
{
    return fabs(found - expected) <= error * fabs(expected);
}

double
job_random_part(size_t number)
{
    uint64_t bits = (number + 1) * UINT64_C(0x9E3779B97F4A7C15);
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (double)(bits >> 11) / 9007199254740992.0;
}

size_t
job_rows(size_t count)
{
    return count == 1000 ? 25 : (size_t)sqrt((double)count);
}

/* -- jobs --- */

struct job *
job_create(ferry_context *context, const struct job_kind *kind, size_t count)
{
    struct job *job = calloc(1, kind->bytes);
    if (!job) {
        fputs("bench: no memory for a job\n", stderr);
        return NULL;
    }
    job->kind = kind;
    job->context = context;
    job->stream = ferry_context_stream(context, 1);
    job->kind->fill(job, count);
    if (job->kind->upload(job) == FERRY_OK)
        return job;
    bench_failed(job->kind->name);
    job_destroy(&job);
    return NULL;
}

void
job_destroy(struct job **job)
{
    if (!*job)
        return;
    (*job)->kind->destroy_kernels(*job);
    for (size_t i = 0; i < (*job)->buffer_count; i++)
        ferry_buffer_destroy(&(*job)->buffers[i]);
    for (size_t i = 0; i < (*job)->array_count; i++)
        free((*job)->arrays[i]);
    free(*job);
    *job = NULL;
}

ferry_status
job_run(struct job *job, enum job_side side)
{
    if (side == JOB_FERRY) {
        ferry_status status = job->kind->run(job);
        return status == FERRY_OK ? ferry_stream_synchronize(job->stream) : status;
    }
    job->kind->loops[side]((char *)job + job->kind->plain);
    return FERRY_OK;
}

bool
job_agrees(struct job *job)
{
    bool same = false;
    if (job->kind->compare(job, &same) != FERRY_OK)
        return bench_failed(job->kind->name);
    if (!same)
        fprintf(stderr, "bench: the loops by hand have another result than the kernels of %s\n",
                job->kind->name);
    return same;
}
