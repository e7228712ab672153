/* SPDX-License-Identifier: MIT */
/*
 * A pen that the host moves over the ground. In each step it raises a few rows, more where the light falls on them, so that it
 * needs the shades of these rows, and the whole ground is shaded again with their new heights.
 */
#ifndef EXAMPLES_HILLSHADE_PEN_H
#define EXAMPLES_HILLSHADE_PEN_H

#include <stddef.h>

#define PEN_MOST_STEPS 10000

/* The cells that the pen reaches in one step: whole rows. */
struct pen_cells {
    size_t first, count;
};

/* The cells of step 0 to `steps` - 1: some rows, each step further south. */
struct pen_cells pen_at(size_t rows, size_t columns, size_t step, size_t steps);

/* Raises the heights of these cells, whose shades are at `shades`. */
void pen_draw(struct pen_cells cells, size_t columns, size_t step, size_t steps, const float *shades, float *heights);

#endif
