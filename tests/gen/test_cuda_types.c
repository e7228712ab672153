/* SPDX-License-Identifier: MIT */

/*
 * Checks that NVRTC compiles the type declarations in generated CUDA sources. Every source declares
 * the built-in elements. Some sources also declare structs, including a nested struct that two
 * parameters use. Exits with status 77 (skipped) if NVRTC is not installed.
 */

#include <stdio.h>
#include <stdlib.h>

#include <ferry/ferry.h>

#include "cell_buffer.h"
#include "label_buffer.h"
#include "large_buffer.h"

enum { SKIPPED = 77 };

static const char scalars[] = "static_assert(sizeof(ferry_half) == 2 && sizeof(ferry_bfloat16) == "
                              "2 && sizeof(ferry_complex_float) == 8, \"\");\n"
                              "static_assert(sizeof(ferry_complex_double) == 16 && "
                              "alignof(ferry_complex_double) == 8, \"\");\n"
                              "static_assert(sizeof(int8_t) == 1 && sizeof(uint16_t) == 2 && "
                              "sizeof(int32_t) == 4 && sizeof(uint64_t) == 8, \"\");\n"
                              "extern \"C\" __global__ void scalars(const ferry_half *from, "
                              "ferry_half *to) { to[0].bits = from[0].bits; }\n";

static const char structs[] =
    "extern \"C\" __global__ void structs(struct mylib_cell *cells, const mylib_label *labels, "
    "mylib_large *large)\n"
    "{\n"
    "    cells[0].flux[1][2][3] = (float)labels[0].weight + cells[0].labels[0][1].tag;\n"
    "    large[0].cells[1][0] = cells[0].colour;\n"
    "}\n";

static const char declared_again[] =
    "typedef unsigned long long uint64_t;\n"
    "typedef unsigned int uint32_t;\n"
    "extern \"C\" __global__ void declared_again(uint64_t *to) { to[0] = sizeof(uint32_t); }\n";

static const char declared_differently[] =
    "typedef unsigned long uint64_t;\n"
    "extern \"C\" __global__ void declared_differently(uint64_t *to) { to[0] = 1; }\n";

/* Checks a source that is compiled with one option, or with none if `option` is NULL. */
static int
check(const char *name, const char *text, const char *option, const ferry_parameter *parameters,
      size_t count, ferry_status expected)
{
    const ferry_kernel_code code = {
        .kind = FERRY_CODE_CUDA, .code = text, .options = &option, .option_count = option != NULL};
    const ferry_kernel_source source = {.name = name,
                                        .codes = &code,
                                        .code_count = 1,
                                        .parameters = parameters,
                                        .parameter_count = count};
    ferry_status status = ferry_kernel_check(&source, NULL);
    if (status == FERRY_ERROR_UNSUPPORTED)
        exit(SKIPPED);
    if (status != expected)
        printf("%s: %s (%s), expected %s\n", name, ferry_last_error(), ferry_status_name(status),
               ferry_status_name(expected));
    return status == expected;
}

int
main(void)
{
    const ferry_parameter parameters[] = {
        {.element = mylib_cell_element(), .access = FERRY_UPDATE},
        {.element = mylib_label_element(), .access = FERRY_READ},
        {.element = mylib_large_element(), .access = FERRY_UPDATE},
    };
    /* Parameters of any size. */
    static const ferry_parameter any[2] = {{.element = NULL}, {.element = NULL}};
    int passed = check("scalars", scalars, NULL, any, 2, FERRY_OK);
    passed &= check("structs", structs, NULL, parameters, 3, FERRY_OK);
    passed &= check("declared_again", declared_again, NULL, any, 1, FERRY_OK);
    passed &=
        check("declared_differently", declared_differently, NULL, any, 1, FERRY_ERROR_COMPILE);
    passed &= check("declared_differently", declared_differently, "-DFERRY_NO_CUDA_TYPES", any, 1,
                    FERRY_OK);
    return passed ? EXIT_SUCCESS : EXIT_FAILURE;
}
