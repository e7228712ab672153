/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CUDA_ABI_H
#define FERRYI_CUDA_ABI_H

/*
 * Declares what the CUDA driver's binary interface adds to gpu_abi.h: the names of its functions and
 * numbers, with the suffixes that the driver exports, and the numbers that only it has. If <cuda.h> is
 * installed, tests/device/check_cuda_abi.c compares both files with it.
 *
 * The function names lack the suffixes _ptds and _ptsz, so a NULL stream is the legacy default
 * stream.
 */

#include "src/device/gpu/gpu_abi.h"

/* The names of the driver's functions. */
#define FERRYI_CUDA_NAME_init                   cuInit
#define FERRYI_CUDA_NAME_error_name             cuGetErrorName
#define FERRYI_CUDA_NAME_version                cuDriverGetVersion
#define FERRYI_CUDA_NAME_device_count           cuDeviceGetCount
#define FERRYI_CUDA_NAME_device                 cuDeviceGet
#define FERRYI_CUDA_NAME_device_name            cuDeviceGetName
#define FERRYI_CUDA_NAME_device_attribute       cuDeviceGetAttribute
#define FERRYI_CUDA_NAME_device_bytes           cuDeviceTotalMem_v2
#define FERRYI_CUDA_NAME_can_access_peer        cuDeviceCanAccessPeer
#define FERRYI_CUDA_NAME_context_retain         cuDevicePrimaryCtxRetain
#define FERRYI_CUDA_NAME_context_release        cuDevicePrimaryCtxRelease_v2
#define FERRYI_CUDA_NAME_context_push           cuCtxPushCurrent_v2
#define FERRYI_CUDA_NAME_context_pop            cuCtxPopCurrent_v2
#define FERRYI_CUDA_NAME_context_current        cuCtxGetCurrent
#define FERRYI_CUDA_NAME_peer_enable            cuCtxEnablePeerAccess
#define FERRYI_CUDA_NAME_context_synchronize    cuCtxSynchronize
#define FERRYI_CUDA_NAME_memory_info            cuMemGetInfo_v2
#define FERRYI_CUDA_NAME_memory_alloc           cuMemAlloc_v2
#define FERRYI_CUDA_NAME_memory_free            cuMemFree_v2
#define FERRYI_CUDA_NAME_managed_alloc          cuMemAllocManaged
#define FERRYI_CUDA_NAME_host_alloc             cuMemHostAlloc
#define FERRYI_CUDA_NAME_host_free              cuMemFreeHost
#define FERRYI_CUDA_NAME_host_register          cuMemHostRegister_v2
#define FERRYI_CUDA_NAME_host_unregister        cuMemHostUnregister
#define FERRYI_CUDA_NAME_pointer_attribute      cuPointerGetAttribute
#define FERRYI_CUDA_NAME_stream_create          cuStreamCreate
#define FERRYI_CUDA_NAME_stream_destroy         cuStreamDestroy_v2
#define FERRYI_CUDA_NAME_stream_synchronize     cuStreamSynchronize
#define FERRYI_CUDA_NAME_stream_wait            cuStreamWaitEvent
#define FERRYI_CUDA_NAME_host_call              cuLaunchHostFunc
#define FERRYI_CUDA_NAME_event_create           cuEventCreate
#define FERRYI_CUDA_NAME_event_destroy          cuEventDestroy_v2
#define FERRYI_CUDA_NAME_event_record           cuEventRecord
#define FERRYI_CUDA_NAME_event_query            cuEventQuery
#define FERRYI_CUDA_NAME_event_synchronize      cuEventSynchronize
#define FERRYI_CUDA_NAME_event_elapsed          cuEventElapsedTime
#define FERRYI_CUDA_NAME_upload                 cuMemcpyHtoDAsync_v2
#define FERRYI_CUDA_NAME_download               cuMemcpyDtoHAsync_v2
#define FERRYI_CUDA_NAME_copy                   cuMemcpyDtoDAsync_v2
#define FERRYI_CUDA_NAME_copy_peer              cuMemcpyPeerAsync
#define FERRYI_CUDA_NAME_copy_2d                cuMemcpy2DAsync_v2
#define FERRYI_CUDA_NAME_copy_peer_2d           cuMemcpy3DPeerAsync
#define FERRYI_CUDA_NAME_fill_8                 cuMemsetD8Async
#define FERRYI_CUDA_NAME_fill_16                cuMemsetD16Async
#define FERRYI_CUDA_NAME_fill_32                cuMemsetD32Async
#define FERRYI_CUDA_NAME_module_load            cuModuleLoadDataEx
#define FERRYI_CUDA_NAME_module_unload          cuModuleUnload
#define FERRYI_CUDA_NAME_module_function        cuModuleGetFunction
#define FERRYI_CUDA_NAME_function_attribute     cuFuncGetAttribute
#define FERRYI_CUDA_NAME_function_set_attribute cuFuncSetAttribute
#define FERRYI_CUDA_NAME_launch                 cuLaunchKernel
#define FERRYI_CUDA_NAME_launch_with            cuLaunchKernelEx
#define FERRYI_CUDA_NAME_copy_batch             cuMemcpyBatchAsync
#define FERRYI_CUDA_NAME_copy_batch_2           cuMemcpyBatchAsync_v2
#define FERRYI_CUDA_NAME_prefetch               cuMemPrefetchAsync
#define FERRYI_CUDA_NAME_advise                 cuMemAdvise
#define FERRYI_CUDA_NAME_prefetch_2             cuMemPrefetchAsync_v2
#define FERRYI_CUDA_NAME_advise_2               cuMemAdvise_v2
#define FERRYI_CUDA_NAME_stream_is_capturing    cuStreamIsCapturing
#define FERRYI_CUDA_NAME_capture_mode           cuThreadExchangeStreamCaptureMode
#define FERRYI_CUDA_NAME_capture_begin          cuStreamBeginCapture_v2
#define FERRYI_CUDA_NAME_capture_end            cuStreamEndCapture
#define FERRYI_CUDA_NAME_graph_instantiate      cuGraphInstantiateWithFlags
#define FERRYI_CUDA_NAME_graph_destroy          cuGraphDestroy
#define FERRYI_CUDA_NAME_graph_launch           cuGraphLaunch
#define FERRYI_CUDA_NAME_graph_exec_destroy     cuGraphExecDestroy
#define FERRYI_CUDA_NAME_range_granularity      cuMemGetAllocationGranularity
#define FERRYI_CUDA_NAME_range_reserve          cuMemAddressReserve
#define FERRYI_CUDA_NAME_range_free             cuMemAddressFree
#define FERRYI_CUDA_NAME_handle_create          cuMemCreate
#define FERRYI_CUDA_NAME_handle_release         cuMemRelease
#define FERRYI_CUDA_NAME_range_map              cuMemMap
#define FERRYI_CUDA_NAME_range_unmap            cuMemUnmap
#define FERRYI_CUDA_NAME_range_access           cuMemSetAccess
#define FERRYI_CUDA_NAME_memory_token           cuIpcGetMemHandle
#define FERRYI_CUDA_NAME_memory_open            cuIpcOpenMemHandle_v2
#define FERRYI_CUDA_NAME_memory_close           cuIpcCloseMemHandle
#define FERRYI_CUDA_NAME_event_token            cuIpcGetEventHandle
#define FERRYI_CUDA_NAME_event_open             cuIpcOpenEventHandle
#define FERRYI_CUDA_NAME_stream_context         cuStreamGetCtx
#define FERRYI_CUDA_NAME_context_id             cuCtxGetId
#define FERRYI_CUDA_NAME_stream_green_context   cuStreamGetCtx_v2
#define FERRYI_CUDA_NAME_stream_id              cuStreamGetId
#define FERRYI_CUDA_NAME_function_parameter     cuFuncGetParamInfo
#define FERRYI_CUDA_NAME_function_load          cuFuncLoad

