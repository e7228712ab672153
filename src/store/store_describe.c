/* SPDX-License-Identifier: MIT */
#include "src/store/lease_list.h"

#include <stdio.h>

/* Texts about the open scopes of a buffer, for messages. */

/* Returns the name of the public call that opens a scope with this access at this place, for traces
 * and messages. */
const char *
ferryi_scope_call(int access, int place)
{
    static const char *const calls[2][4] = {
        {"open_host", "read_host", "update_host", "overwrite_host"},
        {"open_device", "read_device", "update_device", "overwrite_device"}};
    return calls[place != 0][access >= FERRY_READ && access <= FERRY_OVERWRITE ? access : 0];
}

int
ferryi_store_describe_scope(const ferryi_store *store, const struct ferryi_claim *claim, char *text,
                            size_t text_bytes)
{
    const char *site = ferryi_site_text(store->context->debug ? claim->site : FERRYI_SITE_NONE);
    const char *label = ferryi_lease_label(store, claim);
    return snprintf(text, text_bytes, "%s of bytes %zu to %zu%s%s%s%s",
                    ferryi_scope_call(claim->access, claim->place), claim->begin, claim->end,
                    *site ? " by " : "", site, label ? ", held by " : "",
                    !label || *label ? (label ? label : "") : "a lease");
}

void
ferryi_store_describe_scopes(ferryi_store *store, char *text, size_t text_bytes)
{
    size_t length = 0;
    *text = 0;
    ferryi_store_lock(store);
    FERRYI_EACH_CLAIM (store, claim) {
        if (length >= text_bytes || claim->state != FERRYI_CLAIM_HELD)
            continue;
        if (length > 0)
            length += (size_t)snprintf(text + length, text_bytes - length, "; ");
        if (length < text_bytes)
            length += (size_t)ferryi_store_describe_scope(store, claim, text + length,
                                                          text_bytes - length);
    }
    ferryi_store_unlock(store);
}

ferry_status
ferryi_store_fail_unusable(const ferryi_store *store, const char *reason)
{
    if (!ferryi_store_is_dead(store))
        return ferryi_fail(FERRY_ERROR_INVALID_STATE,
                           "%s buffer \"%s\": other processes share it, and this one has not "
                           "acquired it",
                           reason, ferryi_store_name(store));
    return ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s buffer \"%s\": its context %s", reason,
                       ferryi_store_name(store), ferryi_shell_why_closed(store->context));
}
