/* SPDX-License-Identifier: MIT */
/* Implements the copy and fill functions of a GPU. */
#include "src/device/gpu/gpu_device.h"

#include <assert.h>
#include <stdlib.h>

/* Converts the driver's result of a copy from or to host memory to a ferry_status. The driver
 * refuses to copy a range of host memory that is partly registered. On a device that copies
 * pageable memory directly, such a refusal is reported as UNSUPPORTED. The caller can then copy the
 * range through a staging buffer. */
static ferry_status
check_host_copy(struct ferryi_gpu_device *gpu, enum ferryi_gpu_call call, ferryi_gpu_result result)
{
    ferry_status st = ferryi_gpu_check(gpu, call, result);
    return result == FERRYI_GPU_ERROR_INVALID_VALUE &&
                   (gpu->base.capabilities & FERRYI_DEVICE_TAKES_PAGEABLE)
               ? FERRY_ERROR_UNSUPPORTED
               : st;
}

/* -- between devices -- */

static bool
is_lost(struct ferryi_gpu_device *gpu)
{
    size_t free_bytes, total_bytes;
    ferry_status st;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, memory_info, &free_bytes, &total_bytes);
    return st == FERRY_ERROR_DEVICE_LOST;
}

/* Returns the device that caused the error of a peer copy. A peer copy uses the contexts of two
 * devices, so a call in the target's context can fail because the source device is lost. */
static struct ferryi_gpu_device *
owner_of(ferryi_gpu_result result, struct ferryi_gpu_device *gpu, struct ferryi_gpu_device *from)
{
    bool sources = result != FERRYI_GPU_SUCCESS && from != gpu && is_lost(from) && !is_lost(gpu);
    return sources ? from : gpu;
}

static ferry_status
copy_from_peer(struct ferryi_gpu_device *gpu, const struct ferryi_copy *copy, void *stream)
{
    struct ferryi_gpu_device *from = ferryi_gpu_of(copy->source_device);
    struct ferryi_gpu_entry entry;
    assert(from->base.ops == gpu->base.ops);
    if (from != gpu)
        ferryi_gpu_open_peer(gpu, from);
    FERRYI_OR_RETURN(ferryi_gpu_check_peer(gpu, from));
    ferry_status st = ferryi_gpu_enter(gpu, FERRYI_GPU_STREAM_WORK, &entry);
    if (st == FERRY_OK) {
        ferryi_gpu_result result = gpu->driver->copy_peer(
            ferryi_gpu_address(copy->target), gpu->peer, ferryi_gpu_address(copy->source),
            from->peer, copy->bytes, stream);
        st = FERRYI_GPU_CHECK(owner_of(result, gpu, from), copy_peer, result);
        ferryi_gpu_leave(gpu, &entry);
    }
    return FERRYI_GPU_TELL(st, "copy %zu bytes from %s to %s", copy->bytes, from->name, gpu->name);
}

/* -- bytes -- */

ferry_status
ferryi_gpu_copy(ferryi_device *device, const struct ferryi_copy *copy, void *stream)
{
    static const char *const words[][2] = {[FERRY_DIRECTION_UPLOAD] = {"upload", "to"},
                                           [FERRY_DIRECTION_DOWNLOAD] = {"download", "from"},
                                           [FERRY_DIRECTION_DEVICE] = {"copy", "inside"}};
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    const struct ferryi_gpu_driver *driver = gpu->driver;
    ferryi_gpu_pointer target = ferryi_gpu_address(copy->target),
                       source = ferryi_gpu_address(copy->source);
    struct ferryi_gpu_entry entry;
    if (copy->bytes == 0)
        return FERRY_OK;
    if (copy->direction == FERRY_DIRECTION_PEER)
        return copy_from_peer(gpu, copy, stream);
    ferry_status st = ferryi_gpu_enter(gpu, FERRYI_GPU_STREAM_WORK, &entry);
    if (st == FERRY_OK) {
        if (copy->direction == FERRY_DIRECTION_UPLOAD)
            st = check_host_copy(gpu, FERRYI_GPU_CALL_upload,
                                 driver->upload(target, copy->source, copy->bytes, stream));
        else if (copy->direction == FERRY_DIRECTION_DOWNLOAD)
            st = check_host_copy(gpu, FERRYI_GPU_CALL_download,
                                 driver->download(copy->target, source, copy->bytes, stream));
        else
            st = FERRYI_GPU_CALL(gpu, copy, target, source, copy->bytes, stream);
        ferryi_gpu_leave(gpu, &entry);
    }
    return FERRYI_GPU_TELL(st, "%s %zu bytes %s %s", words[copy->direction][0], copy->bytes,
                           words[copy->direction][1], gpu->name);
}

/* -- rows -- */

