/* SPDX-License-Identifier: MIT */
/*
 * Compares src/device/cuda/cuda_abi.h and src/device/gpu/gpu_abi.h with the real <cuda.h>. This
 * file is compiled but never run. The compiler compares each prototype of cuda_abi.h with the
 * declaration of the same symbol in <cuda.h>. So a wrong type, a wrong suffix or a missing
 * parameter fails to compile.
 */

/* With this macro <cuda.h> declares every version of every function under its exported name. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "src/device/cuda/cuda_abi.h"

#define SAME_VALUE(name, value)                                                                    \
    _Static_assert((long long)(name) == (value), #name " has another value");
#define SAME_ERROR(name, value, status) SAME_VALUE(name, value)
FERRYI_CUDA_ERRORS(SAME_ERROR)
FERRYI_CUDA_CONSTANTS(SAME_VALUE)
#define SAME_ATTRIBUTE(name, value) SAME_VALUE(CU_DEVICE_ATTRIBUTE_##name, value)
FERRYI_CUDA_ATTRIBUTES(SAME_ATTRIBUTE)
FERRYI_CUDA_OWN_ATTRIBUTES(SAME_ATTRIBUTE)
#if CUDA_VERSION >= 12080
FERRYI_CUDA_ERRORS_12(SAME_ERROR)
FERRYI_CUDA_CONSTANTS_12(SAME_VALUE)
FERRYI_CUDA_ATTRIBUTES_12(SAME_ATTRIBUTE)
#endif

#define SAME_SIZE(ours, theirs)                                                                    \
    _Static_assert(sizeof(ours) == sizeof(theirs), #theirs " has another size")
#define SAME_TYPE(ours, theirs)                                                                    \
    _Static_assert(__builtin_types_compatible_p(ours, theirs), #theirs " is another type")
#define SAME_FIELD(ours, our_field, theirs, their_field)                                           \
    _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) &&                   \
                       sizeof(((ours *)0)->our_field) == sizeof(((theirs *)0)->their_field),       \
                   #their_field " lies elsewhere or has another size")

SAME_SIZE(ferryi_gpu_result, CUresult);
SAME_SIZE(ferryi_gpu_device_attribute, CUdevice_attribute);
SAME_SIZE(ferryi_gpu_function_attribute, CUfunction_attribute);
SAME_SIZE(ferryi_gpu_jit_option, CUjit_option);
SAME_SIZE(ferryi_gpu_memory_type, CUmemorytype);
SAME_SIZE(ferryi_gpu_pointer_attribute, CUpointer_attribute);
SAME_SIZE(ferryi_gpu_advice, CUmem_advise);
SAME_SIZE(ferryi_gpu_capture_mode, CUstreamCaptureMode);
SAME_SIZE(ferryi_gpu_capture_status, CUstreamCaptureStatus);
SAME_TYPE(ferryi_gpu_number, CUdevice);
SAME_TYPE(ferryi_gpu_pointer, CUdeviceptr);
SAME_SIZE(ferryi_gpu_context, CUcontext);
SAME_SIZE(ferryi_gpu_stream, CUstream);
SAME_SIZE(ferryi_gpu_event, CUevent);
SAME_SIZE(ferryi_gpu_module, CUmodule);
SAME_SIZE(ferryi_gpu_function, CUfunction);
SAME_SIZE(ferryi_gpu_array, CUarray);
SAME_SIZE(ferryi_gpu_graph, CUgraph);
SAME_SIZE(ferryi_gpu_graph_exec, CUgraphExec);
SAME_TYPE(ferryi_gpu_host_function, CUhostFn);

/* Compares the fields that all structs of row copies have. */
#define SAME_RECTANGLES(ours, theirs)                                                              \
    SAME_FIELD(ours, source_x_bytes, theirs, srcXInBytes);                                         \
    SAME_FIELD(ours, source_y, theirs, srcY);                                                      \
    SAME_FIELD(ours, source_type, theirs, srcMemoryType);                                          \
    SAME_FIELD(ours, source_host, theirs, srcHost);                                                \
    SAME_FIELD(ours, source_device, theirs, srcDevice);                                            \
    SAME_FIELD(ours, source_array, theirs, srcArray);                                              \
    SAME_FIELD(ours, source_pitch, theirs, srcPitch);                                              \
    SAME_FIELD(ours, target_x_bytes, theirs, dstXInBytes);                                         \
    SAME_FIELD(ours, target_y, theirs, dstY);                                                      \
    SAME_FIELD(ours, target_type, theirs, dstMemoryType);                                          \
    SAME_FIELD(ours, target_host, theirs, dstHost);                                                \
    SAME_FIELD(ours, target_device, theirs, dstDevice);                                            \
    SAME_FIELD(ours, target_array, theirs, dstArray);                                              \
    SAME_FIELD(ours, target_pitch, theirs, dstPitch);                                              \
    SAME_FIELD(ours, width_bytes, theirs, WidthInBytes);                                           \
    SAME_FIELD(ours, height, theirs, Height)

