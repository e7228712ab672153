/* SPDX-License-Identifier: MIT */
#ifndef BENCH_PROGRAMS_BY_HAND_H
#define BENCH_PROGRAMS_BY_HAND_H

/*
 * The jobs of seven example programs in plain C, compiled with the options of the generated
 * kernels. The same file is compiled twice: with BENCH_OPENMP, the loops are shared by the threads
 * of OpenMP, and each name begins with openmp_ instead of plain_.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/number.h>

#include "gases_line.h"
#include "particles_point.h"

enum { PROGRAM_ITERATIONS = 10, PROGRAM_QUBITS = 32 };
/* The level of a vertex that was not reached. */
#define PROGRAM_UNREACHED INT32_MAX
#define PROGRAM_RATE      0.24
#define PROGRAM_AMOUNT    1.5f

/* Rays look wavelengths up in the tables of gases: binary search, and three results. */
struct gases_job {
    size_t rays, lines_of_each, mixtures;
    struct gases_line *lines;
    int *starts, *members; /* of the mixtures: the gases */
    double *amounts;
    double absorbed, most_scattered; /* out */
    uint64_t dark;                   /* out */
};
void plain_gases(void *job);
void openmp_gases(void *job);

/* PROGRAM_ITERATIONS of conjugate gradients from x = 0, with a matrix in compressed rows. */
struct gradients_job {
    size_t rows;
    int64_t *starts;
    int *columns;
    double *values, *b;
    double *x, *r, *p, *w;
    double rr; /* out: the square of the residual */
};
void plain_gradients(void *job);
void openmp_gradients(void *job);

/* One step of heat on a plate with one row and column of halo around it. */
struct strips_job {
    size_t rows, columns; /* with the halo */
    double *conducts, *heat, *next;
};
void plain_strips(void *job);
void openmp_strips(void *job);

/* The forces on particles in a cube of side^3 boxes. */
struct particles_job {
    size_t side, each;
    struct particles_point *particles, *forces;
};
void plain_particles(void *job);
void openmp_particles(void *job);

/* Breadth-first search from vertex 0, level by level. */
struct graph_job {
    size_t vertices;
    int64_t *starts;
    int *targets, *levels;
    bool *front;
    int *queue; /* of plain_queue() */
    int steps;  /* out */
};
void plain_graph(void *job);
/* The same with a queue of the vertices that were reached, which only one thread can do. */
void plain_queue(void *job);
void openmp_graph(void *job);

/* The Fourier transform of a quantum computer's state, and the chance of each qubit. */
struct qubits_job {
    int qubits;
    size_t states;
    ferry_complex_double *amplitudes;
    double chances[PROGRAM_QUBITS];
};
void plain_qubits(void *job);
void openmp_qubits(void *job);

/* Sharpens a picture of bytes as floats, and compares it with what it was. */
struct sharpen_job {
    size_t rows, columns;
    unsigned char *before, *after;
    float *now, *next;
    int most;         /* out */
    uint64_t squares; /* out */
};
void plain_sharpen(void *job);
void openmp_sharpen(void *job);

#endif
