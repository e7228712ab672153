/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdatomic.h>
#include <stdlib.h>

PyTypeObject *ferrypy_context_type;

/* -- callbacks --------------------------------------------------------------------------------- */

/*
 * The library's side of the callbacks. Exports may keep a context longer than its Python object
 * lives, so this struct is never freed. The functions are dropped with the Python object.
 */
struct ferrypy_callbacks {
    PyObject *log, *trace; /* NULL: none. Guarded by the interpreter lock */
    atomic_bool tracing;   /* false: transfers do not take the interpreter lock */
};

/* Calls a function of Python code that cannot fail the call around it. Takes `arguments`. */
static void
notify(PyObject *function, PyObject *arguments)
{
    PyObject *result;

    Py_INCREF(function); /* the end of the context drops it, on any thread */
    result = arguments ? PyObject_CallObject(function, arguments) : NULL;
    if (!result)
        PyErr_WriteUnraisable(function);
    Py_DECREF(function);
    Py_XDECREF(result);
    Py_XDECREF(arguments);
}

/* The callback may run while the thread has an exception set, which must survive. */
static void
on_log(ferry_log_level level, const char *message, void *user)
{
    struct ferrypy_callbacks *self = user;
    PyObject *type, *value, *traceback;
    PyGILState_STATE state;

    if (!ferrypy_callback_enter(FERRYPY_DEFERRING, &state))
        return;
    PyErr_Fetch(&type, &value, &traceback);
    if (self->log)
        notify(self->log, Py_BuildValue("(iN)", (int)level, ferrypy_text(message)));
    PyErr_Restore(type, value, traceback);
    ferrypy_callback_leave(FERRYPY_DEFERRING, state);
}

static void
on_trace(const ferry_trace *trace, void *user)
{
    static const char *const names[] = {"", "upload", "download", "device", "peer", "host", "fill"};
    struct ferrypy_callbacks *self = user;
    PyObject *type, *value, *traceback;
    PyGILState_STATE state;

    if (!atomic_load_explicit(&self->tracing, memory_order_relaxed) ||
        !ferrypy_callback_enter(FERRYPY_DEFERRING, &state))
        return;
    PyErr_Fetch(&type, &value, &traceback);
    if (self->trace)
        notify(self->trace,
               Py_BuildValue("(NNKiisNN)", ferrypy_text(trace->buffer), ferrypy_text(trace->reason),
                             (unsigned long long)trace->bytes, trace->source_place,
                             trace->target_place, names[trace->direction],
                             PyBool_FromLong(trace->staged), ferrypy_text(trace->site)));
    PyErr_Restore(type, value, traceback);
    ferrypy_callback_leave(FERRYPY_DEFERRING, state);
}

/* -- lifetime ---------------------------------------------------------------------------------- */

static PyObject *
context_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"devices",
                               "log",
                               "trace",
                               "device_bytes_limit",
                               "host_bytes_limit",
                               "pinned_bytes_limit",
                               "buffer_bytes_limit",
                               "tuning",
                               "trace_file",
                               "allocation_log",
                               NULL};
    ferry_context_options options = {0};
    PyObject *log = Py_None, *trace = Py_None;
    Py_ssize_t device = 0, host = 0, pinned = 0, buffer = 0;
    struct context_object *self;
    ferry_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|z$OOnnnnzzz:Context", keywords,
                                     &options.devices, &log, &trace, &device, &host, &pinned,
                                     &buffer, &options.tuning, &options.trace_file,
                                     &options.allocation_log)) {
        ferrypy_refused("");
        return NULL;
    }
    if (device < 0 || host < 0 || pinned < 0 || buffer < 0)
        return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT, "Context: a limit is negative");
    if ((log != Py_None && !PyCallable_Check(log)) ||
        (trace != Py_None && !PyCallable_Check(trace)))
        return ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "Context: log and trace must be callable");
    options.device_bytes_limit = (size_t)device;
    options.host_bytes_limit = (size_t)host;
    options.pinned_bytes_limit = (size_t)pinned;
    options.buffer_bytes_limit = (size_t)buffer;

    self = (struct context_object *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    if (log != Py_None || trace != Py_None) {
        self->callbacks = calloc(1, sizeof(*self->callbacks));
        if (!self->callbacks) {
            Py_DECREF((PyObject *)self);
            return PyErr_NoMemory();
        }
        options.log_user = options.trace_user = self->callbacks;
    }
    if (log != Py_None) {
        Py_INCREF(log);
        self->callbacks->log = log;
        options.log = on_log;
    }
    if (trace != Py_None) {
        Py_INCREF(trace);
        self->callbacks->trace = trace;
        options.trace = on_trace;
    }
    FERRYPY_BLOCKING(status, ferry_context_create(&options, &self->context));
    if (status != FERRY_OK) {
        Py_DECREF((PyObject *)self);
        return ferrypy_fail(status);
    }
    return (PyObject *)self;
}

