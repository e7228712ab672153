/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_HIP_ABI_H
#define FERRYI_HIP_ABI_H

/*
 * Declares what HIP's binary interface adds to gpu_abi.h: the names of its functions, the functions
 * whose parameters differ, and HIP's numbers. If HIP's headers are installed,
 * tests/device/check_hip_abi.c compares this file with it.
 */

#include "src/device/gpu/gpu_abi.h"

/* Expands X(member, name) for each function that has the parameters of gpu_abi.h. */
#define FERRYI_HIP_SAME(X)                                \
    X(init, hipInit)                                      \
    X(version, hipRuntimeGetVersion)                      \
    X(device_count, hipGetDeviceCount)                    \
    X(device, hipDeviceGet)                               \
    X(device_name, hipDeviceGetName)                      \
    X(device_attribute, hipDeviceGetAttribute)            \
    X(device_bytes, hipDeviceTotalMem)                    \
    X(can_access_peer, hipDeviceCanAccessPeer)            \
    X(context_retain, hipDevicePrimaryCtxRetain)          \
    X(context_release, hipDevicePrimaryCtxRelease)        \
    X(context_push, hipCtxPushCurrent)                    \
    X(context_pop, hipCtxPopCurrent)                      \
    X(context_current, hipCtxGetCurrent)                  \
    X(peer_enable, hipCtxEnablePeerAccess)                \
    X(context_synchronize, hipDeviceSynchronize)          \
    X(memory_info, hipMemGetInfo)                         \
    X(memory_alloc, hipMalloc)                            \
    X(memory_free, hipFree)                               \
    X(managed_alloc, hipMallocManaged)                    \
    X(host_alloc, hipHostMalloc)                          \
    X(host_free, hipHostFree)                             \
    X(host_register, hipHostRegister)                     \
    X(host_unregister, hipHostUnregister)                 \
    X(stream_create, hipStreamCreateWithFlags)            \
    X(stream_destroy, hipStreamDestroy)                   \
    X(stream_synchronize, hipStreamSynchronize)           \
    X(stream_wait, hipStreamWaitEvent)                    \
    X(event_create, hipEventCreateWithFlags)              \
    X(event_destroy, hipEventDestroy)                     \
    X(event_record, hipEventRecord)                       \
    X(event_query, hipEventQuery)                         \
    X(event_synchronize, hipEventSynchronize)             \
    X(event_elapsed, hipEventElapsedTime)                 \
    X(upload, hipMemcpyHtoDAsync)                         \
    X(download, hipMemcpyDtoHAsync)                       \
    X(copy, hipMemcpyDtoDAsync)                           \
    X(fill_8, hipMemsetD8Async)                           \
    X(fill_16, hipMemsetD16Async)                         \
    X(fill_32, hipMemsetD32Async)                         \
    X(module_load, hipModuleLoadDataEx)                   \
    X(module_unload, hipModuleUnload)                     \
    X(module_function, hipModuleGetFunction)              \
    X(function_attribute, hipFuncGetAttribute)            \
    X(launch, hipModuleLaunchKernel)                      \
    X(prefetch, hipMemPrefetchAsync)                      \
    X(advise, hipMemAdvise)                               \
    X(stream_is_capturing, hipStreamIsCapturing)          \
    X(capture_mode, hipThreadExchangeStreamCaptureMode)   \
    X(capture_begin, hipStreamBeginCapture)               \
    X(capture_end, hipStreamEndCapture)                   \
    X(graph_instantiate, hipGraphInstantiateWithFlags)    \
    X(graph_destroy, hipGraphDestroy)                     \
    X(graph_launch, hipGraphLaunch)                       \
    X(graph_exec_destroy, hipGraphExecDestroy)            \
    X(memory_token, hipIpcGetMemHandle)                   \
    X(memory_close, hipIpcCloseMemHandle)                 \
    X(event_token, hipIpcGetEventHandle)                  \
    X(event_open, hipIpcOpenEventHandle)                  \
    X(pointer_attribute, hipPointerGetAttribute)

/* The same for each function that has these parameters, but that not every library exports. */
#define FERRYI_HIP_LATER(X) X(host_call, hipLaunchHostFunc) /* since ROCm 5.3 */

