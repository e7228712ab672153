/* SPDX-License-Identifier: MIT */
#include "binding.h"

/*
 * An access is one use of an array at one place: a lease. It opens when a `with` begins or when its
 * memory is first asked for, and ends with the `with`, or with the last object that uses the
 * memory. After the end of a `with` the memory stays allocated while an ndarray has it, so that no
 * ndarray dangles.
 */
PyTypeObject *ferrypy_access_type;

static PyTypeObject *instance_type; /* the class of the package that derives from Access */
static PyObject *setflags_name, *no_arguments, *write_false;

struct access_object *
ferrypy_access_object(struct array_object *array, ferry_access access, int place,
                      struct stream_object *stream, bool raw)
{
    struct access_object *self = (struct access_object *)PyType_GenericAlloc(
        instance_type ? instance_type : ferrypy_access_type, 0);

    if (!self)
        return NULL;
    Py_INCREF((PyObject *)array);
    Py_XINCREF((PyObject *)stream);
    self->array = array;
    self->stream = stream;
    self->access = access;
    self->place = place;
    self->raw = raw;
    return self;
}

/* Opens a lease of a buffer whose handle it gives back, because another thread may close the array
 * meanwhile. */
static ferry_status
open_lease(ferry_buffer *buffer, const ferry_element *element, const ferry_lease_options *options,
           ferry_lease **out, void **out_pointer)
{
    ferry_status status = ferry_lease_open(buffer, element, options, out, out_pointer);

    ferry_buffer_destroy(&buffer);
    return status;
}

static void
release_lease(void *object)
{
    ferry_lease *lease = object;
    ferry_lease_destroy(&lease);
}

/* Ends a lease whose memory was never handed out. */
static void
abandon_lease(void *object)
{
    ferry_lease *lease = object;
    (void)ferry_lease_abandon(lease);
    ferry_lease_destroy(&lease);
}

int
ferrypy_access_open(struct access_object *self)
{
    struct array_object *array = self->array;
    char label[FERRYPY_LABEL_BYTES];
    ferry_lease_options options = {
        .access = self->access, .place = self->place, .count = FERRY_REST};
    ferry_lease *lease = NULL;
    ferry_buffer *buffer;
    ferry_status status;
    void *pointer;

    if (self->ended) {
        ferrypy_fail_with(FERRY_ERROR_INVALID_STATE, "the access has ended");
        return -1;
    }
    if (self->lease)
        return 0;
    ferrypy_label(label);
    options.label = label;
    if (self->stream)
        options.stream = self->stream->stream;
    else if (self->unordered && self->place != FERRY_PLACE_HOST)
        options.native_stream = self->native;
    else if (!self->unordered && self->place != FERRY_PLACE_HOST &&
             !(options.stream = ferrypy_default_stream(array->context, self->place)))
        return -1;
    /* Nothing between the check and the retained handle lets another thread close the array. */
    if (!ferrypy_array_check(array))
        return -1;
    buffer = ferry_buffer_retain(array->buffer);
    FERRYPY_BLOCKING(status,
                     open_lease(buffer, array->element->element, &options, &lease, &pointer));
    if (status != FERRY_OK) {
        ferrypy_fail(status);
        return -1;
    }
    if (self->lease || self->ended) {
        /* Another thread used the same access meanwhile. */
        ferrypy_release_later(abandon_lease, lease);
        return ferrypy_access_open(self);
    }
    self->lease = lease;
    self->pointer = pointer;
    return 0;
}

static int
access_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct access_object *self = (struct access_object *)object;

    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)self->array);
    Py_VISIT((PyObject *)self->stream);
    return 0;
}

/*
 * Gives the lease back. That only waits for the last owner of a wrapped buffer, which it is not
 * while its array is open: then the interpreter lock stays, because giving it up and taking it back
 * takes as long as all the rest of an access.
 */
