/* SPDX-License-Identifier: MIT */
#include "src/store/spare_stores.h"

#include <assert.h>

#include "src/base/hold.h"

typedef _Atomic(struct ferryi_store *) slot;

/* Fibonacci hashing (Knuth, The Art of Computer Programming 3, section 6.4) of an address that each
 * thread has for itself. The addresses of several threads may differ by large powers of two. */
static slot *
row_of_thread(ferry_context *context)
{
    static_assert(FERRYI_SPARE_ROWS == 16, "four bits");
    return context
        ->spare_stores[(uintptr_t)&ferryi_hold_thread * UINT64_C(0x9e3779b97f4a7c15) >> 60];
}

static struct ferryi_store *
take_from(slot *row)
{
    struct ferryi_store *store = NULL;
    for (size_t i = 0; i < FERRYI_SPARE_SLOTS && !store; i++)
        if (atomic_load_explicit(&row[i], memory_order_relaxed))
            store = atomic_exchange_explicit(&row[i], NULL, memory_order_acquire);
    return store;
}

struct ferryi_store *
ferryi_spare_store_take(ferry_context *context)
{
    return take_from(row_of_thread(context));
}

struct ferryi_store *
ferryi_spare_store_take_any(ferry_context *context)
{
    struct ferryi_store *store = NULL;
    for (size_t row = 0; row < FERRYI_SPARE_ROWS && !store; row++)
        store = take_from(context->spare_stores[row]);
    return store;
}

bool
ferryi_spare_store_put(ferry_context *context, struct ferryi_store *store)
{
    slot *row = row_of_thread(context);
    for (size_t i = 0; i < FERRYI_SPARE_SLOTS; i++) {
        struct ferryi_store *none = NULL;
        if (!atomic_load_explicit(&row[i], memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&row[i], &none, store, memory_order_release,
                                                    memory_order_relaxed))
            return true;
    }
    return false;
}
