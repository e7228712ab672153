/* SPDX-License-Identifier: MIT */
/* Implements the file functions of a GPU with the vendor's library for them. */
#include "src/device/gpu/gpu_device.h"

#include <assert.h>

#include "src/base/file.h"

ferry_status
ferryi_gpu_file_open(ferryi_device *device, int fd, void **out)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    const struct ferryi_gpu_file_calls *files = gpu->driver->vendor->files;
    struct ferryi_gpu_entry entry;
    if (!files)
        return ferryi_unsupported_ops.file_open(device, fd, out);
    FERRYI_OR_RETURN(ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry));
    ferry_status st = files->open(gpu, fd, out);
    ferryi_gpu_leave(gpu, &entry);
    return st;
}

ferry_status
ferryi_gpu_file_copy(ferryi_device *device, void *file, const struct ferryi_file_copy *copy,
                     size_t *out_bytes)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    const struct ferryi_gpu_file_calls *files = gpu->driver->vendor->files;
    struct ferryi_gpu_entry entry;
    *out_bytes = 0;
    if (!files)
        return ferryi_unsupported_ops.file_copy(device, file, copy, out_bytes);
    assert(copy->offset % FERRYI_FILE_ALIGN == 0 && copy->bytes % FERRYI_FILE_ALIGN == 0);
    FERRYI_OR_RETURN(ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry));
    ferry_status st = files->copy(file, copy, out_bytes);
    ferryi_gpu_leave(gpu, &entry);
    return st;
}

/* Prepares this thread for the release of something, and returns whether the device is usable. If
 * not, the release happens all the same, and changes no error message. */
static bool
enter_to_release(struct ferryi_gpu_device *gpu, struct ferryi_gpu_entry *entry)
{
    FERRYI_KEEP_ERROR(before);
    return ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, entry) == FERRY_OK;
}

ferry_status
ferryi_gpu_file_close(ferryi_device *device, void *file)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    const struct ferryi_gpu_file_calls *files = gpu->driver->vendor->files;
    struct ferryi_gpu_entry entry;
    if (!files)
        return ferryi_unsupported_ops.file_close(device, file);
    const bool usable = enter_to_release(gpu, &entry);
    files->close(file);
    if (usable)
        ferryi_gpu_leave(gpu, &entry);
    return FERRY_OK;
}

void
ferryi_gpu_files_end(struct ferryi_gpu_device *gpu)
{
    struct ferryi_gpu_entry entry;
    if (!atomic_load(&gpu->uses_files))
        return;
    const bool usable = enter_to_release(gpu, &entry);
    gpu->driver->vendor->files->end(gpu, usable);
    if (usable)
        ferryi_gpu_leave(gpu, &entry);
}
