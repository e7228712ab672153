/* SPDX-License-Identifier: MIT */
#include "binding.h"

/* The memory of an access as others see it: an ndarray, the buffer protocol, and the CUDA array
 * interface. */

PyObject *
ferrypy_ndarray(void)
{
    static PyObject *ndarray;
    static bool missing; /* a search in vain takes longer than an access */
    PyObject *numpy;

    if (ndarray || missing)
        return ndarray;
    numpy = PyImport_ImportModule("numpy");
    if (numpy)
        ndarray = PyObject_GetAttrString(numpy, "ndarray");
    Py_XDECREF(numpy);
    if (!ndarray && PyErr_ExceptionMatches(PyExc_ImportError)) {
        missing = true;
        PyErr_Clear();
    }
    return ndarray;
}

PyObject *
ferrypy_access_view(struct access_object *self)
{
    struct array_object *array = self->array;
    PyObject *ndarray = ferrypy_ndarray(), *dtype, *strides = NULL, *view = NULL;

    if (!ndarray)
        return PyErr_Occurred() ? NULL : PyMemoryView_FromObject((PyObject *)self);
    /* Opening gives up the interpreter lock, which `laying` below must not outlast. */
    if (ferrypy_access_open(self) < 0)
        return NULL;
    dtype = ferrypy_element_dtype(array->element);
    if (!dtype)
        return NULL;
    if (ferrypy_array_is_c(array)) {
        view = PyObject_CallFunctionObjArgs(ndarray, array->shape, dtype, (PyObject *)self, NULL);
    } else {
        PyObject *zero = PyLong_FromLong(0);
        strides = PyObject_GetAttrString((PyObject *)array, "strides");
        if (strides && zero) {
            self->laying = true;
            view = PyObject_CallFunctionObjArgs(ndarray, array->shape, dtype, (PyObject *)self,
                                                zero, strides, NULL);
            self->laying = false;
        }
        Py_XDECREF(zero);
        Py_XDECREF(strides);
    }
    Py_DECREF(dtype);
    return view;
}

/* True when the first index is the fastest. */
static bool
is_fortran(const struct array_object *array)
{
    int64_t next = 1;

    for (int i = 0; i < array->rank; i++) {
        if (array->extents[i] == 0)
            return true; /* no elements are in every order */
    }
    for (int i = 0; i < array->rank; i++) {
        if (array->extents[i] != 1 && array->extents[array->rank + i] != next)
            return false;
        next *= array->extents[i];
    }
    return true;
}

int
ferrypy_access_get_buffer(PyObject *object, Py_buffer *view, int flags)
{
    struct access_object *self = (struct access_object *)object;
    struct array_object *array = self->array;
    Py_ssize_t bytes = (Py_ssize_t)array->element->element->bytes;
    bool read_only = self->access == FERRY_READ, shaped;

    view->obj = NULL;
    if (self->place != FERRY_PLACE_HOST) {
        PyErr_SetString(
            PyExc_BufferError,
            "an access of a device has no host memory: use DLPack or __cuda_array_interface__");
        return -1;
    }
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE && read_only) {
        PyErr_SetString(PyExc_BufferError, "the access is read-only");
        return -1;
    }
    if ((flags & PyBUF_FORMAT) == PyBUF_FORMAT && !array->element->format) {
        PyErr_Format(PyExc_BufferError, "the buffer protocol has no format for %s: view it as 'u2'",
                     array->element->element->name);
        return -1;
    }
    shaped = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
    if (!self->laying && !ferrypy_array_is_c(array) &&
        (!shaped || (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS)) {
        PyErr_SetString(PyExc_BufferError,
                        "the memory is not in C order, and the consumer takes no other");
        return -1;
    }
    if (!is_fortran(array) &&
        ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS ||
         ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !ferrypy_array_is_c(array)))) {
        PyErr_SetString(PyExc_BufferError,
                        "the memory is not in the order that the consumer takes");
        return -1;
    }
    if (ferrypy_access_open(self) < 0)
        return -1;
    if (!self->extents && array->rank > 0) {
        self->extents = PyMem_Calloc((size_t)array->rank * 2, sizeof(*self->extents));
        if (!self->extents) {
            PyErr_NoMemory();
            return -1;
        }
        for (int i = 0; i < array->rank; i++) {
            self->extents[i] = (Py_ssize_t)array->extents[i];
            self->extents[array->rank + i] = (Py_ssize_t)array->extents[array->rank + i] * bytes;
        }
    }
    view->buf = self->pointer ? self->pointer : (void *)self;
    view->len = bytes;
    for (int i = 0; i < array->rank; i++)
        view->len *= (Py_ssize_t)array->extents[i];
    view->itemsize = bytes;
    view->readonly = read_only;
    view->ndim = (flags & PyBUF_ND) == PyBUF_ND ? array->rank : 1;
    view->format = (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? array->element->format : NULL;
    view->shape = (flags & PyBUF_ND) == PyBUF_ND ? self->extents : NULL;
    view->strides = shaped && self->extents ? self->extents + array->rank : NULL;
    view->suboffsets = NULL;
    view->internal = NULL;
    Py_INCREF(object);
    view->obj = object;
    return 0;
}

PyObject *
ferrypy_access_cuda_interface(PyObject *object, void *unused)
{
    struct access_object *self = (struct access_object *)object;
    struct array_object *array = self->array;
    int32_t type = 0, id;
    ferry_stream *stream;
    char typestr[32];
    void *native;

    (void)unused;
    if (self->place == FERRY_PLACE_HOST ||
        ferry_context_exchange_device(array->context->context, self->place, &type, &id) !=
            FERRY_OK ||
        type != 2) {
        PyErr_SetString(PyExc_AttributeError,
                        "__cuda_array_interface__: the memory is not that of a CUDA device");
        return NULL;
    }
    if (!ferry_element_text(array->element->element, FERRY_TEXT_TYPESTR, typestr,
                            sizeof(typestr))) {
        PyErr_Format(PyExc_AttributeError, "__cuda_array_interface__ has no name for %s",
                     array->element->element->name);
        return NULL;
    }
    if (ferrypy_access_open(self) < 0)
        return NULL;
    self->lent = true;
    stream = self->stream ? self->stream->stream
                          : ferry_context_stream(array->context->context, self->place);
    native = ferry_stream_native(stream);
    return Py_BuildValue("{s:O,s:s,s:(NN),s:N,s:i,s:N}", "shape", array->shape, "typestr", typestr,
                         "data", PyLong_FromVoidPtr(self->pointer),
                         PyBool_FromLong(self->access == FERRY_READ), "strides",
                         PyObject_GetAttrString((PyObject *)array, "strides"), "version", 3,
                         "stream", native ? PyLong_FromVoidPtr(native) : PyLong_FromLong(1));
}
