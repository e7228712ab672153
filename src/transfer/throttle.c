/* SPDX-License-Identifier: MIT */
#include "src/transfer/throttle.h"

ferry_status
ferryi_throttle_begin(struct ferryi_throttle *throttle)
{
    return ferryi_sync_point_wait(throttle->timeline->order, NULL,
                                  throttle->parts[throttle->begun % 2]);
}

ferry_status
ferryi_throttle_end(struct ferryi_throttle *throttle)
{
    ferryi_timeline *timeline = throttle->timeline, *on;
    FERRYI_OR_RETURN(ferryi_timeline_join(timeline, ferryi_thread_id(), timeline->generation, &on));
    throttle->parts[throttle->begun++ % 2] =
        on ? ferryi_timeline_sync_point_since(on, on->generation) : 0;
    /* Records the event now, so that a wait for this part of the transfer does not include the next
     * part. */
    return on ? ferryi_timeline_flush(on) : FERRY_OK;
}
