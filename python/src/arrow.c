/* SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdlib.h>

#include "exchange_abi.h"

/* Capsules of Arrow own structs that stay behind when a consumer moves their content out: `release`
 * is NULL then. */
static void
end_schema(PyObject *capsule)
{
    struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");

    if (schema && schema->release)
        FERRYPY_RELEASE(schema->release(schema));
    free(schema);
}

static void
end_device_array(PyObject *capsule)
{
    struct ArrowDeviceArray *array = PyCapsule_GetPointer(capsule, "arrow_device_array");

    if (array && array->array.release)
        FERRYPY_RELEASE(array->array.release(&array->array));
    free(array);
}

static void
end_array(PyObject *capsule)
{
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");

    if (array && array->release)
        FERRYPY_RELEASE(array->release(array));
    free(array);
}

/* export_arrow(access, device): capsules of the schema and of the array, or of the device array */
static PyObject *
export_arrow(PyObject *module, PyObject *arguments)
{
    struct ArrowDeviceArray *array = calloc(1, sizeof(*array)); /* starts with an ArrowArray */
    struct ArrowSchema *schema = calloc(1, sizeof(*schema));
    PyObject *schema_capsule = NULL, *array_capsule = NULL;
    struct access_object *access;
    ferry_lease *lease;
    ferry_status status;
    int device;

    (void)module;
    if (!array || !schema) {
        PyErr_NoMemory();
        goto fail;
    }
    if (!ferrypy_parse(arguments, "O!p:export_arrow", ferrypy_access_type, (PyObject **)&access,
                       &device))
        goto fail;
    if (access->array->rank != 1) {
        ferrypy_fail_with(FERRY_ERROR_UNSUPPORTED,
                          "Arrow arrays have one dimension: reshape this one of %d",
                          access->array->rank);
        goto fail;
    }
    if (!ferrypy_array_check(access->array) || ferrypy_access_open(access) < 0)
        goto fail;
    lease = ferry_lease_retain(access->lease); /* another thread may end the access */
    FERRYPY_BLOCKING(status, ferry_lease_export_arrow(lease, array, schema));
    FERRYPY_RELEASE(ferry_lease_destroy(&lease));
    if (status != FERRY_OK) {
        ferrypy_fail(status);
        goto fail;
    }
    if (!ferrypy_lend_arrow(&array->array, access->array)) {
        schema->release(schema);
        array->array.release(&array->array);
        goto fail;
    }
    schema_capsule = PyCapsule_New(schema, "arrow_schema", end_schema);
    if (!schema_capsule) {
        schema->release(schema);
        array->array.release(&array->array);
        goto fail;
    }
    schema = NULL;
    array_capsule = device ? PyCapsule_New(array, "arrow_device_array", end_device_array)
                           : PyCapsule_New(&array->array, "arrow_array", end_array);
    if (!array_capsule) {
        array->array.release(&array->array);
        goto fail;
    }
    return Py_BuildValue("(NN)", schema_capsule, array_capsule);
fail:
    Py_XDECREF(schema_capsule);
    free(schema);
    free(array);
    return NULL;
}

/* import_arrow(array type, context, schema capsule, array capsule): takes the array out of its
 * capsule */
static PyObject *
import_arrow(PyObject *module, PyObject *arguments)
{
    PyObject *schema_capsule, *array_capsule, *element, *made;
    struct ArrowDeviceArray local = {.device_type = 1, .device_id = -1};
    struct ArrowArray *moved;
    struct ArrowSchema *schema;
    struct context_object *context;
    ferry_buffer *buffer;
    ferry_status status;
    PyTypeObject *type;
    int64_t count;

    (void)module;
    if (!ferrypy_parse(arguments, "O!O!OO:import_arrow", &PyType_Type, (PyObject **)&type,
                       ferrypy_context_type, (PyObject **)&context, &schema_capsule,
                       &array_capsule))
        return NULL;
    if (!PyType_IsSubtype(type, ferrypy_array_type))
        return PyErr_Format(PyExc_TypeError, "import_arrow needs a type of arrays");
    if (!PyCapsule_IsValid(schema_capsule, "arrow_schema"))
        return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                                 "from_arrow: not a capsule of an Arrow schema");
    schema = PyCapsule_GetPointer(schema_capsule, "arrow_schema");
    if (PyCapsule_IsValid(array_capsule, "arrow_device_array")) {
        struct ArrowDeviceArray *given = PyCapsule_GetPointer(array_capsule, "arrow_device_array");
        local = *given;
        moved = &given->array;
    } else if (PyCapsule_IsValid(array_capsule, "arrow_array")) {
        moved = PyCapsule_GetPointer(array_capsule, "arrow_array");
        local.array = *moved;
    } else {
        return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                                 "from_arrow: not a capsule of an Arrow array");
    }
    if (!moved->release)
        return ferrypy_fail_with(FERRY_ERROR_INVALID_ARGUMENT,
                                 "from_arrow: the array was consumed");
    if (!ferrypy_take_arrow(&local.array))
        return NULL;
    /* No other thread takes the array out of its capsule while this one waits. */
    moved->release = NULL;
    FERRYPY_BLOCKING(status,
                     ferry_buffer_import_arrow(context->context, &local, schema, NULL, &buffer));
    if (status != FERRY_OK) {
        ferrypy_untake_arrow(&local.array);
        *moved = local.array;
        return ferrypy_fail(status);
    }
    element = ferrypy_element_object(ferry_buffer_element(buffer));
    if (!element) {
        ferry_buffer_destroy(&buffer);
        return NULL;
    }
    count = (int64_t)ferry_buffer_count(buffer);
    made =
        ferrypy_array_lent(ferrypy_array_object(type, context, element, buffer, 1, &count, NULL));
    Py_DECREF(element);
    return made;
}

static PyMethodDef functions[] = {
    {"export_arrow", export_arrow, METH_VARARGS, NULL},
    {"import_arrow", import_arrow, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int
ferrypy_arrow_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
