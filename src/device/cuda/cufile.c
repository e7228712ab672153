/* SPDX-License-Identifier: MIT */
#include "src/device/cuda/cufile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "src/base/file.h"
#include "src/base/fork.h"

/* -- what the library declares ----------------------------------------------------------------- */

/* Ferry declares the functions and types of cuFile itself, because it is built without the CUDA
 * Toolkit. */

struct cufile_result {
    int error;               /* 0, or a number above 5000 */
    unsigned int cuda_error; /* the driver's error, if that is the cause */
};

#define CUFILE_ALREADY_OPEN 5026

struct cufile_descriptor {
    int type;
    union {
        int fd;
        void *handle;
    } file;
    const void *file_system; /* functions of a file system in user space; NULL: none */
};

#define CUFILE_TYPE_FD 1

struct cufile_properties {
    unsigned int module_major, module_minor; /* version of nvidia-fs; 0.0: it is not loaded */
    size_t poll_bytes, direct_kilobytes;
    unsigned int file_systems, control; /* sets of bits */
    unsigned int rest[64];              /* newer releases append members */
};

#define CUFILE_COMPATIBLE (1u << 1) /* in `control`: the compatibility mode is allowed */

/* Expands X(type, name, parameters) for each function. cuFileGetVersion is not called. It shows
 * that the release is newer than 1.7: the driver of some older ones fails when the process ends. */
#define CUFILE_FUNCTIONS(X)                                                                        \
    X(struct cufile_result, cuFileGetVersion, (int *version))                                      \
    X(struct cufile_result, cuFileDriverOpen, (void))                                              \
    X(struct cufile_result, cuFileDriverClose_v2, (void))                                          \
    X(struct cufile_result, cuFileDriverGetProperties, (struct cufile_properties * properties))    \
    X(struct cufile_result, cuFileHandleRegister,                                                  \
      (void **handle, struct cufile_descriptor *descriptor))                                       \
    X(void, cuFileHandleDeregister, (void *handle))                                                \
    X(ssize_t, cuFileRead,                                                                         \
      (void *handle, void *memory, size_t bytes, off_t file_offset, off_t memory_offset))          \
    X(ssize_t, cuFileWrite,                                                                        \
      (void *handle, const void *memory, size_t bytes, off_t file_offset, off_t memory_offset))

/* The functions are written once, with the mutex held, before any file is opened. */
static struct {
#define MEMBER(type, name, parameters) type(*name) parameters;
    CUFILE_FUNCTIONS(MEMBER)
#undef MEMBER
} cufile;

static struct ferryi_files_mutex mutex = FERRYI_MUTEX_INITIALIZER;
static struct ferryi_fork_part opening = {.mutex = FERRYI_SYSTEM_MUTEX(&mutex)};
FERRYI_AT_FORK(opening)
FERRYI_GUARDED_BY(ferryi_files_mutex) static bool is_loaded;
FERRYI_GUARDED_BY(ferryi_files_mutex) static unsigned users; /* devices that use cuFile */
/* Whether Ferry opened cuFile's driver. If not, another library of the process did, and closes it.
 */
FERRYI_GUARDED_BY(ferryi_files_mutex) static bool is_ours;

/* -- loading ----------------------------------------------------------------------------------- */

static ferry_status
refused(const char *function, struct cufile_result result)
{
    return result.cuda_error
               ? ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%s: cuFile error %d, CUDA error %u",
                             function, result.error, result.cuda_error)
               : ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%s: cuFile error %d", function,
                             result.error);
}

FERRYI_REQUIRES(ferryi_files_mutex)
static ferry_status
load(void)
{
    const char *name = ferryi_getenv("FERRY_CUFILE_LIBRARY"), *missing = NULL;
    char reason[256] = "";
    void *symbol, *library = ferryi_library_open(name && *name ? name : "libcufile.so.0", reason,
                                                 sizeof(reason));
    if (!library)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "load cuFile: %s", reason);
#define FIND(type, name, parameters)                                                               \
    symbol = ferryi_library_symbol(library, #name);                                                \
    if (!symbol)                                                                                   \
        missing = #name;                                                                           \
    else                                                                                           \
        memcpy(&cufile.name, &symbol, sizeof(symbol));
    CUFILE_FUNCTIONS(FIND)
#undef FIND
    if (missing)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "load cuFile: it has no %s; a release after 1.7 is needed", missing);
    is_loaded = true;
    return FERRY_OK;
}

