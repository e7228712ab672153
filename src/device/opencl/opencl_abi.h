/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_OPENCL_ABI_H
#define FERRYI_OPENCL_ABI_H

/*
 * Declarations of the parts of OpenCL that Ferry uses. They replace the headers of
 * OpenCL, so that the library is built without them. tests/device/check_opencl_abi.c
 * compares them with the real headers.
 *
 * The loader library libOpenCL.so.1 exports the functions of OpenCL. Functions of extensions differ
 * between platforms; the loader library returns their addresses for one platform.
 */

#include <stddef.h>
#include <stdint.h>

/* NOLINTBEGIN(bugprone-reserved-identifier): the names of the real headers */
typedef struct _cl_platform_id *ferryi_cl_platform;
typedef struct _cl_device_id *ferryi_cl_device;
typedef struct _cl_context *ferryi_cl_context;
typedef struct _cl_command_queue *ferryi_cl_queue;
typedef struct _cl_program *ferryi_cl_program;
typedef struct _cl_kernel *ferryi_cl_kernel;
typedef struct _cl_event *ferryi_cl_event;
typedef struct _cl_mem *ferryi_cl_memory;
/* NOLINTEND(bugprone-reserved-identifier) */
typedef int32_t ferryi_cl_int;
typedef uint32_t ferryi_cl_uint;
typedef uint64_t ferryi_cl_bits;
typedef intptr_t ferryi_cl_property; /* of a context */
typedef uint64_t ferryi_cl_memory_property;

/* X(name, value, status) is expanded once for each error whose name Ferry prints. A driver reports
 * a device that no longer works as a device that is not available, or as a queue that is invalid.
 */
#define FERRYI_OPENCL_ERRORS(X)                                                                    \
    X(CL_SUCCESS, 0, FERRY_OK)                                                                     \
    X(CL_DEVICE_NOT_FOUND, -1, FERRY_ERROR_NO_DEVICE)                                              \
    X(CL_DEVICE_NOT_AVAILABLE, -2, FERRY_ERROR_DEVICE_LOST)                                        \
    X(CL_COMPILER_NOT_AVAILABLE, -3, FERRY_ERROR_UNSUPPORTED)                                      \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE, -4, FERRY_ERROR_OUT_OF_MEMORY)                             \
    X(CL_OUT_OF_RESOURCES, -5, FERRY_ERROR_DEVICE)                                                 \
    X(CL_OUT_OF_HOST_MEMORY, -6, FERRY_ERROR_OUT_OF_MEMORY)                                        \
    X(CL_PROFILING_INFO_NOT_AVAILABLE, -7, FERRY_ERROR_DEVICE)                                     \
    X(CL_MEM_COPY_OVERLAP, -8, FERRY_ERROR_DEVICE)                                                 \
    X(CL_BUILD_PROGRAM_FAILURE, -11, FERRY_ERROR_COMPILE)                                          \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, -14, FERRY_ERROR_DEVICE)                       \
    X(CL_COMPILE_PROGRAM_FAILURE, -15, FERRY_ERROR_COMPILE)                                        \
    X(CL_KERNEL_ARG_INFO_NOT_AVAILABLE, -19, FERRY_ERROR_UNSUPPORTED)                              \
    X(CL_INVALID_VALUE, -30, FERRY_ERROR_DEVICE)                                                   \
    X(CL_INVALID_DEVICE, -33, FERRY_ERROR_DEVICE)                                                  \
    X(CL_INVALID_CONTEXT, -34, FERRY_ERROR_DEVICE)                                                 \
    X(CL_INVALID_QUEUE_PROPERTIES, -35, FERRY_ERROR_UNSUPPORTED)                                   \
    X(CL_INVALID_COMMAND_QUEUE, -36, FERRY_ERROR_DEVICE_LOST)                                      \
    X(CL_INVALID_HOST_PTR, -37, FERRY_ERROR_DEVICE)                                                \
    X(CL_INVALID_BINARY, -42, FERRY_ERROR_UNSUPPORTED)                                             \
    X(CL_INVALID_BUILD_OPTIONS, -43, FERRY_ERROR_COMPILE)                                          \
    X(CL_INVALID_PROGRAM, -44, FERRY_ERROR_DEVICE)                                                 \
    X(CL_INVALID_PROGRAM_EXECUTABLE, -45, FERRY_ERROR_DEVICE)                                      \
    X(CL_INVALID_KERNEL_NAME, -46, FERRY_ERROR_DEVICE)                                             \
    X(CL_INVALID_KERNEL, -48, FERRY_ERROR_DEVICE)                                                  \
    X(CL_INVALID_ARG_INDEX, -49, FERRY_ERROR_INVALID_ARGUMENT)                                     \
    X(CL_INVALID_ARG_VALUE, -50, FERRY_ERROR_DEVICE)                                               \
    X(CL_INVALID_ARG_SIZE, -51, FERRY_ERROR_WRONG_TYPE)                                            \
    X(CL_INVALID_KERNEL_ARGS, -52, FERRY_ERROR_INVALID_ARGUMENT)                                   \
    X(CL_INVALID_WORK_GROUP_SIZE, -54, FERRY_ERROR_DEVICE)                                         \
    X(CL_INVALID_WORK_ITEM_SIZE, -55, FERRY_ERROR_DEVICE)                                          \
    X(CL_INVALID_EVENT_WAIT_LIST, -57, FERRY_ERROR_DEVICE)                                         \
    X(CL_INVALID_EVENT, -58, FERRY_ERROR_DEVICE)                                                   \
    X(CL_INVALID_OPERATION, -59, FERRY_ERROR_UNSUPPORTED)                                          \
    X(CL_INVALID_BUFFER_SIZE, -61, FERRY_ERROR_OUT_OF_MEMORY)                                      \
    X(CL_PLATFORM_NOT_FOUND_KHR, -1001, FERRY_ERROR_NO_DEVICE)

