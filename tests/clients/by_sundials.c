/* SPDX-License-Identifier: MIT */

/*
 * Runs SUNDIALS' tests of vectors on Ferry's vectors. The source of these tests is not part of
 * Ferry. It is among the examples of Debian's package libsundials-dev.
 *
 * usage: by_sundials LENGTH
 */

#include <stdio.h>
#include <stdlib.h>

#include <sundials/sundials_math.h>

#include "nvector_ferry.h"
#include "test_nvector.h"

static int
test_pointers_and_clones(N_Vector x, sunindextype length)
{
    return Test_N_VMake(x, length, 0) + Test_N_VGetVectorID(x, SUNDIALS_NVEC_CUSTOM, 0) +
           Test_N_VGetLength(x, 0) + Test_N_VGetCommunicator(x, NULL, 0) +
           Test_N_VCloneEmpty(x, 0) + Test_N_VClone(x, length, 0) +
           Test_N_VCloneEmptyVectorArray(5, x, 0) + Test_N_VCloneVectorArray(5, x, length, 0) +
           Test_N_VGetArrayPointer(x, length, 0);
}

static int
test_standard_operations(N_Vector x, N_Vector y, N_Vector z, sunindextype length)
{
    return Test_N_VConst(x, length, 0) + Test_N_VLinearSum(x, y, z, length, 0) +
           Test_N_VProd(x, y, z, length, 0) + Test_N_VDiv(x, y, z, length, 0) +
           Test_N_VScale(x, z, length, 0) + Test_N_VAbs(x, z, length, 0) +
           Test_N_VInv(x, z, length, 0) + Test_N_VAddConst(x, z, length, 0) +
           Test_N_VDotProd(x, y, length, 0) + Test_N_VMaxNorm(x, length, 0) +
           Test_N_VWrmsNorm(x, y, length, 0) + Test_N_VWrmsNormMask(x, y, z, length, 0) +
           Test_N_VMin(x, length, 0) + Test_N_VWL2Norm(x, y, length, 0) +
           Test_N_VL1Norm(x, length, 0) + Test_N_VCompare(x, z, length, 0) +
           Test_N_VInvTest(x, z, length, 0) + Test_N_VConstrMask(x, y, z, length, 0) +
           Test_N_VMinQuotient(x, y, length, 0);
}

static int
test_fused_operations(N_Vector x, sunindextype length)
{
    return Test_N_VLinearCombination(x, length, 0) + Test_N_VScaleAddMulti(x, length, 0) +
           Test_N_VDotProdMulti(x, length, 0) + Test_N_VLinearSumVectorArray(x, length, 0) +
           Test_N_VScaleVectorArray(x, length, 0) + Test_N_VConstVectorArray(x, length, 0) +
           Test_N_VWrmsNormVectorArray(x, length, 0) +
           Test_N_VWrmsNormMaskVectorArray(x, length, 0) +
           Test_N_VScaleAddMultiVectorArray(x, length, 0) +
           Test_N_VLinearCombinationVectorArray(x, length, 0);
}

static int
test_other_operations(N_Vector x, N_Vector y, N_Vector z, sunindextype length)
{
    return Test_N_VDotProdLocal(x, y, length, 0) + Test_N_VMaxNormLocal(x, length, 0) +
           Test_N_VMinLocal(x, length, 0) + Test_N_VL1NormLocal(x, length, 0) +
           Test_N_VWSqrSumLocal(x, y, length, 0) + Test_N_VWSqrSumMaskLocal(x, y, z, length, 0) +
           Test_N_VInvTestLocal(x, z, length, 0) + Test_N_VConstrMaskLocal(x, y, z, length, 0) +
           Test_N_VMinQuotientLocal(x, y, length, 0) + Test_N_VDotProdMultiLocal(x, length, 0) +
           Test_N_VBufSize(x, length, 0) + Test_N_VBufPack(x, length, 0) +
           Test_N_VBufUnpack(x, length, 0);
}

int
main(int argc, char **argv)
{
    const sunindextype length = argc > 1 ? atol(argv[1]) : 1000;
    ferry_context *context = NULL;
    nvector_ferry vectors = {0};
    N_Vector x, y, z, plain;
    int failed = 0;
    if (Test_Init(NULL) != 0 || ferry_context_create(NULL, &context) != FERRY_OK ||
        nvector_ferry_create(context, NULL, &vectors) != FERRY_OK ||
        (x = N_VNew_Ferry(&vectors, length, sunctx)) == NULL) {
        printf("cannot begin: %s\n", ferry_last_error());
        return EXIT_FAILURE;
    }
    failed += test_pointers_and_clones(x, length);
    y = N_VClone(x);
    z = N_VClone(x);
    plain = N_VNew_Ferry(&vectors, length, sunctx);
    failed += test_standard_operations(x, y, z, length);
    failed += N_VEnableFusedOps_Ferry(plain, SUNFALSE) != 0;
    failed += test_fused_operations(plain, length);
    failed += test_fused_operations(x, length);
    failed += test_other_operations(x, y, z, length);
    if (vectors.failure != FERRY_OK) {
        printf("FAILED: an operation: %s\n", vectors.message);
        failed++;
    }
    N_VDestroy(plain);
    N_VDestroy(z);
    N_VDestroy(y);
    N_VDestroy(x);
    Test_Finalize();
    nvector_ferry_destroy(&vectors);
    ferry_context_destroy(&context);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* -- what the tests need to know about a vector ------------------------------------------------ */

int
check_ans(sunrealtype ans, N_Vector X, sunindextype local_length)
{
    const sunrealtype *values = N_VGetArrayPointer(X);
    for (sunindextype i = 0; i < local_length; i++)
        if (SUNRCompare(values[i], ans))
            return 1;
    return 0;
}

sunbooleantype
has_data(N_Vector X)
{
    return N_VGetArrayPointer(X) ? SUNTRUE : SUNFALSE;
}

void
set_element(N_Vector X, sunindextype i, sunrealtype val)
{
    N_VGetArrayPointer(X)[i] = val;
}

void
set_element_range(N_Vector X, sunindextype is, sunindextype ie, sunrealtype val)
{
    sunrealtype *values = N_VGetArrayPointer(X);
    for (sunindextype i = is; i <= ie; i++)
        values[i] = val;
}

sunrealtype
get_element(N_Vector X, sunindextype i)
{
    return N_VGetArrayPointer(X)[i];
}

double
max_time(N_Vector X, double time)
{
    (void)X;
    return time;
}

/* SUNDIALS' tests call this function to wait for the device. It does nothing, because the call that
 * returns a host pointer waits for the device. */
void
sync_device(N_Vector X)
{
    (void)X;
}
