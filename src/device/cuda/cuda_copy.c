/* SPDX-License-Identifier: MIT */
/* Implements the copy and fill functions of a CUDA device. */
#include "src/device/cuda/cuda_device.h"

#include <assert.h>
#include <stdlib.h>

/* Converts the driver's result of a copy from or to host memory to a ferry_status. The driver
 * refuses to copy a range of host memory that is partly registered. On a device that copies
 * pageable memory directly, such a refusal is reported as UNSUPPORTED. The caller can then copy the
 * range through a staging buffer. */
static ferry_status
check_host_copy(struct ferryi_cuda_device *cuda, const char *call, ferryi_cu_result result)
{
    ferry_status st = ferryi_cuda_check(cuda, call, result);
    return result == FERRYI_CUDA_ERROR_INVALID_VALUE &&
                   (cuda->base.capabilities & FERRYI_DEVICE_TAKES_PAGEABLE)
               ? FERRY_ERROR_UNSUPPORTED
               : st;
}

/* -- between devices -- */

static bool
is_lost(struct ferryi_cuda_device *cuda)
{
    size_t free_bytes, total_bytes;
    ferry_status st;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuMemGetInfo_v2, &free_bytes, &total_bytes);
    return st == FERRY_ERROR_DEVICE_LOST;
}

/* Returns the device that caused the error of a peer copy. A peer copy uses the contexts of two
 * devices, so a call in the target's context can fail because the source device is lost. */
static struct ferryi_cuda_device *
owner_of(ferryi_cu_result result, struct ferryi_cuda_device *cuda, struct ferryi_cuda_device *from)
{
    bool sources = result != FERRYI_CUDA_SUCCESS && from != cuda && is_lost(from) && !is_lost(cuda);
    return sources ? from : cuda;
}

static ferry_status
copy_from_peer(struct ferryi_cuda_device *cuda, const struct ferryi_copy *copy, void *stream)
{
    struct ferryi_cuda_device *from = ferryi_cuda_of(copy->source_device);
    struct ferryi_cuda_entry entry;
    assert(from->base.ops == cuda->base.ops);
    if (from != cuda)
        ferryi_cuda_open_peer(cuda, from);
    FERRYI_OR_RETURN(ferryi_cuda_check_peer(cuda, from));
    ferry_status st = ferryi_cuda_enter(cuda, FERRYI_CUDA_STREAM_WORK, &entry);
    if (st == FERRY_OK) {
        ferryi_cu_result result = cuda->driver->cuMemcpyPeerAsync(
            ferryi_cuda_pointer(copy->target), cuda->context, ferryi_cuda_pointer(copy->source),
            from->context, copy->bytes, stream);
        st = FERRYI_CUDA_CHECK(owner_of(result, cuda, from), cuMemcpyPeerAsync, result);
        ferryi_cuda_leave(cuda, &entry);
    }
    return FERRYI_CUDA_TELL(st, "copy %zu bytes from cuda:%d to cuda:%d", copy->bytes,
                            from->ordinal, cuda->ordinal);
}

/* -- bytes -- */

ferry_status
ferryi_cuda_copy(ferryi_device *device, const struct ferryi_copy *copy, void *stream)
{
    static const char *const words[][2] = {[FERRY_DIRECTION_UPLOAD] = {"upload", "to"},
                                           [FERRY_DIRECTION_DOWNLOAD] = {"download", "from"},
                                           [FERRY_DIRECTION_DEVICE] = {"copy", "inside"}};
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    const struct ferryi_cuda_driver *driver = cuda->driver;
    ferryi_cu_pointer target = ferryi_cuda_pointer(copy->target),
                      source = ferryi_cuda_pointer(copy->source);
    struct ferryi_cuda_entry entry;
    if (copy->bytes == 0)
        return FERRY_OK;
    if (copy->direction == FERRY_DIRECTION_PEER)
        return copy_from_peer(cuda, copy, stream);
    ferry_status st = ferryi_cuda_enter(cuda, FERRYI_CUDA_STREAM_WORK, &entry);
    if (st == FERRY_OK) {
        if (copy->direction == FERRY_DIRECTION_UPLOAD)
            st = check_host_copy(
                cuda, "cuMemcpyHtoDAsync_v2",
                driver->cuMemcpyHtoDAsync_v2(target, copy->source, copy->bytes, stream));
        else if (copy->direction == FERRY_DIRECTION_DOWNLOAD)
            st = check_host_copy(
                cuda, "cuMemcpyDtoHAsync_v2",
                driver->cuMemcpyDtoHAsync_v2(copy->target, source, copy->bytes, stream));
        else
            st = FERRYI_CUDA_CALL(cuda, cuMemcpyDtoDAsync_v2, target, source, copy->bytes, stream);
        ferryi_cuda_leave(cuda, &entry);
    }
    return FERRYI_CUDA_TELL(st, "%s %zu bytes %s cuda:%d", words[copy->direction][0], copy->bytes,
                            words[copy->direction][1], cuda->ordinal);
}

