/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdlib.h>

#include <ferry/graph.h>

PyTypeObject *ferrypy_graph_type;

struct graph_object {
    PyObject_HEAD ferry_graph *graph; /* NULL: closed */
    PyObject *stream;                 /* the recorded Stream */
    PyObject *kernels;                /* list of the kernels whose host functions it calls */
    struct graph_object *next;        /* in the list of those that are being recorded */
};

/* The graphs that are being recorded; used with the interpreter's lock alone. */
static struct graph_object *recording;

static void
begin_recording(struct graph_object *self)
{
    self->next = recording;
    recording = self;
}

static void
end_recording(const struct graph_object *self)
{
    struct graph_object **link = &recording;

    while (*link && *link != self)
        link = &(*link)->next;
    if (*link)
        *link = self->next;
}

bool
ferrypy_graph_keep(const ferry_stream *stream, PyObject *kernel)
{
    for (struct graph_object *graph = recording; graph; graph = graph->next)
        if (((struct stream_object *)graph->stream)->stream == stream)
            return PyList_Append(graph->kernels, kernel) == 0;
    return true;
}

/* Graph(stream, name) begins to record. */
static PyObject *
graph_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"stream", "name", NULL};
    PyObject *stream;
    ferry_graph_options options = {0};
    ferry_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O!|z:Graph", keywords, ferrypy_stream_type,
                                     &stream, &options.name)) {
        ferrypy_refused("");
        return NULL;
    }
    PyObject *kernels = PyList_New(0);
    struct graph_object *self =
        kernels ? (struct graph_object *)PyType_GenericAlloc(type, 0) : NULL;
    if (!self) {
        Py_XDECREF(kernels);
        return NULL;
    }
    self->kernels = kernels;
    self->stream = Py_NewRef(stream);
    FERRYPY_BLOCKING(status, ferry_graph_begin(((struct stream_object *)stream)->stream, &options,
                                               &self->graph));
    if (status != FERRY_OK) {
        Py_DECREF((PyObject *)self);
        return ferrypy_fail(status);
    }
    begin_recording(self);
    return (PyObject *)self;
}

/* What remains of a Graph until its ferry_graph is destroyed. */
struct ending {
    struct ferrypy_deferred node;
    ferry_graph *graph;
    PyObject *stream, *kernels;
};

/* Destroys the ferry_graph, which waits for its launches, and then lets go of what they use. */
static void
end_graph(void *object)
{
    struct ending *ending = object;

    Py_BEGIN_ALLOW_THREADS ferry_graph_destroy(&ending->graph);
    Py_END_ALLOW_THREADS Py_XDECREF(ending->stream);
    Py_XDECREF(ending->kernels);
    free(ending);
}

/* Takes what the graph has, and ends it now or, in a callback, after it. */
static void
end_later(struct graph_object *self)
{
    struct ending *ending = malloc(sizeof(*ending));

    end_recording(self);
    if (!ending)
        return; /* the graph leaks, with its stream and its kernels */
    *ending =
        (struct ending){.node = {.release = end_graph, .object = ending, .needs_interpreter = true},
                        .graph = self->graph,
                        .stream = self->stream,
                        .kernels = self->kernels};
    self->graph = NULL;
    self->stream = self->kernels = NULL;
    if (ferrypy_in_callback()) {
        ferrypy_defer(&ending->node);
    } else {
        end_graph(ending);
        ferrypy_run_deferred();
    }
}

static int
graph_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct graph_object *self = (struct graph_object *)object;

    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->stream);
    Py_VISIT(self->kernels);
    return 0;
}

static void
graph_dealloc(PyObject *object)
{
    struct graph_object *self = (struct graph_object *)object;

    PyObject_GC_UnTrack(object);
    if (self->graph) {
        end_later(self);
    } else {
        Py_XDECREF(self->stream);
        Py_XDECREF(self->kernels);
    }
    ferrypy_free(object);
}

static bool
check_open(const struct graph_object *self, const char *what)
{
    if (!self->graph)
        ferrypy_fail_with(FERRY_ERROR_INVALID_STATE, "%s: the graph is closed", what);
    return self->graph;
}

static PyObject *
graph_end(PyObject *object, PyObject *unused)
{
    struct graph_object *self = (struct graph_object *)object;
    ferry_status status;

    (void)unused;
    if (!check_open(self, "Graph.end"))
        return NULL;
    FERRYPY_BLOCKING(status, ferry_graph_end(self->graph));
    if (status != FERRY_ERROR_INVALID_STATE)
        end_recording(self);
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    Py_RETURN_NONE;
}

static PyObject *
graph_launch(PyObject *object, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"stream", NULL};
    struct graph_object *self = (struct graph_object *)object;
    PyObject *stream = Py_None;
    ferry_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O:launch", keywords, &stream))
        return NULL;
    if (!check_open(self, "Graph.launch"))
        return NULL;
    if (stream == Py_None)
        stream = self->stream;
    if (!PyObject_TypeCheck(stream, ferrypy_stream_type))
        return ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "Graph.launch needs a Stream");
    FERRYPY_BLOCKING(status,
                     ferry_graph_launch(self->graph, ((struct stream_object *)stream)->stream));
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    Py_RETURN_NONE;
}

static PyObject *
graph_close(PyObject *object, PyObject *unused)
{
    struct graph_object *self = (struct graph_object *)object;

    (void)unused;
    if (self->graph)
        end_later(self);
    Py_RETURN_NONE;
}

static PyObject *
get_closed(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(!((struct graph_object *)object)->graph);
}

static PyMethodDef methods[] = {
    {"end", graph_end, METH_NOARGS, "Ends the recording. The graph can be launched now."},
    {"launch", (PyCFunction)(void (*)(void))graph_launch, METH_VARARGS | METH_KEYWORDS,
     "launch($self, /, stream=None)\n--\n\nQueues all recorded work on a stream, by default the "
     "recorded one, and does not wait for it."},
    {"close", graph_close, METH_NOARGS,
     "Waits until all launches are done, and releases the memory of the arrays."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef members[] = {
    {"closed", get_closed, NULL, "Whether close() was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_new, graph_new},   {Py_tp_dealloc, graph_dealloc}, {Py_tp_traverse, graph_traverse},
    {Py_tp_methods, methods}, {Py_tp_getset, members},        {0, NULL},
};
static PyType_Spec spec = {
    .name = "ferry._ferry.Graph",
    .basicsize = sizeof(struct graph_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int
ferrypy_graph_init(PyObject *module)
{
    ferrypy_graph_type = ferrypy_type_add(module, &spec, NULL);
    return ferrypy_graph_type ? 0 : -1;
}
