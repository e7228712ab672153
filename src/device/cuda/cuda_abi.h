/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CUDA_ABI_H
#define FERRYI_CUDA_ABI_H

/*
 * Declares the part of the CUDA driver's binary interface that Ferry uses. The declarations are
 * repeated here so that the library builds without the CUDA Toolkit.
 *
 * FERRYI_CUDA_SYMBOLS lists every driver function once, with the suffix that the driver exports.
 * The table of function pointers, the loader and the test driver are generated from that list. If
 * <cuda.h> is installed, tests/device/check_cuda_abi.c compares this file with it.
 *
 * The function names lack the suffixes _ptds and _ptsz, so a NULL stream is the legacy default
 * stream.
 */

#include <stddef.h>
#include <stdint.h>

typedef unsigned int ferryi_cu_result;
typedef int ferryi_cu_device;
typedef unsigned long long ferryi_cu_pointer;
typedef struct CUctx_st *ferryi_cu_context;
typedef struct CUgreenCtx_st *ferryi_cu_green_context;
typedef struct CUstream_st *ferryi_cu_stream;
typedef struct CUevent_st *ferryi_cu_event;
typedef struct CUmod_st *ferryi_cu_module;
typedef struct CUfunc_st *ferryi_cu_function;
typedef struct CUarray_st *ferryi_cu_array;
typedef void (*ferryi_cu_host_function)(void *user);
/* The types below replace enumeration types of <cuda.h>. All of them are unsigned int. */
typedef unsigned int ferryi_cu_device_attribute;
typedef unsigned int ferryi_cu_function_attribute;
typedef unsigned int ferryi_cu_jit_option;
typedef unsigned int ferryi_cu_memory_type;
typedef unsigned int ferryi_cu_pointer_attribute;
typedef unsigned int ferryi_cu_advice;
typedef unsigned int ferryi_cu_capture_mode;
typedef unsigned int ferryi_cu_capture_status;

/* CUmemLocation */
struct ferryi_cu_location {
    unsigned int type;
    int id;
};

/* CUmemcpyAttributes */
struct ferryi_cu_copy_attributes {
    unsigned int source_access_order;
    struct ferryi_cu_location source_hint, target_hint;
    unsigned int flags;
};

/* This struct has the layout of CUDA_MEMCPY2D, as the driver functions with the suffix _v2 expect
 * it. */
struct ferryi_cu_copy_2d {
    size_t source_x_bytes, source_y;
    ferryi_cu_memory_type source_type;
    const void *source_host;
    ferryi_cu_pointer source_device;
    ferryi_cu_array source_array;
    size_t source_pitch;
    size_t target_x_bytes, target_y;
    ferryi_cu_memory_type target_type;
    void *target_host;
    ferryi_cu_pointer target_device;
    ferryi_cu_array target_array;
    size_t target_pitch;
    size_t width_bytes, height;
};

/* CUDA_MEMCPY3D_PEER */
struct ferryi_cu_copy_3d_peer {
    size_t source_x_bytes, source_y, source_z, source_level;
    ferryi_cu_memory_type source_type;
    const void *source_host;
    ferryi_cu_pointer source_device;
    ferryi_cu_array source_array;
    ferryi_cu_context source_context;
    size_t source_pitch, source_height;
    size_t target_x_bytes, target_y, target_z, target_level;
    ferryi_cu_memory_type target_type;
    void *target_host;
    ferryi_cu_pointer target_device;
    ferryi_cu_array target_array;
    ferryi_cu_context target_context;
    size_t target_pitch, target_height;
    size_t width_bytes, height, depth;
};

/* Expands X(name, value, status) once for each driver error. The name of the error's constant in
 * Ferry is FERRYI_<name>. cuda.c converts the error to `status`, a ferry_status. */
