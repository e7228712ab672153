/* SPDX-License-Identifier: MIT */
#include "binding.h"

/* -- progress ---------------------------------------------------------------------------------- */

void
ferrypy_progress_raise(struct ferrypy_progress *progress)
{
    if (progress->exception[0])
        PyErr_Clear();
    else
        PyErr_Fetch(&progress->exception[0], &progress->exception[1], &progress->exception[2]);
}

bool
ferrypy_keep_going(size_t done, size_t total, void *user)
{
    struct ferrypy_progress *progress = user;
    PyGILState_STATE state;
    bool going = true;
    PyObject *answer;

    if (!ferrypy_callback_enter(progress->kind, &state))
        return false;
    answer = PyObject_CallFunction(progress->function, "nn", (Py_ssize_t)done, (Py_ssize_t)total);
    going = answer && answer != Py_False && PyErr_CheckSignals() == 0;
    if (PyErr_Occurred())
        ferrypy_progress_raise(progress);
    Py_XDECREF(answer);
    ferrypy_callback_leave(progress->kind, state);
    return going;
}

bool
ferrypy_progress_end(struct ferrypy_progress *progress, ferry_status status)
{
    if (progress->exception[0]) {
        PyErr_Restore(progress->exception[0], progress->exception[1], progress->exception[2]);
        return false;
    }
    if (status != FERRY_OK)
        ferrypy_fail(status);
    return status == FERRY_OK;
}

/* -- copies ------------------------------------------------------------------------------------ */

/* True for memory whose elements lie next to each other in some order of the dimensions. */
static bool
is_packed(const Py_buffer *view)
{
    int64_t shape[FERRYPY_RANK_MAX], strides[FERRYPY_RANK_MAX];
    bool packed;

    if (ferrypy_memory_read(view, (size_t)view->itemsize, shape, &packed, strides))
        return packed;
    PyErr_Clear();
    return false;
}

/* One side of a copy: an array, a path as bytes, or memory of an exporter, whose owner goes to
 * `*out_owner`. */
static bool
read_side(PyObject *object, PyObject *element, bool written, ferry_copy_side *out,
          size_t *out_count, struct ferrypy_owner **out_owner)
{
    if (PyObject_TypeCheck(object, ferrypy_array_type)) {
        struct array_object *array = (struct array_object *)object;
        if (!ferrypy_array_check(array))
            return false;
        if (*out_count != FERRY_REST && *out_count != ferry_buffer_count(array->buffer)) {
            ferrypy_fail_with(FERRY_ERROR_OUT_OF_RANGE, "copy: %zu elements to an array of %zu",
                              *out_count, ferry_buffer_count(array->buffer));
            return false;
        }
        out->buffer = ferry_buffer_retain(array->buffer);
        out->element = array->element->element;
        *out_count = ferry_buffer_count(array->buffer);
        return true;
    }
    if (PyBytes_Check(object) && element == Py_False) {
        out->path = PyBytes_AsString(object);
        return true;
    }
    *out_owner =
        ferrypy_owner_create(object, PyBUF_STRIDES | (element == Py_None ? PyBUF_FORMAT : 0) |
                                         (written ? PyBUF_WRITABLE : 0));
    if (!*out_owner)
        return false;
    Py_buffer *view = ferrypy_owner_buffer(*out_owner);
    PyObject *named = element != Py_None ? Py_NewRef(element) : ferrypy_element_of_buffer(view);
    if (!named)
        return false;
    out->element = ((struct element_object *)named)->element;
    Py_DECREF(named); /* its element is never freed */
    if (!PyBuffer_IsContiguous(view, 'A') && !is_packed(view)) {
        ferrypy_fail_with(FERRY_ERROR_UNSUPPORTED,
                          "copy: the elements of the memory do not lie next to each other");
        return false;
    }
    if ((size_t)view->len % out->element->bytes) {
        ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE,
                          "copy: %zd bytes are not a whole number of elements", view->len);
        return false;
    }
    out->memory = view->buf;
    *out_count = (size_t)view->len / out->element->bytes;
    return true;
}

/*
 * copy(target, source, element of memory | None | False for a path, convert, stream, wait,
 * progress, file offset, direct, keep_rest). Returns None, or the event of a copy that was not
 * waited for.
 */
