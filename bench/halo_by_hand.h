/* SPDX-License-Identifier: MIT */
#ifndef HALO_BY_HAND_H
#define HALO_BY_HAND_H

/*
 * The program that examples/halo is compared with: the same heat equation over MPI and the CUDA
 * driver, written by hand for one device. The program makes no unnecessary copy, driver call or
 * wait. It launches the kernel of examples/halo by name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mpi.h>

#include "by_hand_driver.h"

enum { HALO_WAYS = 4 };

/**
 * Describes one direction of an exchange of cells between MPI ranks. This rank sends cells to one
 * neighbour, and receives cells from the opposite neighbour.
 */
struct halo_way {
    int to, from;         /**< ranks, or MPI_PROC_NULL */
    size_t send, receive; /**< index of the first cell */
    size_t count, rows;   /**< number of exchanged cells, and number of grid rows that contain them;
                             `rows` is 1 if the cells form a row */
};

/* The two plates (grids of cells) of this rank on a device. A zeroed struct owns nothing. */
struct halo_by_hand {
    struct by_hand_driver driver;
    void *context, *stream, *module, *step;
    uint64_t
        plates[2]; /**< device memory of the current and the next plate; each step swaps them */
    float *sent[HALO_WAYS], *received[HALO_WAYS]; /**< page-locked host memory */
    const struct halo_way *ways;
    size_t rows,
        columns; /**< numbers of rows and columns of a plate, including the ring around its cells */
    uint64_t up, down; /**< number of bytes copied in all steps */
    int failure;       /**< the first status that is not 0 */
};

/* Opens the device, and copies `cells` into both plates. `ways` must stay valid until
 * halo_by_hand_close() is called on `out`. */
bool halo_by_hand_open(struct halo_by_hand *out, const struct halo_way *ways, size_t rows,
                       size_t columns, const float *cells);
/**
 * Exchanges the border cells with the neighbouring ranks, and queues one step of the heat equation.
 */
bool halo_by_hand_step(struct halo_by_hand *halo, size_t step);
/* Waits for the last step, and copies the computed grid to the array `cells`. */
bool halo_by_hand_read(struct halo_by_hand *halo, size_t steps, float *cells);
void halo_by_hand_close(struct halo_by_hand *halo);

#endif
