/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdatomic.h>
#include <stdlib.h>

/*
 * What cannot be given back where its last user ends. Python may collect garbage on any thread,
 * also on one of the library's that runs a callback, where the library refuses to destroy objects.
 * And the library ends a wrap on any thread, also without the interpreter lock. Both push the
 * object on a list, and the next call that needs no care takes the list.
 */
struct ferrypy_owner {
    struct ferrypy_deferred node; /* so that giving it back needs no memory */
    Py_buffer buffer;
};

static _Atomic(struct ferrypy_deferred *) list;
static atomic_bool ending;
static _Thread_local int callback_depth;

static int
run_pending(void *unused)
{
    (void)unused;
    if (!ferrypy_in_callback())
        ferrypy_run_deferred();
    return 0;
}

void
ferrypy_defer(struct ferrypy_deferred *node)
{
    node->next = atomic_load(&list);
    while (!atomic_compare_exchange_weak(&list, &node->next, node))
        ;
    /* The queue of the interpreter is short. When it is full, the next call of the binding runs the
     * list. */
    if (!atomic_load(&ending))
        (void)Py_AddPendingCall(run_pending, NULL);
}

/* The list has the last first, but an array ends before its context. */
static struct ferrypy_deferred *
in_order(struct ferrypy_deferred *last)
{
    struct ferrypy_deferred *first = NULL;

    while (last) {
        struct ferrypy_deferred *before = last->next;
        last->next = first;
        first = last;
        last = before;
    }
    return first;
}

void
ferrypy_run_deferred(void)
{
    struct ferrypy_deferred *node = NULL;

    if (callback_depth == 0 && atomic_load_explicit(&list, memory_order_relaxed))
        node = in_order(atomic_exchange(&list, NULL));

    while (node) {
        struct ferrypy_deferred *next = node->next;
        if (node->needs_interpreter) {
            node->release(node->object);
        } else {
            Py_BEGIN_ALLOW_THREADS node->release(node->object);
            Py_END_ALLOW_THREADS free(node);
        }
        node = next;
    }
}

void
ferrypy_release_later(ferrypy_release *release, void *object)
{
    if (callback_depth == 0) {
        Py_BEGIN_ALLOW_THREADS release(object);
        Py_END_ALLOW_THREADS ferrypy_run_deferred();
        return;
    }
    struct ferrypy_deferred *node = malloc(sizeof(*node));
    if (!node)
        return; /* The object leaks: there is no memory, and the library would refuse. */
    *node = (struct ferrypy_deferred){.release = release, .object = object};
    ferrypy_defer(node);
}

/* -- owners ------------------------------------------------------------------------------------ */

static void
owner_end(void *object)
{
    struct ferrypy_owner *owner = object;
    PyBuffer_Release(&owner->buffer);
    free(owner);
}

struct ferrypy_owner *
ferrypy_owner_create(PyObject *exporter, int flags)
{
    struct ferrypy_owner *owner = calloc(1, sizeof(*owner));

    if (!owner) {
        PyErr_NoMemory();
        return NULL;
    }
    if (PyObject_GetBuffer(exporter, &owner->buffer, flags) < 0) {
        ferrypy_refused("memory of a buffer: ");
        free(owner);
        return NULL;
    }
    owner->node =
        (struct ferrypy_deferred){.release = owner_end, .object = owner, .needs_interpreter = true};
    return owner;
}

Py_buffer *
ferrypy_owner_buffer(struct ferrypy_owner *owner)
{
    return &owner->buffer;
}

void
ferrypy_owner_destroy(struct ferrypy_owner *owner)
{
    if (owner)
        owner_end(owner);
}

void
ferrypy_owner_on_release(void *memory, void *user)
{
    struct ferrypy_owner *owner = user;
    (void)memory;
    ferrypy_defer(&owner->node);
}

/* -- callbacks --------------------------------------------------------------------------------- */

bool
ferrypy_callback_enter(enum ferrypy_callback kind, PyGILState_STATE *out)
{
    if (atomic_load(&ending) || !Py_IsInitialized())
        return false;
    *out = PyGILState_Ensure();
    callback_depth += kind == FERRYPY_DEFERRING;
    return true;
}

void
ferrypy_callback_leave(enum ferrypy_callback kind, PyGILState_STATE state)
{
    callback_depth -= kind == FERRYPY_DEFERRING;
    PyGILState_Release(state);
}

bool
ferrypy_in_callback(void)
{
    return callback_depth > 0;
}

PyObject *
ferrypy_at_exit(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    ferrypy_run_deferred();
    atomic_store(&ending, true);
    Py_RETURN_NONE;
}
