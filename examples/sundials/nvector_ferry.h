/* SPDX-License-Identifier: MIT */
#ifndef NVECTOR_FERRY_H
#define NVECTOR_FERRY_H

/*
 * A vector of SUNDIALS in a buffer of Ferry. Every operation is a kernel on one stream, and the kernels are generated
 * from nvector.json. SUNDIALS and the user's functions may use host pointers, device pointers and kernels in any order:
 * nothing is copied that is current where it is used.
 *
 * - N_VGetArrayPointer() and N_VGetDeviceArrayPointer() return pointers that nothing closes. Both open an UPDATE scope
 *   that the next operation on the vector closes, so a pointer is valid until then. A checked run (FERRY_DEBUG=1) faults
 *   where a host pointer is used longer. Work on a device pointer is queued on the stream of nvector_ferry.
 * - A pointer has no access mode: the vector is copied to its side, and is newer there afterwards. N_VGetBuffer_Ferry()
 *   returns the buffer, on which READ and OVERWRITE scopes copy less.
 * - The results of maps have the bits of the serial vector. Sums are added in another order, see docs/with-sundials.md.
 * - The operations of SUNDIALS return no status. The first failure stays in nvector_ferry: reductions then return NaN,
 *   so that integrators end, and fused operations return -1.
 * - There is no N_VSetArrayPointer(), as in the CUDA vector of SUNDIALS. N_VMake_Ferry() takes a buffer, which may wrap
 *   memory of the program.
 */

#include <sundials/sundials_nvector.h>

#include <ferry/double.h>
#include <ferry/ferry.h>

#include "nvector_kernels.h"

FERRY_STATIC_ASSERT(sizeof(sunrealtype) == sizeof(double), "these vectors are for a SUNDIALS of double precision");

#ifdef __cplusplus
extern "C" {
#endif

/** What the vectors of one stream share. It must outlive them. One thread uses it at a time. */
typedef struct nvector_ferry {
    ferry_stream *stream;   /**< borrowed */
    ferry_context *context; /**< borrowed */
    nv_kernels kernels;
    ferry_status failure; /**< the first failure of an operation; FERRY_OK when there was none */
    char message[256];    /**< of this failure */
    uint64_t scalars;     /**< results that reductions have returned to the host */
} nvector_ferry;

/**
 * Prepares vectors on `stream`. Compiles the kernels where the context has a CUDA device, and blocks meanwhile.
 * @param stream NULL: the default stream of place 1
 * @return as ferry_kernel_create(); on failure `*out` is unchanged.
 */
ferry_status nvector_ferry_create(ferry_context *context, ferry_stream *stream, nvector_ferry *out);
/** Destroys the kernels. NULL and an empty struct have no effect. */
void nvector_ferry_destroy(nvector_ferry *vectors);

/** Returns a new vector of `length` zeros, or NULL. N_VDestroy() destroys it. */
N_Vector N_VNew_Ferry(nvector_ferry *vectors, sunindextype length, SUNContext sunctx);
/** Returns a vector over `buffer`, of which it becomes one more owner, or NULL. */
N_Vector N_VMake_Ferry(nvector_ferry *vectors, ferry_double_buffer buffer, SUNContext sunctx);
/** Returns the vector's buffer, borrowed; {NULL} for a vector of N_VCloneEmpty(). Pointers to the vector end. */
ferry_double_buffer N_VGetBuffer_Ferry(N_Vector v);
/** Returns what the vector shares with others. */
nvector_ferry *N_VGetShared_Ferry(N_Vector v);
/** Enables the fused and array operations of the vector and of later clones, or disables them. New vectors have them. */
int N_VEnableFusedOps_Ferry(N_Vector v, sunbooleantype enable);

#ifdef __cplusplus
}
#endif

#endif
