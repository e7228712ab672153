/* SPDX-License-Identifier: MIT */
#include "src/device/cuda/nvrtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/fork.h"
#include "src/device/disk_cache.h"
#include "src/device/includes.h"

/* Ferry declares NVRTC's functions itself, because it is built without the CUDA Toolkit. All of
 * these functions exist since NVRTC 11.2. */
typedef int nvrtc_result;
typedef struct nvrtc_program_data *nvrtc_program;

#define NVRTC_SUCCESS             0
#define NVRTC_ERROR_OUT_OF_MEMORY 1

/* Expands X(name, parameters) for each NVRTC function. */
#define NVRTC_FUNCTIONS(X)                                                                         \
    X(nvrtcVersion, (int *major, int *minor))                                                      \
    X(nvrtcGetNumSupportedArchs, (int *count))                                                     \
    X(nvrtcGetSupportedArchs, (int *architectures))                                                \
    X(nvrtcCreateProgram,                                                                          \
      (nvrtc_program * out, const char *text, const char *name, int header_count,                  \
       const char *const *headers, const char *const *header_names))                               \
    X(nvrtcDestroyProgram, (nvrtc_program * program))                                              \
    X(nvrtcCompileProgram, (nvrtc_program program, int option_count, const char *const *options))  \
    X(nvrtcGetPTXSize, (nvrtc_program program, size_t * size))                                     \
    X(nvrtcGetPTX, (nvrtc_program program, char *text))                                            \
    X(nvrtcGetCUBINSize, (nvrtc_program program, size_t * size))                                   \
    X(nvrtcGetCUBIN, (nvrtc_program program, char *bytes))                                         \
    X(nvrtcGetProgramLogSize, (nvrtc_program program, size_t * size))                              \
    X(nvrtcGetProgramLog, (nvrtc_program program, char *text))

/* A loaded NVRTC library. Ferry never closes such a library. */
struct nvrtc {
    char *name; /* the name by which the library was opened; several names may open the same library
                 */
    void *library;
    int version;      /* 10 * major + minor */
    uint64_t mark[3]; /* identifies the library's file, because an update may replace the file
                         without a new version number */
    int *architectures, architecture_count; /* sorted in ascending order */
    const char *(*nvrtcGetErrorString)(nvrtc_result result);
#define MEMBER(name, parameters) nvrtc_result(*name) parameters;
    NVRTC_FUNCTIONS(MEMBER)
#undef MEMBER
    struct nvrtc *next;
};

FERRYI_MUTEX_CLASS(ferryi_nvrtc_mutex);
static struct ferryi_nvrtc_mutex loaded_mutex = FERRYI_MUTEX_INITIALIZER;
static struct ferryi_fork_part loading = {.mutex = FERRYI_SYSTEM_MUTEX(&loaded_mutex)};
FERRYI_AT_FORK(loading)
FERRYI_GUARDED_BY(ferryi_nvrtc_mutex) static struct nvrtc *loaded;

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
find_functions(void *library, struct nvrtc *nvrtc)
{
    const char *missing = NULL;
    void *symbol;
#define FIND(function, parameters)                                                                 \
    symbol = ferryi_library_symbol(library, #function);                                            \
    if (!symbol)                                                                                   \
        missing = #function;                                                                       \
    else                                                                                           \
        memcpy(&nvrtc->function, &symbol, sizeof(symbol));
    NVRTC_FUNCTIONS(FIND)
    FIND(nvrtcGetErrorString, )
#undef FIND
    return missing;
}

static ferry_status
learn_architectures(struct nvrtc *nvrtc)
{
    int major = 0, minor = 0, count = 0;
    if (nvrtc->nvrtcVersion(&major, &minor) != NVRTC_SUCCESS ||
        nvrtc->nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count <= 0)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "load NVRTC: it does not report its version and architectures");
    nvrtc->version = 10 * major + minor;
    nvrtc->architecture_count = count;
    nvrtc->architectures = calloc((size_t)count, sizeof(int));
    if (!nvrtc->architectures)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "load NVRTC: no memory for its %d architectures", count);
    if (nvrtc->nvrtcGetSupportedArchs(nvrtc->architectures) != NVRTC_SUCCESS)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "load NVRTC: it does not report its architectures");
    return FERRY_OK;
}

