/* SPDX-License-Identifier: MIT */
#include "binding.h"

int64_t
ferrypy_shape_read(PyObject *shape, size_t element_bytes, int64_t out[FERRYPY_RANK_MAX],
                   int *out_rank)
{
    Py_ssize_t rank = PyTuple_Size(shape);
    int64_t count = 1, bytes = (int64_t)element_bytes;

    if (rank < 0)
        return -1;
    if (rank > FERRYPY_RANK_MAX) {
        ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                          "an array has at most %d dimensions, not %zd", FERRYPY_RANK_MAX, rank);
        return -1;
    }
    for (Py_ssize_t i = 0; i < rank; i++) {
        Py_ssize_t size = PyNumber_AsSsize_t(PyTuple_GetItem(shape, i), PyExc_OverflowError);
        if (size == -1 && PyErr_Occurred()) {
            ferrypy_refused("the size of a dimension: ");
            return -1;
        }
        if (size < 0) {
            ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                              "dimension %zd has the negative size %zd", i, size);
            return -1;
        }
        out[i] = size;
    }
    /* The strides of an array without elements have a size, too. */
    for (Py_ssize_t i = 0; i < rank; i++) {
        if (__builtin_mul_overflow(bytes, out[i] ? out[i] : 1, &bytes)) {
            ferrypy_fail_with(FERRY_ERROR_OVERFLOW, "the number of bytes exceeds 63 bits");
            return -1;
        }
        count *= out[i];
    }
    *out_rank = (int)rank;
    return count;
}

/* _create(context, element, shape, name, memory, place of shared memory, align, zero_on_release) */
static PyObject *
array_create(PyObject *type, PyObject *arguments)
{
    ferry_buffer_options options = {0};
    struct context_object *context;
    struct element_object *element;
    int64_t shape[FERRYPY_RANK_MAX], count;
    ferry_buffer *buffer;
    ferry_status status;
    PyObject *tuple;
    Py_ssize_t align;
    int rank, memory, zero_on_release;

    if (!ferrypy_parse(arguments, "O!O!O!ziinp:_create", ferrypy_context_type,
                       (PyObject **)&context, ferrypy_element_type, (PyObject **)&element,
                       &PyTuple_Type, &tuple, &options.name, &memory, &options.place, &align,
                       &zero_on_release))
        return NULL;
    count = ferrypy_shape_read(tuple, element->element->bytes, shape, &rank);
    if (count < 0)
        return NULL;
    ferrypy_run_deferred();
    options.memory = (ferry_memory_kind)memory;
    options.align = (size_t)align;
    options.zero_on_release = zero_on_release;
    FERRYPY_BLOCKING(status, ferry_buffer_create(context->context, element->element, (size_t)count,
                                                 &options, &buffer));
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    return ferrypy_array_object((PyTypeObject *)type, context, (PyObject *)element, buffer, rank,
                                shape, NULL);
}

static bool
check_element(PyObject *element)
{
    bool good = element == Py_None || PyObject_TypeCheck(element, ferrypy_element_type);

    if (!good)
        PyErr_SetString(PyExc_TypeError, "not an element");
    return good;
}

/* Flags with which exported memory is asked for. An exporter need not name an element that the
 * caller knows, and NumPy cannot name all that it has. */
static int
flags_for(PyObject *element)
{
    return PyBUF_STRIDES | (element == Py_None ? PyBUF_FORMAT : 0);
}

/* _create_from(context, exporter, element or None, name, memory, place of shared memory,
 * zero_on_release): copies.
 * _wrap(context, exporter, element or None, read_only, name): does not. */
static PyObject *
array_create_from(PyObject *type, PyObject *arguments)
{
    ferry_buffer_options options = {0};
    struct context_object *context;
    int64_t shape[FERRYPY_RANK_MAX], strides[FERRYPY_RANK_MAX];
    PyObject *exporter, *element, *made = NULL;
    struct ferrypy_owner *owner;
    ferry_buffer *buffer;
    ferry_status status;
    Py_buffer *view;
    void *packed = NULL;
    bool is_packed;
    int memory, zero_on_release;

    if (!ferrypy_parse(arguments, "O!OOziip:_create_from", ferrypy_context_type,
                       (PyObject **)&context, &exporter, &element, &options.name, &memory,
                       &options.place, &zero_on_release) ||
        !check_element(element))
        return NULL;
    options.memory = (ferry_memory_kind)memory;
    options.zero_on_release = zero_on_release;
    ferrypy_run_deferred();
    owner = ferrypy_owner_create(exporter, flags_for(element));
    if (!owner)
        return NULL;
    view = ferrypy_owner_buffer(owner);
    if (element != Py_None)
        Py_INCREF(element);
    else if (!(element = ferrypy_element_of_buffer(view)))
        goto end;
    if (!ferrypy_memory_read(view, ((struct element_object *)element)->element->bytes, shape,
                             &is_packed, strides))
        goto end;
    if (!PyBuffer_IsContiguous(view, 'C')) {
        packed = PyMem_Malloc((size_t)(view->len ? view->len : 1));
        if (!packed) {
            PyErr_NoMemory();
            goto end;
        }
        if (PyBuffer_ToContiguous(packed, view, view->len, 'C') < 0)
            goto end;
    }
    FERRYPY_BLOCKING(status, ferry_buffer_create_from(
                                 context->context, ((struct element_object *)element)->element,
                                 (size_t)(view->len / view->itemsize), packed ? packed : view->buf,
                                 &options, &buffer));
    made = status == FERRY_OK ? ferrypy_array_object((PyTypeObject *)type, context, element, buffer,
                                                     view->ndim, shape, NULL)
                              : ferrypy_fail(status);
end:
    PyMem_Free(packed);
    Py_XDECREF(element);
    ferrypy_owner_destroy(owner);
    return made;
}