#define FERRYI_CUDA_ERRORS(X)                                               \
    X(CUDA_SUCCESS, 0, FERRY_OK)                                            \
    X(CUDA_ERROR_INVALID_VALUE, 1, FERRY_ERROR_DEVICE)                      \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, FERRY_ERROR_OUT_OF_MEMORY)               \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, FERRY_ERROR_DEVICE)                    \
    X(CUDA_ERROR_DEINITIALIZED, 4, FERRY_ERROR_DEVICE_LOST)                 \
    X(CUDA_ERROR_NO_DEVICE, 100, FERRY_ERROR_NO_DEVICE)                     \
    X(CUDA_ERROR_INVALID_DEVICE, 101, FERRY_ERROR_NO_DEVICE)                \
    X(CUDA_ERROR_INVALID_IMAGE, 200, FERRY_ERROR_DEVICE)                    \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, FERRY_ERROR_DEVICE)                  \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, FERRY_ERROR_UNSUPPORTED)           \
    X(CUDA_ERROR_ECC_UNCORRECTABLE, 214, FERRY_ERROR_DEVICE_LOST)           \
    X(CUDA_ERROR_UNSUPPORTED_LIMIT, 215, FERRY_ERROR_UNSUPPORTED)           \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217, FERRY_ERROR_UNSUPPORTED)     \
    X(CUDA_ERROR_INVALID_PTX, 218, FERRY_ERROR_DEVICE)                      \
    X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220, FERRY_ERROR_DEVICE_LOST)        \
    X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221, FERRY_ERROR_UNSUPPORTED)      \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222, FERRY_ERROR_UNSUPPORTED)     \
    X(CUDA_ERROR_JIT_COMPILATION_DISABLED, 223, FERRY_ERROR_UNSUPPORTED)    \
    X(CUDA_ERROR_OPERATING_SYSTEM, 304, FERRY_ERROR_DEVICE)                 \
    X(CUDA_ERROR_INVALID_HANDLE, 400, FERRY_ERROR_DEVICE)                   \
    X(CUDA_ERROR_ILLEGAL_STATE, 401, FERRY_ERROR_DEVICE)                    \
    X(CUDA_ERROR_NOT_FOUND, 500, FERRY_ERROR_DEVICE)                        \
    X(CUDA_ERROR_NOT_READY, 600, FERRY_ERROR_DEVICE)                        \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, FERRY_ERROR_DEVICE_LOST)             \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702, FERRY_ERROR_DEVICE_LOST)              \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, FERRY_ERROR_DEVICE)      \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, FERRY_ERROR_DEVICE_LOST)        \
    X(CUDA_ERROR_ASSERT, 710, FERRY_ERROR_DEVICE_LOST)                      \
    X(CUDA_ERROR_TOO_MANY_PEERS, 711, FERRY_ERROR_DEVICE)                   \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, FERRY_ERROR_CONFLICT) \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713, FERRY_ERROR_DEVICE)       \
    X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714, FERRY_ERROR_DEVICE_LOST)        \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715, FERRY_ERROR_DEVICE_LOST)         \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, FERRY_ERROR_DEVICE_LOST)          \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717, FERRY_ERROR_DEVICE_LOST)       \
    X(CUDA_ERROR_INVALID_PC, 718, FERRY_ERROR_DEVICE_LOST)                  \
    X(CUDA_ERROR_LAUNCH_FAILED, 719, FERRY_ERROR_DEVICE_LOST)               \
    X(CUDA_ERROR_NOT_PERMITTED, 800, FERRY_ERROR_INVALID_STATE)             \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, FERRY_ERROR_UNSUPPORTED)               \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802, FERRY_ERROR_DEVICE)                 \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803, FERRY_ERROR_DEVICE)           \
    X(CUDA_ERROR_MPS_CONNECTION_FAILED, 805, FERRY_ERROR_DEVICE)            \
    X(CUDA_ERROR_MPS_RPC_FAILURE, 806, FERRY_ERROR_DEVICE)                  \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, FERRY_ERROR_UNSUPPORTED)  \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901, FERRY_ERROR_UNSUPPORTED)  \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902, FERRY_ERROR_UNSUPPORTED)        \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903, FERRY_ERROR_UNSUPPORTED)    \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904, FERRY_ERROR_UNSUPPORTED)     \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905, FERRY_ERROR_UNSUPPORTED)    \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906, FERRY_ERROR_UNSUPPORTED)     \
    X(CUDA_ERROR_CAPTURED_EVENT, 907, FERRY_ERROR_UNSUPPORTED)              \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908, FERRY_ERROR_UNSUPPORTED) \
    X(CUDA_ERROR_UNKNOWN, 999, FERRY_ERROR_DEVICE)

