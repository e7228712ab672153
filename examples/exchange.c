/* SPDX-License-Identifier: MIT */

/*
 * Two libraries that share an array by DLPack, in one program: a producer that knows nothing of Ferry, and a consumer
 * that knows nothing of Ferry either. Ferry stands between them. No value is copied, except by devices.
 *
 * A real program includes <dlpack/dlpack.h>. The declarations below are the part of it that is used here.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <ferry/exchange.h>
#include <ferry/ferry.h>
#include <ferry/float.h>

/* -- from dlpack.h --------------------------------------------------------------------------------- */

typedef struct {
    void *data;
    struct {
        int32_t device_type, device_id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensorVersioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

enum { CPU = 1, FLOAT_CODE = 2, READ_ONLY = 1 };

/* -- the producer: a picture of 3 rows and 4 columns ----------------------------------------------- */

enum { ROWS = 3, COLUMNS = 4, COUNT = ROWS * COLUMNS };

struct picture {
    DLManagedTensorVersioned tensor;
    int64_t shape[2], strides[2];
    float pixels[COUNT];
};

static void
delete_picture(DLManagedTensorVersioned *self)
{
    printf("the producer frees its picture\n");
    free(self->manager_ctx);
}

static DLManagedTensorVersioned *
take_picture(void)
{
    struct picture *picture = calloc(1, sizeof(*picture));
    if (!picture)
        return NULL;
    picture->shape[0] = ROWS;
    picture->shape[1] = COLUMNS;
    picture->strides[0] = COLUMNS;
    picture->strides[1] = 1;
    for (int i = 0; i < COUNT; i++)
        picture->pixels[i] = (float)i;
    DLManagedTensorVersioned *tensor = &picture->tensor;
    tensor->version.major = 1;
    tensor->manager_ctx = picture;
    tensor->deleter = delete_picture;
    tensor->dl_tensor.data = picture->pixels;
    tensor->dl_tensor.device.device_type = CPU;
    tensor->dl_tensor.ndim = 2;
    tensor->dl_tensor.dtype.code = FLOAT_CODE;
    tensor->dl_tensor.dtype.bits = 32;
    tensor->dl_tensor.dtype.lanes = 1;
    tensor->dl_tensor.shape = picture->shape;
    tensor->dl_tensor.strides = picture->strides;
    return tensor;
}

/* -- the consumer: prints what it gets, and keeps it as long as it likes --------------------------- */

static void
print_and_delete(DLManagedTensorVersioned *tensor)
{
    const DLTensor *t = &tensor->dl_tensor;
    const float *values = (const float *)(const void *)((const char *)t->data + t->byte_offset);
    printf("the consumer has %lld x %lld floats that it may %s:", (long long)t->shape[0], (long long)t->shape[1],
           tensor->flags & READ_ONLY ? "read" : "write");
    for (int64_t i = 0; i < t->shape[0]; i++)
        for (int64_t k = 0; k < t->shape[1]; k++)
            printf(" %g", values[i * t->strides[0] + k * t->strides[1]]);
    printf("\n");
    tensor->deleter(tensor);
}

/* -- between them ---------------------------------------------------------------------------------- */

/* The picture becomes a buffer, which owns it from here on. */
static ferry_status
import_picture(ferry_context *context, ferry_buffer **out)
{
    DLManagedTensorVersioned *tensor = take_picture();
    if (!tensor)
        return FERRY_ERROR_OUT_OF_MEMORY;
    const ferry_import_options options = {.name = "picture"};
    ferry_status status = ferry_buffer_import_dlpack(context, tensor, &options, out);
    if (status != FERRY_OK) /* then it is still ours */
        tensor->deleter(tensor);
    return status;
}

/* The transposed picture, read-only. The tensor keeps the lease, and the lease keeps everything else. */
static ferry_status
lend_transposed(ferry_buffer *buffer, DLManagedTensorVersioned **out)
{
    const int64_t shape[2] = {COLUMNS, ROWS}, strides[2] = {1, COLUMNS};
    const ferry_layout layout = {.rank = 2, .shape = shape, .strides = strides};
    const ferry_lease_options options = {.access = FERRY_READ, .label = "the consumer of examples/exchange.c"};
    ferry_lease *lease;
    void *pointer;
    ferry_status status = ferry_lease_open(buffer, ferry_float_element(), &options, &lease, &pointer);
    if (status != FERRY_OK)
        return status;
    status = ferry_lease_export_dlpack(lease, &layout, out);
    ferry_lease_destroy(&lease);
    return status;
}

int
main(void)
{
    ferry_context *context = NULL;
    ferry_buffer *buffer = NULL;
    DLManagedTensorVersioned *tensor = NULL;
    const float one = 1;
    ferry_status status;

    FERRY_TRY(status, out, ferry_context_create(NULL, &context));
    FERRY_TRY(status, out, import_picture(context, &buffer));
    FERRY_TRY(status, out, ferry_buffer_fill(buffer, ferry_float_element(), 0, COLUMNS, &one, NULL));
    FERRY_TRY(status, out, lend_transposed(buffer, &tensor));
    /* While the consumer has it, writes fail. The message names who has it. */
    if (ferry_buffer_fill(buffer, ferry_float_element(), 0, 1, &one, NULL) == FERRY_ERROR_BUSY)
        printf("busy: %s\n", ferry_last_error());
out:
    if (status != FERRY_OK)
        fprintf(stderr, "exchange: %s\n", ferry_last_error());
    /* The consumer outlives the buffer and the context. */
    ferry_buffer_destroy(&buffer);
    ferry_context_destroy(&context);
    if (tensor)
        print_and_delete(tensor);
    return status == FERRY_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
