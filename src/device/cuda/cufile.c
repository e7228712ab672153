/* SPDX-License-Identifier: MIT */
#include "src/device/cuda/cufile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/base/file.h"
#include "src/base/fork.h"
#include "src/device/cuda/cufile_abi.h"

/* The functions are written once, with the mutex held, before any file is opened. */
static struct {
#define MEMBER(type, name, parameters) type(*name) parameters;
    FERRYI_CUFILE_FUNCTIONS(MEMBER)
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
refused(const char *function, struct ferryi_cufile_result result)
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
    FERRYI_CUFILE_FUNCTIONS(FIND)
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
    struct ferryi_cufile_properties properties = {0};
    struct ferryi_cufile_result result = cufile.cuFileDriverGetProperties(&properties);
    if (result.error)
        return refused("cuFileDriverGetProperties", result);
    if ((properties.control & (1u << FERRYI_CUFILE_ALLOWS_COMPATIBLE)) &&
        properties.module_major == 0 && properties.module_minor == 0)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "nvidia-fs is not loaded, so cuFile moves bytes through host memory");
    return FERRY_OK;
}

/* Closes the driver of cuFile. If its device is not `usable`, leaves it open, because closing it
 * makes calls of the CUDA driver. */
FERRYI_REQUIRES(ferryi_files_mutex)
static void
close_driver(bool usable)
{
    if (is_ours && usable)
        (void)cufile.cuFileDriverClose_v2();
    is_ours = false;
}

FERRYI_REQUIRES(ferryi_files_mutex)
static ferry_status
open_driver(void)
{
    if (!is_loaded)
        FERRYI_OR_RETURN(load());
    struct ferryi_cufile_result result = cufile.cuFileDriverOpen();
    if (result.error && result.error != FERRYI_CUFILE_ALREADY_OPEN)
        return refused("cuFileDriverOpen", result);
    is_ours = result.error == 0;
    ferry_status status = check_driver();
    if (status != FERRY_OK)
        close_driver(true);
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
end(struct ferryi_gpu_device *gpu, bool usable)
{
    ferryi_mutex_lock(&mutex);
    if (atomic_exchange(&gpu->uses_files, false) && --users == 0)
        close_driver(usable);
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
    struct ferryi_cufile_descriptor descriptor = {.type = FERRYI_CUFILE_TYPE_FD, .file.fd = fd};
    struct ferryi_cufile_result result = cufile.cuFileHandleRegister(out, &descriptor);
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
        return refused(function, (struct ferryi_cufile_result){.error = (int)-result});
    return ferryi_fail(FERRY_ERROR_IO, "%s: %s", function,
                       result < 0 ? strerror(error) : "it ended too early");
}

const struct ferryi_gpu_file_calls ferryi_cufile_calls = {
    .open = open_file, .copy = copy_bytes, .close = close_file, .end = end};
