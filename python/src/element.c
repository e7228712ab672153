/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *ferrypy_element_type;

/* Objects by the address of their element, which is never freed. */
static PyObject *known;

static char *
text_of(const ferry_element *element, ferry_text language)
{
    size_t length = ferry_element_text(element, language, NULL, 0);
    char *text = length ? malloc(length + 1) : NULL;

    if (text)
        ferry_element_text(element, language, text, length + 1);
    return text;
}

PyObject *
ferrypy_element_object(const ferry_element *element)
{
    const ferry_element *own = element->kind == FERRY_KIND_STRUCT
                                   ? NULL
                                   : ferry_element_scalar(element->kind, element->bits);
    struct element_object *self;
    PyObject *key, *found;

    if (!own) {
        ferry_status status = ferry_element_intern(element, &own);
        if (status != FERRY_OK)
            return ferrypy_fail(status);
    }
    key = PyLong_FromVoidPtr((void *)(uintptr_t)own);
    if (!key)
        return NULL;
    found = PyDict_GetItemWithError(known, key);
    if (found || PyErr_Occurred()) {
        Py_DECREF(key);
        Py_XINCREF(found);
        return found;
    }
    self = (struct element_object *)PyType_GenericAlloc(ferrypy_element_type, 0);
    if (self) {
        self->element = own;
        self->format = text_of(own, FERRY_TEXT_BUFFER);
        if (PyDict_SetItem(known, key, (PyObject *)self) < 0)
            Py_CLEAR(self);
    }
    Py_DECREF(key);
    return (PyObject *)self;
}

PyObject *
ferrypy_element_dtype(struct element_object *self)
{
    if (!self->dtype) {
        PyObject *made, *helpers = PyImport_ImportModule("ferry._numpy");
        if (!helpers)
            return NULL;
        made = PyObject_CallMethod(helpers, "dtype_of", "O", (PyObject *)self);
        Py_DECREF(helpers);
        if (!made)
            return NULL;
        if (self->dtype) /* by another thread */
            Py_DECREF(made);
        else
            self->dtype = made;
    }
    Py_INCREF(self->dtype);
    return self->dtype;
}

static PyObject *
parse(ferry_text language, const char *text)
{
    const ferry_element *element;
    ferry_status status = ferry_element_parse(language, text, &element);

    return status == FERRY_OK ? ferrypy_element_object(element) : ferrypy_fail(status);
}

static void
without_marks(char *out, size_t room, const char *format, size_t missing)
{
    (void)room;
    (void)missing;
    for (; *format; format++) {
        if (*format != '<')
            *out++ = *format;
    }
    *out = 0;
}

static void
with_padding(char *out, size_t room, const char *format, size_t missing)
{
    size_t length = strlen(format);

    if (length && format[length - 1] == '}')
        snprintf(out, room, "%.*s%zux}", (int)(length - 1), format, missing);
    else
        snprintf(out, room, "%s", format);
}

static void
unaligned(char *out, size_t room, const char *format, size_t missing)
{
    (void)missing;
    snprintf(out, room, "^%s", format);
}

/* Returns the element of a changed format instead of `element`, which it takes. */
static struct element_object *
again(struct element_object *element, const char *format,
      void (*change)(char *out, size_t room, const char *format, size_t missing), size_t bytes)
{
    size_t room = strlen(format) + 32;
    char *changed = PyMem_Malloc(room);

    if (!changed) {
        Py_DECREF(element);
        return (struct element_object *)PyErr_NoMemory();
    }
    change(changed, room, format, bytes - element->element->bytes);
    Py_DECREF(element);
    element = (struct element_object *)parse(FERRY_TEXT_BUFFER, changed);
    PyMem_Free(changed);
    return element;
}

/* Returns the element that the dtype of an ndarray says, of which a consumer gets a memoryview with
 * nested structs; None for other memory. NumPy's formats leave out the padding at the end of nested
 * structs, after which the rules of the format give other offsets. */
static PyObject *
element_of_dtype(const Py_buffer *buffer, const char *format)
{
    PyObject *helpers, *made;

    if (strncmp(format, "T{", 2) != 0 || !strstr(format + 2, "T{") || !buffer->obj ||
        !PyMemoryView_Check(buffer->obj))
        Py_RETURN_NONE;
    helpers = PyImport_ImportModule("ferry._element");
    if (!helpers)
        return NULL;
    made = PyObject_CallMethod(helpers, "element_of_view", "O", buffer->obj);
    Py_DECREF(helpers);
    return made;
}

