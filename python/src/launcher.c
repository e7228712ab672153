/* SPDX-License-Identifier: MIT */
#include "launcher.h"

#include <string.h>

static void
free_variant(struct ferrypy_variant *variant)
{
    if (!variant)
        return;
    Py_XDECREF((PyObject *)variant->first);
    Py_XDECREF((PyObject *)variant->second);
    PyMem_Free(variant->elements);
    PyMem_Free(variant);
}

static int
launcher_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct launcher_object *self = (struct launcher_object *)object;

    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)self->context);
    for (size_t i = 0; i < self->variant_count; i++) {
        Py_VISIT((PyObject *)self->variants[i]->first);
        Py_VISIT((PyObject *)self->variants[i]->second);
    }
    return 0;
}

static int
launcher_clear(PyObject *object)
{
    struct launcher_object *self = (struct launcher_object *)object;
    struct ferrypy_variant **variants = self->variants;
    const size_t count = self->variant_count;

    self->variants = NULL;
    self->variant_count = 0;
    for (size_t i = 0; i < count; i++)
        free_variant(variants[i]);
    PyMem_Free(variants);
    return 0;
}

static void
launcher_dealloc(PyObject *object)
{
    struct launcher_object *self = (struct launcher_object *)object;

    PyObject_GC_UnTrack(object);
    launcher_clear(object);
    for (size_t i = 0; i < self->slot_count; i++)
        Py_XDECREF(self->slots[i].name);
    PyMem_Free(self->slots);
    Py_XDECREF(self->name);
    Py_XDECREF(self->results);
    Py_XDECREF((PyObject *)self->context);
    ferrypy_free(object);
}

/* Reads the parameters: a list of (access, whether its size counts, whether it is a value in an
 * array, letter or -1, name). */
static bool
read_slots(struct launcher_object *self, PyObject *list)
{
    self->slots = PyMem_Calloc((size_t)PyList_Size(list) + 1, sizeof(*self->slots));
    if (!self->slots) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        struct ferrypy_slot *slot = &self->slots[i];
        int access, counts, one;
        if (!ferrypy_parse(PyList_GetItem(list, i), "ippiU", &access, &counts, &one,
                           &slot->variable, &slot->name))
            return false;
        slot->access = (ferry_access)access;
        slot->counts = counts;
        slot->one = one;
        Py_INCREF(slot->name);
        self->slot_count++;
        if (slot->variable >= self->variables)
            self->variables = slot->variable + 1;
    }
    return true;
}

