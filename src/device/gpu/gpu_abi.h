/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_GPU_ABI_H
#define FERRYI_GPU_ABI_H

/*
 * Declares the functions of GPU drivers that Ferry uses, with their types and numbers. The drivers
 * of several vendors have these functions, each under different names. Types and numbers are
 * declared here, so that the library builds without the vendors' headers.
 *
 * FERRYI_GPU_FUNCTIONS lists every function once. The table of function pointers, the loader, the
 * lists of names of each vendor and the test drivers are generated from that list. Where a vendor's
 * headers are installed, a file of tests/device compares the list with them.
 */

#include <stddef.h>
#include <stdint.h>

typedef unsigned int ferryi_gpu_result;
typedef int ferryi_gpu_number; /* the driver's number of a device */
typedef unsigned long long ferryi_gpu_pointer;
typedef struct ferryi_gpu_context *ferryi_gpu_context;
typedef struct ferryi_gpu_green_context *ferryi_gpu_green_context;
typedef struct ferryi_gpu_stream *ferryi_gpu_stream;
typedef struct ferryi_gpu_event *ferryi_gpu_event;
typedef struct ferryi_gpu_module *ferryi_gpu_module;
typedef struct ferryi_gpu_function *ferryi_gpu_function;
typedef struct ferryi_gpu_array *ferryi_gpu_array;
typedef struct ferryi_gpu_graph *ferryi_gpu_graph;
typedef struct ferryi_gpu_graph_exec *ferryi_gpu_graph_exec;
typedef void (*ferryi_gpu_host_function)(void *user);
/* The types below replace enumeration types of the vendors. All of them are unsigned int. */
typedef unsigned int ferryi_gpu_device_attribute;
typedef unsigned int ferryi_gpu_function_attribute;
typedef unsigned int ferryi_gpu_jit_option;
typedef unsigned int ferryi_gpu_memory_type;
typedef unsigned int ferryi_gpu_pointer_attribute;
typedef unsigned int ferryi_gpu_advice;
typedef unsigned int ferryi_gpu_capture_mode;
typedef unsigned int ferryi_gpu_capture_status;
typedef unsigned int ferryi_gpu_granularity;
typedef unsigned long long ferryi_gpu_handle; /* a handle of memory, or its address */

/* A place of managed memory. */
struct ferryi_gpu_location {
    unsigned int type;
    int id;
};

/* What memory a handle has. */
struct ferryi_gpu_allocation {
    unsigned int type;
    unsigned int shared_types; /* the ways to share the handle with other processes; 0: none */
    struct ferryi_gpu_location location;
    void *windows; /* NULL on other systems */
    unsigned char compression, direct_rdma;
    unsigned short usage;
    unsigned char reserved[4];
};

/* How a device may access memory. */
struct ferryi_gpu_access {
    struct ferryi_gpu_location location;
    unsigned int flags;
};

/* The names of memory and of events for other processes. They are passed by value. */
struct ferryi_gpu_memory_token {
    char bytes[64];
};
struct ferryi_gpu_event_token {
    char bytes[64];
};

/* The attributes of the copies of a batch. */
struct ferryi_gpu_copy_attributes {
    unsigned int source_access_order;
    struct ferryi_gpu_location source_hint, target_hint;
    unsigned int flags;
};

/* A copy of rows. */
struct ferryi_gpu_copy_2d {
    size_t source_x_bytes, source_y;
    ferryi_gpu_memory_type source_type;
    const void *source_host;
    ferryi_gpu_pointer source_device;
    ferryi_gpu_array source_array;
    size_t source_pitch;
    size_t target_x_bytes, target_y;
    ferryi_gpu_memory_type target_type;
    void *target_host;
    ferryi_gpu_pointer target_device;
    ferryi_gpu_array target_array;
    size_t target_pitch;
    size_t width_bytes, height;
};