PyObject *
ferrypy_element_of_buffer(const Py_buffer *buffer)
{
    const char *format = buffer->format ? buffer->format : "B";
    PyObject *described = element_of_dtype(buffer, format);
    size_t bytes = (size_t)buffer->itemsize;
    struct element_object *element;

    if (!described || described != Py_None)
        return described;
    Py_DECREF(described);
    element = (struct element_object *)parse(FERRY_TEXT_BUFFER, format);
    if (!element || element->element->bytes == bytes)
        return (PyObject *)element;
    /* Exporters name the byte order, and leave padding out. Which they meant shows when the size is
     * right. */
    if (strchr(format, '<')) {
        /* ctypes marks each field, and has the layout of C. */
        element = again(element, format, without_marks, bytes);
    } else if (bytes > element->element->bytes) {
        /* NumPy and ctypes leave the padding at the end of a struct out. */
        element = again(element, format, with_padding, bytes);
    } else {
        /* NumPy's fields lie next to each other unless they are asked to be aligned. */
        element = again(element, format, unaligned, bytes);
    }
    if (element && element->element->bytes != bytes) {
        Py_DECREF(element);
        return ferrypy_fail_with(FERRY_ERROR_UNSUPPORTED,
                                 "format \"%.200s\" has items of %zd bytes", format,
                                 buffer->itemsize);
    }
    return (PyObject *)element;
}

/* -- methods ----------------------------------------------------------------------------------- */

static PyObject *
element_parse(PyObject *module, PyObject *arguments)
{
    const char *text;
    int language;

    (void)module;
    if (!ferrypy_parse(arguments, "is:parse_element", &language, &text))
        return NULL;
    return parse((ferry_text)language, text);
}

static PyObject *
element_of_exporter(PyObject *module, PyObject *exporter)
{
    struct ferrypy_owner *owner = ferrypy_owner_create(exporter, PyBUF_FORMAT | PyBUF_STRIDES);
    PyObject *found;

    (void)module;
    if (!owner)
        return NULL;
    found = ferrypy_element_of_buffer(ferrypy_owner_buffer(owner));
    ferrypy_owner_destroy(owner);
    return found;
}

/* make_struct(name, bytes, align, cuda_declaration or None, opencl_declaration or None,
 * [(name, kind, bits, offset, count)]) */
static PyObject *
element_make_struct(PyObject *module, PyObject *arguments)
{
    const char *name, *cuda, *opencl;
    ferry_element element = {.kind = FERRY_KIND_STRUCT};
    Py_ssize_t bytes, align, count;
    PyObject *list, *made = NULL;
    ferry_field *fields;

    (void)module;
    if (!ferrypy_parse(arguments, "snnzzO!:make_struct", &name, &bytes, &align, &cuda, &opencl,
                       &PyList_Type, &list))
        return NULL;
    count = PyList_Size(list);
    fields = PyMem_Calloc(count ? (size_t)count : 1, sizeof(*fields));
    if (!fields)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        int kind;
        unsigned int bits;
        Py_ssize_t offset, items;
        if (!ferrypy_parse(PyList_GetItem(list, i), "siInn", &fields[i].name, &kind, &bits, &offset,
                           &items))
            goto end;
        fields[i].kind = (ferry_kind)kind;
        fields[i].bits = bits;
        fields[i].offset = (size_t)offset;
        fields[i].count = (size_t)items;
    }
    element.name = name;
    element.c_type = name;
    element.bytes = (size_t)bytes;
    element.align = (size_t)align;
    element.fields = fields;
    element.field_count = (size_t)count;
    element.cuda_declaration = cuda;
    element.opencl_declaration = opencl;
    made = ferrypy_element_object(&element);
end:
    PyMem_Free(fields);
    return made;
}

/* make_scalar(kind, bits) */
static PyObject *
element_make_scalar(PyObject *module, PyObject *arguments)
{
    const ferry_element *element;
    unsigned int bits;
    int kind;

    (void)module;
    if (!ferrypy_parse(arguments, "iI:make_scalar", &kind, &bits))
        return NULL;
    element = ferry_element_scalar((ferry_kind)kind, bits);
    return element ? ferrypy_element_object(element)
                   : ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "no number of kind %d has %u bits",
                                       kind, bits);
}

static PyMethodDef functions[] = {
    {"make_scalar", element_make_scalar, METH_VARARGS, NULL},
    {"parse_element", element_parse, METH_VARARGS, NULL},
    {"element_of", element_of_exporter, METH_O, NULL},
    {"make_struct", element_make_struct, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyObject *
get_text(PyObject *object, void *language)
{
    char *text =
        text_of(((struct element_object *)object)->element, (ferry_text)(intptr_t)language);
    PyObject *found;

    if (!text)
        Py_RETURN_NONE;
    found = PyUnicode_FromString(text);
    free(text);
    return found;
}

static PyObject *
get_name(PyObject *object, void *unused)
{
    (void)unused;
    return ferrypy_text(((struct element_object *)object)->element->name);
}

static PyObject *
get_itemsize(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((struct element_object *)object)->element->bytes);
}

static PyObject *
get_kind(PyObject *object, void *unused)
{
    static const char *const names[] = {"",     "float", "bfloat",  "int",
                                        "uint", "bool",  "complex", "struct"};
    (void)unused;
    return PyUnicode_FromString(names[((struct element_object *)object)->element->kind]);
}

static PyObject *
get_bits(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(((struct element_object *)object)->element->bits);
}

static PyObject *
get_alignment(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((struct element_object *)object)->element->align);
}

