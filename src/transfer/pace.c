/* SPDX-License-Identifier: MIT */
#include "src/transfer/pace.h"

#include <stdlib.h>

ferry_status
ferryi_pace_begin(struct ferryi_pace *pace)
{
    ferryi_device *device = pace->lane->device;
    void **event = &pace->events[pace->begun % FERRYI_PACE_PARTS];
    return *event ? FERRYI_CALL(device, event_synchronize, *event) : FERRYI_CALL(device, event_create, event);
}

ferry_status
ferryi_pace_end(struct ferryi_pace *pace)
{
    void *event = pace->events[pace->begun++ % FERRYI_PACE_PARTS];
    return FERRYI_CALL(pace->lane->device, event_record, event, pace->lane->native);
}

void
ferryi_pace_clear(struct ferryi_pace *pace)
{
    for (size_t i = 0; i < FERRYI_PACE_PARTS; i++)
        if (pace->events[i])
            ferryi_pace_drop_event(pace->log, pace->lane->device, pace->events[i]);
}

void
ferryi_pace_drop_event(const struct ferryi_log *log, ferryi_device *device, void *event)
{
    char *before = ferryi_last_error_copy();
    if (FERRYI_CALL(device, event_destroy, event) != FERRY_OK) {
        ferryi_log(log, FERRY_LOG_ERROR, "give back an event of a transfer: %s", ferry_last_error());
        ferryi_fail(FERRY_ERROR_DEVICE, "%s", before ? before : "");
    }
    free(before);
}
