/* SPDX-License-Identifier: MIT */
#include "src/device/gpu/compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/device/disk_cache.h"
#include "src/device/includes.h"

/* -- loading ----------------------------------------------------------------------------------- */

const char *
ferryi_compiler_find(void *library, struct ferryi_compiler *compiler, char name[64])
{
    const char *missing = NULL;
    void *symbol;
#define FIND(function, result, parameters)                                                         \
    snprintf(name, 64, "%s" #function, compiler->prefix);                                          \
    symbol = ferryi_library_symbol(library, name);                                                 \
    if (!symbol)                                                                                   \
        missing = #function;                                                                       \
    else                                                                                           \
        memcpy(&compiler->function, &symbol, sizeof(symbol));
    FERRYI_COMPILER_FUNCTIONS(FIND)
#undef FIND
    if (!missing)
        return NULL;
    snprintf(name, 64, "%s%s", compiler->prefix, missing);
    return name;
}

/* -- the log ----------------------------------------------------------------------------------- */

/* Returns the compiler's log of a program, or NULL if the log is empty. The caller frees the text.
 */
static char *
program_log(const struct ferryi_compiler *compiler, ferryi_program program)
{
    size_t size = 0;
    if (compiler->GetProgramLogSize(program, &size) != FERRYI_COMPILER_SUCCESS || size <= 1)
        return NULL;
    char *text = malloc(size + 1);
    if (!text || compiler->GetProgramLog(program, text) != FERRYI_COMPILER_SUCCESS) {
        free(text);
        return NULL;
    }
    text[size] = 0;
    for (size_t length = strlen(text); length > 0 && text[length - 1] == '\n'; length--)
        text[length - 1] = 0;
    return text;
}

/* Passes the compiler's log to the context's log line by line, because an error message contains
 * only the beginning of a long log. */
static void
write_log(const struct ferryi_log *log, const char *name, const char *text)
{
    while (text && *text) {
        size_t length = strcspn(text, "\n");
        if (length > 0)
            ferryi_log(log, FERRY_LOG_DEBUG, "compile kernel \"%s\": %.*s", name, (int)length,
                       text);
        text += length + (text[length] == '\n');
    }
}

static ferry_status
compile_failed(const struct ferryi_compiler *compiler, ferryi_program program, int result,
               const struct ferryi_compiler_job *job, const struct ferryi_log *log)
{
    char *text = program_log(compiler, program);
    write_log(log, job->name, text);
    ferry_status status =
        result == FERRYI_COMPILER_OUT_OF_MEMORY ? FERRY_ERROR_OUT_OF_MEMORY : FERRY_ERROR_COMPILE;
    ferryi_fail(status, "compile with %s: %sCompileProgram: %s%s%s",
                *job->target ? job->target : "the architecture of its options", compiler->prefix,
                compiler->GetErrorString(result), text ? ":\n" : "", text ? text : "");
    free(text);
    return status;
}

/* -- compiling --------------------------------------------------------------------------------- */

ferry_status
ferryi_compiler_failed(const struct ferryi_compiler *compiler, const char *call, int result)
{
    ferry_status status =
        result == FERRYI_COMPILER_OUT_OF_MEMORY ? FERRY_ERROR_OUT_OF_MEMORY : FERRY_ERROR_COMPILE;
    return ferryi_fail(status, "%s%s: %s", compiler->prefix, call,
                       compiler->GetErrorString(result));
}

static ferry_status
run_compiler(const struct ferryi_compiler *compiler, ferryi_program program,
             const struct ferryi_compiler_job *job, const struct ferryi_log *log)
{
    const char **options = calloc(job->option_count + 2, sizeof(*options));
    if (!options)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu options",
                           job->option_count);
    size_t count = 0;
    if (*job->target)
        options[count++] = job->target;
    for (size_t i = 0; i < job->option_count; i++)
        options[count++] = job->options[i];
    if (job->exact)
        options[count++] = compiler->exact_option; /* of several, the last one counts */
    int result = compiler->CompileProgram(program, (int)count, options);
    ferry_status status = result == FERRYI_COMPILER_SUCCESS
                              ? FERRY_OK
                              : compile_failed(compiler, program, result, job, log);
    free(options);
    return status;
}

