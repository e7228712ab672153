/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_MODULE_H
#define FERRY_TEST_MODULE_H

#include <ferry/ferry.h>

#define COUNT 1000

/* The functions that a shared object of this test exports. Each shared object contains its own
 * descriptions of the same elements. */
struct module {
    /* Creates two buffers and a kernel that uses them. One buffer has numbers and one has
     * particles. The numbers, and the masses of the particles, are 0, 1, 2 and so on. Both buffers
     * are current at place 1. */
    ferry_status (*make)(ferry_context *context, ferry_host_function *body, ferry_buffer **numbers,
                         ferry_buffer **particles, ferry_kernel **kernel);
    /* Adds `amount` to the numbers on the host. */
    ferry_status (*add)(ferry_buffer *numbers, float amount);
    /* number() returns the element type of numbers, and particle() that of particles. The returned
     * pointer stays valid until the shared object is closed. */
    const ferry_element *(*number)(void);
    const ferry_element *(*particle)(void);
};

FERRY_BEGIN_DECLS
extern const struct module exchange_module;
FERRY_END_DECLS

#endif
