/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/buffer/element.h"
#include "src/kernel/kernel.h"
#include "src/kernel/nvrtc.h"

/*
 * Declarations of the built-in element types that CUDA C++ lacks. They precede every kernel source.
 * The 64-bit integers have the types of <cuda/std/cstdint>, so that a source may include that
 * header or repeat the declarations.
 */
static const char builtin_declarations[] =
    "#ifndef FERRY_NO_CUDA_TYPES\n"
    "typedef signed char int8_t;\n"
    "typedef short int16_t;\n"
    "typedef int int32_t;\n"
    "typedef long long int64_t;\n"
    "typedef unsigned char uint8_t;\n"
    "typedef unsigned short uint16_t;\n"
    "typedef unsigned int uint32_t;\n"
    "typedef unsigned long long uint64_t;\n"
    "struct ferry_half { uint16_t bits; };\n"
    "struct ferry_bfloat16 { uint16_t bits; };\n"
    "struct ferry_complex_float { float real, imaginary; };\n"
    "struct ferry_complex_double { double real, imaginary; };\n"
    "#endif\n";

/* The architecture for which ferry_kernel_check() compiles if the caller chooses none. */
#define DEFAULT_ARCHITECTURE 75

static ferry_status
check_parameters(const ferry_kernel_source *source, const char *what)
{
    if (source->parameter_count > 0 && !source->parameters)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s \"%s\": parameter_count is %zu, but parameters is NULL", what,
                           source->name, source->parameter_count);
    for (size_t i = 0; i < source->parameter_count; i++) {
        const ferry_parameter *parameter = &source->parameters[i];
        int access = (int)parameter->access;
        if (access < 0 || access > FERRY_OVERWRITE)
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "%s \"%s\": parameter %zu has the unknown access %d", what,
                               source->name, i, access);
        if ((int)parameter->overlap < 0 || (int)parameter->overlap > FERRY_OVERLAP_NONE)
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "%s \"%s\": parameter %zu has the unknown overlap %d", what,
                               source->name, i, (int)parameter->overlap);
        if (access != 0 && !parameter->element)
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "%s \"%s\": parameter %zu is an array without an element", what,
                               source->name, i);
    }
    return FERRY_OK;
}

ferry_status
ferryi_kernel_check_source(const ferry_kernel_source *source, const char *what)
{
    if (!source || !source->name || !source->name[0])
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: %s", what,
                           source ? "it has no name" : "source is NULL");
    if ((source->image != NULL) != (source->image_bytes > 0))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s \"%s\": image %p of %zu bytes", what,
                           source->name, source->image, source->image_bytes);
    if (source->option_count > 0 && !source->options)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s \"%s\": option_count is %zu, but options is NULL", what,
                           source->name, source->option_count);
    for (size_t i = 0; i < source->option_count; i++)
        if (!source->options[i])
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s \"%s\": option %zu is NULL", what,
                               source->name, i);
    return check_parameters(source, what);
}

ferry_status
ferryi_kernel_copy_parameters(const ferry_kernel_source *source, ferry_parameter **out)
{
    *out = NULL;
    if (source->parameter_count == 0)
        return FERRY_OK;
    size_t bytes = source->parameter_count * sizeof(ferry_parameter);
    for (size_t i = 0; i < source->parameter_count; i++)
        bytes += source->parameters[i].name ? strlen(source->parameters[i].name) + 1 : 0;
    ferry_parameter *parameters = malloc(bytes);
    if (!parameters)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu parameters",
                           source->parameter_count);
    /* The names follow the parameters in the same allocation. */
    char *names = (char *)(parameters + source->parameter_count);
    for (size_t i = 0; i < source->parameter_count; i++) {
        parameters[i] = source->parameters[i];
        if (parameters[i].name) {
            parameters[i].name = names;
            names = stpcpy(names, source->parameters[i].name) + 1;
        }
        if (!parameters[i].element)
            continue;
        ferry_status status =
            ferryi_element_intern(source->parameters[i].element, &parameters[i].element);
        if (status != FERRY_OK) {
            free(parameters);
            return ferryi_fail_in(status, "parameter %zu", i);
        }
    }
    *out = parameters;
    return FERRY_OK;
}

/* Returns the CUDA declaration of the element type of parameter `index`. Returns NULL if the type
 * needs no declaration, or if a parameter with a lower index has the same declaration. */
static const char *
new_declaration(const ferry_parameter *parameters, size_t index)
{
    const ferry_element *element = parameters[index].element;
    const char *text = element ? ferryi_element_cuda_declaration(element) : NULL;
    for (size_t i = 0; text && i < index; i++) {
        const char *earlier =
            parameters[i].element ? ferryi_element_cuda_declaration(parameters[i].element) : NULL;
        if (earlier && strcmp(earlier, text) == 0)
            return NULL;
    }
    return text;
}

ferry_status
ferryi_kernel_make_text(const char *source, const ferry_parameter *parameters,
                        size_t parameter_count, char **out)
{
    /* A #line directive that precedes the kernel author's source. It makes the compiler's line
     * numbers start at the beginning of this source. */
    static const char first_line[] = "#line 1\n";
    size_t bytes = sizeof(builtin_declarations) + sizeof(first_line) + strlen(source);
    for (size_t i = 0; i < parameter_count; i++) {
        const char *declaration = new_declaration(parameters, i);
        bytes += declaration ? strlen(declaration) + 1 : 0;
    }
    char *text = malloc(bytes);
    if (!text)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes of source", bytes);
    char *end = stpcpy(text, builtin_declarations);
    for (size_t i = 0; i < parameter_count; i++) {
        const char *declaration = new_declaration(parameters, i);
        if (declaration) {
            end = stpcpy(end, declaration);
            *end++ = '\n';
        }
    }
    stpcpy(stpcpy(end, first_line), source);
    *out = text;
    return FERRY_OK;
}

ferry_status
ferry_kernel_check(const ferry_kernel_source *source, int architecture)
{
    FERRYI_OR_RETURN(ferryi_kernel_check_source(source, "check kernel"));
    FERRYI_OR_RETURN(ferryi_callback_check("check a kernel"));
    if (!source->cuda_source || architecture < 0)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "check kernel \"%s\": %s", source->name,
                           source->cuda_source ? "the architecture is negative"
                                               : "it has no CUDA source");
    ferry_parameter *parameters = NULL;
    char *text = NULL;
    ferry_status status = ferryi_kernel_copy_parameters(source, &parameters);
    if (status == FERRY_OK)
        status = ferryi_kernel_make_text(source->cuda_source, parameters, source->parameter_count,
                                         &text);
    if (status == FERRY_OK) {
        struct ferryi_nvrtc_image image = {0};
        struct ferryi_nvrtc_source job = {.name = source->name,
                                          .text = text,
                                          .options = source->options,
                                          .option_count = source->option_count,
                                          .architecture =
                                              architecture ? architecture : DEFAULT_ARCHITECTURE,
                                          .portable = true};
        status = ferryi_nvrtc_compile(&job, NULL, &image);
        if (status == FERRY_OK)
            status = ferryi_kernel_check_ptx(source, image.bytes);
        free(image.bytes);
    }
    if (status != FERRY_OK)
        ferryi_fail_in(status, "check kernel \"%s\"", source->name);
    free(text);
    free(parameters);
    return status;
}