static PyObject *
copy(PyObject *module, PyObject *arguments)
{
    PyObject *target, *source, *element, *stream, *progress_function, *result = NULL;
    struct ferrypy_owner *target_owner = NULL, *source_owner = NULL;
    struct ferrypy_progress progress = {0};
    ferry_copy_options options = {0};
    ferry_copy_region region = {0};
    struct context_object *context;
    long long file_offset;
    size_t count = FERRY_REST, source_count;
    ferry_event *event = NULL;
    int convert, wait, direct, keep_rest;
    ferry_status status;

    (void)module;
    if (!ferrypy_parse(arguments, "OOOiOpOLpp:copy", &target, &source, &element, &convert, &stream,
                       &wait, &progress_function, &file_offset, &direct, &keep_rest))
        return NULL;
    if (file_offset < 0)
        return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT, "the offset %lld is negative",
                                 file_offset);
    if (element != Py_None && element != Py_False &&
        !PyObject_TypeCheck(element, ferrypy_element_type))
        return PyErr_Format(PyExc_TypeError, "copy: not an element");
    if (stream != Py_None) {
        if (!PyObject_TypeCheck(stream, ferrypy_stream_type))
            return ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "stream must be a ferry.Stream");
        options.stream = ((struct stream_object *)stream)->stream;
    }
    if (PyObject_TypeCheck(target, ferrypy_array_type))
        context = ((struct array_object *)target)->context;
    else if (PyObject_TypeCheck(source, ferrypy_array_type))
        context = ((struct array_object *)source)->context;
    else
        return PyErr_Format(PyExc_TypeError, "copy: neither side is an array");
    ferrypy_run_deferred();
    if (progress_function != Py_None) {
        if (!wait)
            return ferrypy_fail_with(
                FERRY_ERROR_INVALID_ARGUMENT,
                "progress needs wait=True: ask the event for its progress instead");
        progress.function = progress_function;
        options.keep_going = ferrypy_keep_going;
        options.user = &progress;
    }
    options.convert = (ferry_convert_policy)convert;
    options.file_direct = direct != 0;
    options.file_keep_rest = keep_rest != 0;

    if (!read_side(target, element, true, &region.target, &count, &target_owner))
        goto end;
    source_count = count;
    if (!read_side(source, element, false, &region.source, &source_count, &source_owner))
        goto end;
    if (count != FERRY_REST && source_count != count) {
        ferrypy_fail_with(FERRY_ERROR_OUT_OF_RANGE, "copy: %zu elements to %zu", source_count,
                          count);
        goto end;
    }
    region.count = source_count;
    (region.target.path ? &region.target : &region.source)->file_offset = (uint64_t)file_offset;
    FERRYPY_BLOCKING(status, wait ? ferry_copy(&region, 1, &options)
                                  : ferry_copy_async(&region, 1, &options, &event));
    if (!ferrypy_progress_end(&progress, status)) {
        ferrypy_name_file(region.target.path);
        ferrypy_name_file(region.source.path);
        goto end;
    }
    if (wait) {
        result = Py_NewRef(Py_None);
    } else {
        struct ferrypy_owner *memory = target_owner ? target_owner : source_owner;
        target_owner = source_owner = NULL;
        result = ferrypy_event_object(context, event, memory,
                                      region.target.path   ? target
                                      : region.source.path ? source
                                                           : NULL);
    }
end:
    if (region.target.buffer)
        FERRYPY_RELEASE(ferry_buffer_destroy(&region.target.buffer));
    if (region.source.buffer)
        FERRYPY_RELEASE(ferry_buffer_destroy(&region.source.buffer));
    ferrypy_owner_destroy(target_owner);
    ferrypy_owner_destroy(source_owner);
    return result;
}

