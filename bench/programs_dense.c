/* SPDX-License-Identifier: MIT */

/* Jobs on regular arrays: a grid, boxes of particles, the states of qubits, a picture. */

#include "programs_jobs.h"

#include <math.h>

#include <ferry/byte.h>
#include <ferry/complex_double.h>
#include <ferry/double.h>
#include <ferry/float.h>

#include "forces.h"
#include "qubits_kernels.h"
#include "sharpen_kernels.h"
#include "strips_kernels.h"

#define PI 3.14159265358979323846

/* -- strips ------------------------------------------------------------------------------------ */

struct strips {
    struct job job; /* the first member */
    struct strips_job plain;
    strips_kernels kernels;
    ferry_double_buffer conducts, heat, next;
};

static void
strips_fill(struct job *job, size_t count)
{
    struct strips *own = (struct strips *)job;
    struct strips_job *strips = &own->plain;
    size_t rows = job_rows(count) + 2, columns = count / job_rows(count) + 2,
           cells = rows * columns;
    *strips = (struct strips_job){.rows = rows,
                                  .columns = columns,
                                  .conducts = job_new_array(job, cells, sizeof(double)),
                                  .heat = job_new_array(job, cells, sizeof(double)),
                                  .next = job_new_array(job, cells, sizeof(double))};
    for (size_t i = 0; i < cells; i++) {
        strips->heat[i] = strips->next[i] = 100 + job_random_part(i); /* far from the denormals */
        strips->conducts[i] = 0.1 + 0.9 * job_random_part(i + cells);
    }
}

static ferry_status
strips_upload(struct job *job)
{
    struct strips *own = (struct strips *)job;
    const struct strips_job *from = &own->plain;
    const ferry_copy_options on_device = {.stream = job->stream};
    size_t cells = from->rows * from->columns;
    ferry_status status;
    FERRY_TRY(status, fail, strips_kernels_create(job->context, &own->kernels));
    FERRY_TRY(
        status, fail,
        job_new_buffer(job, ferry_double_element(), cells, from->conducts, &own->conducts.raw));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_double_element(), cells, from->heat, &own->heat.raw));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_double_element(), cells, NULL, &own->next.raw));
    /* The halo is in both. */
    FERRY_TRY(status, fail, ferry_double_copy(own->next, 0, own->heat, 0, cells, &on_device));
fail:
    return status;
}

static ferry_status
strips_run(struct job *job)
{
    struct strips *own = (struct strips *)job;
    const struct strips_job *size = &own->plain;
    ferry_double_buffer heat = own->heat, next = own->next;
    own->heat = next;
    own->next = heat;
    return strips_step(&own->kernels, size->rows, size->columns, NULL, job->stream, heat,
                       own->conducts, PROGRAM_RATE, next);
}

static ferry_status
strips_compare(struct job *job, bool *out_same)
{
    struct strips *own = (struct strips *)job;
    const struct strips_job *expected = &own->plain;
    return job_compare_bits(job, ferry_double_element(), own->heat.raw,
                            expected->rows * expected->columns, expected->heat, out_same);
}

static void
strips_destroy(struct job *job)
{
    struct strips *own = (struct strips *)job;
    strips_kernels_destroy(&own->kernels);
}

const struct job_kind strips_kind = {
    .name = "strips",
    .bytes = sizeof(struct strips),
    .plain = offsetof(struct strips, plain),
    .loops = JOB_LOOPS(strips),
    .fill = strips_fill,
    .upload = strips_upload,
    .run = strips_run,
    .compare = strips_compare,
    .destroy_kernels = strips_destroy,
};

/* -- particles --------------------------------------------------------------------------------- */

struct particles {
    struct job job; /* the first member */
    struct particles_job plain;
    ferry_kernel *kernel;
    particles_point_buffer particles, forces;
};

enum { PARTICLES_OF_EACH = 8 };

static void
particles_fill(struct job *job, size_t count)
{
    struct particles *own = (struct particles *)job;
    struct particles_job *particles = &own->plain;
    size_t side = (size_t)lround(cbrt((double)(count / PARTICLES_OF_EACH)));
    count = side * side * side * PARTICLES_OF_EACH;
    *particles = (struct particles_job){
        .side = side,
        .each = PARTICLES_OF_EACH,
        .particles = job_new_array(job, count, sizeof(struct particles_point)),
        .forces = job_new_array(job, count, sizeof(struct particles_point))};
    for (size_t i = 0; i < count; i++) {
        size_t box = i / PARTICLES_OF_EACH;
        particles->particles[i] = (struct particles_point){
            .x = (double)(box % side) + job_random_part(4 * i),
            .y = (double)(box / side % side) + job_random_part(4 * i + 1),
            .z = (double)(box / (side * side)) + job_random_part(4 * i + 2),
            .value = job_random_part(4 * i + 3) - 0.5};
    }
}

static size_t
particle_count(const struct job *job)
{
    struct particles *own = (struct particles *)job;
    size_t side = own->plain.side;
    return side * side * side * PARTICLES_OF_EACH;
}