/* Expands X(group, name, parameters) for each driver function. */
#define FERRYI_CUDA_SYMBOLS(X)                           FERRYI_GPU_FUNCTIONS(FERRYI_CUDA_SYMBOL, X)
#define FERRYI_CUDA_SYMBOL(X, group, member, parameters) \
    FERRYI_CUDA_EXPANDED(X, group, FERRYI_CUDA_NAME_##member, parameters)
#define FERRYI_CUDA_EXPANDED(X, group, name, parameters) X(group, name, parameters)

/* Expands X(name, value, status) for each error. */
#define FERRYI_CUDA_ERRORS(X) X(CUDA_SUCCESS, 0, FERRY_OK) FERRYI_GPU_ERRORS(FERRYI_CUDA_ERROR, X)
#define FERRYI_CUDA_ERRORS_12(X) FERRYI_GPU_LATER_ERRORS(FERRYI_CUDA_ERROR, X)
#define FERRYI_CUDA_ERROR(X, name, value, status) X(CUDA_ERROR_##name, value, status)

/* Expands X(name, value) for each number that all vendors share. */
#define FERRYI_CUDA_CONSTANTS(X)             FERRYI_GPU_CONSTANTS(FERRYI_CUDA_CONSTANT, X)
#define FERRYI_CUDA_CONSTANTS_12(X)          FERRYI_GPU_LATER_CONSTANTS(FERRYI_CUDA_CONSTANT, X)
#define FERRYI_CUDA_CONSTANT(X, name, value) X(CU_##name, value)

/* Expands X(name, number) for each attribute of gpu_abi.h that the driver has. */
#define FERRYI_CUDA_ATTRIBUTES(X)                        \
    X(INTEGRATED, 18)                                    \
    X(PCI_BUS_ID, 33)                                    \
    X(PCI_DEVICE_ID, 34)                                 \
    X(UNIFIED_ADDRESSING, 41)                            \
    X(PCI_DOMAIN_ID, 50)                                 \
    X(MANAGED_MEMORY, 83)                                \
    X(CONCURRENT_MANAGED_ACCESS, 89)                     \
    X(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 91)       \
    X(COOPERATIVE_LAUNCH, 95)                            \
    X(HOST_REGISTER_SUPPORTED, 99)                       \
    X(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)          \
    X(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 100) \
    X(READ_ONLY_HOST_REGISTER_SUPPORTED, 113)

/* The attributes that the driver has since CUDA 11.8, 12.0 and 12.2. */
#define FERRYI_CUDA_ATTRIBUTES_12(X) \
    X(CLUSTER_LAUNCH, 120) X(IPC_EVENT_SUPPORTED, 125) X(HOST_NUMA_ID, 134)

/* The attributes that no other vendor has. */
#define FERRYI_CUDA_OWN_ATTRIBUTES(X) X(COMPUTE_CAPABILITY_MAJOR, 75) X(COMPUTE_CAPABILITY_MINOR, 76)

#define FERRYI_CUDA_ATTRIBUTE(name, number) FERRYI_CU_DEVICE_ATTRIBUTE_##name = (number),
enum {
    FERRYI_CUDA_ATTRIBUTES(FERRYI_CUDA_ATTRIBUTE)
    FERRYI_CUDA_ATTRIBUTES_12(FERRYI_CUDA_ATTRIBUTE)
    FERRYI_CUDA_OWN_ATTRIBUTES(FERRYI_CUDA_ATTRIBUTE)
};
#undef FERRYI_CUDA_ATTRIBUTE

/* These handles have a special meaning. They select the legacy default stream and the per-thread
 * default stream. */
#define FERRYI_CU_STREAM_LEGACY     ((ferryi_gpu_stream)0x1)
#define FERRYI_CU_STREAM_PER_THREAD ((ferryi_gpu_stream)0x2)

#endif
