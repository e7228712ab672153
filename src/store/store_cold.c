/* SPDX-License-Identifier: MIT */
#include "src/store/store.h"

#include <stdlib.h>

struct ferryi_store_cold *
ferryi_store_make_cold(ferryi_store *store)
{
    struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    if (cold)
        return cold;
    struct ferryi_store_cold *fresh = calloc(1, sizeof(*fresh));
    if (!fresh || atomic_compare_exchange_strong(&store->cold, &cold, fresh))
        return fresh;
    free(fresh);
    return cold;
}

ferry_status
ferryi_store_make_counters(ferryi_store *store, const char *what)
{
    if (ferryi_store_make_cold(store))
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "%s buffer \"%s\": no memory for its counters",
                       what, ferryi_store_name(store));
}