#define FERRYI_CUDA_CONSTANTS(X)                                             \
    X(CU_DEVICE_ATTRIBUTE_INTEGRATED, 18)                                    \
    X(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33)                                    \
    X(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 34)                                 \
    X(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 50)                                 \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                      \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                      \
    X(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 83)                                \
    X(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 89)                     \
    X(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 91)       \
    X(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 99)                       \
    X(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 100) \
    X(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 113)            \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                   \
    X(CU_POINTER_ATTRIBUTE_HOST_POINTER, 4)                                  \
    X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                                \
    X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)                    \
    X(CU_JIT_ERROR_LOG_BUFFER, 5)                                            \
    X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)                                 \
    X(CU_MEMHOSTALLOC_PORTABLE, 1)                                           \
    X(CU_MEMHOSTREGISTER_PORTABLE, 1)                                        \
    X(CU_MEMHOSTREGISTER_READ_ONLY, 8)                                       \
    X(CU_MEM_ATTACH_GLOBAL, 1)                                               \
    X(CU_STREAM_NON_BLOCKING, 1)                                             \
    X(CU_EVENT_DEFAULT, 0)                                                   \
    X(CU_EVENT_DISABLE_TIMING, 2)                                            \
    X(CU_MEMORYTYPE_HOST, 1)                                                 \
    X(CU_MEMORYTYPE_DEVICE, 2)                                               \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                                      \
    X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                                    \
    X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)                               \
    X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                                      \
    X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)                                     \
    X(CU_MEM_ADVISE_SET_READ_MOSTLY, 1)                                      \
    X(CU_MEM_ADVISE_UNSET_READ_MOSTLY, 2)                                    \
    X(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 3)                               \
    X(CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 4)                             \
    X(CU_MEM_ADVISE_SET_ACCESSED_BY, 5)                                      \
    X(CU_MEM_ADVISE_UNSET_ACCESSED_BY, 6)

/* Driver errors that CUDA 12 added. The headers of older releases do not define them. */
#define FERRYI_CUDA_ERRORS_12(X)                                      \
    X(CUDA_ERROR_CONTAINED, 226, FERRY_ERROR_DEVICE_LOST)             \
    X(CUDA_ERROR_TENSOR_MEMORY_LEAK, 721, FERRY_ERROR_DEVICE_LOST)    \
    X(CUDA_ERROR_MPS_CLIENT_TERMINATED, 810, FERRY_ERROR_DEVICE_LOST) \
    X(CUDA_ERROR_EXTERNAL_DEVICE, 911, FERRY_ERROR_DEVICE_LOST)

#define FERRYI_CUDA_CONSTANTS_12(X)          \
    X(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 134) \
    X(CU_MEM_LOCATION_TYPE_DEVICE, 1)        \
    X(CU_MEM_LOCATION_TYPE_HOST, 2)          \
    X(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, 1)

#define FERRYI_CUDA_CONSTANT(name, value)      FERRYI_##name = (value),
#define FERRYI_CUDA_ERROR(name, value, status) FERRYI_##name = (value),
enum {
    FERRYI_CUDA_ERRORS(FERRYI_CUDA_ERROR)
    FERRYI_CUDA_ERRORS_12(FERRYI_CUDA_ERROR)
    FERRYI_CUDA_CONSTANTS(FERRYI_CUDA_CONSTANT)
    FERRYI_CUDA_CONSTANTS_12(FERRYI_CUDA_CONSTANT)
};
#undef FERRYI_CUDA_CONSTANT
#undef FERRYI_CUDA_ERROR

/* These handles have a special meaning. They select the legacy default stream, the per-thread
 * default stream, and the CPU. */
#define FERRYI_CU_STREAM_LEGACY     ((ferryi_cu_stream)0x1)
#define FERRYI_CU_STREAM_PER_THREAD ((ferryi_cu_stream)0x2)
#define FERRYI_CU_DEVICE_CPU        ((ferryi_cu_device)-1)

/* A group of driver functions. If a driver lacks one function of a group, Ferry uses no function of
 * that group. If a driver lacks a function of the group REQUIRED, Ferry does not use the driver at
 * all. */
