/* SPDX-License-Identifier: MIT */
#include "src/store/store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/callback.h"
#include "src/base/sanitizer.h"
#include "src/debug/debug.h"
#include "src/store/claim.h"
#include "src/store/lease_list.h"
#include "src/store/pending_calls.h"
#include "src/store/shared.h"
#include "src/store/spare_stores.h"
#include "src/store/watch.h"

/* The address sanitizer finds uses of freed stores only if they are freed. */
#define KEEPS_STORES (!FERRYI_ADDRESS_SANITIZER)
#define SPARE_CLAIMS 64 /* a store with a larger table of range locks does not become spare */

static void
free_memory(ferryi_store *store)
{
    ferryi_lock_is_needless(FERRYI_CLASS(ferryi_store_spin));
    ferryi_valid_map_clear(&store->map);
    free(store->claims);
    free(store);
}

static void
free_cold(struct ferryi_store_cold *cold)
{
    if (!cold)
        return;
    free(cold->name);
    free(cold->lost_text);
    ferryi_lock_is_needless(FERRYI_CLASS(ferryi_store_spin));
    free(cold->waste);
    free(cold);
}

static ferry_status
make_name(const char *name, struct ferryi_store_cold **out)
{
    struct ferryi_store_cold *cold = calloc(1, sizeof(*cold));
    if (cold && (cold->name = strdup(name))) {
        ferryi_text_make_line(cold->name);
        *out = cold;
        return FERRY_OK;
    }
    free(cold);
    return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "create buffer \"%s\": no memory for its name",
                       name);
}

/* Adds a new store (the storage of a buffer) to the context's list. The store has no handle and no
 * replica yet. */
FERRYI_REQUIRES(ferryi_stores_mutex)
static void
list(ferry_context *context, ferryi_store *store)
{
    store->next = context->stores;
    *(store->next ? &store->next->prev : &context->oldest_store) = store;
    context->stores = store;
    context->store_count++;
}

/* Sets the members of a store that depend on its buffer, and gives it the first reference. The
 * other members are zero, or a spare store keeps them. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
begin(ferryi_store *store, size_t bytes, const ferry_buffer_options *options)
{
    ferryi_valid_map_reuse(&store->map, bytes);
    /* What the last buffer may have left. No other thread writes the word while the store is locked
     * or not yet listed. */
    const uint64_t word = atomic_load_explicit(&store->word, memory_order_relaxed);
    atomic_store_explicit(&store->word,
                          word & ~(uint64_t)(FERRYI_STORE_PENDING_CALLS | FERRYI_STORE_WAITERS),
                          memory_order_relaxed);
    store->visited = (uint32_t)store->next_id;
    store->references = 1;
    store->exists = 0;
    store->crowded = false;
    store->read_only = false;
    store->memory = (uint8_t)options->memory;
    store->align_shift = options->align ? (uint8_t)__builtin_ctzll(options->align) : 8;
    store->scrub = options->scrub;
    store->zero_on_release = options->zero_on_release;
    store->borrowed_place = FERRYI_PLACE_NONE;
    store->shared =
        options->memory == FERRY_MEMORY_MANAGED ? UINT32_MAX : (store->context->coherent | 1u);
}

static ferryi_store *
allocate(ferry_context *context, size_t bytes, const ferry_buffer_options *options, bool listed,
         struct ferryi_store_cold *cold)
{
    ferryi_lock_is_needless(FERRYI_CLASS(ferryi_store_spin));
    ferryi_store *store = calloc(1, sizeof(*store) + (size_t)(context->place_count + 1) *
                                                         sizeof(struct ferryi_place_copy));
    if (!store)
        return NULL;
    ferryi_shell_retain(context);
    store->context = context;
    atomic_init(&store->word, context->store_word);
    atomic_init(&store->cold, cold);
    ferryi_mutex_lock(&context->store_mutex);
    store->next_id = context->last_id;
    begin(store, bytes, options);
    store->is_listed = listed;
    if (listed)
        list(context, store);
    ferryi_mutex_unlock(&context->store_mutex);
    return store;
}

/* Returns a spare store as a new one, or NULL. */
static ferryi_store *
reuse(ferry_context *context, size_t bytes, const ferry_buffer_options *options)
{
    ferryi_store *store = ferryi_spare_store_take(context);
    if (!store)
        return NULL;
    ferryi_store_lock(store);
    assert(store->claim_counts == 0 && store->write_claims == 0 && store->first.offset == 0);
    begin(store, bytes, options);
    ferryi_store_unlock(store);
    return store;
}

