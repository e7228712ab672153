/* SPDX-License-Identifier: MIT */
#include "src/store/place_pool.h"

#include <stdlib.h>
#include <string.h>

/* This file sets released memory to zero. Queued work may still use the memory. The call then does
 * not wait: the join timeline of the place, which is a stream of Ferry, waits for that work, and
 * the device sets the memory to zero on it. The host sets host memory to zero, if necessary in a
 * host function of that stream. If nothing can be queued, the call waits. */

/* Memory that a host function sets to zero. */
struct zeroing {
    void *memory;
    size_t bytes;
};

static void
run(void *user)
{
    struct zeroing *zeroing = user;
    memset(zeroing->memory, 0, zeroing->bytes);
    free(zeroing);
}

/* Queues the zeroing of host memory on a timeline that waits for all uses of the memory. */
static ferry_status
queue_on_host(ferryi_timeline *timeline, void *memory, size_t bytes)
{
    struct zeroing *zeroing = malloc(sizeof(*zeroing));
    if (!zeroing)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory for %zu bytes",
                           sizeof(*zeroing));
    *zeroing = (struct zeroing){memory, bytes};
    ferry_status status = FERRYI_CALL(timeline->device, host_call, timeline->native, run, zeroing);
    if (status != FERRY_OK)
        free(zeroing);
    return status;
}

/* Makes the join timeline of a place wait for the use `*point`, and queues the zeroing on it. */
static ferry_status
queue(ferry_context *context, int place, bool by_host, void *memory, size_t bytes,
      ferryi_sync_point *point)
{
    ferryi_timeline *join;
    FERRYI_OR_RETURN(
        ferryi_timeline_of_joins(&context->order, context->devices[place], place, &join));
    FERRYI_OR_RETURN(ferryi_sync_point_wait(&context->order, join, *point));
    FERRYI_OR_RETURN(by_host ? queue_on_host(join, memory, bytes)
                             : FERRYI_CALL(join->device, fill, memory, 0, 1, bytes, join->native));
    *point = ferryi_timeline_sync_point(join);
    return FERRY_OK;
}

/* Returns the place whose device sets the memory to zero, or 0 if the host does. */
static int
device_for(const struct ferryi_pool_config *config)
{
    const ferry_context *context = config->context;
    if (config->kind == FERRY_MEMORY_MANAGED)
        return ferryi_shell_place_with(context, FERRY_CAN_MANAGE);
    return context->coherent >> config->place & 1 ? 0 : config->place;
}

static ferry_status
zero_on_host(ferry_context *context, void *memory, size_t bytes, ferryi_sync_point *point)
{
    ferryi_order *order = &context->order;
    const ferryi_timeline *user = order->timelines[ferryi_sync_point_number(*point)];
    if (!ferryi_sync_point_query(order, *point) &&
        queue(context, user->place, true, memory, bytes, point) == FERRY_OK)
        return FERRY_OK;
    FERRYI_OR_RETURN(ferryi_sync_point_wait(order, NULL, *point));
    memset(memory, 0, bytes);
    *point = 0;
    return FERRY_OK;
}

ferry_status
ferryi_place_zero(const struct ferryi_pool_config *config, void *memory, size_t bytes,
                  ferryi_sync_point *point)
{
    int place = device_for(config);
    return place ? queue(config->context, place, false, memory, bytes, point)
                 : zero_on_host(config->context, memory, bytes, point);
}