static void
end_lease(struct access_object *self)
{
    ferry_lease *lease = self->lease;

    self->lease = NULL;
    if (self->array->buffer && !ferrypy_in_callback())
        ferry_lease_destroy(&lease);
    else
        ferrypy_release_later(release_lease, lease);
}

static void
access_dealloc(PyObject *object)
{
    struct access_object *self = (struct access_object *)object;

    PyObject_GC_UnTrack(object);
    Py_XDECREF(self->view);
    if (self->lease)
        end_lease(self);
    PyMem_Free(self->extents);
    Py_XDECREF((PyObject *)self->stream);
    Py_XDECREF((PyObject *)self->array);
    ferrypy_free(object);
}

/* -- with -------------------------------------------------------------------------------------- */

/* Ends the access. Its memory stays while something has it. */
static PyObject *
end_access(struct access_object *self, bool abandon)
{
    PyObject *view, *reference;
    ferry_status status = FERRY_OK;

    if (!self->ended && self->lease && abandon) {
        /* Another thread may end the access meanwhile. */
        ferry_lease *lease = ferry_lease_retain(self->lease);
        bool open;
        FERRYPY_BLOCKING(status, ferry_lease_abandon(lease));
        open = ferry_lease_is_open(lease);
        if (status != FERRY_OK && open)
            ferrypy_fail(status);
        ferrypy_release_later(release_lease, lease);
        if (status != FERRY_OK && open)
            return NULL;
        status = self->ended ? FERRY_OK : status;
    } else if (!self->ended && self->lease) {
        status = ferry_lease_close(self->lease);
        if (status != FERRY_OK && ferry_lease_is_open(self->lease))
            return ferrypy_fail(status);
    }
    if (status != FERRY_OK)
        ferrypy_fail(status);
    self->ended = true;
    reference = self->view;
    self->view = NULL;
    view = reference ? PyWeakref_GetObject(reference) : Py_None;
    if (view != Py_None) {
        PyObject *type, *value, *traceback, *setflags, *result;
        PyErr_Fetch(&type, &value, &traceback);
        Py_INCREF(view);
        setflags = PyObject_GetAttr(view, setflags_name);
        result = setflags ? PyObject_Call(setflags, no_arguments, write_false) : NULL;
        Py_XDECREF(setflags);
        if (!result)
            PyErr_Clear(); /* a memoryview has no flags */
        Py_XDECREF(result);
        Py_DECREF(view);
        PyErr_Restore(type, value, traceback);
    }
    Py_XDECREF(reference);
    if (status != FERRY_OK)
        return NULL;
    /* Exports own the lease themselves. Who took the interface for CUDA only has this object. */
    if (self->place != FERRY_PLACE_HOST && !self->lent && self->lease)
        end_lease(self);
    Py_RETURN_NONE;
}

/* Opens the access and returns what `with` names. */
static PyObject *
enter(struct access_object *self)
{
    PyObject *view;

    if (ferrypy_access_open(self) < 0)
        return NULL;
    if (self->place != FERRY_PLACE_HOST || self->raw)
        return Py_NewRef((PyObject *)self);
    view = ferrypy_access_view(self);
    if (!view) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        /* Nothing was written: the bytes stay what they were. */
        Py_XDECREF(end_access(self, true));
        PyErr_Restore(type, value, traceback);
    } else if (self->access != FERRY_READ) {
        /* Weak, because the view keeps the access. */
        self->view = PyWeakref_NewRef(view, NULL);
        if (!self->view)
            Py_CLEAR(view);
    }
    return view;
}

static PyObject *
access_enter(PyObject *object, PyObject *unused)
{
    struct access_object *self = (struct access_object *)object;
    PyObject *entered;

    (void)unused;
    if (self->entered)
        return ferrypy_fail_with(FERRY_ERROR_INVALID_STATE, "an access serves one with statement");
    self->entered = true; /* before another thread can run */
    entered = enter(self);
    self->entered = entered != NULL;
    return entered;
}

/* __exit__(kind, value, traceback). An exception discards what was written: half a result is not
 * published. */
