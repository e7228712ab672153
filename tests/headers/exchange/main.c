/* SPDX-License-Identifier: MIT */
/*
 * Checks that two translation units and two shared objects can exchange buffers and a kernel. The
 * shared object MAKER creates the buffers and the kernel. The program closes MAKER before it uses
 * them. This works because the library compares elements by content and keeps no pointer into a
 * shared object.
 *
 * usage: exchange MAKER OTHER
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/float_convert.h>

#include "module.h"
#include "particle_buffer.h"
#include "second.h"

#define OK(call)          ok((call), #call, __LINE__)
#define EXPECT(condition) expect((condition), #condition, __LINE__)

static void
ok(ferry_status status, const char *call, int line)
{
    if (status == FERRY_OK)
        return;
    fprintf(stderr, "main.c:%d: %s: %s: %s\n", line, call, ferry_status_name(status),
            ferry_last_error());
    exit(1);
}

static void
expect(bool condition, const char *text, int line)
{
    if (condition)
        return;
    fprintf(stderr, "main.c:%d: not so: %s\n", line, text);
    exit(1);
}

static const struct module *
open_module(const char *path, void **handle)
{
    const struct module *module;
    *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    module = *handle ? dlsym(*handle, "exchange_module") : NULL;
    if (!module) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return module;
}

static void
close_module(const char *path, void *handle)
{
    EXPECT(dlclose(handle) == 0);
#ifdef __GLIBC__ /* musl never unloads a library */
    EXPECT(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL);
#else
    (void)path;
#endif
}

/* Host function of the kernel. Adds each number to the mass of the particle at the same index, and
 * then increases the number by `shift`. */
static ferry_status
move_body(const ferry_call *call, void *user)
{
    size_t count, i;
    float *numbers = ferry_float_call_array(call, 0, &count);
    struct particle *particles = exchange_particle_call_array(call, 1, NULL);
    float shift = ferry_float_call_value(call, 2);

    (void)user;
    if (!numbers || !particles)
        return FERRY_ERROR_WRONG_TYPE;
    for (i = 0; i < count; i++) {
        particles[i].mass += numbers[i];
        numbers[i] += shift;
    }
    return FERRY_OK;
}

static void
use(ferry_context *context, ferry_float_buffer numbers, exchange_particle_buffer particles,
    ferry_kernel *kernel)
{
    ferry_argument arguments[] = {ferry_float_argument(numbers),
                                  exchange_particle_argument(particles), ferry_float_value(1)};
    ferry_double_buffer doubles = {0}, wrong = {0};
    struct particle particle;
    double number;

    OK(ferry_kernel_launch(kernel, ferry_grid_for(COUNT, 0), ferry_context_stream(context, 1),
                           arguments, 3));
    OK(exchange_particle_copy_to(particles, 7, 1, &particle, NULL));
    EXPECT(particle.mass == 14 && particle.at[0] == 0);
    OK(ferry_double_create(context, COUNT, NULL, &doubles));
    OK(second_double(numbers, doubles));
    OK(ferry_double_copy_to(doubles, 7, 1, &number, NULL));
    EXPECT(number == 8);
    EXPECT(ferry_double_from_raw(particles.raw, &wrong) == FERRY_ERROR_WRONG_TYPE);
    EXPECT(strstr(ferry_last_error(), "exchange_particle") != NULL);
    EXPECT(ferry_double_copy_from(wrong = (ferry_double_buffer){numbers.raw}, 0, 1, &number,
                                  NULL) == FERRY_ERROR_WRONG_TYPE);
    EXPECT(strstr(ferry_last_error(), "float") != NULL);
    ferry_double_destroy(&doubles);
}

int
main(int argc, char **argv)
{
    ferry_context *context = NULL;
    ferry_float_buffer numbers = {0};
    exchange_particle_buffer particles = {0};
    ferry_buffer *raw[2];
    ferry_kernel *kernel = NULL;
    void *maker_handle, *other_handle;
    const struct module *maker, *other;
    float number;

    if (argc != 3)
        return 2;
    OK(ferry_context_create(NULL, &context));
    maker = open_module(argv[1], &maker_handle);
    other = open_module(argv[2], &other_handle);
    EXPECT(maker->number() != other->number() && maker->number() != ferry_float_element());
    EXPECT(ferry_element_equal(maker->number(), other->number()) &&
           ferry_element_equal(second_number(), ferry_float_element()));
    EXPECT(ferry_element_equal(maker->particle(), exchange_particle_element()));
    OK(maker->make(context, move_body, &raw[0], &raw[1], &kernel));
    close_module(argv[1], maker_handle);

    OK(ferry_float_from_raw(raw[0], &numbers));
    OK(exchange_particle_from_raw(raw[1], &particles));
    use(context, numbers, particles, kernel);
    OK(other->add(numbers.raw, 0.5f));
    OK(ferry_float_copy_to(numbers, 7, 1, &number, NULL));
    EXPECT(number == 8.5f);
    close_module(argv[2], other_handle);

    OK(ferry_float_resize(numbers, 2 * COUNT));
    OK(ferry_float_copy_to(numbers, COUNT, 1, &number, NULL));
    EXPECT(number == 0);
    ferry_kernel_destroy(&kernel);
    exchange_particle_destroy(&particles);
    ferry_float_destroy(&numbers);
    ferry_context_destroy(&context);
    return 0;
}