#define FERRYI_OPENCL_CONSTANTS(X)                                                                 \
    X(CL_PLATFORM_NAME, 0x0902)                                                                    \
    X(CL_DEVICE_TYPE_CPU, 1 << 1)                                                                  \
    X(CL_DEVICE_TYPE_GPU, 1 << 2)                                                                  \
    X(CL_DEVICE_TYPE, 0x1000)                                                                      \
    X(CL_DEVICE_ADDRESS_BITS, 0x100D)                                                              \
    X(CL_DEVICE_MAX_MEM_ALLOC_SIZE, 0x1010)                                                        \
    X(CL_DEVICE_SINGLE_FP_CONFIG, 0x101B)                                                          \
    X(CL_DEVICE_GLOBAL_MEM_SIZE, 0x101F)                                                           \
    X(CL_DEVICE_ENDIAN_LITTLE, 0x1026)                                                             \
    X(CL_DEVICE_AVAILABLE, 0x1027)                                                                 \
    X(CL_DEVICE_COMPILER_AVAILABLE, 0x1028)                                                        \
    X(CL_DEVICE_NAME, 0x102B)                                                                      \
    X(CL_DRIVER_VERSION, 0x102D)                                                                   \
    X(CL_DEVICE_EXTENSIONS, 0x1030)                                                                \
    X(CL_DEVICE_HOST_UNIFIED_MEMORY, 0x1035)                                                       \
    X(CL_DEVICE_SVM_CAPABILITIES, 0x1053)                                                          \
    X(CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, 0x4039)                                                    \
    X(CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL, 0x4190)                                               \
    X(CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL, 0x4191)                                             \
    X(CL_DEVICE_SVM_COARSE_GRAIN_BUFFER, 1 << 0)                                                   \
    X(CL_DEVICE_SVM_FINE_GRAIN_BUFFER, 1 << 1)                                                     \
    X(CL_FP_DENORM, 1 << 0)                                                                        \
    X(CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, 1 << 7)                                                 \
    X(CL_MAP_READ, 1 << 0)                                                                         \
    X(CL_MAP_WRITE, 1 << 1)                                                                        \
    X(CL_MEM_USE_HOST_PTR, 1 << 3)                                                                 \
    X(CL_MEM_ALLOC_HOST_PTR, 1 << 4)                                                               \
    X(CL_QUEUE_REFERENCE_COUNT, 0x1092)                                                            \
    X(CL_DEVICE_IL_VERSION, 0x105B)                                                                \
    X(CL_DEVICE_SVM_FINE_GRAIN_SYSTEM, 1 << 2)                                                     \
    X(CL_KERNEL_EXEC_INFO_SVM_PTRS, 0x11B6)                                                        \
    X(CL_KERNEL_EXEC_INFO_INDIRECT_HOST_ACCESS_INTEL, 0x4200)                                      \
    X(CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL, 0x4201)                                    \
    X(CL_KERNEL_EXEC_INFO_INDIRECT_SHARED_ACCESS_INTEL, 0x4202)                                    \
    X(CL_MEM_ALLOC_TYPE_INTEL, 0x419A)                                                             \
    X(CL_MEM_TYPE_UNKNOWN_INTEL, 0x4196)                                                           \
    X(CL_MEM_TYPE_HOST_INTEL, 0x4197)                                                              \
    X(CL_MEM_TYPE_DEVICE_INTEL, 0x4198)                                                            \
    X(CL_MEM_TYPE_SHARED_INTEL, 0x4199)                                                            \
    X(CL_MEM_READ_WRITE, 1 << 0)                                                                   \
    X(CL_MEM_SVM_FINE_GRAIN_BUFFER, 1 << 10)                                                       \
    X(CL_CONTEXT_PLATFORM, 0x1084)                                                                 \
    X(CL_QUEUE_CONTEXT, 0x1090)                                                                    \
    X(CL_QUEUE_DEVICE, 0x1091)                                                                     \
    X(CL_QUEUE_PROPERTIES, 0x1093)                                                                 \
    X(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 1 << 0)                                              \
    X(CL_QUEUE_PROFILING_ENABLE, 1 << 1)                                                           \
    X(CL_PROGRAM_BUILD_LOG, 0x1183)                                                                \
    X(CL_KERNEL_NUM_ARGS, 0x1191)                                                                  \
    X(CL_KERNEL_ARG_ADDRESS_QUALIFIER, 0x1196)                                                     \
    X(CL_KERNEL_ARG_TYPE_NAME, 0x1198)                                                             \
    X(CL_KERNEL_ARG_ADDRESS_PRIVATE, 0x119E)                                                       \
    X(CL_EVENT_COMMAND_EXECUTION_STATUS, 0x11D3)                                                   \
    X(CL_COMPLETE, 0)                                                                              \
    X(CL_PROFILING_COMMAND_END, 0x1283)                                                            \
    X(CL_FALSE, 0)