static ferry_status
compile(const struct ferryi_compiler *compiler, const struct ferryi_compiler_job *job,
        const struct ferryi_log *log, struct ferryi_compiled *out)
{
    char file[128];
    snprintf(file, sizeof(file), "%s%s", job->name, compiler->suffix);
    ferryi_program program = NULL;
    int result = compiler->CreateProgram(&program, job->text, file, 0, NULL, NULL);
    if (result != FERRYI_COMPILER_SUCCESS)
        return ferryi_compiler_failed(compiler, "CreateProgram", result);
    ferry_status status = run_compiler(compiler, program, job, log);
    if (status == FERRY_OK) {
        char *warnings = program_log(compiler, program);
        write_log(log, job->name, warnings);
        free(warnings);
        status = compiler->take_image(compiler, program, out);
    }
    compiler->DestroyProgram(&program);
    return status;
}

/* -- keeping ----------------------------------------------------------------------------------- */

/* Returns the folder that an option adds to the search for headers, or NULL. */
static const char *
include_folder(const char *option)
{
    if (strncmp(option, "--include-path=", 15) == 0 && option[15])
        return option + 15;
    return strncmp(option, "-I", 2) == 0 && option[2] && option[2] != '=' ? option + 2 : NULL;
}

/*
 * Returns whether the options determine the compiled code together with the files that the source
 * includes. Options that read or write other files prevent caching: those for headers that are
 * included first, precompiled headers and time traces. So do options for debuggers and profilers,
 * because they put the working folder into the code.
 */
static bool
is_determined(const struct ferryi_compiler *compiler, const struct ferryi_compiler_job *job)
{
    static const char *const words[] = {"include", "embed", "pch",      "trace",
                                        "debug",   "-G",    "lineinfo", "line-info"};
    for (size_t i = 0; i < job->option_count; i++)
        for (size_t word = 0; word < sizeof(words) / sizeof(words[0]); word++)
            if (!include_folder(job->options[i]) && strstr(job->options[i], words[word]))
                return false;
    /* `-I` alone takes the next option as its value. */
    for (size_t i = 0; i < job->option_count; i++)
        if (strncmp(job->options[i], "-I", 2) == 0 && !include_folder(job->options[i]))
            return false;
    for (size_t i = 0; i < 2; i++)
        if (getenv(compiler->option_variables[i]))
            return false;
    return true;
}

static void
add_text(struct ferryi_sha256 *state, const char *text)
{
    ferryi_sha256_add_piece(state, text, strlen(text));
}

/* Adds the files that the source includes. Returns false if they are not determined. */
static bool
add_includes(struct ferryi_sha256 *state, const struct ferryi_compiler_job *job)
{
    const char **folders = calloc(job->option_count + 1, sizeof(*folders));
    struct ferryi_includes includes = {.text = job->text, .folders = folders};
    for (size_t i = 0; folders && i < job->option_count; i++)
        if (include_folder(job->options[i]))
            folders[includes.folder_count++] = include_folder(job->options[i]);
    bool determined = folders && ferryi_includes_hash(&includes, state);
    free(folders);
    return determined;
}

/* Computes the key of the code. Returns false if the code must not be cached. */
static bool
make_key(const struct ferryi_compiler *compiler, const struct ferryi_compiler_job *job,
         struct ferryi_disk_cache_key *out)
{
    struct ferryi_sha256 state;
    if (!is_determined(compiler, job))
        return false;
    ferryi_disk_cache_key_begin(&state);
    ferryi_sha256_add_piece(&state, &compiler->version, sizeof(compiler->version));
    ferryi_sha256_add_piece(&state, compiler->mark, sizeof(compiler->mark));
    add_text(&state, compiler->prefix);
    add_text(&state, job->target);
    for (size_t i = 0; i < job->option_count; i++)
        add_text(&state, job->options[i]);
    if (job->exact)
        add_text(&state, compiler->exact_option);
    /* The kernel's name is part of the cache key, because the compiler stores the name in the code
     * as the name of the source file. */
    add_text(&state, job->name);
    add_text(&state, job->text);
    bool determined = add_includes(&state, job);
    ferryi_sha256_end(&state, out->bytes);
    return determined;
}

ferry_status
ferryi_compiler_compile(const struct ferryi_compiler *compiler,
                        const struct ferryi_compiler_job *job, const struct ferryi_log *log,
                        struct ferryi_compiled *out)
{
    struct ferryi_disk_cache_key key, after;
    if (!job->keep || !make_key(compiler, job, &key))
        return compile(compiler, job, log, out);
    if (ferryi_disk_cache_find(&key, job->name, log, &out->bytes, &out->size))
        return FERRY_OK;
    ferry_status status = compile(compiler, job, log, out);
    /* A header that changed meanwhile may be in the code. */
    if (status == FERRY_OK && make_key(compiler, job, &after) &&
        memcmp(&key, &after, sizeof(key)) == 0)
        ferryi_disk_cache_keep(&key, job->name, log, out->bytes, out->size);
    return status;
}
