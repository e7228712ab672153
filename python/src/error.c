/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The class of each status. Each is also a builtin exception, so that code that knows nothing of
 * Ferry catches it. */
static struct {
    const char *name;
    PyObject **builtin;
    const char *doc;
    PyObject *class;
} errors[] = {
    [0] = {"Error", NULL,
           "Base of the exceptions of Ferry. `status` is the ferry_status of the C library.", NULL},
    [FERRY_ERROR_INVALID_ARGUMENT] = {"ArgumentError", &PyExc_ValueError,
                                      "An argument is invalid, or memory is read-only.", NULL},
    [FERRY_ERROR_OUT_OF_RANGE] = {"RangeError", &PyExc_IndexError,
                                  "A range is past the end, or a value does not fit.", NULL},
    [FERRY_ERROR_OVERFLOW] = {"SizeError", &PyExc_OverflowError,
                              "A size exceeds what the machine or the context allows.", NULL},
    [FERRY_ERROR_OUT_OF_MEMORY] = {"OutOfMemoryError", &PyExc_MemoryError,
                                   "A place has no memory left.", NULL},
    [FERRY_ERROR_CONFLICT] = {"ConflictError", &PyExc_RuntimeError,
                              "Two places would both hold the newest bytes.", NULL},
    [FERRY_ERROR_BUSY] = {"BusyError", &PyExc_BufferError,
                          "An open access conflicts. The message says who holds it.", NULL},
    [FERRY_ERROR_WRONG_TYPE] = {"WrongTypeError", &PyExc_TypeError,
                                "The element differs from that of the array.", NULL},
    [FERRY_ERROR_WRONG_CONTEXT] = {"WrongContextError", &PyExc_ValueError,
                                   "Objects belong to different contexts.", NULL},
    [FERRY_ERROR_INVALID_STATE] = {"StateError", &PyExc_RuntimeError,
                                   "The object cannot do this now.", NULL},
    [FERRY_ERROR_UNSUPPORTED] = {"UnsupportedError", &PyExc_NotImplementedError,
                                 "This device or build cannot do it.", NULL},
    [FERRY_ERROR_NO_DEVICE] = {"NoDeviceError", &PyExc_RuntimeError,
                               "The requested device is absent.", NULL},
    [FERRY_ERROR_DEVICE] = {"DeviceError", &PyExc_RuntimeError, "The driver refused a call.", NULL},
    [FERRY_ERROR_DEVICE_LOST] = {"DeviceLostError", &PyExc_RuntimeError,
                                 "The device failed. What only it held is lost.", NULL},
    [FERRY_ERROR_COMPILE] = {"CompileError", &PyExc_RuntimeError,
                             "Kernel source did not compile. The message has the log.", NULL},
    [FERRY_ERROR_IO] = {"FileError", &PyExc_OSError, "A file could not be read or written.", NULL},
    [FERRY_ERROR_CANCELLED] = {"CancelledError", &PyExc_RuntimeError, "The call was cancelled.",
                               NULL},
};
#define ERROR_COUNT (sizeof(errors) / sizeof(errors[0]))

int
ferrypy_error_init(PyObject *module)
{
    for (size_t i = 0; i < ERROR_COUNT; i++) {
        char name[64];
        PyObject *bases, *dict = Py_BuildValue("{s:i}", "status", (int)i);

        if (!dict)
            return -1;
        snprintf(name, sizeof(name), "ferry.%s", errors[i].name);
        bases = i == 0 ? Py_BuildValue("(O)", PyExc_Exception)
                       : Py_BuildValue("(OO)", errors[0].class, *errors[i].builtin);
        errors[i].class =
            bases ? PyErr_NewExceptionWithDoc(name, errors[i].doc, bases, dict) : NULL;
        Py_XDECREF(bases);
        Py_DECREF(dict);
        if (!errors[i].class || PyModule_AddObjectRef(module, errors[i].name, errors[i].class) < 0)
            return -1;
    }
    return 0;
}

static PyObject *
class_of(ferry_status status)
{
    return (size_t)status < ERROR_COUNT ? errors[status].class : errors[0].class;
}

PyObject *
ferrypy_text(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
}

/* Calls a function of ferry._errors, and returns NULL without an exception where it cannot, as when
 * the interpreter ends. Takes `first`, which may be NULL. */