/* The same for the functions that map memory. Earlier releases do not export all of them. */
#define FERRYI_HIP_RANGES(X)                                  \
    X(range_granularity, hipMemGetAllocationGranularity)      \
    X(range_reserve, hipMemAddressReserve)                    \
    X(range_free, hipMemAddressFree)                          \
    X(handle_create, hipMemCreate)                            \
    X(handle_release, hipMemRelease)                          \
    X(range_map, hipMemMap)                                   \
    X(range_unmap, hipMemUnmap)                               \
    X(range_access, hipMemSetAccess)

/* Expands X(member, name, result, parameters) for each function that replaces one of gpu_abi.h, but
 * has other parameters or another result. hip.c adapts them. Not every library exports the last. */
#define FERRYI_HIP_OTHER(X)                                                                        \
    X(error_name, hipGetErrorName, const char *, (ferryi_gpu_result error))                        \
    X(copy_peer, hipMemcpyPeerAsync, ferryi_gpu_result,                                            \
      (void *target, int target_device, const void *source, int source_device, size_t bytes,       \
       ferryi_gpu_stream stream))                                                                  \
    X(copy_2d, hipMemcpy2DAsync, ferryi_gpu_result,                                                \
      (void *target, size_t target_pitch, const void *source, size_t source_pitch,                 \
       size_t width_bytes, size_t height, unsigned int kind, ferryi_gpu_stream stream))            \
    X(memory_open, hipIpcOpenMemHandle, ferryi_gpu_result,                                         \
      (void **out_memory, struct ferryi_gpu_memory_token token, unsigned int flags))               \
    X(launch_with, hipModuleLaunchCooperativeKernel, ferryi_gpu_result,                            \
      (ferryi_gpu_function function, unsigned int grid_x, unsigned int grid_y,                     \
       unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,      \
       unsigned int shared_bytes, ferryi_gpu_stream stream, void **arguments))

typedef void (*ferryi_hip_callback)(ferryi_gpu_stream stream, ferryi_gpu_result status, void *user);

/* Expands X(name, result, parameters) for each function that gpu_abi.h has not. A library has one of
 * the first two and may have both. It has the third if it lacks hipLaunchHostFunc. */
#define FERRYI_HIP_OWN(X)                                                                          \
    X(hipGetDevicePropertiesR0600, ferryi_gpu_result, (void *properties, int device))              \
    X(hipGetDeviceProperties, ferryi_gpu_result, (void *properties, int device))                   \
    X(hipStreamAddCallback, ferryi_gpu_result,                                                     \
      (ferryi_gpu_stream stream, ferryi_hip_callback callback, void *user, unsigned int flags))

/* Expands X(name, HIP's name, number) for each attribute of gpu_abi.h that HIP has. */
#define FERRYI_HIP_ATTRIBUTES(X)                                                                   \
    X(INTEGRATED, Integrated, 16)                                                                  \
    X(PCI_BUS_ID, PciBusId, 67)                                                                    \
    X(PCI_DEVICE_ID, PciDeviceId, 68)                                                              \
    X(PCI_DOMAIN_ID, PciDomainID, 69)                                                              \
    X(MANAGED_MEMORY, ManagedMemory, 24)                                                           \
    X(CONCURRENT_MANAGED_ACCESS, ConcurrentManagedAccess, 9)                                       \
    X(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, PageableMemoryAccessUsesHostPageTables, 66)    \
    X(SHARED_BYTES_WITHOUT_OPT_IN, MaxSharedMemoryPerBlock, 74)                                    \
    X(COOPERATIVE_LAUNCH, CooperativeLaunch, 10)

/* The same for an attribute that HIP has since ROCm 5.3. */
#define FERRYI_HIP_ATTRIBUTES_LATER(X)                                                             \
    X(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, VirtualMemoryManagementSupported, 89)

/* The type of a copy whose direction the runtime finds out from its pointers. */
#define FERRYI_HIP_MEMCPY_DEFAULT 4

/* The only flags with which an old release, such as 5.2, opens memory of another process. Later
 * releases take those of gpu_abi.h. */
#define FERRYI_HIP_IPC_FLAGS_5 0

/* The handle of the per-thread default stream. The handle 1 of the legacy default stream exists only
 * since ROCm 6.2, so that stream is NULL. */
