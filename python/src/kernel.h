/* SPDX-License-Identifier: MIT */
#ifndef FERRYPY_KERNEL_H
#define FERRYPY_KERNEL_H

#include "binding.h"

/* The host function of a kernel: Python code, or the address of compiled code. */
struct ferrypy_host_function {
    ferry_host_function *run; /* that of the library; `native` code is it itself */
    PyObject *function;       /* NULL for compiled code, and after the kernel was cleared */
    int32_t (*compiled)(void **pointers, size_t *counts);
    PyObject *keeper;                  /* object that owns the compiled code */
    const ferry_parameter *parameters; /* of the kernel */
    size_t parameter_count;
};

/*
 * `address` is None, or a tuple of an address, its owner, and whether it is a ferry_host_function.
 * NULL with an exception set on failure.
 */
struct ferrypy_host_function *ferrypy_host_function_create(PyObject *function, PyObject *address,
                                                           const ferry_parameter *parameters,
                                                           size_t parameter_count);
void ferrypy_host_function_destroy(struct ferrypy_host_function *host);
/* _host_calls(): the address of the functions of the library that generated host functions call. */
PyObject *ferrypy_host_calls(PyObject *module, PyObject *unused);

/*
 * A kernel with CUDA code, a host function, or both. Queued work uses the host function, so a
 * kernel waits for the streams on which it was launched before it drops the function.
 */
struct kernel_object {
    PyObject_HEAD struct context_object *context;
    ferry_kernel *kernel;
    struct ferrypy_host_function *host; /* NULL: CUDA code alone */
    ferry_parameter *parameters;
    size_t parameter_count;
    PyObject *streams;       /* set of the streams that may hold launches */
    uint32_t default_places; /* bit p: so may the default stream of place p */
    PyObject *name;
    PyObject *labels; /* list of the names of the parameters */
};
extern PyTypeObject *ferrypy_kernel_type;

/* Reads the Python value of a parameter that is an array, and retains its buffer. False with an
 * exception set on failure. */
bool ferrypy_kernel_array(struct kernel_object *self, PyObject *value, size_t index,
                          ferry_argument *out);
/* Reads the Python value of a parameter that is none. `bytes` keeps what the argument points to. */
bool ferrypy_kernel_value(struct kernel_object *self, PyObject *value, size_t index,
                          ferry_argument *out, PyObject **bytes);
/* Destroys the handles of the arguments of a launch. The last one of a wrap waits for its work. */
void ferrypy_arguments_release(ferry_argument *list, size_t count);
/* Notes a stream before a launch on it, so that no launch runs that the kernel would not wait for.
 * `object` is NULL for a default stream. False with an exception set on failure. */
bool ferrypy_kernel_note(struct kernel_object *self, struct stream_object *object,
                         ferry_stream *stream);

int ferrypy_launcher_init(PyObject *module);

#endif
