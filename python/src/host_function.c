/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <ferry/generated.h>

#include <stdlib.h>
#include <string.h>

/*
 * Python code gets copies of its arrays: an ndarray may outlive the call, and must not point to
 * memory of the device then. What it wrote is copied back when it returns. Compiled code gets the
 * memory itself.
 */

/* Returns memory for an argument, with its bytes if the function may read them: a bytearray. */
static PyObject *
copy_in(const ferry_call *call, const ferry_parameter *parameter, size_t index, size_t *out_count)
{
    void *pointer = ferry_call_array(call, parameter->element, index, out_count);
    if (parameter->access == FERRY_OVERWRITE)
        pointer = NULL; /* the function writes every element */
    return PyByteArray_FromStringAndSize(pointer,
                                         (Py_ssize_t)(*out_count * parameter->element->bytes));
}

/* Returns an array of one dimension over a bytearray: an ndarray, or a memoryview without NumPy. */
static PyObject *
array_over(PyObject *memory, const ferry_parameter *parameter, size_t count)
{
    PyObject *element = ferrypy_element_object(parameter->element), *ndarray = ferrypy_ndarray(),
             *view = NULL, *dtype;

    if (element && ndarray) {
        dtype = ferrypy_element_dtype((struct element_object *)element);
        if (dtype)
            view = PyObject_CallFunction(ndarray, "nOO", (Py_ssize_t)count, dtype, memory);
        Py_XDECREF(dtype);
    } else if (element && !PyErr_Occurred()) {
        PyObject *bytes = PyMemoryView_FromObject(memory);
        const char *format = ((struct element_object *)element)->format;
        view = bytes && format ? PyObject_CallMethod(bytes, "cast", "s", format) : NULL;
        if (bytes && !view) {
            PyErr_Clear();
            ferrypy_fail_with(FERRY_ERROR_UNSUPPORTED,
                              "an array of %s needs NumPy in a host function",
                              parameter->element->name);
        }
        Py_XDECREF(bytes);
    }
    Py_XDECREF(element);
    return view;
}

/* Returns the value of an argument: what a 0-dimensional array of its element holds. */
static PyObject *
value_of(const ferry_call *call, const ferry_parameter *parameter, size_t index)
{
    size_t bytes;
    const void *value;
    PyObject *helpers, *element, *made;

    if (parameter->element == ferry_size_element())
        return PyLong_FromSize_t(ferry_call_size(call, index));
    value = ferry_call_value(
        call, parameter->element->kind == FERRY_KIND_STRUCT ? NULL : parameter->element, index,
        &bytes);
    if (!value)
        return PyErr_Format(PyExc_RuntimeError, "argument %zu has no value", index);
    element = ferrypy_element_object(parameter->element);
    helpers = element ? PyImport_ImportModule("ferry._element") : NULL;
    made = helpers ? PyObject_CallMethod(helpers, "value_of", "Oy#", element, (const char *)value,
                                         (Py_ssize_t)bytes)
                   : NULL;
    Py_XDECREF(helpers);
    Py_XDECREF(element);
    return made;
}

/* Calls the function and copies what it wrote back. False with an exception set. */
static bool
call_python(struct ferrypy_host_function *self, const ferry_call *call)
{
    PyObject *values = PyTuple_New((Py_ssize_t)self->parameter_count), *copies = PyList_New(0),
             *result = NULL;
    bool done = false;

    for (size_t i = 0; values && copies && i < self->parameter_count; i++) {
        const ferry_parameter *parameter = &self->parameters[i];
        PyObject *value, *copy = Py_NewRef(Py_None);
        size_t count = 0;
        if (parameter->access) {
            Py_DECREF(copy);
            copy = copy_in(call, parameter, i, &count);
            value = copy ? array_over(copy, parameter, count) : NULL;
        } else {
            value = value_of(call, parameter, i);
        }
        if (value)
            PyTuple_SetItem(values, (Py_ssize_t)i, value);
        if (!value || PyList_Append(copies, copy) < 0) {
            Py_XDECREF(copy);
            goto end;
        }
        Py_DECREF(copy);
    }
    if (!values || !copies || !self->function)
        goto end;
    result = PyObject_CallObject(self->function, values);
    for (size_t i = 0; result && i < self->parameter_count; i++) {
        const ferry_parameter *parameter = &self->parameters[i];
        PyObject *copy = PyList_GetItem(copies, (Py_ssize_t)i);
        size_t count;
        void *pointer;
        if (!parameter->access || parameter->access == FERRY_READ)
            continue;
        pointer = ferry_call_array(call, parameter->element, i, &count);
        if ((size_t)PyByteArray_Size(copy) != count * parameter->element->bytes) {
            PyErr_Format(PyExc_RuntimeError, "the function resized the memory of argument %zu", i);
            goto end;
        }
        memcpy(pointer, PyByteArray_AsString(copy), count * parameter->element->bytes);
    }
    done = result != NULL;
end:
    Py_XDECREF(result);
    Py_XDECREF(copies);
    Py_XDECREF(values);
    return done;
}