static ferry_status
copy_rows_of_peer(struct ferryi_gpu_device *gpu, const struct ferryi_copy_2d *copy, void *stream)
{
    struct ferryi_gpu_device *from = ferryi_gpu_of(copy->source_device);
    const struct ferryi_gpu_copy_3d_peer arguments = {
        .source_type = FERRYI_GPU_MEMORYTYPE_DEVICE,
        .source_device = ferryi_gpu_address(copy->source),
        .source_context = from->context,
        .source_pitch = copy->source_pitch,
        .source_height = copy->rows,
        .target_type = FERRYI_GPU_MEMORYTYPE_DEVICE,
        .target_device = ferryi_gpu_address(copy->target),
        .target_context = gpu->context,
        .target_pitch = copy->target_pitch,
        .target_height = copy->rows,
        .width_bytes = copy->row_bytes,
        .height = copy->rows,
        .depth = 1,
    };
    struct ferryi_gpu_entry entry;
    ferryi_gpu_open_peer(gpu, from);
    FERRYI_OR_RETURN(ferryi_gpu_check_peer(gpu, from));
    ferry_status st = ferryi_gpu_enter(gpu, FERRYI_GPU_STREAM_WORK, &entry);
    if (st == FERRY_OK) {
        ferryi_gpu_result result = gpu->driver->copy_peer_2d(&arguments, stream);
        st = FERRYI_GPU_CHECK(owner_of(result, gpu, from), copy_peer_2d, result);
        ferryi_gpu_leave(gpu, &entry);
    }
    return FERRYI_GPU_TELL(st, "copy %zu rows of %zu bytes from %s to %s", copy->rows,
                           copy->row_bytes, from->name, gpu->name);
}

ferry_status
ferryi_gpu_copy_2d(ferryi_device *device, const struct ferryi_copy_2d *copy, void *stream)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    struct ferryi_gpu_copy_2d arguments = {
        .source_type = FERRYI_GPU_MEMORYTYPE_DEVICE,
        .source_device = ferryi_gpu_address(copy->source),
        .source_pitch = copy->source_pitch,
        .target_type = FERRYI_GPU_MEMORYTYPE_DEVICE,
        .target_device = ferryi_gpu_address(copy->target),
        .target_pitch = copy->target_pitch,
        .width_bytes = copy->row_bytes,
        .height = copy->rows,
    };
    struct ferryi_gpu_entry entry;
    if (copy->row_bytes == 0 || copy->rows == 0)
        return FERRY_OK;
    if (copy->direction == FERRY_DIRECTION_PEER)
        return copy_rows_of_peer(gpu, copy, stream);
    if (copy->direction == FERRY_DIRECTION_UPLOAD) {
        arguments.source_type = FERRYI_GPU_MEMORYTYPE_HOST;
        arguments.source_host = copy->source;
        arguments.source_device = 0;
    } else if (copy->direction == FERRY_DIRECTION_DOWNLOAD) {
        arguments.target_type = FERRYI_GPU_MEMORYTYPE_HOST;
        arguments.target_host = copy->target;
        arguments.target_device = 0;
    }
    ferry_status st = ferryi_gpu_enter(gpu, FERRYI_GPU_STREAM_WORK, &entry);
    if (st == FERRY_OK) {
        ferryi_gpu_result result = gpu->driver->copy_2d(&arguments, stream);
        st = copy->direction == FERRY_DIRECTION_DEVICE
                 ? FERRYI_GPU_CHECK(gpu, copy_2d, result)
                 : check_host_copy(gpu, FERRYI_GPU_CALL_copy_2d, result);
        ferryi_gpu_leave(gpu, &entry);
    }
    return FERRYI_GPU_TELL(st, "copy %zu rows of %zu bytes on %s", copy->rows, copy->row_bytes,
                           gpu->name);
}

/* -- batches -- */

#define BATCH_ON_STACK 64

struct batch {
    ferryi_gpu_pointer *targets, *sources;
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
        batch.targets[batch.count] = ferryi_gpu_address(copies[i].target);
        batch.sources[batch.count] = ferryi_gpu_address(copies[i].source);
        batch.bytes[batch.count++] = copies[i].bytes;
        batch.total_bytes += copies[i].bytes;
    }
    return batch;
}

static ferry_status
refuse(const struct ferryi_gpu_device *gpu, size_t count, const char *why)
{
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "copy_batch of %zu on %s: %s", count, gpu->name,
                       why);
}

/* Submits a batch of copies to the driver. If the batch contains copies whose direction is PEER,
 * `from` is their source device. If it contains none, `from` equals `gpu`. */
