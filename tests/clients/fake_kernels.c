/* SPDX-License-Identifier: MIT */

/*
 * Linked into a program, this gives the fake CUDA driver the functions that the kernels of examples/sundials have on the
 * host, before main() begins.
 */

#include <stdlib.h>

#include "brusselator_kernels.h"
#include "heat_kernels.h"
#include "nvector_kernels.h"
#include "tests/support/fakecuda.h"

/* X(entry point) for all of them. */
#define REDUCTION(X, name) X(name) X(name##_finish)
#define ENTRIES(X)                                                                                                     \
    X(nv_linear_sum)                                                                                                   \
    X(nv_scaled_sum) X(nv_scaled_difference) X(nv_constant) X(nv_product) X(nv_quotient) X(nv_scale) X(nv_absolute)    \
        X(nv_inverse) X(nv_add_constant) X(nv_compare) X(nv_inverse_where) X(nv_constraint_mask) REDUCTION(X, nv_dot)  \
            REDUCTION(X, nv_square_sum) REDUCTION(X, nv_square_sum_where) REDUCTION(X, nv_absolute_sum)                \
                REDUCTION(X, nv_greatest) REDUCTION(X, nv_least) REDUCTION(X, nv_least_quotient)                       \
                    REDUCTION(X, nv_any_zero) X(nv_combine_3) X(nv_combine_4) X(nv_add_2) X(nv_add_3)                  \
                        X(nv_scale_add_2) X(nv_scale_add_3) X(nv_linear_sum_2) X(nv_scale_2) X(nv_constant_2)          \
                            X(heat_laplacian) X(brusselator_diffusion) X(brusselator_reaction)

#define BODY(entry)                                                                                                    \
    static void fake_##entry(void **values, const unsigned *grid, const unsigned *block)                               \
    {                                                                                                                  \
        (void)grid;                                                                                                    \
        (void)block;                                                                                                   \
        entry##_run(values);                                                                                           \
    }
ENTRIES(BODY)

static void
register_entry(const struct fakecuda *fake, const ferry_kernel_source *source, fakecuda_kernel *run)
{
    size_t bytes[16];
    for (size_t i = 0; i < source->parameter_count; i++)
        bytes[i] = source->parameters[i].access != 0 ? sizeof(void *) : source->parameters[i].element->bytes;
    fake->fakecuda_register_kernel(source->name, run, (int)source->parameter_count, bytes);
}

__attribute__((constructor)) static void
register_entries(void)
{
    struct fakecuda fake;
    if (!getenv("FERRY_CUDA_LIBRARY") || !fakecuda_find_driver(&fake))
        return;
#define REGISTER(entry)                                                                                                \
    {                                                                                                                  \
        ferry_parameter parameters[16];                                                                                \
        const ferry_kernel_source source = entry##_source(parameters);                                                 \
        register_entry(&fake, &source, fake_##entry);                                                                  \
    }
    ENTRIES(REGISTER)
}
