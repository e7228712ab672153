/* SPDX-License-Identifier: MIT */
#include "launcher.h"

#include <string.h>

/* The indices of a launch: their number from the arrays or from the call, or cells of a box. */

static bool
same_extents(const struct array_object *a, const struct array_object *b, size_t from, size_t count)
{
    return memcmp(a->extents + from, b->extents + from, count * sizeof(*a->extents)) == 0;
}

/* Returns the number of elements of an array. */
static size_t
size_of(const struct array_object *array)
{
    size_t count = 1;
    for (int i = 0; i < array->rank; i++)
        count *= (size_t)array->extents[i];
    return count;
}

/* Checks that an array has the shape and the order of the first one, which it may be. */
static bool
check_shape(struct launcher_object *self, struct ferrypy_launch *launch,
            const struct ferrypy_slot *slot, struct array_object *array, PyObject *first_name)
{
    const struct array_object *first = launch->as;
    const size_t rank = (size_t)array->rank;

    if (array->rank != first->rank || !same_extents(array, first, 0, rank)) {
        ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT, "%U: %U has the shape %R, but %U has %R",
                          self->name, slot->name, array->shape, first_name, first->shape);
        return false;
    }
    if (!same_extents(array, first, rank, rank)) {
        ferrypy_fail_with(FERRY_ERROR_UNSUPPORTED,
                          "%U: the order of the dimensions of %U differs from that of %U",
                          self->name, slot->name, first_name);
        return false;
    }
    return true;
}

/* Checks one array of a call. `*first_name` is that of the array whose shape the others must have.
 */
static bool
check_array(struct launcher_object *self, struct ferrypy_launch *launch,
            const struct ferrypy_slot *slot, PyObject *value, PyObject **first_name)
{
    struct array_object *array = (struct array_object *)value;

    if (!PyObject_TypeCheck(value, ferrypy_array_type)) {
        ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "%U: %U must be a ferry.Array", self->name,
                          slot->name);
        return false;
    }
    if (!ferrypy_array_check(array))
        return false;
    if (slot->one && size_of(array) == 0) {
        ferrypy_fail_with(FERRY_ERROR_OUT_OF_RANGE, "%U: %U has no element", self->name,
                          slot->name);
        return false;
    }
    if (!slot->counts)
        return true;
    if (launch->has_count) {
        if (size_of(array) >= launch->count)
            return true;
        ferrypy_fail_with(FERRY_ERROR_OUT_OF_RANGE, "%U: %U has %zu elements, and the count is %zu",
                          self->name, slot->name, size_of(array), launch->count);
        return false;
    }
    if (!launch->as) {
        launch->as = array;
        *first_name = slot->name;
        return true;
    }
    return check_shape(self, launch, slot, array, *first_name);
}

/* Sets the sizes of the dimensions to those of the arrays, or to those that the call gives. */
static bool
find_sizes(struct launcher_object *self, struct ferrypy_launch *launch)
{
    int64_t given[FERRYPY_RANK_MAX];
    const int64_t *extents = launch->as ? launch->as->extents : given;
    int rank = launch->as ? launch->as->rank : 0;

    if (launch->as && launch->shape) {
        ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                          "%U: shape= is for a kernel whose arrays have no shape of its dimensions",
                          self->name);
        return false;
    }
    if (!launch->as && !launch->shape) {
        ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                          "%U: a call needs shape=, because no array has one of its dimensions",
                          self->name);
        return false;
    }
    if (!launch->as &&
        (!PyTuple_Check(launch->shape) || ferrypy_shape_read(launch->shape, 1, given, &rank) < 0)) {
        if (!PyErr_Occurred())
            ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "%U: a shape is a tuple of integers, not %R",
                              self->name, launch->shape);
        return false;
    }
    if (rank != self->dimensions) {
        ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT, "%U has %d dimensions, but %R has %d",
                          self->name, self->dimensions,
                          launch->as ? launch->as->shape : launch->shape, rank);
        return false;
    }
    if (launch->as && !ferrypy_array_is_c(launch->as)) {
        ferrypy_fail_with(FERRY_ERROR_UNSUPPORTED,
                          "%U has dimensions, and its arrays are not in C order", self->name);
        return false;
    }
    for (int i = 0; i < 3; i++)
        launch->sizes[i] = i < 3 - rank ? 1 : (size_t)extents[i - (3 - rank)];
    return true;
}

bool
ferrypy_launch_measure(struct launcher_object *self, PyObject *arguments,
                       struct ferrypy_launch *launch)
{
    const size_t given = (size_t)PyTuple_Size(arguments);
    PyObject *first_name = NULL;