static PyObject *
context_shared(PyObject *type, PyObject *unused)
{
    struct context_object *self =
        (struct context_object *)PyType_GenericAlloc((PyTypeObject *)type, 0);
    ferry_status status;

    (void)unused;
    if (!self)
        return NULL;
    FERRYPY_BLOCKING(status, ferry_context_shared(&self->context));
    if (status != FERRY_OK) {
        Py_DECREF((PyObject *)self);
        return ferrypy_fail(status);
    }
    return (PyObject *)self;
}

static void
release_context(void *object)
{
    ferry_context *context = object;
    ferry_context_destroy(&context);
}

static int
context_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct ferrypy_callbacks *callbacks = ((struct context_object *)object)->callbacks;

    Py_VISIT(Py_TYPE(object));
    if (callbacks) {
        Py_VISIT(callbacks->log);
        Py_VISIT(callbacks->trace);
    }
    return 0;
}

static int
context_clear(PyObject *object)
{
    struct ferrypy_callbacks *callbacks = ((struct context_object *)object)->callbacks;

    if (callbacks) {
        Py_CLEAR(callbacks->log);
        Py_CLEAR(callbacks->trace);
    }
    return 0;
}

static void
context_dealloc(PyObject *object)
{
    struct context_object *self = (struct context_object *)object;

    PyObject_GC_UnTrack(object);
    /* The end of the context may still call the functions. */
    if (self->context)
        ferrypy_release_later(release_context, self->context);
    context_clear(object);
    ferrypy_free(object);
}

/* -- questions --------------------------------------------------------------------------------- */

static PyObject *
context_place(PyObject *object, PyObject *argument)
{
    struct context_object *self = (struct context_object *)object;
    ferry_place_info info;
    int32_t type, id;
    ferry_status status;
    int place;

    if (!ferrypy_int(argument, &place))
        return NULL;
    status = ferry_context_get_place_info(self->context, place, &info);
    if (status == FERRY_OK)
        status = ferry_context_exchange_device(self->context, place, &type, &id);
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    return Py_BuildValue(
        "{s:s,s:s,s:i,s:N,s:K,s:i,s:i,s:i,s:s,s:K,s:(ii)}", "kind", info.kind, "name", info.name,
        "native", info.native, "coherent", PyBool_FromLong(info.coherent), "capabilities",
        (unsigned long long)info.capabilities, "architecture", info.architecture, "driver_version",
        info.driver_version, "language", (int)info.language, "target", info.target,
        "native_context", (unsigned long long)(uintptr_t)info.native_context, "dlpack", (int)type,
        (int)id);
}

static PyObject *
context_memory(PyObject *object, PyObject *argument)
{
    struct context_object *self = (struct context_object *)object;
    ferry_memory_info info;
    ferry_status status;
    int place;

    if (!ferrypy_int(argument, &place))
        return NULL;
    FERRYPY_BLOCKING(status, ferry_context_get_memory_info(self->context, place, &info));
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n}", "total", info.total, "free", info.free, "used",
                         info.used, "live", info.live, "cached", info.cached);
}

