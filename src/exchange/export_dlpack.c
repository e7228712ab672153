/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/buffer/lease.h"
#include "src/exchange/exchange.h"

/* Exports leases as DLPack tensors. One allocation contains the tensor, its shape and its strides.
 * The tensor's deleter removes one owner of the lease. */

struct export
{
    union {
        struct DLManagedTensorVersioned versioned;
        struct DLManagedTensor legacy;
    };
    ferry_lease *lease;
    int64_t numbers[]; /* shape, then strides */
};

/* The dimensions that the program requested for the tensor, in elements. */
struct dimensions {
    int rank;
    const int64_t *shape, *strides; /* NULL strides: packed */
    int64_t count; /* length of the single dimension if the program requested no layout */
    bool is_empty;
};

static ferry_status
read_shape(const ferry_layout *layout, size_t cold, size_t count, struct dimensions *out)
{
    *out = (struct dimensions){.rank = 1, .count = (int64_t)count, .is_empty = count == 0};
    if (!layout)
        return FERRY_OK;
    if (layout->rank < 0 || (layout->rank > 0 && !layout->shape))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%d dimensions%s", layout->rank,
                           layout->rank > 0 ? " without a shape" : "");
    if ((size_t)layout->rank + cold > FERRYI_EXCHANGE_RANK_MAX)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%d dimensions: more than %zu", layout->rank,
                           FERRYI_EXCHANGE_RANK_MAX - cold);
    *out = (struct dimensions){
        .rank = layout->rank, .shape = layout->shape, .strides = layout->strides};
    for (int i = 0; i < layout->rank; i++) {
        if (layout->shape[i] < 0)
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "dimension %d has %lld elements", i,
                               (long long)layout->shape[i]);
        out->is_empty = out->is_empty || layout->shape[i] == 0;
    }
    return FERRY_OK;
}

static ferry_status
past_the_end(size_t count)
{
    return ferryi_fail(FERRY_ERROR_OUT_OF_RANGE,
                       "the layout reaches outside of the %zu elements of the lease", count);
}

/* Computes the strides of the tensor in elements. Fails if an element would lie outside the lease.
 */
static ferry_status
find_strides(const struct dimensions *d, size_t count, int64_t *out)
{
    int64_t next = 1, lowest = 0, highest = 0;
    for (int i = d->rank; i-- > 0;) {
        int64_t extent = d->shape ? d->shape[i] : d->count, reach;
        out[i] = d->strides ? d->strides[i] : next;
        if (__builtin_mul_overflow(next, extent > 0 ? extent : 1, &next)) {
            if (!d->strides && !d->is_empty)
                return past_the_end(count);
            next = 1; /* the strides of an empty tensor are never used, so any value will do */
        }
        if (d->is_empty)
            continue;
        if (__builtin_mul_overflow(extent - 1, out[i], &reach) ||
            __builtin_add_overflow(reach < 0 ? lowest : highest, reach,
                                   reach < 0 ? &lowest : &highest))
            return past_the_end(count);
    }
    return d->is_empty || (lowest == 0 && (uint64_t)highest < count) ? FERRY_OK
                                                                     : past_the_end(count);
}

/* Changes the shape and the strides of an array of structs to those of an array of bytes, which has
 * one more dimension. */
static ferry_status
add_bytes(const ferry_element *element, int rank, int64_t *shape, int64_t *strides)
{
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(strides[i], (int64_t)element->bytes, &strides[i]))
            return ferryi_fail(FERRY_ERROR_OVERFLOW, "stride %lld overflows in bytes",
                               (long long)strides[i]);
    shape[rank] = (int64_t)element->bytes;
    strides[rank] = 1;
    return FERRY_OK;
}

static ferry_status
fill_tensor(struct export *export, const ferry_lease *lease, const struct dimensions *d,
            size_t count, struct ferryi_dl_tensor *out)
{
    static const uint8_t codes[] = {
        [FERRY_KIND_FLOAT] = FERRYI_DL_FLOAT, [FERRY_KIND_BFLOAT] = FERRYI_DL_BFLOAT,
        [FERRY_KIND_INT] = FERRYI_DL_INT,     [FERRY_KIND_UINT] = FERRYI_DL_UINT,
        [FERRY_KIND_BOOL] = FERRYI_DL_BOOL,   [FERRY_KIND_COMPLEX] = FERRYI_DL_COMPLEX,
        [FERRY_KIND_STRUCT] = FERRYI_DL_UINT};
    const ferry_element *element = lease->element;
    bool is_struct = element->kind == FERRY_KIND_STRUCT;
    int rank = d->rank + is_struct;
    int64_t *shape = export->numbers, *strides = export->numbers + rank;
    for (int i = 0; i < d->rank; i++)
        shape[i] = d->shape ? d->shape[i] : d->count;
    ferry_status status = find_strides(d, count, strides);
    if (status == FERRY_OK && is_struct)
        status = add_bytes(element, d->rank, shape, strides);
    *out = (struct ferryi_dl_tensor){.data = d->is_empty ? NULL : lease->pointer,
                                     .rank = rank,
                                     .shape = shape,
                                     .strides = strides};
    out->dtype.code = codes[element->kind];
    out->dtype.bits = (uint8_t)(is_struct ? 8 : element->bits);
    out->dtype.lanes = 1;
    out->device.type = FERRYI_DL_CPU;
    out->device.id = 0;
    if (status != FERRY_OK || lease->place == FERRY_PLACE_HOST)
        return status;
    return ferry_context_exchange_device(lease->context, lease->place, &out->device.type,
                                         &out->device.id);
}

