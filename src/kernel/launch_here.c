/* SPDX-License-Identifier: MIT */
#include "src/buffer/scope_hit.h"
#include "src/kernel/launch.h"

/*
 * Launches whose host function runs on the launching thread, before the launch returns. If every
 * array is current at the place, and nothing else uses it, each access is opened and closed on the
 * hit path of scopes (scope_hit.h). Such a launch copies no argument, allocates nothing, and is not
 * tracked as a pending call, because no other call can see it pending.
 *
 * Any other launch takes the path of all devices. So does the rest of a launch whose host function
 * fails (host_call.c).
 */

bool
ferryi_launch_is_here(const struct ferryi_launch_request *plan)
{
    return plan->timeline->device->capabilities & FERRYI_DEVICE_CALLS_HERE;
}

/* Returns whether the host function can use the arguments where they are. */
static bool
arguments_fit(const struct ferryi_launch_request *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const ferry_argument *argument = &plan->arguments[i];
        if (!argument->is_value || plan->kernel->parameters[i].access != 0)
            continue;
        if (!plan->kernel->parameters[i].element && argument->element)
            return false;
        if ((uintptr_t)ferryi_launch_value(plan, i) & (argument->align - 1))
            return false;
    }
    return true;
}

/* Opens an access on the hit path. Returns false, and changes nothing, if this is not possible. */
static bool
open_hit(struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    if (!ferryi_store_lock_plain(store))
        return false;
    struct ferryi_scope scope;
    bool hit = ferryi_scope_open_locked(store, (struct ferryi_range){access->begin, access->end},
                                        access->to_end, (ferry_access)access->access, access->place,
                                        access->timeline, &scope, &access->pointer);
    if (hit) {
        access->slot = scope.slot;
        access->id = scope.id;
        store->claims[scope.slot].state = FERRYI_CLAIM_CALL;
        store->claims[scope.slot].thread = ferryi_thread_id();
    }
    ferryi_store_unlock_plain(store);
    return hit;
}

/* Commits an access of open_hit(), and closes it. */
static ferry_status
close_hit(struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    if (ferryi_store_lock_plain(store)) {
        struct ferryi_claim *claim = &store->claims[access->slot];
        bool is_read = claim->access == FERRY_READ, hit;
        hit =
            (is_read && ferryi_scope_close_read(claim)) || ferryi_scope_close_locked(store, claim);
        if (hit && is_read)
            ferryi_access_free_claim(store, claim, access->slot);
        else if (hit)
            ferryi_access_remove_spent(store, access->slot);
        ferryi_store_unlock_plain(store);
        if (hit)
            return FERRY_OK;
    }
    return ferryi_access_close(access, FERRYI_CLOSE_COMMIT, access->timeline);
}

bool
ferryi_launch_open_here(struct ferryi_launch_request *plan)
{
    const ferry_context *context = plan->kernel->context;
    if (!ferryi_launch_is_here(plan) || context->debug || context->trace ||
        !ferryi_timeline_is_numbered(plan->timeline) || !arguments_fit(plan))
        return false;
    size_t opened = 0;
    while (opened < plan->wanted_count && open_hit(&plan->wanted[opened])) {
        plan->group[opened] = opened;
        opened++;
    }
    if (opened == plan->wanted_count) {
        plan->merged = plan->wanted;
        plan->merged_count = opened;
        return true;
    }
    while (opened > 0) {
        opened--;
        (void)ferryi_access_close(&plan->wanted[opened], FERRYI_CLOSE_CANCEL, plan->timeline);
    }
    return false;
}

/* Closing can fail only if a use of memory cannot be recorded, and on a device that runs its work
 * in the calling thread there is no such use. */
void
ferryi_launch_close_here(const struct ferryi_launch_request *plan)
{
    for (size_t i = 0; i < plan->wanted_count; i++)
        if (close_hit(&plan->wanted[i]) != FERRY_OK)
            ferryi_log(&plan->kernel->context->log, FERRY_LOG_WARNING, "launch kernel \"%s\": %s",
                       plan->kernel->name, ferry_last_error());
}
