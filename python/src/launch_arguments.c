/* SPDX-License-Identifier: MIT */
#include "launcher.h"

/* What a call of Python passes to a kernel, as arguments of the library. */

/* Reads an integer that fits its element. False, without an exception, for all other values. */
static bool
read_integer(const ferry_element *element, PyObject *value, ferry_argument *out)
{
    const bool is_signed = element->kind == FERRY_KIND_INT;
    long long number;
    int overflow;

    if ((!is_signed && element->kind != FERRY_KIND_UINT) || !PyLong_CheckExact(value))
        return false;
    number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow)
        return false;
    if (element->bits < 64) {
        const long long end = 1LL << (is_signed ? element->bits - 1 : element->bits);
        if (number >= end || number < (is_signed ? -end : 0))
            return false;
    } else if (!is_signed && number < 0) {
        return false;
    }
    *out = ferry_element_value(element, &number); /* little-endian */
    return true;
}

static bool
read_value(struct kernel_object *kernel, PyObject *value, size_t index, ferry_argument *out,
           PyObject **bytes)
{
    const ferry_element *element = kernel->parameters[index].element;
    PyObject *packed;
    bool done;

    if (read_integer(element, value, out))
        return true;
    if (element->kind == FERRY_KIND_FLOAT && element->bits >= 32 && PyFloat_CheckExact(value))
        return ferrypy_kernel_value(kernel, value, index, out, bytes);
    packed = PyObject_CallMethod((PyObject *)kernel, "_value", "nO", (Py_ssize_t)index, value);
    done = packed && ferrypy_kernel_value(kernel, packed, index, out, bytes);
    Py_XDECREF(packed);
    return done;
}

/* Cuts an argument to the elements that the cells use. */
static void
use_cells(const struct launcher_object *self, const ferry_cells *cells,
          const struct ferrypy_slot *slot, ferry_argument *argument)
{
    const bool reads_around = self->form == FERRYPY_STENCIL && slot->access == FERRY_READ;

    *argument = ferry_buffer_argument(argument->buffer, argument->element,
                                      reads_around ? cells->read_begin : cells->begin,
                                      reads_around ? cells->read_elements : cells->elements);
    if (slot->access == FERRY_OVERWRITE)
        *argument = ferry_argument_with(*argument, cells->overwritten);
}

static bool
read_parameter(struct launcher_object *self, struct ferrypy_launch *launch, PyObject *value,
               size_t index)
{
    const struct ferrypy_slot *slot = &self->slots[index];
    ferry_argument *argument = &launch->arguments[index];
    PyObject *bytes = NULL;

    if (!slot->access) {
        if (!read_value(launch->variant->first, value, index, argument, &bytes))
            return false;
        if (bytes)
            launch->bytes[launch->bytes_count++] = bytes;
        return true;
    }
    if (!ferrypy_kernel_array(launch->variant->first, value, index, argument))
        return false;
    launch->buffers[launch->buffer_count++] = argument->buffer;
    if (slot->one)
        *argument = ferry_buffer_argument(argument->buffer, argument->element, 0, 1);
    else if (slot->counts && self->dimensions)
        use_cells(self, &launch->cells, slot, argument);
    else if (slot->counts)
        *argument = ferry_buffer_argument(argument->buffer, argument->element, 0, launch->count);
    return true;
}

/* Reads an array for a result into argument `index`, which is parameter `parameter` of `kernel`. */
static bool
read_result(struct launcher_object *self, struct ferrypy_launch *launch, PyObject *value,
            PyObject *label, size_t index)
{
    const bool is_fused = self->form == FERRYPY_FUSED;
    struct kernel_object *kernel = is_fused ? launch->variant->first : launch->variant->second;
    ferry_argument *argument = &launch->arguments[index];

    if (!PyObject_TypeCheck(value, ferrypy_array_type)) {
        ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "%U: %U must be a ferry.Array", self->name,
                          label);
        return false;
    }
    if (!ferrypy_kernel_array(kernel, value, is_fused ? index : 1, argument))
        return false;
    launch->buffers[launch->buffer_count++] = argument->buffer;
    if (ferry_buffer_count(argument->buffer) == 0) {
        ferrypy_fail_with(FERRY_ERROR_OUT_OF_RANGE, "%U: %U has no element for the result",
                          self->name, label);
        return false;
    }
    *argument = ferry_buffer_argument(argument->buffer, argument->element, 0, 1);
    return true;
}