/* -- rows -- */

static ferry_status
copy_rows_of_peer(struct ferryi_cuda_device *cuda, const struct ferryi_copy_2d *copy, void *stream)
{
    struct ferryi_cuda_device *from = ferryi_cuda_of(copy->source_device);
    const struct ferryi_cu_copy_3d_peer arguments = {
        .source_type = FERRYI_CU_MEMORYTYPE_DEVICE,
        .source_device = ferryi_cuda_pointer(copy->source),
        .source_context = from->context,
        .source_pitch = copy->source_pitch,
        .source_height = copy->rows,
        .target_type = FERRYI_CU_MEMORYTYPE_DEVICE,
        .target_device = ferryi_cuda_pointer(copy->target),
        .target_context = cuda->context,
        .target_pitch = copy->target_pitch,
        .target_height = copy->rows,
        .width_bytes = copy->row_bytes,
        .height = copy->rows,
        .depth = 1,
    };
    struct ferryi_cuda_entry entry;
    ferryi_cuda_open_peer(cuda, from);
    FERRYI_OR_RETURN(ferryi_cuda_check_peer(cuda, from));
    ferry_status st = ferryi_cuda_enter(cuda, FERRYI_CUDA_STREAM_WORK, &entry);
    if (st == FERRY_OK) {
        ferryi_cu_result result = cuda->driver->cuMemcpy3DPeerAsync(&arguments, stream);
        st = FERRYI_CUDA_CHECK(owner_of(result, cuda, from), cuMemcpy3DPeerAsync, result);
        ferryi_cuda_leave(cuda, &entry);
    }
    return FERRYI_CUDA_TELL(st, "copy %zu rows of %zu bytes from cuda:%d to cuda:%d", copy->rows,
                            copy->row_bytes, from->ordinal, cuda->ordinal);
}

ferry_status
ferryi_cuda_copy_2d(ferryi_device *device, const struct ferryi_copy_2d *copy, void *stream)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    struct ferryi_cu_copy_2d arguments = {
        .source_type = FERRYI_CU_MEMORYTYPE_DEVICE,
        .source_device = ferryi_cuda_pointer(copy->source),
        .source_pitch = copy->source_pitch,
        .target_type = FERRYI_CU_MEMORYTYPE_DEVICE,
        .target_device = ferryi_cuda_pointer(copy->target),
        .target_pitch = copy->target_pitch,
        .width_bytes = copy->row_bytes,
        .height = copy->rows,
    };
    struct ferryi_cuda_entry entry;
    if (copy->row_bytes == 0 || copy->rows == 0)
        return FERRY_OK;
    if (copy->direction == FERRY_DIRECTION_PEER)
        return copy_rows_of_peer(cuda, copy, stream);
    if (copy->direction == FERRY_DIRECTION_UPLOAD) {
        arguments.source_type = FERRYI_CU_MEMORYTYPE_HOST;
        arguments.source_host = copy->source;
        arguments.source_device = 0;
    } else if (copy->direction == FERRY_DIRECTION_DOWNLOAD) {
        arguments.target_type = FERRYI_CU_MEMORYTYPE_HOST;
        arguments.target_host = copy->target;
        arguments.target_device = 0;
    }
    ferry_status st = ferryi_cuda_enter(cuda, FERRYI_CUDA_STREAM_WORK, &entry);
    if (st == FERRY_OK) {
        ferryi_cu_result result = cuda->driver->cuMemcpy2DAsync_v2(&arguments, stream);
        st = copy->direction == FERRY_DIRECTION_DEVICE
                 ? FERRYI_CUDA_CHECK(cuda, cuMemcpy2DAsync_v2, result)
                 : check_host_copy(cuda, "cuMemcpy2DAsync_v2", result);
        ferryi_cuda_leave(cuda, &entry);
    }
    return FERRYI_CUDA_TELL(st, "copy %zu rows of %zu bytes on cuda:%d", copy->rows,
                            copy->row_bytes, cuda->ordinal);
}