enum ferryi_cuda_group {
    FERRYI_CUDA_REQUIRED = 1 << 0,
    FERRYI_CUDA_BATCH_12_8 = 1 << 1,    /* function for batched copies, with the signature of CUDA 12.8 */
    FERRYI_CUDA_BATCH_13 = 1 << 2,      /* function for batched copies, with the signature of CUDA 13 */
    FERRYI_CUDA_PREFETCH_8 = 1 << 3,    /* functions that prefetch and advise managed memory; they take the ordinal of a device */
    FERRYI_CUDA_PREFETCH_12_2 = 1 << 4, /* functions that prefetch and advise managed memory; they take a CUmemLocation */
    FERRYI_CUDA_CAPTURE = 1 << 5,       /* functions that query whether a stream is being captured, and that set a thread's capture mode */
    FERRYI_CUDA_STREAM_CONTEXT = 1 << 6, /* function that returns the context of a stream (since CUDA 9.2) */
    FERRYI_CUDA_CONTEXT_ID = 1 << 7,     /* function that returns the id of a context, which changes when the device is reset (since CUDA 12.0) */
    FERRYI_CUDA_STREAM_ID = 1 << 9,      /* function that returns the id of a stream (since CUDA 12.0) */
    FERRYI_CUDA_GREEN_CONTEXT = 1 << 10, /* function that returns the green context of a stream and its primary context (since CUDA 12.5) */
    FERRYI_CUDA_FUNCTION_12_4 = 1 << 8,  /* functions that return a kernel's parameters, and that load a kernel's code before its first launch */
};

/* X(group, name, parameters) is expanded once for each driver function. Every function returns
 * ferryi_cu_result. */
