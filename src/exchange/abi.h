/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ABI_H
#define FERRYI_ABI_H

/*
 * The structs of DLPack 1.x and of the Arrow C device data interface, as their specifications
 * define them. Only a new major version of DLPack may change the layout of its structs. Even a new
 * major version keeps the members of DLManagedTensorVersioned up to and including `flags`.
 */

#include <stdint.h>

/* -- DLPack ------------------------------------------------------------------------------------ */

enum ferryi_dl_device {
    FERRYI_DL_CPU = 1,
    FERRYI_DL_CUDA = 2,
    FERRYI_DL_CUDA_HOST = 3,
    FERRYI_DL_OPENCL = 4,
    FERRYI_DL_ROCM = 10,
    FERRYI_DL_ROCM_HOST = 11,
    FERRYI_DL_EXT_DEV = 12,
    FERRYI_DL_CUDA_MANAGED = 13
};

/* Returns whether a device type means memory of the host, which may be page-locked for devices. */
static inline bool
ferryi_dl_is_host(int32_t type)
{
    return type == FERRYI_DL_CPU || type == FERRYI_DL_CUDA_HOST || type == FERRYI_DL_ROCM_HOST;
}

enum ferryi_dl_code {
    FERRYI_DL_INT = 0,
    FERRYI_DL_UINT = 1,
    FERRYI_DL_FLOAT = 2,
    FERRYI_DL_BFLOAT = 4,
    FERRYI_DL_COMPLEX = 5,
    FERRYI_DL_BOOL = 6
};

#define FERRYI_DL_READ_ONLY (UINT64_C(1) << 0)

struct ferryi_dl_tensor {
    void *data;
    struct {
        int32_t type;
        int32_t id;
    } device;
    int32_t rank;
    struct {
        uint8_t code;
        uint8_t bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape;
    int64_t *strides; /* distance in elements between neighbours in each dimension; NULL if the
                         elements are packed in row-major order */
    uint64_t byte_offset;
};

struct DLManagedTensor {
    struct ferryi_dl_tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self); /* may be NULL */
};

struct DLManagedTensorVersioned {
    struct {
        uint32_t major;
        uint32_t minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* may be NULL */
    uint64_t flags;
    struct ferryi_dl_tensor dl_tensor;
};

/* -- Arrow ------------------------------------------------------------------------------------- */

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
    /* NULL if the array was released or moved to another struct. */
    void (*release)(struct ArrowArray *self);
    void *private_data;
};

struct ArrowDeviceArray {
    struct ArrowArray array;
    int64_t device_id;
    int32_t device_type;
    void *sync_event; /* points to an event of the device, or NULL */
    int64_t reserved[3];
};

_Static_assert(sizeof(void *) != 8 || (sizeof(struct DLManagedTensor) == 64 &&
                                       sizeof(struct DLManagedTensorVersioned) == 80),
               "DLPack's layout");
_Static_assert(sizeof(void *) != 8 ||
                   (sizeof(struct ArrowSchema) == 72 && sizeof(struct ArrowArray) == 80 &&
                    sizeof(struct ArrowDeviceArray) == 128),
               "Arrow's layout");

#endif