static PyObject *
context_stats(PyObject *object, PyObject *unused)
{
    ferry_transfer_stats s;
    ferry_status status =
        ferry_context_get_transfer_stats(((struct context_object *)object)->context, &s);

    (void)unused;
    if (status != FERRY_OK)
        return ferrypy_fail(status);
#define COUNT(name)  #name, (unsigned long long)s.name.copies, (unsigned long long)s.name.bytes
#define NUMBER(name) #name, (unsigned long long)s.name
    return Py_BuildValue(
        "{s:(KK),s:(KK),s:(KK),s:(KK),s:(KK),s:(KK),s:(KK),s:(KK),s:(KK),s:K,s:K,s:K,s:K}",
        COUNT(upload), COUNT(download), COUNT(device), COUNT(peer), COUNT(host), COUNT(fill),
        COUNT(direct), COUNT(staged), COUNT(peer_staged), NUMBER(device_calls),
        NUMBER(batch_submissions), NUMBER(batch_copies), NUMBER(auto_pinned));
}

static PyObject *
context_reset_stats(PyObject *object, PyObject *unused)
{
    ferry_status status = ferry_context_reset_stats(((struct context_object *)object)->context);

    (void)unused;
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    Py_RETURN_NONE;
}

static PyObject *
context_snapshot(PyObject *object, PyObject *arguments)
{
    ferry_context *context = ((struct context_object *)object)->context;
    const char *path;
    ferry_status status;

    if (!ferrypy_parse(arguments, "y:_snapshot", &path))
        return NULL;
    FERRYPY_BLOCKING(status, ferry_context_snapshot(context, path));
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    Py_RETURN_NONE;
}

static PyObject *
context_set_tracing(PyObject *object, PyObject *argument)
{
    struct ferrypy_callbacks *callbacks = ((struct context_object *)object)->callbacks;
    int tracing = PyObject_IsTrue(argument);

    if (tracing < 0)
        return NULL;
    if (!callbacks || !callbacks->trace)
        return ferrypy_fail_with(
            FERRY_ERROR_INVALID_STATE,
            "the shared context cannot be traced: use a Context, or FERRY_TRACE");
    atomic_store(&callbacks->tracing, tracing != 0);
    Py_RETURN_NONE;
}

static PyObject *
context_describe(PyObject *object, PyObject *unused)
{
    ferry_context *context = ((struct context_object *)object)->context;
    PyObject *text = NULL;
    size_t room = 4096, length;

    (void)unused;
    /* The text may grow between two calls. */
    while (!text) {
        char *buffer = PyMem_Malloc(room);
        if (!buffer)
            return PyErr_NoMemory();
        buffer[0] = 0;
        FERRYPY_BLOCKING(length, ferry_context_describe(context, buffer, room));
        if (length < room)
            text = PyUnicode_DecodeUTF8(buffer, (Py_ssize_t)length, "replace");
        PyMem_Free(buffer);
        if (!text && PyErr_Occurred())
            return NULL;
        room = length + 1;
    }
    return text;
}

static PyObject *
context_places(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLong(ferry_context_place_count(((struct context_object *)object)->context));
}

static PyMethodDef methods[] = {
    {"_shared", context_shared, METH_NOARGS | METH_CLASS, NULL},
    {"_place", context_place, METH_O, NULL},
    {"_memory", context_memory, METH_O, NULL},
    {"_stats", context_stats, METH_NOARGS, NULL},
    {"_set_tracing", context_set_tracing, METH_O, NULL},
    {"_snapshot", context_snapshot, METH_VARARGS, NULL},
    {"reset_stats", context_reset_stats, METH_NOARGS,
     "Sets the statistics of the context and of its arrays to zero."},
    {"describe", context_describe, METH_NOARGS,
     "Returns text that shows what holds the context's memory."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef members[] = {
    {"device_count", context_places, NULL, "Number of devices. Their places are 1 to this number.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_new, context_new},
    {Py_tp_dealloc, context_dealloc},
    {Py_tp_traverse, context_traverse},
    {Py_tp_clear, context_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, members},
    {0, NULL},
};
static PyType_Spec spec = {
    .name = "ferry._ferry.Context",
    .basicsize = sizeof(struct context_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int
ferrypy_context_init(PyObject *module)
{
    ferrypy_context_type = ferrypy_type_add(module, &spec, NULL);
    return ferrypy_context_type ? 0 : -1;
}
