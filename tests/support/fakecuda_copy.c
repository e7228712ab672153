/* SPDX-License-Identifier: MIT */
/* A part of fakecuda, the library that imitates the CUDA driver: copies, fills and host functions.
 */
#include "tests/support/fakecuda_internal.h"

#include <stdlib.h>

/* A copy of rows. A one-dimensional copy is a copy of one row. */
struct copy {
    char *target;
    const char *source;
    size_t target_pitch, source_pitch, row_bytes, rows;
    char *staged; /* bytes of the source that were copied during the call; freed after the copy */
    bool wait;    /* whether the call must wait until the bytes have arrived */
    bool fault; /* whether the device must fault when it runs the copy, because the driver does not
                   know a pointer */
    bool peers; /* whether the copy may access memory of peer contexts */
};

static fake_result
run_copy(void *payload)
{
    const struct copy *copy = payload;
    if (copy->fault)
        return FERRYI_GPU_ERROR_ILLEGAL_ADDRESS;
    for (size_t row = 0; row < copy->rows; row++)
        memcpy(copy->target + row * copy->target_pitch, copy->source + row * copy->source_pitch,
               copy->row_bytes);
    return FERRYI_GPU_SUCCESS;
}

static void
drop_copy(void *payload)
{
    free(((struct copy *)payload)->staged);
}

static size_t
extent(size_t pitch, size_t row_bytes, size_t rows)
{
    return (rows - 1) * pitch + row_bytes;
}

/* Some memory has one address for the host and another one for the device. Replaces the host
 * address `memory` in the copy by the device's address. */
static void
use_view(struct copy *copy, const void *memory)
{
    if (memory == copy->target)
        copy->target = fake_view(memory);
    else
        copy->source = fake_view(memory);
}

/* Checks the device pointer of a copy. The memory must belong to this context or to a peer of it,
 * or must be managed or page-locked memory. A call with an unknown address fails. A batch with an
 * unknown address is accepted, and the device faults when it runs the copy. A real driver crashes
 * in such a batch. */
static fake_result
check_device_side(const fake_context *context, struct copy *copy, const void *memory, size_t bytes)
{
    const struct fake_block *block = fake_block_of(memory, bytes);
    use_view(copy, memory);
    if (!block && !copy->peers)
        return FERRYI_GPU_ERROR_INVALID_VALUE;
    if (!block || !fake_range_grants(memory, bytes, 1u << context->device))
        copy->fault = true;
    else if (fake_is_of_device(block) && block->context != context)
        return copy->peers && (context->peers & (1u << block->context->device))
                   ? block->context->error
                   : FERRYI_GPU_ERROR_INVALID_VALUE;
    return FERRYI_GPU_SUCCESS;
}

/* Checks the host pointer of a copy. The bytes of a pageable source are copied during the call. If
 * the target is pageable, the call waits until the copy has ended. */
static fake_result
check_host_side(struct copy *copy, const void *memory, size_t bytes, bool is_source)
{
    const struct fake_block *block = fake_block_of(memory, bytes);
    use_view(copy, memory);
    if (!memory)
        return FERRYI_GPU_ERROR_INVALID_VALUE;
    if (block)
        return fake_is_of_device(block) ? FERRYI_GPU_ERROR_INVALID_VALUE : FERRYI_GPU_SUCCESS;
    if ((fake.strict & FAKE_STRICT_PARTS) && fake_is_registered_in_part(memory, bytes))
        return FERRYI_GPU_ERROR_INVALID_VALUE;
    fake.pageable_copies++;
    /* A device that uses the host's page tables accesses pageable memory directly, when it runs the
     * copy. */
    if (fake_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES))
        return FERRYI_GPU_SUCCESS;
    copy->wait = !is_source;
    if (is_source && !copy->fault) {
        copy->staged = malloc(bytes);
        if (!copy->staged)
            return FERRYI_GPU_ERROR_OUT_OF_MEMORY;
        memcpy(copy->staged, memory, bytes);
        copy->source = copy->staged;
    }
    return FERRYI_GPU_SUCCESS;
}

static fake_result
check_sides(const fake_context *context, struct copy *copy, bool host_source, bool host_target)
{
    size_t source_bytes = extent(copy->source_pitch, copy->row_bytes, copy->rows);
    size_t target_bytes = extent(copy->target_pitch, copy->row_bytes, copy->rows);
    fake_result result = FERRYI_GPU_SUCCESS;
    if (!host_source)
        result = check_device_side(context, copy, copy->source, source_bytes);
    if (result == FERRYI_GPU_SUCCESS && !host_target)
        result = check_device_side(context, copy, copy->target, target_bytes);
    if (result == FERRYI_GPU_SUCCESS && host_source)
        result = check_host_side(copy, copy->source, source_bytes, true);
    if (result == FERRYI_GPU_SUCCESS && host_target)
        result = check_host_side(copy, copy->target, target_bytes, false);
    return result;
}