ferry_status
ferryi_store_create(ferry_context *context, size_t bytes, const ferry_buffer_options *options,
                    bool listed, ferryi_store **out)
{
    static const ferry_buffer_options defaults;
    if (!options)
        options = &defaults;
    struct ferryi_store_cold *cold = NULL;
    if (options->name)
        FERRYI_OR_RETURN(make_name(options->name, &cold));
    ferryi_store *store = listed && !cold ? reuse(context, bytes, options) : NULL;
    if (!store)
        store = allocate(context, bytes, options, listed, cold);
    if (!store) {
        free_cold(cold);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "create a buffer: no memory for its description");
    }
    ferryi_watch_created(store, bytes);
    *out = store;
    return FERRY_OK;
}

ferry_buffer *
ferryi_store_open(ferryi_store *store, const ferry_element *interned, size_t count)
{
    ferry_buffer *buffer = &store->first;
    buffer->identity = interned->identity;
    buffer->element = interned;
    buffer->element_bytes = (uint32_t)interned->bytes;
    atomic_init(&buffer->count, count);
    buffer->store = store;
    if (interned->align > ferryi_store_align(store))
        store->align_shift = (uint8_t)__builtin_ctzll(interned->align);
    atomic_store_explicit(&buffer->owners,
                          FERRYI_HANDLE_OWNER | (store->read_only ? FERRYI_HANDLE_READ_ONLY : 0),
                          memory_order_release);
    atomic_store_explicit(&store->site, ferryi_shell_site(store->context, FERRYI_SITE_UNKNOWN),
                          memory_order_release);
    return buffer;
}

void
ferryi_store_unlist(ferryi_store *store)
{
    ferry_context *context = store->context;
    if (!store->prev && context->stores != store)
        return;
    *(store->prev ? &store->prev->next : &context->stores) = store->next;
    *(store->next ? &store->next->prev : &context->oldest_store) = store->prev;
    if (context->hand == store)
        context->hand = store->prev;
    context->store_count--;
    store->next = store->prev = NULL;
}

static void
call_on_release(const ferryi_store *store, void *memory)
{
    struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    if (!cold || !cold->on_release)
        return;
    void (*on_release)(void *memory, void *user) = cold->on_release;
    cold->on_release = NULL;
    struct ferryi_callback running;
    struct ferryi_kept_error kept;
    ferryi_last_error_keep(&kept);
    ferryi_callback_enter(&running, FERRYI_CALLBACK_WORKING, "on_release");
    running.in_any_call = true;
    running.context = store->context;
    on_release(memory, cold->on_release_user);
    ferryi_callback_leave(&running);
    ferryi_last_error_restore(&kept);
}

/* Returns the timeline that must wait for the last uses of wrapped memory, or NULL if the host must
 * wait. */
static ferryi_timeline *
release_timeline(const ferryi_store *store)
{
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    return cold && cold->release_on ? cold->release_on->timeline : NULL;
}

static ferry_status
wait_for_uses(ferryi_order *order, ferryi_timeline *timeline, const struct ferryi_place_copy *copy)
{
    const struct ferryi_uses uses = ferryi_copy_uses(copy);
    return ferryi_uses_wait(order, timeline, &uses, NULL);
}

/* Waits for all uses by synchronizing their devices, which needs neither events nor memory. */
static bool
wait_for_devices(ferryi_order *order, const struct ferryi_place_copy *copy)
{
    const struct ferryi_uses uses = ferryi_copy_uses(copy);
    uint64_t users = uses.readers | UINT64_C(1) << ferryi_sync_point_number(uses.written) |
                     UINT64_C(1) << ferryi_sync_point_number(uses.read);
    users &= ~UINT64_C(1); /* no timeline has the number 0 */
    bool ended = true;
    for (; users; users &= users - 1) {
        const ferryi_sync_point any = ferryi_sync_point_make((unsigned)__builtin_ctzll(users), 0);
        ended = ferryi_sync_point_wait_for_device(order, any) == FERRY_OK && ended;
    }
    return ended;
}

/* Ends the use of memory that other processes share. If the buffer is acquired, and all its bytes
 * are there, hands it over. */
