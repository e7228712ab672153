/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

#include "exchange_abi.h"

/* -- exports ----------------------------------------------------------------------------------- */

/* A capsule that no consumer took gives its tensor back. A consumer renames the capsule. */
static void
end_capsule(PyObject *capsule)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        struct DLManagedTensorVersioned *tensor =
            PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (tensor->deleter)
            FERRYPY_RELEASE(tensor->deleter(tensor));
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        struct DLManagedTensor *tensor = PyCapsule_GetPointer(capsule, "dltensor");
        if (tensor->deleter)
            FERRYPY_RELEASE(tensor->deleter(tensor));
    }
    PyErr_Restore(type, value, traceback);
}

static PyObject *
export_versioned(ferry_lease *lease, struct array_object *array, const ferry_layout *layout,
                 uint64_t flags)
{
    struct DLManagedTensorVersioned *tensor;
    ferry_status status = ferry_lease_export_dlpack(lease, layout, &tensor);
    PyObject *capsule;

    if (status != FERRY_OK)
        return ferrypy_fail(status);
    tensor->flags |= flags;
    capsule = ferrypy_lend_versioned(tensor, array)
                  ? PyCapsule_New(tensor, "dltensor_versioned", end_capsule)
                  : NULL;
    if (!capsule)
        tensor->deleter(tensor);
    return capsule;
}

static PyObject *
export_legacy(ferry_lease *lease, struct array_object *array, const ferry_layout *layout)
{
    struct DLManagedTensor *tensor;
    ferry_status status = ferry_lease_export_dlpack_legacy(lease, layout, &tensor);
    PyObject *capsule;

    if (status != FERRY_OK)
        return ferrypy_fail(status);
    capsule =
        ferrypy_lend_legacy(tensor, array) ? PyCapsule_New(tensor, "dltensor", end_capsule) : NULL;
    if (!capsule)
        tensor->deleter(tensor);
    return capsule;
}

/* export_dlpack(access, legacy, flags): a capsule */
static PyObject *
access_dlpack(PyObject *module, PyObject *arguments)
{
    struct access_object *access;
    struct array_object *array;
    unsigned long long flags;
    ferry_layout layout;
    int legacy;

    (void)module;
    if (!ferrypy_parse(arguments, "O!pK:export_dlpack", ferrypy_access_type, (PyObject **)&access,
                       &legacy, &flags))
        return NULL;
    if (legacy && access->access == FERRY_READ) {
        PyErr_SetString(PyExc_BufferError, "a read access needs a consumer of DLPack 1.0, because "
                                           "older tensors have no read-only flag: "
                                           "lend an update access instead");
        return NULL;
    }
    array = access->array;
    if (!ferrypy_array_check(array) || ferrypy_access_open(access) < 0)
        return NULL;
    layout = (ferry_layout){
        .rank = array->rank, .shape = array->extents, .strides = array->extents + array->rank};
    return legacy ? export_legacy(access->lease, array, &layout)
                  : export_versioned(access->lease, array, &layout, flags);
}

/* open_for_export(array, mode, place, stream): an access of a consumer that uses the native stream.
 * With -1 the stream is not known, with 1 it is the default stream.
 */
