/* SPDX-License-Identifier: MIT */
#ifndef TREE_VECTOR_H
#define TREE_VECTOR_H

#include <sundials/sundials_nvector.h>

/**
 * Returns a serial vector of SUNDIALS that differs only in the order of its sums. It has `sums`
 * partial sums, which must be 1 to 16. Element i is added to partial sum i modulo `sums`, and the
 * partial sums are added as a tree. The host functions of generated kernels add in the order of 16
 * partial sums; the unchanged serial vector adds in the order of one. If `fused` is set, the vector
 * has the fused operations. `sums` of the last created vector applies to all such vectors.
 */
N_Vector tree_vector_create(sunindextype length, sunbooleantype fused, int sums, SUNContext sunctx);

#endif
