/* SPDX-License-Identifier: MIT */
#ifndef HALO_BY_HAND_H
#define HALO_BY_HAND_H

/*
 * A peer of examples/halo: the same heat equation over MPI and the CUDA driver, written by hand for
 * one device. The program makes no unnecessary copy, driver call or wait. It launches the example's
 * kernel by name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mpi.h>

#include "by_hand_driver.h"

enum { HALO_WAYS = 4 };

/**
 * The cells of one direction of an exchange. This rank sends cells to one neighbour, and receives
 * cells from the opposite neighbour.
 */
struct halo_way {
    int to, from;         /**< ranks, or MPI_PROC_NULL */
    size_t send, receive; /**< index of the first cell */
    size_t count, rows;   /**< number of exchanged cells, and number of rows in which they are: 1 if
                             they form a row, all rows if they form a column */
};

/* The two plates (grids of cells) of this rank on a device. A zeroed struct owns nothing. */
struct halo_by_hand {
    struct by_hand_driver driver;
    void *context, *stream, *module, *step;
    uint64_t plates[2]; /**< device memory of the current and the next plate, which take turns */
    float *sent[HALO_WAYS], *received[HALO_WAYS]; /**< page-locked host memory */
    const struct halo_way *ways;
    size_t rows, columns; /**< size of a plate, including the ring around its cells */
    uint64_t up, down;    /**< number of bytes copied in all steps */
    int failure;          /**< the first status that is not 0 */
};

/* Opens the device, and copies `cells` into both plates. `ways` must stay valid until `out` is
 * closed. */
bool halo_by_hand_open(struct halo_by_hand *out, const struct halo_way *ways, size_t rows,
                       size_t columns, const float *cells);
/** Exchanges the halos, and queues one step. */
bool halo_by_hand_step(struct halo_by_hand *halo, size_t step);
/* Waits for the last step, and copies the plate that it computed to `cells`. */
bool halo_by_hand_read(struct halo_by_hand *halo, size_t steps, float *cells);
void halo_by_hand_close(struct halo_by_hand *halo);

#endif
