/* SPDX-License-Identifier: MIT */
/* A shared object that contains its own generated copies of the element types. This file is
 * compiled as C and as C++. */
#include "module.h"

#include <string.h>

#include <ferry/float.h>
#include <ferry/float_convert.h>

#include "particle_buffer.h"

static ferry_status
make(ferry_context *context, ferry_host_function *body, ferry_buffer **numbers,
     ferry_buffer **particles, ferry_kernel **kernel)
{
    ferry_float_buffer made = {0};
    exchange_particle_buffer of_numbers = {0};
    ferry_kernel_source source;
    ferry_parameter parameters[3];
    int32_t counted[COUNT];
    ferry_status status;
    int i;

    for (i = 0; i < COUNT; i++)
        counted[i] = i;
    memset(parameters, 0, sizeof(parameters));
    for (i = 0; i < 3; i++) {
        parameters[i].element = i == 1 ? exchange_particle_element() : ferry_float_element();
        parameters[i].access = i == 2 ? (ferry_access)0 : FERRY_UPDATE;
    }
    memset(&source, 0, sizeof(source));
    source.name = "move";
    source.host_function = body;
    source.parameters = parameters;
    source.parameter_count = 3;
    FERRY_TRY(status, fail, ferry_kernel_create(context, &source, kernel));
    FERRY_TRY(status, fail, ferry_float_create(context, COUNT, NULL, &made));
    FERRY_TRY(status, fail, exchange_particle_create(context, COUNT, NULL, &of_numbers));
    FERRY_TRY(status, fail,
              ferry_float_copy_from_int(made, 0, COUNT, counted, FERRY_CONVERT_CHECK, NULL));
    FERRY_TRY(status, fail,
              exchange_particle_convert_from_float(of_numbers, 0, made, 0, COUNT,
                                                   FERRY_CONVERT_CHECK, NULL));
    FERRY_TRY(status, fail, ferry_float_sync_to(made, 1, NULL));
    FERRY_TRY(status, fail, exchange_particle_sync_to(of_numbers, 1, NULL));
    *numbers = made.raw;
    *particles = of_numbers.raw;
    return FERRY_OK;

fail:
    exchange_particle_destroy(&of_numbers);
    ferry_float_destroy(&made);
    return status;
}

static ferry_status
add(ferry_buffer *numbers, float amount)
{
    ferry_float_buffer given = {0};
    ferry_scope scope;
    float *values;
    ferry_status status = ferry_float_from_raw(numbers, &given);
    size_t i;

    if (status == FERRY_OK)
        status = ferry_float_update_host(given, &scope, &values);
    if (status != FERRY_OK)
        return status;
    for (i = 0; i < ferry_float_count(given); i++)
        values[i] += amount;
    return ferry_scope_close(&scope);
}

const struct module exchange_module = {make, add, ferry_float_element, exchange_particle_element};