/* -- batches -- */

#define BATCH_ON_STACK 64

struct batch {
    ferryi_cu_pointer *targets, *sources;
    size_t *bytes;
    size_t count, total_bytes;
};

/* Fills the arrays of targets, sources and sizes that the driver's batched copy takes. Copies of
 * zero bytes are left out. The arrays are placed in `memory`, which must have space for `count`
 * entries of each array. */
static struct batch
gather(const struct ferryi_copy *copies, size_t count, void *memory)
{
    struct batch batch = {.targets = memory};
    batch.sources = batch.targets + count;
    batch.bytes = (size_t *)(batch.sources + count);
    for (size_t i = 0; i < count; i++) {
        if (copies[i].bytes == 0)
            continue;
        batch.targets[batch.count] = ferryi_cuda_pointer(copies[i].target);
        batch.sources[batch.count] = ferryi_cuda_pointer(copies[i].source);
        batch.bytes[batch.count++] = copies[i].bytes;
        batch.total_bytes += copies[i].bytes;
    }
    return batch;
}

static ferry_status
refuse(const struct ferryi_cuda_device *cuda, size_t count, const char *why)
{
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "copy_batch of %zu on cuda:%d: %s", count,
                       cuda->ordinal, why);
}

/* Submits a batch of copies to the driver. If the batch contains copies whose direction is PEER,
 * `from` is their source device. If it contains none, `from` equals `cuda`. */
