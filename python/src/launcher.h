/* SPDX-License-Identifier: MIT */
#ifndef FERRYPY_LAUNCHER_H
#define FERRYPY_LAUNCHER_H

#include <ferry/generated.h>

#include "kernel.h"

/*
 * A kernel from one expression: its parameters, and the kernels that were compiled for the element
 * types that calls had. A call finds the kernels of its arrays and launches them without any Python
 * code, as the functions of a generated header do it in C.
 */

/* What a launch computes. _expression.py has the same numbers. */
enum ferrypy_form { FERRYPY_MAP, FERRYPY_STENCIL, FERRYPY_REDUCTION, FERRYPY_FUSED };

/* The most parameters of a kernel, with its results and sizes. */
#define FERRYPY_ARGUMENTS_MAX 96

/* One parameter, as the program wrote it. */
struct ferrypy_slot {
    ferry_access access; /* 0: a value */
    bool counts;         /* an array with one element for each index */
    bool one;            /* a value in the first element of an array */
    int variable;        /* number of the letter that is its type; -1: a type */
    PyObject *name;
};

/* The kernels for one set of element types. */
struct ferrypy_variant {
    struct kernel_object *first, *second; /* `second` combines partial results; NULL: none */
    const ferry_element **elements;       /* of the slots whose type is a letter, else NULL */
    const ferry_element *results[FERRYPY_ARGUMENTS_MAX];
    size_t counted[FERRYPY_ARGUMENTS_MAX]; /* slots whose counts follow the sizes */
    size_t counted_count;
};

struct launcher_object {
    PyObject_HEAD struct context_object *context;
    PyObject *name;
    struct ferrypy_slot *slots;
    size_t slot_count;
    enum ferrypy_form form;
    int dimensions; /* 0, 2 or 3 */
    size_t reach;
    ferry_edges edges;
    bool has_count;
    int variables;     /* number of letters */
    PyObject *results; /* tuple of the names of the results of FERRYPY_FUSED */
    struct ferrypy_variant **variants;
    size_t variant_count;
};

/* One call of a launcher. References are borrowed from the arguments of the call. */
struct ferrypy_launch {
    PyObject *stream_given, *out, *box, *shape; /* NULL: not given */
    ferry_stream *stream;
    size_t count;            /* indices that are computed */
    bool has_count;          /* `count` was given */
    struct array_object *as; /* the array whose shape all others have; NULL: none */
    size_t sizes[3];
    ferry_cells cells; /* where there are dimensions */
    const struct ferrypy_variant *variant;
    size_t argument_count, buffer_count, bytes_count;
    ferry_argument
        arguments[FERRYPY_ARGUMENTS_MAX];         /* this member and those below are not cleared */
    ferry_buffer *buffers[FERRYPY_ARGUMENTS_MAX]; /* owned handles of arrays of the call */
    PyObject *bytes[FERRYPY_ARGUMENTS_MAX];       /* owned: what values point to */
    uint64_t words[FERRYPY_ARGUMENTS_MAX];        /* results */
};

/* Finds the number of indices, or the cells, of a call. False with an exception set on failure. */
bool ferrypy_launch_measure(struct launcher_object *self, PyObject *arguments,
                            struct ferrypy_launch *launch);
/* Finds the cells of a call of several dimensions. */
bool ferrypy_launch_find_cells(struct launcher_object *self, struct ferrypy_launch *launch);
/* Reads the arguments of a call, which has all, whose variant and sizes are known. False with an
 * exception set on failure. */
bool ferrypy_launch_read(struct launcher_object *self, struct ferrypy_launch *launch,
                         PyObject *arguments);
/* Gives back what ferrypy_launch_read() took. */
void ferrypy_launch_release(struct ferrypy_launch *launch);
/* Launches, and for results that the call returns also waits. */
ferry_status ferrypy_launch_run(struct launcher_object *self, struct ferrypy_launch *launch);

#endif