    if (self->has_count != launch->has_count) {
        ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT, "%U: %s", self->name,
                          self->has_count ? "a call needs count=, the number of elements"
                                          : "count= is for kernels that were made with count=True");
        return false;
    }
    for (size_t i = 0; i < given && i < self->slot_count; i++) {
        if (self->slots[i].access &&
            !check_array(self, launch, &self->slots[i], PyTuple_GetItem(arguments, (Py_ssize_t)i),
                         &first_name))
            return false;
    }
    if (self->dimensions)
        return find_sizes(self, launch);
    if (launch->box || launch->shape) {
        ferrypy_fail_with(
            FERRY_ERROR_INVALID_ARGUMENT,
            "%U: box= and shape= are for kernels that were made with dimensions=", self->name);
        return false;
    }
    if (!launch->has_count && !launch->as) {
        ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT, "%U needs an array", self->name);
        return false;
    }
    if (!launch->has_count)
        launch->count = size_of(launch->as);
    return true;
}

/* -- cells ------------------------------------------------------------------------------------- */

/* Reads one end of a slice; a negative number counts from the end. */
static bool
read_end(struct launcher_object *self, PyObject *slice, const char *which, size_t size,
         size_t otherwise, size_t *out)
{
    PyObject *value = PyObject_GetAttrString(slice, which);
    Py_ssize_t number;

    if (!value)
        return false;
    if (value == Py_None) {
        Py_DECREF(value);
        *out = otherwise;
        return true;
    }
    number = PyNumber_AsSsize_t(value, PyExc_OverflowError);
    Py_DECREF(value);
    if (number == -1 && PyErr_Occurred())
        return false;
    *out = number < 0 ? (size_t)number + size : (size_t)number;
    if (number >= 0 || *out < size)
        return true;
    ferrypy_fail_with(FERRY_ERROR_OUT_OF_RANGE,
                      "%U: the box has the index %zd, but its dimension has the size %zu",
                      self->name, number, size);
    return false;
}

/* Reads one dimension of a box, which is a slice. */
static bool
read_slice(struct launcher_object *self, PyObject *slice, size_t size, size_t *first, size_t *count)
{
    const size_t inner = self->reach > 0 && self->edges == FERRY_EDGES_NONE ? self->reach : 0;
    PyObject *step = NULL;
    size_t end;
    bool is_slice = PyObject_TypeCheck(slice, &PySlice_Type), is_plain;

    if (is_slice && !(step = PyObject_GetAttrString(slice, "step")))
        return false;
    is_plain = step == Py_None;
    Py_XDECREF(step);
    if (!is_slice || !is_plain) {
        ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE,
                          "%U: a box is a tuple of slices without a step, not of %R", self->name,
                          slice);
        return false;
    }
    if (!read_end(self, slice, "start", size, inner, first) ||
        !read_end(self, slice, "stop", size, FERRY_REST, &end))
        return false;
    *count = end == FERRY_REST ? FERRY_REST : end < *first ? 0 : end - *first;
    return true;
}

static bool
read_box(struct launcher_object *self, struct ferrypy_launch *launch, ferry_box *out)
{
    const int rank = self->dimensions, missing = 3 - rank;

    *out = (ferry_box){{0, 0, 0}, {1, 1, 1}};
    if (!PyTuple_Check(launch->box) || PyTuple_Size(launch->box) != rank) {
        ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "%U: a box is a tuple of %d slices, not %R",
                          self->name, rank, launch->box);
        return false;
    }
    for (int i = 0; i < rank; i++) {
        if (!read_slice(self, PyTuple_GetItem(launch->box, i), launch->sizes[missing + i],
                        &out->first[missing + i], &out->count[missing + i])) {
            ferrypy_refused("box: ");
            return false;
        }
    }
    return true;
}

bool
ferrypy_launch_find_cells(struct launcher_object *self, struct ferrypy_launch *launch)
{
    const size_t reach[3] = {self->dimensions == 3 ? self->reach : 0, self->reach, self->reach};
    ferry_status status;
    ferry_box box;

    if (launch->box && !read_box(self, launch, &box))
        return false;
    status = ferry_kernel_cells(launch->variant->first->kernel, launch->box ? &box : NULL,
                                launch->sizes, reach, self->edges, &launch->cells);
    if (status != FERRY_OK) {
        ferrypy_fail(status);
        return false;
    }
    launch->count = launch->cells.count;
    return true;
}
