/* SPDX-License-Identifier: MIT */
#include "src/kernel/launch.h"

/* Launches that a graph records. Nothing runs and no bytes move: a launch of the graph does both.
 */

/* A graph cannot keep the address of a result, which is memory of the caller. */
static ferry_status
refuse_results(const struct ferryi_launch_request *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        if (!plan->arguments[i].is_value && !plan->arguments[i].buffer &&
            plan->arguments[i].pointer)
            return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                               "argument %zu is memory for a result, which a graph cannot keep; "
                               "pass a buffer",
                               i);
    return FERRY_OK;
}

static ferry_status
add_call(const struct ferryi_launch_request *plan, struct ferryi_recording *recording)
{
    struct ferryi_recorded_call *call;
    FERRYI_OR_RETURN(ferryi_host_call_record(plan, &call));
    ferryi_recording_add(recording, call);
    return FERRY_OK;
}

ferry_status
ferryi_launch_record(struct ferryi_launch_request *plan, struct ferryi_loaded_code *code,
                     ferry_status (*queue_code)(const struct ferryi_launch_request *plan,
                                                struct ferryi_loaded_code *code))
{
    struct ferryi_recording *recording = ferryi_recording_of(plan->timeline);
    FERRYI_OR_RETURN(refuse_results(plan));
    plan->merged_count =
        ferryi_access_merge(plan->wanted, plan->wanted_count, plan->merged, plan->group);
    if (plan->merged_count < plan->wanted_count)
        FERRYI_OR_RETURN(ferryi_launch_check_overlaps(plan));
    FERRYI_OR_RETURN(ferryi_recording_prepare(recording, plan->merged, plan->merged_count));
    return ferryi_recording_finish(recording,
                                   code ? queue_code(plan, code) : add_call(plan, recording));
}
