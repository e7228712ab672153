/* SPDX-License-Identifier: MIT */
#include "mylib/mylib.h"
#include "mylib/samples.h"

void
mylib_vec3_from_float(struct mylib_vec3 *target, const float *source, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++) {
        target[i].x = source[i];
        target[i].v[0] = target[i].v[1] = 0;
    }
}

void
mylib_vec3_squares(double *target, const struct mylib_vec3 *source, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++)
        target[i] = (double)source[i].x * source[i].x + (double)source[i].v[0] * source[i].v[0] +
                    (double)source[i].v[1] * source[i].v[1];
}

ferry_status
mylib_samples(ferry_context *context, size_t count, mylib_uint16_buffer *out)
{
    mylib_uint16_buffer samples = {0};
    ferry_scope scope = {0};
    ferry_status status;
    uint16_t *numbers;
    size_t i;

    FERRY_TRY(status, fail, mylib_uint16_create(context, count, NULL, &samples));
    FERRY_TRY(status, fail, mylib_uint16_overwrite_host(samples, &scope, &numbers));
    for (i = 0; i < count; i++)
        numbers[i] = (uint16_t)i;
    FERRY_TRY(status, fail, ferry_scope_close(&scope));
    *out = samples;
    return FERRY_OK;

fail:
    ferry_scope_abandon(&scope);
    mylib_uint16_destroy(&samples);
    return status;
}