static PyObject *
open_for_export(PyObject *module, PyObject *arguments)
{
    struct access_object *access;
    struct array_object *array;
    PyObject *stream;
    void *native;
    int mode, place;

    (void)module;
    if (!ferrypy_parse(arguments, "O!iiO:open_for_export", ferrypy_array_type, (PyObject **)&array,
                       &mode, &place, &stream) ||
        !ferrypy_array_check(array))
        return NULL;
    native = PyLong_AsVoidPtr(stream);
    if (!native && PyErr_Occurred())
        return NULL;
    access = ferrypy_access_object(array, (ferry_access)mode, place, NULL, true);
    if (!access)
        return NULL;
    access->unordered = native != (void *)1;
    access->native = native == (void *)-1 ? NULL : native;
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

/* -- imports ----------------------------------------------------------------------------------- */

/* The tensor of a capsule: one of two kinds. */
struct taken {
    struct DLManagedTensorVersioned *versioned;
    struct DLManagedTensor *old;
    const struct dlpack_tensor *tensor;
};

static bool
read_capsule(PyObject *capsule, struct taken *out)
{
    *out = (struct taken){0};
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        out->versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (out->versioned->major != 1) {
            ferrypy_fail_with(FERRY_ERROR_UNSUPPORTED, "from_dlpack: a tensor of DLPack %u",
                              out->versioned->major);
            return false;
        }
        out->tensor = &out->versioned->tensor;
        return true;
    }
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        out->old = PyCapsule_GetPointer(capsule, "dltensor");
        out->tensor = &out->old->tensor;
        return true;
    }
    ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                      "from_dlpack: not a DLPack capsule, or one that was consumed");
    return false;
}

/* The capsule gives its tensor away, so that no other thread takes it too while this one waits. */
static PyCapsule_Destructor
consume_capsule(PyObject *capsule, const struct taken *taken)
{
    PyCapsule_Destructor deleter = PyCapsule_GetDestructor(capsule);

    PyCapsule_SetName(capsule, taken->versioned ? "used_dltensor_versioned" : "used_dltensor");
    PyCapsule_SetDestructor(capsule, NULL);
    return deleter;
}

/* The capsule gets the tensor of a refused import back. */
static void
refill_capsule(PyObject *capsule, const struct taken *taken, PyCapsule_Destructor deleter)
{
    PyCapsule_SetName(capsule, taken->versioned ? "dltensor_versioned" : "dltensor");
    PyCapsule_SetDestructor(capsule, deleter);
}

static void
delete_tensor(const struct taken *taken)
{
    if (taken->versioned && taken->versioned->deleter)
        taken->versioned->deleter(taken->versioned);
    else if (taken->old && taken->old->deleter)
        taken->old->deleter(taken->old);
}

/* Copies the elements of a tensor of the host to packed memory in C order; returns the end of what
 * was written. */
static char *
gather(char *out, const char *from, const struct dlpack_tensor *tensor, int dimension, size_t bytes)
{
    if (dimension == tensor->rank) {
        memcpy(out, from, bytes);
        return out + bytes;
    }
    if (!tensor->strides) {
        for (; dimension < tensor->rank; dimension++)
            bytes *= (size_t)tensor->shape[dimension];
        memcpy(out, from, bytes);
        return out + bytes;
    }
    for (int64_t i = 0; i < tensor->shape[dimension]; i++)
        out = gather(out, from + i * tensor->strides[dimension] * (int64_t)bytes, tensor,
                     dimension + 1, bytes);
    return out;
}

static const ferry_element *
element_of(const struct dlpack_tensor *tensor)
{
    static const ferry_kind kinds[] = {FERRY_KIND_INT, FERRY_KIND_UINT,   FERRY_KIND_FLOAT,
                                       (ferry_kind)0,  FERRY_KIND_BFLOAT, FERRY_KIND_COMPLEX,
                                       FERRY_KIND_BOOL};
    if (tensor->code >= sizeof(kinds) / sizeof(kinds[0]) || tensor->timelines != 1 ||
        kinds[tensor->code] == 0)
        return NULL;
    return ferry_element_scalar(kinds[tensor->code], tensor->bits);
}

/* Returns the element of memory of the host, which can be copied where it cannot be wrapped; NULL
 * for other tensors. */
static const ferry_element *
element_to_copy(const struct dlpack_tensor *tensor)
{
    /* The memory of the host, also as it is page-locked for CUDA and for HIP. */
    bool host = tensor->device_type == 1 || tensor->device_type == 3 || tensor->device_type == 11;
    bool shaped = tensor->rank >= 0 && tensor->rank <= FERRYPY_RANK_MAX &&
                  (tensor->shape || tensor->rank == 0);
    return host && shaped ? element_of(tensor) : NULL;
}

