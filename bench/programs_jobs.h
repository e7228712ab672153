/* SPDX-License-Identifier: MIT */
#ifndef BENCH_PROGRAMS_JOBS_H
#define BENCH_PROGRAMS_JOBS_H

/*
 * The jobs of seven example programs, each with the kernels of the example. A job has its arrays
 * twice: as buffers, and as plain memory for the loops of programs_by_hand.c.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/ferry.h>

#include "programs_by_hand.h"

enum job_side { JOB_FERRY, JOB_PLAIN, JOB_OPENMP, JOB_SIDES };

struct job;

struct job_kind {
    const char *name;
    size_t bytes;                                /* of the struct that begins with a struct job */
    size_t plain;                                /* the offset of the argument of `loops` in it */
    void (*loops[JOB_SIDES])(void *plain);       /* NULL where there is none */
    void (*fill)(struct job *job, size_t count); /* allocates and sets the plain arrays */
    ferry_status (*upload)(struct job *job);     /* creates the kernels and buffers */
    ferry_status (*run)(struct job *job);
    ferry_status (*compare)(struct job *job, bool *out_same);
    void (*destroy_kernels)(struct job *job);
};

extern const struct job_kind gases_kind, gradients_kind, strips_kind, particles_kind, graph_kind,
    queue_kind, qubits_kind, sharpen_kind;

/* The loops of both sides, as the initializer of job_kind.loops. */
#ifdef _OPENMP
#define JOB_LOOPS(name)                                                                            \
    {                                                                                              \
        [JOB_PLAIN] = plain_##name, [JOB_OPENMP] = openmp_##name                                   \
    }
#else
#define JOB_LOOPS(name)                                                                            \
    {                                                                                              \
        [JOB_PLAIN] = plain_##name                                                                 \
    }
#endif

enum { JOB_ARRAYS_MOST = 9, JOB_BUFFERS_MOST = 12 };

struct job {
    const struct job_kind *kind;
    ferry_context *context;
    ferry_stream *stream;
    uint64_t fewest_up, fewest_down; /* bytes that everything until now must have copied */
    void *arrays[JOB_ARRAYS_MOST];
    ferry_buffer *buffers[JOB_BUFFERS_MOST];
    size_t array_count, buffer_count;
};

/* -- for the kinds ----------------------------------------------------------------------------- */

/* Returns an array of zeros, which lives as long as the job. Without memory, ends the program. */
void *job_new_array(struct job *job, size_t count, size_t bytes);
/* Creates a buffer that lives as long as the job. Copies `values` to where the stream is, unless it
 * is NULL. */
ferry_status job_new_buffer(struct job *job, const ferry_element *element, size_t count,
                            const void *values, ferry_buffer **out);
/* Downloads a buffer, and sets `*out_same` to whether it has the bits of `expected`. */
ferry_status job_compare_bits(struct job *job, const ferry_element *element, ferry_buffer *buffer,
                              size_t count, const void *expected, bool *out_same);
/* Returns whether a number has the expected value within a relative error. */
bool job_is_near(double found, double expected, double error);
/* Returns a number in [0, 1). */
double job_random_part(size_t number);
/* Returns the number of rows of a rectangle with `count` cells. */
size_t job_rows(size_t count);

/* -- for the measurement ----------------------------------------------------------------------- */

/**
 * Creates the arrays of a job with about `count` elements, and uploads those that the program
 * starts from. On failure prints a message on stderr and returns NULL.
 */
struct job *job_create(ferry_context *context, const struct job_kind *kind, size_t count);
void job_destroy(struct job **job);
/* Does the job once. */
ferry_status job_run(struct job *job, enum job_side side);
/**
 * Downloads what Ferry has computed. Returns whether it is what the loops have computed: the same
 * bits, or the same value within the error of a sum in another order. Both must have run equally
 * often. If not, prints a message on stderr.
 */
bool job_agrees(struct job *job);

#endif
