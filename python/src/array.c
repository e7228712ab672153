/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <string.h>

PyTypeObject *ferrypy_array_type;

static void
release_buffer(void *object)
{
    ferry_buffer *buffer = object;
    ferry_buffer_destroy(&buffer);
}

static PyObject *
tuple_of(const int64_t *values, int rank, int64_t factor)
{
    PyObject *tuple = PyTuple_New(rank);

    for (int i = 0; tuple && i < rank; i++) {
        PyObject *value = PyLong_FromLongLong((int64_t)((uint64_t)values[i] * (uint64_t)factor));
        if (!value || PyTuple_SetItem(tuple, i, value) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *
ferrypy_array_object(PyTypeObject *type, struct context_object *context, PyObject *element,
                     ferry_buffer *buffer, int rank, const int64_t *shape, const int64_t *strides)
{
    struct array_object *self = (struct array_object *)PyType_GenericAlloc(type, 0);
    int64_t next = 1;
    bool empty = false;

    if (!self) {
        ferrypy_release_later(release_buffer, buffer);
        return NULL;
    }
    Py_INCREF((PyObject *)context);
    Py_INCREF(element);
    self->context = context;
    self->element = (struct element_object *)element;
    self->buffer = buffer;
    self->rank = rank;
    self->extents = PyMem_Calloc(rank ? (size_t)rank * 2 : 1, sizeof(*self->extents));
    if (!self->extents) {
        Py_DECREF((PyObject *)self);
        return PyErr_NoMemory();
    }
    for (int i = 0; i < rank; i++)
        empty = empty || shape[i] == 0;
    for (int i = rank - 1; i >= 0; i--) {
        self->extents[i] = shape[i];
        /* A stride says nothing over one element, or without elements: all such arrays have the
         * same. */
        self->extents[rank + i] = strides && !empty && shape[i] != 1 ? strides[i] : next;
        /* Sizes of an array without elements may overflow. */
        next = (int64_t)((uint64_t)next * (uint64_t)(shape[i] ? shape[i] : 1));
    }
    self->shape = tuple_of(shape, rank, 1);
    if (!self->shape)
        Py_CLEAR(self);
    return (PyObject *)self;
}

PyObject *
ferrypy_array_lent(PyObject *object)
{
    struct array_object *self = (struct array_object *)object;
    ferry_buffer_info info;

    /* A new wrap has no other copy than its owner's. */
    if (self && ferry_buffer_get_info(self->buffer, &info) == FERRY_OK && info.borrowed &&
        info.places_with_copy)
        self->home = __builtin_ctz(info.places_with_copy) + 1;
    return object;
}

static void
array_close_now(struct array_object *self)
{
    ferry_buffer *buffer = self->buffer;

    self->buffer = NULL;
    if (buffer)
        ferrypy_release_later(release_buffer, buffer);
}

/* Closes a view of a chunk that was closed. Returns whether the array is closed. */
static bool
array_is_closed(struct array_object *self)
{
    if (self->chunk && !self->chunk->buffer)
        array_close_now(self);
    return !self->buffer;
}

void
ferrypy_array_view_of(struct array_object *view, struct array_object *array)
{
    view->home = array->home;
    view->chunk = array->is_chunk ? array : array->chunk;
    Py_XINCREF((PyObject *)view->chunk);
}

bool
ferrypy_array_check(struct array_object *self)
{
    if (array_is_closed(self))
        ferrypy_fail_with(FERRY_ERROR_INVALID_STATE, "the array was closed");
    return self->buffer != NULL;
}

bool
ferrypy_array_is_c(const struct array_object *self)
{
    int64_t next = 1;

    for (int i = 0; i < self->rank; i++) {
        if (self->extents[i] == 0)
            return true; /* no elements are in every order */
    }
    for (int i = self->rank - 1; i >= 0; i--) {
        if (self->extents[i] != 1 && self->extents[self->rank + i] != next)
            return false;
        next *= self->extents[i];
    }
    return true;
}

static int
array_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)((struct array_object *)object)->context);
    Py_VISIT((PyObject *)((struct array_object *)object)->chunk);
    return 0;
}

static void
array_dealloc(PyObject *object)
{
    struct array_object *self = (struct array_object *)object;

    PyObject_GC_UnTrack(object);
    array_close_now(self);
    PyMem_Free(self->extents);
    Py_XDECREF(self->shape);
    Py_XDECREF((PyObject *)self->element);
    Py_XDECREF((PyObject *)self->context);
    Py_XDECREF((PyObject *)self->chunk);
    ferrypy_free(object);
}

/* -- questions --------------------------------------------------------------------------------- */

static PyObject *
array_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    array_close_now((struct array_object *)object);
    Py_RETURN_NONE;
}