#define FERRYI_CUDA_SYMBOLS(X)                                                                                          \
    X(FERRYI_CUDA_REQUIRED, cuInit, (unsigned int flags))                                                               \
    X(FERRYI_CUDA_REQUIRED, cuGetErrorName, (ferryi_cu_result error, const char **out_name))                            \
    X(FERRYI_CUDA_REQUIRED, cuDriverGetVersion, (int *out_version))                                                     \
    X(FERRYI_CUDA_REQUIRED, cuDeviceGetCount, (int *out_count))                                                         \
    X(FERRYI_CUDA_REQUIRED, cuDeviceGet, (ferryi_cu_device * out_device, int ordinal))                                  \
    X(FERRYI_CUDA_REQUIRED, cuDeviceGetName, (char *name, int bytes, ferryi_cu_device device))                          \
    X(FERRYI_CUDA_REQUIRED, cuDeviceGetAttribute,                                                                       \
      (int *out_value, ferryi_cu_device_attribute attribute, ferryi_cu_device device))                                  \
    X(FERRYI_CUDA_REQUIRED, cuDeviceTotalMem_v2, (size_t *out_bytes, ferryi_cu_device device))                          \
    X(FERRYI_CUDA_REQUIRED, cuDeviceCanAccessPeer, (int *out_can, ferryi_cu_device device, ferryi_cu_device peer))      \
    X(FERRYI_CUDA_REQUIRED, cuDevicePrimaryCtxRetain, (ferryi_cu_context * out_context, ferryi_cu_device device))       \
    X(FERRYI_CUDA_REQUIRED, cuDevicePrimaryCtxRelease_v2, (ferryi_cu_device device))                                    \
    X(FERRYI_CUDA_REQUIRED, cuCtxPushCurrent_v2, (ferryi_cu_context context))                                           \
    X(FERRYI_CUDA_REQUIRED, cuCtxPopCurrent_v2, (ferryi_cu_context * out_context))                                      \
    X(FERRYI_CUDA_REQUIRED, cuCtxGetCurrent, (ferryi_cu_context * out_context))                                         \
    X(FERRYI_CUDA_REQUIRED, cuCtxEnablePeerAccess, (ferryi_cu_context peer, unsigned int flags))                        \
    X(FERRYI_CUDA_REQUIRED, cuCtxSynchronize, (void))                                                                   \
    X(FERRYI_CUDA_REQUIRED, cuMemGetInfo_v2, (size_t *out_free, size_t *out_total))                                     \
    X(FERRYI_CUDA_REQUIRED, cuMemAlloc_v2, (ferryi_cu_pointer * out_memory, size_t bytes))                              \
    X(FERRYI_CUDA_REQUIRED, cuMemFree_v2, (ferryi_cu_pointer memory))                                                   \
    X(FERRYI_CUDA_REQUIRED, cuMemAllocManaged, (ferryi_cu_pointer * out_memory, size_t bytes, unsigned int flags))      \
    X(FERRYI_CUDA_REQUIRED, cuMemHostAlloc, (void **out_memory, size_t bytes, unsigned int flags))                      \
    X(FERRYI_CUDA_REQUIRED, cuMemFreeHost, (void *memory))                                                              \
    X(FERRYI_CUDA_REQUIRED, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned int flags))                     \
    X(FERRYI_CUDA_REQUIRED, cuMemHostUnregister, (void *memory))                                                        \
    X(FERRYI_CUDA_REQUIRED, cuPointerGetAttribute,                                                                      \
      (void *out_value, ferryi_cu_pointer_attribute attribute, ferryi_cu_pointer memory))                               \
    X(FERRYI_CUDA_REQUIRED, cuStreamCreate, (ferryi_cu_stream * out_stream, unsigned int flags))                        \
    X(FERRYI_CUDA_REQUIRED, cuStreamDestroy_v2, (ferryi_cu_stream stream))                                              \
    X(FERRYI_CUDA_REQUIRED, cuStreamSynchronize, (ferryi_cu_stream stream))                                             \
    X(FERRYI_CUDA_REQUIRED, cuStreamWaitEvent, (ferryi_cu_stream stream, ferryi_cu_event event, unsigned int flags))    \
    X(FERRYI_CUDA_REQUIRED, cuLaunchHostFunc, (ferryi_cu_stream stream, ferryi_cu_host_function run, void *user))       \
    X(FERRYI_CUDA_REQUIRED, cuEventCreate, (ferryi_cu_event * out_event, unsigned int flags))                           \
    X(FERRYI_CUDA_REQUIRED, cuEventDestroy_v2, (ferryi_cu_event event))                                                 \
    X(FERRYI_CUDA_REQUIRED, cuEventRecord, (ferryi_cu_event event, ferryi_cu_stream stream))                            \
    X(FERRYI_CUDA_REQUIRED, cuEventQuery, (ferryi_cu_event event))                                                      \
    X(FERRYI_CUDA_REQUIRED, cuEventSynchronize, (ferryi_cu_event event))                                                \
    X(FERRYI_CUDA_REQUIRED, cuEventElapsedTime, (float *out_milliseconds, ferryi_cu_event begin, ferryi_cu_event end))  \
    X(FERRYI_CUDA_REQUIRED, cuMemcpyHtoDAsync_v2,                                                                       \
      (ferryi_cu_pointer target, const void *source, size_t bytes, ferryi_cu_stream stream))                            \
    X(FERRYI_CUDA_REQUIRED, cuMemcpyDtoHAsync_v2,                                                                       \
      (void *target, ferryi_cu_pointer source, size_t bytes, ferryi_cu_stream stream))                                  \
    X(FERRYI_CUDA_REQUIRED, cuMemcpyDtoDAsync_v2,                                                                       \
      (ferryi_cu_pointer target, ferryi_cu_pointer source, size_t bytes, ferryi_cu_stream stream))                      \
    X(FERRYI_CUDA_REQUIRED, cuMemcpyPeerAsync,                                                                          \
      (ferryi_cu_pointer target, ferryi_cu_context target_context, ferryi_cu_pointer source,                            \
       ferryi_cu_context source_context, size_t bytes, ferryi_cu_stream stream))                                        \
    X(FERRYI_CUDA_REQUIRED, cuMemcpy2DAsync_v2, (const struct ferryi_cu_copy_2d *copy, ferryi_cu_stream stream))        \
    X(FERRYI_CUDA_REQUIRED, cuMemcpy3DPeerAsync,                                                                        \
      (const struct ferryi_cu_copy_3d_peer *copy, ferryi_cu_stream stream))                                             \
    X(FERRYI_CUDA_REQUIRED, cuMemsetD8Async,                                                                            \
      (ferryi_cu_pointer target, unsigned char value, size_t count, ferryi_cu_stream stream))                           \
    X(FERRYI_CUDA_REQUIRED, cuMemsetD16Async,                                                                           \
      (ferryi_cu_pointer target, unsigned short value, size_t count, ferryi_cu_stream stream))                          \
    X(FERRYI_CUDA_REQUIRED, cuMemsetD32Async,                                                                           \
      (ferryi_cu_pointer target, unsigned int value, size_t count, ferryi_cu_stream stream))                            \
    X(FERRYI_CUDA_REQUIRED, cuModuleLoadDataEx,                                                                         \
      (ferryi_cu_module * out_module, const void *image, unsigned int option_count, ferryi_cu_jit_option *options,      \
       void **values))                                                                                                  \
    X(FERRYI_CUDA_REQUIRED, cuModuleUnload, (ferryi_cu_module module))                                                  \
    X(FERRYI_CUDA_REQUIRED, cuModuleGetFunction,                                                                        \
      (ferryi_cu_function * out_function, ferryi_cu_module module, const char *name))                                   \
    X(FERRYI_CUDA_REQUIRED, cuFuncGetAttribute,                                                                         \
      (int *out_value, ferryi_cu_function_attribute attribute, ferryi_cu_function function))                            \
    X(FERRYI_CUDA_REQUIRED, cuFuncSetAttribute,                                                                         \
      (ferryi_cu_function function, ferryi_cu_function_attribute attribute, int value))                                 \
    X(FERRYI_CUDA_REQUIRED, cuLaunchKernel,                                                                             \
      (ferryi_cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,                      \
       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,                     \
       ferryi_cu_stream stream, void **arguments, void **extra))                                                        \
    X(FERRYI_CUDA_BATCH_12_8, cuMemcpyBatchAsync,                                                                       \
      (ferryi_cu_pointer * targets, ferryi_cu_pointer * sources, size_t *bytes, size_t count,                           \
       struct ferryi_cu_copy_attributes *attributes, size_t *attribute_indices, size_t attribute_count,                 \
       size_t *out_failed, ferryi_cu_stream stream))                                                                    \
    X(FERRYI_CUDA_BATCH_13, cuMemcpyBatchAsync_v2,                                                                      \
      (ferryi_cu_pointer * targets, ferryi_cu_pointer * sources, size_t *bytes, size_t count,                           \
       struct ferryi_cu_copy_attributes *attributes, size_t *attribute_indices, size_t attribute_count,                 \
       ferryi_cu_stream stream))                                                                                        \
    X(FERRYI_CUDA_PREFETCH_8, cuMemPrefetchAsync,                                                                       \
      (ferryi_cu_pointer memory, size_t bytes, ferryi_cu_device device, ferryi_cu_stream stream))                       \
    X(FERRYI_CUDA_PREFETCH_8, cuMemAdvise,                                                                              \
      (ferryi_cu_pointer memory, size_t bytes, ferryi_cu_advice advice, ferryi_cu_device device))                       \
    X(FERRYI_CUDA_PREFETCH_12_2, cuMemPrefetchAsync_v2,                                                                 \
      (ferryi_cu_pointer memory, size_t bytes, struct ferryi_cu_location location, unsigned int flags,                  \
       ferryi_cu_stream stream))                                                                                        \
    X(FERRYI_CUDA_PREFETCH_12_2, cuMemAdvise_v2,                                                                        \
      (ferryi_cu_pointer memory, size_t bytes, ferryi_cu_advice advice, struct ferryi_cu_location location))            \
    X(FERRYI_CUDA_CAPTURE, cuStreamIsCapturing, (ferryi_cu_stream stream, ferryi_cu_capture_status * out_status))       \
    X(FERRYI_CUDA_CAPTURE, cuThreadExchangeStreamCaptureMode, (ferryi_cu_capture_mode * mode))                          \
    X(FERRYI_CUDA_STREAM_CONTEXT, cuStreamGetCtx, (ferryi_cu_stream stream, ferryi_cu_context * out_context))            \
    X(FERRYI_CUDA_CONTEXT_ID, cuCtxGetId, (ferryi_cu_context context, unsigned long long *out_id))                      \
    X(FERRYI_CUDA_GREEN_CONTEXT, cuStreamGetCtx_v2,                                                                     \
      (ferryi_cu_stream stream, ferryi_cu_context * out_context, ferryi_cu_green_context * out_green))                  \
    X(FERRYI_CUDA_STREAM_ID, cuStreamGetId, (ferryi_cu_stream stream, unsigned long long *out_id))                      \
    X(FERRYI_CUDA_FUNCTION_12_4, cuFuncGetParamInfo,                                                                    \
      (ferryi_cu_function function, size_t index, size_t *out_offset, size_t *out_bytes))                               \
    X(FERRYI_CUDA_FUNCTION_12_4, cuFuncLoad, (ferryi_cu_function function))

/* A table of pointers to the driver's functions. ferryi_cuda_driver_load() fills the table. */
struct ferryi_cuda_driver {
    unsigned int groups; /* bits of ferryi_cuda_group; if the bit of a group is not set, the group's functions must not be called and may be NULL */
#define FERRYI_CUDA_MEMBER(group, name, parameters) ferryi_cu_result(*name) parameters;
    FERRYI_CUDA_SYMBOLS(FERRYI_CUDA_MEMBER)
#undef FERRYI_CUDA_MEMBER
};

#endif
