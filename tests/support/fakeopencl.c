/* SPDX-License-Identifier: MIT */
#include "tests/support/fakeopencl.h"

#include <stdatomic.h>
#include <stdio.h>

#include "src/device/opencl/opencl_abi.h"

/* A caller that looks up a function here finds those below, and all others in libOpenCL, which this
 * library is linked with. */
#define EXPORT __attribute__((visibility("default")))

static bool
has_word(const char *word)
{
    const char *words = getenv("FAKEOPENCL");
    return words && strstr(words, word);
}

/* Sets `function` to the function of the real library with the name. */
static void
find_real(const char *name, void *function)
{
    void *address = dlsym(RTLD_NEXT, name);
    if (!address)
        abort();
    memcpy(function, &address, sizeof(address));
}

/* Declares `real`, the function of the real library. */
#define REAL(name)                                                                                 \
    __typeof__(((struct ferryi_opencl_driver *)0)->name) real;                                     \
    find_real(#name, &real)

/* -- failures ---------------------------------------------------------------------------------- */

static struct {
    char name[64];
    atomic_int left; /* calls until the first failure */
    int error;
    bool and_later;
    atomic_uint failed;
} failing;

EXPORT void fakeopencl_fail(const char *name, unsigned after, int error, bool and_later);
EXPORT unsigned fakeopencl_failed(void);

void
fakeopencl_fail(const char *name, unsigned after, int error, bool and_later)
{
    snprintf(failing.name, sizeof(failing.name), "%s", name ? name : "");
    atomic_store(&failing.left, (int)after);
    failing.error = error;
    failing.and_later = and_later;
    atomic_store(&failing.failed, 0);
}

unsigned
fakeopencl_failed(void)
{
    return atomic_load(&failing.failed);
}

/* Returns the error of this call of a function, or 0. */
static ferryi_cl_int
failure(const char *name)
{
    if (strcmp(failing.name, name) != 0)
        return 0;
    const int left = atomic_fetch_sub(&failing.left, 1);
    if (left > 0 || (left < 0 && !failing.and_later))
        return 0;
    atomic_fetch_add(&failing.failed, 1);
    return failing.error;
}

/* Defines a function that may fail, and returns an error. */
#define MAY_FAIL(name, parameters, arguments)                                                      \
    EXPORT ferryi_cl_int name parameters;                                                          \
    ferryi_cl_int name parameters                                                                  \
    {                                                                                              \
        REAL(name);                                                                                \
        const ferryi_cl_int error = failure(#name);                                                \
        return error ? error : real arguments;                                                     \
    }

MAY_FAIL(clFlush, (ferryi_cl_queue queue), (queue))
MAY_FAIL(clFinish, (ferryi_cl_queue queue), (queue))
MAY_FAIL(clEnqueueMarkerWithWaitList, (ferryi_cl_queue queue, FERRYI_OPENCL_WAITS),
         (queue, wait_count, waits, out))
MAY_FAIL(clEnqueueBarrierWithWaitList, (ferryi_cl_queue queue, FERRYI_OPENCL_WAITS),
         (queue, wait_count, waits, out))
MAY_FAIL(clEnqueueSVMMemcpy,
         (ferryi_cl_queue queue, ferryi_cl_uint blocking, void *target, const void *source,
          size_t bytes, FERRYI_OPENCL_WAITS),
         (queue, blocking, target, source, bytes, wait_count, waits, out))
MAY_FAIL(clEnqueueSVMMemFill,
         (ferryi_cl_queue queue, void *target, const void *pattern, size_t pattern_bytes,
          size_t bytes, FERRYI_OPENCL_WAITS),
         (queue, target, pattern, pattern_bytes, bytes, wait_count, waits, out))
MAY_FAIL(clEnqueueWriteBufferRect,
         (ferryi_cl_queue queue, ferryi_cl_memory buffer, ferryi_cl_uint blocking,
          const size_t *origin, const size_t *host_origin, const size_t *region, size_t pitch,
          size_t slice, size_t host_pitch, size_t host_slice, const void *host,
          FERRYI_OPENCL_WAITS),
         (queue, buffer, blocking, origin, host_origin, region, pitch, slice, host_pitch,
          host_slice, host, wait_count, waits, out))
MAY_FAIL(clEnqueueNDRangeKernel,
         (ferryi_cl_queue queue, ferryi_cl_kernel kernel, ferryi_cl_uint dimensions,
          const size_t *offset, const size_t *all, const size_t *group, FERRYI_OPENCL_WAITS),
         (queue, kernel, dimensions, offset, all, group, wait_count, waits, out))
MAY_FAIL(clSetKernelExecInfo,
         (ferryi_cl_kernel kernel, ferryi_cl_uint name, size_t bytes, const void *value),
         (kernel, name, bytes, value))
MAY_FAIL(clBuildProgram,
         (ferryi_cl_program program, ferryi_cl_uint count, const ferryi_cl_device *devices,
          const char *options, void (*notify)(ferryi_cl_program, void *), void *user),
         (program, count, devices, options, notify, user))

EXPORT void *clSVMAlloc(ferryi_cl_context context, ferryi_cl_bits flags, size_t bytes,
                        ferryi_cl_uint alignment);

void *
clSVMAlloc(ferryi_cl_context context, ferryi_cl_bits flags, size_t bytes, ferryi_cl_uint alignment)
{
    REAL(clSVMAlloc);
    return failure("clSVMAlloc") ? NULL : real(context, flags, bytes, alignment);
}

/* -- platforms --------------------------------------------------------------------------------- */

/* The handle of the second device's platform. */
static char second_platform;
#define SECOND_PLATFORM ((ferryi_cl_platform)(void *)&second_platform)

static ferryi_cl_platform first_platform; /* of the real library */

EXPORT ferryi_cl_int clGetPlatformIDs(ferryi_cl_uint most, ferryi_cl_platform *out,
                                      ferryi_cl_uint *out_count);
EXPORT ferryi_cl_int clGetPlatformInfo(ferryi_cl_platform platform, ferryi_cl_uint name,
                                       size_t bytes, void *value, size_t *out_bytes);
EXPORT void *clGetExtensionFunctionAddressForPlatform(ferryi_cl_platform platform,
                                                      const char *name);
EXPORT ferryi_cl_int clGetDeviceIDs(ferryi_cl_platform platform, ferryi_cl_bits types,
                                    ferryi_cl_uint most, ferryi_cl_device *out,
                                    ferryi_cl_uint *out_count);
EXPORT ferryi_cl_context clCreateContext(const ferryi_cl_property *properties, ferryi_cl_uint count,
                                         const ferryi_cl_device *devices,
                                         void (*notify)(const char *, const void *, size_t, void *),
                                         void *user, ferryi_cl_int *out);

static ferryi_cl_platform
real_platform(ferryi_cl_platform platform)
{
    return platform == SECOND_PLATFORM ? first_platform : platform;
}

ferryi_cl_int
clGetPlatformIDs(ferryi_cl_uint most, ferryi_cl_platform *out, ferryi_cl_uint *out_count)
{
    REAL(clGetPlatformIDs);
    const ferryi_cl_int result = real(most, out, out_count);
    if (result == FERRYI_CL_SUCCESS && has_word("apart") && most > 1 && *out_count > 0) {
        first_platform = out[0];
        out[1] = SECOND_PLATFORM;
        *out_count = 2;
    }
    return result;
}

ferryi_cl_int
clGetPlatformInfo(ferryi_cl_platform platform, ferryi_cl_uint name, size_t bytes, void *value,
                  size_t *out_bytes)
{
    REAL(clGetPlatformInfo);
    return real(real_platform(platform), name, bytes, value, out_bytes);
}

void *
clGetExtensionFunctionAddressForPlatform(ferryi_cl_platform platform, const char *name)
{
    REAL(clGetExtensionFunctionAddressForPlatform);
    return real(real_platform(platform), name);
}

/* Each of the two platforms has one of the devices of the real one. */
ferryi_cl_int
clGetDeviceIDs(ferryi_cl_platform platform, ferryi_cl_bits types, ferryi_cl_uint most,
               ferryi_cl_device *out, ferryi_cl_uint *out_count)
{
    REAL(clGetDeviceIDs);
    const ferryi_cl_int result = real(real_platform(platform), types, most, out, out_count);
    if (result != FERRYI_CL_SUCCESS || !has_word("apart") || *out_count < 2)
        return result;
    if (platform == SECOND_PLATFORM)
        out[0] = out[1];
    *out_count = 1;
    return result;
}

ferryi_cl_context
clCreateContext(const ferryi_cl_property *properties, ferryi_cl_uint count,
                const ferryi_cl_device *devices,
                void (*notify)(const char *, const void *, size_t, void *), void *user,
                ferryi_cl_int *out)
{
    REAL(clCreateContext);
    const ferryi_cl_property platform[] = {
        properties[0], (ferryi_cl_property)(void *)real_platform((ferryi_cl_platform)properties[1]),
        0};
    return real(platform, count, devices, notify, user, out);
}

/* -- what a driver has ------------------------------------------------------------------------- */

EXPORT ferryi_cl_int clGetDeviceInfo(ferryi_cl_device device, ferryi_cl_uint name, size_t bytes,
                                     void *value, size_t *out_bytes);

ferryi_cl_int
clGetDeviceInfo(ferryi_cl_device device, ferryi_cl_uint name, size_t bytes, void *value,
                size_t *out_bytes)
{
    REAL(clGetDeviceInfo);
    const ferryi_cl_int result = real(device, name, bytes, value, out_bytes);
    if (result != FERRYI_CL_SUCCESS || !value || bytes < sizeof(uint64_t))
        return result;
    const bool is_discrete = has_word("discrete");
    if (is_discrete && name == FERRYI_CL_DEVICE_SVM_CAPABILITIES)
        *(uint64_t *)value = FERRYI_CL_DEVICE_SVM_COARSE_GRAIN_BUFFER;
    if (is_discrete && name == FERRYI_CL_DEVICE_HOST_UNIFIED_MEMORY)
        *(uint64_t *)value = 0;
    if (has_word("small") && name == FERRYI_CL_DEVICE_MAX_MEM_ALLOC_SIZE)
        *(uint64_t *)value = FAKEOPENCL_SMALL;
    return result;
}

EXPORT ferryi_cl_int clGetKernelArgInfo(ferryi_cl_kernel kernel, ferryi_cl_uint index,
                                        ferryi_cl_uint name, size_t bytes, void *value,
                                        size_t *out_bytes);

ferryi_cl_int
clGetKernelArgInfo(ferryi_cl_kernel kernel, ferryi_cl_uint index, ferryi_cl_uint name, size_t bytes,
                   void *value, size_t *out_bytes)
{
    REAL(clGetKernelArgInfo);
    return has_word("silent") ? FERRYI_CL_KERNEL_ARG_INFO_NOT_AVAILABLE
                              : real(kernel, index, name, bytes, value, out_bytes);
}

EXPORT ferryi_cl_program clCreateProgramWithSource(ferryi_cl_context context, ferryi_cl_uint count,
                                                   const char **texts, const size_t *lengths,
                                                   ferryi_cl_int *out);

ferryi_cl_program
clCreateProgramWithSource(ferryi_cl_context context, ferryi_cl_uint count, const char **texts,
                          const size_t *lengths, ferryi_cl_int *out)
{
    REAL(clCreateProgramWithSource);
    const char *with[2] = {"#undef cl_khr_int64_extended_atomics\n", texts[0]};
    return has_word("narrow") && count == 1 && !lengths ? real(context, 2, with, NULL, out)
                                                        : real(context, count, texts, lengths, out);
}

/* -- user events ------------------------------------------------------------------------------- */

static atomic_int open_events; /* user events that are not complete */

EXPORT ferryi_cl_event clCreateUserEvent(ferryi_cl_context context, ferryi_cl_int *out);
EXPORT ferryi_cl_int clSetUserEventStatus(ferryi_cl_event event, ferryi_cl_int state);
EXPORT ferryi_cl_int clGetEventInfo(ferryi_cl_event event, ferryi_cl_uint name, size_t bytes,
                                    void *value, size_t *out_bytes);

ferryi_cl_event
clCreateUserEvent(ferryi_cl_context context, ferryi_cl_int *out)
{
    REAL(clCreateUserEvent);
    const ferryi_cl_int error = failure("clCreateUserEvent");
    if (error) {
        *out = error;
        return NULL;
    }
    atomic_fetch_add(&open_events, 1);
    return real(context, out);
}

ferryi_cl_int
clSetUserEventStatus(ferryi_cl_event event, ferryi_cl_int state)
{
    REAL(clSetUserEventStatus);
    atomic_fetch_sub(&open_events, 1);
    return real(event, state);
}

ferryi_cl_int
clGetEventInfo(ferryi_cl_event event, ferryi_cl_uint name, size_t bytes, void *value,
               size_t *out_bytes)
{
    enum { QUEUED = 3 };
    REAL(clGetEventInfo);
    const ferryi_cl_int result = real(event, name, bytes, value, out_bytes);
    if (has_word("stops") && name == FERRYI_CL_EVENT_COMMAND_EXECUTION_STATUS &&
        atomic_load(&open_events) > 0 && value)
        *(ferryi_cl_int *)value = QUEUED;
    return result;
}