static PyObject *
array_wrap(PyObject *type, PyObject *arguments)
{
    ferry_wrap_options options = {0};
    struct context_object *context;
    int64_t shape[FERRYPY_RANK_MAX], strides[FERRYPY_RANK_MAX];
    PyObject *exporter, *element, *made;
    struct ferrypy_owner *owner;
    int rank, read_only;
    bool is_packed;
    ferry_buffer *buffer;
    ferry_status status;
    Py_buffer *view;

    if (!ferrypy_parse(arguments, "O!OOpz:_wrap", ferrypy_context_type, (PyObject **)&context,
                       &exporter, &element, &read_only, &options.name) ||
        !check_element(element))
        return NULL;
    ferrypy_run_deferred();
    owner = ferrypy_owner_create(exporter, flags_for(element) | (read_only ? 0 : PyBUF_WRITABLE));
    if (!owner)
        return NULL;
    view = ferrypy_owner_buffer(owner);
    rank = view->ndim;
    if (element != Py_None)
        Py_INCREF(element);
    else if (!(element = ferrypy_element_of_buffer(view)))
        goto fail;
    if (!ferrypy_memory_read(view, ((struct element_object *)element)->element->bytes, shape,
                             &is_packed, strides))
        goto fail;
    if (!is_packed) {
        ferrypy_fail_with(FERRY_ERROR_UNSUPPORTED,
                          "wrap needs packed elements: copy them with ferry.array()");
        goto fail;
    }
    options.read_only = read_only != 0;
    options.on_release = ferrypy_owner_on_release;
    options.user = owner;
    FERRYPY_BLOCKING(status, ferry_buffer_wrap_host(context->context,
                                                    ((struct element_object *)element)->element,
                                                    (size_t)(view->len / view->itemsize), view->buf,
                                                    &options, &buffer));
    if (status != FERRY_OK) {
        ferrypy_fail(status);
        goto fail;
    }
    made = ferrypy_array_lent(
        ferrypy_array_object((PyTypeObject *)type, context, element, buffer, rank, shape, strides));
    Py_DECREF(element);
    return made;
fail:
    Py_XDECREF(element);
    ferrypy_owner_destroy(owner);
    return NULL;
}

/* _view(element, offset in bytes, shape, strides in elements or None, whether it is read-only): the
 * elements must be packed. A read-only view has the element of the array. */
static PyObject *
array_view(PyObject *object, PyObject *arguments)
{
    struct array_object *self = (struct array_object *)object;
    int64_t shape[FERRYPY_RANK_MAX], strides[FERRYPY_RANK_MAX], count;
    struct element_object *element;
    struct array_object *made;
    PyObject *sizes, *steps;
    ferry_buffer *buffer;
    ferry_status status;
    Py_ssize_t offset;
    int rank, read_only = 0;

    if (!ferrypy_parse(arguments, "O!nO!O|p:_view", ferrypy_element_type, (PyObject **)&element,
                       &offset, &PyTuple_Type, &sizes, &steps, &read_only))
        return NULL;
    count = ferrypy_shape_read(sizes, element->element->bytes, shape, &rank);
    if (count < 0)
        return NULL;
    if (steps != Py_None) {
        if (!PyTuple_Check(steps) || PyTuple_Size(steps) != rank)
            return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                                     "a view needs as many strides as sizes");
        for (int i = 0; i < rank; i++) {
            strides[i] = PyLong_AsLongLong(PyTuple_GetItem(steps, i));
            if (strides[i] == -1 && PyErr_Occurred())
                return NULL;
        }
    }
    /* The sizes may be objects whose code closes the array. */
    if (!ferrypy_array_check(self))
        return NULL;
    if (read_only ||
        (element == self->element && offset % (Py_ssize_t)element->element->bytes == 0))
        status = (read_only ? ferry_buffer_view_read_only : ferry_buffer_view)(
            self->buffer, element->element, (size_t)offset / element->element->bytes, (size_t)count,
            &buffer);
    else
        status = ferry_buffer_reinterpret(self->buffer, element->element, (size_t)offset,
                                          (size_t)count, &buffer);
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    made = (struct array_object *)ferrypy_array_object(Py_TYPE(object), self->context,
                                                       (PyObject *)element, buffer, rank, shape,
                                                       steps == Py_None ? NULL : strides);
    if (made)
        ferrypy_array_view_of(made, self);
    return (PyObject *)made;
}

PyMethodDef ferrypy_array_maker_methods[] = {
    {"_create", array_create, METH_VARARGS | METH_CLASS, NULL},
    {"_create_from", array_create_from, METH_VARARGS | METH_CLASS, NULL},
    {"_wrap", array_wrap, METH_VARARGS | METH_CLASS, NULL},
    {"_view", array_view, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
