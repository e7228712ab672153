/* SPDX-License-Identifier: MIT */
#include "tree_vector.h"

#include <math.h>

#include <nvector/nvector_serial.h>

static int partial_sums = 16;

/* Computes a sum in the order that docs/kernels.md describes for generated kernels. Unused partial
 * sums stay 0. */
#define SUM(n, term)                                                                               \
    double partial_[16] = {0};                                                                     \
    for (sunindextype i = 0; i < (n); i++)                                                         \
        partial_[i % partial_sums] += (term);                                                      \
    for (int half_ = 8; half_ > 0; half_ /= 2)                                                     \
        for (int k_ = 0; k_ < half_; k_++)                                                         \
            partial_[k_] += partial_[k_ + half_];                                                  \
    return partial_[0]

static sunrealtype
dot(N_Vector x, N_Vector y)
{
    const double *a = NV_DATA_S(x), *b = NV_DATA_S(y);
    SUM(NV_LENGTH_S(x), a[i] * b[i]);
}

static sunrealtype
square_sum(N_Vector x, N_Vector w)
{
    const double *a = NV_DATA_S(x), *b = NV_DATA_S(w);
    SUM(NV_LENGTH_S(x), (a[i] * b[i]) * (a[i] * b[i]));
}

static sunrealtype
square_sum_mask(N_Vector x, N_Vector w, N_Vector id)
{
    const double *a = NV_DATA_S(x), *b = NV_DATA_S(w), *mask = NV_DATA_S(id);
    SUM(NV_LENGTH_S(x), mask[i] > 0 ? (a[i] * b[i]) * (a[i] * b[i]) : 0);
}

static sunrealtype
l1_norm(N_Vector x)
{
    const double *a = NV_DATA_S(x);
    SUM(NV_LENGTH_S(x), fabs(a[i]));
}

static sunrealtype
wrms_norm(N_Vector x, N_Vector w)
{
    return sqrt(square_sum(x, w) / (double)NV_LENGTH_S(x));
}

static sunrealtype
wrms_norm_mask(N_Vector x, N_Vector w, N_Vector id)
{
    return sqrt(square_sum_mask(x, w, id) / (double)NV_LENGTH_S(x));
}

static sunrealtype
wl2_norm(N_Vector x, N_Vector w)
{
    return sqrt(square_sum(x, w));
}

static int
dot_multi(int count, N_Vector x, N_Vector *y, sunrealtype *out)
{
    for (int i = 0; i < count; i++)
        out[i] = dot(x, y[i]);
    return 0;
}

static int
wrms_norm_array(int count, N_Vector *x, N_Vector *w, sunrealtype *out)
{
    for (int i = 0; i < count; i++)
        out[i] = wrms_norm(x[i], w[i]);
    return 0;
}

static int
wrms_norm_mask_array(int count, N_Vector *x, N_Vector *w, N_Vector id, sunrealtype *out)
{
    for (int i = 0; i < count; i++)
        out[i] = wrms_norm_mask(x[i], w[i], id);
    return 0;
}

N_Vector
tree_vector_create(sunindextype length, sunbooleantype fused, int sums, SUNContext sunctx)
{
    N_Vector v = N_VNew_Serial(length, sunctx);
    if (v == NULL || N_VEnableFusedOps_Serial(v, fused) != 0)
        return v;
    partial_sums = sums;
    v->ops->nvdotprod = v->ops->nvdotprodlocal = dot;
    v->ops->nvl1norm = v->ops->nvl1normlocal = l1_norm;
    v->ops->nvwsqrsumlocal = square_sum;
    v->ops->nvwsqrsummasklocal = square_sum_mask;
    v->ops->nvwrmsnorm = wrms_norm;
    v->ops->nvwrmsnormmask = wrms_norm_mask;
    v->ops->nvwl2norm = wl2_norm;
    if (fused) {
        v->ops->nvdotprodmulti = v->ops->nvdotprodmultilocal = dot_multi;
        v->ops->nvwrmsnormvectorarray = wrms_norm_array;
        v->ops->nvwrmsnormmaskvectorarray = wrms_norm_mask_array;
    }
    return v;
}
