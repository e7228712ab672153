/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/buffer/element.h"
#include "src/device/target.h"
#include "src/kernel/kernel.h"

/* Declarations of the built-in element types that a language lacks, from gen/declarations.cu and
 * gen/declarations.cl. They precede every kernel source of that language. */
extern const unsigned char ferryi_cuda_declarations[], ferryi_opencl_declarations[];

/* The line that forbids fused operations in OpenCL C, whose compilers have no such option. */
static const char opencl_exact[] = "#pragma OPENCL FP_CONTRACT OFF\n";

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
    /* A function has no such name, and a message, a trace or a log line would break there. */
    if (ferryi_text_has_control(source->name))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: its name has a control character, such as a newline", what);
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
            const size_t name_bytes = strlen(parameters[i].name) + 1;
            parameters[i].name = memcpy(names, parameters[i].name, name_bytes);
            ferryi_text_make_line(names);
            names += name_bytes;
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

static const char *
declaration_of(const ferry_element *element, ferry_code_kind kind)
{
    if (!element)
        return NULL;
    return kind == FERRY_CODE_OPENCL ? ferryi_element_opencl_declaration(element)
                                     : ferryi_element_cuda_declaration(element);
}

/* Returns the declaration of the element type of parameter `index` for a kind of text. Returns NULL
 * if the type needs no declaration, or if a parameter with a lower index has the same declaration.
 */
static const char *
new_declaration(const ferry_parameter *parameters, size_t index, ferry_code_kind kind)
{
    const char *text = declaration_of(parameters[index].element, kind);
    for (size_t i = 0; text && i < index; i++) {
        const char *earlier = declaration_of(parameters[i].element, kind);
        if (earlier && strcmp(earlier, text) == 0)
            return NULL;
    }
    return text;
}

ferry_status
ferryi_kernel_make_text(const ferry_kernel_code *source, const ferry_parameter *parameters,
                        size_t parameter_count, char **out)
{
    const bool is_opencl = source->kind == FERRY_CODE_OPENCL;
    const bool is_small = sizeof(size_t) < sizeof(uint64_t);
    const char *size = is_opencl && is_small ? "#define FERRY_SIZE_32\n" : "";
    const char *builtin =
        (const char *)(is_opencl ? ferryi_opencl_declarations : ferryi_cuda_declarations);
    const char *exact = is_opencl && (source->flags & FERRY_CODE_EXACT) ? opencl_exact : "";
    size_t length;
    const char *own = ferryi_code_text(source, &length);
    /* A #line directive that precedes the kernel author's source. It makes the compiler's line
     * numbers start at the beginning of this source. */
    static const char first_line[] = "#line 1\n";
    size_t bytes = strlen(size) + strlen(builtin) + strlen(exact) + sizeof(first_line) + length;
    for (size_t i = 0; i < parameter_count; i++) {
        const char *declaration = new_declaration(parameters, i, source->kind);
        bytes += declaration ? strlen(declaration) + 1 : 0;
    }
    char *text = malloc(bytes);
    if (!text)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes of source", bytes);
    char *end = stpcpy(stpcpy(stpcpy(text, size), builtin), exact);
    for (size_t i = 0; i < parameter_count; i++) {
        const char *declaration = new_declaration(parameters, i, source->kind);
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

/* Compiles a code of the source for a target, and compares the result with the description. */
static ferry_status
check_code(const ferry_kernel_source *source, const ferry_kernel_code *code,
           const ferryi_device_kind *compiler, const char *target)
{
    ferry_parameter *parameters;
    char *text = NULL;
    FERRYI_OR_RETURN(ferryi_kernel_copy_parameters(source, &parameters));
    ferry_status status = ferryi_kernel_make_text(code, parameters, source->parameter_count, &text);
    if (status == FERRY_OK) {
        ferry_kernel_code whole = *code;
        whole.code = text;
        const struct ferryi_code_job job = {.name = source->name, .code = &whole};
        status = ferryi_kernel_check_text(source, &job, compiler, target);
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
    const ferry_kernel_code *code = NULL;
    const ferry_language language = target && ferryi_target_is_of(FERRY_LANGUAGE_HIP, target)
                                        ? FERRY_LANGUAGE_HIP
                                        : FERRY_LANGUAGE_CUDA;
    for (size_t i = 0; i < source->code_count; i++) {
        const ferry_code_kind kind = source->codes[i].kind;
        if ((kind == FERRY_CODE_CUDA && !code) ||
            (kind == FERRY_CODE_HIP && language == FERRY_LANGUAGE_HIP))
            code = &source->codes[i];
    }
    if (!code)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "check kernel \"%s\": it has no %s source",
                           source->name, language == FERRY_LANGUAGE_HIP ? "HIP or CUDA" : "CUDA");
    ferry_status status = check_code(source, code, ferryi_device_compiler(language), target);
    return status == FERRY_OK ? status
                              : ferryi_fail_in(status, "check kernel \"%s\"", source->name);
}