static ferry_status
submit(struct ferryi_cuda_device *cuda, struct ferryi_cuda_device *from, const struct batch *batch,
       void *stream)
{
    /* All copies of the batch use the same attributes. The attributes make the driver read each
     * source in stream order. */
    struct ferryi_cu_copy_attributes attributes = {.source_access_order =
                                                       FERRYI_CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    const struct ferryi_cuda_driver *driver = cuda->driver;
    struct ferryi_cuda_entry entry;
    size_t first = 0, failed = 0;
    bool newer = driver->groups & FERRYI_CUDA_BATCH_13;
    ferry_status st = ferryi_cuda_enter(cuda, FERRYI_CUDA_STREAM_WORK, &entry);
    if (st == FERRY_OK) {
        ferryi_cu_result result =
            newer
                ? driver->cuMemcpyBatchAsync_v2(batch->targets, batch->sources, batch->bytes,
                                                batch->count, &attributes, &first, 1, stream)
                : driver->cuMemcpyBatchAsync(batch->targets, batch->sources, batch->bytes,
                                             batch->count, &attributes, &first, 1, &failed, stream);
        /* The driver may refuse a batch although it would accept each copy as a separate call.
         * Examples are copies of managed memory and copies between devices. */
        bool refused =
            result == FERRYI_CUDA_ERROR_INVALID_VALUE || result == FERRYI_CUDA_ERROR_NOT_SUPPORTED;
        if (!refused)
            st = ferryi_cuda_check(owner_of(result, cuda, from),
                                   newer ? "cuMemcpyBatchAsync_v2" : "cuMemcpyBatchAsync", result);
        ferryi_cuda_leave(cuda, &entry);
        if (refused)
            return refuse(cuda, batch->count,
                          from != cuda ? "the driver takes none between devices"
                                       : "the driver refuses this one");
        /* Some drivers implement batches incorrectly, so Ferry submits no more batches after an
         * unexpected error. */
        if (result != FERRYI_CUDA_SUCCESS && result != FERRYI_CUDA_ERROR_OUT_OF_MEMORY &&
            !atomic_exchange(&cuda->batch_failed, true))
            ferryi_log(&cuda->log, FERRY_LOG_WARNING,
                       "copy a batch of %zu on cuda:%d: CUDA error %u; later copies go one by one",
                       batch->count, cuda->ordinal, result);
    }
    return FERRYI_CUDA_TELL(st, "copy %zu bytes in a batch of %zu on cuda:%d", batch->total_bytes,
                            batch->count, cuda->ordinal);
}

/* Returns the source device of those copies whose direction is PEER, or `cuda` if there are none.
 * All PEER copies have the same source device. */
static struct ferryi_cuda_device *
source_of(struct ferryi_cuda_device *cuda, const struct ferryi_copy *copies, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (copies[i].direction == FERRY_DIRECTION_PEER)
            return ferryi_cuda_of(copies[i].source_device);
    return cuda;
}

/* Returns whether the driver accepts the copies as a batch. The driver refuses batches on the
 * legacy default stream, and batches with memory that the device cannot access. */
static bool
takes_batch(struct ferryi_cuda_device *cuda, struct ferryi_cuda_device *from, const void *stream)
{
    return stream && stream != FERRYI_CU_STREAM_LEGACY &&
           (from == cuda || ferryi_cuda_open_peer(cuda, from));
}

ferry_status
ferryi_cuda_copy_batch(ferryi_device *device, const struct ferryi_copy *copies, size_t count,
                       void *stream)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    enum { BYTES_EACH = 2 * sizeof(ferryi_cu_pointer) + sizeof(size_t) };
    ferryi_cu_pointer few[BATCH_ON_STACK * BYTES_EACH / sizeof(ferryi_cu_pointer)];
    void *many = NULL;
    size_t bytes;

    if (!(device->capabilities & FERRY_CAN_BATCH))
        return refuse(cuda, count, "the driver has no cuMemcpyBatchAsync");
    if (atomic_load_explicit(&cuda->batch_failed, memory_order_relaxed))
        return refuse(cuda, count, "one of the device has failed");
    struct ferryi_cuda_device *from = source_of(cuda, copies, count);
    if (!takes_batch(cuda, from, stream))
        return refuse(cuda, count, "the driver takes none on this stream, or of this memory");
    if (count > BATCH_ON_STACK &&
        (!ferryi_mul_size(count, BYTES_EACH, &bytes) || !(many = malloc(bytes))))
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "copy a batch of %zu on cuda:%d: no host memory for its list", count,
                           cuda->ordinal);
    struct batch batch = gather(copies, count, many ? many : few);
    ferry_status st = batch.count == 0 ? FERRY_OK : submit(cuda, from, &batch, stream);
    free(many);
    return st;
}

/* -- fills -- */

ferry_status
ferryi_cuda_fill(ferryi_device *device, void *target, uint32_t pattern, size_t pattern_bytes,
                 size_t count, void *stream)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferryi_cu_pointer pointer = ferryi_cuda_pointer(target);
    ferry_status st;
    assert(pattern_bytes == 1 || pattern_bytes == 2 || pattern_bytes == 4);
    assert(pointer % pattern_bytes == 0);
    if (count == 0)
        return FERRY_OK;
    if (pattern_bytes == 1)
        FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_STREAM_WORK, cuMemsetD8Async, pointer,
                        (unsigned char)pattern, count, stream);
    else if (pattern_bytes == 2)
        FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_STREAM_WORK, cuMemsetD16Async, pointer,
                        (unsigned short)pattern, count, stream);
    else
        FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_STREAM_WORK, cuMemsetD32Async, pointer, pattern,
                        count, stream);
    return FERRYI_CUDA_TELL(st, "fill %zu times %zu bytes on cuda:%d", count, pattern_bytes,
                            cuda->ordinal);
}
