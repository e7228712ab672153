/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *ferrypy_kernel_type;

/* Waits for the work of one stream. An event reports no failure of the stream: that stays for
 * Stream.synchronize(). */
static bool
wait_for_stream(ferry_stream *stream)
{
    ferry_event *event;
    ferry_status status;

    FERRYPY_BLOCKING(status, ferry_stream_record(stream, 0, &event));
    if (status == FERRY_OK) {
        FERRYPY_BLOCKING(status, ferry_event_synchronize(event));
        FERRYPY_RELEASE(ferry_event_destroy(&event));
    }
    return status == FERRY_OK;
}

/* Waits for the launches that use the host function. True when none is left of those that were
 * noted before. */
static bool
wait_for_launches(struct kernel_object *self)
{
    uint32_t places = self->default_places;
    PyObject *waited, *list;
    bool idle;

    if (!self->host || !self->streams || (places == 0 && PySet_Size(self->streams) == 0))
        return true;
    if (ferrypy_in_callback())
        return false;
    /* Other threads launch meanwhile: what they note is not what this call waits for. */
    list = PySet_New(NULL);
    if (!list) {
        PyErr_Clear();
        return false;
    }
    waited = self->streams;
    self->streams = list;
    self->default_places = 0;
    list = PySequence_List(waited);
    idle = list != NULL;
    for (Py_ssize_t i = 0; idle && i < PyList_Size(list); i++)
        idle = wait_for_stream(((struct stream_object *)PyList_GetItem(list, i))->stream);
    for (int place = 1; idle && place < 32; place++) {
        if (places >> place & 1)
            idle = wait_for_stream(ferry_context_stream(self->context->context, place));
    }
    if (!idle) {
        self->default_places |= places;
        for (Py_ssize_t i = 0; list && i < PyList_Size(list); i++)
            PySet_Add(self->streams, PyList_GetItem(list, i));
    }
    PyErr_Clear();
    Py_XDECREF(list);
    Py_DECREF(waited);
    return idle;
}

bool
ferrypy_kernel_note(struct kernel_object *self, struct stream_object *object, ferry_stream *stream)
{
    if (!self->host)
        return true;
    if (!ferrypy_graph_keep(stream, (PyObject *)self))
        return false;
    if (!object || !object->owned) {
        self->default_places |= UINT32_C(1) << ferry_stream_place(stream);
        return true;
    }
    /* A program that makes a stream for each launch must not fill the memory with them. */
    if (PySet_Size(self->streams) >= 256)
        (void)wait_for_launches(self);
    return PySet_Add(self->streams, (PyObject *)object) == 0;
}

static void
release_kernel(void *object)
{
    ferry_kernel *kernel = object;
    ferry_kernel_destroy(&kernel);
}

static int
kernel_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct kernel_object *self = (struct kernel_object *)object;

    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)self->context);
    Py_VISIT(self->streams);
    if (self->host) {
        Py_VISIT(self->host->function);
        Py_VISIT(self->host->keeper);
    }
    return 0;
}

static int
kernel_clear(PyObject *object)
{
    struct kernel_object *self = (struct kernel_object *)object;

    if (self->host && self->host->function && wait_for_launches(self))
        Py_CLEAR(self->host->function);
    return 0;
}

static void
kernel_dealloc(PyObject *object)
{
    struct kernel_object *self = (struct kernel_object *)object;
    PyObject *type, *value, *traceback;
    bool idle;

    PyObject_GC_UnTrack(object);
    PyErr_Fetch(&type, &value, &traceback);
    idle = wait_for_launches(self);
    if (self->kernel)
        ferrypy_release_later(release_kernel, self->kernel);
    if (self->host &&
        idle) { /* else it leaks: the function is still in use, and this thread may not wait */
        ferrypy_host_function_destroy(self->host);
        PyMem_Free(self->parameters);
    } else if (!self->host) {
        PyMem_Free(self->parameters);
    }
    Py_XDECREF(self->streams);
    Py_XDECREF(self->name);
    Py_XDECREF(self->labels);
    Py_XDECREF((PyObject *)self->context);
    PyErr_Restore(type, value, traceback);
    ferrypy_free(object);
}

/* Reads a list of (access, Element or None for a size, how far it may overlap others, name or
 * None). The list owns the names. */