/* to_bytes(array): the elements in the order of memory */
static PyObject *
to_bytes(PyObject *module, PyObject *object)
{
    struct array_object *array = (struct array_object *)object;
    ferry_copy_region region = {0};
    ferry_status status = FERRY_OK;
    PyObject *bytes;

    (void)module;
    if (!PyObject_TypeCheck(object, ferrypy_array_type))
        return PyErr_Format(PyExc_TypeError, "not an array");
    /* It gives up the interpreter lock, so that another thread may close the array meanwhile. */
    ferrypy_run_deferred();
    if (!ferrypy_array_check(array))
        return NULL;
    region.source.buffer = ferry_buffer_retain(array->buffer);
    region.count = ferry_buffer_count(region.source.buffer);
    region.source.element = region.target.element = array->element->element;
    bytes = PyBytes_FromStringAndSize(NULL,
                                      (Py_ssize_t)(region.count * array->element->element->bytes));
    if (bytes && region.count) {
        region.target.memory = PyBytes_AsString(bytes);
        FERRYPY_BLOCKING(status, ferry_copy(&region, 1, NULL));
    }
    FERRYPY_RELEASE(ferry_buffer_destroy(&region.source.buffer));
    if (status != FERRY_OK) {
        Py_XDECREF(bytes);
        return ferrypy_fail(status);
    }
    return bytes;
}

/* fill(array, value as bytes, stream or None) */
static PyObject *
fill(PyObject *module, PyObject *arguments)
{
    struct array_object *array;
    ferry_copy_options options = {0};
    ferry_buffer *buffer;
    ferry_status status;
    const char *value;
    Py_ssize_t bytes;
    PyObject *stream;

    (void)module;
    if (!ferrypy_parse(arguments, "O!y#O:fill", ferrypy_array_type, (PyObject **)&array, &value,
                       &bytes, &stream) ||
        !ferrypy_array_check(array))
        return NULL;
    if ((size_t)bytes != array->element->element->bytes)
        return ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE,
                                 "fill: a value of %zd bytes for elements of %zu", bytes,
                                 array->element->element->bytes);
    if (stream != Py_None) {
        if (!PyObject_TypeCheck(stream, ferrypy_stream_type))
            return ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "stream must be a ferry.Stream");
        options.stream = ((struct stream_object *)stream)->stream;
    }
    buffer = ferry_buffer_retain(array->buffer);
    FERRYPY_BLOCKING(
        status, ferry_buffer_fill(buffer, array->element->element, 0, FERRY_REST, value, &options));
    FERRYPY_RELEASE(ferry_buffer_destroy(&buffer));
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    Py_RETURN_NONE;
}

/* Array methods of the library that take a place. prefetch(array, place), evict(array, place),
 * sync_to(array, place), discard(array) */
static PyObject *
at_place(PyObject *arguments, const char *format,
         ferry_status (*call)(ferry_buffer *buffer, int place))
{
    struct array_object *array;
    ferry_buffer *buffer;
    ferry_status status;
    int place;

    if (!ferrypy_parse(arguments, format, ferrypy_array_type, (PyObject **)&array, &place) ||
        !ferrypy_array_check(array))
        return NULL;
    buffer = ferry_buffer_retain(array->buffer);
    FERRYPY_BLOCKING(status, call(buffer, place));
    FERRYPY_RELEASE(ferry_buffer_destroy(&buffer));
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    Py_RETURN_NONE;
}

static ferry_status
call_prefetch(ferry_buffer *buffer, int place)
{
    return ferry_buffer_prefetch(buffer, 0, FERRY_REST, place, NULL);
}

static ferry_status
call_sync(ferry_buffer *buffer, int place)
{
    return ferry_buffer_sync_to(buffer, 0, FERRY_REST, place, NULL);
}

static PyObject *
prefetch(PyObject *module, PyObject *arguments)
{
    (void)module;
    return at_place(arguments, "O!i:prefetch", call_prefetch);
}

static PyObject *
sync_to(PyObject *module, PyObject *arguments)
{
    (void)module;
    return at_place(arguments, "O!i:sync_to", call_sync);
}

static PyObject *
evict(PyObject *module, PyObject *arguments)
{
    (void)module;
    return at_place(arguments, "O!i:evict", ferry_buffer_evict);
}

static PyMethodDef functions[] = {
    {"copy", copy, METH_VARARGS, NULL},
    {"fill", fill, METH_VARARGS, NULL},
    {"prefetch", prefetch, METH_VARARGS, NULL},
    {"sync_to", sync_to, METH_VARARGS, NULL},
    {"evict", evict, METH_VARARGS, NULL},
    {"to_bytes", to_bytes, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

int
ferrypy_copy_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