static PyObject *
ask_package(const char *function, PyObject *first, PyObject *second)
{
    PyObject *helpers = first ? PyImport_ImportModule("ferry._errors") : NULL;
    PyObject *made = helpers ? PyObject_CallMethod(helpers, function, "OO", first, second) : NULL;

    /* Ctrl-C may arrive in any code of Python, and is not lost with this call. */
    if (!made && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        PyErr_SetInterrupt();
    if (!made)
        PyErr_Clear();
    Py_XDECREF(helpers);
    Py_XDECREF(first);
    return made;
}

PyObject *
ferrypy_fail(ferry_status status)
{
    PyObject *text = ferrypy_text(ferry_last_error()), *made;

    if (!text)
        return NULL;
    made = ask_package("exception_of", Py_NewRef(class_of(status)), text);
    if (made)
        PyErr_SetObject((PyObject *)Py_TYPE(made), made);
    else
        PyErr_SetObject(class_of(status), text);
    Py_XDECREF(made);
    Py_DECREF(text);
    return NULL;
}

void
ferrypy_name_file(const char *path)
{
    PyObject *type, *value, *traceback, *name, *text;
    const char *words;

    if (!path || !PyErr_Occurred() || !PyErr_ExceptionMatches(errors[FERRY_ERROR_IO].class))
        return;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    text = PyObject_Str(value);
    words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    name = words && strstr(words, path) ? PyUnicode_DecodeFSDefault(path) : NULL;
    if (name)
        (void)PyObject_SetAttrString(value, "filename", name);
    PyErr_Clear();
    Py_XDECREF(name);
    Py_XDECREF(text);
    PyErr_Restore(type, value, traceback);
}

PyObject *
ferrypy_fail_with(ferry_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    PyErr_FormatV(class_of(status), format, arguments);
    va_end(arguments);
    return NULL;
}

/* Returns the status of a builtin exception that is set; FERRY_OK for one of Ferry's and all
 * others. */
static ferry_status
status_of_builtin(void)
{
    if (PyErr_ExceptionMatches(errors[0].class))
        return FERRY_OK;
    if (PyErr_ExceptionMatches(PyExc_TypeError))
        return FERRY_ERROR_WRONG_TYPE;
    if (PyErr_ExceptionMatches(PyExc_OverflowError))
        return FERRY_ERROR_OVERFLOW;
    if (PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_BufferError))
        return FERRY_ERROR_INVALID_ARGUMENT;
    return FERRY_OK;
}

void
ferrypy_refused(const char *what)
{
    PyObject *type, *value, *traceback;
    ferry_status status = status_of_builtin();

    if (status == FERRY_OK)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    ferrypy_fail_with(status, "%s%S", what, value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

bool
ferrypy_parse(PyObject *arguments, const char *format, ...)
{
    va_list list;
    bool good;

    va_start(list, format);
    good = PyArg_VaParse(arguments, format, list);
    va_end(list);
    if (!good)
        ferrypy_refused("");
    return good;
}

ferry_status
ferrypy_take_exception(char *text, size_t bytes)
{
    ferry_status status = FERRY_ERROR_DEVICE;
    PyObject *type, *value, *traceback, *words = NULL, *name = NULL;
    const char *word = NULL, *kind = NULL;

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (type && PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt))
        PyErr_SetInterrupt(); /* for the main thread */
    for (size_t i = 1; i < ERROR_COUNT; i++) {
        if (type && PyErr_GivenExceptionMatches(type, errors[i].class))
            status = (ferry_status)i;
    }
    if (type)
        name = PyObject_GetAttrString(type, "__name__");
    if (value)
        words = PyObject_Str(value);
    if (name)
        kind = PyUnicode_AsUTF8AndSize(name, NULL);
    if (words)
        word = PyUnicode_AsUTF8AndSize(words, NULL);
    snprintf(text, bytes, "%s: %s", kind ? kind : "exception", word ? word : "");
    PyErr_Clear();
    if (value) {
        if (traceback)
            (void)PyException_SetTraceback(value, traceback);
        Py_XDECREF(ask_package("keep_raised", ferrypy_text(text), value));
    }
    Py_XDECREF(name);
    Py_XDECREF(words);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return status;
}