static PyObject *
get_fields(PyObject *object, void *unused)
{
    const ferry_element *element = ((struct element_object *)object)->element;
    PyObject *fields = PyTuple_New((Py_ssize_t)element->field_count);

    (void)unused;
    for (size_t i = 0; fields && i < element->field_count; i++) {
        const ferry_field *field = &element->fields[i];
        PyObject *item = Py_BuildValue("(sOnn)", field->name, Py_None, (Py_ssize_t)field->offset,
                                       (Py_ssize_t)field->count);
        const ferry_element *scalar = ferry_element_scalar(field->kind, field->bits);
        PyObject *type = scalar ? ferrypy_element_object(scalar) : NULL;
        if (item && type) {
            PyTuple_SetItem(item, 1, type);
            PyTuple_SetItem(fields, (Py_ssize_t)i, item);
        } else {
            Py_XDECREF(item);
            Py_XDECREF(type);
            Py_CLEAR(fields);
        }
    }
    return fields;
}

static PyObject *
get_dtype(PyObject *object, void *unused)
{
    (void)unused;
    return ferrypy_element_dtype((struct element_object *)object);
}

static PyGetSetDef members[] = {
    {"name", get_name, NULL, "Name in messages, such as \"float\".", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of one element.", NULL},
    {"alignment", get_alignment, NULL, "Alignment in bytes.", NULL},
    {"kind", get_kind, NULL,
     "\"float\", \"bfloat\", \"int\", \"uint\", \"bool\", \"complex\" or \"struct\".", NULL},
    {"bits", get_bits, NULL, "Bits of a number; 0 for a struct.", NULL},
    {"fields", get_fields, NULL,
     "Tuples of name, element, offset in bytes and count, for each field of a struct.", NULL},
    {"format", get_text, NULL, "Format of the buffer protocol; None for bfloat16.",
     (void *)FERRY_TEXT_BUFFER},
    {"typestr", get_text, NULL, "Type string of NumPy's array interface; None for bfloat16.",
     (void *)FERRY_TEXT_TYPESTR},
    {"arrow", get_text, NULL, "Format of an Arrow schema; None where Arrow has none.",
     (void *)FERRY_TEXT_ARROW},
    {"dtype", get_dtype, NULL, "NumPy's dtype of this element. Needs NumPy.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyObject *
element_repr(PyObject *object)
{
    PyObject *name = ferrypy_text(((struct element_object *)object)->element->name), *text;

    text = name ? PyUnicode_FromFormat("ferry.element('%U')", name) : NULL;
    Py_XDECREF(name);
    return text;
}

static PyObject *
element_compare(PyObject *a, PyObject *b, int operation)
{
    PyObject *other = NULL;
    bool equal;

    if (operation != Py_EQ && operation != Py_NE)
        Py_RETURN_NOTIMPLEMENTED;
    if (!PyObject_TypeCheck(b, ferrypy_element_type)) {
        PyObject *module = PyImport_ImportModule("ferry._element");
        other = module ? PyObject_CallMethod(module, "element_or_none", "O", b) : NULL;
        Py_XDECREF(module);
        if (!other)
            return NULL;
        b = other;
    }
    equal = b != Py_None && ferry_element_equal(((struct element_object *)a)->element,
                                                ((struct element_object *)b)->element);
    Py_XDECREF(other);
    return PyBool_FromLong(operation == Py_EQ ? equal : !equal);
}

/* An element is equal to NumPy's dtype of the same number, so that both have one hash. It is kept,
 * because it must not change when NumPy is installed or imported later. */
static Py_hash_t
element_hash(PyObject *object)
{
    struct element_object *self = (struct element_object *)object;
    PyObject *helpers, *found;

    if (self->hash)
        return self->hash;
    helpers = PyImport_ImportModule("ferry._numpy");
    found = helpers ? PyObject_CallMethod(helpers, "hash_of", "O", object) : NULL;
    Py_XDECREF(helpers);
    if (!found)
        return -1;
    self->hash =
        found == Py_None ? (Py_hash_t)self->element->identity : (Py_hash_t)PyLong_AsSsize_t(found);
    Py_DECREF(found);
    if (self->hash == -1 || self->hash == 0)
        self->hash = -2;
    return self->hash;
}

static PyType_Slot slots[] = {
    {Py_tp_doc, "Describes the elements of an array. ferry.element() makes one. NumPy takes it "
                "where it wants a dtype."},
    {Py_tp_repr, element_repr},
    {Py_tp_richcompare, element_compare},
    {Py_tp_hash, element_hash},
    {Py_tp_getset, members},
    {0, NULL},
};
static PyType_Spec spec = {
    .name = "ferry.Element",
    .basicsize = sizeof(struct element_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

int
ferrypy_element_init(PyObject *module)
{
    known = PyDict_New();
    ferrypy_element_type = known ? ferrypy_type_add(module, &spec, NULL) : NULL;
    return ferrypy_element_type ? PyModule_AddFunctions(module, functions) : -1;
}
