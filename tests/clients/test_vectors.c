/* SPDX-License-Identifier: MIT */

/*
 * Checks every operation of Ferry's SUNDIALS vectors, for several lengths. The result must have the
 * same bits as that of a serial vector which adds in the same order. The fake CUDA driver runs the
 * kernels as host functions. A GPU adds by threads and blocks, so its sums may differ by rounding
 * errors; all other results must be equal there, too.
 */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <nvector/nvector_serial.h>

#include "fake_kernels.h"
#include "nvector_ferry.h"
#include "tree_vector.h"

enum { VECTORS = 12, LENGTHS = 5 };

static const sunindextype lengths[LENGTHS] = {1, 15, 16, 17, 1000};

struct fixture {
    ferry_context *context;
    nvector_ferry vectors;
    SUNContext sunctx;
    bool adds_in_order; /* whether Ferry's sums must have the bits of the serial vectors' sums */
};

/* An array of Ferry's vectors, and an array of serial vectors with the same values. */
struct pair {
    sunindextype length;
    N_Vector ours[VECTORS], theirs[VECTORS];
};

#define MUST(call)                                                                                 \
    do {                                                                                           \
        const ferry_status status_ = (call);                                                       \
        if (status_ != FERRY_OK)                                                                   \
            fail_msg("%s: %s: %s", #call, ferry_status_name(status_), ferry_last_error());         \
    } while (0)

static int
set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    MUST(ferry_context_create(NULL, &f->context));
    MUST(nvector_ferry_create(f->context, NULL, &f->vectors));
    f->adds_in_order = kernels_are_host_functions(f->context);
    assert_int_equal(SUNContext_Create(NULL, &f->sunctx), 0);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;
    SUNContext_Free(&f->sunctx);
    nvector_ferry_destroy(&f->vectors);
    ferry_context_destroy(&f->context);
    free(f);
    return 0;
}

static bool
is_coherent(struct fixture *f)
{
    ferry_place_info place;
    MUST(ferry_context_get_place_info(f->context, 1, &place));
    return place.coherent;
}

/* Returns the value of an element: positive, negative or zero, depending on the vector and the
 * index. */
static double
number(int vector, sunindextype i)
{
    long at = (long)(i * 7919 + vector * 104729) % 1009;
    return at % 10 == 0 ? 0.0 : (double)(at - 500) / 37.0;
}

static void
pair_open(struct fixture *f, sunindextype length, struct pair *out)
{
    out->length = length;
    for (int v = 0; v < VECTORS; v++) {
        double *ours, *theirs;
        out->ours[v] =
            v == 0 ? N_VNew_Ferry(&f->vectors, length, f->sunctx) : N_VClone(out->ours[0]);
        out->theirs[v] =
            v == 0 ? tree_vector_create(length, SUNTRUE, 16, f->sunctx) : N_VClone(out->theirs[0]);
        assert_non_null(out->ours[v]);
        assert_non_null(out->theirs[v]);
        ours = N_VGetArrayPointer(out->ours[v]);
        theirs = N_VGetArrayPointer(out->theirs[v]);
        for (sunindextype i = 0; i < length; i++)
            ours[i] = theirs[i] = number(v, i);
    }
}

static void
pair_close(struct pair *pair)
{
    for (int v = 0; v < VECTORS; v++) {
        N_VDestroy(pair->ours[v]);
        N_VDestroy(pair->theirs[v]);
    }
}

static void
assert_equal_vectors(struct fixture *f, struct pair *pair, const char *what)
{
    if (f->vectors.failure != FERRY_OK)
        fail_msg("%s: %s", what, f->vectors.message);
    for (int v = 0; v < VECTORS; v++) {
        const double *ours = N_VGetArrayPointer(pair->ours[v]),
                     *theirs = N_VGetArrayPointer(pair->theirs[v]);
        for (sunindextype i = 0; i < pair->length; i++)
            if (ours[i] != theirs[i] && !(isnan(ours[i]) && isnan(theirs[i])))
                fail_msg("%s of %ld elements: element %ld of vector %d is %.17g, not %.17g", what,
                         (long)pair->length, (long)i, v, ours[i], theirs[i]);
    }
}

static void
assert_equal_results(const double *ours, const double *theirs, int count, const char *what)
{
    for (int i = 0; i < count; i++)
        if (memcmp(&ours[i], &theirs[i], sizeof(double)) != 0)
            fail_msg("%s: result %d is %.17g, not %.17g", what, i, ours[i], theirs[i]);
}

