/* SPDX-License-Identifier: MIT */
#include "binding.h"

/*
 * The layout of memory that a Python object exports. The buffer protocol lets an exporter leave out
 * the shape of one dimension and the strides of C order, even when a consumer asks for them, as
 * ctypes does. So the members of a Py_buffer are read here alone.
 */

static bool
refuse(const char *why)
{
    ferrypy_fail_with(FERRY_ERROR_UNSUPPORTED, "memory of a buffer: %s", why);
    return false;
}

/* Returns the size of a dimension, also when the exporter leaves the shape out. */
static int64_t
size_of(const Py_buffer *view, int dimension)
{
    return view->shape ? view->shape[dimension] : view->len / view->itemsize;
}

/* Raises an exception and returns false for a layout that contradicts itself. */
static bool
check_layout(const Py_buffer *view, size_t element_bytes)
{
    Py_ssize_t bytes = view->itemsize;

    if (view->ndim < 0 || view->ndim > FERRYPY_RANK_MAX || view->itemsize <= 0 ||
        (size_t)view->itemsize != element_bytes) {
        ferrypy_fail_with(FERRY_ERROR_WRONG_TYPE, "items of %zd bytes do not fit the element",
                          view->itemsize);
        return false;
    }
    if (!view->shape && view->ndim > 1)
        return refuse("it has several dimensions and no shape");
    for (int i = 0; view->suboffsets && i < view->ndim; i++) {
        if (view->suboffsets[i] >= 0)
            return refuse("its rows are reached through pointers");
    }
    for (int i = 0; i < view->ndim; i++) {
        if (size_of(view, i) < 0 || __builtin_mul_overflow(bytes, size_of(view, i), &bytes))
            return refuse("its shape is invalid");
    }
    return bytes == view->len ? true : refuse("its shape contradicts its length");
}

bool
ferrypy_memory_read(const Py_buffer *view, size_t element_bytes, int64_t shape[FERRYPY_RANK_MAX],
                    bool *out_packed, int64_t strides[FERRYPY_RANK_MAX])
{
    int64_t next = 1;

    if (!check_layout(view, element_bytes))
        return false;
    *out_packed = true;
    for (int i = view->ndim - 1; i >= 0; i--) {
        shape[i] = size_of(view, i);
        strides[i] = view->strides ? view->strides[i] / view->itemsize : next;
        if (view->strides && view->strides[i] % view->itemsize && shape[i] != 1)
            *out_packed = false;
        next *= shape[i];
    }
    if (next != 0)
        *out_packed = *out_packed && ferrypy_memory_is_packed(view->ndim, shape, strides);
    else
        *out_packed = true;
    return true;
}

bool
ferrypy_memory_is_packed(int rank, const int64_t *shape, const int64_t *strides)
{
    int64_t next = 1, count = 1;

    for (int i = 0; i < rank; i++)
        count *= shape[i];
    /* Each round finds the dimension whose neighbours lie one block of the faster ones apart. */
    while (next < count) {
        int found = 0;
        while (found < rank && (shape[found] == 1 || strides[found] != next))
            found++;
        if (found == rank)
            return false;
        next *= shape[found];
    }
    return true;
}