static ferry_status
run_python(const ferry_call *call, void *user)
{
    ferry_status status = FERRY_OK;
    PyObject *type, *value, *traceback;
    PyGILState_STATE state;
    char text[1024];

    if (!ferrypy_callback_enter(FERRYPY_DEFERRING, &state)) {
        ferry_call_fail(call, "the Python interpreter has ended");
        return FERRY_ERROR_INVALID_STATE;
    }
    PyErr_Fetch(&type, &value, &traceback);
    if (!call_python(user, call)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "the kernel was collected");
        status = ferrypy_take_exception(text, sizeof(text));
        ferry_call_fail(call, text);
    }
    PyErr_Restore(type, value, traceback);
    ferrypy_callback_leave(FERRYPY_DEFERRING, state);
    return status;
}

static ferry_status
run_compiled(const ferry_call *call, void *user)
{
    struct ferrypy_host_function *self = user;
    void *pointers[64];
    size_t counts[64];
    int32_t status;

    for (size_t i = 0; i < self->parameter_count; i++) {
        const ferry_parameter *parameter = &self->parameters[i];
        bool loose = !parameter->access && parameter->element->kind == FERRY_KIND_STRUCT;
        counts[i] = 1;
        if (parameter->access)
            pointers[i] = ferry_call_array(call, parameter->element, i, &counts[i]);
        else
            pointers[i] = (void *)(uintptr_t)ferry_call_value(
                call, loose ? NULL : parameter->element, i, NULL);
    }
    status = self->compiled(pointers, counts);
    if (status == 0)
        return FERRY_OK;
    ferry_call_fail(call, "the compiled host function returned a failure");
    return FERRY_ERROR_DEVICE;
}

struct ferrypy_host_function *
ferrypy_host_function_create(PyObject *function, PyObject *address,
                             const ferry_parameter *parameters, size_t parameter_count)
{
    struct ferrypy_host_function *self = calloc(1, sizeof(*self));

    if (!self) {
        PyErr_NoMemory();
        return NULL;
    }
    self->parameters = parameters;
    self->parameter_count = parameter_count;
    if (address != Py_None) {
        PyObject *owner = PyTuple_GetItem(address, 1);
        void *code = owner ? PyLong_AsVoidPtr(PyTuple_GetItem(address, 0)) : NULL;
        const bool is_native = owner && PyTuple_GetItem(address, 2) == Py_True;
        if (!code || (parameter_count > 64 && !is_native)) {
            if (!PyErr_Occurred())
                ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                                  "a compiled host function takes at most 64 arguments");
            free(self);
            return NULL;
        }
        self->keeper = Py_NewRef(owner);
        self->run = run_compiled;
        if (is_native)
            memcpy(&self->run, &code, sizeof(code));
        else
            memcpy(&self->compiled, &code, sizeof(code));
        return self;
    }
    if (!PyCallable_Check(function)) {
        ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "the host function must be callable");
        free(self);
        return NULL;
    }
    self->function = Py_NewRef(function);
    self->run = run_python;
    return self;
}

void
ferrypy_host_function_destroy(struct ferrypy_host_function *host)
{
    Py_XDECREF(host->function);
    Py_XDECREF(host->keeper);
    free(host);
}

/* What generated host functions call. _expression.py declares the same struct in C. */
static const struct {
    void *(*array)(const ferry_call *, const ferry_element *, size_t, size_t *);
    const void *(*value)(const ferry_call *, const ferry_element *, size_t, size_t *);
    size_t (*size)(const ferry_call *, size_t);
    ferry_status (*parallel)(const ferry_call *, size_t, size_t, ferry_part_function *, void *);
    int (*is_checked)(const ferry_call *);
    void *(*found)(const ferry_call *, size_t, int64_t);
} host_calls = {ferry_call_array,    ferry_call_value,      ferry_call_size,
                ferry_call_parallel, ferry_call_is_checked, ferry_call_element};

PyObject *
ferrypy_host_calls(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromVoidPtr((void *)(uintptr_t)&host_calls);
}