/* True for memory that a CPU cannot read in place as this element. Only a copy can be used. */
static bool
is_unaligned(const struct dlpack_tensor *tensor)
{
    const ferry_element *element = element_to_copy(tensor);
    return element && ((uintptr_t)tensor->data + tensor->byte_offset) % element->align != 0;
}

/* True when the distances of all elements from the first one fit into 63 bits. */
static bool
has_addresses(const struct dlpack_tensor *tensor, size_t bytes)
{
    int64_t step, sum = 0;

    for (int i = 0; tensor->strides && i < tensor->rank; i++) {
        if (__builtin_mul_overflow(tensor->strides[i], (int64_t)bytes, &step) ||
            __builtin_mul_overflow(step, tensor->shape[i] - 1, &step) ||
            __builtin_add_overflow(sum, step < 0 ? -(uint64_t)step : (uint64_t)step, &sum)) {
            ferrypy_fail_with(FERRY_ERROR_OVERFLOW,
                              "from_dlpack: the strides reach further than memory");
            return false;
        }
    }
    return true;
}

/* Returns the number of elements; false with an exception set for sizes that no tensor has. */
static bool
count_elements(const struct dlpack_tensor *tensor, size_t bytes, size_t *out)
{
    size_t count = 1, total;

    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] < 0) {
            ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                              "from_dlpack: dimension %d has a negative size", i);
            return false;
        }
        if (__builtin_mul_overflow(count, (size_t)tensor->shape[i], &count) ||
            __builtin_mul_overflow(count, bytes, &total)) {
            ferrypy_fail_with(FERRY_ERROR_OVERFLOW, "from_dlpack: too many elements");
            return false;
        }
    }
    *out = count;
    return true;
}

/* Returns an array over `buffer`, which it takes. NULL strides: packed. */
static PyObject *
array_of(PyTypeObject *type, struct context_object *context, ferry_buffer *buffer,
         const struct dlpack_tensor *tensor, const int64_t *strides)
{
    PyObject *element = ferrypy_element_object(ferry_buffer_element(buffer)), *made;

    if (!element) {
        FERRYPY_RELEASE(ferry_buffer_destroy(&buffer));
        return NULL;
    }
    made =
        ferrypy_array_object(type, context, element, buffer, tensor->rank, tensor->shape, strides);
    Py_DECREF(element);
    return made;
}

static void
free_packed(void *memory, void *user)
{
    (void)user;
    free(memory);
}

/* Leaves the tensor to the caller. A read-only copy wraps separate memory, because other arrays can
 * be written. */
static PyObject *
import_copy(PyTypeObject *type, struct context_object *context, const struct dlpack_tensor *tensor,
            const ferry_element *element, bool read_only)
{
    ferry_wrap_options options = {.read_only = true, .on_release = free_packed};
    ferry_buffer *buffer;
    ferry_status status;
    uintptr_t first;
    size_t count;
    char *packed;

    if (!element)
        return ferrypy_fail_with(FERRY_ERROR_UNSUPPORTED,
                                 "from_dlpack: a tensor that cannot be copied");
    if (!count_elements(tensor, element->bytes, &count))
        return NULL;
    if (count && !tensor->data)
        return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                                 "from_dlpack: a tensor without an address");
    if (__builtin_add_overflow((uintptr_t)tensor->data, tensor->byte_offset, &first))
        return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                                 "from_dlpack: a tensor at address %p plus %llu", tensor->data,
                                 (unsigned long long)tensor->byte_offset);
    if (count && !has_addresses(tensor, element->bytes))
        return NULL;
    packed = malloc(count ? count * element->bytes : 1);
    if (!packed)
        return ferrypy_fail_with(FERRY_ERROR_OUT_OF_MEMORY,
                                 "from_dlpack: no memory for a copy of %zu bytes",
                                 count * element->bytes);
    if (count)
        gather(packed, (const char *)first, tensor, 0, element->bytes);
    if (read_only) {
        FERRYPY_BLOCKING(status, ferry_buffer_wrap_host(context->context, element, count, packed,
                                                        &options, &buffer));
        if (status != FERRY_OK)
            free(packed);
    } else {
        FERRYPY_BLOCKING(status, ferry_buffer_create_from(context->context, element, count, packed,
                                                          NULL, &buffer));
        free(packed);
    }
    return status == FERRY_OK ? array_of(type, context, buffer, tensor, NULL)
                              : ferrypy_fail(status);
}

