/* SPDX-License-Identifier: MIT */
#include "tests/support/fakecufile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "src/base/sanitizer.h"
#include "src/device/cuda/cufile_abi.h"

#if FERRYI_MEMORY_SANITIZER
#include <sanitizer/msan_interface.h>
#endif

#define EXPORT __attribute__((visibility("default")))

enum {
    ALIGN = 4096,
    PART = 64 * 1024, /* bytes of one copy by the driver */
    HANDLES = 64,
};

#define FAKECUFILE_DECLARE(type, name, parameters) EXPORT type name parameters;
FAKECUFILE_CONTROLS(FAKECUFILE_DECLARE)
FERRYI_CUFILE_FUNCTIONS(FAKECUFILE_DECLARE)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
/* Memory of the host for one copy, while the driver of cuFile is open. */
static void *aligned, *pinned;
static struct fakecufile_counts counts;
static int files[HANDLES]; /* descriptor + 1 of each registered handle; 0: free */
static bool no_module, not_compatible;
static struct {
    char symbol[32];
    int error, nth;
} failing;
static struct {
    size_t bytes;
    int nth;
} shortening;

/* -- the driver -------------------------------------------------------------------------------- */

static struct {
    int (*host_alloc)(void **out, size_t bytes, unsigned int flags);
    int (*host_free)(void *memory);
    int (*stream_create)(void **out, unsigned int flags);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*upload)(unsigned long long target, const void *source, size_t bytes, void *stream);
    int (*download)(void *target, unsigned long long source, size_t bytes, void *stream);
} driver;

static bool
find_driver(void)
{
    const char *name = getenv("FERRY_CUDA_LIBRARY");
    void *library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL, *address;
    bool whole = library != NULL;
#define FIND(member, symbol)                                                                       \
    address = library ? dlsym(library, symbol) : NULL;                                             \
    whole = whole && address;                                                                      \
    memcpy(&driver.member, &address, sizeof(address))
    FIND(host_alloc, "cuMemHostAlloc");
    FIND(host_free, "cuMemFreeHost");
    FIND(stream_create, "cuStreamCreate");
    FIND(stream_destroy, "cuStreamDestroy_v2");
    FIND(stream_synchronize, "cuStreamSynchronize");
    FIND(upload, "cuMemcpyHtoDAsync_v2");
    FIND(download, "cuMemcpyDtoHAsync_v2");
    return whole;
}

static bool
has_memory(void)
{
    return pinned || (find_driver() && posix_memalign(&aligned, ALIGN, PART) == 0 &&
                      driver.host_alloc(&pinned, PART, 1) == 0);
}

static void
free_memory(void)
{
    if (pinned)
        driver.host_free(pinned);
    free(aligned);
    aligned = pinned = NULL;
}

/* -- controls ---------------------------------------------------------------------------------- */

struct fakecufile_counts
fakecufile_counts(void)
{
    pthread_mutex_lock(&mutex);
    struct fakecufile_counts now = counts;
    pthread_mutex_unlock(&mutex);
    return now;
}

void
fakecufile_reset(void)
{
    pthread_mutex_lock(&mutex);
    counts = (struct fakecufile_counts){.opens = counts.opens - counts.closes,
                                        .handles = counts.handles};
    if (counts.opens == 0)
        free_memory();
    failing.nth = shortening.nth = 0;
    no_module = not_compatible = false;
    pthread_mutex_unlock(&mutex);
}

void
fakecufile_fail_next(const char *symbol, int error, int nth)
{
    pthread_mutex_lock(&mutex);
    strncpy(failing.symbol, symbol, sizeof(failing.symbol) - 1);
    failing.error = error;
    failing.nth = nth;
    pthread_mutex_unlock(&mutex);
}

void
fakecufile_shorten_next(size_t bytes, int nth)
{
    pthread_mutex_lock(&mutex);
    shortening.bytes = bytes;
    shortening.nth = nth;
    pthread_mutex_unlock(&mutex);
}

void
fakecufile_set_driver(bool module, bool compatible)
{
    pthread_mutex_lock(&mutex);
    no_module = !module;
    not_compatible = !compatible;
    pthread_mutex_unlock(&mutex);
}

/* Returns the error that this call of `symbol` must return, or 0. The mutex is held. */
static int
fails(const char *symbol)
{
    return failing.nth > 0 && strcmp(symbol, failing.symbol) == 0 && --failing.nth == 0
               ? failing.error
               : 0;
}

/* -- the driver of cuFile ---------------------------------------------------------------------- */

#ifndef FAKECUFILE_OLD
struct ferryi_cufile_result
cuFileGetVersion(int *version)
{
    *version = 1150;
    return (struct ferryi_cufile_result){0};
}
#endif

struct ferryi_cufile_result
cuFileDriverOpen(void)
{
    pthread_mutex_lock(&mutex);
    struct ferryi_cufile_result result = {.error = fails("cuFileDriverOpen")};
    free_memory(); /* it may belong to a context that was lost */
    if (!result.error && !has_memory())
        result.error = FERRYI_CUFILE_CUDA_DRIVER_ERROR;
    if (!result.error)
        counts.opens++;
    pthread_mutex_unlock(&mutex);
    return result;
}

struct ferryi_cufile_result
cuFileDriverClose_v2(void)
{
    pthread_mutex_lock(&mutex);
    free_memory();
    counts.closes++;
    pthread_mutex_unlock(&mutex);
    return (struct ferryi_cufile_result){0};
}

