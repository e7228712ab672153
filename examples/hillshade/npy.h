/* SPDX-License-Identifier: MIT */
#ifndef HILLSHADE_NPY_H
#define HILLSHADE_NPY_H

/* Reads grids that NumPy's save() wrote: two dimensions of integers or real numbers, in any byte order and memory order. */

#include <stdbool.h>
#include <stddef.h>

enum npy_type {
    NPY_INT8,
    NPY_UINT8,
    NPY_INT16,
    NPY_UINT16,
    NPY_INT32,
    NPY_UINT32,
    NPY_INT64,
    NPY_UINT64,
    NPY_FLOAT16,
    NPY_FLOAT32,
    NPY_FLOAT64,
};

struct npy_grid {
    enum npy_type type;
    size_t rows, columns; /* both at least 1 */
    void *values;         /* rows * columns of them, row after row, in the byte order of this machine */
};

/** Returns NumPy's name of a type, such as "float64". */
const char *npy_type_name(enum npy_type type);

/** Returns the size of one value in bytes. */
size_t npy_type_bytes(enum npy_type type);

/**
 * Reads a grid. It checks each number in the file against the file's size before it allocates memory.
 * On failure `message` is one line without the path, and `*out` is unchanged.
 */
bool npy_read(const char *path, struct npy_grid *out, char *message, size_t message_bytes);

/** Frees the values and clears the grid. A zeroed grid is legal. */
void npy_free(struct npy_grid *grid);

#endif
