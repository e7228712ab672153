/* SPDX-License-Identifier: MIT */
#ifndef FAKEOPENCL_H
#define FAKEOPENCL_H

/*
 * fakeopencl is an OpenCL library that passes every call to the OpenCL of this machine, such as
 * PoCL, and answers some of them as other drivers do. FERRY_OPENCL_LIBRARY names it. The words of
 * the environment variable FAKEOPENCL choose what differs:
 *
 * - discrete: the device has coarse-grained shared virtual memory alone, apart from the host's
 * - small: one allocation has at most FAKEOPENCL_SMALL bytes
 * - stops: no queue works while another one waits for a user event
 * - narrow: kernels have no atomic operations on 64 bits
 * - silent: the driver does not describe arguments of kernels
 * - apart: the second device belongs to another platform
 */

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FAKEOPENCL_SMALL ((size_t)128 << 20)

struct fakeopencl {
    /* Makes a call of a function fail with an error: the one after `after` others from now on, or
     * with `and_later` that one and all later ones. `name` NULL: no call fails. */
    void (*fakeopencl_fail)(const char *name, unsigned after, int error, bool and_later);
    /* Returns the number of calls that failed since fakeopencl_fail(). */
    unsigned (*fakeopencl_failed)(void);
};

/* Finds the functions in the library that FERRY_OPENCL_LIBRARY names. Returns false if it is not
 * fakeopencl. */
static inline bool
fakeopencl_find(struct fakeopencl *out)
{
    const char *name = getenv("FERRY_OPENCL_LIBRARY");
    void *library = name ? dlopen(name, RTLD_NOW) : NULL;
    void *fail = library ? dlsym(library, "fakeopencl_fail") : NULL;
    void *failed = library ? dlsym(library, "fakeopencl_failed") : NULL;
    memcpy(&out->fakeopencl_fail, &fail, sizeof(fail));
    memcpy(&out->fakeopencl_failed, &failed, sizeof(failed));
    return fail && failed;
}

#endif