SAME_SIZE(struct ferryi_gpu_copy_2d, CUDA_MEMCPY2D);
SAME_RECTANGLES(struct ferryi_gpu_copy_2d, CUDA_MEMCPY2D);

SAME_SIZE(struct ferryi_gpu_copy_3d_peer, CUDA_MEMCPY3D_PEER);
SAME_RECTANGLES(struct ferryi_gpu_copy_3d_peer, CUDA_MEMCPY3D_PEER);
SAME_FIELD(struct ferryi_gpu_copy_3d_peer, source_z, CUDA_MEMCPY3D_PEER, srcZ);
SAME_FIELD(struct ferryi_gpu_copy_3d_peer, source_level, CUDA_MEMCPY3D_PEER, srcLOD);
SAME_FIELD(struct ferryi_gpu_copy_3d_peer, source_context, CUDA_MEMCPY3D_PEER, srcContext);
SAME_FIELD(struct ferryi_gpu_copy_3d_peer, source_height, CUDA_MEMCPY3D_PEER, srcHeight);
SAME_FIELD(struct ferryi_gpu_copy_3d_peer, target_z, CUDA_MEMCPY3D_PEER, dstZ);
SAME_FIELD(struct ferryi_gpu_copy_3d_peer, target_level, CUDA_MEMCPY3D_PEER, dstLOD);
SAME_FIELD(struct ferryi_gpu_copy_3d_peer, target_context, CUDA_MEMCPY3D_PEER, dstContext);
SAME_FIELD(struct ferryi_gpu_copy_3d_peer, target_height, CUDA_MEMCPY3D_PEER, dstHeight);
SAME_FIELD(struct ferryi_gpu_copy_3d_peer, depth, CUDA_MEMCPY3D_PEER, Depth);

#if CUDA_VERSION >= 12020
SAME_SIZE(struct ferryi_gpu_location, CUmemLocation);
SAME_FIELD(struct ferryi_gpu_location, type, CUmemLocation, type);
SAME_FIELD(struct ferryi_gpu_location, id, CUmemLocation, id);
#endif

#if CUDA_VERSION >= 12080
SAME_SIZE(struct ferryi_gpu_copy_attributes, CUmemcpyAttributes);
SAME_FIELD(struct ferryi_gpu_copy_attributes, source_access_order, CUmemcpyAttributes,
           srcAccessOrder);
SAME_FIELD(struct ferryi_gpu_copy_attributes, source_hint, CUmemcpyAttributes, srcLocHint);
SAME_FIELD(struct ferryi_gpu_copy_attributes, target_hint, CUmemcpyAttributes, dstLocHint);
SAME_FIELD(struct ferryi_gpu_copy_attributes, flags, CUmemcpyAttributes, flags);
#endif

#if CUDA_VERSION >= 12000
SAME_SIZE(struct ferryi_gpu_launch_attribute, CUlaunchAttribute);
SAME_FIELD(struct ferryi_gpu_launch_attribute, id, CUlaunchAttribute, id);
SAME_FIELD(struct ferryi_gpu_launch_attribute, value, CUlaunchAttribute, value);
SAME_FIELD(struct ferryi_gpu_launch_attribute, value.on, CUlaunchAttribute, value.cooperative);
SAME_FIELD(struct ferryi_gpu_launch_attribute, value.on, CUlaunchAttribute,
           value.programmaticStreamSerializationAllowed);