#define FERRYI_HIP_STREAM_PER_THREAD ((ferryi_gpu_stream)0x2)

/* Where the properties of a device contain the name of its architecture. hipGetDeviceProperties()
 * fills the struct of ROCm 5, hipGetDevicePropertiesR0600() that of ROCm 6. */
#define FERRYI_HIP_ARCHITECTURE_5     396
#define FERRYI_HIP_ARCHITECTURE_6     1160
#define FERRYI_HIP_ARCHITECTURE_BYTES 256
#define FERRYI_HIP_PROPERTIES_BYTES   4096 /* more than either struct has */

/* Numbers of the types of memory before ROCm 6. Since then they are those of gpu_abi.h. */
#define FERRYI_HIP_MEMORYTYPE_HOST_5   0
#define FERRYI_HIP_MEMORYTYPE_DEVICE_5 1

/* Expands X(name, HIP's name) for each error of gpu_abi.h that HIP has. */
#define FERRYI_HIP_ERRORS(X)                                       \
    X(INVALID_VALUE, InvalidValue)                                 \
    X(OUT_OF_MEMORY, OutOfMemory)                                  \
    X(NOT_INITIALIZED, NotInitialized)                             \
    X(DEINITIALIZED, Deinitialized)                                \
    X(NO_DEVICE, NoDevice)                                         \
    X(INVALID_DEVICE, InvalidDevice)                               \
    X(INVALID_IMAGE, InvalidImage)                                 \
    X(INVALID_CONTEXT, InvalidContext)                             \
    X(MAP_FAILED, MapFailed)                                       \
    X(NO_BINARY_FOR_GPU, NoBinaryForGpu)                           \
    X(ECC_UNCORRECTABLE, ECCNotCorrectable)                        \
    X(UNSUPPORTED_LIMIT, UnsupportedLimit)                         \
    X(PEER_ACCESS_UNSUPPORTED, PeerAccessUnsupported)              \
    X(INVALID_PTX, InvalidKernelFile)                              \
    X(OPERATING_SYSTEM, OperatingSystem)                           \
    X(INVALID_HANDLE, InvalidHandle)                               \
    X(ILLEGAL_STATE, IllegalState)                                 \
    X(NOT_FOUND, NotFound)                                         \
    X(NOT_READY, NotReady)                                         \
    X(ILLEGAL_ADDRESS, IllegalAddress)                             \
    X(LAUNCH_TIMEOUT, LaunchTimeOut)                               \
    X(PEER_ACCESS_ALREADY_ENABLED, PeerAccessAlreadyEnabled)       \
    X(CONTEXT_IS_DESTROYED, ContextIsDestroyed)                    \
    X(ASSERT, Assert)                                              \
    X(HOST_MEMORY_ALREADY_REGISTERED, HostMemoryAlreadyRegistered) \
    X(HOST_MEMORY_NOT_REGISTERED, HostMemoryNotRegistered)         \
    X(LAUNCH_FAILED, LaunchFailure)                                \
    X(COOPERATIVE_LAUNCH_TOO_LARGE, CooperativeLaunchTooLarge)     \
    X(NOT_SUPPORTED, NotSupported)                                 \
    X(STREAM_CAPTURE_UNSUPPORTED, StreamCaptureUnsupported)        \
    X(STREAM_CAPTURE_INVALIDATED, StreamCaptureInvalidated)        \
    X(STREAM_CAPTURE_MERGE, StreamCaptureMerge)                    \
    X(STREAM_CAPTURE_UNMATCHED, StreamCaptureUnmatched)            \
    X(STREAM_CAPTURE_UNJOINED, StreamCaptureUnjoined)              \
    X(STREAM_CAPTURE_ISOLATION, StreamCaptureIsolation)            \
    X(STREAM_CAPTURE_IMPLICIT, StreamCaptureImplicit)              \
    X(CAPTURED_EVENT, CapturedEvent)                               \
    X(STREAM_CAPTURE_WRONG_THREAD, StreamCaptureWrongThread)       \
    X(UNKNOWN, Unknown)

#define FERRYI_HIP_ERROR_INVALID_CONFIGURATION 9

/* Most threads of a launch in one dimension. */
#define FERRYI_HIP_THREADS_MAX UINT32_MAX

#endif