/* Launcher(context, name, form, dimensions, reach, edges, has_count, parameters, results) */
static PyObject *
launcher_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    PyObject *name, *slots, *results;
    struct context_object *context;
    int form, dimensions, reach, edges, has_count;
    struct launcher_object *self;

    (void)names;
    if (!ferrypy_parse(arguments, "O!UiiiipO!O!:Launcher", ferrypy_context_type,
                       (PyObject **)&context, &name, &form, &dimensions, &reach, &edges, &has_count,
                       &PyList_Type, &slots, &PyTuple_Type, &results))
        return NULL;
    self = (struct launcher_object *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    self->context = (struct context_object *)Py_NewRef((PyObject *)context);
    self->name = Py_NewRef(name);
    self->results = Py_NewRef(results);
    self->form = (enum ferrypy_form)form;
    self->dimensions = dimensions;
    self->reach = (size_t)reach;
    self->edges = (ferry_edges)edges;
    self->has_count = has_count;
    if (read_slots(self, slots))
        return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

/* -- variants ---------------------------------------------------------------------------------- */

/* Sets what a variant has beside its kernels. */
static bool
describe_variant(const struct launcher_object *self, struct ferrypy_variant *variant,
                 PyObject *results, PyObject *counted)
{
    const size_t most = variant->first->parameter_count;

    if (most > FERRYPY_ARGUMENTS_MAX || most < self->slot_count) {
        ferrypy_fail_with(FERRY_ERROR_UNSUPPORTED, "%U: a kernel has at most %d parameters",
                          self->name, FERRYPY_ARGUMENTS_MAX);
        return false;
    }
    variant->elements = PyMem_Calloc(self->slot_count + 1, sizeof(ferry_element *));
    if (!variant->elements) {
        PyErr_NoMemory();
        return false;
    }
    for (size_t i = 0; i < self->slot_count; i++) {
        if (self->slots[i].variable >= 0)
            variant->elements[i] = variant->first->parameters[i].element;
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(results); i++)
        variant->results[i] = ((struct element_object *)PyTuple_GetItem(results, i))->element;
    for (Py_ssize_t i = 0; i < PyTuple_Size(counted); i++)
        variant->counted[i] = PyLong_AsSize_t(PyTuple_GetItem(counted, i));
    variant->counted_count = (size_t)PyTuple_Size(counted);
    return !PyErr_Occurred();
}

/* _add(first kernel, second kernel or None, elements of results, counted parameters): returns the
 * number of the variant. */
static PyObject *
launcher_add(PyObject *object, PyObject *arguments)
{
    struct launcher_object *self = (struct launcher_object *)object;
    struct ferrypy_variant *variant, **grown;
    PyObject *first, *second, *results, *counted;

    if (!ferrypy_parse(arguments, "O!OO!O!:_add", ferrypy_kernel_type, &first, &second,
                       &PyTuple_Type, &results, &PyTuple_Type, &counted))
        return NULL;
    variant = PyMem_Calloc(1, sizeof(*variant));
    if (!variant)
        return PyErr_NoMemory();
    variant->first = (struct kernel_object *)Py_NewRef(first);
    if (second != Py_None)
        variant->second = (struct kernel_object *)Py_NewRef(second);
    if (!describe_variant(self, variant, results, counted)) {
        free_variant(variant);
        return NULL;
    }
    grown = PyMem_Realloc(self->variants, (self->variant_count + 1) * sizeof(*grown));
    if (!grown) {
        free_variant(variant);
        return PyErr_NoMemory();
    }
    self->variants = grown;
    grown[self->variant_count++] = variant;
    return PyLong_FromSize_t(self->variant_count - 1);
}

/* Returns whether a variant is for the arrays of a call, which must name each type. */
static bool
fits(const struct launcher_object *self, const struct ferrypy_variant *variant, PyObject *arguments)
{
    const size_t given = (size_t)PyTuple_Size(arguments);
    uint32_t named = 0;

    for (size_t i = 0; i < given && i < self->slot_count; i++) {
        const struct ferrypy_slot *slot = &self->slots[i];
        struct array_object *array;
        if (slot->variable < 0 || !slot->access)
            continue;
        array = (struct array_object *)PyTuple_GetItem(arguments, (Py_ssize_t)i);
        if (!ferry_element_equal(variant->elements[i], array->element->element))
            return false;
        named |= UINT32_C(1) << slot->variable;
    }
    return named == (UINT32_C(1) << self->variables) - 1;
}

/* Finds the variant of a call; Python code makes it at the first one. Its number goes to `*out`. */
static bool
find_variant(struct launcher_object *self, PyObject *arguments, size_t *out)
{
    PyObject *made;

    for (*out = 0; *out < self->variant_count; ++*out) {
        if (fits(self, self->variants[*out], arguments))
            return true;
    }
    made = PyObject_CallMethod((PyObject *)self, "_variant", "(O)", arguments);
    *out = made ? PyLong_AsSize_t(made) : 0;
    Py_XDECREF(made);
    return made && !PyErr_Occurred() && *out < self->variant_count;
}

/* -- calls ------------------------------------------------------------------------------------- */

static bool
is_named(PyObject *key, const char *name)
{
    return PyUnicode_CompareWithASCIIString(key, name) == 0;
}

static bool
read_count(struct launcher_object *self, struct ferrypy_launch *launch, PyObject *value)
{
    Py_ssize_t count = PyNumber_AsSsize_t(value, PyExc_OverflowError);

    if (count == -1 && PyErr_Occurred()) {
        ferrypy_refused("count: ");
        return false;
    }
    if (count < 0) {
        ferrypy_fail_with(FERRY_ERROR_OVERFLOW, "%U: %zd is no count", self->name, count);
        return false;
    }
    launch->count = (size_t)count;
    launch->has_count = true;
    return true;
}

/* Reads the arguments of a call that have names. None is an argument that is not there. */
static bool
read_named(struct launcher_object *self, struct ferrypy_launch *launch, PyObject *named)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    while (named && PyDict_Next(named, &at, &key, &value)) {
        PyObject *const given = value == Py_None ? NULL : value;
        const bool has_out = self->form >= FERRYPY_REDUCTION;
        if (is_named(key, "stream"))
            launch->stream_given = given;
        else if (is_named(key, "box"))
            launch->box = given;
        else if (is_named(key, "shape"))
            launch->shape = given;
        else if (has_out && is_named(key, "out"))
            launch->out = given;
        else if (!is_named(key, "count")) {
            PyErr_Format(PyExc_TypeError, "%U() got an unexpected keyword argument %R", self->name,
                         key);
            return false;
        } else if (given && !read_count(self, launch, given))
            return false;
    }
    return true;
}

