/* SPDX-License-Identifier: MIT */
#include "src/device/hip/hiprtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/fork.h"

/* The newest and the oldest release of ROCm whose libraries are tried. */
#define NEWEST_MAJOR 7
#define OLDEST_MAJOR 5

/* Expands X(name, parameters) for each function of hiprtc beside those of compiler.h. */
#define HIPRTC_FUNCTIONS(X)                                                                        \
    X(hiprtcGetCodeSize, (ferryi_program program, size_t * size))                                  \
    X(hiprtcGetCode, (ferryi_program program, char *code))

struct hiprtc {
    struct ferryi_compiler base;
#define MEMBER(name, parameters) int(*name) parameters;
    HIPRTC_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* The compiler of the process. Once loaded, it is never unloaded. */
FERRYI_MUTEX_CLASS(ferryi_hiprtc_mutex);
static struct ferryi_hiprtc_mutex loaded_mutex = FERRYI_MUTEX_INITIALIZER;
static struct ferryi_fork_part loading = {.mutex = FERRYI_SYSTEM_MUTEX(&loaded_mutex)};
FERRYI_AT_FORK(loading)
FERRYI_GUARDED_BY(ferryi_hiprtc_mutex) static struct hiprtc loaded;
FERRYI_GUARDED_BY(ferryi_hiprtc_mutex) static bool is_loaded;

static ferry_status
take_image(const struct ferryi_compiler *compiler, ferryi_program program,
           struct ferryi_compiled *out)
{
    const struct hiprtc *hiprtc = (const struct hiprtc *)compiler;
    size_t size = 0;
    int result = hiprtc->hiprtcGetCodeSize(program, &size);
    if (result != FERRYI_COMPILER_SUCCESS)
        return ferryi_compiler_failed(compiler, "GetCodeSize", result);
    char *bytes = malloc(size + 1);
    if (!bytes)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes of code", size);
    bytes[size] = 0;
    result = hiprtc->hiprtcGetCode(program, bytes);
    if (result != FERRYI_COMPILER_SUCCESS) {
        free(bytes);
        return ferryi_compiler_failed(compiler, "GetCode", result);
    }
    *out = (struct ferryi_compiled){bytes, size};
    return FERRY_OK;
}

/* -- loading ----------------------------------------------------------------------------------- */

static const char *
find_functions(void *library, struct hiprtc *hiprtc, char name[64])
{
    const char *missing = ferryi_compiler_find(library, &hiprtc->base, name);
    void *symbol;
#define FIND(function, parameters)                                                                 \
    symbol = ferryi_library_symbol(library, #function);                                            \
    if (!symbol)                                                                                   \
        missing = #function;                                                                       \
    else                                                                                           \
        memcpy(&hiprtc->function, &symbol, sizeof(symbol));
    HIPRTC_FUNCTIONS(FIND)
#undef FIND
    return missing;
}

static ferry_status
load(const char *name, struct hiprtc *out)
{
    static const char *const variables[] = {"AMD_COMGR_OPTIONS_APPEND",
                                            "HIPRTC_COMPILE_OPTIONS_APPEND"};
    char reason[256] = "", symbol[64];
    int major = 0, minor = 0;
    struct hiprtc hiprtc = {.base = {.prefix = "hiprtc",
                                     .suffix = ".hip",
                                     .exact_option = "-ffp-contract=off",
                                     .option_variables = variables,
                                     .take_image = take_image}};
    void *library = ferryi_library_open(name, reason, sizeof(reason));
    if (!library)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "load hiprtc, which compiles kernels: %s",
                           reason);
    const char *missing = find_functions(library, &hiprtc, symbol);
    if (missing)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "load hiprtc, which compiles kernels: %s has no %s", name, missing);
    if (hiprtc.base.Version(&major, &minor) != FERRYI_COMPILER_SUCCESS)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "load hiprtc: it does not report its version");
    hiprtc.base.version = 10 * major + minor;
    ferryi_library_mark(ferryi_library_symbol(library, "hiprtcCompileProgram"), hiprtc.base.mark);
    *out = hiprtc;
    return FERRY_OK;
}

/* Loads the compiler of a release. Old releases have it in the library of HIP itself. */
static ferry_status
load_release(int major, struct hiprtc *out)
{
    char name[32];
    snprintf(name, sizeof(name), "libhiprtc.so.%d", major);
    if (load(name, out) == FERRY_OK)
        return FERRY_OK;
    snprintf(name, sizeof(name), "libamdhip64.so.%d", major);
    return load(name, out);
}

static ferry_status
load_any(int major, struct hiprtc *out)
{
    const char *wanted = ferryi_getenv("FERRY_HIPRTC_LIBRARY");
    if (wanted && *wanted)
        return load(wanted, out);
    ferry_status status = major ? load_release(major, out) : FERRY_ERROR_UNSUPPORTED;
    for (int i = NEWEST_MAJOR; i >= OLDEST_MAJOR && status != FERRY_OK; i--)
        status = load_release(i, out);
    return status;
}

/* Copies the compiler, which is loaded at the first call. If loading fails, the next call tries
 * again. */
static ferry_status
get_hiprtc(int major, struct hiprtc *out)
{
    ferry_status status = FERRY_OK;
    ferryi_mutex_lock(&loaded_mutex);
    if (!is_loaded) {
        status = load_any(major, &loaded);
        is_loaded = status == FERRY_OK;
    }
    *out = loaded;
    ferryi_mutex_unlock(&loaded_mutex);
    return status;
}

ferry_status
ferryi_hiprtc_compile(const struct ferryi_compiler_job *job, const char *target, int major,
                      const struct ferryi_log *log, struct ferryi_compiled *out)
{
    struct hiprtc hiprtc;
    struct ferryi_compiler_job targeted = *job;
    char option[192];
    FERRYI_OR_RETURN(get_hiprtc(major, &hiprtc));
    snprintf(option, sizeof(option), "--offload-arch=%s", target);
    targeted.target = option;
    return ferryi_compiler_compile(&hiprtc.base, &targeted, log, out);
}
