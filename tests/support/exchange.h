/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_EXCHANGE_H
#define FERRY_TEST_EXCHANGE_H

/* Creates DLPack tensors and Arrow arrays of ints on the host. Tests may modify these structures
 * before they import them. */

#include <ferry/exchange.h>

#include "src/exchange/abi.h"

/* A DLPack tensor or an Arrow array together with its data. Both are in one block, which the
 * tensor's deleter frees. */
typedef struct exchange_tensor {
    union {
        struct DLManagedTensorVersioned versioned;
        struct DLManagedTensor legacy;
        struct ArrowDeviceArray arrow;
    };
    int64_t shape[64], strides[64];
    const void *buffers[2];
    void (*deleted)(void *user); /* called by the deleter with `user`; may be NULL */
    void *user;
} exchange_tensor;

/* Returns a one-dimensional DLPack tensor of `count` ints on the CPU, or NULL if memory is short.
 * The tensor's deleter increments the result of exchange_deleted(), calls `deleted` and frees the
 * block. */
struct DLManagedTensorVersioned *exchange_versioned(void *memory, int64_t count);
struct DLManagedTensor *exchange_legacy(void *memory, int64_t count);
struct ArrowDeviceArray *exchange_arrow(void *memory, int64_t count);
/* Schema of an array of ints. */
extern const struct ArrowSchema exchange_int_schema;

/* Returns the block that contains `inner`, which is a DLPack tensor or an Arrow array. */
exchange_tensor *exchange_around(void *inner);
/* Returns how often the deleters of all tensors together have run, on any thread. */
int exchange_deleted(void);
/* Frees the block of a tensor that no consumer has received. Does not call the deleter. */
void exchange_free(void *inner);

#endif
