/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_EXCHANGE_H
#define FERRYI_EXCHANGE_H

/*
 * Arrays that cross to other libraries. This layer stands on buffers and only calls them: an import
 * is a wrap whose owner is the producer's struct. It keeps no state and takes no lock.
 */

#include <ferry/exchange.h>

#include "src/base/base.h"
#include "src/base/callback.h"
#include "src/exchange/abi.h"

/* More than NumPy and PyTorch make; what claims more is not read. */
#define FERRYI_EXCHANGE_RANK_MAX 64

/* Alignment in bytes that a C compiler gives to a scalar of this kind and width. */
size_t ferryi_scalar_align(ferry_kind kind, uint32_t bits);

/* Memory of a producer, checked by its reader. */
struct ferryi_import {
    const ferry_element *element;
    void *memory;
    size_t count;
    int32_t device_type, device_id;
    bool read_only;
    void (*on_release)(void *memory, void *user);
    void *user;
    void *event; /* a handle of the device that `ready_on` waits for, or NULL */
};

/* Wraps it; `what` begins messages. On failure nothing was taken, and on_release is not called. */
ferry_status ferryi_import_open(ferry_context *context, const struct ferryi_import *import,
                                const ferry_import_options *options, const char *what,
                                ferry_buffer **out);

/*
 * Fails unless the lease is open, and adds an owner to it, which becomes that of the export. `out`
 * is an output. Exports are calls that a watching callback may not make.
 */
ferry_status ferryi_export_begin(ferry_lease *lease, const void *out, const char *what);
/* The export failed with `status` and this thread's message, which `what` begins: gives that owner
 * back. */
ferry_status ferryi_export_fail(ferry_lease *lease, ferry_status status, const char *what);

#endif
