/* SPDX-License-Identifier: MIT */
#ifndef BY_HAND_H
#define BY_HAND_H

/*
 * Vectors of SUNDIALS that call the CUDA driver directly. The vectors of examples/sundials are
 * compared with them. They use one stream and make no unnecessary copy or driver call. They launch
 * the kernels of examples/sundials by name, and implement the vector operations that CVODE and
 * GMRES call.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sundials/sundials_nvector.h>

struct by_hand_driver;

/* State that the hand-written vectors share: a device, a stream, the kernels, and memory for the
 * results of reductions. Only one thread may use it. */
struct by_hand {
    const struct by_hand_driver *driver;
    void *context, *stream, *module;
    uint64_t partial, result; /**< device memory */
    double *scalar;           /**< page-locked host memory */
    uint64_t up, down;        /**< numbers of bytes that crossed the link */
    int failure;              /**< the first status of the driver that is not 0 */
};

/**
 * Opens device 0 of the driver library that FERRY_CUDA_LIBRARY names. This library must be a fake
 * driver, because the kernels contain no device code.
 */
bool by_hand_open(struct by_hand *out);
void by_hand_close(struct by_hand *by_hand);
/**
 * Launches the kernel named `entry` with a thread for each of `items` items. `arguments` has the
 * format of the parameter kernelParams of cuLaunchKernel().
 */
void by_hand_launch(struct by_hand *by_hand, const char *entry, size_t items, void **arguments);

/* Returns a new vector with undefined values, or NULL on failure. */
N_Vector by_hand_vector(struct by_hand *by_hand, sunindextype length, SUNContext sunctx);
/** Returns the device address of the vector's values. */
uint64_t by_hand_address(N_Vector v);
void by_hand_upload(N_Vector v, const double *values);
void by_hand_download(N_Vector v, double *out);

#endif