static PyObject *
access_exit(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    PyObject *result;

    if (count == 0 || arguments[0] == Py_None)
        return end_access((struct access_object *)object, false);
    result = end_access((struct access_object *)object, true);
    if (result)
        return result;
    /* The exception of the program must not be replaced by this one. */
    PyErr_WriteUnraisable(object);
    Py_RETURN_NONE;
}

static PyObject *
access_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    return end_access((struct access_object *)object, false);
}

static PyObject *
access_abandon(PyObject *object, PyObject *unused)
{
    (void)unused;
    return end_access((struct access_object *)object, true);
}

/* -- memory ------------------------------------------------------------------------------------ */

/* _ndarray(): an ndarray over the memory of the host, which keeps the access open */
static PyObject *
access_ndarray(PyObject *object, PyObject *unused)
{
    struct access_object *self = (struct access_object *)object;

    (void)unused;
    if (self->place != FERRY_PLACE_HOST)
        return ferrypy_fail_with(FERRY_ERROR_UNSUPPORTED,
                                 "an access of a device has no host memory: use DLPack or "
                                 "__cuda_array_interface__, or read the array on the host");
    return ferrypy_access_view(self);
}

static PyObject *
get_pointer(PyObject *object, void *unused)
{
    struct access_object *self = (struct access_object *)object;
    (void)unused;
    return ferrypy_access_open(self) < 0 ? NULL : PyLong_FromVoidPtr(self->pointer);
}

static PyObject *
get_array(PyObject *object, void *unused)
{
    PyObject *array = (PyObject *)((struct access_object *)object)->array;
    (void)unused;
    Py_INCREF((PyObject *)array);
    return array;
}

static PyObject *
get_place(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((struct access_object *)object)->place);
}

static PyObject *
get_stream(PyObject *object, void *unused)
{
    PyObject *stream = (PyObject *)((struct access_object *)object)->stream;
    (void)unused;
    if (!stream)
        stream = Py_None;
    Py_INCREF((PyObject *)stream);
    return stream;
}

static PyObject *
get_open(PyObject *object, void *unused)
{
    struct access_object *self = (struct access_object *)object;
    (void)unused;
    return PyBool_FromLong(self->lease && ferry_lease_is_open(self->lease));
}

static PyObject *
get_mode(PyObject *object, void *unused)
{
    static const char *const names[] = {"", "read", "update", "overwrite"};
    (void)unused;
    return PyUnicode_FromString(names[((struct access_object *)object)->access]);
}

