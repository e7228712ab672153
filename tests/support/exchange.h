/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_EXCHANGE_H
#define FERRY_TEST_EXCHANGE_H

/* Creates DLPack tensors and Arrow arrays of ints on the host. Tests may modify these structures
 * before they import them. */

#include <ferry/exchange.h>

#include "src/exchange/abi.h"

/* One allocated block that holds a DLPack tensor or an Arrow array and everything that it points
 * to, except the elements. The deleter of the tensor frees the block. */
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

/* Return a one-dimensional tensor or array of the `count` ints at `memory`, or NULL if memory is
 * short. Its deleter increments the result of exchange_deleted(), calls the callback `deleted` and
 * frees the block. */
struct DLManagedTensorVersioned *exchange_versioned(void *memory, int64_t count);
struct DLManagedTensor *exchange_legacy(void *memory, int64_t count);
struct ArrowDeviceArray *exchange_arrow(void *memory, int64_t count);
/* Schema of an array of ints. */
extern const struct ArrowSchema exchange_int_schema;

/* Returns the block that contains `inner`, which is a DLPack tensor or an Arrow array. */
exchange_tensor *exchange_around(void *inner);
/* Returns the number of calls of deleters, for all tensors and on all threads. */
int exchange_deleted(void);
/* Frees the block of a tensor that no consumer has received. Does not call the deleter. */
void exchange_free(void *inner);

#endif