/* A copy of rows between devices. */
struct ferryi_gpu_copy_3d_peer {
    size_t source_x_bytes, source_y, source_z, source_level;
    ferryi_gpu_memory_type source_type;
    const void *source_host;
    ferryi_gpu_pointer source_device;
    ferryi_gpu_array source_array;
    ferryi_gpu_context source_context;
    size_t source_pitch, source_height;
    size_t target_x_bytes, target_y, target_z, target_level;
    ferryi_gpu_memory_type target_type;
    void *target_host;
    ferryi_gpu_pointer target_device;
    ferryi_gpu_array target_array;
    ferryi_gpu_context target_context;
    size_t target_pitch, target_height;
    size_t width_bytes, height, depth;
};

/* An attribute of a launch. The driver reads the part of the value that the attribute has. */
struct ferryi_gpu_launch_attribute {
    unsigned int id;
    union {
        uint64_t words[8];
        int on;
        unsigned int cluster[3];
    } value;
};

/* A launch with attributes. */
struct ferryi_gpu_launch_config {
    unsigned int grid_x, grid_y, grid_z;
    unsigned int block_x, block_y, block_z;
    unsigned int shared_bytes;
    ferryi_gpu_stream stream;
    struct ferryi_gpu_launch_attribute *attributes;
    unsigned int attribute_count;
};

/* Expands X(Y, name, value, status) once for each driver error. The name of the error's constant is
 * FERRYI_GPU_ERROR_<name>. gpu.c converts the error to `status`, a ferry_status. */