static fake_result
queue_copy(fake_context *context, const struct copy *plan, bool host_source, bool host_target,
           ferryi_gpu_stream stream)
{
    struct fake_queue *queue;
    fake_result result = fake_queue_of(context, stream, &queue);
    if (result != FERRYI_GPU_SUCCESS || plan->rows == 0 || plan->row_bytes == 0)
        return result;
    struct copy *copy = malloc(sizeof(*copy));
    if (!copy)
        return FERRYI_GPU_ERROR_OUT_OF_MEMORY;
    *copy = *plan;
    result = check_sides(context, copy, host_source, host_target);
    if (result != FERRYI_GPU_SUCCESS) {
        free(copy->staged);
        free(copy);
        return result;
    }
    bool wait = copy->wait;
    result = fake_enqueue(queue, run_copy, drop_copy, copy, NULL);
    if (result == FERRYI_GPU_SUCCESS && wait && !queue->capture)
        fake_wait(queue, queue->queued);
    return result;
}

static struct copy
plain(ferryi_gpu_pointer target, ferryi_gpu_pointer source, size_t bytes)
{
    return (struct copy){.target = (char *)(uintptr_t)target,
                         .source = (const char *)(uintptr_t)source,
                         .target_pitch = bytes,
                         .source_pitch = bytes,
                         .row_bytes = bytes,
                         .rows = 1};
}

ferryi_gpu_result
cuMemcpyHtoDAsync_v2(ferryi_gpu_pointer target, const void *source, size_t bytes,
                     ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    struct copy copy = plain(target, (uintptr_t)source, bytes);
    FAKE_BEGIN(cuMemcpyHtoDAsync_v2, FAKE_NEEDS_CONTEXT, &context);
    return fake_end(queue_copy(context, &copy, true, false, stream));
}

ferryi_gpu_result
cuMemcpyDtoHAsync_v2(void *target, ferryi_gpu_pointer source, size_t bytes,
                     ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    struct copy copy = plain((uintptr_t)target, source, bytes);
    FAKE_BEGIN(cuMemcpyDtoHAsync_v2, FAKE_NEEDS_CONTEXT, &context);
    return fake_end(queue_copy(context, &copy, false, true, stream));
}

ferryi_gpu_result
cuMemcpyDtoDAsync_v2(ferryi_gpu_pointer target, ferryi_gpu_pointer source, size_t bytes,
                     ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    struct copy copy = plain(target, source, bytes);
    FAKE_BEGIN(cuMemcpyDtoDAsync_v2, FAKE_NEEDS_CONTEXT, &context);
    return fake_end(queue_copy(context, &copy, false, false, stream));
}

static fake_result
check_contexts(const fake_context *target, const fake_context *source)
{
    if (!target || !source || !target->retained || !source->retained)
        return FERRYI_GPU_ERROR_INVALID_CONTEXT;
    return source
        ->error; /* the fault that ended the source's context, or 0; the current context is valid */
}

/* Runs a copy between devices whose peer access is broken: writes other bytes. */
static fake_result
run_broken(void *payload)
{
    const struct copy *copy = payload;
    for (size_t row = 0; row < copy->rows; row++)
        memset(copy->target + row * copy->target_pitch, 0x5a, copy->row_bytes);
    return FERRYI_GPU_SUCCESS;
}

ferryi_gpu_result
cuMemcpyPeerAsync(ferryi_gpu_pointer target, ferryi_gpu_context target_context,
                  ferryi_gpu_pointer source, ferryi_gpu_context source_context, size_t bytes,
                  ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    struct copy copy = plain(target, source, bytes);
    struct fake_queue *queue;
    FAKE_BEGIN(cuMemcpyPeerAsync, FAKE_NEEDS_CONTEXT, &context);
    fake_result result = fake_queue_of(context, stream, &queue);
    if (result == FERRYI_GPU_SUCCESS)
        result = check_contexts(target_context, source_context);
    if (result == FERRYI_GPU_SUCCESS)
        result = check_device_side(target_context, &copy, copy.target, bytes);
    if (result == FERRYI_GPU_SUCCESS)
        result = check_device_side(source_context, &copy, copy.source, bytes);
    struct copy *payload = result == FERRYI_GPU_SUCCESS ? malloc(sizeof(*payload)) : NULL;
    if (!payload)
        return fake_end(result ? result : FERRYI_GPU_ERROR_OUT_OF_MEMORY);
    *payload = copy;
    return fake_end(
        fake_enqueue(queue, fake.broken_peers ? run_broken : run_copy, NULL, payload, NULL));
}

