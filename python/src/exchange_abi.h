/* SPDX-License-Identifier: MIT */
#ifndef FERRYPY_EXCHANGE_ABI_H
#define FERRYPY_EXCHANGE_ABI_H

/*
 * The structs of DLPack 1.x and Arrow, as their documents define them. <ferry/exchange.h> only
 * declares them. DLPack changes its layout with the major version alone, and keeps everything up to
 * `flags` even then.
 */

#include <stdint.h>

#define DLPACK_READ_ONLY (UINT64_C(1) << 0)
#define DLPACK_IS_COPIED (UINT64_C(1) << 1)

struct dlpack_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t rank;
    uint8_t code, bits;
    uint16_t timelines;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: packed, the last index fastest */
    uint64_t byte_offset;
};

struct DLManagedTensor {
    struct dlpack_tensor tensor;
    void *manager;
    void (*deleter)(struct DLManagedTensor *self); /* may be NULL */
};

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* may be NULL */
    uint64_t flags;
    struct dlpack_tensor tensor;
};

_Static_assert(sizeof(void *) != 8 || (sizeof(struct DLManagedTensor) == 64 &&
                                       sizeof(struct DLManagedTensorVersioned) == 80),
               "DLPack's layout");

/* The structs of the Arrow C device data interface. */
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *self);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *self);
    void *private_data;
};

struct ArrowDeviceArray {
    struct ArrowArray array;
    int64_t device_id;
    int32_t device_type;
    void *sync_event;
    int64_t reserved[3];
};

_Static_assert(sizeof(void *) != 8 ||
                   (sizeof(struct ArrowSchema) == 72 && sizeof(struct ArrowDeviceArray) == 128),
               "Arrow's layout");

#endif
