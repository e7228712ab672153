/* SPDX-License-Identifier: MIT */
#include "src/exchange/exchange.h"

/* Imports DLPack tensors as buffers. The values in the producer's struct are checked before they
 * are used. The memory to which the struct points cannot be checked. */

static ferry_status
find_element(const struct ferryi_dl_tensor *tensor, const ferry_element **out)
{
    static const ferry_kind kinds[] = {
        [FERRYI_DL_INT] = FERRY_KIND_INT,         [FERRYI_DL_UINT] = FERRY_KIND_UINT,
        [FERRYI_DL_FLOAT] = FERRY_KIND_FLOAT,     [FERRYI_DL_BFLOAT] = FERRY_KIND_BFLOAT,
        [FERRYI_DL_COMPLEX] = FERRY_KIND_COMPLEX, [FERRYI_DL_BOOL] = FERRY_KIND_BOOL};
    unsigned code = tensor->dtype.code;
    if (tensor->dtype.lanes != 1)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "its elements are vectors of %u: a vector has to be a dimension",
                           (unsigned)tensor->dtype.lanes);
    ferry_kind kind = code < sizeof(kinds) / sizeof(kinds[0]) ? kinds[code] : (ferry_kind)0;
    *out = kind ? ferry_element_scalar(kind, tensor->dtype.bits) : NULL;
    if (!*out)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "no element is of type code %u with %u bits",
                           code, (unsigned)tensor->dtype.bits);
    return FERRY_OK;
}

/* Computes the number of elements of a tensor. Checks that the tensor has a shape with at most
 * FERRYI_EXCHANGE_RANK_MAX dimensions. */
static ferry_status
count_elements(const struct ferryi_dl_tensor *tensor, size_t *out)
{
    size_t count = 1;
    bool is_empty = false;
    if (tensor->rank < 0)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%d dimensions", (int)tensor->rank);
    if (tensor->rank > FERRYI_EXCHANGE_RANK_MAX)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%d dimensions: more than %d",
                           (int)tensor->rank, FERRYI_EXCHANGE_RANK_MAX);
    if (tensor->rank > 0 && !tensor->shape)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%d dimensions without a shape",
                           (int)tensor->rank);
    if ((uintptr_t)tensor->shape % _Alignof(int64_t) ||
        (uintptr_t)tensor->strides % _Alignof(int64_t))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "shape and strides at %p and %p are not aligned", (void *)tensor->shape,
                           (void *)tensor->strides);
    for (int32_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] < 0)
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "dimension %d has %lld elements",
                               (int)i, (long long)tensor->shape[i]);
        is_empty = is_empty || tensor->shape[i] == 0;
    }
    for (int32_t i = 0; !is_empty && i < tensor->rank; i++)
        if (!ferryi_mul_size(count, (size_t)tensor->shape[i], &count))
            return ferryi_fail(FERRY_ERROR_OVERFLOW, "the number of its elements overflows");
    *out = is_empty ? 0 : count;
    return FERRY_OK;
}

/* Returns a dimension in the bit set `left` that has the given stride, or -1 if there is none.
 * `left` contains no dimension of length 1, because the stride of such a dimension is irrelevant.
 */
static int32_t
find_dimension(const struct ferryi_dl_tensor *tensor, uint64_t left, size_t stride)
{
    for (int32_t i = 0; i < tensor->rank; i++)
        if (left >> i & 1 && tensor->strides[i] > 0 && (size_t)tensor->strides[i] == stride)
            return i;
    return -1;
}

/* Checks that the elements are packed, without gaps. There must be an order of the dimensions in
 * which each stride is the product of the lengths of all preceding dimensions. The tensor must not
 * be empty. */
static ferry_status
check_packed(const struct ferryi_dl_tensor *tensor)
{
    uint64_t left = 0;
    size_t stride = 1;
    for (int32_t i = 0; tensor->strides && i < tensor->rank; i++)
        left |= (uint64_t)(tensor->shape[i] > 1) << i;
    while (left) {
        int32_t next = find_dimension(tensor, left, stride);
        if (next < 0)
            return ferryi_fail(
                FERRY_ERROR_UNSUPPORTED,
                "its elements are not packed: no dimension has stride %zu; copy it first", stride);
        left &= ~(UINT64_C(1) << next);
        stride *= (size_t)tensor->shape[next];
    }
    return FERRY_OK;
}

static ferry_status
read_tensor(const struct ferryi_dl_tensor *tensor, struct ferryi_import *out)
{
    FERRYI_OR_RETURN(find_element(tensor, &out->element));
    FERRYI_OR_RETURN(count_elements(tensor, &out->count));
    if (out->count > 0)
        FERRYI_OR_RETURN(check_packed(tensor));
    size_t address = (uintptr_t)tensor->data;
    if (out->count > 0 && (!tensor->data || tensor->byte_offset > SIZE_MAX ||
                           !ferryi_add_size(address, (size_t)tensor->byte_offset, &address)))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%zu elements at address %p plus %llu",
                           out->count, tensor->data, (unsigned long long)tensor->byte_offset);
    out->memory = out->count > 0 ? (char *)tensor->data + tensor->byte_offset : NULL;
    out->device_type = tensor->device.type;
    out->device_id = tensor->device.id;
    return FERRY_OK;
}

static void
delete_versioned(void *memory, void *user)
{
    struct DLManagedTensorVersioned *tensor = user;
    (void)memory;
    if (tensor->deleter)
        tensor->deleter(tensor);
}

static void
delete_legacy(void *memory, void *user)
{
    struct DLManagedTensor *tensor = user;
    (void)memory;
    if (tensor->deleter)
        tensor->deleter(tensor);
}

ferry_status
ferry_buffer_import_dlpack(ferry_context *context, struct DLManagedTensorVersioned *tensor,
                           const ferry_import_options *options, ferry_buffer **out)
{
    static const char what[] = "import a DLPack tensor";
    if (!context || !tensor || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: context, tensor or out is NULL",
                           what);
    /* Only major version 1 is read, because a different major version may have a different layout.
     */
    if (tensor->version.major != 1)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%s: it is of version %u.%u, not 1", what,
                           (unsigned)tensor->version.major, (unsigned)tensor->version.minor);
    struct ferryi_import import = {.read_only = tensor->flags & FERRYI_DL_READ_ONLY,
                                   .on_release = delete_versioned,
                                   .user = tensor};
    ferry_status status = read_tensor(&tensor->dl_tensor, &import);
    return status == FERRY_OK ? ferryi_import_open(context, &import, options, what, out)
                              : ferryi_fail_in(status, "%s", what);
}

ferry_status
ferry_buffer_import_dlpack_legacy(ferry_context *context, struct DLManagedTensor *tensor,
                                  const ferry_import_options *options, ferry_buffer **out)
{
    static const char what[] = "import a legacy DLPack tensor";
    if (!context || !tensor || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: context, tensor or out is NULL",
                           what);
    struct ferryi_import import = {.on_release = delete_legacy, .user = tensor};
    ferry_status status = read_tensor(&tensor->dl_tensor, &import);
    return status == FERRY_OK ? ferryi_import_open(context, &import, options, what, out)
                              : ferryi_fail_in(status, "%s", what);
}
