/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdlib.h>

PyTypeObject *ferrypy_stream_type;

ferry_stream *
ferrypy_default_stream(struct context_object *context, int place)
{
    ferry_stream *stream = ferry_context_stream(context->context, place);
    int places = ferry_context_place_count(context->context);

    if (!stream && place >= 1 && place <= places)
        ferrypy_fail_with(FERRY_ERROR_INVALID_STATE,
                          "the stream of place %d: the context belongs to the process that this "
                          "one was forked from",
                          place);
    else if (!stream)
        ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                          "place %d has no stream: devices are places 1 to %d", place, places);
    return stream;
}

/* Stream(context, place, native, source): native None creates one, False is the default stream,
 * else a handle to wrap, which the object `source` owns unless it is None. */
static PyObject *
stream_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"context", "place", "native", "source", NULL};
    struct context_object *context;
    struct stream_object *self;
    PyObject *native = Py_None, *source = Py_None;
    ferry_stream *stream = NULL;
    ferry_status status;
    bool owned = true;
    int place = 1;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O!|iOO:Stream", keywords,
                                     ferrypy_context_type, (PyObject **)&context, &place, &native,
                                     &source)) {
        ferrypy_refused("");
        return NULL;
    }
    if (native == Py_None) {
        FERRYPY_BLOCKING(status, ferry_stream_create(context->context, place, &stream));
    } else if (native == Py_False) {
        stream = ferrypy_default_stream(context, place);
        if (!stream)
            return NULL;
        owned = false;
        status = FERRY_OK;
    } else {
        void *handle = PyLong_AsVoidPtr(native);
        if (!handle && PyErr_Occurred())
            return NULL;
        FERRYPY_BLOCKING(status, ferry_stream_wrap(context->context, place, handle, &stream));
    }
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    self = (struct stream_object *)PyType_GenericAlloc(type, 0);
    if (!self) {
        if (owned)
            ferry_stream_destroy(&stream);
        return NULL;
    }
    Py_INCREF((PyObject *)context);
    self->context = context;
    self->stream = stream;
    self->owned = owned;
    if (source != Py_None) {
        Py_INCREF(source);
        self->source = source;
    }
    return (PyObject *)self;
}

/* What remains of a Stream object until its ferry_stream is destroyed. */
struct ending {
    struct ferrypy_deferred node;
    ferry_stream *stream;
    PyObject *source;
};

/* Destroys the ferry_stream, and then lets go of the object whose native stream it has wrapped. */
static void
end_stream(void *object)
{
    struct ending *ending = object;

    Py_BEGIN_ALLOW_THREADS ferry_stream_destroy(&ending->stream);
    Py_END_ALLOW_THREADS Py_XDECREF(ending->source);
    free(ending);
}

static void
end_later(struct stream_object *self)
{
    struct ending *ending = malloc(sizeof(*ending));

    if (!ending)
        return; /* The stream leaks, and with it the object that owns the native stream. */
    *ending = (struct ending){
        .node = {.release = end_stream, .object = ending, .needs_interpreter = true},
        .stream = self->stream,
        .source = self->source};
    if (ferrypy_in_callback()) {
        ferrypy_defer(&ending->node);
    } else {
        end_stream(ending);
        ferrypy_run_deferred();
    }
}

static int
stream_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)((struct stream_object *)object)->context);
    Py_VISIT(((struct stream_object *)object)->source);
    return 0;
}

static void
stream_dealloc(PyObject *object)
{
    struct stream_object *self = (struct stream_object *)object;

    PyObject_GC_UnTrack(object);
    if (self->stream && self->owned)
        end_later(self);
    Py_XDECREF((PyObject *)self->context);
    ferrypy_free(object);
}

static PyObject *
stream_synchronize(PyObject *object, PyObject *unused)
{
    ferry_stream *stream = ((struct stream_object *)object)->stream;
    ferry_status status;

    (void)unused;
    FERRYPY_BLOCKING(status, ferry_stream_synchronize(stream));
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    Py_RETURN_NONE;
}

static PyObject *
stream_record(PyObject *object, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"timed", NULL};
    struct stream_object *self = (struct stream_object *)object;
    ferry_event *event;
    ferry_status status;
    int timed = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|p:record", keywords, &timed))
        return NULL;
    FERRYPY_BLOCKING(status,
                     ferry_stream_record(self->stream, timed ? FERRY_EVENT_TIMED : 0, &event));
    return status == FERRY_OK ? ferrypy_event_object(self->context, event, NULL, NULL)
                              : ferrypy_fail(status);
}

static PyObject *
stream_wait(PyObject *object, PyObject *argument)
{
    struct stream_object *self = (struct stream_object *)object;
    ferry_status status;

    if (!PyObject_TypeCheck(argument, ferrypy_event_type))
        return ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "Stream.wait needs an Event");
    FERRYPY_BLOCKING(
        status, ferry_stream_wait_event(self->stream, ((struct event_object *)argument)->event));
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    Py_RETURN_NONE;
}

static PyObject *
get_place(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLong(ferry_stream_place(((struct stream_object *)object)->stream));
}

static PyObject *
get_native(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(ferry_stream_native(((struct stream_object *)object)->stream));
}

static PyObject *
get_context(PyObject *object, void *unused)
{
    PyObject *context = (PyObject *)((struct stream_object *)object)->context;
    (void)unused;
    Py_INCREF((PyObject *)context);
    return context;
}

static PyMethodDef methods[] = {
    {"synchronize", stream_synchronize, METH_NOARGS,
     "Blocks until all work of the stream has completed, and raises the failure of a kernel once."},
    {"record", (PyCFunction)(void (*)(void))stream_record, METH_VARARGS | METH_KEYWORDS,
     "record($self, /, timed=False)\n--\n\nReturns an Event after all work that is queued on the "
     "stream now."},
    {"wait", stream_wait, METH_O,
     "wait($self, event, /)\n--\n\nMakes all later work of the stream wait for the event."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef members[] = {
    {"place", get_place, NULL, "Place of the device.", NULL},
    {"native", get_native, NULL, "Native handle: a CUstream on CUDA.", NULL},
    {"context", get_context, NULL, "Context of the stream.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_new, stream_new},  {Py_tp_dealloc, stream_dealloc}, {Py_tp_traverse, stream_traverse},
    {Py_tp_methods, methods}, {Py_tp_getset, members},         {0, NULL},
};
static PyType_Spec spec = {
    .name = "ferry._ferry.Stream",
    .basicsize = sizeof(struct stream_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int
ferrypy_stream_init(PyObject *module)
{
    ferrypy_stream_type = ferrypy_type_add(module, &spec, NULL);
    return ferrypy_stream_type ? 0 : -1;
}