static bool
read_parameters(struct kernel_object *self, PyObject *list)
{
    self->parameter_count = (size_t)PyList_Size(list);
    self->parameters =
        PyMem_Calloc(self->parameter_count ? self->parameter_count : 1, sizeof(*self->parameters));
    if (!self->parameters) {
        PyErr_NoMemory();
        return false;
    }
    for (size_t i = 0; i < self->parameter_count; i++) {
        PyObject *element;
        int access, overlap;
        if (!ferrypy_parse(PyList_GetItem(list, (Py_ssize_t)i), "iOiz", &access, &element, &overlap,
                           &self->parameters[i].name))
            return false;
        self->parameters[i].access = (ferry_access)access;
        self->parameters[i].overlap = (ferry_overlap)overlap;
        if (element == Py_None)
            self->parameters[i].element = ferry_size_element();
        else if (PyObject_TypeCheck(element, ferrypy_element_type))
            self->parameters[i].element = ((struct element_object *)element)->element;
        else {
            PyErr_Format(PyExc_TypeError, "parameter %zu has no element", i);
            return false;
        }
    }
    return true;
}

/* The codes of a kernel, as Python passes them; NULL where there is none. */
struct given_codes {
    const char *cuda, *opencl, *image;
    Py_ssize_t image_bytes;
    PyObject *cuda_options, *opencl_options;
    const char **cuda_list, **opencl_list; /* texts of the options */
    int exact;
};

/* The most codes of a kernel: an image and a text in each language. */
#define CODES_MAX 3

static void
add_text(ferry_kernel_code *codes, size_t *count, ferry_code_kind kind, const char *text,
         const char **options, Py_ssize_t option_count, int exact)
{
    if (text)
        codes[(*count)++] = (ferry_kernel_code){.kind = kind,
                                                .flags = exact ? FERRY_CODE_EXACT : 0,
                                                .code = text,
                                                .options = options,
                                                .option_count = (size_t)option_count};
}

/* Describes the codes that there are. Returns their number. */
static size_t
describe_codes(ferry_kernel_code codes[CODES_MAX], const struct given_codes *given)
{
    size_t count = 0;
    if (given->image)
        codes[count++] = (ferry_kernel_code){.kind = FERRY_CODE_CUDA_IMAGE,
                                             .code = given->image,
                                             .bytes = (size_t)given->image_bytes};
    add_text(codes, &count, FERRY_CODE_CUDA, given->cuda, given->cuda_list,
             PyList_Size(given->cuda_options), given->exact);
    add_text(codes, &count, FERRY_CODE_OPENCL, given->opencl, given->opencl_list,
             PyList_Size(given->opencl_options), given->exact);
    return count;
}

/* Returns the texts of a list of options, or NULL with an error set. They are valid as long as the
 * list is. The caller frees the array. */
static const char **
list_options(PyObject *options)
{
    const Py_ssize_t count = PyList_Size(options);
    const char **list = PyMem_Calloc((size_t)count + 1, sizeof(*list));
    if (!list)
        return (const char **)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        list[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(options, i), NULL);
        if (!list[i]) {
            PyMem_Free(list);
            return NULL;
        }
    }
    return list;
}

static bool
list_all_options(struct given_codes *given)
{
    given->cuda_list = list_options(given->cuda_options);
    given->opencl_list = given->cuda_list ? list_options(given->opencl_options) : NULL;
    return given->opencl_list;
}

/* Kernel(context, name, source, image, options, opencl_source, opencl_options, exact, parameters,
 * labels, function, address) */
static PyObject *
kernel_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    PyObject *parameters, *labels, *function, *name, *address;
    struct context_object *context;
    ferry_kernel_source source = {0};
    struct kernel_object *self;
    ferry_kernel_code codes[CODES_MAX];
    struct given_codes given = {0};
    ferry_status status;

    (void)names;
    if (!ferrypy_parse(arguments, "O!Uzz#O!zO!pO!O!OO:Kernel", ferrypy_context_type,
                       (PyObject **)&context, &name, &given.cuda, &given.image, &given.image_bytes,
                       &PyList_Type, &given.cuda_options, &given.opencl, &PyList_Type,
                       &given.opencl_options, &given.exact, &PyList_Type, &parameters, &PyList_Type,
                       &labels, &function, &address))
        return NULL;
    if (PyList_Size(labels) != PyList_Size(parameters))
        return PyErr_Format(PyExc_TypeError, "a label is missing");
    self = (struct kernel_object *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    self->context = (struct context_object *)Py_NewRef((PyObject *)context);
    self->name = Py_NewRef(name);
    self->labels = Py_NewRef(labels);
    self->streams = PySet_New(NULL);
    if (!self->streams || !read_parameters(self, parameters))
        goto fail;
    if (function != Py_None || address != Py_None) {
        self->host = ferrypy_host_function_create(function, address, self->parameters,
                                                  self->parameter_count);
        if (!self->host)
            goto fail;
        source.host_function = self->host->run;
        source.user = self->host;
    }
    source.name = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!source.name || !list_all_options(&given))
        goto fail;
    source.codes = codes;
    source.code_count = describe_codes(codes, &given);
    source.parameters = self->parameters;
    source.parameter_count = self->parameter_count;
    FERRYPY_BLOCKING(status, ferry_kernel_create(context->context, &source, &self->kernel));
    if (status != FERRY_OK) {
        self->kernel = NULL;
        ferrypy_fail(status);
        goto fail;
    }
    PyMem_Free(given.cuda_list);
    PyMem_Free(given.opencl_list);
    return (PyObject *)self;
