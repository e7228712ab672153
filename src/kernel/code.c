/* SPDX-License-Identifier: MIT */
#include "src/kernel/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/device/target.h"
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

/* The kinds of code that devices of a language take, in the reverse of the order in which they are
 * tried. A device of HIP takes CUDA source only of kernels without HIP source. */
enum { TAKEN_MAX = 3 };
static const ferry_code_kind taken[][TAKEN_MAX] = {
    [FERRY_LANGUAGE_NONE] = {0},
    [FERRY_LANGUAGE_CUDA] = {FERRY_CODE_CUDA, FERRY_CODE_CUDA_IMAGE},
    [FERRY_LANGUAGE_HIP] = {FERRY_CODE_HIP, FERRY_CODE_CUDA, FERRY_CODE_HIP_IMAGE},
    [FERRY_LANGUAGE_OPENCL] = {FERRY_CODE_OPENCL, FERRY_CODE_SPIRV, FERRY_CODE_OPENCL_BINARY},
};

bool
ferryi_code_is_compiled(const ferry_kernel_code *code)
{
    return kinds[code->kind].is_compiled;
}

/* Returns whether a device takes a kind of code: it is of the device's language, and the device can
 * compile or load it. */
static bool
takes(const ferryi_device *device, ferry_code_kind kind)
{
    const uint64_t needed = kinds[kind].is_compiled ? FERRY_CAN_COMPILE : FERRY_CAN_LOAD_CODE;
    if (!(device->capabilities & needed))
        return false;
    for (int i = 0; i < TAKEN_MAX; i++)
        if (taken[device->properties.language][i] == kind)
            return true;
    return false;
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
    if (!code->target)
        return FERRY_OK;
    if (kinds[code->kind].is_compiled)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "it has the target \"%s\", but only an image has one", code->target);
    return ferryi_target_check(kinds[code->kind].language, code->target);
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
    *copy = (ferry_kernel_code){.kind = code->kind, .flags = code->flags};
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
    copy->bytes = code->bytes;
    return FERRY_OK;
}

/* Copies all codes of one kind. */
static ferry_status
copy_kind(const ferry_kernel_source *source, ferry_code_kind kind,
          const ferry_parameter *parameters, struct ferryi_codes *out)
{
    for (size_t i = 0; i < source->code_count; i++)
        if (source->codes[i].kind == kind)
            FERRYI_OR_RETURN(copy_code(&source->codes[i], parameters, source->parameter_count,
                                       &out->list[out->count++]));
    return FERRY_OK;
}

ferry_status
ferryi_codes_copy(const ferry_kernel_source *source, ferry_language language,
                  const ferry_parameter *parameters, struct ferryi_codes *out)
{
    *out = (struct ferryi_codes){0};
    for (size_t i = 0; i < source->code_count; i++)
        out->kinds |= 1u << source->codes[i].kind;
    if (language == FERRY_LANGUAGE_NONE || source->code_count == 0)
        return FERRY_OK;
    out->list = calloc(source->code_count, sizeof(*out->list));
    if (!out->list)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu codes",
                           source->code_count);
    for (int i = TAKEN_MAX - 1; i >= 0; i--) {
        const ferry_code_kind kind = taken[language][i];
        const bool is_replaced = language == FERRY_LANGUAGE_HIP && kind == FERRY_CODE_CUDA &&
                                 (out->kinds >> FERRY_CODE_HIP & 1);
        if (kind && !is_replaced)
            FERRYI_OR_RETURN(copy_kind(source, kind, parameters, out));
    }
    return FERRY_OK;
}

/* -- choice ------------------------------------------------------------------------------------ */

const ferry_kernel_code *
ferryi_codes_next(const struct ferryi_codes *codes, const ferryi_device *device,
                  const ferry_kernel_code *after)
{
    const ferry_kernel_code *code = after ? after + 1 : codes->list;
    for (; code && code < codes->list + codes->count; code++)
        if (takes(device, code->kind) &&
            (!code->target || ferryi_target_suits(code->target, device)))
            return code;
    return NULL;
}

/* A list of names for a message. */
struct names {
    const char *list[KIND_COUNT + 1];
    size_t count;
};

/* Writes names such as "a, b and c", whose last word is `word`. */
static void
join(const struct names *names, const char *word, char *text, size_t bytes)
{
    size_t length = 0;
    *text = 0;
    for (size_t i = 0; i < names->count && length < bytes; i++) {
        const char *between = i == 0 ? "" : i + 1 < names->count ? ", " : word;
        length += (size_t)snprintf(text + length, bytes - length, "%s%s", between, names->list[i]);
    }
}

static const char a_host_function[] = "a host function";

ferry_status
ferryi_codes_refuse(const struct ferryi_codes *codes, bool host_function,
                    const ferryi_device *device, const char *place)
{
    char has[160], wants[160];
    struct names own = {0}, other = {0};
    for (int kind = FERRY_CODE_CUDA; kind < KIND_COUNT; kind++)
        if (codes->kinds >> kind & 1)
            own.list[own.count++] = kinds[kind].name;
    if (host_function)
        own.list[own.count++] = a_host_function;
    for (int i = 0; i < TAKEN_MAX; i++) {
        const ferry_code_kind kind = taken[device->properties.language][i];
        if (kind && takes(device, kind))
            other.list[other.count++] = kinds[kind].name;
    }
    const bool runs_code = other.count > 0;
    const bool runs_host_functions = device->capabilities & FERRY_CAN_RUN_HOST_FUNCTION;
    join(&own, " and ", has, sizeof(has));
    join(&other, " or ", wants, sizeof(wants));
    return ferryi_fail(
        FERRY_ERROR_UNSUPPORTED, "it has %s only, and %s takes %s%s%s%s%s; add %s", has, place,
        wants, runs_code ? " for " : "", runs_code ? device->properties.target : "",
        runs_code && runs_host_functions ? ", or " : "", runs_host_functions ? a_host_function : "",
        !runs_code            ? "one"
        : runs_host_functions ? "one of them"
                              : "such code");
}
