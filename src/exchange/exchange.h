/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_EXCHANGE_H
#define FERRYI_EXCHANGE_H

/*
 * The exchange of arrays with other libraries. This module uses buffers only through their public
 * functions. An imported array becomes a wrapped buffer, which owns the producer's struct. The
 * module has no state and takes no lock.
 */

#include <ferry/exchange.h>

#include "src/base/base.h"
#include "src/base/callback.h"
#include "src/exchange/abi.h"

/* Maximum number of dimensions of an exchanged array. NumPy and PyTorch support fewer dimensions.
 */
#define FERRYI_EXCHANGE_RANK_MAX 64

/* Returns the alignment in bytes that a C compiler uses for a scalar of the given kind and width.
 */
size_t ferryi_scalar_align(ferry_kind kind, uint32_t bits);

/* Returns whether the offset of each field and the size of the struct are multiples of the field's
 * alignment. If so, a parser that aligns the fields adds no padding to the layout in the text. If
 * not, a C compiler makes such a struct only when it is packed. */
bool ferryi_element_is_natural(const ferry_element *element);

/* Describes memory that is imported from another library. Its members have been checked. */
struct ferryi_import {
    const ferry_element *element;
    void *memory;
    size_t count;
    int32_t device_type, device_id;
    bool read_only;
    void (*on_release)(void *memory, void *user);
    void *user;
    void *event; /* native event for which `ready_on` waits; NULL: none */
};

/* Wraps the imported memory as a buffer. Error messages begin with `what`. On failure, the library
 * that produced the memory still owns it, and on_release is not called. */
ferry_status ferryi_import_open(ferry_context *context, const struct ferryi_import *import,
                                const ferry_import_options *options, const char *what,
                                ferry_buffer **out);

/*
 * Adds an owner to an open lease that is being exported. The exported struct becomes this owner.
 * Fails if the lease is not open, if `out` is NULL, or inside a callback that allows only queries.
 */
ferry_status ferryi_export_begin(ferry_lease *lease, const void *out, const char *what);
/* Handles an export that failed with `status` and with this thread's error message. Prepends `what`
 * to the message, and removes the owner that ferryi_export_begin() added. Returns `status`. */
ferry_status ferryi_export_fail(ferry_lease *lease, ferry_status status, const char *what);

#endif