/* Reads `out` of a call: an array, or a dictionary of them by the names of the results. */
static bool
read_out(struct launcher_object *self, struct ferrypy_launch *launch)
{
    const Py_ssize_t results = PyTuple_Size(self->results);
    PyObject *label;
    bool done = true;

    if (self->form == FERRYPY_REDUCTION) {
        label = PyUnicode_FromString("out");
        done = label && read_result(self, launch, launch->out, label, self->slot_count);
        Py_XDECREF(label);
        return done;
    }
    if (!PyDict_Check(launch->out) || PyDict_Size(launch->out) != results)
        done = false;
    for (Py_ssize_t i = 0; done && i < results; i++)
        done = PyDict_GetItemWithError(launch->out, PyTuple_GetItem(self->results, i));
    if (!done) {
        if (!PyErr_Occurred() && (label = PyUnicode_FromString(", "))) {
            PyObject *names = PyUnicode_Join(label, self->results);
            if (names)
                ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                                  "%U: out needs an array for each of %U", self->name, names);
            Py_XDECREF(names);
            Py_DECREF(label);
        }
        return false;
    }
    for (Py_ssize_t i = 0; done && i < results; i++) {
        PyObject *name = PyTuple_GetItem(self->results, i);
        label = PyUnicode_FromFormat("out[%R]", name);
        done = label && read_result(self, launch, PyDict_GetItem(launch->out, name), label,
                                    self->slot_count + 1 + (size_t)i);
        Py_XDECREF(label);
    }
    return done;
}

/* Adds the sizes after the other arguments. */
static void
add_sizes(struct launcher_object *self, struct ferrypy_launch *launch, size_t at)
{
    if (!self->dimensions)
        launch->arguments[at++] = ferry_size_value(launch->count);
    for (int i = 3 - self->dimensions; self->dimensions && i < 3; i++)
        launch->arguments[at++] = ferry_size_value(launch->sizes[i]);
    for (int i = 3 - self->dimensions; self->dimensions && i < 3; i++) {
        launch->arguments[at++] = ferry_size_value(launch->cells.box.first[i]);
        launch->arguments[at++] = ferry_size_value(launch->cells.box.count[i]);
    }
    for (size_t i = 0; i < launch->variant->counted_count; i++) {
        ferry_buffer *whole = launch->arguments[launch->variant->counted[i]].buffer;
        launch->arguments[at++] = ferry_size_value(ferry_buffer_count(whole));
    }
    launch->argument_count = at;
}

bool
ferrypy_launch_read(struct launcher_object *self, struct ferrypy_launch *launch,
                    PyObject *arguments)
{
    size_t more = self->form == FERRYPY_REDUCTION ? 1 : 0; /* before the sizes */

    if (self->form == FERRYPY_FUSED)
        more = 1 + (size_t)PyTuple_Size(self->results);
    for (size_t i = 0; i < self->slot_count; i++) {
        if (!read_parameter(self, launch, PyTuple_GetItem(arguments, (Py_ssize_t)i), i))
            return false;
    }
    if (launch->out && !read_out(self, launch))
        return false;
    add_sizes(self, launch, self->slot_count + more);
    return true;
}

void
ferrypy_launch_release(struct ferrypy_launch *launch)
{
    Py_BEGIN_ALLOW_THREADS for (size_t i = 0; i < launch->buffer_count; i++)
        ferry_buffer_destroy(&launch->buffers[i]);
    Py_END_ALLOW_THREADS for (size_t i = 0; i < launch->bytes_count; i++)
        Py_DECREF(launch->bytes[i]);
}
