/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

#include "exchange_abi.h"

/* -- exports --------------------------------------------------------------------------------------- */

/* A capsule that no consumer took gives its tensor back. A consumer renames the capsule. */
static void
end_capsule(PyObject *capsule)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        struct DLManagedTensorVersioned *tensor = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (tensor->deleter)
            tensor->deleter(tensor);
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        struct DLManagedTensor *tensor = PyCapsule_GetPointer(capsule, "dltensor");
        if (tensor->deleter)
            tensor->deleter(tensor);
    }
    PyErr_Restore(type, value, traceback);
}

static PyObject *
export_capsule(struct access_object *access, bool legacy, uint64_t flags)
{
    struct array_object *array = access->array;
    struct DLManagedTensorVersioned *tensor = NULL;
    struct DLManagedTensor *old = NULL;
    ferry_layout layout = {.rank = array->rank, .shape = array->extents, .strides = array->extents + array->rank};
    ferry_status status;
    PyObject *capsule;

    if (legacy && access->access == FERRY_READ) {
        PyErr_SetString(PyExc_BufferError, "a read access needs a consumer of DLPack 1.0, because older tensors have no read-only flag: "
                                           "lend an update access instead");
        return NULL;
    }
    if (ferrypy_access_open(access) < 0)
        return NULL;
    status = legacy ? ferry_lease_export_dlpack_legacy(access->lease, &layout, &old)
                    : ferry_lease_export_dlpack(access->lease, &layout, &tensor);
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    if (tensor)
        tensor->flags |= flags;
    capsule = legacy ? PyCapsule_New(old, "dltensor", end_capsule) : PyCapsule_New(tensor, "dltensor_versioned", end_capsule);
    if (!capsule && legacy)
        old->deleter(old);
    else if (!capsule)
        tensor->deleter(tensor);
    return capsule;
}

/* _dlpack(legacy, flags) of Access */
static PyObject *
access_dlpack(PyObject *module, PyObject *arguments)
{
    struct access_object *access;
    unsigned long long flags;
    int legacy;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!pK:export_dlpack", ferrypy_access_type, (PyObject **)&access, &legacy, &flags))
        return NULL;
    return export_capsule(access, legacy != 0, flags);
}

/* open_for_export(array, mode, place, ordered): an access without a stream when it is not ordered */
static PyObject *
open_for_export(PyObject *module, PyObject *arguments)
{
    struct access_object *access;
    struct array_object *array;
    int mode, place, ordered;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!iip:open_for_export", ferrypy_array_type, (PyObject **)&array, &mode, &place, &ordered) ||
        !ferrypy_array_check(array))
        return NULL;
    access = ferrypy_access_object(array, (ferry_access)mode, place, NULL, true);
    if (!access)
        return NULL;
    access->unordered = !ordered;
    if (ferrypy_access_open(access) < 0)
        Py_CLEAR(access);
    return (PyObject *)access;
}

/* newest_place(array): the device that alone has the newest bytes, else 0 */
static PyObject *
newest_place(PyObject *module, PyObject *object)
{
    struct array_object *array = (struct array_object *)object;
    int places, found = FERRY_PLACE_HOST;

    (void)module;
    if (!PyObject_TypeCheck(object, ferrypy_array_type))
        return PyErr_Format(PyExc_TypeError, "not an array");
    if (!ferrypy_array_check(array))
        return NULL;
    places = ferry_context_place_count(array->context->context);
    if (!ferry_buffer_is_current(array->buffer, FERRY_PLACE_HOST)) {
        for (int place = places; place > 0; place--)
            found = ferry_buffer_is_current(array->buffer, place) ? place : found;
    }
    return PyLong_FromLong(found);
}

/* -- imports --------------------------------------------------------------------------------------- */

/* Copies the elements of a strided tensor of the host to packed memory; returns the end of what was written. */
static char *
gather(char *out, const char *from, const struct dlpack_tensor *tensor, int dimension, size_t bytes)
{
    if (dimension == tensor->rank) {
        memcpy(out, from, bytes);
        return out + bytes;
    }
    for (int64_t i = 0; i < tensor->shape[dimension]; i++)
        out = gather(out, from + i * tensor->strides[dimension] * (int64_t)bytes, tensor, dimension + 1, bytes);
    return out;
}

static const ferry_element *
element_of(const struct dlpack_tensor *tensor)
{
    static const ferry_kind kinds[] = {FERRY_KIND_INT, FERRY_KIND_UINT, FERRY_KIND_FLOAT, (ferry_kind)0,
                                       FERRY_KIND_BFLOAT, FERRY_KIND_COMPLEX, FERRY_KIND_BOOL};
    if (tensor->code >= sizeof(kinds) / sizeof(kinds[0]) || tensor->lanes != 1 || kinds[tensor->code] == 0)
        return NULL;
    return ferry_element_scalar(kinds[tensor->code], tensor->bits);
}