ferryi_gpu_result
cuMemcpy2DAsync_v2(const struct ferryi_gpu_copy_2d *rows, ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    bool host_source = rows->source_type == FERRYI_GPU_MEMORYTYPE_HOST;
    bool host_target = rows->target_type == FERRYI_GPU_MEMORYTYPE_HOST;
    struct copy copy = {
        .source = host_source ? rows->source_host : (const char *)(uintptr_t)rows->source_device,
        .target = host_target ? rows->target_host : (char *)(uintptr_t)rows->target_device,
        .source_pitch = rows->source_pitch,
        .target_pitch = rows->target_pitch,
        .row_bytes = rows->width_bytes,
        .rows = rows->height,
    };
    FAKE_BEGIN(cuMemcpy2DAsync_v2, FAKE_NEEDS_CONTEXT, &context);
    if (rows->source_x_bytes || rows->source_y || rows->target_x_bytes || rows->target_y ||
        (host_source && host_target) || copy.source_pitch < copy.row_bytes ||
        copy.target_pitch < copy.row_bytes ||
        ((fake.strict & FAKE_STRICT_LIMITS) &&
         (copy.source_pitch > FAKE_PITCH_MOST || copy.target_pitch > FAKE_PITCH_MOST)))
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    return fake_end(queue_copy(context, &copy, host_source, host_target, stream));
}

ferryi_gpu_result
cuMemcpy3DPeerAsync(const struct ferryi_gpu_copy_3d_peer *rows, ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    struct fake_queue *queue;
    struct copy copy = {
        .source = (const char *)(uintptr_t)rows->source_device,
        .target = (char *)(uintptr_t)rows->target_device,
        .source_pitch = rows->source_pitch,
        .target_pitch = rows->target_pitch,
        .row_bytes = rows->width_bytes,
        .rows = rows->height,
    };
    FAKE_BEGIN(cuMemcpy3DPeerAsync, FAKE_NEEDS_CONTEXT, &context);
    fake_result result = fake_queue_of(context, stream, &queue);
    if (result == FERRYI_GPU_SUCCESS &&
        (rows->source_x_bytes || rows->source_y || rows->source_z || rows->source_level ||
         rows->target_x_bytes || rows->target_y || rows->target_z || rows->target_level ||
         rows->depth != 1 || rows->source_type != FERRYI_GPU_MEMORYTYPE_DEVICE ||
         rows->target_type != FERRYI_GPU_MEMORYTYPE_DEVICE || copy.rows == 0 ||
         copy.source_pitch < copy.row_bytes || copy.target_pitch < copy.row_bytes ||
         rows->source_height < copy.rows || rows->target_height < copy.rows))
        result = FERRYI_GPU_ERROR_INVALID_VALUE;
    if (result == FERRYI_GPU_SUCCESS)
        result = check_contexts(rows->target_context, rows->source_context);
    if (result == FERRYI_GPU_SUCCESS)
        result = check_device_side(rows->target_context, &copy, copy.target,
                                   extent(copy.target_pitch, copy.row_bytes, copy.rows));
    if (result == FERRYI_GPU_SUCCESS)
        result = check_device_side(rows->source_context, &copy, copy.source,
                                   extent(copy.source_pitch, copy.row_bytes, copy.rows));
    struct copy *payload = result == FERRYI_GPU_SUCCESS ? malloc(sizeof(*payload)) : NULL;
    if (!payload)
        return fake_end(result ? result : FERRYI_GPU_ERROR_OUT_OF_MEMORY);
    *payload = copy;
    return fake_end(
        fake_enqueue(queue, fake.broken_peers ? run_broken : run_copy, NULL, payload, NULL));
}

/* -- batches -- */

#if FAKECUDA_GENERATION >= 12
struct batch {
    size_t count;
    struct copy copies[];
};

/* Runs the copies of a batch from the last to the first, because Ferry must not rely on their
 * order. */
static fake_result
run_batch(void *payload)
{
    struct batch *batch = payload;
    fake_result result = FERRYI_GPU_SUCCESS;
    for (size_t i = batch->count; i-- > 0 && result == FERRYI_GPU_SUCCESS;)
        result = run_copy(&batch->copies[i]);
    return result;
}

static void
drop_batch(void *payload)
{
    struct batch *batch = payload;
    for (size_t i = 0; i < batch->count; i++)
        drop_copy(&batch->copies[i]);
}