/* Fails if the driver of cuFile would move all bytes through host memory. */
static ferry_status
check_driver(void)
{
    struct cufile_properties properties = {0};
    struct cufile_result result = cufile.cuFileDriverGetProperties(&properties);
    if (result.error)
        return refused("cuFileDriverGetProperties", result);
    if ((properties.control & CUFILE_COMPATIBLE) && properties.module_major == 0 &&
        properties.module_minor == 0)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "nvidia-fs is not loaded, so cuFile moves bytes through host memory");
    return FERRY_OK;
}

FERRYI_REQUIRES(ferryi_files_mutex)
static void
close_driver(void)
{
    if (is_ours)
        (void)cufile.cuFileDriverClose_v2();
    is_ours = false;
}

FERRYI_REQUIRES(ferryi_files_mutex)
static ferry_status
open_driver(void)
{
    if (!is_loaded)
        FERRYI_OR_RETURN(load());
    struct cufile_result result = cufile.cuFileDriverOpen();
    if (result.error && result.error != CUFILE_ALREADY_OPEN)
        return refused("cuFileDriverOpen", result);
    is_ours = result.error == 0;
    ferry_status status = check_driver();
    if (status != FERRY_OK)
        close_driver();
    return status;
}

/* -- use by devices ---------------------------------------------------------------------------- */

/* Makes the device a user of cuFile, if it is none. A device is refused once, because opening the
 * driver takes long: later calls fail with the same message. */
FERRYI_REQUIRES(ferryi_files_mutex)
static ferry_status
use(struct ferryi_gpu_device *gpu)
{
    if (atomic_load(&gpu->uses_files))
        return FERRY_OK;
    if (gpu->why_no_files[0])
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%s", gpu->why_no_files);
    ferry_status status = users == 0 ? open_driver() : FERRY_OK;
    if (status != FERRY_OK) {
        snprintf(gpu->why_no_files, sizeof(gpu->why_no_files), "%s", ferry_last_error());
        return status;
    }
    users++;
    atomic_store(&gpu->uses_files, true);
    return FERRY_OK;
}

static void
end(void *gpu)
{
    ferryi_mutex_lock(&mutex);
    if (atomic_exchange(&((struct ferryi_gpu_device *)gpu)->uses_files, false) && --users == 0)
        close_driver();
    ferryi_mutex_unlock(&mutex);
}

/* -- files ------------------------------------------------------------------------------------- */

static ferry_status
open_file(struct ferryi_gpu_device *gpu, int fd, void **out)
{
    ferryi_mutex_lock(&mutex);
    ferry_status status = use(gpu);
    ferryi_mutex_unlock(&mutex);
    if (status != FERRY_OK)
        return status;
    struct cufile_descriptor descriptor = {.type = CUFILE_TYPE_FD, .file.fd = fd};
    struct cufile_result result = cufile.cuFileHandleRegister(out, &descriptor);
    return result.error ? refused("cuFileHandleRegister", result) : FERRY_OK;
}

static void
close_file(void *file)
{
    cufile.cuFileHandleDeregister(file);
}

/* Makes one call. A negative result is -1, with the reason in `errno`, or an error of cuFile. */
static ssize_t
transfer(void *file, const struct ferryi_file_copy *copy, size_t done)
{
    char *memory = (char *)copy->memory + done;
    const off_t offset = (off_t)(copy->offset + done);
    ssize_t result;
    do
        result = copy->stores ? cufile.cuFileWrite(file, memory, copy->bytes - done, offset, 0)
                              : cufile.cuFileRead(file, memory, copy->bytes - done, offset, 0);
    while (result == -1 && errno == EINTR);
    return result;
}

static ferry_status
copy_bytes(void *file, const struct ferryi_file_copy *copy, size_t *out_bytes)
{
    const char *function = copy->stores ? "cuFileWrite" : "cuFileRead";
    size_t done = 0;
    ssize_t result = FERRYI_FILE_ALIGN;
    while (done < copy->bytes && result > 0 && result % FERRYI_FILE_ALIGN == 0) {
        result = transfer(file, copy, done);
        done += result > 0 ? (size_t)result : 0;
    }
    const int error = errno;
    *out_bytes = done;
    if (done == copy->bytes)
        return FERRY_OK;
    if (result < -1)
        return refused(function, (struct cufile_result){.error = (int)-result});
    return ferryi_fail(FERRY_ERROR_IO, "%s: %s", function,
                       result < 0 ? strerror(error) : "it ended too early");
}

const struct ferryi_gpu_file_calls ferryi_cufile_calls = {
    .open = open_file, .copy = copy_bytes, .close = close_file, .end = end};
