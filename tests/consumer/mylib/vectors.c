/* SPDX-License-Identifier: MIT */
#include "mylib/vectors.h"

#include <ferry/float.h>

#include "mylib/vec3_buffer.h"

ferry_status
mylib_line(ferry_context *context, size_t count, ferry_buffer **out)
{
    mylib_vec3_buffer line = {0};
    ferry_scope scope = {0};
    struct mylib_vec3 *vectors;
    ferry_status status;
    size_t i;

    FERRY_TRY(status, fail, mylib_vec3_create(context, count, NULL, &line));
    FERRY_TRY(status, fail, mylib_vec3_overwrite_host(line, &scope, &vectors));
    for (i = 0; i < count; i++) {
        vectors[i].x = (float)i;
        vectors[i].v[0] = vectors[i].v[1] = 1;
    }
    FERRY_TRY(status, fail, ferry_scope_close(&scope));
    *out = line.raw;
    return FERRY_OK;

fail:
    ferry_scope_abandon(&scope);
    mylib_vec3_destroy(&line);
    return status;
}

static ferry_status
shift_on_host(const ferry_call *call, void *user)
{
    size_t count, i;
    struct mylib_vec3 *vectors = mylib_vec3_call_array(call, 0, &count);
    float by = ferry_float_call_value(call, 1);

    (void)user;
    for (i = 0; i < count; i++)
        vectors[i].x += by;
    return FERRY_OK;
}

ferry_status
mylib_shift(ferry_buffer *vectors, float by)
{
    ferry_context *context = ferry_buffer_context(vectors);
    ferry_parameter parameters[2] = {{0}, {0}};
    ferry_kernel_source source = {0};
    ferry_argument arguments[2];
    ferry_kernel *kernel = NULL;
    mylib_vec3_buffer typed;
    ferry_status status;

    FERRY_TRY(status, fail, mylib_vec3_from_raw(vectors, &typed));
    parameters[0].element = mylib_vec3_element();
    parameters[0].access = FERRY_UPDATE;
    parameters[1].element = ferry_float_element();
    source.name = "shift";
    source.host_function = shift_on_host;
    source.parameters = parameters;
    source.parameter_count = 2;
    FERRY_TRY(status, fail, ferry_kernel_create(context, &source, &kernel));
    arguments[0] = mylib_vec3_argument(typed);
    arguments[1] = ferry_float_value(by);
    status = ferry_kernel_launch(kernel, ferry_grid_for(mylib_vec3_count(typed), 0),
                                 ferry_context_stream(context, 1), arguments, 2);

fail:
    ferry_kernel_destroy(&kernel);
    return status;
}
