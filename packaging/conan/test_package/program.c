/* SPDX-License-Identifier: MIT */

/* Writes and reads a buffer of a struct. */

#include <stdio.h>
#include <stdlib.h>

#include <ferry/ferry.h>

#include "vec3_buffer.h"

enum { COUNT = 100 };

static ferry_status
write_on_host(mylib_vec3_buffer buffer)
{
    ferry_scope scope;
    struct mylib_vec3 *values;
    ferry_status status = mylib_vec3_overwrite_host(buffer, &scope, &values);
    if (status != FERRY_OK)
        return status;
    for (int i = 0; i < COUNT; i++)
        values[i].x = values[i].v[0] = values[i].v[1] = (float)i;
    return ferry_scope_close(&scope);
}

static ferry_status
count_right(mylib_vec3_buffer buffer, int *out_right)
{
    ferry_scope scope;
    const struct mylib_vec3 *values;
    ferry_status status = mylib_vec3_read_host(buffer, &scope, &values);
    if (status != FERRY_OK)
        return status;
    for (int i = 0; i < COUNT; i++)
        *out_right += values[i].x == (float)i && values[i].v[1] == (float)i;
    return ferry_scope_close(&scope);
}

int
main(void)
{
    ferry_status status;
    ferry_context *context = NULL;
    mylib_vec3_buffer buffer = {0};
    int right = 0;

    FERRY_TRY(status, fail, ferry_context_create(NULL, &context));
    FERRY_TRY(status, fail, mylib_vec3_create(context, COUNT, NULL, &buffer));
    FERRY_TRY(status, fail, write_on_host(buffer));
    FERRY_TRY(status, fail, count_right(buffer, &right));
fail:
    if (status != FERRY_OK)
        fprintf(stderr, "program: %s (%s)\n", ferry_last_error(), ferry_status_name(status));
    mylib_vec3_destroy(&buffer);
    ferry_context_destroy(&context);
    printf("ferry %s: %d of %d structs are right\n", ferry_version(), right, COUNT);
    return right == COUNT ? EXIT_SUCCESS : EXIT_FAILURE;
}