#define FERRYI_GPU_ERRORS(X, Y)                                     \
    X(Y, INVALID_VALUE, 1, FERRY_ERROR_DEVICE)                      \
    X(Y, OUT_OF_MEMORY, 2, FERRY_ERROR_OUT_OF_MEMORY)               \
    X(Y, NOT_INITIALIZED, 3, FERRY_ERROR_DEVICE)                    \
    X(Y, DEINITIALIZED, 4, FERRY_ERROR_DEVICE_LOST)                 \
    X(Y, NO_DEVICE, 100, FERRY_ERROR_NO_DEVICE)                     \
    X(Y, INVALID_DEVICE, 101, FERRY_ERROR_NO_DEVICE)                \
    X(Y, INVALID_IMAGE, 200, FERRY_ERROR_DEVICE)                    \
    X(Y, INVALID_CONTEXT, 201, FERRY_ERROR_DEVICE)                  \
    X(Y, MAP_FAILED, 205, FERRY_ERROR_DEVICE)                       \
    X(Y, NO_BINARY_FOR_GPU, 209, FERRY_ERROR_UNSUPPORTED)           \
    X(Y, ECC_UNCORRECTABLE, 214, FERRY_ERROR_DEVICE_LOST)           \
    X(Y, UNSUPPORTED_LIMIT, 215, FERRY_ERROR_UNSUPPORTED)           \
    X(Y, PEER_ACCESS_UNSUPPORTED, 217, FERRY_ERROR_UNSUPPORTED)     \
    X(Y, INVALID_PTX, 218, FERRY_ERROR_DEVICE)                      \
    X(Y, NVLINK_UNCORRECTABLE, 220, FERRY_ERROR_DEVICE_LOST)        \
    X(Y, JIT_COMPILER_NOT_FOUND, 221, FERRY_ERROR_UNSUPPORTED)      \
    X(Y, UNSUPPORTED_PTX_VERSION, 222, FERRY_ERROR_UNSUPPORTED)     \
    X(Y, JIT_COMPILATION_DISABLED, 223, FERRY_ERROR_UNSUPPORTED)    \
    X(Y, OPERATING_SYSTEM, 304, FERRY_ERROR_DEVICE)                 \
    X(Y, INVALID_HANDLE, 400, FERRY_ERROR_DEVICE)                   \
    X(Y, ILLEGAL_STATE, 401, FERRY_ERROR_DEVICE)                    \
    X(Y, NOT_FOUND, 500, FERRY_ERROR_DEVICE)                        \
    X(Y, NOT_READY, 600, FERRY_ERROR_DEVICE)                        \
    X(Y, ILLEGAL_ADDRESS, 700, FERRY_ERROR_DEVICE_LOST)             \
    X(Y, LAUNCH_TIMEOUT, 702, FERRY_ERROR_DEVICE_LOST)              \
    X(Y, PEER_ACCESS_ALREADY_ENABLED, 704, FERRY_ERROR_DEVICE)      \
    X(Y, CONTEXT_IS_DESTROYED, 709, FERRY_ERROR_DEVICE_LOST)        \
    X(Y, ASSERT, 710, FERRY_ERROR_DEVICE_LOST)                      \
    X(Y, TOO_MANY_PEERS, 711, FERRY_ERROR_DEVICE)                   \
    X(Y, HOST_MEMORY_ALREADY_REGISTERED, 712, FERRY_ERROR_CONFLICT) \
    X(Y, HOST_MEMORY_NOT_REGISTERED, 713, FERRY_ERROR_DEVICE)       \
    X(Y, HARDWARE_STACK_ERROR, 714, FERRY_ERROR_DEVICE_LOST)        \
    X(Y, ILLEGAL_INSTRUCTION, 715, FERRY_ERROR_DEVICE_LOST)         \
    X(Y, MISALIGNED_ADDRESS, 716, FERRY_ERROR_DEVICE_LOST)          \
    X(Y, INVALID_ADDRESS_SPACE, 717, FERRY_ERROR_DEVICE_LOST)       \
    X(Y, INVALID_PC, 718, FERRY_ERROR_DEVICE_LOST)                  \
    X(Y, LAUNCH_FAILED, 719, FERRY_ERROR_DEVICE_LOST)               \
    X(Y, COOPERATIVE_LAUNCH_TOO_LARGE, 720, FERRY_ERROR_UNSUPPORTED) \
    X(Y, NOT_PERMITTED, 800, FERRY_ERROR_INVALID_STATE)             \
    X(Y, NOT_SUPPORTED, 801, FERRY_ERROR_UNSUPPORTED)               \
    X(Y, SYSTEM_NOT_READY, 802, FERRY_ERROR_DEVICE)                 \
    X(Y, SYSTEM_DRIVER_MISMATCH, 803, FERRY_ERROR_DEVICE)           \
    X(Y, MPS_CONNECTION_FAILED, 805, FERRY_ERROR_DEVICE)            \
    X(Y, MPS_RPC_FAILURE, 806, FERRY_ERROR_DEVICE)                  \
    X(Y, STREAM_CAPTURE_UNSUPPORTED, 900, FERRY_ERROR_UNSUPPORTED)  \
    X(Y, STREAM_CAPTURE_INVALIDATED, 901, FERRY_ERROR_UNSUPPORTED)  \
    X(Y, STREAM_CAPTURE_MERGE, 902, FERRY_ERROR_UNSUPPORTED)        \
    X(Y, STREAM_CAPTURE_UNMATCHED, 903, FERRY_ERROR_UNSUPPORTED)    \
    X(Y, STREAM_CAPTURE_UNJOINED, 904, FERRY_ERROR_UNSUPPORTED)     \
    X(Y, STREAM_CAPTURE_ISOLATION, 905, FERRY_ERROR_UNSUPPORTED)    \
    X(Y, STREAM_CAPTURE_IMPLICIT, 906, FERRY_ERROR_UNSUPPORTED)     \
    X(Y, CAPTURED_EVENT, 907, FERRY_ERROR_UNSUPPORTED)              \
    X(Y, STREAM_CAPTURE_WRONG_THREAD, 908, FERRY_ERROR_UNSUPPORTED) \
    X(Y, UNKNOWN, 999, FERRY_ERROR_DEVICE)

/* Errors that drivers have only since 2022. */
#define FERRYI_GPU_LATER_ERRORS(X, Y)                         \
    X(Y, CONTAINED, 226, FERRY_ERROR_DEVICE_LOST)             \
    X(Y, TENSOR_MEMORY_LEAK, 721, FERRY_ERROR_DEVICE_LOST)    \
    X(Y, MPS_CLIENT_TERMINATED, 810, FERRY_ERROR_DEVICE_LOST) \
    X(Y, EXTERNAL_DEVICE, 911, FERRY_ERROR_DEVICE_LOST)       \
    X(Y, INVALID_CLUSTER_SIZE, 912, FERRY_ERROR_UNSUPPORTED)