#define FERRYI_CL_DEVICE_TYPE_ALL                ((ferryi_cl_bits)0xFFFFFFFF)

#define FERRYI_OPENCL_ERROR(name, value, status) FERRYI_##name = (value),
#define FERRYI_OPENCL_CONSTANT(name, value)      FERRYI_##name = (value),
enum { FERRYI_OPENCL_ERRORS(FERRYI_OPENCL_ERROR) };
enum { FERRYI_OPENCL_CONSTANTS(FERRYI_OPENCL_CONSTANT) };
#undef FERRYI_OPENCL_ERROR
#undef FERRYI_OPENCL_CONSTANT

enum ferryi_opencl_group {
    FERRYI_OPENCL_REQUIRED = 1 << 0, /* OpenCL 1.2 */
    FERRYI_OPENCL_2_0 = 1 << 1,      /* shared virtual memory */
    FERRYI_OPENCL_IL = 1 << 2,       /* SPIR-V, OpenCL 2.1 */
};

#define FERRYI_OPENCL_WAITS                                                                        \
    ferryi_cl_uint wait_count, const ferryi_cl_event *waits, ferryi_cl_event *out

/* X(group, result, name, parameters) is expanded once for each function of the ICD loader. */
#define FERRYI_OPENCL_SYMBOLS(X)                                                                   \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clGetPlatformIDs,                                     \
      (ferryi_cl_uint, ferryi_cl_platform *, ferryi_cl_uint *))                                    \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clGetPlatformInfo,                                    \
      (ferryi_cl_platform, ferryi_cl_uint name, size_t, void *, size_t *))                         \
    X(FERRYI_OPENCL_REQUIRED, void *, clGetExtensionFunctionAddressForPlatform,                    \
      (ferryi_cl_platform, const char *))                                                          \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clGetDeviceIDs,                                       \
      (ferryi_cl_platform, ferryi_cl_bits type, ferryi_cl_uint, ferryi_cl_device *,                \
       ferryi_cl_uint *))                                                                          \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clGetDeviceInfo,                                      \
      (ferryi_cl_device, ferryi_cl_uint name, size_t, void *, size_t *))                           \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_context, clCreateContext,                                  \
      (const ferryi_cl_property *, ferryi_cl_uint, const ferryi_cl_device *,                       \
       void (*notify)(const char *, const void *, size_t, void *), void *, ferryi_cl_int *))       \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_queue, clCreateCommandQueue,                               \
      (ferryi_cl_context, ferryi_cl_device, ferryi_cl_bits, ferryi_cl_int *))                      \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clRetainCommandQueue, (ferryi_cl_queue))              \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clReleaseCommandQueue, (ferryi_cl_queue))             \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clGetCommandQueueInfo,                                \
      (ferryi_cl_queue, ferryi_cl_uint name, size_t, void *, size_t *))                            \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clFlush, (ferryi_cl_queue))                           \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clFinish, (ferryi_cl_queue))                          \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clEnqueueMarkerWithWaitList,                          \
      (ferryi_cl_queue, FERRYI_OPENCL_WAITS))                                                      \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clEnqueueBarrierWithWaitList,                         \
      (ferryi_cl_queue, FERRYI_OPENCL_WAITS))                                                      \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_event, clCreateUserEvent,                                  \
      (ferryi_cl_context, ferryi_cl_int *))                                                        \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clSetUserEventStatus,                                 \
      (ferryi_cl_event, ferryi_cl_int))                                                            \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clRetainEvent, (ferryi_cl_event))                     \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clReleaseEvent, (ferryi_cl_event))                    \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clWaitForEvents,                                      \
      (ferryi_cl_uint, const ferryi_cl_event *))                                                   \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clGetEventInfo,                                       \
      (ferryi_cl_event, ferryi_cl_uint name, size_t, void *, size_t *))                            \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clGetEventProfilingInfo,                              \
      (ferryi_cl_event, ferryi_cl_uint name, size_t, void *, size_t *))                            \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_memory, clCreateBuffer,                                    \
      (ferryi_cl_context, ferryi_cl_bits, size_t, void *, ferryi_cl_int *))                        \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clReleaseMemObject, (ferryi_cl_memory))               \
    X(FERRYI_OPENCL_REQUIRED, void *, clEnqueueMapBuffer,                                          \
      (ferryi_cl_queue, ferryi_cl_memory, ferryi_cl_uint blocking, ferryi_cl_bits, size_t, size_t, \
       FERRYI_OPENCL_WAITS, ferryi_cl_int *))                                                      \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clEnqueueUnmapMemObject,                              \
      (ferryi_cl_queue, ferryi_cl_memory, void *, FERRYI_OPENCL_WAITS))                            \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clEnqueueReadBufferRect,                              \
      (ferryi_cl_queue, ferryi_cl_memory, ferryi_cl_uint blocking, const size_t *, const size_t *, \
       const size_t *, size_t, size_t, size_t, size_t, void *, FERRYI_OPENCL_WAITS))               \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clEnqueueWriteBufferRect,                             \
      (ferryi_cl_queue, ferryi_cl_memory, ferryi_cl_uint blocking, const size_t *, const size_t *, \
       const size_t *, size_t, size_t, size_t, size_t, const void *, FERRYI_OPENCL_WAITS))         \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_program, clCreateProgramWithSource,                        \
      (ferryi_cl_context, ferryi_cl_uint, const char **, const size_t *, ferryi_cl_int *))         \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_program, clCreateProgramWithBinary,                        \
      (ferryi_cl_context, ferryi_cl_uint, const ferryi_cl_device *, const size_t *,                \
       const unsigned char **, ferryi_cl_int *, ferryi_cl_int *))                                  \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clReleaseProgram, (ferryi_cl_program))                \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clBuildProgram,                                       \
      (ferryi_cl_program, ferryi_cl_uint, const ferryi_cl_device *, const char *,                  \
       void (*)(ferryi_cl_program, void *), void *))                                               \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clGetProgramBuildInfo,                                \
      (ferryi_cl_program, ferryi_cl_device, ferryi_cl_uint name, size_t, void *, size_t *))        \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_kernel, clCreateKernel,                                    \
      (ferryi_cl_program, const char *, ferryi_cl_int *))                                          \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clReleaseKernel, (ferryi_cl_kernel))                  \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clSetKernelArg,                                       \
      (ferryi_cl_kernel, ferryi_cl_uint, size_t, const void *))                                    \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clGetKernelInfo,                                      \
      (ferryi_cl_kernel, ferryi_cl_uint name, size_t, void *, size_t *))                           \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clGetKernelArgInfo,                                   \
      (ferryi_cl_kernel, ferryi_cl_uint index, ferryi_cl_uint name, size_t, void *, size_t *))     \
    X(FERRYI_OPENCL_REQUIRED, ferryi_cl_int, clEnqueueNDRangeKernel,                               \
      (ferryi_cl_queue, ferryi_cl_kernel, ferryi_cl_uint, const size_t *offset, const size_t *all, \
       const size_t *group, FERRYI_OPENCL_WAITS))                                                  \
    X(FERRYI_OPENCL_2_0, void *, clSVMAlloc,                                                       \
      (ferryi_cl_context, ferryi_cl_bits, size_t, ferryi_cl_uint alignment))                       \
    X(FERRYI_OPENCL_2_0, void, clSVMFree, (ferryi_cl_context, void *))                             \
    X(FERRYI_OPENCL_2_0, ferryi_cl_int, clSetKernelArgSVMPointer,                                  \
      (ferryi_cl_kernel, ferryi_cl_uint, const void *))                                            \
    X(FERRYI_OPENCL_2_0, ferryi_cl_int, clEnqueueSVMMemcpy,                                        \
      (ferryi_cl_queue, ferryi_cl_uint blocking, void *, const void *, size_t,                     \
       FERRYI_OPENCL_WAITS))                                                                       \
    X(FERRYI_OPENCL_2_0, ferryi_cl_int, clEnqueueSVMMemFill,                                       \
      (ferryi_cl_queue, void *, const void *pattern, size_t, size_t, FERRYI_OPENCL_WAITS))         \
    X(FERRYI_OPENCL_2_0, ferryi_cl_int, clSetKernelExecInfo,                                       \
      (ferryi_cl_kernel, ferryi_cl_uint name, size_t, const void *))                               \
    X(FERRYI_OPENCL_IL, ferryi_cl_program, clCreateProgramWithIL,                                  \
      (ferryi_cl_context, const void *, size_t, ferryi_cl_int *))

