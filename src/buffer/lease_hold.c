/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/buffer/buffer.h"
#include "src/buffer/lease.h"

/* Leases without a scope, which hold the memory of a buffer. No handle of the program leads to
 * them. */

void
ferryi_lease_let_go(ferry_lease *lease)
{
    ferryi_store *store = lease->store;
    ferryi_store_lock(store);
    /* In the child of a fork the lists are empty. */
    if (!store->context->inherited)
        ferryi_lease_detach(lease, store);
    ferryi_store_unlock(store);
    ferryi_store_release(store);
}

/* Ends a lease whose context the lease does not own. */
static void
end(ferry_lease *lease)
{
    ferryi_lease_let_go(lease);
    free(lease);
}

ferry_status
ferryi_lease_hold(ferryi_store *store, int place, const char *label, ferry_lease **out)
{
    bool has_list = ferryi_store_cold_of(store) || ferryi_store_make_cold(store);
    ferry_lease *lease = has_list ? ferryi_lease_new(label) : NULL;
    if (!lease)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "hold buffer \"%s\": no memory for a lease",
                           ferryi_store_name(store));
    lease->context = store->context;
    atomic_store(&lease->closed, true);
    ferryi_store_lock(store);
    ferryi_lease_attach(lease, store, place);
    ferryi_store_unlock(store);
    ferry_status status = ferryi_store_reserve(store, place, NULL);
    if (status == FERRY_OK && !ferryi_shell_try_own(store->context))
        status = ferryi_fail(FERRY_ERROR_INVALID_STATE,
                             "hold buffer \"%s\": its context is being destroyed",
                             ferryi_store_name(store));
    if (status != FERRY_OK) {
        end(lease);
        return status;
    }
    ferryi_store_lock(store);
    lease->pointer = ferryi_store_copy(store, place)->pointer;
    ferryi_store_unlock(store);
    *out = lease;
    return FERRY_OK;
}

void
ferryi_lease_release(ferry_lease *lease)
{
    ferry_context *context = lease->context;
    end(lease);
    ferryi_shell_disown(&context);
}