struct ferryi_cufile_result
cuFileDriverGetProperties(struct ferryi_cufile_properties *out)
{
    pthread_mutex_lock(&mutex);
    struct ferryi_cufile_result result = {.error = fails("cuFileDriverGetProperties")};
    if (!result.error)
        *out = (struct ferryi_cufile_properties){.module_major = no_module ? 0 : 2,
                                                 .module_minor = no_module ? 0 : 20,
                                                 .control = not_compatible ? 1 : 3,
                                                 .rest = {5}};
    pthread_mutex_unlock(&mutex);
    return result;
}

/* -- files ------------------------------------------------------------------------------------- */

struct ferryi_cufile_result
cuFileHandleRegister(void **out, struct ferryi_cufile_descriptor *descriptor)
{
    pthread_mutex_lock(&mutex);
    struct ferryi_cufile_result result = {.error = fails("cuFileHandleRegister")};
    if (result.error == FERRYI_CUFILE_CUDA_DRIVER_ERROR)
        result.cuda_error = 2;
    if (!result.error && !(fcntl(descriptor->file.fd, F_GETFL) & O_DIRECT))
        result.error = FERRYI_CUFILE_DIRECT_NOT_SET;
    int i = 0;
    while (i < HANDLES && files[i])
        i++;
    if (!result.error && i == HANDLES)
        result.error = FERRYI_CUFILE_INVALID_VALUE;
    if (!result.error) {
        files[i] = descriptor->file.fd + 1;
        *out = &files[i];
        counts.handles++;
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

void
cuFileHandleDeregister(void *handle)
{
    pthread_mutex_lock(&mutex);
    *(int *)handle = 0;
    counts.handles--;
    pthread_mutex_unlock(&mutex);
}

static bool
copy_device(char *memory, size_t bytes, bool stores)
{
    const unsigned long long device = (unsigned long long)(uintptr_t)memory;
    void *stream;
    if (driver.stream_create(&stream, 1) != 0)
        return false;
    const bool copied = (stores ? driver.download(pinned, device, bytes, stream)
                                : driver.upload(device, pinned, bytes, stream)) == 0 &&
                        driver.stream_synchronize(stream) == 0;
    return driver.stream_destroy(stream) == 0 && copied;
}

/* Copies one part. Returns the number of bytes, or a negative error. */
static ssize_t
copy_part(int fd, char *memory, size_t bytes, off_t offset, bool stores)
{
    if (stores && !copy_device(memory, bytes, true))
        return -FERRYI_CUFILE_CUDA_DRIVER_ERROR;
    if (stores)
        memcpy(aligned, pinned, bytes);
    const ssize_t result = stores ? syscall(SYS_pwrite64, fd, aligned, bytes, offset)
                                  : syscall(SYS_pread64, fd, aligned, bytes, offset);
    if (result <= 0 || stores)
        return result;
#if FERRYI_MEMORY_SANITIZER
    __msan_unpoison(aligned, (size_t)result); /* it does not know what a system call writes */
#endif
    memcpy(pinned, aligned, (size_t)result);
    return copy_device(memory, (size_t)result, false) ? result : -FERRYI_CUFILE_CUDA_DRIVER_ERROR;
}

static ssize_t
copy_all(int fd, char *memory, size_t bytes, off_t offset, bool stores)
{
    size_t done = 0;
    ssize_t result;
    if (!has_memory())
        return -FERRYI_CUFILE_CUDA_DRIVER_ERROR;
    do {
        const size_t part = bytes - done < PART ? bytes - done : PART;
        result = copy_part(fd, memory + done, part, offset + (off_t)done, stores);
        done += result > 0 ? (size_t)result : 0;
    } while (result > 0 && done < bytes);
    return done > 0 ? (ssize_t)done : result;
}

/* Reads or writes. The mutex is held. */
static ssize_t
transfer(const int *handle, char *memory, size_t bytes, off_t offset, bool stores)
{
    const int error = fails(stores ? "cuFileWrite" : "cuFileRead");
    size_t counted = bytes;
    counts.copies++;
    if (*handle == 0)
        return -FERRYI_CUFILE_HANDLE_NOT_REGISTERED;
    if (bytes % ALIGN != 0 || offset % ALIGN != 0) {
        counts.unaligned++;
        return -FERRYI_CUFILE_INVALID_VALUE;
    }
    if (error > 5000)
        return -error;
    if (error) {
        errno = error;
        return -1;
    }
    if (shortening.nth > 0 && --shortening.nth == 0 && shortening.bytes < bytes)
        counted = shortening.bytes;
    const ssize_t result = copy_all(*handle - 1, memory, bytes, offset, stores);
    if (result <= 0)
        return result;
    counted = counted < (size_t)result ? counted : (size_t)result;
    *(stores ? &counts.wrote : &counts.read) += counted;
    return (ssize_t)counted;
}

ssize_t
cuFileRead(void *handle, void *memory, size_t bytes, off_t offset, off_t at)
{
    pthread_mutex_lock(&mutex);
    const ssize_t result = transfer(handle, (char *)memory + at, bytes, offset, false);
    pthread_mutex_unlock(&mutex);
    return result;
}

ssize_t
cuFileWrite(void *handle, const void *memory, size_t bytes, off_t offset, off_t at)
{
    pthread_mutex_lock(&mutex);
    const ssize_t result = transfer(handle, (char *)(uintptr_t)memory + at, bytes, offset, true);
    pthread_mutex_unlock(&mutex);
    return result;
}
