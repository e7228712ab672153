/* SPDX-License-Identifier: MIT */
#include "src/buffer/buffer.h"

/* A buffer in managed memory has one replica, which all places share. The driver moves the pages of
 * this replica between the places. Ferry passes hints to the driver only if the program asks for
 * hints. A claim (range lock) keeps the memory at its address while the driver uses this address.
 */

/* Fails with UNSUPPORTED unless the driver accepts hints for the buffer's memory. Hints need
 * managed memory that the host and the device can use at the same time. Other managed memory is
 * moved as a whole by the driver at every launch. */
static ferry_status
check_hints(const ferryi_store *store, const ferryi_device *device, const char *what)
{
    const char *why = NULL;
    if (store->memory != FERRY_MEMORY_MANAGED)
        why = "its memory is not managed";
    else if (!device || !(device->capabilities & FERRY_CAN_MANAGE_CONCURRENTLY))
        why = "no device that is asked takes hints about managed memory";
    return why ? ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%s buffer \"%s\": %s", what,
                             ferryi_store_name(store), why)
               : FERRY_OK;
}

ferry_status
ferryi_managed_prefetch(ferryi_store *store, struct ferryi_range range, int place,
                        ferryi_timeline *timeline)
{
    ferryi_device *device = timeline->device;
    struct ferryi_access claim =
        ferryi_access_of(store, range, FERRY_READ, FERRYI_PLACE_NONE, "prefetch");
    ferryi_timeline *on = NULL;
    FERRYI_OR_RETURN(check_hints(store, device, "prefetch"));
    FERRYI_OR_RETURN(ferryi_access_open(&claim, 1));
    ferryi_claim_is_held();
    ferry_status status = ferryi_store_reserve(store, place, NULL);
    if (status == FERRY_OK)
        status = ferryi_store_order(store, place, timeline, false);
    if (status == FERRY_OK)
        status = FERRYI_CALL(device, prefetch,
                             ferryi_store_memory(store, FERRY_PLACE_HOST, range.begin).pointer,
                             range.end - range.begin, place ? device : NULL, timeline->native);
    if (status == FERRY_OK)
        status = ferryi_timeline_join(timeline, ferryi_thread_id(), timeline->generation, &on);
    if (on)
        ferryi_store_note_read(store, place, on);
    (void)ferryi_access_close(&claim, FERRYI_CLOSE_CANCEL, NULL);
    return status;
}

/* -- advice ------------------------------------------------------------------------------------ */

/* Notes that the driver has advice about the buffer's memory. */
static void
note_advice(ferryi_store *store)
{
    ferryi_store_lock(store);
    ferryi_store_copy(store, FERRY_PLACE_HOST)->advised = true;
    ferryi_store_unlock(store);
}

static ferry_status
advise(ferryi_store *store, struct ferryi_range range, ferry_advice advice, int place)
{
    ferryi_device *device =
        place ? store->context->devices[place] : ferryi_store_managing_device(store->context);
    struct ferryi_access claim =
        ferryi_access_of(store, range, FERRY_READ, FERRYI_PLACE_NONE, "advise");
    ferry_status status = check_hints(store, device, "advise");
    if (status != FERRY_OK || range.begin == range.end)
        return status;
    FERRYI_OR_RETURN(ferryi_access_open(&claim, 1));
    ferryi_claim_is_held();
    status = ferryi_store_reserve(store, place, NULL);
    if (status == FERRY_OK)
        note_advice(store);
    if (status == FERRY_OK)
        status = FERRYI_CALL(device, advise,
                             ferryi_store_memory(store, FERRY_PLACE_HOST, range.begin).pointer,
                             range.end - range.begin, (int)advice, place ? device : NULL);
    (void)ferryi_access_close(&claim, FERRYI_CLOSE_CANCEL, NULL);
    return status;
}

ferry_status
ferry_buffer_advise(ferry_buffer *buffer, size_t offset, size_t count, int place,
                    ferry_advice advice)
{
    ferry_status status;
    do {
        struct ferryi_range range;
        status = ferryi_place_check(buffer, FERRY_READ, offset, count, place, "advise", &range);
        if (status != FERRY_OK)
            return status;
        if (advice < FERRY_ADVISE_READ_MOSTLY || advice > FERRY_ADVISE_UNSET_ACCESSED_BY)
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "advise: advice %d is unknown",
                               (int)advice);
        status = advise(buffer->store, range, advice, place);
    } while (ferryi_buffer_starts_over(status, count));
    return status;
}