fail:
    PyMem_Free(given.cuda_list);
    PyMem_Free(given.opencl_list);
    Py_DECREF((PyObject *)self);
    return NULL;
}

/* -- launches ---------------------------------------------------------------------------------- */

/* Returns the name of a parameter, borrowed. */
static PyObject *
label(struct kernel_object *self, size_t index)
{
    return PyList_GetItem(self->labels, (Py_ssize_t)index);
}

bool
ferrypy_kernel_value(struct kernel_object *self, PyObject *value, size_t index, ferry_argument *out,
                     PyObject **bytes)
{
    const ferry_element *element = self->parameters[index].element;
    struct ferrypy_owner *owner;
    Py_buffer *view;

    if (element == ferry_size_element()) {
        size_t size = PyLong_AsSize_t(value);
        *out = ferry_size_value(size);
        return size != (size_t)-1 || !PyErr_Occurred();
    }
    if (element->kind == FERRY_KIND_FLOAT && element->bits >= 32 && PyFloat_Check(value)) {
        double number = PyFloat_AsDouble(value);
        float narrow = (float)number;
        *out = ferry_element_value(element, element->bits == 32 ? (const void *)&narrow
                                                                : (const void *)&number);
        return true;
    }
    /* Python code turned everything else into bytes of the element. */
    owner = ferrypy_owner_create(value, PyBUF_SIMPLE);
    if (!owner)
        return false;
    view = ferrypy_owner_buffer(owner);
    if ((size_t)view->len != element->bytes) {
        ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE,
                          "launch kernel \"%U\": %U has %zd bytes, but %s has %zu", self->name,
                          label(self, index), view->len, element->name, element->bytes);
        ferrypy_owner_destroy(owner);
        return false;
    }
    *bytes = PyBytes_FromStringAndSize(view->buf, view->len);
    ferrypy_owner_destroy(owner);
    if (!*bytes)
        return false;
    *out = element->kind == FERRY_KIND_STRUCT
               ? ferry_struct_value(PyBytes_AsString(*bytes), element->bytes, element->align)
               : ferry_element_value(element, PyBytes_AsString(*bytes));
    out->element = element;
    return true;
}

/* Raises an error about one argument of a launch, which it names; false. */
static bool
refuse(struct kernel_object *self, size_t index, ferry_status status, const char *format, ...)
{
    PyObject *text;
    va_list arguments;

    va_start(arguments, format);
    text = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    if (text)
        ferrypy_fail_with(status, "launch kernel \"%U\": %U %U", self->name, label(self, index),
                          text);
    Py_XDECREF(text);
    return false;
}

bool
ferrypy_kernel_array(struct kernel_object *self, PyObject *value, size_t index, ferry_argument *out)
{
    const ferry_parameter *parameter = &self->parameters[index];
    struct array_object *array = (struct array_object *)value;

    if (!PyObject_TypeCheck(value, ferrypy_array_type))
        return refuse(self, index, FERRY_ERROR_WRONG_TYPE, "must be a ferry.Array, not %R", value);
    if (!ferrypy_array_check(array))
        return false;
    if (array->context != self->context)
        return refuse(self, index, FERRY_ERROR_WRONG_CONTEXT,
                      "is an array of %R, but the kernel is of %R", (PyObject *)array->context,
                      (PyObject *)self->context);
    if (!ferry_element_equal(parameter->element, array->element->element))
        return refuse(self, index, FERRY_ERROR_WRONG_TYPE, "holds %s, but the parameter is of %s",
                      array->element->element->name, parameter->element->name);
    *out = ferry_buffer_argument(ferry_buffer_retain(array->buffer), array->element->element, 0,
                                 FERRY_REST);
    return true;
}

