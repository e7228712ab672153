/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_COMPILER_H
#define FERRYI_COMPILER_H

/*
 * A vendor's run-time compiler of kernels. The compilers of the vendors have the same functions
 * under names with different prefixes. A vendor's folder finds the library, chooses the target and
 * takes the image; this file compiles, reports the compiler's log, and uses the cache on disk
 * (disk_cache.h).
 */

#include "src/base/base.h"

typedef struct ferryi_program_data *ferryi_program;

#define FERRYI_COMPILER_SUCCESS       0
#define FERRYI_COMPILER_OUT_OF_MEMORY 1

/* Expands X(name, result, parameters) for each function that all compilers have. */
#define FERRYI_COMPILER_FUNCTIONS(X)                                                               \
    X(Version, int, (int *major, int *minor))                                                      \
    X(GetErrorString, const char *, (int result))                                                  \
    X(CreateProgram, int,                                                                          \
      (ferryi_program * out, const char *text, const char *name, int header_count,                 \
       const char *const *headers, const char *const *header_names))                               \
    X(DestroyProgram, int, (ferryi_program * program))                                             \
    X(CompileProgram, int, (ferryi_program program, int option_count, const char *const *options)) \
    X(GetProgramLogSize, int, (ferryi_program program, size_t * size))                             \
    X(GetProgramLog, int, (ferryi_program program, char *text))

/* Compiled code. The caller frees `bytes`; a NUL follows them. */
struct ferryi_compiled {
    void *bytes;
    size_t size;
};

/* A loaded compiler. A vendor's compiler has this struct as its first member. */
struct ferryi_compiler {
    const char *prefix;                  /* of the functions' names */
    const char *suffix;                  /* of the names of source files */
    const char *exact_option;            /* forbids fused operations */
    const char *const *option_variables; /* two environment variables that add options which Ferry
                                            does not see */
    int version;                         /* 10 * major + minor */
    uint64_t mark[3]; /* identifies the library's file, because an update may replace the file
                         without a new version number */
    ferry_status (*take_image)(const struct ferryi_compiler *compiler, ferryi_program program,
                               struct ferryi_compiled *out);
#define FERRYI_COMPILER_MEMBER(name, result, parameters) __typeof__(result)(*name) parameters;
    FERRYI_COMPILER_FUNCTIONS(FERRYI_COMPILER_MEMBER)
#undef FERRYI_COMPILER_MEMBER
};

struct ferryi_compiler_job {
    const char *name; /* name of the kernel, for messages */
    const char *text;
    const char *target; /* option that chooses the target; "" if the other options do */
    const char *const *options;
    size_t option_count;
    bool exact; /* whether no operations are fused, whatever the options say */
    bool keep;  /* whether to look the code up in the cache on disk before a compilation, and to
                   store  it there afterwards */
};

/* Finds the functions of a compiler whose prefix is set. Returns NULL, or `name`, to which the name
 * of a missing function was written. */
const char *ferryi_compiler_find(void *library, struct ferryi_compiler *compiler, char name[64]);

/*
 * Compiles a text. Writes the compiler's warnings to `log`, unless the code is found in the cache.
 * The cache knows which files the source includes (includes.h). Code that depends on other files
 * through an option is never cached.
 * @return FERRY_OK; FERRY_ERROR_COMPILE with the compiler's log in the message (and in `log`, line
 * by line); FERRY_ERROR_OUT_OF_MEMORY.
 */
ferry_status ferryi_compiler_compile(const struct ferryi_compiler *compiler,
                                     const struct ferryi_compiler_job *job,
                                     const struct ferryi_log *log, struct ferryi_compiled *out);

/* Fails with the message of a compiler's function, whose name is `call` after the prefix. */
ferry_status ferryi_compiler_failed(const struct ferryi_compiler *compiler, const char *call,
                                    int result);

#endif
