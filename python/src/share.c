/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <string.h>

/* Arrays whose memory several processes use: <ferry/share.h>. */

static PyObject *
export_shared(PyObject *module, PyObject *arguments)
{
    struct array_object *array;
    ferry_share share;
    ferry_status status;

    (void)module;
    if (!ferrypy_parse(arguments, "O!:export_shared", ferrypy_array_type, (PyObject **)&array) ||
        !ferrypy_array_check(array))
        return NULL;
    status = ferry_buffer_export(array->buffer, &share);
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    return PyBytes_FromStringAndSize((const char *)share.bytes, sizeof(share.bytes));
}

/* import_shared(array type, context, element, share, function, read_only, place, name): the
 * function returns the shape of an array with the number of elements that it is called with. */
static PyObject *
import_shared(PyObject *module, PyObject *arguments)
{
    struct context_object *context;
    struct element_object *element;
    ferry_share_options options = {0};
    int64_t shape[FERRYPY_RANK_MAX];
    PyObject *shape_of, *sizes;
    const char *bytes;
    Py_ssize_t length;
    PyTypeObject *type;
    ferry_share share;
    ferry_buffer *buffer;
    ferry_status status;
    int rank, read_only;

    (void)module;
    if (!ferrypy_parse(arguments, "O!O!O!y#Opiz:import_shared", &PyType_Type, (PyObject **)&type,
                       ferrypy_context_type, (PyObject **)&context, ferrypy_element_type,
                       (PyObject **)&element, &bytes, &length, &shape_of, &read_only,
                       &options.place, &options.name))
        return NULL;
    if (!PyType_IsSubtype(type, ferrypy_array_type))
        return PyErr_Format(PyExc_TypeError, "import_shared needs a type of arrays");
    if ((size_t)length != sizeof(share.bytes))
        return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                                 "import_shared: a handle has %zu bytes, not %zd",
                                 sizeof(share.bytes), length);
    memcpy(share.bytes, bytes, sizeof(share.bytes));
    options.read_only = read_only != 0;
    ferrypy_run_deferred();
    FERRYPY_BLOCKING(
        status, ferry_buffer_import(context->context, element->element, &share, &options, &buffer));
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    sizes = PyObject_CallFunction(shape_of, "n", (Py_ssize_t)ferry_buffer_count(buffer));
    if (!sizes || ferrypy_shape_read(sizes, element->element->bytes, shape, &rank) < 0) {
        Py_XDECREF(sizes);
        FERRYPY_RELEASE(ferry_buffer_destroy(&buffer));
        return NULL;
    }
    Py_DECREF(sizes);
    return ferrypy_array_object(type, context, (PyObject *)element, buffer, rank, shape, NULL);
}

/* Calls a function of the library with an array and a stream or None. */
static PyObject *
hand_over(PyObject *arguments, const char *format,
          ferry_status (*call)(ferry_buffer *buffer, ferry_stream *stream))
{
    struct array_object *array;
    ferry_stream *native = NULL;
    ferry_buffer *buffer;
    ferry_status status;
    PyObject *stream;

    if (!ferrypy_parse(arguments, format, ferrypy_array_type, (PyObject **)&array, &stream) ||
        !ferrypy_array_check(array))
        return NULL;
    if (stream != Py_None) {
        if (!PyObject_TypeCheck(stream, ferrypy_stream_type))
            return ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "stream must be a ferry.Stream");
        native = ((struct stream_object *)stream)->stream;
    }
    buffer = ferry_buffer_retain(array->buffer);
    FERRYPY_BLOCKING(status, call(buffer, native));
    FERRYPY_RELEASE(ferry_buffer_destroy(&buffer));
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    Py_RETURN_NONE;
}

static PyObject *
acquire_shared(PyObject *module, PyObject *arguments)
{
    (void)module;
    return hand_over(arguments, "O!O:acquire_shared", ferry_buffer_acquire_shared);
}

static PyObject *
release_shared(PyObject *module, PyObject *arguments)
{
    (void)module;
    return hand_over(arguments, "O!O:release_shared", ferry_buffer_release_shared);
}

static PyMethodDef functions[] = {
    {"export_shared", export_shared, METH_VARARGS, NULL},
    {"import_shared", import_shared, METH_VARARGS, NULL},
    {"acquire_shared", acquire_shared, METH_VARARGS, NULL},
    {"release_shared", release_shared, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int
ferrypy_share_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
