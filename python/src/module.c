/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <limits.h>
#include <stdatomic.h>

#include <ferry/version.h>

PyTypeObject *
ferrypy_type_add(PyObject *module, PyType_Spec *spec, PyTypeObject *base)
{
    PyObject *bases = base ? PyTuple_Pack(1, base) : NULL;
    PyTypeObject *type = (PyTypeObject *)PyType_FromSpecWithBases(spec, bases);

    Py_XDECREF(bases);
    if (type && PyModule_AddType(module, type) < 0)
        Py_CLEAR(type);
    return type;
}

void
ferrypy_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    release(self);
    Py_DECREF(type);
}

bool
ferrypy_int(PyObject *value, int *out)
{
    long number = PyLong_AsLong(value);

    if (number == -1 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return false;
        PyErr_Clear();
        number = LONG_MAX;
    }
    if (number > INT_MAX || number < INT_MIN) {
        ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT, "%R exceeds an int", value);
        return false;
    }
    *out = (int)number;
    return true;
}

static PyObject *
in_callback(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(ferrypy_in_callback());
}

/* Id of the interpreter that has imported the package, plus 1; 0: none has. Objects of the library,
 * its callbacks and the types of this module belong to one interpreter. */
static _Atomic int64_t home;

/* Makes the calling interpreter the home of the package. Refuses all but the first. */
static PyObject *
enter_interpreter(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    int64_t mine = PyInterpreterState_GetID(PyInterpreterState_Get()) + 1, first = 0;
    if (mine <= 0)
        return NULL;
    if (!atomic_compare_exchange_strong(&home, &first, mine) && first != mine) {
        PyErr_SetString(
            PyExc_ImportError,
            "ferry is imported already by another interpreter of this process, and works "
            "in one alone; use threads or processes in place of subinterpreters");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_enter_interpreter", enter_interpreter, METH_NOARGS, NULL},
    {"_at_exit", ferrypy_at_exit, METH_NOARGS, NULL},
    {"_in_callback", in_callback, METH_NOARGS, NULL},
    {"_host_calls", ferrypy_host_calls, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "ferry._ferry",
    "The C part of the ferry package.",
    -1,
    functions,
    NULL,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__ferry(void);

PyMODINIT_FUNC
PyInit__ferry(void)
{
    PyObject *module = PyModule_Create(&definition);

    if (!module)
        return NULL;
    if (ferrypy_error_init(module) < 0 || ferrypy_element_init(module) < 0 ||
        ferrypy_context_init(module) < 0 || ferrypy_stream_init(module) < 0 ||
        ferrypy_event_init(module) < 0 || ferrypy_graph_init(module) < 0 ||
        ferrypy_array_init(module) < 0 || ferrypy_access_init(module) < 0 ||
        ferrypy_dlpack_init(module) < 0 || ferrypy_arrow_init(module) < 0 ||
        ferrypy_copy_init(module) < 0 || ferrypy_share_init(module) < 0 ||
        ferrypy_label_init(module) < 0 || ferrypy_kernel_init(module) < 0 ||
        ferrypy_launcher_init(module) < 0 || ferrypy_file_init(module) < 0 ||
        PyModule_AddStringConstant(module, "version", FERRY_VERSION) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
