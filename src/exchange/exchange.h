/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_EXCHANGE_H
#define FERRYI_EXCHANGE_H

/*
 * Exchange of arrays with other libraries. This layer is on top of buffers and only calls them: an
 * import is a wrap whose owner is the producer's struct. The layer has no state and takes no lock.
 */

#include <ferry/exchange.h>

#include "src/base/base.h"
#include "src/base/callback.h"
#include "src/exchange/abi.h"

/* Larger than in NumPy and PyTorch; arrays with more dimensions are refused. */
#define FERRYI_EXCHANGE_RANK_MAX 64

/* Alignment in bytes that a C compiler gives to a scalar of this kind and width. */
size_t ferryi_scalar_align(ferry_kind kind, uint32_t bits);

/* Memory of a producer, after it was checked. */
struct ferryi_import {
    const ferry_element *element;
    void *memory;
    size_t count;
    int32_t device_type, device_id;
    bool read_only;
    void (*on_release)(void *memory, void *user);
    void *user;
    void *event; /* native event for which `ready_on` waits, or NULL */
};

/* Wraps the imported memory. `what` is the first part of messages. On failure the producer keeps
 * the memory, and on_release is not called. */
ferry_status ferryi_import_open(ferry_context *context, const struct ferryi_import *import,
                                const ferry_import_options *options, const char *what,
                                ferry_buffer **out);

/*
 * Fails unless the lease is open; otherwise adds an owner to it, which the export takes over. `out`
 * is checked for NULL. Callbacks that allow only queries must not export.
 */
ferry_status ferryi_export_begin(ferry_lease *lease, const void *out, const char *what);
/* Called when the export failed with `status` and this thread's message: puts `what` before the
 * message and drops the owner. Returns `status`. */
ferry_status ferryi_export_fail(ferry_lease *lease, ferry_status status, const char *what);

#endif
