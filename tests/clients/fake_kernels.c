/* SPDX-License-Identifier: MIT */

/*
 * Registers the host functions of the kernels of examples/sundials with the fake CUDA driver. In a
 * program that is linked with this file, this happens before main() begins.
 */

#include "fake_kernels.h"

#include <stdlib.h>
#include <string.h>

#include "entries.h"
#include "tests/support/fakecuda.h"

#define BODY(entry)                                                                                \
    static void fake_##entry(void **values, const unsigned *grid, const unsigned *block)           \
    {                                                                                              \
        (void)grid;                                                                                \
        (void)block;                                                                               \
        entry##_run(values);                                                                       \
    }
ENTRIES(BODY)

static bool registered;

bool
kernels_are_host_functions(ferry_context *context)
{
    ferry_place_info place;
    return registered || ferry_context_get_place_info(context, 1, &place) != FERRY_OK ||
           strcmp(place.kind, "cuda") != 0;
}

static void
register_entry(const struct fakecuda *fake, const ferry_kernel_source *source, fakecuda_kernel *run)
{
    size_t bytes[16];
    for (size_t i = 0; i < source->parameter_count; i++)
        bytes[i] = source->parameters[i].access != 0 ? sizeof(void *)
                                                     : source->parameters[i].element->bytes;
    fake->fakecuda_register_kernel(source->name, run, (int)source->parameter_count, bytes);
}

__attribute__((constructor)) static void
register_entries(void)
{
    struct fakecuda fake;
    if (!getenv("FERRY_CUDA_LIBRARY") || !fakecuda_find_driver(&fake))
        return;
    registered = true;
#define REGISTER(entry)                                                                            \
    {                                                                                              \
        ferry_parameter parameters[16];                                                            \
        const ferry_kernel_source source = entry##_source(parameters);                             \
        register_entry(&fake, &source, fake_##entry);                                              \
    }
    ENTRIES(REGISTER)
}
