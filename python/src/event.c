/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stddef.h>
#include <structmember.h>

PyTypeObject *ferrypy_event_type;

static void
release_event(void *object)
{
    ferry_event *event = object;
    ferry_event_destroy(&event);
}

PyObject *
ferrypy_event_object(struct context_object *context, ferry_event *event,
                     struct ferrypy_owner *memory, PyObject *path)
{
    struct event_object *self = (struct event_object *)PyType_GenericAlloc(ferrypy_event_type, 0);

    if (!self) {
        ferry_status status;
        /* The memory is in use until the copy is done. */
        FERRYPY_BLOCKING(status, ferry_event_synchronize(event));
        (void)status;
        ferry_event_destroy(&event);
        ferrypy_owner_destroy(memory);
        return NULL;
    }
    Py_INCREF((PyObject *)context);
    self->context = context;
    self->event = event;
    self->memory = memory;
    self->path = Py_XNewRef(path);
    return (PyObject *)self;
}

/* True when the copy no longer uses its memory. A failing query says so too, unless the library
 * refuses the call itself. */
static bool
is_done(ferry_event *event)
{
    bool done = false;
    ferry_status status = ferry_event_query(event, &done);

    return done || (status != FERRY_OK && status != FERRY_ERROR_INVALID_STATE &&
                    status != FERRY_ERROR_INVALID_ARGUMENT);
}

static int
event_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)((struct event_object *)object)->context);
    return 0;
}

/* The memory of the copy ends with the copy, on this thread or, when it is no time to wait, never.
 */
static void
event_dealloc(PyObject *object)
{
    struct event_object *self = (struct event_object *)object;
    ferry_status status;
    bool done = false;

    PyObject_GC_UnTrack(object);
    if (self->weak_references)
        PyObject_ClearWeakRefs(object);
    if (self->memory) {
        if (!ferrypy_in_callback()) {
            FERRYPY_BLOCKING(status, ferry_event_synchronize(self->event));
            (void)status;
            done = is_done(self->event);
        }
        if (done)
            ferrypy_owner_destroy(self->memory);
    }
    if (self->event)
        ferrypy_release_later(release_event, self->event);
    Py_XDECREF(self->path);
    Py_XDECREF((PyObject *)self->context);
    ferrypy_free(object);
}

/* Raises the failure of the event's copy; NULL. */
static PyObject *
fail(struct event_object *self, ferry_status status)
{
    ferrypy_fail(status);
    if (self->path)
        ferrypy_name_file(PyBytes_AsString(self->path));
    return NULL;
}

static void
end_memory(struct event_object *self)
{
    struct ferrypy_owner *memory = self->memory;
    self->memory = NULL;
    ferrypy_owner_destroy(memory);
}

static PyObject *
event_synchronize(PyObject *object, PyObject *unused)
{
    struct event_object *self = (struct event_object *)object;
    ferry_status status;

    (void)unused;
    FERRYPY_BLOCKING(status, ferry_event_synchronize(self->event));
    if (status != FERRY_OK)
        fail(self, status);
    if (self->memory && is_done(self->event))
        end_memory(self);
    if (status != FERRY_OK)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
event_query(PyObject *object, void *unused)
{
    struct event_object *self = (struct event_object *)object;
    bool done = false;
    ferry_status status;

    (void)unused;
    FERRYPY_BLOCKING(status, ferry_event_query(self->event, &done));
    if (self->memory && is_done(self->event))
        end_memory(self);
    if (status != FERRY_OK)
        return fail(self, status);
    return PyBool_FromLong(done);
}

static PyObject *
event_cancel(PyObject *object, PyObject *unused)
{
    ferry_status status = ferry_event_cancel(((struct event_object *)object)->event);

    (void)unused;
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    Py_RETURN_NONE;
}

static PyObject *
event_progress(PyObject *object, void *unused)
{
    size_t done, total;
    ferry_status status =
        ferry_event_progress(((struct event_object *)object)->event, &done, &total);

    (void)unused;
    return status == FERRY_OK ? Py_BuildValue("(nn)", done, total) : ferrypy_fail(status);
}

static PyObject *
event_elapsed(PyObject *object, PyObject *other)
{
    struct event_object *self = (struct event_object *)object;
    ferry_status status;
    double seconds;

    if (!PyObject_TypeCheck(other, ferrypy_event_type))
        return ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "Event.seconds_until needs an Event");
    FERRYPY_BLOCKING(
        status, ferry_event_elapsed(self->event, ((struct event_object *)other)->event, &seconds));
    return status == FERRY_OK ? PyFloat_FromDouble(seconds) : ferrypy_fail(status);
}

static PyMethodDef methods[] = {
    {"synchronize", event_synchronize, METH_NOARGS,
     "Blocks until the event has completed, and raises the failure of its copy."},
    {"cancel", event_cancel, METH_NOARGS, "Requests that the copy stops at its next chunk."},
    {"seconds_until", event_elapsed, METH_O,
     "seconds_until($self, end, /)\n--\n\nReturns the seconds on the device between this timed "
     "event and another one. Blocks until both."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef members[] = {
    {"done", event_query, NULL,
     "True when the event has completed. Raises the failure of its copy.", NULL},
    {"progress", event_progress, NULL, "Bytes that are done, and bytes in total.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMemberDef offsets[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct event_object, weak_references), READONLY,
     NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_members, offsets},
    {Py_tp_doc, "A point in a stream, or the completion of an asynchronous copy."},
    {Py_tp_dealloc, event_dealloc},
    {Py_tp_traverse, event_traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, members},
    {0, NULL},
};
static PyType_Spec spec = {
    .name = "ferry.Event",
    .basicsize = sizeof(struct event_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

int
ferrypy_event_init(PyObject *module)
{
    ferrypy_event_type = ferrypy_type_add(module, &spec, NULL);
    return ferrypy_event_type ? 0 : -1;
}
