/* SPDX-License-Identifier: MIT */
#include "src/kernel/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/kernel/kernel.h"

/* -- kinds ------------------------------------------------------------------------------------- */

/* What is true of each kind of code. `name` begins with an article unless it is uncountable. */
static const struct kind {
    const char *name;
    ferry_language language;
    bool is_text;
    bool is_compiled; /* whether a compiler still runs, and takes flags and options */
} kinds[] = {
    [FERRY_CODE_CUDA] = {"CUDA source", FERRY_LANGUAGE_CUDA, true, true},
    [FERRY_CODE_HIP] = {"HIP source", FERRY_LANGUAGE_HIP, true, true},
    [FERRY_CODE_OPENCL] = {"OpenCL C source", FERRY_LANGUAGE_OPENCL, true, true},
    [FERRY_CODE_SPIRV] = {"SPIR-V", FERRY_LANGUAGE_OPENCL, false, true},
    [FERRY_CODE_CUDA_IMAGE] = {"a CUDA image", FERRY_LANGUAGE_CUDA, false, false},
    [FERRY_CODE_HIP_IMAGE] = {"a HIP image", FERRY_LANGUAGE_HIP, false, false},
    [FERRY_CODE_OPENCL_BINARY] = {"an OpenCL binary", FERRY_LANGUAGE_OPENCL, false, false},
};

enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]), ALL_FLAGS = FERRY_CODE_EXACT };

/* -- targets ----------------------------------------------------------------------------------- */

bool
ferryi_cuda_target_read(const char *text, struct ferryi_cuda_target *out)
{
    *out = (struct ferryi_cuda_target){.is_portable = strncmp(text, "compute_", 8) == 0};
    if (!out->is_portable && strncmp(text, "sm_", 3) != 0)
        return false;
    text += out->is_portable ? 8 : 3;
    size_t digits = strspn(text, "0123456789");
    if (digits < 2 || digits > 3 || *text == '0')
        return false;
    for (size_t i = 0; i < digits; i++)
        out->architecture = 10 * out->architecture + (text[i] - '0');
    out->letter = text[digits];
    return !out->letter || ((out->letter == 'a' || out->letter == 'f') && !text[digits + 1]);
}

/* Returns whether a device of compute capability `architecture` runs code for the target. */
static bool
target_suits(const struct ferryi_cuda_target *target, int architecture)
{
    if (target->letter == 'a')
        return architecture == target->architecture;
    if (target->is_portable && !target->letter)
        return architecture >= target->architecture;
    return architecture / 10 == target->architecture / 10 && architecture >= target->architecture;
}

/* -- the form of what the program passes ------------------------------------------------------- */

const char *
ferryi_code_text(const ferry_kernel_code *code, size_t *out_length)
{
    const char *text = code->code;
    *out_length = code->bytes ? code->bytes : strlen(text);
    if (code->bytes && !text[code->bytes - 1])
        --*out_length;
    return text;
}

static ferry_status
check_options(const ferry_kernel_code *code)
{
    if (code->option_count > 0 && !code->options)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "option_count is %zu, but options is NULL",
                           code->option_count);
    for (size_t i = 0; i < code->option_count; i++)
        if (!code->options[i])
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "option %zu is NULL", i);
    return FERRY_OK;
}

static ferry_status
check_target(const ferry_kernel_code *code)
{
    struct ferryi_cuda_target target;
    if (!code->target)
        return FERRY_OK;
    if (kinds[code->kind].is_compiled)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "it has the target \"%s\", but only an image has one", code->target);
    if (code->kind == FERRY_CODE_CUDA_IMAGE && !ferryi_cuda_target_read(code->target, &target))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "the target \"%s\" is none of CUDA, such as \"sm_90\" or \"compute_90\"",
                           code->target);
    if (code->kind == FERRY_CODE_HIP_IMAGE && !ferryi_is_hip_target(code->target))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "the target \"%s\" is none of HIP, such as \"gfx90a\"", code->target);
    if (!*code->target)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "the target is empty");
    return FERRY_OK;
}

static ferry_status
check_bytes(const ferry_kernel_code *code)
{
    size_t length;
    if (!kinds[code->kind].is_text) {
        if (code->bytes == 0)
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "it has 0 bytes");
        if (code->kind == FERRY_CODE_SPIRV && code->bytes % 4 != 0)
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "it has %zu bytes, which are not whole words of 4 bytes",
                               code->bytes);
        return FERRY_OK;
    }
    const char *text = ferryi_code_text(code, &length), *end = memchr(text, 0, length);
    if (end)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "it has a NUL at byte %zu, before the end of its %zu bytes",
                           (size_t)(end - text), code->bytes);
    return FERRY_OK;
}

/* Checks one code of a known kind. */
static ferry_status
check_code(const ferry_kernel_code *code)
{
    if (!code->code)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "it is NULL");
    if (code->flags & ~(uint32_t)ALL_FLAGS)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "it has the unknown flags 0x%x",
                           (unsigned)(code->flags & ~(uint32_t)ALL_FLAGS));
    if (!kinds[code->kind].is_compiled && (code->flags || code->option_count))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "it has flags or options, but no compiler runs that takes them");
    FERRYI_OR_RETURN(check_options(code));
    FERRYI_OR_RETURN(check_target(code));
    return check_bytes(code);
}

