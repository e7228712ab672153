/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/kernel/kernel.h"

/* Maximum number of parameters for which checking a kernel's code allocates no memory. */
#define FEW_PARAMETERS 32

/* Returns the size in bytes that a kernel parameter must have in compiled code. Returns 0 if every
 * size is accepted. */
static size_t
bytes_of(const ferry_parameter *parameter)
{
    if (parameter->access != 0)
        return sizeof(void *);
    return parameter->element ? parameter->element->bytes : 0;
}

/* Describes a kernel parameter for a message, for example as "an array of float". Returns the text
 * that precedes the element type's name, and sets `*out_element` to this name. */
static const char *
describe(const ferry_parameter *parameter, const char **out_element)
{
    const char *name = parameter->element ? parameter->element->name : NULL;
    *out_element = name ? name : "a struct without an element";
    return parameter->access != 0 ? "an array of " : "";
}

/* Compares the declared parameters of a kernel with the `count` parameters that the driver
 * reported. The caller asks the driver for at most one parameter more than are declared. */
static ferry_status
compare(const ferry_kernel *kernel, const size_t *bytes, size_t count)
{
    const size_t declared = kernel->parameter_count;
    const char *element;
    for (size_t i = 0; i < declared; i++) {
        const char *form = describe(&kernel->parameters[i], &element);
        size_t expected = bytes_of(&kernel->parameters[i]);
        if (i == count)
            return ferryi_fail(
                FERRY_ERROR_INVALID_ARGUMENT,
                "parameter %zu, %s%s, is not in the code, which takes %zu; %zu are declared", i,
                form, element, count, declared);
        if (expected != 0 && bytes[i] != expected)
            return ferryi_fail(FERRY_ERROR_WRONG_TYPE,
                               "parameter %zu is %s%s, %zu bytes, but the code takes %zu bytes", i,
                               form, element, expected, bytes[i]);
    }
    if (count > declared)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "parameter %zu of the code, %zu bytes, is not declared; %zu are",
                           declared, bytes[declared], declared);
    return FERRY_OK;
}

ferry_status
ferryi_kernel_check_code(const ferry_kernel *kernel, ferryi_device *device, void *function)
{
    size_t few[FEW_PARAMETERS + 1], count, most = kernel->parameter_count + 1;
    size_t *bytes = most <= FEW_PARAMETERS + 1 ? few : calloc(most, sizeof(*bytes));
    if (!bytes)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for the sizes of %zu parameters",
                           kernel->parameter_count);
    ferry_status status = FERRYI_CALL(device, code_parameters, function, most, bytes, &count);
    if (status == FERRY_OK)
        status = compare(kernel, bytes, count);
    else if (status == FERRY_ERROR_UNSUPPORTED)
        status = FERRY_OK;
    if (bytes != few)
        free(bytes);
    return status;
}
