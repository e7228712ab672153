/* SPDX-License-Identifier: MIT */
#include "src/store/claim.h"

#include <assert.h>

#include "src/base/callback.h"

/* References to a store: one for each handle and each lease. The last one frees it, or leaves that
 * to the last claim. */

bool
ferryi_store_retain(ferryi_store *store, size_t end)
{
    ferryi_store_lock(store);
    bool fits = end <= store->map.bytes;
    store->references += fits;
    ferryi_store_unlock(store);
    return fits;
}

bool
ferryi_store_retain_living(ferryi_store *store)
{
    ferryi_store_lock(store);
    /* Without a reference, open scopes keep the storage alive only if it is doomed: a store that is
     * being freed has a claim for a moment, too, when bytes go back to the memory that it wraps. */
    bool is_doomed = atomic_load_explicit(&store->word, memory_order_relaxed) & FERRYI_STORE_DOOMED;
    bool living = store->references > 0 || (store->claim_count > 0 && is_doomed);
    store->references += living;
    if (living) /* the new reference keeps the buffer's storage alive, so the removal of the last
                   claim (range lock) must not free the storage */
        atomic_fetch_and_explicit(&store->word, ~(uint64_t)FERRYI_STORE_DOOMED,
                                  memory_order_relaxed);
    ferryi_store_unlock(store);
    return living;
}

/* Logs an error because the program destroys a buffer that has open scopes. These scopes keep the
 * buffer's storage alive. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
report_open_scopes(ferryi_store *store)
{
    uint32_t held = ferryi_store_scopes(store);
    if (held == 0)
        return;
    ferryi_store_unlock(store);
    char scopes[FERRYI_SCOPES_TEXT];
    ferryi_store_describe_scopes(store, scopes, sizeof(scopes));
    ferryi_log(&store->context->log, FERRY_LOG_ERROR,
               "destroy buffer \"%s\": %u scopes are open; closing the last frees it: %s",
               ferryi_store_name(store), held, scopes);
    ferryi_store_lock(store);
}

void
ferryi_store_release(ferryi_store *store)
{
    ferryi_store_lock(store);
    assert(store->references > 0);
    /* If the context was destroyed before the buffer, the open scopes were already reported at that
     * time. */
    if (store->references == 1 && store->claim_count > 0 && !ferryi_store_is_dead(store))
        report_open_scopes(store);
    /* This call waits for running calls that use the buffer, so that the use of the wrapped memory
     * ends during this call. If it did not wait, a different thread could end this use later. The
     * caller may already have freed the memory by then. */
    if (store->references == 1 && store->borrowed_place != FERRYI_PLACE_NONE &&
        !ferryi_store_is_dead(store))
        ferryi_access_outlast_calls(store);
    bool last = --store->references == 0;
    uint32_t claims = store->claim_count;
    if (last && claims > 0)
        atomic_store_explicit(&store->word,
                              atomic_load_explicit(&store->word, memory_order_relaxed) |
                                  FERRYI_STORE_DOOMED,
                              memory_order_relaxed);
    ferryi_store_unlock(store);
    if (last && claims == 0)
        ferryi_store_free(store);
}

/* Returns whether the running callback may drop a reference to a buffer's storage. It must not drop
 * the reference while a call in this thread uses the storage, such as the call that runs the
 * callback. The last reference to wrapped memory also waits for the calls of other threads. */
bool
ferryi_store_may_end(ferryi_store *store)
{
    if (ferryi_callback_only_watches() || ferryi_callback_thread.store == store)
        return false;
    ferryi_store_lock(store);
    bool waits = store->borrowed_place != FERRYI_PLACE_NONE && store->references == 1;
    ferryi_store_unlock(store);
    return waits ? ferryi_access_wait_calls(store, "destroy a buffer") == FERRY_OK
                 : !ferryi_access_has_call(store, ferryi_thread_id());
}
