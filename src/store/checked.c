/* SPDX-License-Identifier: MIT */
#include "src/store/checked.h"

#include <stdio.h>

#include "src/debug/guard_pages.h"

void
ferryi_checked_size(const ferryi_store *store, int place, size_t *bytes, size_t *align)
{
    if (store->context->debug && store->memory != FERRY_MEMORY_MANAGED &&
        ferryi_store_same_memory(store, place, FERRY_PLACE_HOST))
        ferryi_guard_pages_round(bytes, align);
}

/* Returns the place of the device whose pool holds the memory; 0 if there is none. */
static int
pool_that_holds(const ferry_context *context, const void *memory)
{
    for (int place = 1; place <= context->place_count; place++) {
        ferry_pool *pool =
            __atomic_load_n(&context->pools[place][FERRY_MEMORY_DEVICE], __ATOMIC_ACQUIRE);
        if (pool && ferryi_pool_holds(pool, memory))
            return place;
    }
    return 0;
}

static ferry_status
refuse_of_device(const ferry_context *context, const char *what, const char *name,
                 const void *memory, int place)
{
    return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                       "%s: buffer \"%s\": %p is memory of %s, not of the host", what, name, memory,
                       context->names[place]);
}

ferry_status
ferryi_checked_memory(ferryi_store *store, const void *memory, const char *what)
{
    ferry_context *context = store->context;
    if (!context->debug)
        return FERRY_OK;
    int place = pool_that_holds(context, memory);
    return place ? refuse_of_device(context, what, ferryi_store_name(store), memory, place)
                 : FERRY_OK;
}

/* Returns who may use the memory, as the device at `place` knows it. Everybody may if the device
 * does not know. */
static unsigned
users_of(const ferry_context *context, const void *memory, int place)
{
    unsigned users = FERRYI_USER_HOST | FERRYI_USER_DEVICE;
    FERRYI_KEEP_ERROR(kept);
    if (FERRYI_CALL(context->devices[place], memory_users, memory, &users) != FERRY_OK)
        users = FERRYI_USER_HOST | FERRYI_USER_DEVICE;
    return users;
}

ferry_status
ferryi_checked_wrap(const ferry_context *context, const char *name, const void *memory,
                    size_t bytes, int place)
{
    if (!context->debug || bytes == 0)
        return FERRY_OK;
    if (place != FERRY_PLACE_HOST)
        return users_of(context, memory, place) & FERRYI_USER_DEVICE
                   ? FERRY_OK
                   : ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                                 "wrap device memory: buffer \"%s\": %p is memory of the host, "
                                 "which %s cannot use: wrap it with ferry_buffer_wrap_host()",
                                 name ? name : "", memory, context->names[place]);
    int holder = pool_that_holds(context, memory);
    for (int device = 1; device <= context->place_count && !holder; device++)
        if (!(users_of(context, memory, device) & FERRYI_USER_HOST))
            holder = device;
    return holder ? refuse_of_device(context, "wrap host memory", name ? name : "", memory, holder)
                  : FERRY_OK;
}

/* Returns whether a buffer wraps some of the `bytes` bytes at `memory`, and may write if `writes`
 * is false. */
static bool
wraps_some(ferryi_store *store, const char *memory, size_t bytes, bool writes)
{
    bool overlaps = false;
    ferryi_store_lock(store);
    if (store->borrowed_place != FERRYI_PLACE_NONE && (writes || !store->read_only)) {
        const char *other = store->copies[store->borrowed_place].pointer;
        overlaps = ferryi_overlap((uintptr_t)memory, (uintptr_t)memory + bytes, (uintptr_t)other,
                                  (uintptr_t)other + store->map.bytes);
    }
    ferryi_store_unlock(store);
    return overlaps;
}

/* Reads the member of a new buffer that no other thread has a handle of. */
static const char *
wrapped_memory(ferryi_store *store, size_t *out_bytes)
{
    ferryi_lock_is_needless(FERRYI_CLASS(ferryi_store_spin));
    *out_bytes = store->map.bytes;
    return store->copies[store->borrowed_place].pointer;
}

void
ferryi_checked_wrapped(ferryi_store *store)
{
    ferry_context *context = store->context;
    char name[128] = "";
    bool found = false;
    if (!context->debug)
        return;
    size_t bytes;
    const char *memory = wrapped_memory(store, &bytes);
    ferryi_mutex_lock(&context->store_mutex);
    for (ferryi_store *other = context->stores; other && bytes > 0 && !found; other = other->next) {
        found = other != store && wraps_some(other, memory, bytes, !store->read_only);
        if (found)
            snprintf(name, sizeof(name), "%s", ferryi_store_name(other));
    }
    ferryi_mutex_unlock(&context->store_mutex);
    if (found)
        ferryi_log(&context->log, FERRY_LOG_WARNING,
                   "wrap memory: buffers \"%s\" and \"%s\" wrap the same bytes, and one may write "
                   "them: each has its own newest values, so use one buffer and views of it",
                   ferryi_store_name(store), name);
}