/* Copies a tensor, and ends it if that succeeds. */
static PyObject *
take_copy(PyTypeObject *type, struct context_object *context, const struct taken *taken,
          bool read_only, bool *out_kept)
{
    PyObject *made =
        import_copy(type, context, taken->tensor, element_to_copy(taken->tensor), read_only);

    *out_kept = made != NULL;
    if (made)
        delete_tensor(taken);
    return made;
}

/* Makes an array of a tensor. `*out_kept` is false if the tensor remains the caller's. */
static PyObject *
take_tensor(PyTypeObject *type, struct context_object *context, const struct taken *taken,
            bool read_only, int copy, bool *out_kept)
{
    ferry_import_options options = {.read_only = read_only};
    ferry_buffer *buffer;
    ferry_status status;

    *out_kept = false;
    if ((copy && is_unaligned(taken->tensor)) || (copy == 2 && element_to_copy(taken->tensor)))
        return take_copy(type, context, taken, read_only, out_kept);
    if (taken->versioned ? !ferrypy_take_versioned(taken->versioned)
                         : !ferrypy_take_legacy(taken->old))
        return NULL;
    FERRYPY_BLOCKING(
        status,
        taken->versioned
            ? ferry_buffer_import_dlpack(context->context, taken->versioned, &options, &buffer)
            : ferry_buffer_import_dlpack_legacy(context->context, taken->old, &options, &buffer));
    if (status == FERRY_OK) {
        /* The buffer owns the tensor, which stays readable until the buffer's last use. */
        *out_kept = true;
        return ferrypy_array_lent(
            array_of(type, context, buffer, taken->tensor, taken->tensor->strides));
    }
    if (taken->versioned)
        ferrypy_untake_versioned(taken->versioned);
    else
        ferrypy_untake_legacy(taken->old);
    if (status == FERRY_ERROR_UNSUPPORTED && copy && element_to_copy(taken->tensor))
        return take_copy(type, context, taken, read_only, out_kept);
    return ferrypy_fail(status);
}

/* import_dlpack(array type, context, capsule, read_only, copy): copy 0 never, 1 where it must be, 2
 * always for memory of the host */
static PyObject *
import_dlpack(PyObject *module, PyObject *arguments)
{
    struct context_object *context;
    PyCapsule_Destructor deleter;
    PyObject *capsule, *made;
    struct taken taken;
    PyTypeObject *type;
    int read_only, copy;
    bool kept;

    (void)module;
    if (!ferrypy_parse(arguments, "O!O!Opi:import_dlpack", &PyType_Type, (PyObject **)&type,
                       ferrypy_context_type, (PyObject **)&context, &capsule, &read_only, &copy))
        return NULL;
    if (!PyType_IsSubtype(type, ferrypy_array_type))
        return PyErr_Format(PyExc_TypeError, "import_dlpack needs a type of arrays");
    ferrypy_run_deferred();
    if (!read_capsule(capsule, &taken))
        return NULL;
    deleter = consume_capsule(capsule, &taken);
    made = take_tensor(type, context, &taken, read_only != 0, copy, &kept);
    if (!kept)
        refill_capsule(capsule, &taken, deleter);
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
