/* SPDX-License-Identifier: MIT */

/* Jobs whose kernels read where their data say: tables, a sparse matrix, a graph. */

#include "programs_jobs.h"

#include <math.h>

#include <ferry/bool.h>
#include <ferry/double.h>
#include <ferry/int.h>
#include <ferry/int64.h>

#include "gases_kernels.h"
#include "gradients_kernels.h"
#include "graph_kernels.h"

/* -- gases ------------------------------------------------------------------------------------- */

struct gases {
    struct job job; /* the first member */
    struct gases_job plain;
    gases_kernels kernels;
    gases_line_buffer lines;
    ferry_int_buffer starts, members;
    ferry_double_buffer amounts;
    gases_trace_results results;
};

enum { GASES = 40, MIXTURES = 12, MEMBERS = 8 * MIXTURES, LINES = 1000 };

static void
gases_fill(struct job *job, size_t count)
{
    struct gases *own = (struct gases *)job;
    struct gases_job *gases = &own->plain;
    *gases = (struct gases_job){
        .rays = count,
        .lines_of_each = LINES,
        .mixtures = MIXTURES,
        .lines = job_new_array(job, (size_t)GASES * LINES, sizeof(*gases->lines)),
        .starts = job_new_array(job, MIXTURES + 1, sizeof(int)),
        .members = job_new_array(job, MEMBERS, sizeof(int)),
        .amounts = job_new_array(job, MEMBERS, sizeof(double))};
    for (size_t i = 0; i < (size_t)GASES * LINES; i++) {
        double place = (double)(i % LINES) / (LINES - 1);
        gases->lines[i] = (struct gases_line){.wavelength = place * (0.5 + 0.5 * place),
                                              .absorbed = job_random_part(2 * i),
                                              .scattered = job_random_part(2 * i + 1)};
    }
    for (int mixture = 0; mixture <= MIXTURES; mixture++)
        gases->starts[mixture] = mixture * (mixture + 1) * MEMBERS / (MIXTURES * (MIXTURES + 1));
    for (size_t k = 0; k < MEMBERS; k++) {
        gases->members[k] = (int)(job_random_part(k) * GASES);
        gases->amounts[k] = job_random_part(k + MEMBERS);
    }
}

static ferry_status
gases_upload(struct job *job)
{
    struct gases *own = (struct gases *)job;
    const struct gases_job *from = &own->plain;
    ferry_status status;
    FERRY_TRY(status, fail, gases_kernels_create(job->context, &own->kernels));
    FERRY_TRY(status, fail,
              job_new_buffer(job, gases_line_element(), (size_t)GASES * LINES, from->lines,
                             &own->lines.raw));
    FERRY_TRY(
        status, fail,
        job_new_buffer(job, ferry_int_element(), MIXTURES + 1, from->starts, &own->starts.raw));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_int_element(), MEMBERS, from->members, &own->members.raw));
    FERRY_TRY(
        status, fail,
        job_new_buffer(job, ferry_double_element(), MEMBERS, from->amounts, &own->amounts.raw));
fail:
    return status;
}

static ferry_status
gases_run(struct job *job)
{
    struct gases *own = (struct gases *)job;
    return gases_trace(&own->kernels, own->plain.rays, job->stream, LINES, own->lines, own->starts,
                       own->members, own->amounts, &own->results);
}

static ferry_status
gases_compare(struct job *job, bool *out_same)
{
    struct gases *own = (struct gases *)job;
    const gases_trace_results *found = &own->results;
    const struct gases_job *expected = &own->plain;
    job->fewest_down += 2 * sizeof(double) + sizeof(uint64_t);
    *out_same = found->dark == expected->dark &&
                found->most_scattered == expected->most_scattered &&
                job_is_near(found->absorbed_by_all, expected->absorbed, 1e-10);
    return FERRY_OK;
}

static void
gases_destroy(struct job *job)
{
    struct gases *own = (struct gases *)job;
    gases_kernels_destroy(&own->kernels);
}

const struct job_kind gases_kind = {
    .name = "gases",
    .bytes = sizeof(struct gases),
    .plain = offsetof(struct gases, plain),
    .loops = JOB_LOOPS(gases),
    .fill = gases_fill,
    .upload = gases_upload,
    .run = gases_run,
    .compare = gases_compare,
    .destroy_kernels = gases_destroy,
};

/* -- gradients --------------------------------------------------------------------------------- */

struct gradients {
    struct job job; /* the first member */
    struct gradients_job plain;
    gradients_kernels kernels;
    ferry_int64_buffer starts;
    ferry_int_buffer columns;
    ferry_double_buffer values, b, x, r, p, w, rr, left, pw;
    double last;
};

