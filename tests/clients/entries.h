/* SPDX-License-Identifier: MIT */
#ifndef ENTRIES_H
#define ENTRIES_H

/* Lists the kernels of examples/sundials. */

#include "brusselator_kernels.h"
#include "heat_kernels.h"
#include "nvector_kernels.h"

/* The macro ENTRIES(X) calls X(name) for the name of each kernel. */
#define REDUCTION(X, name) X(name) X(name##_into)
/* clang-format off */
#define ENTRIES(X) \
    X(nv_linear_sum) \
    X(nv_scaled_sum) \
    X(nv_scaled_difference) \
    X(nv_constant) \
    X(nv_product) \
    X(nv_quotient) \
    X(nv_scale) \
    X(nv_absolute) \
    X(nv_inverse) \
    X(nv_add_constant) \
    X(nv_compare) \
    X(nv_inverse_where) \
    X(nv_constraint_mask) \
    REDUCTION(X, nv_dot) \
    REDUCTION(X, nv_square_sum) \
    REDUCTION(X, nv_square_sum_where) \
    REDUCTION(X, nv_absolute_sum) \
    REDUCTION(X, nv_greatest) \
    REDUCTION(X, nv_least) \
    REDUCTION(X, nv_least_quotient) \
    REDUCTION(X, nv_any_zero) \
    X(nv_combine_3) \
    X(nv_combine_4) \
    X(nv_add_2) \
    X(nv_add_3) \
    X(nv_scale_add_2) \
    X(nv_scale_add_3) \
    X(nv_linear_sum_2) \
    X(nv_scale_2) \
    X(nv_constant_2) \
    X(heat_laplacian) \
    X(brusselator_diffusion) \
    X(brusselator_reaction)
/* clang-format on */

#endif