/* distance of 1.0 to the next double */
static const double epsilon = 0x1p-52;

/* Checks sums of `length` terms. The parameter `sizes` contains the sum of the absolute values of
 * the terms of each sum. In any order of addition, a sum of n terms is within n * eps * sum|x| of
 * the exact one (docs/kernels.md), so two sums differ by twice as much at most. A norm, which is
 * the root of a sum of squares, has half the relative error of this sum. */
static void
assert_equal_sums(struct fixture *f, sunindextype length, const double *ours, const double *theirs,
                  const double *sizes, int count, const char *what)
{
    if (f->adds_in_order) {
        assert_equal_results(ours, theirs, count, what);
        return;
    }
    for (int i = 0; i < count; i++)
        if (!(fabs(ours[i] - theirs[i]) <= 2 * (double)length * epsilon * sizes[i]))
            fail_msg("%s of %ld elements: result %d is %.17g, not about %.17g", what, (long)length,
                     i, ours[i], theirs[i]);
}

/* Returns the sum of the absolute values of the terms of a dot product. */
static double
dot_size(N_Vector x, N_Vector y)
{
    const double *a = N_VGetArrayPointer(x), *b = N_VGetArrayPointer(y);
    double sum = 0;
    for (sunindextype i = 0; i < N_VGetLength(x); i++)
        sum += fabs(a[i] * b[i]);
    return sum;
}

/* Runs statements twice: with `v` as the array of Ferry's vectors, and with `v` as the array of
 * serial vectors. Checks that the vectors are equal after that. */
