/* SPDX-License-Identifier: MIT */
#include "src/device/cuda/nvrtc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/fork.h"

/* Expands X(name, parameters) for each function of NVRTC beside those of compiler.h. Ferry declares
 * them itself, because it is built without the CUDA Toolkit. All exist since NVRTC 11.2. */
#define NVRTC_FUNCTIONS(X)                                                                         \
    X(nvrtcGetNumSupportedArchs, (int *count))                                                     \
    X(nvrtcGetSupportedArchs, (int *architectures))                                                \
    X(nvrtcGetPTXSize, (ferryi_program program, size_t * size))                                    \
    X(nvrtcGetPTX, (ferryi_program program, char *text))                                           \
    X(nvrtcGetCUBINSize, (ferryi_program program, size_t * size))                                  \
    X(nvrtcGetCUBIN, (ferryi_program program, char *bytes))

/* A loaded NVRTC library. Ferry never closes such a library. */
struct nvrtc {
    struct ferryi_compiler base;
    char *name; /* the name by which the library was opened; several names may open the same library
                 */
    void *library;
    int *architectures, architecture_count; /* sorted in ascending order */
#define MEMBER(name, parameters) int(*name) parameters;
    NVRTC_FUNCTIONS(MEMBER)
#undef MEMBER
    struct nvrtc *next;
};

FERRYI_MUTEX_CLASS(ferryi_nvrtc_mutex);
static struct ferryi_nvrtc_mutex loaded_mutex = FERRYI_MUTEX_INITIALIZER;
static struct ferryi_fork_part loading = {.mutex = FERRYI_SYSTEM_MUTEX(&loaded_mutex)};
FERRYI_AT_FORK(loading)
FERRYI_GUARDED_BY(ferryi_nvrtc_mutex) static struct nvrtc *loaded;

/* -- images ----------------------------------------------------------------------------------- */

/* Sets `*out` to the cubin if NVRTC made one, and to the PTX otherwise. */
static ferry_status
take_image(const struct ferryi_compiler *compiler, ferryi_program program,
           struct ferryi_compiled *out)
{
    const struct nvrtc *nvrtc = (const struct nvrtc *)compiler;
    size_t size = 0;
    bool binary = nvrtc->nvrtcGetCUBINSize(program, &size) == FERRYI_COMPILER_SUCCESS && size > 0;
    int result = binary ? FERRYI_COMPILER_SUCCESS : nvrtc->nvrtcGetPTXSize(program, &size);
    if (result != FERRYI_COMPILER_SUCCESS)
        return ferryi_compiler_failed(compiler, "GetPTXSize", result);
    char *bytes = malloc(size + 1);
    if (!bytes)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes of code", size);
    bytes[size] = 0;
    result = binary ? nvrtc->nvrtcGetCUBIN(program, bytes) : nvrtc->nvrtcGetPTX(program, bytes);
    if (result != FERRYI_COMPILER_SUCCESS) {
        free(bytes);
        return ferryi_compiler_failed(compiler, binary ? "GetCUBIN" : "GetPTX", result);
    }
    *out = (struct ferryi_compiled){bytes, size};
    return FERRY_OK;
}

static const char *const option_variables[] = {"NVRTC_PREPEND_FLAGS", "NVRTC_APPEND_FLAGS"};

/* -- loading ----------------------------------------------------------------------------------- */

static void
nvrtc_free(struct nvrtc *nvrtc)
{
    if (!nvrtc)
        return;
    free(nvrtc->name);
    free(nvrtc->architectures);
    free(nvrtc);
}

static const char *
find_functions(void *library, struct nvrtc *nvrtc, char name[64])
{
    const char *missing = ferryi_compiler_find(library, &nvrtc->base, name);
    void *symbol;
#define FIND(function, parameters)                                                                 \
    symbol = ferryi_library_symbol(library, #function);                                            \
    if (!symbol)                                                                                   \
        missing = #function;                                                                       \
    else                                                                                           \
        memcpy(&nvrtc->function, &symbol, sizeof(symbol));
    NVRTC_FUNCTIONS(FIND)
#undef FIND
    return missing;
}

static ferry_status
learn_architectures(struct nvrtc *nvrtc)
{
    int major = 0, minor = 0, count = 0;
    if (nvrtc->base.Version(&major, &minor) != FERRYI_COMPILER_SUCCESS ||
        nvrtc->nvrtcGetNumSupportedArchs(&count) != FERRYI_COMPILER_SUCCESS || count <= 0)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "load NVRTC: it does not report its version and architectures");
    nvrtc->base.version = 10 * major + minor;
    nvrtc->architecture_count = count;
    nvrtc->architectures = calloc((size_t)count, sizeof(int));
    if (!nvrtc->architectures)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "load NVRTC: no memory for its %d architectures", count);
    if (nvrtc->nvrtcGetSupportedArchs(nvrtc->architectures) != FERRYI_COMPILER_SUCCESS)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "load NVRTC: it does not report its architectures");
    return FERRY_OK;
}