/* Returns whether the driver treats an address as host memory. This includes pinned memory,
 * registered memory, and every address that the driver has not allocated. */
static bool
is_host(const void *memory, size_t bytes)
{
    const struct fake_block *block = fake_block_of(memory, bytes);
    return !block || block->kind == FAKE_PINNED || block->kind == FAKE_REGISTERED;
}

/* If the rule "batch" of FAKECUDA_STRICT is set, returns an error for every second batch. Returns
 * FERRYI_GPU_SUCCESS for all other batches. */
static fake_result
refusal(void)
{
    if (!(fake.strict & FAKE_STRICT_BATCH) || ++fake.batches % 2 == 0)
        return FERRYI_GPU_SUCCESS;
    return fake.batches % 4 == 1 ? FERRYI_GPU_ERROR_INVALID_VALUE : FERRYI_GPU_ERROR_NOT_SUPPORTED;
}

/* Returns whether the memory is registered memory that has a different address on the device. A
 * batch of copies fails if it uses the host's address of such memory. */
static bool
is_untranslated(const void *memory, size_t bytes)
{
    const struct fake_block *block = fake_block_of(memory, bytes);
    return (fake.strict & FAKE_STRICT_REGISTERED) && block && block->kind == FAKE_REGISTERED;
}

static fake_result
queue_batch(fake_context *context, const ferryi_gpu_pointer *targets,
            const ferryi_gpu_pointer *sources, const size_t *bytes, size_t count,
            const struct ferryi_gpu_copy_attributes *attributes, const size_t *indices,
            size_t attribute_count, ferryi_gpu_stream stream)
{
    struct fake_queue *queue;
    fake_result result = fake_queue_of(context, stream, &queue);
    if (result != FERRYI_GPU_SUCCESS)
        return result;
    if (queue == context->legacy || count == 0 || attribute_count != 1 || indices[0] != 0 ||
        attributes->source_access_order != FERRYI_GPU_MEMCPY_SRC_ACCESS_ORDER_STREAM)
        return FERRYI_GPU_ERROR_INVALID_VALUE;
    if (queue->capture && (fake.strict & FAKE_STRICT_CAPTURE))
        return FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if ((result = refusal()) != FERRYI_GPU_SUCCESS)
        return result;
    struct batch *batch = calloc(1, sizeof(*batch) + count * sizeof(batch->copies[0]));
    bool wait = false;
    if (!batch)
        return FERRYI_GPU_ERROR_OUT_OF_MEMORY;
    for (; batch->count < count && result == FERRYI_GPU_SUCCESS; batch->count++) {
        struct copy *copy = &batch->copies[batch->count];
        *copy = plain(targets[batch->count], sources[batch->count], bytes[batch->count]);
        copy->peers = true;
        bool host_source = is_host(copy->source, copy->row_bytes),
             host_target = is_host(copy->target, copy->row_bytes);
        if (bytes[batch->count] == 0)
            result = FERRYI_GPU_ERROR_INVALID_VALUE;
        else if ((host_source && host_target) || is_untranslated(copy->source, copy->row_bytes) ||
                 is_untranslated(copy->target, copy->row_bytes))
            copy->fault = true;
        else
            result = check_sides(context, copy, host_source, host_target);
        wait = wait || copy->wait;
    }
    if (result != FERRYI_GPU_SUCCESS) {
        drop_batch(batch);
        free(batch);
        return result;
    }
    result = fake_enqueue(queue, run_batch, drop_batch, batch, NULL);
    if (result == FERRYI_GPU_SUCCESS && wait && !queue->capture)
        fake_wait(queue, queue->queued);
    return result;
}

ferryi_gpu_result
cuMemcpyBatchAsync(ferryi_gpu_pointer *targets, ferryi_gpu_pointer *sources, size_t *bytes,
                   size_t count, struct ferryi_gpu_copy_attributes *attributes,
                   size_t *attribute_indices, size_t attribute_count, size_t *out_failed,
                   ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemcpyBatchAsync, FAKE_NEEDS_CONTEXT, &context);
    fake_result result = queue_batch(context, targets, sources, bytes, count, attributes,
                                     attribute_indices, attribute_count, stream);
    if (result != FERRYI_GPU_SUCCESS)
        *out_failed = SIZE_MAX;
    return fake_end(result);
}
#endif