/* Expands X(Y, name, value) once for each other number that all vendors share. */
#define FERRYI_GPU_CONSTANTS(X, Y)                        \
    X(Y, POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                \
    X(Y, POINTER_ATTRIBUTE_HOST_POINTER, 4)               \
    X(Y, POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)          \
    X(Y, POINTER_ATTRIBUTE_RANGE_SIZE, 12)                \
    X(Y, FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)             \
    X(Y, FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8) \
    X(Y, JIT_ERROR_LOG_BUFFER, 5)                         \
    X(Y, JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)              \
    X(Y, MEMHOSTALLOC_PORTABLE, 1)                        \
    X(Y, MEMHOSTREGISTER_PORTABLE, 1)                     \
    X(Y, MEMHOSTREGISTER_READ_ONLY, 8)                    \
    X(Y, MEM_ATTACH_GLOBAL, 1)                            \
    X(Y, STREAM_NON_BLOCKING, 1)                          \
    X(Y, EVENT_DEFAULT, 0)                                \
    X(Y, EVENT_DISABLE_TIMING, 2)                         \
    X(Y, EVENT_INTERPROCESS, 4)                           \
    X(Y, IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1)              \
    X(Y, MEMORYTYPE_HOST, 1)                              \
    X(Y, MEMORYTYPE_DEVICE, 2)                            \
    X(Y, STREAM_CAPTURE_STATUS_NONE, 0)                   \
    X(Y, STREAM_CAPTURE_STATUS_ACTIVE, 1)                 \
    X(Y, STREAM_CAPTURE_STATUS_INVALIDATED, 2)            \
    X(Y, STREAM_CAPTURE_MODE_GLOBAL, 0)                   \
    X(Y, STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)             \
    X(Y, STREAM_CAPTURE_MODE_RELAXED, 2)                  \
    X(Y, MEM_ADVISE_SET_READ_MOSTLY, 1)                   \
    X(Y, MEM_ADVISE_UNSET_READ_MOSTLY, 2)                 \
    X(Y, MEM_ADVISE_SET_PREFERRED_LOCATION, 3)            \
    X(Y, MEM_ADVISE_UNSET_PREFERRED_LOCATION, 4)          \
    X(Y, MEM_ADVISE_SET_ACCESSED_BY, 5)                   \
    X(Y, MEM_ADVISE_UNSET_ACCESSED_BY, 6)

#define FERRYI_GPU_LATER_CONSTANTS(X, Y)        \
    X(Y, MEM_LOCATION_TYPE_DEVICE, 1)           \
    X(Y, MEM_LOCATION_TYPE_HOST, 2)             \
    X(Y, MEM_ALLOCATION_TYPE_PINNED, 1)         \
    X(Y, MEM_ALLOC_GRANULARITY_MINIMUM, 0)      \
    X(Y, MEM_ACCESS_FLAGS_PROT_READWRITE, 3)    \
    X(Y, MEMCPY_SRC_ACCESS_ORDER_STREAM, 1)     \
    X(Y, LAUNCH_ATTRIBUTE_COOPERATIVE, 2)       \
    X(Y, LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 4) \
    X(Y, LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 6)

#define FERRYI_GPU_CONSTANT(Y, name, value)      FERRYI_GPU_##name = (value),
#define FERRYI_GPU_ERROR(Y, name, value, status) FERRYI_GPU_ERROR_##name = (value),
enum {
    FERRYI_GPU_SUCCESS = 0,
    FERRYI_GPU_ERRORS(FERRYI_GPU_ERROR, )
    FERRYI_GPU_LATER_ERRORS(FERRYI_GPU_ERROR, )
    FERRYI_GPU_CONSTANTS(FERRYI_GPU_CONSTANT, )
    FERRYI_GPU_LATER_CONSTANTS(FERRYI_GPU_CONSTANT, )
};
#undef FERRYI_GPU_CONSTANT
#undef FERRYI_GPU_ERROR

/* The attributes of devices that Ferry queries. Each vendor numbers them differently
 * (struct ferryi_gpu_vendor). */
#define FERRYI_GPU_ATTRIBUTES(X)                    \
    X(INTEGRATED)                                   \
    X(PCI_BUS_ID)                                   \
    X(PCI_DEVICE_ID)                                \
    X(PCI_DOMAIN_ID)                                \
    X(MANAGED_MEMORY)                               \
    X(CONCURRENT_MANAGED_ACCESS)                    \
    X(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)      \
    X(HOST_REGISTER_SUPPORTED)                      \
    X(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) \
    X(READ_ONLY_HOST_REGISTER_SUPPORTED)            \
    X(HOST_NUMA_ID)                                 \
    X(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)          \
    X(SHARED_BYTES_WITHOUT_OPT_IN)                  \
    X(COOPERATIVE_LAUNCH)                           \
    X(CLUSTER_LAUNCH)                               \
    X(UNIFIED_ADDRESSING)                           \
    X(IPC_EVENT_SUPPORTED)

#define FERRYI_GPU_ATTRIBUTE(name) FERRYI_GPU_ATTRIBUTE_##name,
enum ferryi_gpu_attribute {
    FERRYI_GPU_ATTRIBUTES(FERRYI_GPU_ATTRIBUTE) FERRYI_GPU_ATTRIBUTE_COUNT
};
#undef FERRYI_GPU_ATTRIBUTE

/* This number selects the CPU in calls that take the number of a device. */
#define FERRYI_GPU_DEVICE_CPU ((ferryi_gpu_number)-1)

/* A group of driver functions. If a driver lacks one function of a group, Ferry uses no function of
 * that group. If a driver lacks a function of the group REQUIRED, Ferry does not use the driver at
 * all. */
enum ferryi_gpu_group {
    FERRYI_GPU_REQUIRED = 1 << 0,
    /* function for batched copies; the older one also reports which copy failed */
    FERRYI_GPU_BATCH = 1 << 1,
    FERRYI_GPU_BATCH_2 = 1 << 2,
    /* functions that prefetch and advise managed memory; the older ones take the number of a device,
       the newer ones a location */
    FERRYI_GPU_PREFETCH = 1 << 3,
    FERRYI_GPU_PREFETCH_2 = 1 << 4,
    /* functions that query whether a stream is being captured, and that set a thread's capture mode
     */
    FERRYI_GPU_CAPTURE = 1 << 5,
    FERRYI_GPU_STREAM_CONTEXT = 1 << 6, /* function that returns the context of a stream */
    /* function that returns the id of a context, which changes when the device is reset */
    FERRYI_GPU_CONTEXT_ID = 1 << 7,
    /* functions that return a kernel's parameters, and that load a kernel's code before its first
       launch */
    FERRYI_GPU_FUNCTION = 1 << 8,
    FERRYI_GPU_STREAM_ID = 1 << 9, /* function that returns the id of a stream */
    /* function that returns the green context of a stream and its primary context */
    FERRYI_GPU_GREEN_CONTEXT = 1 << 10,
    FERRYI_GPU_GRAPH = 1 << 11, /* functions that capture a stream into a graph, and launch it */
    FERRYI_GPU_LAUNCH = 1 << 12, /* function that launches a kernel with attributes */
    /* functions that reserve addresses and map memory there */
    FERRYI_GPU_RANGE = 1 << 13,
    /* functions that name memory and events to other processes, and open what others named */
    FERRYI_GPU_SHARE = 1 << 14,
};

/* Expands X(Y, group, member, parameters) once for each driver function. `group` is the end of the
 * name of an enumerator of ferryi_gpu_group. Every function returns ferryi_gpu_result. */
#define FERRYI_GPU_FUNCTIONS(X, Y)                                                              \
    X(Y, REQUIRED, init, (unsigned int flags))                                                  \
    X(Y, REQUIRED, error_name, (ferryi_gpu_result error, const char **out_name))                \
    X(Y, REQUIRED, version, (int *out_version))                                                 \
    X(Y, REQUIRED, device_count, (int *out_count))                                              \
    X(Y, REQUIRED, device, (ferryi_gpu_number *out_device, int ordinal))                        \
    X(Y, REQUIRED, device_name, (char *name, int bytes, ferryi_gpu_number device))              \
    X(Y, REQUIRED, device_attribute,                                                            \
      (int *out_value, ferryi_gpu_device_attribute attribute, ferryi_gpu_number device))        \
    X(Y, REQUIRED, device_bytes, (size_t *out_bytes, ferryi_gpu_number device))                 \
    X(Y, REQUIRED, can_access_peer,                                                             \
      (int *out_can, ferryi_gpu_number device, ferryi_gpu_number peer))                         \
    X(Y, REQUIRED, context_retain, (ferryi_gpu_context *out_context, ferryi_gpu_number device)) \
    X(Y, REQUIRED, context_release, (ferryi_gpu_number device))                                 \
    X(Y, REQUIRED, context_push, (ferryi_gpu_context context))                                  \
    X(Y, REQUIRED, context_pop, (ferryi_gpu_context *out_context))                              \
    X(Y, REQUIRED, context_current, (ferryi_gpu_context *out_context))                          \
    X(Y, REQUIRED, peer_enable, (ferryi_gpu_context peer, unsigned int flags))                  \
    X(Y, REQUIRED, context_synchronize, (void))                                                 \
    X(Y, REQUIRED, memory_info, (size_t *out_free, size_t *out_total))                          \
    X(Y, REQUIRED, memory_alloc, (ferryi_gpu_pointer *out_memory, size_t bytes))                \
    X(Y, REQUIRED, memory_free, (ferryi_gpu_pointer memory))                                    \
    X(Y, REQUIRED, managed_alloc,                                                               \
      (ferryi_gpu_pointer *out_memory, size_t bytes, unsigned int flags))                       \
    X(Y, REQUIRED, host_alloc, (void **out_memory, size_t bytes, unsigned int flags))           \
    X(Y, REQUIRED, host_free, (void *memory))                                                   \
    X(Y, REQUIRED, host_register, (void *memory, size_t bytes, unsigned int flags))             \
    X(Y, REQUIRED, host_unregister, (void *memory))                                             \
    X(Y, REQUIRED, pointer_attribute,                                                           \
      (void *out_value, ferryi_gpu_pointer_attribute attribute, ferryi_gpu_pointer memory))     \
    X(Y, REQUIRED, stream_create, (ferryi_gpu_stream *out_stream, unsigned int flags))          \
    X(Y, REQUIRED, stream_destroy, (ferryi_gpu_stream stream))                                  \
    X(Y, REQUIRED, stream_synchronize, (ferryi_gpu_stream stream))                              \
    X(Y, REQUIRED, stream_wait,                                                                 \
      (ferryi_gpu_stream stream, ferryi_gpu_event event, unsigned int flags))                   \
    X(Y, REQUIRED, host_call,                                                                   \
      (ferryi_gpu_stream stream, ferryi_gpu_host_function run, void *user))                     \
    X(Y, REQUIRED, event_create, (ferryi_gpu_event *out_event, unsigned int flags))             \
    X(Y, REQUIRED, event_destroy, (ferryi_gpu_event event))                                     \
    X(Y, REQUIRED, event_record, (ferryi_gpu_event event, ferryi_gpu_stream stream))            \
    X(Y, REQUIRED, event_query, (ferryi_gpu_event event))                                       \
    X(Y, REQUIRED, event_synchronize, (ferryi_gpu_event event))                                 \
    X(Y, REQUIRED, event_elapsed,                                                               \
      (float *out_milliseconds, ferryi_gpu_event begin, ferryi_gpu_event end))                  \
    X(Y, REQUIRED, upload,                                                                      \
      (ferryi_gpu_pointer target, const void *source, size_t bytes, ferryi_gpu_stream stream))  \
    X(Y, REQUIRED, download,                                                                    \
      (void *target, ferryi_gpu_pointer source, size_t bytes, ferryi_gpu_stream stream))        \
    X(Y, REQUIRED, copy,                                                                        \
      (ferryi_gpu_pointer target, ferryi_gpu_pointer source, size_t bytes,                      \
       ferryi_gpu_stream stream))                                                               \
    X(Y, REQUIRED, copy_peer,                                                                   \
      (ferryi_gpu_pointer target, ferryi_gpu_context target_context,                            \
       ferryi_gpu_pointer source, ferryi_gpu_context source_context, size_t bytes,              \
       ferryi_gpu_stream stream))                                                               \
    X(Y, REQUIRED, copy_2d, (const struct ferryi_gpu_copy_2d *copy, ferryi_gpu_stream stream))  \
    X(Y, REQUIRED, copy_peer_2d,                                                                \
      (const struct ferryi_gpu_copy_3d_peer *copy, ferryi_gpu_stream stream))                   \
    X(Y, REQUIRED, fill_8,                                                                      \
      (ferryi_gpu_pointer target, unsigned char value, size_t count,                            \
       ferryi_gpu_stream stream))                                                               \
    X(Y, REQUIRED, fill_16,                                                                     \
      (ferryi_gpu_pointer target, unsigned short value, size_t count,                           \
       ferryi_gpu_stream stream))                                                               \
    X(Y, REQUIRED, fill_32,                                                                     \
      (ferryi_gpu_pointer target, unsigned int value, size_t count, ferryi_gpu_stream stream))  \
    X(Y, REQUIRED, module_load,                                                                 \
      (ferryi_gpu_module *out_module, const void *image, unsigned int option_count,             \
       ferryi_gpu_jit_option *options, void **values))                                          \
    X(Y, REQUIRED, module_unload, (ferryi_gpu_module module))                                   \
    X(Y, REQUIRED, module_function,                                                             \
      (ferryi_gpu_function *out_function, ferryi_gpu_module module, const char *name))          \
    X(Y, REQUIRED, function_attribute,                                                          \
      (int *out_value, ferryi_gpu_function_attribute attribute, ferryi_gpu_function function))  \
    X(Y, REQUIRED, function_set_attribute,                                                      \
      (ferryi_gpu_function function, ferryi_gpu_function_attribute attribute, int value))       \
    X(Y, REQUIRED, launch,                                                                      \
      (ferryi_gpu_function function, unsigned int grid_x, unsigned int grid_y,                  \
       unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,   \
       unsigned int shared_bytes, ferryi_gpu_stream stream, void **arguments, void **extra))    \
    X(Y, LAUNCH, launch_with,                                                                   \
      (const struct ferryi_gpu_launch_config *config, ferryi_gpu_function function,             \
       void **arguments, void **extra))                                                         \
    X(Y, BATCH, copy_batch,                                                                     \
      (ferryi_gpu_pointer *targets, ferryi_gpu_pointer *sources, size_t *bytes, size_t count,   \
       struct ferryi_gpu_copy_attributes *attributes, size_t *attribute_indices,                \
       size_t attribute_count, size_t *out_failed, ferryi_gpu_stream stream))                   \
    X(Y, BATCH_2, copy_batch_2,                                                                 \
      (ferryi_gpu_pointer *targets, ferryi_gpu_pointer *sources, size_t *bytes, size_t count,   \
       struct ferryi_gpu_copy_attributes *attributes, size_t *attribute_indices,                \
       size_t attribute_count, ferryi_gpu_stream stream))                                       \
    X(Y, PREFETCH, prefetch,                                                                    \
      (ferryi_gpu_pointer memory, size_t bytes, ferryi_gpu_number device,                       \
       ferryi_gpu_stream stream))                                                               \
    X(Y, PREFETCH, advise,                                                                      \
      (ferryi_gpu_pointer memory, size_t bytes, ferryi_gpu_advice advice,                       \
       ferryi_gpu_number device))                                                               \
    X(Y, PREFETCH_2, prefetch_2,                                                                \
      (ferryi_gpu_pointer memory, size_t bytes, struct ferryi_gpu_location location,            \
       unsigned int flags, ferryi_gpu_stream stream))                                           \
    X(Y, PREFETCH_2, advise_2,                                                                  \
      (ferryi_gpu_pointer memory, size_t bytes, ferryi_gpu_advice advice,                       \
       struct ferryi_gpu_location location))                                                    \
    X(Y, CAPTURE, stream_is_capturing,                                                          \
      (ferryi_gpu_stream stream, ferryi_gpu_capture_status *out_status))                        \
    X(Y, CAPTURE, capture_mode, (ferryi_gpu_capture_mode *mode))                                \
    X(Y, GRAPH, capture_begin, (ferryi_gpu_stream stream, ferryi_gpu_capture_mode mode))        \
    X(Y, GRAPH, capture_end, (ferryi_gpu_stream stream, ferryi_gpu_graph *out_graph))           \
    X(Y, GRAPH, graph_instantiate,                                                              \
      (ferryi_gpu_graph_exec *out_exec, ferryi_gpu_graph graph, unsigned long long flags))      \
    X(Y, GRAPH, graph_destroy, (ferryi_gpu_graph graph))                                        \
    X(Y, GRAPH, graph_launch, (ferryi_gpu_graph_exec exec, ferryi_gpu_stream stream))           \
    X(Y, GRAPH, graph_exec_destroy, (ferryi_gpu_graph_exec exec))                               \
    X(Y, RANGE, range_granularity,                                                              \
      (size_t *out_bytes, const struct ferryi_gpu_allocation *allocation,                       \
       ferryi_gpu_granularity option))                                                          \
    X(Y, RANGE, range_reserve,                                                                  \
      (ferryi_gpu_pointer *out_range, size_t bytes, size_t align, ferryi_gpu_pointer wanted,    \
       unsigned long long flags))                                                               \
    X(Y, RANGE, range_free, (ferryi_gpu_pointer range, size_t bytes))                           \
    X(Y, RANGE, handle_create,                                                                  \
      (ferryi_gpu_handle *out_handle, size_t bytes,                                             \
       const struct ferryi_gpu_allocation *allocation, unsigned long long flags))               \
    X(Y, RANGE, handle_release, (ferryi_gpu_handle handle))                                     \
    X(Y, RANGE, range_map,                                                                      \
      (ferryi_gpu_pointer memory, size_t bytes, size_t offset, ferryi_gpu_handle handle,        \
       unsigned long long flags))                                                               \
    X(Y, RANGE, range_unmap, (ferryi_gpu_pointer memory, size_t bytes))                         \
    X(Y, RANGE, range_access,                                                                   \
      (ferryi_gpu_pointer memory, size_t bytes, const struct ferryi_gpu_access *access,         \
       size_t count))                                                                           \
    X(Y, SHARE, memory_token,                                                                   \
      (struct ferryi_gpu_memory_token *out_token, ferryi_gpu_pointer memory))                   \
    X(Y, SHARE, memory_open,                                                                    \
      (ferryi_gpu_pointer *out_memory, struct ferryi_gpu_memory_token token,                    \
       unsigned int flags))                                                                     \
    X(Y, SHARE, memory_close, (ferryi_gpu_pointer memory))                                      \
    X(Y, SHARE, event_token,                                                                    \
      (struct ferryi_gpu_event_token *out_token, ferryi_gpu_event event))                       \
    X(Y, SHARE, event_open,                                                                     \
      (ferryi_gpu_event *out_event, struct ferryi_gpu_event_token token))                       \
    X(Y, STREAM_CONTEXT, stream_context,                                                        \
      (ferryi_gpu_stream stream, ferryi_gpu_context *out_context))                              \
    X(Y, CONTEXT_ID, context_id, (ferryi_gpu_context context, unsigned long long *out_id))      \
    X(Y, GREEN_CONTEXT, stream_green_context,                                                   \
      (ferryi_gpu_stream stream, ferryi_gpu_context *out_context,                               \
       ferryi_gpu_green_context *out_green))                                                    \
    X(Y, STREAM_ID, stream_id, (ferryi_gpu_stream stream, unsigned long long *out_id))          \
    X(Y, FUNCTION, function_parameter,                                                          \
      (ferryi_gpu_function function, size_t index, size_t *out_offset, size_t *out_bytes))      \
    X(Y, FUNCTION, function_load, (ferryi_gpu_function function))

#endif