static void
end(struct export *export)
{
    ferry_lease_destroy(&export->lease);
    free(export);
}

static void
delete_versioned(struct DLManagedTensorVersioned *self)
{
    end(self->manager_ctx);
}

static void
delete_legacy(struct DLManagedTensor *self)
{
    end(self->manager_ctx);
}

/* Creates the DLPack tensor, which becomes the owner of the lease that ferryi_export_begin() added.
 */
static ferry_status
export_lease(ferry_lease *lease, const ferry_layout *layout, bool is_legacy, struct export **out)
{
    struct dimensions d;
    size_t count = lease->bytes / lease->element->bytes,
           cold = lease->element->kind == FERRY_KIND_STRUCT;
    FERRYI_OR_RETURN(read_shape(layout, cold, count, &d));
    struct export *export = malloc(sizeof(*export) + 2 * ((size_t)d.rank + cold) * sizeof(int64_t));
    if (!export)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for a tensor of %d dimensions",
                           d.rank);
    struct ferryi_dl_tensor *tensor =
        is_legacy ? &export->legacy.dl_tensor : &export->versioned.dl_tensor;
    ferry_status status = fill_tensor(export, lease, &d, count, tensor);
    if (status != FERRY_OK) {
        free(export);
        return status;
    }
    export->lease = lease;
    *out = export;
    return FERRY_OK;
}

ferry_status
ferryi_export_begin(ferry_lease *lease, const void *out, const char *what)
{
    if (!lease || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: lease or out is NULL", what);
    ferry_status status = ferryi_callback_check(what);
    if (status == FERRY_OK)
        status = ferryi_shell_check_alive(lease->context, what);
    if (status == FERRY_OK && !ferryi_lease_share(lease))
        status = ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s: the lease is closed", what);
    return status;
}

ferry_status
ferryi_export_fail(ferry_lease *lease, ferry_status status, const char *what)
{
    ferryi_fail_in(status, "%s", what);
    FERRYI_KEEP_ERROR(why);
    ferry_lease_destroy(&lease);
    return status;
}

ferry_status
ferry_lease_export_dlpack(ferry_lease *lease, const ferry_layout *layout,
                          struct DLManagedTensorVersioned **out)
{
    static const char what[] = "export a lease as a DLPack tensor";
    struct export *export;
    FERRYI_OR_RETURN(ferryi_export_begin(lease, out, what));
    ferry_status status = export_lease(lease, layout, false, &export);
    if (status != FERRY_OK)
        return ferryi_export_fail(lease, status, what);
    export->versioned.version.major = 1;
    export->versioned.version.minor = 0;
    export->versioned.manager_ctx = export;
    export->versioned.deleter = delete_versioned;
    export->versioned.flags = lease->access == FERRY_READ ? FERRYI_DL_READ_ONLY : 0;
    *out = &export->versioned;
    return FERRY_OK;
}

ferry_status
ferry_lease_export_dlpack_legacy(ferry_lease *lease, const ferry_layout *layout,
                                 struct DLManagedTensor **out)
{
    static const char what[] = "export a lease as a legacy DLPack tensor";
    struct export *export;
    ferry_status status = ferryi_export_begin(lease, out, what);
    if (status != FERRY_OK)
        return status;
    if (lease->access == FERRY_READ)
        status =
            ferryi_fail(FERRY_ERROR_UNSUPPORTED, "it cannot say that the lease is a READ lease");
    else
        status = export_lease(lease, layout, true, &export);
    if (status != FERRY_OK)
        return ferryi_export_fail(lease, status, what);
    export->legacy.manager_ctx = export;
    export->legacy.deleter = delete_legacy;
    *out = &export->legacy;
    return FERRY_OK;
}
