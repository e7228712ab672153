/* SPDX-License-Identifier: MIT */
#ifndef BY_HAND_DRIVER_H
#define BY_HAND_DRIVER_H

/* Declares the functions of the CUDA driver that the hand-written programs of the benchmarks call.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Parameters of a driver call that copies rows of bytes. Source and target each have a pitch. The
 * layout is that of CUDA_MEMCPY2D.
 */
struct by_hand_rows {
    size_t source_x, source_y;
    unsigned source_type;
    const void *source_host;
    uint64_t source_device;
    void *source_array;
    size_t source_pitch;
    size_t target_x, target_y;
    unsigned target_type;
    void *target_host;
    uint64_t target_device;
    void *target_array;
    size_t target_pitch;
    size_t width_bytes, height;
};

enum { BY_HAND_HOST = 1, BY_HAND_DEVICE = 2 }; /* types of memory */

/* Calls the macro X(name, parameters) for each function of the CUDA driver that the hand-written
 * programs call. Each of these functions returns a status. */
#define BY_HAND_DRIVER(X)                                                                          \
    X(cuInit, (unsigned flags))                                                                    \
    X(cuDeviceGet, (int *out, int ordinal))                                                        \
    X(cuDevicePrimaryCtxRetain, (void **out, int device))                                          \
    X(cuDevicePrimaryCtxRelease_v2, (int device))                                                  \
    X(cuCtxPushCurrent_v2, (void *context))                                                        \
    X(cuCtxPopCurrent_v2, (void **out))                                                            \
    X(cuStreamCreate, (void **out, unsigned flags))                                                \
    X(cuStreamDestroy_v2, (void *stream))                                                          \
    X(cuStreamSynchronize, (void *stream))                                                         \
    X(cuMemAlloc_v2, (uint64_t * out, size_t bytes))                                               \
    X(cuMemFree_v2, (uint64_t memory))                                                             \
    X(cuMemHostAlloc, (void **out, size_t bytes, unsigned flags))                                  \
    X(cuMemFreeHost, (void *memory))                                                               \
    X(cuMemcpyHtoDAsync_v2, (uint64_t target, const void *source, size_t bytes, void *stream))     \
    X(cuMemcpyDtoHAsync_v2, (void *target, uint64_t source, size_t bytes, void *stream))           \
    X(cuMemcpy2DAsync_v2, (const struct by_hand_rows *rows, void *stream))                         \
    X(cuModuleLoadDataEx,                                                                          \
      (void **out, const void *image, unsigned count, int *options, void **values))                \
    X(cuModuleUnload, (void *module))                                                              \
    X(cuModuleGetFunction, (void **out, void *module, const char *name))                           \
    X(cuLaunchKernel,                                                                              \
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,            \
       unsigned bz, unsigned shared_bytes, void *stream, void **arguments, void **extra))

struct by_hand_driver {
#define BY_HAND_MEMBER(name, parameters) int(*name) parameters;
    BY_HAND_DRIVER(BY_HAND_MEMBER)
#undef BY_HAND_MEMBER
};

/**
 * Looks up the functions of the CUDA driver in a library. Returns NULL on success, or the name of a
 * missing function.
 */
const char *by_hand_driver_find(void *library, struct by_hand_driver *out);

/**
 * Looks up the driver's functions in the library that FERRY_CUDA_LIBRARY names. This library must
 * be a fake driver, because the kernels of the hand-written programs contain no device code.
 */
bool by_hand_driver_load_fake(struct by_hand_driver *out);

#endif
