/* SPDX-License-Identifier: MIT */
#ifndef FERRYPY_KERNEL_H
#define FERRYPY_KERNEL_H

#include "binding.h"

/* The host function of a kernel: Python code, or the address of compiled code. */
struct ferrypy_host_function {
    ferry_host_function *run;
    PyObject *function; /* NULL for compiled code, and after the kernel was cleared */
    int32_t (*compiled)(void **pointers, size_t *counts);
    PyObject *keeper;                  /* object that owns the compiled code */
    const ferry_parameter *parameters; /* of the kernel */
    size_t parameter_count;
};

/* `address` is None, or a tuple of an address and its owner. NULL with an exception set on failure.
 */
struct ferrypy_host_function *ferrypy_host_function_create(PyObject *function, PyObject *address,
                                                           const ferry_parameter *parameters,
                                                           size_t parameter_count);
void ferrypy_host_function_destroy(struct ferrypy_host_function *host);

#endif
