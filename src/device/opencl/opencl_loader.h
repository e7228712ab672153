/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_OPENCL_LOADER_H
#define FERRYI_OPENCL_LOADER_H

/*
 * Loads OpenCL and lists the devices that Ferry can use. The list never changes, and the contexts
 * of its platforms are never released: a driver does not support being started anew.
 */

#include "src/base/base.h"
#include "src/device/opencl/opencl_abi.h"

/* How a device provides memory with addresses that kernels take. A later model includes the earlier
 * ones. */
enum ferryi_opencl_model {
    FERRYI_OPENCL_NO_MODEL, /* the device is not listed */
    FERRYI_OPENCL_COARSE,   /* coarse-grained shared virtual memory */
    FERRYI_OPENCL_FINE,     /* and fine-grained, so that kernels access page-locked host memory */
    FERRYI_OPENCL_USM,      /* unified shared memory, an extension of Intel */
};

/* A platform, and the context of its devices. */
struct ferryi_opencl_platform {
    ferryi_cl_platform native;
    ferryi_cl_context context;
    struct ferryi_opencl_usm usm;
    bool has_usm; /* whether the platform has every function of `usm` */
    char name[64];
};

struct ferryi_opencl_entry {
    struct ferryi_opencl_platform *platform;
    ferryi_cl_device device;
    uint64_t type; /* of the device: set of FERRYI_CL_DEVICE_TYPE_... */
    enum ferryi_opencl_model model;
};

#define FERRYI_OPENCL_DEVICES_MAX 64
struct ferryi_opencl_list {
    const struct ferryi_opencl_driver *driver;
    struct ferryi_opencl_entry entries[FERRYI_OPENCL_DEVICES_MAX]; /* GPUs first, CPUs last */
    int count;
};

/* Returns the list. The first call in the process loads libOpenCL.so.1, or the library that
 * FERRY_OPENCL_LIBRARY names.
 * @return FERRY_OK; FERRY_ERROR_NO_DEVICE, also in the child of a fork. */
ferry_status ferryi_opencl_list_get(const struct ferryi_opencl_list **out);
/* Returns OpenCL's name of an error. `buffer` has space for the number of an unknown one. */
const char *ferryi_opencl_error_name(ferryi_cl_int error, char buffer[32]);
/* Returns a number that a device reports, or 0 if it does not report it. */
uint64_t ferryi_opencl_number(const struct ferryi_opencl_driver *driver, ferryi_cl_device device,
                              ferryi_cl_uint name);

#endif
