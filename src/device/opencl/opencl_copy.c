/* SPDX-License-Identifier: MIT */
/* Copies and fills. An address of device memory is valid for all devices of a platform, and host
 * memory may be any. So each copy of consecutive bytes is the same call in every direction. */
#include "src/device/opencl/opencl_device.h"

static ferry_status
move(struct ferryi_opencl_device *opencl, void *target, const void *source, size_t bytes,
     ferryi_cl_queue queue)
{
    if (bytes == 0)
        return FERRY_OK;
    if (opencl->model == FERRYI_OPENCL_USM)
        return FERRYI_OPENCL_RUN(opencl, clEnqueueMemcpyINTEL,
                                 opencl->platform->usm.clEnqueueMemcpyINTEL(
                                     queue, FERRYI_CL_FALSE, target, source, bytes, 0, NULL, NULL));
    return FERRYI_OPENCL_CALL(opencl, clEnqueueSVMMemcpy, queue, FERRYI_CL_FALSE, target, source,
                              bytes, 0, NULL, NULL);
}

/* Submits queued work to the device. Without it a driver may keep the work until a later call. */
static ferry_status
submit(struct ferryi_opencl_device *opencl, ferryi_cl_queue queue, ferry_status status)
{
    return status == FERRY_OK ? FERRYI_OPENCL_CALL(opencl, clFlush, queue) : status;
}

ferry_status
ferryi_opencl_copy(ferryi_device *device, const struct ferryi_copy *copy, void *stream)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    if (copy->bytes == 0)
        return FERRY_OK;
    return submit(opencl, stream, move(opencl, copy->target, copy->source, copy->bytes, stream));
}

ferry_status
ferryi_opencl_copy_batch(ferryi_device *device, const struct ferryi_copy *copies, size_t count,
                         void *stream)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    ferry_status status = FERRY_OK;
    if (count == 0)
        return FERRY_OK;
    for (size_t i = 0; i < count && status == FERRY_OK; i++)
        status = move(opencl, copies[i].target, copies[i].source, copies[i].bytes, stream);
    return submit(opencl, stream, status);
}

/* -- rows -------------------------------------------------------------------------------------- */

/* A call copies fewer rows than these one by one. */
#define FEW_ROWS 4

static ferry_status
move_each_row(struct ferryi_opencl_device *opencl, const struct ferryi_copy_2d *copy,
              ferryi_cl_queue queue)
{
    ferry_status status = FERRY_OK;
    for (size_t row = 0; row < copy->rows && status == FERRY_OK; row++)
        status =
            move(opencl, (char *)copy->target + row * copy->target_pitch,
                 (const char *)copy->source + row * copy->source_pitch, copy->row_bytes, queue);
    return status;
}

/* Copies rows between host memory and a buffer of the driver on device memory. Sets `*out_done` to
 * false if there is no such buffer, or if the driver refuses the copy. */
static ferry_status
move_rectangle(struct ferryi_opencl_device *opencl, const struct ferryi_copy_2d *copy,
               ferryi_cl_queue queue, bool *out_done)
{
    const bool is_upload = copy->direction == FERRY_DIRECTION_UPLOAD;
    const size_t region[3] = {copy->row_bytes, copy->rows, 1}, host_origin[3] = {0, 0, 0};
    size_t origin[3] = {0, 0, 0};
    ferryi_cl_memory buffer;
    ferryi_cl_int result;
    *out_done = false;
    if (!ferryi_opencl_memory_buffer(opencl, is_upload ? copy->target : copy->source, &buffer,
                                     &origin[0]))
        return FERRY_OK;
    if (atomic_load(&opencl->is_lost))
        return ferryi_opencl_refuse(opencl, "copy_2d");
    if (is_upload)
        result = opencl->driver->clEnqueueWriteBufferRect(
            queue, buffer, FERRYI_CL_FALSE, origin, host_origin, region, copy->target_pitch, 0,
            copy->source_pitch, 0, copy->source, 0, NULL, NULL);
    else
        result = opencl->driver->clEnqueueReadBufferRect(
            queue, buffer, FERRYI_CL_FALSE, origin, host_origin, region, copy->source_pitch, 0,
            copy->target_pitch, 0, copy->target, 0, NULL, NULL);
    if (result == FERRYI_CL_INVALID_VALUE)
        return FERRY_OK;
    *out_done = true;
    return ferryi_opencl_check(
        opencl, is_upload ? "clEnqueueWriteBufferRect" : "clEnqueueReadBufferRect", result);
}

/* Returns whether a kernel can copy the rows. A kernel need not reach the memory of another device
 * of unified shared memory. */
static bool
suits_kernel(struct ferryi_opencl_device *opencl, const struct ferryi_copy_2d *copy)
{
    switch (copy->direction) {
    case FERRY_DIRECTION_DEVICE:
        return true;
    case FERRY_DIRECTION_PEER:
        return opencl->model != FERRYI_OPENCL_USM;
    default:
        return opencl->model == FERRYI_OPENCL_USM &&
               ferryi_opencl_memory_is_reached(opencl, copy->target) &&
               ferryi_opencl_memory_is_reached(opencl, copy->source);
    }
}

/* Copies many rows with as few calls as the driver allows. A rectangle of the driver cannot be used
 * inside a device: source and target may be in one buffer, and have two pitches. */
static ferry_status
move_rows(struct ferryi_opencl_device *opencl, const struct ferryi_copy_2d *copy,
          ferryi_cl_queue queue)
{
    if (suits_kernel(opencl, copy)) {
        ferry_status status = ferryi_opencl_rows_launch(opencl, copy, queue);
        if (status != FERRY_ERROR_UNSUPPORTED)
            return status;
    } else if (copy->direction == FERRY_DIRECTION_UPLOAD ||
               copy->direction == FERRY_DIRECTION_DOWNLOAD) {
        bool done;
        ferry_status status = move_rectangle(opencl, copy, queue, &done);
        if (done || status != FERRY_OK)
            return status;
    }
    return move_each_row(opencl, copy, queue);
}

ferry_status
ferryi_opencl_copy_2d(ferryi_device *device, const struct ferryi_copy_2d *copy, void *stream)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    if (copy->row_bytes == 0 || copy->rows == 0)
        return FERRY_OK;
    if (copy->target_pitch == copy->row_bytes && copy->source_pitch == copy->row_bytes)
        return submit(
            opencl, stream,
            move(opencl, copy->target, copy->source, copy->row_bytes * copy->rows, stream));
    return submit(opencl, stream,
                  copy->rows < FEW_ROWS ? move_each_row(opencl, copy, stream)
                                        : move_rows(opencl, copy, stream));
}

/* -- fills ------------------------------------------------------------------------------------- */

ferry_status
ferryi_opencl_fill(ferryi_device *device, void *target, uint32_t pattern, size_t pattern_bytes,
                   size_t count, void *stream)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    const size_t bytes = count * pattern_bytes;
    ferry_status status;
    if (count == 0)
        return FERRY_OK;
    if (opencl->model == FERRYI_OPENCL_USM)
        status =
            FERRYI_OPENCL_RUN(opencl, clEnqueueMemFillINTEL,
                              opencl->platform->usm.clEnqueueMemFillINTEL(
                                  stream, target, &pattern, pattern_bytes, bytes, 0, NULL, NULL));
    else
        status = FERRYI_OPENCL_CALL(opencl, clEnqueueSVMMemFill, stream, target, &pattern,
                                    pattern_bytes, bytes, 0, NULL, NULL);
    return submit(opencl, stream, status);
}
