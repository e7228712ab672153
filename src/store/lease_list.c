/* SPDX-License-Identifier: MIT */
#include "src/store/lease_list.h"

#include <stdlib.h>
#include <string.h>

ferry_lease *
ferryi_lease_new(const char *label)
{
    size_t bytes = label ? strlen(label) + 1 : 1;
    ferry_lease *lease = malloc(sizeof(*lease) + bytes);
    if (!lease)
        return NULL;
    atomic_init(&lease->shares, 1);
    atomic_init(&lease->closed, false);
    lease->is_unordered = false;
    lease->guest = NULL;
    lease->scope = (struct ferryi_scope){0};
    memcpy(lease->label, label ? label : "", bytes);
    ferryi_text_make_line(lease->label);
    return lease;
}

FERRYI_REQUIRES(ferryi_store_spin)
static const ferry_lease *
first_of(const ferryi_store *store)
{
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    return cold ? cold->leases : NULL;
}

uint32_t
ferryi_leases_at(const ferryi_store *store, int place)
{
    uint32_t count = 0;
    for (const ferry_lease *lease = first_of(store); lease; lease = lease->next)
        count += lease->place == place;
    return count;
}

const char *
ferryi_lease_label(const ferryi_store *store, const struct ferryi_claim *claim)
{
    for (const ferry_lease *lease = first_of(store); lease; lease = lease->next)
        if (lease->scope.id == claim->id && lease->scope.store)
            return lease->label;
    return NULL;
}

size_t
ferryi_lease_labels(const ferryi_store *store, char *text, size_t text_bytes)
{
    size_t length = 0;
    if (text_bytes > 0)
        *text = 0;
    for (const ferry_lease *lease = first_of(store); lease; lease = lease->next)
        if (*lease->label)
            ferryi_text_append(text, text_bytes, &length, "%s%s", length > 0 ? "; " : "",
                               lease->label);
    return length;
}

ferry_status
ferryi_leases_check_none(ferryi_store *store, int place, const char *what)
{
    char labels[FERRYI_SCOPES_TEXT];
    ferryi_store_lock(store);
    uint32_t count =
        place == FERRYI_PLACE_NONE ? ferryi_lease_count(store) : ferryi_leases_at(store, place);
    (void)ferryi_lease_labels(store, labels, sizeof(labels));
    ferryi_store_unlock(store);
    if (count == 0)
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_BUSY,
                       "%s buffer \"%s\": %u lease%s its memory%s%s; destroy the lease first", what,
                       ferryi_store_name(store), count, count == 1 ? " keeps" : "s keep",
                       *labels ? ", held by " : "", labels);
}