static ferry_status
submit(struct ferryi_gpu_device *gpu, struct ferryi_gpu_device *from, const struct batch *batch,
       void *stream)
{
    /* All copies of the batch use the same attributes. The attributes make the driver read each
     * source in stream order. */
    struct ferryi_gpu_copy_attributes attributes = {.source_access_order =
                                                        FERRYI_GPU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    const struct ferryi_gpu_driver *driver = gpu->driver;
    struct ferryi_gpu_entry entry;
    size_t first = 0, failed = 0;
    bool newer = driver->groups & FERRYI_GPU_BATCH_2;
    ferry_status st = ferryi_gpu_enter(gpu, FERRYI_GPU_STREAM_WORK, &entry);
    if (st == FERRY_OK) {
        ferryi_gpu_result result =
            newer ? driver->copy_batch_2(batch->targets, batch->sources, batch->bytes, batch->count,
                                         &attributes, &first, 1, stream)
                  : driver->copy_batch(batch->targets, batch->sources, batch->bytes, batch->count,
                                       &attributes, &first, 1, &failed, stream);
        /* The driver may refuse a batch although it would accept each copy as a separate call.
         * Examples are copies of managed memory and copies between devices. */
        bool refused =
            result == FERRYI_GPU_ERROR_INVALID_VALUE || result == FERRYI_GPU_ERROR_NOT_SUPPORTED;
        if (!refused)
            st = ferryi_gpu_check(owner_of(result, gpu, from),
                                  newer ? FERRYI_GPU_CALL_copy_batch_2 : FERRYI_GPU_CALL_copy_batch,
                                  result);
        ferryi_gpu_leave(gpu, &entry);
        if (refused)
            return refuse(gpu, batch->count,
                          from != gpu ? "the driver takes none between devices"
                                      : "the driver refuses this one");
        /* Some drivers implement batches incorrectly, so Ferry submits no more batches after an
         * unexpected error. */
        if (result != FERRYI_GPU_SUCCESS && result != FERRYI_GPU_ERROR_OUT_OF_MEMORY &&
            !atomic_exchange(&gpu->batch_failed, true))
            ferryi_log(&gpu->log, FERRY_LOG_WARNING,
                       "copy a batch of %zu on %s: error %u; later copies go one by one",
                       batch->count, gpu->name, result);
    }
    return FERRYI_GPU_TELL(st, "copy %zu bytes in a batch of %zu on %s", batch->total_bytes,
                           batch->count, gpu->name);
}

/* Returns the source device of those copies whose direction is PEER, or `gpu` if there are none.
 * All PEER copies have the same source device. */
static struct ferryi_gpu_device *
source_of(struct ferryi_gpu_device *gpu, const struct ferryi_copy *copies, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (copies[i].direction == FERRY_DIRECTION_PEER)
            return ferryi_gpu_of(copies[i].source_device);
    return gpu;
}

/* Returns whether the driver accepts the copies as a batch. The driver refuses batches on the
 * legacy default stream, and batches with memory that the device cannot access. */
static bool
takes_batch(struct ferryi_gpu_device *gpu, struct ferryi_gpu_device *from, const void *stream)
{
    return stream && stream != gpu->base.default_stream &&
           (from == gpu || ferryi_gpu_open_peer(gpu, from));
}

ferry_status
ferryi_gpu_copy_batch(ferryi_device *device, const struct ferryi_copy *copies, size_t count,
                      void *stream)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    enum { BYTES_EACH = 2 * sizeof(ferryi_gpu_pointer) + sizeof(size_t) };
    ferryi_gpu_pointer few[BATCH_ON_STACK * BYTES_EACH / sizeof(ferryi_gpu_pointer)];
    void *many = NULL;
    size_t bytes;

    if (!(device->capabilities & FERRY_CAN_BATCH))
        return refuse(gpu, count, "the driver has no batches of copies");
    if (atomic_load_explicit(&gpu->batch_failed, memory_order_relaxed))
        return refuse(gpu, count, "one of the device has failed");
    struct ferryi_gpu_device *from = source_of(gpu, copies, count);
    if (!takes_batch(gpu, from, stream))
        return refuse(gpu, count, "the driver takes none on this stream, or of this memory");
    if (count > BATCH_ON_STACK &&
        (!ferryi_mul_size(count, BYTES_EACH, &bytes) || !(many = malloc(bytes))))
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "copy a batch of %zu on %s: no host memory for its list", count,
                           gpu->name);
    struct batch batch = gather(copies, count, many ? many : few);
    ferry_status st = batch.count == 0 ? FERRY_OK : submit(gpu, from, &batch, stream);
    free(many);
    return st;
}

/* -- fills -- */

ferry_status
ferryi_gpu_fill(ferryi_device *device, void *target, uint32_t pattern, size_t pattern_bytes,
                size_t count, void *stream)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferryi_gpu_pointer pointer = ferryi_gpu_address(target);
    ferry_status st;
    assert(pattern_bytes == 1 || pattern_bytes == 2 || pattern_bytes == 4);
    assert(pointer % pattern_bytes == 0);
    if (count == 0)
        return FERRY_OK;
    if (pattern_bytes == 1)
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_STREAM_WORK, fill_8, pointer, (unsigned char)pattern,
                       count, stream);
    else if (pattern_bytes == 2)
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_STREAM_WORK, fill_16, pointer, (unsigned short)pattern,
                       count, stream);
    else
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_STREAM_WORK, fill_32, pointer, pattern, count, stream);
    return FERRYI_GPU_TELL(st, "fill %zu times %zu bytes on %s", count, pattern_bytes, gpu->name);
}