static ferry_status
load(const char *name, struct nvrtc **out)
{
    char reason[256] = "", symbol[64];
    ferry_status status;
    struct nvrtc *nvrtc = calloc(1, sizeof(*nvrtc));
    if (!nvrtc || !(nvrtc->name = strdup(name))) {
        status = ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "load NVRTC: no memory for its functions");
        goto fail;
    }
    void *library = nvrtc->library = ferryi_library_open(name, reason, sizeof(reason));
    if (!library) {
        status =
            ferryi_fail(FERRY_ERROR_UNSUPPORTED, "load NVRTC, which compiles kernels: %s", reason);
        goto fail;
    }
    nvrtc->base.prefix = "nvrtc";
    nvrtc->base.suffix = ".cu";
    nvrtc->base.exact_option = "--fmad=false";
    nvrtc->base.option_variables = option_variables;
    nvrtc->base.take_image = take_image;
    const char *missing = find_functions(library, nvrtc, symbol);
    if (missing) {
        status = ferryi_fail(
            FERRY_ERROR_UNSUPPORTED,
            "load NVRTC, which compiles kernels: it has no %s; 11.2 or newer is needed", missing);
        goto fail;
    }
    status = learn_architectures(nvrtc);
    if (status != FERRY_OK)
        goto fail;
    ferryi_library_mark(ferryi_library_symbol(library, "nvrtcCompileProgram"), nvrtc->base.mark);
    *out = nvrtc;
    return FERRY_OK;

fail:
    nvrtc_free(nvrtc);
    return status;
}

/* Returns the NVRTC library whose file name is `name`. The first call for a name loads the library.
 * If loading fails, the next call for the same name tries again. */
static ferry_status
get_nvrtc(const char *name, struct nvrtc **out)
{
    ferry_status status = FERRY_OK;
    ferryi_mutex_lock(&loaded_mutex);
    struct nvrtc *nvrtc = loaded;
    while (nvrtc && strcmp(nvrtc->name, name) != 0)
        nvrtc = nvrtc->next;
    if (!nvrtc) {
        status = load(name, &nvrtc);
        if (status == FERRY_OK) {
            nvrtc->next = loaded;
            loaded = nvrtc;
        }
    }
    ferryi_mutex_unlock(&loaded_mutex);
    if (status == FERRY_OK)
        *out = nvrtc;
    return status;
}

/* -- options ----------------------------------------------------------------------------------- */

static bool
names_architecture(const char *option)
{
    return strncmp(option, "--gpu-architecture", 18) == 0 || strncmp(option, "-arch", 5) == 0;
}

static bool
user_chose_architecture(const struct ferryi_nvrtc_source *source)
{
    for (size_t i = 0; i < source->option_count; i++)
        if (names_architecture(source->options[i]))
            return true;
    return false;
}

/* Returns whether `known` is older than `architecture`, and PTX for `known` runs on a device of
 * `architecture`. PTX for 10.1 (the value 101) runs on no other architecture, because CUDA 13
 * renamed 10.1 to 11.0. */
static bool
is_portable(int known, int architecture)
{
    return known < architecture && known != 101;
}

/* Writes the NVRTC option for the architecture. The option selects `sm_` if NVRTC can make a cubin
 * for the architecture. Otherwise it selects `compute_` with the newest older architecture that
 * NVRTC supports. Writes "" if the program's options choose an architecture. */
static ferry_status
choose_architecture(const struct nvrtc *nvrtc, const struct ferryi_nvrtc_source *source, char *text,
                    size_t text_bytes)
{
    *text = 0;
    if (user_chose_architecture(source))
        return FERRY_OK;
    int best = 0;
    for (int i = 0; i < nvrtc->architecture_count; i++)
        if (nvrtc->architectures[i] == source->architecture ||
            is_portable(nvrtc->architectures[i], source->architecture))
            best = nvrtc->architectures[i];
    if (best == 0)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "NVRTC %d.%d knows no compute capability below %d.%d, and this is %d.%d",
                           nvrtc->base.version / 10, nvrtc->base.version % 10,
                           nvrtc->architectures[0] / 10, nvrtc->architectures[0] % 10,
                           source->architecture / 10, source->architecture % 10);
    bool exact = best == source->architecture && !source->portable;
    snprintf(text, text_bytes, "--gpu-architecture=%s_%d", exact ? "sm" : "compute", best);
    return FERRY_OK;
}

/* -- which library ----------------------------------------------------------------------------- */

