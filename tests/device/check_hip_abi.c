/* SPDX-License-Identifier: MIT */
/*
 * Compares src/device/hip/hip_abi.h and src/device/gpu/gpu_abi.h with the real
 * header of HIP. This file is compiled but never run. The compiler compares each prototype
 * with the declaration of the same symbol, so a wrong type or a missing parameter fails to compile.
 */

/* HIP declares the functions of contexts as deprecated, but has them in every release. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Releases differ in the qualifiers of pointers, which no caller sees. */
#define const
#include <hip/hip_runtime_api.h>

#include "src/device/hip/hip_abi.h"

#define SAME_VALUE(name, value)                                                                    \
    _Static_assert((long long)(name) == (long long)(value), #name " has another value");
#define SAME_ERROR(name, hip_name) SAME_VALUE(hipError##hip_name, FERRYI_GPU_ERROR_##name)
FERRYI_HIP_ERRORS(SAME_ERROR)
SAME_VALUE(hipSuccess, FERRYI_GPU_SUCCESS)
SAME_VALUE(hipErrorInvalidConfiguration, FERRYI_HIP_ERROR_INVALID_CONFIGURATION)
#define SAME_ATTRIBUTE(name, hip_name, number) SAME_VALUE(hipDeviceAttribute##hip_name, number)
FERRYI_HIP_ATTRIBUTES(SAME_ATTRIBUTE)
#if HIP_VERSION_MAJOR >= 6
FERRYI_HIP_ATTRIBUTES_LATER(SAME_ATTRIBUTE)
#endif

SAME_VALUE(HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, FERRYI_GPU_POINTER_ATTRIBUTE_MEMORY_TYPE)
SAME_VALUE(HIP_POINTER_ATTRIBUTE_HOST_POINTER, FERRYI_GPU_POINTER_ATTRIBUTE_HOST_POINTER)
SAME_VALUE(HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, FERRYI_GPU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
SAME_VALUE(hipHostMallocPortable, FERRYI_GPU_MEMHOSTALLOC_PORTABLE)
SAME_VALUE(hipHostRegisterPortable, FERRYI_GPU_MEMHOSTREGISTER_PORTABLE)
SAME_VALUE(hipMemAttachGlobal, FERRYI_GPU_MEM_ATTACH_GLOBAL)
SAME_VALUE(hipStreamNonBlocking, FERRYI_GPU_STREAM_NON_BLOCKING)
SAME_VALUE(hipEventDefault, FERRYI_GPU_EVENT_DEFAULT)
SAME_VALUE(hipEventDisableTiming, FERRYI_GPU_EVENT_DISABLE_TIMING)
SAME_VALUE(hipEventInterprocess, FERRYI_GPU_EVENT_INTERPROCESS)
_Static_assert(hipIpcMemLazyEnablePeerAccess == FERRYI_GPU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
                   hipIpcMemLazyEnablePeerAccess == FERRYI_HIP_IPC_FLAGS_5,
               "the flag has another value");
SAME_VALUE(sizeof(struct ferryi_gpu_memory_token), sizeof(hipIpcMemHandle_t))
SAME_VALUE(sizeof(struct ferryi_gpu_event_token), sizeof(hipIpcEventHandle_t))
SAME_VALUE(hipStreamCaptureStatusNone, FERRYI_GPU_STREAM_CAPTURE_STATUS_NONE)
SAME_VALUE(hipStreamCaptureStatusActive, FERRYI_GPU_STREAM_CAPTURE_STATUS_ACTIVE)
SAME_VALUE(hipStreamCaptureStatusInvalidated, FERRYI_GPU_STREAM_CAPTURE_STATUS_INVALIDATED)
SAME_VALUE(hipStreamCaptureModeGlobal, FERRYI_GPU_STREAM_CAPTURE_MODE_GLOBAL)
SAME_VALUE(hipStreamCaptureModeThreadLocal, FERRYI_GPU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
SAME_VALUE(hipStreamCaptureModeRelaxed, FERRYI_GPU_STREAM_CAPTURE_MODE_RELAXED)
SAME_VALUE(hipMemAdviseSetReadMostly, FERRYI_GPU_MEM_ADVISE_SET_READ_MOSTLY)
SAME_VALUE(hipMemAdviseUnsetReadMostly, FERRYI_GPU_MEM_ADVISE_UNSET_READ_MOSTLY)
SAME_VALUE(hipMemAdviseSetPreferredLocation, FERRYI_GPU_MEM_ADVISE_SET_PREFERRED_LOCATION)
SAME_VALUE(hipMemAdviseUnsetPreferredLocation, FERRYI_GPU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
SAME_VALUE(hipMemAdviseSetAccessedBy, FERRYI_GPU_MEM_ADVISE_SET_ACCESSED_BY)
SAME_VALUE(hipMemAdviseUnsetAccessedBy, FERRYI_GPU_MEM_ADVISE_UNSET_ACCESSED_BY)
SAME_VALUE(hipCpuDeviceId, FERRYI_GPU_DEVICE_CPU)
SAME_VALUE(hipMemcpyDefault, FERRYI_HIP_MEMCPY_DEFAULT)

/* The layouts that changed with ROCm 6. */
#if HIP_VERSION_MAJOR < 6
SAME_VALUE(hipMemoryTypeHost, FERRYI_HIP_MEMORYTYPE_HOST_5)
SAME_VALUE(hipMemoryTypeDevice, FERRYI_HIP_MEMORYTYPE_DEVICE_5)
SAME_VALUE(offsetof(hipDeviceProp_t, gcnArchName), FERRYI_HIP_ARCHITECTURE_5)
#else
SAME_VALUE(hipMemoryTypeHost, FERRYI_GPU_MEMORYTYPE_HOST)
SAME_VALUE(hipMemoryTypeDevice, FERRYI_GPU_MEMORYTYPE_DEVICE)
SAME_VALUE(offsetof(hipDeviceProp_t, gcnArchName), FERRYI_HIP_ARCHITECTURE_6)
#endif
SAME_VALUE(sizeof(((hipDeviceProp_t *)0)->gcnArchName), FERRYI_HIP_ARCHITECTURE_BYTES)
_Static_assert(sizeof(hipDeviceProp_t) <= FERRYI_HIP_PROPERTIES_BYTES, "the properties are larger");

/* A comparison of handles must be a constant expression, which contains no cast to a pointer. */
#define hipStream_t       size_t
#define ferryi_gpu_stream size_t
SAME_VALUE(hipStreamPerThread, FERRYI_HIP_STREAM_PER_THREAD)
#undef hipStream_t
#undef ferryi_gpu_stream

/* From here on, the prototypes of gpu_abi.h use HIP's types, so that whole function types can be
 * compared. */
#define ferryi_gpu_result             hipError_t
#define ferryi_gpu_number             hipDevice_t
#define ferryi_gpu_pointer            hipDeviceptr_t
#define ferryi_gpu_context            hipCtx_t
#define ferryi_gpu_stream             hipStream_t
#define ferryi_gpu_event              hipEvent_t
#define ferryi_gpu_graph              hipGraph_t
#define ferryi_gpu_graph_exec         hipGraphExec_t
#define ferryi_gpu_module             hipModule_t
#define ferryi_gpu_function           hipFunction_t
#define ferryi_gpu_device_attribute   hipDeviceAttribute_t
#define ferryi_gpu_function_attribute hipFunction_attribute
#define ferryi_gpu_jit_option         hipJitOption
#define ferryi_gpu_pointer_attribute  hipPointer_attribute
#define ferryi_gpu_advice             hipMemoryAdvise
#define ferryi_gpu_capture_mode       hipStreamCaptureMode
#define ferryi_gpu_capture_status     hipStreamCaptureStatus
#define ferryi_gpu_memory_token       hipIpcMemHandle_st
#define ferryi_gpu_event_token        hipIpcEventHandle_st
#if HIP_VERSION_MAJOR >= 6
SAME_VALUE(sizeof(struct ferryi_gpu_allocation), sizeof(hipMemAllocationProp))
SAME_VALUE(offsetof(struct ferryi_gpu_allocation, location),
           offsetof(hipMemAllocationProp, location))
SAME_VALUE(offsetof(struct ferryi_gpu_allocation, windows),
           offsetof(hipMemAllocationProp, win32HandleMetaData))
SAME_VALUE(offsetof(struct ferryi_gpu_allocation, compression),
           offsetof(hipMemAllocationProp, allocFlags))
SAME_VALUE(sizeof(struct ferryi_gpu_access), sizeof(hipMemAccessDesc))
SAME_VALUE(offsetof(struct ferryi_gpu_access, flags), offsetof(hipMemAccessDesc, flags))
SAME_VALUE(sizeof(ferryi_gpu_handle), sizeof(hipMemGenericAllocationHandle_t))
SAME_VALUE(hipMemLocationTypeDevice, FERRYI_GPU_MEM_LOCATION_TYPE_DEVICE)
SAME_VALUE(hipMemAllocationTypePinned, FERRYI_GPU_MEM_ALLOCATION_TYPE_PINNED)
SAME_VALUE(hipMemAllocationGranularityMinimum, FERRYI_GPU_MEM_ALLOC_GRANULARITY_MINIMUM)
SAME_VALUE(hipMemAccessFlagsProtReadWrite, FERRYI_GPU_MEM_ACCESS_FLAGS_PROT_READWRITE)
#define ferryi_gpu_handle      hipMemGenericAllocationHandle_t
#define ferryi_gpu_granularity hipMemAllocationGranularity_flags
/* These structs have a name without a tag in HIP. */
typedef hipError_t create_handle(hipMemGenericAllocationHandle_t *handle, size_t bytes,
                                 hipMemAllocationProp *allocation, unsigned long long flags);
typedef hipError_t get_granularity(size_t *bytes, hipMemAllocationProp *allocation,
                                   hipMemAllocationGranularity_flags option);
typedef hipError_t set_access(void *memory, size_t bytes, hipMemAccessDesc *access, size_t count);
#endif

#define SAME_TYPE(name, type)                                                                      \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), type),                           \
                   #name " has another prototype");

#define PROTOTYPE(Y, group, member, parameters) typedef hipError_t check_##member parameters;
FERRYI_GPU_FUNCTIONS(PROTOTYPE, )

/* This function takes the pattern as an int. */
typedef hipError_t fill_32_of_int(hipDeviceptr_t target, int value, size_t count,
                                  hipStream_t stream);
SAME_TYPE(hipMemsetD32Async, fill_32_of_int)
extern check_fill_32 fill_32_of_unsigned;
#define hipMemsetD32Async            fill_32_of_unsigned
#define SAME_PROTOTYPE(member, name) SAME_TYPE(name, check_##member)
FERRYI_HIP_SAME(SAME_PROTOTYPE)
FERRYI_HIP_LATER(SAME_PROTOTYPE)
#if HIP_VERSION_MAJOR >= 6
SAME_TYPE(hipMemCreate, create_handle)
SAME_TYPE(hipMemGetAllocationGranularity, get_granularity)
SAME_TYPE(hipMemSetAccess, set_access)
SAME_PROTOTYPE(range_reserve, hipMemAddressReserve)
SAME_PROTOTYPE(range_free, hipMemAddressFree)
SAME_PROTOTYPE(handle_release, hipMemRelease)
SAME_PROTOTYPE(range_map, hipMemMap)
SAME_PROTOTYPE(range_unmap, hipMemUnmap)
#endif

/* The functions that hip.c adapts: enumerations there are unsigned here. */
typedef const char *get_error_name(hipError_t error);
SAME_TYPE(hipGetErrorName, get_error_name)
typedef hipError_t copy_peer(void *target, int target_device, const void *source, int source_device,
                             size_t bytes, hipStream_t stream);
SAME_TYPE(hipMemcpyPeerAsync, copy_peer)
typedef hipError_t copy_2d(void *target, size_t target_pitch, const void *source,
                           size_t source_pitch, size_t width_bytes, size_t height,
                           hipMemcpyKind kind, hipStream_t stream);
SAME_TYPE(hipMemcpy2DAsync, copy_2d)
SAME_TYPE(hipIpcOpenMemHandle, check_memory_open)
#if HIP_VERSION_MAJOR >= 6
typedef hipError_t launch_cooperative(hipFunction_t function, unsigned int grid_x,
                                      unsigned int grid_y, unsigned int grid_z,
                                      unsigned int block_x, unsigned int block_y,
                                      unsigned int block_z, unsigned int shared_bytes,
                                      hipStream_t stream, void **arguments);
SAME_TYPE(hipModuleLaunchCooperativeKernel, launch_cooperative)
#endif
typedef void callback(hipStream_t stream, hipError_t status, void *user);
typedef hipError_t add_callback(hipStream_t stream, callback *run, void *user, unsigned int flags);
SAME_TYPE(hipStreamAddCallback, add_callback)
typedef hipError_t get_properties(hipDeviceProp_t *properties, int device);
SAME_TYPE(hipGetDeviceProperties, get_properties)
_Static_assert(sizeof(hipError_t) == sizeof(unsigned int) &&
                   sizeof(hipMemcpyKind) == sizeof(unsigned int),
               "an enumeration has another size");
