/* SPDX-License-Identifier: MIT */
/*
 * fakenvrtc: a shared library with NVRTC's entry points, whose code is the source's text behind a
 * line with the options and an entry point that fakecuda finds. Name it in FERRY_NVRTC_LIBRARY.
 * Sources that have "#error" do not compile, those that have "#warning" have a log.
 * FAKENVRTC_VERSION is its version, such as 130.
 *
 * Tests reach fakenvrtc_compilations(), which counts, with dlsym.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, OUT_OF_MEMORY = 1, COMPILATION = 6 };

struct program {
    char *text, *name, *code;
};

static atomic_int compilations;

EXPORT int fakenvrtc_compilations(void);
EXPORT const char *nvrtcGetErrorString(int result);
EXPORT int nvrtcVersion(int *major, int *minor);
EXPORT int nvrtcGetNumSupportedArchs(int *count);
EXPORT int nvrtcGetSupportedArchs(int *architectures);
EXPORT int nvrtcCreateProgram(struct program **out, const char *text, const char *name,
                              int header_count, const char *const *headers,
                              const char *const *header_names);
EXPORT int nvrtcDestroyProgram(struct program **program);
EXPORT int nvrtcCompileProgram(struct program *program, int option_count,
                               const char *const *options);
EXPORT int nvrtcGetPTXSize(struct program *program, size_t *size);
EXPORT int nvrtcGetPTX(struct program *program, char *text);
EXPORT int nvrtcGetCUBINSize(struct program *program, size_t *size);
EXPORT int nvrtcGetCUBIN(struct program *program, char *bytes);
EXPORT int nvrtcGetProgramLogSize(struct program *program, size_t *size);
EXPORT int nvrtcGetProgramLog(struct program *program, char *text);

int
fakenvrtc_compilations(void)
{
    return atomic_load(&compilations);
}

const char *
nvrtcGetErrorString(int result)
{
    return result == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_OUT_OF_MEMORY";
}

int
nvrtcVersion(int *major, int *minor)
{
    const char *text = getenv("FAKENVRTC_VERSION");
    int version = text ? atoi(text) : 130;
    *major = version / 10;
    *minor = version % 10;
    return SUCCESS;
}

int
nvrtcGetNumSupportedArchs(int *count)
{
    *count = 2;
    return SUCCESS;
}

int
nvrtcGetSupportedArchs(int *architectures)
{
    architectures[0] = 75;
    architectures[1] = 90;
    return SUCCESS;
}

int
nvrtcCreateProgram(struct program **out, const char *text, const char *name, int header_count,
                   const char *const *headers, const char *const *header_names)
{
    (void)header_count, (void)headers, (void)header_names;
    struct program *program = calloc(1, sizeof(*program));
    if (!program)
        return OUT_OF_MEMORY;
    program->text = strdup(text);
    program->name = strdup(name);
    *out = program;
    return SUCCESS;
}

int
nvrtcDestroyProgram(struct program **program)
{
    free((*program)->text);
    free((*program)->name);
    free((*program)->code);
    free(*program);
    *program = NULL;
    return SUCCESS;
}

/* "scale.cu" has the entry point "scale"; those of a conversion end in what they do. */
int
nvrtcCompileProgram(struct program *program, int option_count, const char *const *options)
{
    size_t bytes = strlen(program->text) + 4 * strlen(program->name) + 200;
    int stem = (int)strcspn(program->name, ".");
    atomic_fetch_add(&compilations, 1);
    if (strstr(program->text, "#error"))
        return COMPILATION;
    for (int i = 0; i < option_count; i++)
        bytes += strlen(options[i]) + 1;
    program->code = calloc(1, bytes);
    if (!program->code)
        return OUT_OF_MEMORY;
    char *end = program->code + sprintf(program->code, "//");
    for (int i = 0; i < option_count; i++)
        end += sprintf(end, " %s", options[i]);
    end += sprintf(
        end, "\n.entry %.*s .entry %.*s_nearest .entry %.*s_toward_zero .entry %.*s_first_unfit\n",
        stem, program->name, stem, program->name, stem, program->name, stem, program->name);
    sprintf(end, "%s", program->text);
    return SUCCESS;
}

int
nvrtcGetPTXSize(struct program *program, size_t *size)
{
    *size = strlen(program->code) + 1;
    return SUCCESS;
}

int
nvrtcGetPTX(struct program *program, char *text)
{
    strcpy(text, program->code);
    return SUCCESS;
}

int
nvrtcGetCUBINSize(struct program *program, size_t *size)
{
    (void)program;
    *size = 0;
    return SUCCESS;
}

int
nvrtcGetCUBIN(struct program *program, char *bytes)
{
    (void)program, (void)bytes;
    return COMPILATION;
}

static const char *
log_of(const struct program *program)
{
    if (strstr(program->text, "#error"))
        return "fake.cu(1): error: there is an #error";
    return strstr(program->text, "#warning") ? "fake.cu(1): warning: there is a #warning" : "";
}

int
nvrtcGetProgramLogSize(struct program *program, size_t *size)
{
    *size = strlen(log_of(program)) + 1;
    return SUCCESS;
}

int
nvrtcGetProgramLog(struct program *program, char *text)
{
    strcpy(text, log_of(program));
    return SUCCESS;
}