/* Finds the stream, and notes it for the kernels. */
static bool
find_stream(struct launcher_object *self, struct ferrypy_launch *launch)
{
    struct stream_object *object = (struct stream_object *)launch->stream_given;
    const struct ferrypy_variant *variant = launch->variant;

    if (object && !PyObject_TypeCheck((PyObject *)object, ferrypy_stream_type)) {
        ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE,
                          "launch kernel \"%U\": stream is a ferry.Stream or None, not %R",
                          self->name, (PyObject *)object);
        return false;
    }
    if (object && object->context != self->context) {
        ferrypy_fail_with(FERRY_ERROR_WRONG_CONTEXT,
                          "launch kernel \"%U\": the stream is of %R, but the kernel is of %R",
                          self->name, (PyObject *)object->context, (PyObject *)self->context);
        return false;
    }
    launch->stream = object ? object->stream : ferrypy_default_stream(self->context, 1);
    return launch->stream && ferrypy_kernel_note(variant->first, object, launch->stream) &&
           (!variant->second || ferrypy_kernel_note(variant->second, object, launch->stream));
}

/* Returns all arguments of a call; arrays at the end that are overwritten may be left out. A new
 * reference. */
static PyObject *
filled(struct launcher_object *self, const struct ferrypy_launch *launch, PyObject *arguments,
       size_t variant)
{
    const size_t given = (size_t)PyTuple_Size(arguments);
    bool complete = given == self->slot_count, allowed = given < self->slot_count;
    PyObject *like = Py_None;

    if (complete)
        return Py_NewRef(arguments);
    for (size_t i = given; allowed && i < self->slot_count; i++)
        allowed = self->slots[i].access == FERRY_OVERWRITE && self->slots[i].counts;
    if (!allowed)
        return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT, "%U has %zu parameters, not %zu",
                                 self->name, self->slot_count, given);
    if (launch->as)
        like = (PyObject *)launch->as;
    else if (launch->shape)
        like = launch->shape;
    return PyObject_CallMethod((PyObject *)self, "_filled", "OnnO", arguments, (Py_ssize_t)variant,
                               (Py_ssize_t)launch->count, like);
}

/* Returns the number that a word holds. */
static PyObject *
number_of(const ferry_element *element, const uint64_t *word)
{
    const unsigned unused = 64 - element->bits;
    float narrow;
    double wide;

    if (element->kind == FERRY_KIND_INT)
        return PyLong_FromLongLong((int64_t)(*word << unused) >> unused);
    if (element->kind == FERRY_KIND_UINT)
        return PyLong_FromUnsignedLongLong(*word << unused >> unused);
    memcpy(&narrow, word, sizeof(narrow));
    memcpy(&wide, word, sizeof(wide));
    return PyFloat_FromDouble(element->bits == 32 ? (double)narrow : wide);
}

