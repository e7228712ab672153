/* SPDX-License-Identifier: MIT */
/*
 * fakenvrtc: a shared library that imitates NVRTC. A program loads it if FERRY_NVRTC_LIBRARY names
 * it. The code that it produces consists of a line with the options, an entry point that fakecuda
 * finds, and the source text. A source that contains "#error" does not compile. A source that
 * contains "#warning" produces a log. One that contains "#abort" ends the process. The environment
 * variable FAKENVRTC_VERSION sets the reported version, such as 130.
 *
 * A build with -DFAKENVRTC_MAJOR=N imitates NVRTC 11.2, 12.8 or 13.0, for N = 11, 12 or 13. It
 * supports the architectures of that release. Its code declares the PTX version of that release,
 * such as 8.7 for N = 12, unless the environment variable FAKENVRTC_PTX_N sets a different version.
 *
 * A build with -DFAKEHIPRTC imitates hiprtc, and produces code objects of fakehip.
 *
 * Tests look up two functions with dlsym(). fakenvrtc_compilations() returns the number of
 * compilations, and fakenvrtc_options() the options of this thread's last one, each after a space.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, OUT_OF_MEMORY = 1, COMPILATION = 6 };

#ifndef FAKENVRTC_MAJOR
#define FAKENVRTC_MAJOR 0
#endif

#ifdef FAKEHIPRTC
#define PREFIX                 "\177ELF //"
#define nvrtcGetErrorString    hiprtcGetErrorString
#define nvrtcVersion           hiprtcVersion
#define nvrtcCreateProgram     hiprtcCreateProgram
#define nvrtcDestroyProgram    hiprtcDestroyProgram
#define nvrtcCompileProgram    hiprtcCompileProgram
#define nvrtcGetPTXSize        hiprtcGetCodeSize
#define nvrtcGetPTX            hiprtcGetCode
#define nvrtcGetProgramLogSize hiprtcGetProgramLogSize
#define nvrtcGetProgramLog     hiprtcGetProgramLog
#else
#define PREFIX "//"
#endif

static const struct release {
    int major, version, architectures[16];
    const char *ptx_variable, *ptx;
} releases[] = {
    {0, 130, {75, 90}, NULL, NULL},
    {11, 112, {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86}, "FAKENVRTC_PTX_11", "7.2"},
    {12, 128, {50, 60, 61, 70, 75, 80, 86, 87, 89, 90, 100, 101, 120}, "FAKENVRTC_PTX_12", "8.7"},
    {13, 130, {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121}, "FAKENVRTC_PTX_13", "9.0"},
};

static const struct release *
release(void)
{
    const struct release *release = releases;
    while (release->major != FAKENVRTC_MAJOR)
        release++;
    return release;
}

struct program {
    char *text, *name, *code;
};

static atomic_int compilations;
static _Thread_local char last_options[512];

EXPORT int fakenvrtc_compilations(void);
EXPORT const char *fakenvrtc_options(void);
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
fakenvrtc_options(void)
{
    return last_options;
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
    int version = text ? atoi(text) : release()->version;
    *major = version / 10;
    *minor = version % 10;
    return SUCCESS;
}

int
nvrtcGetNumSupportedArchs(int *count)
{
    *count = 0;
    while (release()->architectures[*count])
        *count += 1;
    return SUCCESS;
}

int
nvrtcGetSupportedArchs(int *architectures)
{
    for (int i = 0; release()->architectures[i]; i++)
        architectures[i] = release()->architectures[i];
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

/* Writes the lines of the compiled code that state the PTX version and the architecture. */
static int
write_target(char *end, int option_count, const char *const *options)
{
    int architecture = 0;
    if (!release()->ptx)
        return 0;
    for (int i = 0; i < option_count; i++)
        if (sscanf(options[i], "--gpu-architecture=%*[a-z]_%d", &architecture) == 1)
            break;
    const char *ptx = getenv(release()->ptx_variable);
    return sprintf(end, "\n.version %.8s\n.target sm_%d", ptx ? ptx : release()->ptx, architecture);
}

/* Compiles a program. For a source with the name "scale.cu", the result contains the entry point
 * "scale". The result also contains the entry points that Ferry looks up in its conversion kernels,
 * such as "scale_nearest". */
int
nvrtcCompileProgram(struct program *program, int option_count, const char *const *options)
{
    size_t bytes = strlen(PREFIX) + strlen(program->text) + 4 * strlen(program->name) + 200;
    int stem = (int)strcspn(program->name, ".");
    atomic_fetch_add(&compilations, 1);
    if (strstr(program->text, "#abort"))
        abort();
    if (strstr(program->text, "#error"))
        return COMPILATION;
    for (int i = 0; i < option_count; i++)
        bytes += strlen(options[i]) + 1;
    program->code = calloc(1, bytes);
    if (!program->code)
        return OUT_OF_MEMORY;
    char *end = program->code + sprintf(program->code, PREFIX);
    for (int i = 0; i < option_count; i++)
        end += sprintf(end, " %s", options[i]);
    snprintf(last_options, sizeof(last_options), "%s", program->code + strlen(PREFIX));
    end += write_target(end, option_count, options);
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