static ferry_status
particles_upload(struct job *job)
{
    struct particles *own = (struct particles *)job;
    ferry_parameter parameters[FORCES_PARAMETER_COUNT];
    const ferry_kernel_source source = forces_kernel_source(parameters);
    ferry_status status;
    FERRY_TRY(status, fail, ferry_kernel_create(job->context, &source, &own->kernel));
    FERRY_TRY(status, fail,
              job_new_buffer(job, particles_point_element(), particle_count(job),
                             own->plain.particles, &own->particles.raw));
    FERRY_TRY(status, fail,
              job_new_buffer(job, particles_point_element(), particle_count(job), NULL,
                             &own->forces.raw));
fail:
    return status;
}

static ferry_status
particles_run(struct job *job)
{
    struct particles *own = (struct particles *)job;
    const struct boxes boxes = {.side = own->plain.side, .each = PARTICLES_OF_EACH};
    return forces_launch(own->kernel, &boxes, job->stream, own->particles, own->forces);
}

static ferry_status
particles_compare(struct job *job, bool *out_same)
{
    struct particles *own = (struct particles *)job;
    return job_compare_bits(job, particles_point_element(), own->forces.raw, particle_count(job),
                            own->plain.forces, out_same);
}

static void
particles_destroy(struct job *job)
{
    struct particles *own = (struct particles *)job;
    ferry_kernel_destroy(&own->kernel);
}

const struct job_kind particles_kind = {
    .name = "particles",
    .bytes = sizeof(struct particles),
    .plain = offsetof(struct particles, plain),
    .loops = JOB_LOOPS(particles),
    .fill = particles_fill,
    .upload = particles_upload,
    .run = particles_run,
    .compare = particles_compare,
    .destroy_kernels = particles_destroy,
};

/* -- qubits ------------------------------------------------------------------------------------ */

struct qubits {
    struct job job; /* the first member */
    struct qubits_job plain;
    qubits_kernels kernels;
    ferry_complex_double_buffer amplitudes;
    double chances[PROGRAM_QUBITS];
};

static void
qubits_fill(struct job *job, size_t count)
{
    struct qubits *own = (struct qubits *)job;
    struct qubits_job *qubits = &own->plain;
    *qubits = (struct qubits_job){.qubits = (int)lround(log2((double)count))};
    qubits->states = (size_t)1 << qubits->qubits;
    qubits->amplitudes = job_new_array(job, qubits->states, sizeof(*qubits->amplitudes));
    qubits->amplitudes[1].real = 1;
}

static ferry_status
qubits_upload(struct job *job)
{
    struct qubits *own = (struct qubits *)job;
    const ferry_copy_options on_device = {.stream = job->stream};
    const ferry_complex_double one = {1, 0};
    ferry_status status;
    FERRY_TRY(status, fail, qubits_kernels_create(job->context, &own->kernels));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_complex_double_element(), own->plain.states, NULL,
                             &own->amplitudes.raw));
    FERRY_TRY(status, fail, ferry_complex_double_fill(own->amplitudes, 1, 1, one, &on_device));
fail:
    return status;
}

static ferry_status
turn(struct job *job, int control, int target)
{
    struct qubits *own = (struct qubits *)job;
    double angle = PI / (double)((size_t)1 << (target - control));
    const ferry_complex_double phase = {cos(angle), sin(angle)};
    return qubits_turn(&own->kernels, job->stream, (size_t)1 << control | (size_t)1 << target,
                       phase, own->amplitudes);
}

static ferry_status
qubits_run(struct job *job)
{
    struct qubits *own = (struct qubits *)job;
    const qubits_kernels *kernels = &own->kernels;
    int qubits = own->plain.qubits;
    size_t pairs = own->plain.states / 2;
    ferry_complex_double_buffer amplitudes = own->amplitudes;
    ferry_status status = FERRY_OK;
    for (int target = qubits - 1; target >= 0; target--) {
        FERRY_TRY(status, fail,
                  qubits_mix(kernels, pairs, job->stream, (size_t)1 << target, amplitudes));
        for (int control = target - 1; control >= 0; control--)
            FERRY_TRY(status, fail, turn(job, control, target));
    }
    for (int low = 0, high = qubits - 1; low < high; low++, high--)
        FERRY_TRY(status, fail,
                  qubits_swap(kernels, pairs, job->stream, (size_t)1 << low, (size_t)1 << high,
                              amplitudes));
    for (int qubit = 0; qubit < qubits; qubit++)
        FERRY_TRY(status, fail,
                  qubits_chance(kernels, job->stream, (size_t)1 << qubit, amplitudes,
                                &own->chances[qubit]));
fail:
    return status;
}

