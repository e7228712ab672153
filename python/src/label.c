/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdio.h>
#include <string.h>

/*
 * Labels by code and instruction, because writing one costs more than all the rest of an access,
 * and finding the line alone a fifth of it. Guarded by the interpreter lock.
 */
static struct {
    PyCodeObject *code; /* owned, so that no other code gets its address; NULL: free */
    long instruction;
    char text[FERRYPY_LABEL_BYTES];
} known[64];

static PyObject *instruction_name;

/* Beginning of the paths of the package's own code, such as
 * "/usr/lib/python3/dist-packages/ferry/_". */
static char own[4096];

/* set_folder(folder of the package) */
static PyObject *
set_folder(PyObject *module, PyObject *folder)
{
    const char *path = PyUnicode_AsUTF8AndSize(folder, NULL);

    (void)module;
    if (!path)
        PyErr_Clear(); /* a name that is not UTF-8, which write_label() cannot read either */
    snprintf(own, sizeof(own), "%s/_", path ? path : "");
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"set_folder", set_folder, METH_O, NULL}, {NULL, NULL, 0, NULL}};

int
ferrypy_label_init(PyObject *module)
{
    instruction_name = PyUnicode_InternFromString("f_lasti");
    return instruction_name ? PyModule_AddFunctions(module, functions) : -1;
}

/* Writes the label of code that is the program's. Returns false for code of the package. */
static bool
write_label(PyCodeObject *code, int line, char text[FERRYPY_LABEL_BYTES])
{
    PyObject *path = PyObject_GetAttrString((PyObject *)code, "co_filename");
    const char *name = path ? PyUnicode_AsUTF8AndSize(path, NULL) : NULL;
    const char *slash = name ? strrchr(name, '/') : NULL;
    bool foreign = name && strncmp(name, own, strlen(own)) != 0;
    int length;

    if (foreign) {
        name = slash ? slash + 1 : name;
        length = (int)strnlen(name, 60);
        while (length > 0 && ((unsigned char)name[length] & 0xC0) == 0x80)
            length--; /* not inside a character */
        snprintf(text, FERRYPY_LABEL_BYTES, "python, %.*s:%d", length, name, line);
    }
    Py_XDECREF(path);
    return foreign;
}

/* Returns the frame that called `frame`, which it gives back; NULL for the outermost one. */
static PyFrameObject *
caller_of(PyFrameObject *frame)
{
    PyObject *outer = PyObject_GetAttrString((PyObject *)frame, "f_back");

    Py_DECREF((PyObject *)frame);
    if (outer == Py_None)
        Py_CLEAR(outer);
    return (PyFrameObject *)outer;
}

/* The end of the code that had the slot may run Python code, which finds the new content. */
static void
keep(size_t slot, PyCodeObject *code, long instruction, const char *text)
{
    PyCodeObject *old = known[slot].code;

    known[slot].code = (PyCodeObject *)Py_NewRef((PyObject *)code);
    known[slot].instruction = instruction;
    memcpy(known[slot].text, text, FERRYPY_LABEL_BYTES);
    Py_XDECREF((PyObject *)old);
}

/* Returns the offset of the instruction that the frame runs; -1 when it has none. */
static long
instruction_of(PyFrameObject *frame)
{
    PyObject *offset = PyObject_GetAttr((PyObject *)frame, instruction_name);
    long instruction = offset ? PyLong_AsLong(offset) : -1;

    Py_XDECREF(offset);
    return instruction;
}

void
ferrypy_label(char text[FERRYPY_LABEL_BYTES])
{
    PyFrameObject *frame = PyEval_GetFrame(); /* borrowed */
    bool found = false;

    Py_XINCREF((PyObject *)frame);
    while (frame && !found) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        long instruction = instruction_of(frame);
        size_t slot =
            (((uintptr_t)code >> 5) + (size_t)instruction / 2) % (sizeof(known) / sizeof(known[0]));

        found = known[slot].code == code && known[slot].instruction == instruction;
        if (found) {
            memcpy(text, known[slot].text, FERRYPY_LABEL_BYTES);
        } else if (write_label(code, PyFrame_GetLineNumber(frame), text)) {
            keep(slot, code, instruction, text);
            found = true;
        }
        Py_DECREF((PyObject *)code);
        if (found)
            Py_DECREF((PyObject *)frame);
        else
            frame = caller_of(frame);
    }
    if (!found)
        snprintf(text, FERRYPY_LABEL_BYTES, "python");
    PyErr_Clear();
}