static void
end_sharing(ferryi_store *store, struct ferryi_store_cold *cold, bool is_whole)
{
    struct ferryi_shared *shared = cold->shared;
    if (!ferryi_store_is_away(store))
        ferryi_shared_release(shared, is_whole ? 0 : (uint32_t)getpid());
    cold->shared = NULL;
    ferryi_shared_end(shared);
}

/* Notifies the owner of borrowed memory that all uses of the memory are complete, or that the
 * owner's stream waits for them. If the stream cannot wait, the host waits before the notification.
 * `is_whole` says whether newer bytes have reached the memory.
 */
static void
release_borrowed(ferryi_store *store, struct ferryi_place_copy *copy, bool is_whole)
{
    void *memory = copy->pointer;
    struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    ferryi_order *order = &store->context->order;
    ferryi_timeline *timeline = release_timeline(store);
    const bool ended = ferryi_store_is_dead(store) ||
                       (timeline && wait_for_uses(order, timeline, copy) == FERRY_OK) ||
                       wait_for_uses(order, NULL, copy) == FERRY_OK ||
                       wait_for_devices(order, copy);
    if (!ended)
        ferryi_log(&store->context->log, FERRY_LOG_ERROR, "end the wrap of buffer \"%s\": %s",
                   ferryi_store_name(store), ferry_last_error());
    if (cold && cold->shared)
        end_sharing(store, cold, is_whole && ended);
    call_on_release(store, memory);
}

static void
release_copies(ferryi_store *store, bool is_whole)
{
    struct ferryi_place_copy copies[FERRYI_PLACES_MAX];
    int count = store->context->place_count + 1;
    /* The lock is needed although no handle is left: a call that runs out of memory, or looks for
     * memory to evict, walks the context's list of buffers. */
    ferryi_store_lock(store);
    memcpy(copies, store->copies, (size_t)count * sizeof(copies[0]));
    memset(store->copies, 0, (size_t)count * sizeof(copies[0]));
    ferryi_store_unlock(store);
    for (int place = 0; place < count; place++) {
        struct ferryi_place_copy *copy = &copies[place];
        if (copy->block) {
            ferryi_watch_gone(store->context, copy->pointer, "was destroyed");
            ferryi_store_give_back(store->context, copy);
        } else if (copy->pointer) {
            release_borrowed(store, copy, is_whole);
        }
    }
    /* Wrapped memory of zero bytes may have the address NULL. The loop above skips such memory, so
     * its owner is notified here. */
    struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    if (cold && cold->on_release)
        release_borrowed(store, &(struct ferryi_place_copy){0}, is_whole);
    if (cold && cold->release_on) {
        ferryi_stream_release(cold->release_on);
        cold->release_on = NULL;
    }
}

/* Ends the use of wrapped memory: copies newer bytes back to this memory, just as
 * ferry_buffer_unwrap() does. A failure is logged, because no caller could receive it. Returns
 * whether all bytes are there. */
static bool
end_wrap(ferryi_store *store)
{
    if (store->borrowed_place == FERRYI_PLACE_NONE || !ferryi_store_is_usable(store))
        return true;
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    if (cold && cold->shared && ferryi_shared_is_last(cold->shared))
        return true;
    ferryi_timeline *timeline = release_timeline(store);
    if ((timeline && store->context->store_calls->bring_back(store, timeline) == FERRY_OK) ||
        store->context->store_calls->bring_back(store, NULL) == FERRY_OK)
        return true;
    ferryi_log(&store->context->log, FERRY_LOG_ERROR,
               "end the wrap of buffer \"%s\": newer bytes did not reach the wrapped memory: %s",
               ferryi_store_name(store), ferry_last_error());
    return false;
}

/* Removes a store (the storage of a buffer) from the context's list. */
static void
unlist(ferry_context *context, ferryi_store *store)
{
    ferryi_lock_is_needless(FERRYI_CLASS(ferryi_store_spin));
    ferryi_mutex_lock(&context->store_mutex);
    ferryi_store_unlist(store);
    context->last_id = store->next_id > context->last_id ? store->next_id : context->last_id;
    ferryi_mutex_unlock(&context->store_mutex);
}

static void
free_header(void *header)
{
    ferryi_store *store = header;
    ferry_context *context = store->context;
    free_cold(ferryi_store_cold_of(store));
    free_memory(store);
    ferryi_shell_release(context);
}

/* Returns whether the store may become spare: it was that of a small buffer, and no other thread
 * can be reading its rarely used members. */
