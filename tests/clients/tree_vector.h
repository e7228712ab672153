/* SPDX-License-Identifier: MIT */
#ifndef TREE_VECTOR_H
#define TREE_VECTOR_H

#include <sundials/sundials_nvector.h>

/**
 * Returns a serial vector of SUNDIALS that differs from the original only in the order of its sums.
 * It has `sums` partial sums, which must be 1 to 16. Element i is added to partial sum i modulo
 * `sums`. The partial sums are then added as a tree. With 16 partial sums, the order is that of the
 * host functions of generated kernels. With one partial sum, the order is that of the unchanged
 * serial vector. If `fused` is set, the vector has the fused operations. `sums` of the last created
 * vector applies to all such vectors.
 */
N_Vector tree_vector_create(sunindextype length, sunbooleantype fused, int sums, SUNContext sunctx);

#endif
