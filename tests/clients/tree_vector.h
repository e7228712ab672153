/* SPDX-License-Identifier: MIT */
#ifndef TREE_VECTOR_H
#define TREE_VECTOR_H

#include <sundials/sundials_nvector.h>

/**
 * Returns a serial vector of SUNDIALS that differs only in the order of its sums. It has `sums`
 * partial sums, 1 to 16. Element i is added to partial sum i modulo `sums`, and the partial sums
 * are added as a tree. 16 is the order of the host functions of generated kernels, and 1 is the
 * order of the serial vector. It has the fused operations if `fused` is set. The last created
 * vector determines the order for all such vectors.
 */
N_Vector tree_vector_create(sunindextype length, sunbooleantype fused, int sums, SUNContext sunctx);

#endif