static bool
may_be_spare(const ferryi_store *store)
{
    ferryi_lock_is_needless(FERRYI_CLASS(ferryi_store_spin));
    if (!KEEPS_STORES)
        return false;
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    return store->is_listed && !store->context->debug && !ferryi_store_is_dead(store) &&
           store->claim_capacity <= SPARE_CLAIMS &&
           (!cold || (!cold->name && !cold->lost_text && atomic_load(&cold->number) == 0));
}

/* Makes a store spare that has no reference, no range lock and no replica left, if it can be. Walks
 * over the context's list may still read the members that are set here. */
static bool
retire(ferryi_store *store)
{
    if (!may_be_spare(store))
        return false;
    struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    if (cold) {
        ferryi_traffic_reset(&cold->traffic);
        cold->lost_status = FERRY_OK;
    }
    atomic_store_explicit(&store->site, FERRYI_SITE_NONE, memory_order_relaxed);
    return ferryi_spare_store_put(store->context, store);
}

static void
discard(ferryi_store *store)
{
    ferry_context *context = store->context;
    unlist(context, store);
    /* The quarantined storage keeps the buffer's name. So a use of the destroyed handle can be
     * reported by name. */
    store->first.identity = context->debug ? FERRYI_BUFFER_GONE : FERRYI_BUFFER_FREED;
    ferryi_quarantine_free(context->debug, store, free_header);
}

void
ferryi_store_free(ferryi_store *store)
{
    ferry_context *context = store->context;
    if (context->inherited)
        return;
    if (atomic_load_explicit(&store->word, memory_order_relaxed) & FERRYI_STORE_DOOMED) {
        /* The function end_wrap() adds a claim (range lock) and removes it. While
         * FERRYI_STORE_DOOMED is set, removing that claim would free the buffer's storage a second
         * time. So the bit is cleared first. */
        ferryi_store_lock(store);
        atomic_fetch_and_explicit(&store->word, ~(uint64_t)FERRYI_STORE_DOOMED,
                                  memory_order_relaxed);
        ferryi_store_unlock(store);
    }
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    bool ends_wrap = cold && (cold->on_release || cold->shared);
    if (ends_wrap) {
        ferryi_shell_retain(context);
        atomic_fetch_add(&context->ending_wraps, 1);
        unlist(context, store); /* no other thread must find it while on_release runs */
    }
    const bool is_whole = end_wrap(store);
    ferryi_pending_calls_cut(store);
    release_copies(store, is_whole);
    if (ends_wrap || !retire(store))
        discard(store);
    if (ends_wrap) {
        atomic_fetch_sub(&context->ending_wraps, 1);
        ferryi_shell_release(context);
    }
}

bool
ferryi_stores_free_spare(ferry_context *context)
{
    bool any = false;
    for (ferryi_store *store; (store = ferryi_spare_store_take_any(context)); any = true)
        discard(store);
    return any;
}

void
ferryi_store_kill(ferryi_store *store)
{
    const bool is_whole = end_wrap(store);
    release_copies(store, is_whole);
    ferryi_store_lock(store);
    store->exists = 0;
    /* Timelines are freed with the context, so the claims (range locks) must not refer to them. A
     * scope that is closed after this point records no use. */
    FERRYI_EACH_CLAIM (store, claim)
        claim->timeline = NULL;
    atomic_fetch_or(&store->word, FERRYI_STORE_DEAD);
    ferryi_store_unlock(store);
}

void
ferryi_store_after_fork(ferryi_store *store)
{
    ferryi_lock_is_needless(FERRYI_CLASS(ferryi_store_spin));
    /* Members that another thread may have been changing at the fork are not freed. They are
     * cleared, so the buffer becomes empty and its lock is free. */
    struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    if (cold) {
        atomic_store(&cold->pending_calls, NULL);
        cold->lost_text = NULL;
        cold->leases = NULL;
        cold->lease_count = 0;
    }
    store->claims = NULL;
    store->claim_count = store->claim_high = store->claim_capacity = store->write_claims = 0;
    store->exists = 0;
    store->crowded = false;
    memset(store->copies, 0, (size_t)(store->context->place_count + 1) * sizeof(store->copies[0]));
    ferryi_valid_map_init(&store->map, store->map.bytes, 0);
    atomic_store(&store->word, FERRYI_STORE_DEAD);
}