/* Returns the arrays that a map has overwritten: None, one, or a tuple. */
static PyObject *
overwritten(const struct launcher_object *self, PyObject *arguments)
{
    PyObject *found = PyList_New(0), *result = NULL;

    for (size_t i = 0; found && i < self->slot_count; i++) {
        if (self->slots[i].access == FERRY_OVERWRITE &&
            PyList_Append(found, PyTuple_GetItem(arguments, (Py_ssize_t)i)) < 0)
            Py_CLEAR(found);
    }
    if (found && PyList_Size(found) < 2)
        result = Py_NewRef(PyList_Size(found) ? PyList_GetItem(found, 0) : Py_None);
    else if (found)
        result = PyList_AsTuple(found);
    Py_XDECREF(found);
    return result;
}

static PyObject *
results_of(const struct launcher_object *self, const struct ferrypy_launch *launch,
           PyObject *arguments)
{
    PyObject *found, *number;

    if (self->form < FERRYPY_REDUCTION)
        return overwritten(self, arguments);
    if (launch->out)
        return Py_NewRef(launch->out);
    if (self->form == FERRYPY_REDUCTION)
        return number_of(launch->variant->results[0], launch->words);
    found = PyDict_New();
    for (Py_ssize_t i = 0; found && i < PyTuple_Size(self->results); i++) {
        number = number_of(launch->variant->results[i], &launch->words[i]);
        if (!number || PyDict_SetItem(found, PyTuple_GetItem(self->results, i), number) < 0)
            Py_CLEAR(found);
        Py_XDECREF(number);
    }
    return found;
}

/* Launches with all arguments. */
static PyObject *
launch_all(struct launcher_object *self, struct ferrypy_launch *launch, PyObject *arguments)
{
    PyObject *result = NULL;
    ferry_status status;

    if ((!self->dimensions || ferrypy_launch_find_cells(self, launch)) &&
        ferrypy_launch_read(self, launch, arguments) && find_stream(self, launch)) {
        FERRYPY_BLOCKING(status, ferrypy_launch_run(self, launch));
        result = status == FERRY_OK ? results_of(self, launch, arguments) : ferrypy_fail(status);
    }
    ferrypy_launch_release(launch);
    return result;
}

static PyObject *
launcher_call(PyObject *object, PyObject *arguments, PyObject *named)
{
    struct launcher_object *self = (struct launcher_object *)object;
    struct ferrypy_launch launch;
    PyObject *all, *result;
    size_t variant;

    memset(&launch, 0, offsetof(struct ferrypy_launch, arguments));
    if (!read_named(self, &launch, named) || !ferrypy_launch_measure(self, arguments, &launch) ||
        !find_variant(self, arguments, &variant))
        return NULL;
    ferrypy_run_deferred();
    all = filled(self, &launch, arguments, variant);
    if (!all)
        return NULL;
    launch.variant = self->variants[variant];
    result = launch_all(self, &launch, all);
    Py_DECREF(all);
    return result;
}

static PyObject *
get_name(PyObject *object, void *unused)
{
    (void)unused;
    return Py_NewRef(((struct launcher_object *)object)->name);
}

static PyObject *
get_context(PyObject *object, void *unused)
{
    (void)unused;
    return Py_NewRef((PyObject *)((struct launcher_object *)object)->context);
}

static PyMethodDef methods[] = {
    {"_add", launcher_add, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef members[] = {
    {"name", get_name, NULL, "Name of the kernel.", NULL},
    {"context", get_context, NULL, "Context of the kernel.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_new, launcher_new},
    {Py_tp_dealloc, launcher_dealloc},
    {Py_tp_traverse, launcher_traverse},
    {Py_tp_clear, launcher_clear},
    {Py_tp_call, launcher_call},
    {Py_tp_methods, methods},
    {Py_tp_getset, members},
    {0, NULL},
};
static PyType_Spec spec = {
    .name = "ferry._ferry.Launcher",
    .basicsize = sizeof(struct launcher_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int
ferrypy_launcher_init(PyObject *module)
{
    return ferrypy_type_add(module, &spec, NULL) ? 0 : -1;
}
