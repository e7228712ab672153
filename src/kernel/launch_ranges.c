/* SPDX-License-Identifier: MIT */
#include <ferry/generated.h>

#include "src/buffer/buffer.h"
#include "src/kernel/launch.h"

/* Checks of the ranges that the arguments of one launch use. */

/* Returns whether two arguments use the same bytes as elements of the same size. */
static bool
is_same_range(const struct ferryi_launch_request *plan, size_t i, size_t j)
{
    const struct ferryi_access *a = &plan->wanted[plan->index[i]],
                               *b = &plan->wanted[plan->index[j]];
    const ferry_parameter *parameters = plan->kernel->parameters;
    return a->begin == b->begin && a->end == b->end &&
           parameters[i].element->bytes == parameters[j].element->bytes;
}

static bool
is_allowed(const struct ferryi_launch_request *plan, size_t i, size_t j)
{
    const ferry_parameter *one = &plan->kernel->parameters[i],
                          *other = &plan->kernel->parameters[j];
    const struct ferryi_access *a = &plan->wanted[plan->index[i]],
                               *b = &plan->wanted[plan->index[j]];
    ferry_overlap strict = one->overlap > other->overlap ? one->overlap : other->overlap;
    if (strict == FERRY_OVERLAP_ANY || (one->access == FERRY_READ && other->access == FERRY_READ))
        return true;
    if (a->store != b->store || a->begin >= b->end || b->begin >= a->end)
        return true;
    return strict == FERRY_OVERLAP_SAME && is_same_range(plan, i, j);
}

static ferry_status
refuse(const struct ferryi_launch_request *plan, size_t i, size_t j)
{
    const struct ferryi_access *a = &plan->wanted[plan->index[i]],
                               *b = &plan->wanted[plan->index[j]];
    const ferry_parameter *one = &plan->kernel->parameters[i],
                          *other = &plan->kernel->parameters[j];
    bool writes_other = other->access != FERRY_READ;
    return ferryi_fail(
        FERRY_ERROR_INVALID_ARGUMENT,
        "arguments %zu \"%s\" and %zu \"%s\" are bytes %zu to %zu and %zu to %zu of buffer \"%s\", "
        "and the kernel writes \"%s\" while it reads or writes elements of the other; pass another "
        "buffer for one of them",
        i, one->name ? one->name : "", j, other->name ? other->name : "", a->begin, a->end,
        b->begin, b->end, ferryi_store_name(a->store),
        writes_other ? (other->name ? other->name : "") : (one->name ? one->name : ""));
}

ferry_status
ferryi_launch_check_overlaps(const struct ferryi_launch_request *plan)
{
    for (size_t j = 1; j < plan->count; j++)
        for (size_t i = 0; i < j; i++)
            if (plan->index[i] != SIZE_MAX && plan->index[j] != SIZE_MAX && !is_allowed(plan, i, j))
                return refuse(plan, i, j);
    return FERRY_OK;
}