/* Functions of the extension cl_intel_unified_shared_memory, of one platform. The copies and fills
 * have the parameters of those for shared virtual memory. */
#define FERRYI_OPENCL_USM_SYMBOLS(X)                                                               \
    X(void *, clHostMemAllocINTEL,                                                                 \
      (ferryi_cl_context, const ferryi_cl_memory_property *, size_t, ferryi_cl_uint alignment,     \
       ferryi_cl_int *))                                                                           \
    X(void *, clDeviceMemAllocINTEL,                                                               \
      (ferryi_cl_context, ferryi_cl_device, const ferryi_cl_memory_property *, size_t,             \
       ferryi_cl_uint alignment, ferryi_cl_int *))                                                 \
    X(void *, clSharedMemAllocINTEL,                                                               \
      (ferryi_cl_context, ferryi_cl_device, const ferryi_cl_memory_property *, size_t,             \
       ferryi_cl_uint alignment, ferryi_cl_int *))                                                 \
    X(ferryi_cl_int, clGetMemAllocInfoINTEL,                                                       \
      (ferryi_cl_context, const void *, ferryi_cl_uint name, size_t, void *, size_t *))            \
    X(ferryi_cl_int, clMemFreeINTEL, (ferryi_cl_context, void *))                                  \
    X(ferryi_cl_int, clSetKernelArgMemPointerINTEL,                                                \
      (ferryi_cl_kernel, ferryi_cl_uint, const void *))                                            \
    X(ferryi_cl_int, clEnqueueMemcpyINTEL,                                                         \
      (ferryi_cl_queue, ferryi_cl_uint blocking, void *, const void *, size_t,                     \
       FERRYI_OPENCL_WAITS))                                                                       \
    X(ferryi_cl_int, clEnqueueMemFillINTEL,                                                        \
      (ferryi_cl_queue, void *, const void *pattern, size_t, size_t, FERRYI_OPENCL_WAITS))

#define FERRYI_OPENCL_MEMBER(group, result, name, parameters) result(*name) parameters;
#define FERRYI_OPENCL_USM_MEMBER(result, name, parameters)    result(*name) parameters;
struct ferryi_opencl_driver {
    unsigned int
        groups; /* set of enum ferryi_opencl_group: those of which the library has every function */
    FERRYI_OPENCL_SYMBOLS(FERRYI_OPENCL_MEMBER)
};
struct ferryi_opencl_usm {
    FERRYI_OPENCL_USM_SYMBOLS(FERRYI_OPENCL_USM_MEMBER)
};
#undef FERRYI_OPENCL_MEMBER
#undef FERRYI_OPENCL_USM_MEMBER

#endif