static ferry_status
load(const char *name, struct nvrtc **out)
{
    char reason[256] = "";
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
    const char *missing = find_functions(library, nvrtc);
    if (missing) {
        status = ferryi_fail(
            FERRY_ERROR_UNSUPPORTED,
            "load NVRTC, which compiles kernels: it has no %s; 11.2 or newer is needed", missing);
        goto fail;
    }
    status = learn_architectures(nvrtc);
    if (status != FERRY_OK)
        goto fail;
    ferryi_library_mark(ferryi_library_symbol(library, "nvrtcCompileProgram"), nvrtc->mark);
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

/* The option that forbids fused operations. */
#define EXACT_OPTION "--fmad=false"

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
                           nvrtc->version / 10, nvrtc->version % 10, nvrtc->architectures[0] / 10,
                           nvrtc->architectures[0] % 10, source->architecture / 10,
                           source->architecture % 10);
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

/* -- the log ----------------------------------------------------------------------------------- */

/* Returns the compiler's log of a program, or NULL if the log is empty. The caller frees the text.
 */
static char *
program_log(const struct nvrtc *nvrtc, nvrtc_program program)
{
    size_t size = 0;
    if (nvrtc->nvrtcGetProgramLogSize(program, &size) != NVRTC_SUCCESS || size <= 1)
        return NULL;
    char *text = malloc(size + 1);
    if (!text || nvrtc->nvrtcGetProgramLog(program, text) != NVRTC_SUCCESS) {
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
compile_failed(const struct nvrtc *nvrtc, nvrtc_program program, nvrtc_result result,
               const char *architecture, const struct ferryi_nvrtc_source *source,
               const struct ferryi_log *log)
{
    char *text = program_log(nvrtc, program);
    write_log(log, source->name, text);
    ferry_status status =
        result == NVRTC_ERROR_OUT_OF_MEMORY ? FERRY_ERROR_OUT_OF_MEMORY : FERRY_ERROR_COMPILE;
    ferryi_fail(status, "compile with %s: nvrtcCompileProgram: %s%s%s",
                *architecture ? architecture : "the architecture of its options",
                nvrtc->nvrtcGetErrorString(result), text ? ":\n" : "", text ? text : "");
    free(text);
    return status;
}

/* -- compiling --------------------------------------------------------------------------------- */

static ferry_status
call_failed(const struct nvrtc *nvrtc, const char *call, nvrtc_result result)
{
    ferry_status status =
        result == NVRTC_ERROR_OUT_OF_MEMORY ? FERRY_ERROR_OUT_OF_MEMORY : FERRY_ERROR_COMPILE;
    return ferryi_fail(status, "%s: %s", call, nvrtc->nvrtcGetErrorString(result));
}

/* Sets `*out` to the cubin if NVRTC made one, and to the PTX otherwise. */
static ferry_status
take_image(const struct nvrtc *nvrtc, nvrtc_program program, struct ferryi_nvrtc_image *out)
{
    size_t size = 0;
    bool binary = nvrtc->nvrtcGetCUBINSize(program, &size) == NVRTC_SUCCESS && size > 0;
    nvrtc_result result = binary ? NVRTC_SUCCESS : nvrtc->nvrtcGetPTXSize(program, &size);
    if (result != NVRTC_SUCCESS)
        return call_failed(nvrtc, "nvrtcGetPTXSize", result);
    char *bytes = malloc(size + 1);
    if (!bytes)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes of code", size);
    bytes[size] = 0;
    result = binary ? nvrtc->nvrtcGetCUBIN(program, bytes) : nvrtc->nvrtcGetPTX(program, bytes);
    if (result != NVRTC_SUCCESS) {
        free(bytes);
        return call_failed(nvrtc, binary ? "nvrtcGetCUBIN" : "nvrtcGetPTX", result);
    }
    *out = (struct ferryi_nvrtc_image){bytes, size};
    return FERRY_OK;
}

static ferry_status
run_compiler(const struct nvrtc *nvrtc, nvrtc_program program,
             const struct ferryi_nvrtc_source *source, const char *architecture,
             const struct ferryi_log *log)
{
    const char **options = calloc(source->option_count + 2, sizeof(*options));
    if (!options)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu options",
                           source->option_count);
    size_t count = 0;
    if (*architecture)
        options[count++] = architecture;
    for (size_t i = 0; i < source->option_count; i++)
        options[count++] = source->options[i];
    if (source->exact)
        options[count++] = EXACT_OPTION; /* of several, the last one counts */
    nvrtc_result result = nvrtc->nvrtcCompileProgram(program, (int)count, options);
    ferry_status status = result == NVRTC_SUCCESS
                              ? FERRY_OK
                              : compile_failed(nvrtc, program, result, architecture, source, log);
    free(options);
    return status;
}

static ferry_status
compile(const struct nvrtc *nvrtc, const struct ferryi_nvrtc_source *source,
        const char *architecture, const struct ferryi_log *log, struct ferryi_nvrtc_image *out)
{
    char file[128];
    snprintf(file, sizeof(file), "%s.cu", source->name);
    nvrtc_program program = NULL;
    nvrtc_result result = nvrtc->nvrtcCreateProgram(&program, source->text, file, 0, NULL, NULL);
    if (result != NVRTC_SUCCESS)
        return call_failed(nvrtc, "nvrtcCreateProgram", result);
    ferry_status status = run_compiler(nvrtc, program, source, architecture, log);
    if (status == FERRY_OK) {
        char *warnings = program_log(nvrtc, program);
        write_log(log, source->name, warnings);
        free(warnings);
        status = take_image(nvrtc, program, out);
    }
    nvrtc->nvrtcDestroyProgram(&program);
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
is_determined(const struct ferryi_nvrtc_source *source)
{
    static const char *const words[] = {"include", "embed", "pch",      "trace",
                                        "debug",   "-G",    "lineinfo", "line-info"};
    for (size_t i = 0; i < source->option_count; i++)
        for (size_t word = 0; word < sizeof(words) / sizeof(words[0]); word++)
            if (!include_folder(source->options[i]) && strstr(source->options[i], words[word]))
                return false;
    /* `-I` alone takes the next option as its value. */
    for (size_t i = 0; i < source->option_count; i++)
        if (strncmp(source->options[i], "-I", 2) == 0 && !include_folder(source->options[i]))
            return false;
    /* These environment variables add options that Ferry does not see. */
    return !getenv("NVRTC_PREPEND_FLAGS") && !getenv("NVRTC_APPEND_FLAGS");
}

static void
add_text(struct ferryi_sha256 *state, const char *text)
{
    ferryi_sha256_add_piece(state, text, strlen(text));
}

/* Adds the files that the source includes. Returns false if they are not determined. */
static bool
add_includes(struct ferryi_sha256 *state, const struct ferryi_nvrtc_source *source)
{
    const char **folders = calloc(source->option_count + 1, sizeof(*folders));
    struct ferryi_includes includes = {.text = source->text, .folders = folders};
    for (size_t i = 0; folders && i < source->option_count; i++)
        if (include_folder(source->options[i]))
            folders[includes.folder_count++] = include_folder(source->options[i]);
    bool determined = folders && ferryi_includes_hash(&includes, state);
    free(folders);
    return determined;
}

/* Computes the key of the code. Returns false if the code must not be cached. */
static bool
make_key(const struct nvrtc *nvrtc, const struct ferryi_nvrtc_source *source,
         const char *architecture, struct ferryi_disk_cache_key *out)
{
    struct ferryi_sha256 state;
    if (!is_determined(source))
        return false;
    ferryi_disk_cache_key_begin(&state);
    ferryi_sha256_add_piece(&state, &nvrtc->version, sizeof(nvrtc->version));
    ferryi_sha256_add_piece(&state, nvrtc->mark, sizeof(nvrtc->mark));
    add_text(&state, architecture);
    for (size_t i = 0; i < source->option_count; i++)
        add_text(&state, source->options[i]);
    if (source->exact)
        add_text(&state, EXACT_OPTION);
    /* The kernel's name is part of the cache key, because NVRTC stores the name in the code as the
     * name of the source file. */
    add_text(&state, source->name);
    add_text(&state, source->text);
    bool determined = add_includes(&state, source);
    ferryi_sha256_end(&state, out->bytes);
    return determined;
}

ferry_status
ferryi_nvrtc_compile(const struct ferryi_nvrtc_source *source, const struct ferryi_log *log,
                     struct ferryi_nvrtc_image *out)
{
    struct nvrtc *nvrtc;
    char architecture[48];
    FERRYI_OR_RETURN(choose_nvrtc(source, &nvrtc, architecture, sizeof(architecture)));
    struct ferryi_disk_cache_key key, after;
    if (!source->keep || !make_key(nvrtc, source, architecture, &key))
        return compile(nvrtc, source, architecture, log, out);
    if (ferryi_disk_cache_find(&key, source->name, log, &out->bytes, &out->size))
        return FERRY_OK;
    ferry_status status = compile(nvrtc, source, architecture, log, out);
    /* A header that changed meanwhile may be in the code. */
    if (status == FERRY_OK && make_key(nvrtc, source, architecture, &after) &&
        memcmp(&key, &after, sizeof(key)) == 0)
        ferryi_disk_cache_keep(&key, source->name, log, out->bytes, out->size);
    return status;
}