SAME_FIELD(struct ferryi_gpu_launch_attribute, value.cluster, CUlaunchAttribute, value.clusterDim);
SAME_FIELD(struct ferryi_gpu_launch_attribute, value.cluster[0], CUlaunchAttribute,
           value.clusterDim.x);
SAME_FIELD(struct ferryi_gpu_launch_attribute, value.cluster[1], CUlaunchAttribute,
           value.clusterDim.y);
SAME_FIELD(struct ferryi_gpu_launch_attribute, value.cluster[2], CUlaunchAttribute,
           value.clusterDim.z);

SAME_SIZE(struct ferryi_gpu_launch_config, CUlaunchConfig);
SAME_FIELD(struct ferryi_gpu_launch_config, grid_x, CUlaunchConfig, gridDimX);
SAME_FIELD(struct ferryi_gpu_launch_config, grid_y, CUlaunchConfig, gridDimY);
SAME_FIELD(struct ferryi_gpu_launch_config, grid_z, CUlaunchConfig, gridDimZ);
SAME_FIELD(struct ferryi_gpu_launch_config, block_x, CUlaunchConfig, blockDimX);
SAME_FIELD(struct ferryi_gpu_launch_config, block_y, CUlaunchConfig, blockDimY);
SAME_FIELD(struct ferryi_gpu_launch_config, block_z, CUlaunchConfig, blockDimZ);
SAME_FIELD(struct ferryi_gpu_launch_config, shared_bytes, CUlaunchConfig, sharedMemBytes);
SAME_FIELD(struct ferryi_gpu_launch_config, stream, CUlaunchConfig, hStream);
SAME_FIELD(struct ferryi_gpu_launch_config, attributes, CUlaunchConfig, attrs);
SAME_FIELD(struct ferryi_gpu_launch_config, attribute_count, CUlaunchConfig, numAttrs);
#endif
SAME_SIZE(struct ferryi_gpu_memory_token, CUipcMemHandle);
SAME_FIELD(struct ferryi_gpu_memory_token, bytes, CUipcMemHandle, reserved);
SAME_SIZE(struct ferryi_gpu_event_token, CUipcEventHandle);
SAME_FIELD(struct ferryi_gpu_event_token, bytes, CUipcEventHandle, reserved);
SAME_SIZE(ferryi_gpu_handle, CUmemGenericAllocationHandle);
SAME_SIZE(ferryi_gpu_granularity, CUmemAllocationGranularity_flags);
SAME_SIZE(struct ferryi_gpu_allocation, CUmemAllocationProp);
SAME_FIELD(struct ferryi_gpu_allocation, type, CUmemAllocationProp, type);
SAME_FIELD(struct ferryi_gpu_allocation, shared_types, CUmemAllocationProp, requestedHandleTypes);
SAME_FIELD(struct ferryi_gpu_allocation, location, CUmemAllocationProp, location);
SAME_FIELD(struct ferryi_gpu_allocation, windows, CUmemAllocationProp, win32HandleMetaData);
SAME_FIELD(struct ferryi_gpu_allocation, compression, CUmemAllocationProp,
           allocFlags.compressionType);
SAME_FIELD(struct ferryi_gpu_allocation, direct_rdma, CUmemAllocationProp,
           allocFlags.gpuDirectRDMACapable);
SAME_FIELD(struct ferryi_gpu_allocation, usage, CUmemAllocationProp, allocFlags.usage);
SAME_SIZE(struct ferryi_gpu_access, CUmemAccessDesc);
SAME_FIELD(struct ferryi_gpu_access, location, CUmemAccessDesc, location);
SAME_FIELD(struct ferryi_gpu_access, flags, CUmemAccessDesc, flags);

_Static_assert((int)CU_DEVICE_CPU == (int)FERRYI_GPU_DEVICE_CPU, "the host has another ordinal");

/* Replaces the stream types of both headers by integers, because the comparisons below must be
 * constant expressions. A constant expression must not contain a cast to a pointer. */
#define CUstream          size_t
#define ferryi_gpu_stream size_t
_Static_assert(CU_STREAM_LEGACY == FERRYI_CU_STREAM_LEGACY,
               "the legacy default stream has another handle");
_Static_assert(CU_STREAM_PER_THREAD == FERRYI_CU_STREAM_PER_THREAD,
               "the per-thread stream has another handle");
