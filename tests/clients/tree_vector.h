/* SPDX-License-Identifier: MIT */
#ifndef TREE_VECTOR_H
#define TREE_VECTOR_H

#include <sundials/sundials_nvector.h>

/**
 * Returns a serial vector of SUNDIALS, with its own maps, that adds its sums in another order: in
 * `sums` partial sums, 1 to 16, of which element i belongs to the one with the number i modulo
 * `sums`, and these as a tree. 16 is the order of the host functions of generated kernels, and 1 is
 * the order of the serial vector. Apart from this order it has nothing of Ferry. It has the fused
 * operations when `fused` is set. The order is that of the last vector that was created.
 */
N_Vector tree_vector_create(sunindextype length, sunbooleantype fused, int sums, SUNContext sunctx);

#endif