/* Fills the Laplacian on a grid, whose neighbours outside are left out. */
static void
gradients_fill(struct job *job, size_t count)
{
    struct gradients *own = (struct gradients *)job;
    struct gradients_job *gradients = &own->plain;
    size_t rows = job_rows(count), columns = count / rows, entries = 0;
    count = rows * columns;
    *gradients = (struct gradients_job){.rows = count,
                                        .starts = job_new_array(job, count + 1, sizeof(int64_t)),
                                        .columns = job_new_array(job, 5 * count, sizeof(int)),
                                        .values = job_new_array(job, 5 * count, sizeof(double)),
                                        .b = job_new_array(job, count, sizeof(double)),
                                        .x = job_new_array(job, 4 * count, sizeof(double))};
    gradients->r = gradients->x + count;
    gradients->p = gradients->r + count;
    gradients->w = gradients->p + count;
    for (size_t i = 0; i < count; i++) {
        const bool inside[] = {i >= columns, i % columns > 0, true, i % columns + 1 < columns,
                               i + columns < count};
        const size_t there[] = {i - columns, i - 1, i, i + 1, i + columns};
        for (int k = 0; k < 5; k++) {
            if (!inside[k])
                continue;
            gradients->columns[entries] = (int)there[k];
            gradients->values[entries++] = k == 2 ? 4 : -1;
        }
        gradients->starts[i + 1] = (int64_t)entries;
        gradients->b[i] = job_random_part(i) - 0.5;
    }
}

static ferry_status
gradients_upload(struct job *job)
{
    struct gradients *own = (struct gradients *)job;
    const struct gradients_job *from = &own->plain;
    size_t rows = from->rows, entries = (size_t)from->starts[rows];
    ferry_double_buffer *vectors[] = {&own->x, &own->r, &own->p, &own->w};
    ferry_double_buffer *scalars[] = {&own->rr, &own->left, &own->pw};
    ferry_status status;
    FERRY_TRY(status, fail, gradients_kernels_create(job->context, &own->kernels));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_int64_element(), rows + 1, from->starts, &own->starts.raw));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_int_element(), entries, from->columns, &own->columns.raw));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_double_element(), entries, from->values, &own->values.raw));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_double_element(), rows, from->b, &own->b.raw));
    for (int i = 0; i < 4; i++)
        FERRY_TRY(status, fail,
                  job_new_buffer(job, ferry_double_element(), rows, NULL, &vectors[i]->raw));
    for (int i = 0; i < 3; i++)
        FERRY_TRY(status, fail,
                  job_new_buffer(job, ferry_double_element(), 1, NULL, &scalars[i]->raw));
fail:
    return status;
}

static ferry_status
gradients_run(struct job *job)
{
    struct gradients *own = (struct gradients *)job;
    const gradients_kernels *kernels = &own->kernels;
    const ferry_copy_options on_device = {.stream = job->stream};
    size_t rows = own->plain.rows;
    ferry_double_buffer x = own->x, r = own->r;
    ferry_double_buffer p = own->p, w = own->w;
    ferry_double_buffer rr = own->rr, left = own->left;
    ferry_double_buffer pw = own->pw;
    ferry_status status;
    FERRY_TRY(status, fail, ferry_double_fill(x, 0, rows, 0, &on_device));
    FERRY_TRY(status, fail, ferry_double_copy(r, 0, own->b, 0, rows, &on_device));
    FERRY_TRY(status, fail, gradients_start_into(kernels, job->stream, r, p, rr));
    for (int iteration = 0; iteration < PROGRAM_ITERATIONS; iteration++) {
        FERRY_TRY(status, fail,
                  gradients_multiply_into(kernels, job->stream, own->starts, own->columns,
                                          own->values, p, w, pw));
        FERRY_TRY(status, fail,
                  gradients_advance_into(kernels, job->stream, rr, pw, p, w, x, r, left));
        FERRY_TRY(status, fail, gradients_turn(kernels, job->stream, left, rr, r, p));
        ferry_double_buffer spare = rr;
        rr = left;
        left = spare;
    }
    status = ferry_double_copy_to(rr, 0, 1, &own->last, NULL);
fail:
    return status;
}

static ferry_status
gradients_compare(struct job *job, bool *out_same)
{
    struct gradients *own = (struct gradients *)job;
    size_t rows = own->plain.rows;
    const double *expected = own->plain.x;
    double *found = job_new_array(job, rows, sizeof(double)), difference = 0, size = 0;
    ferry_status status = ferry_double_copy_to(own->x, 0, rows, found, NULL);
    job->fewest_down += (rows + 1) * sizeof(double);
    for (size_t i = 0; i < rows; i++) {
        difference = fmax(difference, fabs(found[i] - expected[i]));
        size = fmax(size, fabs(expected[i]));
    }
    *out_same = difference <= 1e-10 * size && job_is_near(own->last, own->plain.rr, 1e-9);
    return status;
}

static void
gradients_destroy(struct job *job)
{
    struct gradients *own = (struct gradients *)job;
    gradients_kernels_destroy(&own->kernels);
}

