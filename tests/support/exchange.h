/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_EXCHANGE_H
#define FERRY_TEST_EXCHANGE_H

/* Producers of DLPack tensors and Arrow arrays: ints on the host, for tests that change what they
 * want to. */

#include <ferry/exchange.h>

#include "src/exchange/abi.h"

/* What a producer hands out, as one block that its deleter frees. */
typedef struct exchange_tensor {
    union {
        struct DLManagedTensorVersioned versioned;
        struct DLManagedTensor legacy;
        struct ArrowDeviceArray arrow;
    };
    int64_t shape[64], strides[64];
    const void *buffers[2];
    void (*deleted)(void *user); /* NULL: none is called */
    void *user;
} exchange_tensor;

/* `count` ints in one dimension on the CPU. The deleter counts, calls `deleted` and frees the
 * block. NULL when memory is short. */
struct DLManagedTensorVersioned *exchange_versioned(void *memory, int64_t count);
struct DLManagedTensor *exchange_legacy(void *memory, int64_t count);
struct ArrowDeviceArray *exchange_arrow(void *memory, int64_t count);
/* Of an array of ints. */
extern const struct ArrowSchema exchange_int_schema;

/* The block around a tensor or an array. */
exchange_tensor *exchange_around(void *inner);
/* How often deleters ran so far, on any thread. */
int exchange_deleted(void);
/* Frees a block whose tensor stayed with its producer, without the deleter. */
void exchange_free(void *inner);

#endif