#if FAKECUDA_GENERATION >= 13
ferryi_gpu_result
cuMemcpyBatchAsync_v2(ferryi_gpu_pointer *targets, ferryi_gpu_pointer *sources, size_t *bytes,
                      size_t count, struct ferryi_gpu_copy_attributes *attributes,
                      size_t *attribute_indices, size_t attribute_count, ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemcpyBatchAsync_v2, FAKE_NEEDS_CONTEXT, &context);
    return fake_end(queue_batch(context, targets, sources, bytes, count, attributes,
                                attribute_indices, attribute_count, stream));
}
#endif

/* -- fills -- */

struct fill {
    struct copy target; /* only its members `target` and `fault` are used */
    uint32_t pattern;
    size_t pattern_bytes, count;
};

static fake_result
run_fill(void *payload)
{
    const struct fill *fill = payload;
    if (fill->target.fault)
        return FERRYI_GPU_ERROR_ILLEGAL_ADDRESS;
    if (fill->pattern_bytes == 1) {
        memset(fill->target.target, (int)fill->pattern, fill->count);
        return FERRYI_GPU_SUCCESS;
    }
    unsigned short half = (unsigned short)fill->pattern;
    const void *value = fill->pattern_bytes == 2 ? (const void *)&half : &fill->pattern;
    for (size_t i = 0; i < fill->count; i++)
        memcpy(fill->target.target + i * fill->pattern_bytes, value, fill->pattern_bytes);
    return FERRYI_GPU_SUCCESS;
}

static fake_result
queue_fill(fake_context *context, ferryi_gpu_pointer target, uint32_t pattern, size_t pattern_bytes,
           size_t count, ferryi_gpu_stream stream)
{
    struct fake_queue *queue;
    fake_result result = fake_queue_of(context, stream, &queue);
    if (result == FERRYI_GPU_SUCCESS && target % pattern_bytes != 0)
        result = FERRYI_GPU_ERROR_INVALID_VALUE;
    if (result != FERRYI_GPU_SUCCESS || count == 0)
        return result;
    struct fill *fill = malloc(sizeof(*fill));
    if (!fill)
        return FERRYI_GPU_ERROR_OUT_OF_MEMORY;
    *fill = (struct fill){.target = plain(target, 0, 0),
                          .pattern = pattern,
                          .pattern_bytes = pattern_bytes,
                          .count = count};
    result = check_device_side(context, &fill->target, fill->target.target, pattern_bytes * count);
    if (result != FERRYI_GPU_SUCCESS) {
        free(fill);
        return result;
    }
    return fake_enqueue(queue, run_fill, NULL, fill, NULL);
}

ferryi_gpu_result
cuMemsetD8Async(ferryi_gpu_pointer target, unsigned char value, size_t count,
                ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemsetD8Async, FAKE_NEEDS_CONTEXT, &context);
    return fake_end(queue_fill(context, target, value, 1, count, stream));
}

ferryi_gpu_result
cuMemsetD16Async(ferryi_gpu_pointer target, unsigned short value, size_t count,
                 ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemsetD16Async, FAKE_NEEDS_CONTEXT, &context);
    return fake_end(queue_fill(context, target, value, 2, count, stream));
}

ferryi_gpu_result
cuMemsetD32Async(ferryi_gpu_pointer target, unsigned int value, size_t count,
                 ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemsetD32Async, FAKE_NEEDS_CONTEXT, &context);
    return fake_end(queue_fill(context, target, value, 4, count, stream));
}

/* -- host functions -- */

struct host_call {
    ferryi_gpu_host_function run;
    void *user;
};

static fake_result
run_host_call(void *payload)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    const struct host_call *call = payload;
    bool alone = fake.strict & FAKE_STRICT_HOST;
    if (alone)
        pthread_mutex_lock(&one_at_a_time);
    fake_host_function(true);
    call->run(call->user);
    fake_host_function(false);
    if (alone)
        pthread_mutex_unlock(&one_at_a_time);
    return FERRYI_GPU_SUCCESS;
}

ferryi_gpu_result
cuLaunchHostFunc(ferryi_gpu_stream stream, ferryi_gpu_host_function run, void *user)
{
    fake_context *context = NULL;
    struct fake_queue *queue;
    FAKE_BEGIN(cuLaunchHostFunc, FAKE_NEEDS_CONTEXT, &context);
    fake_result result =
        run ? fake_queue_of(context, stream, &queue) : FERRYI_GPU_ERROR_INVALID_VALUE;
    struct host_call *call = result == FERRYI_GPU_SUCCESS ? malloc(sizeof(*call)) : NULL;
    if (!call)
        return fake_end(result ? result : FERRYI_GPU_ERROR_OUT_OF_MEMORY);
    *call = (struct host_call){run, user};
    return fake_end(fake_enqueue(queue, run_host_call, NULL, call, NULL));
}