const struct job_kind gradients_kind = {
    .name = "gradients",
    .bytes = sizeof(struct gradients),
    .plain = offsetof(struct gradients, plain),
    .loops = JOB_LOOPS(gradients),
    .fill = gradients_fill,
    .upload = gradients_upload,
    .run = gradients_run,
    .compare = gradients_compare,
    .destroy_kernels = gradients_destroy,
};

/* -- graph ------------------------------------------------------------------------------------- */

struct graph {
    struct job job; /* the first member */
    struct graph_job plain;
    graph_kernels kernels;
    ferry_int64_buffer starts;
    ferry_int_buffer targets, levels;
    ferry_bool_buffer front;
    int steps;
};

enum { DEGREE = 6 };

static void
graph_fill(struct job *job, size_t count)
{
    struct graph *own = (struct graph *)job;
    struct graph_job *graph = &own->plain;
    size_t edges = 0;
    *graph = (struct graph_job){.vertices = count,
                                .starts = job_new_array(job, count + 1, sizeof(int64_t)),
                                .targets = job_new_array(job, count * DEGREE, sizeof(int)),
                                .levels = job_new_array(job, count, sizeof(int)),
                                .front = job_new_array(job, count, sizeof(bool)),
                                .queue = job_new_array(job, count, sizeof(int))};
    for (size_t i = 0; i < count; i++) {
        size_t degree = i == 0 ? DEGREE : (size_t)(job_random_part(i) * (DEGREE + 1));
        for (size_t k = 0; k < degree; k++, edges++)
            graph->targets[edges] = (int)(job_random_part(count + edges) * (double)count);
        graph->starts[i + 1] = (int64_t)edges;
    }
}

static ferry_status
graph_upload(struct job *job)
{
    struct graph *own = (struct graph *)job;
    const struct graph_job *from = &own->plain;
    size_t vertices = from->vertices;
    ferry_status status;
    FERRY_TRY(status, fail, graph_kernels_create(job->context, &own->kernels));
    FERRY_TRY(
        status, fail,
        job_new_buffer(job, ferry_int64_element(), vertices + 1, from->starts, &own->starts.raw));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_int_element(), (size_t)from->starts[vertices],
                             from->targets, &own->targets.raw));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_int_element(), vertices, NULL, &own->levels.raw));
    FERRY_TRY(status, fail,
              job_new_buffer(job, ferry_bool_element(), vertices, NULL, &own->front.raw));
fail:
    return status;
}

static ferry_status
graph_run(struct job *job)
{
    struct graph *own = (struct graph *)job;
    const graph_kernels *kernels = &own->kernels;
    const ferry_copy_options on_device = {.stream = job->stream};
    ferry_int_buffer levels = own->levels;
    graph_advance_results reached;
    int level = 0;
    ferry_status status;
    FERRY_TRY(status, fail, ferry_int_fill(levels, 0, FERRY_REST, PROGRAM_UNREACHED, &on_device));
    FERRY_TRY(status, fail, ferry_int_fill(levels, 0, 1, 0, &on_device));
    do {
        if (level > 0)
            FERRY_TRY(status, fail,
                      graph_reach(kernels, job->stream, own->starts, own->targets, own->front,
                                  level, levels));
        FERRY_TRY(status, fail,
                  graph_advance(kernels, job->stream, levels, level++, own->front, &reached));
    } while (reached.members > 0);
    own->steps = level;
fail:
    return status;
}

static ferry_status
graph_compare(struct job *job, bool *out_same)
{
    struct graph *own = (struct graph *)job;
    const struct graph_job *expected = &own->plain;
    ferry_status status = job_compare_bits(job, ferry_int_element(), own->levels.raw,
                                           expected->vertices, expected->levels, out_same);
    job->fewest_down += (uint64_t)expected->steps * sizeof(uint64_t);
    *out_same = *out_same && own->steps == expected->steps;
    return status;
}

static void
graph_destroy(struct job *job)
{
    struct graph *own = (struct graph *)job;
    graph_kernels_destroy(&own->kernels);
}

const struct job_kind graph_kind = {
    .name = "graph",
    .bytes = sizeof(struct graph),
    .plain = offsetof(struct graph, plain),
    .loops = JOB_LOOPS(graph),
    .fill = graph_fill,
    .upload = graph_upload,
    .run = graph_run,
    .compare = graph_compare,
    .destroy_kernels = graph_destroy,
};

const struct job_kind queue_kind = {
    .name = "graph by queue",
    .bytes = sizeof(struct graph),
    .plain = offsetof(struct graph, plain),
    .loops = {[JOB_PLAIN] = plain_queue},
    .fill = graph_fill,
    .upload = graph_upload,
    .run = graph_run,
    .compare = graph_compare,
    .destroy_kernels = graph_destroy,
};