/* Oldest and newest major release of NVRTC that Ferry can use. All minor releases of one major
 * release share a library name. */
#define OLDEST_MAJOR 11
#define NEWEST_MAJOR 13
#define NAME_BYTES   32
#define PATH_BYTES   4096

/* Ferry tries several file names to load NVRTC, in an order that depends on the driver's version.
 * Writes the name at position `index` of this order. Returns false if there are no more names. */
static bool
usual_name(int driver_version, int index, char name[NAME_BYTES])
{
    int own = driver_version == 0 ? NEWEST_MAJOR : driver_version / 1000;
    if (own < OLDEST_MAJOR)
        own = OLDEST_MAJOR;
    int older = own - OLDEST_MAJOR, newer = own < NEWEST_MAJOR ? NEWEST_MAJOR - own : 0;
    if (index > older + newer + 1)
        return false;
    int major = index <= older ? own - index : index - older + own;
    if (index == older + newer + 1)
        snprintf(name, NAME_BYTES, "libnvrtc.so");
    else
        snprintf(name, NAME_BYTES, "libnvrtc.so.%d%s", major, major == 11 ? ".2" : "");
    return true;
}

static size_t
count_folders(const char *folders)
{
    size_t count = folders && *folders;
    for (; folders && *folders; folders++)
        count += *folders == ':';
    return count;
}

/* Ferry tries each name in the folders of FERRY_NVRTC_FOLDERS, and then where the loader looks for
 * it. Writes the path or the name at position `index` of this order, or "" if a folder has no such
 * file. Returns false if there are no more names. */
static bool
usual_path(int driver_version, int index, char path[PATH_BYTES])
{
    const char *folders = ferryi_getenv("FERRY_NVRTC_FOLDERS");
    int count = (int)count_folders(folders), which = index % (count + 1);
    char name[NAME_BYTES];
    if (!usual_name(driver_version, index / (count + 1), name))
        return false;
    if (which == count) {
        snprintf(path, PATH_BYTES, "%s", name);
        return true;
    }
    for (; which > 0; which--)
        folders = strchr(folders, ':') + 1;
    int length = snprintf(path, PATH_BYTES, "%.*s/%s", (int)strcspn(folders, ":"), folders, name);
    if (length >= PATH_BYTES || *path != '/' || access(path, R_OK) != 0)
        *path = 0;
    return true;
}

/* Chooses the NVRTC library that compiles the source, and the option for its architecture. If no
 * library can be used, the error message is about the first library that could be loaded. */
static ferry_status
choose_nvrtc(const struct ferryi_nvrtc_source *source, struct nvrtc **out, char *architecture,
             size_t architecture_bytes)
{
    const char *wanted = ferryi_getenv("FERRY_NVRTC_LIBRARY");
    char usual[PATH_BYTES];
    const void *refused = NULL;
    struct ferryi_kept_error why;
    bool was_there = false;
    ferry_status status = FERRY_ERROR_UNSUPPORTED;
    for (int i = 0; wanted ? i == 0 : usual_path(source->driver_version, i, usual); i++) {
        struct nvrtc *nvrtc = NULL;
        if (!wanted && !*usual)
            continue;
        status = get_nvrtc(wanted ? wanted : usual, &nvrtc);
        if (status == FERRY_OK && nvrtc->library == refused)
            continue;
        if (status == FERRY_OK)
            status = choose_architecture(nvrtc, source, architecture, architecture_bytes);
        if (status == FERRY_OK && source->refused > 0 && !refused) {
            refused = nvrtc->library;
            continue;
        }
        if (status == FERRY_OK)
            *out = nvrtc;
        if (status != FERRY_ERROR_UNSUPPORTED)
            return status;
        if (nvrtc && !was_there)
            ferryi_last_error_keep(&why);
        was_there |= nvrtc != NULL;
    }
    if (refused)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "no other NVRTC is installed");
    if (was_there)
        ferryi_last_error_restore(&why);
    return status;
}

/* -- compiling --------------------------------------------------------------------------------- */

ferry_status
ferryi_nvrtc_compile(const struct ferryi_nvrtc_source *source, const struct ferryi_log *log,
                     struct ferryi_compiled *out)
{
    struct nvrtc *nvrtc = NULL;
    char architecture[48];
    FERRYI_OR_RETURN(choose_nvrtc(source, &nvrtc, architecture, sizeof(architecture)));
    assert(nvrtc);
    const struct ferryi_compiler_job job = {.name = source->name,
                                            .text = source->text,
                                            .target = architecture,
                                            .options = source->options,
                                            .option_count = source->option_count,
                                            .exact = source->exact,
                                            .keep = source->keep};
    return ferryi_compiler_compile(&nvrtc->base, &job, log, out);
}