static bool
read_argument(struct kernel_object *self, PyObject *value, size_t index, ferry_argument *out,
              PyObject **bytes)
{
    if (!self->parameters[index].access)
        return ferrypy_kernel_value(self, value, index, out, bytes);
    if (!ferrypy_kernel_array(self, value, index, out))
        return false;
    if (!ferrypy_array_is_c((struct array_object *)value)) {
        FERRYPY_RELEASE(ferrypy_arguments_release(out, 1));
        return refuse(self, index, FERRY_ERROR_UNSUPPORTED, "is not in C order");
    }
    return true;
}

void
ferrypy_arguments_release(ferry_argument *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ferry_buffer_destroy(&list[i].buffer);
}

/* _launch(stream, (blocks x, y, z, threads x, y, z, shared bytes, flags, cluster x, y, z),
 * arguments) */
static PyObject *
kernel_launch(PyObject *object, PyObject *arguments)
{
    struct kernel_object *self = (struct kernel_object *)object;
    struct stream_object *stream;
    ferry_argument *list;
    PyObject **bytes, *values, *result = NULL;
    ferry_grid grid = {0};
    ferry_status status;
    size_t count, done = 0;
    Py_ssize_t sizes[11];

    if (!ferrypy_parse(arguments, "O!(nnnnnnnnnnn)O!:_launch", ferrypy_stream_type,
                       (PyObject **)&stream, &sizes[0], &sizes[1], &sizes[2], &sizes[3], &sizes[4],
                       &sizes[5], &sizes[6], &sizes[7], &sizes[8], &sizes[9], &sizes[10],
                       &PyTuple_Type, &values))
        return NULL;
    for (int i = 0; i < 11; i++) {
        if (sizes[i] < 0 || sizes[i] > UINT32_MAX)
            return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT, "the grid has the size %zd",
                                     sizes[i]);
    }
    for (int i = 0; i < 3; i++) {
        grid.blocks[i] = (uint32_t)sizes[i];
        grid.threads[i] = (uint32_t)sizes[i + 3];
        grid.cluster[i] = (uint32_t)sizes[i + 8];
    }
    grid.shared_bytes = (uint32_t)sizes[6];
    grid.flags = (uint32_t)sizes[7];
    count = (size_t)PyTuple_Size(values);
    if (stream->context != self->context)
        return ferrypy_fail_with(
            FERRY_ERROR_WRONG_CONTEXT,
            "launch kernel \"%U\": the stream is of %R, but the kernel is of %R", self->name,
            (PyObject *)stream->context, (PyObject *)self->context);
    if (count != self->parameter_count)
        return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                                 "kernel \"%U\" has %zu parameters, not %zu", self->name,
                                 self->parameter_count, count);
    ferrypy_run_deferred();
    list = PyMem_Calloc(count + 1, sizeof(*list));
    bytes = PyMem_Calloc(count + 1, sizeof(PyObject *));
    if (!list || !bytes) {
        PyErr_NoMemory();
        goto end;
    }
    for (done = 0; done < count; done++) {
        if (!read_argument(self, PyTuple_GetItem(values, (Py_ssize_t)done), done, &list[done],
                           &bytes[done]))
            goto end;
    }
    if (!ferrypy_kernel_note(self, stream, stream->stream))
        goto end;
    FERRYPY_BLOCKING(status, ferry_kernel_launch(self->kernel, grid, stream->stream, list, count));
    result = status == FERRY_OK ? Py_NewRef(Py_None) : ferrypy_fail(status);
end:
    FERRYPY_RELEASE(ferrypy_arguments_release(list, done));
    for (size_t i = 0; bytes && i < count; i++)
        Py_XDECREF(bytes[i]);
    PyMem_Free(bytes);
    PyMem_Free(list);
    return result;
}

static PyObject *
kernel_wait(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(wait_for_launches((struct kernel_object *)object));
}

static PyObject *
get_name(PyObject *object, void *unused)
{
    (void)unused;
    return Py_NewRef(((struct kernel_object *)object)->name);
}

static PyMethodDef methods[] = {
    {"_launch", kernel_launch, METH_VARARGS, NULL},
    {"_wait", kernel_wait, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef members[] = {
    {"name", get_name, NULL, "Entry point.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_new, kernel_new},
    {Py_tp_dealloc, kernel_dealloc},
    {Py_tp_traverse, kernel_traverse},
    {Py_tp_clear, kernel_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, members},
    {0, NULL},
};
static PyType_Spec spec = {
    .name = "ferry._ferry.Kernel",
    .basicsize = sizeof(struct kernel_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int
ferrypy_kernel_init(PyObject *module)
{
    ferrypy_kernel_type = ferrypy_type_add(module, &spec, NULL);
    return ferrypy_kernel_type ? 0 : -1;
}
