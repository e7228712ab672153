/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <string.h>

/* One call of stream_file. Its callbacks run on the thread of the call. */
struct pipeline {
    struct ferrypy_progress progress; /* also keeps what `work` raised */
    struct context_object *context;
    struct stream_object *stream;
    PyObject *element, *work;
    PyTypeObject *type;
};

static ferry_status
on_chunk(const ferry_file_chunk *chunk, void *user)
{
    struct pipeline *self = user;
    int64_t count = (int64_t)chunk->count;
    ferry_status status = FERRY_OK;
    PyObject *array, *result = NULL;
    PyGILState_STATE state;

    if (!ferrypy_callback_enter(FERRYPY_WORKING, &state))
        return FERRY_ERROR_CANCELLED;
    array = ferrypy_array_object(self->type, self->context, self->element,
                                 ferry_buffer_retain(chunk->buffer), 1, &count, NULL);
    if (array)
        ((struct array_object *)array)->is_chunk = true;
    if (array)
        result = PyObject_CallFunction(self->work, "OOK", array, (PyObject *)self->stream,
                                       (unsigned long long)chunk->offset);
    if (!result) {
        ferrypy_progress_raise(&self->progress);
        status = FERRY_ERROR_CANCELLED;
    } else if (result == Py_False) {
        status = FERRY_ERROR_CANCELLED;
    }
    Py_XDECREF(result);
    /* The chunk's memory gets other elements after this call, so that its views end with it. */
    if (array)
        Py_XDECREF(PyObject_CallMethod(array, "_close", NULL));
    PyErr_Clear();
    Py_XDECREF((PyObject *)array);
    ferrypy_callback_leave(FERRYPY_WORKING, state);
    return status;
}

static bool
on_progress(size_t done, size_t total, void *user)
{
    return ferrypy_keep_going(done, total, &((struct pipeline *)user)->progress);
}

/*
 * stream_file(array type, stream, element, input, output, work, progress, input_offset,
 * output_offset, bytes, chunk_bytes, chunk_count, direct, keep_rest): returns a dict of
 * ferry_file_stats.
 */
static PyObject *
stream_file(PyObject *module, PyObject *arguments)
{
    struct pipeline self;
    ferry_file_pipeline_options options = {0};
    long long input_offset, output_offset, bytes;
    ferry_file_stats stats = {0};
    Py_ssize_t chunk_bytes, chunk_count;
    ferry_status status;
    PyObject *progress, *output;
    int direct, keep;

    (void)module;
    memset(&self, 0, sizeof(self));
    if (!ferrypy_parse(arguments, "O!O!O!yOOOLLLnnpp:stream_file", &PyType_Type,
                       (PyObject **)&self.type, ferrypy_stream_type, (PyObject **)&self.stream,
                       ferrypy_element_type, &self.element, &options.input, &output, &self.work,
                       &progress, &input_offset, &output_offset, &bytes, &chunk_bytes, &chunk_count,
                       &direct, &keep))
        return NULL;
    if (!PyType_IsSubtype(self.type, ferrypy_array_type) || !PyCallable_Check(self.work))
        return ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "stream_file: work must be callable");
    if (input_offset < 0 || output_offset < 0 || bytes < 0 || chunk_bytes < 0 || chunk_count < 0)
        return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                                 "stream_file: an offset or a size is negative");
    if (output != Py_None && !(options.output = PyBytes_AsString(output)))
        return NULL;
    ferrypy_run_deferred();
    self.progress.kind = FERRYPY_WORKING;
    self.context = self.stream->context;
    self.progress.function = progress;
    options.input_offset = (uint64_t)input_offset;
    options.output_offset = (uint64_t)output_offset;
    options.bytes = (uint64_t)bytes;
    options.element = ((struct element_object *)self.element)->element;
    options.work = on_chunk;
    options.keep_going = progress == Py_None ? NULL : on_progress;
    options.user = &self;
    options.stream = self.stream->stream;
    options.chunk_bytes = (size_t)chunk_bytes;
    options.chunk_count = (size_t)chunk_count;
    options.direct = direct != 0;
    options.keep_rest = keep != 0;
    options.stats = &stats;
    FERRYPY_BLOCKING(status, ferry_file_pipeline(self.context->context, &options));
    ferrypy_run_deferred();
    if (!ferrypy_progress_end(&self.progress, status)) {
        ferrypy_name_file(options.input);
        ferrypy_name_file(options.output);
        return NULL;
    }
#define NUMBER(name) #name, (unsigned long long)stats.name
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", NUMBER(chunks), NUMBER(bytes_read),
                         NUMBER(bytes_written), NUMBER(bytes_direct), NUMBER(load_ns),
                         NUMBER(work_ns), NUMBER(store_ns), NUMBER(wall_ns));
}

static PyMethodDef functions[] = {
    {"stream_file", stream_file, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int
ferrypy_file_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
