/* SPDX-License-Identifier: MIT */
#ifndef BENCH_COST_MATRIX_H
#define BENCH_COST_MATRIX_H

/*
 * The cost matrix: how many driver calls each operation that moves bytes makes over the fake driver
 * fakecuda, for bytes of each shape. An operation whose calls grow with the number of stretches or
 * rows moves them one at a time. The benchmark `calls` reports the matrix, and
 * tests/buffer/test_cost.c checks it.
 *
 * The host memory is pageable, and the pools are warm: each cell first runs uncounted rounds. A
 * round makes a part of the buffer dirty at one place, which is not counted, then runs the
 * operation and waits until its work is done, which is.
 */

#include <stdbool.h>
#include <stddef.h>

#include <ferry/ferry.h>

enum cost_shape {
    COST_RANGE,     /* one range of 256 KiB */
    COST_STRETCHES, /* 1,000 stretches of 1 KiB, which lie 1 KiB apart; operations get one range
                       with all of them */
    COST_ROWS,      /* 1,000 rows of 4 KiB, which lie 64 bytes apart; copies get one region with
                       1,000 rows, other operations one range */
    COST_SHAPES
};

struct cost_operation {
    const char *name;
    int most[COST_SHAPES]; /* number of driver calls of one round that the test accepts */
};

/* Goal for the number of driver calls in one round of each cell. */
#define COST_GOAL 60

extern const struct cost_operation cost_operations[];
extern const size_t cost_operation_count;
extern const char *const cost_shape_names[COST_SHAPES];

struct cost {
    double calls;     /* driver calls of one round, without calls of cuCtxGetCurrent */
    double transfers; /* transfers of one round, as ferry_transfer_stats counts them */
};

/*
 * Runs one cell and counts. The variable FERRY_CUDA_LIBRARY must name fakecuda.
 * @param seed 0: the sizes of the shape; otherwise sizes drawn by this seed, none larger
 * On failure prints a message on stderr and returns false.
 */
bool cost_count(size_t operation, enum cost_shape shape, unsigned seed, struct cost *out);

#endif