#undef CUstream
#undef ferryi_gpu_stream

/* From here on, the prototypes of cuda_abi.h use the types of <cuda.h>, so that whole function
 * types can be compared. */
#define ferryi_gpu_context            CUcontext
#define ferryi_gpu_green_context      CUgreenCtx
#define ferryi_gpu_stream             CUstream
#define ferryi_gpu_event              CUevent
#define ferryi_gpu_module             CUmodule
#define ferryi_gpu_function           CUfunction
#define ferryi_gpu_graph              CUgraph
#define ferryi_gpu_graph_exec         CUgraphExec
#define ferryi_gpu_result             CUresult
#define ferryi_gpu_device_attribute   CUdevice_attribute
#define ferryi_gpu_function_attribute CUfunction_attribute
#define ferryi_gpu_jit_option         CUjit_option
#define ferryi_gpu_pointer_attribute  CUpointer_attribute
#define ferryi_gpu_advice             CUmem_advise
#define ferryi_gpu_capture_mode       CUstreamCaptureMode
#define ferryi_gpu_capture_status     CUstreamCaptureStatus
#define ferryi_gpu_location           CUmemLocation_st
#define ferryi_gpu_allocation         CUmemAllocationProp_st
#define ferryi_gpu_access             CUmemAccessDesc_st
#define ferryi_gpu_granularity        CUmemAllocationGranularity_flags
#define ferryi_gpu_copy_attributes    CUmemcpyAttributes_st
#define ferryi_gpu_memory_token       CUipcMemHandle_st
#define ferryi_gpu_event_token        CUipcEventHandle_st
#define ferryi_gpu_copy_2d            CUDA_MEMCPY2D_st
#define ferryi_gpu_launch_config      CUlaunchConfig_st
#define ferryi_gpu_copy_3d_peer       CUDA_MEMCPY3D_PEER_st

/* Declares the prototype of cuda_abi.h, and asserts that the declaration of the same name in
 * <cuda.h> is compatible. */
#define SAME_PROTOTYPE(name, parameters)                                                           \
    typedef CUresult check_##name parameters;                                                      \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), check_##name),                   \
                   #name " has another prototype");

#define PROTOTYPE(group, name, parameters) PICK_##group(name, parameters)
#define PICK_REQUIRED                      SAME_PROTOTYPE
#define PICK_PREFETCH                      SAME_PROTOTYPE
#define PICK_CAPTURE                       SAME_PROTOTYPE
#define PICK_RANGE                         SAME_PROTOTYPE
#define PICK_SHARE                         SAME_PROTOTYPE
#define PICK_STREAM_CONTEXT                SAME_PROTOTYPE
#define LATER(name, parameters)
#if CUDA_VERSION >= 11040
#define PICK_GRAPH SAME_PROTOTYPE
#else
#define PICK_GRAPH LATER
#endif
#if CUDA_VERSION >= 12000
#define PICK_CONTEXT_ID SAME_PROTOTYPE
#define PICK_STREAM_ID  SAME_PROTOTYPE
#define PICK_LAUNCH     SAME_PROTOTYPE
#else
#define PICK_CONTEXT_ID LATER
#define PICK_STREAM_ID  LATER
#define PICK_LAUNCH     LATER
#endif
#if CUDA_VERSION >= 12020
#define PICK_PREFETCH_2 SAME_PROTOTYPE
#else
#define PICK_PREFETCH_2 LATER
#endif
#if CUDA_VERSION >= 12040
#define PICK_FUNCTION SAME_PROTOTYPE
#else
#define PICK_FUNCTION LATER
#endif
#if CUDA_VERSION >= 12050
#define PICK_GREEN_CONTEXT SAME_PROTOTYPE
#else
#define PICK_GREEN_CONTEXT LATER
#endif
#if CUDA_VERSION >= 12080
#define PICK_BATCH SAME_PROTOTYPE
#else
#define PICK_BATCH LATER
#endif
#if CUDA_VERSION >= 13000
#define PICK_BATCH_2 SAME_PROTOTYPE
#else
#define PICK_BATCH_2 LATER
#endif

FERRYI_CUDA_SYMBOLS(PROTOTYPE)