#define BOTH(f, pair, ...)                                                                         \
    do {                                                                                           \
        N_Vector *v = (pair)->ours;                                                                \
        __VA_ARGS__;                                                                               \
        v = (pair)->theirs;                                                                        \
        __VA_ARGS__;                                                                               \
        assert_equal_vectors(f, pair, #__VA_ARGS__);                                               \
    } while (0)

/* Evaluates an expression twice, with `v` as Ferry's vectors and with `v` as serial vectors. Checks
 * that both values are equal. */
#define RESULT(pair, expression)                                                                   \
    do {                                                                                           \
        N_Vector *v = (pair)->ours;                                                                \
        const double ours_ = (double)(expression);                                                 \
        v = (pair)->theirs;                                                                        \
        const double theirs_ = (double)(expression);                                               \
        assert_equal_results(&ours_, &theirs_, 1, #expression);                                    \
    } while (0)

/* Evaluates a sum in the same way as RESULT(). `size` is evaluated with `v` as the serial vectors.
 * It must be the sum of the absolute values of the terms. */
#define SUM(f, pair, size, expression)                                                             \
    do {                                                                                           \
        N_Vector *v = (pair)->ours;                                                                \
        const double ours_ = (double)(expression);                                                 \
        v = (pair)->theirs;                                                                        \
        const double theirs_ = (double)(expression), size_ = (size);                               \
        assert_equal_sums(f, (pair)->length, &ours_, &theirs_, &size_, 1, #expression);            \
    } while (0)

/* Evaluates a sum that has no negative terms, or the root of such a sum. */
#define NORM(f, pair, expression) SUM(f, pair, expression, expression)

static void
check_maps(struct fixture *f, sunindextype length)
{
    /* The factors include all values for which the serial vector has special cases. */
    static const double factors[] = {0.0, 1.0, -1.0, 0.3, -0.3, 1.0 / 3.0};
    struct pair pair;
    pair_open(f, length, &pair);
    for (size_t a = 0; a < sizeof(factors) / sizeof(*factors); a++) {
        for (size_t b = 0; b < sizeof(factors) / sizeof(*factors); b++) {
            BOTH(f, &pair, N_VLinearSum(factors[a], v[0], factors[b], v[1], v[2]));
            BOTH(f, &pair, N_VLinearSum(factors[a], v[0], factors[b], v[3], v[3]));
            BOTH(f, &pair, N_VLinearSum(factors[a], v[3], factors[b], v[1], v[3]));
            BOTH(f, &pair, N_VLinearSum(factors[a], v[0], factors[b], v[0], v[4]));
        }
        BOTH(f, &pair, N_VScale(factors[a], v[0], v[5]));
        BOTH(f, &pair, N_VScale(factors[a], v[3], v[3]));
        BOTH(f, &pair, N_VAddConst(v[1], factors[a], v[6]));
        BOTH(f, &pair, N_VCompare(factors[a], v[0], v[7]));
        BOTH(f, &pair, N_VConst(factors[a], v[8]));
    }
    BOTH(f, &pair, N_VProd(v[0], v[1], v[2]));
    BOTH(f, &pair, N_VProd(v[2], v[2], v[2]));
    BOTH(f, &pair, N_VDiv(v[0], v[1], v[3]));
    BOTH(f, &pair, N_VAbs(v[0], v[4]));
    BOTH(f, &pair, N_VInv(v[1], v[5]));
    pair_close(&pair);
}

static void
check_reductions(struct fixture *f, sunindextype length)
{
    struct pair pair;
    pair_open(f, length, &pair);
    SUM(f, &pair, dot_size(v[0], v[1]), N_VDotProd(v[0], v[1]));
    NORM(f, &pair, N_VDotProd(v[0], v[0]));
    RESULT(&pair, N_VMaxNorm(v[0]));
    NORM(f, &pair, N_VWrmsNorm(v[0], v[1]));
    NORM(f, &pair, N_VWrmsNormMask(v[0], v[1], v[2]));
    RESULT(&pair, N_VMin(v[0]));
    NORM(f, &pair, N_VWL2Norm(v[0], v[1]));
    NORM(f, &pair, N_VL1Norm(v[0]));
    RESULT(&pair, N_VMinQuotient(v[0], v[1]));
    SUM(f, &pair, dot_size(v[0], v[1]), N_VDotProdLocal(v[0], v[1]));
    RESULT(&pair, N_VMaxNormLocal(v[1]));
    RESULT(&pair, N_VMinLocal(v[1]));
    NORM(f, &pair, N_VL1NormLocal(v[1]));
    NORM(f, &pair, N_VWSqrSumLocal(v[0], v[1]));
    NORM(f, &pair, N_VWSqrSumMaskLocal(v[0], v[1], v[2]));
    RESULT(&pair, N_VMinQuotientLocal(v[0], v[1]));
    RESULT(&pair, N_VInvTest(v[0], v[3]));
    assert_equal_vectors(f, &pair, "N_VInvTest of zeros");
    BOTH(f, &pair, N_VAbs(v[0], v[4]));
    BOTH(f, &pair, N_VAddConst(v[4], 1.0, v[4]));
    RESULT(&pair, N_VInvTest(v[4], v[4]));
    assert_equal_vectors(f, &pair, "N_VInvTest in place");
    RESULT(&pair, N_VInvTestLocal(v[4], v[5]));
    /* If all elements of the divisor are 0, N_VMinQuotient() must return the largest double. */
    BOTH(f, &pair, N_VConst(0.0, v[6]));
    RESULT(&pair, N_VMinQuotient(v[0], v[6]));
    assert_true(N_VMinQuotient(pair.ours[0], pair.ours[6]) == 1.7976931348623157e308);
    /* Vector 7 holds constraints for N_VConstrMask(), which are the numbers -2 to 2. Vector 0
     * satisfies some of them and violates others. */
    for (sunindextype i = 0; i < length; i++)
        N_VGetArrayPointer(pair.ours[7])[i] = N_VGetArrayPointer(pair.theirs[7])[i] =
            (double)(i % 5) - 2.0;
    RESULT(&pair, N_VConstrMask(v[7], v[0], v[8]));
    assert_equal_vectors(f, &pair, "N_VConstrMask");
    RESULT(&pair, N_VConstrMaskLocal(v[6], v[0], v[8]));
    assert_equal_vectors(f, &pair, "N_VConstrMask without constraints");
    pair_close(&pair);
}

static void
check_fused(struct fixture *f, sunindextype length, int count)
{
    double factors[VECTORS] = {0.5, -0.25, 3.0, 1.0 / 3.0, -1.0, 1.0, 0.7, -0.7};
    double ours[VECTORS], theirs[VECTORS], sizes[VECTORS];
    struct pair pair;
    pair_open(f, length, &pair);
    BOTH(f, &pair, assert_int_equal(N_VLinearCombination(count, factors, v, v[9]), 0));
    BOTH(f, &pair, assert_int_equal(N_VLinearCombination(count, factors, v, v[0]), 0));
    factors[0] = 1.0;
    BOTH(f, &pair, assert_int_equal(N_VLinearCombination(count, factors, v, v[0]), 0));
    factors[1] = -1.0;
    BOTH(f, &pair, assert_int_equal(N_VLinearCombination(count, factors, v, v[9]), 0));
    assert_int_equal(N_VDotProdMulti(count, pair.ours[10], pair.ours, ours), 0);
    assert_int_equal(N_VDotProdMulti(count, pair.theirs[10], pair.theirs, theirs), 0);
    for (int i = 0; i < count; i++)
        sizes[i] = dot_size(pair.theirs[10], pair.theirs[i]);
    assert_equal_sums(f, length, ours, theirs, sizes, count, "N_VDotProdMulti");
    assert_int_equal(N_VDotProdMultiLocal(count, pair.ours[0], pair.ours, ours), 0);
    assert_int_equal(N_VDotProdMultiLocal(count, pair.theirs[0], pair.theirs, theirs), 0);
    for (int i = 0; i < count; i++)
        sizes[i] = dot_size(pair.theirs[0], pair.theirs[i]);
    assert_equal_sums(f, length, ours, theirs, sizes, count, "N_VDotProdMultiLocal");
    if (2 * count <= 9) {
        BOTH(f, &pair, assert_int_equal(N_VScaleAddMulti(count, factors, v[10], v, v + count), 0));
        BOTH(f, &pair, assert_int_equal(N_VScaleAddMulti(count, factors, v[10], v, v), 0));
    }
    pair_close(&pair);
}

/* The operands of N_VScaleAddMultiVectorArray() are two arrays of vectors, which begin at v[0] and
 * v[4]. */
static int
scale_add_rows(int count, int sums, double *factors, N_Vector *v)
{
    N_Vector *rows[2] = {v, v + 4};
    return N_VScaleAddMultiVectorArray(count, sums, factors, v + 8, rows, rows);
}

static int
combine_rows(int count, int sums, double *factors, N_Vector *v)
{
    N_Vector *rows[2] = {v, v + 4};
    return N_VLinearCombinationVectorArray(count, sums, factors, rows, v + 8);
}

static void
check_arrays(struct fixture *f, sunindextype length, int count)
{
    static const double pairs[][2] = {
        {0.5, -0.3}, {0.5, 0.5}, {0.5, -0.5}, {1.0, 2.0}, {-1.0, 3.0}};
    double factors[VECTORS] = {0.5, -0.25, 3.0, 1.0}, ours[VECTORS], theirs[VECTORS];
    struct pair pair;
    pair_open(f, length, &pair);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
        BOTH(f, &pair,
             assert_int_equal(
                 N_VLinearSumVectorArray(count, pairs[i][0], v, pairs[i][1], v + 4, v + 8), 0));
    BOTH(f, &pair, assert_int_equal(N_VLinearSumVectorArray(count, 0.25, v, 0.7, v + 4, v + 4), 0));
    BOTH(f, &pair, assert_int_equal(N_VScaleVectorArray(count, factors, v, v + 8), 0));
    BOTH(f, &pair, assert_int_equal(N_VScaleVectorArray(count, factors, v, v), 0));
    assert_int_equal(N_VWrmsNormVectorArray(count, pair.ours, pair.ours + 4, ours), 0);
    assert_int_equal(N_VWrmsNormVectorArray(count, pair.theirs, pair.theirs + 4, theirs), 0);
    assert_equal_sums(f, length, ours, theirs, theirs, count, "N_VWrmsNormVectorArray");
    assert_int_equal(
        N_VWrmsNormMaskVectorArray(count, pair.ours, pair.ours + 4, pair.ours[8], ours), 0);
    assert_int_equal(
        N_VWrmsNormMaskVectorArray(count, pair.theirs, pair.theirs + 4, pair.theirs[8], theirs), 0);
    assert_equal_sums(f, length, ours, theirs, theirs, count, "N_VWrmsNormMaskVectorArray");
    for (int sums = 1; sums <= 2; sums++) {
        BOTH(f, &pair, assert_int_equal(scale_add_rows(count, sums, factors, v), 0));
        BOTH(f, &pair, assert_int_equal(combine_rows(count, sums, factors, v), 0));
    }
    BOTH(f, &pair, assert_int_equal(N_VConstVectorArray(count, 0.3, v), 0));
    pair_close(&pair);
}

static void
test_maps(void **state)
{
    for (int i = 0; i < LENGTHS; i++)
        check_maps(*state, lengths[i]);
}

static void
test_reductions(void **state)
{
    for (int i = 0; i < LENGTHS; i++)
        check_reductions(*state, lengths[i]);
}

static void
test_fused_operations(void **state)
{
    for (int count = 1; count <= 8; count++)
        check_fused(*state, 17, count);
    check_fused(*state, 1000, 7);
}

static void
test_operations_on_arrays(void **state)
{
    for (int count = 1; count <= 4; count++)
        check_arrays(*state, 17, count);
}

static void
test_life(void **state)
{
    struct fixture *f = *state;
    N_Vector v = N_VNew_Ferry(&f->vectors, 5, f->sunctx), copy, empty;
    sunindextype reals = 0, integers = 0, bytes = 0;
    double values[5] = {1, 2, 3, 4, 5}, back[5] = {0};
    assert_non_null(v);
    assert_int_equal(N_VGetVectorID(v), SUNDIALS_NVEC_CUSTOM);
    assert_int_equal(N_VGetLength(v), 5);
    assert_null(N_VGetCommunicator(v));
    N_VSpace(v, &reals, &integers);
    assert_int_equal(reals, 5);
    assert_int_equal(N_VBufSize(v, &bytes), 0);
    assert_int_equal(bytes, sizeof(values));
    assert_int_equal(N_VBufUnpack(v, values), 0);
    assert_int_equal(N_VBufPack(v, back), 0);
    assert_memory_equal(values, back, sizeof(values));
    /* A clone of a vector has the same operations as the vector, but the values are not copied. */
    assert_int_equal(N_VEnableFusedOps_Ferry(v, SUNFALSE), 0);
    copy = N_VClone(v);
    assert_non_null(copy);
    assert_null(copy->ops->nvlinearcombination);
    assert_true(N_VL1Norm(copy) == 0);
    empty = N_VCloneEmpty(v);
    assert_non_null(empty);
    assert_int_equal(N_VGetLength(empty), 5);
    assert_null(N_VGetArrayPointer(empty));
    assert_null(N_VGetBuffer_Ferry(empty).raw);
    assert_int_equal(f->vectors.failure, FERRY_OK);
    N_VDestroy(empty);
    N_VDestroy(copy);
    N_VDestroy(v);
}

static void
test_vectors_without_elements(void **state)
{
    struct fixture *f = *state;
    N_Vector v = N_VNew_Ferry(&f->vectors, 0, f->sunctx);
    assert_non_null(v);
    N_VScale(2.0, v, v);
    assert_true(N_VDotProd(v, v) == 0.0);
    assert_true(N_VMaxNorm(v) == 0.0);
    assert_null(N_VGetArrayPointer(v));
    assert_int_equal(f->vectors.failure, FERRY_OK);
    N_VDestroy(v);
}

static void
test_pointers_end_with_the_next_operation(void **state)
{
    struct fixture *f = *state;
    N_Vector v = N_VNew_Ferry(&f->vectors, 1000, f->sunctx);
    ferry_buffer_info info;
    ferry_scope scope;
    const double *values;
    double *pointer = N_VGetArrayPointer(v);
    assert_non_null(pointer);
    assert_ptr_equal(N_VGetArrayPointer(v), pointer);
    MUST(ferry_double_get_info(N_VGetBuffer_Ferry(v), &info));
    assert_int_equal(info.scopes, 0);
    /* The host writes the vector, then a kernel changes it, and then the host reads the changed
     * values. */
    for (int i = 0; i < 1000; i++)
        N_VGetArrayPointer(v)[i] = 2.0;
    assert_non_null(N_VGetDeviceArrayPointer(v));
    N_VScale(3.0, v, v);
    assert_true(N_VGetArrayPointer(v)[999] == 6.0);
    assert_true(N_VMaxNorm(v) == 6.0);
    /* Destroying a vector while its host pointer is in use reports no error and leaves no scope
     * open. */
    ferry_double_buffer kept = ferry_double_retain(N_VGetBuffer_Ferry(v));
    N_VGetArrayPointer(v)[0] = 7.0;
    N_VDestroy(v);
    MUST(ferry_double_read_host(kept, &scope, &values));
    assert_true(values[0] == 7.0 && values[1] == 6.0);
    MUST(ferry_scope_close(&scope));
    ferry_double_destroy(&kept);
    assert_int_equal(f->vectors.failure, FERRY_OK);
}

static void
test_vectors_over_buffers(void **state)
{
    struct fixture *f = *state;
    double memory[100];
    ferry_double_buffer buffer = {NULL};
    N_Vector v;
    for (int i = 0; i < 100; i++)
        memory[i] = i;
    MUST(ferry_double_wrap_host(f->context, 100, memory, NULL, &buffer));
    v = N_VMake_Ferry(&f->vectors, buffer, f->sunctx);
    assert_non_null(v);
    N_VScale(2.0, v, v);
    N_VDestroy(v);
    MUST(ferry_double_unwrap(&buffer, NULL));
    assert_true(memory[99] == 198.0);
}

/* Checks that the vectors keep their first failure and that all later results are NaN, so that an
 * integrator fails, too. */
static void
test_failures_are_kept(void **state)
{
    struct fixture *f = *state;
    N_Vector v = N_VNew_Ferry(&f->vectors, 10, f->sunctx),
             shorter = N_VNew_Ferry(&f->vectors, 9, f->sunctx);
    N_Vector both[2];
    double factors[3] = {1.0, 2.0, 3.0}, results[2] = {0};
    both[0] = v;
    both[1] = shorter;
    N_VProd(v, shorter, v);
    assert_int_equal(f->vectors.failure, FERRY_ERROR_OUT_OF_RANGE);
    assert_true(strlen(f->vectors.message) > 0);
    assert_true(isnan(N_VDotProd(v, v)));
    assert_true(isnan(N_VMaxNorm(v)));
    assert_true(isnan(N_VWrmsNorm(v, v)));
    assert_false(N_VInvTest(v, v));
    assert_int_equal(N_VDotProdMulti(2, v, both, results), -1);
    assert_true(isnan(results[0]));
    assert_int_equal(N_VLinearCombination(2, factors, both, v), -1);
    assert_int_equal(f->vectors.failure, FERRY_ERROR_OUT_OF_RANGE);
    f->vectors.failure = FERRY_OK;
    N_VConst(2.0, v);
    assert_true(N_VMaxNorm(v) == 2.0);
    N_VDestroy(shorter);
    N_VDestroy(v);
}

/* Checks that the results of several dot products are downloaded with one copy. */
static void
test_fused_results_cross_together(void **state)
{
    struct fixture *f = *state;
    N_Vector v = N_VNew_Ferry(&f->vectors, 100, f->sunctx), array[3];
    ferry_transfer_stats before, after;
    double results[3];
    array[0] = array[1] = array[2] = v;
    N_VConst(2.0, v);
    MUST(ferry_context_get_transfer_stats(f->context, &before));
    assert_int_equal(N_VDotProdMulti(3, v, array, results), 0);
    assert_true(results[0] == 400.0 && results[2] == 400.0);
    MUST(ferry_context_get_transfer_stats(f->context, &after));
    assert_int_equal(after.upload.bytes, before.upload.bytes);
    if (!is_coherent(f)) {
        assert_int_equal(after.download.bytes - before.download.bytes, 3 * sizeof(double));
        assert_int_equal(after.download.copies - before.download.copies, 1);
    }
    N_VDestroy(v);
}

static void
test_text(void **state)
{
    struct fixture *f = *state;
    N_Vector ours = N_VNew_Ferry(&f->vectors, 3, f->sunctx), theirs = N_VNew_Serial(3, f->sunctx);
    char left[200] = "", right[200] = "";
    FILE *files[2] = {tmpfile(), tmpfile()};
    assert_non_null(files[0]);
    assert_non_null(files[1]);
    N_VConst(1.0 / 3.0, ours);
    N_VConst(1.0 / 3.0, theirs);
    N_VPrintFile(ours, files[0]);
    N_VPrintFile(theirs, files[1]);
    rewind(files[0]);
    rewind(files[1]);
    assert_true(fread(left, 1, sizeof(left) - 1, files[0]) > 0);
    assert_true(fread(right, 1, sizeof(right) - 1, files[1]) > 0);
    assert_string_equal(left, right);
    fclose(files[0]);
    fclose(files[1]);
    N_VDestroy(ours);
    N_VDestroy(theirs);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_maps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reductions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fused_operations, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_operations_on_arrays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_life, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_vectors_without_elements, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pointers_end_with_the_next_operation, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_vectors_over_buffers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failures_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fused_results_cross_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_text, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
