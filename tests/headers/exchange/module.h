/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_MODULE_H
#define FERRY_TEST_MODULE_H

#include <ferry/ferry.h>

#define COUNT 1000

/* The interface of a shared object. Each shared object has separate descriptions of the same
 * elements. */
struct module {
    /* Creates two buffers and a kernel that uses them. Numbers and masses are 0, 1, 2 ... Both
     * buffers are current at place 1. */
    ferry_status (*make)(ferry_context *context, ferry_host_function *body, ferry_buffer **numbers,
                         ferry_buffer **particles, ferry_kernel **kernel);
    /* Adds `amount` to the numbers on the host. */
    ferry_status (*add)(ferry_buffer *numbers, float amount);
    /* Both functions return an element, which is valid until the shared object is closed. */
    const ferry_element *(*number)(void);
    const ferry_element *(*particle)(void);
};

FERRY_BEGIN_DECLS
extern const struct module exchange_module;
FERRY_END_DECLS

#endif
