/* SPDX-License-Identifier: MIT */
#include "src/copy/copy.h"
#include "src/copy/plan.h"

/* Runs plans. A plan is a list of copies, grouped into levels. A level begins after the previous
 * level has been submitted. Each level is one run of the plan's move. */

/* A range of a buffer whose bytes are current at the same places, of which `home` was chosen. */
struct choice {
    const ferryi_store *store;
    struct ferryi_range range;
    int home;
};

/* Returns the place where a copy from memory writes the range `to` of its target. The copies are
 * sorted by target, so that most of them have the place of the copy before, which `last` holds. */
static int
home_of(ferryi_store *store, struct ferryi_range to, struct choice *last)
{
    if (last->store == store && last->range.begin <= to.begin && to.end <= last->range.end)
        return last->home;
    ferryi_store_lock(store);
    const struct ferryi_segment segment = ferryi_valid_map_at(&store->map, to.begin);
    ferryi_store_unlock(store);
    *last = (struct choice){store, {to.begin, segment.end}, ferryi_copy_home(store, to)};
    if (segment.end < to.end)
        last->store = NULL;
    return last->home;
}

/* Returns the place where a copy writes its target buffer. */
static int
target_place(const ferryi_plan *plan, const struct ferryi_row *copy, struct choice *last)
{
    struct ferryi_range to = {copy->target, copy->target + copy->bytes},
                        from = {copy->source, copy->source + copy->source_bytes};
    if (plan->place >= 0 || !copy->target_store)
        return plan->place;
    return copy->source_store
               ? ferryi_copy_meeting_place(copy->target_store, to, copy->source_store, from)
               : home_of(copy->target_store, to, last);
}

static ferry_status
run_level(ferryi_plan *plan, size_t begin, size_t end)
{
    struct choice last = {.store = NULL};
    ferry_status status = ferryi_move_expect(&plan->move, end - begin);
    for (size_t i = begin; i < end && status == FERRY_OK; i++) {
        const struct ferryi_row *copy = &plan->copies[i];
        int place = target_place(plan, copy, &last);
        status = ferryi_row_add(&plan->move, copy, &place, plan->place < 0 || copy->between);
    }
    return ferryi_move_run(&plan->move, status);
}

static ferry_status
run_levels(ferryi_plan *plan)
{
    ferry_status status = FERRY_OK;
    for (uint32_t level = 0; level < plan->level_count && status == FERRY_OK; level++)
        status = run_level(plan, level ? plan->level_ends[level - 1] : 0, plan->level_ends[level]);
    return status;
}

ferry_status
ferryi_plan_run(struct ferryi_whole_call *call)
{
    ferryi_plan *plan = (ferryi_plan *)call;
    struct ferryi_whole_call *whole = plan->options.whole;
    if (whole)
        call->job = whole->job;
    call->job.reason = plan->options.reason;
    ferryi_move_begin(&plan->move, call->async.context, plan->options.reason, &call->job);
    plan->move.arena = &call->arena;
    plan->move.layout = plan->options.layout;
    plan->move.host_side = plan->options.host_side;
    if (plan->options.value) {
        plan->move.value = plan->options.value;
        plan->move.value_bytes = plan->options.value_bytes;
    }
    ferry_status status = run_levels(plan);
    call->timelines |= plan->move.timelines;
    if (whole)
        ferryi_whole_call_note(whole, &call->job, call->timelines);
    ferryi_move_end(&plan->move);
    if (plan->options.cut)
        *plan->options.cut = plan->move.cut;
    /* Of a file, the caller says what arrived. What arrived in temporary memory is not counted. */
    const bool silent =
        plan->options.host_side.file || plan->move.cut || (whole && whole->job.result);
    return status == FERRY_OK || silent
               ? status
               : ferryi_fail_in(status, "%s of %zu copies, %zu of %zu bytes of which arrived",
                                plan->options.reason, plan->count, call->job.done, call->job.total);
}
