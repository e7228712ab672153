/* SPDX-License-Identifier: MIT */
#include "tests/misuse/misuse.h"

/* Misuses of kernels: host functions that use an array otherwise than their parameter says. */

/* Writes the first half of its array but three elements, which are fewer bytes than a report needs.
 */
static ferry_status
write_half(const ferry_call *call, void *user)
{
    size_t count;
    int *x = ferry_int_call_array(call, 0, &count);
    (void)user;
    for (size_t i = 3; i < count / 2; i++)
        x[i] = 1;
    return FERRY_OK;
}

/* Writes all elements but the four from number 100 on. */
static ferry_status
leave_four(const ferry_call *call, void *user)
{
    size_t count;
    int *x = ferry_int_call_array(call, 0, &count);
    (void)user;
    for (size_t i = 0; i < count; i++)
        if (i < 100 || i >= 104)
            x[i] = 1;
    return FERRY_OK;
}

static void
launch(struct scene *scene, ferry_host_function *function, ferry_access access)
{
    const ferry_parameter parameter = {
        .element = ferry_int_element(), .access = access, .name = "x"};
    const ferry_kernel_source source = {
        .name = "half", .host_function = function, .parameters = &parameter, .parameter_count = 1};
    const ferry_argument argument = ferry_int_argument(scene->height);
    ferry_kernel *kernel;
    must(ferry_kernel_create(scene->context, &source, &kernel));
    must(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), scene->stream, &argument, 1));
    must(ferry_stream_synchronize(scene->stream));
    ferry_kernel_destroy(&kernel);
}

static void
write_what_is_read(struct scene *scene)
{
    launch(scene, write_half, FERRY_READ);
}

static void
write_half_of_it(struct scene *scene)
{
    launch(scene, write_half, FERRY_OVERWRITE);
}

static void
leave_sixteen_bytes(struct scene *scene)
{
    launch(scene, leave_four, FERRY_OVERWRITE);
}

const struct misuse kernel_misuses[] = {
    {"a host function that writes an array that it reads",
     write_what_is_read,
     {"kernel \"half\"", "it changed element 3 of argument 0 \"x\"", "declare the parameter"},
     NEEDS_HOST_FUNCTIONS,
     false},
    {"a host function that overwrites half of an array",
     write_half_of_it,
     {"kernel \"half\"", "it left element 1000 of argument 0 \"x\" unwritten"},
     NEEDS_HOST_FUNCTIONS,
     false},
    {"a host function that leaves 16 bytes of an array unwritten",
     leave_sixteen_bytes,
     {"kernel \"half\"", "it left element 100 of argument 0 \"x\" unwritten"},
     NEEDS_HOST_FUNCTIONS,
     false},
    {0},
};
