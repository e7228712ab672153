/* SPDX-License-Identifier: MIT */
#include <stdio.h>
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

void
ferryi_parameter_name(const ferry_parameter *parameter, char out[FERRYI_PARAMETER_NAME_BYTES])
{
    out[0] = 0;
    if (parameter->name)
        snprintf(out, FERRYI_PARAMETER_NAME_BYTES, " \"%.*s\"", FERRYI_PARAMETER_NAME_BYTES - 4,
                 parameter->name);
}

/* Compares the `declared` parameters of a kernel with the `count` parameters of its code, of which
 * the caller asks for at most one more than are declared. Accepts a size of 0, which is unknown. */
static ferry_status
compare(const ferry_parameter *parameters, size_t declared, const size_t *bytes, size_t count)
{
    const char *element;
    char name[FERRYI_PARAMETER_NAME_BYTES];
    for (size_t i = 0; i < declared; i++) {
        const char *form = describe(&parameters[i], &element);
        size_t expected = bytes_of(&parameters[i]);
        ferryi_parameter_name(&parameters[i], name);
        if (i == count)
            return ferryi_fail(
                FERRY_ERROR_INVALID_ARGUMENT,
                "parameter %zu%s, %s%s, is not in the code, which takes %zu; %zu are declared", i,
                name, form, element, count, declared);
        if (expected != 0 && bytes[i] != 0 && bytes[i] != expected)
            return ferryi_fail(FERRY_ERROR_WRONG_TYPE,
                               "parameter %zu%s is %s%s, %zu bytes, but the code takes %zu bytes",
                               i, name, form, element, expected, bytes[i]);
    }
    if (count > declared)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "parameter %zu of the code, %zu bytes, is not declared; %zu are",
                           declared, bytes[declared], declared);
    return FERRY_OK;
}

/* Returns space for the sizes of one parameter more than are declared: `few` if that is enough.
 * Returns NULL, and sets the error, if there is no memory. */
static size_t *
space_for(size_t declared, size_t *few)
{
    size_t *bytes = declared <= FEW_PARAMETERS ? few : calloc(declared + 1, sizeof(*bytes));
    if (!bytes)
        (void)ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for the sizes of %zu parameters",
                          declared);
    return bytes;
}

ferry_status
ferryi_kernel_check_code(const ferry_kernel *kernel, ferryi_device *device, void *function)
{
    const size_t declared = kernel->parameter_count;
    size_t few[FEW_PARAMETERS + 1], count;
    size_t *bytes = space_for(declared, few);
    if (!bytes)
        return FERRY_ERROR_OUT_OF_MEMORY;
    ferry_status status =
        FERRYI_CALL(device, code_parameters, function, declared + 1, bytes, &count);
    if (status == FERRY_OK)
        status = compare(kernel->parameters, declared, bytes, count);
    else if (status == FERRY_ERROR_UNSUPPORTED)
        status = FERRY_OK;
    if (bytes != few)
        free(bytes);
    return status;
}

ferry_status
ferryi_kernel_check_text(const ferry_kernel_source *source, const struct ferryi_code_job *job,
                         const ferryi_device_kind *compiler, const char *target)
{
    const size_t declared = source->parameter_count;
    size_t few[FEW_PARAMETERS + 1], count;
    size_t *bytes = space_for(declared, few);
    if (!bytes)
        return FERRY_ERROR_OUT_OF_MEMORY;
    ferry_status status = compiler->code_check(job, target, declared + 1, bytes, &count);
    if (status == FERRY_OK && count != FERRYI_PARAMETERS_UNKNOWN)
        status = compare(source->parameters, declared, bytes, count);
    if (bytes != few)
        free(bytes);
    return status;
}