static PyObject *
array_info(PyObject *object, PyObject *unused)
{
    struct array_object *self = (struct array_object *)object;
    ferry_buffer_info info;
    ferry_status status;

    (void)unused;
    if (!ferrypy_array_check(self))
        return NULL;
    status = ferry_buffer_get_info(self->buffer, &info);
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    return Py_BuildValue(
        "{s:N,s:s,s:I,s:I,s:I,s:I,s:I,s:N,s:N,s:N,s:N,s:n,s:(KK),s:(KK),s:(KK),s:K,s:N}", "name",
        ferrypy_text(info.name), "state", ferry_state_name(info.state), "places_with_copy",
        info.places_with_copy, "places_current", info.places_current, "places_held",
        info.places_held, "scopes", info.scopes, "leases", info.leases, "borrowed",
        PyBool_FromLong(info.borrowed), "read_only", PyBool_FromLong(info.read_only), "away",
        PyBool_FromLong(info.away), "page_locked", PyBool_FromLong(info.page_locked),
        "allocated_bytes", (Py_ssize_t)info.allocated_bytes, "to_device",
        (unsigned long long)info.to_device.copies, (unsigned long long)info.to_device.bytes,
        "to_host", (unsigned long long)info.to_host.copies, (unsigned long long)info.to_host.bytes,
        "between_devices", (unsigned long long)info.between_devices.copies,
        (unsigned long long)info.between_devices.bytes, "evictions",
        (unsigned long long)info.evictions, "lent_at",
        self->home ? PyLong_FromLong(self->home - 1) : Py_NewRef(Py_None));
}

static PyObject *
array_describe(PyObject *object, PyObject *unused)
{
    struct array_object *self = (struct array_object *)object;
    char text[512];

    (void)unused;
    if (array_is_closed(self))
        return PyUnicode_FromString("closed");
    ferry_buffer_describe(self->buffer, text, sizeof(text));
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *
get_shape(PyObject *object, void *unused)
{
    PyObject *shape = ((struct array_object *)object)->shape;
    (void)unused;
    Py_INCREF(shape);
    return shape;
}

static PyObject *
get_strides(PyObject *object, void *unused)
{
    struct array_object *self = (struct array_object *)object;
    (void)unused;
    return tuple_of(self->extents + self->rank, self->rank, (int64_t)self->element->element->bytes);
}

static PyObject *
get_element(PyObject *object, void *unused)
{
    PyObject *element = (PyObject *)((struct array_object *)object)->element;
    (void)unused;
    Py_INCREF(element);
    return element;
}

static PyObject *
get_context(PyObject *object, void *unused)
{
    PyObject *context = (PyObject *)((struct array_object *)object)->context;
    (void)unused;
    Py_INCREF((PyObject *)context);
    return context;
}

static PyObject *
get_state(PyObject *object, void *unused)
{
    struct array_object *self = (struct array_object *)object;
    (void)unused;
    return ferrypy_array_check(self)
               ? PyUnicode_FromString(ferry_state_name(ferry_buffer_state(self->buffer)))
               : NULL;
}

static PyObject *
get_count(PyObject *object, void *bytes)
{
    struct array_object *self = (struct array_object *)object;
    int64_t count = 1;

    for (int i = 0; i < self->rank; i++)
        count *= self->extents[i];
    return PyLong_FromLongLong(count * (bytes ? (int64_t)self->element->element->bytes : 1));
}

static PyObject *
get_rank(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((struct array_object *)object)->rank);
}

static PyObject *
get_closed(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(array_is_closed((struct array_object *)object));
}

static PyMethodDef methods[] = {
    {"_info", array_info, METH_NOARGS, NULL},
    {"_close", array_close, METH_NOARGS, NULL},
    {"describe", array_describe, METH_NOARGS,
     "Returns one line about the array, its state and its copies."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef members[] = {
    {"shape", get_shape, NULL, "Sizes of the dimensions.", NULL},
    {"strides", get_strides, NULL, "Distances of neighbours in each dimension, in bytes.", NULL},
    {"dtype", get_element, NULL,
     "Element of the array: an Element, which NumPy takes where it wants a dtype.", NULL},
    {"context", get_context, NULL, "Context of the array.", NULL},
    {"state", get_state, NULL, "Where the newest bytes are, such as \"HOST_DIRTY\".", NULL},
    {"size", get_count, NULL, "Number of elements.", NULL},
    {"nbytes", get_count, NULL, "Number of bytes.", (void *)1},
    {"ndim", get_rank, NULL, "Number of dimensions.", NULL},
    {"closed", get_closed, NULL, "True after close().", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

int
ferrypy_array_init(PyObject *module)
{
    static PyMethodDef joined[32]; /* ends with zeros */
    static PyType_Slot slots[] = {
        {Py_tp_dealloc, array_dealloc},
        {Py_tp_traverse, array_traverse},
        {Py_tp_methods, joined},
        {Py_tp_getset, members},
        {0, NULL},
    };
    static PyType_Spec spec = {
        .name = "ferry._ferry.Array",
        .basicsize = sizeof(struct array_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                 Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };
    PyMethodDef *const parts[] = {methods, ferrypy_array_maker_methods,
                                  ferrypy_array_access_methods};
    size_t count = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        for (PyMethodDef *method = parts[i]; method->ml_name; method++)
            joined[count++] = *method;
    }
    ferrypy_array_type = ferrypy_type_add(module, &spec, NULL);
    return ferrypy_array_type ? 0 : -1;
}