/* Copies what cannot be wrapped: memory of the host whose elements are not packed. Leaves the tensor to the caller. */
static PyObject *
import_copy(PyTypeObject *type, struct context_object *context, const struct dlpack_tensor *tensor)
{
    const ferry_element *element = element_of(tensor);
    PyObject *object, *made = NULL;
    ferry_buffer *buffer;
    ferry_status status;
    size_t count = 1;
    char *packed;

    if (!element || !tensor->strides || (tensor->device_type != 1 && tensor->device_type != 3))
        return ferrypy_fail_with(FERRY_ERROR_UNSUPPORTED, "from_dlpack: a tensor of device type %d with elements of code %d and "
                                 "%d bits that is not packed cannot be copied", (int)tensor->device_type, tensor->code, tensor->bits);
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] < 0)
            return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT, "from_dlpack: dimension %d has a negative size", i);
        if (__builtin_mul_overflow(count, (size_t)tensor->shape[i], &count))
            return ferrypy_fail_with(FERRY_ERROR_OVERFLOW, "from_dlpack: too many elements");
    }
    if (count > SIZE_MAX / element->bytes)
        return ferrypy_fail_with(FERRY_ERROR_OVERFLOW, "from_dlpack: too many elements");
    packed = PyMem_Malloc(count ? count * element->bytes : 1);
    if (!packed)
        return PyErr_NoMemory();
    if (count)
        gather(packed, (const char *)tensor->data + tensor->byte_offset, tensor, 0, element->bytes);
    FERRYPY_BLOCKING(status, ferry_buffer_create_from(context->context, element, packed, count, NULL, &buffer));
    PyMem_Free(packed);
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    object = ferrypy_element_object(element);
    if (object)
        made = ferrypy_array_object(type, context, object, buffer, tensor->rank, tensor->shape, NULL);
    else
        ferry_buffer_destroy(&buffer);
    Py_XDECREF(object);
    return made;
}

/* _import_dlpack(array type, context, capsule, read_only, may_copy) */
static PyObject *
import_dlpack(PyObject *module, PyObject *arguments)
{
    struct DLManagedTensorVersioned *versioned = NULL;
    struct DLManagedTensor *old = NULL;
    struct context_object *context;
    const struct dlpack_tensor *tensor;
    ferry_import_options options = {0};
    int64_t extents[FERRYPY_RANK_MAX * 2], next = 1;
    PyObject *capsule, *element, *made;
    ferry_buffer *buffer;
    ferry_status status;
    PyTypeObject *type;
    int read_only, may_copy, rank;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!O!Opp:import_dlpack", &PyType_Type, (PyObject **)&type, ferrypy_context_type,
                          (PyObject **)&context, &capsule, &read_only, &may_copy))
        return NULL;
    if (!PyType_IsSubtype(type, ferrypy_array_type))
        return PyErr_Format(PyExc_TypeError, "import_dlpack needs a type of arrays");
    ferrypy_run_deferred();
    if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    else if (PyCapsule_IsValid(capsule, "dltensor"))
        old = PyCapsule_GetPointer(capsule, "dltensor");
    else
        return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT, "from_dlpack: not a DLPack capsule, or one that was consumed");
    if (versioned && versioned->major != 1)
        return ferrypy_fail_with(FERRY_ERROR_UNSUPPORTED, "from_dlpack: a tensor of DLPack %u", versioned->major);
    tensor = versioned ? &versioned->tensor : &old->tensor;
    rank = tensor->rank;
    options.read_only = read_only != 0;
    FERRYPY_BLOCKING(status, versioned ? ferry_buffer_import_dlpack(context->context, versioned, &options, &buffer)
                                       : ferry_buffer_import_dlpack_legacy(context->context, old, &options, &buffer));
    if (status == FERRY_ERROR_UNSUPPORTED && may_copy && rank >= 0 && rank <= FERRYPY_RANK_MAX && tensor->shape && tensor->strides) {
        made = import_copy(type, context, tensor);
        if (!made)
            return NULL; /* the capsule still owns the tensor */
        PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
        PyCapsule_SetDestructor(capsule, NULL);
        if (versioned && versioned->deleter)
            versioned->deleter(versioned);
        else if (old && old->deleter)
            old->deleter(old);
        return made;
    }
    if (status != FERRY_OK)
        return ferrypy_fail(status);
    /* The buffer owns the tensor, which stays readable until the buffer's last use. */
    PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
    PyCapsule_SetDestructor(capsule, NULL);
    for (int i = rank - 1; i >= 0; i--) {
        extents[i] = tensor->shape[i];
        extents[rank + i] = tensor->strides ? tensor->strides[i] : next;
        next *= extents[i] ? extents[i] : 1;
    }
    element = ferrypy_element_object(ferry_buffer_element(buffer));
    if (!element) {
        ferry_buffer_destroy(&buffer);
        return NULL;
    }
    made = ferrypy_array_object(type, context, element, buffer, rank, extents, extents + rank);
    Py_DECREF(element);
    return made;
}

static PyMethodDef functions[] = {
    {"export_dlpack", access_dlpack, METH_VARARGS, NULL},
    {"open_for_export", open_for_export, METH_VARARGS, NULL},
    {"newest_place", newest_place, METH_O, NULL},
    {"import_dlpack", import_dlpack, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int
ferrypy_dlpack_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