static PyMethodDef methods[] = {
    {"__enter__", access_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))access_exit, METH_FASTCALL, NULL},
    {"close", access_close, METH_NOARGS, "Ends the access. What was written counts."},
    {"abandon", access_abandon, METH_NOARGS,
     "Ends the access without publishing what was written."},
    {"_ndarray", access_ndarray, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef members[] = {
    {"ptr", get_pointer, NULL, "Address of the first element, at the place of the access.", NULL},
    {"array", get_array, NULL, "Array of the access.", NULL},
    {"place", get_place, NULL, "Place of the access. 0 is the host.", NULL},
    {"stream", get_stream, NULL,
     "Stream of the access; None for the host and for the default stream.", NULL},
    {"mode", get_mode, NULL, "\"read\", \"update\" or \"overwrite\".", NULL},
    {"is_open", get_open, NULL, "True while the access conflicts with others.", NULL},
    {"__cuda_array_interface__", ferrypy_access_cuda_interface, NULL,
     "Version 3; only for a CUDA device.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_dealloc, access_dealloc},
    {Py_tp_traverse, access_traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, members},
    {Py_bf_getbuffer, ferrypy_access_get_buffer},
    {0, NULL},
};
static PyType_Spec spec = {
    .name = "ferry._ferry.Access",
    .basicsize = sizeof(struct access_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

/* -- read, update, overwrite ------------------------------------------------------------------- */

/* read(*, device=None, stream=None, raw=False) */
static PyObject *
begin(PyObject *object, ferry_access access, PyObject *const *arguments, Py_ssize_t count,
      PyObject *names)
{
    struct array_object *self = (struct array_object *)object;
    struct stream_object *stream = NULL;
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    int place = FERRY_PLACE_HOST, raw = 0;
    bool placed = false;

    if (count > 0)
        return PyErr_Format(PyExc_TypeError,
                            "read, update and overwrite take keyword arguments only");
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GetItem(names, i), *value = arguments[i];
        if (PyUnicode_CompareWithASCIIString(name, "raw") == 0) {
            raw = PyObject_IsTrue(value);
            if (raw < 0)
                return NULL;
        } else if (PyUnicode_CompareWithASCIIString(name, "device") == 0) {
            if (value == Py_None)
                continue;
            if (!ferrypy_int(value, &place))
                return NULL;
            placed = true;
        } else if (PyUnicode_CompareWithASCIIString(name, "stream") == 0) {
            if (value == Py_None)
                continue;
            if (!PyObject_TypeCheck(value, ferrypy_stream_type))
                return ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "stream must be a ferry.Stream");
            stream = (struct stream_object *)value;
        } else {
            return PyErr_Format(PyExc_TypeError, "unexpected keyword argument '%U'", name);
        }
    }
    if (stream && placed && ferry_stream_place(stream->stream) != place)
        return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                                 "the stream is at place %d, not at place %d",
                                 ferry_stream_place(stream->stream), place);
    if (stream)
        place = ferry_stream_place(stream->stream);
    if (placed && !stream &&
        (place < 1 || place > ferry_context_place_count(self->context->context)))
        return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                                 "there is no device %d: devices are places 1 to %d", place,
                                 ferry_context_place_count(self->context->context));
    if (!ferrypy_array_check(self))
        return NULL;
    return (PyObject *)ferrypy_access_object(self, access, place, stream, raw != 0);
}

static PyObject *
array_read(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    return begin(self, FERRY_READ, arguments, count, names);
}

static PyObject *
array_update(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    return begin(self, FERRY_UPDATE, arguments, count, names);
}

static PyObject *
array_overwrite(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    return begin(self, FERRY_OVERWRITE, arguments, count, names);
}

#define BEGIN_METHOD(name, text)                                                                   \
    {                                                                                              \
#name, (PyCFunction)(void (*)(void))array_##name, METH_FASTCALL | METH_KEYWORDS,           \
            #name "($self, /, *, device=None, stream=None, raw=False)\n--\n\n" text                \
    }

PyMethodDef ferrypy_array_access_methods[] = {
    BEGIN_METHOD(read, "Returns an access that reads. With `as` it is a read-only ndarray on the "
                       "host, or the access of a device."),
    BEGIN_METHOD(
        update,
        "Returns an access that reads and writes. Until it ends, other uses raise BusyError."),
    BEGIN_METHOD(overwrite, "Returns an access that writes every element and reads none, so that "
                            "nothing is copied to it."),
    {NULL, NULL, 0, NULL},
};

/* set_access_type(type): of all later accesses */
static PyObject *
set_access_type(PyObject *module, PyObject *type)
{
    (void)module;
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, ferrypy_access_type))
        return PyErr_Format(PyExc_TypeError, "set_access_type needs a type of accesses");
    instance_type = (PyTypeObject *)Py_NewRef(type);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"set_access_type", set_access_type, METH_O, NULL},
                                  {NULL, NULL, 0, NULL}};

int
ferrypy_access_init(PyObject *module)
{
    setflags_name = PyUnicode_InternFromString("setflags");
    no_arguments = PyTuple_New(0);
    write_false = Py_BuildValue("{s:O}", "write", Py_False);
    if (!setflags_name || !no_arguments || !write_false)
        return -1;
    ferrypy_access_type = ferrypy_type_add(module, &spec, NULL);
    return ferrypy_access_type ? PyModule_AddFunctions(module, functions) : -1;
}