static ferry_status
qubits_compare(struct job *job, bool *out_same)
{
    struct qubits *own = (struct qubits *)job;
    const struct qubits_job *expected = &own->plain;
    ferry_status status = job_compare_bits(job, ferry_complex_double_element(), own->amplitudes.raw,
                                           expected->states, expected->amplitudes, out_same);
    for (int qubit = 0; qubit < expected->qubits; qubit++)
        *out_same = *out_same && job_is_near(own->chances[qubit], expected->chances[qubit], 1e-10);
    job->fewest_down += (uint64_t)expected->qubits * sizeof(double);
    return status;
}

static void
qubits_destroy(struct job *job)
{
    struct qubits *own = (struct qubits *)job;
    qubits_kernels_destroy(&own->kernels);
}

const struct job_kind qubits_kind = {
    .name = "qubits",
    .bytes = sizeof(struct qubits),
    .plain = offsetof(struct qubits, plain),
    .loops = JOB_LOOPS(qubits),
    .fill = qubits_fill,
    .upload = qubits_upload,
    .run = qubits_run,
    .compare = qubits_compare,
    .destroy_kernels = qubits_destroy,
};

/* -- sharpen ----------------------------------------------------------------------------------- */

struct sharpen {
    struct job job; /* the first member */
    struct sharpen_job plain;
    sharpen_kernels kernels;
    ferry_byte_buffer before, after;
    ferry_float_buffer now, next;
    sharpen_compare_results results;
};

static void
sharpen_fill(struct job *job, size_t count)
{
    struct sharpen *own = (struct sharpen *)job;
    struct sharpen_job *sharpen = &own->plain;
    size_t rows = job_rows(count), columns = count / rows, pixels = rows * columns;
    *sharpen = (struct sharpen_job){.rows = rows,
                                    .columns = columns,
                                    .before = job_new_array(job, pixels, 1),
                                    .after = job_new_array(job, pixels, 1),
                                    .now = job_new_array(job, pixels, sizeof(float)),
                                    .next = job_new_array(job, pixels, sizeof(float))};
    for (size_t i = 0; i < pixels; i++)
        sharpen->before[i] = (unsigned char)(i * 7919 % 1009 + i / columns);
}

static ferry_status
sharpen_upload(struct job *job)
{
    struct sharpen *own = (struct sharpen *)job;
    const struct sharpen_job *from = &own->plain;
    size_t pixels = from->rows * from->columns;
    ferry_status status;
    FERRY_TRY(status, fail, sharpen_kernels_create(job->context, &own->kernels));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_byte_element(), pixels, from->before, &own->before.raw));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_byte_element(), pixels, NULL, &own->after.raw));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_float_element(), pixels, NULL, &own->now.raw));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_float_element(), pixels, NULL, &own->next.raw));
fail:
    return status;
}

static ferry_status
sharpen_run(struct job *job)
{
    struct sharpen *own = (struct sharpen *)job;
    const sharpen_kernels *kernels = &own->kernels;
    const ferry_copy_options on_device = {.stream = job->stream, .convert = FERRY_CONVERT_SATURATE};
    size_t rows = own->plain.rows, columns = own->plain.columns;
    ferry_byte_buffer before = own->before, after = own->after;
    ferry_float_buffer now = own->now, next = own->next;
    const ferry_copy_region to_floats = {
        .target = {.buffer = now.raw}, .source = {.buffer = before.raw}, .count = rows * columns};
    const ferry_copy_region to_bytes = {
        .target = {.buffer = after.raw}, .source = {.buffer = next.raw}, .count = rows * columns};
    ferry_status status;
    FERRY_TRY(status, fail, ferry_copy(&to_floats, 1, &on_device));
    FERRY_TRY(status, fail,
              sharpen_edges(kernels, rows, columns, NULL, job->stream, now, PROGRAM_AMOUNT, next));
    FERRY_TRY(status, fail, ferry_copy(&to_bytes, 1, &on_device));
    FERRY_TRY(status, fail, sharpen_compare(kernels, job->stream, before, after, &own->results));
fail:
    return status;
}

static ferry_status
compare_sharpened(struct job *job, bool *out_same)
{
    struct sharpen *own = (struct sharpen *)job;
    const struct sharpen_job *expected = &own->plain;
    const sharpen_compare_results *found = &own->results;
    ferry_status status =
        job_compare_bits(job, ferry_byte_element(), own->after.raw,
                         expected->rows * expected->columns, expected->after, out_same);
    job->fewest_down += sizeof(int) + sizeof(uint64_t);
    *out_same = *out_same && found->most == expected->most && found->squares == expected->squares;
    return status;
}

static void
sharpen_destroy(struct job *job)
{
    struct sharpen *own = (struct sharpen *)job;
    sharpen_kernels_destroy(&own->kernels);
}

const struct job_kind sharpen_kind = {
    .name = "sharpen",
    .bytes = sizeof(struct sharpen),
    .plain = offsetof(struct sharpen, plain),
    .loops = JOB_LOOPS(sharpen),
    .fill = sharpen_fill,
    .upload = sharpen_upload,
    .run = sharpen_run,
    .compare = compare_sharpened,
    .destroy_kernels = sharpen_destroy,
};
