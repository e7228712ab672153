/* SPDX-License-Identifier: MIT */
#include "src/transfer/throttle.h"

#include <stdlib.h>

ferry_status
ferryi_throttle_begin(struct ferryi_throttle *throttle)
{
    ferryi_device *device = throttle->timeline->device;
    void **event = &throttle->events[throttle->begun % FERRYI_THROTTLE_PARTS];
    return *event ? ferryi_device_wait_event(device, *event)
                  : FERRYI_CALL(device, event_create, false, event);
}

ferry_status
ferryi_throttle_end(struct ferryi_throttle *throttle)
{
    void *event = throttle->events[throttle->begun++ % FERRYI_THROTTLE_PARTS];
    return FERRYI_CALL(throttle->timeline->device, event_record, event, throttle->timeline->native);
}

void
ferryi_throttle_clear(struct ferryi_throttle *throttle)
{
    for (size_t i = 0; i < FERRYI_THROTTLE_PARTS; i++)
        if (throttle->events[i])
            ferryi_throttle_drop_event(throttle->log, throttle->timeline->device,
                                       throttle->events[i]);
}

void
ferryi_throttle_drop_event(const struct ferryi_log *log, ferryi_device *device, void *event)
{
    struct ferryi_kept_error before;
    ferryi_last_error_keep(&before);
    if (FERRYI_CALL(device, event_destroy, event) != FERRY_OK) {
        ferryi_log(log, FERRY_LOG_ERROR, "give back an event of a transfer: %s",
                   ferry_last_error());
        ferryi_last_error_restore(&before);
    }
}