ferry_status
ferryi_codes_check(const ferry_kernel_source *source)
{
    unsigned seen = 0;
    if (source->code_count > 0 && !source->codes)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "code_count is %zu, but codes is NULL",
                           source->code_count);
    for (size_t i = 0; i < source->code_count; i++) {
        const ferry_kernel_code *code = &source->codes[i];
        const int kind = (int)code->kind;
        if (kind < FERRY_CODE_CUDA || kind >= KIND_COUNT)
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "code %zu has the unknown kind %d", i,
                               kind);
        if (kinds[kind].is_compiled && (seen >> kind & 1))
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "code %zu is %s, of which there may be only one", i,
                               kinds[kind].name);
        seen |= 1u << kind;
        ferry_status status = check_code(code);
        if (status != FERRY_OK)
            return ferryi_fail_in(status, "code %zu, %s", i, kinds[kind].name);
    }
    return FERRY_OK;
}

/* -- copies ------------------------------------------------------------------------------------ */

static void
free_code(ferry_kernel_code *code)
{
    for (size_t i = 0; code->options && i < code->option_count; i++)
        free((char *)code->options[i]);
    free((const char **)code->options);
    free((char *)code->target);
    free((void *)code->code);
}

void
ferryi_codes_free(struct ferryi_codes *codes)
{
    for (size_t i = 0; i < codes->count; i++)
        free_code(&codes->list[i]);
    free(codes->list);
    *codes = (struct ferryi_codes){0};
}

static bool
copy_options(const ferry_kernel_code *code, ferry_kernel_code *copy)
{
    if (code->option_count == 0)
        return true;
    char **options = calloc(code->option_count, sizeof(*options));
    copy->options = (const char *const *)options;
    copy->option_count = options ? code->option_count : 0;
    for (size_t i = 0; options && i < code->option_count; i++)
        if (!(options[i] = strdup(code->options[i])))
            return false;
    return options;
}

/* Copies a code. The copy of a text begins with the declarations of the structs among the
 * parameters. After a failure, the caller frees what there is of the copy. */
static ferry_status
copy_code(const ferry_kernel_code *code, const ferry_parameter *parameters, size_t parameter_count,
          ferry_kernel_code *copy)
{
    *copy = (ferry_kernel_code){.kind = code->kind, .flags = code->flags, .bytes = code->bytes};
    if (!copy_options(code, copy) || (code->target && !(copy->target = strdup(code->target))))
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for its description");
    if (kinds[code->kind].is_text) {
        char *text;
        FERRYI_OR_RETURN(ferryi_kernel_make_text(code, parameters, parameter_count, &text));
        copy->code = text;
        return FERRY_OK;
    }
    void *bytes = malloc(code->bytes);
    if (!bytes)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes of code",
                           code->bytes);
    copy->code = memcpy(bytes, code->code, code->bytes);
    return FERRY_OK;
}

ferry_status
ferryi_codes_copy(const ferry_kernel_source *source, ferry_language language,
                  const ferry_parameter *parameters, struct ferryi_codes *out)
{
    size_t count = 0;
    *out = (struct ferryi_codes){0};
    for (size_t i = 0; i < source->code_count; i++) {
        out->kinds |= 1u << source->codes[i].kind;
        count += kinds[source->codes[i].kind].language == language;
    }
    if (count == 0)
        return FERRY_OK;
    out->list = calloc(count, sizeof(*out->list));
    if (!out->list)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu codes", count);
    for (int compiled = 0; compiled < 2; compiled++)
        for (size_t i = 0; i < source->code_count; i++) {
            const ferry_kernel_code *code = &source->codes[i];
            if (kinds[code->kind].language == language && kinds[code->kind].is_compiled == compiled)
                FERRYI_OR_RETURN(
                    copy_code(code, parameters, source->parameter_count, &out->list[out->count++]));
        }
    return FERRY_OK;
}

/* -- choice ------------------------------------------------------------------------------------ */

const ferry_kernel_code *
ferryi_codes_next(const struct ferryi_codes *codes, const ferryi_device *device,
                  const ferry_kernel_code *after)
{
    const ferry_kernel_code *code = after ? after + 1 : codes->list;
    for (; code && code < codes->list + codes->count; code++) {
        struct ferryi_cuda_target target;
        if (kinds[code->kind].language != device->properties.language)
            continue;
        if (!code->target || (ferryi_cuda_target_read(code->target, &target) &&
                              target_suits(&target, device->properties.architecture)))
            return code;
    }
    return NULL;
}

/* Writes the names of the kinds in a set, and of the host function if there is one. */
static void
name_all(unsigned set, bool host_function, char *text, size_t bytes)
{
    size_t length = 0;
    *text = 0;
    for (int kind = FERRY_CODE_CUDA; kind <= KIND_COUNT && length < bytes; kind++) {
        bool has = kind < KIND_COUNT ? set >> kind & 1 : host_function;
        const bool is_last = (kind + 1 >= KIND_COUNT || !(set >> (kind + 1))) &&
                             (kind >= KIND_COUNT || !host_function);
        if (has)
            length += (size_t)snprintf(text + length, bytes - length, "%s%s",
                                       length == 0 ? ""
                                       : is_last   ? " and "
                                                   : ", ",
                                       kind < KIND_COUNT ? kinds[kind].name : "a host function");
    }
}

ferry_status
ferryi_codes_refuse(const struct ferryi_codes *codes, bool host_function,
                    const ferryi_device *device, const char *place)
{
    char has[160];
    name_all(codes->kinds, host_function, has, sizeof(has));
    if (device->properties.language == FERRY_LANGUAGE_CUDA)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "it has %s only, and %s takes CUDA source or a CUDA image for %s; add "
                           "such code",
                           has, place, device->properties.target);
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                       "it has %s only, and %s takes a host function; add one", has, place);
}
