/* SPDX-License-Identifier: MIT */

/*
 * CVODE on a device: the heat equation on n * n cells. The vectors of SUNDIALS are buffers, every operation on them is
 * a kernel, and so is the right-hand side. Up goes the initial state and nothing else, down come the results of norms
 * and dot products, 8 bytes each, and in the end the solution.
 *
 * usage: heat [N]
 */

#include <stdio.h>
#include <stdlib.h>

#include "heat_kernels.h"
#include "nvector_ferry.h"
#include "problems.h"

struct program {
    size_t n;
    nvector_ferry vectors;
    heat_kernels kernels;
};

static int
laplacian(sunrealtype t, N_Vector u, N_Vector change, void *user)
{
    const struct program *program = user;
    const double n = (double)program->n;
    (void)t;
    return heat_laplacian(&program->kernels, program->n, program->n, NULL,
                          program->vectors.stream, n * n, N_VGetBuffer_Ferry(u), N_VGetBuffer_Ferry(change)) == FERRY_OK
               ? 0
               : -1;
}

static ferry_status
start(N_Vector u, size_t n)
{
    ferry_scope scope;
    double *values;
    ferry_status status = ferry_double_overwrite_host(N_VGetBuffer_Ferry(u), &scope, &values);
    if (status != FERRY_OK)
        return status;
    heat_start(n, values);
    return ferry_scope_close(&scope);
}

/* Reads the solution, and counts what crossed: the initial state up, scalars and the solution down. */
static ferry_status
report(struct program *program, N_Vector u, const struct solver_counts *counts, bool *out_ok)
{
    ferry_place_info place;
    ferry_transfer_stats moved;
    ferry_scope scope;
    const double *values;
    double error;
    ferry_status status;
    FERRY_TRY(status, fail, ferry_double_read_host(N_VGetBuffer_Ferry(u), &scope, &values));
    error = heat_error(program->n, values, HEAT_END);
    FERRY_TRY(status, fail, ferry_scope_close(&scope));
    FERRY_TRY(status, fail, ferry_context_get_place_info(program->vectors.context, 1, &place));
    FERRY_TRY(status, fail, ferry_context_get_transfer_stats(program->vectors.context, &moved));

    uint64_t state = place.coherent ? 0 : program->n * program->n * sizeof(double);
    uint64_t scalars = place.coherent ? 0 : program->vectors.scalars * sizeof(double);
    printf("%s: %ld steps, %ld calls of the right-hand side, error %.1e\n", place.name, counts->steps,
           counts->rhs_calls, error);
    printf("%llu bytes up, of which %llu are the initial state; %llu bytes down, of which %llu are the solution\n",
           (unsigned long long)moved.upload.bytes, (unsigned long long)state, (unsigned long long)moved.download.bytes,
           (unsigned long long)state);
    *out_ok = error < 1e-4 && moved.upload.bytes == state && moved.download.bytes == state + scalars;
fail:
    return status;
}

int
main(int argc, char **argv)
{
    struct program program = {.n = argc > 1 ? strtoul(argv[1], NULL, 10) : 128};
    struct solver_counts counts = {0};
    ferry_context *context = NULL;
    SUNContext sunctx = NULL;
    N_Vector u = NULL;
    bool ok = false;
    int failed = 0;
    ferry_status status;
    FERRY_TRY(status, fail, ferry_context_create(NULL, &context));
    FERRY_TRY(status, fail, nvector_ferry_create(context, NULL, &program.vectors));
    FERRY_TRY(status, fail, heat_kernels_create(context, &program.kernels));

    failed = SUNContext_Create(NULL, &sunctx);
    u = failed ? NULL : N_VNew_Ferry(&program.vectors, (sunindextype)(program.n * program.n), sunctx);
    if (u == NULL)
        goto fail;
    FERRY_TRY(status, fail, start(u, program.n));
    failed = heat_solve(u, laplacian, &program, HEAT_END, &counts);
    if (failed == 0)
        status = report(&program, u, &counts, &ok);

fail:
    if (status == FERRY_OK)
        status = program.vectors.failure;
    if (status != FERRY_OK)
        fprintf(stderr, "heat: %s (%s)\n", program.vectors.failure ? program.vectors.message : ferry_last_error(),
                ferry_status_name(status));
    else if (!ok)
        fprintf(stderr, "heat: %s\n",
                failed || u == NULL ? "SUNDIALS failed" : "the solution or the transfers are not as expected");
    if (u)
        N_VDestroy(u);
    if (sunctx)
        SUNContext_Free(&sunctx);
    heat_kernels_destroy(&program.kernels);
    nvector_ferry_destroy(&program.vectors);
    ferry_context_destroy(&context);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
