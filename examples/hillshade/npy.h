/* SPDX-License-Identifier: MIT */
#ifndef HILLSHADE_NPY_H
#define HILLSHADE_NPY_H

/* Reading grids that NumPy's save() wrote: two dimensions, C order, little-endian int32 or float32. */

#include <stdbool.h>
#include <stddef.h>

enum npy_type { NPY_INT32, NPY_FLOAT32 };

struct npy_grid {
    enum npy_type type;
    size_t rows, columns; /* both at least 1 */
    void *values;         /* rows * columns of them, row after row */
};

/**
 * Read a grid. Nothing is allocated from a number in the file before that number was checked against the file's size.
 * On failure `message` holds one sentence, without the path, and `*out` is untouched.
 */
bool npy_read(const char *path, struct npy_grid *out, char *message, size_t message_bytes);

/** Free the values and empty the grid; harmless on a zeroed one. */
void npy_free(struct npy_grid *grid);

#endif
