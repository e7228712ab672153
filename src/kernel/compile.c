/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/buffer/element.h"
#include "src/device/cuda/nvrtc.h"
#include "src/kernel/kernel.h"

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

/* The target for which ferry_kernel_check() compiles if the caller chooses none. */
#define DEFAULT_TARGET "sm_75"

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
    ferry_status status = ferryi_codes_check(source);
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "%s \"%s\"", what, source->name);
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
ferryi_kernel_make_text(const ferry_kernel_code *source, const ferry_parameter *parameters,
                        size_t parameter_count, char **out)
{
    size_t length;
    const char *own = ferryi_code_text(source, &length);
    /* A #line directive that precedes the kernel author's source. It makes the compiler's line
     * numbers start at the beginning of this source. */
    static const char first_line[] = "#line 1\n";
    size_t bytes = sizeof(builtin_declarations) + sizeof(first_line) + length;
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
    end = stpcpy(end, first_line);
    memcpy(end, own, length);
    end[length] = 0;
    *out = text;
    return FERRY_OK;
}

/* Reads the target for which ferry_kernel_check() compiles. */
static ferry_status
read_target(const char *text, int *out_architecture)
{
    struct ferryi_cuda_target target;
    if (ferryi_is_hip_target(text))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "the target \"%s\" is of HIP, but only CUDA source can be checked",
                           text);
    if (!ferryi_cuda_target_read(text, &target))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "the target \"%s\" is none of CUDA, such as \"sm_90\" or \"compute_90\"",
                           text);
    if (target.letter)
        return ferryi_fail(
            FERRY_ERROR_UNSUPPORTED,
            "the target \"%s\" has a letter; pass --gpu-architecture=%s as an option "
            "of the source",
            text, text);
    *out_architecture = target.architecture;
    return FERRY_OK;
}

/* Compiles CUDA source for an architecture, and compares its entry point with the description. */
static ferry_status
check_code(const ferry_kernel_source *source, const ferry_kernel_code *code, int architecture)
{
    ferry_parameter *parameters;
    char *text = NULL;
    FERRYI_OR_RETURN(ferryi_kernel_copy_parameters(source, &parameters));
    ferry_status status = ferryi_kernel_make_text(code, parameters, source->parameter_count, &text);
    if (status == FERRY_OK) {
        struct ferryi_nvrtc_image image = {0};
        struct ferryi_nvrtc_source job = {.name = source->name,
                                          .text = text,
                                          .options = code->options,
                                          .option_count = code->option_count,
                                          .exact = code->flags & FERRY_CODE_EXACT,
                                          .architecture = architecture,
                                          .portable = true};
        status = ferryi_nvrtc_compile(&job, NULL, &image);
        if (status == FERRY_OK)
            status = ferryi_kernel_check_ptx(source, image.bytes);
        free(image.bytes);
    }
    free(text);
    free(parameters);
    return status;
}

ferry_status
ferry_kernel_check(const ferry_kernel_source *source, const char *target)
{
    FERRYI_OR_RETURN(ferryi_kernel_check_source(source, "check kernel"));
    FERRYI_OR_RETURN(ferryi_callback_check("check a kernel"));
    const ferry_kernel_code *code = source->codes, *end = code + source->code_count;
    while (code < end && code->kind != FERRY_CODE_CUDA)
        code++;
    if (code == end)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "check kernel \"%s\": it has no CUDA source", source->name);
    int architecture = 0;
    ferry_status status = read_target(target ? target : DEFAULT_TARGET, &architecture);
    if (status == FERRY_OK)
        status = check_code(source, code, architecture);
    return status == FERRY_OK ? status
                              : ferryi_fail_in(status, "check kernel \"%s\"", source->name);
}
