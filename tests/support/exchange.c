/* SPDX-License-Identifier: MIT */
#include "tests/support/exchange.h"

#include <stdatomic.h>
#include <stdlib.h>

static atomic_int deleted;

/* Returns the block that contains `inner`, which is a DLPack tensor or an Arrow array. These
 * structs are members of a union at the start of the block. */
exchange_tensor *
exchange_around(void *inner)
{
    return inner;
}

int
exchange_deleted(void)
{
    return atomic_load(&deleted);
}

void
exchange_free(void *inner)
{
    free(inner);
}

static void
end(exchange_tensor *tensor)
{
    atomic_fetch_add(&deleted, 1);
    if (tensor->deleted)
        tensor->deleted(tensor->user);
    free(tensor);
}

static void
end_versioned(struct DLManagedTensorVersioned *self)
{
    end(exchange_around(self));
}

static void
end_legacy(struct DLManagedTensor *self)
{
    end(exchange_around(self));
}

/* Release function of an Arrow array. A consumer may move the structs of Arrow, so the function
 * finds the block through their private data. */
static void
end_arrow(struct ArrowArray *self)
{
    exchange_tensor *tensor = self->private_data;
    self->release = NULL;
    end(tensor);
}

static void
fill(exchange_tensor *tensor, struct ferryi_dl_tensor *dl, void *memory, int64_t count)
{
    tensor->shape[0] = count;
    tensor->strides[0] = 1;
    *dl = (struct ferryi_dl_tensor){.data = memory,
                                    .device = {FERRYI_DL_CPU, 0},
                                    .rank = 1,
                                    .dtype = {FERRYI_DL_INT, 32, 1},
                                    .shape = tensor->shape,
                                    .strides = tensor->strides};
}

struct DLManagedTensorVersioned *
exchange_versioned(void *memory, int64_t count)
{
    exchange_tensor *tensor = calloc(1, sizeof(*tensor));
    if (!tensor)
        return NULL;
    tensor->versioned.version.major = 1;
    tensor->versioned.deleter = end_versioned;
    fill(tensor, &tensor->versioned.dl_tensor, memory, count);
    return &tensor->versioned;
}

struct DLManagedTensor *
exchange_legacy(void *memory, int64_t count)
{
    exchange_tensor *tensor = calloc(1, sizeof(*tensor));
    if (!tensor)
        return NULL;
    tensor->legacy.deleter = end_legacy;
    fill(tensor, &tensor->legacy.dl_tensor, memory, count);
    return &tensor->legacy;
}

struct ArrowDeviceArray *
exchange_arrow(void *memory, int64_t count)
{
    exchange_tensor *tensor = calloc(1, sizeof(*tensor));
    if (!tensor)
        return NULL;
    tensor->buffers[1] = memory;
    tensor->arrow = (struct ArrowDeviceArray){.array = {.length = count,
                                                        .n_buffers = 2,
                                                        .buffers = tensor->buffers,
                                                        .release = end_arrow,
                                                        .private_data = tensor},
                                              .device_id = -1,
                                              .device_type = FERRYI_DL_CPU};
    return &tensor->arrow;
}

static void
keep_schema(struct ArrowSchema *self)
{
    (void)self;
}

const struct ArrowSchema exchange_int_schema = {
    .format = "i", .name = "ints", .release = keep_schema};
